#include "suite.h"
#include "term/term.h"

#include <stdio.h>

/* Writes keys as comparable text: "<type>" or "[text]", adjacent texts as one. */
static void describe(struct keys *keys, bool may_wait, struct bl_buffer *out)
{
    struct key key;

    while (keys_next(keys, may_wait, &key)) {
        assert_true(bl_utf8_valid(key.text));
        bool joined = key.type == KEY_TEXT && out->size > 0 && out->data[out->size - 1] == ']';
        if (joined)
            out->size--;
        else if (key.type == KEY_TEXT)
            bl_buffer_append_byte(out, '[');
        else
            bl_buffer_printf(out, "<%d%s>", (int)key.type, key.type == KEY_PASTE ? ":" : "");
        bl_buffer_append(out, key.text);
        if (key.type == KEY_TEXT)
            bl_buffer_append_byte(out, ']');
    }
}

static bool one_key(struct bl_text bytes, enum key_type type, struct bl_text text)
{
    struct keys keys;
    struct key key, other;

    keys_init(&keys);
    keys_add(&keys, bytes);
    bool fits = keys_next(&keys, true, &key) && key.type == type && bl_text_equal(key.text, text);
    fits = fits && !keys_next(&keys, true, &other) && !keys_pending(&keys);
    keys_done(&keys);
    return fits;
}

struct known {
    struct bl_text bytes;
    enum key_type type;
};
#define KNOWN(bytes, type)                                                                         \
    {                                                                                              \
        {bytes, sizeof(bytes) - 1}, type                                                           \
    }

static void check_known(const struct known *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        suite_fail_if(
            !one_key(rows[i].bytes, rows[i].type, BL_TEXT("")),
            "row %zu: ESC" BL_TEXT_FORMAT " is not key %d", i,
            BL_TEXT_ARG(((struct bl_text){rows[i].bytes.data + 1, rows[i].bytes.size - 1})),
            (int)rows[i].type);
    }
}

static void control_characters_are_keys(void **state)
{
    static const struct known rows[] = {
        KNOWN("\x01", KEY_HOME),      KNOWN("\x02", KEY_LEFT),       KNOWN("\x03", KEY_INTERRUPT),
        KNOWN("\x04", KEY_EOF),       KNOWN("\x05", KEY_END),        KNOWN("\x06", KEY_RIGHT),
        KNOWN("\x08", KEY_BACKSPACE), KNOWN("\x09", KEY_TAB),        KNOWN("\x0A", KEY_NEWLINE),
        KNOWN("\x0B", KEY_KILL_END),  KNOWN("\x0C", KEY_CLEAR),      KNOWN("\x0D", KEY_ENTER),
        KNOWN("\x0E", KEY_DOWN),      KNOWN("\x10", KEY_UP),         KNOWN("\x12", KEY_SEARCH),
        KNOWN("\x14", KEY_TRANSPOSE), KNOWN("\x15", KEY_KILL_START), KNOWN("\x17", KEY_KILL_WORD),
        KNOWN("\x19", KEY_YANK),      KNOWN("\x1A", KEY_SUSPEND),    KNOWN("\x7F", KEY_BACKSPACE),
        KNOWN("\0", KEY_UNKNOWN),     KNOWN("\x1C", KEY_UNKNOWN),
    };

    (void)state;
    check_known(rows, BL_COUNT(rows));
}

