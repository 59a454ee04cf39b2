/* Design notes.
 *
 * Until a turn is decided, it exists in two places: its record (messages, in an arena of their own)
 * and its result. The session is only read. The claim of the turn's own scope decides: from then on
 * no stop reaches it, and the store has its seconds. When the store reports that the turn is
 * durable, the record becomes the session's newest turn; in every other case it is freed, and with
 * it everything of the turn.
 *
 * The order of the steps is part of the contract, and so is the order of checks when several apply
 * at once: stop at entry, max_session_turns, projected budget, stop during the turn, actual budget,
 * stop at output, commit. */
#include <assert.h>
#include <stdio.h>

#include "parts.h"

void bl_turn_limits_init(struct bl_turn_limits *limits)
{
    *limits = (struct bl_turn_limits){
        .max_session_turns = BL_UNLIMITED,
        .max_budget_tokens = BL_UNLIMITED,
        .max_steps = BL_UNLIMITED,
        .compact_after_turns = BL_UNLIMITED,
        .structured_retry_limit = 2,
    };
}

/* ---- Outcomes -------------------------------------------------------------------------------- */

bool turn_end_as(struct turn *turn, enum bl_turn_end end)
{
    assert(end != BL_TURN_COMPLETED);
    BL_LOG(BL_ROOM_TURN, BL_LOG_DEBUG, "turn ends", BL_LOG_STRING("as", bl_turn_end_name(end)));
    turn->result->end = end;
    return false;
}

bool turn_end_stopped(struct turn *turn)
{
    struct bl_stop stop, above;

    turn_note_stop(turn);
    bl_scope_stop_read(&turn->scope, &stop);
    bl_scope_stop_read(turn->receipt->scope, &above);
    if (stop.reason == BL_STOP_TIMEOUT)
        return turn_end_as(turn, BL_TURN_TIMEOUT);
    if (above.reason == BL_STOP_BUDGET)
        return turn_end_as(turn, BL_TURN_MAX_BUDGET);
    /* Nobody asked for this stop: a script must not take it for a cancel. */
    if (above.reason == BL_STOP_LEASE_LOST)
        return turn_end_as(turn, BL_TURN_ERROR);
    return turn_end_as(turn, BL_TURN_CANCELLED);
}

static bool lost_lease(const struct turn *turn)
{
    struct bl_stop stop;

    bl_scope_stop_read(turn->receipt->scope, &stop);
    return stop.reason == BL_STOP_LEASE_LOST;
}

static void set_lease_error(struct turn *turn)
{
    struct bl_error *error = &turn->result->error;

    bl_error_set(error, BL_EBUSY, BL_KIND_SESSION, "run a turn", turn->session->id,
                 "the lease of session %s ran out: the store could not be reached in time",
                 turn->session->id);
    bl_error_hint(error, "run it again: the turn left no trace in the session");
    bl_error_name_set(error, "lease_lost");
}

