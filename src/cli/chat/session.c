/* The session of a conversation: opening it, showing it, and changing to another one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "state.h"

/* Limits for the last turn, shown when a session is resumed. */
#define PROMPT_SHOWN_MAX ((size_t)1000)
#define ANSWER_SHOWN_MAX ((size_t)4000)

/* Opens a session: `id` is NULL for the one that the command line names, empty for a new one. */
static int chat_session_open_agent(struct chat *chat, const char *id, bool must_exist,
                                   struct bl_error *error)
{
    struct bl_agent_options options = run_agent_options(&chat->work);

    if (id != NULL) {
        options.session.id = id[0] != '\0' ? id : NULL;
        options.session.newest = false;
        options.session.must_exist = must_exist;
        options.session.fork = false;
    }
    options.session.prompt = (struct bl_text){0};
    options.listener = &chat->listener;
    options.asker = chat->interactive ? &chat->asker : NULL;
    bl_id_make(chat->work.run_id, "run_");
    /* The agent outlives the scope that opens it. */
    struct bl_scope *outer = bl_scope_enter(chat->home);
    int code = bl_agent_open(&options, &chat->agent, error);
    bl_scope_enter(outer);
    /* True for a new session without a given id. */
    chat->context_used = 0;
    chat->unused = options.session.fork || (options.session.id == NULL && !options.session.newest);
    run_hint_held(code, error);
    return code;
}

void chat_close_session(struct chat *chat)
{
    struct bl_agent *agent = chat->agent;
    struct bl_scope shield;
    char id[72];

    if (agent == NULL)
        return;
    bl_text_into(id, sizeof id, bl_agent_session(agent)->id);
    /* The drawing fiber must not access the agent meanwhile. */
    chat->agent = NULL;
    chat->costs = (struct chat_costs){0};
    chat->model_chosen[0] = '\0';
    chat_shell_forget(chat);
    bl_agent_close(agent);
    /* Otherwise each start of chat would leave an empty session, and the next --continue would find
     * it. */
    if (chat->unused) {
        bl_shield_begin(&shield, BL_STORE_NS_MAX);
        bl_store_delete(chat->work.store, id, NULL);
        bl_shield_end(&shield);
    }
}

int chat_open_session(struct chat *chat, struct bl_error *error)
{
    return chat_session_open_agent(chat, NULL, false, error);
}

/* ---- Showing the session --------------------------------------------------------------------- */

static void chat_session_tell(struct chat *chat, struct bl_text warning)
{
    chat_warn(chat, warning);
    bl_buffer_append(&chat->told, warning);
    bl_buffer_append_byte(&chat->told, '\n');
}

bool chat_was_told(const struct chat *chat, struct bl_text warning)
{
    struct bl_text rest = bl_buffer_text(&chat->told), line;

    while (bl_text_split(&rest, '\n', &line)) {
        if (bl_text_equal(line, warning))
            return true;
    }
    return false;
}

/* Returns the text of a message, without thinking, calls and results. */
static struct bl_text message_text(const struct bl_message *message)
{
    struct bl_text text = {0};

    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_TEXT && block->text.size > 0)
            text = block->text;
    }
    return text;
}

/* Returns the end of a text, from the beginning of a line on. */
static struct bl_text last_part(struct bl_text text, size_t size_max)
{
    if (text.size <= size_max)
        return text;
    text.data += text.size - size_max;
    text.size = size_max;
    const char *line = memchr(text.data, '\n', text.size);
    if (line != NULL)
        return (struct bl_text){line + 1, text.size - (size_t)(line + 1 - text.data)};
    while (text.size > 0 && ((unsigned char)text.data[0] & 0xC0) == 0x80) {
        text.data++;
        text.size--;
    }
    return text;
}

/* Shows the last turn, so that users know where they were. */
static void show_last_turn(struct chat *chat)
{
    const struct bl_session *session = bl_agent_session(chat->agent);
    struct bl_text prompt = {0}, answer = {0};

    if (chat->view == NULL || bl_list_empty(&session->turns))
        return;
    const struct bl_turn_record *record =
        BL_CONTAINER(session->turns.previous, struct bl_turn_record, link);
    BL_LIST_EACH (link, &record->messages) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        struct bl_text text = message_text(message);
        if (message->role == BL_ROLE_USER && prompt.size == 0)
            prompt = text;
        if (message->role == BL_ROLE_ASSISTANT && text.size > 0)
            answer = text;
    }
    if (prompt.size > 0)
        chat_view_prompt(chat->view, bl_utf8_cut(prompt, PROMPT_SHOWN_MAX));
    if (answer.size > ANSWER_SHOWN_MAX)
        chat_say(chat, "The end of the answer:");
    struct bl_event said = {.type = BL_EVENT_TEXT_DELTA,
                            .text = last_part(answer, ANSWER_SHOWN_MAX)};
    if (answer.size > 0)
        chat_view_event(chat->view, &said);
    chat_view_end_text(chat->view);
}

