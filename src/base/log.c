/* One record is always one line of printable text: control characters, code points that move the
 * cursor or change the writing direction, and bytes that are not UTF-8 are written as escapes. */
#include <belay/base.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The longest line for a descriptor, and the limits for its parts if it would be longer. At six
 * bytes per escape, 16 fields and the message fit the line. */
#define LINE_MAX_SIZE   ((size_t)65536)
#define CUT_VALUE_MAX   ((size_t)512)
#define CUT_NAME_MAX    ((size_t)64)
#define CUT_FIELD_COUNT ((size_t)16)
#define PLACE_SIZE      320

struct limits {
    size_t value_max;
    size_t name_max;
};

static const char *const level_names[] = {
#define LEVEL_NAME(name, text) text,
    BL_LOG_LEVEL_TABLE(LEVEL_NAME)
#undef LEVEL_NAME
};

static const char *const room_names[] = {
#define ROOM_NAME(name, text) text,
    BL_LOG_ROOM_TABLE(ROOM_NAME)
#undef ROOM_NAME
};

const struct bl_names bl_log_level_names = BL_NAMES(level_names);
const struct bl_names bl_log_room_names = BL_NAMES(room_names);

unsigned char bl_log_levels[BL_LOG_ROOM_COUNT];
static struct bl_log_sink log_sink;
static void (*log_place)(char *out, size_t out_size);

void bl_log_open(const struct bl_log_sink *sink)
{
    log_sink = sink != NULL ? *sink : (struct bl_log_sink){0};
}

void bl_log_set_place(void (*place)(char *out, size_t out_size))
{
    __atomic_store_n(&log_place, place, __ATOMIC_RELEASE);
}

void bl_log_write(enum bl_log_room room, enum bl_log_level level, const char *message,
                  const struct bl_log_field *fields, size_t field_count)
{
    char place[PLACE_SIZE] = "";
    if (log_sink.write == NULL)
        return;
    void (*find_place)(char *, size_t) = __atomic_load_n(&log_place, __ATOMIC_ACQUIRE);
    if (find_place != NULL)
        find_place(place, sizeof place);
    const struct bl_log_record record = {
        .wall_ns = bl_clock_wall_ns(log_sink.clock != NULL ? log_sink.clock : &bl_clock_system),
        .room = room,
        .level = level,
        .message = message,
        .place = place,
        .fields = fields,
        .field_count = field_count,
    };
    log_sink.write(log_sink.context, &record);
}

/* ---- Levels ---------------------------------------------------------------------------------- */

/* Sets the error "… (expected one of: off, error, …)" and suggests the closest name. */
static int log_refuse(const char *what, struct bl_text name, const struct bl_names *names,
                      struct bl_error *error)
{
    char word[48], expected[160] = "";
    struct bl_suggestion suggestion;
    size_t size = 0;
    snprintf(word, sizeof word, BL_TEXT_FORMAT, BL_TEXT_ARG(name));
    bl_suggestion_init(&suggestion, word);
    for (size_t i = 0; i < names->count && size < sizeof expected; i++) {
        bl_suggestion_offer(&suggestion, names->names[i]);
        size += (size_t)snprintf(expected + size, sizeof expected - size, "%s%s", i > 0 ? ", " : "",
                                 names->names[i]);
    }
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read log levels", word,
                 "unknown %s '%s' (expected one of: %s)", what, word, expected);
    if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(error, "write LEVEL for all rooms, or ROOM=LEVEL: 'info,proc=trace'");
    return BL_EINVAL;
}

/* Applies one item: "debug" or "wire=trace". */
static int log_take_level(struct bl_text item, unsigned char levels[BL_LOG_ROOM_COUNT],
                          struct bl_error *error)
{
    const char *equals = memchr(item.data, '=', item.size);
    size_t room = 0, level, before = equals != NULL ? (size_t)(equals - item.data) : 0;
    struct bl_text room_name = {item.data, before}, level_name = item;
    if (equals != NULL) {
        level_name = (struct bl_text){equals + 1, item.size - before - 1};
        if (!bl_names_find(&bl_log_room_names, room_name, &room))
            return log_refuse("room", room_name, &bl_log_room_names, error);
    }
    if (!bl_names_find(&bl_log_level_names, level_name, &level))
        return log_refuse("level", level_name, &bl_log_level_names, error);
    if (equals != NULL)
        levels[room] = (unsigned char)level;
    else
        memset(levels, (int)level, BL_LOG_ROOM_COUNT);
    return 0;
}