bool turn_fail(struct turn *turn, int code, enum bl_error_kind kind, const char *format, ...)
{
    char message[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    bl_error_set(&turn->result->error, code, kind, "run a turn", turn->session->id, "%s", message);
    return turn_end_as(turn, BL_TURN_ERROR);
}

/* The store refused the turn. BL_ECANCELED: another process had recorded a stop of it before. */
static bool turn_refused(struct turn *turn, int code)
{
    if (code != BL_ECANCELED)
        return turn_fail(turn, code, BL_KIND_FILESYSTEM, "the store refused the turn: %s",
                         bl_error_text(code));
    turn->result->error = (struct bl_error){0};
    return turn_end_as(turn, BL_TURN_CANCELLED);
}

/* ---- The store ------------------------------------------------------------------------------- */

uint64_t bl_turn_store_answer_ns(const struct bl_turn_store *store)
{
    return store->answer_ns != NULL ? store->answer_ns(store->context) : BL_STORE_NS_MAX;
}

/* Calls the store in a shield. Returns 0 if there is none. */
static int ask_store(struct turn *turn,
                     int (*ask)(void *, const struct bl_settlement *, struct bl_error *),
                     const struct bl_settlement *settlement, struct bl_error *error)
{
    struct bl_scope shield;

    bl_shield_begin(&shield, bl_turn_store_answer_ns(turn->engine->store));
    int code = ask(turn->engine->store->context, settlement, error);
    bl_shield_end(&shield);
    if (code == 0) {
        bl_buffer_clear(&turn->journal->pending);
        turn->journal->receipt_stored |= settlement->receipt.size > 0;
    }
    return code;
}

/* Records the attempt. */
static int record_attempt(struct turn *turn, struct bl_error *error)
{
    const struct bl_turn_store *store = turn->engine->store;
    const struct bl_turn_result *result = turn->result;
    struct bl_scope shield;
    int code = 0;

    struct bl_attempt attempt = {.turn_id = bl_text_from(result->turn_id),
                                 .prompt = result->prompt,
                                 .started_wall_ns = result->started_wall_ns};
    if (store != NULL) {
        turn->stage = TURN_BEGIN;
        bl_shield_begin(&shield, BL_STORE_NS_MAX);
        code = store->begin(store->context, &attempt, error);
        bl_shield_end(&shield);
    }
    turn->recorded = code == 0;
    return code;
}

/* Recorded first, so that the next open knows what a crash cut off; the start is announced after
 * that. */
static bool begin_attempt(struct turn *turn)
{
    const struct bl_turn_store *store = turn->engine->store;
    struct bl_turn_result *result = turn->result;

    int code = record_attempt(turn, &result->error);
    turn->begun = code == 0;
    BL_LOG(BL_ROOM_TURN, BL_LOG_INFO, "turn begins", BL_LOG_STRING("session", turn->session->id),
           BL_LOG_BOOLEAN("stored", store != NULL && code == 0));
    turn->stage = TURN_EVENTS;
    turn_emit(turn, (struct bl_event){.type = BL_EVENT_TURN_STARTED, .text = result->prompt});
    turn->stage = TURN_BETWEEN;
    if (code == 0)
        return true;
    return turn_refused(turn, code);
}

/* Returns the part of a settlement that commits and rejections share. */
static struct bl_settlement settlement_of(struct turn *turn)
{
    const struct bl_turn_result *result = turn->result;
    struct bl_settlement settlement = {
        .turn_id = bl_text_from(result->turn_id),
        .interrupted = result->interrupted,
        .result = result->json,
        .usage = result->usage,
        .spent = result->spent,
        .receipt = result->receipt,
        .ended_wall_ns = bl_clock_wall_ns(turn->engine->clock),
        .events = bl_buffer_text(&turn->journal->pending),
    };

    if (result->receipt.size > 0)
        bl_text_into(settlement.receipt_id, sizeof settlement.receipt_id, turn->receipt->id);
    return settlement;
}

static void turn_engine_measure(struct turn *turn)
{
    uint64_t ns = bl_clock_now_ns(turn->engine->clock) - turn->started_ns;
    turn->result->duration_ms = ns / BL_NS_PER_MS;
}

static struct bl_event turn_engine_ended(const struct bl_turn_result *result)
{
    return (struct bl_event){
        .type = BL_EVENT_TURN_ENDED, .json = result->json, .stored = result->brief};
}

/* ---- Commit ---------------------------------------------------------------------------------- */

/* A prepared commit: the data to store, and the events to emit once it is durable. The journal is
 * held from its preparation to its end, because nested calls may emit events meanwhile. */
struct commit {
    struct bl_buffer messages;
    struct bl_buffer summary;
    struct bl_event compacted;
    struct bl_event ended;
    uint64_t turns_dropped;
    size_t pending_size; /* pending bytes and number of the journal before it */
    uint64_t seq;
};

static void commit_prepare(struct turn *turn, struct commit *commit)
{
    const struct bl_turn_limits *limits = &turn->engine->limits;
    struct bl_journal *journal = turn->journal;
    struct bl_json_writer writer;
    uint64_t turns = turn->session->turns_in_context + 1;

    journal_hold(journal);
    *commit = (struct commit){.pending_size = journal->pending.size, .seq = journal->seq};
    bl_buffer_init(&commit->messages, TURN_JSON_MAX);
    bl_buffer_init(&commit->summary, TURN_JSON_MAX);
    turn->result->usage = turn->used;
    turn_engine_measure(turn);
    turn_result_seal(turn);
    commit->turns_dropped = turn->turns_skipped;
    if (turns > limits->compact_after_turns &&
        turns - limits->compact_after_turns > turn->turns_skipped)
        commit->turns_dropped = turns - limits->compact_after_turns;
    if (commit->turns_dropped > 0) {
        commit->compacted =
            (struct bl_event){.type = BL_EVENT_COMPACTED, .count = commit->turns_dropped};
        journal_prepare(journal, &commit->compacted);
    }
    commit->ended = turn_engine_ended(turn->result);
    journal_prepare(journal, &commit->ended);
    if (turn->engine->store == NULL)
        return;
    bl_json_writer_init(&writer, &commit->messages);
    bl_messages_write(&writer, &turn->record->messages);
    if (turn->summary == NULL)
        return;
    bl_json_writer_init(&writer, &commit->summary);
    bl_messages_write(&writer, &turn->summary->messages);
}

/* Ends the commit, and emits its events if it is durable. */
static void commit_done(struct turn *turn, struct commit *commit, bool durable)
{
    if (durable && commit->turns_dropped > 0)
        journal_tell(turn->journal, &commit->compacted);
    journal_release(turn->journal);
    if (durable)
        journal_tell(turn->journal, &commit->ended);
    bl_buffer_done(&commit->messages);
    bl_buffer_done(&commit->summary);
}

/* Takes the prepared commit back: no part of it was emitted or stored. */
static void commit_take_back(struct turn *turn, struct commit *commit)
{
    turn->journal->pending.size = commit->pending_size;
    turn->journal->seq = commit->seq;
    turn->result->usage = (struct bl_usage){0};
    turn->result->json = (struct bl_text){0};
}

static int commit_write(struct turn *turn, const struct commit *commit, struct bl_error *error)
{
    if (turn->engine->store == NULL)
        return 0;
    struct bl_settlement settlement = settlement_of(turn);
    settlement.messages = bl_buffer_text(&commit->messages);
    settlement.turns_dropped = commit->turns_dropped;
    settlement.summary = bl_buffer_text(&commit->summary);
    return ask_store(turn, turn->engine->store->commit, &settlement, error);
}

/* The only place where a turn is added to a session. */
static void commit_apply(struct turn *turn, const struct commit *commit)
{
    struct bl_session *session = turn->session;

    assert(turn->record != NULL && !session->unknown);
    bl_session_add(session, turn->record);
    turn->record = NULL;
    session->turns_total++;
    bl_usage_add(&session->usage, &turn->used);
    bl_session_drop(session, commit->turns_dropped, turn->summary);
    turn->summary = NULL;
    turn_settle_injected(turn, true);
}

/* Sets the error of a commit that the store refused or could not confirm. */
static void commit_refused(struct turn *turn, int code, const struct bl_error *error)
{
    if (error->code != 0)
        turn->result->error = *error;
    turn_refused(turn, code);
    if (code == BL_EUNKNOWN) {
        turn->session->unknown = turn->journal->sealed = true;
        bl_error_name_set(&turn->result->error, "commit_unknown");
    }
}

/* Steps 6 and 7. True: completed. */
static bool claim_and_commit(struct turn *turn)
{
    struct bl_error error = {0};
    struct commit commit;
    struct bl_unit unit;

    turn->stage = TURN_COMMIT;
    commit_prepare(turn, &commit);
    int claimed = bl_scope_claim(&turn->scope);
    BL_LOG(BL_ROOM_TURN, BL_LOG_DEBUG, "claim",
           BL_LOG_STRING("result", claimed == 0 ? "claimed" : bl_error_text(claimed)));
    if (claimed != 0) {
        commit_take_back(turn, &commit);
        commit_done(turn, &commit, false);
        return turn_end_stopped(turn);
    }
    bl_unit_begin(&unit, BL_UNIT_TURN, turn->result->turn_id, NULL);
    int code = commit_write(turn, &commit, &error);
    turn->journal->stopped_in_commit = bl_scope_stopped(turn->receipt->scope);
    if (code == 0)
        commit_apply(turn, &commit);
    bl_unit_end(&unit, code == BL_EUNKNOWN    ? BL_FATE_UNKNOWN
                       : code == BL_ECANCELED ? BL_FATE_ABORTED
                                              : BL_FATE_FINISHED);
    BL_LOG(BL_ROOM_TURN, BL_LOG_DEBUG, "commit", BL_LOG_STRING("result", bl_error_text(code)));
    if (code != 0) {
        commit_take_back(turn, &commit);
        commit_refused(turn, code, &error);
    }
    commit_done(turn, &commit, code == 0);
    return code == 0;
}

/* ---- Other ends ------------------------------------------------------------------------------ */

/* `keep`: commits the received part as a well-formed, marked turn. True: done. */
static bool keep_interrupted(struct turn *turn)
{
    struct bl_error *error = &turn->result->error;
    struct bl_arena *arena = &turn->record->arena;
    struct commit commit;

    turn_answer_keep(turn);
    turn_complete_results(turn,
                          BL_TEXT("[interrupted] The call was not run, or did not complete."));
    struct bl_list *newest = turn->record->messages.previous;
    if (BL_CONTAINER(newest, struct bl_message, link)->role == BL_ROLE_USER) {
        struct bl_message *message =
            bl_message_add(arena, &turn->record->messages, BL_ROLE_ASSISTANT);
        bl_block_add(arena, message, BL_BLOCK_TEXT)->text = BL_TEXT("[interrupted]");
    }
    turn->result->interrupted = true;
    commit_prepare(turn, &commit);
    int code = commit_write(turn, &commit, error);
    if (code == 0) {
        commit_apply(turn, &commit);
    } else {
        commit_take_back(turn, &commit);
        turn->result->interrupted = false;
        bl_error_set(error, code, BL_KIND_FILESYSTEM, "keep an interrupted turn", turn->session->id,
                     "the store refused the turn: %s", bl_error_text(code));
        turn->session->unknown = turn->session->unknown || code == BL_EUNKNOWN;
        turn->journal->sealed = turn->session->unknown;
    }
    commit_done(turn, &commit, code == 0);
    return code == 0;
}

/* Records a turn that leaves no trace in the session: attempt, receipt, events. */
static void turn_engine_reject(struct turn *turn)
{
    struct bl_error error = {0};
    struct bl_event ended;

    turn_engine_measure(turn);
    journal_hold(turn->journal);
    turn_result_seal(turn);
    ended = turn_engine_ended(turn->result);
    journal_prepare(turn->journal, &ended);
    if (turn->engine->store != NULL && turn->recorded && !turn->session->unknown) {
        struct bl_settlement settlement = settlement_of(turn);
        ask_store(turn, turn->engine->store->reject, &settlement, &error);
    }
    journal_release(turn->journal);
    journal_tell(turn->journal, &ended);
    /* An error that cannot be returned becomes an event; the next open finds the attempt again. */
    if (error.code != 0)
        turn_emit(turn, (struct bl_event){.type = BL_EVENT_ERROR, .error = &error});
}

/* Every end but `completed`. Everything that the turn started has ended. */
static void end_otherwise(struct turn *turn)
{
    struct bl_turn_result *result = turn->result;
    bool lost = result->end == BL_TURN_ERROR && bl_scope_stopped(&turn->scope) && lost_lease(turn);
    bool stopped = result->end == BL_TURN_CANCELLED || result->end == BL_TURN_TIMEOUT || lost ||
                   (result->end == BL_TURN_MAX_BUDGET && bl_scope_stopped(&turn->scope));

    if (stopped) {
        /* Errors on the way were caused by the stop. */
        result->error = (struct bl_error){0};
        if (lost)
            set_lease_error(turn);
        result->receipt = turn_receipt_text(turn->receipt, turn->arena);
        result->cancel_observed = bl_receipt_cancel_observed(turn->receipt);
        result->stopped_during = turn_stopped_during(turn);
        journal_tell_stop(turn->journal, turn->receipt, result->receipt);
    }
    bool may_keep =
        turn->engine->limits.keep && turn->begun && !lost && result->end != BL_TURN_MAX_BUDGET;
    if (!stopped || !may_keep || !keep_interrupted(turn))
        turn_engine_reject(turn);
}

/* ---- The steps ------------------------------------------------------------------------------- */

/* Replaces the output by the text of the newest answer, even if it was cut. */
static void turn_engine_take_output(struct turn *turn)
{
    struct turn_text *output = &turn->output;

    output->size = 0;
    BL_LIST_EACH (link, &turn->answer.message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_TEXT)
            turn_text_append(turn->arena, output, block->text);
    }
    turn->result->output = turn_text_view(output);
    turn->result->truncated = turn->answer.ended && turn->answer.end == BL_ANSWER_MAX_TOKENS;
}

