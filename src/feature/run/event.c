/* What happens in a run, told as it happens: to the listener at once, or as soon as it is on record
 * where it says that something is; to the journal with the next write. */
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

/* ---- Events ---- */

static void run_event_put_number(struct bl_json_writer *writer, const char *key, uint32_t number)
{
    bl_json_write_key(writer, bl_text_from(key));
    if (number > 0)
        bl_json_write_uint64(writer, number);
    else
        bl_json_write_null(writer);
}

struct bl_json_writer *event_begin(struct event_draft *draft, struct bl_feature *feature,
                                   const char *type, const struct feature_task *task,
                                   const char *phase)
{
    struct bl_json_writer *writer = &draft->writer;
    char time[32];
    draft->feature = feature;
    draft->type = type;
    bl_buffer_init(&draft->json, EVENT_MAX);
    bl_json_writer_init(writer, &draft->json);
    bl_time_format(bl_clock_wall_ns(feature->clock), time);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", type);
    bl_json_put_uint64(writer, "seq", ++feature->events);
    bl_json_put_string(writer, "time", time);
    bl_json_put_string(writer, "run", feature->row.run_id);
    bl_json_put_string(writer, "feature", feature->plan->id);
    bl_json_put_string(writer, "task", task != NULL ? task->row.id : NULL);
    if (task != NULL) {
        run_event_put_number(writer, "attempt", task->row.attempt);
        run_event_put_number(writer, "turn", task->row.turn);
    }
    if (phase != NULL)
        bl_json_put_string(writer, "phase", phase);
    return writer;
}

/* An event that the listener has not heard of yet. */
struct untold_event {
    struct bl_list link;
    const char *type;
    uint64_t write; /* it is told after that one; 0: with those before it */
    size_t size;
    char json[];
};

/* Whoever hears this may rely on it, also when belay is killed in the next moment. */
static bool is_promise(const char *type)
{
    static const char *const types[] = {"task_ended", "checkpoint_saved", "merge_ended",
                                        "feature_ended"};
    for (size_t i = 0; i < BL_COUNT(types); i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

static void run_event_tell(struct bl_feature *feature, const char *type, struct bl_text json)
{
    const struct bl_feature_listener *listener = feature->options.listener;
    if (listener != NULL)
        listener->event(listener->context, bl_text_from(type), json);
}

/* A run that has ended badly says so, saved or not: that promises nothing. */
static bool needs_record(const struct bl_feature *feature, const char *type)
{
    return is_promise(type) && !(strcmp(type, "feature_ended") == 0 && feature->row.exit_code != 0);
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

static void put_untold(struct bl_feature *feature, const char *type, struct bl_text json)
{
    struct untold_event *event = bl_alloc(sizeof *event + json.size);
    event->type = type;
    event->write = is_promise(type) ? feature->asked : 0;
    event->size = json.size;
    memcpy(event->json, json.data, json.size);
    bl_list_push_back(&feature->untold, &event->link);
}

void event_end(struct event_draft *draft)
{
    struct bl_feature *feature = draft->feature;
    bl_json_write_end(&draft->writer);
    if (bl_json_writer_done(&draft->writer) == 0) {
        struct bl_text json = bl_buffer_text(&draft->json);
        ledger_put_event(feature, json);
        if (!feature->stale)
            put_untold(feature, draft->type, json);
        else if (!needs_record(feature, draft->type))
            run_event_tell(feature, draft->type, json);
        events_tell(feature, false);
    }
    bl_buffer_done(&draft->json);
}

void event_tell(struct bl_feature *feature, const char *type, const struct feature_task *task,
                const char *phase)
{
    struct event_draft draft;
    event_begin(&draft, feature, type, task, phase);
    event_end(&draft);
}

void event_warn(struct bl_feature *feature, const struct feature_task *task, const char *format,
                ...)
{
    struct event_draft draft;
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    struct bl_json_writer *writer = event_begin(&draft, feature, "warning", task, NULL);
    bl_json_put_string(writer, "message", message);
    event_end(&draft);
    /* Whole, or not at all. */
    size_t size = feature->warned.size;
    if (bl_buffer_append(&feature->warned, bl_text_from(message)) != 0 ||
        bl_buffer_append_byte(&feature->warned, '\0') != 0)
        feature->warned.size = size;
    ledger_put_feature(feature);
}
