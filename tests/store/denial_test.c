/* Each statement of each operation fails in turn: the operation reports it, leaves none of its data
 * in the store, and succeeds when it is repeated. */
#include <stdatomic.h>
#include <stdio.h>

#include "helpers.h"

static atomic_int to_pass; /* statements before the one that fails; negative: none fails */
static atomic_bool denied;
static int pass_next; /* the same for the next operation */

/* SQLite calls it while it prepares a statement, on any thread. */
static int authorize(void *context BL_UNUSED, int action, const char *first BL_UNUSED,
                     const char *second BL_UNUSED, const char *database BL_UNUSED,
                     const char *trigger BL_UNUSED)
{
    if (action != SQLITE_SELECT && action != SQLITE_INSERT && action != SQLITE_UPDATE &&
        action != SQLITE_DELETE && action != SQLITE_PRAGMA)
        return SQLITE_OK;
    if (atomic_fetch_sub(&to_pass, 1) != 0)
        return SQLITE_OK;
    atomic_store(&denied, true);
    return SQLITE_DENY;
}

static int watch(sqlite3 *db, char **ret_message BL_UNUSED,
                 const struct sqlite3_api_routines *routines BL_UNUSED)
{
    return sqlite3_set_authorizer(db, authorize, NULL);
}

/* Statements fail from here until `allow`. */
static void deny(void)
{
    atomic_store(&to_pass, pass_next);
}

static int allow(int code)
{
    atomic_store(&to_pass, -1);
    return code;
}

/* ---- Operations, all repeatable ---- */

struct work {
    struct bl_store *store;
    struct holding alpha; /* held if the operation needs it */
    struct bl_arena arena;
    struct bl_error error;
    const char *id;     /* to search for */
    struct bl_text all; /* export of alpha */
    unsigned number;    /* of the round */
    unsigned committed; /* number of turns */
};

static int work_open(struct work *work)
{
    struct bl_store *store = NULL;
    deny();
    int code = allow(bl_store_open(bl_store_where(work->store), &store, &work->error));
    bl_store_close(store);
    return code;
}

static int work_hold(struct work *work)
{
    struct holding holding;
    deny();
    int code = allow(hold_with(&holding, work->store,
                               &(struct bl_store_hold_options){.id = "beta",
                                                               .directory = "/home/somebody",
                                                               .run_id = "run_b",
                                                               .request_id = "req_b"}));
    work->error = holding.error;
    release(&holding);
    return code;
}

/* Finds a turn that was begun and not ended. */
static int work_hold_after_a_cut(struct work *work)
{
    struct holding holding;
    char turn[32];
    snprintf(turn, sizeof turn, "turn_of_%u", work->number++);
    CHECK_EQUAL(hold(&holding, work->store, "beta"), 0);
    CHECK_EQUAL(begin_turn(&holding, turn), 0);
    release(&holding);
    return work_hold(work);
}

static int work_hold_newest(struct work *work)
{
    struct holding holding;
    deny();
    int code =
        allow(hold_with(&holding, work->store,
                        &(struct bl_store_hold_options){
                            .newest = true, .directory = "/home/somebody", .run_id = "run_b"}));
    work->error = holding.error;
    release(&holding);
    return code;
}

/* The session has a live holder. Uses a separate store: a statement that is already prepared cannot
 * fail. */
static int work_hold_held(struct work *work)
{
    struct holding holding;
    struct bl_store *store = NULL;
    CHECK_EQUAL(bl_store_open(bl_store_where(work->store), &store, NULL), 0);
    deny();
    int code = allow(hold(&holding, store, "alpha"));
    work->error = holding.error;
    release(&holding);
    bl_store_close(store);
    return code;
}

static int work_hold_missing(struct work *work)
{
    struct holding holding;
    deny();
    int code = allow(hold_with(
        &holding, work->store,
        &(struct bl_store_hold_options){.id = "alpine", .must_exist = true, .run_id = "run_b"}));
    work->error = holding.error;
    release(&holding);
    return code;
}

static int work_list(struct work *work)
{
    struct bl_list list;
    deny();
    return allow(
        bl_store_list(work->store, &work->arena, "/home/somebody", 5, true, &list, &work->error));
}

static int work_show(struct work *work)
{
    struct bl_store_session_view view;
    deny();
    return allow(bl_store_show(work->store, &work->arena, "alpha", &view, &work->error));
}

static int work_summary(struct work *work)
{
    struct bl_store_summary summary;
    deny();
    return allow(bl_store_summary(work->store, &work->arena, work->id, &summary, &work->error));
}

