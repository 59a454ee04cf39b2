#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helpers.h"

static mode_t mode_of(const char *path)
{
    struct stat status = {0};
    CHECK_EQUAL(stat(path, &status), 0);
    return status.st_mode & 0777;
}

static void write_file(const char *path, struct bl_text bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK_EQUAL(write(fd, bytes.data, bytes.size), bytes.size);
    close(fd);
}

/* Checks that the file is refused with this word in the message, and is unchanged, with no file
 * beside it. */
static void check_refused(const struct place *place, const char *word)
{
    struct bl_store *store = NULL;
    struct bl_error error = {0};
    struct bl_text before = suite_read_file(place->path);
    for (int reading = 0; reading < 2; reading++) {
        error = (struct bl_error){0};
        int code = reading ? bl_store_open_reading(place->path, &store, &error)
                           : bl_store_open(place->path, &store, &error);
        CHECK(code != 0 && code == error.code);
        CHECK_EQUAL(error.kind, BL_KIND_FILESYSTEM);
        if (!CHECK(strstr(error.message, word) != NULL))
            fprintf(stderr, "expected \"%s\" in: %s\n", word, error.message);
        CHECK(strcmp(error.target, place->path) == 0);
        CHECK(strstr(error.hint, "move-aside") != NULL);
        struct bl_text after = suite_read_file(place->path);
        CHECK(bl_text_equal(before, after));
        bl_free((void *)(uintptr_t)after.data);
    }
    bl_free((void *)(uintptr_t)before.data);
}

static void make_store(const struct place *place)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    release(&holding);
    bl_store_close(store);
}

STORE_TEST(a_new_store_is_for_its_owner_alone)
{
    struct place deep = *place;
    char folder[192];
    snprintf(folder, sizeof folder, "%s/a", place->folder);
    snprintf(deep.path, sizeof deep.path, "%s/a/b/c.db", place->folder);
    place_use_file(&deep);
    struct bl_store *store = store_at(&deep);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, NULL), 0);
    CHECK_EQUAL(mode_of(folder), 0700);
    CHECK_EQUAL(mode_of(deep.path), 0600);
    snprintf(folder, sizeof folder, "%s-wal", deep.path);
    CHECK_EQUAL(mode_of(folder), 0600);
    CHECK_EQUAL(ask_integer(&deep, "PRAGMA application_id"), SQLITE_APPLICATION_ID);
    CHECK_EQUAL(ask_integer(&deep, "PRAGMA user_version"), sqlite_migration_count);
    release(&holding);
    bl_store_close(store);
}

STORE_TEST(an_empty_file_is_made_a_store)
{
    write_file(place->path, (struct bl_text){0});
    make_store(place);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 1);
}

STORE_TEST(path_with_uri_characters_is_taken_literally)
{
    struct place odd = *place;
    snprintf(odd.path, sizeof odd.path, "%s/a?mode=ro&x#y%%41 '\".db", place->folder);
    place_use_file(&odd);
    struct bl_store *store = store_at(&odd);
    CHECK_EQUAL(access(odd.path, F_OK), 0);
    bl_store_close(store);
}

STORE_TEST(a_file_that_is_no_database_is_not_touched)
{
    write_file(place->path, BL_TEXT("These are my notes. They are longer than a header of SQLite, "
                                    "so that nobody can say that the file was too short to tell."));
    check_refused(place, "not a Belay store");
    write_file(place->path, BL_TEXT("short"));
    check_refused(place, "not a Belay store");
}

STORE_TEST(a_database_of_another_program_is_not_touched)
{
    change_file(place, "CREATE TABLE bookmarks (url TEXT)");
    check_refused(place, "another program");
    change_file(place, "PRAGMA application_id = 77; PRAGMA user_version = 1");
    check_refused(place, "another program");
    change_file(place, "PRAGMA journal_mode = WAL; INSERT INTO bookmarks VALUES ('a')");
    check_refused(place, "another program");
}

STORE_TEST(a_store_of_a_newer_belay_is_not_touched)
{
    char newer[64];
    snprintf(newer, sizeof newer, "PRAGMA user_version = %zu", sqlite_migration_count + 1);
    make_store(place);
    change_file(place, newer);
    check_refused(place, "newer version of Belay");
}

/* Its owner was killed in a transaction: opening it would roll back the journal beside it. */
STORE_TEST(a_store_of_a_newer_belay_is_left_in_the_middle_of_a_transaction)
{
    struct place copy = *place;
    struct bl_arena arena = {0};
    sqlite3 *db = NULL;
    char newer[256];
    make_store(place);
    snprintf(
        newer, sizeof newer,
        "PRAGMA journal_mode = DELETE; PRAGMA user_version = %zu; PRAGMA cache_size = 1;"
        "BEGIN; UPDATE turn SET events = hex(zeroblob(500000)); UPDATE session SET title = 'x'",
        sqlite_migration_count + 1);
    CHECK_EQUAL(sqlite3_open(place->path, &db), SQLITE_OK);
    CHECK_EQUAL(sqlite3_exec(db, newer, NULL, NULL, NULL), SQLITE_OK);
    snprintf(copy.path, sizeof copy.path, "%s/copy.db", place->folder);
    struct bl_text file = suite_read_file(place->path);
    struct bl_text journal =
        suite_read_file(bl_arena_printf(&arena, "%s-journal", place->path).data);
    write_file(copy.path, file);
    write_file(bl_arena_printf(&arena, "%s-journal", copy.path).data, journal);
    check_refused(&copy, "newer version of Belay");
    bl_free((void *)(uintptr_t)file.data);
    bl_free((void *)(uintptr_t)journal.data);
    sqlite3_close(db);
    bl_arena_done(&arena);
}

