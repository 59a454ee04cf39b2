/* Reads one JSON value from standard input and writes its canonical form (RFC 8785) to standard
 * output. On an error, exits with 1 and a message on standard error. For comparisons with other
 * implementations. */
#include <stdio.h>

#include <belay/json.h>

#define INPUT_MAX (64u << 20)

static int fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    return 1;
}

static int read_input(struct bl_buffer *input)
{
    char part[65536];

    for (size_t count; (count = fread(part, 1, sizeof part, stdin)) > 0;) {
        if (bl_buffer_append(input, (struct bl_text){part, count}) != 0)
            return fail("the input exceeds the size limit");
    }
    return ferror(stdin) ? fail("the input cannot be read") : 0;
}

static int write_canonical(struct bl_arena *arena, struct bl_text input, struct bl_buffer *output)
{
    const struct bl_json *value;
    struct bl_json_fault fault;
    char text[512];

    if (bl_json_read(arena, input, NULL, &value, &fault) != 0) {
        bl_json_fault_text(&fault, text, sizeof text);
        return fail(text);
    }
    int result = bl_json_write_canonical(output, value);
    if (result != 0)
        return fail(bl_error_text(result));
    if (fwrite(output->data, 1, output->size, stdout) != output->size || fflush(stdout) != 0)
        return fail("the output cannot be written");
    return 0;
}

int main(void)
{
    struct bl_buffer input, output;
    struct bl_arena arena;

    bl_buffer_init(&input, INPUT_MAX);
    /* "1e20" grows to 21 bytes, proportionally more than any escape. */
    bl_buffer_init(&output, 6 * (size_t)INPUT_MAX);
    bl_arena_init(&arena);
    int result = read_input(&input);
    if (result == 0)
        result = write_canonical(&arena, bl_buffer_text(&input), &output);
    bl_arena_done(&arena);
    bl_buffer_done(&output);
    bl_buffer_done(&input);
    return result;
}
