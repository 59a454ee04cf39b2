#include "script.h"

#define PIECES_MAX  1000000
#define TIMES_MAX   1000000000
#define TOKENS_MAX  1000000000
#define REPLIES_MAX 10000u
/* Of all inputs of calls together: aliases multiply. */
#define INPUTS_SIZE_MAX (64u << 20)

/* A script while it is read. Its texts are those of the document, which is in its arena. */
struct parser {
    struct bl_value_reader reader;
    struct bl_script *script;
    size_t inputs_size;
};

static struct parser *parser_of(struct bl_value_reader *reader)
{
    return BL_CONTAINER(reader, struct parser, reader);
}

static struct bl_arena *arena_of(struct bl_value_reader *reader)
{
    return &parser_of(reader)->script->arena;
}

static int read_count(struct bl_value_reader *reader, const struct bl_json *key, int64_t least,
                      int64_t most, uint64_t *ret_count)
{
    const struct bl_json *value = key + 1;
    int64_t count;

    if (!bl_json_int64(value, &count) || count < least || count > most)
        return bl_value_fail_at(reader, value, "%s must be an integer from %lld to %lld",
                                key->string, (long long)least, (long long)most);
    *ret_count = (uint64_t)count;
    return 0;
}

/* ---- Usage ---- */

static int read_usage_member(struct bl_value_reader *reader, size_t which,
                             const struct bl_json *key, void *out)
{
    struct script_reply *reply = out;

    if (which == 0) {
        reply->input_given = true;
        return read_count(reader, key, 0, INT64_MAX, &reply->usage.input_tokens);
    }
    reply->output_given = true;
    return read_count(reader, key, 0, INT64_MAX, &reply->usage.output_tokens);
}

static int parse_read_usage(struct bl_value_reader *reader, const struct bl_json *value,
                            struct script_reply *reply)
{
    static const char *const names[] = {"input", "output", NULL};

    return bl_value_read_members(reader, value, "usage", names, read_usage_member, reply);
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

static int read_error_code(struct bl_value_reader *reader, const struct bl_json *key,
                           struct bl_model_failure *failure)
{
    const char *codes[64];
    size_t count = 0, index;

    while (count + 1 < BL_COUNT(codes) && model_failure_code(count) != NULL) {
        codes[count] = model_failure_code(count);
        count++;
    }
    codes[count] = NULL;
    int result = bl_value_read_choice(reader, key, codes, &index);
    if (result != 0)
        return result;
    failure->code = codes[index];
    /* A script's connect is the timer's: what was refused can be played as dns. */
    failure->timed_out = strcmp(failure->code, "connect") == 0;
    return 0;
}

static int read_error_member(struct bl_value_reader *reader, size_t which,
                             const struct bl_json *key, void *out)
{
    struct script_reply *reply = out;
    struct bl_model_failure *failure = &reply->failure;
    struct bl_text text = {"", 0};
    uint64_t number = 0;
    bool truth = false;
    int result = 0;

    switch ((enum error_key)which) {
    case ERROR_STATUS:
        result = read_count(reader, key, 100, 599, &number);
        failure->status = (int)number;
        break;
    case ERROR_CODE: result = read_error_code(reader, key, failure); break;
    case ERROR_TIMES: result = read_count(reader, key, 1, TIMES_MAX, &reply->failures); break;
    case ERROR_MESSAGE:
        result = bl_value_read_text(reader, key, &text);
        bl_text_into(failure->message, sizeof failure->message, text.data);
        break;
    case ERROR_RETRY_AFTER:
        result = bl_value_read_duration(reader, key, 0, &number);
        /* What is less than a millisecond is a hint still. */
        failure->retry_after_ms = (int64_t)((number + BL_NS_PER_MS - 1) / BL_NS_PER_MS);
        break;
    case ERROR_SHOULD_RETRY:
        result = bl_value_read_boolean(reader, key, &truth);
        failure->should_retry = truth;
        break;
    }
    return result;
}

static int parse_read_error(struct bl_value_reader *reader, const struct bl_json *value,
                            struct script_reply *reply)
{
    reply->failures = 1;
    reply->failure.retry_after_ms = -1;
    reply->failure.should_retry = -1;
    int result =
        bl_value_read_members(reader, value, "error", error_keys, read_error_member, reply);
    if (result != 0)
        return result;
    if (reply->failure.status != 0 || reply->failure.code != NULL)
        return 0;
    result = bl_value_fail_at(reader, value, "error needs a status or a code");
    bl_error_hint(reader->error, "like {status: 529} or {code: stall}");
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
static int check_input(struct bl_value_reader *reader, const struct bl_json *value,
                       struct script_call *call)
{
    struct parser *parser = parser_of(reader);
    const struct bl_json *read;
    struct bl_json_fault fault;
    struct bl_arena scratch;
    char where[256];

