#include <fcntl.h>
#include <unistd.h>

#include "suite.h"

static void as_much_is_read_as_fits(void **state BL_UNUSED)
{
    char data[8];
    assert_true(bl_text_equal(bl_file_read(AT_FDCWD, "/proc/self/comm", data, 4), BL_TEXT("base")));
    assert_int_equal(bl_file_read(AT_FDCWD, "/dev/zero", data, sizeof data).size, sizeof data);
    assert_int_equal(bl_file_read(AT_FDCWD, "/dev/null", data, sizeof data).size, 0);
}

static void what_cannot_be_opened_is_empty(void **state BL_UNUSED)
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

SUITE(file, cmocka_unit_test(as_much_is_read_as_fits),
      cmocka_unit_test(what_cannot_be_opened_is_empty),
      cmocka_unit_test(a_path_is_relative_to_the_directory));
