/* Sends a message to work in another process. */
#include "ask.h"

#define OPERATION "inject"
/* Size of the request around the message. */
#define FRAME_SIZE ((size_t)256)

static bool takes_messages(const struct bl_activity_view *activity)
{
    return bl_text_equal(activity->kind, BL_TEXT("run")) ||
           bl_text_equal(activity->kind, BL_TEXT("agent"));
}

/* Finds the activity with that id, or a session's turn. NULL if it has ended. */
static const struct bl_activity_view *find_taker(const struct question *question, const char *id)
{
    const struct bl_activity_view *found = NULL;
    BL_LIST_EACH (link, &question->state.activities) {
        const struct bl_activity_view *activity = BL_CONTAINER(link, struct bl_activity_view, link);
        if (serve_is_named(activity, bl_text_from(id)))
            return activity;
        if (serve_is_of_session(activity, bl_text_from(id)) &&
            (found == NULL || takes_messages(activity)))
            found = activity;
    }
    return found;
}

static int refuse_kind(const struct bl_activity_view *activity, const char *id,
                       struct bl_error *error)
{
    bl_error_set(error, BL_ENOTSUP, BL_KIND_USAGE, OPERATION, id,
                 "cannot send a message to '%.80s': it is a " BL_TEXT_FORMAT, id,
                 BL_TEXT_ARG(activity->kind));
    bl_error_hint(error, "use the id of a run, a sub-agent, or a session with a running turn; "
                         "'belay ps' lists them");
    return BL_ENOTSUP;
}

static int inject_failed(const struct question *question, const char *id, struct bl_error *error)
{
    if (question->code != 0)
        return bl_error_set(error, BL_EUNKNOWN, BL_KIND_DELIVERY, OPERATION, id,
                            "process %lld exited without an answer: the message may be lost",
                            (long long)question->pid);
    if (question->failure.code == BL_RPC_NOT_FOUND)
        return ask_not_found(question->asking, OPERATION, id, error);
    int code =
        bl_error_set(error, BL_ECLOSED, BL_KIND_DELIVERY, OPERATION, id,
                     "'%.80s' takes no more messages: %s", id, question->failure.message.data);
    bl_error_hint(error, "it is about to end; the message was not delivered");
    return code;
}

static int inject_there(struct question *question, const char *id, struct bl_text text,
                        const char **ret_message, struct bl_error *error)
{
    struct asking *asking = question->asking;
    const struct bl_activity_view *activity = find_taker(question, id);
    struct control_id answer;
    if (activity == NULL)
        return ask_not_found(asking, OPERATION, id, error);
    if (!takes_messages(activity))
        return refuse_kind(activity, id, error);
    asking->method = OPERATION;
    asking->place_ns = serve_timeout_ns;
    asking->params = bl_record_text(
        asking->arena, &control_inject_record,
        &(struct control_inject){.session = bl_arena_text(asking->arena, activity->name).data,
                                 .text = text});
    if (asking->params.size > BL_CONTROL_LINE_MAX - FRAME_SIZE) {
        bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, OPERATION, id,
                     "the message has %zu bytes (limit: %zu, escapes included)", text.size,
                     BL_CONTROL_LINE_MAX - FRAME_SIZE);
        bl_error_hint(error, "write it to a file, and send the file's path");
        return BL_ELIMIT;
    }
    question->code = ask_one(question);
    int stopped = bl_check();
    if (stopped != 0)
        return stopped;
    if (question->code != 0 || question->failed)
        return inject_failed(question, id, error);
    bl_record_take(asking->arena, &control_id_record, question->result, &answer);
    *ret_message = answer.id != NULL ? answer.id : "";
    return 0;
}

int bl_control_inject(struct bl_arena *arena, const char *id, struct bl_text text,
                      const char **ret_message, struct bl_error *error)
{
    struct asking asking;
    struct question *found = NULL;
    int code = ask_whose(&asking, arena, OPERATION, id, &found, error);
    if (code == 0)
        code = inject_there(found, id, text, ret_message, error);
    asking_done(&asking);
    return code;
}
