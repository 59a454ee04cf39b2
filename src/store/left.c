/* The receipt of what a dead holder left in a session: an attempt that was cut off, or background
 * processes. */
#include "form.h"

uint64_t store_left_seq(struct store_hold *hold, const struct store_row *row)
{
    struct bl_arena *arena = &hold->job.output;
    const struct bl_json *event;
    struct bl_text rest = store_row_text(row, 0), line, newest = {0};
    while (bl_text_split(&rest, '\n', &line))
        newest = line;
    return bl_json_read(arena, newest, NULL, &event, NULL) == 0 ? bl_event_seq(arena, event) : 0;
}

void store_left_cut_off(struct store_hold *hold, const char *turn)
{
    bl_id_make(hold->recovery.receipt_id, "rcp_");
    bl_text_into(hold->recovery.cut_off, sizeof hold->recovery.cut_off, turn);
}

bool store_left_processes(const struct store_hold *hold)
{
    const struct bl_wardens_end *left = &hold->recovery.left;
    return hold->recovery.owner_died && left->mechanism != BL_MECHANISM_NONE &&
           (left->processes != 0 || left->survivors != 0);
}

static void left_write_receipt(struct bl_json_writer *writer, const struct store_hold *hold,
                               const char *run, const char *turn)
{
    const struct bl_wardens_end *end = &hold->recovery.left;
    struct bl_unit_row unit = {
        .kind = bl_unit_kind_name(turn != NULL ? BL_UNIT_TURN : BL_UNIT_COMMAND),
        .id = turn != NULL ? turn : "background",
        .fate = bl_fate_name(end->survivors == 0 ? BL_FATE_KILLED : BL_FATE_UNKNOWN),
        .ms = -1,
        .has_processes = end->mechanism != BL_MECHANISM_NONE,
        .processes = end->processes,
    };
    struct bl_receipt_row receipt = {
        .id = hold->recovery.receipt_id,
        .scope = run,
        .reason = bl_stop_reason_name(BL_STOP_OWNER_DIED),
        .origin = hold->recovery.owner,
        .requested_wall_ns = hold->claimant.wall_ns,
        .mechanism = bl_mechanism_name(end->mechanism),
        .survivors = end->survivors,
        .unverified = bl_survivors_unverified(end->survivors, end->unverified),
        .background = BL_TEXT("[]"),
    };

    bl_list_init(&receipt.units);
    bl_list_push_back(&receipt.units, &unit.link);
    bl_record_write(writer, &bl_receipt_record, &receipt);
}

void store_left_write(const struct store_hold *hold, const char *run, const char *turn,
                      uint64_t last, struct bl_buffer *receipt, struct bl_buffer *events)
{
    struct bl_json_writer writer;
    bl_json_writer_init(&writer, receipt);
    left_write_receipt(&writer, hold, run, turn);
    bl_json_writer_init(&writer, events);
    bl_event_write(&writer, &(struct bl_event){
                                .type = BL_EVENT_RECEIPT,
                                .seq = last + 1,
                                .wall_ns = hold->claimant.wall_ns,
                                .run = run,
                                .session = hold->id,
                                .turn = turn,
                                .json = bl_buffer_text(receipt),
                            });
    bl_buffer_append_byte(events, '\n');
}
