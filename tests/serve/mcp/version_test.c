/* The version of a request, and what surrounds its answer. */
#include "mcp_rig.h"

#define SAYS "replies: [{say: ok}]\nrepeat: true\n"

static void versions_have_names(void **state BL_UNUSED)
{
    for (int i = MCP_2026_07_28; i < MCP_UNKNOWN_VERSION; i++)
        assert_int_equal(mcp_version_parse(bl_text_from(mcp_version_name((enum mcp_version)i))), i);
    assert_int_equal(mcp_version_parse(BL_TEXT("2024-11-05")), MCP_UNKNOWN_VERSION);
    assert_int_equal(mcp_version_parse(BL_TEXT("")), MCP_UNKNOWN_VERSION);
    assert_string_equal(mcp_version_name(MCP_UNKNOWN_VERSION), "unknown");
}

static void initialize(struct mcp_rig *rig, const char *asked_for, const char *expected)
{
    char params[160];

    snprintf(params, sizeof params,
             "{'protocolVersion':'%s','capabilities':{},'clientInfo':{'name':'t','version':'0'}}",
             asked_for);
    struct asked *asked = answer_to(rig, "initialize", params);
    CHECK(asked_is(asked, "/protocolVersion", expected));
    CHECK(asked_is(asked, "/serverInfo/name", "belay"));
    CHECK(asked_is(asked, "/serverInfo/version", "1.2.3"));
    CHECK(
        bl_json_is(bl_json_pointer(asked->result, BL_TEXT("/capabilities/tools")), BL_JSON_OBJECT));
    CHECK(bl_json_get(asked->result, BL_TEXT("resultType")) == NULL);
    CHECK(bl_json_get(asked->result, BL_TEXT("_meta")) == NULL);
    CHECK_EQUAL(rig->peer.version, mcp_version_parse(bl_text_from(expected)));
    asked_done(asked);
}

MCP_RIG(handshake_agrees_on_a_supported_version_or_on_the_newest, SAYS)
{
    initialize(rig, "2025-06-18", "2025-06-18");
    initialize(rig, "2025-11-25", "2025-11-25");
    initialize(rig, "2024-11-05", "2025-11-25");
    initialize(rig, "9999-99-99", "2025-11-25");
    initialize(rig, "2026-07-28", "2025-11-25");
    CHECK(!rig->peer.initialized);
    mcp_notification(&rig->peer, BL_TEXT("notifications/unheard-of"), NULL);
    CHECK(!rig->peer.initialized);
    mcp_notification(&rig->peer, BL_TEXT("notifications/initialized"), NULL);
    CHECK(rig->peer.initialized);
}

static void expect(struct mcp_rig *rig, const char *method, const char *params, int code,
                   const char *path)
{
    struct asked *asked = answer_to(rig, method, params);

    CHECK(asked_failed(asked, code, path));
    CHECK(asked->reply.message.size > 0);
    asked_done(asked);
}

#define META(members)   "{'_meta':{" members "}}"
#define VERSION(name)   "'io.modelcontextprotocol/protocolVersion':" name
#define NO_CAPABILITIES "'io.modelcontextprotocol/clientCapabilities':{}"

MCP_RIG(request_without_a_version_or_capabilities_is_refused_with_the_path, SAYS)
{
    const char *version = "/_meta/io.modelcontextprotocol~1protocolVersion";
    const char *capabilities = "/_meta/io.modelcontextprotocol~1clientCapabilities";

    expect(rig, "tools/list", NULL, BL_RPC_INVALID_PARAMS, version);
    expect(rig, "server/discover", "{}", BL_RPC_INVALID_PARAMS, version);
    expect(rig, "server/discover", META(NO_CAPABILITIES), BL_RPC_INVALID_PARAMS, version);
    expect(rig, "server/discover", META(VERSION("7")), BL_RPC_INVALID_PARAMS, version);
    expect(rig, "server/discover", META(VERSION("'2026-07-28'")), BL_RPC_INVALID_PARAMS,
           capabilities);
    expect(rig, "server/discover",
           META(VERSION("'2026-07-28'") ",'io.modelcontextprotocol/clientCapabilities':[]"),
           BL_RPC_INVALID_PARAMS, capabilities);
    expect(rig, "tools/list", "[1]", BL_RPC_INVALID_PARAMS, "");
    expect(rig, "initialize", "{}", BL_RPC_INVALID_PARAMS, "/protocolVersion");
    expect(rig, "initialize", "{'protocolVersion':3}", BL_RPC_INVALID_PARAMS, "/protocolVersion");
    expect(rig, "initialize", "{'protocolVersion':'2025-11-25','capabilities':3}",
           BL_RPC_INVALID_PARAMS, "/capabilities");
    CHECK_EQUAL(rig->peer.version, MCP_UNKNOWN_VERSION);
}

MCP_RIG(unknown_version_is_answered_with_the_supported_ones, SAYS)
{
    struct asked *asked =
        answer_to(rig, "tools/list", META(VERSION("'1900-01-01'") "," NO_CAPABILITIES));

    CHECK_EQUAL(asked->reply.code, -32022);
    CHECK(bl_text_equal(asked->reply.data,
                        BL_TEXT("{\"supported\":[\"2026-07-28\",\"2025-11-25\",\"2025-06-18\"],"
                                "\"requested\":\"1900-01-01\"}")));
    asked_done(asked);
}

