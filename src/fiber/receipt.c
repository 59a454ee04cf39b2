#include <assert.h>
#include <stdio.h>

#include <belay/json.h>

#include "parts.h"

static const char *const kind_names[] = {
#define KIND_NAME(name, text) text,
    BL_UNIT_KIND_TABLE(KIND_NAME)
#undef KIND_NAME
};

static const char *const fate_names[] = {
#define FATE_NAME(name, text) text,
    BL_FATE_TABLE(FATE_NAME)
#undef FATE_NAME
};

static const char *const mechanism_names[] = {
#define MECHANISM_NAME(name, text) text,
    BL_MECHANISM_TABLE(MECHANISM_NAME)
#undef MECHANISM_NAME
};

const char *bl_unit_kind_name(enum bl_unit_kind kind)
{
    return (size_t)kind < BL_COUNT(kind_names) ? kind_names[kind] : "unknown";
}

const char *bl_unit_kind_noun(enum bl_unit_kind kind, bool several)
{
    static const char *const nouns[][2] = {[BL_UNIT_MODEL] = {"model call", "model calls"},
                                           [BL_UNIT_TOOL] = {"tool", "tools"},
                                           [BL_UNIT_CELL] = {"cell", "cells"},
                                           [BL_UNIT_AGENT] = {"agent", "agents"},
                                           [BL_UNIT_COMMAND] = {"command", "commands"},
                                           [BL_UNIT_TURN] = {"turn", "turns"},
                                           [BL_UNIT_TASK] = {"task", "tasks"}};
    return (size_t)kind < BL_COUNT(nouns) ? nouns[kind][several] : "unknown";
}

const char *bl_fate_name(enum bl_fate fate)
{
    return (size_t)fate < BL_COUNT(fate_names) ? fate_names[fate] : "unknown";
}

const char *bl_mechanism_name(enum bl_mechanism mechanism)
{
    return (size_t)mechanism < BL_COUNT(mechanism_names) ? mechanism_names[mechanism] : "unknown";
}

static struct bl_receipt *nearest_receipt(const struct bl_scope *scope)
{
    while (scope != NULL && scope->receipt == NULL)
        scope = scope->parent;
    return scope == NULL ? NULL : scope->receipt;
}

void bl_unit_begin(struct bl_unit *unit, enum bl_unit_kind kind, const char *id, const char *name)
{
    *unit = (struct bl_unit){.kind = kind};
    bl_list_init(&unit->link);
    bl_list_init(&unit->units);
    bl_text_into(unit->id, sizeof unit->id, id);
    bl_text_into(unit->name, sizeof unit->name, name);
    unit->receipt = nearest_receipt(bl_scope_current());
    if (unit->receipt != NULL)
        bl_list_push_back(&unit->receipt->live, &unit->link);
}

static void move_units(struct bl_list *from, struct bl_list *to)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(from)) != NULL)
        bl_list_push_back(to, link);
}

/* Copies, with what is below them: agents are no deeper than they are let. */
static void free_units(struct bl_list *units)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(units)) != NULL) {
        struct bl_unit *unit = BL_CONTAINER(link, struct bl_unit, link);
        free_units(&unit->units);
        bl_free(unit);
    }
}

void bl_unit_end(struct bl_unit *unit, enum bl_fate fate)
{
    struct bl_receipt *receipt = unit->receipt;
    unit->fate = fate;
    bl_list_remove(&unit->link);
    if (receipt == NULL || !bl_scope_stopped(receipt->scope)) {
        free_units(&unit->units);
        return;
    }
    struct bl_stop stop;
    bl_scope_stop_read(receipt->scope, &stop);
    receipt->quiet_ns = bl_now_ns();
    unit->ms = (double)(receipt->quiet_ns - stop.time_ns) / 1e6;
    struct bl_unit *copy = bl_alloc(sizeof *copy);
    *copy = *unit;
    bl_list_init(&copy->units);
    move_units(&unit->units, &copy->units);
    bl_list_push_back(&receipt->stopped, &copy->link);
}

void bl_unit_drop(struct bl_unit *unit)
{
    bl_list_remove(&unit->link);
    free_units(&unit->units);
}

