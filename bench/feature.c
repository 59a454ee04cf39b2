/* Features: the cost of a task whose Player and Coach do nothing, compared with the same programs
 * started directly; a thousand tasks; and the stop of many process trees at once.
 *
 * Each run has its own repository, store and plan, in a folder that is removed at the end. */
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "feature/parts.h"
#include "report.h"

#define SEAT       BELAY_BUILD_ROOT "/bench/feature-seat"
#define ROUNDS     5
#define SERIAL     20  /* tasks, one after another */
#define CROWD      128 /* tasks, as many at once as there are slots */
#define SLOTS      64
#define FILES      20 /* in the repository, of a KiB each */
#define THOUSAND   2  /* features, one after another: a plan has 500 tasks at most */
#define LONG_TASKS 500
#define LONG_WAVES 5
#define WANTED_MS  15
#define WAIT_NS    (60 * BL_NS_PER_S)
#define PLACES_MAX 64

/* ---- A folder with a repository -------------------------------------------------------------- */

struct place {
    char folder[128];
    char repository[160];
    char store[160];
};

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static struct place *places[PLACES_MAX];
static size_t place_count;

static void remove_places(void)
{
    for (size_t i = 0; i < place_count; i++) {
        nftw(places[i]->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        bl_free(places[i]);
    }
}

/* Processor time of this process and of all children that it has waited for. */
static double processor_ms(void)
{
    double ms = 0;
    for (int i = 0; i < 2; i++) {
        struct rusage usage;
        getrusage(i == 0 ? RUSAGE_SELF : RUSAGE_CHILDREN, &usage);
        ms += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3;
        ms += (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
    }
    return ms;
}

/* Wall time of a program from its start to its end, in milliseconds. */
static double run_ms(const char *directory, const char *const *arguments)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status;
    double from_ns = report_wall_ns();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, directory);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&child, arguments[0], &actions, NULL, (char *const *)arguments, environ) != 0)
        report_die(arguments[0]);
    posix_spawn_file_actions_destroy(&actions);
    if (waitpid(child, &status, 0) != child || status != 0)
        report_die("a program of the baseline failed");
    return (report_wall_ns() - from_ns) / 1e6;
}

#define RUN(directory, ...) run_ms(directory, (const char *const[]){__VA_ARGS__, NULL})

static void write_file(const char *folder, const char *name, struct bl_text text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    if (file == NULL || fwrite(text.data, 1, text.size, file) != text.size || fclose(file) != 0)
        report_die("a file cannot be written");
}

static struct place *place_make(void)
{
    char name[64], line[1024];
    if (place_count == PLACES_MAX)
        report_die("too many folders");
    struct place *place = bl_zalloc(sizeof *place);
    places[place_count++] = place;
    const char *above = getenv("TMPDIR");
    snprintf(place->folder, sizeof place->folder, "%.90s/belay-bench-feature-XXXXXX",
             above != NULL ? above : "/tmp");
    if (mkdtemp(place->folder) == NULL)
        report_die("cannot make a folder");
    snprintf(place->repository, sizeof place->repository, "%s/work", place->folder);
    snprintf(place->store, sizeof place->store, "%s/store.db", place->folder);
    mkdir(place->repository, 0777);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "src/part-%d/file-%d.c", i % 10, i);
        memset(line, 'a' + i % 26, sizeof line);
        line[sizeof line - 1] = '\n';
        write_file(place->repository, name, (struct bl_text){line, sizeof line});
    }
    RUN(place->repository, "git", "init", "-q", "-b", "main");
    RUN(place->repository, "git", "add", "-A");
    RUN(place->repository, "git", "-c", "user.name=bench", "-c", "user.email=bench@localhost",
        "commit", "-q", "-m", "base");
    return place;
}

