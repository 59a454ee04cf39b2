#include "repository.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define LINKS_MAX        5 /* symbolic refs that are followed */
#define PACKED_SIZE_MAX  ((size_t)256 << 20)
#define DIFF_NOTE_SIZE   64
#define REPLACEMENT_SIZE 3

/* ---- Refs ------------------------------------------------------------------------------------ */

/* True if the name is safe to use as a path: it must stay in the git directory. */
static bool is_ref_name(const char *ref)
{
    struct bl_text name = bl_text_from(ref);
    return bl_text_starts_with(name, BL_TEXT("refs/")) && bl_text_find(name, BL_TEXT("..")) < 0 &&
           bl_text_find(name, BL_TEXT("//")) < 0 && bl_text_find(name, BL_TEXT("/.")) < 0 &&
           !bl_text_ends_with(name, BL_TEXT("/"));
}

/* Searches the lines "ID REF"; those that begin with '#' or '^' are not refs. */
static bool find_packed(struct git_repository *git, const char *ref, char ret_id[GIT_ID_SIZE])
{
    struct bl_arena arena = {0};
    struct bl_buffer bytes;
    const char *why;
    bool found = false;
    const char *path = git_text(&arena, "%s/packed-refs", git->folder);
    if (bl_file_load(path, PACKED_SIZE_MAX, &bytes, &why) == 0) {
        struct bl_text rest = bl_buffer_text(&bytes), line, name = bl_text_from(ref);
        while (!found && bl_text_split(&rest, '\n', &line)) {
            if (line.size != git->id_size + 1 + name.size || line.data[git->id_size] != ' ')
                continue;
            struct bl_text id = {line.data, git->id_size};
            line = (struct bl_text){line.data + git->id_size + 1, name.size};
            found = bl_text_equal(line, name) && git_id_take(git, id, ret_id);
        }
    }
    bl_buffer_done(&bytes);
    bl_arena_done(&arena);
    return found;
}

/* Finds a ref that is a file. Returns 0, BL_ENOENT, or BL_ENOTSUP if git must be run to find it. */
static int find_in_files(struct git_repository *git, struct bl_arena *arena, const char *ref,
                         char ret_id[GIT_ID_SIZE])
{
    static const struct bl_text symbolic = BL_TEXT("ref: ");
    for (int i = 0; i < LINKS_MAX; i++) {
        if (!is_ref_name(ref))
            return BL_ENOTSUP;
        struct bl_text text =
            bl_text_trim(git_file_read(arena, git_text(arena, "%s/%s", git->folder, ref)));
        if (text.size == 0)
            return find_packed(git, ref, ret_id) ? 0 : BL_ENOENT;
        if (!bl_text_starts_with(text, symbolic))
            return git_id_take(git, text, ret_id) ? 0 : BL_ENOTSUP;
        ref = git_text(arena, "%.*s", (int)(text.size - symbolic.size), text.data + symbolic.size);
    }
    return BL_ENOTSUP;
}

static int ask_for_commit(struct git_repository *git, struct bl_arena *arena, const char *revision,
                          char ret_id[GIT_ID_SIZE], struct bl_error *error)
{
    struct bl_git_call call = {
        .operation = "look up a commit", .directory = git->repository, .folder = git->own_folder};
    struct bl_git_answer answer;
    int code =
        bl_git_run(&git->runner, arena, &call,
                   BL_GIT_ARGUMENTS("rev-parse", "-q", "--verify", revision), &answer, error);
    if (code != 0)
        return code;
    if (answer.status == 0 && git_id_take(git, bl_text_trim(answer.output), ret_id))
        return 0;
    /* Git is silent about an unknown revision and reports any other failure. */
    if (answer.status == 1 || bl_text_trim(answer.words).size == 0)
        return BL_ENOENT;
    return bl_git_refuse(&call, &answer, error);
}

int git_ref_find(struct git_repository *git, const char *ref, char ret_id[GIT_ID_SIZE],
                 struct bl_error *error)
{
    struct bl_arena arena = {0};
    int code = git->plain_refs ? find_in_files(git, &arena, ref, ret_id) : BL_ENOTSUP;
    if (code == BL_ENOTSUP)
        code = ref[0] == '-' ? BL_ENOENT : ask_for_commit(git, &arena, ref, ret_id, error);
    bl_arena_done(&arena);
    return code;
}

