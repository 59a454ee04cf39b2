#include "process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <belay/base.h>

#define LEAD_TICKS    30 /* 0.3 s: more than others need to start */
#define ANCESTORS_MAX 64

struct process {
    char name[64];
    char state;
    int parent;
    unsigned long ticks; /* in user and kernel mode */
};

static bool process_read(pid_t pid, struct process *ret_process)
{
    char path[64], data[1024];

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    struct bl_text text = bl_file_read(AT_FDCWD, path, data, sizeof data - 1);
    data[text.size] = '\0';
    const char *name = strchr(data, '('), *end = strrchr(data, ')');
    unsigned long user, kernel;
    if (name == NULL || end == NULL ||
        sscanf(end + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &ret_process->state,
               &ret_process->parent, &user, &kernel) != 4)
        return false;
    snprintf(ret_process->name, sizeof ret_process->name, "%.*s", (int)(end - name - 1), name + 1);
    ret_process->ticks = user + kernel;
    return true;
}

static bool process_is_below(pid_t pid, pid_t ancestor)
{
    struct process process;

    for (int depth = 0; depth < ANCESTORS_MAX && pid > 1; depth++, pid = process.parent) {
        if (pid == ancestor)
            return true;
        if (!process_read(pid, &process))
            return false;
    }
    return false;
}

pid_t process_busy(pid_t ancestor, const char *name)
{
    DIR *folder = opendir("/proc");
    struct process process;
    unsigned long most = 0, second = 0;
    pid_t found = 0;

    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || !process_read(pid, &process) || process.state == 'Z' ||
            strncmp(process.name, name, strlen(name)) != 0 || !process_is_below(pid, ancestor))
            continue;
        if (process.ticks >= most) {
            second = most;
            most = process.ticks;
            found = pid;
        } else if (process.ticks > second) {
            second = process.ticks;
        }
    }
    if (folder != NULL)
        closedir(folder);
    return most - second >= LEAD_TICKS ? found : 0;
}

bool process_lives(pid_t pid)
{
    struct process process;
    return process_read(pid, &process) && process.state != 'Z';
}

size_t process_children(pid_t parent, pid_t *out, size_t size)
{
    DIR *folder = opendir("/proc");
    struct process process;
    size_t count = 0;

    for (struct dirent *entry;
         folder != NULL && count < size && (entry = readdir(folder)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && process_read(pid, &process) && process.state != 'Z' &&
            process.parent == parent)
            out[count++] = pid;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}
