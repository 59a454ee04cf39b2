/* Descriptions for debugging: where a fiber is, and what work it belongs to. */
#include <stdio.h>

#include "parts.h"

/* The most ids in a path. Only the innermost ones are shown. */
#define IDS_MAX   8
#define PATH_SIZE 320

/* Writes the ids of a scope and those above, outermost first: "run_…/turn_…". A scope with the same
 * id as the one above is a part of the same work. */
static void describe_path(const struct bl_scope *scope, char *out, size_t out_size)
{
    const char *ids[IDS_MAX];
    size_t count = 0, size = 0;
    for (; scope != NULL && count < IDS_MAX; scope = scope->parent) {
        if (scope->id == NULL)
            continue;
        if (count == 0 || strcmp(ids[count - 1], scope->id) != 0)
            ids[count++] = scope->id;
    }
    out[0] = '\0';
    while (count > 0 && size < out_size) {
        count--;
        size +=
            (size_t)snprintf(out + size, out_size - size, "%s%s", size > 0 ? "/" : "", ids[count]);
    }
}

void describe_place(char *out, size_t out_size)
{
    if (loop_current != NULL && loop_current->running != NULL)
        describe_path(loop_current->running->scope, out, out_size);
}

static const char *describe_state(const struct bl_fiber *fiber)
{
    switch (fiber->state) {
    case FIBER_NEW: return "new";
    case FIBER_READY: return "ready";
    case FIBER_RUNNING: return "running";
    case FIBER_PARKED: return fiber->wait_for;
    case FIBER_ENDED: return "ended";
    }
    return "unknown";
}

/* Appends ", scope run_…/turn_… live, deadline in 3 s", or how the scope was stopped. */
static int describe_scope(const struct bl_scope *scope, uint64_t now_ns, struct bl_buffer *out)
{
    char path[PATH_SIZE], time[32];
    struct bl_stop stop;
    describe_path(scope, path, sizeof path);
    int code = bl_buffer_printf(out, ", scope %s%s", path, path[0] != '\0' ? " " : "");
    bl_scope_stop_read(scope, &stop);
    if (code == 0 && stop.reason != BL_STOP_NONE)
        code = bl_buffer_printf(out, "stopped (%s by %s)", bl_stop_reason_name(stop.reason),
                                stop.origin);
    else if (code == 0)
        code = bl_buffer_append(out, atomic_load(&scope->state) == BL_SCOPE_CLAIMED
                                         ? BL_TEXT("claimed")
                                         : BL_TEXT("live"));
    uint64_t deadline_ns = bl_scope_deadline_ns(scope);
    if (code == 0 && deadline_ns != BL_NEVER && stop.reason == BL_STOP_NONE) {
        bl_duration_format(deadline_ns > now_ns ? (int64_t)(deadline_ns - now_ns) : 0, time);
        code = bl_buffer_printf(out, ", deadline in %s", time);
    }
    return code == 0 ? bl_buffer_append_byte(out, '\n') : code;
}

static int describe_fiber(const struct bl_fiber *fiber, const struct symbols *symbols,
                          uint64_t now_ns, struct bl_buffer *out)
{
    char since[32];
    bool parked = fiber->state == FIBER_PARKED;
    bl_duration_format((int64_t)(now_ns - fiber->wait_since_ns), since);
    int code = bl_buffer_printf(out, "%s: %s%s%s%s", fiber->name, parked ? "waits for " : "",
                                describe_state(fiber), parked ? " for " : "", parked ? since : "");
    if (code == 0)
        code = describe_scope(fiber->scope, now_ns, out);
    return code == 0 && parked ? backtrace_write(fiber, symbols, out) : code;
}

int bl_loop_describe(struct bl_loop *loop, struct bl_buffer *out)
{
    uint64_t now_ns = bl_clock_now_ns(&loop->clock);
    struct symbols *symbols = symbols_new();
    int code = 0;
    BL_LIST_EACH (link, &loop->fibers) {
        if (code == 0)
            code =
                describe_fiber(BL_CONTAINER(link, struct bl_fiber, all_link), symbols, now_ns, out);
    }
    symbols_free(symbols);
    return code;
}
