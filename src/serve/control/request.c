#include "request.h"

#include <stdio.h>
#include <unistd.h>

#define RECEIPT_MAX ((size_t)8 << 20)
/* Of fibers: escaped, it stays below an answer. */
#define DESCRIPTION_MAX ((size_t)2 << 20)
/* A stop's origin is no longer. */
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

/* False: they do not fit, and were refused. */
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

/* ---- What is answered at once ---------------------------------------------------------------- */

/* What runs; `id` NULL: all of it. */
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
    request_answer(call, &control_state_record, &state, "more runs than an answer holds");
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
        request_answer(call, &control_found_record, &found, "more runs than an answer holds");
}

/* A message for the turn under way: of the session itself, or of a sub-agent by its id. */
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

/* From now on it is told what happens; asked again, of another id. */
static void answer_watch(struct serve_client *client, struct bl_rpc_call *call)
{
    struct control_id params;
    size_t count = 0;
    if (!request_read_params(call, &control_any_record, &params))
        return;
    BL_LIST_EACH (link, &client->requests->watchers)
        count += link != &client->watcher.link;
    /* They stay: others must find a place. */
    if (count >= BL_CONTROL_WATCHERS_MAX) {
        bl_rpc_fail(call, BL_RPC_BUSY, "too many watch already", (struct bl_text){0});
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

/* Every fiber of the process. What does not fit is left out at the end: the answer is for a person
 * who looks for what hangs. */
static void answer_debug(struct serve_client *client BL_UNUSED, struct bl_rpc_call *call)
{
    BL_AUTO_BUFFER(text, DESCRIPTION_MAX);
    struct bl_control_description description = {.pid = getpid()};
    description.whole = bl_loop_describe(bl_loop_current(), &text) == 0;
    description.fibers = bl_buffer_text(&text);
    request_answer(call, &control_description_record, &description,
                   "more fibers than an answer holds");
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

struct cancelling {
    struct serve_client *client;
    struct control_cancel params;
};

/* Who asks, and why. */
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
    int code = bl_activities_cancel(activities, id, origin, &receipt);
    if (code == 0)
        request_answer(call, &control_receipt_record,
                       &(struct control_receipt){bl_buffer_text(&receipt)},
                       "stopped; the receipt is longer than an answer");
    else if (code == BL_ENOENT)
        control_request_refuse_unknown(call);
    else if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        bl_rpc_drop(call);
    else
        bl_rpc_fail(call, BL_RPC_INTERNAL, bl_error_text(code), (struct bl_text){0});
    bl_buffer_done(&receipt);
    work_end(cancelling->client);
}

static void answer_cancel(struct serve_client *client, struct bl_rpc_call *call)
{
    struct cancelling *cancelling = bl_arena_alloc(bl_rpc_call_arena(call), sizeof *cancelling);
    cancelling->client = client;
    if (!request_read_params(call, &control_cancel_record, &cancelling->params) ||
        control_request_is_ambiguous(client, call, cancelling->params.id))
        return;
    work_begin(client);
    bl_rpc_call_start(call, control_request_cancel_main, cancelling);
    if (bl_rpc_answered(call))
        work_end(client);
}

/* ---- Offers ---------------------------------------------------------------------------------- */

/* The code stands for what it is here; the object has the rest. */
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
