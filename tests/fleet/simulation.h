/* A simulated store for workers, on virtual time: rows of workers and items, and a network that loses
 * and delays calls. */
#ifndef BELAY_TESTS_FLEET_SIMULATION_H
#define BELAY_TESTS_FLEET_SIMULATION_H

#include <belay/fleet.h>

#include "fibers.h"

#define MS          BL_NS_PER_MS
#define SECOND      BL_NS_PER_S
#define LEASE       (6 * SECOND)
#define RENEW       (1 * SECOND)
#define WORKERS_MAX 24u
#define ITEMS_MAX   256u
#define BODIES_MAX  8u
#define DEATHS_MAX  3u
#define GRACE       (200 * MS)

/* What the network does to the next calls of a worker. */
enum sim_fault {
    SIM_NONE,
    SIM_LOST,   /* the call does not arrive; the caller learns at once that it is cut off */
    SIM_SILENT, /* the call does not arrive; the caller waits */
    SIM_LATE,   /* the call takes effect, and its answer does not arrive */
    SIM_SLOW,   /* both take SIM_SLOW_NS */
    SIM_UNEVEN, /* each takes a random time below SIM_SLOW_NS */
    SIM_FAULTS, /* of heartbeats */
    SIM_AFTER =
        SIM_FAULTS, /* a claim, a resume, a finish or an answer takes effect after the caller
                               gave it up */
    SIM_QUEUE_FAULTS,
};

#define SIM_SLOW_NS (200 * MS)

struct sim_server;
struct sim_worker;

/* A fiber that runs an item. */
struct sim_body {
    struct sim_worker *worker; /* NULL: none */
    uint64_t epoch;
    bool ghost; /* its worker was frozen meanwhile */
};

/* An item, and the one stop that it may have. */
struct sim_item {
    char id[16];
    enum bl_fleet_state state;
    char owner[24]; /* empty: none */
    uint64_t epoch;
    uint32_t tries, deaths;
    uint64_t run_at_ns;
    uint64_t timeout_ns; /* 0: none */
    uint64_t deadline_ns;
    bool late; /* the claim arrived after its worker gave it up */
    unsigned ends;
    struct bl_fleet_end end;
    /* What its runs do. */
    uint64_t length_ns;
    uint64_t linger_ns; /* after a stop */
    uint32_t fails;     /* tries that fail and may be repeated */
    bool fails_late;    /* it fails so when it is stopped */
    bool deadly;        /* kills its worker */
    /* Its stop. */
    bool stopped;
    char stopped_by[8];  /* id of the stop */
    char stopped_at[24]; /* worker; empty: it did not run */
    bool now;
    bool fenced;
    char fate[16]; /* empty: not answered */
    char receipt[200];
    /* What was seen. */
    unsigned runs;
    unsigned claims;
    unsigned answers; /* to its stop */
    uint64_t stop_ns; /* when the last run was stopped; 0: it was not */
    enum bl_stop_reason reason;
    unsigned hurried;
    struct sim_body bodies[BODIES_MAX];
};

struct sim_worker {
    struct sim_server *server;
    char id[24];
    /* The row. */
    uint64_t beat;
    uint64_t beat_at_ns;
    bool renewed; /* its newest heartbeat was answered */
    bool lost;
    /* Its side. */
    enum sim_fault fault;
    uint64_t connection;
    int64_t drift_ppm; /* of its clock */
    uint64_t jump_ns;  /* suspended time: its clock continues, and its fibers do not run */
    uint64_t wardens_ns;
    unsigned beats;
    struct bl_fleet_store table;
    struct bl_scope work;
    struct bl_fleet_member *member;
    bool deaf;        /* its takeovers take no effect and have no answer */
    unsigned tries;   /* takeovers */
    unsigned taken;   /* workers that it took over */
    uint64_t lost_ns; /* when it was taken over */
    /* Of a worker that claims. */
    bool place;
    bool draining;
    bool gone;
    bool told;      /* that it was taken over: its next heartbeat registers it again */
    unsigned lives; /* rows */
    bool frozen;    /* none of its fibers runs: its work does not see stops */
    bool dead;      /* killed: its fibers do nothing any more */
    bool mute;      /* it is not woken */
    uint32_t slots;
    uint32_t running; /* bodies */
    unsigned claims;
    unsigned resumes;
    unsigned refused; /* ends */
    bool refuses;     /* calls but heartbeats fail at once */
    bool unanswered;  /* drop the answer of the next claim */
    struct bl_semaphore wake;
    struct bl_fleet_worker *worker;
    int result; /* of bl_fleet_work; 1: it has not returned */
    struct bl_fleet_retries retries;
    /* An order for a part or a session. */
    const char *order_item, *order_part;
    char order_fate[16];
    unsigned part_stops, session_stops;
};

