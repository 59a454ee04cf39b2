/* Requests to other processes: to stop work, and to call the methods that they offer. */
#include <stdio.h>
#include <stdlib.h>

#include "ask.h"

#define PARAMS_MAX ((size_t)4096)
/* Size of the first request on a connection, without its method and parameters. */
#define FRAME_SIZE (sizeof "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\",\"params\":}" - 1)

/* ---- Finding an id --------------------------------------------------------------------------- */

/* Finds the process where the id runs, by name or as a session. `names` gets all full names that
 * the id may stand for. */
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
                /* A full name is unambiguous, even if it is the last part of another one. */
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
                 "%zu running activities have the id %s%s", names->count, id,
                 strcmp(operation, "cancel") == 0 ? ": nothing was stopped" : "");
    bl_error_hint(error, "use one of the full names: %s", text);
    return BL_EEXIST;
}

int ask_not_found(const struct asking *asking, const char *operation, const char *id,
                  struct bl_error *error)
{
    bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, operation, id, "no running work with id '%s'",
                 id);
    BL_LIST_EACH (link, &asking->questions) {
        const struct question *question = BL_CONTAINER(link, struct question, link);
        if (!question_answered(question) && !question->dead && question->code != BL_ENOENT) {
            bl_error_hint(error, "process %lld does not answer, and may have it",
                          (long long)question->pid);
            return BL_ENOENT;
        }
    }
    bl_error_hint(error, "'belay ps' lists running work, with its ids");
    return BL_ENOENT;
}

/* Finds the process that holds an idle session with that id. */
static struct question *order_find_open(const struct asking *asking, struct bl_text id)
{
    BL_LIST_EACH (link, &asking->questions) {
        struct question *question = BL_CONTAINER(link, struct question, link);
        BL_LIST_EACH (at, &question->state.sessions)
            if (bl_text_equal(BL_CONTAINER(at, struct bl_open_session_view, link)->session, id))
                return question;
    }
    return NULL;
}

static int order_idle(const struct question *question, const char *operation, const char *id,
                      struct bl_error *error)
{
    bl_error_set(error, BL_EBUSY, BL_KIND_SESSION, operation, id,
                 "session %s is open in process %lld, but idle: it has no running work", id,
                 (long long)question->pid);
    bl_error_hint(error,
                  "that process holds the session until it leaves it; 'belay ps' shows more, "
                  "and --fork continues a copy");
    return BL_EBUSY;
}

static int order_lost(const struct question *question, const char *id, struct bl_error *error)
{
    bl_error_set(error, BL_EUNKNOWN, BL_KIND_DELIVERY, "cancel", id,
                 "process %lld, which ran %s, exited without an answer", (long long)question->pid,
                 id);
    bl_error_hint(error, "its work stopped with it; 'belay ps' lists running work");
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
    struct question *open =
        code == 0 && found == NULL ? order_find_open(asking, bl_text_from(id)) : NULL;
    if (open != NULL) {
        *ret_question = open;
        return order_idle(open, operation, id, error);
    }
    if (code == BL_ENOENT || (code == 0 && found == NULL))
        return ask_not_found(asking, operation, id, error);
    if (code == 0 && names.count > 1)
        return several(&names, operation, id, error);
    *ret_question = found;
    return code;
}

/* ---- Cancel ---------------------------------------------------------------------------------- */

enum control_stop {
    CONTROL_STOP,
    CONTROL_STOP_NOW,
    CONTROL_STOP_AFTER_STEP,
};

/* Explains why the process refused. */
static int order_refused(const struct question *question, const char *id, struct bl_error *error)
{
    const struct asking *asking = question->asking;
    int64_t why = question->failure.code;
    if (why == BL_RPC_NOT_FOUND)
        return ask_not_found(asking, "cancel", id, error);
    if (why == BL_RPC_NO_METHOD)
        return bl_error_set(error, BL_ENOTSUP, BL_KIND_DELIVERY, "cancel", id,
                            "process %lld is an older belay, which cannot stop after a step",
                            (long long)question->pid);
    bool gently = strcmp(asking->method, "finish") == 0;
    int code = gently && why == BL_RPC_INVALID_PARAMS ? BL_ENOTSUP : BL_EREFUSED;
    bl_error_set(error, code, BL_KIND_DELIVERY, "cancel", id, "process %lld refused: %s",
                 (long long)question->pid, question->failure.message.data);
    if (code == BL_ENOTSUP)
        bl_error_hint(error, "only runs, chats and sub-agents have steps; omit --after-step to "
                             "stop it now");
    return code;
}