    parser->inputs_size += call->input.size;
    if (parser->inputs_size > INPUTS_SIZE_MAX)
        return bl_value_fail_at(reader, value, "the inputs of all tools are over %u MiB",
                                INPUTS_SIZE_MAX >> 20);
    bl_arena_init(&scratch);
    int result = bl_json_read(&scratch, call->input, NULL, &read, &fault);
    if (result != 0) {
        bl_json_fault_text(&fault, where, sizeof where);
        call->invalid = bl_arena_printf(arena_of(reader), "the input is not JSON: %s", where);
    } else if (!bl_json_is(read, BL_JSON_OBJECT)) {
        call->invalid = bl_arena_printf(arena_of(reader), "the input must be a JSON object, is: %s",
                                        bl_json_type_name(bl_json_type(read)));
    }
    bl_arena_done(&scratch);
    return 0;
}

static int read_input(struct bl_value_reader *reader, const struct bl_json *value,
                      struct script_call *call)
{
    struct bl_buffer text;
    struct bl_json_writer writer;

    bl_buffer_init(&text, INPUTS_SIZE_MAX);
    bl_json_writer_init(&writer, &text);
    bl_json_write_value(&writer, value);
    int result = bl_json_writer_done(&writer);
    if (result == 0)
        call->input = bl_arena_text(arena_of(reader), bl_buffer_text(&text));
    bl_buffer_done(&text);
    if (result != 0)
        return bl_value_fail_at(reader, value, "the input is over %u MiB", INPUTS_SIZE_MAX >> 20);
    return check_input(reader, value, call);
}

static int read_call_member(struct bl_value_reader *reader, size_t which, const struct bl_json *key,
                            void *out)
{
    struct script_call *call = out;
    int result = 0;

    switch ((enum call_key)which) {
    case CALL_NAME:
        result = bl_value_read_text(reader, key, &call->name);
        if (result == 0 && call->name.size == 0)
            result = bl_value_fail_at(reader, key + 1, "name must not be empty");
        break;
    case CALL_ID:
        result = bl_value_read_text(reader, key, &call->id);
        if (result == 0 && call->id.size == 0)
            result =
                bl_value_fail_at(reader, key + 1, "id must not be empty (without one, it is made)");
        break;
    case CALL_INPUT:
    case CALL_INPUT_TEXT:
        if (call->input.data != NULL)
            return bl_value_fail_at(reader, key, "a tool has one input: input or input_text");
        if (which == CALL_INPUT)
            return read_input(reader, key + 1, call);
        result = bl_value_read_text(reader, key, &call->input);
        if (result == 0)
            result = check_input(reader, key + 1, call);
        break;
    }
    return result;
}

static int read_calls(struct bl_value_reader *reader, const struct bl_json *value,
                      struct script_reply *reply)
{
    if (!bl_json_is(value, BL_JSON_ARRAY))
        return bl_value_fail_at(reader, value, "tools must be a list, is %s", bl_value_type(value));
    reply->calls = bl_arena_zalloc(arena_of(reader), bl_json_size(value) * sizeof(*reply->calls));
    BL_JSON_EACH (element, value) {
        struct script_call *call = &reply->calls[reply->call_count++];
        int result =
            bl_value_read_members(reader, element, "a tool", call_keys, read_call_member, call);
        if (result != 0)
            return result;
        if (call->name.size == 0)
            return bl_value_fail_at(reader, element, "a tool needs a name");
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
    REPLY_IMAGES,
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
    [REPLY_IMAGES] = "images",
    NULL,
};

static int read_when(struct bl_value_reader *reader, const struct bl_json *key,
                     struct script_reply *reply)
{
    struct bl_error detail = {0};
    struct bl_text text;
    int result = bl_value_read_text(reader, key, &text);

