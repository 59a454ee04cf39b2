/* Settles what a dead runner left: its running tasks become `interrupted`, from the records. The
 * next run does this, or a command that only reads. */
#include <stdio.h>

#include "feature/parts.h"

/* The task ran until its runner died; the runner's newest write is the last known time. */
static void settle_times(struct bl_task_row *row, int64_t seen_wall_ns)
{
    int64_t ended_ns = seen_wall_ns > row->active_wall_ns ? seen_wall_ns : row->active_wall_ns;
    if (row->started_wall_ns == 0 || ended_ns < row->started_wall_ns)
        return;
    row->ended_wall_ns = ended_ns;
    row->elapsed_s = (double)(ended_ns - row->started_wall_ns) / 1e9;
}

bool task_row_settle(struct bl_task_row *row, const struct dead_runner *runner,
                     const struct git_state *state)
{
    if (row->state == BL_TASK_QUEUED) {
        task_row_move(row, BL_TASK_PENDING);
        return true;
    }
    if (row->state != BL_TASK_RUNNING && row->state != BL_TASK_STOPPING)
        return false;
    /* In a merge turn, the approval remains valid. */
    if (row->memory->approved_commit[0] != '\0' && row->memory->merge_turns > 0) {
        task_row_move(row, BL_TASK_APPROVED);
        row->phase = BL_PHASE_NONE;
        return true;
    }
    if (row->phase == BL_PHASE_PLAYER && row->turn > 0) {
        char cut[160];
        snprintf(cut, sizeof cut,
                 "Turn %u was cut off while the Player was working, because belay died.",
                 row->turn);
        row_text_set(&row->memory->cut_off, bl_text_from(cut));
    }
    row->receipt[0] = '\0';
    settle_times(row, runner->seen_wall_ns);
    struct checkpoint checkpoint = {
        .feature = runner->feature,
        .epoch = runner->epoch,
        .phase = row->phase,
        .reason = BL_STOP_OWNER_DIED,
        .triggered_by = "feature",
        .state = state,
    };
    checkpoint_set(row, &checkpoint);
    task_row_move(row, BL_TASK_INTERRUPTED);
    row->decision = BL_DECISION_INTERRUPTED;
    row->reason = BL_STOP_OWNER_DIED;
    bl_text_into(row->triggered_by, sizeof row->triggered_by, "feature");
    if (state != NULL)
        row->dirty = state->file_count > 0;
    return true;
}

/* Writes the receipt that the runner could not write: the fate of its processes, as far as it is
 * proved. All tasks of a runner share the records of its wardens. */
void task_receipt_settle(struct feature_task *task)
{
    struct bl_feature *feature = task->feature;
    const struct bl_wardens_end *left = &feature->owner_left;
    struct bl_scope scope, *outer = bl_scope_current();
    struct bl_receipt receipt;
    struct bl_buffer json;
    struct bl_unit unit;
    char id[160];
    snprintf(id, sizeof id, "%s/%s", feature->plan->id, task->row.id);
    bl_scope_init(&scope, outer);
    bl_receipt_open(&receipt, &scope, id);
    bl_scope_enter(&scope);
    bl_unit_begin(&unit, BL_UNIT_TASK, task->row.id, NULL);
    bl_scope_enter(outer);
    bl_scope_stop(&scope, BL_STOP_OWNER_DIED, "feature");
    unit.mechanism = left->mechanism;
    unit.processes = left->processes;
    unit.survivors = left->survivors;
    bl_text_into(unit.unverified, sizeof unit.unverified, left->unverified);
    bl_unit_end(&unit, left->survivors == 0 ? BL_FATE_KILLED : BL_FATE_UNKNOWN);
    while (!bl_receipt_ready(&receipt) && bl_yield() == 0)
        continue;
    bl_buffer_init(&json, 65536);
    feature_receipt_record(feature, &receipt, &json);
    bl_text_into(task->row.receipt, sizeof task->row.receipt, receipt.id);
    bl_buffer_done(&json);
    bl_receipt_close(&receipt);
    bl_scope_done(&scope);
}

