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
/* Calls without an answer are repeated after a pause that doubles. */
#define FLEET_RETRY_MIN_NS (50 * BL_NS_PER_MS)
#define FLEET_RETRY_MAX_NS BL_NS_PER_S

static inline uint64_t fleet_retry_next(uint64_t pause_ns)
{
    return 2 * pause_ns > FLEET_RETRY_MAX_NS ? FLEET_RETRY_MAX_NS : 2 * pause_ns;
}

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

/* ---- member.c ---- */

/* Seeds from the system if the seed is 0. */
void fleet_random_seed(struct bl_random *random, uint64_t seed);

/* What a worker learns from its heartbeats. Called in their fiber; must not wait. */
struct fleet_hooks {
    void (*sent)(void *context); /* one is about to be sent */
    /* It was answered, and the lease holds. */
    void (*answered)(void *context, const struct bl_fleet_beat *beat);
    /* The lease is lost; the scope of the work is stopped after it returns. */
    void (*lost)(void *context, const char *origin);
    void *context;
};

/* bl_fleet_join, with hooks (NULL: none). */
int fleet_join(const struct bl_fleet_options *options, const struct fleet_hooks *hooks,
               struct bl_fleet_member **ret_member, struct bl_error *error);
/* Asks for a heartbeat as soon as possible. NULL is allowed. */
void fleet_hasten(struct bl_fleet_member *member);
/* How long a call waits for its answer: never past the time at which the work is stopped. */
uint64_t fleet_answer_ns(const struct bl_fleet_member *member);

/* ---- held.c: stops of what a member holds that claims no items ---- */

struct fleet_held;

/* The options are the member's. Returns the member's hooks in `*ret_hooks`. */
struct fleet_held *fleet_held_new(struct bl_fleet_member *member,
                                  const struct bl_fleet_options *options,
                                  struct fleet_hooks *ret_hooks);
/* Listens for stops, so that they need not wait for the next heartbeat. */
int fleet_held_listen(struct fleet_held *held);
/* Sends the answers that are left, in a bounded time. NULL is allowed. */
void fleet_held_free(struct fleet_held *held);

/* ---- worker.c: claims, heartbeats, drain ---- */

/* working -> draining -> returning */
enum fleet_phase {
    FLEET_WORKING,
    FLEET_DRAINING,  /* claims nothing more; tries may end */
    FLEET_RETURNING, /* tries are stopped and given back */
};

/* A worker joins, and joins again after it was taken over: each time it has another life, with a
 * scope, a member and fibers of its own, and no knowledge of the life before.
 *
 * Answers of the store arrive in any order. So what happens here is numbered, and an answer is
 * compared with what had happened when its question was sent. */
struct bl_fleet_worker {
    struct bl_fleet_worker_options options;
    struct bl_random random;
    struct bl_scope life; /* below the work's scope; of tries */
    struct bl_stop_hook life_hook;
    struct bl_scope shield;
    struct bl_nursery service; /* all fibers */
    struct bl_fleet_member *member;
    enum fleet_phase phase;
    unsigned drains;            /* calls of bl_fleet_drain */
    uint64_t drain_until_ns;    /* FLEET_DRAINING */
    uint64_t idle_since_ns;     /* nothing ran or was claimed */
    bool stopped;               /* by a stop from outside; its ends are not waited for forever: */
    uint64_t give_up_ns;        /* until then */
    struct bl_semaphore moved;  /* something changed for the fiber of bl_fleet_work */
    struct bl_semaphore wanted; /* at most one unit: a claim */
    bool woken;                 /* by the store, like other workers */
    uint32_t workers_live;
    uint64_t events;       /* numbers what happens */
    uint64_t sent;         /* number of the events before the newest heartbeat was sent */
    uint64_t claimed;      /* number of the end of the newest claim */
    bool claiming;         /* one is under way */
    bool doubt;            /* items may be owned that are not known here: nothing is claimed */
    uint64_t doubted;      /* number of its begin */
    bool over;             /* the life ends: heartbeats mean nothing any more */
    bool clean;            /* a heartbeat showed that nothing is held */
    uint32_t busy;         /* slots */
    struct bl_list tries;  /* struct fleet_try: have not ended */
    struct bl_list ended;  /* until a heartbeat that was sent after their end was answered */
    struct bl_list orders; /* struct fleet_order */
};

/* Wakes the fiber of bl_fleet_work. */
void fleet_worker_move(struct bl_fleet_worker *worker);
/* Asks for a claim, if there is a free slot. */
void fleet_worker_want(struct bl_fleet_worker *worker);
/* Items may be owned that do not run here: nothing is claimed until a heartbeat has shown them. */
void fleet_worker_doubt(struct bl_fleet_worker *worker);
bool fleet_worker_lost(const struct bl_fleet_worker *worker);
/* Waits before a call is repeated. False: it is not to be repeated, because the lease is lost or the
 * time after a stop is up. */
