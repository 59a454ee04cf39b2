#include <inttypes.h>
#include <stdio.h>

#include "view.h"

#define DEPTH_MAX 8u

static void chat_receipt_write_unit(const struct bl_json *unit, const struct chat_frame *frame,
                                    size_t indent)
{
    static const struct text_style dim = {.dim = true}, hard = {.colour = TEXT_YELLOW};
    struct bl_text kind = bl_json_text(bl_json_get(unit, BL_TEXT("kind")));
    struct bl_text fate = bl_json_text(bl_json_get(unit, BL_TEXT("fate")));
    struct bl_text name = bl_json_text(bl_json_get(unit, BL_TEXT("name")));
    struct bl_text detail = bl_json_text(bl_json_get(unit, BL_TEXT("detail")));
    struct bl_text ended_by = bl_json_text(bl_json_get(unit, BL_TEXT("signal")));
    uint64_t processes = cli_receipt_number(unit, BL_TEXT("processes"));
    bool killed = bl_text_equal(fate, BL_TEXT("killed")) || bl_text_equal(fate, BL_TEXT("unknown"));
    BL_AUTO_BUFFER(text, SIZE_MAX / 2);
    char duration[32];

    if (name.size == 0)
        name = bl_json_text(bl_json_get(unit, BL_TEXT("id")));
    cli_receipt_ms(unit, BL_TEXT("ms"), duration);
    bl_buffer_printf(&text, "%-5.*s %-8.*s %7s  ", BL_TEXT_ARG(kind), BL_TEXT_ARG(fate), duration);
    bl_buffer_append(&text, name);
    if (processes > 0)
        bl_buffer_printf(&text, ", %" PRIu64 " process%s", processes, processes == 1 ? "" : "es");
    if (ended_by.size > 0)
        bl_buffer_printf(&text, ", " BL_TEXT_FORMAT, BL_TEXT_ARG(ended_by));
    if (detail.size > 0)
        bl_buffer_printf(&text, ", " BL_TEXT_FORMAT, BL_TEXT_ARG(detail));
    chat_line(frame, indent, bl_buffer_text(&text), killed ? &hard : &dim);
}

static void write_units(const struct bl_json *units, const struct chat_frame *frame, size_t indent,
                        unsigned depth)
{
    BL_JSON_EACH (unit, units) {
        chat_receipt_write_unit(unit, frame, indent);
        if (depth < DEPTH_MAX)
            write_units(bl_json_get(unit, BL_TEXT("units")), frame, indent + 2, depth + 1);
    }
}

static void chat_receipt_write_background(const struct bl_json *jobs,
                                          const struct chat_frame *frame, size_t indent)
{
    static const struct text_style dim = {.dim = true};

    BL_JSON_EACH (job, jobs) {
        struct bl_text id = bl_json_text(bl_json_get(job, BL_TEXT("id")));
        struct bl_text command = bl_json_text(bl_json_get(job, BL_TEXT("command")));
        struct bl_buffer text;
        bl_buffer_init(&text, SIZE_MAX / 2);
        bl_buffer_printf(&text, "goes on in the background: " BL_TEXT_FORMAT "  " BL_TEXT_FORMAT,
                         BL_TEXT_ARG(id), BL_TEXT_ARG(command));
        chat_line(frame, indent, bl_buffer_text(&text), &dim);
        bl_buffer_done(&text);
    }
}

bool chat_receipt(struct bl_text json, bool units, const struct chat_frame *frame, size_t indent)
{
    static const struct text_style good = {.bold = true}, bad = {.bold = true, .colour = TEXT_RED};
    const struct bl_json *receipt;
    BL_AUTO_ARENA(arena);
    struct bl_buffer line;
    char mark[] = "        ";

    bool read = bl_json_read(&arena, json, NULL, &receipt, NULL) == 0 &&
                bl_json_is(receipt, BL_JSON_OBJECT);
    if (read) {
        bl_buffer_init(&line, SIZE_MAX / 2);
        uint64_t count = cli_receipt_line(receipt, &line);
        mark[indent < sizeof mark - 1 ? indent : sizeof mark - 1] = '\0';
        chat_paragraph(frame, mark, bl_buffer_text(&line),
                       bl_survivors_read(receipt, NULL) != 0 ? &bad : &good);
        bl_buffer_done(&line);
        if (units && count > 1)
            write_units(bl_json_get(receipt, BL_TEXT("units")), frame, indent + 2, 0);
        chat_receipt_write_background(bl_json_get(receipt, BL_TEXT("background")), frame,
                                      indent + 2);
    }
    return read;
}
