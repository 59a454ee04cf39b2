/* Task rows: one table describes the stored members, and which of them are public. */
#include "feature/parts.h"

#define ROW_MAX ((size_t)16 * 1024 * 1024)

/* ---- Public members -------------------------------------------------------------------------- */

const struct bl_form feature_commit_form = {"a commit id", "^[0-9a-f]{40,64}$", NULL};
const struct bl_form feature_receipt_form = {"a receipt's id", "^rcp_", NULL};

#define BL_RECORD_STRUCT struct bl_task_row
static const struct bl_member shown_members[] = {
    BL_MEMBER_WORD("id", id, .least = 1, .cut = true, .about = "Unique in its feature."),
    BL_MEMBER_TEXT("name", name, .about = "For display."),
    BL_MEMBER_ENUM("state", state, &bl_task_states, .about = "What it is doing, or how it ended."),
    BL_MEMBER_ENUM("decision", decision, &bl_task_decisions, .nullable = true,
                   .about = "Of the newest attempt; null: it has not ended."),
    BL_MEMBER_INTEGER("attempt", attempt, .about = "From 1; 0: never started."),
    BL_MEMBER_INTEGER("turn", turn, .about = "The newest; 0: none."),
    BL_MEMBER_INTEGER("turns_counted", turns_counted,
                      .about = "Over all attempts; turns that were cut off are not counted."),
    BL_MEMBER_INTEGER("turns_max", turns_max, .nullable = true, .least = 1,
                      .about = "null: not known."),
    BL_MEMBER_ENUM("phase", phase, &bl_task_phases, .nullable = true,
                   .about = "Position in its loop, now or when it was stopped; null: none."),
    BL_MEMBER_ENUM("verified", verified, &bl_verified_values, .nullable = true,
                   .about = "none: no commands are declared; null: not known yet."),
    BL_MEMBER_NUMBER("elapsed_s", elapsed_s, .nullable = true, .none = -1, .decimals = 3,
                     .most = FEATURE_SECONDS_MAX,
                     .about = "Of the newest attempt; null: not started."),
    BL_MEMBER_NUMBER("deadline_s", deadline_s, .nullable = true, .none = -1, .decimals = 3,
                     .most = FEATURE_SECONDS_MAX, .about = "Deadline in effect; null: not known."),
    BL_MEMBER_WORD("deadline_source", deadline_source, .nullable = true, .cut = true,
                   .about = "command line, task, autobuild, feature, default."),
    BL_MEMBER_NUMBER("grace_s", grace_s, .decimals = 3, .most = FEATURE_SECONDS_MAX,
                     .about = "Extra time for the Coach after the deadline; 0: none."),
    BL_MEMBER_TIME("last_activity_at", active_wall_ns, .nullable = true,
                   .about = "Time of its newest activity."),
    BL_MEMBER_WORD("branch", branch, .nullable = true, .cut = true, .about = "null: none yet."),
    BL_MEMBER_WORD("base_commit", base_commit, .nullable = true, .cut = true,
                   .form = &feature_commit_form, .about = "null: none yet."),
    BL_MEMBER_WORD("head_commit", head_commit, .nullable = true, .cut = true,
                   .form = &feature_commit_form, .about = "null: none yet."),
    BL_MEMBER_BOOLEAN("merged", merged, .about = "It is in the result branch."),
    BL_MEMBER_TEXT("worktree", worktree, .nullable = true, .about = "null: none yet."),
    BL_MEMBER_BOOLEAN("dirty", dirty, .nullable = true, .none = -1,
                      .about = "Uncommitted files in the worktree; null: not known."),
    BL_MEMBER_ENUM("reason", reason, &bl_stop_reasons, .nullable = true,
                   .about = "Stop reason; null: not stopped."),
    BL_MEMBER_WORD("triggered_by", triggered_by, .nullable = true, .cut = true,
                   .about = "timer, user, a signal, feature, or the task that failed."),
    BL_MEMBER_OBJECT("spent", spent, &bl_spent_record, .nullable = true, BL_KNOWN(spent_known),
                     .about = "Over all attempts; null: not known."),
    BL_MEMBER_RAW("checkpoint", checkpoint, .nullable = true, .record = &bl_checkpoint_record,
                  .about = "Checkpoint of its last stop; null: none."),
    BL_MEMBER_WORD("receipt", receipt, .nullable = true, .cut = true, .form = &feature_receipt_form,
                   .about = "Receipt of its stop, listed in receipts."),
    BL_MEMBER_TEXT("message", message, .nullable = true, .about = "Why it ended this way."),
    BL_MEMBER_END,
};
static const struct bl_record shown_record =
    BL_RECORD("feature_task", struct bl_task_row, shown_members);

/* ---- Stored members -------------------------------------------------------------------------- */