static void stop_observed(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct bl_receipt *receipt = BL_CONTAINER(hook, struct bl_receipt, hook);
    struct bl_stop stop;
    bl_scope_stop_read(scope, &stop);
    receipt->observed = true;
    receipt->observed_ns = bl_clock_now_ns(&scope->loop->clock);
    if (receipt->quiet_ns == 0)
        receipt->quiet_ns = receipt->observed_ns;
    receipt->requested_wall_ns =
        bl_clock_wall_ns(&scope->loop->clock) - (int64_t)(receipt->observed_ns - stop.time_ns);
}

void bl_receipt_open(struct bl_receipt *receipt, struct bl_scope *scope, const char *scope_id)
{
    assert(scope->receipt == NULL);
    *receipt = (struct bl_receipt){.scope = scope};
    bl_id_make(receipt->id, "rcp_");
    bl_text_into(receipt->scope_id, sizeof receipt->scope_id, scope_id);
    bl_list_init(&receipt->live);
    bl_list_init(&receipt->stopped);
    scope->receipt = receipt;
    if (scope->id == NULL)
        scope->id = receipt->scope_id;
    bl_stop_hook_add(&receipt->hook, scope, stop_observed);
}

/* The next receipt above, where a stop was asked for too. NULL: none. */
static struct bl_receipt *stopped_receipt_above(const struct bl_receipt *receipt)
{
    struct bl_receipt *outer = nearest_receipt(receipt->scope->parent);
    return outer != NULL && bl_scope_stopped(outer->scope) ? outer : NULL;
}

/* One stop makes one receipt, for the scope where it was asked. False: this one is it. */
bool bl_receipt_elsewhere(const struct bl_receipt *receipt)
{
    const struct bl_receipt *outer = stopped_receipt_above(receipt);
    struct bl_stop stop, above;
    if (outer == NULL)
        return false;
    bl_scope_stop_read(receipt->scope, &stop);
    bl_scope_stop_read(outer->scope, &above);
    return stop.reason == BL_STOP_PARENT ||
           (stop.reason == BL_STOP_TIMEOUT && above.reason == BL_STOP_TIMEOUT);
}

bool bl_receipt_ready(const struct bl_receipt *receipt)
{
    return receipt->observed && bl_list_empty(&receipt->live);
}

#define REASON_UNKNOWN "the reason is not known"

uint32_t bl_survivors_add(uint32_t left, uint32_t right)
{
    uint64_t sum = (uint64_t)left + right;
    return sum >= BL_SURVIVORS_UNKNOWN ? BL_SURVIVORS_UNKNOWN : (uint32_t)sum;
}

void bl_survivors_write(struct bl_json_writer *writer, uint32_t survivors, const char *unverified)
{
    if (survivors != BL_SURVIVORS_UNKNOWN) {
        bl_json_put_uint64(writer, "survivors", survivors);
        return;
    }
    bl_json_write_key(writer, BL_TEXT("survivors"));
    bl_json_write_null(writer);
    if (unverified == NULL || unverified[0] == '\0')
        unverified = REASON_UNKNOWN;
    bl_json_put_string(writer, "unverified", unverified);
}

uint32_t bl_survivors_read(const struct bl_json *object, struct bl_text *ret_unverified)
{
    int64_t number;
    if (ret_unverified != NULL)
        *ret_unverified = bl_json_text(bl_json_get(object, BL_TEXT("unverified")));
    if (!bl_json_int64(bl_json_get(object, BL_TEXT("survivors")), &number) || number < 0 ||
        number >= BL_SURVIVORS_UNKNOWN)
        return BL_SURVIVORS_UNKNOWN;
    return (uint32_t)number;
}

int bl_survivors_text(uint32_t survivors, struct bl_text unverified, struct bl_buffer *out)
{
    if (survivors == 0)
        return bl_buffer_printf(out, "Nothing left running.");
    if (survivors != BL_SURVIVORS_UNKNOWN)
        return bl_buffer_printf(out, "Still running: %u process%s.", survivors,
                                survivors == 1 ? "" : "es");
    if (unverified.size == 0)
        unverified = BL_TEXT(REASON_UNKNOWN);
    return bl_buffer_printf(out, "Could not verify: " BL_TEXT_FORMAT ".", BL_TEXT_ARG(unverified));
}

/* What its units come to, with those below them. */
struct sum {
    bool forced; /* something had to be killed, or is not known to have ended */
    uint32_t survivors;
    const char *unverified; /* of the first unit that could not be verified; NULL: none */
    uint32_t processes;
    enum bl_mechanism mechanism;      /* the weakest among units that have processes */
    uint32_t plain[BL_UNIT_TASK + 1]; /* units of each kind that have none */
};

