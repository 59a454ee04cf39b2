#include "session.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/answers.h"

#define TEXT_MAX ((size_t)2 * 1024 * 1024 * 1024)

/* ---- One function per subcommand, run in the fiber ------------------------------------------- */

static int session_list(struct session_work *work)
{
    if (work->store == NULL)
        return 0;
    return bl_store_list(work->store, &work->arena, work->all ? NULL : work->directory, 0,
                         work->all, &work->summaries, &work->error);
}

static int session_show(struct session_work *work)
{
    work->id = work->source;
    return bl_store_show(work->store, &work->arena, work->id, &work->view, &work->error);
}

static int import(struct session_work *work)
{
    return bl_store_import(work->store, work->input, work->as, &work->arena, &work->id,
                           &work->error);
}

static int cli_fork_session(struct session_work *work)
{
    return bl_store_fork(work->store, work->source, work->as, &work->arena, &work->id,
                         &work->error);
}

/* True if the session existed before anything was deleted. */
static bool was_there(const struct session_work *work, const char *id)
{
    BL_LIST_EACH (link, &work->summaries) {
        if (strcmp(BL_CONTAINER(link, struct bl_store_summary, link)->id, id) == 0)
            return true;
    }
    return false;
}

/* Deletes each session independently: a failure does not affect the others, and the first one is
 * reported. A session that was deleted with its parent agent's session counts as deleted. */
static int delete (struct session_work *work)
{
    int first = 0;

    if (work->id_count > 1)
        first =
            bl_store_list(work->store, &work->arena, NULL, 0, true, &work->summaries, &work->error);
    if (first != 0)
        return first;
    work->deleted = bl_arena_alloc(&work->arena, work->id_count * sizeof *work->deleted);
    for (size_t i = 0; i < work->id_count; i++) {
        struct bl_error error = {0};
        int code = bl_store_delete(work->store, work->ids[i], &error);
        if (code == BL_ENOENT && was_there(work, work->ids[i]))
            code = 0;
        if (code == 0)
            work->deleted[work->deleted_count++] = work->ids[i];
        else if (first == 0)
            work->error = error;
        first = first == 0 ? code : first;
    }
    return first;
}

/* Refuses to move a usable store aside: its sessions would seem to be lost. */
static int session_refuse_healthy(struct session_work *work)
{
    if (bl_store_check(work->where, NULL) != 0)
        return 0;
    bl_error_set(&work->error, BL_EEXIST, BL_KIND_FILESYSTEM, "move the store aside", work->where,
                 "store '%.300s' is usable: all its pages can be read", work->where);
    bl_error_hint(&work->error, "to start a new store anyway, add --force; the sessions of this "
                                "one are then available only with --store and its new name");
    return BL_EEXIST;
}

static int session_move_aside(struct session_work *work)
{
    bool checked = !work->force && !bl_store_is_database(work->where);
    int code = checked ? session_refuse_healthy(work) : 0;

    if (code != 0)
        return code;
    return bl_store_move_aside(&work->arena, work->where, &work->path, &work->error);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void import_text(struct bl_buffer *out, const struct session_work *work)
{
    bl_buffer_printf(out, "Imported as %s.\n", work->id);
}

static void fork_text(struct bl_buffer *out, const struct session_work *work)
{
    bl_buffer_printf(out, "Forked as %s.\n", work->id);
}

static void delete_text(struct bl_buffer *out, const struct session_work *work)
{
    for (size_t i = 0; i < work->deleted_count; i++)
        bl_buffer_printf(out, "Deleted %s.\n", work->deleted[i]);
}

static void move_text(struct bl_buffer *out, const struct session_work *work)
{
    bl_buffer_printf(out, "The store is now %s.\n", work->path);
}

/* ---- The verbs ------------------------------------------------------------------------------- */

enum store_use {
    STORE_READ,   /* without a store the answer is empty */
    STORE_CHANGE, /* the store must exist */
    STORE_MAKE,
    STORE_NONE,
};

static const struct verb {
    enum store_use store;
    int (*run)(struct session_work *work);
    const struct cli_answer *answer;
    void (*text)(struct bl_buffer *out, const struct session_work *work); /* NULL for no text */
} verbs[] = {
    [SESSION_LIST] = {STORE_READ, session_list, &session_list_answer, session_list_text},
    [SESSION_SHOW] = {STORE_CHANGE, session_show, &session_show_answer, session_show_text},
    [SESSION_EXPORT] = {STORE_CHANGE, session_export, &session_export_answer, NULL},
    [SESSION_IMPORT] = {STORE_MAKE, import, &session_made_answer, import_text},
    [SESSION_FORK] = {STORE_CHANGE, cli_fork_session, &session_made_answer, fork_text},
    [SESSION_DELETE] = {STORE_CHANGE, delete, &session_delete_answer, delete_text},
    [SESSION_MOVE_ASIDE] = {STORE_NONE, session_move_aside, &session_move_answer, move_text},
};

static int check_output(const struct session_work *work, struct bl_error *error)
{
    if (work->verb != SESSION_EXPORT || work->file != NULL || work->call->format == CLI_FORMAT_TEXT)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--json",
                 "the session and the envelope cannot both go to standard output");
    bl_error_hint(error, "name a FILE for the session");
    return BL_EINVAL;
}

