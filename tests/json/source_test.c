#include <belay/source.h>

#include <stdio.h>

#include "suite.h"

static const char *const colour_names[] = {"red", "green", "blue", "off"};
static const struct bl_names colours = BL_NAMES(colour_names);

/* A document with a member of each type that people may write in several forms. */
struct inner {
    uint64_t pause_ns;
    double rate;
};

struct found {
    struct bl_text text;
    const char *line;
    bool no_flag;
    uint64_t wait_ns;
    unsigned colour;
    bool colour_known;
    uint64_t count;
    const char *const *words;
    struct inner inner;
    struct inner *more;
    size_t more_count;
    const struct bl_json *ignored;
};

#define BL_RECORD_STRUCT struct inner
static const struct bl_member inner_members[] = {
    BL_MEMBER_DURATION("pause", pause_ns, .optional = true, .most = 3600 * BL_NS_PER_S),
    BL_MEMBER_NUMBER("rate", rate, .optional = true, .nullable = true, .none = -1, .most = 100,
                     .about = "USD per million tokens."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record inner_record =
    BL_RECORD("inner", struct inner, inner_members, .closed = true);
static const struct bl_member inner_element = {
    .type = BL_TYPE_OBJECT, .size = sizeof(struct inner), .record = &inner_record};

#define BL_RECORD_STRUCT struct found
static const struct bl_member found_members[] = {
    BL_MEMBER_TEXT("text", text, .optional = true),
    BL_MEMBER_STRING("line", line, .optional = true, .form = &bl_form_line),
    BL_MEMBER_BOOLEAN("flag", no_flag, .optional = true, .inverted = true),
    BL_MEMBER_DURATION("wait", wait_ns, .optional = true, .least = 1),
    BL_MEMBER_ENUM("colour", colour, &colours, .optional = true, BL_KNOWN(colour_known)),
    BL_MEMBER_INTEGER("count", count, .optional = true, .least = 1, .most = 9),
    BL_MEMBER_STRINGS("words", words, .optional = true, .or_string = true, .most = 3),
    BL_MEMBER_OBJECT("inner", inner, &inner_record, .optional = true),
    BL_MEMBER_ARRAY("more", more, more_count, &inner_element, .optional = true),
    BL_MEMBER_JSON("elsewhere", ignored, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record found_record =
    BL_RECORD("the file", struct found, found_members, .closed = true);
static const struct bl_record open_record = BL_RECORD("the file", struct found, found_members);

/* A source, and the faults that were reported. */
struct stage {
    struct bl_source source;
    struct bl_arena arena;
    struct bl_error error;
    struct bl_buffer told;
    struct found found;
};

static void stage_tell(struct bl_source *source, const struct bl_record_fault *fault)
{
    struct stage *stage = BL_CONTAINER(source, struct stage, source);
    char text[512];

    bl_record_fault_text(fault, text, sizeof text);
    bl_buffer_printf(&stage->told, "%u %s\n",
                     bl_document_place(&source->document, fault->node).line, text);
}

static void stage_make(struct stage *stage)
{
    *stage = (struct stage){
        .source = {.file = "f.yaml", .operation = "read", .error = &stage->error},
        .found = {.count = 7, .inner = {.rate = 2}},
    };
    bl_arena_init(&stage->arena);
    bl_buffer_init(&stage->told, 4096);
}

static void stage_done(struct stage *stage)
{
    bl_arena_done(&stage->arena);
    bl_buffer_done(&stage->told);
}

static int stage_read(struct stage *stage, const struct bl_record *record, const char *text)
{
    int code = bl_source_open(&stage->source, &stage->arena, bl_text_from(text), 4096);

    return code != 0 ? code
                     : bl_source_read(&stage->source, &stage->arena, record,
                                      stage->source.document.root, &stage->found);
}

static void a_document_overrides_the_defaults(void **state BL_UNUSED)
{
    struct stage stage;

    stage_make(&stage);
    assert_int_equal(stage_read(&stage, &found_record,
                                "text: \"a\\nb\"\nline: c d\nflag: false\nwait: 1ms\n"
                                "colour: blue\nwords: [x, y]\ninner: {pause: 1.5}\n"
                                "more: [{}, {rate: 3}]\nelsewhere: {a: b}\n"),
                     0);
    assert_true(bl_text_equal(stage.found.text, BL_TEXT("a\nb")));
    assert_string_equal(stage.found.line, "c d");
    assert_true(stage.found.no_flag);
    assert_int_equal(stage.found.wait_ns, BL_NS_PER_MS);
    assert_true(stage.found.colour_known);
    assert_int_equal(stage.found.colour, 2);
    assert_int_equal(stage.found.count, 7);
    assert_string_equal(stage.found.words[1], "y");
    assert_null(stage.found.words[2]);
    assert_int_equal(stage.found.inner.pause_ns, 1500 * BL_NS_PER_MS);
    assert_true(stage.found.inner.rate == 2);
    assert_int_equal(stage.found.more_count, 2);
    assert_true(stage.found.more[0].rate == -1);
    assert_true(stage.found.more[1].rate == 3);
    assert_int_equal(stage_read(&stage, &found_record, "words: z\ninner: {rate: null}\n"), 0);
    assert_string_equal(stage.found.words[0], "z");
    assert_null(stage.found.words[1]);
    assert_true(stage.found.inner.rate == -1);
    assert_string_equal(stage.found.line, "c d");
    stage_done(&stage);
}

static void a_fault_has_its_place_and_a_hint(void **state BL_UNUSED)
{
    static const struct {
        const char *text, *message, *hint;
    } cases[] = {
        {"text: 1\nflag: 3\n", "f.yaml:1:7: text: expected a string, found 1",
         "put quotes around it"},
        {"text: [a]", "f.yaml:1:7: text: expected a string, found a list", ""},
        {"text: {a: b}", "f.yaml:1:7: text: expected a string, found a mapping", ""},
        {"text:", "f.yaml:1:6: text: expected a string, found null", "put quotes around it"},
        {"line: ''",
         "f.yaml:1:7: line: expected one line of text without control characters, found \"\"", ""},
        {"line: \"\\x7f\"",
         "f.yaml:1:7: line: expected one line of text without control characters, found \"\x7f\"",
         ""},
        {"flag: on it", "f.yaml:1:7: flag: expected true or false, found \"on it\"", ""},
        {"wait: 0s",
         "f.yaml:1:7: wait: expected a duration above zero such as 20ms, 90s or 1.5h (a number "
         "alone is seconds), found \"0s\"",
         ""},
        {"inner: {pause: 61m}",
         "f.yaml:1:16: inner.pause: expected a duration of at most 1h such as 20ms, 90s or 1.5h "
         "(a number alone is seconds), found \"61m\"",
         ""},
        {"inner: {rate: -1}",
         "f.yaml:1:15: inner.rate: expected a number from 0 to 100 or null, found -1",
         "USD per million tokens."},
        {"colour: gren",
         "f.yaml:1:9: colour: expected one of red, green, blue, off, found \"gren\"",
         "did you mean \"green\"?"},
        {"color: red", "f.yaml:1:1: unknown member \"color\" in the file",
         "did you mean \"colour\"?"},
        {"xyzzy: red", "f.yaml:1:1: unknown member \"xyzzy\" in the file",
         "expected one of text, line, flag, wait, colour, count, words, inner, more, elsewhere"},
        {"words: [a, [b]]", "f.yaml:1:12: words[1]: expected a string, found a list", ""},
        {"words: [a, b, c, d]",
         "f.yaml:1:8: words: expected a list of strings of at most 3 elements or one string, "
         "found a list",
         ""},
        {"words: 3",
         "f.yaml:1:8: words: expected a list of strings of at most 3 elements or one string, "
         "found 3",
         ""},
        {"- text", "f.yaml:1:1: expected a mapping, found a list", ""},
        {"colour: red\ncolour: red\n", NULL, NULL},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct stage stage;
        stage_make(&stage);
        assert_int_equal(stage_read(&stage, &found_record, cases[i].text), BL_EPARSE);
        if (cases[i].message != NULL)
            assert_string_equal(stage.error.message, cases[i].message);
        if (cases[i].hint != NULL)
            assert_string_equal(stage.error.hint, cases[i].hint);
        assert_string_equal(stage.error.operation, "read");
        assert_string_equal(stage.error.target, "f.yaml");
        stage_done(&stage);
    }
}

/* A value may be a secret. */
static void no_value_of_a_guarded_document_is_shown(void **state BL_UNUSED)
{
    static const char *const cases[][2] = {
        {"colour: sk-secret", "f.yaml:1:9: colour: expected one of red, green, blue, off"},
        {"wait: sk-secret", "f.yaml:1:7: wait: expected a duration above zero such as 20ms, 90s or "
                            "1.5h (a number alone is seconds)"},
        {"text: [sk-secret]", "f.yaml:1:7: text: expected a string, found a list"},
        {"text: 417417417", "f.yaml:1:7: text: expected a string, found a whole number"},
        {"text: 'sk-secret", "f.yaml:1:17: expected the closing quote"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct stage stage;
        stage_make(&stage);
        stage.source.guarded = true;
        assert_int_equal(stage_read(&stage, &found_record, cases[i][0]), BL_EPARSE);
        assert_string_equal(stage.error.message, cases[i][1]);
        assert_null(strstr(stage.error.hint, "secret"));
        stage_done(&stage);
    }
}

static void every_fault_is_reported_on_request(void **state BL_UNUSED)
{
    static const char *const text = "text: [a]\n"
                                    "colur: red\n"
                                    "words: [[a], b]\n"
                                    "inner: {rat: 1, pause: soon}\n"
                                    "count: 10\n"
                                    "line: fine\n"
                                    "more: [{}, {rate: 101}]\n";
    static const char told[] =
        "1 text: expected a string, found a list\n"
        "2 unknown member \"colur\" in the file%s; did you mean \"colour\"?\n"
        "3 words[0]: expected a string, found a list\n"
        "4 unknown member \"rat\" in inner; did you mean \"rate\"?\n"
        "4 pause: expected a duration of at most 1h such as 20ms, 90s or 1.5h (a number alone is "
        "seconds), found \"soon\"\n"
        "5 count: expected a whole number from 1 to 9, found 10\n"
        "7 rate: expected a number from 0 to 100 or null, found 101; USD per million tokens.\n";

    for (unsigned open = 0; open < 2; open++) {
        struct stage stage;
        char expected[1024];
        stage_make(&stage);
        stage.source.tell = stage_tell;
        assert_int_equal(stage_read(&stage, open ? &open_record : &found_record, text), BL_EPARSE);
        snprintf(expected, sizeof expected, told, open ? " is ignored" : "");
        assert_string_equal(bl_buffer_text(&stage.told).data, expected);
        assert_string_equal(stage.error.message, "");
        /* Valid members are read. */
        assert_int_equal(stage.found.more_count, 2);
        assert_string_equal(stage.found.line, "fine");
        stage_done(&stage);
    }
    struct stage stage;
    stage_make(&stage);
    stage.source.tell = stage_tell;
    /* A misspelt member that is only ignored is not a failure; a longer word that begins with a
     * known name is not a misspelling. */
    assert_int_equal(stage_read(&stage, &open_record, "cuont: 1\ncounters: 2\n"), 0);
    assert_string_equal(bl_buffer_text(&stage.told).data,
                        "1 unknown member \"cuont\" in the file is ignored; did you mean "
                        "\"count\"?\n");
    stage_done(&stage);
}

static void the_table_decides_the_scalars_of_a_loose_document(void **state BL_UNUSED)
{
    static const char *const texts[] = {
        "text: 'true'\nline: '3.50'\nflag: 'No'\nwait: ' 2 '\ncolour: 'off'\ncount: '0x9'\n"
        "words: '7'\ninner: {rate: '1e1'}\n",
        "text: true\nline: '3.50'\nflag: false\nwait: 2\ncolour: false\ncount: 9\n"
        "words: [7]\ninner: {rate: 10}\nmore: null\n",
    };
    for (size_t i = 0; i < BL_COUNT(texts); i++) {
        struct stage stage;
        stage_make(&stage);
        stage.source.loose = true;
        assert_int_equal(stage_read(&stage, &found_record, texts[i]), 0);
        assert_true(bl_text_equal(stage.found.text, BL_TEXT("true")));
        assert_string_equal(stage.found.line, "3.50");
        assert_true(stage.found.no_flag);
        assert_int_equal(stage.found.wait_ns, 2 * BL_NS_PER_S);
        assert_int_equal(stage.found.colour, 3);
        assert_int_equal(stage.found.count, 9);
        assert_string_equal(stage.found.words[0], "7");
        assert_true(stage.found.inner.rate == 10);
        stage_done(&stage);
    }
    struct stage stage;
    stage_make(&stage);
    stage.source.loose = true;
    assert_int_equal(stage_read(&stage, &found_record, "inner: {}\ncount: '10'\n"), BL_EPARSE);
    assert_string_equal(stage.error.message,
                        "f.yaml:2:8: count: expected a whole number from 1 to 9, found 10");
    stage_done(&stage);
    stage_make(&stage);
    assert_int_equal(stage_read(&stage, &found_record, "count: '9'\n"), BL_EPARSE);
    assert_int_equal(stage_read(&stage, &found_record, "more: null\n"), BL_EPARSE);
    stage_done(&stage);
}

/* Programs write a number of seconds, without a unit. */
static void a_duration_of_json_is_a_number(void **state BL_UNUSED)
{
    struct inner inner = {.pause_ns = 1500 * BL_NS_PER_MS, .rate = 1}, read;
    struct bl_json_writer writer;
    struct bl_buffer text;
    struct bl_arena arena;
    const struct bl_json *json;

    bl_arena_init(&arena);
    bl_buffer_init(&text, 4096);
    bl_json_writer_init(&writer, &text);
    bl_record_write(&writer, &inner_record, &inner);
    assert_true(bl_text_equal(bl_buffer_text(&text), BL_TEXT("{\"pause\":1.5,\"rate\":1.0}")));
    assert_int_equal(bl_json_read(&arena, bl_buffer_text(&text), NULL, &json, NULL), 0);
    assert_int_equal(bl_record_read(&arena, &inner_record, json, &read, NULL), 0);
    assert_int_equal(read.pause_ns, inner.pause_ns);
    assert_int_equal(bl_json_read(&arena, BL_TEXT("{\"pause\":\"1s\"}"), NULL, &json, NULL), 0);
    assert_int_equal(bl_record_read(&arena, &inner_record, json, &read, NULL), BL_EPARSE);
    bl_buffer_done(&text);
    bl_arena_done(&arena);
}

SUITE(source, cmocka_unit_test(a_document_overrides_the_defaults),
      cmocka_unit_test(a_fault_has_its_place_and_a_hint),
      cmocka_unit_test(no_value_of_a_guarded_document_is_shown),
      cmocka_unit_test(every_fault_is_reported_on_request),
      cmocka_unit_test(the_table_decides_the_scalars_of_a_loose_document),
      cmocka_unit_test(a_duration_of_json_is_a_number));
