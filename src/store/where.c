/* The names of stores as users write them: paths of files, and addresses of databases. Nothing here
 * needs libpq, so that passwords are hidden even where it is not installed. */
#include "parts.h"

/* Parameters of an address whose values are secrets, as libpq names them. */
static const char *const where_secrets[] = {
    "password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key",
};

/* SCHEME://USER:PASSWORD@REST?PARAMETERS */
struct where_parts {
    struct bl_text scheme; /* with "://" */
    struct bl_text user;   /* empty: none */
    struct bl_text password;
    struct bl_text rest;       /* host, port and database */
    struct bl_text parameters; /* separated by '&' */
};

bool bl_store_is_database(const char *where)
{
    struct bl_text address = bl_text_from(where);
    return bl_text_starts_with(address, BL_TEXT("postgres://")) ||
           bl_text_starts_with(address, BL_TEXT("postgresql://"));
}

static struct bl_text where_part(const char *from, const char *to)
{
    return (struct bl_text){from, (size_t)(to - from)};
}

/* A password may have characters that should have been escaped: everything between the first colon
 * and the last "@" before the parameters counts as the password. */
static struct where_parts where_split(const char *where)
{
    struct where_parts parts = {0};
    const char *from = strstr(where, "://") + 3, *end = from + strlen(from);
    const char *stop = from + strcspn(from, "@/");
    const char *mark = strchr(*stop == '@' ? stop : from, '?');
    const char *before = mark != NULL ? mark : end;
    const char *at = memrchr(from, '@', (size_t)(before - from));
    parts.scheme = where_part(where, from);
    parts.rest = where_part(from, before);
    if (mark != NULL)
        parts.parameters = where_part(mark + 1, end);
    if (at == NULL)
        return parts;
    const char *colon = memchr(from, ':', (size_t)(at - from));
    if (colon == NULL && *stop == '/') /* the name of a database with an "@" */
        return parts;
    parts.user = where_part(from, colon != NULL ? colon : at);
    parts.rest = where_part(at + 1, before);
    if (colon != NULL)
        parts.password = where_part(colon + 1, at);
    return parts;
}

static int where_hex(char digit)
{
    const char *digits = "0123456789abcdef", *at = NULL;
    if (digit != '\0')
        at = strchr(digits, digit >= 'A' && digit <= 'F' ? digit + ('a' - 'A') : digit);
    return at != NULL ? (int)(at - digits) : -1;
}

/* Decodes "%40" and so on into `out`, which ends in NUL; what does not fit is left out. */
static void where_decode(struct bl_text text, char *out, size_t out_size)
{
    size_t used = 0;
    for (size_t i = 0; i < text.size && used + 1 < out_size; i++) {
        int high = text.data[i] == '%' && i + 2 < text.size ? where_hex(text.data[i + 1]) : -1;
        int low = high >= 0 ? where_hex(text.data[i + 2]) : -1;
        out[used++] = low >= 0 ? (char)(high * 16 + low) : text.data[i];
        i += low >= 0 ? 2 : 0;
    }
    out[used] = '\0';
}

/* Returns whether the parameter's value is a secret; `ret_value` may be NULL. */
static bool where_is_secret(struct bl_text parameter, struct bl_text *ret_value)
{
    struct bl_text value = parameter, keyword;
    char name[64];
    if (!bl_text_split(&value, '=', &keyword))
        return false;
    where_decode(keyword, name, sizeof name);
    if (ret_value != NULL)
        *ret_value = value;
    for (size_t i = 0; i < BL_COUNT(where_secrets); i++) {
        if (strcmp(name, where_secrets[i]) == 0)
            return true;
    }
    return false;
}

const char *bl_store_shown(struct bl_arena *arena, const char *where)
{
    struct bl_text parameter;
    BL_AUTO_BUFFER(out, SIZE_MAX / 2);
    if (!bl_store_is_database(where))
        return where;
    struct where_parts parts = where_split(where);
    bl_buffer_append(&out, parts.scheme);
    bl_buffer_append(&out, parts.user);
    if (parts.user.size > 0)
        bl_buffer_append_byte(&out, '@');
    bl_buffer_append(&out, parts.rest);
    for (char before = '?'; bl_text_split(&parts.parameters, '&', &parameter);) {
        if (where_is_secret(parameter, NULL))
            continue;
        bl_buffer_append_byte(&out, before);
        bl_buffer_append(&out, parameter);
        before = '&';
    }
    return bl_arena_text(arena, bl_buffer_text(&out)).data;
}

bool bl_store_password(struct bl_arena *arena, const char *where, struct bl_text *ret_password)
{
    struct bl_text found = {0}, parameter, value;
    if (!bl_store_is_database(where))
        return false;
    struct where_parts parts = where_split(where);
    found = parts.password;
    while (found.size == 0 && bl_text_split(&parts.parameters, '&', &parameter)) {
        if (where_is_secret(parameter, &value))
            found = value;
    }
    if (found.size == 0)
        return false;
    char *password = bl_arena_alloc(arena, found.size + 1);
    where_decode(found, password, found.size + 1);
    *ret_password = bl_text_from(password);
    return true;
}
