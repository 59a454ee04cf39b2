/* Finds a piece of work by its id. */
#include "parts.h"

/* Longer texts are not ids: a path, two ids, and their slashes. */
#define ID_SIZE_MAX 4400

static int check_id(const char *id, struct bl_error *error)
{
    size_t size = id != NULL ? strnlen(id, ID_SIZE_MAX + 1) : 0;
    if (size > 0 && size <= ID_SIZE_MAX && bl_utf8_valid((struct bl_text){id, size}))
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "look up", NULL, "invalid id");
    bl_error_hint(error, "'belay ps' and 'belay session list' show ids");
    return BL_EINVAL;
}

static struct store_find *make_find(struct bl_store *store, const char *id)
{
    struct store_find *find = store_job_new(STORE_FIND, sizeof *find);
    const char *slash = strrchr(id, '/');
    find->self = store->self;
    find->wall_ns = store_wall_ns();
    find->id = store_job_string(&find->job, id);
    find->last = store_job_string(&find->job, slash != NULL ? slash + 1 : id);
    if (slash != NULL)
        find->holder = store_job_text(&find->job, (struct bl_text){id, (size_t)(slash - id)}).data;
    return find;
}

int bl_store_find(struct bl_store *store, struct bl_arena *arena, const char *id,
                  struct bl_store_work *ret_work, struct bl_error *error)
{
    int code = check_id(id, error);
    if (code != 0)
        return code;
    struct store_find *find = make_find(store, id);
    if (store_run(store, &find->job, &code, error) == STORE_ANSWERED && code == 0) {
        const struct bl_store_work *work = &find->work;
        *ret_work = (struct bl_store_work){
            .kind = work->kind, /* a literal */
            .id = bl_arena_text(arena, bl_text_from(work->id)).data,
            .ended = work->ended,
            .result = bl_arena_text(arena, work->result),
            .receipt = bl_arena_text(arena, work->receipt),
        };
        if (work->session != NULL)
            ret_work->session = bl_arena_text(arena, bl_text_from(work->session)).data;
    }
    store_job_leave(&find->job);
    return code;
}
