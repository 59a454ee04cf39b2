#include "provider.h"

#include <stdio.h>

void model_assembly_init(struct model_assembly *assembly, struct bl_arena *arena,
                         const struct bl_request *request, const struct bl_price *price,
                         struct bl_sink *sink)
{
    *assembly = (struct model_assembly){
        .sink = sink,
        .arena = arena,
        .request = request,
        .price = price,
        .failure = {.retry_after_ms = -1, .should_retry = -1},
    };
}

void model_assembly_done(struct model_assembly *assembly)
{
    for (uint32_t i = 0; i < assembly->call_count; i++)
        bl_buffer_done(&assembly->calls[i]->input);
    assembly->call_count = 0;
}

int model_fail(struct model_assembly *assembly, const char *code, int status,
               struct bl_text message)
{
    /* The first failure stays: later ones are its consequences. */
    if (assembly->failure.code != NULL)
        return BL_EIO;
    assembly->failure = (struct bl_model_failure){
        .status = status, .code = code, .retry_after_ms = -1, .should_retry = -1};
    model_failure_message(&assembly->failure, message);
    return BL_EIO;
}

static int assembly_tell(struct model_assembly *assembly, const struct bl_piece *piece)
{
    assembly->meaningful = true;
    return assembly->sink->take(assembly->sink, piece);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static int tell_input(struct model_assembly *assembly, const struct model_call *call,
                      struct bl_text text)
{
    if (text.size == 0)
        return 0;
    assembly->bytes += text.size;
    return assembly_tell(
        assembly,
        &(struct bl_piece){.type = BL_PIECE_CALL_DELTA, .index = call->index, .text = text});
}

/* Listeners count the calls as they begin, so the index is assigned now. */
static int assembly_begin_call(struct model_assembly *assembly, struct model_call *call)
{
    uint32_t begun = 0;

    for (uint32_t i = 0; i < assembly->call_count; i++)
        begun += assembly->calls[i]->begun;
    call->index = begun;
    call->begun = true;
    int result = assembly_tell(assembly, &(struct bl_piece){.type = BL_PIECE_CALL_BEGIN,
                                                            .index = call->index,
                                                            .id = call->id,
                                                            .name = call->name});
    return result == 0 ? tell_input(assembly, call, bl_buffer_text(&call->input)) : result;
}

/* Reports the calls that have a name by now. A call is held back until something else arrives,
 * because its name may arrive in pieces. */
static int begin_calls(struct model_assembly *assembly)
{
    int result = 0;

    for (uint32_t i = 0; i < assembly->call_count && result == 0; i++) {
        struct model_call *call = assembly->calls[i];
        if (!call->begun && call->name.size > 0)
            result = assembly_begin_call(assembly, call);
    }
    return result;
}

static bool list_has_call(const struct bl_list *messages, struct bl_text id)
{
    BL_LIST_EACH (link, messages) {
        BL_LIST_EACH (part, &BL_CONTAINER(link, struct bl_message, link)->blocks) {
            const struct bl_block *block = BL_CONTAINER(part, struct bl_block, link);
            if (block->type == BL_BLOCK_CALL && bl_text_equal(block->id, id))
                return true;
        }
    }
    return false;
}

/* Returns whether the id occurs in this answer, the turn, or the conversation before it: some
 * servers refuse a repeated id, and others count from 0 in each answer. */
static bool id_is_taken(const struct model_assembly *assembly, struct bl_text id)
{
    const struct bl_request *request = assembly->request;

    for (uint32_t i = 0; i < assembly->call_count; i++) {
        if (bl_text_equal(assembly->calls[i]->id, id))
            return true;
    }
    if (request == NULL)
        return false;
    if (request->messages != NULL && list_has_call(request->messages, id))
        return true;
    if (request->summary != NULL && list_has_call(&request->summary->messages, id))
        return true;
    if (request->session == NULL)
        return false;
    BL_LIST_EACH (link, &request->session->turns) {
        if (list_has_call(&BL_CONTAINER(link, struct bl_turn_record, link)->messages, id))
            return true;
    }
    return false;
}

static struct bl_text choose_id(struct model_assembly *assembly, struct bl_text server_id)
{
    char made[32];

    if (server_id.size > 0 && !id_is_taken(assembly, server_id))
        return bl_arena_text(assembly->arena, server_id);
    for (uint64_t number = assembly->call_count + 1;; number++) {
        int size = snprintf(made, sizeof made, "call_%llu", (unsigned long long)number);
        struct bl_text id = {made, (size_t)size};
        if (!id_is_taken(assembly, id))
            return bl_arena_text(assembly->arena, id);
    }
}

int model_call_new(struct model_assembly *assembly, struct bl_text id, struct bl_text name,
                   struct model_call **ret_call)
{
    int result = begin_calls(assembly);
    if (result != 0)
        return result;
    if (assembly->call_count == MODEL_CALLS_MAX)
        return model_fail(assembly, "limit", 0, BL_TEXT("the answer has more than 128 tool calls"));
    struct model_call *call = bl_arena_zalloc(assembly->arena, sizeof *call);
    call->id = choose_id(assembly, id);
    call->server_id = bl_arena_text(assembly->arena, id);
    call->name = bl_arena_text(assembly->arena, name);
    call->key = -1;
    bl_buffer_init(&call->input, MODEL_ARGUMENTS_MAX);
    assembly->calls[assembly->call_count++] = call;
    assembly->meaningful = true;
    *ret_call = call;
    return 0;
}

int model_call_name(struct model_assembly *assembly, struct model_call *call, struct bl_text name)
{
    if (name.size == 0 || call->begun || bl_text_equal(name, call->name))
        return 0;
    /* Some servers send the new part, others the whole name so far. */
    if (bl_text_starts_with(name, call->name))
        call->name = bl_arena_text(assembly->arena, name);
    else
        call->name = bl_arena_printf(assembly->arena, BL_TEXT_FORMAT BL_TEXT_FORMAT,
                                     BL_TEXT_ARG(bl_utf8_cut(call->name, 1024)), BL_TEXT_ARG(name));
    assembly->meaningful = true;
    return 0;
}

static int fail_input(struct model_assembly *assembly)
{
    return model_fail(assembly, "limit", 0,
                      BL_TEXT("the arguments of one tool call are larger than 8 MiB"));
}

int model_call_input(struct model_assembly *assembly, struct model_call *call, struct bl_text piece)
{
    if (piece.size == 0 || call->ended)
        return 0;
    int result = begin_calls(assembly);
    if (result != 0)
        return result;
    if (bl_buffer_append(&call->input, piece) != 0)
        return fail_input(assembly);
    assembly->meaningful = true;
    return call->begun ? tell_input(assembly, call, piece) : 0;
}

int model_call_replace(struct model_assembly *assembly, struct model_call *call,
                       struct bl_text input)
{
    if (call->ended)
        return 0;
    int result = begin_calls(assembly);
    if (result != 0)
        return result;
    size_t told = call->input.size;
    bool continues = bl_text_starts_with(input, bl_buffer_text(&call->input));
    if (continues)
        input = (struct bl_text){input.data + told, input.size - told};
    else
        bl_buffer_clear(&call->input);
    if (bl_buffer_append(&call->input, input) != 0)
        return fail_input(assembly);
    /* Reported pieces cannot be taken back; the end carries the whole input. */
    return call->begun && continues ? tell_input(assembly, call, input) : 0;
}

int model_call_whole(struct model_assembly *assembly, struct model_call *call,
                     const struct bl_json *value)
{
    struct bl_text text = bl_json_text(value);
    BL_AUTO_ARENA(scratch);

    if (value == NULL || bl_json_is(value, BL_JSON_NULL))
        return 0;
    bool is_text = bl_json_is(value, BL_JSON_STRING);
    if (!is_text)
        text = model_json_text(&scratch, value);
    int result = 0;
    if (text.size > 0)
        result = model_call_replace(assembly, call, text);
    else if (!is_text)
        result = fail_input(assembly);
    return result;
}

/* Returns why the call cannot be run, for the model; empty if it can. */
static struct bl_text judge_input(struct bl_arena *arena, struct bl_text input)
{
    BL_AUTO_ARENA(scratch);
    const struct bl_json *value;
    struct bl_json_fault fault;
    struct bl_text why = {0};
    char text[256];

    if (bl_json_read(&scratch, input, NULL, &value, &fault) != 0) {
        bl_json_fault_text(&fault, text, sizeof text);
        why = bl_arena_printf(arena, "its input is cut off or is not JSON: %s", text);
    } else if (!bl_json_is(value, BL_JSON_OBJECT)) {
        why = bl_arena_printf(arena, "its input is not a JSON object but of type %s",
                              bl_json_type_name(bl_json_type(value)));
    }
    return why;
}

/* `cut`: the output limit was reached within the input. */
static int assembly_end_call(struct model_assembly *assembly, struct model_call *call, bool cut)
{
    int result = begin_calls(assembly);
    if (result == 0 && !call->begun)
        result = assembly_begin_call(assembly, call);
    if (result != 0)
        return result;
    struct bl_piece piece = {.type = BL_PIECE_CALL_END,
                             .index = call->index,
                             .text = bl_buffer_text(&call->input),
                             .opaque = call->opaque};
    if (bl_text_trim(piece.text).size > 0)
        piece.invalid = judge_input(assembly->arena, piece.text);
    else if (cut)
        piece.invalid = BL_TEXT("its input is cut off: the output limit was reached first");
    else
        piece.text = BL_TEXT("{}");
    if (call->name.size == 0)
        piece.invalid = BL_TEXT("it does not name a tool");
    call->ended = true;
    return assembly_tell(assembly, &piece);
}

int model_call_end(struct model_assembly *assembly, struct model_call *call)
{
    return call->ended ? 0 : assembly_end_call(assembly, call, false);
}

/* ---- Text ------------------------------------------------------------------------------------ */

int model_tell_text(struct model_assembly *assembly, struct bl_text text)
{
    if (text.size == 0)
        return 0;
    int result = begin_calls(assembly);
    if (result != 0)
        return result;
    assembly->bytes += text.size;
    return assembly_tell(assembly, &(struct bl_piece){.type = BL_PIECE_TEXT, .text = text});
}

int model_tell_thinking(struct model_assembly *assembly, struct bl_text text, struct bl_text opaque)
{
    if (text.size == 0 && opaque.size == 0)
        return 0;
    int result = begin_calls(assembly);
    if (result != 0)
        return result;
    assembly->bytes += text.size;
    return assembly_tell(
        assembly, &(struct bl_piece){.type = BL_PIECE_THINKING, .text = text, .opaque = opaque});
}

/* ---- Usage and the end ----------------------------------------------------------------------- */

static void add_detail(struct bl_usage_detail *detail, const struct bl_usage_detail *more)
{
    detail->cache_read_tokens += more->cache_read_tokens;
    detail->cache_write_tokens += more->cache_write_tokens;
    detail->reasoning_tokens += more->reasoning_tokens;
}

void model_assembly_resume(struct model_assembly *assembly)
{
    assembly->pause = assembly->finished = false;
    bl_usage_add(&assembly->usage_before, &assembly->usage);
    add_detail(&assembly->usage_detail_before, &assembly->usage_detail);
    assembly->usage = (struct bl_usage){0};
    assembly->usage_detail = (struct bl_usage_detail){0};
    assembly->usage_known = false;
}

static int assembly_tell_usage(struct model_assembly *assembly, bool estimated)
{
    struct bl_piece piece = {.type = BL_PIECE_USAGE,
                             .usage = assembly->usage_before,
                             .usage_detail = assembly->usage_detail_before,
                             .estimated = estimated};

    bl_usage_add(&piece.usage, &assembly->usage);
    add_detail(&piece.usage_detail, &assembly->usage_detail);
    if (assembly->price != NULL && assembly->price->known) {
        piece.cost_known = true;
        /* Priced separately: a long request may cost more per token, and two short ones are not a
         * long one. */
        piece.cost_usd =
            bl_price_cost(assembly->price, &assembly->usage, &assembly->usage_detail) +
            bl_price_cost(assembly->price, &assembly->usage_before, &assembly->usage_detail_before);
    }
    return assembly_tell(assembly, &piece);
}

int model_tell_usage(struct model_assembly *assembly, const struct bl_usage *usage,
                     const struct bl_usage_detail *detail)
{
    /* Many servers repeat the usage with every piece. */
    if (assembly->usage_known && memcmp(&assembly->usage, usage, sizeof *usage) == 0 &&
        memcmp(&assembly->usage_detail, detail, sizeof *detail) == 0)
        return 0;
    int result = begin_calls(assembly);
    if (result != 0)
        return result;
    assembly->usage_known = true;
    assembly->usage = *usage;
    assembly->usage_detail = *detail;
    return assembly_tell_usage(assembly, false);
}

/* One token for every four bytes, and at least one. */
static uint64_t guess_tokens(uint64_t bytes)
{
    return bytes < 4 ? 1 : bytes / 4 + (bytes % 4 != 0);
}

int model_finish(struct model_assembly *assembly, enum bl_answer_end end)
{
    int result = 0;

    if (assembly->finished)
        return 0;
    for (uint32_t i = 0; i < assembly->call_count && result == 0; i++) {
        if (!assembly->calls[i]->ended)
            result = assembly_end_call(assembly, assembly->calls[i], end == BL_ANSWER_MAX_TOKENS);
    }
    /* Every request has tokens: zeros mean that the server does not count. */
    bool counted = assembly->usage_known &&
                   (assembly->usage.input_tokens > 0 || assembly->usage.output_tokens > 0);
    if (result == 0 && !counted) {
        assembly->usage.input_tokens =
            guess_tokens(assembly->request != NULL ? model_request_bytes(assembly->request) : 0);
        assembly->usage.output_tokens = guess_tokens(assembly->bytes);
        result = assembly_tell_usage(assembly, true);
    }
    if (result != 0)
        return result;
    /* A refused answer must not be acted on. */
    if (assembly->call_count > 0 && end != BL_ANSWER_REFUSAL)
        end = BL_ANSWER_TOOL_CALLS;
    else if (assembly->call_count == 0 && end == BL_ANSWER_TOOL_CALLS)
        end = BL_ANSWER_END;
    assembly->end = end;
    assembly->finished = true;
    return assembly_tell(assembly, &(struct bl_piece){.type = BL_PIECE_END, .end = end});
}

/* ---- Opaque values --------------------------------------------------------------------------- */

struct bl_text model_json_text(struct bl_arena *arena, const struct bl_json *value)
{
    BL_AUTO_BUFFER(out, 2 * MODEL_EVENT_MAX);
    struct bl_json_writer writer;
    struct bl_text text = {0};

    bl_json_writer_init(&writer, &out);
    bl_json_write_value(&writer, value);
    if (bl_json_writer_done(&writer) == 0)
        text = bl_arena_text(arena, bl_buffer_text(&out));
    return text;
}

struct bl_text model_opaque_make(struct bl_arena *arena, const struct bl_provider *provider,
                                 const struct bl_profile *profile, const char *member,
                                 struct bl_text value)
{
    BL_AUTO_BUFFER(out, 2 * MODEL_EVENT_MAX);
    struct bl_json_writer writer;

    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "provider", provider->name);
    bl_json_put_string(&writer, "model", profile->model);
    bl_json_put_json(&writer, member, value);
    bl_json_write_end(&writer);
    /* A value that is too large to keep cannot be sent back. */
    struct bl_text opaque = {0};
    if (bl_json_writer_done(&writer) == 0)
        opaque = bl_arena_text(arena, bl_buffer_text(&out));
    return opaque;
}

const struct bl_json *model_opaque_find(struct bl_arena *arena, struct bl_text opaque,
                                        const struct bl_provider *provider,
                                        const struct bl_profile *profile, const char *member)
{
    struct bl_json_limits limits = {.string_max = 2 * MODEL_EVENT_MAX};
    const struct bl_json *value;

    if (opaque.size == 0 || bl_json_read(arena, opaque, &limits, &value, NULL) != 0)
        return NULL;
    if (!bl_text_equal(model_member(value, "provider"), bl_text_from(provider->name)) ||
        !bl_text_equal(model_member(value, "model"), bl_text_from(profile->model)))
        return NULL;
    return bl_json_get(value, bl_text_from(member));
}
