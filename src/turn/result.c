#include "parts.h"

static const char *const end_names[] = {
#define END_NAME(name, text) text,
    BL_TURN_END_TABLE(END_NAME)
#undef END_NAME
};
const struct bl_names bl_turn_ends = BL_NAMES(end_names);

const char *bl_turn_end_name(enum bl_turn_end end)
{
    const char *name = bl_names_get(&bl_turn_ends, end);
    return name != NULL ? name : "error";
}

/* ---- As JSON --------------------------------------------------------------------------------- */

static const char *const status_names[] = {"ok", "error", "denied", "invalid", "stopped"};
const struct bl_names bl_step_statuses = BL_NAMES(status_names);

#define BL_RECORD_STRUCT struct bl_denial
static const struct bl_member denial_members[] = {
    BL_MEMBER_TEXT("tool_name", tool),
    BL_MEMBER_TEXT("reason", reason, .least = 1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record denial_record =
    BL_RECORD("permission_denial", struct bl_denial, denial_members, .closed = true);

#define BL_RECORD_STRUCT struct bl_step
static const struct bl_member step_members[] = {
    BL_MEMBER_TEXT("id", id, .about = "Of the call."),
    BL_MEMBER_TEXT("tool", tool),
    BL_MEMBER_STRING("status", status, .names = &bl_step_statuses,
                     .about = "error: the tool says that it failed; denied: no rule allows it; "
                              "invalid: it could not be run as it was asked for; stopped: it was "
                              "running when the stop came."),
    BL_MEMBER_INTEGER("ms", ms),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record step_record =
    BL_RECORD("step", struct bl_step, step_members, .closed = true);

static const struct bl_form turn_id_form = {"a turn's id", "^turn_", NULL};
static const struct bl_member matched = {
    .type = BL_TYPE_STRING, .size = sizeof(char *), .least = 1};

#define BL_RECORD_STRUCT struct bl_turn_result
static const struct bl_member result_members[] = {
    BL_MEMBER_WORD("turn_id", turn_id, .cut = true, .form = &turn_id_form),
    BL_MEMBER_TEXT("prompt", prompt),
    BL_MEMBER_TEXT("output", output,
                   .about = "The text of the last answer; of a turn that did not complete, what "
                            "had come of it."),
    BL_MEMBER_ENUM("stop_reason", end, &bl_turn_ends,
                   .about = "Why a turn ended; a closed set. A provider's own time-out is an "
                            "error."),
    BL_MEMBER_BOOLEAN("cancel_observed", cancel_observed,
                      .about = "True when it was stopped and nothing of it had to be killed."),
    BL_MEMBER_BOOLEAN("interrupted", interrupted,
                      .about = "True when it was stopped and kept: it is in the session as it "
                               "stood."),
    BL_MEMBER_ARRAY("matched_commands", matched_commands, matched_command_count, &matched,
                    .about = "By routing."),
    BL_MEMBER_ARRAY("matched_tools", matched_tools, matched_tool_count, &matched,
                    .about = "By routing."),
    BL_MEMBER_LIST("permission_denials", denials, &denial_record, struct bl_denial, link),
    BL_MEMBER_LIST("steps", steps, &step_record, struct bl_step, link,
                   .about = "Tool calls, in their order."),
    BL_MEMBER_OBJECT("usage", usage, &bl_usage_record,
                     .about = "What is committed: zero of a turn that left no trace in the "
                              "session."),
    BL_MEMBER_OBJECT("spent", spent, &bl_spent_record),
    BL_MEMBER_BOOLEAN("truncated", truncated,
                      .about = "The model reached the limit of its answer."),
    BL_MEMBER_TIME("started_at", started_wall_ns),
    BL_MEMBER_INTEGER("duration_ms", duration_ms),
    BL_MEMBER_RAW("receipt", receipt, .nullable = true, .record = &bl_receipt_record,
                  .about = "null: nobody stopped it."),
    BL_MEMBER_OBJECT("error", error, &bl_error_record, .nullable = true, BL_KNOWN(failed),
                     .about = "Of a turn that ended as error, or of one that was to be kept and "
                              "could not be."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_turn_result_record =
    BL_RECORD("turn_result", struct bl_turn_result, result_members, .closed = true,
              .about = "All members are always there. Every stop reason but completed leaves the "
                       "session as it was, unless interrupted is true.");

static size_t turn_result_count_names(const char *const *names)
{
    size_t count = 0;
    while (names != NULL && names[count] != NULL)
        count++;
    return count;
}

void turn_result_seal(struct turn *turn)
{
    struct bl_turn_result *result = turn->result;
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, TURN_JSON_MAX);

    turn_let_go(turn);
    result->failed = result->error.code != 0;
    result->matched_commands = turn->engine->matched_commands;
    result->matched_command_count = turn_result_count_names(result->matched_commands);
    result->matched_tools = turn->engine->matched_tools;
    result->matched_tool_count = turn_result_count_names(result->matched_tools);
    bl_json_writer_init(&writer, &out);
    bl_record_write(&writer, &bl_turn_result_record, result);
    result->json = bl_arena_text(turn->arena, bl_buffer_text(&out));
}

struct bl_text turn_receipt_text(struct bl_receipt *receipt, struct bl_arena *arena)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, TURN_JSON_MAX);
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
    bl_json_writer_init(&writer, &out);
    bl_receipt_write(receipt, &writer);
    return bl_arena_text(arena, bl_buffer_text(&out));
}
