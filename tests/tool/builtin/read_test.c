#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "files.h"

/* Returns `count` lines "line N". */
static struct bl_text make_lines(struct files *files, int count)
{
    struct bl_buffer text;
    bl_buffer_init(&text, SIZE_MAX);
    for (int i = 1; i <= count; i++)
        bl_buffer_printf(&text, "line %d\n", i);
    struct bl_text kept = bl_arena_text(&files->arena, bl_buffer_text(&text));
    bl_buffer_done(&text);
    return kept;
}

static int numbered(void *argument)
{
    struct files *files = argument;
    files_put(files, "a", BL_TEXT("one\n\n\tthree\n"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"a\"}"), 0);
    CHECK(!files->result.is_error);
    CHECK(strcmp(files_text(files), "     1\tone\n     2\t\n     3\t\tthree\n") == 0);
    return 0;
}

static int pages(void *argument)
{
    struct files *files = argument;
    files_put(files, "a", make_lines(files, 5320));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"a\"}"), 0);
    CHECK(files_says(files, false, "     1\tline 1\n"));
    CHECK(files_says(files, false,
                     "  2000\tline 2000\n[lines 2001-5320 left out: read again with "
                     "offset 2001]\n"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"a\",\"offset\":2001}"), 0);
    CHECK(files_says(files, false, "  2001\tline 2001\n"));
    CHECK(files_says(files, false,
                     "[lines 1-2000 left out]\n[lines 4001-5320 left out: read again "
                     "with offset 4001]\n"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"a\",\"offset\":5318,\"limit\":2}"), 0);
    CHECK(strcmp(files_text(files),
                 "  5318\tline 5318\n  5319\tline 5319\n[lines 1-5317 left out]\n[line 5320 left "
                 "out: read again with offset 5320]\n") == 0);
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"a\",\"offset\":5320,\"limit\":1}"), 0);
    CHECK(strcmp(files_text(files), "  5320\tline 5320\n[lines 1-5319 left out]\n") == 0);
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"a\",\"offset\":5321}"), 0);
    CHECK(files_says(files, true, "'a' has 5320 lines: offset 5321 is past its end."));
    return 0;
}

/* A schema cannot express this: for it, 1e30 is a whole number. */
static int uncountable(void *argument)
{
    struct files *files = argument;
    files_put(files, "a", BL_TEXT("b\n"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"a\",\"limit\":1e30}"), 0);
    CHECK(files_says(files, true,
                     "Invalid input for read: limit: expected a whole number of at least 1, found "
                     "1e+30. The tool was not run."));
    return 0;
}

static int long_lines(void *argument)
{
    struct files *files = argument;
    struct bl_buffer text;
    bl_buffer_init(&text, SIZE_MAX);
    for (int i = 0; i < 3000; i++)
        bl_buffer_append(&text, BL_TEXT("\xC3\xA4")); /* two bytes each */
    bl_buffer_append(&text, BL_TEXT("\nshort\n"));
    files_put(files, "a", bl_buffer_text(&text));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"a\"}"), 0);
    CHECK(files_says(files, false, "\xC3\xA4 [2,000 bytes more in this line]\n     2\tshort\n"));
    CHECK_EQUAL(files->result.text.size,
                7 + 4000 + strlen(" [2,000 bytes more in this line]\n     2\tshort\n"));
    bl_buffer_done(&text);
    return 0;
}

/* Whatever the size of a result, the pages together hold all of the file. */
static int all_of_it(void *argument)
{
    struct files *files = argument;
    struct bl_random random;
    bl_random_seed(&random, 7);
    for (unsigned long round = 0; round < suite_rounds(12, 300); round++) {
        struct bl_arena_mark mark = bl_arena_mark(&files->arena);
        struct bl_buffer text, seen;
        bl_buffer_init(&text, SIZE_MAX);
        bl_buffer_init(&seen, SIZE_MAX);
        uint64_t lines = 1 + bl_random_below(&random, 200);
        files->toolbox.output_max = 1000 + bl_random_below(&random, 5000);
        for (uint64_t i = 0; i < lines; i++) {
            for (uint64_t size = bl_random_below(&random, 150); size > 0; size--)
                bl_buffer_append_byte(&text, (char)('a' + bl_random_below(&random, 26)));
            bl_buffer_append_byte(&text, '\n');
        }
        files_put(files, "a", bl_buffer_text(&text));
        uint64_t next = 1;
        for (uint64_t calls = 0; next <= lines && calls <= lines; calls++) {
            CHECK_EQUAL(
                files_call(files, &tool_read, "{\"path\":\"a\",\"offset\":%" PRIu64 "}", next), 0);
            CHECK(files->result.text.size <= files->toolbox.output_max);
            struct bl_text rest = files->result.text, line;
            while (bl_text_split(&rest, '\n', &line) && line.size > 7 && line.data[0] != '[') {
                next++;
                bl_buffer_append(&seen, (struct bl_text){line.data + 7, line.size - 7});
                bl_buffer_append_byte(&seen, '\n');
            }
            /* An empty line is seven bytes: let the note say where to continue. */
            const char *note = strstr(files_text(files), "read again with offset ");
            int64_t told = note != NULL ? strtoll(note + 23, NULL, 10) : (int64_t)lines + 1;
            for (; next < (uint64_t)told; next++)
                bl_buffer_append_byte(&seen, '\n');
        }
        CHECK_EQUAL(next, lines + 1);
        bl_buffer_done(&seen);
        bl_buffer_done(&text);
        bl_arena_rewind(&files->arena, mark);
    }
    return 0;
}

