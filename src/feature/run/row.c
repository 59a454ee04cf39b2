/* A task's row: written as one JSON object, and read again by whoever goes on with it. */
#include <stdio.h>

#include "feature/parts.h"

static const char *const phase_names[] = {
#define PHASE_NAME(name, text) text,
    TASK_PHASE_TABLE(PHASE_NAME)
#undef PHASE_NAME
};

const char *task_phase_name(enum task_phase phase)
{
    return (size_t)phase < BL_COUNT(phase_names) ? phase_names[phase] : NULL;
}

enum task_phase task_phase_parse(struct bl_text name)
{
    for (size_t i = 1; i < BL_COUNT(phase_names); i++)
        if (bl_text_equal(name, bl_text_from(phase_names[i])))
            return (enum task_phase)i;
    return PHASE_NONE;
}

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

void task_row_init(struct task_row *row)
{
    *row = (struct task_row){
        .elapsed_s = -1,
        .deadline_s = -1,
        .dirty = -1,
        .late_ms = -1,
    };
}

void task_row_done(struct task_row *row)
{
    struct bl_text *const texts[] = {&row->name,    &row->worktree, &row->checkpoint,
                                     &row->message, &row->feedback, &row->last_verdict,
                                     &row->cut_off};
    for (size_t i = 0; i < BL_COUNT(texts); i++)
        row_text_set(texts[i], (struct bl_text){0});
}

/* ---- Writing --------------------------------------------------------------------------------- */

void row_put_time(struct bl_json_writer *writer, const char *key, int64_t wall_ns)
{
    char time[32];
    if (wall_ns != 0)
        bl_time_format(wall_ns, time);
    bl_json_put_string(writer, key, wall_ns != 0 ? time : NULL);
}

void row_put_word(struct bl_json_writer *writer, const char *key, const char *word)
{
    bl_json_put_string(writer, key, word[0] != '\0' ? word : NULL);
}

void row_put_text(struct bl_json_writer *writer, const char *key, struct bl_text text)
{
    if (text.size > 0)
        bl_json_put_text(writer, key, text);
    else
        bl_json_put_string(writer, key, NULL);
}

/* Negative: not known. */
void row_put_number(struct bl_json_writer *writer, const char *key, double number)
{
    bl_json_write_key(writer, bl_text_from(key));
    if (number >= 0)
        bl_json_write_double(writer, number);
    else
        bl_json_write_null(writer);
}

static void write_memory(struct bl_json_writer *writer, const struct task_row *row)
{
    bl_json_write_key(writer, BL_TEXT("memory"));
    bl_json_write_object(writer);
    bl_json_write_key(writer, BL_TEXT("stall"));
    stall_write(writer, &row->stall);
    row_put_word(writer, "session", row->session);
    row_put_text(writer, "feedback", row->feedback);
    bl_json_put_uint64(writer, "feedback_turn", row->feedback_turn);
    bl_json_put_json(writer, "last_verdict", row->last_verdict);
    row_put_text(writer, "cut_off", row->cut_off);
    bl_json_put_uint64(writer, "merge_turns", row->merge_turns);
    row_put_word(writer, "approved_commit", row->approved_commit);
    bl_json_write_end(writer);
}

static void write_place(struct bl_json_writer *writer, const struct task_row *row)
{
    bool branched = row->branch[0] != '\0';
    bl_json_put_string(writer, "branch", branched ? row->branch + strlen("refs/heads/") : NULL);
    row_put_word(writer, "base_commit", row->base_commit);
    row_put_word(writer, "head_commit", row->head_commit);
    bl_json_put_boolean(writer, "merged", row->merged);
    row_put_time(writer, "merged_at", row->merged_wall_ns);
    row_put_text(writer, "worktree", row->worktree);
    bl_json_write_key(writer, BL_TEXT("dirty"));
    if (row->dirty >= 0)
        bl_json_write_boolean(writer, row->dirty > 0);
    else
        bl_json_write_null(writer);
}

