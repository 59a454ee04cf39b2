#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "tool/builtin/search.h"

/* ---- One file -------------------------------------------------------------------------------- */

#define LINES_MAX 6000u

/* A text of lines, with the lines that contain "needle". */
struct text {
    struct bl_buffer bytes;
    size_t starts[LINES_MAX + 1];
    bool matches[LINES_MAX];
    unsigned count;
};

static void text_add(struct text *text, size_t size, bool matches, bool returns)
{
    text->starts[text->count] = text->bytes.size;
    text->matches[text->count++] = matches;
    for (size_t i = 0; i < size; i++)
        bl_buffer_append_byte(&text->bytes, "abcdef ghi"[(i + text->count) % 10]);
    if (matches)
        bl_buffer_append(&text->bytes, BL_TEXT("needle"));
    bl_buffer_append(&text->bytes, returns ? BL_TEXT("\r\n") : BL_TEXT("\n"));
    text->starts[text->count] = text->bytes.size;
}

static void expect_line(const struct text *text, unsigned index, char mark, struct bl_buffer *out)
{
    size_t size = text->starts[index + 1] - text->starts[index];
    const char *start = text->bytes.data + text->starts[index];
    while (size > 0 && (start[size - 1] == '\n' || start[size - 1] == '\r'))
        size--;
    bl_buffer_printf(out, "%u%c%.*s", index + 1, mark, size < 500 ? (int)size : 500, start);
    if (size > 500)
        bl_buffer_printf(out, " [%zu more bytes]", size - 500);
    bl_buffer_append_byte(out, '\n');
}

/* Computes the expected output from all lines at once. */
static uint64_t expect_all(const struct text *text, unsigned context, struct bl_buffer *out)
{
    uint64_t count = 0;
    unsigned told = 0; /* lines before this one are printed or skipped */
    bool any = false;
    for (unsigned i = 0; i < text->count; i++) {
        unsigned nearest = UINT32_MAX;
        for (unsigned j = i > context ? i - context : 0; j <= i + context && j < text->count; j++)
            if (text->matches[j])
                nearest = j < i ? i - j : 0;
        count += text->matches[i];
        if (nearest == UINT32_MAX)
            continue;
        if (any && told != i && context > 0)
            bl_buffer_append(out, BL_TEXT("--\n"));
        expect_line(text, i, text->matches[i] ? ':' : '-', out);
        told = i + 1;
        any = true;
    }
    return count;
}

