/* Scopes and fibers, compared with the system's own means: a plain atomic load, swapcontext,
 * threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

#include <belay/fiber.h>

#include "report.h"

#define ROUNDS REPORT_ROUNDS

/* ---- scope check ---- */

static void bench_check(void)
{
    enum {
        CHECKS = 20000000
    };
    struct bl_scope parent, scope;
    _Atomic(uint32_t) word = 0;
    double ours[ROUNDS], plain[ROUNDS];
    bl_scope_init(&parent, bl_scope_current());
    bl_scope_init(&scope, &parent);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned stopped = 0;
        double start_ns = report_processor_ns();
        for (int i = 0; i < CHECKS; i++)
            stopped += bl_scope_stopped(&scope);
        double middle_ns = report_processor_ns();
        for (int i = 0; i < CHECKS; i++)
            stopped += atomic_load_explicit(&word, memory_order_acquire);
        plain[round] = (report_processor_ns() - middle_ns) / CHECKS;
        ours[round] = (middle_ns - start_ns) / CHECKS;
        if (stopped != 0)
            report_die("a live scope says stopped");
    }
    bl_scope_done(&scope);
    bl_scope_done(&parent);
    report_line("scope check", report_median(ours, ROUNDS), "ns", "one atomic load",
                report_median(plain, ROUNDS));
}

/* ---- log ---- */

/* Not inlined, because a log line is surrounded by other code. */
__attribute__((noinline)) static uint64_t work_logged(uint64_t value)
{
    value = value * 6364136223846793005u + 1442695040888963407u;
    BL_LOG(BL_ROOM_TURN, BL_LOG_DEBUG, "step", BL_LOG_INTEGER("value", (int64_t)value));
    return value ^ value >> 29;
}

__attribute__((noinline)) static uint64_t work_bare(uint64_t value)
{
    value = value * 6364136223846793005u + 1442695040888963407u;
    return value ^ value >> 29;
}

/* A disabled line costs a load and a branch. */
static void bench_log(void)
{
    enum {
        STEPS = 20000000
    };
    double ours[ROUNDS], plain[ROUNDS];
    uint64_t value = 1, sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double start_ns = report_processor_ns();
        for (int i = 0; i < STEPS; i++)
            value = work_logged(value);
        double middle_ns = report_processor_ns();
        sum += value;
        for (int i = 0; i < STEPS; i++)
            value = work_bare(value);
        plain[round] = (report_processor_ns() - middle_ns) / STEPS;
        ours[round] = (middle_ns - start_ns) / STEPS;
        sum += value;
    }
    if (sum == 0)
        report_die("the work was left out");
    report_line("log line that is off", report_median(ours, ROUNDS), "ns", "the same without it",
                report_median(plain, ROUNDS));
}

/* ---- switch ---- */

#define SWITCHES 200000

static int yield_often(void *argument)
{
    (void)argument;
    for (int i = 0; i < SWITCHES / 2; i++)
        bl_yield();
    return 0;
}

static ucontext_t here, there;

static void swap_often(void)
{
    for (;;)
        swapcontext(&there, &here);
}

/* Each yield is a switch to the loop and one to the next fiber, with its bookkeeping. */
static void bench_switch(void)
{
    static char stack[65536];
    double ours[ROUNDS], theirs[ROUNDS];
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof stack;
    makecontext(&there, swap_often, 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct bl_nursery nursery;
        bl_nursery_init(&nursery, bl_scope_current());
        double start_ns = report_processor_ns();
        for (int i = 0; i < 2; i++)
            bl_nursery_spawn(&nursery, NULL, "yields", yield_often, NULL, NULL);
        bl_nursery_join(&nursery);
        double middle_ns = report_processor_ns();
        for (int i = 0; i < SWITCHES / 2; i++)
            swapcontext(&here, &there);
        theirs[round] = (report_processor_ns() - middle_ns) / SWITCHES;
        ours[round] = (middle_ns - start_ns) / (2 * SWITCHES);
        bl_nursery_done(&nursery);
    }
    report_line("fiber switch", report_median(ours, ROUNDS), "ns", "swapcontext",
                report_median(theirs, ROUNDS));
}

/* ---- spawn, run, join ---- */

static int nothing(void *argument)
{
    (void)argument;
    return 0;
}

static void *nothing_in_thread(void *argument)
{
    return argument;
}

