/* A document, YAML or JSON: it must not crash, leak or hang. What is JSON must be the tree that the
 * JSON reader makes; what is read must have the shape and the places that every document has, and
 * stay itself when it is written as JSON; what is refused must say where. The text stands right
 * before an unmapped page: libyaml is not instrumented. */
#include <stdio.h>
#include <stdlib.h>

#include <belay/json.h>

#include "guard_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Larger ones (by aliases) are not written: that would only take time. */
#define WRITTEN_NODES_MAX 10000u

static void check(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "document_fuzz: %s\n", what);
    abort();
}

static void check_fault(struct bl_text input, int result, const struct bl_json_fault *fault)
{
    check(result == BL_EPARSE || result == BL_ELIMIT, "a code that is not promised");
    check(fault->offset <= input.size, "a fault outside the input");
    check(fault->line >= 1 && fault->column >= 1, "a line or column before the first");
    check(fault->expected != NULL && fault->expected[0] != '\0', "a fault that expects nothing");
    check(bl_utf8_valid(bl_text_from(fault->excerpt)), "an excerpt that is not UTF-8");
    check(bl_utf8_valid(bl_text_from(fault->found)), "a finding that is not UTF-8");
}

static void check_places(struct bl_text input, const struct bl_document *document)
{
    uint32_t lines = 1;

    for (size_t i = 0; i < input.size; i++)
        lines += input.data[i] == '\n';
    for (size_t i = 0; i < document->count; i++) {
        struct bl_document_place place = bl_document_place(document, document->root + i);
        check(place.line >= 1 && place.line <= lines, "a place on no line");
        check(place.column >= 1 && place.column <= input.size + 1, "a place in no column");
    }
}

static void check_shape(const struct bl_document *document)
{
    size_t depth = 0;

    check((size_t)(bl_json_next(document->root) - document->root) == document->count,
          "a root that does not span the document");
    for (size_t i = 0; i < document->count; i++) {
        const struct bl_json *node = document->root + i;
        check(node->unused == 0, "a mapping without its last value");
        if (node->type == BL_JSON_ARRAY || node->type == BL_JSON_OBJECT) {
            depth++;
            check(node[node->span - 1].type == BL_JSON_END, "a container without its end");
        } else if (node->type == BL_JSON_END) {
            check(depth-- > 0, "an end too many");
        } else if (node->type == BL_JSON_STRING) {
            check(node->string[node->size] == '\0', "a string without NUL after it");
            check(bl_utf8_valid(bl_json_text(node)), "a string that is not UTF-8");
        }
    }
    check(depth == 0, "an end too few");
}

static void check_written(struct bl_arena *arena, const struct bl_document *document)
{
    struct bl_buffer out;
    struct bl_json_writer writer;
    struct bl_document again;

    bl_buffer_init(&out, 256u << 20);
    bl_json_writer_init(&writer, &out);
    bl_json_write_value(&writer, document->root);
    check(bl_json_writer_done(&writer) == 0, "what was read cannot be written");
    check(bl_document_read(arena, bl_buffer_text(&out), NULL, &again, NULL) == 0,
          "what was written is refused");
    check(again.count == document->count && bl_json_equal(again.root, document->root),
          "writing changed it");
    bl_buffer_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct guard_page guard;
    struct bl_text input = guard_page_before(&guard, (struct bl_text){(const char *)data, size});
    struct bl_arena arena;
    struct bl_document document;
    struct bl_json_fault fault;
    const struct bl_json *value;

    bl_arena_init(&arena);
    bool is_json = bl_json_read(&arena, input, NULL, &value, NULL) == 0;
    int result = bl_document_read(&arena, input, NULL, &document, &fault);
    if (is_json) {
        check(result == 0, "JSON is refused");
        check(bl_json_equal(document.root, value), "JSON is another tree");
    }
    if (result == 0) {
        check_shape(&document);
        check_places(input, &document);
        if (document.count <= WRITTEN_NODES_MAX)
            check_written(&arena, &document);
    } else {
        check_fault(input, result, &fault);
    }
    bl_arena_done(&arena);
    return 0;
}
