/* Design notes.
 *
 * Bytes of a stream are searched as they are, since they must be replayed as they are. A secret is
 * found in any notation: each of its characters may be itself, a JSON escape (\", \/, \u00e9, with
 * any number of backslashes: JSON may be nested in JSON), or %XX. A model that repeats a secret
 * sends it in parts, one per event; so the consecutive strings of one key ("text", "arguments", …)
 * are also searched as one text. */
#include <stdlib.h>

#include "cassette.h"

/* Shorter parts of base64 match by chance. */
#define ENCODED_MIN 8u

/* ---- Making ---------------------------------------------------------------------------------- */

static struct bl_text cassette_secret_copy(struct bl_text text)
{
    char *data = bl_alloc(text.size + 1);

    if (text.size > 0)
        memcpy(data, text.data, text.size);
    data[text.size] = '\0';
    return (struct bl_text){data, text.size};
}

static void cassette_secret_add(struct bl_text **list, size_t *count, struct bl_text text)
{
    for (size_t i = 0; i < *count; i++) {
        if (bl_text_equal((*list)[i], text))
            return;
    }
    *list = bl_realloc(*list, (*count + 1) * sizeof(**list));
    (*list)[(*count)++] = cassette_secret_copy(text);
}

/* Adds the base64 of the secret after `before` other bytes, without the characters at both ends
 * that hold bits of its neighbours. */
static void add_encoded(struct bl_cassette *cassette, struct bl_text secret, unsigned before,
                        bool url_alphabet)
{
    static const size_t mixed[] = {0, 2, 3};
    struct bl_buffer bytes, encoded;

    bl_buffer_init(&bytes, secret.size + 3);
    bl_buffer_init(&encoded, 2 * secret.size + 16);
    for (unsigned i = 0; i < before; i++)
        bl_buffer_append_byte(&bytes, '\0');
    bl_buffer_append(&bytes, secret);
    bl_base64_encode(&encoded, bl_buffer_text(&bytes));
    for (size_t i = 0; i < encoded.size && url_alphabet; i++)
        encoded.data[i] = encoded.data[i] == '+'   ? '-'
                          : encoded.data[i] == '/' ? '_'
                                                   : encoded.data[i];
    /* The last group's padding, and the character before it. */
    size_t tail = bytes.size % 3;
    size_t end = encoded.size - (tail == 0 ? 0 : 4 - tail);
    if (end >= mixed[before] + ENCODED_MIN)
        cassette_secret_add(&cassette->encoded, &cassette->encoded_count,
                            (struct bl_text){encoded.data + mixed[before], end - mixed[before]});
    bl_buffer_done(&bytes);
    bl_buffer_done(&encoded);
}

static void add_secret(struct bl_cassette *cassette, struct bl_text secret)
{
    if (secret.size < CASSETTE_SECRET_MIN)
        return;
    cassette_secret_add(&cassette->secrets, &cassette->secret_count, secret);
    for (unsigned before = 0; before < 3; before++) {
        add_encoded(cassette, secret, before, false);
        add_encoded(cassette, secret, before, true);
    }
}

void cassette_secrets_set(struct bl_cassette *cassette, const struct bl_text *secrets, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct bl_text rest = secrets[i], scheme;
        add_secret(cassette, secrets[i]);
        /* "Bearer KEY": the key alone is a secret as well. */
        if (bl_text_split(&rest, ' ', &scheme) && scheme.size <= 8 && rest.size > 0)
            add_secret(cassette, rest);
    }
}

static void free_list(struct bl_text *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bl_free((void *)list[i].data);
    bl_free(list);
}

void cassette_secrets_free(struct bl_cassette *cassette)
{
    free_list(cassette->secrets, cassette->secret_count);
    free_list(cassette->encoded, cassette->encoded_count);
}

/* ---- Matching -------------------------------------------------------------------------------- */

