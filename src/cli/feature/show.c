/* `belay feature status`: the state in the store, as text and JSON. */
#include "feature.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/answers.h"
#include "cli/chat/view.h"

#define TEXT_MAX ((size_t)64 * 1024 * 1024)
#define UNKNOWN  "–"
#define QUIET_S  60.0
#define FILES    8u

/* ---- Pieces ---------------------------------------------------------------------------------- */

static void put_safe(struct bl_buffer *out, const char *text)
{
    feature_put_safe(out, bl_text_from(text != NULL && text[0] != '\0' ? text : UNKNOWN));
}

/* Puts the head of a line, in its own column. */
static void feature_show_put_head(struct bl_buffer *out, const char *head)
{
    bl_buffer_printf(out, "%-11s", head);
}

/* Puts "40 m + 2 m coach grace". */
static void put_deadline(struct bl_buffer *out, const struct bl_task_view *task)
{
    char text[32];

    bl_buffer_printf(out, "%s", feature_duration_text(task->deadline_s, text));
    if (task->row.grace_s > 0)
        bl_buffer_printf(out, " + %s coach grace", feature_duration_text(task->row.grace_s, text));
}

/* Puts "37s left", until the first deadline. */
static void put_left(struct bl_buffer *out, const struct bl_task_view *task)
{
    char span[16];

    bl_buffer_printf(out, ", %s left%s", feature_span_text(task->deadline_left_s, span),
                     task->ends_with_feature      ? " until the feature's deadline"
                     : task->row.held_left_s >= 0 ? " after the pause"
                                                  : "");
}

static void put_cost(struct bl_buffer *out, const struct bl_spent *spent, bool known)
{
    if (!known || (spent->cost_unknown && !(spent->cost_usd > 0)))
        bl_buffer_append(out, BL_TEXT(UNKNOWN));
    else
        bl_buffer_printf(out, spent->cost_usd < 1 ? "$%.3f%s" : "$%.2f%s", spent->cost_usd,
                         spent->cost_unknown ? "+" : "");
}

static void feature_show_put_spent(struct bl_buffer *out, const struct bl_spent *spent, bool known)
{
    if (known)
        bl_buffer_printf(out, "%" PRIu64 " tokens, ", bl_usage_total(&spent->usage));
    else
        bl_buffer_append(out, BL_TEXT(UNKNOWN " tokens, "));
    put_cost(out, spent, known);
}

static int64_t wall_now(void)
{
    return bl_clock_wall_ns(&bl_clock_system);
}

/* Puts the last activity, or "quiet 4m". */
static void put_activity(struct bl_buffer *out, const struct bl_task_view *task)
{
    double since = feature_time_since(task->row.active_wall_ns, wall_now());
    char span[16];

    feature_span_text(since, span);
    if (since < 0)
        bl_buffer_append(out, BL_TEXT("last activity " UNKNOWN));
    else if (since >= QUIET_S || task->row.activity[0] == '\0')
        bl_buffer_printf(out, "quiet %s", span);
    else {
        put_safe(out, task->row.activity);
        bl_buffer_printf(out, " %s ago", span);
    }
}

static bool is_live(const struct bl_task_view *task)
{
    return task->row.state == BL_TASK_RUNNING || task->row.state == BL_TASK_STOPPING;
}

static void pad(struct bl_buffer *out, size_t from, size_t width)
{
    struct bl_text done = {out->data + from, out->size - from};

    for (size_t taken = text_width(done); taken < width; taken++)
        bl_buffer_append_byte(out, ' ');
}

/* ---- A feature ------------------------------------------------------------------------------- */

static void put_counts(struct bl_buffer *out, const struct bl_feature_view *view)
{
    const char *separator = "";

    bl_buffer_printf(out, "%zu: ", view->task_count);
    for (size_t i = 0; i < BL_COUNT(view->counts); i++) {
        if (view->counts[i] == 0)
            continue;
        bl_buffer_printf(out, "%s%zu %s", separator, view->counts[i],
                         bl_task_state_name((enum bl_task_state)i));
        separator = ", ";
    }
    bl_buffer_append_byte(out, '\n');
}