/* Writes a plan with that many tasks and waves, and its task files. */
static void plan_write(const struct place *place, const char *id, size_t tasks, size_t waves,
                       const char *limits, const char *player)
{
    struct bl_buffer plan;
    char name[96];
    bl_buffer_init(&plan, (size_t)1 << 20);
    bl_buffer_printf(&plan,
                     "id: %s\nname: bench\nbelay:\n  player: {command: %s, grace: 0s}\n  coach: "
                     "{command: [%s, coach]}\n  limits: {%s, min_turn_budget: 0s, drain: 0s}\n"
                     "tasks:\n",
                     id, player, SEAT, limits);
    for (size_t i = 0; i < tasks; i++) {
        bl_buffer_printf(&plan, "  - {id: %s-%zu, file_path: tasks/%s-%zu.md}\n", id, i, id, i);
        snprintf(name, sizeof name, "tasks/%s-%zu.md", id, i);
        char text[200];
        int size = snprintf(text, sizeof text,
                            "---\nid: %s-%zu\ntitle: a task\n---\n## Acceptance Criteria\n\n- [ ] "
                            "It is done.\n",
                            id, i);
        write_file(place->repository, name, (struct bl_text){text, (size_t)size});
    }
    bl_buffer_append(&plan, BL_TEXT("orchestration:\n  parallel_groups:\n"));
    for (size_t wave = 0; wave < waves; wave++) {
        bl_buffer_append(&plan, BL_TEXT("    - ["));
        for (size_t i = wave * tasks / waves; i < (wave + 1) * tasks / waves; i++)
            bl_buffer_printf(&plan, "%s-%zu, ", id, i);
        bl_buffer_append(&plan, BL_TEXT("]\n"));
    }
    snprintf(name, sizeof name, ".belay/features/%s.yaml", id);
    write_file(place->repository, name, bl_buffer_text(&plan));
    bl_buffer_done(&plan);
}

/* ---- A run in this process ------------------------------------------------------------------- */

struct runner {
    const struct place *place;
    const char *id;
    size_t tasks;
    double ms; /* from the first wave to the last write to the store */
    double git_ms;
    double programs;
    double processor_ms;
};

static struct bl_plan *plan_load(const struct runner *runner)
{
    struct bl_plan_options options = {.name = runner->id, .directory = runner->place->repository};
    struct bl_error error = {0};
    struct bl_arena arena;
    struct bl_list problems;
    struct bl_plan *plan;
    bl_arena_init(&arena);
    bl_list_init(&problems);
    if (bl_plan_load(&arena, &options, &plan, &problems, &error) != 0)
        report_die(error.message);
    bl_arena_done(&arena);
    return plan;
}

static int runner_main(void *argument)
{
    struct runner *runner = argument;
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_plan *plan = plan_load(runner);
    struct bl_feature *feature;
    struct bl_store *store;
    struct bl_scope scope;
    uint64_t spent_ns[2], programs[2];
    if (bl_store_open(runner->place->store, &store, error) != 0)
        report_die(error->message);
    struct bl_feature_options options = {.plan = plan, .store = store, .run_id = "run_bench"};
    if (bl_feature_open(&options, &feature, error) != 0)
        report_die(error->message);
    bl_scope_init(&scope, bl_scope_current());
    git_share(feature->git, &spent_ns[0], &programs[0]);
    double processor = processor_ms();
    double from_ns = report_wall_ns();
    if (bl_feature_run(feature, &scope) != 0)
        report_die(feature->error.code != 0 ? feature->error.message : "a task failed");
    runner->ms = (report_wall_ns() - from_ns) / 1e6;
    runner->processor_ms = processor_ms() - processor;
    git_share(feature->git, &spent_ns[1], &programs[1]);
    runner->git_ms = (double)(spent_ns[1] - spent_ns[0]) / 1e6;
    runner->programs = (double)(programs[1] - programs[0]);
    bl_scope_done(&scope);
    bl_feature_close(feature);
    bl_store_close(store);
    bl_plan_free(plan);
    bl_free(error);
    return 0;
}

static void run_feature(struct runner *runner)
{
    struct bl_error error = {0};
    struct bl_loop *loop;
    if (bl_loop_new(NULL, &loop, &error) != 0)
        report_die(error.message);
    bl_loop_run(loop, "bench", runner_main, runner);
    bl_loop_free(loop);
}

/* ---- What a task costs ----------------------------------------------------------------------- */

/* The times of a task, in milliseconds, for each round. */
struct share {
    double whole[ROUNDS];
    double git[ROUNDS];
    double programs[ROUNDS];
    double processor[ROUNDS];
    double bare_processor[ROUNDS];
    double bare_tree[ROUNDS];  /* git worktree add */
    double bare_seats[ROUNDS]; /* Player and Coach */
};

static void measure_bare(struct share *share, int round)
{
    const struct place *place = place_make();
    char branch[32], path[200];
    double tree = 0, seats = 0;
    double processor = processor_ms();
    for (int i = 0; i < SERIAL; i++) {
        snprintf(branch, sizeof branch, "bare-%d", i);
        snprintf(path, sizeof path, "%s/bare/%d", place->folder, i);
        tree += RUN(place->repository, "git", "worktree", "add", "-q", "--no-track", "-b", branch,
                    path, "HEAD");
        seats += RUN(path, SEAT, "player");
        seats += RUN(path, SEAT, "coach");
    }
    share->bare_tree[round] = tree / SERIAL;
    share->bare_seats[round] = seats / SERIAL;
    share->bare_processor[round] = (processor_ms() - processor) / SERIAL;
}

