/* Design notes.
 *
 * A scope's state word is authoritative, and is written once, by the thread that wins the
 * compare-and-swap. The loop's thread does the rest (waking, marking the scopes below, hooks). A
 * delay there does no harm, because every check in the meantime walks up to the scope that was
 * stopped:
 *
 *   requester                     loop's thread
 *   state: live -> stopped
 *   origin and time written
 *   pushed on loop->pending
 *   loop woken if asleep          takes the whole list; per scope: marks those below, wakes the
 *                                 fibers parked in them, collects the hooks; then runs these
 *
 * A stopped scope is therefore either delivered or on its way to the pending list, and only the
 * loop removes it. Stops are not delivered past a shield or a claimed scope. */
#include <assert.h>
#include <errno.h>
#include <sched.h>

#include "parts.h"

static const char *const reason_names[] = {
#define REASON_NAME(name, text) [name] = (name) == BL_STOP_NONE ? NULL : (text),
    BL_STOP_REASON_TABLE(REASON_NAME)
#undef REASON_NAME
};

const struct bl_names bl_stop_reasons = BL_NAMES(reason_names);

const char *bl_stop_reason_name(enum bl_stop_reason reason)
{
    const char *name = bl_names_get(&bl_stop_reasons, reason);
    return reason == BL_STOP_NONE ? "none" : name != NULL ? name : "unknown";
}

static uint32_t scope_state_of(const struct bl_scope *scope)
{
    return atomic_load_explicit(&scope->state, memory_order_acquire);
}

static bool move_state(struct bl_scope *scope, uint32_t to)
{
    uint32_t live = BL_SCOPE_LIVE;
    return atomic_compare_exchange_strong(&scope->state, &live, to);
}

/* Returns the scope that a stop of `scope` comes from: the scope itself, or one above whose stops
 * reach it. NULL if it is not stopped. */
static const struct bl_scope *stopped_by(const struct bl_scope *scope)
{
    for (const struct bl_scope *each = scope; each != NULL; each = each->parent) {
        uint32_t state = scope_state_of(each);
        if (state >= BL_SCOPE_STOPPED)
            return each;
        if (state == BL_SCOPE_CLAIMED || each->shield)
            return NULL;
    }
    return NULL;
}

bool bl_scope_stopped_above(const struct bl_scope *scope)
{
    return stopped_by(scope) != NULL;
}

static int scope_code_of(uint32_t state)
{
    return state == BL_SCOPE_STOPPED + BL_STOP_TIMEOUT ? BL_ETIMEDOUT : BL_ECANCELED;
}

int scope_code(const struct bl_scope *scope)
{
    if (!bl_scope_stopped(scope))
        return 0;
    return scope_code_of(scope_state_of(stopped_by(scope)));
}

static void init_detached(struct bl_scope *scope, struct bl_loop *loop)
{
    memset(scope, 0, sizeof *scope);
    atomic_init(&scope->state, BL_SCOPE_LIVE);
    atomic_init(&scope->stop_written, 0);
    scope->loop = loop;
    scope->pending = &loop->pending;
    scope->deadline_ns = BL_NEVER;
    bl_list_init(&scope->children);
    bl_list_init(&scope->sibling);
    bl_list_init(&scope->waiters);
    bl_list_init(&scope->hooks);
}

void scope_init_root(struct bl_scope *scope, struct bl_loop *loop)
{
    init_detached(scope, loop);
}

/* Returns the stop of `from` as the scopes below record it. */
static struct bl_stop stop_below(const struct bl_scope *from)
{
    struct bl_stop stop = from->stop;
    if (stop.reason != BL_STOP_TIMEOUT)
        stop.reason = BL_STOP_PARENT;
    return stop;
}

/* Stops `scope` with the scope `from` above it. The caller must ensure that from->stop is written.
 */
static bool adopt_stop(struct bl_scope *scope, const struct bl_scope *from)
{
    struct bl_stop stop = stop_below(from);
    if (!move_state(scope, BL_SCOPE_STOPPED + stop.reason))
        return false;
    scope->stop = stop;
    atomic_store_explicit(&scope->stop_written, 1, memory_order_release);
    return true;
}

/* Waits for another thread to write its stop, which takes only a few instructions. */
static void await_stop_written(const struct bl_scope *scope)
{
    while (atomic_load_explicit(&scope->stop_written, memory_order_acquire) == 0)
        sched_yield();
}

