/* A simulated store for workers, on virtual time: rows of workers, and a network that loses and
 * delays heartbeats. */
#ifndef BELAY_TESTS_FLEET_SIMULATION_H
#define BELAY_TESTS_FLEET_SIMULATION_H

#include <belay/fleet.h>

#include "fibers.h"

#define MS          BL_NS_PER_MS
#define SECOND      BL_NS_PER_S
#define LEASE       (6 * SECOND)
#define RENEW       (1 * SECOND)
#define WORKERS_MAX 8u

/* What the network does to the next calls of a worker. */
enum sim_fault {
    SIM_NONE,
    SIM_LOST,   /* the call does not arrive; the caller learns at once that it is cut off */
    SIM_SILENT, /* the call does not arrive; the caller waits */
    SIM_LATE,   /* the call takes effect, and its answer does not arrive */
    SIM_SLOW,   /* both take SIM_SLOW_NS */
    SIM_FAULTS,
};

#define SIM_SLOW_NS (200 * MS)

struct sim_server;

struct sim_worker {
    struct sim_server *server;
    char id[16];
    /* The row. */
    uint64_t beat;
    uint64_t beat_at_ns;
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
};

struct sim_server {
    struct sim_worker workers[WORKERS_MAX];
    unsigned count;
    uint64_t starts; /* of the server */
};

void sim_init(struct sim_server *server);
/* Adds a worker and its table; it has not joined. */
struct sim_worker *sim_add(struct sim_server *server);
/* Joins with this grace period; checks that it succeeds. */
void sim_join(struct sim_worker *worker, uint64_t grace_ns);
void sim_leave(struct sim_worker *worker);
/* Time of the worker's own clock. */
uint64_t sim_now(void *worker);

#endif
