/* Notifications for a user who is looking elsewhere: the title of the window, and a bell or a
 * desktop notification when a turn has ended or has a question. */
#include <stdio.h>

#include "state.h"

#define TITLE_COLUMNS 60u

static const struct bl_chat_settings *notify_settings(const struct chat *chat)
{
    return &chat->work.workspace->project->settings.chat;
}

static enum bl_notify notify_how(const struct chat *chat)
{
    const struct run_options *options = chat->work.options;
    enum bl_notify how = options->notify_chosen ? options->notify : notify_settings(chat)->notify;

    return how == BL_NOTIFY_OSC9 && !terminal_takes_strings() ? BL_NOTIFY_BELL : how;
}

void chat_notify(struct chat *chat, const char *text)
{
    uint64_t since_ns = chat->busy_since_ns > chat->key_ns ? chat->busy_since_ns : chat->key_ns;

    if (chat->terminal == NULL || bl_now_ns() - since_ns < notify_settings(chat)->notify_after_ns)
        return;
    switch (notify_how(chat)) {
    case BL_NOTIFY_OFF: break;
    case BL_NOTIFY_BELL: bl_buffer_append_byte(&chat->signs, '\a'); break;
    case BL_NOTIFY_OSC9: bl_buffer_printf(&chat->signs, "\x1B]9;belay: %s\x1B\\", text); break;
    }
    chat_redraw(chat);
}

/* Shows the name of the folder, with a sign while a turn is running or has a question. */
void chat_show_title(struct chat *chat)
{
    const char *folder = chat->work.options->workspace.directory, *slash = strrchr(folder, '/');
    const char *sign = chat->question != NULL ? "? " : chat->busy ? "\xE2\x80\xA6 " : "";
    BL_AUTO_BUFFER(title, SIZE_MAX / 2);
    struct text_line line;

    if (!notify_settings(chat)->title)
        return;
    text_line_init(&line, &title, TITLE_COLUMNS, false);
    text_line_add(&line, bl_text_from(sign), &(struct text_style){0});
    text_line_add(&line, BL_TEXT("belay: "), &(struct text_style){0});
    text_line_add(&line, bl_text_from(slash != NULL && slash[1] != '\0' ? slash + 1 : folder),
                  &(struct text_style){0});
    text_line_end(&line);
    terminal_title(chat->terminal, bl_text_trim(bl_buffer_text(&title)));
}
