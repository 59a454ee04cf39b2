#include "request.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define RECEIPT_MAX ((size_t)8 << 20)
/* How often one is looked at that has sent its last byte, and may still read. */
#define WATCH_NS (100 * BL_NS_PER_MS)
/* A stop's origin is no longer. */
#define ORIGIN_SIZE sizeof(((struct bl_stop *)NULL)->origin)

/* A request that is well-formed. */
struct request {
    const struct serve_requests *requests;
    const struct bl_json *id;
    const struct bl_json *params;
    struct bl_buffer *answer;
};

static void begin_answer(struct bl_json_writer *writer, struct bl_buffer *answer,
                         const struct bl_json *id)
{
    bl_buffer_clear(answer);
    bl_json_writer_init(writer, answer);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "jsonrpc", "2.0");
    bl_json_write_key(writer, BL_TEXT("id"));
    bl_json_write_value(writer, id);
}

static int end_answer(struct bl_json_writer *writer, struct bl_buffer *answer)
{
    bl_json_write_end(writer);
    int code = bl_json_writer_done(writer);
    return code != 0 ? code : bl_buffer_append_byte(answer, '\n');
}

void serve_failure(struct bl_buffer *answer, const struct bl_json *id, int code,
                   const char *message)
{
    struct bl_json_writer writer;
    begin_answer(&writer, answer, id);
    bl_json_write_key(&writer, BL_TEXT("error"));
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("code"));
    bl_json_write_int64(&writer, code);
    bl_json_put_string(&writer, "message", message);
    bl_json_write_end(&writer);
    end_answer(&writer, answer);
}

/* ---- Methods --------------------------------------------------------------------------------- */

static int answer_ps(const struct request *request)
{
    struct bl_json_writer writer;
    char time[32];
    bl_time_format(request->requests->started_wall_ns, time);
    begin_answer(&writer, request->answer, request->id);
    bl_json_write_key(&writer, BL_TEXT("result"));
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("pid"));
    bl_json_write_int64(&writer, getpid());
    bl_json_put_string(&writer, "started_at", time);
    bl_json_write_key(&writer, BL_TEXT("activities"));
    bl_activities_write(request->requests->activities, &writer);
    bl_json_write_end(&writer);
    if (end_answer(&writer, request->answer) != 0)
        serve_failure(request->answer, request->id, BL_RPC_INTERNAL,
                      "more runs than an answer holds");
    return 0;
}

/* The receipt; null when it had come to its end before the stop reached it. */
static void write_receipt(const struct request *request, struct bl_text receipt)
{
    struct bl_json_writer writer;
    begin_answer(&writer, request->answer, request->id);
    bl_json_write_key(&writer, BL_TEXT("result"));
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("receipt"));
    if (receipt.size > 0)
        bl_json_write_raw(&writer, receipt);
    else
        bl_json_write_null(&writer);
    bl_json_write_end(&writer);
    if (end_answer(&writer, request->answer) != 0)
        serve_failure(request->answer, request->id, BL_RPC_INTERNAL,
                      "stopped; the receipt is longer than an answer");
}

static int answer_cancel(const struct request *request)
{
    const struct bl_json *id = bl_json_get(request->params, BL_TEXT("id"));
    const struct bl_json *from = bl_json_get(request->params, BL_TEXT("origin"));
    struct bl_buffer receipt;
    char origin[ORIGIN_SIZE];
    if (bl_json_text(id).size == 0 || (from != NULL && !bl_json_is(from, BL_JSON_STRING))) {
        serve_failure(request->answer, request->id, BL_RPC_INVALID_PARAMS,
                      "cancel takes {\"id\": text, \"origin\": text (optional)}");
        return 0;
    }
    bl_text_into(origin, sizeof origin, from != NULL ? bl_json_text(from).data : "control");
    bl_buffer_init(&receipt, RECEIPT_MAX);
    int code = bl_activities_cancel(request->requests->activities, bl_json_text(id).data, origin,
                                    &receipt);
    if (code == 0)
        write_receipt(request, bl_buffer_text(&receipt));
    else if (code == BL_ENOENT)
        serve_failure(request->answer, request->id, BL_RPC_NOT_FOUND, "nothing of that id runs");
    else if (code != BL_ECANCELED && code != BL_ETIMEDOUT)
        serve_failure(request->answer, request->id, BL_RPC_INTERNAL, bl_error_text(code));
    bl_buffer_done(&receipt);
    return code == BL_ECANCELED || code == BL_ETIMEDOUT ? code : 0;
}

