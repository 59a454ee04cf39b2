/* Design notes.
 *
 * A server's process has a keeper: a fiber that starts it in a warden, waits for its end, and
 * carries out that end when it is ordered. All other code gives orders, and waits. The connection
 * stays open during the grace period, so that a cancellation is sent before the kill. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "mcp.h"

#define READ_SIZE    ((size_t)16384)
#define START_NS_MAX (10 * BL_NS_PER_S)
/* The time to wait for its exit code after its output has ended, and the reverse. */
#define TAIL_NS (BL_NS_PER_S / 2)

/* ---- Standard error -------------------------------------------------------------------------- */

static void keep_errors(struct mcp_server *server, struct bl_text bytes)
{
    bl_buffer_append(&server->errors, bytes);
    if (server->errors.size > 2 * MCP_ERRORS_MAX)
        bl_buffer_consume(&server->errors, server->errors.size - MCP_ERRORS_MAX);
}

static int errors_main(void *argument)
{
    struct mcp_process *process = argument;
    char *buffer = bl_alloc(READ_SIZE);
    size_t size;
    int code;
    while ((code = bl_descriptor_read(process->errors, buffer, READ_SIZE, &size)) == 0 && size > 0)
        keep_errors(process->server, (struct bl_text){buffer, size});
    bl_free(buffer);
    return code;
}

/* ---- Messages from the server ---------------------------------------------------------------- */

static void mcp_stdio_take_request(void *context, struct bl_rpc_call *call)
{
    const struct mcp_process *process = context;
    struct bl_text answer =
        mcp_server_answer(process->server, bl_rpc_call_arena(call), bl_rpc_call_method(call));
    if (answer.size > 0)
        bl_rpc_answer(call, answer);
}

static void mcp_stdio_take_notification(void *context, struct bl_text method,
                                        const struct bl_json *params)
{
    const struct mcp_process *process = context;
    mcp_server_told(process->server, method, params);
}

/* A process that closed its output is of no use, and may not even have ended. */
static void mcp_stdio_closed(void *context, const char *why)
{
    struct mcp_process *process = context;
    bl_scope_stop(&process->scope, BL_STOP_OWNER_DIED, why);
}

/* ---- The process ----------------------------------------------------------------------------- */

/* Returns our environment without secrets, with the variables of the toolbox and of the entry. */
static const char *const *mcp_stdio_make_environment(struct mcp_process *process)
{
    return bl_environment_add(&process->arena,
                              tool_environment(process->server->toolbox, &process->arena),
                              process->server->entry->variables);
}

static int mcp_stdio_make_arguments(struct mcp_process *process, const char *const **ret_arguments,
                                    struct bl_error *error)
{
    const struct bl_toolbox *toolbox = process->server->toolbox;
    const struct bl_mcp_entry *entry = process->server->entry;
    size_t count = 0;
    while (entry->arguments[count] != NULL)
        count++;
    const char **all = bl_arena_zalloc(&process->arena, (count + 2) * sizeof *all);
    all[0] = entry->command;
    memcpy(all + 1, entry->arguments, count * sizeof *all);
    *ret_arguments = all;
    if (!toolbox->sandbox_chosen || toolbox->sandbox == BL_SANDBOX_OFF)
        return 0;
    return tool_sandbox_wrap(toolbox, &process->arena, all, ret_arguments, error);
}

static int mcp_stdio_start_warden(struct mcp_process *process, struct bl_error *error)
{
    const struct bl_toolbox *toolbox = process->server->toolbox;
    const struct bl_mcp_entry *entry = process->server->entry;
    struct bl_warden_options options = {
        .environment = mcp_stdio_make_environment(process),
        .directory = entry->directory != NULL ? entry->directory : toolbox->workspace,
        .input = process->to[0],
        .output = process->from[1],
        .error = process->errors_fd[1],
        .container = toolbox->sandbox_chosen ? toolbox->container : toolbox->container_given,
        .grace_ms = toolbox->mcp_grace_ms,
    };
    struct bl_scope shield;
    int code = mcp_stdio_make_arguments(process, &options.arguments, error);
    if (code == 0)
        code = bl_scope_check(&process->scope);
    if (code != 0)
        return code;
    /* A stop during the start takes effect when it has started. */
    bl_shield_begin(&shield, START_NS_MAX);
    code = bl_warden_start(&options, &process->warden, error);
    bl_shield_end(&shield);
    return code;
}

