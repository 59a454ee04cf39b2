/* Features in several processes: one writer for each, atomic records and events, and former owners
 * that change nothing. */
#include <postgres.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helpers.h"

/* ---- Roles ---- */

void report_write(struct grasp *grasp, int code)
{
    report("%s%s%s", bl_error_name(code), grasp->error.name[0] != '\0' ? " " : "",
           grasp->error.name);
}

/* Holds the feature, reports it, and stays. */
static void play_hold(struct bl_store *store)
{
    struct grasp grasp;
    report("%s", bl_error_name(hold_feature(&grasp, store, FEATURE)));
}

/* Sleeps, and then tries to continue. */
static void play_ghost(struct bl_store *store)
{
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_record(&grasp, "task/A", "{\"of\":\"ghost\"}"), 0);
    raise(SIGSTOP);
    int code = put_records(&grasp, "task/A", "{\"late\":true}", "task/B", "{\"late\":true}");
    report_write(&grasp, code);
    release_feature(&grasp);
    report("loosened");
}

/* Returns the last number recorded for the feature. */
static int64_t last_number(struct bl_store *store)
{
    struct bl_arena arena = {0};
    struct bl_list records;
    const struct bl_json *value;
    int64_t number = 0;
    bl_list_init(&records);
    bl_store_feature_load(store, &arena, REPOSITORY, FEATURE, "a", &records, NULL, NULL, NULL);
    if (!bl_list_empty(&records)) {
        const struct bl_row *record = BL_CONTAINER(records.next, struct bl_row, link);
        CHECK_EQUAL(bl_json_read(&arena, record->json, NULL, &value, NULL), 0);
        CHECK_EQUAL(bl_json_int64(bl_json_get(value, BL_TEXT("n")), &number), 0);
    }
    bl_arena_done(&arena);
    return number;
}

/* Writes two records and an event with the same number forever, every sixth time in a new
 * generation; reports each confirmed write. */
static void play_writer(struct bl_store *store)
{
    struct grasp grasp;
    char json[64];
    int code = hold_feature(&grasp, store, FEATURE);
    report("%s %d", bl_error_name(code), (int)grasp.owner.life);
    struct bl_row records[2] = {{.name = "a"}, {.name = "b"}};
    struct bl_list list;
    struct bl_text event;
    bl_list_init(&list);
    bl_list_push_back(&list, &records[0].link);
    bl_list_push_back(&list, &records[1].link);
    for (int64_t number = last_number(store) + 1; code == 0; number++) {
        snprintf(json, sizeof json, "{\"n\":%lld}", (long long)number);
        event = records[0].json = records[1].json = bl_text_from(json);
        code = bl_store_feature_write(grasp.held,
                                      &(struct bl_store_feature_write){
                                          .records = &list,
                                          .events = &event,
                                          .event_count = 1,
                                          .new_generation = number % 6 == 0,
                                          .durable = number % 2 == 0,
                                      },
                                      NULL);
        report("%lld", (long long)number);
    }
}

int role_feature(void *argument BL_UNUSED)
{
    static const struct {
        const char *name;
        void (*play)(struct bl_store *store);
    } plays[] = {{"hold", play_hold}, {"ghost", play_ghost}, {"writer", play_writer}};
    struct bl_store *store = store_at(&role_place);
    for (size_t i = 0; i < BL_COUNT(plays); i++) {
        if (strcmp(plays[i].name, role_argument) == 0)
            plays[i].play(store);
    }
    bl_sleep(1000 * BL_NS_PER_S);
    return 0;
}

/* ---- Owners ---- */

FORM_TEST(F28_a_live_owner_keeps_its_feature_and_a_dead_one_loses_it_at_once)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_list records;
    struct bl_store_owner owner;
    struct grasp grasp;
    struct actor actor;
    char text[64];
    actor_start(&actor, "feature", place, "hold", false);
    actor_expect(&actor, "no error");
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), BL_EBUSY);
    snprintf(text, sizeof text, "pid %d on ", (int)actor.pid);
    CHECK(strstr(grasp.error.message, text) != NULL);
    CHECK(strstr(grasp.error.hint, "--take-over") != NULL);
    CHECK(grasp.error.kind == BL_KIND_SESSION && grasp.owner.life == BL_OWNER_ALIVE);
    CHECK(grasp.owner.pid == actor.pid &&
          grasp.owner.pid_started == bl_store_process_started(actor.pid));
    /* Alive, even without renewals. */
    change_file(place, form_sql(place, "UPDATE feature_lease SET until = 0",
                                "UPDATE worker SET beat_at = '2000-01-01'"));
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), BL_EBUSY);
    actor_kill(&actor);
    CHECK_EQUAL(bl_store_feature_load(store, &arena, REPOSITORY, FEATURE, NULL, &records, &owner,
                                      NULL, NULL),
                0);
    CHECK(owner.life == BL_OWNER_DEAD && owner.pid == actor.pid);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK(grasp.owner.life == BL_OWNER_DEAD && grasp.owner.pid == actor.pid);
    CHECK(strncmp(grasp.owner.text, text, strlen(text)) == 0);
    CHECK_EQUAL(bl_store_feature_epoch(grasp.held), 2);
    bl_arena_done(&arena);
    release_feature(&grasp);
    /* Reported once. */
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(grasp.owner.life, BL_OWNER_NONE);
    release_feature(&grasp);
    bl_store_close(store);
}

