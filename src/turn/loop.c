#include "parts.h"

/* Reads the record of a turn of this run that was committed before. */
static struct bl_turn_result *recorded_turn(struct bl_arena *arena, struct bl_text json)
{
    struct bl_turn_result *result = bl_arena_alloc(arena, sizeof *result);
    struct bl_json_limits limits = {.size_max = TURN_JSON_MAX, .string_max = TURN_JSON_MAX};
    const struct bl_json *value = NULL;

    if (bl_json_read(arena, json, &limits, &value, NULL) != 0)
        value = NULL;
    bl_record_take(arena, &bl_turn_result_record, value, result);
    result->json = json;
    return result;
}

static void add_turn(struct bl_run_result *run, struct bl_turn_result *turn)
{
    bl_list_push_back(&run->turns, &turn->link);
    run->turns_completed += turn->end == BL_TURN_COMPLETED;
    run->end = turn->end;
    run->cancel_observed = turn->cancel_observed;
    run->stopped_during = turn->stopped_during;
    run->error = turn->error.code != 0 ? &turn->error : NULL;
    bl_usage_add(&run->usage, &turn->usage);
    bl_spent_add(&run->spent, &turn->spent);
}

/* Returns NULL if there was none. */
static const struct bl_turn_result *turn_loop_last(const struct bl_run_result *run)
{
    return bl_list_empty(&run->turns)
               ? NULL
               : BL_CONTAINER(run->turns.previous, struct bl_turn_result, link);
}

/* Returns the line for people: the receipt, and what the stop interrupted in the last turn. */
static struct bl_text turn_loop_stop_line(struct bl_arena *arena, const struct bl_run_result *run,
                                          uint64_t from_ns)
{
    struct bl_json_limits limits = {.size_max = TURN_JSON_MAX, .string_max = TURN_JSON_MAX};
    const struct bl_json *value = NULL;
    struct bl_receipt_row row;
    BL_AUTO_ARENA(scratch);
    BL_AUTO_BUFFER(line, 4096);

    if (bl_json_read(&scratch, run->receipt, &limits, &value, NULL) != 0)
        value = NULL;
    bl_record_take(&scratch, &bl_receipt_record, value, &row);
    bl_stop_line(&row, turn_loop_last(run), (int64_t)(run->stop.time_ns - from_ns), &line);
    return bl_arena_text(arena, bl_buffer_text(&line));
}

/* Settles whether the run was stopped: from here on no stop makes a receipt. The receipt of a
 * stopped turn is reused byte for byte: writing it again would show background jobs in their
 * current state. */
static void settle_stop(const struct bl_journal *journal, struct bl_receipt *receipt,
                        struct bl_arena *arena, uint64_t from_ns, struct bl_run_result *run)
{
    bl_scope_claim(receipt->scope);
    run->receipt =
        journal->receipt_told ? turn_loop_last(run)->receipt : turn_receipt_text(receipt, arena);
    run->survivors = bl_receipt_survivors(receipt);
    bl_scope_stop_read(receipt->scope, &run->stop);
    if (run->receipt.size > 0)
        run->receipt_line = turn_loop_stop_line(arena, run, from_ns);
}

/* Emits the end of a whole run once it is stored, or storing was refused. */
static void turn_loop_tell_end(struct bl_journal *journal, const struct bl_receipt *receipt,
                               struct bl_text late, const struct bl_run_result *run)
{
    struct bl_error error = {0};
    struct bl_event ended = {.type = BL_EVENT_RUN_ENDED,
                             .name = bl_text_from(bl_turn_end_name(run->end)),
                             .count = run->turns_completed,
                             .usage = &run->usage,
                             .spent = &run->spent};

    journal_hold(journal);
    size_t pending = journal->pending.size;
    journal_prepare(journal, &ended);
    journal_note(journal, receipt->id, late, &error);
    if (error.code != 0) {
        /* The error precedes the end, which gets a new number. */
        journal->seq--;
        journal->pending.size = pending;
        bl_journal_emit(journal, &(struct bl_event){.type = BL_EVENT_ERROR, .error = &error});
        journal_prepare(journal, &ended);
    }
    journal_release(journal);
    journal_tell(journal, &ended);
}

/* Stores events that belong to no turn: the end (of a `whole` run), and the receipt of a stop that
 * came after a claim. */
static void end_run(struct bl_journal *journal, struct bl_receipt *receipt, bool whole,
                    const struct bl_run_result *run)
{
    bool is_late = run->receipt.size > 0 && !journal->receipt_stored;
    struct bl_text late = is_late ? run->receipt : (struct bl_text){0};
    struct bl_error error = {0};

    journal_tell_stop(journal, receipt, run->receipt);
    if (whole) {
        turn_loop_tell_end(journal, receipt, late, run);
        return;
    }
    if (is_late || journal->pending.size > 0)
        journal_note(journal, receipt->id, late, &error);
    if (error.code != 0)
        bl_journal_emit(journal, &(struct bl_event){.type = BL_EVENT_ERROR, .error = &error});
}

/* For a journal that ends with the loop: nested calls may still be waiting for it. */
static void await_pending_events(struct bl_journal *journal)
{
    struct bl_scope shield;

    bl_shield_begin(&shield, 2 * BL_STORE_NS_MAX);
    while (journal->waiting > 0 && bl_yield() == 0)
        continue;
    bl_shield_end(&shield);
}

