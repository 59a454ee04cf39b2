/* Whole runs in virtual time, from a seed: seats, git and the store are simulated; the loop of
 * tasks, the waves and the ledger are real. */
#include <stdio.h>
#include <stdlib.h>

#include "helpers.h"

#define TASKS    3
#define SEAT_MAX ((size_t)64 * 1024)

/* The results of a run, as each reader sees them. */
struct played {
    uint64_t seed;
    struct bl_random random;
    uint64_t player_ns[TASKS];
    uint64_t coach_ns[TASKS];
    uint64_t cancel_ns; /* 0: no cancel */
    bool graced;
    int exit_code;
    bool stopped[TASKS];       /* its scope was stopped, else claimed */
    struct bl_text row[TASKS]; /* the last stored row */
    unsigned ended[TASKS];     /* task_ended events in the journal */
    char told[TASKS][32];      /* decision in the listener's event */
    char journaled[TASKS][32]; /* decision in the journal's event */
    char shown[TASKS][32];     /* decision in the view */
    unsigned receipts[TASKS];
    bool quiet_broken;   /* something ran after its task had ended */
    bool saved[TASKS];   /* the write of its end has returned, and was durable */
    bool told_early;     /* its end was reported before that write */
    const char *refused; /* an event (its type, and T0) whose write the store refuses; or NULL */
    unsigned over;       /* number of feature_ended events */
    int told_exit_code;  /* exit code in that event */
    unsigned running[TASKS];
};

static struct played *now_played;

static size_t number_of(struct bl_text id)
{
    for (size_t i = 0; i < TASKS; i++) {
        char name[8];
        snprintf(name, sizeof name, "T%zu", i);
        if (bl_text_equal(id, bl_text_from(name)))
            return i;
    }
    return 0;
}

/* ---- The means ---- */

static int prepare(struct feature_task *task, struct bl_error *error)
{
    (void)error;
    bl_text_into(task->row.base_commit, sizeof task->row.base_commit, "base");
    bl_text_into(task->row.head_commit, sizeof task->row.head_commit, "base");
    bl_text_into(task->compare_base, sizeof task->compare_base, "base");
    snprintf(task->row.branch, sizeof task->row.branch, "belay/F/%s", task->row.id);
    return bl_check();
}

static void play(struct feature_task *task, const struct seat_order *order, struct bl_arena *arena,
                 struct seat_outcome *outcome)
{
    struct played *played = now_played;
    size_t number = task->plan->number;
    struct bl_unit unit;
    bl_unit_begin(&unit, BL_UNIT_COMMAND, order->task, order->coach ? "coach" : "player");
    played->running[number]++;
    int code = bl_sleep(order->coach ? played->coach_ns[number] : played->player_ns[number]);
    played->running[number]--;
    bl_unit_end(&unit, code == 0 ? BL_FATE_FINISHED : BL_FATE_ABORTED);
    outcome->end = code == 0 ? SEAT_ENDED : SEAT_STOPPED;
    if (code != 0)
        return;
    outcome->result = order->coach
                          ? bl_arena_printf(arena,
                                            "{\"task\":\"%s\",\"turn\":%u,\"decision\":\"approve\","
                                            "\"rationale\":\"\",\"criteria\":[],\"issues\":[]}",
                                            order->task, order->turn)
                          : BL_TEXT("{\"summary\":\"done\"}");
}

static int commit(struct feature_task *task, struct bl_arena *arena, const char *message,
                  struct git_commit_result *result, struct bl_error *error)
{
    (void)task;
    (void)arena;
    (void)message;
    (void)error;
    result->end = GIT_COMMIT_MADE;
    bl_text_into(result->head, sizeof result->head, "made");
    return bl_check();
}

static int state(struct feature_task *task, struct bl_arena *arena, struct git_state *result,
                 struct bl_error *error)
{
    char *ref = bl_arena_alloc(arena, FEATURE_REF_SIZE);
    (void)error;
    task_ref(&task->row, ref);
    *result = (struct git_state){.branch = ref};
    bl_text_into(result->head, sizeof result->head, task->row.head_commit);
    return 0;
}

