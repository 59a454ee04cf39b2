/* Writes the files of a new plan under temporary names, and moves them into place when all are
 * complete. */
#include "new.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPERATION "write the plan"

struct new_places {
    const char *folder;   /* of the task files */
    const char *plan;     /* final path of the plan */
    const char *beside;   /* the same folder while it is filled */
    const char *unlinked; /* the plan while it is written */
};

static const char *new_name_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

static const char *new_inside(struct feature_new *new, const char *folder, size_t source)
{
    return bl_arena_printf(&new->arena, "%s/%s", folder, new_name_of(new->sources[source].path))
        .data;
}

/* Removes everything written so far. */
static void new_take_back(struct feature_new *new, const struct new_places *places)
{
    for (size_t i = 1; i <= new->outline.count; i++)
        unlink(new_inside(new, places->beside, i));
    rmdir(places->beside);
    unlink(places->unlinked);
}

/* Moves the files into place. Both moves fail if another process was faster. The plan comes last,
 * so that it never exists without its task files. */
static int new_move_there(const struct new_places *places)
{
    if (renameat2(AT_FDCWD, places->beside, AT_FDCWD, places->folder, RENAME_NOREPLACE) < 0)
        return errno;
    if (link(places->unlinked, places->plan) == 0) {
        unlink(places->unlinked);
        return 0;
    }
    int failed = errno;
    if (rename(places->folder, places->beside) < 0)
        failed = errno;
    return failed;
}

int feature_new_write(struct feature_new *new)
{
    const char *id = new->options->name;
    uint64_t random;

    bl_random_bytes(&random, sizeof random);
    const char *above = bl_arena_printf(&new->arena, "%s/.belay/features", new->repository).data;
    const char *beside =
        bl_arena_printf(&new->arena, "%s/.%s.%016llx", above, id, (unsigned long long)random).data;
    const struct new_places places = {
        .folder = bl_arena_printf(&new->arena, "%s/%s", above, id).data,
        .plan = new->sources[0].path,
        .beside = beside,
        .unlinked = bl_arena_printf(&new->arena, "%s.yaml", beside).data,
    };
    int failed = -bl_folder_make_above(places.plan, 0777);
    if (failed == 0 && mkdir(places.beside, 0777) < 0)
        failed = errno;
    for (size_t i = 1; i <= new->outline.count &&failed == 0; i++)
        failed = feature_write_new(new_inside(new, places.beside, i), new->sources[i].text);
    if (failed == 0)
        failed = feature_write_new(places.unlinked, new->sources[0].text);
    if (failed == 0)
        failed = new_move_there(&places);
    new->written = failed == 0;
    if (failed == 0)
        return 0;
    new_take_back(new, &places);
    bl_error_set(&new->error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, OPERATION,
                 places.plan, "cannot write %s: %s", places.plan, strerror(failed));
    bl_error_hint(&new->error, "nothing was written");
    return new->error.code;
}
