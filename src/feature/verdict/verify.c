/* Verification: Belay runs the declared commands itself, on a clean copy.
 *
 * Design notes.
 *
 * A Player's statements are claims; this is the check. So nothing here reads from the worktree
 * except the paths of `carry`, and the commands are those of the loaded plan. A check that could
 * not run is distinguished from one that failed: a machine without a compiler is no reason to
 * reject work, nor to accept it.
 *
 * A shell runs the command, perhaps inside bubblewrap. Both exit with 128 + N if the command was
 * killed by signal N. Whether they are present must not change the value, so these exit codes count
 * as killed. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "verify.h"

#define TAIL_MAX      ((size_t)4096)
#define CAPTURE_MAX   (4 * TAIL_MAX) /* half of it for the end of the output */
#define SHOWN_MAX     ((size_t)160)  /* of a command in a sentence */
#define PROTECTED_MAX 100u           /* paths with an issue each */

#define EXIT_NOT_RUNNABLE 126
#define EXIT_NOT_FOUND    127
#define EXIT_NO_TESTS     5
#define EXIT_SIGNAL       128
#define SIGNALS_MAX       31

/* One verification. On the heap: a fiber's stack is small. */
struct verification {
    struct seat_house *house;
    const struct verify_order *order;
    struct bl_arena *arena;
    struct verify_outcome *outcome;
    struct verify_run *runs;
    size_t run_count;
    enum bl_sandbox sandbox;
    enum bl_mechanism container;
    const char *const *environment;
    const char *const *shown; /* secrets that are not hidden */
    struct seat_run_handle handle;
    struct bl_capture capture;
    struct bl_warden_end end;
    struct bl_error error;
};

static bool verify_is_stop(int code)
{
    return code == BL_ECANCELED || code == BL_ETIMEDOUT;
}

static const char *unit_id(const struct verify_order *order)
{
    return order->task != NULL ? order->task : order->feature;
}

static const char *unit_name(const struct verify_order *order)
{
    return order->gate != NULL ? "gate" : "verify";
}

/* ---- Outcome --------------------------------------------------------------------------------- */

/* Records a result. The first failed command decides, or else the first reason for `absent`. */
static void verify_settle(struct verification *work, enum bl_verified value, struct bl_text why,
                          struct bl_text tail)
{
    struct verify_outcome *outcome = work->outcome;
    bool failed = value == BL_VERIFIED_FAILED;
    bool decides =
        outcome->value != BL_VERIFIED_FAILED && (failed || outcome->value != BL_VERIFIED_ABSENT);
    struct bl_text description = why;
    if (tail.size > 0)
        description =
            bl_arena_printf(work->arena, BL_TEXT_FORMAT " End of its output:\n" BL_TEXT_FORMAT,
                            BL_TEXT_ARG(why), BL_TEXT_ARG(tail));
    issue_add(work->arena, &outcome->issues, failed ? ISSUE_CRITICAL : ISSUE_MAJOR, ISSUE_OF_VERIFY,
              NULL, description);
    if (!decides)
        return;
    outcome->value = value;
    outcome->why = why;
    outcome->tail = tail;
}

static void settle_absent(struct verification *work, const char *what, struct bl_text why)
{
    verify_settle(work, BL_VERIFIED_ABSENT,
                  bl_arena_printf(work->arena, "Verification is absent: %s: " BL_TEXT_FORMAT ".",
                                  what, BL_TEXT_ARG(why)),
                  (struct bl_text){0});
}

/* Returns a command on one line, for a sentence. */
static const char *show_command(struct verification *work, const char *command)
{
    BL_AUTO_BUFFER(shown, SIZE_MAX);
    text_show(bl_text_trim(bl_text_from(command)), &shown);
    struct bl_text cut = bl_utf8_cut(bl_buffer_text(&shown), SHOWN_MAX);
    for (size_t i = 0; i < shown.size; i++)
        if (shown.data[i] == '\n' || shown.data[i] == '\t')
            shown.data[i] = ' ';
    struct bl_text text = bl_arena_printf(work->arena, "`" BL_TEXT_FORMAT "%s`", BL_TEXT_ARG(cut),
                                          cut.size < shown.size ? "…" : "");
    return text.data;
}