static void turn_loop_set_deadline(struct bl_scope *scope, const struct bl_run_options *options,
                                   uint64_t from_ns)
{
    if (!options->timed)
        return;
    if (options->timeout_ns <= 0)
        bl_scope_set_deadline(scope, from_ns);
    else
        bl_scope_set_deadline(scope, bl_time_add(from_ns, (uint64_t)options->timeout_ns));
}

/* Returns whether start and end are emitted: only for a whole run, not for a sub-agent, or for one
 * prompt of a conversation. */
static bool is_run(const struct bl_run_options *options)
{
    return options->journal == NULL && options->agent == NULL;
}

static void begin_run(struct bl_engine *engine, struct bl_journal *journal,
                      const struct bl_run_options *options, struct bl_run_result *result,
                      struct bl_arena *arena)
{
    *result = (struct bl_run_result){.end = BL_TURN_COMPLETED};
    bl_list_init(&result->turns);
    for (size_t i = 0; i < options->recorded_count; i++)
        add_turn(result, recorded_turn(arena, options->recorded[i]));
    journal_arm(journal);
    if (is_run(options))
        bl_journal_emit(journal, &(struct bl_event){.type = BL_EVENT_RUN_STARTED,
                                                    .text = options->prompt,
                                                    .model = engine->model});
    for (size_t i = 0; i < options->warning_count; i++)
        bl_journal_emit(journal,
                        &(struct bl_event){.type = BL_EVENT_WARNING, .text = options->warnings[i]});
}

/* Returns the prompt of the next turn: injected messages come before the continuation. False if
 * there is none. */
static bool next_prompt(struct bl_engine *engine, struct bl_journal *journal,
                        const struct bl_run_options *options, uint64_t count,
                        struct bl_arena *arena, struct bl_list *taken, struct bl_text *ret_prompt)
{
    if (count == 0) {
        *ret_prompt = options->prompt;
        return true;
    }
    if (count >= options->max_turns)
        return false;
    if (engine->inbox != NULL && !bl_list_empty(&engine->inbox->waiting)) {
        *ret_prompt = inbox_next_prompt(engine->inbox, journal, arena, taken);
        return true;
    }
    *ret_prompt = options->continuation;
    return options->continues;
}

void bl_run(struct bl_engine *engine, struct bl_session *session, struct bl_receipt *receipt,
            const struct bl_run_options *options, struct bl_arena *arena,
            struct bl_run_result *ret_result)
{
    struct bl_journal own, *journal = options->journal;
    struct stop_watch watch;
    uint64_t count = options->recorded_count;
    uint64_t from_ns = options->from_ns != 0 ? options->from_ns : bl_clock_now_ns(engine->clock);
    struct bl_list taken; /* messages that the prompt was made of */
    struct bl_text prompt;

    bl_list_init(&taken);
    bl_journal_init(&own, engine, options->run_id, session->id);
    if (journal == NULL) {
        journal = engine->standing != NULL ? engine->standing : &own;
        journal->agent = options->agent;
    }
    journal->sealed = session->unknown;
    engine->journal = journal;
    begin_run(engine, journal, options, ret_result, arena);
    stop_watch_begin(&watch, journal, receipt);
    if (count < (options->continues ? options->max_turns : 1))
        turn_loop_set_deadline(receipt->scope, options, from_ns);
    while (ret_result->end == BL_TURN_COMPLETED &&
           next_prompt(engine, journal, options, count, arena, &taken, &prompt)) {
        struct bl_turn_result *turn = bl_arena_zalloc(arena, sizeof *turn);
        bl_turn_run(engine, session,
                    &(struct bl_turn_options){.scope = receipt->scope,
                                              .receipt = receipt,
                                              .journal = journal,
                                              .prompt = prompt,
                                              .attached = count == 0 ? options->attached
                                                                     : (struct bl_text){0},
                                              .images = count == 0 ? options->images : NULL},
                    arena, turn);
        inbox_settle(engine->inbox, &taken, turn->end == BL_TURN_COMPLETED || turn->interrupted);
        add_turn(ret_result, turn);
        count++;
    }
    settle_stop(journal, receipt, arena, from_ns, ret_result);
    if (options->closing != NULL)
        options->closing(options->closing_context);
    /* A conversation continues, and returns the messages to their author. */
    if (engine->inbox != NULL && options->journal == NULL)
        inbox_close(engine->inbox, journal);
    ret_result->undelivered = engine->inbox != NULL && !bl_list_empty(&engine->inbox->waiting);
    stop_watch_end(&watch);
    end_run(journal, receipt, is_run(options), ret_result);
    engine->journal = NULL;
    await_pending_events(&own);
    bl_journal_done(&own);
}

int bl_run_exit_code(const struct bl_run_result *result)
{
    if (result->survivors != 0)
        return 1;
    switch (result->end) {
    case BL_TURN_COMPLETED: return 0;
    case BL_TURN_MAX_TURNS:
    case BL_TURN_MAX_BUDGET:
    case BL_TURN_MAX_STEPS: return 3;
    case BL_TURN_CANCELLED: return strcmp(result->stop.origin, "SIGTERM") == 0 ? 143 : 130;
    case BL_TURN_TIMEOUT: return 124;
    case BL_TURN_ERROR: return 1;
    }
    return 1;
}
