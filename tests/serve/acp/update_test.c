/* The updates that a client gets for the events of a turn: the exact lines. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fibers.h"
#include "serve/acp/acp.h"

#define MS BL_NS_PER_MS

/* A session without an agent, on a connection of its own. */
struct scene {
    struct bl_acp_options options;
    struct acp acp;
    struct acp_session session;
    struct bl_nursery nursery;
    int fds[2]; /* belay's end, and the client's */
    struct bl_buffer read;
    char line[65536];
};

static void scene_init(struct scene *scene)
{
    struct bl_rpc_options connection = {.origin = "test"};
    struct bl_error error = {0};

    *scene = (struct scene){.acp.options = &scene->options};
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, scene->fds), 0);
    bl_buffer_init(&scene->read, 1 << 24);
    bl_nursery_init(&scene->nursery, bl_scope_current());
    connection.in = connection.out = scene->fds[0];
    CHECK_EQUAL(bl_rpc_open(&scene->nursery, &connection, &scene->acp.rpc, &error), 0);
    scene->acp.takes_notices = scene->acp.takes_compactions = true;
    scene->session.acp = &scene->acp;
    scene->session.directory = "/w";
    bl_text_into(scene->session.id, sizeof scene->session.id, "s-1");
    bl_list_init(&scene->session.calls);
    bl_map_init(&scene->session.call_ids);
}

static void scene_done(struct scene *scene)
{
    acp_calls_free(&scene->session);
    bl_rpc_close(scene->acp.rpc, 0);
    bl_nursery_done(&scene->nursery);
    bl_map_done(&scene->session.call_ids);
    bl_buffer_done(&scene->read);
    close(scene->fds[0]);
    close(scene->fds[1]);
}

/* Returns the next line that the client gets, or "" if none arrives. */
static const char *next_line(struct scene *scene, uint64_t wait_ns)
{
    uint64_t until_ns = bl_now_ns() + wait_ns;
    const char *end;
    char data[4096];

    while ((end = scene->read.size > 0 ? memchr(scene->read.data, '\n', scene->read.size) : NULL) ==
           NULL) {
        ssize_t size = recv(scene->fds[1], data, sizeof data, 0);
        if (size > 0)
            bl_buffer_append(&scene->read, (struct bl_text){data, (size_t)size});
        else if (bl_now_ns() >= until_ns)
            return "";
        else
            bl_sleep(MS);
    }
    size_t size = (size_t)(end - scene->read.data);
    CHECK(size < sizeof scene->line);
    memcpy(scene->line, scene->read.data, size);
    scene->line[size] = '\0';
    bl_buffer_consume(&scene->read, size + 1);
    return scene->line;
}

#define HEAD                                                                                       \
    "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s-1\","        \
    "\"update\":{\"sessionUpdate\":"

/* Checks that the next line is this update. */
static void expect(struct scene *scene, const char *update)
{
    char whole[16384];
    const char *line = next_line(scene, 20 * BL_NS_PER_S);

    snprintf(whole, sizeof whole, HEAD "%s}}}", update);
    if (!CHECK(strcmp(line, whole) == 0))
        fprintf(stderr, "%s\nis not\n%s\n", line, whole);
}

static void expect_nothing(struct scene *scene)
{
    const char *line = next_line(scene, 20 * MS);
    if (!CHECK(line[0] == '\0'))
        fprintf(stderr, "%s\n", line);
}

static void tell(struct scene *scene, struct bl_event event)
{
    acp_on_event(&scene->session, &event);
}

static void request(struct scene *scene, const char *id, const char *name, const char *input)
{
    tell(scene, (struct bl_event){.type = BL_EVENT_TOOL_REQUESTED,
                                  .id = bl_text_from(id),
                                  .name = bl_text_from(name),
                                  .json = bl_text_from(input)});
}

static void end(struct scene *scene, const char *id, const char *status, const char *text)
{
    tell(scene, (struct bl_event){.type = BL_EVENT_TOOL_ENDED,
                                  .id = bl_text_from(id),
                                  .status = status,
                                  .text = bl_text_from(text)});
}

