/* One request and its answer: bytes from the network or a cassette become events, and these become
 * pieces. */
#include <stdio.h>

#include "remote.h"

/* Time to wait for the rest of an answer that has ended, so that its connection can be reused. */
#define DRAIN_NS (50 * BL_NS_PER_MS)

/* Enough of the answer was read: not an error. */
#define ENOUGH 1

/* The source of the bytes. */
struct transport {
    struct bl_exchange *exchange;
    struct cassette_take *take; /* NULL: not recorded */
    struct cassette_play *play; /* NULL: the network */
};

/* The form of the body. */
enum shape {
    SHAPE_UNKNOWN, /* the first byte decides */
    SHAPE_EVENTS,
    SHAPE_LINES,
    SHAPE_WHOLE,
    SHAPE_HTML,
};

struct reading {
    struct remote_call *call;
    struct transport transport;
    enum shape shape;
    bool shape_seen; /* the first byte was checked */
    uint64_t bytes;
    struct bl_sse sse;
    struct bl_lines lines;
    struct bl_buffer whole;
    struct bl_arena scratch; /* of one event */
};

int remote_build(struct remote_call *call, bool count_only)
{
    struct bl_remote *remote = call->remote;
    struct model_build build = {
        .provider = remote->options.provider,
        .profile = remote->options.profile,
        .request = call->request,
        .compat = &remote->compat,
        .max_output_tokens = call->max_output_tokens,
        .resumed = call->resumed,
        .count_only = count_only,
        .arena = &call->arena,
        .sent = &call->sent,
    };
    struct bl_json_writer writer;

    bl_buffer_clear(&call->body);
    bl_json_writer_init(&writer, &call->body);
    int code = remote->api->build(&build, &writer, call->error);
    if (code == 0)
        code = bl_json_writer_done(&writer);
    if (code == BL_ELIMIT && call->error->code == 0)
        bl_error_set(call->error, code, BL_KIND_USAGE, "call the model",
                     remote->options.provider->name, "the request exceeds the limit of 72 MiB");
    return code;
}

/* ---- Transport ------------------------------------------------------------------------------- */

static int wire_failed(struct remote_call *call, const struct bl_wire_failure *wire)
{
    model_fail(&call->assembly, wire->code, call->status, bl_text_from(wire->message));
    call->assembly.failure.timed_out = wire->timed_out;
    return BL_EIO;
}

static int transport_open(struct transport *transport, struct remote_call *call, const char *url,
                          const char *path)
{
    struct bl_remote *remote = call->remote;
    struct bl_text body = bl_buffer_text(&call->body);
    struct bl_http_request request = {
        .method = "POST",
        .url = url,
        .headers = remote->headers,
        .header_count = remote->header_count,
        .body = body,
        .connect_ns = remote->connect_ns,
        .first_byte_ns = remote->first_byte_ns,
        .stall_ns = remote->stall_ns,
    };

    *transport = (struct transport){0};
    if (remote->options.replay != NULL)
        return cassette_play_find(remote->options.replay, "POST", path, body, &transport->play,
                                  call->error);
    if (remote->client == NULL)
        remote->client = bl_client_new(&remote->options.provider->client);
    int code = bl_exchange_new(remote->client, &request, &transport->exchange, call->error);
    if (code == 0 && remote->options.recorder != NULL)
        transport->take = cassette_take_begin(remote->options.recorder, "POST", path, body);
    return code;
}

static int transport_headers(struct transport *transport, struct remote_call *call)
{
    struct bl_wire_failure failure = {0};

    if (transport->play != NULL) {
        call->status = cassette_play_status(transport->play);
        if (call->status > 0)
            return 0;
        struct bl_text none;
        while (cassette_play_next(transport->play, &none, &failure))
            ;
        return wire_failed(call, &failure);
    }
    int code = bl_exchange_headers(transport->exchange);
    if (code == BL_EIO)
        return wire_failed(call, bl_exchange_failure(transport->exchange));
    if (code != 0)
        return code;
    call->status = bl_exchange_status(transport->exchange);
    if (transport->take != NULL)
        cassette_take_headers(transport->take, transport->exchange);
    return 0;
}