bool fleet_worker_pause(struct bl_fleet_worker *worker, uint64_t *pause_ns);

/* ---- try.c: one try of an item ---- */

/* taking  --took--------------------------------> running --end--> ending --recorded--> ended
 * taking  --stopped before it ran--------------------------------> ending
 * taking  --not owned any more, or unknown--------------------------------------------> ended
 *
 * An order, a drain or the loss of the lease stops the scope, and the try goes the same way. If it is
 * not owned any more, it goes from running to ended. */
enum fleet_try_state {
    FLEET_TRY_TAKING,
    FLEET_TRY_RUNNING,
    FLEET_TRY_ENDING,
    FLEET_TRY_ENDED,
};

struct fleet_try {
    struct bl_fleet_try one; /* its link: in the worker's `tries`, then `ended` */
    struct bl_fleet_worker *worker;
    struct bl_fleet_item item;
    struct bl_scope scope;
    struct bl_arena arena;
    enum fleet_try_state state;
    uint64_t moved;  /* number of its last change of state */
    bool owned_only; /* taken from the answer of a heartbeat: it has to be resumed */
    bool asked;      /* an order stops all of it */
    bool lost;       /* it is not owned any more: its end is not recorded */
    bool returned;   /* it was stopped to be given back */
    bool recorded;   /* its end is in the store */
    /* The next try of the same item waits until this one has ended. */
    struct fleet_try *next;
    struct bl_semaphore turn;
    struct bl_list orders; /* struct fleet_order, that wait for its end or read it */
    uint32_t parts;        /* orders that stop a part of it now, and read it */
    struct bl_semaphore parts_ended;
    /* Known from its end on, and kept when the arena is freed. */
    struct bl_arena kept;
    const char *fate; /* NULL: it never ran, and whether it is owned is not known here */
    struct bl_text receipt;
};

/* Starts a try of a claimed item, which is copied; the claim was sent at `sent_ns`. */
void fleet_try_claimed(struct bl_fleet_worker *worker, const struct bl_fleet_item *item,
                       uint64_t sent_ns);
/* Starts a try of an item that the worker owns and does not run. */
void fleet_try_owned(struct bl_fleet_worker *worker, const struct bl_fleet_owned *owned);
/* Returns the try of an item that has not ended, or the last that has; NULL: there is none. */
struct fleet_try *fleet_try_find(const struct bl_fleet_worker *worker, const char *item);
/* Stops a try because the worker does not own the item any more. */
void fleet_try_lose(struct fleet_try *one, const char *origin);
/* Stops a try, which is then given back. */
void fleet_try_return(struct fleet_try *one);
/* Frees a try without a fiber. */
void fleet_try_free(struct fleet_try *one);
/* Returns the fate of work that was stopped, from its receipt (may be empty). */
const char *fleet_fate(struct bl_text receipt);

/* ---- order.c: stops that others ask for ---- */

/* An order is carried out once, in a fiber of its own, and is known until a heartbeat does not
 * repeat it any more. */
struct fleet_order {
    struct bl_list link;    /* in the worker's `orders` */
    struct bl_list waiting; /* in the try's `orders`; initialised: none */
    struct bl_fleet_worker *worker;
    struct bl_fleet_order order; /* in the arena */
    struct bl_arena arena;
    struct fleet_try *one; /* NULL: none */
    bool afterwards;       /* the try had ended when the order came */
    struct bl_semaphore ended;
    /* The end of the try was not recorded: it may be owned under another epoch, by a call that
     * arrived late. The next heartbeat shows whether it is, and the order begins again. */
    bool dropped;
    bool answered;
    uint64_t moved; /* number of its answer */
};

/* The copy is in the arena. */
void fleet_order_copy(struct bl_arena *arena, const struct bl_fleet_order *from,
                      struct bl_fleet_order *ret_order);
/* Sends the answer to an order, once. */
int fleet_order_answer(const struct bl_fleet_store *store, const struct bl_fleet_member *member,
                       const struct bl_fleet_order *order, const char *fate,
                       struct bl_text receipt);
/* Carries out the orders of a heartbeat that are new. */
void fleet_orders_take(struct bl_fleet_worker *worker, const struct bl_fleet_beat *beat);
/* Forgets those that were answered before the heartbeat was sent. */
void fleet_orders_purge(struct bl_fleet_worker *worker);
void fleet_orders_free(struct bl_fleet_worker *worker);
/* A try has ended: its orders can be answered. */
void fleet_orders_wake(struct fleet_try *one);

#endif
