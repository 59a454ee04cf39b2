#include "request.h"

#include <stdio.h>
#include <unistd.h>

#define RECEIPT_MAX ((size_t)8 << 20)
/* Of fibers: escaped, it stays below an answer. */
#define DESCRIPTION_MAX ((size_t)2 << 20)
/* A stop's origin is no longer. */
#define ORIGIN_SIZE sizeof(((struct bl_stop *)NULL)->origin)

/* ---- Answers --------------------------------------------------------------------------------- */

/* An answer in the making. */
struct answer {
    struct bl_buffer text;
    struct bl_json_writer writer;
};

static void answer_begin(struct answer *answer)
{
    bl_buffer_init(&answer->text, SERVE_ANSWER_MAX);
    bl_json_writer_init(&answer->writer, &answer->text);
    bl_json_write_object(&answer->writer);
}

static void answer_end(struct answer *answer, struct bl_rpc_call *call, const char *too_long)
{
    bl_json_write_end(&answer->writer);
    if (bl_json_writer_done(&answer->writer) == 0)
        bl_rpc_answer(call, bl_buffer_text(&answer->text));
    else
        bl_rpc_fail(call, BL_RPC_INTERNAL, too_long, (struct bl_text){0});
    bl_buffer_done(&answer->text);
}

/* What is wrong with which of the parameters. */
static void control_request_refuse(struct bl_rpc_call *call, const char *path, const char *message)
{
    char data[64];
    int size = snprintf(data, sizeof data, "{\"path\":\"%s\"}", path);
    bl_rpc_fail(call, BL_RPC_INVALID_PARAMS, message, (struct bl_text){data, (size_t)size});
}

static void control_request_refuse_unknown(struct bl_rpc_call *call)
{
    bl_rpc_fail(call, BL_RPC_NOT_FOUND, "nothing of that id runs", (struct bl_text){0});
}

/* A text that must be there, and not be empty; NULL: it was refused. */
static const char *control_request_text_of(struct bl_rpc_call *call, const char *key,
                                           const char *usage)
{
    char path[32];
    struct bl_text text = bl_json_text(bl_json_get(bl_rpc_call_params(call), bl_text_from(key)));
    if (text.size > 0)
        return text.data;
    snprintf(path, sizeof path, "/%s", key);
    control_request_refuse(call, path, usage);
    return NULL;
}

/* ---- What is answered at once ---------------------------------------------------------------- */

static void control_request_answer_ps(struct serve_client *client, struct bl_rpc_call *call)
{
    struct answer answer;
    char time[32];
    bl_time_format(client->requests->started_wall_ns, time);
    answer_begin(&answer);
    bl_json_write_key(&answer.writer, BL_TEXT("pid"));
    bl_json_write_int64(&answer.writer, getpid());
    bl_json_put_string(&answer.writer, "started_at", time);
    bl_json_write_key(&answer.writer, BL_TEXT("activities"));
    bl_activities_write(client->requests->activities, &answer.writer);
    answer_end(&answer, call, "more runs than an answer holds");
}

static void answer_status(struct serve_client *client, struct bl_rpc_call *call)
{
    const char *id = control_request_text_of(call, "id", "status takes {\"id\": text}");
    struct answer answer;
    size_t count = 0;
    if (id == NULL)
        return;
    BL_LIST_EACH (link, &client->requests->activities->list)
        count += serve_is_meant(BL_CONTAINER(link, struct bl_activity, link), id);
    if (count == 0) {
        control_request_refuse_unknown(call);
        return;
    }
    answer_begin(&answer);
    bl_json_write_key(&answer.writer, BL_TEXT("activities"));
    bl_json_write_array(&answer.writer);
    BL_LIST_EACH (link, &client->requests->activities->list) {
        const struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (serve_is_meant(activity, id))
            bl_activity_write(&answer.writer, activity);
    }
    bl_json_write_end(&answer.writer);
    answer_end(&answer, call, "more runs than an answer holds");
}

