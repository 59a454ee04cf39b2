/* What is read must be written, read again and be the same; what is canonical must stay as it is.
 * With BELAY_WITH_JANSSON, jansson must accept and refuse the same texts, except for the differences
 * below. */
#include <stdio.h>
#include <stdlib.h>

#ifdef BELAY_WITH_JANSSON
#include <jansson.h>
#endif

#include <belay/json.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct bl_json_limits limits = {.depth_max = 1024};

static void check(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "json_fuzz: %s\n", what);
    abort();
}

#ifdef BELAY_WITH_JANSSON
/* Both may refuse for different reasons; where only one does, it must be for one of these. */
static void compare_with_jansson(struct bl_text input, int result,
                                 const struct bl_json_fault *fault)
{
    json_error_t error;
    json_t *value = json_loadb(input.data, input.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    bool accepted = value != NULL;

    json_decref(value);
    if (accepted == (result == 0))
        return;
    if (accepted) {
        /* Its nesting may be deeper than ours. A NUL byte after the value is the end to it. */
        bool at_nul = fault->offset < input.size && input.data[fault->offset] == '\0';
        check(result == BL_ELIMIT || at_nul, "jansson accepts what is refused here");
        return;
    }
    enum json_error_code code = json_error_code(&error);
    /* It has no integers beyond int64_t, where ours are unsigned or doubles. */
    if (code == json_error_numeric_overflow)
        return;
    /* Its keys are C strings. */
    if (code == json_error_null_byte_in_key)
        return;
    check(false, "jansson refuses what is accepted here");
}
#endif

static void write_plain(struct bl_buffer *out, const struct bl_json *value, uint32_t indent)
{
    struct bl_json_writer writer;

    bl_buffer_clear(out);
    bl_json_writer_init(&writer, out);
    bl_json_writer_indent(&writer, indent);
    bl_json_write_value(&writer, value);
    check(bl_json_writer_done(&writer) == 0, "what was read cannot be written");
}

static void check_fault(struct bl_text input, int result, const struct bl_json_fault *fault)
{
    check(result == BL_EPARSE || result == BL_ELIMIT, "a code that is not promised");
    check(fault->offset <= input.size, "a fault outside the input");
    check(bl_utf8_valid(bl_text_from(fault->excerpt)), "an excerpt that is not UTF-8");
    check(bl_utf8_valid(bl_text_from(fault->found)), "a finding that is not UTF-8");
    check(fault->line >= 1 && fault->column >= 1, "a line or column before the first");
}

/* Reads `text` and checks that it is `value` and is written as `written`. */
static void check_again(struct bl_arena *arena, struct bl_text text, const struct bl_json *value,
                        struct bl_text written)
{
    struct bl_buffer again;
    const struct bl_json *second = NULL;

    bl_buffer_init(&again, 64u << 20);
    check(bl_json_read(arena, text, &limits, &second, NULL) == 0, "what was written is refused");
    check(bl_json_equal(value, second) && bl_json_equal(second, value), "a round trip changed it");
    write_plain(&again, second, 0);
    check(bl_text_equal(bl_buffer_text(&again), written), "written differently");
    bl_buffer_done(&again);
}

static void check_canonical(struct bl_arena *arena, const struct bl_json *value)
{
    struct bl_buffer first, second;
    const struct bl_json *again = NULL;

    bl_buffer_init(&first, 64u << 20);
    bl_buffer_init(&second, 64u << 20);
    check(bl_json_write_canonical(&first, value) == 0, "there is no canonical form");
    check(bl_json_read(arena, bl_buffer_text(&first), &limits, &again, NULL) == 0,
          "the canonical form is refused");
    check(bl_json_write_canonical(&second, again) == 0, "there is no second canonical form");
    check(bl_text_equal(bl_buffer_text(&first), bl_buffer_text(&second)),
          "the canonical form of the canonical form is another");
    bl_buffer_done(&first);
    bl_buffer_done(&second);
}

static void check_duplicates(struct bl_arena *arena, struct bl_text input)
{
    struct bl_json_limits strict = limits;
    struct bl_json_fault fault;
    const struct bl_json *value = NULL;

    strict.refuse_duplicates = true;
    int result = bl_json_read(arena, input, &strict, &value, &fault);
    if (result == 0)
        return;
    check_fault(input, result, &fault);
    check(input.data[fault.offset] == '"', "a duplicate that is not a key");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bl_text input = {(const char *)data, size};
    struct bl_arena arena;
    struct bl_buffer compact, indented;
    struct bl_json_fault fault;
    const struct bl_json *value = NULL;

    bl_arena_init(&arena);
    int result = bl_json_read(&arena, input, &limits, &value, &fault);
#ifdef BELAY_WITH_JANSSON
    compare_with_jansson(input, result, &fault);
#endif
    if (result != 0) {
        check_fault(input, result, &fault);
        bl_arena_done(&arena);
        return 0;
    }
    bl_buffer_init(&compact, 64u << 20);
    bl_buffer_init(&indented, 256u << 20);
    write_plain(&compact, value, 0);
    write_plain(&indented, value, 1);
    check_again(&arena, bl_buffer_text(&compact), value, bl_buffer_text(&compact));
    check_again(&arena, bl_buffer_text(&indented), value, bl_buffer_text(&compact));
    check_canonical(&arena, value);
    check_duplicates(&arena, input);
    bl_buffer_done(&compact);
    bl_buffer_done(&indented);
    bl_arena_done(&arena);
    return 0;
}
