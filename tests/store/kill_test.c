/* Writers of one file are killed at random moments, repeatedly. */
#include <signal.h>
#include <stdio.h>

#include "helpers.h"

static void check_whole(const struct place *place)
{
    char answer[64];
    ask_text(place, "PRAGMA integrity_check", answer, sizeof answer);
    CHECK(strcmp(answer, "ok") == 0);
}

/* Checks a session: confirmed turns are there, with at most one turn more; none is missing or
 * duplicated, and the counters agree. Returns the number of turns. */
static int64_t check_turns(const struct place *place, const char *id, int64_t answered)
{
    static const char *const same[] = {
        "SELECT turns_total FROM session WHERE id = ",
        "SELECT input / 10 FROM session WHERE id = ",
        ("SELECT count(DISTINCT turn.id) FROM turn JOIN session ON session = session.key"
         " WHERE turn.id LIKE 'turn_' || number || '_%' AND messages LIKE '%' || turn.id || '%'"
         " AND session.id = "),
        ("SELECT coalesce(max(number), 0) FROM turn JOIN session ON session = session.key"
         " WHERE session.id = "),
        /* The summary covers all turns outside the context, and no others. */
        ("SELECT sum(turns_total) FROM session WHERE (turns_total = 0 OR EXISTS (SELECT 1 FROM"
         " summary WHERE session = key AND messages LIKE '%up to ' || (context_from - 1) || '.%'))"
         " AND context_from BETWEEN max(turns_total, 1) AND turns_total + 1 AND id = "),
    };
    char sql[512];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM turn JOIN session ON session = session.key"
             " WHERE session.id = '%s'",
             id);
    int64_t count = ask_integer(place, sql);
    CHECK(count == answered || count == answered + 1);
    for (size_t i = 0; i < BL_COUNT(same); i++) {
        snprintf(sql, sizeof sql, "%s'%s'", same[i], id);
        CHECK_EQUAL(ask_integer(place, sql), count);
    }
    return count;
}

/* Reads one confirmation of a writer, by number of the session. Returns false at the end. */
static bool read_answer(struct actor *actor, int64_t answered[WRITERS_MAX])
{
    char line[64];
    int64_t number;
    if (!actor_line(actor, line, sizeof line))
        return false;
    if (CHECK(line[0] == 's' && strlen(line) > 4) &&
        bl_text_to_int64(bl_text_from(line + 4), &number) == 0)
        answered[line[2] - '0'] = number;
    return true;
}

/* Kills `rounds` processes in turn, each of which continues with the file of the previous one. */
static void kill_in_turn(int64_t count, unsigned rounds, struct bl_random *random)
{
    struct place place;
    int64_t answered[WRITERS_MAX] = {0}, all = 0;
    char argument[8], line[64];
    place_make(&place);
    snprintf(argument, sizeof argument, "%d", (int)count);
    for (unsigned i = 0; i < rounds; i++) {
        struct actor actor;
        actor_start(&actor, "writer", &place, argument, false);
        CHECK(actor_line(&actor, line, sizeof line) && strstr(line, "open no error") != NULL);
        if (i == 0) /* on a busy machine none might write anything */
            CHECK(read_answer(&actor, answered));
        bl_sleep(bl_random_below(random, 60 * MS));
        kill(actor.pid, SIGKILL);
        while (read_answer(&actor, answered))
            continue;
        CHECK_EQUAL(actor_end(&actor), -1);
        check_whole(&place);
        for (int64_t j = 0; j < count; j++)
            answered[j] = check_turns(&place, writer_ids[j], answered[j]);
    }
    for (int64_t j = 0; j < count; j++)
        all += answered[j];
    CHECK(all > 0);
    place_remove(&place);
}

struct killing {
    int64_t count;
    unsigned long rounds;
};

