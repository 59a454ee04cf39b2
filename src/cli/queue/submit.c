#include <stdio.h>

#include "queue.h"

#include "cli/answers.h"
#include "client.h"

struct submit_command {
    struct cli_call *call;
    struct queue_client client;
    struct submit_options options;
    struct bl_arena arena;
    const char *const *ends; /* that are retried; NULL: the default */
    const char *id;          /* of the item, once it is in the queue */
    const char *pool;
    struct queue_wait wait;
};

/* ---- The command line ------------------------------------------------------------------------ */

static int submit_check_form(const char *name, const char *value, const struct bl_form *form,
                             struct bl_error *error)
{
    if (value == NULL || form->fits(bl_text_from(value)))
        return 0;
    return cli_value_refuse(name, value, form->expected, error);
}

static int submit_check_start(const struct submit_options *options, struct bl_error *error)
{
    if (options->delay_ns == 0 || options->at == NULL)
        return submit_check_form("--at", options->at, &queue_time_form, error);
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--at",
                 "--in and --at exclude each other");
    bl_error_hint(error, "give one of them");
    return BL_EINVAL;
}

/* Splits "error,timeout". */
static int submit_take_ends(struct submit_command *command, struct bl_error *error)
{
    const char *value = command->options.retry_on;
    struct bl_text rest = bl_text_from(value), word;
    const char **ends;
    size_t count = 0;
    bool known = true;

    if (value == NULL)
        return 0;
    ends = bl_arena_zalloc(&command->arena, (strlen(value) + 2) * sizeof *ends);
    while (bl_text_split(&rest, ',', &word)) {
        known = known && queue_item_may_retry(word);
        ends[count++] = bl_arena_text(&command->arena, word).data;
    }
    command->ends = ends;
    if (known && (count == 1 || (count == 2 && strcmp(ends[0], ends[1]) != 0)))
        return 0;
    return cli_value_refuse("--retry-on", value, "error, timeout, or both with a comma", error);
}

static int submit_check(struct submit_command *command, struct bl_error *error)
{
    const struct submit_options *options = &command->options;
    int code = queue_check_labels(options->labels, options->label_count, error);
    if (code == 0)
        code = submit_check_start(options, error);
    if (code == 0)
        code = submit_check_form("--dir", options->directory, &queue_directory_form, error);
    if (code == 0)
        code = submit_check_form("--trace-parent", options->trace_parent, &queue_trace_form, error);
    return code == 0 ? submit_take_ends(command, error) : code;
}

static struct queue_item submit_item(const struct submit_options *options, struct bl_text prompt)
{
    const struct bl_workspace_options *workspace = &options->run.workspace;

    return (struct queue_item){
        .run = {.prompt = prompt,
                .session = options->run.session,
                .model = workspace->model,
                .timed = workspace->timed,
                .timeout_ns = (uint64_t)workspace->timeout_ns,
                .max_turns = workspace->max_turns,
                .max_steps = workspace->limits.max_steps,
                .max_budget_usd = workspace->budgeted ? workspace->max_budget_usd : -1,
                .mode_chosen = workspace->mode_chosen,
                .mode = workspace->mode,
                .request_id = options->run.request_id},
        .kind = "run",
        .pool = options->pool,
        .labels = options->labels,
        .key = options->key,
        .weight = options->weight,
        .priority = (int32_t)options->priority - QUEUE_PRIORITY_MOST,
        .limit_key = options->limit_key,
        .delay_ns = options->delay_ns,
        .at = options->at,
        .retry = options->retry,
        .retry_delayed = options->retry_delayed,
        .retry_delay_ns = options->retry_delay_ns,
        .directory = options->directory,
        .trace_parent = options->trace_parent,
    };
}

/* ---- The work -------------------------------------------------------------------------------- */