static int session_settle(struct session_work *work, struct bl_error *error)
{
    char *directory = bl_arena_alloc(&work->arena, PATH_MAX);

    work->directory = directory;
    if (getcwd(directory, PATH_MAX) == NULL)
        return bl_error_set(error, BL_ESYSTEM, BL_KIND_FILESYSTEM, "find the directory", NULL,
                            "the current folder no longer exists");
    int code = work->where != NULL ? 0 : bl_store_default_path(&work->arena, &work->where, error);
    if (code == 0)
        work->shown = bl_store_shown(&work->arena, work->where);
    return code;
}

/* ---- The work -------------------------------------------------------------------------------- */

struct task {
    struct session_work *work;
    const struct verb *verb;
};

/* Opens the store. Only import creates one; without a store there is no session to find. */
static int session_open_store(struct session_work *work, const struct verb *verb)
{
    struct bl_error *error = &work->error;
    int code;

    if (verb->store == STORE_NONE)
        return 0;
    if (verb->store == STORE_MAKE)
        return bl_store_open(work->where, &work->store, error);
    code = bl_store_open_reading(work->where, &work->store, error);
    if (code == BL_ENOENT) {
        *error = (struct bl_error){0};
        if (verb->store == STORE_READ)
            return 0;
        const char *id = work->source != NULL ? work->source : work->ids[0];
        bl_error_set(error, code, BL_KIND_SESSION, "find the session", id,
                     "no session '%s': store '%s' does not exist", id, work->where);
        bl_error_hint(error, "'belay run' creates a store; --store selects another one");
        return code;
    }
    /* Listing a file also upgrades and settles it; in a database there is nothing to do. */
    bool reads = verb->run == session_show || verb->run == session_export ||
                 (verb->run == session_list && bl_store_is_database(work->where));
    if (code != 0 || reads)
        return code;
    bl_store_close(work->store);
    work->store = NULL;
    return bl_store_open(work->where, &work->store, error);
}

static int task_main(void *argument)
{
    const struct task *task = argument;
    struct session_work *work = task->work;

    int code = session_open_store(work, task->verb);
    if (code == 0)
        code = task->verb->run(work);
    bl_store_close(work->store);
    work->store = NULL;
    return code;
}

static int session_print_text(struct session_work *work, const struct verb *verb)
{
    BL_AUTO_BUFFER(out, TEXT_MAX);

    if (verb->text == NULL)
        return CLI_EXIT_OK;
    verb->text(&out, work);
    return cli_print(work->call, bl_buffer_text(&out), CLI_EXIT_OK);
}

static int session_perform(struct session_work *work, const struct verb *verb)
{
    struct task task = {work, verb};
    const struct cli_call *call = work->call;
    int code = 0;

    if (verb->run == import)
        code = session_read_input(work, work->file);
    if (code == 0)
        code = cli_loop_run("session", task_main, &task, &work->error);
    if (work->exit_code != CLI_EXIT_OK)
        return work->exit_code;
    /* The answer names the sessions that were deleted in spite of the error. */
    if (verb->run == delete &&code != 0 && call->format != CLI_FORMAT_TEXT) {
        work->failure = &work->error;
        return cli_answer_print(call, cli_error_exit_code(&work->error), &verb->answer->record,
                                work);
    }
    if (verb->run == delete &&code != 0)
        session_print_text(work, verb);
    if (code != 0)
        return cli_fail(call, &work->error, cli_error_exit_code(&work->error));
    if (call->format == CLI_FORMAT_TEXT)
        return session_print_text(work, verb);
    return cli_answer_print(call, CLI_EXIT_OK, &verb->answer->record, work);
}

int cli_session_run(struct cli_call *call)
{
    struct session_work work = {.call = call};
    struct bl_error error = {0};
    int exit_code;

    bl_arena_init(&work.arena);
    bl_list_init(&work.summaries);
    int code = cli_options_read(call, &work, &work.arena, &error);
    if (code == 0)
        code = check_output(&work, &error);
    if (code == 0)
        code = session_settle(&work, &error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &error);
    else
        exit_code = session_perform(&work, &verbs[work.verb]);
    bl_arena_done(&work.arena);
    return exit_code;
}
