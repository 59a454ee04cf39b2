/* Digests of clean worktrees.
 *
 * Design notes.
 *
 * `git status` is a separate program, and is needed before and after every Coach and at every stop.
 * Usually nothing has changed since a checkout, a commit or a status left the worktree clean. So a
 * digest of the clean worktree is kept: names, types, sizes and change times of all files in it, of
 * its index and its HEAD. The same digest proves that nothing was written since, because only the
 * kernel sets the change time (ctime). That clock has ticks: a file that changed in the same tick
 * as the digest was taken could change again without a new time. The digest of such a file
 * therefore includes its bytes, and so does the digest of every file whose times have no fractions
 * of a second.
 *
 * A different digest proves nothing: then git is run. Git is also run for a large worktree (ignored
 * files count), for one that contains a repository, and on file systems whose times come from
 * another machine or from no clock. */
#include "repository.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES_MAX 10000
#define BYTES_MAX   ((uint64_t)4 << 20) /* read where times do not suffice */
#define DEPTH_MAX   64
#define READ_SIZE   16384
#define LINK_SIZE   4096
#define XFS_MAGIC   0x58465342 /* not in <linux/magic.h> */
#define ZFS_MAGIC   0x2fc12fc1

/* ---- Looking, on a worker thread ------------------------------------------------------------- */

struct looking {
    char *worktree;
    char *folder;
    int64_t taken_wall_ns; /* change times from here on prove nothing */
    struct git_look look;
    struct bl_sha256 hash;
    dev_t device;
    size_t entries;
    uint64_t bytes;
    bool failed; /* no digest is possible */
    char buffer[READ_SIZE];
};

static void sight_add(struct looking *looking, const void *data, size_t size)
{
    bl_sha256_add(&looking->hash, (struct bl_text){data, size});
}

static void sight_add_name(struct looking *looking, const char *name)
{
    sight_add(looking, name, strlen(name) + 1);
}

static int64_t sight_wall_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * (int64_t)BL_NS_PER_S + time->tv_nsec;
}

static void add_bytes(struct looking *looking, int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t size = fd >= 0 ? 1 : -1;
    while (size > 0 && looking->bytes <= BYTES_MAX) {
        size = read(fd, looking->buffer, sizeof looking->buffer);
        if (size > 0) {
            sight_add(looking, looking->buffer, (size_t)size);
            looking->bytes += (uint64_t)size;
        }
    }
    if (size != 0)
        looking->failed = true;
    if (fd >= 0)
        close(fd);
}

static void add_link(struct looking *looking, int parent, const char *name)
{
    ssize_t size = readlinkat(parent, name, looking->buffer, LINK_SIZE);
    if (size >= 0)
        sight_add(looking, looking->buffer, (size_t)size);
    else
        looking->failed = true;
}

/* Adds a file or a link. */
static void add_file(struct looking *looking, int parent, const char *name,
                     const struct stat *status)
{
    int64_t changed_ns = sight_wall_ns(&status->st_ctim);
    const int64_t marks[] = {(int64_t)status->st_mode, (int64_t)status->st_size,
                             (int64_t)status->st_ino, sight_wall_ns(&status->st_mtim), changed_ns};
    sight_add_name(looking, name);
    sight_add(looking, marks, sizeof marks);
    if (changed_ns < looking->taken_wall_ns && status->st_ctim.tv_nsec != 0)
        return;
    if (S_ISREG(status->st_mode))
        add_bytes(looking, parent, name);
    else if (S_ISLNK(status->st_mode))
        add_link(looking, parent, name);
    else
        looking->failed = true;
}

