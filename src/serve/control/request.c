#include "request.h"

#include <stdio.h>
#include <unistd.h>

#define RECEIPT_MAX ((size_t)8 << 20)
/* Largest description of fibers: with escapes, it still fits into an answer. */
#define DESCRIPTION_MAX ((size_t)2 << 20)
/* The size of a stop's origin. */
#define ORIGIN_SIZE sizeof(((struct bl_stop *)NULL)->origin)

/* ---- Answers --------------------------------------------------------------------------------- */

static void request_answer(struct bl_rpc_call *call, const struct bl_record *record,
                           const void *from, const char *too_long)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(text, SERVE_ANSWER_MAX);
    bl_json_writer_init(&writer, &text);
    bl_record_write(&writer, record, from);
    if (bl_json_writer_done(&writer) == 0)
        bl_rpc_answer(call, bl_buffer_text(&text));
    else
        bl_rpc_fail(call, BL_RPC_INTERNAL, too_long, (struct bl_text){0});
}

/* Refuses a call for a bad parameter. */
static void control_request_refuse(struct bl_rpc_call *call, const char *path, const char *message)
{
    char data[64];
    int size = snprintf(data, sizeof data, "{\"path\":\"%s\"}", path);
    bl_rpc_fail(call, BL_RPC_INVALID_PARAMS, message, (struct bl_text){data, (size_t)size});
}

static void control_request_refuse_unknown(struct bl_rpc_call *call)
{
    bl_rpc_fail(call, BL_RPC_NOT_FOUND, "no running work with that id", (struct bl_text){0});
}

/* Reads the parameters. If they are not valid, refuses the call and returns false. */
static bool request_read_params(struct bl_rpc_call *call, const struct bl_record *record,
                                void *into)
{
    static const struct bl_json none[] = {{.type = BL_JSON_OBJECT}, {.type = BL_JSON_END}};
    const struct bl_json *params = bl_rpc_call_params(call);
    struct bl_record_fault fault = {0};
    char message[sizeof fault.path + sizeof fault.message];
    if (bl_record_view(bl_rpc_call_arena(call), record, params != NULL ? params : none, into,
                       &fault) == 0)
        return true;
    bl_record_fault_text(&fault, message, sizeof message);
    control_request_refuse(call, fault.path, message);
    return false;
}

/* ---- Answered at once ------------------------------------------------------------------------ */

/* Lists the activities that the id stands for, or all if `id` is NULL. */
static void request_list(const struct serve_client *client, struct bl_arena *arena, const char *id,
                         struct bl_list *ret_list)
{
    bl_list_init(ret_list);
    BL_LIST_EACH (link, &client->requests->activities->list) {
        const struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (id == NULL || serve_is_meant(activity, id))
            bl_list_push_back(ret_list, &bl_activity_view(arena, activity)->link);
    }
}

static void control_request_answer_ps(struct serve_client *client, struct bl_rpc_call *call)
{
    struct control_state state = {.pid = getpid(),
                                  .started_wall_ns = client->requests->started_wall_ns};
    request_list(client, bl_rpc_call_arena(call), NULL, &state.activities);
    bl_activities_sessions(client->requests->activities, bl_rpc_call_arena(call), &state.sessions);
    request_answer(call, &control_state_record, &state, "the list does not fit into an answer");
}

static void answer_status(struct serve_client *client, struct bl_rpc_call *call)
{
    struct control_state found;
    struct control_id params;
    if (!request_read_params(call, &control_id_record, &params))
        return;
    request_list(client, bl_rpc_call_arena(call), params.id, &found.activities);
    if (bl_list_empty(&found.activities))
        control_request_refuse_unknown(call);
    else
        request_answer(call, &control_found_record, &found, "the list does not fit into an answer");
}

/* Sends a message to the current turn of a session or of a sub-agent. */
static void answer_inject(struct serve_client *client, struct bl_rpc_call *call)
{
    struct control_inject params;
    struct bl_activity *found = NULL;
    char message[BL_ID_SIZE] = "";
    if (!request_read_params(call, &control_inject_record, &params))
        return;
    BL_LIST_EACH (link, &client->requests->activities->list) {
        struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (found == NULL && activity->inject != NULL && serve_is_meant(activity, params.session))
            found = activity;
    }
    if (found == NULL) {
        control_request_refuse_unknown(call);
        return;
    }
    int code = found->inject(found, params.text, message);
    if (code != 0)
        bl_rpc_fail(call, BL_RPC_INVALID_REQUEST, bl_error_text(code), (struct bl_text){0});
    else
        request_answer(call, &control_id_record, &(struct control_id){message}, "");
}

/* Starts to send events to the client; a later request changes the id. */
static void answer_watch(struct serve_client *client, struct bl_rpc_call *call)
{
    struct control_id params;
    size_t count = 0;
    if (!request_read_params(call, &control_any_record, &params))
        return;
    BL_LIST_EACH (link, &client->requests->watchers)
        count += link != &client->watcher.link;
    /* Watchers stay connected: leave room for other clients. */
    if (count >= BL_CONTROL_WATCHERS_MAX) {
        bl_rpc_fail(call, BL_RPC_BUSY, "too many watchers", (struct bl_text){0});
        return;
    }
    struct serve_watcher *watcher = &client->watcher;
    bl_text_into(watcher->id, sizeof watcher->id, params.id != NULL ? params.id : "");
    watcher->rpc = bl_rpc_call_rpc(call);
    watcher->running = watcher->ended = false;
    bl_list_remove(&watcher->link);
    bl_list_push_back(&client->requests->watchers, &watcher->link);
    serve_watchers_follow(&client->requests->watchers, &client->requests->activities->list);
    request_answer(call, &control_watched_record,
                   &(struct control_watched){.running = watcher->running}, "");
}

