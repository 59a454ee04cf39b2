/* Design notes.
 *
 * A stream has the messages of one request: notifications, and the answer as the last. The producer
 * never waits for the reader: events are kept, up to a limit, and the connection's own fiber takes
 * them from here. One connection reads a stream at a time. A new one replaces it, because a client
 * that connects again has given up the old connection.
 *
 * An answer that is complete within a moment is sent as plain JSON; after that, the answer is a
 * stream of events. */
#include <inttypes.h>
#include <stdio.h>

#include "http.h"

#define KEEP_ALIVE_NS (15 * BL_NS_PER_S)
#define RETRY_MS      1000
/* Size of one write; each has mcp_http_take_ns. */
#define PIECE_SIZE ((size_t)64 * 1024)
#define PIECE_MAX  ((size_t)256 << 20)

uint64_t mcp_http_first_ns = 100 * BL_NS_PER_MS;
uint64_t mcp_http_take_ns = BL_RPC_TAKE_NS_MAX;

struct event {
    struct bl_list link;
    uint64_t number;
    size_t size;
    char text[];
};

struct http_reader {
    struct bl_semaphore wake;
    bool replaced;
};

int http_wait(struct bl_semaphore *semaphore, uint64_t until_ns)
{
    struct bl_scope scope;

    bl_limit_begin_until(&scope, until_ns);
    int code = bl_semaphore_take(semaphore);
    bl_limit_end(&scope);
    return code == BL_ETIMEDOUT && bl_check() == 0 ? BL_EAGAIN : code;
}

/* ---- Events ---------------------------------------------------------------------------------- */

struct http_stream *http_stream_new(void)
{
    struct http_stream *stream = bl_zalloc(sizeof *stream);

    bl_list_init(&stream->link);
    bl_list_init(&stream->events);
    stream->next = 1;
    stream->users = 1;
    stream->status = 200;
    return stream;
}

static void forget_first(struct http_stream *stream)
{
    struct bl_list *link = bl_list_pop_front(&stream->events);
    struct event *event = BL_CONTAINER(link, struct event, link);

    stream->event_count--;
    stream->event_size -= event->size;
    bl_free(event);
}

void http_stream_drop(struct http_stream *stream)
{
    if (--stream->users > 0)
        return;
    while (!bl_list_empty(&stream->events))
        forget_first(stream);
    bl_list_remove(&stream->link);
    bl_free(stream);
}

static void wake_reader(struct http_stream *stream)
{
    if (stream->reader != NULL)
        bl_semaphore_give(&stream->reader->wake);
}

void http_stream_put(struct http_stream *stream, struct bl_text message)
{
    struct event *event = bl_alloc(sizeof *event + message.size);

    event->number = stream->next++;
    event->size = message.size;
    memcpy(event->text, message.data, message.size);
    bl_list_push_back(&stream->events, &event->link);
    stream->event_count++;
    stream->event_size += event->size;
    while (stream->event_count > 1 &&
           (stream->event_count > HTTP_EVENTS_MAX || stream->event_size > HTTP_EVENTS_SIZE_MAX))
        forget_first(stream);
    wake_reader(stream);
}

void http_stream_end(struct http_stream *stream, bool answered, int status)
{
    stream->ended = true;
    stream->answered = answered;
    stream->status = status;
    wake_reader(stream);
}

bool http_stream_has_after(const struct http_stream *stream, uint64_t number)
{
    return stream->event_count > 0 && stream->next > number + 1;
}

static bool http_stream_read_number(struct bl_text text, uint64_t *ret_number)
{
    int64_t number = 0;

    if (bl_text_to_int64(text, &number) != 0 || number < 0)
        return false;
    *ret_number = (uint64_t)number;
    return true;
}

bool http_event_id_parse(struct bl_text id, uint32_t *ret_stream, uint64_t *ret_event)
{
    ptrdiff_t dash = bl_text_find(id, BL_TEXT("-"));
    uint64_t stream = 0;

    if (dash < 0 || !http_stream_read_number((struct bl_text){id.data, (size_t)dash}, &stream) ||
        stream > UINT32_MAX ||
        !http_stream_read_number((struct bl_text){id.data + dash + 1, id.size - (size_t)dash - 1},
                                 ret_event))
        return false;
    *ret_stream = (uint32_t)stream;
    return true;
}

/* ---- The reading connection ------------------------------------------------------------------ */

/* Writes everything. A client that reads nothing for too long counts as disconnected. */
static int write_in_time(struct bl_http_call *call, struct bl_text bytes)
{
    int code = 0;

    while (code == 0 && bytes.size > 0) {
        struct bl_scope scope;
        struct bl_text piece = bytes;
        if (piece.size > PIECE_SIZE)
            piece.size = PIECE_SIZE;
        bl_limit_begin(&scope, mcp_http_take_ns);
        code = bl_http_call_write(call, piece);
        bl_limit_end(&scope);
        bytes = (struct bl_text){bytes.data + piece.size, bytes.size - piece.size};
    }
    return code;
}

