/* Questions, and the keys that answer them. */
#include <stdio.h>

#include "cli/chat/state.h"

/* Keys pressed within this time after a question appears are not answers to it. */
#define QUESTION_DEAF_NS (400 * BL_NS_PER_MS)
/* A longer command, or one of several lines, is shown in full before the question, which may have
 * to cut it. */
#define COMMAND_SHORT 160u

static bool question_is_plan(const struct bl_question *question)
{
    return strcmp(question->tool, BL_TOOL_PLAN) == 0;
}

static void show_whole(struct chat *chat, const struct bl_question *question)
{
    static const struct text_style plain = {0};
    struct bl_text command = bl_json_text(bl_json_get(question->input, BL_TEXT("command")));
    bool lines = command.size > 0 && memchr(command.data, '\n', command.size) != NULL;

    if (question_is_plan(question)) {
        chat_view_markdown(chat->view, bl_json_text(bl_json_get(question->input, BL_TEXT("plan"))));
        return;
    }
    if (!lines && command.size <= COMMAND_SHORT)
        return;
    chat_say(chat, "%s command:", question->tool);
    chat_view_row(chat->view, "  ", command, &plain);
}

int chat_ask(void *context, const struct bl_question *question, struct bl_answer *ret_answer)
{
    struct chat *chat = context;
    struct chat_question waiting = {.asked = question, .since_ns = bl_now_ns()};

    bl_semaphore_init(&waiting.answered, 0);
    show_whole(chat, question);
    chat->question = &waiting;
    chat_notify(chat, "it asks for permission");
    chat_redraw(chat);
    int code = bl_semaphore_take(&waiting.answered);
    chat->question = NULL;
    chat_redraw(chat);
    *ret_answer = waiting.answer;
    if (code == 0 && waiting.keep != KEEP_HERE)
        chat_permissions_keep(chat, question->rule, waiting.keep == KEEP_EVERYWHERE);
    return code;
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void question_settle(struct chat *chat, struct chat_question *question)
{
    chat->question = NULL;
    bl_semaphore_give(&question->answered);
}

/* Keeps the answer as a rule. Returns false if the question has no rule, so that the answer was not
 * offered. */
static bool question_keep(struct chat_question *question, char letter)
{
    if (question->asked->rule.size == 0)
        return false;
    question->answer.reply = BL_REPLY_ALWAYS;
    question->keep = letter == 'p' ? KEEP_IN_PROJECT : letter == 'e' ? KEEP_EVERYWHERE : KEEP_HERE;
    return true;
}

/* Reads an answer. Returns false if the letter is not an answer to this question. */
static bool question_read(struct chat_question *question, struct bl_text text)
{
    bool plan = question_is_plan(question->asked);

    if (text.size != 1)
        return false;
    switch (text.data[0] | 0x20) {
    case 'y': question->answer.reply = BL_REPLY_YES; return true;
    case 'n': question->answer.reply = BL_REPLY_NO; return true;
    case 'a':
        if (!plan)
            return question_keep(question, 'a');
        question->answer.reply = BL_REPLY_YES;
        question->answer.mode = BL_PERMISSION_AUTO;
        return true;
    case 'p':
    case 'e': return question_keep(question, (char)(text.data[0] | 0x20));
    case 't': question->telling = question->asked->arena != NULL; return question->telling;
    default: return false;
    }
}

/* Handles a key while the user is typing what to do instead. */
static bool question_tell_key(struct chat *chat, struct chat_question *question,
                              const struct key *key)
{
    struct bl_text line = bl_text_trim(edit_line_text(&chat->line));

    if (key->type != KEY_ENTER && key->type != KEY_ESCAPE)
        return false;
    if (key->type == KEY_ENTER && line.size > BL_REASON_MAX) {
        bl_buffer_printf(&chat->menu, "Not sent: %zu bytes exceed the limit of %zu.\n", line.size,
                         BL_REASON_MAX);
        return true;
    }
    question->telling = false;
    if (key->type == KEY_ENTER && line.size > 0) {
        question->answer.reply = BL_REPLY_NO;
        question->answer.reason = bl_arena_text(question->asked->arena, line);
        question_settle(chat, question);
    }
    edit_line_set(&chat->line, (struct bl_text){0});
    return true;
}

/* Input that arrives too early to be an answer is text, and so is what follows it. If the text is
 * exactly an answer, Enter gives it. */
bool chat_question_key(struct chat *chat, const struct key *key)
{
    struct chat_question *question = chat->question;
    struct bl_text line = edit_line_text(&chat->line);

    if (question == NULL || chat->line.searching)
        return false;
    if (question->telling)
        return question_tell_key(chat, question, key);
    if (key->type == KEY_ENTER) {
        if (!question_read(question, bl_text_trim(line)))
            return false;
        edit_line_set(&chat->line, (struct bl_text){0});
    } else if (key->type != KEY_TEXT || line.size > 0 ||
               bl_now_ns() - question->since_ns < QUESTION_DEAF_NS ||
               !question_read(question, key->text)) {
        return false;
    }
    if (!question->telling)
        question_settle(chat, question);
    return true;
}

/* ---- Display --------------------------------------------------------------------------------- */

static const struct text_style strong = {.bold = true, .colour = TEXT_YELLOW}, plain = {0},
                               dim = {.dim = true};

static void write_subject(struct chat *chat, const struct bl_question *asked,
                          struct text_wrap *wrap)
{
    if (question_is_plan(asked)) {
        text_wrap_add(wrap, BL_TEXT("Proceed with this plan? "), &strong);
        return;
    }
    text_wrap_add(wrap, BL_TEXT("Allow "), &strong);
    text_wrap_add(wrap, bl_text_from(asked->tool), &strong);
    if (asked->agent != NULL) {
        text_wrap_add(wrap, BL_TEXT(" of "), &strong);
        text_wrap_add(wrap, chat_view_agent_name(chat->view, asked->agent), &strong);
        text_wrap_add(wrap, BL_TEXT(" "), &strong);
        text_wrap_add(wrap, bl_text_from(asked->agent), &strong);
    }
    text_wrap_add(wrap, BL_TEXT("? "), &strong);
}

static void write_keys(const struct bl_question *asked, struct text_wrap *wrap)
{
    if (question_is_plan(asked)) {
        text_wrap_add(
            wrap,
            BL_TEXT(
                "y yes and ask before changes, a yes in mode auto, n no, t say what to change, "),
            &plain);
    } else {
        text_wrap_add(wrap, BL_TEXT("y yes, n no, "), &plain);
        if (asked->arena != NULL)
            text_wrap_add(wrap, BL_TEXT("t say what to do instead, "), &plain);
    }
    if (asked->rule.size > 0) {
        text_wrap_add(wrap, BL_TEXT("a always "), &plain);
        text_wrap_add(wrap, asked->rule, &plain);
        text_wrap_add(wrap, BL_TEXT(", p in this project, e everywhere, "), &plain);
    }
    /* Without an input, the question is about an MCP server, not about a call. */
    text_wrap_add(wrap,
                  asked->input != NULL ? BL_TEXT("Esc stops the turn") : BL_TEXT("Esc no to all"),
                  &dim);
}

void chat_question_write(struct chat *chat, struct bl_buffer *out)
{
    const struct chat_question *question = chat->question;
    struct text_wrap wrap;

    text_wrap_init(&wrap, out, chat->columns, chat->colours);
    if (question->telling) {
        text_wrap_add(&wrap,
                      question_is_plan(question->asked) ? BL_TEXT("What should change? ")
                                                        : BL_TEXT("What should it do instead? "),
                      &strong);
        text_wrap_add(&wrap, BL_TEXT("Enter sends your text, Esc goes back."), &dim);
    } else {
        write_subject(chat, question->asked, &wrap);
        if (edit_line_text(&chat->line).size > 0)
            text_wrap_add(&wrap, BL_TEXT("Enter sends your text, Ctrl+U clears it; then answer."),
                          &dim);
        else
            write_keys(question->asked, &wrap);
    }
    text_wrap_end_line(&wrap);
    text_wrap_done(&wrap);
}
