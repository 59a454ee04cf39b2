/* The answer of a hold, from rows of any form of storage: the session, its context and what a
 * repeated request has recorded. */
#include "form.h"

void store_hold_begin(struct store_hold *hold)
{
    struct bl_list *each;
    while ((each = bl_list_pop_front(&hold->records)) != NULL)
        bl_turn_record_free(BL_CONTAINER(each, struct bl_turn_record, link));
    bl_turn_record_free(hold->summary);
    hold->summary = NULL;
    hold->recovery = (struct bl_store_recovery){
        .left = {.survivors = BL_SURVIVORS_UNKNOWN, .unverified = "the last holder is unknown"}};
    hold->recorded = (struct store_texts){0};
}

void store_hold_name(struct store_hold *hold)
{
    if (hold->options.id != NULL)
        bl_text_into(hold->id, sizeof hold->id, hold->options.id);
    else
        bl_id_make(hold->id, "s-");
}

void store_hold_take_session(struct store_hold *hold, const struct store_row *row)
{
    hold->grip.session = store_row_integer(row, 0);
    store_row_into(hold->id, sizeof hold->id, row, 1);
}

void store_hold_add_recorded(struct store_hold *hold, const struct store_row *row)
{
    struct bl_arena *arena = &hold->job.output;
    store_texts_add(&hold->recorded, arena, store_row_copy(arena, row, 0));
}

int64_t store_hold_take_counters(struct store_hold *hold, const struct store_row *row, int column)
{
    struct bl_store_recovery *recovery = &hold->recovery;
    hold->turns_total = store_row_count(row, column);
    hold->usage = store_row_usage(row, column + 2);
    recovery->turns_total = hold->turns_total;
    store_row_into(recovery->last_turn, sizeof recovery->last_turn, row, column + 4);
    return store_row_integer(row, column + 1);
}

int store_hold_take_summary(struct store_hold *hold, const struct store_row *row,
                            struct bl_error *error)
{
    hold->summary = bl_turn_record_new();
    if (bl_messages_read(&hold->summary->arena, store_row_text(row, 0), &hold->summary->messages) ==
        0)
        return 0;
    return store_refuse_damaged(hold, BL_TEXT("the summary"), error);
}

int store_hold_add_turn(struct store_hold *hold, const struct store_row *row,
                        struct bl_error *error)
{
    struct bl_turn_record *record = bl_turn_record_new();
    bl_list_push_back(&hold->records, &record->link);
    if (bl_messages_read(&record->arena, store_row_text(row, 0), &record->messages) == 0)
        return 0;
    struct bl_text turn =
        bl_arena_printf(&hold->job.output, "turn %lld", (long long)store_row_integer(row, 1));
    return store_refuse_damaged(hold, turn, error);
}
