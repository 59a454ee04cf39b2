/* Records of a wire protocol: closed sets, constants, and what is one of several. */
#include <belay/record.h>

#include <stdio.h>

#include "suite.h"

static const struct bl_json *parse(struct bl_arena *arena, const char *text)
{
    const struct bl_json *value;
    suite_fail_if(bl_json_read(arena, bl_text_from(text), NULL, &value, NULL) != 0, "not JSON: %s",
                  text);
    return value;
}

static const char *written(struct bl_arena *arena, const struct bl_record *record, const void *from)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, 65536);
    bl_json_writer_init(&writer, &out);
    bl_record_write(&writer, record, from);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    struct bl_text text = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text.data;
}

static struct bl_text schema_text(struct bl_arena *arena, const struct bl_record *record)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, 65536);
    bl_json_writer_init(&writer, &out);
    bl_record_schema(&writer, record);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    struct bl_text text = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text;
}

/* The reader, the check and the schema say the same of a document: that it fits where `fault` is
 * NULL, and else what is wrong with it. */
static void assert_reading(const struct bl_record *record, const char *document, const char *fault)
{
    struct bl_arena arena = {0};
    struct bl_json_schema *schema;
    struct bl_record_fault found = {0};
    struct bl_error error = {0};
    struct bl_list problems;
    char message[400] = "";
    void *into = bl_alloc(record->size);
    const struct bl_json *value = parse(&arena, document);

    if (bl_record_read(&arena, record, value, into, &found) != 0)
        bl_record_fault_text(&found, message, sizeof message);
    suite_fail_if(strcmp(message, fault != NULL ? fault : "") != 0,
                  "%s\n  gives    %s\n  expected %s", document, message, fault);
    assert_int_equal(bl_record_check(record, value, NULL) == 0, fault == NULL);
    suite_fail_if(
        bl_json_schema_new(parse(&arena, schema_text(&arena, record).data), &schema, &error) != 0,
        "%s: %s", schema_text(&arena, record).data, error.message);
    suite_fail_if((bl_json_schema_check(schema, value, &arena, &problems) == 0) != (fault == NULL),
                  "the schema says something else of %s", document);
    bl_json_schema_free(schema);
    bl_free(into);
    bl_arena_done(&arena);
}

/* ---- Closed sets and constants --------------------------------------------------------------- */

static const char *const level_names[] = {"low", "high"};
static const struct bl_names levels = BL_NAMES(level_names);

struct lamp {
    bool high;
    struct bl_text shade;
    const char *before;
};

