/* What strangers may send over HTTP before anybody knows who they are: the head of a request, and
 * the headers that MCP reads. The first byte chooses. */
#include <stdio.h>
#include <stdlib.h>

#include "serve/mcp/http.h"
#include "wire/http/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const listed[] = {"https://page.test:8443", "name.test", NULL};

static void check(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "http_fuzz: %s\n", what);
    abort();
}

static bool knows_host(void *context, struct bl_text host)
{
    (void)context;
    return http_host_listed(listed, host);
}

static void read_head(struct bl_text bytes)
{
    static const struct bl_http_server_options options = {.knows_host = knows_host};
    struct bl_http_call call;

    call_init(&call, NULL);
    int status = call_read_head(&call, bytes, &options);
    check(status == 0 || (status >= 400 && status < 600), "a status of its own");
    if (status == 0) {
        check(call.method.size > 0, "a method");
        check(call.path.size > 0 && (call.path.data[0] == '/' || call.path.data[0] == '*'),
              "a path");
        check(call.header_count <= BL_WIRE_HEADER_COUNT_MAX, "too many headers");
        check(!call.chunked || call.length == 0, "one measure of its body");
        for (size_t i = 0; i < call.header_count; i++)
            check(call.headers[i].name.size > 0 &&
                      memchr(call.headers[i].value.data, '\n', call.headers[i].value.size) == NULL,
                  "headers of one line");
    }
    call_done(&call);
}

static void read_value(struct bl_text bytes)
{
    struct bl_arena arena;
    struct bl_text value;
    uint32_t stream;
    uint64_t event;

    bl_arena_init(&arena);
    if (http_header_value(&arena, bytes, &value))
        check(bl_utf8_valid(value), "a value that is text");
    if (http_event_id_parse(bytes, &stream, &event)) {
        struct bl_text same =
            bl_arena_printf(&arena, "%lu-%llu", (unsigned long)stream, (unsigned long long)event);
        check(same.size <= bytes.size, "an id of two numbers");
    }
    http_is_json(bytes);
    http_accepts(bytes, "text/event-stream");
    check(!http_token_right(bytes, "0123456789abcdef-and-nobody-guesses-that"), "no token");
    /* Who is let in is one of those listed, or of this machine. */
    if (http_origin_known(NULL, bytes))
        check(bl_text_find(bytes, BL_TEXT("://")) >= 0, "an origin");
    http_origin_known(listed, bytes);
    http_host_listed(listed, bytes);
    bl_arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    /* In memory of its own, so that one byte too far is found out. */
    char *copy = bl_alloc(size - 1);
    memcpy(copy, data + 1, size - 1);
    struct bl_text bytes = {copy, size - 1};
    if (data[0] % 2 == 0)
        read_head(bytes);
    else
        read_value(bytes);
    bl_free(copy);
    return 0;
}
