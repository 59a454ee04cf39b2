/* Design notes.
 *
 * The file is only appended to, a whole line in one write, except when it has grown too long: then
 * the newest entries are written to a new file that replaces it. A writer locks the file that
 * currently has the name, so that no line goes into a file that has just lost it. The wait for the
 * lock is short: a program that was stopped while it held the lock must not hang ours. */
#include "term.h"

#include <belay/json.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES_MAX 10000
/* The file is shortened when it has this many more entries: not at each start. */
#define ENTRIES_SLACK 1000
/* A longer entry (such as a pasted file) is kept for this session only. */
#define ENTRY_FILE_MAX ((size_t)256 * 1024)
/* Size of the end of the file that is read. */
#define FILE_READ_MAX ((size_t)64 * 1024 * 1024)
#define LOCK_TRIES    20

struct history {
    struct bl_text *entries; /* each on the heap */
    size_t count;
    size_t capacity;
    char *path; /* NULL without a file */
};

struct history *history_new(void)
{
    return bl_zalloc(sizeof(struct history));
}

static void drop_oldest(struct history *history, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bl_free((void *)(uintptr_t)history->entries[i].data);
    history->count -= count;
    if (history->count > 0)
        memmove(history->entries, history->entries + count,
                history->count * sizeof *history->entries);
}

void history_free(struct history *history)
{
    if (history == NULL)
        return;
    drop_oldest(history, history->count);
    bl_free(history->entries);
    bl_free(history->path);
    bl_free(history);
}

size_t history_count(const struct history *history)
{
    return history->count;
}

struct bl_text history_get(const struct history *history, size_t index)
{
    return history->entries[index];
}

size_t history_search(const struct history *history, struct bl_text needle, size_t index)
{
    if (index > history->count)
        index = history->count;
    while (index-- > 0) {
        if (bl_text_find(history->entries[index], needle) >= 0)
            return index;
    }
    return SIZE_MAX;
}

/* Returns true if it was added, because it differs from the newest. */
static bool history_keep(struct history *history, struct bl_text text)
{
    if (text.size == 0 ||
        (history->count > 0 && bl_text_equal(history->entries[history->count - 1], text)))
        return false;
    if (history->count == history->capacity) {
        history->capacity = history->capacity == 0 ? 64 : history->capacity * 2;
        history->entries =
            bl_realloc(history->entries, history->capacity * sizeof *history->entries);
    }
    char *copy = bl_alloc(text.size);
    memcpy(copy, text.data, text.size);
    history->entries[history->count++] = (struct bl_text){copy, text.size};
    return true;
}

/* ---- The file -------------------------------------------------------------------------------- */

static bool lock_soon(int fd)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

