/* `belay feature logs`.
 *
 * Design notes.
 *
 * The journal is a list of events. The output of seats and verification is in records beside it,
 * one per phase. Both are merged into one sequence: the output of a phase follows the event of its
 * end; output without such an event comes last. */
#include "feature.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/answers.h"

#define FOLLOW_NS  (200 * BL_NS_PER_MS)
#define PAGE       500u
#define DAY_SIZE   10u
#define LINES_MAX  ((size_t)64 * 1024 * 1024)
#define ANSWER_MAX ((size_t)48 * 1024 * 1024)

struct logs {
    struct feature_work work;
    struct bl_map told;     /* names of the output records shown so far */
    uint64_t after;         /* number of the newest event read */
    bool ended;             /* that event was the feature's end */
    char day[DAY_SIZE + 1]; /* of the last event shown */
    int exit_code;          /* not 0: standard output failed */
    /* With --json: contents of the envelope. */
    struct bl_buffer events;
    struct bl_buffer printed;
    bool cut; /* there was more */
};

/* ---- Selection ------------------------------------------------------------------------------- */

/* The common members of an event and an output; with `type`, an output as a line of a stream. */
struct logs_line {
    struct bl_text type;
    struct bl_text time;
    struct bl_phase_output of;
};

#define BL_RECORD_STRUCT struct logs_line
static const struct bl_member line_members[] = {
    BL_MEMBER_TEXT("type", type),
    BL_MEMBER_TEXT("time", time, .optional = true),
    BL_MEMBER_EMBED(of, &bl_phase_output_record),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record line_record = BL_RECORD("line", struct logs_line, line_members);

/* Returns false if the text is not JSON. */
static bool logs_read(struct bl_arena *arena, struct bl_text json, const struct bl_json **ret_value,
                      struct logs_line *line)
{
    if (bl_json_read(arena, json, NULL, ret_value, NULL) != 0)
        return false;
    bl_record_take(arena, &line_record, *ret_value, line);
    return true;
}

/* Returns whether a phase matches. "coach" also matches "coach-2", the Coach's second try. */
static bool same_phase(struct bl_text phase, struct bl_text wanted)
{
    if (!bl_text_starts_with(phase, wanted))
        return false;
    return phase.size == wanted.size || phase.data[wanted.size] == '-';
}

static bool logs_is_wanted(const struct logs *logs, const struct bl_phase_output *of)
{
    const struct feature_options *options = logs->work.options;
    const char *task = logs->work.task;

    if (task != NULL && !bl_text_equal(bl_text_from(of->task), bl_text_from(task)))
        return false;
    if (options->turn > 0 && of->turn != options->turn)
        return false;
    return options->phase == NULL ||
           same_phase(bl_text_from(of->phase), bl_text_from(options->phase));
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void print(struct logs *logs, struct bl_text text)
{
    if (logs->exit_code == CLI_EXIT_OK)
        logs->exit_code = cli_print(logs->work.options->call, text, CLI_EXIT_OK);
}

/* Adds an element to an array of the envelope. */
static void logs_keep(struct logs *logs, struct bl_buffer *array, struct bl_text json)
{
    if (logs->cut || logs->events.size + logs->printed.size + json.size > ANSWER_MAX) {
        logs->cut = true;
        return;
    }
    if (array->size > 0)
        bl_buffer_append_byte(array, ',');
    bl_buffer_append(array, json);
}

static void logs_print_line(struct logs *logs, struct bl_text json)
{
    BL_AUTO_BUFFER(line, LINES_MAX);

    bl_buffer_append(&line, json);
    bl_buffer_append_byte(&line, '\n');
    print(logs, bl_buffer_text(&line));
}

/* Prints output with a mark before each line, so that no line looks like an event. */
static void print_output_text(struct logs *logs, struct bl_text rest)
{
    struct bl_text line;
    BL_AUTO_BUFFER(out, LINES_MAX);

    while (bl_text_split(&rest, '\n', &line)) {
        bl_buffer_append(&out, BL_TEXT("    | "));
        if (bl_text_ends_with(line, BL_TEXT("\r")))
            line.size--;
        bl_text_show(&out, line, BL_SHOW_LINES);
        bl_buffer_append_byte(&out, '\n');
    }
    print(logs, bl_buffer_text(&out));
}

/* Prints the number of a Coach's further try after an invalid verdict. */
static void logs_print_try(struct logs *logs, struct bl_text phase)
{
    const char *dash = phase.size > 0 ? memrchr(phase.data, '-', phase.size) : NULL;
    BL_AUTO_BUFFER(line, 256);

    if (dash == NULL)
        return;
    bl_buffer_append(&line, BL_TEXT("    try "));
    feature_put_safe(&line,
                     (struct bl_text){dash + 1, phase.size - (size_t)(dash + 1 - phase.data)});
    bl_buffer_append_byte(&line, ':');
    logs_print_line(logs, bl_buffer_text(&line));
}

/* Prints an output; `headed`: with a heading, because no event precedes it. */
static void logs_tell_output(struct logs *logs, struct bl_text json, struct logs_line *line,
                             bool headed)
{
    enum cli_format format = logs->work.options->call->format;
    const struct bl_phase_output *of = &line->of;
    BL_AUTO_ARENA(arena);
    struct bl_buffer head;

    if (format == CLI_FORMAT_JSON) {
        logs_keep(logs, &logs->printed, json);
        return;
    }
    if (format == CLI_FORMAT_STREAM_JSON) {
        line->type = BL_TEXT("output");
        logs_print_line(logs, bl_record_text(&arena, &line_record, line));
        return;
    }
    if (headed) {
        bl_buffer_init(&head, LINES_MAX);
        feature_put_safe(&head, bl_text_from(of->task));
        bl_buffer_printf(&head, ", attempt %" PRIu32 ", turn %" PRIu32 ", ", of->attempt, of->turn);
        feature_put_safe(&head, bl_text_from(of->phase));
        logs_print_line(logs, bl_buffer_text(&head));
        bl_buffer_done(&head);
    } else {
        logs_print_try(logs, bl_text_from(of->phase));
    }
    print_output_text(logs, of->text);
}

/* Prints the date when it changes: lines only have the time of day. */
static void print_day(struct logs *logs, struct bl_text time)
{
    struct bl_text day = bl_utf8_cut(time, DAY_SIZE);

    if (bl_text_equal(day, bl_text_from(logs->day)))
        return;
    bl_text_into(logs->day, sizeof logs->day, bl_arena_text(&logs->work.arena, day).data);
    logs_print_line(logs, bl_text_from(logs->day));
}

static void tell_event(struct logs *logs, struct bl_text json, const struct bl_json *event,
                       const struct logs_line *read)
{
    enum cli_format format = logs->work.options->call->format;
    BL_AUTO_BUFFER(line, LINES_MAX);

    if (format == CLI_FORMAT_STREAM_JSON) {
        logs_print_line(logs, json);
        return;
    }
    if (format == CLI_FORMAT_JSON) {
        logs_keep(logs, &logs->events, json);
        return;
    }
    feature_event_line(read->type, event, &line);
    if (line.size > 0) {
        print_day(logs, read->time);
        print(logs, bl_buffer_text(&line));
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Prints outputs not shown yet, selected by the prefix of their names and by phase (empty: all). */
static int tell_outputs(struct logs *logs, const char *prefix, struct bl_text phase, bool headed)
{
    struct feature_work *work = &logs->work;
    struct bl_arena arena = {0};
    struct bl_list records;

    int code = bl_store_feature_load(work->store, &arena, work->repository, work->id, prefix,
                                     &records, NULL, NULL, &work->error);
    if (code != 0) {
        bl_arena_done(&arena);
        return code;
    }
    BL_LIST_EACH (link, &records) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        const struct bl_json *value;
        struct logs_line line;
        if (bl_map_has(&logs->told, bl_text_from(record->name)) ||
            !logs_read(&arena, record->json, &value, &line) || !logs_is_wanted(logs, &line.of) ||
            (phase.size > 0 && !same_phase(bl_text_from(line.of.phase), phase)))
            continue;
        bl_map_set(&logs->told, bl_text_from(record->name), logs, NULL);
        logs_tell_output(logs, record->json, &line, headed);
    }
    bl_arena_done(&arena);
    return 0;
}

/* Prints the output of the phase that has just ended. */
static int tell_outputs_of(struct logs *logs, const struct bl_phase_output *of)
{
    char prefix[200];

    snprintf(prefix, sizeof prefix, "output/%.64s/%03" PRIu32 "/%04" PRIu32 "/",
             of->task != NULL ? of->task : "", of->attempt, of->turn);
    return tell_outputs(logs, prefix, bl_text_from(of->phase), false);
}

/* Prints the remaining output, of phases without an event of their end. One task at a time, because
 * it may be large. */
static int tell_outputs_left(struct logs *logs)
{
    struct feature_work *work = &logs->work;
    struct bl_list tasks;

    int code = bl_store_feature_load(work->store, &work->arena, work->repository, work->id, "task/",
                                     &tasks, NULL, NULL, &work->error);
    if (code != 0)
        return code;
    BL_LIST_EACH (link, &tasks) {
        const char *id = BL_CONTAINER(link, struct bl_row, link)->name + strlen("task/");
        if (code == 0 && logs->exit_code == CLI_EXIT_OK &&
            (work->task == NULL || strcmp(work->task, id) == 0))
            code = tell_outputs(logs, bl_arena_printf(&work->arena, "output/%s/", id).data,
                                (struct bl_text){0}, true);
    }
    return code;
}

static int logs_take_event(struct logs *logs, const struct bl_row *record)
{
    const struct bl_json *event;
    struct logs_line line;
    struct bl_arena arena = {0};
    int64_t name = 0;
    int code = 0;

    if (bl_text_to_int64(bl_text_from(record->name), &name) == 0 && name > 0)
        logs->after = (uint64_t)name;
    if (logs_read(&arena, record->json, &event, &line)) {
        logs->ended = bl_text_is(line.type, "feature_ended");
        if (logs_is_wanted(logs, &line.of)) {
            tell_event(logs, record->json, event, &line);
            if (bl_text_is(line.type, "phase_ended"))
                code = tell_outputs_of(logs, &line.of);
        }
    }
    bl_arena_done(&arena);
    return code;
}

/* Takes all new events. */
static int logs_take_events(struct logs *logs)
{
    struct feature_work *work = &logs->work;
    struct bl_arena arena = {0};
    bool more = true;
    int code = 0;

    while (code == 0 && more && logs->exit_code == CLI_EXIT_OK) {
        struct bl_list events;
        size_t count = 0;
        uint64_t before = logs->after;
        code = bl_store_feature_events(work->store, &arena, work->repository, work->id, logs->after,
                                       PAGE, &events, &work->error);
        if (code != 0)
            break;
        BL_LIST_EACH (link, &events) {
            count++;
            if (code == 0 && logs->exit_code == CLI_EXIT_OK)
                code = logs_take_event(logs, BL_CONTAINER(link, struct bl_row, link));
        }
        more = count == PAGE && logs->after > before;
        bl_arena_reset(&arena);
    }
    bl_arena_done(&arena);
    return code;
}

/* ---- Following ------------------------------------------------------------------------------- */

static bool logs_reader_is_gone(void)
{
    struct pollfd look = {.fd = STDOUT_FILENO};
    return poll(&look, 1, 0) > 0 && (look.revents & POLLERR) != 0;
}

static int logs_is_held(struct logs *logs, bool *ret_held)
{
    struct feature_work *work = &logs->work;
    struct bl_store_owner owner;
    struct bl_arena arena = {0};
    struct bl_list records;

    int code = bl_store_feature_load(work->store, &arena, work->repository, work->id, "feature",
                                     &records, &owner, NULL, &work->error);
    bl_arena_done(&arena);
    *ret_held = code == 0 && (owner.life == BL_OWNER_ALIVE || owner.life == BL_OWNER_OUT_OF_SIGHT);
    return code;
}

/* Follows until the feature has ended or has no owner. The owner is read before the events, so that
 * the last events of a runner are not missed. */
static int logs_follow(struct logs *logs)
{
    bool held = true;

    for (;;) {
        int code = logs_is_held(logs, &held);
        if (code == 0)
            code = logs_take_events(logs);
        if (code != 0 || logs->ended || !held || logs->exit_code != CLI_EXIT_OK)
            return code;
        if (logs_reader_is_gone()) {
            logs->exit_code = CLI_EXIT_CLIENT_GONE;
            return 0;
        }
        code = bl_sleep(FOLLOW_NS);
        if (code != 0)
            return code;
    }
}

static int logs_main(void *argument)
{
    struct logs *logs = argument;

    int code = feature_work_open(&logs->work);
    if (code == 0)
        code = logs->work.options->follow ? logs_follow(logs) : logs_take_events(logs);
    if (code == 0 && logs->exit_code == CLI_EXIT_OK)
        code = tell_outputs_left(logs);
    feature_work_close(&logs->work);
    return code;
}

static const struct bl_member output_element =
    BL_ELEMENT(struct bl_phase_output, &bl_phase_output_record);

struct logs_view {
    const char *feature;
    const char *task;
    bool whole; /* the envelope contains what a stream prints as lines */
    const struct bl_json *const *events;
    const struct bl_phase_output *outputs;
    size_t count; /* 0: both are JSON already */
    struct bl_text events_json;
    struct bl_text outputs_json;
    bool cut;
};

#define BL_RECORD_STRUCT struct logs_view
static const struct bl_member logs_members[] = {
    BL_MEMBER_STRING("feature", feature, .form = &cli_feature_id_form),
    BL_MEMBER_STRING("task", task, .nullable = true, .form = &cli_feature_id_form,
                     .about = "null: the whole feature."),
    BL_MEMBER_ARRAY("events", events, count, &bl_element_object, .optional = true, BL_KNOWN(whole),
                    BL_ENCODED(events_json),
                    .about = "Events as in feature-event.json; in stream-json a line each."),
    BL_MEMBER_ARRAY("outputs", outputs, count, &output_element, .optional = true, BL_KNOWN(whole),
                    BL_ENCODED(outputs_json),
                    .about = "Output of seats and verification; in stream-json a line of type "
                             "output each."),
    BL_MEMBER_BOOLEAN("truncated", cut, .optional = true, BL_KNOWN(whole),
                      .about = "True: there was more than fits in an envelope."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer feature_logs_answer = {
    BL_RECORD("feature-logs", struct logs_view, logs_members), .of = "feature logs",
    .format = CLI_ANSWER_ANY};

static int logs_print_json(const struct logs *logs)
{
    const struct cli_call *call = logs->work.options->call;
    struct logs_view view = {
        .feature = logs->work.id,
        .task = logs->work.task,
        .whole = call->format == CLI_FORMAT_JSON,
        .events_json = bl_buffer_text(&logs->events),
        .outputs_json = bl_buffer_text(&logs->printed),
        .cut = logs->cut,
    };

    return cli_answer_print(call, CLI_EXIT_OK, &feature_logs_answer.record, &view);
}

int feature_logs_command(const struct feature_options *options)
{
    struct logs logs = {0};
    struct cli_call *call = options->call;
    struct bl_error *error = &logs.work.error;
    int exit_code;

    feature_work_init(&logs.work, options);
    bl_map_init(&logs.told);
    bl_buffer_init(&logs.events, LINES_MAX);
    bl_buffer_init(&logs.printed, LINES_MAX);
    int code = cli_loop_run("feature logs", logs_main, &logs, error);
    if (logs.exit_code != CLI_EXIT_OK)
        exit_code = logs.exit_code;
    else if (code != 0)
        exit_code = cli_fail(call, error, cli_error_exit_code(error));
    else if (call->format != CLI_FORMAT_TEXT)
        exit_code = logs_print_json(&logs);
    else
        exit_code = CLI_EXIT_OK;
    bl_buffer_done(&logs.events);
    bl_buffer_done(&logs.printed);
    bl_map_done(&logs.told);
    feature_work_done(&logs.work);
    return exit_code;
}
