/* The answer of a look-up by id: a piece of work, or why there is not exactly one. */
#include <stdio.h>

#include "form.h"

/* ---- Parts of an answer ---- */

const char *store_work_take_end(struct store_find *find, const struct store_row *row, int column)
{
    find->work.result = store_row_copy(&find->job.output, row, column);
    return store_row_string(&find->job.output, row, column + 1);
}

void store_work_take_record(struct store_find *find, const struct store_row *row)
{
    find->work.result = store_row_copy(&find->job.output, row, 0);
    find->work.ended = store_row_flag(row, 1);
    find->work.receipt = store_row_copy(&find->job.output, row, 2);
}

const char *store_work_take_cell(struct store_find *find, const struct store_row *row)
{
    /* A buried cell has only ended; nothing else is stored. */
    find->work.ended = row == NULL || store_row_flag(row, 2);
    if (row == NULL)
        return NULL;
    const char *receipt = store_work_take_end(find, row, 0);
    if (find->work.result.size == 0)
        find->work.result = store_row_copy(&find->job.output, row, 3);
    return receipt;
}

/* ---- Ids that are unique within their holder ---- */

void store_candidates_add(struct store_candidates *found, struct store_find *find, const char *kind,
                          const struct store_row *row)
{
    struct store_candidate each = {
        .kind = kind,
        .name = store_row_string(&find->job.output, row, 0),
        .holder = store_row_integer(row, 1),
        .generation = store_row_integer(row, 2),
    };
    if (found->count == 0)
        found->first = each;
    if (found->count < STORE_CANDIDATES_NAMED)
        found->names[found->count] = each.name;
    found->count++;
}

const char *store_work_take_candidate(struct store_find *find, const struct store_candidate *only)
{
    struct bl_arena *arena = &find->job.output;
    find->work = (struct bl_store_work){.kind = only->kind, .id = only->name};
    if (strcmp(only->kind, "task") == 0)
        return bl_arena_printf(arena, "task/%s", find->last).data;
    if (strcmp(only->kind, "feature") == 0)
        return "feature";
    size_t size = strlen(only->name) - strlen(find->last) - 1;
    find->work.session = bl_arena_text(arena, (struct bl_text){only->name, size}).data;
    return NULL;
}

/* ---- Refusals ---- */

int store_refuse_ambiguous(const struct store_find *find, const struct store_candidates *found,
                           struct bl_error *error)
{
    char names[200] = "";
    size_t used = 0, named = 0;
    for (size_t i = 0; i < found->count && i < STORE_CANDIDATES_NAMED; i++) {
        size_t size = strlen(found->names[i]);
        if (used + size + 3 > sizeof names)
            continue;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "",
                                 found->names[i]);
        named++;
    }
    bl_error_set(error, BL_EEXIST, BL_KIND_SESSION, "look up", find->id,
                 "id '%.100s' is ambiguous: use a full id", find->id);
    if (named == found->count)
        bl_error_hint(error, "%s", names);
    else
        bl_error_hint(error, "%s and %zu more", names, found->count - named);
    return BL_EEXIST;
}

int store_refuse_unknown_work(const struct store_find *find, const char *where,
                              struct bl_error *error)
{
    bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, "look up", find->id,
                 "no work with the id '%.100s' in %.200s", find->id, where);
    bl_error_hint(error, "'belay session list' shows the sessions of this store");
    return BL_ENOENT;
}
