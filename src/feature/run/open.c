/* Opening a run: takes the lease, reads the records, checks the repository; and closing it. Nothing
 * is started here. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "feature/parts.h"

#define TAKE_OVER_NS   (10 * BL_NS_PER_S)
#define TAKE_OVER_STEP (10 * BL_NS_PER_MS)
#define PLAN_JSON_MAX  ((size_t)64 << 20)

/* ---- Reading the records --------------------------------------------------------------------- */

static const struct bl_row *find_record(const struct bl_list *records, const char *name)
{
    BL_LIST_EACH (link, records) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        if (strcmp(record->name, name) == 0)
            return record;
    }
    return NULL;
}

static const struct bl_json *read_record(struct bl_arena *arena, const struct bl_list *records,
                                         const char *name)
{
    const struct bl_row *record = find_record(records, name);
    const struct bl_json *value = NULL;
    struct bl_json_fault fault;
    if (record == NULL || bl_json_read(arena, record->json, NULL, &value, &fault) != 0)
        return NULL;
    return value;
}

/* Returns the record of the last turn. Attempts after it had no turn. */
static const struct bl_row *run_open_last_turn(const struct bl_list *records,
                                               const struct bl_task_row *row)
{
    const struct bl_row *turn = NULL;
    for (uint32_t attempt = row->attempt; turn == NULL && attempt > 0 && row->turn > 0; attempt--) {
        char name[160];
        snprintf(name, sizeof name, "turn/%s/%03u/%04u", row->id, attempt, row->turn);
        turn = find_record(records, name);
    }
    return turn;
}

/* Reads the records of a task. A new attempt continues a turn that was cut off. */
static void take_task(struct feature_task *task, struct bl_arena *arena,
                      const struct bl_list *records)
{
    struct bl_feature *feature = task->feature;
    struct bl_task_row *row = &task->row;
    struct git_state state;
    struct bl_error *error;
    char name[160];
    snprintf(name, sizeof name, "task/%s", task->plan->id);
    const struct bl_json *value = read_record(arena, records, name);
    if (value == NULL)
        return;
    task_row_read(value, row);
    bool runs = row->state == BL_TASK_RUNNING || row->state == BL_TASK_STOPPING;
    error = bl_zalloc(sizeof *error);
    bool known = runs && feature->git != NULL && row->worktree.size > 0 &&
                 row->head_commit[0] != '\0' &&
                 git_state_read(feature->git, arena, row->worktree.data, &state, error) == 0;
    bl_free(error);
    const struct dead_runner runner = {
        .feature = feature->plan->id,
        .epoch = feature->epoch,
        .seen_wall_ns = feature->owner_seen_ns,
    };
    bool settled = task_row_settle(row, &runner, known ? &state : NULL);
    if (settled && row->state == BL_TASK_INTERRUPTED && feature->owner_died)
        task_receipt_settle(task);
    if (settled)
        ledger_put_task(task);
    const struct bl_row *turn = run_open_last_turn(records, row);
    if (turn != NULL)
        row_text_set(&task->carry, turn->json);
    if (settled && row->state == BL_TASK_INTERRUPTED) {
        ledger_put_attempt(task);
        if (turn != NULL)
            ledger_put(feature, turn->name, turn_settle(arena, turn->json, row));
    }
    if (bl_task_state_final(row->state) && row->state != BL_TASK_COMPLETED &&
        row->state != BL_TASK_DEFERRED && task->wanted)
        task_row_move(row, BL_TASK_PENDING);
}

static void run_open_take_wave(struct bl_feature *feature, struct feature_wave *wave,
                               struct bl_arena *arena, const struct bl_list *records)
{
    struct wave_record record;
    char name[32];
    snprintf(name, sizeof name, "wave/%03u", wave->n);
    bl_record_take(arena, &wave_row_record, read_record(arena, records, name), &record);
    if (record.wave.state != WAVE_COMPLETED && record.wave.state != WAVE_UNVERIFIED)
        record.wave.state = WAVE_PENDING;
    record.wave.n = wave->n;
    *wave = record.wave;
    feature->unverified = feature->unverified || wave->gate == BL_VERIFIED_ABSENT;
}

