/* The silence of other workers. A worker is silent while its heartbeat has the same number: for how
 * long is measured here, by this machine's own clock, from the first time that this number was
 * seen. A break in the connection ends all observations, since a database that was restarted or
 * replaced may show an old number again. */
#include "parts.h"

void fleet_watch_init(struct fleet_watch *watch)
{
    *watch = (struct fleet_watch){0};
    bl_list_init(&watch->silences);
}

static void free_silence(struct fleet_silence *silence)
{
    bl_list_remove(&silence->link);
    bl_free(silence);
}

void fleet_watch_done(struct fleet_watch *watch)
{
    BL_LIST_EACH_SAFE (link, &watch->silences)
        free_silence(BL_CONTAINER(link, struct fleet_silence, link));
}

static struct fleet_silence *find_silence(struct fleet_watch *watch, const char *worker)
{
    BL_LIST_EACH (link, &watch->silences) {
        struct fleet_silence *silence = BL_CONTAINER(link, struct fleet_silence, link);
        if (strcmp(silence->worker, worker) == 0)
            return silence;
    }
    return NULL;
}

static void note_worker(struct fleet_watch *watch, const struct bl_fleet_silent *silent,
                        uint64_t now_ns)
{
    struct fleet_silence *silence = find_silence(watch, silent->worker);
    if (silence == NULL) {
        silence = bl_zalloc(sizeof *silence);
        bl_text_into(silence->worker, sizeof silence->worker, silent->worker);
        bl_list_push_back(&watch->silences, &silence->link);
        silence->since_ns = now_ns;
        silence->beat = silent->beat;
    }
    if (silence->beat != silent->beat) {
        silence->since_ns = now_ns;
        silence->beat = silent->beat;
    }
    silence->seen = true;
}

void fleet_watch_note(struct fleet_watch *watch, const struct bl_fleet_beat *beat, uint64_t now_ns)
{
    if (watch->connection != beat->connection) {
        fleet_watch_done(watch);
        watch->connection = beat->connection;
    }
    BL_LIST_EACH (link, &watch->silences)
        BL_CONTAINER(link, struct fleet_silence, link)->seen = false;
    BL_LIST_EACH (link, &beat->silent)
        note_worker(watch, BL_CONTAINER(link, struct bl_fleet_silent, link), now_ns);
    BL_LIST_EACH_SAFE (link, &watch->silences) {
        struct fleet_silence *silence = BL_CONTAINER(link, struct fleet_silence, link);
        if (!silence->seen)
            free_silence(silence);
    }
}

struct fleet_silence *fleet_watch_take(struct fleet_watch *watch, uint64_t silence_ns,
                                       uint64_t now_ns)
{
    BL_LIST_EACH (link, &watch->silences) {
        struct fleet_silence *silence = BL_CONTAINER(link, struct fleet_silence, link);
        if (now_ns - silence->since_ns >= silence_ns) {
            bl_list_remove(&silence->link);
            return silence;
        }
    }
    return NULL;
}
