#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mcp.h"

#define FILE_MAX    ((size_t)1 << 20)
#define DIGEST_SIZE ((size_t)64)

/* ---- Digests --------------------------------------------------------------------------------- */

/* Adds the text with its length, so that no two entries give the same bytes. */
static void trust_add(struct bl_sha256 *hash, const char *text)
{
    char size[32];
    int length = snprintf(size, sizeof size, "%zu:", text != NULL ? strlen(text) : 0);
    bl_sha256_add(hash, (struct bl_text){size, (size_t)length});
    bl_sha256_add(hash, text != NULL ? bl_text_from(text) : BL_TEXT("-"));
}

static void trust_add_list(struct bl_sha256 *hash, const char *const *list)
{
    size_t count = 0;
    char number[32];
    while (list != NULL && list[count] != NULL)
        count++;
    snprintf(number, sizeof number, "%zu", count);
    trust_add(hash, number);
    for (size_t i = 0; i < count; i++)
        trust_add(hash, list[i]);
}

void mcp_entry_seal(struct bl_mcp_entry *entry)
{
    struct bl_sha256 hash;
    uint8_t bytes[32];
    bl_sha256_init(&hash);
    trust_add(&hash, entry->name);
    /* The same entry in another workspace starts a different program. */
    trust_add(&hash, entry->source == BL_MCP_OF_WORKSPACE ? entry->path : NULL);
    trust_add(&hash, entry->command);
    trust_add_list(&hash, entry->arguments);
    trust_add_list(&hash, entry->variables);
    trust_add(&hash, entry->directory);
    trust_add(&hash, entry->url);
    trust_add_list(&hash, entry->headers);
    trust_add(&hash, entry->trust ? "trust" : "kill");
    trust_add_list(&hash, entry->enabled_tools);
    bl_sha256_end(&hash, bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(entry->digest + 2 * i, 3, "%02x", bytes[i]);
}

/* ---- The file -------------------------------------------------------------------------------- */

static bool trust_has_line(struct bl_text rest, const char *digest)
{
    struct bl_text line;
    while (bl_text_split(&rest, '\n', &line))
        if (line.size >= DIGEST_SIZE && memcmp(line.data, digest, DIGEST_SIZE) == 0 &&
            (line.size == DIGEST_SIZE || line.data[DIGEST_SIZE] == ' '))
            return true;
    return false;
}

bool bl_mcp_trusted(const struct bl_mcp_entry *entry)
{
    BL_AUTO_ARENA(arena);
    struct bl_buffer text;
    const char *why;
    bool found = false;
    const char *folder = bl_user_folder(&arena, BL_USER_STATE, NULL);
    if (folder != NULL) {
        const char *path = bl_arena_printf(&arena, "%s/mcp-trust", folder).data;
        found = bl_file_load(path, FILE_MAX, &text, &why) == 0 &&
                trust_has_line(bl_buffer_text(&text), entry->digest);
        bl_buffer_done(&text);
    }
    return found;
}

/* Appends one line in one write: other processes may be appending, too. */
static int trust_add_line(const char *path, struct bl_text line)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    ssize_t written = write(fd, line.data, line.size);
    int code = written == (ssize_t)line.size ? 0 : written < 0 ? -errno : -ENOSPC;
    if (close(fd) < 0 && code == 0)
        code = -errno;
    return code;
}

int bl_mcp_trust(const struct bl_mcp_entry *entry, struct bl_error *error)
{
    BL_AUTO_ARENA(arena);
    int code = 0;
    if (bl_mcp_trusted(entry))
        return 0;
    const char *folder = bl_user_folder(&arena, BL_USER_STATE, NULL);
    if (folder == NULL) {
        code = bl_error_set(error, BL_ENOENT, BL_KIND_MCP, "remember an MCP server", entry->name,
                            "cannot store the approval: neither HOME nor XDG_STATE_HOME is set");
    } else {
        const char *path = bl_arena_printf(&arena, "%s/mcp-trust", folder).data;
        bl_folder_make(folder, 0700); /* if this fails, so does opening the file */
        int failed =
            trust_add_line(path, bl_arena_printf(&arena, "%s %s\n", entry->digest, entry->name));
        if (failed != 0)
            code = bl_error_set(error, bl_error_from_errno(-failed), BL_KIND_FILESYSTEM,
                                "remember an MCP server", path, "cannot write it: %s",
                                strerror(-failed));
    }
    return code;
}