static const struct bl_member kept_members[] = {
    BL_MEMBER_INCLUDE(&shown_record),
    BL_MEMBER_INTEGER("wave", wave, .about = "From 1."),
    BL_MEMBER_TIME("started_at", started_wall_ns, .nullable = true, .about = "Of the attempt."),
    BL_MEMBER_TIME("ended_at", ended_wall_ns, .nullable = true, .about = "Of the attempt."),
    BL_MEMBER_TIME("deadline_at", deadline_wall_ns, .nullable = true,
                   .about = "When its timer fires; null: not armed, or held."),
    BL_MEMBER_NUMBER("held_left_s", held_left_s, .nullable = true, .none = -1, .decimals = 3,
                     .most = FEATURE_SECONDS_MAX,
                     .about = "Time left when a pause held the timer; null: not held."),
    BL_MEMBER_WORD("last_activity", activity, .nullable = true, .cut = true,
                   .about = "model, output, tool NAME, …"),
    BL_MEMBER_TIME("merged_at", merged_wall_ns, .nullable = true),
    BL_MEMBER_NUMBER("late_ms", late_ms, .nullable = true, .none = -1, .most = FEATURE_SECONDS_MAX,
                     .about = "Delay of a late approval."),
    BL_MEMBER_END,
};
const struct bl_record bl_task_row_record =
    BL_RECORD("task_row", struct bl_task_row, kept_members, .closed = true);
#undef BL_RECORD_STRUCT

