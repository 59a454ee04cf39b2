/* Compiles schemas: one node for each schema in the source, found breadth first from the root and,
 * once all of those are known, from the targets of $ref. No function recurses. */
#include "schema.h"

#include <stdio.h>
#include <stdlib.h>

#include "json/parts.h"

struct compiler {
    struct bl_json_schema *schema;
    struct schema_node *node;
    struct bl_error *error;
};

/* A keyword, its compile function, and the offset of the result in the node. */
struct keyword {
    const char *name;
    int (*compile)(struct compiler *compiler, const struct keyword *keyword,
                   const struct bl_json *value);
    size_t offset;
};

int schema_refuse(struct bl_json_schema *schema, const struct schema_node *node,
                  const char *keyword, struct bl_error *error, const char *format, ...)
{
    char message[384];
    struct bl_text pointer = schema_pointer(&schema->arena, node, bl_text_from(keyword));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return bl_error_set(error, BL_EINVAL, BL_KIND_PARSE, "schema", pointer.data, "%s: %s",
                        pointer.size > 0 ? pointer.data : "the schema", message);
}

void *schema_grow(struct bl_arena *arena, void *items, uint32_t count, uint32_t *capacity,
                  size_t item_size)
{
    if (count < *capacity)
        return items;
    uint32_t wanted = *capacity > 0 ? *capacity * 2 : 8;
    items = bl_arena_resize(arena, items, *capacity * item_size, wanted * item_size);
    *capacity = wanted;
    return items;
}

int schema_node_find(struct bl_json_schema *schema, const struct bl_json *source,
                     const struct schema_node *place, struct schema_node **ret_node,
                     struct bl_error *error)
{
    struct schema_node **known = &schema->by_source[source - schema->source];
    if (*known != NULL) {
        *ret_node = *known;
        return 0;
    }
    if (!bl_json_is(source, BL_JSON_OBJECT) && !bl_json_is(source, BL_JSON_BOOLEAN))
        return schema_refuse(schema, place, "", error, "a schema is an object or a boolean, not %s",
                             bl_json_type_name(bl_json_type(source)));
    if (schema->node_count == SCHEMA_NODES_MAX)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_PARSE, "schema", "",
                            "more than %u schemas in one", SCHEMA_NODES_MAX);
    struct schema_node *node = bl_arena_alloc(&schema->arena, sizeof *node);
    *node = *place;
    node->source = source;
    node->resource = place->parent != NULL ? place->parent->resource : place->resource;
    node->refuses = bl_json_is(source, BL_JSON_BOOLEAN) && !bl_json_boolean(source, true);
    node->max_length = node->max_items = node->max_properties = UINT64_MAX;
    schema->nodes = schema_grow(&schema->arena, schema->nodes, schema->node_count,
                                &schema->node_capacity, sizeof(struct schema_node *));
    schema->nodes[schema->node_count++] = node;
    *known = node;
    *ret_node = node;
    return 0;
}

static void *field(struct compiler *compiler, const struct keyword *keyword)
{
    return (char *)compiler->node + keyword->offset;
}

static int json_schema_refuse(struct compiler *compiler, const struct keyword *keyword,
                              const char *expected)
{
    return schema_refuse(compiler->schema, compiler->node, keyword->name, compiler->error,
                         "must be %s", expected);
}

static int json_compile_schema(struct compiler *compiler, const struct keyword *keyword,
                               const struct bl_json *value)
{
    struct schema_node place = {
        .parent = compiler->node, .keyword = bl_text_from(keyword->name), .index = -1};
    if (bl_json_is(value, BL_JSON_ARRAY) && keyword->offset == offsetof(struct schema_node, items))
        return json_schema_refuse(compiler, keyword,
                                  "one schema; for a list of them use prefixItems");
    struct schema_node **node = field(compiler, keyword);
    return schema_node_find(compiler->schema, value, &place, node, compiler->error);
}

