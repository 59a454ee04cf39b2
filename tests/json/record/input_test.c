/* The input of a tool: the schema that is offered, and the values that are read. */
#include <belay/record.h>

#include "suite.h"

static const char *const speed_names[] = {"slow", "fast"};
static const struct bl_names speeds = BL_NAMES(speed_names);

struct stop {
    struct bl_text place;
};

struct trip {
    struct stop *stops;
    size_t stop_count;
    struct bl_text name;
    struct bl_text mood;
    unsigned speed;
    int64_t seats;
    uint64_t limit_ns;
};

#define BL_RECORD_STRUCT struct stop
static const struct bl_member stop_members[] = {
    BL_MEMBER_TEXT("place", place, .least = 1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record stop_record =
    BL_RECORD("stop", struct stop, stop_members, .closed = true);
static const struct bl_member stop_element = BL_ELEMENT(struct stop, &stop_record);

#define BL_RECORD_STRUCT struct trip
static const struct bl_member extra_members[] = {
    BL_MEMBER_INTEGER("seats", seats, .optional = true, .none = 4, .least = 1, .most = 9),
    BL_MEMBER_DURATION("limit", limit_ns, .optional = true, .or_string = true),
    BL_MEMBER_END,
};
static const struct bl_record extra_record = BL_RECORD_GROUP("extra", extra_members);
static const struct bl_member trip_members[] = {
    BL_MEMBER_TEXT("name", name, .optional = true, .least = 1, .most = 3, .characters = true,
                   .about = "Its name."),
    BL_MEMBER_TEXT("mood", mood, .optional = true, .names = &speeds),
    BL_MEMBER_ENUM("speed", speed, &speeds, .optional = true),
    BL_MEMBER_ARRAY("stops", stops, stop_count, &stop_element, .optional = true, .most = 2,
                    .about = "In order."),
    BL_MEMBER_INCLUDE(&extra_record),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record trip_record =
    BL_RECORD("trip", struct trip, trip_members, .closed = true);

static const struct bl_json *parse(struct bl_arena *arena, const char *text)
{
    const struct bl_json *value;

    suite_fail_if(bl_json_read(arena, bl_text_from(text), NULL, &value, NULL) != 0, "not JSON: %s",
                  text);
    return value;
}

static void an_input_schema_has_no_references(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};

    assert_string_equal(
        bl_record_input_schema(&arena, &trip_record).data,
        "{\"type\":\"object\",\"properties\":{"
        "\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":3,"
        "\"description\":\"Its name.\"},"
        "\"mood\":{\"type\":\"string\",\"enum\":[\"slow\",\"fast\"]},"
        "\"speed\":{\"enum\":[\"slow\",\"fast\"]},"
        "\"stops\":{\"type\":\"array\",\"maxItems\":2,\"description\":\"In order.\",\"items\":{"
        "\"type\":\"object\",\"properties\":{\"place\":{\"type\":\"string\",\"minLength\":1}},"
        "\"required\":[\"place\"],\"additionalProperties\":false}},"
        "\"seats\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9},"
        "\"limit\":{\"type\":[\"number\",\"string\"]}},\"additionalProperties\":false}");
    bl_arena_done(&arena);
}

/* A value that is valid by the offered schema is read: a model counts characters, not bytes. */
static void the_input_schema_and_the_reader_agree(void **state BL_UNUSED)
{
    static const struct {
        const char *document;
        const char *fault; /* NULL: valid */
    } rows[] = {
        {"{}", NULL},
        {"{\"name\":\"äöü\"}", NULL},
        {"{\"name\":\"äöüß\"}", "name: expected a string of 1 to 3 characters, found \"äöüß\""},
        {"{\"limit\":1.5}", NULL},
        {"{\"limit\":\"2m\"}", NULL},
        {"{\"seats\":0}", "seats: expected a whole number from 1 to 9, found 0"},
        {"{\"mood\":\"slack\"}", "mood: expected one of slow, fast, found \"slack\""},
    };
    struct bl_arena arena = {0};
    struct bl_json_schema *schema;
    struct bl_text text = bl_record_input_schema(&arena, &trip_record);

    assert_int_equal(bl_json_schema_new(parse(&arena, text.data), &schema, NULL), 0);
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        const struct bl_json *value = parse(&arena, rows[i].document);
        struct bl_record_fault fault = {0};
        char message[400] = "";
        struct bl_list problems;
        struct trip trip;
        if (bl_record_view(&arena, &trip_record, value, &trip, &fault) != 0)
            bl_record_fault_text(&fault, message, sizeof message);
        assert_string_equal(message, rows[i].fault != NULL ? rows[i].fault : "");
        assert_int_equal(bl_json_schema_check(schema, value, &arena, &problems) == 0,
                         rows[i].fault == NULL);
    }
    bl_json_schema_free(schema);
    bl_arena_done(&arena);
}

static void a_duration_may_have_a_unit(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct trip trip;

    assert_int_equal(
        bl_record_view(&arena, &trip_record, parse(&arena, "{\"limit\":\"2m\"}"), &trip, NULL), 0);
    assert_int_equal(trip.limit_ns, 120 * BL_NS_PER_S);
    assert_int_equal(trip.seats, 4);
    bl_arena_done(&arena);
}

static void merging_keeps_members_that_are_missing(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct trip trip;

    assert_int_equal(bl_record_view(&arena, &trip_record,
                                    parse(&arena, "{\"name\":\"a\",\"seats\":2}"), &trip, NULL),
                     0);
    assert_int_equal(
        bl_record_merge(&arena, &trip_record, parse(&arena, "{\"name\":\"b\"}"), &trip, NULL), 0);
    assert_true(bl_text_equal(trip.name, BL_TEXT("b")));
    assert_int_equal(trip.seats, 2);
    assert_int_equal(
        bl_record_merge(&arena, &extra_record, parse(&arena, "{\"seats\":3}"), &trip, NULL), 0);
    assert_true(bl_text_equal(trip.name, BL_TEXT("b")));
    assert_int_equal(trip.seats, 3);
    bl_arena_done(&arena);
}

SUITE(record_input, cmocka_unit_test(an_input_schema_has_no_references),
      cmocka_unit_test(the_input_schema_and_the_reader_agree),
      cmocka_unit_test(merging_keeps_members_that_are_missing),
      cmocka_unit_test(a_duration_may_have_a_unit));
