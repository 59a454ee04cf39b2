#include "repository.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPERATION   "commit the work"
#define LARGEST_MAX 5 /* files that are named */
#define MARKER_SIZE 7
#define MARKED_MAX  20 /* files with conflict markers that are named */
/* A larger file is not text that a person merges by hand. */
#define MARKED_FILE_MAX ((size_t)16 << 20)

/* ---- Size ------------------------------------------------------------------------------------ */

/* The size of a change. */
struct extent {
    uint64_t bytes;
    size_t files;
    struct {
        uint64_t bytes;
        const char *path;
    } largest[LARGEST_MAX]; /* largest first */
};

static void commit_measure(struct extent *extent, const char *worktree, const char *path)
{
    struct stat status;
    struct bl_arena arena = {0};
    extent->files++;
    bool file =
        lstat(git_text(&arena, "%s/%s", worktree, path), &status) == 0 && S_ISREG(status.st_mode);
    bl_arena_done(&arena);
    if (!file)
        return;
    uint64_t bytes = (uint64_t)status.st_size;
    extent->bytes += bytes;
    for (size_t i = 0; i < LARGEST_MAX; i++) {
        if (extent->largest[i].path != NULL && extent->largest[i].bytes >= bytes)
            continue;
        memmove(&extent->largest[i + 1], &extent->largest[i],
                (LARGEST_MAX - 1 - i) * sizeof extent->largest[0]);
        extent->largest[i].bytes = bytes;
        extent->largest[i].path = path;
        return;
    }
}

static bool is_too_large(const struct git_repository *git, const struct extent *extent)
{
    return extent->bytes > GIT_CHANGE_BYTES_MAX || extent->files > git->change_files_max;
}

/* ---- The work -------------------------------------------------------------------------------- */

/* A commit in progress. */
struct committing {
    struct git_repository *git;
    struct bl_arena *arena;
    const struct git_commit_order *order;
    struct git_commit_result *result;
    struct git_status status;
    bool untracked; /* there are untracked files */
    size_t nested;  /* nested repositories, which are left unchanged */
    struct bl_error *error;
};

static void commit_refuse(struct committing *committing, enum git_commit_end end, const char *why)
{
    committing->result->end = end;
    committing->result->why = bl_text_from(why);
}

static const char *commit_short_name(const char *ref)
{
    static const char prefix[] = "refs/heads/";
    return strncmp(ref, prefix, sizeof prefix - 1) == 0 ? ref + sizeof prefix - 1 : ref;
}

/* True if the worktree is on its branch. */
static bool check_branch(struct committing *committing)
{
    struct bl_arena *arena = committing->arena;
    const struct git_status *status = &committing->status;
    const char *branch = commit_short_name(committing->order->branch);
    if (status->branch != NULL && strcmp(status->branch, committing->order->branch) == 0 &&
        status->head[0] != '\0')
        return true;
    const char *where =
        status->head[0] == '\0' ? "on a branch without commits"
        : status->branch == NULL
            ? git_text(arena, "at %.12s (detached HEAD)", status->head)
            : git_text(arena, "on the branch %s",
                       git_shown(arena, bl_text_from(commit_short_name(status->branch))));
    commit_refuse(
        committing, GIT_COMMIT_MOVED,
        git_text(arena,
                 "The worktree is %s, but the work of this task belongs on %s. Nothing was "
                 "committed, and your files are unchanged. To recover, run 'git checkout %s' "
                 "(uncommitted changes are kept); if you committed elsewhere, then run 'git "
                 "merge %s'. Stay on that branch.",
                 where, branch, branch, status->head[0] == '\0' ? "that branch" : status->head));
    return false;
}

