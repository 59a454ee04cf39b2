/* Places in a schema: their pointers, resolving $ref to them, and cycles of references. */
#include "schema.h"

static size_t escaped_size(struct bl_text token)
{
    size_t size = token.size;
    for (size_t i = 0; i < token.size; i++)
        size += token.data[i] == '~' || token.data[i] == '/';
    return size;
}

/* Writes "/token", escaped, so that it ends at `end`. Returns its start. */
static char *write_before(char *end, struct bl_text token)
{
    for (size_t i = token.size; i-- > 0;) {
        char byte = token.data[i];
        *--end = byte == '~' ? '0' : byte == '/' ? '1' : byte;
        if (byte == '~' || byte == '/')
            *--end = '~';
    }
    *--end = '/';
    return end;
}

static char *write_index_before(char *end, int64_t index)
{
    do {
        *--end = (char)('0' + index % 10);
        index /= 10;
    } while (index > 0);
    *--end = '/';
    return end;
}

struct bl_text schema_pointer(struct bl_arena *arena, const struct schema_node *node,
                              struct bl_text keyword)
{
    size_t size = keyword.size + 1;
    for (const struct schema_node *at = node; at != NULL; at = at->parent)
        size += escaped_size(at->keyword) + escaped_size(at->name) + 24;
    char *memory = bl_arena_alloc(arena, size + 1), *end = memory + size, *out = end;
    *end = '\0';
    if (keyword.size > 0)
        out = write_before(out, keyword);
    for (const struct schema_node *at = node; at != NULL; at = at->parent) {
        if (at->has_name)
            out = write_before(out, at->name);
        else if (at->index >= 0)
            out = write_index_before(out, at->index);
        if (at->parent != NULL) {
            out = write_before(out, at->keyword);
        } else {
            out -= at->keyword.size;
            if (at->keyword.size > 0)
                memcpy(out, at->keyword.data, at->keyword.size);
        }
    }
    struct bl_text pointer = {memory, (size_t)(end - out)};
    memmove(memory, out, pointer.size + 1);
    return pointer;
}

static int reference_hex_value(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f')
        return (byte | 0x20) - 'a' + 10;
    return -1;
}

/* Decodes percent escapes; a percent sign that begins no escape is kept. */
static struct bl_text percent_decode(struct bl_arena *arena, struct bl_text text)
{
    char *out = bl_arena_alloc(arena, text.size);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        out[size] = text.data[i];
        if (text.data[i] == '%' && i + 2 < text.size &&
            reference_hex_value(text.data[i + 1]) >= 0 &&
            reference_hex_value(text.data[i + 2]) >= 0) {
            out[size] = (char)(reference_hex_value(text.data[i + 1]) << 4 |
                               reference_hex_value(text.data[i + 2]));
            i += 2;
        }
        size++;
    }
    return (struct bl_text){out, size};
}

static const struct schema_node *find_anchor(const struct bl_json_schema *schema,
                                             const struct bl_json *resource, struct bl_text name)
{
    for (uint32_t i = 0; i < schema->anchor_count; i++) {
        const struct schema_anchor *anchor = &schema->anchors[i];
        bool in_reach = resource == NULL
                            ? anchor->is_resource
                            : !anchor->is_resource && anchor->node->resource == resource;
        if (in_reach && bl_text_equal(anchor->name, name))
            return anchor->node;
    }
    return NULL;
}

/* Returns the pointer of a schema that is reached only by `fragment`, starting from the resource's
 * place. */
static struct bl_text reference_place_of(struct bl_json_schema *schema,
                                         const struct bl_json *resource, struct bl_text fragment)
{
    const struct schema_node *node = schema->by_source[resource - schema->source];
    struct bl_text base = schema_pointer(&schema->arena, node, BL_TEXT(""));
    char *place = bl_arena_alloc(&schema->arena, base.size + fragment.size);
    memcpy(place, base.data, base.size);
    memcpy(place + base.size, fragment.data, fragment.size);
    return (struct bl_text){place, base.size + fragment.size};
}

