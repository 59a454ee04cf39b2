#include "stage.h"

#include <stdio.h>

/* ---- The model ------------------------------------------------------------------------------- */

static uint64_t estimate(void *context, const struct bl_request *request)
{
    struct stage *stage = context;
    (void)request;
    return stage->estimate;
}

static int give(struct bl_sink *sink, struct bl_piece piece)
{
    return sink->take(sink, &piece);
}

static int speak(struct bl_sink *sink, const struct line *line, const char *said, bool thinking)
{
    struct bl_text rest = bl_text_from(said), word;
    int code = 0;

    while (code == 0 && bl_text_split(&rest, ' ', &word)) {
        code = line->delay_ns > 0 ? bl_sleep(line->delay_ns) : bl_check();
        if (rest.size > 0)
            word.size++;
        if (code == 0)
            code =
                give(sink, (struct bl_piece){.type = thinking ? BL_PIECE_THINKING : BL_PIECE_TEXT,
                                             .text = word});
        if (code == 0 && line->wedge)
            code = bl_sleep(BL_NEVER / 2);
    }
    return code;
}

static int ask_for_tools(struct stage *stage, struct bl_sink *sink, const struct line *line)
{
    uint32_t count = line->calls == 0 ? 1 : line->calls, names = 0;
    struct bl_text rest, name;
    int code = 0;

    for (rest = bl_text_from(line->tool); bl_text_split(&rest, ' ', &name);)
        names++;
    for (uint32_t i = 0; i < count * names && code == 0; i++) {
        char id[32];
        if (i % names == 0)
            rest = bl_text_from(line->tool);
        bl_text_split(&rest, ' ', &name);
        snprintf(id, sizeof id, "call_%u_%u", stage->requests, i);
        code = give(sink, (struct bl_piece){.type = BL_PIECE_CALL_BEGIN,
                                            .index = i,
                                            .id = bl_text_from(id),
                                            .name = name});
        if (code == 0 && line->delay_ns > 0)
            code = bl_sleep(line->delay_ns);
        if (code == 0)
            code = give(sink, (struct bl_piece){
                                  .type = BL_PIECE_CALL_END,
                                  .index = i,
                                  .text = bl_text_from(line->input != NULL ? line->input : "{}"),
                                  .invalid = bl_text_from(line->invalid)});
    }
    return code;
}

static int send_retries(struct bl_sink *sink, const struct line *line)
{
    int code = 0;

    for (uint32_t i = 0; i < line->retries && code == 0; i++) {
        struct bl_piece retry = {.type = BL_PIECE_RETRY};
        code = give(sink, (struct bl_piece){.type = BL_PIECE_TEXT, .text = BL_TEXT("lost ")});
        retry.retry.attempt = i + 1;
        retry.retry.of = 4;
        snprintf(retry.retry.code, sizeof retry.retry.code, "overloaded");
        if (code == 0)
            code = give(sink, retry);
    }
    return code;
}

static int give_pieces(struct bl_sink *sink, const struct line *line)
{
    int code = 0;

    for (size_t i = 0; i < line->piece_count && code == 0; i++)
        code = give(sink, line->pieces[i]);
    return code == 0 && line->wedge ? bl_sleep(BL_NEVER / 2) : code;
}

static int play_line(struct stage *stage, struct bl_sink *sink, const struct line *line)
{
    if (line->pieces != NULL)
        return give_pieces(sink, line);
    int code = line->wedge && line->say == NULL ? bl_sleep(BL_NEVER / 2) : 0;
    if (code == 0)
        code = send_retries(sink, line);
    if (code == 0 && line->think != NULL)
        code = speak(sink, line, line->think, true);
    if (code == 0 && line->say != NULL)
        code = speak(sink, line, line->say, false);
    if (code == 0 && line->tool != NULL)
        code = ask_for_tools(stage, sink, line);
    return code;
}

static struct bl_text first_text(const struct bl_list *messages)
{
    const struct bl_message *message = BL_CONTAINER(messages->next, struct bl_message, link);

    return BL_CONTAINER(message->blocks.next, struct bl_block, link)->text;
}

static int call_model(void *context, const struct bl_request *request, struct bl_sink *sink,
                      struct bl_error *error)
{
    struct stage *stage = context;
    struct bl_text newest = bl_request_newest_text(request);

