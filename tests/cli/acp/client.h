/* A client of `belay acp` for tests: writes lines, reads lines with a deadline, and keeps every one
 * of them with the moment it came. What is read is checked on the way: one JSON-RPC object a line,
 * and one answer a question. */
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
    int to; /* its standard input; -1: closed */
    int from;
    bool ended; /* end of file on its standard output */
    struct line *lines;
    size_t count;
    size_t capacity;
    size_t *answers; /* by id: the number of the line, and 1; 0: none yet */
    size_t answer_capacity;
    struct bl_buffer rest; /* of a line that is not whole yet */
    int64_t last_id;
    const char *session; /* of client_new */
    uint64_t sent_ns;    /* when the last line was written */
};

uint64_t client_now_ns(void);

/* Starts `belay acp` with these words, and asks it to initialize. */
#define CLIENT_START(client, ...)                                                                  \
    client_start(client, (const char *const[]){runner_program(), "acp", __VA_ARGS__, NULL}, true)
void client_start(struct client *client, const char *const *words, bool initialize);
/* Kills what is left of it. */
void client_end(struct client *client);
void client_close_input(struct client *client);
/* Waits for its end; the exit code. */
int client_exit(struct client *client);

/* Bytes as they are. */
void client_write(struct client *client, const char *format, ...) BL_PRINTF(2, 3);
/* A request; its id. */
int64_t client_ask(struct client *client, const char *method, const char *params, ...)
    BL_PRINTF(3, 4);
void client_notify(struct client *client, const char *method, const char *params, ...)
    BL_PRINTF(3, 4);
/* The answer, when it is there; and the line that it is. Fails the test when it does not come. */
const struct bl_json *client_answer(struct client *client, int64_t id);
size_t client_answer_line(struct client *client, int64_t id);
/* The answer's result; fails the test when it is an error. And the error's code. */
const struct bl_json *client_result(struct client *client, int64_t id);
int64_t client_refusal(struct client *client, int64_t id);
/* Reads for so long, whatever comes. */
void client_listen(struct client *client, double ms);
/* What has come by now. */
void client_drain(struct client *client);
/* Waits for a line, from number `from` on, that holds the text: its number. */
size_t client_await(struct client *client, size_t from, const char *text);
/* How many of the lines from number `from` on hold the text. */
size_t client_count(const struct client *client, size_t from, const char *text);

/* A session in the workspace: its id, which is the client's from now on. */
const char *client_new(struct client *client);
int64_t client_prompt(struct client *client, const char *text);
void client_cancel(struct client *client);
/* The words at /stopReason of the prompt's answer. */
const char *client_stop_reason(struct client *client, int64_t prompt);
/* A prompt from beginning to end; how it ended. */
const char *client_talk(struct client *client, const char *text);

/* The first column of the rows, as texts, from the store of the stage, which may be in use. */
void client_store_each(const char *sql, void (*take)(void *context, const char *text),
                       void *context);

/* Processes of tools: what a command of client_trap starts has a mark of its own, and nothing else
 * has it. The trap is a shell that ignores TERM, with a child in a session of its own and a
 * grandchild that was forked twice. */
const char *client_trap(void);
/* Waits until the trap is there, all of it. */
void client_await_trap(void);
size_t client_trapped(void); /* processes alive */

#endif
