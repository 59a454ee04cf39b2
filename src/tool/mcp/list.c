/* The tools of a server: all pages of its list, within limits, without unusable tools. */
#include <stdio.h>
#include <strings.h>

#include "mcp.h"

#define CURSOR_MAX      ((size_t)4096)
#define DESCRIPTION_MAX ((size_t)16 * 1024)
#define TOOL_NAME_MAX   ((size_t)1024)
#define HEADERS_MAX     32u
#define DEPTH_MAX       16u
/* Maximum number of skipped tools reported one by one for a listing. */
#define TOLD_MAX 20u

/* ---- Schemas --------------------------------------------------------------------------------- */

static bool is_value_keyword(struct bl_text key)
{
    return bl_text_equal(key, BL_TEXT("const")) || bl_text_equal(key, BL_TEXT("enum")) ||
           bl_text_equal(key, BL_TEXT("default")) || bl_text_equal(key, BL_TEXT("examples"));
}

/* Findings anywhere in a schema. */
struct found {
    bool remote;     /* a $ref to another document */
    size_t headers;  /* number of x-mcp-header keywords */
    bool bad_header; /* one of them is not a valid header name */
};

static void look_at_keyword(struct found *found, const struct bl_json *key)
{
    struct bl_text name = bl_json_text(key);
    if (bl_text_equal(name, BL_TEXT("$ref")) || bl_text_equal(name, BL_TEXT("$dynamicRef")) ||
        bl_text_equal(name, BL_TEXT("$recursiveRef")))
        found->remote |= bl_json_is(key + 1, BL_JSON_STRING) &&
                         !bl_text_starts_with(bl_json_text(key + 1), BL_TEXT("#"));
    if (bl_text_equal(name, BL_TEXT("x-mcp-header"))) {
        found->headers++;
        found->bad_header |= !mcp_header_name_fits(bl_json_text(key + 1));
    }
}

/* `named`: its keys are names of properties, not keywords. The depth is limited by that of a
 * message. */
static void mcp_list_look(struct found *found, const struct bl_json *value, bool named)
{
    BL_JSON_EACH (element, value)
        mcp_list_look(found, element, false);
    BL_JSON_MEMBERS (key, value) {
        struct bl_text name = bl_json_text(key);
        if (!named)
            look_at_keyword(found, key);
        if (named || !is_value_keyword(name))
            mcp_list_look(found, key + 1, !named && bl_text_equal(name, BL_TEXT("properties")));
    }
}

/* ---- Headers --------------------------------------------------------------------------------- */

struct collector {
    struct bl_arena *arena;
    struct mcp_header headers[HEADERS_MAX];
    size_t count;
    struct bl_text path[DEPTH_MAX];
    bool bad; /* of a type that a header cannot carry, a duplicate, or too many */
};

static bool is_carried(const struct bl_json *type)
{
    struct bl_text name = bl_json_text(type);
    return bl_text_equal(name, BL_TEXT("string")) || bl_text_equal(name, BL_TEXT("integer")) ||
           bl_text_equal(name, BL_TEXT("boolean"));
}

static void mcp_list_add_header(struct collector *collector, const struct bl_json *property,
                                struct bl_text name, size_t depth)
{
    const char *whole =
        bl_arena_printf(collector->arena, "Mcp-Param-" BL_TEXT_FORMAT, BL_TEXT_ARG(name)).data;
    for (size_t i = 0; i < collector->count; i++)
        collector->bad |= strcasecmp(collector->headers[i].name, whole) == 0;
    if (collector->bad || collector->count == HEADERS_MAX ||
        !is_carried(bl_json_get(property, BL_TEXT("type")))) {
        collector->bad = true;
        return;
    }
    struct bl_text *path = bl_arena_alloc(collector->arena, depth * sizeof *path);
    memcpy(path, collector->path, depth * sizeof *path);
    collector->headers[collector->count++] = (struct mcp_header){whole, path, depth};
}

/* Collects those that are reachable through `properties` alone. */
static void mcp_list_collect(struct collector *collector, const struct bl_json *schema,
                             size_t depth)
{
    const struct bl_json *properties = bl_json_get(schema, BL_TEXT("properties"));
    if (depth == DEPTH_MAX)
        return;
    BL_JSON_MEMBERS (key, properties) {
        const struct bl_json *name = bl_json_get(key + 1, BL_TEXT("x-mcp-header"));
        collector->path[depth] = bl_arena_text(collector->arena, bl_json_text(key));
        if (name != NULL)
            mcp_list_add_header(collector, key + 1, bl_json_text(name), depth + 1);
        mcp_list_collect(collector, key + 1, depth + 1);
    }
}

