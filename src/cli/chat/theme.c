/* Colours that suit the terminal's background. */
#include "state.h"

/* A terminal on this machine replies within a few milliseconds. It must not delay the start longer
 * than this; a later reply takes effect when it arrives. */
#define ANSWER_NS (50 * BL_NS_PER_MS)
/* Until then, incoming bytes may belong to the reply. */
#define EXPECTED_NS (3 * BL_NS_PER_S)

void chat_take_reply(struct chat *chat, struct bl_text reply)
{
    bool light;

    if (reply.size == 0)
        chat->keys.expecting = false;
    else if (chat->asked_ns != 0 && text_background_told(reply, &light))
        text_colours_for(light);
}

void chat_expect_reply(struct chat *chat)
{
    if (chat->keys.expecting && bl_now_ns() - chat->asked_ns > EXPECTED_NS)
        chat->keys.expecting = false;
}

/* Waits for the reply. Keys typed meanwhile stay in chat->keys. */
static void theme_await_reply(struct chat *chat)
{
    uint64_t until_ns = bl_now_ns() + ANSWER_NS, now_ns;
    struct terminal_input input;
    struct keys replies;
    struct key key;

    keys_init(&replies);
    replies.expecting = true;
    while (chat->keys.expecting && (now_ns = bl_now_ns()) < until_ns &&
           terminal_read(chat->terminal, until_ns - now_ns, &input) == 0 && !input.gone) {
        keys_add(&chat->keys, input.bytes);
        keys_add(&replies, input.bytes);
        while (keys_next(&replies, true, &key)) {
            if (key.type == KEY_REPLY)
                chat_take_reply(chat, key.text);
        }
    }
    keys_done(&replies);
}

static void theme_ask(struct chat *chat)
{
    struct bl_scope moment;

    bl_limit_begin(&moment, ANSWER_NS);
    int code = terminal_write(chat->terminal, BL_TEXT(TERMINAL_ASK_BACKGROUND));
    bl_limit_end(&moment);
    chat->asked_ns = bl_now_ns();
    chat->keys.expecting = code == 0;
    theme_await_reply(chat);
}

void chat_choose_colours(struct chat *chat)
{
    const struct run_options *options = chat->work.options;
    enum bl_theme theme =
        options->theme_chosen ? options->theme : chat->work.workspace->project->settings.chat.theme;
    bool light = theme == BL_THEME_LIGHT;

    if (!chat->colours)
        return;
    bool known = theme != BL_THEME_AUTO || text_background_known(bl_variable("COLORFGBG"), &light);
    text_colours_for(known && light);
    if (!known && terminal_takes_strings())
        theme_ask(chat);
}
