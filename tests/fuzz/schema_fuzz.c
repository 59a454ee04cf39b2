/* A schema, a NUL, and the value to check: neither may crash, leak or hang, and a value that does
 * not fit has at least one problem. */
#include <belay/json.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct bl_json_schema *schema, struct bl_text input, struct bl_arena *arena)
{
    const struct bl_json *value;
    struct bl_list problems;
    /* With duplicates a path would not lead to the member it was made for. */
    struct bl_json_limits limits = {.refuse_duplicates = true};
    if (bl_json_read(arena, input, &limits, &value, NULL) < 0)
        return;
    int result = bl_json_schema_check(schema, value, arena, &problems);
    if ((result == 0) != bl_list_empty(&problems))
        __builtin_trap();
    BL_LIST_EACH (link, &problems) {
        struct bl_json_problem *problem = BL_CONTAINER(link, struct bl_json_problem, link);
        if (problem->message.size == 0 || !bl_utf8_valid(problem->message))
            __builtin_trap();
        if (bl_json_pointer(value, problem->path) == NULL)
            __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bl_text input = {(const char *)data, size}, source;
    struct bl_arena arena;
    const struct bl_json *tree;
    struct bl_json_schema *schema;
    if (!bl_text_split(&input, '\0', &source))
        return 0;
    bl_arena_init(&arena);
    if (bl_json_read(&arena, source, NULL, &tree, NULL) == 0 &&
        bl_json_schema_new(tree, &schema, NULL) == 0) {
        for (size_t i = 0; bl_json_schema_ignored(schema, i).size > 0; i++) {
            if (bl_json_pointer(tree, bl_json_schema_ignored(schema, i)) == NULL)
                __builtin_trap();
        }
        check(schema, input, &arena);
        check(schema, source, &arena);
        bl_json_schema_free(schema);
    }
    bl_arena_done(&arena);
    return 0;
}
