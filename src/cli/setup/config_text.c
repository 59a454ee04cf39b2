/* Design notes. A member is set in place in the text, so that comments and order stay as written.
 * The new text is then parsed and compared with the old one: if any other member has changed, the
 * edit is refused. */
#include <belay/json.h>

#include "setup.h"

#define OPERATION "set a member of the configuration"
#define PARTS_MAX 8u

/* The member's name, split into parts, and its place in the text. */
struct config_text {
    struct bl_arena *arena;
    struct bl_text text;
    struct bl_document document;
    struct bl_text parts[PARTS_MAX];
    size_t count;
    size_t met;                   /* number of parts that exist */
    const struct bl_json *parent; /* the object with the last existing part; NULL: the document */
    const struct bl_json *key;    /* key of the last existing part; NULL if none exists */
    struct bl_text value;         /* as written to the file */
    struct bl_error *error;
};

static int config_text_refuse(struct config_text *edit, const char *why)
{
    struct bl_text last = edit->parts[edit->count - 1];

    bl_error_set(edit->error, BL_EINVAL, BL_KIND_USAGE, OPERATION, NULL,
                 "cannot set '" BL_TEXT_FORMAT "': %s", BL_TEXT_ARG(bl_utf8_cut(last, 60)), why);
    bl_error_hint(edit->error, "use 'belay config edit'");
    return BL_EINVAL;
}

static const struct bl_json *config_text_key(const struct bl_json *object, struct bl_text name)
{
    BL_JSON_MEMBERS (key, object) {
        if (bl_text_equal(bl_json_text(key), name))
            return key;
    }
    return NULL;
}