static int file_of(struct bl_text bytes)
{
    int fd = memfd_create("belay-test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.data, bytes.size), bytes.size);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static const atomic_bool not_stopped = false;

static void expect_search(struct text *text, unsigned context)
{
    struct grep_request request = {.stopped = &not_stopped,
                                   .output = GREP_CONTENT,
                                   .context = context,
                                   .lines_max = UINT64_MAX,
                                   .bytes_max = SIZE_MAX};
    struct bl_pattern *pattern;
    struct bl_buffer expected;
    struct grep_found found;
    /* Whether it ends in a line feed makes no difference. */
    bool cut = text->count % 2 == 0 && text->count > 0;
    bl_buffer_init(&expected, SIZE_MAX);
    uint64_t matches = expect_all(text, context, &expected);
    assert_int_equal(bl_pattern_new(BL_TEXT("needle"), &pattern, NULL), 0);
    request.pattern = pattern;
    struct grep_searcher *searcher = grep_searcher_new(&request);
    int fd = file_of((struct bl_text){text->bytes.data, text->bytes.size - cut});
    assert_int_equal(grep_search(searcher, fd, true, &found), GREP_SEARCHED);
    close(fd);
    assert_int_equal(found.matches, matches);
    assert_int_equal(found.lines, matches);
    assert_true(bl_text_equal(found.text, bl_buffer_text(&expected)));
    grep_searcher_free(searcher);
    bl_pattern_free(pattern);
    bl_buffer_done(&expected);
}

static void lines_are_reported_alike_at_any_buffer_boundary(void **state)
{
    (void)state;
    struct text *text = bl_zalloc(sizeof *text);
    struct bl_random random;
    bl_random_seed(&random, 8);
    bl_buffer_init(&text->bytes, SIZE_MAX);
    for (unsigned long round = 0; round < suite_rounds(12, 1000); round++) {
        unsigned lines = 1 + (unsigned)bl_random_below(&random, LINES_MAX);
        uint64_t rarity = 1 + bl_random_below(&random, 60);
        bl_buffer_clear(&text->bytes);
        text->count = 0;
        for (unsigned i = 0; i < lines; i++) {
            size_t size = bl_random_below(&random, 120);
            if (bl_random_below(&random, 1000) == 0)
                size = bl_random_below(&random, 300000);
            text_add(text, size, bl_random_below(&random, rarity) == 0,
                     bl_random_below(&random, 30) == 0);
        }
        expect_search(text, (unsigned)bl_random_below(&random, 4));
    }
    bl_buffer_done(&text->bytes);
    bl_free(text);
}

static void start_of_an_overlong_line_is_searched(void **state)
{
    (void)state;
    size_t size = (size_t)9 << 20;
    char *bytes = bl_alloc(size + 64);
    struct grep_request request = {.stopped = &not_stopped,
                                   .output = GREP_CONTENT,
                                   .lines_max = UINT64_MAX,
                                   .bytes_max = SIZE_MAX};
    struct bl_pattern *pattern;
    struct grep_found found;
    memset(bytes, 'x', size);
    memcpy(bytes, "one\nneedle\n", 11);
    memcpy(bytes + size - 6, "needle\nneedle\nx", 15);
    assert_int_equal(bl_pattern_new(BL_TEXT("needle"), &pattern, NULL), 0);
    request.pattern = pattern;
    struct grep_searcher *searcher = grep_searcher_new(&request);
    int fd = file_of((struct bl_text){bytes, size + 9});
    assert_int_equal(grep_search(searcher, fd, true, &found), GREP_SEARCHED);
    assert_int_equal(found.matches, 2);
    assert_int_equal(found.long_lines, 1);
    assert_true(bl_text_equal(found.text, BL_TEXT("2:needle\n4:needle\n")));
    close(fd);
    grep_searcher_free(searcher);
    bl_pattern_free(pattern);
    bl_free(bytes);
}

static void a_search_that_was_stopped_reads_no_more(void **state)
{
    (void)state;
    atomic_bool stop = true;
    struct grep_request request = {.stopped = &stop, .output = GREP_COUNT};
    struct bl_pattern *pattern;
    struct grep_found found;
    assert_int_equal(bl_pattern_new(BL_TEXT("a"), &pattern, NULL), 0);
    request.pattern = pattern;
    struct grep_searcher *searcher = grep_searcher_new(&request);
    int fd = file_of(BL_TEXT("a\n"));
    grep_search(searcher, fd, true, &found);
    assert_int_equal(found.matches, 0);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    close(fd);
    grep_searcher_free(searcher);
    bl_pattern_free(pattern);
}

/* ---- The tool -------------------------------------------------------------------------------- */

static bool greps(struct files *files, const char *input, const char *expected)
{
    int code = files_call(files, &tool_grep, "%s", input);
    bool same = code == 0 && !files->result.is_error && strcmp(files_text(files), expected) == 0;
    if (!same)
        fprintf(stderr, "%s: %d %s\n", input, code, files_text(files));
    return same;
}

static int outputs(void *argument)
{
    struct files *files = argument;
    files_put(files, "b.c", BL_TEXT("one\ntwo needle\nthree\nfour\nfive needle\n"));
    files_put(files, "a/x.txt", BL_TEXT("needle"));
    files_put(files, "a/y.txt", BL_TEXT("nothing\n"));
    CHECK(greps(files, "{\"pattern\":\"needle\"}",
                "a/x.txt\n1:needle\n\nb.c\n2:two needle\n5:five needle\n"));
    CHECK(greps(files, "{\"pattern\":\"needle\",\"output\":\"files\"}", "a/x.txt\nb.c\n"));
    CHECK(greps(files, "{\"pattern\":\"needle\",\"output\":\"count\"}", "a/x.txt:1\nb.c:2\n"));
    CHECK(greps(files, "{\"pattern\":\"needle\",\"path\":\"a\"}", "a/x.txt\n1:needle\n"));
    CHECK(greps(files, "{\"pattern\":\"needle\",\"path\":\"b.c\"}",
                "b.c\n2:two needle\n5:five needle\n"));
    CHECK(greps(files, "{\"pattern\":\"^t\\\\w+$|needle$\",\"glob\":\"*.c\"}",
                "b.c\n2:two needle\n3:three\n5:five needle\n"));
    CHECK(greps(files, "{\"pattern\":\"needle\",\"glob\":\"!*.c\"}", "a/x.txt\n1:needle\n"));
    CHECK(greps(files, "{\"pattern\":\"needle\",\"glob\":\"a/**\"}", "a/x.txt\n1:needle\n"));
    CHECK(greps(files, "{\"pattern\":\"^needle\",\"glob\":\"!b/*.c\"}", "a/x.txt\n1:needle\n"));
    CHECK(greps(files, "{\"pattern\":\"NEEDLE\",\"ignore_case\":true,\"output\":\"files\"}",
                "a/x.txt\nb.c\n"));
    CHECK(greps(files, "{\"pattern\":\"(?i)NEEDLE\",\"output\":\"files\"}", "a/x.txt\nb.c\n"));
    CHECK(greps(files, "{\"pattern\":\"NEEDLE\"}", "No matches in 3 files.\n"));
    CHECK(greps(files, "{\"pattern\":\"needle\",\"path\":\"b.c\",\"context\":1}",
                "b.c\n1-one\n2:two needle\n3-three\n4-four\n5:five needle\n"));
    CHECK(greps(files, "{\"pattern\":\"one|five\",\"path\":\"b.c\",\"context\":1}",
                "b.c\n1:one\n2-two needle\n--\n4-four\n5:five needle\n"));
    return 0;
}

static int limited(void *argument)
{
    struct files *files = argument;
    char name[64];
    struct bl_buffer text;
    bl_buffer_init(&text, SIZE_MAX);
    for (unsigned i = 0; i < 100; i++)
        bl_buffer_printf(&text, "word %u\n", i);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "f%02u", i);
        files_put(files, name, bl_buffer_text(&text));
    }
    CHECK(greps(files, "{\"pattern\":\"word\",\"head_limit\":2}",
                "f00\n1:word 0\n2:word 1\n[3998 more matching lines left out; 40 files have "
                "matches: narrow pattern, path or glob, or raise head_limit]\n"));
    CHECK(greps(files, "{\"pattern\":\"word 9$\",\"head_limit\":1,\"context\":1}",
                "f00\n9-word 8\n10:word 9\n[39 more matching lines left out; 40 files have "
                "matches: narrow pattern, path or glob, or raise head_limit]\n"));
    CHECK(greps(files, "{\"pattern\":\"word\",\"head_limit\":2,\"output\":\"files\"}",
                "f00\nf01\n[38 more files left out: narrow pattern, path or glob, or raise "
                "head_limit]\n"));
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"word\"}"), 0);
    CHECK(files_says(files, false, "f02\n1:word 0\n"));
    CHECK(files_says(files, false, "50:word 49\n[3750 more matching lines left out"));
    files->toolbox.output_max = 1000;
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"word\"}"), 0);
    CHECK(files_says(files, false, "narrow pattern, path or glob]\n"));
    CHECK(files->result.text.size < 1200);
    /* A limit of files that equals the available space. */
    for (size_t i = 0; i < 2; i++) {
        files->toolbox.output_max = sizeof "f00\nf01\n[38 more files left out" - 1 + i;
        CHECK(greps(files, "{\"pattern\":\"word\",\"head_limit\":2,\"output\":\"files\"}",
                    i == 0 ? "f00\nf01\n[38 more files left out: narrow pattern, path or glob]\n"
                           : "f00\nf01\n[38 more files left out: narrow pattern, path or glob, or "
                             "raise head_limit]\n"));
    }
    bl_buffer_done(&text);
    return 0;
}

