#include <belay/base.h>

#define HIGH_BITS 0x8080808080808080ull

enum sequence {
    SEQUENCE_GOOD,
    SEQUENCE_BROKEN,
    SEQUENCE_CUT, /* good so far; more bytes could complete it */
};

/* The properties of a lead byte: how many bytes follow, and the range of the first of them. That
 * range is narrower than 80..BF to exclude overlong forms, surrogates and values above U+10FFFF. */
struct lead {
    unsigned follow;
    unsigned char low;
    unsigned char high;
};

static bool lead_read(unsigned char byte, struct lead *ret_lead)
{
    if (byte < 0xC2 || byte > 0xF4)
        return false;
    if (byte < 0xE0)
        *ret_lead = (struct lead){1, 0x80, 0xBF};
    else if (byte < 0xF0)
        *ret_lead = (struct lead){2, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF};
    else
        *ret_lead = (struct lead){3, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF};
    return true;
}

/* Reads the sequence at the front of the last bytes of a text, which may be incomplete. The first
 * byte is not ASCII. */
static enum sequence last_read(const unsigned char *bytes, size_t size, uint32_t *ret_code_point,
                               size_t *ret_length)
{
    struct lead lead;
    if (!lead_read(bytes[0], &lead))
        return SEQUENCE_BROKEN;
    uint32_t code_point = bytes[0] & (0x3Fu >> lead.follow);
    for (unsigned i = 1; i <= lead.follow; i++) {
        if (i == size)
            return SEQUENCE_CUT;
        unsigned char low = i == 1 ? lead.low : 0x80;
        unsigned char high = i == 1 ? lead.high : 0xBF;
        if (bytes[i] < low || bytes[i] > high)
            return SEQUENCE_BROKEN;
        code_point = code_point << 6 | (bytes[i] & 0x3Fu);
    }
    *ret_code_point = code_point;
    *ret_length = lead.follow + 1;
    return SEQUENCE_GOOD;
}

/* Reads the sequence at the front of at least four bytes, the first of which is not ASCII. Returns
 * its length, or 0 if it is invalid. This is the common case, which needs no bounds check per byte.
 */
static inline size_t whole_read(const unsigned char *bytes, uint32_t *ret_code_point)
{
    uint32_t lead = bytes[0];
    /* Below 0x40 exactly for the bytes that may follow a lead. */
    uint32_t second = bytes[1] ^ 0x80u, third = bytes[2] ^ 0x80u, fourth = bytes[3] ^ 0x80u;

    if (lead < 0xE0) {
        *ret_code_point = (lead & 0x1F) << 6 | second;
        return lead >= 0xC2 && second < 0x40 ? 2 : 0;
    }
    if (lead < 0xF0) {
        uint32_t code_point = (lead & 0x0F) << 12 | second << 6 | third;
        bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
        *ret_code_point = code_point;
        return (second | third) < 0x40 && code_point >= 0x800 && !surrogate ? 3 : 0;
    }
    uint32_t code_point = (lead & 0x07) << 18 | second << 12 | third << 6 | fourth;
    *ret_code_point = code_point;
    return lead <= 0xF4 && (second | third | fourth) < 0x40 && code_point >= 0x10000 &&
                   code_point <= 0x10FFFF
               ? 4
               : 0;
}

/* Reads the sequence at the front of `size` bytes, at least one. The code point and the length are
 * valid only if the sequence is. */
static inline enum sequence sequence_read(const unsigned char *bytes, size_t size,
                                          uint32_t *ret_code_point, size_t *ret_length)
{
    if (bytes[0] < 0x80) {
        *ret_code_point = bytes[0];
        *ret_length = 1;
        return SEQUENCE_GOOD;
    }
    if (size >= 4) {
        *ret_length = whole_read(bytes, ret_code_point);
        return *ret_length > 0 ? SEQUENCE_GOOD : SEQUENCE_BROKEN;
    }
    return last_read(bytes, size, ret_code_point, ret_length);
}

