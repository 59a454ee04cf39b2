#include "elsewhere.h"

#include <string.h>

/* Most workers answer within the first second. */
#define LOOK_NS       (15 * BL_NS_PER_MS)
#define LOOK_NS_LATER (200 * BL_NS_PER_MS)
#define SOON_NS       BL_NS_PER_S
#define RECEIPT_MAX   ((size_t)64 * 1024 * 1024)

/* ---- One receipt ----------------------------------------------------------------------------- */

/* Returns why nothing is known about the work of a worker: "host b, last heartbeat 12 s ago". */
static const char *elsewhere_silence(struct bl_arena *arena, const struct bl_fleet_stopped *stopped)
{
    char age[32];

    bl_duration_format(stopped->silent_ms * (int64_t)BL_NS_PER_MS, age);
    return bl_arena_printf(arena, "host %s has not answered, last heartbeat %s ago",
                           stopped->host != NULL ? stopped->host : "unknown", age)
        .data;
}

static bool elsewhere_is(const char *fate, enum bl_fate other)
{
    return strcmp(fate, bl_fate_name(other)) == 0;
}

static void elsewhere_doubt(struct bl_unit_row *unit, const char *why)
{
    unit->has_survivors = true;
    unit->survivors = BL_SURVIVORS_UNKNOWN;
    unit->unverified = why;
}

/* Fills the unit of an item from the receipt of its worker. Without one, only work that never started, or
 * ended by itself, is known to have left nothing. */
static void elsewhere_fill_unit(struct elsewhere *elsewhere, const struct bl_fleet_stopped *stopped,
                                struct bl_unit_row *unit, struct bl_receipt_row *receipt)
{
    const struct bl_json *value;

    *unit = (struct bl_unit_row){.kind = bl_unit_kind_name(BL_UNIT_AGENT),
                                 .id = stopped->item,
                                 .fate = stopped->fate,
                                 .ms = -1};
    bl_list_init(&unit->units);
    if (stopped->fate == NULL) {
        unit->fate = bl_fate_name(BL_FATE_UNKNOWN);
        elsewhere_doubt(unit, elsewhere_silence(elsewhere->arena, stopped));
    } else if (bl_json_read(elsewhere->arena, stopped->receipt, NULL, &value, NULL) == 0) {
        struct bl_receipt_row *own = bl_arena_zalloc(elsewhere->arena, sizeof *own);
        bl_record_take(elsewhere->arena, &bl_receipt_record, value, own);
        unit->ms = own->quiet_ms;
        unit->has_survivors = own->survivors != 0;
        unit->survivors = own->survivors;
        unit->unverified = own->unverified;
        unit->has_units = true;
        BL_LIST_EACH_SAFE (link, &own->units) {
            bl_list_remove(link);
            bl_list_push_back(&unit->units, link);
        }
    } else if (!elsewhere_is(unit->fate, BL_FATE_NEVER_STARTED) &&
               !elsewhere_is(unit->fate, BL_FATE_FINISHED)) {
        elsewhere_doubt(unit, bl_arena_printf(elsewhere->arena, "host %s has sent no receipt",
                                              stopped->host != NULL ? stopped->host : "unknown")
                                  .data);
    }
    if (unit->survivors == BL_SURVIVORS_UNKNOWN || receipt->survivors == BL_SURVIVORS_UNKNOWN) {
        receipt->unverified = receipt->unverified != NULL ? receipt->unverified : unit->unverified;
        receipt->survivors = BL_SURVIVORS_UNKNOWN;
    } else {
        receipt->survivors += unit->survivors;
    }
    if (elsewhere_is(unit->fate, BL_FATE_UNKNOWN) || elsewhere_is(unit->fate, BL_FATE_KILLED))
        receipt->cancel_observed = false;
    if (unit->ms > receipt->quiet_ms)
        receipt->quiet_ms = unit->ms;
}

/* Makes the receipt of a stop of several items, or of one without a receipt of its own. Its id follows
 * from that of the stop: the same command prints it again. */
static int elsewhere_sum(struct elsewhere *elsewhere, const char *stop, const struct bl_list *items,
                         uint64_t waited_ns, struct bl_error *error)
{
    const char *key = strchr(stop, '_');
    struct bl_json_writer writer;
    struct bl_receipt_row receipt = {.scope = elsewhere->id,
                                     .reason = bl_stop_reason_name(BL_STOP_USER),
                                     .origin = "belay cancel",
                                     .requested_wall_ns = bl_clock_wall_ns(&bl_clock_system),
                                     .mechanism = bl_mechanism_name(BL_MECHANISM_NONE),
                                     .cancel_observed = true,
                                     .background = BL_TEXT("[]")};
    BL_AUTO_BUFFER(out, RECEIPT_MAX);

    receipt.id = bl_arena_printf(elsewhere->arena, "rcp_%s", key != NULL ? key + 1 : stop).data;
    bl_list_init(&receipt.units);
    BL_LIST_EACH (link, items) {
        struct bl_unit_row *unit = bl_arena_alloc(elsewhere->arena, sizeof *unit);
        elsewhere_fill_unit(elsewhere, BL_CONTAINER(link, struct bl_fleet_stopped, link), unit,
                            &receipt);
        bl_list_push_back(&receipt.units, &unit->link);
    }
    /* Work that has not answered is not known to have ended any earlier. */
    if (receipt.survivors == BL_SURVIVORS_UNKNOWN)
        receipt.quiet_ms = (double)waited_ns / BL_NS_PER_MS;
    bl_json_writer_init(&writer, &out);
    bl_record_write(&writer, &bl_receipt_record, &receipt);
    if (bl_json_writer_done(&writer) != 0)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_RUNTIME, "cancel", elsewhere->id,
                            "the receipt is too large");
    elsewhere->receipt = bl_arena_text(elsewhere->arena, bl_buffer_text(&out));
    return 0;
}