static int many_alike(void *argument)
{
    struct files *files = argument;
    char name[64];
    struct bl_text first = {0};
    for (unsigned i = 0; i < 150; i++) {
        snprintf(name, sizeof name, "d%u/f%03u", i % 17, i);
        files_put(files, name, BL_TEXT("word\nother\nword\n"));
    }
    for (unsigned long i = 0; i < suite_rounds(10, 300); i++) {
        CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"word\",\"head_limit\":77}"), 0);
        if (i == 0)
            first = files->result.text;
        CHECK(bl_text_equal(first, files->result.text));
    }
    return 0;
}

static int passed_over(void *argument)
{
    struct files *files = argument;
    files_put(files, ".gitignore", BL_TEXT("*.log\n"));
    files_put(files, "a.log", BL_TEXT("needle\n"));
    files_put(files, ".git/x", BL_TEXT("needle\n"));
    files_put(files, ".hidden", BL_TEXT("needle\n"));
    files_put(files, "binary", (struct bl_text){"needle\n\0", 8});
    files_put(files, "latin", BL_TEXT("needle \xE9t\xE9\n"));
    files_put(files, "crlf", BL_TEXT("needle\r\nneedle \r\n"));
    files_put(files, "../outside/secret", BL_TEXT("needle secret\n"));
    files_link(files, "latin", "link");
    files_link(files, files->outside, "out");
    files_link(files, ".", "around");
    CHECK(greps(files, "{\"pattern\":\"needle\"}",
                ".hidden\n1:needle\n\ncrlf\n1:needle\n2:needle \n\nlatin\n1:needle \xEF\xBF\xBDt"
                "\xEF\xBF\xBD\n[1 binary file was not searched]\n"));
    CHECK(greps(files, "{\"pattern\":\"needle$\",\"glob\":\"crlf\"}", "crlf\n1:needle\n"));
    /* A file named explicitly is searched. */
    CHECK(greps(files, "{\"pattern\":\"needle\",\"path\":\"a.log\"}", "a.log\n1:needle\n"));
    CHECK(greps(files, "{\"pattern\":\"needle\",\"path\":\"binary\"}",
                "No matches in 0 files.\n[1 binary file was not searched]\n"));
    CHECK(greps(files, "{\"pattern\":\"needle\",\"path\":\"link\",\"output\":\"count\"}",
                "latin:1\n"));
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"needle\",\"path\":\"out\"}"), 0);
    CHECK(files->result.is_error && strstr(files_text(files), "secret") == NULL);
    return 0;
}

