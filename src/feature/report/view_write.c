#include "feature/parts.h"
#include "report.h"

#define TEXT_MAX ((size_t)64 * 1024)

/* ---- The envelope ---------------------------------------------------------------------------- */

static void view_write_put_spent(struct bl_json_writer *writer, const struct bl_spent *spent,
                                 bool known)
{
    bl_json_write_key(writer, BL_TEXT("spent"));
    if (known)
        bl_record_write(writer, &bl_spent_record, spent);
    else
        bl_json_write_null(writer);
}

static void write_waves(struct bl_json_writer *writer, const struct bl_feature_view *view)
{
    bl_json_write_key(writer, BL_TEXT("waves"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < view->wave_count; i++) {
        const struct bl_wave_view *wave = &view->waves[i];
        bl_json_write_object(writer);
        bl_json_put_uint64(writer, "n", wave->n);
        bl_json_put_string(writer, "state", wave->state);
        bl_json_put_string(writer, "gate", wave->gate);
        bl_json_write_key(writer, BL_TEXT("tasks"));
        bl_json_write_array(writer);
        for (size_t k = 0; k < wave->task_count; k++)
            bl_record_write(writer, &bl_task_view_record, &view->tasks[wave->tasks[k]]);
        bl_json_write_end(writer);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

/* Tokens of what stands: of tasks that are approved. What others used is in `spent` alone. */
static void write_usage(struct bl_json_writer *writer, const struct bl_feature_view *view)
{
    struct bl_usage usage = {0};
    bool known = false, any = false;
    for (size_t i = 0; i < view->task_count; i++) {
        const struct bl_task_view *task = &view->tasks[i];
        bool stands = task->row.state == BL_TASK_APPROVED ||
                      (task->row.state == BL_TASK_COMPLETED && task->row.attempt > 0);
        any = any || stands;
        if (!stands || !task->row.spent_known)
            continue;
        known = true;
        bl_usage_add(&usage, &task->row.spent.usage);
    }
    bl_json_write_key(writer, BL_TEXT("usage"));
    if (known || !any)
        bl_record_write(writer, &bl_usage_record, &usage);
    else
        bl_json_write_null(writer);
}

/* A view that was made by hand may have lists that nobody has begun. */
static void write_records(struct bl_json_writer *writer, const char *key,
                          const struct bl_list *records)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_array(writer);
    if (records->next != NULL) {
        BL_LIST_EACH (link, records)
            bl_json_write_raw(writer, BL_CONTAINER(link, struct bl_row, link)->json);
    }
    bl_json_write_end(writer);
}

void bl_feature_view_write(const struct bl_feature_view *view, struct bl_json_writer *writer)
{
    bl_json_put_string(writer, "feature", view->feature);
    bl_json_put_string(writer, "run_id", view->run_id);
    bl_json_put_string(writer, "state", view->state);
    bl_json_put_string(writer, "plan_digest", view->plan_digest);
    bl_json_put_string(writer, "base_commit", view->base_commit);
    bl_json_put_string(writer, "result_branch", view->result_branch);
    bl_json_put_string(writer, "result_commit", view->result_commit);
    write_waves(writer, view);
    bl_json_write_key(writer, BL_TEXT("counts"));
    bl_json_write_object(writer);
    for (size_t i = 0; i < BL_COUNT(view->counts); i++)
        bl_json_put_uint64(writer, bl_task_state_name((enum bl_task_state)i), view->counts[i]);
    bl_json_write_end(writer);
    bl_json_put_boolean(writer, "unverified", view->unverified);
    write_usage(writer, view);
    view_write_put_spent(writer, &view->spent, view->spent_known);
    write_records(writer, "receipts", &view->receipts);
    if (view->error != NULL) {
        bl_json_write_key(writer, BL_TEXT("error"));
        bl_json_write_value(writer, view->error);
    }
    write_records(writer, "warnings", &view->warnings);
}

/* ---- A task in words ------------------------------------------------------------------------- */

static const char *html_reference(char byte)
{
    switch (byte) {
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '&': return "&amp;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

/* Between characters that HTML reads the text is shown as anywhere else. */
int clean_append(struct bl_buffer *out, struct bl_text text, enum clean_form form)
{
    bool lines = form == CLEAN_LINES || form == CLEAN_HTML_LINES;
    bool html = form == CLEAN_HTML_LINE || form == CLEAN_HTML_LINES;
    int code = 0;
    while (text.size > 0 && code == 0) {
        size_t size = 0;
        while (size < text.size && !(html && html_reference(text.data[size]) != NULL))
            size++;
        code = bl_text_show(out, (struct bl_text){text.data, size},
                            lines ? BL_SHOW_LINES : BL_SHOW_LINE);
        if (code == 0 && size < text.size)
            code = bl_buffer_append(out, bl_text_from(html_reference(text.data[size++])));
        text.data += size;
        text.size -= size;
    }
    return code;
}

static void say_approved(struct bl_buffer *out, const struct bl_task_view *task)
{
    char late[32];
    bool unverified = task->row.verified == BL_VERIFIED_NONE;
    bool was_late = task->row.decision == BL_DECISION_APPROVED_LATE;
    bool completed = task->row.state == BL_TASK_COMPLETED;
    if (task->row.decision == BL_DECISION_ALREADY_COMPLETED) {
        bl_buffer_printf(out, "completed before");
        return;
    }
    if (completed)
        bl_buffer_printf(out, "completed%s", unverified || was_late ? ": " : "");
    if (!completed || unverified || was_late)
        bl_buffer_printf(out, "approved");
    if (was_late && task->row.late_ms >= 0) {
        bl_duration_format((int64_t)(task->row.late_ms * 1e6), late);
        bl_buffer_printf(out, " %s late", late);
    } else if (was_late) {
        bl_buffer_printf(out, " late");
    }
    if (unverified)
        bl_buffer_printf(out, ", not verified");
}

static const char *failure_words(enum bl_task_decision decision)
{
    switch ((int)decision) {
    case BL_DECISION_MAX_TURNS: return "turns used up";
    case BL_DECISION_STALLED: return "stalled";
    case BL_DECISION_PLAYER_FAILED: return "the Player failed";
    case BL_DECISION_COACH_FAILED: return "the Coach failed";
    case BL_DECISION_MERGE_CONFLICT: return "merge conflict";
    case BL_DECISION_GATE_FAILED: return "gate failed";
    case BL_DECISION_MAX_BUDGET: return "budget used up";
    case BL_DECISION_TIMEOUT_BUDGET: return "too little time left for a turn";
    default: return NULL;
    }
}

/* Why it was stopped, as people say it; what they would not know is said as it is on record. */
static void say_reason(struct bl_buffer *out, const struct bl_task_view *task)
{
    const char *by = task->row.triggered_by;
    char deadline[32];
    if (task->row.reason == BL_STOP_USER && strcmp(by, "user") == 0) {
        bl_buffer_printf(out, "by hand");
    } else if (task->row.reason == BL_STOP_TIMEOUT && task->deadline_s > 0) {
        size_t size = bl_json_format_double(task->deadline_s, deadline);
        bl_buffer_printf(out, "its deadline was %.*s s", (int)size, deadline);
    } else {
        bl_buffer_printf(out, "%s", bl_stop_reason_name(task->row.reason));
        if (by[0] != '\0') {
            bl_buffer_printf(out, ", by ");
            clean_append(out, bl_text_from(by), CLEAN_LINE);
        }
    }
}

/* How it ended, or that it does not run: state, what it was, and why. */
static void say_plainly(struct bl_buffer *out, const struct bl_task_view *task)
{
    const char *words = failure_words(task->row.decision);
    if (task->row.state == BL_TASK_TIMED_OUT)
        bl_buffer_printf(out, "timed out");
    else
        bl_buffer_printf(out, "%s", bl_task_state_name(task->row.state));
    if (words != NULL)
        bl_buffer_printf(out, ", %s", words);
    if (task->row.message.size > 0) {
        bl_buffer_printf(out, ": ");
        clean_append(out, task->row.message, CLEAN_LINE);
    } else if (task->row.reason != BL_STOP_NONE) {
        bl_buffer_printf(out, ": ");
        say_reason(out, task);
    }
}

static void say_running(struct bl_buffer *out, const struct bl_task_view *task)
{
    bl_buffer_printf(out, "running");
    if (task->row.phase != BL_PHASE_NONE)
        bl_buffer_printf(out, ", %s", bl_task_phase_name(task->row.phase));
    if (task->row.turn > 0)
        bl_buffer_printf(out, ", turn %u", task->row.turn);
}

struct bl_text bl_task_view_text(struct bl_arena *arena, const struct bl_task_view *task)
{
    struct bl_buffer out;
    bl_buffer_init(&out, TEXT_MAX);
    if (task->row.state == BL_TASK_APPROVED || task->row.state == BL_TASK_COMPLETED)
        say_approved(&out, task);
    else if (task->row.state == BL_TASK_RUNNING)
        say_running(&out, task);
    else
        say_plainly(&out, task);
    struct bl_text text = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text;
}
