/* A seat that is a command.
 *
 * Design notes.
 *
 * The prompt is a memory file used as standard input: the program can read all of it, and Belay
 * need not wait for a program that does not read. Standard output is also kept separately, because
 * a result may be in it; people see both streams in the order of output. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "feature/parts.h"

#define PROMPT_ARGUMENT_MAX ((size_t)120000)
#define RESULT_MAX          (VERDICT_SIZE_MAX + 1) /* one byte more shows that it is too large */
#define SAID_MAX            (SEAT_OUTPUT_MAX - 64) /* room for the note on an omitted middle */
#define GRACE_MS_MAX        ((uint64_t)UINT32_MAX)
#define OPERATION           "start a command"

static const char prompt_word[] = "{prompt}";
static const char file_word[] = "{prompt_file}";

/* On the heap: a fiber's stack is small. */
struct command_run {
    struct seat_house *house;
    const struct seat_order *order;
    struct bl_arena *arena;
    struct seat_outcome *outcome;
    struct seat_run_handle handle;
    struct bl_capture said;   /* both streams */
    struct bl_capture output; /* standard output only */
    struct bl_capture errors; /* keeps no bytes */
    struct bl_command command;
    struct bl_warden_end end;
    const char *prompt_path; /* NULL: no prompt file */
    bool prompted;           /* an argument has the prompt */
};

static int seat_command_fail(struct command_run *run, int code, enum bl_error_kind kind,
                             const char *target, const char *message, const char *why)
{
    return bl_error_set(&run->outcome->error, code, kind, OPERATION, target, "%s: %s", message,
                        why);
}

/* ---- The prompt ------------------------------------------------------------------------------ */

/* Writes the whole text. Returns 0 or an errno. */
static int seat_command_write_all(int fd, struct bl_text text)
{
    while (text.size > 0) {
        ssize_t size = write(fd, text.data, text.size);
        if (size < 0 && errno != EINTR)
            return errno;
        if (size > 0)
            text = (struct bl_text){text.data + size, text.size - (size_t)size};
    }
    return 0;
}

static int open_input(struct command_run *run)
{
    int fd = memfd_create("prompt", MFD_CLOEXEC);
    int failed = fd < 0 ? errno : seat_command_write_all(fd, run->order->prompt);

    if (failed == 0 && lseek(fd, 0, SEEK_SET) < 0)
        failed = errno;
    if (failed == 0) {
        run->command.options.input = fd;
        return 0;
    }
    if (fd >= 0)
        close(fd);
    return seat_command_fail(run, bl_error_from_errno(failed), BL_KIND_RUNTIME,
                             run->order->seat->command[0], "cannot create a file for its input",
                             strerror(failed));
}

/* Writes the prompt file beside the result: outside the working directory, but visible in a
 * sandbox. */
static int write_prompt_file(struct command_run *run)
{
    const char *path = bl_arena_printf(run->arena, "%s.prompt", run->order->result_path).data;

    if (run->prompt_path != NULL)
        return 0;
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int failed = fd < 0 ? errno : seat_command_write_all(fd, run->order->prompt);
    if (fd >= 0) {
        run->prompt_path = path;
        if (close(fd) != 0 && failed == 0)
            failed = errno;
    }
    if (failed == 0)
        return 0;
    return seat_command_fail(run, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, path,
                             "cannot write the prompt", strerror(failed));
}

static int check_prompt_size(struct command_run *run)
{
    size_t size = run->order->prompt.size;

    if (size <= PROMPT_ARGUMENT_MAX)
        return 0;
    bl_error_set(
        &run->outcome->error, BL_ELIMIT, BL_KIND_FEATURE, OPERATION, run->order->seat->command[0],
        "the prompt has %zu bytes, but {prompt} takes at most %zu", size, PROMPT_ARGUMENT_MAX);
    bl_error_hint(&run->outcome->error,
                  "use {prompt_file} instead of {prompt}, or neither to get the prompt on "
                  "standard input");
    return BL_ELIMIT;
}

