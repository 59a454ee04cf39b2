/* What the columns of a row mean to readers: sessions, cells, features and tasks. */
#include "form.h"

/* ---- Sessions ---- */

void store_summary_read(const struct store_row *row, struct bl_arena *arena,
                        struct bl_store_summary *ret_summary)
{
    *ret_summary = (struct bl_store_summary){
        .id = store_row_string(arena, row, 0),
        .directory = store_row_string(arena, row, 1),
        .title = store_row_string(arena, row, 2),
        .parent = store_row_string(arena, row, 3),
        .created_wall_ns = store_row_time(row, 4),
        .updated_wall_ns = store_row_time(row, 5),
        .turns = store_row_count(row, 6),
        .usage = store_row_usage(row, 7),
        .spent = store_row_spent(row, 9),
        .agent_of = store_row_string(arena, row, 14),
        .agent_turn = store_row_string(arena, row, 15),
        .persona = store_row_string(arena, row, 16),
    };
}

void store_summary_add_attempt(struct bl_store_summary *summary, const struct store_row *row)
{
    struct bl_spent spent = store_row_spent(row, 0);
    bl_spent_add(&summary->spent, &spent);
    summary->attempts++;
}

void store_summary_add_attempts(struct bl_store_summary *summary, const struct store_row *row,
                                int column)
{
    struct bl_spent spent = store_row_spent(row, column + 1);
    bl_spent_add(&summary->spent, &spent);
    summary->attempts += store_row_count(row, column);
}

void store_summary_add_holder(struct bl_store_summary *summary, struct store_look *look,
                              const struct store_lease *lease)
{
    char holder[160];
    if (!store_lease_binds(lease, &look->self, look->wall_ns))
        return;
    store_identity_text(&lease->holder, 0, holder, sizeof holder);
    summary->held_by = bl_arena_text(&look->job.output, bl_text_from(holder)).data;
}

void store_texts_add(struct store_texts *texts, struct bl_arena *arena, struct bl_text text)
{
    if (texts->count == texts->capacity) {
        size_t size = texts->capacity * sizeof *texts->items;
        texts->capacity = texts->capacity == 0 ? 16 : 2 * texts->capacity;
        texts->items =
            bl_arena_resize(arena, texts->items, size, texts->capacity * sizeof *texts->items);
    }
    texts->items[texts->count++] = text;
}

struct attempt {
    struct bl_text turn_id;
    struct bl_text state;
    struct bl_text prompt;
    int64_t started_wall_ns;
    int64_t ended_wall_ns; /* 0: running */
    struct bl_text result;
    struct bl_text receipt;
};

static const char *const state_names[] = {"rejected", "cut_off", "running"};
static const struct bl_names attempt_states = BL_NAMES(state_names);
static const struct bl_form turn_form = {"a turn's id", "^turn_", NULL};

