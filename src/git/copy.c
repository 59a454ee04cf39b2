/* Clean copies: separate repositories that use the objects of another one. Belay writes their files
 * (a HEAD, a configuration, the location of the objects), and one program checks out the content.
 */
#include "repository.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAKE             "make a clean copy"
#define PROTECT          "restore protected files"
#define SUBMODULE_DEPTH  8
#define FOLDER_DEPTH_MAX 64
#define ROUNDS_MAX       1000
#define REMOVE_NS_MAX    (60 * BL_NS_PER_S)

/* ---- Removing -------------------------------------------------------------------------------- */

/* On a worker thread. */
struct removal {
    char *path;
    int top;
    uint64_t moved;
};

static int copy_open_folder(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0)
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd;
}

static void remove_inside(struct removal *removal, int folder, int depth);

static void remove_entry(struct removal *removal, int folder, const char *name, int depth)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return;
    if (errno == EACCES && fchmod(folder, 0700) == 0 && unlinkat(folder, name, 0) == 0)
        return;
    if (depth >= FOLDER_DEPTH_MAX) {
        /* Too deep to recurse: move the folder to the top and continue from there. */
        char up[40];
        snprintf(up, sizeof up, "belay-%llu", (unsigned long long)removal->moved++);
        renameat(folder, name, removal->top, up);
        return;
    }
    int inner = copy_open_folder(folder, name);
    if (inner < 0)
        return;
    remove_inside(removal, inner, depth + 1);
    unlinkat(folder, name, AT_REMOVEDIR);
}

