#include "schemas.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void schemas_path(const struct bl_record *record, char *out, size_t out_size)
{
    const char *root = getenv("BELAY_SOURCE_ROOT");

    int size =
        snprintf(out, out_size, "%s/docs/schemas/%s.json", root != NULL ? root : ".", record->name);
    assert_true(size > 0 && (size_t)size < out_size);
    for (char *at = out + size - strlen(record->name) - strlen(".json"); *at != '\0'; at++) {
        if (*at == ':')
            *at = '/';
    }
}

static void schemas_write(const char *path, struct bl_text text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
    assert_int_equal(fclose(file), 0);
}

void schemas_assert_current(const struct bl_record *record)
{
    const char *mode = getenv("BELAY_SCHEMAS");
    struct bl_json_writer writer;
    struct bl_buffer text;
    char path[512];

    schemas_path(record, path, sizeof path);
    bl_buffer_init(&text, (size_t)4 * 1024 * 1024);
    bl_json_writer_init(&writer, &text);
    bl_json_writer_indent(&writer, 2);
    bl_record_schema(&writer, record);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    bl_buffer_append_byte(&text, '\n');
    if (mode != NULL && strcmp(mode, "write") == 0)
        schemas_write(path, bl_buffer_text(&text));
    suite_fail_if(access(path, R_OK) != 0, "%s is missing: run scripts/schemas", path);
    struct bl_text file = suite_read_file(path);
    suite_fail_if(!bl_text_equal(file, bl_buffer_text(&text)), "%s is stale: run scripts/schemas",
                  path);
    bl_free((void *)(uintptr_t)file.data);
    bl_buffer_done(&text);
}
