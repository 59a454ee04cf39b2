#include <inttypes.h>

#include <belay/serve.h>

#include "cli/answers.h"
#include "cli/columns.h"
#include "cli/fleet/fleet.h"
#include "cli/table/commands.h"

#define TEXT_MAX   ((size_t)16 * 1024 * 1024)
#define ITEMS_MOST 1000

/* A belay process. */
struct ps_process {
    struct bl_list link;
    int64_t pid; /* 0 if unknown */
    unsigned state;
    struct bl_list left; /* struct ps_left, for a process that was killed */
};

/* Work that a killed process had started. */
struct ps_left {
    struct bl_list link;
    struct bl_text id;
    struct bl_text kind;
    struct bl_text session;
    enum {
        LEFT_CUT_OFF,
        LEFT_ENDED,
        LEFT_UNKNOWN,
    } state;
};

struct listing {
    struct bl_arena arena;
    struct ps_options options;
    struct bl_list activities; /* struct bl_activity_view, of processes that answer */
    struct bl_list sessions;   /* struct bl_open_session_view, of processes that answer */
    struct bl_list processes;  /* struct ps_process */
    struct bl_list items;      /* struct bl_fleet_view, of a fleet, without those of `activities` */
    struct bl_error error;
};

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *const kind_names[] = {"run", "feature"};
static const struct bl_names left_kinds = BL_NAMES(kind_names);
static const char *const left_names[] = {"cut off", "ended", "unknown"};
static const struct bl_names left_states = BL_NAMES(left_names);
static const char *const state_names[] = {[BL_CONTROL_ANSWERING] = "answering",
                                          [BL_CONTROL_SILENT] = "not answering",
                                          [BL_CONTROL_DEAD] = "dead"};
static const struct bl_names process_states = BL_NAMES(state_names);

