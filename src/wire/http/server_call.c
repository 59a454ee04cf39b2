#include <stdio.h>
#include <strings.h>
#include <time.h>

#include "server.h"

#define HEAD_MAX ((size_t)256 * 1024)

/* ---- The request ----------------------------------------------------------------------------- */

static bool is_token_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') ||
           (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static bool server_call_is_token(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (!is_token_byte(text.data[i]))
            return false;
    }
    return text.size > 0;
}

/* True for visible characters, spaces, tabs and bytes beyond ASCII. */
static bool is_value(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if ((byte < ' ' && byte != '\t') || byte == 0x7F)
            return false;
    }
    return true;
}

static bool server_call_is_word(struct bl_text text, const char *word)
{
    return text.size == strlen(word) && strncasecmp(text.data, word, text.size) == 0;
}

/* Takes the next line, without its LF or CRLF. A CR elsewhere is refused later, as invalid in any
 * value. */
static struct bl_text server_call_take_line(struct bl_text *rest)
{
    struct bl_text line;

    if (!bl_text_split(rest, '\n', &line))
        return (struct bl_text){NULL, 0};
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    return line;
}

static bool starts_with_word(struct bl_text text, const char *word)
{
    size_t size = strlen(word);
    return text.size >= size && strncasecmp(text.data, word, size) == 0;
}

/* Reads the target of the request line. A client that takes this server for a proxy sends
 * "http://host/path": then the path is used, and the host is checked as well. */
static bool read_target(struct bl_http_call *call, struct bl_text target, struct bl_text *ret_host)
{
    for (size_t i = 0; i < target.size; i++) {
        if (target.data[i] <= ' ' || target.data[i] >= 0x7F)
            return false;
    }
    if (starts_with_word(target, "http://")) {
        target = (struct bl_text){target.data + 7, target.size - 7};
        const char *slash = target.size > 0 ? memchr(target.data, '/', target.size) : NULL;
        *ret_host = target;
        if (slash != NULL)
            ret_host->size = (size_t)(slash - target.data);
        target = (struct bl_text){target.data + ret_host->size, target.size - ret_host->size};
        if (target.size == 0)
            target = BL_TEXT("/");
    }
    call->path = target;
    bool all = bl_text_equal(target, BL_TEXT("*")) && server_call_is_word(call->method, "OPTIONS");
    return all || (target.size > 0 && target.data[0] == '/');
}

static int read_request_line(struct bl_http_call *call, struct bl_text line,
                             struct bl_text *ret_host)
{
    const char *first = line.size > 0 ? memchr(line.data, ' ', line.size) : NULL;
    const char *last = line.size > 0 ? memrchr(line.data, ' ', line.size) : NULL;

    if (first == NULL || first == last)
        return 400;
    struct bl_text version = {last + 1, line.size - (size_t)(last - line.data) - 1};
    call->method = (struct bl_text){line.data, (size_t)(first - line.data)};
    if (!server_call_is_token(call->method))
        return 400;
    if (bl_text_equal(version, BL_TEXT("HTTP/1.1")))
        call->minor = 1;
    else if (!bl_text_equal(version, BL_TEXT("HTTP/1.0")))
        return bl_text_starts_with(version, BL_TEXT("HTTP/")) ? 505 : 400;
    return read_target(call, (struct bl_text){first + 1, (size_t)(last - first) - 1}, ret_host)
               ? 0
               : 400;
}

static int server_call_read_header(struct bl_http_header *header, struct bl_text line)
{
    const char *colon = memchr(line.data, ':', line.size);

    if (colon == NULL)
        return 400;
    header->name = (struct bl_text){line.data, (size_t)(colon - line.data)};
    header->value = bl_text_trim((struct bl_text){colon + 1, line.size - header->name.size - 1});
    return server_call_is_token(header->name) && is_value(header->value) ? 0 : 400;
}