static void bench_spawn(void)
{
    enum {
        FIBERS = 20000,
        THREADS = 500
    };
    double ours[ROUNDS], theirs[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start_ns = report_wall_ns();
        for (int i = 0; i < FIBERS; i++) {
            struct bl_nursery nursery;
            bl_nursery_init(&nursery, bl_scope_current());
            bl_nursery_spawn(&nursery, NULL, "empty", nothing, NULL, NULL);
            bl_nursery_join(&nursery);
            bl_nursery_done(&nursery);
        }
        double middle_ns = report_wall_ns();
        for (int i = 0; i < THREADS; i++) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, nothing_in_thread, NULL) != 0)
                report_die("no thread");
            pthread_join(thread, NULL);
        }
        theirs[round] = (report_wall_ns() - middle_ns) / THREADS;
        ours[round] = (middle_ns - start_ns) / FIBERS;
    }
    report_line("spawn, run and join", report_median(ours, ROUNDS), "ns", "pthread",
                report_median(theirs, ROUNDS));
}

/* ---- many parked ---- */

static double resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long size, resident;
    if (file == NULL || fscanf(file, "%lu %lu", &size, &resident) != 2)
        report_die("cannot read /proc/self/statm");
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static int park(void *argument)
{
    (void)argument;
    return bl_sleep(3600 * BL_NS_PER_S);
}

static pthread_barrier_t parked;

static void *park_thread(void *argument)
{
    pthread_barrier_wait(&parked);
    pthread_barrier_wait(&parked);
    return argument;
}

static double thread_kib(void)
{
    enum {
        THREADS = 1000
    };
    static pthread_t threads[THREADS];
    double before_kib = resident_kib();
    pthread_barrier_init(&parked, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, park_thread, NULL) != 0)
            report_die("no thread");
    pthread_barrier_wait(&parked);
    double each_kib = (resident_kib() - before_kib) / THREADS;
    pthread_barrier_wait(&parked);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&parked);
    return each_kib;
}

/* Empties the caches: work that has waited for long is not cached. */
static void flush_caches(void)
{
    enum {
        SIZE = 256 << 20
    };
    static unsigned char *memory;
    if (memory == NULL)
        memory = bl_alloc(SIZE);
    for (size_t i = 0; i < SIZE; i += 64)
        memory[i]++;
}

/* Parks `count` fibers, stops them, and waits for all. Returns the stop's time per fiber;
 * `*ret_kib` is the memory of each while parked. */
static double stop_many(int count, bool cold, double *ret_kib)
{
    struct bl_nursery nursery;
    double before_kib = resident_kib();
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < count; i++)
        if (bl_nursery_spawn(&nursery, NULL, "parked", park, NULL, NULL) != 0)
            report_die("no stack for a fiber");
    bl_sleep(BL_NS_PER_MS);
    *ret_kib = (resident_kib() - before_kib) / count;
    if (cold)
        flush_caches();
    double start_ns = report_wall_ns();
    bl_scope_stop(&nursery.scope, BL_STOP_USER, "bench");
    bl_nursery_join(&nursery);
    double elapsed_ns = report_wall_ns() - start_ns;
    bl_nursery_done(&nursery);
    return elapsed_ns / count;
}

/* Measures both cases: directly after parking, when 1,000 fibers are still in the processor's
 * caches and 100,000 cannot be; and later, when neither are. */
static void bench_many(void)
{
    static const char *const names[] = {"stop, per fiber of 100,000, just parked",
                                        "stop, per fiber of 100,000, cold"};
    double kib = 0, unused_kib, each_ns[2];
    for (int cold = 0; cold < 2; cold++) {
        double few[ROUNDS], many[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            many[round] = stop_many(100000, cold, kib == 0 ? &kib : &unused_kib);
            few[round] = stop_many(1000, cold, &unused_kib);
        }
        each_ns[cold] = report_median(many, ROUNDS);
        report_line(names[cold], each_ns[cold], "ns", "per fiber of 1,000",
                    report_median(few, ROUNDS));
    }
    report_line("stop of 100,000 waiting fibers", each_ns[1] * 100000 / 1e6, "ms", "limit", 100);
    report_line("100,000 parked fibers, resident each", kib, "KiB", "parked thread", thread_kib());
}

static int bench(void *argument)
{
    (void)argument;
    bench_many();
    bench_check();
    bench_log();
    bench_switch();
    bench_spawn();
    return 0;
}

int main(void)
{
    struct bl_loop *loop;
    struct bl_error error = {0};
    if (bl_loop_new(NULL, &loop, &error) != 0)
        report_die(error.message);
    int result = bl_loop_run(loop, "bench", bench, NULL);
    bl_loop_free(loop);
    return result;
}
