/* Background commands.
 *
 * Design notes.
 *
 * A job is a fiber of the toolbox's nursery, with its own scope and receipt: no stop of a turn
 * reaches it. Its warden keeps processes that the command leaves behind, so the job runs until its
 * whole process tree has ended. An ended job is kept so that its outcome can be queried, until the
 * toolbox ends or many other jobs have ended since.
 *
 *   starting  --on_started-->              running
 *   running   --on_left-->                 left: the command has ended, processes of it still run
 *   any       --the tree has ended-->      ended, by itself or by a stop */
#include <inttypes.h>
#include <stdio.h>

#include "tool/parts.h"

#define JOBS_MAX      32u /* at once */
#define JOBS_KEPT_MAX 64u /* ended ones */
#define START_NS_MAX  (15 * BL_NS_PER_S)
/* Added to the grace period, for the proof. */
#define END_NS_MAX  (20 * BL_NS_PER_S)
#define SHOWN_MAX   ((size_t)200)
#define NOTE_MAX    ((size_t)160)
#define RECEIPT_MAX ((size_t)1 << 20)

struct job {
    struct bl_list link; /* of its toolbox, oldest first */
    struct bl_toolbox *toolbox;
    char id[32];
    struct bl_arena arena;
    struct bl_text command;
    struct bl_command run;
    struct tool_running running;
    struct bl_scope scope; /* this and the next three are valid until it has ended */
    struct bl_receipt receipt;
    struct bl_activity activity;
    struct bl_capture counted; /* keeps nothing */
    struct output_text output; /* since it was last read */
    struct bl_warden_end end;
    struct bl_error error;
    int code;
    int64_t timeout_ms; /* 0 for none */
    uint64_t started_ns;
    uint64_t ended_ns;
    struct bl_semaphore started; /* given when it has started, or ended before that */
    struct bl_semaphore ended;
    bool listed; /* among the activities, until it has ended */
    bool left;
    bool has_ended;
    bool failed;                 /* but not because of our stop */
    bool told;                   /* its receipt is reported by the call that stopped it */
    uint32_t users;              /* calls that hold it */
    struct bl_text ending;       /* "exit code 3"; once it has ended */
    struct bl_text stop_line;    /* the receipt for users; empty if it was not stopped */
    struct bl_text receipt_json; /* the same as JSON */
};

/* ---- Life of a job --------------------------------------------------------------------------- */

static void job_take_output(void *context, struct bl_text bytes)
{
    struct job *job = context;
    output_text_add(&job->output, bytes);
    job->activity.active_ns = bl_now_ns();
}

static void has_started(void *context)
{
    struct job *job = context;
    bl_semaphore_give(&job->started);
}

static void has_left(void *context, const struct bl_warden_end *end)
{
    struct job *job = context;
    job->left = true;
    job->end = *end;
}

static struct bl_text describe_end(struct job *job)
{
    char note[NOTE_MAX];
    char duration[32];
    struct bl_stop stop;
    size_t size = tool_command_note(&job->end, note, sizeof note);
    bl_scope_stop_read(&job->scope, &stop);
    job->failed = job->end.how != BL_END_EXITED || job->end.status != 0;
    if (job->error.code != 0)
        return bl_arena_printf(&job->arena, "cannot start: %s", job->error.message);
    if (job->end.how == BL_END_EXITED && size == 0)
        return BL_TEXT("exit code 0");
    if (job->end.how == BL_END_STOPPED && stop.reason == BL_STOP_TIMEOUT && job->timeout_ms != 0) {
        tool_timeout_format(job->timeout_ms, duration);
        return bl_arena_printf(&job->arena, "timed out after %s", duration);
    }
    if (job->end.how == BL_END_STOPPED) {
        job->failed = false;
        size = tool_stop_note(&job->scope, job->started_ns, note, sizeof note);
    }
    return bl_arena_text(&job->arena, bl_text_trim((struct bl_text){note, size}));
}

