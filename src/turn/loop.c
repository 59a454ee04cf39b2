#include "parts.h"

/* A turn of this run that was committed before, read from its record. */
static struct bl_turn_result *recorded_turn(struct bl_arena *arena, struct bl_text json)
{
    struct bl_turn_result *result = bl_arena_zalloc(arena, sizeof *result);
    struct bl_json_limits limits = {.size_max = TURN_JSON_MAX, .string_max = TURN_JSON_MAX};
    const struct bl_json *value = NULL;
    struct bl_spent usage;

    bl_list_init(&result->link);
    bl_list_init(&result->steps);
    bl_list_init(&result->denials);
    result->json = json;
    if (bl_json_read(arena, json, &limits, &value, NULL) != 0)
        return result;
    bl_text_into(result->turn_id, sizeof result->turn_id,
                 bl_json_text(bl_json_get(value, BL_TEXT("turn_id"))).data);
    result->prompt = bl_json_text(bl_json_get(value, BL_TEXT("prompt")));
    result->output = bl_json_text(bl_json_get(value, BL_TEXT("output")));
    bl_turn_end_parse(bl_json_text(bl_json_get(value, BL_TEXT("stop_reason"))), &result->end);
    bl_spent_read(bl_json_get(value, BL_TEXT("usage")), &usage);
    result->usage = usage.usage;
    bl_spent_read(bl_json_get(value, BL_TEXT("spent")), &result->spent);
    return result;
}

static void add_turn(struct bl_run_result *run, struct bl_turn_result *turn)
{
    bl_list_push_back(&run->turns, &turn->link);
    run->turns_completed += turn->end == BL_TURN_COMPLETED;
    run->end = turn->end;
    run->cancel_observed = turn->cancel_observed;
    run->error = turn->error.code != 0 ? &turn->error : NULL;
    bl_usage_add(&run->usage, &turn->usage);
    bl_spent_add(&run->spent, &turn->spent);
}

/* Settles whether the run was stopped: from here on no stop makes a receipt. */
static void settle_stop(struct bl_receipt *receipt, struct bl_arena *arena,
                        struct bl_run_result *run)
{
    struct bl_buffer line;

    bl_scope_claim(receipt->scope);
    run->receipt = turn_receipt_text(receipt, arena);
    bl_scope_stop_read(receipt->scope, &run->stop);
    if (run->receipt.size == 0)
        return;
    bl_buffer_init(&line, 1024);
    bl_receipt_line(receipt, &line);
    run->receipt_line = bl_arena_text(arena, bl_buffer_text(&line));
    bl_buffer_done(&line);
}

/* Writes down what belongs to no turn: the end, and the receipt of a stop that came after a claim.
 */
static void end_run(struct bl_engine *engine, struct bl_journal *journal,
                    struct bl_receipt *receipt, const struct bl_session *session,
                    const struct bl_run_result *run)
{
    const struct bl_turn_store *store = engine->store;
    bool late = run->receipt.size > 0 && !journal->receipt_stored;
    struct bl_error error = {0};
    struct bl_scope shield;

    journal_tell_stop(journal, receipt, run->receipt);
    struct bl_event ended = {.type = BL_EVENT_RUN_ENDED,
                             .name = bl_text_from(bl_turn_end_name(run->end)),
                             .count = run->turns_completed,
                             .usage = &run->usage,
                             .spent = &run->spent};
    journal_prepare(journal, &ended);
    if (store != NULL && !session->unknown) {
        bl_shield_begin(&shield, BL_STORE_NS_MAX);
        store->note(store->context, bl_buffer_text(&journal->pending), receipt->id,
                    late ? run->receipt : (struct bl_text){0}, &error);
        bl_shield_end(&shield);
    }
    if (error.code != 0) {
        /* It comes before the end, which gets another number. */
        journal->seq--;
        bl_journal_emit(journal, &(struct bl_event){.type = BL_EVENT_ERROR, .error = &error});
        journal_prepare(journal, &ended);
    }
    journal_tell(journal, &ended);
}

static void set_deadline(struct bl_engine *engine, struct bl_scope *scope,
                         const struct bl_run_options *options)
{
    uint64_t from_ns = options->from_ns != 0 ? options->from_ns : bl_clock_now_ns(engine->clock);

    if (!options->timed)
        return;
    if (options->timeout_ns <= 0)
        bl_scope_set_deadline(scope, from_ns);
    else
        bl_scope_set_deadline(scope, bl_time_add(from_ns, (uint64_t)options->timeout_ns));
}

void bl_run(struct bl_engine *engine, struct bl_session *session, struct bl_receipt *receipt,
            const struct bl_run_options *options, struct bl_arena *arena,
            struct bl_run_result *ret_result)
{
    uint64_t wanted = options->continues ? options->max_turns : 1;
    struct bl_journal journal;
    uint64_t count = 0;

    *ret_result = (struct bl_run_result){.end = BL_TURN_COMPLETED};
    bl_list_init(&ret_result->turns);
    for (; count < options->recorded_count; count++)
        add_turn(ret_result, recorded_turn(arena, options->recorded[count]));
    bl_journal_init(&journal, engine, options->run_id, session->id);
    bl_journal_emit(&journal, &(struct bl_event){.type = BL_EVENT_RUN_STARTED,
                                                 .text = options->prompt,
                                                 .model = engine->model});
    for (size_t i = 0; i < options->warning_count; i++)
        bl_journal_emit(&journal,
                        &(struct bl_event){.type = BL_EVENT_WARNING, .text = options->warnings[i]});
    if (count < wanted)
        set_deadline(engine, receipt->scope, options);
    for (; count < wanted && ret_result->end == BL_TURN_COMPLETED; count++) {
        struct bl_turn_result *turn = bl_arena_zalloc(arena, sizeof *turn);
        bl_turn_run(engine, session, receipt->scope, receipt, &journal,
                    count == 0 ? options->prompt : options->continuation, arena, turn);
        add_turn(ret_result, turn);
    }
    settle_stop(receipt, arena, ret_result);
    end_run(engine, &journal, receipt, session, ret_result);
    bl_journal_done(&journal);
}

int bl_run_exit_code(const struct bl_run_result *result)
{
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

void bl_run_result_write(struct bl_json_writer *writer, const struct bl_run_result *result)
{
    bl_json_put_uint64(writer, "turns_completed", result->turns_completed);
    bl_json_write_key(writer, BL_TEXT("turns"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &result->turns)
        bl_json_write_raw(writer, BL_CONTAINER(link, struct bl_turn_result, link)->json);
    bl_json_write_end(writer);
    bl_json_put_string(writer, "final_stop_reason", bl_turn_end_name(result->end));
    bl_json_put_boolean(writer, "final_cancel_observed", result->cancel_observed);
    bl_json_write_key(writer, BL_TEXT("usage"));
    bl_usage_write(writer, &result->usage);
    bl_json_write_key(writer, BL_TEXT("spent"));
    bl_spent_write(writer, &result->spent);
    bl_json_put_json(writer, "receipt", result->receipt);
}