static int server_call_read_headers(struct bl_http_call *call, struct bl_text rest)
{
    size_t count = 0;

    for (struct bl_text lines = rest, line; (line = server_call_take_line(&lines)).size > 0;)
        count++;
    if (count > BL_WIRE_HEADER_COUNT_MAX)
        return 431;
    call->headers = bl_arena_alloc(&call->arena, count * sizeof *call->headers);
    for (struct bl_text line; (line = server_call_take_line(&rest)).size > 0;) {
        int code = server_call_read_header(&call->headers[call->header_count], line);
        if (code != 0)
            return code;
        call->header_count++;
    }
    return 0;
}

/* Returns the number of headers with that name; `*ret_value` is the first. */
static unsigned find_header(const struct bl_http_call *call, const char *name,
                            struct bl_text *ret_value)
{
    unsigned count = 0;

    for (size_t i = 0; i < call->header_count; i++) {
        if (server_call_is_word(call->headers[i].name, name) && count++ == 0)
            *ret_value = call->headers[i].value;
    }
    return count;
}

static bool server_call_names_loopback(struct bl_text host)
{
    const char *end;

    if (host.size > 0 && host.data[0] == '[') {
        end = memchr(host.data, ']', host.size);
        if (end == NULL)
            return false;
        size_t after = host.size - (size_t)(end - host.data) - 1;
        if (after > 0 && end[1] != ':')
            return false;
        host = (struct bl_text){host.data + 1, (size_t)(end - host.data) - 1};
    } else {
        end = host.size > 0 ? memchr(host.data, ':', host.size) : NULL;
        if (end != NULL)
            host.size = (size_t)(end - host.data);
    }
    return bl_url_loopback(&(struct bl_url){.host = host});
}

/* True for a host name that may be served. A web page can point its own name at 127.0.0.1, so that
 * the browser treats this server as part of that page; but then its requests name that host. */
static bool is_ours_or_known(struct bl_text host, const struct bl_http_server_options *options)
{
    return server_call_names_loopback(host) ||
           (options->knows_host != NULL && options->knows_host(options->context, host));
}

static int server_call_check_host(const struct bl_http_call *call, struct bl_text from_target,
                                  const struct bl_http_server_options *options)
{
    struct bl_text host = {NULL, 0};
    unsigned count = find_header(call, "host", &host);

    if (count > 1 || (count == 0 && call->minor > 0))
        return 400;
    if (from_target.data != NULL && !is_ours_or_known(from_target, options))
        return 403;
    return count == 0 || is_ours_or_known(host, options) ? 0 : 403;
}

static int read_framing(struct bl_http_call *call)
{
    struct bl_text coding = {NULL, 0}, length = {NULL, 0};
    unsigned codings = find_header(call, "transfer-encoding", &coding);
    unsigned lengths = find_header(call, "content-length", &length);
    bool sends = server_call_is_word(call->method, "POST") ||
                 server_call_is_word(call->method, "PUT") ||
                 server_call_is_word(call->method, "PATCH");
    int64_t value = 0;

    if (codings > 0) {
        if (call->minor == 0)
            return 411;
        /* Two lengths for one body: an intermediary may have used the other one. */
        if (lengths > 0)
            return 400;
        if (codings > 1 || !server_call_is_word(coding, "chunked"))
            return 501;
        call->chunked = true;
        return 0;
    }
    if (lengths == 0)
        return sends && call->minor == 0 ? 411 : 0;
    int code = bl_text_to_int64(length, &value);
    if (lengths > 1 || code == BL_EPARSE || value < 0)
        return 400;
    call->length = code == 0 ? (uint64_t)value : UINT64_MAX;
    return 0;
}

/* Searches a comma-separated list such as "keep-alive, Upgrade". */
static bool server_call_has_word(struct bl_text list, const char *word)
{
    struct bl_text part;

    while (bl_text_split(&list, ',', &part)) {
        if (server_call_is_word(bl_text_trim(part), word))
            return true;
    }
    return false;
}