static void keys_of_many_terminals_are_known(void **state)
{
    static const struct known rows[] = {
        /* xterm, VT220, in both cursor modes */
        KNOWN("\x1B[A", KEY_UP),
        KNOWN("\x1B[B", KEY_DOWN),
        KNOWN("\x1B[C", KEY_RIGHT),
        KNOWN("\x1B[D", KEY_LEFT),
        KNOWN("\x1BOA", KEY_UP),
        KNOWN("\x1BOB", KEY_DOWN),
        KNOWN("\x1BOC", KEY_RIGHT),
        KNOWN("\x1BOD", KEY_LEFT),
        KNOWN("\x1B[H", KEY_HOME),
        KNOWN("\x1B[F", KEY_END),
        KNOWN("\x1BOH", KEY_HOME),
        KNOWN("\x1BOF", KEY_END),
        KNOWN("\x1BOM", KEY_ENTER),
        KNOWN("\x1B[Z", KEY_BACKTAB),
        KNOWN("\x1B[3~", KEY_DELETE),
        KNOWN("\x1B[5~", KEY_PAGE_UP),
        KNOWN("\x1B[6~", KEY_PAGE_DOWN),
        /* Linux console, tmux, rxvt */
        KNOWN("\x1B[1~", KEY_HOME),
        KNOWN("\x1B[4~", KEY_END),
        KNOWN("\x1B[7~", KEY_HOME),
        KNOWN("\x1B[8~", KEY_END),
        KNOWN("\x1B[[A", KEY_UNKNOWN),
        KNOWN("\x1B[7$", KEY_HOME),
        KNOWN("\x1B[8^", KEY_END),
        KNOWN("\x1B[3^", KEY_KILL_WORD_NEXT),
        KNOWN("\x1BOc", KEY_WORD_RIGHT),
        KNOWN("\x1BOd", KEY_WORD_LEFT),
        KNOWN("\x1B[c", KEY_RIGHT),
        KNOWN("\x1B\x1B[D", KEY_WORD_LEFT),
        KNOWN("\x1B\x1BOC", KEY_WORD_RIGHT),
        KNOWN("\x1B\x1B[A", KEY_UP),
        /* with modifiers */
        KNOWN("\x1B[1;5C", KEY_WORD_RIGHT),
        KNOWN("\x1B[1;5D", KEY_WORD_LEFT),
        KNOWN("\x1B[1;3C", KEY_WORD_RIGHT),
        KNOWN("\x1B[1;2C", KEY_RIGHT),
        KNOWN("\x1B[5C", KEY_WORD_RIGHT),
        KNOWN("\x1BO5D", KEY_WORD_LEFT),
        KNOWN("\x1B[1;5A", KEY_UP),
        KNOWN("\x1B[1;2H", KEY_HOME),
        KNOWN("\x1B[1;5F", KEY_END),
        KNOWN("\x1B[3;5~", KEY_KILL_WORD_NEXT),
        KNOWN("\x1B[5;2~", KEY_PAGE_UP),
        /* Alt */
        KNOWN("\x1B"
              "b",
              KEY_WORD_LEFT),
        KNOWN("\x1B"
              "f",
              KEY_WORD_RIGHT),
        KNOWN("\x1B"
              "d",
              KEY_KILL_WORD_NEXT),
        KNOWN("\x1B\x7F", KEY_KILL_WORD),
        KNOWN("\x1B\x08", KEY_KILL_WORD),
        KNOWN("\x1B\r", KEY_NEWLINE),
        KNOWN("\x1B\n", KEY_NEWLINE),
        KNOWN("\x1Bz", KEY_UNKNOWN),
        KNOWN("\x1B\xC3\xA9", KEY_UNKNOWN),
    };

    (void)state;
    check_known(rows, BL_COUNT(rows));
}

static void enter_with_a_modifier_is_a_new_line(void **state)
{
    static const struct known rows[] = {
        KNOWN("\x1B[13u", KEY_ENTER),        KNOWN("\x1B[13;2u", KEY_NEWLINE),
        KNOWN("\x1B[13;5u", KEY_NEWLINE),    KNOWN("\x1B[13;3u", KEY_NEWLINE),
        KNOWN("\x1B[27;2;13~", KEY_NEWLINE), KNOWN("\x1B[27;5;13~", KEY_NEWLINE),
        KNOWN("\x1B[57414;2u", KEY_NEWLINE), KNOWN("\x1B[13;129u", KEY_ENTER), /* Num Lock */
        KNOWN("\x1B[13;2:3u", KEY_UNKNOWN),                                    /* release */
    };

    (void)state;
    check_known(rows, BL_COUNT(rows));
}

