#include "parts.h"

#define PENDING_MAX ((size_t)512 * 1024 * 1024)

static const char *const type_names[] = {
#define TYPE_NAME(name, text) text,
    BL_EVENT_TABLE(TYPE_NAME)
#undef TYPE_NAME
};

static const struct bl_names types = BL_NAMES(type_names);

const char *bl_event_type_name(enum bl_event_type type)
{
    return (size_t)type < BL_COUNT(type_names) ? type_names[type] : "unknown";
}

/* ---- Writing --------------------------------------------------------------------------------- */

static const char *const answer_names[] = {"allowed", "denied", "cancelled"};
static const struct bl_names answers = BL_NAMES(answer_names);
static const char *const delivery_names[] = {"turn", "prompt"};
static const struct bl_names deliveries = BL_NAMES(delivery_names);
static const char *const settled_names[] = {"completed", "failed", "terminated", "missing",
                                            "never_started"};
static const struct bl_names settled_statuses = BL_NAMES(settled_names);
static const char *const ended_names[] = {"completed", "failed",        "terminated",
                                          "missing",   "never_started", "unknown"};
static const struct bl_names ended_statuses = BL_NAMES(ended_names);

static const struct bl_form run_form = {"a run's id", "^run_", NULL};
static const struct bl_form turn_form = {"a turn's id", "^turn_", NULL};
static const struct bl_form agent_form = {"an agent's id", "^agt_", NULL};
static const struct bl_form message_form = {"a message's id", "^msg_", NULL};
static const struct bl_form name_form = {"a name", "^[a-z0-9-]{1,64}$", NULL};
static const struct bl_form session_form = {"a session's id", "^[a-z0-9-]{0,64}$", NULL};

/* An event with the values that it only points to. */
struct event_row {
    struct bl_event event;
    const char *provider;
    const char *model;
    bool has_piece;
    struct bl_usage_detail detail;
    bool estimated;
    uint32_t attempt;
    uint32_t of;
    uint64_t wait_ms;
    const char *code;
    int status;
    bool discarded;
};

#define BL_RECORD_STRUCT struct event_row
static const struct bl_member common_members[] = {
    BL_MEMBER_INTEGER("seq", event.seq, .least = 1,
                      .about = "Counts from 1 for each agent of a run."),
    BL_MEMBER_TIME("time", event.wall_ns),
    BL_MEMBER_STRING("run", event.run, .form = &run_form),
    BL_MEMBER_STRING("session", event.session, .form = &session_form,
                     .about = "Empty if the run was stopped before it had one."),
    BL_MEMBER_STRING("agent", event.agent, .nullable = true, .about = "null for the root."),
    BL_MEMBER_STRING("turn", event.turn, .nullable = true, .form = &turn_form,
                     .about = "null for an event of the run."),
    BL_MEMBER_END,
};
static const struct bl_record common_record =
    BL_RECORD("event_common", struct event_row, common_members);
static const struct bl_member call_members[] = {
    BL_MEMBER_INCLUDE(&common_record),
    BL_MEMBER_TEXT("id", event.id, .about = "Id of the call."),
    BL_MEMBER_TEXT("name", event.name, .about = "Name of the tool."),
    BL_MEMBER_END,
};
static const struct bl_record call_record = BL_RECORD("event_call", struct event_row, call_members);
static const struct bl_member child_members[] = {
    BL_MEMBER_INCLUDE(&common_record),
    BL_MEMBER_TEXT("id", event.id, .least = 1, .about = "Id of the call of task."),
    BL_MEMBER_TEXT("name", event.name, .least = 1, .about = "Name of the persona."),
    BL_MEMBER_STRING("child", event.child, .form = &agent_form),
    BL_MEMBER_STRING("child_session", event.child_session, .form = &name_form),
    BL_MEMBER_END,
};
static const struct bl_record child_record =
    BL_RECORD("event_child", struct event_row, child_members);
static const struct bl_member cell_members[] = {
    BL_MEMBER_INCLUDE(&common_record),
    BL_MEMBER_TEXT("id", event.id, .optional = true, .least = 1,
                   .about = "Id of the call that created it, if known."),
    BL_MEMBER_STRING("cell", event.cell, .form = &name_form, .about = "Id of the cell."),
    BL_MEMBER_END,
};
static const struct bl_record cell_record = BL_RECORD("event_cell", struct event_row, cell_members);