#define BL_RECORD_STRUCT struct lamp
static const struct bl_member lamp_members[] = {
    BL_MEMBER_ENUM("level", high, &levels),
    BL_MEMBER_CONSTANT("electric", true),
    BL_MEMBER_CONSTANT("open_flame", false),
    BL_MEMBER_TEXT("shade", shade, .names = &levels),
    BL_MEMBER_STRING("before", before, .names = &levels, .nullable = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record lamp_record = BL_RECORD("lamp", struct lamp, lamp_members);

#define LAMP(level, electric, shade, before)                                                       \
    "{\"level\":" level ",\"electric\":" electric ",\"open_flame\":false,\"shade\":" shade         \
    ",\"before\":" before "}"

static void a_boolean_may_have_names_and_a_text_may_be_one_of_some(void **state BL_UNUSED)
{
    static const char *const documents[] = {
        LAMP("\"low\"", "true", "\"high\"", "null"),
        LAMP("\"high\"", "true", "\"low\"", "\"high\""),
    };
    struct bl_arena arena = {0};

    for (size_t i = 0; i < BL_COUNT(documents); i++) {
        struct lamp lamp;
        memset(&lamp, 0xa5, sizeof lamp);
        assert_int_equal(
            bl_record_read(&arena, &lamp_record, parse(&arena, documents[i]), &lamp, NULL), 0);
        assert_int_equal(lamp.high, i);
        assert_string_equal(written(&arena, &lamp_record, &lamp), documents[i]);
        assert_reading(&lamp_record, documents[i], NULL);
    }
    assert_reading(&lamp_record, LAMP("\"off\"", "true", "\"high\"", "null"),
                   "level: expected one of low, high, found \"off\"");
    assert_reading(&lamp_record, LAMP("true", "true", "\"high\"", "null"),
                   "level: expected one of low, high, found true");
    assert_reading(&lamp_record, LAMP("\"low\"", "true", "\"\"", "null"),
                   "shade: expected one of low, high, found \"\"");
    assert_reading(&lamp_record, LAMP("\"low\"", "true", "\"low\"", "\"off\""),
                   "before: expected one of low, high or null, found \"off\"");
    bl_arena_done(&arena);
}

static void a_constant_is_always_there_and_never_another(void **state BL_UNUSED)
{
    assert_reading(&lamp_record, LAMP("\"low\"", "false", "\"high\"", "null"),
                   "electric: expected true, found false");
    assert_reading(&lamp_record, LAMP("\"low\"", "1", "\"high\"", "null"),
                   "electric: expected true, found 1");
    assert_reading(&lamp_record,
                   "{\"level\":\"low\",\"electric\":true,\"shade\":\"low\",\"before\":null}",
                   "open_flame: missing; expected false");
}

/* ---- Within the struct ----------------------------------------------------------------------- */

struct shelf {
    uint64_t width, height;
    uint64_t marks[2];
    size_t mark_count;
    const struct bl_text *labels;
    size_t label_count;
};

#define BL_RECORD_STRUCT struct shelf
static const struct bl_member shelf_size_members[] = {
    BL_MEMBER_INTEGER("width", width, .optional = true, .least = 1),
    BL_MEMBER_INTEGER("height", height, .optional = true, .least = 1),
    BL_MEMBER_END,
};
static const struct bl_record shelf_size_record = BL_RECORD_GROUP("shelf-size", shelf_size_members);
static const struct bl_member shelf_members[] = {
    BL_MEMBER_ARRAY("labels", labels, label_count, &bl_element_text, .distinct = true, .most = 3),
    BL_MEMBER_GROUP("size", &shelf_size_record),
    BL_MEMBER_SLOTS("marks", marks, mark_count, &bl_element_count, .distinct = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record shelf_record = BL_RECORD("shelf", struct shelf, shelf_members);

#define SHELF(labels, size, marks) "{\"labels\":" labels ",\"size\":" size ",\"marks\":" marks "}"

static void an_array_and_an_object_may_be_in_the_struct_itself(void **state BL_UNUSED)
{
    static const char *const documents[] = {
        SHELF("[]", "{}", "[]"),
        SHELF("[\"a\",\"b\"]", "{\"height\":7}", "[18446744073709551615]"),
        SHELF("[\"\"]", "{\"width\":1,\"height\":2}", "[0,5]"),
    };
    struct bl_arena arena = {0};
    struct shelf shelf;

    for (size_t i = 0; i < BL_COUNT(documents); i++) {
        memset(&shelf, 0xa5, sizeof shelf);
        assert_int_equal(
            bl_record_read(&arena, &shelf_record, parse(&arena, documents[i]), &shelf, NULL), 0);
        assert_int_equal(shelf.mark_count, i);
        assert_string_equal(written(&arena, &shelf_record, &shelf), documents[i]);
        assert_reading(&shelf_record, documents[i], NULL);
    }
    assert_int_equal(shelf.width, 1);
    assert_int_equal(shelf.marks[1], 5);
    assert_reading(&shelf_record, SHELF("[]", "{}", "[1,2,3]"),
                   "marks: expected a list of at most 2 elements, found an array of 3");
    assert_reading(&shelf_record, SHELF("[]", "{\"height\":0}", "[]"),
                   "size.height: expected a whole number of at least 1, found 0");
    assert_reading(&shelf_record, SHELF("[]", "7", "[]"), "size: expected an object, found 7");
    bl_arena_done(&arena);
}

static void a_distinct_list_has_no_element_twice(void **state BL_UNUSED)
{
    assert_reading(&shelf_record, SHELF("[\"a\",\"b\",\"a\"]", "{}", "[]"),
                   "labels[2]: there is another \"a\"");
    assert_reading(&shelf_record, SHELF("[]", "{}", "[1,1.0]"), "marks[1]: there is another 1.0");
    assert_reading(&shelf_record, SHELF("[\"a\",\"A\"]", "{}", "[1,2]"), NULL);
}

/* ---- What is JSON already -------------------------------------------------------------------- */

struct parcel {
    struct bl_text note;
    const struct bl_json *content;
    struct bl_text content_json;
    const struct bl_json *lamp;
    struct bl_text rules;
    const struct bl_text *words;
    size_t word_count;
    struct bl_text words_json;
};

#define BL_RECORD_STRUCT struct parcel
static const struct bl_member parcel_members[] = {
    BL_MEMBER_TEXT("note", note, .most = 5, .cut = true),
    BL_MEMBER_JSON("content", content, .or_string = true, BL_ENCODED(content_json)),
    BL_MEMBER_JSON("lamp", lamp, .record = &lamp_record, .nullable = true),
    BL_MEMBER_RAW("rules", rules, .object = true, .nullable = true, .canonical = true),
    BL_MEMBER_ARRAY("words", words, word_count, &bl_element_text, BL_ENCODED(words_json)),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record parcel_record = BL_RECORD("parcel", struct parcel, parcel_members);

#define PARCEL(note, content, lamp, rules, words)                                                  \
    "{\"note\":" note ",\"content\":" content ",\"lamp\":" lamp ",\"rules\":" rules                \
    ",\"words\":" words "}"

static void json_within_a_record_is_checked(void **state BL_UNUSED)
{
    static const char *const documents[] = {
        PARCEL("\"\"", "\"s\"", "null", "null", "[]"),
        PARCEL("\"x\"", "{\"b\":[1],\"a\":null}", LAMP("\"low\"", "true", "\"high\"", "null"),
               "{\"a\":1}", "[\"a\"]"),
    };
    struct bl_arena arena = {0};
    struct parcel parcel;

    for (size_t i = 0; i < BL_COUNT(documents); i++) {
        assert_int_equal(
            bl_record_read(&arena, &parcel_record, parse(&arena, documents[i]), &parcel, NULL), 0);
        assert_string_equal(written(&arena, &parcel_record, &parcel), documents[i]);
        assert_reading(&parcel_record, documents[i], NULL);
    }
    assert_reading(&parcel_record, PARCEL("\"\"", "[]", "null", "null", "[]"),
                   "content: expected an object or a string, found an empty array");
    assert_reading(&parcel_record, PARCEL("\"\"", "null", "null", "null", "[]"),
                   "content: expected an object or a string, found null");
    assert_reading(&parcel_record, PARCEL("\"\"", "{}", "7", "null", "[]"),
                   "lamp: expected an object or null, found 7");
    assert_reading(&parcel_record,
                   PARCEL("\"\"", "{}", LAMP("\"low\"", "true", "\"off\"", "null"), "null", "[]"),
                   "lamp.shade: expected one of low, high, found \"off\"");
    assert_reading(&parcel_record, PARCEL("\"\"", "{}", "null", "\"a\"", "[]"),
                   "rules: expected an object or null, found \"a\"");
    bl_arena_done(&arena);
}

static void raw_json_may_be_read_in_its_canonical_form(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct parcel parcel;

    assert_int_equal(
        bl_record_read(&arena, &parcel_record,
                       parse(&arena, PARCEL("\"\"", "{}", "null", "{\"b\":1.0,\"a\":[ ]}", "[]")),
                       &parcel, NULL),
        0);
    assert_true(bl_text_equal(parcel.rules, BL_TEXT("{\"a\":[],\"b\":1}")));
    bl_arena_done(&arena);
}

static void a_value_that_is_json_already_is_written_as_it_is(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct parcel parcel = {
        .note = BL_TEXT("abcd\u00e9f"),
        .content_json = BL_TEXT("{\"x\":1e3}"),
        .words_json = BL_TEXT("\"a\", \"b\""),
    };

    assert_string_equal(written(&arena, &parcel_record, &parcel),
                        PARCEL("\"abcd\"", "{\"x\":1e3}", "null", "null", "[\"a\", \"b\"]"));
    bl_arena_done(&arena);
}

static void a_text_is_cut_or_shared_where_that_is_asked_for(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct parcel parcel;
    const struct bl_json *value =
        parse(&arena, PARCEL("\"abcd\u00e9f\"", "{}", "null", "null", "[\"word\"]"));
    const struct bl_json *note = bl_json_get(value, BL_TEXT("note"));

    assert_int_equal(bl_record_read(&arena, &parcel_record, value, &parcel, NULL), 0);
    assert_true(bl_text_equal(parcel.note, BL_TEXT("abcd")));
    assert_ptr_not_equal(parcel.note.data, bl_json_text(note).data);
    assert_int_equal(bl_record_view(&arena, &parcel_record, value, &parcel, NULL), 0);
    assert_true(bl_text_equal(parcel.note, BL_TEXT("abcd")));
    assert_ptr_equal(parcel.note.data, bl_json_text(note).data);
    bl_arena_done(&arena);
}

SUITE(record_variant, cmocka_unit_test(a_boolean_may_have_names_and_a_text_may_be_one_of_some),
      cmocka_unit_test(a_constant_is_always_there_and_never_another),
      cmocka_unit_test(an_array_and_an_object_may_be_in_the_struct_itself),
      cmocka_unit_test(a_distinct_list_has_no_element_twice),
      cmocka_unit_test(json_within_a_record_is_checked),
      cmocka_unit_test(raw_json_may_be_read_in_its_canonical_form),
      cmocka_unit_test(a_value_that_is_json_already_is_written_as_it_is),
      cmocka_unit_test(a_text_is_cut_or_shared_where_that_is_asked_for));
