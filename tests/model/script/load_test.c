#include "recorder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct folder {
    char path[256];
    char file[300];
};

static int make_folder(void **state)
{
    struct folder *folder = bl_zalloc(sizeof *folder);
    const char *base = getenv("TMPDIR");

    snprintf(folder->path, sizeof folder->path, "%s/belay-script-XXXXXX",
             base != NULL ? base : "/tmp");
    if (mkdtemp(folder->path) == NULL)
        return -1;
    snprintf(folder->file, sizeof folder->file, "%s/script.yaml", folder->path);
    *state = folder;
    return 0;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;

    unlink(folder->file);
    int result = rmdir(folder->path);
    bl_free(folder);
    return result;
}

static void write_file(const char *path, struct bl_text text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
    assert_int_equal(fclose(file), 0);
}

static void refuse(const char *path, int code, enum bl_error_kind kind, const char *why)
{
    struct bl_script *script;
    struct bl_error error = {0};
    char message[512];

    if (kind == BL_KIND_FILESYSTEM)
        snprintf(message, sizeof message, "cannot read script '%s': %s", path, why);
    else
        snprintf(message, sizeof message, "%s:%s", path, why);

    assert_int_equal(bl_script_load(path, &script, &error), code);
    assert_int_equal(error.kind, kind);
    assert_string_equal(error.target, path);
    assert_string_equal(error.message, message);
    assert_int_not_equal(error.hint[0], '\0');
}

static void a_file_is_read_and_named(void **state)
{
    struct folder *folder = *state;
    struct bl_script *script;

    write_file(folder->file, BL_TEXT("name: demo\nreplies: [{say: a}]\n"));
    assert_int_equal(bl_script_load(folder->file, &script, NULL), 0);
    assert_string_equal(bl_script_name(script), "demo");
    bl_script_free(script);
}

static void non_regular_scripts_are_refused(void **state)
{
    struct folder *folder = *state;

    refuse(folder->file, BL_ENOENT, BL_KIND_FILESYSTEM, "No such file or directory");
    refuse(folder->path, BL_EINVAL, BL_KIND_FILESYSTEM, "is a directory");
    refuse("/dev/null", BL_EINVAL, BL_KIND_FILESYSTEM, "not a regular file");
    /* A FIFO without a writer must not block. */
    assert_int_equal(mkfifo(folder->file, 0600), 0);
    refuse(folder->file, BL_EINVAL, BL_KIND_FILESYSTEM, "not a regular file");
}

static void too_large_scripts_are_refused(void **state)
{
    struct folder *folder = *state;

    /* Holes need no disk space. */
    write_file(folder->file, BL_TEXT("# x"));
    assert_int_equal(truncate(folder->file, (16 << 20) + 1), 0);
    refuse(folder->file, BL_ELIMIT, BL_KIND_FILESYSTEM, "it is larger than 16 MiB");
    assert_int_equal(truncate(folder->file, 1ll << 40), 0);
    refuse(folder->file, BL_ELIMIT, BL_KIND_FILESYSTEM, "it is larger than 16 MiB");
}

static void script_at_the_size_limit_is_read(void **state)
{
    struct folder *folder = *state;
    struct bl_script *script;
    struct bl_buffer text;

    bl_buffer_init(&text, 16u << 20);
    bl_buffer_append(&text, BL_TEXT("replies: [{say: a}]"));
    while (bl_buffer_append_byte(&text, '\n') == 0)
        continue;
    write_file(folder->file, bl_buffer_text(&text));
    bl_buffer_done(&text);
    assert_int_equal(bl_script_load(folder->file, &script, NULL), 0);
    bl_script_free(script);
}

static void invalid_utf8_is_refused_with_its_position(void **state)
{
    struct folder *folder = *state;

    write_file(folder->file, BL_TEXT("replies:\n- say: caf\xe9\n"));
    refuse(folder->file, BL_EPARSE, BL_KIND_PARSE,
           "2:11: expected valid UTF-8, found 0xE9 near "
           "`replies:\\n- say: caf\\xe9\\n`");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
SUITE(script_load, IN_FOLDER(a_file_is_read_and_named), IN_FOLDER(non_regular_scripts_are_refused),
      IN_FOLDER(script_at_the_size_limit_is_read), IN_FOLDER(too_large_scripts_are_refused),
      IN_FOLDER(invalid_utf8_is_refused_with_its_position));
