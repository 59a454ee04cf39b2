#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "tool/builtin/search.h"

/* ---- Wildcards ------------------------------------------------------------------------------- */

static void wildcards_match_as_in_git(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        unsigned flags;
        bool fits;
    } cases[] = {
        {"", "", 0, true},
        {"", "a", 0, false},
        {"*", "", 0, true},
        {"a*b", "ab", 0, true},
        {"a*b", "axxb", 0, true},
        {"a*b", "a/b", 0, true},
        {"a*b", "a/b", WILD_PATH, false},
        {"*/b", "a/b", WILD_PATH, true},
        {"*/b", "a/c/b", WILD_PATH, false},
        {"a?c", "abc", WILD_PATH, true},
        {"a?c", "a/c", WILD_PATH, false},
        {"a[/]c", "a/c", WILD_PATH, false},
        {"**", "a/b/c", WILD_PATH, true},
        {"**/c", "c", WILD_PATH, true},
        {"**/c", "a/b/c", WILD_PATH, true},
        {"**/c", "a/bc", WILD_PATH, false},
        {"a/**/c", "a/c", WILD_PATH, true},
        {"a/**/c", "a/x/y/c", WILD_PATH, true},
        {"a/**/c", "ac", WILD_PATH, false},
        {"a/**", "a/b/c", WILD_PATH, true},
        {"a/**b", "a/x/b", WILD_PATH, false},
        {"a/**b", "a/xb", WILD_PATH, true},
        {"**/a/**/b", "x/a/y/a/b", WILD_PATH, true},
        {"**/a*/**/*b", "a/ax/c/d/xb", WILD_PATH, true},
        {"*a*a*a*", "aa", 0, false},
        {"*a*a*a*", "xaxaxax", 0, true},
        {"[a-c]", "b", 0, true},
        {"[!a-c]", "b", 0, false},
        {"[]]", "]", 0, true},
        {"[a", "a", 0, false},
        {"[c-a]", "b", 0, false},
        {"[b-c]", "a", 0, false},
        {"[a-c]", "a", 0, true},
        {"[a-c]", "c", 0, true},
        {"[a-c]", "d", 0, false},
        {"[a-\\c]", "b", 0, true},
        {"[a-\\", "b", 0, false},
        {"[a-]", "-", 0, true},
        {"[a-c-e]", "d", 0, false},
        {"[a-c-e]", "-", 0, true},
        {"[[:digit:]-z]", "a", 0, false},
        {"[[:digit:]-z]", "-", 0, true},
        {"[[:x]", "[", 0, true},
        {"[[:x]", "y", 0, false},
        {"[[:", "[", 0, false},
        {"[[:nope:]]", "n", 0, false},
        {"[x[:nope:]]", "x", 0, false},
        {"[\\]]", "]", 0, true},
        {"[!]b]", "a", 0, true},
        {"[^]b]", "b", 0, false},
        {"**\\/b", "a/b", WILD_PATH, true},
        {"**\\/b", "b", WILD_PATH, false},
        {"**\\/b", "a/c/b", WILD_PATH, true},
        {"**\\/", "a/c/", WILD_PATH, true},
        {"**\\b", "a/b", WILD_PATH, false},
        {"**x/", "a/x/", WILD_PATH, false},
        {"a/**\\/b", "a/b", WILD_PATH, false},
        {"\\*", "*", 0, true},
        {"\\*", "a", 0, false},
        {"a\\", "a\\", 0, false},
        {"*", ".a", WILD_NO_HIDDEN, false},
        {".*", ".a", WILD_NO_HIDDEN, true},
        {"?a", ".a", WILD_NO_HIDDEN, false},
        {"[.]a", ".a", WILD_NO_HIDDEN, false},
        {"a*", "a.b", WILD_NO_HIDDEN, true},
        {"**/b", ".a/b", WILD_PATH | WILD_NO_HIDDEN, false},
        {"**/b", "x/.a/b", WILD_PATH | WILD_NO_HIDDEN, false},
        {"**", "x/.a", WILD_PATH | WILD_NO_HIDDEN, false},
        {"**/.a/*", "x/.a/b", WILD_PATH | WILD_NO_HIDDEN, true},
        {".a/**", ".a/b/c", WILD_PATH | WILD_NO_HIDDEN, true},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        suite_fail_if(wild_match(bl_text_from(cases[i].pattern), bl_text_from(cases[i].text),
                                 cases[i].flags) != cases[i].fits,
                      "'%s' on '%s'", cases[i].pattern, cases[i].text);
}

