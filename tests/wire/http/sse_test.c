#include <belay/wire.h>

#include <stdio.h>

#include "suite.h"

#define SIZE_MAX_HERE ((size_t)1 << 20)

/* An event as these tests write it: name, STX, data, SOH. */
#define EVENT(name, data) name "\x02" data "\x01"
#define BOM               "\xEF\xBB\xBF"
#define REPLACED          "\xEF\xBF\xBD"

struct taken {
    struct bl_buffer events;
    unsigned count;
    unsigned fail_at; /* 0: never */
};

static int take(void *context, const struct bl_sse_event *event)
{
    struct taken *taken = context;

    assert_true(bl_utf8_valid(event->name));
    assert_true(bl_utf8_valid(event->data));
    bl_buffer_append(&taken->events, event->name);
    bl_buffer_append_byte(&taken->events, '\x02');
    bl_buffer_append(&taken->events, event->data);
    bl_buffer_append_byte(&taken->events, '\x01');
    return ++taken->count == taken->fail_at ? BL_EBUSY : 0;
}

static void begin(struct bl_sse *sse, struct taken *taken)
{
    *taken = (struct taken){.fail_at = 0};
    bl_buffer_init(&taken->events, 8 * SIZE_MAX_HERE);
    bl_sse_init(sse, SIZE_MAX_HERE, SIZE_MAX_HERE);
}

static void finish(struct bl_sse *sse, struct taken *taken)
{
    bl_buffer_done(&taken->events);
    bl_sse_done(sse);
}

/* Makes control characters visible. */
static const char *shown(struct bl_text text)
{
    static char out[2][2048];
    static unsigned turn;
    char *to = out[turn++ % 2];
    size_t size = 0;

    for (size_t i = 0; i < text.size && size + 5 < sizeof out[0]; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        size += (size_t)snprintf(to + size, sizeof out[0] - size,
                                 byte < ' ' || byte > '~' ? "\\x%02x" : "%c", byte);
    }
    to[size] = '\0';
    return to;
}

/* Feeds the bytes in pieces, each in separate memory, so that a view that outlives its piece is
 * detected. */
static void check_cut(const char *name, struct bl_text bytes, const size_t *cuts, size_t cut_count,
                      struct bl_text expected)
{
    struct bl_sse sse;
    struct taken taken;

    begin(&sse, &taken);
    for (size_t i = 0, from = 0; i <= cut_count; i++) {
        size_t to = i < cut_count ? cuts[i] : bytes.size;
        char *piece = bl_alloc(to - from + 1);
        memcpy(piece, bytes.data + from, to - from);
        int code = bl_sse_feed(&sse, (struct bl_text){piece, to - from}, take, &taken);
        bl_free(piece);
        assert_int_equal(code, 0);
        from = to;
    }
    assert_int_equal(bl_sse_end(&sse, take, &taken), 0);
    if (!bl_text_equal(bl_buffer_text(&taken.events), expected))
        fail_msg("%s, cut at %zu: \"%s\", expected \"%s\"", name, cut_count > 0 ? cuts[0] : 0,
                 shown(bl_buffer_text(&taken.events)), shown(expected));
    finish(&sse, &taken);
}

struct sse_case {
    const char *name;
    struct bl_text bytes;
    struct bl_text events;
};