/* For one item that has answered, the receipt of its worker is passed on as it is. */
static int elsewhere_take(struct elsewhere *elsewhere, const char *stop,
                          const struct bl_list *items, uint64_t waited_ns, struct bl_error *error)
{
    const struct bl_fleet_stopped *first = BL_CONTAINER(items->next, struct bl_fleet_stopped, link);
    bool one = items->next == items->previous && !bl_list_empty(items);

    elsewhere->fenced = true;
    BL_LIST_EACH (link, items)
        elsewhere->fenced =
            elsewhere->fenced && BL_CONTAINER(link, struct bl_fleet_stopped, link)->fenced;
    if (one) {
        elsewhere->worker = first->worker;
        elsewhere->host = first->host;
    }
    if (one && first->fate != NULL && first->receipt.size > 0) {
        elsewhere->receipt = first->receipt;
        return 0;
    }
    /* It had ended before the stop took effect. */
    if (one && first->fate != NULL && elsewhere_is(first->fate, BL_FATE_FINISHED))
        return 0;
    return elsewhere_sum(elsewhere, stop, items, waited_ns, error);
}

/* ---- The stop -------------------------------------------------------------------------------- */

static bool elsewhere_answered(const struct bl_list *items)
{
    BL_LIST_EACH (link, items)
        if (BL_CONTAINER(link, struct bl_fleet_stopped, link)->fate == NULL)
            return false;
    return true;
}

/* Waits for the workers. */
static int elsewhere_follow(struct elsewhere *elsewhere, const struct bl_fleet_store *table,
                            const char *stop, struct bl_error *error)
{
    uint64_t from_ns = bl_now_ns(), until_ns = bl_time_add(from_ns, elsewhere->wait_ns);
    struct bl_list items;

    for (;;) {
        bl_list_init(&items);
        int code = table->stopped(table->context, elsewhere->arena, stop, &items, error);
        uint64_t now_ns = bl_now_ns();
        if (code == 0 && (elsewhere_answered(&items) || now_ns >= until_ns))
            return elsewhere_take(elsewhere, stop, &items, now_ns - from_ns, error);
        if (code != 0 && (!error->retryable || now_ns >= until_ns))
            return code;
        *error = (struct bl_error){0};
        uint64_t nap_ns = now_ns - from_ns < SOON_NS ? LOOK_NS : LOOK_NS_LATER;
        code = bl_sleep(nap_ns < until_ns - now_ns ? nap_ns : until_ns - now_ns);
        if (code != 0)
            return code;
    }
}

/* The work may have ended before: its end is in the store. */
static int elsewhere_look_up(struct elsewhere *elsewhere, const struct bl_fleet_store *table,
                             struct bl_error *error)
{
    struct bl_fleet_view view;

    int code = table->look(table->context, elsewhere->arena, elsewhere->id, &view, error);
    if (code != 0)
        return code;
    elsewhere->worker = view.worker;
    elsewhere->host = view.host;
    elsewhere->fenced = true;
    elsewhere->receipt = view.receipt;
    if (view.receipt.size == 0)
        elsewhere->result = view.envelope;
    return 0;
}

static int elsewhere_ask(struct elsewhere *elsewhere, const struct bl_fleet_store *table,
                         struct bl_error *error)
{
    const char *slash = strchr(elsewhere->id, '/'), *stop = NULL, *whole = elsewhere->id;

    if (slash != NULL)
        whole = bl_arena_text(elsewhere->arena,
                              (struct bl_text){elsewhere->id, (size_t)(slash - elsewhere->id)})
                    .data;
    int code =
        table->stop(table->context, elsewhere->arena, whole, slash != NULL ? slash + 1 : NULL,
                    "belay cancel", elsewhere->now, &stop, error);
    if (code == 0)
        return elsewhere_follow(elsewhere, table, stop, error);
    if (code == BL_ENOENT && slash == NULL) {
        *error = (struct bl_error){0};
        code = elsewhere_look_up(elsewhere, table, error);
    }
    return code;
}

int elsewhere_stop(struct elsewhere *elsewhere, struct bl_error *error)
{
    struct bl_store *store = NULL;

    int code = bl_store_open(elsewhere->where, &store, error);
    if (code == 0)
        code = elsewhere_ask(elsewhere, bl_store_fleet_table(store), error);
    bl_store_close(store);
    return code;
}
