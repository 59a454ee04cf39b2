/* The queue of the simulated store, by the rules of the specification. A call that takes effect after
 * its caller gave it up is kept, and applied by a fiber of its own. */
#include <stdarg.h>
#include <stdio.h>

#include "simulation.h"

/* A call that changes the queue, as it arrives. */
struct sim_call {
    struct sim_server *server;
    char from[24]; /* owner */
    enum {
        SIM_CLAIM,
        SIM_RESUME,
        SIM_FINISH,
        SIM_ANSWER
    } kind;
    uint32_t most;
    char item[16];
    uint64_t epoch;
    struct bl_fleet_end end;
    char stop[8];
    char fate[16];
    char receipt[200];
    uint64_t after_ns;
    /* The answer. */
    int code;
    bool taken;
    struct sim_item *items[8];
    uint64_t epochs[8];
    uint64_t left_ns[8]; /* until their deadlines, when the call arrived */
    uint32_t count;
};

static struct sim_item *item_find(struct sim_server *server, const char *id)
{
    for (unsigned i = 0; i < server->item_count; i++) {
        if (strcmp(server->items[i].id, id) == 0)
            return &server->items[i];
    }
    return NULL;
}

static struct sim_worker *row_find(const struct sim_server *server, const char *id)
{
    for (unsigned i = 0; i < server->count; i++) {
        if (strcmp(server->workers[i].id, id) == 0)
            return (struct sim_worker *)&server->workers[i];
    }
    return NULL;
}

struct sim_worker *sim_owner(const struct sim_server *server, const struct sim_item *item)
{
    return item->owner[0] == '\0' ? NULL : row_find(server, item->owner);
}

bool sim_rule(struct sim_server *server, bool holds, const char *rule, const char *of)
{
    if (!CHECK(holds))
        fprintf(stderr, "seed %llu, %llu ms: %s: %s\n", server->seed,
                (unsigned long long)(bl_now_ns() / MS), of, rule);
    return holds;
}

static void wake(struct sim_worker *worker)
{
    if (worker != NULL && worker->wake.count == 0 && worker->fault == SIM_NONE && !worker->mute)
        bl_semaphore_give(&worker->wake);
}

static void wake_all(struct sim_server *server)
{
    for (unsigned i = 0; i < server->count; i++)
        wake(&server->workers[i]);
}

/* ---- Items ---- */

struct sim_item *sim_offer(struct sim_server *server, uint64_t length_ns)
{
    struct sim_item *item = &server->items[server->item_count++];
    snprintf(item->id, sizeof item->id, "run_%u", server->item_count);
    item->state = BL_FLEET_QUEUED;
    item->length_ns = length_ns;
    wake_all(server);
    return item;
}

static void item_end(struct sim_item *item, enum bl_fleet_state state)
{
    item->state = state;
    item->owner[0] = '\0';
    item->ends++;
}

static void item_wait(struct sim_server *server, struct sim_item *item, enum bl_fleet_state state)
{
    item->state = state;
    item->owner[0] = '\0';
    if (state == BL_FLEET_QUEUED)
        wake_all(server);
}

static bool item_is_held(const struct sim_item *item)
{
    return item->state == BL_FLEET_RUNNING || item->state == BL_FLEET_STOPPING;
}

bool sim_stop(struct sim_server *server, struct sim_item *item, bool now)
{
    if (BL_FLEET_ENDED(item->state))
        return false;
    item->now = item->now || now;
    if (!item->stopped) {
        item->stopped = true;
        snprintf(item->stopped_by, sizeof item->stopped_by, "s-%u", ++server->stop_count);
        if (item_is_held(item)) {
            bl_text_into(item->stopped_at, sizeof item->stopped_at, item->owner);
            item->state = BL_FLEET_STOPPING;
        } else {
            bl_text_into(item->fate, sizeof item->fate, "never_started");
            item_end(item, BL_FLEET_CANCELLED);
        }
    }
    wake(sim_owner(server, item));
    sim_trace(server, "%s is stopped, at %s", item->id, item->stopped_at);
    return true;
}

void sim_queue_take_over(struct sim_server *server, const char *owner)
{
    sim_trace(server, "%s is taken over", owner);
    for (unsigned i = 0; i < server->item_count; i++) {
        struct sim_item *item = &server->items[i];
        if (strcmp(item->stopped_at, owner) == 0 && item->fate[0] == '\0')
            item->fenced = true;
        if (strcmp(item->owner, owner) != 0 || !item_is_held(item))
            continue;
        item->epoch++;
        if (item->state == BL_FLEET_STOPPING)
            item_end(item, BL_FLEET_CANCELLED);
        else if (++item->deaths >= DEATHS_MAX)
            item_end(item, BL_FLEET_FAILED);
        else
            item_wait(server, item, BL_FLEET_QUEUED);
    }
}