/* Step 4, with step 3 before each request. True: the last answer is complete. */
static bool turn_engine_converse(struct turn *turn)
{
    bool fits = false;

    while (!fits) {
        bool answered = turn_ask(turn);
        if (turn->answer.message != NULL)
            turn_engine_take_output(turn);
        if (!answered)
            return false;
        /* A model that calls tools although they are forbidden has no other answer. */
        if (turn->answer.calls > 0 && turn->tools_forbidden)
            return turn_end_as(turn, BL_TURN_MAX_STEPS);
        bool go_on =
            turn->answer.calls > 0 ? turn_run_calls(turn) : turn_check_structure(turn, &fits);
        if (!go_on)
            return false;
    }
    return true;
}

/* The end of step 4: nothing that its calls left in its scope outlasts it. Work that is ended here
 * is in the receipt of the stop, if there was one. */
static void settle_tools(struct turn *turn)
{
    const struct bl_tools *tools = turn->engine->tools;

    turn->stage = TURN_SETTLE;
    if (tools != NULL && tools->settle != NULL)
        tools->settle(tools->context, &turn->scope);
}

/* Step 5. */
static bool within_budget(struct turn *turn)
{
    return !bl_budget_passed(&turn->budget) || turn_end_as(turn, BL_TURN_MAX_BUDGET);
}