/* Replaces each placeholder in an argument with the prompt or the path of its file. */
static int fill_argument(struct command_run *run, const char *argument, const char **ret_argument)
{
    struct bl_text rest = bl_text_from(argument);
    BL_AUTO_BUFFER(out, SIZE_MAX);
    int code = 0;

    *ret_argument = argument;
    if (strstr(argument, prompt_word) == NULL && strstr(argument, file_word) == NULL)
        return 0;
    run->prompted = true;
    while (rest.size > 0 && code == 0) {
        size_t taken = 1;
        if (bl_text_starts_with(rest, bl_text_from(prompt_word))) {
            taken = sizeof prompt_word - 1;
            code = check_prompt_size(run);
            if (code == 0)
                bl_buffer_append(&out, seat_valid_text(run->arena, run->order->prompt));
        } else if (bl_text_starts_with(rest, bl_text_from(file_word))) {
            taken = sizeof file_word - 1;
            code = write_prompt_file(run);
            if (code == 0)
                bl_buffer_append(&out, bl_text_from(run->prompt_path));
        } else {
            bl_buffer_append_byte(&out, rest.data[0]);
        }
        rest = (struct bl_text){rest.data + taken, rest.size - taken};
    }
    *ret_argument = bl_arena_text(run->arena, bl_buffer_text(&out)).data;
    return code;
}

/* ---- Program and environment ----------------------------------------------------------------- */

/* Resolves a path with a slash from the top of the user's repository, where no Player writes. */
static const char *program_path(const struct command_run *run, const char *program)
{
    if (program[0] == '/' || strchr(program, '/') == NULL)
        return program;
    return bl_arena_printf(run->arena, "%s/%s", run->house->repository, program).data;
}

static int seat_command_make_arguments(struct command_run *run, const char *const **ret_arguments)
{
    const char *const *words = run->order->seat->command;
    size_t count = 0;
    int code = 0;

    while (words[count] != NULL)
        count++;
    const char **arguments = bl_arena_zalloc(run->arena, (count + 1) * sizeof *arguments);
    arguments[0] = program_path(run, words[0]);
    for (size_t i = 1; i < count && code == 0; i++)
        code = fill_argument(run, words[i], &arguments[i]);
    *ret_arguments = arguments;
    return code;
}

static int enter_sandbox(struct command_run *run, const char *const *arguments)
{
    const struct seat_order *order = run->order;
    struct bl_warden_options *options = &run->command.options;
    const char *slash = strrchr(order->result_path, '/');
    struct bl_text folder = {order->result_path, (size_t)(slash - order->result_path)};
    const char *writable[] = {bl_arena_text(run->arena, folder).data, NULL};
    const char *readable[] = {run->house->git_folder, NULL};
    struct bl_sandbox_view view = {
        .sandbox = order->seat->sandbox,
        .workspace = order->directory,
        .readable = readable,
        .writable = writable,
        .network = seat_network(run->house, false),
        .shown = seat_shown(run->house, run->arena),
    };

    if (view.sandbox != BL_SANDBOX_OFF)
        options->container = bl_sandbox_container(BL_MECHANISM_NONE);
    return bl_sandbox_wrap_view(run->arena, &view, arguments, &options->arguments,
                                &run->outcome->error);
}

static const char *const our_names[] = {
    "BELAY_FEATURE", "BELAY_TASK",        "BELAY_ATTEMPT", "BELAY_TURN",
    "BELAY_PHASE",   "BELAY_DEADLINE_MS", "BELAY_RESULT",
};

static bool seat_command_is_ours(const char *entry)
{
    for (size_t i = 0; i < BL_COUNT(our_names); i++) {
        size_t size = strlen(our_names[i]);
        if (strncmp(entry, our_names[i], size) == 0 && entry[size] == '=')
            return true;
    }
    return false;
}

