/* Runs one git program.
 *
 * Design notes.
 *
 * A program writes into files in memory that cannot grow beyond their limit. So belay does not have
 * to read while it runs, and the program cannot exhaust memory. The environment names the git
 * directory and the work tree: a `.git` that a Player removed or made in a worktree never makes git
 * use the user's checkout, which contains the worktree. */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <belay/proc.h>

#define READ_GRACE_MS  200
#define WRITE_GRACE_MS 1000

/* ---- Environment ----------------------------------------------------------------------------- */

/* True for variables with which the user chooses identity and configuration. All other variables of
 * git name a repository or change its output. */
static bool run_keeps_variable(struct bl_text entry)
{
    static const char *const kept[] = {
        "GIT_AUTHOR_NAME=",
        "GIT_AUTHOR_EMAIL=",
        "GIT_COMMITTER_NAME=",
        "GIT_COMMITTER_EMAIL=",
        "GIT_CONFIG_GLOBAL=",
        "GIT_CONFIG_SYSTEM=",
        "GIT_CONFIG_NOSYSTEM=",
        "GIT_CONFIG_COUNT=",
        "GIT_CONFIG_KEY_",
        "GIT_CONFIG_VALUE_",
        "GIT_EXEC_PATH=",
        "GIT_CEILING_DIRECTORIES=",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM=",
    };
    static const char *const dropped[] = {"LC_ALL=", "LANGUAGE=", "SSH_ASKPASS="};
    if (bl_text_starts_with(entry, BL_TEXT("GIT_"))) {
        for (size_t i = 0; i < BL_COUNT(kept); i++)
            if (bl_text_starts_with(entry, bl_text_from(kept[i])))
                return true;
        return false;
    }
    for (size_t i = 0; i < BL_COUNT(dropped); i++)
        if (bl_text_starts_with(entry, bl_text_from(dropped[i])))
            return false;
    return true;
}

/* Returns the index of a variable's entry, or the number of entries. */
static size_t run_variable_find(const struct bl_git *git, const char *name)
{
    size_t size = strlen(name), at = 0;
    while (at < git->environment_count &&
           !(strncmp(git->environment[at], name, size) == 0 && git->environment[at][size] == '='))
        at++;
    return at;
}

bool bl_git_variable_has(const struct bl_git *git, const char *name)
{
    size_t at = run_variable_find(git, name);
    return at < git->environment_count && git->environment[at][strlen(name) + 1] != '\0';
}

void bl_git_variable_set(struct bl_git *git, const char *name, const char *value)
{
    size_t at = run_variable_find(git, name);
    if (at == git->environment_count) {
        const char **all = bl_arena_alloc(&git->arena, (at + 1) * sizeof *all);
        memcpy(all, git->environment, at * sizeof *all);
        git->environment = all;
        git->environment_count++;
    }
    git->environment[at] = bl_arena_printf(&git->arena, "%s=%s", name, value).data;
}

static size_t run_count(const char *const *list)
{
    size_t count = 0;
    while (list[count] != NULL)
        count++;
    return count;
}

void bl_git_init(struct bl_git *git)
{
    static const char *const fixed[] = {
        "LC_ALL=C",
        "GIT_TERMINAL_PROMPT=0",
        "GIT_EDITOR=:",
        "GIT_SEQUENCE_EDITOR=:",
        "GIT_PAGER=cat",
        "GIT_MERGE_AUTOEDIT=no",
        "GIT_ALLOW_PROTOCOL=none",
        "GIT_NO_LAZY_FETCH=1",
    };
    *git = (struct bl_git){0};
    bl_list_init(&git->checked);
    const char *const *ours = bl_environment_scrub(&git->arena, NULL, NULL, NULL);
    size_t count = run_count(ours), at = 0;
    const char **all = bl_arena_alloc(&git->arena, (count + BL_COUNT(fixed)) * sizeof *all);
    for (size_t i = 0; i < count; i++)
        if (run_keeps_variable(bl_text_from(ours[i])))
            all[at++] = ours[i];
    for (size_t i = 0; i < BL_COUNT(fixed); i++)
        all[at++] = fixed[i];
    git->environment = all;
    git->environment_count = at;
}

void bl_git_done(struct bl_git *git)
{
    bl_arena_done(&git->arena);
}

/* ---- One program ----------------------------------------------------------------------------- */

/* Settings that override any configuration: every key with a fixed name that runs a program, and
 * keys that make git prompt, sign or clean up. */