/* Returns the end of the command's output. */
static struct bl_text make_tail(struct verification *work)
{
    struct bl_buffer whole, shown;
    bl_buffer_init(&whole, SIZE_MAX);
    bl_buffer_init(&shown, SIZE_MAX);
    bl_capture_text(&work->capture, &whole);
    struct bl_text bytes = bl_buffer_text(&whole);
    size_t cut = bytes.size > TAIL_MAX ? bytes.size - TAIL_MAX : 0;
    /* Do not start inside a character. */
    for (size_t i = 0; cut > 0 && i < 3 && ((unsigned char)bytes.data[cut] & 0xC0) == 0x80; i++)
        cut++;
    text_show((struct bl_text){bytes.data + cut, bytes.size - cut}, &shown);
    struct bl_text text = bl_buffer_text(&shown);
    while (text.size > TAIL_MAX || (text.size < shown.size && text.size > 0 &&
                                    ((unsigned char)*text.data & 0xC0) == 0x80)) {
        text.data++;
        text.size--;
    }
    text = bl_arena_text(work->arena, text);
    bl_buffer_done(&whole);
    bl_buffer_done(&shown);
    return text;
}

/* ---- One command ----------------------------------------------------------------------------- */

static void verify_take_output(void *context, struct bl_text bytes)
{
    const struct verify_order *order = ((struct verification *)context)->order;
    if (order->output != NULL)
        order->output(order->context, bytes);
    if (order->active != NULL)
        order->active(order->context, "output", 0);
}

static int verify_run_command(struct verification *work, const char *text, bool network)
{
    const char *const arguments[] = {"sh", "-c", text, NULL};
    const char *const readable[] = {work->house->git_folder, NULL};
    const struct bl_sandbox_view view = {
        .sandbox = work->sandbox,
        .workspace = work->order->folder,
        .readable = readable,
        .shown = work->shown,
        .network = network,
    };
    struct bl_command command = {
        .options = {.environment = work->environment,
                    .directory = work->order->folder,
                    .input = -1,
                    .container = work->container,
                    .grace_ms = BL_GRACE_MS_DEFAULT},
        .kind = BL_UNIT_COMMAND,
        .id = unit_id(work->order),
        .name = unit_name(work->order),
        .capture = &work->capture,
        .on_output = verify_take_output,
        .context = work,
        .control = &work->handle.control,
    };
    int code = bl_sandbox_wrap_view(work->arena, &view, arguments, &command.options.arguments,
                                    &work->error);
    return code == 0 ? bl_command_run(&command, &work->end, &work->error) : code;
}

/* Runs a command under its own timeout, which stops nothing else. */
static int verify_run_timed(struct verification *work, const char *text, uint64_t timeout_ns,
                            bool network, bool *ret_timed_out)
{
    struct bl_scope timed;
    bl_capture_done(&work->capture);
    bl_capture_init(&work->capture, CAPTURE_MAX);
    work->error = (struct bl_error){0};
    work->end = (struct bl_warden_end){.how = BL_END_STOPPED};
    work->handle.control = (struct bl_command_control){.hurry = work->house->hurried};
    bl_list_push_back(&work->house->running, &work->handle.link);
    bl_limit_begin(&timed, timeout_ns > 0 ? timeout_ns : BL_NEVER);
    int code = verify_run_command(work, text, network);
    bl_limit_end(&timed);
    bl_list_remove(&work->handle.link);
    *ret_timed_out = code == BL_ETIMEDOUT && bl_check() == 0;
    return *ret_timed_out ? 0 : code;
}

/* Returns the exit code, or 128 plus the signal, or a negative value if there is none. */
static int verify_exit_code_of(const struct verification *work, int code, bool timed_out)
{
    if (code != 0 || timed_out)
        return -1;
    if (work->end.how == BL_END_EXITED)
        return work->end.status;
    return work->end.how == BL_END_SIGNALED ? EXIT_SIGNAL + work->end.status : -1;
}

static bool is_signal(int exit_code)
{
    return exit_code > EXIT_SIGNAL && exit_code <= EXIT_SIGNAL + SIGNALS_MAX;
}

