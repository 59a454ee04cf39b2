#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "parts.h"

#define READ_SIZE    16384
#define START_NS_MAX (10 * BL_NS_PER_S)
/* Longer than any command runs: ten years. */
#define READER_NS_MAX (10ull * 365 * 86400 * BL_NS_PER_S)
/* Time for the owner of the lease to stop the scope. */
#define LEASE_STOP_NS BL_NS_PER_S

struct run;

/* One of the command's outputs, with its reader. */
struct stream {
    struct run *run;
    struct bl_capture *capture;   /* NULL: not captured */
    struct bl_descriptor *output; /* read end of its pipe */
    int ends[2];
    char *buffer;
};

/* A command that is being run. */
struct run {
    const struct bl_command *command;
    struct stream streams[2]; /* output (or both); error, if it is captured separately */
};

static void proc_command_take_output(struct stream *stream, struct bl_text bytes)
{
    const struct bl_command *command = stream->run->command;
    bl_capture_add(stream->capture, bytes);
    if (command->on_output != NULL)
        command->on_output(command->context, bytes);
}

/* Reads until end of file, or until its scope is stopped. */
static int read_output(void *argument)
{
    struct stream *stream = argument;
    size_t size;
    int code;
    while ((code = bl_descriptor_read(stream->output, stream->buffer, READ_SIZE, &size)) == 0 &&
           size > 0)
        proc_command_take_output(stream, (struct bl_text){stream->buffer, size});
    return code;
}

/* Reads what the tree has written before it ended. It does not wait, and it is bounded, because a
 * process that was kept can still write to the pipe. */
static void drain_output(struct stream *stream)
{
    ssize_t size;
    uint64_t most = 4 << 20;
    while (most > 0 && (size = read(stream->ends[0], stream->buffer, READ_SIZE)) > 0) {
        proc_command_take_output(stream, (struct bl_text){stream->buffer, (size_t)size});
        most = most > (uint64_t)size ? most - (uint64_t)size : 0;
    }
}

static int proc_command_open_stream(struct stream *stream, const struct bl_warden_options *options,
                                    struct bl_error *error)
{
    if (pipe2(stream->ends, O_CLOEXEC) < 0)
        return bl_error_set(error, BL_EMFILE, BL_KIND_RUNTIME, "start a command",
                            options->arguments[0], "no file descriptors left for its output");
    stream->buffer = bl_alloc(READ_SIZE);
    return bl_descriptor_new(stream->ends[0], &stream->output);
}

static int open_output(struct run *run, struct bl_warden_options *options, struct bl_error *error)
{
    const struct bl_command *command = run->command;
    struct bl_capture *captures[] = {command->capture,
                                     command->capture != NULL ? command->error_capture : NULL};
    int code = 0;
    for (size_t i = 0; i < BL_COUNT(run->streams); i++) {
        struct stream *stream = &run->streams[i];
        *stream = (struct stream){.run = run, .capture = captures[i], .ends = {-1, -1}};
        if (code != 0 || captures[i] == NULL)
            continue;
        code = proc_command_open_stream(stream, options, error);
        if (i == 0)
            options->output = stream->ends[1];
        options->error = stream->ends[1];
    }
    return code;
}

static void close_output(struct run *run)
{
    for (size_t i = 0; i < BL_COUNT(run->streams); i++) {
        struct stream *stream = &run->streams[i];
        bl_descriptor_free(stream->output);
        for (int end = 0; end < 2; end++)
            if (stream->ends[end] >= 0)
                close(stream->ends[end]);
        bl_free(stream->buffer);
    }
}

/* Closes our copies of the write ends, so that the pipes end with the command's copies. */
static int start_readers(struct run *run, struct bl_nursery *nursery)
{
    int code = 0;
    for (size_t i = 0; i < BL_COUNT(run->streams) && code == 0; i++) {
        struct stream *stream = &run->streams[i];
        if (stream->output == NULL)
            continue;
        close(stream->ends[1]);
        stream->ends[1] = -1;
        code = bl_nursery_spawn(nursery, NULL, "output", read_output, stream, NULL);
    }
    return code;
}

static enum bl_fate proc_command_fate_of(const struct bl_warden_end *end)
{
    switch (end->how) {
    case BL_END_EXITED:
    case BL_END_SIGNALED: return BL_FATE_FINISHED;
    case BL_END_STOPPED: return end->strongest_signal == SIGKILL ? BL_FATE_KILLED : BL_FATE_ABORTED;
    case BL_END_LIMIT: return BL_FATE_KILLED;
    case BL_END_LOST: return BL_FATE_UNKNOWN;
    }
    return BL_FATE_UNKNOWN;
}

void bl_command_unit_end(struct bl_unit *unit, const struct bl_warden_end *end)
{
    unit->mechanism = end->mechanism;
    unit->processes = end->processes;
    unit->survivors = end->survivors;
    bl_text_into(unit->unverified, sizeof unit->unverified, end->unverified);
    unit->signal = end->strongest_signal;
    if (end->lease_ended)
        bl_text_into(unit->detail, sizeof unit->detail,
                     "the lease ended, and the warden killed it");
    bl_unit_end(unit, proc_command_fate_of(end));
}