    stage->requests++;
    stage->saw_forbidden = request->tools_forbidden;
    stage->tools_seen = request->tool_count;
    stage->turns_skipped = request->turns_skipped;
    stage->saw_session = request->session != NULL;
    stage->seen_summary[0] = '\0';
    if (request->summary != NULL)
        snprintf(stage->seen_summary, sizeof stage->seen_summary, BL_TEXT_FORMAT,
                 BL_TEXT_ARG(first_text(&request->summary->messages)));
    snprintf(stage->newest_text, sizeof stage->newest_text, BL_TEXT_FORMAT, BL_TEXT_ARG(newest));
    if (stage->line_next >= stage->line_count)
        return bl_error_set(error, BL_ENOENT, BL_KIND_PROVIDER, "call", "stage", "no line is left");
    const struct line *line = &stage->lines[stage->line_next++];
    sink->reserved_usd = line->reserved_usd;
    sink->unbilled = line->unbilled;
    sink->abandoned = line->abandoned;
    int code = play_line(stage, sink, line);
    if (code != 0) {
        snprintf(sink->detail, sizeof sink->detail, "cut");
        return code;
    }
    if (line->fail != 0) {
        bl_error_set(error, line->fail, line->fail_kind, "call", "stage", "it failed");
        bl_error_name_set(error, line->fail_name != NULL ? line->fail_name : "");
        return line->fail;
    }
    if (!line->no_usage && line->pieces == NULL)
        code = give(sink, (struct bl_piece){.type = BL_PIECE_USAGE,
                                            .usage = {line->input_tokens, line->output_tokens}});
    if (code == 0 && !line->no_end && line->pieces == NULL)
        code = give(sink, (struct bl_piece){.type = BL_PIECE_END, .end = line->end});
    return code;
}

static double cost_usd(void *context, const struct bl_usage *usage)
{
    (void)context;
    return (double)bl_usage_total(usage) * 0.5;
}

/* ---- Tools ----------------------------------------------------------------------------------- */

static const struct bl_tool_offer offers[] = {
    {.name = "work", .description = "takes its time", .schema = {"{\"type\":\"object\"}", 17}},
    {.name = "read",
     .description = "runs beside others",
     .schema = {"{\"type\":\"object\"}", 17},
     .parallel = true},
};

static enum bl_permit permit(void *context, const struct bl_tool_call *call, char *ret_reason,
                             size_t reason_size)
{
    struct stage *stage = context;
    (void)call;
    if (stage->tool_deny)
        snprintf(ret_reason, reason_size, "the stage says no");
    if (stage->tool_ask)
        snprintf(ret_reason, reason_size, "may it?");
    return stage->tool_deny  ? BL_PERMIT_DENIED
           : stage->tool_ask ? BL_PERMIT_ASK
                             : BL_PERMIT_ALLOWED;
}

static enum bl_permit ask(void *context, const struct bl_tool_call *call, const char *question,
                          char *ret_reason, size_t reason_size)
{
    struct stage *stage = context;

    CHECK_EQUAL(strcmp(question, "may it?"), 0);
    return stage->on_ask(stage, call, ret_reason, reason_size);
}

static int work(struct stage *stage, const struct bl_tool_call *call,
                struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct bl_unit unit;

    if (stage->tool_fails)
        return bl_error_set(error, BL_EIO, BL_KIND_TOOL, "run", "work", "the runtime failed");
    bl_unit_begin(&unit, BL_UNIT_TOOL, call->id, call->name);
    call->output(call, BL_TEXT("half "));
    int code = stage->tool_ns > 0 ? bl_sleep(stage->tool_ns) : 0;
    bl_unit_end(&unit, code == 0 ? BL_FATE_FINISHED : BL_FATE_ABORTED);
    ret_result->text = code == 0 ? BL_TEXT("half done") : BL_TEXT("half, then stopped");
    return code == 0 ? 0 : bl_error_set(error, code, BL_KIND_TOOL, "run", "work", "it was stopped");
}

static int call_tool(void *context, const struct bl_tool_call *call,
                     struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct stage *stage = context;

    stage->tool_calls++;
    if (++stage->tools_at_once > stage->tools_at_once_max)
        stage->tools_at_once_max = stage->tools_at_once;
    int code = stage->on_call != NULL ? stage->on_call(stage, call, ret_result, error)
                                      : work(stage, call, ret_result, error);
    stage->tools_at_once--;
    return code;
}

