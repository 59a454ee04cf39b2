#include <stdio.h>

#include "mcp.h"

#define PREFIX    "mcp__"
#define BETWEEN   "__"
#define HASH_SIZE 8u

static bool mcp_name_is_plain(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '-';
}

/* Appends as much of `text` as fits, with '_' for each byte that models do not accept. */
static size_t mcp_name_put(char out[MCP_NAME_SIZE], size_t size, struct bl_text text)
{
    for (size_t i = 0; i < text.size && size < MCP_NAME_SIZE - 1; i++)
        out[size++] = mcp_name_is_plain(text.data[i]) ? text.data[i] : '_';
    out[size] = '\0';
    return size;
}

static size_t put_all(char out[MCP_NAME_SIZE], const char *server, struct bl_text tool)
{
    size_t size = mcp_name_put(out, 0, BL_TEXT(PREFIX));
    size = mcp_name_put(out, size, bl_text_from(server));
    size = mcp_name_put(out, size, BL_TEXT(BETWEEN));
    return mcp_name_put(out, size, tool);
}

bool mcp_name_is_possible(struct bl_text pattern)
{
    const char *star = memchr(pattern.data, '*', pattern.size);
    struct bl_text prefix = BL_TEXT(PREFIX);
    struct bl_text literal = {pattern.data,
                              star == NULL ? pattern.size : (size_t)(star - pattern.data)};
    if (star != NULL)
        return bl_text_starts_with(literal, prefix) || bl_text_starts_with(prefix, literal);
    if (!bl_text_starts_with(pattern, prefix) || pattern.size >= MCP_NAME_SIZE)
        return false;
    /* A server and a tool, both not empty. */
    const char *server = pattern.data + prefix.size, *end = pattern.data + pattern.size;
    const char *between = end - server > 1 ? memmem(server + 1, (size_t)(end - server - 1), BETWEEN,
                                                    sizeof BETWEEN - 1)
                                           : NULL;
    /* A name of the full length may be shortened, and lack the separator. */
    return pattern.size == MCP_NAME_SIZE - 1 ||
           (between != NULL && between + sizeof BETWEEN - 1 < end);
}

bool mcp_name_plain(char out[MCP_NAME_SIZE], const char *server, struct bl_text tool)
{
    size_t whole = sizeof PREFIX - 1 + strlen(server) + sizeof BETWEEN - 1 + tool.size;
    return put_all(out, server, tool) == whole;
}

void mcp_name_hashed(char out[MCP_NAME_SIZE], const char *server, struct bl_text tool,
                     unsigned salt)
{
    struct bl_sha256 hash;
    uint8_t digest[32];
    size_t size = put_all(out, server, tool), room = MCP_NAME_SIZE - 1 - 1 - HASH_SIZE;
    bl_sha256_init(&hash);
    bl_sha256_add(&hash, (struct bl_text){server, strlen(server) + 1});
    bl_sha256_add(&hash, tool);
    if (salt > 0)
        bl_sha256_add(&hash, (struct bl_text){(const char *)&salt, sizeof salt});
    bl_sha256_end(&hash, digest);
    snprintf(out + (size < room ? size : room), 2 + HASH_SIZE, "_%02x%02x%02x%02x", digest[0],
             digest[1], digest[2], digest[3]);
}
