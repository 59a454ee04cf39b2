/* Resolution of the paths that tools get.
 *
 * Design notes. A path is resolved twice. First it is resolved by hand, part by part, following
 * each link: that gives the name used in rules and results, and a precise error if it is wrong. The
 * files may change before the path is used, so the file is then opened from a descriptor of its
 * root and no link is followed: the resolved path has none. A link swapped in meanwhile therefore
 * leads nowhere, and the name that was allowed is the one in use. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "parts.h"

#define LINKS_MAX 40u
#define SHOWN_MAX ((size_t)240)
/* Maximum number of folder entries read for a suggestion. */
#define SUGGESTIONS_MAX 2000u

/* The state of a resolution. */
struct path_walk {
    struct bl_arena *arena;
    struct bl_text at;   /* absolute, without links; "/" alone ends in '/' */
    struct bl_text rest; /* not yet resolved */
    char *target;        /* of the newest link; PATH_MAX bytes, during the walk */
    unsigned links;
    bool missing;            /* `at` does not exist */
    struct bl_text vanished; /* the first part of it that does not exist */
};

const char *tool_path_show(struct bl_arena *arena, struct bl_text bytes)
{
    struct output_filter filter = {0};
    BL_AUTO_BUFFER(valid, SIZE_MAX);
    struct bl_text shown = bl_utf8_cut(bytes, SHOWN_MAX);
    output_filter_add(&filter, shown, &valid);
    output_filter_end(&filter, &valid);
    for (size_t i = 0; i < valid.size; i++)
        if ((unsigned char)valid.data[i] < ' ' || valid.data[i] == 0x7F)
            valid.data[i] = '?';
    struct bl_text text =
        bl_arena_printf(arena, BL_TEXT_FORMAT "%s", BL_TEXT_ARG(bl_buffer_text(&valid)),
                        shown.size < bytes.size ? "…" : "");
    return text.data;
}

/* ---- Walking --------------------------------------------------------------------------------- */

static bool is_root(struct bl_text path)
{
    return path.size == 1;
}

static struct bl_text joined(struct bl_arena *arena, struct bl_text folder, struct bl_text name)
{
    return bl_arena_printf(arena, BL_TEXT_FORMAT "%s" BL_TEXT_FORMAT, BL_TEXT_ARG(folder),
                           is_root(folder) ? "" : "/", BL_TEXT_ARG(name));
}

static struct bl_text parent_of(struct bl_arena *arena, struct bl_text path)
{
    size_t size = path.size;
    while (size > 1 && path.data[size - 1] != '/')
        size--;
    return bl_arena_text(arena, (struct bl_text){path.data, size > 1 ? size - 1 : 1});
}

static int follow_link(struct path_walk *walk, struct bl_text target)
{
    if (++walk->links > LINKS_MAX)
        return ELOOP;
    if (target.size + walk->rest.size + 1 > (size_t)2 * PATH_MAX)
        return ENAMETOOLONG;
    walk->rest = bl_arena_printf(walk->arena, BL_TEXT_FORMAT "/" BL_TEXT_FORMAT,
                                 BL_TEXT_ARG(target), BL_TEXT_ARG(walk->rest));
    if (target.data[0] == '/')
        walk->at = BL_TEXT("/");
    return 0;
}

/* Resolves one more part. Returns 0, or errno. */
static int walk_part(struct path_walk *walk, struct bl_text part)
{
    if (part.size == 0 || bl_text_equal(part, BL_TEXT(".")))
        return 0;
    if (bl_text_equal(part, BL_TEXT(".."))) {
        if (walk->missing)
            return ENOENT;
        walk->at = parent_of(walk->arena, walk->at);
        return 0;
    }
    struct bl_text next = joined(walk->arena, walk->at, part);
    if (next.size >= PATH_MAX || part.size > NAME_MAX)
        return ENAMETOOLONG;
    if (!walk->missing) {
        ssize_t size = readlink(next.data, walk->target, PATH_MAX);
        if (size > 0)
            return follow_link(walk, (struct bl_text){walk->target, (size_t)size});
        if (size == 0 || (errno != EINVAL && errno != ENOENT))
            return size == 0 ? ENOENT : errno;
        walk->missing = errno == ENOENT;
        walk->vanished = next;
    }
    walk->at = next;
    return 0;
}