#define BL_RECORD_STRUCT struct attempt
static const struct bl_member attempt_members[] = {
    BL_MEMBER_TEXT("turn_id", turn_id, .form = &turn_form),
    BL_MEMBER_TEXT("state", state, .names = &attempt_states,
                   .about = "rejected: it did not complete; cut_off: its process died; running: "
                            "it has not ended."),
    BL_MEMBER_TEXT("prompt", prompt),
    BL_MEMBER_TIME("started_at", started_wall_ns),
    BL_MEMBER_TIME("ended_at", ended_wall_ns, .nullable = true,
                   .about = "null while it is running."),
    BL_MEMBER_RAW("result", result, .nullable = true, .record = &bl_turn_result_record,
                  .about = "null if its process died before writing it."),
    BL_MEMBER_RAW("receipt", receipt, .nullable = true, .record = &bl_receipt_record,
                  .about = "null unless it was stopped."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_store_attempt_record =
    BL_RECORD("attempt", struct attempt, attempt_members, .closed = true,
              .about = "A turn that is not in the session.");

struct bl_text store_attempt_json(struct bl_arena *arena, const struct store_row *row)
{
    BL_AUTO_BUFFER(buffer, SIZE_MAX / 2);
    struct bl_json_writer writer;
    bl_json_writer_init(&writer, &buffer);
    bl_record_write(&writer, &bl_store_attempt_record,
                    &(struct attempt){.turn_id = store_row_text(row, 0),
                                      .state = store_row_text(row, 1),
                                      .prompt = store_row_text(row, 2),
                                      .started_wall_ns = store_row_time(row, 3),
                                      .ended_wall_ns = store_row_time(row, 4),
                                      .result = store_row_text(row, 5),
                                      .receipt = store_row_text(row, 6)});
    return bl_arena_text(arena, bl_buffer_text(&buffer));
}

void store_look_take_texts(struct store_look *look, const struct store_texts *turns,
                           const struct store_texts *attempts, const struct store_texts *receipts)
{
    look->view.turns = turns->items;
    look->view.turn_count = turns->count;
    look->view.attempts = attempts->items;
    look->view.attempt_count = attempts->count;
    look->view.receipts = receipts->items;
    look->view.receipt_count = receipts->count;
}

void store_look_add_turn(struct store_look *look, const struct store_row *row)
{
    struct bl_arena *arena = &look->job.output;
    struct bl_store_turn *turn = bl_arena_alloc(arena, sizeof *turn);
    *turn = (struct bl_store_turn){
        .id = store_row_copy(arena, row, 0),
        .interrupted = store_row_flag(row, 1),
        .messages = store_row_copy(arena, row, 2),
    };
    bl_list_push_back(&look->turns, &turn->link);
}

/* ---- Cells ---- */

void store_look_add_cell(struct store_look *look, const struct store_row *row)
{
    struct bl_arena *arena = &look->job.output;
    struct bl_store_cell *cell = bl_arena_alloc(arena, sizeof *cell);
    *cell = (struct bl_store_cell){
        .id = store_row_copy(arena, row, 0),
        .digest = store_row_copy(arena, row, 1),
        .created_wall_ns = store_row_time(row, 2),
        .deadline_ms = store_row_integer(row, 3),
        .pid = store_row_integer(row, 4),
        .pid_started = store_row_integer(row, 5),
        .yielded_generation = store_row_count(row, 6),
        .generation = store_row_count(row, 7),
        .completed = store_row_flag(row, 8),
        .ended_wall_ns = store_row_time(row, 9),
        .yielded = store_row_copy(arena, row, 10),
        .terminal = store_row_copy(arena, row, 11),
    };
    bl_list_push_back(&look->cells, &cell->link);
}

void store_look_add_value(struct store_look *look, const struct store_row *row)
{
    struct bl_arena *arena = &look->job.output;
    struct bl_store_value *value = bl_arena_alloc(arena, sizeof *value);
    value->key = store_row_copy(arena, row, 0);
    value->json = store_row_copy(arena, row, 1);
    bl_list_push_back(&look->values, &value->link);
}

/* ---- Features ---- */

static void view_add_record(struct store_feature_look *look, const char *name,
                            const struct store_row *row)
{
    struct bl_row *record = bl_arena_alloc(&look->job.output, sizeof *record);
    record->name = name;
    record->json = store_row_copy(&look->job.output, row, 1);
    bl_list_push_back(&look->records, &record->link);
}

void store_feature_add_record(struct store_feature_look *look, const struct store_row *row)
{
    view_add_record(look, store_row_string(&look->job.output, row, 0), row);
}

void store_feature_add_event(struct store_feature_look *look, const struct store_row *row)
{
    long long number = store_row_integer(row, 0);
    view_add_record(look, bl_arena_printf(&look->job.output, "%lld", number).data, row);
}

struct bl_store_feature_summary *store_feature_add_summary(struct store_feature_look *look,
                                                           const struct store_row *row)
{
    struct bl_arena *arena = &look->job.output;
    struct bl_store_feature_summary *summary = bl_arena_alloc(arena, sizeof *summary);
    *summary = (struct bl_store_feature_summary){
        .repository = store_row_string(arena, row, 0),
        .id = store_row_string(arena, row, 1),
        .name = store_row_string(arena, row, 2),
        .created_wall_ns = store_row_time(row, 3),
        .updated_wall_ns = store_row_time(row, 4),
        .record = store_row_copy(arena, row, 5),
    };
    bl_list_push_back(&look->summaries, &summary->link);
    return summary;
}

/* ---- Tasks ---- */

/* True if no process will record the end of the task any more. `column`: whether the worker of an
 * owner that is not visible from here is at work. */
static bool task_is_orphan(const struct store_task *task, const struct store_identity *owner,
                           const struct store_row *row, int column)
{
    switch (store_identity_life(&task->self, owner)) {
    case STORE_ALIVE: return false;
    case STORE_DEAD: return true;
    case STORE_OUT_OF_SIGHT: break;
    }
    if (!store_row_null(row, column))
        return !store_row_flag(row, column);
    return task->wall_ns - task->task.created_wall_ns > STORE_TASK_OUT_OF_SIGHT_NS;
}

static void task_read_owner(const struct store_row *row, int column,
                            struct store_identity *ret_owner)
{
    *ret_owner = (struct store_identity){
        .pid = store_row_integer(row, column),
        .started = store_row_integer(row, column + 1),
    };
    store_row_into(ret_owner->host, sizeof ret_owner->host, row, column + 2);
    store_row_into(ret_owner->boot, sizeof ret_owner->boot, row, column + 3);
    store_row_into(ret_owner->pid_space, sizeof ret_owner->pid_space, row, column + 4);
}

void store_task_read(struct store_task *task, const struct store_row *row)
{
    struct bl_arena *arena = &task->job.output;
    struct store_identity owner;
    task->found = true;
    task->task = (struct bl_store_task){
        .id = task->task.id,
        .kind = store_row_string(arena, row, 0),
        .session = store_row_string(arena, row, 1),
        .created_wall_ns = store_row_time(row, 2),
        .ended_wall_ns = store_row_time(row, 3),
        .expires_wall_ns = store_row_time(row, 4),
        .status = store_row_string(arena, row, 5),
        .receipt = store_row_copy(arena, row, 11),
        .result = store_row_copy(arena, row, 12),
    };
    task_read_owner(row, 6, &owner);
    if (task->task.ended_wall_ns == 0)
        task->task.owner_alive = !task_is_orphan(task, &owner, row, 13);
}

bool store_task_is_lost(const struct store_task *task)
{
    return task->found && task->task.ended_wall_ns == 0 && !task->task.owner_alive;
}
