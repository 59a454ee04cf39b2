/* What belay and a warden say to each other: one message a packet, over a socket pair. The C
 * library alone: the warden links nothing else. */
#ifndef BELAY_PROC_PROTOCOL_H
#define BELAY_PROC_PROTOCOL_H

#include <stdint.h>

/* Descriptors of a warden besides its command's 0, 1 and 2. */
enum {
    WARDEN_LIFELINE =
        3, /* the end of a pipe whose other end only belay has: end of file is the end */
    WARDEN_CONTROL = 4,
    WARDEN_RECORDS = 5, /* the file of records (record.h); /dev/null: none */
    WARDEN_DESCRIPTORS,
};

/* Containers, as in enum bl_mechanism. */
enum {
    WARDEN_SUBREAPER = 1,
    WARDEN_CGROUP2 = 2,
    WARDEN_PIDNS = 3,
};

/* Flags. */
enum {
    WARDEN_BACKGROUND = 1, /* what the command leaves behind is kept */
    WARDEN_TERMINAL = 2,   /* descriptor 0 becomes the controlling terminal */
    WARDEN_USER_NS = 4,    /* the namespace needs one of users around it */
};

/* Arguments of a warden: numbers in decimal, then the command. The guard has the first two. */
enum {
    WARDEN_ARGUMENT_CONTAINER = 1, /* "guard": it is not a warden, but the guard */
    WARDEN_ARGUMENT_OWNER,         /* the pid of belay */
    WARDEN_ARGUMENT_RECORD,        /* number of its record; -1: none */
    WARDEN_ARGUMENT_GRACE_MS,      /* for what is left behind */
    WARDEN_ARGUMENT_MASK,          /* signals that the command starts with blocked, as bits */
    WARDEN_ARGUMENT_MEMORY,
    WARDEN_ARGUMENT_PROCESSES,
    WARDEN_ARGUMENT_FLAGS,
    WARDEN_ARGUMENT_CGROUP, /* path of the cgroup to make; "-": none */
    WARDEN_ARGUMENT_COMMAND,
};

enum warden_message_type {
    /* to the warden */
    WARDEN_STOP = 1, /* ends the whole tree */
    WARDEN_SIGNAL,   /* for the command alone */
    /* from the warden: STARTED or FAILED, at most one ENDED, and QUIET */
    WARDEN_STARTED,
    WARDEN_FAILED,
    WARDEN_ENDED,
    WARDEN_QUIET, /* the last one. It counts when the warden has then exited with 0 */
};

/* A number of survivors that was not established. */
#define WARDEN_UNKNOWN (-1)

/* Why it was not. */
enum warden_doubt {
    WARDEN_DOUBT_NONE,
    WARDEN_DOUBT_LOOK,     /* the tree could not be read; errno */
    WARDEN_DOUBT_MOVING,   /* two counts in a row were of different processes */
    WARDEN_DOUBT_UNREAPED, /* children that are dead and cannot be reaped, as when traced */
    WARDEN_DOUBT_CGROUP,   /* the cgroup does not say whether it is empty; errno */
    WARDEN_DOUBT_STUCK,    /* the warden was stopped or traced, and others killed its tree */
};

enum warden_stage {
    WARDEN_STAGE_START,
    WARDEN_STAGE_CGROUP,
    WARDEN_STAGE_NAMESPACE,
    WARDEN_STAGE_LIMIT,
    WARDEN_STAGE_TERMINAL,
    WARDEN_STAGE_PROC,
    WARDEN_STAGE_EXEC,
};

struct warden_message {
    int32_t type; /* enum warden_message_type: which of the union's members there is */
    union {
        struct {
            int32_t processes; /* of the tree, when it was stopped */
            int32_t survivors; /* or WARDEN_UNKNOWN */
            int32_t strongest; /* signal that was needed; 0: none */
            int32_t by_limit;  /* 1: stopped by its limit of processes */
            int32_t doubt;     /* enum warden_doubt */
            int32_t doubt_errno;
        } quiet;
        struct {
            int32_t signal;
            int32_t grace_ms;
        } stop;
        struct {
            int32_t number;
        } signal;
        struct {
            int32_t pid; /* of the command; 0: it was gone before it could be seen */
        } started;
        struct {
            int32_t code;  /* errno */
            int32_t stage; /* enum warden_stage */
        } failed;
        struct {
            int32_t status; /* as of waitpid */
            int32_t left_behind;
        } ended;
    };
};
_Static_assert(sizeof(struct warden_message) == 7 * sizeof(int32_t), "a packet without padding");

#endif
