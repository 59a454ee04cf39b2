#include <assert.h>
#include <stdio.h>

#include "rpc.h"

/* ---- Requests from the peer ------------------------------------------------------------------ */

struct bl_text bl_rpc_call_method(const struct bl_rpc_call *call)
{
    return call->message.method;
}

const struct bl_json *bl_rpc_call_params(const struct bl_rpc_call *call)
{
    return call->message.params;
}

const struct bl_json *bl_rpc_call_id(const struct bl_rpc_call *call)
{
    return call->message.id;
}

struct bl_arena *bl_rpc_call_arena(struct bl_rpc_call *call)
{
    return &call->arena;
}

struct bl_scope *bl_rpc_call_scope(struct bl_rpc_call *call)
{
    return &call->scope;
}

struct bl_rpc *bl_rpc_call_rpc(struct bl_rpc_call *call)
{
    return call->rpc;
}

bool bl_rpc_answered(const struct bl_rpc_call *call)
{
    return call->answered;
}

static void answered(struct bl_rpc_call *call)
{
    assert(!call->answered);
    call->answered = true;
}

void bl_rpc_answer(struct bl_rpc_call *call, struct bl_text result)
{
    answered(call);
    bl_rpc_write_result(&call->rpc->message, call->message.id, result);
    rpc_send(call->rpc);
}

void bl_rpc_fail(struct bl_rpc_call *call, int code, const char *message, struct bl_text data)
{
    answered(call);
    bl_rpc_write_error(&call->rpc->message, call->message.id, code, message, data);
    rpc_send(call->rpc);
}

void bl_rpc_drop(struct bl_rpc_call *call)
{
    answered(call);
}

struct bl_rpc_call *bl_rpc_call_find(const struct bl_rpc *rpc, const struct bl_json *id)
{
    BL_LIST_EACH (link, &rpc->calls) {
        struct bl_rpc_call *call = BL_CONTAINER(link, struct bl_rpc_call, link);
        if (!call->answered && bl_rpc_id_equal(call->message.id, id))
            return call;
    }
    return NULL;
}

static void call_free(struct bl_rpc_call *call)
{
    struct bl_rpc *rpc = call->rpc;
    bl_list_remove(&call->link);
    bl_scope_done(&call->scope);
    bl_arena_done(&call->arena);
    bl_free(call);
    rpc->call_count--;
    rpc_event_signal(&rpc->progress);
}

static int rpc_call_main(void *argument)
{
    struct bl_rpc_call *call = argument;
    struct bl_scope *outer = bl_scope_enter(&call->scope);
    call->main(call->context, call);
    if (!call->answered)
        bl_rpc_fail(call, BL_RPC_INTERNAL, "the request was not answered", (struct bl_text){0});
    bl_scope_enter(outer);
    call_free(call);
    return 0;
}

void bl_rpc_call_start(struct bl_rpc_call *call,
                       void (*main)(void *context, struct bl_rpc_call *call), void *context)
{
    char name[32];
    assert(!call->started && !call->answered);
    call->main = main;
    call->context = context;
    snprintf(name, sizeof name, "%.31s", call->message.method.data);
    int code = bl_nursery_spawn(call->rpc->nursery, NULL, name, rpc_call_main, call, NULL);
    call->started = code == 0;
    if (code != 0)
        bl_rpc_fail(call, BL_RPC_INTERNAL, bl_error_text(code), (struct bl_text){0});
}

static void rpc_call_refuse_method(struct bl_rpc_call *call)
{
    char message[160];
    struct bl_text method = bl_utf8_cut(call->message.method, 80);
    snprintf(message, sizeof message, "there is no such method: " BL_TEXT_FORMAT,
             BL_TEXT_ARG(method));
    bl_rpc_fail(call, BL_RPC_NO_METHOD, message, (struct bl_text){0});
}

void rpc_call_begin(struct bl_rpc *rpc, const struct bl_rpc_message *message)
{
    if (bl_rpc_call_find(rpc, message->id) != NULL) {
        bl_rpc_write_error(&rpc->message, message->id, BL_RPC_INVALID_REQUEST,
                           "a request with this id is still running", (struct bl_text){0});
        rpc_send(rpc);
        return;
    }
    struct bl_rpc_call *call = bl_zalloc(sizeof *call);
    call->rpc = rpc;
    call->message = *message;
    call->arena = rpc->arena;
    bl_arena_init(&rpc->arena);
    bl_scope_init(&call->scope, &rpc->nursery->scope);
    bl_list_push_back(&rpc->calls, &call->link);
    rpc->call_count++;
    if (rpc->options.request != NULL)
        rpc->options.request(rpc->options.context, call);
    if (!call->started && !call->answered)
        rpc_call_refuse_method(call);
    if (!call->started)
        call_free(call);
}