static void chat_session_say_banner(struct chat *chat)
{
    const struct run_options *options = chat->work.options;
    const struct bl_session *session = bl_agent_session(chat->agent);
    const struct bl_model *model = bl_agent_model(chat->agent);
    char turns[48] = "";

    if (session->turns_total > 0)
        snprintf(turns, sizeof turns, " with %" PRIu64 " turn%s", session->turns_total,
                 session->turns_total == 1 ? "" : "s");
    chat_say(chat, "%s %s in %s", model->provider, model->name, options->workspace.directory);
    chat_say(chat, "session %s%s, permissions %s, sandbox %s", session->id, turns,
             bl_permission_mode_name(bl_permissions_mode(chat->work.workspace->permissions)),
             bl_sandbox_name(bl_toolbox_sandbox(chat->work.workspace->toolbox)));
    if (!chat->work.workspace->found.chosen)
        chat_say(chat, "No provider is configured; the built-in script model answers.");
}

void chat_say_opened(struct chat *chat)
{
    const struct bl_store_recovery *recovery = bl_agent_recovery(chat->agent);

    chat_session_say_banner(chat);
    bl_buffer_clear(&chat->told);
    for (size_t i = 0; i < chat->work.workspace->warning_count; i++)
        chat_session_tell(chat, chat->work.workspace->warnings[i]);
    show_last_turn(chat);
    if (recovery->owner_died) {
        struct bl_arena arena;
        bl_arena_init(&arena);
        chat_session_tell(
            chat, bl_store_recovery_text(&arena, bl_agent_session(chat->agent)->id, recovery));
        bl_arena_done(&arena);
    }
}

/* ---- MCP servers of the project -------------------------------------------------------------- */

/* An approval; it is written to a file, on a thread. */
struct agreement {
    const struct bl_mcp_entry *entry;
    struct bl_error error;
    int code;
};

static void agree_on_thread(void *payload)
{
    struct agreement *agreement = payload;

    agreement->code = bl_mcp_trust(agreement->entry, &agreement->error);
}

static void agree(struct chat *chat, const struct bl_mcp_entry *entry)
{
    struct agreement *agreement = bl_zalloc(sizeof *agreement);
    struct bl_work work = {.run = agree_on_thread, .drop = bl_free, .payload = agreement};
    bool abandoned = false;

    agreement->entry = entry;
    int code = bl_work_call(&work, &abandoned);
    if (code == 0 && agreement->code != 0)
        chat_say_error(chat, &agreement->error);
    /* An approval that cannot be saved is valid for this conversation. */
    bl_toolbox_trust(chat->work.workspace->toolbox, entry);
    if (!abandoned)
        bl_free(agreement);
}

/* Shows the command or address of the server. */
static void say_server(struct chat *chat, const struct bl_mcp_entry *entry)
{
    BL_AUTO_BUFFER(line, 4096);

    if (entry->url != NULL)
        bl_buffer_printf(&line, "%s", entry->url);
    else
        bl_buffer_printf(&line, "%s", entry->command);
    for (size_t i = 0; entry->url == NULL && entry->arguments[i] != NULL; i++)
        bl_buffer_printf(&line, " %s", entry->arguments[i]);
    chat_say(chat, "%s configures an MCP server that is not approved yet, %s: " BL_TEXT_FORMAT,
             entry->path, entry->name, BL_TEXT_ARG(bl_buffer_text(&line)));
}

static bool ask_server(struct chat *chat, const struct bl_mcp_entry *entry)
{
    char tool[160];
    struct bl_question question = {.id = "mcp", .tool = tool};
    struct bl_answer answer = {.reply = BL_REPLY_NO};

    snprintf(tool, sizeof tool, "the MCP server %.120s", entry->name);
    say_server(chat, entry);
    int code = chat_ask(chat, &question, &answer);
    if (code == 0 && answer.reply == BL_REPLY_YES)
        agree(chat, entry);
    else
        chat_say(chat, "%s was not started.", entry->name);
    return code == 0;
}

void chat_ask_servers(struct chat *chat)
{
    const struct bl_mcp_entry *const *entry = chat->work.workspace->untrusted;
    struct bl_arena arena;

    if (*entry == NULL)
        return;
    bl_arena_init(&arena);
    chat_busy_begin(chat);
    struct bl_scope *outer = bl_scope_enter(&chat->scope);
    while (*entry != NULL && ask_server(chat, *entry))
        entry++;
    bl_scope_enter(outer);
    chat_busy_end(chat);
    /* Text typed meanwhile was not meant for a turn: it is submitted as a prompt. */
    struct bl_text said = bl_agent_take_back(chat->agent, &arena);
    if (said.size > 0)
        chat_submit_later(chat, said);
    bl_arena_done(&arena);
    chat_redraw(chat);
}