/* Stores the proof of its stop, while the scope exists. */
static void job_keep_receipt(struct job *job)
{
    struct bl_scope shield;
    BL_AUTO_BUFFER(text, RECEIPT_MAX);
    struct bl_json_writer writer;
    if (!bl_scope_stopped(&job->scope))
        return;
    /* The loop may not yet have passed on a stop that coincided with its end. */
    bl_shield_begin(&shield, BL_NS_PER_S);
    while (!bl_receipt_ready(&job->receipt) && bl_yield() == 0)
        continue;
    bl_shield_end(&shield);
    bl_receipt_line(&job->receipt, &text);
    job->stop_line = bl_arena_text(&job->arena, bl_buffer_text(&text));
    bl_buffer_clear(&text);
    bl_json_writer_init(&writer, &text);
    bl_receipt_write(&job->receipt, &writer);
    if (bl_json_writer_done(&writer) == 0)
        job->receipt_json = bl_arena_text(&job->arena, bl_buffer_text(&text));
}

static void job_tell_stopped(const struct job *job)
{
    const struct bl_toolbox *toolbox = job->toolbox;

    if (job->receipt_json.size > 0 && toolbox->job_stopped != NULL)
        toolbox->job_stopped(toolbox->job_stopped_context, job->id, job->receipt_json, job->told);
}

static int job_main(void *argument)
{
    struct job *job = argument;
    struct bl_scope *outer = bl_scope_enter(&job->scope);
    job->code = bl_command_run(&job->run, &job->end, &job->error);
    bl_scope_enter(outer);
    output_text_end(&job->output);
    bl_buffer_done(&job->output.piece);
    job->ending = describe_end(job);
    job_keep_receipt(job);
    bl_receipt_close(&job->receipt);
    bl_scope_done(&job->scope);
    bl_list_remove(&job->running.link);
    job->ended_ns = bl_now_ns();
    job->has_ended = true;
    job_tell_stopped(job);
    if (job->listed)
        bl_activity_end(&job->activity, job->receipt_json);
    bl_semaphore_give(&job->started);
    bl_semaphore_give(&job->ended);
    return 0;
}

/* Waits in the running fiber's scope, and wakes the next waiter. */
static int job_await(struct bl_semaphore *moment)
{
    int code = bl_semaphore_take(moment);
    if (code == 0)
        bl_semaphore_give(moment);
    return code;
}

