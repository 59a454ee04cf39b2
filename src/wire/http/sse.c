/* An event consists of lines. Most events of a model have one data line, which arrives in one piece
 * with the blank line after it. So the first data line of an event is held as a view into the
 * current piece. It is copied only when a second one follows, or when the piece ends before the
 * event. */
#include <belay/wire.h>

/* Largest buffer that is kept after an event. */
#define KEPT_MAX ((size_t)256 * 1024)

static const char byte_order_mark[3] = "\xEF\xBB\xBF";

/* One call of feed or end. */
struct feeding {
    struct bl_sse *sse;
    bl_sse_take *take;
    void *context;
    struct bl_text piece; /* lines outside it are valid only while they are taken */
    struct bl_text held;  /* data NULL: none */
};

void bl_sse_init(struct bl_sse *sse, size_t line_max, size_t event_max)
{
    bl_lines_init(&sse->lines, line_max);
    bl_buffer_init(&sse->data, event_max);
    bl_buffer_init(&sse->name, event_max);
    bl_buffer_init(&sse->id, event_max);
    bl_buffer_init(&sse->cleaned, event_max);
    sse->event_max = event_max;
    sse->retry_ms = -1;
    sse->bom_seen = 0;
}

void bl_sse_done(struct bl_sse *sse)
{
    bl_lines_done(&sse->lines);
    bl_buffer_done(&sse->data);
    bl_buffer_done(&sse->name);
    bl_buffer_done(&sse->id);
    bl_buffer_done(&sse->cleaned);
}

static void empty(struct bl_buffer *buffer)
{
    if (buffer->capacity > KEPT_MAX)
        bl_buffer_done(buffer);
    else
        bl_buffer_clear(buffer);
}

/* ---- Valid text ------------------------------------------------------------------------------ */

/* Returns the number of bytes that one U+FFFD replaces: the longest possible start of a sequence.
 */
static size_t broken_size(struct bl_text text)
{
    for (size_t size = text.size < 3 ? text.size : 3; size > 1; size--) {
        bool cut = false;
        if (bl_utf8_valid_prefix((struct bl_text){text.data, size}, &cut) == 0 && cut)
            return size;
    }
    return 1;
}

static int append_valid(struct bl_buffer *out, struct bl_text text)
{
    int code = 0;

    while (code == 0 && text.size > 0) {
        size_t good = bl_utf8_valid_prefix(text, NULL);
        code = bl_buffer_append(out, (struct bl_text){text.data, good});
        text.data += good;
        text.size -= good;
        if (code != 0 || text.size == 0)
            break;
        size_t bad = broken_size(text);
        code = bl_buffer_append(out, BL_TEXT("\xEF\xBF\xBD"));
        text.data += bad;
        text.size -= bad;
    }
    return code;
}