static void add_up(const struct bl_list *units, struct sum *sum)
{
    BL_LIST_EACH (link, units) {
        const struct bl_unit *unit = BL_CONTAINER(link, struct bl_unit, link);
        sum->forced |= unit->fate == BL_FATE_KILLED || unit->fate == BL_FATE_UNKNOWN;
        sum->survivors = bl_survivors_add(sum->survivors, unit->survivors);
        if (unit->survivors == BL_SURVIVORS_UNKNOWN && sum->unverified == NULL)
            sum->unverified = unit->unverified;
        sum->processes += unit->processes;
        if (unit->mechanism == BL_MECHANISM_NONE)
            sum->plain[unit->kind]++;
        else if (sum->mechanism == BL_MECHANISM_NONE || unit->mechanism < sum->mechanism)
            sum->mechanism = unit->mechanism;
        add_up(&unit->units, sum);
    }
}

static struct sum sum_of(const struct bl_receipt *receipt)
{
    struct sum sum = {0};
    add_up(&receipt->stopped, &sum);
    return sum;
}

bool bl_receipt_cancel_observed(const struct bl_receipt *receipt)
{
    return bl_scope_stopped(receipt->scope) && !sum_of(receipt).forced;
}

uint32_t bl_receipt_survivors(const struct bl_receipt *receipt)
{
    return sum_of(receipt).survivors;
}

void bl_receipt_fold(struct bl_receipt *receipt, struct bl_unit *unit)
{
    if (bl_receipt_elsewhere(receipt)) {
        move_units(&receipt->stopped, &unit->units);
        return;
    }
    struct sum sum = sum_of(receipt);
    unit->survivors = bl_survivors_add(unit->survivors, sum.survivors);
    if (sum.unverified != NULL && unit->unverified[0] == '\0')
        bl_text_into(unit->unverified, sizeof unit->unverified, sum.unverified);
    free_units(&receipt->stopped);
}

/* A receipt does not say that nothing is left where one below it says that something is. */
static void move_survivors(struct bl_list *from, struct bl_list *to)
{
    BL_LIST_EACH_SAFE (link, from) {
        struct bl_unit *unit = BL_CONTAINER(link, struct bl_unit, link);
        struct sum below = {0};
        add_up(&unit->units, &below);
        if (bl_survivors_add(unit->survivors, below.survivors) == 0)
            continue;
        bl_list_remove(link);
        bl_list_push_back(to, link);
    }
}

void bl_receipt_close(struct bl_receipt *receipt)
{
    struct bl_receipt *outer = stopped_receipt_above(receipt);
    assert(bl_list_empty(&receipt->live));
    if (outer != NULL) {
        struct bl_list moved;
        bl_list_init(&moved);
        if (bl_receipt_elsewhere(receipt))
            move_units(&receipt->stopped, &moved);
        else
            move_survivors(&receipt->stopped, &moved);
        if (!bl_list_empty(&moved) && outer->quiet_ns < receipt->quiet_ns)
            outer->quiet_ns = receipt->quiet_ns;
        move_units(&moved, &outer->stopped);
    }
    free_units(&receipt->stopped);
    bl_stop_hook_remove(&receipt->hook);
    receipt->scope->receipt = NULL;
    if (receipt->scope->id == receipt->scope_id)
        receipt->scope->id = NULL;
}

static double tenths(double ms)
{
    return (double)(int64_t)(ms * 10 + 0.5) / 10;
}

static double quiet_ms(const struct bl_receipt *receipt, const struct bl_stop *stop)
{
    return receipt->quiet_ns <= stop->time_ns ? 0
                                              : (double)(receipt->quiet_ns - stop->time_ns) / 1e6;
}

static void write_ms(struct bl_json_writer *writer, const char *key, double ms)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_double(writer, tenths(ms));
}

static void write_units(struct bl_json_writer *writer, const struct bl_list *units);

/* Of an agent the units below are written, each with its own survivors; another unit stands for
 * those below it. */