static int changed(struct feature_task *task, struct bl_arena *arena, const char *const **paths,
                   struct bl_error *error)
{
    static const char *const none[] = {NULL};
    (void)task;
    (void)arena;
    (void)error;
    *paths = none;
    return 0;
}

static int diff(struct feature_task *task, struct bl_arena *arena, struct bl_text *text,
                struct bl_error *error)
{
    (void)task;
    (void)arena;
    (void)error;
    *text = (struct bl_text){0};
    return 0;
}

static int copy_make(struct feature_task *task, const char *path, struct bl_error *error)
{
    (void)task;
    (void)path;
    (void)error;
    return bl_check();
}

static void copy_remove(struct feature_task *task, const char *path)
{
    (void)task;
    (void)path;
}

static int merge(struct bl_feature *feature, struct feature_wave *wave)
{
    (void)wave;
    for (size_t i = 0; i < feature->plan->task_count; i++) {
        struct feature_task *task = &feature->tasks[i];
        if (task->row.state != BL_TASK_APPROVED)
            continue;
        task->row.state = BL_TASK_COMPLETED;
        task->row.merged = true;
        ledger_put_task(task);
    }
    return ledger_write(feature, true);
}

static void take_decision(const struct bl_json *event, char out[32])
{
    struct bl_text decision = bl_json_text(bl_json_get(event, BL_TEXT("decision")));
    snprintf(out, 32, "%.*s", (int)decision.size, decision.data);
}

static void take_event(struct played *played, const struct bl_json *event, bool durable,
                       bool ends[TASKS])
{
    struct bl_text type = bl_json_text(bl_json_get(event, BL_TEXT("type")));
    size_t task = number_of(bl_json_text(bl_json_get(event, BL_TEXT("task"))));
    if (bl_text_equal(type, BL_TEXT("task_ended"))) {
        played->ended[task]++;
        take_decision(event, played->journaled[task]);
        ends[task] = durable;
    } else if (bl_text_equal(type, BL_TEXT("receipt")) &&
               bl_json_is(bl_json_get(event, BL_TEXT("task")), BL_JSON_STRING)) {
        played->receipts[task]++;
    }
}

static bool is_refused(const struct played *played, const struct bl_store_feature_write *write)
{
    for (size_t i = 0; played->refused != NULL && i < write->event_count; i++)
        if (bl_text_find(write->events[i], bl_text_from(played->refused)) >= 0 &&
            (bl_text_find(write->events[i], BL_TEXT("\"T0\"")) >= 0 ||
             bl_text_find(write->events[i], BL_TEXT("\"task\":null")) >= 0))
            return true;
    return false;
}

/* Records what a store would have after this write. */
static int write_store(struct bl_feature *feature, const struct bl_store_feature_write *write,
                       struct bl_error *error)
{
    struct played *played = now_played;
    struct bl_arena arena;
    bool ends[TASKS] = {0};
    (void)feature;
    if (is_refused(played, write))
        return bl_error_set(error, BL_EIO, BL_KIND_FILESYSTEM, "write", "store", "the disk failed");
    bl_arena_init(&arena);
    BL_LIST_EACH (link, write->records) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        struct bl_text name = bl_text_from(record->name);
        if (bl_text_starts_with(name, BL_TEXT("task/")))
            row_text_set(&played->row[number_of((struct bl_text){name.data + 5, name.size - 5})],
                         record->json);
    }
    for (size_t i = 0; i < write->event_count; i++) {
        const struct bl_json *event;
        CHECK_EQUAL(bl_json_read(&arena, write->events[i], NULL, &event, NULL), 0);
        take_event(played, event, write->durable, ends);
    }
    bl_arena_done(&arena);
    /* A store takes time too. */
    bl_sleep(bl_random_below(&played->random, 3) * 100 * BL_NS_PER_US);
    for (size_t i = 0; i < TASKS; i++)
        played->saved[i] = played->saved[i] || ends[i];
    return 0;
}