/* ---- The turn that was cut off --------------------------------------------------------------- */

struct bl_text turn_settle(struct bl_arena *arena, struct bl_text json,
                           const struct bl_task_row *row)
{
    struct task_turn turn;
    if (!task_turn_read(arena, json, &turn) || turn.decision != NULL)
        return json;
    /* The last known time. */
    int64_t ended_ns = row->ended_wall_ns != 0    ? row->ended_wall_ns
                       : row->active_wall_ns != 0 ? row->active_wall_ns
                                                  : row->started_wall_ns;
    turn.ended_wall_ns = ended_ns;
    turn.decision = "cancelled";
    for (size_t i = 0; i < turn.phase_count; i++) {
        if (turn.phases[i].state != TURN_PHASE_RUNNING)
            continue;
        turn.phases[i].state = TURN_PHASE_STOPPED;
        turn.phases[i].ended_wall_ns = ended_ns;
    }
    struct bl_text settled = record_json(arena, &task_turn_record, &turn);
    return settled.size > 0 ? settled : json;
}

/* ---- For commands that only read ------------------------------------------------------------- */

struct settled {
    struct bl_list records; /* struct bl_row, to be written */
    struct bl_arena *arena;
    struct dead_runner runner;
};

static void run_settle_add(struct settled *settled, const char *name, struct bl_text json)
{
    struct bl_row *record = bl_arena_zalloc(settled->arena, sizeof *record);
    record->name = name;
    record->json = json;
    bl_list_push_back(&settled->records, &record->link);
}

/* Ends the turn that was in progress when the runner died. */
static void settle_turn(struct settled *settled, const struct bl_list *records,
                        const struct bl_task_row *row)
{
    struct bl_text wanted =
        bl_arena_printf(settled->arena, "turn/%s/%03u/%04u", row->id, row->attempt, row->turn);
    BL_LIST_EACH (link, records) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        if (bl_text_equal(bl_text_from(record->name), wanted))
            run_settle_add(settled, record->name, turn_settle(settled->arena, record->json, row));
    }
}

static void settle_task(struct settled *settled, struct git_repository *git,
                        const struct bl_list *records, const struct bl_row *record)
{
    const struct bl_json *value;
    struct bl_json_fault fault;
    struct bl_task_row row;
    struct git_state state;
    struct bl_error *error = bl_zalloc(sizeof *error);
    task_row_init(&row);
    if (bl_json_read(settled->arena, record->json, NULL, &value, &fault) == 0)
        task_row_read(value, &row);
    bool runs = row.state == BL_TASK_RUNNING || row.state == BL_TASK_STOPPING;
    bool known = runs && git != NULL && row.worktree.size > 0 && row.head_commit[0] != '\0' &&
                 git_state_read(git, settled->arena, row.worktree.data, &state, error) == 0;
    if (task_row_settle(&row, &settled->runner, known ? &state : NULL)) {
        struct bl_text json = record_json(settled->arena, &task_row_record, &row);
        run_settle_add(settled, record->name, json);
        if (row.state == BL_TASK_INTERRUPTED) {
            run_settle_add(
                settled,
                bl_arena_printf(settled->arena, "attempt/%s/%03u", row.id, row.attempt).data, json);
            settle_turn(settled, records, &row);
        }
    }
    task_row_done(&row);
    bl_free(error);
}

/* Corrects the row of a feature that is no longer running. */
static void settle_feature(struct settled *settled, const struct bl_row *record)
{
    const struct bl_json *value;
    struct feature_record row;
    if (bl_json_read(settled->arena, record->json, NULL, &value, NULL) != 0)
        return;
    bl_record_take(settled->arena, &feature_row_record, value, &row);
    if (row.view.ended_wall_ns != 0)
        return;
    row.view.state = "interrupted";
    row.view.ended_wall_ns = settled->runner.seen_wall_ns;
    row.view.deadline_wall_ns = 0;
    struct bl_text json = record_json(settled->arena, &feature_row_record, &row);
    if (json.size > 0)
        run_settle_add(settled, "feature", json);
}