/* Behaviour required by web-platform-tests under eventsource/format-* and event-data. */
static const struct sse_case platform_cases[] = {
    {"one byte order mark is dropped, a second is part of a field's name",
     BL_TEXT(BOM "data:a\n\n" BOM "data:b\n\ndata:c\n\n"), BL_TEXT(EVENT("", "a") EVENT("", "c"))},
    {"two byte order marks at the front", BL_TEXT(BOM BOM "data:a\n\ndata:b\n\ndata:c\n\n"),
     BL_TEXT(EVENT("", "b") EVENT("", "c"))},
    {"comments between data lines, with NUL, with any line end",
     BL_TEXT(
         "data:a\r:\0\n:\r\ndata:b\n:xxxxxxxxxxxxxxxxxxxx\rdata:c\n:data:no\r:yyyy\ndata:d\n\n"),
     BL_TEXT(EVENT("", "a\nb\nc\nd"))},
    {"data before a missing last blank line",
     BL_TEXT("retry:1000\ndata:first\n\nid:x\ndata:second"), BL_TEXT(EVENT("", "first"))},
    {"empty data lines", BL_TEXT("data:\n\ndata\ndata\n\ndata:t\n\n"),
     BL_TEXT(EVENT("", "") EVENT("", "\n") EVENT("", "t"))},
    {"a name, and none after it", BL_TEXT("event:test\ndata:x\n\ndata:x\n\n"),
     BL_TEXT(EVENT("test", "x") EVENT("", "x"))},
    {"an empty name", BL_TEXT("event: \ndata:data\n\n"), BL_TEXT(EVENT("", "data"))},
    {"an id that stays", BL_TEXT("id: 1\ndata:a\n\ndata:b\n\nid\ndata:c\n\n"),
     BL_TEXT(EVENT("", "a") EVENT("", "b") EVENT("", "c"))},
    {"names of fields are exact, and one space is dropped",
     BL_TEXT("data:\0\ndata:  two\rData:no\ndata\0:no\ndata:one\r\0data:no\nda-ta:no\rdata_5\n"
             "data:three\rdata:\r\n data:no\ndata:four\n\n"),
     BL_TEXT(EVENT("", "\0\n two\none\nthree\n\nfour"))},
    {"retry with a leading zero", BL_TEXT("retry:03000\ndata:x\n\n"), BL_TEXT(EVENT("", "x"))},
    {"retry that is not a number", BL_TEXT("retry:3000\nretry:1000x\ndata:x\n\n"),
     BL_TEXT(EVENT("", "x"))},
    {"retry without a value", BL_TEXT("retry\ndata:t\n\n"), BL_TEXT(EVENT("", "t"))},
    {"unknown fields", BL_TEXT("data:t\n data\ndata\nfoobar:xxx\nsometext\n:comment\ndata:t\n\n"),
     BL_TEXT(EVENT("", "t\n\nt"))},
    {"only a space is dropped, not a tab", BL_TEXT("data:\tt\rdata: \ndata:t\n\n"),
     BL_TEXT(EVENT("", "\tt\n\nt"))},
    {"every kind of line end", BL_TEXT("data:t\r\ndata\ndata:t\r\n\r"),
     BL_TEXT(EVENT("", "t\n\nt"))},
    {"NUL is data", BL_TEXT("data:\0\n\n\n\n"), BL_TEXT(EVENT("", "\0"))},
    {"text is UTF-8", BL_TEXT("data:ok\xE2\x80\xA6\n\n"), BL_TEXT(EVENT("", "ok\xE2\x80\xA6"))},
    {"unknown fields and their blank lines",
     BL_TEXT("data:m\ndata: m\n\n:\nfalsefield:m\n\nfalsefield:m\nData:d\n\ndata\n\ndata:end\n\n"),
     BL_TEXT(EVENT("", "m\nm") EVENT("", "") EVENT("", "end"))},
};

