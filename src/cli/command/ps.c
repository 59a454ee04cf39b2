#include <inttypes.h>

#include <belay/serve.h>

#include "cli/answers.h"
#include "cli/table/commands.h"

#define TEXT_MAX ((size_t)16 * 1024 * 1024)

/* A process that was asked. */
struct ps_process {
    struct bl_list link;
    int64_t pid; /* 0: not known */
    unsigned state;
    struct bl_list left; /* struct ps_left: of one that was killed */
};

/* Something that a killed process had begun. */
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
    struct bl_list activities; /* struct bl_activity_view: of those that answer */
    struct bl_list processes;  /* struct ps_process */
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

#define BL_RECORD_STRUCT struct ps_left
static const struct bl_member left_members[] = {
    BL_MEMBER_TEXT("id", id, .least = 1),
    BL_MEMBER_TEXT("kind", kind, .names = &left_kinds),
    BL_MEMBER_TEXT("session", session),
    BL_MEMBER_ENUM("state", state, &left_states,
                   .about = "As the store has it; unknown: it is not in the store."),
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
    BL_MEMBER_LIST("processes", processes, &process_record, struct ps_process, link,
                   .about = "Every process that listens, or was killed since the last belay ps."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer ps_answer = {BL_RECORD("ps", struct listing, ps_members), .of = "ps"};

/* ---- Processes ------------------------------------------------------------------------------- */

/* What the store knows of it. */
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
}

static struct bl_store *ps_open_store(struct listing *listing)
{
    const char *where = listing->options.store;
    struct bl_store *store = NULL;

    if (where == NULL && bl_store_default_path(&listing->arena, &where, NULL) != 0)
        return NULL;
    return bl_store_open_reading(where, &store, NULL) == 0 ? store : NULL;
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
    return code;
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* "4 m 10 s", or "-" where there is none. */
static void format_ms(int64_t ms, char out[32])
{
    if (ms >= 0 && ms < INT64_MAX / (int64_t)BL_NS_PER_MS)
        bl_duration_format(ms * (int64_t)BL_NS_PER_MS, out);
    else
        bl_text_into(out, 32, "-");
}

static void append_activity(struct bl_buffer *out, const struct bl_activity_view *activity)
{
    char age[32], left[32], idle[32];

    if (out->size == 0)
        bl_buffer_printf(out, "%-25s %-7s %-14s %-11s %-11s %8s %s\n", "ID", "KIND", "PHASE", "AGE",
                         "LEFT", "TOKENS", "LAST ACTIVITY");
    format_ms((int64_t)activity->age_ms, age);
    format_ms(activity->deadline_left_ms, left);
    format_ms((int64_t)activity->idle_ms, idle);
    bl_buffer_printf(out, "%-25.*s %-7.*s %-14.*s %-11s %-11s %8" PRIu64 " %s ago\n",
                     BL_TEXT_ARG(activity->id), BL_TEXT_ARG(activity->kind),
                     BL_TEXT_ARG(activity->phase), age, left, activity->tokens, idle);
}

/* What is to be said of one that says nothing itself. */
static void append_process(struct bl_buffer *out, const struct ps_process *process)
{
    if (process->pid > 0)
        bl_buffer_printf(out, "process %" PRId64 ": ", process->pid);
    else
        bl_buffer_append(out, BL_TEXT("a process: "));
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

    BL_LIST_EACH (link, &listing->activities)
        append_activity(&out, BL_CONTAINER(link, struct bl_activity_view, link));
    BL_LIST_EACH (link, &listing->processes) {
        const struct ps_process *process = BL_CONTAINER(link, struct ps_process, link);
        if (process->state != BL_CONTROL_ANSWERING)
            append_process(&out, process);
    }
    if (out.size == 0)
        bl_buffer_append(&out, BL_TEXT("Nothing runs.\n"));
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
    if (cli_loop_run("ps", ps_list_main, &listing, error) != 0)
        exit_code = cli_fail(call, error, CLI_EXIT_FAILED);
    else if (call->format == CLI_FORMAT_TEXT)
        exit_code = ps_print_text(call, &listing);
    else
        exit_code = cli_answer_print(call, CLI_EXIT_OK, &ps_answer.record, &listing);
    bl_arena_done(&listing.arena);
    return exit_code;
}
