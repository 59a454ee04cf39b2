#include "feature/parts.h"
#include "report.h"

#define TEXT_MAX ((size_t)64 * 1024)

/* ---- The envelope ---------------------------------------------------------------------------- */

static const struct bl_member task_element = {
    .type = BL_TYPE_POINTER, .size = sizeof(struct bl_task_view *), .record = &bl_task_view_record};

#define BL_RECORD_STRUCT struct bl_wave_view
static const struct bl_member wave_members[] = {
    BL_MEMBER_INTEGER("n", n, .least = 1),
    BL_MEMBER_STRING("state", state, .names = &wave_states),
    BL_MEMBER_STRING("gate", gate, .nullable = true, .names = &bl_verified_values,
                     .about = "absent: it could not run, and the wave is unverified; null: not run "
                              "yet."),
    BL_MEMBER_ARRAY("tasks", tasks, task_count, &task_element),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record wave_record =
    BL_RECORD("feature_wave", struct bl_wave_view, wave_members, .closed = true);
static const struct bl_member wave_element = BL_ELEMENT(struct bl_wave_view, &wave_record);

#define BL_RECORD_STRUCT struct bl_feature_warning
static const struct bl_member warning_members[] = {
    BL_MEMBER_TEXT("message", message),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record warning_record =
    BL_RECORD("feature_warning", struct bl_feature_warning, warning_members, .closed = true);
static const struct bl_member warning_element =
    BL_ELEMENT(struct bl_feature_warning, &warning_record);

static const struct bl_member receipt_element = {
    .type = BL_TYPE_RAW, .size = sizeof(struct bl_text), .record = &bl_receipt_record};

static const struct bl_form run_form = {"a run's id", "^run_", NULL};
static const struct bl_form digest_form = {"a digest", "^sha256:", NULL};

#define BL_RECORD_STRUCT struct bl_feature_view
static const struct bl_member count_members[] = {
#define COUNT_MEMBER(name, text) BL_MEMBER_INTEGER(text, counts[name]),
    BL_TASK_STATE_TABLE(COUNT_MEMBER)
#undef COUNT_MEMBER
        BL_MEMBER_END,
};
static const struct bl_record counts_record =
    BL_RECORD_GROUP("feature_counts", count_members, .closed = true);

static const struct bl_member feature_members[] = {
    BL_MEMBER_STRING("feature", feature, .nullable = true,
                     .about = "Feature id; null: not in the store."),
    BL_MEMBER_STRING("run_id", run_id, .nullable = true, .form = &run_form,
                     .about = "Id of the newest run."),
    BL_MEMBER_STRING("state", state, .names = &feature_states),
    BL_MEMBER_STRING("plan_digest", plan_digest, .nullable = true, .form = &digest_form),
    BL_MEMBER_STRING("base_commit", base_commit, .nullable = true, .form = &feature_commit_form,
                     .about = "null: none yet."),
    BL_MEMBER_STRING("result_branch", result_branch, .nullable = true),
    BL_MEMBER_STRING("result_commit", result_commit, .nullable = true, .form = &feature_commit_form,
                     .about = "null: none yet."),
    BL_MEMBER_ARRAY("waves", waves, wave_count, &wave_element),
    BL_MEMBER_GROUP("counts", &counts_record, .about = "Tasks by state."),
    BL_MEMBER_NUMBER("deadline_s", feature_deadline_s, .nullable = true, .none = -1, .decimals = 3,
                     .most = FEATURE_SECONDS_MAX,
                     .about = "Deadline of the feature in the newest run; null: none."),
    BL_MEMBER_NUMBER("deadline_left_s", deadline_left_s, .nullable = true, .none = -1,
                     .decimals = 3, .most = FEATURE_SECONDS_MAX, .about = "null: not running."),
    BL_MEMBER_BOOLEAN("unverified", unverified, .about = "The gate of a wave could not run."),
    BL_MEMBER_OBJECT("usage", usage, &bl_usage_record, .nullable = true, BL_KNOWN(usage_known),
                     .about = "Usage of approved tasks; null: not known."),
    BL_MEMBER_OBJECT("spent", spent, &bl_spent_record, .nullable = true, BL_KNOWN(spent_known),
                     .about = "Usage of all tasks and attempts; null: not known."),
    BL_MEMBER_ARRAY("receipts", receipt_texts, receipt_count, &receipt_element,
                    .about = "Receipts of the newest run and of the tasks' newest attempts."),
    BL_MEMBER_POINTER("error", error, &bl_error_record, .optional = true,
                      .about = "Error of the whole feature; omitted if there is none."),
    BL_MEMBER_ARRAY("warnings", warnings, warning_count, &warning_element),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_feature_view_record =
    BL_RECORD("feature_view", struct bl_feature_view, feature_members, .closed = true);

/* ---- A task's state in words ----------------------------------------------------------------- */

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

/* Shows the parts between HTML's special characters like any other text. */
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
        bl_buffer_printf(out, "already completed");
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

/* Appends why a task was stopped, in plain words where possible, else as recorded. */
static void say_reason(struct bl_buffer *out, const struct bl_task_view *task)
{
    const char *by = task->row.triggered_by;
    char deadline[32];
    if (task->row.reason == BL_STOP_USER && strcmp(by, "user") == 0) {
        bl_buffer_printf(out, "by the user");
    } else if (task->row.reason == BL_STOP_TIMEOUT && strcmp(by, "feature") == 0) {
        bl_buffer_printf(out, "the feature's deadline was reached");
    } else if (task->row.reason == BL_STOP_TIMEOUT && task->deadline_s > 0) {
        bl_duration_format((int64_t)(task->deadline_s * 1e9), deadline);
        bl_buffer_printf(out, "its deadline of %s was reached", deadline);
    } else if (task->row.reason == BL_STOP_OWNER_DIED) {
        bl_buffer_printf(out, "its belay process was killed or crashed");
    } else {
        bl_buffer_printf(out, "%s", bl_stop_reason_name(task->row.reason));
        if (by[0] != '\0') {
            bl_buffer_printf(out, ", by ");
            clean_append(out, bl_text_from(by), CLEAN_LINE);
        }
    }
}

/* Appends the state of a task that has ended or waits, and the reason. */
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
    BL_AUTO_BUFFER(out, TEXT_MAX);
    if (task->row.state == BL_TASK_APPROVED || task->row.state == BL_TASK_COMPLETED)
        say_approved(&out, task);
    else if (task->row.state == BL_TASK_RUNNING)
        say_running(&out, task);
    else
        say_plainly(&out, task);
    return bl_arena_text(arena, bl_buffer_text(&out));
}