static void mcp_stdio_close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int open_pipes(struct mcp_process *process, struct bl_error *error)
{
    if (pipe2(process->to, O_CLOEXEC) < 0 || pipe2(process->from, O_CLOEXEC) < 0 ||
        pipe2(process->errors_fd, O_CLOEXEC) < 0)
        return bl_error_set(error, BL_EMFILE, BL_KIND_MCP, "start an MCP server",
                            process->server->entry->name, "no descriptors for its streams");
    return bl_descriptor_new(process->errors_fd[0], &process->errors);
}

static int open_connection(struct mcp_process *process, struct bl_error *error)
{
    struct bl_rpc_options options = {
        .in = process->from[0],
        .out = process->to[1],
        .cancel_method = "notifications/cancelled",
        .request = mcp_stdio_take_request,
        .notification = mcp_stdio_take_notification,
        .gone = mcp_stdio_closed,
        .context = process,
        .origin = "mcp",
    };
    /* The server's ends are now the only ones, so their close is the end of file. */
    mcp_stdio_close_end(&process->to[0]);
    mcp_stdio_close_end(&process->from[1]);
    mcp_stdio_close_end(&process->errors_fd[1]);
    int code = bl_nursery_spawn(&process->nursery, NULL, "mcp errors", errors_main, process, NULL);
    if (code == 0)
        code = bl_rpc_open(&process->nursery, &options, &process->rpc, error);
    return code;
}

/* ---- End of the process ---------------------------------------------------------------------- */

/* Asks the server to end: closes its input, and sends a signal. */
static void ask_to_end(struct mcp_process *process)
{
    struct bl_rpc *rpc = process->rpc;
    process->rpc = NULL;
    bl_rpc_close(rpc, 0);
    mcp_stdio_close_end(&process->to[1]);
    bl_warden_signal(process->warden, SIGTERM);
}

static void end_warden(struct mcp_process *process)
{
    uint32_t grace_ms = process->grace_ms;
    int code = BL_ETIMEDOUT;
    if (process->gentle)
        ask_to_end(process);
    /* Also wait for the exit code of a process that ended by itself. */
    if (!process->wanted && grace_ms == 0)
        grace_ms = (uint32_t)(TAIL_NS / BL_NS_PER_MS);
    if (grace_ms > 0) {
        bl_shield_begin(&process->grace, grace_ms * BL_NS_PER_MS);
        process->in_grace = true;
        code = bl_warden_wait(process->warden, &process->end);
        process->in_grace = false;
        bl_shield_end(&process->grace);
    }
    if (code != 0)
        bl_warden_stop(process->warden, SIGKILL, 0, &process->end);
}

/* Reads what it wrote before it ended first: that ends all waits for its answers. */
static void read_rest(struct mcp_process *process)
{
    struct bl_scope shield;
    bl_shield_begin(&shield, TAIL_NS);
    while (process->rpc != NULL && process->asks > 0 && mcp_server_wait(process->server) == 0)
        continue;
    bl_shield_end(&shield);
}

static void close_process(struct mcp_process *process)
{
    struct bl_scope shield;
    struct bl_rpc *rpc = process->rpc;
    process->rpc = NULL;
    bl_rpc_close(rpc, 0);
    /* Read standard error to its end, which came with the end of the tree. */
    bl_shield_begin(&shield, TAIL_NS);
    bl_nursery_join(&process->nursery);
    bl_shield_end(&shield);
    bl_nursery_done(&process->nursery);
    bl_descriptor_free(process->errors);
    process->errors = NULL;
    for (int i = 0; i < 2; i++) {
        mcp_stdio_close_end(&process->to[i]);
        mcp_stdio_close_end(&process->from[i]);
        mcp_stdio_close_end(&process->errors_fd[i]);
    }
    bl_warden_free(process->warden);
    process->warden = NULL;
}

