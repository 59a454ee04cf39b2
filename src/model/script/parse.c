#include "script.h"

#define PIECES_MAX  1000000
#define TIMES_MAX   1000000000
#define TOKENS_MAX  1000000000
#define REPLIES_MAX 10000u
/* Limit for all inputs of calls together: aliases multiply. */
#define INPUTS_SIZE_MAX (64u << 20)

/* A script being read. Its texts belong to the document, which is in its arena. */
struct parser {
    struct bl_source source;
    struct bl_script *script;
    size_t inputs_size;
};

/* ---- Tools ---- */

struct call_draft {
    struct script_call call;
    const struct bl_json *input;
};

#define BL_RECORD_STRUCT struct call_draft
static const struct bl_member call_members[] = {
    BL_MEMBER_TEXT("name", call.name, .least = 1),
    BL_MEMBER_JSON("input", input, .optional = true),
    BL_MEMBER_TEXT("input_text", call.input, .optional = true),
    BL_MEMBER_TEXT("id", call.id, .optional = true, .least = 1, .about = "Generated if omitted."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record call_record =
    BL_RECORD("a tool", struct call_draft, call_members, .closed = true);

/* Sets `invalid` if the input is not valid. */
static int check_input(struct parser *parser, const struct bl_json *value, struct script_call *call)
{
    struct bl_arena *arena = &parser->script->arena;
    const struct bl_json *read;
    struct bl_json_fault fault;
    BL_AUTO_ARENA(scratch);
    char where[256];

    parser->inputs_size += call->input.size;
    if (parser->inputs_size > INPUTS_SIZE_MAX)
        return bl_source_fail(&parser->source, value, "the inputs of all tools exceed %u MiB",
                              INPUTS_SIZE_MAX >> 20);
    int result = bl_json_read(&scratch, call->input, NULL, &read, &fault);
    if (result != 0) {
        bl_json_fault_text(&fault, where, sizeof where);
        call->invalid = bl_arena_printf(arena, "the input is not JSON: %s", where);
    } else if (!bl_json_is(read, BL_JSON_OBJECT)) {
        call->invalid = bl_arena_printf(arena, "the input must be a JSON object, found %s",
                                        bl_json_type_name(bl_json_type(read)));
    }
    return 0;
}

static int read_input(struct parser *parser, const struct bl_json *value, struct script_call *call)
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
        return bl_source_fail(&parser->source, value, "the input exceeds %u MiB",
                              INPUTS_SIZE_MAX >> 20);
    return check_input(parser, value, call);
}

static int read_call(struct parser *parser, const struct bl_json *value, struct script_call *call)
{
    const struct bl_json *text = bl_json_get(value, BL_TEXT("input_text"));
    struct call_draft draft = {0};
    int result =
        bl_source_read(&parser->source, &parser->script->arena, &call_record, value, &draft);

    if (result == 0 && draft.input != NULL && text != NULL)
        result = bl_source_fail(&parser->source, text, "a tool has either input or input_text");
    else if (result == 0 && draft.input != NULL)
        result = read_input(parser, draft.input, &draft.call);
    else if (result == 0 && text != NULL)
        result = check_input(parser, text, &draft.call);
    else
        draft.call.input = BL_TEXT("{}");
    *call = draft.call;
    return result;
}

static int read_calls(struct parser *parser, const struct bl_json *list, struct script_reply *reply)
{
    int result = 0;

    reply->calls =
        bl_arena_zalloc(&parser->script->arena, bl_json_size(list) * sizeof(*reply->calls));
    BL_JSON_EACH (element, list) {
        result = read_call(parser, element, &reply->calls[reply->call_count++]);
        if (result != 0)
            break;
    }
    return result;
}

/* ---- Replies ---- */

struct reply_draft {
    struct script_reply reply;
    const struct bl_json *when;
    const struct bl_json *tools;
    bool error_given;
    bool retry_given;
    uint64_t retry_after_ns;
};

static const char *const wedge_words[] = {
    [SCRIPT_WEDGE_BEFORE] = "before_first_token", [SCRIPT_WEDGE_AFTER] = "after_first_token"};
static const struct bl_names wedge_names = BL_NAMES(wedge_words);
static const char *const end_words[] = {[BL_ANSWER_END] = "end",
                                        [BL_ANSWER_MAX_TOKENS] = "max_tokens",
                                        [BL_ANSWER_REFUSAL] = "refusal"};
static const struct bl_names end_names = BL_NAMES(end_words);

#define BL_RECORD_STRUCT struct reply_draft
static const struct bl_member usage_members[] = {
    BL_MEMBER_INTEGER("input", reply.usage.input_tokens, .optional = true, .most = INT64_MAX,
                      BL_KNOWN(reply.input_given)),
    BL_MEMBER_INTEGER("output", reply.usage.output_tokens, .optional = true, .most = INT64_MAX,
                      BL_KNOWN(reply.output_given)),
    BL_MEMBER_END,
};
static const struct bl_record usage_record =
    BL_RECORD_GROUP("usage", usage_members, .closed = true);

static const struct bl_member error_members[] = {
    BL_MEMBER_INTEGER("status", reply.failure.status, .optional = true, .least = 100, .most = 599),
    BL_MEMBER_STRING("code", reply.failure.code, .optional = true, .names = &model_failure_codes),
    BL_MEMBER_INTEGER("times", reply.failures, .optional = true, .least = 1, .most = TIMES_MAX),
    BL_MEMBER_WORD("message", reply.failure.message, .optional = true, .cut = true),
    BL_MEMBER_DURATION("retry_after", retry_after_ns, .optional = true, BL_KNOWN(retry_given)),
    BL_MEMBER_BOOLEAN("should_retry", reply.failure.should_retry, .optional = true),
    BL_MEMBER_END,
};
static const struct bl_record error_record =
    BL_RECORD_GROUP("error", error_members, .closed = true);

static const struct bl_member reply_members[] = {
    BL_MEMBER_JSON("when", when, .optional = true),
    BL_MEMBER_DURATION("delay", reply.delay_ns, .optional = true),
    BL_MEMBER_TEXT("say", reply.say, .optional = true),
    BL_MEMBER_INTEGER("pieces", reply.pieces, .optional = true, .least = 1, .most = PIECES_MAX),
    BL_MEMBER_JSON("tools", tools, .optional = true, .element = &bl_element_object),
    BL_MEMBER_GROUP("usage", &usage_record, .optional = true),
    BL_MEMBER_ENUM("wedge", reply.wedge, &wedge_names, .optional = true),
    BL_MEMBER_GROUP("error", &error_record, .optional = true, BL_KNOWN(error_given)),
    BL_MEMBER_TEXT("thinking", reply.thinking, .optional = true),
    BL_MEMBER_ENUM("stop", reply.end, &end_names, .optional = true, BL_KNOWN(reply.end_given)),
    BL_MEMBER_DURATION("piece_delay", reply.piece_delay_ns, .optional = true),
    BL_MEMBER_INTEGER("images", reply.images, .optional = true, .most = BL_IMAGES_MAX,
                      BL_KNOWN(reply.images_given)),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record reply_record =
    BL_RECORD("a reply", struct reply_draft, reply_members, .closed = true);

static int read_when(struct parser *parser, const struct bl_json *value, struct script_reply *reply)
{
    struct bl_source *source = &parser->source;
    struct bl_error detail = {0};

    if (!bl_json_is(value, BL_JSON_STRING))
        return bl_source_fail(source, value, "when: expected a pattern, found %s",
                              bl_value_type(value));
    if (bl_pattern_new(bl_json_text(value), &reply->when, &detail) == 0)
        return 0;
    bl_source_fail(source, value, "when is not a valid pattern: %s", detail.message);
    bl_error_hint(source->error, "%s",
                  detail.hint[0] != '\0'
                      ? detail.hint
                      : "use a backslash to match a special character literally");
    return BL_EPARSE;
}

/* Checks the error that a reply plays. */
static int check_error(struct parser *parser, const struct bl_json *value,
                       struct reply_draft *draft)
{
    static const char *const beside[] = {"error", "when", "delay", "images"};
    struct bl_model_failure *failure = &draft->reply.failure;

    if (failure->status == 0 && failure->code == NULL) {
        bl_source_fail(&parser->source, bl_json_get(value, BL_TEXT("error")),
                       "error needs a status or a code");
        bl_error_hint(parser->source.error, "for example, {status: 529} or {code: stall}");
        return BL_EPARSE;
    }
    BL_JSON_MEMBERS (key, value) {
        size_t i = 0;
        while (i < BL_COUNT(beside) && strcmp(key->string, beside[i]) != 0)
            i++;
        if (i < BL_COUNT(beside))
            continue;
        bl_source_fail(&parser->source, key, "a reply with error cannot have %s", key->string);
        bl_error_hint(parser->source.error, "put it in the next reply, which follows the error");
        return BL_EPARSE;
    }
    /* A script's `connect` is the timer's; a refused connection can be played as `dns`. */
    failure->timed_out = failure->code != NULL && strcmp(failure->code, "connect") == 0;
    /* A hint of less than a millisecond still counts. */
    if (draft->retry_given)
        failure->retry_after_ms =
            (int64_t)((draft->retry_after_ns + BL_NS_PER_MS - 1) / BL_NS_PER_MS);
    return 0;
}

static int read_reply(struct parser *parser, const struct bl_json *value,
                      struct script_reply *reply)
{
    struct bl_source *source = &parser->source;
    struct reply_draft draft = {
        .reply = {.pieces = SCRIPT_PIECES_DEFAULT,
                  .failures = 1,
                  .failure = {.retry_after_ms = -1, .should_retry = -1}},
    };
    int result = bl_source_read(source, &parser->script->arena, &reply_record, value, &draft);

    if (result == 0 && draft.error_given) {
        result = check_error(parser, value, &draft);
    } else if (result == 0) {
        draft.reply.failures = 0;
        if (bl_json_get(value, BL_TEXT("say")) == NULL && draft.tools == NULL &&
            bl_json_get(value, BL_TEXT("thinking")) == NULL &&
            draft.reply.wedge == SCRIPT_NO_WEDGE) {
            bl_source_fail(source, value, "a reply needs say, thinking, tools, wedge or error");
            bl_error_hint(source->error, "for an empty answer, use say: \"\"");
            result = BL_EPARSE;
        }
    }
    if (result == 0 && draft.tools != NULL)
        result = read_calls(parser, draft.tools, &draft.reply);
    if (result == 0 && draft.when != NULL)
        result = read_when(parser, draft.when, &draft.reply);
    *reply = draft.reply;
    return result;
}

static int read_replies(struct parser *parser, const struct bl_json *replies)
{
    struct bl_script *script = parser->script;
    size_t count = bl_json_size(replies);

    if (count == 0 || count > REPLIES_MAX)
        return bl_source_fail(&parser->source, replies,
                              "replies: expected a list of 1 to %u replies, found %zu", REPLIES_MAX,
                              count);
    script->replies = bl_arena_zalloc(&script->arena, count * sizeof(*script->replies));
    BL_JSON_EACH (element, replies) {
        int result = read_reply(parser, element, &script->replies[script->reply_count++]);
        if (result != 0)
            return result;
    }
    return 0;
}

/* ---- Scripts ---- */

struct script_draft {
    struct bl_text name;
    const struct bl_json *replies;
    bool repeat;
    uint64_t context_window;
    bool images;
};

#define BL_RECORD_STRUCT struct script_draft
static const struct bl_member script_members[] = {
    BL_MEMBER_TEXT("name", name, .optional = true),
    BL_MEMBER_JSON("replies", replies, .element = &bl_element_object),
    BL_MEMBER_BOOLEAN("repeat", repeat, .optional = true),
    BL_MEMBER_INTEGER("context_window", context_window, .optional = true, .least = 1,
                      .most = TOKENS_MAX),
    BL_MEMBER_BOOLEAN("images", images, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record script_record =
    BL_RECORD("a script", struct script_draft, script_members, .closed = true);

static int parse_read_script(struct parser *parser, struct bl_text text)
{
    struct bl_source *source = &parser->source;
    struct bl_script *script = parser->script;
    struct script_draft draft = {0};
    int result = bl_source_open(source, &script->arena, text, SCRIPT_SIZE_MAX);

    if (result == 0)
        result =
            bl_source_read(source, &script->arena, &script_record, source->document.root, &draft);
    if (result == 0) {
        script->repeat = draft.repeat;
        script->context_window = draft.context_window;
        script->images = draft.images;
        if (draft.name.size > 0)
            script->name = draft.name.data;
        result = read_replies(parser, draft.replies);
    }
    if (result != 0)
        bl_error_hint(source->error,
                      "a script is YAML or JSON: {name: …, replies: [{say: …}, …], repeat: false}");
    return result;
}

int bl_script_parse(struct bl_text source, const char *name, struct bl_script **ret_script,
                    struct bl_error *error)
{
    struct bl_error unused = {0};
    struct parser parser = {.source = {.file = name,
                                       .operation = SCRIPT_OPERATION,
                                       .error = error != NULL ? error : &unused}};

    parser.script = bl_zalloc(sizeof *parser.script);
    bl_arena_init(&parser.script->arena);
    parser.script->name = bl_arena_text(&parser.script->arena, bl_text_from(name)).data;
    int result = parse_read_script(&parser, source);
    if (result != 0) {
        bl_script_free(parser.script);
        return result;
    }
    *ret_script = parser.script;
    return 0;
}