struct sim_server {
    struct sim_worker workers[WORKERS_MAX];
    unsigned count;
    uint64_t starts; /* of the server */
    bool down;
    struct sim_item items[ITEMS_MAX];
    unsigned item_count;
    unsigned takeovers;
    unsigned stop_count;
    unsigned long long seed;
    bool traced; /* to standard error */
    struct bl_random random;
    struct bl_nursery fibers; /* of workers, and calls that arrive late */
};

void sim_init(struct sim_server *server);
/* Ends all workers, and frees the server. */
void sim_close(struct sim_server *server);
/* Adds a worker and its table; it has not joined. */
struct sim_worker *sim_add(struct sim_server *server);
/* Joins with this grace period; checks that it succeeds. */
void sim_join(struct sim_worker *worker, uint64_t grace_ns);
void sim_leave(struct sim_worker *worker);
/* For `stop_session`: only session_1 is at work. */
bool sim_stop_session(void *worker, const struct bl_fleet_order *order, struct bl_arena *arena,
                      struct bl_text *ret_receipt);
/* Time of the worker's own clock. */
uint64_t sim_now(void *worker);
void sim_set_wardens(void *worker, uint64_t until_ns);

/* A test on virtual time, with a server of its own. */
#define FLEET_TEST(name)                                                                           \
    static void name##_body(struct sim_server *server);                                            \
    static int name##_main(void *argument)                                                         \
    {                                                                                              \
        struct sim_server *server = bl_alloc(sizeof *server);                                      \
        (void)argument;                                                                            \
        sim_init(server);                                                                          \
        name##_body(server);                                                                       \
        sim_close(server);                                                                         \
        return 0;                                                                                  \
    }                                                                                              \
    static void name(void **state BL_UNUSED)                                                       \
    {                                                                                              \
        run_in_virtual_loop(1, name##_main, NULL);                                                 \
    }                                                                                              \
    static void name##_body(struct sim_server *server)

/* ---- The network ---- */

/* Returns 0 if the call arrives. */
int sim_travel(struct sim_worker *worker);
/* Returns 0 if the answer arrives. */
int sim_return(struct sim_worker *worker);

/* ---- The queue: simulation_queue.c ---- */

void sim_queue_table(struct bl_fleet_store *table);
/* Part of a heartbeat's answer, and of a takeover. */
void sim_queue_beat(struct sim_worker *worker, struct bl_arena *arena,
                    struct bl_fleet_beat *ret_beat);
void sim_queue_take_over(struct sim_server *server, const char *owner);
void sim_queue_leave(struct sim_server *server, const char *owner);
struct sim_item *sim_offer(struct sim_server *server, uint64_t length_ns);
/* Returns false if the item has ended before. */
bool sim_stop(struct sim_server *server, struct sim_item *item, bool now);
struct sim_worker *sim_owner(const struct sim_server *server, const struct sim_item *item);
/* Checks a rule of a play; a broken one is reported with the seed. */
bool sim_rule(struct sim_server *server, bool holds, const char *rule, const char *of);

void sim_trace(const struct sim_server *server, const char *format, ...) BL_PRINTF(2, 3);

/* ---- Workers at work: simulation_work.c ---- */

/* Adds a worker and runs bl_fleet_work in a fiber. */
struct sim_worker *sim_work(struct sim_server *server, uint32_t slots, uint64_t drain_ns,
                            uint64_t until_idle_ns);
/* Ends the worker and its work, which has no time to do anything about it. */
void sim_kill(struct sim_worker *worker);
void sim_freeze(struct sim_worker *worker, bool frozen);
/* Stops all faults and waits until all items have ended; then drains all workers, and checks the rules
 * of the end. */
void sim_settle(struct sim_server *server);

#endif