static int bounded(void *argument)
{
    struct files *files = argument;
    files_put(files, "a", make_lines(files, 20000));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"a\",\"limit\":20000}"), 0);
    CHECK(files->result.text.size <= files->toolbox.output_max);
    CHECK(files->result.text.size > files->toolbox.output_max - 1024);
    CHECK(files_says(files, false, "-20000 left out: read again with offset "));
    return 0;
}

/* The first 8 KiB decide whether it is text: they may end inside a character, the file may not. */
static int cut_characters(void *argument)
{
    struct files *files = argument;
    static char content[8192 + 16];
    memset(content, '\n', sizeof content);
    memcpy(content + 8191, "\xC3\xA9", 2);
    files_put(files, "across", (struct bl_text){content, 8193});
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"across\",\"offset\":8192}"), 0);
    CHECK(files_says(files, false, "  8192\t\xC3\xA9"));
    files_put(files, "short", BL_TEXT("caf\xC3"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"short\"}"), 0);
    CHECK(files_says(files, true, "not UTF-8: a binary file, or text in another encoding (4"));
    memcpy(content + 8191, "\nab\xC3\ncd\n", 8);
    files_put(files, "late", (struct bl_text){content, 8199});
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"late\",\"offset\":8193}"), 0);
    CHECK(files_says(files, false, "  8193\tab\xEF\xBF\xBD\n  8194\tcd\n"));
    return 0;
}

static int not_text(void *argument)
{
    struct files *files = argument;
    files_put(files, "binary", BL_TEXT("ELF\0\1\2"));
    files_put(files, "latin", BL_TEXT("caf\xE9\n"));
    files_put(files, "wide", BL_TEXT("\xFF\xFEh\0i\0"));
    files_put(files, "empty", BL_TEXT(""));
    files_put(files, "mark", BL_TEXT("\xEF\xBB\xBF"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"binary\"}"), 0);
    CHECK(files_says(files, true, "'binary' is a binary file (6 bytes), and is not shown."));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"latin\"}"), 0);
    CHECK(files_says(files, true, "not UTF-8: a binary file, or text in another encoding (5"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"wide\"}"), 0);
    CHECK(files_says(files, true, "UTF-16"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"empty\"}"), 0);
    CHECK(files_says(files, false, "'empty' is empty."));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"mark\"}"), 0);
    CHECK(files_says(files, false, "contains only a byte order mark."));
    return 0;
}

static int notes(void *argument)
{
    struct files *files = argument;
    struct bl_buffer text;
    bl_buffer_init(&text, SIZE_MAX);
    files_put(files, "a", BL_TEXT("\xEF\xBB\xBFone\r\ntwo"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"a\"}"), 0);
    CHECK(strcmp(files_text(files),
                 "     1\tone\n     2\ttwo\n[the file begins with a byte order mark]\n[lines end "
                 "in CR LF]\n[no newline at the end of the file]\n") == 0);
    /* Text at the start, and other bytes later. */
    for (int i = 0; i < 2000; i++)
        bl_buffer_append(&text, BL_TEXT("text\n"));
    bl_buffer_append(&text, BL_TEXT("\xE9\0!\n"));
    files_put(files, "b", bl_buffer_text(&text));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"b\",\"offset\":2001}"), 0);
    CHECK(strcmp(files_text(files), "  2001\t\xEF\xBF\xBD\xEF\xBF\xBD!\n[lines 1-2000 left "
                                    "out]\n[invalid bytes are shown as \xEF\xBF\xBD]\n") == 0);
    bl_buffer_done(&text);
    return 0;
}

