#include <stdio.h>

#include "queue.h"

#include "cli/answers.h"
#include "client.h"

#define LOOK_NS_MIN (200 * BL_NS_PER_MS)
#define LOOK_NS_MAX BL_NS_PER_S
/* How long the database may be away. */
#define AWAY_NS       (60 * BL_NS_PER_S)
#define LINE_MAX_SIZE 4096u

/* ---- Looking --------------------------------------------------------------------------------- */

static int wait_look(struct queue_wait *wait, const struct bl_fleet_store *table,
                     struct bl_error *error)
{
    *error = (struct bl_error){0};
    bl_arena_reset(&wait->arena);
    int code = table->look(table->context, &wait->arena, wait->id, &wait->view, error);
    if (code != BL_ENOENT)
        return code;
    *error = (struct bl_error){0};
    bl_error_set(error, code, BL_KIND_SESSION, "wait", wait->id, "no item with id '%s'", wait->id);
    bl_error_hint(error, "'belay fleet list --ended' lists the items");
    return code;
}

int queue_wait_for(struct queue_wait *wait, const struct bl_fleet_store *table,
                   struct bl_error *error)
{
    uint64_t until_ns = wait->timed ? bl_time_add(bl_now_ns(), wait->timeout_ns) : BL_NEVER;
    uint64_t nap_ns = LOOK_NS_MIN, seen_ns = bl_now_ns();

    for (;;) {
        uint64_t from_ns = bl_now_ns();
        int code = wait_look(wait, table, error);
        if (code == 0 && BL_FLEET_ENDED(wait->view.state))
            return 0;
        if (code == 0)
            seen_ns = from_ns;
        else if (!error->retryable || bl_now_ns() - seen_ns > AWAY_NS)
            return code;
        uint64_t now_ns = bl_now_ns();
        if (now_ns >= until_ns)
            return code == 0 ? BL_EAGAIN : code;
        code = bl_sleep(until_ns - now_ns < nap_ns ? until_ns - now_ns : nap_ns);
        if (code != 0)
            return code;
        nap_ns = 2 * nap_ns < LOOK_NS_MAX ? 2 * nap_ns : LOOK_NS_MAX;
    }
}

/* ---- Printing -------------------------------------------------------------------------------- */

static const char *wait_end_meaning(const struct bl_fleet_view *view)
{
    if (view->state == BL_FLEET_CANCELLED && view->worker == NULL)
        return "was cancelled before it started";
    if (view->state == BL_FLEET_CANCELLED)
        return "was cancelled, and its worker was lost before it reported the end";
    if (view->state == BL_FLEET_FAILED && view->deaths > 0)
        return "failed: its workers were lost again and again";
    return view->state == BL_FLEET_INTERRUPTED ? "was interrupted: its worker was lost"
                                               : "has ended without an answer";
}

/* An item whose run has not ended has no envelope. */
static int wait_print_end(const struct queue_wait *wait)
{
    const struct bl_fleet_view *view = &wait->view;
    struct bl_error error = {0};

    bl_error_set(&error, BL_EUNKNOWN, BL_KIND_SESSION, "wait", wait->id, "%s %s", wait->id,
                 wait_end_meaning(view));
    return cli_fail(wait->call, &error, view->exit_code != 0 ? view->exit_code : CLI_EXIT_FAILED);
}

/* Fills what is printed about the result. */
static void wait_take_result(struct queue_wait *wait, struct bl_run_answer *answer,
                             struct bl_run_result *result)
{
    struct bl_arena *arena = &wait->arena;
    const struct bl_json *receipt;
    struct bl_buffer line;

    *result = (struct bl_run_result){.end = answer->run.end};
    bl_list_init(&result->turns);
    for (size_t i = 0; i < answer->turn_count; i++) {
        struct bl_turn_result *turn = bl_arena_zalloc(arena, sizeof *turn);
        const struct bl_json *value;
        if (bl_json_read(arena, answer->turns[i],
                         &(struct bl_json_limits){.size_max = SIZE_MAX, .string_max = SIZE_MAX},
                         &value, NULL) != 0)
            continue;
        bl_record_take(arena, &bl_turn_result_record, value, turn);
        bl_list_push_back(&result->turns, &turn->link);
        result->error = turn->failed ? &turn->error : NULL;
    }
    if (bl_json_read(arena, answer->run.receipt, NULL, &receipt, NULL) != 0)
        return;
    bl_buffer_init(&line, LINE_MAX_SIZE);
    cli_receipt_line(receipt, &line);
    result->receipt_line = bl_arena_text(arena, bl_buffer_text(&line));
    bl_buffer_done(&line);
}

