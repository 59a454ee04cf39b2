/* The start of a connection: the protocol version of a server, and its capabilities. */
#include <stdio.h>

#include "mcp.h"

#define OPERATION "connect to an MCP server"
/* Error codes of 2026-07-28: a server that uses them knows that version. */
#define HEADER_MISMATCH     (-32020)
#define CAPABILITY_MISSING  (-32021)
#define UNSUPPORTED_VERSION (-32022)

/* The versions that begin with `initialize`, newest first. */
static const char *const legacy_versions[] = {MCP_LEGACY, "2025-06-18", "2025-03-26", "2024-11-05",
                                              NULL};

static const char *known_legacy(struct bl_text version)
{
    for (size_t i = 0; legacy_versions[i] != NULL; i++)
        if (bl_text_equal(version, bl_text_from(legacy_versions[i])))
            return legacy_versions[i];
    return NULL;
}

static bool lists(const struct bl_json *versions, const char *wanted)
{
    BL_JSON_EACH (version, versions)
        if (bl_text_equal(bl_json_text(version), bl_text_from(wanted)))
            return true;
    return false;
}

/* Returns the newest older version in the list, or NULL if there is none. */
static const char *newest_legacy(const struct bl_json *versions)
{
    for (size_t i = 0; legacy_versions[i] != NULL; i++)
        if (lists(versions, legacy_versions[i]))
            return legacy_versions[i];
    return NULL;
}

static void take_capabilities(struct mcp_server *server, const struct bl_json *result)
{
    server->lists_changes =
        bl_json_boolean(bl_json_pointer(result, BL_TEXT("/capabilities/tools/listChanged")), false);
}

/* ---- 2026-07-28 ------------------------------------------------------------------------------ */

/* Results of server/discover. */
enum discovered {
    DISCOVERED_MODERN,
    DISCOVERED_LEGACY,  /* it does not know the method, or does not answer in time */
    DISCOVERED_VERSION, /* it knows it, and speaks an older version */
    DISCOVERED_AGAIN,   /* it lists our version as supported: ask again */
    DISCOVERED_NOTHING, /* it cannot be used, or a stop came */
};

static enum discovered judge_failure(struct mcp_server *server, int code,
                                     const struct bl_rpc_failure *failure, const char **ret_version,
                                     struct bl_error *error)
{
    const struct bl_json *supported = bl_json_get(failure->data, BL_TEXT("supported"));
    if (code != BL_EREFUSED ||
        (failure->code != UNSUPPORTED_VERSION && failure->code != HEADER_MISMATCH &&
         failure->code != CAPABILITY_MISSING))
        return DISCOVERED_LEGACY;
    if (failure->code == UNSUPPORTED_VERSION && lists(supported, MCP_MODERN))
        return DISCOVERED_AGAIN;
    *ret_version = newest_legacy(supported);
    if (failure->code == UNSUPPORTED_VERSION && *ret_version != NULL)
        return DISCOVERED_VERSION;
    bl_error_set(error, BL_ENOTSUP, BL_KIND_MCP, OPERATION, server->entry->name,
                 "it rejects our protocol version: " BL_TEXT_FORMAT,
                 BL_TEXT_ARG(bl_utf8_cut(failure->message, 200)));
    return DISCOVERED_NOTHING;
}

static enum discovered judge_result(struct mcp_server *server, const struct bl_json *result,
                                    const char **ret_version, struct bl_error *error)
{
    const struct bl_json *versions = bl_json_get(result, BL_TEXT("supportedVersions"));
    if (lists(versions, MCP_MODERN)) {
        take_capabilities(server, result);
        server->protocol = MCP_MODERN;
        return DISCOVERED_MODERN;
    }
    *ret_version = newest_legacy(versions);
    if (*ret_version != NULL)
        return DISCOVERED_VERSION;
    /* A server that answers every method with an empty result speaks an older version. */
    if (!bl_json_is(versions, BL_JSON_ARRAY))
        return DISCOVERED_LEGACY;
    bl_error_set(error, BL_ENOTSUP, BL_KIND_MCP, OPERATION, server->entry->name,
                 "it supports none of our protocol versions");
    return DISCOVERED_NOTHING;
}

