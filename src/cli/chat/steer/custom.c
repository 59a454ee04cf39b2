/* Users' own commands: .belay/commands/NAME.md is /NAME. They may come with a repository, so they
 * can only be a prompt, which is shown as it is sent. */
#include <stdio.h>

#include "cli/chat/state.h"

/* The files of commands. Folders may hang, so they are read on a thread that can be abandoned. */
struct custom_files {
    struct bl_arena arena;
    const char *directory;
    struct bl_list commands; /* struct bl_custom_command */
    struct bl_list notices;
};

static void custom_files_free(void *payload)
{
    struct custom_files *files = payload;

    if (files == NULL)
        return;
    bl_arena_done(&files->arena);
    bl_free(files);
}

static void custom_files_read(void *payload)
{
    struct custom_files *files = payload;

    bl_custom_commands_find(&files->arena, files->directory, &files->commands, &files->notices);
}

static bool custom_is_ours(const char *name)
{
    for (const struct edit_command *row = chat_commands; row->name != NULL; row++) {
        if (strcmp(row->name + 1, name) == 0)
            return true;
    }
    return false;
}

/* Lists the built-in commands and then those from files, for completion and help. */
static void custom_list(struct chat *chat, struct custom_files *files)
{
    struct bl_arena *arena = &files->arena;
    size_t count = 0;

    while (chat_commands[count].name != NULL)
        count++;
    size_t room = count + 1;
    BL_LIST_EACH (link, &files->commands)
        room++;
    struct edit_command *rows = bl_arena_zalloc(arena, room * sizeof *rows);
    memcpy(rows, chat_commands, count * sizeof *rows);
    BL_LIST_EACH_SAFE (link, &files->commands) {
        const struct bl_custom_command *command =
            BL_CONTAINER(link, struct bl_custom_command, link);
        if (custom_is_ours(command->name)) {
            bl_workspace_warn(chat->work.workspace,
                              bl_arena_printf(arena,
                                              "%s: /%s is a built-in command; rename the file",
                                              command->path, command->name));
            bl_list_remove(link);
            continue;
        }
        rows[count].name = bl_arena_printf(arena, "/%s", command->name).data;
        rows[count++].summary =
            command->hint == NULL
                ? command->description
                : bl_arena_printf(arena, "%s: %s", command->hint, command->description).data;
    }
    chat->commands = rows;
}

void chat_custom_load(struct chat *chat)
{
    struct custom_files *files = bl_zalloc(sizeof *files);
    struct bl_work job = {.run = custom_files_read,
                          .drop = custom_files_free,
                          .payload = files,
                          .abandon_on_stop = true};
    bool abandoned = false;

    bl_arena_init(&files->arena);
    bl_list_init(&files->commands);
    bl_list_init(&files->notices);
    files->directory =
        bl_arena_text(&files->arena, bl_text_from(chat->work.options->workspace.directory)).data;
    if (bl_work_call(&job, &abandoned) != 0) {
        if (!abandoned)
            custom_files_free(files);
        return;
    }
    BL_LIST_EACH (link, &files->notices)
        bl_workspace_warn(chat->work.workspace, BL_CONTAINER(link, struct bl_notice, link)->text);
    custom_list(chat, files);
    chat->custom = files;
}

void chat_custom_free(struct chat *chat)
{
    custom_files_free(chat->custom);
}

bool chat_custom_run(struct chat *chat, const char *name, struct bl_text arguments)
{
    const struct bl_custom_command *found = NULL;
    BL_AUTO_ARENA(arena);

    if (chat->custom == NULL)
        return false;
    BL_LIST_EACH (link, &chat->custom->commands) {
        const struct bl_custom_command *command =
            BL_CONTAINER(link, struct bl_custom_command, link);
        if (name[0] == '/' && strcmp(command->name, name + 1) == 0)
            found = command;
    }
    if (found == NULL)
        return false;
    struct bl_text prompt = bl_custom_command_prompt(&arena, found, arguments);
    /* Always a prompt, whatever it begins with. */
    if (prompt.size > 0 && (prompt.data[0] == '/' || prompt.data[0] == '!'))
        prompt = bl_arena_printf(&arena, "\n" BL_TEXT_FORMAT, BL_TEXT_ARG(prompt));
    if (prompt.size == 0)
        chat_say(chat, "%s: the prompt would exceed %zu KiB", name, BL_CUSTOM_PROMPT_MAX >> 10);
    else
        chat_give(chat, prompt);
    return true;
}
