/* Design notes.
 *
 * A model has a limited context. Before a request that would not fit, the oldest turns of the
 * session are sent to the model once more, as one text, and its summary replaces them from then on.
 * That call is part of the turn that needs the room: its scope, its budget, its usage. The session
 * itself changes only when the turn is committed.
 *
 * Sizes are estimated: four bytes per token, and a margin. If the estimate is too low, the model
 * reports it (context_overflow). */
#include <stdio.h>

#include "parts.h"

/* Percent of the room: above FULL_PERCENT, turns leave until at most FREE_PERCENT is used. */
#define FULL_PERCENT 80u
#define FREE_PERCENT 50u
#define TOKEN_BYTES  4u
/* Limit for one result, or one input, in the text to summarize: its beginning shows what it was. */
#define EXCERPT_MAX ((size_t)2000)
#define SUMMARY_MAX ((size_t)64 * 1024)

static uint64_t compact_messages_bytes(const struct bl_list *messages)
{
    uint64_t bytes = 0;

    BL_LIST_EACH (link, messages) {
        BL_LIST_EACH (part, &BL_CONTAINER(link, struct bl_message, link)->blocks) {
            const struct bl_block *block = BL_CONTAINER(part, struct bl_block, link);
            if (block->type == BL_BLOCK_IMAGE)
                bytes += (uint64_t)BL_IMAGE_TOKENS * TOKEN_BYTES;
            else
                bytes +=
                    block->text.size + block->name.size + block->input.size + block->opaque.size;
        }
    }
    return bytes;
}

/* Returns the size of the request without the session's turns. */
static uint64_t fixed_bytes(const struct turn *turn)
{
    const struct bl_tools *tools = turn->engine->tools;
    const struct bl_turn_record *summary =
        turn->summary != NULL ? turn->summary : turn->session->summary;
    uint64_t bytes = turn->engine->system.size + turn->engine->schema_text.size;

    for (size_t i = 0; tools != NULL && i < tools->offer_count; i++)
        bytes += tools->offers[i].schema.size + bl_text_from(tools->offers[i].description).size;
    if (summary != NULL)
        bytes += compact_messages_bytes(&summary->messages);
    return bytes + compact_messages_bytes(&turn->record->messages);
}

/* Returns how many of the oldest turns must leave in all so that the rest has at most `wanted`
 * bytes; if any must leave, at least half of the remaining ones. */
static uint64_t turns_to_leave(const struct turn *turn, uint64_t full, uint64_t wanted)
{
    const struct bl_session *session = turn->session;
    uint64_t bytes = fixed_bytes(turn), number = 0, leave = turn->turns_skipped;

    BL_LIST_EACH (link, &session->turns) {
        if (number++ >= turn->turns_skipped)
            bytes +=
                compact_messages_bytes(&BL_CONTAINER(link, struct bl_turn_record, link)->messages);
    }
    if (bytes <= full)
        return turn->turns_skipped;
    number = 0;
    BL_LIST_EACH (link, &session->turns) {
        if (number++ < turn->turns_skipped)
            continue;
        if (bytes <= wanted && leave >= (session->turns_in_context + turn->turns_skipped + 1) / 2)
            break;
        bytes -= compact_messages_bytes(&BL_CONTAINER(link, struct bl_turn_record, link)->messages);
        leave++;
    }
    return leave;
}

/* ---- The turns that leave, as one text ------------------------------------------------------- */