static int work_turns(struct work *work)
{
    struct bl_list list;
    deny();
    return allow(bl_store_turns(work->store, &work->arena, "alpha", &list, &work->error));
}

static int work_checkpoint_get(struct work *work)
{
    struct bl_text json;
    deny();
    return allow(
        bl_store_checkpoint_get(work->store, &work->arena, "alpha", "n", &json, &work->error));
}

static int work_find(struct work *work)
{
    struct bl_store_work found;
    deny();
    return allow(bl_store_find(work->store, &work->arena, work->id, &found, &work->error));
}

static int work_export(struct work *work)
{
    struct bl_buffer out;
    deny();
    int code = allow(export_to(work->store, "alpha", &out, &work->error));
    bl_buffer_done(&out);
    return code;
}

static int work_import(struct work *work)
{
    const char *id;
    deny();
    int code =
        allow(bl_store_import(work->store, work->all, "copy", &work->arena, &id, &work->error));
    if (code == 0)
        CHECK_EQUAL(bl_store_delete(work->store, "copy", NULL), 0);
    return code;
}

static int work_fork(struct work *work)
{
    const char *id;
    deny();
    int code = allow(bl_store_fork(work->store, "alpha", "copy", &work->arena, &id, &work->error));
    if (code == 0)
        CHECK_EQUAL(bl_store_delete(work->store, "copy", NULL), 0);
    return code;
}

static int work_delete(struct work *work)
{
    const char *id;
    if (work->error.code == 0)
        bl_store_fork(work->store, "alpha", "copy", &work->arena, &id, NULL);
    work->error = (struct bl_error){0};
    deny();
    return allow(bl_store_delete(work->store, "copy", &work->error));
}

static int work_commit(struct work *work)
{
    char turn[32];
    snprintf(turn, sizeof turn, "turn_of_%u", work->number++);
    CHECK_EQUAL(begin_turn(&work->alpha, turn), 0);
    deny();
    int code = allow(commit_turn(&work->alpha, turn));
    work->error = work->alpha.error;
    work->committed += code == 0;
    if (code != 0)
        CHECK_EQUAL(reject_turn(&work->alpha, turn), 0);
    return code;
}

/* The turn was not begun. */
static int work_commit_unbegun(struct work *work)
{
    deny();
    int code = allow(commit_turn(&work->alpha, "turn_9"));
    work->error = work->alpha.error;
    return code;
}

static int work_begin_and_reject(struct work *work)
{
    char turn[32];
    snprintf(turn, sizeof turn, "turn_of_%u", work->number++);
    deny();
    int code = begin_turn(&work->alpha, turn);
    bool begun = code == 0;
    if (begun)
        code = reject_turn(&work->alpha, turn);
    allow(0);
    work->error = work->alpha.error;
    if (begun && code != 0)
        CHECK_EQUAL(reject_turn(&work->alpha, turn), 0);
    return code;
}

static int work_compact(struct work *work)
{
    deny();
    int code = allow(compact_session(&work->alpha, 0, "shorter"));
    work->error = work->alpha.error;
    return code;
}

static int work_note(struct work *work)
{
    const struct bl_turn_store *table = work->alpha.table;
    char id[32];
    snprintf(id, sizeof id, "rcp_%u", work->number++);
    deny();
    return allow(
        table->note(table->context, BL_TEXT("{\"seq\":4}\n"), id, BL_TEXT("{}"), &work->error));
}

static int work_renew(struct work *work)
{
    deny();
    return allow(bl_store_renew(work->alpha.held, &work->error));
}

/* A whole cell, from its admission to its burial. */
static int work_cell(struct work *work)
{
    bool buried;
    char id[32];
    snprintf(id, sizeof id, "c-of-%u", work->number++);
    deny();
    int code = admit_cell(&work->alpha, id);
    if (code == 0)
        code = bl_store_cell_started(work->alpha.held, bl_text_from(id), 1, 2, &work->alpha.error);
    if (code == 0)
        code = yield_cell(&work->alpha, id);
    if (code == 0)
        code = end_cell(&work->alpha, id, "k", "2");
    if (code == 0)
        code = bury_cell(&work->alpha, id, 1, 1000);
    work->error = work->alpha.error;
    if (code == 0)
        code = bl_store_cell_buried(work->alpha.held, bl_text_from(id), &buried, &work->error);
    return allow(code);
}

static int work_checkpoint_put(struct work *work)
{
    deny();
    return allow(bl_store_checkpoint_put(work->alpha.held, "n", BL_TEXT("[2]"), &work->error));
}

static int work_cells_load(struct work *work)
{
    struct bl_list cells, values;
    deny();
    return allow(
        bl_store_cells_load(work->alpha.held, &work->arena, &cells, &values, &work->error));
}