void bl_command_hurry(struct bl_command_control *control)
{
    control->hurry = true;
    if (control->stopping != NULL)
        proc_warden_hurry(control->stopping);
}

uint32_t bl_command_processes(const struct bl_command_control *control)
{
    return control->running != NULL ? proc_warden_count(control->running) : 0;
}

static void stop_warden(const struct bl_command *command, struct bl_warden *warden,
                        struct bl_warden_end *ret_end)
{
    struct bl_command_control unheld = {0};
    struct bl_command_control *control = command->control != NULL ? command->control : &unheld;
    control->stopping = warden;
    bl_warden_stop(warden, SIGTERM, control->hurry ? 0 : command->options.grace_ms, ret_end);
    control->stopping = NULL;
}

/* Waits for the command and, if the caller keeps processes left behind, for these too. */
static int wait_for_end(const struct bl_command *command, struct bl_warden *warden,
                        struct bl_warden_end *ret_end)
{
    int code = bl_warden_wait(warden, ret_end);
    if (code != 0 || !command->options.background || command->on_left == NULL)
        return code;
    if (ret_end->left_behind > 0)
        command->on_left(command->context, ret_end);
    return proc_warden_wait_tree(warden, ret_end);
}

/* Waits for a started warden, or stops it. Output is still read during the grace period, so the
 * reader runs in a shield; the end of the tree ends it. */
static int wait_or_stop(struct run *run, struct bl_warden *warden, struct bl_warden_end *ret_end)
{
    struct bl_scope shield, *outer = bl_scope_current();
    struct bl_nursery nursery;
    bl_shield_begin(&shield, READER_NS_MAX);
    bl_scope_enter(outer);
    bl_nursery_init(&nursery, &shield);
    int code = start_readers(run, &nursery);
    if (code == 0)
        code = wait_for_end(run->command, warden, ret_end);
    /* A process that runs again after the end of its lease reads this end first, and notices a
     * moment later that it has lost the lease. The command belongs in the receipt of that stop. */
    if (code == 0 && ret_end->lease_ended)
        code = bl_sleep(LEASE_STOP_NS);
    if (code != 0)
        stop_warden(run->command, warden, ret_end);
    /* The command had exited before the stop; processes left behind had not. */
    if ((code != 0 || ret_end->lease_ended) && run->command->on_left != NULL &&
        ret_end->processes > 0 &&
        (ret_end->how == BL_END_EXITED || ret_end->how == BL_END_SIGNALED))
        ret_end->how = BL_END_STOPPED;
    bl_nursery_done(&nursery);
    bl_scope_enter(&shield);
    bl_shield_end(&shield);
    for (size_t i = 0; i < BL_COUNT(run->streams); i++)
        if (run->streams[i].output != NULL)
            drain_output(&run->streams[i]);
    return code;
}

/* A stop during the start takes effect after the start, so that the command ends like any other and
 * its fate is known. */
static int start_shielded(const struct bl_warden_options *options, struct bl_warden **ret_warden,
                          struct bl_error *error)
{
    struct bl_scope shield;
    int code = bl_check();
    if (code != 0)
        return code;
    bl_shield_begin(&shield, START_NS_MAX);
    code = bl_warden_start(options, ret_warden, error);
    bl_shield_end(&shield);
    return code;
}

static void set_running(const struct bl_command *command, struct bl_warden *warden)
{
    if (command->control != NULL)
        command->control->running = warden;
}

int bl_command_run(const struct bl_command *command, struct bl_warden_end *ret_end,
                   struct bl_error *error)
{
    struct run run = {.command = command};
    struct bl_warden_options options = command->options;
    struct bl_warden *warden = NULL;
    struct bl_unit unit;
    *ret_end = (struct bl_warden_end){.how = BL_END_STOPPED};
    bl_unit_begin(&unit, command->kind, command->id, command->name);
    int code = open_output(&run, &options, error);
    if (code == 0)
        code = start_shielded(&options, &warden, error);
    if (code == 0) {
        set_running(command, warden);
        if (command->on_started != NULL)
            command->on_started(command->context);
        code = wait_or_stop(&run, warden, ret_end);
        set_running(command, NULL);
        bl_command_unit_end(&unit, ret_end);
    } else {
        bl_unit_end(&unit, BL_FATE_NEVER_STARTED);
    }
    BL_LOG(BL_ROOM_PROC, BL_LOG_INFO, "command over", BL_LOG_STRING("id", command->id),
           BL_LOG_STRING("result", bl_error_text(code)), BL_LOG_INTEGER("status", ret_end->status),
           BL_LOG_BOOLEAN("by_signal", ret_end->by_signal),
           BL_LOG_BOOLEAN("lease_ended", ret_end->lease_ended),
           BL_LOG_INTEGER("survivors", ret_end->survivors == BL_SURVIVORS_UNKNOWN
                                           ? -1
                                           : (int64_t)ret_end->survivors));
    bl_warden_free(warden);
    close_output(&run);
    return code;
}