static void write_times(struct bl_json_writer *writer, const struct task_row *row)
{
    row_put_time(writer, "started_at", row->started_wall_ns);
    row_put_time(writer, "ended_at", row->ended_wall_ns);
    row_put_number(writer, "elapsed_s", row->elapsed_s);
    row_put_number(writer, "deadline_s", row->deadline_s);
    row_put_word(writer, "deadline_source", row->deadline_source);
    row_put_number(writer, "grace_s", row->grace_s);
    row_put_time(writer, "last_activity_at", row->active_wall_ns);
    row_put_word(writer, "last_activity", row->activity);
}

void task_row_write(struct bl_json_writer *writer, const struct task_row *row)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "id", row->id);
    row_put_text(writer, "name", row->name);
    bl_json_put_uint64(writer, "wave", row->wave);
    bl_json_put_string(writer, "state", bl_task_state_name(row->state));
    bl_json_put_string(writer, "decision", bl_task_decision_name(row->decision));
    bl_json_put_uint64(writer, "attempt", row->attempt);
    bl_json_put_uint64(writer, "turn", row->turn);
    bl_json_put_uint64(writer, "turns_counted", row->turns_counted);
    bl_json_put_uint64(writer, "turns_max", row->turns_max);
    bl_json_put_string(writer, "phase", task_phase_name(row->phase));
    bl_json_put_string(writer, "verified", row->verified);
    write_times(writer, row);
    write_place(writer, row);
    row_put_word(writer, "reason", row->reason);
    row_put_word(writer, "triggered_by", row->triggered_by);
    bl_json_write_key(writer, BL_TEXT("spent"));
    if (row->spent_known)
        bl_record_write(writer, &bl_spent_record, &row->spent);
    else
        bl_json_write_null(writer);
    bl_json_put_json(writer, "checkpoint", row->checkpoint);
    row_put_word(writer, "receipt", row->receipt);
    row_put_text(writer, "message", row->message);
    row_put_number(writer, "late_ms", row->late_ms);
    write_memory(writer, row);
    bl_json_write_end(writer);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static struct bl_text member_text(const struct bl_json *object, const char *key)
{
    return bl_json_text(bl_json_get(object, bl_text_from(key)));
}

static void take_word(const struct bl_json *object, const char *key, char *out, size_t size)
{
    struct bl_text text = bl_utf8_cut(member_text(object, key), size - 1);
    if (text.size > 0)
        memcpy(out, text.data, text.size);
    out[text.size] = '\0';
}

static void take_text(const struct bl_json *object, const char *key, struct bl_text *slot)
{
    row_text_set(slot, member_text(object, key));
}

static uint32_t member_number(const struct bl_json *object, const char *key)
{
    int64_t value = 0;
    bl_json_int64(bl_json_get(object, bl_text_from(key)), &value);
    return value > 0 && value <= UINT32_MAX ? (uint32_t)value : 0;
}

static double member_seconds(const struct bl_json *object, const char *key, double fallback)
{
    double value = fallback;
    bl_json_double(bl_json_get(object, bl_text_from(key)), &value);
    return value;
}

int64_t row_member_time(const struct bl_json *object, const char *key)
{
    int64_t wall_ns = 0;
    bl_time_parse(member_text(object, key), &wall_ns);
    return wall_ns;
}

/* A value as it would be written again. */
static void take_json(const struct bl_json *object, const char *key, struct bl_text *slot)
{
    const struct bl_json *value = bl_json_get(object, bl_text_from(key));
    struct bl_buffer buffer;
    struct bl_json_writer writer;
    bl_buffer_init(&buffer, (size_t)16 << 20);
    bl_json_writer_init(&writer, &buffer);
    if (bl_json_is(value, BL_JSON_OBJECT)) {
        bl_json_write_value(&writer, value);
        if (bl_json_writer_done(&writer) == 0)
            row_text_set(slot, bl_buffer_text(&buffer));
    }
    bl_buffer_done(&buffer);
}

