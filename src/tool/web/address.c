#include <arpa/inet.h>
#include <ctype.h>
#include <strings.h>

#include "web.h"

/* Maximum size of an address. */
#define ADDRESS_MAX ((size_t)8000)

/* Returns the size of "https:" at the start, or 0 if there is no scheme. */
static size_t address_scheme_size(struct bl_text text)
{
    size_t size = 0;
    while (size < text.size &&
           (isalnum((unsigned char)text.data[size]) || memchr("+-.", text.data[size], 3) != NULL))
        size++;
    bool begins = size > 0 && isalpha((unsigned char)text.data[0]);
    return begins && size < text.size && text.data[size] == ':' ? size + 1 : 0;
}

/* Removes the fragment; escapes bytes that are not allowed in an address as %XX. */
static struct bl_text address_escape(struct bl_arena *arena, struct bl_text text)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *fragment = text.size > 0 ? memchr(text.data, '#', text.size) : NULL;
    if (fragment != NULL)
        text.size = (size_t)(fragment - text.data);
    char *out = bl_arena_alloc(arena, text.size * 3 + 1);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        /* Line ends and tabs inside an address are removed. */
        if (byte == '\t' || byte == '\n' || byte == '\r')
            continue;
        if (byte > ' ' && byte < 0x7F && strchr("\\\"<>`{}|^", byte) == NULL) {
            out[size++] = (char)byte;
            continue;
        }
        out[size++] = '%';
        out[size++] = digits[byte >> 4];
        out[size++] = digits[byte & 15];
    }
    out[size] = '\0';
    return (struct bl_text){out, size};
}

/* Removes "." and ".." from a path that begins with a slash; in place. */
static void address_flatten(char *path)
{
    char *from = path, *to = path;
    while (*from != '\0' && *from != '?') {
        size_t size = strcspn(from + 1, "/?") + 1;
        bool last = from[size] == '\0' || from[size] == '?';
        if (size == 2 && from[1] == '.') {
            if (last)
                *to++ = '/';
        } else if (size == 3 && from[1] == '.' && from[2] == '.') {
            while (to > path && *--to != '/')
                ;
            if (last)
                *to++ = '/';
        } else {
            memmove(to, from, size);
            to += size;
        }
        from += size;
    }
    memmove(to, from, strlen(from) + 1);
}

/* Returns the size of scheme and authority of a whole address: "https://host:8080". */
static size_t address_origin_size(const char *address)
{
    const char *host = strstr(address, "://");
    return host == NULL ? 0 : (size_t)(host + 3 - address) + strcspn(host + 3, "/?#");
}

static struct bl_text address_join(struct bl_arena *arena, const char *base, struct bl_text written)
{
    size_t origin = address_origin_size(base);
    size_t path = origin + strcspn(base + origin, "?#");
    size_t folder = path;
    while (folder > origin && base[folder - 1] != '/')
        folder--;
    if (bl_text_starts_with(written, BL_TEXT("//")))
        return bl_arena_printf(arena, "%.*s:" BL_TEXT_FORMAT, (int)strcspn(base, ":"), base,
                               BL_TEXT_ARG(written));
    size_t kept = written.size == 0 || written.data[0] == '?' ? path
                  : written.data[0] == '/'                    ? origin
                                                              : folder;
    bool slash = kept == origin && (written.size == 0 || written.data[0] != '/');
    struct bl_text joined = bl_arena_printf(arena, "%.*s%s" BL_TEXT_FORMAT, (int)kept, base,
                                            slash ? "/" : "", BL_TEXT_ARG(written));
    char *text = (char *)(uintptr_t)joined.data;
    address_flatten(text + origin);
    return bl_text_from(text);
}

struct bl_text web_address(struct bl_arena *arena, const char *base, struct bl_text written)
{
    struct bl_text text = address_escape(arena, bl_text_trim(written));
    struct bl_url url;
    if (text.size > ADDRESS_MAX)
        return (struct bl_text){0};
    if (address_scheme_size(text) == 0 && base != NULL)
        text = address_join(arena, base, text);
    return bl_url_parse(arena, text.data, &url, NULL) == 0 ? text : (struct bl_text){0};
}

bool web_host(struct bl_arena *arena, const char *address, struct bl_text *ret_host,
              struct bl_text *ret_with_port, struct bl_url *ret_url, struct bl_error *error)
{
    struct in6_addr six;
    char text[INET6_ADDRSTRLEN];
    if (bl_url_parse(arena, address, ret_url, error) != 0)
        return false;
    struct bl_text host = ret_url->host;
    if (bl_text_ends_with(host, BL_TEXT(".")))
        host.size--;
    bool is_six = memchr(host.data, ':', host.size) != NULL &&
                  inet_pton(AF_INET6, host.data, &six) == 1 &&
                  inet_ntop(AF_INET6, &six, text, sizeof text) != NULL;
    *ret_host = is_six ? bl_arena_printf(arena, "[%s]", text) : bl_arena_text(arena, host);
    *ret_with_port =
        bl_arena_printf(arena, BL_TEXT_FORMAT ":%u", BL_TEXT_ARG(*ret_host), ret_url->port);
    return true;
}