/* Returns how many bytes at the front are ASCII. Checks eight at a time. */
static size_t ascii_run(const char *data, size_t size)
{
    size_t run = 0;
    while (size - run >= 8) {
        uint64_t word;
        memcpy(&word, data + run, 8);
        word &= HIGH_BITS;
        if (word != 0) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            return run + (size_t)__builtin_ctzll(word) / 8;
#else
            return run + (size_t)__builtin_clzll(word) / 8;
#endif
        }
        run += 8;
    }
    while (run < size && (data[run] & 0x80) == 0)
        run++;
    return run;
}

/* Looks for a run of ASCII only at an ASCII byte, so that other scripts do not pay for the check.
 */
size_t bl_utf8_valid_prefix(struct bl_text text, bool *ret_cut)
{
    const unsigned char *bytes = (const unsigned char *)text.data;
    enum sequence sequence = SEQUENCE_GOOD;
    size_t position = 0;

    while (position < text.size) {
        if (bytes[position] < 0x80) {
            position += ascii_run(text.data + position, text.size - position);
            continue;
        }
        uint32_t code_point;
        size_t length;
        sequence = sequence_read(bytes + position, text.size - position, &code_point, &length);
        if (sequence != SEQUENCE_GOOD)
            break;
        position += length;
    }
    if (ret_cut != NULL)
        *ret_cut = sequence == SEQUENCE_CUT;
    return position;
}

bool bl_utf8_valid(struct bl_text text)
{
    return bl_utf8_valid_prefix(text, NULL) == text.size;
}

size_t bl_utf8_decode(struct bl_text text, uint32_t *ret_code_point)
{
    uint32_t code_point;
    size_t length;
    if (text.size == 0)
        return 0;
    if (sequence_read((const unsigned char *)text.data, text.size, &code_point, &length) !=
        SEQUENCE_GOOD)
        return 0;
    *ret_code_point = code_point;
    return length;
}

size_t bl_utf8_encode(uint32_t code_point, char out[4])
{
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        out[0] = (char)(0xC0 | code_point >> 6);
        out[1] = (char)(0x80 | (code_point & 0x3F));
        return 2;
    }
    if (code_point >= 0xD800 && code_point <= 0xDFFF)
        return 0;
    if (code_point < 0x10000) {
        out[0] = (char)(0xE0 | code_point >> 12);
        out[1] = (char)(0x80 | (code_point >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code_point & 0x3F));
        return 3;
    }
    if (code_point > 0x10FFFF)
        return 0;
    out[0] = (char)(0xF0 | code_point >> 18);
    out[1] = (char)(0x80 | (code_point >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code_point >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code_point & 0x3F));
    return 4;
}

/* Only the last three bytes can begin an incomplete sequence. A text that itself ends inside a
 * sequence is cut there too, however large `size` is; invalid bytes are kept. */
struct bl_text bl_utf8_cut(struct bl_text text, size_t size)
{
    if (text.size > size)
        text.size = size;
    for (size_t back = 1; back <= 3 && back <= text.size; back++) {
        const unsigned char *bytes = (const unsigned char *)text.data + text.size - back;
        if ((bytes[0] & 0xC0) == 0x80)
            continue;
        uint32_t code_point;
        size_t length;
        if (sequence_read(bytes, back, &code_point, &length) == SEQUENCE_CUT)
            text.size -= back;
        break;
    }
    return text;
}

size_t bl_utf8_count(struct bl_text text)
{
    size_t count = 0;
    while (text.size > 0) {
        uint32_t code_point;
        size_t length = ascii_run(text.data, text.size);
        if (length > 0) {
            count += length;
        } else {
            length = bl_utf8_decode(text, &code_point);
            length = length > 0 ? length : 1;
            count++;
        }
        text = (struct bl_text){text.data + length, text.size - length};
    }
    return count;
}

struct bl_text bl_utf8_title(struct bl_text text, size_t count_max)
{
    struct bl_text line = {0};
    size_t size = 0;
    uint32_t code_point;
    while (line.size == 0 && bl_text_split(&text, '\n', &line))
        line = bl_text_trim(line);
    for (size_t count = 0; size < line.size && count < count_max; count++) {
        size_t step =
            bl_utf8_decode((struct bl_text){line.data + size, line.size - size}, &code_point);
        size += step > 0 ? step : 1;
    }
    return (struct bl_text){line.data, size};
}
