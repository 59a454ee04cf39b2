/* One call of the model: the request, the pieces of the answer, and the rest of an answer that was
 * cut. */
#include <stdio.h>

#include "parts.h"

int turn_text_append(struct bl_arena *arena, struct turn_text *text, struct bl_text more)
{
    if (more.size > TURN_TEXT_MAX - text->size)
        return BL_ELIMIT;
    if (text->size + more.size > text->capacity) {
        size_t capacity = text->capacity < 128 ? 256 : text->capacity * 2;
        if (capacity < text->size + more.size)
            capacity = text->size + more.size;
        if (text->data == NULL)
            text->data = bl_arena_alloc(arena, capacity);
        else
            text->data = bl_arena_resize(arena, text->data, text->capacity, capacity);
        text->capacity = capacity;
    }
    if (more.size > 0)
        memcpy(text->data + text->size, more.data, more.size);
    text->size += more.size;
    return 0;
}

struct bl_text turn_text_view(const struct turn_text *text)
{
    return (struct bl_text){text->data, text->size};
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Ends the text or thinking being written. */
static void turn_answer_close_block(struct turn_answer *answer)
{
    struct bl_arena *arena = &answer->turn->record->arena;
    struct turn_text *text = &answer->text;

    if (answer->open == NULL)
        return;
    if (text->data != NULL)
        text->data = bl_arena_resize(arena, text->data, text->capacity, text->size);
    answer->open->text = turn_text_view(text);
    answer->open = NULL;
    *text = (struct turn_text){0};
}

static int turn_answer_add_text(struct turn_answer *answer, enum bl_block_type type,
                                const struct bl_piece *piece)
{
    struct bl_arena *arena = &answer->turn->record->arena;

    if (answer->open != NULL && answer->open->type != type)
        turn_answer_close_block(answer);
    if (answer->open == NULL)
        answer->open = bl_block_add(arena, answer->message, type);
    int code = turn_text_append(arena, &answer->text, piece->text);
    if (code != 0)
        return code;
    answer->open->text = turn_text_view(&answer->text);
    if (piece->opaque.size > 0) {
        answer->open->opaque = bl_arena_text(arena, piece->opaque);
        turn_answer_close_block(answer);
    }
    if (piece->text.size > 0 && !answer->quiet)
        turn_emit(answer->turn,
                  (struct bl_event){.type = type == BL_BLOCK_TEXT ? BL_EVENT_TEXT_DELTA
                                                                  : BL_EVENT_THINKING_DELTA,
                                    .text = piece->text});
    return 0;
}

static int turn_answer_begin_call(struct turn_answer *answer, const struct bl_piece *piece)
{
    struct bl_arena *arena = &answer->turn->record->arena;

    turn_answer_close_block(answer);
    if (answer->calls >= TURN_CALLS_MAX)
        return BL_ELIMIT;
    answer->calls++;
    struct bl_block *block = bl_block_add(arena, answer->message, BL_BLOCK_CALL);
    block->id = bl_arena_text(arena, piece->id);
    block->name = bl_arena_text(arena, piece->name);
    return 0;
}

/* Returns the call that began as number `index`; NULL if there is none. */
static struct bl_block *turn_answer_find_call(struct turn_answer *answer, uint32_t index)
{
    BL_LIST_EACH (link, &answer->message->blocks) {
        struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_CALL && index-- == 0)
            return block;
    }
    return NULL;
}

static int turn_answer_end_call(struct turn_answer *answer, const struct bl_piece *piece)
{
    struct bl_arena *arena = &answer->turn->record->arena;
    struct bl_block *block = turn_answer_find_call(answer, piece->index);

    if (block == NULL || block->input.data != NULL)
        return BL_EINVAL;
    if (piece->text.size > TURN_TEXT_MAX)
        return BL_ELIMIT;
    block->input = bl_arena_text(arena, piece->text);
    block->invalid = bl_arena_text(arena, piece->invalid);
    block->is_invalid = block->invalid.size > 0;
    block->opaque = bl_arena_text(arena, piece->opaque);
    answer->calls_ended++;
    return 0;
}