/* Describes every fiber of the process. Text that does not fit is cut off at the end: the answer is
 * for a person who looks for a hang. */
static void answer_debug(struct serve_client *client BL_UNUSED, struct bl_rpc_call *call)
{
    BL_AUTO_BUFFER(text, DESCRIPTION_MAX);
    struct bl_control_description description = {.pid = getpid()};
    description.whole = bl_loop_describe(bl_loop_current(), &text) == 0;
    description.fibers = bl_buffer_text(&text);
    request_answer(call, &control_description_record, &description,
                   "the fibers do not fit into an answer");
}

/* ---- Answered later -------------------------------------------------------------------------- */

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

/* If several activities have the id, refuses the call: none of them is meant. */
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
    size_t size = (size_t)snprintf(message, sizeof message, "several activities have that id: ");
    serve_names_text(&names, message + size, sizeof message - size);
    control_request_refuse(call, "/id", message);
    return true;
}

struct cancelling {
    struct serve_client *client;
    bool gently;
    struct control_cancel params;
};

/* The origin for the receipt: the origin and the reason that the client gave. */
static void make_origin(char out[ORIGIN_SIZE], const struct control_cancel *params)
{
    bool reason = params->reason != NULL && params->reason[0] != '\0';
    bool origin = params->origin != NULL && params->origin[0] != '\0';
    char text[2 * ORIGIN_SIZE];
    snprintf(text, sizeof text, "%s%s%s", origin ? params->origin : "control", reason ? ": " : "",
             reason ? params->reason : "");
    bl_text_into(out, ORIGIN_SIZE, text);
}

static void control_request_cancel_main(void *context, struct bl_rpc_call *call)
{
    const struct cancelling *cancelling = context;
    struct bl_activities *activities = cancelling->client->requests->activities;
    const char *id = cancelling->params.id;
    struct bl_buffer receipt;
    char origin[ORIGIN_SIZE];
    make_origin(origin, &cancelling->params);
    bl_buffer_init(&receipt, RECEIPT_MAX);
    if (cancelling->params.now)
        bl_activities_hurry(activities, id);
    int code = cancelling->gently ? bl_activities_finish(activities, id, origin, &receipt)
                                  : bl_activities_cancel(activities, id, origin, &receipt);
    if (code == 0)
        request_answer(call, &control_receipt_record,
                       &(struct control_receipt){bl_buffer_text(&receipt)},
                       "stopped; the receipt does not fit into an answer");
    else if (code == BL_ENOENT)
        control_request_refuse_unknown(call);
    else if (code == BL_ENOTSUP)
        control_request_refuse(call, "/id", "the work with that id has no steps");
    else if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        bl_rpc_drop(call);
    else
        bl_rpc_fail(call, BL_RPC_INTERNAL, bl_error_text(code), (struct bl_text){0});
    bl_buffer_done(&receipt);
    work_end(cancelling->client);
}

static void control_request_stop(struct serve_client *client, struct bl_rpc_call *call, bool gently)
{
    struct cancelling *cancelling = bl_arena_alloc(bl_rpc_call_arena(call), sizeof *cancelling);
    cancelling->client = client;
    cancelling->gently = gently;
    if (!request_read_params(call, &control_cancel_record, &cancelling->params) ||
        control_request_is_ambiguous(client, call, cancelling->params.id))
        return;
    work_begin(client);
    bl_rpc_call_start(call, control_request_cancel_main, cancelling);
    if (bl_rpc_answered(call))
        work_end(client);
}

static void answer_cancel(struct serve_client *client, struct bl_rpc_call *call)
{
    control_request_stop(client, call, false);
}

static void answer_finish(struct serve_client *client, struct bl_rpc_call *call)
{
    control_request_stop(client, call, true);
}

/* ---- Offers ---------------------------------------------------------------------------------- */

/* The error's code becomes the code of the answer; the whole error is its data. */
static void answer_error(struct bl_rpc_call *call, int code, struct bl_error *error)
{
    BL_AUTO_BUFFER(data, SERVE_ANSWER_MAX);
    struct bl_json_writer writer;
    bl_error_set(error, code, BL_KIND_RUNTIME, "answer", NULL, "%s", bl_error_text(code));
    bl_json_writer_init(&writer, &data);
    bl_record_write(&writer, &bl_error_record, error);
    bl_rpc_fail(call, code, error->message, bl_buffer_text(&data));
}

struct offered {
    struct serve_client *client;
    const struct bl_control_offer *offer;
};

/* Stopped when the client disconnects or the control ends; then the answer is not needed. */
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
        bl_rpc_fail(call, BL_RPC_INTERNAL, "done; the result does not fit into an answer",
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
} methods[] = {{"ps", control_request_answer_ps},
               {"cancel", answer_cancel},
               {"finish", answer_finish},
               {"status", answer_status},
               {"inject", answer_inject},
               {"watch", answer_watch},
               {"debug", answer_debug}};

static void control_request_refuse_method(const struct serve_client *client,
                                          struct bl_rpc_call *call)
{
    const struct serve_offers *offers = &client->requests->offers;
    size_t count = BL_COUNT(methods) + offers->count;
    char message[512];
    size_t size = (size_t)snprintf(message, sizeof message, "unknown method (expected ");
    for (size_t i = 0; i < count && size < sizeof message; i++)
        size += (size_t)snprintf(message + size, sizeof message - size, "%s%s",
                                 i == 0          ? ""
                                 : i + 1 < count ? ", "
                                                 : " or ",
                                 i < BL_COUNT(methods) ? methods[i].name
                                                       : offers->items[i - BL_COUNT(methods)].name);
    if (size < sizeof message)
        snprintf(message + size, sizeof message - size, ")");
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