static void read_memory(const struct bl_json *memory, struct task_row *row)
{
    stall_read(bl_json_get(memory, BL_TEXT("stall")), &row->stall);
    take_word(memory, "session", row->session, sizeof row->session);
    take_text(memory, "feedback", &row->feedback);
    row->feedback_turn = member_number(memory, "feedback_turn");
    take_json(memory, "last_verdict", &row->last_verdict);
    take_text(memory, "cut_off", &row->cut_off);
    row->merge_turns = member_number(memory, "merge_turns");
    take_word(memory, "approved_commit", row->approved_commit, sizeof row->approved_commit);
}

static void read_place(const struct bl_json *value, struct task_row *row)
{
    char branch[FEATURE_REF_SIZE - sizeof "refs/heads/"];
    take_word(value, "branch", branch, sizeof branch);
    if (branch[0] != '\0')
        snprintf(row->branch, sizeof row->branch, "refs/heads/%s", branch);
    take_word(value, "base_commit", row->base_commit, sizeof row->base_commit);
    take_word(value, "head_commit", row->head_commit, sizeof row->head_commit);
    row->merged = bl_json_boolean(bl_json_get(value, BL_TEXT("merged")), false);
    row->merged_wall_ns = row_member_time(value, "merged_at");
    take_text(value, "worktree", &row->worktree);
    const struct bl_json *dirty = bl_json_get(value, BL_TEXT("dirty"));
    row->dirty =
        bl_json_is(dirty, BL_JSON_NULL) || dirty == NULL ? -1 : bl_json_boolean(dirty, false);
}

static void read_times(const struct bl_json *value, struct task_row *row)
{
    row->started_wall_ns = row_member_time(value, "started_at");
    row->ended_wall_ns = row_member_time(value, "ended_at");
    row->elapsed_s = member_seconds(value, "elapsed_s", -1);
    row->deadline_s = member_seconds(value, "deadline_s", -1);
    take_word(value, "deadline_source", row->deadline_source, sizeof row->deadline_source);
    row->grace_s = member_seconds(value, "grace_s", 0);
    row->active_wall_ns = row_member_time(value, "last_activity_at");
    take_word(value, "last_activity", row->activity, sizeof row->activity);
}

void task_row_read(const struct bl_json *value, struct task_row *row)
{
    enum verify_value verified;
    take_word(value, "id", row->id, sizeof row->id);
    take_text(value, "name", &row->name);
    row->wave = member_number(value, "wave");
    bl_task_state_parse(member_text(value, "state"), &row->state);
    bl_task_decision_parse(member_text(value, "decision"), &row->decision);
    row->attempt = member_number(value, "attempt");
    row->turn = member_number(value, "turn");
    row->turns_counted = member_number(value, "turns_counted");
    row->turns_max = member_number(value, "turns_max");
    row->phase = task_phase_parse(member_text(value, "phase"));
    if (verify_value_parse(member_text(value, "verified"), &verified))
        row->verified = verify_value_name(verified);
    read_times(value, row);
    read_place(value, row);
    take_word(value, "reason", row->reason, sizeof row->reason);
    take_word(value, "triggered_by", row->triggered_by, sizeof row->triggered_by);
    const struct bl_json *spent = bl_json_get(value, BL_TEXT("spent"));
    row->spent_known = bl_json_is(spent, BL_JSON_OBJECT);
    if (row->spent_known)
        bl_record_take(NULL, &bl_spent_record, spent, &row->spent);
    take_json(value, "checkpoint", &row->checkpoint);
    take_word(value, "receipt", row->receipt, sizeof row->receipt);
    take_text(value, "message", &row->message);
    row->late_ms = member_seconds(value, "late_ms", -1);
    read_memory(bl_json_get(value, BL_TEXT("memory")), row);
}
