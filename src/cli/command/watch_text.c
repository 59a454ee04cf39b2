#include "watch.h"

#include "cli/cli.h"

#define SAID_MAX   ((size_t)64 * 1024 * 1024)
#define PIECE_MAX  240u /* bytes of one text within a line */
#define TIME_BEGIN 11u  /* offset of the time of day in a timestamp */
#define TIME_SIZE  8u

void watch_text_init(struct watch_text *text, bool all)
{
    *text = (struct watch_text){.all = all};
    bl_buffer_init(&text->said, SAID_MAX);
    bl_buffer_init(&text->source, SAID_MAX);
}

void watch_text_done(struct watch_text *text)
{
    bl_buffer_done(&text->said);
    bl_buffer_done(&text->source);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static struct bl_text watch_text_member(const struct bl_json *event, const char *key)
{
    return bl_json_text(bl_json_get(event, bl_text_from(key)));
}

/* Appends `before` and the beginning of the text; nothing if the text is empty. */
static void put_piece(struct bl_buffer *out, const char *before, struct bl_text text)
{
    text = bl_text_trim(text);
    struct bl_text cut = bl_utf8_cut(text, PIECE_MAX);

    if (text.size == 0)
        return;
    bl_buffer_append(out, bl_text_from(before));
    bl_text_show(out, cut, BL_SHOW_LINE);
    if (cut.size < text.size)
        bl_buffer_append(out, BL_TEXT("…"));
}

static void put_ms(struct bl_buffer *out, const struct bl_json *event)
{
    int64_t ms;
    char duration[32];

    if (!bl_json_int64(bl_json_get(event, BL_TEXT("ms")), &ms) || ms < 0 || ms > INT32_MAX)
        return;
    bl_duration_format(ms * (int64_t)BL_NS_PER_MS, duration);
    bl_buffer_printf(out, " after %s", duration);
}

/* ---- One function per event ------------------------------------------------------------------ */

static void say_tool(const struct bl_json *event, struct bl_buffer *out)
{
    put_piece(out, "tool ", watch_text_member(event, "name"));
    put_piece(out, " ", watch_text_member(event, "id"));
    put_piece(out, " ", watch_text_member(event, "status"));
    put_ms(out, event);
}

static void say_requested(const struct bl_json *event, struct bl_buffer *out)
{
    struct bl_arena arena = {0};

    put_piece(out, "requests ", watch_text_member(event, "name"));
    put_piece(out, " ", bl_json_value_text(&arena, bl_json_get(event, BL_TEXT("input"))));
    bl_arena_done(&arena);
}

static void say_permission(const struct bl_json *event, struct bl_buffer *out)
{
    put_piece(out, "permission for ", watch_text_member(event, "name"));
    put_piece(out, ": ", watch_text_member(event, "answer"));
    put_piece(out, ": ", watch_text_member(event, "text"));
    put_piece(out, ": ", watch_text_member(event, "reason"));
}

static void say_child(const struct bl_json *event, struct bl_buffer *out)
{
    put_piece(out, "sub-agent ", watch_text_member(event, "child"));
    put_piece(out, ": ", watch_text_member(event, "prompt"));
    put_piece(out, ": ", watch_text_member(event, "stop_reason"));
    put_ms(out, event);
}

static void watch_text_say_cell(const struct bl_json *event, struct bl_buffer *out)
{
    put_piece(out, "cell ", watch_text_member(event, "cell"));
    put_piece(out, " ", watch_text_member(event, "status"));
}

static void say_prompt(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("turn started"));
    put_piece(out, ": ", watch_text_member(event, "prompt"));
}

static void say_injected(const struct bl_json *event, struct bl_buffer *out)
{
    put_piece(out, "message: ", watch_text_member(event, "text"));
}

static void say_undelivered(const struct bl_json *event, struct bl_buffer *out)
{
    put_piece(out, "message not delivered: ", watch_text_member(event, "text"));
}

static void say_finish(const struct bl_json *event, struct bl_buffer *out)
{
    put_piece(out, "stops after this step, by ", watch_text_member(event, "origin"));
}

static void say_stop(const struct bl_json *event, struct bl_buffer *out)
{
    put_piece(out, "stop requested: ", watch_text_member(event, "reason"));
    put_piece(out, ", by ", watch_text_member(event, "origin"));
}

static void watch_text_say_receipt(const struct bl_json *event, struct bl_buffer *out)
{
    cli_receipt_line(bl_json_get(event, BL_TEXT("receipt")), out);
}

static void watch_text_say_turn_ended(const struct bl_json *event, struct bl_buffer *out)
{
    put_piece(out, "turn ended: ",
              watch_text_member(bl_json_get(event, BL_TEXT("result")), "stop_reason"));
}

static void say_run_ended(const struct bl_json *event, struct bl_buffer *out)
{
    put_piece(out, "run ended: ", watch_text_member(event, "stop_reason"));
}

static void watch_text_say_retry(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("the model call is retried"));
    put_piece(out, ": ", watch_text_member(event, "code"));
}