void feature_take_records(struct bl_feature *feature, const struct bl_list *records)
{
    struct feature_row *row = &feature->row;
    BL_AUTO_ARENA(arena);
    const struct bl_json *value = read_record(&arena, records, "feature");
    if (value != NULL) {
        struct feature_record record;
        bl_record_take(&arena, &feature_row_record, value, &record);
        const char *digest = record.view.plan_digest;
        feature->resumed = true;
        bl_text_into(row->base_commit, sizeof row->base_commit, record.view.base_commit);
        bl_text_into(row->result_commit, sizeof row->result_commit, record.view.result_commit);
        row->started_wall_ns = record.view.started_wall_ns;
        feature->plan_changed = digest == NULL || strcmp(digest, feature->plan->digest) != 0;
    }
    for (size_t i = 0; i < feature->plan->task_count; i++)
        take_task(&feature->tasks[i], &arena, records);
    for (size_t i = 0; i < feature->plan->wave_count; i++)
        run_open_take_wave(feature, &feature->waves[i], &arena, records);
}

/* ---- The lease ------------------------------------------------------------------------------- */

/* Kills the owner; its wardens end with it. */
static int run_open_take_over(const struct bl_store_owner *owner)
{
    uint64_t end_ns = bl_now_ns() + TAKE_OVER_NS;
    int code = 0;
    if (bl_store_process_started(owner->pid) == owner->pid_started)
        kill((pid_t)owner->pid, SIGKILL);
    while (code == 0 && bl_store_process_alive(owner->pid, owner->pid_started) > 0 &&
           bl_now_ns() < end_ns)
        code = bl_sleep(TAKE_OVER_STEP);
    /* The wardens take a moment to kill its processes. */
    return code != 0 ? code : bl_sleep(10 * TAKE_OVER_STEP);
}

static int hold_lease(struct bl_feature *feature, struct bl_error *error)
{
    const struct bl_plan *plan = feature->plan;
    struct bl_store_owner *owner = bl_zalloc(sizeof *owner);
    struct bl_store_feature_options options = {
        .repository = plan->repository,
        .id = plan->id,
        .name = plan->name,
        .run_id = feature->row.run_id,
        .must_exist = feature->options.resumes,
    };
    int code =
        bl_store_feature_hold(feature->options.store, &options, &feature->held, owner, error);
    if (code == BL_EBUSY && feature->options.take_over && owner->life == BL_OWNER_ALIVE) {
        code = run_open_take_over(owner);
        *error = (struct bl_error){0};
        if (code == 0)
            code = bl_store_feature_hold(feature->options.store, &options, &feature->held, owner,
                                         error);
    }
    if (code == 0 && owner->life == BL_OWNER_DEAD) {
        feature->owner_died = true;
        feature->owner_left = owner->left;
        feature->owner_seen_ns = owner->seen_wall_ns;
    }
    bl_free(owner);
    if (code == 0)
        feature->epoch = bl_store_feature_epoch(feature->held);
    return code;
}

/* ---- The repository -------------------------------------------------------------------------- */

static int refuse_branch(struct bl_error *error, const char *ref)
{
    bl_error_set(error, BL_EEXIST, BL_KIND_FEATURE, "start a feature", ref,
                 "branch '%s' exists, so no branch can be created below it",
                 ref + strlen("refs/heads/"));
    bl_error_hint(error, "rename it: Belay's branches are named belay/FEATURE/TASK");
    return BL_EEXIST;
}

/* Returns whether the path exists and is not an empty folder. */
static bool is_taken(const char *path)
{
    DIR *folder = opendir(path);
    size_t count = 0;
    if (folder == NULL)
        return errno != ENOENT;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return count > 0;
}

/* Refuses worktrees or other files in Belay's place. */
static int check_places(struct bl_feature *feature, struct bl_error *error)
{
    const struct bl_plan *plan = feature->plan;
    for (size_t i = 0; i < plan->task_count; i++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/.belay/worktrees/%s/%s", plan->repository, plan->id,
                 plan->tasks[i].id);
        if (!is_taken(path))
            continue;
        bl_error_set(error, BL_EEXIST, BL_KIND_FEATURE, "start a feature", path,
                     "the store has no record of this feature, but the path of a worktree is "
                     "taken: %s",
                     path);
        bl_error_hint(error, "use --fresh to move it aside and start over");
        return BL_EEXIST;
    }
    return 0;
}

/* Refuses branches that make the names of Belay's branches impossible. */
static int check_branch_names(struct git_repository *git, const struct bl_plan *plan,
                              struct bl_error *error)
{
    char id[GIT_ID_SIZE], ref[FEATURE_REF_SIZE];
    if (git_ref_find(git, "refs/heads/belay", id, error) == 0)
        return refuse_branch(error, "refs/heads/belay");
    snprintf(ref, sizeof ref, "refs/heads/belay/%s", plan->id);
    return git_ref_find(git, ref, id, error) == 0 ? refuse_branch(error, ref) : 0;
}