static void put_feature_head(struct bl_buffer *out, const struct bl_feature_view *view)
{
    char span[16], deadline[32];

    feature_show_put_head(out, "Feature");
    put_safe(out, view->feature);
    bl_buffer_append(out, BL_TEXT(": "));
    put_safe(out, view->name);
    bl_buffer_append_byte(out, '\n');
    feature_show_put_head(out, "State");
    put_safe(out, view->state);
    if (view->unverified)
        bl_buffer_append(out, BL_TEXT(", unverified"));
    if (view->reason != NULL) {
        bl_buffer_append(out, BL_TEXT(", stopped by "));
        put_safe(out, view->origin != NULL ? view->origin : view->reason);
    }
    if (view->owner != NULL) {
        bl_buffer_append(out, BL_TEXT(", run by "));
        put_safe(out, view->owner);
    }
    bl_buffer_append_byte(out, '\n');
    feature_show_put_head(out, "Started");
    if (view->started_wall_ns != 0) {
        char time[32];
        bl_time_format(view->started_wall_ns, time);
        double since = feature_time_since(view->started_wall_ns, wall_now());
        bl_buffer_printf(out, "%s, %s ago", time, feature_span_text(since, span));
    } else {
        put_safe(out, NULL);
    }
    if (view->feature_deadline_s >= 0)
        bl_buffer_printf(out, ", deadline %s",
                         feature_duration_text(view->feature_deadline_s, deadline));
    if (view->deadline_left_s >= 0)
        bl_buffer_printf(out, ", %s left", feature_span_text(view->deadline_left_s, span));
    bl_buffer_append_byte(out, '\n');
    feature_show_put_head(out, "Result");
    put_safe(out, view->result_branch);
    bl_buffer_append(out, BL_TEXT(" at "));
    feature_put_safe(
        out,
        bl_utf8_cut(bl_text_from(view->result_commit != NULL ? view->result_commit : UNKNOWN), 12));
    bl_buffer_append_byte(out, '\n');
    feature_show_put_head(out, "Tasks");
    put_counts(out, view);
    feature_show_put_head(out, "Spent");
    feature_show_put_spent(out, &view->spent, view->spent_known);
    bl_buffer_append_byte(out, '\n');
}

/* Puts the outcome without the state, which precedes it. */
static void put_outcome(struct bl_buffer *out, struct bl_arena *arena,
                        const struct bl_task_view *task)
{
    struct bl_text text = bl_task_view_text(arena, task);
    const char *state = bl_task_state_name(task->row.state);
    size_t same = 0;

    while (same < text.size && state[same] != '\0' &&
           (text.data[same] == state[same] || (text.data[same] == ' ' && state[same] == '_')))
        same++;
    if (state[same] == '\0') {
        text = (struct bl_text){text.data + same, text.size - same};
        if (bl_text_starts_with(text, BL_TEXT(": ")) || bl_text_starts_with(text, BL_TEXT(", ")))
            text = (struct bl_text){text.data + 2, text.size - 2};
    }
    feature_put_safe(out, text);
}

/* Puts a task: its progress while it runs, else its outcome. */
static void put_task_line(struct bl_buffer *out, struct bl_arena *arena,
                          const struct bl_task_view *task, size_t id_width)
{
    char span[16];
    size_t from = out->size;

    bl_buffer_printf(out, "  %s", bl_task_state_name(task->row.state));
    pad(out, from, 14);
    from = out->size;
    put_safe(out, task->row.id);
    pad(out, from, id_width + 2);
    if (is_live(task)) {
        put_safe(out, bl_task_phase_name(task->row.phase));
        bl_buffer_printf(out, ", turn %" PRIu32 "/%" PRIu32, task->row.turn, task->row.turns_max);
        bl_buffer_printf(out, ", %s of ", feature_span_text(task->row.elapsed_s, span));
        put_deadline(out, task);
        put_left(out, task);
        bl_buffer_append(out, BL_TEXT(", "));
        put_activity(out, task);
    } else if (task->row.state == BL_TASK_PENDING || task->row.state == BL_TASK_QUEUED) {
        bl_buffer_append(out, BL_TEXT("deadline "));
        put_deadline(out, task);
        bl_buffer_append(out, BL_TEXT(" from its start"));
    } else {
        from = out->size;
        put_outcome(out, arena, task);
        if (task->row.turn > 0 && task->row.elapsed_s >= 0) {
            bl_buffer_printf(out, "%s%s of ", out->size > from ? " (" : "(",
                             feature_span_text(task->row.elapsed_s, span));
            put_deadline(out, task);
            bl_buffer_append_byte(out, ')');
        }
    }
    bl_buffer_append_byte(out, '\n');
}

