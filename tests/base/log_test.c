#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int64_t fixed_wall_ns(void *context BL_UNUSED)
{
    return 1794768607123456789;
}

static const struct bl_clock fixed_clock = {.wall_ns = fixed_wall_ns};

struct kept {
    int count;
    struct bl_buffer lines;
};

static void keep(void *context, const struct bl_log_record *record)
{
    struct kept *kept = context;
    kept->count++;
    assert_int_equal(bl_log_format(record, &kept->lines), 0);
}

/* Returns the line of one record, without its time and level. */
static const char *shown(const char *message, const struct bl_log_field *fields, size_t count)
{
    static char out[4096];
    const struct bl_log_record record = {
        .level = BL_LOG_INFO, .message = message, .fields = fields, .field_count = count};
    struct bl_buffer line;
    bl_buffer_init(&line, sizeof out - 1);
    assert_int_equal(bl_log_format(&record, &line), 0);
    const char *prefix = "1970-01-01T00:00:00.000Z info proc ";
    assert_true(bl_text_starts_with(bl_buffer_text(&line), bl_text_from(prefix)));
    bl_buffer_consume(&line, strlen(prefix));
    assert_int_equal(line.data[line.size - 1], '\n');
    memcpy(out, line.data, line.size - 1);
    out[line.size - 1] = '\0';
    bl_buffer_done(&line);
    return out;
}

#define SHOWN(message, ...)                                                                        \
    shown(message, (const struct bl_log_field[]){__VA_ARGS__},                                     \
          BL_COUNT(((const struct bl_log_field[]){__VA_ARGS__})))

/* Turns the log off, as every test expects it. */
static void log_off(void)
{
    assert_int_equal(bl_log_set_levels(NULL, NULL), 0);
    bl_log_set_place(NULL);
    bl_log_open(NULL);
}

static void open_kept(struct kept *kept, const char *levels)
{
    *kept = (struct kept){0};
    bl_buffer_init(&kept->lines, 10000);
    bl_log_open(&(struct bl_log_sink){keep, kept, &fixed_clock});
    assert_int_equal(bl_log_set_levels(levels, NULL), 0);
}

static void close_kept(struct kept *kept)
{
    log_off();
    bl_buffer_done(&kept->lines);
}

static void write_place(char *out, size_t out_size)
{
    snprintf(out, out_size, "run_a/turn_b");
}

static void a_record_is_a_line_of_logfmt(void **state BL_UNUSED)
{
    struct kept kept;
    open_kept(&kept, "debug");
    BL_LOG(BL_ROOM_STORE, BL_LOG_WARNING, "slow sync", BL_LOG_INTEGER("ms", 1234),
           BL_LOG_STRING("file", "a.db"), BL_LOG_BOOLEAN("again", true),
           BL_LOG_NUMBER("load", 0.25), BL_LOG_TEXT("note", BL_TEXT("two words")));
    bl_log_set_place(write_place);
    bl_log_write(BL_ROOM_WIRE, BL_LOG_ERROR, "bare", NULL, 0);
    assert_true(bl_text_equal(
        bl_buffer_text(&kept.lines),
        BL_TEXT("2026-11-15T18:50:07.123Z warning store slow sync ms=1234 file=a.db again=true "
                "load=0.25 note=\"two words\"\n"
                "2026-11-15T18:50:07.123Z error wire bare in=run_a/turn_b\n")));
    close_kept(&kept);
}

static int evaluated;

static int64_t evaluate(void)
{
    return ++evaluated;
}

static void a_log_is_off_until_it_is_switched_on(void **state BL_UNUSED)
{
    struct kept kept;
    evaluated = 0;
    open_kept(&kept, "");
    BL_LOG(BL_ROOM_PROC, BL_LOG_ERROR, "m", BL_LOG_INTEGER("v", evaluate()));
    assert_int_equal(evaluated, 0);
    assert_int_equal(kept.count, 0);
    assert_int_equal(bl_log_set_levels("error", NULL), 0);
    BL_LOG(BL_ROOM_PROC, BL_LOG_ERROR, "m", BL_LOG_INTEGER("v", evaluate()));
    assert_int_equal(evaluated, 1);
    assert_int_equal(kept.count, 1);
    bl_log_open(NULL);
    BL_LOG(BL_ROOM_PROC, BL_LOG_ERROR, "m", BL_LOG_INTEGER("v", 1));
    assert_int_equal(kept.count, 1);
    close_kept(&kept);
}