#define BL_RECORD_STRUCT struct bl_task_memory
static const struct bl_member memory_members[] = {
    BL_MEMBER_OBJECT("stall", stall, &stall_record),
    BL_MEMBER_WORD("session", session, .nullable = true, .cut = true,
                   .about = "Session of an agent as Player."),
    BL_MEMBER_TEXT("feedback", feedback, .nullable = true),
    BL_MEMBER_INTEGER("feedback_turn", feedback_turn),
    BL_MEMBER_RAW("last_verdict", last_verdict, .nullable = true, .object = true),
    BL_MEMBER_TEXT("cut_off", cut_off, .nullable = true,
                   .about = "What a stop cut off, for the next Player."),
    BL_MEMBER_INTEGER("merge_turns", merge_turns),
    BL_MEMBER_WORD("approved_commit", approved_commit, .nullable = true, .cut = true,
                   .form = &feature_commit_form, .about = "Commit that the Coach approved."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record memory_record =
    BL_RECORD("memory", struct bl_task_memory, memory_members);

#define BL_RECORD_STRUCT struct bl_task_row
static const struct bl_member row_members[] = {
    BL_MEMBER_INCLUDE(&bl_task_row_record),
    BL_MEMBER_POINTER("memory", memory, &memory_record, .optional = true,
                      .about = "State for a resume."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record task_row_record =
    BL_RECORD("task_row", struct bl_task_row, row_members, .about = "A task, in the store.");

/* ---- Views ----------------------------------------------------------------------------------- */

#define BL_RECORD_STRUCT struct bl_task_view
static const struct bl_member view_members[] = {
    BL_MEMBER_EMBED(row, &shown_record),
    BL_MEMBER_NUMBER("deadline_left_s", deadline_left_s, .nullable = true, .none = -1,
                     .decimals = 3, .most = FEATURE_SECONDS_MAX,
                     .about = "Until the task's deadline or the feature's, whichever comes first; "
                              "null: not running."),
    BL_MEMBER_END,
};
static const struct bl_member read_members[] = {
    BL_MEMBER_EMBED(row, &bl_task_row_record),
    BL_MEMBER_NUMBER("deadline_left_s", deadline_left_s, .optional = true, .none = -1,
                     .most = FEATURE_SECONDS_MAX),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_task_view_record =
    BL_RECORD("feature_task", struct bl_task_view, view_members, .closed = true);
const struct bl_record task_view_read_record =
    BL_RECORD("feature_task", struct bl_task_view, read_members);

/* ---- The feature and its waves --------------------------------------------------------------- */

#define BL_RECORD_STRUCT struct feature_record
static const struct bl_member feature_members[] = {
    BL_MEMBER_STRING("feature", view.feature, .nullable = true, .about = "Its id."),
    BL_MEMBER_STRING("name", view.name, .nullable = true),
    BL_MEMBER_STRING("repository", view.repository, .nullable = true),
    BL_MEMBER_STRING("run_id", view.run_id, .nullable = true, .about = "Id of the newest run."),
    BL_MEMBER_STRING("state", view.state, .nullable = true),
    BL_MEMBER_STRING("plan_digest", view.plan_digest, .nullable = true),
    BL_MEMBER_STRING("base_commit", view.base_commit, .nullable = true,
                     .form = &feature_commit_form),
    BL_MEMBER_STRING("result_branch", view.result_branch, .nullable = true),
    BL_MEMBER_STRING("result_commit", view.result_commit, .nullable = true,
                     .form = &feature_commit_form, .about = "null: none yet."),
    BL_MEMBER_TIME("started_at", view.started_wall_ns, .nullable = true),
    BL_MEMBER_TIME("ended_at", view.ended_wall_ns, .nullable = true, .about = "null: running."),
    BL_MEMBER_STRING("reason", view.reason, .nullable = true, .about = "Stop reason."),
    BL_MEMBER_STRING("origin", view.origin, .nullable = true, .about = "Origin of the stop."),
    BL_MEMBER_INTEGER("exit_code", view.exit_code, .nullable = true, .none = -1, .most = 255,
                      .about = "null: running."),
    BL_MEMBER_INTEGER("parallel", view.parallel),
    BL_MEMBER_NUMBER("feature_deadline_s", view.feature_deadline_s, .nullable = true, .none = -1,
                     .most = FEATURE_SECONDS_MAX),
    BL_MEMBER_TIME("deadline_at", view.deadline_wall_ns, .nullable = true,
                   .about = "When that deadline is reached; null: none, or not running."),
    BL_MEMBER_STRING("receipt", view.receipt, .nullable = true, .form = &feature_receipt_form),
    BL_MEMBER_BOOLEAN("unverified", view.unverified, .about = "A wave is unverified."),
    BL_MEMBER_POINTER("error", view.error, &bl_error_record, .nullable = true),
    BL_MEMBER_INTEGER("tasks_done", tasks_done),
    BL_MEMBER_INTEGER("tasks_total", tasks_total),
    BL_MEMBER_OBJECT("spent", spent, &bl_spent_record, .nullable = true, BL_KNOWN(spent_known)),
    BL_MEMBER_ARRAY("warnings", warnings, warning_count, &bl_element_text),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record feature_row_record =
    BL_RECORD("feature_row", struct feature_record, feature_members);

#define BL_RECORD_STRUCT struct wave_record
static const struct bl_member wave_members[] = {
    BL_MEMBER_INTEGER("n", wave.n, .least = 1),
    BL_MEMBER_ENUM("state", wave.state, &wave_states),
    BL_MEMBER_ENUM("gate", wave.gate, &bl_verified_values, .nullable = true,
                   .about = "null: not run yet."),
    BL_MEMBER_TIME("started_at", wave.started_wall_ns, .nullable = true),
    BL_MEMBER_TIME("ended_at", wave.ended_wall_ns, .nullable = true),
    BL_MEMBER_ARRAY("tasks", tasks, task_count, &bl_element_string, .about = "Task ids."),
    BL_MEMBER_STRING("message", message, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record wave_row_record = BL_RECORD("wave_row", struct wave_record, wave_members);

struct bl_text record_json(struct bl_arena *arena, const struct bl_record *record, const void *from)
{
    BL_AUTO_BUFFER(buffer, ROW_MAX);
    struct bl_json_writer writer;
    struct bl_text json = {0};
    bl_json_writer_init(&writer, &buffer);
    bl_record_write(&writer, record, from);
    if (bl_json_writer_done(&writer) == 0)
        json = bl_arena_text(arena, bl_buffer_text(&buffer));
    return json;
}

const char *row_word(const char *word)
{
    return word != NULL && word[0] != '\0' ? word : NULL;
}

/* ---- Rows of a runner ------------------------------------------------------------------------ */

void row_text_set(struct bl_text *slot, struct bl_text text)
{
    char *copy = NULL;
    if (text.size > 0) {
        copy = bl_alloc(text.size + 1);
        memcpy(copy, text.data, text.size);
        copy[text.size] = '\0';
    }
    bl_free((char *)slot->data);
    *slot = (struct bl_text){copy, text.size};
}

#define ROW_TEXTS 7

static void row_texts(struct bl_task_row *row, struct bl_text *ret_texts[ROW_TEXTS])
{
    struct bl_text *const texts[ROW_TEXTS] = {
        &row->name,
        &row->worktree,
        &row->checkpoint,
        &row->message,
        &row->memory->feedback,
        &row->memory->last_verdict,
        &row->memory->cut_off,
    };
    memcpy(ret_texts, texts, sizeof texts);
}

void task_row_init(struct bl_task_row *row)
{
    *row = (struct bl_task_row){
        .elapsed_s = -1,
        .deadline_s = -1,
        .held_left_s = -1,
        .dirty = -1,
        .late_ms = -1,
        .memory = bl_zalloc(sizeof *row->memory),
    };
}

void task_row_done(struct bl_task_row *row)
{
    struct bl_text *texts[ROW_TEXTS];
    row_texts(row, texts);
    for (size_t i = 0; i < ROW_TEXTS; i++)
        row_text_set(texts[i], (struct bl_text){0});
    bl_free(row->memory);
}

void task_row_read(const struct bl_json *value, struct bl_task_row *row)
{
    struct bl_task_memory memory = {0};
    struct bl_task_row taken;
    struct bl_text *texts[ROW_TEXTS];
    BL_AUTO_ARENA(arena);
    bl_record_take(&arena, &task_row_record, value, &taken);
    if (taken.memory != NULL)
        memory = *taken.memory;
    task_row_done(row);
    *row = taken;
    row->memory = bl_alloc(sizeof memory);
    *row->memory = memory;
    row_texts(row, texts);
    for (size_t i = 0; i < ROW_TEXTS; i++) {
        struct bl_text text = *texts[i];
        *texts[i] = (struct bl_text){0};
        row_text_set(texts[i], text);
    }
}
