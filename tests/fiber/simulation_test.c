/* Random trees of fibers in virtual time, from a seed: they sleep, nest scopes and shields, move
 * deadlines, claim, spawn, and stop each other. A model of the scopes, a plain tree, is updated by
 * the rules as they are written; after each step all scopes must agree with the model. */
#include <stdlib.h>

#include "fibers.h"

#define MS           BL_NS_PER_MS
#define DEPTH_MAX    5
#define FIBERS_MAX   60
#define STEPS_MAX    8
#define CLEAN_UP_MAX (30 * MS)

struct node {
    struct bl_list link; /* in the world */
    struct bl_scope *scope;
    struct node *parent;
    bool shield;
    bool claimed;
    uint64_t deadline_ns;
    struct bl_stop stop;
};

struct world {
    struct bl_list nodes; /* parents before children */
    size_t node_count;
    struct bl_random random;
    unsigned fibers;
    unsigned running;
    unsigned long stops;
    unsigned long claims;
    unsigned long waits_cut;
};

struct actor {
    struct world *world;
    struct node *node;
    unsigned depth;
};

static bool chance(struct world *world, unsigned percent)
{
    return bl_random_below(&world->random, 100) < percent;
}

/* ---- The model ---- */

static bool model_stop(struct world *world, struct node *node, enum bl_stop_reason reason,
                       const char *origin, uint64_t time_ns)
{
    if (node->stop.reason != BL_STOP_NONE || node->claimed)
        return false;
    node->stop.reason = reason;
    node->stop.time_ns = time_ns;
    memcpy(node->stop.origin, origin, strlen(origin) + 1);
    enum bl_stop_reason below = reason == BL_STOP_TIMEOUT ? reason : BL_STOP_PARENT;
    BL_LIST_EACH (link, &world->nodes) {
        struct node *child = BL_CONTAINER(link, struct node, link);
        if (child->parent == node && !child->shield)
            model_stop(world, child, below, origin, time_ns);
    }
    return true;
}

/* Fires the deadlines that have passed, earliest first. */
static void model_sync(struct world *world)
{
    for (;;) {
        struct node *due = NULL;
        BL_LIST_EACH (link, &world->nodes) {
            struct node *node = BL_CONTAINER(link, struct node, link);
            if (node->stop.reason == BL_STOP_NONE && !node->claimed &&
                node->deadline_ns <= bl_now_ns() &&
                (due == NULL || node->deadline_ns < due->deadline_ns))
                due = node;
        }
        if (due == NULL)
            return;
        model_stop(world, due, BL_STOP_TIMEOUT, "deadline", due->deadline_ns);
    }
}

static void node_add(struct world *world, struct node *node, struct bl_scope *scope,
                     struct node *parent, bool shield)
{
    *node = (struct node){.scope = scope, .parent = parent, .shield = shield};
    node->deadline_ns = BL_NEVER;
    bl_list_push_back(&world->nodes, &node->link);
    world->node_count++;
    if (parent != NULL && !shield && parent->stop.reason != BL_STOP_NONE)
        model_stop(world, node,
                   parent->stop.reason == BL_STOP_TIMEOUT ? BL_STOP_TIMEOUT : BL_STOP_PARENT,
                   parent->stop.origin, parent->stop.time_ns);
}

static void node_remove(struct world *world, struct node *node)
{
    bl_list_remove(&node->link);
    world->node_count--;
}

static int model_code(const struct node *node)
{
    if (node->stop.reason == BL_STOP_NONE)
        return 0;
    return node->stop.reason == BL_STOP_TIMEOUT ? BL_ETIMEDOUT : BL_ECANCELED;
}

static void compare(struct world *world)
{
    model_sync(world);
    BL_LIST_EACH (link, &world->nodes) {
        struct node *node = BL_CONTAINER(link, struct node, link);
        struct bl_stop stop;
        bl_scope_stop_read(node->scope, &stop);
        CHECK_EQUAL(bl_scope_stopped(node->scope), node->stop.reason != BL_STOP_NONE);
        CHECK_EQUAL(stop.reason, node->stop.reason);
        CHECK_EQUAL(stop.time_ns, node->stop.time_ns);
        CHECK(strcmp(stop.origin, node->stop.origin) == 0);
        CHECK_EQUAL(atomic_load(&node->scope->state) == BL_SCOPE_CLAIMED, node->claimed);
    }
}

