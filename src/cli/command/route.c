#include "cli/run/run.h"
#include "cli/table/commands.h"
#include "tools.h"

#define TEXT_MAX ((size_t)1024 * 1024)

struct routed {
    const char *prompt;
    struct bl_list matches;
};

void run_write_matches(struct bl_json_writer *writer, const struct bl_list *matches)
{
    bl_json_write_array(writer);
    BL_LIST_EACH (link, matches) {
        const struct bl_route_match *match = BL_CONTAINER(link, struct bl_route_match, link);
        bl_json_write_object(writer);
        bl_json_put_string(writer, "kind", match->kind);
        bl_json_put_string(writer, "name", match->name);
        bl_json_put_uint64(writer, "score", match->score);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

static void route_payload(struct bl_json_writer *writer, const void *context)
{
    const struct routed *routed = context;

    bl_json_put_string(writer, "prompt", routed->prompt);
    bl_json_write_key(writer, BL_TEXT("routed_matches"));
    run_write_matches(writer, &routed->matches);
}

static int command_route_print_text(const struct cli_call *call, const struct routed *routed)
{
    struct bl_buffer out;

    bl_buffer_init(&out, TEXT_MAX);
    BL_LIST_EACH (link, &routed->matches) {
        const struct bl_route_match *match = BL_CONTAINER(link, struct bl_route_match, link);
        bl_buffer_printf(&out, "%5u  %-8s %s\n", match->score, match->kind, match->name);
    }
    if (out.size == 0)
        bl_buffer_append(&out, BL_TEXT("No command and no tool matches.\n"));
    int exit_code = cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
    bl_buffer_done(&out);
    return exit_code;
}

static int command_route(struct cli_call *call, const char *prompt)
{
    struct routed routed = {.prompt = prompt};
    struct tools_offered offered;
    struct bl_error error = {0};
    int exit_code;

    if (tools_offered_init(&offered, NULL, &error) != 0) {
        exit_code = cli_fail(call, &error, CLI_EXIT_FAILED);
    } else {
        bl_route(&offered.arena, bl_text_from(prompt), &offered.tools, &routed.matches);
        exit_code = call->format == CLI_FORMAT_TEXT
                        ? command_route_print_text(call, &routed)
                        : cli_envelope_print(call, CLI_EXIT_OK, route_payload, &routed);
    }
    tools_offered_done(&offered);
    return exit_code;
}

int cli_route_run(struct cli_call *call)
{
    struct route_options options = {0};
    struct bl_error error = {0};

    int code = cli_options_read(call, &options, NULL, &error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code == 0)
        code = run_prompt_check(bl_text_from(options.prompt), &error);
    return code != 0 ? cli_fail_usage(call, &error) : command_route(call, options.prompt);
}