static void tell_block(struct bl_buffer *out, enum bl_role role, const struct bl_block *block)
{
    struct bl_text text = bl_utf8_cut(block->text, EXCERPT_MAX);
    struct bl_text input = bl_utf8_cut(block->input, EXCERPT_MAX);

    switch (block->type) {
    case BL_BLOCK_TEXT:
        bl_buffer_printf(out, "%s: " BL_TEXT_FORMAT "\n\n",
                         role == BL_ROLE_USER ? "User" : "Assistant", BL_TEXT_ARG(block->text));
        break;
    case BL_BLOCK_CALL:
        bl_buffer_printf(out, "Tool call " BL_TEXT_FORMAT ": " BL_TEXT_FORMAT "%s\n\n",
                         BL_TEXT_ARG(block->name), BL_TEXT_ARG(input),
                         input.size < block->input.size ? " […]" : "");
        break;
    case BL_BLOCK_RESULT:
        bl_buffer_printf(out, "%s: " BL_TEXT_FORMAT "%s\n\n",
                         block->is_error ? "Result (failed)" : "Result", BL_TEXT_ARG(text),
                         text.size < block->text.size ? " […]" : "");
        break;
    case BL_BLOCK_IMAGE: bl_buffer_append(out, BL_TEXT("[image]\n\n")); break;
    case BL_BLOCK_THINKING: break;
    }
}

static void tell_messages(struct bl_buffer *out, const struct bl_list *messages)
{
    BL_LIST_EACH (link, messages) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        BL_LIST_EACH (part, &message->blocks)
            tell_block(out, message->role, BL_CONTAINER(part, struct bl_block, link));
    }
}

/* Writes the request for the summary: one message of a user. */
static void write_request(const struct turn *turn, uint64_t leave, struct bl_buffer *out)
{
    const struct bl_session *session = turn->session;
    uint64_t number = 0;

    bl_buffer_append(out, BL_TEXT("Below is the beginning of a conversation between a user "
                                  "and an assistant with tools.\n\n---\n\n"));
    if (session->summary != NULL)
        tell_messages(out, &session->summary->messages);
    BL_LIST_EACH (link, &session->turns) {
        if (number++ < leave)
            tell_messages(out, &BL_CONTAINER(link, struct bl_turn_record, link)->messages);
    }
    bl_buffer_append(
        out,
        BL_TEXT(
            "---\n\nSummarize it for the assistant, which will continue the conversation and see "
            "only the summary instead of the text above: what the user wants and has "
            "decided, what was found out, which files were read and changed and how, what "
            "was tried and failed, and what is left to do. Keep names, paths, commands, "
            "numbers and error messages exactly. Answer with the summary only."));
}

/* ---- The summary ----------------------------------------------------------------------------- */

static struct bl_turn_record *make_record(struct bl_text summary)
{
    struct bl_turn_record *record = bl_turn_record_new();
    struct bl_arena *arena = &record->arena;
    struct bl_message *message = bl_message_add(arena, &record->messages, BL_ROLE_USER);

    bl_block_add(arena, message, BL_BLOCK_TEXT)->text = bl_arena_printf(
        arena, "[Summary of the conversation so far]\n\n" BL_TEXT_FORMAT, BL_TEXT_ARG(summary));
    message = bl_message_add(arena, &record->messages, BL_ROLE_ASSISTANT);
    bl_block_add(arena, message, BL_BLOCK_TEXT)->text = BL_TEXT("I will continue from there.");
    return record;
}

/* Returns the text of the newest answer, within its limit; in its arena. */
static struct bl_text answer_text(const struct turn *turn)
{
    struct turn_text text = {0};

    BL_LIST_EACH (link, &turn->answer.message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_TEXT)
            turn_text_append(&turn->record->arena, &text, block->text);
    }
    return bl_utf8_cut(bl_text_trim(turn_text_view(&text)), SUMMARY_MAX);
}

/* Lets the model summarize the oldest `leave` turns. Returns 0 with the summary in turn->summary;
 * otherwise a code, and nothing has changed. */