static void named_classes_match_their_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        int (*is)(int byte);
    } classes[] = {
        {"[[:alnum:]]", isalnum}, {"[[:alpha:]]", isalpha}, {"[[:blank:]]", isblank},
        {"[[:cntrl:]]", iscntrl}, {"[[:digit:]]", isdigit}, {"[[:graph:]]", isgraph},
        {"[[:lower:]]", islower}, {"[[:print:]]", isprint}, {"[[:punct:]]", ispunct},
        {"[[:space:]]", isspace}, {"[[:upper:]]", isupper}, {"[[:xdigit:]]", isxdigit},
    };
    for (size_t i = 0; i < BL_COUNT(classes); i++)
        for (int byte = 0; byte < 128; byte++) {
            char text = (char)byte;
            bool fits = wild_match(bl_text_from(classes[i].pattern), (struct bl_text){&text, 1}, 0);
            suite_fail_if(fits != (classes[i].is(byte) != 0), "%s on byte %d", classes[i].pattern,
                          byte);
        }
}

static void hostile_wildcards_take_little_time(void **state)
{
    (void)state;
    static char pattern[2001], text[4001];
    for (size_t i = 0; i < 2000; i += 2)
        memcpy(pattern + i, "*a", 2);
    pattern[1999] = 'b';
    memset(text, 'a', 4000);
    assert_false(wild_match(bl_text_from(pattern), bl_text_from(text), WILD_PATH));
    for (size_t i = 0; i + 5 <= 2000; i += 5)
        memcpy(pattern + i, "**/a/", 5);
    for (size_t i = 1; i < 4000; i += 2)
        text[i] = '/';
    assert_false(wild_match((struct bl_text){pattern, 1999}, bl_text_from(text), WILD_PATH));
}

static bool set_has(const char *source, const char *path)
{
    struct bl_arena arena = {0};
    struct wild_set set;
    const char *wrong, *slash = strrchr(path, '/');
    assert_true(wild_set_read(&arena, bl_text_from(source), WILD_NO_HIDDEN, &set, &wrong));
    size_t name = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    bool fits = wild_set_match(&set, bl_text_from(path), name);
    /* A match is never below a folder that is not entered. */
    for (size_t i = 0, from = 0; fits && path[i] != '\0'; i++) {
        if (path[i] != '/')
            continue;
        assert_true(wild_set_enters(&set, (struct bl_text){path, i}, from));
        from = i + 1;
    }
    bl_arena_done(&arena);
    return fits;
}