static int wait_print_text(struct queue_wait *wait, const struct bl_json *envelope)
{
    struct bl_run_answer answer;
    struct bl_run_result result;
    BL_AUTO_BUFFER(out, SIZE_MAX / 2);

    bl_record_take(&wait->arena, &bl_run_answer_record, envelope, &answer);
    wait_take_result(wait, &answer, &result);
    run_answers_write(&out, &result.turns);
    int exit_code = cli_print(wait->call, bl_buffer_text(&out), wait->view.exit_code);
    run_remark_result(wait->call, &result, answer.session_id != NULL ? answer.session_id : "");
    return exit_code;
}

static int wait_print_failure(struct queue_wait *wait, const struct bl_json *failure)
{
    struct bl_error error = {0};

    bl_record_take(&wait->arena, &bl_error_record, failure, &error);
    if (error.code == 0)
        error.code = BL_EUNKNOWN;
    cli_complain(wait->call, &error);
    return wait->view.exit_code;
}

int queue_wait_print(struct queue_wait *wait)
{
    struct bl_json_limits limits = {.size_max = SIZE_MAX, .string_max = SIZE_MAX};
    struct bl_text envelope = wait->view.envelope;
    const struct bl_json *value;

    if (envelope.size == 0)
        return wait_print_end(wait);
    if (wait->call->format != CLI_FORMAT_TEXT) {
        int exit_code = cli_print_raw(wait->call, envelope, wait->view.exit_code);
        return exit_code == wait->view.exit_code
                   ? cli_print_raw(wait->call, BL_TEXT("\n"), exit_code)
                   : exit_code;
    }
    if (bl_json_read(&wait->arena, envelope, &limits, &value, NULL) != 0)
        return wait_print_end(wait);
    const struct bl_json *failure = bl_json_get(value, BL_TEXT("error"));
    return failure != NULL ? wait_print_failure(wait, failure) : wait_print_text(wait, value);
}

int queue_wait_left(const struct queue_wait *wait, int signal_number)
{
    struct bl_error error = {0};

    bl_error_set(&error, BL_ECANCELED, BL_KIND_RUNTIME, "wait", wait->id,
                 "stopped waiting; %s continues", wait->id);
    bl_error_hint(&error, "'belay cancel %s' stops it, 'belay wait %s' waits for it again",
                  wait->id, wait->id);
    return cli_fail(wait->call, &error,
                    signal_number == SIGTERM ? CLI_EXIT_TERMINATED : CLI_EXIT_CLIENT_GONE);
}

/* ---- The command ----------------------------------------------------------------------------- */

struct wait_command {
    struct queue_client client;
    struct wait_options options;
    struct queue_wait wait;
};

static int wait_work(struct queue_client *client)
{
    struct wait_command *command = BL_CONTAINER(client, struct wait_command, client);

    return queue_wait_for(&command->wait, client->table, &client->error);
}

static int wait_expired(const struct wait_command *command)
{
    const struct queue_wait *wait = &command->wait;
    struct bl_error error = {0};

    bl_error_set(&error, BL_ETIMEDOUT, BL_KIND_RUNTIME, "wait", wait->id, "%s is still %s",
                 wait->id, bl_names_get(&bl_fleet_states, wait->view.state));
    bl_error_hint(&error, "'belay cancel %s' stops it", wait->id);
    return cli_fail(wait->call, &error, CLI_EXIT_RUNNING);
}

static int wait_perform(struct wait_command *command)
{
    struct queue_client *client = &command->client;

    queue_client_do(client);
    if (client->code == 0)
        return queue_wait_print(&command->wait);
    if (client->signal != 0)
        return queue_wait_left(&command->wait, client->signal);
    if (client->code == BL_EAGAIN)
        return wait_expired(command);
    return cli_fail(command->wait.call, &client->error, cli_error_exit_code(&client->error));
}

int cli_wait_run(struct cli_call *call)
{
    struct wait_command command = {.client = {.name = "wait", .work = wait_work},
                                   .wait = {.call = call}};
    struct bl_error *error = &command.client.error;
    int exit_code;

    int code = cli_options_read(call, &command.options, NULL, error);
    if (code == 0)
        code = cli_fleet_check(command.options.store, error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code != 0)
        return cli_fail_usage(call, error);
    command.client.where = command.options.store;
    command.wait.id = command.options.id;
    command.wait.timed = command.options.timed;
    command.wait.timeout_ns = command.options.timeout_ns;
    bl_arena_init(&command.wait.arena);
    exit_code = wait_perform(&command);
    bl_arena_done(&command.wait.arena);
    return exit_code;
}
