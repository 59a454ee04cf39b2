#include "documents.h"

int document_from(struct bl_arena *arena, const char *text, struct bl_document *ret_document,
                  struct bl_json_fault *fault)
{
    return bl_document_read(arena, bl_text_from(text), NULL, ret_document, fault);
}

void fail_with_fault(const char *text, const struct bl_json_fault *fault)
{
    char where[256];
    bl_json_fault_text(fault, where, sizeof where);
    fail_msg("%s\n%s", text, where);
}

void check_document(const struct bl_document *document)
{
    size_t open[1024], depth = 0;

    assert_int_equal(bl_json_next(document->root) - document->root, document->count);
    for (size_t i = 0; i < document->count; i++) {
        const struct bl_json *node = document->root + i;
        struct bl_document_place place = bl_document_place(document, node);
        assert_true(place.line >= 1 && place.column >= 1);
        assert_int_equal(node->unused, 0);
        if (node->type == BL_JSON_STRING)
            assert_int_equal(node->string[node->size], '\0');
        if (node->type == BL_JSON_ARRAY || node->type == BL_JSON_OBJECT) {
            open[depth++] = i;
        } else if (node->type == BL_JSON_END) {
            const struct bl_json *container = document->root + open[--depth];
            assert_int_equal(container->span, i + 1 - open[depth]);
            size_t children = 0;
            BL_JSON_EACH (element, container)
                children += element != NULL;
            BL_JSON_MEMBERS (key, container)
                children += key->type == BL_JSON_STRING;
            assert_int_equal(container->size, children);
        }
    }
    assert_int_equal(depth, 0);
}

void same(const char *yaml, const char *json)
{
    struct bl_arena arena;
    struct bl_document document;
    struct bl_json_fault fault;
    const struct bl_json *value;
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_arena_init(&arena);
    bl_buffer_init(&out, 1u << 20);
    if (document_from(&arena, yaml, &document, &fault) != 0)
        fail_with_fault(yaml, &fault);
    check_document(&document);
    assert_int_equal(bl_json_read(&arena, bl_text_from(json), NULL, &value, NULL), 0);
    bl_json_writer_init(&writer, &out);
    bl_json_write_value(&writer, document.root);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    bl_buffer_append_byte(&out, '\0');
    if (!bl_json_equal(document.root, value))
        fail_msg("%s\nis %s, not %s", yaml, out.data, json);
    for (size_t i = 0; i < document.count; i++)
        assert_int_equal(document.root[i].type, value[i].type);
    bl_buffer_done(&out);
    bl_arena_done(&arena);
}

void refuse_within(const char *text, const struct bl_json_limits *limits, int code, uint32_t line,
                   uint32_t column, const char *expected)
{
    struct bl_arena arena;
    struct bl_document document;
    struct bl_json_fault fault;

    bl_arena_init(&arena);
    bl_arena_text(&arena, BL_TEXT("something before"));
    struct bl_arena_mark before = bl_arena_mark(&arena);
    int result = bl_document_read(&arena, bl_text_from(text), limits, &document, &fault);
    if (result == 0)
        fail_msg("accepted: %s", text);
    if (result != code || fault.line != line || fault.column != column ||
        strcmp(fault.expected, expected) != 0)
        fail_with_fault(text, &fault);
    assert_true(bl_utf8_valid(bl_text_from(fault.excerpt)));
    assert_true(fault.offset <= strlen(text));
    struct bl_arena_mark after = bl_arena_mark(&arena);
    assert_ptr_equal(before.chunk, after.chunk);
    assert_ptr_equal(before.next, after.next);
    assert_int_equal(bl_document_read(&arena, bl_text_from(text), limits, &document, NULL), code);
    bl_arena_done(&arena);
}

void refuse(const char *text, uint32_t line, uint32_t column, const char *expected)
{
    refuse_within(text, NULL, BL_EPARSE, line, column, expected);
}