static const char *const run_settings[] = {
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=:",
    "core.askPass=true",
    "core.sshCommand=false",
    "core.alternateRefsCommand=true",
    "core.commentChar=#",
    "credential.helper=",
    "sequence.editor=:",
    "gpg.program=false",
    "gpg.openpgp.program=false",
    "gpg.ssh.program=false",
    "gpg.ssh.defaultKeyCommand=false",
    "gpg.x509.program=false",
    "commit.gpgSign=false",
    "commit.verbose=false",
    "log.showSignature=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
    "diff.ignoreSubmodules=dirty",
    "rerere.enabled=false",
    "merge.verifySignatures=false",
    "merge.autoStash=false",
    "i18n.commitEncoding=UTF-8",
    "advice.detachedHead=false",
    "advice.addEmbeddedRepo=false",
    "advice.addIgnoredFile=false",
};

/* True for commands that would run the drivers of `diff.NAME.command` and `diff.NAME.textconv`. */
static bool run_shows_diff(const char *command)
{
    return strncmp(command, "diff", 4) == 0 || strcmp(command, "log") == 0 ||
           strcmp(command, "show") == 0;
}

static const char *const *run_arguments(struct bl_arena *arena, git_overrides overrides,
                                        const char *const *arguments)
{
    size_t count = run_count(arguments), more = run_count(overrides), at = 0;
    const char **all =
        bl_arena_alloc(arena, (count + 5 + 2 * (BL_COUNT(run_settings) + more)) * sizeof *all);
    all[at++] = "git";
    all[at++] = "--no-pager";
    for (size_t i = 0; i < BL_COUNT(run_settings) + more; i++) {
        all[at++] = "-c";
        all[at++] =
            i < BL_COUNT(run_settings) ? run_settings[i] : overrides[i - BL_COUNT(run_settings)];
    }
    all[at++] = arguments[0];
    if (run_shows_diff(arguments[0])) {
        all[at++] = "--no-ext-diff";
        all[at++] = "--no-textconv";
    }
    for (size_t i = 1; i <= count; i++)
        all[at++] = arguments[i];
    return all;
}

static const char *const *run_environment(struct bl_git *git, struct bl_arena *arena,
                                          const struct bl_git_call *call)
{
    size_t at = git->environment_count;
    const char **all = bl_arena_alloc(arena, (at + 4) * sizeof *all);
    for (size_t i = 0; i < at; i++)
        all[i] = git->environment[i];
    if (call->folder != NULL) {
        all[at++] = bl_arena_printf(arena, "GIT_DIR=%s", call->folder).data;
        all[at++] = bl_arena_printf(arena, "GIT_WORK_TREE=%s", call->directory).data;
    }
    if (!call->writes)
        all[at++] = "GIT_OPTIONAL_LOCKS=0";
    all[at] = NULL;
    return all;
}

