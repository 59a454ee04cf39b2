#include "script.h"

#define PIECES_MAX  1000000
#define TIMES_MAX   1000000000
#define REPLIES_MAX 10000u
/* Of all inputs of calls together: aliases multiply. */
#define INPUTS_SIZE_MAX (64u << 20)

/* ---- Usage ---- */

static int read_usage_member(struct script_parser *parser, size_t which, const struct bl_json *key,
                             void *out)
{
    struct script_reply *reply = out;

    if (which == 0) {
        reply->input_given = true;
        return script_read_count(parser, key, 0, INT64_MAX, &reply->usage.input_tokens);
    }
    reply->output_given = true;
    return script_read_count(parser, key, 0, INT64_MAX, &reply->usage.output_tokens);
}

static int read_usage(struct script_parser *parser, const struct bl_json *value,
                      struct script_reply *reply)
{
    static const char *const names[] = {"input", "output", NULL};

    return script_read_members(parser, value, "usage", names, read_usage_member, reply);
}

/* ---- Errors that a reply plays ---- */

enum error_key {
    ERROR_STATUS,
    ERROR_CODE,
    ERROR_TIMES,
    ERROR_MESSAGE,
    ERROR_RETRY_AFTER,
    ERROR_SHOULD_RETRY,
};

static const char *const error_keys[] = {
    [ERROR_STATUS] = "status",
    [ERROR_CODE] = "code",
    [ERROR_TIMES] = "times",
    [ERROR_MESSAGE] = "message",
    [ERROR_RETRY_AFTER] = "retry_after",
    [ERROR_SHOULD_RETRY] = "should_retry",
    NULL,
};

static int read_error_code(struct script_parser *parser, const struct bl_json *key,
                           struct bl_model_failure *failure)
{
    const char *codes[64];
    size_t count = 0, index;

    while (count + 1 < BL_COUNT(codes) && model_failure_code(count) != NULL) {
        codes[count] = model_failure_code(count);
        count++;
    }
    codes[count] = NULL;
    int result = script_read_choice(parser, key, codes, &index);
    if (result != 0)
        return result;
    failure->code = codes[index];
    /* A script's connect is the timer's: what was refused can be played as dns. */
    failure->timed_out = strcmp(failure->code, "connect") == 0;
    return 0;
}

static int read_error_member(struct script_parser *parser, size_t which, const struct bl_json *key,
                             void *out)
{
    struct script_reply *reply = out;
    struct bl_model_failure *failure = &reply->failure;
    struct bl_text text = {"", 0};
    uint64_t number = 0;
    bool truth = false;
    int result = 0;

    switch ((enum error_key)which) {
    case ERROR_STATUS:
        result = script_read_count(parser, key, 100, 599, &number);
        failure->status = (int)number;
        break;
    case ERROR_CODE: result = read_error_code(parser, key, failure); break;
    case ERROR_TIMES:
        result = script_read_count(parser, key, 1, TIMES_MAX, &reply->failures);
        break;
    case ERROR_MESSAGE:
        result = script_read_text(parser, key, &text);
        bl_text_into(failure->message, sizeof failure->message, text.data);
        break;
    case ERROR_RETRY_AFTER:
        result = script_read_duration(parser, key, &number);
        /* What is less than a millisecond is a hint still. */
        failure->retry_after_ms = (int64_t)((number + BL_NS_PER_MS - 1) / BL_NS_PER_MS);
        break;
    case ERROR_SHOULD_RETRY:
        result = script_read_boolean(parser, key, &truth);
        failure->should_retry = truth;
        break;
    }
    return result;
}

static int read_error(struct script_parser *parser, const struct bl_json *value,
                      struct script_reply *reply)
{
    reply->failures = 1;
    reply->failure.retry_after_ms = -1;
    reply->failure.should_retry = -1;
    int result = script_read_members(parser, value, "error", error_keys, read_error_member, reply);
    if (result != 0)
        return result;
    if (reply->failure.status != 0 || reply->failure.code != NULL)
        return 0;
    result = script_fail_at(parser, value, "error needs a status or a code");
    bl_error_hint(parser->error, "like {status: 529} or {code: stall}");
    return result;
}

