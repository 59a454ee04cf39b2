/* Values that are sent back to their own provider, and to no other. */
#include "provided.h"

#include <stdio.h>

static const enum bl_api apis[] = {BL_API_ANTHROPIC, BL_API_OPENAI, BL_API_OPENAI_RESPONSES,
                                   BL_API_OLLAMA};

/* Answers with a value that belongs to the provider, and how it must be sent back. */
static const struct {
    enum bl_api api;
    const char *stream;
    const char *kept[3];
} opaques[] = {
    {BL_API_ANTHROPIC,
     "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":3,"
     "\"output_tokens\":1}}}\n\n"
     "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\","
     "\"thinking\":\"\",\"signature\":\"\"}}\n\n"
     "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\","
     "\"thinking\":\"Well \\u00e9\\n\"}}\n\n"
     "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\","
     "\"thinking\":\" so. \"}}\n\n"
     "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\","
     "\"signature\":\"EqQB/Cg+IYAh\"}}\n\n"
     "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\","
     "\"signature\":\"IM==\"}}\n\n"
     "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
     "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":"
     "\"redacted_thinking\",\"data\":\"EmwKAhgB/x==\"}}\n\n"
     "data: {\"type\":\"content_block_stop\",\"index\":1}\n\n"
     "data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\","
     "\"id\":\"call_1\",\"name\":\"list\",\"input\":{}}}\n\n"
     "data: {\"type\":\"content_block_stop\",\"index\":2}\n\n"
     "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{"
     "\"output_tokens\":9}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
     {"\"thinking\":\"Well \u00e9\\n so. \",\"signature\":\"EqQB/Cg+IYAhIM==\"",
      "{\"type\":\"redacted_thinking\",\"data\":\"EmwKAhgB/x==\"}"}},
    {BL_API_OPENAI,
     "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_2\",\"type\":"
     "\"function\",\"function\":{\"name\":\"list\",\"arguments\":\"{}\"},\"extra_content\":{"
     "\"google\":{\"thought_signature\":\"Q2lRQg==/+\"}}}]}}]}\n\n"
     "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n",
     {"\"extra_content\":{\"google\":{\"thought_signature\":\"Q2lRQg==/+\"}}"}},
    {BL_API_OPENAI_RESPONSES,
     "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"id\":\"rs_1\","
     "\"type\":\"reasoning\",\"summary\":[]}}\n\n"
     "data: {\"type\":\"response.reasoning_summary_text.delta\",\"output_index\":0,\"item_id\":"
     "\"rs_1\",\"summary_index\":0,\"delta\":\"First.\"}\n\n"
     "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"id\":\"rs_1\","
     "\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"First.\"}],"
     "\"encrypted_content\":\"gAAAAABo/+w==\"}}\n\n"
     "data: {\"type\":\"response.output_item.added\",\"output_index\":1,\"item\":{\"id\":\"fc_1\","
     "\"type\":\"function_call\",\"arguments\":\"\",\"call_id\":\"call_3\",\"name\":\"list\"}}\n\n"
     "data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"id\":\"fc_1\","
     "\"type\":\"function_call\",\"arguments\":\"{}\",\"call_id\":\"call_3\",\"name\":\"list\"}}"
     "\n\n"
     "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{"
     "\"input_tokens\":3,\"output_tokens\":9}}}\n\n",
     {"\"summary\":[{\"type\":\"summary_text\",\"text\":\"First.\"}]",
      "\"encrypted_content\":\"gAAAAABo/+w==\"", "\"rs_1\""}},
};

/* Sets the format from now on. */
static void speak(struct provided *provided, enum bl_api api)
{
    provided->provider.api = api;
    provided->provider.name = bl_api_name(api);
    if (provided->peer != NULL)
        provided_open(provided);
}

/* Checks that the request has everything that must be sent back, or none of it. */
static void check_kept(struct provided *provided, unsigned request, size_t index, bool there)
{
    struct bl_text body = peer_request_body(provided->peer, request);

    CHECK(body.size > 0);
    for (size_t i = 0; i < 3 && opaques[index].kept[i] != NULL; i++) {
        if (!CHECK(has(body, opaques[index].kept[i]) == there))
            fprintf(stderr, "request %u, %s: %s%s\n" BL_TEXT_FORMAT "\n", request,
                    bl_api_name(opaques[index].api), there ? "without " : "with ",
                    opaques[index].kept[i], BL_TEXT_ARG(body));
    }
}