/* Opens a file in memory that cannot grow beyond `size` bytes. */
static int run_open_sink(size_t size)
{
    int fd = memfd_create("git", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, (off_t)size) != 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int run_open_source(struct bl_text input)
{
    int fd = memfd_create("git", MFD_CLOEXEC);
    if (fd >= 0 && pwrite(fd, input.data, input.size, 0) != (ssize_t)input.size) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int run_dup(int fd)
{
    return fd > 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
}

/* Returns the output: the bytes before the file offset, which belay and the program share. */
static struct bl_text run_read_sink(struct bl_arena *arena, int fd)
{
    /* The program can set the offset to any value. */
    off_t end = lseek(fd, 0, SEEK_CUR), room = lseek(fd, 0, SEEK_END);
    end = end < room ? end : room;
    char *data = bl_arena_alloc(arena, (size_t)end + 1);
    ssize_t count = pread(fd, data, (size_t)end, 0);
    size_t size = count > 0 ? (size_t)count : 0;
    data[size] = '\0';
    return (struct bl_text){data, size};
}

static int run_program(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
                       git_overrides overrides, const char *const *arguments, const int files[3],
                       struct bl_warden_end *ret_end, struct bl_error *error)
{
    char id[32];
    snprintf(id, sizeof id, "git-%" PRIu64, git->programs + 1);
    struct bl_command command = {
        .options =
            {
                .arguments = run_arguments(arena, overrides, arguments),
                .environment = run_environment(git, arena, call),
                .directory = call->directory,
                .input = files[0],
                .output = files[1],
                .error = files[2],
                .grace_ms = call->writes ? WRITE_GRACE_MS : READ_GRACE_MS,
            },
        .kind = BL_UNIT_COMMAND,
        .id = id,
        .name = bl_arena_printf(arena, "git %s", arguments[0]).data,
    };
    uint64_t begun_ns = bl_now_ns();
    git->programs++;
    int code = bl_command_run(&command, ret_end, error);
    git->spent_ns += bl_now_ns() - begun_ns;
    return code;
}

static int run_explain(const struct bl_git_call *call, int code, struct bl_error *error)
{
    if (error != NULL && (code == BL_ENOENT || code == BL_EACCES)) {
        *error = (struct bl_error){0};
        bl_error_set(error, code, BL_KIND_FEATURE, call->operation, "git",
                     code == BL_ENOENT ? "git not found" : "git cannot be executed");
        bl_error_hint(error, "install git 2.38 or later, and make sure that it is in PATH");
    }
    return code;
}

int git_program_run(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
                    git_overrides overrides, const char *const *arguments,
                    struct bl_git_answer *ret_answer, struct bl_error *error)
{
    struct bl_warden_end end;
    if (access(call->directory, X_OK) != 0)
        return bl_git_fail(call->operation, call->directory, errno, error);
    int files[3] = {call->input.size > 0 ? run_open_source(call->input) : run_dup(call->lock),
                    run_open_sink(BL_GIT_OUTPUT_MAX), run_open_sink(BL_GIT_WORDS_MAX)};
    int code = 0;
    if (files[1] < 0 || files[2] < 0 || (files[0] < 0 && (call->input.size > 0 || call->lock > 0)))
        code = bl_error_set(error, BL_EMFILE, BL_KIND_RUNTIME, call->operation, "git",
                            "cannot create files for its input and output");
    if (code == 0)
        code = run_explain(
            call, run_program(git, arena, call, overrides, arguments, files, &end, error), error);
    if (code == 0) {
        *ret_answer = (struct bl_git_answer){
            .status = end.how == BL_END_EXITED ? end.status : 128 + end.status,
            .output = run_read_sink(arena, files[1]),
            .words = run_read_sink(arena, files[2]),
        };
        ret_answer->cut = ret_answer->output.size >= BL_GIT_OUTPUT_MAX;
    }
    for (int i = 0; i < 3; i++)
        if (files[i] >= 0)
            close(files[i]);
    return code;
}

int bl_git_run(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
               const char *const *arguments, struct bl_git_answer *ret_answer,
               struct bl_error *error)
{
    static const char *const none[] = {NULL};
    git_overrides overrides = none;
    const char *key;
    int code = 0;
    if (call->folder != NULL)
        code = git_config_check(git, arena, call, &overrides, &key, error);
    if (code == 0 && call->folder != NULL && (call->writes || overrides == NULL))
        code = bl_git_check(git, arena, call, error);
    return code != 0 ? code
                     : git_program_run(git, arena, call, overrides, arguments, ret_answer, error);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static bool run_says(struct bl_text words, const char *what)
{
    return bl_text_find(words, bl_text_from(what)) >= 0;
}

bool bl_git_is_busy(const struct bl_git_answer *answer)
{
    return answer->status != 0 && run_says(answer->words, ".lock'") &&
           run_says(answer->words, "File exists");
}

int bl_git_refuse(const struct bl_git_call *call, const struct bl_git_answer *answer,
                  struct bl_error *error)
{
    BL_AUTO_BUFFER(shown, 4 * BL_GIT_WORDS_MAX);
    bool full = run_says(answer->words, "No space left on device") ||
                run_says(answer->words, "Disk quota exceeded") ||
                run_says(answer->words, "Out of diskspace");
    int code = full                                           ? BL_ENOSPC
               : bl_git_is_busy(answer)                       ? BL_EBUSY
               : run_says(answer->words, "Permission denied") ? BL_EACCES
                                                              : BL_ESYSTEM;
    bl_text_show(&shown, bl_utf8_cut(bl_text_trim(answer->words), 480), BL_SHOW_LINES);
    for (size_t i = 0; i < shown.size; i++)
        if (shown.data[i] == '\n')
            shown.data[i] = ' ';
    if (shown.size == 0)
        bl_error_set(error, code, BL_KIND_FEATURE, call->operation, call->directory,
                     "git exited with code %d", answer->status);
    else
        bl_error_set(error, code, full ? BL_KIND_FILESYSTEM : BL_KIND_FEATURE, call->operation,
                     call->directory, BL_TEXT_FORMAT, BL_TEXT_ARG(shown));
    if (full)
        bl_error_hint(error, "free some space on that disk, then resume");
    if (bl_git_is_busy(answer))
        bl_error_hint(error, "another git holds this lock; if none is running, remove the file");
    return code;
}

int bl_git_fail(const char *operation, const char *target, int system_errno, struct bl_error *error)
{
    int code = bl_error_from_errno(system_errno);
    bool file = code == BL_ENOSPC || code == BL_EACCES;
    return bl_error_set(error, code, file ? BL_KIND_FILESYSTEM : BL_KIND_FEATURE, operation, target,
                        "%s", strerrordesc_np(system_errno));
}
