/* Design notes.
 *
 * A socket is created under another name and then renamed, so its path appears only after it
 * listens. Therefore a socket on which no process listens may be replaced or removed. The folder is
 * locked from the check of the existing file to the rename, so that of two processes that start at
 * once one detects the other.
 *
 * If the path of a socket is longer than a socket address allows, it is reached through the open
 * folder in /proc. */
#include <belay/wire.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PATH_SIZE 1024
/* The lock is held for microseconds, unless its owner is paused at that point. */
#define LOCK_TRIES    100
#define LOCK_PAUSE_NS 1000000

/* ---- Names ----------------------------------------------------------------------------------- */

/* A path, split into folder and name. */
struct place {
    int folder;
    char folder_path[PATH_SIZE]; /* "" for the root, "." without a slash */
    const char *name;            /* the last component of the path */
};

static int place_open(struct place *place, const char *path, int flags)
{
    const char *slash = strrchr(path, '/');
    place->name = slash != NULL ? slash + 1 : path;
    size_t size = slash != NULL ? (size_t)(slash - path) : 1;
    if (place->name[0] == '\0')
        return BL_EINVAL;
    if (size >= sizeof place->folder_path)
        return BL_ELIMIT;
    memcpy(place->folder_path, slash != NULL ? path : ".", size);
    place->folder_path[size] = '\0';
    place->folder = open(size > 0 ? place->folder_path : "/", flags | O_DIRECTORY | O_CLOEXEC);
    return place->folder < 0 ? bl_error_from_errno(errno) : 0;
}

/* Uses the full path, or the descriptor of the folder if the path is too long. */
static int make_address(const struct place *place, const char *name,
                        struct sockaddr_un *ret_address)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t most = sizeof ret_address->sun_path;
    int size = snprintf(ret_address->sun_path, most, "%s/%s", place->folder_path, name);
    if (size < 0 || (size_t)size >= most)
        size = snprintf(ret_address->sun_path, most, "/proc/self/fd/%d/%s", place->folder, name);
    return size < 0 || (size_t)size >= most ? BL_ELIMIT : 0;
}

static void make_hidden(char out[32])
{
    uint64_t chance;
    bl_random_bytes(&chance, sizeof chance);
    snprintf(out, 32, ".%016llx", (unsigned long long)chance);
}

bool bl_local_hidden(const char *name)
{
    return name[0] == '.' && strspn(name + 1, "0123456789abcdef") == 16 && name[17] == '\0';
}

/* ---- Connecting ------------------------------------------------------------------------------ */

static int new_socket(int *ret_fd)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return bl_error_from_errno(errno);
    *ret_fd = fd;
    return 0;
}

static int connect_place(const struct place *place, int *ret_fd)
{
    struct sockaddr_un address;
    int fd = -1;
    int code = make_address(place, place->name, &address);
    if (code == 0)
        code = new_socket(&fd);
    if (code != 0)
        return code;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        *ret_fd = fd;
        return 0;
    }
    code = errno == ECONNREFUSED ? BL_ENOENT : bl_error_from_errno(errno);
    close(fd);
    return code;
}

int bl_local_connect(const char *path, int *ret_fd, struct bl_error *error)
{
    struct place place;
    int code = place_open(&place, path, O_PATH);
    if (code == 0) {
        code = connect_place(&place, ret_fd);
        close(place.folder);
    }
    if (code != 0)
        bl_error_set(error, code, BL_KIND_RUNTIME, "connect to a socket", path, "%s: %s", path,
                     code == BL_ENOENT ? "no process is listening" : bl_error_text(code));
    return code;
}

bool bl_local_peer_is_ours(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

/* ---- Listening ------------------------------------------------------------------------------- */

static int lock_folder(int folder)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(folder, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return bl_error_from_errno(errno);
        nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
    }
    return BL_EBUSY;
}

/* True if the process that listened has ended. A process killed while it started another one can
 * leave its sockets open in that one for a moment. */
