/* Design notes.
 *
 * Whoever watches must not hold up the work: what a client does not read in time is left out, and
 * it is told how much that was as soon as it reads again. */
#include "parts.h"

#define EVENT_MAX ((size_t)16 << 20)
/* What waits for one who watches, at most. */
#define WAITING_MAX ((size_t)1 << 20)

static bool is_wanted(const struct serve_watcher *watcher, const struct bl_event *event)
{
    const char *const ids[] = {event->run, event->session, event->agent, event->cell};
    if (watcher->id[0] == '\0')
        return true;
    for (size_t i = 0; i < BL_COUNT(ids); i++)
        if (ids[i] != NULL && strcmp(ids[i], watcher->id) == 0)
            return true;
    return bl_text_equal(event->id, bl_text_from(watcher->id));
}

static void tell_missed(struct serve_watcher *watcher)
{
    struct bl_buffer text;
    struct bl_json_writer writer;
    bl_buffer_init(&text, 256);
    bl_json_writer_init(&writer, &text);
    bl_json_write_object(&writer);
    bl_json_put_uint64(&writer, "count", watcher->missed);
    bl_json_write_end(&writer);
    bl_rpc_notify(watcher->rpc, "missed", bl_buffer_text(&text));
    bl_buffer_done(&text);
    watcher->missed = 0;
}

void serve_watchers_tell(const struct bl_list *watchers, const struct bl_event *event)
{
    struct bl_buffer text;
    bl_buffer_init(&text, EVENT_MAX);
    BL_LIST_EACH (link, watchers) {
        struct serve_watcher *watcher = BL_CONTAINER(link, struct serve_watcher, link);
        if (!is_wanted(watcher, event))
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
    bl_buffer_done(&text);
}
