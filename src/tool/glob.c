#include "parts.h"

#include <ctype.h>

/* A host name has at most 253 bytes. */
#define HOST_GLOB_MAX 512u

/* Between its stars a pattern is literal: the first piece must be at the start, the last at the
 * end, and each piece between is matched as early as possible. Linear searches without
 * backtracking. */
static bool match(struct bl_text glob, struct bl_text text)
{
    const char *star = memchr(glob.data, '*', glob.size);
    if (star == NULL)
        return bl_text_equal(glob, text);
    struct bl_text head = {glob.data, (size_t)(star - glob.data)};
    const char *last = memrchr(glob.data, '*', glob.size);
    struct bl_text tail = {last + 1, glob.size - (size_t)(last + 1 - glob.data)};
    if (head.size + tail.size > text.size || !bl_text_starts_with(text, head) ||
        !bl_text_ends_with(text, tail))
        return false;
    text.data += head.size;
    text.size -= head.size + tail.size;
    struct bl_text middle = {star, (size_t)(last - star)}, piece;
    while (bl_text_split(&middle, '*', &piece)) {
        ptrdiff_t at = bl_text_find(text, piece);
        if (at < 0)
            return false;
        text.data += (size_t)at + piece.size;
        text.size -= (size_t)at + piece.size;
    }
    return true;
}

bool glob_match(struct bl_text glob, struct bl_text text)
{
    if (match(glob, text))
        return true;
    if (!bl_text_ends_with(glob, BL_TEXT(" *")))
        return false;
    return match((struct bl_text){glob.data, glob.size - 2}, text);
}

bool glob_match_host(struct bl_text glob, struct bl_text host, struct bl_text with_port)
{
    char small[HOST_GLOB_MAX];
    if (glob.size > sizeof small)
        return false;
    for (size_t i = 0; i < glob.size; i++)
        small[i] = (char)tolower((unsigned char)glob.data[i]);
    glob.data = small;
    return match(glob, host) || match(glob, with_port);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

/* The state of a match, and where it may resume: after the last star, which then takes one byte
 * more, and after the last pair of stars. The part before a pair need not be tried again: it was
 * matched as early as possible, and the pair takes whatever follows. */
struct path_match {
    struct bl_text glob, path;
    size_t glob_at, path_at;
    size_t star, star_path; /* SIZE_MAX for none */
    size_t pair, pair_path;
    bool folders; /* the pair stands for whole folders */
};

static bool is_at(struct bl_text text, size_t at, char byte)
{
    return at < text.size && text.data[at] == byte;
}

static void take_pair(struct path_match *match)
{
    size_t at = match->glob_at;
    bool whole = at == 0 || match->glob.data[at - 1] == '/';
    match->folders = whole && is_at(match->glob, at + 2, '/');
    match->glob_at += match->folders ? 3 : 2;
    match->pair = match->glob_at;
    match->pair_path = match->path_at;
    match->star = SIZE_MAX;
}

/* Extends the last star by a byte, or the last pair by a byte or a folder. Returns false if there
 * is nothing left to try. */
static bool glob_try_again(struct path_match *match)
{
    if (match->star != SIZE_MAX && !is_at(match->path, match->star_path, '/')) {
        match->path_at = ++match->star_path;
        match->glob_at = match->star;
        return true;
    }
    if (match->pair == SIZE_MAX)
        return false;
    struct bl_text rest = {match->path.data + match->pair_path,
                           match->path.size - match->pair_path};
    const char *slash = match->folders ? memchr(rest.data, '/', rest.size) : rest.data;
    if (slash == NULL)
        return false;
    match->pair_path += (size_t)(slash - rest.data) + 1;
    match->path_at = match->pair_path;
    match->glob_at = match->pair;
    match->star = SIZE_MAX;
    return true;
}

static bool tool_glob_match_path(struct bl_text glob, struct bl_text path)
{
    struct path_match match = {.glob = glob, .path = path, .star = SIZE_MAX, .pair = SIZE_MAX};
    while (match.path_at < path.size) {
        size_t at = match.glob_at;
        if (is_at(glob, at, '*') && is_at(glob, at + 1, '*')) {
            take_pair(&match);
        } else if (is_at(glob, at, '*')) {
            match.star = ++match.glob_at;
            match.star_path = match.path_at;
        } else if (is_at(glob, at, path.data[match.path_at])) {
            match.glob_at++;
            match.path_at++;
        } else if (!glob_try_again(&match)) {
            return false;
        }
    }
    while (is_at(glob, match.glob_at, '*')) {
        if (is_at(glob, match.glob_at + 1, '*'))
            take_pair(&match);
        else
            match.glob_at++;
    }
    return match.glob_at == glob.size;
}

bool glob_match_path(struct bl_text glob, struct bl_text path)
{
    if (bl_text_starts_with(glob, BL_TEXT("./")) && glob.size > 2)
        glob = (struct bl_text){glob.data + 2, glob.size - 2};
    if (tool_glob_match_path(glob, path))
        return true;
    /* The folder itself, and everything in it if the pattern ends in a slash. */
    struct bl_text folder = glob;
    bool stars = bl_text_ends_with(glob, BL_TEXT("/**"));
    if (!stars && !bl_text_ends_with(glob, BL_TEXT("/")))
        return false;
    folder.size -= stars ? 3 : 1;
    if (folder.size == 0 || tool_glob_match_path(folder, path))
        return folder.size > 0 || bl_text_starts_with(path, BL_TEXT("/"));
    for (size_t i = 0; i < path.size && !stars; i++)
        if (path.data[i] == '/' && tool_glob_match_path(folder, (struct bl_text){path.data, i}))
            return true;
    return false;
}

bool bl_tool_name_fits(const char *pattern, const char *name)
{
    return glob_match(bl_text_from(pattern), bl_text_from(name));
}
