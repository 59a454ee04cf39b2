/* serve: how other programs reach a running belay.
 *
 * Each process that does work listens on a control socket of its own. There another process of the
 * same user can list its work and stop it. The protocol is JSON-RPC 2.0, one message a line:
 *
 *      {"jsonrpc":"2.0","id":1,"method":"ps"}
 *      {"jsonrpc":"2.0","id":1,"result":{"pid":4711,"started_at":"…Z","activities":[…]}}
 *      {"jsonrpc":"2.0","id":2,"method":"cancel","params":{"id":"run_…","origin":"belay cancel"}}
 *      {"jsonrpc":"2.0","id":2,"result":{"receipt":{…}}}
 *
 * Other methods are `finish {id, origin}`, `status {id}`, `inject {session, text}`, `debug` and
 * `watch {id?}`. After `watch`, each event of that run, session or sub-agent (or of all) is sent as
 * a notification `event`, with `missed {count}` if the client has read too slowly, and `ended {id}`
 * when nothing with that id runs any more.
 *
 * Promises: only the same user (and root) gets answers; a `cancel` is answered when all of the work
 * is quiet; no client, whatever it sends or fails to send, stops, blocks or bloats the process.
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
/* How long a client may be silent before its first line or in the middle of a line, or leave its
 * answer unread. */
#define BL_CONTROL_NS_MAX (2 * BL_NS_PER_S)
/* Time limit for an answer to `ps`. */
#define BL_CONTROL_WORD_NS_MAX (200 * BL_NS_PER_MS)
/* How long a client may stay connected without another request. */
#define BL_CONTROL_IDLE_NS_MAX (60 * BL_NS_PER_S)

/* ---- Serving requests ------------------------------------------------------------------------ */

struct bl_control;

/* Listens on ID.sock, with a random ID, in `control` in the folder of sockets (bl_runtime_folder).
 * Creates the folder if it is missing (0700). BL_EACCES: the folder belongs to another user, or
 * others may write to it or read it. Its fibers run in the nursery, which must be live; stopping
 * the nursery ends them. Call bl_control_stop before the nursery ends. The control watches
 * `activities`, which must outlive it. One for each process. */
int bl_control_start(struct bl_nursery *nursery, struct bl_activities *activities,
                     struct bl_control **ret_control, struct bl_error *error);
/* Removes the socket, disconnects all clients, waits for its fibers (even if the caller's scope is
 * stopped), and frees it. Answers to `cancel` that are ready or in progress get a moment to be
 * sent. NULL is fine. */
void bl_control_stop(struct bl_control *control);

/* An additional method, which the program that does the work offers. Called with the request's
 * parameters, in the fiber of the client. Returns 0 with the result, one JSON value, in the buffer;
 * otherwise `error`: its message becomes the answer's, and the whole error its data. May wait. If
 * the client disconnects, the fiber's scope is stopped, but not the work. */
typedef int bl_control_method(void *context, const struct bl_json *params,
                              struct bl_buffer *ret_result, struct bl_error *error);
/* `name` ("feature.cancel") and `context` must outlive the control. At most 16 offers. */
struct bl_control_offer {
    const char *name;
    bl_control_method *run;
    void *context;
};
void bl_control_offer(struct bl_control *control, const struct bl_control_offer *offer);

/* ---- Sending requests ------------------------------------------------------------------------ */

/* The answer of one process. In the arena. */
struct bl_control_process {
    struct bl_list link;
    int64_t pid; /* 0 if unknown */
    enum {
        BL_CONTROL_ANSWERING,
        BL_CONTROL_SILENT, /* it listens, but does not answer within BL_CONTROL_WORD_NS_MAX */
        BL_CONTROL_DEAD,   /* it was killed; its socket has been removed */
    } state;
    /* struct bl_activity_view. Of a dead process, the runs and features that it had started; only
     * their id, kind and session are known. */
    struct bl_list activities;
    struct bl_list sessions; /* struct bl_open_session_view: the sessions that it holds */
};

/* Asks every process in the folder, all at once. Removes the sockets of dead processes, so that the
 * next call no longer reports them. Fills `ret_processes`, a list head, in the order of pids.
 * Returns 0 also if there are none. BL_ECANCELED, BL_ETIMEDOUT: the caller's scope was stopped.
 * BL_EACCES: the folder belongs to another user. */
