#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_NS   (30 * BL_NS_PER_S)
#define LINE_MAX_SIZE ((size_t)32 * 1024 * 1024)
#define ID_MAX        1000000
/* Processes of a trap: the shell, the command it waits for, and two children. */
#define TRAPPED 4

uint64_t client_now_ns(void)
{
    return bl_clock_now_ns(&bl_clock_system);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Returns the place to record the number of the line that answers the request. */
static size_t *answer_place(struct client *client, int64_t id)
{
    assert_in_range(id, 0, ID_MAX);
    size_t capacity = client->answer_capacity, index = (size_t)id;
    if (index >= capacity) {
        client->answer_capacity = 2 * (index + 32);
        client->answers =
            realloc(client->answers, client->answer_capacity * sizeof *client->answers);
        assert_non_null(client->answers);
        memset(client->answers + capacity, 0,
               (client->answer_capacity - capacity) * sizeof *client->answers);
    }
    return &client->answers[index];
}

static void check_line(struct client *client, const struct line *line)
{
    const struct bl_json *id = bl_json_get(line->json, BL_TEXT("id"));
    bool answer = bl_json_get(line->json, BL_TEXT("method")) == NULL;
    int64_t number;

    if (!bl_json_is(line->json, BL_JSON_OBJECT) ||
        !bl_text_equal(bl_json_text(bl_json_get(line->json, BL_TEXT("jsonrpc"))), BL_TEXT("2.0")))
        fail_msg("no JSON-RPC: %.200s", line->text);
    if (!answer || !bl_json_int64(id, &number))
        return;
    if (*answer_place(client, number) != 0)
        fail_msg("answered twice: %.200s", line->text);
    *answer_place(client, number) = client->count + 1;
}

static void keep_line(struct client *client, struct bl_text text)
{
    struct line line = {.text = stage_keep(text), .at_ns = client_now_ns()};

    line.json = stage_json(line.text);
    check_line(client, &line);
    if (client->count == client->capacity) {
        client->capacity = client->capacity == 0 ? 64 : 2 * client->capacity;
        client->lines = realloc(client->lines, client->capacity * sizeof *client->lines);
        assert_non_null(client->lines);
    }
    client->lines[client->count++] = line;
}

/* Reads available input, waiting up to `timeout_ms`. Returns false if there is none. */
static bool read_some(struct client *client, int timeout_ms)
{
    struct pollfd wanted = {.fd = client->from, .events = POLLIN};
    char data[16384];
    struct bl_text whole, line;

    if (client->ended || poll(&wanted, 1, timeout_ms) <= 0)
        return false;
    ssize_t size = read(client->from, data, sizeof data);
    if (size < 0 && errno == EINTR)
        return false;
    client->ended = size <= 0;
    if (size > 0)
        assert_int_equal(bl_buffer_append(&client->rest, (struct bl_text){data, (size_t)size}), 0);
    for (;;) {
        whole = bl_buffer_text(&client->rest);
        const char *end = whole.size > 0 ? memchr(whole.data, '\n', whole.size) : NULL;
        if (end == NULL)
            return true;
        line = (struct bl_text){whole.data, (size_t)(end - whole.data)};
        keep_line(client, line);
        bl_buffer_consume(&client->rest, line.size + 1);
    }
}

void client_listen(struct client *client, double ms)
{
    uint64_t until_ns = client_now_ns() + (uint64_t)(ms * 1e6);

    for (uint64_t now_ns; (now_ns = client_now_ns()) < until_ns && !client->ended;)
        read_some(client, (int)((until_ns - now_ns) / 1000000) + 1);
}

void client_drain(struct client *client)
{
    while (read_some(client, 0))
        continue;
}

static void give_up(struct client *client, const char *what)
{
    fail_msg("no %s; the last of %zu lines: %.400s; standard error: %.400s", what, client->count,
             client->count > 0 ? client->lines[client->count - 1].text : "",
             held_err(&client->held));
}

size_t client_await(struct client *client, size_t from, const char *text)
{
    uint64_t until_ns = client_now_ns() + PATIENCE_NS;

    for (;; from++) {
        while (from >= client->count) {
            if (client->ended || client_now_ns() > until_ns)
                give_up(client, text);
            read_some(client, 100);
        }
        if (strstr(client->lines[from].text, text) != NULL)
            return from;
    }
}

size_t client_count(const struct client *client, size_t from, const char *text)
{
    size_t count = 0;

    for (; from < client->count; from++)
        count += strstr(client->lines[from].text, text) != NULL;
    return count;
}

/* ---- Questions and answers ------------------------------------------------------------------- */

static void write_all(struct client *client, const char *data, size_t size)
{
    client->sent_ns = client_now_ns();
    while (size > 0) {
        ssize_t count = write(client->to, data, size);
        if (count < 0 && errno == EINTR)
            continue;
        assert_true(count > 0);
        data += count;
        size -= (size_t)count;
    }
}

void client_write(struct client *client, const char *format, ...)
{
    char text[8192];
    va_list arguments;

    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert_true(size >= 0 && (size_t)size < sizeof text);
    write_all(client, text, (size_t)size);
}

int64_t client_ask(struct client *client, const char *method, const char *params, ...)
{
    char text[8192];
    va_list arguments;

    va_start(arguments, params);
    int size = vsnprintf(text, sizeof text, params, arguments);
    va_end(arguments);
    assert_true(size >= 0 && (size_t)size < sizeof text);
    client->last_id++;
    const char *line =
        stage_printf("{\"jsonrpc\":\"2.0\",\"id\":%lld,\"method\":\"%s\",\"params\":%s}\n",
                     (long long)client->last_id, method, text);
    write_all(client, line, strlen(line));
    return client->last_id;
}

void client_notify(struct client *client, const char *method, const char *params, ...)
{
    char text[8192];
    va_list arguments;

    va_start(arguments, params);
    int size = vsnprintf(text, sizeof text, params, arguments);
    va_end(arguments);
    assert_true(size >= 0 && (size_t)size < sizeof text);
    const char *line =
        stage_printf("{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":%s}\n", method, text);
    write_all(client, line, strlen(line));
}

size_t client_answer_line(struct client *client, int64_t id)
{
    uint64_t until_ns = client_now_ns() + PATIENCE_NS;

    while (*answer_place(client, id) == 0) {
        if (client->ended || client_now_ns() > until_ns)
            give_up(client, stage_printf("answer to %lld", (long long)id));
        read_some(client, 100);
    }
    return *answer_place(client, id) - 1;
}

const struct bl_json *client_answer(struct client *client, int64_t id)
{
    size_t line = client_answer_line(client, id);
    return client->lines[line].json;
}

const struct bl_json *client_result(struct client *client, int64_t id)
{
    size_t line = client_answer_line(client, id);
    const struct bl_json *result = bl_json_get(client->lines[line].json, BL_TEXT("result"));

    if (result == NULL)
        fail_msg("an error: %.400s", client->lines[line].text);
    return result;
}

int64_t client_refusal(struct client *client, int64_t id)
{
    return stage_number_at(client_answer(client, id), "/error/code");
}

/* ---- The program ----------------------------------------------------------------------------- */

void client_start(struct client *client, const char *const *words, bool initialize)
{
    int to[2], from[2];

    *client = (struct client){.to = -1};
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    bl_buffer_init(&client->rest, LINE_MAX_SIZE);
    held_start(&client->held, words, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    client->to = to[1];
    client->from = from[0];
    if (initialize)
        client_result(client, client_ask(client, "initialize", "{\"protocolVersion\":1}"));
}

void client_close_input(struct client *client)
{
    close(client->to);
    client->to = -1;
    client->sent_ns = client_now_ns();
}

int client_exit(struct client *client)
{
    held_wait(&client->held);
    return client->held.exit_code;
}

void client_end(struct client *client)
{
    held_end(&client->held);
    if (client->to >= 0)
        close(client->to);
    close(client->from);
    bl_buffer_done(&client->rest);
    free(client->lines);
    free(client->answers);
    *client = (struct client){.to = -1};
}

/* ---- Sessions -------------------------------------------------------------------------------- */

const char *client_new(struct client *client)
{
    int64_t id =
        client_ask(client, "session/new", "{\"cwd\":\"%s\",\"mcpServers\":[]}", stage_path("work"));
    client->session = stage_text_at(client_result(client, id), "/sessionId");
    return client->session;
}

int64_t client_prompt(struct client *client, const char *text)
{
    return client_ask(client, "session/prompt",
                      "{\"sessionId\":\"%s\",\"prompt\":[{\"type\":\"text\",\"text\":\"%s\"}]}",
                      client->session, text);
}

void client_cancel(struct client *client)
{
    client_notify(client, "session/cancel", "{\"sessionId\":\"%s\"}", client->session);
}

const char *client_stop_reason(struct client *client, int64_t prompt)
{
    return stage_text_at(client_result(client, prompt), "/stopReason");
}

const char *client_talk(struct client *client, const char *text)
{
    return client_stop_reason(client, client_prompt(client, text));
}

void client_store_each(const char *sql, void (*take)(void *context, const char *text),
                       void *context)
{
    sqlite3_stmt *statement;
    sqlite3 *db;
    int code;

    assert_int_equal(sqlite3_open(stage_path("data/belay/sessions.db"), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
        take(context, (const char *)sqlite3_column_text(statement, 0));
    assert_int_equal(code, SQLITE_DONE);
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

/* ---- Traps ----------------------------------------------------------------------------------- */

static struct held trap;

const char *client_trap(void)
{
    static unsigned counter;

    trap = (struct held){.terminal = -1};
    snprintf(trap.mark, sizeof trap.mark, "BELAY_TEST_TRAP=%d-%u", (int)getpid(), counter++);
    return stage_printf("exec env %s sh -c 'trap \\\"\\\" TERM INT HUP; setsid sleep 300 & (sh -c "
                        "\\\"sleep 300 & exit\\\"); sleep 300; true'",
                        trap.mark);
}

void client_await_trap(void)
{
    held_await_at_least(&trap, TRAPPED);
}

size_t client_trapped(void)
{
    return held_count(&trap);
}
