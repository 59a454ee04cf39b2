/* Moving sessions in a database whose answers are lost, and what its functions refuse. */
#include <stdio.h>
#include <stdlib.h>

#include <pgproxy.h>

#include "helpers.h"

static void make_alpha(struct bl_store *store)
{
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    release(&holding);
}

PROXY_TEST(fork_and_deletion_without_an_answer_take_place_once)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    const char *id = NULL;
    make_alpha(store);
    place_lose_answer(place, "fork_session");
    CHECK_EQUAL(bl_store_fork(store, "alpha", "beta", &arena, &id, NULL), 0);
    CHECK(id != NULL && strcmp(id, "beta") == 0);
    place_lose_answer(place, "fork_session");
    CHECK_EQUAL(bl_store_fork(store, "alpha", NULL, &arena, &id, NULL), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 3);
    /* One that was there before is another's. */
    CHECK_EQUAL(bl_store_fork(store, "alpha", "beta", &arena, &id, NULL), BL_EEXIST);
    place_lose_answer(place, "fork_session");
    CHECK_EQUAL(bl_store_fork(store, "alpha", "beta", &arena, &id, NULL), BL_EEXIST);
    place_lose_answer(place, "delete_session");
    CHECK_EQUAL(bl_store_delete(store, "alpha", &error), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 2);
    CHECK_EQUAL(bl_store_delete(store, "alpha", NULL), BL_ENOENT);
    bl_store_close(store);
    bl_arena_done(&arena);
}

PROXY_TEST(import_without_an_answer_is_unknown)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    struct bl_buffer lines;
    const char *id = NULL;
    make_alpha(store);
    CHECK_EQUAL(export_to(store, "alpha", &lines, NULL), 0);
    place_lose_answer(place, "put_totals");
    CHECK_EQUAL(bl_store_import(store, bl_buffer_text(&lines), "beta", &arena, &id, &error),
                BL_EUNKNOWN);
    CHECK(strcmp(error.name, "commit_unknown") == 0);
    /* It has taken place here, and is not repeated. */
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 2);
    bl_buffer_done(&lines);
    bl_store_close(store);
    bl_arena_done(&arena);
}

/* As a worker, in one transaction: what the functions of an import do to session alpha. */
#define HELD_BY_OTHER                                                                              \
    "perform belay.register('own_x', 'h', 'b', 'p', 1, 1, 1);"                                     \
    " perform belay.hold('own_x', 1, array[1::bigint], '{}', 'alpha', false, true, false, 'h',"    \
    " '/d', 'run_x', null, null, 't', null, null, null, 'made', now());"
#define REFUSED(before, call)                                                                      \
    "set role belay_worker; do $test$ begin " before " begin perform " call                        \
    "; raise 'it was written'; exception when insufficient_privilege then null; end; end $test$"

POSTGRES_TEST(functions_of_an_import_write_only_into_a_session_that_it_made)
{
    static const char *const refused[] = {
        REFUSED("", "belay.put_turn('alpha', 2, 't', 'r', false, now(), 0, 0, 0, 0, 0, 0, false,"
                    " null, '', '', '')"),
        REFUSED("", "belay.put_attempt('alpha', 't', 'r', 'rejected', now(), now(), 0, 0, 0, 0,"
                    " false, null, '', '')"),
        REFUSED("", "belay.put_beside('alpha', 'r', 9, 'x', null, null, null)"),
        REFUSED("", "belay.put_imported_checkpoint('alpha', 'n', '1')"),
        REFUSED("", "belay.put_cell('alpha', 'c', now(), 0, 0, 1, true, now(), '', null, '', '')"),
        REFUSED("", "belay.put_value('alpha', 'n', '1')"),
        REFUSED("", "belay.put_tombstone('alpha', 'c', now(), '')"),
        REFUSED("", "belay.put_totals('alpha', 9, 9, 9, 9, 9, 9, false)"),
        /* Held by the same transaction, so that its row is this transaction's. */
        REFUSED(HELD_BY_OTHER, "belay.put_beside('alpha', 'r', 9, 'x', null, null, null)"),
        REFUSED(HELD_BY_OTHER, "belay.put_totals('alpha', 9, 9, 9, 9, 9, 9, false)"),
        /* Internal functions, and tables. */
        REFUSED("", "belay.made('alpha')"),
        REFUSED("", "belay.copy_session(1, 'beta', 'h', now())"),
    };
    struct bl_store *store = store_at(place);
    make_alpha(store);
    for (size_t i = 0; i < BL_COUNT(refused); i++)
        change_file(place, refused[i]);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 1);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM journal"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT input FROM session"), 10);
    bl_store_close(store);
}

/* More than the socket takes at once: the rest is sent after the first call has failed. */
POSTGRES_TEST(large_import_under_a_used_id_is_refused)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_buffer lines;
    struct holding holding;
    const char *id = NULL;
    char turn_id[BL_ID_SIZE];
    struct bl_settlement settlement;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    struct bl_text result = bl_arena_printf(&arena, "{\"output\":\"%0*d\"}", 256 * 1024, 0);
    for (int i = 0; i < 80; i++) {
        snprintf(turn_id, sizeof turn_id, "turn_%d", i);
        CHECK_EQUAL(begin_turn(&holding, turn_id), 0);
        fill_settlement(&settlement, turn_id);
        settlement.result = result;
        CHECK_EQUAL(holding.table->commit(holding.table->context, &settlement, NULL), 0);
    }
    release(&holding);
    CHECK_EQUAL(export_to(store, "alpha", &lines, NULL), 0);
    CHECK(lines.size > (size_t)20 * 1024 * 1024);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(bl_store_import(store, bl_buffer_text(&lines), NULL, &arena, &id, NULL),
                    BL_EEXIST);
    CHECK_EQUAL(bl_store_import(store, bl_buffer_text(&lines), "beta", &arena, &id, NULL), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 160);
    bl_buffer_done(&lines);
    bl_arena_done(&arena);
    bl_store_close(store);
}

struct deleter {
    struct bl_store *store;
    bool over;
    unsigned deleted;
};

static int delete_alpha(void *argument)
{
    struct deleter *deleter = argument;
    while (!deleter->over) {
        int code = bl_store_delete(deleter->store, "alpha", NULL);
        CHECK(code == 0 || code == BL_ENOENT || code == BL_EBUSY);
        deleter->deleted += code == 0;
    }
    return 0;
}

POSTGRES_TEST(session_that_is_deleted_while_it_is_opened_is_made_again)
{
    struct bl_store *store = store_at(place);
    struct deleter deleter = {.store = store_at(place)};
    struct bl_nursery nursery;
    unsigned long rounds = suite_rounds(200, 20000);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "delete", delete_alpha, &deleter, NULL);
    for (unsigned long i = 0; i < rounds; i++) {
        struct holding holding;
        CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
        if (holding.held != NULL) {
            CHECK(holding.held->grip.epoch > 0 && holding.held->grip.session > 0);
            CHECK_EQUAL(begin_turn(&holding, "turn_1"), 0);
        }
        release(&holding);
    }
    deleter.over = true;
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    CHECK(deleter.deleted > 0);
    bl_store_close(deleter.store);
    bl_store_close(store);
}

SUITE(pg_move, cmocka_unit_test(session_that_is_deleted_while_it_is_opened_is_made_again),
      cmocka_unit_test(fork_and_deletion_without_an_answer_take_place_once),
      cmocka_unit_test(import_without_an_answer_is_unknown),
      cmocka_unit_test(functions_of_an_import_write_only_into_a_session_that_it_made),
      cmocka_unit_test(large_import_under_a_used_id_is_refused));
