#include "plans.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect_text(const struct place *place, const char *directory, const char *name,
                        const char *expected)
{
    struct bl_plan_options options = {.name = name, .directory = directory};
    struct loaded loaded;

    plans_load(place, &options, &loaded);
    if (strcmp(loaded.text.data, expected) != 0)
        fail_msg("%s: expected:\n%s\nfound:\n%s", name, expected, loaded.text.data);
    plans_done(&loaded);
}

static void feature_is_named_by_id_or_path(void **state BL_UNUSED)
{
    static const char *const names[] = {"FEAT-A", ".belay/features/FEAT-A.yaml",
                                        "tasks/../.belay/features/FEAT-A.yaml"};
    struct place place;
    struct loaded loaded;
    char path[400], below[400];

    plans_make(&place);
    place_write(&place, PLAN_FILE, PLAN_HEAD);
    snprintf(path, sizeof path, "%s/" PLAN_FILE, place.repository);
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        struct bl_plan_options options = {.name = names[i], .directory = place.repository};
        plans_load(&place, &options, &loaded);
        assert_int_equal(loaded.code, 0);
        assert_string_equal(loaded.plan->path, path);
        assert_string_equal(loaded.plan->repository, place.repository);
        plans_done(&loaded);
    }
    /* From a folder below the repository, and from outside. */
    snprintf(below, sizeof below, "%s/tasks", place.repository);
    expect_text(&place, below, "FEAT-A", "");
    expect_text(&place, below, "../" PLAN_FILE, "");
    expect_text(&place, "/", path, "");
    expect_text(&place, "/", path + 1, "");
    place_done(&place);
}

static void plan_is_found_in_all_four_places(void **state BL_UNUSED)
{
    static const char *const files[] = {".belay/features/FEAT-A.yaml", ".belay/features/FEAT-A.yml",
                                        ".guardkit/features/FEAT-A.yaml",
                                        ".guardkit/features/FEAT-A.yml"};
    struct place place;
    char path[400];

    plans_make(&place);
    for (size_t i = 0; i < BL_COUNT(files); i++) {
        place_write(&place, files[i], PLAN_HEAD);
        expect_text(&place, place.repository, "FEAT-A", "");
        snprintf(path, sizeof path, "%s/%s", place.repository, files[i]);
        assert_int_equal(unlink(path), 0);
    }
    place_write(&place, files[0], PLAN_HEAD);
    place_write(&place, files[2], PLAN_HEAD);
    expect_text(&place, place.repository, "FEAT-A",
                PLAN_FILE
                ":1: E01 the feature exists twice, as .belay/features/FEAT-A.yaml and "
                "as .guardkit/features/FEAT-A.yaml: remove one of them, or use its path\n");
    expect_text(&place, place.repository, files[2], "");
    place_done(&place);
}

static void E01_missing_file_suggests_ids(void **state BL_UNUSED)
{
    struct place place;
    char expected[1024];

    plans_make(&place);
    place_write(&place, ".belay/features/FEAT-AUTH.yaml", PLAN_HEAD);
    place_write(&place, ".belay/features/FEAT-AUTO.yml", PLAN_HEAD);
    place_write(&place, ".guardkit/features/FEAT-AUTX.yaml", PLAN_HEAD);
    place_write(&place, ".guardkit/features/FEAT-AUTY.yaml", PLAN_HEAD);
    place_write(&place, ".belay/features/OTHER.yaml", PLAN_HEAD);
    snprintf(expected, sizeof expected,
             "FEAT-AUT: E01 no feature FEAT-AUT: neither .belay/features/FEAT-AUT.yaml "
             "nor .guardkit/features/FEAT-AUT.yaml exists in %s. Did you mean 'FEAT-AUTH', "
             "'FEAT-AUTO' or 'FEAT-AUTX'?\n",
             place.repository);
    expect_text(&place, place.repository, "FEAT-AUT", expected);
    expect_text(&place, place.repository, "./OTHR",
                "./OTHR: E01 cannot open the plan: no such file; use an id or a path. "
                "Did you mean 'OTHER'?\n");
    expect_text(&place, place.repository, "no/where.yaml",
                "no/where.yaml: E01 cannot open the plan: no such file; use an id or a path. The "
                "plans here are FEAT-AUTH, FEAT-AUTO, FEAT-AUTX, FEAT-AUTY and "
                "OTHER.\n");
    place_done(&place);
}

