/* Empty directories for items that name none.
 *
 * Each is locked (flock) while its item runs, so that another worker can tell whether it was left by
 * a process that was killed: a lock ends with its process. A directory is made under the lock of the
 * folder, so that it is never seen unlocked by a worker that looks for such leftovers. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "queue.h"

#define FOLDER_MODE 0700u
#define OPEN_MAX    16

struct directory_job {
    const char *folder;
    struct queue_directory *directory;
    int failed; /* errno; 0 if none */
};

/* The contents come before their directory. Continues after a failure. */
static _Thread_local int directory_failed;

static int directory_remove_entry(const char *path, const struct stat *facts, int kind,
                                  struct FTW *place)
{
    (void)facts;
    (void)kind;
    (void)place;
    if (remove(path) != 0 && directory_failed == 0)
        directory_failed = errno;
    return 0;
}

static int directory_remove_tree(const char *path)
{
    directory_failed = 0;
    if (nftw(path, directory_remove_entry, OPEN_MAX, FTW_DEPTH | FTW_PHYS) != 0)
        return errno;
    return directory_failed;
}

/* Opens and locks the folder. Returns -1 with errno. */
static int directory_lock_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    while (fd >= 0 && flock(fd, LOCK_EX) != 0) {
        if (errno == EINTR)
            continue;
        int failed = errno;
        close(fd);
        errno = failed;
        return -1;
    }
    return fd;
}

static void directory_make_on_thread(void *payload)
{
    struct directory_job *job = payload;
    struct queue_directory *directory = job->directory;
    int code = bl_folder_make(job->folder, FOLDER_MODE);

    if (code != 0) {
        job->failed = -code;
        return;
    }
    int folder = directory_lock_folder(job->folder);
    snprintf(directory->path, sizeof directory->path, "%s/XXXXXX", job->folder);
    if (folder < 0 || mkdtemp(directory->path) == NULL)
        job->failed = errno;
    else
        directory->lock = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (job->failed == 0 && (directory->lock < 0 || flock(directory->lock, LOCK_EX | LOCK_NB) != 0))
        job->failed = errno;
    if (folder >= 0)
        close(folder);
}

static void directory_remove_on_thread(void *payload)
{
    struct directory_job *job = payload;

    job->failed = directory_remove_tree(job->directory->path);
    close(job->directory->lock);
    job->directory->lock = -1;
}

/* Removes the directory if no process has it locked. */
static void directory_clean_one(const char *folder, const char *name)
{
    char path[4096];
    int whole = directory_lock_folder(folder);

    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = whole >= 0 ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    bool left = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (whole >= 0)
        close(whole);
    if (left)
        directory_remove_tree(path);
    if (fd >= 0)
        close(fd);
}

static void directory_clean_on_thread(void *payload)
{
    struct directory_job *job = payload;
    DIR *folder = opendir(job->folder);
    const struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            directory_clean_one(job->folder, entry->d_name);
    if (folder != NULL)
        closedir(folder);
}

static int directory_call(struct directory_job *job, void (*run)(void *payload), const char *what,
                          const char *path, struct bl_error *error)
{
    struct bl_work work = {.run = run, .payload = job};
    bool abandoned;
    int code = bl_work_call(&work, &abandoned);

    if (code == 0 && job->failed != 0)
        code = bl_error_from_errno(job->failed);
    if (code != 0)
        bl_error_set(error, code, BL_KIND_FILESYSTEM, what, path, "cannot %s '%.300s': %s", what,
                     path, job->failed != 0 ? strerrordesc_np(job->failed) : bl_error_text(code));
    return code;
}

int queue_directory_make(const char *folder, struct queue_directory *ret_directory,
                         struct bl_error *error)
{
    struct directory_job job = {.folder = folder, .directory = ret_directory};

    ret_directory->lock = -1;
    int code = directory_call(&job, directory_make_on_thread, "make a directory in", folder, error);
    if (code != 0 && ret_directory->lock >= 0) {
        close(ret_directory->lock);
        ret_directory->lock = -1;
    }
    return code;
}

int queue_directory_remove(struct queue_directory *directory, struct bl_error *error)
{
    struct directory_job job = {.directory = directory};

    return directory_call(&job, directory_remove_on_thread, "remove the directory", directory->path,
                          error);
}

void queue_directory_clean(const char *folder)
{
    struct directory_job job = {.folder = folder};

    directory_call(&job, directory_clean_on_thread, "clean", folder, NULL);
}