/* Returns why a run of a command proves nothing, or NULL. */
static const char *absence(struct verification *work, int code, bool timed_out, int exit_code,
                           uint64_t timeout_ns)
{
    char duration[32];
    const char *name;
    if (work->end.survivors == BL_SURVIVORS_UNKNOWN)
        return bl_arena_printf(work->arena, "may have left processes running: %s",
                               work->end.unverified)
            .data;
    if (work->end.survivors > 0)
        return bl_arena_printf(work->arena, "%" PRIu32 " of its processes could not be stopped",
                               work->end.survivors)
            .data;
    if (timed_out) {
        bl_duration_format((int64_t)timeout_ns, duration);
        return bl_arena_printf(work->arena, "timed out after %s", duration).data;
    }
    if (code != 0)
        return bl_arena_printf(work->arena, "cannot start: %s",
                               work->error.code != 0 ? work->error.message : bl_error_text(code))
            .data;
    if (exit_code < 0)
        return "was cut off: its warden was killed";
    if (exit_code == EXIT_NOT_FOUND)
        return "exited with 127: a program was not found";
    if (exit_code == EXIT_NOT_RUNNABLE)
        return "exited with 126: a program could not be run";
    if (!is_signal(exit_code))
        return NULL;
    name = sigabbrev_np(exit_code - EXIT_SIGNAL);
    return bl_arena_printf(work->arena, "was killed by SIG%s", name != NULL ? name : "?").data;
}

static void note_run(struct verification *work, const char *text, bool setup, int exit_code,
                     uint64_t started_ns)
{
    work->runs[work->run_count++] = (struct verify_run){
        .command = bl_arena_text(work->arena, bl_text_from(text)).data,
        .setup = setup,
        .exit_code = exit_code,
        .ms = (bl_now_ns() - started_ns) / BL_NS_PER_MS,
    };
    work->outcome->runs = work->runs;
    work->outcome->run_count = work->run_count;
}

static void tell_begin(const struct verify_order *order, const char *text)
{
    if (order->active != NULL)
        order->active(order->context, unit_name(order), 0);
    if (order->output == NULL)
        return;
    order->output(order->context, BL_TEXT("$ "));
    order->output(order->context, bl_text_from(text));
    order->output(order->context, BL_TEXT("\n"));
}

/* Runs a command and records its result. Returns 0, or an error code if it was stopped. */
static int run_one(struct verification *work, const char *text, bool setup)
{
    const struct bl_smoke_gate *gate = setup ? NULL : work->order->gate;
    uint64_t timeout_ns = gate != NULL ? gate->timeout_ns : work->order->plan->timeout_ns;
    uint64_t started_ns = bl_now_ns();
    bool timed_out;
    int expected = gate != NULL ? gate->expected_exit : 0;
    tell_begin(work->order, text);
    bool network = setup && seat_network(work->house, work->order->plan->setup_network);
    int code = verify_run_timed(work, text, timeout_ns, network, &timed_out);
    int exit_code = verify_exit_code_of(work, code, timed_out);
    note_run(work, text, setup, exit_code, started_ns);
    if (verify_is_stop(code))
        return code;
    const char *shown = show_command(work, text), *what = setup ? "the setup " : "";
    const char *why = absence(work, code, timed_out, exit_code, timeout_ns);
    if (exit_code == expected && work->end.survivors == 0)
        return bl_check();
    bool no_tests = gate != NULL && exit_code == EXIT_NO_TESTS && !gate->exit5_is_hard_fail;
    if (why == NULL && no_tests)
        why = "exited with 5: there were no tests to run";
    if (why == NULL && setup)
        why = bl_arena_printf(work->arena, "exited with %d%s", exit_code,
                              network ? "" : " (without network: see verify.setup_network)")
                  .data;
    if (why != NULL)
        verify_settle(
            work, BL_VERIFIED_ABSENT,
            bl_arena_printf(work->arena, "Verification is absent: %s%s %s.", what, shown, why),
            make_tail(work));
    else
        verify_settle(work, BL_VERIFIED_FAILED,
                      bl_arena_printf(work->arena, "Verification failed: %s exited with %d.", shown,
                                      exit_code),
                      make_tail(work));
    return bl_check();
}

/* ---- The copy -------------------------------------------------------------------------------- */

static bool has_any(const char *const *list)
{
    return list != NULL && list[0] != NULL;
}

static const char *refusal(const struct verification *work, int code)
{
    return work->error.code != 0 ? work->error.message : bl_error_text(code);
}

/* Adds an issue for each protected path that differs from the base. The copy has the base's
 * version. */
