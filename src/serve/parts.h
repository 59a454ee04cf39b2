/* Declarations shared by the files of the control socket. */
#ifndef BELAY_SERVE_PARTS_H
#define BELAY_SERVE_PARTS_H

#include <belay/serve.h>
#include <belay/wire.h>

/* Largest answer that a client of the control socket accepts, in bytes. */
#define SERVE_ANSWER_MAX ((size_t)16 << 20)
#define SERVE_PATH_SIZE  1024
/* "ID.sock", where ID is a Belay id without a prefix. */
#define SERVE_NAME_SIZE 40

/* Time limits for the other side of a connection (BL_CONTROL_NS_MAX; shorter only in tests) and for
 * an answer to `ps` (BL_CONTROL_WORD_NS_MAX; longer only in tests). */
extern uint64_t serve_timeout_ns, serve_word_ns;

/* ---- The folder ------------------------------------------------------------------------------ */

/* Opens the folder of sockets, `control` in the folder of bl_runtime_folder; errors as there. */
int serve_folder_open(bool create, int *ret_fd, struct bl_error *error);
/* Returns the path of a file in it. BL_ELIMIT: too long. */
int serve_path(const char *name, char *out, size_t out_size);
/* Returns whether it is the name of a control socket. */
bool serve_name_is_socket(const char *name);
/* The name of the file beside a socket, "ID.json". It records the process that listens there and
 * the work that it has started, for the time after its death. */
void serve_trace_name(const char *name, char out[SERVE_NAME_SIZE]);

/* ---- Ids ------------------------------------------------------------------------------------- */

/* Returns whether an id stands for an activity of this process: by its id, its full name or its
 * session. */
bool serve_is_meant(const struct bl_activity *activity, const char *id);
/* Return whether an id stands for an activity of another process: by its id or its full name; by
 * its session, which stands for all activities in it. */
bool serve_is_named(const struct bl_activity_view *activity, struct bl_text id);
bool serve_is_of_session(const struct bl_activity_view *activity, struct bl_text id);

/* Distinct full names that an id may stand for. Embedded by its owner. */
struct serve_names {
    struct bl_text names[8];
    size_t count; /* may exceed the number that is kept */
};
void serve_names_add(struct serve_names *names, struct bl_text name);
/* Formats them as "a, b and 3 more". */
void serve_names_text(const struct serve_names *names, char *out, size_t out_size);

/* ---- Messages -------------------------------------------------------------------------------- */

/* The activities of a process. */
struct control_state {
    int64_t pid; /* 0 if unknown */
    int64_t started_wall_ns;
    struct bl_list activities; /* struct bl_activity_view */
    struct bl_list sessions;   /* struct bl_open_session_view; only in ps */
};
extern const struct bl_record control_state_record; /* result of ps */
extern const struct bl_record control_found_record; /* result of status: only the activities */
extern const struct bl_record control_trace_record; /* the file beside a socket */

struct control_id {
    const char *id; /* NULL if not given, where that is allowed */
};
/* Parameters of status and `ended`, result of inject; and the parameters of watch. */
extern const struct bl_record control_id_record, control_any_record;

struct control_cancel {
    const char *id;
    const char *origin; /* NULL if not given; likewise the reason */
    const char *reason;
    bool now;
};
extern const struct bl_record control_cancel_record;

struct control_receipt {
    struct bl_text receipt; /* empty if the work ended before the stop reached it */
};
extern const struct bl_record control_receipt_record; /* result of cancel */

struct control_inject {
    const char *session;
    struct bl_text text;
};
extern const struct bl_record control_inject_record;

struct control_watched {
    int running;     /* whether something with that id runs; -1 if not reported */
    uint64_t missed; /* events */
};
extern const struct bl_record control_watched_record; /* result of watch */
extern const struct bl_record control_missed_record;  /* parameters of `missed` */

extern const struct bl_record control_description_record; /* result of debug */

/* ---- Watching -------------------------------------------------------------------------------- */

/* A client that receives events. Embedded in it. */
struct serve_watcher {
    struct bl_list link;
    struct bl_rpc *rpc;
    char id[BL_ACTIVITY_NAME_SIZE]; /* of a run, a session or a sub-agent; empty: everything */
    uint64_t missed; /* events left out since the last report, because the client reads too
                        slowly */
    bool running;    /* something with that id runs */
    bool ended;      /* nothing with that id runs any more, which is still to be reported */
};

/* Sends the event to all watchers, without waiting for any. */
void serve_watchers_tell(const struct bl_list *watchers, const struct bl_event *event);
/* Updates the watchers after an activity has started or ended. */
void serve_watchers_follow(const struct bl_list *watchers, const struct bl_list *activities);
/* Reports a pending end as soon as the client reads. In a fiber; may wait. */
void serve_watcher_settle(struct serve_watcher *watcher);

#endif