/* Each test runs one scene in a fiber. */
#define SCENE(name)                                                                                \
    static void name##_scene(struct scene *scene);                                                 \
    static int name##_main(void *argument BL_UNUSED)                                               \
    {                                                                                              \
        struct scene *scene = bl_alloc(sizeof *scene);                                             \
        scene_init(scene);                                                                         \
        name##_scene(scene);                                                                       \
        scene_done(scene);                                                                         \
        bl_free(scene);                                                                            \
        return 0;                                                                                  \
    }                                                                                              \
    static void name(void **state BL_UNUSED)                                                       \
    {                                                                                              \
        run_in_loop(name##_main, NULL);                                                            \
    }                                                                                              \
    static void name##_scene(struct scene *scene)

/* ---- Text ------------------------------------------------------------------------------------ */

static void say(struct scene *scene, enum bl_event_type type, const char *text)
{
    tell(scene, (struct bl_event){.type = type, .text = bl_text_from(text)});
}

SCENE(text_is_sent_in_pieces_of_a_message)
{
    say(scene, BL_EVENT_THINKING_DELTA, "hm\n");
    say(scene, BL_EVENT_TEXT_DELTA, "one \"two\"");
    expect(scene, "\"agent_thought_chunk\",\"messageId\":\"msg_1\",\"content\":{\"type\":\"text\","
                  "\"text\":\"hm\\n\"}");
    expect(scene, "\"agent_message_chunk\",\"messageId\":\"msg_1\",\"content\":{\"type\":\"text\","
                  "\"text\":\"one \\\"two\\\"\"}");
    /* A new turn starts a new message; a sub-agent's text is not part of it. */
    tell(scene, (struct bl_event){.type = BL_EVENT_TURN_STARTED});
    tell(scene,
         (struct bl_event){.type = BL_EVENT_TEXT_DELTA, .agent = "a-1", .text = BL_TEXT("below")});
    say(scene, BL_EVENT_MESSAGE_INJECTED, "stop that");
    say(scene, BL_EVENT_TEXT_DELTA, "ok");
    expect(scene, "\"user_message_chunk\",\"messageId\":\"msg_2\",\"content\":{\"type\":\"text\","
                  "\"text\":\"stop that\"}");
    expect(scene, "\"agent_message_chunk\",\"messageId\":\"msg_3\",\"content\":{\"type\":\"text\","
                  "\"text\":\"ok\"}");
    expect_nothing(scene);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void every_tool_has_its_kind(void **state BL_UNUSED)
{
    static const char *const kinds[][2] = {
        {"bash", "execute"},    {"exec", "execute"}, {"wait", "execute"}, {"read", "read"},
        {"ls", "read"},         {"write", "edit"},   {"edit", "edit"},    {"glob", "search"},
        {"grep", "search"},     {"fetch", "fetch"},  {"todo", "think"},   {"task", "think"},
        {"mcp__a__b", "other"},
    };

    for (size_t i = 0; i < BL_COUNT(kinds); i++)
        assert_string_equal(acp_tool_kind(bl_text_from(kinds[i][0])), kinds[i][1]);
}

SCENE(a_call_is_announced_started_and_ended_once)
{
    request(scene, "call_1", "bash", "{\"command\":\"ls -l\\nrm x\"}");
    expect(scene,
           "\"tool_call\",\"toolCallId\":\"call_1\",\"status\":\"pending\",\"title\":\"ls -l\","
           "\"name\":\"bash\",\"kind\":\"execute\",\"rawInput\":{\"command\":\"ls -l\\nrm x\"}");
    tell(scene, (struct bl_event){.type = BL_EVENT_TOOL_STARTED, .id = BL_TEXT("call_1")});
    expect(scene, "\"tool_call_update\",\"toolCallId\":\"call_1\",\"status\":\"in_progress\"");
    end(scene, "call_1", "ok", "out\n");
    expect(scene,
           "\"tool_call_update\",\"toolCallId\":\"call_1\",\"status\":\"completed\","
           "\"rawOutput\":\"out\\n\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":"
           "\"text\",\"text\":\"out\\n\"}}]");
    /* Events after the end belong to no call. */
    end(scene, "call_1", "ok", "again");
    tell(scene, (struct bl_event){.type = BL_EVENT_TOOL_STARTED, .id = BL_TEXT("other")});
    acp_end_calls(&scene->session);
    expect_nothing(scene);
    /* Models count from the start again; the client does not. */
    request(scene, "call_1", "read", "{\"path\":\"src/a.c\"}");
    expect(scene,
           "\"tool_call\",\"toolCallId\":\"call_1.2\",\"status\":\"pending\",\"title\":\"read "
           "src/a.c\",\"name\":\"read\",\"kind\":\"read\",\"rawInput\":{\"path\":\"src/a.c\"},"
           "\"locations\":[{\"path\":\"/w/src/a.c\"}]");
    acp_end_calls(&scene->session);
    expect(scene, "\"tool_call_update\",\"toolCallId\":\"call_1.2\",\"status\":\"failed\","
                  "\"rawOutput\":\"\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":"
                  "\"text\",\"text\":\"\"}}]");
}

SCENE(an_edit_shows_its_diff)
{
    request(scene, "c", "edit",
            "{\"path\":\"/w/a\",\"old_string\":\"x\\n\",\"new_string\":\"y\\n\"}");
    expect(scene,
           "\"tool_call\",\"toolCallId\":\"c\",\"status\":\"pending\",\"title\":\"edit /w/a\","
           "\"name\":\"edit\",\"kind\":\"edit\",\"rawInput\":{\"path\":\"/w/a\","
           "\"old_string\":\"x\\n\",\"new_string\":\"y\\n\"},\"locations\":[{\"path\":\"/w/a\"}],"
           "\"content\":[{\"type\":\"diff\",\"path\":\"/w/a\",\"oldText\":\"x\\n\",\"newText\":"
           "\"y\\n\"}]");
    end(scene, "c", "ok", "done");
    /* Its text would replace the diff. */
    expect(scene,
           "\"tool_call_update\",\"toolCallId\":\"c\",\"status\":\"completed\",\"rawOutput\":"
           "\"done\"");
    request(scene, "d", "write", "{\"path\":\"b\",\"content\":\"new\"}");
    expect(scene, "\"tool_call\",\"toolCallId\":\"d\",\"status\":\"pending\",\"title\":\"write b\","
                  "\"name\":\"write\",\"kind\":\"edit\",\"rawInput\":{\"path\":\"b\",\"content\":"
                  "\"new\"},\"locations\":[{\"path\":\"/w/b\"}],\"content\":[{\"type\":\"diff\","
                  "\"path\":\"/w/b\",\"oldText\":null,\"newText\":\"new\"}]");
    end(scene, "d", "denied", "no");
    expect(scene,
           "\"tool_call_update\",\"toolCallId\":\"d\",\"status\":\"failed\",\"rawOutput\":"
           "\"no\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":"
           "\"no\"}}]");
}

SCENE(an_invalid_call_is_announced_too)
{
    request(scene, "c", "nothing", "");
    const char *line = next_line(scene, 20 * BL_NS_PER_S);
    CHECK(strstr(line, "\"title\":\"nothing\",\"name\":\"nothing\",\"kind\":\"other\",") != NULL);
    end(scene, "c", "invalid", "there is no tool 'nothing'");
    CHECK(strstr(next_line(scene, 20 * BL_NS_PER_S), "\"status\":\"failed\"") != NULL);
}

SCENE(calls_of_agents_are_distinguished)
{
    struct bl_event event = {.type = BL_EVENT_TOOL_REQUESTED,
                             .id = BL_TEXT("call_1"),
                             .name = BL_TEXT("ls"),
                             .json = BL_TEXT("{}")};

    tell(scene, event);
    event.agent = "a-1";
    tell(scene, event);
    CHECK(strstr(next_line(scene, 20 * BL_NS_PER_S), "\"toolCallId\":\"call_1\"") != NULL);
    CHECK(strstr(next_line(scene, 20 * BL_NS_PER_S), "\"toolCallId\":\"a-1/call_1\"") != NULL);
    end(scene, "call_1", "ok", "");
    CHECK(strstr(next_line(scene, 20 * BL_NS_PER_S), "\"toolCallId\":\"call_1\"") != NULL);
    CHECK(acp_call_find(&scene->session, BL_TEXT("a-1/call_1")) != NULL);
    CHECK(acp_call_find(&scene->session, BL_TEXT("call_1")) == NULL);
}

static void print(struct scene *scene, const char *text)
{
    tell(scene, (struct bl_event){
                    .type = BL_EVENT_TOOL_OUTPUT, .id = BL_TEXT("c"), .text = bl_text_from(text)});
}

SCENE(output_is_replaced_ten_times_a_second_at_most)
{
    unsigned told = 0;

    request(scene, "c", "bash", "{\"command\":\"x\"}");
    next_line(scene, 20 * BL_NS_PER_S);
    uint64_t from_ns = bl_now_ns();
    for (unsigned i = 0; i < 100; i++) {
        print(scene, "x");
        bl_sleep(MS);
        acp_flush_output(&scene->session);
    }
    bl_sleep(120 * MS);
    acp_flush_output(&scene->session);
    uint64_t most = (bl_now_ns() - from_ns) / (100 * MS) + 1;
    while (next_line(scene, 20 * MS)[0] != '\0')
        told++;
    CHECK(told >= 2 && told <= most);
    /* The last one had all of it, not only what was new. */
    char all[101];
    memset(all, 'x', 100);
    all[100] = '\0';
    CHECK(strstr(scene->line, all) != NULL);
    end(scene, "c", "ok", all);
    CHECK(strstr(next_line(scene, 20 * BL_NS_PER_S), all) != NULL);
}

SCENE(the_end_of_long_output_is_shown_cut_at_a_character)
{
    struct bl_buffer text;

    bl_buffer_init(&text, 1 << 20);
    for (unsigned i = 0; i < 20000; i++)
        bl_buffer_append(&text, BL_TEXT("\xe2\x82\xac"));
    bl_buffer_append(&text, (struct bl_text){"end", 4});
    request(scene, "c", "bash", "{\"command\":\"x\"}");
    next_line(scene, 20 * BL_NS_PER_S);
    print(scene, text.data);
    const char *line = next_line(scene, 20 * BL_NS_PER_S);
    CHECK(strlen(line) < ACP_OUTPUT_MAX + 1024);
    CHECK(strstr(line, "\xe2\x82\xac\x65nd\"}}]") != NULL);
    CHECK(bl_utf8_valid(bl_text_from(line)));
    bl_buffer_done(&text);
}

#define UNIT(id, fate) "{\"kind\":\"tool\",\"id\":\"" id "\",\"fate\":\"" fate "\"}"

SCENE(a_call_that_was_stopped_has_its_fate_from_the_receipt)
{
    request(scene, "c", "bash", "{\"command\":\"x\"}");
    request(scene, "d", "bash", "{\"command\":\"y\"}");
    next_line(scene, 20 * BL_NS_PER_S);
    next_line(scene, 20 * BL_NS_PER_S);
    end(scene, "c", "stopped", "half");
    expect_nothing(scene);
    end(scene, "d", "ok", "won");
    CHECK(strstr(next_line(scene, 20 * BL_NS_PER_S), "\"status\":\"completed\"") != NULL);
    scene->acp.takes_notices = false;
    tell(scene, (struct bl_event){.type = BL_EVENT_RECEIPT,
                                  .json = BL_TEXT("{\"units\":[{\"id\":\"turn\",\"fate\":\"x\","
                                                  "\"units\":[" UNIT("c", "killed") "]}]}")});
    expect(scene, "\"tool_call_update\",\"toolCallId\":\"c\",\"status\":\"failed\",\"rawOutput\":"
                  "\"half\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\","
                  "\"text\":\"half\"}}],\"_meta\":{\"belay/fate\":\"killed\"}");
    expect_nothing(scene);
}

SCENE(a_call_that_was_stopped_alone_ends_with_its_own_receipt)
{
    request(scene, "c", "bash", "{\"command\":\"x\"}");
    next_line(scene, 20 * BL_NS_PER_S);
    scene->acp.takes_notices = false;
    tell(scene, (struct bl_event){.type = BL_EVENT_RECEIPT,
                                  .id = BL_TEXT("c"),
                                  .json = BL_TEXT("{\"units\":[" UNIT("c", "terminated") "]}")});
    expect_nothing(scene);
    end(scene, "c", "stopped", "half");
    CHECK(strstr(next_line(scene, 20 * BL_NS_PER_S), "\"_meta\":{\"belay/fate\":\"terminated\"}") !=
          NULL);
}

SCENE(a_todo_list_is_a_plan)
{
    request(scene, "c", "todo",
            "{\"todos\":[{\"content\":\"one\",\"status\":\"completed\"},{\"content\":\"two\","
            "\"status\":\"pending\"}]}");
    next_line(scene, 20 * BL_NS_PER_S);
    end(scene, "c", "ok", "kept");
    expect(scene, "\"plan\",\"entries\":[{\"content\":\"one\",\"priority\":\"medium\",\"status\":"
                  "\"completed\"},{\"content\":\"two\",\"priority\":\"medium\",\"status\":"
                  "\"pending\"}]");
    CHECK(strstr(next_line(scene, 20 * BL_NS_PER_S), "\"status\":\"completed\"") != NULL);
}

/* ---- Other updates --------------------------------------------------------------------------- */

static void tell_rest(struct scene *scene)
{
    struct bl_piece piece = {
        .retry = {.attempt = 1, .of = 4, .wait_ms = 500, .code = "overloaded"}};
    struct bl_error error = {.message = "it broke"};

    tell(scene, (struct bl_event){.type = BL_EVENT_WARNING, .text = BL_TEXT("careful")});
    tell(scene, (struct bl_event){.type = BL_EVENT_ERROR, .error = &error});
    tell(scene, (struct bl_event){.type = BL_EVENT_RETRY, .piece = &piece});
    tell(scene, (struct bl_event){.type = BL_EVENT_COMPACTED, .count = 3});
}

SCENE(notices_are_sent_to_clients_that_support_them)
{
    static const char *const parts[] = {
        "\"notice\",\"severity\":\"warning\",\"title\":\"careful\",\"_meta\":{\"belay/event\":",
        "\"notice\",\"severity\":\"error\",\"title\":\"it broke\",\"_meta\":{\"belay/event\":",
        "\"notice\",\"severity\":\"warning\",\"title\":\"Retrying the model call (1 of 4) in "
        "500 ms: overloaded\",\"_meta\":{\"belay/event\":",
        "\"compaction_update\",\"compactionId\":\"compaction_1\",\"status\":\"completed\""};

    tell_rest(scene);
    for (size_t i = 0; i < BL_COUNT(parts); i++)
        CHECK(strstr(next_line(scene, 20 * BL_NS_PER_S), parts[i]) != NULL);
    scene->acp.takes_notices = scene->acp.takes_compactions = false;
    tell_rest(scene);
    expect_nothing(scene);
    scene->acp.takes_notices = scene->acp.takes_compactions = true;
    scene->options.minimal = true;
    tell_rest(scene);
    expect_nothing(scene);
}

SUITE(acp_update, cmocka_unit_test(text_is_sent_in_pieces_of_a_message),
      cmocka_unit_test(every_tool_has_its_kind),
      cmocka_unit_test(a_call_is_announced_started_and_ended_once),
      cmocka_unit_test(an_edit_shows_its_diff), cmocka_unit_test(an_invalid_call_is_announced_too),
      cmocka_unit_test(calls_of_agents_are_distinguished),
      cmocka_unit_test(output_is_replaced_ten_times_a_second_at_most),
      cmocka_unit_test(the_end_of_long_output_is_shown_cut_at_a_character),
      cmocka_unit_test(a_call_that_was_stopped_has_its_fate_from_the_receipt),
      cmocka_unit_test(a_call_that_was_stopped_alone_ends_with_its_own_receipt),
      cmocka_unit_test(a_todo_list_is_a_plan),
      cmocka_unit_test(notices_are_sent_to_clients_that_support_them));