void bl_scope_init(struct bl_scope *scope, struct bl_scope *parent)
{
    init_detached(scope, parent->loop);
    scope->parent = parent;
    bl_list_push_back(&parent->children, &scope->sibling);
    const struct bl_scope *from = bl_scope_stopped(parent) ? stopped_by(parent) : NULL;
    if (from != NULL) {
        await_stop_written(from);
        /* No other thread knows this scope yet. */
        adopt_stop(scope, from);
        scope->delivered = true;
    }
}

void bl_scope_done(struct bl_scope *scope)
{
    if (scope->loop == NULL)
        return;
    assert(bl_list_empty(&scope->children));
    assert(bl_list_empty(&scope->waiters));
    assert(bl_list_empty(&scope->hooks));
    timer_clear(&scope->loop->timers, scope->timer);
    /* The scope may be in the pending list, or about to enter it, and must not be freed before. */
    while (scope_state_of(scope) >= BL_SCOPE_STOPPED && !scope->delivered) {
        scope_deliver_pending(scope->loop);
        if (!scope->delivered)
            sched_yield();
    }
    bl_list_remove(&scope->sibling);
    scope->loop = NULL;
}

void bl_scope_set_id(struct bl_scope *scope, const char *id)
{
    scope->id = id;
}

struct bl_scope *bl_scope_current(void)
{
    assert(loop_current != NULL && loop_current->running != NULL);
    return loop_current->running->scope;
}

struct bl_scope *bl_scope_enter(struct bl_scope *scope)
{
    struct bl_scope *before = bl_scope_current();
    loop_current->running->scope = scope;
    return before;
}

void bl_limit_begin_until(struct bl_scope *scope, uint64_t deadline_ns)
{
    bl_scope_init(scope, bl_scope_current());
    bl_scope_set_deadline(scope, deadline_ns);
    bl_scope_enter(scope);
}

void bl_limit_begin(struct bl_scope *scope, uint64_t limit_ns)
{
    bl_limit_begin_until(scope, bl_time_add(bl_now_ns(), limit_ns));
}

void bl_limit_end(struct bl_scope *scope)
{
    assert(bl_scope_current() == scope && !scope->shield);
    bl_scope_enter(scope->parent);
    bl_scope_done(scope);
}

void bl_shield_init(struct bl_scope *scope, struct bl_scope *parent)
{
    init_detached(scope, parent->loop);
    scope->parent = parent;
    scope->shield = true;
    bl_list_push_back(&parent->children, &scope->sibling);
}

void bl_shield_begin(struct bl_scope *scope, uint64_t limit_ns)
{
    bl_shield_init(scope, bl_scope_current());
    bl_scope_set_deadline(scope, bl_time_add(bl_clock_now_ns(&scope->loop->clock), limit_ns));
    bl_scope_enter(scope);
}

void bl_shield_end(struct bl_scope *scope)
{
    assert(bl_scope_current() == scope && scope->shield);
    bl_scope_enter(scope->parent);
    bl_scope_done(scope);
}

/* Truncates at a character boundary, because an origin may hold any text. Safe in a signal handler.
 */
static void copy_origin(char *out, size_t size, const char *origin)
{
    size_t length = 0;
    while (origin != NULL && length + 1 < size && origin[length] != '\0') {
        out[length] = origin[length];
        length++;
    }
    if (origin != NULL && origin[length] != '\0')
        while (length > 0 && ((unsigned char)origin[length] & 0xC0) == 0x80)
            length--;
    out[length] = '\0';
}

static bool stop_at(struct bl_scope *scope, enum bl_stop_reason reason, const char *origin,
                    uint64_t time_ns)
{
    struct bl_loop *loop = scope->loop;
    if (!move_state(scope, BL_SCOPE_STOPPED + reason))
        return false;
    scope->stop.reason = reason;
    scope->stop.time_ns = time_ns;
    copy_origin(scope->stop.origin, sizeof scope->stop.origin, origin);
    atomic_store_explicit(&scope->stop_written, 1, memory_order_release);
    /* After the exchange the loop may take the scope and end it, so do not access `scope` again. */
    struct bl_scope *first = atomic_load(&loop->pending);
    do
        scope->next_pending = first;
    while (!atomic_compare_exchange_weak(&loop->pending, &first, scope));
    loop_wake(loop);
    return true;
}

