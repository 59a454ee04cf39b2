/* /diff: the changes in the workspace since the last commit. */
#include <belay/git.h>

#include "cli/chat/state.h"

#define CHANGES_LINES     300u
#define CHANGES_UNTRACKED 20u
#define OPERATION         "show the changes"

struct changes {
    struct chat *chat;
    struct bl_arena *arena;
    struct bl_git git;
    struct bl_git_call call;
    size_t lines;
    size_t left_out;
};

/* Runs git. Returns 0 and its output, or BL_EREFUSED and an error with git's message. */
static int changes_git(struct changes *changes, const char *const *arguments,
                       struct bl_text *ret_text, struct bl_error *error)
{
    struct bl_git_answer answer;
    int code = bl_git_run(&changes->git, changes->arena, &changes->call, arguments, &answer, error);

    if (code == 0 && answer.status != 0)
        code = bl_git_refuse(&changes->call, &answer, error);
    if (code == 0)
        *ret_text = answer.output;
    return code;
}

/* Finds the repository; only then may git read its configuration. */
static int changes_open(struct changes *changes, struct bl_error *error)
{
    struct bl_text said = {0}, top = {0}, folder = {0};

    int code =
        changes_git(changes, BL_GIT_ARGUMENTS("rev-parse", "--show-toplevel", "--absolute-git-dir"),
                    &said, error);
    if (code != 0)
        return code;
    bl_text_split(&said, '\n', &top);
    bl_text_split(&said, '\n', &folder);
    changes->call.directory = bl_arena_text(changes->arena, top).data;
    changes->call.folder = bl_arena_text(changes->arena, folder).data;
    return 0;
}

static const struct text_style *changes_style(struct bl_text line)
{
    static const struct text_style head = {.bold = true}, place = {.colour = TEXT_CYAN},
                                   added = {.colour = TEXT_GREEN}, removed = {.colour = TEXT_RED},
                                   same = {0};
    static const char *const heads[] = {"diff --git ", "index ",        "--- ",        "+++ ",
                                        "new file ",   "deleted file ", "similarity ", "rename "};

    for (size_t i = 0; i < BL_COUNT(heads); i++) {
        if (bl_text_starts_with(line, bl_text_from(heads[i])))
            return &head;
    }
    switch (line.size > 0 ? line.data[0] : ' ') {
    case '+': return &added;
    case '-': return &removed;
    case '@': return &place;
    default: return &same;
    }
}

static void changes_show(struct changes *changes, struct bl_text diff)
{
    struct bl_text line;

    while (bl_text_split(&diff, '\n', &line)) {
        if (changes->lines++ >= CHANGES_LINES)
            changes->left_out++;
        else if (changes->chat->view != NULL)
            chat_view_line(changes->chat->view, line, changes_style(line));
        else
            chat_say(changes->chat, BL_TEXT_FORMAT, BL_TEXT_ARG(line));
    }
    if (changes->left_out > 0)
        chat_say(changes->chat, "… %zu more lines; git diff HEAD shows all of them",
                 changes->left_out);
}

static void changes_show_untracked(struct changes *changes, struct bl_text names)
{
    size_t count = 0;
    struct bl_text name;

    while (bl_text_split(&names, '\0', &name)) {
        if (name.size > 0 && ++count <= CHANGES_UNTRACKED)
            chat_say_row(changes->chat, "untracked", BL_TEXT_FORMAT, BL_TEXT_ARG(name));
    }
    if (count > CHANGES_UNTRACKED)
        chat_say_row(changes->chat, "untracked", "… and %zu more", count - CHANGES_UNTRACKED);
    if (count == 0 && changes->lines == 0)
        chat_say(changes->chat, "no changes since the last commit");
}

static int changes_read(struct changes *changes, struct bl_error *error)
{
    const char *workspace = changes->chat->work.options->workspace.directory;
    struct bl_text diff = {0}, names = {0}, head;

    int code = changes_open(changes, error);
    if (code != 0)
        return code;
    /* Before the first commit, everything that is staged is new. */
    bool born = changes_git(changes, BL_GIT_ARGUMENTS("rev-parse", "--verify", "-q", "HEAD"), &head,
                            NULL) == 0;
    code = changes_git(changes,
                       born ? BL_GIT_ARGUMENTS("diff", "--no-color", "HEAD", "--", workspace)
                            : BL_GIT_ARGUMENTS("diff", "--no-color", "--cached", "--", workspace),
                       &diff, error);
    if (code == 0)
        code = changes_git(
            changes,
            BL_GIT_ARGUMENTS("ls-files", "-z", "--others", "--exclude-standard", "--", workspace),
            &names, error);
    if (code != 0)
        return code;
    changes_show(changes, diff);
    changes_show_untracked(changes, names);
    return 0;
}

/* Without a turn this is work that Esc stops; during a turn it is short enough. */
void chat_changes(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    BL_AUTO_ARENA(arena);
    struct changes changes = {.chat = chat, .arena = &arena};
    struct bl_scope *outer = NULL;
    bool alone = !chat->busy;

    if (alone) {
        chat_busy_begin(chat);
        outer = bl_scope_enter(&chat->scope);
    }
    bl_git_init(&changes.git);
    changes.call = (struct bl_git_call){.operation = OPERATION,
                                        .directory = chat->work.options->workspace.directory};
    int code = changes_read(&changes, error);
    bl_git_done(&changes.git);
    if (alone) {
        bl_scope_enter(outer);
        chat_busy_end(chat);
    }
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        chat_say(chat, "stopped");
    else if (code != 0)
        chat_say_error(chat, error);
    bl_free(error);
}
