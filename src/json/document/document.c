#include "document.h"

#include <assert.h>

static bool document_is_space(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static size_t document_skip_space(struct bl_text input, size_t at)
{
    while (at < input.size && document_is_space(input.data[at]))
        at++;
    return at;
}

/* True if the text may be JSON. A YAML list ("- a") also begins like JSON, and is rejected at its
 * second byte. */
static bool begins_as_json(struct bl_text input)
{
    size_t at = document_skip_space(input, 0);

    return at < input.size && input.data[at] != '\0' &&
           strchr("{[\"-0123456789tfn", input.data[at]) != NULL;
}

/* True if a quote or a second bracket follows the first bracket: then the text is meant as JSON,
 * not as YAML's flow style. */
static bool meant_as_json(struct bl_text input)
{
    size_t at = document_skip_space(input, 0);

    if (at == input.size || (input.data[at] != '{' && input.data[at] != '['))
        return false;
    at = document_skip_space(input, at + 1);
    return at == input.size || (input.data[at] != '\0' && strchr("\"{}[]", input.data[at]) != NULL);
}

/* Returns the offset after the token of a node, which begins at `at`. The text is JSON. */
static size_t skip_token(struct bl_text input, size_t at, const struct bl_json *node)
{
    switch (bl_json_type(node)) {
    case BL_JSON_ARRAY:
    case BL_JSON_OBJECT:
    case BL_JSON_END: return at + 1;
    case BL_JSON_STRING:
        for (at++; input.data[at] != '"'; at++)
            at += input.data[at] == '\\';
        return at + 1;
    case BL_JSON_NULL:
    case BL_JSON_BOOLEAN:
    case BL_JSON_INTEGER:
    case BL_JSON_UNSIGNED:
    case BL_JSON_DOUBLE: break;
    }
    while (at < input.size && !document_is_space(input.data[at]) &&
           strchr(",]}", input.data[at]) == NULL)
        at++;
    return at;
}

/* Scans JSON text a second time to find the places: its n-th token is the n-th node. */
static void place_json(struct bl_arena *arena, struct bl_text input, struct bl_document *document)
{
    struct bl_document_place *places = bl_arena_alloc(arena, document->count * sizeof(*places));
    size_t at = 0, line_start = 0;
    uint32_t line = 1;

    for (size_t i = 0; i < document->count; i++) {
        for (; document_is_space(input.data[at]) || input.data[at] == ',' || input.data[at] == ':';
             at++) {
            if (input.data[at] == '\n') {
                line++;
                line_start = at + 1;
            }
        }
        places[i] = (struct bl_document_place){line, (uint32_t)(at - line_start + 1)};
        at = skip_token(input, at, document->root + i);
        assert(at <= input.size);
    }
    document->places = places;
}

static int document_refuse(struct bl_text input, size_t offset, int code, const char *expected,
                           struct bl_json_fault *fault)
{
    if (fault != NULL)
        json_fault_fill(fault, input, offset, expected);
    return code;
}

/* Refuses bytes that libyaml mishandles or reports badly. */
static int check_bytes(struct bl_text input, struct bl_json_fault *fault)
{
    size_t valid = bl_utf8_valid_prefix(input, NULL);
    if (valid < input.size)
        return document_refuse(input, valid, BL_EPARSE, "valid UTF-8", fault);
    const char *nul = input.size > 0 ? memchr(input.data, '\0', input.size) : NULL;
    if (nul != NULL)
        return document_refuse(input, (size_t)(nul - input.data), BL_EPARSE,
                               "text without NUL bytes", fault);
    return 0;
}

static int read_yaml(struct bl_arena *arena, struct bl_text input,
                     const struct bl_json_limits *limits, struct bl_document *ret_document,
                     struct bl_json_fault *fault)
{
    size_t mark_size = bl_text_starts_with(input, BL_TEXT("\xef\xbb\xbf")) ? 3 : 0;
    struct bl_text text = {input.data + mark_size, input.size - mark_size};
    int result = check_bytes(text, fault);

    if (result == 0)
        result = document_yaml_read(arena, text, limits, ret_document, fault);
    if (result != 0 && fault != NULL)
        fault->offset += mark_size;
    return result;
}

int bl_document_read(struct bl_arena *arena, struct bl_text input,
                     const struct bl_json_limits *limits, struct bl_document *ret_document,
                     struct bl_json_fault *fault)
{
    struct bl_json_limits all = json_limits_complete(limits);
    struct bl_json_fault json_fault;
    struct bl_document document;

    if (input.size > all.size_max)
        return document_refuse(input, all.size_max, BL_ELIMIT,
                               "the end: the input exceeds the size limit", fault);
    if (begins_as_json(input)) {
        int result = bl_json_read(arena, input, &all, &document.root, &json_fault);
        if (result == 0) {
            document.count = (size_t)(bl_json_next(document.root) - document.root);
            place_json(arena, input, &document);
            *ret_document = document;
            return 0;
        }
        if (result == BL_ELIMIT) {
            if (fault != NULL)
                *fault = json_fault;
            return result;
        }
    }
    int result = read_yaml(arena, input, &all, ret_document, fault);
    if (result == 0 || !meant_as_json(input))
        return result;
    if (fault != NULL)
        *fault = json_fault;
    return BL_EPARSE;
}

struct bl_document_place bl_document_place(const struct bl_document *document,
                                           const struct bl_json *node)
{
    assert(node >= document->root && (size_t)(node - document->root) < document->count);
    return document->places[node - document->root];
}