bool bl_scope_stop(struct bl_scope *scope, enum bl_stop_reason reason, const char *origin)
{
    assert(reason != BL_STOP_NONE);
    /* A stop above counts as this scope's own, even before the loop has delivered it. */
    if (stopped_by(scope) != NULL)
        return false;
    int saved = errno;
    bool won = stop_at(scope, reason, origin, bl_clock_now_ns(&scope->loop->clock));
    errno = saved;
    return won;
}

/* Returns the next scope in a walk down from `top`, parents first. If `deeper` is false, skips the
 * scopes below `scope`. */
static struct bl_scope *walk_next(struct bl_scope *top, struct bl_scope *scope, bool deeper)
{
    if (deeper && !bl_list_empty(&scope->children))
        return BL_CONTAINER(scope->children.next, struct bl_scope, sibling);
    while (scope != top) {
        if (scope->sibling.next != &scope->parent->children)
            return BL_CONTAINER(scope->sibling.next, struct bl_scope, sibling);
        scope = scope->parent;
    }
    return NULL;
}

/* Does all of the loop's work for one stopped scope. */
static void deliver_one(struct bl_scope *scope)
{
    struct bl_loop *loop = scope->loop;
    int code = scope_code_of(scope_state_of(scope));
    scope->delivered = true;
    timer_clear(&loop->timers, scope->timer);
    while (!bl_list_empty(&scope->waiters))
        fiber_wake(BL_CONTAINER(scope->waiters.next, struct bl_fiber, scope_link), code);
    struct bl_list *link;
    while ((link = bl_list_pop_front(&scope->hooks)) != NULL)
        bl_list_push_back(&loop->due_hooks, link);
}

/* Delivers the stop of `top`, which is off the pending list, to the scopes below. Scopes below that
 * are already stopped have been delivered, or will be from the pending list. */
static void deliver_tree(struct bl_scope *top)
{
    deliver_one(top);
    for (struct bl_scope *scope = walk_next(top, top, true); scope != NULL;) {
        bool reached = !scope->shield && adopt_stop(scope, top);
        if (reached)
            deliver_one(scope);
        scope = walk_next(top, scope, reached);
    }
}

/* Delivers stops in the order of the requests. */
static void deliver_list(struct bl_scope *newest, const struct bl_scope *end)
{
    struct bl_scope *oldest = NULL;
    while (newest != end && newest != NULL) {
        struct bl_scope *next = newest->next_pending;
        newest->next_pending = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct bl_scope *next = oldest->next_pending;
        deliver_tree(oldest);
        oldest = next;
    }
}

/* The end of the pending list while stops are delivered. The list is then not empty, so that a
 * check from another thread walks up, and does not mistake a scope that is not marked yet for live.
 */
static struct bl_scope delivering;

void scope_deliver_pending(struct bl_loop *loop)
{
    struct bl_scope *end = NULL;
    for (;;) {
        struct bl_scope *newest = atomic_load(&loop->pending);
        if (newest == end &&
            (end == NULL || atomic_compare_exchange_strong(&loop->pending, &newest, NULL)))
            return;
        newest = atomic_exchange(&loop->pending, &delivering);
        deliver_list(newest, end);
        end = &delivering;
    }
}

void scope_run_hooks(struct bl_loop *loop)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(&loop->due_hooks)) != NULL) {
        struct bl_stop_hook *hook = BL_CONTAINER(link, struct bl_stop_hook, link);
        hook->run(hook, hook->scope);
    }
}

void bl_stop_hook_add(struct bl_stop_hook *hook, struct bl_scope *scope,
                      void (*run)(struct bl_stop_hook *hook, struct bl_scope *scope))
{
    hook->run = run;
    hook->scope = scope;
    if (scope->delivered)
        bl_list_push_back(&scope->loop->due_hooks, &hook->link);
    else
        bl_list_push_back(&scope->hooks, &hook->link);
}

void bl_stop_hook_remove(struct bl_stop_hook *hook)
{
    bl_list_remove(&hook->link);
}

/* Of `scope` and the scopes above whose stops reach it, stops the one with the earliest deadline,
 * if that has passed. */
static void fire_passed_deadline(struct bl_scope *scope)
{
    struct bl_scope *earliest = NULL;
    for (struct bl_scope *each = scope; each != NULL; each = each->parent) {
        if (scope_state_of(each) == BL_SCOPE_CLAIMED)
            break;
        if (each->deadline_ns != BL_NEVER &&
            (earliest == NULL || each->deadline_ns < earliest->deadline_ns))
            earliest = each;
        if (each->shield)
            break;
    }
    if (earliest != NULL && earliest->deadline_ns <= bl_clock_now_ns(&scope->loop->clock))
        stop_at(earliest, BL_STOP_TIMEOUT, "deadline", earliest->deadline_ns);
}