int call_read_head(struct bl_http_call *call, struct bl_text head,
                   const struct bl_http_server_options *options)
{
    struct bl_text rest = bl_arena_text(&call->arena, head);
    struct bl_text host = {NULL, 0}, value = {NULL, 0};
    struct bl_text line = server_call_take_line(&rest);
    int code = read_request_line(call, line, &host);

    if (code == 0)
        code = server_call_read_headers(call, rest);
    if (code == 0)
        code = server_call_check_host(call, host, options);
    if (code == 0)
        code = read_framing(call);
    if (code != 0)
        return code;
    if (find_header(call, "connection", &value) > 0)
        call->keeps = call->minor > 0 ? !server_call_has_word(value, "close")
                                      : server_call_has_word(value, "keep-alive");
    else
        call->keeps = call->minor > 0;
    if (call->minor > 0 && find_header(call, "expect", &value) > 0) {
        if (!server_call_is_word(value, "100-continue"))
            return 417;
        call->continues = true;
    }
    return 0;
}

void call_init(struct bl_http_call *call, struct server_socket *socket)
{
    memset(call, 0, sizeof *call);
    call->socket = socket;
}

void call_done(struct bl_http_call *call)
{
    bl_arena_done(&call->arena);
    bl_buffer_done(&call->body);
}

struct bl_text bl_http_call_method(const struct bl_http_call *call)
{
    return call->method;
}

struct bl_text bl_http_call_path(const struct bl_http_call *call)
{
    return call->path;
}

struct bl_text bl_http_call_header(const struct bl_http_call *call, const char *name)
{
    struct bl_text value = {NULL, 0};

    find_header(call, name, &value);
    return value;
}

struct bl_text bl_http_call_body(const struct bl_http_call *call)
{
    return bl_buffer_text(&call->body);
}

struct bl_arena *bl_http_call_arena(struct bl_http_call *call)
{
    return &call->arena;
}

/* ---- The response ---------------------------------------------------------------------------- */

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < BL_COUNT(reasons); i++) {
        if (reasons[i].status == status)
            return reasons[i].reason;
    }
    return "Status";
}

static void write_date(struct bl_buffer *out)
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t seconds =
        (time_t)(bl_clock_wall_ns(bl_loop_clock(bl_loop_current())) / (int64_t)BL_NS_PER_S);
    struct tm when;

    if (gmtime_r(&seconds, &when) != NULL)
        bl_buffer_printf(out, "Date: %s, %02d %s %d %02d:%02d:%02d GMT\r\n", days[when.tm_wday],
                         when.tm_mday, months[when.tm_mon], when.tm_year + 1900, when.tm_hour,
                         when.tm_min, when.tm_sec);
}

/* True for headers that frame the response, which only the server sets. */
static bool server_call_is_ours(struct bl_text name)
{
    return server_call_is_word(name, "content-length") ||
           server_call_is_word(name, "transfer-encoding") ||
           server_call_is_word(name, "connection") || server_call_is_word(name, "date");
}

static int server_call_write_head(struct bl_http_call *call, struct bl_buffer *out, int status,
                                  const struct bl_http_header *headers, size_t header_count)
{
    int code = bl_buffer_printf(out, "HTTP/1.1 %d %s\r\n", status, reason_of(status));

    for (size_t i = 0; code == 0 && i < header_count; i++) {
        if (!server_call_is_token(headers[i].name) || !is_value(headers[i].value))
            return BL_EINVAL;
        if (server_call_is_ours(headers[i].name))
            continue;
        if (bl_buffer_append(out, headers[i].name) != 0 || bl_buffer_append(out, BL_TEXT(": ")) ||
            bl_buffer_append(out, headers[i].value) != 0 || bl_buffer_append(out, BL_TEXT("\r\n")))
            return BL_ELIMIT;
    }
    write_date(out);
    if (!call->keeps)
        bl_buffer_append(out, BL_TEXT("Connection: close\r\n"));
    else if (call->minor == 0)
        bl_buffer_append(out, BL_TEXT("Connection: keep-alive\r\n"));
    return code;
}

static bool has_body(const struct bl_http_call *call, int status)
{
    return !server_call_is_word(call->method, "HEAD") && status != 204 && status != 304;
}

/* A response that was sent in part cannot be repaired. */
static int send_parts(struct bl_http_call *call, struct iovec *parts, int count)
{
    bool begun = false;
    int code = server_socket_write(call->socket, parts, count, &begun);

    if (code == BL_EPIPE || (code != 0 && begun))
        call->state = CALL_CUT;
    return code;
}

static struct iovec server_call_part_of(struct bl_text text)
{
    return (struct iovec){(void *)(uintptr_t)text.data, text.size};
}