/* Returns what the answer used and costs. The most that a cut answer may cost is the model's
 * reservation for it. */
static struct bl_spent spent_of(const struct turn_answer *answer, const struct bl_usage *usage)
{
    const struct bl_model *model = answer->turn->engine->model;
    double cost = -1;

    if (answer->usage_known && answer->cost_known)
        cost = answer->cost_usd;
    else if (model->cost_usd != NULL)
        cost = model->cost_usd(model->context, usage);
    if (cost < 0)
        return (struct bl_spent){.usage = *usage, .cost_unknown = true};
    double owed = answer->sink.reserved_usd;
    return (struct bl_spent){
        .usage = *usage, .cost_usd = cost, .cost_usd_max = owed > cost ? owed : cost};
}

/* Estimates the usage of an answer that was cut before the provider reported it: the request by the
 * model's estimate, and one token per four bytes. */
static struct bl_usage estimate_usage(const struct turn_answer *answer,
                                      const struct bl_request *request)
{
    const struct bl_model *model = answer->turn->engine->model;

    return (struct bl_usage){model->estimate(model->context, request), (answer->bytes + 3) / 4};
}

/* Something of the answer arrived, or may be owed for it. */
static bool was_used(const struct turn_answer *answer)
{
    return answer->usage_known || answer->ended || answer->bytes > 0 ||
           answer->sink.reserved_usd > 0;
}

/* The call starts over: its usage so far is spent, and its pieces are dropped. */
static void turn_answer_restart(struct turn_answer *answer, const struct bl_piece *piece)
{
    struct turn *turn = answer->turn;

    turn_emit(turn,
              (struct bl_event){.type = BL_EVENT_RETRY, .piece = piece, .count = answer->bytes});
    if (was_used(answer)) {
        struct bl_usage usage =
            answer->usage_known ? answer->usage : estimate_usage(answer, answer->request);
        struct bl_spent spent = spent_of(answer, &usage);
        bl_spent_add(&turn->result->spent, &spent);
    }
    bl_list_init(&answer->message->blocks);
    answer->open = NULL;
    answer->text = (struct turn_text){0};
    answer->calls = answer->calls_ended = 0;
    answer->bytes = 0;
    answer->usage_known = answer->cost_known = false;
    answer->sink.reserved_usd = 0;
}

static void turn_answer_take_usage(struct turn_answer *answer, const struct bl_piece *piece)
{
    answer->usage = piece->usage;
    answer->usage_known = true;
    answer->cost_known = piece->cost_known;
    answer->cost_usd = piece->cost_usd;
    turn_emit(answer->turn,
              (struct bl_event){.type = BL_EVENT_USAGE, .usage = &answer->usage, .piece = piece});
}

static int take_piece(struct bl_sink *sink, const struct bl_piece *piece)
{
    struct turn_answer *answer = BL_CONTAINER(sink, struct turn_answer, sink);

    answer->bytes += piece->text.size;
    if (answer->bytes > BL_ANSWER_SIZE_MAX)
        return BL_ELIMIT;
    switch (piece->type) {
    case BL_PIECE_TEXT: return turn_answer_add_text(answer, BL_BLOCK_TEXT, piece);
    case BL_PIECE_THINKING: return turn_answer_add_text(answer, BL_BLOCK_THINKING, piece);
    case BL_PIECE_CALL_BEGIN: return turn_answer_begin_call(answer, piece);
    case BL_PIECE_CALL_DELTA: return 0;
    case BL_PIECE_CALL_END: return turn_answer_end_call(answer, piece);
    case BL_PIECE_USAGE: turn_answer_take_usage(answer, piece); return 0;
    case BL_PIECE_RETRY: turn_answer_restart(answer, piece); return 0;
    case BL_PIECE_END:
        turn_answer_close_block(answer);
        answer->end = piece->end;
        answer->ended = true;
        return 0;
    }
    return BL_EINVAL;
}

