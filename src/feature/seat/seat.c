#include "feature/parts.h"

void seat_house_init(struct seat_house *house, struct bl_store *store, struct bl_project *project,
                     const char *repository, const char *git_folder,
                     struct bl_activities *activities)
{
    *house = (struct seat_house){
        .store = store,
        .project = project,
        .repository = repository,
        .git_folder = git_folder,
        .activities = activities,
    };
    bl_list_init(&house->running);
}

void seat_house_hurry(struct seat_house *house)
{
    house->hurried = true;
    BL_LIST_EACH (link, &house->running) {
        struct seat_run_handle *handle = BL_CONTAINER(link, struct seat_run_handle, link);
        bl_command_hurry(&handle->control);
        if (handle->toolbox != NULL)
            bl_toolbox_hurry(handle->toolbox);
    }
}

bool seat_network(const struct seat_house *house, bool open)
{
    const struct bl_settings *settings = &house->project->settings;

    for (size_t i = 0; settings->allow != NULL && settings->allow[i] != NULL; i++)
        open = open || strcmp(settings->allow[i], "network") == 0;
    for (size_t i = 0; settings->deny != NULL && settings->deny[i] != NULL; i++)
        open = open && !bl_tool_name_fits(settings->deny[i], "network");
    return open;
}

const char *const *seat_shown(const struct seat_house *house, struct bl_arena *arena)
{
    struct bl_permissions *permissions = bl_permissions_new(BL_PERMISSION_AUTO);

    /* Invalid rules were reported when the settings were read. */
    bl_settings_apply(&house->project->settings, permissions, NULL);
    const char *const *shown = bl_permissions_shown(permissions, arena);
    bl_permissions_free(permissions);
    return shown;
}

static bool is_fine(struct bl_text text)
{
    return bl_utf8_valid(text) && (text.size == 0 || memchr(text.data, '\0', text.size) == NULL);
}

static const struct bl_text replacement = BL_TEXT("\xEF\xBF\xBD");

/* Appends UTF-8 text, with each NUL replaced. */
static void append_without_nul(struct bl_buffer *out, struct bl_text text)
{
    while (text.size > 0) {
        const char *nul = memchr(text.data, '\0', text.size);
        size_t size = nul != NULL ? (size_t)(nul - text.data) : text.size;
        bl_buffer_append(out, (struct bl_text){text.data, size});
        if (nul != NULL)
            bl_buffer_append(out, replacement);
        size += nul != NULL;
        text = (struct bl_text){text.data + size, text.size - size};
    }
}

struct bl_text seat_valid_text(struct bl_arena *arena, struct bl_text text)
{
    BL_AUTO_BUFFER(out, SIZE_MAX);

    if (is_fine(text))
        return text;
    while (text.size > 0) {
        size_t good = bl_utf8_valid_prefix(text, NULL);
        append_without_nul(&out, (struct bl_text){text.data, good});
        if (good < text.size)
            bl_buffer_append(&out, replacement);
        good += good < text.size;
        text = (struct bl_text){text.data + good, text.size - good};
    }
    return bl_arena_text(arena, bl_buffer_text(&out));
}

void seat_run(struct seat_house *house, const struct seat_order *order, struct bl_arena *arena,
              struct seat_outcome *ret_outcome)
{
    *ret_outcome = (struct seat_outcome){0};
    switch (order->seat->kind) {
    case BL_SEAT_AGENT: seat_agent_run(house, order, arena, ret_outcome); return;
    case BL_SEAT_COMMAND: seat_command_run(house, order, arena, ret_outcome); return;
    }
}
