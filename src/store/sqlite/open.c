/* Design notes.
 *
 * A file is checked before anything is written to it or beside it. The first check reads the bytes
 * of its header, through SQLite's own file handle and without locks: closing a descriptor of our
 * own would drop the locks that other connections of this process hold on the same file. The second
 * is a read transaction, which also sees the contents of the log. Only after that may the file be
 * changed.
 *
 * A new file gets its schema with a rollback journal, and is switched to a write-ahead log
 * afterwards. So the header always identifies the file, and an unfinished file is empty again after
 * a crash. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sqlite.h"

#define HEADER_SIZE 100
/* A file up to this size is checked completely when it is opened, which takes about two
 * milliseconds. */
#define CHECK_BYTES_MAX ((int64_t)1024 * 1024)
#define SWITCH_TRIES    200
#define SWITCH_NAP_US   20000

static const char operation[] = "open the store";

static int sqlite_open_refuse(const char *path, int code, const char *what, struct bl_error *error)
{
    bl_error_set(error, code, BL_KIND_FILESYSTEM, operation, path, "%s: %s", path, what);
    bl_error_hint(error,
                  "the file is unchanged; move it aside with 'belay session move-aside --store "
                  "FILE', or use another with --store");
    return code;
}

static int refuse_errno(const char *path, const char *what, struct bl_error *error)
{
    int system_errno = errno;
    if (bl_error_from_errno(system_errno) == BL_ENOSPC)
        return sqlite_full(path, operation, strerror(system_errno), error);
    bl_error_set(error, bl_error_from_errno(system_errno), BL_KIND_FILESYSTEM, operation, path,
                 "%s: %s: %s", path, what, strerror(system_errno));
    bl_error_hint(error, "check the permissions, or use another store with --store");
    return bl_error_from_errno(system_errno);
}

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int judge_header(const char *path, const unsigned char *header, int64_t size,
                        struct bl_error *error)
{
    if (size < HEADER_SIZE || memcmp(header, "SQLite format 3", 16) != 0)
        return sqlite_open_refuse(path, BL_EPARSE, "the file is not a Belay store", error);
    if (big_endian(header + 68) != SQLITE_APPLICATION_ID)
        return sqlite_open_refuse(path, BL_EPARSE, "the file is the database of another program",
                                  error);
    if (big_endian(header + 60) > sqlite_migration_count)
        return sqlite_open_refuse(path, BL_ENOTSUP,
                                  "the store was made by a newer version of Belay", error);
    return 0;
}

/* The first check. An empty file is treated like a missing one, and initialized. */
static int look_at_header(const char *path, struct bl_error *error)
{
    struct sqlite_link link;
    unsigned char header[HEADER_SIZE] = {0};
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    int code = sqlite_link_open(&link, path, SQLITE_OPEN_READONLY, true, error);
    if (code != 0)
        return code;
    int result = sqlite3_file_control(link.db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (result == SQLITE_OK)
        result = file->pMethods->xFileSize(file, &size);
    if (result == SQLITE_OK && size > 0)
        result = file->pMethods->xRead(file, header, HEADER_SIZE, 0);
    if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ)
        code = sqlite_fail(&link, result, operation, error);
    else if (size > 0)
        code = judge_header(path, header, size, error);
    sqlite_link_close(&link);
    return code;
}

/* Checks a small file completely, and of a large one the schema, which every use needs. */
static int check_pages(struct sqlite_link *link, struct bl_error *error)
{
    int64_t pages, page_size, objects;
    int code = sqlite_integer(link, error, "PRAGMA page_count", &pages);
    if (code == 0)
        code = sqlite_integer(link, error, "PRAGMA page_size", &page_size);
    if (code == 0)
        code = sqlite_integer(link, error, "SELECT count(*) FROM sqlite_schema, store", &objects);
    if (code != 0 || pages * page_size > CHECK_BYTES_MAX)
        return code;
    sqlite3_stmt *statement = sqlite_query(link, error, "PRAGMA quick_check(1)", "");
    code = sqlite_next(link, statement, error);
    if (code != 1)
        return code;
    bool well = bl_text_equal(sqlite_text(statement, 0), BL_TEXT("ok"));
    sqlite_free(statement);
    return well ? 0 : sqlite_open_refuse(link->path, BL_EIO, "the store is damaged", error);
}

