/* Helpers of this room's tests: a folder for one store, held sessions, made-up turns, and this
 * program in other roles, as processes that can be killed. */
#ifndef BELAY_TESTS_STORE_HELPERS_H
#define BELAY_TESTS_STORE_HELPERS_H

#include <sys/types.h>

#include "fibers.h"
#include "store/sqlite/sqlite.h"

#define MS BL_NS_PER_MS

/* ---- A place for a store --------------------------------------------------------------------- */

struct place {
    char folder[64];
    char path[128];             /* folder/store.db */
    char where[256];            /* the address of the store: the path, or that of a database */
    char database[64];          /* its name; empty: a file */
    struct pg_proxy *proxy;     /* in front of the database; may be NULL */
    struct pg_bouncer *bouncer; /* between these; may be NULL */
};

void place_make(struct place *place);
/* Makes a place with an empty store in a database of the server that the tests share. Outside of
 * fibers; skips the test where no server is installed. */
void place_make_database(struct place *place);
/* Makes the store the file at the path of the place, which was changed. */
void place_use_file(struct place *place);
/* The same, with a proxy in front of the server. */
void place_make_proxied(struct place *place);
/* The same, with PgBouncer between the proxy and the server. */
void place_make_pooled(struct place *place);
void place_remove(struct place *place); /* with all its contents */
/* The same for its database alone. */
void place_drop_database(struct place *place);
/* At a place with a proxy: the next call of that function takes effect, and its answer is lost. */
void place_lose_answer(const struct place *place, const char *function);
/* The connection is cut at the next call of that function, and the call arrives later, after it was
 * repeated. Sleep for PLACE_LATE_NS until it has arrived. */
void place_deliver_late(const struct place *place, const char *function);
#define PLACE_LATE_NS (500 * MS)

