/* serve: how the outside reaches a belay that runs.
 *
 * Each process that does work listens on a control socket of its own, where another process of the
 * same user sees what runs in it, and stops it. The protocol is JSON-RPC 2.0, one message a line:
 *
 *     {"jsonrpc":"2.0","id":1,"method":"ps"}
 *     {"jsonrpc":"2.0","id":1,"result":{"pid":4711,"started_at":"…Z","activities":[…]}}
 *     {"jsonrpc":"2.0","id":2,"method":"cancel","params":{"id":"run_…","origin":"belay cancel"}}
 *     {"jsonrpc":"2.0","id":2,"result":{"receipt":{…}}}
 *
 * Promises: only the user himself (and root) is answered; a `cancel` is answered when all of it is
 * quiet; no client, whatever it sends or does not send, stops, blocks or bloats the process.
 *
 * All of it belongs to fibers of one loop. */
#ifndef BELAY_SERVE_H
#define BELAY_SERVE_H

#include <belay/agent.h>

/* Bytes of one line, without its LF. */
#define BL_CONTROL_LINE_MAX    ((size_t)64 * 1024)
#define BL_CONTROL_CLIENTS_MAX 32
/* How long a client may be silent before its first line, in the middle of one, or not read its
 * answer; and how long the other side
 * waits for a process that does not answer `ps`. */
#define BL_CONTROL_NS_MAX (2 * BL_NS_PER_S)
/* How long it may have nothing more to ask. */
#define BL_CONTROL_IDLE_NS_MAX (60 * BL_NS_PER_S)

/* Of JSON-RPC, and one of our own. */
enum {
    BL_RPC_PARSE = -32700,
    BL_RPC_INVALID_REQUEST = -32600,
    BL_RPC_NO_METHOD = -32601,
    BL_RPC_INVALID_PARAMS = -32602,
    BL_RPC_INTERNAL = -32603,
    BL_RPC_NOT_FOUND = -32004,
    BL_RPC_BUSY = -32000, /* too many clients */
};

/* ---- The process that works ------------------------------------------------------------------ */

struct bl_control;

/* Listens on PID.sock in the folder of sockets (bl_runtime_folder). The folder is made if it is not
 * there (0700); BL_EACCES: it is not ours, or others may write or look into it. Its fibers run in
 * the nursery, which must be live; a stop of it ends them; bl_control_stop comes before its end.
 * `activities` outlives it. One for each process. */
int bl_control_start(struct bl_nursery *nursery, struct bl_activities *activities,
                     struct bl_control **ret_control, struct bl_error *error);
/* Removes the socket, lets go of all clients, waits for its fibers (whatever stops the caller), and
 * frees. An answer to `cancel` that is ready or under way is given a moment to get out. NULL is
 * fine. */
void bl_control_stop(struct bl_control *control);

/* One more method, of whoever does the work: what it was asked for, in the fiber of the client. 0
 * with one JSON value in the buffer, the result; else `error`: its message, and in the answer's
 * data the whole of it. May wait; the client's going away stops the fiber's scope, not the work. */
typedef int bl_control_method(void *context, const struct bl_json *params,
                              struct bl_buffer *ret_result, struct bl_error *error);
/* `name` ("feature.cancel") and `context` outlive the control. At most 16 of them. */
struct bl_control_offer {
    const char *name;
    bl_control_method *run;
    void *context;
};
void bl_control_offer(struct bl_control *control, const struct bl_control_offer *offer);

/* ---- The process that asks ------------------------------------------------------------------- */

/* What one process answered. In the arena. */
struct bl_control_process {
    struct bl_list link;
    int64_t pid;
    const struct bl_json *result; /* of `ps`: pid, started_at, activities */
};

/* Asks every process in the folder, all at once; those that do not answer in BL_CONTROL_NS_MAX are
 * left out. Sockets of processes that are gone are removed. `ret_processes`, a list head, is filled
 * in the order of their pids. 0 also when there are none. BL_ECANCELED, BL_ETIMEDOUT: the caller's
 * scope was stopped. BL_EACCES: the folder is not ours. */
int bl_control_list(struct bl_arena *arena, struct bl_list *ret_processes, struct bl_error *error);
/* Stops what has that id, in whichever process it runs, and waits until it is quiet; `origin` is
 * for the receipt (NULL: "belay cancel"). The receipt, one JSON object, is in the arena; empty: it
 * had come to its end first. BL_ENOENT: no process knows the id. BL_EUNKNOWN: the process that had
 * it went away without an answer. Waits as long as the stop needs; stop the caller's scope to give
 * up. */
int bl_control_cancel(struct bl_arena *arena, const char *id, const char *origin,
                      struct bl_text *ret_receipt, struct bl_error *error);

/* Asks the process of that pid. `params` is JSON, or empty; the result, one JSON value, is in the
 * arena. An error of the method comes back as it was set there. Errors of kind delivery: BL_ENOENT:
 * no such process listens; BL_ENOTSUP: it has no such method; BL_EUNKNOWN: it went away without an
 * answer; BL_EAGAIN: it listens, and answers nobody (it is paused, say). A process that has too
 * many clients is asked again until the caller's scope stops. */
int bl_control_call(struct bl_arena *arena, int64_t pid, const char *method, struct bl_text params,
                    struct bl_text *ret_result, struct bl_error *error);

#endif
