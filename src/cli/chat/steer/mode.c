/* The permission mode: Shift+Tab cycles through the modes, /plan starts with a plan. */
#include <stdio.h>

#include "cli/chat/state.h"

static const char *mode_about(enum bl_permission_mode mode)
{
    static const char *const texts[] = {
        [BL_PERMISSION_ASK] = "asks before changes and commands",
        [BL_PERMISSION_AUTO] = "runs what stays in the workspace or the sandbox",
        [BL_PERMISSION_READ_ONLY] = "changes nothing",
        [BL_PERMISSION_YOLO] = "runs everything that no rule denies",
        [BL_PERMISSION_PLAN] = "changes nothing before you approve a plan",
    };

    return texts[mode];
}

static void mode_set(struct chat *chat, enum bl_permission_mode mode)
{
    bl_permissions_set_mode(chat->work.workspace->permissions, mode);
    bl_buffer_clear(&chat->hint);
    bl_buffer_printf(&chat->hint, "mode %s: %s", bl_permission_mode_name(mode), mode_about(mode));
    chat_redraw(chat);
}

/* The cycle always includes the mode at the start. */
void chat_mode_next(struct chat *chat)
{
    static const enum bl_permission_mode round[] = {BL_PERMISSION_ASK, BL_PERMISSION_AUTO,
                                                    BL_PERMISSION_PLAN};
    enum bl_permission_mode mode = bl_permissions_mode(chat->work.workspace->permissions);
    bool extra =
        chat->first_mode == BL_PERMISSION_YOLO || chat->first_mode == BL_PERMISSION_READ_ONLY;
    size_t at = 0;

    while (at < BL_COUNT(round) && round[at] != mode)
        at++;
    if (at + 1 < BL_COUNT(round))
        mode_set(chat, round[at + 1]);
    else if (at < BL_COUNT(round) && extra)
        mode_set(chat, chat->first_mode);
    else
        mode_set(chat, round[0]);
}

void chat_mode_plan(struct chat *chat, struct bl_text prompt)
{
    mode_set(chat, BL_PERMISSION_PLAN);
    if (prompt.size > 0 && chat->busy)
        chat_submit_later(chat, prompt);
    else if (prompt.size > 0)
        chat_submit(chat, prompt);
    else
        chat_say(chat, "Nothing is changed before you approve a plan; Shift+Tab changes the mode.");
}

void chat_mode_vim(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    chat->line.vim = (struct edit_vim){.on = !chat->line.vim.on};
    chat_say(chat, chat->line.vim.on
                       ? "vim keys are on: Esc enters normal mode, and from there stops a turn"
                       : "vim keys are off");
}