int bl_plan_repository_check(const struct bl_plan *plan, struct bl_error *error)
{
    struct git_repository *git = NULL;
    int code = git_open(plan->repository, &git, error);
    if (code == 0)
        code = check_branch_names(git, plan, error);
    git_close(git);
    return code;
}

/* Refuses existing branches in Belay's place. */
static int check_branches(struct bl_feature *feature, struct bl_arena *arena,
                          struct bl_error *error)
{
    char prefix[FEATURE_REF_SIZE];
    struct bl_list refs;
    int code = check_branch_names(feature->git, feature->plan, error);
    if (code != 0)
        return code;
    if (feature->resumed || feature->options.fresh)
        return 0;
    snprintf(prefix, sizeof prefix, "refs/heads/belay/%s/", feature->plan->id);
    code = git_refs_list(feature->git, arena, prefix, &refs, error);
    if (code != 0)
        return code;
    if (bl_list_empty(&refs))
        return check_places(feature, error);
    const struct git_ref *found = BL_CONTAINER(refs.next, struct git_ref, link);
    bl_error_set(error, BL_EEXIST, BL_KIND_FEATURE, "start a feature", found->name,
                 "the store has no record of this feature, but branch '%s' exists",
                 found->name + strlen("refs/heads/"));
    bl_error_hint(error, "use --fresh to keep it as a rescue ref and start over");
    return BL_EEXIST;
}

static int check_clean(struct bl_feature *feature, struct bl_arena *arena, struct bl_error *error)
{
    struct git_state state;
    if (feature->resumed && !feature->options.fresh)
        return 0;
    int code = git_state_read(feature->git, arena, feature->plan->repository, &state, error);
    if (code != 0 || state.file_count == 0)
        return code;
    feature->dirty_files = state.file_count;
    if (!feature->options.require_clean)
        return 0;
    bl_error_set(error, BL_EBUSY, BL_KIND_FEATURE, "start a feature", feature->plan->repository,
                 "%zu uncommitted file%s of the checkout %s not in the base", state.file_count,
                 state.file_count == 1 ? "" : "s", state.file_count == 1 ? "is" : "are");
    bl_error_hint(error, "commit them, or omit --require-clean");
    return BL_EBUSY;
}

static int run_open_find_base(struct bl_feature *feature, struct bl_error *error)
{
    if (feature->resumed && !feature->options.fresh)
        return 0;
    return git_commit_find(feature->git,
                           feature->options.base != NULL ? feature->options.base : "HEAD",
                           feature->row.base_commit, error);
}

/* Checks that every task named on the command line exists and can run. */
static int run_open_check_tasks(struct bl_feature *feature, struct bl_error *error)
{
    const char *const *names = feature->options.tasks;
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        struct feature_task *task = feature_task_find(feature, bl_text_from(names[i]));
        if (task == NULL)
            return bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "choose tasks", names[i],
                                "%s has no task '%.64s'", feature->plan->id, names[i]);
        for (size_t j = 0; j < task->plan->dependency_count; j++) {
            const struct feature_task *other = &feature->tasks[task->plan->dependencies[j]];
            if (!other->wanted && other->row.state != BL_TASK_COMPLETED &&
                other->row.state != BL_TASK_DEFERRED) {
                bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "choose tasks", names[i],
                             "%s depends on %s, which is not completed", names[i], other->row.id);
                bl_error_hint(error, "add --task %s", other->row.id);
                return BL_EINVAL;
            }
        }
    }
    return 0;
}