static int sight_compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static const char **sight_list_names(struct looking *looking, struct bl_arena *arena, DIR *entries,
                                     size_t *ret_count)
{
    struct dirent *entry;
    struct bl_buffer names;
    size_t count = 0;
    bl_buffer_init(&names, SIZE_MAX);
    while ((entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        const char *name = bl_arena_text(arena, bl_text_from(entry->d_name)).data;
        bl_buffer_append(&names, (struct bl_text){(const char *)&name, sizeof name});
        count++;
        if (++looking->entries > ENTRIES_MAX) {
            looking->failed = true;
            break;
        }
    }
    const char **all = bl_arena_zalloc(arena, (count + 1) * sizeof *all);
    if (count > 0)
        memcpy(all, names.data, count * sizeof *all);
    bl_buffer_done(&names);
    qsort(all, count, sizeof *all, sight_compare_names);
    *ret_count = count;
    return all;
}

static void sight_look_inside(struct looking *looking, int folder, int depth);

static void sight_look_at(struct looking *looking, int parent, const char *name, int depth)
{
    struct stat status;
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        status.st_dev != looking->device || (depth > 0 && strcmp(name, ".git") == 0)) {
        looking->failed = true;
        return;
    }
    if (!S_ISDIR(status.st_mode)) {
        add_file(looking, parent, name, &status);
        return;
    }
    const int64_t mode = (int64_t)status.st_mode;
    sight_add_name(looking, name);
    sight_add(looking, &mode, sizeof mode);
    int inner = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0 || depth >= DEPTH_MAX) {
        looking->failed = true;
        if (inner >= 0)
            close(inner);
        return;
    }
    sight_look_inside(looking, inner, depth + 1);
    sight_add_name(looking, "/"); /* marks the end: no file has that name */
}

/* Adds the contents of the open `folder`, and closes it. */
static void sight_look_inside(struct looking *looking, int folder, int depth)
{
    struct bl_arena arena = {0};
    DIR *entries = fdopendir(folder);
    size_t count = 0;
    if (entries == NULL) {
        looking->failed = true;
        close(folder);
        return;
    }
    const char **names = sight_list_names(looking, &arena, entries, &count);
    for (size_t i = 0; i < count && !looking->failed; i++)
        sight_look_at(looking, dirfd(entries), names[i], depth);
    bl_arena_done(&arena);
    closedir(entries);
}

/* True for file systems whose times come from this kernel's clock. */
static bool has_own_clock(int folder)
{
    static const unsigned long magics[] = {EXT4_SUPER_MAGIC,      XFS_MAGIC,  BTRFS_SUPER_MAGIC,
                                           TMPFS_MAGIC,           ZFS_MAGIC,  F2FS_SUPER_MAGIC,
                                           OVERLAYFS_SUPER_MAGIC, RAMFS_MAGIC};
    struct statfs status;
    if (fstatfs(folder, &status) != 0)
        return false;
    for (size_t i = 0; i < BL_COUNT(magics); i++)
        if ((unsigned long)status.f_type == magics[i])
            return true;
    return false;
}

static int open_top(struct looking *looking, const char *path)
{
    struct stat status;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &status) != 0 || !has_own_clock(folder)) {
        looking->failed = true;
        if (folder >= 0)
            close(folder);
        return -1;
    }
    looking->device = status.st_dev;
    bl_sha256_init(&looking->hash);
    return folder;
}

/* Adds the files from which git derives the status of the worktree. */
static void look_at_folder(struct looking *looking)
{
    static const char *const names[] = {"index", "HEAD", "MERGE_HEAD", "config.worktree",
                                        "info/sparse-checkout"};
    int folder = open_top(looking, looking->folder);
    for (size_t i = 0; folder >= 0 && i < BL_COUNT(names); i++) {
        struct stat status;
        if (fstatat(folder, names[i], &status, AT_SYMLINK_NOFOLLOW) == 0)
            add_file(looking, folder, names[i], &status);
        else if (errno != ENOENT)
            looking->failed = true;
    }
    if (folder < 0)
        return;
    close(folder);
    bl_sha256_end(&looking->hash, looking->look.own);
}

static void sight_look_around(void *payload)
{
    struct looking *looking = payload;
    int folder = open_top(looking, looking->worktree);
    if (folder < 0)
        return;
    sight_look_inside(looking, folder, 0);
    bl_sha256_end(&looking->hash, looking->look.files);
    look_at_folder(looking);
}

static void drop_looking(void *payload)
{
    struct looking *looking = payload;
    bl_free(looking->worktree);
    bl_free(looking->folder);
    bl_free(looking);
}

static char *copy_of(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(bl_alloc(size), text, size);
}

/* Takes the digests. `taken_wall_ns` 0: now; for a comparison, pass the time of the first digests.
 */