const struct bl_json *config_text_find(const struct bl_json *root, struct bl_text key)
{
    struct bl_text part;

    while (root != NULL && bl_text_split(&key, '.', &part))
        root = bl_json_is(root, BL_JSON_OBJECT) ? bl_json_get(root, part) : NULL;
    return root;
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* Returns the offset of a line. */
static size_t config_text_line(struct bl_text text, uint32_t line)
{
    size_t at = 0;

    for (uint32_t i = 1; i < line; i++) {
        const char *end = memchr(text.data + at, '\n', text.size - at);
        if (end == NULL)
            return text.size;
        at = (size_t)(end - text.data) + 1;
    }
    return at;
}

static size_t config_text_at(const struct config_text *edit, const struct bl_json *node)
{
    struct bl_document_place place = bl_document_place(&edit->document, node);

    return config_text_line(edit->text, place.line) + place.column - 1;
}

static size_t config_text_line_end(struct bl_text text, size_t at)
{
    const char *end = at < text.size ? memchr(text.data + at, '\n', text.size - at) : NULL;

    return end != NULL ? (size_t)(end - text.data) : text.size;
}

/* Returns the end of the quoted text that begins at `at`, at most the end of its line. */
static size_t config_text_quoted_end(struct bl_text text, size_t at)
{
    char quote = text.data[at];

    for (at++; at < text.size && text.data[at] != '\n'; at++) {
        if (text.data[at] == '\\' && quote == '"')
            at++;
        else if (text.data[at] == quote)
            return at + 1;
    }
    return at < text.size ? at : text.size;
}

/* Returns the end of a list or mapping in brackets. */
static size_t config_text_flow_end(struct bl_text text, size_t at)
{
    unsigned depth = 0;

    while (at < text.size && text.data[at] != '\n') {
        char byte = text.data[at];
        if (byte == '"' || byte == '\'') {
            at = config_text_quoted_end(text, at);
            continue;
        }
        at++;
        if (byte == '[' || byte == '{')
            depth++;
        else if ((byte == ']' || byte == '}') && --depth == 0)
            return at;
    }
    return at;
}

/* Returns the end of the value that begins at `at`, before any comment. */
static size_t config_text_value_end(struct bl_text text, size_t at, bool flow)
{
    size_t end = config_text_line_end(text, at);

    if (at < end && (text.data[at] == '"' || text.data[at] == '\''))
        return config_text_quoted_end(text, at);
    if (at < end && (text.data[at] == '[' || text.data[at] == '{'))
        return config_text_flow_end(text, at);
    for (size_t i = at; i < end; i++) {
        bool comment = text.data[i] == '#' && i > at && text.data[i - 1] == ' ';
        bool closed = flow && memchr(",]}", text.data[i], 3) != NULL;
        if (comment || closed)
            end = i;
    }
    while (end > at && (text.data[end - 1] == ' ' || text.data[end - 1] == '\r'))
        end--;
    return end;
}

/* Returns the offset after the colon of the key that begins at `at`. */
static size_t config_text_after_key(struct bl_text text, size_t at)
{
    size_t end = config_text_line_end(text, at);

    if (at < end && (text.data[at] == '"' || text.data[at] == '\''))
        at = config_text_quoted_end(text, at);
    while (at < end && text.data[at] != ':')
        at++;
    return at < end ? at + 1 : end;
}

static bool config_text_is_flow(const struct config_text *edit, const struct bl_json *object)
{
    size_t at = object != NULL ? config_text_at(edit, object) : edit->text.size;

    return at < edit->text.size && edit->text.data[at] == '{';
}

/* ---- Changes --------------------------------------------------------------------------------- */

static struct bl_text config_text_splice(struct config_text *edit, size_t from, size_t to,
                                         struct bl_text with)
{
    return bl_arena_printf(edit->arena, BL_TEXT_FORMAT BL_TEXT_FORMAT BL_TEXT_FORMAT, (int)from,
                           edit->text.data, BL_TEXT_ARG(with), (int)(edit->text.size - to),
                           edit->text.data + to);
}

static struct bl_text config_text_replace(struct config_text *edit)
{
    struct bl_text text = edit->text;
    size_t from = config_text_after_key(text, config_text_at(edit, edit->key));
    size_t end = config_text_line_end(text, from);

    while (from < end && text.data[from] == ' ')
        from++;
    size_t to = from < end && text.data[from] == '#'
                    ? from
                    : config_text_value_end(text, from, config_text_is_flow(edit, edit->parent));
    bool bare = from > 0 && text.data[from - 1] == ':';
    return config_text_splice(edit, from, to,
                              bl_arena_printf(edit->arena, "%s" BL_TEXT_FORMAT "%s",
                                              bare ? " " : "", BL_TEXT_ARG(edit->value),
                                              to < end && text.data[to] == '#' ? " " : ""));
}

/* Returns lines for the missing parts, each below the one before and indented further. */
static struct bl_text config_text_lines(struct config_text *edit, size_t indent)
{
    struct bl_text lines = {0};

    for (size_t i = edit->met; i < edit->count; i++) {
        bool last = i + 1 == edit->count;
        lines = bl_arena_printf(
            edit->arena, BL_TEXT_FORMAT "%*s" BL_TEXT_FORMAT ":%s" BL_TEXT_FORMAT "\n",
            BL_TEXT_ARG(lines), (int)indent, "", BL_TEXT_ARG(edit->parts[i]), last ? " " : "",
            BL_TEXT_ARG(last ? edit->value : (struct bl_text){0}));
        indent += 2;
    }
    return lines;
}

/* Inserts into a mapping in braces, before the closing brace. */
static struct bl_text config_text_insert_flow(struct config_text *edit,
                                              const struct bl_json *object)
{
    size_t end = config_text_flow_end(edit->text, config_text_at(edit, object)) - 1;
    struct bl_text inner = edit->value;

    for (size_t i = edit->count; i > edit->met; i--)
        inner = bl_arena_printf(edit->arena,
                                i == edit->met + 1 ? BL_TEXT_FORMAT ": " BL_TEXT_FORMAT
                                                   : "{" BL_TEXT_FORMAT ": " BL_TEXT_FORMAT "}",
                                BL_TEXT_ARG(edit->parts[i - 1]), BL_TEXT_ARG(inner));
    return config_text_splice(edit, end, end,
                              bl_arena_printf(edit->arena, "%s" BL_TEXT_FORMAT,
                                              bl_json_size(object) > 0 ? ", " : "",
                                              BL_TEXT_ARG(inner)));
}

/* Returns the offset after the last line of the key's value, which is followed by a line that is
 * not indented further than the key. */
static size_t config_text_block_end(const struct config_text *edit, const struct bl_json *key)
{
    struct bl_text text = edit->text;
    uint32_t column = bl_document_place(&edit->document, key).column;
    size_t at = config_text_line_end(text, config_text_at(edit, key)), last = at;

    while (at < text.size) {
        size_t from = at + 1, end = config_text_line_end(text, from), indent = 0;
        while (from + indent < end && text.data[from + indent] == ' ')
            indent++;
        bool blank = from + indent == end || text.data[from + indent] == '#';
        if (!blank && indent < column)
            break;
        if (!blank)
            last = end;
        at = end;
    }
    return last < text.size ? last + 1 : last;
}

static struct bl_text config_text_insert(struct config_text *edit)
{
    const struct bl_json *object = edit->key != NULL ? edit->key + 1 : edit->document.root;
    size_t at = edit->text.size, indent = 0;

    if (edit->key != NULL) {
        at = config_text_block_end(edit, edit->key);
        indent = bl_document_place(&edit->document, edit->key).column + 1;
    }
    if (bl_json_is(object, BL_JSON_OBJECT) && bl_json_size(object) > 0)
        indent = bl_document_place(&edit->document, object + 1).column - 1;
    bool ended = at == 0 || edit->text.data[at - 1] == '\n';
    return config_text_splice(edit, at, at,
                              bl_arena_printf(edit->arena, "%s" BL_TEXT_FORMAT, ended ? "" : "\n",
                                              BL_TEXT_ARG(config_text_lines(edit, indent))));
}

/* ---- Checking the edit ----------------------------------------------------------------------- */

/* True if everything except the member is unchanged. */
static bool config_text_same(const struct config_text *edit, const struct bl_json *before,
                             const struct bl_json *after, size_t depth)
{
    size_t kept = 0;

    if (depth == edit->count)
        return true;
    if (!bl_json_is(after, BL_JSON_OBJECT) ||
        (before != NULL && !bl_json_is(before, BL_JSON_OBJECT) &&
         !bl_json_is(before, BL_JSON_NULL)))
        return false;
    BL_JSON_MEMBERS (key, after) {
        const struct bl_json *old =
            bl_json_is(before, BL_JSON_OBJECT) ? bl_json_get(before, bl_json_text(key)) : NULL;
        bool mine = bl_text_equal(bl_json_text(key), edit->parts[depth]);
        if (mine ? !config_text_same(edit, old, key + 1, depth + 1)
                 : old == NULL || !bl_json_equal(old, key + 1))
            return false;
        kept += old != NULL;
    }
    return !bl_json_is(before, BL_JSON_OBJECT) || kept == bl_json_size(before);
}

/* Sets the value as it is written: YAML on one line, or else a quoted string. */
static void config_text_write_value(struct config_text *edit, struct bl_text value)
{
    struct bl_document document;
    struct bl_text line =
        bl_arena_printf(edit->arena, "v: " BL_TEXT_FORMAT "\n", BL_TEXT_ARG(value));
    BL_AUTO_BUFFER(quoted, SIZE_MAX);
    bool plain = value.size > 0 && memchr(value.data, '\n', value.size) == NULL &&
                 memchr(value.data, '#', value.size) == NULL &&
                 memchr("&*!|>", value.data[0], 5) == NULL &&
                 bl_document_read(edit->arena, line, NULL, &document, NULL) == 0 &&
                 bl_json_is(document.root, BL_JSON_OBJECT) && bl_json_size(document.root) == 1;

    if (plain) {
        edit->value = value;
        return;
    }
    struct bl_json_writer writer;
    bl_json_writer_init(&writer, &quoted);
    bl_json_write_text(&writer, value);
    bl_json_writer_done(&writer);
    edit->value = bl_arena_text(edit->arena, bl_buffer_text(&quoted));
}

static int config_text_split(struct config_text *edit, struct bl_text key)
{
    struct bl_text rest = key;

    while (edit->count < PARTS_MAX && bl_text_split(&rest, '.', &edit->parts[edit->count])) {
        if (edit->parts[edit->count++].size == 0)
            return config_text_refuse(edit, "a name is empty");
    }
    if (edit->count == 0 || rest.size > 0)
        return bl_error_set(edit->error, BL_EINVAL, BL_KIND_USAGE, OPERATION, NULL,
                            "a key has 1 to %u names separated by dots", PARTS_MAX);
    return 0;
}

/* Finds how many parts of the path exist. */
static void config_text_walk(struct config_text *edit)
{
    const struct bl_json *object = edit->document.root, *key;

    while (edit->met < edit->count && bl_json_is(object, BL_JSON_OBJECT) &&
           (key = config_text_key(object, edit->parts[edit->met])) != NULL) {
        edit->parent = object;
        edit->key = key;
        object = key + 1;
        edit->met++;
    }
}

int config_text_set(struct bl_arena *arena, struct bl_text text, struct bl_text key,
                    struct bl_text value, struct bl_text *ret_text, struct bl_error *error)
{
    struct config_text edit = {.arena = arena, .text = text, .error = error};
    struct bl_document after;

    int code = config_text_split(&edit, key);
    if (code != 0)
        return code;
    if (bl_document_read(arena, text, NULL, &edit.document, NULL) != 0)
        return config_text_refuse(&edit, "the file is not well-formed");
    config_text_walk(&edit);
    config_text_write_value(&edit, value);
    const struct bl_json *holder = edit.key != NULL ? edit.key + 1 : NULL;
    if (edit.met == edit.count)
        *ret_text = config_text_replace(&edit);
    else if (bl_json_is(holder, BL_JSON_OBJECT) && config_text_is_flow(&edit, holder))
        *ret_text = config_text_insert_flow(&edit, holder);
    else
        *ret_text = config_text_insert(&edit);
    if (bl_document_read(arena, *ret_text, NULL, &after, NULL) != 0 ||
        !config_text_same(&edit, edit.document.root, after.root, 0) ||
        config_text_find(after.root, key) == NULL)
        return config_text_refuse(&edit, "the layout of the file does not allow it");
    return 0;
}
