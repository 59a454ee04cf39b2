#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

static int listed(void *argument)
{
    struct files *files = argument;
    files_put(files, "b.txt", BL_TEXT("12345"));
    files_put(files, "a/inner.c", BL_TEXT("x"));
    files_put(files, ".hidden", BL_TEXT(""));
    files_put(files, "run", BL_TEXT("#!"));
    CHECK_EQUAL(chmod(files_path(files, "run"), 0755), 0);
    files_link(files, "b.txt", "link");
    CHECK_EQUAL(mkfifo(files_path(files, "pipe"), 0666), 0);
    CHECK_EQUAL(files_call(files, &tool_ls, "{}"), 0);
    CHECK(!files->result.is_error);
    CHECK(strcmp(files_text(files), ".hidden  0\na/\nb.txt  5\nlink -> b.txt\npipe|\nrun*  2\n") ==
          0);
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"path\":\"a\"}"), 0);
    CHECK(strcmp(files_text(files), "inner.c  1\n") == 0);
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"path\":\"%s\"}", files_path(files, "a")), 0);
    CHECK(strcmp(files_text(files), "inner.c  1\n") == 0);
    return 0;
}

static int deep(void *argument)
{
    struct files *files = argument;
    files_put(files, "a/b/c/d", BL_TEXT("x"));
    files_put(files, "a/z", BL_TEXT("xy"));
    files_put(files, ".git/objects/pack", BL_TEXT("x"));
    files_put(files, "e", BL_TEXT("x"));
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"depth\":3}"), 0);
    CHECK(strcmp(files_text(files), ".git/  [not listed]\na/\n  b/\n    c/\n  z  2\ne  1\n") == 0);
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"path\":\".git\",\"depth\":2}"), 0);
    CHECK(strcmp(files_text(files), "objects/\n  pack  1\n") == 0);
    return 0;
}

static int links_out(void *argument)
{
    struct files *files = argument;
    files_put(files, "../outside/secret", BL_TEXT("x"));
    files_link(files, files->outside, "out");
    files_link(files, ".", "around");
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"depth\":5}"), 0);
    CHECK(files_says(files, false, "around -> .\nout -> /"));
    CHECK(strstr(files_text(files), "secret") == NULL);
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"path\":\"out\"}"), 0);
    CHECK(files_says(files, true, "is outside the workspace (through a symbolic link)"));
    return 0;
}

static int bounded(void *argument)
{
    struct files *files = argument;
    char name[64];
    files_folder(files, "many");
    for (int i = 0; i < 1200; i++) {
        snprintf(name, sizeof name, "many/%04d", i);
        CHECK_EQUAL(mknod(files_path(files, name), S_IFREG | 0666, 0), 0);
    }
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "zz/%02d", i);
        files_put(files, name, BL_TEXT(""));
    }
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"path\":\"many\"}"), 0);
    CHECK(files_says(files, false,
                     "0999  0\n[200 more entries left out: list a single folder, or use glob]\n"));
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"depth\":2}"), 0);
    CHECK(files_says(files, false, "many/  [202 of its entries left out]\n  0000  0\n"));
    CHECK(files_says(files, false, "\nzz/  [not listed: limit reached]\n"));
    CHECK(files_says(files, false,
                     "[202 more entries left out, besides those of unlisted folders: "));
    /* Room for exactly 43 lines of eight bytes besides the notes; and one byte less. */
    for (size_t i = 0; i < 2; i++) {
        files->toolbox.output_max = 600 - i;
        CHECK_EQUAL(files_call(files, &tool_ls, "{\"path\":\"many\"}"), 0);
        CHECK(files_says(files, false,
                         i == 0 ? "\n0042  0\n[1157 more entries left out"
                                : "\n0041  0\n[1158 more entries left out"));
    }
    return 0;
}

static int others(void *argument)
{
    struct files *files = argument;
    files_put(files, "file", BL_TEXT("abc"));
    files_folder(files, "empty");
    files_put(files, "odd/\xFF\n", BL_TEXT(""));
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"path\":\"file\"}"), 0);
    CHECK(files_says(files, false, "'file' is a file (3 bytes), not a folder."));
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"path\":\"empty\"}"), 0);
    CHECK(files_says(files, false, "'empty' is an empty folder."));
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"path\":\"odd\"}"), 0);
    CHECK(strcmp(files_text(files), "\xEF\xBF\xBD?  0\n") == 0);
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"path\":\"none\"}"), 0);
    CHECK(files_says(files, true, "'none' does not exist"));
    CHECK(!files_fits(files, &tool_ls, "{\"depth\":0}"));
    CHECK(!files_fits(files, &tool_ls, "{\"depth\":21}"));
    CHECK(!files_fits(files, &tool_ls, "{\"all\":true}"));
    return 0;
}

/* A stop before or during the listing: the result is complete, or says that it was stopped. */
static int stopped(void *argument)
{
    struct files *files = argument;
    for (unsigned i = 0; i < 300; i++)
        files_folder(files, bl_arena_printf(&files->arena, "f%u/a/b/c/d", i).data);
    for (unsigned i = 0; i < 5; i++) {
        struct bl_nursery nursery;
        bl_nursery_init(&nursery, bl_scope_current());
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "stopper", files_stop, files, NULL), 0);
        int code = files_call(files, &tool_ls, "{\"depth\":20}");
        bl_nursery_done(&nursery);
        CHECK(code == 0 || code == BL_ECANCELED);
        CHECK(code == 0 ? files_says(files, false, "f0/\n")
                        : files_says(files, true, "stopped: nothing was listed"));
        files_arm(files);
    }
    return 0;
}

FILES_TEST(ls_lists_names_with_marks_and_sizes, listed)
FILES_TEST(ls_lists_as_deep_as_asked, deep)
FILES_TEST(ls_does_not_follow_links, links_out)
FILES_TEST(ls_is_bounded_and_says_what_it_left_out, bounded)
FILES_TEST(ls_that_is_stopped_says_so, stopped)
FILES_TEST(ls_of_a_file_says_what_it_is, others)

SUITE(ls, cmocka_unit_test(ls_lists_names_with_marks_and_sizes),
      cmocka_unit_test(ls_lists_as_deep_as_asked), cmocka_unit_test(ls_does_not_follow_links),
      cmocka_unit_test(ls_is_bounded_and_says_what_it_left_out),
      cmocka_unit_test(ls_that_is_stopped_says_so), cmocka_unit_test(ls_of_a_file_says_what_it_is));