static void braces_are_alternatives_and_names_match_in_all_folders(void **state)
{
    (void)state;
    static const struct {
        const char *source, *path;
        bool fits;
    } cases[] = {
        {"*.{c,h}", "a.c", true},
        {"*.{c,h}", "src/a.h", true},
        {"*.{c,h}", "src/a.o", false},
        {"./*.c", "a.c", true},
        {"./*.c", "src/a.c", false},
        {"src/*.c", "src/a.c", true},
        {"src/*.c", "src/b/a.c", false},
        {"src/**/*.c", "src/a.c", true},
        {"src/**/*.c", "src/b/c/a.c", true},
        {"{src,tests}/**", "tests/a/b", true},
        {"{src,tests}/**", "docs/a", false},
        {"{a,b{c,d}}x", "bdx", true},
        {"{a,b{c,d}}x", "bx", false},
        {"a{,b}c", "ac", true},
        {"[{]a,b}", "{a,b}", true},
        {"{[],],b}", ",", true},
        {"{[],],b}", "]", true},
        {"{[],],b}", "[", false},
        {"\\{a,b\\}", "{a,b}", true},
        {"a}b", "a}b", true},
        {"*.yml", ".github/a.yml", false},
        {".github/**/*.yml", ".github/w/a.yml", true},
        {"**/.env*", "a/.env.x", true},
        {".env", "a/b/.env", true},
        {"*/x/**/y/*.c", "a/x/b/y/z.c", true},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        if (set_has(cases[i].source, cases[i].path) != cases[i].fits)
            fail_msg("'%s' on '%s'", cases[i].source, cases[i].path);
    /* Text after the pattern is not part of it. */
    struct bl_arena arena = {0};
    struct wild_set set;
    const char *wrong;
    struct bl_text source = {"*.{c,h}pp", sizeof "*.{c,h}" - 1};
    assert_true(wild_set_read(&arena, source, WILD_NO_HIDDEN, &set, &wrong));
    assert_true(wild_set_match(&set, BL_TEXT("a.h"), 0));
    assert_false(wild_set_match(&set, BL_TEXT("a.hpp"), 0));
    bl_arena_done(&arena);
}

static void broken_patterns_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *source, *wrong;
    } cases[] = {
        {"a{b", "'{' without '}'"},
        {"a[b", "'[' without ']'"},
        {"{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "more than 256 alternatives"},
        {"{{{{{{{{{{{{{{{{{{a}}}}}}}}}}}}}}}}}}", "too many braces"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_arena arena = {0};
        struct wild_set set;
        const char *wrong;
        assert_false(wild_set_read(&arena, bl_text_from(cases[i].source), 0, &set, &wrong));
        assert_string_equal(wrong, cases[i].wrong);
        bl_arena_done(&arena);
    }
}

/* ---- The tool -------------------------------------------------------------------------------- */

/* Creates a file with a modification time that is `seconds` after the others. */
static void put_changed(struct files *files, const char *path, double seconds)
{
    files_put(files, path, BL_TEXT(""));
    long whole = (long)seconds, rest_ns = (long)((seconds - (double)whole) * 1e9);
    struct timespec times[2] = {{1700000000 + whole, rest_ns}, {1700000000 + whole, rest_ns}};
    CHECK_EQUAL(utimensat(AT_FDCWD, files_path(files, path), times, 0), 0);
}

static bool globs(struct files *files, const char *pattern, const char *path, const char *expected)
{
    int code = path != NULL ? files_call_with(files, &tool_glob, "pattern", pattern, "path", path,
                                              (char *)NULL)
                            : files_call_with(files, &tool_glob, "pattern", pattern, (char *)NULL);
    bool same = code == 0 && !files->result.is_error && strcmp(files_text(files), expected) == 0;
    if (!same)
        fprintf(stderr, "%s: %d %s\n", pattern, code, files_text(files));
    return same;
}

static int newest_first(void *argument)
{
    struct files *files = argument;
    put_changed(files, "old.c", 1);
    put_changed(files, "src/new.c", 3);
    put_changed(files, "src/deep/middle.c", 2);
    put_changed(files, "parts/a", 4.25);
    put_changed(files, "parts/b", 4.5);
    put_changed(files, "same_b.c", 0);
    put_changed(files, "same_a.c", 0);
    put_changed(files, "other.h", 9);
    CHECK(
        globs(files, "**/*.c", NULL, "src/new.c\nsrc/deep/middle.c\nold.c\nsame_a.c\nsame_b.c\n"));
    CHECK(globs(files, "*.c", "src", "src/new.c\nsrc/deep/middle.c\n"));
    CHECK(globs(files, "./*.c", "src", "src/new.c\n"));
    CHECK(globs(files, "*.{py,h}", NULL, "other.h\n"));
    CHECK(globs(files, "*", "parts", "parts/b\nparts/a\n"));
    CHECK(globs(files, "src/*/*", ".", "src/deep/middle.c\n"));
    CHECK(globs(files, "*.rs", NULL, "No files match the pattern.\n"));
    CHECK(globs(files, files_path(files, "src/*.c"), NULL, "src/new.c\n"));
    return 0;
}

static int leaves_out(void *argument)
{
    struct files *files = argument;
    put_changed(files, ".gitignore", 5);
    files_put(files, ".gitignore", BL_TEXT("*.o\nbuild/\n"));
    put_changed(files, "a.o", 1);
    put_changed(files, "a.c", 1);
    put_changed(files, "build/b.c", 1);
    put_changed(files, ".hidden/c.c", 1);
    put_changed(files, ".git/d.c", 1);
    put_changed(files, "sub/.ignore", 1);
    files_put(files, "sub/.ignore", BL_TEXT("e.c\n"));
    put_changed(files, "sub/e.c", 1);
    CHECK(globs(files, "**/*", NULL, "a.c\n"));
    CHECK(globs(files, "*.c", NULL, "a.c\n"));
    CHECK(globs(files, ".hidden/*", NULL, ".hidden/c.c\n"));
    /* A folder named as the place to search is searched. */
    CHECK(globs(files, "*.c", "build", "build/b.c\n"));
    CHECK(globs(files, "*", "sub", "No files match the pattern.\n"));
    put_changed(files, "sub/deep/f.c", 1);
    CHECK(globs(files, "deep/f.*", "sub", "sub/deep/f.c\n"));
    return 0;
}

static int bounded(void *argument)
{
    struct files *files = argument;
    char name[64];
    for (unsigned i = 0; i < 1234; i++) {
        snprintf(name, sizeof name, "f%u/%04u.txt", i % 10, i);
        put_changed(files, name, i);
    }
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"*.txt\"}"), 0);
    CHECK(files_says(files, false, "f3/1233.txt\nf2/1232.txt\n"));
    CHECK(files_says(files, false, "f4/0234.txt\n[234 more files left out, all older"));
    /* Nine lines reach or exceed the limit. */
    for (size_t limit = 97; limit <= 108; limit += 11) {
        files->toolbox.output_max = limit;
        CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"*\",\"path\":\"f3\"}"), 0);
        CHECK(files_says(files, false, "f3/1153.txt\n[115 more files left out"));
    }
    return 0;
}

