#include <unistd.h>

#include "helpers.h"

STORE_TEST(a_store_is_moved_aside_with_what_belongs_to_it)
{
    struct bl_arena arena = {0};
    const char *aside = NULL;
    struct actor actor;
    /* A process that was killed leaves a log behind. */
    actor_start(&actor, "holder", place, "alpha", false);
    actor_expect(&actor, "no error");
    CHECK_EQUAL(bl_store_move_aside(&arena, place->path, &aside, NULL), BL_EBUSY);
    actor_kill(&actor);
    CHECK_EQUAL(access(bl_arena_printf(&arena, "%s-wal", place->path).data, F_OK), 0);
    CHECK_EQUAL(bl_store_move_aside(&arena, place->path, &aside, NULL), 0);
    CHECK(aside != NULL && strstr(aside, ".aside-2") != NULL);
    CHECK_EQUAL(access(place->path, F_OK), -1);
    CHECK_EQUAL(access(bl_arena_printf(&arena, "%s-wal", place->path).data, F_OK), -1);
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 0);
    bl_store_close(store);
    /* All of its data is there. */
    struct place there = *place;
    bl_text_into(there.path, sizeof there.path, aside);
    place_use_file(&there);
    CHECK_EQUAL(ask_integer(&there, "SELECT count(*) FROM session"), 1);
    bl_arena_done(&arena);
}

STORE_TEST(missing_store_cannot_be_moved_aside)
{
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    const char *aside = NULL;
    CHECK_EQUAL(bl_store_move_aside(&arena, place->path, &aside, &error), BL_ENOENT);
    CHECK_EQUAL(error.kind, BL_KIND_FILESYSTEM);
    bl_arena_done(&arena);
}

SUITE(aside, cmocka_unit_test(a_store_is_moved_aside_with_what_belongs_to_it),
      cmocka_unit_test(missing_store_cannot_be_moved_aside));