/* Returns Belay's whole environment plus the variables of the seat. */
static const char *const *seat_command_make_environment(const struct command_run *run)
{
    const struct seat_order *order = run->order;
    struct bl_arena *arena = run->arena;
    size_t count = 0, kept = 0;

    while (environ[count] != NULL)
        count++;
    const char **entries =
        bl_arena_alloc(arena, (count + BL_COUNT(our_names) + 1) * sizeof *entries);
    for (size_t i = 0; i < count; i++)
        if (!seat_command_is_ours(environ[i]))
            entries[kept++] = environ[i];
    entries[kept++] = bl_arena_printf(arena, "BELAY_FEATURE=%s", order->feature).data;
    entries[kept++] = bl_arena_printf(arena, "BELAY_TASK=%s", order->task).data;
    entries[kept++] = bl_arena_printf(arena, "BELAY_ATTEMPT=%" PRIu32, order->attempt).data;
    entries[kept++] = bl_arena_printf(arena, "BELAY_TURN=%" PRIu32, order->turn).data;
    entries[kept++] =
        bl_arena_printf(arena, "BELAY_PHASE=%s", order->coach ? "coach" : "player").data;
    entries[kept++] = bl_arena_printf(arena, "BELAY_RESULT=%s", order->result_path).data;
    if (order->deadline_ns != BL_NEVER) {
        uint64_t now_ns = bl_now_ns();
        uint64_t left_ns = order->deadline_ns > now_ns ? order->deadline_ns - now_ns : 0;
        entries[kept++] =
            bl_arena_printf(arena, "BELAY_DEADLINE_MS=%llu", left_ns / BL_NS_PER_MS).data;
    }
    entries[kept] = NULL;
    return entries;
}

static void seat_command_take_output(void *context, struct bl_text bytes)
{
    struct command_run *run = context;
    const struct seat_order *order = run->order;

    bl_capture_add(&run->said, bytes);
    if (order->active != NULL)
        order->active(order->context, "output", 0);
    if (order->output != NULL)
        order->output(order->context, bytes);
}

/* The arena owns the texts in the options. */
static int seat_command_prepare(struct command_run *run)
{
    const struct seat_order *order = run->order;
    uint64_t grace_ms = order->seat->grace_ns / BL_NS_PER_MS;
    const char *const *arguments;

    run->command = (struct bl_command){
        .options = {.directory = order->directory,
                    .input = -1,
                    .output = -1,
                    .error = -1,
                    .grace_ms = (uint32_t)(grace_ms < GRACE_MS_MAX ? grace_ms : GRACE_MS_MAX)},
        .kind = BL_UNIT_COMMAND,
        .id = order->task,
        .name = order->coach ? "coach" : "player",
        .capture = &run->output,
        .error_capture = &run->errors,
        .on_output = seat_command_take_output,
        .context = run,
        .control = &run->handle.control,
    };
    /* A result left by an earlier run must not count. */
    unlink(order->result_path);
    int code = seat_command_make_arguments(run, &arguments);
    if (code == 0)
        code = enter_sandbox(run, arguments);
    if (code == 0 && !run->prompted)
        code = open_input(run);
    run->command.options.environment = seat_command_make_environment(run);
    return code;
}

/* ---- Result ---------------------------------------------------------------------------------- */

/* Reads the result file. Empty if it is missing or not a regular file. */
static struct bl_text read_result_file(const struct command_run *run)
{
    /* Links are not followed: the command may not have access to their targets. */
    int fd = open(run->order->result_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat status;
    size_t size = 0;
    ssize_t count = 1;

    if (fd < 0)
        return (struct bl_text){0};
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(fd);
        return (struct bl_text){0};
    }
    char *data = bl_alloc(RESULT_MAX);
    while (size < RESULT_MAX && count > 0) {
        count = read(fd, data + size, RESULT_MAX - size);
        if (count > 0)
            size += (size_t)count;
        else if (count < 0 && errno == EINTR)
            count = 1;
    }
    close(fd);
    struct bl_text result = bl_arena_text(run->arena, (struct bl_text){data, size});
    bl_free(data);
    return bl_text_trim(result).size > 0 ? result : (struct bl_text){0};
}

static bool is_whole(struct bl_text text)
{
    struct bl_arena arena = {0};
    const struct bl_json *value = NULL;
    struct bl_json_limits limits = {.size_max = VERDICT_SIZE_MAX};
    bool whole =
        bl_json_read(&arena, text, &limits, &value, NULL) == 0 && bl_json_is(value, BL_JSON_OBJECT);

    bl_arena_done(&arena);
    return whole;
}

/* Finds the result in the output. If the middle of the output is missing, only its end is
 * reliable. */