static int look_in_transaction(struct sqlite_link *link, int64_t *ret_version,
                               struct bl_error *error)
{
    int64_t application, objects;
    int code = sqlite_integer(link, error, "PRAGMA user_version", ret_version);
    if (code == 0)
        code = sqlite_integer(link, error, "PRAGMA application_id", &application);
    if (code == 0)
        code = sqlite_integer(link, error, "SELECT count(*) FROM sqlite_schema", &objects);
    if (code != 0)
        return code;
    if (application == 0 && *ret_version == 0 && objects == 0)
        return 0;
    if (application != SQLITE_APPLICATION_ID || *ret_version <= 0)
        return sqlite_open_refuse(link->path, BL_EPARSE,
                                  "the file is the database of another program", error);
    if ((uint64_t)*ret_version > sqlite_migration_count)
        return sqlite_open_refuse(link->path, BL_ENOTSUP,
                                  "the store was made by a newer version of Belay", error);
    return check_pages(link, error);
}

/* The second check, in one transaction, because another process may be creating the file.
 * `*ret_version` 0: the file is empty. */
static int sqlite_open_look_inside(struct sqlite_link *link, int64_t *ret_version,
                                   struct bl_error *error)
{
    int code = sqlite_execute(link, "BEGIN", error);
    if (code != 0)
        return code;
    code = look_in_transaction(link, ret_version, error);
    sqlite3_exec(link->db, "COMMIT", NULL, NULL, NULL);
    return code;
}

/* If several processes open a new file at once, one of them switches; the others find it done. */
static int use_log(struct sqlite_link *link, struct bl_error *error)
{
    for (int i = 0;; i++) {
        struct bl_error own = {0};
        sqlite3_stmt *statement = sqlite_query(link, &own, "PRAGMA journal_mode = WAL", "");
        int code = sqlite_next(link, statement, &own);
        bool switched = code == 1 && bl_text_equal(sqlite_text(statement, 0), BL_TEXT("wal"));
        if (code == 1)
            sqlite_free(statement);
        if (switched)
            return 0;
        if (code == BL_EBUSY && i < SWITCH_TRIES) {
            usleep(SWITCH_NAP_US);
            continue;
        }
        if (code >= 0)
            return bl_error_set(
                error, BL_ENOTSUP, BL_KIND_FILESYSTEM, operation, link->path,
                "the file system does not support shared memory, which a store needs");
        if (error != NULL && error->code == 0)
            *error = own;
        return code;
    }
}

