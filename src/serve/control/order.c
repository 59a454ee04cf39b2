/* What other processes are asked to do: to stop something, and whatever they offer. */
#include <stdio.h>
#include <stdlib.h>

#include "ask.h"

#define PARAMS_MAX ((size_t)4096)
/* What stands around method and parameters of the first request on a connection. */
#define FRAME_SIZE (sizeof "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\",\"params\":}" - 1)

/* ---- Whose id it is -------------------------------------------------------------------------- */

/* Where the id is at work: by its name, or as a session. `names` has all that it may stand for. */
static struct question *find_id(const struct asking *asking, struct bl_text id,
                                struct serve_names *names)
{
    struct question *named = NULL, *session = NULL;
    BL_LIST_EACH (link, &asking->questions) {
        struct question *question = BL_CONTAINER(link, struct question, link);
        if (question->dead)
            continue;
        BL_LIST_EACH (at, &question->state.activities) {
            const struct bl_activity_view *activity =
                BL_CONTAINER(at, struct bl_activity_view, link);
            if (serve_is_named(activity, id)) {
                serve_names_add(names, activity->name);
                /* A name in full is meant, whatever else has it for its last part. */
                if (bl_text_equal(activity->name, id)) {
                    names->count = 1;
                    return question;
                }
                named = question;
            } else if (serve_is_of_session(activity, id)) {
                session = question;
            }
        }
    }
    return named != NULL ? named : session;
}

static int several(const struct serve_names *names, const char *operation, const char *id,
                   struct bl_error *error)
{
    char text[240];
    serve_names_text(names, text, sizeof text);
    bl_error_set(error, BL_EEXIST, BL_KIND_USAGE, operation, id,
                 "%zu things that run have the id %s%s", names->count, id,
                 strcmp(operation, "cancel") == 0 ? ": nothing was stopped" : "");
    bl_error_hint(error, "name one in full: %s", text);
    return BL_EEXIST;
}

int ask_not_found(const struct asking *asking, const char *operation, const char *id,
                  struct bl_error *error)
{
    bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, operation, id, "nothing with the id '%s' runs",
                 id);
    BL_LIST_EACH (link, &asking->questions) {
        const struct question *question = BL_CONTAINER(link, struct question, link);
        if (!question_answered(question) && !question->dead && question->code != BL_ENOENT) {
            bl_error_hint(error, "process %lld does not answer, and may have it",
                          (long long)question->pid);
            return BL_ENOENT;
        }
    }
    bl_error_hint(error, "'belay ps' lists what runs, with its ids");
    return BL_ENOENT;
}

static int order_lost(const struct question *question, const char *id, struct bl_error *error)
{
    bl_error_set(error, BL_EUNKNOWN, BL_KIND_DELIVERY, "cancel", id,
                 "process %lld, where %s ran, has gone without an answer", (long long)question->pid,
                 id);
    bl_error_hint(error, "what it held is stopped with it; 'belay ps' shows what runs");
    return BL_EUNKNOWN;
}

int ask_whose(struct asking *asking, struct bl_arena *arena, const char *operation, const char *id,
              struct question **ret_question, struct bl_error *error)
{
    struct serve_names names = {0};
    struct question *found = NULL;
    int code = ask_ps(asking, arena, error);
    if (code == 0)
        found = find_id(asking, bl_text_from(id), &names);
    if (code == BL_ENOENT || (code == 0 && found == NULL))
        return ask_not_found(asking, operation, id, error);
    if (code == 0 && names.count > 1)
        return several(&names, operation, id, error);
    *ret_question = found;
    return code;
}

/* ---- Cancel ---------------------------------------------------------------------------------- */