static int verify_check_protected(struct verification *work, struct git_repository *git)
{
    const struct verify_order *order = work->order;
    const char *const *changed;
    size_t count = 0;
    int code = git_changed_paths(git, work->arena, order->base_commit, order->commit, &changed,
                                 &work->error);
    for (; code == 0 && *changed != NULL; changed++) {
        if (!git_path_fits(order->plan->protect, *changed) || count++ >= PROTECTED_MAX)
            continue;
        struct issue *issue = issue_add(
            work->arena, &work->outcome->issues, ISSUE_CRITICAL, ISSUE_OF_VERIFY, *changed,
            bl_arena_printf(work->arena,
                            "%s is protected but was changed. Verification uses the "
                            "version of the base commit.",
                            *changed));
        issue->suggestion = bl_arena_printf(
            work->arena, "Restore it from %.12s, and solve the task without changing it.",
            order->base_commit);
    }
    if (code == 0 && count > PROTECTED_MAX)
        issue_add(work->arena, &work->outcome->issues, ISSUE_CRITICAL, ISSUE_OF_VERIFY, NULL,
                  bl_arena_printf(work->arena, "%zu more protected path%s changed.",
                                  count - PROTECTED_MAX,
                                  count - PROTECTED_MAX == 1 ? " was" : "s were"));
    return code;
}

/* Makes the copy with protected and carried paths. Returns 0, also if verification is then absent,
 * or an error code if it was stopped. */
