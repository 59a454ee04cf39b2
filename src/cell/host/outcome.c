#include "host.h"

struct cell_outcome *cell_outcome_copy(uint64_t generation, struct bl_text json)
{
    struct cell_outcome *outcome = bl_alloc(sizeof *outcome + json.size + 1);
    char *bytes = (char *)(outcome + 1);

    memcpy(bytes, json.data, json.size);
    bytes[json.size] = '\0';
    *outcome = (struct cell_outcome){1, generation, {bytes, json.size}};
    return outcome;
}

struct cell_outcome *cell_outcome_new(uint64_t generation, struct bl_buffer *json)
{
    struct cell_outcome *outcome = cell_outcome_copy(generation, bl_buffer_text(json));

    bl_buffer_done(json);
    return outcome;
}

struct cell_outcome *cell_outcome_ref(struct cell_outcome *outcome)
{
    outcome->references++;
    return outcome;
}

void cell_outcome_unref(struct cell_outcome *outcome)
{
    if (outcome != NULL && --outcome->references == 0)
        bl_free(outcome);
}
