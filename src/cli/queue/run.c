/* The run of an item: as `belay run` does it, with the envelope that `belay run --json` prints. */
#include <inttypes.h>

#include "queue.h"

#include "cli/member.h"

#include "cli/answers.h"
#include "cli/table/commands.h"

/* An item while it runs. */
struct queue_try {
    struct queue_runner *runner;
    struct bl_fleet_try *one;
    struct queue_item item;
    bool readable; /* `item` was read */
    struct queue_directory own;
    struct bl_run_answer answer;
    struct bl_error *error; /* code 0: there is an answer */
};

/* ---- Before the run -------------------------------------------------------------------------- */

/* The time of the item is that of its claim: what is left of it. */
static void queue_try_set_time(const struct queue_try *try, struct bl_run_order *order)
{
    uint64_t deadline_ns = bl_scope_deadline_ns(try->one->scope);

    order->from_ns = bl_now_ns();
    if (!try->one->item->timed)
        return;
    order->request.timed = true;
    order->request.timeout_ns = deadline_ns - order->from_ns;
}

static const char *const *queue_try_variables(const struct queue_try *try)
{
    struct bl_arena *arena = try->one->arena;
    const struct bl_fleet_item *item = try->one->item;
    const char **variables = bl_arena_zalloc(arena, 4 * sizeof *variables);

    variables[0] = bl_arena_printf(arena, "BELAY_ITEM=%s", item->id).data;
    variables[1] = bl_arena_printf(arena, "BELAY_EPOCH=%" PRIu64, item->epoch).data;
    if (try->item.trace_parent != NULL)
        variables[2] = bl_arena_printf(arena, "TRACEPARENT=%s", try->item.trace_parent).data;
    return variables;
}

static int queue_try_find_directory(struct queue_try *try, const char **ret_directory)
{
    *ret_directory = try->item.directory;
    if (*ret_directory != NULL)
        return 0;
    *ret_directory = try->own.path;
    return queue_directory_make(try->runner->folder, &try->own, try->error);
}

static int queue_try_run(struct queue_try *try)
{
    struct bl_fleet_try *one = try->one;
    const struct bl_fleet_item *item = one->item;
    struct bl_run_order order = {.run_id = item->id, .activities = try->runner->activities};

    int code = queue_item_read(one->arena, item->spec, &try->item, try->error);
    try->readable = code == 0;
    if (code == 0)
        code = queue_try_find_directory(try, &order.directory);
    if (code != 0)
        return code;
    /* A later try gets the committed turns of the earlier ones as recorded. */
    order.request = try->item.run;
    order.request.request_id = item->id;
    if (order.request.session == NULL)
        order.request.session = item->session;
    order.variables = queue_try_variables(try);
    queue_try_set_time(try, &order);
    code = bl_runtime_run(try->runner->runtime, &order, one->scope, one->arena, &try->answer,
                          try->error);
    /* The limit of the item, and not what was left of it. */
    if (code == 0 && item->timed && try->item.run.timed &&
        try->answer.timeout_ns == order.request.timeout_ns)
        try->answer.timeout_ns = try->item.run.timeout_ns;
    return code;
}

/* ---- The end --------------------------------------------------------------------------------- */

static enum bl_fleet_state queue_try_state(const struct queue_try *try)
{
    if (try->error->code != 0)
        return BL_FLEET_FAILED;
    if (try->answer.run.end == BL_TURN_COMPLETED)
        return BL_FLEET_COMPLETED;
    return try->answer.run.end == BL_TURN_CANCELLED ? BL_FLEET_CANCELLED : BL_FLEET_FAILED;
}

/* A session that is in use may be free later. */
static bool queue_try_error_passes(const struct bl_error *error)
{
    return error != NULL &&
           (error->retryable || (error->code == BL_EBUSY && error->kind == BL_KIND_SESSION));
}