static const struct feature_means played_means = {
    .prepare = prepare,
    .play = play,
    .commit = commit,
    .state = state,
    .changed = changed,
    .diff = diff,
    .copy_make = copy_make,
    .copy_remove = copy_remove,
    .merge = merge,
    .write = write_store,
};

/* ---- A run ---- */

static void listen(void *context, struct bl_text type, struct bl_text json)
{
    struct played *played = context;
    struct bl_arena arena;
    const struct bl_json *event;
    int64_t code = -1;
    bool over = bl_text_equal(type, BL_TEXT("feature_ended"));
    if (!over && !bl_text_equal(type, BL_TEXT("task_ended")))
        return;
    bl_arena_init(&arena);
    CHECK_EQUAL(bl_json_read(&arena, json, NULL, &event, NULL), 0);
    if (over) {
        bl_json_int64(bl_json_get(event, BL_TEXT("exit_code")), &code);
        played->told_exit_code = (int)code;
        played->over++;
        bl_arena_done(&arena);
        return;
    }
    size_t task = number_of(bl_json_text(bl_json_get(event, BL_TEXT("task"))));
    take_decision(event, played->told[task]);
    played->quiet_broken = played->quiet_broken || played->running[task] > 0;
    played->told_early = played->told_early || !played->saved[task];
    bl_arena_done(&arena);
}

static void make_plan(struct bl_plan *plan, struct bl_plan_task tasks[TASKS],
                      struct bl_plan_wave *wave, size_t numbers[TASKS], char names[TASKS][8],
                      const char *folder, uint64_t grace_ns)
{
    static const char *const nothing[] = {NULL};
    *plan = (struct bl_plan){
        .path = "plan",
        .repository = folder,
        .id = "FEAT",
        .name = "Race",
        .description = "",
        .tasks = tasks,
        .task_count = TASKS,
        .waves = wave,
        .wave_count = 1,
        .limits = {.parallel = TASKS, .max_budget_tokens = BL_UNLIMITED, .max_budget_usd = -1},
        .on_failure = BL_ON_FAILURE_WAVE_END,
        .digest = "sha256:0",
    };
    bl_list_init(&plan->warnings);
    *wave = (struct bl_plan_wave){.tasks = numbers, .count = TASKS};
    for (size_t i = 0; i < TASKS; i++) {
        snprintf(names[i], 8, "T%zu", i);
        numbers[i] = i;
        tasks[i] = (struct bl_plan_task){
            .id = names[i],
            .name = names[i],
            .file = "task.md",
            .number = i,
            .status = "pending",
            .player = {.kind = BL_SEAT_COMMAND},
            .coach = {.kind = BL_SEAT_COMMAND},
            .verify = {.commands = nothing, .carry = nothing, .protect = nothing},
            .limits = {.turns = 3,
                       .coach_grace_ns = grace_ns,
                       .max_budget_tokens = BL_UNLIMITED,
                       .max_budget_usd = -1,
                       .feedback_issues = 10},
            .deadline_ns = BL_NS_PER_S,
            .deadline_source = "feature",
        };
    }
}

struct canceller {
    struct bl_feature *feature;
    uint64_t at_ns;
};

static int cancel_main(void *argument)
{
    struct canceller *canceller = argument;
    struct bl_buffer receipt;
    struct bl_error *error = bl_zalloc(sizeof *error);
    bl_buffer_init(&receipt, SEAT_MAX);
    if (bl_sleep(canceller->at_ns) == 0)
        bl_feature_cancel(canceller->feature, "T1", "test", &receipt, error);
    bl_buffer_done(&receipt);
    bl_free(error);
    return 0;
}

static void look(struct bl_feature *feature, struct played *played)
{
    struct bl_arena arena;
    struct bl_feature_view *view;
    struct bl_error *error = bl_zalloc(sizeof *error);
    bl_arena_init(&arena);
    CHECK_EQUAL(bl_feature_live(feature, &arena, &view, error), 0);
    for (size_t i = 0; i < TASKS; i++) {
        played->stopped[i] = bl_scope_stopped(&feature->tasks[i].main.scope);
        bl_text_into(played->shown[i], 32, bl_task_decision_name(view->tasks[i].row.decision));
    }
    bl_arena_done(&arena);
    bl_free(error);
}

