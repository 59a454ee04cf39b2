#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "parts.h"

/* Reads the start time of a process, in ticks since boot. Returns false if there is no such
 * process, or if it is a zombie, which writes nothing any more. */
static bool read_start(int64_t pid, int64_t *ret_started)
{
    char path[64], stat[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    struct bl_text text = bl_file_read(AT_FDCWD, path, stat, sizeof stat);
    /* The program name, in parentheses, may contain any character: fields are counted after it. */
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
        return; /* the machine was restarted: none of its processes exist */
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

/* Writes a prefix such as "belay chat, " for a command line: its program, and its first word if
 * that can only be a command or an option. Prompts may contain secrets. */
static void identity_command(int64_t pid, char *out, size_t out_size)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%lld/cmdline", (long long)pid);
    struct bl_text text = bl_file_read(AT_FDCWD, path, line, sizeof line - 1);
    out[0] = '\0';
    if (text.size == 0)
        return;
    line[text.size] = '\0';
    const char *slash = strrchr(line, '/');
    const char *program = slash != NULL ? slash + 1 : line;
    size_t size = strlen(line) + 1;
    const char *word = size < text.size ? line + size : "";
    bool plain = strlen(word) < 16 && strspn(word, "abcdefghijklmnopqrstuvwxyz-") == strlen(word);
    snprintf(out, out_size, "%.32s%s%s, ", program, plain && word[0] != '\0' ? " " : "",
             plain ? word : "");
}

void store_identity_holder(const struct store_identity *self, const struct store_identity *holder,
                           int64_t since_wall_ns, char *out, size_t out_size)
{
    char who[160], command[64] = "", link[64], folder[256];
    ssize_t size = -1;
    store_identity_text(holder, since_wall_ns, who, sizeof who);
    if (store_identity_life(self, holder) == STORE_ALIVE) {
        identity_command(holder->pid, command, sizeof command);
        snprintf(link, sizeof link, "/proc/%lld/cwd", (long long)holder->pid);
        size = readlink(link, folder, sizeof folder - 1);
    }
    folder[size < 0 ? 0 : size] = '\0';
    snprintf(out, out_size, "%s%s%s%s", command, who, size > 0 ? ", in " : "", folder);
}
