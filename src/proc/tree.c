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

/* A leader takes its whole group along in one call, which is what catches a storm of forks: one
 * that has a signal pending does not fork. All of a group below us are below us, since its session
 * began there. */
static void freeze_process(pid_t pid)
{
    kill(getpgid(pid) == pid ? -pid : pid, SIGSTOP);
}

void tree_complete(struct tree *tree, bool freeze, pid_t except)
{
    for (size_t i = 0; i < tree->count; i++) {
        pid_t pid = tree->pids[i];
        if (freeze && pid != except)
            freeze_process(pid);
        tree_add_children(tree, pid);
    }
}

static void read_own(struct tree *tree, bool freeze, pid_t except)
{
    tree_add_children(tree, getpid());
    tree_complete(tree, freeze, except);
}

void tree_done(struct tree *tree)
{
    free(tree->pids);
    *tree = (struct tree){0};
}

/* The state letter stands behind the last ')' of the name, which may hold anything. */
bool tree_is_zombie(pid_t pid)
{
    char path[32], data[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    ssize_t size = read(fd, data, sizeof data - 1);
    close(fd);
    if (size <= 0)
        return true;
    data[size] = '\0';
    const char *end = strrchr(data, ')');
    return end != NULL && end[1] == ' ' && (end[2] == 'Z' || end[2] == 'X');
}

size_t tree_count(pid_t except)
{
    struct tree tree = {0};
    size_t count = 0;
    read_own(&tree, false, except);
    for (size_t i = 0; i < tree.count; i++)
        if (tree.pids[i] != except && !tree_is_zombie(tree.pids[i]))
            count++;
    tree_done(&tree);
    return count;
}

size_t tree_signal(int signal, pid_t except)
{
    struct tree tree = {0};
    size_t count = 0;
    read_own(&tree, true, except);
    for (size_t i = 0; i < tree.count; i++) {
        if (tree.pids[i] == except)
            continue;
        if (!tree_is_zombie(tree.pids[i]))
            count++;
        kill(tree.pids[i], signal);
    }
    for (size_t i = 0; i < tree.count; i++)
        if (tree.pids[i] != except)
            kill(tree.pids[i], SIGCONT);
    tree_done(&tree);
    return count;
}

void tree_kill(void)
{
    struct tree tree = {0};
    read_own(&tree, true, 0);
    for (size_t i = 0; i < tree.count; i++)
        kill(tree.pids[i], SIGKILL);
    tree_done(&tree);
}
