#include <stdio.h>

#include "cli/answers.h"
#include "progress.h"
#include "run.h"

/* An envelope contains the prompt twice, and each byte may take six. */
#define EVENT_MAX         ((size_t)1024 * 1024 * 1024)
#define LINE_SIZE         512
#define MESSAGE_SHOWN_MAX ((size_t)200)

/* ---- Events ---------------------------------------------------------------------------------- */

static void run_output_write_event(void *context, const struct bl_event *event)
{
    struct run_work *work = context;
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(line, EVENT_MAX);

    bl_json_writer_init(&writer, &line);
    bl_event_write(&writer, event);
    if (bl_json_writer_done(&writer) == 0 && bl_buffer_append_byte(&line, '\n') == 0)
        cli_stream_write(&work->stream, bl_buffer_text(&line));
}

/* Writes the answer of a turn; adds a newline if it does not end in one. */
static void run_output_write_answer(struct run_work *work, struct bl_text output)
{
    cli_stream_say(&work->stream, output);
    if (!bl_text_ends_with(output, BL_TEXT("\n")))
        cli_stream_say(&work->stream, BL_TEXT("\n"));
}

static void remark_warning(struct run_work *work, struct bl_text text)
{
    cli_remark(bl_arena_printf(&work->arena, "belay run: " BL_TEXT_FORMAT "\n", BL_TEXT_ARG(text)));
}

/* In text, each answer is printed when its turn ends. With a request id some may be recorded
 * already; then all are printed at the end, in order. */
static bool answers_at_end(const struct run_work *work)
{
    return work->options->request_id != NULL;
}

/* Takes the end of a turn; of a sub-agent's turn, only the refusals. */
static void run_output_take_turn(struct run_work *work, const struct bl_event *event)
{
    struct bl_json_limits limits = {.size_max = EVENT_MAX, .string_max = EVENT_MAX};
    struct bl_turn_result result;
    const struct bl_json *value;
    BL_AUTO_ARENA(arena);

    if (bl_json_read(&arena, event->json, &limits, &value, NULL) != 0)
        return;
    bl_record_take(&arena, &bl_turn_result_record, value, &result);
    run_refusals_add(work, &result);
    if (event->agent == NULL && result.end == BL_TURN_COMPLETED && !answers_at_end(work) &&
        !run_progress_shows_answer(work->progress))
        run_output_write_answer(work, result.output);
}

static void run_output_write_text(void *context, const struct bl_event *event)
{
    struct run_work *work = context;

    if (work->progress != NULL)
        run_progress_event(work->progress, event);
    /* Warnings from the start have already been printed. */
    else if (event->type == BL_EVENT_WARNING && event->turn != NULL)
        remark_warning(work, event->text);
    if (event->type == BL_EVENT_TURN_ENDED)
        run_output_take_turn(context, event);
}

