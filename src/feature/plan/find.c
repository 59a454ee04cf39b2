#include "plan.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPERATION "find the feature"
/* Limit for a folder of features; further entries are ignored. */
#define ENTRIES_MAX 4096u

static const char *const folders[] = {".belay/features", ".guardkit/features"};
static const char *const endings[] = {".yaml", ".yml"};

bool plan_id_valid(struct bl_text id)
{
    for (size_t i = 0; i < id.size; i++) {
        char byte = id.data[i];
        bool alphanumeric = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                            (byte >= '0' && byte <= '9');
        if (!alphanumeric && (i == 0 || (byte != '_' && byte != '-')))
            return false;
    }
    return id.size > 0 && id.size < BL_PLAN_ID_SIZE;
}

/* Returns the path with links resolved, in the arena, or NULL if it does not exist. */
static const char *resolve(struct bl_arena *arena, const char *path)
{
    char *real = realpath(path, NULL);
    const char *result = real != NULL ? bl_arena_text(arena, bl_text_from(real)).data : NULL;

    free(real);
    return result;
}

int bl_plan_repository(struct bl_arena *arena, const char *directory, const char **ret_repository,
                       struct bl_error *error)
{
    const char *real = resolve(arena, directory);
    size_t size = real != NULL ? strlen(real) : 0;

    for (size_t end = size; end > 0; end--) {
        if (end != size && real[end] != '/')
            continue;
        /* .git is a file in a worktree, a folder in a clone. */
        const char *mark = bl_arena_printf(arena, "%.*s/.git", (int)end, real).data;
        struct stat status;
        if (stat(mark, &status) == 0 && (S_ISDIR(status.st_mode) || S_ISREG(status.st_mode))) {
            *ret_repository = bl_arena_text(arena, (struct bl_text){real, end}).data;
            return 0;
        }
    }
    bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, OPERATION, directory,
                 "%s is not in a git repository", directory);
    bl_error_hint(error, "change to a repository, or create one with git init");
    return BL_ENOENT;
}

/* ---- Existing ids ---------------------------------------------------------------------------- */

#define KNOWN_SHOWN 5u

struct ids {
    struct bl_arena *arena;
    const char **names;
    size_t count;
};

static int plan_find_compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void plan_find_list_folder(struct ids *ids, const char *folder)
{
    DIR *stream = opendir(folder);
    const struct dirent *entry;

    while (stream != NULL && ids->count < ENTRIES_MAX && (entry = readdir(stream)) != NULL) {
        struct bl_text name = bl_text_from(entry->d_name);
        for (size_t i = 0; i < BL_COUNT(endings); i++) {
            struct bl_text ending = bl_text_from(endings[i]);
            struct bl_text stem = {name.data, name.size - ending.size};
            if (bl_text_ends_with(name, ending) && plan_id_valid(stem))
                ids->names[ids->count++] = bl_arena_text(ids->arena, stem).data;
        }
    }
    if (stream != NULL)
        closedir(stream);
}

const char *const *bl_plan_ids(struct bl_arena *arena, const char *repository)
{
    struct ids ids = {arena, bl_arena_zalloc(arena, (ENTRIES_MAX + 1) * sizeof *ids.names), 0};

    for (size_t i = 0; i < BL_COUNT(folders); i++)
        plan_find_list_folder(&ids, bl_arena_printf(arena, "%s/%s", repository, folders[i]).data);
    qsort(ids.names, ids.count, sizeof *ids.names, plan_find_compare_names);
    return ids.names;
}

static size_t plan_find_count(const char *const *ids)
{
    size_t count = 0;

    while (ids[count] != NULL)
        count++;
    return count;
}

const char *plan_known(struct plan_loader *loader, const char *repository)
{
    const char *const *ids = bl_plan_ids(loader->arena, repository);
    size_t count = plan_find_count(ids), shown = count > KNOWN_SHOWN ? KNOWN_SHOWN : count;
    BL_AUTO_BUFFER(text, 4096);

    if (count == 0)
        return " There are no plans in .belay/features; 'belay feature new' writes one.";
    bl_buffer_append(&text,
                     count == 1 ? BL_TEXT(" The plan here is ") : BL_TEXT(" The plans here are "));
    for (size_t i = 0; i < shown; i++)
        bl_buffer_printf(&text, "%s%s", i == 0 ? "" : i + 1 == count ? " and " : ", ", ids[i]);
    if (count > shown)
        bl_buffer_printf(&text, " and %zu more", count - shown);
    bl_buffer_append_byte(&text, '.');
    return bl_arena_text(loader->arena, bl_buffer_text(&text)).data;
}

/* Suggests ids close to the name, or else lists all. */
static const char *suggest_ids(struct plan_loader *loader, const char *repository, const char *name)
{
    if (repository == NULL)
        return "";
    const char *const *ids = bl_plan_ids(loader->arena, repository);
    const char *near = plan_suggest(loader, name, ids, plan_find_count(ids));
    return near[0] != '\0' ? near : plan_known(loader, repository);
}

/* ---- Finding --------------------------------------------------------------------------------- */

static bool plan_find_exists(const struct plan_loader *loader, const char *path)
{
    struct stat status;

    return plan_source(loader, path) != NULL || stat(path, &status) == 0;
}

