#include "house.h"

#include <stdio.h>

/* ---- One nested call ------------------------------------------------------------------------- */

enum bl_nested_end run_nested(struct stage *stage, const char *id, const char *name,
                              const char *input, struct bl_tool_result *ret_result)
{
    struct bl_nested_call call = {
        .id = id, .name = name, .input_text = bl_text_from(input), .arena = &stage->arena};

    return bl_nested_run(&stage->engine, &call, ret_result);
}

static size_t count_lines(struct bl_text text, const char *first, const char *second)
{
    struct bl_text line;
    size_t count = 0;

    while (bl_text_split(&text, '\n', &line))
        count += has(line, first) && has(line, second);
    return count;
}

/* Returns the number of stored journal lines that contain both texts. */
size_t written(const struct stage *stage, const char *first, const char *second)
{
    return count_lines(bl_buffer_text(&stage->written), first, second);
}

bool is_nested(const struct bl_tool_call *call)
{
    return strncmp(call->id, "c-", 2) == 0;
}

/* ---- In a turn ------------------------------------------------------------------------------- */

/* Plays the model's own call of `work`, or answers a nested call. */
int act(struct stage *stage, const struct bl_tool_call *call, struct bl_tool_result *result,
        struct bl_error *error BL_UNUSED)
{
    house_scene *scene;

    memcpy(&scene, &stage->extra, sizeof scene);
    if (!is_nested(call)) {
        scene(stage, call);
        result->text = BL_TEXT("the model's");
        return 0;
    }
    call->output(call, BL_TEXT("some"));
    result->text = bl_arena_printf(call->arena, "nested %s", call->id);
    return 0;
}

void set_scene(struct stage *stage, house_scene *scene)
{
    memcpy(&stage->extra, &scene, sizeof scene);
}

struct bl_turn_result *play(struct stage *stage, house_scene *scene)
{
    set_scene(stage, scene);
    if (stage->on_call == NULL)
        stage->on_call = act;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){
                          .say = "ok", .delay_ns = 5 * MS, .input_tokens = 3, .output_tokens = 4});
    return stage_turn(stage, "go");
}

/* ---- A cell: a fiber that calls -------------------------------------------------------------- */

static int cell_main(void *argument)
{
    struct cell *cell = argument;
    char id[48];

    bl_unit_begin(&cell->unit, BL_UNIT_CELL, cell->id, NULL);
    int code = bl_sleep(cell->after_ns);
    while (code == 0 && cell->made < cell->calls) {
        snprintf(id, sizeof id, "%s/%u", cell->id, ++cell->made);
        struct bl_nested_call call = {
            .id = id, .name = "read", .input_text = BL_TEXT("{}"), .arena = &cell->arena};
        cell->end = bl_nested_run(&cell->stage->engine, &call, &cell->result);
        code = bl_check();
    }
    bl_unit_end(&cell->unit, code == 0 ? BL_FATE_FINISHED : BL_FATE_ABORTED);
    cell->ended = true;
    return code;
}

/* Below `scope`: the turn's, or one that outlives the turn. */
void cell_begin(struct cell *cell, struct stage *stage, struct bl_nursery *nursery,
                struct bl_scope *scope, const char *id)
{
    cell->stage = stage;
    cell->nursery = nursery;
    cell->calls = cell->calls == 0 ? 1 : cell->calls;
    cell->made = 0;
    cell->ended = false;
    snprintf(cell->id, sizeof cell->id, "%s", id);
    bl_arena_init(&cell->arena);
    bl_scope_init(&cell->scope, scope);
    bl_nursery_spawn(nursery, &cell->scope, cell->id, cell_main, cell, NULL);
}

void cell_join(struct cell *cell)
{
    struct bl_scope shield;

    bl_shield_begin(&shield, 3600 * BL_NS_PER_S);
    while (!cell->ended)
        bl_sleep(MS);
    bl_shield_end(&shield);
    bl_yield();
    bl_scope_done(&cell->scope);
    bl_arena_done(&cell->arena);
}

/* Used by settle, which ends the cells of the turn. */
struct cell cells[HOUSE_CELLS];
size_t cells_begun;
bool settled;

void end_cells(struct stage *stage, struct bl_scope *scope)
{
    (void)stage;
    settled = true;
    for (size_t i = 0; i < cells_begun; i++)
        bl_scope_stop(&cells[i].scope, BL_STOP_PARENT, "turn");
    for (size_t i = 0; i < cells_begun; i++)
        cell_join(&cells[i]);
    cells_begun = 0;
    CHECK(scope != NULL);
}

struct bl_nursery house; /* outlives turns */

void house_begin(struct stage *stage)
{
    memset(cells, 0, sizeof cells);
    cells_begun = 0;
    settled = false;
    stage->on_settle = end_cells;
    bl_nursery_init(&house, bl_scope_current());
}
