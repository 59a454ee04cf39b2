#include "provided.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT_SCHEMA                                                                               \
    "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"},\"why\":{\"type\":"         \
    "\"string\"}},\"required\":[\"n\"]}"

bool has(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

/* ---- Tools and events ------------------------------------------------------------------------ */

static enum bl_permit permit(void *context BL_UNUSED, const struct bl_tool_call *call BL_UNUSED,
                             char *ret_reason BL_UNUSED, size_t reason_size BL_UNUSED)
{
    return BL_PERMIT_ALLOWED;
}

static int run_tool(void *context, const struct bl_tool_call *call BL_UNUSED,
                    struct bl_tool_result *ret_result, struct bl_error *error BL_UNUSED)
{
    struct provided *provided = context;

    provided->executions++;
    *ret_result = (struct bl_tool_result){.text = BL_TEXT("counted")};
    return 0;
}

static void hear(void *context, const struct bl_event *event)
{
    struct provided *provided = context;

    if (event->type == BL_EVENT_RETRY) {
        provided->retries++;
        provided->discarded = event->count;
    }
    provided->call_seen = provided->call_seen || event->type == BL_EVENT_TOOL_REQUESTED;
}

static void make_tools(struct provided *provided)
{
    const struct bl_json *source;
    struct bl_error error = {0};

    CHECK_EQUAL(bl_json_read(&provided->arena, BL_TEXT(COUNT_SCHEMA), NULL, &source, NULL), 0);
    CHECK_EQUAL(bl_json_schema_new(source, &provided->schema, &error), 0);
    provided->offers[0] = (struct bl_tool_offer){.name = "count",
                                                 .description = "Counts.",
                                                 .schema = BL_TEXT(COUNT_SCHEMA),
                                                 .compiled = provided->schema};
    provided->offers[1] = (struct bl_tool_offer){
        .name = "list", .description = "Lists.", .schema = BL_TEXT("{\"type\":\"object\"}")};
    provided->tools = (struct bl_tools){.context = provided,
                                        .offers = provided->offers,
                                        .offer_count = BL_COUNT(provided->offers),
                                        .permit = permit,
                                        .call = run_tool};
}

/* ---- Setup and teardown ---------------------------------------------------------------------- */

void provided_init(struct provided *provided, enum bl_api api)
{
    memset(provided, 0, sizeof *provided);
    provided->provider =
        (struct bl_provider){.name = bl_api_name(api), .api = api, .key = "sk-test-key"};
    provided->profile = (struct bl_profile){.model = "test-1"};
    bl_arena_init(&provided->arena);
    bl_arena_init(&provided->turn_arena);
    bl_nursery_init(&provided->nursery, bl_scope_current());
    bl_session_init(&provided->session, "provided");
    make_tools(provided);
    provided->listener = (struct bl_listener){hear, provided};
    provided->engine = (struct bl_engine){.model = &provided->model,
                                          .tools = &provided->tools,
                                          .listener = &provided->listener,
                                          .clock = bl_loop_clock(bl_loop_current())};
    bl_turn_limits_init(&provided->engine.limits);
}

void provided_open_at(struct provided *provided, const char *base_url)
{
    struct bl_error error = {0};

    bl_remote_free(provided->remote);
    provided->provider.base_url = bl_arena_text(&provided->arena, bl_text_from(base_url)).data;
    struct bl_remote_options options = {.provider = &provided->provider,
                                        .profile = &provided->profile,
                                        .ledger = provided->ledger,
                                        .seed = 1};
    CHECK_EQUAL(bl_remote_new(&options, &provided->remote, &provided->model, &error), 0);
}

void provided_open(struct provided *provided)
{
    if (provided->peer == NULL)
        provided->peer = peer_start(&provided->nursery, provided->scripts, provided->count);
    provided_open_at(provided, peer_url(provided->peer, ""));
}

static void close_store(struct provided *provided)
{
    char path[128];

    bl_store_release(provided->held);
    bl_store_close(provided->store);
    unlink(provided->path);
    snprintf(path, sizeof path, "%s-wal", provided->path);
    unlink(path);
    snprintf(path, sizeof path, "%s-shm", provided->path);
    unlink(path);
    CHECK_EQUAL(rmdir(provided->folder), 0);
}

void provided_done(struct provided *provided)
{
    bl_remote_free(provided->remote);
    peer_stop(provided->peer);
    bl_nursery_done(&provided->nursery);
    if (provided->store != NULL)
        close_store(provided);
    bl_session_done(&provided->session);
    bl_json_schema_free(provided->schema);
    bl_free(provided->scripts);
    bl_arena_done(&provided->turn_arena);
    bl_arena_done(&provided->arena);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void add_acts(struct provided *provided, struct bl_text bytes, bool silent)
{
    struct peer_act *acts = bl_arena_zalloc(&provided->arena, 4 * sizeof *acts);

    acts[0].type = PEER_READ_REQUEST;
    acts[1] = (struct peer_act){.type = PEER_SEND, .bytes = bytes};
    acts[2].type = silent ? PEER_SILENCE : PEER_CLOSE;
    if (provided->count == provided->capacity) {
        provided->capacity = provided->capacity == 0 ? 16 : provided->capacity * 2;
        provided->scripts =
            bl_realloc(provided->scripts, provided->capacity * sizeof *provided->scripts);
    }
    provided->scripts[provided->count++] = (struct peer_script){acts};
}

void provided_cut(struct provided *provided, struct bl_text body, size_t size, bool promised)
{
    const char *type = remotely_type(provided->provider.api);
    char length[64];

    snprintf(length, sizeof length, "Content-Length: %zu", body.size);
    add_acts(provided,
             peer_answer(&provided->arena, 200, type, promised ? length : NULL,
                         (struct bl_text){body.data, size}),
             false);
}

void provided_answer(struct provided *provided, struct bl_text body)
{
    provided_cut(provided, body, body.size, true);
}

void provided_hello(struct provided *provided)
{
    provided_answer(provided, remotely_hello(provided->provider.api));
}

void provided_error(struct provided *provided, int status, const char *headers, const char *body)
{
    add_acts(provided,
             peer_answer(&provided->arena, status, "application/json", headers, bl_text_from(body)),
             false);
}

void provided_silence(struct provided *provided, struct bl_text body)
{
    const char *type = remotely_type(provided->provider.api);

    add_acts(provided, peer_answer(&provided->arena, 200, type, NULL, body), true);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

enum bl_turn_end provided_turn(struct provided *provided, const char *prompt)
{
    struct bl_receipt receipt;
    struct bl_journal journal;

    bl_arena_reset(&provided->turn_arena);
    provided->retries = 0;
    provided->discarded = 0;
    provided->call_seen = false;
    bl_scope_init(&provided->scope, bl_scope_current());
    if (provided->turn_ns > 0)
        bl_scope_set_deadline(&provided->scope, bl_now_ns() + provided->turn_ns);
    bl_receipt_open(&receipt, &provided->scope, "run_provided");
    bl_journal_init(&journal, &provided->engine, "run_provided", provided->session.id);
    bl_turn_run(&provided->engine, &provided->session,
                &(struct bl_turn_options){.scope = &provided->scope,
                                          .receipt = &receipt,
                                          .journal = &journal,
                                          .prompt = bl_text_from(prompt)},
                &provided->turn_arena, &provided->result);
    bl_journal_done(&journal);
    bl_receipt_close(&receipt);
    bl_scope_done(&provided->scope);
    return provided->result.end;
}

void provided_store(struct provided *provided)
{
    struct bl_store_hold_options options = {.id = "provided",
                                            .directory = provided->folder,
                                            .run_id = "run_provided",
                                            .prompt = BL_TEXT("test")};
    struct bl_error error = {0};

    if (provided->store != NULL) {
        bl_store_release(provided->held);
        bl_store_close(provided->store);
    } else {
        snprintf(provided->folder, sizeof provided->folder, "/tmp/belay-provided-XXXXXX");
        CHECK(mkdtemp(provided->folder) != NULL);
        snprintf(provided->path, sizeof provided->path, "%s/sessions.db", provided->folder);
    }
    CHECK_EQUAL(bl_store_open(provided->path, &provided->store, &error), 0);
    bl_session_done(&provided->session);
    bl_session_init(&provided->session, "");
    int code =
        bl_store_hold(provided->store, &options, &provided->session, &provided->held, &error);
    if (!CHECK_EQUAL(code, 0))
        fprintf(stderr, "%s\n", error.message);
    provided->engine.store = bl_store_session_table(provided->held);
}

struct bl_text provided_memory(struct provided *provided)
{
    const struct bl_session *session = &provided->session;
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, 1u << 24);
    bl_json_writer_init(&writer, &out);
    bl_json_write_array(&writer);
    BL_LIST_EACH (link, &session->turns)
        bl_messages_write(&writer, &BL_CONTAINER(link, struct bl_turn_record, link)->messages);
    bl_json_write_uint64(&writer, session->turns_total);
    bl_json_write_uint64(&writer, session->turns_in_context);
    bl_record_write(&writer, &bl_usage_record, &session->usage);
    bl_json_write_end(&writer);
    struct bl_text text = bl_arena_text(&provided->arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text;
}

static int keep_turn(void *context, struct bl_text line)
{
    if (bl_text_starts_with(line, BL_TEXT("{\"type\":\"turn\"")))
        bl_buffer_append(context, line);
    return 0;
}

struct bl_text provided_stored(struct provided *provided)
{
    struct bl_error error = {0};
    struct bl_buffer out;

    bl_buffer_init(&out, 1u << 24);
    CHECK_EQUAL(bl_store_export(provided->store, "provided", keep_turn, &out, &error), 0);
    struct bl_text text = bl_arena_text(&provided->arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text;
}

/* ---- Streams with a tool call ---------------------------------------------------------------- */

/* Returns the text as a JSON string. */
static struct bl_text quoted(struct bl_arena *arena, struct bl_text text)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, 1u << 20);
    bl_json_writer_init(&writer, &out);
    bl_json_write_text(&writer, text);
    struct bl_text copy = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return copy;
}

#define ANTHROPIC_CALL                                                                             \
    "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":3,"   \
    "\"output_tokens\":1}}}\n\n"                                                                   \
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\","    \
    "\"text\":\"\"}}\n\n"                                                                          \
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","      \
    "\"text\":\"Now.\"}}\n\n"                                                                      \
    "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"                                      \
    "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":"             \
    "\"tool_use\",\"id\":\"call_1\",\"name\":\"%s\",\"input\":{}}}\n\n"                            \
    "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":"                     \
    "\"input_json_delta\",\"partial_json\":" BL_TEXT_FORMAT "}}\n\n"                               \
    "data: {\"type\":\"content_block_stop\",\"index\":1}\n\n"                                      \
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"%s\"},\"usage\":{"             \
    "\"output_tokens\":9}}\n\ndata: {\"type\":\"message_stop\"}\n\n"

#define OPENAI_CALL                                                                                \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Now.\"}}]}\n\n"                     \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_1\","  \
    "\"type\":\"function\",\"function\":{\"name\":\"%s\",\"arguments\":\"\"}}]}}]}\n\n"            \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{"      \
    "\"arguments\":" BL_TEXT_FORMAT "}}]}}]}\n\n"                                                  \
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"%s\"}]}\n\n"                \
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":9}}\n\n"           \
    "data: [DONE]\n\n"

#define RESPONSES_CALL                                                                             \
    "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":"        \
    "\"message\",\"id\":\"i\",\"role\":\"assistant\",\"content\":[]}}\n\n"                         \
    "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"item_id\":\"i\","         \
    "\"content_index\":0,\"delta\":\"Now.\"}\n\n"                                                  \
    "data: {\"type\":\"response.output_item.added\",\"output_index\":1,\"item\":{\"type\":"        \
    "\"function_call\",\"id\":\"f\",\"call_id\":\"call_1\",\"name\":\"%s\",\"arguments\":\"\"}}"   \
    "\n\n"                                                                                         \
    "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":1,\"item_id\":"   \
    "\"f\",\"delta\":" BL_TEXT_FORMAT "}\n\n"                                                      \
    "data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":"         \
    "\"function_call\",\"id\":\"f\",\"call_id\":\"call_1\",\"name\":\"%s\","                       \
    "\"arguments\":" BL_TEXT_FORMAT ",\"status\":\"%s\"}}\n\n"                                     \
    "data: {\"type\":\"response.%s\",\"response\":{\"status\":\"%s\",\"incomplete_details\":%s,"   \
    "\"usage\":{\"input_tokens\":3,\"output_tokens\":9}}}\n\n"

#define OLLAMA_CALL                                                                                \
    "{\"message\":{\"role\":\"assistant\",\"content\":\"Now.\"},\"done\":false}\n"                 \
    "{\"message\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{"        \
    "\"name\":\"%s\",\"arguments\":" BL_TEXT_FORMAT "}}]},\"done\":false}\n"                       \
    "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"%s\"," \
    "\"prompt_eval_count\":3,\"eval_count\":9}\n"

struct bl_text call_stream(struct bl_arena *arena, enum bl_api api, const char *tool,
                           struct bl_text arguments, const char *finish)
{
    struct bl_text text = quoted(arena, arguments);
    struct bl_arena scratch;
    const struct bl_json *value;

    switch (api) {
    case BL_API_ANTHROPIC:
        return bl_arena_printf(arena, ANTHROPIC_CALL, tool, BL_TEXT_ARG(text),
                               finish != NULL ? finish : "tool_use");
    case BL_API_OPENAI:
        return bl_arena_printf(arena, OPENAI_CALL, tool, BL_TEXT_ARG(text),
                               finish != NULL ? finish : "tool_calls");
    case BL_API_OPENAI_RESPONSES: {
        const char *how = finish != NULL ? finish : "completed";
        bool cut = strcmp(how, "incomplete") == 0;
        return bl_arena_printf(arena, RESPONSES_CALL, tool, BL_TEXT_ARG(text), tool,
                               BL_TEXT_ARG(text), how, how, how,
                               cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    }
    case BL_API_OLLAMA: break;
    }
    /* An object; other text is sent as a string, as some models do. */
    bl_arena_init(&scratch);
    if (bl_json_read(&scratch, arguments, NULL, &value, NULL) == 0)
        text = arguments;
    bl_arena_done(&scratch);
    return bl_arena_printf(arena, OLLAMA_CALL, tool, BL_TEXT_ARG(text),
                           finish != NULL ? finish : "stop");
}

size_t call_stream_end(enum bl_api api, struct bl_text stream)
{
    static const char *const marks[] = {"data: {\"type\":\"message_delta\"", "\"finish_reason\"",
                                        "data: {\"type\":\"response.completed\"", "\"done\":true"};
    size_t at = (size_t)bl_text_find(stream, bl_text_from(marks[api]));

    while (at > 0 && stream.data[at - 1] != '\n')
        at--;
    return at;
}