STORE_TEST(a_version_that_only_the_log_knows_counts)
{
    sqlite3 *db = NULL;
    char newer[64];
    snprintf(newer, sizeof newer, "PRAGMA user_version = %zu", sqlite_migration_count + 1);
    make_store(place);
    CHECK_EQUAL(sqlite3_open(place->path, &db), SQLITE_OK);
    CHECK_EQUAL(sqlite3_exec(db, newer, NULL, NULL, NULL), SQLITE_OK);
    check_refused(place, "newer version of Belay");
    sqlite3_close(db);
}

STORE_TEST(a_truncated_store_is_not_touched)
{
    make_store(place);
    struct stat status;
    CHECK_EQUAL(stat(place->path, &status), 0);
    CHECK_EQUAL(truncate(place->path, status.st_size / 2 / 4096 * 4096), 0);
    check_refused(place, "damaged");
    CHECK_EQUAL(truncate(place->path, 60), 0);
    check_refused(place, "not a Belay store");
}

STORE_TEST(a_damaged_store_is_not_touched)
{
    struct bl_random random;
    struct holding holding;
    bl_random_seed(&random, 20261115);
    make_store(place);
    /* Most pages of a new store are empty, and tolerate any garbage. */
    struct bl_store *full = store_at(place);
    CHECK_EQUAL(hold(&holding, full, "alpha"), 0);
    for (int i = 0; i < 60; i++)
        add_turn(&holding, "turn_2");
    release(&holding);
    bl_store_close(full);
    struct bl_text whole = suite_read_file(place->path);
    char *bytes = bl_alloc(whole.size);
    unsigned refused = 0, rounds = (unsigned)suite_rounds(40, 1000);
    for (unsigned i = 0; i < rounds; i++) {
        struct bl_store *store = NULL;
        struct bl_error error = {0};
        memcpy(bytes, whole.data, whole.size);
        /* The header is kept; whole sectors after it become garbage, as on a failing disk. */
        size_t at = 512 * (1 + (size_t)bl_random_below(&random, whole.size / 512 - 1));
        for (size_t j = 0; j < 512; j++)
            bytes[at + j] = (char)bl_random_next(&random);
        write_file(place->path, (struct bl_text){bytes, whole.size});
        if (bl_store_open(place->path, &store, &error) == 0) {
            /* The garbage is in an unused part. */
            bl_store_close(store);
            continue;
        }
        refused++;
        CHECK_EQUAL(error.kind, BL_KIND_FILESYSTEM);
        struct bl_text after = suite_read_file(place->path);
        CHECK(bl_text_equal(after, (struct bl_text){bytes, whole.size}));
        bl_free((void *)(uintptr_t)after.data);
    }
    CHECK(refused > rounds / 20);
    bl_free(bytes);
    bl_free((void *)(uintptr_t)whole.data);
}

STORE_TEST(path_that_is_not_a_file_is_refused)
{
    struct bl_store *store = NULL;
    struct bl_error error = {0};
    CHECK_EQUAL(bl_store_open(place->folder, &store, &error), BL_EINVAL);
    CHECK_EQUAL(error.kind, BL_KIND_FILESYSTEM);
    error = (struct bl_error){0};
    CHECK(bl_store_open("/dev/null/x/y.db", &store, &error) != 0);
    CHECK(error.message[0] != '\0' && error.hint[0] != '\0');
    error = (struct bl_error){0};
    CHECK_EQUAL(bl_store_open_reading(place->path, &store, &error), BL_ENOENT);
    CHECK_EQUAL(access(place->path, F_OK), -1);
}

