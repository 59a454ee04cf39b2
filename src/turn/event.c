#include "parts.h"

#define PENDING_MAX ((size_t)512 * 1024 * 1024)

static const char *const type_names[] = {
#define TYPE_NAME(name, text) text,
    BL_EVENT_TABLE(TYPE_NAME)
#undef TYPE_NAME
};

const char *bl_event_type_name(enum bl_event_type type)
{
    return (size_t)type < BL_COUNT(type_names) ? type_names[type] : "unknown";
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_common(struct bl_json_writer *writer, const struct bl_event *event)
{
    char time[32];

    bl_time_format(event->wall_ns, time);
    bl_json_put_string(writer, "type", bl_event_type_name(event->type));
    bl_json_put_uint64(writer, "seq", event->seq);
    bl_json_put_string(writer, "time", time);
    bl_json_put_string(writer, "run", event->run);
    bl_json_put_string(writer, "session", event->session);
    bl_json_put_string(writer, "agent", event->agent);
    bl_json_put_string(writer, "turn", event->turn);
}

static void write_retry(struct bl_json_writer *writer, const struct bl_event *event)
{
    const struct bl_piece *piece = event->piece;

    bl_json_put_uint64(writer, "attempt", piece->retry.attempt);
    bl_json_put_uint64(writer, "of", piece->retry.of);
    bl_json_put_uint64(writer, "wait_ms", piece->retry.wait_ms);
    bl_json_put_string(writer, "code", piece->retry.code);
    bl_json_write_key(writer, BL_TEXT("status"));
    if (piece->retry.status != 0)
        bl_json_write_int64(writer, piece->retry.status);
    else
        bl_json_write_null(writer);
    /* Whether something of this answer was shown, and is to be forgotten. */
    bl_json_put_boolean(writer, "discarded", event->count > 0);
}

static void write_call(struct bl_json_writer *writer, const struct bl_event *event)
{
    bl_json_put_text(writer, "id", event->id);
    bl_json_put_text(writer, "name", event->name);
}

static void write_usage(struct bl_json_writer *writer, const struct bl_event *event)
{
    bl_json_write_key(writer, BL_TEXT("usage"));
    bl_record_write(writer, &bl_usage_record, event->usage);
    if (event->spent != NULL) {
        bl_json_write_key(writer, BL_TEXT("spent"));
        bl_record_write(writer, &bl_spent_record, event->spent);
    }
    if (event->piece == NULL)
        return;
    const struct bl_usage_detail *detail = &event->piece->usage_detail;
    bl_json_put_uint64(writer, "cache_read_tokens", detail->cache_read_tokens);
    bl_json_put_uint64(writer, "cache_write_tokens", detail->cache_write_tokens);
    bl_json_put_uint64(writer, "reasoning_tokens", detail->reasoning_tokens);
    bl_json_put_boolean(writer, "estimated", event->piece->estimated);
}

static void write_cell(struct bl_json_writer *writer, const struct bl_event *event)
{
    /* Of the call that made it, where it is known. */
    if (event->id.size > 0)
        bl_json_put_text(writer, "id", event->id);
    bl_json_put_string(writer, "cell", event->cell);
    if (event->type == BL_EVENT_CELL_CREATED)
        return;
    bl_json_write_key(writer, BL_TEXT("generation"));
    if (event->generation > 0)
        bl_json_write_uint64(writer, event->generation);
    else
        bl_json_write_null(writer);
    if (event->type == BL_EVENT_CELL_YIELDED)
        return;
    bl_json_put_string(writer, "status", event->status);
    bl_json_put_json(writer, "receipt", event->json);
    if (event->text.size > 0)
        bl_json_put_text(writer, "output", event->text);
}

static void write_tool_ended(struct bl_json_writer *writer, const struct bl_event *event)
{
    write_call(writer, event);
    bl_json_put_string(writer, "status", event->status);
    bl_json_put_uint64(writer, "ms", event->ms);
    /* For hooks, who have not seen what was requested. */
    if (event->json.size > 0)
        bl_json_put_json(writer, "input", event->json);
    if (event->nested)
        bl_json_put_text(writer, "result", event->text);
}

static void write_subagent(struct bl_json_writer *writer, const struct bl_event *event)
{
    write_call(writer, event);
    bl_json_put_string(writer, "child", event->child);
    bl_json_put_string(writer, "child_session", event->child_session);
    if (event->type == BL_EVENT_SUBAGENT_STARTED) {
        bl_json_put_text(writer, "prompt", event->text);
        return;
    }
    bl_json_put_string(writer, "stop_reason", event->status);
    bl_json_put_uint64(writer, "ms", event->ms);
    write_usage(writer, event);
}

static void write_own(struct bl_json_writer *writer, const struct bl_event *event)
{
    switch (event->type) {
    case BL_EVENT_RUN_STARTED:
        bl_json_put_text(writer, "prompt", event->text);
        bl_json_put_string(writer, "provider", event->model->provider);
        bl_json_put_string(writer, "model", event->model->name);
        break;
    case BL_EVENT_TURN_STARTED: bl_json_put_text(writer, "prompt", event->text); break;
    case BL_EVENT_TEXT_DELTA:
    case BL_EVENT_THINKING_DELTA: bl_json_put_text(writer, "text", event->text); break;
    case BL_EVENT_TOOL_REQUESTED:
        write_call(writer, event);
        bl_json_put_json(writer, "input", event->json);
        break;
    case BL_EVENT_PERMISSION_ASKED:
        write_call(writer, event);
        bl_json_put_text(writer, "text", event->text);
        break;
    case BL_EVENT_PERMISSION_ANSWERED:
        write_call(writer, event);
        bl_json_put_string(writer, "answer", event->status);
        bl_json_put_text(writer, "reason", event->text);
        break;
    case BL_EVENT_TOOL_STARTED: write_call(writer, event); break;
    case BL_EVENT_TOOL_OUTPUT:
        bl_json_put_text(writer, "id", event->id);
        bl_json_put_text(writer, "text", event->text);
        break;
    case BL_EVENT_TOOL_ENDED: write_tool_ended(writer, event); break;
    case BL_EVENT_SUBAGENT_STARTED:
    case BL_EVENT_SUBAGENT_ENDED: write_subagent(writer, event); break;
    case BL_EVENT_CELL_CREATED:
    case BL_EVENT_CELL_YIELDED:
    case BL_EVENT_CELL_ENDED:
    case BL_EVENT_CELL_SETTLED: write_cell(writer, event); break;
    case BL_EVENT_MESSAGE_INJECTED:
        bl_json_put_text(writer, "id", event->id);
        bl_json_put_text(writer, "text", event->text);
        bl_json_put_string(writer, "delivered", event->status);
        break;
    case BL_EVENT_COMPACTED: bl_json_put_uint64(writer, "turns_dropped", event->count); break;
    case BL_EVENT_RETRY: write_retry(writer, event); break;
    case BL_EVENT_USAGE: write_usage(writer, event); break;
    case BL_EVENT_CANCEL_REQUESTED:
        bl_json_put_text(writer, "reason", event->name);
        bl_json_put_text(writer, "origin", event->text);
        break;
    case BL_EVENT_RECEIPT:
        /* Of one call that was stopped alone, or of the run. */
        if (event->id.size > 0)
            bl_json_put_text(writer, "id", event->id);
        bl_json_put_json(writer, "receipt", event->json);
        break;
    case BL_EVENT_TURN_ENDED: bl_json_put_json(writer, "result", event->json); break;
    case BL_EVENT_RUN_ENDED:
        bl_json_put_text(writer, "stop_reason", event->name);
        bl_json_put_uint64(writer, "turns_completed", event->count);
        write_usage(writer, event);
        break;
    case BL_EVENT_WARNING: bl_json_put_text(writer, "message", event->text); break;
    case BL_EVENT_ERROR:
        bl_json_write_key(writer, BL_TEXT("error"));
        bl_record_write(writer, &bl_error_record, event->error);
        break;
    }
}

void bl_event_write(struct bl_json_writer *writer, const struct bl_event *event)
{
    bl_json_write_object(writer);
    write_common(writer, event);
    write_own(writer, event);
    bl_json_write_end(writer);
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
static void put_back(struct bl_journal *journal, struct bl_buffer *taken)
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
        put_back(journal, &taken);
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
