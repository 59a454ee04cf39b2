#include "tools.h"

#include <limits.h>
#include <unistd.h>

#include "cli.h"

#define TEXT_MAX   ((size_t)16 * 1024 * 1024)
#define INDENT     2
#define COLUMNS    80u
#define NAME_WIDTH 10

const char cli_tools_help[] =
    "Usage: belay tools [OPTION]...\n"
    "\n"
    "Lists the tools that a model is offered here, each with what it does.\n"
    "'belay tool NAME' shows the schema of one.\n"
    "\n"
    "Options:\n"
    "      --json                  one line, as in docs/schemas/tools.json\n"
    "      --output-format FORMAT  text (the default) or json\n"
    "  -h, --help                  print this help\n"
    "\n"
    "Exit codes:\n"
    "  0    the list was printed\n"
    "  1    standard output could not be written\n"
    "  2    usage error\n"
    "  130  whoever read standard output is gone\n"
    "\n"
    "Examples:\n"
    "  belay tools\n"
    "  belay tools --json\n";

const char cli_tool_help[] =
    "Usage: belay tool [OPTION]... NAME\n"
    "\n"
    "Shows one tool as a model is offered it: what it does, and the JSON Schema of\n"
    "its input.\n"
    "\n"
    "Options:\n"
    "      --json                  one line, as in docs/schemas/tool.json\n"
    "      --output-format FORMAT  text (the default) or json\n"
    "  -h, --help                  print this help\n"
    "\n"
    "Exit codes:\n"
    "  0    it was printed\n"
    "  1    there is no such tool, or standard output could not be written\n"
    "  2    usage error\n"
    "  130  whoever read standard output is gone\n"
    "\n"
    "Examples:\n"
    "  belay tool bash\n"
    "  belay tool bash --json\n";

int tools_offered_init(struct tools_offered *offered, struct bl_error *error)
{
    *offered = (struct tools_offered){.permissions = bl_permissions_new(BL_PERMISSION_AUTO)};
    bl_arena_init(&offered->arena);
    char *directory = bl_arena_alloc(&offered->arena, PATH_MAX);
    struct bl_list personas, notices;
    if (getcwd(directory, PATH_MAX) == NULL)
        return bl_error_set(error, BL_ESYSTEM, BL_KIND_FILESYSTEM, "find the workspace", NULL,
                            "the current folder is gone, and with it the workspace");
    struct bl_toolbox_options options = {
        .workspace = directory,
        .permissions = offered->permissions,
    };
    int code = bl_toolbox_new(&options, &offered->toolbox, error);
    if (code != 0)
        return code;
    bl_list_init(&notices);
    bl_personas_find(&offered->arena, directory, &personas, &notices);
    offered->tools = bl_agent_offers(&offered->arena, offered->toolbox, &personas);
    return 0;
}

void tools_offered_done(struct tools_offered *offered)
{
    bl_toolbox_free(offered->toolbox);
    bl_permissions_free(offered->permissions);
    bl_arena_done(&offered->arena);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_offer(struct bl_json_writer *writer, const struct bl_tool_offer *offer)
{
    bl_json_put_string(writer, "name", offer->name);
    bl_json_put_string(writer, "description", offer->description);
    bl_json_write_key(writer, BL_TEXT("input_schema"));
    bl_json_write_raw(writer, offer->schema);
}

static void tool_payload(struct bl_json_writer *writer, const void *context)
{
    write_offer(writer, context);
}

static void tools_payload(struct bl_json_writer *writer, const void *context)
{
    const struct bl_tools *tools = context;

    bl_json_write_key(writer, BL_TEXT("tools"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < tools->offer_count; i++) {
        bl_json_write_object(writer);
        write_offer(writer, &tools->offers[i]);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void append_schema(struct bl_buffer *out, struct bl_text schema)
{
    const struct bl_json *value;
    struct bl_json_writer writer;
    struct bl_arena arena;

    bl_arena_init(&arena);
    if (bl_json_read(&arena, schema, NULL, &value, NULL) == 0) {
        bl_json_writer_init(&writer, out);
        bl_json_writer_indent(&writer, INDENT);
        bl_json_write_value(&writer, value);
        bl_json_writer_done(&writer);
        bl_buffer_append_byte(out, '\n');
    }
    bl_arena_done(&arena);
}

/* A text in lines of 80 columns, each but the first behind `indent` blanks. */
/* One paragraph; what follows it stands below. */
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

static int print_tool(const struct cli_call *call, const struct bl_tool_offer *offer)
{
    struct bl_buffer out;

    bl_buffer_init(&out, TEXT_MAX);
    bl_buffer_printf(&out, "%-*s", NAME_WIDTH, offer->name);
    append_wrapped(&out, offer->description, NAME_WIDTH);
    bl_buffer_append_byte(&out, '\n');
    append_schema(&out, offer->schema);
    int exit_code = cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
    bl_buffer_done(&out);
    return exit_code;
}

static int print_tools(const struct cli_call *call, const struct bl_tools *tools)
{
    struct bl_buffer out;

    bl_buffer_init(&out, TEXT_MAX);
    for (size_t i = 0; i < tools->offer_count; i++) {
        bl_buffer_printf(&out, "%-*s", NAME_WIDTH, tools->offers[i].name);
        append_wrapped(&out, tools->offers[i].description, NAME_WIDTH);
    }
    int exit_code = cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
    bl_buffer_done(&out);
    return exit_code;
}

/* ---- The commands ---------------------------------------------------------------------------- */

int cli_tools_run(struct cli_call *call)
{
    struct tools_offered offered;
    struct bl_error error = {0};
    int exit_code;

    int code = cli_arguments_read(call, false, cli_take_none, NULL, &error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code != 0)
        return cli_fail_usage(call, &error);
    if (tools_offered_init(&offered, &error) != 0)
        exit_code = cli_fail(call, &error, CLI_EXIT_FAILED);
    else if (call->format == CLI_FORMAT_TEXT)
        exit_code = print_tools(call, &offered.tools);
    else
        exit_code = cli_envelope_print(call, CLI_EXIT_OK, tools_payload, &offered.tools);
    tools_offered_done(&offered);
    return exit_code;
}

static const struct bl_tool_offer *find_tool(const struct bl_tools *tools, const char *name,
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

static int show_tool(struct cli_call *call, const char *name)
{
    struct tools_offered offered;
    struct bl_error error = {0};
    const struct bl_tool_offer *offer = NULL;
    int exit_code;

    if (tools_offered_init(&offered, &error) == 0)
        offer = find_tool(&offered.tools, name, &error);
    if (offer == NULL)
        exit_code = cli_fail(call, &error, CLI_EXIT_FAILED);
    else if (call->format == CLI_FORMAT_TEXT)
        exit_code = print_tool(call, offer);
    else
        exit_code = cli_envelope_print(call, CLI_EXIT_OK, tool_payload, offer);
    tools_offered_done(&offered);
    return exit_code;
}

int cli_tool_run(struct cli_call *call)
{
    const char *name = NULL;
    struct bl_error error = {0};

    int code = cli_arguments_read(call, false, cli_take_one, &name, &error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code == 0 && name == NULL) {
        code = bl_error_set(&error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "NAME",
                            "no tool is named");
        bl_error_hint(&error, "'belay tools' lists them");
    }
    return code != 0 ? cli_fail_usage(call, &error) : show_tool(call, name);
}
