/* Bytes, and the frames exchanged with the host: 4 bytes of length, big-endian, then JSON. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "parts.h"

#define HOST      0
#define HEAD_SIZE 4u
#define READ_SIZE ((size_t)64 * 1024)

/* ---- Bytes ----------------------------------------------------------------------------------- */

void bytes_done(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){0};
}

static char *worker_host_reserve(struct bytes *bytes, size_t size)
{
    size_t needed = bytes->size + size;
    if (needed > bytes->capacity) {
        size_t capacity = bytes->capacity + bytes->capacity / 2;
        if (capacity < needed)
            capacity = needed + 64;
        char *data = realloc(bytes->data, capacity);
        if (data == NULL)
            memory_exhausted();
        bytes->data = data;
        bytes->capacity = capacity;
    }
    return bytes->data + bytes->size;
}

void bytes_add(struct bytes *bytes, const void *data, size_t size)
{
    if (size > 0)
        memcpy(worker_host_reserve(bytes, size), data, size);
    bytes->size += size;
}

void bytes_add_string(struct bytes *bytes, const char *string)
{
    bytes_add(bytes, string, strlen(string));
}

void bytes_add_number(struct bytes *bytes, uint64_t number)
{
    char digits[24];
    int size = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    bytes_add(bytes, digits, (size_t)size);
}

static void add_utf8(struct bytes *bytes, uint32_t point)
{
    unsigned char *out = (unsigned char *)worker_host_reserve(bytes, 4);
    size_t size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = size; i > 1; i--, point >>= 6)
        out[i - 1] = (unsigned char)(0x80 | (point & 0x3F));
    out[0] = (unsigned char)(lead[size] | point);
    bytes->size += size;
}

/* Returns the next character; an unpaired surrogate becomes U+FFFD. */
static uint32_t next_point(const JSChar *text, size_t size, size_t *position)
{
    uint32_t unit = text[(*position)++];
    if (unit < 0xD800 || unit > 0xDFFF)
        return unit;
    if (unit > 0xDBFF || *position == size || (text[*position] & 0xFC00) != 0xDC00)
        return 0xFFFD;
    return 0x10000 + ((unit & 0x3FF) << 10) + (text[(*position)++] & 0x3FFu);
}

void bytes_add_text(struct bytes *bytes, JSStringRef text, size_t size_max)
{
    const JSChar *units = JSStringGetCharactersPtr(text);
    size_t count = JSStringGetLength(text), begin = bytes->size;
    for (size_t i = 0; i < count && bytes->size - begin < size_max;)
        add_utf8(bytes, next_point(units, count, &i));
}

static void add_escaped(struct bytes *bytes, uint32_t point)
{
    static const char short_forms[] = "btn\vfr"; /* for 8 to 13; 11 has none */
    char escape[8];
    int size = 2;
    if (point >= 0x20 && point != '"' && point != '\\') {
        add_utf8(bytes, point);
        return;
    }
    escape[0] = '\\';
    escape[1] = (char)point;
    if (point >= 8 && point <= 13 && point != 11)
        escape[1] = short_forms[point - 8];
    else if (point < 0x20)
        size = snprintf(escape, sizeof escape, "\\u%04x", (unsigned)point);
    bytes_add(bytes, escape, (size_t)size);
}

void bytes_add_quoted(struct bytes *bytes, JSStringRef text, size_t size_max)
{
    const JSChar *units = JSStringGetCharactersPtr(text);
    size_t count = JSStringGetLength(text), begin = bytes->size;
    bytes_add(bytes, "\"", 1);
    for (size_t i = 0; i < count && bytes->size - begin <= size_max;)
        add_escaped(bytes, next_point(units, count, &i));
    bytes_add(bytes, "\"", 1);
}

void bytes_add_quoted_utf8(struct bytes *bytes, const char *data, size_t size)
{
    bytes_add(bytes, "\"", 1);
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)data[i];
        if (byte < 0x80)
            add_escaped(bytes, byte);
        else
            bytes_add(bytes, data + i, 1);
    }
    bytes_add(bytes, "\"", 1);
}

/* The engine writes a lone surrogate as an escape, which most readers do not accept as JSON. */
bool bytes_add_json(struct bytes *bytes, JSStringRef json)
{
    const JSChar *units = JSStringGetCharactersPtr(json);
    size_t count = JSStringGetLength(json);
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < count;) {
        uint32_t point = next_point(units, count, &i);
        if (point == '"') {
            in_string = !in_string;
        } else if (in_string && point == '\\' && i < count) {
            uint32_t kind = units[i++];
            bool lone =
                kind == 'u' && i + 4 <= count && (units[i] | 0x20) == 'd' && units[i + 1] >= '8';
            bytes_add_string(bytes, lone ? "\\ufffd" : "\\");
            i += lone ? 4 : 0;
            if (lone)
                continue;
            point = kind;
        } else if (!in_string && (point == '[' || point == '{')) {
            if (++depth > WORKER_DEPTH_MAX)
                return false;
        } else if (!in_string && (point == ']' || point == '}')) {
            depth--;
        }
        add_utf8(bytes, point);
    }
    return true;
}