static struct bl_text find_printed(const struct command_run *run)
{
    BL_AUTO_BUFFER(text, SIZE_MAX);

    bl_capture_text(&run->output, &text);
    struct bl_text printed = bl_buffer_text(&text);
    if (bl_capture_left_out(&run->output) > 0) {
        size_t skipped = printed.size - run->output.tail.size;
        printed = (struct bl_text){printed.data + skipped, printed.size - skipped};
    }
    return bl_arena_text(run->arena, result_find(printed));
}

static void seat_command_take_result(struct command_run *run, bool stopped)
{
    struct seat_outcome *outcome = run->outcome;
    struct bl_text result = read_result_file(run);

    if (stopped) {
        outcome->result = is_whole(result) ? result : (struct bl_text){0};
        return;
    }
    outcome->result = result.size > 0 ? result : find_printed(run);
}

/* Takes the usage that a Player reports. A Coach's verdict has no usage. */
static void seat_command_take_usage(struct command_run *run)
{
    struct seat_outcome *outcome = run->outcome;
    struct player_result said;
    struct bl_text problem = {0};

    if (run->order->coach || outcome->result.size == 0)
        return;
    player_result_parse(run->arena, outcome->result, &said, &problem);
    outcome->usage_known = said.given && said.usage_known;
    if (outcome->usage_known)
        outcome->spent = said.spent;
}

static struct bl_text seat_command_said_text(const struct command_run *run)
{
    BL_AUTO_BUFFER(text, SIZE_MAX);

    bl_capture_text(&run->said, &text);
    struct bl_text said = bl_arena_text(run->arena, bl_buffer_text(&text));
    return bl_utf8_cut(seat_valid_text(run->arena, said), SEAT_OUTPUT_MAX);
}

static int seat_command_exit_code(const struct bl_warden_end *end)
{
    switch (end->how) {
    case BL_END_EXITED: return end->status;
    case BL_END_SIGNALED: return 128 + end->status;
    case BL_END_STOPPED: return end->by_signal ? 128 + end->status : end->status;
    case BL_END_LIMIT:
    case BL_END_LOST: break;
    }
    return 128 + SIGKILL;
}

static void seat_command_settle(struct command_run *run, int code)
{
    struct seat_outcome *outcome = run->outcome;
    bool stopped = code == BL_ECANCELED || code == BL_ETIMEDOUT;

    outcome->survivors = run->end.survivors;
    if (code != 0 && !stopped) {
        outcome->end = SEAT_UNSTARTED;
        bl_error_set(&outcome->error, code, BL_KIND_FEATURE, OPERATION,
                     run->order->seat->command[0], "cannot start the command: %s",
                     bl_error_text(code));
        return;
    }
    outcome->end = stopped ? SEAT_STOPPED : SEAT_ENDED;
    outcome->exit_code = seat_command_exit_code(&run->end);
    outcome->error = (struct bl_error){0};
    outcome->text = seat_command_said_text(run);
    seat_command_take_result(run, stopped);
    seat_command_take_usage(run);
}

void seat_command_run(struct seat_house *house, const struct seat_order *order,
                      struct bl_arena *arena, struct seat_outcome *outcome)
{
    struct command_run *run = bl_zalloc(sizeof *run);

    *run = (struct command_run){.house = house, .order = order, .arena = arena, .outcome = outcome};
    run->handle.control.hurry = house->hurried;
    bl_capture_init(&run->said, SAID_MAX);
    bl_capture_init(&run->output, SEAT_OUTPUT_MAX);
    bl_capture_init(&run->errors, 0);
    bl_list_push_back(&house->running, &run->handle.link);
    int code = seat_command_prepare(run);
    if (code == 0)
        code = bl_command_run(&run->command, &run->end, &outcome->error);
    bl_list_remove(&run->handle.link);
    if (run->command.options.input >= 0)
        close(run->command.options.input);
    seat_command_settle(run, code);
    if (run->prompt_path != NULL)
        unlink(run->prompt_path);
    bl_capture_done(&run->said);
    bl_capture_done(&run->output);
    bl_capture_done(&run->errors);
    bl_free(run);
}