/* ---- Actions ---- */

static int act(struct actor *actor);

/* Rule 1: a sleep ends at once in a stopped scope; otherwise at its end or at the stop. */
static void step_sleep(struct actor *actor)
{
    uint64_t start_ns = bl_now_ns();
    uint64_t duration_ns = bl_random_below(&actor->world->random, 20) * MS;
    int before = model_code(actor->node);
    int code = bl_sleep(duration_ns);
    compare(actor->world);
    if (before != 0) {
        CHECK_EQUAL(code, before);
        CHECK_EQUAL(bl_now_ns(), start_ns);
    } else if (code != 0) {
        CHECK_EQUAL(code, model_code(actor->node));
        CHECK_EQUAL(bl_now_ns(), actor->node->stop.time_ns);
        actor->world->waits_cut++;
    } else {
        CHECK_EQUAL(bl_now_ns(), start_ns + duration_ns);
    }
}

/* A stop that arrives while other fibers run is reported by the next call. */
static void step_yield(struct actor *actor)
{
    int before = model_code(actor->node);
    CHECK_EQUAL(bl_yield(), before);
}

static void step_stop(struct actor *actor)
{
    struct world *world = actor->world;
    uint64_t chosen = bl_random_below(&world->random, world->node_count);
    enum bl_stop_reason reason = chance(world, 50) ? BL_STOP_USER : BL_STOP_BUDGET;
    BL_LIST_EACH (link, &world->nodes) {
        struct node *node = BL_CONTAINER(link, struct node, link);
        /* Mostly leaves, so that the tree survives for a while. */
        if (chosen-- != 0 || (node->parent == NULL && chance(world, 80)))
            continue;
        bool expected = model_stop(world, node, reason, "actor", bl_now_ns());
        CHECK_EQUAL(bl_scope_stop(node->scope, reason, "actor"), expected);
        world->stops += expected;
        break;
    }
}

static void step_deadline(struct actor *actor)
{
    struct node *node = actor->node;
    uint64_t deadline_ns = bl_now_ns() + bl_random_below(&actor->world->random, 40) * MS;
    if (chance(actor->world, 20))
        deadline_ns = BL_NEVER;
    int expected = node->claimed ? BL_EBUSY : model_code(node);
    CHECK_EQUAL(bl_scope_set_deadline(node->scope, deadline_ns), expected);
    if (expected == 0)
        node->deadline_ns = deadline_ns;
}

static void step_claim(struct actor *actor)
{
    struct node *node = actor->node;
    int expected = node->claimed ? BL_EBUSY : model_code(node);
    CHECK_EQUAL(bl_scope_claim(node->scope), expected);
    if (expected == 0) {
        node->claimed = true;
        actor->world->claims++;
    }
}

static void step_scope(struct actor *actor)
{
    struct bl_scope scope;
    struct node node;
    bl_scope_init(&scope, actor->node->scope);
    node_add(actor->world, &node, &scope, actor->node, false);
    struct bl_scope *outer = bl_scope_enter(&scope);
    act(&(struct actor){actor->world, &node, actor->depth + 1});
    bl_scope_enter(outer);
    node_remove(actor->world, &node);
    bl_scope_done(&scope);
}

/* Rule 5: whatever happens above, a shield has its time, and never more than its limit. */
static void step_shield(struct actor *actor)
{
    struct bl_scope shield;
    struct node node;
    uint64_t start_ns = bl_now_ns();
    bl_shield_begin(&shield, CLEAN_UP_MAX);
    node_add(actor->world, &node, &shield, actor->node, true);
    node.deadline_ns = start_ns + CLEAN_UP_MAX;
    for (int i = 0; i < 4; i++)
        step_sleep(&(struct actor){actor->world, &node, DEPTH_MAX});
    CHECK(bl_now_ns() <= start_ns + CLEAN_UP_MAX);
    node_remove(actor->world, &node);
    bl_shield_end(&shield);
}

