/* Design notes.
 *
 * One fiber runs the command; the others listen, each for one signal. They share the scope: the
 * first signal or the deadline stops it, and the command's fiber then stops the command step by
 * step: signal, grace period, SIGKILL. If the scope is already stopped when a signal arrives, the
 * user asks to skip the grace period: the listener asks the warden again, without a grace period,
 * while the first call is still in progress.
 *
 * The warden decides the race between the end of the command and a stop: if the command had already
 * ended when the stop reached it, its exit code is kept. A command that has ended claims the scope,
 * so that a later signal does not produce a receipt for a stop that stopped nothing. */
#include "hold.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/signals.h"

#define RECEIPT_MAX ((size_t)64 * 1024)
/* A start takes milliseconds; this limit is reached only if the machine hangs. */
#define START_NS_MAX (60 * BL_NS_PER_S)

struct hold_work {
    const struct hold_options *options;
    const char *const *arguments; /* the command, wrapped in the sandbox if there is one */
    enum bl_mechanism container;
    struct hold_outcome *outcome;
    struct bl_scope scope;
    struct bl_receipt receipt;
    struct cli_signals signals;
    struct bl_warden *warden; /* NULL if not started */
    bool impatient;           /* a signal arrived after the scope was stopped */
};

void hold_outcome_init(struct hold_outcome *outcome)
{
    memset(outcome, 0, sizeof *outcome);
    bl_buffer_init(&outcome->receipt_line, RECEIPT_MAX);
    bl_buffer_init(&outcome->receipt_json, RECEIPT_MAX);
}

void hold_outcome_done(struct hold_outcome *outcome)
{
    bl_buffer_done(&outcome->receipt_line);
    bl_buffer_done(&outcome->receipt_json);
}

/* ---- Signals --------------------------------------------------------------------------------- */

static void cut_grace(void *context)
{
    struct hold_work *work = context;
    struct bl_warden_end end;

    work->impatient = true;
    if (work->warden != NULL)
        bl_warden_stop(work->warden, SIGKILL, 0, &end);
}

static void hold_run_nothing(int number)
{
    (void)number;
}

/* Makes Ctrl-Z do nothing: it would suspend belay, and so the deadline, but not the command. The
 * signal is caught, not ignored, so that the command inherits its original action. */
static void catch_pause(void)
{
    struct sigaction caught = {.sa_handler = hold_run_nothing, .sa_flags = SA_RESTART};
    if (!cli_signal_ignored(SIGTSTP))
        sigaction(SIGTSTP, &caught, NULL);
}

/* ---- The command ----------------------------------------------------------------------------- */

static struct bl_warden_options warden_options(const struct hold_work *work)
{
    const struct hold_options *options = work->options;
    return (struct bl_warden_options){
        .arguments = work->arguments,
        .input = STDIN_FILENO,
        .output = STDOUT_FILENO,
        .error = STDERR_FILENO,
        .container = work->container,
        /* For processes left behind: never longer than the default grace period, even if the
         * command itself may have longer. */
        .grace_ms = options->as_timeout || options->kill_after != NULL ? BL_GRACE_MS_DEFAULT
                                                                       : options->grace_ms,
        .foreground = options->foreground,
        .memory_bytes = options->memory_bytes,
        .processes_max = options->processes_max,
    };
}

/* Starts the command, unless the scope is already stopped. The start is shielded: once the warden
 * has been started, the command may run at any moment, and a running command is stopped with its
 * grace period. */
static int hold_run_start_warden(struct hold_work *work)
{
    struct bl_warden_options options = warden_options(work);
    struct bl_error *error = &work->outcome->error;
    struct bl_scope shield;

    int code = bl_check();
    if (code != 0)
        return code;
    bl_shield_begin(&shield, START_NS_MAX);
    code = bl_warden_start(&options, &work->warden, error);
    bl_shield_end(&shield);
    if (code == BL_ETIMEDOUT)
        return bl_error_set(error, BL_ESYSTEM, BL_KIND_RUNTIME, "start a warden", NULL,
                            "the warden does not answer; it was killed with all its processes");
    return code;
}

static void hold_run_tell_signal(const struct hold_options *options)
{
    const char *name = sigabbrev_np(options->signal);
    char line[256];

    snprintf(line, sizeof line, "%s: sending signal %s to command '%.150s'\n",
             options->as_timeout ? "timeout" : "belay hold", name != NULL ? name : "?",
             options->arguments[0]);
    cli_remark(bl_text_from(line));
}

/* Starts the command and waits for its end. Returns 0 also if it was stopped; the outcome says so.
 */
static int run_warden(struct hold_work *work)
{
    struct hold_outcome *outcome = work->outcome;

    int code = hold_run_start_warden(work);
    if (work->warden == NULL)
        return code;
    outcome->started = true;
    code = bl_warden_wait(work->warden, &outcome->end);
    if (code != 0 && work->signals.first == 0 && work->options->verbose)
        hold_run_tell_signal(work->options);
    if (code != 0)
        bl_warden_stop(work->warden,
                       work->signals.first != 0 ? work->signals.first : work->options->signal,
                       work->impatient ? 0 : work->options->grace_ms, &outcome->end);
    return 0;
}

