/* Controls of a live feature: cancel, pause, resume, extend.
 *
 * Design notes.
 *
 * A request goes to the process that runs the feature; the store says which one that is. Between
 * reading the store and the call, the runner may end, or may not listen yet. Then there is no
 * answer, and the store is read again, until it shows no runner or the runner answers. A live
 * runner that cannot be reached is an error after ANSWER_TIMEOUT_NS. */
#include "feature.h"

#include <stdio.h>

#include "cli/answers.h"

#define RETRY_NS          (50 * BL_NS_PER_MS)
#define ANSWER_TIMEOUT_NS (10 * BL_NS_PER_S)
#define LINE_MAX          ((size_t)64 * 1024)

struct asking {
    struct feature_work work;
    struct bl_text result;      /* the runner's answer; empty: no runner was asked */
    bool live;                  /* a runner was found */
    bool idle;                  /* nothing is running */
    struct feature_reply reply; /* from the runner or from the store */
};

static const struct bl_task_view *feature_ask_task_of(const struct asking *asking)
{
    const char *task = asking->work.task;
    return task != NULL ? bl_feature_view_task(asking->work.view, bl_text_from(task)) : NULL;
}

/* ---- State in the store ---------------------------------------------------------------------- */

static bool feature_ask_has_ended(const struct asking *asking)
{
    static const char *const words[] = {"completed", "failed", "cancelled", "timed_out",
                                        "interrupted"};
    const struct bl_task_view *task = feature_ask_task_of(asking);
    const struct bl_feature_view *view = asking->work.view;

    if (asking->work.task != NULL)
        return task != NULL && bl_task_state_final(task->row.state);
    for (size_t i = 0; i < BL_COUNT(words); i++) {
        if (view->owner_pid == 0 && view->state != NULL && strcmp(view->state, words[i]) == 0)
            return true;
    }
    return false;
}

static int feature_ask_too_late(struct asking *asking)
{
    const struct feature_work *work = &asking->work;
    const struct bl_task_view *task = feature_ask_task_of(asking);

    bl_error_set(&asking->work.error, BL_EEXIST, BL_KIND_FEATURE, "extend", work->task,
                 "%s/%s is not running: it is %s", work->id, work->task,
                 task != NULL ? bl_task_state_name(task->row.state) : "unknown");
    bl_error_name_set(&asking->work.error, "too_late");
    bl_error_hint(&asking->work.error, "'belay feature resume %s' starts it with a new deadline",
                  work->id);
    return BL_EEXIST;
}

/* Refuses a request to a runner on another host or in another PID namespace. */
static int out_of_reach(struct asking *asking)
{
    struct feature_work *work = &asking->work;

    bl_error_set(&work->error, BL_EBUSY, BL_KIND_FEATURE, feature_verb_name(work->options->verb),
                 work->id, "%s is run by %s, which cannot be reached from here", work->id,
                 work->view->owner);
    bl_error_hint(&work->error, "run this command there");
    return BL_EBUSY;
}

/* Returns true if no runner needs to be asked; `*ret_code` is then the result. */
static bool settled_by_store(struct asking *asking, int *ret_code)
{
    const struct feature_work *work = &asking->work;
    enum feature_verb verb = work->options->verb;
    bool cancels = verb == FEATURE_CANCEL, ended = feature_ask_has_ended(asking);

    *ret_code = 0;
    asking->live = work->view->owner_pid > 0;
    asking->reply.already = cancels && ended;
    if (asking->reply.already)
        return true;
    if (verb == FEATURE_EXTEND && ended) {
        *ret_code = feature_ask_too_late(asking);
        return true;
    }
    if (asking->live)
        return false;
    /* A resume is refused later, when the runner is started. */
    if (work->view->owner != NULL && verb != FEATURE_RESUME)
        *ret_code = out_of_reach(asking);
    else if (verb == FEATURE_EXTEND)
        *ret_code = feature_ask_too_late(asking);
    asking->idle = true;
    return true;
}

/* ---- The call -------------------------------------------------------------------------------- */

static struct bl_text make_params(struct asking *asking)
{
    struct feature_work *work = &asking->work;
    const struct feature_options *options = work->options;
    struct feature_request request = {
        .feature = work->id,
        .repository = work->repository,
        .task = work->task,
        .origin = options->verb == FEATURE_CANCEL ? "belay feature cancel" : NULL,
        .by_ms = (options->extend_ns + BL_NS_PER_MS - 1) / BL_NS_PER_MS,
    };
    return bl_record_text(&work->arena, &feature_request_record, &request);
}

