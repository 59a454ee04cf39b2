#include <stdio.h>

#include "suite.h"
#include "wire/rpc/rpc.h"

/* ---- Reading --------------------------------------------------------------------------------- */

static const struct {
    const char *line;
    int code;         /* 0: a valid message */
    const char *id;   /* of the answer or the message, as JSON; NULL: none */
    const char *says; /* start of the fault's message, or the method of the message */
} lines[] = {
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", 0, "1", "ping"},
    {" \t{\"method\":\"ping\",\"id\":\"a\",\"jsonrpc\":\"2.0\",\"params\":{},\"more\":1} ", 0,
     "\"a\"", "ping"},
    {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\",\"params\":[1]}", 0, "null", "ping"},
    {"{\"jsonrpc\":\"2.0\",\"id\":18446744073709551615,\"method\":\"\"}", 0, "18446744073709551615",
     ""},
    {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\",\"params\":null}", 0, "1.5", "ping"},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}", 0, NULL, "ping"},
    /* Half of a surrogate pair does not make the request invalid. */
    {"{\"jsonrpc\":\"2.0\",\"id\":\"\\ud83d\",\"method\":\"ping\"}", 0, "\"\xEF\xBF\xBD\"", "ping"},
    /* U+2028 is data. */
    {"{\"jsonrpc\":\"2.0\",\"id\":\"\xE2\x80\xA8\",\"method\":\"ping\"}", 0, "\"\xE2\x80\xA8\"",
     "ping"},
    {"{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":null}", 0, "4", ""},
    {"{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":{\"code\":-1,\"message\":\"no\"}}", 0, "4", ""},
    {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"no\"}}", 0, "null", ""},
    {"{\"id\":4,\"result\":7,\"error\":null}", 0, "4", ""},
    /* Not JSON. */
    {"{", BL_RPC_PARSE, NULL, "offset 1"},
    {"hello", BL_RPC_PARSE, NULL, "offset 0"},
    {"{} {}", BL_RPC_PARSE, NULL, "offset 3"},
    {"\xFF\xFE", BL_RPC_PARSE, NULL, "offset 0"},
    {"{\"jsonrpc\":\"2.0\",\"id\":\"\xC3\",\"method\":\"ping\"}", BL_RPC_PARSE, NULL, "offset"},
    /* Of another shape. */
    {"[]", BL_RPC_INVALID_REQUEST, NULL, "a message must be one JSON object (batches"},
    {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", BL_RPC_INVALID_REQUEST, NULL,
     "a message must be one JSON object (batches"},
    {"12", BL_RPC_INVALID_REQUEST, NULL, "a message must be one JSON object"},
    {"null", BL_RPC_INVALID_REQUEST, NULL, "a message must be one JSON object"},
    {"{}", BL_RPC_INVALID_REQUEST, NULL, "\"jsonrpc\" must be \"2.0\""},
    {"{\"id\":7,\"method\":\"ping\"}", BL_RPC_INVALID_REQUEST, "7", "\"jsonrpc\" must be"},
    {"{\"jsonrpc\":2.0,\"id\":7,\"method\":\"ping\"}", BL_RPC_INVALID_REQUEST, "7", "\"jsonrpc\""},
    {"{\"jsonrpc\":\"2.0\",\"id\":7}", BL_RPC_INVALID_REQUEST, "7", "\"method\" must be a string"},
    {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":3}", BL_RPC_INVALID_REQUEST, "7", "\"method\" must"},
    {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", BL_RPC_INVALID_REQUEST, NULL,
     "\"id\" must be a string, a number or null"},
    {"{\"jsonrpc\":\"2.0\",\"id\":true,\"result\":1}", BL_RPC_INVALID_REQUEST, NULL, "\"id\" must"},
    {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":3}", BL_RPC_INVALID_REQUEST, "7",
     "\"params\" must be an object or an array"},
    {"{\"jsonrpc\":\"2.0\",\"result\":1}", BL_RPC_INVALID_REQUEST, NULL, "a response must have"},
    {"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":null}", BL_RPC_INVALID_REQUEST, NULL,
     "a response must have"},
};

static bool id_is(const struct bl_json *id, const char *expected)
{
    struct bl_arena arena = {0};
    const struct bl_json *value = NULL;
    bool same = id == NULL && expected == NULL;
    if (id != NULL && expected != NULL &&
        bl_json_read(&arena, bl_text_from(expected), NULL, &value, NULL) == 0)
        same = bl_rpc_id_equal(id, value);
    bl_arena_done(&arena);
    return same;
}

