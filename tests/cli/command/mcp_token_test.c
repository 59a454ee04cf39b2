/* The token of `belay mcp --http`: which files are accepted, and how one is created. */
#include "cli/command/mcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage.h"

#define LONGEST 512

static struct bl_arena arena;
static struct bl_error error;
static const char *token;

static int token_end(void **state)
{
    bl_arena_done(&arena);
    return stage_end(state);
}

static int token_read(const char *path)
{
    error = (struct bl_error){0};
    token = NULL;
    return mcp_token_read(&arena, path, &token, &error);
}

/* Writes a file with this mode and a first line of `size` times `byte`, then `rest`. */
static const char *token_file(mode_t mode, size_t size, char byte, const char *rest)
{
    char text[LONGEST + 64];

    memset(text, byte, size);
    snprintf(text + size, sizeof text - size, "%s", rest);
    const char *path = stage_file("token", text);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static void a_token_is_the_first_line_of_its_file(void **state BL_UNUSED)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "-._~+/=";
    static const size_t sizes[] = {43, 44, 511, LONGEST};

    for (size_t i = 0; i < BL_COUNT(sizes); i++) {
        assert_int_equal(token_read(token_file(0600, sizes[i], 'x', "\nmore\n")), 0);
        assert_int_equal(strlen(token), sizes[i]);
        assert_int_equal(strspn(token, "x"), sizes[i]);
    }
    assert_int_equal(token_read(token_file(0400, 43, 'x', "")), 0);
    assert_int_equal(strlen(token), 43);
    assert_int_equal(token_read(token_file(0600, 0, 'x', stage_printf(" %s \r\n", allowed))), 0);
    assert_string_equal(token, allowed);
}

static void invalid_token_is_refused(void **state BL_UNUSED)
{
    static const struct {
        size_t size;
        char byte;
        const char *rest;
    } rows[] = {{0, 'x', ""},    {42, 'x', "\n"},   {LONGEST + 1, 'x', "\n"}, {43, ' ', "\n"},
                {43, '*', "\n"}, {43, 'x', "\"\n"}, {42, 'x', "\nxxxx\n"},    {43, 'x', "\xff\n"}};

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        const char *path = token_file(0600, rows[i].size, rows[i].byte, rows[i].rest);
        assert_int_equal(token_read(path), BL_EINVAL);
        assert_null(token);
        assert_int_equal(error.kind, BL_KIND_USAGE);
        assert_string_equal(
            error.message,
            stage_printf(
                "the token file '%s' has no valid token: its first line must have 43 to 512 "
                "of the characters A-Z a-z 0-9 - . _ ~ + / =",
                path));
        assert_string_equal(error.hint, "remove the file, and belay creates a new one");
    }
}

static void token_accessible_to_others_is_refused(void **state BL_UNUSED)
{
    static const mode_t modes[] = {0640, 0620, 0610, 0604, 0602, 0601, 0666};
    const char *path = NULL;

    for (size_t i = 0; i < BL_COUNT(modes); i++) {
        path = token_file(modes[i], 43, 'x', "\n");
        assert_int_equal(token_read(path), BL_EACCES);
        assert_null(token);
        assert_string_equal(error.message,
                            stage_printf("other users have access to the token file '%s'", path));
        assert_string_equal(error.hint,
                            stage_printf("restrict it to yourself: chmod 600 %s", path));
    }
    if (geteuid() == 0) {
        assert_int_equal(chmod(path, 0600), 0);
        assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
        assert_int_equal(token_read(path), BL_EACCES);
    }
}

static void token_that_is_not_a_regular_file_is_refused(void **state BL_UNUSED)
{
    const char *path = stage_path("fifo");

    assert_int_equal(token_read(stage_path(".")), BL_EINVAL);
    assert_string_equal(error.hint, "use another file with --token-file");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(token_read(path), BL_EINVAL);
    assert_string_equal(error.message,
                        stage_printf("the token file '%s' is not a regular file", path));
    path = stage_printf("%s/token", stage_file("plain", ""));
    assert_int_equal(token_read(path), bl_error_from_errno(ENOTDIR));
    assert_int_equal(error.kind, BL_KIND_FILESYSTEM);
    assert_non_null(strstr(error.message, "cannot be used: Not a directory"));
    assert_string_equal(error.hint, "use another file with --token-file");
    /* A dangling link: the file can neither be read nor be created. */
    assert_int_equal(symlink("nowhere", stage_path("link")), 0);
    assert_int_equal(token_read(stage_path("link")), BL_ENOENT);
    assert_non_null(strstr(error.message, "cannot be used"));
}

static void where_there_is_none_one_is_made_that_is_ones_own(void **state BL_UNUSED)
{
    const char *path = stage_path("state/belay/mcp-token");
    struct stat facts;

    assert_int_equal(token_read(path), 0);
    const char *first = token;
    assert_int_equal(strlen(first), 64);
    assert_int_equal(strspn(first, "0123456789abcdef"), 64);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    assert_int_equal(facts.st_nlink, 1);
    assert_int_equal(facts.st_size, 65);
    assert_int_equal(stat(stage_path("state/belay"), &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0700);
    assert_int_equal(token_read(path), 0);
    assert_string_equal(token, first);
    assert_int_equal(token_read(stage_path("state/belay/other")), 0);
    assert_string_not_equal(token, first);
}

static void it_is_kept_in_the_folder_for_state(void **state BL_UNUSED)
{
    const char *path = NULL;

    setenv("XDG_STATE_HOME", stage_path("state"), 1);
    assert_int_equal(mcp_token_path(&arena, &path, &error), 0);
    assert_string_equal(path, stage_path("state/belay/mcp-token"));
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", stage_path("home"), 1);
    assert_int_equal(mcp_token_path(&arena, &path, &error), 0);
    assert_string_equal(path, stage_path("home/.local/state/belay/mcp-token"));
    unsetenv("HOME");
    int code = mcp_token_path(&arena, &path, &error);
    setenv("HOME", stage_path("home"), 1);
    assert_int_equal(code, BL_ENOENT);
    assert_string_equal(error.message,
                        "no folder for the token: neither XDG_STATE_HOME nor HOME is set");
    assert_string_equal(error.hint, "set HOME, or give --token-file");
}

#define TOKEN(test) cmocka_unit_test_setup_teardown(test, stage_begin, token_end)

SUITE(mcp_token, TOKEN(a_token_is_the_first_line_of_its_file), TOKEN(invalid_token_is_refused),
      TOKEN(token_accessible_to_others_is_refused),
      TOKEN(token_that_is_not_a_regular_file_is_refused),
      TOKEN(where_there_is_none_one_is_made_that_is_ones_own),
      TOKEN(it_is_kept_in_the_folder_for_state));
