#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <postgres.h>

#include "helpers.h"

static void the_default_path_follows_the_environment(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    const char *path, *home = getenv("HOME"), *data = getenv("XDG_DATA_HOME");
    struct bl_text home_before = bl_arena_text(&arena, bl_text_from(home));
    struct bl_text data_before = bl_arena_text(&arena, bl_text_from(data));
    setenv("XDG_DATA_HOME", "/data", 1);
    setenv("HOME", "/home/me", 1);
    assert_int_equal(bl_store_default_path(&arena, &path, NULL), 0);
    assert_string_equal(path, "/data/belay/sessions.db");
    setenv("XDG_DATA_HOME", "not/absolute", 1);
    assert_int_equal(bl_store_default_path(&arena, &path, NULL), 0);
    assert_string_equal(path, "/home/me/.local/share/belay/sessions.db");
    unsetenv("XDG_DATA_HOME");
    unsetenv("HOME");
    assert_int_equal(bl_store_default_path(&arena, &path, &error), BL_ENOENT);
    assert_true(error.hint[0] != '\0');
    if (home != NULL)
        setenv("HOME", home_before.data, 1);
    if (data != NULL)
        setenv("XDG_DATA_HOME", data_before.data, 1);
    bl_arena_done(&arena);
}

/* True if no part of the error contains it. */
static bool error_hides(const struct bl_error *error, const char *secret)
{
    bool hides = strstr(error->message, secret) == NULL && strstr(error->target, secret) == NULL &&
                 strstr(error->hint, secret) == NULL;
    if (!hides)
        fprintf(stderr, "%s (%s; %s)\n", error->message, error->target, error->hint);
    return hides;
}

STORE_TEST(empty_path_is_a_usage_error)
{
    struct bl_store *store = NULL;
    struct bl_error error = {0};
    CHECK_EQUAL(bl_store_open("", &store, &error), BL_EINVAL);
    CHECK_EQUAL(error.kind, BL_KIND_USAGE);
    CHECK_EQUAL(bl_store_check("", NULL), BL_EINVAL);
    CHECK_EQUAL(access(place->path, F_OK), -1);
}

/* Passwords are in no message, also not in one that libpq writes. */
STORE_TEST(invalid_address_is_a_usage_error_without_its_password)
{
    static const char *const addresses[] = {
        "postgres://me:secret@[::1/db",
        "postgres://me:secret@host/db?secret=1",
        "postgres://me:secret@host/db?sslmode",
        "postgres://me:secret%zz@host/db",
        "postgresql://me:secret@host/db?password=secret&x=y",
        "postgres://me:secret@db.example.com/db?sslmode=disable",
        "postgres://me:secret@db.example.com/db?sslmode=require",
        "postgres://me:secret@db.example.com/db?sslmode=verify-ca",
        "postgres://me:secret@127.0.0.1,db.example.com/db?sslmode=prefer",
        "postgres://me:secret@192.0.2.1/db?sslmode=disable",
        "postgres:///db?host=127.0.0.1&hostaddr=192.0.2.1&password=secret&sslmode=disable",
    };
    for (size_t i = 0; i < BL_COUNT(addresses); i++) {
        struct bl_store *store = NULL;
        struct bl_error error = {0};
        if (!CHECK_EQUAL(bl_store_open(addresses[i], &store, &error), BL_EINVAL))
            fprintf(stderr, "%s\n", addresses[i]);
        CHECK_EQUAL(error.kind, BL_KIND_USAGE);
        CHECK(error.hint[0] != '\0' && error_hides(&error, "secret"));
        CHECK(store == NULL);
        error = (struct bl_error){0};
        CHECK_EQUAL(bl_store_check(addresses[i], &error), BL_EINVAL);
        CHECK(error_hides(&error, "secret"));
    }
    CHECK_EQUAL(access(place->path, F_OK), -1);
}

STORE_TEST(server_that_does_not_answer_is_named_without_the_password)
{
    struct bl_store *store = NULL;
    struct bl_error error = {0};
    CHECK_EQUAL(bl_store_open("postgres://me:secret@127.0.0.1:1/db", &store, &error), BL_EIO);
    CHECK_EQUAL(error.kind, BL_KIND_SESSION);
    CHECK(error.retryable);
    CHECK(strstr(error.message, "127.0.0.1:1/db") != NULL && error_hides(&error, "secret"));
    CHECK_EQUAL(access(place->path, F_OK), -1);
}

POSTGRES_TEST(password_of_a_store_is_not_shown)
{
    struct bl_store *store = NULL;
    struct bl_error error = {0};
    char address[PG_ADDRESS_SIZE];
    uint16_t port = pg_server_shared()->port;
    pg_tcp_address(port, place->database, NULL, address);
    CHECK(strstr(address, PG_PASSWORD) != NULL);
    CHECK_EQUAL(bl_store_open(address, &store, NULL), 0);
    CHECK(strstr(bl_store_where(store), PG_PASSWORD) == NULL);
    CHECK(strstr(bl_store_where(store), place->database) != NULL);
    bl_store_close(store);
    snprintf(address, sizeof address, "postgres://postgres:wrong-secret@127.0.0.1:%u/%s", port,
             place->database);
    CHECK(bl_store_open(address, &store, &error) != 0);
    CHECK_EQUAL(error.kind, BL_KIND_SESSION);
    CHECK(error_hides(&error, "wrong-secret"));
}

