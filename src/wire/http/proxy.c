#include <stdlib.h>
#include <strings.h>

#include "address.h"

/* Returns the first of two variables that is not empty, or NULL. */
static const char *either(const char *first, const char *second)
{
    const char *value = getenv(first);

    if (value == NULL || value[0] == '\0')
        value = second != NULL ? getenv(second) : NULL;
    return value != NULL && value[0] != '\0' ? value : NULL;
}

void bl_proxies_read(struct bl_proxies *ret_proxies)
{
    /* In a CGI program, HTTP_PROXY is the value of the client's header "Proxy". */
    bool cgi = getenv("REQUEST_METHOD") != NULL;

    ret_proxies->https = either("https_proxy", "HTTPS_PROXY");
    ret_proxies->http = either("http_proxy", cgi ? NULL : "HTTP_PROXY");
    ret_proxies->all = either("all_proxy", "ALL_PROXY");
    ret_proxies->no = either("no_proxy", "NO_PROXY");
}

static struct bl_text without_last_dot(struct bl_text name)
{
    if (name.size > 1 && name.data[name.size - 1] == '.')
        name.size--;
    return name;
}

/* True for the name itself and every name below it. */
static bool name_covers(struct bl_text pattern, struct bl_text host)
{
    if (bl_text_starts_with(pattern, BL_TEXT("*.")))
        pattern = (struct bl_text){pattern.data + 1, pattern.size - 1};
    if (bl_text_starts_with(pattern, BL_TEXT(".")))
        pattern = (struct bl_text){pattern.data + 1, pattern.size - 1};
    pattern = without_last_dot(pattern);
    host = without_last_dot(host);
    if (pattern.size == 0 || host.size < pattern.size)
        return false;
    size_t before = host.size - pattern.size;
    if (strncasecmp(host.data + before, pattern.data, pattern.size) != 0)
        return false;
    return before == 0 || host.data[before - 1] == '.';
}

/* Removes ":port" from the end of an entry. Returns false if the port is invalid. */
static bool proxy_take_port(struct bl_text *entry, int64_t *ret_port)
{
    *ret_port = 0;
    if (entry->size == 0 || entry->data == NULL)
        return true;
    const char *colon = memrchr(entry->data, ':', entry->size);
    const char *bracket = memrchr(entry->data, ']', entry->size);
    if (colon == NULL || (bracket != NULL && bracket > colon))
        return true;
    /* More than one colon without brackets: an IPv6 address. */
    if (bracket == NULL && memchr(entry->data, ':', entry->size) != colon)
        return true;
    struct bl_text port = {colon + 1, entry->size - (size_t)(colon - entry->data) - 1};
    entry->size = (size_t)(colon - entry->data);
    return bl_text_to_int64(port, ret_port) == 0 && *ret_port >= 1 && *ret_port <= 65535;
}

static bool network_covers(struct bl_text entry, const struct wire_address *host)
{
    const char *slash = memchr(entry.data, '/', entry.size);
    struct bl_text base = {entry.data, (size_t)(slash - entry.data)};
    struct bl_text length = {slash + 1, entry.size - base.size - 1};
    int64_t bits;

    if (base.size >= 2 && base.data[0] == '[' && base.data[base.size - 1] == ']')
        base = (struct bl_text){base.data + 1, base.size - 2};
    struct wire_address network = wire_address_read(base);
    if (network.size == 0 || bl_text_to_int64(length, &bits) != 0 || bits < 0)
        return false;
    return wire_address_in(&network, host, (size_t)bits);
}

static bool entry_covers(struct bl_text entry, const struct bl_url *url,
                         const struct wire_address *host)
{
    int64_t port;

    if (bl_text_equal(entry, BL_TEXT("*")))
        return true;
    if (memchr(entry.data, '/', entry.size) != NULL)
        return host->size > 0 && network_covers(entry, host);
    if (!proxy_take_port(&entry, &port) || (port != 0 && port != url->port))
        return false;
    if (entry.size >= 2 && entry.data[0] == '[' && entry.data[entry.size - 1] == ']')
        entry = (struct bl_text){entry.data + 1, entry.size - 2};
    struct wire_address address = wire_address_read(entry);
    if (address.size > 0 || host->size > 0)
        return address.size > 0 && wire_address_in(&address, host, address.size * 8);
    return name_covers(entry, url->host);
}

static bool is_exempt(const char *no, const struct bl_url *url)
{
    static const char separators[] = ", \t\r\n";
    struct wire_address host = wire_address_read(url->host);

    for (const char *from = no; *from != '\0';) {
        from += strspn(from, separators);
        size_t size = strcspn(from, separators);
        if (size > 0 && entry_covers((struct bl_text){from, size}, url, &host))
            return true;
        from += size;
    }
    return false;
}

const char *bl_proxies_choose(const struct bl_proxies *proxies, const struct bl_url *url)
{
    const char *proxy = url->secure ? proxies->https : proxies->http;

    if (proxy == NULL || proxy[0] == '\0')
        proxy = proxies->all;
    if (proxy == NULL || proxy[0] == '\0' || bl_url_loopback(url))
        return NULL;
    return proxies->no != NULL && is_exempt(proxies->no, url) ? NULL : proxy;
}

int bl_proxy_address(struct bl_arena *arena, const char *proxy, struct bl_url *ret_url,
                     struct bl_error *error)
{
    struct bl_text text = bl_text_from(proxy);
    struct bl_text scheme = BL_TEXT("http");
    struct bl_error detail = {0};
    bool ported;

    ptrdiff_t after = bl_text_find(text, BL_TEXT("://"));
    if (after >= 0) {
        scheme = (struct bl_text){proxy, (size_t)after};
        text = (struct bl_text){proxy + after + 3, text.size - (size_t)after - 3};
    }
    for (size_t i = text.size; i > 0; i--) {
        if (text.data[i - 1] == '@') {
            text = (struct bl_text){text.data + i, text.size - i};
            break;
        }
    }
    bool secure = bl_text_equal(scheme, BL_TEXT("https"));
    const char *plain =
        bl_arena_printf(arena, secure ? "https://" BL_TEXT_FORMAT : "http://" BL_TEXT_FORMAT,
                        BL_TEXT_ARG(text))
            .data;
    int code = (secure || bl_text_equal(scheme, BL_TEXT("http")))
                   ? bl_url_parse(arena, plain, ret_url, &detail)
                   : BL_EINVAL;
    if (code != 0)
        return bl_error_set(
            error, BL_EINVAL, BL_KIND_USAGE, "read a proxy's address", NULL,
            "invalid proxy address (expected http://host:port or https://host:port)");
    /* Without a port, curl uses 1080 for all proxies except https. */
    const char *colon = memrchr(text.data, ':', text.size);
    ported = colon != NULL && memchr(colon, ']', text.size - (size_t)(colon - text.data)) == NULL;
    if (!ported && !secure)
        ret_url->port = 1080;
    return 0;
}