MCP_RIG(M3_current_results_state_their_type, SAYS)
{
    struct asked *asked = answer_to(rig, "server/discover", "{" NOW_META "}");
    int64_t ttl = 0;

    CHECK(asked_is(asked, "/resultType", "complete"));
    CHECK(asked_is(asked, "/_meta/io.modelcontextprotocol~1serverInfo/name", "belay"));
    CHECK(asked_is(asked, "/supportedVersions/0", "2026-07-28"));
    CHECK(asked_is(asked, "/supportedVersions/2", "2025-06-18"));
    CHECK(asked_is(asked, "/cacheScope", "public"));
    CHECK(bl_json_int64(bl_json_get(asked->result, BL_TEXT("ttlMs")), &ttl) && ttl > 0);
    CHECK(bl_json_is(bl_json_pointer(asked->result, BL_TEXT("/capabilities/extensions/"
                                                            "io.modelcontextprotocol~1tasks")),
                     BL_JSON_OBJECT));
    asked_done(asked);
    /* On the same connection, after a handshake with another version. */
    initialize(rig, "2025-06-18", "2025-06-18");
    asked = answer_to(rig, "tools/list", "{" NOW_META "}");
    CHECK(asked_is(asked, "/resultType", "complete"));
    CHECK(asked_is(asked, "/cacheScope", "public"));
    CHECK_EQUAL(bl_json_size(bl_json_get(asked->result, BL_TEXT("tools"))), 5);
    asked_done(asked);
    asked = answer_to(rig, "tools/list", NULL);
    CHECK(bl_json_get(asked->result, BL_TEXT("resultType")) == NULL);
    CHECK(bl_json_get(asked->result, BL_TEXT("ttlMs")) == NULL);
    CHECK_EQUAL(bl_json_size(bl_json_get(asked->result, BL_TEXT("tools"))), 5);
    asked_done(asked);
    asked = answer_to(rig, "ping", NULL);
    CHECK(bl_text_equal(asked->reply.result, BL_TEXT("{}")));
    asked_done(asked);
}

MCP_RIG(methods_of_another_era_are_unknown, SAYS)
{
    expect(rig, "ping", "{" NOW_META "}", BL_RPC_NO_METHOD, NULL);
    expect(rig, "tasks/list", "{" TASK_META "}", BL_RPC_NO_METHOD, NULL);
    expect(rig, "tasks/result", "{" TASK_META "}", BL_RPC_NO_METHOD, NULL);
    expect(rig, "resources/list", "{" NOW_META "}", BL_RPC_NO_METHOD, NULL);
    initialize(rig, "2025-11-25", "2025-11-25");
    expect(rig, "tasks/get", "{'taskId':'x'}", BL_RPC_NO_METHOD, NULL);
    expect(rig, "server/discover", NULL, BL_RPC_NO_METHOD, NULL);
    expect(rig, "prompts/list", NULL, BL_RPC_NO_METHOD, NULL);
}

/* Calls are checked against these schemas, and a client may compile them. */
MCP_RIG(M3_schemas_of_tools_compile, SAYS)
{
    struct asked *asked = answer_to(rig, "tools/list", "{" NOW_META "}");
    static const char *const names[] = {"run", "exec", "wait", "terminate", "cancel"};
    static const char *const members[] = {"inputSchema", "outputSchema"};
    size_t count = 0;

    BL_JSON_EACH (tool, bl_json_get(asked->result, BL_TEXT("tools"))) {
        CHECK(bl_text_equal(bl_json_text(bl_json_get(tool, BL_TEXT("name"))),
                            bl_text_from(names[count++])));
        for (size_t i = 0; i < BL_COUNT(members); i++) {
            const struct bl_json *source = bl_json_get(tool, bl_text_from(members[i]));
            struct bl_json_schema *schema = NULL;
            CHECK(bl_text_equal(bl_json_text(bl_json_get(source, BL_TEXT("type"))),
                                BL_TEXT("object")));
            CHECK_EQUAL(bl_json_schema_new(source, &schema, &rig->error), 0);
            CHECK_EQUAL(bl_json_schema_ignored(schema, 0).size, 0);
            bl_json_schema_free(schema);
        }
    }
    CHECK_EQUAL(count, 5);
    asked_done(asked);
    expect(rig, "tools/list", "{" NOW_META ",'cursor':'2'}", BL_RPC_INVALID_PARAMS, "/cursor");
}

SUITE(mcp_version, cmocka_unit_test(versions_have_names),
      cmocka_unit_test(handshake_agrees_on_a_supported_version_or_on_the_newest),
      cmocka_unit_test(request_without_a_version_or_capabilities_is_refused_with_the_path),
      cmocka_unit_test(unknown_version_is_answered_with_the_supported_ones),
      cmocka_unit_test(M3_current_results_state_their_type),
      cmocka_unit_test(methods_of_another_era_are_unknown),
      cmocka_unit_test(M3_schemas_of_tools_compile));