/* ---- Changing the session -------------------------------------------------------------------- */

/* Checks that the session can be opened, before the open one is closed: closing it ends its
 * background commands. */
static bool can_be_had(struct chat *chat, const char *id, struct bl_error *error)
{
    struct bl_store_summary summary;
    BL_AUTO_ARENA(arena);

    int code = bl_store_summary(chat->work.store, &arena, id, &summary, error);
    if (code == 0 && summary.held_by != NULL)
        code = bl_error_set(error, BL_EBUSY, BL_KIND_SESSION, "resume", id,
                            "session %s is held by %s", id, summary.held_by);
    return code == 0;
}

static void change(struct chat *chat, const char *id, struct bl_error *error)
{
    char before[72];

    bl_text_into(before, sizeof before, bl_agent_session(chat->agent)->id);
    chat_close_session(chat);
    if (chat_session_open_agent(chat, id, id[0] != '\0', error) == 0) {
        chat_say_opened(chat);
        return;
    }
    chat_say_error(chat, error);
    *error = (struct bl_error){0};
    chat->agent = NULL;
    if (chat_session_open_agent(chat, before, false, error) != 0) {
        chat_say_error(chat, error);
        chat->agent = NULL;
        chat_leave(chat, CLI_EXIT_FAILED);
    }
}

/* Lets the user choose a session; `id` is the chosen session or its copy. Returns false if none. */
static bool chat_session_pick(struct chat *chat, char id[72], bool *ret_fork)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    const char *copy;
    BL_AUTO_ARENA(arena);

    bool picked = chat_pick(chat, id, ret_fork);
    if (picked && *ret_fork &&
        bl_store_fork(chat->work.store, id, NULL, &arena, &copy, error) != 0) {
        chat_say_error(chat, error);
        picked = false;
    } else if (picked && *ret_fork) {
        bl_text_into(id, 72, copy);
    }
    bl_free(error);
    return picked;
}

bool chat_open_picked(struct chat *chat)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    bool fork;
    char id[72];

    bool opened = chat_session_pick(chat, id, &fork);
    if (!opened) {
        chat_leave(chat, CLI_EXIT_OK);
    } else if (chat_session_open_agent(chat, id, true, error) == 0) {
        chat->unused = fork;
        chat_say_opened(chat);
    } else {
        chat_say_error(chat, error);
        chat->agent = NULL;
        chat_leave(chat, CLI_EXIT_FAILED);
        opened = false;
    }
    bl_free(error);
    return opened;
}

void chat_change_picked(struct chat *chat)
{
    bool fork;
    char id[72];

    if (!chat_session_pick(chat, id, &fork))
        return;
    chat_change_session(chat, id);
    chat->unused = chat->unused || fork;
}

void chat_new_session(struct chat *chat)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    char before[72];

    bl_text_into(before, sizeof before, bl_agent_session(chat->agent)->id);
    if (bl_agent_session(chat->agent)->turns_total > 0)
        chat_say(chat, "Session %s is kept; /resume %s resumes it.", before, before);
    change(chat, "", error);
    bl_free(error);
}

bool chat_can_be_resumed(const struct chat *chat, char id[72])
{
    const struct bl_session *session = chat->agent != NULL ? bl_agent_session(chat->agent) : NULL;

    if (session == NULL || session->turns_total == 0 || chat->unused)
        return false;
    bl_text_into(id, 72, session->id);
    return true;
}

/* Names the store, unless it is the default store. */
void chat_say_resume(struct chat *chat, const char *id)
{
    struct run_work *work = &chat->work;
    const char *usual = getenv("BELAY_STORE");
    struct bl_text store = {0};

    if ((usual != NULL && usual[0] != '\0') ||
        bl_store_default_path(&work->arena, &usual, NULL) == 0)
        store = strcmp(usual, work->options->store) == 0
                    ? (struct bl_text){0}
                    : bl_arena_printf(&work->arena, " --store '%s'",
                                      bl_store_shown(&work->arena, work->options->store));
    chat_say(chat, "Resume with: belay -r %s" BL_TEXT_FORMAT, id, BL_TEXT_ARG(store));
}

void chat_change_session(struct chat *chat, const char *id)
{
    struct bl_error *error = bl_zalloc(sizeof *error);

    if (strcmp(bl_agent_session(chat->agent)->id, id) == 0)
        chat_say(chat, "session %s is already open", id);
    else if (!can_be_had(chat, id, error))
        chat_say_error(chat, error);
    else
        change(chat, id, error);
    bl_free(error);
}