static void settle(void *context, struct bl_scope *scope)
{
    struct stage *stage = context;

    if (stage->on_settle != NULL)
        stage->on_settle(stage, scope);
}

/* ---- The store ------------------------------------------------------------------------------- */

static char *copy(struct bl_text text)
{
    char *string = bl_alloc(text.size + 1);
    memcpy(string, text.data, text.size);
    string[text.size] = '\0';
    return string;
}

static int refuse(int code, struct bl_error *error)
{
    if (code == 0)
        return 0;
    return bl_error_set(error, code, BL_KIND_FILESYSTEM, "commit", "stage", "the stage refuses");
}

static int store_begin(void *context, const struct bl_attempt *attempt, struct bl_error *error)
{
    struct stage *stage = context;
    (void)attempt;
    if (stage->begin_code == 0)
        stage->begun++;
    return refuse(stage->begin_code, error);
}

static void keep_receipt(struct stage *stage, struct bl_text receipt)
{
    if (receipt.size > 0)
        snprintf(stage->stored_receipt, sizeof stage->stored_receipt, BL_TEXT_FORMAT,
                 BL_TEXT_ARG(receipt));
}

static void keep_summary(struct stage *stage, const struct bl_settlement *settlement)
{
    if (settlement->summary.size == 0)
        return;
    bl_free(stage->stored_summary);
    stage->stored_summary = copy(settlement->summary);
}

static int store_commit(void *context, const struct bl_settlement *settlement,
                        struct bl_error *error)
{
    struct stage *stage = context;

    if (stage->on_commit != NULL)
        stage->on_commit(stage);
    /* A real store waits on a thread, which no stop wakes. */
    if (stage->store_ns > 0 && bl_sleep(stage->store_ns) != 0)
        return bl_error_set(error, BL_EUNKNOWN, BL_KIND_FILESYSTEM, "commit", "stage", "no answer");
    if (stage->commit_code != 0)
        return refuse(stage->commit_code, error);
    struct stored_turn *turn = &stage->turns[stage->turn_count++ % STAGE_TURNS_MAX];
    bl_free(turn->messages);
    bl_free(turn->result);
    snprintf(turn->id, sizeof turn->id, BL_TEXT_FORMAT, BL_TEXT_ARG(settlement->turn_id));
    turn->interrupted = settlement->interrupted;
    turn->messages = copy(settlement->messages);
    turn->result = copy(settlement->result);
    turn->usage = settlement->usage;
    stage->turns_dropped += settlement->turns_dropped;
    keep_summary(stage, settlement);
    keep_receipt(stage, settlement->receipt);
    bl_buffer_append(&stage->written, settlement->events);
    return 0;
}

static int store_compact(void *context, const struct bl_settlement *settlement,
                         struct bl_error *error)
{
    struct stage *stage = context;

    if (stage->on_commit != NULL)
        stage->on_commit(stage);
    if (stage->compact_code != 0)
        return refuse(stage->compact_code, error);
    stage->compacted++;
    stage->turns_dropped += settlement->turns_dropped;
    keep_summary(stage, settlement);
    bl_buffer_append(&stage->written, settlement->events);
    return 0;
}

static int store_reject(void *context, const struct bl_settlement *settlement,
                        struct bl_error *error)
{
    struct stage *stage = context;
    if (stage->reject_code != 0)
        return refuse(stage->reject_code, error);
    stage->rejected++;
    snprintf(stage->rejected_result, sizeof stage->rejected_result, BL_TEXT_FORMAT,
             BL_TEXT_ARG(settlement->result));
    keep_receipt(stage, settlement->receipt);
    bl_buffer_append(&stage->written, settlement->events);
    return 0;
}