static bool plan_find_is_folder(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Suggests the path with its extension, or else ids. */
static const char *suggest_path(struct plan_loader *loader, const char *path)
{
    const char *here = NULL, *slash = strrchr(path, '/');

    for (size_t i = 0; i < BL_COUNT(endings); i++) {
        if (plan_find_exists(loader, bl_arena_printf(loader->arena, "%s%s", path, endings[i]).data))
            return bl_arena_printf(loader->arena, " Did you mean '%s%s'?", loader->options->name,
                                   endings[i])
                .data;
    }
    bl_plan_repository(loader->arena, loader->options->directory, &here, NULL);
    return suggest_ids(loader, here, slash[1] != '\0' ? slash + 1 : loader->options->name);
}

static int plan_find_by_id(struct plan_loader *loader, struct bl_error *error)
{
    struct bl_plan *plan = loader->plan;
    const char *id = loader->options->name;
    const char *found[BL_COUNT(folders) * BL_COUNT(endings)];
    size_t count = 0;
    int code =
        bl_plan_repository(loader->arena, loader->options->directory, &plan->repository, error);

    if (code != 0)
        return code;
    for (size_t i = 0; i < BL_COUNT(folders); i++) {
        for (size_t j = 0; j < BL_COUNT(endings); j++) {
            const char *name =
                bl_arena_printf(loader->arena, "%s/%s%s", folders[i], id, endings[j]).data;
            if (plan_find_exists(
                    loader, bl_arena_printf(loader->arena, "%s/%s", plan->repository, name).data))
                found[count++] = name;
        }
    }
    if (count == 0) {
        plan_fault_line(loader, id, 0, "E01",
                        "no feature %s: neither %s/%s.yaml nor %s/%s.yaml exists in "
                        "%s.%s",
                        id, folders[0], id, folders[1], id, plan->repository,
                        suggest_ids(loader, plan->repository, id));
        return BL_EINVAL;
    }
    loader->file.name = found[0];
    plan->path = bl_arena_printf(loader->arena, "%s/%s", plan->repository, found[0]).data;
    for (size_t i = 1; i < count; i++)
        plan_fault_line(loader, found[0], 1, "E01",
                        "the feature exists twice, as %s and as %s: remove one of them, or use "
                        "its path",
                        found[0], found[i]);
    return count > 1 ? BL_EINVAL : 0;
}

/* Returns the name of a file in errors: its path from the top of the repository. */
static const char *relative_to(const char *repository, const char *path)
{
    size_t size = strlen(repository);

    return strncmp(path, repository, size) == 0 && path[size] == '/' ? path + size + 1 : path;
}

/* Finds a plan by path. Links in its folder are resolved, but not the file itself: the repository
 * is the one that contains the name. */
static int find_by_path(struct plan_loader *loader, struct bl_error *error)
{
    struct bl_plan *plan = loader->plan;
    const char *name = loader->options->name;
    const char *path =
        name[0] == '/'
            ? name
            : bl_arena_printf(loader->arena, "%s/%s", loader->options->directory, name).data;
    const char *slash = strrchr(path, '/');
    struct bl_text before = {path, slash > path ? (size_t)(slash - path) : 1};
    const char *folder = resolve(loader->arena, bl_arena_text(loader->arena, before).data);

    if (folder == NULL || !plan_find_exists(loader, path)) {
        const char *why =
            errno == EACCES ? "permission denied" : "no such file; use an id or a path";
        plan_fault_line(loader, name, 0, "E01", "cannot open the plan: %s.%s", why,
                        suggest_path(loader, path));
        return BL_EINVAL;
    }
    if (plan_find_is_folder(path)) {
        const char *top = NULL;
        bl_plan_repository(loader->arena, path, &top, NULL);
        plan_fault_line(loader, name, 0, "E01", "this is a folder, not a plan.%s",
                        top != NULL ? plan_known(loader, top) : "");
        return BL_EINVAL;
    }
    int code = bl_plan_repository(loader->arena, folder, &plan->repository, error);
    if (code != 0)
        return code;
    plan->path =
        bl_arena_printf(loader->arena, "%s%s", strcmp(folder, "/") == 0 ? "" : folder, slash).data;
    loader->file.name = relative_to(plan->repository, plan->path);
    return 0;
}

int plan_find(struct plan_loader *loader, struct bl_error *error)
{
    bool id = plan_id_valid(bl_text_from(loader->options->name));

    return id ? plan_find_by_id(loader, error) : find_by_path(loader, error);
}

/* ---- Names for the store --------------------------------------------------------------------- */

/* Returns the file's name without its extension. */
static const char *stem_of(struct bl_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct bl_text name = bl_text_from(slash != NULL ? slash + 1 : path);

    for (size_t i = 0; i < BL_COUNT(endings); i++) {
        if (bl_text_ends_with(name, bl_text_from(endings[i])))
            name.size -= strlen(endings[i]);
    }
    return bl_arena_text(arena, name).data;
}

const char *bl_plan_name_id(struct bl_arena *arena, const char *directory, const char *name)
{
    const struct bl_json_limits limits = {.size_max = PLAN_SIZE_MAX,
                                          .depth_max = PLAN_DEPTH_MAX,
                                          .aliases_max = PLAN_ALIASES_MAX,
                                          .keep_scalars = true,
                                          .keep_duplicates = true};
    struct bl_document document;
    struct bl_buffer source;
    const char *why, *id = NULL;

    if (plan_id_valid(bl_text_from(name)))
        return bl_arena_text(arena, bl_text_from(name)).data;
    const char *path =
        name[0] == '/' ? name : bl_arena_printf(arena, "%s/%s", directory, name).data;
    if (bl_file_load(path, PLAN_SIZE_MAX, &source, &why) == 0 &&
        bl_document_read(arena, bl_buffer_text(&source), &limits, &document, NULL) == 0) {
        struct bl_text said = bl_json_text(bl_json_get(document.root, BL_TEXT("id")));
        if (plan_id_valid(said))
            id = said.data;
    }
    bl_buffer_done(&source);
    return id != NULL ? id : stem_of(arena, path);
}
