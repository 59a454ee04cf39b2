/* What begins with a slash. */
#include <inttypes.h>
#include <stdio.h>

#include "state.h"

#define SESSIONS_SHOWN 20u
#define RECEIPT_MAX    ((size_t)1024 * 1024)

bool chat_is_command(struct bl_text text)
{
    struct bl_text rest = text, word;

    if (text.size == 0 || text.data[0] != '/')
        return false;
    /* "/etc/hosts has two entries" is about a path. */
    bl_text_split(&rest, ' ', &word);
    return memchr(word.data + 1, '/', word.size - 1) == NULL;
}

static void chat_command_copy_text(char *out, size_t size, struct bl_text text)
{
    snprintf(out, size, BL_TEXT_FORMAT, BL_TEXT_ARG(bl_utf8_cut(text, size - 1)));
}

/* ---- What there is --------------------------------------------------------------------------- */

static void help(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    for (const struct edit_command *row = chat_commands; row->name != NULL; row++)
        chat_say_row(chat, row->name, "%s", row->summary);
    chat_say(chat, "Esc or Ctrl+C stops the turn, again skips its graces; Ctrl+D leaves. "
                   "Alt+Enter, Ctrl+J or \\ and Enter begin a new line. Ctrl+R searches, Tab "
                   "completes.");
}

static void tools(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    const struct bl_tools *offered = bl_agent_tools(chat->agent);

    for (size_t i = 0; i < offered->offer_count; i++) {
        struct bl_text rest = bl_text_from(offered->offers[i].description), sentence;
        bl_text_split(&rest, '.', &sentence);
        chat_say_row(chat, offered->offers[i].name, BL_TEXT_FORMAT ".", BL_TEXT_ARG(sentence));
    }
}

static void model(struct chat *chat, struct bl_text argument)
{
    const struct bl_model *now = bl_agent_model(chat->agent);
    struct bl_error *error = bl_zalloc(sizeof *error);
    char name[256];

    chat_command_copy_text(name, sizeof name, argument);
    if (argument.size > 0 && chat->work.workspace->found.provider == NULL)
        chat_say(chat, "a script plays the model here: there is no other");
    else if (argument.size > 0 && bl_agent_set_model(chat->agent, name, error) != 0)
        chat_say_error(chat, error);
    else
        chat_say(chat, "%s %s", now->provider, now->name);
    bl_free(error);
}

static void cost(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    const struct bl_session *session = bl_agent_session(chat->agent);
    const struct bl_spent *spent = bl_agent_spent(chat->agent);

    chat_say(chat, "the session: %" PRIu64 " tokens in, %" PRIu64 " out, %" PRIu64 " turn%s",
             session->usage.input_tokens, session->usage.output_tokens, session->turns_total,
             session->turns_total == 1 ? "" : "s");
    if (spent->cost_unknown)
        chat_say(chat,
                 "spent since it was opened, stopped turns too: %" PRIu64 " in, %" PRIu64
                 " out; the price is not known",
                 spent->usage.input_tokens, spent->usage.output_tokens);
    else
        chat_say(chat,
                 "spent since it was opened, stopped turns too: %" PRIu64 " in, %" PRIu64
                 " out, $%.4f",
                 spent->usage.input_tokens, spent->usage.output_tokens, spent->cost_usd);
}

static void permissions(struct chat *chat, struct bl_text argument)
{
    struct bl_permissions *rules = chat->work.workspace->permissions;
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_text rest = argument, word;
    enum bl_permission_mode mode;
    char text[512];
    int code = 0;

    bl_text_split(&rest, ' ', &word);
    bool allow = bl_text_equal(word, BL_TEXT("allow"));
    if (allow || bl_text_equal(word, BL_TEXT("deny"))) {
        chat_command_copy_text(text, sizeof text, bl_text_trim(rest));
        code = bl_permissions_add(rules, allow, text, error);
    } else if (argument.size > 0) {
        chat_command_copy_text(text, sizeof text, argument);
        code = bl_permission_mode_parse(text, &mode, error);
        if (code == 0)
            bl_permissions_set_mode(rules, mode);
    }
    if (code != 0) {
        chat_say_error(chat, error);
    } else {
        chat_say_row(chat, "mode", "%s", bl_permission_mode_name(bl_permissions_mode(rules)));
        chat_say_row(chat, "sandbox", "%s",
                     bl_sandbox_name(bl_toolbox_sandbox(chat->work.workspace->toolbox)));
        for (size_t i = 0; bl_permissions_rule(rules, i, &allow) != NULL; i++) {
            const char *rule = bl_permissions_rule(rules, i, &allow);
            chat_say_row(chat, allow ? "allow" : "deny", "%s", rule);
        }
    }
    bl_free(error);
}

/* ---- What runs ------------------------------------------------------------------------------- */

static void ps(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    uint64_t now_ns = bl_now_ns();
    bool any = false;

    BL_LIST_EACH (link, &chat->work.activities.list) {
        const struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        char age[32];
        bl_duration_format((int64_t)(now_ns - activity->started_ns), age);
        chat_say_row(chat, activity->kind, "%s, %s, %s", activity->id,
                     bl_scope_stopped(activity->scope) ? "stopping" : activity->phase, age);
        any = true;
    }
    if (!any)
        chat_say(chat, "nothing runs");
}