int schema_reference_resolve(struct bl_json_schema *schema, struct schema_node *node,
                             struct bl_error *error)
{
    if (node->reference_source == NULL)
        return 0;
    struct bl_text reference = bl_json_text(node->reference_source), fragment = {0};
    struct bl_text base = reference, shown = bl_utf8_cut(reference, 200);
    ptrdiff_t hash = bl_text_find(reference, BL_TEXT("#"));
    if (hash >= 0) {
        base.size = (size_t)hash;
        fragment = (struct bl_text){reference.data + hash + 1, reference.size - base.size - 1};
        fragment = percent_decode(&schema->arena, fragment);
    }
    const struct bl_json *resource = node->resource;
    if (base.size > 0) {
        const struct schema_node *named = find_anchor(schema, NULL, base);
        if (named == NULL)
            return schema_refuse(schema, node, "$ref", error,
                                 "\"" BL_TEXT_FORMAT
                                 "\" refers to another document, which is not supported; put a "
                                 "copy under $defs",
                                 BL_TEXT_ARG(shown));
        resource = named->source;
    }
    const struct bl_json *target;
    if (fragment.size > 0 && fragment.data[0] != '/') {
        const struct schema_node *anchored = find_anchor(schema, resource, fragment);
        target = anchored != NULL ? anchored->source : NULL;
    } else {
        target = bl_json_pointer(resource, fragment);
    }
    if (target == NULL)
        return schema_refuse(schema, node, "$ref", error, "\"" BL_TEXT_FORMAT "\" does not exist",
                             BL_TEXT_ARG(shown));
    struct schema_node place = {.index = -1, .resource = resource};
    if (schema->by_source[target - schema->source] == NULL)
        place.keyword = reference_place_of(schema, resource, fragment);
    return schema_node_find(schema, target, &place, &node->reference, error);
}

/* Enumerates the schemas that `node` applies to its own value, by number; NULL for absent ones.
 * Returns false after the last. */
static bool in_place(const struct schema_node *node, uint32_t number, struct schema_node **ret_node)
{
    const struct schema_list *lists[] = {&node->all_of, &node->any_of, &node->one_of};
    if (number < 2) {
        *ret_node = number == 0 ? node->reference : node->negated;
        return true;
    }
    number -= 2;
    for (size_t i = 0; i < BL_COUNT(lists); number -= lists[i]->count, i++) {
        if (number < lists[i]->count) {
            *ret_node = lists[i]->items[number];
            return true;
        }
    }
    return false;
}

struct visit {
    struct schema_node *node;
    uint32_t next;
};

enum mark {
    UNSEEN,
    OPEN,
    CLOSED,
};

/* Searches depth first from `start`, on an explicit stack. Returns a node that refers to itself, or
 * NULL. */
static struct schema_node *find_circle(struct schema_node *start, struct visit *stack)
{
    uint32_t depth = 0;
    if (start->mark != UNSEEN)
        return NULL;
    start->mark = OPEN;
    stack[depth++] = (struct visit){start, 0};
    while (depth > 0) {
        struct visit *top = &stack[depth - 1];
        struct schema_node *next;
        if (!in_place(top->node, top->next++, &next)) {
            top->node->mark = CLOSED;
            depth--;
            continue;
        }
        if (next == NULL || next->mark == CLOSED)
            continue;
        if (next->mark == OPEN)
            return next;
        next->mark = OPEN;
        stack[depth++] = (struct visit){next, 0};
    }
    return NULL;
}

int schema_circle_refuse(struct bl_json_schema *schema, struct bl_error *error)
{
    struct visit *stack = bl_alloc(schema->node_count * sizeof *stack);
    struct schema_node *circle = NULL;
    for (uint32_t i = 0; i < schema->node_count && circle == NULL; i++)
        circle = find_circle(schema->nodes[i], stack);
    bl_free(stack);
    if (circle == NULL)
        return 0;
    return schema_refuse(schema, circle, "", error,
                         "refers to itself through $ref without descending into the value");
}
