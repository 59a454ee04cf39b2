/* Reading and moving sessions. */
#include "form.h"

static struct store_look *store_make_look(struct bl_store *store, enum store_operation operation,
                                          const char *id)
{
    struct store_look *look = store_job_new(operation, sizeof *look);
    look->job.durable = operation < STORE_CHECKPOINT_GET;
    look->job.linger_ns = look->job.durable ? STORE_LINGER_NS : 0;
    look->self = store->self;
    look->wall_ns = store_wall_ns();
    look->id = store_job_string(&look->job, id);
    bl_list_init(&look->summaries);
    bl_list_init(&look->turns);
    return look;
}

/* ---- Copies into the caller's arena ---- */

static const char *store_look_copy_string(struct bl_arena *arena, const char *string)
{
    return string == NULL ? NULL : bl_arena_text(arena, bl_text_from(string)).data;
}

static void copy_summary(struct bl_arena *arena, const struct bl_store_summary *from,
                         struct bl_store_summary *to)
{
    *to = *from;
    to->id = store_look_copy_string(arena, from->id);
    to->directory = store_look_copy_string(arena, from->directory);
    to->title = store_look_copy_string(arena, from->title);
    to->parent = store_look_copy_string(arena, from->parent);
    to->agent_of = store_look_copy_string(arena, from->agent_of);
    to->agent_turn = store_look_copy_string(arena, from->agent_turn);
    to->persona = store_look_copy_string(arena, from->persona);
    to->held_by = store_look_copy_string(arena, from->held_by);
}