#define BL_RECORD_STRUCT struct bl_activity_view
static const struct bl_member activity_members[] = {
    BL_MEMBER_INCLUDE(&bl_activity_record),
    BL_MEMBER_INTEGER("pid", pid, .least = 1, .about = "Process that it runs in."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record activity_record =
    BL_RECORD("activity", struct bl_activity_view, activity_members, .closed = true);

#define BL_RECORD_STRUCT struct bl_open_session_view
static const struct bl_member session_members[] = {
    BL_MEMBER_INCLUDE(&bl_open_session_record),
    BL_MEMBER_INTEGER("pid", pid, .least = 1, .about = "Process that holds it."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record session_record =
    BL_RECORD("open_session", struct bl_open_session_view, session_members, .closed = true);

#define BL_RECORD_STRUCT struct ps_left
static const struct bl_member left_members[] = {
    BL_MEMBER_TEXT("id", id, .least = 1),
    BL_MEMBER_TEXT("kind", kind, .names = &left_kinds),
    BL_MEMBER_TEXT("session", session),
    BL_MEMBER_ENUM("state", state, &left_states,
                   .about = "State in the store; unknown: not in the store."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record left_record =
    BL_RECORD("left", struct ps_left, left_members, .closed = true);

#define BL_RECORD_STRUCT struct ps_process
static const struct bl_member process_members[] = {
    BL_MEMBER_INTEGER("pid", pid, .nullable = true, .least = 1, .about = "null: not known."),
    BL_MEMBER_ENUM("state", state, &process_states,
                   .about = "dead: it was killed; listed once after that."),
    BL_MEMBER_LIST("left", left, &left_record, struct ps_left, link,
                   .about = "Runs and features that a dead process had started."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record process_record =
    BL_RECORD("process", struct ps_process, process_members, .closed = true);

#define BL_RECORD_STRUCT struct listing
static const struct bl_member ps_members[] = {
    BL_MEMBER_LIST("activities", activities, &activity_record, struct bl_activity_view, link,
                   .about = "Running work, by process."),
    BL_MEMBER_LIST("sessions", sessions, &session_record, struct bl_open_session_view, link,
                   .about = "Sessions that these processes hold, idle ones too."),
    BL_MEMBER_LIST("processes", processes, &process_record, struct ps_process, link,
                   .about = "Every process that listens, or was killed since the last belay ps."),
    BL_MEMBER_LIST("items", items, &fleet_item_record, struct bl_fleet_view, link,
                   .about = "Items of the fleet that shares the store, waiting or on other "
                            "machines; empty if the store is a file."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer ps_answer = {BL_RECORD("ps", struct listing, ps_members), .of = "ps"};

/* ---- Processes ------------------------------------------------------------------------------- */

/* Looks up the state of the work in the store. */
static void ps_look_up(struct listing *listing, struct bl_store *store, struct ps_left *left)
{
    struct bl_store_work work;

    left->state = LEFT_UNKNOWN;
    if (store != NULL && bl_store_find(store, &listing->arena, left->id.data, &work, NULL) == 0)
        left->state = work.ended ? LEFT_ENDED : LEFT_CUT_OFF;
}

static void ps_take_dead(struct listing *listing, struct bl_store *store,
                         const struct bl_list *activities, struct ps_process *process)
{
    BL_LIST_EACH (link, activities) {
        const struct bl_activity_view *activity = BL_CONTAINER(link, struct bl_activity_view, link);
        if (activity->id.size == 0)
            continue;
        struct ps_left *left = bl_arena_alloc(&listing->arena, sizeof *left);
        *left = (struct ps_left){
            .id = activity->id, .kind = activity->kind, .session = activity->session};
        ps_look_up(listing, store, left);
        bl_list_push_back(&process->left, &left->link);
    }
}

static void ps_take_activities(struct listing *listing, struct bl_control_process *from)
{
    struct bl_list *link;

    while ((link = bl_list_pop_front(&from->activities)) != NULL) {
        BL_CONTAINER(link, struct bl_activity_view, link)->pid = from->pid;
        bl_list_push_back(&listing->activities, link);
    }
    while ((link = bl_list_pop_front(&from->sessions)) != NULL) {
        BL_CONTAINER(link, struct bl_open_session_view, link)->pid = from->pid;
        bl_list_push_back(&listing->sessions, link);
    }
}

static struct bl_store *ps_open_store(struct listing *listing)
{
    const char *where = listing->options.store;
    struct bl_store *store = NULL;

    if (where == NULL && bl_store_default_path(&listing->arena, &where, NULL) != 0)
        return NULL;
    return bl_store_open_reading(where, &store, NULL) == 0 ? store : NULL;
}

static bool ps_is_here(const struct listing *listing, const char *id)
{
    BL_LIST_EACH (link, &listing->activities)
        if (bl_text_equal(BL_CONTAINER(link, struct bl_activity_view, link)->id, bl_text_from(id)))
            return true;
    return false;
}

/* Adds the items that wait, and those of other machines. Without an answer of the database, the work of
 * this machine is still listed. */
static void ps_take_items(struct listing *listing)
{
    struct bl_fleet_list list = {.most = ITEMS_MOST};
    const char *where = listing->options.store;
    struct bl_store *store = NULL;
    struct bl_error error = {0};
    int code = 0;

    if (where == NULL)
        code = bl_store_default_path(&listing->arena, &where, NULL);
    if (code != 0 || !bl_store_is_database(where))
        return;
    code = bl_store_open(where, &store, &error);
    if (code == 0)
        code = fleet_items_read(store, &list, &listing->arena, &listing->items, &error);
    bl_store_close(store);
    if (code != 0)
        cli_remark(bl_arena_printf(
            &listing->arena, "belay: work on other machines is not listed: %s\n", error.message));
    BL_LIST_EACH_SAFE (link, &listing->items)
        if (ps_is_here(listing, BL_CONTAINER(link, struct bl_fleet_view, link)->id))
            bl_list_remove(link);
}

static int ps_list_main(void *argument)
{
    struct listing *listing = argument;
    struct bl_store *store = NULL;
    struct bl_list processes;
    int code = bl_control_list(&listing->arena, &processes, &listing->error);

    BL_LIST_EACH (link, &processes) {
        struct bl_control_process *from = BL_CONTAINER(link, struct bl_control_process, link);
        struct ps_process *process = bl_arena_zalloc(&listing->arena, sizeof *process);
        process->pid = from->pid;
        process->state = from->state;
        bl_list_init(&process->left);
        bl_list_push_back(&listing->processes, &process->link);
        if (from->state == BL_CONTROL_ANSWERING)
            ps_take_activities(listing, from);
        if (from->state != BL_CONTROL_DEAD)
            continue;
        if (store == NULL)
            store = ps_open_store(listing);
        ps_take_dead(listing, store, &from->activities, process);
    }
    bl_store_close(store);
    if (code == 0)
        ps_take_items(listing);
    return code;
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* Writes "4m 10s", or "-" if there is no time. */
static void format_ms(int64_t ms, char out[32])
{
    if (ms >= 0 && ms < INT64_MAX / (int64_t)BL_NS_PER_MS)
        bl_duration_format(ms * (int64_t)BL_NS_PER_MS, out);
    else
        bl_text_into(out, 32, "-");
}

enum ps_column {
    PS_ID,
    PS_KIND,
    PS_PHASE,
    PS_AGE,
    PS_LEFT,
    PS_TOKENS,
    PS_COST,
    PS_LAST,
    PS_SESSION,
    PS_DIRECTORY,
    PS_PROMPT,
    PS_COLUMNS,
};

static const struct cli_column ps_columns[PS_COLUMNS] = {
    [PS_ID] = {"ID", 0, 0, false, false},
    [PS_KIND] = {"KIND", 0, 0, false, false},
    [PS_PHASE] = {"PHASE", 0, 6, false, false},
    [PS_AGE] = {"AGE", 90, 0, false, false},
    [PS_LEFT] = {"LEFT", 60, 0, false, false},
    [PS_TOKENS] = {"TOKENS", 40, 0, true, false},
    [PS_COST] = {"COST", 50, 0, true, false},
    [PS_LAST] = {"LAST ACTIVITY", 30, 0, false, false},
    [PS_SESSION] = {"SESSION", 20, 0, false, false},
    [PS_DIRECTORY] = {"DIRECTORY", 70, 8, false, true},
    [PS_PROMPT] = {"PROMPT", 80, 10, false, false},
};

static struct bl_text ps_cost(struct bl_arena *arena, bool unknown, double cost_usd)
{
    if (unknown)
        return BL_TEXT("-");
    return bl_arena_printf(arena, cost_usd < 1 ? "$%.3f" : "$%.2f", cost_usd);
}

static struct bl_text ps_time(struct bl_arena *arena, int64_t ms)
{
    char text[32];

    format_ms(ms, text);
    return bl_arena_text(arena, bl_text_from(text));
}

static void ps_fill_activity(struct bl_arena *arena, const struct bl_activity_view *activity,
                             struct bl_text cells[PS_COLUMNS])
{
    cells[PS_ID] = cli_columns_cell(arena, activity->id);
    cells[PS_KIND] = activity->kind;
    cells[PS_PHASE] = cli_columns_cell(arena, activity->phase);
    cells[PS_AGE] = ps_time(arena, (int64_t)activity->age_ms);
    cells[PS_LEFT] = ps_time(arena, activity->deadline_left_ms);
    cells[PS_TOKENS] = bl_arena_printf(arena, "%" PRIu64, activity->tokens);
    cells[PS_COST] = ps_cost(arena, activity->cost_unknown, activity->cost_usd);
    cells[PS_LAST] = bl_arena_printf(arena, BL_TEXT_FORMAT " ago",
                                     BL_TEXT_ARG(ps_time(arena, (int64_t)activity->idle_ms)));
    cells[PS_SESSION] = cli_columns_cell(arena, activity->session);
    cells[PS_DIRECTORY] = cli_columns_cell(arena, activity->directory);
    cells[PS_PROMPT] = cli_columns_cell(arena, activity->prompt);
}

/* Fills a row for an idle session, in the columns of an activity. */
static void ps_fill_session(struct bl_arena *arena, const struct bl_open_session_view *session,
                            struct bl_text cells[PS_COLUMNS])
{
    cells[PS_ID] = cells[PS_SESSION] = cli_columns_cell(arena, session->session);
    cells[PS_KIND] = BL_TEXT("session");
    cells[PS_PHASE] = BL_TEXT("idle");
    cells[PS_AGE] = ps_time(arena, (int64_t)session->age_ms);
    cells[PS_LEFT] = cells[PS_TOKENS] = BL_TEXT("-");
    cells[PS_COST] = ps_cost(arena, session->cost_unknown, session->cost_usd);
    cells[PS_LAST] = bl_arena_printf(arena, BL_TEXT_FORMAT " ago",
                                     BL_TEXT_ARG(ps_time(arena, (int64_t)session->idle_ms)));
    cells[PS_DIRECTORY] = cli_columns_cell(arena, session->directory);
    cells[PS_PROMPT] = cli_columns_cell(arena, session->prompt);
}

static size_t ps_count(const struct bl_list *list)
{
    size_t count = 0;

    BL_LIST_EACH (link, list)
        count++;
    return count;
}

static void append_table(struct bl_buffer *out, struct bl_arena *arena,
                         const struct listing *listing)
{
    size_t most = ps_count(&listing->activities) + ps_count(&listing->sessions), rows = 0;
    struct bl_text *cells = bl_arena_zalloc(arena, (most + 1) * PS_COLUMNS * sizeof *cells);

    BL_LIST_EACH (link, &listing->activities)
        ps_fill_activity(arena, BL_CONTAINER(link, struct bl_activity_view, link),
                         cells + PS_COLUMNS * rows++);
    BL_LIST_EACH (link, &listing->sessions) {
        const struct bl_open_session_view *session =
            BL_CONTAINER(link, struct bl_open_session_view, link);
        if (session->idle)
            ps_fill_session(arena, session, cells + PS_COLUMNS * rows++);
    }
    if (rows > 0)
        cli_columns_write(out, ps_columns, PS_COLUMNS, cells, rows, cli_columns_width());
}

/* Appends a line about a process that does not answer or is dead. */
static void append_process(struct bl_buffer *out, const struct ps_process *process)
{
    if (process->pid > 0)
        bl_buffer_printf(out, "process %" PRId64 ": ", process->pid);
    else
        bl_buffer_append(out, BL_TEXT("unknown process: "));
    bl_buffer_append(out, bl_text_from(state_names[process->state]));
    BL_LIST_EACH (link, &process->left) {
        const struct ps_left *left = BL_CONTAINER(link, struct ps_left, link);
        bl_buffer_printf(out, "; %.*s of %.*s: %s", BL_TEXT_ARG(left->id),
                         BL_TEXT_ARG(left->session), left_names[left->state]);
    }
    bl_buffer_append_byte(out, '\n');
}

static int ps_print_text(const struct cli_call *call, const struct listing *listing)
{
    BL_AUTO_BUFFER(out, TEXT_MAX);
    BL_AUTO_ARENA(arena);

    append_table(&out, &arena, listing);
    BL_LIST_EACH (link, &listing->processes) {
        const struct ps_process *process = BL_CONTAINER(link, struct ps_process, link);
        if (process->state != BL_CONTROL_ANSWERING)
            append_process(&out, process);
    }
    if (out.size > 0 && !bl_list_empty(&listing->items))
        bl_buffer_append_byte(&out, '\n');
    fleet_items_text(&out, &listing->items);
    if (out.size == 0)
        bl_buffer_append(&out, BL_TEXT("No running work.\n"));
    return cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
}

int cli_ps_run(struct cli_call *call)
{
    struct listing listing = {0};
    struct bl_error *error = &listing.error;
    int exit_code;

    int code = cli_options_read(call, &listing.options, NULL, error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code != 0)
        return cli_fail_usage(call, error);
    bl_arena_init(&listing.arena);
    bl_list_init(&listing.processes);
    bl_list_init(&listing.activities);
    bl_list_init(&listing.sessions);
    bl_list_init(&listing.items);
    if (cli_loop_run("ps", ps_list_main, &listing, error) != 0)
        exit_code = cli_fail(call, error, CLI_EXIT_FAILED);
    else if (call->format == CLI_FORMAT_TEXT)
        exit_code = ps_print_text(call, &listing);
    else
        exit_code = cli_answer_print(call, CLI_EXIT_OK, &ps_answer.record, &listing);
    bl_arena_done(&listing.arena);
    return exit_code;
}
