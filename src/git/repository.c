#include "repository.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPERATION      "open the repository"
#define MAJOR_MIN      2
#define MINOR_MIN      38
#define SMALL_FILE_MAX ((size_t)1 << 20)
#define SHOWN_MAX      ((size_t)200)
#define GIT_LEFT_MAX   ((size_t)128 << 10)

/* ---- Small things ---------------------------------------------------------------------------- */

const char *git_shown(struct bl_arena *arena, struct bl_text name)
{
    BL_AUTO_BUFFER(shown, 16 * SHOWN_MAX);
    bl_text_show(&shown, bl_utf8_cut(name, SHOWN_MAX), BL_SHOW_LINE);
    const char *text =
        git_text(arena, BL_TEXT_FORMAT "%s", BL_TEXT_ARG(shown), name.size > SHOWN_MAX ? "…" : "");
    return text;
}

bool git_is_id(const struct git_repository *git, struct bl_text text)
{
    if (text.size != git->id_size)
        return false;
    for (size_t i = 0; i < text.size; i++)
        if (!((text.data[i] >= '0' && text.data[i] <= '9') ||
              (text.data[i] >= 'a' && text.data[i] <= 'f')))
            return false;
    return true;
}

bool git_id_take(const struct git_repository *git, struct bl_text text, char ret_id[GIT_ID_SIZE])
{
    if (!git_is_id(git, text))
        return false;
    memcpy(ret_id, text.data, text.size);
    ret_id[text.size] = '\0';
    return true;
}

bool git_part_next(struct bl_text *rest, struct bl_text *ret_part)
{
    return bl_text_split(rest, '\0', ret_part);
}

struct bl_text git_file_read(struct bl_arena *arena, const char *path)
{
    struct bl_buffer bytes;
    const char *why;
    struct bl_text text = {0};
    if (bl_file_load(path, SMALL_FILE_MAX, &bytes, &why) == 0)
        text = bl_arena_text(arena, bl_buffer_text(&bytes));
    bl_buffer_done(&bytes);
    return text;
}

static int repository_write_all(int fd, struct bl_text text)
{
    while (text.size > 0) {
        ssize_t size = write(fd, text.data, text.size);
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            return -errno;
        text = (struct bl_text){text.data + size, text.size - (size_t)size};
    }
    return 0;
}

int git_file_make(const char *path, struct bl_text text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    int result = fd >= 0 ? repository_write_all(fd, text) : -errno;
    if (fd >= 0 && close(fd) != 0 && result == 0)
        result = -errno;
    return result;
}

int git_file_write(const char *path, struct bl_text text)
{
    struct bl_arena arena = {0};
    const char *temporary = git_text(&arena, "%s.belay-%d", path, (int)getpid());
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    int result = fd >= 0 ? repository_write_all(fd, text) : -errno;
    if (fd >= 0 && close(fd) != 0 && result == 0)
        result = -errno;
    if (result == 0 && rename(temporary, path) != 0)
        result = -errno;
    if (result != 0 && fd >= 0)
        unlink(temporary);
    bl_arena_done(&arena);
    return result;
}

/* ---- Configuration --------------------------------------------------------------------------- */

/* The settings found in the configuration. */
struct configured {
    bool user_name, user_email;
    bool name[2], email[2]; /* only for author and committer */
};

static const char *const roles[2] = {"AUTHOR", "COMMITTER"};

/* Sets belay as author and committer if the user has no identity. */
static void set_identity(struct git_repository *git, const struct configured *found)
{
    struct bl_git *runner = &git->runner;
    bool email_known = found->user_email || bl_git_variable_has(runner, "EMAIL");
    for (size_t role = 0; role < 2; role++) {
        char name[40], email[40];
        snprintf(name, sizeof name, "GIT_%s_NAME", roles[role]);
        snprintf(email, sizeof email, "GIT_%s_EMAIL", roles[role]);
        bool named = found->user_name || found->name[role] || bl_git_variable_has(runner, name);
        bool reached = email_known || found->email[role] || bl_git_variable_has(runner, email);
        if (named && reached)
            continue;
        bl_git_variable_set(runner, name, "belay");
        bl_git_variable_set(runner, email, "belay@localhost");
    }
}

static void repository_put_value(struct bl_buffer *out, struct bl_text name, struct bl_text value)
{
    bl_buffer_printf(out, "\t" BL_TEXT_FORMAT " = \"", BL_TEXT_ARG(name));
    for (size_t i = 0; i < value.size; i++) {
        char byte = value.data[i];
        if (byte == '\n')
            bl_buffer_append(out, BL_TEXT("\\n"));
        else if (byte == '"' || byte == '\\')
            bl_buffer_printf(out, "\\%c", byte);
        else
            bl_buffer_append_byte(out, byte);
    }
    bl_buffer_append(out, BL_TEXT("\"\n"));
}

/* Copies settings that affect the bytes of a checkout, so that a clean copy has them too. Filters
 * are in the user's configuration, which a copy uses anyway. */
