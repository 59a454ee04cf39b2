#include "rpc.h"

/* Largest buffer that is kept after a line: a long line must not hold its memory for the rest of
 * the connection. */
#define KEPT_MAX ((size_t)256 * 1024)

/* ---- Lines ----------------------------------------------------------------------------------- */

void rpc_lines_init(struct rpc_lines *lines, size_t line_max)
{
    *lines = (struct rpc_lines){.line_max = line_max};
    bl_buffer_init(&lines->pending, line_max + 1); /* includes a CR */
}

void rpc_lines_done(struct rpc_lines *lines)
{
    bl_buffer_done(&lines->pending);
}

static void forget_pending(struct rpc_lines *lines)
{
    if (lines->pending.capacity > KEPT_MAX)
        bl_buffer_done(&lines->pending);
    else
        bl_buffer_clear(&lines->pending);
}

static int message_take_line(struct rpc_lines *lines, struct bl_text line, rpc_line_take *take,
                             void *context)
{
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    if (line.size > lines->line_max)
        return take(context, (struct bl_text){0}, true);
    return line.size > 0 ? take(context, line, false) : 0;
}

/* Delivers the last part of a line, up to its LF. */
static int message_end_line(struct rpc_lines *lines, struct bl_text part, rpc_line_take *take,
                            void *context)
{
    int code;
    if (lines->skipping) {
        lines->skipping = false;
        return 0;
    }
    if (lines->pending.size == 0)
        return message_take_line(lines, part, take, context);
    if (bl_buffer_append(&lines->pending, part) != 0)
        code = take(context, (struct bl_text){0}, true);
    else
        code = message_take_line(lines, bl_buffer_text(&lines->pending), take, context);
    forget_pending(lines);
    return code;
}

/* Stores a part of an unfinished line. */
static int keep_part(struct rpc_lines *lines, struct bl_text part, rpc_line_take *take,
                     void *context)
{
    const struct bl_buffer *pending = &lines->pending;
    /* The buffer has room for one byte more, which must be a CR. */
    if (lines->skipping ||
        (bl_buffer_append(&lines->pending, part) == 0 &&
         (pending->size <= lines->line_max || pending->data[pending->size - 1] == '\r')))
        return 0;
    lines->skipping = true;
    forget_pending(lines);
    return take(context, (struct bl_text){0}, true);
}

int rpc_lines_feed(struct rpc_lines *lines, struct bl_text bytes, rpc_line_take *take,
                   void *context)
{
    int code = 0;
    while (code == 0 && bytes.size > 0) {
        const char *end = memchr(bytes.data, '\n', bytes.size);
        struct bl_text part = {bytes.data, end != NULL ? (size_t)(end - bytes.data) : bytes.size};
        code = end != NULL ? message_end_line(lines, part, take, context)
                           : keep_part(lines, part, take, context);
        size_t used = part.size + (end != NULL);
        bytes = (struct bl_text){bytes.data + used, bytes.size - used};
    }
    return code;
}

