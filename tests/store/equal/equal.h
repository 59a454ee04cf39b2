/* A side: one of two stores that get the same random operations. Each side chooses them with a random
 * generator of its own, from the same seed, and writes what it gets to a log. The logs must be equal;
 * as long as they are, both sides choose the same operations.
 *
 * In a database, directories and features belong to a host. So the store of the other host uses a
 * directory of its own, copies no sessions, and holds no features. */
#ifndef BELAY_TESTS_STORE_EQUAL_H
#define BELAY_TESTS_STORE_EQUAL_H

#include "helpers.h"

#define SLOTS      6 /* of held sessions; features have as many */
#define STORES     4 /* two on one host, one on another, and one for reading */
#define MADE_MAX   6
#define OTHER_HOST 2
#define READER     3

struct slot {
    struct holding holding; /* held NULL: not held */
    int store;
    bool taken; /* another store has taken it since */
    unsigned turn;
    char begun[BL_ID_SIZE];
};

struct feature_slot {
    struct grasp grasp;
    const char *repository, *id;
    int store;
    bool taken;
};

struct side {
    struct place place;
    struct bl_random random;
    struct bl_store *stores[STORES];
    struct slot slots[SLOTS];
    struct feature_slot features[SLOTS];
    char made[MADE_MAX][STORE_SESSION_ID_SIZE]; /* ids that the store has made, newest last */
    unsigned made_count;
    unsigned steps;
    struct bl_buffer said;     /* the log */
    struct bl_buffer exported; /* the last export, which an import uses */
};

/* Returns a random number below `limit`. */
unsigned pick(struct side *side, unsigned limit);
/* True with that probability, of 100. */
bool chance(struct side *side, unsigned percent);
#define PICK_OF(side, array) ((array)[pick(side, BL_COUNT(array))])

/* Writes to the log, as do the next three. */
void say(struct side *side, const char *format, ...) BL_PRINTF(2, 3);
/* Writes the code and the error. Returns the code. */
int say_code(struct side *side, int code, const struct bl_error *error);
void say_text(struct side *side, const char *name, struct bl_text text);
void say_time(struct side *side, const char *name, int64_t wall_ns);
/* Keeps an id that the store has made. */
void keep_made(struct side *side, const char *id);

extern const char *const equal_directories[2];
/* Returns the id of a session that may exist. */
const char *some_session(struct side *side);
/* Returns a store that is open for writing, or with `near` one of those on the first host. */
int some_store(struct side *side, bool near);
/* Returns a slot in use. NULL, which is written to the log: there is none. */
struct slot *some_slot(struct side *side);

/* session.c */
void act_hold(struct side *side);
void act_turn(struct side *side);
void act_begin(struct side *side);
void act_commit(struct side *side);
void act_reject(struct side *side);
void act_note(struct side *side);
void act_compact(struct side *side);
void act_checkpoint(struct side *side);
void act_renew(struct side *side);
void act_release(struct side *side);
void act_steal(struct side *side);
/* cell.c: also tasks */
void act_admit(struct side *side);
void act_yield(struct side *side);
void act_end(struct side *side);
void act_bury(struct side *side);
void act_forget(struct side *side);
void act_cells(struct side *side);
void act_task_begin(struct side *side);
void act_task_end(struct side *side);
void act_task_get(struct side *side);
/* feature.c */
void act_feature_hold(struct side *side);
void act_feature_write(struct side *side);
void act_feature_release(struct side *side);
void act_feature_steal(struct side *side);
void act_feature_load(struct side *side);
void act_feature_events(struct side *side);
void act_feature_list(struct side *side);
/* Writes all features with their records to the log. */
void say_all_features(struct side *side);
/* look.c */
void act_list(struct side *side);
void act_page(struct side *side);
void act_show(struct side *side);
void act_turns(struct side *side);
void act_find(struct side *side);
void act_export(struct side *side);
void act_import(struct side *side);
void act_fork(struct side *side);
void act_delete(struct side *side);
void act_read_only(struct side *side);
/* Writes all sessions, with their exports, and all features to the log. */
void say_everything(struct side *side);

#endif
