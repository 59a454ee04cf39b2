/* A file that cannot be used is renamed and never deleted. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "parts.h"

/* The range in which SQLite locks a database: the bytes after the first gibibyte. A process that
 * has the file open in WAL mode holds one of them. */
#define LOCK_START 0x40000000
#define LOCK_SIZE  512

/* The files of SQLite beside the database, then the database itself: it is moved last, so that it
 * exists as long as any of these does. */
static const char *const suffixes[] = {"-wal", "-shm", "-journal", ""};

struct aside {
    struct bl_arena arena;
    const char *where;
    const char *to;
    int code;
    struct bl_error error;
};

const char *store_path_aside(struct bl_arena *arena, const char *where, int64_t wall_ns)
{
    char time[32], compact[32];
    size_t size = 0;
    bl_time_format(wall_ns, time);
    for (const char *c = time; *c != '\0'; c++) {
        if (*c != '-' && *c != ':' && *c != '.')
            compact[size++] = *c;
    }
    compact[size] = '\0';
    return bl_arena_printf(arena, "%s.aside-%s", where, compact).data;
}

static int aside_fail(struct aside *aside, const char *what)
{
    int code = bl_error_from_errno(errno);
    return bl_error_set(&aside->error, code, BL_KIND_FILESYSTEM, "move the store aside",
                        aside->where, "%s: %s: %s", aside->where, what, strerror(errno));
}

static int refuse_open(struct aside *aside)
{
    struct flock lock = {.l_type = F_WRLCK, .l_start = LOCK_START, .l_len = LOCK_SIZE};
    int fd = open(aside->where, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? aside_fail(aside, "cannot open the file") : 0;
    int result = fcntl(fd, F_GETLK, &lock);
    close(fd);
    if (result != 0 || lock.l_type == F_UNLCK)
        return 0;
    bl_error_set(&aside->error, BL_EBUSY, BL_KIND_FILESYSTEM, "move the store aside", aside->where,
                 "%s is in use by pid %d", aside->where, (int)lock.l_pid);
    bl_error_hint(&aside->error, "wait for it to end, or stop it");
    return BL_EBUSY;
}

static void run_aside(void *payload)
{
    struct aside *aside = payload;
    size_t moved = 0;
    aside->code = refuse_open(aside);
    for (size_t i = 0; i < BL_COUNT(suffixes) && aside->code == 0; i++) {
        const char *from = bl_arena_printf(&aside->arena, "%s%s", aside->where, suffixes[i]).data;
        const char *to = bl_arena_printf(&aside->arena, "%s%s", aside->to, suffixes[i]).data;
        bool main_file = suffixes[i][0] == '\0';
        if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
            moved |= (size_t)1 << i;
        else if (errno != ENOENT || main_file)
            aside->code = aside_fail(aside, "cannot rename the file");
    }
    /* On failure, undoes the renames. */
    for (size_t i = 0; i < BL_COUNT(suffixes) && aside->code != 0; i++) {
        const char *from = bl_arena_printf(&aside->arena, "%s%s", aside->to, suffixes[i]).data;
        const char *to = bl_arena_printf(&aside->arena, "%s%s", aside->where, suffixes[i]).data;
        if ((moved & (size_t)1 << i) != 0)
            renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    }
}

static void free_aside(void *payload)
{
    struct aside *aside = payload;
    bl_arena_done(&aside->arena);
    bl_free(aside);
}

int bl_store_move_aside(struct bl_arena *arena, const char *where, const char **ret_path,
                        struct bl_error *error)
{
    bool dropped;
    if (bl_store_is_database(where)) {
        const char *shown = bl_store_shown(arena, where);
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "move the store aside", shown,
                     "only a file can be renamed, and %.200s is a database", shown);
        bl_error_hint(error, "create another database and point --store at it");
        return BL_EINVAL;
    }
    struct aside *aside = bl_zalloc(sizeof *aside);
    aside->where = bl_arena_text(&aside->arena, bl_text_from(where)).data;
    aside->to = store_path_aside(&aside->arena, where, store_wall_ns());
    int code = store_work(run_aside, free_aside, aside, where, &dropped, error);
    if (dropped)
        return code;
    if (code == 0)
        code = aside->code;
    if (code == 0)
        *ret_path = bl_arena_text(arena, bl_text_from(aside->to)).data;
    else if (error != NULL && error->code == 0)
        *error = aside->error;
    free_aside(aside);
    return code;
}