/* Returns whether the descriptor refers to the file that has the name now. */
static bool history_is_current(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && stat(path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* Opens the file and locks it, unless another process holds the lock. Returns -1 if it cannot be
 * opened. */
static int open_locked(const char *path, int flags, bool *ret_locked)
{
    for (int i = 0; i < 3; i++) {
        struct stat status;
        int fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
        if (fd < 0)
            return -1;
        if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
            close(fd);
            errno = EINVAL;
            return -1;
        }
        *ret_locked = lock_soon(fd);
        if (!*ret_locked || history_is_current(fd, path))
            return fd;
        close(fd);
    }
    errno = EAGAIN;
    return -1;
}

static int append_entry(struct bl_buffer *out, struct bl_text entry)
{
    struct bl_json_writer writer;

    bl_json_writer_init(&writer, out);
    bl_json_write_text(&writer, entry);
    int code = bl_json_writer_done(&writer);
    return code != 0 ? code : bl_buffer_append_byte(out, '\n');
}

/* An incomplete line at the end must not corrupt the next one. */
static bool ends_in_line(int fd)
{
    struct stat status;
    char last = '\n';

    if (fstat(fd, &status) < 0 || status.st_size == 0)
        return true;
    return pread(fd, &last, 1, status.st_size - 1) != 1 || last == '\n';
}

static void append_to_file(struct history *history, struct bl_text entry)
{
    struct bl_buffer line;
    bool locked;
    int flags = O_RDWR | O_APPEND | O_CREAT;
    int fd = open_locked(history->path, flags, &locked);

    if (fd < 0 && errno == ENOENT) {
        bl_folder_make_above(history->path, 0700);
        fd = open_locked(history->path, flags, &locked);
    }
    if (fd < 0)
        return;
    bl_buffer_init(&line, ENTRY_FILE_MAX * 8);
    if (!ends_in_line(fd))
        bl_buffer_append_byte(&line, '\n');
    ssize_t count = append_entry(&line, entry) == 0 ? write(fd, line.data, line.size) : 0;
    (void)count; /* an unwritten entry is remembered for this session */
    bl_buffer_done(&line);
    close(fd);
}

void history_add(struct history *history, struct bl_text text)
{
    if (!history_keep(history, text))
        return;
    if (history->count > ENTRIES_MAX)
        drop_oldest(history, history->count - ENTRIES_MAX);
    if (history->path != NULL && text.size <= ENTRY_FILE_MAX)
        append_to_file(history, text);
}

/* Reads the end of the file, from the start of a line on. */
static int read_end(int fd, struct bl_buffer *out)
{
    struct stat status;

    if (fstat(fd, &status) < 0)
        return errno;
    off_t at = status.st_size > (off_t)FILE_READ_MAX ? status.st_size - (off_t)FILE_READ_MAX : 0;
    bool inside = at > 0;
    while (out->size < FILE_READ_MAX && bl_buffer_reserve(out, 65536) == 0) {
        ssize_t count = pread(fd, out->data + out->size, 65536, at + (off_t)out->size);
        if (count < 0 && errno != EINTR)
            return errno;
        if (count == 0)
            break;
        out->size += count < 0 ? 0 : (size_t)count;
    }
    const char *line = inside && out->size > 0 ? memchr(out->data, '\n', out->size) : NULL;
    if (line != NULL)
        bl_buffer_consume(out, (size_t)(line + 1 - out->data));
    return 0;
}

/* Returns the number of lines. */
static size_t history_take_lines(struct history *history, struct bl_text text)
{
    struct bl_arena arena;
    struct bl_text line;
    size_t count = 0;

    bl_arena_init(&arena);
    while (bl_text_split(&text, '\n', &line)) {
        const struct bl_json *value;
        count++;
        if (bl_json_read(&arena, line, NULL, &value, NULL) == 0 &&
            bl_json_is(value, BL_JSON_STRING))
            history_keep(history, bl_json_text(value));
        bl_arena_reset(&arena);
    }
    bl_arena_done(&arena);
    if (history->count > ENTRIES_MAX)
        drop_oldest(history, history->count - ENTRIES_MAX);
    return count;
}

static bool history_write_all(int fd, struct bl_text text)
{
    while (text.size > 0) {
        ssize_t count = write(fd, text.data, text.size);
        if (count < 0 && errno != EINTR)
            return false;
        text.data += count < 0 ? 0 : count;
        text.size -= count < 0 ? 0 : (size_t)count;
    }
    return true;
}

/* Replaces the file with the newest entries. If that fails, the file stays as it is. */
static void rewrite(const struct history *history)
{
    BL_AUTO_BUFFER(out, FILE_READ_MAX * 2);
    BL_AUTO_ARENA(arena);
    struct stat status;
    int code = 0;

    /* A link would be replaced by a file. */
    if (lstat(history->path, &status) < 0 || !S_ISREG(status.st_mode))
        return;
    for (size_t i = 0; i < history->count && code == 0; i++)
        code = append_entry(&out, history->entries[i]);
    char *temporary = (char *)(uintptr_t)bl_arena_printf(&arena, "%s.XXXXXX", history->path).data;
    int fd = code == 0 ? mkostemp(temporary, O_CLOEXEC) : -1;
    if (fd >= 0) {
        bool written = history_write_all(fd, bl_buffer_text(&out)) && fsync(fd) == 0;
        close(fd);
        if (!written || rename(temporary, history->path) < 0)
            unlink(temporary);
    }
}

int history_load(struct history *history, const char *path, struct bl_error *error)
{
    struct bl_buffer content;
    bool locked = false;
    size_t size = strlen(path) + 1;

    bl_free(history->path);
    history->path = bl_alloc(size);
    memcpy(history->path, path, size);
    int fd = open_locked(path, O_RDONLY, &locked);
    if (fd < 0 && errno == ENOENT)
        return 0;
    int failed = fd < 0 ? errno : 0;
    bl_buffer_init(&content, FILE_READ_MAX + 65536);
    if (failed == 0)
        failed = read_end(fd, &content);
    if (failed == 0) {
        size_t lines = history_take_lines(history, bl_buffer_text(&content));
        if (locked && lines > ENTRIES_MAX + ENTRIES_SLACK)
            rewrite(history);
    }
    bl_buffer_done(&content);
    if (fd >= 0)
        close(fd);
    if (failed == 0)
        return 0;
    /* Do not write to a file that cannot be read. */
    bl_free(history->path);
    history->path = NULL;
    int code = bl_error_set(error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, "read history",
                            path, "cannot read the history %s: %s", path,
                            failed == EINVAL ? "it is not a regular file" : strerror(failed));
    bl_error_hint(error, "move it away; a new one will be created");
    return code;
}
