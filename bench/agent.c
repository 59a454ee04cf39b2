/* Agents: a thousand at once in one process, with the script model and a store in a file. Measures
 * the memory of each while all are at work, steps per second, and the time of a stop of all of
 * them; and the memory of one whole `belay run` with a tool, including its warden. (For the time
 * from the start of `belay run` to its request, see wire.c.) Argument: a folder for the files
 * (default: the current one). */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <belay/agent.h>

#include "report.h"

#define GROUPS  10u
#define MEMBERS 100u
#define AGENTS  (1 + GROUPS + GROUPS * MEMBERS)
#define STEPS   4u /* of each member */
#define ROUNDS  5

static char folder[PATH_MAX];

/* ---- Memory ---------------------------------------------------------------------------------- */

/* A line of /proc/PID/status, in KiB. */
static double status_kib(pid_t pid, const char *name)
{
    char path[64], line[256];
    double value = 0;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtod(line + strlen(name) + 1, NULL);
    if (file != NULL)
        fclose(file);
    return value;
}

/* ---- A thousand agents ----------------------------------------------------------------------- */

struct crowd {
    struct bl_script *script;
    struct bl_store *store;
    struct bl_toolbox *toolbox;
    struct bl_permissions *permissions;
    struct bl_list personas, notices;
    struct bl_arena arena;
    struct bl_scope scope;
    uint64_t steps;      /* completed steps of members */
    bool stops;          /* when all are at work */
    double resident_kib; /* then */
    double stopped_ns;
    double quiet_ns;
};

/* The root starts groups, a group starts members, and a member takes some steps and then thinks. */
static void write_script(struct bl_buffer *out, const char *thought)
{
    bl_buffer_append(out, BL_TEXT("replies:\n"));
    for (unsigned step = 0; step < STEPS; step++)
        bl_buffer_append(out, BL_TEXT("- when: '^member'\n  tools: [{name: todo, input: {todos: "
                                      "[{content: a step, status: pending}]}}]\n"));
    bl_buffer_printf(out, "- when: '^member'\n  delay: %s\n  say: done\n", thought);
    bl_buffer_append(out, BL_TEXT("- when: '^group'\n  tools:\n"));
    for (unsigned i = 0; i < MEMBERS; i++)
        bl_buffer_append(out,
                         BL_TEXT("  - {name: task, input: {agent: worker, prompt: member}}\n"));
    bl_buffer_append(out, BL_TEXT("- when: '^group'\n  say: done\n- when: '^root'\n  tools:\n"));
    for (unsigned i = 0; i < GROUPS; i++)
        bl_buffer_append(out, BL_TEXT("  - {name: task, input: {agent: worker, prompt: group}}\n"));
    bl_buffer_append(out, BL_TEXT("- when: '^root'\n  say: done\n"));
}

static int model_open(void *context, const char *name BL_UNUSED, struct bl_model *ret_model,
                      void **ret_handle, struct bl_error *error BL_UNUSED)
{
    const struct crowd *crowd = context;

    *ret_handle = bl_script_player_new(crowd->script, 1, ret_model);
    return 0;
}

static void model_close(void *context BL_UNUSED, void *handle)
{
    bl_script_player_free(handle);
}

static void on_event(void *context, const struct bl_event *event)
{
    struct crowd *crowd = context;

    if (event->type != BL_EVENT_TOOL_ENDED || !bl_text_equal(event->name, BL_TEXT("todo")))
        return;
    if (++crowd->steps < GROUPS * MEMBERS * STEPS)
        return;
    crowd->resident_kib = status_kib(getpid(), "VmRSS:");
    if (!crowd->stops)
        return;
    crowd->stopped_ns = report_wall_ns();
    bl_scope_stop(&crowd->scope, BL_STOP_USER, "bench");
}

static int crowd_main(void *argument)
{
    struct crowd *crowd = argument;
    struct bl_listener listener = {on_event, crowd};
    struct bl_model_source models = {model_open, model_close, crowd};
    struct bl_agent_result *result = bl_zalloc(sizeof *result);
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_model model;
    void *player;

    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/agent-bench.db", folder);
    unlink(path);
    if (bl_store_open(path, &crowd->store, error) != 0)
        report_die(error->message);
    model_open(crowd, NULL, &model, &player, NULL);
    struct bl_agent_options options = {
        .store = crowd->store,
        .session = {.directory = folder, .run_id = "run_bench", .prompt = BL_TEXT("root")},
        .model = &model,
        .models = &models,
        .toolbox = crowd->toolbox,
        .personas = &crowd->personas,
        .directory = folder,
        .listener = &listener,
    };
    struct bl_run_options run = {.prompt = BL_TEXT("root"), .max_turns = 1};
    bl_turn_limits_init(&options.limits);
    bl_scope_init(&crowd->scope, bl_scope_current());
    if (bl_agent_run(&options, &run, &crowd->scope, &crowd->arena, result, error) != 0)
        report_die(error->message);
    crowd->quiet_ns = report_wall_ns();
    if (result->run.end != (crowd->stops ? BL_TURN_CANCELLED : BL_TURN_COMPLETED))
        report_die("the crowd did not come to the end that it should");
    bl_scope_done(&crowd->scope);
    model_close(NULL, player);
    bl_store_close(crowd->store);
    unlink(path);
    bl_free(result);
    bl_free(error);
    return 0;
}