static void characters_sent_as_sequences_are_keys(void **state)
{
    static const struct known rows[] = {
        KNOWN("\x1B[99;5u", KEY_INTERRUPT),  KNOWN("\x1B[27;5;99~", KEY_INTERRUPT),
        KNOWN("\x1B[99;6u", KEY_UNKNOWN), /* the terminal's own key to copy */
        KNOWN("\x1B[27u", KEY_ESCAPE),       KNOWN("\x1B[9u", KEY_TAB),
        KNOWN("\x1B[9;2u", KEY_BACKTAB),     KNOWN("\x1B[127u", KEY_BACKSPACE),
        KNOWN("\x1B[127;5u", KEY_KILL_WORD), KNOWN("\x1B[98;3u", KEY_WORD_LEFT),
        KNOWN("\x1B[97;9u", KEY_UNKNOWN),    KNOWN("\x1B[57358u", KEY_UNKNOWN),
        KNOWN("\x1B[1114112u", KEY_UNKNOWN), KNOWN("\x1B[55296u", KEY_UNKNOWN),
        KNOWN("\x1B[97:3;2u", KEY_UNKNOWN),  KNOWN("\x1B[99999999999999u", KEY_UNKNOWN),
    };

    (void)state;
    check_known(rows, BL_COUNT(rows));
    assert_true(one_key(BL_TEXT("\x1B[97u"), KEY_TEXT, BL_TEXT("a")));
    assert_true(one_key(BL_TEXT("\x1B[97;2u"), KEY_TEXT, BL_TEXT("A")));
    assert_true(one_key(BL_TEXT("\x1B[49:33;2u"), KEY_TEXT, BL_TEXT("!")));
    assert_true(one_key(BL_TEXT("\x1B[233u"), KEY_TEXT, BL_TEXT("\u00E9")));
}

static void unknown_sequences_never_become_text(void **state)
{
    static const struct known rows[] = {
        KNOWN("\x1B[24;80R", KEY_UNKNOWN),    /* cursor position */
        KNOWN("\x1B[?2026;2$y", KEY_UNKNOWN), /* a mode */
        KNOWN("\x1B[I", KEY_UNKNOWN),         /* focus */
        KNOWN("\x1B[<0;10;20M", KEY_UNKNOWN), /* mouse */
        KNOWN("\x1B[15~", KEY_UNKNOWN),       /* F5 */
        KNOWN("\x1BOP", KEY_UNKNOWN),         /* F1 */
        KNOWN("\x1B[1;2P", KEY_UNKNOWN),
        KNOWN("\x1B[201~", KEY_UNKNOWN), /* the end of a paste that never began */
        KNOWN("\x1B[;;;;;;;;1;2;3X", KEY_UNKNOWN),
        KNOWN("\x1B]10;rgb:0000/0000/0000\x07", KEY_UNKNOWN),
        KNOWN("\x1BP>|xterm(380)\x1B\\", KEY_UNKNOWN),
        KNOWN("\x1B_Gi=1;OK\x1B\\", KEY_UNKNOWN),
        KNOWN("\xC2\x9B", KEY_UNKNOWN), /* an 8-bit control character */
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        if (!one_key(rows[i].bytes, KEY_UNKNOWN, BL_TEXT("")))
            fail_msg("row %zu", i);
    }
    assert_true(one_key(BL_TEXT("\x1B[M ab"), KEY_UNKNOWN, BL_TEXT("")));
}

static void check_keys(struct bl_text bytes, bool may_wait, const char *expected)
{
    struct keys keys;
    struct bl_buffer out;

    keys_init(&keys);
    bl_buffer_init(&out, SIZE_MAX / 2);
    keys_add(&keys, bytes);
    describe(&keys, true, &out);
    if (!may_wait)
        describe(&keys, false, &out);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, expected);
    bl_buffer_done(&out);
    keys_done(&keys);
}

