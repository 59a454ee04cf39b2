/* The names of stores, without their passwords. */
#include "suite.h"

#include <belay/store.h>

static const struct {
    const char *where;
    const char *shown;
    const char *password; /* NULL: none */
} names[] = {
    {"work.db", "work.db", NULL},
    {"./postgres://x:y@z", "./postgres://x:y@z", NULL},
    {"postgres://", "postgres://", NULL},
    {"postgres:///belay", "postgres:///belay", NULL},
    {"postgres://ann@db:5432/belay", "postgres://ann@db:5432/belay", NULL},
    {"postgres://ann:word@db:5432/belay", "postgres://ann@db:5432/belay", "word"},
    {"postgresql://ann:word@db", "postgresql://ann@db", "word"},
    {"postgres://ann:@db", "postgres://ann@db", NULL},
    {"postgres://:word@db", "postgres://db", "word"},
    {"postgres://ann:w%40rd%2f@a:1,b:2/belay", "postgres://ann@a:1,b:2/belay", "w@rd/"},
    {"postgres://ann:100%@db", "postgres://ann@db", "100%"},
    /* Characters that should have been escaped. */
    {"postgres://ann:w@rd@db/belay", "postgres://ann@db/belay", "w@rd"},
    {"postgres://ann:w/rd@db/belay", "postgres://ann@db/belay", "w/rd"},
    {"postgres://ann:w?rd@db/belay?a=b", "postgres://ann@db/belay?a=b", "w?rd"},
    {"postgres://ann:w:rd@db", "postgres://ann@db", "w:rd"},
    /* Parameters. */
    {"postgres:///belay?host=@socket&port=5433", "postgres:///belay?host=@socket&port=5433", NULL},
    {"postgres://db/x?password=word&port=1", "postgres://db/x?port=1", "word"},
    {"postgres://db/x?port=1&password=w%26rd", "postgres://db/x?port=1", "w&rd"},
    {"postgres://db/x?%50assword=a&%70assword=word", "postgres://db/x?%50assword=a", "word"},
    {"postgres://ann:word@db/x?sslpassword=other", "postgres://ann@db/x", "word"},
    {"postgres://db/x?passfile=/p&sslkey=/k", "postgres://db/x?passfile=/p&sslkey=/k", NULL},
};

static void password_is_found_and_not_shown(void **state)
{
    (void)state;
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        BL_AUTO_ARENA(arena);
        struct bl_text password = {0};
        assert_string_equal(bl_store_shown(&arena, names[i].where), names[i].shown);
        bool found = bl_store_password(&arena, names[i].where, &password);
        assert_int_equal(found, names[i].password != NULL);
        if (found)
            assert_string_equal(password.data, names[i].password);
    }
}

static void addresses_begin_with_a_scheme(void **state)
{
    (void)state;
    assert_true(bl_store_is_database("postgres://db/belay"));
    assert_true(bl_store_is_database("postgresql://db/belay"));
    assert_false(bl_store_is_database("postgres:/db"));
    assert_false(bl_store_is_database(" postgres://db"));
    assert_false(bl_store_is_database(""));
}

SUITE(where, cmocka_unit_test(password_is_found_and_not_shown),
      cmocka_unit_test(addresses_begin_with_a_scheme));
