/* The walk over a folder tree.
 *
 * Design notes. Folders to read, and packs of files found, are on one stack that all threads take
 * from: the newest first, so that the number of waiting items grows with the depth of the tree and
 * not with its size. A folder is read into a buffer of fixed size; if entries remain, that is one
 * more piece of work, below those from the buffer. Threads are started when there is more work than
 * threads, so that a small tree needs none.
 *
 * A folder is opened by its path below the top, without following any link on the way, and files
 * relative to their open folder: so nothing that is moved or replaced meanwhile leads out of it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "search.h"

#define PATH_SIZE     ((size_t)4096)
#define ENTRIES_SIZE  ((size_t)64 * 1024)
#define ENTRY_MAX     ((size_t)512)
#define PACK_NAMES    32u
#define PACK_SIZE     ((size_t)2048)
#define PACKS_MAX     512u
#define WORK_PER_HAND 4u
#define THREAD_STACK  ((size_t)512 * 1024)

/* As the kernel writes them (getdents64). */
struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t size;
    uint8_t type;
    char name[];
};

/* Reference-counted: by the pieces of work that wait for it and the workers that use it. */
struct folder {
    atomic_uint references;
    int descriptor; /* -1 if not open */
    bool entered;   /* its own rules have been read */
    struct ignore *rules;
    size_t path_size; /* with its slash; 0 for the root of all paths */
    char path[];
};

/* A waiting piece of work: files of a folder, or the folder itself. */
struct piece {
    struct bl_list link;
    struct folder *folder;
    size_t names_size; /* 0 for the folder */
    unsigned names_count;
    char names[];
};

/* One thread of the walk. */
struct worker {
    struct walk_run *run;
    unsigned index;
    pthread_t thread;
    char entries[ENTRIES_SIZE] __attribute__((aligned(16)));
    char path[PATH_SIZE];
    struct bl_list found; /* folders to put on the stack */
    struct piece *pack;   /* files; NULL if there are none yet */
    uint64_t folders_unreadable;
    uint64_t rules_unreadable;
};

struct walk_run {
    struct walk *walk;
    size_t prefix; /* part of all paths from the root of the rules to the top; slash included */
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct bl_list stack;
    size_t waiting; /* pieces on the stack */
    unsigned busy;
    unsigned idle;
    unsigned worker_count;
    unsigned worker_max;
    struct worker *workers[WALK_THREADS_MAX];
};

static bool walk_is_stopped(const struct walk_run *run)
{
    return atomic_load_explicit(run->walk->stopped, memory_order_relaxed);
}

/* ---- Folders --------------------------------------------------------------------------------- */

static struct folder *folder_new(struct ignore *rules, struct bl_text path)
{
    struct folder *folder = bl_alloc(sizeof *folder + path.size + 1);
    *folder = (struct folder){.descriptor = -1, .rules = ignore_ref(rules)};
    atomic_init(&folder->references, 1);
    folder->path_size = path.size;
    memcpy(folder->path, path.data, path.size);
    folder->path[path.size] = '\0';
    return folder;
}

static void folder_unref(struct folder *folder)
{
    if (atomic_fetch_sub(&folder->references, 1) != 1)
        return;
    if (folder->descriptor >= 0)
        close(folder->descriptor);
    ignore_unref(folder->rules);
    bl_free(folder);
}

static int walk_open_below(int top, const char *path)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    const struct open_how how = {.flags = (uint64_t)(unsigned)flags,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    if (path[0] == '\0')
        path = ".";
    long fd = syscall(SYS_openat2, top, path, &how, sizeof how);
    if (fd >= 0)
        return (int)fd;
    if (errno == ENOSYS || errno == EPERM || errno == EAGAIN)
        return tool_path_open_parts(top, path, flags);
    return -errno;
}

/* An entry that was removed or replaced meanwhile counts as never seen. */
static bool has_vanished(int code)
{
    return code == -ENOENT || code == -ENOTDIR || code == -ELOOP;
}

static bool folder_open(struct worker *worker, struct folder *folder)
{
    if (folder->descriptor >= 0)
        return true;
    int fd = walk_open_below(worker->run->walk->descriptor, folder->path + worker->run->prefix);
    if (fd < 0 && !has_vanished(fd))
        worker->folders_unreadable++;
    folder->descriptor = fd < 0 ? -1 : fd;
    return fd >= 0;
}

/* ---- The stack ------------------------------------------------------------------------------- */

static struct piece *piece_new(struct folder *folder, size_t names_size)
{
    struct piece *piece = bl_alloc(sizeof *piece + names_size);
    piece->folder = folder;
    piece->names_size = 0;
    piece->names_count = 0;
    return piece;
}

static void piece_free(struct piece *piece)
{
    folder_unref(piece->folder);
    bl_free(piece);
}