static const struct {
    const char *name;
    int (*answer)(const struct request *request);
} methods[] = {{"ps", answer_ps}, {"cancel", answer_cancel}};

/* ---- Offers ---------------------------------------------------------------------------------- */

/* A client while an offer works for it. */
struct watch {
    struct serve_line *client;
    struct bl_scope scope; /* of the offer's work */
    struct bl_nursery nursery;
};

/* Both directions are closed. One that has only sent its last byte still waits for the answer. */
static bool is_gone(const struct serve_line *client)
{
    struct pollfd look = {.fd = client->fd};
    return poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR)) != 0;
}

static int watch_main(void *argument)
{
    struct watch *watch = argument;
    int code = 0;
    while (code == 0 && !is_gone(watch->client)) {
        unsigned events = 0;
        code = bl_descriptor_wait(watch->client->descriptor, BL_HANGUP, &events);
        if (code == 0 && !is_gone(watch->client))
            code = bl_sleep(WATCH_NS);
    }
    if (code == 0)
        bl_scope_stop(&watch->scope, BL_STOP_CLIENT_GONE, "control");
    return code;
}

static int watch_begin(struct watch *watch, struct serve_line *client)
{
    watch->client = client;
    bl_nursery_init(&watch->nursery, bl_scope_current());
    bl_scope_init(&watch->scope, bl_scope_current());
    bl_scope_enter(&watch->scope);
    if (client == NULL)
        return 0;
    return bl_nursery_spawn(&watch->nursery, NULL, "control watch", watch_main, watch, NULL);
}

/* True: the client has gone. */
static bool watch_end(struct watch *watch, struct bl_scope *outer)
{
    bl_scope_enter(outer);
    bl_nursery_done(&watch->nursery);
    bool gone = bl_scope_stopped(&watch->scope) && !bl_scope_stopped(outer);
    bl_scope_done(&watch->scope);
    return gone;
}

/* The code stands for what it is here; the object has the rest. */
static void write_error(const struct request *request, int code, struct bl_error *error)
{
    struct bl_json_writer writer;
    bl_error_set(error, code, BL_KIND_RUNTIME, "answer", NULL, "%s", bl_error_text(code));
    begin_answer(&writer, request->answer, request->id);
    bl_json_write_key(&writer, BL_TEXT("error"));
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("code"));
    bl_json_write_int64(&writer, code);
    bl_json_put_string(&writer, "message", error->message);
    bl_json_write_key(&writer, BL_TEXT("data"));
    bl_json_write_error(&writer, error);
    bl_json_write_end(&writer);
    end_answer(&writer, request->answer);
}

/* On one line: between the parts of a JSON value a space is as good as an LF. */
static void write_result(const struct request *request, struct bl_buffer *result)
{
    struct bl_json_writer writer;
    for (char *at = result->data; at != NULL && result->size > 0; at++) {
        at = memchr(at, '\n', (size_t)(result->data + result->size - at));
        if (at == NULL)
            break;
        *at = ' ';
    }
    begin_answer(&writer, request->answer, request->id);
    bl_json_put_json(&writer, "result", bl_buffer_text(result));
    if (end_answer(&writer, request->answer) != 0)
        serve_failure(request->answer, request->id, BL_RPC_INTERNAL,
                      "it is done; its result is longer than an answer");
}

static int call_offer(const struct request *request, const struct bl_control_offer *offer)
{
    struct bl_scope *outer = bl_scope_current();
    struct bl_buffer result;
    struct bl_error error = {0};
    struct watch watch;
    bl_buffer_init(&result, SERVE_ANSWER_MAX);
    int code = watch_begin(&watch, request->requests->client);
    if (code == 0)
        code = offer->run(offer->context, request->params, &result, &error);
    bool gone = watch_end(&watch, outer);
    int ending = bl_scope_check(outer);
    if (code == 0) {
        write_result(request, &result);
        ending = 0;
    } else if (gone) {
        ending = BL_EPIPE;
    } else if (ending == 0) {
        write_error(request, code, &error);
    }
    bl_buffer_done(&result);
    return ending;
}

