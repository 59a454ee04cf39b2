/* The queue of a fleet: `belay submit`, `belay wait` and `belay worker`. An item of the queue is
 * described by a record (item.c), which submit writes and a worker reads; docs/schemas/item.json is
 * its schema. */
#ifndef BELAY_CLI_QUEUE_H
#define BELAY_CLI_QUEUE_H

#include <belay/fleet.h>

#include "cli/run/run.h"

#define QUEUE_PRIORITY_MOST 9
#define QUEUE_WEIGHT_MOST   1000
#define QUEUE_RETRY_MOST    100
#define QUEUE_RETRY_DEFAULT 3
#define QUEUE_RETRY_NS      (10 * BL_NS_PER_S)
#define QUEUE_LABELS_MOST   32
#define QUEUE_DRAIN_NS      (600 * BL_NS_PER_S)
#define QUEUE_SLOTS_MOST    1024
#define QUEUE_POOL          "main"
#define QUEUE_SPEC_MAX      ((size_t)33 * 1024 * 1024)

/* ---- Items ----------------------------------------------------------------------------------- */

struct queue_item {
    struct bl_run_request run;
    const char *kind;
    const char *pool;
    const char *const *labels;
    const char *key; /* NULL: none; likewise the texts below */
    double weight;   /* 0: none */
    int32_t priority;
    const char *limit_key;
    uint64_t delay_ns; /* 0: none */
    const char *at;
    uint32_t retry; /* 0: not retried */
    bool retry_delayed;
    uint64_t retry_delay_ns;
    const char *const *retry_on;
    const char *directory;
    const char *trace_parent;
};

extern const struct bl_record queue_item_record;
extern const struct bl_form queue_label_form, queue_time_form, queue_trace_form,
    queue_directory_form;

/* Reads an item into the arena, with defaults for what it does not say. BL_EPARSE, kind parse. */
int queue_item_read(struct bl_arena *arena, struct bl_text spec, struct queue_item *ret_item,
                    struct bl_error *error);
/* Returns whether items can be retried after an end of that name. */
bool queue_item_may_retry(struct bl_text end);
/* Returns whether the item is retried after such an end. */
bool queue_item_retried(const struct queue_item *item, const char *end);

/* Checks the values of --label. */
int queue_check_labels(const char *const *labels, size_t count, struct bl_error *error);

/* ---- Commands -------------------------------------------------------------------------------- */

/* The shared options come first. */
struct submit_options {
    struct run_options run;
    const char *pool;
    const char *const *labels;
    size_t label_count;
    const char *key;
    double weight;     /* 0: none */
    unsigned priority; /* above -QUEUE_PRIORITY_MOST */
    const char *limit_key;
    uint64_t delay_ns;
    const char *at;
    uint32_t retry;
    uint64_t retry_delay_ns;
    bool retry_delayed;
    const char *retry_on;
    const char *directory;
    const char *trace_parent;
    bool wait;
};

struct wait_options {
    const char *id;
    const char *store; /* NULL if none is named */
    uint64_t timeout_ns;
    bool timed;
};

struct worker_options {
    struct run_options run;
    const char *pool;
    const char *const *labels;
    size_t label_count;
    uint32_t slots;
    uint64_t drain_ns;
    uint64_t until_idle_ns;
};

_Static_assert(offsetof(struct submit_options, run) == 0 &&
                   offsetof(struct worker_options, run) == 0,
               "the tables of options that they share have offsets in struct run_options");

/* ---- Waiting --------------------------------------------------------------------------------- */

/* A wait for the end of an item. */
struct queue_wait {
    const struct cli_call *call;
    const char *id;
    bool timed;
    uint64_t timeout_ns;
    struct bl_arena arena;
    struct bl_fleet_view view; /* of the item, once it has ended */
};

/* Waits in the running fiber and its scope. Returns 0 when the item has ended; BL_EAGAIN if the
 * timeout was reached first; BL_ECANCELED; or another error. */
int queue_wait_for(struct queue_wait *wait, const struct bl_fleet_store *table,
                   struct bl_error *error);
/* Prints the answer of an ended item: in JSON the envelope, unchanged. Returns its exit code. */
int queue_wait_print(struct queue_wait *wait);
/* Reports that the command was stopped by the signal, and that the item was not. Returns the exit
 * code. */
int queue_wait_left(const struct queue_wait *wait, int signal_number);

/* ---- Running --------------------------------------------------------------------------------- */

/* What all items of a worker share. */
struct queue_runner {
    struct bl_runtime *runtime;
    struct bl_activities *activities;
    const struct cli_call *call;
    const char *folder; /* of the items' own directories */
    void (*begun)(void *context, const struct bl_fleet_item *item);
    void (*ended)(void *context, const struct bl_fleet_try *one);
    void *context;
};

/* For struct bl_fleet_worker_options; the context is a struct queue_runner. */
void queue_run(void *context, struct bl_fleet_try *one);
void queue_ended(void *context, const struct bl_fleet_try *one);
struct bl_fleet_retries queue_retries(void *context, const struct bl_fleet_item *item);
void queue_hurry(void *context, struct bl_fleet_try *one);
bool queue_stop_part(void *context, struct bl_fleet_try *one, const struct bl_fleet_order *order,
                     struct bl_arena *arena, struct bl_text *ret_receipt);

/* An empty directory for an item, which no other process removes while it is open. The functions
 * run on a thread, even if the fiber is stopped. */
struct queue_directory {
    char path[4096];
    int lock; /* -1: none */
};

int queue_directory_make(const char *folder, struct queue_directory *ret_directory,
                         struct bl_error *error);
/* Removes it with its contents. */
int queue_directory_remove(struct queue_directory *directory, struct bl_error *error);
/* Removes those that processes which were killed have left in the folder. */
void queue_directory_clean(const char *folder);

#endif