int git_commit_find(struct git_repository *git, const char *revision, char ret_id[GIT_ID_SIZE],
                    struct bl_error *error)
{
    struct bl_arena arena = {0};
    /* A name that begins like an option is not a revision: git allows no such ref. */
    int code = BL_ENOENT;
    if (revision[0] != '-' && revision[0] != '\0')
        code =
            ask_for_commit(git, &arena, git_text(&arena, "%s^{commit}", revision), ret_id, error);
    if (code == BL_ENOENT) {
        bl_error_set(error, code, BL_KIND_FEATURE, "look up a commit", git->repository,
                     "no commit '%s'", git_shown(&arena, bl_text_from(revision)));
        bl_error_hint(error, "name a branch, a tag or a commit of this repository");
    }
    bl_arena_done(&arena);
    return code;
}

int git_refs_list(struct git_repository *git, struct bl_arena *arena, const char *prefix,
                  struct bl_list *ret_refs, struct bl_error *error)
{
    struct bl_git_call call = {
        .operation = "list branches", .directory = git->repository, .folder = git->own_folder};
    struct bl_git_answer answer;
    struct bl_text line;
    bl_list_init(ret_refs);
    int code =
        bl_git_run(&git->runner, arena, &call,
                   BL_GIT_ARGUMENTS("for-each-ref", "--format=%(objectname) %(refname)", prefix),
                   &answer, error);
    if (code != 0)
        return code;
    if (answer.status != 0)
        return bl_git_refuse(&call, &answer, error);
    while (bl_text_split(&answer.output, '\n', &line)) {
        struct bl_text id;
        struct git_ref *ref = bl_arena_zalloc(arena, sizeof *ref);
        if (!bl_text_split(&line, ' ', &id) || !git_id_take(git, id, ref->id))
            continue;
        ref->name = bl_arena_text(arena, line).data;
        bl_list_push_back(ret_refs, &ref->link);
    }
    return 0;
}

bool git_is_ancestor(struct git_repository *git, const char *ancestor, const char *of)
{
    struct bl_arena arena = {0};
    struct bl_git_call call = {
        .operation = "compare commits", .directory = git->repository, .folder = git->own_folder};
    struct bl_git_answer answer = {.status = 1};
    if (strcmp(ancestor, of) == 0)
        return true;
    if (ancestor[0] == '-' || of[0] == '-')
        return false;
    int code =
        bl_git_run(&git->runner, &arena, &call,
                   BL_GIT_ARGUMENTS("merge-base", "--is-ancestor", ancestor, of), &answer, NULL);
    bl_arena_done(&arena);
    return code == 0 && answer.status == 0;
}

/* ---- Work trees ------------------------------------------------------------------------------ */

/* Returns the rest of a record after `fields` fields: the path. */
static struct bl_text after_fields(struct bl_text record, int fields)
{
    struct bl_text field;
    while (fields-- > 0 && bl_text_split(&record, ' ', &field))
        continue;
    return record;
}

static void git_read_take_header(struct git_repository *git, struct bl_arena *arena,
                                 struct bl_text record, struct git_status *status)
{
    static const struct bl_text oid = BL_TEXT("# branch.oid "), head = BL_TEXT("# branch.head ");
    if (bl_text_starts_with(record, oid))
        git_id_take(git, (struct bl_text){record.data + oid.size, record.size - oid.size},
                    status->head);
    struct bl_text name = {record.data + head.size, record.size - head.size};
    if (bl_text_starts_with(record, head) && !bl_text_equal(name, BL_TEXT("(detached)")))
        status->branch = git_text(arena, "refs/heads/" BL_TEXT_FORMAT, BL_TEXT_ARG(name));
}

static bool take_entry(struct bl_text record, struct git_entry *entry)
{
    static const struct {
        char kind;
        int fields;
    } kinds[] = {{'1', 8}, {'2', 9}, {'u', 10}, {'?', 1}};
    for (size_t i = 0; i < BL_COUNT(kinds); i++) {
        if (record.data[0] != kinds[i].kind)
            continue;
        struct bl_text path = after_fields(record, kinds[i].fields);
        *entry = (struct git_entry){
            .kind = kinds[i].kind,
            .nested = kinds[i].kind == '?' && bl_text_ends_with(path, BL_TEXT("/")),
            .path = path.data,
        };
        return path.size > 0;
    }
    return false;
}