static int compile_list(struct compiler *compiler, const struct keyword *keyword,
                        const struct bl_json *value)
{
    if (!bl_json_is(value, BL_JSON_ARRAY) || bl_json_size(value) == 0)
        return json_schema_refuse(compiler, keyword, "a non-empty array of schemas");
    struct schema_list list = {0};
    list.items = bl_arena_alloc(&compiler->schema->arena, bl_json_size(value) * sizeof *list.items);
    BL_JSON_EACH (element, value) {
        struct schema_node place = {
            .parent = compiler->node, .keyword = bl_text_from(keyword->name), .index = list.count};
        int result = schema_node_find(compiler->schema, element, &place, &list.items[list.count],
                                      compiler->error);
        if (result < 0)
            return result;
        list.count++;
    }
    *(struct schema_list *)field(compiler, keyword) = list;
    return 0;
}

/* Compiles an object of schemas. Of duplicate names the last one counts, as everywhere. */
static int compile_members(struct compiler *compiler, const struct keyword *keyword,
                           const struct bl_json *value, struct schema_properties *ret_properties)
{
    struct bl_arena *arena = &compiler->schema->arena;
    size_t count;
    if (!bl_json_is(value, BL_JSON_OBJECT))
        return json_schema_refuse(compiler, keyword, "an object of schemas");
    const struct bl_json **keys = json_members_sort(arena, value, &count);
    struct schema_properties all = {0};
    all.items = bl_arena_zalloc(arena, count * sizeof *all.items);
    for (size_t i = 0; i < count; i++) {
        struct schema_property *property = &all.items[all.count++];
        property->name = bl_json_text(keys[i]);
        struct schema_node place = {.parent = compiler->node,
                                    .keyword = bl_text_from(keyword->name),
                                    .name = property->name,
                                    .has_name = true,
                                    .index = -1};
        int result = schema_node_find(compiler->schema, keys[i] + 1, &place, &property->node,
                                      compiler->error);
        if (result < 0)
            return result;
    }
    *ret_properties = all;
    return 0;
}

static int compile_definitions(struct compiler *compiler, const struct keyword *keyword,
                               const struct bl_json *value)
{
    struct schema_properties unused;
    return compile_members(compiler, keyword, value, &unused);
}

static int compare_properties(const void *left, const void *right)
{
    const struct schema_property *a = left, *b = right;
    return bl_text_compare(a->name, b->name);
}

static int compile_properties(struct compiler *compiler, const struct keyword *keyword,
                              const struct bl_json *value)
{
    struct schema_properties all;
    int result = compile_members(compiler, keyword, value, &all);
    if (result < 0)
        return result;
    if (all.count > 0)
        qsort(all.items, all.count, sizeof *all.items, compare_properties);
    *(struct schema_properties *)field(compiler, keyword) = all;
    return 0;
}

static int compile_expression(struct compiler *compiler, const struct keyword *keyword,
                              struct bl_text source, struct bl_pattern **ret_pattern)
{
    struct bl_json_schema *schema = compiler->schema;
    struct bl_error error = {0};
    int result = bl_pattern_new(source, ret_pattern, &error);
    if (result < 0)
        return schema_refuse(schema, compiler->node, keyword->name, compiler->error,
                             "invalid pattern: %s", error.message);
    schema->patterns = schema_grow(&schema->arena, schema->patterns, schema->pattern_count,
                                   &schema->pattern_capacity, sizeof(struct bl_pattern *));
    schema->patterns[schema->pattern_count++] = *ret_pattern;
    return 0;
}

static int compile_pattern(struct compiler *compiler, const struct keyword *keyword,
                           const struct bl_json *value)
{
    if (!bl_json_is(value, BL_JSON_STRING))
        return json_schema_refuse(compiler, keyword, "a string");
    compiler->node->pattern_source = value;
    return compile_expression(compiler, keyword, bl_json_text(value), &compiler->node->pattern);
}

static int compile_pattern_properties(struct compiler *compiler, const struct keyword *keyword,
                                      const struct bl_json *value)
{
    struct schema_properties all;
    int result = compile_members(compiler, keyword, value, &all);
    for (uint32_t i = 0; result == 0 && i < all.count; i++)
        result = compile_expression(compiler, keyword, all.items[i].name, &all.items[i].pattern);
    if (result < 0)
        return result;
    *(struct schema_properties *)field(compiler, keyword) = all;
    return 0;
}

static int compile_count(struct compiler *compiler, const struct keyword *keyword,
                         const struct bl_json *value)
{
    int64_t count;
    if (!bl_json_int64(value, &count) || count < 0)
        return json_schema_refuse(compiler, keyword, "a non-negative integer");
    *(uint64_t *)field(compiler, keyword) = (uint64_t)count;
    return 0;
}