static int child_main(void *argument)
{
    struct actor *actor = argument;
    actor->world->running++;
    act(actor);
    actor->world->running--;
    return 0;
}

/* Rule 4: after the nursery is done, none of its fibers runs. */
static void step_spawn(struct actor *actor)
{
    struct world *world = actor->world;
    struct bl_nursery nursery;
    struct bl_fiber *fibers[4];
    struct actor children[4];
    struct node node;
    size_t count = 1 + bl_random_below(&world->random, 4);
    if (world->fibers + count > FIBERS_MAX)
        return;
    world->fibers += (unsigned)count;
    bl_nursery_init(&nursery, actor->node->scope);
    node_add(world, &node, &nursery.scope, actor->node, false);
    for (size_t i = 0; i < count; i++) {
        children[i] = (struct actor){world, &node, actor->depth + 1};
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "actor", child_main, &children[i], &fibers[i]),
                    0);
    }
    int code = chance(world, 70) ? bl_nursery_join(&nursery) : 0;
    compare(world);
    if (code != 0)
        CHECK_EQUAL(code, model_code(actor->node));
    /* The steps of the nursery's end, one by one: the node must not be used after its scope ends.
     */
    if (nursery.running > 0) {
        model_stop(world, &node, BL_STOP_PARENT, "nursery", bl_now_ns());
        bl_scope_stop(&nursery.scope, BL_STOP_PARENT, "nursery");
    }
    while (nursery.running > 0) {
        struct bl_scope shield;
        bl_shield_begin(&shield, 3600 * BL_NS_PER_S);
        CHECK_EQUAL(bl_nursery_join(&nursery), 0);
        bl_shield_end(&shield);
    }
    for (size_t i = 0; i < count; i++)
        CHECK(bl_fiber_ended(fibers[i]));
    node_remove(world, &node);
    bl_nursery_done(&nursery);
}

static int act(struct actor *actor)
{
    struct world *world = actor->world;
    uint64_t steps = 1 + bl_random_below(&world->random, STEPS_MAX);
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t what = bl_random_below(&world->random, 100);
        if (what < 40)
            step_sleep(actor);
        else if (what < 48)
            step_stop(actor);
        else if (what < 58)
            step_deadline(actor);
        else if (what < 61)
            step_claim(actor);
        else if (what < 67)
            step_shield(actor);
        else if (what < 72)
            step_yield(actor);
        else if (actor->depth < DEPTH_MAX && what < 84)
            step_scope(actor);
        else if (actor->depth < DEPTH_MAX)
            step_spawn(actor);
        compare(world);
    }
    return 0;
}

static int simulate(void *argument)
{
    struct world *world = argument;
    struct node root;
    struct bl_scope scope;
    bl_scope_init(&scope, bl_scope_current());
    node_add(world, &root, &scope, NULL, false);
    struct bl_scope *outer = bl_scope_enter(&scope);
    for (int i = 0; i < 4; i++)
        step_spawn(&(struct actor){world, &root, 0});
    CHECK_EQUAL(world->running, 0);
    bl_scope_enter(outer);
    node_remove(world, &root);
    bl_scope_done(&scope);
    return 0;
}

static void random_trees_obey_the_rules_on_every_seed(void **state)
{
    (void)state;
    unsigned long seeds = suite_rounds(SUITE_SANITIZED ? 1000 : 10000, 100000);
    unsigned long fibers = 0, stops = 0, claims = 0, waits_cut = 0;
    for (unsigned long seed = 1; seed <= seeds; seed++) {
        struct world world = {.fibers = 0};
        bl_list_init(&world.nodes);
        bl_random_seed(&world.random, seed);
        run_in_virtual_loop(seed, simulate, &world);
        fibers += world.fibers;
        stops += world.stops;
        claims += world.claims;
        waits_cut += world.waits_cut;
    }
    print_message("%lu seeds: %lu fibers, %lu stops, %lu claims, %lu waits cut\n", seeds, fibers,
                  stops, claims, waits_cut);
    assert_true(stops > seeds / 10 && claims > seeds / 100 && waits_cut > seeds / 100);
}

SUITE(simulation, cmocka_unit_test(random_trees_obey_the_rules_on_every_seed));
