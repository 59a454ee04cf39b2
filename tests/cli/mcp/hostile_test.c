/* Lines of all kinds to the programs that speak JSON-RPC on standard streams: they answer with an
 * error or not at all, and never exit. */
#include "client.h"

#include <unistd.h>

#define LONG_SIZE ((size_t)17 << 20)
#define DEEP      200u

static struct desk desk;

static int end_desk(void **state)
{
    desk_close(&desk);
    return stage_end(state);
}

/* The programs, the start of a conversation with each, and its valid messages. */
static const struct program {
    const char *command;
    const char *opening;
    const char *lines[8];
} programs[] = {
    {"mcp",
     "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
     "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}",
     {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{}}",
      "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"run\","
      "\"arguments\":{\"prompt\":\"hello\",\"timeout\":5,\"max_turns\":1},\"_meta\":{"
      "\"progressToken\":1}}}",
      "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}",
      "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"tools/call\",\"params\":{\"name\":\"cancel\","
      "\"arguments\":{\"id\":\"run_a\"},\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
      "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
      "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tasks/get\",\"params\":{\"taskId\":\"run_a\","
      "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
      "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{"
      "\"io.modelcontextprotocol/tasks\":{}}}}}}",
      "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}"}},
    {"acp",
     "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,"
     "\"clientCapabilities\":{}}}",
     {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/new\",\"params\":{\"cwd\":\"/tmp\","
      "\"mcpServers\":[]}}",
      "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"s\","
      "\"prompt\":[{\"type\":\"text\",\"text\":\"hello\"}]}}",
      "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"s\"}}",
      "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":2}}",
      "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"session/list\",\"params\":{\"cursor\":\"c\"}}",
      "{\"jsonrpc\":\"2.0\",\"id\":\"p1\",\"result\":{\"outcome\":{\"outcome\":\"selected\","
      "\"optionId\":\"allow_once\"}}}"}},
};

static void open_program(const struct program *program)
{
    desk_open(&desk, program->command,
              (const char *const[]){"--provider",
                                    stage_script("replies: [{say: hello}]\nrepeat: true\n"), NULL});
    desk_say(&desk, program->opening);
    desk_await(&desk, "\"id\":0,\"result\"");
}

/* Checks that the program still answers correctly. */
static void check_alive(void)
{
    static unsigned count;
    const char *id = stage_printf("alive-%u", count++);

    desk_say(&desk, stage_printf("{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"no/such\"}", id));
    assert_non_null(strstr(desk_await(&desk, stage_printf("\"id\":\"%s\"", id)), "-32601"));
}

/* Checks that the program ends with its own exit code. */
static void close_program(void)
{
    close(desk.in);
    desk.in = -1;
    while (desk_line(&desk, 30000) != NULL)
        continue;
    held_wait(&desk.held);
    if (desk.held.exit_code != 0 && desk.held.exit_code != 130)
        fail_msg("exit %d: %s", desk.held.exit_code, held_err(&desk.held));
    assert_int_equal(held_count(&desk.held), 0);
    desk_close(&desk);
}

/* ---- The answer to each kind of line --------------------------------------------------------- */

static char *make_line(char fill, size_t size, const char *head, const char *tail)
{
    char *line = bl_alloc(size + strlen(head) + strlen(tail) + 1);

    memcpy(line, head, strlen(head));
    memset(line + strlen(head), fill, size);
    memcpy(line + strlen(head) + size, tail, strlen(tail) + 1);
    return line;
}

static void check_parse_error(const char *line)
{
    desk_say(&desk, line);
    const char *answer = desk_await(&desk, "\"error\"");
    assert_non_null(strstr(answer, "-32700"));
    assert_non_null(strstr(answer, "\"id\":null"));
}

static void check_kinds(void)
{
    char *line = make_line('x', LONG_SIZE, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"", "\"}");
    check_parse_error(line);
    bl_free(line);
    line = make_line('[', DEEP, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"a\",\"params\":", "");
    check_parse_error(line);
    bl_free(line);
    check_parse_error("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"\xff\xfe\"}");
    check_parse_error("{\"jsonrpc\":\"2.0\",\"id\":5,");
    check_parse_error("hello");
    desk_say(&desk, "[{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}]");
    assert_non_null(strstr(desk_await(&desk, "\"error\""), "-32600"));
    /* Ignored; the next line is answered. */
    desk_say(&desk, "{\"jsonrpc\":\"2.0\",\"method\":\"no/such\",\"params\":{\"a\":1}}");
    desk_say(&desk, "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}");
    /* A CR before the end is dropped, and U+2028 is data. */
    desk_say(&desk, "{\"jsonrpc\":\"2.0\",\"id\":\"a\xe2\x80\xa8z\",\"method\":\"no/such\"}\r");
    const char *answer = desk_line(&desk, 30000);
    assert_non_null(answer);
    assert_non_null(strstr(answer, "-32601"));
    assert_true(strstr(answer, "a\xe2\x80\xa8z") != NULL || strstr(answer, "\\u2028") != NULL);
    check_alive();
}

static void A30_bad_lines_get_an_error_or_silence(void **state)
{
    (void)state;
    for (size_t i = 0; i < BL_COUNT(programs); i++) {
        open_program(&programs[i]);
        check_kinds();
        close_program();
    }
}

/* ---- Random lines ---------------------------------------------------------------------------- */

static size_t spoil(struct bl_random *random, char *bytes, size_t size)
{
    unsigned changes = (unsigned)bl_random_below(random, 6);

    for (unsigned i = 0; i < changes && size > 2; i++) {
        size_t at = bl_random_below(random, size);
        size_t length = 1 + bl_random_below(random, size - at);
        switch (bl_random_below(random, 5)) {
        case 0: bytes[at] = (char)bl_random_next(random); break;
        case 1: bytes[at] = "{}[]\",:0\\-"[bl_random_below(random, 10)]; break;
        case 2:
            memmove(bytes + at, bytes + at + 1, size - at - 1);
            size--;
            break;
        case 3:
            if (size + length < 4096) {
                memmove(bytes + at + length, bytes + at, size - at);
                size += length;
            }
            break;
        default: size = at + 1; break;
        }
    }
    return size;
}

static void say_spoiled(struct bl_random *random, const struct program *program)
{
    char bytes[4098];
    size_t count = 0;

    while (program->lines[count] != NULL)
        count++;
    const char *line = program->lines[bl_random_below(random, count)];
    size_t size = strlen(line);
    memcpy(bytes, line, size);
    size = spoil(random, bytes, size);
    bytes[size++] = '\n';
    desk_say_bytes(&desk, (struct bl_text){bytes, size});
}

static void A30_random_lines_never_end_the_program(void **state)
{
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 300 : 600, 2000000);
    struct bl_random random;

    (void)state;
    bl_random_seed(&random, 30);
    for (size_t i = 0; i < BL_COUNT(programs); i++) {
        open_program(&programs[i]);
        for (unsigned long round = 0; round < rounds; round++) {
            say_spoiled(&random, &programs[i]);
            if (round % 20 == 19)
                check_alive();
        }
        check_alive();
        close_program();
    }
}

#define AT_DESK(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_desk)
SUITE(hostile, AT_DESK(A30_bad_lines_get_an_error_or_silence),
      AT_DESK(A30_random_lines_never_end_the_program));