int bl_log_set_levels(const char *text, struct bl_error *error)
{
    unsigned char levels[BL_LOG_ROOM_COUNT] = {0};
    struct bl_text rest = bl_text_from(text);
    while (rest.size > 0) {
        const char *comma = memchr(rest.data, ',', rest.size);
        size_t size = comma != NULL ? (size_t)(comma - rest.data) : rest.size;
        int code = log_take_level((struct bl_text){rest.data, size}, levels, error);
        if (code != 0)
            return code;
        size += comma != NULL;
        rest = (struct bl_text){rest.data + size, rest.size - size};
    }
    for (size_t i = 0; i < BL_COUNT(levels); i++)
        __atomic_store_n(&bl_log_levels[i], levels[i], __ATOMIC_RELAXED);
    return 0;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Appends one code point, escaped if necessary. Inside quotes, the quote and the backslash are
 * escaped too. */
static int put_code_point(struct bl_buffer *out, struct bl_text bytes, uint32_t code_point,
                          bool quoted)
{
    if (quoted && (code_point == '"' || code_point == '\\'))
        return bl_buffer_printf(out, "\\%c", (int)code_point);
    if (code_point == '\n')
        return bl_buffer_append(out, BL_TEXT("\\n"));
    if (code_point == '\r')
        return bl_buffer_append(out, BL_TEXT("\\r"));
    if (code_point == '\t')
        return bl_buffer_append(out, BL_TEXT("\\t"));
    if (bl_utf8_unsafe(code_point))
        return bl_buffer_printf(out, "\\u%04" PRIx32, code_point);
    return bl_buffer_append(out, bytes);
}

/* Appends a text and escapes its unsafe parts: `\n`, `\u001b`, and `\xff` for a byte that is not
 * UTF-8. */
static int put_escaped(struct bl_buffer *out, struct bl_text text, bool quoted)
{
    int result = 0;
    while (text.size > 0 && result == 0) {
        uint32_t code_point;
        size_t length = bl_utf8_decode(text, &code_point);
        if (length == 0) {
            length = 1;
            result = bl_buffer_printf(out, "\\x%02x", (unsigned char)text.data[0]);
        } else {
            result = put_code_point(out, (struct bl_text){text.data, length}, code_point, quoted);
        }
        text = (struct bl_text){text.data + length, text.size - length};
    }
    return result;
}

/* True if a value must be quoted to be read back from between `=` and the next space. */
static bool needs_quotes(struct bl_text text)
{
    if (text.size == 0)
        return true;
    while (text.size > 0) {
        uint32_t code_point;
        size_t length = bl_utf8_decode(text, &code_point);
        if (length == 0 || code_point == ' ' || code_point == '"' || code_point == '=' ||
            bl_utf8_unsafe(code_point))
            return true;
        text = (struct bl_text){text.data + length, text.size - length};
    }
    return false;
}

static int base_log_put_text(struct bl_buffer *out, struct bl_text text, size_t maximum)
{
    struct bl_text kept = text.size > maximum ? bl_utf8_cut(text, maximum) : text;
    struct bl_text dots = kept.size < text.size ? BL_TEXT("...") : BL_TEXT("");
    int result;
    if (!needs_quotes(kept)) {
        result = bl_buffer_append(out, kept);
        return result < 0 ? result : bl_buffer_append(out, dots);
    }
    result = bl_buffer_append_byte(out, '"');
    if (result == 0)
        result = put_escaped(out, kept, true);
    if (result == 0)
        result = bl_buffer_append(out, dots);
    return result < 0 ? result : bl_buffer_append_byte(out, '"');
}

/* Appends the number with the fewest of 15 to 17 digits that read back the same. A decimal comma
 * from the program's locale becomes a point. */
static int base_log_put_number(struct bl_buffer *out, double number)
{
    char digits[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        if (strtod(digits, NULL) == number)
            break;
    }
    char *comma = strchr(digits, ',');
    if (comma != NULL)
        *comma = '.';
    return bl_buffer_append(out, bl_text_from(digits));
}

/* Appends ` name=`. A character that could be mistaken for the end of a name becomes `_`. */
static int base_log_put_name(struct bl_buffer *out, const char *name, size_t maximum)
{
    struct bl_text text = bl_text_from(name);
    int result = bl_buffer_append_byte(out, ' ');
    if (text.size == 0)
        text = BL_TEXT("_");
    for (size_t i = 0; i < text.size && i < maximum && result == 0; i++) {
        char byte = text.data[i];
        bool plain = byte > ' ' && byte < 0x7F && byte != '=' && byte != '"';
        result = bl_buffer_append_byte(out, plain ? byte : '_');
    }
    return result < 0 ? result : bl_buffer_append_byte(out, '=');
}

static int put_field(struct bl_buffer *out, const struct bl_log_field *field,
                     const struct limits *limits)
{
    int result = base_log_put_name(out, field->name, limits->name_max);
    if (result < 0)
        return result;
    switch (field->type) {
    case BL_FIELD_TEXT: return base_log_put_text(out, field->text, limits->value_max);
    case BL_FIELD_INTEGER: return bl_buffer_printf(out, "%" PRId64, field->integer);
    case BL_FIELD_NUMBER: return base_log_put_number(out, field->number);
    case BL_FIELD_BOOLEAN:
        return bl_buffer_append(out, field->integer != 0 ? BL_TEXT("true") : BL_TEXT("false"));
    }
    return 0;
}

/* Appends the line, or nothing if it would exceed the buffer's maximum. */
static int base_log_put_line(struct bl_buffer *out, const struct bl_log_record *record,
                             const struct limits *limits)
{
    size_t before = out->size;
    char time[32];
    bl_time_format(record->wall_ns, time);
    struct bl_text message = bl_text_from(record->message);
    if (message.size > limits->value_max)
        message = bl_utf8_cut(message, limits->value_max);

    int result =
        bl_buffer_printf(out, "%s %s %s ", time, bl_names_get(&bl_log_level_names, record->level),
                         bl_names_get(&bl_log_room_names, record->room));
    if (result == 0)
        result = put_escaped(out, message, false);
    if (result == 0 && record->place != NULL && record->place[0] != '\0')
        result = put_field(out, &BL_LOG_STRING("in", record->place), limits);
    for (size_t i = 0; i < record->field_count && result == 0; i++)
        result = put_field(out, &record->fields[i], limits);
    if (result == 0)
        result = bl_buffer_append_byte(out, '\n');
    if (result < 0)
        out->size = before;
    return result;
}

int bl_log_format(const struct bl_log_record *record, struct bl_buffer *out)
{
    return base_log_put_line(out, record, &(struct limits){SIZE_MAX, SIZE_MAX});
}

/* The parts of a line that would be too long are truncated. A line that cannot be written is lost,
 * since there is no place to report that. Preserves errno, so that code can log between a failing
 * call and the check of its errno. */
void bl_log_write_fd(void *context, const struct bl_log_record *record)
{
    int before = errno;
    struct bl_buffer line;
    bl_buffer_init(&line, LINE_MAX_SIZE);
    if (bl_log_format(record, &line) < 0) {
        struct bl_log_record cut = *record;
        if (cut.field_count > CUT_FIELD_COUNT)
            cut.field_count = CUT_FIELD_COUNT;
        base_log_put_line(&line, &cut, &(struct limits){CUT_VALUE_MAX, CUT_NAME_MAX});
    }
    ssize_t written;
    do
        written = write((int)(intptr_t)context, line.data, line.size);
    while (written < 0 && errno == EINTR);
    bl_buffer_done(&line);
    errno = before;
}