static struct key next_key(struct keys *keys, const char *bytes, bool may_wait)
{
    struct key key = {.type = KEY_UNKNOWN};

    keys_add(keys, bl_text_from(bytes));
    while (keys_next(keys, may_wait, &key) && key.type == KEY_UNKNOWN)
        continue;
    return key;
}

static void terminal_reply_is_one_key_however_it_arrives(void **state)
{
    struct keys keys;

    (void)state;
    keys_init(&keys);
    struct key key = next_key(&keys, "\x1b]11;rgb:1/2/3\a", true);
    assert_int_equal(key.type, KEY_REPLY);
    assert_true(bl_text_is(key.text, "11;rgb:1/2/3"));
    key = next_key(&keys, "\x1b[?62;22c", true);
    assert_int_equal(key.type, KEY_REPLY);
    assert_int_equal(key.text.size, 0);
    /* Other replies are unrequested. */
    assert_int_equal(next_key(&keys, "\x1b]52;c;aGVsbG8=\x1b\\", true).type, KEY_UNKNOWN);
    assert_int_equal(next_key(&keys, "\x1bP11;rgb:1/2/3\x1b\\", true).type, KEY_UNKNOWN);
    /* While a reply is due, a pause does not end it. */
    keys.expecting = true;
    static const char *const pieces[] = {"\x1b", "]", "11;r", "gb:f/f/f", "\x1b"};
    for (size_t i = 0; i < BL_COUNT(pieces); i++)
        assert_int_equal(next_key(&keys, pieces[i], false).type, KEY_UNKNOWN);
    key = next_key(&keys, "\\", false);
    assert_int_equal(key.type, KEY_REPLY);
    assert_true(bl_text_is(key.text, "11;rgb:f/f/f"));
    keys.expecting = false;
    assert_int_equal(next_key(&keys, "\x1b", false).type, KEY_ESCAPE);
    keys_done(&keys);
}

static void a_long_sequence_is_skipped_to_its_end(void **state)
{
    struct bl_buffer bytes;
    char expected[32];

    (void)state;
    bl_buffer_init(&bytes, SIZE_MAX / 2);
    bl_buffer_append(&bytes, BL_TEXT("\x1B["));
    for (int i = 0; i < 1000; i++)
        bl_buffer_append(&bytes, BL_TEXT("12;"));
    bl_buffer_append(&bytes, BL_TEXT("mabc"));
    snprintf(expected, sizeof expected, "<%d>[abc]", KEY_UNKNOWN);
    check_keys(bl_buffer_text(&bytes), true, expected);
    bl_buffer_done(&bytes);
}

static void escape_is_a_key_when_nothing_follows_in_time(void **state)
{
    char expected[64];
    struct keys keys;
    struct key key;

    (void)state;
    keys_init(&keys);
    keys_add(&keys, BL_TEXT("\x1B"));
    assert_false(keys_next(&keys, true, &key));
    assert_true(keys_pending(&keys));
    assert_true(keys_next(&keys, false, &key));
    assert_int_equal(key.type, KEY_ESCAPE);
    assert_false(keys_pending(&keys));
    keys_done(&keys);
    snprintf(expected, sizeof expected, "<%d><%d>", KEY_ESCAPE, KEY_ESCAPE);
    check_keys(BL_TEXT("\x1B\x1B"), false, expected);
    snprintf(expected, sizeof expected, "<%d>", KEY_UNKNOWN);
    check_keys(BL_TEXT("\x1B["), false, expected);
    check_keys(BL_TEXT("\x1B]"), false, expected);
    snprintf(expected, sizeof expected, "<%d>[b]", KEY_UNKNOWN);
    check_keys(BL_TEXT("\x1B]0;x\x07"
                       "b"),
               true, expected);
}