/* A message for the turn under way: of the session itself, or of a sub-agent by its id. */
static void answer_inject(struct serve_client *client, struct bl_rpc_call *call)
{
    static const char usage[] = "inject takes {\"session\": text, \"text\": text}";
    const char *id = control_request_text_of(call, "session", usage);
    const char *text = id != NULL ? control_request_text_of(call, "text", usage) : NULL;
    struct bl_activity *found = NULL;
    char message[BL_ID_SIZE] = "";
    struct answer answer;
    if (text == NULL)
        return;
    BL_LIST_EACH (link, &client->requests->activities->list) {
        struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (found == NULL && activity->inject != NULL && serve_is_meant(activity, id))
            found = activity;
    }
    if (found == NULL) {
        control_request_refuse_unknown(call);
        return;
    }
    int code = found->inject(found, bl_text_from(text), message);
    if (code != 0) {
        bl_rpc_fail(call, BL_RPC_INVALID_REQUEST, bl_error_text(code), (struct bl_text){0});
        return;
    }
    answer_begin(&answer);
    bl_json_put_string(&answer.writer, "id", message);
    answer_end(&answer, call, "");
}

/* From now on it is told what happens; asked again, of another id. */
static void answer_watch(struct serve_client *client, struct bl_rpc_call *call)
{
    const struct bl_json *id = bl_json_get(bl_rpc_call_params(call), BL_TEXT("id"));
    if (id != NULL && !bl_json_is(id, BL_JSON_STRING)) {
        control_request_refuse(call, "/id", "watch takes {\"id\": text (optional)}");
        return;
    }
    size_t count = 0;
    BL_LIST_EACH (link, &client->requests->watchers)
        count += link != &client->watcher.link;
    /* They stay: others must find a place. */
    if (count >= BL_CONTROL_WATCHERS_MAX) {
        bl_rpc_fail(call, BL_RPC_BUSY, "too many watch already", (struct bl_text){0});
        return;
    }
    struct serve_watcher *watcher = &client->watcher;
    bl_text_into(watcher->id, sizeof watcher->id, id != NULL ? bl_json_text(id).data : "");
    watcher->rpc = bl_rpc_call_rpc(call);
    watcher->running = watcher->ended = false;
    bl_list_remove(&watcher->link);
    bl_list_push_back(&client->requests->watchers, &watcher->link);
    serve_watchers_follow(&client->requests->watchers, &client->requests->activities->list);
    bl_rpc_answer(call, watcher->running ? BL_TEXT("{\"running\":true}")
                                         : BL_TEXT("{\"running\":false}"));
}

/* Every fiber of the process. What does not fit is left out at the end: the answer is for a person
 * who looks for what hangs. */
static void answer_debug(struct serve_client *client BL_UNUSED, struct bl_rpc_call *call)
{
    struct answer answer;
    struct bl_buffer text;
    bl_buffer_init(&text, DESCRIPTION_MAX);
    bool whole = bl_loop_describe(bl_loop_current(), &text) == 0;
    answer_begin(&answer);
    bl_json_put_uint64(&answer.writer, "pid", (uint64_t)getpid());
    bl_json_put_text(&answer.writer, "fibers", bl_buffer_text(&text));
    bl_json_put_boolean(&answer.writer, "whole", whole);
    answer_end(&answer, call, "more fibers than an answer holds");
    bl_buffer_done(&text);
}

/* ---- What takes its time --------------------------------------------------------------------- */

static void work_begin(struct serve_client *client)
{
    client->answering++;
    client->requests->answering++;
}

static void work_end(struct serve_client *client)
{
    struct serve_requests *requests = client->requests;
    client->answering--;
    client->active_ns = bl_now_ns();
    requests->answering--;
    if (requests->closing && requests->answering == 0)
        bl_semaphore_give(&requests->quiet);
}

