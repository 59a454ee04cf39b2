#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "parts.h"

/* When the process began, in ticks since boot, and whether it still runs: one that has ended and is
 * not reaped yet writes nothing any more. False: no such process. */
static bool read_start(int64_t pid, int64_t *ret_started)
{
    char path[64], stat[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    struct bl_text text = bl_file_read(AT_FDCWD, path, stat, sizeof stat);
    /* The name of the program, in parentheses, may hold anything: fields are counted after it. */
    while (text.size > 0 && text.data[text.size - 1] != ')')
        text.size--;
    struct bl_text rest = {stat + text.size, strnlen(stat + text.size, sizeof stat - text.size)};
    struct bl_text field;
    if (text.size == 0)
        return false;
    rest = bl_text_trim(rest);
    for (int number = 3; bl_text_split(&rest, ' ', &field); number++) {
        if (number == 3 && field.size == 1 && strchr("ZXx", field.data[0]) != NULL)
            return false;
        if (number == 22)
            return bl_text_to_int64(field, ret_started) == 0;
    }
    return false;
}

int64_t bl_store_process_started(int64_t pid)
{
    int64_t started;
    return read_start(pid, &started) ? started : 0;
}

uint32_t bl_store_process_alive(int64_t pid, int64_t pid_started)
{
    int64_t started;
    return read_start(pid, &started) && started == pid_started ? 1 : 0;
}

void store_identity_read(struct store_identity *ret_self)
{
    const char *host = getenv("BELAY_HOST");
    struct store_identity self = {.pid = getpid()};
    struct bl_text boot =
        bl_file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", self.boot, sizeof self.boot - 1);
    self.boot[bl_text_trim(boot).size] = '\0';
    ssize_t size = readlink("/proc/self/ns/pid", self.pid_space, sizeof self.pid_space - 1);
    self.pid_space[size < 0 ? 0 : size] = '\0';
    if (host != NULL && host[0] != '\0')
        bl_text_into(self.host, sizeof self.host, host);
    else if (gethostname(self.host, sizeof self.host - 1) != 0)
        bl_text_into(self.host, sizeof self.host, "localhost");
    read_start(self.pid, &self.started);
    *ret_self = self;
}

enum store_life store_identity_life(const struct store_identity *self,
                                    const struct store_identity *other)
{
    int64_t started;
    if (strcmp(self->host, other->host) != 0)
        return STORE_OUT_OF_SIGHT;
    if (strcmp(self->boot, other->boot) != 0)
        return STORE_DEAD;
    if (strcmp(self->pid_space, other->pid_space) != 0)
        return STORE_OUT_OF_SIGHT;
    return read_start(other->pid, &started) && started == other->started ? STORE_ALIVE : STORE_DEAD;
}

void store_identity_settle(const struct store_identity *self, const struct store_identity *gone,
                           struct bl_wardens_end *ret_end)
{
    const char *why = NULL;
    *ret_end = (struct bl_wardens_end){.mechanism = BL_MECHANISM_NONE};
    if (strcmp(self->host, gone->host) != 0)
        why = "it ran on another machine";
    else if (strcmp(self->boot, gone->boot) != 0)
        return; /* the machine was restarted: no process of before is there */
    else if (strcmp(self->pid_space, gone->pid_space) != 0)
        why = "it ran in another PID namespace";
    else if (self->pid == gone->pid && self->started == gone->started)
        why = "this process lost its hold on the session";
    if (why == NULL) {
        bl_wardens_settle(gone->pid, gone->started, ret_end);
        return;
    }
    ret_end->survivors = BL_SURVIVORS_UNKNOWN;
    bl_text_into(ret_end->unverified, sizeof ret_end->unverified, why);
}

void store_identity_text(const struct store_identity *identity, int64_t since_wall_ns, char *out,
                         size_t out_size)
{
    char since[32] = "";
    if (since_wall_ns != 0)
        bl_time_format(since_wall_ns, since);
    snprintf(out, out_size, "pid %lld on %s%s%s", (long long)identity->pid, identity->host,
             since_wall_ns != 0 ? ", since " : "", since);
}