/* Runs the command as one unit of the receipt. When this returns, it is decided whether the command
 * was stopped. */
static int run_unit(struct hold_work *work)
{
    const struct hold_outcome *outcome = work->outcome;
    const char *path = work->options->arguments[0];
    const char *slash = strrchr(path, '/');
    struct bl_scope *outer = bl_scope_enter(&work->scope);
    struct bl_unit unit;

    bl_unit_begin(&unit, BL_UNIT_COMMAND, "command", slash != NULL ? slash + 1 : path);
    int code = run_warden(work);
    bl_scope_enter(outer);
    /* A stop requested just now is passed down in the loop's next iteration: the unit must still
     * exist then. */
    if (bl_scope_claim(&work->scope) != 0)
        bl_yield();
    if (outcome->started)
        bl_command_unit_end(&unit, &outcome->end);
    else
        bl_unit_end(&unit, BL_FATE_NEVER_STARTED);
    return code;
}

static void hold_run_set_deadline(struct hold_work *work)
{
    const struct hold_options *options = work->options;
    uint64_t now_ns = bl_now_ns();

    if (!options->timed)
        return;
    if (options->timeout_ns <= 0)
        bl_scope_set_deadline(&work->scope, now_ns);
    else
        bl_scope_set_deadline(&work->scope, bl_time_add(now_ns, (uint64_t)options->timeout_ns));
}

static void hold_run_keep_receipt(struct hold_work *work)
{
    struct hold_outcome *outcome = work->outcome;
    struct bl_json_writer writer;

    bl_scope_stop_read(&work->scope, &outcome->stop);
    outcome->stop_signal = work->signals.first;
    if (!bl_receipt_ready(&work->receipt))
        return;
    bl_receipt_line(&work->receipt, &outcome->receipt_line);
    bl_json_writer_init(&writer, &outcome->receipt_json);
    bl_receipt_write(&work->receipt, &writer);
    if (bl_json_writer_done(&writer) != 0)
        bl_buffer_clear(&outcome->receipt_json);
}

static void make_scope_id(char out[32])
{
    unsigned char bytes[8];
    int size = snprintf(out, 32, "hold_");

    bl_random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        size += snprintf(out + size, 32 - (size_t)size, "%02x", bytes[i]);
}

static int hold_run_work_main(void *argument)
{
    struct hold_work *work = argument;
    char scope_id[32];

    make_scope_id(scope_id);
    bl_scope_init(&work->scope, bl_scope_current());
    bl_receipt_open(&work->receipt, &work->scope, scope_id);
    int code = cli_signals_start(&work->signals, &work->scope, cut_grace, work);
    if (code == 0) {
        hold_run_set_deadline(work);
        code = run_unit(work);
    }
    hold_run_keep_receipt(work);
    /* A listener may be skipping the grace period; it needs the warden until it has finished. */
    cli_signals_end(&work->signals);
    bl_warden_free(work->warden);
    bl_receipt_close(&work->receipt);
    bl_scope_done(&work->scope);
    return code;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* Wraps the command in the sandbox, if one is requested. */
static int prepare_arguments(struct bl_arena *arena, struct hold_work *work)
{
    const struct hold_options *options = work->options;
    struct bl_error *error = &work->outcome->error;

    work->arguments = options->arguments;
    work->container = options->container;
    if (options->sandbox == BL_SANDBOX_OFF)
        return 0;
    work->container = bl_sandbox_container(options->container);
    char *workspace = bl_arena_alloc(arena, PATH_MAX);
    if (getcwd(workspace, PATH_MAX) == NULL)
        return bl_error_set(error, BL_ESYSTEM, BL_KIND_FILESYSTEM, "find the workspace", NULL,
                            "the current folder, the workspace of the sandbox, no longer exists");
    int code = bl_sandbox_wrap(arena, options->sandbox, workspace, NULL, false, options->arguments,
                               &work->arguments, error);
    /* A failure of the sandbox must not look like a command that was not found. */
    return code == 0 ? 0 : BL_ENOTSUP;
}

static int hold_run_loop(struct hold_work *work)
{
    cli_processes_begin();
    bl_loop_catch_overflow();
    catch_pause();
    return bl_loop_once("hold", hold_run_work_main, work, &work->outcome->error);
}

void hold_run(const struct hold_options *options, struct hold_outcome *outcome)
{
    struct hold_work work = {.options = options, .outcome = outcome};
    BL_AUTO_ARENA(arena);

    outcome->options = options;
    int code = prepare_arguments(&arena, &work);
    if (code == 0)
        code = hold_run_loop(&work);
    bool stopped = outcome->stop.reason != BL_STOP_NONE;
    if (stopped && (code == BL_ECANCELED || code == BL_ETIMEDOUT)) {
        /* A stop before the start is not a failure: the receipt reports it. */
        outcome->error = (struct bl_error){0};
    } else if (code != 0) {
        bl_error_set(&outcome->error, code, BL_KIND_RUNTIME, "hold", options->arguments[0],
                     "cannot run the command: %s", bl_error_text(code));
        outcome->error.code = code;
    }
}