    if (result != 0)
        return result;
    if (bl_pattern_new(text, &reply->when, &detail) == 0)
        return 0;
    result = bl_value_fail_at(reader, key + 1, "when is not a pattern: %s", detail.message);
    bl_error_hint(reader->error, "%s",
                  detail.hint[0] != '\0' ? detail.hint
                                         : "a backslash makes a special character plain");
    return result;
}

static int read_wedge(struct bl_value_reader *reader, const struct bl_json *key,
                      struct script_reply *reply)
{
    static const char *const words[] = {"before_first_token", "after_first_token", NULL};
    size_t index = 0;
    int result = bl_value_read_choice(reader, key, words, &index);

    if (result == 0)
        reply->wedge = index == 0 ? SCRIPT_WEDGE_BEFORE : SCRIPT_WEDGE_AFTER;
    return result;
}

static int parse_read_stop(struct bl_value_reader *reader, const struct bl_json *key,
                           struct script_reply *reply)
{
    static const char *const words[] = {"end", "max_tokens", "refusal", NULL};
    static const enum bl_answer_end ends[] = {BL_ANSWER_END, BL_ANSWER_MAX_TOKENS,
                                              BL_ANSWER_REFUSAL};
    size_t index = 0;
    int result = bl_value_read_choice(reader, key, words, &index);