/* ---- Tools ---- */

enum call_key {
    CALL_NAME,
    CALL_INPUT,
    CALL_INPUT_TEXT,
    CALL_ID,
};

static const char *const call_keys[] = {
    [CALL_NAME] = "name",
    [CALL_INPUT] = "input",
    [CALL_INPUT_TEXT] = "input_text",
    [CALL_ID] = "id",
    NULL,
};

/* Sets why the input is not one, if so. */
static int check_input(struct script_parser *parser, const struct bl_json *value,
                       struct script_call *call)
{
    const struct bl_json *read;
    struct bl_json_fault fault;
    struct bl_arena scratch;
    char where[256];

    parser->inputs_size += call->input.size;
    if (parser->inputs_size > INPUTS_SIZE_MAX)
        return script_fail_at(parser, value, "the inputs of all tools are over %u MiB",
                              INPUTS_SIZE_MAX >> 20);
    bl_arena_init(&scratch);
    int result = bl_json_read(&scratch, call->input, NULL, &read, &fault);
    if (result != 0) {
        bl_json_fault_text(&fault, where, sizeof where);
        call->invalid = bl_arena_printf(&parser->script->arena, "the input is not JSON: %s", where);
    } else if (!bl_json_is(read, BL_JSON_OBJECT)) {
        call->invalid =
            bl_arena_printf(&parser->script->arena, "the input must be a JSON object, is: %s",
                            bl_json_type_name(bl_json_type(read)));
    }
    bl_arena_done(&scratch);
    return 0;
}

static int read_input(struct script_parser *parser, const struct bl_json *value,
                      struct script_call *call)
{
    struct bl_buffer text;
    struct bl_json_writer writer;

    bl_buffer_init(&text, INPUTS_SIZE_MAX);
    bl_json_writer_init(&writer, &text);
    bl_json_write_value(&writer, value);
    int result = bl_json_writer_done(&writer);
    if (result == 0)
        call->input = bl_arena_text(&parser->script->arena, bl_buffer_text(&text));
    bl_buffer_done(&text);
    if (result != 0)
        return script_fail_at(parser, value, "the input is over %u MiB", INPUTS_SIZE_MAX >> 20);
    return check_input(parser, value, call);
}

static int read_call_member(struct script_parser *parser, size_t which, const struct bl_json *key,
                            void *out)
{
    struct script_call *call = out;
    int result = 0;

    switch ((enum call_key)which) {
    case CALL_NAME:
        result = script_read_text(parser, key, &call->name);
        if (result == 0 && call->name.size == 0)
            result = script_fail_at(parser, key + 1, "name must not be empty");
        break;
    case CALL_ID:
        result = script_read_text(parser, key, &call->id);
        if (result == 0 && call->id.size == 0)
            result =
                script_fail_at(parser, key + 1, "id must not be empty (without one, it is made)");
        break;
    case CALL_INPUT:
    case CALL_INPUT_TEXT:
        if (call->input.data != NULL)
            return script_fail_at(parser, key, "a tool has one input: input or input_text");
        if (which == CALL_INPUT)
            return read_input(parser, key + 1, call);
        result = script_read_text(parser, key, &call->input);
        if (result == 0)
            result = check_input(parser, key + 1, call);
        break;
    }
    return result;
}

static int read_calls(struct script_parser *parser, const struct bl_json *value,
                      struct script_reply *reply)
{
    if (!bl_json_is(value, BL_JSON_ARRAY))
        return script_fail_at(parser, value, "tools must be a list, is %s", script_type(value));
    reply->calls =
        bl_arena_zalloc(&parser->script->arena, bl_json_size(value) * sizeof(*reply->calls));
    BL_JSON_EACH (element, value) {
        struct script_call *call = &reply->calls[reply->call_count++];
        int result =
            script_read_members(parser, element, "a tool", call_keys, read_call_member, call);
        if (result != 0)
            return result;
        if (call->name.size == 0)
            return script_fail_at(parser, element, "a tool needs a name");
        if (call->input.data == NULL)
            call->input = BL_TEXT("{}");
    }
    return 0;
}

/* ---- Replies ---- */