static int kill_writers(void *argument)
{
    const struct killing *killing = argument;
    struct bl_random random;
    uint64_t seed = 0;
    bl_random_bytes(&seed, sizeof seed);
    bl_random_seed(&random, seed);
    /* The file is checked after each kill, so its size is limited. */
    for (unsigned long left = killing->rounds; left > 0;) {
        unsigned rounds = left < 20 ? (unsigned)left : 20;
        kill_in_turn(killing->count, rounds, &random);
        left -= rounds;
    }
    return 0;
}

static void writer_killed_at_any_moment_leaves_complete_turns(void **state BL_UNUSED)
{
    struct killing killing = {1, suite_rounds(SUITE_SANITIZED ? 6 : 12, 1000)};
    run_in_loop(kill_writers, &killing);
}

static void writers_that_share_commits_are_killed_at_any_moment(void **state BL_UNUSED)
{
    struct killing killing = {WRITERS_MAX, suite_rounds(SUITE_SANITIZED ? 3 : 6, 1000)};
    run_in_loop(kill_writers, &killing);
}

static int kill_makers(void *argument BL_UNUSED)
{
    struct bl_random random;
    uint64_t seed = 0;
    unsigned rounds = (unsigned)suite_rounds(SUITE_SANITIZED ? 4 : 12, 500);
    bl_random_bytes(&seed, sizeof seed);
    bl_random_seed(&random, seed);
    for (unsigned i = 0; i < rounds; i++) {
        struct place place;
        struct actor actor;
        struct holding holding;
        place_make(&place);
        actor_start(&actor, "writer", &place, "1", false);
        bl_sleep(bl_random_below(&random, (SUITE_SANITIZED ? 150 : 15) * MS));
        actor_kill(&actor);
        struct bl_store *store = store_at(&place);
        CHECK_EQUAL(hold(&holding, store, "s-0"), 0);
        add_turn(&holding, "turn_last");
        release(&holding);
        bl_store_close(store);
        check_whole(&place);
        place_remove(&place);
    }
    return 0;
}

static void unfinished_store_is_completed_by_the_next_open(void **state BL_UNUSED)
{
    run_in_loop(kill_makers, NULL);
}

/* ---- Cells ---- */

/* Runs cells forever, one after the other. Each yields, and ends with a receipt and two values that
 * contain its number; ended cells are buried after three more. Reports each confirmed end. */
static int live_cell(struct bl_store_session *held, int64_t number)
{
    static const char digest[32] = "digest";
    char id[32], receipt[32], json[32];
    snprintf(id, sizeof id, "c-%lld", (long long)number);
    snprintf(receipt, sizeof receipt, "rcp_%lld", (long long)number);
    snprintf(json, sizeof json, "%lld", (long long)number);
    struct bl_store_value values[2] = {{.key = BL_TEXT("one"), .json = bl_text_from(json)},
                                       {.key = BL_TEXT("two"), .json = bl_text_from(json)}};
    struct bl_list list;
    bl_list_init(&list);
    bl_list_push_back(&list, &values[0].link);
    bl_list_push_back(&list, &values[1].link);
    struct bl_store_cell cell = {.id = bl_text_from(id),
                                 .digest = {digest, sizeof digest},
                                 .yielded = bl_text_from(json),
                                 .yielded_generation = 1,
                                 .generation = 1,
                                 .terminal = bl_text_from(json)};
    int code = bl_store_cell_admit(held, &cell, NULL);
    if (code == 0)
        code = bl_store_cell_yield(held, &cell, NULL);
    cell.generation = 2;
    if (code == 0)
        code = bl_store_cell_end(held, &cell, &list, receipt, bl_text_from(json), NULL);
    if (code == 0)
        report("%lld", (long long)number);
    snprintf(id, sizeof id, "c-%lld", (long long)number - 3);
    if (code == 0 && number > 3)
        code = bl_store_cell_bury(held, bl_text_from(id), number, 2, UINT64_MAX, NULL);
    return code;
}

int role_cell_writer(void *argument BL_UNUSED)
{
    struct bl_store *store = store_at(&role_place);
    struct holding holding;
    int64_t number = 0;
    bl_text_to_int64(bl_text_from(role_argument), &number);
    int code = hold(&holding, store, "alpha");
    report("%s", bl_error_name(code));
    while (code == 0)
        code = live_cell(holding.held, ++number);
    return 0;
}

