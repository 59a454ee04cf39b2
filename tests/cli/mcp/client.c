#include "client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 30000u
#define GOT_MAX     ((size_t)64 << 20)
#define WORDS_MAX   32u

double word_now_ms(void)
{
    return (double)bl_clock_now_ns(&bl_clock_system) / 1e6;
}

/* True if there is something to read before that time. */
static bool await_bytes(int fd, double until_ms)
{
    double left = until_ms - word_now_ms();
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    return poll(&poll_fd, 1, left > 0 ? (int)left + 1 : 0) > 0;
}

/* Returns 0 at the end of the stream. */
static size_t read_into(int fd, struct bl_buffer *out)
{
    assert_int_equal(bl_buffer_reserve(out, 65536), 0);
    ssize_t size = read(fd, out->data + out->size, 65536);
    if (size <= 0)
        return 0;
    out->size += (size_t)size;
    return (size_t)size;
}

static void write_all(int fd, struct bl_text text)
{
    while (text.size > 0) {
        ssize_t size = write(fd, text.data, text.size);
        assert_true(size > 0);
        text = (struct bl_text){text.data + size, text.size - (size_t)size};
    }
}

/* ---- Servers --------------------------------------------------------------------------------- */

static void begin(struct desk *desk)
{
    *desk = (struct desk){.opened = true, .in = -1, .out = -1};
    bl_buffer_init(&desk->lines, GOT_MAX);
}

static const char **all_words(const char *command, const char *const *words)
{
    static const char *all[WORDS_MAX];
    size_t count = 0;

    all[count++] = runner_program();
    all[count++] = command;
    for (; *words != NULL; words++) {
        assert_true(count < WORDS_MAX - 1);
        all[count++] = *words;
    }
    all[count] = NULL;
    return all;
}

void desk_open(struct desk *desk, const char *command, const char *const *words)
{
    int in[2], out[2];

    begin(desk);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    held_start(&desk->held, all_words(command, words), in[0], out[1]);
    close(in[0]);
    close(out[1]);
    desk->in = in[1];
    desk->out = out[0];
}

void desk_open_http(struct desk *desk, const char *const *words)
{
    const char *file = stage_path("token");
    double until_ms = word_now_ms() + PATIENCE_MS;
    const char *at;

    begin(desk);
    const char *with_http[WORDS_MAX] = {"--http", "--token-file", file};
    for (size_t i = 0; words[i] != NULL; i++) {
        assert_true(i < WORDS_MAX - 4);
        with_http[i + 3] = words[i];
    }
    held_start(&desk->held, all_words("mcp", with_http), HELD_NULL, RUN_KEEP);
    while ((at = strstr(held_err(&desk->held), "http://127.0.0.1:")) == NULL ||
           strstr(at, "/mcp") == NULL) {
        if (word_now_ms() > until_ms)
            fail_msg("it does not listen: %s", held_err(&desk->held));
        poll(NULL, 0, 2);
    }
    desk->port = (unsigned)strtoul(at + strlen("http://127.0.0.1:"), NULL, 10);
    struct bl_text token = suite_read_file(file);
    desk->token = stage_keep(bl_text_trim(token));
    bl_free((char *)(uintptr_t)token.data);
}

void desk_close(struct desk *desk)
{
    if (!desk->opened)
        return;
    desk->opened = false;
    if (desk->in >= 0)
        close(desk->in);
    if (desk->out >= 0)
        close(desk->out);
    bl_buffer_done(&desk->lines);
    held_end(&desk->held);
}

/* ---- Standard streams ------------------------------------------------------------------------ */

void desk_say_bytes(struct desk *desk, struct bl_text bytes)
{
    write_all(desk->in, bytes);
}

void desk_say(struct desk *desk, const char *line)
{
    write_all(desk->in, bl_text_from(line));
    write_all(desk->in, BL_TEXT("\n"));
}

/* Takes the next line; keeps it if it contains the text. */
static bool take_line(struct desk *desk, unsigned limit_ms, const char *text, const char **ret_line)
{
    double until_ms = word_now_ms() + limit_ms;
    char *end;

    while (desk->lines.size == 0 ||
           (end = memchr(desk->lines.data, '\n', desk->lines.size)) == NULL) {
        if (!await_bytes(desk->out, until_ms) || read_into(desk->out, &desk->lines) == 0)
            return false;
    }
    struct bl_text line = {desk->lines.data, (size_t)(end - desk->lines.data)};
    *ret_line = bl_text_find(line, bl_text_from(text)) >= 0 ? stage_keep(line) : NULL;
    bl_buffer_consume(&desk->lines, line.size + 1);
    return true;
}

