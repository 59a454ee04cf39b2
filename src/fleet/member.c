/* Design notes.
 *
 * The lease runs from the moment before a heartbeat was sent, on a clock that counts suspended time.
 * Three times follow from it, the later the harder: the member stops its work, early enough for the
 * grace period; each warden kills its tree by itself, in case this process is frozen; another member
 * may take over. The heartbeats continue after the work was stopped: if nobody took over meanwhile, the
 * fence still holds, and turns that ended in time can be written.
 *
 * The fiber of the heartbeats is shielded: it outlives the stop of the work, which still writes. */
#include <time.h>

#include "parts.h"

struct bl_fleet_member {
    struct bl_fleet_options options;
    struct fleet_hooks hooks;
    struct fleet_held *held; /* NULL: it takes no orders, or is a worker's */
    struct bl_scope shield;
    struct bl_nursery service;
    struct fleet_watch watch;
    uint64_t renewed_ns; /* when the last answered heartbeat was sent */
    uint64_t lease_ns;
    uint64_t renew_ns;
    struct bl_semaphore haste; /* at most one unit: the next heartbeat is wanted now */
    struct bl_random random;
    bool lost;
};

/* ---- Environment ---- */

static uint64_t member_now(const struct bl_fleet_member *member)
{
    struct timespec now;
    if (member->options.now_ns != NULL)
        return member->options.now_ns(member->options.context);
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * BL_NS_PER_S + (uint64_t)now.tv_nsec;
}

static void member_set_wardens(const struct bl_fleet_member *member, uint64_t until_ns)
{
    if (member->options.wardens != NULL)
        member->options.wardens(member->options.context, until_ns);
    else
        bl_wardens_lease(until_ns);
}

/* ---- The lease ---- */

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* When the work is stopped, unless a heartbeat is answered before. */
static uint64_t stop_ns(const struct bl_fleet_member *member)
{
    uint64_t needed_ns = member->options.grace_ns + 2 * FLEET_MARGIN_NS;
    return member->renewed_ns + minus(member->lease_ns, needed_ns);
}

static void member_lose(struct bl_fleet_member *member, const char *origin)
{
    if (member->lost)
        return;
    member->lost = true;
    BL_LOG(BL_ROOM_FLEET, BL_LOG_WARNING, "lease lost", BL_LOG_STRING("origin", origin));
    if (member->hooks.lost != NULL)
        member->hooks.lost(member->hooks.context, origin);
    bl_scope_stop(member->options.work, BL_STOP_LEASE_LOST, origin);
}

static void member_renewed(struct bl_fleet_member *member, const struct bl_fleet_beat *beat,
                           uint64_t sent_ns)
{
    member->renewed_ns = sent_ns;
    member->lease_ns = beat->lease_ns;
    member->renew_ns = beat->renew_ns;
    member_set_wardens(member, sent_ns + minus(beat->lease_ns, FLEET_MARGIN_NS));
}

/* ---- Takeovers ---- */

/* How long a call waits for its answer: never past the time at which the work is stopped. */
uint64_t fleet_answer_ns(const struct bl_fleet_member *member)
{
    uint64_t part_ns = member->lease_ns / FLEET_ANSWER_PART, answer = FLEET_ANSWER_NS;
    uint64_t left_ns = minus(stop_ns(member), member_now(member));
    if (part_ns > 0 && part_ns < answer)
        answer = part_ns;
    return left_ns > 0 && left_ns < answer ? left_ns : answer;
}

/* A random part of a renewal is added, so that not all members try at once. All takeovers together
 * wait no longer than one heartbeat, which comes first: the member's own lease runs meanwhile. */
static void member_take_over(struct bl_fleet_member *member)
{
    const struct bl_fleet_store *store = member->options.store;
    uint64_t extra_ns = bl_random_below(&member->random, member->renew_ns + 1);
    struct fleet_silence *silence;
    struct bl_scope limit;
    int code = 0;
    bl_limit_begin(&limit, fleet_answer_ns(member));
    while (code == 0 && (silence = fleet_watch_take(&member->watch,
                                                    member->lease_ns + FLEET_MARGIN_NS + extra_ns,
                                                    member_now(member))) != NULL) {
        bool taken = false;
        code = store->take_over(store->context, silence->worker, silence->beat, &taken, NULL);
        BL_LOG(BL_ROOM_FLEET, BL_LOG_INFO, "worker taken over",
               BL_LOG_STRING("worker", silence->worker), BL_LOG_BOOLEAN("taken", taken),
               BL_LOG_STRING("result", bl_error_text(code)));
        bl_free(silence);
    }
    bl_limit_end(&limit);
}

/* ---- Heartbeats ---- */

/* Sends one. Returns 0 if it was answered. */
static int member_beat(struct bl_fleet_member *member, struct bl_error *error)
{
    BL_AUTO_ARENA(arena);
    const struct bl_fleet_store *store = member->options.store;
    struct bl_fleet_beat beat = {0};
    struct bl_scope limit;
    uint64_t sent_ns = member_now(member);
    bl_list_init(&beat.silent);
    bl_list_init(&beat.owned);
    bl_list_init(&beat.orders);
    bl_semaphore_try_take(&member->haste);
    if (member->hooks.sent != NULL)
        member->hooks.sent(member->hooks.context);
    bl_limit_begin(&limit, fleet_answer_ns(member));
    int code = store->beat(store->context, &arena, &beat, error);
    bl_limit_end(&limit);
    if (code != 0)
        return code;
    if (!beat.live) {
        member_lose(member, "taken over");
        return 0;
    }
    member_renewed(member, &beat, sent_ns);
    if (member->hooks.answered != NULL && !member->lost)
        member->hooks.answered(member->hooks.context, &beat);
    fleet_watch_note(&member->watch, &beat, member_now(member));
    member_take_over(member);
    return 0;
}

