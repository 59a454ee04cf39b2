/* Declarations shared by the files of this room. */
#ifndef BELAY_FLEET_PARTS_H
#define BELAY_FLEET_PARTS_H

#include <belay/fleet.h>

/* Time that is always left between the end of a member's work and a takeover. */
#define FLEET_MARGIN_NS BL_NS_PER_S
/* A heartbeat without an answer for this time is sent again, over a new connection; with a short
 * lease after this part of it, so that a few of them fit in. */
#define FLEET_ANSWER_NS   (2 * BL_NS_PER_S)
#define FLEET_ANSWER_PART 12

/* ---- watch.c: the silence of others ---- */

/* A worker whose heartbeat has not changed since it was first seen silent. */
struct fleet_silence {
    struct bl_list link;
    char worker[32];
    uint64_t beat;
    uint64_t since_ns;
    bool seen; /* in the present round */
};

struct fleet_watch {
    struct bl_list silences;
    uint64_t connection; /* the observations were made over */
};

void fleet_watch_init(struct fleet_watch *watch);
void fleet_watch_done(struct fleet_watch *watch);
/* Notes what a heartbeat answered, at `now_ns`. Observations over another connection are dropped. */
void fleet_watch_note(struct fleet_watch *watch, const struct bl_fleet_beat *beat, uint64_t now_ns);
/* Takes out a worker that has been silent for `silence_ns`; NULL: none. The caller frees it with
 * bl_free. */
struct fleet_silence *fleet_watch_take(struct fleet_watch *watch, uint64_t silence_ns,
                                       uint64_t now_ns);

#endif