static int longer_than_it_may_be(void *argument)
{
    struct files *files = argument;
    size_t size = (9u << 20) + 7;
    char *bytes = bl_alloc(size);
    memset(bytes, 'x', size);
    memcpy(bytes, "needle", 6);
    memcpy(bytes + size - 7, "needle\n", 7);
    files_put(files, "long", (struct bl_text){bytes, size});
    CHECK(greps(files, "{\"pattern\":\"^needle\",\"output\":\"count\"}",
                "long:1\n[1 line is longer than 8 MiB: the rest was not searched]\n"));
    CHECK(
        greps(files, "{\"pattern\":\"xneedle\"}",
              "No matches in 1 file.\n[1 line is longer than 8 MiB: the rest was not searched]\n"));
    bl_free(bytes);
    return 0;
}

static int shut(void *argument)
{
    struct files *files = argument;
    files_put(files, "a", BL_TEXT("needle\n"));
    files_put(files, "b", BL_TEXT("needle\n"));
    files_put(files, "c/d", BL_TEXT("needle\n"));
    CHECK_EQUAL(chmod(files->folder, 0755), 0);
    CHECK_EQUAL(chmod(files_path(files, "b"), 0), 0);
    CHECK_EQUAL(chmod(files_path(files, "c"), 0), 0);
    /* Threads started from now on have it, too. */
    int before = setfsuid(geteuid() == 0 ? 65534 : geteuid());
    CHECK(greps(files, "{\"pattern\":\"needle\"}",
                "a\n1:needle\n[1 file could not be read]\n[1 folder could not be read]\n"));
    setfsuid((uid_t)before);
    CHECK_EQUAL(chmod(files_path(files, "c"), 0755), 0);
    return 0;
}

static int refused(void *argument)
{
    struct files *files = argument;
    CHECK_EQUAL(mkfifo(files_path(files, "pipe"), 0666), 0);
    files_link(files, "loop", "loop");
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"a(b\"}"), 0);
    CHECK(files_says(files, true, "Invalid regular expression: offset 1: expected ')'"));
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"a(?=b)\"}"), 0);
    CHECK(files_says(files, true, "look-ahead and look-behind are not supported"));
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"[[:alpha:]]\"}"), 0);
    CHECK(files_says(files, true, "use \\w, \\d, \\s or \\p{L}"));
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"a\",\"glob\":\"a[b\"}"), 0);
    CHECK(files_says(files, true, "Invalid glob: '[' without ']'."));
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"a\",\"glob\":\"a\\u0000\"}"), 0);
    CHECK(files_says(files, true, "contains a NUL"));
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"a\",\"path\":\"..\"}"), 0);
    CHECK(files->result.is_error);
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"a\",\"path\":\"none\"}"), 0);
    CHECK(files->result.is_error);
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"a\",\"path\":\"loop\"}"), 0);
    CHECK(files->result.is_error);
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"a\",\"path\":\"pipe\"}"), 0);
    CHECK(files_says(files, true, "'pipe' is a FIFO, not a file."));
    CHECK(!files_fits(files, &tool_grep, "{\"pattern\":\"a\",\"output\":\"lines\"}"));
    CHECK(!files_fits(files, &tool_grep, "{\"pattern\":\"a\",\"head_limit\":0}"));
    CHECK(!files_fits(files, &tool_grep, "{\"pattern\":\"a\",\"context\":51}"));
    CHECK(!files_fits(files, &tool_grep, "{\"pattern\":\"a\",\"multiline\":true}"));
    return 0;
}