static struct bl_text transport_header(const struct transport *transport, const char *name)
{
    return transport->play != NULL ? cassette_play_header(transport->play, name)
                                   : bl_exchange_header(transport->exchange, name);
}

static int transport_read(struct transport *transport, struct remote_call *call,
                          struct bl_text *ret_bytes)
{
    struct bl_wire_failure failure = {0};

    if (transport->play != NULL) {
        *ret_bytes = (struct bl_text){0};
        if (!cassette_play_next(transport->play, ret_bytes, &failure) && failure.code != NULL)
            return wire_failed(call, &failure);
        /* Like the network: lets other fibers run, and detects a stop. */
        return bl_yield();
    }
    int code = bl_exchange_read(transport->exchange, ret_bytes);
    if (code == BL_EIO)
        return wire_failed(call, bl_exchange_failure(transport->exchange));
    if (code == 0 && ret_bytes->size > 0 && transport->take != NULL)
        cassette_take_bytes(transport->take, *ret_bytes);
    return code;
}

/* Returns the phase in which it was cut. */
static enum bl_model_wait transport_wait(const struct transport *transport)
{
    static const enum bl_model_wait waits[] = {
        [BL_EXCHANGE_UNSENT] = BL_MODEL_PREPARING, [BL_EXCHANGE_DNS] = BL_MODEL_DNS,
        [BL_EXCHANGE_CONNECT] = BL_MODEL_CONNECT,  [BL_EXCHANGE_PROXY] = BL_MODEL_PROXY,
        [BL_EXCHANGE_TLS] = BL_MODEL_TLS,          [BL_EXCHANGE_UPLOAD] = BL_MODEL_UPLOAD,
        [BL_EXCHANGE_HEADERS] = BL_MODEL_HEADERS,  [BL_EXCHANGE_BODY] = BL_MODEL_STREAMING};

    return transport->play != NULL ? BL_MODEL_STREAMING
                                   : waits[bl_exchange_where(transport->exchange)];
}

static void transport_close(struct transport *transport, struct remote_call *call, int code)
{
    if (code != 0 && (transport->exchange != NULL || transport->play != NULL))
        call->sink->wait = transport_wait(transport);
    if (transport->exchange != NULL) {
        if (code == 0)
            bl_exchange_drain(transport->exchange, DRAIN_NS);
        else
            bl_exchange_place(transport->exchange, call->sink->detail, sizeof call->sink->detail);
        const struct bl_wire_failure *failure = bl_exchange_failure(transport->exchange);
        bool stopped = code == BL_ECANCELED || code == BL_ETIMEDOUT;
        cassette_take_end(transport->take, code != 0 && failure->code != NULL ? failure : NULL,
                          stopped);
        call->sink->abandoned |= bl_exchange_abandoned(transport->exchange);
    }
    bl_exchange_free(transport->exchange);
    cassette_play_free(transport->play);
}