/* Behaviour required by the tests of eventsource-parser. */
static const struct sse_case parser_cases[] = {
    {"events without a name, then one with",
     BL_TEXT("data: 0\n\ndata: 1\n\nevent: done\ndata: \xE2\x9C\x94\n\n"),
     BL_TEXT(EVENT("", "0") EVENT("", "1") EVENT("done", "\xE2\x9C\x94"))},
    {"id, name and retry", BL_TEXT("event: tick\nretry: 50\nid: 7\ndata: 7\n\n"),
     BL_TEXT(EVENT("tick", "7"))},
    {"comments as a heartbeat",
     BL_TEXT(": \xE2\x99\xA5\n\ndata: A\n\n: \xE2\x99\xA5\n\ndata: B\n\n"),
     BL_TEXT(EVENT("", "A") EVENT("", "B"))},
    {"data of several lines", BL_TEXT("event: stock\ndata: Y\ndata: +2\ndata: 10\n\n"),
     BL_TEXT(EVENT("stock", "Y\n+2\n10"))},
    {"blank lines at the front", BL_TEXT("\n\n\n\nid: 1\ndata: \xE6\x88\x91\xE7\x8F\xBE\n\n"),
     BL_TEXT(EVENT("", "\xE6\x88\x91\xE7\x8F\xBE"))},
    {"lines of CR", BL_TEXT("data: dog\rdata: bark\r\rdata: cat\rdata: meow\r\r"),
     BL_TEXT(EVENT("", "dog\nbark") EVENT("", "cat\nmeow"))},
    {"lines of LF", BL_TEXT("data: cow\ndata: moo\n\ndata: horse\ndata: neigh\n\n"),
     BL_TEXT(EVENT("", "cow\nmoo") EVENT("", "horse\nneigh"))},
    {"lines of CRLF", BL_TEXT("data: sheep\r\ndata: bleat\r\n\r\ndata: pig\r\ndata: oink\r\n\r\n"),
     BL_TEXT(EVENT("", "sheep\nbleat") EVENT("", "pig\noink"))},
    {"comments of all kinds",
     BL_TEXT(": Hello\n\n::::::::\ndata: a\n\n: \xD0\x9F: \xE7\xAC\xAC\ndata: b\n\n"
             ": x \n: y \n:\xE0\xB4\xA8\ndata: c\n\n"),
     BL_TEXT(EVENT("", "a") EVENT("", "b") EVENT("", "c"))},
    {"comments and ends in a mixture",
     BL_TEXT(
         "data:1\r\r:\0\n:\r\ndata:2\n\n:xxxxxxxxxxx\rdata:3\n\n:data:no\r:yyyyyyy\ndata:4\n\nda"),
     BL_TEXT(EVENT("", "1") EVENT("", "2") EVENT("", "3") EVENT("", "4"))},
    {"an empty name, and a name without data",
     BL_TEXT("event:\ndata: Hello\n\nevent:\n\nevent: lost\n\ndata: x\n\n"),
     BL_TEXT(EVENT("", "Hello") EVENT("", "x"))},
    {"an id with NUL beside a good one", BL_TEXT("id: 123\nid: bad\0id\ndata: hello\n\n"),
     BL_TEXT(EVENT("", "hello"))},
    {"a JSON error instead of a stream", BL_TEXT("{\"error\":\"no\",\"message\":\"x\"}"),
     BL_TEXT("")},
    {"a line that is not a field", BL_TEXT("Well, this is not it\ndata: ok\n\n"),
     BL_TEXT(EVENT("", "ok"))},
    {"a field that begins like data", BL_TEXT("datax: y\ndat: z\ndata: ok\n\n"),
     BL_TEXT(EVENT("", "ok"))},
    {"a bare field", BL_TEXT("data: one\ndata\r\ndata: two\n\n"), BL_TEXT(EVENT("", "one\n\ntwo"))},
    {"a blank line of CR, CRLF", BL_TEXT("data: one\r\r\n"), BL_TEXT(EVENT("", "one"))},
    {"a comment that ends in CR", BL_TEXT("data: one\n:ignored\rdata: two\n\n"),
     BL_TEXT(EVENT("", "one\ntwo"))},
};

/* Our own cases: invalid UTF-8. */
static const struct sse_case broken_cases[] = {
    {"a lone byte",
     BL_TEXT("data: a\x80"
             "b\n\n"),
     BL_TEXT(EVENT("", "a" REPLACED "b"))},
    {"a sequence cut by the line", BL_TEXT("data: a\xE2\x82\ndata: b\n\n"),
     BL_TEXT(EVENT("", "a" REPLACED "\nb"))},
    {"one replacement for each part that could have begun a sequence",
     BL_TEXT("data: \xF0\x9F\x98"
             "x\xE0\x80\xED\xA0\x80\xFF\n\n"),
     BL_TEXT(EVENT("", REPLACED "x" REPLACED REPLACED REPLACED REPLACED REPLACED REPLACED))},
    {"a broken name with good data", BL_TEXT("event: \xC3\ndata: \xC3\xA9\n\n"),
     BL_TEXT(EVENT(REPLACED, "\xC3\xA9"))},
    {"what only begins like a byte order mark",
     BL_TEXT("\xEF\xBB"
             "data: a\n\ndata: b\n\n"),
     BL_TEXT(EVENT("", "b"))},
    {"a good one after a broken one", BL_TEXT("data: \xC3\n\ndata: ok\n\n"),
     BL_TEXT(EVENT("", REPLACED) EVENT("", "ok"))},
};