/* Takes the records of the output. Paths are not copied: they end in the NUL of their record. */
static void take_records(struct git_repository *git, struct bl_arena *arena, struct bl_text output,
                         struct git_status *status)
{
    struct bl_text rest = output, record;
    size_t records = 0;
    if (status->cut) /* the last record is incomplete */
        while (rest.size > 0 && rest.data[rest.size - 1] != '\0')
            rest.size--;
    for (size_t i = 0; i < rest.size; i++)
        records += rest.data[i] == '\0';
    status->entries = bl_arena_alloc(arena, (records + 1) * sizeof *status->entries);
    while (git_part_next(&rest, &record)) {
        if (record.size < 2)
            continue;
        if (record.data[0] == '#') {
            git_read_take_header(git, arena, record, status);
        } else if (take_entry(record, &status->entries[status->count])) {
            status->count++;
            if (record.data[0] == '2') /* skip the original path of a rename */
                git_part_next(&rest, &record);
        }
    }
}

int git_status_read(struct git_repository *git, struct bl_arena *arena, const char *worktree,
                    struct git_status *ret_status, struct bl_error *error)
{
    struct bl_git_call call = {.operation = "read the state of a work tree", .directory = worktree};
    struct bl_git_answer answer;
    *ret_status = (struct git_status){0};
    if (git_folder_find(git, arena, worktree, &call.folder) != 0)
        return bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, call.operation, worktree,
                            "not a work tree of this repository");
    ret_status->folder = call.folder;
    if (git_sight_holds(git, worktree, call.folder, &ret_status->branch, ret_status->head))
        return 0;
    ret_status->looked = git_sight_look(git, worktree, call.folder, &ret_status->look);
    int code = bl_git_run(&git->runner, arena, &call,
                          BL_GIT_ARGUMENTS("status", "--porcelain=v2", "--branch", "-z",
                                           "--untracked-files=all", "--ignore-submodules=dirty",
                                           "--no-renames", "--no-ahead-behind"),
                          &answer, error);
    if (code != 0)
        return code;
    if (answer.status != 0 && !answer.cut)
        return bl_git_refuse(&call, &answer, error);
    ret_status->cut = answer.cut;
    take_records(git, arena, answer.output, ret_status);
    ret_status->merging = access(git_text(arena, "%s/MERGE_HEAD", call.folder), F_OK) == 0;
    if (ret_status->looked && ret_status->count == 0 && !answer.cut && !ret_status->merging &&
        ret_status->branch != NULL && ret_status->head[0] != '\0')
        git_sight_keep(git, worktree, call.folder, &ret_status->look, false, ret_status->head,
                       ret_status->branch);
    return 0;
}

int git_state_read(struct git_repository *git, struct bl_arena *arena, const char *worktree,
                   struct git_state *ret_state, struct bl_error *error)
{
    struct git_status status;
    int code = git_status_read(git, arena, worktree, &status, error);
    if (code != 0)
        return code;
    size_t listed = status.count < GIT_FILES_MAX ? status.count : GIT_FILES_MAX;
    const char **files = bl_arena_alloc(arena, (listed + 1) * sizeof *files);
    *ret_state = (struct git_state){
        .branch = status.branch,
        .files = files,
        .file_count = status.count,
        .merging = status.merging,
    };
    bl_text_into(ret_state->head, sizeof ret_state->head, status.head);
    for (size_t i = 0; i < status.count; i++) {
        ret_state->untracked_count += status.entries[i].kind == '?';
        ret_state->unmerged_count += status.entries[i].kind == 'u';
        if (i < listed)
            files[i] = status.entries[i].path;
    }
    files[listed] = NULL;
    return 0;
}

/* ---- Differences ----------------------------------------------------------------------------- */