int bl_control_list(struct bl_arena *arena, struct bl_list *ret_processes, struct bl_error *error);
/* Stops the work with that id, in any process, and waits until it is quiet. `origin` is for the
 * receipt (NULL: "belay cancel"); `now` skips the grace periods. The receipt, one JSON object, is
 * in the arena; it is empty if the work ended first. BL_ENOENT: no process knows the id. BL_EEXIST:
 * several activities have the id; none was stopped, and the hint has their full names. BL_EBUSY:
 * the id is an idle session that a process holds. BL_EUNKNOWN: the process exited without an
 * answer. Waits as long as the stop takes; stop the caller's scope to give up. */
int bl_control_cancel(struct bl_arena *arena, const char *id, const char *origin, bool now,
                      struct bl_text *ret_receipt, struct bl_error *error);

/* As bl_control_cancel, but after the step in flight: the call or answer in progress ends first.
 * Waits for the end of the work, which may take long; a cancel meanwhile stops it at once. The
 * receipt is empty if the work completed. BL_ENOTSUP: the work has no steps, or its process is an
 * older belay. */
int bl_control_finish(struct bl_arena *arena, const char *id, const char *origin,
                      struct bl_text *ret_receipt, struct bl_error *error);
/* Sends a message to the run, sub-agent or session's turn with that id; its next turn or step
 * receives it. `*ret_message` is the message's id, in the arena. BL_ENOENT and BL_EEXIST as above.
 * BL_ENOTSUP: this kind of work takes no messages. BL_ECLOSED: the work no longer takes messages.
 * BL_ELIMIT: the message is too long to be sent. */
int bl_control_inject(struct bl_arena *arena, const char *id, struct bl_text text,
                      const char **ret_message, struct bl_error *error);

/* The current state of a process. Texts in the arena. */
struct bl_control_description {
    int64_t pid;
    struct bl_text fibers; /* in the format of bl_loop_describe */
    bool whole;            /* false if some fibers were left out */
};
/* Describes the process in which that id runs. Errors as of bl_control_cancel. BL_ENOTSUP: an older
 * belay. BL_EAGAIN: it listens but does not answer (its loop is busy, or it is paused). */
int bl_control_describe(struct bl_arena *arena, const char *id,
                        struct bl_control_description *ret_description, struct bl_error *error);

/* A receiver of events. Its functions are called in fibers that read, and must not wait. Texts are
 * valid during the call. */
struct bl_control_watch {
    const char *id; /* NULL: everything, in every process that runs now */
    void (*event)(void *context, const struct bl_json *event); /* docs/schemas/event.json */
    void (*missed)(void *context, uint64_t count); /* the reader was too slow: `count` events were
                                                      left out */
    void *context;
};

/* Watches the work with that id, in any process, and returns when it has ended; without an id, when
 * the last of the processes has exited. Earlier events are not reported. The work never waits for
 * its watchers, and a stop of the caller's scope ends only the watching. BL_ENOENT: no process
 * knows the id, or, without an id, nothing runs. BL_EEXIST: several activities have the id.
 * BL_ENOTSUP: it is a feature or a task, which has other events. BL_EBUSY: too many watchers.
 * BL_EUNKNOWN: the process exited or disconnected us before the end. */
int bl_control_watch(struct bl_arena *arena, const struct bl_control_watch *watch,
                     struct bl_error *error);

/* Calls a method of the process with that pid. `params` is JSON or empty; the result, one JSON
 * value, is in the arena. An error of the method is returned as the method set it. Errors of kind
 * delivery: BL_ENOENT: no process with that pid listens; BL_ENOTSUP: it has no such method;
 * BL_EUNKNOWN: it exited without an answer; BL_EAGAIN: it listens but answers no client (for
 * example, it is paused). Retries a process that has too many clients, until the caller's scope
 * stops. */
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
    bool minimal;        /* send only the kinds of updates in the first published schema */
};

/* Serves one client over the Agent Client Protocol until it disconnects or the caller's scope
 * stops, and then ends every session. The exit code is 0 if nothing was running, else 130 (143
 * after SIGTERM). Runs in a fiber. */
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
    const char *address;        /* loopback only, otherwise BL_EINVAL */
    uint16_t port;              /* 0: any free port */
    const char *token;          /* required in each request */
    const char *const *origins; /* further origins and hosts that are accepted; ends in NULL; may be
                                   NULL */
    /* Called when the server listens; may be NULL. */
    void (*listening)(void *context, uint16_t port);
    void *context;
};

/* Serves until the client disconnects (standard streams) or the caller's scope stops. As
 * bl_acp_serve. */
int bl_mcp_serve(const struct bl_mcp_server_options *options, int *ret_exit_code,
                 struct bl_error *error);

BL_PUBLIC_END

#endif