static void each_room_has_a_level_of_its_own(void **state BL_UNUSED)
{
    struct kept kept;
    open_kept(&kept, "info,proc=trace,wire=error,wire=off");
    for (int level = BL_LOG_ERROR; level <= BL_LOG_TRACE; level++) {
        assert_true(bl_log_on(BL_ROOM_PROC, (enum bl_log_level)level));
        assert_false(bl_log_on(BL_ROOM_WIRE, (enum bl_log_level)level));
        assert_int_equal(bl_log_on(BL_ROOM_SERVE, (enum bl_log_level)level), level <= BL_LOG_INFO);
    }
    assert_int_equal(bl_log_set_levels("store=debug", NULL), 0);
    assert_false(bl_log_on(BL_ROOM_PROC, BL_LOG_ERROR));
    assert_true(bl_log_on(BL_ROOM_STORE, BL_LOG_DEBUG));
    close_kept(&kept);
}

static void wrong_levels_say_what_is_expected_and_change_nothing(void **state BL_UNUSED)
{
    static const struct {
        const char *text, *message, *hint;
    } cases[] = {
        {"loud", "unknown level 'loud' (expected one of: off, error, warning, info, debug, trace)",
         "write LEVEL for all rooms, or ROOM=LEVEL: 'info,proc=trace'"},
        {"debgu",
         "unknown level 'debgu' (expected one of: off, error, warning, info, debug, trace)",
         "did you mean 'debug'?"},
        {"debug,prco=trace",
         "unknown room 'prco' (expected one of: proc, wire, turn, store, model, tool, cell, "
         "agent, feature, fleet, serve)",
         "did you mean 'proc'?"},
        {"proc=", "unknown level '' (expected one of: off, error, warning, info, debug, trace)",
         "write LEVEL for all rooms, or ROOM=LEVEL: 'info,proc=trace'"},
        {"debug,,proc=info",
         "unknown level '' (expected one of: off, error, warning, info, debug, trace)",
         "write LEVEL for all rooms, or ROOM=LEVEL: 'info,proc=trace'"},
    };
    assert_int_equal(bl_log_set_levels("tool=info", NULL), 0);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_error error = {0};
        assert_int_equal(bl_log_set_levels(cases[i].text, &error), BL_EINVAL);
        assert_string_equal(error.message, cases[i].message);
        assert_string_equal(error.hint, cases[i].hint);
        assert_true(bl_log_on(BL_ROOM_TOOL, BL_LOG_INFO));
        assert_false(bl_log_on(BL_ROOM_PROC, BL_LOG_ERROR));
    }
    log_off();
}

