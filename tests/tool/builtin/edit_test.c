#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

static int edit(struct files *files, const char *path, const char *old, const char *new)
{
    int code = files_call_with(files, &tool_edit, "path", path, "old_string", old, "new_string",
                               new, NULL);
    CHECK_EQUAL(code, 0);
    return code;
}

/* Checks that file "a" with that content does not contain `old`, and that the result says so in
 * these words. */
static bool misses(struct files *files, const char *content, const char *old, const char *words)
{
    files_put(files, "a", bl_text_from(content));
    edit(files, "a", old, "new");
    return files_says(files, true, "old_string not found in 'a'; nothing was changed.") &&
           files_says(files, true, words) && files_holds(files, "a", bl_text_from(content));
}

static int replaced(void *argument)
{
    struct files *files = argument;
    files_put(files, "src/a.c", BL_TEXT("one\ntwo\nthree\nfour\nfive\nsix\n"));
    CHECK_EQUAL(chmod(files_path(files, "src/a.c"), 0751), 0);
    edit(files, "src/a.c", "four", "FOUR\nand more");
    CHECK(!files->result.is_error);
    CHECK(strcmp(files_text(files), "Edited 'src/a.c': 1 replacement, at line 4.\n"
                                    "@@ line 4 @@\n two\n three\n-four\n+FOUR\n+and more\n five\n"
                                    " six\n") == 0);
    CHECK(files_holds(files, "src/a.c", BL_TEXT("one\ntwo\nthree\nFOUR\nand more\nfive\nsix\n")));
    struct stat status;
    CHECK_EQUAL(stat(files_path(files, "src/a.c"), &status), 0);
    CHECK_EQUAL(status.st_mode & 07777, 0751);
    CHECK_EQUAL(files_count(files, "src", ""), 1);
    edit(files, "src/a.c", "one\ntwo\n", "");
    CHECK(files_says(files, false, "at line 1.\n@@ line 1 @@\n-one\n-two\n three\n FOUR\n"));
    /* Unchanged lines are not shown as changed. */
    edit(files, "src/a.c", "three\nFOUR\nand more\n", "three\nFOUR!\nand more\n");
    CHECK(files_says(files, false, "@@ line 2 @@\n three\n-FOUR\n+FOUR!\n and more\n five\n"));
    CHECK(files_holds(files, "src/a.c", BL_TEXT("three\nFOUR!\nand more\nfive\nsix\n")));
    /* One of two equal lines was removed, or inserted. */
    files_put(files, "b", BL_TEXT("p\nq\nq\nr\n"));
    edit(files, "b", "p\nq\n", "p\n");
    CHECK(files_says(files, false, " p\n-q\n q\n r\n"));
    edit(files, "b", "p\n", "p\nq\n");
    CHECK(files_says(files, false, " p\n+q\n q\n r\n"));
    edit(files, "b", "p\n", "p\np\n");
    CHECK(files_says(files, false, "@@ line 2 @@\n p\n+p\n q\n q\n"));
    edit(files, "b", "p\np\n", "p\n");
    CHECK(files_says(files, false, "@@ line 2 @@\n p\n-p\n q\n q\n"));
    edit(files, "src/a.c", "six\n", "six");
    CHECK(files_holds(files, "src/a.c", BL_TEXT("three\nFOUR!\nand more\nfive\nsix")));
    return 0;
}

static int ambiguous(void *argument)
{
    struct files *files = argument;
    files_put(files, "a", BL_TEXT("x = 1\ny\nx = 1\nz\nx = 1\n"));
    edit(files, "a", "x = 1", "x = 2");
    CHECK(files_says(files, true,
                     "old_string occurs 3 times in 'a', at lines 1, 3, 5. Nothing was changed. "
                     "Include more of the surrounding text"));
    CHECK(files_holds(files, "a", BL_TEXT("x = 1\ny\nx = 1\nz\nx = 1\n")));
    edit(files, "a", "y\nx = 1", "y\nx = 2");
    CHECK(files_says(files, false, "Edited 'a': 1 replacement, at line 2."));
    /* Two that overlap: it is also unclear which is meant. */
    files_put(files, "a", BL_TEXT("aaa"));
    edit(files, "a", "aa", "b");
    CHECK(files_says(files, true, "occurs 2 times in 'a', at lines 1, 1."));
    return 0;
}