static bool sight_look(const char *worktree, const char *folder, int64_t taken_wall_ns,
                       struct git_look *ret_look)
{
    struct looking *looking = bl_zalloc(sizeof *looking);
    struct bl_work work = {.run = sight_look_around, .drop = drop_looking, .payload = looking};
    bool abandoned = false;
    looking->worktree = copy_of(worktree);
    looking->folder = copy_of(folder);
    looking->taken_wall_ns = taken_wall_ns;
    if (taken_wall_ns == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
        looking->taken_wall_ns = sight_wall_ns(&now);
    }
    int code = bl_work_call(&work, &abandoned);
    if (abandoned)
        return false;
    bool known = code == 0 && !looking->failed;
    *ret_look = looking->look;
    ret_look->taken_wall_ns = looking->taken_wall_ns;
    drop_looking(looking);
    return known;
}

/* ---- Kept digests ---------------------------------------------------------------------------- */

/* The digests of one worktree; on the heap. */
struct sight {
    struct bl_list link;
    char *worktree;
    bool known; /* the worktree was clean with these digests */
    struct git_look look;
    char head[GIT_ID_SIZE];
    char *branch; /* full ref */
};

static struct sight *find_sight(struct git_repository *git, const char *worktree)
{
    BL_LIST_EACH (link, &git->sights) {
        struct sight *sight = BL_CONTAINER(link, struct sight, link);
        if (strcmp(sight->worktree, worktree) == 0)
            return sight;
    }
    return NULL;
}

void git_sights_done(struct git_repository *git)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(&git->sights)) != NULL) {
        struct sight *sight = BL_CONTAINER(link, struct sight, link);
        bl_free(sight->worktree);
        bl_free(sight->branch);
        bl_free(sight);
    }
}

static void remember(struct sight *sight, const struct git_look *seen, const char *head,
                     const char *branch)
{
    sight->known = true;
    sight->look = *seen;
    bl_text_into(sight->head, sizeof sight->head, head);
    if (sight->branch == NULL || strcmp(sight->branch, branch) != 0) {
        bl_free(sight->branch);
        sight->branch = copy_of(branch);
    }
}

void git_sight_begin(struct git_repository *git, const char *worktree, const char *folder,
                     const char *head, const char *branch)
{
    struct sight *sight = find_sight(git, worktree);
    struct git_look seen;
    if (!git->plain_refs)
        return;
    if (sight == NULL) {
        sight = bl_zalloc(sizeof *sight);
        sight->worktree = copy_of(worktree);
        bl_list_push_back(&git->sights, &sight->link);
    }
    sight->known = false;
    if (head != NULL && sight_look(worktree, folder, 0, &seen))
        remember(sight, &seen, head, branch);
}

bool git_sight_holds(struct git_repository *git, const char *worktree, const char *folder,
                     const char **ret_branch, char ret_head[GIT_ID_SIZE])
{
    struct sight *sight = find_sight(git, worktree);
    struct git_look now;
    char head[GIT_ID_SIZE];
    if (sight == NULL || !sight->known)
        return false;
    sight->known = sight_look(worktree, folder, sight->look.taken_wall_ns, &now) &&
                   memcmp(now.files, sight->look.files, sizeof now.files) == 0 &&
                   memcmp(now.own, sight->look.own, sizeof now.own) == 0 &&
                   git_ref_find(git, sight->branch, head, NULL) == 0 &&
                   strcmp(head, sight->head) == 0;
    if (!sight->known)
        return false;
    *ret_branch = sight->branch;
    bl_text_into(ret_head, GIT_ID_SIZE, head);
    return true;
}

bool git_sight_look(struct git_repository *git, const char *worktree, const char *folder,
                    struct git_look *ret_look)
{
    return find_sight(git, worktree) != NULL && sight_look(worktree, folder, 0, ret_look);
}

void git_sight_keep(struct git_repository *git, const char *worktree, const char *folder,
                    const struct git_look *before, bool committed, const char *head,
                    const char *branch)
{
    struct sight *sight = find_sight(git, worktree);
    struct git_look after;
    if (sight == NULL || !sight_look(worktree, folder, before->taken_wall_ns, &after) ||
        memcmp(before->files, after.files, sizeof after.files) != 0 ||
        (!committed && memcmp(before->own, after.own, sizeof after.own) != 0))
        return;
    remember(sight, &after, head, branch);
}
