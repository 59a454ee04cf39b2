#include <inttypes.h>
#include <stdio.h>

#include <belay/record.h>

#include "view.h"

static void chat_receipt_write_unit(const struct bl_unit_row *unit, const struct chat_frame *frame,
                                    size_t indent)
{
    static const struct text_style dim = {.dim = true}, hard = {.colour = TEXT_YELLOW};
    const char *kind = unit->kind != NULL ? unit->kind : "";
    const char *fate = unit->fate != NULL ? unit->fate : "";
    bool killed = strcmp(fate, bl_fate_name(BL_FATE_KILLED)) == 0 ||
                  strcmp(fate, bl_fate_name(BL_FATE_UNKNOWN)) == 0;
    BL_AUTO_BUFFER(text, SIZE_MAX / 2);
    char duration[32];

    bl_receipt_ms_text(unit->ms, duration);
    bl_buffer_printf(&text, "%-5s %-8s %7s  ", kind, fate,
                     duration[0] != '\0' ? duration : "unknown");
    bl_buffer_append(&text, bl_text_from(unit->name != NULL ? unit->name : unit->id));
    if (unit->processes > 0)
        bl_buffer_printf(&text, ", %u process%s", unit->processes,
                         unit->processes == 1 ? "" : "es");
    if (unit->signal[0] != '\0')
        bl_buffer_printf(&text, ", %s", unit->signal);
    if (unit->detail != NULL)
        bl_buffer_printf(&text, ", %s", unit->detail);
    chat_line(frame, indent, bl_buffer_text(&text), killed ? &hard : &dim);
}

static void write_units(const struct bl_list *units, const struct chat_frame *frame, size_t indent)
{
    BL_LIST_EACH (link, units) {
        const struct bl_unit_row *unit = BL_CONTAINER(link, struct bl_unit_row, link);
        chat_receipt_write_unit(unit, frame, indent);
        write_units(&unit->units, frame, indent + 2);
    }
}

/* One alone is told by the line. */
static bool chat_receipt_has_several(const struct bl_list *units)
{
    return units->next != units->previous ||
           (!bl_list_empty(units) &&
            !bl_list_empty(&BL_CONTAINER(units->next, struct bl_unit_row, link)->units));
}

static void chat_receipt_write_background(struct bl_arena *arena, struct bl_text json,
                                          const struct chat_frame *frame, size_t indent)
{
    static const struct text_style dim = {.dim = true};
    const struct bl_json *jobs;
    struct bl_background_row job;

    if (bl_json_read(arena, json, NULL, &jobs, NULL) != 0)
        return;
    BL_JSON_EACH (value, jobs) {
        BL_AUTO_BUFFER(text, SIZE_MAX / 2);
        bl_record_take(arena, &bl_background_record, value, &job);
        bl_buffer_printf(&text, "goes on in the background: %s  " BL_TEXT_FORMAT,
                         job.id != NULL ? job.id : "", BL_TEXT_ARG(job.command));
        chat_line(frame, indent, bl_buffer_text(&text), &dim);
    }
}

bool chat_receipt(struct bl_text json, bool units, const struct chat_frame *frame, size_t indent)
{
    static const struct text_style good = {.bold = true}, bad = {.bold = true, .colour = TEXT_RED};
    const struct bl_json *value;
    struct bl_receipt_row receipt;
    BL_AUTO_ARENA(arena);
    BL_AUTO_BUFFER(line, SIZE_MAX / 2);
    char mark[] = "        ";

    if (bl_json_read(&arena, json, NULL, &value, NULL) != 0 || !bl_json_is(value, BL_JSON_OBJECT))
        return false;
    bl_record_take(&arena, &bl_receipt_record, value, &receipt);
    bl_receipt_row_line(&receipt, &line);
    mark[indent < sizeof mark - 1 ? indent : sizeof mark - 1] = '\0';
    chat_paragraph(frame, mark, bl_buffer_text(&line), receipt.survivors != 0 ? &bad : &good);
    if (units && chat_receipt_has_several(&receipt.units))
        write_units(&receipt.units, frame, indent + 2);
    chat_receipt_write_background(&arena, receipt.background, frame, indent + 2);
    return true;
}
