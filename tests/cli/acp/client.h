/* A client of `belay acp` for tests: writes lines, reads lines with a deadline, and keeps each line
 * with its time. Lines are checked as they are read: one JSON-RPC object per line, and one answer
 * per request. */
#ifndef BELAY_TESTS_CLI_ACP_CLIENT_H
#define BELAY_TESTS_CLI_ACP_CLIENT_H

#include "../stage.h"

struct line {
    const struct bl_json *json;
    const char *text;
    uint64_t at_ns; /* when it was read */
};

struct client {
    struct held held;
    int to; /* its standard input; -1 if closed */
    int from;
    bool ended; /* end of file on its standard output */
    struct line *lines;
    size_t count;
    size_t capacity;
    size_t *answers; /* by id: number of the line + 1; 0 if not answered yet */
    size_t answer_capacity;
    struct bl_buffer rest; /* of an incomplete line */
    int64_t last_id;
    const char *session; /* of client_new */
    uint64_t sent_ns;    /* when the last line was written */
};

uint64_t client_now_ns(void);

/* Starts `belay acp` with these words and sends `initialize`. */
#define CLIENT_START(client, ...)                                                                  \
    client_start(client, (const char *const[]){runner_program(), "acp", __VA_ARGS__, NULL}, true)
void client_start(struct client *client, const char *const *words, bool initialize);
/* Kills all processes left. */
void client_end(struct client *client);
void client_close_input(struct client *client);
/* Waits for its end and returns the exit code. */
int client_exit(struct client *client);

/* Writes bytes unchanged. */
void client_write(struct client *client, const char *format, ...) BL_PRINTF(2, 3);
/* Sends a request and returns its id. */
int64_t client_ask(struct client *client, const char *method, const char *params, ...)
    BL_PRINTF(3, 4);
void client_notify(struct client *client, const char *method, const char *params, ...)
    BL_PRINTF(3, 4);
/* Wait for an answer, and return it or the number of its line. Fail the test if it does not arrive.
 */
const struct bl_json *client_answer(struct client *client, int64_t id);
size_t client_answer_line(struct client *client, int64_t id);
/* Return the result of the answer, failing the test if it is an error; or the code of the error. */
const struct bl_json *client_result(struct client *client, int64_t id);
int64_t client_refusal(struct client *client, int64_t id);
/* Reads for that time. */
void client_listen(struct client *client, double ms);
/* Reads the available input. */
void client_drain(struct client *client);
/* Waits for a line, from number `from` on, that contains the text, and returns its number. */
size_t client_await(struct client *client, size_t from, const char *text);
/* Returns the number of lines from number `from` on that contain the text. */
size_t client_count(const struct client *client, size_t from, const char *text);

/* Opens a session in the workspace and returns its id, which the client uses from now on. */
const char *client_new(struct client *client);
int64_t client_prompt(struct client *client, const char *text);
void client_cancel(struct client *client);
/* Returns /stopReason of the answer to the prompt. */
const char *client_stop_reason(struct client *client, int64_t prompt);
/* Sends a prompt, waits for the answer, and returns its stop reason. */
const char *client_talk(struct client *client, const char *text);

/* Calls `take` with the first column of each row, as text, from the stage's store, which may be in
 * use. */
void client_store_each(const char *sql, void (*take)(void *context, const char *text),
                       void *context);

/* Processes of tools: only processes started by the command of client_trap have a certain mark. The
 * trap is a shell that ignores SIGTERM, with a child in a session of its own and a grandchild by a
 * double fork. */
const char *client_trap(void);
/* Waits until all processes of the trap are running. */
void client_await_trap(void);
size_t client_trapped(void); /* processes alive */

#endif