static const struct bl_listener *listener(struct run_work *work)
{
    work->listening.context = work;
    switch (work->call->format) {
    case CLI_FORMAT_STREAM_JSON:
        work->listening.event = run_output_write_event;
        return &work->listening;
    case CLI_FORMAT_TEXT: work->listening.event = run_output_write_text; return &work->listening;
    case CLI_FORMAT_JSON: break;
    }
    return NULL;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static const struct bl_member run_members[] = {
    BL_MEMBER_INCLUDE(&bl_run_answer_record),
    BL_MEMBER_END,
};
const struct cli_answer run_answer = {
    BL_RECORD("run", struct bl_run_answer, run_members,
              .about = "One line on standard output; in stream-json the last one. If the run could "
                       "not start, it has an error instead."),
    .of = "run", .exits = &cli_exits_running, .format = CLI_ANSWER_ANY};

void run_answer_stream(struct run_work *work, const struct bl_record *record, const void *from)
{
    cli_answer_stream(&work->stream, work->call, &work->exit_code, record, from);
}

static void run_output_write_result(struct run_work *work)
{
    const struct bl_workspace_options *options = &work->options->workspace;
    struct bl_run_answer answer;

    bl_run_answer_init(&answer, &work->arena, &work->result, &work->workspace->model);
    answer.prompt = work->prompt;
    answer.max_turns = options->max_turns;
    answer.timed = options->timed;
    answer.timeout_ns = (uint64_t)options->timeout_ns;
    run_answer_stream(work, &run_answer.record, &answer);
}

void run_answers_write(struct bl_buffer *out, const struct bl_list *turns)
{
    BL_LIST_EACH (link, turns) {
        const struct bl_turn_result *turn = BL_CONTAINER(link, struct bl_turn_result, link);
        if (turn->end != BL_TURN_COMPLETED)
            continue;
        bl_buffer_append(out, turn->output);
        if (!bl_text_ends_with(turn->output, BL_TEXT("\n")))
            bl_buffer_append_byte(out, '\n');
    }
}

static void write_answers(struct run_work *work)
{
    BL_AUTO_BUFFER(out, EVENT_MAX);

    run_answers_write(&out, &work->result.run.turns);
    cli_stream_say(&work->stream, bl_buffer_text(&out));
}

/* With an incomplete recording (--record), the run never reports success. */
int run_exit_code(const struct run_work *work)
{
    int exit_code = work->error.code != 0 ? cli_error_exit_code(&work->error)
                                          : bl_run_exit_code(&work->result.run);

    return exit_code == CLI_EXIT_OK && work->workspace->record_error.code != 0 ? CLI_EXIT_FAILED
                                                                               : exit_code;
}

static void run_output_report(struct run_work *work)
{
    bool failed = work->error.code != 0;

    work->exit_code = run_exit_code(work);
    if (work->call->format != CLI_FORMAT_TEXT && failed)
        run_answer_stream(work, &cli_failure_record, &work->error);
    else if (work->call->format != CLI_FORMAT_TEXT)
        run_output_write_result(work);
    else if (!failed && answers_at_end(work))
        write_answers(work);
}

/* ---- For people ------------------------------------------------------------------------------ */

static void remark_recovery(struct run_work *work)
{
    const struct bl_store_recovery *recovery = &work->result.recovery;

    if (!recovery->owner_died)
        return;
    cli_remark(bl_store_recovery_text(&work->arena, work->result.session_id, recovery));
    cli_remark(BL_TEXT("\n"));
}

/* Returns an explanation of an end other than completion. */
static const char *end_meaning(enum bl_turn_end end)
{
    switch (end) {
    case BL_TURN_MAX_TURNS: return "the session has as many turns as --max-session-turns allows";
    case BL_TURN_MAX_BUDGET:
        return "the turn would use, or has used, more than --max-budget-tokens or "
               "--max-budget-usd allows";
    case BL_TURN_MAX_STEPS: return "the turn has made as many tool calls as --max-steps allows";
    case BL_TURN_CANCELLED: return "it was stopped";
    case BL_TURN_TIMEOUT: return "the deadline was reached";
    case BL_TURN_ERROR: return "it failed";
    case BL_TURN_COMPLETED: break;
    }
    return "";
}

static void complain_end(const struct cli_call *call, const struct bl_run_result *run)
{
    const struct bl_error *cause = run->error;
    struct bl_error error = {0};

    bool unknown = cause != NULL && strcmp(cause->name, "commit_unknown") == 0;
    bl_error_set(
        &error, BL_EINVAL, BL_KIND_RUNTIME, "run", NULL, "%s: %s; %s", bl_turn_end_name(run->end),
        cause != NULL && cause->message[0] != '\0' ? cause->message : end_meaning(run->end),
        unknown ? "the next use of the session shows whether the turn was committed"
                : "the session is unchanged");
    if (cause != NULL)
        bl_error_hint(&error, "%s", cause->hint);
    cli_complain(call, &error);
}

static void remark_kept(const struct bl_run_result *run, const char *session)
{
    char line[LINE_SIZE];

    if (bl_list_empty(&run->turns) ||
        !BL_CONTAINER(run->turns.previous, struct bl_turn_result, link)->interrupted)
        return;
    snprintf(line, sizeof line,
             "The partial output is kept in session %s, marked as interrupted.\n", session);
    cli_remark(bl_text_from(line));
}

void run_remark_result(const struct cli_call *call, const struct bl_run_result *run,
                       const char *session)
{
    struct bl_text line = bl_text_trim(run->receipt_line);
    bool stopped = run->end == BL_TURN_CANCELLED || run->end == BL_TURN_TIMEOUT;
    BL_AUTO_BUFFER(whole, SIZE_MAX / 2);

    if (line.size > 0) {
        bl_buffer_append(&whole, line);
        bl_buffer_append_byte(&whole, '\n');
        cli_remark(bl_buffer_text(&whole));
    }
    if (run->end != BL_TURN_COMPLETED && (!stopped || line.size == 0))
        complain_end(call, run);
    if (stopped)
        remark_kept(run, session);
}

/* Reports undelivered messages; of each, a line shows the beginning. */
static void remark_undelivered(struct run_work *work)
{
    BL_LIST_EACH (link, &work->result.undelivered) {
        const struct bl_undelivered *message = BL_CONTAINER(link, struct bl_undelivered, link);
        struct bl_text rest = message->text, line;
        bl_text_split(&rest, '\n', &line);
        struct bl_text shown = bl_utf8_cut(line, MESSAGE_SHOWN_MAX);
        cli_remark(bl_arena_printf(
            &work->arena, "belay run: message %s was not delivered: " BL_TEXT_FORMAT "%s\n",
            message->id, BL_TEXT_ARG(shown), shown.size < message->text.size ? "…" : ""));
    }
}

void run_remark_end(struct run_work *work)
{
    const struct bl_run_result *run = &work->result.run;

    if (work->error.code != 0) {
        cli_complain(work->call, &work->error);
        return;
    }
    if (work->workspace->record_error.code != 0)
        cli_complain(work->call, &work->workspace->record_error);
    remark_recovery(work);
    remark_undelivered(work);
    run_refusals_say(work);
    run_remark_result(work->call, run, work->result.session_id);
}

const struct run_face run_face = {
    .name = "run",
    .shows = true,
    .listener = listener,
    .report = run_output_report,
    .remark = run_remark_end,
};