/* Removes the contents of the open `folder`, and closes it. */
static void remove_inside(struct removal *removal, int folder, int depth)
{
    DIR *entries = fdopendir(folder);
    struct dirent *entry;
    if (entries == NULL) {
        close(folder);
        return;
    }
    while ((entry = readdir(entries)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_entry(removal, dirfd(entries), entry->d_name, depth);
    closedir(entries);
}

static void remove_all(void *payload)
{
    struct removal *removal = payload;
    for (int i = 0; i < ROUNDS_MAX; i++) {
        uint64_t before = removal->moved;
        removal->top = copy_open_folder(AT_FDCWD, removal->path);
        if (removal->top < 0)
            break;
        remove_inside(removal, dup(removal->top), 0);
        close(removal->top);
        if (rmdir(removal->path) == 0 || removal->moved == before)
            break;
    }
}

static void drop_removal(void *payload)
{
    struct removal *removal = payload;
    bl_free(removal->path);
    bl_free(removal);
}

void git_copy_remove(struct git_repository *git, const char *path)
{
    struct stat status;
    struct bl_scope shield;
    bool abandoned = false;
    (void)git;
    if (lstat(path, &status) != 0)
        return;
    struct removal *removal = bl_zalloc(sizeof *removal);
    removal->path = bl_alloc(strlen(path) + 1);
    memcpy(removal->path, path, strlen(path) + 1);
    struct bl_work work = {.run = remove_all, .drop = drop_removal, .payload = removal};
    bl_shield_begin(&shield, REMOVE_NS_MAX);
    int code = bl_work_call(&work, &abandoned);
    bl_shield_end(&shield);
    if (code == BL_ETHREADS) /* better on this thread than not at all */
        remove_all(removal);
    if (!abandoned)
        drop_removal(removal);
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* A copy in progress, of the repository or of a submodule. */
struct copying {
    struct git_repository *git;
    struct bl_arena *arena;
    const char *source; /* git directory: objects, modules */
    const char *work;   /* the user's checkout */
    const char *path;
    const char *commit;
    const char *folder; /* path/.git */
    int depth;
    struct bl_error *error;
};

static int copy_put_file(struct copying *copying, const char *name, struct bl_text text)
{
    const char *path = git_text(copying->arena, "%s/%s", copying->folder, name);
    int result = git_file_make(path, text);
    return result == 0 ? 0 : bl_git_fail(MAKE, path, -result, copying->error);
}

/* Writes the locations of the source's objects and of its own alternates: git does not follow every
 * chain of relative paths. */
static int put_alternates(struct copying *copying)
{
    struct bl_arena *arena = copying->arena;
    const char *objects = git_text(arena, "%s/objects", copying->source);
    struct bl_text more = git_file_read(arena, git_text(arena, "%s/info/alternates", objects));
    struct bl_text line;
    BL_AUTO_BUFFER(out, (size_t)4 << 20);
    int code = bl_buffer_printf(&out, "%s\n", objects);
    while (code == 0 && bl_text_split(&more, '\n', &line)) {
        if (line.size == 0 || line.data[0] == '#')
            continue;
        bool absolute = line.data[0] == '/' || line.data[0] == '"';
        code = absolute
                   ? bl_buffer_printf(&out, BL_TEXT_FORMAT "\n", BL_TEXT_ARG(line))
                   : bl_buffer_printf(&out, "%s/" BL_TEXT_FORMAT "\n", objects, BL_TEXT_ARG(line));
    }
    code = copy_put_file(copying, "objects/info/alternates", bl_buffer_text(&out));
    return code;
}

static int make_repository(struct copying *copying)
{
    struct bl_arena *arena = copying->arena;
    static const char *const folders[] = {"objects/info", "refs"};
    for (size_t i = 0; i < BL_COUNT(folders); i++) {
        const char *path = git_text(arena, "%s/%s", copying->folder, folders[i]);
        int result = bl_folder_make(path, 0777);
        if (result != 0)
            return bl_git_fail(MAKE, path, -result, copying->error);
    }
    int code = put_alternates(copying);
    if (code == 0)
        code = copy_put_file(copying, "config", copying->git->copy_config);
    if (code == 0)
        code =
            copy_put_file(copying, "HEAD", bl_text_from(git_text(arena, "%s\n", copying->commit)));
    /* The end of a shallow history. */
    struct bl_text shallow = git_file_read(arena, git_text(arena, "%s/shallow", copying->source));
    if (code == 0 && shallow.size > 0)
        code = copy_put_file(copying, "shallow", shallow);
    return code;
}

static int copy_ask(struct copying *copying, const char *const *arguments,
                    struct bl_git_answer *ret_answer)
{
    struct bl_git_call call = {
        .operation = MAKE, .directory = copying->path, .folder = copying->folder};
    int code = bl_git_run(&copying->git->runner, copying->arena, &call, arguments, ret_answer,
                          copying->error);
    if (code == 0 && ret_answer->status != 0)
        code = bl_git_refuse(&call, ret_answer, copying->error);
    return code;
}

/* ---- Submodules ------------------------------------------------------------------------------ */

static int git_make_copy(struct copying *copying);

/* True if the name is safe to use as a path: it must not lead elsewhere. */
static bool is_module_name(struct bl_text name)
{
    struct bl_text part;
    if (name.size == 0 || name.data[0] == '/')
        return false;
    while (bl_text_split(&name, '/', &part))
        if (part.size == 0 || bl_text_equal(part, BL_TEXT("..")) ||
            bl_text_equal(part, BL_TEXT(".")))
            return false;
    return true;
}

/* Returns the name for a path in .gitmodules; `settings` are "submodule.NAME.path LF PATH NUL". */
static struct bl_text module_name(struct bl_text settings, struct bl_text path)
{
    struct bl_text setting;
    static const struct bl_text before = BL_TEXT("submodule."), after = BL_TEXT(".path");
    while (git_part_next(&settings, &setting)) {
        struct bl_text key = {0};
        bl_text_split(&setting, '\n', &key);
        if (bl_text_equal(setting, path) && bl_text_starts_with(key, before) &&
            bl_text_ends_with(key, after) && key.size > before.size + after.size)
            return (struct bl_text){key.data + before.size, key.size - before.size - after.size};
    }
    return (struct bl_text){0};
}

static bool copy_is_folder(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int fill_module(struct copying *copying, struct bl_text name, const char *path,
                       struct bl_text commit)
{
    struct bl_arena *arena = copying->arena;
    struct bl_error inner_error = {0};
    struct copying inner = {
        .git = copying->git,
        .arena = arena,
        .source = git_text(arena, "%s/modules/" BL_TEXT_FORMAT, copying->source, BL_TEXT_ARG(name)),
        .work = git_text(arena, "%s/%s", copying->work, path),
        .path = git_text(arena, "%s/%s", copying->path, path),
        .commit = git_text(arena, BL_TEXT_FORMAT, BL_TEXT_ARG(commit)),
        .depth = copying->depth + 1,
        .error = &inner_error,
    };
    if (!copy_is_folder(git_text(arena, "%s/objects", inner.source)))
        inner.source = git_text(arena, "%s/.git", inner.work);
    int code = BL_ENOENT;
    if (copying->depth < SUBMODULE_DEPTH && is_module_name(name) &&
        copy_is_folder(git_text(arena, "%s/objects", inner.source))) {
        rmdir(inner.path);
        code = git_make_copy(&inner);
    }
    if (code == 0 || code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return code;
    bl_error_set(copying->error, BL_ENOTSUP, BL_KIND_FEATURE, MAKE, copying->path,
                 "submodule '%s' cannot be checked out from local data%s%.200s",
                 git_shown(arena, bl_text_from(path)), inner_error.code != 0 ? ": " : "",
                 inner_error.message);
    bl_error_hint(copying->error, "run 'git submodule update --init --recursive' in your checkout");
    return BL_ENOTSUP;
}

/* Fills the index entries that are commits. An entry that is not in .gitmodules is not a submodule,
 * and remains an empty folder. */
static int fill_modules(struct copying *copying)
{
    struct bl_git_answer index, settings;
    struct bl_text entry;
    if (access(git_text(copying->arena, "%s/.gitmodules", copying->path), F_OK) != 0)
        return 0;
    int code = copy_ask(copying, BL_GIT_ARGUMENTS("ls-files", "-s", "-z"), &index);
    if (code != 0 || bl_text_find(index.output, BL_TEXT("160000 ")) < 0)
        return code;
    code = copy_ask(copying, BL_GIT_ARGUMENTS("config", "-f", ".gitmodules", "-z", "--list"),
                    &settings);
    while (code == 0 && git_part_next(&index.output, &entry)) {
        struct bl_text mode = {0}, commit = {0}, stage = {0};
        bl_text_split(&entry, ' ', &mode);
        bl_text_split(&entry, ' ', &commit);
        bl_text_split(&entry, '\t', &stage);
        if (!bl_text_equal(mode, BL_TEXT("160000")))
            continue;
        struct bl_text name = module_name(settings.output, entry);
        if (name.size > 0)
            code = fill_module(copying, name, entry.data, commit);
    }
    return code;
}

/* ---- A copy ---------------------------------------------------------------------------------- */

static int git_make_copy(struct copying *copying)
{
    struct bl_git_answer answer;
    copying->folder = git_text(copying->arena, "%s/.git", copying->path);
    if (mkdir(copying->path, 0777) != 0)
        return bl_git_fail(MAKE, copying->path, errno, copying->error);
    int code = make_repository(copying);
    if (code == 0)
        code =
            copy_ask(copying, BL_GIT_ARGUMENTS("read-tree", "-m", "-u", copying->commit), &answer);
    if (code == 0)
        code = fill_modules(copying);
    return code;
}

int git_copy_make(struct git_repository *git, const char *commit, const char *path,
                  struct bl_error *error)
{
    struct bl_arena arena = {0};
    struct copying copying = {.git = git,
                              .arena = &arena,
                              .source = git->folder,
                              .work = git->repository,
                              .path = path,
                              .commit = commit,
                              .error = error};
    int code = bl_check();
    if (code == 0 && !git_is_id(git, bl_text_from(commit)))
        code = bl_error_set(error, BL_EINVAL, BL_KIND_FEATURE, MAKE, path, "not a full commit id");
    if (code == 0 && access(path, F_OK) == 0)
        code = bl_error_set(error, BL_EEXIST, BL_KIND_FEATURE, MAKE, path, "already exists");
    if (code == 0) {
        int result = bl_folder_make_above(path, 0777);
        code = result == 0 ? git_make_copy(&copying) : bl_git_fail(MAKE, path, -result, error);
        if (code != 0 && code != BL_ENOTSUP)
            git_copy_remove(git, path);
    }
    bl_arena_done(&arena);
    return code;
}

/* ---- Protected files ------------------------------------------------------------------------- */

/* Removes a file that is not in the base, and the folders that become empty: a path of the base may
 * need their place. */
static int remove_added(struct copying *copying, const char *path)
{
    char *full = (char *)git_text(copying->arena, "%s/%s", copying->path, path);
    if (unlink(full) != 0 && errno != ENOENT && errno != ENOTDIR)
        return bl_git_fail(PROTECT, full, errno, copying->error);
    size_t top = strlen(copying->path);
    for (char *slash = strrchr(full, '/'); slash != NULL && (size_t)(slash - full) > top;
         slash = strrchr(full, '/')) {
        *slash = '\0';
        if (rmdir(full) != 0)
            break;
    }
    return 0;
}

static int restore(struct copying *copying, struct bl_text paths)
{
    struct bl_git_call call = {.operation = PROTECT,
                               .directory = copying->path,
                               .folder = copying->folder,
                               .input = paths,
                               .writes = true};
    struct bl_git_answer answer;
    if (paths.size == 0)
        return 0;
    int code = bl_git_run(&copying->git->runner, copying->arena, &call,
                          BL_GIT_ARGUMENTS("--literal-pathspecs", "checkout", "-q", copying->commit,
                                           "--pathspec-from-file=-", "--pathspec-file-nul"),
                          &answer, copying->error);
    if (code == 0 && answer.status != 0)
        code = bl_git_refuse(&call, &answer, copying->error);
    return code;
}

/* Removes the files that git does not track in the copy, including ignored ones. */
static int remove_untracked(struct copying *copying, const char *const *patterns)
{
    struct bl_git_answer answer;
    struct bl_text path;
    int code = copy_ask(copying, BL_GIT_ARGUMENTS("ls-files", "-o", "-z"), &answer);
    while (code == 0 && git_part_next(&answer.output, &path))
        if (path.size > 0 && !bl_text_ends_with(path, BL_TEXT("/")) &&
            git_path_fits(patterns, path.data))
            code = remove_added(copying, path.data);
    return code;
}

int git_copy_protect(struct git_repository *git, const char *path, const char *base,
                     const char *const *patterns, struct bl_error *error)
{
    struct bl_arena arena = {0};
    struct copying copying = {
        .git = git, .arena = &arena, .path = path, .commit = base, .error = error};
    struct bl_git_answer answer;
    BL_AUTO_BUFFER(changed, BL_GIT_OUTPUT_MAX);
    struct bl_text state, name;
    if (patterns == NULL || patterns[0] == NULL)
        return 0;
    copying.folder = git_text(&arena, "%s/.git", path);
    int code = remove_untracked(&copying, patterns);
    if (code == 0)
        code = copy_ask(
            &copying,
            BL_GIT_ARGUMENTS("diff-index", "-r", "-z", "--name-status", "--no-renames", base, "--"),
            &answer);
    while (code == 0 && git_part_next(&answer.output, &state) &&
           git_part_next(&answer.output, &name)) {
        if (!git_path_fits(patterns, name.data))
            continue;
        if (state.data[0] == 'A')
            code = remove_added(&copying, name.data);
        else
            code = bl_buffer_append(&changed, (struct bl_text){name.data, name.size + 1});
    }
    if (code == 0)
        code = restore(&copying, bl_buffer_text(&changed));
    bl_arena_done(&arena);
    return code;
}

/* ---- Patterns -------------------------------------------------------------------------------- */

/* Matches a byte of a path against the class at `*at`, and advances `*at` past the class. Returns 1
 * for a match, 0 for none, and -1 if the class has no end, so that its bracket is literal. */
static int class_fits(const char **at, char byte)
{
    const char *next = *at + 1;
    bool wants = true, fits = false;
    if (*next == '!' || *next == '^') {
        wants = false;
        next++;
    }
    for (bool first = true; first || *next != ']'; first = false) {
        if (*next == '\0')
            return -1;
        unsigned char low = (unsigned char)*next, high = low;
        if (next[1] == '-' && next[2] != ']' && next[2] != '\0') {
            high = (unsigned char)next[2];
            next += 2;
        }
        next++;
        fits |= low <= (unsigned char)byte && (unsigned char)byte <= high;
    }
    *at = next + 1;
    return byte != '/' && fits == wants;
}

/* The possible positions of a match in a pattern: one mark per byte. */
struct marks {
    const char *pattern;
    size_t size;
    bool *now;
    bool *next;
};

/* True for two stars and a slash at the beginning of a part: any number of folders. */
static bool is_folders(const struct marks *marks, size_t at)
{
    return strncmp(marks->pattern + at, "**/", 3) == 0 &&
           (at == 0 || marks->pattern[at - 1] == '/');
}

/* Marks the position `at`, and those after wildcards that may match nothing. */
static void arrive(struct marks *marks, bool *set, size_t at)
{
    for (;;) {
        set[at] = true;
        if (is_folders(marks, at))
            at += 3;
        else if (marks->pattern[at] == '*')
            at += marks->pattern[at + 1] == '*' ? 2 : 1;
        else
            return;
    }
}

static void step(struct marks *marks, size_t at, char byte)
{
    const char *pattern = marks->pattern + at, *after = pattern;
    int class = *pattern == '[' ? class_fits(&after, byte) : -1;
    if (is_folders(marks, at)) {
        marks->next[at] = true; /* still inside a folder's name */
        if (byte == '/')
            arrive(marks, marks->next, at + 3);
    } else if (*pattern == '*') {
        if (byte != '/' || pattern[1] == '*')
            arrive(marks, marks->next, at);
    } else if (*pattern == '?') {
        if (byte != '/')
            arrive(marks, marks->next, at + 1);
    } else if (class >= 0) {
        if (class > 0)
            arrive(marks, marks->next, (size_t)(after - marks->pattern));
    } else {
        size_t size = *pattern == '\\' && pattern[1] != '\0' ? 2 : 1;
        if (pattern[size - 1] == byte)
            arrive(marks, marks->next, at + size);
    }
}

/* True if the last part has no wildcards. It then matches everything in the folder of that name. */
static bool copy_is_named(const char *pattern)
{
    const char *slash = strrchr(pattern, '/');
    return strpbrk(slash != NULL ? slash + 1 : pattern, "*?[") == NULL;
}

static bool fits_one(const char *pattern, const char *path)
{
    while (*pattern == '/' || strncmp(pattern, "./", 2) == 0)
        pattern += *pattern == '/' ? 1 : 2;
    size_t size = strlen(pattern);
    char *own = bl_alloc(size + 1);
    memcpy(own, pattern, size + 1);
    while (size > 0 && own[size - 1] == '/')
        own[--size] = '\0';
    bool named = copy_is_named(own), fits = false;
    struct marks marks = {
        .pattern = own, .size = size, .now = bl_zalloc(size + 1), .next = bl_zalloc(size + 1)};
    if (size > 0)
        arrive(&marks, marks.now, 0);
    for (; *path != '\0' && !fits; path++) {
        fits = named && *path == '/' && marks.now[size];
        memset(marks.next, 0, size + 1);
        for (size_t at = 0; at < size; at++)
            if (marks.now[at])
                step(&marks, at, *path);
        bool *other = marks.now;
        marks.now = marks.next;
        marks.next = other;
    }
    fits = fits || marks.now[size];
    bl_free(marks.now);
    bl_free(marks.next);
    bl_free(own);
    return fits;
}

bool git_path_fits(const char *const *patterns, const char *path)
{
    for (; patterns != NULL && *patterns != NULL; patterns++)
        if (fits_one(*patterns, path))
            return true;
    return false;
}