/* ---- One table for each type ------------------------------------------------------------------
 */

#define EVENT_RECORD(kind, name, text, ...)                                                        \
    static const struct bl_member kind##_members[] = {__VA_ARGS__, BL_MEMBER_END};                 \
    static const struct bl_record kind##_record =                                                  \
        BL_RECORD(name, struct event_row, kind##_members, .closed = true, .about = (text));

#define PROMPT_BYTES                                                                               \
    BL_MEMBER_INTEGER("prompt_bytes", event.prompt_bytes, .optional = true, .least = 1,            \
                      .about = "Only in a store, for a prompt that is cut: its full size. The "    \
                               "turn has the full prompt.")
EVENT_RECORD(run_started, "event_run_started", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("prompt", event.text), PROMPT_BYTES,
             BL_MEMBER_STRING("provider", provider, .least = 1),
             BL_MEMBER_STRING("model", model, .least = 1))
EVENT_RECORD(turn_started, "event_turn_started", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("prompt", event.text), PROMPT_BYTES)
EVENT_RECORD(text_delta, "event_text_delta", "A piece of the answer.",
             BL_MEMBER_INCLUDE(&common_record), BL_MEMBER_TEXT("text", event.text, .least = 1))
EVENT_RECORD(thinking_delta, "event_thinking_delta", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("text", event.text))
EVENT_RECORD(tool_requested, "event_tool_requested",
             "The model, or a cell, requests a call; one tool_ended with the same id follows.",
             BL_MEMBER_INCLUDE(&call_record),
             BL_MEMBER_RAW("input", event.json, .nullable = true, .object = true,
                           .about = "null if the input is not a JSON object."))
EVENT_RECORD(permission_asked, "event_permission_asked", NULL, BL_MEMBER_INCLUDE(&call_record),
             BL_MEMBER_TEXT("text", event.text, .about = "The question."))
EVENT_RECORD(permission_answered, "event_permission_answered", NULL,
             BL_MEMBER_INCLUDE(&call_record),
             BL_MEMBER_STRING("answer", event.status, .names = &answers),
             BL_MEMBER_TEXT("reason", event.text))
EVENT_RECORD(tool_started, "event_tool_started", NULL, BL_MEMBER_INCLUDE(&call_record))
EVENT_RECORD(tool_output, "event_tool_output", "Output of a tool, as it arrives.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("id", event.id, .about = "Id of the call."),
             BL_MEMBER_TEXT("text", event.text, .about = "Invalid UTF-8 is replaced."))
EVENT_RECORD(tool_ended, "event_tool_ended", NULL, BL_MEMBER_INCLUDE(&call_record),
             BL_MEMBER_STRING("status", event.status, .names = &bl_step_statuses,
                              .about = "As in steps of a turn result; denied, invalid and "
                                       "not_run: it was never started. denied also for a nested "
                                       "call beyond the turn's step limit, which is not a step."),
             BL_MEMBER_INTEGER("ms", event.ms),
             BL_MEMBER_RAW("input", event.json, .optional = true, .object = true,
                           .about = "Input of the call; only for hooks."),
             BL_MEMBER_TEXT("result", event.text, .optional = true, BL_KNOWN(event.nested),
                            .about = "Only for a nested call, which a cell requested: its "
                                     "result, which is in no message."))
EVENT_RECORD(subagent_started, "event_subagent_started",
             "A sub-agent starts; its own events have its id as agent.",
             BL_MEMBER_INCLUDE(&child_record), BL_MEMBER_TEXT("prompt", event.text))
EVENT_RECORD(subagent_ended, "event_subagent_ended", "A sub-agent has ended.",
             BL_MEMBER_INCLUDE(&child_record),
             BL_MEMBER_STRING("stop_reason", event.status, .names = &bl_turn_ends,
                              .about = "Why a turn ended; a closed set."),
             BL_MEMBER_INTEGER("ms", event.ms),
             BL_MEMBER_POINTER("usage", event.usage, &bl_usage_record),
             BL_MEMBER_POINTER("spent", event.spent, &bl_spent_record))
EVENT_RECORD(cell_created, "event_cell_created", "A cell was admitted.",
             BL_MEMBER_INCLUDE(&cell_record))
EVENT_RECORD(cell_yielded, "event_cell_yielded",
             "A cell delivered its output so far, and continues.", BL_MEMBER_INCLUDE(&cell_record),
             BL_MEMBER_INTEGER("generation", event.generation, .least = 1,
                               .about = "Generation of the outcome."))
#define CELL_GENERATION                                                                            \
    BL_MEMBER_INTEGER("generation", event.generation, .nullable = true, .least = 1,                \
                      .about = "Generation of the outcome; null if there is none.")
#define CELL_RECEIPT                                                                               \
    BL_MEMBER_RAW("receipt", event.json, .nullable = true, .record = &bl_receipt_record,           \
                  .about = "Receipt of a terminated cell."),                                       \
        BL_MEMBER_TEXT("output", event.text, .optional = true, .least = 1,                         \
                       .about = "Output that was not delivered before; only if no result of a "    \
                                "call has it.")
EVENT_RECORD(cell_ended, "event_cell_ended",
             "A cell has ended, or its outcome is unknown; once for each cell.",
             BL_MEMBER_INCLUDE(&cell_record), CELL_GENERATION,
             BL_MEMBER_STRING("status", event.status, .names = &ended_statuses,
                              .about = "completed: it ended by itself; failed: it ended with an "
                                       "error; terminated: it was stopped; missing: it has no "
                                       "record; never_started: it was stopped before it was "
                                       "admitted; unknown: its host did not answer; cell_settled "
                                       "follows with the outcome."),
             CELL_RECEIPT)
EVENT_RECORD(cell_settled, "event_cell_settled", "The outcome of a cell whose end was unknown.",
             BL_MEMBER_INCLUDE(&cell_record), CELL_GENERATION,
             BL_MEMBER_STRING("status", event.status, .names = &settled_statuses,
                              .about = "As in cell_ended."),
             CELL_RECEIPT)
EVENT_RECORD(message_injected, "event_message_injected", "A message was injected during a turn.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("id", event.id, .form = &message_form),
             BL_MEMBER_TEXT("text", event.text),
             BL_MEMBER_STRING("delivered", event.status, .names = &deliveries,
                              .about = "In the current turn, or as the next prompt."))
EVENT_RECORD(message_undelivered, "event_message_undelivered",
             "The run has ended, and the message is in none of its turns.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("id", event.id, .form = &message_form),
             BL_MEMBER_TEXT("text", event.text))
EVENT_RECORD(finish_requested, "event_finish_requested",
             "A stop after the step in flight was requested; cancel_requested follows before the "
             "next step, if there is one.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("origin", event.text, .about = "Origin of the request."))
EVENT_RECORD(compacted, "event_compacted", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_INTEGER("turns_dropped", event.count, .least = 1,
                               .about = "Number of the oldest turns that left the model's "
                                        "context; the store keeps them."))
EVENT_RECORD(retry, "event_retry", "The model call failed, and is repeated after a wait.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_INTEGER("attempt", attempt, .least = 1, .about = "1 for the first retry."),
             BL_MEMBER_INTEGER("of", of, .least = 1), BL_MEMBER_INTEGER("wait_ms", wait_ms),
             BL_MEMBER_STRING("code", code, .least = 1,
                              .about = "The failure: overloaded, rate_limited, stream_cut, …"),
             BL_MEMBER_INTEGER("status", status, .nullable = true,
                               .about = "HTTP status; null if none."),
             BL_MEMBER_BOOLEAN("discarded", discarded,
                               .about = "True if parts of this answer were emitted, which are "
                                        "now void."))
EVENT_RECORD(
    usage, "event_usage", "Usage of one model call: each event replaces the previous one.",
    BL_MEMBER_INCLUDE(&common_record), BL_MEMBER_POINTER("usage", event.usage, &bl_usage_record),
    BL_MEMBER_POINTER("spent", event.spent, &bl_spent_record, .optional = true),
    BL_MEMBER_INTEGER("cache_read_tokens", detail.cache_read_tokens, .optional = true,
                      BL_KNOWN(has_piece),
                      .about = "Part of the input: read from the provider's cache."),
    BL_MEMBER_INTEGER("cache_write_tokens", detail.cache_write_tokens, .optional = true,
                      BL_KNOWN(has_piece),
                      .about = "Part of the input: written to the provider's cache."),
    BL_MEMBER_INTEGER("reasoning_tokens", detail.reasoning_tokens, .optional = true,
                      BL_KNOWN(has_piece), .about = "Part of the output."),
    BL_MEMBER_BOOLEAN("estimated", estimated, .optional = true, BL_KNOWN(has_piece),
                      .about = "The provider reported no usage: the numbers are estimates."))
EVENT_RECORD(cancel_requested, "event_cancel_requested",
             "A stop was requested; its receipt follows when nothing is left running.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("reason", event.name, .names = &bl_stop_reasons,
                            .about = "Reason of the first stop."),
             BL_MEMBER_TEXT("origin", event.text, .about = "Origin of the request."))
EVENT_RECORD(receipt, "event_receipt", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("id", event.id, .optional = true, .least = 1,
                            .about = "Id of the call, if only that call was stopped."),
             BL_MEMBER_RAW("receipt", event.json, .record = &bl_receipt_record))
EVENT_RECORD(turn_ended, "event_turn_ended",
             "A completed or interrupted result is durable before this event.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_RAW("result", event.json, .record = &bl_turn_result_record,
                           .about = "In a store, a prompt or output above 64 KiB is cut; the "
                                    "turn has it in full."))