static int compile_number(struct compiler *compiler, const struct keyword *keyword,
                          const struct bl_json *value)
{
    double number;
    if (!bl_json_double(value, &number))
        return json_schema_refuse(compiler, keyword, "a number");
    if (strcmp(keyword->name, "multipleOf") == 0 && !(number > 0))
        return json_schema_refuse(compiler, keyword, "a positive number");
    *(const struct bl_json **)field(compiler, keyword) = value;
    return 0;
}

static int compile_value(struct compiler *compiler, const struct keyword *keyword,
                         const struct bl_json *value)
{
    *(const struct bl_json **)field(compiler, keyword) = value;
    return 0;
}

static int compile_enumeration(struct compiler *compiler, const struct keyword *keyword,
                               const struct bl_json *value)
{
    if (!bl_json_is(value, BL_JSON_ARRAY))
        return json_schema_refuse(compiler, keyword, "an array of values");
    return compile_value(compiler, keyword, value);
}

static int compile_required(struct compiler *compiler, const struct keyword *keyword,
                            const struct bl_json *value)
{
    bool good = bl_json_is(value, BL_JSON_ARRAY);
    BL_JSON_EACH (element, value)
        good = good && bl_json_is(element, BL_JSON_STRING);
    if (!good)
        return json_schema_refuse(compiler, keyword, "an array of property names");
    return compile_value(compiler, keyword, value);
}

static int compile_reference(struct compiler *compiler, const struct keyword *keyword,
                             const struct bl_json *value)
{
    if (!bl_json_is(value, BL_JSON_STRING))
        return json_schema_refuse(compiler, keyword, "a string");
    return compile_value(compiler, keyword, value);
}

static int compile_unique(struct compiler *compiler, const struct keyword *keyword,
                          const struct bl_json *value)
{
    if (!bl_json_is(value, BL_JSON_BOOLEAN))
        return json_schema_refuse(compiler, keyword, "true or false");
    compiler->node->unique = bl_json_boolean(value, false);
    return 0;
}

static int compile_type(struct compiler *compiler, const struct keyword *keyword,
                        const struct bl_json *value)
{
    static const struct {
        struct bl_text name;
        uint8_t types;
    } names[] = {
        {BL_TEXT("null"), SCHEMA_NULL},       {BL_TEXT("boolean"), SCHEMA_BOOLEAN},
        {BL_TEXT("integer"), SCHEMA_INTEGER}, {BL_TEXT("number"), SCHEMA_NUMBER},
        {BL_TEXT("string"), SCHEMA_STRING},   {BL_TEXT("array"), SCHEMA_ARRAY},
        {BL_TEXT("object"), SCHEMA_OBJECT},
    };
    bool is_list = bl_json_is(value, BL_JSON_ARRAY);
    const struct bl_json *name = is_list ? bl_json_first(value, BL_JSON_ARRAY) : value;
    size_t count = is_list ? bl_json_size(value) : 1;
    uint8_t types = 0;
    for (size_t i = 0; i < count; i++, name = bl_json_next(name)) {
        uint8_t type = 0;
        for (size_t j = 0; j < BL_COUNT(names); j++) {
            if (bl_json_is(name, BL_JSON_STRING) &&
                bl_text_equal(bl_json_text(name), names[j].name))
                type = names[j].types;
        }
        if (type == 0)
            return json_schema_refuse(
                compiler, keyword,
                "null, boolean, integer, number, string, array or object, or a list of "
                "those");
        types |= type;
    }
    if (types == 0)
        return json_schema_refuse(compiler, keyword, "at least one type");
    compiler->node->types = types;
    return 0;
}

static int add_anchor(struct compiler *compiler, struct bl_text name, bool is_resource)
{
    struct bl_json_schema *schema = compiler->schema;
    if (schema->anchor_count == SCHEMA_ANCHORS_MAX)
        return bl_error_set(compiler->error, BL_ELIMIT, BL_KIND_PARSE, "schema", "",
                            "more than %u anchors", SCHEMA_ANCHORS_MAX);
    schema->anchors = schema_grow(&schema->arena, schema->anchors, schema->anchor_count,
                                  &schema->anchor_capacity, sizeof *schema->anchors);
    schema->anchors[schema->anchor_count++] =
        (struct schema_anchor){name, compiler->node, is_resource};
    return 0;
}

