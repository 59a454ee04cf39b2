/* A warden as Belay sees it: shared by the files that start and stop it (warden.c) and that close it
 * (close.c). */
#ifndef BELAY_PROC_HELD_H
#define BELAY_PROC_HELD_H

#include "parts.h"

/* The longest time that a warden needs after the grace period: its own second of killing, on a slow
 * machine. */
#define PROOF_NS_MAX (10 * BL_NS_PER_S)
/* Time for an answer after the grace period, and the interval of the checks that follow. */
#define ANSWER_NS (100 * BL_NS_PER_MS)

/* The state of the command:
 *
 *   STARTING  --STARTED-->                           RUNNING
 *   STARTING  --FAILED-->                            REFUSED
 *   STARTING  --the warden has ended-->              UNKNOWN
 *   RUNNING   --ENDED, or the warden has ended-->    ENDED (its tree may be kept: background)
 *
 * A message that allows no transition is ignored: a tool that traces its warden can send any
 * message. Only proc_command_move changes the state. */
enum command_state {
    COMMAND_STARTING,
    COMMAND_RUNNING,
    COMMAND_ENDED,
    COMMAND_REFUSED,
    COMMAND_UNKNOWN,
};

/* The state of its warden. One fiber takes it from HOLDING to OVER; the others wait for that.
 *
 *   HOLDING  --QUIET, end of file-->                 CLOSING (it is reaped)
 *   HOLDING  --it is stuck-->                        SEIZING (its tree is killed from here)
 *   SEIZING  --killed-->                             CLOSING
 *   CLOSING  --reaped or given up, then swept-->     OVER
 *
 * Only close.c changes the state. */
enum warden_state {
    WARDEN_HOLDING,
    WARDEN_SEIZING,
    WARDEN_CLOSING,
    WARDEN_OVER,
};

/* Why a warden is closed. */
enum warden_close {
    CLOSE_BELIEVED, /* it has sent QUIET */
    CLOSE_LOST,     /* it ended without QUIET */
    CLOSE_KILLED,   /* this process killed it */
};

struct bl_warden {
    struct bl_list link; /* in `living`, for sweeps */
    struct proc_started started;
    struct bl_descriptor *control;
    enum bl_mechanism mechanism;
    char cgroup[4096]; /* path of the cgroup that it creates; "-": none */
    int record;        /* number of its record; -1: none */
    pid_t command;     /* 0: the command exited before it was seen */
    enum command_state command_state;
    enum warden_state state;
    bool background;
    bool stopped; /* by a stop, before the command ended */
    bool reaped;
    struct bl_child_end lost; /* how the warden itself ended, if it did not send QUIET */
    int failure;
    enum warden_stage failure_stage;
    struct bl_warden_end end;
};

/* Sets the state of the command. */
void proc_command_move(struct bl_warden *warden, enum command_state to);
/* Adds what is left of a tree to its end. */
void proc_warden_take_rest(struct bl_warden *warden, const struct proc_rest *rest);
/* Completes the end of a warden. */
void proc_warden_close(struct bl_warden *warden, enum warden_close why);
/* Kills the tree of a stuck warden from here, and the warden as well. */
void proc_warden_take_over(struct bl_warden *warden);

#endif
