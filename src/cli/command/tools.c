#include "tools.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "cli/answers.h"

#define TEXT_MAX   ((size_t)16 * 1024 * 1024)
#define INDENT     2
#define COLUMNS    80u
#define NAME_WIDTH 10

/* ---- Collecting the tools -------------------------------------------------------------------- */

static void command_tools_take_notice(void *context, struct bl_text text)
{
    struct tools_offered *offered = context;

    bl_notice_add(&offered->arena, &offered->notices, bl_arena_text(&offered->arena, text));
}

static int command_tools_read_servers(struct tools_offered *offered,
                                      const struct tools_options *options, const char *directory,
                                      struct bl_error *error)
{
    struct bl_mcp_config_options config = {
        .directory = directory,
        .files = options->files,
        .variable = bl_variable,
        .notice = command_tools_take_notice,
        .context = offered,
    };

    return bl_mcp_config_read(&offered->arena, &config, &offered->servers, error);
}

/* Copies what is shown, so that it outlives the servers. */
static void command_tools_keep(struct tools_offered *offered, const struct bl_list *personas)
{
    struct bl_arena *arena = &offered->arena;
    struct bl_mcp_view view;
    size_t count = 0;

    offered->tools = bl_agent_offers(arena, offered->toolbox, personas);
    struct bl_tool_offer *offers =
        bl_arena_alloc(arena, (offered->tools.offer_count + 1) * sizeof *offers);
    for (size_t i = 0; i < offered->tools.offer_count; i++) {
        offers[i] = offered->tools.offers[i];
        offers[i].name = bl_arena_text(arena, bl_text_from(offers[i].name)).data;
        offers[i].description = bl_arena_text(arena, bl_text_from(offers[i].description)).data;
        offers[i].schema = bl_arena_text(arena, offers[i].schema);
    }
    offered->tools.offers = offers;
    while (bl_toolbox_mcp(offered->toolbox, count, &view))
        count++;
    offered->views = bl_arena_zalloc(arena, (count + 1) * sizeof *offered->views);
    for (size_t i = 0; i < count && bl_toolbox_mcp(offered->toolbox, i, &view); i++) {
        offered->views[i] = view;
        offered->views[i].why = bl_arena_text(arena, view.why);
        if (view.protocol != NULL)
            offered->views[i].protocol = bl_arena_text(arena, bl_text_from(view.protocol)).data;
        offered->view_count++;
    }
}

struct looking {
    struct tools_offered *offered;
    const struct bl_list *personas;
};

/* Collects the tools while the servers are running. */
static int look_main(void *argument)
{
    struct looking *looking = argument;
    struct bl_toolbox *toolbox = looking->offered->toolbox;
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    bl_toolbox_begin(toolbox, &nursery, NULL, "tools");
    bl_toolbox_refresh(toolbox);
    command_tools_keep(looking->offered, looking->personas);
    bl_toolbox_end(toolbox);
    bl_nursery_done(&nursery);
    return 0;
}

static int command_tools_look(struct tools_offered *offered, const struct tools_options *options,
                              const char *directory, struct bl_error *error)
{
    struct bl_list personas, notices;
    struct looking looking = {offered, &personas};
    struct bl_toolbox_options toolbox = {
        .workspace = directory,
        .permissions = offered->permissions,
        .mcp = &offered->servers,
        .mcp_trusted = options != NULL && options->trust_mcp,
        .notice = command_tools_take_notice,
        .notice_context = offered,
    };

    int code = bl_toolbox_new(&toolbox, &offered->toolbox, error);
    if (code != 0)
        return code;
    bl_list_init(&notices);
    bl_personas_find(&offered->arena, directory, &personas, &notices);
    if (!bl_list_empty(&offered->servers)) {
        cli_processes_begin();
        return cli_loop_run("tools", look_main, &looking, error);
    }
    command_tools_keep(offered, &personas);
    return 0;
}

