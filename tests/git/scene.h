/* A scratch repository, opened in a fiber: the setting for tests of git. */
#ifndef BELAY_TESTS_GIT_SCENE_H
#define BELAY_TESTS_GIT_SCENE_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fibers.h"
#include "git/repository.h"
#include "place.h"

#define SCENE_BRANCH "refs/heads/belay/F/A"
#define SCENE_NOTE   "run_x pid 1 started 1"

struct scene {
    struct place place;
    struct git_repository *git; /* NULL if it could not be opened; `error` says why */
    struct bl_arena arena;
    struct bl_error error;
    char head[GIT_ID_SIZE]; /* of main */
    char worktree[400];     /* of task A; made by scene_worktree */
    void (*act)(struct scene *scene);
};

/* Runs a shell command in the repository; also within fibers. */
BL_PRINTF(2, 3) static inline bool scene_shell(struct scene *scene, const char *format, ...)
{
    char command[4096];
    int size = snprintf(command, sizeof command, "cd '%s' && ", scene->place.repository);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command + size, sizeof command - (size_t)size, format, arguments);
    va_end(arguments);
    bool fine = system(command) == 0;
    if (!fine)
        fprintf(stderr, "failed: %s\n", command);
    return fine;
}

/* Runs a shell command and returns its output without the last LF, in the arena. */
BL_PRINTF(2, 3) static inline const char *scene_output(struct scene *scene, const char *format, ...)
{
    char command[4096];
    int size = snprintf(command, sizeof command, "cd '%s' && ", scene->place.repository);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command + size, sizeof command - (size_t)size, format, arguments);
    va_end(arguments);
    size_t room = 1 << 16;
    char *text = bl_arena_zalloc(&scene->arena, room);
    FILE *pipe = popen(command, "re");
    size_t count = pipe != NULL ? fread(text, 1, room - 1, pipe) : 0;
    if (pipe != NULL)
        pclose(pipe);
    while (count > 0 && text[count - 1] == '\n')
        text[--count] = '\0';
    return text;
}

static inline int scene_main(void *argument)
{
    struct scene *scene = argument;
    int code = git_open(scene->place.repository, &scene->git, &scene->error);
    if (code == 0)
        git_commit_find(scene->git, "HEAD", scene->head, NULL);
    scene->act(scene);
    git_close(scene->git);
    bl_arena_done(&scene->arena);
    return 0;
}

/* Runs `act` in a scene. A shell first runs `prepare` (may be NULL) in the repository. */
static inline void scene_play(const char *prepare, void (*act)(struct scene *scene))
{
    struct scene *scene = bl_zalloc(sizeof *scene);
    place_make(&scene->place);
    scene->act = act;
    snprintf(scene->worktree, sizeof scene->worktree, "%s/.belay/worktrees/F/A",
             scene->place.repository);
    if (prepare != NULL)
        assert_true(scene_shell(scene, "%s", prepare));
    run_in_loop(scene_main, scene);
    place_done(&scene->place);
    bl_free(scene);
}

/* The same, with a user configuration that the shell command `configure` makes with `git config
 * --global`. */
static inline void scene_play_configured(const char *configure, const char *prepare,
                                         void (*act)(struct scene *scene))
{
    char path[] = "/tmp/belay-gitconfig-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    setenv("GIT_CONFIG_GLOBAL", path, 1);
    assert_int_equal(system(configure), 0);
    scene_play(prepare, act);
    unsetenv("GIT_CONFIG_GLOBAL");
    unlink(path);
}

/* Makes the worktree of task A at main. */
static inline bool scene_worktree(struct scene *scene)
{
    return CHECK_EQUAL(git_worktree_make(scene->git, SCENE_BRANCH, scene->worktree, scene->head,
                                         SCENE_NOTE, &scene->error),
                       0);
}

/* Commits in that worktree. */
static inline struct git_commit_result scene_commit(struct scene *scene, const char *expected)
{
    struct git_commit_order order = {
        .worktree = scene->worktree,
        .branch = SCENE_BRANCH,
        .expected = expected,
        .message = "belay: F/A turn 1\n\nBelay-Task: A\nBelay-Attempt: 1\nBelay-Turn: 1\n",
    };
    struct git_commit_result result = {0};
    if (!CHECK_EQUAL(git_commit_all(scene->git, &scene->arena, &order, &result, &scene->error), 0))
        fprintf(stderr, "%s\n", scene->error.message);
    return result;
}

/* A checksum of the user's state that must not change: HEAD, index, branch, files, stash. */
static inline const char *scene_checksum(struct scene *scene)
{
    return scene_output(scene,
                        "{ cat .git/HEAD; git rev-parse main; cat .git/index; git stash list; "
                        "find . -path ./.git -prune -o -path ./.belay/worktrees -prune -o -type f "
                        "-print0 | sort -z | xargs -0 sha256sum; } | sha256sum");
}

static inline bool scene_says(struct bl_text text, const char *what)
{
    return bl_text_find(text, bl_text_from(what)) >= 0;
}

static inline bool scene_exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

/* Makes the worktree of a task, runs a shell line in it, and commits the result. Returns the
 * commit's id, in the arena. */
static inline const char *scene_work(struct scene *scene, const char *task, const char *line)
{
    struct bl_arena *arena = &scene->arena;
    const char *path = git_text(arena, "%s/.belay/worktrees/F/%s", scene->place.repository, task);
    struct git_commit_order order = {.worktree = path,
                                     .branch = git_text(arena, "refs/heads/belay/F/%s", task),
                                     .expected = scene->head,
                                     .message = git_text(arena, "belay: F/%s turn 1\n", task)};
    struct git_commit_result *result = bl_arena_zalloc(arena, sizeof *result);
    if (!CHECK_EQUAL(git_worktree_make(scene->git, order.branch, path, scene->head, SCENE_NOTE,
                                       &scene->error),
                     0) ||
        !CHECK(scene_shell(scene, "cd .belay/worktrees/F/%s && %s", task, line)) ||
        !CHECK_EQUAL(git_commit_all(scene->git, arena, &order, result, &scene->error), 0))
        return scene->head;
    return result->head;
}

static inline struct git_merge_result scene_merge(struct scene *scene, const char *ours,
                                                  const char *theirs, const char *task)
{
    struct git_merge_result result;
    if (!CHECK_EQUAL(git_merge_commits(scene->git, &scene->arena, ours, theirs,
                                       git_text(&scene->arena, "belay: merge F/%s\n", task),
                                       &result, &scene->error),
                     0))
        fprintf(stderr, "%s\n", scene->error.message);
    return result;
}

static inline int scene_move_result(struct scene *scene, const char *old, const char *new_id)
{
    return git_ref_swap(scene->git, "refs/heads/belay/F/_result", old, new_id, "wave 1", NULL);
}

#endif