/* Several that have the same id: then none of them is meant. */
static bool control_request_is_ambiguous(struct serve_client *client, struct bl_rpc_call *call,
                                         const char *id)
{
    struct serve_names names = {0};
    char message[600];
    BL_LIST_EACH (link, &client->requests->activities->list) {
        const struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        char name[BL_ACTIVITY_NAME_SIZE];
        bl_activity_name(activity, name);
        if (strcmp(activity->id, id) == 0)
            serve_names_add(&names, bl_arena_text(bl_rpc_call_arena(call), bl_text_from(name)));
    }
    if (names.count < 2)
        return false;
    size_t size = (size_t)snprintf(message, sizeof message, "several have that id: ");
    serve_names_text(&names, message + size, sizeof message - size);
    control_request_refuse(call, "/id", message);
    return true;
}

/* Who asks, and why. */
static void make_origin(char out[ORIGIN_SIZE], const struct bl_json *params)
{
    struct bl_text origin = bl_json_text(bl_json_get(params, BL_TEXT("origin")));
    struct bl_text reason = bl_json_text(bl_json_get(params, BL_TEXT("reason")));
    char text[2 * ORIGIN_SIZE];
    snprintf(text, sizeof text, "%s%s%s", origin.size > 0 ? origin.data : "control",
             reason.size > 0 ? ": " : "", reason.size > 0 ? reason.data : "");
    bl_text_into(out, ORIGIN_SIZE, text);
}

/* The receipt; null when it had come to its end before the stop reached it. */
static void answer_receipt(struct bl_rpc_call *call, struct bl_text receipt)
{
    struct answer answer;
    answer_begin(&answer);
    bl_json_put_json(&answer.writer, "receipt", receipt);
    answer_end(&answer, call, "stopped; the receipt is longer than an answer");
}

static void control_request_cancel_main(void *context, struct bl_rpc_call *call)
{
    struct serve_client *client = context;
    struct bl_activities *activities = client->requests->activities;
    const struct bl_json *params = bl_rpc_call_params(call);
    const char *id = bl_json_text(bl_json_get(params, BL_TEXT("id"))).data;
    struct bl_buffer receipt;
    char origin[ORIGIN_SIZE];
    make_origin(origin, params);
    bl_buffer_init(&receipt, RECEIPT_MAX);
    if (bl_json_boolean(bl_json_get(params, BL_TEXT("now")), false))
        bl_activities_hurry(activities, id);
    int code = bl_activities_cancel(activities, id, origin, &receipt);
    if (code == 0)
        answer_receipt(call, bl_buffer_text(&receipt));
    else if (code == BL_ENOENT)
        control_request_refuse_unknown(call);
    else if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        bl_rpc_drop(call);
    else
        bl_rpc_fail(call, BL_RPC_INTERNAL, bl_error_text(code), (struct bl_text){0});
    bl_buffer_done(&receipt);
    work_end(client);
}

static bool is_text_or_none(const struct bl_json *value)
{
    return value == NULL || bl_json_is(value, BL_JSON_STRING);
}

static void answer_cancel(struct serve_client *client, struct bl_rpc_call *call)
{
    static const char usage[] = "cancel takes {\"id\": text, \"origin\": text (optional), "
                                "\"reason\": text (optional), \"now\": boolean (optional)}";
    const struct bl_json *params = bl_rpc_call_params(call);
    const struct bl_json *now = bl_json_get(params, BL_TEXT("now"));
    const char *id = control_request_text_of(call, "id", usage);
    if (id == NULL)
        return;
    if (!is_text_or_none(bl_json_get(params, BL_TEXT("origin")))) {
        control_request_refuse(call, "/origin", usage);
    } else if (!is_text_or_none(bl_json_get(params, BL_TEXT("reason")))) {
        control_request_refuse(call, "/reason", usage);
    } else if (now != NULL && !bl_json_is(now, BL_JSON_BOOLEAN)) {
        control_request_refuse(call, "/now", usage);
    } else if (!control_request_is_ambiguous(client, call, id)) {
        work_begin(client);
        bl_rpc_call_start(call, control_request_cancel_main, client);
        if (bl_rpc_answered(call))
            work_end(client);
    }
}

/* ---- Offers ---------------------------------------------------------------------------------- */

