#include "parts.h"

static const char *const end_names[] = {
#define END_NAME(name, text) text,
    BL_TURN_END_TABLE(END_NAME)
#undef END_NAME
};

const char *bl_turn_end_name(enum bl_turn_end end)
{
    return (size_t)end < BL_COUNT(end_names) ? end_names[end] : "error";
}

bool bl_turn_end_parse(struct bl_text name, enum bl_turn_end *ret_end)
{
    for (size_t i = 0; i < BL_COUNT(end_names); i++) {
        if (bl_text_equal(bl_text_from(end_names[i]), name)) {
            *ret_end = (enum bl_turn_end)i;
            return true;
        }
    }
    return false;
}

static void write_names(struct bl_json_writer *writer, const char *key, const char *const *names)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_array(writer);
    for (; names != NULL && *names != NULL; names++)
        bl_json_write_string(writer, *names);
    bl_json_write_end(writer);
}

static void write_denials(struct bl_json_writer *writer, const struct bl_list *denials)
{
    bl_json_write_key(writer, BL_TEXT("permission_denials"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, denials) {
        const struct bl_denial *denial = BL_CONTAINER(link, struct bl_denial, link);
        bl_json_write_object(writer);
        bl_json_put_text(writer, "tool_name", denial->tool);
        bl_json_put_text(writer, "reason", denial->reason);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

static void write_steps(struct bl_json_writer *writer, const struct bl_list *steps)
{
    bl_json_write_key(writer, BL_TEXT("steps"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, steps) {
        const struct bl_step *step = BL_CONTAINER(link, struct bl_step, link);
        bl_json_write_object(writer);
        bl_json_put_text(writer, "id", step->id);
        bl_json_put_text(writer, "tool", step->tool);
        bl_json_put_text(writer, "status", bl_text_from(step->status));
        bl_json_put_uint64(writer, "ms", step->ms);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

static void write_end(struct bl_json_writer *writer, const struct bl_turn_result *result)
{
    char started_at[32];

    bl_json_write_key(writer, BL_TEXT("usage"));
    bl_record_write(writer, &bl_usage_record, &result->usage);
    bl_json_write_key(writer, BL_TEXT("spent"));
    bl_record_write(writer, &bl_spent_record, &result->spent);
    bl_json_put_boolean(writer, "truncated", result->truncated);
    bl_time_format(result->started_wall_ns, started_at);
    bl_json_put_text(writer, "started_at", bl_text_from(started_at));
    bl_json_put_uint64(writer, "duration_ms", result->duration_ms);
    bl_json_put_json(writer, "receipt", result->receipt);
    bl_json_write_key(writer, BL_TEXT("error"));
    if (result->error.code != 0)
        bl_record_write(writer, &bl_error_record, &result->error);
    else
        bl_json_write_null(writer);
}

void turn_result_seal(struct turn *turn)
{
    struct bl_turn_result *result = turn->result;
    struct bl_json_writer writer;
    struct bl_buffer out;

    turn_let_go(turn);
    bl_buffer_init(&out, TURN_JSON_MAX);
    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    bl_json_put_text(&writer, "turn_id", bl_text_from(result->turn_id));
    bl_json_put_text(&writer, "prompt", result->prompt);
    bl_json_put_text(&writer, "output", result->output);
    bl_json_put_text(&writer, "stop_reason", bl_text_from(bl_turn_end_name(result->end)));
    bl_json_put_boolean(&writer, "cancel_observed", result->cancel_observed);
    bl_json_put_boolean(&writer, "interrupted", result->interrupted);
    write_names(&writer, "matched_commands", turn->engine->matched_commands);
    write_names(&writer, "matched_tools", turn->engine->matched_tools);
    write_denials(&writer, &result->denials);
    write_steps(&writer, &result->steps);
    write_end(&writer, result);
    bl_json_write_end(&writer);
    result->json = bl_arena_text(turn->arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
}

struct bl_text turn_receipt_text(struct bl_receipt *receipt, struct bl_arena *arena)
{
    struct bl_json_writer writer;
    struct bl_buffer out;
    struct bl_scope shield;

    if (bl_scope_check(receipt->scope) == 0)
        return (struct bl_text){0};
    /* A stop that came just now is handed down in the loop's next turn. */
    bl_shield_begin(&shield, BL_NS_PER_S);
    while (!receipt->observed && bl_yield() == 0)
        continue;
    bl_shield_end(&shield);
    if (bl_receipt_elsewhere(receipt))
        return (struct bl_text){0};
    bl_buffer_init(&out, TURN_JSON_MAX);
    bl_json_writer_init(&writer, &out);
    bl_receipt_write(receipt, &writer);
    struct bl_text text = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text;
}