/* Stops a wave that was running. */
static void settle_wave(struct settled *settled, const struct bl_row *record)
{
    const struct bl_json *value;
    struct wave_record row;
    if (bl_json_read(settled->arena, record->json, NULL, &value, NULL) != 0)
        return;
    bl_record_take(settled->arena, &wave_row_record, value, &row);
    if (row.wave.state != WAVE_RUNNING && row.wave.state != WAVE_MERGING)
        return;
    row.wave.state = WAVE_STOPPED;
    row.wave.ended_wall_ns = settled->runner.seen_wall_ns;
    struct bl_text json = record_json(settled->arena, &wave_row_record, &row);
    if (json.size > 0)
        run_settle_add(settled, record->name, json);
}

static int settle_held(struct bl_store_feature *held, struct bl_arena *arena,
                       struct git_repository *git, const struct dead_runner *runner,
                       const struct bl_list *records, struct bl_error *error)
{
    struct settled settled = {.arena = arena, .runner = *runner};
    settled.runner.epoch = bl_store_feature_epoch(held);
    bl_list_init(&settled.records);
    BL_LIST_EACH (link, records) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        struct bl_text name = bl_text_from(record->name);
        if (bl_text_starts_with(name, BL_TEXT("task/")))
            settle_task(&settled, git, records, record);
        else if (bl_text_starts_with(name, BL_TEXT("wave/")))
            settle_wave(&settled, record);
        else if (bl_text_equal(name, BL_TEXT("feature")))
            settle_feature(&settled, record);
    }
    struct bl_store_feature_write write = {.records = &settled.records, .durable = true};
    return bl_list_empty(&settled.records) ? 0 : bl_store_feature_write(held, &write, error);
}

/* Takes the dead runner's lease, settles its records, and releases the lease. Another process may
 * be faster; that is fine. */
static void run_settle(struct bl_store *store, struct bl_arena *arena, const char *repository,
                       const struct dead_runner *runner, const struct bl_list *records)
{
    struct bl_store_feature_options options = {
        .repository = repository, .id = runner->feature, .run_id = "settle", .must_exist = true};
    struct bl_store_feature *held;
    struct bl_store_owner *owner = bl_arena_zalloc(arena, sizeof *owner);
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct git_repository *git = NULL;
    if (bl_store_feature_hold(store, &options, &held, owner, error) == 0) {
        if (git_open(repository, &git, error) != 0)
            git = NULL;
        if (git != NULL)
            git_left_clear(git);
        settle_held(held, arena, git, runner, records, error);
        git_close(git);
        bl_store_feature_release(held);
    }
    bl_free(error);
}

int bl_feature_look(struct bl_store *store, struct bl_arena *arena, const char *repository,
                    const char *id, struct bl_feature_view **ret_view, struct bl_error *error)
{
    struct bl_store_owner *owner = bl_arena_zalloc(arena, sizeof *owner);
    struct bl_list records;
    uint64_t generation = 0;
    int code = bl_store_feature_load(store, arena, repository, id, NULL, &records, owner,
                                     &generation, error);
    if (code == 0 && owner->life == BL_OWNER_DEAD) {
        const struct dead_runner runner = {.feature = id, .seen_wall_ns = owner->seen_wall_ns};
        run_settle(store, arena, repository, &runner, &records);
        code = bl_store_feature_load(store, arena, repository, id, NULL, &records, owner,
                                     &generation, error);
    }
    if (code == 0)
        code = bl_feature_view_make(arena, &records, ret_view, error);
    if (code != 0)
        return code;
    struct bl_feature_view *view = *ret_view;
    view->generation = generation;
    view->owner_pid = owner->life == BL_OWNER_ALIVE ? owner->pid : 0;
    view->owner =
        owner->life == BL_OWNER_ALIVE || owner->life == BL_OWNER_OUT_OF_SIGHT ? owner->text : NULL;
    return 0;
}