static int walk_all(struct path_walk *walk)
{
    int code = 0;
    /* Not in the arena, which belongs to a turn and lives as long as its session. */
    walk->target = bl_alloc(PATH_MAX);
    while (code == 0 && walk->rest.size > 0) {
        const char *slash = memchr(walk->rest.data, '/', walk->rest.size);
        size_t size = slash != NULL ? (size_t)(slash - walk->rest.data) : walk->rest.size;
        struct bl_text part = {walk->rest.data, size};
        size += slash != NULL;
        walk->rest = (struct bl_text){walk->rest.data + size, walk->rest.size - size};
        code = walk_part(walk, part);
    }
    bl_free(walk->target);
    return code;
}

/* ---- Roots ----------------------------------------------------------------------------------- */

static size_t list_count(const char *const *list)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL)
        count++;
    return count;
}

/* Pins the folders that exist. */
static struct bl_pin *pin_list(struct bl_arena *arena, const char *const *list)
{
    size_t count = list_count(list), kept = 0;
    struct bl_pin *pins = bl_arena_zalloc(arena, (count + 1) * sizeof *pins);
    for (size_t i = 0; i < count; i++)
        kept += bl_pin_folder(arena, list[i], &pins[kept]) == 0;
    pins[kept] = (struct bl_pin){.fd = -1};
    return pins;
}

struct tool_roots *tool_roots_new(struct bl_arena *arena, const char *workspace,
                                  const char *const *folders, const char *const *readable)
{
    struct tool_roots *roots = bl_arena_zalloc(arena, sizeof *roots);
    bl_pin_folder(arena, workspace, &roots->workspace);
    roots->folders = pin_list(arena, folders);
    roots->readable = pin_list(arena, readable);
    return roots;
}

void tool_roots_done(struct tool_roots *roots)
{
    bl_pin_done(&roots->workspace);
    for (struct bl_pin *pin = roots->folders; pin->path != NULL; pin++)
        bl_pin_done(pin);
    for (struct bl_pin *pin = roots->readable; pin->path != NULL; pin++)
        bl_pin_done(pin);
}

static struct bl_pin copy_pin(struct bl_arena *arena, const struct bl_pin *pin)
{
    struct bl_pin copy = *pin;
    copy.path = bl_arena_text(arena, bl_text_from(pin->path)).data;
    copy.fd = -1;
    return copy;
}

