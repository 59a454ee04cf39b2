/* Design notes.
 *
 * A watcher must not delay the work. Events that a client does not read in time are left out, and
 * their number is reported as soon as it reads again. The end of the watched work is never left
 * out: if it cannot be reported at once, the fiber that supervises the client reports it later. */
#include <string.h>

#include "serve/parts.h"

#define EVENT_MAX ((size_t)16 << 20)
/* Most bytes that may wait to be sent to a watcher. */
#define WAITING_MAX ((size_t)1 << 20)

static bool control_watch_is_one_of(const char *first, const char *second, struct bl_text id)
{
    return (first != NULL && bl_text_equal(bl_text_from(first), id)) ||
           (second != NULL && bl_text_equal(bl_text_from(second), id));
}

/* Returns whether an event belongs to a part of a run or a session with that id. */
static bool is_part(const struct bl_event *event, struct bl_text id)
{
    return control_watch_is_one_of(event->agent, event->cell, id) || bl_text_equal(event->id, id);
}

static bool control_watch_is_wanted(const struct serve_watcher *watcher,
                                    const struct bl_event *event)
{
    struct bl_text id = bl_text_from(watcher->id);
    if (id.size == 0 || control_watch_is_one_of(event->run, event->session, id) ||
        is_part(event, id))
        return true;
    /* A full name: RUN/AGENT, RUN/CALL, SESSION/CELL. */
    const char *slash = strrchr(watcher->id, '/');
    return slash != NULL && is_part(event, bl_text_from(slash + 1)) &&
           control_watch_is_one_of(event->run, event->session,
                                   (struct bl_text){id.data, (size_t)(slash - watcher->id)});
}

static void watch_tell(const struct serve_watcher *watcher, const char *method,
                       const struct bl_record *record, const void *from)
{
    struct bl_arena arena = {0};
    bl_rpc_notify(watcher->rpc, method, bl_record_text(&arena, record, from));
    bl_arena_done(&arena);
}

static void tell_missed(struct serve_watcher *watcher)
{
    watch_tell(watcher, "missed", &control_missed_record,
               &(struct control_watched){.missed = watcher->missed});
    watcher->missed = 0;
}

/* Follows all its events. */
static void control_watch_tell_ended(struct serve_watcher *watcher)
{
    if (watcher->missed > 0)
        tell_missed(watcher);
    watch_tell(watcher, "ended", &control_id_record, &(struct control_id){watcher->id});
    watcher->ended = false;
}

static bool any_meant(const struct bl_list *activities, const char *id)
{
    BL_LIST_EACH (link, activities)
        if (id[0] == '\0' || serve_is_meant(BL_CONTAINER(link, struct bl_activity, link), id))
            return true;
    return false;
}

void serve_watchers_follow(const struct bl_list *watchers, const struct bl_list *activities)
{
    BL_LIST_EACH (link, watchers) {
        struct serve_watcher *watcher = BL_CONTAINER(link, struct serve_watcher, link);
        bool running = any_meant(activities, watcher->id);
        watcher->ended = (watcher->ended || watcher->running) && !running && watcher->id[0] != '\0';
        watcher->running = running;
        if (watcher->ended && bl_rpc_queued(watcher->rpc) <= WAITING_MAX)
            control_watch_tell_ended(watcher);
    }
}

void serve_watcher_settle(struct serve_watcher *watcher)
{
    if (watcher->ended && !bl_list_empty(&watcher->link))
        control_watch_tell_ended(watcher);
}

void serve_watchers_tell(const struct bl_list *watchers, const struct bl_event *event)
{
    BL_AUTO_BUFFER(text, EVENT_MAX);
    BL_LIST_EACH (link, watchers) {
        struct serve_watcher *watcher = BL_CONTAINER(link, struct serve_watcher, link);
        if (!control_watch_is_wanted(watcher, event))
            continue;
        if (text.size == 0) {
            struct bl_json_writer writer;
            bl_json_writer_init(&writer, &text);
            bl_event_write(&writer, event);
        }
        size_t waiting = bl_rpc_queued(watcher->rpc);
        if (waiting > WAITING_MAX || (waiting > 0 && text.size > WAITING_MAX)) {
            watcher->missed++;
            continue;
        }
        if (watcher->missed > 0)
            tell_missed(watcher);
        bl_rpc_notify(watcher->rpc, "event", bl_buffer_text(&text));
    }
}