static void measure_tasks(struct share *share, int round, size_t tasks, const char *limits,
                          const char *role)
{
    const struct place *place = place_make();
    struct runner runner = {.place = place, .id = "F", .tasks = tasks};
    char player[200];
    snprintf(player, sizeof player, "[%s, %s]", SEAT, role);
    plan_write(place, "F", tasks, 1, limits, player);
    run_feature(&runner);
    share->whole[round] = runner.ms / (double)tasks;
    share->git[round] = runner.git_ms / (double)tasks;
    share->programs[round] = runner.programs / (double)tasks;
    share->processor[round] = runner.processor_ms / (double)tasks;
    measure_bare(share, round);
}

static void report_share(const char *what, struct share *share)
{
    char name[160];
    double whole = report_median(share->whole, ROUNDS);
    double tree = report_median(share->bare_tree, ROUNDS);
    double seats = report_median(share->bare_seats, ROUNDS);
    snprintf(name, sizeof name, "%s, wall time of each", what);
    report_line(name, whole, "ms", "wanted", WANTED_MS);
    snprintf(name, sizeof name, "%s, against its parts started bare", what);
    report_line(name, whole, "ms", "git worktree add, Player and Coach by posix_spawn",
                tree + seats);
    snprintf(name, sizeof name, "%s, processor time of each", what);
    report_line(name, report_median(share->processor, ROUNDS), "ms", "the same, bare",
                report_median(share->bare_processor, ROUNDS));
    snprintf(name, sizeof name, "%s, programs of git", what);
    report_line(name, report_median(share->git, ROUNDS), "ms", "git worktree add by posix_spawn",
                tree);
    snprintf(name, sizeof name, "%s, how many programs of git", what);
    report_line(name, report_median(share->programs, ROUNDS), "", "seats", 2);
}

static void report_tasks(void)
{
    static const struct {
        const char *what;
        size_t tasks;
        const char *limits;
        const char *role;
    } kinds[] = {
        {"task, nothing done, one at a time", SERIAL, "parallel: 1", "player"},
        {"task, nothing done, 64 slots", CROWD, "parallel: 64", "player"},
        {"task, one file written and merged, one at a time", SERIAL, "parallel: 1", "writer"},
        {"task, one file written and merged, 64 slots", CROWD, "parallel: 64", "writer"},
    };
    static struct share shares[BL_COUNT(kinds)];
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < BL_COUNT(kinds); i++)
            measure_tasks(&shares[i], round, kinds[i].tasks, kinds[i].limits, kinds[i].role);
    for (size_t i = 0; i < BL_COUNT(kinds); i++)
        report_share(kinds[i].what, &shares[i]);
}

/* ---- A thousand tasks ------------------------------------------------------------------------ */

static double status_kib(const char *member)
{
    char text[8192];
    struct bl_text all = bl_file_read(AT_FDCWD, "/proc/self/status", text, sizeof text - 1);
    text[all.size] = '\0';
    const char *at = strstr(text, member);
    return at != NULL ? strtod(at + strlen(member), NULL) : 0;
}

/* Resets the peak of the resident memory. */
static void reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "5", 1) != 1)
        report_die("the peak of memory cannot be reset");
    close(fd);
}

static void report_thousand(void)
{
    const struct place *place = place_make();
    double ms = 0, git_ms = 0, tasks = THOUSAND * LONG_TASKS;
    reset_peak();
    for (int i = 0; i < THOUSAND; i++) {
        struct runner runner = {.place = place, .id = i == 0 ? "A" : "B", .tasks = LONG_TASKS};
        plan_write(place, runner.id, LONG_TASKS, LONG_WAVES, "parallel: 64", "[" SEAT ", player]");
        run_feature(&runner);
        ms += runner.ms;
        git_ms += runner.git_ms;
    }
    double peak_mib = status_kib("VmHWM:") / 1024;
    report_line("1,000 tasks, 10 waves (two features of 500 in 5), 64 slots", ms / 1e3, "s",
                "of which all programs of git, summed up", git_ms / 1e3);
    report_line("the same, tasks in a second", tasks / (ms / 1e3), "", "none", 0);
    report_line("the same, peak of resident memory", peak_mib, "MiB", "none", 0);
}