const char *desk_line(struct desk *desk, unsigned limit_ms)
{
    const char *line;

    return take_line(desk, limit_ms, "", &line) ? line : NULL;
}

const char *desk_await(struct desk *desk, const char *text)
{
    const char *line;

    while (take_line(desk, PATIENCE_MS, text, &line)) {
        if (line != NULL)
            return line;
    }
    fail_msg("no line with %s; '%s'", text, held_err(&desk->held));
    return NULL;
}

#define INITIALIZE                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"     \
    "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define INITIALIZED "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"

void desk_greet(struct desk *desk)
{
    desk_say(desk, INITIALIZE);
    desk_await(desk, "\"protocolVersion\":\"2025-11-25\"");
    desk_say(desk, INITIALIZED);
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

void line_send(struct line *line, const struct desk *desk, const char *method, const char *head,
               const char *body)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)desk->port)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bl_buffer_init(&line->got, GOT_MAX);
    line->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(line->fd >= 0);
    assert_int_equal(connect(line->fd, (struct sockaddr *)&address, sizeof address), 0);
    const char *token = strstr(head, "Authorization:") == NULL
                            ? stage_printf("Authorization: Bearer %s\r\n", desk->token)
                            : "";
    write_all(line->fd, bl_text_from(stage_printf(
                            "%s /mcp HTTP/1.1\r\n%s%s%sContent-Type: application/json\r\nAccept: "
                            "application/json, text/event-stream\r\nContent-Length: %zu\r\n\r\n%s",
                            method, strstr(head, "Host:") == NULL ? "Host: 127.0.0.1\r\n" : "",
                            token, head, strlen(body), body)));
}

const char *line_await(struct line *line, const char *text)
{
    double until_ms = word_now_ms() + PATIENCE_MS;
    ptrdiff_t at;

    while ((at = bl_text_find(bl_buffer_text(&line->got), bl_text_from(text))) < 0) {
        if (!await_bytes(line->fd, until_ms) || read_into(line->fd, &line->got) == 0)
            fail_msg("no %s in " BL_TEXT_FORMAT, text, BL_TEXT_ARG(bl_buffer_text(&line->got)));
    }
    struct bl_text rest = {line->got.data + at, line->got.size - (size_t)at};
    return stage_keep(rest);
}

int line_finish(struct line *line)
{
    double until_ms = word_now_ms() + PATIENCE_MS;

    while (await_bytes(line->fd, until_ms) && read_into(line->fd, &line->got) > 0)
        continue;
    assert_true(line->got.size > 12);
    return (int)strtol(line->got.data + strlen("HTTP/1.1 "), NULL, 10);
}

void line_close(struct line *line)
{
    close(line->fd);
    bl_buffer_done(&line->got);
}

int desk_ask(const struct desk *desk, const char *method, const char *head, const char *body,
             const char **ret_answer)
{
    struct line line;

    line_send(&line, desk, method, stage_printf("%sConnection: close\r\n", head), body);
    int status = line_finish(&line);
    if (ret_answer != NULL)
        *ret_answer = stage_keep(bl_buffer_text(&line.got));
    line_close(&line);
    return status;
}

const char *desk_session(const struct desk *desk)
{
    const char *answer;

    assert_int_equal(desk_ask(desk, "POST", "", INITIALIZE, &answer), 200);
    const char *at = strcasestr(answer, "Mcp-Session-Id: ");
    assert_non_null(at);
    const char *head =
        stage_printf("%.*s\r\nMCP-Protocol-Version: 2025-11-25\r\n", (int)strcspn(at, "\r"), at);
    assert_int_equal(desk_ask(desk, "POST", head, INITIALIZED, NULL), 202);
    return head;
}

/* ---- Words ----------------------------------------------------------------------------------- */

const char *word_call(const char *id, const char *tool, const char *arguments, const char *meta)
{
    return stage_printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{"
                        "\"name\":\"%s\",\"arguments\":{%s},\"_meta\":{%s}}}",
                        id, tool, arguments, meta);
}

const char *word_task(const char *id, const char *method, const char *task)
{
    return stage_printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"%s\",\"params\":{"
                        "\"taskId\":\"%s\",\"_meta\":{" WORD_TASKS "}}}",
                        id, method, task);
}

const char *word_run(const char *text)
{
    const char *at = strstr(text, "run_");

    assert_non_null(at);
    return stage_printf("%.*s", (int)strspn(at, "run_abcdefghijklmnopqrstuvwxyz234567"), at);
}

void word_check_receipt(const char *answer, const char *reason)
{
    if (strstr(answer, "\"survivors\":0") == NULL ||
        strstr(answer, stage_printf("\"reason\":\"%s\"", reason)) == NULL)
        fail_msg("%s", answer);
}