static int cancel_there(struct question *question, const char *id, const char *origin,
                        enum control_stop how, struct bl_text *ret_receipt, struct bl_error *error)
{
    struct asking *asking = question->asking;
    asking->method = how == CONTROL_STOP_AFTER_STEP ? "finish" : "cancel";
    asking->params =
        bl_record_text(asking->arena, &control_cancel_record,
                       &(struct control_cancel){.id = id,
                                                .origin = origin != NULL ? origin : "belay cancel",
                                                .now = how == CONTROL_STOP_NOW});
    asking->place_ns = serve_timeout_ns;
    if (asking->params.size > PARAMS_MAX)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "cancel", id, "the id is too long");
    question->code = ask_one(question);
    int stopped = bl_check();
    if (stopped != 0)
        return stopped;
    if (question->code != 0)
        return order_lost(question, id, error);
    if (question->failed)
        return order_refused(question, id, error);
    struct control_receipt answer;
    bl_record_take(asking->arena, &control_receipt_record, question->result, &answer);
    *ret_receipt = answer.receipt;
    return 0;
}

static int order_stop(struct bl_arena *arena, const char *id, const char *origin,
                      enum control_stop how, struct bl_text *ret_receipt, struct bl_error *error)
{
    struct asking asking;
    struct question *found = NULL;
    int code = ask_whose(&asking, arena, "cancel", id, &found, error);
    if (code == 0)
        code = cancel_there(found, id, origin, how, ret_receipt, error);
    asking_done(&asking);
    return code;
}

int bl_control_cancel(struct bl_arena *arena, const char *id, const char *origin, bool now,
                      struct bl_text *ret_receipt, struct bl_error *error)
{
    return order_stop(arena, id, origin, now ? CONTROL_STOP_NOW : CONTROL_STOP, ret_receipt, error);
}

int bl_control_finish(struct bl_arena *arena, const char *id, const char *origin,
                      struct bl_text *ret_receipt, struct bl_error *error)
{
    return order_stop(arena, id, origin, CONTROL_STOP_AFTER_STEP, ret_receipt, error);
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
    /* A process with an idle session has fibers, too. */
    if (code == BL_EBUSY) {
        code = 0;
        if (error != NULL)
            *error = (struct bl_error){0};
    }
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

/* Restores the error that the method set. */
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
                 (long long)question->pid, message.size > 0 ? message.data : "no reason given");
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
                            "process %lld listens but does not answer", pid);
    bl_error_hint(error, "if it is paused, 'kill -CONT %lld' continues it", pid);
    return code;
}

/* Explains a request without an answer. */
static int no_answer(const struct question *question, const char *method, struct bl_error *error)
{
    int code = question->code, stopped = bl_check();
    if (stopped != 0 || code == BL_ENOENT)
        return stopped != 0 ? stopped : code;
    bl_error_set(error, BL_EUNKNOWN, BL_KIND_DELIVERY, method, NULL,
                 "process %lld exited without an answer", (long long)question->pid);
    bl_error_hint(error, "its work stopped with it; 'belay ps' lists running work");
    return BL_EUNKNOWN;
}

/* A call whose process is checked meanwhile. */
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
        code = bl_sleep(serve_timeout_ns);
        if (code == 0 && !ask_ping(calling->question)) {
            calling->silent = bl_check() == 0;
            bl_scope_stop(&calling->scope, BL_STOP_TIMEOUT, "silent");
        }
    }
    return code;
}

/* Returns 0 or an error. After BL_ENOENT and BL_ENOTSUP, another process may be meant. */
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

/* Calls each process with that pid: processes in other PID namespaces may have the same one. */
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
        code =
            bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, method, NULL, "the request is too long");
    else if (code == 0)
        code = call_all(&asking, pid, ret_result, error);
    asking_done(&asking);
    if (code == BL_ENOENT)
        bl_error_set(error, code, BL_KIND_DELIVERY, method, NULL,
                     "no process with pid %lld listens", (long long)pid);
    return code;
}
