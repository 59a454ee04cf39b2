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

static const char *const status_names[] = {"ok",      "error",   "denied",
                                           "invalid", "stopped", "not_run"};
const struct bl_names bl_step_statuses = BL_NAMES(status_names);

#define BL_RECORD_STRUCT struct bl_denial
static const struct bl_member denial_members[] = {
    BL_MEMBER_TEXT("tool_name", tool),
    BL_MEMBER_TEXT("reason", reason, .least = 1),
    BL_MEMBER_STRINGS("rules", rules, .optional = true,
                      .about = "Rules that would allow it, in the form of `--allow`; absent if "
                               "no rule would."),
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
                     .about = "error: the tool reported a failure; denied: no rule allows it; "
                              "invalid: the call was invalid; stopped: it was running when the "
                              "stop came; not_run: the turn ended, or reached its limit of "
                              "calls, before the call: only in tool_ended, and not a step."),
    BL_MEMBER_INTEGER("ms", ms),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record step_record =
    BL_RECORD("step", struct bl_step, step_members, .closed = true);

static const struct bl_form turn_id_form = {"a turn's id", "^turn_", NULL};
static const struct bl_member matched = {
    .type = BL_TYPE_STRING, .size = sizeof(char *), .least = 1};

#define MODEL_WAIT(name, text, words) "|" text
static const struct bl_form stopped_during_form = {
    "a phase of a turn",
    "^(entry|between steps|events|store: begin|store: commit|tools: starting|tools: ending|"
    "(tool|hook|permission): .+|model: (-" BL_MODEL_WAIT_TABLE(MODEL_WAIT) "))$",
    NULL};
#undef MODEL_WAIT

#define BL_RECORD_STRUCT struct bl_turn_result
static const struct bl_member result_members[] = {
    BL_MEMBER_WORD("turn_id", turn_id, .cut = true, .form = &turn_id_form),
    BL_MEMBER_TEXT("prompt", prompt),
    BL_MEMBER_TEXT("output", output,
                   .about = "The text of the last answer; of a turn that did not complete, the "
                            "text received until then."),
    BL_MEMBER_ENUM("stop_reason", end, &bl_turn_ends,
                   .about = "Why a turn ended; a closed set. A provider's own timeout is an "
                            "error."),
    BL_MEMBER_BOOLEAN("cancel_observed", cancel_observed,
                      .about = "True if the turn was stopped and no unit had to be killed."),
    BL_MEMBER_STRING("stopped_during", stopped_during, .optional = true, .nullable = true,
                     .form = &stopped_during_form,
                     .about =
                         "The phase in which the turn was stopped; null if it was not stopped. "
                         "Absent in results of earlier versions."),
    BL_MEMBER_BOOLEAN("interrupted", interrupted,
                      .about = "True if the turn was stopped and kept: the session has it as it "
                               "was then."),
    BL_MEMBER_ARRAY("matched_commands", matched_commands, matched_command_count, &matched,
                    .about = "By routing."),
    BL_MEMBER_ARRAY("matched_tools", matched_tools, matched_tool_count, &matched,
                    .about = "By routing."),
    BL_MEMBER_LIST("permission_denials", denials, &denial_record, struct bl_denial, link),
    BL_MEMBER_LIST("steps", steps, &step_record, struct bl_step, link,
                   .about = "Tool calls, in order."),
    BL_MEMBER_OBJECT("usage", usage, &bl_usage_record,
                     .about = "Committed usage: zero for a turn that left no trace in the "
                              "session."),
    BL_MEMBER_OBJECT("spent", spent, &bl_spent_record),
    BL_MEMBER_BOOLEAN("truncated", truncated, .about = "The answer reached the output limit."),
    BL_MEMBER_TIME("started_at", started_wall_ns),
    BL_MEMBER_INTEGER("duration_ms", duration_ms),
    BL_MEMBER_RAW("receipt", receipt, .nullable = true, .record = &bl_receipt_record,
                  .about = "null if the turn was not stopped."),
    BL_MEMBER_OBJECT("error", error, &bl_error_record, .nullable = true, BL_KNOWN(failed),
                     .about = "Set if the turn ended as error, or if it was to be kept and could "
                              "not be."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_turn_result_record =
    BL_RECORD("turn_result", struct bl_turn_result, result_members, .closed = true,
              .about = "All members are always present. Every stop reason but completed leaves the "
                       "session unchanged, unless interrupted is true.");

static size_t turn_result_count_names(const char *const *names)
{
    size_t count = 0;
    while (names != NULL && names[count] != NULL)
        count++;
    return count;
}

/* The lists of a result cannot be copied: its texts are replaced temporarily. */
static void turn_result_seal_brief(struct turn *turn, struct bl_buffer *out)
{
    struct bl_turn_result *result = turn->result;
    struct bl_text prompt = result->prompt, output = result->output;
    struct bl_json_writer writer;

    result->brief = (struct bl_text){0};
    if (prompt.size <= TURN_STORED_MAX && output.size <= TURN_STORED_MAX)
        return;
    if (prompt.size > TURN_STORED_MAX)
        result->prompt = bl_utf8_cut(prompt, TURN_STORED_CUT);
    if (output.size > TURN_STORED_MAX)
        result->output = bl_utf8_cut(output, TURN_STORED_CUT);
    bl_buffer_clear(out);
    bl_json_writer_init(&writer, out);
    bl_record_write(&writer, &bl_turn_result_record, result);
    result->brief = bl_arena_text(turn->arena, bl_buffer_text(out));
    result->prompt = prompt;
    result->output = output;
}

void turn_result_seal(struct turn *turn)
{
    struct bl_turn_result *result = turn->result;
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, TURN_JSON_MAX);

    turn_detach_nested(turn);
    result->failed = result->error.code != 0;
    result->matched_commands = turn->engine->matched_commands;
    result->matched_command_count = turn_result_count_names(result->matched_commands);
    result->matched_tools = turn->engine->matched_tools;
    result->matched_tool_count = turn_result_count_names(result->matched_tools);
    bl_json_writer_init(&writer, &out);
    bl_record_write(&writer, &bl_turn_result_record, result);
    result->json = bl_arena_text(turn->arena, bl_buffer_text(&out));
    turn_result_seal_brief(turn, &out);
}

struct bl_text turn_receipt_text(struct bl_receipt *receipt, struct bl_arena *arena)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, TURN_JSON_MAX);
    struct bl_scope shield;

    if (bl_scope_check(receipt->scope) == 0)
        return (struct bl_text){0};
    /* A stop that came just now is passed down in the loop's next iteration. */
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