int git_changed_paths(struct git_repository *git, struct bl_arena *arena, const char *from,
                      const char *to, const char *const **ret_paths, struct bl_error *error)
{
    struct bl_git_call call = {
        .operation = "compare commits", .directory = git->repository, .folder = git->own_folder};
    struct bl_git_answer answer = {0};
    size_t count = 0;
    if (strcmp(from, to) != 0) {
        int code =
            bl_git_run(&git->runner, arena, &call,
                       BL_GIT_ARGUMENTS("diff-tree", "-r", "-z", "--name-only", "--no-renames",
                                        "--ignore-submodules=none", from, to),
                       &answer, error);
        if (code != 0)
            return code;
        if (answer.status != 0)
            return bl_git_refuse(&call, &answer, error);
    }
    for (size_t i = 0; i < answer.output.size; i++)
        count += answer.output.data[i] == '\0';
    const char **paths = bl_arena_alloc(arena, (count + 1) * sizeof *paths);
    count = 0;
    for (struct bl_text part; git_part_next(&answer.output, &part);)
        if (part.size > 0)
            paths[count++] = part.data;
    paths[count] = NULL;
    *ret_paths = paths;
    return 0;
}

/* Appends at most `size_max` bytes; invalid UTF-8 becomes U+FFFD. `*ret_used` is the number of
 * input bytes that were used. */
static void put_valid(struct bl_text text, size_t size_max, struct bl_buffer *out, size_t *ret_used)
{
    size_t used = 0;
    while (used < text.size && out->size < size_max) {
        struct bl_text rest = {text.data + used, text.size - used};
        size_t valid = bl_utf8_valid_prefix(rest, NULL);
        struct bl_text piece =
            bl_utf8_cut((struct bl_text){rest.data, valid}, size_max - out->size);
        bl_buffer_append(out, piece);
        used += piece.size;
        if (piece.size < valid || valid == rest.size)
            break;
        if (out->size + REPLACEMENT_SIZE > size_max)
            break;
        bl_buffer_append(out, BL_TEXT("\xEF\xBF\xBD"));
        used++;
    }
    *ret_used = used;
}

int git_diff_text(struct git_repository *git, struct bl_arena *arena, const char *from,
                  const char *to, size_t size_max, struct bl_text *ret_text, struct bl_error *error)
{
    struct bl_git_call call = {
        .operation = "compare commits", .directory = git->repository, .folder = git->own_folder};
    struct bl_arena own = {0};
    struct bl_git_answer answer = {0};
    struct bl_buffer out;
    size_t used;
    int code = 0;
    if (strcmp(from, to) != 0)
        code = bl_git_run(&git->runner, &own, &call,
                          BL_GIT_ARGUMENTS("diff-tree", "-r", "-p", "--stat=100", "--no-color",
                                           "--find-renames", from, to),
                          &answer, error);
    if (code == 0 && answer.status != 0 && !answer.cut)
        code = bl_git_refuse(&call, &answer, error);
    if (code == 0) {
        bl_buffer_init(&out, size_max);
        put_valid(answer.output, size_max, &out, &used);
        if (used < answer.output.size && size_max > DIFF_NOTE_SIZE) {
            bl_buffer_clear(&out);
            put_valid(answer.output, size_max - DIFF_NOTE_SIZE, &out, &used);
            bl_buffer_printf(&out, "\n… %s%zu more bytes\n", answer.cut ? "at least " : "",
                             answer.output.size - used);
        }
        *ret_text = bl_arena_text(arena, bl_buffer_text(&out));
        bl_buffer_done(&out);
    }
    bl_arena_done(&own);
    return code;
}

int git_keeper_find(struct git_repository *git, struct bl_arena *arena, const char *commit,
                    const char *except, char ret_id[GIT_ID_SIZE], struct bl_error *error)
{
    struct bl_git_call call = {.operation = "find branches that contain a commit",
                               .directory = git->repository,
                               .folder = git->own_folder};
    struct bl_git_answer answer;
    struct bl_text line, id;
    ret_id[0] = '\0';
    int code = bl_git_run(&git->runner, arena, &call,
                          BL_GIT_ARGUMENTS("for-each-ref", "--format=%(objectname) %(refname)",
                                           "--contains", commit, "refs/heads", "refs/remotes"),
                          &answer, error);
    if (code != 0)
        return code;
    if (answer.status != 0)
        return bl_git_refuse(&call, &answer, error);
    while (bl_text_split(&answer.output, '\n', &line))
        if (bl_text_split(&line, ' ', &id) && !bl_text_starts_with(line, bl_text_from(except)) &&
            git_id_take(git, id, ret_id))
            return 0;
    return 0;
}
