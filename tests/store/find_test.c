/* Finding work by its id, pages of sessions, and turns with their messages. */
#include <stdio.h>

#include "helpers.h"

/* ---- By id ---- */

struct look {
    struct bl_arena arena;
    struct bl_store_work work;
    struct bl_error error;
};

static int look_up_once(struct look *look, struct bl_store *store, const char *id)
{
    bl_arena_reset(&look->arena);
    look->work = (struct bl_store_work){0};
    look->error = (struct bl_error){0};
    int code = bl_store_find(store, &look->arena, id, &look->work, &look->error);
    CHECK_EQUAL(look->error.code, code);
    return code;
}

/* Looks the id up twice, because the first lookup must not change the result. Returns the store's
 * code. */
static int look_up(struct look *look, struct bl_store *store, const char *id)
{
    int code = look_up_once(look, store, id);
    CHECK_EQUAL(look_up_once(look, store, id), code);
    return code;
}

/* Compares the result with "kind id session ended"; NULL members are missing. */
static bool found_is(const struct look *look, const char *expected)
{
    char found[256];
    const struct bl_store_work *work = &look->work;
    snprintf(found, sizeof found, "%s %s %s %s", work->kind, work->id,
             work->session != NULL ? work->session : "-", work->ended ? "ended" : "begun");
    bool same = strcmp(found, expected) == 0;
    if (!same)
        fprintf(stderr, "found \"%s\"\n", found);
    return same;
}

static bool text_has(struct bl_text text, const char *part)
{
    bool has = bl_text_find(text, bl_text_from(part)) >= 0;
    if (!has)
        fprintf(stderr, "not in \"" BL_TEXT_FORMAT "\": \"%s\"\n", BL_TEXT_ARG(text), part);
    return has;
}

static int hold_run(struct holding *holding, struct bl_store *store, const char *id,
                    const char *run)
{
    return hold_with(
        holding, store,
        &(struct bl_store_hold_options){
            .id = id, .directory = "/home/somebody", .run_id = run, .prompt = BL_TEXT("Do it.")});
}