FORM_TEST(F28_of_many_processes_one_holds_the_feature)
{
    check_one_holds(place, "feature", "hold");
    CHECK_EQUAL(ask_integer(place, form_sql(place, "SELECT epoch FROM feature_lease",
                                            "SELECT epoch FROM feature")),
                1);
}

/* Makes the lease that of another process, `change` apart from this one. */
static void pass_lease(const struct place *place, const char *change, bool expired)
{
    struct bl_arena arena = {0};
    const char *begin = form_sql(
        place, "UPDATE feature_lease SET owner = 'own_other', ",
        "INSERT INTO worker (id, host, boot, pid_space, pid, started, version)"
        " SELECT 'own_other', worker.host, boot, pid_space, pid, started, version FROM worker"
        " JOIN feature ON worker.id = holder ON CONFLICT (id) DO UPDATE SET"
        " host = excluded.host, boot = excluded.boot, pid_space = excluded.pid_space,"
        " pid = excluded.pid, started = excluded.started, state = 'live';"
        "UPDATE feature SET owner = 'own_other', holder = 'own_other';"
        "UPDATE worker SET ");
    const char *expire = form_sql(place, ", until = 0", ", state = 'lost'");
    const char *end = form_sql(place, "", " WHERE id = 'own_other'");
    change_file(
        place, bl_arena_printf(&arena, "%s%s%s%s", begin, change, expired ? expire : "", end).data);
    bl_arena_done(&arena);
}

/* Returns the life of the holder that the next one sees. */
static int life_after(const struct place *place, struct bl_store *store, const char *change,
                      bool expired)
{
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    release_feature(&grasp);
    pass_lease(place, change, expired);
    int code = hold_feature(&grasp, store, FEATURE);
    bool free = grasp.owner.life == BL_OWNER_DEAD || grasp.owner.life == BL_OWNER_NONE;
    CHECK_EQUAL(code, free ? 0 : BL_EBUSY);
    release_feature(&grasp);
    change_file(place, form_sql(place, "UPDATE feature_lease SET owner = NULL",
                                "UPDATE feature SET owner = NULL"));
    return (int)grasp.owner.life;
}

FORM_TEST(F28_a_reused_pid_is_not_the_owner)
{
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(life_after(place, store, "pid = pid", false), BL_OWNER_ALIVE);
    CHECK_EQUAL(life_after(place, store, "started = started + 1", false), BL_OWNER_DEAD);
    CHECK_EQUAL(life_after(place, store, "pid = 1, started = -1", false), BL_OWNER_DEAD);
    CHECK_EQUAL(life_after(place, store, "pid = 4194305", false), BL_OWNER_DEAD);
    CHECK_EQUAL(life_after(place, store, "boot = 'before'", false), BL_OWNER_DEAD);
    CHECK_EQUAL(life_after(place, store, "host = 'elsewhere'", false), BL_OWNER_OUT_OF_SIGHT);
    CHECK_EQUAL(life_after(place, store, "host = 'elsewhere'", true), BL_OWNER_DEAD);
    CHECK_EQUAL(life_after(place, store, "pid_space = 'pid:[1]'", false), BL_OWNER_OUT_OF_SIGHT);
    CHECK_EQUAL(life_after(place, store, "pid_space = 'pid:[1]'", true), BL_OWNER_DEAD);
    bl_store_close(store);
}

FORM_TEST(a_lease_of_a_feature_that_this_store_left_is_taken_again)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_list records;
    struct bl_store_owner owner;
    struct grasp grasp;
    char sql[128];
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    release_feature(&grasp);
    snprintf(sql, sizeof sql, "UPDATE %s SET owner = '%s'",
             form_sql(place, "feature_lease", "feature"), store->owner);
    change_file(place, sql);
    CHECK_EQUAL(bl_store_feature_load(store, &arena, REPOSITORY, FEATURE, NULL, &records, &owner,
                                      NULL, NULL),
                0);
    CHECK_EQUAL(owner.life, BL_OWNER_DEAD);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(grasp.owner.life, BL_OWNER_DEAD);
    bl_arena_done(&arena);
    release_feature(&grasp);
    bl_store_close(store);
}