static void ctrl_c_is_never_swallowed(void **state)
{
    static const char *const before[] = {"\x1B",      "\x1B[",   "\x1B[1;", "\x1BO",
                                         "\x1B]0;x",  "\x1B[M!", "\x1BP",   "\xE2\x82",
                                         "\x1B\x1B[", "\x1B[[",  "\x1B\xC3"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(before); i++) {
        struct keys keys;
        struct key key = {0};
        bool came = false;
        keys_init(&keys);
        keys_add(&keys, bl_text_from(before[i]));
        keys_add(&keys, BL_TEXT("\x03"));
        while (keys_next(&keys, true, &key))
            came = came || key.type == KEY_INTERRUPT;
        suite_fail_if(!came, "row %zu", i);
        keys_done(&keys);
    }
}

static void a_slow_line_does_not_break_sequences(void **state)
{
    struct keys keys;
    struct key key;

    (void)state;
    keys_init(&keys);
    keys_add(&keys, BL_TEXT("\x1B[1"));
    assert_false(keys_next(&keys, false, &key));
    assert_false(keys_pending(&keys));
    keys_add(&keys, BL_TEXT(";5C\xC3"));
    assert_true(keys_next(&keys, false, &key));
    assert_int_equal(key.type, KEY_WORD_RIGHT);
    assert_false(keys_next(&keys, false, &key));
    keys_add(&keys, BL_TEXT("\xA9"));
    assert_true(keys_next(&keys, false, &key));
    assert_true(bl_text_equal(key.text, BL_TEXT("\u00E9")));
    keys_done(&keys);
}

static void invalid_utf8_becomes_replacement_characters(void **state)
{
    (void)state;
    check_keys(BL_TEXT("a\xFF\x62\xE2\x82z\xC0\x80"), true,
               "[a\uFFFD"
               "b\uFFFD\uFFFDz\uFFFD\uFFFD]");
}

static void check_paste(struct bl_text bytes, struct bl_text expected)
{
    assert_true(one_key(bytes, KEY_PASTE, expected));
}

static void a_paste_is_one_key_with_all_of_its_text(void **state)
{
    (void)state;
    check_paste(BL_TEXT("\x1B[200~one\rtwo\r\nthree\n\tfour\x1B[201~"),
                BL_TEXT("one\ntwo\nthree\n\tfour"));
    check_paste(BL_TEXT("\x1B[200~\x1B[201~"), BL_TEXT(""));
    check_paste(BL_TEXT("\x1B[200~\r\r\n\n\x1B[201~"), BL_TEXT("\n\n\n"));
    /* Bytes that resemble the end mark, or keys. */
    check_paste(BL_TEXT("\x1B[200~\x1B[201x\x1B[20\x1B\x1B[A\x03\x04\x1B[200~\x1B[201~"),
                BL_TEXT("\x1B[201x\x1B[20\x1B\x1B[A\x03\x04\x1B[200~"));
    check_paste(BL_TEXT("\x1B[200~\xFF\xE2\x82\x1B[201~"), BL_TEXT("\uFFFD\uFFFD\uFFFD"));
}

static void a_paste_without_brackets_is_text(void **state)
{
    char expected[64];

    (void)state;
    snprintf(expected, sizeof expected, "[int main(void)]<%d>[{}]", KEY_ENTER);
    check_keys(BL_TEXT("int main(void)\r{}"), true, expected);
}

static void a_paste_above_the_maximum_is_cut_and_consumed(void **state)
{
    struct keys keys;
    struct key key;
    char *block = bl_alloc(65536);

    (void)state;
    for (size_t i = 0; i < 65536; i += 2)
        memcpy(block + i, "\xC3\xA9", 2);
    keys_init(&keys);
    keys_add(&keys, BL_TEXT("\x1B[200~x"));
    for (size_t i = 0; i < KEYS_PASTE_MAX / 65536 + 3; i++) {
        keys_add(&keys, (struct bl_text){block, 65536});
        assert_false(keys_next(&keys, true, &key));
        assert_true(keys.input.size - keys.taken < 8);
    }
    keys_add(&keys, BL_TEXT("\x1B[201~!"));
    assert_true(keys_next(&keys, true, &key));
    assert_int_equal(key.type, KEY_PASTE);
    assert_true(key.cut);
    assert_int_equal(key.text.size, KEYS_PASTE_MAX - 1);
    assert_true(bl_utf8_valid(key.text));
    assert_true(keys_next(&keys, true, &key));
    assert_int_equal(key.type, KEY_TEXT);
    assert_true(keys.paste.capacity < KEYS_PASTE_MAX / 4);
    keys_done(&keys);
    bl_free(block);
}