static int store_note(void *context, struct bl_text events, const char *receipt_id,
                      struct bl_text receipt, struct bl_error *error)
{
    struct stage *stage = context;
    (void)receipt_id;
    if (stage->note_ns > 0 && bl_sleep(stage->note_ns) != 0)
        return refuse(BL_ETIMEDOUT, error);
    if (stage->note_code != 0)
        return refuse(stage->note_code, error);
    stage->noted++;
    keep_receipt(stage, receipt);
    bl_buffer_append(&stage->written, events);
    return 0;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void on_event(void *context, const struct bl_event *event)
{
    struct stage *stage = context;

    if (stage->event_count < STAGE_EVENTS_MAX)
        stage->events[stage->event_count++] = event->type;
    CHECK_EQUAL(event->seq, stage->last_seq + 1);
    stage->last_seq = event->seq;
    if (event->type == BL_EVENT_TURN_ENDED) {
        snprintf(stage->turn_ended, sizeof stage->turn_ended, BL_TEXT_FORMAT,
                 BL_TEXT_ARG(event->json));
        stage->turns_told +=
            bl_text_find(event->json, BL_TEXT("\"stop_reason\":\"completed\"")) >= 0;
    }
    if (event->type == BL_EVENT_WARNING)
        snprintf(stage->warning, sizeof stage->warning, BL_TEXT_FORMAT, BL_TEXT_ARG(event->text));
    if (stage->on_event != NULL)
        stage->on_event(stage, event);
}

size_t stage_told(const struct stage *stage, enum bl_event_type type)
{
    size_t count = 0;
    for (size_t i = 0; i < stage->event_count; i++)
        count += stage->events[i] == (uint32_t)type;
    return count;
}

/* ---- The stage ------------------------------------------------------------------------------- */

static void arm(struct stage *stage)
{
    bl_scope_init(&stage->scope, bl_scope_current());
    bl_receipt_open(&stage->receipt, &stage->scope, "run_stage");
    bl_journal_init(&stage->journal, &stage->engine, "run_stage", stage->session.id);
    stage->last_seq = 0;
}

static void disarm(struct stage *stage)
{
    bl_journal_done(&stage->journal);
    bl_receipt_close(&stage->receipt);
    bl_scope_done(&stage->scope);
}

void stage_init(struct stage *stage)
{
    memset(stage, 0, sizeof *stage);
    bl_arena_init(&stage->arena);
    bl_buffer_init(&stage->written, SIZE_MAX / 2);
    bl_session_init(&stage->session, "stage");
    stage->model = (struct bl_model){.provider = "stage",
                                     .name = "stage-1",
                                     .context = stage,
                                     .estimate = estimate,
                                     .call = call_model,
                                     .cost_usd = cost_usd};
    stage->tools = (struct bl_tools){.context = stage,
                                     .offers = offers,
                                     .offer_count = BL_COUNT(offers),
                                     .permit = permit,
                                     .ask = ask,
                                     .call = call_tool,
                                     .settle = settle};
    stage->store = (struct bl_turn_store){.context = stage,
                                          .begin = store_begin,
                                          .commit = store_commit,
                                          .reject = store_reject,
                                          .note = store_note,
                                          .compact = store_compact};
    stage->listener = (struct bl_listener){on_event, stage};
    stage->engine = (struct bl_engine){.model = &stage->model,
                                       .tools = &stage->tools,
                                       .store = &stage->store,
                                       .listener = &stage->listener,
                                       .clock = bl_loop_clock(bl_loop_current())};
    bl_turn_limits_init(&stage->engine.limits);
    arm(stage);
}

void stage_done(struct stage *stage)
{
    disarm(stage);
    for (size_t i = 0; i < STAGE_TURNS_MAX; i++) {
        bl_free(stage->turns[i].messages);
        bl_free(stage->turns[i].result);
    }
    bl_free(stage->stored_summary);
    bl_buffer_done(&stage->written);
    bl_session_done(&stage->session);
    bl_arena_done(&stage->arena);
}

void stage_rearm(struct stage *stage)
{
    disarm(stage);
    arm(stage);
}

void stage_line(struct stage *stage, struct line line)
{
    stage->lines[stage->line_count++] = line;
}

void stage_add_turn(struct stage *stage, size_t bytes)
{
    struct bl_turn_record *record = bl_turn_record_new();
    struct bl_message *message = bl_message_add(&record->arena, &record->messages, BL_ROLE_USER);
    char *text = bl_arena_alloc(&record->arena, bytes);

    memset(text, 'x', bytes);
    bl_block_add(&record->arena, message, BL_BLOCK_TEXT)->text = (struct bl_text){text, bytes};
    bl_session_add(&stage->session, record);
    stage->session.turns_total++;
}

void stage_add_turn_of_each(struct stage *stage)
{
    struct bl_turn_record *record = bl_turn_record_new();
    static const char messages[] =
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"},"
        "{\"type\":\"image\",\"media_type\":\"image/webp\",\"data\":\"AAAA\"}]},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"hm\",\"opaque\":"
        "{\"s\":1}},{\"type\":\"tool_call\",\"id\":\"c1\",\"name\":\"work\",\"input\":{\"n\":1}}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"id\":\"c1\",\"text\":\"out\","
        "\"is_error\":true}]}]";

    CHECK_EQUAL(bl_messages_read(&record->arena, bl_text_from(messages), &record->messages), 0);
    bl_session_add(&stage->session, record);
    stage->session.turns_total++;
}

struct bl_turn_result *stage_turn(struct stage *stage, const char *prompt)
{
    struct bl_turn_result *result = bl_arena_zalloc(&stage->arena, sizeof *result);