static int all_places(void *argument)
{
    struct files *files = argument;
    struct bl_buffer text;
    files_put(files, "a", BL_TEXT("x x\nx\n\n\n\n\n\nx\n"));
    CHECK_EQUAL(files_call(files, &tool_edit,
                           "{\"path\":\"a\",\"old_string\":\"x\",\"new_string\":\"yy\","
                           "\"replace_all\":true}"),
                0);
    CHECK(strcmp(files_text(files), "Edited 'a': 4 replacements, at lines 1, 1, 2, 8.\n"
                                    "@@ line 1 @@\n-x x\n+yy yy\n x\n \n"
                                    "@@ line 2 @@\n x x\n-x\n+yy\n \n \n"
                                    "@@ line 8 @@\n \n \n-x\n+yy\n") == 0);
    CHECK(files_holds(files, "a", BL_TEXT("yy yy\nyy\n\n\n\n\n\nyy\n")));
    bl_buffer_init(&text, SIZE_MAX);
    for (int i = 0; i < 1000; i++)
        bl_buffer_append(&text, BL_TEXT("old\n"));
    files_put(files, "a", bl_buffer_text(&text));
    CHECK_EQUAL(files_call(files, &tool_edit,
                           "{\"path\":\"a\",\"old_string\":\"old\",\"new_string\":\"\","
                           "\"replace_all\":true}"),
                0);
    CHECK(files_says(files, false, "1000 replacements, at lines 1, 2, 3"));
    CHECK(files_says(files, false, "20 and 980 more.\n"));
    CHECK(files_says(files, false, "[997 more replacements not shown]\n"));
    bl_buffer_done(&text);
    return 0;
}

static int white_space(void *argument)
{
    struct files *files = argument;
    CHECK(misses(files, "if (x)\n\treturn 1;\n", "if (x)\n    return 1;\n",
                 "It matches with different white space. At line 2 the file has a line break and a "
                 "tab where old_string has a line break and 4 blanks.\nThe file has:\n     1\tif "
                 "(x)\n     2\t\treturn 1;\n"));
    CHECK(misses(files, "a\n\t\tb;\n", "    b;",
                 "At line 2 the file has 2 tabs where old_string has 4 blanks."));
    CHECK(misses(files, "f(a, b)\n", "f(a,b)",
                 "At line 1 the file has a blank where old_string has nothing."));
    CHECK(misses(files, "one  \ntwo\n", "one\ntwo",
                 "the file has 2 blanks and a line break where old_string has a line break."));
    CHECK(misses(files, "one\r\ntwo\r\nthree\n", "one\ntwo",
                 "At line 2 the file has a CR LF line break where old_string has a line break."));
    CHECK(misses(files, "one\ntwo", "two\n\n",
                 "old_string continues with white space where the file ends."));
    CHECK(misses(files, "one\ntwo\n", "one two\n", "a line break where old_string has a blank."));
    CHECK(misses(files, "1;\n2;\n3;\n4;\n5;\n6;\n7;\n8;\n9;\n",
                 "1;\n2;\n3;\n4;\n5;\n6;\n7;\n8;\n 9;", "     7\t7;\n     8\t8;\n       [...]\n"));
    CHECK(misses(files, "1;\n2;\n3;\n4;\n5;\n6;\n7;\n8;\n", "1;\n2;\n3;\n4;\n5;\n6;\n7;\n 8;",
                 "     7\t7;\n     8\t8;\n"));
    CHECK(strstr(files_text(files), "[...]") == NULL);
    return 0;
}

static int long_hunks(void *argument)
{
    struct files *files = argument;
    struct bl_buffer lines, shown;
    bl_buffer_init(&lines, SIZE_MAX);
    bl_buffer_init(&shown, SIZE_MAX);
    for (unsigned i = 1; i <= 31; i++) {
        bl_buffer_printf(&lines, "line %u\n", i);
        if (i <= 30)
            bl_buffer_printf(&shown, "+line %u\n", i);
    }
    /* 30 lines of each side are shown. */
    for (unsigned count = 30; count <= 31; count++) {
        struct bl_text text = bl_buffer_text(&lines);
        text.size -= count == 30 ? strlen("line 31\n") : 0;
        files_put(files, "a", BL_TEXT("begin\nend\n"));
        CHECK_EQUAL(files_call_with(files, &tool_edit, "path", "a", "old_string", "begin\n",
                                    "new_string", bl_arena_text(&files->arena, text).data, NULL),
                    0);
        CHECK(files_says(files, false,
                         bl_arena_printf(&files->arena, "@@ line 1 @@\n-begin\n%.*s%s end\n",
                                         (int)shown.size, shown.data,
                                         count == 31 ? "+[1 more line]\n" : "")
                             .data));
        CHECK(files_holds(
            files, "a", bl_arena_printf(&files->arena, BL_TEXT_FORMAT "end\n", BL_TEXT_ARG(text))));
    }
    bl_buffer_done(&shown);
    bl_buffer_done(&lines);
    return 0;
}

