#include <inttypes.h>

#include <belay/serve.h>

#include "cli/cli.h"
#include "cli/table/commands.h"

#define TEXT_MAX ((size_t)16 * 1024 * 1024)

struct listing {
    struct bl_arena arena;
    struct ps_options options;
    struct bl_list processes; /* struct bl_control_process */
    struct bl_list cut;       /* struct cut: of those that are dead */
    struct bl_error error;
};

/* Something that a killed process had begun. */
struct cut {
    struct bl_list link;
    const struct bl_control_process *process;
    const struct bl_json *activity;
    const char *state; /* "cut off", "ended", "unknown" */
};

static const struct bl_json *activities(const struct bl_control_process *process)
{
    return bl_json_get(process->result, BL_TEXT("activities"));
}

static struct bl_text ps_member(const struct bl_json *activity, const char *key)
{
    return bl_json_text(bl_json_get(activity, bl_text_from(key)));
}

/* ---- Processes that were killed -------------------------------------------------------------- */

/* What the store knows of it. */
static const char *ps_state_of(struct listing *listing, struct bl_store *store,
                               const struct bl_json *activity)
{
    struct bl_store_work work;

    if (store == NULL ||
        bl_store_find(store, &listing->arena, ps_member(activity, "id").data, &work, NULL) != 0)
        return "unknown";
    return work.ended ? "ended" : "cut off";
}

