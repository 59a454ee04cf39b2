/* The protocol between Belay and a warden: one message a packet, over a socket pair. Uses the C
 * library only, because the warden links nothing else. */
#ifndef BELAY_PROC_PROTOCOL_H
#define BELAY_PROC_PROTOCOL_H

#include <stdint.h>

/* Descriptors of a warden in addition to its command's 0, 1 and 2. */
enum {
    WARDEN_LIFELINE =
        3, /* read end of a pipe whose write end only Belay has: end of file means that Belay has
              ended */
    WARDEN_CONTROL = 4,
    WARDEN_RECORDS = 5, /* the record file (record.h), or /dev/null */
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
    WARDEN_BACKGROUND = 1, /* keep processes left behind */
    WARDEN_TERMINAL = 2,   /* descriptor 0 becomes the controlling terminal */
    WARDEN_USER_NS = 4,    /* the PID namespace needs a user namespace around it */
    WARDEN_FOREGROUND = 8, /* the command stays in Belay's session and process group */
};

/* Arguments of a warden: decimal numbers, then the command. The guard has only the first two. */
enum {
    WARDEN_ARGUMENT_CONTAINER = 1, /* "guard": this process is the guard */
    WARDEN_ARGUMENT_OWNER,         /* pid of Belay */
    WARDEN_ARGUMENT_RECORD,        /* number of its record; -1: none */
    WARDEN_ARGUMENT_GRACE_MS,      /* for processes left behind */
    WARDEN_ARGUMENT_MASK,          /* signals that are blocked when the command starts, as bits */
    WARDEN_ARGUMENT_MEMORY,
    WARDEN_ARGUMENT_PROCESSES,
    WARDEN_ARGUMENT_FLAGS,
    WARDEN_ARGUMENT_LEASE,  /* end of its lease, as in WARDEN_LEASE */
    WARDEN_ARGUMENT_CGROUP, /* path of the cgroup to create; "-": none */
    WARDEN_ARGUMENT_COMMAND,
};

enum warden_message_type {
    /* to the warden */
    WARDEN_STOP = 1, /* stop the whole tree */
    WARDEN_SIGNAL,   /* send a signal to the command only */
    WARDEN_LEASE,    /* kill the tree at this time; replaces the time set before */
    /* from the warden: STARTED or FAILED, at most one ENDED, then QUIET */
    WARDEN_STARTED,
    WARDEN_FAILED,
    WARDEN_ENDED,
    WARDEN_QUIET, /* the last message; valid only if the warden then exits with 0 */
};

/* The number of survivors is unknown. */
#define WARDEN_UNKNOWN (-1)

/* Why the number of survivors is unknown. */
enum warden_doubt {
    WARDEN_DOUBT_NONE,
    WARDEN_DOUBT_LOOK,     /* reading the tree failed; errno */
    WARDEN_DOUBT_MOVING,   /* two counts in a row found different processes */
    WARDEN_DOUBT_UNREAPED, /* dead children cannot be reaped, for example because they are traced */
    WARDEN_DOUBT_CGROUP,   /* the state of the cgroup could not be read; errno */
    WARDEN_DOUBT_STUCK,    /* the warden was stopped or traced, and its tree was killed from
                              outside */
};

/* Why the warden killed its tree without being told to. */
enum warden_cause {
    WARDEN_CAUSE_NONE,
    WARDEN_CAUSE_LIMIT, /* it had too many processes */
    WARDEN_CAUSE_LEASE, /* its lease ended */
};

enum warden_stage {
    WARDEN_STAGE_START,
    WARDEN_STAGE_CGROUP,
    WARDEN_STAGE_NAMESPACE,
    WARDEN_STAGE_LIMIT,
    WARDEN_STAGE_TERMINAL,
    WARDEN_STAGE_PROC,
    WARDEN_STAGE_EXEC,
    WARDEN_STAGE_LEASE, /* the lease had ended before the start */
};

struct warden_message {
    int32_t type; /* enum warden_message_type; selects the member of the union */
    union {
        struct {
            int32_t processes; /* in the tree, when it was stopped */
            int32_t survivors; /* or WARDEN_UNKNOWN */
            int32_t strongest; /* last signal that was needed; 0: none */
            int32_t cause;     /* enum warden_cause */
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
            uint32_t until_low, until_high; /* the halves of a time on CLOCK_BOOTTIME, in
                                               nanoseconds; 0: no lease */
        } lease;
        struct {
            int32_t pid; /* of the command; 0: it had exited before it was seen */
        } started;
        struct {
            int32_t code;  /* errno */
            int32_t stage; /* enum warden_stage */
        } failed;
        struct {
            int32_t status; /* as waitpid returns it */
            int32_t left_behind;
            int32_t cause; /* enum warden_cause, if the tree was being killed by then */
        } ended;
    };
};
_Static_assert(sizeof(struct warden_message) == 7 * sizeof(int32_t), "a packet without padding");

#endif