static int compile_anchor(struct compiler *compiler, const struct keyword *keyword,
                          const struct bl_json *value)
{
    if (!bl_json_is(value, BL_JSON_STRING))
        return json_schema_refuse(compiler, keyword, "a string");
    return add_anchor(compiler, bl_json_text(value), false);
}

/* $id makes the schema a resource, in which "#…" is resolved. The older form "#name" is an anchor.
 */
static int compile_identifier(struct compiler *compiler, const struct keyword *keyword,
                              const struct bl_json *value)
{
    struct bl_text name = bl_json_text(value);
    if (!bl_json_is(value, BL_JSON_STRING))
        return json_schema_refuse(compiler, keyword, "a string");
    if (bl_text_starts_with(name, BL_TEXT("#")))
        return add_anchor(compiler, (struct bl_text){name.data + 1, name.size - 1}, false);
    if (bl_text_ends_with(name, BL_TEXT("#")))
        name.size--;
    compiler->node->resource = compiler->node->source;
    return add_anchor(compiler, name, true);
}

static int compile_ignored(struct compiler *compiler, const struct keyword *keyword,
                           const struct bl_json *value)
{
    struct bl_json_schema *schema = compiler->schema;
    schema->ignored = schema_grow(&schema->arena, schema->ignored, schema->ignored_count,
                                  &schema->ignored_capacity, sizeof *schema->ignored);
    schema->ignored[schema->ignored_count++] = (struct schema_ignored){
        value, schema_pointer(&schema->arena, compiler->node, bl_text_from(keyword->name))};
    return 0;
}

#define FIELD(name) offsetof(struct schema_node, name)

static const struct keyword keywords[] = {
    {"type", compile_type, 0},
    {"enum", compile_enumeration, FIELD(enumeration)},
    {"const", compile_value, FIELD(constant)},
    {"required", compile_required, FIELD(required)},
    {"properties", compile_properties, FIELD(properties)},
    {"patternProperties", compile_pattern_properties, FIELD(pattern_properties)},
    {"additionalProperties", json_compile_schema, FIELD(additional)},
    {"propertyNames", json_compile_schema, FIELD(names)},
    {"items", json_compile_schema, FIELD(items)},
    {"prefixItems", compile_list, FIELD(prefix_items)},
    {"uniqueItems", compile_unique, 0},
    {"minimum", compile_number, FIELD(minimum)},
    {"maximum", compile_number, FIELD(maximum)},
    {"exclusiveMinimum", compile_number, FIELD(exclusive_minimum)},
    {"exclusiveMaximum", compile_number, FIELD(exclusive_maximum)},
    {"multipleOf", compile_number, FIELD(multiple_of)},
    {"minLength", compile_count, FIELD(min_length)},
    {"maxLength", compile_count, FIELD(max_length)},
    {"minItems", compile_count, FIELD(min_items)},
    {"maxItems", compile_count, FIELD(max_items)},
    {"minProperties", compile_count, FIELD(min_properties)},
    {"maxProperties", compile_count, FIELD(max_properties)},
    {"pattern", compile_pattern, 0},
    {"anyOf", compile_list, FIELD(any_of)},
    {"oneOf", compile_list, FIELD(one_of)},
    {"allOf", compile_list, FIELD(all_of)},
    {"not", json_compile_schema, FIELD(negated)},
    {"$ref", compile_reference, FIELD(reference_source)},
    {"$defs", compile_definitions, 0},
    {"definitions", compile_definitions, 0},
    {"$anchor", compile_anchor, 0},
    {"$dynamicAnchor", compile_anchor, 0},
    {"if", compile_ignored, 0},
    {"then", compile_ignored, 0},
    {"else", compile_ignored, 0},
    {"contains", compile_ignored, 0},
    {"minContains", compile_ignored, 0},
    {"maxContains", compile_ignored, 0},
    {"unevaluatedItems", compile_ignored, 0},
    {"unevaluatedProperties", compile_ignored, 0},
    {"dependentRequired", compile_ignored, 0},
    {"dependentSchemas", compile_ignored, 0},
    {"dependencies", compile_ignored, 0},
    {"additionalItems", compile_ignored, 0},
    {"$dynamicRef", compile_ignored, 0},
    {"$recursiveRef", compile_ignored, 0},
};