static int cancel_there(struct question *question, const char *id, const char *origin, bool now,
                        struct bl_text *ret_receipt, struct bl_error *error)
{
    struct asking *asking = question->asking;
    asking->method = "cancel";
    asking->params = bl_record_text(
        asking->arena, &control_cancel_record,
        &(struct control_cancel){
            .id = id, .origin = origin != NULL ? origin : "belay cancel", .now = now});
    asking->place_ns = serve_patience_ns;
    if (asking->params.size > PARAMS_MAX)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "cancel", id, "no id is that long");
    question->code = ask_one(question);
    int stopped = bl_check();
    if (stopped != 0)
        return stopped;
    if (question->code != 0)
        return order_lost(question, id, error);
    if (question->failed && question->failure.code == BL_RPC_NOT_FOUND)
        return ask_not_found(asking, "cancel", id, error);
    if (question->failed)
        return bl_error_set(error, BL_EREFUSED, BL_KIND_DELIVERY, "cancel", id,
                            "process %lld refused: %s", (long long)question->pid,
                            question->failure.message.data);
    struct control_receipt answer;
    bl_record_take(asking->arena, &control_receipt_record, question->result, &answer);
    *ret_receipt = answer.receipt;
    return 0;
}

int bl_control_cancel(struct bl_arena *arena, const char *id, const char *origin, bool now,
                      struct bl_text *ret_receipt, struct bl_error *error)
{
    struct asking asking;
    struct question *found = NULL;
    int code = ask_whose(&asking, arena, "cancel", id, &found, error);
    if (code == 0)
        code = cancel_there(found, id, origin, now, ret_receipt, error);
    asking_done(&asking);
    return code;
}

/* ---- Debug ----------------------------------------------------------------------------------- */

int bl_control_describe(struct bl_arena *arena, const char *id,
                        struct bl_control_description *ret_description, struct bl_error *error)
{
    struct asking asking;
    struct question *found = NULL;
    struct bl_text result;
    const struct bl_json *answer;
    char *end;
    int64_t pid = strtoll(id, &end, 10);
    bool number = *end == '\0' && pid > 0;
    int code = ask_whose(&asking, arena, "debug", id, &found, error);
    if (code == 0)
        pid = found->pid;
    asking_done(&asking);
    if (code == 0 || (code == BL_ENOENT && number))
        code = bl_control_call(arena, pid, "debug", (struct bl_text){0}, &result, error);
    if (code == 0)
        code = bl_json_read(arena, result, NULL, &answer, NULL);
    if (code == 0) {
        bl_record_take(arena, &control_description_record, answer, ret_description);
        ret_description->pid = pid;
    }
    return code;
}

/* ---- A call ---------------------------------------------------------------------------------- */

static int order_code_of(int64_t number)
{
    switch (number) {
    case BL_RPC_INVALID_PARAMS: return BL_EINVAL;
    case BL_RPC_NO_METHOD: return BL_ENOTSUP;
    case BL_RPC_NOT_FOUND: return BL_ENOENT;
#define CODE_OF(name, value, text) case value:
        BL_ERROR_TABLE(CODE_OF)
#undef CODE_OF
        return (int)number;
    default: return BL_EUNKNOWN;
    }
}

/* The error as it was set there. */
static int take_error(const struct question *question, const char *method, struct bl_error *error)
{
    const struct bl_json *data = question->failure.data;
    struct bl_text kind = bl_json_text(bl_json_get(data, BL_TEXT("kind")));
    struct bl_text message = question->failure.message;
    int code = order_code_of(question->failure.code);
    if (error == NULL)
        return code;
    *error = (struct bl_error){0};
    bl_error_set(error, code, BL_KIND_DELIVERY, method, NULL, "process %lld refused: %s",
                 (long long)question->pid, message.size > 0 ? message.data : "no reason is given");
    if (kind.size == 0)
        return code;
    struct bl_error told;
    bl_record_take(NULL, &bl_error_record, data, &told);
    told.code = code;
    if (told.message[0] == '\0')
        bl_text_into(told.message, sizeof told.message, error->message);
    *error = told;
    return code;
}

