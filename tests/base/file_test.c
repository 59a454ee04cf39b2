#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite.h"

static void reading_stops_when_the_buffer_is_full(void **state BL_UNUSED)
{
    char data[8];
    errno = EINTR; /* from an earlier call; must have no effect */
    assert_true(bl_text_equal(bl_file_read(AT_FDCWD, "/proc/self/comm", data, 4), BL_TEXT("base")));
    assert_int_equal(bl_file_read(AT_FDCWD, "/dev/zero", data, sizeof data).size, sizeof data);
    assert_int_equal(bl_file_read(AT_FDCWD, "/dev/null", data, sizeof data).size, 0);
}

static void an_unreadable_file_is_empty(void **state BL_UNUSED)
{
    char data[8];
    assert_int_equal(bl_file_read(AT_FDCWD, "/nowhere/at/all", data, sizeof data).size, 0);
    assert_int_equal(bl_file_read(AT_FDCWD, "/", data, sizeof data).size, 0);
}

static void a_path_is_relative_to_the_directory(void **state BL_UNUSED)
{
    char data[64];
    int directory = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(bl_file_read(directory, "comm", data, sizeof data).size > 0);
    close(directory);
}

static void check_load(const char *path, size_t size_max, int code, const char *why)
{
    struct bl_buffer out;
    const char *said = NULL;

    assert_int_equal(bl_file_load(path, size_max, &out, &said), code);
    if (code != 0)
        assert_string_equal(said, why);
    bl_buffer_done(&out);
}

/* Returns a path in a new, separate folder. */
static const char *make_folder(struct bl_arena *arena, const char *name)
{
    const char *base = getenv("TMPDIR");
    struct bl_text folder = bl_arena_printf(arena, "%s/belay-file-XXXXXX", base ? base : "/tmp");
    char *path = bl_arena_alloc(arena, folder.size + 1);

    memcpy(path, folder.data, folder.size + 1);
    assert_non_null(mkdtemp(path));
    return bl_arena_printf(arena, "%s/%s", path, name).data;
}

static void remove_folder(struct bl_arena *arena, const char *path)
{
    rmdir(bl_arena_printf(arena, "%.*s", (int)(strrchr(path, '/') - path), path).data);
    bl_arena_done(arena);
}

static void whole_files_are_loaded(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    const char *path = make_folder(&arena, "file"), *why;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    struct bl_buffer out;

    assert_int_equal(write(fd, "inside", 6), 6);
    errno = EINTR; /* from an earlier call; must have no effect */
    assert_int_equal(bl_file_load(path, 6, &out, &why), 0);
    assert_true(bl_text_equal(bl_buffer_text(&out), BL_TEXT("inside")));
    bl_buffer_done(&out);
    check_load(path, 5, BL_ELIMIT, "too large");
    /* Larger than one read; a hole uses no disk space. */
    assert_int_equal(ftruncate(fd, 200000), 0);
    check_load(path, 200000, 0, NULL);
    check_load(path, 199999, BL_ELIMIT, "too large");
    close(fd);
    unlink(path);
    check_load(path, 5, BL_ENOENT, "No such file or directory");
    remove_folder(&arena, path);
}

static void only_regular_files_are_loaded(void **state BL_UNUSED)
{
    check_load("/", 9, BL_EINVAL, "is a directory");
    check_load("/dev/zero", 9, BL_EINVAL, "not a regular file");
    check_load("/dev/null/x", 9, BL_ENOENT, "Not a directory");
}

static void the_root_of_a_repository_is_the_nearest_with_git(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    const char *git = make_folder(&arena, ".git");
    size_t root = strlen(git) - strlen("/.git");
    const char *below = bl_arena_printf(&arena, "%.*s/a/b", (int)root, git).data;

    assert_int_equal(bl_repository_size(&arena, below), strlen(below));
    assert_int_equal(mkdir(git, 0700), 0);
    assert_int_equal(bl_repository_size(&arena, below), root);
    rmdir(git);
    remove_folder(&arena, git);
}

static void folders_are_made_with_their_parents(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    const char *first = make_folder(&arena, "first");
    const char *deep = bl_arena_printf(&arena, "%s/second/third", first).data;
    const char *file = bl_arena_printf(&arena, "%s/file", deep).data;

    assert_int_equal(bl_folder_make_above(file, 0700), 0);
    assert_int_equal(bl_folder_make(deep, 0700), 0);
    assert_int_equal(rmdir(deep), 0);
    assert_int_equal(bl_folder_make(deep, 0700), 0);
    assert_int_equal(bl_folder_make("/dev/null/x/y", 0700), -ENOTDIR);
    assert_int_equal(bl_folder_make_above("file", 0700), 0);
    assert_int_equal(bl_folder_make_above("/file", 0700), 0);
    rmdir(deep);
    rmdir(bl_arena_printf(&arena, "%s/second", first).data);
    rmdir(first);
    remove_folder(&arena, first);
}

static const char *only_home(const char *name)
{
    return strcmp(name, "HOME") == 0 ? "/home/u" : NULL;
}

static const char *all_named(const char *name)
{
    return strcmp(name, "XDG_STATE_HOME") == 0 ? "/state" : "not/absolute";
}

static void the_users_folders_are_named_by_variables(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};

    assert_string_equal(bl_user_folder(&arena, BL_USER_CONFIG, only_home), "/home/u/.config/belay");
    assert_string_equal(bl_user_folder(&arena, BL_USER_DATA, only_home),
                        "/home/u/.local/share/belay");
    assert_string_equal(bl_user_folder(&arena, BL_USER_STATE, all_named), "/state/belay");
    assert_null(bl_user_folder(&arena, BL_USER_DATA, all_named));
    bl_arena_done(&arena);
}

static void an_empty_variable_counts_as_unset(void **state BL_UNUSED)
{
    setenv("BELAY_TEST_VARIABLE", "x", 1);
    assert_string_equal(bl_variable("BELAY_TEST_VARIABLE"), "x");
    setenv("BELAY_TEST_VARIABLE", "", 1);
    assert_null(bl_variable("BELAY_TEST_VARIABLE"));
    unsetenv("BELAY_TEST_VARIABLE");
    assert_null(bl_variable("BELAY_TEST_VARIABLE"));
}

SUITE(file, cmocka_unit_test(folders_are_made_with_their_parents),
      cmocka_unit_test(an_empty_variable_counts_as_unset),
      cmocka_unit_test(the_users_folders_are_named_by_variables),
      cmocka_unit_test(reading_stops_when_the_buffer_is_full),
      cmocka_unit_test(an_unreadable_file_is_empty),
      cmocka_unit_test(a_path_is_relative_to_the_directory),
      cmocka_unit_test(whole_files_are_loaded), cmocka_unit_test(only_regular_files_are_loaded),
      cmocka_unit_test(the_root_of_a_repository_is_the_nearest_with_git));