static void free_job(struct job *job)
{
    bl_list_remove(&job->link);
    output_text_done(&job->output);
    bl_capture_done(&job->counted);
    bl_arena_done(&job->arena);
    bl_free(job);
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Returns the number of running jobs. Frees the oldest ended jobs if there are too many. */
static unsigned count_running(struct bl_toolbox *toolbox)
{
    unsigned running = 0, ended = 0;
    BL_LIST_EACH (link, &toolbox->jobs) {
        const struct job *job = BL_CONTAINER(link, struct job, link);
        running += !job->has_ended;
        ended += job->has_ended;
    }
    BL_LIST_EACH_SAFE (link, &toolbox->jobs) {
        struct job *job = BL_CONTAINER(link, struct job, link);
        if (ended <= JOBS_KEPT_MAX)
            break;
        if (job->has_ended && job->users == 0) {
            free_job(job);
            ended--;
        }
    }
    return running;
}

static struct job *make_job(struct bl_toolbox *toolbox, const struct tool_bash_input *input)
{
    struct job *job = bl_zalloc(sizeof *job);
    job->toolbox = toolbox;
    job->started_ns = bl_now_ns();
    job->running.control.hurry = toolbox->hurry;
    snprintf(job->id, sizeof job->id, "job_%" PRIu64, toolbox->jobs_begun + 1);
    job->command = bl_arena_text(&job->arena, input->command);
    job->timeout_ms = input->timeout_ms;
    bl_capture_init(&job->counted, 0);
    output_text_init(&job->output, toolbox->output_max);
    bl_semaphore_init(&job->started, 0);
    bl_semaphore_init(&job->ended, 0);
    bl_list_init(&job->link);
    return job;
}

/* The phase is one line of a list: replaces bytes that a terminal would obey. */
static void name_phase(struct job *job)
{
    bl_text_into(job->activity.phase, sizeof job->activity.phase, job->command.data);
    for (char *byte = job->activity.phase; *byte != '\0'; byte++)
        if ((unsigned char)*byte < 0x20 || *byte == 0x7f)
            *byte = ' ';
}

static void job_hurry(struct bl_activity *activity)
{
    bl_command_hurry(&BL_CONTAINER(activity, struct job, activity)->running.control);
}

/* Lists the job, opens its scope and receipt, and starts its fiber. */
static int start_job(struct job *job)
{
    struct bl_toolbox *toolbox = job->toolbox;
    job->run.options.background = true;
    job->run.id = job->id;
    job->run.name = tool_bash.name;
    job->run.capture = &job->counted;
    job->run.on_output = job_take_output;
    job->run.on_started = has_started;
    job->run.on_left = has_left;
    job->run.context = job;
    job->run.control = &job->running.control;
    bl_scope_init(&job->scope, &toolbox->nursery->scope);
    if (job->timeout_ms != 0)
        bl_scope_set_deadline(&job->scope, tool_deadline_ns(job->timeout_ms));
    bl_receipt_open(&job->receipt, &job->scope, job->id);
    int code = bl_nursery_spawn(toolbox->nursery, NULL, job->id, job_main, job, NULL);
    if (code != 0) {
        bl_receipt_close(&job->receipt);
        bl_scope_done(&job->scope);
        return code;
    }
    job->activity.kind = "job";
    job->activity.hurry = job_hurry;
    job->activity.scope = &job->scope;
    bl_text_into(job->activity.id, sizeof job->activity.id, job->id);
    bl_text_into(job->activity.session, sizeof job->activity.session, toolbox->session);
    name_phase(job);
    job->listed = toolbox->activities != NULL;
    if (job->listed)
        bl_activity_begin(toolbox->activities, &job->activity);
    bl_list_push_back(&toolbox->running, &job->running.link);
    bl_list_push_back(&toolbox->jobs, &job->link);
    toolbox->jobs_begun++;
    return 0;
}

/* A stop of the call at this point finds the job started: it then runs in the background, as
 * requested, and the receipt names it. */
static void await_start(struct job *job)
{
    struct bl_scope shield;
    bl_shield_begin(&shield, START_NS_MAX);
    job_await(&job->started);
    bl_shield_end(&shield);
}

static int job_refuse(struct job *job, int code, const struct bl_tool_call *call,
                      struct bl_tool_result *ret_result, struct bl_error *error)
{
    if (tool_command_refused(code, &job->error)) {
        ret_result->text = bl_arena_printf(call->arena, "cannot start: %s", job->error.message);
        code = 0;
    } else {
        *error = job->error;
        bl_error_set(error, code, BL_KIND_RUNTIME, "start a job", job->id,
                     "cannot start a background command: %s", bl_error_text(code));
    }
    free_job(job);
    return code;
}

int job_begin(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
              const struct tool_bash_input *input, struct bl_tool_result *ret_result,
              struct bl_error *error)
{
    *ret_result = (struct bl_tool_result){.is_error = true};
    if (toolbox->nursery == NULL) {
        ret_result->text = BL_TEXT("Background commands are not available here. The command was "
                                   "not run; call bash without 'background'.");
        return 0;
    }
    if (count_running(toolbox) >= JOBS_MAX) {
        ret_result->text = bl_arena_printf(
            call->arena,
            "%u jobs are running, which is the limit. The command was not run; stop a job first.",
            JOBS_MAX);
        return 0;
    }
    int code = bl_check();
    if (code != 0)
        return code;
    struct job *job = make_job(toolbox, input);
    code = tool_command_prepare(toolbox, &job->arena, job->command, &job->run, &job->error);
    if (code == 0)
        code = start_job(job);
    if (code == 0) {
        await_start(job);
        code = job->has_ended && job->error.code != 0 ? job->code : 0;
    }
    if (code != 0)
        return job_refuse(job, code, call, ret_result, error);
    ret_result->is_error = false;
    ret_result->text =
        bl_arena_printf(call->arena,
                        "%s is running in the background. {\"job\":\"%s\"} returns its new output "
                        "and its state; {\"job\":\"%s\",\"stop\":true} stops it.",
                        job->id, job->id, job->id);
    return 0;
}

/* ---- Reading and stopping -------------------------------------------------------------------- */

static struct bl_text unknown_job(const struct bl_toolbox *toolbox, struct bl_arena *arena,
                                  struct bl_text id)
{
    struct bl_text shown = bl_utf8_cut(id, 64);
    struct bl_text text = bl_arena_printf(
        arena, "Unknown job '" BL_TEXT_FORMAT "'.%s", BL_TEXT_ARG(shown),
        bl_list_empty(&toolbox->jobs) ? " No background command was started." : " Jobs:");
    const char *separator = " ";
    BL_LIST_EACH (link, &toolbox->jobs) {
        const struct job *job = BL_CONTAINER(link, struct job, link);
        text = bl_arena_printf(arena, BL_TEXT_FORMAT "%s%s (%s)", BL_TEXT_ARG(text), separator,
                               job->id, job->has_ended ? "ended" : "running");
        separator = ", ";
    }
    return text;
}

static struct job *find_job(const struct bl_toolbox *toolbox, struct bl_text id)
{
    BL_LIST_EACH (link, &toolbox->jobs) {
        struct job *job = BL_CONTAINER(link, struct job, link);
        if (bl_text_equal(bl_text_from(job->id), id))
            return job;
    }
    return NULL;
}

static void write_state(const struct job *job, struct bl_buffer *out)
{
    char duration[32], note[NOTE_MAX];
    uint64_t to_ns = job->has_ended ? job->ended_ns : bl_now_ns();
    bl_duration_format((int64_t)(to_ns - job->started_ns), duration);
    if (job->has_ended) {
        bl_buffer_printf(out, "%s ended after %s: " BL_TEXT_FORMAT, job->id, duration,
                         BL_TEXT_ARG(job->ending));
        return;
    }
    uint32_t processes = bl_command_processes(&job->running.control);
    bl_buffer_printf(out, "%s has been running for %s, with %" PRIu32 " process%s", job->id,
                     duration, processes, processes == 1 ? "" : "es");
    if (bl_scope_stopped(&job->scope))
        bl_buffer_append(out, BL_TEXT(", and is stopping"));
    if (job->left) {
        size_t size = tool_command_note(&job->end, note, sizeof note);
        struct bl_text ending = bl_text_trim((struct bl_text){note, size});
        bl_buffer_printf(out, " left running by its command (" BL_TEXT_FORMAT ")",
                         BL_TEXT_ARG(size > 0 ? ending : BL_TEXT("exit code 0")));
    }
}

/* Returns the output since the last report, then a line with its state. */
static struct bl_text job_report(struct job *job, struct bl_arena *arena)
{
    BL_AUTO_BUFFER(text, SIZE_MAX);
    output_text_write(&job->output, &text);
    output_text_forget(&job->output);
    if (text.size > 0 && text.data[text.size - 1] != '\n')
        bl_buffer_append_byte(&text, '\n');
    write_state(job, &text);
    if (job->stop_line.size > 0)
        bl_buffer_printf(&text, "\n" BL_TEXT_FORMAT, BL_TEXT_ARG(job->stop_line));
    return bl_arena_text(arena, bl_buffer_text(&text));
}

/* Its receipt is also reported as that of this call. */
static int stop_job(struct job *job, const struct bl_tool_call *call)
{
    bool ours = !job->has_ended && bl_scope_stop(&job->scope, BL_STOP_USER, tool_bash.name);
    job->told = job->told || ours;
    int code = job_await(&job->ended);
    if (code == 0 && ours && job->receipt_json.size > 0) {
        struct bl_event event = {.type = BL_EVENT_RECEIPT,
                                 .id = bl_text_from(call->id),
                                 .json = bl_arena_text(call->arena, job->receipt_json)};
        call->tell(call, &event);
    }
    return code;
}

int job_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
             const struct tool_bash_input *input, struct bl_tool_result *ret_result)
{
    struct job *job = find_job(toolbox, input->job);
    int code = 0;
    *ret_result = (struct bl_tool_result){.is_error = true};
    if (job == NULL) {
        ret_result->text = unknown_job(toolbox, call->arena, input->job);
        return 0;
    }
    job->users++;
    if (input->stop)
        code = stop_job(job, call);
    ret_result->text = job_report(job, call->arena);
    ret_result->is_error = code != 0 || (job->has_ended && job->failed);
    job->users--;
    return code;
}