/* ---- The call -------------------------------------------------------------------------------- */

static void make_request(struct turn *turn, struct bl_request *request)
{
    const struct bl_engine *engine = turn->engine;

    *request = (struct bl_request){.system = engine->system,
                                   .session = turn->session,
                                   .turns_skipped = turn->turns_skipped,
                                   .summary = turn->summary != NULL ? turn->summary
                                                                    : turn->session->summary,
                                   .messages = &turn->record->messages,
                                   .tools_forbidden = turn->tools_forbidden,
                                   .schema = engine->schema_text};
    if (engine->tools != NULL) {
        request->tools = engine->tools->offers;
        request->tool_count = engine->tools->offer_count;
    }
}

/* Returns whether any token limit is set, here or above. */
static bool is_limited(const struct bl_budget *budget)
{
    while (budget != NULL && budget->limit == BL_UNLIMITED)
        budget = budget->above;
    return budget != NULL;
}

/* Returns the usage of the call. A call that failed before anything arrived used nothing, and so
 * did one that was stopped before it was sent, or while waiting for the next attempt. */
static struct bl_usage count_usage(struct turn *turn, const struct bl_request *request, bool cut)
{
    struct turn_answer *answer = &turn->answer;

    if (!was_used(answer) && (!cut || answer->sink.unbilled))
        return (struct bl_usage){0};
    struct bl_usage usage = answer->usage_known ? answer->usage : estimate_usage(answer, request);
    struct bl_spent spent = spent_of(answer, &usage);
    bl_spent_add(&turn->result->spent, &spent);
    bl_usage_add(&turn->used, &usage);
    return usage;
}

static int call_model(struct turn *turn, const struct bl_request *request, bool quiet)
{
    const struct bl_model *model = turn->engine->model;
    struct turn_answer *answer = &turn->answer;
    struct bl_error error = {0};
    struct bl_unit unit;
    char id[64];

    snprintf(id, sizeof id, "%s.%u", turn->result->turn_id, ++turn->requests);
    *answer = (struct turn_answer){
        .turn = turn, .request = request, .quiet = quiet, .sink = {.take = take_piece}};
    answer->message = bl_arena_alloc(&turn->record->arena, sizeof *answer->message);
    answer->message->role = BL_ROLE_ASSISTANT;
    bl_list_init(&answer->message->blocks);
    turn->results = NULL;
    bl_unit_begin(&unit, BL_UNIT_MODEL, id, model->name);
    turn->stage = TURN_MODEL;
    int code = model->call(model->context, request, &answer->sink, &error);
    if (bl_scope_check(&turn->scope) != 0)
        turn_note_stop(turn);
    turn->stage = TURN_BETWEEN;
    if (code != 0)
        turn->result->error = error;
    bl_text_into(unit.detail, sizeof unit.detail, answer->sink.detail);
    bl_unit_end(&unit, code == 0                ? BL_FATE_FINISHED
                       : answer->sink.abandoned ? BL_FATE_UNKNOWN
                                                : BL_FATE_ABORTED);
    return code;
}

int turn_call_model(struct turn *turn, const struct bl_request *request, bool quiet)
{
    const struct bl_model *model = turn->engine->model;
    uint64_t reserved = 0;

    /* Step 3: check the budget. */
    if (is_limited(&turn->budget)) {
        reserved = model->estimate(model->context, request);
        if (!bl_budget_reserve(&turn->budget, reserved))
            return BL_EBUDGET;
    }
    int code = call_model(turn, request, quiet);
    struct bl_usage used =
        count_usage(turn, request, code != 0 && bl_scope_check(&turn->scope) != 0);
    bl_budget_settle(&turn->budget, reserved, bl_usage_total(&used));
    return code;
}