static int is_silent(const struct question *question, const char *method, struct bl_error *error)
{
    long long pid = (long long)question->pid;
    int code = bl_error_set(error, BL_EAGAIN, BL_KIND_DELIVERY, method, NULL,
                            "process %lld listens and does not answer", pid);
    bl_error_hint(error, "is it paused? 'kill -CONT %lld' lets it go on", pid);
    return code;
}

/* What became of a question that has no answer. */
static int no_answer(const struct question *question, const char *method, struct bl_error *error)
{
    int code = question->code, stopped = bl_check();
    if (stopped != 0 || code == BL_ENOENT)
        return stopped != 0 ? stopped : code;
    bl_error_set(error, BL_EUNKNOWN, BL_KIND_DELIVERY, method, NULL,
                 "process %lld has gone without an answer", (long long)question->pid);
    bl_error_hint(error, "what it held is stopped with it; 'belay ps' shows what runs");
    return BL_EUNKNOWN;
}

/* A call while its process is looked after. */
struct calling {
    const struct question *question;
    struct bl_scope scope;
    bool silent;
};

static int ping_main(void *argument)
{
    struct calling *calling = argument;
    int code = 0;
    while (code == 0 && !calling->silent) {
        code = bl_sleep(serve_patience_ns);
        if (code == 0 && !ask_ping(calling->question)) {
            calling->silent = bl_check() == 0;
            bl_scope_stop(&calling->scope, BL_STOP_TIMEOUT, "silent");
        }
    }
    return code;
}

/* 0, or what was wrong; BL_ENOENT and BL_ENOTSUP: another one may be meant. */
static int call_one(struct question *question, const char *method, struct bl_text *ret_result,
                    struct bl_error *error)
{
    struct calling calling = {.question = question};
    struct bl_nursery nursery;
    struct bl_scope *outer = bl_scope_current();
    bl_nursery_init(&nursery, outer);
    bl_scope_init(&calling.scope, outer);
    int code = bl_nursery_spawn(&nursery, NULL, "ping", ping_main, &calling, NULL);
    bl_scope_enter(&calling.scope);
    if (code == 0)
        question->code = ask_one(question);
    bl_scope_enter(outer);
    bl_nursery_done(&nursery);
    bl_scope_done(&calling.scope);
    if (code != 0)
        return code;
    if (question->code != 0 && calling.silent)
        return is_silent(question, method, error);
    if (question->code != 0)
        return no_answer(question, method, error);
    if (question->failed)
        return take_error(question, method, error);
    *ret_result = bl_json_value_text(question->asking->arena, question->result);
    return 0;
}

/* Asks those of that number: processes of other PID namespaces may have it, too. */
static int call_all(struct asking *asking, int64_t pid, struct bl_text *ret_result,
                    struct bl_error *error)
{
    int code = BL_ENOENT;
    BL_LIST_EACH (link, &asking->questions) {
        struct question *question = BL_CONTAINER(link, struct question, link);
        if ((code == BL_ENOENT || code == BL_ENOTSUP) && question_has_pid(question, pid))
            code = call_one(question, asking->method, ret_result, error);
    }
    return code;
}

int bl_control_call(struct bl_arena *arena, int64_t pid, const char *method, struct bl_text params,
                    struct bl_text *ret_result, struct bl_error *error)
{
    struct asking asking;
    int code = ask_begin(&asking, arena, error);
    asking.method = method;
    asking.params = params;
    asking.answer_ns = BL_NEVER;
    asking.place_ns = BL_NEVER;
    if (FRAME_SIZE + strlen(method) + params.size > BL_CONTROL_LINE_MAX)
        code = bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, method, NULL,
                            "that is more than can be asked");
    else if (code == 0)
        code = call_all(&asking, pid, ret_result, error);
    asking_done(&asking);
    if (code == BL_ENOENT)
        bl_error_set(error, code, BL_KIND_DELIVERY, method, NULL, "no process %lld listens",
                     (long long)pid);
    return code;
}
