/* The user's commands that run at certain moments.
 *
 * Design notes.
 *
 * The event is a file in memory that becomes standard input: a hook that reads it gets all of it,
 * and there is no wait for a hook that does not. Standard output is discarded; a shell around the
 * command's own shell redirects it, so that only standard error is captured. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "parts.h"

#define REASON_MAX  ((size_t)2048) /* of standard error */
#define COMMAND_MAX 80u            /* of a command in a warning */
#define NOTE_MAX    ((size_t)160)

struct hook {
    struct bl_list link;
    enum bl_hook_when when;
    struct bl_text pattern; /* empty: all tools */
    const char *command;
    uint64_t timeout_ns;
};

struct bl_hooks {
    struct bl_arena arena;
    struct bl_list list;
};

struct bl_hooks *bl_hooks_new(void)
{
    struct bl_hooks *hooks = bl_zalloc(sizeof *hooks);
    bl_list_init(&hooks->list);
    return hooks;
}

void bl_hooks_free(struct bl_hooks *hooks)
{
    if (hooks == NULL)
        return;
    bl_arena_done(&hooks->arena);
    bl_free(hooks);
}

void bl_hooks_add(struct bl_hooks *hooks, enum bl_hook_when when, const char *pattern,
                  const char *command, uint64_t timeout_ns)
{
    struct hook *hook = bl_arena_zalloc(&hooks->arena, sizeof *hook);
    hook->when = when;
    hook->pattern = bl_arena_text(&hooks->arena, bl_text_from(pattern));
    hook->command = bl_arena_text(&hooks->arena, bl_text_from(command)).data;
    hook->timeout_ns = timeout_ns != 0 ? timeout_ns : BL_HOOK_NS_DEFAULT;
    bl_list_push_back(&hooks->list, &hook->link);
}

bool bl_hooks_any(const struct bl_hooks *hooks, enum bl_hook_when when)
{
    if (hooks == NULL)
        return false;
    BL_LIST_EACH (link, &hooks->list)
        if (BL_CONTAINER(link, struct hook, link)->when == when)
            return true;
    return false;
}

/* ---- One hook -------------------------------------------------------------------------------- */

/* A running hook. On the heap: a fiber's stack is small. */
struct hook_call {
    const struct bl_hook_run *run;
    const struct hook *hook;
    struct output_text output;
    struct bl_capture counted; /* keeps nothing */
    struct bl_warden_end end;
    struct bl_error error;
};

static void hook_take_output(void *context, struct bl_text bytes)
{
    struct hook_call *call = context;
    output_text_add(&call->output, bytes);
}

/* Returns a descriptor from which the event can be read once, or a negative value if the system
 * refuses. */
static int open_event(struct bl_text event)
{
    int fd = memfd_create("event", MFD_CLOEXEC);
    size_t written = 0;
    while (fd >= 0 && written < event.size) {
        /* pwrite leaves the offset at the beginning, where the hook reads. */
        ssize_t size = pwrite(fd, event.data + written, event.size - written, (off_t)written);
        if (size <= 0 && errno != EINTR) {
            close(fd);
            return -1;
        }
        written += size > 0 ? (size_t)size : 0;
    }
    return fd;
}

static int hook_run_command(struct hook_call *call)
{
    const struct bl_hook_run *run = call->run;
    const char *shell = tool_shell_find();
    const char *const arguments[] = {
        "sh", "-c", "exec \"$0\" -c \"$1\" > /dev/null", shell, call->hook->command, NULL};
    struct bl_command command = {
        .options = {.arguments = arguments,
                    .environment =
                        bl_environment_scrub(run->arena, NULL, run->hidden, run->allowed),
                    .directory = run->directory,
                    .container = run->container,
                    .grace_ms = BL_GRACE_MS_DEFAULT},
        .kind = BL_UNIT_COMMAND,
        .id = run->id,
        .name = "hook",
        .capture = &call->counted,
        .on_output = hook_take_output,
        .context = call,
    };
    command.options.input = open_event(run->event);
    if (command.options.input < 0)
        return bl_error_set(&call->error, BL_EMFILE, BL_KIND_RUNTIME, "start a hook",
                            call->hook->command, "cannot create its input");
    int code = bl_command_run(&command, &call->end, &call->error);
    close(command.options.input);
    output_text_end(&call->output);
    return code;
}