static void feature_show_put_wave(struct bl_buffer *out, const struct bl_wave_view *wave)
{
    bl_buffer_printf(out, "Wave %" PRIu32 "  ", wave->n);
    put_safe(out, wave->state);
    if (wave->gate != NULL && strcmp(wave->gate, "none") != 0) {
        bl_buffer_append(out, BL_TEXT(", gate "));
        put_safe(out, wave->gate);
    }
    bl_buffer_append_byte(out, '\n');
}

static void put_feature(struct bl_buffer *out, struct bl_arena *arena,
                        const struct bl_feature_view *view)
{
    size_t width = 0;

    put_feature_head(out, view);
    if (view->error != NULL) {
        feature_show_put_head(out, "Error");
        feature_put_safe(out, bl_text_from(view->error->message));
        bl_buffer_append_byte(out, '\n');
    }
    for (size_t i = 0; i < view->task_count; i++) {
        size_t taken = text_width(bl_text_from(view->tasks[i].row.id));
        width = taken > width ? taken : width;
    }
    for (size_t i = 0; i < view->wave_count; i++) {
        bl_buffer_append_byte(out, '\n');
        feature_show_put_wave(out, &view->waves[i]);
        for (size_t k = 0; k < view->waves[i].task_count; k++)
            put_task_line(out, arena, view->waves[i].tasks[k], width);
    }
}

/* ---- A task ---------------------------------------------------------------------------------- */

static void feature_show_put_row(struct bl_buffer *out, const char *head, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return;
    feature_show_put_head(out, head);
    put_safe(out, text);
    bl_buffer_append_byte(out, '\n');
}

static void feature_show_put_checkpoint(struct bl_buffer *out, const struct bl_json *json)
{
    struct bl_checkpoint checkpoint;
    BL_AUTO_ARENA(arena);

    bl_record_take(&arena, &bl_checkpoint_record, json, &checkpoint);
    feature_show_put_head(out, "Checkpoint");
    bl_buffer_printf(out, "turn %u, ", checkpoint.turn);
    feature_put_safe(out, bl_text_from(checkpoint.phase));
    bl_buffer_append(out, BL_TEXT(", "));
    feature_put_safe(out, bl_text_from(checkpoint.marker));
    if (checkpoint.feedback_turn > 0)
        bl_buffer_printf(out, ", with the feedback of turn %u", checkpoint.feedback_turn);
    if (checkpoint.late_verdict.size > 0)
        bl_buffer_append(out, BL_TEXT(", with a late verdict"));
    bl_buffer_append_byte(out, '\n');
    if (checkpoint.dirty_count == 0)
        return;
    feature_show_put_head(out, "Files");
    for (size_t i = 0; i < checkpoint.dirty_count && i < FILES; i++) {
        bl_buffer_append(out, i > 0 ? BL_TEXT(", ") : BL_TEXT(""));
        feature_put_safe(out, bl_text_from(checkpoint.dirty_files[i]));
    }
    if (checkpoint.dirty_count > FILES)
        bl_buffer_printf(out, " and %zu more", checkpoint.dirty_count - FILES);
    bl_buffer_append(out, BL_TEXT(" (uncommitted, in the worktree)\n"));
}

