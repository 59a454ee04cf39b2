#include <belay/runtime.h>

static const struct bl_member turn_element = {
    .type = BL_TYPE_RAW, .size = sizeof(struct bl_text), .record = &bl_turn_result_record};

#define BL_RECORD_STRUCT struct bl_run_answer
static const struct bl_member answer_members[] = {
    BL_MEMBER_STRING("session_id", session_id, .nullable = true, .form = &bl_session_id_form,
                     .about = "null: it was stopped before it had one."),
    BL_MEMBER_STRING("provider", provider, .least = 1),
    BL_MEMBER_STRING("model", model, .least = 1),
    BL_MEMBER_TEXT("prompt", prompt),
    BL_MEMBER_INTEGER("max_turns", max_turns, .least = 1, .about = "Most turns of this run."),
    BL_MEMBER_DURATION("timeout_seconds", timeout_ns, .nullable = true, BL_KNOWN(timed),
                       .about = "Time that the run was given; null: no deadline."),
    BL_MEMBER_INTEGER("turns_completed", run.turns_completed,
                      .about = "How many of these turns are completed."),
    BL_MEMBER_ARRAY("turns", turns, turn_count, &turn_element,
                    .about = "In their order; with a request id, those that were recorded before "
                             "come first."),
    BL_MEMBER_ENUM("final_stop_reason", run.end, &bl_turn_ends,
                   .about = "Stop reason of the last turn."),
    BL_MEMBER_BOOLEAN("final_cancel_observed", run.cancel_observed),
    BL_MEMBER_OBJECT("usage", run.usage, &bl_usage_record, .about = "Usage of these turns."),
    BL_MEMBER_OBJECT("spent", run.spent, &bl_spent_record),
    BL_MEMBER_RAW("receipt", run.receipt, .nullable = true, .record = &bl_receipt_record,
                  .about = "null: nothing stopped it."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_run_answer_record =
    BL_RECORD("run_answer", struct bl_run_answer, answer_members);

void bl_run_answer_init(struct bl_run_answer *answer, struct bl_arena *arena,
                        const struct bl_agent_result *result, const struct bl_model *model)
{
    const struct bl_run_result *run = &result->run;
    size_t count = 0;

    BL_LIST_EACH (link, &run->turns)
        count++;
    *answer = (struct bl_run_answer){
        .session_id = result->session_id[0] != '\0' ? result->session_id : NULL,
        .provider = model != NULL ? model->provider : "none",
        .model = model != NULL ? model->name : "none",
        .turns = bl_arena_alloc(arena, count * sizeof *answer->turns),
        .run = *run,
    };
    BL_LIST_EACH (link, &run->turns)
        answer->turns[answer->turn_count++] = BL_CONTAINER(link, struct bl_turn_result, link)->json;
}
