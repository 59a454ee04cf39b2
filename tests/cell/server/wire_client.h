/* A host that serves in this process, and clients of it that send exactly what the test says.
 *
 * JSON is written with ' for ", to be readable. */
#ifndef BELAY_TESTS_CELL_WIRE_CLIENT_H
#define BELAY_TESTS_CELL_WIRE_CLIENT_H

#include "cell/server/server.h"
#include "fibers.h"

#define MS BL_NS_PER_MS

/* ---- The host ---- */

struct wire_stage {
    char folder[64];
    char socket[96];
    struct bl_store *store;
    struct bl_nursery nursery;
    struct bl_cell_host *host;
    struct bl_cell_server *server;
    const char *faults; /* as BELAY_FAULT; set before it is opened */
    char log[65536];    /* all lines so far, as far as there is room */
    int input, output;  /* standard streams; -1: the socket */
};

typedef void wire_body(struct wire_stage *stage);

/* Tests that run `body` in a loop of their own: on an open stage, and on one that the body
 * opens. */
#define WIRE_TEST(name, body)                                                                      \
    static void name(void **state)                                                                 \
    {                                                                                              \
        wire_body *const run = body;                                                               \
        (void)state;                                                                               \
        run_in_loop(wire_run, (void *)&run);                                                       \
    }
#define WIRE_TEST_UNOPENED(name, body)                                                             \
    static void name(void **state)                                                                 \
    {                                                                                              \
        wire_body *const run = body;                                                               \
        (void)state;                                                                               \
        run_in_loop(wire_run_unopened, (void *)&run);                                              \
    }
bl_fiber_main wire_run, wire_run_unopened;

void wire_open(struct wire_stage *stage);
void wire_close(struct wire_stage *stage); /* can be opened again, on the same store */
/* Live connections of the server. */
unsigned wire_connections(const struct wire_stage *stage);

/* Returns the pid of a live cell's worker, or 0 if it has none yet. */
int64_t wire_worker_pid(const struct wire_stage *stage, const char *session, const char *cell);

/* ---- Clients ---- */

struct wire_client {
    int fd;
    struct bl_descriptor *descriptor;
    struct bl_frames frames;
    struct bl_list incoming; /* struct wire_frame: received and not taken yet */
    struct bl_arena arena;   /* of everything received */
    uint64_t next_id;
    bool closed; /* by the other side */
};

/* Connects, and sends nothing. */
void wire_connect(struct wire_client *client, const struct wire_stage *stage);
/* Takes over one end of another connection; `output` may be the same. */
void wire_adopt(struct wire_client *client, int fd);
/* Connects, sends hello, requests `capabilities` ("'tools','notify'"), and receives `ready`. */
void wire_join(struct wire_client *client, const struct wire_stage *stage, const char *name,
               const char *capabilities);
/* The same, and opens that session, serving tools, with that linger time. */
void wire_join_session(struct wire_client *client, const struct wire_stage *stage, const char *name,
                       const char *session, unsigned linger_ms);
void wire_leave(struct wire_client *client); /* closes */

void wire_send_bytes(struct wire_client *client, struct bl_text bytes);
/* Sends one frame. */
void wire_send(struct wire_client *client, const char *format, ...) BL_PRINTF(2, 3);
void wire_send_text(struct wire_client *client, struct bl_text json);
/* Sends a request. Returns its id. */
uint64_t wire_ask(struct wire_client *client, const char *op, const char *format, ...)
    BL_PRINTF(3, 4);
/* Returns the whole reply with that id, or "" if the other side closes. Keeps other frames. */
const char *wire_reply(struct wire_client *client, uint64_t id);
/* Sends a request and returns its reply. */
const char *wire_call(struct wire_client *client, const char *op, const char *format, ...)
    BL_PRINTF(3, 4);
/* Returns the next frame of that type ("tool_call"), or "" if the other side closes. */
const char *wire_await(struct wire_client *client, const char *type);
/* The same within that time; "" also if none arrives. */
const char *wire_await_within(struct wire_client *client, const char *type, uint64_t limit_ns);
/* Returns the next frame of any type, or "" if the connection is closed. */
const char *wire_next(struct wire_client *client);
/* Waits until the other side has closed, and discards all frames. */
bool wire_await_closed(struct wire_client *client, uint64_t limit_ns);

/* Creates a cell with this source and the tool `count` (and `say`, which takes text). */
const char *wire_create(struct wire_client *client, const char *session, const char *cell,
                        const char *source);
uint64_t wire_ask_create(struct wire_client *client, const char *session, const char *cell,
                         const char *source);
/* Returns the exact bytes of a reply's `ok`, in the client's arena, or "" if it has none. */
const char *wire_ok(struct wire_client *client, const char *reply);
/* Returns a member that is a text or a number, in a static buffer. */
const char *wire_field(const char *json, const char *name);
bool wire_has(const char *text, const char *part); /* `part` has ' for " */

#define CHECK_HAS(text, part) wire_check_has(text, part, __FILE__, __LINE__)
bool wire_check_has(const char *text, const char *part, const char *file, int line);

#endif
