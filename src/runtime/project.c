#include "parts.h"

void bl_project_init(struct bl_project *project)
{
    *project = (struct bl_project){0};
    bl_arena_init(&project->arena);
    bl_list_init(&project->personas);
    bl_list_init(&project->notices);
}

int bl_project_read(struct bl_project *project, const char *directory, struct bl_error *error)
{
    struct bl_config_options options = {.directory = directory, .variable = bl_variable};

    int code = bl_config_read(&options, &project->config, error);
    if (code == 0)
        code = bl_settings_read(&project->arena, project->config, &project->settings, error);
    if (code == 0)
        bl_personas_find(&project->arena, directory, &project->personas, &project->notices);
    return code;
}

void bl_project_done(struct bl_project *project)
{
    bl_hooks_free(project->settings.hooks);
    bl_config_free(project->config);
    bl_arena_done(&project->arena);
}