/* Returns 1 if the branch still contains the commits of earlier turns, else 0. */
static int check_history(struct committing *committing)
{
    const char *expected = committing->order->expected, *head = committing->status.head;
    if (git_is_ancestor(committing->git, expected, head))
        return 1;
    int code = bl_check();
    if (code != 0)
        return code;
    commit_refuse(
        committing, GIT_COMMIT_REWRITTEN,
        git_text(committing->arena,
                 "Commits of earlier turns were rewritten: %s is no longer part of the branch "
                 "%s (now at %.12s). Nothing was committed, and your files are unchanged. To "
                 "recover without losing changes, run 'git reset --soft %s'. Add new commits, and "
                 "do not amend or rebase commits from before this turn.",
                 expected, commit_short_name(committing->order->branch), head, expected));
    return 0;
}

static void refuse_size(struct committing *committing, const struct extent *extent)
{
    struct bl_arena *arena = committing->arena;
    BL_AUTO_BUFFER(text, (size_t)64 << 10);
    bl_buffer_printf(&text,
                     "The change is too large to commit: %zu files, %" PRIu64
                     " MiB (at most %zu files and %" PRIu64
                     " MiB). Nothing was committed. The largest: ",
                     extent->files, extent->bytes >> 20, committing->git->change_files_max,
                     GIT_CHANGE_BYTES_MAX >> 20);
    for (size_t i = 0; i < LARGEST_MAX && extent->largest[i].path != NULL; i++)
        bl_buffer_printf(&text, "%s%s (%" PRIu64 " KiB)", i > 0 ? ", " : "",
                         git_shown(arena, bl_text_from(extent->largest[i].path)),
                         extent->largest[i].bytes >> 10);
    bl_buffer_printf(&text, ". Remove generated or downloaded files, or add them to .gitignore");
    if (strcmp(committing->order->expected, committing->status.head) != 0)
        bl_buffer_printf(
            &text, "; to undo your own commits and keep their changes, run 'git reset --soft %s'",
            committing->order->expected);
    bl_buffer_append_byte(&text, '.');
    commit_refuse(committing, GIT_COMMIT_TOO_LARGE,
                  bl_arena_text(arena, bl_buffer_text(&text)).data);
}

/* Returns 1 if the change, with the Player's own commits, is within the limits, else 0. */
static int check_size(struct committing *committing)
{
    struct extent *extent = bl_arena_zalloc(committing->arena, sizeof *extent);
    const struct git_status *status = &committing->status;
    const char *const *paths = NULL;
    for (size_t i = 0; i < status->count; i++)
        if (!status->entries[i].nested)
            commit_measure(extent, committing->order->worktree, status->entries[i].path);
    if (strcmp(committing->order->expected, status->head) != 0) {
        int code =
            git_changed_paths(committing->git, committing->arena, committing->order->expected,
                              status->head, &paths, committing->error);
        if (code != 0)
            return code;
        for (; *paths != NULL; paths++)
            commit_measure(extent, committing->order->worktree, *paths);
    }
    if (!status->cut && !is_too_large(committing->git, extent))
        return 1;
    refuse_size(committing, extent);
    return 0;
}

/* ---- Conflict markers ------------------------------------------------------------------------ */

static bool is_marker(struct bl_text line, char byte)
{
    if (line.size < MARKER_SIZE)
        return false;
    for (size_t i = 0; i < MARKER_SIZE; i++)
        if (line.data[i] != byte)
            return false;
    return line.size == MARKER_SIZE || line.data[MARKER_SIZE] == ' ' ||
           line.data[MARKER_SIZE] == '\r';
}