static int work_cells_forget(struct work *work)
{
    deny();
    return allow(bl_store_cells_forget(work->alpha.held, &work->error));
}

static int work_feature_hold(struct work *work)
{
    struct grasp grasp;
    deny();
    int code = allow(hold_feature(&grasp, work->store, "FEAT-NEW"));
    work->error = grasp.error;
    release_feature(&grasp);
    return code;
}

static int work_feature_write(struct work *work)
{
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, work->store, FEATURE), 0);
    deny();
    int code = allow(put_records(&grasp, "task/TASK-2", "{}", "task/TASK-3", "{}"));
    work->error = grasp.error;
    release_feature(&grasp);
    return code;
}

static int work_feature_load(struct work *work)
{
    struct bl_list list;
    deny();
    return allow(bl_store_feature_load(work->store, &work->arena, REPOSITORY, work->id, NULL, &list,
                                       NULL, NULL, &work->error));
}

static int work_feature_events(struct work *work)
{
    struct bl_list list;
    deny();
    return allow(bl_store_feature_events(work->store, &work->arena, REPOSITORY, FEATURE, 0, 0,
                                         &list, &work->error));
}

static int work_feature_list(struct work *work)
{
    struct bl_list list;
    deny();
    return allow(bl_store_feature_list(work->store, &work->arena, REPOSITORY, &list, &work->error));
}

static int work_task(struct work *work)
{
    char id[32];
    struct bl_store_task task;
    snprintf(id, sizeof id, "task_%u", work->number++);
    deny();
    int code = bl_store_task_begin(work->store, &(struct bl_store_task){.id = id, .kind = "run"},
                                   &work->error);
    if (code == 0)
        code = bl_store_task_get(work->store, &work->arena, id, &task, &work->error);
    if (code == 0)
        code = bl_store_task_end(
            work->store,
            &(struct bl_store_task){.id = id, .status = "completed", .result = BL_TEXT("{}")},
            &work->error);
    return allow(code);
}

/* Another task has expired, and is deleted along the way. */
static int work_task_get(struct work *work)
{
    char id[32];
    struct bl_store_task task;
    snprintf(id, sizeof id, "task_%u", work->number++);
    CHECK_EQUAL(
        bl_store_task_begin(work->store, &(struct bl_store_task){.id = id, .kind = "run"}, NULL),
        0);
    CHECK_EQUAL(bl_store_task_end(
                    work->store,
                    &(struct bl_store_task){.id = id, .status = "completed", .expires_wall_ns = 1},
                    NULL),
                0);
    deny();
    return allow(bl_store_task_get(work->store, &work->arena, "task_kept", &task, &work->error));
}

/* The task has ended before. */
static int work_task_end_again(struct work *work)
{
    deny();
    return allow(bl_store_task_end(
        work->store, &(struct bl_store_task){.id = "task_kept", .status = "failed"}, &work->error));
}

/* ---- All operations ---- */