static bool listener_is_gone(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0 &&
           kill(peer.pid, 0) != 0 && errno == ESRCH;
}

/* Returns 0 if the path is unused or a socket on which no process listens. */
static int check_free(const struct place *place)
{
    struct stat status;
    int fd = -1;
    if (fstatat(place->folder, place->name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : bl_error_from_errno(errno);
    if (!S_ISSOCK(status.st_mode))
        return BL_EEXIST;
    int code = connect_place(place, &fd);
    if (code == BL_ENOENT)
        return 0;
    if (code == 0) {
        bool gone = listener_is_gone(fd);
        close(fd);
        if (gone)
            return 0;
    }
    return code == BL_EACCES ? code : BL_EBUSY;
}

static int listen_hidden(const struct place *place, const char *hidden, int backlog, int fd,
                         struct bl_local_file *ret_file)
{
    struct sockaddr_un address;
    struct stat status;
    int code = make_address(place, hidden, &address);
    if (code != 0)
        return code;
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0)
        return bl_error_from_errno(errno);
    if (fchmodat(place->folder, hidden, 0600, 0) != 0 || listen(fd, backlog) != 0 ||
        fstatat(place->folder, hidden, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        code = bl_error_from_errno(errno);
    } else {
        code = lock_folder(place->folder);
        if (code == 0)
            code = check_free(place);
        if (code == 0 && renameat(place->folder, hidden, place->folder, place->name) != 0)
            code = bl_error_from_errno(errno);
        flock(place->folder, LOCK_UN);
    }
    if (code != 0)
        unlinkat(place->folder, hidden, 0);
    else
        *ret_file = (struct bl_local_file){status.st_dev, status.st_ino};
    return code;
}

static int listen_place(const struct place *place, int backlog, int *ret_fd,
                        struct bl_local_file *ret_file)
{
    struct sockaddr_un address;
    char hidden[32];
    int fd = -1;
    int code = make_address(place, place->name, &address); /* otherwise clients could not reach
                                                              it */
    if (code == 0)
        code = new_socket(&fd);
    if (code != 0)
        return code;
    make_hidden(hidden);
    code = listen_hidden(place, hidden, backlog, fd, ret_file);
    if (code != 0) {
        close(fd);
        return code;
    }
    *ret_fd = fd;
    return 0;
}

static const char *listen_failure(int code)
{
    switch (code) {
    case BL_EBUSY: return "another process is already listening";
    case BL_EEXIST: return "the file is not a socket";
    case BL_ENOENT: return "the directory does not exist";
    case BL_EINVAL: return "the file name is missing";
    case BL_ELIMIT: return "the name is too long";
    default: return bl_error_text(code);
    }
}

int bl_local_listen(const char *path, int backlog, int *ret_fd, struct bl_local_file *ret_file,
                    struct bl_error *error)
{
    struct place place;
    int code = place_open(&place, path, O_RDONLY);
    if (code == 0) {
        code = listen_place(&place, backlog, ret_fd, ret_file);
        close(place.folder);
    }
    if (code != 0) {
        bl_error_set(error, code, BL_KIND_RUNTIME, "listen on a socket", path, "%s: %s", path,
                     listen_failure(code));
        if (error != NULL && code == BL_EEXIST)
            bl_error_hint(error, "remove the file, or use another path");
    }
    return code;
}

void bl_local_remove(const char *path, const struct bl_local_file *file)
{
    struct stat status;
    if (file->inode != 0 && lstat(path, &status) == 0 && status.st_dev == file->device &&
        status.st_ino == file->inode)
        unlink(path);
}

ssize_t bl_write_quietly(int fd, const struct iovec *parts, int count)
{
    sigset_t pipe_signal, before, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    ssize_t written = writev(fd, parts, count);
    int why = errno;
    if (written < 0 && why == EPIPE && sigismember(&pending, SIGPIPE) == 0)
        sigtimedwait(&pipe_signal, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return written;
}