enum reply_key {
    REPLY_WHEN,
    REPLY_DELAY,
    REPLY_SAY,
    REPLY_PIECES,
    REPLY_TOOLS,
    REPLY_USAGE,
    REPLY_WEDGE,
    REPLY_ERROR,
    REPLY_THINKING,
    REPLY_STOP,
    REPLY_PIECE_DELAY,
};

static const char *const reply_keys[] = {
    [REPLY_WHEN] = "when",
    [REPLY_DELAY] = "delay",
    [REPLY_SAY] = "say",
    [REPLY_PIECES] = "pieces",
    [REPLY_TOOLS] = "tools",
    [REPLY_USAGE] = "usage",
    [REPLY_WEDGE] = "wedge",
    [REPLY_ERROR] = "error",
    [REPLY_THINKING] = "thinking",
    [REPLY_STOP] = "stop",
    [REPLY_PIECE_DELAY] = "piece_delay",
    NULL,
};

static int read_when(struct script_parser *parser, const struct bl_json *key,
                     struct script_reply *reply)
{
    struct bl_error detail = {0};
    struct bl_text text;
    int result = script_read_text(parser, key, &text);

    if (result != 0)
        return result;
    if (bl_pattern_new(text, &reply->when, &detail) == 0)
        return 0;
    result = script_fail_at(parser, key + 1, "when is not a pattern: %s", detail.message);
    bl_error_hint(parser->error, "%s",
                  detail.hint[0] != '\0' ? detail.hint
                                         : "a backslash makes a special character plain");
    return result;
}

static int read_wedge(struct script_parser *parser, const struct bl_json *key,
                      struct script_reply *reply)
{
    static const char *const words[] = {"before_first_token", "after_first_token", NULL};
    size_t index = 0;
    int result = script_read_choice(parser, key, words, &index);

    if (result == 0)
        reply->wedge = index == 0 ? SCRIPT_WEDGE_BEFORE : SCRIPT_WEDGE_AFTER;
    return result;
}

static int read_stop(struct script_parser *parser, const struct bl_json *key,
                     struct script_reply *reply)
{
    static const char *const words[] = {"end", "max_tokens", "refusal", NULL};
    static const enum bl_answer_end ends[] = {BL_ANSWER_END, BL_ANSWER_MAX_TOKENS,
                                              BL_ANSWER_REFUSAL};
    size_t index = 0;
    int result = script_read_choice(parser, key, words, &index);

    reply->end_given = true;
    reply->end = ends[index];
    return result;
}

static int read_reply_member(struct script_parser *parser, size_t which, const struct bl_json *key,
                             void *out)
{
    struct script_reply *reply = out;
    uint64_t number;
    int result;

    switch ((enum reply_key)which) {
    case REPLY_WHEN: return read_when(parser, key, reply);
    case REPLY_DELAY: return script_read_duration(parser, key, &reply->delay_ns);
    case REPLY_SAY: return script_read_text(parser, key, &reply->say);
    case REPLY_TOOLS: return read_calls(parser, key + 1, reply);
    case REPLY_USAGE: return read_usage(parser, key + 1, reply);
    case REPLY_WEDGE: return read_wedge(parser, key, reply);
    case REPLY_ERROR: return read_error(parser, key + 1, reply);
    case REPLY_THINKING: return script_read_text(parser, key, &reply->thinking);
    case REPLY_STOP: return read_stop(parser, key, reply);
    case REPLY_PIECE_DELAY: return script_read_duration(parser, key, &reply->piece_delay_ns);
    case REPLY_PIECES:
        result = script_read_count(parser, key, 1, PIECES_MAX, &number);
        if (result == 0)
            reply->pieces = (uint32_t)number;
        return result;
    }
    return 0;
}

static bool has_key(const struct bl_json *reply, enum reply_key which)
{
    return bl_json_get(reply, bl_text_from(reply_keys[which])) != NULL;
}