/* The code stands for what it is here; the object has the rest. */
static void answer_error(struct bl_rpc_call *call, int code, struct bl_error *error)
{
    struct bl_buffer data;
    struct bl_json_writer writer;
    bl_error_set(error, code, BL_KIND_RUNTIME, "answer", NULL, "%s", bl_error_text(code));
    bl_buffer_init(&data, SERVE_ANSWER_MAX);
    bl_json_writer_init(&writer, &data);
    bl_record_write(&writer, &bl_error_record, error);
    bl_rpc_fail(call, code, error->message, bl_buffer_text(&data));
    bl_buffer_done(&data);
}

struct offered {
    struct serve_client *client;
    const struct bl_control_offer *offer;
};

/* The client's going away, and the end of the control, stop it: then nobody wants an answer. */
static void offer_main(void *context, struct bl_rpc_call *call)
{
    const struct offered *offered = context;
    const struct bl_control_offer *offer = offered->offer;
    struct bl_buffer result;
    struct bl_error *error = bl_arena_zalloc(bl_rpc_call_arena(call), sizeof *error);
    bl_buffer_init(&result, SERVE_ANSWER_MAX);
    int code = offer->run(offer->context, bl_rpc_call_params(call), &result, error);
    if (code == 0 && result.size + 256 <= SERVE_ANSWER_MAX)
        bl_rpc_answer(call, bl_buffer_text(&result));
    else if (code == 0)
        bl_rpc_fail(call, BL_RPC_INTERNAL, "it is done; its result is longer than an answer",
                    (struct bl_text){0});
    else if (bl_scope_stopped(bl_rpc_call_scope(call)))
        bl_rpc_drop(call);
    else
        answer_error(call, code, error);
    bl_buffer_done(&result);
    work_end(offered->client);
}

static void call_offer(struct serve_client *client, struct bl_rpc_call *call,
                       const struct bl_control_offer *offer)
{
    struct offered *offered = bl_arena_alloc(bl_rpc_call_arena(call), sizeof *offered);
    *offered = (struct offered){client, offer};
    work_begin(client);
    bl_rpc_call_start(call, offer_main, offered);
    if (bl_rpc_answered(call))
        work_end(client);
}

/* ---- Methods --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*answer)(struct serve_client *client, struct bl_rpc_call *call);
} methods[] = {{"ps", control_request_answer_ps}, {"cancel", answer_cancel},
               {"status", answer_status},         {"inject", answer_inject},
               {"watch", answer_watch},           {"debug", answer_debug}};

static void control_request_refuse_method(const struct serve_client *client,
                                          struct bl_rpc_call *call)
{
    const struct serve_offers *offers = &client->requests->offers;
    size_t count = BL_COUNT(methods) + offers->count;
    char message[512];
    size_t size = (size_t)snprintf(message, sizeof message, "there is no such method: ");
    for (size_t i = 0; i < count && size < sizeof message; i++)
        size += (size_t)snprintf(message + size, sizeof message - size, "%s%s",
                                 i == 0          ? ""
                                 : i + 1 < count ? ", "
                                                 : " and ",
                                 i < BL_COUNT(methods) ? methods[i].name
                                                       : offers->items[i - BL_COUNT(methods)].name);
    if (size < sizeof message)
        snprintf(message + size, sizeof message - size, " there are");
    bl_rpc_fail(call, BL_RPC_NO_METHOD, message, (struct bl_text){0});
}

void serve_request(void *context, struct bl_rpc_call *call)
{
    struct serve_client *client = context;
    const struct serve_offers *offers = &client->requests->offers;
    struct bl_text name = bl_rpc_call_method(call);
    BL_LOG(BL_ROOM_SERVE, BL_LOG_DEBUG, "asked", BL_LOG_TEXT("method", bl_utf8_cut(name, 64)));
    client->asked++;
    client->active_ns = bl_now_ns();
    for (size_t i = 0; i < BL_COUNT(methods); i++) {
        if (bl_text_equal(name, bl_text_from(methods[i].name))) {
            methods[i].answer(client, call);
            return;
        }
    }
    for (size_t i = 0; i < offers->count; i++) {
        if (bl_text_equal(name, bl_text_from(offers->items[i].name))) {
            call_offer(client, call, &offers->items[i]);
            return;
        }
    }
    control_request_refuse_method(client, call);
}
