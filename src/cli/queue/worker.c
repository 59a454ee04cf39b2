#include <inttypes.h>
#include <stdio.h>

#include "queue.h"

#include "cli/run/serving.h"

struct worker_command {
    struct serving serving;
    struct worker_options options;
    struct bl_arena arena;
    struct queue_runner runner;
    struct bl_fleet_worker *fleet; /* NULL: it does not work */
    unsigned signals;
    uint64_t counts[BL_FLEET_INTERRUPTED + 1]; /* of ended tries, by state */
};

/* ---- For people ------------------------------------------------------------------------------ */

static void worker_say(const char *format, ...) BL_PRINTF(1, 2);
static void worker_say(const char *format, ...)
{
    char line[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    BL_AUTO_BUFFER(text, sizeof line + 32);
    bl_buffer_printf(&text, "belay worker: %s\n", line);
    cli_remark(bl_buffer_text(&text));
}

static void worker_greet(struct worker_command *command)
{
    const struct worker_options *options = &command->options;
    BL_AUTO_BUFFER(labels, 4096);

    for (size_t i = 0; i < options->label_count; i++)
        bl_buffer_printf(&labels, "%s%s", i == 0 ? ", labels " : " ", options->labels[i]);
    bl_buffer_append_byte(&labels, '\0');
    worker_say("waiting for work: pool %s, %u slot%s%s, store %s", options->pool, options->slots,
               options->slots == 1 ? "" : "s", bl_buffer_text(&labels).data,
               bl_store_shown(&command->arena, options->run.store));
}

static void worker_begun(void *context, const struct bl_fleet_item *item)
{
    const struct worker_command *command = context;

    if (command->options.run.quiet)
        return;
    if (item->tries == 0 && item->deaths == 0)
        worker_say("%s began", item->id);
    else
        worker_say("%s began again (retries: %u, lost workers: %u)", item->id, item->tries,
                   item->deaths);
}

static void worker_ended(void *context, const struct bl_fleet_try *one)
{
    struct worker_command *command = context;
    const struct bl_fleet_end *end = &one->end;
    char ran[32], delay[32];

    command->counts[end->state]++;
    if (command->options.run.quiet)
        return;
    bl_duration_format((int64_t)one->ran_ns, ran);
    bl_duration_format((int64_t)end->retry_ns, delay);
    if (end->state == BL_FLEET_QUEUED)
        worker_say("%s was given back after %s", end->id, ran);
    else if (end->state == BL_FLEET_DELAYED)
        worker_say("%s failed after %s, exit code %d; tried again in %s", end->id, ran,
                   end->exit_code, delay);
    else
        worker_say("%s %s after %s, exit code %d", end->id,
                   bl_names_get(&bl_fleet_states, end->state), ran, end->exit_code);
}

static void worker_sum_up(const struct worker_command *command)
{
    BL_AUTO_BUFFER(text, 1024);
    uint64_t all = 0;

    for (int state = 0; state <= BL_FLEET_INTERRUPTED; state++) {
        if (command->counts[state] == 0)
            continue;
        bl_buffer_printf(&text, "%s%" PRIu64 " %s", all == 0 ? ": " : ", ", command->counts[state],
                         state == BL_FLEET_DELAYED  ? "to be tried again"
                         : state == BL_FLEET_QUEUED ? "given back"
                                                    : bl_names_get(&bl_fleet_states, state));
        all += command->counts[state];
    }
    bl_buffer_append_byte(&text, '\0');
    worker_say("ended; %" PRIu64 " run%s%s", all, all == 1 ? "" : "s", bl_buffer_text(&text).data);
}

/* ---- Signals --------------------------------------------------------------------------------- */

/* The first drains, the second stops the items and gives them back, later ones hurry. */
static void worker_interrupt(struct serving *serving)
{
    struct worker_command *command = serving->context;

    command->signals++;
    if (command->fleet == NULL)
        bl_scope_stop(&serving->scope, BL_STOP_SIGNAL, "signal");
    else if (command->signals <= 2)
        bl_fleet_drain(command->fleet);
    else
        bl_runtime_hurry(&serving->runtime);
    if (command->fleet != NULL && command->signals == 1)
        worker_say("draining: nothing more is claimed; a second signal stops running items");
}

/* ---- The work -------------------------------------------------------------------------------- */

static int worker_find_folder(struct worker_command *command, struct bl_error *error)
{
    const char *state = bl_user_folder(&command->arena, BL_USER_STATE, NULL);

    if (state == NULL) {
        bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "find a folder", NULL,
                     "no folder for the directories of items: neither XDG_STATE_HOME nor HOME is "
                     "set");
        bl_error_hint(error, "set XDG_STATE_HOME");
        return BL_ENOENT;
    }
    command->runner.folder = bl_arena_printf(&command->arena, "%s/items", state).data;
    return 0;
}

static int worker_serve(struct serving *serving, int *ret_exit_code, struct bl_error *error)
{
    struct worker_command *command = serving->context;
    const struct worker_options *options = &command->options;
    const struct bl_workspace_options *workspace = &options->run.workspace;
    struct bl_fleet_worker_options fleet = {
        .member = {.store = bl_store_fleet_table(serving->store),
                   .work = &serving->scope,
                   .grace_ns = cli_member_grace_ns(workspace)},
        .place = {.pool = options->pool, .labels = options->labels, .slots = options->slots},
        .drain_ns = options->drain_ns,
        .until_idle_ns = options->until_idle_ns,
        .run = queue_run,
        .retries = queue_retries,
        .ended = queue_ended,
        .hurry = queue_hurry,
        .stop_part = queue_stop_part,
        .context = &command->runner,
    };

    command->runner.runtime = &serving->runtime;
    command->runner.activities = &serving->activities;
    queue_directory_clean(command->runner.folder);
    worker_greet(command);
    int code = bl_fleet_work(&fleet, &command->fleet, error);
    command->fleet = NULL;
    *ret_exit_code = CLI_EXIT_OK;
    if (code == 0)
        worker_sum_up(command);
    return code;
}

int cli_worker_run(struct cli_call *call)
{
    struct worker_command command = {
        .options = {.pool = QUEUE_POOL, .slots = 1, .drain_ns = QUEUE_DRAIN_NS},
        .runner = {.begun = worker_begun, .ended = worker_ended, .context = &command},
    };
    struct serving *serving = &command.serving;
    struct worker_options *options = &command.options;
    int exit_code;

    *serving = (struct serving){.call = call,
                                .name = "worker",
                                .serve = worker_serve,
                                .interrupt = worker_interrupt,
                                .context = &command,
                                .options = &options->run};
    bl_arena_init(&command.arena);
    int code = run_options_parse_queue(call, true, &options->run, &serving->error);
    if (code == 0)
        code = queue_check_labels(options->labels, options->label_count, &serving->error);
    if (code == 0)
        code = worker_find_folder(&command, &serving->error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &serving->error);
    else
        exit_code = serving_do(serving);
    run_options_done(&options->run);
    bl_arena_done(&command.arena);
    return exit_code;
}
