/* Design notes.
 *
 * libyaml delivers events, which become the same block of nodes that the JSON reader makes. The
 * nodes grow on the heap, because aliases copy earlier nodes, and move to the arena when the
 * document is complete. An open container stores the index of its parent in place of its span: that
 * chain is the only stack. An open object has `unused` set while the value of its newest key is
 * due.
 *
 * libyaml's marks count characters, and lines by its own definition of a line's end. Places and
 * faults are in bytes, and a line ends in LF. Marks of events never go backwards, so that one
 * cursor over the input translates them all. */
#include "document.h"

#include <yaml.h>

#define NO_PARENT UINT64_MAX
/* Limit for one document, with the END nodes: aliases multiply nodes. */
#define NODES_MAX 1000000u
/* libyaml compares each %TAG with all earlier ones. */
#define TAG_DIRECTIVES_MAX 64u
#define NODES_FIRST        64u

struct cursor {
    size_t index; /* characters */
    size_t offset;
    struct bl_document_place place;
};

struct yaml_reader {
    struct bl_arena *arena;
    struct bl_text input;
    const struct bl_json_limits *limits;
    yaml_parser_t parser;
    struct bl_json *nodes;
    struct bl_document_place *places;
    size_t count;
    size_t capacity;
    uint64_t open; /* index of the innermost open container, or NO_PARENT */
    uint32_t depth;
    struct bl_map anchors; /* value: index + 1 of the node */
    uint32_t aliases;
    struct cursor cursor;
    bool seen; /* a document was read */
    /* Set by the first failure. */
    int error;
    size_t fault_offset;
    const char *expected;
};

/* ---- Places ---- */

static void cursor_move(struct cursor *cursor, struct bl_text input, size_t index)
{
    while (cursor->index < index && cursor->offset < input.size) {
        uint32_t code_point;
        struct bl_text rest = {input.data + cursor->offset, input.size - cursor->offset};
        size_t length = bl_utf8_decode(rest, &code_point);
        cursor->index++;
        cursor->offset += length > 0 ? length : 1;
        cursor->place.column += (uint32_t)(length > 0 ? length : 1);
        if (rest.data[0] == '\n') {
            cursor->place.line++;
            cursor->place.column = 1;
        }
    }
}

static struct bl_document_place locate(struct yaml_reader *reader, yaml_mark_t mark)
{
    cursor_move(&reader->cursor, reader->input, mark.index);
    return reader->cursor.place;
}

static size_t offset_of(struct bl_text input, struct bl_document_place place)
{
    size_t at = 0;

    for (uint32_t line = 1; line < place.line; line++) {
        const char *end = memchr(input.data + at, '\n', input.size - at);
        if (end == NULL)
            return input.size;
        at = (size_t)(end - input.data) + 1;
    }
    return at + place.column - 1;
}

/* ---- Failures ---- */

static int fail_at(struct yaml_reader *reader, int error, struct bl_document_place place,
                   const char *expected)
{
    reader->error = error;
    reader->fault_offset = offset_of(reader->input, place);
    reader->expected = expected;
    return error;
}