static void chat_command_cancel(struct chat *chat, struct bl_text argument)
{
    BL_AUTO_BUFFER(receipt, RECEIPT_MAX);
    char id[80];

    if (argument.size == 0) {
        chat_say(chat, "/cancel ID; /ps shows them");
        return;
    }
    chat_command_copy_text(id, sizeof id, argument);
    if (bl_activities_cancel(&chat->work.activities, id, "/cancel", &receipt) == BL_ENOENT)
        chat_say(chat, "nothing with the id '%s' runs; /ps shows what does", id);
    else if (receipt.size == 0)
        chat_say(chat, "%s had come to its end", id);
    else if (chat->view != NULL)
        chat_view_receipt(chat->view, bl_buffer_text(&receipt));
    else
        chat_lines_receipt(chat, bl_buffer_text(&receipt));
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void sessions(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_list list;
    struct bl_arena arena;

    bl_arena_init(&arena);
    if (bl_store_list(chat->work.store, &arena, chat->work.options->workspace.directory,
                      SESSIONS_SHOWN, false, &list, error) != 0) {
        chat_say_error(chat, error);
    } else {
        BL_LIST_EACH (link, &list) {
            const struct bl_store_summary *summary =
                BL_CONTAINER(link, struct bl_store_summary, link);
            char updated[32];
            bl_time_format(summary->updated_wall_ns, updated);
            chat_say(chat, "%s, %.10s %.5s, %" PRIu64 " turn%s%s: " BL_TEXT_FORMAT, summary->id,
                     updated, updated + 11, summary->turns, summary->turns == 1 ? "" : "s",
                     summary->held_by != NULL ? ", in use" : "",
                     BL_TEXT_ARG(bl_utf8_cut(bl_text_from(summary->title), 60)));
        }
    }
    bl_arena_done(&arena);
    bl_free(error);
}

static void chat_command_resume(struct chat *chat, struct bl_text argument)
{
    char id[80];

    if (argument.size == 0) {
        chat_say(chat, "/resume ID; /sessions shows them");
        return;
    }
    chat_command_copy_text(id, sizeof id, argument);
    chat_change_session(chat, id);
}

static void chat_command_fork_session(struct chat *chat, struct bl_text argument)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    const char *new_id;
    struct bl_arena arena;
    char id[80];

    bl_arena_init(&arena);
    chat_command_copy_text(id, sizeof id, argument);
    if (bl_store_fork(chat->work.store, bl_agent_session(chat->agent)->id,
                      argument.size > 0 ? id : NULL, &arena, &new_id, error) != 0)
        chat_say_error(chat, error);
    else
        chat_change_session(chat, new_id);
    bl_arena_done(&arena);
    bl_free(error);
}

static void chat_command_compact(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    uint64_t dropped;

    chat_busy_begin(chat);
    int code = bl_agent_compact(chat->agent, &chat->scope, &dropped, error);
    chat_busy_end(chat);
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        chat_say(chat, "stopped: the context is as it was");
    else if (code != 0)
        chat_say_error(chat, error);
    else if (dropped == 0)
        chat_say(chat, "there is nothing to sum up yet");
    bl_free(error);
}

static void quit(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    chat_interrupt(chat, BL_STOP_USER, "/quit");
    chat_leave(chat, CLI_EXIT_OK);
}

/* ---- The table ------------------------------------------------------------------------------- */

const struct edit_command chat_commands[] = {
    {"/help", "what there is"},
    {"/model", "NAME: another model from the next prompt on"},
    {"/tools", "what the model can call"},
    {"/sessions", "the sessions of this folder"},
    {"/resume", "ID: go on with that session"},
    {"/fork", "[ID]: go on in a copy of this session"},
    {"/compact", "sum up what was said, to make room"},
    {"/cancel", "ID: stop a sub-agent, a call or a job"},
    {"/ps", "what runs now"},
    {"/cost", "tokens and money"},
    {"/permissions", "[MODE | allow RULE | deny RULE]"},
    {"/quit", "leave"},
    {0},
};

static const struct {
    void (*run)(struct chat *chat, struct bl_text argument);
    bool at_once; /* also while a turn runs */
} actions[BL_COUNT(chat_commands) - 1] = {
    {help, true},
    {model, false},
    {tools, true},
    {sessions, true},
    {chat_command_resume, false},
    {chat_command_fork_session, false},
    {chat_command_compact, false},
    {chat_command_cancel, true},
    {ps, true},
    {cost, true},
    {permissions, true},
    {quit, true},
};

bool chat_command_run(struct chat *chat, struct bl_text text, bool now)
{
    struct bl_suggestion suggestion;
    struct bl_text rest = text, name;
    char shown[64];

    bl_text_split(&rest, ' ', &name);
    chat_command_copy_text(shown, sizeof shown, name);
    bl_suggestion_init(&suggestion, shown);
    for (size_t i = 0; chat_commands[i].name != NULL; i++) {
        bl_suggestion_offer(&suggestion, chat_commands[i].name);
        if (strcmp(chat_commands[i].name, shown) != 0)
            continue;
        if (now && !actions[i].at_once) {
            chat_say(chat, "%s waits for the end of the turn", shown);
            return false;
        }
        actions[i].run(chat, bl_text_trim(rest));
        return true;
    }
    chat_say(chat, "there is no %s%s%s%s; /help shows what there is", shown,
             suggestion.best != NULL ? ": did you mean " : "",
             suggestion.best != NULL ? suggestion.best : "", suggestion.best != NULL ? "?" : "");
    return true;
}