static const struct ask_method {
    const char *name;
    const struct bl_record *reply;
} ask_methods[] = {
    [FEATURE_CANCEL] = {"feature.cancel", &feature_cancelled_record},
    [FEATURE_PAUSE] = {"feature.pause", &feature_changed_record},
    [FEATURE_RESUME] = {"feature.resume", &feature_changed_record},
    [FEATURE_EXTEND] = {"feature.extend", &feature_extended_record},
};

static int feature_ask_read_result(struct asking *asking, const struct ask_method *method)
{
    const struct bl_json *result;

    if (bl_json_read(&asking->work.arena, asking->result, NULL, &result, NULL) != 0)
        return bl_error_set(&asking->work.error, BL_EPARSE, BL_KIND_DELIVERY, "read the answer",
                            asking->work.id, "cannot read the runner's answer");
    bl_record_take(&asking->work.arena, method->reply, result, &asking->reply);
    return 0;
}

/* Returns whether the runner was not reached, as opposed to an error from it. */
static bool is_unanswered(int code, const struct bl_error *error)
{
    if (code == BL_ENOENT && strcmp(error->name, "other_feature") == 0)
        return true;
    return error->kind == BL_KIND_DELIVERY &&
           (code == BL_ENOENT || code == BL_ENOTSUP || code == BL_EUNKNOWN);
}

/* Reads the store and asks the runner until there is an answer. */
static int ask_runner(struct asking *asking)
{
    struct feature_work *work = &asking->work;
    const struct ask_method *method = &ask_methods[work->options->verb];
    uint64_t end_ns = bl_time_add(bl_now_ns(), ANSWER_TIMEOUT_NS);

    for (;;) {
        int code = feature_work_look(work);
        if (code != 0 || settled_by_store(asking, &code))
            return code;
        code = bl_control_call(&work->arena, work->view->owner_pid, method->name,
                               make_params(asking), &asking->result, &work->error);
        if (code == 0)
            code = feature_ask_read_result(asking, method);
        /* Without a receipt the answer names the state, which the stop may have changed. */
        if (code == 0 && work->options->verb == FEATURE_CANCEL && asking->reply.receipt == NULL)
            code = feature_work_look(work);
        if (code == 0)
            return 0;
        if (!is_unanswered(code, &work->error) || bl_now_ns() >= end_ns)
            return code;
        work->error = (struct bl_error){0};
        code = bl_sleep(RETRY_NS);
        if (code != 0)
            return code;
    }
}