static bool queue_try_retryable(const struct queue_try *try)
{
    const struct bl_run_result *run = &try->answer.run;

    if (!try->readable)
        return false;
    if (try->error->code != 0)
        return queue_item_retried(&try->item, "error") && queue_try_error_passes(try->error);
    if (run->end == BL_TURN_TIMEOUT)
        return queue_item_retried(&try->item, "timeout");
    return run->end == BL_TURN_ERROR && queue_item_retried(&try->item, "error") &&
           queue_try_error_passes(run->error);
}

static struct bl_text queue_try_envelope(const struct queue_try *try, int *exit_code)
{
    const struct cli_call call = {
        .command = &cli_run_command, .asked = CLI_FORMAT_JSON, .format = CLI_FORMAT_JSON};
    bool failed = try->error->code != 0;
    struct bl_buffer line;

    cli_answer_write_long(&line, &call, exit_code,
                          failed ? &cli_failure_record : &run_answer.record,
                          failed ? (const void *)try->error : (const void *)&try->answer);
    struct bl_text envelope = bl_arena_text(try->one->arena, bl_text_trim(bl_buffer_text(&line)));
    bl_buffer_done(&line);
    return envelope;
}

static void queue_try_fill_end(struct queue_try *try)
{
    struct bl_fleet_try *one = try->one;
    bool failed = try->error->code != 0;
    int exit_code = failed ? cli_error_exit_code(try->error) : bl_run_exit_code(&try->answer.run);

    one->end.state = queue_try_state(try);
    one->end.envelope = queue_try_envelope(try, &exit_code);
    one->end.exit_code = exit_code;
    if (!failed) {
        one->end.receipt = try->answer.run.receipt;
        if (try->answer.session_id != NULL)
            one->end.session = try->answer.session_id;
    }
    one->retryable = one->end.state == BL_FLEET_FAILED && queue_try_retryable(try);
}

static void queue_try_remove_directory(struct queue_try *try)
{
    struct bl_error *error = bl_arena_zalloc(try->one->arena, sizeof *error);

    if (try->own.lock < 0 || queue_directory_remove(&try->own, error) == 0)
        return;
    cli_remark(bl_arena_printf(try->one->arena, "belay worker: %s: %s\n", try->one->item->id,
                               error->message));
}

/* Outside of the item's scope: after a stop, there is still an end to report. */
void queue_run(void *context, struct bl_fleet_try *one)
{
    struct queue_runner *runner = context;
    struct queue_try *try = bl_arena_zalloc(one->arena, sizeof *try);
    struct bl_scope shield;

    bl_shield_begin(&shield, BL_NEVER);
    try->runner = runner;
    try->one = one;
    try->own.lock = -1;
    try->error = bl_arena_zalloc(one->arena, sizeof *try->error);
    runner->begun(runner->context, one->item);
    queue_try_run(try);
    queue_try_fill_end(try);
    queue_try_remove_directory(try);
    bl_shield_end(&shield);
}

void queue_ended(void *context, const struct bl_fleet_try *one)
{
    struct queue_runner *runner = context;

    runner->ended(runner->context, one);
}

struct bl_fleet_retries queue_retries(void *context, const struct bl_fleet_item *item)
{
    struct queue_item read;
    BL_AUTO_ARENA(arena);

    (void)context;
    if (queue_item_read(&arena, item->spec, &read, NULL) != 0)
        return (struct bl_fleet_retries){0};
    return (struct bl_fleet_retries){.most = read.retry, .delay_ns = read.retry_delay_ns};
}

void queue_hurry(void *context, struct bl_fleet_try *one)
{
    struct queue_runner *runner = context;

    bl_activities_hurry(runner->activities, one->item->id);
}

bool queue_stop_part(void *context, struct bl_fleet_try *one, const struct bl_fleet_order *order,
                     struct bl_arena *arena, struct bl_text *ret_receipt)
{
    struct queue_runner *runner = context;

    return cli_member_stop(runner->activities, one->item->id, order, arena, ret_receipt);
}
