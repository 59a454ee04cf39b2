#include "golden.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include <belay/wire.h>

static void path_of(char out[512], const char *relative, const char *name, const char *ending)
{
    const char *root = getenv("BELAY_SOURCE_ROOT");
    snprintf(out, 512, "%s/%s/%s%s", root != NULL ? root : ".", relative, name, ending);
}

/* ---- The golden files ------------------------------------------------------------------------ */

static struct bl_text load(struct bl_arena *arena, const char *path)
{
    struct bl_text file = suite_read_file(path);
    struct bl_text kept = bl_arena_text(arena, file);
    bl_free((void *)(uintptr_t)file.data);
    return kept;
}

const struct bl_json *golden_parse(struct bl_arena *arena, struct bl_text text)
{
    const struct bl_json *value = NULL;
    assert_int_equal(bl_json_read(arena, text, NULL, &value, NULL), 0);
    return value;
}

static void load_file(struct golden *golden, struct golden_file *file)
{
    uint8_t head[BL_FRAME_HEAD_SIZE];
    char path[512];

    path_of(path, "tests/cell/wire", file->name, ".frame");
    struct bl_text whole = load(&golden->arena, path);
    assert_true(whole.size > sizeof head);
    bl_frame_head(head, (uint32_t)(whole.size - sizeof head));
    assert_memory_equal(whole.data, head, sizeof head);
    file->bytes = (struct bl_text){whole.data + sizeof head, whole.size - sizeof head};
    file->root = golden_parse(&golden->arena, file->bytes);
    path_of(path, "tests/cell/wire", file->name, ".json");
    assert_true(
        bl_json_equal(file->root, golden_parse(&golden->arena, load(&golden->arena, path))));
}

int golden_set_up(void **state)
{
    struct golden *golden = bl_zalloc(sizeof *golden);
    char path[512];

    bl_arena_init(&golden->arena);
    path_of(path, "tests/cell/wire", "", "");
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct bl_text name = bl_text_from(entry->d_name), ending = BL_TEXT(".frame");
        if (!bl_text_ends_with(name, ending))
            continue;
        assert_true(golden->count < GOLDEN_FILES_MAX);
        struct golden_file *file = &golden->files[golden->count++];
        snprintf(file->name, sizeof file->name, "%.*s", (int)(name.size - ending.size), name.data);
        load_file(golden, file);
    }
    closedir(folder);
    *state = golden;
    return 0;
}

int golden_tear_down(void **state)
{
    struct golden *golden = *state;
    bl_arena_done(&golden->arena);
    bl_free(golden);
    return 0;
}

const struct golden_file *golden_find(const struct golden *golden, const char *prefix,
                                      const char *name)
{
    char whole[128];
    const struct golden_file *found = NULL;

    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    for (size_t i = 0; i < golden->count && found == NULL; i++) {
        if (strcmp(golden->files[i].name, whole) == 0)
            found = &golden->files[i];
    }
    suite_fail_if(found == NULL, "no golden file is called %s", whole);
    return found;
}

const struct bl_json *golden_get(const struct bl_json *object, const char *key)
{
    return bl_json_get(object, bl_text_from(key));
}

bool golden_is_of_client(const struct bl_json *root)
{
    static const char *const types[] = {"hello", "request", "cancel", "tool_result", "notify_ack"};

    for (size_t i = 0; i < BL_COUNT(types); i++) {
        if (bl_text_equal(bl_json_text(golden_get(root, "type")), bl_text_from(types[i])))
            return true;
    }
    return false;
}

/* Returns 0 if the codec accepts it as its own type. */
int golden_decode(struct bl_arena *arena, struct bl_text bytes, const struct bl_json *root)
{
    struct cell_frame frame;
    char message[160];

    if (!golden_is_of_client(root))
        return cell_host_frame_read(arena, bytes, &frame, NULL);
    bool first = bl_text_equal(bl_json_text(golden_get(root, "type")), BL_TEXT("hello"));
    int code = cell_frame_read(arena, bytes, first, &frame, message, sizeof message);
    return code == 0 && frame.refusal != NULL ? BL_EREFUSED : code;
}

/* ---- Schemas --------------------------------------------------------------------------------- */

const char *const golden_schema_names[] = {
    "item",
    "cell_error",
    "error",
    "frame",
    "hello",
    "ready",
    "rejected",
    "cancel",
    "tool_call",
    "tool_cancel",
    "tool_result",
    "notify",
    "notify_ack",
    "ended",
    "bye",
    "request",
    "reply",
    "open_session.request",
    "create_cell.request",
    "observe.request",
    "terminate.request",
    "release.request",
    "list.request",
    "close_session.request",
    "open_session.ok",
    "create_cell.ok",
    "observe.ok",
    "terminate.ok",
    "release.ok",
    "list.ok",
    "close_session.ok",
};

/* All schemas in one document, by name; the result refers to one of them. */
struct bl_json_schema *golden_schema(const char *name)
{
    struct bl_json_schema *schema = NULL;
    struct bl_error error = {0};
    struct bl_arena arena;
    struct bl_buffer text;
    char path[512];

    bl_arena_init(&arena);
    bl_buffer_init(&text, GOLDEN_TEXT_MAX);
    path_of(path, "docs/schemas", "receipt", ".json");
    struct bl_text receipt = load(&arena, path);
    bl_buffer_printf(&text, "{\"$ref\":\"urn:belay:schema:cell:%s\",\"$defs\":{\"receipt\":", name);
    bl_buffer_append(&text, receipt);
    for (size_t i = 0; i < BL_COUNT(golden_schema_names); i++) {
        path_of(path, "docs/schemas/cell", golden_schema_names[i], ".json");
        bl_buffer_printf(&text, ",\"%s\":", golden_schema_names[i]);
        bl_buffer_append(&text, load(&arena, path));
    }
    bl_buffer_append(&text, BL_TEXT("}}"));
    if (bl_json_schema_new(golden_parse(&arena, bl_buffer_text(&text)), &schema, &error) != 0)
        fail_msg("%s: %s: %s", name, error.target, error.message);
    assert_int_equal(bl_json_schema_ignored(schema, 0).size, 0);
    bl_buffer_done(&text);
    bl_arena_done(&arena);
    return schema;
}

bool golden_fits(const struct bl_json_schema *schema, const struct bl_json *value, bool tell)
{
    struct bl_arena arena;
    struct bl_list problems;

    bl_arena_init(&arena);
    int code = bl_json_schema_check(schema, value, &arena, &problems);
    BL_LIST_EACH (link, &problems) {
        struct bl_json_problem *problem = BL_CONTAINER(link, struct bl_json_problem, link);
        if (tell)
            print_error(BL_TEXT_FORMAT ": " BL_TEXT_FORMAT "\n", BL_TEXT_ARG(problem->path),
                        BL_TEXT_ARG(problem->message));
    }
    bl_arena_done(&arena);
    return code == 0;
}
