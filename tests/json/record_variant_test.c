/* Records of a wire protocol: closed sets, constants and variants. */
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

/* Asserts that the reader, the check and the schema agree on a document: it is valid if `fault` is
 * NULL; otherwise it is refused with that fault. */
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

struct switch_said {
    bool high;
    char after[7];
};

#define BL_RECORD_STRUCT struct switch_said
static const struct bl_member switch_members[] = {
    BL_MEMBER_WORD("after", after),
    BL_MEMBER_ENUM("level", high, &levels, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record switch_record =
    BL_RECORD("switch", struct switch_said, switch_members);

/* Both values have a name, and its neighbours in the struct are not changed. */
static void an_absent_boolean_with_names_is_false(void **state BL_UNUSED)
{
    struct switch_said said = {true, "?"};
    struct bl_arena arena = {0};

    bl_record_take(&arena, &switch_record, parse(&arena, "{\"after\":\"abcdef\",\"level\":3}"),
                   &said);
    assert_false(said.high);
    assert_string_equal(said.after, "abcdef");
    bl_arena_done(&arena);
}

static void a_boolean_may_have_names_and_a_text_may_be_from_a_closed_set(void **state BL_UNUSED)
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

static const int64_t gear_numbers[] = {-1, 1, 2};
static const struct bl_numbers gears = BL_NUMBERS(gear_numbers);

struct engine {
    int32_t gear;
    uint64_t next;
};

#define BL_RECORD_STRUCT struct engine
static const struct bl_member engine_members[] = {
    BL_MEMBER_INTEGER("gear", gear, .numbers = &gears, .least = -1),
    BL_MEMBER_INTEGER("next", next, .numbers = &gears, .nullable = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record engine_record = BL_RECORD("engine", struct engine, engine_members);

static void a_number_may_be_from_a_closed_set(void **state BL_UNUSED)
{
    assert_reading(&engine_record, "{\"gear\":-1,\"next\":1}", NULL);
    assert_reading(&engine_record, "{\"gear\":2,\"next\":null}", NULL);
    assert_reading(&engine_record, "{\"gear\":0,\"next\":1}",
                   "gear: expected one of -1, 1, 2, found 0");
    assert_reading(&engine_record, "{\"gear\":1,\"next\":3}",
                   "next: expected one of -1, 1, 2 or null, found 3");
}

static void a_constant_is_required_and_never_differs(void **state BL_UNUSED)
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

static void a_distinct_list_has_no_duplicates(void **state BL_UNUSED)
{
    assert_reading(&shelf_record, SHELF("[\"a\",\"b\",\"a\"]", "{}", "[]"),
                   "labels[2]: duplicate of an earlier element: \"a\"");
    assert_reading(&shelf_record, SHELF("[]", "{}", "[1,1.0]"),
                   "marks[1]: duplicate of an earlier element: 1.0");
    assert_reading(&shelf_record, SHELF("[\"a\",\"A\"]", "{}", "[1,2]"), NULL);
}

/* ---- Members that hold JSON ------------------------------------------------------------------ */

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

static void existing_json_is_written_unchanged(void **state BL_UNUSED)
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

static void a_text_is_truncated_or_shared_on_request(void **state BL_UNUSED)
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

/* ---- One of several -------------------------------------------------------------------------- */

/* A frame is an order or an answer. The subject of an order depends on its action; an answer is a
 * result or a reason. */
struct frame {
    enum {
        FRAME_ORDER,
        FRAME_ANSWER,
        FRAME_END
    } type;
    uint64_t id;
    enum {
        ORDER_LIFT,
        ORDER_TURN
    } order;
    uint64_t height, angle;
    bool done;
    const struct bl_json *result;
    struct bl_text result_json;
    const char *reason;
};

static const char *const frame_names[] = {"order", "answer", "end"};
static const char *const order_names[] = {"lift", "turn"};
static const struct bl_names frames = BL_NAMES(frame_names), orders = BL_NAMES(order_names);

#define BL_RECORD_STRUCT struct frame
static const struct bl_member lift_members[] = {
    BL_MEMBER_INTEGER("height", height, .least = 1, .most = 9), BL_MEMBER_END};
static const struct bl_member turn_members[] = {BL_MEMBER_INTEGER("angle", angle, .most = 360),
                                                BL_MEMBER_END};
static const struct bl_record lift_record = BL_RECORD_GROUP("lift", lift_members);
static const struct bl_record turn_record = BL_RECORD_GROUP("turn", turn_members);
static const struct bl_record *const order_records[] = {&lift_record, &turn_record};
static const struct bl_choice by_order = {"do", &orders, order_records};
static const struct bl_member order_members[] = {
    BL_MEMBER_INTEGER("id", id),
    BL_MEMBER_ENUM("do", order, &orders),
    {.name = "by", .type = BL_TYPE_OBJECT, .choice = &by_order, BL_CHOSEN(order)},
    BL_MEMBER_END,
};
static const struct bl_member answer_members[] = {
    BL_MEMBER_INTEGER("id", id),
    BL_MEMBER_JSON("result", result, .either = true, BL_KNOWN(done), BL_ENCODED(result_json)),
    BL_MEMBER_STRING("reason", reason, .either = true, BL_UNLESS(done)),
    BL_MEMBER_END,
};
static const struct bl_member frame_members[] = {BL_MEMBER_ENUM("type", type, &frames),
                                                 BL_MEMBER_END};
#undef BL_RECORD_STRUCT
static bool order_rule(const void *object, struct bl_record_fault *fault)
{
    if (((const struct frame *)object)->id != 13)
        return true;
    *fault = (struct bl_record_fault){.path = "/id", .message = "no order has that id"};
    return false;
}

static const struct bl_record order_record =
    BL_RECORD("an-order", struct frame, order_members, .rule = order_rule);
static const struct bl_record answer_record = BL_RECORD("an-answer", struct frame, answer_members);
static const struct bl_record *const frame_kinds[] = {&order_record, &answer_record, NULL};
static const struct bl_record frame_record =
    BL_RECORD("frame", struct frame, frame_members, .kinds = frame_kinds);

#define ORDER(rest)  "{\"type\":\"order\",\"id\":7," rest "}"
#define ANSWER(rest) "{\"type\":\"answer\",\"id\":7" rest "}"

static void every_variant_is_written_as_it_was_read(void **state BL_UNUSED)
{
    static const char *const documents[] = {
        ORDER("\"do\":\"lift\",\"by\":{\"height\":9}"),
        ORDER("\"do\":\"turn\",\"by\":{\"angle\":0}"),
        ANSWER(",\"result\":null"),
        ANSWER(",\"result\":{\"a\":[]}"),
        ANSWER(",\"reason\":\"\""),
        "{\"type\":\"end\"}",
    };
    struct bl_arena arena = {0};

    for (size_t i = 0; i < BL_COUNT(documents); i++) {
        struct frame frame;
        memset(&frame, 0xa5, sizeof frame);
        assert_int_equal(
            bl_record_read(&arena, &frame_record, parse(&arena, documents[i]), &frame, NULL), 0);
        assert_string_equal(written(&arena, &frame_record, &frame), documents[i]);
        assert_reading(&frame_record, documents[i], NULL);
    }
    bl_arena_done(&arena);
}

static void another_member_selects_the_record_of_an_object(void **state BL_UNUSED)
{
    assert_reading(&frame_record, ORDER("\"by\":{\"height\":9},\"do\":\"lift\""), NULL);
    assert_reading(&frame_record, ORDER("\"do\":\"turn\",\"by\":{\"height\":9}"),
                   "by.angle: missing; expected a whole number from 0 to 360");
    assert_reading(&frame_record, ORDER("\"do\":\"lift\",\"by\":{\"height\":10}"),
                   "by.height: expected a whole number from 1 to 9, found 10");
    assert_reading(&frame_record, ORDER("\"by\":{\"height\":9},\"do\":\"push\""),
                   "do: expected one of lift, turn, found \"push\"");
    assert_reading(&frame_record, ORDER("\"by\":{\"height\":9}"),
                   "do: expected one of lift, turn, found nothing");
    assert_reading(&frame_record, ORDER("\"do\":\"lift\""), "by: missing; expected an object");
    assert_reading(&frame_record, ORDER("\"do\":\"lift\",\"by\":[]"),
                   "by: expected an object, found an empty array");
}

static void exactly_one_of_exclusive_members_is_present(void **state BL_UNUSED)
{
    assert_reading(&frame_record, ANSWER(""),
                   "expected either \"result\" or \"reason\", found neither");
    assert_reading(&frame_record, ANSWER(",\"reason\":\"\",\"result\":1"),
                   "expected either \"result\" or \"reason\", found both");
    assert_reading(&frame_record, ANSWER(",\"reason\":null"),
                   "reason: expected a string, found null");
}

static void a_member_of_another_kind_is_refused_and_an_unknown_one_is_not(void **state BL_UNUSED)
{
    assert_reading(&frame_record, "{\"type\":\"end\",\"result\":1}",
                   "\"result\" is a member of answer");
    assert_reading(&frame_record, ANSWER(",\"result\":1,\"by\":{}"),
                   "\"by\" is a member of order, not of answer");
    assert_reading(&frame_record, "{\"id\":7}",
                   "type: missing; expected one of order, answer, end");
    assert_reading(&frame_record, "{\"type\":\"end\",\"newer\":1}", NULL);
    assert_reading(&frame_record, ANSWER(",\"result\":1,\"newer\":1"), NULL);
    assert_reading(&frame_record, ANSWER(",\"newer\":1,\"result\":1"), NULL);
    assert_reading(&frame_record,
                   "{\"newer\":1,\"type\":\"answer\",\"newest\":1,\"id\":7,\"result\":1}", NULL);
}

static void the_rule_of_a_kind_is_applied(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct bl_record_fault fault;
    struct frame frame;

    assert_int_equal(bl_record_read(&arena, &frame_record,
                                    parse(&arena, "{\"type\":\"order\",\"id\":13,\"do\":\"turn\","
                                                  "\"by\":{\"angle\":1}}"),
                                    &frame, &fault),
                     BL_EPARSE);
    assert_string_equal(fault.path, "/id");
    assert_string_equal(fault.message, "no order has that id");
    assert_int_equal(bl_record_read(&arena, &frame_record,
                                    parse(&arena, "{\"type\":\"answer\",\"id\":13,\"result\":1}"),
                                    &frame, &fault),
                     0);
    bl_arena_done(&arena);
}

/* The same frames, with a separate schema for each kind. */
static const struct bl_record letter_record;
static const struct bl_record letter_order_record =
    BL_RECORD("letter:order", struct frame, order_members, .document = true, .of = &letter_record);
static const struct bl_record letter_answer_record = BL_RECORD(
    "letter:answer", struct frame, answer_members, .document = true, .of = &letter_record);
/* Of duplicate keys, every reader uses the last one. */
static void of_duplicate_kinds_the_last_one_counts(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct frame frame;
    const struct bl_json *value =
        parse(&arena, "{\"type\":\"answer\",\"id\":1,\"do\":\"turn\",\"by\":{\"angle\":9},"
                      "\"type\":\"order\"}");

    assert_int_equal(bl_record_read(&arena, &frame_record, value, &frame, NULL), 0);
    assert_int_equal(frame.type, FRAME_ORDER);
    assert_int_equal(frame.angle, 9);
    bl_arena_done(&arena);
}

static const struct bl_record *const letter_kinds[] = {&letter_order_record, &letter_answer_record,
                                                       NULL};
static const struct bl_record letter_record =
    BL_RECORD("letter", struct frame, frame_members, .kinds = letter_kinds, .document = true);

static void a_schema_refers_to_other_documents_by_their_id(void **state BL_UNUSED)
{
    static const struct {
        const char *document;
        bool fits, is_answer;
    } rows[] = {
        {ANSWER(",\"result\":1"), true, true},
        {ANSWER(""), false, false},
        {ANSWER(",\"result\":1,\"by\":{}"), false, true},
        {ORDER("\"do\":\"turn\",\"by\":{\"angle\":1}"), true, false},
        {"{\"type\":\"end\"}", true, false},
        {"{\"type\":\"end\",\"id\":1}", false, false},
    };
    static const char *const roots[] = {"letter", "letter:answer"};
    struct bl_arena arena = {0};

    for (size_t root = 0; root < BL_COUNT(roots); root++) {
        struct bl_json_schema *schema;
        struct bl_error error = {0};
        struct bl_text text = bl_arena_printf(
            &arena, "{\"$ref\":\"urn:belay:schema:%s\",\"$defs\":{\"a\":%s,\"b\":%s,\"c\":%s}}",
            roots[root], schema_text(&arena, &letter_record).data,
            schema_text(&arena, &letter_order_record).data,
            schema_text(&arena, &letter_answer_record).data);
        suite_fail_if(bl_json_schema_new(parse(&arena, text.data), &schema, &error) != 0, "%s: %s",
                      text.data, error.message);
        for (size_t i = 0; i < BL_COUNT(rows); i++) {
            struct bl_list problems;
            bool fits = bl_json_schema_check(schema, parse(&arena, rows[i].document), &arena,
                                             &problems) == 0;
            suite_fail_if(fits != (root == 0 ? rows[i].fits : rows[i].is_answer), "%s: %s",
                          roots[root], rows[i].document);
        }
        bl_json_schema_free(schema);
    }
    bl_arena_done(&arena);
}

/* ---- Records in several files ---------------------------------------------------------------- */

struct note {
    struct bl_text text;
    const struct bl_json *proof, *hint;
};

#define BL_RECORD_STRUCT struct note
static const struct bl_member proof_members[] = {BL_MEMBER_TEXT("text", text), BL_MEMBER_END};
static const struct bl_record proof_record =
    BL_RECORD("box:proof", struct note, proof_members, .document = true, .closed = true);
static const struct bl_member note_members[] = {
    BL_MEMBER_JSON("proof", proof, .record = &proof_record, .extensible = true, .optional = true),
    BL_MEMBER_JSON("hint", hint, .record = &proof_record, .optional = true), BL_MEMBER_END};
#undef BL_RECORD_STRUCT
static const struct bl_record note_record = BL_RECORD("note", struct note, note_members);
static const struct bl_record filed_record =
    BL_RECORD("box:note", struct note, note_members, .document = true);

static void a_standalone_schema_contains_all_its_references(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    const struct bl_json *alone = parse(&arena, schema_text(&arena, &note_record).data);
    const struct bl_json *filed = parse(&arena, schema_text(&arena, &filed_record).data);
    const struct bl_text reference = BL_TEXT("/properties/proof/$ref");

    assert_string_equal(bl_json_text(bl_json_pointer(alone, reference)).data, "#/$defs/proof");
    assert_non_null(bl_json_pointer(alone, BL_TEXT("/$defs/proof/properties/text")));
    assert_string_equal(bl_json_text(bl_json_pointer(filed, reference)).data,
                        "urn:belay:schema:box:proof");
    assert_null(bl_json_get(filed, BL_TEXT("$defs")));
    bl_arena_done(&arena);
}

static void a_closed_record_may_be_extensible_if_it_is_kept_as_json(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct note note;

    assert_int_equal(bl_record_read(&arena, &note_record,
                                    parse(&arena, "{\"proof\":{\"text\":\"a\",\"later\":1}}"),
                                    &note, NULL),
                     0);
    assert_int_equal(
        bl_record_check(&note_record, parse(&arena, "{\"proof\":{\"later\":1}}"), NULL), BL_EPARSE);
    assert_int_equal(bl_record_check(&note_record,
                                     parse(&arena, "{\"hint\":{\"text\":\"a\",\"later\":1}}"),
                                     NULL),
                     BL_EPARSE);
    bl_arena_done(&arena);
}

SUITE(record_variant,
      cmocka_unit_test(a_boolean_may_have_names_and_a_text_may_be_from_a_closed_set),
      cmocka_unit_test(an_absent_boolean_with_names_is_false),
      cmocka_unit_test(a_number_may_be_from_a_closed_set),
      cmocka_unit_test(a_constant_is_required_and_never_differs),
      cmocka_unit_test(an_array_and_an_object_may_be_in_the_struct_itself),
      cmocka_unit_test(a_distinct_list_has_no_duplicates),
      cmocka_unit_test(of_duplicate_kinds_the_last_one_counts),
      cmocka_unit_test(json_within_a_record_is_checked),
      cmocka_unit_test(raw_json_may_be_read_in_its_canonical_form),
      cmocka_unit_test(existing_json_is_written_unchanged),
      cmocka_unit_test(a_text_is_truncated_or_shared_on_request),
      cmocka_unit_test(every_variant_is_written_as_it_was_read),
      cmocka_unit_test(another_member_selects_the_record_of_an_object),
      cmocka_unit_test(exactly_one_of_exclusive_members_is_present),
      cmocka_unit_test(a_member_of_another_kind_is_refused_and_an_unknown_one_is_not),
      cmocka_unit_test(the_rule_of_a_kind_is_applied),
      cmocka_unit_test(a_schema_refers_to_other_documents_by_their_id),
      cmocka_unit_test(a_standalone_schema_contains_all_its_references),
      cmocka_unit_test(a_closed_record_may_be_extensible_if_it_is_kept_as_json));