static int refused(void *argument)
{
    struct files *files = argument;
    files_put(files, "../outside/secret", BL_TEXT(""));
    files_put(files, "file", BL_TEXT(""));
    files_link(files, "loop", "loop");
    files_link(files, files->outside, "out");
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"*\",\"path\":\"../outside\"}"), 0);
    CHECK(files->result.is_error && strstr(files_text(files), "secret") == NULL);
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"*\",\"path\":\"out\"}"), 0);
    CHECK(files->result.is_error && strstr(files_text(files), "secret") == NULL);
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"**\"}"), 0);
    CHECK(files_says(files, false, "file\n") && strstr(files_text(files), "secret") == NULL);
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"*\",\"path\":\"loop\"}"), 0);
    CHECK(files->result.is_error);
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"*\",\"path\":\"file\"}"), 0);
    CHECK(files_says(files, true, "'file' is not a folder; glob searches folders"));
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"*\",\"path\":\"none\"}"), 0);
    CHECK(files->result.is_error);
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"../*\"}"), 0);
    CHECK(files_says(files, true, "it contains '..'; use 'path'"));
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"/etc/*\"}"), 0);
    CHECK(files_says(files, true, "The pattern is absolute"));
    CHECK(bl_text_ends_with(files->result.text, BL_TEXT("'path' to search elsewhere.")));
    /* Beside the workspace, the workspace itself, and out of it. */
    const char *beside = bl_arena_printf(&files->arena, "%s-other/*", files->workspace).data;
    CHECK_EQUAL(files_call_with(files, &tool_glob, "pattern", beside, NULL), 0);
    CHECK(files_says(files, true, "The pattern is absolute"));
    CHECK_EQUAL(files_call_with(files, &tool_glob, "pattern", files->workspace, NULL), 0);
    CHECK(files_says(files, true, "The pattern is absolute"));
    CHECK_EQUAL(
        files_call_with(files, &tool_glob, "pattern", files_path(files, "../outside/*"), NULL), 0);
    CHECK(files_says(files, true, "it contains '..'; use 'path'"));
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"a{b\"}"), 0);
    CHECK(files_says(files, true, "Invalid pattern: '{' without '}'."));
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"a\\u0000b\"}"), 0);
    CHECK(files_says(files, true, "contains a NUL"));
    CHECK(!files_fits(files, &tool_glob, "{\"path\":\"a\"}"));
    CHECK(!files_fits(files, &tool_glob, "{\"pattern\":\"\"}"));
    return 0;
}

static int names_of_any_bytes(void *argument)
{
    struct files *files = argument;
    files_put(files, "line\nfeed.c", BL_TEXT(""));
    files_put(files, "broken\xFF.h", BL_TEXT(""));
    CHECK(globs(files, "*.c", NULL, "line?feed.c\n"));
    CHECK(globs(files, "*.h", NULL, "broken\xEF\xBF\xBD.h\n"));
    return 0;
}

static int stopped(void *argument)
{
    struct files *files = argument;
    files_put(files, "a", BL_TEXT(""));
    bl_scope_stop(&files->scope, BL_STOP_USER, "test");
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"*\"}"), BL_ECANCELED);
    CHECK(files_says(files, true, "stopped: nothing was listed"));
    return 0;
}

FILES_TEST(glob_lists_files_by_name_newest_first, newest_first)
FILES_TEST(glob_skips_ignored_and_hidden_files, leaves_out)
FILES_TEST(glob_is_bounded_and_says_how_many_more_there_are, bounded)
FILES_TEST(glob_refuses_paths_outside_and_invalid_patterns, refused)
FILES_TEST(glob_shows_names_of_any_bytes_as_text, names_of_any_bytes)
FILES_TEST(glob_that_was_stopped_says_so, stopped)

SUITE(find, cmocka_unit_test(wildcards_match_as_in_git),
      cmocka_unit_test(named_classes_match_their_bytes),
      cmocka_unit_test(hostile_wildcards_take_little_time),
      cmocka_unit_test(braces_are_alternatives_and_names_match_in_all_folders),
      cmocka_unit_test(broken_patterns_say_what_is_wrong),
      cmocka_unit_test(glob_lists_files_by_name_newest_first),
      cmocka_unit_test(glob_skips_ignored_and_hidden_files),
      cmocka_unit_test(glob_is_bounded_and_says_how_many_more_there_are),
      cmocka_unit_test(glob_refuses_paths_outside_and_invalid_patterns),
      cmocka_unit_test(glob_shows_names_of_any_bytes_as_text),
      cmocka_unit_test(glob_that_was_stopped_says_so));