static void http_stream_write_event(const struct http_stream *stream, const struct event *event,
                                    struct bl_buffer *out)
{
    if (stream->has_ids)
        bl_buffer_printf(out, "id: %" PRIu32 "-%" PRIu64 "\n", stream->number, event->number);
    bl_buffer_append(out, BL_TEXT("data: "));
    bl_buffer_append(out, (struct bl_text){event->text, event->size});
    bl_buffer_append(out, BL_TEXT("\n\n"));
}

/* Copies some of the events after `*after`: during the wait for the connection they may be
 * dropped. */
static void http_stream_take_events(const struct http_stream *stream, uint64_t *after,
                                    struct bl_buffer *out)
{
    BL_LIST_EACH (link, &stream->events) {
        const struct event *event = BL_CONTAINER(link, struct event, link);
        if (out->size >= PIECE_SIZE)
            return;
        if (event->number <= *after)
            continue;
        http_stream_write_event(stream, event, out);
        *after = event->number;
    }
}

/* Writes the id with which the stream can be resumed before it has an event. */
static void write_opening(const struct http_stream *stream, struct bl_buffer *out)
{
    if (!stream->has_ids)
        return;
    bl_buffer_printf(out, "id: %" PRIu32 "-0\n", stream->number);
    if (stream->primes)
        bl_buffer_printf(out, "retry: %d\ndata:\n", RETRY_MS);
    bl_buffer_append(out, BL_TEXT("\n"));
}

static int http_write_stream(struct http_stream *stream, struct http_reader *reader,
                             struct bl_http_call *call, uint64_t after, bool resumed,
                             struct bl_buffer *out)
{
    int code = 0;

    if (!resumed)
        write_opening(stream, out);
    while (code == 0) {
        http_stream_take_events(stream, &after, out);
        if (out->size > 0) {
            code = write_in_time(call, bl_buffer_text(out));
            bl_buffer_clear(out);
        } else if (stream->ended || reader->replaced) {
            code = bl_http_call_end(call);
            return code == 0 && reader->replaced ? BL_EBUSY : code;
        } else {
            code = http_wait(&reader->wake, bl_time_add(bl_now_ns(), KEEP_ALIVE_NS));
            if (code == BL_EAGAIN)
                code = write_in_time(call, BL_TEXT(":\n\n"));
        }
    }
    return code;
}

static int answer_stream(struct http_stream *stream, struct http_reader *reader,
                         struct bl_http_call *call, uint64_t after, bool resumed)
{
    static const struct bl_http_header headers[] = {
        {BL_TEXT("Content-Type"), BL_TEXT("text/event-stream")},
        {BL_TEXT("Cache-Control"), BL_TEXT("no-cache")},
        {BL_TEXT("X-Accel-Buffering"), BL_TEXT("no")},
    };
    BL_AUTO_BUFFER(out, PIECE_MAX);
    int code = bl_http_call_begin(call, 200, headers, BL_COUNT(headers));

    if (code != 0)
        return code;
    code = http_write_stream(stream, reader, call, after, resumed, &out);
    return code;
}

static int http_stream_answer_whole(const struct http_stream *stream, struct bl_http_call *call)
{
    static const struct bl_http_header json = {BL_TEXT("Content-Type"),
                                               BL_TEXT("application/json")};
    const struct event *event = BL_CONTAINER(stream->events.next, struct event, link);
    struct bl_scope scope;

    bl_limit_begin(&scope, mcp_http_take_ns);
    int code = bl_http_call_answer(call, stream->status, &json, 1,
                                   (struct bl_text){event->text, event->size});
    bl_limit_end(&scope);
    return code;
}

/* Waits for the first event, or until it is too late for a plain answer. */
static int await_first(struct http_stream *stream, struct http_reader *reader)
{
    uint64_t until_ns = bl_time_add(bl_now_ns(), mcp_http_first_ns);
    int code = 0;

    while (code == 0 && !stream->ended && stream->next == 1)
        code = http_wait(&reader->wake, until_ns);
    return code == BL_EAGAIN ? 0 : code;
}

int http_stream_read(struct http_stream *stream, struct bl_http_call *call, uint64_t after,
                     bool resumed)
{
    struct http_reader reader = {.replaced = false};
    int code = 0;

    bl_semaphore_init(&reader.wake, 0);
    if (stream->reader != NULL) {
        stream->reader->replaced = true;
        wake_reader(stream);
    }
    stream->reader = &reader;
    stream->users++;
    if (!resumed)
        code = await_first(stream, &reader);
    if (code == 0 && !resumed && stream->ended && stream->answered && stream->next == 2)
        code = http_stream_answer_whole(stream, call);
    else if (code == 0)
        code = answer_stream(stream, &reader, call, after, resumed);
    if (stream->reader == &reader)
        stream->reader = NULL;
    http_stream_drop(stream);
    return code;
}
