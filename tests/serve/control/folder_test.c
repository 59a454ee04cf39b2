#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "place.h"

static void only_names_of_sockets_are_used(void **state)
{
    char id[BL_ID_SIZE], name[SERVE_NAME_SIZE], trace[SERVE_NAME_SIZE];
    (void)state;
    bl_id_make(id, "");
    snprintf(name, sizeof name, "%s.sock", id);
    assert_true(serve_name_is_socket(name));
    serve_trace_name(name, trace);
    assert_false(serve_name_is_socket(trace));
    assert_true(bl_text_starts_with(bl_text_from(trace), bl_text_from(id)));
    static const char *const others[] = {"",
                                         ".sock",
                                         "4711.sock",
                                         "..",
                                         "aaaaaaaaaaaaaaaaaaaa",
                                         "aaaaaaaaaaaaaaaaaaaa.socket",
                                         "aaaaaaaaaaaaaaaaaaaaa.sock",
                                         "aaaaaaaaaaaaaaaaaaa1.sock",
                                         "aaaaaaaaaaaaaaaaaaaA.sock",
                                         "aaaaaaaaaa/aaaaaaaaa.sock",
                                         ".0123456789abcdef",
                                         "aaaaaaaaaaaaaaaaaaaa.sock.x"};
    for (size_t i = 0; i < BL_COUNT(others); i++)
        assert_false(serve_name_is_socket(others[i]));
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

SUITE(folder, cmocka_unit_test(only_names_of_sockets_are_used),
      cmocka_unit_test(a_path_is_in_the_folder_of_sockets_or_too_long));
