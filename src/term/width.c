/* Design notes.
 *
 * Terminals agree about single characters and differ about clusters: some draw an emoji sequence as
 * one picture of two columns, others each part of it. We count as the former do; the drawing code
 * does not rely on it where it would matter (edit_screen.c). */
#include "term.h"

struct range {
    uint32_t first;
    uint32_t last;
};

#include "widths.h"

/* A text of only marks is split: no cluster is unbounded. */
#define CLUSTER_CHARACTERS_MAX 32

enum {
    ZERO_WIDTH_JOINER = 0x200D,
    EMOJI_PRESENTATION = 0xFE0F, /* follows a character that has a plain form, too */
    REGIONAL_FIRST = 0x1F1E6,
    REGIONAL_LAST = 0x1F1FF,
    SKIN_FIRST = 0x1F3FB,
    SKIN_LAST = 0x1F3FF,
};

/* Characters that emoji sequences consist of, by block: Unicode's own list has unassigned gaps. */
static const struct range pictures[] = {
    {0x000A9, 0x000A9}, {0x000AE, 0x000AE}, {0x0203C, 0x0203C}, {0x02049, 0x02049},
    {0x02122, 0x02122}, {0x02139, 0x02139}, {0x02194, 0x021AA}, {0x0231A, 0x0231B},
    {0x02328, 0x02328}, {0x02388, 0x02388}, {0x023CF, 0x023CF}, {0x023E9, 0x023F3},
    {0x023F8, 0x023FA}, {0x024C2, 0x024C2}, {0x025AA, 0x025AB}, {0x025B6, 0x025B6},
    {0x025C0, 0x025C0}, {0x025FB, 0x025FE}, {0x02600, 0x027BF}, {0x02934, 0x02935},
    {0x02B05, 0x02B07}, {0x02B1B, 0x02B1C}, {0x02B50, 0x02B50}, {0x02B55, 0x02B55},
    {0x03030, 0x03030}, {0x0303D, 0x0303D}, {0x03297, 0x03297}, {0x03299, 0x03299},
    {0x1F000, 0x1F1E5}, {0x1F200, 0x1F3FA}, {0x1F400, 0x1FAFF},
};

static bool in_ranges(const struct range *ranges, size_t count, uint32_t character)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (character < ranges[middle].first)
            high = middle;
        else if (character > ranges[middle].last)
            low = middle + 1;
        else
            return true;
    }
    return false;
}

static bool width_is_control(uint32_t character)
{
    return character < 0x20 || (character >= 0x7F && character < 0xA0);
}

static bool is_zero_width(uint32_t character)
{
    return character >= 0x300 && in_ranges(zero_width, BL_COUNT(zero_width), character);
}

unsigned text_character_width(uint32_t character)
{
    if (character < 0x300)
        return width_is_control(character) ? 0 : 1;
    if (is_zero_width(character))
        return 0;
    return in_ranges(wide, BL_COUNT(wide), character) ? 2 : 1;
}

static bool is_picture(uint32_t character)
{
    return in_ranges(pictures, BL_COUNT(pictures), character);
}

static bool is_regional(uint32_t character)
{
    return character >= REGIONAL_FIRST && character <= REGIONAL_LAST;
}

/* The state of a cluster after its first character. */
struct growth {
    uint32_t first;
    uint32_t last;
    unsigned count;
    unsigned width;
    bool picture; /* the last character that is not a mark is a picture */
};

/* Returns true if the character belongs to the cluster, and updates the state. */
static bool takes(struct growth *growth, uint32_t character)
{
    if (width_is_control(character) || growth->count == CLUSTER_CHARACTERS_MAX)
        return false;
    if (is_zero_width(character)) {
        bool keycap = (growth->first >= '0' && growth->first <= '9') || growth->first == '#' ||
                      growth->first == '*';
        if (character == EMOJI_PRESENTATION && (growth->picture || keycap))
            growth->width = 2;
        return true;
    }
    if (growth->picture && character >= SKIN_FIRST && character <= SKIN_LAST)
        return true;
    if (growth->picture && growth->last == ZERO_WIDTH_JOINER && is_picture(character))
        return true;
    if (growth->count == 1 && is_regional(growth->first) && is_regional(character)) {
        growth->width = 2;
        return true;
    }
    if (character >= 0x300 && in_ranges(spacing_marks, BL_COUNT(spacing_marks), character)) {
        growth->width += 1;
        return true;
    }
    return false;
}

bool text_cluster_next(struct bl_text *text, struct text_cluster *ret_cluster)
{
    uint32_t character;

    if (text->size == 0)
        return false;
    size_t size = bl_utf8_decode(*text, &character);
    bool alone = size == 0 || width_is_control(character);
    struct growth growth = {
        .first = character,
        .last = character,
        .count = 1,
        .width = size == 0 ? 1 : text_character_width(character),
        .picture = !alone && is_picture(character),
    };
    if (size == 0)
        size = 1;
    while (!alone) {
        struct bl_text rest = {text->data + size, text->size - size};
        /* Most characters stand alone, and the next byte shows it. */
        if (rest.size == 0 || (unsigned char)rest.data[0] < 0x80)
            break;
        size_t next = bl_utf8_decode(rest, &character);
        if (next == 0 || !takes(&growth, character))
            break;
        growth.last = character;
        growth.count++;
        size += next;
    }
    *ret_cluster = (struct text_cluster){{text->data, size}, growth.width};
    text->data += size;
    text->size -= size;
    return true;
}

size_t text_width(struct bl_text text)
{
    struct text_cluster cluster;
    size_t width = 0;

    while (text_cluster_next(&text, &cluster))
        width += cluster.width;
    return width;
}

struct bl_text text_cut_width(struct bl_text text, size_t columns)
{
    struct bl_text rest = text;
    struct text_cluster cluster;
    size_t width = 0;

    while (text_cluster_next(&rest, &cluster)) {
        width += cluster.width;
        if (width > columns)
            return (struct bl_text){text.data, (size_t)(cluster.bytes.data - text.data)};
    }
    return text;
}