/* For people who wait: what is waited for, and how to stop it. */
static void submit_say_id(const struct submit_command *command)
{
    char line[300];

    if (command->call->format != CLI_FORMAT_TEXT || !command->options.wait)
        return;
    int size = snprintf(line, sizeof line,
                        "belay submit: waiting for %s; Ctrl-C ends only this command, 'belay "
                        "cancel %s' stops the work\n",
                        command->id, command->id);
    cli_remark((struct bl_text){line, (size_t)size});
}

static int submit_work(struct queue_client *client)
{
    struct submit_command *command = BL_CONTAINER(client, struct submit_command, client);
    const struct run_options *options = &command->options.run;
    const char *notice = NULL;
    struct bl_text prompt;

    int code = run_prompt_read(options, command->call->format == CLI_FORMAT_TEXT, &command->arena,
                               &prompt, &notice, &client->error);
    if (code == 0 && notice != NULL && command->call->format == CLI_FORMAT_TEXT)
        cli_remark(bl_arena_printf(&command->arena, "belay submit: %s\n", notice));
    if (code != 0)
        return code;
    struct queue_item item = submit_item(&command->options, prompt);
    item.retry_on = command->ends;
    code = client->table->offer(client->table->context, &command->arena,
                                bl_record_text(&command->arena, &queue_item_record, &item),
                                &command->id, &client->error);
    if (code != 0 || !command->options.wait)
        return code;
    submit_say_id(command);
    command->wait.id = command->id;
    return queue_wait_for(&command->wait, client->table, &client->error);
}

/* ---- The answer ------------------------------------------------------------------------------ */

#define BL_RECORD_STRUCT struct submit_command
static const struct bl_member submit_members[] = {
    BL_MEMBER_STRING("id", id, .least = 1, .about = "Id of the item, for wait and cancel."),
    BL_MEMBER_STRING("pool", pool, .least = 1, .about = "Pool whose workers may run it."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer submit_answer = {BL_RECORD("submit", struct submit_command, submit_members),
                                         .of = "submit"};

static int submit_print(struct submit_command *command)
{
    if (command->call->format != CLI_FORMAT_TEXT)
        return cli_answer_print(command->call, CLI_EXIT_OK, &submit_answer.record, command);
    return cli_print(command->call, bl_arena_printf(&command->arena, "%s\n", command->id),
                     CLI_EXIT_OK);
}

static int submit_perform(struct submit_command *command)
{
    struct queue_client *client = &command->client;

    queue_client_do(client);
    if (client->code == 0)
        return command->options.wait ? queue_wait_print(&command->wait) : submit_print(command);
    if (client->signal != 0 && command->id != NULL)
        return queue_wait_left(&command->wait, client->signal);
    bl_error_set(&client->error, client->code, BL_KIND_RUNTIME, "submit", NULL,
                 "stopped before the item was submitted");
    return cli_fail(command->call, &client->error,
                    client->signal == 0         ? cli_error_exit_code(&client->error)
                    : client->signal == SIGTERM ? CLI_EXIT_TERMINATED
                                                : CLI_EXIT_CLIENT_GONE);
}

int cli_submit_run(struct cli_call *call)
{
    struct submit_command command = {
        .call = call,
        .client = {.name = "submit", .work = submit_work},
        .options = {.pool = QUEUE_POOL,
                    .priority = QUEUE_PRIORITY_MOST,
                    .retry = QUEUE_RETRY_DEFAULT},
        .wait = {.call = call},
    };
    struct submit_options *options = &command.options;
    struct bl_error *error = &command.client.error;
    int exit_code;

    bl_arena_init(&command.arena);
    bl_arena_init(&command.wait.arena);
    int code = run_options_parse_queue(call, false, &options->run, error);
    if (code == 0)
        code = submit_check(&command, error);
    if (code == CLI_OPTION_HELP) {
        exit_code = cli_help_print(call, call->command);
    } else if (code != 0) {
        exit_code = cli_fail_early(call, error);
    } else {
        command.pool = options->pool;
        command.client.where = options->run.store;
        exit_code = submit_perform(&command);
    }
    run_options_done(&options->run);
    bl_arena_done(&command.wait.arena);
    bl_arena_done(&command.arena);
    return exit_code;
}