static void copy_setting(struct bl_buffer *out, struct bl_text key, struct bl_text value)
{
    static const char *const kept[] = {"core.filemode",        "core.symlinks", "core.ignorecase",
                                       "core.autocrlf",        "core.eol",      "core.safecrlf",
                                       "core.sharedrepository"};
    for (size_t i = 0; i < BL_COUNT(kept); i++)
        if (bl_text_equal(key, bl_text_from(kept[i]))) {
            bl_buffer_append(out, BL_TEXT("[core]\n"));
            repository_put_value(out, (struct bl_text){key.data + 5, key.size - 5}, value);
        }
}

static void take_setting(struct git_repository *git, struct configured *found, struct bl_text key,
                         struct bl_text value)
{
    static const struct {
        const char *key;
        size_t offset;
    } flags[] = {
        {"user.name", offsetof(struct configured, user_name)},
        {"user.email", offsetof(struct configured, user_email)},
        {"author.name", offsetof(struct configured, name[0])},
        {"author.email", offsetof(struct configured, email[0])},
        {"committer.name", offsetof(struct configured, name[1])},
        {"committer.email", offsetof(struct configured, email[1])},
    };
    for (size_t i = 0; i < BL_COUNT(flags); i++)
        if (bl_text_equal(key, bl_text_from(flags[i].key)))
            *(bool *)((char *)found + flags[i].offset) = value.size > 0;
    if (!bl_text_starts_with(key, BL_TEXT("extensions.")))
        return;
    if (bl_text_equal(key, BL_TEXT("extensions.refstorage")))
        git->plain_refs = bl_text_equal(value, BL_TEXT("files"));
    else if (!bl_text_equal(key, BL_TEXT("extensions.objectformat")) &&
             !bl_text_equal(key, BL_TEXT("extensions.partialclone")) &&
             !bl_text_equal(key, BL_TEXT("extensions.preciousobjects")) &&
             !bl_text_equal(key, BL_TEXT("extensions.noop")))
        git->plain_worktrees = false;
}

static int repository_read_configuration(struct git_repository *git, struct bl_arena *arena,
                                         struct bl_error *error)
{
    struct bl_git_call call = {
        .operation = OPERATION, .directory = git->repository, .folder = git->own_folder};
    struct bl_git_answer answer;
    struct configured found = {0};
    struct bl_buffer copy;
    int code = bl_git_run(&git->runner, arena, &call, BL_GIT_ARGUMENTS("config", "--list", "-z"),
                          &answer, error);
    if (code != 0)
        return code;
    if (answer.status != 0)
        return bl_git_refuse(&call, &answer, error);
    git->plain_refs = git->plain_worktrees = true;
    bl_buffer_init(&copy, SMALL_FILE_MAX);
    bl_buffer_printf(&copy,
                     "[core]\n\trepositoryformatversion = %d\n\tbare = false\n\tlogAllRefUpdates = "
                     "true\n[gc]\n\tauto = 0\n",
                     git->id_size > 40);
    if (git->id_size > 40)
        bl_buffer_append(&copy, BL_TEXT("[extensions]\n\tobjectFormat = sha256\n"));
    for (struct bl_text part; git_part_next(&answer.output, &part);) {
        struct bl_text key = {0};
        bl_text_split(&part, '\n', &key);
        take_setting(git, &found, key, part);
        copy_setting(&copy, key, part);
    }
    if (!git->plain_refs)
        git->plain_worktrees = false;
    git->copy_config = bl_arena_text(&git->arena, bl_buffer_text(&copy));
    bl_buffer_done(&copy);
    set_identity(git, &found);
    return 0;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int check_version(struct git_repository *git, struct bl_arena *arena, struct bl_error *error)
{
    struct bl_git_call call = {.operation = OPERATION, .directory = git->repository};
    struct bl_git_answer answer;
    int code = bl_git_run(&git->runner, arena, &call, BL_GIT_ARGUMENTS("version"), &answer, error);
    if (code != 0)
        return code;
    if (answer.status != 0)
        return bl_git_refuse(&call, &answer, error);
    static const struct bl_text prefix = BL_TEXT("git version ");
    char *rest = NULL;
    long major = 0, minor = 0;
    if (bl_text_starts_with(answer.output, prefix)) {
        major = strtol(answer.output.data + prefix.size, &rest, 10);
        minor = *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;
    }
    if (major > MAJOR_MIN || (major == MAJOR_MIN && minor >= MINOR_MIN))
        return 0;
    bl_error_set(error, BL_ENOTSUP, BL_KIND_FEATURE, OPERATION, "git", "%s is too old or unknown",
                 git_shown(arena, bl_text_trim(answer.output)));
    bl_error_hint(error, "install git 2.38 or later: features are merged with 'git merge-tree'");
    return BL_ENOTSUP;
}

static int no_repository(struct git_repository *git, const struct bl_git_call *call,
                         const struct bl_git_answer *answer, struct bl_error *error)
{
    if (bl_text_find(answer->words, BL_TEXT("not a git repository")) < 0)
        return bl_git_refuse(call, answer, error);
    bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, OPERATION, git->repository,
                 "not a git repository");
    bl_error_hint(error, "features need a git repository: run 'git init', commit, and try again");
    return BL_ENOENT;
}

