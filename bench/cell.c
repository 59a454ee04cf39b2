/* Cells: the time of one cell, compared with a start of Node for the same work; many at once;
 * stops; memory. */
#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <belay/cell.h>

#include "report.h"

#define CELLS     300 /* one after another, with a warm pool */
#define NODES     20
#define MANY      128
#define CALLS     2000
#define STOPS     30
#define SPARES    4u
#define WARM_NS   (60 * BL_NS_PER_MS) /* for the pool to refill */
#define YIELD_MS  60000u
#define SETTLE_NS (2 * BL_NS_PER_S)

struct hall {
    char folder[64];
    struct bl_store *store;
    struct bl_nursery nursery;
    struct bl_cell_host *host;
    struct bl_cell_session *session;
    struct bl_arena arena;
    unsigned last;
    char id[32];
};

static void answer_call(void *context, const struct bl_cell_call *call,
                        struct bl_cell_call_result *ret_result)
{
    (void)context;
    ret_result->ok = true;
    ret_result->json = call->input_text;
}

static void open_hall(struct hall *hall)
{
    char path[96];
    struct bl_error error = {0};
    struct bl_cell_fault fault;
    struct bl_cell_session_options session = {
        .id = "bench", .directory = "/", .port = {.call = answer_call}};

    snprintf(hall->folder, sizeof hall->folder, "/tmp/belay-bench-cell-XXXXXX");
    if (mkdtemp(hall->folder) == NULL)
        report_die("cannot make a folder");
    snprintf(path, sizeof path, "%s/store.db", hall->folder);
    bl_arena_init(&hall->arena);
    bl_nursery_init(&hall->nursery, bl_scope_current());
    if (bl_store_open(path, &hall->store, &error) != 0)
        report_die(error.message);
    struct bl_cell_host_options options = {.store = hall->store, .spares = SPARES, .eager = true};
    if (bl_cell_host_start(&hall->nursery, &options, &hall->host, &error) != 0)
        report_die(error.message);
    if (bl_cell_session_open(hall->host, &session, &hall->session, &fault) != 0)
        report_die(fault.message);
    bl_sleep(SETTLE_NS);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static void close_hall(struct hall *hall)
{
    bl_cell_host_stop(hall->host, BL_STOP_SHUTDOWN, "bench");
    bl_nursery_done(&hall->nursery);
    bl_store_close(hall->store);
    bl_arena_done(&hall->arena);
    nftw(hall->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- One cell ---- */

static const char *create(struct hall *hall, const char *source, uint64_t memory)
{
    static const struct bl_cell_tool tool = {.name = {"echo", 4}, .description = {"Echo.", 5}};
    struct bl_cell_create create = {.cell_id = hall->id,
                                    .source = bl_text_from(source),
                                    .tools = &tool,
                                    .tool_count = 1,
                                    .memory_bytes = memory};
    struct bl_cell_fault fault;

    snprintf(hall->id, sizeof hall->id, "c-%u", ++hall->last);
    if (bl_cell_create(hall->session, &create, &fault) != 0)
        report_die(fault.message);
    return hall->id;
}

static void observe(struct hall *hall, const char *id, uint64_t generation, uint64_t yield_ms,
                    struct bl_cell_observe_outcome *ret_outcome)
{
    struct bl_cell_observe asked = {id, generation, yield_ms, 0};
    struct bl_cell_fault fault;

    if (bl_cell_observe(hall->session, &asked, &hall->arena, ret_outcome, &fault) != 0)
        report_die(fault.message);
}

static void finish(struct hall *hall, const char *id)
{
    struct bl_cell_observe_outcome outcome;

    observe(hall, id, 1, YIELD_MS, &outcome);
    if (outcome.type != BL_CELL_OBSERVE_COMPLETED || outcome.completed.error != NULL)
        report_die("a cell did not complete");
}

static double percentile(const double *sorted, size_t count, double part)
{
    return sorted[(size_t)((double)(count - 1) * part)];
}

static double node_ms(void)
{
    double from_ns = report_wall_ns();
    pid_t child;
    int status;

    if (posix_spawnp(&child, "node", NULL, NULL,
                     (char *const[]){"node", "-e", "process.stdout.write('')", NULL}, environ) != 0)
        return -1;
    waitpid(child, &status, 0);
    return status == 0 ? (report_wall_ns() - from_ns) / 1e6 : -1;
}

static void bench_one(struct hall *hall)
{
    double replies[CELLS], ends[CELLS], nodes[NODES];

    for (int i = 0; i < CELLS; i++) {
        bl_sleep(WARM_NS);
        double from_ns = report_wall_ns();
        const char *id = create(hall, "text(1+1)", 0);
        replies[i] = (report_wall_ns() - from_ns) / 1e6;
        finish(hall, id);
        ends[i] = (report_wall_ns() - from_ns) / 1e6;
    }
    for (int i = 0; i < NODES; i++)
        nodes[i] = node_ms();
    double node = report_median(nodes, NODES);
    report_median(replies, CELLS);
    report_median(ends, CELLS);
    report_line("create to reply, p50", percentile(replies, CELLS, 0.5), "ms", NULL, 0);
    report_line("create to reply, p99", percentile(replies, CELLS, 0.99), "ms", NULL, 0);
    report_line("create to completed, text(1+1), warm pool, p50", percentile(ends, CELLS, 0.5),
                "ms", node > 0 ? "node -e, its start and end" : NULL, node);
    report_line("create to completed, p99", percentile(ends, CELLS, 0.99), "ms", NULL, 0);
}

/* ---- Memory of idle workers ---- */

static double pss_kib(const char *pid)
{
    char path[64], line[256];
    double kib = 0;

    snprintf(path, sizeof path, "/proc/%.20s/smaps_rollup", pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Pss: %lf", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib;
}

/* Average over all workers. */
static double worker_mib(unsigned *ret_count)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    double sum = 0;

    *ret_count = 0;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/%.255s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(name, sizeof name, file) != NULL && strncmp(name, "belay-cell-work", 15) == 0) {
            sum += pss_kib(entry->d_name);
            ++*ret_count;
        }
        fclose(file);
    }
    closedir(folder);
    return *ret_count > 0 ? sum / *ret_count / 1024 : 0;
}

static void bench_idle(void)
{
    unsigned count;
    char name[80];
    double mib = worker_mib(&count);

    snprintf(name, sizeof name, "idle worker, PSS, of %u spares", count);
    report_line(name, mib, "MiB", NULL, 0);
}

/* ---- Many at once ---- */

static double end_session(struct hall *hall)
{
    struct bl_cell_fault fault;
    struct bl_cell_session_options session = {
        .id = "bench", .directory = "/", .port = {.call = answer_call}};
    double from_ns = report_wall_ns();

    bl_cell_session_close(hall->session, false, BL_STOP_USER, "bench", NULL);
    double ms = (report_wall_ns() - from_ns) / 1e6;
    if (bl_cell_session_open(hall->host, &session, &hall->session, &fault) != 0)
        report_die(fault.message);
    return ms;
}

static void bench_many(struct hall *hall)
{
    struct bl_cell_observe_outcome outcome;
    char ids[MANY][32];
    unsigned count;

    bl_sleep(SETTLE_NS);
    double from_ns = report_wall_ns();
    for (int i = 0; i < MANY; i++)
        snprintf(ids[i], sizeof ids[i], "%s",
                 create(hall,
                        "text('x'); yield_control(); await new Promise(f => setTimeout(f, 1e6))",
                        (uint64_t)16 << 20));
    double admitted = (report_wall_ns() - from_ns) / 1e6;
    for (int i = 0; i < MANY; i++)
        observe(hall, ids[i], 1, YIELD_MS, &outcome);
    double printed = (report_wall_ns() - from_ns) / 1e6;
    double mib = worker_mib(&count);
    report_line("128 cells: all admitted", admitted, "ms", NULL, 0);
    report_line("128 cells: all have printed", printed, "ms", NULL, 0);
    report_line("worker of a sleeping cell, PSS, of 128", mib, "MiB", NULL, 0);
    report_line("128 cells: session closed, all proven gone", end_session(hall), "ms", NULL, 0);
}

/* ---- Nested calls ---- */

static void bench_calls(struct hall *hall)
{
    static const char serial[] = "for (let i = 0; i < 2000; i++) await tools.echo({i})";
    static const char parallel[] =
        "for (let i = 0; i < 40; i++) { const p = []; for (let k = 0; k < 50; k++)"
        " p.push(tools.echo({k})); for (const q of p) await q }";

    bl_sleep(SETTLE_NS);
    double from_ns = report_wall_ns();
    finish(hall, create(hall, serial, 0));
    report_line("nested call, one after another", (report_wall_ns() - from_ns) / 1e3 / CALLS, "us",
                NULL, 0);
    from_ns = report_wall_ns();
    finish(hall, create(hall, parallel, 0));
    report_line("nested call, fifty at once", (report_wall_ns() - from_ns) / 1e3 / CALLS, "us",
                NULL, 0);
}

/* ---- Stops ---- */

static void bench_stop(struct hall *hall, const char *name, const char *source)
{
    double times[STOPS];
    char title[120];

    for (int i = 0; i < STOPS; i++) {
        struct bl_cell_terminate_outcome outcome;
        struct bl_cell_fault fault;
        bl_sleep(WARM_NS);
        const char *id = create(hall, source, 0);
        struct bl_cell_terminate terminate = {id, "t-1", BL_STOP_USER, NULL};
        bl_sleep(30 * BL_NS_PER_MS);
        double from_ns = report_wall_ns();
        if (bl_cell_terminate(hall->session, &terminate, &hall->arena, &outcome, &fault) != 0 ||
            outcome.type != BL_CELL_TERMINATE_TERMINATED)
            report_die("a cell was not terminated");
        times[i] = (report_wall_ns() - from_ns) / 1e6;
    }
    report_median(times, STOPS);
    snprintf(title, sizeof title, "terminate to proof: %s, median", name);
    report_line(title, percentile(times, STOPS, 0.5), "ms", NULL, 0);
    snprintf(title, sizeof title, "terminate to proof: %s, worst of %d", name, STOPS);
    report_line(title, times[STOPS - 1], "ms", NULL, 0);
}

static int bench_main(void *argument)
{
    struct hall *hall = argument;

    open_hall(hall);
    bench_idle();
    bench_one(hall);
    bench_calls(hall);
    bench_stop(hall, "for(;;);", "for(;;);");
    bench_stop(hall, "for(;;) await null", "for(;;) await null");
    bench_many(hall);
    close_hall(hall);
    return 0;
}

int main(void)
{
    static struct hall hall;
    struct bl_loop *loop;
    struct bl_error error = {0};

    setenv("BELAY_WARDEN", BELAY_BUILD_ROOT "/belay-warden", 0);
    setenv("BELAY_CELL_WORKER", BELAY_BUILD_ROOT "/belay-cell-worker", 0);
    if (bl_loop_new(NULL, &loop, &error) != 0)
        report_die(error.message);
    int code = bl_loop_run(loop, "bench", bench_main, &hall);
    bl_loop_free(loop);
    return code;
}
