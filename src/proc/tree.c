#include "tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Out of memory here must not leave the tree alive: the lifeline's rule is the last word. */
void tree_push(struct tree *tree, pid_t pid)
{
    if (tree->count == tree->capacity) {
        size_t capacity = tree->capacity == 0 ? 64 : tree->capacity * 2;
        pid_t *pids = realloc(tree->pids, capacity * sizeof *pids);
        if (pids == NULL) {
            kill(pid, SIGKILL);
            return;
        }
        tree->pids = pids;
        tree->capacity = capacity;
    }
    tree->pids[tree->count++] = pid;
}

/* Adds the children that one thread has. The file is a list of numbers with a space after each. */
static void read_children(struct tree *tree, const char *path)
{
    char data[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    long number = 0;
    ssize_t size;
    while ((size = read(fd, data, sizeof data)) > 0) {
        for (ssize_t i = 0; i < size; i++) {
            if (data[i] >= '0' && data[i] <= '9') {
                number = number * 10 + (data[i] - '0');
            } else if (number > 0) {
                tree_push(tree, (pid_t)number);
                number = 0;
            }
        }
    }
    close(fd);
}

/* Adds the children of all threads of `pid`. Most processes have one thread, and the number of
 * links of its task directory says so without reading it. */
void tree_add_children(struct tree *tree, pid_t pid)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    if (stat(path, &status) < 0)
        return;
    if (status.st_nlink <= 3) {
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
        read_children(tree, path);
        return;
    }
    DIR *directory = opendir(path);
    if (directory == NULL)
        return;
    struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", (int)pid, entry->d_name);
        read_children(tree, path);
    }
    closedir(directory);
}

/* Where signals for `pid` go: to its whole group in one call. That catches a storm of forks, and
 * the child that is just being made: the kernel gives it what its group is sent meanwhile, where a
 * signal for the parent alone would miss it. All of a group are below us when its session began
 * there. The session comes first: once it is another one, the group is never ours again. */
static pid_t target_of(pid_t pid)
{
    pid_t session = getsid(pid);
    pid_t group = getpgid(pid);
    return session > 0 && session != getsid(0) && group > 1 ? -group : pid;
}

/* Stops `pid` with its group, once, and notes where the signal went. */
static void freeze(struct tree *frozen, pid_t pid)
{
    pid_t target = target_of(pid);
    for (size_t i = 0; i < frozen->count; i++)
        if (frozen->pids[i] == target)
            return;
    kill(target, SIGSTOP);
    tree_push(frozen, target);
}

static void send_all(const struct tree *targets, int signal)
{
    for (size_t i = 0; i < targets->count; i++)
        kill(targets->pids[i], signal);
}

/* Adds all that is below those in it. Each one but `except` is stopped before its children are
 * read, so that none of these can come or go unseen. */
static void complete_frozen(struct tree *tree, struct tree *frozen, pid_t except)
{
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->pids[i] != except)
            freeze(frozen, tree->pids[i]);
        tree_add_children(tree, tree->pids[i]);
    }
}

void tree_complete(struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        tree_add_children(tree, tree->pids[i]);
}

static void read_own(struct tree *tree)
{
    tree_add_children(tree, getpid());
    tree_complete(tree);
}

void tree_done(struct tree *tree)
{
    free(tree->pids);
    *tree = (struct tree){0};
}

/* The state letter stands behind the last ')' of the name, which may hold anything. 'X': gone. */
static char state_of(pid_t pid)
{
    char path[32], data[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 'X';
    ssize_t size = read(fd, data, sizeof data - 1);
    close(fd);
    if (size <= 0)
        return 'X';
    data[size] = '\0';
    const char *end = strrchr(data, ')');
    return end != NULL && end[1] == ' ' ? end[2] : '?';
}

bool tree_is_zombie(pid_t pid)
{
    char state = state_of(pid);
    return state == 'Z' || state == 'X';
}

static size_t count_living(const struct tree *tree, pid_t except)
{
    size_t count = 0;
    for (size_t i = 0; i < tree->count; i++)
        if (tree->pids[i] != except && !tree_is_zombie(tree->pids[i]))
            count++;
    return count;
}

size_t tree_count(pid_t except)
{
    struct tree tree = {0};
    read_own(&tree);
    size_t count = count_living(&tree, except);
    tree_done(&tree);
    return count;
}

size_t tree_signal(int signal, pid_t except)
{
    struct tree tree = {0}, frozen = {0};
    tree_add_children(&tree, getpid());
    complete_frozen(&tree, &frozen, except);
    size_t count = count_living(&tree, except);
    /* One may have gone to another group before it stopped. */
    for (size_t i = 0; i < tree.count; i++)
        if (tree.pids[i] != except)
            freeze(&frozen, tree.pids[i]);
    send_all(&frozen, signal);
    send_all(&frozen, SIGCONT);
    tree_done(&tree);
    tree_done(&frozen);
    return count;
}

void tree_continue(void)
{
    struct tree tree = {0};
    read_own(&tree);
    for (size_t i = 0; i < tree.count; i++)
        if (state_of(tree.pids[i]) == 'T')
            kill(tree.pids[i], SIGCONT);
    tree_done(&tree);
}

void tree_kill(struct tree *tree)
{
    struct tree frozen = {0};
    complete_frozen(tree, &frozen, 0);
    send_all(tree, SIGKILL);
    tree_done(&frozen);
}

void tree_kill_own(void)
{
    struct tree tree = {0};
    tree_add_children(&tree, getpid());
    tree_kill(&tree);
    tree_done(&tree);
}