FORM_TEST(a_store_opened_for_reading_refuses_writes)
{
    struct bl_store *store = store_at(place), *reader = NULL;
    struct holding holding, other;
    struct bl_arena arena = {0};
    struct bl_store_session_view view;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(bl_store_open_reading(place->where, &reader, NULL), 0);
    CHECK(strcmp(bl_store_where(reader), bl_store_where(store)) == 0);
    CHECK_EQUAL(hold(&other, reader, "beta"), BL_EACCES);
    CHECK_EQUAL(bl_store_delete(reader, "alpha", NULL), BL_EACCES);
    CHECK_EQUAL(bl_store_show(reader, &arena, "alpha", &view, NULL), 0);
    CHECK_EQUAL(view.turn_count, 1);
    CHECK(view.summary.held_by != NULL);
    /* It sees later writes. */
    add_turn(&holding, "turn_2");
    CHECK_EQUAL(bl_store_show(reader, &arena, "alpha", &view, NULL), 0);
    CHECK_EQUAL(view.turn_count, 2);
    bl_store_close(reader);
    release(&holding);
    bl_store_close(store);
    bl_store_close(NULL);
    bl_arena_done(&arena);
}

STORE_TEST(a_store_that_was_closed_is_one_file)
{
    struct bl_arena arena = {0};
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_buffer lines;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    /* An export reads through its own connection. */
    CHECK_EQUAL(export_to(store, "alpha", &lines, NULL), 0);
    bl_buffer_done(&lines);
    release(&holding);
    bl_store_close(store);
    CHECK_EQUAL(access(bl_arena_printf(&arena, "%s-wal", place->path).data, F_OK), -1);
    CHECK_EQUAL(access(bl_arena_printf(&arena, "%s-shm", place->path).data, F_OK), -1);
    bl_arena_done(&arena);
}

FORM_TEST(an_open_that_is_stopped_leaves_no_store)
{
    struct bl_store *store = NULL;
    struct bl_scope scope;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    struct bl_scope *before = bl_scope_enter(&scope);
    CHECK_EQUAL(bl_store_open(place->where, &store, NULL), BL_ECANCELED);
    bl_scope_enter(before);
    bl_scope_done(&scope);
    CHECK(store == NULL);
}

/* True if this process has the file open. */
static bool is_open(const char *path)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    bool found = false;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char name[300], file[512];
        snprintf(name, sizeof name, "/proc/self/fd/%s", entry->d_name);
        ssize_t size = readlink(name, file, sizeof file - 1);
        file[size < 0 ? 0 : size] = '\0';
        found = found || strcmp(file, path) == 0;
    }
    closedir(folder);
    return found;
}

static int stop_soon(void *argument)
{
    int code = bl_sleep(20 * MS);
    bl_scope_stop(argument, BL_STOP_USER, "test");
    return code;
}

/* Another process has locked the file, so the thread waits; it frees its own data. */
STORE_TEST(an_open_that_is_stopped_while_it_waits_is_left_to_its_thread)
{
    sqlite3 *db = NULL;
    struct bl_store *store = store_at(place), *other = NULL;
    struct bl_nursery nursery;
    struct bl_scope scope;
    bl_store_close(store);
    change_file(place, "PRAGMA journal_mode = DELETE");
    CHECK_EQUAL(sqlite3_open(place->path, &db), SQLITE_OK);
    CHECK_EQUAL(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    bl_scope_init(&scope, bl_scope_current());
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "stop", stop_soon, &scope, NULL);
    struct bl_scope *before = bl_scope_enter(&scope);
    CHECK_EQUAL(bl_store_open(place->path, &other, NULL), BL_ECANCELED);
    bl_scope_enter(before);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    bl_scope_done(&scope);
    CHECK(other == NULL);
    CHECK_EQUAL(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQUAL(sqlite3_close(db), SQLITE_OK);
    for (int i = 0; i < 10000 && is_open(place->path); i++)
        bl_sleep(MS);
    CHECK(!is_open(place->path));
}

SUITE(store, cmocka_unit_test(an_open_that_is_stopped_while_it_waits_is_left_to_its_thread),
      cmocka_unit_test(the_default_path_follows_the_environment),
      cmocka_unit_test(empty_path_is_a_usage_error),
      cmocka_unit_test(invalid_address_is_a_usage_error_without_its_password),
      cmocka_unit_test(server_that_does_not_answer_is_named_without_the_password),
      cmocka_unit_test(password_of_a_store_is_not_shown),
      FORM_UNITS(a_store_opened_for_reading_refuses_writes),
      cmocka_unit_test(a_store_that_was_closed_is_one_file),
      FORM_UNITS(an_open_that_is_stopped_leaves_no_store));
