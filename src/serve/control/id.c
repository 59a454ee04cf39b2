#include <stdio.h>

#include "serve/parts.h"

bool serve_is_meant(const struct bl_activity *activity, const char *id)
{
    char name[BL_ACTIVITY_NAME_SIZE];
    bl_activity_name(activity, name);
    return strcmp(activity->id, id) == 0 || strcmp(name, id) == 0 ||
           strcmp(activity->session, id) == 0;
}

bool serve_is_named(const struct bl_activity_view *activity, struct bl_text id)
{
    return bl_text_equal(activity->id, id) || bl_text_equal(activity->name, id);
}

/* Tool calls do not count: they end with their turn. */
bool serve_is_of_session(const struct bl_activity_view *activity, struct bl_text id)
{
    return bl_text_equal(activity->session, id) && !bl_text_equal(activity->kind, BL_TEXT("call"));
}

void serve_names_add(struct serve_names *names, struct bl_text name)
{
    size_t kept = names->count < BL_COUNT(names->names) ? names->count : BL_COUNT(names->names);
    for (size_t i = 0; i < kept; i++)
        if (bl_text_equal(names->names[i], name))
            return;
    if (kept < BL_COUNT(names->names))
        names->names[kept] = name;
    names->count++;
}

void serve_names_text(const struct serve_names *names, char *out, size_t out_size)
{
    size_t size = 0, shown = 0;
    out[0] = '\0';
    for (; shown < names->count && shown < BL_COUNT(names->names); shown++) {
        struct bl_text name = names->names[shown];
        /* Leaves room for " and N more". */
        if (size + name.size + 24 >= out_size)
            break;
        size += (size_t)snprintf(out + size, out_size - size, "%s" BL_TEXT_FORMAT,
                                 shown > 0 ? ", " : "", BL_TEXT_ARG(name));
    }
    if (shown < names->count && size < out_size)
        snprintf(out + size, out_size - size, " and %zu more", names->count - shown);
}
