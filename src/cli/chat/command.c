/* Slash commands. */
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

/* ---- Help and tools -------------------------------------------------------------------------- */

static void help(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    for (const struct edit_command *row = chat->commands; row->name != NULL; row++)
        chat_say_row(chat, row->name, "%s", row->summary);
    chat_say(
        chat,
        "Esc or Ctrl+C stops the turn; a second one skips the grace periods. Ctrl+D leaves. "
        "Alt+Enter, Ctrl+J, or \\ before Enter starts a new line. Ctrl+R searches the history, Tab "
        "completes, Shift+Tab changes the permission mode. !COMMAND runs a command.");
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

static void chat_command_context(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    chat_say_context(chat);
}

/* ---- Running work ---------------------------------------------------------------------------- */

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
        chat_say(chat, "no running work");
}

static void chat_command_cancel(struct chat *chat, struct bl_text argument)
{
    BL_AUTO_BUFFER(receipt, RECEIPT_MAX);
    char id[80];

    if (argument.size == 0) {
        chat_say(chat, "usage: /cancel ID; /ps lists the ids");
        return;
    }
    chat_command_copy_text(id, sizeof id, argument);
    if (bl_activities_cancel(&chat->work.activities, id, "/cancel", &receipt) == BL_ENOENT)
        chat_say(chat, "no running work with id '%s'; /ps lists the ids", id);
    else if (receipt.size == 0)
        chat_say(chat, "%s had already ended", id);
    else if (strstr(id, "job_") != NULL)
        return; /* the receipt of a background command was shown when it ended */
    else if (chat->view != NULL)
        chat_view_receipt(chat->view, bl_buffer_text(&receipt));
    else
        chat_lines_receipt(chat, bl_buffer_text(&receipt));
}

/* On success, the event reports it. */
static void chat_command_finish(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    if (bl_agent_finish(chat->agent, "/finish") != 0)
        chat_say(chat, "no running work");
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
            char age[32], cost[32] = "";
            bl_duration_format(bl_clock_wall_ns(&bl_clock_system) - summary->updated_wall_ns, age);
            if (!summary->spent.cost_unknown)
                snprintf(cost, sizeof cost, ", $%.3f", summary->spent.cost_usd);
            chat_say(chat, "%s, %s ago%s, %" PRIu64 " turn%s%s: " BL_TEXT_FORMAT, summary->id, age,
                     cost, summary->turns, summary->turns == 1 ? "" : "s",
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

    if (argument.size == 0 && chat->terminal != NULL) {
        chat_change_picked(chat);
        return;
    }
    if (argument.size == 0) {
        chat_say(chat, "usage: /resume ID; /sessions lists the ids");
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

static void chat_command_new(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    chat_new_session(chat);
}

static void chat_command_clear(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    chat->wiped = true;
    chat_new_session(chat);
}

static void chat_command_compact(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    uint64_t dropped;

    chat_busy_begin(chat);
    int code = bl_agent_compact(chat->agent, &chat->scope, &dropped, error);
    chat_busy_end(chat);
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        chat_say(chat, "stopped; the context is unchanged");
    else if (code != 0)
        chat_say_error(chat, error);
    else if (dropped == 0)
        chat_say(chat, "nothing to compact yet");
    bl_free(error);
}

static void quit(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    chat_interrupt(chat, BL_STOP_USER, "/quit");
    chat_leave(chat, CLI_EXIT_OK);
}

/* ---- The table ------------------------------------------------------------------------------- */

const struct edit_command chat_commands[] = {
    {"/help", "list the commands"},
    {"/model", "[NAME]: list the models, or use another one"},
    {"/tools", "list the tools of the model"},
    {"/sessions", "list the sessions of this folder"},
    {"/resume", "[ID]: resume another session"},
    {"/fork", "[ID]: continue in a copy of this session"},
    {"/new", "start a new session; this one is kept"},
    {"/clear", "start a new session and clear the screen"},
    {"/compact", "summarize earlier turns, to free room in the context"},
    {"/cancel", "ID: stop a sub-agent, a tool call or a job"},
    {"/finish", "stop the turn after the step in flight"},
    {"/ps", "list running work"},
    {"/cost", "show tokens and cost of the turn, the session, each model"},
    {"/diff", "show the changes since the last commit"},
    {"/context", "show what fills the context, and the room left"},
    {"/plan", "[PROMPT]: change nothing before you approve a plan"},
    {"/permissions", "[MODE | allow, deny or remove RULE]: show or change permissions"},
    {"/vim", "switch vim keys on or off"},
    {"/quit", "leave the conversation"},
    {0},
};

static const struct {
    void (*run)(struct chat *chat, struct bl_text argument);
    bool at_once; /* may run during a turn */
} actions[BL_COUNT(chat_commands) - 1] = {
    {help, true},
    {chat_model, false},
    {tools, true},
    {sessions, true},
    {chat_command_resume, false},
    {chat_command_fork_session, false},
    {chat_command_new, false},
    {chat_command_clear, false},
    {chat_command_compact, false},
    {chat_command_cancel, true},
    {chat_command_finish, true},
    {ps, true},
    {chat_cost, true},
    {chat_changes, true},
    {chat_command_context, true},
    {chat_mode_plan, true},
    {chat_permissions, true},
    {chat_mode_vim, true},
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
    if (chat_custom_run(chat, shown, bl_text_trim(rest)))
        return true;
    for (size_t i = BL_COUNT(chat_commands) - 1; chat->commands[i].name != NULL; i++)
        bl_suggestion_offer(&suggestion, chat->commands[i].name);
    chat_say(chat, "unknown command %s; %s%s%s", shown,
             suggestion.best != NULL ? "did you mean " : "/help lists the commands",
             suggestion.best != NULL ? suggestion.best : "", suggestion.best != NULL ? "?" : "");
    return true;
}
