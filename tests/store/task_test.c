/* Tasks that clients ask about later: begun, ended once, expired, or with an owner that was killed.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "helpers.h"

#define WALL_NS ((int64_t)2000000000 * (int64_t)BL_NS_PER_S)

static int begin_task(struct bl_store *store, const char *id, const char *session)
{
    return bl_store_task_begin(
        store, &(struct bl_store_task){.id = id, .kind = "run", .session = session}, NULL);
}

static int end_task(struct bl_store *store, const char *id, const char *status, int64_t expires)
{
    bool stopped = strcmp(status, "cancelled") == 0;
    return bl_store_task_end(
        store,
        &(struct bl_store_task){.id = id,
                                .status = status,
                                .expires_wall_ns = expires,
                                .result = stopped ? (struct bl_text){0} : BL_TEXT("{\"n\":1}"),
                                .receipt =
                                    stopped ? BL_TEXT("{\"id\":\"rcp_1\"}") : (struct bl_text){0}},
        NULL);
}

struct asked {
    struct bl_arena arena;
    struct bl_store_task task;
};

/* Asks for a task, replacing the last answer. Returns the store's code. */
static int ask(struct asked *asked, struct bl_store *store, const char *id)
{
    struct bl_error error = {0};
    bl_arena_reset(&asked->arena);
    asked->task = (struct bl_store_task){0};
    int code = bl_store_task_get(store, &asked->arena, id, &asked->task, &error);
    CHECK_EQUAL(error.code, code);
    return code;
}

static bool is(const struct asked *asked, const char *status)
{
    bool same = asked->task.status != NULL && strcmp(asked->task.status, status) == 0;
    if (!same)
        fprintf(stderr, "it is %s\n", asked->task.status != NULL ? asked->task.status : "none");
    return same;
}

FORM_TEST(a_task_works_and_ends_once)
{
    struct bl_store *store = store_at(place);
    struct asked asked = {0};
    CHECK_EQUAL(ask(&asked, store, "run_1"), BL_ENOENT);
    CHECK_EQUAL(end_task(store, "run_1", "completed", 0), BL_ENOENT);
    CHECK_EQUAL(begin_task(store, "run_1", "alpha"), 0);
    CHECK_EQUAL(begin_task(store, "run_1", "beta"), BL_EEXIST);
    CHECK_EQUAL(ask(&asked, store, "run_1"), 0);
    CHECK(is(&asked, "working") && asked.task.owner_alive);
    CHECK(strcmp(asked.task.kind, "run") == 0 && strcmp(asked.task.session, "alpha") == 0);
    CHECK(asked.task.created_wall_ns > 0);
    CHECK_EQUAL(asked.task.ended_wall_ns, 0);
    CHECK_EQUAL(asked.task.expires_wall_ns, 0);
    CHECK_EQUAL(end_task(store, "run_1", "cancelled", 0), 0);
    CHECK_EQUAL(end_task(store, "run_1", "completed", 0), BL_EEXIST);
    CHECK_EQUAL(ask(&asked, store, "run_1"), 0);
    CHECK(is(&asked, "cancelled") && !asked.task.owner_alive);
    CHECK_EQUAL(asked.task.result.size, 0);
    CHECK(bl_text_equal(asked.task.receipt, BL_TEXT("{\"id\":\"rcp_1\"}")));
    CHECK_EQUAL(asked.task.expires_wall_ns - asked.task.ended_wall_ns, 3600 * (int64_t)BL_NS_PER_S);
    bl_arena_done(&asked.arena);
    bl_store_close(store);
}

FORM_TEST(invalid_task_is_refused)
{
    static const char *const wrong[] = {"working", "done", ""};
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(begin_task(store, "", NULL), BL_EINVAL);
    CHECK_EQUAL(bl_store_task_begin(store, &(struct bl_store_task){.id = "a"}, NULL), BL_EINVAL);
    CHECK_EQUAL(begin_task(store, "a", NULL), 0);
    for (size_t i = 0; i < BL_COUNT(wrong); i++)
        CHECK_EQUAL(end_task(store, "a", wrong[i], 0), BL_EINVAL);
    CHECK_EQUAL(bl_store_task_end(store, &(struct bl_store_task){.id = "a"}, NULL), BL_EINVAL);
    bl_store_close(store);
}

