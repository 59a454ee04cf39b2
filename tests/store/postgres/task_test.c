/* Tasks in a database: owners are workers, and writes whose answer does not come are repeated. */
#include <pgproxy.h>
#include <stdio.h>

#include "helpers.h"

static int begin_run(struct bl_store *store, const char *id, struct bl_error *error)
{
    return bl_store_task_begin(store, &(struct bl_store_task){.id = id, .kind = "run"}, error);
}

static int end_run(struct bl_store *store, const char *id, const char *result)
{
    return bl_store_task_end(
        store,
        &(struct bl_store_task){.id = id, .status = "completed", .result = bl_text_from(result)},
        NULL);
}

/* Compares the status of a task, and whether its owner is alive: "working+", "failed-". */
static bool task_is(struct bl_store *store, const char *id, const char *expected)
{
    struct bl_arena arena = {0};
    struct bl_store_task task = {0};
    char found[32] = "none";
    if (bl_store_task_get(store, &arena, id, &task, NULL) == 0)
        snprintf(found, sizeof found, "%s%s", task.status, task.owner_alive ? "+" : "-");
    bool same = strcmp(found, expected) == 0;
    if (!same)
        fprintf(stderr, "it is %s\n", found);
    bl_arena_done(&arena);
    return same;
}

PROXY_TEST(task_of_an_invisible_owner_fails_when_its_worker_is_not_at_work)
{
    static const char *const ends[] = {"update worker set state = 'lost' where id = (select owner"
                                       " from task where status = 'working' limit 1)",
                                       "update worker set state = 'gone' where id = (select owner"
                                       " from task where status = 'working' limit 1)",
                                       "delete from worker where id = (select owner from task where"
                                       " status = 'working' limit 1)"};
    struct bl_store *asker = store_at(place);
    for (size_t i = 0; i < BL_COUNT(ends); i++) {
        struct bl_store *owner = store_at(place);
        char id[16];
        snprintf(id, sizeof id, "run_%zu", i);
        CHECK_EQUAL(begin_run(owner, id, NULL), 0);
        /* No clock decides. */
        change_file(place, "update task set host = 'elsewhere', created = created - interval '1"
                           " year'");
        CHECK(task_is(asker, id, "working+"));
        change_file(place, "update worker set state = 'draining'");
        CHECK(task_is(asker, id, "working+"));
        change_file(place, ends[i]);
        CHECK(task_is(asker, id, "failed-"));
        CHECK_EQUAL(end_run(owner, id, "{}"), BL_EEXIST);
        bl_store_close(owner);
    }
    bl_store_close(asker);
}

PROXY_TEST(lost_worker_begins_tasks_as_another_one)
{
    static const char *const ends[] = {"delete from worker", "update worker set state = 'lost'"};
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(begin_run(store, "run_1", NULL), 0);
    for (size_t i = 0; i < BL_COUNT(ends); i++) {
        char id[16];
        snprintf(id, sizeof id, "next_%zu", i);
        change_file(place, ends[i]);
        CHECK_EQUAL(begin_run(store, id, NULL), 0);
        change_file(place, "update task set host = 'elsewhere'");
        CHECK(task_is(store, id, "working+"));
    }
    CHECK(task_is(store, "run_1", "failed-"));
    bl_store_close(store);
}

PROXY_TEST(task_writes_whose_answer_is_lost_take_place_once)
{
    struct bl_store *store = store_at(place), *other = store_at(place);
    place_lose_answer(place, "belay.begin_task");
    CHECK_EQUAL(begin_run(store, "run_1", NULL), 0);
    CHECK(task_is(other, "run_1", "working+"));
    place_lose_answer(place, "belay.end_task");
    CHECK_EQUAL(end_run(store, "run_1", "{\"n\":1}"), 0);
    CHECK(task_is(other, "run_1", "completed-"));
    /* These find what others did. */
    place_lose_answer(place, "belay.end_task");
    CHECK_EQUAL(end_run(other, "run_1", "{\"n\":2}"), BL_EEXIST);
    place_lose_answer(place, "belay.begin_task");
    CHECK_EQUAL(begin_run(store, "run_1", NULL), BL_EEXIST);
    CHECK_EQUAL(begin_run(other, "run_2", NULL), 0);
    place_lose_answer(place, "belay.begin_task");
    CHECK_EQUAL(begin_run(store, "run_2", NULL), BL_EEXIST);
    change_file(place, "update task set boot = 'another' where id = 'run_2'");
    place_lose_answer(place, "belay.fail_task");
    CHECK(task_is(store, "run_2", "failed-"));
    CHECK_EQUAL(pg_proxy_hits(place->proxy), 6);
    bl_store_close(other);
    bl_store_close(store);
}

SUITE(pg_task, cmocka_unit_test(task_of_an_invisible_owner_fails_when_its_worker_is_not_at_work),
      cmocka_unit_test(lost_worker_begins_tasks_as_another_one),
      cmocka_unit_test(task_writes_whose_answer_is_lost_take_place_once));