static int run_once(void *argument)
{
    struct played *played = argument;
    struct bl_plan *plan = bl_zalloc(sizeof *plan);
    struct bl_plan_task *tasks = bl_zalloc(TASKS * sizeof *tasks);
    struct bl_plan_wave wave;
    size_t numbers[TASKS];
    char names[TASKS][8];
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    make_plan(plan, tasks, &wave, numbers, names, folder, played->graced ? 2 * BL_NS_PER_MS : 0);
    struct bl_feature_listener listener = {listen, played};
    struct bl_feature_options options = {.plan = plan, .run_id = "run_1", .listener = &listener};
    struct bl_feature *feature = feature_new(&options, &played_means);
    struct bl_scope scope;
    struct bl_nursery nursery;
    struct canceller canceller = {feature, played->cancel_ns};
    feature->budget = (struct bl_budget){.limit = BL_UNLIMITED};
    bl_ledger_init(&feature->ledger, -1, NULL);
    for (size_t i = 0; i < TASKS; i++) {
        struct feature_task *task = &feature->tasks[i];
        bl_text_into(task->row.id, sizeof task->row.id, names[i]);
        task->row.turns_max = 3;
        task->budget = (struct bl_budget){.limit = BL_UNLIMITED, .above = &feature->budget};
        bl_ledger_init(&task->ledger, -1, NULL);
        row_text_set(&task->row.worktree, BL_TEXT("/nowhere"));
    }
    bl_scope_init(&scope, bl_scope_current());
    bl_nursery_init(&nursery, bl_scope_current());
    if (played->cancel_ns > 0)
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "cancel", cancel_main, &canceller, NULL), 0);
    played->exit_code = bl_feature_run(feature, &scope);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    bl_scope_done(&scope);
    look(feature, played);
    feature_free(feature);
    bl_free(tasks);
    bl_free(plan);
    return 0;
}

static void play_seed(uint64_t seed, const char *refused, struct played *played)
{
    *played = (struct played){.seed = seed, .refused = refused};
    bl_random_seed(&played->random, seed);
    for (size_t i = 0; i < TASKS; i++) {
        /* Within half a millisecond of the timer, sometimes at exactly the same instant. */
        uint64_t total = BL_NS_PER_S - 500 * BL_NS_PER_US +
                         bl_random_below(&played->random, 11) * 100 * BL_NS_PER_US;
        played->player_ns[i] = 300 * BL_NS_PER_MS;
        played->coach_ns[i] = total - played->player_ns[i];
    }
    played->graced = bl_random_below(&played->random, 4) == 0;
    if (bl_random_below(&played->random, 2) == 0)
        played->cancel_ns = BL_NS_PER_S - 500 * BL_NS_PER_US +
                            bl_random_below(&played->random, 11) * 100 * BL_NS_PER_US;
    now_played = played;
    run_in_virtual_loop(seed, run_once, played);
}

