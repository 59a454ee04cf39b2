/* The user's shell commands: `!make test`. They run as the model's commands do, by the same tool,
 * but without a question; their results go to the model with the next prompt. */
#include <stdio.h>

#include "cli/chat/state.h"

/* Limit for the commands since the last prompt, together. */
#define SHELL_SAID_MAX ((size_t)256 * 1024)
#define RECEIPT_MAX    ((size_t)1024 * 1024)

bool chat_is_shell(const struct chat *chat, struct bl_text text)
{
    return chat->terminal != NULL && text.size > 0 && text.data[0] == '!';
}

/* A running command. */
struct shell_run {
    struct bl_tool_call call; /* callbacks find the struct by it */
    struct chat *chat;
    char id[BL_ID_SIZE];
};

static void shell_tell_event(const struct shell_run *run, struct bl_event event)
{
    event.id = bl_text_from(run->id);
    event.name = BL_TEXT("bash");
    chat_view_event(run->chat->view, &event);
    chat_redraw(run->chat);
}

static void shell_output(const struct bl_tool_call *call, struct bl_text bytes)
{
    const struct shell_run *run = BL_CONTAINER(call, struct shell_run, call);

    shell_tell_event(run, (struct bl_event){.type = BL_EVENT_TOOL_OUTPUT, .text = bytes});
}

static void shell_tell(const struct bl_tool_call *call, struct bl_event *event)
{
    shell_tell_event(BL_CONTAINER(call, struct shell_run, call), *event);
}

/* ---- For the model --------------------------------------------------------------------------- */

static void shell_remember(struct chat *chat, struct bl_text command, struct bl_text result)
{
    size_t size = command.size + result.size;

    if (chat->shell_said.size + size > SHELL_SAID_MAX) {
        bl_buffer_clear(&chat->shell_said);
        bl_buffer_append(&chat->shell_said, BL_TEXT("(Earlier commands are left out.)\n\n"));
    }
    bl_buffer_printf(&chat->shell_said, "$ " BL_TEXT_FORMAT "\n" BL_TEXT_FORMAT "\n\n",
                     BL_TEXT_ARG(command), BL_TEXT_ARG(bl_text_trim(result)));
}

struct bl_text chat_shell_prompt(struct chat *chat, struct bl_text prompt, struct bl_arena *arena)
{
    struct bl_text said = bl_text_trim(bl_buffer_text(&chat->shell_said));

    if (said.size == 0)
        return prompt;
    return bl_arena_printf(arena,
                           BL_TEXT_FORMAT "\n\n"
                                          "The user ran these commands since the last prompt, in "
                                          "the same directory:\n\n" BL_TEXT_FORMAT,
                           BL_TEXT_ARG(prompt), BL_TEXT_ARG(said));
}

void chat_shell_forget(struct chat *chat)
{
    bl_buffer_clear(&chat->shell_said);
}

/* ---- The command ----------------------------------------------------------------------------- */

static struct bl_text shell_input(struct bl_arena *arena, struct bl_text command)
{
    struct bl_json_writer *writer = bl_alloc(sizeof *writer);
    BL_AUTO_BUFFER(out, SIZE_MAX / 2);

    bl_json_writer_init(writer, &out);
    bl_json_write_object(writer);
    bl_json_put_text(writer, "command", command);
    bl_json_write_end(writer);
    bl_json_writer_done(writer);
    bl_free(writer);
    return bl_arena_text(arena, bl_buffer_text(&out));
}

static void shell_show_receipt(struct chat *chat, const struct bl_receipt *receipt)
{
    struct bl_json_writer *writer = bl_alloc(sizeof *writer);
    BL_AUTO_BUFFER(out, RECEIPT_MAX);

    bl_json_writer_init(writer, &out);
    bl_receipt_write(receipt, writer);
    bl_json_writer_done(writer);
    bl_free(writer);
    chat_view_receipt(chat->view, bl_buffer_text(&out));
}

/* Calls the tool in the scope that Esc stops. */
static int shell_call(struct shell_run *run, struct bl_tool_result *ret_result,
                      struct bl_error *error)
{
    const struct bl_tools *tools = bl_toolbox_tools(run->chat->work.workspace->toolbox);
    struct bl_receipt receipt;

    struct bl_scope *outer = bl_scope_enter(&run->chat->scope);
    bl_receipt_open(&receipt, &run->chat->scope, run->id);
    int code = tools->call(tools->context, &run->call, ret_result, error);
    bool stopped = bl_scope_stopped(&run->chat->scope) && bl_receipt_ready(&receipt);
    if (stopped)
        shell_show_receipt(run->chat, &receipt);
    bl_receipt_close(&receipt);
    bl_scope_enter(outer);
    return code;
}

static void shell_run_command(struct chat *chat, struct bl_text command, struct bl_arena *arena)
{
    struct shell_run run = {.chat = chat};
    struct bl_error *error = bl_arena_zalloc(arena, sizeof *error);
    struct bl_tool_result result = {0};
    uint64_t from_ns = bl_now_ns();

    bl_id_make(run.id, "sh_");
    run.call = (struct bl_tool_call){.id = run.id,
                                     .name = "bash",
                                     .input_text = shell_input(arena, command),
                                     .scope = &chat->scope,
                                     .arena = arena,
                                     .output = shell_output,
                                     .tell = shell_tell};
    bl_json_read(arena, run.call.input_text, NULL, &run.call.input, NULL);
    shell_tell_event(
        &run, (struct bl_event){.type = BL_EVENT_TOOL_REQUESTED, .json = run.call.input_text});
    shell_tell_event(&run, (struct bl_event){.type = BL_EVENT_TOOL_STARTED, .call = &run.call});
    int code = shell_call(&run, &result, error);
    bool stopped = code == BL_ECANCELED || code == BL_ETIMEDOUT;
    shell_tell_event(&run, (struct bl_event){.type = BL_EVENT_TOOL_ENDED,
                                             .status = stopped           ? "stopped"
                                                       : code != 0       ? "error"
                                                       : result.is_error ? "error"
                                                                         : "ok",
                                             .text = result.text,
                                             .ms = (bl_now_ns() - from_ns) / BL_NS_PER_MS});
    if (code != 0 && !stopped)
        chat_say_error(chat, error);
    else
        shell_remember(chat, command, result.text);
}

void chat_shell(struct chat *chat, struct bl_text text)
{
    struct bl_text command = bl_text_trim((struct bl_text){text.data + 1, text.size - 1});
    BL_AUTO_ARENA(arena);

    if (command.size == 0) {
        chat_say(chat, "!COMMAND runs a command; the model gets its output with the next prompt");
        return;
    }
    chat_busy_begin(chat);
    shell_run_command(chat, command, &arena);
    chat_busy_end(chat);
    chat_redraw(chat);
}