/* Runs the command under the hook's own deadline. */
static int hook_run_timed(struct hook_call *call)
{
    struct bl_scope timed;
    bl_limit_begin(&timed, call->hook->timeout_ns);
    int code = hook_run_command(call);
    bl_limit_end(&timed);
    return code;
}

/* Returns its standard error, in the arena. */
static struct bl_text hook_errors(const struct hook_call *call)
{
    BL_AUTO_BUFFER(text, SIZE_MAX);
    output_text_write(&call->output, &text);
    return bl_arena_text(call->run->arena, bl_text_trim(bl_buffer_text(&text)));
}

static void hook_warn(const struct hook_call *call, const char *what)
{
    const struct bl_hook_run *run = call->run;
    struct bl_text text = hook_errors(call);
    struct bl_text command = bl_utf8_cut(bl_text_from(call->hook->command), COMMAND_MAX);
    if (run->warn == NULL)
        return;
    run->warn(run->context,
              bl_arena_printf(run->arena, "hook '" BL_TEXT_FORMAT "%s': %s%s" BL_TEXT_FORMAT,
                              BL_TEXT_ARG(command),
                              call->hook->command[command.size] != '\0' ? "…" : "", what,
                              text.size > 0 ? ": " : "", BL_TEXT_ARG(text)));
}

static void warn_of_end(const struct hook_call *call)
{
    char note[NOTE_MAX], duration[32];
    size_t size = tool_command_note(&call->end, note, sizeof note);
    if (call->end.how == BL_END_STOPPED) {
        bl_duration_format((int64_t)call->hook->timeout_ns, duration);
        size = (size_t)snprintf(note, sizeof note, "timed out after %s\n", duration);
    }
    if (size == 0)
        return;
    note[size - 1] = '\0';
    hook_warn(call, note);
}

/* Has the contract of bl_hooks_run, for one hook. */
static int hook_settle(const struct hook_call *call, int code, struct bl_text *ret_reason)
{
    bool stopped = code == BL_ECANCELED || code == BL_ETIMEDOUT;
    if (stopped && bl_check() != 0)
        return bl_check();
    if (code != 0 && !stopped) {
        char what[sizeof call->error.message + 32];
        snprintf(what, sizeof what, "cannot start: %s",
                 call->error.code != 0 ? call->error.message : bl_error_text(code));
        hook_warn(call, what);
        return 0;
    }
    bool refused = call->run->when == BL_HOOK_BEFORE_TOOL && call->end.how == BL_END_EXITED &&
                   call->end.status == 2;
    if (!refused) {
        warn_of_end(call);
        return 0;
    }
    *ret_reason = hook_errors(call);
    if (ret_reason->size == 0)
        *ret_reason = bl_arena_printf(
            call->run->arena, "refused by hook '" BL_TEXT_FORMAT "'",
            BL_TEXT_ARG(bl_utf8_cut(bl_text_from(call->hook->command), COMMAND_MAX)));
    return BL_EACCES;
}

static int run_hook(const struct bl_hook_run *run, const struct hook *hook,
                    struct bl_text *ret_reason)
{
    int code = bl_check();
    if (code != 0)
        return code;
    struct hook_call *call = bl_zalloc(sizeof *call);
    call->run = run;
    call->hook = hook;
    bl_capture_init(&call->counted, 0);
    output_text_init(&call->output, REASON_MAX);
    code = hook_settle(call, hook_run_timed(call), ret_reason);
    output_text_done(&call->output);
    bl_capture_done(&call->counted);
    bl_free(call);
    return code;
}

/* ---- Matching hooks -------------------------------------------------------------------------- */

static bool hook_fits(const struct hook *hook, const struct bl_hook_run *run)
{
    if (hook->when != run->when)
        return false;
    return run->tool == NULL || hook->pattern.size == 0 ||
           glob_match(hook->pattern, bl_text_from(run->tool));
}

int bl_hooks_run(const struct bl_hook_run *run, struct bl_text *ret_reason)
{
    int code = 0;
    if (run->hooks == NULL)
        return 0;
    for (struct bl_list *link = run->hooks->list.next; link != &run->hooks->list && code == 0;
         link = link->next) {
        const struct hook *hook = BL_CONTAINER(link, struct hook, link);
        if (hook_fits(hook, run))
            code = run_hook(run, hook, ret_reason);
    }
    return code;
}