FORM_TEST(M11_an_ended_task_has_the_same_bytes_in_a_later_store)
{
    struct bl_store *store = store_at(place);
    struct asked first = {0}, again = {0};
    CHECK_EQUAL(begin_task(store, "run_1", NULL), 0);
    CHECK_EQUAL(end_task(store, "run_1", "completed", 0), 0);
    CHECK_EQUAL(ask(&first, store, "run_1"), 0);
    CHECK(is(&first, "completed") && first.task.session == NULL);
    for (int i = 0; i < 5; i++) {
        if (i == 3) {
            bl_store_close(store);
            store = store_at(place);
        }
        CHECK_EQUAL(ask(&again, store, "run_1"), 0);
        CHECK(is(&again, "completed"));
        CHECK(bl_text_equal(first.task.result, again.task.result));
        CHECK_EQUAL(first.task.ended_wall_ns, again.task.ended_wall_ns);
        CHECK_EQUAL(first.task.expires_wall_ns, again.task.expires_wall_ns);
    }
    bl_arena_done(&first.arena);
    bl_arena_done(&again.arena);
    bl_store_close(store);
}

FORM_TEST(a_task_that_has_expired_is_gone_and_its_id_is_free)
{
    struct bl_store *store = store_at(place);
    struct asked asked = {0};
    static const char *const ids[] = {"run_1", "run_2", "run_3"};
    for (size_t i = 0; i < BL_COUNT(ids); i++)
        CHECK_EQUAL(begin_task(store, ids[i], NULL), 0);
    for (size_t i = 0; i < BL_COUNT(ids); i++)
        CHECK_EQUAL(end_task(store, ids[i], "completed", i < 2 ? 1 : 4 * WALL_NS), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM task"), 3);
    CHECK_EQUAL(ask(&asked, store, "run_3"), 0);
    /* The others were deleted along the way. */
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM task"), 1);
    CHECK_EQUAL(ask(&asked, store, "run_1"), BL_ENOENT);
    CHECK_EQUAL(begin_task(store, "run_2", NULL), 0);
    CHECK_EQUAL(end_task(store, "run_2", "failed", 1), 0);
    CHECK_EQUAL(ask(&asked, store, "run_2"), BL_ENOENT);
    CHECK_EQUAL(begin_task(store, "run_2", NULL), 0);
    CHECK_EQUAL(end_task(store, "run_2", "failed", 1), 0);
    CHECK_EQUAL(begin_task(store, "run_2", NULL), 0);
    CHECK_EQUAL(ask(&asked, store, "run_2"), 0);
    CHECK(is(&asked, "working"));
    bl_arena_done(&asked.arena);
    bl_store_close(store);
}

/* If it finds nothing to write. */
STORE_TEST(reading_a_task_does_not_wait_for_writers)
{
    struct bl_store *store = store_at(place);
    struct asked asked = {0};
    sqlite3 *db = NULL;
    CHECK_EQUAL(begin_task(store, "run_1", NULL), 0);
    CHECK_EQUAL(sqlite3_open(place->path, &db), SQLITE_OK);
    CHECK_EQUAL(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQUAL(ask(&asked, store, "run_1"), 0);
    sqlite3_close(db);
    bl_arena_done(&asked.arena);
    bl_store_close(store);
}

FORM_TEST(tasks_are_deleted_with_their_session)
{
    struct bl_store *store = store_at(place);
    struct asked asked = {0};
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    release(&holding);
    CHECK_EQUAL(begin_task(store, "run_1", "alpha"), 0);
    CHECK_EQUAL(begin_task(store, "run_2", "beta"), 0);
    CHECK_EQUAL(begin_task(store, "run_3", NULL), 0);
    CHECK_EQUAL(bl_store_delete(store, "alpha", NULL), 0);
    CHECK_EQUAL(ask(&asked, store, "run_1"), BL_ENOENT);
    CHECK_EQUAL(ask(&asked, store, "run_2"), 0);
    CHECK_EQUAL(ask(&asked, store, "run_3"), 0);
    bl_arena_done(&asked.arena);
    bl_store_close(store);
}

STORE_TEST(invisible_owner_is_assumed_to_work_for_a_week)
{
    struct bl_store *store = store_at(place);
    struct asked asked = {0};
    CHECK_EQUAL(begin_task(store, "run_1", NULL), 0);
    change_file(place, "UPDATE task SET host = 'elsewhere'");
    CHECK_EQUAL(ask(&asked, store, "run_1"), 0);
    CHECK(is(&asked, "working") && asked.task.owner_alive);
    change_file(place, "UPDATE task SET created = created - 8 * 24 * 3600 * 1000000000");
    CHECK_EQUAL(ask(&asked, store, "run_1"), 0);
    CHECK(is(&asked, "failed"));
    bl_arena_done(&asked.arena);
    bl_store_close(store);
}

FORM_TEST(an_owner_from_before_the_machine_was_started_is_dead)
{
    struct bl_store *store = store_at(place);
    struct asked asked = {0};
    CHECK_EQUAL(begin_task(store, "run_1", NULL), 0);
    change_file(place, "UPDATE task SET boot = 'another'");
    CHECK_EQUAL(ask(&asked, store, "run_1"), 0);
    CHECK(is(&asked, "failed"));
    CHECK_EQUAL(end_task(store, "run_1", "completed", 0), BL_EEXIST);
    bl_arena_done(&asked.arena);
    bl_store_close(store);
}

/* ---- Many at once ---- */

#define MANY_MAX 1000

struct errand {
    struct bl_store *store;
    char id[32];
    const char *status;
    int code;
};

static int begin_and_ask(void *argument)
{
    struct errand *errand = argument;
    struct asked asked = {0};
    CHECK_EQUAL(begin_task(errand->store, errand->id, NULL), 0);
    CHECK_EQUAL(ask(&asked, errand->store, errand->id), 0);
    CHECK(is(&asked, "working"));
    bl_arena_done(&asked.arena);
    return 0;
}

FORM_TEST(M10_a_task_is_found_right_after_it_began_among_many)
{
    struct bl_store *store = store_at(place);
    unsigned count = suite_rounds(200, MANY_MAX);
    struct errand *errands = bl_zalloc(count * sizeof *errands);
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    for (unsigned i = 0; i < count; i++) {
        errands[i].store = store;
        snprintf(errands[i].id, sizeof errands[i].id, "run_%u", i);
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "errand", begin_and_ask, &errands[i], NULL),
                    0);
    }
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM task WHERE status = 'working'"), count);
    bl_free(errands);
    bl_store_close(store);
}