/* As an ordinary user, since root may write anywhere. */
int role_read_only(void *argument BL_UNUSED)
{
    struct bl_store *store = NULL;
    struct bl_error error = {0};
    struct bl_arena arena = {0};
    struct bl_list summaries;
    char path[192];
    CHECK(geteuid() != 0 ||
          (setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0));
    CHECK_EQUAL(bl_store_open(role_place.path, &store, &error), BL_EACCES);
    CHECK_EQUAL(error.kind, BL_KIND_FILESYSTEM);
    CHECK(error.hint[0] != '\0');
    error = (struct bl_error){0};
    if (strcmp(role_argument, "older") == 0) {
        CHECK_EQUAL(bl_store_open_reading(role_place.path, &store, &error), BL_EACCES);
        CHECK(strstr(error.message, "older version of Belay") != NULL && error.hint[0] != '\0');
        return 0;
    }
    if (strcmp(role_argument, "log") == 0) {
        CHECK_EQUAL(bl_store_open_reading(role_place.path, &store, &error), BL_EACCES);
        return 0;
    }
    CHECK_EQUAL(bl_store_open_reading(role_place.path, &store, NULL), 0);
    CHECK_EQUAL(bl_store_list(store, &arena, NULL, 0, false, &summaries, NULL), 0);
    CHECK(!bl_list_empty(&summaries));
    bl_store_close(store);
    snprintf(path, sizeof path, "%s/new.db", role_place.folder);
    error = (struct bl_error){0};
    CHECK_EQUAL(bl_store_open(path, &store, &error), BL_EACCES);
    CHECK_EQUAL(access(path, F_OK), -1);
    bl_arena_done(&arena);
    return 0;
}

static void open_read_only(const struct place *place, const char *argument)
{
    struct actor actor;
    CHECK_EQUAL(chmod(place->path, 0444), 0);
    CHECK_EQUAL(chmod(place->folder, 0555), 0);
    actor_start(&actor, "read-only", place, argument, false);
    CHECK_EQUAL(actor_end(&actor), 0);
    CHECK_EQUAL(chmod(place->folder, 0700), 0);
}

STORE_TEST(read_only_folder_is_reported)
{
    make_store(place);
    open_read_only(place, NULL);
}

/* Data that is only in the log would be missed: a store with such a log is not read. */
STORE_TEST(a_log_that_cannot_be_read_with_the_store_is_not_passed_over)
{
    struct bl_arena arena = {0};
    sqlite3 *db = NULL;
    const char *path = bl_arena_printf(&arena, "%s-wal", place->path).data;
    make_store(place);
    write_file(path, (struct bl_text){0});
    open_read_only(place, "empty-log");
    CHECK_EQUAL(chmod(place->path, 0600), 0);
    CHECK_EQUAL(sqlite3_open(place->path, &db), SQLITE_OK);
    CHECK_EQUAL(sqlite3_exec(db, "UPDATE session SET title = 'x'", NULL, NULL, NULL), SQLITE_OK);
    struct bl_text log = suite_read_file(path);
    CHECK(log.size > 0);
    sqlite3_close(db);
    write_file(path, log);
    CHECK_EQUAL(chmod(path, 0444), 0);
    open_read_only(place, "log");
    bl_free((void *)(uintptr_t)log.data);
    bl_arena_done(&arena);
}

STORE_TEST(read_only_older_store_is_reported)
{
    place_old_store(place);
    /* As it is without a log beside it. */
    change_file(place, "PRAGMA wal_checkpoint(TRUNCATE)");
    open_read_only(place, "older");
    CHECK_EQUAL(ask_integer(place, "PRAGMA user_version"), 1);
}

STORE_TEST(processes_that_open_a_new_store_at_once_share_it)
{
    unsigned rounds = (unsigned)suite_rounds(3, 100);
    for (unsigned i = 0; i < rounds; i++) {
        struct actor actors[6];
        char id[16];
        snprintf(place->path, sizeof place->path, "%s/store.db", place->folder);
        for (size_t j = 0; j < BL_COUNT(actors); j++) {
            snprintf(id, sizeof id, "s-%zu", j);
            actor_start(&actors[j], "opener", place, id, false);
        }
        for (size_t j = 0; j < BL_COUNT(actors); j++) {
            actor_expect(&actors[j], "no error");
            CHECK_EQUAL(actor_end(&actors[j]), 0);
        }
        CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), BL_COUNT(actors));
        remove(place->path);
        snprintf(place->path, sizeof place->path, "%s/store.db-wal", place->folder);
        remove(place->path);
        snprintf(place->path, sizeof place->path, "%s/store.db-shm", place->folder);
        remove(place->path);
    }
}

SUITE(sqlite_open, cmocka_unit_test(a_new_store_is_for_its_owner_alone),
      cmocka_unit_test(an_empty_file_is_made_a_store),
      cmocka_unit_test(path_with_uri_characters_is_taken_literally),
      cmocka_unit_test(a_file_that_is_no_database_is_not_touched),
      cmocka_unit_test(a_database_of_another_program_is_not_touched),
      cmocka_unit_test(a_store_of_a_newer_belay_is_not_touched),
      cmocka_unit_test(a_store_of_a_newer_belay_is_left_in_the_middle_of_a_transaction),
      cmocka_unit_test(a_version_that_only_the_log_knows_counts),
      cmocka_unit_test(a_truncated_store_is_not_touched),
      cmocka_unit_test(a_damaged_store_is_not_touched),
      cmocka_unit_test(path_that_is_not_a_file_is_refused),
      cmocka_unit_test(read_only_folder_is_reported),
      cmocka_unit_test(a_log_that_cannot_be_read_with_the_store_is_not_passed_over),
      cmocka_unit_test(read_only_older_store_is_reported),
      cmocka_unit_test(processes_that_open_a_new_store_at_once_share_it));