static void *walk_worker_main(void *argument);

/* Called with the lock held. The thread blocks all signals: the program's threads handle them. */
static void start_worker(struct walk_run *run)
{
    struct worker *worker = bl_alloc(sizeof *worker);
    pthread_attr_t attributes;
    sigset_t all, before;
    worker->run = run;
    worker->index = run->worker_count;
    worker->pack = NULL;
    worker->folders_unreadable = worker->rules_unreadable = 0;
    bl_list_init(&worker->found);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&worker->thread, &attributes, walk_worker_main, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (status == 0) {
        run->workers[run->worker_count++] = worker;
    } else {
        /* Continue with the existing threads. */
        run->worker_max = run->worker_count;
        bl_free(worker);
    }
}

/* Takes ownership of the pieces; the last becomes the newest. */
static void walk_push(struct walk_run *run, struct bl_list *pieces)
{
    struct bl_list *link;
    pthread_mutex_lock(&run->lock);
    while ((link = bl_list_pop_front(pieces)) != NULL) {
        bl_list_push_front(&run->stack, link);
        run->waiting++;
        if (run->idle > 0)
            pthread_cond_signal(&run->change);
    }
    if (run->idle == 0 && run->worker_count < run->worker_max &&
        run->waiting > WORK_PER_HAND * run->worker_count)
        start_worker(run);
    pthread_mutex_unlock(&run->lock);
}

static void push_one(struct walk_run *run, struct piece *piece)
{
    struct bl_list pieces;
    bl_list_init(&pieces);
    bl_list_push_back(&pieces, &piece->link);
    walk_push(run, &pieces);
}

