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

STORE_TEST(migrations_continue_from_the_version_of_a_file)
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

static void check_up_to_date(const struct place *place, struct bl_store *store)
{
    struct bl_arena arena = {0};
    struct bl_list summaries;
    CHECK_EQUAL(ask_integer(place, "PRAGMA user_version"), sqlite_migration_count);
    CHECK_EQUAL(bl_store_list(store, &arena, "/home/somebody", 0, false, &summaries, NULL), 0);
    if (CHECK(!bl_list_empty(&summaries))) {
        const struct bl_store_summary *alpha =
            BL_CONTAINER(summaries.next, struct bl_store_summary, link);
        CHECK(strcmp(alpha->id, "alpha") == 0 && alpha->agent_of == NULL);
        CHECK_EQUAL(alpha->turns, 2);
    }
    bl_arena_done(&arena);
}

STORE_TEST(store_of_version_1_is_upgraded)
{
    struct holding holding, child;
    place_old_store(place);
    struct bl_store *store = store_at(place);
    check_up_to_date(place, store);
    CHECK_EQUAL(
        hold_with(&holding, store,
                  &(struct bl_store_hold_options){.newest = true, .directory = "/home/somebody"}),
        0);
    CHECK_EQUAL(holding.held->grip.epoch, 5);
    CHECK_EQUAL(holding.session.turns_total, 2);
    CHECK_EQUAL(holding.session.turns_in_context, 1);
    CHECK_EQUAL(holding.session.usage.input_tokens, 20);
    CHECK(has_summary(&holding, NULL));
    add_turn(&holding, "turn_3");
    CHECK_EQUAL(compact_session(&holding, 2, "three turns"), 0);
    CHECK_EQUAL(hold_with(&child, store,
                          &(struct bl_store_hold_options){.id = "child", .agent_of = "alpha"}),
                0);
    release(&child);
    release(&holding);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK(has_summary(&holding, "three turns"));
    release(&holding);
    bl_store_close(store);
}

/* Creates a store of that version, with the session of the old store. */
static void place_version(const struct place *place, size_t version)
{
    struct sqlite_link link;
    place_old_store(place);
    CHECK_EQUAL(sqlite_link_open(&link, place->path, SQLITE_OPEN_READWRITE, false, NULL), 0);
    CHECK_EQUAL(sqlite_migrate(&link, sqlite_migrations, version, NULL), 0);
    sqlite_link_close(&link);
    CHECK_EQUAL(ask_integer(place, "PRAGMA user_version"), version);
}

STORE_TEST(store_of_version_2_is_upgraded_and_has_cells)
{
    struct holding holding;
    place_version(place, 2);
    change_file(place, "UPDATE store SET voids = 7");
    struct bl_store *store = store_at(place);
    check_up_to_date(place, store);
    CHECK_EQUAL(ask_integer(place, "SELECT voids + tombstones FROM store"), 7);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(holding.session.turns_total, 2);
    CHECK(cells_are(&holding, "|"));
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(end_cell(&holding, "c-1", "k", "1"), 0);
    CHECK(cells_are(&holding, "c-1 | k=1"));
    release(&holding);
    bl_store_close(store);
}

STORE_TEST(store_of_version_3_is_upgraded_and_has_features)
{
    static const struct bl_store_feature_options options = {.repository = "/r", .id = "FEAT"};
    struct bl_row record = {.name = "feature", .json = BL_TEXT("{}")};
    struct bl_store_feature *held = NULL;
    struct bl_store_owner owner;
    struct bl_arena arena = {0};
    struct bl_list records, summaries;
    struct holding holding;
    place_version(place, 3);
    change_file(place, "INSERT INTO cell (session, id, created, deadline_ms, digest)"
                       " VALUES (1, 'c-1', 1, 1, x'00')");
    struct bl_store *store = store_at(place);
    check_up_to_date(place, store);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(holding.held->grip.epoch, 5);
    CHECK(cells_are(&holding, "c-1? |"));
    add_turn(&holding, "turn_3");
    release(&holding);
    CHECK_EQUAL(bl_store_feature_list(store, &arena, NULL, &summaries, NULL), 0);
    CHECK(bl_list_empty(&summaries));
    CHECK_EQUAL(bl_store_feature_hold(store, &options, &held, &owner, NULL), 0);
    bl_list_init(&records);
    bl_list_push_back(&records, &record.link);
    CHECK_EQUAL(
        bl_store_feature_write(held, &(struct bl_store_feature_write){.records = &records}, NULL),
        0);
    bl_store_feature_release(held);
    CHECK_EQUAL(bl_store_feature_list(store, &arena, "/r", &summaries, NULL), 0);
    CHECK(!bl_list_empty(&summaries));
    bl_arena_done(&arena);
    bl_store_close(store);
}

STORE_TEST(store_of_version_3_has_no_features_to_read)
{
    struct bl_arena arena = {0};
    struct bl_list summaries;
    struct bl_store *store = NULL;
    place_version(place, 3);
    CHECK_EQUAL(bl_store_open_reading(place->path, &store, NULL), 0);
    check_up_to_date(place, store);
    CHECK_EQUAL(bl_store_feature_list(store, &arena, NULL, &summaries, NULL), 0);
    CHECK(bl_list_empty(&summaries));
    bl_arena_done(&arena);
    bl_store_close(store);
}

STORE_TEST(store_of_version_4_is_upgraded_and_has_tasks)
{
    static const struct bl_store_task task = {.id = "run_9", .kind = "run", .session = "alpha"};
    struct bl_arena arena = {0};
    struct bl_store_task found;
    struct holding holding;
    struct bl_store *store = NULL;
    place_version(place, 4);
    change_file(place, "INSERT INTO feature (created, updated, repository, id, name)"
                       " VALUES (1, 1, '/r', 'FEAT', 'Feature')");
    CHECK_EQUAL(bl_store_open_reading(place->path, &store, NULL), 0);
    check_up_to_date(place, store);
    CHECK_EQUAL(bl_store_task_get(store, &arena, "run_9", &found, NULL), BL_ENOENT);
    bl_store_close(store);
    store = store_at(place);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature WHERE id = 'FEAT'"), 1);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_3");
    release(&holding);
    CHECK_EQUAL(bl_store_task_begin(store, &task, NULL), 0);
    CHECK_EQUAL(bl_store_task_get(store, &arena, "run_9", &found, NULL), 0);
    CHECK(found.owner_alive);
    bl_arena_done(&arena);
    bl_store_close(store);
}

STORE_TEST(store_of_version_1_is_upgraded_for_reading)
{
    struct bl_store *store = NULL;
    place_old_store(place);
    CHECK_EQUAL(bl_store_open_reading(place->path, &store, NULL), 0);
    check_up_to_date(place, store);
    bl_store_close(store);
}

SUITE(sqlite_schema, cmocka_unit_test(migrations_continue_from_the_version_of_a_file),
      cmocka_unit_test(a_migration_that_fails_leaves_the_file_as_it_was),
      cmocka_unit_test(an_older_version_does_not_go_back),
      cmocka_unit_test(store_of_version_1_is_upgraded),
      cmocka_unit_test(store_of_version_2_is_upgraded_and_has_cells),
      cmocka_unit_test(store_of_version_3_is_upgraded_and_has_features),
      cmocka_unit_test(store_of_version_3_has_no_features_to_read),
      cmocka_unit_test(store_of_version_4_is_upgraded_and_has_tasks),
      cmocka_unit_test(store_of_version_1_is_upgraded_for_reading));
