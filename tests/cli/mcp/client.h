/* Clients of the real `belay mcp`, on standard streams and over HTTP, and the messages that they
 * send. All functions wait at most half a minute and then fail the test. */
#ifndef BELAY_TESTS_CLI_MCP_CLIENT_H
#define BELAY_TESTS_CLI_MCP_CLIENT_H

#include "../stage.h"

/* A server and the connection to it. */
struct desk {
    bool opened;
    struct held held;
    int in; /* standard input and output of a server on standard streams */
    int out;
    struct bl_buffer lines; /* received and not yet taken */
    unsigned port;          /* of a server on HTTP */
    const char *token;
};

/* Starts `belay mcp` or another command with these words, which end in NULL, on standard streams.
 */
void desk_open(struct desk *desk, const char *command, const char *const *words);
/* Starts `belay mcp --http` with these words. */
void desk_open_http(struct desk *desk, const char *const *words);
#define DESK_OPEN(desk, ...)      desk_open(desk, "mcp", (const char *const[]){__VA_ARGS__, NULL})
#define DESK_OPEN_HTTP(desk, ...) desk_open_http(desk, (const char *const[]){__VA_ARGS__, NULL})
void desk_close(struct desk *desk); /* kills all processes left; need not be open */

/* ---- Standard streams ------------------------------------------------------------------------ */

void desk_say(struct desk *desk, const char *line);
void desk_say_bytes(struct desk *desk, struct bl_text bytes); /* unchanged */
/* Returns the next line, or NULL if none arrives in that time. Lives until the stage ends. */
const char *desk_line(struct desk *desk, unsigned limit_ms);
/* Waits for a line that contains the text and returns it. */
const char *desk_await(struct desk *desk, const char *text);
/* Performs the handshake of 2025-11-25. */
void desk_greet(struct desk *desk);

/* ---- HTTP ------------------------------------------------------------------------------------ */

/* One connection. */
struct line {
    int fd;
    struct bl_buffer got;
};

#define LINE_NOW "MCP-Protocol-Version: 2026-07-28\r\n"
/* Sends a request. `head` has complete header lines, which replace or extend the default ones. */
void line_send(struct line *line, const struct desk *desk, const char *method, const char *head,
               const char *body);
/* Waits until the received data contains the text, and returns its position. */
const char *line_await(struct line *line, const char *text);
/* Reads the whole answer and returns the status. */
int line_finish(struct line *line);
void line_close(struct line *line);
/* Sends a request, reads the answer, and returns its status. The answer lives until the stage ends.
 */
int desk_ask(const struct desk *desk, const char *method, const char *head, const char *body,
             const char **ret_answer);
/* Opens a session of 2025-11-25 and returns the header line that names it. */
const char *desk_session(const struct desk *desk);

/* ---- Messages -------------------------------------------------------------------------------- */

/* Returns a tools/call of the tool; `arguments` are members, `meta` the members of _meta. */
const char *word_call(const char *id, const char *tool, const char *arguments, const char *meta);
/* The _meta of 2026-07-28, with a token for progress. */
#define WORD_NOW                                                                                   \
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                  \
    "\"io.modelcontextprotocol/clientCapabilities\":{},\"progressToken\":\"p\""
/* The same with the extension for tasks, and a request about a task. */
#define WORD_TASKS                                                                                 \
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                  \
    "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{"                             \
    "\"io.modelcontextprotocol/tasks\":{}}}"
const char *word_task(const char *id, const char *method, const char *task);
/* Returns the id of the run in a text: "run_…". */
const char *word_run(const char *text);
double word_now_ms(void);
/* Fails the test unless the answer of `cancel` is a receipt without survivors. */
void word_check_receipt(const char *answer, const char *reason);

#endif