static void values_are_quoted_where_necessary(void **state BL_UNUSED)
{
    static const struct {
        struct bl_text value;
        const char *line;
    } cases[] = {
        {{"plain", 5}, "m v=plain"},
        {{"", 0}, "m v=\"\""},
        {{NULL, 0}, "m v=\"\""},
        {{"a b", 3}, "m v=\"a b\""},
        {{"a=b", 3}, "m v=\"a=b\""},
        {{"a\"b", 3}, "m v=\"a\\\"b\""},
        {{"a\\b", 3}, "m v=a\\b"},
        {{"a \\b", 4}, "m v=\"a \\\\b\""},
        {{"a\nb\r\t", 5}, "m v=\"a\\nb\\r\\t\""},
        {{"\x1B[31m", 5}, "m v=\"\\u001b[31m\""},
        {{"a\0b", 3}, "m v=\"a\\u0000b\""},
        {{"\x7F", 1}, "m v=\"\\u007f\""},
        {{"\xC2\x9B", 2}, "m v=\"\\u009b\""},
        {{"\xE2\x80\xA8", 3}, "m v=\"\\u2028\""},
        {{"\xE2\x80\xAE", 3}, "m v=\"\\u202e\""},
        {{"é€😀", 9}, "m v=é€😀"},
        {{"a\xFF\xC3", 3}, "m v=\"a\\xff\\xc3\""},
        {{"\xED\xA0\x80", 3}, "m v=\"\\xed\\xa0\\x80\""},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        assert_string_equal(SHOWN("m", BL_LOG_TEXT("v", cases[i].value)), cases[i].line);
}

static void messages_and_names_cannot_break_a_line(void **state BL_UNUSED)
{
    assert_string_equal(SHOWN("a\nb\x1B\xFF", BL_LOG_INTEGER("v", 1)), "a\\nb\\u001b\\xff v=1");
    assert_string_equal(SHOWN("m", BL_LOG_INTEGER("a b=\n\"\xFF", 1)), "m a_b____=1");
    assert_string_equal(SHOWN("m", BL_LOG_INTEGER("", 1)), "m _=1");
    assert_string_equal(SHOWN("m", BL_LOG_INTEGER(NULL, 1)), "m _=1");
    assert_string_equal(SHOWN(NULL, BL_LOG_INTEGER("v", 1)), " v=1");
}

static void numbers_are_written_so_that_they_read_back(void **state BL_UNUSED)
{
    assert_string_equal(SHOWN("m", BL_LOG_INTEGER("v", INT64_MIN)), "m v=-9223372036854775808");
    assert_string_equal(SHOWN("m", BL_LOG_NUMBER("v", 0.1)), "m v=0.1");
    assert_string_equal(SHOWN("m", BL_LOG_NUMBER("v", 1.0 / 3)), "m v=0.3333333333333333");
    assert_string_equal(SHOWN("m", BL_LOG_NUMBER("v", 5e-324)), "m v=4.94065645841247e-324");
    assert_string_equal(SHOWN("m", BL_LOG_NUMBER("v", -1e300)), "m v=-1e+300");
    assert_string_equal(SHOWN("m", BL_LOG_BOOLEAN("v", false)), "m v=false");
}

/* For random bytes, the result is one line of valid UTF-8 without control characters. */
static void no_bytes_can_break_a_line_or_reach_the_terminal(void **state BL_UNUSED)
{
    struct bl_random random;
    bl_random_seed(&random, 7);
    for (unsigned long i = 0; i < suite_rounds(20000, 500000); i++) {
        char bytes[40];
        size_t size = bl_random_below(&random, sizeof bytes);
        for (size_t j = 0; j < size; j++)
            bytes[j] = (char)bl_random_next(&random);
        const struct bl_log_field field = BL_LOG_TEXT("v", ((struct bl_text){bytes, size}));
        struct bl_text line = bl_text_from(shown("m", &field, 1));
        assert_true(bl_utf8_valid(line));
        for (size_t j = 0; j < line.size; j++) {
            unsigned char byte = (unsigned char)line.data[j];
            if (byte < 0x20 || byte == 0x7F ||
                (byte == 0xC2 && (unsigned char)line.data[j + 1] < 0xA0))
                fail_msg("control byte in %s", line.data);
        }
    }
}

static void a_line_over_the_maximum_adds_nothing(void **state BL_UNUSED)
{
    const struct bl_log_field field = BL_LOG_STRING("v", "a \x1B\n\"value");
    const struct bl_log_record record = {
        .level = BL_LOG_INFO, .message = "message", .fields = &field, .field_count = 1};
    struct bl_buffer whole;
    bl_buffer_init(&whole, 1000);
    assert_int_equal(bl_log_format(&record, &whole), 0);
    for (size_t maximum = 0; maximum < whole.size + 2; maximum++) {
        struct bl_buffer line;
        bl_buffer_init(&line, maximum + 2);
        assert_int_equal(bl_buffer_append(&line, BL_TEXT("> ")), 0);
        bool fits = maximum >= whole.size;
        assert_int_equal(bl_log_format(&record, &line), fits ? 0 : BL_ELIMIT);
        assert_int_equal(line.size, fits ? 2 + whole.size : 2);
        bl_buffer_done(&line);
    }
    bl_buffer_done(&whole);
}

static void a_descriptor_gets_each_line_in_one_piece(void **state BL_UNUSED)
{
    int ends[2];
    char out[512];
    /* In packet mode, one read returns the data of one write. */
    assert_int_equal(pipe2(ends, O_DIRECT), 0);
    bl_log_open(&(struct bl_log_sink){bl_log_write_fd, (void *)(intptr_t)ends[1], &fixed_clock});
    assert_int_equal(bl_log_set_levels("info", NULL), 0);
    errno = 42;
    BL_LOG(BL_ROOM_TURN, BL_LOG_INFO, "one", BL_LOG_INTEGER("a", 1), BL_LOG_STRING("b", "x y"));
    assert_int_equal(errno, 42);
    BL_LOG(BL_ROOM_TURN, BL_LOG_INFO, "two", BL_LOG_INTEGER("a", 2));
    log_off();
    ssize_t count = read(ends[0], out, sizeof out);
    struct bl_text expected = BL_TEXT("2026-11-15T18:50:07.123Z info turn one a=1 b=\"x y\"\n");
    assert_int_equal(count, expected.size);
    assert_memory_equal(out, expected.data, expected.size);
    close(ends[0]);
    close(ends[1]);
}

static void a_line_that_is_too_long_is_truncated(void **state BL_UNUSED)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    static char value[100000], name[70000], out[70000];
    memset(value, '\x01', sizeof value - 1);
    memset(name, 'n', sizeof name - 1);
    struct bl_log_field fields[40];
    for (size_t i = 0; i < BL_COUNT(fields); i++)
        fields[i] = BL_LOG_STRING(name, value);
    bl_log_open(
        &(struct bl_log_sink){bl_log_write_fd, (void *)(intptr_t)fileno(file), &fixed_clock});
    bl_log_write(BL_ROOM_PROC, BL_LOG_INFO, value, fields, BL_COUNT(fields));
    log_off();
    ssize_t count = pread(fileno(file), out, sizeof out, 0);
    assert_in_range(count, 1000, 65536);
    assert_int_equal(out[count - 1], '\n');
    assert_ptr_equal(memchr(out, '\n', (size_t)count), out + count - 1);
    assert_true(bl_text_find((struct bl_text){out, (size_t)count}, BL_TEXT("u0001...\" n")) > 0);
    fclose(file);
}

