#include "serving.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#define LARGE_SIZE       (256 * 1024)
#define STORE_NAP_NS_MAX (30 * BL_NS_PER_S)

static void serving_hurry(void *context)
{
    struct serving *serving = context;

    if (serving->interrupt != NULL)
        serving->interrupt(serving);
    else
        bl_runtime_hurry(&serving->runtime);
}

static void serving_interrupt(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct serving *serving = BL_CONTAINER(hook, struct serving, interrupted);

    (void)scope;
    serving->interrupt(serving);
}

/* A signal stops the scope, or only tells the command. */
static int serving_listen(struct serving *serving)
{
    bool tells = serving->interrupt != NULL;

    bl_scope_init(&serving->asked, bl_scope_current());
    if (tells)
        bl_stop_hook_add(&serving->interrupted, &serving->asked, serving_interrupt);
    return cli_signals_start(&serving->signals, tells ? &serving->asked : &serving->scope,
                             serving_hurry, serving);
}

static void serving_listen_end(struct serving *serving)
{
    cli_signals_block(&serving->signals);
    cli_signals_end(&serving->signals);
    if (serving->interrupt != NULL)
        bl_stop_hook_remove(&serving->interrupted);
    bl_scope_done(&serving->asked);
}

static void warn_unreachable(const struct serving *serving, const struct bl_error *error)
{
    BL_AUTO_BUFFER(line, 4096);

    bl_buffer_printf(&line,
                     "belay %s: 'belay ps' and 'belay cancel' cannot reach this process: %s\n",
                     serving->name, error->message);
    cli_remark(bl_buffer_text(&line));
}

static int serving_stop_exit_code(const struct serving *serving)
{
    return serving->signals.first == SIGTERM ? CLI_EXIT_TERMINATED : CLI_EXIT_CLIENT_GONE;
}

/* Serves; without a control socket if it cannot be created. */
static int serve_listed(struct serving *serving)
{
    struct bl_nursery services;
    struct bl_control *control = NULL;
    struct bl_error *error = bl_zalloc(sizeof *error);

    bl_nursery_init(&services, bl_scope_current());
    if (bl_control_start(&services, &serving->activities, &control, error) != 0) {
        control = NULL;
        warn_unreachable(serving, error);
    }
    bl_free(error);
    struct bl_scope *outer = bl_scope_enter(&serving->scope);
    int code = serving->serve(serving, &serving->exit_code, &serving->error);
    bl_scope_enter(outer);
    if (code == 0 && serving->signals.first != 0 && serving->interrupt == NULL)
        serving->exit_code = serving_stop_exit_code(serving);
    bl_control_stop(control);
    bl_nursery_done(&services);
    return code;
}

/* A worker waits for its database: it may start before it, with the machine. */
static int serving_open_store(struct serving *serving)
{
    struct bl_error *error = &serving->error;
    uint64_t nap_ns = BL_NS_PER_S;
    bool told = false;

    for (;;) {
        int code = bl_store_open(serving->options->store, &serving->store, error);
        if (code == 0 || serving->interrupt == NULL || !error->retryable)
            return code;
        if (!told)
            cli_complain(serving->call, error);
        told = true;
        *error = (struct bl_error){0};
        code = bl_sleep(nap_ns);
        if (code != 0)
            return code;
        nap_ns = 2 * nap_ns < STORE_NAP_NS_MAX ? 2 * nap_ns : STORE_NAP_NS_MAX;
    }
}

static int serving_begin(struct serving *serving)
{
    const struct run_options *options = serving->options;
    struct bl_scope *outer = bl_scope_enter(&serving->scope);

    int code = serving_open_store(serving);
    if (code == 0 && serving->interrupt == NULL)
        code = cli_member_join(serving->store, &serving->scope, &options->workspace,
                               &serving->activities, &serving->member, &serving->error);
    if (code == 0)
        code = bl_runtime_begin(&serving->runtime, &options->workspace, serving->store,
                                &serving->error);
    bl_scope_enter(outer);
    return code;
}

static void serving_perform(struct serving *serving)
{
    int code = serving_begin(serving);

    if (code == 0)
        code = serve_listed(serving);
    if (code == 0)
        return;
    if (bl_scope_stopped(&serving->scope) && (code == BL_ECANCELED || code == BL_ETIMEDOUT)) {
        serving->error = (struct bl_error){0};
        serving->exit_code = serving_stop_exit_code(serving);
        return;
    }
    bl_error_set(&serving->error, code, BL_KIND_RUNTIME, serving->name, NULL, "cannot serve: %s",
                 bl_error_text(code));
}

static int serving_main(void *argument)
{
    struct serving *serving = argument;

    bl_scope_init(&serving->scope, bl_scope_current());
    bl_list_init(&serving->runtime.open);
    bl_activities_init(&serving->activities);
    int code = serving_listen(serving);
    if (code == 0)
        serving_perform(serving);
    else
        bl_error_set(&serving->error, code, BL_KIND_RUNTIME, "listen for signals", NULL,
                     "cannot listen for signals: %s", bl_error_text(code));
    bl_runtime_end(&serving->runtime);
    bl_fleet_leave(serving->member);
    bl_store_close(serving->store);
    serving_listen_end(serving);
    bl_scope_done(&serving->scope);
    return 0;
}

/* Makes the allocator return large blocks to the system when they are freed, because a server runs
 * for hours. By default it keeps such blocks after a few of them, and the memory between them. */
static void give_memory_back(void)
{
    mallopt(M_MMAP_THRESHOLD, LARGE_SIZE);
    mallopt(M_TRIM_THRESHOLD, LARGE_SIZE);
}

void serving_greet(const struct serving *serving, const char *protocol)
{
    char line[300];

    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return;
    int size = snprintf(line, sizeof line,
                        "belay %s: waiting for a client that speaks %s; Ctrl-D to exit\n",
                        serving->name, protocol);
    cli_remark((struct bl_text){line, (size_t)size});
}

int serving_do(struct serving *serving)
{
    give_memory_back();
    cli_processes_begin();
    cli_signals_block(&serving->signals);
    int code = cli_loop_run(serving->name, serving_main, serving, &serving->error);

    if (code == 0 && serving->error.code == 0)
        return serving->exit_code;
    return cli_fail(serving->call, &serving->error, cli_error_exit_code(&serving->error));
}