static const char *take_headers(struct bl_arena *arena, const struct bl_json *schema,
                                const struct found *found, struct mcp_tool *tool)
{
    const char *wrong = NULL;
    if (found->headers == 0)
        return NULL;
    if (found->bad_header)
        return "an x-mcp-header is not a valid header name";
    struct collector *collector = bl_zalloc(sizeof *collector);
    collector->arena = arena;
    mcp_list_collect(collector, schema, 0);
    if (collector->bad)
        wrong =
            "an x-mcp-header is a duplicate, or its property is not a string, integer or boolean";
    else if (collector->count != found->headers)
        wrong = "an x-mcp-header is in a place that does not belong to a single argument";
    struct mcp_header *headers = bl_arena_alloc(arena, sizeof collector->headers);
    memcpy(headers, collector->headers, sizeof collector->headers);
    tool->headers = headers;
    tool->header_count = collector->count;
    bl_free(collector);
    return wrong;
}

const char *mcp_tool_check(struct bl_arena *arena, const struct bl_json *schema,
                           struct mcp_tool *tool)
{
    struct bl_json_writer writer;
    struct bl_buffer text;
    struct found found = {0};
    if (!bl_json_is(schema, BL_JSON_OBJECT) ||
        !bl_text_equal(bl_json_text(bl_json_get(schema, BL_TEXT("type"))), BL_TEXT("object")))
        return "its inputSchema is not of type object";
    bl_buffer_init(&text, MCP_SCHEMA_MAX);
    bl_json_writer_init(&writer, &text);
    bl_json_write_value(&writer, schema);
    int code = bl_json_writer_done(&writer);
    if (code == 0)
        tool->schema = bl_arena_text(arena, bl_buffer_text(&text));
    bl_buffer_done(&text);
    if (code != 0)
        return "its inputSchema is larger than 64 KiB";
    mcp_list_look(&found, schema, false);
    if (found.remote)
        return "its inputSchema refers to another document, which is not fetched";
    const char *wrong = take_headers(arena, schema, &found, tool);
    /* The server checks a schema that we cannot compile. */
    if (wrong == NULL && bl_json_schema_new(schema, &tool->compiled, NULL) != 0)
        tool->compiled = NULL;
    return wrong;
}

/* ---- Tools ----------------------------------------------------------------------------------- */

/* The state while reading a list. */
struct lister {
    struct mcp_server *server;
    struct mcp_listing *listing;
    struct bl_arena arena; /* of one page */
    struct bl_map seen;    /* names */
    struct bl_map cursors;
    size_t left_out; /* each with a reason */
    size_t too_many;
};

void mcp_listing_unref(struct mcp_listing *listing)
{
    if (listing == NULL || --listing->users > 0)
        return;
    for (size_t i = 0; i < listing->count; i++)
        bl_json_schema_free(listing->tools[i].compiled);
    bl_arena_done(&listing->arena);
    bl_free(listing);
}

static void mcp_list_leave_out(struct lister *lister, struct bl_text name, const char *why)
{
    char shown[80];
    size_t size = 0;
    struct bl_text cut = bl_utf8_cut(name, sizeof shown - 1);
    for (; size < cut.size; size++)
        shown[size] = (unsigned char)cut.data[size] < 0x20 ? '?' : cut.data[size];
    shown[size] = '\0';
    if (++lister->left_out <= TOLD_MAX)
        mcp_notice(lister->server->toolbox, "MCP server %s: tool '%s' skipped: %s",
                   lister->server->entry->name, shown, why);
}

static bool is_enabled(const struct bl_mcp_entry *entry, const char *name)
{
    if (entry->enabled_tools == NULL)
        return true;
    for (size_t i = 0; entry->enabled_tools[i] != NULL; i++)
        if (bl_tool_name_fits(entry->enabled_tools[i], name))
            return true;
    return false;
}

static const char *mcp_list_describe(struct bl_arena *arena, const struct bl_json *tool)
{
    struct bl_text text = bl_json_text(bl_json_get(tool, BL_TEXT("description")));
    if (text.size == 0)
        text = bl_json_text(bl_json_get(tool, BL_TEXT("title")));
    return bl_arena_text(arena, bl_utf8_cut(text, DESCRIPTION_MAX)).data;
}

