#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <belay/agent.h>

static char root[64];

static void put(const char *name, const char *text, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    fclose(file);
}

static void make_folder(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/belay-instructions-XXXXXX");
    assert_non_null(mkdtemp(root));
    make_folder("config");
    make_folder("config/belay");
    make_folder("work");
    make_folder("work/.git");
    make_folder("work/a");
    make_folder("work/a/b");
    setenv("XDG_CONFIG_HOME", root, 1);
    return 0;
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static size_t find(struct bl_arena *arena, const char *below, struct bl_list *list,
                   struct bl_error *error, int *ret_code)
{
    char directory[256];
    size_t count = 0;
    snprintf(directory, sizeof directory, "%s/%s", root, below);
    *ret_code = bl_instructions_find(arena, directory, list, error);
    BL_LIST_EACH (link, list)
        count++;
    return count;
}

static void nearest_comes_last_after_the_users_own(void **state)
{
    struct bl_arena arena;
    struct bl_list list;
    int code;

    (void)state;
    bl_arena_init(&arena);
    char config[128];
    snprintf(config, sizeof config, "%s/config", root);
    setenv("XDG_CONFIG_HOME", config, 1);
    put("config/belay/AGENTS.md", "own", 3);
    put("AGENTS.md", "above", 5);
    put("work/AGENTS.md", "root", 4);
    put("work/a/b/AGENTS.md", "near", 4);
    assert_int_equal(find(&arena, "work/a/b", &list, NULL, &code), 3);
    assert_int_equal(code, 0);
    assert_true(
        bl_text_equal(BL_CONTAINER(list.next, struct bl_instruction, link)->text, BL_TEXT("own")));
    assert_true(bl_text_equal(BL_CONTAINER(list.previous, struct bl_instruction, link)->text,
                              BL_TEXT("near")));
    assert_int_equal(find(&arena, "config", &list, NULL, &code), 1);
    bl_arena_done(&arena);
}

static void what_cannot_be_used_is_an_error_that_names_the_file(void **state)
{
    static char large[300 * 1024];
    struct bl_arena arena;
    struct bl_error error = {0};
    struct bl_list list;
    int code;

    (void)state;
    bl_arena_init(&arena);
    put("work/AGENTS.md", "\xff\xfe", 2);
    find(&arena, "work", &list, &error, &code);
    assert_int_equal(code, BL_EPARSE);
    assert_non_null(strstr(error.message, "work/AGENTS.md"));
    memset(large, 'x', sizeof large);
    put("work/AGENTS.md", large, sizeof large);
    find(&arena, "work", &list, NULL, &code);
    assert_int_equal(code, BL_ELIMIT);
    put("work/AGENTS.md", "", 0);
    make_folder("work/a/AGENTS.md");
    find(&arena, "work/a", &list, NULL, &code);
    assert_int_equal(code, BL_EIO);
    bl_arena_done(&arena);
}

SUITE(instructions,
      cmocka_unit_test_setup_teardown(nearest_comes_last_after_the_users_own, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_cannot_be_used_is_an_error_that_names_the_file, set_up,
                                      tear_down));
