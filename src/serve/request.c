#include "request.h"

#include <stdio.h>
#include <unistd.h>

#define RECEIPT_MAX ((size_t)8 << 20)
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

static int call_method(const struct request *request, struct bl_text name)
{
    for (size_t i = 0; i < BL_COUNT(methods); i++)
        if (bl_text_equal(name, bl_text_from(methods[i].name)))
            return methods[i].answer(request);
    serve_failure(request->answer, request->id, BL_RPC_NO_METHOD,
                  "there is no such method: ps and cancel there are");
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