static void check_played(struct played *played, unsigned counts[4])
{
    bool all = true;
    for (size_t i = 0; i < TASKS; i++) {
        struct bl_task_row row;
        struct bl_arena arena;
        const struct bl_json *value;
        bl_arena_init(&arena);
        task_row_init(&row);
        assert_int_equal(bl_json_read(&arena, played->row[i], NULL, &value, NULL), 0);
        task_row_read(value, &row);
        const char *stored = bl_task_decision_name(row.decision);
        bool approved = strcmp(stored, "approved") == 0 || strcmp(stored, "approved_late") == 0;
        if (strcmp(stored, played->told[i]) != 0 || strcmp(stored, played->journaled[i]) != 0 ||
            strcmp(stored, played->shown[i]) != 0 || played->ended[i] != 1)
            fail_msg("seed %llu, task %zu: stored %s, told %s, journal %s, view %s, ended %u times",
                     (unsigned long long)played->seed, i, stored, played->told[i],
                     played->journaled[i], played->shown[i], played->ended[i]);
        if (approved != (row.state == BL_TASK_COMPLETED) || played->receipts[i] > 1 ||
            (played->receipts[i] == 0) != (strcmp(stored, "approved") == 0))
            fail_msg("seed %llu, task %zu: %s is %s, with %u receipts",
                     (unsigned long long)played->seed, i, stored, bl_task_state_name(row.state),
                     played->receipts[i]);
        if (played->stopped[i] == (strcmp(stored, "approved") == 0))
            fail_msg("seed %llu, task %zu: %s, and its scope was %s",
                     (unsigned long long)played->seed, i, stored,
                     played->stopped[i] ? "stopped" : "claimed");
        counts[strcmp(stored, "approved") == 0        ? 0
               : strcmp(stored, "approved_late") == 0 ? 1
               : strcmp(stored, "timeout") == 0       ? 2
                                                      : 3]++;
        all = all && approved;
        task_row_done(&row);
        bl_arena_done(&arena);
        row_text_set(&played->row[i], (struct bl_text){0});
    }
    if ((played->exit_code == 0) != all || played->exit_code > 1 || played->quiet_broken ||
        played->told_early)
        fail_msg("seed %llu: exit code %d, all approved: %d, quiet broken: %d, told early: %d",
                 (unsigned long long)played->seed, played->exit_code, all, played->quiet_broken,
                 played->told_early);
}

static void F13_approval_and_timeout_in_one_instant_give_one_decision_everywhere(void **unused)
{
    unsigned counts[4] = {0};
    struct played *played = bl_zalloc(sizeof *played);
    (void)unused;
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 300 : 2000, 10000);
    for (uint64_t seed = 1; seed <= rounds; seed++) {
        play_seed(seed, NULL, played);
        check_played(played, counts);
    }
    /* Each of them must occur. */
    for (size_t i = 0; i < BL_COUNT(counts); i++)
        assert_true(counts[i] > 0);
    bl_free(played);
}

/* If the store refuses the record, the end of the task and its checkpoint are not told, and no task
 * is reported as ended that has not ended. */
static void end_that_the_store_refused_is_not_told(void **unused)
{
    struct played *played = bl_zalloc(sizeof *played);
    unsigned others = 0;
    (void)unused;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        play_seed(seed, "\"type\":\"task_ended\"", played);
        if (played->told[0][0] != '\0' || played->told_early || played->exit_code != 1 ||
            played->over != 1 || played->told_exit_code != 1)
            fail_msg("seed %llu: told %s, told early: %d, exit code %d, %u ends with %d",
                     (unsigned long long)seed, played->told[0], played->told_early,
                     played->exit_code, played->over, played->told_exit_code);
        for (size_t i = 0; i < TASKS; i++) {
            others += played->told[i][0] != '\0';
            row_text_set(&played->row[i], (struct bl_text){0});
        }
    }
    assert_true(others > 0);
    bl_free(played);
}

/* The records of the tasks are stored, but not the end of the feature. */
static void feature_whose_end_the_store_refused_has_failed(void **unused)
{
    struct played *played = bl_zalloc(sizeof *played);
    unsigned approved = 0;
    (void)unused;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        play_seed(seed, "\"type\":\"feature_ended\"", played);
        if (played->exit_code != 1 || played->over != 1 || played->told_exit_code != 1)
            fail_msg("seed %llu: exit code %d, %u ends with %d", (unsigned long long)seed,
                     played->exit_code, played->over, played->told_exit_code);
        bool all = true;
        for (size_t i = 0; i < TASKS; i++) {
            all = all && strncmp(played->told[i], "approved", 8) == 0;
            row_text_set(&played->row[i], (struct bl_text){0});
        }
        approved += all;
    }
    /* Some runs would have ended with exit code 0. */
    assert_true(approved > 0);
    bl_free(played);
}

SUITE(race, cmocka_unit_test(F13_approval_and_timeout_in_one_instant_give_one_decision_everywhere),
      cmocka_unit_test(end_that_the_store_refused_is_not_told),
      cmocka_unit_test(feature_whose_end_the_store_refused_has_failed));