static int nearest(void *argument)
{
    struct files *files = argument;
    static const char content[] = "#include <stdio.h>\n\nint main(void)\n{\n    puts(\"hello\");\n"
                                  "    return 0;\n}\n";
    CHECK(misses(
        files, content, "{\n    puts(\"hello\");\n    return 1;\n}",
        "Part of it was found: line 5 contains 'puts(\"hello\");'.\nThey differ at line 6:\nfile:  "
        "         return 0;\nold_string:     return 1;\nThe file has:\n     4\t{\n"));
    CHECK(misses(files, content, "    puts(\"hallo\");",
                 "The nearest match is line 5:\n     5\t    puts(\"hello\");\n"));
    CHECK(misses(files, content, "     5\t    puts(\"hello\");\n     6\t    return 0;",
                 "seems to include the line numbers that read shows"));
    CHECK(misses(files, content, "qqqqzzzz", "No similar text was found: read the file again."));
    CHECK(misses(files, content, "}\n}\n}", "No similar text was found"));
    CHECK(misses(files, content, "\n\n\n\n", "No similar text was found"));
    CHECK(misses(files, "", "x", "The file is empty."));
    CHECK(misses(files, "return 0;\nsecond line\n", "first line\nreturn 0;\nsecond line\n",
                 "Part of it was found: line 2 contains 'second line'."));
    CHECK(misses(files, "one line\r\nanother line\r\na third\r\n",
                 "one line\nanother line\nthe third",
                 "They differ at line 3:\nfile:       a third\nold_string: the third\n"));
    return 0;
}

static int kept(void *argument)
{
    struct files *files = argument;
    files_put(files, "crlf", BL_TEXT("one\r\ntwo\r\nthree\r\n"));
    edit(files, "crlf", "one\ntwo", "1\n2\n2b");
    CHECK(files_says(files, false, "@@ line 1 @@\n-one\n-two\n+1\n+2\n+2b\n three\n"));
    CHECK(files_holds(files, "crlf", BL_TEXT("1\r\n2\r\n2b\r\nthree\r\n")));
    edit(files, "crlf", "three", "3\n4");
    CHECK(files_holds(files, "crlf", BL_TEXT("1\r\n2\r\n2b\r\n3\r\n4\r\n")));
    /* A CR written explicitly is kept. */
    edit(files, "crlf", "3\r\n", "3\n");
    CHECK(files_holds(files, "crlf", BL_TEXT("1\r\n2\r\n2b\r\n3\n4\r\n")));
    files_put(files, "mark", BL_TEXT("\xEF\xBB\xBFone\n"));
    edit(files, "mark", "one", "two");
    CHECK(files_holds(files, "mark", BL_TEXT("\xEF\xBB\xBFtwo\n")));
    files_put(files, "latin", BL_TEXT("caf\xE9 one\n"));
    edit(files, "latin", "one", "two");
    CHECK(files_says(files, false, "-caf\xEF\xBF\xBD one\n"));
    CHECK(files_holds(files, "latin", BL_TEXT("caf\xE9 two\n")));
    return 0;
}

static int empty_old(void *argument)
{
    struct files *files = argument;
    edit(files, "new/file", "", "content\n");
    CHECK(files_says(files, false, "Created 'new/file': 8 bytes."));
    CHECK(files_holds(files, "new/file", BL_TEXT("content\n")));
    edit(files, "new/file", "", "other");
    CHECK(files_says(files, true, "old_string is empty, but 'new/file' is not (8 bytes)."));
    files_put(files, "empty", BL_TEXT(""));
    edit(files, "empty", "", "filled");
    CHECK(files_says(files, false, "Wrote 'empty': 6 bytes."));
    CHECK(files_holds(files, "empty", BL_TEXT("filled")));
    return 0;
}