static void a_failed_write_of_a_line_is_harmless(void **state BL_UNUSED)
{
    bl_log_open(&(struct bl_log_sink){bl_log_write_fd, (void *)(intptr_t)-1, &fixed_clock});
    errno = 0;
    bl_log_write(BL_ROOM_PROC, BL_LOG_INFO, "lost", NULL, 0);
    log_off();
    assert_int_equal(errno, 0);
}

SUITE(log, cmocka_unit_test(a_record_is_a_line_of_logfmt),
      cmocka_unit_test(a_log_is_off_until_it_is_switched_on),
      cmocka_unit_test(each_room_has_a_level_of_its_own),
      cmocka_unit_test(wrong_levels_say_what_is_expected_and_change_nothing),
      cmocka_unit_test(values_are_quoted_where_necessary),
      cmocka_unit_test(messages_and_names_cannot_break_a_line),
      cmocka_unit_test(numbers_are_written_so_that_they_read_back),
      cmocka_unit_test(no_bytes_can_break_a_line_or_reach_the_terminal),
      cmocka_unit_test(a_line_over_the_maximum_adds_nothing),
      cmocka_unit_test(a_descriptor_gets_each_line_in_one_piece),
      cmocka_unit_test(a_line_that_is_too_long_is_truncated),
      cmocka_unit_test(a_failed_write_of_a_line_is_harmless));