static int cassette_secret_hex_value(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte = (char)(byte | 0x20);
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Returns the number of `digits` hexadecimal digits from `at` on; -1 if they are not
 * hexadecimal. */
static int32_t hex_number(struct bl_text text, size_t at, size_t digits)
{
    int32_t number = 0;

    if (text.size < digits || at > text.size - digits)
        return -1;
    for (size_t i = 0; i < digits; i++) {
        int value = cassette_secret_hex_value(text.data[at + i]);
        if (value < 0)
            return -1;
        number = number * 16 + value;
    }
    return number;
}

static size_t skip_backslashes(struct bl_text text, size_t at)
{
    while (at < text.size && text.data[at] == '\\')
        at++;
    return at;
}

/* Decodes an escape whose letter is at `at` into `out`. Returns its end, or 0 if it is not an
 * escape. */
static size_t decode_escape(struct bl_text text, size_t at, char out[4], size_t *ret_size)
{
    static const char letters[] = "\"/bfnrt", meanings[] = "\"/\b\f\n\r\t";

    if (at >= text.size)
        return 0;
    if (text.data[at] != 'u') {
        const char *letter = memchr(letters, text.data[at], sizeof letters - 1);
        if (letter == NULL)
            return 0;
        out[0] = meanings[letter - letters];
        *ret_size = 1;
        return at + 1;
    }
    int32_t unit = hex_number(text, at + 1, 4);
    at += 5;
    if (unit < 0)
        return 0;
    if (unit >= 0xD800 && unit < 0xDC00) {
        size_t next = skip_backslashes(text, at);
        int32_t low =
            next < text.size && text.data[next] == 'u' ? hex_number(text, next + 1, 4) : -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return 0;
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        at = next + 5;
    }
    *ret_size = bl_utf8_encode((uint32_t)unit, out);
    return *ret_size > 0 ? at : 0;
}

/* Returns the end of the secret that starts at `at`, or 0 if it does not match. */
static size_t match_at(struct bl_text text, size_t at, struct bl_text secret, bool percent)
{
    for (size_t i = 0; i < secret.size;) {
        char meant[4];
        size_t size, next;
        if (at >= text.size)
            return 0;
        if (percent && text.data[at] == '%') {
            if (hex_number(text, at + 1, 2) != (unsigned char)secret.data[i])
                return 0;
            at += 3;
            i++;
        } else if (secret.data[i] == '\\' && text.data[at] == '\\') {
            at = skip_backslashes(text, at);
            next = decode_escape(text, at, meant, &size);
            if (next != 0 && meant[0] == '\\') {
                at = next;
                i++;
            } else {
                /* Any number of doublings matches. */
                i = skip_backslashes(secret, i);
            }
        } else if (text.data[at] == secret.data[i]) {
            at++;
            i++;
        } else {
            if (text.data[at] != '\\')
                return 0;
            next = decode_escape(text, skip_backslashes(text, at), meant, &size);
            if (next == 0 || size > secret.size - i || memcmp(meant, secret.data + i, size) != 0)
                return 0;
            at = next;
            i += size;
        }
    }
    return at;
}

/* Returns the end of the longest secret that starts at `at`, or 0 if there is none. */
static size_t find_at(const struct bl_cassette *cassette, struct bl_text text, size_t at)
{
    size_t longest = 0;

    for (size_t i = 0; i < cassette->secret_count; i++) {
        size_t end = match_at(text, at, cassette->secrets[i], false);
        if (end == 0)
            end = match_at(text, at, cassette->secrets[i], true);
        longest = end > longest ? end : longest;
    }
    for (size_t i = 0; i < cassette->encoded_count; i++) {
        struct bl_text encoded = cassette->encoded[i];
        if (text.size - at >= encoded.size &&
            memcmp(text.data + at, encoded.data, encoded.size) == 0 && at + encoded.size > longest)
            longest = at + encoded.size;
    }
    return longest;
}

/* Marks the bytes that a secret can begin with. */
static void mark_starts(const struct bl_cassette *cassette, bool starts[256])
{
    memset(starts, false, 256);
    starts['\\'] = true;
    starts['%'] = true;
    for (size_t i = 0; i < cassette->secret_count; i++)
        starts[(unsigned char)cassette->secrets[i].data[0]] = true;
    for (size_t i = 0; i < cassette->encoded_count; i++)
        starts[(unsigned char)cassette->encoded[i].data[0]] = true;
}

/* Returns the start of a match, including the backslash if it begins with the letter of an escape:
 * otherwise the backslash left over would escape the replacement. */
static size_t before_escape(struct bl_text text, size_t start)
{
    size_t backslashes = 0;

    while (backslashes < start && text.data[start - backslashes - 1] == '\\')
        backslashes++;
    return text.data[start] != '\\' && backslashes % 2 == 1 ? start - 1 : start;
}

static void cassette_secret_add_range(struct bl_buffer *ranges, size_t start, size_t end,
                                      bool marked)
{
    struct cassette_range range = {start, end, marked};

    bl_buffer_append(ranges, (struct bl_text){(const char *)&range, sizeof range});
}

static void find_plain(const struct bl_cassette *cassette, struct bl_text text,
                       struct bl_buffer *ranges)
{
    bool starts[256];

    mark_starts(cassette, starts);
    for (size_t at = 0; at < text.size; at++) {
        /* A run of backslashes is skipped as one, so only the first one counts. */
        if (!starts[(unsigned char)text.data[at]] ||
            (at > 0 && text.data[at] == '\\' && text.data[at - 1] == '\\'))
            continue;
        size_t end = find_at(cassette, text, at);
        if (end == 0)
            continue;
        cassette_secret_add_range(ranges, before_escape(text, at), end, true);
        at = end - 1;
    }
}

/* ---- Strings of one key ---------------------------------------------------------------------- */

/* A part of the joined text, and its position in the text. */
struct segment {
    size_t joined;
    size_t start;
};

/* Returns the end of a JSON string whose content begins at `at`; text.size if it is
 * unterminated. */
static size_t string_end(struct bl_text text, size_t at)
{
    for (; at < text.size && text.data[at] != '"'; at++)
        at += text.data[at] == '\\';
    return at < text.size ? at : text.size;
}

/* Returns the content of the next string value of `key` after `*at`, and advances `*at` behind
 * it. */
static bool next_value(struct bl_text text, struct bl_text key, size_t *at, struct bl_text *ret)
{
    for (;;) {
        struct bl_text rest = {text.data + *at, text.size - *at};
        ptrdiff_t found = bl_text_find(rest, key);
        if (found < 0)
            return false;
        size_t next = *at + (size_t)found + key.size;
        *at = next;
        while (next < text.size && (text.data[next] == ' ' || text.data[next] == ':'))
            next++;
        if (next >= text.size || text.data[next] != '"')
            continue;
        size_t end = string_end(text, next + 1);
        *ret = (struct bl_text){text.data + next + 1, end - next - 1};
        *at = end;
        return true;
    }
}

static void add_segment(struct bl_buffer *segments, size_t joined, size_t start)
{
    struct segment segment = {joined, start};

    bl_buffer_append(segments, (struct bl_text){(const char *)&segment, sizeof segment});
}

/* Adds the ranges of the text that correspond to [start, end) of the joined text. The last segment
 * marks the end of the joined text. */
static void add_joined(struct bl_buffer *ranges, const struct bl_buffer *segments, size_t start,
                       size_t end)
{
    const struct segment *list = (const struct segment *)(const void *)segments->data;
    bool marked = true;

    for (size_t i = 0; list[i].joined < end; i++) {
        size_t stop = list[i + 1].joined;
        if (stop <= start)
            continue;
        size_t from = start > list[i].joined ? start : list[i].joined;
        size_t to = end < stop ? end : stop;
        cassette_secret_add_range(ranges, list[i].start + (from - list[i].joined),
                                  list[i].start + (to - list[i].joined), marked);
        marked = false;
    }
}

static void find_joined(const struct bl_cassette *cassette, struct bl_text text, struct bl_text key,
                        struct bl_buffer *ranges)
{
    struct bl_buffer joined, segments, found;
    struct bl_text value;
    size_t at = 0;

    bl_buffer_init(&joined, text.size + 1);
    bl_buffer_init(&segments, SIZE_MAX / 2);
    bl_buffer_init(&found, SIZE_MAX / 2);
    while (next_value(text, key, &at, &value)) {
        add_segment(&segments, joined.size, (size_t)(value.data - text.data));
        bl_buffer_append(&joined, value);
    }
    add_segment(&segments, joined.size, text.size);
    find_plain(cassette, bl_buffer_text(&joined), &found);
    const struct cassette_range *list = (const struct cassette_range *)(const void *)found.data;
    for (size_t i = 0; i < found.size / sizeof(*list); i++)
        add_joined(ranges, &segments, list[i].start, list[i].end);
    bl_buffer_done(&joined);
    bl_buffer_done(&segments);
    bl_buffer_done(&found);
}

/* ---- All ------------------------------------------------------------------------------------- */

static int cassette_secret_compare_ranges(const void *a, const void *b)
{
    const struct cassette_range *first = a, *second = b;

    return (first->start > second->start) - (first->start < second->start);
}

/* Sorts the ranges, and merges those that overlap. */
static void merge_ranges(struct bl_buffer *ranges)
{
    struct cassette_range *list = (struct cassette_range *)(void *)ranges->data;
    size_t count = ranges->size / sizeof(*list), kept = 0;

    if (count == 0)
        return;
    qsort(list, count, sizeof(*list), cassette_secret_compare_ranges);
    for (size_t i = 1; i < count; i++) {
        if (list[i].start < list[kept].end) {
            if (list[i].end > list[kept].end)
                list[kept].end = list[i].end;
            list[kept].marked |= list[i].marked;
        } else {
            list[++kept] = list[i];
        }
    }
    ranges->size = (kept + 1) * sizeof(*list);
}

void cassette_secrets_find(const struct bl_cassette *cassette, struct bl_text text, bool stream,
                           struct bl_buffer *ret_ranges)
{
    /* Keys that formats use for streamed texts. */
    static const char *const keys[] = {"\"text\"",
                                       "\"thinking\"",
                                       "\"partial_json\"",
                                       "\"content\"",
                                       "\"reasoning_content\"",
                                       "\"reasoning\"",
                                       "\"arguments\"",
                                       "\"delta\"",
                                       "\"refusal\"",
                                       "\"reasoning_text\""};

    bl_buffer_init(ret_ranges, SIZE_MAX / 2);
    if (cassette->secret_count == 0)
        return;
    find_plain(cassette, text, ret_ranges);
    for (size_t i = 0; stream && i < BL_COUNT(keys); i++)
        find_joined(cassette, text, bl_text_from(keys[i]), ret_ranges);
    merge_ranges(ret_ranges);
}

void cassette_secrets_cut(struct bl_text text, size_t start, size_t end,
                          const struct bl_buffer *ranges, struct bl_buffer *out)
{
    const struct cassette_range *list = (const struct cassette_range *)(const void *)ranges->data;
    size_t count = ranges->size / sizeof(*list);

    for (size_t i = 0; i < count && list[i].start < end; i++) {
        if (list[i].end <= start)
            continue;
        /* A range that began earlier has its mark there. */
        if (list[i].start >= start) {
            bl_buffer_append(out, (struct bl_text){text.data + start, list[i].start - start});
            if (list[i].marked)
                bl_buffer_append(out, BL_TEXT(CASSETTE_REMOVED));
        }
        start = list[i].end < end ? list[i].end : end;
    }
    bl_buffer_append(out, (struct bl_text){text.data + start, end - start});
}

struct bl_text cassette_secrets_remove(const struct bl_cassette *cassette, struct bl_arena *arena,
                                       struct bl_text text)
{
    struct bl_buffer ranges, out;

    cassette_secrets_find(cassette, text, false, &ranges);
    if (ranges.size > 0) {
        bl_buffer_init(&out, SIZE_MAX / 2);
        cassette_secrets_cut(text, 0, text.size, &ranges, &out);
        text = bl_arena_text(arena, bl_buffer_text(&out));
        bl_buffer_done(&out);
    }
    bl_buffer_done(&ranges);
    return text;
}
