#include <dirent.h>
#include <stdio.h>

#include "documents.h"

/* Calls `each` for every file in a folder of ../shared with that name ending; returns their number.
 */
static unsigned each_file(const char *relative, const char *ending,
                          void (*each)(const char *name, struct bl_text text))
{
    const char *shared = suite_shared(relative);
    char folder[3800], path[4200];
    snprintf(folder, sizeof folder, "%s", shared);
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    unsigned count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (!bl_text_ends_with(bl_text_from(entry->d_name), bl_text_from(ending)))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        struct bl_text text = suite_read_file(path);
        each(entry->d_name, text);
        bl_free((void *)text.data);
        count++;
    }
    closedir(directory);
    return count;
}

static void load_feature(const char *name, struct bl_text text)
{
    struct bl_arena arena;
    struct bl_document document;
    struct bl_json_fault fault;

    bl_arena_init(&arena);
    if (bl_document_read(&arena, text, NULL, &document, &fault) != 0)
        fail_with_fault(name, &fault);
    check_document(&document);
    assert_true(bl_json_is(bl_json_get(document.root, BL_TEXT("id")), BL_JSON_STRING));
    assert_true(bl_json_size(bl_json_get(document.root, BL_TEXT("tasks"))) > 0);
    /* The place of a key that begins a line is correct. */
    struct bl_text rest = text, line;
    for (uint32_t number = 1; bl_text_split(&rest, '\n', &line); number++) {
        BL_JSON_MEMBERS (key, document.root) {
            struct bl_document_place place = bl_document_place(&document, key);
            if (place.line == number)
                assert_memory_equal(line.data + place.column - 1, key->string, key->size);
        }
    }
    bl_arena_done(&arena);
}

static void the_feature_files_load(void **state BL_UNUSED)
{
    assert_true(each_file("suites/features", ".yaml", load_feature) >= 20);
}

static void compare_readers(const char *name, struct bl_text text)
{
    struct bl_arena arena;
    struct bl_document document;
    struct bl_json_fault fault;
    const struct bl_json *value;

    bl_arena_init(&arena);
    int as_json = bl_json_read(&arena, text, NULL, &value, NULL);
    int as_document = bl_document_read(&arena, text, NULL, &document, &fault);
    if (name[0] == 'y')
        assert_int_equal(as_json, 0);
    if (as_json == 0) {
        if (as_document != 0)
            fail_with_fault(name, &fault);
        check_document(&document);
        assert_true(bl_json_equal(document.root, value));
    }
    if (as_document != 0) {
        assert_true(fault.offset <= text.size && fault.line >= 1 && fault.column >= 1);
        assert_true(bl_utf8_valid(bl_text_from(fault.excerpt)));
    }
    bl_arena_done(&arena);
}

static void both_readers_agree_on_json(void **state BL_UNUSED)
{
    assert_true(each_file("suites/json", ".json", compare_readers) >= 300);
}

static struct bl_document_place place_of(const struct bl_document *document, const char *pointer)
{
    const struct bl_json *node = bl_json_pointer(document->root, bl_text_from(pointer));
    assert_non_null(node);
    return bl_document_place(document, node);
}

#define AT(pointer, at_line, at_column)                                                            \
    do {                                                                                           \
        struct bl_document_place place = place_of(&document, pointer);                             \
        assert_int_equal(place.line, at_line);                                                     \
        assert_int_equal(place.column, at_column);                                                 \
    } while (0)

static void every_node_has_its_place(void **state BL_UNUSED)
{
    struct bl_arena arena;
    struct bl_document document;
    bl_arena_init(&arena);

    assert_int_equal(document_from(&arena,
                                   "# comment\r\n"
                                   "a: 1\r\n"
                                   "\u00e4: \u20ac x\n"
                                   "list:\n"
                                   "  - &two two\n"
                                   "  - {\u00e4\u00f6: [ *two ,  'q' ]}\n"
                                   "empty:\n"
                                   "text: |\n"
                                   "  line\n"
                                   "tagged: !!str 1\n",
                                   &document, NULL),
                     0);
    AT("", 2, 1);
    AT("/a", 2, 4);
    AT("/\u00e4", 3, 5);
    AT("/list", 5, 3);
    AT("/list/0", 5, 5);
    AT("/list/1", 6, 5);
    AT("/list/1/\u00e4\u00f6", 6, 12);
    AT("/list/1/\u00e4\u00f6/0", 6, 14);
    AT("/list/1/\u00e4\u00f6/1", 6, 22);
    AT("/empty", 7, 7);
    AT("/text", 8, 7);
    AT("/tagged", 10, 9);
    assert_int_equal(bl_document_place(&document, document.root + 1).line, 2);
    assert_int_equal(bl_document_place(&document, document.root + 1).column, 1);

    assert_int_equal(document_from(&arena,
                                   " {\"a\" : [1, true,\n\t\"x\\\"y\\\\\", {} ],\n \"b\":null}\n",
                                   &document, NULL),
                     0);
    AT("", 1, 2);
    AT("/a", 1, 9);
    AT("/a/0", 1, 10);
    AT("/a/1", 1, 13);
    AT("/a/2", 2, 2);
    AT("/a/3", 2, 12);
    AT("/b", 3, 6);
    assert_int_equal(bl_document_place(&document, document.root + document.count - 1).column, 10);

    assert_int_equal(document_from(&arena, "", &document, NULL), 0);
    AT("", 1, 1);
    /* The children of an alias have the places where they were written. */
    assert_int_equal(document_from(&arena, "a: &x {b: 1}\nc: *x\n", &document, NULL), 0);
    AT("/c", 2, 4);
    AT("/c/b", 1, 11);
    bl_arena_done(&arena);
}

