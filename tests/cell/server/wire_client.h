/* A host that serves, in this process, and clients of it that do what they are told, byte for byte.
 *
 * JSON is written with ' for ", so that it can be read. */
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
    char log[65536];    /* all lines so far, as much as there is room for */
    int input, output;  /* standard streams; -1: the socket */
};

typedef void wire_body(struct wire_stage *stage);

/* A test that runs `body` on an open stage, in a loop of its own; and one that opens it itself. */
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

/* The pid of a live cell's worker; 0: none yet. */
int64_t wire_worker_pid(const struct wire_stage *stage, const char *session, const char *cell);

/* ---- Clients ---- */

struct wire_client {
    int fd;
    struct bl_descriptor *descriptor;
    struct bl_frames frames;
    struct bl_list incoming; /* struct wire_frame: what has come and was not asked for yet */
    struct bl_arena arena;   /* of all that has come */
    uint64_t next_id;
    bool closed; /* by the other side */
};

/* Connects, and says nothing. */
void wire_connect(struct wire_client *client, const struct wire_stage *stage);
/* Takes over one end of something else; `output` may be the same. */
void wire_adopt(struct wire_client *client, int fd);
/* Connects, says hello, wants `capabilities` ("'tools','notify'"), and has got `ready`. */
void wire_join(struct wire_client *client, const struct wire_stage *stage, const char *name,
               const char *capabilities);
/* The same, and has opened that session, serving tools, with that linger. */
void wire_join_session(struct wire_client *client, const struct wire_stage *stage, const char *name,
                       const char *session, unsigned linger_ms);
void wire_leave(struct wire_client *client); /* closes */

void wire_send_bytes(struct wire_client *client, struct bl_text bytes);
/* One frame. */
void wire_send(struct wire_client *client, const char *format, ...) BL_PRINTF(2, 3);
void wire_send_text(struct wire_client *client, struct bl_text json);
/* A request; returns its id. */
uint64_t wire_ask(struct wire_client *client, const char *op, const char *format, ...)
    BL_PRINTF(3, 4);
/* The reply of that id, whole; "" when the other side closes. Others are kept. */
const char *wire_reply(struct wire_client *client, uint64_t id);
/* Both: a request and its reply. */
const char *wire_call(struct wire_client *client, const char *op, const char *format, ...)
    BL_PRINTF(3, 4);
/* The next frame of that type ("tool_call"); "" when the other side closes. */
const char *wire_await(struct wire_client *client, const char *type);
/* The same, within that time; "" also when none came. */
const char *wire_await_within(struct wire_client *client, const char *type, uint64_t limit_ns);
/* The next frame, whatever it is; "": closed. */
const char *wire_next(struct wire_client *client);
/* Waits until the other side has closed; throws away what comes. */
bool wire_await_closed(struct wire_client *client, uint64_t limit_ns);

/* Source of a cell, and `create_cell` of it with the tool `count` (and `say`, that takes text). */
const char *wire_create(struct wire_client *client, const char *session, const char *cell,
                        const char *source);
uint64_t wire_ask_create(struct wire_client *client, const char *session, const char *cell,
                         const char *source);
/* The `ok` of a reply, the very bytes; "" when it has none. In the client's arena. */
const char *wire_ok(struct wire_client *client, const char *reply);
/* A member that is a text or a number; static. */
const char *wire_field(const char *json, const char *name);
bool wire_has(const char *text, const char *part); /* with ' for " in `part` */

#define CHECK_HAS(text, part) wire_check_has(text, part, __FILE__, __LINE__)
bool wire_check_has(const char *text, const char *part, const char *file, int line);

#endif