static void hostile_names_are_shown_escaped(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    expect_text(&place, place.repository, "a\033[2J\xff\n",
                "a\\x1b[2J\xef\xbf\xbd\\n: E01 cannot open the plan: no such file; use an id or a "
                "path. There are no plans in .belay/features; 'belay feature new' writes one.\n");
    place_done(&place);
}

static void without_a_repository_there_is_no_plan(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    struct bl_plan_options options = {.name = "FEAT-A", .directory = place.root};
    plans_load(&place, &options, &loaded);
    assert_int_equal(loaded.code, BL_ENOENT);
    assert_int_equal(loaded.error.kind, BL_KIND_FEATURE);
    assert_true(loaded.error.hint[0] != '\0');
    plans_done(&loaded);
    place_write(&place, "../lone.yaml", PLAN_HEAD);
    options.name = "lone.yaml";
    plans_load(&place, &options, &loaded);
    assert_int_equal(loaded.code, BL_ENOENT);
    assert_int_equal(loaded.error.kind, BL_KIND_FEATURE);
    plans_done(&loaded);
    options.directory = "/nonexistent/folder";
    options.name = "FEAT-A";
    plans_load(&place, &options, &loaded);
    assert_int_equal(loaded.code, BL_ENOENT);
    plans_done(&loaded);
    place_done(&place);
}

static void repository_is_found_from_worktrees_and_through_links(void **state BL_UNUSED)
{
    struct place place;
    struct bl_arena arena;
    const char *repository;
    char path[400], worktree[400];

    plans_make(&place);
    bl_arena_init(&arena);
    snprintf(path, sizeof path, "%s/link", place.root);
    snprintf(worktree, sizeof worktree, "%s/tasks", place.repository);
    assert_int_equal(symlink(worktree, path), 0);
    assert_int_equal(bl_plan_repository(&arena, path, &repository, NULL), 0);
    assert_string_equal(repository, place.repository);
    /* A worktree's .git is a file. */
    place_write(&place, "../tree/.git", "gitdir: /elsewhere\n");
    place_write(&place, "../tree/a/b/c", "");
    snprintf(path, sizeof path, "%s/tree/a/b", place.root);
    snprintf(worktree, sizeof worktree, "%s/tree", place.root);
    assert_int_equal(bl_plan_repository(&arena, path, &repository, NULL), 0);
    assert_string_equal(repository, worktree);
    assert_int_equal(bl_plan_repository(&arena, place.root, &repository, NULL), BL_ENOENT);
    bl_arena_done(&arena);
    place_done(&place);
}

static void names_are_resolved_to_ids(void **state BL_UNUSED)
{
    struct place place;
    struct bl_arena arena;

    plans_make(&place);
    bl_arena_init(&arena);
    place_write(&place, PLAN_FILE, PLAN_HEAD);
    place_write(&place, "broken.yaml", "id: [");
    place_write(&place, "hostile.yaml", "id: \"../x\"");
    assert_string_equal(bl_plan_name_id(&arena, place.repository, "FEAT-X"), "FEAT-X");
    assert_string_equal(bl_plan_name_id(&arena, place.repository, PLAN_FILE), "FEAT-A");
    assert_string_equal(bl_plan_name_id(&arena, place.repository, "./broken.yaml"), "broken");
    assert_string_equal(bl_plan_name_id(&arena, place.repository, "hostile.yaml"), "hostile");
    assert_string_equal(bl_plan_name_id(&arena, place.repository, "not/there.yml"), "there");
    bl_arena_done(&arena);
    place_done(&place);
}

SUITE(plan_find, cmocka_unit_test(feature_is_named_by_id_or_path),
      cmocka_unit_test(plan_is_found_in_all_four_places),
      cmocka_unit_test(E01_missing_file_suggests_ids),
      cmocka_unit_test(hostile_names_are_shown_escaped),
      cmocka_unit_test(without_a_repository_there_is_no_plan),
      cmocka_unit_test(repository_is_found_from_worktrees_and_through_links),
      cmocka_unit_test(names_are_resolved_to_ids));