/* Makes both texts of an event valid UTF-8; uses `cleaned` if one is not. */
static int sse_clean(struct bl_sse *sse, struct bl_sse_event *event)
{
    if (bl_utf8_valid(event->data) && bl_utf8_valid(event->name))
        return 0;
    bl_buffer_clear(&sse->cleaned);
    int code = append_valid(&sse->cleaned, event->name);
    if (code != 0)
        return code;
    size_t name_size = sse->cleaned.size;
    code = append_valid(&sse->cleaned, event->data);
    if (code != 0)
        return code;
    event->name = (struct bl_text){sse->cleaned.data, name_size};
    event->data = (struct bl_text){sse->cleaned.data + name_size, sse->cleaned.size - name_size};
    return 0;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* Name, id and data share one limit. Each data line counts with its LF, held or not, because the
 * split into pieces must not matter. */
static bool sse_fits(const struct feeding *feeding, size_t more)
{
    const struct bl_sse *sse = feeding->sse;
    size_t held = feeding->held.data != NULL ? feeding->held.size + 1 : 0;
    size_t used = sse->data.size + sse->name.size + sse->id.size + held;

    return used <= sse->event_max && more <= sse->event_max - used;
}

static int append_data_line(struct bl_sse *sse, struct bl_text line)
{
    int code = bl_buffer_append(&sse->data, line);
    return code != 0 ? code : bl_buffer_append_byte(&sse->data, '\n');
}

static int release_held(struct feeding *feeding)
{
    if (feeding->held.data == NULL)
        return 0;
    struct bl_text held = feeding->held;
    feeding->held = (struct bl_text){NULL, 0};
    return append_data_line(feeding->sse, held);
}

static bool in_piece(const struct feeding *feeding, struct bl_text text)
{
    uintptr_t offset = (uintptr_t)text.data - (uintptr_t)feeding->piece.data;
    return offset <= feeding->piece.size && text.size <= feeding->piece.size - offset;
}

static int take_data(struct feeding *feeding, struct bl_text value)
{
    struct bl_sse *sse = feeding->sse;

    if (!sse_fits(feeding, value.size + 1))
        return BL_ELIMIT;
    if (sse->data.size == 0 && feeding->held.data == NULL && in_piece(feeding, value)) {
        feeding->held = value;
        return 0;
    }
    int code = release_held(feeding);
    return code != 0 ? code : append_data_line(sse, value);
}

static int replace(struct feeding *feeding, struct bl_buffer *field, struct bl_text value)
{
    bl_buffer_clear(field);
    if (!sse_fits(feeding, value.size))
        return BL_ELIMIT;
    return bl_buffer_append(field, value);
}

static void sse_take_retry(struct bl_sse *sse, struct bl_text value)
{
    int64_t retry_ms;

    if (value.size > 0 && value.data[0] != '-' && bl_text_to_int64(value, &retry_ms) == 0)
        sse->retry_ms = retry_ms;
}

static int take_field(struct feeding *feeding, struct bl_text line)
{
    struct bl_sse *sse = feeding->sse;
    const char *colon = memchr(line.data, ':', line.size);
    struct bl_text name = line, value = {line.data + line.size, 0};

    if (colon != NULL) {
        name.size = (size_t)(colon - line.data);
        value = (struct bl_text){colon + 1, line.size - name.size - 1};
        if (value.size > 0 && value.data[0] == ' ') {
            value.data++;
            value.size--;
        }
    }
    if (bl_text_equal(name, BL_TEXT("data")))
        return take_data(feeding, value);
    if (bl_text_equal(name, BL_TEXT("event")))
        return replace(feeding, &sse->name, value);
    if (bl_text_equal(name, BL_TEXT("id")) &&
        (value.size == 0 || memchr(value.data, '\0', value.size) == NULL))
        return replace(feeding, &sse->id, value);
    if (bl_text_equal(name, BL_TEXT("retry")))
        sse_take_retry(sse, value);
    return 0;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static bool has_event(const struct feeding *feeding)
{
    return feeding->held.data != NULL || feeding->sse->data.size > 0;
}

/* Returns the current event. BL_ELIMIT: it is too large after replacing invalid bytes. */
static int read_event(struct feeding *feeding, struct bl_sse_event *ret_event)
{
    struct bl_sse *sse = feeding->sse;

    ret_event->name = bl_buffer_text(&sse->name);
    ret_event->data = feeding->held;
    if (feeding->held.data == NULL)
        ret_event->data = (struct bl_text){sse->data.data, sse->data.size - 1};
    return sse_clean(sse, ret_event);
}

static void forget_event(struct feeding *feeding)
{
    struct bl_sse *sse = feeding->sse;

    feeding->held = (struct bl_text){NULL, 0};
    empty(&sse->data);
    empty(&sse->name);
    empty(&sse->cleaned);
}

static int dispatch(struct feeding *feeding)
{
    struct bl_sse_event event;
    int code = 0;

    if (has_event(feeding)) {
        code = read_event(feeding, &event);
        if (code == 0)
            code = feeding->take(feeding->context, &event);
    }
    forget_event(feeding);
    return code;
}

static int sse_take_line(void *context, struct bl_text line)
{
    struct feeding *feeding = context;

    if (line.size == 0)
        return dispatch(feeding);
    if (line.data[0] == ':')
        return 0;
    return take_field(feeding, line);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* Skips a leading byte order mark. If it is incomplete, its bytes are fed as input. */
static int skip_byte_order_mark(struct feeding *feeding, struct bl_text *bytes)
{
    struct bl_sse *sse = feeding->sse;

    while (sse->bom_seen < 3 && bytes->size > 0) {
        if (bytes->data[0] != byte_order_mark[sse->bom_seen]) {
            struct bl_text begun = {byte_order_mark, sse->bom_seen};
            sse->bom_seen = 3;
            return bl_lines_feed(&sse->lines, begun, sse_take_line, feeding);
        }
        sse->bom_seen++;
        bytes->data++;
        bytes->size--;
    }
    return 0;
}

int bl_sse_feed(struct bl_sse *sse, struct bl_text bytes, bl_sse_take *take, void *context)
{
    struct feeding feeding = {.sse = sse, .take = take, .context = context};
    int code = 0;

    if (sse->bom_seen < 3)
        code = skip_byte_order_mark(&feeding, &bytes);
    feeding.piece = bytes;
    if (code == 0)
        code = bl_lines_feed(&sse->lines, bytes, sse_take_line, &feeding);
    if (code == 0)
        code = release_held(&feeding);
    return code;
}

/* True if the data is complete. A number at the very end may have been cut: 12 of 123. */
static bool sse_complete(struct bl_text data, bool line_ended)
{
    BL_AUTO_ARENA(arena);
    const struct bl_json *value;

    if (bl_text_equal(bl_text_trim(data), BL_TEXT("[DONE]")))
        return true;
    bool whole = bl_json_read(&arena, data, NULL, &value, NULL) == 0;
    if (whole && !line_ended) {
        enum bl_json_type type = bl_json_type(value);
        whole = type != BL_JSON_INTEGER && type != BL_JSON_UNSIGNED && type != BL_JSON_DOUBLE;
    }
    return whole;
}

int bl_sse_end(struct bl_sse *sse, bl_sse_take *take, void *context)
{
    struct feeding feeding = {.sse = sse, .take = take, .context = context};
    struct bl_sse_event event;
    bool line_ended = sse->lines.pending.size == 0;
    int code = bl_lines_end(&sse->lines, sse_take_line, &feeding);

    if (code == 0 && has_event(&feeding)) {
        code = read_event(&feeding, &event);
        if (code == 0 && sse_complete(event.data, line_ended))
            code = take(context, &event);
    }
    forget_event(&feeding);
    return code;
}