/* Runs one program to find whether the repository is bare, its object format and its folders. */
static int repository_find_folders(struct git_repository *git, struct bl_arena *arena,
                                   struct bl_error *error)
{
    struct bl_git_call call = {.operation = OPERATION, .directory = git->repository};
    struct bl_git_answer answer;
    struct bl_text lines[6] = {0};
    int code =
        bl_git_run(&git->runner, arena, &call,
                   BL_GIT_ARGUMENTS("rev-parse", "--path-format=absolute", "--is-bare-repository",
                                    "--is-inside-work-tree", "--show-object-format", "--git-dir",
                                    "--git-common-dir", "--show-cdup"),
                   &answer, error);
    if (code != 0)
        return code;
    if (answer.status != 0)
        return no_repository(git, &call, &answer, error);
    for (size_t i = 0; i < BL_COUNT(lines); i++)
        bl_text_split(&answer.output, '\n', &lines[i]);
    if (bl_text_equal(lines[0], BL_TEXT("true")) || !bl_text_equal(lines[1], BL_TEXT("true"))) {
        bl_error_set(error, BL_EINVAL, BL_KIND_FEATURE, OPERATION, git->repository,
                     "the repository is bare: it has no work tree");
        bl_error_hint(error, "run it in a checkout: 'git clone' or 'git worktree add'");
        return BL_EINVAL;
    }
    if (lines[5].size > 0)
        return bl_error_set(error, BL_EINVAL, BL_KIND_FEATURE, OPERATION, git->repository,
                            "not the top of its work tree");
    git->id_size = bl_text_equal(lines[2], BL_TEXT("sha256")) ? 64 : 40;
    git->own_folder = bl_arena_text(&git->arena, lines[3]).data;
    git->folder = bl_arena_text(&git->arena, lines[4]).data;
    return 0;
}

/* Reports foreign programs when the repository is opened, not at the first commit. */
static int check_programs(struct git_repository *git, struct bl_arena *arena,
                          struct bl_error *error)
{
    struct bl_git_call call = {
        .operation = OPERATION, .directory = git->repository, .folder = git->own_folder};
    return bl_git_check(&git->runner, arena, &call, error);
}

static int check_commit(struct git_repository *git, struct bl_error *error)
{
    char id[GIT_ID_SIZE];
    int code = git_commit_find(git, "HEAD", id, NULL);
    if (code == 0 || code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return code;
    if (code != BL_ENOENT)
        return bl_error_set(error, code, BL_KIND_FEATURE, OPERATION, git->repository,
                            "git cannot read its HEAD");
    bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, OPERATION, git->repository,
                 "the repository has no commits yet");
    bl_error_hint(error, "make a first commit: branches of tasks start from one");
    return BL_ENOENT;
}

static int open_all(struct git_repository *git, struct bl_error *error)
{
    struct bl_arena arena = {0};
    if (strpbrk(git->repository, "\r\n") != NULL)
        return bl_error_set(error, BL_EINVAL, BL_KIND_FEATURE, OPERATION, "repository",
                            "its path contains a line break, which git's own files do not support");
    int code = check_version(git, &arena, error);
    if (code == 0)
        code = repository_find_folders(git, &arena, error);
    if (code == 0)
        code = repository_read_configuration(git, &arena, error);
    if (code == 0)
        code = check_programs(git, &arena, error);
    if (code == 0)
        code = check_commit(git, error);
    bl_arena_done(&arena);
    return code;
}

int git_open(const char *repository, struct git_repository **ret_git, struct bl_error *error)
{
    struct git_repository *git = bl_zalloc(sizeof *git);
    git->lock = -1;
    git->id_size = 40;
    git->change_files_max = GIT_CHANGE_FILES_MAX;
    bl_buffer_init(&git->left, GIT_LEFT_MAX);
    bl_lock_init(&git->queue);
    bl_list_init(&git->sights);
    bl_git_init(&git->runner);
    git->repository = bl_arena_text(&git->arena, bl_text_from(repository)).data;
    int code = open_all(git, error);
    if (code != 0) {
        git_close(git);
        return code;
    }
    *ret_git = git;
    return 0;
}

void git_close(struct git_repository *git)
{
    if (git == NULL)
        return;
    if (git->lock >= 0)
        close(git->lock);
    git_sights_done(git);
    bl_buffer_done(&git->left);
    bl_git_done(&git->runner);
    bl_arena_done(&git->arena);
    bl_free(git);
}

const char *git_folder(const struct git_repository *git)
{
    return git->folder;
}

void git_share(const struct git_repository *git, uint64_t *ret_ns, uint64_t *ret_programs)
{
    *ret_ns = git->runner.spent_ns;
    *ret_programs = git->runner.programs;
}