/* Returns whether nothing of the request can have reached the server. */
static bool transport_unsent(const struct transport *transport)
{
    return transport->exchange == NULL || bl_exchange_unsent(transport->exchange);
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Makes the text valid: each invalid part becomes one U+FFFD. Events are valid already. */
static struct bl_text make_valid(struct reading *reading, struct bl_text text)
{
    if (bl_utf8_valid(text))
        return text;
    char *out = bl_arena_alloc(&reading->scratch, text.size * 3);
    size_t size = 0;
    while (text.size > 0) {
        size_t valid = bl_utf8_valid_prefix(text, NULL);
        memcpy(out + size, text.data, valid);
        size += valid;
        if (valid == text.size)
            break;
        size_t next = valid + 1;
        while (next < text.size && ((unsigned char)text.data[next] & 0xc0) == 0x80)
            next++;
        size += bl_utf8_encode(BL_UTF8_REPLACEMENT, out + size);
        text = (struct bl_text){text.data + next, text.size - next};
    }
    return (struct bl_text){out, size};
}

static int read_json(struct reading *reading, struct bl_text text, const struct bl_json **ret_json)
{
    static const struct bl_json_limits limits = {.replace_surrogates = true};
    struct bl_json_fault fault;
    char where[200], message[256];

    if (bl_json_read(&reading->scratch, make_valid(reading, text), &limits, ret_json, &fault) == 0)
        return 0;
    bl_json_fault_text(&fault, where, sizeof where);
    snprintf(message, sizeof message, "the response is not JSON: %.190s", where);
    return model_fail(&reading->call->assembly, "bad_response", reading->call->status,
                      bl_text_from(message));
}

static int attempt_take_event(void *context, const struct bl_sse_event *event)
{
    struct reading *reading = context;
    struct remote_call *call = reading->call;
    struct model_assembly *assembly = &call->assembly;
    struct bl_text data = bl_text_trim(event->data);
    const struct bl_json *json;
    int code;

    if (data.size == 0)
        return 0;
    bl_arena_reset(&reading->scratch);
    if (bl_text_equal(data, BL_TEXT("[DONE]"))) {
        code = call->remote->api->finish(&call->decoder);
    } else {
        code = read_json(reading, data, &json);
        if (code == 0)
            code = call->remote->api->feed(&call->decoder, event->name, json);
    }
    if (assembly->meaningful && reading->transport.exchange != NULL)
        bl_exchange_meaningful(reading->transport.exchange);
    assembly->meaningful = false;
    return code == 0 && assembly->finished ? ENOUGH : code;
}

static int attempt_take_line(void *context, struct bl_text line)
{
    struct bl_sse_event event = {.data = line};

    /* Some servers frame their lines as events nevertheless. */
    if (bl_text_starts_with(line, BL_TEXT("data:")))
        event.data = (struct bl_text){line.data + 5, line.size - 5};
    return attempt_take_event(context, &event);
}

/* ---- The body -------------------------------------------------------------------------------- */

static bool mentions(struct bl_text type, const char *word)
{
    size_t size = strlen(word);

    for (size_t i = 0; i + size <= type.size; i++) {
        if (strncasecmp(type.data + i, word, size) == 0)
            return true;
    }
    return false;
}

/* The content type is a hint only. */
static enum shape shape_by_type(const struct reading *reading)
{
    struct bl_text type = transport_header(&reading->transport, "content-type");

    if (mentions(type, "event-stream"))
        return SHAPE_EVENTS;
    if (mentions(type, "ndjson") || mentions(type, "jsonl") || mentions(type, "json-lines"))
        return SHAPE_LINES;
    if (mentions(type, "html"))
        return SHAPE_HTML;
    return SHAPE_UNKNOWN;
}

/* No event begins like HTML or JSON, and no line like HTML: the first byte is more reliable than
 * the type. */
static enum shape shape_by_bytes(const struct reading *reading, struct bl_text text)
{
    if (text.data[0] == '<')
        return SHAPE_HTML;
    if (text.data[0] == '{' || text.data[0] == '[')
        return reading->shape == SHAPE_LINES || reading->call->remote->api->lines ? SHAPE_LINES
                                                                                  : SHAPE_WHOLE;
    return reading->shape == SHAPE_UNKNOWN ? SHAPE_EVENTS : reading->shape;
}

static int over_limit(struct reading *reading, const char *what)
{
    return model_fail(&reading->call->assembly, "limit", reading->call->status, bl_text_from(what));
}

static int attempt_feed(struct reading *reading, struct bl_text bytes)
{
    int code = 0;

    reading->bytes += bytes.size;
    if (reading->bytes > MODEL_STREAM_MAX)
        return over_limit(reading, "the stream exceeds the limit of 256 MiB");
    struct bl_text text = bl_text_trim(bytes);
    if (text.size > 0 && !reading->shape_seen && reading->shape != SHAPE_HTML) {
        reading->shape = shape_by_bytes(reading, text);
        reading->shape_seen = true;
    }
    switch (reading->shape) {
    case SHAPE_UNKNOWN: return 0;
    case SHAPE_EVENTS: code = bl_sse_feed(&reading->sse, bytes, attempt_take_event, reading); break;
    case SHAPE_LINES:
        code = bl_lines_feed(&reading->lines, bytes, attempt_take_line, reading);
        break;
    case SHAPE_WHOLE:
    case SHAPE_HTML: code = bl_buffer_append(&reading->whole, bytes); break;
    }
    return code == BL_ELIMIT && reading->call->assembly.failure.code == NULL
               ? over_limit(reading, "a line, an event or the answer exceeds the limit of 16 MiB")
               : code;
}

/* Reports the title of an HTML page, or its first words. */
static int fail_for_html(struct reading *reading)
{
    struct bl_model_failure *failure = &reading->call->assembly.failure;

    model_failure_classify(reading->call->remote->api, reading->call->status, (struct bl_text){0},
                           (struct bl_text){0}, (struct bl_text){0},
                           bl_buffer_text(&reading->whole), 0, failure);
    failure->code = "bad_response";
    return BL_EIO;
}

static int end_whole(struct reading *reading)
{
    struct remote_call *call = reading->call;
    const struct bl_json *json;

    int code = read_json(reading, bl_buffer_text(&reading->whole), &json);
    if (code != 0)
        return code;
    const struct bl_json *error = bl_json_get(json, BL_TEXT("error"));
    if (error == NULL || bl_json_is(error, BL_JSON_NULL))
        return call->remote->api->whole(&call->decoder, json);
    model_failure_classify(call->remote->api, call->status, (struct bl_text){0},
                           (struct bl_text){0}, (struct bl_text){0},
                           bl_buffer_text(&reading->whole), 0, &call->assembly.failure);
    if (call->assembly.failure.code == NULL)
        call->assembly.failure.code = "server";
    return BL_EIO;
}

static int end_input(struct reading *reading)
{
    struct remote_call *call = reading->call;
    int code = 0;

    if (reading->shape == SHAPE_HTML)
        return fail_for_html(reading);
    if (reading->shape == SHAPE_WHOLE)
        return end_whole(reading);
    if (reading->shape == SHAPE_EVENTS)
        code = bl_sse_end(&reading->sse, attempt_take_event, reading);
    else if (reading->shape == SHAPE_LINES)
        code = bl_lines_end(&reading->lines, attempt_take_line, reading);
    if (code == 0 && !call->assembly.finished)
        code = call->remote->api->finish(&call->decoder);
    return code == ENOUGH ? 0 : code;
}

static int attempt_read_answer(struct reading *reading)
{
    struct bl_text bytes;
    int code = 0;

    reading->shape = shape_by_type(reading);
    while (code == 0) {
        code = transport_read(&reading->transport, reading->call, &bytes);
        if (code != 0)
            break;
        if (bytes.size == 0)
            return end_input(reading);
        code = attempt_feed(reading, bytes);
    }
    if (code == BL_EIO && reading->shape != SHAPE_WHOLE && reading->shape != SHAPE_HTML &&
        !reading->call->assembly.failure.timed_out &&
        reading->call->assembly.failure.code != NULL &&
        strcmp(reading->call->assembly.failure.code, "stream_cut") == 0) {
        /* The connection broke after the last event: the answer may be complete. */
        struct bl_model_failure failure = reading->call->assembly.failure;
        reading->call->assembly.failure.code = NULL;
        if (reading->call->remote->api->finish(&reading->call->decoder) == 0)
            return 0;
        reading->call->assembly.failure = failure;
    }
    return code == ENOUGH ? 0 : code;
}

/* ---- Failures -------------------------------------------------------------------------------- */

static int read_failure(struct reading *reading)
{
    struct remote_call *call = reading->call;
    const struct transport *transport = &reading->transport;
    struct bl_buffer *body = &reading->whole;
    struct bl_text bytes = {0};
    int code;

    do {
        code = transport_read(&reading->transport, call, &bytes);
        bytes = bl_utf8_cut(bytes, MODEL_ERROR_MAX - body->size);
        bl_buffer_append(body, bytes);
    } while (code == 0 && bytes.size > 0 && body->size < MODEL_ERROR_MAX);
    if (code != 0 && code != BL_EIO)
        return code;
    model_failure_classify(
        call->remote->api, call->status, transport_header(transport, "retry-after"),
        transport_header(transport, "retry-after-ms"),
        transport_header(transport, "x-should-retry"), bl_buffer_text(body),
        bl_clock_wall_ns(bl_loop_clock(bl_loop_current())), &call->assembly.failure);
    if (call->status >= 300 && call->status < 400) {
        struct bl_text location = transport_header(transport, "location");
        call->assembly.failure.code = "redirect";
        snprintf(call->assembly.failure.message, sizeof call->assembly.failure.message,
                 "to " BL_TEXT_FORMAT, BL_TEXT_ARG(bl_utf8_cut(location, 160)));
    }
    return BL_EIO;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static struct reading *reading_new(struct remote_call *call)
{
    struct reading *reading = bl_zalloc(sizeof *reading);

    reading->call = call;
    bl_sse_init(&reading->sse, MODEL_LINE_MAX, MODEL_EVENT_MAX);
    bl_lines_init(&reading->lines, MODEL_LINE_MAX);
    bl_buffer_init(&reading->whole, MODEL_BODY_MAX);
    bl_arena_init(&reading->scratch);
    call->status = 0;
    return reading;
}

static void attempt_reading_free(struct reading *reading)
{
    bl_sse_done(&reading->sse);
    bl_lines_done(&reading->lines);
    bl_buffer_done(&reading->whole);
    bl_arena_done(&reading->scratch);
    bl_free(reading);
}

int remote_attempt(struct remote_call *call)
{
    struct bl_remote *remote = call->remote;
    struct reading *reading = reading_new(call);

    int code = transport_open(&reading->transport, call, remote->url, remote->path);
    if (code == 0)
        code = transport_headers(&reading->transport, call);
    if (code == 0)
        code = call->status >= 200 && call->status < 300 ? attempt_read_answer(reading)
                                                         : read_failure(reading);
    call->sink->unbilled = code != 0 && transport_unsent(&reading->transport);
    if (call->sink->unbilled)
        call->sink->reserved_usd = 0;
    transport_close(&reading->transport, call, code);
    attempt_reading_free(reading);
    BL_LOG(BL_ROOM_MODEL, BL_LOG_DEBUG, "attempt", BL_LOG_INTEGER("status", call->status),
           BL_LOG_STRING("result", bl_error_text(code)),
           BL_LOG_BOOLEAN("unbilled", call->sink->unbilled));
    return code;
}

int remote_question(struct remote_call *call, const char *url, const char *path,
                    const struct bl_json **ret_answer)
{
    struct reading *reading = reading_new(call);
    struct bl_text bytes = {0};

    int code = transport_open(&reading->transport, call, url, path);
    if (code == 0)
        code = transport_headers(&reading->transport, call);
    if (code == 0 && call->status != 200)
        code = BL_EIO;
    while (code == 0) {
        code = transport_read(&reading->transport, call, &bytes);
        if (code == 0 && bytes.size == 0)
            break;
        if (code == 0)
            code = bl_buffer_append(&reading->whole, bytes);
    }
    if (code == 0)
        code = bl_json_read(&call->arena, bl_buffer_text(&reading->whole), NULL, ret_answer, NULL);
    transport_close(&reading->transport, call, code);
    attempt_reading_free(reading);
    return code == 0 || code == BL_ECANCELED || code == BL_ETIMEDOUT ? code : BL_EIO;
}
