/* Cleaning up after a feature: removes branches and worktrees that are merged, clean and unused. */
#include "feature/parts.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPERATION        "clean up"
#define BRANCHES         "refs/heads/belay/"
#define RESULT           "_result"
#define FOLDER_DEPTH_MAX 256
#define MEASURE_NS_MAX   (30 * BL_NS_PER_S)

struct cleaning {
    struct bl_arena *arena;
    struct git_repository *git;
    const char *feature;
    const char *prefix;  /* prefix of its branches */
    const char *folder;  /* folder of its worktrees, with a slash */
    struct bl_list rows; /* struct bl_row */
    struct bl_store_owner owner;
    struct bl_list refs;      /* struct git_ref */
    struct bl_list worktrees; /* struct git_worktree */
    char result[GIT_ID_SIZE]; /* empty: none */
    char kept_in[GIT_ID_SIZE];
    bool dry_run;
    size_t kept;
    struct bl_list *items;
};

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* On a worker thread. */
struct measure {
    char *path;
    uint64_t bytes;
};

static void measure_inside(struct measure *measure, int folder, int depth)
{
    DIR *entries = folder >= 0 ? fdopendir(folder) : NULL;
    struct dirent *entry;
    if (entries == NULL) {
        if (folder >= 0)
            close(folder);
        return;
    }
    while ((entry = readdir(entries)) != NULL) {
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(entries), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISREG(status.st_mode))
            measure->bytes += (uint64_t)status.st_size;
        else if (S_ISDIR(status.st_mode) && depth < FOLDER_DEPTH_MAX)
            measure_inside(measure,
                           openat(dirfd(entries), entry->d_name,
                                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                           depth + 1);
    }
    closedir(entries);
}

