/* Cells for tests: fibers beside the turn that make nested calls, below the scope of the turn or
 * one that outlives it. */
#ifndef BELAY_TESTS_TURN_HOUSE_H
#define BELAY_TESTS_TURN_HOUSE_H

#include "stage.h"

#define HOUSE_CELLS 8u

/* The actions of the model's own call of `work`. */
typedef void house_scene(struct stage *stage, const struct bl_tool_call *call);

/* Makes one nested call, in the running fiber; ids of nested calls begin with "c-". */
enum bl_nested_end run_nested(struct stage *stage, const char *id, const char *name,
                              const char *input, struct bl_tool_result *ret_result);
bool is_nested(const struct bl_tool_call *call);
/* Returns the number of stored journal lines that contain both texts. */
size_t written(const struct stage *stage, const char *first, const char *second);
/* For on_call: plays the scene for a call of the model, and answers a nested one with its id. */
int act(struct stage *stage, const struct bl_tool_call *call, struct bl_tool_result *result,
        struct bl_error *error);
/* Sets the scene that `act` plays. */
void set_scene(struct stage *stage, house_scene *scene);
/* Runs a turn with one call of `work`, which plays the scene, and an answer. */
struct bl_turn_result *play(struct stage *stage, house_scene *scene);

struct cell {
    struct stage *stage;
    struct bl_nursery *nursery;
    struct bl_scope scope;
    struct bl_arena arena;
    struct bl_unit unit;
    char id[32];
    uint64_t after_ns; /* before its first call */
    uint32_t calls;    /* one after another */
    uint32_t made;
    enum bl_nested_end end; /* of the last, and its result */
    struct bl_tool_result result;
    bool ended;
};

extern struct cell cells[HOUSE_CELLS];
extern size_t cells_begun; /* ended by end_cells */
extern bool settled;       /* end_cells has run */
extern struct bl_nursery house;

void house_begin(struct stage *stage);
/* For on_settle: ends the cells of the turn. */
void end_cells(struct stage *stage, struct bl_scope *scope);
/* Below `scope`: the turn's, or one that outlives the turn. */
void cell_begin(struct cell *cell, struct stage *stage, struct bl_nursery *nursery,
                struct bl_scope *scope, const char *id);
/* Waits for its end, whatever stops the caller. */
void cell_join(struct cell *cell);

#endif
