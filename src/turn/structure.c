/* Answers that must be JSON of a given form. */
#include "parts.h"

#define REPAIR_MAX 4096u

/* Writes the problems of the answer, for the model; nothing if it is valid. */
static void find_problems(struct turn *turn, struct bl_text answer, struct bl_buffer *out)
{
    struct bl_arena *arena = &turn->record->arena;
    const struct bl_json *value;
    struct bl_json_fault fault;
    struct bl_list problems;
    char text[256];

    if (bl_json_read(arena, bl_text_trim(answer), NULL, &value, &fault) != 0) {
        bl_json_fault_text(&fault, text, sizeof text);
        bl_buffer_printf(out, "It is not a single JSON value: %s.\n", text);
        return;
    }
    bl_json_schema_check(turn->engine->schema, value, arena, &problems);
    BL_LIST_EACH (link, &problems) {
        const struct bl_json_problem *problem = BL_CONTAINER(link, struct bl_json_problem, link);
        struct bl_text path = problem->path.size > 0 ? problem->path : BL_TEXT("the value");
        if (bl_buffer_printf(out, "- " BL_TEXT_FORMAT ": " BL_TEXT_FORMAT "\n", BL_TEXT_ARG(path),
                             BL_TEXT_ARG(problem->message)) != 0)
            return;
    }
}

static void ask_for_repair(struct turn *turn, struct bl_text problems)
{
    struct bl_arena *arena = &turn->record->arena;
    struct bl_message *message = bl_message_add(arena, &turn->record->messages, BL_ROLE_USER);

    bl_block_add(arena, message, BL_BLOCK_TEXT)->text =
        bl_arena_printf(arena,
                        "The answer does not match the required JSON Schema.\n" BL_TEXT_FORMAT
                        "Answer with only the corrected JSON value: no other text, no code fence.",
                        BL_TEXT_ARG(problems));
}

bool turn_check_structure(struct turn *turn, bool *ret_fits)
{
    BL_AUTO_BUFFER(problems, REPAIR_MAX);
    bool go_on = true;

    *ret_fits = true;
    if (turn->engine->schema == NULL)
        return true;
    find_problems(turn, turn->result->output, &problems);
    *ret_fits = problems.size == 0;
    if (!*ret_fits && turn->repairs < turn->engine->limits.structured_retry_limit) {
        turn->repairs++;
        ask_for_repair(turn, bl_buffer_text(&problems));
    } else if (!*ret_fits) {
        struct bl_text first = bl_buffer_text(&problems), line;
        bl_text_split(&first, '\n', &line);
        go_on =
            turn_fail(turn, BL_EPARSE, BL_KIND_PARSE,
                      "the answer still does not match the schema (repairs: %u): " BL_TEXT_FORMAT,
                      turn->repairs, BL_TEXT_ARG(line));
    }
    return go_on;
}