static int feature_ask_main(void *argument)
{
    struct asking *asking = argument;

    int code = feature_work_open(&asking->work);
    if (code == 0)
        code = ask_runner(asking);
    feature_work_close(&asking->work);
    return code;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static void put_what(struct bl_buffer *out, const struct feature_work *work)
{
    bl_buffer_printf(out, "%s%s%s", work->id, work->task != NULL ? "/" : "",
                     work->task != NULL ? work->task : "");
}

static const char *feature_ask_state_of(const struct asking *asking)
{
    const struct bl_task_view *task = feature_ask_task_of(asking);
    const char *state = asking->work.view->state;

    if (task != NULL)
        return bl_task_state_name(task->row.state);
    return state != NULL ? state : "unknown";
}

static void put_cancel(struct bl_buffer *out, const struct asking *asking)
{
    const struct feature_work *work = &asking->work;

    if (asking->reply.receipt != NULL) {
        cli_receipt_line(asking->reply.receipt, out);
        return;
    }
    put_what(out, work);
    if (asking->idle)
        bl_buffer_printf(out, " is not running: it is %s, and there is nothing to stop.",
                         feature_ask_state_of(asking));
    else if (asking->reply.already)
        bl_buffer_printf(out, " has already ended: it is %s.", feature_ask_state_of(asking));
    else
        bl_buffer_printf(out, " is now %s; there was nothing to stop.",
                         feature_ask_state_of(asking));
}

static void put_answer(struct bl_buffer *out, const struct asking *asking)
{
    const struct feature_work *work = &asking->work;
    char text[32];

    switch (work->options->verb) {
    case FEATURE_PAUSE:
        put_what(out, work);
        bl_buffer_append(out, asking->idle ? BL_TEXT(" is not running: nothing to pause.")
                              : asking->reply.changed ? BL_TEXT(" is paused: running phases may "
                                                                "end, and no new phase starts.")
                                                      : BL_TEXT(" is already paused."));
        break;
    case FEATURE_RESUME:
        put_what(out, work);
        bl_buffer_append(out, asking->reply.changed ? BL_TEXT(" continues.")
                                                    : BL_TEXT(" is not paused: it is running."));
        break;
    case FEATURE_EXTEND:
        put_what(out, work);
        bl_buffer_printf(out, ": the deadline is now %s from its start.",
                         feature_duration_text(asking->reply.deadline_s, text));
        break;
    case FEATURE_CANCEL: put_cancel(out, asking); break;
    case FEATURE_NEW:
    case FEATURE_VALIDATE:
    case FEATURE_RUN:
    case FEATURE_STATUS:
    case FEATURE_LIST:
    case FEATURE_LOGS:
    case FEATURE_RETRY:
    case FEATURE_CLEAN:
    case FEATURE_REPORT: break;
    }
}

struct ask_view {
    const char *feature;
    const char *task;
    struct feature_reply reply;
    struct bl_text message;
};

const struct bl_form cli_feature_id_form = {"an id", "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", NULL};

#define BL_RECORD_STRUCT struct ask_view
#define ASK_FEATURE      BL_MEMBER_STRING("feature", feature, .form = &cli_feature_id_form)
#define ASK_TASK                                                                                   \
    BL_MEMBER_STRING("task", task, .nullable = true, .form = &cli_feature_id_form,                 \
                     .about = "null: the whole feature.")
#define ASK_MESSAGE                                                                                \
    BL_MEMBER_TEXT("message", message, .least = 1, .about = "Summary of what was done, in words.")

static const struct bl_member cancel_members[] = {
    ASK_FEATURE,
    ASK_TASK,
    BL_MEMBER_JSON(
        "receipt", reply.receipt, .nullable = true, .record = &bl_receipt_record,
        .about = "Written when all of its work had stopped; null: there was nothing to stop."),
    BL_MEMBER_BOOLEAN("already", reply.already, .about = "True: it had already ended."),
    ASK_MESSAGE,
    BL_MEMBER_END,
};
static const struct bl_member extend_members[] = {
    ASK_FEATURE,
    BL_MEMBER_STRING("task", task, .form = &cli_feature_id_form),
    BL_MEMBER_NUMBER("deadline_s", reply.deadline_s,
                     .about = "New deadline, from the task's start."),
    ASK_MESSAGE,
    BL_MEMBER_END,
};
static const struct bl_member pause_members[] = {
    ASK_FEATURE,
    ASK_TASK,
    BL_MEMBER_BOOLEAN("changed", reply.changed,
                      .about = "False: it was already in that state, or nothing is running."),
    ASK_MESSAGE,
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer feature_cancel_answer = {
    BL_RECORD("feature-cancel", struct ask_view, cancel_members), .of = "feature cancel"};
const struct cli_answer feature_extend_answer = {
    BL_RECORD("feature-extend", struct ask_view, extend_members), .of = "feature extend"};
const struct cli_answer feature_pause_answer = {
    BL_RECORD("feature-pause", struct ask_view, pause_members),
    .of = "feature pause, and of resume of a running feature", .format = CLI_ANSWER_ANY};

static int ask_print_json(const struct asking *asking)
{
    const struct feature_options *options = asking->work.options;
    const struct cli_answer *answer = options->verb == FEATURE_CANCEL   ? &feature_cancel_answer
                                      : options->verb == FEATURE_EXTEND ? &feature_extend_answer
                                                                        : &feature_pause_answer;
    struct ask_view view = {asking->work.id, asking->work.task, asking->reply, {0}};
    BL_AUTO_BUFFER(message, LINE_MAX);

    put_answer(&message, asking);
    view.message = bl_buffer_text(&message);
    return cli_answer_print(options->call, CLI_EXIT_OK, &answer->record, &view);
}

static int feature_ask_print_text(const struct asking *asking)
{
    BL_AUTO_BUFFER(out, LINE_MAX);

    put_answer(&out, asking);
    bl_buffer_append_byte(&out, '\n');
    return cli_print(asking->work.options->call, bl_buffer_text(&out), CLI_EXIT_OK);
}

int feature_ask_command(const struct feature_options *options, bool *ret_live)
{
    struct asking asking = {0};
    struct bl_error *error = &asking.work.error;
    int exit_code = CLI_EXIT_OK;

    feature_work_init(&asking.work, options);
    int code = cli_loop_run("feature", feature_ask_main, &asking, error);
    if (ret_live != NULL)
        *ret_live = asking.live;
    /* For a resume without a live runner, the caller reports errors when it starts one. */
    if (ret_live == NULL || asking.live) {
        if (code != 0)
            exit_code = cli_fail(options->call, error, cli_error_exit_code(error));
        else if (options->call->format == CLI_FORMAT_TEXT)
            exit_code = feature_ask_print_text(&asking);
        else
            exit_code = ask_print_json(&asking);
    }
    feature_work_done(&asking.work);
    return exit_code;
}