void rpc_calls_stop(struct bl_rpc *rpc, enum bl_stop_reason reason)
{
    BL_LIST_EACH (link, &rpc->calls)
        bl_scope_stop(&BL_CONTAINER(link, struct bl_rpc_call, link)->scope, reason,
                      rpc_origin(rpc));
}

/* ---- Notifications to the peer --------------------------------------------------------------- */

/* Waits while the queue is full, unless waiting is pointless. */
static void rpc_call_await_room(struct bl_rpc *rpc, size_t size)
{
    int code = bl_check();
    rpc->users++;
    while (code == 0 && rpc->gone_why == NULL && !rpc->closing && rpc->queue.size > 0 &&
           rpc->queue.size + size > BL_RPC_QUEUE_MAX)
        code = rpc_event_wait(&rpc->progress);
    rpc->users--;
    if (rpc->closing)
        rpc_event_signal(&rpc->progress);
    if (rpc->queue.size + size > 2 * BL_RPC_QUEUE_MAX && rpc->queue.size > BL_RPC_QUEUE_MAX)
        rpc_takes_nothing(rpc);
}

int bl_rpc_notify(struct bl_rpc *rpc, const char *method, struct bl_text params)
{
    rpc_call_await_room(rpc, params.size);
    if (rpc->gone_why != NULL)
        return BL_EPIPE;
    bl_rpc_write_notification(&rpc->message, method, params);
    rpc_send(rpc);
    return rpc->gone_why != NULL ? BL_EPIPE : 0;
}

/* Escapes the text as a JSON string, without quotes. */
static struct bl_text escape(struct bl_rpc *rpc, struct bl_text text)
{
    struct bl_json_writer writer;
    bl_buffer_clear(&rpc->escaped);
    bl_json_writer_init(&writer, &rpc->escaped);
    bl_json_write_text(&writer, text);
    bl_json_writer_done(&writer);
    return (struct bl_text){rpc->escaped.data + 1, rpc->escaped.size - 2};
}

/* Sends a new message, to which later pieces may be added. */
static void send_piece(struct bl_rpc *rpc, const struct bl_rpc_piece *piece, struct bl_text text)
{
    struct bl_buffer params;
    bl_buffer_init(&params, SIZE_MAX / 2);
    bl_buffer_reserve(&params, piece->head.size + text.size + piece->tail.size + 2);
    bl_buffer_append(&params, piece->head);
    bl_buffer_append_byte(&params, '"');
    bl_buffer_append(&params, text);
    bl_buffer_append_byte(&params, '"');
    bl_buffer_append(&params, piece->tail);
    bl_rpc_write_notification(&rpc->message, piece->method, bl_buffer_text(&params));
    bl_buffer_append_byte(&rpc->message, '\n');
    bl_buffer_done(&params);
    /* The quote, the tail, the brace and the LF. */
    rpc_sent(rpc, rpc_queue_put_open(&rpc->queue, bl_buffer_text(&rpc->message), piece->key,
                                     piece->tail.size + 3));
    rpc_forget(&rpc->message);
}

int bl_rpc_notify_piece(struct bl_rpc *rpc, const struct bl_rpc_piece *piece)
{
    assert(piece->key.size > 0);
    rpc_call_await_room(rpc, piece->text.size);
    if (rpc->gone_why != NULL)
        return BL_EPIPE;
    struct bl_text text = escape(rpc, piece->text);
    if (!rpc_queue_join(&rpc->queue, piece->key, text))
        send_piece(rpc, piece, text);
    rpc_forget(&rpc->escaped);
    return rpc->gone_why != NULL ? BL_EPIPE : 0;
}

/* ---- Requests to the peer -------------------------------------------------------------------- */

/* A request to the peer, on the stack of the caller. */
struct ask {
    struct bl_list link; /* in the connection until it is answered or given up */
    int64_t id;
    struct bl_arena *arena;
    struct bl_semaphore answered;
    bool done;
    int code;
    struct bl_rpc_message message; /* the answer, in the arena */
};

