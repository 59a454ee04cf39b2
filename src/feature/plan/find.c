#include "plan.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPERATION "find the feature"
/* Of a folder of features: the rest is not looked at. */
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

/* Links resolved, in the arena; NULL: it is not there. */
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
        /* A worktree has a file there, a clone a folder. */
        const char *mark = bl_arena_printf(arena, "%.*s/.git", (int)end, real).data;
        struct stat status;
        if (stat(mark, &status) == 0 && (S_ISDIR(status.st_mode) || S_ISREG(status.st_mode))) {
            *ret_repository = bl_arena_text(arena, (struct bl_text){real, end}).data;
            return 0;
        }
    }
    bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, OPERATION, directory,
                 "%s is in no git repository", directory);
    bl_error_hint(error, "features work on a repository: go into one, or make one with git init");
    return BL_ENOENT;
}

/* ---- Ids that there are ---------------------------------------------------------------------- */

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

static const char *suggest_ids(struct plan_loader *loader, const char *repository, const char *name)
{
    struct ids ids = {loader->arena,
                      bl_arena_alloc(loader->arena, (ENTRIES_MAX + 1) * sizeof *ids.names), 0};

    for (size_t i = 0; repository != NULL && i < BL_COUNT(folders); i++)
        plan_find_list_folder(&ids,
                              bl_arena_printf(loader->arena, "%s/%s", repository, folders[i]).data);
    qsort(ids.names, ids.count, sizeof *ids.names, plan_find_compare_names);
    return plan_suggest(loader, name, ids.names, ids.count);
}

/* ---- Finding --------------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0;
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
            if (exists(bl_arena_printf(loader->arena, "%s/%s", plan->repository, name).data))
                found[count++] = name;
        }
    }
    if (count == 0) {
        plan_fault_line(loader, id, 0, "E01",
                        "there is no feature %s: neither %s/%s.yaml nor %s/%s.yaml is there in "
                        "%s.%s",
                        id, folders[0], id, folders[1], id, plan->repository,
                        suggest_ids(loader, plan->repository, id));
        return BL_EINVAL;
    }
    loader->file.name = found[0];
    plan->path = bl_arena_printf(loader->arena, "%s/%s", plan->repository, found[0]).data;
    for (size_t i = 1; i < count; i++)
        plan_fault_line(loader, found[0], 1, "E01",
                        "the feature is there twice, as %s and as %s: remove one of them, or name "
                        "it by its path",
                        found[0], found[i]);
    return count > 1 ? BL_EINVAL : 0;
}

/* What errors call a file: its path from the repository's top. */
static const char *relative_to(const char *repository, const char *path)
{
    size_t size = strlen(repository);

    return strncmp(path, repository, size) == 0 && path[size] == '/' ? path + size + 1 : path;
}

/* A path whose folder has its links resolved: the repository is that of the name, also when the
 * file itself is a link. */
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

    if (folder == NULL || !exists(path)) {
        const char *why = errno == EACCES ? "it may not be looked at"
                                          : "a feature is named by its id or by a path";
        const char *here = NULL;
        bl_plan_repository(loader->arena, loader->options->directory, &here, NULL);
        plan_fault_line(loader, name, 0, "E01", "there is no such file: %s.%s", why,
                        suggest_ids(loader, here, slash[1] != '\0' ? slash + 1 : name));
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

/* The file's name without its ending. */
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