static void refuse_method(const struct request *request)
{
    const struct serve_offers *offers = request->requests->offers;
    char message[512] = "there is no such method: ps and cancel there are";
    size_t count = offers != NULL ? offers->count : 0;
    if (count > 0) {
        size_t size =
            (size_t)snprintf(message, sizeof message, "there is no such method: ps, cancel");
        for (size_t i = 0; i < count && size < sizeof message; i++)
            size += (size_t)snprintf(message + size, sizeof message - size, "%s%s",
                                     i + 1 < count ? ", " : " and ", offers->items[i].name);
        if (size < sizeof message)
            snprintf(message + size, sizeof message - size, " there are");
    }
    serve_failure(request->answer, request->id, BL_RPC_NO_METHOD, message);
}

static int call_method(const struct request *request, struct bl_text name)
{
    const struct serve_offers *offers = request->requests->offers;
    for (size_t i = 0; i < BL_COUNT(methods); i++)
        if (bl_text_equal(name, bl_text_from(methods[i].name)))
            return methods[i].answer(request);
    for (size_t i = 0; offers != NULL && i < offers->count; i++)
        if (bl_text_equal(name, bl_text_from(offers->items[i].name)))
            return call_offer(request, &offers->items[i]);
    refuse_method(request);
    return 0;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static bool is_id(const struct bl_json *id)
{
    return bl_json_is(id, BL_JSON_STRING) || bl_json_is(id, BL_JSON_INTEGER) ||
           bl_json_is(id, BL_JSON_UNSIGNED) || bl_json_is(id, BL_JSON_DOUBLE) ||
           bl_json_is(id, BL_JSON_NULL);
}

/* What is wrong with it; NULL: it is a request. */
static const char *find_fault(const struct bl_json *value)
{
    const struct bl_json *id = bl_json_get(value, BL_TEXT("id"));
    const struct bl_json *params = bl_json_get(value, BL_TEXT("params"));
    if (!bl_json_is(value, BL_JSON_OBJECT))
        return "a request is one JSON object (batches are not taken)";
    if (!bl_text_equal(bl_json_text(bl_json_get(value, BL_TEXT("jsonrpc"))), BL_TEXT("2.0")))
        return "\"jsonrpc\" must be \"2.0\"";
    if (!bl_json_is(bl_json_get(value, BL_TEXT("method")), BL_JSON_STRING))
        return "\"method\" must be a text";
    if (id != NULL && !is_id(id))
        return "\"id\" must be a text, a number or null";
    if (params != NULL && !bl_json_is(params, BL_JSON_OBJECT) && !bl_json_is(params, BL_JSON_ARRAY))
        return "\"params\" must be an object or an array";
    return NULL;
}

int serve_request(const struct serve_requests *requests, struct bl_text line,
                  struct bl_buffer *ret_answer)
{
    struct bl_arena arena;
    struct bl_json_fault fault;
    const struct bl_json *value;
    char message[200];
    int code = 0;
    if (bl_text_trim(line).size == 0)
        return 0;
    bl_arena_init(&arena);
    if (bl_json_read(&arena, line, NULL, &value, &fault) != 0) {
        bl_json_fault_text(&fault, message, sizeof message);
        serve_failure(ret_answer, NULL, BL_RPC_PARSE, message);
    } else {
        const struct bl_json *id = bl_json_get(value, BL_TEXT("id"));
        const char *wrong = find_fault(value);
        struct request request = {requests, id, bl_json_get(value, BL_TEXT("params")), ret_answer};
        if (wrong != NULL)
            serve_failure(ret_answer, id != NULL && is_id(id) ? id : NULL, BL_RPC_INVALID_REQUEST,
                          wrong);
        else
            code = call_method(&request, bl_json_text(bl_json_get(value, BL_TEXT("method"))));
        /* Who gives no id wants no answer. */
        if (wrong == NULL && id == NULL)
            bl_buffer_clear(ret_answer);
    }
    bl_arena_done(&arena);
    return code;
}