int rpc_lines_end(struct rpc_lines *lines, rpc_line_take *take, void *context)
{
    return message_end_line(lines, (struct bl_text){0}, take, context);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Fills in the fault. `id` is NULL if the message cannot be answered by its id. */
static int message_fail(struct bl_rpc_fault *fault, int code, const struct bl_json *id,
                        const char *message)
{
    fault->code = code;
    fault->id = id;
    bl_text_into(fault->message, sizeof fault->message, message);
    return BL_EPARSE;
}

static int message_refuse(struct bl_rpc_fault *fault, const struct bl_json *id, const char *message)
{
    return message_fail(fault, BL_RPC_INVALID_REQUEST, id, message);
}

static bool message_is_number(const struct bl_json *value)
{
    return bl_json_is(value, BL_JSON_INTEGER) || bl_json_is(value, BL_JSON_UNSIGNED) ||
           bl_json_is(value, BL_JSON_DOUBLE);
}

static bool message_is_id(const struct bl_json *value)
{
    return bl_json_is(value, BL_JSON_STRING) || message_is_number(value) ||
           bl_json_is(value, BL_JSON_NULL);
}

/* Some programs write `"params": null` for no params. */
static const struct bl_json *present(const struct bl_json *value)
{
    return bl_json_is(value, BL_JSON_NULL) ? NULL : value;
}

static int message_read_call(const struct bl_json *object, const struct bl_json *id,
                             struct bl_rpc_message *ret_message, struct bl_rpc_fault *fault)
{
    const struct bl_json *method = bl_json_get(object, BL_TEXT("method"));
    const struct bl_json *params = present(bl_json_get(object, BL_TEXT("params")));
    if (!bl_text_equal(bl_json_text(bl_json_get(object, BL_TEXT("jsonrpc"))), BL_TEXT("2.0")))
        return message_refuse(fault, id, "\"jsonrpc\" must be \"2.0\"");
    if (!bl_json_is(method, BL_JSON_STRING))
        return message_refuse(fault, id, "\"method\" must be a string");
    if (params != NULL && !bl_json_is(params, BL_JSON_OBJECT) && !bl_json_is(params, BL_JSON_ARRAY))
        return message_refuse(fault, id, "\"params\" must be an object or an array");
    *ret_message = (struct bl_rpc_message){
        .type = id != NULL ? BL_RPC_REQUEST : BL_RPC_NOTIFICATION,
        .id = id,
        .method = bl_json_text(method),
        .params = params,
    };
    return 0;
}

/* Reads an error leniently, because its request waits for it: everything that can be understood is
 * used. */
static void message_read_error(const struct bl_json *error, struct bl_rpc_message *message)
{
    message->type = BL_RPC_ERROR;
    message->code = BL_RPC_INTERNAL;
    bl_json_int64(bl_json_get(error, BL_TEXT("code")), &message->code);
    message->message = bl_json_is(error, BL_JSON_STRING)
                           ? bl_json_text(error)
                           : bl_json_text(bl_json_get(error, BL_TEXT("message")));
    message->data = bl_json_is(error, BL_JSON_OBJECT) ? bl_json_get(error, BL_TEXT("data")) : error;
}

/* An invalid response is never answered with its id: the peer would take that for an answer to one
 * of its own requests. */
static int read_response(const struct bl_json *object, const struct bl_json *id,
                         struct bl_rpc_message *ret_message, struct bl_rpc_fault *fault)
{
    const struct bl_json *result = bl_json_get(object, BL_TEXT("result"));
    const struct bl_json *error = present(bl_json_get(object, BL_TEXT("error")));
    struct bl_rpc_message message = {.type = BL_RPC_RESULT, .id = id, .result = result};
    if (id == NULL)
        return message_refuse(fault, NULL, "a response must have the \"id\" of its request");
    if (error != NULL) {
        message.result = NULL;
        message_read_error(error, &message);
    } else if (result == NULL) {
        return message_refuse(fault, NULL, "a response must have a \"result\" or an \"error\"");
    }
    *ret_message = message;
    return 0;
}

static bool is_response(const struct bl_json *object)
{
    return bl_json_get(object, BL_TEXT("method")) == NULL &&
           (bl_json_get(object, BL_TEXT("result")) != NULL ||
            bl_json_get(object, BL_TEXT("error")) != NULL);
}

int bl_rpc_message_read(struct bl_arena *arena, struct bl_text line,
                        struct bl_rpc_message *ret_message, struct bl_rpc_fault *ret_fault)
{
    const struct bl_json_limits limits = {
        .size_max = line.size + 1,
        .string_max = line.size + 1,
        .depth_max = BL_RPC_DEPTH_MAX,
        .replace_surrogates = true,
    };
    const struct bl_json *value, *id;
    struct bl_json_fault fault;
    *ret_fault = (struct bl_rpc_fault){0};
    if (bl_json_read(arena, line, &limits, &value, &fault) != 0) {
        ret_fault->code = BL_RPC_PARSE;
        bl_json_fault_text(&fault, ret_fault->message, sizeof ret_fault->message);
        return BL_EPARSE;
    }
    if (!bl_json_is(value, BL_JSON_OBJECT))
        return message_refuse(ret_fault, NULL,
                              "a message must be one JSON object (batches are not supported)");
    id = bl_json_get(value, BL_TEXT("id"));
    if (id != NULL && !message_is_id(id))
        return message_refuse(ret_fault, NULL, "\"id\" must be a string, a number or null");
    return is_response(value) ? read_response(value, id, ret_message, ret_fault)
                              : message_read_call(value, id, ret_message, ret_fault);
}

bool bl_rpc_id_equal(const struct bl_json *a, const struct bl_json *b)
{
    if (a == NULL || b == NULL)
        return (a == NULL || bl_json_is(a, BL_JSON_NULL)) &&
               (b == NULL || bl_json_is(b, BL_JSON_NULL));
    if (bl_json_is(a, BL_JSON_STRING) || bl_json_is(b, BL_JSON_STRING))
        return bl_json_is(a, BL_JSON_STRING) && bl_json_is(b, BL_JSON_STRING) &&
               bl_text_equal(bl_json_text(a), bl_json_text(b));
    return message_is_number(a) == message_is_number(b) && bl_json_equal(a, b);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* A message being written: appended completely, or not at all. */
struct writing {
    struct bl_json_writer writer;
    struct bl_buffer *out;
    size_t begin;
};

static void message_begin(struct writing *writing, struct bl_buffer *out)
{
    writing->out = out;
    writing->begin = out->size;
    bl_json_writer_init(&writing->writer, out);
    bl_json_write_object(&writing->writer);
    bl_json_put_string(&writing->writer, "jsonrpc", "2.0");
}

static void message_put_id(struct writing *writing, const struct bl_json *id)
{
    bl_json_write_key(&writing->writer, BL_TEXT("id"));
    bl_json_write_value(&writing->writer, id);
}

static void message_end(struct writing *writing)
{
    bl_json_write_end(&writing->writer);
    if (bl_json_writer_done(&writing->writer) != 0)
        writing->out->size = writing->begin;
}

/* Replaces line breaks by spaces, which are equivalent between the parts of a JSON value. */
static void join_lines(char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\n' || text[i] == '\r')
            text[i] = ' ';
}

/* Most values contain no line break, which memchr finds out quickly. */
static void message_put_value(struct writing *writing, const char *key, struct bl_text json)
{
    struct bl_buffer *out = writing->out;
    bl_json_write_key(&writing->writer, bl_text_from(key));
    size_t before = out->size;
    bl_json_write_raw(&writing->writer, json.size > 0 ? json : BL_TEXT("null"));
    size_t size = out->size - before;
    if (size > 0 && (memchr(out->data + before, '\n', size) != NULL ||
                     memchr(out->data + before, '\r', size) != NULL))
        join_lines(out->data + before, size);
}

void bl_rpc_write_request(struct bl_buffer *out, const struct bl_json *id, const char *method,
                          struct bl_text params)
{
    struct writing writing;
    message_begin(&writing, out);
    message_put_id(&writing, id);
    bl_json_put_string(&writing.writer, "method", method);
    if (params.size > 0)
        message_put_value(&writing, "params", params);
    message_end(&writing);
}

void bl_rpc_write_notification(struct bl_buffer *out, const char *method, struct bl_text params)
{
    struct writing writing;
    message_begin(&writing, out);
    bl_json_put_string(&writing.writer, "method", method);
    if (params.size > 0)
        message_put_value(&writing, "params", params);
    message_end(&writing);
}

void bl_rpc_write_result(struct bl_buffer *out, const struct bl_json *id, struct bl_text result)
{
    struct writing writing;
    message_begin(&writing, out);
    message_put_id(&writing, id);
    message_put_value(&writing, "result", result);
    message_end(&writing);
}

void bl_rpc_write_error(struct bl_buffer *out, const struct bl_json *id, int code,
                        const char *message, struct bl_text data)
{
    struct writing writing;
    message_begin(&writing, out);
    message_put_id(&writing, id);
    bl_json_write_key(&writing.writer, BL_TEXT("error"));
    bl_json_write_object(&writing.writer);
    bl_json_write_key(&writing.writer, BL_TEXT("code"));
    bl_json_write_int64(&writing.writer, code);
    bl_json_put_text(&writing.writer, "message", bl_text_from(message));
    if (data.size > 0)
        message_put_value(&writing, "data", data);
    bl_json_write_end(&writing.writer);
    message_end(&writing);
}