/* Requests: 1 a call, its result, and an answer; 2 the next turn, from the file; 3 another
 * provider; 4 the first one again. */
static void come_back(struct provided *provided, size_t index)
{
    enum bl_api api = opaques[index].api;
    enum bl_api other = api == BL_API_OPENAI ? BL_API_ANTHROPIC : BL_API_OPENAI;

    provided_init(provided, api);
    provided_answer(provided, bl_text_from(opaques[index].stream));
    provided_hello(provided);
    provided_hello(provided);
    speak(provided, other);
    provided_hello(provided);
    speak(provided, api);
    provided_hello(provided);
    provided_open(provided);
    provided_store(provided);
    CHECK_EQUAL(provided_turn(provided, "First."), BL_TURN_COMPLETED);
    CHECK_EQUAL(provided->executions, 1);
    check_kept(provided, 1, index, true);
    provided_store(provided);
    CHECK_EQUAL(provided_turn(provided, "Second."), BL_TURN_COMPLETED);
    check_kept(provided, 2, index, true);
    speak(provided, other);
    CHECK_EQUAL(provided_turn(provided, "Third."), BL_TURN_COMPLETED);
    check_kept(provided, 3, index, false);
    speak(provided, api);
    provided_store(provided);
    CHECK_EQUAL(provided_turn(provided, "Fourth."), BL_TURN_COMPLETED);
    check_kept(provided, 4, index, true);
    /* Another model of the same provider. */
    provided->profile.model = "test-2";
    provided_open(provided);
    CHECK_EQUAL(provided_turn(provided, "Fifth."), BL_TURN_COMPLETED);
    check_kept(provided, 5, index, false);
    CHECK_EQUAL(peer_requests(provided->peer), 6);
    provided_done(provided);
}

static int signatures(void *argument BL_UNUSED)
{
    struct provided *provided = bl_alloc(sizeof *provided);

    for (size_t i = 0; i < BL_COUNT(opaques); i++)
        come_back(provided, i);
    bl_free(provided);
    return 0;
}

static void P36_opaque_values_are_sent_back_unchanged_only_to_their_model(void **state BL_UNUSED)
{
    run_in_loop(signatures, NULL);
}

/* ---- A checking server ----------------------------------------------------------------------- */

struct checking_server {
    struct bl_script *script;
    struct bl_script_server *server;
    unsigned answered;
    unsigned refused;
};

static void note(void *context, const struct bl_script_served *served)
{
    struct checking_server *checking = context;

    if (CHECK_EQUAL(served->status, 200))
        checking->answered++;
    else
        checking->refused++;
}

static void speak_at(struct provided *provided, enum bl_api api, uint16_t port)
{
    bool version = api == BL_API_OPENAI || api == BL_API_OPENAI_RESPONSES;
    char url[64];

    provided->provider.api = api;
    provided->provider.name = bl_api_name(api);
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", port, version ? "/v1" : "");
    provided_open_at(provided, url);
}

/* Starts a checking server; its script lives as long as it does. */
static void start_checking(struct provided *provided, struct checking_server *checking,
                           const char *source)
{
    struct bl_script_server_options options = {.journal = note, .context = checking};
    struct bl_error error = {0};

    provided_init(provided, BL_API_ANTHROPIC);
    CHECK_EQUAL(bl_script_parse(bl_text_from(source), "test", &checking->script, &error), 0);
    options.script = checking->script;
    CHECK_EQUAL(bl_script_server_start(&provided->nursery, &options, &checking->server, &error), 0);
    provided->profile.thinking = BL_EFFORT_LOW;
}

static void stop_checking(struct provided *provided, struct checking_server *checking)
{
    bl_remote_free(provided->remote);
    provided->remote = NULL;
    bl_script_server_stop(checking->server);
    CHECK_EQUAL(checking->refused, 0);
    provided_done(provided);
    bl_script_free(checking->script);
}

/* Runs a turn in each format after each other one, with the session read from the file every other
 * time. `room` 0: unlimited. Returns the number of turns. */
