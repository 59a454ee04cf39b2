#include "helpers.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void rig_script(struct rig *rig, const char *script)
{
    bl_script_player_free(rig->player);
    bl_script_free(rig->script);
    rig->script = NULL;
    CHECK_EQUAL(bl_script_parse(bl_text_from(script), "rig", &rig->script, NULL), 0);
    rig->player = bl_script_player_new(rig->script, 1, &rig->model);
}

void rig_init(struct rig *rig, const char *script)
{
    memset(rig, 0, sizeof *rig);
    snprintf(rig->folder, sizeof rig->folder, "/tmp/belay-agent-XXXXXX");
    CHECK(mkdtemp(rig->folder) != NULL);
    snprintf(rig->path, sizeof rig->path, "%s/sessions.db", rig->folder);
    bl_arena_init(&rig->arena);
    bl_activities_init(&rig->activities);
    CHECK_EQUAL(bl_store_open(rig->path, &rig->store, &rig->error), 0);
    rig_script(rig, script);
    rig->permissions = bl_permissions_new(BL_PERMISSION_YOLO);
    struct bl_toolbox_options tools = {
        .workspace = rig->folder, .permissions = rig->permissions, .sandbox_chosen = true};
    CHECK_EQUAL(bl_toolbox_new(&tools, &rig->toolbox, &rig->error), 0);
    rig->options = (struct bl_agent_options){
        .store = rig->store,
        .session = {.id = "rig", .directory = rig->folder},
        .model = &rig->model,
        .toolbox = rig->toolbox,
        .activities = &rig->activities,
        .scope = &rig->scope,
        .run = {.max_turns = 8},
    };
    bl_turn_limits_init(&rig->options.limits);
}

void rig_done(struct rig *rig)
{
    char path[128];

    bl_toolbox_free(rig->toolbox);
    bl_permissions_free(rig->permissions);
    bl_script_player_free(rig->player);
    bl_script_free(rig->script);
    bl_store_close(rig->store);
    bl_arena_done(&rig->arena);
    unlink(rig->path);
    snprintf(path, sizeof path, "%s-wal", rig->path);
    unlink(path);
    snprintf(path, sizeof path, "%s-shm", rig->path);
    unlink(path);
    CHECK_EQUAL(rmdir(rig->folder), 0);
}

int rig_run(struct rig *rig, const char *prompt)
{
    char run_id[BL_ID_SIZE];

    bl_id_make(run_id, "run_");
    bl_scope_init(&rig->scope, bl_scope_current());
    rig->options.session.run_id = rig->options.run.run_id = run_id;
    rig->options.session.prompt = rig->options.run.prompt = bl_text_from(prompt);
    rig->error = (struct bl_error){0};
    int code = bl_agent_run(&rig->options, &rig->arena, &rig->result, &rig->error);
    bl_scope_done(&rig->scope);
    return code;
}

struct bl_store_session_view rig_view(struct rig *rig)
{
    struct bl_store_session_view view = {0};
    struct bl_error error = {0};

    CHECK_EQUAL(bl_store_show(rig->store, &rig->arena, "rig", &view, &error), 0);
    return view;
}
