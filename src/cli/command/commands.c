/* belay commands: lists the slash commands of chat. */
#include <limits.h>

#include <belay/agent.h>

#include "cli/answers.h"
#include "cli/chat/chat.h"
#include "runtime/runtime.h"

#define TEXT_MAX ((size_t)4 * 1024 * 1024)

struct listed_command {
    const char *name;
    const char *description;
    const char *hint;   /* NULL if none */
    const char *source; /* belay, user, project */
    const char *path;   /* NULL if built in */
};

struct listed_commands {
    struct listed_command *commands;
    size_t count;
    struct bl_text *notices;
    size_t notice_count;
};

static const char *const listed_source_names[] = {"belay", "user", "project"};
static const struct bl_names listed_sources = BL_NAMES(listed_source_names);

#define BL_RECORD_STRUCT struct listed_command
static const struct bl_member listed_members[] = {
    BL_MEMBER_STRING("name", name, .least = 2, .about = "With its slash."),
    BL_MEMBER_STRING("description", description, .least = 1),
    BL_MEMBER_STRING("argument_hint", hint, .nullable = true, .about = "Arguments of the command."),
    BL_MEMBER_STRING("source", source, .names = &listed_sources,
                     .about = "Origin of the command; belay: built in."),
    BL_MEMBER_STRING("path", path, .nullable = true, .about = "Path of the file; null: built in."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record listed_record =
    BL_RECORD("command", struct listed_command, listed_members, .closed = true);
static const struct bl_member listed_element = BL_ELEMENT(struct listed_command, &listed_record);

#define BL_RECORD_STRUCT struct listed_commands
static const struct bl_member list_members[] = {
    BL_MEMBER_ARRAY("commands", commands, count, &listed_element),
    BL_MEMBER_ARRAY("notices", notices, notice_count, &bl_element_text,
                    .about = "Files that were found and cannot be used."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer commands_answer = {
    BL_RECORD("commands", struct listed_commands, list_members), .of = "commands"};

/* ---- The list -------------------------------------------------------------------------------- */

/* Splits a summary such as "[NAME]: the models" into arguments and description. */
static void commands_split(struct bl_arena *arena, const char *summary,
                           struct listed_command *command)
{
    const char *colon = strstr(summary, ": ");
    bool takes = colon != NULL && (summary[0] == '[' || (summary[0] >= 'A' && summary[0] <= 'Z'));

    command->description = takes ? colon + 2 : summary;
    if (takes)
        command->hint =
            bl_arena_text(arena, (struct bl_text){summary, (size_t)(colon - summary)}).data;
}

static bool commands_has(const struct listed_commands *listed, const char *name)
{
    for (size_t i = 0; i < listed->count; i++) {
        if (strcmp(listed->commands[i].name, name) == 0)
            return true;
    }
    return false;
}

static void commands_list(struct bl_arena *arena, const char *directory,
                          struct listed_commands *listed)
{
    struct bl_list found, notices;
    size_t room = 0, notice_room = 0;

    bl_list_init(&notices);
    bl_custom_commands_find(arena, directory, &found, &notices);
    while (chat_commands[room].name != NULL)
        room++;
    BL_LIST_EACH (link, &found)
        room++, notice_room++;
    BL_LIST_EACH (link, &notices)
        notice_room++;
    listed->commands = bl_arena_zalloc(arena, room * sizeof *listed->commands);
    listed->notices = bl_arena_zalloc(arena, (notice_room + 1) * sizeof *listed->notices);
    for (const struct edit_command *row = chat_commands; row->name != NULL; row++) {
        struct listed_command *command = &listed->commands[listed->count++];
        *command = (struct listed_command){.name = row->name, .source = "belay"};
        commands_split(arena, row->summary, command);
    }
    BL_LIST_EACH (link, &found) {
        const struct bl_custom_command *custom = BL_CONTAINER(link, struct bl_custom_command, link);
        const char *name = bl_arena_printf(arena, "/%s", custom->name).data;
        if (commands_has(listed, name)) {
            listed->notices[listed->notice_count++] = bl_arena_printf(
                arena, "%s: %s is a built-in command; rename the file", custom->path, name);
            continue;
        }
        listed->commands[listed->count++] = (struct listed_command){
            .name = name,
            .description = custom->description,
            .hint = custom->hint,
            .source = custom->of_user ? "user" : "project",
            .path = custom->path,
        };
    }
    BL_LIST_EACH (link, &notices)
        listed->notices[listed->notice_count++] = BL_CONTAINER(link, struct bl_notice, link)->text;
}

/* ---- The command ----------------------------------------------------------------------------- */

static int commands_print(const struct cli_call *call, const struct listed_commands *listed)
{
    BL_AUTO_BUFFER(out, TEXT_MAX);
    BL_AUTO_BUFFER(line, TEXT_MAX);

    for (size_t i = 0; i < listed->count; i++) {
        const struct listed_command *command = &listed->commands[i];
        bl_buffer_clear(&line);
        bl_buffer_printf(&line, "%-16s %-8s %s%s%s", command->name, command->source,
                         command->hint != NULL ? command->hint : "",
                         command->hint != NULL ? ": " : "", command->description);
        bl_text_show(&out, bl_buffer_text(&line), BL_SHOW_LINES);
        bl_buffer_append_byte(&out, '\n');
    }
    return cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
}

static int commands_show(struct cli_call *call)
{
    struct listed_commands listed = {0};
    BL_AUTO_ARENA(arena);
    struct bl_error error = {0};
    const char *directory;

    if (runtime_directory(&arena, &directory, &error) != 0)
        return cli_fail(call, &error, CLI_EXIT_FAILED);
    commands_list(&arena, directory, &listed);
    if (call->format != CLI_FORMAT_TEXT)
        return cli_answer_print(call, CLI_EXIT_OK, &commands_answer.record, &listed);
    int exit_code = commands_print(call, &listed);
    for (size_t i = 0; i < listed.notice_count; i++) {
        BL_AUTO_BUFFER(shown, TEXT_MAX);
        bl_text_show(&shown, listed.notices[i], BL_SHOW_LINES);
        cli_remark(bl_arena_printf(&arena, "belay commands: " BL_TEXT_FORMAT "\n",
                                   BL_TEXT_ARG(bl_buffer_text(&shown))));
    }
    return exit_code;
}

int cli_commands_run(struct cli_call *call)
{
    struct bl_error error = {0};

    int code = cli_options_read(call, NULL, NULL, &error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    return code != 0 ? cli_fail_usage(call, &error) : commands_show(call);
}
