/* Stall detection.
 *
 * Design notes.
 *
 * Rephrased feedback is not recognized. What is recognized is the same wording with other numbers,
 * as a failing test or a Coach without a new idea produces it. So each issue's text is split into
 * words, and meaningless details are replaced: numbers, durations and hashes by `#`, paths with
 * their lines by `@`. Criteria are kept: feedback on another criterion is different feedback. */
#include <inttypes.h>
#include <stdio.h>

#include "verdict.h"

#define SAME_MAX          3u
#define SAME_MAX_VERIFIED 5u
#define UNCHANGED_MAX     3u
#define HASH_SIZE_MIN     4u /* minimum size of a hexadecimal word with a decimal digit */

/* ---- Words ----------------------------------------------------------------------------------- */

/* A text while it is normalized. The output is hashed at once. */
struct alike {
    struct bl_sha256 *hash;
    struct bl_text rest;
    const char *no_path; /* no path starts before this, so no byte is scanned twice */
    bool gap;            /* put a space before the next output */
    bool begun;          /* there was output */
};

static bool stall_is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static bool stall_is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte & 0x80) != 0;
}

static bool stall_is_word(char byte)
{
    return stall_is_digit(byte) || is_letter(byte) || byte == '_';
}

static char stall_lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

static char at(struct bl_text text, size_t index)
{
    return index < text.size ? text.data[index] : '\0';
}

static void stall_put(struct alike *alike, struct bl_text bytes)
{
    if (alike->gap && alike->begun)
        bl_sha256_add(alike->hash, BL_TEXT(" "));
    alike->gap = false;
    alike->begun = true;
    bl_sha256_add(alike->hash, bytes);
}

static void stall_skip(struct alike *alike, size_t size)
{
    alike->rest.data += size;
    alike->rest.size -= size;
}