/* True if the file has a line that opens a conflict, and a later one that ends it. */
static bool has_markers(struct committing *committing, const char *path)
{
    struct bl_buffer bytes;
    const char *why;
    struct stat status;
    const char *full = git_text(committing->arena, "%s/%s", committing->order->worktree, path);
    bool opened = false, closed = false;
    if (lstat(full, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    if (bl_file_load(full, MARKED_FILE_MAX, &bytes, &why) == 0) {
        struct bl_text rest = bl_buffer_text(&bytes), line;
        while (!closed && bl_text_split(&rest, '\n', &line)) {
            opened = opened || is_marker(line, '<');
            closed = opened && is_marker(line, '>');
        }
    }
    bl_buffer_done(&bytes);
    return closed;
}

/* Lists the conflicting paths that still have markers. The message that git prepared names the
 * paths even after they were added: "# Conflicts:", then a line "#", a tab and the path for each.
 */
static void each_conflict(struct committing *committing, struct bl_buffer *out, size_t *count)
{
    struct bl_arena *arena = committing->arena;
    struct bl_text text =
        git_file_read(arena, git_text(arena, "%s/MERGE_MSG", committing->status.folder));
    struct bl_text line;
    bool listed = false;
    while (bl_text_split(&text, '\n', &line)) {
        if (bl_text_equal(line, BL_TEXT("# Conflicts:")))
            listed = true;
        if (!listed || line.size < 3 || line.data[0] != '#' || line.data[1] != '\t')
            continue;
        struct bl_text path = {line.data + 2, line.size - 2};
        if (has_markers(committing, git_text(arena, BL_TEXT_FORMAT, BL_TEXT_ARG(path))) &&
            (*count)++ < MARKED_MAX)
            bl_buffer_printf(out, "%s%s", *count > 1 ? ", " : "", git_shown(arena, path));
    }
}

/* True if no conflict markers are left. */
static bool check_markers(struct committing *committing)
{
    BL_AUTO_BUFFER(text, (size_t)64 << 10);
    size_t count = 0;
    if (!committing->status.merging)
        return true;
    each_conflict(committing, &text, &count);
    /* A merge that another program began may have no such list. */
    for (size_t i = 0; count == 0 && i < committing->status.count; i++) {
        const struct git_entry *entry = &committing->status.entries[i];
        if (entry->kind == 'u' && has_markers(committing, entry->path)) {
            count++;
            bl_buffer_printf(&text, "%s", git_shown(committing->arena, bl_text_from(entry->path)));
        }
    }
    if (count > 0)
        commit_refuse(
            committing, GIT_COMMIT_UNRESOLVED,
            git_text(committing->arena,
                     "A merge is in progress, and conflict markers (<<<<<<< … >>>>>>>) are left "
                     "in %zu file%s: " BL_TEXT_FORMAT
                     ". Nothing was committed. Edit the files to keep the intent of both sides, "
                     "and remove the markers; belay then commits the merge.",
                     count, count == 1 ? "" : "s", BL_TEXT_ARG(text)));
    return count == 0;
}

/* ---- Committing ------------------------------------------------------------------------------ */

/* Returns the new files, each with a NUL. Excludes nested repositories: git would add them as
 * submodules, without their files. */
static struct bl_text new_files(struct committing *committing)
{
    BL_AUTO_BUFFER(out, BL_GIT_OUTPUT_MAX);
    for (size_t i = 0; i < committing->status.count; i++) {
        const struct git_entry *entry = &committing->status.entries[i];
        if (entry->kind == '?' && !entry->nested)
            bl_buffer_append(&out, (struct bl_text){entry->path, strlen(entry->path) + 1});
    }
    return bl_arena_text(committing->arena, bl_buffer_text(&out));
}

static int commit_run(struct committing *committing, struct git_write *write, struct bl_text input,
                      const char *const *arguments, struct bl_git_answer *ret_answer)
{
    struct bl_arena *arena = committing->arena;
    const char *folder = committing->status.folder;
    struct bl_git_call call = {.operation = OPERATION,
                               .directory = committing->order->worktree,
                               .folder = folder,
                               .input = input,
                               .writes = true};
    struct git_locks locks;
    git_locks_of(&locks, arena, committing->git, folder, committing->order->branch,
                 committing->order->worktree);
    int code =
        git_write_call(write, arena, &call, arguments, &locks, ret_answer, committing->error);
    /* For "nothing to commit", git exits with 1 and an empty standard error. */
    if (code == 0 && ret_answer->status != 0 &&
        !(ret_answer->status == 1 && bl_text_trim(ret_answer->words).size == 0))
        code = bl_git_refuse(&call, ret_answer, committing->error);
    return code;
}

static int git_commit(struct committing *committing, struct git_write *write)
{
    struct bl_git_answer answer = {0};
    int code = 0;
    /* Not with `git add`: that runs git inside every submodule, with the configuration there. */
    if (committing->untracked)
        code = commit_run(
            committing, write, new_files(committing),
            BL_GIT_ARGUMENTS("update-index", "--add", "--replace", "--remove", "-z", "--stdin"),
            &answer);
    if (code == 0)
        code = commit_run(committing, write, (struct bl_text){0},
                          BL_GIT_ARGUMENTS("commit", "-q", "--no-verify", "--cleanup=verbatim",
                                           "-a", "-m", committing->order->message),
                          &answer);
    bool made = answer.status == 0;
    /* The files match the commit and the index does not: a git that was killed between the two
     * steps leaves this state. */
    if (code == 0 && !made)
        code = commit_run(committing, write, (struct bl_text){0},
                          BL_GIT_ARGUMENTS("update-index", "--remove", "--again"), &answer);
    if (code != 0)
        return code;
    committing->result->end = made ? GIT_COMMIT_MADE : GIT_COMMIT_NONE;
    return git_ref_find(committing->git, committing->order->branch, committing->result->head,
                        committing->error);
}

/* True if there is anything to commit. Changes inside submodules and nested repositories do not
 * count. */
static bool has_changes(struct committing *committing)
{
    bool changes = committing->status.merging;
    for (size_t i = 0; i < committing->status.count; i++) {
        const struct git_entry *entry = &committing->status.entries[i];
        committing->nested += entry->nested;
        if (entry->nested)
            continue;
        changes = true;
        committing->untracked = committing->untracked || entry->kind == '?';
    }
    return changes;
}

static void report_nested(struct committing *committing)
{
    for (size_t i = 0; committing->nested > 0 && i < committing->status.count; i++)
        if (committing->status.entries[i].nested) {
            committing->result->why = bl_text_from(git_text(
                committing->arena,
                "%s is a nested git repository%s: its files are not part of the commit. "
                "Remove its .git folder if they belong to this work.",
                git_shown(committing->arena, bl_text_from(committing->status.entries[i].path)),
                committing->nested > 1 ? " (and there are more)" : ""));
            return;
        }
}

/* Records the worktree as clean if the commit contains all of it. */
static void keep_sight(struct committing *committing)
{
    const struct git_status *status = &committing->status;
    if (status->looked && !status->merging && committing->nested == 0)
        git_sight_keep(committing->git, committing->order->worktree, status->folder, &status->look,
                       true, committing->result->head, committing->order->branch);
}

static int check_and_commit(struct committing *committing)
{
    struct git_write write;
    if (!check_branch(committing))
        return 0;
    int code = check_history(committing);
    if (code == 1)
        code = check_size(committing);
    if (code != 1)
        return code;
    if (!check_markers(committing))
        return 0;
    committing->result->end = GIT_COMMIT_NONE;
    if (!has_changes(committing)) {
        report_nested(committing);
        return 0;
    }
    code = git_write_begin(&write, committing->git, OPERATION, committing->error);
    if (code != 0)
        return code;
    code = git_commit(committing, &write);
    git_write_end(&write);
    if (code == 0)
        report_nested(committing);
    if (code == 0 && committing->result->end == GIT_COMMIT_MADE)
        keep_sight(committing);
    return code;
}

int git_commit_all(struct git_repository *git, struct bl_arena *arena,
                   const struct git_commit_order *order, struct git_commit_result *ret_result,
                   struct bl_error *error)
{
    struct committing committing = {
        .git = git, .arena = arena, .order = order, .result = ret_result, .error = error};
    *ret_result = (struct git_commit_result){0};
    int code = git_status_read(git, arena, order->worktree, &committing.status, error);
    if (code != 0)
        return code;
    bl_text_into(ret_result->head, sizeof ret_result->head, committing.status.head);
    return check_and_commit(&committing);
}