FORM_TEST(a_run_is_found_with_its_newest_result_and_the_receipt_of_its_stop)
{
    struct bl_store *store = store_at(place);
    struct look look = {0};
    struct holding holding;
    CHECK_EQUAL(look_up(&look, store, "run_a"), BL_ENOENT);
    CHECK(text_has(bl_text_from(look.error.message), "run_a"));
    CHECK(look.error.hint[0] != '\0');
    CHECK_EQUAL(hold_run(&holding, store, "alpha", "run_a"), 0);
    CHECK_EQUAL(look_up(&look, store, "run_a"), 0);
    CHECK(found_is(&look, "run run_a alpha begun"));
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(begin_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(look_up(&look, store, "run_a"), 0);
    CHECK(found_is(&look, "run run_a alpha begun"));
    CHECK(text_has(look.work.result, "turn_1"));
    CHECK_EQUAL(commit_turn(&holding, "turn_2"), 0);
    release(&holding);
    CHECK_EQUAL(look_up(&look, store, "run_a"), 0);
    CHECK(found_is(&look, "run run_a alpha ended"));
    CHECK(text_has(look.work.result, "turn_2"));
    CHECK_EQUAL(look.work.receipt.size, 0);
    CHECK_EQUAL(hold_run(&holding, store, "alpha", "run_b"), 0);
    CHECK_EQUAL(reject_turn(&holding, "turn_3"), 0);
    /* The first run has ended, regardless of who holds the session now. */
    CHECK_EQUAL(look_up(&look, store, "run_a"), 0);
    CHECK(found_is(&look, "run run_a alpha ended"));
    CHECK(text_has(look.work.result, "turn_2"));
    CHECK_EQUAL(look.work.receipt.size, 0);
    release(&holding);
    CHECK_EQUAL(look_up(&look, store, "run_b"), 0);
    CHECK(found_is(&look, "run run_b alpha ended"));
    CHECK(text_has(look.work.result, "turn_3"));
    CHECK(bl_text_equal(look.work.receipt, BL_TEXT("{\"id\":\"rcp_made\"}")));
    bl_arena_done(&look.arena);
    bl_store_close(store);
}

FORM_TEST(run_stopped_between_turns_has_its_own_receipt)
{
    static const char late[] = "{\"id\":\"rcp_late\",\"scope\":\"run_a\"}";
    struct bl_store *store = store_at(place);
    struct look look = {0};
    struct holding holding;
    CHECK_EQUAL(hold_run(&holding, store, "alpha", "run_a"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(holding.table->note(holding.table->context, (struct bl_text){0}, "rcp_job",
                                    BL_TEXT("{\"id\":\"rcp_job\",\"scope\":\"job_1\"}"), NULL),
                0);
    CHECK_EQUAL(look_up(&look, store, "run_a"), 0);
    CHECK_EQUAL(look.work.receipt.size, 0);
    CHECK_EQUAL(holding.table->note(holding.table->context, (struct bl_text){0}, "rcp_late",
                                    bl_text_from(late), NULL),
                0);
    release(&holding);
    CHECK_EQUAL(look_up(&look, store, "run_a"), 0);
    CHECK(text_has(look.work.result, "turn_1"));
    CHECK(bl_text_equal(look.work.receipt, bl_text_from(late)));
    /* A receipt that belongs to a turn is not that of a later stop. */
    change_file(place,
                form_sql(place, "UPDATE turn SET result = '{\"receipt\":{\"id\":\"rcp_late\"}}'",
                         "UPDATE turn SET receipt = 'rcp_late'"));
    CHECK_EQUAL(hold_run(&holding, store, "alpha", "run_a"), 0);
    add_turn(&holding, "turn_2");
    release(&holding);
    CHECK_EQUAL(look_up(&look, store, "run_a"), 0);
    CHECK(text_has(look.work.result, "turn_2"));
    CHECK_EQUAL(look.work.receipt.size, 0);
    CHECK_EQUAL(look_up(&look, store, "rcp_late"), 0);
    CHECK(found_is(&look, "receipt rcp_late alpha ended"));
    CHECK(bl_text_equal(look.work.receipt, bl_text_from(late)));
    bl_arena_done(&look.arena);
    bl_store_close(store);
}

FORM_TEST(a_session_and_its_turns_are_found)
{
    struct bl_store *store = store_at(place);
    struct look look = {0};
    struct holding holding;
    CHECK_EQUAL(hold_run(&holding, store, "alpha", "run_a"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(begin_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(look_up(&look, store, "turn_2"), 0);
    CHECK(found_is(&look, "turn turn_2 alpha begun"));
    CHECK_EQUAL(look_up(&look, store, "alpha"), 0);
    CHECK(found_is(&look, "session alpha alpha begun"));
    CHECK_EQUAL(reject_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(look_up(&look, store, "turn_2"), 0);
    CHECK(found_is(&look, "turn turn_2 alpha ended"));
    CHECK(text_has(look.work.receipt, "rcp_made"));
    add_turn(&holding, "turn_3");
    release(&holding);
    CHECK_EQUAL(look_up(&look, store, "alpha"), 0);
    CHECK(found_is(&look, "session alpha alpha ended"));
    CHECK(text_has(look.work.result, "turn_3"));
    CHECK_EQUAL(look.work.receipt.size, 0);
    const char *fork = NULL;
    CHECK_EQUAL(bl_store_fork(store, "alpha", "beta", &look.arena, &fork, NULL), 0);
    CHECK_EQUAL(look_up(&look, store, "turn_1"), 0);
    CHECK(found_is(&look, "turn turn_1 alpha ended"));
    CHECK(text_has(look.work.result, "turn_1"));
    bl_arena_done(&look.arena);
    bl_store_close(store);
}

FORM_TEST(what_a_killed_process_left_is_found_and_the_same_after_it_is_settled)
{
    struct bl_store *store = store_at(place);
    struct look look = {0};
    struct holding holding;
    struct actor actor;
    actor_start(&actor, "holder", place, "alpha", false);
    actor_expect(&actor, "no error");
    CHECK_EQUAL(look_up(&look, store, "turn_cut"), 0);
    CHECK(found_is(&look, "turn turn_cut alpha begun"));
    actor_kill(&actor);
    CHECK_EQUAL(look_up(&look, store, "run_1"), 0);
    CHECK(found_is(&look, "run run_1 alpha begun"));
    CHECK_EQUAL(hold_run(&holding, store, "alpha", "run_2"), 0);
    release(&holding);
    CHECK_EQUAL(look_up(&look, store, "run_1"), 0);
    CHECK(found_is(&look, "run run_1 alpha ended"));
    CHECK(text_has(look.work.receipt, "\"reason\":\"owner_died\""));
    CHECK_EQUAL(look_up(&look, store, "turn_cut"), 0);
    CHECK(text_has(look.work.receipt, "\"reason\":\"owner_died\""));
    bl_arena_done(&look.arena);
    bl_store_close(store);
}

FORM_TEST(cell_is_found_by_its_own_id_if_it_is_unique)
{
    struct bl_store *store = store_at(place);
    struct look look = {0};
    struct holding holding, other;
    CHECK_EQUAL(hold_run(&holding, store, "alpha", "run_a"), 0);
    CHECK_EQUAL(hold_run(&other, store, "beta", "run_b"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(look_up(&look, store, "c-1"), 0);
    CHECK(found_is(&look, "cell alpha/c-1 alpha begun"));
    CHECK_EQUAL(look.work.result.size, 0);
    CHECK_EQUAL(yield_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(look_up(&look, store, "alpha/c-1"), 0);
    CHECK(text_has(look.work.result, "\"type\":\"yielded\""));
    CHECK_EQUAL(end_cell(&holding, "c-1", NULL, NULL), 0);
    CHECK_EQUAL(look_up(&look, store, "c-1"), 0);
    CHECK(found_is(&look, "cell alpha/c-1 alpha ended"));
    CHECK(text_has(look.work.result, "\"type\":\"completed\""));
    add_ended_cell(&other, "c-1");
    CHECK_EQUAL(look_up(&look, store, "c-1"), BL_EEXIST);
    CHECK(strcmp(look.error.hint, "alpha/c-1, beta/c-1") == 0);
    CHECK_EQUAL(look_up(&look, store, "beta/c-1"), 0);
    CHECK(found_is(&look, "cell beta/c-1 beta ended"));
    CHECK_EQUAL(look_up(&look, store, "gamma/c-1"), BL_ENOENT);
    CHECK_EQUAL(bury_cell(&holding, "c-1", 3000000000, 100), 0);
    CHECK_EQUAL(look_up(&look, store, "alpha/c-1"), 0);
    CHECK(found_is(&look, "cell alpha/c-1 alpha ended"));
    CHECK_EQUAL(look.work.result.size, 0);
    CHECK_EQUAL(look_up(&look, store, "c-1"), BL_EEXIST);
    /* The name of a session is a full id, even if other things have the same id. */
    add_ended_cell(&holding, "beta");
    CHECK_EQUAL(look_up(&look, store, "beta"), 0);
    CHECK(found_is(&look, "session beta beta begun"));
    release(&other);
    release(&holding);
    bl_arena_done(&look.arena);
    bl_store_close(store);
}

FORM_TEST(a_cell_that_was_terminated_is_found_with_its_receipt)
{
    static const char receipt[] = "{\"id\":\"rcp_t\",\"scope\":\"c-1\",\"survivors\":0}";
    struct bl_store *store = store_at(place);
    struct look look = {0};
    struct holding holding;
    CHECK_EQUAL(hold_run(&holding, store, "alpha", "run_a"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    struct bl_store_cell cell = make_cell("c-1");
    cell.completed = false;
    cell.terminal = BL_TEXT("{\"type\":\"terminated\",\"receipt\":{\"id\":\"rcp_t\"}}");
    CHECK_EQUAL(bl_store_cell_end(holding.held, &cell, NULL, "rcp_t", bl_text_from(receipt), NULL),
                0);
    CHECK_EQUAL(look_up(&look, store, "c-1"), 0);
    CHECK(text_has(look.work.result, "terminated"));
    CHECK(bl_text_equal(look.work.receipt, bl_text_from(receipt)));
    release(&holding);
    bl_arena_done(&look.arena);
    bl_store_close(store);
}

#define TASK_ENDED   "{\"id\":\"TASK-1\",\"state\":\"cancelled\",\"receipt\":\"rcp_f\"}"
#define FEATURE_ROW  "{\"run_id\":\"run_f\",\"ended_at\":\"2026-01-01T00:00:00Z\"}"
#define RECEIPT_ROW  "{\"id\":\"rcp_f\",\"survivors\":0}"
#define TASK_RUNNING "{\"id\":\"TASK-1\",\"state\":\"running\",\"receipt\":null}"

FORM_TEST(a_feature_and_its_tasks_are_found)
{
    struct bl_store *store = store_at(place);
    struct look look = {0};
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_record(&grasp, "task/TASK-1", TASK_RUNNING), 0);
    CHECK_EQUAL(look_up(&look, store, "TASK-1"), 0);
    CHECK(found_is(&look, "task " FEATURE "/TASK-1 - begun"));
    CHECK_EQUAL(look_up(&look, store, "run_1"), 0);
    CHECK(found_is(&look, "run run_1 - begun"));
    CHECK_EQUAL(put_record(&grasp, "task/TASK-1", TASK_ENDED), 0);
    CHECK_EQUAL(put_record(&grasp, "receipt/rcp_f", RECEIPT_ROW), 0);
    CHECK_EQUAL(put_record(&grasp, "feature", FEATURE_ROW), 0);
    release_feature(&grasp);
    CHECK_EQUAL(look_up(&look, store, FEATURE "/TASK-1"), 0);
    CHECK(found_is(&look, "task " FEATURE "/TASK-1 - ended"));
    CHECK(bl_text_equal(look.work.result, BL_TEXT(TASK_ENDED)));
    CHECK(bl_text_equal(look.work.receipt, BL_TEXT(RECEIPT_ROW)));
    CHECK_EQUAL(look_up(&look, store, "run_f"), 0);
    CHECK(found_is(&look, "run run_f - ended"));
    CHECK_EQUAL(look_up(&look, store, FEATURE), 0);
    CHECK(found_is(&look, "feature " FEATURE " - ended"));
    CHECK_EQUAL(look_up(&look, store, "rcp_f"), 0);
    CHECK(bl_text_equal(look.work.receipt, BL_TEXT(RECEIPT_ROW)));
    CHECK_EQUAL(
        hold_feature_with(&grasp, store,
                          &(struct bl_store_feature_options){.repository = "/r", .id = FEATURE}),
        0);
    CHECK_EQUAL(put_record(&grasp, "task/TASK-1", TASK_RUNNING), 0);
    release_feature(&grasp);
    CHECK_EQUAL(look_up(&look, store, FEATURE "/TASK-1"), BL_EEXIST);
    CHECK(strcmp(look.error.hint, REPOSITORY "/" FEATURE "/TASK-1, /r/" FEATURE "/TASK-1") == 0);
    CHECK_EQUAL(look_up(&look, store, "/r/" FEATURE "/TASK-1"), 0);
    CHECK(text_has(look.work.result, "running"));
    CHECK_EQUAL(look_up(&look, store, FEATURE), BL_EEXIST);
    CHECK_EQUAL(look_up(&look, store, REPOSITORY "/" FEATURE), 0);
    CHECK(bl_text_equal(look.work.result, BL_TEXT(FEATURE_ROW)));
    bl_arena_done(&look.arena);
    bl_store_close(store);
}

FORM_TEST(many_things_with_one_id_are_counted_if_not_all_can_be_listed)
{
    struct bl_store *store = store_at(place);
    struct look look = {0};
    struct holding holding;
    char id[24];
    for (int i = 0; i < 9; i++) {
        snprintf(id, sizeof id, "session-%d", i);
        CHECK_EQUAL(hold(&holding, store, id), 0);
        add_ended_cell(&holding, "c");
        release(&holding);
    }
    CHECK_EQUAL(look_up(&look, store, "c"), BL_EEXIST);
    CHECK(strcmp(look.error.hint,
                 "session-0/c, session-1/c, session-2/c, session-3/c and 5 more") == 0);
    bl_arena_done(&look.arena);
    bl_store_close(store);
}

/* A hint has room for 199 bytes of names. */
FORM_TEST(names_that_do_not_fit_the_hint_are_counted)
{
    static const struct {
        const char *cell;
        int sizes[3]; /* of the ids of the sessions */
        const char *end;
    } rows[] = {{"c", {64, 64, 61}, "/c"}, {"d", {64, 64, 62}, "/d and 1 more"}};
    struct bl_store *store = store_at(place);
    struct look look = {0};
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        size_t fit = i == 0 ? 199 : 134 + strlen(" and 1 more");
        for (int j = 0; j < 3; j++) {
            struct holding holding;
            char id[65] = "";
            memset(id, 'a' + 3 * (int)i + j, (size_t)rows[i].sizes[j]);
            CHECK_EQUAL(hold(&holding, store, id), 0);
            add_ended_cell(&holding, rows[i].cell);
            release(&holding);
        }
        CHECK_EQUAL(look_up(&look, store, rows[i].cell), BL_EEXIST);
        CHECK_EQUAL(strlen(look.error.hint), fit);
        CHECK(bl_text_ends_with(bl_text_from(look.error.hint), bl_text_from(rows[i].end)));
    }
    bl_arena_done(&look.arena);
    bl_store_close(store);
}

FORM_TEST(invalid_id_is_refused)
{
    static const char *const unknown[] = {"/", "a/",    "/a",  "a//b", "'; DROP TABLE turn; --",
                                          "%", "task/", "run_"};
    struct bl_store *store = store_at(place);
    struct look look = {0};
    char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    CHECK_EQUAL(look_up(&look, store, ""), BL_EINVAL);
    CHECK_EQUAL(look_up(&look, store, "\xff"), BL_EINVAL);
    CHECK_EQUAL(look_up(&look, store, longest), BL_EINVAL);
    for (size_t i = 0; i < BL_COUNT(unknown); i++)
        CHECK_EQUAL(look_up(&look, store, unknown[i]), BL_ENOENT);
    bl_arena_done(&look.arena);
    bl_store_close(store);
}

FORM_TEST(M11_the_same_query_returns_the_same_bytes)
{
    static const char *const ids[] = {"run_1", "alpha", "turn_2", "alpha/c-1", "rcp_made"};
    struct bl_store *store = store_at(place);
    struct look look = {0}, again = {0};
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    add_ended_cell(&holding, "c-1");
    CHECK_EQUAL(reject_turn(&holding, "turn_2"), 0);
    release(&holding);
    for (size_t i = 0; i < BL_COUNT(ids); i++) {
        CHECK_EQUAL(look_up(&look, store, ids[i]), 0);
        for (int j = 0; j < 5; j++) {
            CHECK_EQUAL(look_up(&again, store, ids[i]), 0);
            CHECK(bl_text_equal(look.work.result, again.work.result));
            CHECK(bl_text_equal(look.work.receipt, again.work.receipt));
        }
    }
    bl_arena_done(&look.arena);
    bl_arena_done(&again.arena);
    bl_store_close(store);
}

/* ---- Pages ---- */

#define PAGE     50
#define SESSIONS 1000

/* Makes sessions of two folders, some changed at the same time, and one of a sub-agent. */
static void make_sessions(const struct place *place, const struct bl_store *store)
{
    static const char count[] = "WITH RECURSIVE count (n) AS (SELECT 0 UNION ALL SELECT n + 1"
                                " FROM count WHERE n < 999)";
    struct bl_arena arena = {0};
    struct bl_text file = bl_arena_printf(
        &arena,
        "%s INSERT INTO session (id, created, updated, directory, title)"
        " SELECT 's-' || substr('000' || (n * 7919 %% 1000), -3), n, 1000 + n / 7 * 7,"
        " CASE n %% 3 WHEN 0 THEN '/one' ELSE '/two' END, 'No. ' || n FROM count;"
        "INSERT INTO session (id, created, updated, directory, title, agent_of)"
        " VALUES ('child', 1, 1500, '/one', '', 's-001')",
        count);
    struct bl_text database = bl_arena_printf(
        &arena,
        "%s INSERT INTO session (id, created, updated, host, directory, title)"
        " SELECT 's-' || lpad((n * 7919 %% 1000)::text, 3, '0'), 'epoch',"
        " timestamptz 'epoch' + (1000 + n / 7 * 7) * interval '1 microsecond', '%s',"
        " CASE n %% 3 WHEN 0 THEN '/one' ELSE '/two' END, 'No. ' || n FROM count;"
        "INSERT INTO session (id, created, updated, host, directory, title, agent_of) VALUES"
        " ('child', 'epoch', timestamptz 'epoch' + interval '1500 microseconds', '%s', '/one', '',"
        " 's-001')",
        count, store->self.host, store->self.host);
    change_file(place, form_sql(place, file.data, database.data));
    bl_arena_done(&arena);
}

struct pages {
    struct bl_store *store;
    const char *directory;
    unsigned seen[SESSIONS];
    unsigned count;
    char after[STORE_SESSION_ID_SIZE];
    int64_t updated;
};

/* Reads a page. Returns the number of sessions on it. */
static unsigned turn_page(struct pages *pages)
{
    struct bl_arena arena = {0};
    struct bl_list summaries;
    unsigned count = 0;
    CHECK_EQUAL(bl_store_list_page(pages->store, &arena,
                                   &(struct bl_store_list_options){
                                       .directory = pages->directory,
                                       .limit = PAGE,
                                       .after_id = pages->count > 0 ? pages->after : NULL,
                                       .after_updated_wall_ns = pages->updated},
                                   &summaries, NULL),
                0);
    BL_LIST_EACH (link, &summaries) {
        const struct bl_store_summary *each = BL_CONTAINER(link, struct bl_store_summary, link);
        int64_t number = -1;
        bl_text_to_int64(bl_text_from(each->id + 2), &number);
        if (CHECK(number >= 0 && number < SESSIONS))
            pages->seen[number]++;
        CHECK(pages->directory == NULL || strcmp(each->directory, pages->directory) == 0);
        CHECK(pages->count == 0 || each->updated_wall_ns <= pages->updated);
        pages->updated = each->updated_wall_ns;
        bl_text_into(pages->after, sizeof pages->after, each->id);
        pages->count++;
        count++;
    }
    bl_arena_done(&arena);
    return count;
}

FORM_TEST(A25_pages_have_no_gaps_and_no_duplicates)
{
    static const struct {
        const char *directory;
        unsigned expected;
    } cases[] = {{NULL, 1000}, {"/one", 334}, {"/two", 666}, {"/three", 0}};
    struct bl_store *store = store_at(place);
    make_sessions(place, store);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct pages pages = {.store = store, .directory = cases[i].directory};
        while (turn_page(&pages) == PAGE)
            continue;
        CHECK_EQUAL(pages.count, cases[i].expected);
        for (unsigned j = 0; j < SESSIONS; j++)
            CHECK(pages.seen[j] <= 1);
    }
    bl_store_close(store);
}

FORM_TEST(A25_pages_are_stable_during_writes)
{
    struct bl_store *store = store_at(place);
    struct pages pages = {.store = store};
    struct holding holding;
    make_sessions(place, store);
    CHECK_EQUAL(turn_page(&pages), PAGE);
    char first[STORE_SESSION_ID_SIZE];
    bl_text_into(first, sizeof first, pages.after);
    CHECK_EQUAL(turn_page(&pages), PAGE);
    /* The session at the end of the page is deleted, one that was seen is changed, and a new one is
     * created. */
    CHECK_EQUAL(bl_store_delete(store, pages.after, NULL), 0);
    CHECK_EQUAL(hold(&holding, store, first), 0);
    add_turn(&holding, "turn_1");
    release(&holding);
    CHECK_EQUAL(hold(&holding, store, "new"), 0);
    release(&holding);
    while (turn_page(&pages) == PAGE)
        continue;
    CHECK_EQUAL(pages.count, SESSIONS);
    for (unsigned j = 0; j < SESSIONS; j++)
        CHECK_EQUAL(pages.seen[j], 1);
    bl_store_close(store);
}

/* ---- Turns ---- */

FORM_TEST(turns_are_listed_with_their_messages_after_a_compaction)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    struct bl_settlement settlement;
    struct bl_list turns, messages;
    struct holding holding;
    char expected[24];
    unsigned count = 0;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(bl_store_turns(store, &arena, "alpha", &turns, NULL), 0);
    CHECK(bl_list_empty(&turns));
    add_turn(&holding, "turn_1");
    add_turn(&holding, "turn_2");
    CHECK_EQUAL(compact_session(&holding, 2, "two turns"), 0);
    CHECK_EQUAL(reject_turn(&holding, "turn_x"), 0);
    CHECK_EQUAL(begin_turn(&holding, "turn_3"), 0);
    fill_settlement(&settlement, "turn_3");
    settlement.interrupted = true;
    CHECK_EQUAL(holding.table->commit(holding.table->context, &settlement, NULL), 0);
    CHECK_EQUAL(begin_turn(&holding, "turn_4"), 0);
    CHECK_EQUAL(bl_store_turns(store, &arena, "alpha", &turns, NULL), 0);
    BL_LIST_EACH (link, &turns) {
        const struct bl_store_turn *turn = BL_CONTAINER(link, struct bl_store_turn, link);
        snprintf(expected, sizeof expected, "turn_%u", ++count);
        CHECK(bl_text_equal(turn->id, bl_text_from(expected)));
        CHECK_EQUAL(turn->interrupted, count == 3);
        bl_list_init(&messages);
        CHECK_EQUAL(bl_messages_read(&arena, turn->messages, &messages), 0);
        CHECK(text_has(turn->messages, expected));
    }
    CHECK_EQUAL(count, 3);
    CHECK_EQUAL(bl_store_turns(store, &arena, "alpah", &turns, &error), BL_ENOENT);
    CHECK(strcmp(error.hint, "did you mean alpha?") == 0);
    release(&holding);
    bl_arena_done(&arena);
    bl_store_close(store);
}

SUITE(find, FORM_UNITS(a_run_is_found_with_its_newest_result_and_the_receipt_of_its_stop),
      FORM_UNITS(run_stopped_between_turns_has_its_own_receipt),
      FORM_UNITS(a_session_and_its_turns_are_found),
      FORM_UNITS(what_a_killed_process_left_is_found_and_the_same_after_it_is_settled),
      FORM_UNITS(cell_is_found_by_its_own_id_if_it_is_unique),
      FORM_UNITS(a_cell_that_was_terminated_is_found_with_its_receipt),
      FORM_UNITS(a_feature_and_its_tasks_are_found),
      FORM_UNITS(many_things_with_one_id_are_counted_if_not_all_can_be_listed),
      FORM_UNITS(names_that_do_not_fit_the_hint_are_counted), FORM_UNITS(invalid_id_is_refused),
      FORM_UNITS(M11_the_same_query_returns_the_same_bytes),
      FORM_UNITS(A25_pages_have_no_gaps_and_no_duplicates),
      FORM_UNITS(A25_pages_are_stable_during_writes),
      FORM_UNITS(turns_are_listed_with_their_messages_after_a_compaction));