/* A stop before or during the search: the result is complete, or says that it was stopped. */
static int stopped(void *argument)
{
    struct files *files = argument;
    struct bl_buffer text;
    bl_buffer_init(&text, SIZE_MAX);
    while (text.size < (size_t)8 << 20)
        bl_buffer_append(&text, BL_TEXT("abababababababababab\xC3\xA9\n"));
    files_put(files, "large", bl_buffer_text(&text));
    bl_buffer_done(&text);
    for (unsigned long i = 0; i < suite_rounds(5, 200); i++) {
        struct bl_nursery nursery;
        bl_nursery_init(&nursery, bl_scope_current());
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "stopper", files_stop, files, NULL), 0);
        int code = files_call(files, &tool_grep, "{\"pattern\":\"(a|b|ab)*(ba)*c\"}");
        bl_nursery_done(&nursery);
        CHECK(code == 0 || code == BL_ECANCELED);
        CHECK(code == 0 ? files_says(files, false, "No matches in 1 file.")
                        : files_says(files, true, "stopped: nothing was searched"));
        files_arm(files);
    }
    bl_scope_stop(&files->scope, BL_STOP_USER, "test");
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"a\"}"), BL_ECANCELED);
    return 0;
}

static int denied(void *argument)
{
    struct files *files = argument;
    files_put(files, ".env", BL_TEXT("key needle\n"));
    files_put(files, "keys/a.pem", BL_TEXT("needle\n"));
    files_put(files, "a.txt", BL_TEXT("needle\n"));
    CHECK_EQUAL(bl_permissions_add(files->toolbox.permissions, false, "read(.env)", NULL), 0);
    CHECK_EQUAL(bl_permissions_add(files->toolbox.permissions, false, "*(**/*.pem)", NULL), 0);
    CHECK_EQUAL(files_call(files, &tool_grep, "{\"pattern\":\"needle\"}"), 0);
    CHECK(files_says(files, false, "a.txt"));
    CHECK(strstr(files_text(files), ".env") == NULL && strstr(files_text(files), ".pem") == NULL);
    CHECK_EQUAL(files_call(files, &tool_glob, "{\"pattern\":\"**\"}"), 0);
    CHECK(files_says(files, false, "a.txt"));
    CHECK(strstr(files_text(files), ".pem") == NULL);
    return 0;
}

FILES_TEST(search_skips_files_denied_for_reading, denied)
FILES_TEST(grep_reports_lines_files_or_counts_sorted_by_path, outputs)
FILES_TEST(grep_is_bounded_and_says_what_was_left_out, limited)
FILES_TEST(grep_answers_the_same_each_time, many_alike)
FILES_TEST(grep_skips_ignored_and_binary_files_and_links, passed_over)
FILES_TEST(grep_says_that_it_did_not_search_all_of_a_line, longer_than_it_may_be)
FILES_TEST(grep_says_how_much_could_not_be_read, shut)
FILES_TEST(grep_refuses_what_it_cannot_use_and_says_where, refused)
FILES_TEST(grep_that_is_stopped_ends_at_once, stopped)

SUITE(grep, cmocka_unit_test(lines_are_reported_alike_at_any_buffer_boundary),
      cmocka_unit_test(start_of_an_overlong_line_is_searched),
      cmocka_unit_test(a_search_that_was_stopped_reads_no_more),
      cmocka_unit_test(search_skips_files_denied_for_reading),
      cmocka_unit_test(grep_reports_lines_files_or_counts_sorted_by_path),
      cmocka_unit_test(grep_is_bounded_and_says_what_was_left_out),
      cmocka_unit_test(grep_answers_the_same_each_time),
      cmocka_unit_test(grep_skips_ignored_and_binary_files_and_links),
      cmocka_unit_test(grep_says_that_it_did_not_search_all_of_a_line),
      cmocka_unit_test(grep_says_how_much_could_not_be_read),
      cmocka_unit_test(grep_refuses_what_it_cannot_use_and_says_where),
      cmocka_unit_test(grep_that_is_stopped_ends_at_once));