/* Fills the row from the plan. The plan's status counts only once. */
static void run_open_fill_row(struct feature_task *task)
{
    struct bl_task_row *row = &task->row;
    const struct bl_plan_task *plan = task->plan;
    bl_text_into(row->id, sizeof row->id, plan->id);
    row_text_set(&row->name, bl_text_from(plan->name));
    row->wave = (uint32_t)plan->wave + 1;
    row->turns_max = plan->limits.turns + task->feature->options.more_turns;
    if (row->attempt > 0 || row->decision != BL_DECISION_NONE)
        return;
    if (plan->manual || strcmp(plan->status, "deferred") == 0) {
        task_row_move(row, BL_TASK_DEFERRED);
        row->decision = BL_DECISION_DEFERRED;
    } else if (strcmp(plan->status, "completed") == 0) {
        task_row_move(row, BL_TASK_COMPLETED);
        row->decision = BL_DECISION_ALREADY_COMPLETED;
        row->merged = true;
    }
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int recover(struct bl_feature *feature, struct bl_arena *arena,
                   const struct bl_list *records, struct bl_error *error)
{
    const struct bl_json *fresh = read_record(arena, records, "fresh");
    const struct bl_json *merge = read_record(arena, records, "merge");
    int code = 0;
    if (fresh != NULL)
        code = rescue_recover(feature, fresh, error);
    if (code == 0 && merge != NULL)
        code = merge_recover(feature, merge, error);
    return code;
}

static int run_open_start_fresh(struct bl_feature *feature, struct bl_error *error)
{
    const struct bl_feature_options *options = &feature->options;
    if (options->fresh)
        return rescue_run(feature, NULL, error);
    if (options->retry == NULL)
        return 0;
    struct feature_task *task = feature_task_find(feature, bl_text_from(options->retry));
    if (task == NULL)
        return bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "retry a task", options->retry,
                            "%s has no task '%.64s'", feature->plan->id, options->retry);
    if (task->row.merged && task->row.decision != BL_DECISION_ALREADY_COMPLETED) {
        bl_error_set(error, BL_EEXIST, BL_KIND_FEATURE, "retry a task", options->retry,
                     "%s is already merged", options->retry);
        bl_error_hint(error, "its work is on %s", feature->result_ref + strlen("refs/heads/"));
        return BL_EEXIST;
    }
    return rescue_run(feature, task, error);
}

static int check_repository(struct bl_feature *feature, struct bl_arena *arena,
                            struct bl_error *error)
{
    if (feature->checked)
        return 0;
    int code = check_branches(feature, arena, error);
    if (code == 0)
        code = check_clean(feature, arena, error);
    if (code == 0)
        code = run_open_find_base(feature, error);
    feature->checked = code == 0;
    return code;
}

/* Checks the repository before the store knows the feature, so that a refusal leaves no trace. */
static int check_unknown(struct bl_feature *feature, struct bl_arena *arena, struct bl_error *error)
{
    struct bl_list records;
    bl_list_init(&records);
    if (feature->options.resumes)
        return 0;
    /* Matches "feature", and "fresh" of an interrupted fresh start. */
    int code = bl_store_feature_load(feature->options.store, arena, feature->plan->repository,
                                     feature->plan->id, "f", &records, NULL, NULL, error);
    *error = (struct bl_error){0};
    bool unknown = code == BL_ENOENT || (code == 0 && bl_list_empty(&records));
    return unknown ? check_repository(feature, arena, error) : bl_check();
}

static int run_open_load(struct bl_feature *feature, struct bl_arena *arena, struct bl_error *error)
{
    struct bl_list records;
    int code = bl_store_feature_load(feature->options.store, arena, feature->plan->repository,
                                     feature->plan->id, NULL, &records, NULL, NULL, error);
    if (code != 0)
        return code;
    feature_take_records(feature, &records);
    code = recover(feature, arena, &records, error);
    /* A later generation without records is an interrupted fresh start: it continues as one. */
    if (code == 0 && feature->options.resumes && !feature->resumed &&
        bl_store_feature_generation(feature->held) <= 1)
        code = bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, "resume a feature",
                            feature->plan->id, "%s was never started", feature->plan->id);
    if (code == 0)
        code = check_repository(feature, arena, error);
    if (code == 0)
        code = run_open_start_fresh(feature, error);
    for (size_t i = 0; code == 0 && i < feature->plan->task_count; i++)
        run_open_fill_row(&feature->tasks[i]);
    return code == 0 ? run_open_check_tasks(feature, error) : code;
}

static void put_plan(struct bl_feature *feature)
{
    BL_AUTO_ARENA(arena);
    struct bl_text json = bl_plan_json(&arena, feature->plan);
    if (json.size <= PLAN_JSON_MAX)
        ledger_put(feature, "plan", json);
}