/* ---- Former owners ---- */

/* Reads all feature data in the store. */
static void read_all(const struct place *place, char *out, size_t out_size)
{
    ask_text(
        place,
        form_sql(place,
                 "SELECT (SELECT group_concat(quote(key) || quote(created) || quote(updated) ||"
                 " quote(generation) || quote(name) || quote(run)) FROM feature) ||"
                 " (SELECT group_concat(quote(feature) || quote(epoch) || quote(owner) ||"
                 " quote(handle) || quote(pid) || quote(since) || quote(until) || quote(host))"
                 " FROM feature_lease) || coalesce((SELECT group_concat(quote(key) ||"
                 " quote(generation) || quote(name) || quote(json)) FROM feature_record), '') ||"
                 " coalesce((SELECT group_concat(quote(generation) || quote(number) || quote(json))"
                 " FROM feature_event), '')",
                 "SELECT concat((SELECT string_agg(feature::text, ',') FROM feature),"
                 " (SELECT string_agg(record::text || convert_from(record.json, 'UTF8'), ',')"
                 " FROM feature_record AS record),"
                 " (SELECT string_agg(event::text, ',') FROM feature_event AS event),"
                 " (SELECT string_agg(write::text, ',') FROM feature_write AS write))"),
        out, out_size);
}

FORM_TEST(F27_a_former_owner_that_wakes_up_changes_nothing)
{
    bool file = place->database[0] == '\0';
    struct bl_store *other = file ? store_on(place, "elsewhere") : store_at(place);
    struct actor actor;
    struct grasp there;
    char before[2048] = "", after[2048] = "";
    int status = 0;
    actor_start(&actor, "feature", place, "ghost", false);
    CHECK(waitpid(actor.pid, &status, WUNTRACED) == actor.pid && WIFSTOPPED(status));
    CHECK_EQUAL(hold_feature(&there, other, FEATURE), BL_EBUSY);
    change_file(
        place,
        form_sql(place, "UPDATE feature_lease SET until = 1",
                 "UPDATE worker SET state = 'lost' WHERE id IN (SELECT owner FROM feature)"));
    CHECK_EQUAL(hold_feature(&there, other, FEATURE), 0);
    CHECK(there.owner.life == BL_OWNER_DEAD && there.owner.pid == actor.pid);
    CHECK(records_are(other, NULL, "task/A={\"of\":\"ghost\"}"));
    read_all(place, before, sizeof before);
    CHECK(strstr(before, "ghost") != NULL);
    kill(actor.pid, SIGCONT);
    actor_expect(&actor, "BL_EBUSY stale_write");
    actor_expect(&actor, "loosened");
    read_all(place, after, sizeof after);
    CHECK(strcmp(before, after) == 0);
    CHECK_EQUAL(put_record(&there, "task/A", "{}"), 0);
    release_feature(&there);
    actor_kill(&actor);
    bl_store_close(other);
}

static unsigned batches;
static const struct store_form *counted;

static void count_batches(void *context, struct bl_list *jobs)
{
    batches++;
    counted->write(context, jobs);
}

static int put_one(void *argument)
{
    return put_record(argument, "a", "{}");
}

FORM_TEST(a_stale_write_takes_no_other_of_its_batch_along)
{
    struct bl_nursery nursery;
    struct bl_fiber *fibers[2];
    int results[2] = {0};
    struct bl_store *store = store_at(place);
    struct grasp stale, well;
    CHECK_EQUAL(hold_feature(&stale, store, FEATURE), 0);
    CHECK_EQUAL(hold_feature(&well, store, "FEAT-BILL"), 0);
    change_file(place,
                form_sql(place, "UPDATE feature_lease SET epoch = epoch + 1 WHERE feature = 1",
                         "UPDATE feature SET epoch = epoch + 1 WHERE key = 1"));
    store->writer.run = count_batches;
    counted = store->form;
    batches = 0;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "stale", put_one, &stale, &fibers[0]);
    bl_nursery_spawn(&nursery, NULL, "well", put_one, &well, &fibers[1]);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(bl_fiber_join(fibers[i], &results[i]), 0);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(batches, 1);
    CHECK(results[0] == BL_EBUSY && results[1] == 0);
    CHECK(stale.error.kind == BL_KIND_SESSION && strcmp(stale.error.name, "stale_write") == 0);
    CHECK(strstr(stale.error.message, FEATURE) != NULL && stale.error.hint[0] != '\0');
    /* In a database the lease is the worker's, and is renewed for all that it holds. */
    CHECK_EQUAL(bl_store_feature_write(stale.held, &(struct bl_store_feature_write){0}, NULL),
                place->database[0] != '\0' ? 0 : BL_EBUSY);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_record WHERE feature = 2"), 1);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_record"), 1);
    release_feature(&stale);
    CHECK_EQUAL(
        ask_integer(place,
                    form_sql(place, "SELECT count(*) FROM feature_lease WHERE owner IS NOT NULL",
                             "SELECT count(*) FROM feature WHERE owner IS NOT NULL")),
        2);
    release_feature(&well);
    bl_store_close(store);
}