    reply->end_given = true;
    reply->end = ends[index];
    return result;
}

static int read_reply_member(struct bl_value_reader *reader, size_t which,
                             const struct bl_json *key, void *out)
{
    struct script_reply *reply = out;
    uint64_t number = 0;
    int result;

    switch ((enum reply_key)which) {
    case REPLY_WHEN: return read_when(reader, key, reply);
    case REPLY_DELAY: return bl_value_read_duration(reader, key, 0, &reply->delay_ns);
    case REPLY_SAY: return bl_value_read_text(reader, key, &reply->say);
    case REPLY_TOOLS: return read_calls(reader, key + 1, reply);
    case REPLY_USAGE: return parse_read_usage(reader, key + 1, reply);
    case REPLY_WEDGE: return read_wedge(reader, key, reply);
    case REPLY_ERROR: return parse_read_error(reader, key + 1, reply);
    case REPLY_THINKING: return bl_value_read_text(reader, key, &reply->thinking);
    case REPLY_STOP: return parse_read_stop(reader, key, reply);
    case REPLY_PIECE_DELAY: return bl_value_read_duration(reader, key, 0, &reply->piece_delay_ns);
    case REPLY_IMAGES:
        reply->images_given = true;
        return read_count(reader, key, 0, BL_IMAGES_MAX, &reply->images);
    case REPLY_PIECES:
        result = read_count(reader, key, 1, PIECES_MAX, &number);
        if (result == 0)
            reply->pieces = (uint32_t)number;
        return result;
    }
    return 0;
}

static bool parse_has_key(const struct bl_json *reply, enum reply_key which)
{
    return bl_json_get(reply, bl_text_from(reply_keys[which])) != NULL;
}

/* Whether the keys of a reply go together. */
static int check_reply(struct bl_value_reader *reader, const struct bl_json *value)
{
    static const enum reply_key answers[] = {REPLY_SAY, REPLY_THINKING, REPLY_TOOLS, REPLY_WEDGE};
    int result;

    if (parse_has_key(value, REPLY_ERROR)) {
        BL_JSON_MEMBERS (key, value) {
            struct bl_text name = bl_json_text(key);
            if (bl_text_equal(name, BL_TEXT("error")) || bl_text_equal(name, BL_TEXT("when")) ||
                bl_text_equal(name, BL_TEXT("delay")) || bl_text_equal(name, BL_TEXT("images")))
                continue;
            result =
                bl_value_fail_at(reader, key, "a reply that is an error has no %s", key->string);
            bl_error_hint(reader->error, "it goes on with the next reply: say it there");
            return result;
        }
        return 0;
    }
    for (size_t i = 0; i < BL_COUNT(answers); i++) {
        if (parse_has_key(value, answers[i]))
            return 0;
    }
    result = bl_value_fail_at(reader, value, "a reply needs say, thinking, tools, wedge or error");
    bl_error_hint(reader->error, "an empty answer is: say: \"\"");
    return result;
}

static int read_replies(struct bl_value_reader *reader, const struct bl_json *value)
{
    struct bl_script *script = parser_of(reader)->script;

    if (!bl_json_is(value, BL_JSON_ARRAY) || bl_json_size(value) == 0)
        return bl_value_fail_at(reader, value, "replies must be a list of one reply or more, is %s",
                                bl_json_is(value, BL_JSON_ARRAY) ? "empty" : bl_value_type(value));
    if (bl_json_size(value) > REPLIES_MAX)
        return bl_value_fail_at(reader, value, "there are more than %u replies", REPLIES_MAX);
    script->replies =
        bl_arena_zalloc(&script->arena, bl_json_size(value) * sizeof(*script->replies));
    BL_JSON_EACH (element, value) {
        struct script_reply *reply = &script->replies[script->reply_count++];
        reply->pieces = SCRIPT_PIECES_DEFAULT;
        int result =
            bl_value_read_members(reader, element, "a reply", reply_keys, read_reply_member, reply);
        if (result == 0)
            result = check_reply(reader, element);
        if (result != 0)
            return result;
    }
    return 0;
}

/* ---- Scripts ---- */

static int parse_read_top_member(struct bl_value_reader *reader, size_t which,
                                 const struct bl_json *key, void *out BL_UNUSED)
{
    struct bl_text name;
    int result;

    if (which == 0) {
        result = bl_value_read_text(reader, key, &name);
        if (result == 0 && name.size > 0)
            parser_of(reader)->script->name = name.data;
        return result;
    }
    if (which == 1)
        return read_replies(reader, key + 1);
    if (which == 2)
        return bl_value_read_boolean(reader, key, &parser_of(reader)->script->repeat);
    if (which == 4)
        return bl_value_read_boolean(reader, key, &parser_of(reader)->script->images);
    return read_count(reader, key, 1, TOKENS_MAX, &parser_of(reader)->script->context_window);
}

static int parse_read_script(struct bl_value_reader *reader, struct bl_text source)
{
    static const char *const names[] = {"name",           "replies", "repeat",
                                        "context_window", "images",  NULL};
    int result = bl_value_read_document(reader, arena_of(reader), source, SCRIPT_SIZE_MAX);

    if (result == 0)
        result = bl_value_read_members(reader, reader->document.root, "a script", names,
                                       parse_read_top_member, NULL);
    if (result == 0 && parser_of(reader)->script->reply_count == 0)
        result = bl_value_fail_at(reader, reader->document.root, "a script needs replies");
    if (result != 0)
        bl_error_hint(reader->error,
                      "a script is YAML or JSON: {name: …, replies: [{say: …}, …], repeat: false}");
    return result;
}

int bl_script_parse(struct bl_text source, const char *name, struct bl_script **ret_script,
                    struct bl_error *error)
{
    struct bl_error unused = {0};
    struct parser parser = {.reader = {.file = name,
                                       .operation = SCRIPT_OPERATION,
                                       .error = error != NULL ? error : &unused}};

    parser.script = bl_zalloc(sizeof *parser.script);
    bl_arena_init(&parser.script->arena);
    parser.script->name = bl_arena_text(&parser.script->arena, bl_text_from(name)).data;
    int result = parse_read_script(&parser.reader, source);
    if (result != 0) {
        bl_script_free(parser.script);
        return result;
    }
    *ret_script = parser.script;
    return 0;
}