static int end_now(void *argument)
{
    struct errand *errand = argument;
    errand->code = end_task(errand->store, errand->id, errand->status, 0);
    return 0;
}

/* An end and a cancel at the same time, from two stores at the same place. */
FORM_TEST(M9_the_first_of_two_ends_wins)
{
    struct bl_store *stores[2] = {store_at(place), store_at(place)};
    struct asked asked = {0};
    unsigned rounds = suite_rounds(60, 5000);
    for (unsigned i = 0; i < rounds; i++) {
        struct errand errands[2] = {{.store = stores[0], .status = "completed"},
                                    {.store = stores[1], .status = "cancelled"}};
        struct bl_nursery nursery;
        for (size_t j = 0; j < 2; j++)
            snprintf(errands[j].id, sizeof errands[j].id, "run_%u", i);
        CHECK_EQUAL(begin_task(stores[0], errands[0].id, NULL), 0);
        bl_nursery_init(&nursery, bl_scope_current());
        for (size_t j = 0; j < 2; j++)
            bl_nursery_spawn(&nursery, NULL, "end", end_now, &errands[(i + j) % 2], NULL);
        bl_nursery_join(&nursery);
        bl_nursery_done(&nursery);
        size_t won = errands[0].code == 0 ? 0 : 1;
        CHECK_EQUAL(errands[won].code, 0);
        CHECK_EQUAL(errands[1 - won].code, BL_EEXIST);
        for (size_t j = 0; j < 2; j++) {
            CHECK_EQUAL(ask(&asked, stores[j], errands[0].id), 0);
            CHECK(is(&asked, errands[won].status));
            CHECK_EQUAL(asked.task.receipt.size > 0, won == 1);
            CHECK_EQUAL(asked.task.result.size > 0, won == 0);
        }
    }
    bl_arena_done(&asked.arena);
    bl_store_close(stores[0]);
    bl_store_close(stores[1]);
}

/* ---- Owners that die ---- */

/* Begins tasks forever, ends every second one, and reports each confirmation. Their ids begin with
 * the argument, if there is one. */
int role_task_owner(void *argument BL_UNUSED)
{
    struct bl_store *store = store_at(&role_place);
    const char *prefix = strcmp(role_argument, "-") == 0 ? "run_" : role_argument;
    char id[32];
    for (unsigned i = 0;; i++) {
        snprintf(id, sizeof id, "%s%u", prefix, i);
        if (begin_task(store, id, NULL) != 0)
            return 1;
        report("%u begun", i);
        if (i % 2 == 1 && end_task(store, id, "completed", 0) == 0)
            report("%u ended", i);
    }
}

FORM_TEST(M10_after_a_kill_a_task_has_failed_or_has_its_result)
{
    unsigned rounds = suite_rounds(3, 40);
    for (unsigned round = 0; round < rounds; round++) {
        struct asked asked = {0};
        struct actor actor;
        char line[64], id[32], prefix[16];
        unsigned begun = 0, number;
        bool ended[64] = {false};
        snprintf(prefix, sizeof prefix, "run_%u_", round);
        actor_start(&actor, "task-owner", place, prefix, false);
        /* Killed in the middle of a task, at any point. */
        while (begun < 3 + round % 20 && actor_line(&actor, line, sizeof line)) {
            CHECK_EQUAL(sscanf(line, "%u", &number), 1);
            ended[number % 64] = strstr(line, "ended") != NULL;
            begun = number + 1;
        }
        kill(actor.pid, SIGKILL);
        while (actor_line(&actor, line, sizeof line)) {
            CHECK_EQUAL(sscanf(line, "%u", &number), 1);
            ended[number % 64] = strstr(line, "ended") != NULL;
            begun = number + 1;
        }
        CHECK_EQUAL(actor_end(&actor), -1);
        struct bl_store *store = store_at(place);
        for (unsigned i = 0; i < begun; i++) {
            snprintf(id, sizeof id, "%s%u", prefix, i);
            CHECK_EQUAL(ask(&asked, store, id), 0);
            CHECK(strcmp(asked.task.status, "working") != 0);
            CHECK(!ended[i % 64] || is(&asked, "completed"));
            CHECK(i % 2 == 1 || is(&asked, "failed"));
        }
        bl_arena_done(&asked.arena);
        bl_store_close(store);
    }
}

