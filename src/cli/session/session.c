#include "session.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define TEXT_MAX ((size_t)2 * 1024 * 1024 * 1024)

const char cli_session_help[] =
    "Usage: belay session list [--all]\n"
    "       belay session show ID\n"
    "       belay session export ID [FILE]\n"
    "       belay session import [FILE|-] [--as ID]\n"
    "       belay session fork ID [--as ID]\n"
    "       belay session delete ID...\n"
    "       belay session move-aside\n"
    "\n"
    "Looks at the sessions that are kept, and moves them.\n"
    "\n"
    "  list        those of this directory, newest first\n"
    "  show        one: its turns, attempts that are not in it, tokens used and spent\n"
    "  export      all of one, as JSON Lines, to standard output or to FILE, which is\n"
    "              then there whole or not at all, and readable by its owner alone\n"
    "  import      what export wrote, from FILE or standard input: all or nothing\n"
    "  fork        a new session with the same turns\n"
    "  delete      for ever, with those of its sub-agents; none that is at work\n"
    "  move-aside  renames a store that cannot be used, so that a new one can be made\n"
    "\n"
    "Options:\n"
    "      --all                   of every directory, and those of sub-agents\n"
    "      --as ID                 the new session's id: a-z, 0-9 and '-', at most 64\n"
    "      --store FILE            where sessions are kept\n"
    "      --json                  one line, as in docs/schemas/session-list.json,\n"
    "                              docs/schemas/session-show.json and so on\n"
    "      --output-format FORMAT  text (the default) or json\n"
    "  -h, --help                  print this help\n"
    "\n"
    "Exit codes:\n"
    "  0    done\n"
    "  1    there is no such session, it is at work, or the store cannot be used\n"
    "  2    usage error\n"
    "  130  whoever read standard output is gone\n"
    "\n"
    "Environment:\n"
    "  BELAY_STORE  the store, where --store is not given; without either it is\n"
    "               $XDG_DATA_HOME/belay/sessions.db\n"
    "\n"
    "Examples:\n"
    "  belay session list --all\n"
    "  belay session show nightly --json\n"
    "  belay session export nightly nightly.jsonl\n"
    "  belay session import nightly.jsonl --as nightly-2\n";

enum {
    OPTION_ALL = 512,
    OPTION_AS,
    OPTION_STORE,
};

const struct option cli_session_options[] = {
    {"all", no_argument, NULL, OPTION_ALL},
    {"as", required_argument, NULL, OPTION_AS},
    {"store", required_argument, NULL, OPTION_STORE},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"output-format", required_argument, NULL, CLI_OPTION_OUTPUT_FORMAT},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {0},
};

/* ---- In the fiber: one function a verb ------------------------------------------------------- */

static int list(struct session_work *work)
{
    if (work->store == NULL)
        return 0;
    return bl_store_list(work->store, &work->arena, work->all ? NULL : work->directory, 0,
                         work->all, &work->summaries, &work->error);
}

static int show(struct session_work *work)
{
    work->id = work->operands[0];
    return bl_store_show(work->store, &work->arena, work->id, &work->view, &work->error);
}

static int import(struct session_work *work)
{
    return bl_store_import(work->store, work->input, work->as, &work->arena, &work->id,
                           &work->error);
}

static int fork_session(struct session_work *work)
{
    return bl_store_fork(work->store, work->operands[0], work->as, &work->arena, &work->id,
                         &work->error);
}

/* It was there before anything was deleted. */
static bool was_there(const struct session_work *work, const char *id)
{
    BL_LIST_EACH (link, &work->summaries) {
        if (strcmp(BL_CONTAINER(link, struct bl_store_summary, link)->id, id) == 0)
            return true;
    }
    return false;
}

/* Each for itself: one that cannot be deleted does not keep the others. The first failure is told.
 * One that went with the session of the agent above it is deleted, too. */
