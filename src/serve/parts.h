/* What the files of the control socket share. */
#ifndef BELAY_SERVE_PARTS_H
#define BELAY_SERVE_PARTS_H

#include <belay/serve.h>
#include <belay/wire.h>

/* Bytes of one answer that an asker takes. */
#define SERVE_ANSWER_MAX ((size_t)16 << 20)
#define SERVE_PATH_SIZE  1024
/* "ID.sock", where ID is an id of ours without a prefix. */
#define SERVE_NAME_SIZE 40

/* How long the other side of a connection may take: BL_CONTROL_NS_MAX, and less only in tests; and
 * the first word of an answer to `ps`: BL_CONTROL_WORD_NS_MAX, and more only in tests. */
extern uint64_t serve_patience_ns, serve_word_ns;

/* ---- The folder ------------------------------------------------------------------------------ */

/* Opens the folder of sockets, `control` in that of bl_runtime_folder; errors as there. */
int serve_folder_open(bool create, int *ret_fd, struct bl_error *error);
/* The path of something in it. BL_ELIMIT: longer than that. */
int serve_path(const char *name, char *out, size_t out_size);
/* False: not the name of a control socket. */
bool serve_name_is_socket(const char *name);
/* The file beside a socket that says who listens there and what it has begun, for when it has died:
 * "ID.json". */
void serve_trace_name(const char *name, char out[SERVE_NAME_SIZE]);

/* ---- Ids ------------------------------------------------------------------------------------- */

/* What an id stands for, of what runs in this process: by its id, its whole name or its session. */
bool serve_is_meant(const struct bl_activity *activity, const char *id);
/* What an id stands for, of what another process runs: by its id or its whole name, or by its
 * session, which stands for all of that. */
bool serve_is_named(const struct bl_activity_view *activity, struct bl_text id);
bool serve_is_of_session(const struct bl_activity_view *activity, struct bl_text id);

/* Names that differ, of what an id may stand for. Embedded by its owner. */
struct serve_names {
    struct bl_text names[8];
    size_t count; /* may be more than are kept */
};
void serve_names_add(struct serve_names *names, struct bl_text name);
/* "a, b and 3 more". */
void serve_names_text(const struct serve_names *names, char *out, size_t out_size);

/* ---- Messages -------------------------------------------------------------------------------- */

/* What a process runs. */
struct control_state {
    int64_t pid; /* 0: not known */
    int64_t started_wall_ns;
    struct bl_list activities; /* struct bl_activity_view */
};
extern const struct bl_record control_state_record; /* result of ps */
extern const struct bl_record control_found_record; /* of status: activities alone */
extern const struct bl_record control_trace_record; /* the file beside a socket */

struct control_id {
    const char *id; /* NULL, where any may be meant: not given */
};
/* Parameters of status and `ended`, result of inject; and parameters of watch. */
extern const struct bl_record control_id_record, control_any_record;

struct control_cancel {
    const char *id;
    const char *origin; /* NULL: not given; the same with the reason */
    const char *reason;
    bool now;
};
extern const struct bl_record control_cancel_record;

struct control_receipt {
    struct bl_text receipt; /* empty: it had ended before the stop reached it */
};
extern const struct bl_record control_receipt_record; /* result of cancel */

struct control_inject {
    const char *session;
    struct bl_text text;
};
extern const struct bl_record control_inject_record;

struct control_watched {
    int running;     /* something of that id; -1: it is not told */
    uint64_t missed; /* events */
};
extern const struct bl_record control_watched_record; /* result of watch */
extern const struct bl_record control_missed_record;  /* parameters of `missed` */

extern const struct bl_record control_description_record; /* result of debug */

/* ---- Watching -------------------------------------------------------------------------------- */

/* A client that is told what happens. Embedded in it. */
struct serve_watcher {
    struct bl_list link;
    struct bl_rpc *rpc;
    char id[BL_ACTIVITY_NAME_SIZE]; /* of a run, a session, a sub-agent; empty: all */
    uint64_t missed; /* since the last one that was told: the client reads too slowly */
    bool running;    /* something of that id runs */
    bool ended;      /* nothing of it does any more, and it is yet to be told */
};

/* Tells all of them, without waiting for any. */
void serve_watchers_tell(const struct bl_list *watchers, const struct bl_event *event);
/* The same of what runs: something has begun, or ended. */
void serve_watchers_follow(const struct bl_list *watchers, const struct bl_list *activities);
/* Tells it what it is yet to be told, as soon as it reads. In a fiber; may wait. */
void serve_watcher_settle(struct serve_watcher *watcher);

#endif