static int refused(void *argument)
{
    struct files *files = argument;
    files_put(files, "a", BL_TEXT("x\n"));
    files_put(files, "binary", BL_TEXT("x\0y"));
    files_folder(files, "folder");
    CHECK_EQUAL(mkfifo(files_path(files, "fifo"), 0666), 0);
    edit(files, "a", "x", "x");
    CHECK(files_says(files, true, "old_string and new_string are identical"));
    edit(files, "none", "x", "y");
    CHECK(files_says(files, true, "'none' does not exist"));
    edit(files, "binary", "x", "y");
    CHECK(files_says(files, true, "'binary' is a binary file; it was not changed."));
    edit(files, "folder", "x", "y");
    CHECK(files_says(files, true, "'folder' is a folder"));
    edit(files, "folder", "", "y");
    CHECK(files_says(files, true, "'folder' is a folder"));
    edit(files, "fifo", "x", "y");
    CHECK(files_says(files, true, "is a FIFO, not a regular file"));
    edit(files, "../outside/x", "x", "y");
    CHECK(files_says(files, true, "is outside the workspace"));
    CHECK_EQUAL(truncate(files_path(files, "a"), (off_t)33 << 20), 0);
    edit(files, "a", "x", "y");
    CHECK(files_says(files, true, "'a' is larger than 33,554,432 bytes"));
    CHECK(!files_fits(files, &tool_edit, "{\"path\":\"a\",\"old_string\":\"x\"}"));
    CHECK(!files_fits(files, &tool_edit,
                      "{\"path\":\"a\",\"old_string\":\"x\",\"new_string\":\"y\",\"all\":true}"));
    CHECK(!tool_edit.reads && !tool_edit.parallel);
    return 0;
}

/* Another process wrote to the file between its reading and its writing. */
static int changed_meanwhile(void *argument)
{
    struct files *files = argument;
    static const atomic_bool never = false;
    struct file_job job = {.roots = *files->toolbox.roots, .given = BL_TEXT("a")};
    struct file_replaced what;
    struct tool_path path;
    struct bl_text content;
    struct stat status;
    bl_buffer_init(&job.out, SIZE_MAX);
    files_put(files, "a", BL_TEXT("one"));
    CHECK(file_job_resolve(&job, PATH_WRITE, &path));
    CHECK(file_load(&job, &path, 100, &never, &content, &status));
    files_put(files, "a", BL_TEXT("other"));
    CHECK_EQUAL(file_replace(&job, &path, BL_TEXT("two"), &status, &never, &what), 0);
    CHECK(job.is_error);
    CHECK(bl_text_find(bl_buffer_text(&job.out), BL_TEXT("was changed by another program")) >= 0);
    CHECK(files_holds(files, "a", BL_TEXT("other")));
    CHECK_EQUAL(files_count(files, ".", ""), 1);
    bl_buffer_done(&job.out);
    bl_arena_done(&job.arena);
    return 0;
}

/* Compares with a replacement done by hand. */
static int by_chance(void *argument)
{
    struct files *files = argument;
    struct bl_random random;
    unsigned long found = 0;
    bl_random_seed(&random, 21);
    for (unsigned long round = 0; round < suite_rounds(150, 20000); round++) {
        static const char letters[] = "ab \n\t\r";
        struct bl_arena_mark mark = bl_arena_mark(&files->arena);
        char content[64] = {0}, old[8] = {0}, new[8] = {0};
        size_t size = 1 + bl_random_below(&random, 60), count = 0;
        size_t old_size = 1 + bl_random_below(&random, 4), new_size = bl_random_below(&random, 5);
        for (size_t i = 0; i < size; i++)
            content[i] = letters[bl_random_below(&random, 5)];
        size_t at = bl_random_below(&random, size);
        memcpy(old, content + at, old_size < size - at ? old_size : size - at);
        if (bl_random_below(&random, 4) == 0)
            old[0] = letters[bl_random_below(&random, 5)];
        for (size_t i = 0; i < new_size; i++)
            new[i] = letters[bl_random_below(&random, 5)];
        files_put(files, "a", bl_text_from(content));
        const char *first = strstr(content, old);
        for (const char *next = first; next != NULL; next = strstr(next + 1, old))
            count++;
        edit(files, "a", old, new);
        bool changes = count == 1 && strcmp(old, new) != 0;
        found += changes;
        CHECK_EQUAL(files->result.is_error, !changes);
        struct bl_text expected =
            changes ? bl_arena_printf(&files->arena, "%.*s%s%s", (int)(first - content), content,
                                      new, first + strlen(old))
                    : bl_text_from(content);
        CHECK(files_holds(files, "a", expected));
        bl_arena_rewind(&files->arena, mark);
    }
    CHECK(found > 10);
    return 0;
}

struct stopper {
    struct files *files;
    uint64_t wait_ns;
};