static void mcp_list_take_tool(struct lister *lister, const struct bl_json *value)
{
    struct mcp_listing *listing = lister->listing;
    struct bl_text name = bl_json_text(bl_json_get(value, BL_TEXT("name")));
    struct mcp_tool tool = {.server = lister->server};
    if (name.size == 0 || name.size > TOOL_NAME_MAX) {
        mcp_list_leave_out(lister, name, "its name is empty or longer than 1,024 bytes");
        return;
    }
    tool.own_name = bl_arena_text(&listing->arena, name);
    if (!is_enabled(lister->server->entry, tool.own_name.data))
        return;
    if (bl_map_has(&lister->seen, name)) {
        mcp_list_leave_out(lister, name, "duplicate name");
        return;
    }
    if (listing->count == MCP_TOOLS_MAX) {
        lister->too_many++;
        return;
    }
    bl_map_set(&lister->seen, name, lister, NULL);
    const char *wrong =
        mcp_tool_check(&listing->arena, bl_json_get(value, BL_TEXT("inputSchema")), &tool);
    if (wrong != NULL) {
        mcp_list_leave_out(lister, name, wrong);
        return;
    }
    tool.description = mcp_list_describe(&listing->arena, value);
    tool.reads =
        bl_json_boolean(bl_json_pointer(value, BL_TEXT("/annotations/readOnlyHint")), false);
    listing->tools[listing->count++] = tool;
}

/* ---- Pages ----------------------------------------------------------------------------------- */

static int ask_page(struct lister *lister, struct bl_text cursor, const struct bl_json **ret_page,
                    struct bl_error *error)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(params, SIZE_MAX);
    struct bl_rpc_failure failure = {0};
    bl_json_writer_init(&writer, &params);
    mcp_server_params(lister->server, &writer, 0);
    if (cursor.size > 0)
        bl_json_put_text(&writer, "cursor", cursor);
    bl_json_write_end(&writer);
    struct mcp_request request = {.method = "tools/list", .params = bl_buffer_text(&params)};
    return mcp_server_ask(lister->server, &request, &lister->arena, ret_page, &failure, error);
}

/* Returns the cursor of the next page, which stays valid; empty after the last page. */
static struct bl_text next_cursor(struct lister *lister, const struct bl_json *page,
                                  unsigned number)
{
    struct bl_text none = {0}, next = bl_json_text(bl_json_get(page, BL_TEXT("nextCursor")));
    const char *why = NULL;
    if (next.size == 0)
        return none;
    if (next.size > CURSOR_MAX)
        why = "its list has a cursor longer than 4,096 bytes";
    else if (bl_map_has(&lister->cursors, next))
        why = "its list has a loop (a cursor occurred twice)";
    else if (number + 1 >= MCP_PAGES_MAX)
        why = "its list has more than 100 pages";
    else if (lister->too_many > 0)
        why = "its list continues after 512 tools";
    if (why == NULL) {
        bl_map_set(&lister->cursors, next, lister, NULL);
        return bl_arena_text(&lister->listing->arena, next);
    }
    mcp_notice(lister->server->toolbox, "MCP server %s: %s; the rest is skipped",
               lister->server->entry->name, why);
    return none;
}

static int read_pages(struct lister *lister, struct bl_error *error)
{
    struct bl_text cursor = {0};
    for (unsigned number = 0;; number++) {
        const struct bl_json *page = NULL;
        int code = ask_page(lister, cursor, &page, error);
        if (code != 0)
            return code;
        const struct bl_json *tools = bl_json_get(page, BL_TEXT("tools"));
        if (!bl_json_is(tools, BL_JSON_ARRAY))
            return bl_error_set(error, BL_EPARSE, BL_KIND_MCP, "list tools",
                                lister->server->entry->name,
                                "its response to tools/list contains no list of tools");
        BL_JSON_EACH (tool, tools)
            mcp_list_take_tool(lister, tool);
        cursor = next_cursor(lister, page, number);
        bl_arena_reset(&lister->arena);
        if (cursor.size == 0)
            return 0;
    }
}

int mcp_list(struct mcp_server *server, struct mcp_listing **ret_listing, struct bl_error *error)
{
    struct lister lister = {.server = server};
    struct mcp_listing *listing = bl_zalloc(sizeof *listing);
    listing->users = 1;
    listing->tools = bl_arena_alloc(&listing->arena, MCP_TOOLS_MAX * sizeof *listing->tools);
    lister.listing = listing;
    bl_map_init(&lister.seen);
    bl_map_init(&lister.cursors);
    int code = read_pages(&lister, error);
    if (lister.left_out > TOLD_MAX)
        mcp_notice(server->toolbox, "MCP server %s: %zu more tool%s skipped", server->entry->name,
                   lister.left_out - TOLD_MAX, lister.left_out - TOLD_MAX == 1 ? "" : "s");
    if (lister.too_many > 0)
        mcp_notice(server->toolbox, "MCP server %s: it lists more than %u tools; %zu skipped",
                   server->entry->name, MCP_TOOLS_MAX, lister.too_many);
    bl_map_done(&lister.seen);
    bl_map_done(&lister.cursors);
    bl_arena_done(&lister.arena);
    if (code == 0)
        *ret_listing = listing;
    else
        mcp_listing_unref(listing);
    return code;
}