/* Checks the cells: confirmed ends are there, with at most one more; values and receipts match the
 * ends. Returns the number of the last ended cell. */
static int64_t check_cells(const struct place *place, int64_t answered)
{
    char sql[96];
    int64_t last = ask_integer(place, "SELECT coalesce(max(cast(substr(id, 3) AS INTEGER)), 0)"
                                      " FROM cell WHERE terminal IS NOT NULL");
    CHECK(last == answered || last == answered + 1);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM cell_value WHERE body = '%lld'",
             (long long)last);
    CHECK_EQUAL(ask_integer(place, sql), last > 0 ? 2 : 0);
    CHECK_EQUAL(
        ask_integer(place, form_sql(place, "SELECT count(*) FROM receipt WHERE id = 'rcp_' || body",
                                    "select count(*) from receipt where id = 'rcp_' ||"
                                    " convert_from(body, 'UTF8')")),
        last);
    CHECK_EQUAL(
        ask_integer(place, form_sql(place,
                                    "SELECT count(*) FROM cell WHERE terminal IS NOT NULL AND"
                                    " (generation <> 2 OR id <> 'c-' || terminal)",
                                    "select count(*) from cell where terminal is not null and"
                                    " (generation <> 2 or id <> 'c-' ||"
                                    " convert_from(terminal, 'UTF8'))")),
        0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM cell WHERE terminal IS NULL") > 1, 0);
    int64_t buried = ask_integer(place, "SELECT count(*) FROM cell_tombstone");
    CHECK_EQUAL(ask_integer(place, form_sql(place, "SELECT tombstones FROM store",
                                            "select count from tombstones")),
                buried);
    CHECK(buried <= 2);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM cell JOIN cell_tombstone USING (id)"), 0);
    return last;
}

/* Waits until the server has ended the connections of a killed process: it completes what it has
 * received. A file must not be damaged. */
static void check_left(const struct place *place)
{
    if (place->database[0] == '\0') {
        check_whole(place);
        return;
    }
    while (ask_integer(place, "select count(*) from pg_stat_activity where"
                              " datname = current_database() and pid <> pg_backend_pid() and"
                              " backend_type = 'client backend'") > 0)
        bl_sleep(MS);
}

FORM_TEST(cell_host_killed_at_any_moment_leaves_complete_ends)
{
    struct bl_random random;
    uint64_t seed = 0;
    unsigned rounds = (unsigned)suite_rounds(SUITE_SANITIZED ? 5 : 8, 1000);
    int64_t last = 0, all = 0;
    bl_random_bytes(&seed, sizeof seed);
    bl_random_seed(&random, seed);
    for (unsigned i = 0; i < rounds; i++) {
        struct actor actor;
        char line[64];
        snprintf(line, sizeof line, "%lld", (long long)last);
        /* Cells that the previous process had not ended do not matter. */
        if (i > 0)
            change_file(place, "DELETE FROM cell WHERE terminal IS NULL");
        actor_start(&actor, "cell-writer", place, line, false);
        actor_expect(&actor, "no error");
        bl_sleep(bl_random_below(&random, 40 * MS));
        kill(actor.pid, SIGKILL);
        while (actor_line(&actor, line, sizeof line)) {
            CHECK_EQUAL(bl_text_to_int64(bl_text_from(line), &last), 0);
            all++;
        }
        CHECK_EQUAL(actor_end(&actor), -1);
        check_left(place);
        last = check_cells(place, last);
    }
    CHECK(all > 0);
}

SUITE(kill, cmocka_unit_test(writer_killed_at_any_moment_leaves_complete_turns),
      cmocka_unit_test(writers_that_share_commits_are_killed_at_any_moment),
      cmocka_unit_test(unfinished_store_is_completed_by_the_next_open),
      FORM_UNITS(cell_host_killed_at_any_moment_leaves_complete_ends));