static int stop_after(void *argument)
{
    const struct stopper *stopper = argument;
    bl_sleep(stopper->wait_ns);
    bl_scope_stop(&stopper->files->scope, BL_STOP_USER, "test");
    return 0;
}

static int stopped_at_random(void *argument)
{
    struct files *files = argument;
    struct bl_buffer contents[2];
    struct bl_random random;
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 12 : 30, 2000), stopped = 0, unknown = 0;
    char name[32] = "big-0";
    int there = 0;
    bl_random_seed(&random, 22);
    for (int i = 0; i < 2; i++) {
        bl_buffer_init(&contents[i], SIZE_MAX);
        for (int line = 0; line < 200; line++)
            bl_buffer_printf(&contents[i], "%s of many lines%6000s\n", i == 0 ? "one" : "two",
                             "that are all alike");
    }
    files_put(files, name, bl_buffer_text(&contents[0]));
    for (unsigned long i = 0; i < rounds; i++) {
        struct bl_arena_mark mark = bl_arena_mark(&files->arena);
        struct stopper stopper = {files,
                                  i % 4 == 0 ? 0 : bl_random_below(&random, 3 * BL_NS_PER_MS)};
        struct bl_nursery nursery;
        files_arm(files);
        bl_nursery_init(&nursery, bl_scope_current());
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "stopper", stop_after, &stopper, NULL), 0);
        int code = files_call(files, &tool_edit,
                              "{\"path\":\"%s\",\"old_string\":\"%s of\",\"new_string\":\"%s of\","
                              "\"replace_all\":true}",
                              name, there == 0 ? "one" : "two", there == 0 ? "two" : "one");
        bl_nursery_done(&nursery);
        CHECK(code == 0 || code == BL_ECANCELED);
        stopped += code != 0;
        if (code == 0)
            there = !there;
        if (files_outcome_unknown(files)) {
            CHECK(files_holds(files, name, bl_buffer_text(&contents[0])) ||
                  files_holds(files, name, bl_buffer_text(&contents[1])));
            there = 0;
            snprintf(name, sizeof name, "big-%lu", ++unknown);
            files_put(files, name, bl_buffer_text(&contents[there]));
        }
        CHECK(files_holds(files, name, bl_buffer_text(&contents[there])));
        CHECK(unknown > 0 || files_count(files, ".", "") == 1);
        bl_arena_rewind(&files->arena, mark);
    }
    CHECK(stopped > 0);
    bl_buffer_done(&contents[0]);
    bl_buffer_done(&contents[1]);
    files_arm(files);
    return 0;
}

FILES_TEST(edit_replaces_an_exact_match_and_shows_the_change, replaced)
FILES_TEST(edit_that_matches_more_than_once_says_where, ambiguous)
FILES_TEST(edit_replaces_all_when_asked, all_places)
FILES_TEST(edit_that_differs_in_white_space_says_where, white_space)
FILES_TEST(edit_limits_the_lines_shown_of_a_long_change, long_hunks)
FILES_TEST(edit_that_does_not_match_shows_what_is_nearest, nearest)
FILES_TEST(edit_keeps_line_ends_and_marks, kept)
FILES_TEST(edit_without_old_text_makes_a_file, empty_old)
FILES_TEST(edit_refuses_what_it_cannot_do, refused)
FILES_TEST(edit_does_not_overwrite_concurrent_changes, changed_meanwhile)
FILES_TEST(random_edits_equal_plain_replacement, by_chance)
FILES_TEST(edit_stopped_anywhere_leaves_the_old_or_the_new_file, stopped_at_random)

SUITE(edit, cmocka_unit_test(edit_replaces_an_exact_match_and_shows_the_change),
      cmocka_unit_test(edit_that_matches_more_than_once_says_where),
      cmocka_unit_test(edit_replaces_all_when_asked),
      cmocka_unit_test(edit_that_differs_in_white_space_says_where),
      cmocka_unit_test(edit_limits_the_lines_shown_of_a_long_change),
      cmocka_unit_test(edit_that_does_not_match_shows_what_is_nearest),
      cmocka_unit_test(edit_keeps_line_ends_and_marks),
      cmocka_unit_test(edit_without_old_text_makes_a_file),
      cmocka_unit_test(edit_refuses_what_it_cannot_do),
      cmocka_unit_test(edit_does_not_overwrite_concurrent_changes),
      cmocka_unit_test(random_edits_equal_plain_replacement),
      cmocka_unit_test(edit_stopped_anywhere_leaves_the_old_or_the_new_file));