static int summarise(struct turn *turn, uint64_t leave)
{
    struct bl_arena *arena = &turn->record->arena;
    BL_AUTO_BUFFER(buffer, TURN_TEXT_MAX);
    struct bl_list messages;

    write_request(turn, leave, &buffer);
    bl_list_init(&messages);
    struct bl_message *message = bl_message_add(arena, &messages, BL_ROLE_USER);
    bl_block_add(arena, message, BL_BLOCK_TEXT)->text = bl_buffer_text(&buffer);
    struct bl_request request = {
        .system = BL_TEXT("You summarize conversations faithfully and concisely."),
        .messages = &messages,
    };
    int code = turn_call_model(turn, &request, true);
    if (code == 0) {
        struct bl_text text = answer_text(turn);
        if (!turn->answer.ended || turn->answer.end == BL_ANSWER_REFUSAL || text.size == 0)
            code = BL_EPARSE;
        if (code == 0) {
            bl_turn_record_free(turn->summary);
            turn->summary = make_record(text);
        }
    }
    turn->answer = (struct turn_answer){0};
    return code;
}

/* Leaves out the oldest `leave` turns, with a summary if possible. False: stopped. */
static bool compact_leave_out(struct turn *turn, uint64_t leave)
{
    int code = summarise(turn, leave);

    if (code != 0 && bl_scope_check(&turn->scope) != 0)
        return turn_end_stopped(turn);
    if (code != 0) {
        char message[200];
        snprintf(message, sizeof message,
                 "the oldest turns left the context without a summary: %.140s",
                 turn->result->error.message[0] != '\0' ? turn->result->error.message
                                                        : bl_error_text(code));
        turn_emit(turn, (struct bl_event){.type = BL_EVENT_WARNING,
                                          .text = bl_utf8_cut(bl_text_from(message), 199)});
    }
    turn->result->error = (struct bl_error){0};
    turn->turns_skipped = leave;
    return true;
}

bool turn_make_room(struct turn *turn)
{
    uint64_t room = turn->engine->model->input_tokens_max;

    if (room == 0 || turn->session->turns_in_context == turn->turns_skipped)
        return true;
    uint64_t leave = turns_to_leave(turn, room * TOKEN_BYTES / 100 * FULL_PERCENT,
                                    room * TOKEN_BYTES / 100 * FREE_PERCENT);
    return leave == turn->turns_skipped || compact_leave_out(turn, leave);
}

bool turn_make_room_after(struct turn *turn)
{
    uint64_t turns = turn->session->turns_in_context;

    if (turn->turns_skipped > 0 || turns == 0 ||
        strcmp(turn->result->error.name, "context_overflow") != 0)
        return false;
    return compact_leave_out(turn, (turns + 1) / 2);
}

/* ---- On request ------------------------------------------------------------------------------ */

/* Stores the compaction. */
static int write_compaction(struct turn *turn, struct bl_error *error)
{
    const struct bl_turn_store *store = turn->engine->store;
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(summary, TURN_JSON_MAX);
    struct bl_scope shield;

    if (store == NULL)
        return 0;
    bl_json_writer_init(&writer, &summary);
    bl_messages_write(&writer, &turn->summary->messages);
    struct bl_settlement settlement = {
        .turns_dropped = turn->turns_skipped,
        .summary = bl_buffer_text(&summary),
        .usage = turn->used,
        .spent = turn->result->spent,
        .ended_wall_ns = bl_clock_wall_ns(turn->engine->clock),
        .events = bl_buffer_text(&turn->journal->pending),
    };
    bl_shield_begin(&shield, bl_turn_store_answer_ns(store));
    int code = store->compact(store->context, &settlement, error);
    bl_shield_end(&shield);
    return code;
}