/* Runs on the loop's stack, before the turn sees the stop. */
static void turn_engine_stopped(struct bl_stop_hook *hook, struct bl_scope *scope BL_UNUSED)
{
    turn_note_stop(BL_CONTAINER(hook, struct turn, stopped));
}

static bool take_steps(struct turn *turn)
{
    const struct bl_turn_limits *limits = &turn->engine->limits;

    if (!turn_may_continue(turn)) {
        /* The turn never begins, but is recorded as a rejected attempt. A failure of the store adds
         * nothing to the stop. */
        struct bl_error ignored = {0};
        if (!turn->session->unknown)
            record_attempt(turn, &ignored);
        return false;
    }
    if (turn->session->unknown)
        return turn_fail(turn, BL_EUNKNOWN, BL_KIND_SESSION,
                         "the commit of the previous turn is in doubt: open the session again");
    if (!begin_attempt(turn))
        return false;
    if (turn->session->turns_total >= limits->max_session_turns)
        return turn_end_as(turn, BL_TURN_MAX_TURNS);
    struct bl_arena *arena = &turn->record->arena;
    struct bl_message *message = bl_message_add(arena, &turn->record->messages, BL_ROLE_USER);
    struct bl_text text = turn->result->prompt;
    if (turn->attached.size > 0)
        text = bl_arena_printf(arena, BL_TEXT_FORMAT BL_TEXT_FORMAT, BL_TEXT_ARG(text),
                               BL_TEXT_ARG(turn->attached));
    text = turn_take_images(turn, turn->prompt_images, (struct bl_text){0}, text);
    bl_block_add(arena, message, BL_BLOCK_TEXT)->text = bl_arena_text(arena, text);
    turn_place_images(turn, message);
    bool answered = turn_engine_converse(turn);
    settle_tools(turn);
    return answered && within_budget(turn) && claim_and_commit(turn);
}