int bl_scope_check(struct bl_scope *scope)
{
    const struct bl_scope *from = stopped_by(scope);
    if (from == NULL) {
        fire_passed_deadline(scope);
        from = stopped_by(scope);
    }
    return from == NULL ? 0 : scope_code_of(scope_state_of(from));
}

int bl_scope_claim(struct bl_scope *scope)
{
    if (scope_state_of(scope) == BL_SCOPE_CLAIMED)
        return BL_EBUSY;
    int code = bl_scope_check(scope);
    if (code == 0 && move_state(scope, BL_SCOPE_CLAIMED)) {
        timer_clear(&scope->loop->timers, scope->timer);
        return 0;
    }
    /* The scope is stopped. A stop of its own is on the pending list. A stop from above is
     * delivered now, so that the scope's own record is final when this returns. */
    const struct bl_scope *from = stopped_by(scope);
    if (from != scope) {
        await_stop_written(from);
        if (adopt_stop(scope, from))
            deliver_tree(scope);
    }
    return scope_code_of(scope_state_of(scope));
}

void bl_scope_stop_read(const struct bl_scope *scope, struct bl_stop *ret_stop)
{
    const struct bl_scope *from = stopped_by(scope);
    if (from == NULL) {
        *ret_stop = (struct bl_stop){BL_STOP_NONE, 0, ""};
        return;
    }
    await_stop_written(from);
    *ret_stop = from == scope ? scope->stop : stop_below(from);
}

static void deadline_fired(void *owner)
{
    struct bl_scope *scope = owner;
    scope->timer = 0;
    if (stopped_by(scope) == NULL)
        stop_at(scope, BL_STOP_TIMEOUT, "deadline", scope->deadline_ns);
}

int bl_scope_set_deadline(struct bl_scope *scope, uint64_t deadline_ns)
{
    if (scope_state_of(scope) == BL_SCOPE_CLAIMED)
        return BL_EBUSY;
    int code = scope_code(scope);
    if (code != 0)
        return code;
    struct timers *timers = &scope->loop->timers;
    timer_clear(timers, scope->timer);
    scope->timer = 0;
    scope->deadline_ns = deadline_ns;
    if (deadline_ns == BL_NEVER)
        return 0;
    if (deadline_ns <= bl_clock_now_ns(&scope->loop->clock))
        stop_at(scope, BL_STOP_TIMEOUT, "deadline", deadline_ns);
    else
        scope->timer = timer_set(timers, deadline_ns, deadline_fired, scope);
    return 0;
}

int bl_scope_set_timeout(struct bl_scope *scope, double seconds, struct bl_error *error)
{
    int64_t duration_ns;
    int code = bl_duration_from_seconds(seconds, &duration_ns, error);
    if (code != 0)
        return code;
    uint64_t now_ns = bl_clock_now_ns(&scope->loop->clock);
    return bl_scope_set_deadline(
        scope, duration_ns <= 0 ? now_ns : bl_time_add(now_ns, (uint64_t)duration_ns));
}

uint64_t bl_scope_deadline_ns(const struct bl_scope *scope)
{
    uint64_t earliest_ns = BL_NEVER;
    for (const struct bl_scope *each = scope; each != NULL; each = each->parent) {
        if (scope_state_of(each) == BL_SCOPE_CLAIMED)
            break;
        if (each->deadline_ns < earliest_ns)
            earliest_ns = each->deadline_ns;
        if (each->shield)
            break;
    }
    return earliest_ns;
}

uint64_t bl_scope_next_deadline_ns(const struct bl_scope *scope)
{
    uint64_t earliest_ns = bl_scope_deadline_ns(scope);

    BL_LIST_EACH (link, &scope->children) {
        const struct bl_scope *child = BL_CONTAINER(link, struct bl_scope, sibling);
        /* The limit of a shield does not matter to fibers that wait for the work. */
        if (scope_state_of(child) != BL_SCOPE_LIVE || child->shield)
            continue;
        uint64_t below_ns = bl_scope_next_deadline_ns(child);
        if (below_ns < earliest_ns)
            earliest_ns = below_ns;
    }
    return earliest_ns;
}
