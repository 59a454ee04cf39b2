/* What the tests of this room share: a folder for one store, sessions held in it, turns made up,
 * and this same program in other roles: processes that can be shot. */
#ifndef BELAY_TESTS_STORE_HELPERS_H
#define BELAY_TESTS_STORE_HELPERS_H

#include <sys/types.h>

#include "fibers.h"
#include "store/sqlite/sqlite.h"

#define MS BL_NS_PER_MS

/* ---- A place for a store --------------------------------------------------------------------- */

struct place {
    char folder[64];
    char path[128]; /* folder/store.db */
};

void place_make(struct place *place);
void place_remove(struct place *place); /* with all that is in it */

/* A test whose body is a fiber, with a place of its own. */
#define STORE_TEST(name)                                                                           \
    static void name##_body(struct place *place);                                                  \
    static int name##_main(void *argument)                                                         \
    {                                                                                              \
        name##_body(argument);                                                                     \
        return 0;                                                                                  \
    }                                                                                              \
    static void name(void **state BL_UNUSED)                                                       \
    {                                                                                              \
        struct place own;                                                                          \
        place_make(&own);                                                                          \
        run_in_loop(name##_main, &own);                                                            \
        place_remove(&own);                                                                        \
    }                                                                                              \
    static void name##_body(struct place *place)

/* Opens it, and checks that it works. */
struct bl_store *store_at(const struct place *place);
/* Makes a store as version 1 of its schema had it: session alpha of two turns, the first of which
 * the model does not see any more. */
void place_old_store(const struct place *place);

/* ---- A session held -------------------------------------------------------------------------- */

struct holding {
    struct bl_session session;
    struct bl_store_session *held; /* NULL: not */
    const struct bl_turn_store *table;
    struct bl_error error;
};

/* Returns the code of the hold. `id` NULL: a new one. */
int hold(struct holding *holding, struct bl_store *store, const char *id);
int hold_with(struct holding *holding, struct bl_store *store,
              const struct bl_store_hold_options *options);
void let_go(struct holding *holding); /* also when it is not held */

/* Turns that say `turn_id`; the code of the store. */
int begin_turn(struct holding *holding, const char *turn_id);
int commit_turn(struct holding *holding, const char *turn_id);
int reject_turn(struct holding *holding, const char *turn_id);
/* Begins and commits; checks that it works. */
void add_turn(struct holding *holding, const char *turn_id);
void fill_settlement(struct bl_settlement *settlement, const char *turn_id);
/* A summary that says `text`; stays until the next. */
struct bl_text make_summary(const char *text);
/* A compaction that is no turn's: uses 3 and 1 tokens, and spends 4 and 1. */
int compact_session(struct holding *holding, uint64_t turns_dropped, const char *summary);
/* The session as it was opened has that summary; NULL: it has none. */
bool has_summary(const struct holding *holding, const char *text);

/* ---- Cells ----------------------------------------------------------------------------------- */

#define CELL_DAY_NS (24 * 3600 * (uint64_t)BL_NS_PER_S)

/* An ended one of generation 2, completed, that had yielded generation 1; stays until the next. */
struct bl_store_cell make_cell(const char *id);
/* What is written of such a one; the code of the store. */
int admit_cell(struct holding *holding, const char *id);
int yield_cell(struct holding *holding, const char *id);
/* With a receipt. `key` NULL: nothing is stored; `json` NULL: the key is deleted. */
int end_cell(struct holding *holding, const char *id, const char *key, const char *json);
int bury_cell(struct holding *holding, const char *id, int64_t wall_ns, uint64_t most);
/* Admits and ends; checks that it works. */
void add_ended_cell(struct holding *holding, const char *id);
/* What is loaded: cells, those that have not ended with a mark, and values: "c-1 c-2? | a=1 b=2".
 */
bool cells_are(struct holding *holding, const char *expected);

/* ---- A feature held (feature_test.c) --------------------------------------------------------- */

#define REPOSITORY "/home/somebody/project"
#define FEATURE    "FEAT-AUTH"

struct grasp {
    struct bl_store_feature *held; /* NULL: not */
    struct bl_store_owner owner;
    struct bl_error error;
};

/* As hold; of the repository above. */
int grasp_feature(struct grasp *grasp, struct bl_store *store, const char *id);
int grasp_with(struct grasp *grasp, struct bl_store *store,
               const struct bl_store_feature_options *options);
void loosen(struct grasp *grasp);
/* One record, durable; `json` NULL: it goes. */
int put_record(struct grasp *grasp, const char *name, const char *json);
/* Two records with the same text, and an event; `name`, `second` and `event` may be NULL. */
int put_records(struct grasp *grasp, const char *name, const char *json, const char *second,
                const char *event);
/* What is in the store of FEATURE: "a={} b={}", and with the numbers of events "1={} 2={}". */
bool records_are(struct bl_store *store, const char *prefix, const char *expected);
bool events_are(struct bl_store *store, uint64_t after, uint64_t limit, const char *expected);

/* ---- What is in a file ----------------------------------------------------------------------- */

/* One integer or text of the file, by a connection of the test's own. */
int64_t ask_integer(const struct place *place, const char *sql);
void ask_text(const struct place *place, const char *sql, char *out, size_t out_size);
void change_file(const struct place *place, const char *sql);

/* A whole session as text; freed by bl_buffer_done. */
int export_to(struct bl_store *store, const char *id, struct bl_buffer *out,
              struct bl_error *error);

/* ---- Roles ----------------------------------------------------------------------------------- */

#define REPORT_FD 3

struct actor {
    pid_t pid;
    int report; /* the read end of its REPORT_FD */
};

/* Starts this program as `role` on the place; `argument` may be NULL. `faulty`: with the library
 * that makes syncs fail. */
void actor_start(struct actor *actor, const char *role, const struct place *place,
                 const char *argument, bool faulty);
/* The next line that it reports, without its line feed; false: it has ended. */
bool actor_line(struct actor *actor, char *out, size_t out_size);
void actor_expect(struct actor *actor, const char *line); /* checks */
void actor_kill(struct actor *actor);
int actor_end(struct actor *actor); /* waits; its exit code, or -1 */

/* What a role says to the test. */
void report(const char *format, ...) BL_PRINTF(1, 2);

/* What this program does when its first argument is "--role". Returns its exit code. */
int role_main(int argument_count, char **arguments);
int role_faults(void *argument);      /* faults_test.c; the name of the fault */
int role_read_only(void *argument);   /* sqlite_open_test.c */
int role_cell_holder(void *argument); /* cell_test.c, as the next two */
int role_cell_writer(void *argument);
int role_cell_faults(void *argument); /* what goes wrong is the role's argument */
int role_feature(void *argument);     /* sqlite_feature_test.c, as the last */
int role_task_owner(void *argument);  /* task_test.c */
int role_power_cut(void *argument);   /* power_cut_test.c */
int role_nth_sync(void *argument);    /* nth_sync_test.c */
/* In a role whose disk is to fail (faulty.c): from now on. */
void arm(const char *name, int value);
/* Sessions that the role "writer" writes to; its argument says how many. */
#define WRITERS_MAX 8
extern const char *const writer_ids[WRITERS_MAX];
/* Of the role that runs. */
extern struct place role_place;
extern const char *role_argument;

#endif