void bytes_cut(struct bytes *bytes, size_t size_max)
{
    if (bytes->size <= size_max)
        return;
    while (size_max > 0 && ((unsigned char)bytes->data[size_max] & 0xC0) == 0x80)
        size_max--;
    bytes->size = size_max;
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Waits for the host's socket. If that fails, the host has exited and needs no cell: the worker
 * exits. */
static void await_host(short events)
{
    struct pollfd host = {.fd = HOST, .events = events};
    while (poll(&host, 1, -1) < 0)
        if (errno != EINTR && errno != EAGAIN)
            _exit(WORKER_EXIT_PROTOCOL);
}

void host_write(const void *data, size_t size)
{
    for (const char *next = data; size > 0;) {
        ssize_t written = write(HOST, next, size);
        if (written >= 0) {
            next += written;
            size -= (size_t)written;
        } else if (errno == EAGAIN) {
            await_host(POLLOUT);
        } else if (errno != EINTR) {
            _exit(WORKER_EXIT_PROTOCOL);
        }
    }
}

static void worker_host_put_head(unsigned char head[HEAD_SIZE], size_t size)
{
    for (unsigned i = 0; i < HEAD_SIZE; i++)
        head[i] = (unsigned char)(size >> (8 * (HEAD_SIZE - 1 - i)));
}

void host_write_head(size_t size)
{
    unsigned char head[HEAD_SIZE];
    worker_host_put_head(head, size);
    host_write(head, HEAD_SIZE);
}

void host_send(const struct bytes *frame)
{
    unsigned char small[512];
    if (frame->size > sizeof small - HEAD_SIZE) {
        host_write_head(frame->size);
        host_write(frame->data, frame->size);
        return;
    }
    worker_host_put_head(small, frame->size);
    memcpy(small + HEAD_SIZE, frame->data, frame->size);
    host_write(small, HEAD_SIZE + frame->size);
}

void host_send_string(const char *frame)
{
    host_write_head(strlen(frame));
    host_write(frame, strlen(frame));
}

/* ---- Receiving ------------------------------------------------------------------------------- */

static struct bytes incoming; /* its first `taken` bytes are the frame returned last */
static size_t taken;
static char after_frame; /* the byte that the frame's NUL has replaced */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void drop_taken(void)
{
    if (taken == 0)
        return;
    incoming.data[taken] = after_frame;
    memmove(incoming.data, incoming.data + taken, incoming.size - taken);
    incoming.size -= taken;
    taken = 0;
    if (incoming.size == 0 && incoming.capacity > 2 * READ_SIZE)
        bytes_done(&incoming);
}

/* Returns NULL if the frame is not complete yet. */
static const char *worker_host_take_frame(void)
{
    size_t size = 0;
    if (incoming.size < HEAD_SIZE)
        return NULL;
    for (unsigned i = 0; i < HEAD_SIZE; i++)
        size = size << 8 | (unsigned char)incoming.data[i];
    if (size == 0 || size > WORKER_FRAME_MAX)
        _exit(WORKER_EXIT_PROTOCOL);
    if (incoming.size < HEAD_SIZE + size)
        return NULL;
    taken = HEAD_SIZE + size;
    worker_host_reserve(&incoming, 1);
    after_frame = incoming.data[taken];
    incoming.data[taken] = '\0';
    return incoming.data + HEAD_SIZE;
}

/* Waits for bytes and reads them. Returns false if none arrive in time. */
static bool worker_host_read_some(int64_t until_ms)
{
    struct pollfd host = {.fd = HOST, .events = POLLIN};
    for (;;) {
        int64_t left = until_ms < 0 ? -1 : until_ms - now_ms();
        if (until_ms >= 0 && left < 0)
            left = 0;
        int ready = poll(&host, 1, (int)left);
        if (ready == 0)
            return false;
        if (ready > 0)
            break;
        if (errno != EINTR && errno != EAGAIN)
            _exit(WORKER_EXIT_PROTOCOL);
    }
    ssize_t size = read(HOST, worker_host_reserve(&incoming, READ_SIZE), READ_SIZE);
    if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN))
        _exit(WORKER_EXIT_PROTOCOL);
    incoming.size += size > 0 ? (size_t)size : 0;
    return true;
}

const char *host_receive(int timeout_ms)
{
    int64_t until_ms = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
    drop_taken();
    for (;;) {
        const char *frame = worker_host_take_frame();
        if (frame != NULL || !worker_host_read_some(until_ms))
            return frame;
    }
}
