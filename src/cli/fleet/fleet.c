#include "fleet.h"

#include "cli/answers.h"
#include "cli/member.h"

#define TEXT_MAX ((size_t)4 * 1024 * 1024)

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *const fleet_state_names[] = {"live", "draining", "lost", "gone"};
static const struct bl_names fleet_states = BL_NAMES(fleet_state_names);

#define BL_RECORD_STRUCT struct bl_store_worker
static const struct bl_member fleet_worker_members[] = {
    BL_MEMBER_STRING("id", id, .least = 1),
    BL_MEMBER_STRING("host", host, .about = "Name of its machine."),
    BL_MEMBER_INTEGER("pid", pid, .least = 1),
    BL_MEMBER_STRING("state", state, .names = &fleet_states,
                     .about = "lost: another process has taken its sessions; gone: it has ended."),
    BL_MEMBER_INTEGER("heartbeat_age_ms", heartbeat_age_ms,
                      .about = "Time since its last heartbeat, by the server's clock."),
    BL_MEMBER_INTEGER("sessions", sessions, .about = "Number of sessions that it holds."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record fleet_worker_record =
    BL_RECORD("fleet_worker", struct bl_store_worker, fleet_worker_members, .closed = true);

#define BL_RECORD_STRUCT struct bl_store_fleet
static const struct bl_member fleet_members[] = {
    BL_MEMBER_STRING("store", store, .least = 1, .about = "The address, without a password."),
    BL_MEMBER_STRING("server_version", server, .least = 1, .about = "Version of PostgreSQL."),
    BL_MEMBER_NUMBER("round_trip_ms", round_trip_ms,
                     .about = "Time of a statement that does nothing."),
    BL_MEMBER_INTEGER("schema", schema, .least = 1, .about = "Version of the schema."),
    BL_MEMBER_INTEGER("lease_ms", lease_ms, .least = 1, .about = "Lease of a worker."),
    BL_MEMBER_INTEGER("renew_ms", renew_ms, .least = 1,
                      .about = "Time between the heartbeats of a worker."),
    BL_MEMBER_INTEGER("workers_total", workers_total,
                      .about = "Number of workers, including those that are not listed."),
    BL_MEMBER_LIST("workers", workers, &fleet_worker_record, struct bl_store_worker, link,
                   .about = "The newest heartbeat first; at most 1,000."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record fleet_record = BL_RECORD_GROUP("fleet", fleet_members);

#define BL_RECORD_STRUCT struct bl_fleet_view
static const struct bl_member fleet_item_members[] = {
    BL_MEMBER_STRING("id", id, .least = 1),
    BL_MEMBER_STRING("kind", kind, .least = 1),
    BL_MEMBER_ENUM("state", state, &bl_fleet_states,
                   .about = "delayed: waits for its time; parked: for its limit key; queued: for a "
                            "worker; interrupted: its worker was lost, and it is not repeated."),
    BL_MEMBER_STRING("pool", pool, .least = 1),
    BL_MEMBER_STRING("session", session, .nullable = true, .about = "null: it has none yet."),
    BL_MEMBER_STRING("worker", worker, .nullable = true,
                     .about = "That runs it, or ran it last; null: none yet."),
    BL_MEMBER_STRING("host", host, .nullable = true, .about = "Name of the worker's machine."),
    BL_MEMBER_STRING("submitter", submitter, .about = "User of the database."),
    BL_MEMBER_INTEGER("tries", tries, .about = "Number of runs that were retried."),
    BL_MEMBER_INTEGER("deaths", deaths, .about = "Number of workers that were lost with it."),
    BL_MEMBER_INTEGER("age_ms", age_ms, .least = INT64_MIN,
                      .about = "Time since it was submitted, by the server's clock."),
    BL_MEMBER_INTEGER("exit_code", exit_code, .about = "Of an ended item; otherwise 0."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record fleet_item_record =
    BL_RECORD("fleet_item", struct bl_fleet_view, fleet_item_members, .closed = true);

#define BL_RECORD_STRUCT struct fleet_work
static const struct bl_member fleet_list_members[] = {
    BL_MEMBER_LIST("items", items, &fleet_item_record, struct bl_fleet_view, link,
                   .about = "The oldest first."),
    BL_MEMBER_STRING("next", next, .nullable = true,
                     .about = "For --after, to list more; null: there are no more."),
    BL_MEMBER_END,
};
static const struct bl_member fleet_init_members[] = {
    BL_MEMBER_STRING("store", shown, .nullable = true, .least = 1,
                     .about = "The address, without a password; null: none was named."),
    BL_MEMBER_BOOLEAN("created", created,
                      .about = "false: the schema was there already, or only the SQL was written."),
    BL_MEMBER_STRING("sql", sql, .nullable = true, .about = "With --plan: the SQL."),
    BL_MEMBER_END,
};
static const struct bl_member fleet_status_members[] = {
    BL_MEMBER_EMBED(fleet, &fleet_record),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

const struct cli_answer fleet_init_answer = {
    BL_RECORD("fleet-init", struct fleet_work, fleet_init_members), .of = "fleet init"};
const struct cli_answer fleet_status_answer = {
    BL_RECORD("fleet-status", struct fleet_work, fleet_status_members), .of = "fleet status"};

const struct cli_answer fleet_list_answer = {
    BL_RECORD("fleet-list", struct fleet_work, fleet_list_members), .of = "fleet list"};

/* ---- One function per subcommand, run in the fiber ------------------------------------------- */

static int fleet_status(struct fleet_work *work)
{
    return bl_store_fleet_read(work->where, work->ended, &work->arena, &work->fleet, &work->error);
}

/* The schema is there already: that is fine if it can be used. */
static int fleet_check_existing(struct fleet_work *work)
{
    work->error = (struct bl_error){0};
    return fleet_status(work);
}

static int fleet_init(struct fleet_work *work)
{
    int code = bl_store_create(work->where, &work->error);

    if (code == BL_EEXIST)
        return fleet_check_existing(work);
    work->created = code == 0;
    return code;
}

int fleet_items_read(struct bl_store *store, const struct bl_fleet_list *list,
                     struct bl_arena *arena, struct bl_list *ret_items, struct bl_error *error)
{
    const struct bl_fleet_store *table = bl_store_fleet_table(store);

    return table->list(table->context, arena, list, ret_items, error);
}

static int fleet_list_page(struct fleet_work *work, struct bl_store *store)
{
    struct bl_fleet_list list = {.pool = work->pool,
                                 .key = work->key,
                                 .chosen = work->chosen,
                                 .state = work->state,
                                 .ended = work->ended,
                                 .after = work->after,
                                 .most = work->limit};
    uint32_t count = 0;

    int code = fleet_items_read(store, &list, &work->arena, &work->items, &work->error);
    if (code != 0)
        return code;
    BL_LIST_EACH (link, &work->items)
        count++;
    if (count == work->limit)
        work->next = BL_CONTAINER(work->items.previous, struct bl_fleet_view, link)->id;
    return 0;
}

static int fleet_list(struct fleet_work *work)
{
    struct bl_store *store = NULL;
    int code = bl_store_open(work->where, &store, &work->error);

    if (code == 0)
        code = fleet_list_page(work, store);
    bl_store_close(store);
    return code;
}

static const struct fleet_entry {
    int (*run)(struct fleet_work *work);
    const struct cli_answer *answer;
    void (*text)(struct bl_buffer *out, const struct fleet_work *work);
} fleet_entries[] = {
    [FLEET_INIT] = {fleet_init, &fleet_init_answer, fleet_init_text},
    [FLEET_STATUS] = {fleet_status, &fleet_status_answer, fleet_status_text},
    [FLEET_LIST] = {fleet_list, &fleet_list_answer, fleet_list_text},
};

/* ---- The work -------------------------------------------------------------------------------- */

static int fleet_check(struct fleet_work *work, struct bl_error *error)
{
    if (work->where == NULL && work->plan)
        return 0;
    int code = cli_fleet_check(work->where, error);
    if (code == 0)
        work->shown = bl_store_shown(&work->arena, work->where);
    return code;
}

static int fleet_main(void *argument)
{
    struct fleet_work *work = argument;

    return fleet_entries[work->verb].run(work);
}

static int fleet_perform(struct fleet_work *work)
{
    const struct fleet_entry *entry = &fleet_entries[work->verb];
    BL_AUTO_BUFFER(out, TEXT_MAX);

    if (work->plan)
        work->sql = bl_store_schema();
    else if (cli_loop_run("fleet", fleet_main, work, &work->error) != 0)
        return cli_fail(work->call, &work->error, cli_error_exit_code(&work->error));
    if (work->call->format != CLI_FORMAT_TEXT)
        return cli_answer_print(work->call, CLI_EXIT_OK, &entry->answer->record, work);
    entry->text(&out, work);
    return cli_print(work->call, bl_buffer_text(&out), CLI_EXIT_OK);
}

int cli_fleet_run(struct cli_call *call)
{
    struct fleet_work work = {.call = call, .limit = FLEET_LIST_DEFAULT};
    struct bl_error error = {0};
    int exit_code;

    bl_list_init(&work.fleet.workers);
    bl_list_init(&work.items);
    int code = cli_options_read(call, &work, &work.arena, &error);
    if (code == 0)
        code = fleet_check(&work, &error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_usage(call, &error);
    else
        exit_code = fleet_perform(&work);
    bl_arena_done(&work.arena);
    return exit_code;
}
