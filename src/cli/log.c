/* The log of this process, and the description of its fibers on SIGUSR1. Both go to the same place:
 * to BELAY_LOG_FILE; else to standard error or, while belay draws on that terminal, to a file in
 * the runtime folder. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <belay/fiber.h>

#include "cli.h"

#define PATH_SIZE       1024
#define DESCRIPTION_MAX ((size_t)2 << 20)

/* Process-wide, as the log is. -1 while standard error is a screen and the log file is not open
 * yet. */
static int log_fd = STDERR_FILENO;

static void log_warn(const char *name, const char *message, const char *hint)
{
    fprintf(stderr, "belay: warning: %s: %s\n", name, message);
    if (hint[0] != '\0')
        fprintf(stderr, "hint: %s\n", hint);
}

static int log_open_file(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
}

/* "RUNTIME/log-PID.txt". */
static int log_open_aside(char path[PATH_SIZE])
{
    int folder;
    if (bl_runtime_folder_open(true, &folder, NULL) != 0)
        return -1;
    close(folder);
    if (bl_runtime_folder(path, PATH_SIZE, NULL) != 0)
        return -1;
    size_t size = strlen(path);
    snprintf(path + size, PATH_SIZE - size, "/log-%d.txt", (int)getpid());
    return log_open_file(path);
}

static int log_descriptor(void)
{
    char path[PATH_SIZE];
    if (log_fd < 0)
        log_fd = log_open_aside(path);
    return log_fd;
}

static void log_write(void *context BL_UNUSED, const struct bl_log_record *record)
{
    int before = errno;
    bl_log_write_fd((void *)(intptr_t)log_descriptor(), record);
    errno = before;
}

void cli_log_open(void)
{
    const char *levels = bl_variable("BELAY_LOG"), *path = bl_variable("BELAY_LOG_FILE");
    struct bl_error error = {0};
    if (levels != NULL && bl_log_set_levels(levels, &error) != 0)
        log_warn("BELAY_LOG", error.message, error.hint);
    if (path != NULL) {
        int fd = log_open_file(path);
        if (fd < 0)
            log_warn("BELAY_LOG_FILE", strerror(errno), "the log goes to standard error");
        else
            log_fd = fd;
    }
    bl_log_open(&(struct bl_log_sink){.write = log_write});
}

void cli_log_verbose(void)
{
    if (bl_variable("BELAY_LOG") == NULL)
        bl_log_set_levels(bl_names_get(&bl_log_level_names, BL_LOG_DEBUG), NULL);
}

static bool log_is_on(void)
{
    for (size_t i = 0; i < BL_LOG_ROOM_COUNT; i++)
        if (bl_log_on((enum bl_log_room)i, BL_LOG_ERROR))
            return true;
    return false;
}

bool cli_log_on_terminal(void)
{
    return log_fd == STDERR_FILENO && isatty(STDERR_FILENO) == 1 && log_is_on();
}

bool cli_log_aside(char *out, size_t out_size)
{
    char path[PATH_SIZE];
    if (log_fd != STDERR_FILENO || isatty(STDERR_FILENO) != 1)
        return false;
    log_fd = -1;
    if (log_is_on())
        log_fd = log_open_aside(path);
    if (log_fd < 0)
        return false;
    bl_text_into(out, out_size, path);
    return true;
}

/* ---- SIGUSR1 --------------------------------------------------------------------------------- */

static void log_describe(void)
{
    BL_AUTO_BUFFER(text, DESCRIPTION_MAX);
    bl_buffer_printf(&text, "---- fibers of process %d ----\n", (int)getpid());
    if (bl_loop_describe(bl_loop_current(), &text) != 0)
        text.size = text.size > 0 ? text.size - 1 : 0;
    bl_buffer_append_byte(&text, '\n');
    int fd = log_descriptor();
    for (size_t at = 0; at < text.size;) {
        ssize_t written = write(fd, text.data + at, text.size - at);
        if (written < 0 && errno != EINTR)
            break;
        at += written > 0 ? (size_t)written : 0;
    }
}

static int describe_main(void *argument)
{
    struct bl_signal *signal = argument;
    int code;
    while ((code = bl_signal_wait(signal, NULL)) == 0)
        log_describe();
    bl_signal_free(signal);
    return code;
}

void cli_describe_on_signal(struct bl_nursery *nursery)
{
    struct bl_signal *signal;
    if (bl_signal_new(SIGUSR1, &signal) != 0)
        return;
    if (bl_nursery_spawn(nursery, NULL, "SIGUSR1", describe_main, signal, NULL) != 0)
        bl_signal_free(signal);
}