static void measure_run(void *payload)
{
    struct measure *measure = payload;
    measure_inside(measure, open(measure->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                   0);
}

static void measure_drop(void *payload)
{
    struct measure *measure = payload;
    bl_free(measure->path);
    bl_free(measure);
}

static uint64_t folder_bytes(const char *path)
{
    struct measure *measure = bl_zalloc(sizeof *measure);
    struct bl_work work = {.run = measure_run, .drop = measure_drop, .payload = measure};
    bool abandoned = false;
    uint64_t bytes = 0;
    struct bl_scope shield;
    measure->path = bl_alloc(strlen(path) + 1);
    memcpy(measure->path, path, strlen(path) + 1);
    bl_shield_begin(&shield, MEASURE_NS_MAX);
    bl_work_call(&work, &abandoned);
    bl_shield_end(&shield);
    if (!abandoned) {
        bytes = measure->bytes;
        measure_drop(measure);
    }
    return bytes;
}

/* ---- State ----------------------------------------------------------------------------------- */

/* Returns the number after a word in a note ("… pid 4711 …"), or 0. */
static int64_t number_after(const char *note, const char *word)
{
    struct bl_text rest = bl_text_from(note), part;
    bool next = false;
    int64_t number;
    while (bl_text_split(&rest, ' ', &part)) {
        if (next)
            return bl_text_to_int64(part, &number) == 0 ? number : 0;
        next = bl_text_equal(part, bl_text_from(word));
    }
    return 0;
}

/* Returns the pid of the runner named in the lock if it is alive, else 0. */
static int64_t live_owner(const struct git_worktree *worktree)
{
    int64_t pid = worktree->note != NULL ? number_after(worktree->note, "pid") : 0;
    int64_t started = pid > 0 ? number_after(worktree->note, "started") : 0;
    return started > 0 && bl_store_process_alive(pid, started) > 0 ? pid : 0;
}

/* Returns whether a live runner still needs this task: it has not ended, or waits for its merge. */
static bool is_needed(struct cleaning *cleaning, const char *task)
{
    if (cleaning->owner.life != BL_OWNER_ALIVE && cleaning->owner.life != BL_OWNER_OUT_OF_SIGHT)
        return false;
    const char *name = bl_arena_printf(cleaning->arena, "task/%s", task).data;
    BL_LIST_EACH (link, &cleaning->rows) {
        struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        const struct bl_json *value;
        struct bl_task_row row;
        if (strcmp(record->name, name) != 0 ||
            bl_json_read(cleaning->arena, record->json, NULL, &value, NULL) != 0)
            continue;
        bl_record_take(cleaning->arena, &task_row_record, value, &row);
        return !bl_task_state_final(row.state);
    }
    return false;
}

static struct git_ref *find_ref(struct cleaning *cleaning, const char *name)
{
    BL_LIST_EACH (link, &cleaning->refs) {
        struct git_ref *ref = BL_CONTAINER(link, struct git_ref, link);
        if (strcmp(ref->name, name) == 0)
            return ref;
    }
    return NULL;
}

static bool is_merged(struct cleaning *cleaning, const char *commit)
{
    return (cleaning->result[0] != '\0' &&
            git_is_ancestor(cleaning->git, commit, cleaning->result)) ||
           (cleaning->result[0] == '\0' && cleaning->kept_in[0] != '\0' &&
            git_is_ancestor(cleaning->git, commit, cleaning->kept_in));
}

/* ---- One worktree, one branch ---------------------------------------------------------------- */

static const char *owner_reason(struct cleaning *cleaning, const struct git_worktree *worktree,
                                const char *task)
{
    int64_t pid = worktree != NULL ? live_owner(worktree) : 0;
    if (pid > 0)
        return bl_arena_printf(cleaning->arena, "in use by pid %" PRId64, pid).data;
    if (!is_needed(cleaning, task))
        return NULL;
    return cleaning->owner.life == BL_OWNER_ALIVE
               ? bl_arena_printf(cleaning->arena, "in use by pid %" PRId64, cleaning->owner.pid)
                     .data
               : bl_arena_printf(cleaning->arena, "in use by %s", cleaning->owner.text).data;
}

/* Sets `*ret_reason` to why a worktree must stay, or to NULL if removing it loses nothing. */
static int worktree_reason(struct cleaning *cleaning, const struct git_worktree *worktree,
                           const char **ret_reason, struct bl_error *error)
{
    struct git_state state;
    *ret_reason = NULL;
    if (access(worktree->path, F_OK) != 0)
        return 0; /* only git's record of it is left */
    int code = git_state_read(cleaning->git, cleaning->arena, worktree->path, &state, error);
    if (code != 0)
        return code;
    if (state.merging || state.file_count > state.untracked_count)
        *ret_reason = "uncommitted changes";
    else if (state.untracked_count > 0)
        *ret_reason = "untracked files";
    else if (state.head[0] == '\0' || !is_merged(cleaning, state.head))
        *ret_reason = "not merged";
    return 0;
}

static int remove_item(struct cleaning *cleaning, const struct git_worktree *worktree,
                       const struct git_ref *ref, struct bl_error *error)
{
    int code = 0;
    if (cleaning->dry_run)
        return 0;
    if (worktree != NULL)
        code = git_worktree_remove(cleaning->git, worktree->path, error);
    if (code == 0 && ref != NULL)
        code = git_ref_swap(cleaning->git, ref->name, ref->id, NULL, "belay: cleaned up", error);
    return code;
}

/* Removes an item. If git refuses, the item stays, with git's message as the reason. */
static int settle_item(struct cleaning *cleaning, struct bl_clean_item *item,
                       const struct git_worktree *worktree, const struct git_ref *ref)
{
    struct bl_error refused = {0};
    int code = item->reason == NULL ? remove_item(cleaning, worktree, ref, &refused) : 0;
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return code;
    if (code != 0)
        item->reason =
            bl_arena_printf(cleaning->arena, "git refused: %s",
                            refused.message[0] != '\0' ? refused.message : bl_error_text(code))
                .data;
    item->removed = item->reason == NULL;
    cleaning->kept += !item->removed;
    bl_list_push_back(cleaning->items, &item->link);
    return 0;
}

static int clean_one(struct cleaning *cleaning, const char *task,
                     const struct git_worktree *worktree, struct bl_error *error)
{
    struct bl_clean_item *item = bl_arena_zalloc(cleaning->arena, sizeof *item);
    const struct git_ref *ref =
        find_ref(cleaning, bl_arena_printf(cleaning->arena, "%s%s", cleaning->prefix, task).data);
    item->task = task;
    item->branch = ref != NULL ? ref->name : NULL;
    item->worktree = worktree != NULL ? worktree->path : NULL;
    item->bytes = worktree != NULL ? folder_bytes(worktree->path) : 0;
    item->reason = owner_reason(cleaning, worktree, task);
    int code = 0;
    if (item->reason == NULL && worktree != NULL)
        code = worktree_reason(cleaning, worktree, &item->reason, error);
    if (code == 0 && item->reason == NULL && ref != NULL && !is_merged(cleaning, ref->id))
        item->reason = "not merged";
    return code != 0 ? code : settle_item(cleaning, item, worktree, ref);
}

/* ---- Cleaning -------------------------------------------------------------------------------- */

static bool has_worktree(struct cleaning *cleaning, const char *task)
{
    const char *path = bl_arena_printf(cleaning->arena, "%s%s", cleaning->folder, task).data;
    BL_LIST_EACH (link, &cleaning->worktrees)
        if (strcmp(BL_CONTAINER(link, struct git_worktree, link)->path, path) == 0)
            return true;
    return false;
}

static int clean_tasks(struct cleaning *cleaning, struct bl_error *error)
{
    int code = 0;
    size_t folder_size = strlen(cleaning->folder), prefix_size = strlen(cleaning->prefix);
    BL_LIST_EACH (link, &cleaning->worktrees) {
        struct git_worktree *worktree = BL_CONTAINER(link, struct git_worktree, link);
        if (code == 0 && strncmp(worktree->path, cleaning->folder, folder_size) == 0)
            code = clean_one(cleaning, worktree->path + folder_size, worktree, error);
    }
    BL_LIST_EACH (link, &cleaning->refs) {
        struct git_ref *ref = BL_CONTAINER(link, struct git_ref, link);
        const char *task = ref->name + prefix_size;
        if (code == 0 && strcmp(task, RESULT) != 0 && !has_worktree(cleaning, task))
            code = clean_one(cleaning, task, NULL, error);
    }
    return code;
}

/* Removes the result branch if a branch of the user contains it and no kept task builds on it: a
 * later wave would start from it. */
static int clean_result(struct cleaning *cleaning, struct bl_error *error)
{
    const struct git_ref *ref =
        find_ref(cleaning, bl_arena_printf(cleaning->arena, "%s" RESULT, cleaning->prefix).data);
    char keeper[GIT_ID_SIZE];
    if (ref == NULL)
        return 0;
    struct bl_clean_item *item = bl_arena_zalloc(cleaning->arena, sizeof *item);
    item->branch = ref->name;
    int code = git_keeper_find(cleaning->git, cleaning->arena, ref->id, BRANCHES, keeper, error);
    if (code != 0)
        return code;
    if (cleaning->owner.life == BL_OWNER_ALIVE)
        item->reason =
            bl_arena_printf(cleaning->arena, "in use by pid %" PRId64, cleaning->owner.pid).data;
    else if (cleaning->owner.life == BL_OWNER_OUT_OF_SIGHT)
        item->reason = bl_arena_printf(cleaning->arena, "in use by %s", cleaning->owner.text).data;
    else if (keeper[0] == '\0')
        item->reason =
            bl_arena_printf(cleaning->arena, "not merged into any of your branches: git merge %s",
                            ref->name + strlen("refs/heads/"))
                .data;
    else if (cleaning->kept > 0)
        item->reason = "kept tasks build on it";
    return settle_item(cleaning, item, NULL, ref);
}

static int run_clean_list(struct cleaning *cleaning, struct bl_error *error)
{
    int code =
        git_refs_list(cleaning->git, cleaning->arena, cleaning->prefix, &cleaning->refs, error);
    if (code != 0)
        return code;
    git_worktrees_list(cleaning->git, cleaning->arena, &cleaning->worktrees);
    const struct git_ref *result =
        find_ref(cleaning, bl_arena_printf(cleaning->arena, "%s" RESULT, cleaning->prefix).data);
    if (result != NULL)
        bl_text_into(cleaning->result, sizeof cleaning->result, result->id);
    else /* cleaned before: its commits are in the user's branch */
        git_commit_find(cleaning->git, "HEAD", cleaning->kept_in, NULL);
    return bl_check();
}

int bl_feature_clean(struct bl_store *store, struct bl_arena *arena, const char *repository,
                     const char *id, bool dry_run, struct bl_list *ret_items,
                     struct bl_error *error)
{
    struct cleaning *cleaning = bl_arena_zalloc(arena, sizeof *cleaning);
    *cleaning = (struct cleaning){
        .arena = arena,
        .feature = id,
        .prefix = bl_arena_printf(arena, BRANCHES "%s/", id).data,
        .folder = bl_arena_printf(arena, "%s/.belay/worktrees/%s/", repository, id).data,
        .dry_run = dry_run,
        .items = ret_items,
    };
    bl_list_init(ret_items);
    int code = bl_store_feature_load(store, arena, repository, id, "task/", &cleaning->rows,
                                     &cleaning->owner, NULL, error);
    if (code == 0)
        code = git_open(repository, &cleaning->git, error);
    if (code != 0)
        return code;
    code = run_clean_list(cleaning, error);
    if (code == 0)
        code = clean_tasks(cleaning, error);
    if (code == 0)
        code = clean_result(cleaning, error);
    git_close(cleaning->git);
    return code;
}