static void ps_look_up(struct listing *listing, struct bl_store *store,
                       const struct bl_control_process *process)
{
    BL_JSON_EACH (activity, activities(process)) {
        if (ps_member(activity, "id").size == 0)
            continue;
        struct cut *cut = bl_arena_zalloc(&listing->arena, sizeof *cut);
        *cut = (struct cut){.process = process,
                            .activity = activity,
                            .state = ps_state_of(listing, store, activity)};
        bl_list_push_back(&listing->cut, &cut->link);
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
    int code = bl_control_list(&listing->arena, &listing->processes, &listing->error);

    BL_LIST_EACH (link, &listing->processes) {
        const struct bl_control_process *process =
            BL_CONTAINER(link, struct bl_control_process, link);
        if (process->state != BL_CONTROL_DEAD)
            continue;
        if (store == NULL)
            store = ps_open_store(listing);
        ps_look_up(listing, store, process);
    }
    bl_store_close(store);
    return code;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_activity(struct bl_json_writer *writer, const struct bl_control_process *process,
                           const struct bl_json *activity)
{
    bl_json_write_object(writer);
    BL_JSON_MEMBERS (key, activity) {
        bl_json_write_key(writer, bl_json_text(key));
        bl_json_write_value(writer, key + 1);
    }
    bl_json_write_key(writer, BL_TEXT("pid"));
    bl_json_write_int64(writer, process->pid);
    bl_json_write_end(writer);
}

static const char *process_state(const struct bl_control_process *process)
{
    static const char *const names[] = {[BL_CONTROL_ANSWERING] = "answering",
                                        [BL_CONTROL_SILENT] = "not answering",
                                        [BL_CONTROL_DEAD] = "dead"};
    return names[process->state];
}

static void write_process(struct bl_json_writer *writer, const struct listing *listing,
                          const struct bl_control_process *process)
{
    bl_json_write_object(writer);
    bl_json_write_key(writer, BL_TEXT("pid"));
    if (process->pid > 0)
        bl_json_write_int64(writer, process->pid);
    else
        bl_json_write_null(writer);
    bl_json_put_string(writer, "state", process_state(process));
    bl_json_write_key(writer, BL_TEXT("left"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &listing->cut) {
        const struct cut *cut = BL_CONTAINER(link, struct cut, link);
        if (cut->process != process)
            continue;
        bl_json_write_object(writer);
        bl_json_put_text(writer, "id", ps_member(cut->activity, "id"));
        bl_json_put_text(writer, "kind", ps_member(cut->activity, "kind"));
        bl_json_put_text(writer, "session", ps_member(cut->activity, "session"));
        bl_json_put_string(writer, "state", cut->state);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

static void ps_payload(struct bl_json_writer *writer, const void *context)
{
    const struct listing *listing = context;

    bl_json_write_key(writer, BL_TEXT("activities"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &listing->processes) {
        const struct bl_control_process *process =
            BL_CONTAINER(link, struct bl_control_process, link);
        if (process->state == BL_CONTROL_ANSWERING)
            BL_JSON_EACH (activity, activities(process))
                write_activity(writer, process, activity);
    }
    bl_json_write_end(writer);
    bl_json_write_key(writer, BL_TEXT("processes"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &listing->processes)
        write_process(writer, listing, BL_CONTAINER(link, struct bl_control_process, link));
    bl_json_write_end(writer);
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* "4 m 10 s", or "-" where there is none. */
static void format_ms(const struct bl_json *value, char out[32])
{
    int64_t ms;

    if (bl_json_int64(value, &ms) && ms >= 0 && ms < INT64_MAX / (int64_t)BL_NS_PER_MS)
        bl_duration_format(ms * (int64_t)BL_NS_PER_MS, out);
    else
        bl_text_into(out, 32, "-");
}

static void append_activity(struct bl_buffer *out, const struct bl_json *activity)
{
    struct bl_text id = ps_member(activity, "id"), kind = ps_member(activity, "kind"),
                   phase = ps_member(activity, "phase");
    char age[32], left[32], idle[32];
    int64_t tokens = 0;

    format_ms(bl_json_get(activity, BL_TEXT("age_ms")), age);
    format_ms(bl_json_get(activity, BL_TEXT("deadline_left_ms")), left);
    format_ms(bl_json_get(activity, BL_TEXT("idle_ms")), idle);
    bl_json_int64(bl_json_get(activity, BL_TEXT("tokens")), &tokens);
    bl_buffer_printf(out, "%-25.*s %-7.*s %-14.*s %-11s %-11s %8" PRId64 " %s ago\n",
                     BL_TEXT_ARG(id), BL_TEXT_ARG(kind), BL_TEXT_ARG(phase), age, left, tokens,
                     idle);
}

static void append_activities(struct bl_buffer *out, const struct bl_control_process *process)
{
    BL_JSON_EACH (activity, activities(process)) {
        if (out->size == 0)
            bl_buffer_printf(out, "%-25s %-7s %-14s %-11s %-11s %8s %s\n", "ID", "KIND", "PHASE",
                             "AGE", "LEFT", "TOKENS", "LAST ACTIVITY");
        append_activity(out, activity);
    }
}

/* What is to be said of one that says nothing itself. */
static void append_process(struct bl_buffer *out, const struct listing *listing,
                           const struct bl_control_process *process)
{
    if (process->pid > 0)
        bl_buffer_printf(out, "process %" PRId64 ": %s", process->pid, process_state(process));
    else
        bl_buffer_printf(out, "a process: %s", process_state(process));
    BL_LIST_EACH (link, &listing->cut) {
        const struct cut *cut = BL_CONTAINER(link, struct cut, link);
        struct bl_text id = ps_member(cut->activity, "id"),
                       session = ps_member(cut->activity, "session");
        if (cut->process == process)
            bl_buffer_printf(out, "; %.*s of %.*s: %s", BL_TEXT_ARG(id), BL_TEXT_ARG(session),
                             cut->state);
    }
    bl_buffer_append_byte(out, '\n');
}

static int ps_print_text(const struct cli_call *call, const struct listing *listing)
{
    struct bl_buffer out;

    bl_buffer_init(&out, TEXT_MAX);
    for (int answering = 1; answering >= 0; answering--) {
        BL_LIST_EACH (link, &listing->processes) {
            const struct bl_control_process *process =
                BL_CONTAINER(link, struct bl_control_process, link);
            bool answers = process->state == BL_CONTROL_ANSWERING;
            if (answering != 0 && answers)
                append_activities(&out, process);
            else if (answering == 0 && !answers)
                append_process(&out, listing, process);
        }
    }
    if (out.size == 0)
        bl_buffer_append(&out, BL_TEXT("Nothing runs.\n"));
    int exit_code = cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
    bl_buffer_done(&out);
    return exit_code;
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
    bl_list_init(&listing.cut);
    if (cli_loop_run("ps", ps_list_main, &listing, error) != 0)
        exit_code = cli_fail(call, error, CLI_EXIT_FAILED);
    else if (call->format == CLI_FORMAT_TEXT)
        exit_code = ps_print_text(call, &listing);
    else
        exit_code = cli_envelope_print(call, CLI_EXIT_OK, ps_payload, &listing);
    bl_arena_done(&listing.arena);
    return exit_code;
}