/* Bytes that are likely to form sequences. */
static size_t random_bytes(struct bl_random *random, char *out, size_t size)
{
    static const char *const pieces[] = {
        "\x1B",     "\x1B[",      "[",      "A",    "\x1B[200~", "\x1B[201~",   "\x1B[20", "1~",
        "\x1B[1;5", "C",          "\x1BO",  "M",    "\xC3\xA9",  "\xE6\xBC",    "\xA2",    "\r\n",
        "\r",       "\x1B]0;t",   "\x07",   "\\",   "\x1BP",     "\x03",        "text",    "\xFF",
        "$",        "\x1B[13;2u", "\x1B[[", "\x7F", "\xC2\x9B",  "0123456789;", "\x1B[M"};
    size_t at = 0;

    while (at + 16 < size && bl_random_below(random, 24) != 0) {
        const char *piece = pieces[bl_random_below(random, BL_COUNT(pieces))];
        memcpy(out + at, piece, strlen(piece));
        at += strlen(piece);
    }
    return at;
}

static void any_split_of_the_stream_gives_the_same_keys(void **state)
{
    struct bl_random random;
    char bytes[400];

    (void)state;
    bl_random_seed(&random, 4711);
    for (unsigned long round = suite_rounds(4000, 400000); round > 0; round--) {
        size_t size = random_bytes(&random, bytes, sizeof bytes);
        struct bl_buffer whole, pieces;
        struct keys keys;
        bl_buffer_init(&whole, SIZE_MAX / 2);
        bl_buffer_init(&pieces, SIZE_MAX / 2);
        keys_init(&keys);
        keys_add(&keys, (struct bl_text){bytes, size});
        describe(&keys, true, &whole);
        keys_done(&keys);
        keys_init(&keys);
        for (size_t at = 0; at < size;) {
            size_t count = bl_random_below(&random, 4) + 1;
            count = count > size - at ? size - at : count;
            keys_add(&keys, (struct bl_text){bytes + at, count});
            describe(&keys, true, &pieces);
            at += count;
        }
        keys_done(&keys);
        assert_true(bl_text_equal(bl_buffer_text(&whole), bl_buffer_text(&pieces)));
        bl_buffer_done(&whole);
        bl_buffer_done(&pieces);
    }
}

SUITE(keys, cmocka_unit_test(control_characters_are_keys),
      cmocka_unit_test(keys_of_many_terminals_are_known),
      cmocka_unit_test(enter_with_a_modifier_is_a_new_line),
      cmocka_unit_test(characters_sent_as_sequences_are_keys),
      cmocka_unit_test(unknown_sequences_never_become_text),
      cmocka_unit_test(terminal_reply_is_one_key_however_it_arrives),
      cmocka_unit_test(a_long_sequence_is_skipped_to_its_end),
      cmocka_unit_test(escape_is_a_key_when_nothing_follows_in_time),
      cmocka_unit_test(ctrl_c_is_never_swallowed),
      cmocka_unit_test(a_slow_line_does_not_break_sequences),
      cmocka_unit_test(invalid_utf8_becomes_replacement_characters),
      cmocka_unit_test(a_paste_is_one_key_with_all_of_its_text),
      cmocka_unit_test(a_paste_without_brackets_is_text),
      cmocka_unit_test(a_paste_above_the_maximum_is_cut_and_consumed),
      cmocka_unit_test(any_split_of_the_stream_gives_the_same_keys));