    bl_turn_run(&stage->engine, &stage->session,
                &(struct bl_turn_options){.scope = &stage->scope,
                                          .receipt = &stage->receipt,
                                          .journal = &stage->journal,
                                          .prompt = bl_text_from(prompt)},
                &stage->arena, result);
    return result;
}

struct bl_text stage_memory(struct stage *stage)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, 1 << 24);
    bl_json_writer_init(&writer, &out);
    bl_json_write_array(&writer);
    BL_LIST_EACH (link, &stage->session.turns)
        bl_messages_write(&writer, &BL_CONTAINER(link, struct bl_turn_record, link)->messages);
    bl_json_write_uint64(&writer, stage->session.turns_total);
    bl_json_write_uint64(&writer, stage->session.turns_in_context);
    bl_record_write(&writer, &bl_usage_record, &stage->session.usage);
    bl_json_write_end(&writer);
    struct bl_text text = bl_arena_text(&stage->arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text;
}

void stage_check_agreement(struct stage *stage, const struct bl_turn_result *result)
{
    bool changed = result->end == BL_TURN_COMPLETED || result->interrupted;
    bool stored = false;

    for (size_t i = 0; i < STAGE_TURNS_MAX; i++) {
        if (strcmp(stage->turns[i].id, result->turn_id) != 0)
            continue;
        CHECK(!stored);
        stored = true;
        CHECK(bl_text_equal(bl_text_from(stage->turns[i].result), result->json));
    }
    if (stage->engine.store != NULL)
        CHECK_EQUAL(stored, changed);
    CHECK(bl_text_equal(bl_text_from(stage->turn_ended), result->json));
    if (stage->engine.store != NULL)
        CHECK_EQUAL(stage->session.turns_total, stage->turn_count);
    if (!changed)
        CHECK_EQUAL(bl_usage_total(&result->usage), 0);
}

/* ---- Helpers --------------------------------------------------------------------------------- */

bool has(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

void check_valid(struct stage *stage, const char *messages)
{
    struct bl_list list;
    bool user = true;
    uint32_t calls = 0, results = 0;

    bl_list_init(&list);
    CHECK_EQUAL(bl_messages_read(&stage->arena, bl_text_from(messages), &list), 0);
    BL_LIST_EACH (link, &list) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        CHECK_EQUAL(message->role, user ? BL_ROLE_USER : BL_ROLE_ASSISTANT);
        CHECK(!bl_list_empty(&message->blocks));
        user = !user;
        BL_LIST_EACH (part, &message->blocks) {
            const struct bl_block *block = BL_CONTAINER(part, struct bl_block, link);
            calls += block->type == BL_BLOCK_CALL;
            results += block->type == BL_BLOCK_RESULT;
        }
        CHECK(message->role == BL_ROLE_ASSISTANT || calls == results);
    }
    CHECK(user);
    CHECK_EQUAL(calls, results);
}

static int stopper_main(void *argument)
{
    struct stopper *stopper = argument;
    int code = bl_sleep(stopper->after_ns);
    if (code == 0)
        bl_scope_stop(stopper->scope, stopper->reason, "test");
    return code;
}

void stop_after(struct stopper *stopper, struct stage *stage, uint64_t after_ns,
                enum bl_stop_reason reason)
{
    *stopper = (struct stopper){.scope = &stage->scope, .after_ns = after_ns, .reason = reason};
    bl_nursery_init(&stopper->nursery, bl_scope_current());
    bl_nursery_spawn(&stopper->nursery, NULL, "stopper", stopper_main, stopper, NULL);
}