/* Earlier usage counts against the budgets. */
static void fill_budgets(struct bl_feature *feature)
{
    const struct bl_feature_limits *limits = &feature->plan->limits;
    feature->budget = (struct bl_budget){.limit = limits->max_budget_tokens};
    bl_ledger_init(&feature->ledger, limits->max_budget_usd, NULL);
    for (size_t i = 0; i < feature->plan->task_count; i++) {
        struct feature_task *task = &feature->tasks[i];
        const struct bl_feature_limits *own = &task->plan->limits;
        const struct bl_spent *spent = &task->row.spent;
        task->budget =
            (struct bl_budget){.limit = own->max_budget_tokens, .above = &feature->budget};
        task->budgeted_usd = own->max_budget_usd >= 0;
        bl_ledger_init(&task->ledger, own->max_budget_usd, NULL);
        bl_budget_settle(&task->budget, 0, bl_usage_total(&spent->usage));
        task->ledger.booked_usd = spent->cost_usd;
        feature->ledger.booked_usd += spent->cost_usd;
    }
}

static void set_worktrees(struct bl_feature *feature)
{
    for (size_t i = 0; i < feature->plan->task_count; i++) {
        struct bl_task_row *row = &feature->tasks[i].row;
        char path[1200];
        snprintf(path, sizeof path, "%s/.belay/worktrees/%s/%s", feature->plan->repository,
                 feature->plan->id, row->id);
        if (row->worktree.size == 0)
            row_text_set(&row->worktree, bl_text_from(path));
    }
}

/* ---- Leftovers of a dead runner -------------------------------------------------------------- */

/* Removes the copies in a folder whose names start with one of the prefixes. */
static void remove_copies(struct bl_feature *feature, const char *folder,
                          const char *const *prefixes)
{
    DIR *entries = opendir(folder);
    struct dirent *entry;
    char path[1024];
    while (entries != NULL && (entry = readdir(entries)) != NULL)
        for (size_t i = 0; prefixes[i] != NULL; i++)
            if (strncmp(entry->d_name, prefixes[i], strlen(prefixes[i])) == 0 &&
                snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path)
                git_copy_remove(feature->git, path);
    if (entries != NULL)
        closedir(entries);
}

/* Removes leftover copies for verification, Coaches and gates, because their paths are needed
 * again. */
static void sweep(struct bl_feature *feature)
{
    remove_copies(feature, feature->scratch, (const char *const[]){"gate-", NULL});
    for (size_t i = 0; i < feature->plan->task_count; i++)
        remove_copies(feature, feature->tasks[i].scratch,
                      (const char *const[]){"verify-", "coach-", NULL});
}

/* Stores the initial records before anything starts. */
static int put_start(struct bl_feature *feature, struct bl_error *error)
{
    fill_budgets(feature);
    set_worktrees(feature);
    put_plan(feature);
    if (feature->row.started_wall_ns == 0)
        feature->row.started_wall_ns = bl_clock_wall_ns(feature->clock);
    bl_text_into(feature->row.state, sizeof feature->row.state, "running");
    ledger_put_feature(feature);
    for (size_t i = 0; i < feature->plan->task_count; i++)
        ledger_put_task(&feature->tasks[i]);
    for (size_t i = 0; i < feature->plan->wave_count; i++)
        ledger_put_wave(feature, &feature->waves[i]);
    int code = ledger_write(feature, true);
    if (code != 0)
        *error = feature->error;
    return code;
}

int bl_feature_open(const struct bl_feature_options *options, struct bl_feature **ret_feature,
                    struct bl_error *error)
{
    struct bl_feature *feature = feature_new(options, &feature_means_real);
    struct bl_arena arena;
    bl_arena_init(&arena);
    int code = git_open(options->plan->repository, &feature->git, error);
    if (code == 0)
        code = check_unknown(feature, &arena, error);
    if (code == 0)
        code = hold_lease(feature, error);
    if (code == 0)
        code = run_open_load(feature, &arena, error);
    if (code == 0)
        sweep(feature);
    if (code == 0)
        code = put_start(feature, error);
    bl_arena_done(&arena);
    if (code != 0) {
        bl_store_feature_release(feature->held);
        git_close(feature->git);
        feature_free(feature);
        return code;
    }
    seat_house_init(&feature->house, options->store, options->project, options->plan->repository,
                    git_folder(feature->git), options->activities);
    *ret_feature = feature;
    return 0;
}

void bl_feature_close(struct bl_feature *feature)
{
    struct bl_scope shield;
    if (feature == NULL)
        return;
    bl_shield_begin(&shield, FEATURE_SHIELD_NS);
    bl_store_feature_release(feature->held);
    git_close(feature->git);
    bl_shield_end(&shield);
    feature_free(feature);
}