static enum discovered discover(struct mcp_server *server, uint64_t limit_ns,
                                const char **ret_version, struct bl_error *error)
{
    struct bl_scope limited, *outer = bl_scope_current();
    struct bl_error own = {0};
    struct bl_rpc_failure failure = {0};
    const struct bl_json *result = NULL;
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(params, SIZE_MAX);
    BL_AUTO_ARENA(arena);
    enum discovered discovered;
    server->modern = true;
    bl_json_writer_init(&writer, &params);
    mcp_server_params(server, &writer, 0);
    bl_json_write_end(&writer);
    struct mcp_request request = {.method = "server/discover", .params = bl_buffer_text(&params)};
    bl_limit_begin(&limited, limit_ns);
    int code = mcp_server_ask(server, &request, &arena, &result, &failure, &own);
    bl_limit_end(&limited);
    if (code == 0) {
        discovered = judge_result(server, result, ret_version, error);
    } else if (bl_scope_check(outer) != 0 || code == BL_EPIPE || code == BL_EIO) {
        *error = own;
        bl_error_set(error, code, BL_KIND_MCP, OPERATION, server->entry->name, "%s",
                     bl_error_text(code));
        discovered = DISCOVERED_NOTHING;
    } else {
        discovered = judge_failure(server, code, &failure, ret_version, error);
    }
    server->modern = discovered == DISCOVERED_MODERN;
    return discovered;
}

/* ---- Older versions -------------------------------------------------------------------------- */

static int tell_initialized(struct mcp_server *server, struct bl_error *error)
{
    static const char method[] = "notifications/initialized";
    struct mcp_process *process = server->process;
    if (server->http != NULL)
        return mcp_http_notify(server, method, (struct bl_text){0}, error);
    if (process != NULL && process->rpc != NULL &&
        bl_rpc_notify(process->rpc, method, (struct bl_text){0}) == 0)
        return 0;
    return bl_error_set(error, BL_EPIPE, BL_KIND_MCP, OPERATION, server->entry->name,
                        "it has exited");
}

static int take_initialized(struct mcp_server *server, const struct bl_json *result,
                            struct bl_error *error)
{
    struct bl_text version = bl_json_text(bl_json_get(result, BL_TEXT("protocolVersion")));
    server->protocol = known_legacy(version);
    if (server->protocol == NULL)
        return bl_error_set(error, BL_ENOTSUP, BL_KIND_MCP, OPERATION, server->entry->name,
                            "it uses the unknown protocol version '" BL_TEXT_FORMAT "'",
                            BL_TEXT_ARG(bl_utf8_cut(version, 40)));
    take_capabilities(server, result);
    return tell_initialized(server, error);
}

static int initialize(struct mcp_server *server, const char *version, struct bl_error *error)
{
    struct bl_rpc_failure failure = {0};
    const struct bl_json *result = NULL;
    BL_AUTO_ARENA(arena);
    struct mcp_request request = {
        .method = "initialize",
        .params = bl_arena_printf(&arena,
                                  "{\"protocolVersion\":\"%s\",\"capabilities\":{\"roots\":{}},"
                                  "\"clientInfo\":{\"name\":\"belay\",\"version\":\"%s\"}}",
                                  version, BELAY_VERSION)};
    int code = mcp_server_ask(server, &request, &arena, &result, &failure, error);
    if (code == 0)
        code = take_initialized(server, result, error);
    return code;
}

int mcp_connect(struct mcp_server *server, struct bl_error *error)
{
    const char *version = MCP_LEGACY;
    enum discovered discovered = DISCOVERED_LEGACY;
    server->protocol = NULL;
    if (!server->era_known || server->modern)
        discovered = discover(server, MCP_DISCOVER_NS, &version, error);
    if (discovered == DISCOVERED_AGAIN)
        discovered = discover(server, MCP_DISCOVER_NS, &version, error);
    if (discovered == DISCOVERED_NOTHING)
        return error->code;
    int code = 0;
    if (discovered != DISCOVERED_MODERN) {
        if (version == NULL)
            version = MCP_LEGACY;
        code = initialize(server, version, error);
        /* A modern server that was too slow to answer server/discover in time. */
        if (code == BL_EREFUSED && discovered == DISCOVERED_LEGACY) {
            struct bl_error *again = bl_zalloc(sizeof *again);
            if (discover(server, BL_NEVER, &version, again) == DISCOVERED_MODERN) {
                *error = (struct bl_error){0};
                code = 0;
            }
            bl_free(again);
        }
    }
    server->era_known = code == 0;
    return code;
}