static void write_unit_survivors(struct bl_json_writer *writer, const struct bl_unit *unit)
{
    struct sum sum = {.survivors = unit->survivors};
    if (unit->survivors == BL_SURVIVORS_UNKNOWN)
        sum.unverified = unit->unverified;
    if (unit->kind != BL_UNIT_AGENT)
        add_up(&unit->units, &sum);
    if (sum.survivors != 0)
        bl_survivors_write(writer, sum.survivors, sum.unverified);
}

static void write_unit(struct bl_json_writer *writer, const struct bl_unit *unit)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "kind", bl_unit_kind_name(unit->kind));
    bl_json_put_string(writer, "id", unit->id);
    if (unit->name[0] != '\0')
        bl_json_put_string(writer, "name", unit->name);
    bl_json_put_string(writer, "fate", bl_fate_name(unit->fate));
    write_ms(writer, "ms", unit->ms);
    if (unit->mechanism != BL_MECHANISM_NONE)
        bl_json_put_uint64(writer, "processes", unit->processes);
    write_unit_survivors(writer, unit);
    if (unit->signal != 0) {
        char name[24];
        const char *abbreviation = sigabbrev_np(unit->signal);
        snprintf(name, sizeof name, "%d", unit->signal);
        bl_json_put_string(writer, "signal", abbreviation != NULL ? abbreviation : name);
    }
    if (unit->detail[0] != '\0')
        bl_json_put_string(writer, "detail", unit->detail);
    if (unit->kind == BL_UNIT_AGENT)
        write_units(writer, &unit->units);
    bl_json_write_end(writer);
}

static void write_units(struct bl_json_writer *writer, const struct bl_list *units)
{
    bl_json_write_key(writer, BL_TEXT("units"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, units)
        write_unit(writer, BL_CONTAINER(link, struct bl_unit, link));
    bl_json_write_end(writer);
}

void bl_receipt_write(const struct bl_receipt *receipt, struct bl_json_writer *writer)
{
    struct sum sum = sum_of(receipt);
    struct bl_stop stop;
    char requested_at[32];
    bl_scope_stop_read(receipt->scope, &stop);
    bl_time_format(receipt->requested_wall_ns, requested_at);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "id", receipt->id);
    bl_json_put_string(writer, "scope", receipt->scope_id);
    bl_json_put_string(writer, "reason", bl_stop_reason_name(stop.reason));
    bl_json_put_string(writer, "origin", stop.origin);
    bl_json_put_string(writer, "requested_at", requested_at);
    write_ms(writer, "observed_ms",
             receipt->observed_ns <= stop.time_ns
                 ? 0
                 : (double)(receipt->observed_ns - stop.time_ns) / 1e6);
    write_ms(writer, "quiet_ms", quiet_ms(receipt, &stop));
    bl_json_put_string(writer, "mechanism", bl_mechanism_name(sum.mechanism));
    bl_json_put_boolean(writer, "cancel_observed", bl_receipt_cancel_observed(receipt));
    bl_survivors_write(writer, sum.survivors, sum.unverified);
    bl_json_write_key(writer, BL_TEXT("background"));
    bl_json_write_array(writer);
    if (receipt->background != NULL)
        receipt->background(receipt->background_context, writer);
    bl_json_write_end(writer);
    write_units(writer, &receipt->stopped);
    bl_json_write_end(writer);
}

int bl_receipt_line(const struct bl_receipt *receipt, struct bl_buffer *out)
{
    /* A unit of processes is told by these. */
    struct sum sum = sum_of(receipt);
    struct bl_stop stop;
    char duration[32];
    bl_scope_stop_read(receipt->scope, &stop);
    bl_duration_format((int64_t)(quiet_ms(receipt, &stop) * 1e6), duration);
    int code = bl_buffer_printf(out, "Stopped in %s", duration);
    const char *separator = ": ";
    for (size_t i = 0; i < BL_COUNT(sum.plain) && code == 0; i++) {
        if (sum.plain[i] == 0)
            continue;
        code = bl_buffer_printf(out, "%s%u %s", separator, sum.plain[i],
                                bl_unit_kind_noun(i, sum.plain[i] != 1));
        separator = ", ";
    }
    if (code == 0 && sum.processes > 0)
        code = bl_buffer_printf(out, "%s%u process%s", separator, sum.processes,
                                sum.processes == 1 ? "" : "es");
    if (code == 0)
        code = bl_buffer_append(out, BL_TEXT(". "));
    return code != 0 ? code : bl_survivors_text(sum.survivors, bl_text_from(sum.unverified), out);
}