static void put_task_progress(struct bl_buffer *out, const struct bl_task_view *task)
{
    char span[16];

    feature_show_put_head(out, "Attempt");
    bl_buffer_printf(out, "%" PRIu32 ", turn %" PRIu32 " (%" PRIu32 " of %" PRIu32 " counted)\n",
                     task->row.attempt, task->row.turn, task->row.turns_counted,
                     task->row.turns_max);
    if (is_live(task))
        feature_show_put_row(out, "Phase",
                             task->row.phase != BL_PHASE_NONE ? bl_task_phase_name(task->row.phase)
                                                              : UNKNOWN);
    feature_show_put_head(out, "Deadline");
    put_deadline(out, task);
    if (task->deadline_source[0] != '\0') {
        bl_buffer_append(out, BL_TEXT(" ("));
        put_safe(out, task->deadline_source);
        bl_buffer_append_byte(out, ')');
    }
    if (is_live(task))
        put_left(out, task);
    bl_buffer_append_byte(out, '\n');
    feature_show_put_head(out, "Elapsed");
    bl_buffer_printf(out, "%s", feature_span_text(task->row.elapsed_s, span));
    if (is_live(task)) {
        bl_buffer_append(out, BL_TEXT(", "));
        put_activity(out, task);
    }
    bl_buffer_append_byte(out, '\n');
}

static void feature_show_put_task(struct bl_buffer *out, struct bl_arena *arena,
                                  const struct bl_feature_view *view,
                                  const struct bl_task_view *task)
{
    feature_show_put_head(out, "Task");
    put_safe(out, view->feature);
    bl_buffer_append_byte(out, '/');
    put_safe(out, task->row.id);
    bl_buffer_append(out, BL_TEXT(": "));
    put_safe(out, task->row.name.data);
    bl_buffer_append_byte(out, '\n');
    feature_show_put_row(out, "State", bl_task_state_name(task->row.state));
    if (task->row.decision != BL_DECISION_NONE) {
        feature_show_put_head(out, "Decision");
        feature_put_safe(out, bl_task_view_text(arena, task));
        bl_buffer_append_byte(out, '\n');
    }
    put_task_progress(out, task);
    feature_show_put_row(out, "Verified", bl_verified_name(task->row.verified));
    feature_show_put_row(out, "Branch", task->row.branch);
    feature_show_put_row(out, "Base", task->row.base_commit);
    feature_show_put_row(out, "Head", task->row.head_commit);
    feature_show_put_row(out, "Merged", task->row.merged ? "yes" : "no");
    feature_show_put_row(out, "Worktree", task->row.worktree.data);
    feature_show_put_head(out, "Spent");
    feature_show_put_spent(out, &task->row.spent, task->row.spent_known);
    bl_buffer_append_byte(out, '\n');
    if (task->row.reason != BL_STOP_NONE) {
        const char *reason = bl_stop_reason_name(task->row.reason);
        feature_show_put_head(out, "Stopped");
        put_safe(out, reason);
        if (task->row.reason != BL_STOP_OWNER_DIED && task->row.triggered_by[0] != '\0' &&
            strcmp(task->row.triggered_by, reason) != 0) {
            bl_buffer_append(out, BL_TEXT(", by "));
            put_safe(out, task->row.triggered_by);
        }
        bl_buffer_append_byte(out, '\n');
    }
    feature_show_put_row(out, "Receipt", task->row.receipt);
    feature_show_put_row(out, "Message", task->row.message.data);
    if (task->checkpoint != NULL)
        feature_show_put_checkpoint(out, task->checkpoint);
}

/* ---- status ---------------------------------------------------------------------------------- */

struct showing {
    struct feature_work work;
    struct bl_feature_view **views; /* without a name: all features */
    size_t count;
};

