#include "parts.h"

/* Between its stars a pattern is literal: the first piece stands at the front, the last at the end,
 * and each between them is found as early as it can be. Linear searches, nothing is tried twice. */
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