/* Lets the tools change since the last call. False: stopped. */
static bool refresh_tools(struct turn *turn)
{
    const struct bl_tools *tools = turn->engine->tools;

    if (tools == NULL || tools->refresh == NULL)
        return true;
    turn->stage = TURN_TOOLS;
    tools->refresh(tools->context);
    if (bl_scope_check(&turn->scope) != 0)
        turn_note_stop(turn);
    turn->stage = TURN_BETWEEN;
    return bl_scope_check(&turn->scope) == 0 || turn_end_stopped(turn);
}

bool turn_ask(struct turn *turn)
{
    struct turn_answer *answer = &turn->answer;
    struct bl_request request;
    int code;

    turn->answer.message = NULL;
    if (!turn_may_continue(turn) || !refresh_tools(turn))
        return false;
    do {
        answer->message = NULL;
        if (!turn_make_room(turn))
            return false;
        make_request(turn, &request);
        code = turn_call_model(turn, &request, false);
        BL_LOG(BL_ROOM_TURN, BL_LOG_DEBUG, "model answered",
               BL_LOG_STRING("result", bl_error_text(code)),
               BL_LOG_INTEGER("calls", (int64_t)answer->calls));
        if (code == BL_EBUDGET && answer->message == NULL)
            return turn_end_as(turn, BL_TURN_MAX_BUDGET);
    } while (code != 0 && bl_scope_check(&turn->scope) == 0 && turn_make_room_after(turn));
    bool stopped = code != 0 && bl_scope_check(&turn->scope) != 0;
    /* The model's own failure, although it stopped the run. */
    if (code != 0 && strcmp(turn->result->error.name, "overrun") == 0)
        return turn_fail(turn, code, BL_KIND_PROVIDER, "the model failed: %s", bl_error_text(code));
    if (stopped)
        return turn_end_stopped(turn);
    if (code == BL_EBUDGET)
        return turn_end_as(turn, BL_TURN_MAX_BUDGET);
    if (code == BL_ELIMIT && answer->bytes > BL_ANSWER_SIZE_MAX)
        return turn_fail(turn, code, BL_KIND_PROVIDER, "the answer exceeds the limit of %zu MiB",
                         BL_ANSWER_SIZE_MAX >> 20);
    if (code == BL_ELIMIT)
        return turn_fail(turn, code, BL_KIND_PROVIDER, "the answer exceeds a limit");
    if (code != 0)
        return turn_fail(turn, code, BL_KIND_PROVIDER, "the model failed: %s", bl_error_text(code));
    if (!answer->ended || answer->calls_ended < answer->calls)
        return turn_fail(turn, BL_EPARSE, BL_KIND_PROVIDER, "the answer is incomplete");
    bl_list_push_back(&turn->record->messages, &answer->message->link);
    if (answer->end == BL_ANSWER_REFUSAL) {
        turn_fail(turn, BL_EACCES, BL_KIND_PROVIDER, "the model refused to answer");
        bl_error_name_set(&turn->result->error, "refusal");
        return false;
    }
    return true;
}

void turn_answer_keep(struct turn *turn)
{
    struct turn_answer *answer = &turn->answer;
    bool empty = true;

    if (answer->message == NULL || answer->ended)
        return;
    /* Drop unfinished thinking and unfinished calls. */
    if (answer->open != NULL && answer->open->type == BL_BLOCK_THINKING)
        bl_list_remove(&answer->open->link);
    else
        turn_answer_close_block(answer);
    BL_LIST_EACH_SAFE (link, &answer->message->blocks) {
        struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_CALL && block->input.data == NULL)
            bl_list_remove(link);
        else
            empty = false;
    }
    if (empty)
        bl_block_add(&turn->record->arena, answer->message, BL_BLOCK_TEXT)->text =
            BL_TEXT("[interrupted]");
    bl_list_push_back(&turn->record->messages, &answer->message->link);
}
