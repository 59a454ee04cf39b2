#include "suite.h"

#include <belay/value.h>

/* A document with one of each kind. */
struct found {
    struct bl_text text;
    const char *line;
    bool flag;
    uint64_t wait_ns, pause_ns;
    size_t color;
    unsigned count;
};

static const char *const names[] = {"text", "line", "flag", "wait", "pause", "color", NULL};
static const char *const colors[] = {"red", "green", "blue", NULL};

static int read_member(struct bl_value_reader *reader, size_t which, const struct bl_json *key,
                       void *out)
{
    struct found *found = out;

    found->count++;
    switch (which) {
    case 0: return bl_value_read_text(reader, key, &found->text);
    case 1: return bl_value_read_line(reader, key + 1, "line", &found->line);
    case 2: return bl_value_read_boolean(reader, key, &found->flag);
    case 3: return bl_value_read_duration(reader, key, 1, &found->wait_ns);
    case 4: return bl_value_read_duration(reader, key, 0, &found->pause_ns);
    default: return bl_value_read_choice(reader, key, colors, &found->color);
    }
}

static int read_all(struct bl_arena *arena, const char *source, bool guarded, struct found *found,
                    struct bl_error *error)
{
    struct bl_value_reader reader = {
        .error = error, .operation = "read", .file = "f.yaml", .guarded = guarded};
    int code = bl_value_read_document(&reader, arena, bl_text_from(source), 4096);

    *found = (struct found){0};
    return code != 0 ? code
                     : bl_value_read_members(&reader, reader.document.root, "the file", names,
                                             read_member, found);
}

static void values_are_read_by_their_names(void **state BL_UNUSED)
{
    struct bl_arena arena;
    struct bl_error error = {0};
    struct found found;

    bl_arena_init(&arena);
    assert_int_equal(read_all(&arena,
                              "text: \"a\\nb\"\nline: c d\nflag: true\nwait: 1ms\npause: 0\n"
                              "color: blue\n",
                              false, &found, &error),
                     0);
    assert_int_equal(found.count, 6);
    assert_true(bl_text_equal(found.text, BL_TEXT("a\nb")));
    assert_string_equal(found.line, "c d");
    assert_true(found.flag);
    assert_int_equal(found.wait_ns, BL_NS_PER_MS);
    assert_int_equal(found.pause_ns, 0);
    assert_int_equal(found.color, 2);
    bl_arena_done(&arena);
}

static void what_is_wrong_is_named_with_its_place(void **state BL_UNUSED)
{
    static const struct {
        const char *source, *message, *hint;
    } cases[] = {
        {"text: 1\nflag: 3\n", "line 1, column 7: text must be text, is an integer",
         "put quotes around it"},
        {"text: [a]", "line 1, column 7: text must be text, is a list", ""},
        {"text: {a: b}", "line 1, column 7: text must be text, is a mapping", ""},
        {"line: 2.5", "line 1, column 7: line must be text, is a number", "put quotes around it"},
        {"line: ''", "line 1, column 7: line must not be empty", ""},
        {"line: \"a\\tb\"", "line 1, column 7: line holds a control character", ""},
        {"line: \"\\x7f\"", "line 1, column 7: line holds a control character", ""},
        {"flag: on it", "line 1, column 7: flag must be true or false, is text", ""},
        {"wait: 0s", "line 1, column 7: wait must be a duration above zero",
         "like 500ms, 90s or 15m; a number alone is seconds"},
        {"pause: x", NULL, "like 20ms, 1.5s or 2m; a number alone is seconds"},
        {"color: gren", "line 1, column 8: color is not known: 'gren'", "did you mean 'green'?"},
        {"color: \"o\\nrange\"", "line 1, column 8: color is not known: 'o?range'",
         "what it may be: red, green, blue"},
        {"colour: red", "line 1, column 1: the file has no key 'colour'", "did you mean 'color'?"},
        {"- text", "line 1, column 1: the file must be a mapping, is a list", ""},
        {"color: red\ncolor: red\n", NULL, NULL},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_arena arena;
        struct bl_error error = {0};
        struct found found;
        bl_arena_init(&arena);
        assert_int_equal(read_all(&arena, cases[i].source, false, &found, &error), BL_EPARSE);
        assert_true(found.count <= 1);
        assert_null(found.line);
        if (cases[i].message != NULL)
            assert_string_equal(error.message, cases[i].message);
        if (cases[i].hint != NULL)
            assert_string_equal(error.hint, cases[i].hint);
        assert_string_equal(error.operation, "read");
        assert_string_equal(error.target, "f.yaml");
        bl_arena_done(&arena);
    }
}

/* What stands there may be a secret. */
static void nothing_of_a_guarded_file_is_shown(void **state BL_UNUSED)
{
    static const char *const sources[][2] = {
        {"color: sk-secret", "f.yaml:1:8: color is none of those there are"},
        {"wait: sk-secret", "f.yaml:1:7: wait must be a duration above zero"},
        {"text: [sk-secret]", "f.yaml:1:7: text must be text, is a list"},
    };
    for (size_t i = 0; i < BL_COUNT(sources); i++) {
        struct bl_arena arena;
        struct bl_error error = {0};
        struct found found;
        bl_arena_init(&arena);
        assert_int_equal(read_all(&arena, sources[i][0], true, &found, &error), BL_EPARSE);
        assert_string_equal(error.message, sources[i][1]);
        assert_null(strstr(error.hint, "secret"));
        bl_arena_done(&arena);
    }
}

SUITE(value, cmocka_unit_test(values_are_read_by_their_names),
      cmocka_unit_test(what_is_wrong_is_named_with_its_place),
      cmocka_unit_test(nothing_of_a_guarded_file_is_shown));