static const struct bl_text *copy_texts(struct bl_arena *arena, const struct bl_text *texts,
                                        size_t count)
{
    struct bl_text *copy = bl_arena_alloc(arena, count * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = bl_arena_text(arena, texts[i]);
    return copy;
}

/* ---- Reading ---- */

int bl_store_list_page(struct bl_store *store, struct bl_arena *arena,
                       const struct bl_store_list_options *options, struct bl_list *ret_summaries,
                       struct bl_error *error)
{
    struct store_look *look = store_make_look(store, STORE_LIST, NULL);
    int code;
    look->directory = store_job_string(&look->job, options->directory);
    look->limit = options->limit;
    look->agents = options->agents;
    look->after_id = store_job_string(&look->job, options->after_id);
    look->after_updated_wall_ns = options->after_updated_wall_ns;
    if (store_run(store, &look->job, &code, error) == STORE_ANSWERED && code == 0) {
        bl_list_init(ret_summaries);
        BL_LIST_EACH (link, &look->summaries) {
            struct bl_store_summary *summary = bl_arena_alloc(arena, sizeof *summary);
            copy_summary(arena, BL_CONTAINER(link, struct bl_store_summary, link), summary);
            bl_list_push_back(ret_summaries, &summary->link);
        }
    }
    store_job_leave(&look->job);
    return code;
}

int bl_store_list(struct bl_store *store, struct bl_arena *arena, const char *directory,
                  uint64_t limit, bool agents, struct bl_list *ret_summaries,
                  struct bl_error *error)
{
    struct bl_store_list_options options = {
        .directory = directory, .limit = limit, .agents = agents};
    return bl_store_list_page(store, arena, &options, ret_summaries, error);
}

int bl_store_turns(struct bl_store *store, struct bl_arena *arena, const char *session,
                   struct bl_list *ret_turns, struct bl_error *error)
{
    int code = bl_session_id_check(session, error);
    if (code != 0)
        return code;
    struct store_look *look = store_make_look(store, STORE_TURNS, session);
    if (store_run(store, &look->job, &code, error) == STORE_ANSWERED && code == 0) {
        bl_list_init(ret_turns);
        BL_LIST_EACH (link, &look->turns) {
            const struct bl_store_turn *from = BL_CONTAINER(link, struct bl_store_turn, link);
            struct bl_store_turn *to = bl_arena_alloc(arena, sizeof *to);
            to->id = bl_arena_text(arena, from->id);
            to->interrupted = from->interrupted;
            to->messages = bl_arena_text(arena, from->messages);
            bl_list_push_back(ret_turns, &to->link);
        }
    }
    store_job_leave(&look->job);
    return code;
}

static int store_look_show(struct bl_store *store, struct bl_arena *arena, const char *id,
                           bool brief, struct bl_store_session_view *ret_view,
                           struct bl_error *error)
{
    int code = bl_session_id_check(id, error);
    if (code != 0)
        return code;
    struct store_look *look = store_make_look(store, STORE_SHOW, id);
    look->brief = brief;
    if (store_run(store, &look->job, &code, error) == STORE_ANSWERED && code == 0) {
        const struct bl_store_session_view *view = &look->view;
        *ret_view = (struct bl_store_session_view){
            .turns = copy_texts(arena, view->turns, view->turn_count),
            .turn_count = view->turn_count,
            .attempts = copy_texts(arena, view->attempts, view->attempt_count),
            .attempt_count = view->attempt_count,
            .receipts = copy_texts(arena, view->receipts, view->receipt_count),
            .receipt_count = view->receipt_count,
        };
        copy_summary(arena, &view->summary, &ret_view->summary);
    }
    store_job_leave(&look->job);
    return code;
}

int bl_store_show(struct bl_store *store, struct bl_arena *arena, const char *id,
                  struct bl_store_session_view *ret_view, struct bl_error *error)
{
    return store_look_show(store, arena, id, false, ret_view, error);
}

int bl_store_summary(struct bl_store *store, struct bl_arena *arena, const char *id,
                     struct bl_store_summary *ret_summary, struct bl_error *error)
{
    struct bl_store_session_view view;
    int code = store_look_show(store, arena, id, true, &view, error);
    if (code == 0)
        *ret_summary = view.summary;
    return code;
}

int bl_store_checkpoint_get(struct bl_store *store, struct bl_arena *arena, const char *session,
                            const char *name, struct bl_text *ret_json, struct bl_error *error)
{
    int code = bl_session_id_check(session, error);
    if (code != 0)
        return code;
    struct store_look *look = store_make_look(store, STORE_CHECKPOINT_GET, session);
    look->name = store_job_string(&look->job, name);
    if (store_run(store, &look->job, &code, error) == STORE_ANSWERED && code == 0)
        *ret_json = bl_arena_text(arena, look->json);
    store_job_leave(&look->job);
    return code;
}

/* ---- Export ---- */

#define PAGE_BYTES_MAX ((size_t)1024 * 1024 * 1024)

/* An export in progress: a walk, and the lines of its last step. On the heap, since the thread may
 * be using it when the caller leaves. */
struct export
{
    const struct store_form *form;
    struct store_cursor *cursor;
    struct bl_buffer lines;
    bool closing;
    int code;
    struct bl_error error;
};

static void run_export(void *payload)
{
    struct export *export = payload;
    bl_buffer_clear(&export->lines);
    if (export->closing) {
        export->form->export_free(export->cursor);
        export->cursor = NULL;
        return;
    }
    export->code = export->form->export_next(export->cursor, &export->lines, &export->error);
}

static void free_export(void *payload)
{
    struct export *export = payload;
    export->form->export_free(export->cursor);
    bl_buffer_done(&export->lines);
    bl_free(export);
}

/* Passes on the lines of one step. */
static int write_lines(const struct export *export,
                       int (*write)(void *context, struct bl_text line), void *context)
{
    struct bl_text rest = bl_buffer_text(&export->lines), line;
    while (bl_text_split(&rest, '\n', &line)) {
        /* Includes its line feed. */
        int code = write(context, (struct bl_text){line.data, line.size + 1});
        if (code != 0)
            return code;
    }
    return 0;
}

static void close_export(struct export *export)
{
    struct bl_scope shield;
    bool dropped;
    export->closing = true;
    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    store_form_call(export->form, run_export, free_export, export, NULL, &dropped, NULL);
    bl_shield_end(&shield);
    if (!dropped)
        free_export(export);
}

int bl_store_export(struct bl_store *store, const char *id,
                    int (*write)(void *context, struct bl_text line), void *context,
                    struct bl_error *error)
{
    bool dropped;
    int code = bl_session_id_check(id, error);
    if (code != 0)
        return code;
    struct export *export = bl_zalloc(sizeof *export);
    export->form = store->form;
    export->cursor = store->form->export_new(store->state, id);
    bl_buffer_init(&export->lines, PAGE_BYTES_MAX);
    do {
        code = store_form_call(store->form, run_export, free_export, export, store->where, &dropped,
                               error);
        if (dropped)
            return code;
        if (code == 0 && export->code != 0) {
            code = export->code;
            if (error != NULL && error->code == 0)
                *error = export->error;
        }
        if (code == 0)
            code = write_lines(export, write, context);
    } while (code == 0 && export->lines.size > 0);
    close_export(export);
    return code;
}

/* ---- Import, fork, delete ---- */

/* Runs a job whose answer is the id of the session that it created, and leaves it. */
static int run_making(struct bl_store *store, struct store_look *look, struct bl_arena *arena,
                      const char **ret_id, struct bl_error *error)
{
    int code;
    if (store_run(store, &look->job, &code, error) == STORE_ANSWERED && code == 0)
        *ret_id = bl_arena_text(arena, bl_text_from(look->made_id)).data;
    store_job_leave(&look->job);
    return code;
}

struct check {
    struct store_look *look;
    int code;
    struct bl_error error;
};

static void run_check(void *payload)
{
    struct check *check = payload;
    check->code = store_import_check(check->look->lines, &check->error);
}

static void drop_check(void *payload)
{
    struct check *check = payload;
    store_job_leave(&check->look->job);
    bl_free(check);
}

int bl_store_import(struct bl_store *store, struct bl_text lines, const char *id,
                    struct bl_arena *arena, const char **ret_id, struct bl_error *error)
{
    bool dropped;
    int code = id == NULL ? 0 : bl_session_id_check(id, error);
    if (code != 0)
        return code;
    struct check *check = bl_zalloc(sizeof *check);
    struct store_look *look = store_make_look(store, STORE_IMPORT, id);
    look->lines = store_job_text(&look->job, lines);
    check->look = look;
    /* The lines are checked first, while other writers continue: only a valid import blocks them.
     */
    code = store_work(run_check, drop_check, check, store->where, &dropped, error);
    if (dropped)
        return code;
    if (code == 0 && check->code != 0) {
        code = check->code;
        if (error != NULL && error->code == 0)
            *error = check->error;
    }
    bl_free(check);
    if (code == 0)
        return run_making(store, look, arena, ret_id, error);
    store_job_leave(&look->job);
    return code;
}

int bl_store_fork(struct bl_store *store, const char *id, const char *new_id,
                  struct bl_arena *arena, const char **ret_id, struct bl_error *error)
{
    int code = bl_session_id_check(id, error);
    if (code == 0 && new_id != NULL)
        code = bl_session_id_check(new_id, error);
    if (code != 0)
        return code;
    struct store_look *look = store_make_look(store, STORE_FORK, id);
    look->new_id = store_job_string(&look->job, new_id);
    return run_making(store, look, arena, ret_id, error);
}

int bl_store_delete(struct bl_store *store, const char *id, struct bl_error *error)
{
    int code = bl_session_id_check(id, error);
    if (code != 0)
        return code;
    struct store_look *look = store_make_look(store, STORE_DELETE, id);
    store_run(store, &look->job, &code, error);
    store_job_leave(&look->job);
    return code;
}
