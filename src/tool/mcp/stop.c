/* The cancel ladder.
 *
 * The server has been told that the call is cancelled (by the code that sent the request). No
 * answer of the protocol proves that it has stopped, so after the grace period its whole process
 * tree is killed: that does. Where it cannot be killed (it is remote, it is trusted, or other calls
 * use it), the receipt says `unknown`. The server of a task can confirm the cancellation; the
 * receipt then says `aborted`, on the server's word. */
#include <signal.h>
#include <stdio.h>

#include "mcp.h"

/* Added to the grace period, for the proof. */
#define PROOF_NS_MAX (20 * BL_NS_PER_S)

/* Returns whether another call uses the same process and is not being stopped. */
static bool has_others(const struct mcp_call *own)
{
    BL_LIST_EACH (link, &own->server->calls) {
        const struct mcp_call *other = BL_CONTAINER(link, struct mcp_call, link);
        if (other != own && other->process == own->process && !bl_scope_stopped(&other->timed))
            return true;
    }
    return false;
}

static void stop_describe(struct mcp_call *own, struct bl_text *ret_words, const char *format, ...)
    BL_PRINTF(3, 4);

static void stop_describe(struct mcp_call *own, struct bl_text *ret_words, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    *ret_words = bl_arena_vprintf(own->call->arena, format, arguments);
    va_end(arguments);
    bl_text_into(own->unit.detail, sizeof own->unit.detail, ret_words->data);
}

/* Takes the end of a process tree; its processes are counted once, even if several calls used
 * it. */
static enum bl_fate stop_take_end(struct bl_unit *unit, const struct bl_warden_end *end, bool first)
{
    unit->mechanism = end->mechanism;
    if (first) {
        unit->processes = end->processes;
        unit->survivors = end->survivors;
        bl_text_into(unit->unverified, sizeof unit->unverified, end->unverified);
        unit->signal = end->strongest_signal;
    }
    if (end->how == BL_END_LOST)
        return BL_FATE_UNKNOWN;
    return end->strongest_signal == SIGKILL ? BL_FATE_KILLED : BL_FATE_ABORTED;
}

static enum bl_fate kill_server(struct mcp_call *own, uint64_t from_ns, struct bl_text *ret_words)
{
    struct mcp_process *process = own->process;
    const char *name = own->server->entry->name;
    uint64_t spent_ms = (bl_now_ns() - from_ns) / BL_NS_PER_MS;
    uint32_t grace_ms = own->server->toolbox->mcp_grace_ms;
    bool hurry = own->server->toolbox->hurry || spent_ms >= grace_ms;
    struct bl_scope shield;
    process->doomed = true;
    mcp_process_stop(process, false, hurry ? 0 : grace_ms - (uint32_t)spent_ms);
    bl_shield_begin(&shield, PROOF_NS_MAX);
    int code = mcp_process_await(process);
    bl_shield_end(&shield);
    if (code != 0) {
        stop_describe(own, ret_words, "MCP server %s could not be stopped", name);
        return BL_FATE_UNKNOWN;
    }
    enum bl_fate fate = stop_take_end(&own->unit, &process->end, !process->told);
    process->told = true;
    stop_describe(own, ret_words,
                  fate == BL_FATE_KILLED ? "MCP server %s was killed with its whole process tree"
                                         : "MCP server %s ended with its whole process tree",
                  name);
    return fate;
}

/* The call never ran in the server. */
static enum bl_fate never_entered(struct mcp_call *own, struct bl_text *ret_words)
{
    const char *name = own->server->entry->name;
    /* Its start was stopped with the call. */
    if (own->server->ends != own->ends)
        stop_take_end(&own->unit, &own->server->last_end, true);
    stop_describe(own, ret_words, "MCP server %s was not ready; the tool was not run", name);
    return BL_FATE_NEVER_STARTED;
}

enum bl_fate mcp_call_climb(struct mcp_call *own, struct bl_text *ret_words)
{
    const char *name = own->server->entry->name;
    uint64_t from_ns = bl_now_ns();
    if (bl_list_empty(&own->link))
        return never_entered(own, ret_words);
    if (own->task.size > 0)
        mcp_call_cancel_task(own);
    bool trusted = own->process != NULL && own->server->entry->trust;
    if (own->task_stopped && (own->process == NULL || trusted)) {
        stop_describe(own, ret_words, "MCP server %s confirmed the stop", name);
        return BL_FATE_ABORTED;
    }
    if (own->process == NULL) {
        stop_describe(own, ret_words,
                      "MCP server %s is remote, and it is unknown whether it has stopped", name);
        return BL_FATE_UNKNOWN;
    }
    if (trusted) {
        stop_describe(own, ret_words, "MCP server %s was notified, and is trusted to have stopped",
                      name);
        return BL_FATE_UNKNOWN;
    }
    if (has_others(own)) {
        own->process->doomed = true;
        stop_describe(own, ret_words,
                      "MCP server %s has other calls in progress: it is killed when they end",
                      name);
        return BL_FATE_UNKNOWN;
    }
    return kill_server(own, from_ns, ret_words);
}

void mcp_call_leave(struct mcp_call *own)
{
    struct mcp_process *process = own->process;
    struct bl_scope shield;
    bl_list_remove(&own->link);
    if (process == NULL)
        return;
    bool last = true;
    BL_LIST_EACH (link, &own->server->calls)
        last = last && BL_CONTAINER(link, struct mcp_call, link)->process != process;
    if (process->doomed && last && !process->ended) {
        mcp_process_stop(process, false, 0);
        bl_shield_begin(&shield, PROOF_NS_MAX);
        mcp_process_await(process);
        bl_shield_end(&shield);
    }
    mcp_process_unref(process);
    own->process = NULL;
}