static int check_answer(const struct bl_http_call *call, int status)
{
    if (call->state == CALL_CUT)
        return BL_EPIPE;
    return call->state == CALL_OPEN && status >= 200 && status <= 599 ? 0 : BL_EINVAL;
}

int bl_http_call_answer(struct bl_http_call *call, int status, const struct bl_http_header *headers,
                        size_t header_count, struct bl_text body)
{
    struct bl_buffer head;
    int code = check_answer(call, status);

    if (code != 0)
        return code;
    bl_buffer_init(&head, HEAD_MAX);
    code = server_call_write_head(call, &head, status, headers, header_count);
    if (code == 0 && status != 204 && status != 304)
        code = bl_buffer_printf(&head, "Content-Length: %zu\r\n", body.size);
    if (code == 0)
        code = bl_buffer_append(&head, BL_TEXT("\r\n"));
    if (code == 0) {
        struct iovec parts[] = {server_call_part_of(bl_buffer_text(&head)),
                                server_call_part_of(body)};
        code = send_parts(call, parts, has_body(call, status) ? 2 : 1);
    }
    bl_buffer_done(&head);
    if (code == 0)
        call->state = CALL_ENDED;
    return code;
}

int bl_http_call_begin(struct bl_http_call *call, int status, const struct bl_http_header *headers,
                       size_t header_count)
{
    struct bl_buffer head;
    int code = check_answer(call, status);

    if (code != 0)
        return code;
    bl_buffer_init(&head, HEAD_MAX);
    call->silent = !has_body(call, status);
    /* An HTTP/1.0 client does not support chunks: the end of the connection ends the response. */
    if (call->minor == 0)
        call->keeps = false;
    code = server_call_write_head(call, &head, status, headers, header_count);
    if (code == 0 && call->minor > 0 && status != 204 && status != 304)
        code = bl_buffer_append(&head, BL_TEXT("Transfer-Encoding: chunked\r\n"));
    if (code == 0)
        code = bl_buffer_append(&head, BL_TEXT("\r\n"));
    if (code == 0)
        code = send_parts(call, &(struct iovec){head.data, head.size}, 1);
    bl_buffer_done(&head);
    if (code == 0)
        call->state = CALL_STREAMING;
    return code;
}

int bl_http_call_write(struct bl_http_call *call, struct bl_text bytes)
{
    char size[24];

    if (call->state != CALL_STREAMING)
        return call->state == CALL_CUT ? BL_EPIPE : BL_EINVAL;
    /* An empty chunk would end the response. */
    if (bytes.size == 0 || call->silent)
        return bl_check();
    if (call->minor == 0)
        return send_parts(call, &(struct iovec){(void *)(uintptr_t)bytes.data, bytes.size}, 1);
    int length = snprintf(size, sizeof size, "%zx\r\n", bytes.size);
    struct iovec parts[] = {
        {size, (size_t)length}, server_call_part_of(bytes), server_call_part_of(BL_TEXT("\r\n"))};
    return send_parts(call, parts, 3);
}

int bl_http_call_end(struct bl_http_call *call)
{
    int code = 0;

    if (call->state != CALL_STREAMING)
        return call->state == CALL_CUT ? BL_EPIPE : BL_EINVAL;
    if (!call->silent && call->minor > 0) {
        struct iovec part = server_call_part_of(BL_TEXT("0\r\n\r\n"));
        code = send_parts(call, &part, 1);
    }
    if (code == 0)
        call->state = CALL_ENDED;
    return code;
}

void bl_http_call_cut(struct bl_http_call *call)
{
    server_socket_free(call->socket, true);
    call->socket = NULL;
    call->state = CALL_CUT;
}

void call_refuse(struct bl_http_call *call, int status)
{
    static const struct bl_http_header plain = {BL_TEXT("Content-Type"), BL_TEXT("text/plain")};
    char text[64];

    call->keeps = false;
    call->refused = true;
    int size = snprintf(text, sizeof text, "%d %s\n", status, reason_of(status));
    bl_http_call_answer(call, status, &plain, 1, (struct bl_text){text, (size_t)size});
}