static int look_at_all(struct showing *status)
{
    struct feature_work *work = &status->work;
    struct bl_list features;
    size_t count = 0;

    int code =
        bl_plan_repository(&work->arena, work->options->directory, &work->repository, &work->error);
    if (code != 0)
        return code;
    code = feature_store_find(work->options, &work->store, &work->error);
    if (code == BL_ENOENT) {
        work->error = (struct bl_error){0};
        return 0;
    }
    if (code == 0)
        code = bl_store_feature_list(work->store, &work->arena, work->repository, &features,
                                     &work->error);
    if (code != 0)
        return code;
    BL_LIST_EACH (link, &features)
        count++;
    status->views = bl_arena_alloc(&work->arena, (count + 1) * sizeof(struct bl_feature_view *));
    BL_LIST_EACH (link, &features) {
        const char *id = BL_CONTAINER(link, struct bl_store_feature_summary, link)->id;
        code = bl_feature_look(work->store, &work->arena, work->repository, id,
                               &status->views[status->count], &work->error);
        if (code != 0)
            return code;
        status->count++;
    }
    return 0;
}

static int status_main(void *argument)
{
    struct showing *status = argument;
    struct feature_work *work = &status->work;
    int code;

    if (work->options->name == NULL) {
        code = look_at_all(status);
    } else {
        code = feature_work_open(work);
        if (code == 0)
            code = feature_work_look(work);
    }
    feature_work_close(work);
    return code;
}

static const struct bl_member view_element = {.type = BL_TYPE_POINTER,
                                              .size = sizeof(struct bl_feature_view *),
                                              .record = &bl_feature_view_record};

#define BL_RECORD_STRUCT struct showing
static const struct bl_member all_members[] = {
    BL_MEMBER_ARRAY("features", views, count, &view_element,
                    .about = "All features of the repository."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer feature_status_all_answer = {
    BL_RECORD("feature-status-all", struct showing, all_members),
    .of = "feature status without a name"};

static int status_print_one(struct feature_work *work)
{
    struct feature_outcome outcome = {.view = *work->view, .of_task = work->task != NULL};
    const struct bl_task_view *task = NULL;
    struct bl_task_row row;

    if (work->task != NULL)
        task = bl_feature_view_task(work->view, bl_text_from(work->task));
    if (task != NULL) {
        row = task->row;
        if (task->json != NULL)
            bl_record_take(&work->arena, &bl_task_row_record, task->json, &row);
        outcome.task = &row;
        outcome.checkpoint = task->checkpoint;
    }
    return cli_answer_print(work->options->call, CLI_EXIT_OK, &feature_answer.record, &outcome);
}

static int print_status(struct showing *status)
{
    struct feature_work *work = &status->work;
    const struct bl_task_view *task = NULL;
    BL_AUTO_BUFFER(out, TEXT_MAX);

    if (work->task != NULL)
        task = bl_feature_view_task(work->view, bl_text_from(work->task));
    if (task != NULL)
        feature_show_put_task(&out, &work->arena, work->view, task);
    else if (work->view != NULL)
        put_feature(&out, &work->arena, work->view);
    else if (status->count == 0)
        bl_buffer_append(&out, BL_TEXT("No features in this repository.\n"));
    for (size_t i = 0; i < status->count; i++) {
        bl_buffer_append(&out, i > 0 ? BL_TEXT("\n") : BL_TEXT(""));
        put_feature(&out, &work->arena, status->views[i]);
    }
    return cli_print(work->options->call, bl_buffer_text(&out), CLI_EXIT_OK);
}

int feature_status_command(const struct feature_options *options)
{
    struct showing status = {0};
    struct bl_error *error = &status.work.error;
    int exit_code;

    feature_work_init(&status.work, options);
    if (cli_loop_run("feature status", status_main, &status, error) != 0)
        exit_code = cli_fail(options->call, error, cli_error_exit_code(error));
    else if (options->call->format == CLI_FORMAT_TEXT)
        exit_code = print_status(&status);
    else if (options->name != NULL)
        exit_code = status_print_one(&status.work);
    else
        exit_code = cli_answer_print(options->call, CLI_EXIT_OK, &feature_status_all_answer.record,
                                     &status);
    feature_work_done(&status.work);
    return exit_code;
}