EVENT_RECORD(run_ended, "event_run_ended", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("stop_reason", event.name, .names = &bl_turn_ends,
                            .about = "Why a turn ended; a closed set."),
             BL_MEMBER_INTEGER("turns_completed", event.count),
             BL_MEMBER_POINTER("usage", event.usage, &bl_usage_record),
             BL_MEMBER_POINTER("spent", event.spent, &bl_spent_record))
EVENT_RECORD(warning, "event_warning", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("message", event.text, .least = 1))
EVENT_RECORD(error, "event_error", "An error that no result contains.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_POINTER("error", event.error, &bl_error_record))

static const struct bl_record *const kinds[] = {
    [BL_EVENT_RUN_STARTED] = &run_started_record,
    [BL_EVENT_TURN_STARTED] = &turn_started_record,
    [BL_EVENT_TEXT_DELTA] = &text_delta_record,
    [BL_EVENT_THINKING_DELTA] = &thinking_delta_record,
    [BL_EVENT_TOOL_REQUESTED] = &tool_requested_record,
    [BL_EVENT_PERMISSION_ASKED] = &permission_asked_record,
    [BL_EVENT_PERMISSION_ANSWERED] = &permission_answered_record,
    [BL_EVENT_TOOL_STARTED] = &tool_started_record,
    [BL_EVENT_TOOL_OUTPUT] = &tool_output_record,
    [BL_EVENT_TOOL_ENDED] = &tool_ended_record,
    [BL_EVENT_SUBAGENT_STARTED] = &subagent_started_record,
    [BL_EVENT_SUBAGENT_ENDED] = &subagent_ended_record,
    [BL_EVENT_CELL_CREATED] = &cell_created_record,
    [BL_EVENT_CELL_YIELDED] = &cell_yielded_record,
    [BL_EVENT_CELL_ENDED] = &cell_ended_record,
    [BL_EVENT_CELL_SETTLED] = &cell_settled_record,
    [BL_EVENT_MESSAGE_INJECTED] = &message_injected_record,
    [BL_EVENT_MESSAGE_UNDELIVERED] = &message_undelivered_record,
    [BL_EVENT_FINISH_REQUESTED] = &finish_requested_record,
    [BL_EVENT_COMPACTED] = &compacted_record,
    [BL_EVENT_RETRY] = &retry_record,
    [BL_EVENT_USAGE] = &usage_record,
    [BL_EVENT_CANCEL_REQUESTED] = &cancel_requested_record,
    [BL_EVENT_RECEIPT] = &receipt_record,
    [BL_EVENT_TURN_ENDED] = &turn_ended_record,
    [BL_EVENT_RUN_ENDED] = &run_ended_record,
    [BL_EVENT_WARNING] = &warning_record,
    [BL_EVENT_ERROR] = &error_record,
};

static const struct bl_member event_members[] = {
    BL_MEMBER_ENUM("type", event.type, &types),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_event_record =
    BL_RECORD("event", struct event_row, event_members, .closed = true, .kinds = kinds,
              .about = "The last line of such a stream is not an event but the envelope: see "
                       "run.json.");

void bl_event_write(struct bl_json_writer *writer, const struct bl_event *event)
{
    const struct bl_piece *piece = event->piece;
    struct event_row row = {.event = *event, .discarded = event->count > 0};

    if (event->model != NULL) {
        row.provider = event->model->provider;
        row.model = event->model->name;
    }
    if (piece != NULL) {
        row.has_piece = true;
        row.detail = piece->usage_detail;
        row.estimated = piece->estimated;
        row.attempt = piece->retry.attempt;
        row.of = piece->retry.of;
        row.wait_ms = piece->retry.wait_ms;
        row.code = piece->retry.code;
        row.status = piece->retry.status;
    }
    bl_record_write(writer, &bl_event_record, &row);
}

void bl_event_take(struct bl_arena *arena, const struct bl_json *value, struct bl_event *ret_event)
{
    struct event_row row;

    bl_record_take(arena, &bl_event_record, value, &row);
    *ret_event = row.event;
}

uint64_t bl_event_seq(struct bl_arena *arena, const struct bl_json *event)
{
    struct event_row row;

    bl_record_take(arena, &common_record, event, &row);
    return row.event.seq;
}

/* ---- The journal ----------------------------------------------------------------------------- */

void bl_journal_init(struct bl_journal *journal, const struct bl_engine *engine, const char *run,
                     const char *session)
{
    *journal = (struct bl_journal){.engine = engine, .run = run, .session = session};
    bl_buffer_init(&journal->pending, PENDING_MAX);
    bl_lock_init(&journal->writing);
    bl_lock_init(&journal->stopping);
}

void bl_journal_done(struct bl_journal *journal)
{
    bl_buffer_done(&journal->pending);
}

/* Pieces of texts that a settlement contains as a whole are emitted, but not stored. */
static bool is_kept(enum bl_event_type type)
{
    return type != BL_EVENT_TEXT_DELTA && type != BL_EVENT_THINKING_DELTA &&
           type != BL_EVENT_TOOL_OUTPUT && type != BL_EVENT_USAGE;
}

/* Returns the event as it is stored: the store has prompts and results in full next to its
 * events. */
static struct bl_event event_as_stored(const struct bl_event *event)
{
    struct bl_event stored = *event;
    bool prompts = event->type == BL_EVENT_RUN_STARTED || event->type == BL_EVENT_TURN_STARTED;

    if (event->stored.size > 0)
        stored.json = event->stored;
    if (prompts && event->text.size > TURN_STORED_MAX) {
        stored.prompt_bytes = event->text.size;
        stored.text = bl_utf8_cut(event->text, TURN_STORED_CUT);
    }
    return stored;
}

static void prepare_in(struct bl_journal *journal, struct bl_event *event, const char *turn)
{
    struct bl_json_writer writer;
    size_t size = journal->pending.size;

    event->seq = ++journal->seq;
    event->wall_ns = bl_clock_wall_ns(journal->engine->clock);
    event->run = journal->run;
    event->session = journal->session;
    event->agent = journal->agent;
    event->turn = turn;
    if (journal->engine->store == NULL || !is_kept(event->type))
        return;
    struct bl_event stored = event_as_stored(event);
    bl_json_writer_init(&writer, &journal->pending);
    bl_event_write(&writer, &stored);
    if (bl_json_writer_done(&writer) != 0 || bl_buffer_append_byte(&journal->pending, '\n') != 0)
        journal->pending.size = size;
}

void journal_prepare(struct bl_journal *journal, struct bl_event *event)
{
    prepare_in(journal, event, journal->turn);
}

void journal_tell(struct bl_journal *journal, const struct bl_event *event)
{
    const struct bl_listener *listener = journal->engine->listener;

    if (listener != NULL)
        listener->event(listener->context, event);
}

void journal_hold(struct bl_journal *journal)
{
    struct bl_scope shield;

    bl_shield_begin(&shield, BL_NEVER);
    bl_lock_take(&journal->writing);
    bl_shield_end(&shield);
}

void journal_release(struct bl_journal *journal)
{
    bl_lock_give(&journal->writing);
}

/* Waits until the journal is not held. Events are emitted during a stop, too, so a stop does not
 * end the wait. */
static void await_release(struct bl_journal *journal)
{
    struct bl_scope shield;

    if (journal->writing.owner == NULL || journal->writing.owner == bl_fiber_current())
        return;
    journal->waiting++;
    bl_shield_begin(&shield, BL_NEVER);
    if (bl_lock_take(&journal->writing) == 0)
        bl_lock_give(&journal->writing);
    bl_shield_end(&shield);
    journal->waiting--;
}

void journal_emit_in(struct bl_journal *journal, struct bl_event *event, const char *turn)
{
    await_release(journal);
    prepare_in(journal, event, turn);
    journal_tell(journal, event);
}

void bl_journal_emit(struct bl_journal *journal, struct bl_event *event)
{
    await_release(journal);
    journal_emit_in(journal, event, journal->turn);
}

struct bl_journal *engine_journal(const struct bl_engine *engine)
{
    return engine->journal != NULL ? engine->journal : engine->standing;
}

void bl_engine_tell(struct bl_engine *engine, struct bl_event *event)
{
    struct bl_journal *journal = engine_journal(engine);
    const struct turn *turn = engine->turn;
    char id[BL_ID_SIZE]; /* a copy: the turn may end before the listener returns */

    if (journal == NULL)
        return;
    bl_text_into(id, sizeof id, turn != NULL ? turn->result->turn_id : "");
    journal_emit_in(journal, event, turn != NULL ? id : NULL);
    journal = engine_journal(engine);
    if (engine->turn == NULL && journal != NULL)
        bl_journal_note(journal, NULL);
}

/* ---- Into the store -------------------------------------------------------------------------- */

/* Puts back the lines that the store refused, before those that were added meanwhile. */
static void turn_event_put_back(struct bl_journal *journal, struct bl_buffer *taken)
{
    await_release(journal);
    bl_buffer_append(taken, bl_buffer_text(&journal->pending));
    bl_buffer_done(&journal->pending);
    journal->pending = *taken;
}

int journal_note(struct bl_journal *journal, const char *receipt_id, struct bl_text receipt,
                 struct bl_error *error)
{
    const struct bl_turn_store *store = journal->engine->store;
    struct bl_scope shield;

    /* Not the lines of another transaction. */
    await_release(journal);
    if (store == NULL || journal->sealed)
        return 0;
    struct bl_buffer taken = journal->pending;
    bl_buffer_init(&journal->pending, PENDING_MAX);
    journal->waiting++;
    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    int code = store->note(store->context, bl_buffer_text(&taken), receipt_id, receipt, error);
    bl_shield_end(&shield);
    if (code == 0)
        bl_buffer_done(&taken);
    else
        turn_event_put_back(journal, &taken);
    journal->waiting--;
    return code;
}

int bl_journal_note(struct bl_journal *journal, struct bl_error *error)
{
    struct bl_error own = {0};

    if (journal->pending.size == 0)
        return 0;
    return journal_note(journal, NULL, (struct bl_text){0}, error != NULL ? error : &own);
}

void turn_emit(struct turn *turn, struct bl_event event)
{
    bl_journal_emit(turn->journal, &event);
}

void journal_arm(struct bl_journal *journal)
{
    journal->cancel_told = journal->receipt_told = journal->receipt_stored = false;
    journal->stopped_in_commit = false;
}

void journal_tell_cancel(struct bl_journal *journal, const struct bl_receipt *receipt)
{
    struct bl_scope shield;
    struct bl_stop stop;

    bl_shield_begin(&shield, BL_NEVER);
    bl_lock_take(&journal->stopping);
    bl_shield_end(&shield);
    bl_scope_stop_read(receipt->scope, &stop);
    if (!journal->cancel_told)
        bl_journal_emit(journal,
                        &(struct bl_event){.type = BL_EVENT_CANCEL_REQUESTED,
                                           .name = bl_text_from(bl_stop_reason_name(stop.reason)),
                                           .text = bl_text_from(stop.origin)});
    journal->cancel_told = true;
    bl_lock_give(&journal->stopping);
}

void journal_tell_stop(struct bl_journal *journal, const struct bl_receipt *receipt,
                       struct bl_text json)
{
    if (journal->receipt_told || json.size == 0)
        return;
    journal->receipt_told = true;
    journal_tell_cancel(journal, receipt);
    bl_journal_emit(journal, &(struct bl_event){.type = BL_EVENT_RECEIPT, .json = json});
}
