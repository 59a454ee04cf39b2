#include <stdio.h>

#include "helpers.h"

enum {
    COUNT = 64
};

static unsigned batches;

static void count_batches(void *context, struct bl_list *jobs)
{
    batches++;
    sqlite_write(context, jobs);
}

static int commit_one(void *argument)
{
    return commit_turn(argument, "turn_1");
}

STORE_TEST(concurrent_commits_share_a_sync_and_a_refusal_affects_no_other)
{
    struct bl_store *store = store_at(place);
    struct bl_nursery nursery;
    struct holding *holdings = bl_zalloc(COUNT * sizeof *holdings);
    struct bl_fiber *fibers[COUNT];
    char id[16];
    int results[COUNT];
    for (int i = 0; i < COUNT; i++) {
        snprintf(id, sizeof id, "s-%d", i);
        CHECK_EQUAL(hold(&holdings[i], store, id), 0);
        /* One was not begun. */
        if (i != 17)
            CHECK_EQUAL(begin_turn(&holdings[i], "turn_1"), 0);
    }
    CHECK_EQUAL(store->writer.jobs_max, COUNT / 2);
    store->writer.run = count_batches;
    batches = 0;
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < COUNT; i++)
        bl_nursery_spawn(&nursery, NULL, "commit", commit_one, &holdings[i], &fibers[i]);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQUAL(bl_fiber_join(fibers[i], &results[i]), 0);
    bl_nursery_done(&nursery);
    CHECK(batches <= 4);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQUAL(results[i], i == 17 ? BL_EEXIST : 0);
        release(&holdings[i]);
    }
    CHECK_EQUAL(store->writer.jobs_max, STORE_BATCH_JOBS_MIN);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), COUNT - 1);
    CHECK_EQUAL(ask_integer(place, "SELECT turns_total FROM session WHERE id = 's-17'"), 0);
    bl_free(holdings);
    bl_store_close(store);
}

static int commit_large(void *argument)
{
    struct holding *holding = argument;
    struct bl_settlement settlement;
    struct bl_buffer events;
    bl_buffer_init(&events, SIZE_MAX / 2);
    while (events.size < (size_t)900 * 1024)
        bl_buffer_append(&events, BL_TEXT("{\"type\":\"warning\",\"text\":\"so much to say\"}\n"));
    fill_settlement(&settlement, "turn_1");
    settlement.events = bl_buffer_text(&events);
    int code = holding->table->commit(holding->table->context, &settlement, NULL);
    bl_buffer_done(&events);
    return code;
}

STORE_TEST(what_does_not_fit_is_refused_and_the_rest_of_its_group_is_not)
{
    struct bl_store *store = store_at(place);
    struct bl_nursery nursery;
    struct holding holdings[8];
    struct bl_fiber *fibers[8];
    sqlite3 *db = ((struct sqlite_store *)store->state)->writer.db;
    CHECK_EQUAL(sqlite3_exec(db, "PRAGMA max_page_count = 100", NULL, NULL, NULL), SQLITE_OK);
    for (size_t i = 0; i < BL_COUNT(holdings); i++) {
        CHECK_EQUAL(hold(&holdings[i], store, NULL), 0);
        CHECK_EQUAL(begin_turn(&holdings[i], "turn_1"), 0);
    }
    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < BL_COUNT(holdings); i++)
        bl_nursery_spawn(&nursery, NULL, "commit", i % 4 == 2 ? commit_large : commit_one,
                         &holdings[i], &fibers[i]);
    for (size_t i = 0; i < BL_COUNT(holdings); i++) {
        int result;
        CHECK_EQUAL(bl_fiber_join(fibers[i], &result), 0);
        CHECK_EQUAL(result, i % 4 == 2 ? BL_ENOSPC : 0);
    }
    bl_nursery_done(&nursery);
    for (size_t i = 0; i < BL_COUNT(holdings); i++)
        release(&holdings[i]);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 6);
    bl_store_close(store);
}

STORE_TEST(a_store_seen_to_be_damaged_is_not_written_to_any_more)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    ((struct sqlite_store *)store->state)->writer.damaged = true;
    CHECK_EQUAL(begin_turn(&holding, "turn_1"), BL_EIO);
    CHECK(strstr(holding.error.message, "damaged") != NULL);
    ((struct sqlite_store *)store->state)->writer.damaged = false;
    CHECK_EQUAL(begin_turn(&holding, "turn_1"), 0);
    release(&holding);
    bl_store_close(store);
}

STORE_TEST(a_database_that_another_keeps_locked_is_waited_for)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    sqlite3 *db = NULL;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(sqlite3_open(place->path, &db), SQLITE_OK);
    CHECK_EQUAL(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    struct bl_nursery nursery;
    struct bl_fiber *fiber;
    int result = -1;
    sqlite3_busy_timeout(((struct sqlite_store *)store->state)->writer.db, 300);
    CHECK_EQUAL(begin_turn(&holding, "turn_0"), BL_EBUSY);
    CHECK_EQUAL(holding.error.kind, BL_KIND_FILESYSTEM);
    CHECK(holding.error.retryable);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "commit", commit_one, &holding, &fiber);
    bl_sleep(50 * MS);
    CHECK_EQUAL(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQUAL(bl_fiber_join(fiber, &result), 0);
    CHECK_EQUAL(result, BL_EEXIST); /* it was run: the turn was not begun */
    bl_nursery_done(&nursery);
    sqlite3_close(db);
    release(&holding);
    bl_store_close(store);
}

STORE_TEST(a_long_log_is_moved_into_the_file)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    for (int i = 0; i < 24; i++) {
        char turn_id[24];
        struct bl_settlement settlement;
        snprintf(turn_id, sizeof turn_id, "turn_%d", i);
        CHECK_EQUAL(begin_turn(&holding, turn_id), 0);
        fill_settlement(&settlement, turn_id);
        struct bl_buffer events;
        bl_buffer_init(&events, SIZE_MAX / 2);
        while (events.size < (size_t)900 * 1024)
            bl_buffer_append(&events, BL_TEXT("{\"type\":\"warning\",\"text\":\"much\"}\n"));
        settlement.events = bl_buffer_text(&events);
        CHECK_EQUAL(holding.table->commit(holding.table->context, &settlement, NULL), 0);
        bl_buffer_done(&events);
    }
    struct bl_arena arena = {0};
    struct bl_text log = suite_read_file(bl_arena_printf(&arena, "%s-wal", place->path).data);
    struct bl_text file = suite_read_file(place->path);
    CHECK(log.size < (size_t)16 * 1024 * 1024);
    CHECK(file.size > (size_t)4 * 1024 * 1024);
    bl_free((void *)(uintptr_t)log.data);
    bl_free((void *)(uintptr_t)file.data);
    bl_arena_done(&arena);
    release(&holding);
    bl_store_close(store);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 24);
}

SUITE(sqlite_write,
      cmocka_unit_test(concurrent_commits_share_a_sync_and_a_refusal_affects_no_other),
      cmocka_unit_test(what_does_not_fit_is_refused_and_the_rest_of_its_group_is_not),
      cmocka_unit_test(a_store_seen_to_be_damaged_is_not_written_to_any_more),
      cmocka_unit_test(a_database_that_another_keeps_locked_is_waited_for),
      cmocka_unit_test(a_long_log_is_moved_into_the_file));