static int open_writer(struct sqlite_store *store, struct bl_error *error)
{
    struct sqlite_link *link = &store->writer;
    int64_t version;
    int code = sqlite_link_open(link, store->path, SQLITE_OPEN_READWRITE, false, error);
    if (code == 0 && sqlite3_db_readonly(link->db, "main") == 1)
        code = sqlite_fail(link, SQLITE_READONLY, operation, error);
    if (code == 0)
        code = sqlite_open_look_inside(link, &version, error);
    if (code == 0 && (uint64_t)version < sqlite_migration_count)
        code = sqlite_migrate(link, sqlite_migrations, sqlite_migration_count, error);
    if (code == 0)
        code = use_log(link, error);
    if (code == 0)
        sqlite3_db_config(link->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    return code;
}

/* Without write permission for the folder, the log's index cannot be created. Then the file is read
 * as it is, which is correct if there is no log beside it. */
static int look_as_reader(struct sqlite_store *store, int64_t *ret_version, struct bl_error *error)
{
    struct bl_arena arena = {0};
    struct stat status;
    struct bl_error own = {0};
    *ret_version = 0;
    int code = sqlite_link_open(&store->reader, store->path, SQLITE_OPEN_READONLY, false, &own);
    if (code == 0)
        code = sqlite_open_look_inside(&store->reader, ret_version, &own);
    const char *log = bl_arena_printf(&arena, "%s-wal", store->path).data;
    if (code == BL_EACCES && (stat(log, &status) != 0 || status.st_size == 0)) {
        own = (struct bl_error){0};
        store->immutable = true;
        sqlite_link_close(&store->reader);
        code = sqlite_link_open(&store->reader, store->path, SQLITE_OPEN_READONLY, true, &own);
        if (code == 0)
            code = sqlite_open_look_inside(&store->reader, ret_version, &own);
    }
    bl_arena_done(&arena);
    if (code != 0)
        *error = own;
    return code;
}

/* Only the current schema can be read, so an older one is upgraded first, as when it is opened for
 * writing. */
static int bring_up_to_date(struct sqlite_store *store, struct bl_error *error)
{
    struct bl_error own = {0};
    sqlite_link_close(&store->reader);
    int code = open_writer(store, &own);
    sqlite_link_close(&store->writer);
    if (code == 0)
        return 0;
    bl_error_set(
        error, code, BL_KIND_FILESYSTEM, operation, store->path,
        "%s: the store was made by an older version of Belay, and cannot be upgraded: %.200s",
        store->path, own.message);
    bl_error_hint(error, "open it once with write permission, or copy it to a writable place");
    return code;
}

static int open_reader(struct sqlite_store *store, struct bl_error *error)
{
    struct bl_error own = {0};
    int64_t version;
    int code = look_as_reader(store, &version, &own);
    if (code == 0 && version > 0 && (uint64_t)version < sqlite_migration_count) {
        code = bring_up_to_date(store, &own);
        if (code == 0)
            code = look_as_reader(store, &version, &own);
    }
    if (code == 0 && version == 0)
        code = bl_error_set(&own, BL_EPARSE, BL_KIND_FILESYSTEM, operation, store->path,
                            "%s: the store is empty: start a session in it first", store->path);
    if (code != 0 && error != NULL && error->code == 0)
        *error = own;
    return code;
}

int sqlite_reader(struct sqlite_store *store, struct bl_error *error)
{
    if (store->reader.db != NULL)
        return 0;
    int code = sqlite_link_open(&store->reader, store->path, SQLITE_OPEN_READWRITE, false, error);
    return code != 0 ? code : sqlite_execute(&store->reader, "PRAGMA query_only = 1", error);
}

/* Ensures that the file exists; creates an empty one if necessary. */
static int sqlite_open_find_file(const char *path, bool reading, struct bl_error *error)
{
    struct stat status;
    if (stat(path, &status) == 0) {
        if (S_ISREG(status.st_mode))
            return look_at_header(path, error);
        return bl_error_set(error, BL_EINVAL, BL_KIND_FILESYSTEM, operation, path,
                            "%s is not a regular file", path);
    }
    if (errno != ENOENT)
        return refuse_errno(path, "cannot read its status", error);
    if (reading)
        return bl_error_set(error, BL_ENOENT, BL_KIND_FILESYSTEM, operation, path,
                            "there is no store at %s", path);
    int made = bl_folder_make_above(path, 0700);
    if (made != 0) {
        errno = -made;
        return refuse_errno(path, "cannot create its directory", error);
    }
    /* Accessible only to its owner; SQLite gives its other files the same mode. */
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST)
        return refuse_errno(path, "cannot create it", error);
    if (fd >= 0)
        close(fd);
    return 0;
}

int sqlite_open(struct store_opening *opening, struct bl_error *error)
{
    const char *where = opening->where;
    bool reading = opening->reading;
    int code = sqlite_open_find_file(where, reading, error);
    if (code != 0)
        return code;
    struct sqlite_store *store = bl_zalloc(sizeof *store);
    size_t size = strlen(where) + 1;
    store->path = bl_alloc(size);
    memcpy(store->path, where, size);
    store->reading = reading;
    code = reading ? open_reader(store, error) : open_writer(store, error);
    if (code == 0)
        opening->state = store;
    else
        sqlite_close(store);
    return code;
}

/* Checks every page, regardless of the size of the file. */
int sqlite_check(struct store_opening *opening, struct bl_error *error)
{
    const char *where = opening->where;
    int code = sqlite_open(opening, error);
    if (code != 0)
        return code;
    struct sqlite_store *store = opening->state;
    sqlite3_stmt *statement = sqlite_query(&store->reader, error, "PRAGMA integrity_check(1)", "");
    code = sqlite_next(&store->reader, statement, error);
    if (code == 1) {
        bool well = bl_text_equal(sqlite_text(statement, 0), BL_TEXT("ok"));
        sqlite_free(statement);
        code = well ? 0 : sqlite_open_refuse(where, BL_EIO, "the store is damaged", error);
    }
    sqlite_close(store);
    return code;
}

void sqlite_close(void *state)
{
    struct sqlite_store *store = state;
    if (store == NULL)
        return;
    sqlite_link_close(&store->reader);
    if (store->writer.db != NULL && store->writer.damaged)
        sqlite3_db_config(store->writer.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite_link_close(&store->writer);
    bl_free(store->path);
    bl_free(store);
}

const struct store_form store_sqlite = {
    .open = sqlite_open,
    .check = sqlite_check,
    .close = sqlite_close,
    .write = sqlite_write,
    .read = sqlite_read,
    .export_new = sqlite_export_new,
    .export_next = sqlite_export_next,
    .export_free = sqlite_export_free,
};