struct asker {
    struct bl_store *store;
    int64_t ended_wall_ns;
};

static int ask_once(void *argument)
{
    struct asker *asker = argument;
    struct asked asked = {0};
    CHECK_EQUAL(ask(&asked, asker->store, "run_0"), 0);
    CHECK(is(&asked, "failed"));
    asker->ended_wall_ns = asked.task.ended_wall_ns;
    bl_arena_done(&asked.arena);
    return 0;
}

FORM_TEST(task_of_a_killed_owner_fails_once_for_all_clients)
{
    struct bl_store *stores[2] = {store_at(place), store_at(place)};
    struct asker askers[16];
    struct asked asked = {0};
    struct bl_nursery nursery;
    struct actor actor;
    actor_start(&actor, "task-owner", place, NULL, false);
    actor_expect(&actor, "0 begun");
    CHECK_EQUAL(ask(&asked, stores[0], "run_0"), 0);
    CHECK(is(&asked, "working") && asked.task.owner_alive);
    actor_kill(&actor);
    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < BL_COUNT(askers); i++) {
        askers[i] = (struct asker){.store = stores[i % 2]};
        bl_nursery_spawn(&nursery, NULL, "asker", ask_once, &askers[i], NULL);
    }
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    for (size_t i = 1; i < BL_COUNT(askers); i++)
        CHECK_EQUAL(askers[i].ended_wall_ns, askers[0].ended_wall_ns);
    CHECK_EQUAL(end_task(stores[0], "run_0", "completed", 0), BL_EEXIST);
    bl_arena_done(&asked.arena);
    bl_store_close(stores[0]);
    bl_store_close(stores[1]);
}

FORM_TEST(a_store_for_reading_tells_of_a_dead_owner_and_writes_nothing)
{
    struct bl_store *store = NULL;
    struct asked asked = {0};
    struct actor actor;
    actor_start(&actor, "task-owner", place, NULL, false);
    actor_expect(&actor, "0 begun");
    actor_kill(&actor);
    CHECK_EQUAL(bl_store_open_reading(place->where, &store, NULL), 0);
    CHECK_EQUAL(ask(&asked, store, "run_0"), 0);
    CHECK(is(&asked, "working") && !asked.task.owner_alive);
    CHECK_EQUAL(begin_task(store, "run_9", NULL), BL_EACCES);
    CHECK_EQUAL(end_task(store, "run_0", "failed", 0), BL_EACCES);
    bl_store_close(store);
    change_file(place, form_sql(place, "UPDATE task SET status = 'failed', ended = 1, expires = 2",
                                "update task set status = 'failed', ended = 'epoch',"
                                " expires = 'epoch'"));
    CHECK_EQUAL(bl_store_open_reading(place->where, &store, NULL), 0);
    CHECK_EQUAL(ask(&asked, store, "run_0"), BL_ENOENT);
    bl_arena_done(&asked.arena);
    bl_store_close(store);
}

SUITE(task, FORM_UNITS(a_task_works_and_ends_once), FORM_UNITS(invalid_task_is_refused),
      FORM_UNITS(M11_an_ended_task_has_the_same_bytes_in_a_later_store),
      FORM_UNITS(a_task_that_has_expired_is_gone_and_its_id_is_free),
      cmocka_unit_test(reading_a_task_does_not_wait_for_writers),
      FORM_UNITS(tasks_are_deleted_with_their_session),
      cmocka_unit_test(invisible_owner_is_assumed_to_work_for_a_week),
      FORM_UNITS(an_owner_from_before_the_machine_was_started_is_dead),
      FORM_UNITS(M10_a_task_is_found_right_after_it_began_among_many),
      FORM_UNITS(M9_the_first_of_two_ends_wins),
      FORM_UNITS(M10_after_a_kill_a_task_has_failed_or_has_its_result),
      FORM_UNITS(task_of_a_killed_owner_fails_once_for_all_clients),
      FORM_UNITS(a_store_for_reading_tells_of_a_dead_owner_and_writes_nothing));