/* ---- Stops ----------------------------------------------------------------------------------- */

struct stopped {
    double quiet_ms; /* from the receipt of the feature */
    double exit_ms;  /* from the signal to the end of the process */
};

static pid_t start_belay(const struct place *place, const char *output)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    const char *const arguments[] = {
        BELAY_BUILD_ROOT "/belay", "feature", "run", "S", "--json", "--store", place->store, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, place->repository);
    posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (posix_spawn(&child, arguments[0], &actions, NULL, (char *const *)arguments, environ) != 0)
        report_die("belay cannot be started");
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

static size_t count_files(const char *folder, size_t tasks)
{
    char path[200];
    size_t count = 0;
    for (size_t i = 0; i < tasks; i++) {
        snprintf(path, sizeof path, "%s/S-%zu", folder, i);
        count += access(path, F_OK) == 0;
    }
    return count;
}

/* Reads the receipt of the feature: the one with a unit for each task. */
static double read_quiet_ms(const char *output)
{
    struct bl_buffer bytes;
    struct bl_arena arena;
    const struct bl_json *envelope = NULL;
    const char *why;
    double quiet_ms = -1;
    bl_arena_init(&arena);
    if (bl_file_load(output, (size_t)64 << 20, &bytes, &why) != 0)
        report_die(why);
    if (bl_json_read(&arena, bl_buffer_text(&bytes), NULL, &envelope, NULL) != 0)
        report_die("belay's answer cannot be read");
    const struct bl_json *receipts = bl_json_get(envelope, BL_TEXT("receipts"));
    BL_JSON_EACH (receipt, receipts) {
        double survivors = 0, ms = 0;
        bl_json_double(bl_json_get(receipt, BL_TEXT("survivors")), &survivors);
        bl_json_double(bl_json_get(receipt, BL_TEXT("quiet_ms")), &ms);
        if (survivors != 0)
            report_die("a process survived");
        quiet_ms = ms > quiet_ms ? ms : quiet_ms;
    }
    bl_buffer_done(&bytes);
    bl_arena_done(&arena);
    return quiet_ms;
}

static void measure_stop(struct stopped *stopped)
{
    const struct place *place = place_make();
    char ready[160], output[160], player[400];
    int status;
    snprintf(ready, sizeof ready, "%s/ready", place->folder);
    snprintf(output, sizeof output, "%s/output", place->folder);
    mkdir(ready, 0777);
    snprintf(player, sizeof player, "[%s, tree, %s]", SEAT, ready);
    plan_write(place, "S", SLOTS, 1, "parallel: 64", player);
    pid_t child = start_belay(place, output);
    uint64_t end_ns = bl_clock_now_ns(&bl_clock_system) + WAIT_NS;
    while (count_files(ready, SLOTS) < SLOTS) {
        if (bl_clock_now_ns(&bl_clock_system) > end_ns || waitpid(child, &status, WNOHANG) != 0)
            report_die("the trees do not stand");
        usleep(2000);
    }
    usleep(50000);
    double from_ns = report_wall_ns();
    kill(child, SIGTERM);
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 143)
        report_die("belay did not end as it must");
    stopped->exit_ms = (report_wall_ns() - from_ns) / 1e6;
    stopped->quiet_ms = read_quiet_ms(output);
}

static void report_stop(void)
{
    double quiets[ROUNDS], exits[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        struct stopped stopped;
        measure_stop(&stopped);
        quiets[i] = stopped.quiet_ms;
        exits[i] = stopped.exit_ms;
    }
    report_line("stop of 64 tasks of 3 processes each, to quiet by the receipt",
                report_median(quiets, ROUNDS), "ms", "wanted", 300);
    report_line("the same, worst of 5", quiets[ROUNDS - 1], "ms", "wanted", 300);
    report_line("the same, to the end of belay", report_median(exits, ROUNDS), "ms", "wanted", 300);
    report_line("the same, worst of 5", exits[ROUNDS - 1], "ms", "wanted", 300);
}

int main(int argument_count, char **arguments)
{
    static const struct {
        const char *name;
        void (*report)(void);
    } parts[] = {{"tasks", report_tasks}, {"thousand", report_thousand}, {"stop", report_stop}};
    setenv("BELAY_WARDEN", BELAY_BUILD_ROOT "/belay-warden", 0);
    for (size_t i = 0; i < BL_COUNT(parts); i++)
        if (argument_count < 2 || strcmp(arguments[1], parts[i].name) == 0)
            parts[i].report();
    remove_places();
    return 0;
}