void bl_turn_run(struct bl_engine *engine, struct bl_session *session,
                 const struct bl_turn_options *options, struct bl_arena *arena,
                 struct bl_turn_result *ret_result)
{
    struct bl_journal *journal = options->journal;
    struct turn turn = {.engine = engine,
                        .session = session,
                        .receipt = options->receipt,
                        .journal = journal,
                        .record = bl_turn_record_new(),
                        .attached = options->attached,
                        .prompt_images = options->images,
                        .arena = arena,
                        .result = ret_result,
                        .started_ns = bl_clock_now_ns(engine->clock),
                        .budget = {.limit = engine->limits.max_budget_tokens,
                                   .used = bl_usage_total(&session->usage),
                                   .above = engine->budget_above}};

    *ret_result = (struct bl_turn_result){.end = BL_TURN_COMPLETED,
                                          .prompt = bl_arena_text(arena, options->prompt),
                                          .started_wall_ns = bl_clock_wall_ns(engine->clock)};
    struct bl_journal *journal_before = engine->journal;
    bl_list_init(&turn.injected);
    bl_list_init(&turn.nested);
    bl_list_init(&turn.at_work);
    bl_list_init(&turn.images);
    bl_list_init(&ret_result->steps);
    bl_list_init(&ret_result->denials);
    (engine->make_id != NULL ? engine->make_id : bl_id_make)(ret_result->turn_id, "turn_");
    journal->turn = ret_result->turn_id;
    engine->journal = journal;
    engine->turn = &turn;
    bl_scope_init(&turn.scope, options->scope);
    bl_scope_set_id(&turn.scope, ret_result->turn_id);
    bl_stop_hook_add(&turn.stopped, &turn.scope, turn_engine_stopped);
    struct bl_scope *outer = bl_scope_enter(&turn.scope);
    bool completed = take_steps(&turn);
    bl_scope_enter(outer);
    assert(completed == (ret_result->end == BL_TURN_COMPLETED));
    if (!completed) {
        struct bl_scope shield;
        bl_shield_begin(&shield, 2 * BL_STORE_NS_MAX);
        end_otherwise(&turn);
        bl_shield_end(&shield);
    }
    /* Committed once, or not at all. */
    assert((turn.record == NULL) == (completed || ret_result->interrupted));
    BL_LOG(BL_ROOM_TURN, BL_LOG_INFO, "turn ended", BL_LOG_STRING("turn", ret_result->turn_id),
           BL_LOG_STRING("end", bl_turn_end_name(ret_result->end)),
           BL_LOG_INTEGER("ms", (int64_t)ret_result->duration_ms),
           BL_LOG_BOOLEAN("interrupted", ret_result->interrupted));
    bl_stop_hook_remove(&turn.stopped);
    bl_scope_done(&turn.scope);
    journal->turn = NULL;
    engine->journal = journal_before;
    turn_settle_injected(&turn, false);
    bl_turn_record_free(turn.summary);
    bl_turn_record_free(turn.record);
}