/* Whether the keys of a reply go together. */
static int check_reply(struct script_parser *parser, const struct bl_json *value)
{
    static const enum reply_key answers[] = {REPLY_SAY, REPLY_THINKING, REPLY_TOOLS, REPLY_WEDGE};
    int result;

    if (has_key(value, REPLY_ERROR)) {
        BL_JSON_MEMBERS (key, value) {
            struct bl_text name = bl_json_text(key);
            if (bl_text_equal(name, BL_TEXT("error")) || bl_text_equal(name, BL_TEXT("when")) ||
                bl_text_equal(name, BL_TEXT("delay")))
                continue;
            result = script_fail_at(parser, key, "a reply that is an error has no %s", key->string);
            bl_error_hint(parser->error, "it goes on with the next reply: say it there");
            return result;
        }
        return 0;
    }
    for (size_t i = 0; i < BL_COUNT(answers); i++) {
        if (has_key(value, answers[i]))
            return 0;
    }
    result = script_fail_at(parser, value, "a reply needs say, thinking, tools, wedge or error");
    bl_error_hint(parser->error, "an empty answer is: say: \"\"");
    return result;
}

static int read_replies(struct script_parser *parser, const struct bl_json *value)
{
    struct bl_script *script = parser->script;

    if (!bl_json_is(value, BL_JSON_ARRAY) || bl_json_size(value) == 0)
        return script_fail_at(parser, value, "replies must be a list of one reply or more, is %s",
                              bl_json_is(value, BL_JSON_ARRAY) ? "empty" : script_type(value));
    if (bl_json_size(value) > REPLIES_MAX)
        return script_fail_at(parser, value, "there are more than %u replies", REPLIES_MAX);
    script->replies =
        bl_arena_zalloc(&script->arena, bl_json_size(value) * sizeof(*script->replies));
    BL_JSON_EACH (element, value) {
        struct script_reply *reply = &script->replies[script->reply_count++];
        reply->pieces = SCRIPT_PIECES_DEFAULT;
        int result =
            script_read_members(parser, element, "a reply", reply_keys, read_reply_member, reply);
        if (result == 0)
            result = check_reply(parser, element);
        if (result != 0)
            return result;
    }
    return 0;
}

/* ---- Scripts ---- */

static int read_top_member(struct script_parser *parser, size_t which, const struct bl_json *key,
                           void *out BL_UNUSED)
{
    struct bl_text name;
    int result;

    if (which == 0) {
        result = script_read_text(parser, key, &name);
        if (result == 0 && name.size > 0)
            parser->script->name = name.data;
        return result;
    }
    if (which == 1)
        return read_replies(parser, key + 1);
    return script_read_boolean(parser, key, &parser->script->repeat);
}

static int read_script(struct script_parser *parser, struct bl_text source)
{
    static const char *const names[] = {"name", "replies", "repeat", NULL};
    struct bl_json_limits limits = {.size_max = SCRIPT_SIZE_MAX, .refuse_duplicates = true};
    struct bl_json_fault fault;
    char where[256];

    int result =
        bl_document_read(&parser->script->arena, source, &limits, &parser->document, &fault);
    if (result != 0) {
        bl_json_fault_text(&fault, where, sizeof where);
        bl_error_set(parser->error, result, BL_KIND_PARSE, SCRIPT_OPERATION, parser->name, "%s",
                     where);
    } else {
        result = script_read_members(parser, parser->document.root, "a script", names,
                                     read_top_member, NULL);
    }
    if (result == 0 && parser->script->reply_count == 0)
        result = script_fail_at(parser, parser->document.root, "a script needs replies");
    if (result != 0)
        bl_error_hint(parser->error,
                      "a script is YAML or JSON: {name: …, replies: [{say: …}, …], repeat: false}");
    return result;
}

int bl_script_parse(struct bl_text source, const char *name, struct bl_script **ret_script,
                    struct bl_error *error)
{
    struct bl_error unused = {0};
    struct script_parser parser = {.name = name, .error = error != NULL ? error : &unused};

    parser.script = bl_zalloc(sizeof *parser.script);
    bl_arena_init(&parser.script->arena);
    parser.script->name = bl_arena_text(&parser.script->arena, bl_text_from(name)).data;
    int result = read_script(&parser, source);
    if (result != 0) {
        bl_script_free(parser.script);
        return result;
    }
    *ret_script = parser.script;
    return 0;
}
