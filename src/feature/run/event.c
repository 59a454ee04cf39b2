/* The events of a run. The listener gets an event at once or, if it reports a record, when that
 * record is stored. The journal gets it with the next write. */
#include <stdarg.h>
#include <stdio.h>

#include "feature/parts.h"

#define EVENT_MAX ((size_t)16 * 1024 * 1024)

/* ---- Bells ---- */

struct bell_waiter {
    struct bl_list link;
    struct bl_semaphore woken;
};

void feature_bell_init(struct feature_bell *bell)
{
    bl_list_init(&bell->waiters);
}

int feature_bell_wait(struct feature_bell *bell)
{
    struct bell_waiter waiter;
    bl_semaphore_init(&waiter.woken, 0);
    bl_list_push_back(&bell->waiters, &waiter.link);
    int code = bl_semaphore_take(&waiter.woken);
    bl_list_remove(&waiter.link);
    return code;
}

void feature_bell_ring(struct feature_bell *bell)
{
    BL_LIST_EACH (link, &bell->waiters) {
        struct bell_waiter *waiter = BL_CONTAINER(link, struct bell_waiter, link);
        if (waiter->woken.count == 0)
            bl_semaphore_give(&waiter->woken);
    }
}

/* ---- Contents of events ---------------------------------------------------------------------- */

/* An event with the values of its feature and task. */
struct event_row {
    struct feature_event event;
    uint64_t seq;
    int64_t wall_ns;
    const char *plan; /* id of the feature */
    struct feature_row feature;
    bool resumed;
    bool unverified;
    uint64_t waves;
    uint32_t parallel;
    double drain_s;
    bool of_task;
    struct bl_task_row task;
    struct feature_wave wave;
    struct verify_outcome verify;
};

static const char *const type_names[] = {
#define TYPE_NAME(name, text) [EVENT_##name] = #text,
    EVENT_TABLE(TYPE_NAME)
#undef TYPE_NAME
};
static const struct bl_names types = BL_NAMES(type_names);

static const struct bl_form run_form = {"a run's id", "^run_", NULL};

#define BL_RECORD_STRUCT struct event_row
static const struct bl_member common_members[] = {
    BL_MEMBER_INTEGER("seq", seq, .least = 1, .about = "From 1 for each run, without gaps."),
    BL_MEMBER_TIME("time", wall_ns, .about = "UTC."),
    BL_MEMBER_WORD("run", feature.run_id, .form = &run_form),
    BL_MEMBER_STRING("feature", plan, .least = 1),
    BL_MEMBER_WORD("task", task.id, .nullable = true, .about = "null: about the whole feature."),
    BL_MEMBER_INTEGER("attempt", task.attempt, .optional = true, .nullable = true, .least = 1,
                      BL_KNOWN(of_task), .about = "null: none yet."),
    BL_MEMBER_INTEGER("turn", task.turn, .optional = true, .nullable = true, .least = 1,
                      BL_KNOWN(of_task), .about = "null: none yet."),
    BL_MEMBER_ENUM("phase", event.phase, &bl_task_phases, .optional = true),
    BL_MEMBER_END,
};
static const struct bl_record common_record =
    BL_RECORD("feature_event_common", struct event_row, common_members);