static int refused(void *argument)
{
    struct files *files = argument;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", files->workspace);
    CHECK_EQUAL(bind(socket_fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQUAL(mkfifo(files_path(files, "fifo"), 0666), 0);
    files_folder(files, "folder");
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"fifo\"}"), 0);
    CHECK(files_says(files, true, "'fifo' is a FIFO, not a regular file."));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"socket\"}"), 0);
    CHECK(files_says(files, true, "is a socket, not a regular file"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"folder\"}"), 0);
    CHECK(files_says(files, true, "'folder' is a folder, not a file. Use ls"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"none\"}"), 0);
    CHECK(files_says(files, true, "'none' does not exist"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"../outside\"}"), 0);
    CHECK(files_says(files, true, "is outside the workspace"));
    files->toolbox.workspace = "/dev";
    files_pin(files);
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"zero\"}"), 0);
    CHECK(files_says(files, true, "is a device, not a regular file"));
    CHECK(!files_fits(files, &tool_read, "{\"path\":\"\"}"));
    CHECK(!files_fits(files, &tool_read, "{\"path\":\"a\",\"offset\":0}"));
    CHECK(!files_fits(files, &tool_read, "{\"path\":\"a\",\"limit\":1.5}"));
    CHECK(!files_fits(files, &tool_read, "{\"path\":\"a\",\"lines\":3}"));
    CHECK(!files_fits(files, &tool_read, "{}"));
    close(socket_fd);
    return 0;
}

/* Two GiB, of which only the start is text. */
static const char *make_large(struct files *files)
{
    files_put(files, "large", make_lines(files, 3000));
    CHECK_EQUAL(truncate(files_path(files, "large"), (off_t)2 << 30), 0);
    return "large";
}

static int large(void *argument)
{
    struct files *files = argument;
    struct rusage before, after;
    make_large(files);
    getrusage(RUSAGE_SELF, &before);
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"large\",\"limit\":10}"), 0);
    CHECK(files_says(files, false,
                     "    10\tline 10\n[everything from line 11 on left out; the file has "
                     "2,147,483,648 bytes: read again with offset 11]\n"));
    /* The last line never ends: it is cut like any other. */
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"large\",\"offset\":3000}"), 0);
    CHECK(files_says(files, false, "  3000\tline 3000\n  3001\t\xEF\xBF\xBD"));
    CHECK(files_says(files, false, " [at least "));
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 32 * 1024);
    CHECK_EQUAL(truncate(files_path(files, "large"), 0), 0);
    CHECK_EQUAL(truncate(files_path(files, "large"), (off_t)2 << 30), 0);
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"large\"}"), 0);
    CHECK(files_says(files, true, "is a binary file (2,147,483,648 bytes)"));
    return 0;
}

static int stop_soon(void *argument)
{
    struct files *files = argument;
    CHECK_EQUAL(bl_sleep(2 * BL_NS_PER_MS), 0);
    bl_scope_stop(&files->scope, BL_STOP_USER, "test");
    return 0;
}

static int stopped(void *argument)
{
    struct files *files = argument;
    struct bl_nursery nursery;
    make_large(files);
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "stopper", stop_soon, files, NULL), 0);
    /* Reaching that line would take a while. */
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"large\",\"offset\":4000}"),
                BL_ECANCELED);
    CHECK(files_says(files, true, "stopped: nothing was read"));
    bl_nursery_done(&nursery);
    CHECK(bl_receipt_ready(&files->receipt));
    CHECK(bl_receipt_cancel_observed(&files->receipt));
    files_arm(files);
    return 0;
}

FILES_TEST(read_detects_text_by_its_first_bytes, cut_characters)
FILES_TEST(read_shows_lines_with_their_numbers, numbered)
FILES_TEST(read_refuses_an_uncountable_number, uncountable)
FILES_TEST(read_pages_and_says_what_it_left_out, pages)
FILES_TEST(read_cuts_long_lines_and_says_so, long_lines)
FILES_TEST(read_pages_together_hold_the_whole_file, all_of_it)
FILES_TEST(read_results_are_bounded, bounded)
FILES_TEST(read_reports_files_that_are_not_text, not_text)
FILES_TEST(read_reports_line_endings_and_invalid_bytes, notes)
FILES_TEST(read_refuses_special_files, refused)
FILES_TEST(read_takes_two_gigabytes_with_little_memory, large)
FILES_TEST(read_is_stopped_in_the_middle, stopped)

SUITE(read, cmocka_unit_test(read_detects_text_by_its_first_bytes),
      cmocka_unit_test(read_shows_lines_with_their_numbers),
      cmocka_unit_test(read_pages_and_says_what_it_left_out),
      cmocka_unit_test(read_refuses_an_uncountable_number),
      cmocka_unit_test(read_cuts_long_lines_and_says_so),
      cmocka_unit_test(read_pages_together_hold_the_whole_file),
      cmocka_unit_test(read_results_are_bounded),
      cmocka_unit_test(read_reports_files_that_are_not_text),
      cmocka_unit_test(read_reports_line_endings_and_invalid_bytes),
      cmocka_unit_test(read_refuses_special_files),
      cmocka_unit_test(read_takes_two_gigabytes_with_little_memory),
      cmocka_unit_test(read_is_stopped_in_the_middle));