static int verify_make_copy(struct verification *work, struct git_repository *git)
{
    const struct verify_order *order = work->order;
    const struct bl_verify_plan *plan = order->plan;
    bool protects = plan != NULL && has_any(plan->protect) && order->base_commit != NULL;
    struct bl_text why;
    int code = git_copy_make(git, order->commit, order->folder, &work->error);
    if (code == 0 && protects)
        code =
            git_copy_protect(git, order->folder, order->base_commit, plan->protect, &work->error);
    if (code == 0 && protects)
        code = verify_check_protected(work, git);
    if (code != 0) {
        if (!verify_is_stop(code))
            settle_absent(work, "cannot make a clean copy", bl_text_from(refusal(work, code)));
        return verify_is_stop(code) ? code : 0;
    }
    if (plan == NULL || !has_any(plan->carry) || order->carry_from == NULL)
        return 0;
    code = verify_carry(work->arena, unit_id(order), order->carry_from, order->folder, plan->carry,
                        plan->protect, &why);
    if (code != 0 && !verify_is_stop(code))
        settle_absent(work, "cannot copy the `carry` paths", why);
    return verify_is_stop(code) ? code : 0;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Returns whether to drop a variable: those about another repository or another belay do not apply
 * here. */
static bool is_dropped(const char *entry)
{
    static const char *const names[] = {"BELAY_FEATURE=",
                                        "BELAY_TASK=",
                                        "BELAY_ATTEMPT=",
                                        "BELAY_TURN=",
                                        "BELAY_PHASE=",
                                        "BELAY_RESULT=",
                                        "BELAY_DEADLINE_MS=",
                                        "GIT_DIR=",
                                        "GIT_WORK_TREE=",
                                        "GIT_INDEX_FILE=",
                                        "GIT_COMMON_DIR=",
                                        "GIT_OBJECT_DIRECTORY=",
                                        "GIT_PREFIX=",
                                        "GIT_NAMESPACE=",
                                        "GIT_ALTERNATE_OBJECT_DIRECTORIES=",
                                        NULL};
    for (const char *const *name = names; *name != NULL; name++)
        if (strncmp(entry, *name, strlen(*name)) == 0)
            return true;
    return false;
}

static const char *const *verify_make_environment(struct verification *work)
{
    const struct verify_order *order = work->order;
    const struct seat_house *house = work->house;
    const char *const *scrubbed =
        bl_environment_scrub(work->arena, NULL, bl_config_key_variables(house->project->config),
                             house->project->settings.env_allow);
    size_t count = 0, kept = 0;
    while (scrubbed[count] != NULL)
        count++;
    const char **result = bl_arena_zalloc(work->arena, (count + 6) * sizeof *result);
    for (size_t i = 0; i < count; i++)
        if (!is_dropped(scrubbed[i]))
            result[kept++] = scrubbed[i];
    result[kept++] = bl_arena_printf(work->arena, "BELAY_FEATURE=%s", order->feature).data;
    if (order->task != NULL)
        result[kept++] = bl_arena_printf(work->arena, "BELAY_TASK=%s", order->task).data;
    result[kept++] = bl_arena_printf(work->arena, "BELAY_ATTEMPT=%" PRIu32, order->attempt).data;
    result[kept++] = bl_arena_printf(work->arena, "BELAY_TURN=%" PRIu32, order->turn).data;
    result[kept++] = "BELAY_PHASE=verify";
    return result;
}

/* Chooses the sandbox as for tools: `workspace` if available, else none. */
static void choose_sandbox(struct verification *work)
{
    struct bl_container_check check = {0};
    bl_sandbox_check(&check);
    work->sandbox = check.available ? BL_SANDBOX_WORKSPACE : BL_SANDBOX_OFF;
    work->container = check.available ? bl_sandbox_container(BL_MECHANISM_NONE) : BL_MECHANISM_NONE;
}

static int verify_run_all(struct verification *work, struct git_repository *git,
                          const char *const *commands)
{
    const struct bl_verify_plan *plan = work->order->plan;
    struct verify_outcome *outcome = work->outcome;
    int code = verify_make_copy(work, git);
    if (code != 0 || outcome->value == BL_VERIFIED_ABSENT)
        return code;
    choose_sandbox(work);
    work->environment = verify_make_environment(work);
    work->shown = seat_shown(work->house, work->arena);
    if (plan != NULL && plan->setup != NULL)
        code = run_one(work, plan->setup, true);
    if (code != 0 || outcome->value == BL_VERIFIED_ABSENT)
        return code;
    for (; code == 0 && *commands != NULL; commands++)
        code = run_one(work, *commands, false);
    if (code == 0 && outcome->value == BL_VERIFIED_NONE)
        outcome->value = BL_VERIFIED_PASSED;
    return code;
}

int verify_run(struct seat_house *house, struct git_repository *git,
               const struct verify_order *order, struct bl_arena *arena,
               struct verify_outcome *ret_outcome)
{
    const char *const gate[] = {order->gate != NULL ? order->gate->command : NULL, NULL};
    const char *const *commands = order->gate != NULL ? gate : order->plan->commands;
    size_t count = 0;
    *ret_outcome = (struct verify_outcome){.value = BL_VERIFIED_NONE};
    bl_list_init(&ret_outcome->issues);
    int code = bl_check();
    if (code != 0 || !has_any(commands))
        return code;
    while (commands[count] != NULL)
        count++;
    struct verification *work = bl_zalloc(sizeof *work);
    work->house = house;
    work->order = order;
    work->arena = arena;
    work->outcome = ret_outcome;
    work->runs = bl_arena_zalloc(arena, (count + 1) * sizeof *work->runs);
    bl_capture_init(&work->capture, CAPTURE_MAX);
    bl_list_init(&work->handle.link);
    code = verify_run_all(work, git, commands);
    git_copy_remove(git, order->folder);
    bl_capture_done(&work->capture);
    bl_free(work);
    return code != 0 ? code : bl_check();
}

/* ---- As JSON --------------------------------------------------------------------------------- */

#define BL_RECORD_STRUCT struct verify_run
static const struct bl_member run_members[] = {
    BL_MEMBER_STRING("command", command),
    BL_MEMBER_BOOLEAN("setup", setup),
    BL_MEMBER_INTEGER("exit_code", exit_code, .nullable = true, .none = -1, .most = 255,
                      .about = "null: it did not exit by itself."),
    BL_MEMBER_INTEGER("ms", ms),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record run_record = BL_RECORD("verify_run", struct verify_run, run_members);
static const struct bl_member run_element = BL_ELEMENT(struct verify_run, &run_record);

#define BL_RECORD_STRUCT struct verify_outcome
static const struct bl_member outcome_members[] = {
    BL_MEMBER_ENUM("value", value, &bl_verified_values, .vital = true),
    BL_MEMBER_TEXT("why", why, .about = "Why it failed or could not run."),
    BL_MEMBER_TEXT("tail", tail, .about = "End of the deciding command's output."),
    BL_MEMBER_ARRAY("runs", runs, run_count, &run_element),
    BL_MEMBER_LIST("issues", issues, &issue_record, struct issue, link),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record verify_record = BL_RECORD("verify", struct verify_outcome, outcome_members);
