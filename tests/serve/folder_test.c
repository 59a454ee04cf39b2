#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "place.h"

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

static void a_path_is_in_the_folder_of_sockets_or_too_long(void **state)
{
    struct place place;
    char path[SERVE_PATH_SIZE];
    (void)state;
    place_make(&place);
    assert_int_equal(serve_path("12.sock", path, sizeof path), 0);
    assert_string_equal(path, place_path(&place, "12.sock"));
    assert_int_equal(serve_path("12.sock", path, strlen(path)), BL_ELIMIT);
    assert_int_equal(serve_path("12.sock", path, 8), BL_ELIMIT);
    place_remove(&place);
}

SUITE(folder, cmocka_unit_test(only_names_of_sockets_are_looked_at),
      cmocka_unit_test(a_path_is_in_the_folder_of_sockets_or_too_long));