/* Session alpha with all possible contents, and a feature. */
static void fill(struct bl_store *store, struct bl_buffer *out)
{
    struct holding holding;
    struct grasp grasp;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(begin_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(reject_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(compact_session(&holding, 1, "in short"), 0);
    CHECK_EQUAL(bl_store_checkpoint_put(holding.held, "n", BL_TEXT("[1]"), NULL), 0);
    /* Of a stop between turns. */
    CHECK_EQUAL(holding.table->note(holding.table->context, (struct bl_text){0}, "rcp_late",
                                    BL_TEXT("{\"id\":\"rcp_late\",\"scope\":\"run_1\"}"), NULL),
                0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(end_cell(&holding, "c-1", "k", "1"), 0);
    release(&holding);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_records(&grasp, "feature", "{}", "task/TASK-1", "{}"), 0);
    release_feature(&grasp);
    CHECK_EQUAL(
        bl_store_task_begin(store, &(struct bl_store_task){.id = "task_kept", .kind = "run"}, NULL),
        0);
    CHECK_EQUAL(bl_store_task_end(
                    store, &(struct bl_store_task){.id = "task_kept", .status = "completed"}, NULL),
                0);
    CHECK_EQUAL(export_to(store, "alpha", out, NULL), 0);
}

static const struct {
    int (*work)(struct work *work);
    bool holds; /* needs alpha held */
    const char *id;
    int hint; /* number of the statement that searches for a similar name for a hint; 0: none */
    int code; /* of the operation when no statement fails */
} operations[] = {
    {.work = work_open},
    {.work = work_hold},
    {.work = work_hold_after_a_cut},
    {.work = work_hold_newest},
    {.work = work_hold_held, .holds = true, .code = BL_EBUSY},
    {.work = work_hold_missing, .hint = 2, .code = BL_ENOENT},
    {.work = work_list},
    {.work = work_summary, .id = "alpha"},
    {.work = work_summary, .id = "alpine", .hint = 2, .code = BL_ENOENT},
    {.work = work_show},
    {.work = work_turns},
    {.work = work_checkpoint_get},
    {.work = work_find, .id = "alpha"},
    {.work = work_find, .id = "run_1"},
    {.work = work_find, .id = "turn_1"},
    {.work = work_find, .id = "turn_2"},
    {.work = work_find, .id = "rcp_made"},
    {.work = work_find, .id = "c-1"},
    {.work = work_find, .id = FEATURE},
    {.work = work_find, .id = "TASK-1"},
    {.work = work_find, .id = "alpha/c-1"},
    {.work = work_find, .id = FEATURE "/TASK-1"},
    {.work = work_find, .id = REPOSITORY "/" FEATURE},
    {.work = work_find, .id = "nothing", .code = BL_ENOENT},
    {.work = work_find, .id = "alpha/nothing", .code = BL_ENOENT},
    {.work = work_export},
    {.work = work_import, .hint = 1},
    {.work = work_fork, .hint = 1},
    {.work = work_delete},
    {.work = work_commit, .holds = true},
    {.work = work_commit_unbegun, .holds = true, .code = BL_EEXIST},
    {.work = work_begin_and_reject, .holds = true},
    {.work = work_compact, .holds = true},
    {.work = work_note, .holds = true},
    {.work = work_checkpoint_put, .holds = true},
    {.work = work_renew, .holds = true},
    {.work = work_cell, .holds = true},
    {.work = work_cells_load, .holds = true},
    {.work = work_feature_hold},
    {.work = work_feature_write},
    {.work = work_feature_load, .id = FEATURE},
    {.work = work_feature_load, .id = "FEAT-AUTO", .hint = 2, .code = BL_ENOENT},
    {.work = work_feature_events},
    {.work = work_feature_list},
    {.work = work_task},
    {.work = work_task_get},
    {.work = work_task_end_again, .code = BL_EEXIST},
    {.work = work_cells_forget, .holds = true},
};

/* Lets statement number `nth` of the operation fail. Returns false if there is no such statement.
 */
static bool fail_nth(const struct place *place, size_t operation, int nth, struct work *work)
{
    work->store = store_at(place);
    work->id = operations[operation].id;
    work->error = (struct bl_error){0};
    if (operations[operation].holds)
        CHECK_EQUAL(hold(&work->alpha, work->store, "alpha"), 0);
    atomic_store(&denied, false);
    pass_next = nth;
    int code = operations[operation].work(work);
    bool failed = atomic_load(&denied);
    bool told = failed && (nth == 0 || nth != operations[operation].hint);
    if (!CHECK_EQUAL(code, told ? BL_EACCES : operations[operation].code) ||
        !CHECK_EQUAL(work->error.code, code))
        fprintf(stderr, "operation %zu, statement %d: %s\n", operation, nth, bl_error_name(code));
    if (failed) {
        pass_next = -1;
        code = operations[operation].work(work);
        if (!CHECK_EQUAL(code, operations[operation].code))
            fprintf(stderr, "operation %zu, after statement %d\n", operation, nth);
    }
    if (operations[operation].holds)
        release(&work->alpha);
    bl_store_close(work->store);
    return failed;
}

STORE_TEST(whichever_statement_fails_the_operation_says_so_and_works_when_it_is_repeated)
{
    struct bl_buffer before;
    struct work work = {0};
    int step = (int)suite_rounds(SUITE_SANITIZED ? 3 : 1, 1);
    allow(0);
    sqlite3_auto_extension((void (*)(void))watch);
    struct bl_store *store = store_at(place);
    fill(store, &before);
    bl_store_close(store);
    work.all = bl_buffer_text(&before);
    for (size_t i = 0; i < BL_COUNT(operations); i++) {
        int nth = 0;
        while (nth < 100 && fail_nth(place, i, nth, &work))
            nth += step;
        if (!CHECK(nth > 0 && nth < 100))
            fprintf(stderr, "operation %zu has %d statements\n", i, nth);
    }
    bl_arena_done(&work.arena);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM running"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session WHERE id = 'copy'"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 1 + work.committed);
    sqlite3_cancel_auto_extension((void (*)(void))watch);
    bl_buffer_done(&before);
}

SUITE(denial, cmocka_unit_test(
                  whichever_statement_fails_the_operation_says_so_and_works_when_it_is_repeated));