/* One table for each type. */
#define EVENT_RECORD(kind, ...)                                                                    \
    static const struct bl_member kind##_members[] = {BL_MEMBER_INCLUDE(&common_record),           \
                                                      __VA_ARGS__ BL_MEMBER_END};                  \
    static const struct bl_record kind##_record =                                                  \
        BL_RECORD("feature_event_" #kind, struct event_row, kind##_members, .closed = true);
#define EVENT_VERIFIED                                                                             \
    BL_MEMBER_ENUM("value", verify.value, &bl_verified_values), BL_MEMBER_TEXT("why", verify.why)

EVENT_RECORD(feature_started, BL_MEMBER_BOOLEAN("resumed", resumed),
             BL_MEMBER_WORD("base_commit", feature.base_commit, .form = &feature_commit_form),
             BL_MEMBER_INTEGER("waves", waves), BL_MEMBER_INTEGER("parallel", parallel, .least = 1),
             BL_MEMBER_ARRAY("already", event.names, event.name_count, &bl_element_string,
                             .about = "Finished tasks, which do not run again."), )
EVENT_RECORD(plan_changed, )
EVENT_RECORD(wave_started, BL_MEMBER_INTEGER("wave", wave.n, .least = 1),
             BL_MEMBER_INTEGER("of", waves, .least = 1),
             BL_MEMBER_INTEGER("tasks", event.count, .about = "Number of tasks that run in it."), )
EVENT_RECORD(task_queued, )
EVENT_RECORD(deadline_armed,
             BL_MEMBER_NUMBER("deadline_s", task.deadline_s, .about = "Deadline in effect."),
             BL_MEMBER_WORD("source", task.deadline_source,
                            .about = "command line, task, autobuild, feature, default."),
             BL_MEMBER_NUMBER("grace_s", task.grace_s), )
EVENT_RECORD(deadline_moved, BL_MEMBER_NUMBER("deadline_s", task.deadline_s),
             BL_MEMBER_TEXT("why", event.text, .about = "extended, paused."), )
EVENT_RECORD(task_turn_started, )
EVENT_RECORD(phase_started, )
EVENT_RECORD(phase_ended, BL_MEMBER_ENUM("outcome", event.outcome, &turn_phase_states),
             BL_MEMBER_INTEGER("ms", event.ms), )
EVENT_RECORD(commit_made, BL_MEMBER_STRING("commit", event.commit, .form = &feature_commit_form), )
EVENT_RECORD(verify_ended, EVENT_VERIFIED, )
EVENT_RECORD(verdict, BL_MEMBER_INTEGER("try", event.count, .least = 1),
             BL_MEMBER_BOOLEAN("valid", event.valid),
             BL_MEMBER_RAW("verdict", event.json, .optional = true, .object = true),
             BL_MEMBER_TEXT("refused", event.text, .optional = true,
                            .about = "Why it is invalid."), )
EVENT_RECORD(task_turn_ended,
             BL_MEMBER_STRING("decision", event.decision, .nullable = true,
                              .names = &turn_decisions),
             BL_MEMBER_BOOLEAN("counted", event.counted),
             BL_MEMBER_ENUM("verified", task.verified, &bl_verified_values, .nullable = true,
                            .about = "none: no commands are declared; null: not known yet."), )
EVENT_RECORD(grace_started, BL_MEMBER_NUMBER("grace_s", task.grace_s), )
EVENT_RECORD(checkpoint_saved, )
EVENT_RECORD(task_ended, BL_MEMBER_ENUM("state", task.state, &bl_task_states),
             BL_MEMBER_ENUM("decision", task.decision, &bl_task_decisions, .nullable = true),
             BL_MEMBER_ENUM("verified", task.verified, &bl_verified_values, .nullable = true,
                            .about = "none: no commands are declared; null: not known yet."),
             BL_MEMBER_ENUM("reason", task.reason, &bl_stop_reasons, .nullable = true,
                            .about = "Stop reason; null: not stopped."),
             BL_MEMBER_WORD("triggered_by", task.triggered_by, .nullable = true),
             BL_MEMBER_NUMBER("elapsed_s", task.elapsed_s),
             BL_MEMBER_INTEGER("turns_counted", task.turns_counted),
             BL_MEMBER_NUMBER("late_ms", task.late_ms, .optional = true, .none = -1,
                              .about = "With approved_late: time after the deadline."),
             BL_MEMBER_WORD("receipt", task.receipt, .nullable = true,
                            .form = &feature_receipt_form),
             BL_MEMBER_TEXT("message", task.message, .nullable = true), )
EVENT_RECORD(merge_ended, BL_MEMBER_ENUM("state", task.state, &bl_task_states),
             BL_MEMBER_STRING("commit", event.commit, .form = &feature_commit_form), )
EVENT_RECORD(merge_conflict,
             BL_MEMBER_ARRAY("files", event.names, event.name_count, &bl_element_string), )
EVENT_RECORD(gate_ended, BL_MEMBER_INTEGER("wave", wave.n, .least = 1), EVENT_VERIFIED,
             BL_MEMBER_TEXT("tail", verify.tail, .about = "The end of its output."), )
EVENT_RECORD(wave_ended, BL_MEMBER_INTEGER("wave", wave.n, .least = 1),
             BL_MEMBER_ENUM("state", wave.state, &wave_states),
             BL_MEMBER_ENUM("gate", wave.gate, &bl_verified_values, .nullable = true,
                            .about = "null: not run."), )
EVENT_RECORD(feature_draining,
             BL_MEMBER_STRING("origin", event.origin, .about = "Origin of the stop: SIGINT, …"),
             BL_MEMBER_NUMBER("drain_s", drain_s), )
EVENT_RECORD(feature_paused, )
EVENT_RECORD(feature_resumed, )
EVENT_RECORD(stale_write_refused, BL_MEMBER_TEXT("message", event.text), )
EVENT_RECORD(rescue_made,
             BL_MEMBER_STRING("ref", event.ref, .nullable = true,
                              .about = "null: only a folder was in Belay's place, without a "
                                       "branch."),
             BL_MEMBER_STRING("branch", event.branch, .nullable = true),
             BL_MEMBER_STRING("commit", event.commit, .nullable = true,
                              .form = &feature_commit_form),
             BL_MEMBER_STRING("worktree", event.worktree, .nullable = true,
                              .about = "Its new path; null: there was none."), )
EVENT_RECORD(feature_ended, BL_MEMBER_WORD("state", feature.state, .names = &feature_states),
             BL_MEMBER_INTEGER("exit_code", feature.exit_code, .most = 255,
                               .about = "0, 1, 3, 124, 130 or 143."),
             BL_MEMBER_WORD("reason", feature.reason, .nullable = true, .names = &bl_stop_reasons,
                            .about = "Stop reason; null: not stopped."),
             BL_MEMBER_WORD("result_commit", feature.result_commit, .nullable = true,
                            .form = &feature_commit_form, .about = "null: none yet."),
             BL_MEMBER_BOOLEAN("unverified", unverified), )
EVENT_RECORD(cancel_requested, BL_MEMBER_ENUM("reason", event.reason, &bl_stop_reasons),
             BL_MEMBER_STRING("origin", event.origin, .about = "Origin of the stop."), )
EVENT_RECORD(receipt, BL_MEMBER_RAW("receipt", event.json, .record = &bl_receipt_record), )
EVENT_RECORD(warning, BL_MEMBER_TEXT("message", event.text, .least = 1), )

static const struct bl_record *const kinds[] = {
#define TYPE_RECORD(name, text) [EVENT_##name] = &text##_record,
    EVENT_TABLE(TYPE_RECORD)
#undef TYPE_RECORD
};

static const struct bl_member event_members[] = {
    BL_MEMBER_ENUM("type", event.type, &types),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_feature_event_record =
    BL_RECORD("feature-event", struct event_row, event_members, .closed = true, .kinds = kinds,
              .about = "The last line of such a stream is not an event but the envelope: see "
                       "feature.json.");

static void run_event_write(struct bl_json_writer *writer, struct bl_feature *feature,
                            const struct feature_event *event)
{
    struct event_row row = {
        .event = *event,
        .seq = ++feature->events,
        .wall_ns = bl_clock_wall_ns(feature->clock),
        .plan = feature->plan->id,
        .feature = feature->row,
        .resumed = feature->resumed,
        .unverified = feature->unverified,
        .waves = feature->plan->wave_count,
        .parallel = feature->plan->limits.parallel,
        .drain_s = (double)feature->plan->limits.drain_ns / 1e9,
        .of_task = event->task != NULL,
    };
    if (event->task != NULL)
        row.task = event->task->row;
    if (event->wave != NULL)
        row.wave = *event->wave;
    if (event->verify != NULL)
        row.verify = *event->verify;
    bl_record_write(writer, &bl_feature_event_record, &row);
}

/* ---- Telling events -------------------------------------------------------------------------- */

/* An event that the listener has not received yet. */
struct untold_event {
    struct bl_list link;
    enum feature_event_type type;
    uint64_t write; /* number of the write it waits for; 0: only for the events before it */
    size_t size;
    char json[];
};

/* Returns whether listeners may rely on the event even if belay is killed in the next moment. */
static bool is_promise(enum feature_event_type type)
{
    return type == EVENT_TASK_ENDED || type == EVENT_CHECKPOINT_SAVED ||
           type == EVENT_MERGE_ENDED || type == EVENT_FEATURE_ENDED;
}

static void run_event_tell(struct bl_feature *feature, enum feature_event_type type,
                           struct bl_text json)
{
    const struct bl_feature_listener *listener = feature->options.listener;
    if (listener != NULL)
        listener->event(listener->context, bl_text_from(type_names[type]), json);
}

/* Returns whether the event needs a stored record. The end of a failed run is always emitted: it
 * promises nothing. */
static bool needs_record(const struct bl_feature *feature, enum feature_event_type type)
{
    return is_promise(type) && !(type == EVENT_FEATURE_ENDED && feature->row.exit_code != 0);
}

void events_drop(struct bl_feature *feature, uint64_t write)
{
    BL_LIST_EACH_SAFE (link, &feature->untold) {
        struct untold_event *event = BL_CONTAINER(link, struct untold_event, link);
        if (event->write > write || !needs_record(feature, event->type))
            continue;
        bl_list_remove(&event->link);
        bl_free(event);
    }
}

void events_tell(struct bl_feature *feature, bool all)
{
    while (!bl_list_empty(&feature->untold)) {
        struct untold_event *event = BL_CONTAINER(feature->untold.next, struct untold_event, link);
        if (!all && event->write > feature->written)
            return;
        bl_list_remove(&event->link);
        run_event_tell(feature, event->type, (struct bl_text){event->json, event->size});
        bl_free(event);
    }
}

static void put_untold(struct bl_feature *feature, enum feature_event_type type,
                       struct bl_text json)
{
    struct untold_event *event = bl_alloc(sizeof *event + json.size);
    event->type = type;
    event->write = is_promise(type) ? feature->asked : 0;
    event->size = json.size;
    memcpy(event->json, json.data, json.size);
    bl_list_push_back(&feature->untold, &event->link);
}

void event_tell(struct bl_feature *feature, const struct feature_event *event)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(buffer, EVENT_MAX);
    bl_json_writer_init(&writer, &buffer);
    run_event_write(&writer, feature, event);
    if (bl_json_writer_done(&writer) == 0) {
        struct bl_text json = bl_buffer_text(&buffer);
        ledger_put_event(feature, json);
        if (!feature->stale)
            put_untold(feature, event->type, json);
        else if (!needs_record(feature, event->type))
            run_event_tell(feature, event->type, json);
        events_tell(feature, false);
    }
}

void event_warn(struct bl_feature *feature, const struct feature_task *task, const char *format,
                ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    EVENT_TELL(feature, WARNING, task, .text = bl_text_from(message));
    /* Completely or not at all. */
    size_t size = feature->warned.size;
    if (bl_buffer_append(&feature->warned, bl_text_from(message)) != 0 ||
        bl_buffer_append_byte(&feature->warned, '\0') != 0)
        feature->warned.size = size;
    ledger_put_feature(feature);
}