static bool walk_has_room(struct walk_run *run)
{
    pthread_mutex_lock(&run->lock);
    bool room = run->waiting < PACKS_MAX;
    pthread_mutex_unlock(&run->lock);
    return room;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Returns the path of a name in that folder, from the root of the rules; in the worker. Empty if it
 * is too long. */
static struct bl_text walk_join(struct worker *worker, const struct folder *folder,
                                const char *name)
{
    size_t size = strlen(name);
    if (folder->path_size + size + 1 > PATH_SIZE)
        return (struct bl_text){0};
    memcpy(worker->path, folder->path, folder->path_size);
    memcpy(worker->path + folder->path_size, name, size + 1);
    return (struct bl_text){worker->path, folder->path_size + size};
}

static void take_file(struct worker *worker, const struct folder *folder, const char *name)
{
    const struct walk *walk = worker->run->walk;
    struct bl_text path = walk_join(worker, folder, name);
    size_t prefix = worker->run->prefix;
    walk->take(walk->context, &(struct walk_file){.folder = folder->descriptor,
                                                  .name = path.data + folder->path_size,
                                                  .path = {path.data + prefix, path.size - prefix},
                                                  .name_offset = folder->path_size - prefix,
                                                  .worker = worker->index});
}

static void take_pack(struct worker *worker, const struct piece *pack)
{
    for (size_t at = 0; at < pack->names_size && !walk_is_stopped(worker->run);
         at += strlen(pack->names + at) + 1)
        take_file(worker, pack->folder, pack->names + at);
}

/* Files that take long to process are handed out in packs. */
static void add_to_pack(struct worker *worker, struct folder *folder, const char *name)
{
    size_t size = strlen(name) + 1;
    struct piece *pack = worker->pack;
    if (pack != NULL && (pack->names_count == PACK_NAMES || pack->names_size + size > PACK_SIZE)) {
        if (walk_has_room(worker->run)) {
            push_one(worker->run, pack);
        } else {
            take_pack(worker, pack);
            piece_free(pack);
        }
        pack = NULL;
    }
    if (pack == NULL) {
        atomic_fetch_add(&folder->references, 1);
        pack = piece_new(folder, PACK_SIZE);
    }
    memcpy(pack->names + pack->names_size, name, size);
    pack->names_size += size;
    pack->names_count++;
    worker->pack = pack;
}

/* ---- Entries --------------------------------------------------------------------------------- */

static void visit_folder(struct worker *worker, const struct folder *above, struct bl_text path)
{
    const struct walk *walk = worker->run->walk;
    size_t prefix = worker->run->prefix;
    struct bl_text below = {path.data + prefix, path.size - prefix};
    if (walk->enters != NULL && !walk->enters(walk->context, below, above->path_size - prefix))
        return;
    if (ignore_has(above->rules, path, above->path_size, true))
        return;
    if (path.size + 2 > PATH_SIZE) {
        worker->folders_unreadable++;
        return;
    }
    worker->path[path.size] = '/';
    struct folder *folder = folder_new(above->rules, (struct bl_text){worker->path, path.size + 1});
    bl_list_push_back(&worker->found, &piece_new(folder, 0)->link);
}

/* `below` is relative to the top of the walk. */
static bool is_denied(const struct walk *walk, struct bl_text below)
{
    struct bl_text workspace = bl_text_from(walk->workspace), relative;
    char absolute[PATH_SIZE * 2];
    int size = snprintf(absolute, sizeof absolute, "%s/" BL_TEXT_FORMAT,
                        strcmp(walk->top, "/") == 0 ? "" : walk->top, BL_TEXT_ARG(below));
    struct bl_text path = {absolute, (size_t)size};
    if (size < 0 || (size_t)size >= sizeof absolute)
        return true;
    bool inside = bl_text_starts_with(path, workspace) && path.size > workspace.size &&
                  path.data[workspace.size] == '/';
    relative =
        inside ? (struct bl_text){path.data + workspace.size + 1, path.size - workspace.size - 1}
               : path;
    return permission_denials_have(walk->denials, relative, path);
}

static void visit_file(struct worker *worker, struct folder *folder, const char *name,
                       struct bl_text path)
{
    const struct walk *walk = worker->run->walk;
    size_t prefix = worker->run->prefix;
    struct bl_text below = {path.data + prefix, path.size - prefix};
    if (walk->wants != NULL && !walk->wants(walk->context, below, folder->path_size - prefix))
        return;
    if (walk->denials != NULL && walk->denials->count > 0 && is_denied(walk, below))
        return;
    if (ignore_has(folder->rules, path, folder->path_size, false))
        return;
    if (walk->heavy)
        add_to_pack(worker, folder, name);
    else
        take_file(worker, folder, name);
}

static unsigned type_of(const struct folder *folder, const struct entry *entry)
{
    struct stat status;
    if (entry->type != DT_UNKNOWN)
        return entry->type;
    if (fstatat(folder->descriptor, entry->name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return DT_UNKNOWN;
    return S_ISDIR(status.st_mode) ? DT_DIR : S_ISREG(status.st_mode) ? DT_REG : DT_UNKNOWN;
}

static void visit(struct worker *worker, struct folder *folder, const struct entry *entry)
{
    const char *name = entry->name;
    if (name[0] == '.' &&
        (name[1] == '\0' || (name[1] == '.' && name[2] == '\0') || strcmp(name, ".git") == 0))
        return;
    unsigned type = type_of(folder, entry);
    if (type != DT_DIR && type != DT_REG)
        return;
    struct bl_text path = walk_join(worker, folder, name);
    if (path.size == 0)
        worker->folders_unreadable += type == DT_DIR;
    else if (type == DT_DIR)
        visit_folder(worker, folder, path);
    else
        visit_file(worker, folder, name, path);
}

/* Reads as many entries as fit. Returns their size in bytes; sets `*ret_all` when there are no
 * more. */
static size_t read_entries(struct worker *worker, const struct folder *folder, bool *ret_all)
{
    size_t size = 0;
    *ret_all = false;
    while (ENTRIES_SIZE - size >= ENTRY_MAX) {
        long got = syscall(SYS_getdents64, folder->descriptor, worker->entries + size,
                           ENTRIES_SIZE - size);
        /* EINVAL: the next entry does not fit into the rest of the buffer. */
        if (got < 0 && errno == EINVAL && size > 0)
            return size;
        if (got < 0 && errno != ENOENT)
            worker->folders_unreadable++;
        if (got <= 0) {
            *ret_all = true;
            return size;
        }
        size += (size_t)got;
    }
    return size;
}

static const struct entry *entry_at(const struct worker *worker, size_t offset)
{
    return (const struct entry *)(const void *)(worker->entries + offset);
}

/* Reads the folder's own rules before any of its entries is examined. */
static void walk_enter(struct worker *worker, struct folder *folder, size_t size, bool all)
{
    unsigned kinds = all ? 0 : IGNORE_ALL;
    for (size_t at = 0; at < size && all; at += entry_at(worker, at)->size)
        kinds |= ignore_kind(entry_at(worker, at)->name);
    struct ignore *above = folder->rules;
    folder->rules = ignore_enter(above, folder->descriptor, folder->path_size, kinds,
                                 &worker->rules_unreadable);
    ignore_unref(above);
    folder->entered = true;
}

static void walk_read_folder(struct worker *worker, struct folder *folder)
{
    bool all;
    if (!folder_open(worker, folder))
        return;
    size_t size = read_entries(worker, folder, &all);
    if (!folder->entered)
        walk_enter(worker, folder, size, all);
    if (!all) {
        atomic_fetch_add(&folder->references, 1);
        push_one(worker->run, piece_new(folder, 0));
    }
    for (size_t at = 0; at < size && !walk_is_stopped(worker->run);
         at += entry_at(worker, at)->size)
        visit(worker, folder, entry_at(worker, at));
    if (!bl_list_empty(&worker->found))
        walk_push(worker->run, &worker->found);
    if (worker->pack != NULL) {
        take_pack(worker, worker->pack);
        piece_free(worker->pack);
        worker->pack = NULL;
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void work_on(struct worker *worker, struct piece *piece)
{
    if (walk_is_stopped(worker->run))
        return;
    if (piece->names_size > 0)
        take_pack(worker, piece);
    else
        walk_read_folder(worker, piece->folder);
}

/* Runs until there is no work left, waiting or in progress. After a stop, waiting pieces are
 * discarded. */
static void *walk_worker_main(void *argument)
{
    struct worker *worker = argument;
    struct walk_run *run = worker->run;
    pthread_mutex_lock(&run->lock);
    for (;;) {
        struct bl_list *link = bl_list_pop_front(&run->stack);
        if (link == NULL && run->busy == 0)
            break;
        if (link == NULL) {
            run->idle++;
            pthread_cond_wait(&run->change, &run->lock);
            run->idle--;
            continue;
        }
        run->waiting--;
        run->busy++;
        pthread_mutex_unlock(&run->lock);
        struct piece *piece = BL_CONTAINER(link, struct piece, link);
        work_on(worker, piece);
        piece_free(piece);
        pthread_mutex_lock(&run->lock);
        run->busy--;
    }
    pthread_cond_broadcast(&run->change);
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

static unsigned processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < 1 ? 1 : count > (int)WALK_THREADS_MAX ? WALK_THREADS_MAX : (unsigned)count;
}

/* Returns the rules of the folders from that root (of the repository, or of the searchable folder)
 * down to the top, but without the top, which is entered like any other folder. */
static struct ignore *rules_above(struct walk_run *run, struct bl_text top, size_t root)
{
    struct ignore *rules = NULL;
    struct bl_arena arena = {0};
    for (size_t end = root; end < top.size; end++) {
        if (end != root && top.data[end] != '/')
            continue;
        struct bl_text path = bl_arena_printf(&arena, "%.*s/", (int)end, top.data);
        int fd = open(path.data, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue;
        struct ignore *above = rules;
        size_t base = end > root ? end - root : 0;
        rules = ignore_enter(above, fd, base, IGNORE_ALL, &run->walk->rules_unreadable);
        ignore_unref(above);
        close(fd);
    }
    bl_arena_done(&arena);
    return rules;
}

/* Returns the first piece of work: the top itself. */
static struct piece *walk_begin(struct walk_run *run)
{
    struct bl_arena arena = {0};
    struct bl_text top = bl_text_from(run->walk->top), home = bl_text_from(run->walk->home);
    size_t root = bl_repository_size(&arena, run->walk->top);
    if (home.size > 0 && home.size < root && bl_text_starts_with(top, home) &&
        top.data[home.size] == '/')
        root = home.size;
    /* "/" ends in the slash that all other paths lack. */
    bool is_root = top.size == 1;
    struct ignore *rules = is_root ? NULL : rules_above(run, top, root);
    struct bl_text below = {top.data + root, is_root ? 0 : top.size - root};
    struct bl_text path = {0};
    if (below.size > 0)
        path = bl_arena_printf(&arena, "%.*s/", (int)below.size - 1, below.data + 1);
    run->prefix = path.size;
    struct folder *folder = folder_new(rules, path.size > 0 ? path : BL_TEXT(""));
    ignore_unref(rules);
    bl_arena_done(&arena);
    return piece_new(folder, 0);
}

void walk_run(struct walk *walk)
{
    struct walk_run run = {.walk = walk, .worker_count = 1};
    unsigned wanted = walk->threads_max != 0 ? walk->threads_max : processors();
    run.worker_max = wanted < WALK_THREADS_MAX ? wanted : WALK_THREADS_MAX;
    pthread_mutex_init(&run.lock, NULL);
    pthread_cond_init(&run.change, NULL);
    bl_list_init(&run.stack);
    struct worker *first = bl_alloc(sizeof *first);
    first->run = &run;
    first->index = 0;
    first->pack = NULL;
    first->folders_unreadable = first->rules_unreadable = 0;
    bl_list_init(&first->found);
    run.workers[0] = first;
    walk->folders_unreadable = walk->rules_unreadable = 0;
    push_one(&run, walk_begin(&run));
    walk_worker_main(first);
    /* No thread starts another once the first has run out of work. */
    for (unsigned i = 0; i < run.worker_count; i++) {
        struct worker *worker = run.workers[i];
        if (i > 0)
            pthread_join(worker->thread, NULL);
        walk->folders_unreadable += worker->folders_unreadable;
        walk->rules_unreadable += worker->rules_unreadable;
        bl_free(worker);
    }
    pthread_cond_destroy(&run.change);
    pthread_mutex_destroy(&run.lock);
}
