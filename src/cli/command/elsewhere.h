/* Stops across the machines that share a database. */
#ifndef BELAY_CLI_ELSEWHERE_H
#define BELAY_CLI_ELSEWHERE_H

#include <belay/store.h>

/* A stop of work that a process on any machine runs. */
struct elsewhere {
    struct bl_arena *arena;
    const char *where; /* the database */
    const char *id;    /* of an item or a session; ID/PART for a part of it */
    bool now;          /* without grace periods */
    uint64_t wait_ns;  /* for the answers of its workers */
    /* Results: */
    const char *worker;     /* of the work; NULL: it had none, or there are several */
    const char *host;       /* of the worker */
    bool fenced;            /* nothing of the work can enter the store any more */
    struct bl_text receipt; /* empty: the work had ended before */
    struct bl_text result;  /* of work that had ended: its envelope */
};

/* Records the stop, and waits for its end, in a fiber. BL_ENOENT: nothing with that id is known. */
int elsewhere_stop(struct elsewhere *elsewhere, struct bl_error *error);

#endif
