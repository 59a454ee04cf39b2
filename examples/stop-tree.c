/* A tree of fibers under one deadline, stopped: the foundation of belay's turns, tools and
 * sub-agents.
 *
 * A run has a deadline of 300 ms and three agents. A user stops "explore" at 120 ms; its siblings
 * are not affected. "review" completes early and claims its commit; from then on nothing can stop
 * it. "build" is still running at the deadline: its steps end at their waits, and each cleans up in
 * a shield. The output shows the events in order, with their times. */
#include <stdio.h>

#include <belay/fiber.h>

#define MS BL_NS_PER_MS

static uint64_t start_ns;
static unsigned alive, most_alive, ended;

static void say(int depth, const char *name, const char *what)
{
    printf("%7.1f  %*s%-*s %s\n", (double)(bl_now_ns() - start_ns) / 1e6, depth * 3, "",
           24 - depth * 3, name, what);
}

static void begin(int depth, const char *name, const char *what)
{
    if (++alive > most_alive)
        most_alive = alive;
    say(depth, name, what);
}

static int finish(int depth, const char *name, const char *what, int code)
{
    alive--;
    ended++;
    say(depth, name, what);
    return code;
}

static const char *why(int code)
{
    return code == BL_ETIMEDOUT ? "cut by the deadline" : "cut by a stop";
}

/* Clean-up that takes a moment: the stop does not reach it, but its own limit does. */
static void clean_up(int depth, const char *name, uint64_t duration_ns)
{
    struct bl_scope shield;
    bl_shield_begin(&shield, 50 * MS);
    say(depth, name,
        bl_sleep(duration_ns) == 0 ? "cleaned up, in a shield" : "clean-up took too long");
    bl_shield_end(&shield);
}

struct step {
    int depth;
    const char *name;
    uint64_t duration_ns;
    uint64_t clean_up_ns;
};

static int step_main(void *argument)
{
    const struct step *step = argument;
    begin(step->depth, step->name, "starts");
    int code = bl_sleep(step->duration_ns);
    if (code == 0)
        return finish(step->depth, step->name, "done", 0);
    say(step->depth, step->name, why(code));
    if (step->clean_up_ns > 0)
        clean_up(step->depth, step->name, step->clean_up_ns);
    return finish(step->depth, step->name, "ended", code);
}

static struct step explore_steps[] = {
    {2, "model stream", 900 * MS, 0}, {2, "read files", 40 * MS, 0}, {2, "grep", 800 * MS, 3 * MS}};
static struct step review_steps[] = {{2, "model stream", 60 * MS, 0}};
static struct step build_steps[] = {{2, "model stream", 2000 * MS, 0},
                                    {2, "compile", 5000 * MS, 8 * MS},
                                    {2, "test", 9000 * MS, 12 * MS}};

struct agent {
    const char *name;
    struct step *steps;
    size_t step_count;
    bool commits;
};

static struct agent agents[] = {{"agent explore", explore_steps, 3, false},
                                {"agent review", review_steps, 1, true},
                                {"agent build", build_steps, 3, false}};

static int agent_main(void *argument)
{
    const struct agent *agent = argument;
    struct bl_nursery nursery;
    begin(1, agent->name, "starts");
    bl_nursery_init(&nursery, bl_scope_current());
    int code = 0;
    for (size_t i = 0; i < agent->step_count && code == 0; i++)
        code = bl_nursery_spawn(&nursery, NULL, agent->steps[i].name, step_main, &agent->steps[i],
                                NULL);
    if (code == 0)
        code = bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    if (code == 0 && agent->commits) {
        code = bl_scope_claim(bl_scope_current());
        say(1, agent->name, code == 0 ? "claims its commit: nothing stops it now" : why(code));
        code = bl_sleep(260 * MS);
        return finish(1, agent->name, "committed, after the deadline: it had claimed", code);
    }
    return finish(1, agent->name, code == 0 ? "done" : "ended, after all its steps", code);
}

static int run_main(void *argument)
{
    struct bl_nursery nursery;
    struct bl_scope scopes[BL_COUNT(agents)];
    (void)argument;
    start_ns = bl_now_ns();
    begin(0, "run", "starts, deadline 300 ms");
    bl_nursery_init(&nursery, bl_scope_current());
    bl_scope_set_deadline(&nursery.scope, start_ns + 300 * MS);
    for (size_t i = 0; i < BL_COUNT(agents); i++) {
        bl_scope_init(&scopes[i], &nursery.scope);
        if (bl_nursery_spawn(&nursery, &scopes[i], agents[i].name, agent_main, &agents[i], NULL) !=
            0)
            break;
    }
    bl_sleep(120 * MS);
    say(0, "a person", "stops agent explore");
    bl_scope_stop(&scopes[0], BL_STOP_USER, "a person");
    bl_nursery_join(&nursery);

    struct bl_stop stop;
    bl_scope_stop_read(&nursery.scope, &stop);
    finish(0, "run", "ends, after all its agents", 0);
    printf("\nStopped by %s (origin: %s), asked at %.1f ms, quiet at %.1f ms.\n",
           bl_stop_reason_name(stop.reason), stop.origin, (double)(stop.time_ns - start_ns) / 1e6,
           (double)(bl_now_ns() - start_ns) / 1e6);
    printf("%u fibers ran, %u at most at once, %u ended, %u left running.\n", ended, most_alive,
           ended, alive);
    for (size_t i = 0; i < BL_COUNT(agents); i++)
        bl_scope_done(&scopes[i]);
    bl_nursery_done(&nursery);
    return alive == 0 ? 0 : 1;
}

int main(void)
{
    struct bl_loop *loop;
    struct bl_error error = {0};
    if (bl_loop_new(NULL, &loop, &error) != 0) {
        fprintf(stderr, "stop-tree: %s (%s)\n", error.message, error.hint);
        return 1;
    }
    printf("     ms\n");
    int result = bl_loop_run(loop, "run", run_main, NULL);
    bl_loop_free(loop);
    return result;
}