static unsigned speak_in_turn(struct provided *provided, const struct checking_server *checking,
                              uint64_t room)
{
    unsigned turns = 0;

    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        for (size_t j = 0; j < BL_COUNT(apis); j++) {
            if (turns % 2 == 0)
                provided_store(provided);
            speak_at(provided, apis[(i * j + j) % BL_COUNT(apis)],
                     bl_script_server_port(checking->server));
            provided->model.input_tokens_max = room;
            if (!CHECK_EQUAL(provided_turn(provided, "Continue."), BL_TURN_COMPLETED))
                fprintf(stderr, "%s: %s\n", provided->provider.name,
                        provided->result.error.message);
            CHECK(bl_text_equal(provided->result.output, BL_TEXT("Done.")));
            CHECK_EQUAL(provided->executions, 2 * ++turns);
        }
    }
    return turns;
}

#define TWO_CALLS                                                                                  \
    "  - {thinking: Let me see., say: Now., tools: [{name: count, input: {n: 1}}, {name: "         \
    "list}]}\n"

static int changes(void *argument BL_UNUSED)
{
    struct provided *provided = bl_alloc(sizeof *provided);
    struct checking_server checking = {0};

    start_checking(provided, &checking,
                   "replies:\n" TWO_CALLS "  - {thinking: So., say: Done.}\nrepeat: true\n");
    unsigned turns = speak_in_turn(provided, &checking, 0);
    stop_checking(provided, &checking);
    CHECK_EQUAL(checking.answered, 2 * turns);
    bl_free(provided);
    return 0;
}

static void P36_history_of_all_providers_is_accepted_by_each(void **state BL_UNUSED)
{
    run_in_loop(changes, NULL);
}

/* ---- Injected messages ----------------------------------------------------------------------- */

/* Injects two messages while the tools of an answer run, and counts their events. */
struct interloper {
    struct provided *provided;
    struct bl_listener inner;
    struct bl_inbox inbox;
    unsigned delivered;
    unsigned compacted;
};

static void hear_and_say(void *context, const struct bl_event *event)
{
    struct interloper *interloper = context;

    interloper->inner.event(interloper->inner.context, event);
    if (event->type == BL_EVENT_TOOL_STARTED)
        CHECK_EQUAL(bl_inbox_put(&interloper->inbox, BL_TEXT("By the way."), NULL), 0);
    interloper->delivered += event->type == BL_EVENT_MESSAGE_INJECTED;
    interloper->compacted += event->type == BL_EVENT_COMPACTED;
}

static int in_between(void *argument BL_UNUSED)
{
    struct provided *provided = bl_alloc(sizeof *provided);
    struct checking_server checking = {0};
    struct interloper interloper = {.provided = provided};

    start_checking(provided, &checking,
                   "replies:\n  - {when: Summarize it, say: In short.}\n" TWO_CALLS
                   "  - {thinking: So., say: Done.}\nrepeat: true\n");
    interloper.inner = provided->listener;
    bl_inbox_init(&interloper.inbox);
    provided->listener = (struct bl_listener){hear_and_say, &interloper};
    provided->engine.inbox = &interloper.inbox;
    provided->offers[0].parallel = provided->offers[1].parallel = true;
    unsigned turns = speak_in_turn(provided, &checking, 50);
    CHECK(provided->session.summary != NULL);
    stop_checking(provided, &checking);
    CHECK_EQUAL(interloper.delivered, 2 * turns);
    CHECK_EQUAL(interloper.compacted, turns - 1);
    CHECK_EQUAL(checking.answered, 2 * turns + interloper.compacted);
    CHECK(bl_list_empty(&interloper.inbox.waiting));
    bl_free(provided);
    return 0;
}

static void messages_in_between_parallel_calls_and_summaries_are_taken_by_each(
    void **state BL_UNUSED)
{
    run_in_loop(in_between, NULL);
}

SUITE(history, cmocka_unit_test(P36_opaque_values_are_sent_back_unchanged_only_to_their_model),
      cmocka_unit_test(P36_history_of_all_providers_is_accepted_by_each),
      cmocka_unit_test(messages_in_between_parallel_calls_and_summaries_are_taken_by_each));