static const struct keyword *find_keyword(struct bl_text name)
{
    for (size_t i = 0; i < BL_COUNT(keywords); i++) {
        if (bl_text_equal(name, bl_text_from(keywords[i].name)))
            return &keywords[i];
    }
    return NULL;
}

static int compile_node(struct compiler *compiler)
{
    static const struct keyword identifier = {"$id", compile_identifier, 0};
    const struct bl_json *source = compiler->node->source;
    /* $id comes first, because the nested schemas inherit the resource. */
    const struct bl_json *id = bl_json_get(source, bl_text_from(identifier.name));
    int result = id != NULL ? compile_identifier(compiler, &identifier, id) : 0;
    if (result < 0)
        return result;
    if (!bl_json_is(source, BL_JSON_OBJECT))
        return 0;
    size_t count;
    const struct bl_json **keys = json_members_sort(&compiler->schema->arena, source, &count);
    for (size_t i = 0; i < count; i++) {
        const struct keyword *keyword = find_keyword(bl_json_text(keys[i]));
        result = keyword != NULL ? keyword->compile(compiler, keyword, keys[i] + 1) : 0;
        if (result < 0)
            return result;
    }
    return 0;
}

/* Copies the source and its strings into the schema's arena. */
static void copy_source(struct bl_json_schema *schema, const struct bl_json *source)
{
    size_t count = (size_t)(bl_json_next(source) - source);
    struct bl_json *copy = bl_arena_alloc(&schema->arena, count * sizeof *copy);
    memcpy(copy, source, count * sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        if (copy[i].type != BL_JSON_STRING)
            continue;
        copy[i].string = bl_arena_text(&schema->arena, bl_json_text(&source[i])).data;
        copy[i].flags &= (uint8_t)~JSON_PLAIN; /* the copy has no padding after the string */
    }
    schema->source = copy;
    schema->source_size = count;
    schema->by_source = bl_arena_zalloc(&schema->arena, count * sizeof(struct schema_node *));
}

static int compare_ignored(const void *left, const void *right)
{
    const struct schema_ignored *a = left, *b = right;
    return a->key < b->key ? -1 : a->key > b->key;
}

/* Compiles all nodes before it resolves the first $ref, so that a target with a regular place in
 * the schema is known by that place. */
static int schema_compile(struct bl_json_schema *schema, struct bl_error *error)
{
    struct schema_node place = {.index = -1, .resource = schema->source}, *root;
    int result = schema_node_find(schema, schema->source, &place, &root, error);
    for (uint32_t compiled = 0, resolved = 0; result == 0 && resolved < schema->node_count;) {
        if (compiled < schema->node_count) {
            struct compiler compiler = {schema, schema->nodes[compiled++], error};
            result = compile_node(&compiler);
        } else {
            result = schema_reference_resolve(schema, schema->nodes[resolved++], error);
        }
    }
    if (result == 0)
        result = schema_circle_refuse(schema, error);
    if (result == 0 && schema->ignored_count > 0)
        qsort(schema->ignored, schema->ignored_count, sizeof *schema->ignored, compare_ignored);
    return result;
}

int bl_json_schema_new(const struct bl_json *source, struct bl_json_schema **ret_schema,
                       struct bl_error *error)
{
    if (source == NULL)
        return bl_error_set(error, BL_EINVAL, BL_KIND_PARSE, "schema", "", "missing schema");
    struct bl_json_schema *schema = bl_zalloc(sizeof *schema);
    bl_arena_init(&schema->arena);
    copy_source(schema, source);
    int result = schema_compile(schema, error);
    if (result < 0) {
        bl_json_schema_free(schema);
        return result;
    }
    *ret_schema = schema;
    return 0;
}

void bl_json_schema_free(struct bl_json_schema *schema)
{
    if (schema == NULL)
        return;
    for (uint32_t i = 0; i < schema->pattern_count; i++)
        bl_pattern_free(schema->patterns[i]);
    bl_arena_done(&schema->arena);
    bl_free(schema);
}

struct bl_text bl_json_schema_ignored(const struct bl_json_schema *schema, size_t index)
{
    if (index >= schema->ignored_count)
        return (struct bl_text){0};
    return schema->ignored[index].pointer;
}
