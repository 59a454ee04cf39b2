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

/* An event with what it only points to. */
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
    BL_MEMBER_INTEGER("seq", event.seq, .least = 1, .about = "From 1 for each agent of a run."),
    BL_MEMBER_TIME("time", event.wall_ns),
    BL_MEMBER_STRING("run", event.run, .form = &run_form),
    BL_MEMBER_STRING("session", event.session, .form = &session_form,
                     .about = "Empty: the run was stopped before it had one."),
    BL_MEMBER_STRING("agent", event.agent, .nullable = true, .about = "null: the root."),
    BL_MEMBER_STRING("turn", event.turn, .nullable = true, .form = &turn_form,
                     .about = "null: it belongs to the run."),
    BL_MEMBER_END,
};
static const struct bl_record common_record =
    BL_RECORD("event_common", struct event_row, common_members);
static const struct bl_member call_members[] = {
    BL_MEMBER_INCLUDE(&common_record),
    BL_MEMBER_TEXT("id", event.id, .about = "Of the call."),
    BL_MEMBER_TEXT("name", event.name, .about = "Of the tool."),
    BL_MEMBER_END,
};
static const struct bl_record call_record = BL_RECORD("event_call", struct event_row, call_members);
static const struct bl_member child_members[] = {
    BL_MEMBER_INCLUDE(&common_record),
    BL_MEMBER_TEXT("id", event.id, .least = 1, .about = "Of the call of task."),
    BL_MEMBER_TEXT("name", event.name, .least = 1, .about = "The persona."),
    BL_MEMBER_STRING("child", event.child, .form = &agent_form),
    BL_MEMBER_STRING("child_session", event.child_session, .form = &name_form),
    BL_MEMBER_END,
};
static const struct bl_record child_record =
    BL_RECORD("event_child", struct event_row, child_members);
static const struct bl_member cell_members[] = {
    BL_MEMBER_INCLUDE(&common_record),
    BL_MEMBER_TEXT("id", event.id, .optional = true, .least = 1,
                   .about = "Of the call that made it, where that is known."),
    BL_MEMBER_STRING("cell", event.cell, .form = &name_form, .about = "Its id."),
    BL_MEMBER_END,
};
static const struct bl_record cell_record = BL_RECORD("event_cell", struct event_row, cell_members);

/* ---- One table for each type ------------------------------------------------------------------
 */