int tools_offered_init(struct tools_offered *offered, const struct tools_options *options,
                       struct bl_error *error)
{
    *offered = (struct tools_offered){.permissions = bl_permissions_new(BL_PERMISSION_AUTO)};
    bl_arena_init(&offered->arena);
    bl_list_init(&offered->servers);
    bl_list_init(&offered->notices);
    char *directory = bl_arena_alloc(&offered->arena, PATH_MAX);
    if (getcwd(directory, PATH_MAX) == NULL)
        return bl_error_set(error, BL_ESYSTEM, BL_KIND_FILESYSTEM, "find the workspace", NULL,
                            "the current folder no longer exists");
    int code = options != NULL ? command_tools_read_servers(offered, options, directory, error) : 0;
    return code != 0 ? code : command_tools_look(offered, options, directory, error);
}

void tools_offered_done(struct tools_offered *offered)
{
    bl_toolbox_free(offered->toolbox);
    bl_permissions_free(offered->permissions);
    bl_arena_done(&offered->arena);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *const source_names[] = {
    [BL_MCP_OF_USER] = "user",
    [BL_MCP_OF_OPTION] = "option",
    [BL_MCP_OF_WORKSPACE] = "workspace",
    [BL_MCP_OF_CLIENT] = "client",
};
static const struct bl_names sources = BL_NAMES(source_names);
static const char *const state_names[] = {"off",   "untrusted", "starting",
                                          "ready", "failed",    "out_of_service"};
static const struct bl_names states = BL_NAMES(state_names);

#define BL_RECORD_STRUCT struct bl_tool_offer
static const struct bl_member tool_members[] = {
    BL_MEMBER_STRING("name", name, .least = 1),
    BL_MEMBER_STRING("description", description, .least = 1),
    BL_MEMBER_RAW("input_schema", schema, .object = true, .about = "A JSON Schema."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer tool_answer = {BL_RECORD("tool", struct bl_tool_offer, tool_members),
                                       .of = "tool"};
static const struct bl_record tool_record =
    BL_RECORD("tool", struct bl_tool_offer, tool_members, .closed = true);

struct tools_server {
    const char *name;
    enum bl_mcp_source source;
    const char *path;
    const char *state;
    struct bl_text why;
    const char *protocol;
    uint64_t tools;
};

#define BL_RECORD_STRUCT struct tools_server
static const struct bl_member server_members[] = {
    BL_MEMBER_STRING("server", name, .least = 1),
    BL_MEMBER_ENUM("source", source, &sources, .about = "Where the server is configured."),
    BL_MEMBER_STRING("path", path, .nullable = true, .about = "File that configures it."),
    BL_MEMBER_STRING("state", state, .names = &states),
    BL_MEMBER_TEXT("why", why, .nullable = true, .about = "Why it offers nothing."),
    BL_MEMBER_STRING("protocol", protocol, .nullable = true, .about = "Negotiated version."),
    BL_MEMBER_INTEGER("tools", tools, .about = "Number of tools that it offers."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record server_record =
    BL_RECORD("server", struct tools_server, server_members, .closed = true);

struct tools_view {
    const struct bl_tool_offer *tools;
    size_t tool_count;
    struct tools_server *servers;
    size_t server_count;
    struct bl_text *notices;
    size_t notice_count;
};

static const struct bl_member tool_element = BL_ELEMENT(struct bl_tool_offer, &tool_record);
static const struct bl_member server_element = BL_ELEMENT(struct tools_server, &server_record);

#define BL_RECORD_STRUCT struct tools_view
static const struct bl_member tools_members[] = {
    BL_MEMBER_ARRAY("tools", tools, tool_count, &tool_element),
    BL_MEMBER_ARRAY("servers", servers, server_count, &server_element,
                    .about = "All MCP servers, including those that offer nothing."),
    BL_MEMBER_ARRAY("notices", notices, notice_count, &bl_element_text,
                    .about = "Files that were found and cannot be used."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer tools_answer = {BL_RECORD("tools", struct tools_view, tools_members),
                                        .of = "tools"};

static struct tools_view tools_view(struct tools_offered *offered)
{
    struct tools_view view = {.tools = offered->tools.offers,
                              .tool_count = offered->tools.offer_count,
                              .server_count = offered->view_count};

    view.servers = bl_arena_alloc(&offered->arena, view.server_count * sizeof *view.servers);
    for (size_t i = 0; i < view.server_count; i++) {
        const struct bl_mcp_view *server = &offered->views[i];
        view.servers[i] = (struct tools_server){
            server->name, server->entry->source, server->entry->path, server->state,
            server->why,  server->protocol,      server->tool_count,
        };
    }
    BL_LIST_EACH (link, &offered->notices)
        view.notice_count++;
    view.notices = bl_arena_alloc(&offered->arena, view.notice_count * sizeof *view.notices);
    view.notice_count = 0;
    BL_LIST_EACH (link, &offered->notices)
        view.notices[view.notice_count++] = BL_CONTAINER(link, struct bl_notice, link)->text;
    return view;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void append_schema(struct bl_buffer *out, struct bl_text schema)
{
    const struct bl_json *value;
    struct bl_json_writer writer;
    BL_AUTO_ARENA(arena);

    if (bl_json_read(&arena, schema, NULL, &value, NULL) == 0) {
        bl_json_writer_init(&writer, out);
        bl_json_writer_indent(&writer, INDENT);
        bl_json_write_value(&writer, value);
        bl_json_writer_done(&writer);
        bl_buffer_append_byte(out, '\n');
    }
}

/* Appends one paragraph in lines of at most 80 columns; all but the first are indented by `indent`
 * blanks. With `more`, indents the line for the next paragraph. */
static void append_paragraph(struct bl_buffer *out, struct bl_text rest, size_t indent, bool more)
{
    struct bl_text word;
    size_t column = indent;

    while (bl_text_split(&rest, ' ', &word)) {
        size_t size = bl_utf8_count(word);
        if (column > indent && column + 1 + size > COLUMNS) {
            bl_buffer_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            bl_buffer_append_byte(out, ' ');
            column++;
        }
        bl_buffer_append(out, word);
        column += size;
    }
    bl_buffer_append_byte(out, '\n');
    if (more)
        bl_buffer_printf(out, "%*s", (int)indent, "");
}

static void append_wrapped(struct bl_buffer *out, const char *text, size_t indent)
{
    struct bl_text lines = bl_text_from(text), line;

    while (bl_text_split(&lines, '\n', &line))
        append_paragraph(out, line, indent, lines.size > 0);
}

/* Appends the name in its column; a wider name gets a line of its own. */
static void append_name(struct bl_buffer *out, const char *name)
{
    bl_buffer_printf(out, "%-*s", NAME_WIDTH, name);
    if (strlen(name) >= NAME_WIDTH)
        bl_buffer_printf(out, "\n%*s", NAME_WIDTH, "");
}

static const char *printable(struct bl_arena *arena, const char *text)
{
    BL_AUTO_BUFFER(out, SIZE_MAX / 2);

    bl_text_show(&out, bl_text_from(text), BL_SHOW_LINES);
    return bl_arena_text(arena, bl_buffer_text(&out)).data;
}

static int print_tool(const struct cli_call *call, struct tools_offered *offered,
                      const struct bl_tool_offer *offer)
{
    BL_AUTO_BUFFER(out, TEXT_MAX);

    append_name(&out, offer->name);
    append_wrapped(&out, printable(&offered->arena, offer->description), NAME_WIDTH);
    bl_buffer_append_byte(&out, '\n');
    append_schema(&out, offer->schema);
    return cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
}

/* Appends "everything  ready, 12 tools, 2025-11-25", or why the server offers nothing. */
static void append_server(struct bl_buffer *out, struct tools_offered *offered,
                          const struct bl_mcp_view *view)
{
    struct bl_text line;

    if (strcmp(view->state, "ready") == 0)
        line = bl_arena_printf(&offered->arena, "ready, %zu tool%s, %s", view->tool_count,
                               view->tool_count == 1 ? "" : "s",
                               view->protocol != NULL ? view->protocol : "no version");
    else
        line = bl_arena_printf(&offered->arena, "%s%s" BL_TEXT_FORMAT "%s", view->state,
                               view->why.size > 0 ? ": " : "", BL_TEXT_ARG(view->why),
                               strcmp(view->state, "untrusted") == 0 ? " (use --trust-mcp)" : "");
    append_name(out, view->name);
    append_wrapped(out, printable(&offered->arena, line.data), NAME_WIDTH);
}

static int print_tools(const struct cli_call *call, struct tools_offered *offered)
{
    BL_AUTO_BUFFER(out, TEXT_MAX);

    for (size_t i = 0; i < offered->tools.offer_count; i++) {
        const struct bl_tool_offer *offer = &offered->tools.offers[i];
        append_name(&out, offer->name);
        append_wrapped(&out, printable(&offered->arena, offer->description), NAME_WIDTH);
    }
    if (offered->view_count > 0)
        bl_buffer_append(&out, BL_TEXT("\nMCP servers:\n"));
    for (size_t i = 0; i < offered->view_count; i++)
        append_server(&out, offered, &offered->views[i]);
    return cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
}

/* True if the line of a server already shows the notice. */
static bool command_tools_is_listed(struct tools_offered *offered, struct bl_text notice)
{
    for (size_t i = 0; i < offered->view_count; i++) {
        const struct bl_mcp_view *view = &offered->views[i];
        struct bl_text head = bl_arena_printf(&offered->arena, "MCP server %s", view->name);
        if (view->why.size > 0 && bl_text_starts_with(notice, head) &&
            strchr(": ", notice.data[head.size]) != NULL &&
            strstr(notice.data, view->why.data) != NULL)
            return true;
    }
    return false;
}

/* Prints the other notices to standard error. */
static void remark_notices(struct tools_offered *offered)
{
    BL_LIST_EACH (link, &offered->notices) {
        struct bl_text text = BL_CONTAINER(link, struct bl_notice, link)->text;
        if (command_tools_is_listed(offered, text))
            continue;
        cli_remark(bl_arena_printf(&offered->arena, "belay tools: %s\n",
                                   printable(&offered->arena, text.data)));
    }
}

/* ---- The commands ---------------------------------------------------------------------------- */

static int list_tools(struct cli_call *call, const struct tools_options *options)
{
    struct tools_offered offered;
    struct bl_error error = {0};
    int exit_code;

    if (tools_offered_init(&offered, options, &error) != 0) {
        exit_code = cli_fail(call, &error, CLI_EXIT_FAILED);
    } else if (call->format == CLI_FORMAT_TEXT) {
        exit_code = print_tools(call, &offered);
        remark_notices(&offered);
    } else {
        struct tools_view view = tools_view(&offered);
        exit_code = cli_answer_print(call, CLI_EXIT_OK, &tools_answer.record, &view);
    }
    tools_offered_done(&offered);
    return exit_code;
}

static const struct bl_tool_offer *command_find_tool(const struct bl_tools *tools, const char *name,
                                                     struct bl_error *error)
{
    struct bl_suggestion suggestion;

    bl_suggestion_init(&suggestion, name);
    for (size_t i = 0; i < tools->offer_count; i++) {
        if (strcmp(tools->offers[i].name, name) == 0)
            return &tools->offers[i];
        bl_suggestion_offer(&suggestion, tools->offers[i].name);
    }
    bl_error_set(error, BL_ENOENT, BL_KIND_TOOL, "find the tool", name, "no tool '%.100s'", name);
    if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(error, "'belay tools' lists them");
    return NULL;
}

static int show_tool(struct cli_call *call, const struct tools_options *options)
{
    struct tools_offered offered;
    struct bl_error error = {0};
    const struct bl_tool_offer *offer = NULL;
    int exit_code;

    if (tools_offered_init(&offered, options, &error) == 0)
        offer = command_find_tool(&offered.tools, options->name, &error);
    if (offer == NULL)
        exit_code = cli_fail(call, &error, CLI_EXIT_FAILED);
    else if (call->format == CLI_FORMAT_TEXT)
        exit_code = print_tool(call, &offered, offer);
    else
        exit_code = cli_answer_print(call, CLI_EXIT_OK, &tool_answer.record, offer);
    tools_offered_done(&offered);
    return exit_code;
}

/* Reads the command line of `tools` or `tool` and runs the command. */
static int tools_command(struct cli_call *call,
                         int (*run)(struct cli_call *call, const struct tools_options *options))
{
    struct tools_options options = {0};
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    int exit_code;

    int code = cli_options_read(call, &options, &arena, &error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_usage(call, &error);
    else
        exit_code = run(call, &options);
    bl_arena_done(&arena);
    return exit_code;
}

int cli_tools_run(struct cli_call *call)
{
    return tools_command(call, list_tools);
}

int cli_tool_run(struct cli_call *call)
{
    return tools_command(call, show_tool);
}
