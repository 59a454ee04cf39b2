#include "helpers.h"

/* What a caller learns about a failure of SQLite: whether to try again, and what to do first. */
static void failures_have_a_kind_and_a_hint(void **state BL_UNUSED)
{
    static const struct {
        int result, code;
        bool retryable, damaged, hint;
    } rows[] = {
        {SQLITE_FULL, BL_ENOSPC, true, false, true},
        {SQLITE_BUSY_SNAPSHOT, BL_EBUSY, true, false, true},
        {SQLITE_LOCKED, BL_EBUSY, true, false, true},
        {SQLITE_READONLY, BL_EACCES, false, false, true},
        {SQLITE_PERM, BL_EACCES, false, false, true},
        {SQLITE_AUTH, BL_EACCES, false, false, true},
        {SQLITE_CANTOPEN, BL_EACCES, false, false, true},
        {SQLITE_IOERR_FSYNC, BL_EIO, true, false, true},
        {SQLITE_CORRUPT, BL_EIO, false, true, true},
        {SQLITE_NOTADB, BL_EPARSE, false, true, true},
        {SQLITE_CONSTRAINT_UNIQUE, BL_EEXIST, false, false, false},
        {SQLITE_TOOBIG, BL_ELIMIT, false, false, false},
        {SQLITE_MISUSE, BL_ESYSTEM, false, false, false},
    };
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct sqlite_link link = {.path = "/s.db"};
        struct bl_error error = {0};
        assert_int_equal(sqlite_fail(&link, rows[i].result, "write", &error), rows[i].code);
        assert_int_equal(error.code, rows[i].code);
        assert_int_equal(error.kind, BL_KIND_FILESYSTEM);
        assert_int_equal(error.retryable, rows[i].retryable);
        assert_int_equal(error.hint[0] != '\0', rows[i].hint);
        assert_int_equal(link.damaged, rows[i].damaged);
        assert_non_null(strstr(error.message, sqlite3_errstr(rows[i].result)));
        /* The first failure is the one reported. */
        assert_int_equal(sqlite_fail(&link, SQLITE_FULL, "write", &error), BL_ENOSPC);
        assert_int_equal(error.code, rows[i].code);
        assert_int_equal(sqlite_fail(&link, rows[i].result, "write", NULL), rows[i].code);
    }
}

SUITE(sqlite, cmocka_unit_test(failures_have_a_kind_and_a_hint));
