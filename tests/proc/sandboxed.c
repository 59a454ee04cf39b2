#include "sandboxed.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

void place_begin(struct place *place, const char *parent)
{
    struct bl_container_check check;

    bl_sandbox_check(&check);
    if (!check.available) {
        print_message("no sandbox here: %s\n", check.detail);
        suite_skip("no sandbox");
    }
    snprintf(place->folder, sizeof place->folder, "%s/belay-place-XXXXXX", parent);
    assert_non_null(mkdtemp(place->folder));
    snprintf(place->workspace, sizeof place->workspace, "%s/workspace", place->folder);
    snprintf(place->outside, sizeof place->outside, "%s/outside", place->folder);
    assert_int_equal(mkdir(place->workspace, 0700), 0);
    assert_int_equal(mkdir(place->outside, 0700), 0);
}

void place_end(struct place *place)
{
    char path[96];

    snprintf(path, sizeof path, "%s/file", place->workspace);
    unlink(path);
    snprintf(path, sizeof path, "%s/file", place->outside);
    unlink(path);
    assert_int_equal(rmdir(place->workspace), 0);
    assert_int_equal(rmdir(place->outside), 0);
    assert_int_equal(rmdir(place->folder), 0);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(path);
}

void place_remove(struct place *place)
{
    assert_int_equal(nftw(place->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

bool file_exists(const char *folder)
{
    char path[128];

    snprintf(path, sizeof path, "%s/file", folder);
    return access(path, F_OK) == 0;
}

static int run_wrapped(const struct bl_sandbox_view *view, const char *const *arguments,
                       struct bl_buffer *output)
{
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    struct proc_child_end end;
    const char *const *wrapped;

    if (bl_sandbox_wrap_view(&arena, view, arguments, &wrapped, &error) != 0)
        fail_msg("%s", error.message);
    assert_int_equal(proc_program_run(wrapped, RUN_LIMIT_MS, output, &end), 0);
    bl_arena_done(&arena);
    assert_false(end.timed_out || end.by_signal);
    return end.status;
}

int run_words(enum bl_sandbox sandbox, const char *workspace, bool network,
              const char *const *arguments, struct bl_buffer *output)
{
    const struct bl_sandbox_view view = {
        .sandbox = sandbox, .workspace = workspace, .network = network};

    return run_wrapped(&view, arguments, output);
}

int run_view(const struct bl_sandbox_view *view, const char *script)
{
    struct bl_buffer output;

    bl_buffer_init(&output, 2048);
    int status = run_wrapped(view, LIST("/bin/sh", "-c", script), &output);
    if (output.size > 0)
        print_message(BL_TEXT_FORMAT, BL_TEXT_ARG(bl_buffer_text(&output)));
    bl_buffer_done(&output);
    return status;
}

int run(enum bl_sandbox sandbox, const char *workspace, bool network, const char *script)
{
    const struct bl_sandbox_view view = {
        .sandbox = sandbox, .workspace = workspace, .network = network};

    return run_view(&view, script);
}