/* ---- Kills ---- */

/* Checks the writes: confirmed ones are there, with at most one more: both records and the event,
 * in the generation that it started. Returns the last number. */
static int64_t check_written(const struct place *place, int64_t answered)
{
    char text[64];
    bool file = place->database[0] == '\0';
    ask_text(place, form_sql(place, "PRAGMA integrity_check", "SELECT 'ok'"), text, sizeof text);
    CHECK(strcmp(text, "ok") == 0);
    int64_t last = ask_integer(place, "SELECT coalesce(max(number), 0) FROM feature_event");
    CHECK(last == answered || last == answered + 1);
    CHECK_EQUAL(
        ask_integer(place, form_sql(place,
                                    "SELECT count(*) FROM feature_event WHERE"
                                    " json = '{\"n\":' || number || '}'",
                                    "SELECT count(*) FROM feature_event WHERE"
                                    " json = convert_to('{\"n\":' || number || '}', 'UTF8')")),
        last);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_event WHERE"
                                   " generation <> 1 + number / 6"),
                0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature WHERE generation <> 1 + (SELECT"
                                   " coalesce(max(number), 0) FROM feature_event) / 6"),
                0);
    CHECK_EQUAL(
        ask_integer(place, form_sql(place,
                                    "SELECT count(*) FROM feature_record JOIN feature USING"
                                    " (generation) WHERE json = '{\"n\":' || (SELECT max(number)"
                                    " FROM feature_event) || '}'",
                                    "SELECT count(*) FROM feature_record JOIN feature USING"
                                    " (generation) WHERE json = convert_to('{\"n\":' ||"
                                    " (SELECT max(number) FROM feature_event) || '}', 'UTF8')")),
        last > 0 ? 2 : 0);
    if (file)
        CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_record WHERE NOT"
                                       " json_valid(json)"),
                    0);
    return last;
}

static void kill_writers(struct place *place)
{
    struct bl_random random;
    uint64_t seed = 0;
    unsigned rounds = (unsigned)suite_rounds(SUITE_SANITIZED ? 4 : 6, 1000);
    int64_t last = 0;
    bl_random_bytes(&seed, sizeof seed);
    bl_random_seed(&random, seed);
    for (unsigned i = 0; i < rounds; i++) {
        struct actor actor;
        char line[64];
        actor_start(&actor, "feature", place, "writer", false);
        snprintf(line, sizeof line, "no error %d", i == 0 ? BL_OWNER_NONE : BL_OWNER_DEAD);
        actor_expect(&actor, line);
        bl_sleep(bl_random_below(&random, 40 * MS));
        kill(actor.pid, SIGKILL);
        while (actor_line(&actor, line, sizeof line))
            CHECK_EQUAL(bl_text_to_int64(bl_text_from(line), &last), 0);
        CHECK_EQUAL(actor_end(&actor), -1);
        /* A server ends the last write by itself. */
        if (place->database[0] != '\0')
            CHECK(pg_server_await(pg_server_shared(), place->database,
                                  "SELECT count(*) FROM pg_stat_activity WHERE"
                                  " datname = current_database() AND application_name LIKE 'own%'",
                                  "0", 10000));
        last = check_written(place, last);
    }
    CHECK(last > 0);
}

FORM_TEST(F14_a_writer_killed_at_any_moment_leaves_complete_writes)
{
    kill_writers(place);
}

SUITE(feature_owner, FORM_UNITS(F28_a_live_owner_keeps_its_feature_and_a_dead_one_loses_it_at_once),
      FORM_UNITS(F28_of_many_processes_one_holds_the_feature),
      FORM_UNITS(F28_a_reused_pid_is_not_the_owner),
      FORM_UNITS(a_lease_of_a_feature_that_this_store_left_is_taken_again),
      FORM_UNITS(F27_a_former_owner_that_wakes_up_changes_nothing),
      FORM_UNITS(a_stale_write_takes_no_other_of_its_batch_along),
      FORM_UNITS(F14_a_writer_killed_at_any_moment_leaves_complete_writes));