/* Translates libyaml's problem, which names what it found, to what was expected. */
static const char *expected_by_problem(const char *problem)
{
    static const char *const table[][2] = {
        {"could not find expected ':'", "':' after the key"},
        {"did not find expected '!'", "a tag"},
        {"did not find expected tag URI", "a tag"},
        {"did not find the expected '>'", "'>' at the end of the tag"},
        {"found undefined tag handle", "a core tag: !!str, !!int, !!float, !!bool, !!null"},
        {"found unexpected ':'", "no ':' here (quote text that contains ':')"},
        {"found unknown directive name", "a directive: %YAML or %TAG"},
        {"found incompatible YAML document", "YAML 1.1 or 1.2"},
        {"found a tab character where an indentation space is expected",
         "spaces: tabs cannot indent"},
        {"found a tab character that violates indentation", "spaces: tabs cannot indent"},
        {"found an indentation indicator equal to 0", "an indentation from 1 to 9"},
        {"did not find expected comment or line break", "a comment or the end of the line"},
        {"did not find expected whitespace or line break", "a space or the end of the line"},
        {"did not find expected whitespace", "a space"},
        {"found unexpected document indicator", "the closing quote"},
        {"found unexpected end of stream", "the closing quote"},
        {"found unknown escape character", "a valid YAML escape"},
        {"did not find expected hexdecimal number", "a hexadecimal digit"},
        {"found invalid Unicode character escape code", "a valid code point"},
        {"did not find expected alphabetic or numeric character", "a name of letters and digits"},
        {"block sequence entries are not allowed in this context",
         "no '-' here (is the indentation right?)"},
        {"mapping keys are not allowed in this context",
         "no '?' here (quote text that begins with '?')"},
        {"mapping values are not allowed in this context",
         "no ':' here (quote text that contains ':')"},
        {"found character that cannot start any token",
         "a value (quote text that begins with this character)"},
        {"did not find expected <document start>", "the end of the document"},
        {"did not find expected node content", "a value"},
        {"did not find expected ',' or ']'", "',' or ']'"},
        {"did not find expected ',' or '}'", "',' or '}'"},
        {"did not find expected '-' indicator", "'-' (is the indentation right?)"},
        {"did not find expected key", "a key (is the indentation right?)"},
        {"control characters are not allowed", "a character that YAML allows"},
    };

    for (size_t i = 0; problem != NULL && i < BL_COUNT(table); i++) {
        if (strcmp(table[i][0], problem) == 0)
            return table[i][1];
    }
    return "well-formed YAML";
}

static int fail_by_parser(struct yaml_reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    struct cursor cursor = {.place = {1, 1}};

    if (parser->error == YAML_MEMORY_ERROR)
        bl_out_of_memory(reader->input.size);
    reader->error = BL_EPARSE;
    reader->expected = expected_by_problem(parser->problem);
    if (parser->error == YAML_READER_ERROR) {
        reader->fault_offset = parser->problem_offset;
    } else {
        cursor_move(&cursor, reader->input, parser->problem_mark.index);
        reader->fault_offset = cursor.offset;
    }
    if (reader->fault_offset > reader->input.size)
        reader->fault_offset = reader->input.size;
    return reader->error;
}

/* ---- Nodes ---- */

static int yaml_reserve(struct yaml_reader *reader, size_t count, struct bl_document_place place)
{
    if (count > NODES_MAX - reader->count)
        return fail_at(reader, BL_ELIMIT, place, "no more than 1,000,000 values");
    if (reader->count + count <= reader->capacity)
        return 0;
    while (reader->capacity < reader->count + count)
        reader->capacity = reader->capacity == 0 ? NODES_FIRST : reader->capacity * 2;
    reader->nodes = bl_realloc(reader->nodes, reader->capacity * sizeof(*reader->nodes));
    reader->places = bl_realloc(reader->places, reader->capacity * sizeof(*reader->places));
    return 0;
}

static int yaml_push(struct yaml_reader *reader, struct bl_json node,
                     struct bl_document_place place)
{
    int result = yaml_reserve(reader, 1, place);

    if (result != 0)
        return result;
    reader->nodes[reader->count] = node;
    reader->places[reader->count++] = place;
    return 0;
}

static bool key_is_due(const struct yaml_reader *reader)
{
    return reader->open != NO_PARENT && reader->nodes[reader->open].type == BL_JSON_OBJECT &&
           reader->nodes[reader->open].unused == 0;
}

/* Counts a complete key or value of the innermost open container. */
static void count_child(struct yaml_reader *reader)
{
    if (reader->open == NO_PARENT)
        return;
    struct bl_json *container = &reader->nodes[reader->open];
    if (container->type == BL_JSON_OBJECT) {
        container->unused = !container->unused;
        container->size += container->unused == 0;
    } else {
        container->size++;
    }
}