/* Defines a test whose body is a fiber with its own place, which `make` makes. */
#define PLACE_TEST(name, unit, make)                                                               \
    static void unit(void **state BL_UNUSED)                                                       \
    {                                                                                              \
        struct place own;                                                                          \
        make(&own);                                                                                \
        run_in_loop(name##_main, &own);                                                            \
        place_remove(&own);                                                                        \
    }
#define PLACE_BODY(name)                                                                           \
    static void name##_body(struct place *place);                                                  \
    static int name##_main(void *argument)                                                         \
    {                                                                                              \
        name##_body(argument);                                                                     \
        return 0;                                                                                  \
    }

/* A test with a file; with a database; with a database behind a proxy. */
#define STORE_TEST(name)                                                                           \
    PLACE_BODY(name)                                                                               \
    PLACE_TEST(name, name, place_make)                                                             \
    static void name##_body(struct place *place)
#define POSTGRES_TEST(name)                                                                        \
    PLACE_BODY(name)                                                                               \
    PLACE_TEST(name, name, place_make_database)                                                    \
    static void name##_body(struct place *place)
#define PROXY_TEST(name)                                                                           \
    PLACE_BODY(name)                                                                               \
    PLACE_TEST(name, name, place_make_proxied)                                                     \
    static void name##_body(struct place *place)
/* The same behind a proxy, and as W7_`name` also through PgBouncer. POOL_UNITS lists both. */
#define POOL_TEST(name)                                                                            \
    PLACE_BODY(name)                                                                               \
    PLACE_TEST(name, name, place_make_proxied)                                                     \
    PLACE_TEST(name, W7_##name, place_make_pooled)                                                 \
    static void name##_body(struct place *place)
#define POOL_UNITS(name) cmocka_unit_test(name), cmocka_unit_test(W7_##name)
/* A test of what every form of the store does: `name` with a file, and `name`_on_postgres.
 * FORM_UNITS lists both in a suite. */
#define FORM_TEST(name)                                                                            \
    PLACE_BODY(name)                                                                               \
    PLACE_TEST(name, name, place_make)                                                             \
    PLACE_TEST(name, name##_on_postgres, place_make_database)                                      \
    static void name##_body(struct place *place)
#define FORM_UNITS(name) cmocka_unit_test(name), cmocka_unit_test(name##_on_postgres)

/* Opens the store, and checks that it succeeds. */
struct bl_store *store_at(const struct place *place);
/* The same, as a process of another host would. */
struct bl_store *store_on(const struct place *place, const char *host);
/* Creates a store with version 1 of the schema: session alpha with two turns, the first of which
 * the model does not see any more. */
void place_old_store(const struct place *place);

/* ---- A session held -------------------------------------------------------------------------- */

struct holding {
    struct bl_session session;
    struct bl_store_session *held; /* NULL: not held */
    const struct bl_turn_store *table;
    struct bl_error error;
};

/* Return the code of the hold. `id` NULL: a new session. */
int hold(struct holding *holding, struct bl_store *store, const char *id);
int hold_with(struct holding *holding, struct bl_store *store,
              const struct bl_store_hold_options *options);
void release(struct holding *holding); /* also if it is not held */

/* Turns that contain `turn_id`; return the store's code. */
int begin_turn(struct holding *holding, const char *turn_id);
int commit_turn(struct holding *holding, const char *turn_id);
int reject_turn(struct holding *holding, const char *turn_id);
/* Begins and commits a turn; checks that it succeeds. */
void add_turn(struct holding *holding, const char *turn_id);
void fill_settlement(struct bl_settlement *settlement, const char *turn_id);
/* Makes a summary with `text`, valid until the next call. */
struct bl_text make_summary(const char *text);
/* Compacts outside a turn: uses 3 and 1 tokens, and spends 4 and 1. */
int compact_session(struct holding *holding, uint64_t turns_dropped, const char *summary);
/* True if the opened session has that summary; NULL: has none. */
bool has_summary(const struct holding *holding, const char *text);

/* ---- Cells ----------------------------------------------------------------------------------- */

#define CELL_DAY_NS (24 * 3600 * (uint64_t)BL_NS_PER_S)

/* Makes an ended cell of generation 2, completed, which had yielded generation 1; valid until the
 * next call. */
struct bl_store_cell make_cell(const char *id);
/* Writes for such a cell; return the store's code. */
int admit_cell(struct holding *holding, const char *id);
int yield_cell(struct holding *holding, const char *id);
/* Ends it with a receipt. `key` NULL: no value is stored; `json` NULL: the key is deleted. */
int end_cell(struct holding *holding, const char *id, const char *key, const char *json);
int bury_cell(struct holding *holding, const char *id, int64_t wall_ns, uint64_t most);
/* Admits and ends a cell; checks that it succeeds. */
void add_ended_cell(struct holding *holding, const char *id);
/* Compares the loaded cells, with a mark after those not ended, and values: "c-1 c-2? | a=1 b=2".
 */
bool cells_are(struct holding *holding, const char *expected);

/* ---- A feature held (feature_test.c) --------------------------------------------------------- */

#define REPOSITORY "/home/somebody/project"
#define FEATURE    "FEAT-AUTH"

struct grasp {
    struct bl_store_feature *held; /* NULL: not held */
    struct bl_store_owner owner;
    struct bl_error error;
};

/* Like hold, for the repository above. */
int hold_feature(struct grasp *grasp, struct bl_store *store, const char *id);
int hold_feature_with(struct grasp *grasp, struct bl_store *store,
                      const struct bl_store_feature_options *options);
void release_feature(struct grasp *grasp);
/* Writes one durable record; `json` NULL: deletes it. */
int put_record(struct grasp *grasp, const char *name, const char *json);
/* Writes two records with the same text, and an event; `name`, `second` and `event` may be NULL. */
int put_records(struct grasp *grasp, const char *name, const char *json, const char *second,
                const char *event);
/* Compare the records of FEATURE, "a={} b={}", or its events with their numbers, "1={} 2={}". */
bool records_are(struct bl_store *store, const char *prefix, const char *expected);
bool events_are(struct bl_store *store, uint64_t after, uint64_t limit, const char *expected);
/* Reports the result of a write from a role (feature_owner_test.c). */
void report_write(struct grasp *grasp, int code);

/* ---- Contents of a file ---- */

/* Read one integer or text from the file or the database through a separate connection. */
int64_t ask_integer(const struct place *place, const char *sql);
void ask_text(const struct place *place, const char *sql, char *out, size_t out_size);
void change_file(const struct place *place, const char *sql);
/* Returns the statement for the form of the store. */
const char *form_sql(const struct place *place, const char *file_sql, const char *database_sql);
/* Returns the number of sessions that have a holder. */
int64_t held_sessions(const struct place *place);

/* Exports a session as text; free it with bl_buffer_done. */
int export_to(struct bl_store *store, const char *id, struct bl_buffer *out,
              struct bl_error *error);

/* ---- Roles ----------------------------------------------------------------------------------- */

#define REPORT_FD 3

struct actor {
    pid_t pid;
    int report; /* read end of its REPORT_FD */
};

/* Starts this program as `role` on the place, a file or a database; `argument` may be NULL.
 * `faulty`: with the library that makes syncs fail. */
void actor_start(struct actor *actor, const char *role, const struct place *place,
                 const char *argument, bool faulty);
/* Reads the next reported line, without its line feed. Returns false at the end. */
bool actor_line(struct actor *actor, char *out, size_t out_size);
void actor_expect(struct actor *actor, const char *line); /* checks */
void actor_kill(struct actor *actor);
/* Starts several processes in that role, which hold the same thing and report the code. Checks that
 * one of them gets it. */
void check_one_holds(const struct place *place, const char *role, const char *argument);
int actor_end(struct actor *actor); /* waits; returns its exit code, or -1 */

/* Reports a line from a role to the test. */
void report(const char *format, ...) BL_PRINTF(1, 2);

/* Runs this program in a role, when its first argument is "--role". Returns its exit code. */
int role_main(int argument_count, char **arguments);
int role_faults(void *argument);      /* faults_test.c; the argument is the fault */
int role_read_only(void *argument);   /* sqlite/open_test.c */
int role_cell_holder(void *argument); /* cell_test.c; so are the next two */
int role_cell_writer(void *argument);
int role_cell_faults(void *argument);  /* the argument is the fault */
int role_feature(void *argument);      /* feature_owner_test.c; the argument is the part */
int role_feature_disk(void *argument); /* sqlite/feature_test.c; the argument is the fault */
int role_task_owner(void *argument);   /* task_test.c */
int role_power_cut(void *argument);    /* power_cut_test.c */
int role_nth_sync(void *argument);     /* nth_sync_test.c */
/* Arms a fault of the disk (faulty.c), in a role. */
void arm(const char *name, int value);
/* Sessions of the role "writer"; its argument is their number. */
#define WRITERS_MAX 8
extern const char *const writer_ids[WRITERS_MAX];
/* State of the running role. */
extern struct place role_place;
extern const char *role_argument;

#endif