#define EVENT_RECORD(kind, name, text, ...)                                                        \
    static const struct bl_member kind##_members[] = {__VA_ARGS__, BL_MEMBER_END};                 \
    static const struct bl_record kind##_record =                                                  \
        BL_RECORD(name, struct event_row, kind##_members, .closed = true, .about = (text));

EVENT_RECORD(run_started, "event_run_started", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("prompt", event.text),
             BL_MEMBER_STRING("provider", provider, .least = 1),
             BL_MEMBER_STRING("model", model, .least = 1))
EVENT_RECORD(turn_started, "event_turn_started", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("prompt", event.text))
EVENT_RECORD(text_delta, "event_text_delta", "A piece of the answer.",
             BL_MEMBER_INCLUDE(&common_record), BL_MEMBER_TEXT("text", event.text, .least = 1))
EVENT_RECORD(thinking_delta, "event_thinking_delta", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("text", event.text))
EVENT_RECORD(tool_requested, "event_tool_requested", "The model, or a cell, asks for a call.",
             BL_MEMBER_INCLUDE(&call_record),
             BL_MEMBER_RAW("input", event.json, .nullable = true, .object = true,
                           .about = "null: what came is not a JSON object."))
EVENT_RECORD(permission_asked, "event_permission_asked", NULL, BL_MEMBER_INCLUDE(&call_record),
             BL_MEMBER_TEXT("text", event.text, .about = "What is to be done."))
EVENT_RECORD(permission_answered, "event_permission_answered", NULL,
             BL_MEMBER_INCLUDE(&call_record),
             BL_MEMBER_STRING("answer", event.status, .names = &answers),
             BL_MEMBER_TEXT("reason", event.text))
EVENT_RECORD(tool_started, "event_tool_started", NULL, BL_MEMBER_INCLUDE(&call_record))
EVENT_RECORD(tool_output, "event_tool_output", "What a tool prints, as it comes.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("id", event.id, .about = "Of the call."),
             BL_MEMBER_TEXT("text", event.text, .about = "Bytes that are no UTF-8 are replaced."))
EVENT_RECORD(tool_ended, "event_tool_ended", NULL, BL_MEMBER_INCLUDE(&call_record),
             BL_MEMBER_STRING("status", event.status, .names = &bl_step_statuses,
                              .about = "As in steps of a turn result; denied and invalid: it was "
                                       "never started. denied also: a nested call that would "
                                       "have been one more than the turn may have, which is no "
                                       "step."),
             BL_MEMBER_INTEGER("ms", event.ms),
             BL_MEMBER_RAW("input", event.json, .optional = true, .object = true,
                           .about = "Of the call; only for hooks."),
             BL_MEMBER_TEXT("result", event.text, .optional = true, BL_KNOWN(event.nested),
                            .about = "Only of a nested call, one that a cell asked for: what it "
                                     "was answered. No message holds it."))
EVENT_RECORD(subagent_started, "event_subagent_started",
             "A sub-agent begins; its own events have its id as agent.",
             BL_MEMBER_INCLUDE(&child_record), BL_MEMBER_TEXT("prompt", event.text))
EVENT_RECORD(subagent_ended, "event_subagent_ended", "A sub-agent has ended.",
             BL_MEMBER_INCLUDE(&child_record),
             BL_MEMBER_STRING("stop_reason", event.status, .names = &bl_turn_ends,
                              .about = "Why a turn ended; a closed set."),
             BL_MEMBER_INTEGER("ms", event.ms),
             BL_MEMBER_POINTER("usage", event.usage, &bl_usage_record),
             BL_MEMBER_POINTER("spent", event.spent, &bl_spent_record))
EVENT_RECORD(cell_created, "event_cell_created", "A cell is admitted.",
             BL_MEMBER_INCLUDE(&cell_record))
EVENT_RECORD(cell_yielded, "event_cell_yielded", "A cell has handed over what it had, and runs on.",
             BL_MEMBER_INCLUDE(&cell_record),
             BL_MEMBER_INTEGER("generation", event.generation, .least = 1,
                               .about = "Of the outcome."))
#define CELL_GENERATION                                                                            \
    BL_MEMBER_INTEGER("generation", event.generation, .nullable = true, .least = 1,                \
                      .about = "Of the outcome; null: there is none.")
#define CELL_RECEIPT                                                                               \
    BL_MEMBER_RAW("receipt", event.json, .nullable = true, .record = &bl_receipt_record,           \
                  .about = "Of what was terminated."),                                             \
        BL_MEMBER_TEXT("output", event.text, .optional = true, .least = 1,                         \
                       .about = "What it had written and nobody was given yet; only where no "     \
                                "result of a call holds it.")
EVENT_RECORD(cell_ended, "event_cell_ended",
             "A cell has ended, or it is not known whether it has; once for each cell.",
             BL_MEMBER_INCLUDE(&cell_record), CELL_GENERATION,
             BL_MEMBER_STRING("status", event.status, .names = &ended_statuses,
                              .about = "completed: it ended by itself, failed: so, with an "
                                       "error; terminated: it was ended; missing: there is no "
                                       "record of it; never_started: it was stopped before it "
                                       "was admitted; unknown: nobody answered, and "
                                       "cell_settled comes once somebody does."),
             CELL_RECEIPT)
EVENT_RECORD(cell_settled, "event_cell_settled", "What became of a cell whose end was unknown.",
             BL_MEMBER_INCLUDE(&cell_record), CELL_GENERATION,
             BL_MEMBER_STRING("status", event.status, .names = &settled_statuses,
                              .about = "As in cell_ended."),
             CELL_RECEIPT)
EVENT_RECORD(message_injected, "event_message_injected", "A message that came while a turn ran.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("id", event.id, .form = &message_form),
             BL_MEMBER_TEXT("text", event.text),
             BL_MEMBER_STRING("delivered", event.status, .names = &deliveries,
                              .about = "Into the turn under way, or as the next prompt."))
EVENT_RECORD(compacted, "event_compacted", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_INTEGER("turns_dropped", event.count, .least = 1,
                               .about = "So many of the oldest have left the model's context; "
                                        "the store keeps them."))
EVENT_RECORD(retry, "event_retry", "The call to the model failed and is made again after a wait.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_INTEGER("attempt", attempt, .least = 1, .about = "From 1: the first retry."),
             BL_MEMBER_INTEGER("of", of, .least = 1), BL_MEMBER_INTEGER("wait_ms", wait_ms),
             BL_MEMBER_STRING("code", code, .least = 1,
                              .about = "What went wrong: overloaded, rate_limited, stream_cut, …"),
             BL_MEMBER_INTEGER("status", status, .nullable = true, .about = "Of HTTP; null: none."),
             BL_MEMBER_BOOLEAN("discarded", discarded,
                               .about = "True when something of this answer was told, and is to "
                                        "be forgotten."))
EVENT_RECORD(usage, "event_usage", "Of one call to the model: each replaces the one before.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_POINTER("usage", event.usage, &bl_usage_record),
             BL_MEMBER_POINTER("spent", event.spent, &bl_spent_record, .optional = true),
             BL_MEMBER_INTEGER("cache_read_tokens", detail.cache_read_tokens, .optional = true,
                               BL_KNOWN(has_piece),
                               .about = "Of the input: read from the provider's cache."),
             BL_MEMBER_INTEGER("cache_write_tokens", detail.cache_write_tokens, .optional = true,
                               BL_KNOWN(has_piece),
                               .about = "Of the input: written to the provider's cache."),
             BL_MEMBER_INTEGER("reasoning_tokens", detail.reasoning_tokens, .optional = true,
                               BL_KNOWN(has_piece), .about = "Of the output."),
             BL_MEMBER_BOOLEAN("estimated", estimated, .optional = true, BL_KNOWN(has_piece),
                               .about = "The provider did not say: the figures are ours."))
EVENT_RECORD(cancel_requested, "event_cancel_requested", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("reason", event.name, .names = &bl_stop_reasons,
                            .about = "Of the first stop."),
             BL_MEMBER_TEXT("origin", event.text, .about = "Who asked."))
EVENT_RECORD(receipt, "event_receipt", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("id", event.id, .optional = true, .least = 1,
                            .about = "Of the call that was stopped alone."),
             BL_MEMBER_RAW("receipt", event.json, .record = &bl_receipt_record))
EVENT_RECORD(turn_ended, "event_turn_ended",
             "A result that says completed, or interrupted, is durable when this is told.",
             BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_RAW("result", event.json, .record = &bl_turn_result_record))
EVENT_RECORD(run_ended, "event_run_ended", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("stop_reason", event.name, .names = &bl_turn_ends,
                            .about = "Why a turn ended; a closed set."),
             BL_MEMBER_INTEGER("turns_completed", event.count),
             BL_MEMBER_POINTER("usage", event.usage, &bl_usage_record),
             BL_MEMBER_POINTER("spent", event.spent, &bl_spent_record))
EVENT_RECORD(warning, "event_warning", NULL, BL_MEMBER_INCLUDE(&common_record),
             BL_MEMBER_TEXT("message", event.text, .least = 1))
EVENT_RECORD(error, "event_error", "Something that no result could say.",
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
}

void bl_journal_done(struct bl_journal *journal)
{
    bl_buffer_done(&journal->pending);
}

/* Pieces of what a settlement holds as a whole are told, and not written down. */
static bool is_kept(enum bl_event_type type)
{
    return type != BL_EVENT_TEXT_DELTA && type != BL_EVENT_THINKING_DELTA &&
           type != BL_EVENT_TOOL_OUTPUT && type != BL_EVENT_USAGE;
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
    bl_json_writer_init(&writer, &journal->pending);
    bl_event_write(&writer, event);
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

/* What is told in a stop is told as well, so a stop does not wake it. */
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
    char id[BL_ID_SIZE]; /* the turn's own may be gone before the listener has heard all */

    if (journal == NULL)
        return;
    bl_text_into(id, sizeof id, turn != NULL ? turn->result->turn_id : "");
    journal_emit_in(journal, event, turn != NULL ? id : NULL);
    journal = engine_journal(engine);
    if (engine->turn == NULL && journal != NULL)
        bl_journal_note(journal, NULL);
}

/* ---- Into the store -------------------------------------------------------------------------- */

/* What the store refused goes before what was told meanwhile. */
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

    /* Not what somebody else's transaction holds. */
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

void journal_tell_stop(struct bl_journal *journal, const struct bl_receipt *receipt,
                       struct bl_text json)
{
    struct bl_stop stop;

    if (journal->receipt_told || json.size == 0)
        return;
    journal->receipt_told = true;
    bl_scope_stop_read(receipt->scope, &stop);
    bl_journal_emit(journal,
                    &(struct bl_event){.type = BL_EVENT_CANCEL_REQUESTED,
                                       .name = bl_text_from(bl_stop_reason_name(stop.reason)),
                                       .text = bl_text_from(stop.origin)});
    bl_journal_emit(journal, &(struct bl_event){.type = BL_EVENT_RECEIPT, .json = json});
}