void sim_queue_leave(struct sim_server *server, const char *owner)
{
    for (unsigned i = 0; i < server->item_count; i++) {
        struct sim_item *item = &server->items[i];
        if (strcmp(item->stopped_at, owner) == 0 && item->fate[0] == '\0')
            item->fenced = true;
        if (strcmp(item->owner, owner) != 0)
            continue;
        item->epoch++;
        if (item->state == BL_FLEET_STOPPING)
            item_end(item, BL_FLEET_CANCELLED);
        else
            item_wait(server, item, BL_FLEET_QUEUED);
    }
}

/* ---- Calls that change it ---- */

static void call_give(struct sim_call *call, struct sim_item *item)
{
    uint64_t now_ns = bl_now_ns();
    call->left_ns[call->count] = item->deadline_ns > now_ns ? item->deadline_ns - now_ns : 0;
    call->epochs[call->count] = item->epoch;
    call->items[call->count++] = item;
}

static void apply_claim(struct sim_call *call)
{
    struct sim_server *server = call->server;
    const struct sim_worker *row = row_find(server, call->from);
    if (row == NULL || row->lost || row->gone || row->draining)
        return;
    for (unsigned i = 0; i < server->item_count && call->count < call->most; i++) {
        struct sim_item *item = &server->items[i];
        if (item->state != BL_FLEET_QUEUED)
            continue;
        item->state = BL_FLEET_RUNNING;
        item->epoch++;
        item->claims++;
        item->late = call->after_ns > 0;
        if (item->timeout_ns > 0 && item->deadline_ns == 0)
            item->deadline_ns = bl_now_ns() + item->timeout_ns;
        bl_text_into(item->owner, sizeof item->owner, call->from);
        call_give(call, item);
    }
}

/* No body of this try is at work, or it belongs to a frozen worker. */
static bool is_quiet(const struct sim_item *item, uint64_t epoch)
{
    for (unsigned i = 0; i < BODIES_MAX; i++) {
        const struct sim_body *body = &item->bodies[i];
        if (body->worker != NULL && body->epoch == epoch && !body->ghost)
            return false;
    }
    return true;
}

static void apply_finish(struct sim_call *call, struct sim_item *item)
{
    struct sim_server *server = call->server;
    bool again = !BL_FLEET_ENDED(call->end.state);
    if (!item_is_held(item) || strcmp(item->owner, call->from) != 0 ||
        item->epoch != call->end.epoch)
        return;
    sim_rule(server, is_quiet(item, item->epoch), "it ended while it was at work", item->id);
    call->taken = true;
    item->end = call->end;
    if (again && item->state == BL_FLEET_STOPPING) {
        item_end(item, BL_FLEET_CANCELLED);
    } else if (call->end.state == BL_FLEET_DELAYED) {
        item->tries++;
        item->deadline_ns = 0; /* the next attempt has a full one */
        item->run_at_ns = bl_now_ns() + call->end.retry_ns;
        item_wait(server, item, BL_FLEET_DELAYED);
    } else if (again) {
        item_wait(server, item, BL_FLEET_QUEUED);
    } else {
        item_end(item, call->end.state);
    }
}

static void apply_answer(struct sim_call *call, struct sim_item *item)
{
    struct sim_worker *worker = row_find(call->server, call->from);
    if (item == NULL || strcmp(item->stopped_by, call->stop) != 0) {
        if (worker != NULL && worker->order_item != NULL &&
            strcmp(worker->order_item, call->item) == 0) {
            bl_text_into(worker->order_fate, sizeof worker->order_fate, call->fate);
            worker->order_item = NULL;
        }
        return;
    }
    item->answers++;
    if (strcmp(item->stopped_at, call->from) != 0)
        return;
    for (unsigned i = 0; i < BODIES_MAX; i++)
        sim_rule(call->server, item->bodies[i].worker == NULL || item->bodies[i].ghost,
                 "it was at work when its stop was answered", item->id);
    bl_text_into(item->fate, sizeof item->fate, call->fate);
    bl_text_into(item->receipt, sizeof item->receipt, call->receipt);
}