/* Sleeps; a heartbeat that is wanted ends the sleep. */
static int member_sleep(struct bl_fleet_member *member, uint64_t sleep_ns, bool *ret_hasty)
{
    struct bl_scope limit;
    bl_limit_begin(&limit, sleep_ns);
    *ret_hasty = bl_semaphore_take(&member->haste) == 0;
    bl_limit_end(&limit);
    return bl_check();
}

/* Sleeps until the next heartbeat, and stops the work when it is time to. */
static int member_nap(struct bl_fleet_member *member, uint64_t nap_ns)
{
    uint64_t left_ns = minus(stop_ns(member), member_now(member));
    bool hasty = false;
    int code = 0;
    if (!member->lost && left_ns <= nap_ns) {
        code = member_sleep(member, left_ns, &hasty);
        /* Suspended time may have passed as well, and is not slept. */
        if (code == 0 && member_now(member) >= stop_ns(member))
            member_lose(member, "lease");
        nap_ns = minus(nap_ns, left_ns);
    }
    return code == 0 && !hasty ? member_sleep(member, nap_ns, &hasty) : code;
}

static int member_main(void *argument)
{
    struct bl_fleet_member *member = argument;
    uint64_t nap_ns = member->renew_ns, retry_ns = FLEET_RETRY_MIN_NS;
    int code = 0;
    while (code == 0) {
        code = member_nap(member, nap_ns);
        if (code != 0)
            break;
        uint64_t from_ns = bl_now_ns();
        if (member_beat(member, NULL) == 0) {
            /* Several wishes for a heartbeat share one. */
            code = bl_sleep(FLEET_RETRY_MIN_NS);
            nap_ns = minus(member->renew_ns, bl_now_ns() - from_ns);
            retry_ns = FLEET_RETRY_MIN_NS;
        } else {
            nap_ns = retry_ns;
            retry_ns = fleet_retry_next(retry_ns);
        }
        if (!member->lost && member_now(member) >= stop_ns(member))
            member_lose(member, "lease");
        if (code == 0)
            code = bl_check();
    }
    return code;
}

void fleet_hasten(struct bl_fleet_member *member)
{
    if (member != NULL && member->haste.count == 0)
        bl_semaphore_give(&member->haste);
}

/* ---- Join and leave ---- */

void fleet_random_seed(struct bl_random *random, uint64_t seed)
{
    if (seed == 0)
        bl_random_bytes(&seed, sizeof seed);
    bl_random_seed(random, seed);
}

static struct bl_fleet_member *member_new(const struct bl_fleet_options *options)
{
    struct bl_fleet_member *member = bl_zalloc(sizeof *member);
    member->options = *options;
    bl_semaphore_init(&member->haste, 0);
    fleet_random_seed(&member->random, options->seed);
    fleet_watch_init(&member->watch);
    bl_shield_init(&member->shield, bl_loop_scope(bl_loop_current()));
    bl_nursery_init(&member->service, &member->shield);
    return member;
}

static int member_join(struct bl_fleet_member *member, struct bl_error *error)
{
    int code = member_beat(member, error);
    if (code == 0 && member->lost)
        code = bl_error_set(error, BL_EBUSY, BL_KIND_SESSION, "join the fleet", NULL,
                            "another worker has taken over from this one");
    if (code == 0)
        code = bl_nursery_spawn(&member->service, NULL, "fleet: heartbeats", member_main, member,
                                NULL);
    return code;
}

int fleet_join(const struct bl_fleet_options *options, const struct fleet_hooks *hooks,
               struct bl_fleet_member **ret_member, struct bl_error *error)
{
    struct bl_fleet_member *member = member_new(options);
    member->hooks = *hooks;
    *ret_member = member; /* the hooks may need it */
    int code = member_join(member, error);
    if (code != 0) {
        *ret_member = NULL;
        bl_fleet_leave(member);
    }
    return code;
}

int bl_fleet_join(const struct bl_fleet_options *options, struct bl_fleet_member **ret_member,
                  struct bl_error *error)
{
    struct bl_fleet_member *member = member_new(options);
    if (options->stop_session != NULL)
        member->held = fleet_held_new(member, &member->options, &member->hooks);
    int code = member_join(member, error);
    if (code == 0 && member->held != NULL)
        code = fleet_held_listen(member->held);
    if (code == 0)
        *ret_member = member;
    else
        bl_fleet_leave(member);
    return code;
}

void bl_fleet_leave(struct bl_fleet_member *member)
{
    if (member == NULL)
        return;
    fleet_held_free(member->held);
    bl_nursery_done(&member->service);
    bl_scope_done(&member->shield);
    member_set_wardens(member, 0);
    fleet_watch_done(&member->watch);
    bl_free(member);
}

bool bl_fleet_lost(const struct bl_fleet_member *member)
{
    return member->lost;
}