/* Claims the scope, stores the compaction, and applies it. */
static int commit_compaction(struct turn *turn, struct bl_error *error)
{
    struct bl_journal *journal = turn->journal;
    struct bl_unit unit;

    int code = bl_scope_claim(&turn->scope);
    if (code != 0)
        return code;
    journal_hold(journal);
    size_t pending = journal->pending.size;
    uint64_t seq = journal->seq;
    struct bl_event compacted = {.type = BL_EVENT_COMPACTED, .count = turn->turns_skipped};
    journal_prepare(journal, &compacted);
    bl_unit_begin(&unit, BL_UNIT_TURN, turn->result->turn_id, NULL);
    code = write_compaction(turn, error);
    bl_unit_end(&unit, code == BL_EUNKNOWN ? BL_FATE_UNKNOWN : BL_FATE_FINISHED);
    turn->session->unknown |= code == BL_EUNKNOWN;
    journal->sealed |= code == BL_EUNKNOWN;
    if (code != 0) {
        journal->pending.size = pending;
        journal->seq = seq;
        journal_release(journal);
        return code;
    }
    bl_buffer_clear(&journal->pending);
    journal_release(journal);
    bl_usage_add(&turn->session->usage, &turn->used);
    bl_session_drop(turn->session, turn->turns_skipped, turn->summary);
    turn->summary = NULL;
    journal_tell(journal, &compacted);
    return 0;
}

/* Settles whether it was stopped, and stores the remaining events. */
static void end_compaction(struct turn *turn)
{
    const struct bl_turn_store *store = turn->engine->store;
    struct bl_journal *journal = turn->journal;
    struct bl_error error = {0};

    bl_scope_claim(turn->receipt->scope);
    struct bl_text json = turn_receipt_text(turn->receipt, &turn->record->arena);
    journal_tell_stop(journal, turn->receipt, json);
    if (store == NULL || turn->session->unknown || journal->pending.size == 0)
        return;
    journal_note(journal, turn->receipt->id, json, &error);
    if (error.code != 0)
        turn_emit(turn, (struct bl_event){.type = BL_EVENT_ERROR, .error = &error});
}

/* Runs in its own scope, from the model call to the commit. */
static int turn_compact(struct turn *turn, struct bl_error *error)
{
    struct bl_error *failed = &turn->result->error;

    if (turn->turns_skipped == 0)
        return 0;
    struct bl_scope *outer = bl_scope_enter(&turn->scope);
    int code = summarise(turn, turn->turns_skipped);
    if (code == 0)
        code = commit_compaction(turn, error);
    else if (failed->code != 0)
        *error = *failed;
    bl_scope_enter(outer);
    if (code == 0)
        return 0;
    bl_error_set(error, code, BL_KIND_PROVIDER, "compact the session", turn->session->id,
                 "cannot compact the session: %s", bl_error_text(code));
    int stopped = bl_scope_check(&turn->scope);
    return stopped != 0 ? stopped : code;
}

int bl_session_compact(struct bl_engine *engine, struct bl_session *session,
                       struct bl_receipt *receipt, struct bl_journal *journal, uint64_t keep,
                       uint64_t *ret_dropped, struct bl_spent *ret_spent, struct bl_error *error)
{
    uint64_t turns = session->turns_in_context;
    struct bl_turn_result result = {0};
    struct stop_watch watch;
    struct turn turn = {.engine = engine,
                        .session = session,
                        .receipt = receipt,
                        .journal = journal,
                        .record = bl_turn_record_new(),
                        .result = &result,
                        .started_ns = bl_clock_now_ns(engine->clock),
                        .turns_skipped = turns > keep ? turns - keep : 0,
                        .budget = {.limit = engine->limits.max_budget_tokens,
                                   .used = bl_usage_total(&session->usage),
                                   .above = engine->budget_above}};

    bl_list_init(&turn.injected);
    bl_list_init(&turn.images);
    (engine->make_id != NULL ? engine->make_id : bl_id_make)(result.turn_id, "compact_");
    journal_arm(journal);
    stop_watch_begin(&watch, journal, receipt);
    bl_scope_init(&turn.scope, receipt->scope);
    int code = turn_compact(&turn, error);
    *ret_dropped = code == 0 ? turn.turns_skipped : 0;
    *ret_spent = result.spent;
    bl_scope_done(&turn.scope);
    end_compaction(&turn);
    stop_watch_end(&watch);
    bl_turn_record_free(turn.summary);
    bl_turn_record_free(turn.record);
    return code;
}