static void set_anchor(struct yaml_reader *reader, const yaml_char_t *anchor, size_t index)
{
    if (anchor != NULL)
        bl_map_set(&reader->anchors, bl_text_from((const char *)anchor), (void *)(index + 1), NULL);
}

/* ---- Events ---- */

static const char core_tags[] = "a core tag: !!str, !!int, !!float, !!bool, !!null";

static int read_tag(struct yaml_reader *reader, const yaml_char_t *tag, enum document_tag untagged,
                    struct bl_document_place place, enum document_tag *ret_tag)
{
    static const struct {
        const char *name;
        enum document_tag tag;
    } table[] = {
        {YAML_STR_TAG, DOCUMENT_STRING},   {YAML_NULL_TAG, DOCUMENT_NULL},
        {YAML_BOOL_TAG, DOCUMENT_BOOLEAN}, {YAML_INT_TAG, DOCUMENT_INTEGER},
        {YAML_FLOAT_TAG, DOCUMENT_FLOAT},  {YAML_SEQ_TAG, DOCUMENT_ARRAY},
        {YAML_MAP_TAG, DOCUMENT_OBJECT},
    };
    const char *name = (const char *)tag;

    *ret_tag = untagged;
    if (name == NULL)
        return 0;
    if (strcmp(name, "!") == 0) {
        /* The tag "!" makes a plain scalar text. */
        *ret_tag = untagged == DOCUMENT_PLAIN ? DOCUMENT_STRING : untagged;
        return 0;
    }
    for (size_t i = 0; i < BL_COUNT(table); i++) {
        if (strcmp(name, table[i].name) == 0) {
            *ret_tag = table[i].tag;
            return 0;
        }
    }
    return fail_at(reader, BL_EPARSE, place, core_tags);
}

static const char key_of_text[] = "a text key (quote it)";

static int on_scalar(struct yaml_reader *reader, const yaml_event_t *event)
{
    struct bl_document_place place = locate(reader, event->start_mark);
    struct bl_text text = {(const char *)event->data.scalar.value, event->data.scalar.length};
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE, key = key_is_due(reader);
    enum document_tag tag;
    struct bl_json node;

    if (text.size > reader->limits->string_max)
        return fail_at(reader, BL_ELIMIT, place, "a string within the size limit");
    int result = read_tag(reader, event->data.scalar.tag, plain ? DOCUMENT_PLAIN : DOCUMENT_STRING,
                          place, &tag);
    if (result != 0)
        return result;
    if (key && tag == DOCUMENT_PLAIN && bl_text_equal(text, BL_TEXT("<<")))
        return fail_at(
            reader, BL_EPARSE, place,
            "a key other than <<: merge keys are not supported (quote it to make it text)");
    if (tag == DOCUMENT_PLAIN && reader->limits->keep_scalars && !document_scalar_is_null(text))
        tag = DOCUMENT_STRING;
    const char *expected = document_scalar_read(reader->arena, text, tag, &node);
    if (expected == NULL && key && node.type != BL_JSON_STRING)
        expected = key_of_text;
    if (expected != NULL)
        return fail_at(reader, BL_EPARSE, place, expected);
    if (key)
        node.flags |= JSON_KEY;
    set_anchor(reader, event->data.scalar.anchor, reader->count);
    result = yaml_push(reader, node, place);
    if (result == 0)
        count_child(reader);
    return result;
}

