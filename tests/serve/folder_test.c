#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "place.h"

static void the_folder_is_below_the_runtime_folder_or_in_tmp(void **state)
{
    struct place place;
    char path[512], expected[512];
    (void)state;
    place_make(&place);
    assert_int_equal(bl_control_folder(path, sizeof path, NULL), 0);
    snprintf(expected, sizeof expected, "%s/belay", place.runtime);
    assert_string_equal(path, expected);
    place_remove(&place);
    snprintf(expected, sizeof expected, "/tmp/belay-%u", (unsigned)geteuid());
    static const char *const others[] = {NULL, "", "relative", "/belay-no-such-folder",
                                         "/etc/passwd"};
    for (size_t i = 0; i < BL_COUNT(others); i++) {
        if (others[i] != NULL)
            setenv("XDG_RUNTIME_DIR", others[i], 1);
        assert_int_equal(bl_control_folder(path, sizeof path, NULL), 0);
        assert_string_equal(path, expected);
    }
    unsetenv("XDG_RUNTIME_DIR");
    assert_int_equal(bl_control_folder(path, 5, NULL), BL_ELIMIT);
}

static void the_folder_is_made_for_us_alone(void **state)
{
    struct place place;
    struct stat status;
    int fd = -1;
    (void)state;
    place_make(&place);
    assert_int_equal(serve_folder_open(false, &fd, NULL), BL_ENOENT);
    mode_t mask = umask(0);
    assert_int_equal(serve_folder_open(true, &fd, NULL), 0);
    umask(mask);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    close(fd);
    assert_int_equal(serve_folder_open(true, &fd, NULL), 0);
    close(fd);
    place_remove(&place);
}

static void assert_refused(const char *why)
{
    for (int create = 0; create < 2; create++) {
        struct bl_error error = {0};
        int fd = -1;
        assert_int_equal(serve_folder_open(create != 0, &fd, &error), BL_EACCES);
        assert_non_null(strstr(error.message, why));
        assert_string_not_equal(error.hint, "");
        assert_int_equal(error.kind, BL_KIND_FILESYSTEM);
    }
}

static void a_folder_that_is_not_ours_alone_is_refused(void **state)
{
    static const mode_t modes[] = {0755, 0770, 0701, 0720, 0777};
    struct place place;
    char path[512];
    (void)state;
    place_make(&place);
    snprintf(path, sizeof path, "%s", place_path(&place, ""));
    path[strlen(path) - 1] = '\0';
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < BL_COUNT(modes); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_refused("others may look into it");
    }
    assert_int_equal(chmod(path, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 65534, 65534), 0);
        assert_refused("it belongs to another user");
    }
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/tmp", path), 0);
    assert_refused("");
    assert_int_equal(unlink(path), 0);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_refused("Not a directory");
    place_remove(&place);
}

static void only_names_of_sockets_are_looked_at(void **state)
{
    int64_t pid = 0;
    (void)state;
    assert_true(serve_name_parse("4711.sock", &pid));
    assert_int_equal(pid, 4711);
    assert_true(serve_name_parse("12-3.sock", &pid));
    assert_int_equal(pid, 12);
    static const char *const others[] = {"",         ".sock",
                                         "a.sock",   "12.socket",
                                         "12",       "-3.sock",
                                         "12-.sock", "12-a.sock",
                                         "..",       "12.sock.x",
                                         "1/2.sock", ".0123456789abcdef",
                                         "12 .sock", "99999999999999999999.sock"};
    for (size_t i = 0; i < BL_COUNT(others); i++)
        assert_false(serve_name_parse(others[i], &pid));
}

static void an_address_is_a_path_or_where_that_is_too_long_a_descriptor(void **state)
{
    struct place place;
    struct sockaddr_un address;
    char path[512];
    (void)state;
    place_make(&place);
    serve_address(7, "12.sock", &address);
    assert_string_equal(address.sun_path, place_path(&place, "12.sock"));
    snprintf(path, sizeof path, "%s/%0100d", place.runtime, 0);
    assert_int_equal(mkdir(path, 0700), 0);
    setenv("XDG_RUNTIME_DIR", path, 1);
    serve_address(7, "12.sock", &address);
    assert_string_equal(address.sun_path, "/proc/self/fd/7/12.sock");
    place_remove(&place);
}

SUITE(folder, cmocka_unit_test(the_folder_is_below_the_runtime_folder_or_in_tmp),
      cmocka_unit_test(the_folder_is_made_for_us_alone),
      cmocka_unit_test(a_folder_that_is_not_ours_alone_is_refused),
      cmocka_unit_test(only_names_of_sockets_are_looked_at),
      cmocka_unit_test(an_address_is_a_path_or_where_that_is_too_long_a_descriptor));