/* Puts a word in lower case, with each run of digits as one `#`. */
static void put_word(struct alike *alike, struct bl_text word)
{
    for (size_t i = 0; i < word.size; i++) {
        char byte = stall_lower(word.data[i]);
        if (!stall_is_digit(byte))
            stall_put(alike, (struct bl_text){&byte, 1});
        else if (i == 0 || !stall_is_digit(word.data[i - 1]))
            stall_put(alike, BL_TEXT("#"));
    }
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static bool is_path_byte(char byte)
{
    return stall_is_word(byte) || (byte != '\0' && strchr("./-+~@%$", byte) != NULL);
}

/* Returns whether a word has a short extension that starts with a letter: `a.c`,
 * `parser.test.ts`. */
static bool has_ending(struct bl_text word)
{
    size_t dot = word.size;
    while (dot > 0 && word.data[dot - 1] != '.')
        dot--;
    size_t size = word.size - dot;
    if (dot < 2 || size < 1 || size > 4 || stall_is_digit(word.data[dot]) ||
        !stall_is_word(word.data[dot - 2]))
        return false;
    for (size_t i = dot; i < word.size; i++)
        if (!stall_is_word(word.data[i]) || (word.data[i] & 0x80) != 0)
            return false;
    return true;
}

/* Returns the size of a path at this position, including a following `:12:5`, or 0. */
static size_t path_size(struct alike *alike)
{
    struct bl_text text = alike->rest;
    size_t run = 0;
    if (text.data < alike->no_path)
        return 0;
    while (is_path_byte(at(text, run)))
        run++;
    /* The full stop of a sentence does not belong to the path. */
    size_t size = run;
    while (size > 0 && text.data[size - 1] == '.')
        size--;
    /* Words joined by a slash, such as `and/or`, count as paths too: that does no harm. */
    bool slash = size > 1 && memchr(text.data, '/', size) != NULL;
    if (!slash && !has_ending((struct bl_text){text.data, size})) {
        alike->no_path = text.data + run;
        return 0;
    }
    while (at(text, size) == ':' && stall_is_digit(at(text, size + 1)))
        for (size++; stall_is_digit(at(text, size));)
            size++;
    return size;
}

/* ---- Numbers, durations, hashes -------------------------------------------------------------- */

static size_t word_size(struct bl_text text)
{
    size_t size = 0;
    while (stall_is_word(at(text, size)))
        size++;
    return size;
}

static bool is_hexadecimal(struct bl_text word)
{
    for (size_t i = 0; i < word.size; i++)
        if (!stall_is_digit(word.data[i]) &&
            (stall_lower(word.data[i]) < 'a' || stall_lower(word.data[i]) > 'f'))
            return false;
    return word.size > 0;
}

static bool is_hash(struct bl_text word)
{
    bool digits = false;
    if (word.size > 2 && word.data[0] == '0' && stall_lower(word.data[1]) == 'x')
        return is_hexadecimal((struct bl_text){word.data + 2, word.size - 2});
    for (size_t i = 0; i < word.size; i++)
        digits = digits || stall_is_digit(word.data[i]);
    return digits && word.size >= HASH_SIZE_MIN && is_hexadecimal(word);
}

static bool is_unit(struct bl_text word)
{
    static const char *const units[] = {"ns",      "us",     "µs",     "ms",      "s",    "sec",
                                        "secs",    "second", "m",      "min",     "mins", "h",
                                        "hr",      "hrs",    "hour",   "hours",   "d",    "days",
                                        "seconds", "day",    "minute", "minutes", NULL};
    char small[8];
    if (word.size >= sizeof small)
        return false;
    for (size_t i = 0; i < word.size; i++)
        small[i] = stall_lower(word.data[i]);
    for (const char *const *unit = units; *unit != NULL; unit++)
        if (bl_text_equal((struct bl_text){small, word.size}, bl_text_from(*unit)))
            return true;
    return false;
}

/* Returns the size of a number at this position, such as "-1,234.5", or 0. */
static size_t number_size(struct bl_text text)
{
    size_t size = at(text, 0) == '-' || at(text, 0) == '+' ? 1 : 0;
    if (!stall_is_digit(at(text, size)))
        return 0;
    while (stall_is_digit(at(text, size)) ||
           ((at(text, size) == '.' || at(text, size) == ',') && stall_is_digit(at(text, size + 1))))
        size++;
    return size;
}

/* Returns the number of letters after a number, perhaps its unit. */
static size_t letters_size(struct bl_text text)
{
    size_t size = 0;
    while (is_letter(at(text, size)))
        size++;
    return size;
}

/* Returns the size of a duration, such as "206 ms", "1.5s", "2m30s", "4 m 10 s", or 0. */
static size_t duration_size(struct bl_text text)
{
    size_t size = 0;
    for (;;) {
        size_t next = size;
        while (size > 0 && at(text, next) == ' ')
            next++;
        struct bl_text rest = {text.data + next, text.size - next};
        size_t number = number_size(rest);
        if (number == 0)
            return size;
        size_t unit = number;
        while (at(rest, unit) == ' ')
            unit++;
        size_t letters = letters_size((struct bl_text){rest.data + unit, rest.size - unit});
        if (!is_unit((struct bl_text){rest.data + unit, letters}) ||
            at(rest, unit + letters) == '_')
            return size;
        size = next + unit + letters;
    }
}

/* ---- A text ---------------------------------------------------------------------------------- */

/* Takes a word, or a byte outside words. */
static void take_next(struct alike *alike)
{
    struct bl_text rest = alike->rest;
    size_t size = path_size(alike);
    size_t word = size == 0 ? word_size(rest) : 0;
    if (size > 0) {
        stall_put(alike, BL_TEXT("@"));
    } else if ((size = duration_size(rest)) > 0) {
        stall_put(alike, BL_TEXT("#"));
    } else if (is_hash((struct bl_text){rest.data, word})) {
        stall_put(alike, BL_TEXT("#"));
        size = word;
    } else if ((size = number_size(rest)) > 0) {
        stall_put(alike, BL_TEXT("#"));
    } else if (word > 0) {
        put_word(alike, (struct bl_text){rest.data, word});
        size = word;
    } else {
        stall_put(alike, (struct bl_text){rest.data, 1});
        size = 1;
    }
    stall_skip(alike, size);
}

static void stall_add_text(struct bl_sha256 *hash, struct bl_text text)
{
    struct alike alike = {.hash = hash, .rest = text, .no_path = text.data};
    while (alike.rest.size > 0) {
        if (stall_is_space(alike.rest.data[0])) {
            alike.gap = true;
            stall_skip(&alike, 1);
        } else {
            take_next(&alike);
        }
    }
    bl_sha256_add(hash, (struct bl_text){"", 1});
}

void feedback_digest(const struct bl_list *issues, char out[65])
{
    struct bl_sha256 hash;
    uint8_t digest[32];
    bl_sha256_init(&hash);
    BL_LIST_EACH (link, issues) {
        const struct issue *issue = BL_CONTAINER(link, struct issue, link);
        bl_sha256_add(&hash, bl_text_from(issue_severity_name(issue->severity)));
        bl_sha256_add(&hash, (struct bl_text){"", 1});
        bl_sha256_add(&hash, bl_text_from(issue->criterion));
        bl_sha256_add(&hash, (struct bl_text){"", 1});
        stall_add_text(&hash, issue->description);
        stall_add_text(&hash, issue->suggestion);
    }
    bl_sha256_end(&hash, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* ---- Counting -------------------------------------------------------------------------------- */

/* Notes the criteria that the verdict verifies. Returns true if one is new. */
static bool note_verified(struct stall *stall, const struct verdict *verdict)
{
    bool is_new = false;
    for (size_t i = 0; verdict != NULL && i < verdict->criterion_count; i++) {
        uint64_t bit = 1ull << (i % 64);
        if (i / 64 >= BL_COUNT(stall->verified) || !verdict->criteria[i].verified)
            continue;
        is_new = is_new || (stall->verified[i / 64] & bit) == 0;
        stall->verified[i / 64] |= bit;
    }
    return is_new;
}

static bool any_verified(const struct stall *stall)
{
    for (size_t i = 0; i < BL_COUNT(stall->verified); i++)
        if (stall->verified[i] != 0)
            return true;
    return false;
}

bool stall_after(struct stall *stall, const struct verdict *verdict, const struct bl_list *issues,
                 bool tree_changed, const char **ret_why)
{
    char digest[65];
    bool is_new = note_verified(stall, verdict);
    feedback_digest(issues, digest);
    if (is_new)
        stall->same = 0;
    else if (strcmp(digest, stall->digest) == 0)
        stall->same++;
    else
        stall->same = 1;
    bl_text_into(stall->digest, sizeof stall->digest, digest);
    stall->unchanged = tree_changed ? 0 : stall->unchanged + 1;
    *ret_why = NULL;
    if (any_verified(stall) && stall->same >= SAME_MAX_VERIFIED)
        *ret_why = "the same feedback in five turns in a row, with no newly verified criterion";
    else if (!any_verified(stall) && stall->same >= SAME_MAX)
        *ret_why = "the same feedback in three turns in a row, with no verified criterion";
    else if (stall->unchanged >= UNCHANGED_MAX)
        *ret_why = "no change to the tree in three turns in a row";
    return *ret_why != NULL;
}

/* ---- As JSON --------------------------------------------------------------------------------- */

#define BL_RECORD_STRUCT struct stall
static const struct bl_member stall_members[] = {
    BL_MEMBER_WORD("digest", digest, .least = 64, .about = "Digest of the last feedback."),
    BL_MEMBER_INTEGER("same", same, .about = "Turns in a row with that digest."),
    BL_MEMBER_INTEGER("unchanged", unchanged, .about = "Turns in a row that changed no file."),
    BL_MEMBER_BITS("verified", verified, .about = "Criteria that were verified, by number."),
    BL_MEMBER_INTEGER("absent", absent, .about = "Verifications in a row that were absent."),
    BL_MEMBER_INTEGER("player_errors", player_errors, .about = "Player errors in a row."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record stall_record = BL_RECORD("stall", struct stall, stall_members);