/* ---- The toolbox ----------------------------------------------------------------------------- */

void bl_toolbox_begin(struct bl_toolbox *toolbox, struct bl_nursery *nursery,
                      struct bl_activities *activities, const char *session)
{
    toolbox->nursery = nursery;
    toolbox->activities = activities;
    toolbox->session = session;
    toolbox->job_stopped = NULL;
    mcp_box_begin(toolbox);
}

void bl_toolbox_on_stopped(struct bl_toolbox *toolbox,
                           void (*stopped)(void *context, const char *job, struct bl_text receipt,
                                           bool told),
                           void *context)
{
    toolbox->job_stopped = stopped;
    toolbox->job_stopped_context = context;
}

void bl_toolbox_retire(struct bl_toolbox *toolbox)
{
    BL_LIST_EACH (link, &toolbox->jobs) {
        struct job *job = BL_CONTAINER(link, struct job, link);
        if (!job->has_ended)
            bl_scope_stop(&job->scope, BL_STOP_SHUTDOWN, "session");
    }
    mcp_box_retire(toolbox);
}

void bl_toolbox_end(struct bl_toolbox *toolbox)
{
    struct bl_scope shield;
    if (toolbox->nursery == NULL)
        return;
    bl_toolbox_retire(toolbox);
    bl_shield_begin(&shield, toolbox->grace_ms * BL_NS_PER_MS + END_NS_MAX);
    mcp_box_end(toolbox);
    BL_LIST_EACH_SAFE (link, &toolbox->jobs) {
        struct job *job = BL_CONTAINER(link, struct job, link);
        /* A job that does not end in time is left to the nursery, which waits for it. */
        if (job_await(&job->ended) == 0)
            free_job(job);
    }
    bl_shield_end(&shield);
    toolbox->nursery = NULL;
    toolbox->activities = NULL;
}

void bl_toolbox_write_background(void *context, struct bl_json_writer *writer)
{
    const struct bl_toolbox *toolbox = context;
    uint64_t now_ns = bl_now_ns();
    BL_LIST_EACH (link, &toolbox->jobs) {
        const struct job *job = BL_CONTAINER(link, struct job, link);
        if (job->has_ended)
            continue;
        bl_record_write(writer, &bl_background_record,
                        &(struct bl_background_row){
                            .id = job->id,
                            .command = bl_utf8_cut(job->command, SHOWN_MAX),
                            .processes = bl_command_processes(&job->running.control),
                            .age_ms = (now_ns - job->started_ns) / BL_NS_PER_MS,
                        });
    }
}
