#include <belay/runtime.h>

static const struct bl_member turn_element = {
    .type = BL_TYPE_RAW, .size = sizeof(struct bl_text), .record = &bl_turn_result_record};

#define BL_RECORD_STRUCT struct bl_undelivered
static const struct bl_member undelivered_members[] = {
    BL_MEMBER_STRING("id", id, .least = 1),
    BL_MEMBER_TEXT("text", text),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record undelivered_record =
    BL_RECORD("undelivered", struct bl_undelivered, undelivered_members, .closed = true);

#define BL_RECORD_STRUCT struct bl_run_answer
static const struct bl_member answer_members[] = {
    BL_MEMBER_STRING("session_id", session_id, .nullable = true, .form = &bl_session_id_form,
                     .about = "null if the run was stopped before it had one."),
    BL_MEMBER_STRING("provider", provider, .least = 1),
    BL_MEMBER_STRING("model", model, .least = 1),
    BL_MEMBER_TEXT("prompt", prompt),
    BL_MEMBER_INTEGER("max_turns", max_turns, .least = 1, .about = "Limit of turns for this run."),
    BL_MEMBER_DURATION("timeout_seconds", timeout_ns, .nullable = true, BL_KNOWN(timed),
                       .about = "Time limit of the run; null if none."),
    BL_MEMBER_INTEGER("turns_completed", run.turns_completed,
                      .about = "Number of completed turns."),
    BL_MEMBER_ARRAY("turns", turns, turn_count, &turn_element,
                    .about = "In order; with a request id, previously recorded turns come first."),
    BL_MEMBER_TEXT("result", output,
                   .about = "Output of the last turn: the answer, if `final_stop_reason` is "
                            "completed."),
    BL_MEMBER_ENUM("final_stop_reason", run.end, &bl_turn_ends,
                   .about = "Stop reason of the last turn."),
    BL_MEMBER_BOOLEAN("final_cancel_observed", run.cancel_observed),
    BL_MEMBER_STRING("final_stopped_during", run.stopped_during, .nullable = true,
                     .about = "The stopped_during of the last turn."),
    BL_MEMBER_OBJECT("usage", run.usage, &bl_usage_record, .about = "Usage of these turns."),
    BL_MEMBER_OBJECT("spent", run.spent, &bl_spent_record),
    BL_MEMBER_RAW("receipt", run.receipt, .nullable = true, .record = &bl_receipt_record,
                  .about = "null if the run was not stopped."),
    BL_MEMBER_LIST("undelivered", undelivered, &undelivered_record, struct bl_undelivered, link,
                   .about = "Messages that were injected, and are in no turn of the run."),
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
    bl_list_init(&answer->undelivered);
    BL_LIST_EACH (link, &result->undelivered) {
        const struct bl_undelivered *message = BL_CONTAINER(link, struct bl_undelivered, link);
        struct bl_undelivered *copy = bl_arena_alloc(arena, sizeof *copy);
        copy->id = message->id;
        copy->text = message->text;
        bl_list_push_back(&answer->undelivered, &copy->link);
    }
    BL_LIST_EACH (link, &run->turns) {
        const struct bl_turn_result *turn = BL_CONTAINER(link, struct bl_turn_result, link);
        answer->turns[answer->turn_count++] = turn->json;
        answer->output = turn->output;
    }
}