/* The only difference: at the end of input a pending event is delivered if it is complete. */
static const struct sse_case end_cases[] = {
    {"an object without a blank line", BL_TEXT("data: {\"a\":1}\n"),
     BL_TEXT(EVENT("", "{\"a\":1}"))},
    {"an object without a line end", BL_TEXT("event: x\ndata: {\"a\":1}"),
     BL_TEXT(EVENT("x", "{\"a\":1}"))},
    {"the word that ends a stream", BL_TEXT("data: {}\n\ndata: [DONE]"),
     BL_TEXT(EVENT("", "{}") EVENT("", "[DONE]"))},
    {"the same with a CR", BL_TEXT("data: [DONE]\r"), BL_TEXT(EVENT("", "[DONE]"))},
    {"an object on two lines", BL_TEXT("data: {\ndata: }"), BL_TEXT(EVENT("", "{\n}"))},
    {"an object that is cut", BL_TEXT("data: {\"a\":1\n"), BL_TEXT("")},
    {"text", BL_TEXT("data: hello\n"), BL_TEXT("")},
    {"a number that may be cut", BL_TEXT("data: 12"), BL_TEXT("")},
    {"a number on a line of its own", BL_TEXT("data: 12\n"), BL_TEXT(EVENT("", "12"))},
    {"nothing but a name", BL_TEXT("event: x"), BL_TEXT("")},
    {"an empty data line", BL_TEXT("data:"), BL_TEXT("")},
    {"two values", BL_TEXT("data: {}\ndata: {}\n"), BL_TEXT("")},
};

static void check_cases(const struct sse_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_cut(cases[i].name, cases[i].bytes, NULL, 0, cases[i].events);
}

static void P16_passes_the_web_platform_tests(void **state)
{
    (void)state;
    check_cases(platform_cases, BL_COUNT(platform_cases));
}

static void P16_passes_the_tests_of_eventsource_parser(void **state)
{
    (void)state;
    check_cases(parser_cases, BL_COUNT(parser_cases));
}

static void P16_differs_only_at_an_end_without_blank_line(void **state)
{
    (void)state;
    check_cases(end_cases, BL_COUNT(end_cases));
}

static void text_given_on_is_valid_utf8(void **state)
{
    (void)state;
    check_cases(broken_cases, BL_COUNT(broken_cases));
}

static void check_all_cuts(const struct sse_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct bl_text bytes = cases[i].bytes;
        for (size_t first = 0; first <= bytes.size; first++)
            for (size_t second = first; second <= bytes.size; second++)
                check_cut(cases[i].name, bytes, (size_t[]){first, second}, 2, cases[i].events);
        size_t *each = bl_alloc((bytes.size + 1) * sizeof *each);
        for (size_t at = 0; at < bytes.size; at++)
            each[at] = at + 1;
        check_cut(cases[i].name, bytes, each, bytes.size, cases[i].events);
        bl_free(each);
    }
}

static void P17_events_are_the_same_cut_at_every_byte_and_pair_of_bytes(void **state)
{
    (void)state;
    check_all_cuts(platform_cases, BL_COUNT(platform_cases));
    check_all_cuts(parser_cases, BL_COUNT(parser_cases));
    check_all_cuts(broken_cases, BL_COUNT(broken_cases));
    check_all_cuts(end_cases, BL_COUNT(end_cases));
}

/* ---- Id and retry ---------------------------------------------------------------------------- */

static void check_fields(struct bl_text bytes, struct bl_text id, int64_t retry_ms)
{
    struct bl_sse sse;
    struct taken taken;

    begin(&sse, &taken);
    assert_int_equal(bl_sse_feed(&sse, bytes, take, &taken), 0);
    assert_true(bl_text_equal(bl_buffer_text(&sse.id), id));
    assert_int_equal(sse.retry_ms, retry_ms);
    finish(&sse, &taken);
}

