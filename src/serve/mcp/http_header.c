#include <strings.h>

#include "http.h"

static bool equal_caseless(struct bl_text a, struct bl_text b)
{
    return a.size == b.size && (a.size == 0 || strncasecmp(a.data, b.data, a.size) == 0);
}

/* ---- Allowed clients ------------------------------------------------------------------------- */

/* Returns the part after "://", if there is one. */
static struct bl_text without_scheme(struct bl_text origin)
{
    ptrdiff_t at = bl_text_find(origin, BL_TEXT("://"));

    return at < 0 ? origin : (struct bl_text){origin.data + at + 3, origin.size - (size_t)at - 3};
}

static struct bl_text without_port(struct bl_text host)
{
    const char *colon = host.data != NULL ? memrchr(host.data, ':', host.size) : NULL;
    const char *bracket = host.size > 0 ? memrchr(host.data, ']', host.size) : NULL;

    if (colon != NULL && (bracket == NULL || colon > bracket))
        host.size = (size_t)(colon - host.data);
    return host;
}

/* A listed host without a port matches any port. */
static bool is_listed_host(struct bl_text listed, struct bl_text host)
{
    return equal_caseless(listed, host) ||
           (without_port(listed).size == listed.size && equal_caseless(listed, without_port(host)));
}

bool http_host_listed(const char *const *more, struct bl_text host)
{
    for (; more != NULL && *more != NULL; more++) {
        if (is_listed_host(without_scheme(bl_text_from(*more)), host))
            return true;
    }
    return false;
}

static bool http_header_names_loopback(struct bl_text host)
{
    host = without_port(host);
    if (host.size > 1 && host.data[0] == '[' && host.data[host.size - 1] == ']')
        host = (struct bl_text){host.data + 1, host.size - 2};
    return bl_url_loopback(&(struct bl_url){.host = host});
}

/* A page on this machine has an origin with http or https. A page opened from a file has the origin
 * "null", as any other page may. */
bool http_origin_known(const char *const *more, struct bl_text origin)
{
    struct bl_text host = without_scheme(origin);
    struct bl_text scheme = {origin.data, origin.size - host.size};

    for (; more != NULL && *more != NULL; more++) {
        struct bl_text listed = bl_text_from(*more);
        bool whole = without_scheme(listed).size < listed.size;
        if (whole ? equal_caseless(listed, origin) : is_listed_host(listed, host))
            return true;
    }
    return (equal_caseless(scheme, BL_TEXT("http://")) ||
            equal_caseless(scheme, BL_TEXT("https://"))) &&
           http_header_names_loopback(host);
}

/* The time depends only on the length of the header. */
bool http_token_right(struct bl_text authorization, const char *token)
{
    static const struct bl_text scheme = BL_TEXT("Bearer ");
    size_t size = strlen(token);

    if (size == 0 || authorization.size <= scheme.size ||
        !equal_caseless((struct bl_text){authorization.data, scheme.size}, scheme))
        return false;
    struct bl_text sent = bl_text_trim(
        (struct bl_text){authorization.data + scheme.size, authorization.size - scheme.size});
    volatile unsigned char different = sent.size != size;
    for (size_t i = 0; i < sent.size; i++)
        different |= (unsigned char)(sent.data[i] ^ token[i % size]);
    return different == 0;
}

/* ---- Content types --------------------------------------------------------------------------- */

/* Returns "text/html" for "text/html; charset=utf-8". */
static struct bl_text media_type(struct bl_text value)
{
    struct bl_text type = {NULL, 0};

    bl_text_split(&value, ';', &type);
    return bl_text_trim(type);
}

bool http_is_json(struct bl_text content_type)
{
    return equal_caseless(media_type(content_type), BL_TEXT("application/json"));
}

bool http_accepts(struct bl_text accept, const char *type)
{
    struct bl_text wanted = bl_text_from(type), part;
    size_t kind = (size_t)(strchr(type, '/') - type) + 1;

    if (bl_text_trim(accept).size == 0)
        return true;
    while (bl_text_split(&accept, ',', &part)) {
        struct bl_text offered = media_type(part);
        if (equal_caseless(offered, wanted) || equal_caseless(offered, BL_TEXT("*/*")))
            return true;
        if (offered.size == kind + 1 && offered.data[kind] == '*' &&
            strncasecmp(offered.data, type, kind) == 0)
            return true;
    }
    return false;
}

bool http_header_value(struct bl_arena *arena, struct bl_text value, struct bl_text *ret_value)
{
    static const struct bl_text head = BL_TEXT("=?base64?"), tail = BL_TEXT("?=");

    for (size_t i = 0; i < value.size; i++) {
        unsigned char byte = (unsigned char)value.data[i];
        if ((byte < ' ' && byte != '\t') || byte >= 0x7F)
            return false;
    }
    *ret_value = value;
    if (value.size < head.size + tail.size || !bl_text_starts_with(value, head) ||
        !bl_text_ends_with(value, tail))
        return true;
    struct bl_text inner = {value.data + head.size, value.size - head.size - tail.size};
    return bl_base64_decode(arena, inner, ret_value) && bl_utf8_valid(*ret_value);
}

/* ---- Arguments repeated in headers ----------------------------------------------------------- */

static bool argument_agrees(struct bl_http_call *call, struct bl_text name,
                            const struct bl_json *value)
{
    struct bl_arena *arena = bl_http_call_arena(call);
    struct bl_text full = bl_arena_printf(arena, "mcp-param-" BL_TEXT_FORMAT, BL_TEXT_ARG(name));
    struct bl_text header = bl_http_call_header(call, full.data), meant;
    const struct bl_json *number;

    if (value == NULL || bl_json_is(value, BL_JSON_NULL))
        return header.size == 0;
    if (!http_header_value(arena, header, &meant))
        return false;
    if (bl_json_is(value, BL_JSON_STRING))
        return bl_text_equal(meant, bl_json_text(value));
    /* 42.0 equals 42. */
    return bl_json_read(arena, meant, NULL, &number, NULL) == 0 && bl_json_equal(number, value);
}

/* The recursion is as deep as the schema, which is a tool's. */
bool http_arguments_agree(struct bl_http_call *call, const struct bl_json *schema,
                          const struct bl_json *arguments)
{
    BL_JSON_MEMBERS (key, bl_json_get(schema, BL_TEXT("properties"))) {
        const struct bl_json *property = key + 1;
        const struct bl_json *name = bl_json_get(property, BL_TEXT("x-mcp-header"));
        const struct bl_json *value = bl_json_get(arguments, bl_json_text(key));
        if ((bl_json_is(name, BL_JSON_STRING) &&
             !argument_agrees(call, bl_json_text(name), value)) ||
            !http_arguments_agree(call, property, value))
            return false;
    }
    return true;
}
