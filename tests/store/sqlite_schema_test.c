#include "helpers.h"

static const struct sqlite_migration first[] = {{"CREATE TABLE a (x); INSERT INTO a VALUES (1)"}};
static const struct sqlite_migration three[] = {{"CREATE TABLE a (x); INSERT INTO a VALUES (1)"},
                                                {"ALTER TABLE a ADD COLUMN y DEFAULT 7"},
                                                {"CREATE TABLE b AS SELECT y FROM a"}};
static const struct sqlite_migration broken[] = {{"CREATE TABLE a (x); INSERT INTO a VALUES (1)"},
                                                 {"ALTER TABLE a ADD COLUMN y DEFAULT 7"},
                                                 {"CREATE TABLE b (y); no such statement"}};

static void link_to(struct sqlite_link *link, const struct place *place)
{
    CHECK_EQUAL(sqlite_link_open(link, place->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                 false, NULL),
                0);
}

STORE_TEST(migrations_go_on_from_where_a_file_stands)
{
    struct sqlite_link link;
    link_to(&link, place);
    CHECK_EQUAL(sqlite_migrate(&link, first, 1, NULL), 0);
    CHECK_EQUAL(ask_integer(place, "PRAGMA user_version"), 1);
    CHECK_EQUAL(sqlite_migrate(&link, three, 3, NULL), 0);
    CHECK_EQUAL(ask_integer(place, "PRAGMA user_version"), 3);
    CHECK_EQUAL(ask_integer(place, "SELECT y FROM b"), 7);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM a"), 1);
    CHECK_EQUAL(sqlite_migrate(&link, three, 3, NULL), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM b"), 1);
    sqlite_link_close(&link);
}

STORE_TEST(a_migration_that_fails_leaves_the_file_as_it_was)
{
    struct sqlite_link link;
    struct bl_error error = {0};
    link_to(&link, place);
    CHECK_EQUAL(sqlite_migrate(&link, first, 1, NULL), 0);
    struct bl_text before = suite_read_file(place->path);
    CHECK(sqlite_migrate(&link, broken, 3, &error) != 0);
    CHECK_EQUAL(error.kind, BL_KIND_FILESYSTEM);
    struct bl_text after = suite_read_file(place->path);
    CHECK(bl_text_equal(before, after));
    CHECK_EQUAL(ask_integer(place, "PRAGMA user_version"), 1);
    bl_free((void *)(uintptr_t)before.data);
    bl_free((void *)(uintptr_t)after.data);
    sqlite_link_close(&link);
}

STORE_TEST(an_older_version_does_not_go_back)
{
    struct sqlite_link link;
    link_to(&link, place);
    CHECK_EQUAL(sqlite_migrate(&link, three, 3, NULL), 0);
    CHECK_EQUAL(sqlite_migrate(&link, first, 1, NULL), 0);
    CHECK_EQUAL(ask_integer(place, "PRAGMA user_version"), 3);
    sqlite_link_close(&link);
}

SUITE(sqlite_schema, cmocka_unit_test(migrations_go_on_from_where_a_file_stands),
      cmocka_unit_test(a_migration_that_fails_leaves_the_file_as_it_was),
      cmocka_unit_test(an_older_version_does_not_go_back));