static void id_and_retry_are_kept_only_if_they_are_valid(void **state)
{
    (void)state;
    check_fields(BL_TEXT("data: x\n\n"), BL_TEXT(""), -1);
    check_fields(BL_TEXT("id: 1\n\nid: 2\n"), BL_TEXT("2"), -1);
    check_fields(BL_TEXT("id: 1\n\nid\n\n"), BL_TEXT(""), -1);
    check_fields(BL_TEXT("id: 1\nid: a\0b\n\n"), BL_TEXT("1"), -1);
    check_fields(BL_TEXT("retry: 500\n"), BL_TEXT(""), 500);
    check_fields(BL_TEXT("retry: 500\nretry:\nretry: 5x\nretry: -1\nretry:  7\n"), BL_TEXT(""),
                 500);
    check_fields(BL_TEXT("retry: 0012\n"), BL_TEXT(""), 12);
    check_fields(BL_TEXT("retry: 99999999999999999999\n"), BL_TEXT(""), -1);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static int feed(struct bl_sse *sse, const char *text, struct taken *taken)
{
    return bl_sse_feed(sse, bl_text_from(text), take, taken);
}

static void event_over_the_limit_is_refused_regardless_of_its_fields(void **state)
{
    (void)state;
    struct bl_sse sse;
    struct taken taken;
    static const char *const fitting[] = {
        "data: 123456789\n\n",
        "data: 1234\ndata: 678\n\n",
        "event: 1234\ndata: 6789\n\n",
        "id: 12345678\ndata:\n\n",
    };
    static const char *const over[] = {
        "data: 1234567890\n\n",
        "data: 1234\ndata: 56789\n\n",
        "event: 12345\ndata: 67890\n\n",
        "data: 67890\nevent: 12345\n\n",
        "id: 123456789\ndata: 0\n\n",
        "event: 12345678901\n",
        "data: 1\ndata: 3\ndata: 5\ndata: 7\ndata: 9\ndata: 1\n",
        "data: \x80\x80\x80\x80\n\n", /* as U+FFFD it is 12 bytes */
        "data: a line that is longer than any line may be\n\n",
    };

    for (size_t i = 0; i < BL_COUNT(fitting) + BL_COUNT(over); i++) {
        bool fits = i < BL_COUNT(fitting);
        const char *text = fits ? fitting[i] : over[i - BL_COUNT(fitting)];
        for (size_t piece = 1; piece <= strlen(text); piece++) {
            int code = 0;
            taken = (struct taken){.fail_at = 0};
            bl_buffer_init(&taken.events, 1000);
            bl_sse_init(&sse, 32, 10);
            for (size_t at = 0; code == 0 && at < strlen(text); at += piece) {
                size_t left = strlen(text) - at;
                struct bl_text part = {text + at, left < piece ? left : piece};
                code = bl_sse_feed(&sse, part, take, &taken);
            }
            if (code != (fits ? 0 : BL_ELIMIT) || taken.count != (fits ? 1 : 0))
                fail_msg("%s in pieces of %zu: %s", text, piece, bl_error_name(code));
            finish(&sse, &taken);
        }
    }
}

static void result_of_the_callback_ends_the_feed(void **state)
{
    (void)state;
    struct bl_sse sse;
    struct taken taken;

    begin(&sse, &taken);
    taken.fail_at = 2;
    assert_int_equal(feed(&sse, "data: 1\n\ndata: 2\n\ndata: 3\n\n", &taken), BL_EBUSY);
    assert_int_equal(taken.count, 2);
    taken.fail_at = 3;
    assert_int_equal(feed(&sse, "data: {}", &taken), 0);
    assert_int_equal(bl_sse_end(&sse, take, &taken), BL_EBUSY);
    assert_int_equal(bl_sse_end(&sse, take, &taken), 0);
    finish(&sse, &taken);
}

static void a_large_event_leaves_its_memory_behind(void **state)
{
    (void)state;
    struct bl_sse sse;
    struct taken taken;
    char line[1025] = "data: ";

    memset(line + 6, 'x', sizeof line - 8);
    line[sizeof line - 2] = '\n';
    begin(&sse, &taken);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(feed(&sse, line, &taken), 0);
    assert_true(sse.data.capacity > 1000000);
    assert_int_equal(feed(&sse, "\n", &taken), 0);
    assert_int_equal(taken.count, 1);
    assert_int_equal(sse.data.capacity, 0);
    finish(&sse, &taken);
}

/* ---- Comparison with a simple implementation ---- */

/* The decoder of the encoding standard, one byte at a time. */
static void decode_plainly(struct bl_text bytes, struct bl_buffer *out)
{
    unsigned needed = 0, seen = 0;
    unsigned char low = 0x80, high = 0xBF, begun[4];

    for (size_t i = 0; i <= bytes.size; i++) {
        unsigned char byte = i < bytes.size ? (unsigned char)bytes.data[i] : 0;
        if (needed > 0 && (i == bytes.size || byte < low || byte > high)) {
            bl_buffer_append(out, BL_TEXT(REPLACED));
            needed = seen = 0;
        }
        if (i == bytes.size)
            return;
        if (needed > 0) {
            begun[++seen] = byte;
            low = 0x80, high = 0xBF;
            if (seen == needed) {
                bl_buffer_append(out, (struct bl_text){(char *)begun, seen + 1});
                needed = seen = 0;
            }
            continue;
        }
        low = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
        high = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
        begun[0] = byte;
        if (byte < 0x80)
            bl_buffer_append_byte(out, (char)byte);
        else if (byte >= 0xC2 && byte <= 0xF4)
            needed = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
        else
            bl_buffer_append(out, BL_TEXT(REPLACED));
    }
}

struct plain {
    struct bl_buffer data, name, id, events;
    int64_t retry_ms;
};

static void read_line_plainly(struct plain *plain, struct bl_text line)
{
    struct bl_text field = line, value = {"", 0};
    const char *colon = line.size > 0 ? memchr(line.data, ':', line.size) : NULL;

    if (line.size == 0) {
        if (plain->data.size > 0) {
            plain->data.size--;
            bl_buffer_append(&plain->events, bl_buffer_text(&plain->name));
            bl_buffer_append_byte(&plain->events, '\x02');
            bl_buffer_append(&plain->events, bl_buffer_text(&plain->data));
            bl_buffer_append_byte(&plain->events, '\x01');
        }
        plain->data.size = plain->name.size = 0;
        return;
    }
    if (colon != NULL) {
        field.size = (size_t)(colon - line.data);
        value = (struct bl_text){colon + 1, line.size - field.size - 1};
        if (value.size > 0 && value.data[0] == ' ')
            value = (struct bl_text){value.data + 1, value.size - 1};
    }
    if (bl_text_equal(field, BL_TEXT("data"))) {
        bl_buffer_append(&plain->data, value);
        bl_buffer_append_byte(&plain->data, '\n');
    } else if (bl_text_equal(field, BL_TEXT("event"))) {
        plain->name.size = 0;
        bl_buffer_append(&plain->name, value);
    } else if (bl_text_equal(field, BL_TEXT("id")) &&
               (value.size == 0 || memchr(value.data, 0, value.size) == NULL)) {
        plain->id.size = 0;
        bl_buffer_append(&plain->id, value);
    } else if (bl_text_equal(field, BL_TEXT("retry")) && value.size > 0) {
        int64_t number = 0;
        for (size_t i = 0; i < value.size; i++) {
            if (value.data[i] < '0' || value.data[i] > '9' || number > 99999999)
                return;
            number = number * 10 + value.data[i] - '0';
        }
        plain->retry_ms = number;
    }
}

static void read_plainly(struct plain *plain, struct bl_text bytes)
{
    struct bl_buffer text;
    size_t from = 0;

    bl_buffer_init(&text, 8 * SIZE_MAX_HERE);
    decode_plainly(bytes, &text);
    if (bl_text_starts_with(bl_buffer_text(&text), BL_TEXT(BOM)))
        from = 3;
    for (size_t i = from; i < text.size; i++) {
        if (text.data[i] != '\n' && text.data[i] != '\r')
            continue;
        read_line_plainly(plain, (struct bl_text){text.data + from, i - from});
        if (text.data[i] == '\r' && i + 1 < text.size && text.data[i + 1] == '\n')
            i++;
        from = i + 1;
    }
    bl_buffer_done(&text);
}

static void make_stream(struct bl_random *random, struct bl_buffer *out)
{
    static const struct bl_text parts[] = {
        BL_TEXT("data:"),
        BL_TEXT("data: "),
        BL_TEXT("data"),
        BL_TEXT("event: "),
        BL_TEXT("id:"),
        BL_TEXT("retry: "),
        BL_TEXT(":"),
        BL_TEXT(" "),
        BL_TEXT("\n"),
        BL_TEXT("\n"),
        BL_TEXT("\n\n"),
        BL_TEXT("\r"),
        BL_TEXT("\r\n"),
        BL_TEXT("\r\n\r\n"),
        BL_TEXT("\0"),
        BL_TEXT(BOM),
        BL_TEXT("\xC3\xA9"),
        BL_TEXT("\xE2\x82"),
        BL_TEXT("\xF0\x9F\x98\x80"),
        BL_TEXT("\x80"),
        BL_TEXT("some text, that is longer"),
        BL_TEXT("42"),
    };
    uint64_t count = bl_random_below(random, 60);

    bl_buffer_clear(out);
    if (bl_random_below(random, 3) == 0)
        bl_buffer_append(out, BL_TEXT(BOM));
    for (uint64_t i = 0; i < count; i++) {
        if (bl_random_below(random, 12) == 0)
            bl_buffer_append_byte(out, (char)bl_random_below(random, 256));
        else
            bl_buffer_append(out, parts[bl_random_below(random, BL_COUNT(parts))]);
    }
}

static void feed_at_random(struct bl_random *random, struct bl_sse *sse, struct bl_text bytes,
                           struct taken *taken)
{
    uint64_t longest = 1 + bl_random_below(random, 40);

    for (size_t at = 0; at < bytes.size;) {
        size_t size = (size_t)bl_random_below(random, longest + 1);
        if (size > bytes.size - at)
            size = bytes.size - at;
        char *piece = bl_alloc(size + 1);
        memcpy(piece, bytes.data + at, size);
        assert_int_equal(bl_sse_feed(sse, (struct bl_text){piece, size}, take, taken), 0);
        bl_free(piece);
        at += size;
    }
}

static void random_streams_match_a_simple_parser(void **state)
{
    (void)state;
    struct bl_random random;
    struct bl_buffer bytes;
    struct plain plain;

    bl_random_seed(&random, 4);
    bl_buffer_init(&bytes, SIZE_MAX_HERE);
    bl_buffer_init(&plain.data, SIZE_MAX_HERE);
    bl_buffer_init(&plain.name, SIZE_MAX_HERE);
    bl_buffer_init(&plain.id, SIZE_MAX_HERE);
    bl_buffer_init(&plain.events, SIZE_MAX_HERE);
    for (unsigned long round = 0; round < suite_rounds(SUITE_SANITIZED ? 5000 : 20000, 1000000);
         round++) {
        struct bl_sse sse;
        struct taken taken;
        plain.data.size = plain.name.size = plain.id.size = plain.events.size = 0;
        plain.retry_ms = -1;
        begin(&sse, &taken);
        make_stream(&random, &bytes);
        feed_at_random(&random, &sse, bl_buffer_text(&bytes), &taken);
        read_plainly(&plain, bl_buffer_text(&bytes));
        bool same = bl_text_equal(bl_buffer_text(&taken.events), bl_buffer_text(&plain.events)) &&
                    sse.retry_ms == plain.retry_ms &&
                    (bl_text_equal(bl_buffer_text(&sse.id), bl_buffer_text(&plain.id)) ||
                     !bl_utf8_valid(bl_buffer_text(&sse.id)));
        if (!same)
            fail_msg("round %lu: \"%s\" gives \"%s\"", round, shown(bl_buffer_text(&bytes)),
                     shown(bl_buffer_text(&taken.events)));
        finish(&sse, &taken);
    }
    bl_buffer_done(&bytes);
    bl_buffer_done(&plain.data);
    bl_buffer_done(&plain.name);
    bl_buffer_done(&plain.id);
    bl_buffer_done(&plain.events);
}

SUITE(sse, cmocka_unit_test(P16_passes_the_web_platform_tests),
      cmocka_unit_test(P16_passes_the_tests_of_eventsource_parser),
      cmocka_unit_test(P16_differs_only_at_an_end_without_blank_line),
      cmocka_unit_test(text_given_on_is_valid_utf8),
      cmocka_unit_test(P17_events_are_the_same_cut_at_every_byte_and_pair_of_bytes),
      cmocka_unit_test(id_and_retry_are_kept_only_if_they_are_valid),
      cmocka_unit_test(event_over_the_limit_is_refused_regardless_of_its_fields),
      cmocka_unit_test(result_of_the_callback_ends_the_feed),
      cmocka_unit_test(a_large_event_leaves_its_memory_behind),
      cmocka_unit_test(random_streams_match_a_simple_parser));
