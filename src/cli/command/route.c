#include "cli/answers.h"
#include "cli/run/run.h"
#include "cli/table/commands.h"
#include "tools.h"

#define TEXT_MAX ((size_t)1024 * 1024)

struct routed {
    const char *prompt;
    struct bl_list matches;
};

static const char *const kind_names[] = {"command", "tool"};
static const struct bl_names kinds = BL_NAMES(kind_names);

#define BL_RECORD_STRUCT struct bl_route_match
static const struct bl_member match_members[] = {
    BL_MEMBER_STRING("kind", kind, .names = &kinds),
    BL_MEMBER_STRING("name", name, .least = 1),
    BL_MEMBER_INTEGER("score", score, .least = 1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record run_match_record =
    BL_RECORD("match", struct bl_route_match, match_members, .closed = true);

#define BL_RECORD_STRUCT struct routed
static const struct bl_member route_members[] = {
    BL_MEMBER_STRING("prompt", prompt, .least = 1),
    BL_MEMBER_LIST("routed_matches", matches, &run_match_record, struct bl_route_match, link,
                   .about = "Best first."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer route_answer = {BL_RECORD("route", struct routed, route_members),
                                        .of = "route"};

static int command_route_print_text(const struct cli_call *call, const struct routed *routed)
{
    BL_AUTO_BUFFER(out, TEXT_MAX);

    BL_LIST_EACH (link, &routed->matches) {
        const struct bl_route_match *match = BL_CONTAINER(link, struct bl_route_match, link);
        bl_buffer_printf(&out, "%5u  %-8s %s\n", match->score, match->kind, match->name);
    }
    if (out.size == 0)
        bl_buffer_append(&out, BL_TEXT("No command and no tool matches.\n"));
    return cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
}

/* Keeps only the best `limit` matches; 0 keeps all. */
static void command_route_limit(struct bl_list *matches, uint32_t limit)
{
    uint32_t count = 0;

    for (struct bl_list *link = matches->next, *next; link != matches; link = next) {
        next = link->next;
        if (limit != 0 && ++count > limit)
            bl_list_remove(link);
    }
}

static int command_route(struct cli_call *call, const struct route_options *options)
{
    const char *prompt = options->prompt;
    struct routed routed = {.prompt = prompt};
    struct tools_offered offered;
    struct bl_error error = {0};
    int exit_code;

    if (tools_offered_init(&offered, NULL, &error) != 0) {
        exit_code = cli_fail(call, &error, CLI_EXIT_FAILED);
    } else {
        bl_route(&offered.arena, bl_text_from(prompt), &offered.tools, &routed.matches);
        command_route_limit(&routed.matches, options->limit);
        exit_code = call->format == CLI_FORMAT_TEXT
                        ? command_route_print_text(call, &routed)
                        : cli_answer_print(call, CLI_EXIT_OK, &route_answer.record, &routed);
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
    return code != 0 ? cli_fail_usage(call, &error) : command_route(call, &options);
}