static void ask_done(struct ask *ask, int code)
{
    bl_list_remove(&ask->link);
    ask->done = true;
    ask->code = code;
    bl_semaphore_give(&ask->answered);
}

/* Finds the request that a message answers. An error without an id concerns a message that the peer
 * could not read or refused: if only one request is waiting, it is that one. */
static struct ask *find_ask(const struct bl_rpc *rpc, const struct bl_rpc_message *message)
{
    bool nameless = message->type == BL_RPC_ERROR && bl_json_is(message->id, BL_JSON_NULL);
    int64_t id = -1;
    if (!nameless && !bl_json_int64(message->id, &id))
        return NULL;
    BL_LIST_EACH (link, &rpc->asks) {
        struct ask *ask = BL_CONTAINER(link, struct ask, link);
        if (ask->id == id || (nameless && link->next == link->previous))
            return ask;
    }
    return NULL;
}

/* Reads the line again, into the caller's arena. */
void rpc_ask_end(struct bl_rpc *rpc, const struct bl_rpc_message *message, struct bl_text line)
{
    struct ask *ask = find_ask(rpc, message);
    struct bl_rpc_fault fault;
    if (ask != NULL)
        ask_done(ask, bl_rpc_message_read(ask->arena, line, &ask->message, &fault));
}

void rpc_asks_fail(struct bl_rpc *rpc)
{
    while (!bl_list_empty(&rpc->asks))
        ask_done(BL_CONTAINER(rpc->asks.next, struct ask, link), BL_EPIPE);
}

static void rpc_call_send_request(struct bl_rpc *rpc, const char *method, int64_t id,
                                  struct bl_text params)
{
    const struct bl_json number = {.type = BL_JSON_INTEGER, .integer = id};
    bl_rpc_write_request(&rpc->message, &number, method, params);
    rpc_send(rpc);
}

/* Cancels a request to the peer. */
static void send_cancel(struct bl_rpc *rpc, int64_t id)
{
    char params[64];
    if (rpc->options.cancel_method == NULL || rpc->broken)
        return;
    int size = snprintf(params, sizeof params, "{\"requestId\":%lld}", (long long)id);
    bl_rpc_write_notification(&rpc->message, rpc->options.cancel_method,
                              (struct bl_text){params, (size_t)size});
    rpc_send(rpc);
}

static int rpc_call_read_answer(const struct ask *ask, const char *method,
                                const struct bl_json **ret_result,
                                struct bl_rpc_failure *ret_failure, struct bl_error *error)
{
    const struct bl_rpc_message *message = &ask->message;
    if (message->type == BL_RPC_RESULT) {
        *ret_result = message->result;
        return 0;
    }
    if (ret_failure != NULL)
        *ret_failure = (struct bl_rpc_failure){message->code, message->message, message->data};
    return bl_error_set(error, BL_EREFUSED, BL_KIND_DELIVERY, method, NULL,
                        "%s failed with error %lld: %s", method, (long long)message->code,
                        message->message.size > 0 ? message->message.data : "no reason given");
}

static int peer_gone(const char *method, struct bl_error *error)
{
    return bl_error_set(error, BL_EPIPE, BL_KIND_DELIVERY, method, NULL,
                        "%s: the peer has disconnected", method);
}

int bl_rpc_ask(struct bl_rpc *rpc, const char *method, struct bl_text params,
               struct bl_arena *arena, const struct bl_json **ret_result,
               struct bl_rpc_failure *ret_failure, struct bl_error *error)
{
    struct ask ask = {.arena = arena};
    rpc_call_await_room(rpc, params.size);
    int code = bl_check();
    if (code != 0)
        return code;
    if (rpc->gone_why != NULL || rpc->closing)
        return peer_gone(method, error);
    ask.id = rpc->next_id++;
    bl_semaphore_init(&ask.answered, 0);
    bl_list_push_back(&rpc->asks, &ask.link);
    rpc->users++;
    rpc_call_send_request(rpc, method, ask.id, params);
    code = bl_semaphore_take(&ask.answered);
    bl_list_remove(&ask.link);
    if (code != 0 && !ask.done)
        send_cancel(rpc, ask.id);
    rpc->users--;
    if (rpc->closing)
        rpc_event_signal(&rpc->progress);
    if (code == 0)
        code = ask.code;
    if (code == BL_EPIPE)
        return peer_gone(method, error);
    return code != 0 ? code : rpc_call_read_answer(&ask, method, ret_result, ret_failure, error);
}
