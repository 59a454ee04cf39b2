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
 * and `status {id}`, `inject {session, text}`, `debug`, `watch {id?}`, after which each event of
 * that run, session or sub-agent (or of all) comes as a notification `event`, `missed {count}`
 * where the client has read too slowly, and `ended {id}` when nothing of that id runs any more.
 *
 * Promises: only the user himself (and root) is answered; a `cancel` is answered when all of it is
 * quiet; no client, whatever it sends or does not send, stops, blocks or bloats the process.
 *
 * All of it belongs to fibers of one loop. */
#ifndef BELAY_SERVE_H
#define BELAY_SERVE_H

#include <belay/rpc.h>
#include <belay/runtime.h>

BL_PUBLIC_BEGIN

/* Bytes of one line, without its LF. */
#define BL_CONTROL_LINE_MAX     ((size_t)64 * 1024)
#define BL_CONTROL_CLIENTS_MAX  32
#define BL_CONTROL_WATCHERS_MAX 16
/* How long a client may be silent before its first line, in the middle of one, or not read its
 * answer. */
#define BL_CONTROL_NS_MAX (2 * BL_NS_PER_S)
/* How long one that is asked what runs may take for its first word. */
#define BL_CONTROL_WORD_NS_MAX (200 * BL_NS_PER_MS)
/* How long it may have nothing more to ask. */
#define BL_CONTROL_IDLE_NS_MAX (60 * BL_NS_PER_S)

/* ---- The process that works ------------------------------------------------------------------ */

struct bl_control;

/* Listens on ID.sock, ID a random one, in `control` in the folder of sockets (bl_runtime_folder).
 * The folder is made if it is not there (0700); BL_EACCES: it is not ours, or others may write or
 * look into it. Its fibers run in the nursery, which must be live; a stop of it ends them;
 * bl_control_stop comes before its end. `activities`, whose watcher it is, outlives it. One for
 * each process. */
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
    int64_t pid; /* 0: not known */
    enum {
        BL_CONTROL_ANSWERING,
        BL_CONTROL_SILENT, /* it listens, and does not answer in BL_CONTROL_WORD_NS_MAX */
        BL_CONTROL_DEAD,   /* it was killed; its socket is removed now */
    } state;
    /* struct bl_activity_view; of a dead one the runs and features that had begun, of which id,
     * kind and session are known. */
    struct bl_list activities;
};

/* Asks every process in the folder, all at once. Sockets of processes that are gone are removed:
 * the next one to ask finds nothing of them. `ret_processes`, a list head, is filled
 * in the order of their pids. 0 also when there are none. BL_ECANCELED, BL_ETIMEDOUT: the caller's
 * scope was stopped. BL_EACCES: the folder is not ours. */
int bl_control_list(struct bl_arena *arena, struct bl_list *ret_processes, struct bl_error *error);
/* Stops what has that id, in whichever process it runs, and waits until it is quiet; `origin` is
 * for the receipt (NULL: "belay cancel"); `now` skips the graces. The receipt, one JSON object, is
 * in the arena; empty: it had come to its end first. BL_ENOENT: no process knows the id. BL_EEXIST:
 * several things have it; none was stopped, and the hint has their whole names. BL_EUNKNOWN: the
 * process that had it went away without an answer. Waits as long as the stop needs; stop the
 * caller's scope to give up. */
int bl_control_cancel(struct bl_arena *arena, const char *id, const char *origin, bool now,
                      struct bl_text *ret_receipt, struct bl_error *error);

/* What a process does at this moment. Texts in the arena. */
struct bl_control_description {
    int64_t pid;
    struct bl_text fibers; /* as of bl_loop_describe */
    bool whole;            /* false: there are more fibers than are described */
};
/* Asks the process where that id is at work. Errors as of bl_control_cancel; BL_ENOTSUP: an older
 * belay; BL_EAGAIN: it listens, and does not answer (its loop is busy, or it is paused). */
int bl_control_describe(struct bl_arena *arena, const char *id,
                        struct bl_control_description *ret_description, struct bl_error *error);

/* Whoever wants to know what happens. Told in fibers that read, and must not wait; texts live as
 * long as the call. */
struct bl_control_watch {
    const char *id; /* NULL: all of it, in every process that runs now */
    void (*event)(void *context, const struct bl_json *event); /* docs/schemas/event.json */
    void (*missed)(void *context, uint64_t count); /* so many were left out: read too slowly */
    void *context;
};

/* Attaches to what has that id, in whichever process it runs, and returns when it has ended; of
 * all, when the last of those processes has gone. What happened before is not told. The work never
 * waits for whoever watches, and a stop of the caller's scope ends the watching alone. BL_ENOENT:
 * no process knows the id, or, of all, nothing runs. BL_EEXIST: several things have it. BL_ENOTSUP:
 * a feature or a task, which has no events of that kind. BL_EBUSY: too many watch already.
 * BL_EUNKNOWN: its process has gone, or has let go of us, before the end. */
int bl_control_watch(struct bl_arena *arena, const struct bl_control_watch *watch,
                     struct bl_error *error);

/* Asks the process of that pid. `params` is JSON, or empty; the result, one JSON value, is in the
 * arena. An error of the method comes back as it was set there. Errors of kind delivery: BL_ENOENT:
 * no such process listens; BL_ENOTSUP: it has no such method; BL_EUNKNOWN: it went away without an
 * answer; BL_EAGAIN: it listens, and answers nobody (it is paused, say). A process that has too
 * many clients is asked again until the caller's scope stops. */
int bl_control_call(struct bl_arena *arena, int64_t pid, const char *method, struct bl_text params,
                    struct bl_text *ret_result, struct bl_error *error);

/* ---- ACP ------------------------------------------------------------------------------------- */

#define BL_ACP_VERSION      1
#define BL_ACP_SESSIONS_MAX 64u

struct bl_acp_options {
    int in;
    int out;
    struct bl_runtime *runtime;
    struct bl_activities *activities;
    const char *version; /* of belay */
    bool minimal;        /* only the kinds of updates of the first published schema */
};

/* Speaks the Agent Client Protocol with one client until that goes, or the caller's scope stops;
 * ends every session, and returns the exit code: 0 when nothing ran, else 130 (143 after SIGTERM).
 * In a fiber. */
int bl_acp_serve(const struct bl_acp_options *options, int *ret_exit_code, struct bl_error *error);

/* ---- MCP ------------------------------------------------------------------------------------- */

/* Offers run, exec, wait, terminate and cancel to other agents. */
struct bl_mcp_server_options {
    struct bl_runtime *runtime;
    struct bl_activities *activities;
    const char *version; /* of belay */
    /* On standard streams: */
    int in;
    int out;
    /* Or HTTP: */
    bool http;
    const char *address;        /* loopback alone: else BL_EINVAL */
    uint16_t port;              /* 0: any that is free */
    const char *token;          /* that each request must bring */
    const char *const *origins; /* further ones that may ask, and hosts; end in NULL; may be NULL */
    /* Told when it listens; NULL: nobody is. */
    void (*listening)(void *context, uint16_t port);
    void *context;
};

/* Until the client goes (standard streams), or the caller's scope stops. As bl_acp_serve. */
int bl_mcp_serve(const struct bl_mcp_server_options *options, int *ret_exit_code,
                 struct bl_error *error);

BL_PUBLIC_END

#endif