static int on_open(struct yaml_reader *reader, const yaml_event_t *event, enum bl_json_type type)
{
    bool object = type == BL_JSON_OBJECT;
    struct bl_document_place place = locate(reader, event->start_mark);
    const yaml_char_t *tag_text =
        object ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    enum document_tag own = object ? DOCUMENT_OBJECT : DOCUMENT_ARRAY, tag;

    if (key_is_due(reader))
        return fail_at(reader, BL_EPARSE, place, key_of_text);
    int result = read_tag(reader, tag_text, own, place, &tag);
    if (result != 0)
        return result;
    if (tag != own)
        return fail_at(reader, BL_EPARSE, place,
                       object ? "a tag for mappings" : "a tag for sequences");
    if (reader->depth == reader->limits->depth_max)
        return fail_at(reader, BL_ELIMIT, place, "fewer nested containers");
    set_anchor(reader,
               object ? event->data.mapping_start.anchor : event->data.sequence_start.anchor,
               reader->count);
    result = yaml_push(reader, (struct bl_json){.type = type, .span = reader->open}, place);
    if (result != 0)
        return result;
    reader->depth++;
    reader->open = reader->count - 1;
    return 0;
}

static int on_close(struct yaml_reader *reader, const yaml_event_t *event)
{
    struct bl_document_place place = locate(reader, event->start_mark);
    uint64_t index = reader->open;
    bool object = reader->nodes[index].type == BL_JSON_OBJECT;
    struct bl_json end = {.type = BL_JSON_END, .flags = object ? JSON_CLOSES_OBJECT : 0};
    int result = yaml_push(reader, end, place);

    if (result != 0)
        return result;
    struct bl_json *container = &reader->nodes[index];
    reader->open = container->span;
    container->span = reader->count - index;
    reader->depth--;
    const struct bl_json *duplicate =
        object && !reader->limits->keep_duplicates ? json_duplicate_find(container) : NULL;
    if (duplicate != NULL)
        return fail_at(reader, BL_EPARSE, reader->places[duplicate - reader->nodes],
                       "a key that is not a duplicate");
    count_child(reader);
    return 0;
}

static bool yaml_is_open(const struct yaml_reader *reader, uint64_t index)
{
    for (uint64_t open = reader->open; open != NO_PARENT; open = reader->nodes[open].span) {
        if (open == index)
            return true;
    }
    return false;
}

/* True if `count` nodes, copied to the current position, would nest too deeply. */
static bool nests_too_deep(const struct yaml_reader *reader, const struct bl_json *nodes,
                           size_t count)
{
    uint32_t depth = reader->depth;

    for (size_t i = 0; i < count; i++) {
        if (nodes[i].type == BL_JSON_END)
            depth--;
        else if (nodes[i].type == BL_JSON_ARRAY || nodes[i].type == BL_JSON_OBJECT)
            depth++;
        if (depth > reader->limits->depth_max)
            return true;
    }
    return false;
}

/* Copies the anchored nodes. The copy gets the place of the alias; its children keep the places
 * where they were written. */
static int on_alias(struct yaml_reader *reader, const yaml_event_t *event)
{
    struct bl_document_place place = locate(reader, event->start_mark);
    struct bl_text name = bl_text_from((const char *)event->data.alias.anchor);
    uintptr_t found = (uintptr_t)bl_map_get(&reader->anchors, name);
    bool key = key_is_due(reader);

    if (reader->limits->aliases_max > 0 && ++reader->aliases > reader->limits->aliases_max)
        return fail_at(reader, BL_ELIMIT, place, "fewer aliases");
    if (found == 0)
        return fail_at(reader, BL_EPARSE, place, "an anchor defined earlier");
    size_t index = found - 1;
    if (yaml_is_open(reader, index))
        return fail_at(reader, BL_EPARSE, place, "an alias outside of its own anchor");
    if (key && reader->nodes[index].type != BL_JSON_STRING)
        return fail_at(reader, BL_EPARSE, place, key_of_text);
    size_t count = (size_t)(bl_json_next(&reader->nodes[index]) - &reader->nodes[index]);
    if (nests_too_deep(reader, &reader->nodes[index], count))
        return fail_at(reader, BL_ELIMIT, place, "fewer nested containers");
    int result = yaml_reserve(reader, count, place);
    if (result != 0)
        return result;
    struct bl_json *copy = &reader->nodes[reader->count];
    memcpy(copy, &reader->nodes[index], count * sizeof(*copy));
    memcpy(&reader->places[reader->count], &reader->places[index], count * sizeof(*reader->places));
    reader->places[reader->count] = place;
    copy->flags = (uint8_t)(key ? copy->flags | JSON_KEY : copy->flags & ~JSON_KEY);
    reader->count += count;
    count_child(reader);
    return 0;
}

