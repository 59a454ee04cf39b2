#include <assert.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "sqlite.h"

/* Timeout for a busy database: shorter than the longest wait of a caller. */
#define BUSY_MS 4500

static int count_wal_pages(void *context, sqlite3 *db BL_UNUSED, const char *name BL_UNUSED,
                           int pages)
{
    ((struct sqlite_link *)context)->wal_pages = pages;
    return SQLITE_OK;
}

/* Returns a "file:" URI for the path, with the characters escaped that SQLite would interpret. */
static char *make_uri(const char *path, bool immutable)
{
    size_t size = 3 * strlen(path) + 32;
    char *uri = bl_alloc(size);
    size_t used = (size_t)snprintf(uri, size, path[0] == '/' ? "file://" : "file:");
    for (; *path != '\0'; path++) {
        bool plain = strchr("?#%", *path) == NULL;
        used += (size_t)snprintf(uri + used, size - used, plain ? "%c" : "%%%02x",
                                 (unsigned char)*path);
    }
    if (immutable)
        snprintf(uri + used, size - used, "?immutable=1");
    return uri;
}

int sqlite_link_open(struct sqlite_link *link, const char *path, int flags, bool immutable,
                     struct bl_error *error)
{
    char *uri = make_uri(path, immutable);
    *link = (struct sqlite_link){.path = path, .synchronous = SQLITE_SYNCHRONOUS_FULL};
    int result =
        sqlite3_open_v2(uri, &link->db, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    bl_free(uri);
    if (result != SQLITE_OK) {
        int code = sqlite_fail(link, result, "open the store", error);
        sqlite_link_close(link);
        return code;
    }
    sqlite3_extended_result_codes(link->db, 1);
    sqlite3_busy_timeout(link->db, BUSY_MS);
    sqlite3_db_config(link->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(link->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    /* Nothing is moved from the log into a file before the file is known to be a store. Checkpoints
     * are only started explicitly, and never in a transaction that is not synced. */
    sqlite3_db_config(link->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_wal_autocheckpoint(link->db, 0);
    sqlite3_wal_hook(link->db, count_wal_pages, link);
    return 0;
}

void sqlite_link_close(struct sqlite_link *link)
{
    for (size_t i = 0; i < link->statement_count; i++)
        sqlite3_finalize(link->statements[i].statement);
    int result = sqlite3_close(link->db);
    assert(result == SQLITE_OK);
    (void)result;
    *link = (struct sqlite_link){0};
}

struct failure {
    int result;
    int code;
    bool retryable;
    const char *what;
    const char *hint; /* may be NULL */
};

static const struct failure *find_failure(int result)
{
#define ASIDE                                                                                      \
    "move it aside with 'belay session move-aside --store FILE', or use another with --store"
    static const struct failure failures[] = {
        {SQLITE_BUSY, BL_EBUSY, true, "another process has locked the store", "try again later"},
        {SQLITE_LOCKED, BL_EBUSY, true, "the store is locked", "try again"},
        {SQLITE_READONLY, BL_EACCES, false, "the file or its directory is not writable",
         "check the permissions, or use another store with --store"},
        {SQLITE_PERM, BL_EACCES, false, "permission denied", "check the permissions"},
        {SQLITE_AUTH, BL_EACCES, false, "permission denied", "check the permissions"},
        {SQLITE_CANTOPEN, BL_EACCES, false, "cannot open the file",
         "check that it is a file, and its permissions"},
        {SQLITE_IOERR, BL_EIO, true, "input/output error",
         "check the disk; the system log may name the cause"},
        {SQLITE_CORRUPT, BL_EIO, false, "the file is damaged", ASIDE},
        {SQLITE_NOTADB, BL_EPARSE, false, "the file is not a Belay store", ASIDE},
        {SQLITE_CONSTRAINT, BL_EEXIST, false, "it is already in the store", NULL},
        {SQLITE_TOOBIG, BL_ELIMIT, false, "too large for the store", NULL},
    };
#undef ASIDE
    static const struct failure other = {0, BL_ESYSTEM, false, "the database failed", NULL};
    for (size_t i = 0; i < BL_COUNT(failures); i++) {
        if (failures[i].result == (result & 0xff))
            return &failures[i];
    }
    return &other;
}

/* SQLite reports the step that failed, and a full disk can make any of them fail: for example, the
 * log's index cannot grow, or the log cannot be created. */
static bool sqlite_is_full(const struct sqlite_link *link, int result)
{
    int why = link->db != NULL ? sqlite3_system_errno(link->db) : 0;
    bool system = (result & 0xff) == SQLITE_IOERR || (result & 0xff) == SQLITE_CANTOPEN;

    return (result & 0xff) == SQLITE_FULL || (system && bl_error_from_errno(why) == BL_ENOSPC);
}

int sqlite_full(const char *path, const char *operation, const char *cause, struct bl_error *error)
{
    const char *slash = strrchr(path, '/');
    struct statvfs disk;
    char name[4096] = ".", left[64] = "";

    if (slash != NULL)
        snprintf(name, sizeof name, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (statvfs(name, &disk) == 0)
        snprintf(left, sizeof left, "%llu KiB free; ",
                 (unsigned long long)disk.f_bavail * disk.f_frsize / 1024);
    bl_error_set(error, BL_ENOSPC, BL_KIND_FILESYSTEM, operation, path,
                 "no space left on the device of %.300s (%s%s)", name, left, cause);
    bl_error_hint(error, "free some space and try again, or use a store on another disk with "
                         "--store FILE");
    if (error != NULL)
        error->retryable = true;
    return BL_ENOSPC;
}

int sqlite_fail(struct sqlite_link *link, int result, const char *operation, struct bl_error *error)
{
    const char *cause_text = link->db != NULL ? sqlite3_errmsg(link->db) : sqlite3_errstr(result);
    char cause[160];
    snprintf(cause, sizeof cause, "SQLite: %s", cause_text);
    if (sqlite_is_full(link, result))
        return error != NULL && error->code != 0 ? BL_ENOSPC
                                                 : sqlite_full(link->path, operation, cause, error);
    const struct failure *failure = find_failure(result);
    if ((result & 0xff) == SQLITE_CORRUPT || (result & 0xff) == SQLITE_NOTADB)
        link->damaged = true;
    if (error == NULL || error->code != 0)
        return failure->code;
    bl_error_set(error, failure->code, BL_KIND_FILESYSTEM, operation, link->path, "%s (%s)",
                 failure->what, cause);
    error->retryable = failure->retryable;
    if (failure->hint != NULL)
        bl_error_hint(error, "%s", failure->hint);
    return failure->code;
}

static sqlite3_stmt *find_statement(struct sqlite_link *link, const char *sql,
                                    struct bl_error *error)
{
    for (size_t i = 0; i < link->statement_count; i++) {
        if (link->statements[i].sql == sql)
            return link->statements[i].statement;
    }
    sqlite3_stmt *statement = NULL;
    assert(link->statement_count < SQLITE_STATEMENTS_MAX);
    int result = sqlite3_prepare_v3(link->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
    if (result != SQLITE_OK) {
        sqlite_fail(link, result, "use the store", error);
        return NULL;
    }
    link->statements[link->statement_count].sql = sql;
    link->statements[link->statement_count++].statement = statement;
    return statement;
}

static int bind_text(sqlite3_stmt *statement, int index, struct bl_text text)
{
    /* Empty but not null. The bound value outlives the execution of the statement. */
    return sqlite3_bind_text64(statement, index, text.size > 0 ? text.data : "", text.size,
                               SQLITE_STATIC, SQLITE_UTF8);
}

static int bind_value(sqlite3_stmt *statement, int index, char type, va_list *values)
{
    const char *string;
    struct bl_text text;
    uint64_t count;
    switch (type) {
    case 'i': return sqlite3_bind_int64(statement, index, va_arg(*values, int64_t));
    case 'u':
        count = va_arg(*values, uint64_t);
        return sqlite3_bind_int64(statement, index, count > INT64_MAX ? INT64_MAX : (int64_t)count);
    case 'd': return sqlite3_bind_double(statement, index, va_arg(*values, double));
    case 's':
        string = va_arg(*values, const char *);
        return string == NULL ? sqlite3_bind_null(statement, index)
                              : bind_text(statement, index, bl_text_from(string));
    case 'b':
        text = va_arg(*values, struct bl_text);
        return sqlite3_bind_blob64(statement, index, text.size > 0 ? text.data : "", text.size,
                                   SQLITE_STATIC);
    case 't': return bind_text(statement, index, va_arg(*values, struct bl_text));
    case 'j':
        text = va_arg(*values, struct bl_text);
        return text.size == 0 ? sqlite3_bind_null(statement, index)
                              : bind_text(statement, index, text);
    default: assert(false); return SQLITE_MISUSE;
    }
}

static sqlite3_stmt *query(struct sqlite_link *link, struct bl_error *error, const char *sql,
                           const char *types, va_list *values)
{
    sqlite3_stmt *statement = find_statement(link, sql, error);
    if (statement == NULL)
        return NULL;
    assert((size_t)sqlite3_bind_parameter_count(statement) == strlen(types));
    for (int i = 0; types[i] != '\0'; i++) {
        int result = bind_value(statement, i + 1, types[i], values);
        if (result == SQLITE_OK)
            continue;
        sqlite_fail(link, result, "use the store", error);
        sqlite_free(statement);
        return NULL;
    }
    return statement;
}

sqlite3_stmt *sqlite_query(struct sqlite_link *link, struct bl_error *error, const char *sql,
                           const char *types, ...)
{
    va_list values;
    va_start(values, types);
    sqlite3_stmt *statement = query(link, error, sql, types, &values);
    va_end(values);
    return statement;
}

int sqlite_next(struct sqlite_link *link, sqlite3_stmt *statement, struct bl_error *error)
{
    if (statement == NULL)
        return error != NULL && error->code != 0 ? error->code : BL_ESYSTEM;
    int result = sqlite3_step(statement);
    if (result == SQLITE_ROW)
        return 1;
    int code = result == SQLITE_DONE ? 0 : sqlite_fail(link, result, "use the store", error);
    sqlite_free(statement);
    return code;
}

void sqlite_free(sqlite3_stmt *statement)
{
    if (statement == NULL)
        return;
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

int sqlite_change(struct sqlite_link *link, struct bl_error *error, const char *sql,
                  const char *types, ...)
{
    va_list values;
    va_start(values, types);
    sqlite3_stmt *statement = query(link, error, sql, types, &values);
    va_end(values);
    int code = sqlite_next(link, statement, error);
    return code == 0 ? sqlite3_changes(link->db) : code;
}

int sqlite_integer(struct sqlite_link *link, struct bl_error *error, const char *sql,
                   int64_t *ret_value)
{
    sqlite3_stmt *statement = sqlite_query(link, error, sql, "");
    int code = sqlite_next(link, statement, error);
    if (code < 0)
        return code;
    *ret_value = code == 1 ? sqlite3_column_int64(statement, 0) : 0;
    if (code == 1)
        sqlite_free(statement);
    return 0;
}

int sqlite_execute(struct sqlite_link *link, const char *sql, struct bl_error *error)
{
    int result = sqlite3_exec(link->db, sql, NULL, NULL, NULL);
    return result == SQLITE_OK ? 0 : sqlite_fail(link, result, "use the store", error);
}

struct bl_text sqlite_text(sqlite3_stmt *statement, int column)
{
    const char *data = (const char *)sqlite3_column_text(statement, column);
    return (struct bl_text){data, (size_t)sqlite3_column_bytes(statement, column)};
}

static struct bl_text column_text(const struct store_row *row, int column)
{
    return sqlite_text(row->source, column);
}

static int64_t column_integer(const struct store_row *row, int column)
{
    return sqlite3_column_int64(row->source, column);
}

static double column_real(const struct store_row *row, int column)
{
    return sqlite3_column_double(row->source, column);
}

static bool column_null(const struct store_row *row, int column)
{
    return sqlite3_column_type(row->source, column) == SQLITE_NULL;
}

struct store_row sqlite_row(sqlite3_stmt *statement)
{
    static const struct store_columns columns = {
        .text = column_text,
        .integer = column_integer,
        .time = column_integer,
        .real = column_real,
        .null = column_null,
    };
    return (struct store_row){.columns = &columns, .source = statement};
}
