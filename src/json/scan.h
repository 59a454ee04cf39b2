/* Scans bytes eight at a time, and UTF-8 sequences. For json/ only. */
#ifndef BELAY_JSON_SCAN_H
#define BELAY_JSON_SCAN_H

#include <belay/base.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "scan_first counts from the low end");

static inline uint64_t scan_load(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

#define SCAN_ONES  0x0101010101010101ull
#define SCAN_HIGHS 0x8080808080808080ull

/* Marks, in the top bit of its byte, the first byte of `word` that is '"', '\\', below 0x20, or (if
 * `stop_high`) above 0x7f. Bytes above the first may be marked wrongly, because a borrow propagates
 * upward. */
static inline uint64_t scan_special(uint64_t word, bool stop_high)
{
    uint64_t quote = word ^ (SCAN_ONES * '"');
    uint64_t backslash = word ^ (SCAN_ONES * '\\');
    uint64_t marks = (quote - SCAN_ONES) | (backslash - SCAN_ONES) | (word - SCAN_ONES * 0x20);

    /* The marks of high bytes are unreliable above: set all of them, or clear them. */
    return (stop_high ? marks | word : marks & ~word) & SCAN_HIGHS;
}

static inline unsigned scan_first(uint64_t marks)
{
    return (unsigned)__builtin_ctzll(marks) / 8;
}

/* Returns the length, 2 to 4, of the valid sequence that starts with the high byte at `at`, or 0.
 * If 0, `*ret_broken` is the length of its longest prefix that could begin a valid sequence, at
 * least 1: the part that one U+FFFD replaces. Reads at most `available` bytes, and none after an
 * invalid one.
 *
 *  */
static inline unsigned scan_sequence(const char *at, size_t available, unsigned *ret_broken)
{
    const unsigned char *bytes = (const unsigned char *)at;
    unsigned char lead = bytes[0], low = 0x80, high = 0xbf;
    unsigned length;

    *ret_broken = 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        length = 2;
    else if (lead >= 0xe0 && lead <= 0xef)
        length = 3;
    else if (lead >= 0xf0 && lead <= 0xf4)
        length = 4;
    else
        return 0;
    /* The second byte rules out overlong forms, surrogates and values above U+10FFFF. */
    if (lead == 0xe0)
        low = 0xa0;
    else if (lead == 0xed)
        high = 0x9f;
    else if (lead == 0xf0)
        low = 0x90;
    else if (lead == 0xf4)
        high = 0x8f;
    for (unsigned i = 1; i < length; i++) {
        if (i >= available || bytes[i] < low || bytes[i] > high) {
            *ret_broken = i;
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

#endif