/* One crowd from its start to its end; returns seconds. */
static double run_crowd(struct crowd *crowd, const char *thought, bool stops)
{
    struct bl_toolbox_options options = {.workspace = folder, .sandbox_chosen = true};
    struct bl_buffer text;
    struct bl_loop *loop;

    *crowd = (struct crowd){.stops = stops};
    bl_arena_init(&crowd->arena);
    bl_list_init(&crowd->notices);
    bl_buffer_init(&text, SIZE_MAX);
    write_script(&text, thought);
    if (bl_script_parse(bl_buffer_text(&text), "bench", &crowd->script, NULL) != 0)
        report_die("the script is wrong");
    crowd->permissions = options.permissions = bl_permissions_new(BL_PERMISSION_YOLO);
    bl_personas_find(&crowd->arena, folder, &crowd->personas, &crowd->notices);
    if (bl_toolbox_new(&options, &crowd->toolbox, NULL) != 0 || bl_loop_new(NULL, &loop, NULL) != 0)
        report_die("the parts cannot be made");
    double start_ns = report_wall_ns();
    bl_loop_run(loop, "crowd", crowd_main, crowd);
    double seconds = (report_wall_ns() - start_ns) / 1e9;
    bl_loop_free(loop);
    bl_toolbox_free(crowd->toolbox);
    bl_permissions_free(crowd->permissions);
    bl_script_free(crowd->script);
    bl_buffer_done(&text);
    bl_arena_done(&crowd->arena);
    return seconds;
}

/* Runs in a separate process, so that earlier memory does not count. */
static void measure_crowd(void)
{
    double before_kib = status_kib(getpid(), "VmRSS:"), rates[ROUNDS], stops[ROUNDS];
    struct crowd crowd;

    run_crowd(&crowd, "3s", true);
    report_line("resident memory of each of 1,011 agents at work",
                (crowd.resident_kib - before_kib) / AGENTS, "KiB", "the limit", 96);
    for (int i = 0; i < ROUNDS; i++) {
        double seconds = run_crowd(&crowd, "0ms", false);
        rates[i] = (GROUPS * MEMBERS * (STEPS + 1) + GROUPS) / seconds;
    }
    for (int i = 0; i < ROUNDS; i++) {
        run_crowd(&crowd, "60s", true);
        stops[i] = (crowd.quiet_ns - crowd.stopped_ns) / 1e6;
    }
    double rate = report_median(rates, ROUNDS);
    report_line("a step of one of 1,011 agents, each with its session", 1e6 / rate, "us",
                "10,000 steps per second", 100);
    report_line("stop of 1,011 agents until all is written and closed",
                report_median(stops, ROUNDS), "ms", "the limit", 500);
}

/* ---- One run --------------------------------------------------------------------------------- */

/* True if the kernel has that name for a process. Before exec, it is the name of this program. */
static bool is_named(pid_t pid, const char *name)
{
    char path[80], found[64] = "";

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    bool same = file != NULL && fgets(found, sizeof found, file) != NULL &&
                strncmp(found, name, strlen(name)) == 0;
    if (file != NULL)
        fclose(file);
    return same;
}

/* The sum of the peak resident memory of belay and of its warden. */
static double tree_peak_kib(pid_t pid)
{
    char path[80];
    double sum = is_named(pid, "belay") ? status_kib(pid, "VmHWM:") : 0;
    int child;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &child) == 1)
        sum += is_named(child, "warden") ? status_kib(child, "VmHWM:") : 0;
    if (file != NULL)
        fclose(file);
    return sum;
}

static double run_peak_kib(void)
{
    static const char script[] =
        "replies: [{tools: [{name: bash, input: {command: 'sleep 0.5'}}]}, {say: done}]\n";
    char path[PATH_MAX + 64], option[PATH_MAX + 80], store[PATH_MAX + 64];

    snprintf(path, sizeof path, "%s/agent-bench.yaml", folder);
    snprintf(option, sizeof option, "script:%s", path);
    snprintf(store, sizeof store, "%s/agent-bench-run.db", folder);
    FILE *file = fopen(path, "we");
    if (file == NULL || fputs(script, file) < 0 || fclose(file) != 0)
        report_die("the script cannot be written");
    pid_t pid = fork();
    if (pid == 0) {
        if (freopen("/dev/null", "w", stdout) != NULL)
            execl(BELAY_BUILD_ROOT "/belay", "belay", "run", "--yolo", "--provider", option,
                  "--store", store, "go", (char *)NULL);
        _exit(127);
    }
    double peak = 0;
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        double now = tree_peak_kib(pid);
        peak = now > peak ? now : peak;
        usleep(5000);
    }
    if (status != 0)
        report_die("belay run failed");
    unlink(path);
    unlink(store);
    return peak;
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1 ? realpath(arguments[1], folder) == NULL
                           : getcwd(folder, sizeof folder) == NULL)
        report_die("there is no such folder");
    setenv("BELAY_WARDEN", BELAY_BUILD_ROOT "/belay-warden", 0);
    measure_crowd();
    report_line("peak memory of belay run with one tool call, its warden included",
                run_peak_kib() / 1024, "MiB", "the limit", 16);
    return 0;
}