static void each_line_is_a_message_or_has_a_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < BL_COUNT(lines); i++) {
        struct bl_arena arena = {0};
        struct bl_rpc_message message = {0};
        struct bl_rpc_fault fault;
        struct bl_text says = bl_text_from(lines[i].says);
        int code = bl_rpc_message_read(&arena, bl_text_from(lines[i].line), &message, &fault);
        bool right =
            lines[i].code == 0
                ? code == 0 && id_is(message.id, lines[i].id) && bl_text_equal(message.method, says)
                : code == BL_EPARSE && fault.code == lines[i].code &&
                      id_is(fault.id, lines[i].id) &&
                      bl_text_starts_with(bl_text_from(fault.message), says);
        if (!right)
            print_error("%s: %d, %s\n", lines[i].line, code, fault.message);
        assert_true(right);
        bl_arena_done(&arena);
    }
}

static void what_a_message_holds_is_found_by_its_type(void **state)
{
    struct bl_arena arena = {0};
    struct bl_rpc_message message;
    struct bl_rpc_fault fault;
    int64_t number = 0;
    (void)state;
    assert_int_equal(bl_rpc_message_read(&arena,
                                         BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{"
                                                 "\"code\":-5,\"message\":\"m\",\"data\":[7]}}"),
                                         &message, &fault),
                     0);
    assert_int_equal(message.type, BL_RPC_ERROR);
    assert_int_equal(message.code, -5);
    assert_true(bl_text_equal(message.message, BL_TEXT("m")));
    assert_true(bl_json_int64(bl_json_at(message.data, 0), &number) && number == 7);
    /* A malformed error still ends the wait of its request. */
    assert_int_equal(
        bl_rpc_message_read(&arena, BL_TEXT("{\"id\":1,\"error\":\"odd\"}"), &message, &fault), 0);
    assert_int_equal(message.type, BL_RPC_ERROR);
    assert_int_equal(message.code, BL_RPC_INTERNAL);
    assert_true(bl_text_equal(message.message, BL_TEXT("odd")));
    assert_int_equal(
        bl_rpc_message_read(&arena, BL_TEXT("{\"id\":1,\"result\":{\"a\":3}}"), &message, &fault),
        0);
    assert_int_equal(message.type, BL_RPC_RESULT);
    assert_true(bl_json_int64(bl_json_get(message.result, BL_TEXT("a")), &number) && number == 3);
    bl_arena_done(&arena);
}

static void a_message_has_at_most_128_levels(void **state)
{
    (void)state;
    for (unsigned depth = 126; depth <= 200; depth += depth < 130 ? 1 : 70) {
        struct bl_arena arena = {0};
        struct bl_buffer line;
        struct bl_rpc_message message;
        struct bl_rpc_fault fault;
        bl_buffer_init(&line, 4096);
        bl_buffer_append(&line,
                         BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":"));
        for (unsigned i = 0; i < depth; i++)
            bl_buffer_append_byte(&line, '[');
        for (unsigned i = 0; i < depth; i++)
            bl_buffer_append_byte(&line, ']');
        bl_buffer_append_byte(&line, '}');
        int code = bl_rpc_message_read(&arena, bl_buffer_text(&line), &message, &fault);
        assert_int_equal(code, depth + 1 <= BL_RPC_DEPTH_MAX ? 0 : BL_EPARSE);
        assert_true(code == 0 || fault.code == BL_RPC_PARSE);
        bl_buffer_done(&line);
        bl_arena_done(&arena);
    }
}

