#include <belay/wire.h>

#include <arpa/inet.h>
#include <strings.h>

#define HOST_MAX  ((size_t)253)
#define SHOWN_MAX ((size_t)200)

static int url_fail(struct bl_error *error, const char *text, const char *what)
{
    char shown[SHOWN_MAX];

    bl_text_into(shown, sizeof shown, text);
    int code = bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read an address", shown, "%s", what);
    bl_error_hint(error, "write it as https://host, https://host:port or https://host:port/path");
    return code;
}

static bool is_host_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-' ||
           byte == '.' || byte == '_';
}

/* True if the last label of a name is a number: it would be treated as an address in one of the old
 * forms ("127.1", "0x7f000001"), which programs read differently. */
static bool ends_in_number(struct bl_text host)
{
    if (bl_text_ends_with(host, BL_TEXT(".")))
        host.size--;
    size_t from = host.size;
    while (from > 0 && host.data[from - 1] != '.')
        from--;
    struct bl_text last = {host.data + from, host.size - from};
    if (bl_text_starts_with(last, BL_TEXT("0x")))
        return true;
    for (size_t i = 0; i < last.size; i++) {
        if (last.data[i] < '0' || last.data[i] > '9')
            return false;
    }
    return last.size > 0;
}

/* Returns NULL, or what is wrong. */
static const char *url_check_host(struct bl_text host, bool bracketed)
{
    struct in6_addr address;

    if (host.size == 0)
        return "no host in the address";
    if (host.size > HOST_MAX)
        return "the host is longer than 253 bytes";
    if (bracketed)
        return inet_pton(AF_INET6, host.data, &address) == 1 ? NULL
                                                             : "invalid IPv6 address in brackets";
    for (size_t i = 0; i < host.size; i++) {
        if (!is_host_byte(host.data[i]))
            return "invalid character in the host name";
    }
    if (host.data[0] == '.' || host.data[0] == '-' || bl_text_find(host, BL_TEXT("..")) >= 0)
        return "the host is not a host name";
    if (ends_in_number(host) && inet_pton(AF_INET, host.data, &address) != 1)
        return "invalid IPv4 address (expected four numbers)";
    return NULL;
}

/* Copies the host in lower case, as names are compared. */
static struct bl_text copy_host(struct bl_arena *arena, struct bl_text host)
{
    char *copy = bl_arena_alloc(arena, host.size + 1);

    for (size_t i = 0; i < host.size; i++) {
        char byte = host.data[i];
        copy[i] = byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
    }
    copy[host.size] = '\0';
    return (struct bl_text){copy, host.size};
}

/* Takes the host off the front of `*rest`. Returns NULL, or what is wrong. */
static const char *take_host(struct bl_arena *arena, struct bl_text *rest, struct bl_url *url)
{
    bool bracketed = rest->size > 0 && rest->data[0] == '[';
    struct bl_text host = *rest;

    if (bracketed) {
        const char *end = memchr(rest->data, ']', rest->size);
        if (end == NULL)
            return "missing closing bracket";
        host = (struct bl_text){rest->data + 1, (size_t)(end - rest->data) - 1};
        *rest = (struct bl_text){end + 1, rest->size - host.size - 2};
    } else {
        const char *end = rest->size > 0 ? memchr(rest->data, ':', rest->size) : NULL;
        if (end != NULL)
            host.size = (size_t)(end - rest->data);
        *rest = (struct bl_text){rest->data + host.size, rest->size - host.size};
    }
    if (host.size > 0 && memchr(host.data, '\0', host.size) != NULL)
        return "the address contains a NUL";
    url->host = copy_host(arena, host);
    return url_check_host(url->host, bracketed);
}

static const char *url_take_port(struct bl_text rest, struct bl_url *url)
{
    int64_t port = 0;

    url->port = url->secure ? 443 : 80;
    if (rest.size == 0)
        return NULL;
    if (rest.data[0] != ':')
        return "unexpected text between host and port";
    rest = (struct bl_text){rest.data + 1, rest.size - 1};
    if (rest.size == 0)
        return NULL;
    if (bl_text_to_int64(rest, &port) != 0 || port < 1 || port > 65535)
        return "invalid port (expected a number from 1 to 65535)";
    url->port = (uint16_t)port;
    return NULL;
}

static const char *check_path(struct bl_text path)
{
    for (size_t i = 0; i < path.size; i++) {
        unsigned char byte = (unsigned char)path.data[i];
        if (byte == '#')
            return "the address has a fragment (#), which is never sent";
        if (byte <= ' ' || byte >= 0x7F || byte == '\\')
            return "the path has a character that must be written as %XX";
    }
    return NULL;
}

int bl_url_parse(struct bl_arena *arena, const char *text, struct bl_url *ret_url,
                 struct bl_error *error)
{
    struct bl_url url = {.secure = false};
    struct bl_text rest = bl_text_from(text);
    const char *wrong;

    if (rest.size == 0)
        return url_fail(error, "", "the address is empty");
    if (strncasecmp(text, "https://", 8) == 0)
        url.secure = true;
    else if (strncasecmp(text, "http://", 7) != 0)
        return url_fail(error, text, "the address must start with http:// or https://");
    size_t scheme = url.secure ? 8 : 7;
    rest = (struct bl_text){rest.data + scheme, rest.size - scheme};
    size_t authority = strcspn(rest.data, "/?#");
    struct bl_text place = {rest.data, authority};
    struct bl_text path = {rest.data + authority, rest.size - authority};

    if (place.size > 0 && memchr(place.data, '@', place.size) != NULL) {
        /* Not shown: it may be a password. */
        return url_fail(error, url.secure ? "https://…@…" : "http://…@…",
                        "the address contains a user name or password");
    }
    wrong = take_host(arena, &place, &url);
    if (wrong == NULL)
        wrong = url_take_port(place, &url);
    if (wrong == NULL)
        wrong = check_path(path);
    if (wrong != NULL)
        return url_fail(error, text, wrong);
    bool slash = path.size > 0 && path.data[0] == '/';
    url.path = slash ? bl_arena_text(arena, path)
                     : bl_arena_printf(arena, "/" BL_TEXT_FORMAT, BL_TEXT_ARG(path));
    *ret_url = url;
    return 0;
}

bool bl_url_loopback(const struct bl_url *url)
{
    struct bl_text host = url->host;
    char name[HOST_MAX + 1];
    struct in_addr address;
    struct in6_addr address6;

    if (host.size == 0 || host.size > HOST_MAX)
        return false;
    memcpy(name, host.data, host.size);
    name[host.size] = '\0';
    if (inet_pton(AF_INET, name, &address) == 1)
        return ntohl(address.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, name, &address6) == 1)
        return memcmp(&address6, &in6addr_loopback, sizeof address6) == 0;
    if (name[host.size - 1] == '.')
        name[--host.size] = '\0';
    size_t label = sizeof "localhost" - 1;
    if (host.size < label || strcasecmp(name + host.size - label, "localhost") != 0)
        return false;
    return host.size == label || name[host.size - label - 1] == '.';
}
