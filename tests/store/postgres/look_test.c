/* Reading a database that several hosts share. */
#include <stdio.h>

#include <pgproxy.h>

#include "helpers.h"

static unsigned count_in(struct bl_store *store, const char *directory)
{
    BL_AUTO_ARENA(arena);
    struct bl_list summaries;
    unsigned count = 0;
    CHECK_EQUAL(bl_store_list(store, &arena, directory, 0, false, &summaries, NULL), 0);
    BL_LIST_EACH (link, &summaries)
        count++;
    return count;
}

POSTGRES_TEST(sessions_of_a_directory_are_those_of_this_host)
{
    struct bl_store *store = store_at(place), *other = store_on(place, "elsewhere");
    struct holding holding;
    CHECK_EQUAL(hold(&holding, other, "alpha"), 0);
    release(&holding);
    CHECK_EQUAL(count_in(store, "/home/somebody"), 0);
    CHECK_EQUAL(count_in(other, "/home/somebody"), 1);
    CHECK_EQUAL(count_in(store, NULL), 1);
    CHECK_EQUAL(hold(&holding, store, "beta"), 0);
    release(&holding);
    CHECK_EQUAL(count_in(store, "/home/somebody"), 1);
    CHECK_EQUAL(count_in(store, NULL), 2);
    bl_store_close(other);
    bl_store_close(store);
}

/* Deletes the session when its first turn is exported. */
struct deleting {
    struct bl_store *store;
    unsigned turns;
};

static int delete_at_first(void *context, struct bl_text line)
{
    struct deleting *deleting = context;
    if (bl_text_starts_with(line, BL_TEXT("{\"type\":\"turn\"")) && deleting->turns++ == 0)
        CHECK_EQUAL(bl_store_delete(deleting->store, "alpha", NULL), 0);
    return 0;
}

POSTGRES_TEST(export_of_a_session_that_is_deleted_meanwhile_fails)
{
    struct bl_store *store = store_at(place);
    struct deleting deleting = {.store = store};
    struct bl_error error = {0};
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    for (int i = 0; i < 300; i++) {
        char turn_id[BL_ID_SIZE];
        snprintf(turn_id, sizeof turn_id, "turn_%d", i);
        add_turn(&holding, turn_id);
    }
    release(&holding);
    CHECK_EQUAL(bl_store_export(store, "alpha", delete_at_first, &deleting, &error), BL_ENOENT);
    CHECK(strstr(error.message, "was deleted while it was exported") != NULL);
    CHECK(deleting.turns > 0 && deleting.turns < 300);
    bl_store_close(store);
}

static int count_lines(void *context, struct bl_text line)
{
    unsigned *turns = context;
    *turns += bl_text_starts_with(line, BL_TEXT("{\"type\":\"turn\""));
    return 0;
}

/* Pages end by size as well as by number. */
POSTGRES_TEST(pages_of_an_export_have_all_rows_of_any_size)
{
    static const int sizes[] = {1,       700000,  700000, 3000000, 1,      1, 1048575,
                                1048577, 1500000, 10,     524288,  524288, 1};
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_settlement settlement;
    struct holding holding;
    unsigned turns = 0;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    for (size_t i = 0; i < BL_COUNT(sizes); i++) {
        char turn_id[BL_ID_SIZE];
        snprintf(turn_id, sizeof turn_id, "turn_%zu", i);
        CHECK_EQUAL(begin_turn(&holding, turn_id), 0);
        fill_settlement(&settlement, turn_id);
        settlement.result = bl_arena_printf(&arena, "{\"output\":\"%0*d\"}", sizes[i], 0);
        CHECK_EQUAL(holding.table->commit(holding.table->context, &settlement, NULL), 0);
    }
    CHECK_EQUAL(bl_store_export(store, "alpha", count_lines, &turns, NULL), 0);
    CHECK_EQUAL(turns, BL_COUNT(sizes));
    release(&holding);
    bl_arena_done(&arena);
    bl_store_close(store);
}

PROXY_TEST(a_read_without_an_answer_is_not_an_unknown_write)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    struct bl_list summaries;
    CHECK_EQUAL(count_in(store, NULL), 0);
    pg_proxy_fault(place->proxy, &(struct pg_fault){.type = PG_DROP_AND_CUT});
    int code = bl_store_list(store, &arena, NULL, 0, false, &summaries, &error);
    CHECK(code != 0 && code != BL_EUNKNOWN && error.retryable);
    CHECK(strstr(error.message, "write") == NULL);
    pg_proxy_fault(place->proxy, NULL);
    CHECK_EQUAL(count_in(store, NULL), 0);
    bl_store_close(store);
    bl_arena_done(&arena);
}

SUITE(pg_look, cmocka_unit_test(a_read_without_an_answer_is_not_an_unknown_write),
      cmocka_unit_test(sessions_of_a_directory_are_those_of_this_host),
      cmocka_unit_test(export_of_a_session_that_is_deleted_meanwhile_fails),
      cmocka_unit_test(pages_of_an_export_have_all_rows_of_any_size));
