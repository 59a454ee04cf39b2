#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include <belay/record.h>

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

static const struct bl_names kinds = BL_NAMES(kind_names);
static const struct bl_names fates = BL_NAMES(fate_names);
static const struct bl_names mechanisms = BL_NAMES(mechanism_names);

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

/* Frees copies of units and the units below them. The recursion is bounded by the limit for nested
 * agents. */
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

/* Returns the nearest receipt above if its scope is stopped too, or NULL. */
static struct bl_receipt *stopped_receipt_above(const struct bl_receipt *receipt)
{
    struct bl_receipt *outer = nearest_receipt(receipt->scope->parent);
    return outer != NULL && bl_scope_stopped(outer->scope) ? outer : NULL;
}

/* One stop makes one receipt, for the scope on which it was requested. Returns false for that
 * receipt. */
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

#define REASON_UNKNOWN "reason unknown"
#define BACKGROUND_MAX ((size_t)4 * 1024 * 1024)

uint32_t bl_survivors_add(uint32_t left, uint32_t right)
{
    uint64_t sum = (uint64_t)left + right;
    return sum >= BL_SURVIVORS_UNKNOWN ? BL_SURVIVORS_UNKNOWN : (uint32_t)sum;
}

const char *bl_survivors_unverified(uint32_t survivors, const char *unverified)
{
    if (survivors != BL_SURVIVORS_UNKNOWN)
        return NULL;
    return unverified == NULL || unverified[0] == '\0' ? REASON_UNKNOWN : unverified;
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

/* The totals of the units and those below them. */
struct sum {
    bool forced; /* a process had to be killed, or a unit is not known to have ended */
    uint32_t survivors;
    const char *unverified; /* of the first unit that could not be verified, or NULL */
    uint64_t processes;
    enum bl_mechanism mechanism;      /* the weakest among units that have processes */
    uint32_t plain[BL_UNIT_TASK + 1]; /* units of each kind without processes */
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

/* Moves units with survivors up, so that a receipt does not claim that nothing is left while one
 * below it lists survivors. */
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

static double quiet_ms(const struct bl_receipt *receipt, const struct bl_stop *stop)
{
    return receipt->quiet_ns <= stop->time_ns ? 0
                                              : (double)(receipt->quiet_ns - stop->time_ns) / 1e6;
}

/* ---- As JSON --------------------------------------------------------------------------------- */

#define ABOUT_SURVIVORS                                                                            \
    "Processes still running, counted by the container's proof. null: the proof failed, so "       \
    "nothing is claimed."
#define ABOUT_UNVERIFIED "With survivors null: why the end could not be verified."

extern const struct bl_record bl_unit_record;

#define BL_RECORD_STRUCT struct bl_unit_row
static const struct bl_member unit_members[] = {
    BL_MEMBER_STRING("kind", kind, .names = &kinds),
    BL_MEMBER_STRING("id", id),
    BL_MEMBER_STRING("name", name, .optional = true, .least = 1),
    BL_MEMBER_STRING("fate", fate, .names = &fates,
                     .about = "finished: it completed before the stop took effect, and its result "
                              "is kept; aborted: it stopped on request, or all of its processes "
                              "ended within the grace period; killed: a process had to be killed."),
    BL_MEMBER_NUMBER("ms", ms, .optional = true, .none = -1, .decimals = 1,
                     .about = "Time from the stop to the end of the unit."),
    BL_MEMBER_INTEGER("processes", processes, .optional = true, BL_KNOWN(has_processes),
                      .about = "Processes in its tree at the stop."),
    BL_MEMBER_INTEGER("survivors", survivors, .optional = true, .nullable = true,
                      .none = BL_SURVIVORS_UNKNOWN, BL_KNOWN(has_survivors),
                      .about = ABOUT_SURVIVORS),
    BL_MEMBER_STRING("unverified", unverified, .optional = true, .least = 1,
                     .about = ABOUT_UNVERIFIED),
    BL_MEMBER_WORD("signal", signal, .optional = true, .least = 1, .cut = true,
                   .about = "Strongest signal that was needed: TERM, KILL, …"),
    BL_MEMBER_STRING("detail", detail, .optional = true, .least = 1),
    BL_MEMBER_LIST("units", units, &bl_unit_record, struct bl_unit_row, link, .optional = true,
                   BL_KNOWN(has_units), .about = "Units of an agent that were at work."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_unit_record =
    BL_RECORD("unit", struct bl_unit_row, unit_members, .closed = true);

#define BL_RECORD_STRUCT struct bl_background_row
static const struct bl_member background_members[] = {
    BL_MEMBER_STRING("id", id, .least = 1),
    BL_MEMBER_TEXT("command", command, .optional = true, .about = "Command of a job, truncated."),
    BL_MEMBER_STRING("cell", cell, .optional = true, .about = "Id of a cell."),
    BL_MEMBER_INTEGER("processes", processes),
    BL_MEMBER_INTEGER("age_ms", age_ms),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_background_record =
    BL_RECORD("background", struct bl_background_row, background_members);
static const struct bl_member background_element =
    BL_ELEMENT(struct bl_background_row, &bl_background_record);

static const struct bl_form receipt_id_form = {"a receipt's id", "^rcp_", NULL};

#define BL_RECORD_STRUCT struct bl_receipt_row
static const struct bl_member receipt_members[] = {
    BL_MEMBER_STRING("id", id, .form = &receipt_id_form),
    BL_MEMBER_STRING("scope", scope, .least = 1,
                     .about = "Stopped work: run_…, hold_…, a session, a task."),
    BL_MEMBER_STRING("reason", reason, .names = &bl_stop_reasons,
                     .about = "Reason of the first stop; later stops do not change it."),
    BL_MEMBER_STRING("origin", origin, .about = "Origin of the stop: SIGINT, deadline, …"),
    BL_MEMBER_TIME("requested_at", requested_wall_ns, .about = "Time of the request to stop, UTC."),
    BL_MEMBER_NUMBER("observed_ms", observed_ms, .none = -1, .decimals = 1,
                     .about = "Time from the request until the work was notified."),
    BL_MEMBER_NUMBER("quiet_ms", quiet_ms, .none = -1, .decimals = 1,
                     .about = "Time from the request until the last unit had ended."),
    BL_MEMBER_STRING("mechanism", mechanism, .names = &mechanisms,
                     .about = "Weakest container among the units; none: no processes."),
    BL_MEMBER_BOOLEAN("cancel_observed", cancel_observed,
                      .about = "True if no unit was killed or is unknown: the work itself observed "
                               "the stop."),
    BL_MEMBER_INTEGER("survivors", survivors, .nullable = true, .none = BL_SURVIVORS_UNKNOWN,
                      .about = ABOUT_SURVIVORS),
    BL_MEMBER_STRING("unverified", unverified, .optional = true, .least = 1,
                     .about = ABOUT_UNVERIFIED),
    BL_MEMBER_RAW("background", background, .element = &background_element,
                  .about = "Jobs and cells that keep running by design."),
    BL_MEMBER_LIST("units", units, &bl_unit_record, struct bl_unit_row, link),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_receipt_record =
    BL_RECORD("receipt", struct bl_receipt_row, receipt_members, .closed = true, .document = true);

static void fill_units(struct bl_arena *arena, const struct bl_list *units, struct bl_list *rows);

static void fill_unit(struct bl_arena *arena, const struct bl_unit *unit, struct bl_unit_row *row)
{
    /* The units of an agent are written, each with its own survivors. Any other unit represents the
     * units below it. */
    struct sum sum = {.survivors = unit->survivors};
    if (unit->survivors == BL_SURVIVORS_UNKNOWN)
        sum.unverified = unit->unverified;
    if (unit->kind != BL_UNIT_AGENT)
        add_up(&unit->units, &sum);
    *row = (struct bl_unit_row){
        .kind = bl_unit_kind_name(unit->kind),
        .id = unit->id,
        .name = unit->name[0] != '\0' ? unit->name : NULL,
        .fate = bl_fate_name(unit->fate),
        .ms = unit->ms,
        .has_processes = unit->mechanism != BL_MECHANISM_NONE,
        .processes = unit->processes,
        .has_survivors = sum.survivors != 0,
        .survivors = sum.survivors,
        .unverified = bl_survivors_unverified(sum.survivors, sum.unverified),
        .detail = unit->detail[0] != '\0' ? unit->detail : NULL,
        .has_units = unit->kind == BL_UNIT_AGENT,
    };
    if (unit->signal != 0) {
        const char *abbreviation = sigabbrev_np(unit->signal);
        snprintf(row->signal, sizeof row->signal, "%d", unit->signal);
        if (abbreviation != NULL)
            bl_text_into(row->signal, sizeof row->signal, abbreviation);
    }
    bl_list_init(&row->units);
    if (row->has_units)
        fill_units(arena, &unit->units, &row->units);
}

static void fill_units(struct bl_arena *arena, const struct bl_list *units, struct bl_list *rows)
{
    bl_list_init(rows);
    BL_LIST_EACH (link, units) {
        struct bl_unit_row *row = bl_arena_alloc(arena, sizeof *row);
        fill_unit(arena, BL_CONTAINER(link, struct bl_unit, link), row);
        bl_list_push_back(rows, &row->link);
    }
}

static struct bl_text background_of(struct bl_arena *arena, const struct bl_receipt *receipt)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, BACKGROUND_MAX);
    bl_json_writer_init(&writer, &out);
    bl_json_write_array(&writer);
    if (receipt->background != NULL)
        receipt->background(receipt->background_context, &writer);
    bl_json_write_end(&writer);
    return bl_json_writer_done(&writer) == 0 ? bl_arena_text(arena, bl_buffer_text(&out))
                                             : BL_TEXT("[]");
}

void bl_receipt_write(const struct bl_receipt *receipt, struct bl_json_writer *writer)
{
    struct sum sum = sum_of(receipt);
    struct bl_arena arena = {0};
    struct bl_stop stop;
    bl_scope_stop_read(receipt->scope, &stop);
    struct bl_receipt_row row = {
        .id = receipt->id,
        .scope = receipt->scope_id,
        .reason = bl_stop_reason_name(stop.reason),
        .origin = stop.origin,
        .requested_wall_ns = receipt->requested_wall_ns,
        .quiet_ms = quiet_ms(receipt, &stop),
        .mechanism = bl_mechanism_name(sum.mechanism),
        .cancel_observed = bl_receipt_cancel_observed(receipt),
        .survivors = sum.survivors,
        .unverified = bl_survivors_unverified(sum.survivors, sum.unverified),
        .background = background_of(&arena, receipt),
    };
    if (receipt->observed_ns > stop.time_ns)
        row.observed_ms = (double)(receipt->observed_ns - stop.time_ns) / 1e6;
    fill_units(&arena, &receipt->stopped, &row.units);
    bl_record_write(writer, &bl_receipt_record, &row);
    bl_arena_done(&arena);
}

/* ---- For people ------------------------------------------------------------------------------ */

/* Appends "Stopped in 206 ms: 1 model call, 4 processes. Nothing left running." A unit with
 * processes is counted by its processes. An empty duration is left out. */
static int write_line(const struct sum *sum, const char *duration, struct bl_buffer *out)
{
    const char *separator = ": ";
    int code = bl_buffer_printf(out, "Stopped%s%s", duration[0] != '\0' ? " in " : "", duration);
    for (size_t i = 0; i < BL_COUNT(sum->plain) && code == 0; i++) {
        if (sum->plain[i] == 0)
            continue;
        code = bl_buffer_printf(out, "%s%u %s", separator, sum->plain[i],
                                bl_unit_kind_noun(i, sum->plain[i] != 1));
        separator = ", ";
    }
    if (code == 0 && sum->processes > 0)
        code = bl_buffer_printf(out, "%s%" PRIu64 " process%s", separator, sum->processes,
                                sum->processes == 1 ? "" : "es");
    if (code == 0)
        code = bl_buffer_append(out, BL_TEXT(". "));
    return code != 0 ? code : bl_survivors_text(sum->survivors, bl_text_from(sum->unverified), out);
}

int bl_receipt_line(const struct bl_receipt *receipt, struct bl_buffer *out)
{
    struct sum sum = sum_of(receipt);
    struct bl_stop stop;
    char duration[32];
    bl_scope_stop_read(receipt->scope, &stop);
    bl_duration_format((int64_t)(quiet_ms(receipt, &stop) * 1e6), duration);
    return write_line(&sum, duration, out);
}

void bl_receipt_ms_text(double ms, char out[32])
{
    out[0] = '\0';
    if (ms == 0) /* rounded to tenths */
        bl_text_into(out, 32, "less than 0.1 ms");
    else if (ms > 0 && ms <= 1e12)
        bl_duration_format((int64_t)(ms * 1e6), out);
}

static void add_up_rows(const struct bl_list *units, struct sum *sum)
{
    BL_LIST_EACH (link, units) {
        const struct bl_unit_row *unit = BL_CONTAINER(link, struct bl_unit_row, link);
        size_t kind;
        if (unit->has_processes)
            sum->processes += unit->processes;
        else if (bl_names_find(&kinds, bl_text_from(unit->kind), &kind))
            sum->plain[kind]++;
        add_up_rows(&unit->units, sum);
    }
}

int bl_receipt_row_line(const struct bl_receipt_row *row, struct bl_buffer *out)
{
    struct sum sum = {.survivors = row->survivors, .unverified = row->unverified};
    char duration[32];
    add_up_rows(&row->units, &sum);
    bl_receipt_ms_text(row->quiet_ms, duration);
    return write_line(&sum, duration, out);
}
