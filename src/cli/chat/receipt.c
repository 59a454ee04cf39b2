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

/* True if there are several units; a single one is already in the line. */
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
        bl_buffer_printf(&text, "continues in the background: %s  " BL_TEXT_FORMAT,
                         job.id != NULL ? job.id : "", BL_TEXT_ARG(job.command));
        chat_line(frame, indent, bl_buffer_text(&text), &dim);
    }
}

/* Writes where the turn was stopped and the result of the stop, each on a line of its own. */
static void chat_receipt_write_line(struct bl_text line, const char *mark, bool whole,
                                    const struct chat_frame *frame)
{
    static const struct text_style good = {.bold = true}, bad = {.bold = true, .colour = TEXT_RED};
    static const char next[] = ". Stopped ";
    const char *end = memmem(line.data, line.size, next, sizeof next - 1);
    const struct text_style *style = whole ? &good : &bad;

    if (end != NULL) {
        size_t size = (size_t)(end - line.data);
        chat_paragraph(frame, mark, (struct bl_text){line.data, size + 1}, style);
        line = (struct bl_text){end + 2, line.size - size - 2};
    }
    chat_paragraph(frame, mark, line, style);
}

bool chat_receipt(struct bl_text json, const struct bl_turn_result *turn, bool units,
                  const struct chat_frame *frame, size_t indent)
{
    const struct bl_json *value;
    struct bl_receipt_row receipt;
    BL_AUTO_ARENA(arena);
    BL_AUTO_BUFFER(line, SIZE_MAX / 2);
    char mark[] = "        ";

    if (bl_json_read(&arena, json, NULL, &value, NULL) != 0 || !bl_json_is(value, BL_JSON_OBJECT))
        return false;
    bl_record_take(&arena, &bl_receipt_record, value, &receipt);
    bl_stop_line(&receipt, turn,
                 turn != NULL ? receipt.requested_wall_ns - turn->started_wall_ns : 0, &line);
    mark[indent < sizeof mark - 1 ? indent : sizeof mark - 1] = '\0';
    chat_receipt_write_line(bl_buffer_text(&line), mark, receipt.survivors == 0, frame);
    if (units && chat_receipt_has_several(&receipt.units))
        write_units(&receipt.units, frame, indent + 2);
    chat_receipt_write_background(&arena, receipt.background, frame, indent + 2);
    return true;
}

bool chat_receipt_of_job(const struct bl_event *event)
{
    return event->type == BL_EVENT_RECEIPT && event->agent == NULL &&
           bl_text_starts_with(event->id, BL_TEXT("job_"));
}

void chat_receipt_show_job(struct chat_view *view, const struct bl_event *event)
{
    BL_AUTO_ARENA(arena);
    static const struct text_style plain = {0};

    chat_view_say(view,
                  bl_arena_printf(&arena, "The background command " BL_TEXT_FORMAT ":",
                                  BL_TEXT_ARG(bl_utf8_cut(event->id, 64))),
                  &plain);
    chat_view_receipt(view, event->json);
}