static void malformed_json_is_reported_as_json(void **state BL_UNUSED)
{
    refuse("{\"a\": 1, \"b\" 2]", 1, 14, "':'");
    refuse("[\"a\" \"b\"]", 1, 6, "',' or ']'");
    refuse("{", 1, 2, "a key or '}'");
    refuse("[[1, 2]", 1, 8, "',' or ']'");
    /* This text is meant as YAML. */
    refuse("{a: 1, b: [}", 1, 12, "a value");
    refuse_within("{\"a\": 1, \"a\": 2}", &(struct bl_json_limits){.refuse_duplicates = true},
                  BL_EPARSE, 1, 10, "a key that is not a duplicate");
    same("{\"a\": 1, \"a\": 2}", "{\"a\": 1, \"a\": 2}");
}

static void refuse_bytes(struct bl_text text, uint32_t line, uint32_t column, const char *expected)
{
    struct bl_arena arena;
    struct bl_document document;
    struct bl_json_fault fault;

    bl_arena_init(&arena);
    assert_int_equal(bl_document_read(&arena, text, NULL, &document, &fault), BL_EPARSE);
    if (fault.line != line || fault.column != column || strcmp(fault.expected, expected) != 0)
        fail_with_fault(text.data, &fault);
    bl_arena_done(&arena);
}

static void bytes_that_are_not_text_are_refused(void **state BL_UNUSED)
{
    refuse_bytes(BL_TEXT("a: b\nc: \xff\n"), 2, 4, "valid UTF-8");
    refuse_bytes(BL_TEXT("a: \xed\xa0\x80"), 1, 4, "valid UTF-8");
    refuse_bytes(BL_TEXT("a: \xc3"), 1, 4, "valid UTF-8");
    refuse_bytes(BL_TEXT("\xff\xfe"
                         "a\0"),
                 1, 1, "valid UTF-8");
    refuse_bytes(BL_TEXT("a: b\n\0"), 2, 1, "text without NUL bytes");
    refuse_bytes(BL_TEXT("a\0:\0"), 1, 2, "text without NUL bytes");
    refuse_bytes(BL_TEXT("\xef\xbb\xbf"
                         "a: \x01"),
                 1, 4, "a character that YAML allows");
    refuse_bytes(BL_TEXT("\u00e4: \x7f"), 1, 5, "a character that YAML allows");
}

static void sizes_are_limited(void **state BL_UNUSED)
{
    refuse_within("a: bcd", &(struct bl_json_limits){.size_max = 5}, BL_ELIMIT, 1, 6,
                  "the end: the input exceeds the size limit");
    refuse_within("a: bcd", &(struct bl_json_limits){.string_max = 2}, BL_ELIMIT, 1, 4,
                  "a string within the size limit");
    refuse_within("abc: b", &(struct bl_json_limits){.string_max = 2}, BL_ELIMIT, 1, 1,
                  "a string within the size limit");
    refuse_within("[\"abc\"]", &(struct bl_json_limits){.string_max = 2}, BL_ELIMIT, 1, 2,
                  "a string within the size limit");

    struct bl_buffer source;
    bl_buffer_init(&source, 1u << 20);
    for (unsigned i = 0; i < 65; i++)
        bl_buffer_printf(&source, "%%TAG !t%u! tag:x,y:\n", i);
    bl_buffer_append(&source, BL_TEXT("---\na: b\n"));
    bl_buffer_append_byte(&source, '\0');
    refuse_within(source.data, NULL, BL_ELIMIT, 65, 1, "no more than 64 %TAG directives");
    bl_buffer_done(&source);
}

/* In a mapping of many keys, the duplicate is found; without it, the mapping is read. */
static void large_documents_are_read(void **state BL_UNUSED)
{
    struct bl_buffer source;
    struct bl_arena arena;
    struct bl_document document;
    int64_t number;
    unsigned count = (unsigned)suite_rounds(SUITE_SANITIZED ? 10000 : 50000, 50000);
    char last[32];

    snprintf(last, sizeof last, "/key%u/0", count - 1);
    bl_buffer_init(&source, 16u << 20);
    for (unsigned i = 0; i < count; i++)
        bl_buffer_printf(&source, "key%u: [%u, \"x\"]\n", i, i);
    bl_arena_init(&arena);
    assert_int_equal(bl_document_read(&arena, bl_buffer_text(&source), NULL, &document, NULL), 0);
    check_document(&document);
    assert_int_equal(bl_json_size(document.root), count);
    assert_true(bl_json_int64(bl_json_pointer(document.root, bl_text_from(last)), &number));
    assert_int_equal(number, count - 1);
    assert_int_equal(place_of(&document, last).line, count);
    bl_arena_done(&arena);
    bl_buffer_append(&source, BL_TEXT("key777: 1\n"));
    bl_buffer_append_byte(&source, '\0');
    refuse_within(source.data, NULL, BL_EPARSE, count + 1, 1, "a key that is not a duplicate");
    bl_buffer_done(&source);
}

SUITE(document, cmocka_unit_test(the_feature_files_load),
      cmocka_unit_test(both_readers_agree_on_json), cmocka_unit_test(every_node_has_its_place),
      cmocka_unit_test(malformed_json_is_reported_as_json),
      cmocka_unit_test(bytes_that_are_not_text_are_refused), cmocka_unit_test(sizes_are_limited),
      cmocka_unit_test(large_documents_are_read));