static void ids_are_the_same_by_type_and_value(void **state)
{
    static const char *const ids[] = {
        "1", "2", "\"1\"", "\"a\"", "null", "1.5", "18446744073709551615"};
    struct bl_arena arena = {0};
    const struct bl_json *a, *b;
    (void)state;
    for (size_t i = 0; i < BL_COUNT(ids); i++) {
        for (size_t j = 0; j < BL_COUNT(ids); j++) {
            assert_int_equal(bl_json_read(&arena, bl_text_from(ids[i]), NULL, &a, NULL), 0);
            assert_int_equal(bl_json_read(&arena, bl_text_from(ids[j]), NULL, &b, NULL), 0);
            assert_int_equal(bl_rpc_id_equal(a, b), i == j);
        }
    }
    assert_int_equal(bl_json_read(&arena, BL_TEXT("null"), NULL, &a, NULL), 0);
    assert_true(bl_rpc_id_equal(a, NULL));
    bl_arena_done(&arena);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void messages_are_written_on_one_line(void **state)
{
    const struct bl_json id = {.type = BL_JSON_INTEGER, .integer = 5};
    struct bl_buffer out;
    (void)state;
    bl_buffer_init(&out, 4096);
    bl_rpc_write_request(&out, &id, "m/\"x", BL_TEXT("{\n \"a\":\r\n1}"));
    bl_buffer_append_byte(&out, '|');
    bl_rpc_write_notification(&out, "n", (struct bl_text){0});
    bl_buffer_append_byte(&out, '|');
    bl_rpc_write_result(&out, NULL, BL_TEXT("[]"));
    bl_buffer_append_byte(&out, '|');
    bl_rpc_write_result(&out, &id, (struct bl_text){0});
    bl_buffer_append_byte(&out, '|');
    bl_rpc_write_error(&out, &id, BL_RPC_NO_METHOD, "no\nsuch", BL_TEXT("{\"path\":\"/a\"}"));
    assert_true(bl_text_equal(
        bl_buffer_text(&out),
        BL_TEXT(
            "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"m/\\\"x\",\"params\":{  \"a\":  1}}|"
            "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}|"
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":[]}|"
            "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":null}|"
            "{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":{\"code\":-32601,\"message\":\"no\\nsuch\","
            "\"data\":{\"path\":\"/a\"}}}")));
    bl_buffer_done(&out);
    /* A message is written completely or not at all. */
    bl_buffer_init(&out, 20);
    bl_rpc_write_result(&out, &id, BL_TEXT("[]"));
    assert_int_equal(out.size, 0);
    bl_buffer_done(&out);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

struct cut {
    struct bl_buffer seen; /* each line in brackets, and "<>" for one that is too long */
    int stop_after;        /* number of lines; negative: never */
};

static int take(void *context, struct bl_text line, bool too_long)
{
    struct cut *cut = context;
    bl_buffer_append_byte(&cut->seen, too_long ? '<' : '[');
    bl_buffer_append(&cut->seen, line);
    bl_buffer_append_byte(&cut->seen, too_long ? '>' : ']');
    return --cut->stop_after == 0 ? BL_ECLOSED : 0;
}

#define MAX_HERE ((size_t)8)

static void check_cut(const char *text, const char *expected)
{
    struct bl_text all = bl_text_from(text);
    for (size_t piece = 1; piece <= all.size; piece++) {
        struct rpc_lines cutter;
        struct cut cut = {.stop_after = -1};
        bl_buffer_init(&cut.seen, 4096);
        rpc_lines_init(&cutter, MAX_HERE);
        for (size_t at = 0; at < all.size; at += piece) {
            size_t size = all.size - at < piece ? all.size - at : piece;
            assert_int_equal(
                rpc_lines_feed(&cutter, (struct bl_text){all.data + at, size}, take, &cut), 0);
            assert_true(cutter.pending.size <= MAX_HERE + 1);
        }
        assert_int_equal(rpc_lines_end(&cutter, take, &cut), 0);
        if (!bl_text_equal(bl_buffer_text(&cut.seen), bl_text_from(expected)))
            fail_msg("pieces of %zu: %.*s", piece, (int)cut.seen.size, cut.seen.data);
        rpc_lines_done(&cutter);
        bl_buffer_done(&cut.seen);
    }
}

static void lines_end_at_LF_alone_in_whatever_pieces_they_come(void **state)
{
    (void)state;
    check_cut("one\ntwo\r\n\n\r\nthr\ree\nlast", "[one][two][thr\ree][last]");
    check_cut("a\xE2\x80\xA8z\nb\xC2\x85\n", "[a\xE2\x80\xA8z][b\xC2\x85]");
    /* At the limit, one byte more, and many more. */
    check_cut("12345678\n12345678\r\nx\n", "[12345678][12345678][x]");
    check_cut("123456789\nx\n", "<>[x]");
    check_cut("123456789\r\nx\n", "<>[x]");
    check_cut("12345678901234567890123456789\nx\n12345678901234567890", "<>[x]<>");
}

static void callback_may_end_the_feed(void **state)
{
    struct rpc_lines cutter;
    struct cut cut = {.stop_after = 2};
    (void)state;
    bl_buffer_init(&cut.seen, 4096);
    rpc_lines_init(&cutter, MAX_HERE);
    assert_int_equal(rpc_lines_feed(&cutter, BL_TEXT("a\nb\nc\n"), take, &cut), BL_ECLOSED);
    assert_true(bl_text_equal(bl_buffer_text(&cut.seen), BL_TEXT("[a][b]")));
    rpc_lines_done(&cutter);
    bl_buffer_done(&cut.seen);
}

SUITE(rpc_message, cmocka_unit_test(each_line_is_a_message_or_has_a_fault),
      cmocka_unit_test(what_a_message_holds_is_found_by_its_type),
      cmocka_unit_test(a_message_has_at_most_128_levels),
      cmocka_unit_test(ids_are_the_same_by_type_and_value),
      cmocka_unit_test(messages_are_written_on_one_line),
      cmocka_unit_test(lines_end_at_LF_alone_in_whatever_pieces_they_come),
      cmocka_unit_test(callback_may_end_the_feed));