static struct bl_pin *path_copy_list(struct bl_arena *arena, const struct bl_pin *list)
{
    size_t count = 0;
    while (list[count].path != NULL)
        count++;
    struct bl_pin *copy = bl_arena_zalloc(arena, (count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = copy_pin(arena, &list[i]);
    return copy;
}

struct tool_roots tool_roots_copy(const struct bl_toolbox *toolbox, struct bl_arena *arena)
{
    return (struct tool_roots){
        .workspace = copy_pin(arena, &toolbox->roots->workspace),
        .folders = path_copy_list(arena, toolbox->roots->folders),
        .readable = path_copy_list(arena, toolbox->roots->readable),
    };
}

/* Returns true if the path is the folder or below it; both without links. */
static bool tool_path_below(struct bl_text path, struct bl_text folder)
{
    return is_root(folder) || (bl_text_starts_with(path, folder) &&
                               (path.size == folder.size || path.data[folder.size] == '/'));
}

static const struct bl_pin *root_among(const struct bl_pin *list, struct bl_text path)
{
    for (; list->path != NULL; list++)
        if (tool_path_below(path, bl_text_from(list->path)))
            return list;
    return NULL;
}

/* Returns the root that holds the path for that use, or NULL if none does. */
static const struct bl_pin *path_root_of(const struct tool_roots *roots, struct bl_text path,
                                         enum path_use use)
{
    if (tool_path_below(path, bl_text_from(roots->workspace.path)))
        return &roots->workspace;
    const struct bl_pin *root = root_among(roots->folders, path);
    if (root == NULL && use == PATH_READ)
        root = root_among(roots->readable, path);
    return root;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static struct bl_text say_outside(const struct tool_roots *roots, struct bl_arena *arena,
                                  const struct path_walk *walk, struct bl_text given)
{
    const char *shown = tool_path_show(arena, given);
    const char *workspace = tool_path_show(arena, bl_text_from(roots->workspace.path));
    if (root_among(roots->readable, walk->at) != NULL)
        return bl_arena_printf(arena, "'%s' is read-only: write inside the workspace '%s'.", shown,
                               workspace);
    struct bl_text text = bl_arena_printf(arena, "'%s' is outside the workspace", shown);
    if (walk->links > 0)
        text = bl_arena_printf(arena, "%s (through a symbolic link)", text.data);
    return bl_arena_printf(
        arena, "%s. Use a path inside the workspace '%s'%s, relative to the workspace or absolute.",
        text.data, workspace, roots->folders[0].path != NULL ? " or inside an added folder" : "");
}

/* Returns "; did you mean 'x'?" for a name that is not in its folder, or "". */
static const char *suggest(struct bl_arena *arena, struct bl_text missing)
{
    struct bl_text folder = parent_of(arena, missing);
    size_t skip = folder.size + !is_root(folder);
    struct bl_text word = {missing.data + skip, missing.size - skip};
    struct bl_suggestion suggestion;
    const struct dirent *entry;
    DIR *stream = opendir(folder.data);
    bl_suggestion_init(&suggestion, bl_arena_text(arena, word).data);
    for (unsigned i = 0; stream != NULL && i < SUGGESTIONS_MAX && (entry = readdir(stream)); i++)
        if (entry->d_name[0] != '.' || word.data[0] == '.')
            bl_suggestion_offer(&suggestion,
                                bl_arena_text(arena, bl_text_from(entry->d_name)).data);
    if (stream != NULL)
        closedir(stream);
    if (suggestion.best == NULL)
        return "";
    return bl_arena_printf(arena, "; did you mean '%s'?",
                           tool_path_show(arena, bl_text_from(suggestion.best)))
        .data;
}

static struct bl_text say_wrong(struct bl_arena *arena, const struct path_walk *walk,
                                struct bl_text given, int code)
{
    const char *shown = tool_path_show(arena, given);
    const char *at = tool_path_show(arena, walk->at);
    switch (code) {
    case ENOENT:
        return bl_arena_printf(arena, "'%s' does not exist%s%s", shown,
                               walk->missing && walk->vanished.size < walk->at.size
                                   ? ", nor does one of its parent folders"
                                   : "",
                               walk->missing ? suggest(arena, walk->vanished) : "");
    case ENOTDIR: return bl_arena_printf(arena, "'%s': '%s' is a file, not a folder.", shown, at);
    case ELOOP:
        return bl_arena_printf(
            arena, "'%s' is a loop of symbolic links. Use the path of a real file.", shown);
    case ENAMETOOLONG:
        return bl_arena_printf(arena,
                               "'%s': path too long (at most %d bytes, and %d for each name).",
                               shown, PATH_MAX - 1, NAME_MAX);
    default: return bl_arena_printf(arena, "cannot use '%s': %s", shown, strerrordesc_np(code));
    }
}

/* Returns what is wrong with the path without accessing any file, or NULL. */
static const char *malformed(struct bl_text given, enum path_use use)
{
    if (given.size == 0)
        return "The path is empty. Use a path relative to the workspace.";
    if (memchr(given.data, '\0', given.size) != NULL)
        return "The path contains a NUL byte.";
    if (given.size >= PATH_MAX)
        return "The path is too long (at most 4095 bytes).";
    if (given.data[0] == '~' && (given.size == 1 || given.data[1] == '/'))
        return "'~' is not expanded here. Use a path inside the workspace ('./~' for a file named "
               "'~').";
    if (use == PATH_WRITE && given.data[given.size - 1] == '/')
        return "The path ends in '/', so it names a folder. Use the path of a file.";
    return NULL;
}

/* ---- Resolving ------------------------------------------------------------------------------- */

bool tool_roots_resolve(const struct tool_roots *roots, struct bl_arena *arena,
                        struct bl_text given, enum path_use use, struct tool_path *ret_path,
                        struct bl_text *ret_text)
{
    const char *wrong = malformed(given, use);
    struct bl_text workspace = bl_text_from(roots->workspace.path);
    int gone = wrong != NULL ? 0 : bl_pin_check(&roots->workspace);
    if (wrong != NULL || gone != 0) {
        *ret_text = wrong != NULL
                        ? bl_text_from(wrong)
                        : bl_arena_printf(arena, "The workspace '%s' %s.", roots->workspace.path,
                                          gone == -ESTALE ? "was replaced by another folder"
                                                          : "does not exist");
        return false;
    }
    struct path_walk walk = {
        .arena = arena, .at = given.data[0] == '/' ? BL_TEXT("/") : workspace, .rest = given};
    int code = walk_all(&walk);
    if (code == 0 && walk.missing && use == PATH_READ)
        code = ENOENT;
    const struct bl_pin *root = path_root_of(roots, walk.at, use);
    /* Do not reveal what is wrong outside of the roots. */
    if (root == NULL) {
        *ret_text = say_outside(roots, arena, &walk, given);
        return false;
    }
    if (code != 0) {
        *ret_text = say_wrong(arena, &walk, given, code);
        return false;
    }
    /* A rule is about the given name: a link must not turn it into another one here. */
    const char *guarded = use == PATH_WRITE && walk.links > 0
                              ? bl_sandbox_guarded(arena, root->path, walk.at.data)
                              : NULL;
    if (guarded != NULL) {
        *ret_text =
            bl_arena_printf(arena, "'%s' leads to '%s' through a symbolic link: %s.",
                            tool_path_show(arena, given), tool_path_show(arena, walk.at), guarded);
        return false;
    }
    *ret_path = (struct tool_path){.absolute = walk.at, .root = root, .shown = walk.at};
    if (tool_path_below(walk.at, workspace)) {
        size_t skip = workspace.size + !is_root(workspace);
        ret_path->shown = walk.at.size <= skip
                              ? BL_TEXT(".")
                              : (struct bl_text){walk.at.data + skip, walk.at.size - skip};
    }
    return true;
}

bool tool_path_resolve(const struct bl_toolbox *toolbox, struct bl_arena *arena,
                       struct bl_text given, enum path_use use, struct tool_path *ret_path,
                       struct bl_text *ret_text)
{
    return tool_roots_resolve(toolbox->roots, arena, given, use, ret_path, ret_text);
}

/* ---- Opening --------------------------------------------------------------------------------- */

int tool_path_open_parts(int root, const char *below_root, int flags)
{
    struct bl_text rest = bl_text_from(below_root), part;
    int folder = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char name[NAME_MAX + 1];
    while (folder >= 0 && bl_text_split(&rest, '/', &part)) {
        if (part.size == 0)
            continue;
        if (part.size > NAME_MAX || bl_text_equal(part, BL_TEXT(".."))) {
            close(folder);
            return part.size > NAME_MAX ? -ENAMETOOLONG : -EXDEV;
        }
        memcpy(name, part.data, part.size);
        name[part.size] = '\0';
        bool last = rest.size == 0;
        int next =
            openat(folder, name, O_NOFOLLOW | O_CLOEXEC | (last ? flags : O_PATH | O_DIRECTORY));
        int code = errno;
        close(folder);
        if (last || next < 0)
            return next < 0 ? -code : next;
        folder = next;
    }
    return folder < 0 ? -errno : folder;
}

static int path_open_below(int root, const char *below_root, int flags)
{
    const struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
                                 .resolve =
                                     RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS};
    long fd = syscall(SYS_openat2, root, below_root, &how, sizeof how);
    if (fd >= 0)
        return (int)fd;
    /* EPERM: some containers return this for unknown system calls. */
    if (errno == ENOSYS || errno == EPERM || errno == EAGAIN)
        return tool_path_open_parts(root, below_root, flags);
    return -errno;
}

int tool_path_open(const struct tool_path *path, int flags)
{
    size_t skip = strlen(path->root->path);
    int root = bl_pin_open(path->root);
    if (root < 0)
        return root;
    while (skip < path->absolute.size && path->absolute.data[skip] == '/')
        skip++;
    const char *rest = path->absolute.data + skip;
    int fd = path_open_below(root, rest[0] == '\0' ? "." : rest, flags);
    close(root);
    return fd;
}