static int on_document(struct yaml_reader *reader, const yaml_event_t *event)
{
    if (reader->seen)
        return fail_at(reader, BL_EPARSE, locate(reader, event->start_mark),
                       "the end: only one document is allowed");
    reader->seen = true;
    return 0;
}

static int yaml_on_event(struct yaml_reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT: return on_document(reader, event);
    case YAML_SCALAR_EVENT: return on_scalar(reader, event);
    case YAML_ALIAS_EVENT: return on_alias(reader, event);
    case YAML_SEQUENCE_START_EVENT: return on_open(reader, event, BL_JSON_ARRAY);
    case YAML_MAPPING_START_EVENT: return on_open(reader, event, BL_JSON_OBJECT);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: return on_close(reader, event);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT: break;
    }
    return 0;
}

/* ---- The whole ---- */

static int check_directives(struct yaml_reader *reader)
{
    struct bl_text rest = reader->input, line;
    uint32_t number = 0, count = 0;

    while (bl_text_split(&rest, '\n', &line)) {
        number++;
        if (bl_text_starts_with(line, BL_TEXT("%TAG")) && ++count > TAG_DIRECTIVES_MAX)
            return fail_at(reader, BL_ELIMIT, (struct bl_document_place){number, 1},
                           "no more than 64 %TAG directives");
    }
    return 0;
}

static int read_events(struct yaml_reader *reader)
{
    bool more = true;
    int result = 0;

    while (result == 0 && more) {
        yaml_event_t event;
        if (!yaml_parser_parse(&reader->parser, &event))
            return fail_by_parser(reader);
        result = yaml_on_event(reader, &event);
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    if (result == 0 && reader->count == 0)
        result = yaml_push(reader, (struct bl_json){.type = BL_JSON_NULL},
                           (struct bl_document_place){1, 1});
    return result;
}

static void yaml_keep(const struct yaml_reader *reader, struct bl_document *ret_document)
{
    size_t nodes_size = reader->count * sizeof(*reader->nodes);
    size_t places_size = reader->count * sizeof(*reader->places);
    struct bl_json *nodes = bl_arena_alloc(reader->arena, nodes_size);
    struct bl_document_place *places = bl_arena_alloc(reader->arena, places_size);

    memcpy(nodes, reader->nodes, nodes_size);
    memcpy(places, reader->places, places_size);
    *ret_document = (struct bl_document){nodes, places, reader->count};
}

int document_yaml_read(struct bl_arena *arena, struct bl_text input,
                       const struct bl_json_limits *limits, struct bl_document *ret_document,
                       struct bl_json_fault *fault)
{
    struct bl_arena_mark mark = bl_arena_mark(arena);
    struct yaml_reader reader = {
        .arena = arena,
        .input = input.size > 0 ? input : BL_TEXT(""),
        .limits = limits,
        .open = NO_PARENT,
        .cursor = {.place = {1, 1}},
    };

    if (!yaml_parser_initialize(&reader.parser))
        bl_out_of_memory(sizeof reader.parser);
    bl_map_init(&reader.anchors);
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)reader.input.data,
                                 reader.input.size);
    int result = check_directives(&reader);
    if (result == 0)
        result = read_events(&reader);
    if (result == 0)
        yaml_keep(&reader, ret_document);
    if (result != 0)
        bl_arena_rewind(arena, mark);
    if (result != 0 && fault != NULL)
        json_fault_fill(fault, reader.input, reader.fault_offset, reader.expected);
    bl_map_done(&reader.anchors);
    yaml_parser_delete(&reader.parser);
    bl_free(reader.nodes);
    bl_free(reader.places);
    return result;
}