static int keeper_main(void *argument)
{
    struct mcp_process *process = argument;
    struct mcp_server *server = process->server;
    struct bl_scope *outer = bl_scope_current();
    bl_nursery_init(&process->nursery, outer);
    process->code = open_pipes(process, &process->error);
    if (process->code == 0)
        process->code = mcp_stdio_start_warden(process, &process->error);
    process->running = process->code == 0;
    if (process->running)
        process->code = open_connection(process, &process->error);
    mcp_server_changed(server);
    if (process->running) {
        bl_scope_enter(&process->scope);
        int code =
            process->code == 0 ? bl_warden_wait(process->warden, &process->end) : process->code;
        bl_scope_enter(outer);
        if (code != 0)
            end_warden(process);
        read_rest(process);
    }
    close_process(process);
    process->ended = true;
    bl_scope_done(&process->scope);
    mcp_server_ended(server, process);
    mcp_process_unref(process);
    return 0;
}

/* ---- For other files ------------------------------------------------------------------------- */

void mcp_process_unref(struct mcp_process *process)
{
    if (process == NULL || --process->users > 0)
        return;
    bl_arena_done(&process->arena);
    bl_free(process);
}

int mcp_process_start(struct mcp_server *server, struct bl_error *error)
{
    struct bl_nursery *nursery = server->toolbox->mcp_nursery;
    struct mcp_process *process = bl_zalloc(sizeof *process);
    process->server = server;
    process->users = 2;
    for (int i = 0; i < 2; i++)
        process->to[i] = process->from[i] = process->errors_fd[i] = -1;
    bl_arena_init(&process->arena);
    bl_scope_init(&process->scope, &nursery->scope);
    server->process = process;
    int code = bl_nursery_spawn(nursery, NULL, "mcp keeper", keeper_main, process, NULL);
    if (code != 0) {
        bl_scope_done(&process->scope);
        server->process = NULL;
        process->users--;
    }
    while (code == 0 && !process->running && !process->ended)
        code = mcp_server_wait(server);
    if (code == 0)
        code = process->code;
    if (code != 0 && process->error.code != 0)
        *error = process->error;
    mcp_process_unref(process);
    return code;
}

void mcp_process_stop(struct mcp_process *process, bool gentle, uint32_t grace_ms)
{
    if (process->ended)
        return;
    /* A process that ended by itself before this order has crashed. */
    process->wanted = process->wanted || !process->running ||
                      (process->rpc != NULL && !bl_rpc_gone(process->rpc));
    if (bl_scope_stop(&process->scope, BL_STOP_USER, "mcp")) {
        process->gentle = gentle;
        process->grace_ms = grace_ms;
    } else if (grace_ms == 0) {
        mcp_process_hurry(process);
    }
    mcp_server_changed(process->server);
}

int mcp_process_await(struct mcp_process *process)
{
    int code = 0;
    while (!process->ended && code == 0)
        code = mcp_server_wait(process->server);
    return code;
}

void mcp_process_hurry(struct mcp_process *process)
{
    process->grace_ms = 0;
    if (process->in_grace)
        bl_scope_stop(&process->grace, BL_STOP_USER, "hurry");
}

struct bl_text mcp_process_ending(const struct mcp_process *process, struct bl_arena *arena)
{
    char note[160];
    size_t size = tool_command_note(&process->end, note, sizeof note);
    if (size > 0)
        return bl_arena_text(arena, bl_text_trim((struct bl_text){note, size}));
    return process->end.how == BL_END_EXITED ? BL_TEXT("exit code 0")
                                             : BL_TEXT("it closed its output");
}
