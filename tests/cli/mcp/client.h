/* Clients of the real `belay mcp`, on standard streams and over HTTP; and the words that they use.
 * All of them wait half a minute at most, and fail the test then. */
#ifndef BELAY_TESTS_CLI_MCP_CLIENT_H
#define BELAY_TESTS_CLI_MCP_CLIENT_H

#include "../stage.h"

/* A server, and who talks to it. */
struct desk {
    bool opened;
    struct held held;
    int in; /* of a server on standard streams: what it reads, and what it writes */
    int out;
    struct bl_buffer lines; /* that came and were not taken */
    unsigned port;          /* of one on HTTP */
    const char *token;
};

/* `belay mcp` or another command with these words, on standard streams; end in NULL. */
void desk_open(struct desk *desk, const char *command, const char *const *words);
/* `belay mcp --http` with these words. */
void desk_open_http(struct desk *desk, const char *const *words);
#define DESK_OPEN(desk, ...)      desk_open(desk, "mcp", (const char *const[]){__VA_ARGS__, NULL})
#define DESK_OPEN_HTTP(desk, ...) desk_open_http(desk, (const char *const[]){__VA_ARGS__, NULL})
void desk_close(struct desk *desk); /* kills what is left; one that is not open is fine */

/* ---- Standard streams ------------------------------------------------------------------------ */

void desk_say(struct desk *desk, const char *line);
void desk_say_bytes(struct desk *desk, struct bl_text bytes); /* as they are */
/* The next line, or NULL when none came in that time. Kept until the stage ends. */
const char *desk_line(struct desk *desk, unsigned limit_ms);
/* The next line that holds the text. */
const char *desk_await(struct desk *desk, const char *text);
/* The handshake of 2025-11-25. */
void desk_greet(struct desk *desk);

/* ---- HTTP ------------------------------------------------------------------------------------ */

/* One connection. */
struct line {
    int fd;
    struct bl_buffer got;
};

#define LINE_NOW "MCP-Protocol-Version: 2026-07-28\r\n"
/* Sends a request: `head` are lines with their ends, in place of or besides those that every
 * request has. */
void line_send(struct line *line, const struct desk *desk, const char *method, const char *head,
               const char *body);
/* Until what came holds the text; returns where it stands. */
const char *line_await(struct line *line, const char *text);
/* All of the answer; the status. */
int line_finish(struct line *line);
void line_close(struct line *line);
/* A whole answer to one request; its status. Kept until the stage ends. */
int desk_ask(const struct desk *desk, const char *method, const char *head, const char *body,
             const char **ret_answer);
/* A session of 2025-11-25: the header line that names it. */
const char *desk_session(const struct desk *desk);

/* ---- Words ----------------------------------------------------------------------------------- */

/* tools/call of that tool; `arguments` are members; `meta` those of _meta. */
const char *word_call(const char *id, const char *tool, const char *arguments, const char *meta);
/* The _meta of 2026-07-28, with a token for progress. */
#define WORD_NOW                                                                                   \
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                  \
    "\"io.modelcontextprotocol/clientCapabilities\":{},\"progressToken\":\"p\""
/* The same with the extension for tasks, and a question about one. */
#define WORD_TASKS                                                                                 \
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                  \
    "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{"                             \
    "\"io.modelcontextprotocol/tasks\":{}}}"
const char *word_task(const char *id, const char *method, const char *task);
/* The id of the run that a text tells of: "run_…". */
const char *word_run(const char *text);
double word_now_ms(void);
/* What one answer of `cancel` says: fails the test unless it is a receipt without survivors. */
void word_check_receipt(const char *answer, const char *reason);

#endif