static void say_compacted(const struct bl_json *event, struct bl_buffer *out)
{
    (void)event;
    bl_buffer_append(out, BL_TEXT("earlier turns were compacted"));
}

static void watch_text_say_warning(const struct bl_json *event, struct bl_buffer *out)
{
    put_piece(out, "warning: ", watch_text_member(event, "message"));
}

static void watch_text_say_error(const struct bl_json *event, struct bl_buffer *out)
{
    put_piece(out, "error: ", watch_text_member(bl_json_get(event, BL_TEXT("error")), "message"));
}

/* Events that are not listed here are not shown. */
static const struct {
    const char *type;
    void (*say)(const struct bl_json *event, struct bl_buffer *out);
} rows[] = {
    {"turn_started", say_prompt},
    {"tool_requested", say_requested},
    {"permission_asked", say_permission},
    {"permission_answered", say_permission},
    {"tool_ended", say_tool},
    {"subagent_started", say_child},
    {"subagent_ended", say_child},
    {"cell_created", watch_text_say_cell},
    {"cell_ended", watch_text_say_cell},
    {"cell_settled", watch_text_say_cell},
    {"message_injected", say_injected},
    {"message_undelivered", say_undelivered},
    {"finish_requested", say_finish},
    {"compacted", say_compacted},
    {"retry", watch_text_say_retry},
    {"cancel_requested", say_stop},
    {"receipt", watch_text_say_receipt},
    {"turn_ended", watch_text_say_turn_ended},
    {"run_ended", say_run_ended},
    {"warning", watch_text_say_warning},
    {"error", watch_text_say_error},
};

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Appends the time and the source: "18:50:07 nightly agt_…: ". */
static void watch_text_put_head(const struct watch_text *text, const struct bl_json *event,
                                struct bl_buffer *out)
{
    struct bl_text time = watch_text_member(event, "time");
    struct bl_text agent = watch_text_member(event, "agent");

    if (time.size >= TIME_BEGIN + TIME_SIZE) {
        bl_text_show(out, (struct bl_text){time.data + TIME_BEGIN, TIME_SIZE}, BL_SHOW_LINE);
        bl_buffer_append_byte(out, ' ');
    }
    if (text->all) {
        bl_text_show(out, watch_text_member(event, "session"), BL_SHOW_LINE);
        bl_buffer_append(out, agent.size > 0 ? BL_TEXT(" ") : BL_TEXT(": "));
    }
    if (agent.size > 0) {
        bl_text_show(out, agent, BL_SHOW_LINE);
        bl_buffer_append(out, BL_TEXT(": "));
    }
}

static void watch_text_put_said(struct bl_buffer *out, struct bl_text line)
{
    bl_buffer_append(out, BL_TEXT("  "));
    bl_text_show(out, line, BL_SHOW_LINE);
    bl_buffer_append_byte(out, '\n');
}

void watch_text_end(struct watch_text *text, struct bl_buffer *out)
{
    if (text->said.size > 0)
        watch_text_put_said(out, bl_buffer_text(&text->said));
    bl_buffer_clear(&text->said);
}

/* Appends whole lines. The rest is kept until its line ends or another source has output. */
static void add_said(struct watch_text *text, const struct bl_json *event, struct bl_buffer *out)
{
    struct bl_arena arena = {0};
    struct bl_text piece = watch_text_member(event, "text"),
                   agent = watch_text_member(event, "agent"), call = watch_text_member(event, "id"),
                   session = watch_text_member(event, "session");
    struct bl_text source =
        bl_arena_printf(&arena, BL_TEXT_FORMAT " " BL_TEXT_FORMAT " " BL_TEXT_FORMAT,
                        BL_TEXT_ARG(session), BL_TEXT_ARG(agent), BL_TEXT_ARG(call));

    if (!bl_text_equal(bl_buffer_text(&text->source), source)) {
        watch_text_end(text, out);
        bl_buffer_clear(&text->source);
        bl_buffer_append(&text->source, source);
    }
    bl_buffer_append(&text->said, piece);
    struct bl_text rest = bl_buffer_text(&text->said);
    const char *end;
    while (rest.size > 0 && (end = memchr(rest.data, '\n', rest.size)) != NULL) {
        size_t size = (size_t)(end - rest.data);
        watch_text_put_said(out, (struct bl_text){rest.data, size});
        rest = (struct bl_text){end + 1, rest.size - size - 1};
    }
    bl_buffer_consume(&text->said, text->said.size - rest.size);
    bl_arena_done(&arena);
}

void watch_text_event(struct watch_text *text, const struct bl_json *event, struct bl_buffer *out)
{
    struct bl_text type = watch_text_member(event, "type");

    if (bl_text_equal(type, BL_TEXT("text_delta")) || bl_text_equal(type, BL_TEXT("tool_output"))) {
        add_said(text, event, out);
        return;
    }
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        if (!bl_text_equal(type, bl_text_from(rows[i].type)))
            continue;
        watch_text_end(text, out);
        watch_text_put_head(text, event, out);
        rows[i].say(event, out);
        bl_buffer_append_byte(out, '\n');
    }
}