static int delete (struct session_work *work)
{
    int first = 0;

    if (work->operand_count > 1)
        first =
            bl_store_list(work->store, &work->arena, NULL, 0, true, &work->summaries, &work->error);
    if (first != 0)
        return first;
    work->deleted = bl_arena_alloc(&work->arena, work->operand_count * sizeof *work->deleted);
    for (size_t i = 0; i < work->operand_count; i++) {
        struct bl_error error = {0};
        int code = bl_store_delete(work->store, work->operands[i], &error);
        if (code == BL_ENOENT && was_there(work, work->operands[i]))
            code = 0;
        if (code == 0)
            work->deleted[work->deleted_count++] = work->operands[i];
        else if (first == 0)
            work->error = error;
        first = first == 0 ? code : first;
    }
    return first;
}

static int move_aside(struct session_work *work)
{
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
    STORE_READ,   /* needs none: then there is nothing */
    STORE_CHANGE, /* must be there */
    STORE_MAKE,
    STORE_NONE,
};

struct verb {
    const char *name;
    size_t operands_min;
    size_t operands_max;
    size_t ids; /* so many of the operands, from the first, are ids */
    enum store_use store;
    int (*run)(struct session_work *work);
    cli_payload *payload;
    void (*text)(struct bl_buffer *out, const struct session_work *work); /* NULL: nothing */
};

static const struct verb verbs[] = {
    {"list", 0, 0, 0, STORE_READ, list, session_list_payload, session_list_text},
    {"show", 1, 1, 1, STORE_CHANGE, show, session_show_payload, session_show_text},
    {"export", 1, 2, 1, STORE_CHANGE, session_export, session_export_payload, NULL},
    {"import", 0, 1, 0, STORE_MAKE, import, session_id_payload, import_text},
    {"fork", 1, 1, 1, STORE_CHANGE, fork_session, session_id_payload, fork_text},
    {"delete", 1, SIZE_MAX, SIZE_MAX, STORE_CHANGE, delete, session_delete_payload, delete_text},
    {"move-aside", 0, 0, 0, STORE_NONE, move_aside, session_move_payload, move_text},
};

static const struct verb *find_verb(const char *name, struct bl_error *error)
{
    struct bl_suggestion suggestion;

    bl_suggestion_init(&suggestion, name != NULL ? name : "");
    for (size_t i = 0; i < BL_COUNT(verbs); i++) {
        if (name != NULL && strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
        bl_suggestion_offer(&suggestion, verbs[i].name);
    }
    if (name == NULL)
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "VERB",
                     "it is not said what to do");
    else
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", name,
                     "unknown verb '%.100s'", name);
    if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(error, "there are list, show, export, import, fork, delete and move-aside");
    return NULL;
}

static int take(void *context, int option, const char *value, struct bl_error *error)
{
    struct session_work *work = context;

    switch (option) {
    case OPTION_ALL: work->all = true; return 0;
    case OPTION_STORE: work->where = value; return 0;
    case OPTION_AS: work->as = value; return bl_session_id_check(value, error);
    case CLI_ARGUMENT_OPERAND: work->operands[work->operand_count++] = value; return 0;
    default: return BL_EINVAL;
    }
}

static int check_operands(const struct session_work *work, const struct verb *verb,
                          struct bl_error *error)
{
    if (work->operand_count > verb->operands_max)
        return cli_arguments_refuse(work->operands[verb->operands_max], error);
    if (work->operand_count < verb->operands_min) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "ID",
                     "no session is named");
        bl_error_hint(error, "'belay session list --all' lists them");
        return BL_EINVAL;
    }
    for (size_t i = 0; i < work->operand_count && i < verb->ids; i++) {
        if (bl_session_id_check(work->operands[i], error) != 0)
            return BL_EINVAL;
    }
    if (verb->run == session_export && work->operand_count == 1 &&
        work->call->format != CLI_FORMAT_TEXT) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--json",
                     "the session and the envelope cannot both go to standard output");
        bl_error_hint(error, "name a FILE for the session");
        return BL_EINVAL;
    }
    return 0;
}