void sim_trace(const struct sim_server *server, const char *format, ...)
{
    va_list arguments;
    if (!server->traced)
        return;
    va_start(arguments, format);
    fprintf(stderr, "%10.3f ms  ", (double)bl_now_ns() / (double)MS);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

static void call_trace(const struct sim_call *call)
{
    static const char *const kinds[] = {"claims", "resumes", "finishes", "answers"};
    const char *late = call->after_ns > 0 ? ", late" : "";
    sim_trace(call->server, "%s %s %s: state %d, %u items, %s%s", call->from, kinds[call->kind],
              call->item, call->end.state, call->count, call->taken ? "taken" : "not taken", late);
    for (uint32_t i = 0; i < call->count; i++)
        sim_trace(call->server, "    %s, epoch %llu", call->items[i]->id,
                  (unsigned long long)call->items[i]->epoch);
}

static void apply(struct sim_call *call)
{
    struct sim_item *item = item_find(call->server, call->item);
    const struct sim_worker *row = row_find(call->server, call->from);
    switch (call->kind) {
    case SIM_CLAIM: apply_claim(call); break;
    case SIM_RESUME:
        if (row == NULL || row->lost || item == NULL || !item_is_held(item) ||
            strcmp(item->owner, call->from) != 0 || item->epoch != call->epoch) {
            call->code = BL_ENOENT;
            break;
        }
        item->epoch++;
        call_give(call, item);
        break;
    case SIM_FINISH: apply_finish(call, item); break;
    case SIM_ANSWER: apply_answer(call, item); break;
    }
    call_trace(call);
}

/* ---- Their way ---- */

static int apply_after(void *argument)
{
    struct sim_call *call = argument;
    if (bl_sleep(call->after_ns) == 0 && !call->server->down)
        apply(call);
    bl_free(call);
    return 0;
}

/* Sends a call. Returns 0 if its answer arrives. */
static int send(struct sim_worker *worker, struct sim_call *call)
{
    struct sim_server *server = worker->server;
    call->server = server;
    bl_text_into(call->from, sizeof call->from, worker->id);
    if (worker->refuses)
        return BL_EIO;
    if (worker->fault == SIM_AFTER && !server->down) {
        struct sim_call *after = bl_alloc(sizeof *after);
        *after = *call;
        after->after_ns = bl_random_below(&server->random, 4 * SECOND);
        bl_nursery_spawn(&server->fibers, NULL, "late call", apply_after, after, NULL);
        worker->connection++;
        return bl_sleep(1000 * SECOND) != 0 ? BL_ETIMEDOUT : BL_EIO;
    }
    int code = sim_travel(worker);
    if (code != 0) {
        sim_trace(server, "%s has no answer: %s", worker->id, bl_error_text(code));
        return code;
    }
    apply(call);
    code = sim_return(worker);
    if (code == 0 && call->kind == SIM_CLAIM && worker->unanswered) {
        worker->unanswered = false;
        worker->connection++;
        code = BL_EIO;
    }
    return code != 0 ? code : call->code;
}

static void fill_item(struct bl_arena *arena, const struct sim_call *call, uint32_t index,
                      struct bl_fleet_item *ret_item)
{
    const struct sim_item *item = call->items[index];
    *ret_item = (struct bl_fleet_item){
        .id = bl_arena_text(arena, bl_text_from(item->id)).data,
        .spec = BL_TEXT("{}"),
        .epoch = call->epochs[index],
        .tries = item->tries,
        .deaths = item->deaths,
        .timed = item->timeout_ns > 0,
        .left_ns = call->left_ns[index],
    };
}

static void sim_enlist(void *context, const struct bl_fleet_place *place)
{
    struct sim_worker *worker = context;
    worker->place = true;
    worker->slots = place->slots;
}

/* Counts the items that a worker owns; a claim that arrived late may exceed its slots. */
static uint32_t count_owned(const struct sim_worker *worker)
{
    uint32_t count = 0;
    for (unsigned i = 0; i < worker->server->item_count; i++) {
        const struct sim_item *item = &worker->server->items[i];
        count += item_is_held(item) && !item->late && strcmp(item->owner, worker->id) == 0;
    }
    return count;
}

static int sim_claim(void *context, struct bl_arena *arena, uint32_t most,
                     struct bl_list *ret_items, struct bl_error *error BL_UNUSED)
{
    struct sim_worker *worker = context;
    struct sim_call call = {.kind = SIM_CLAIM, .most = most};
    worker->claims++;
    sim_rule(worker->server,
             most > 0 && most <= 8 && worker->running + most <= worker->slots &&
                 count_owned(worker) + most <= worker->slots,
             "it claimed more than it has slots for", worker->id);
    int code = send(worker, &call);
    if (code != 0)
        return code;
    for (uint32_t i = 0; i < call.count; i++) {
        struct bl_fleet_item *item = bl_arena_zalloc(arena, sizeof *item);
        fill_item(arena, &call, i, item);
        bl_list_push_back(ret_items, &item->link);
    }
    return 0;
}

static int sim_resume(void *context, struct bl_arena *arena, const char *id, uint64_t epoch,
                      struct bl_fleet_item *ret_item, struct bl_error *error BL_UNUSED)
{
    struct sim_worker *worker = context;
    struct sim_call call = {.kind = SIM_RESUME, .epoch = epoch};
    bl_text_into(call.item, sizeof call.item, id);
    worker->resumes++;
    int code = send(worker, &call);
    if (code == 0)
        fill_item(arena, &call, 0, ret_item);
    return code;
}

static int sim_finish(void *context, const struct bl_fleet_end *end, bool *ret_taken,
                      struct bl_error *error BL_UNUSED)
{
    struct sim_worker *worker = context;
    struct sim_call call = {.kind = SIM_FINISH, .end = *end};
    bl_text_into(call.item, sizeof call.item, end->id);
    call.end.id = NULL; /* a late call outlives its caller */
    call.end.session = NULL;
    call.end.envelope = call.end.receipt = (struct bl_text){0};
    int code = send(worker, &call);
    worker->refused += code == 0 && !call.taken;
    *ret_taken = call.taken;
    return code;
}

static int sim_answer(void *context, const char *stop, const char *item, const char *fate,
                      struct bl_text receipt, struct bl_error *error BL_UNUSED)
{
    struct sim_call call = {.kind = SIM_ANSWER};
    bl_text_into(call.item, sizeof call.item, item);
    bl_text_into(call.stop, sizeof call.stop, stop);
    bl_text_into(call.fate, sizeof call.fate, fate);
    snprintf(call.receipt, sizeof call.receipt, BL_TEXT_FORMAT, BL_TEXT_ARG(receipt));
    return send(context, &call);
}

static int sim_listen(void *context, uint64_t limit_ns)
{
    struct sim_worker *worker = context;
    struct bl_scope limit;
    if (worker->mute)
        return BL_ENOTSUP;
    bl_limit_begin(&limit, limit_ns);
    int code = bl_semaphore_take(&worker->wake);
    bl_limit_end(&limit);
    return code;
}

void sim_queue_table(struct bl_fleet_store *table)
{
    table->enlist = sim_enlist;
    table->claim = sim_claim;
    table->resume = sim_resume;
    table->finish = sim_finish;
    table->answer = sim_answer;
    table->listen = sim_listen;
}

/* ---- Heartbeats ---- */

static void add_order(struct bl_arena *arena, struct bl_fleet_beat *beat, const char *stop,
                      const char *item, const char *part, bool now)
{
    struct bl_fleet_order *order = bl_arena_zalloc(arena, sizeof *order);
    order->stop = bl_arena_text(arena, bl_text_from(stop)).data;
    order->item = bl_arena_text(arena, bl_text_from(item)).data;
    order->part = part;
    order->origin = "cancel";
    order->now = now;
    bl_list_push_back(&beat->orders, &order->link);
}

void sim_queue_beat(struct sim_worker *worker, struct bl_arena *arena,
                    struct bl_fleet_beat *ret_beat)
{
    struct sim_server *server = worker->server;
    ret_beat->draining = worker->draining;
    sim_trace(server, "%s beats", worker->id);
    for (unsigned i = 0; i < server->count; i++)
        ret_beat->workers_live += server->workers[i].place && !server->workers[i].gone;
    for (unsigned i = 0; i < server->item_count; i++) {
        struct sim_item *item = &server->items[i];
        if (item->state == BL_FLEET_DELAYED && item->run_at_ns <= bl_now_ns())
            item_wait(server, item, BL_FLEET_QUEUED);
        ret_beat->waiting = ret_beat->waiting || item->state == BL_FLEET_QUEUED;
        if (item_is_held(item) && strcmp(item->owner, worker->id) == 0) {
            struct bl_fleet_owned *owned = bl_arena_zalloc(arena, sizeof *owned);
            owned->id = bl_arena_text(arena, bl_text_from(item->id)).data;
            owned->epoch = item->epoch;
            bl_list_push_back(&ret_beat->owned, &owned->link);
        }
        if (item->stopped && !item->fenced && item->fate[0] == '\0' &&
            strcmp(item->stopped_at, worker->id) == 0)
            add_order(arena, ret_beat, item->stopped_by, item->id, NULL, item->now);
    }
    if (worker->order_item != NULL)
        add_order(arena, ret_beat, "s-part", worker->order_item, worker->order_part, false);
}