static int settle(struct session_work *work, struct bl_error *error)
{
    char *directory = bl_arena_alloc(&work->arena, PATH_MAX);

    work->directory = directory;
    if (getcwd(directory, PATH_MAX) == NULL)
        return bl_error_set(error, BL_ESYSTEM, BL_KIND_FILESYSTEM, "find the directory", NULL,
                            "the current folder is gone");
    if (work->where == NULL)
        work->where = bl_variable("BELAY_STORE");
    return work->where != NULL ? 0 : bl_store_default_path(&work->arena, &work->where, error);
}

/* ---- The work -------------------------------------------------------------------------------- */

struct task {
    struct session_work *work;
    const struct verb *verb;
};

/* A store that is not there holds no session: only import makes one. */
static int open_store(struct session_work *work, const struct verb *verb)
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
        bl_error_set(error, code, BL_KIND_SESSION, "find the session", work->operands[0],
                     "no session '%s': there is no store %s", work->operands[0], work->where);
        bl_error_hint(error, "'belay run' makes one; --store names another");
        return code;
    }
    if (code != 0 || verb->run == show || verb->run == session_export)
        return code;
    bl_store_close(work->store);
    work->store = NULL;
    return bl_store_open(work->where, &work->store, error);
}

static int task_main(void *argument)
{
    const struct task *task = argument;
    struct session_work *work = task->work;

    int code = open_store(work, task->verb);
    if (code == 0)
        code = task->verb->run(work);
    bl_store_close(work->store);
    work->store = NULL;
    return code;
}

static int print_text(struct session_work *work, const struct verb *verb)
{
    struct bl_buffer out;

    if (verb->text == NULL)
        return CLI_EXIT_OK;
    bl_buffer_init(&out, TEXT_MAX);
    verb->text(&out, work);
    int exit_code = cli_print(work->call, bl_buffer_text(&out), CLI_EXIT_OK);
    bl_buffer_done(&out);
    return exit_code;
}

static int perform(struct session_work *work, const struct verb *verb)
{
    struct task task = {work, verb};
    const struct cli_call *call = work->call;
    int code = 0;

    if (verb->run == import)
        code = session_read_input(work, work->operands[0]);
    if (code == 0)
        code = cli_loop_run("session", task_main, &task, &work->error);
    if (work->exit_code != CLI_EXIT_OK)
        return work->exit_code;
    /* Of several, those that could be deleted are named besides. */
    if (verb->run == delete &&code != 0 && call->format != CLI_FORMAT_TEXT)
        return cli_envelope_print(call, cli_error_exit_code(&work->error), verb->payload, work);
    if (verb->run == delete &&code != 0)
        print_text(work, verb);
    if (code != 0)
        return cli_fail(call, &work->error, cli_error_exit_code(&work->error));
    if (call->format == CLI_FORMAT_TEXT)
        return print_text(work, verb);
    return cli_envelope_print(call, CLI_EXIT_OK, verb->payload, work);
}

int cli_session_run(struct cli_call *call)
{
    struct session_work work = {.call = call};
    const struct verb *verb = NULL;
    struct bl_error error = {0};
    int exit_code;

    bl_arena_init(&work.arena);
    bl_list_init(&work.summaries);
    work.operands = bl_arena_zalloc(&work.arena, ((size_t)call->count + 3) * sizeof *work.operands);
    int code = cli_arguments_read(call, false, take, &work, &error);
    if (code == 0) {
        verb = find_verb(work.operands[0], &error);
        code = verb != NULL ? 0 : BL_EINVAL;
    }
    if (code == 0) {
        work.operands++;
        work.operand_count--;
        code = check_operands(&work, verb, &error);
    }
    if (code == 0)
        code = settle(&work, &error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &error);
    else
        exit_code = perform(&work, verb);
    bl_arena_done(&work.arena);
    return exit_code;
}
