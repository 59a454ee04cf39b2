/* Design notes.
 *
 * The input is copied into the arena once, with NULs after it, and strings are decoded in place in
 * the copy. The nodes grow behind it, in the newest allocation of the arena, which may move while
 * it grows. So nothing points to a node: a container's span is relative, and an open container
 * stores the index of its parent in place of its span. That chain is the only stack.
 *
 * The NULs after the copy end every scan, so that the hot loops compare no pointers: a NUL is valid
 * nowhere, and only the code for faults checks whether it is at the end. */
#include "parts.h"
#include "scan.h"

#include <stdio.h>

#define SIZE_MAX_DEFAULT   (64u << 20)
#define STRING_MAX_DEFAULT (16u << 20)
#define DEPTH_MAX_DEFAULT  128u
#define DEPTH_MAX_LARGEST  1024u
/* Objects with up to this many members are checked for duplicates pair by pair. */
#define PAIRWISE_MAX 16u
#define NO_PARENT    UINT64_MAX

struct reader {
    struct bl_arena *arena;
    struct bl_json *tape;
    size_t count;
    size_t capacity;
    uint64_t open; /* index of the innermost open container, or NO_PARENT */
    uint32_t depth;
    struct bl_json_limits limits;
    char *copy;
    char *end; /* of the input in the copy; NULs from here on */
    /* Set by the first failure. */
    int error;
    const char *fault_at;
    const char *expected;
};

static char *reader_fail(struct reader *reader, int error, const char *at, const char *expected)
{
    reader->error = error;
    reader->fault_at = at;
    reader->expected = expected;
    return NULL;
}

/* Out of line, so that the common case of reader_push stays small. */
static __attribute__((noinline)) void reader_grow(struct reader *reader)
{
    size_t capacity = reader->capacity * 2;
    reader->tape =
        bl_arena_resize(reader->arena, reader->tape, reader->capacity * sizeof(struct bl_json),
                        capacity * sizeof(struct bl_json));
    reader->capacity = capacity;
}

/* Adds a node, not yet set. Nodes may move, which invalidates earlier pointers to them. */
static inline struct bl_json *reader_push(struct reader *reader)
{
    if (__builtin_expect(reader->count == reader->capacity, 0))
        reader_grow(reader);
    return &reader->tape[reader->count++];
}

static inline char *reader_skip_space(char *at)
{
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')
        at++;
    return at;
}

/* Reads four hexadecimal digits at `at`. Returns -1 with the fault set if they are not there. */
static int32_t read_hex(struct reader *reader, const char *at)
{
    int32_t value = 0;

    for (int i = 0; i < 4; i++) {
        char byte = at[i], letter = (char)(byte | 0x20);
        if (byte >= '0' && byte <= '9')
            value = value * 16 + (byte - '0');
        else if (letter >= 'a' && letter <= 'f')
            value = value * 16 + (letter - 'a' + 10);
        else {
            reader_fail(reader, BL_EPARSE, at + i, "a hexadecimal digit");
            return -1;
        }
    }
    return value;
}

/* Decodes the \u escape at `at` (its backslash), of one or two parts, to `*out`. Returns the
 * position after it. */
static char *read_unicode(struct reader *reader, char *at, char **out)
{
    char *backslash = at;
    int32_t unit = read_hex(reader, at + 2);
    if (unit < 0)
        return NULL;
    at += 6;
    uint32_t code_point = (uint32_t)unit;
    if (unit >= 0xd800 && unit <= 0xdfff) {
        int32_t low = 0;
        if (unit < 0xdc00 && at[0] == '\\' && at[1] == 'u')
            low = read_hex(reader, at + 2);
        if (low < 0)
            return NULL;
        if (low >= 0xdc00 && low <= 0xdfff) {
            code_point = 0x10000 + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
            at += 6;
        } else if (reader->limits.replace_surrogates) {
            code_point = BL_UTF8_REPLACEMENT;
        } else {
            return reader_fail(reader, BL_EPARSE, backslash, "a surrogate pair");
        }
    }
    *out += bl_utf8_encode(code_point, *out);
    return at;
}

/* Decodes the escape at `at` (its backslash) to `*out`, which it advances. Returns the position
 * after the escape. */
static char *read_escape(struct reader *reader, char *at, char **out)
{
    static const char plain[] = "\"\"\\\\//b\bf\fn\nr\rt\t";

    if (at[1] == 'u')
        return read_unicode(reader, at, out);
    for (const char *pair = plain; *pair != '\0'; pair += 2) {
        if (*pair == at[1]) {
            *(*out)++ = pair[1];
            return at + 2;
        }
    }
    return reader_fail(reader, BL_EPARSE, at + 1, "an escape: one of \"\\/bfnrtu");
}

static char *fail_in_string(struct reader *reader, char *at)
{
    if (at == reader->end)
        return reader_fail(reader, BL_EPARSE, at, "'\"'");
    if ((unsigned char)*at >= 0x80)
        return reader_fail(reader, BL_EPARSE, at, "valid UTF-8");
    return reader_fail(reader, BL_EPARSE, at, "a string character (escape control characters)");
}

/* Ends the string that was decoded to [start, out); `at` is its closing quote. */
static inline char *finish_string(struct reader *reader, struct bl_json *node, uint8_t flags,
                                  char *start, char *out, char *at)
{
    size_t size = (size_t)(out - start);
    if (size > reader->limits.string_max)
        return reader_fail(reader, BL_ELIMIT, start - 1, "a string within the size limit");
    *out = '\0';
    *node = (struct bl_json){
        .type = BL_JSON_STRING, .flags = flags, .size = (uint32_t)size, .string = start};
    return at + 1;
}

/* Continues a string that began at `start` from its first backslash, at `at`. The decoded text is
 * never longer than the source, so it is written in place. */
static char *read_escaped_string(struct reader *reader, struct bl_json *node, uint8_t flags,
                                 char *start, char *at)
{
    char *out = at;

    for (;;) {
        uint64_t word = scan_load(at);
        uint64_t marks = scan_special(word, true);
        if (marks == 0) {
            memcpy(out, &word, sizeof word);
            at += 8;
            out += 8;
            continue;
        }
        /* Byte by byte: a whole word would overwrite unread input. */
        for (unsigned i = scan_first(marks); i > 0; i--)
            *out++ = *at++;
        if (*at == '"')
            return finish_string(reader, node, flags, start, out, at);
        if (*at == '\\') {
            at = read_escape(reader, at, &out);
            if (at == NULL)
                return NULL;
            continue;
        }
        unsigned broken = 0;
        unsigned length = (unsigned char)*at >= 0x80 ? scan_sequence(at, JSON_PADDING, &broken) : 0;
        if (length == 0)
            return fail_in_string(reader, at);
        for (; length > 0; length--)
            *out++ = *at++;
    }
}

/* Reads a string from its opening quote, at `at`. Returns the position after it. */
static inline char *reader_read_string(struct reader *reader, char *at, struct bl_json *node,
                                       uint8_t flags)
{
    char *start = ++at;

    for (;;) {
        uint64_t marks = scan_special(scan_load(at), true);
        if (marks == 0) {
            at += 8;
            continue;
        }
        at += scan_first(marks);
        if (*at == '"')
            return finish_string(reader, node, flags | JSON_PLAIN, start, at, at);
        if (*at == '\\')
            return read_escaped_string(reader, node, flags, start, at);
        unsigned broken = 0;
        unsigned length = (unsigned char)*at >= 0x80 ? scan_sequence(at, JSON_PADDING, &broken) : 0;
        if (length == 0)
            return fail_in_string(reader, at);
        at += length;
    }
}

/* Reads a key, its colon and the space around them; `at` is where its quote should be. */
static inline char *read_key(struct reader *reader, char *at, const char *expected)
{
    if (*at != '"')
        return reader_fail(reader, BL_EPARSE, at, expected);
    at = reader_read_string(reader, at, reader_push(reader), JSON_KEY | JSON_VALID);
    if (at == NULL)
        return NULL;
    at = reader_skip_space(at);
    if (*at != ':')
        return reader_fail(reader, BL_EPARSE, at, "':'");
    return reader_skip_space(at + 1);
}

/* Fails at the first byte where the input differs from `word`. */
static char *fail_in_word(struct reader *reader, char *at, const char *word, const char *expected)
{
    while (*at == *word) {
        at++;
        word++;
    }
    return reader_fail(reader, BL_EPARSE, at, expected);
}

/* Reads a value other than a container. */
static inline char *read_scalar(struct reader *reader, char *at, struct bl_json *node)
{
    if (*at == '"')
        return reader_read_string(reader, at, node, JSON_VALID);
    *node = (struct bl_json){.type = BL_JSON_BOOLEAN};
    if (*at == '-' || (unsigned char)(*at - '0') < 10) {
        char *fault;
        const char *expected;
        char *after = json_number_read(at, node, &fault, &expected);
        return after != NULL ? after : reader_fail(reader, BL_EPARSE, fault, expected);
    }
    switch (*at) {
    case 't':
        node->boolean = true;
        return memcmp(at, "true", 4) == 0 ? at + 4 : fail_in_word(reader, at, "true", "'true'");
    case 'f':
        return memcmp(at, "false", 5) == 0 ? at + 5 : fail_in_word(reader, at, "false", "'false'");
    case 'n':
        node->type = BL_JSON_NULL;
        return memcmp(at, "null", 4) == 0 ? at + 4 : fail_in_word(reader, at, "null", "'null'");
    default: break;
    }
    bool first = reader->open != NO_PARENT && reader->tape[reader->open].type == BL_JSON_ARRAY &&
                 reader->tape[reader->open].size == 0;
    return reader_fail(reader, BL_EPARSE, at, first ? "a value or ']'" : "a value");
}

static bool same_key(const struct bl_json *a, const struct bl_json *b)
{
    return a->size == b->size && memcmp(a->string, b->string, a->size) == 0;
}

static const struct bl_json *find_duplicate_pairwise(const struct bl_json *object)
{
    BL_JSON_MEMBERS (key, object) {
        BL_JSON_MEMBERS (earlier, object) {
            if (earlier == key)
                break;
            if (same_key(earlier, key))
                return key;
        }
    }
    return NULL;
}

/* Finds a duplicate with a keyed hash, so that input cannot be made to collide. */
static const struct bl_json *find_duplicate_hashed(const struct bl_json *object)
{
    const struct bl_json *duplicate = NULL;
    uint64_t secret[2];
    size_t slot_count = 64;

    while (slot_count < (size_t)object->size * 2)
        slot_count *= 2;
    const struct bl_json **slots = bl_zalloc(slot_count * sizeof(*slots));
    bl_random_bytes(secret, sizeof secret);
    BL_JSON_MEMBERS (key, object) {
        size_t slot = bl_hash(secret, bl_json_text(key)) & (slot_count - 1);
        while (slots[slot] != NULL && !same_key(slots[slot], key))
            slot = (slot + 1) & (slot_count - 1);
        if (slots[slot] != NULL) {
            duplicate = key;
            break;
        }
        slots[slot] = key;
    }
    bl_free(slots);
    return duplicate;
}

const struct bl_json *json_duplicate_find(const struct bl_json *object)
{
    return object->size <= PAIRWISE_MAX ? find_duplicate_pairwise(object)
                                        : find_duplicate_hashed(object);
}

/* Closes the innermost container, whose bracket is at `at`. Returns the position after it. */
static inline char *close_container(struct reader *reader, char *at)
{
    uint64_t index = reader->open;
    struct bl_json *end = reader_push(reader);
    struct bl_json *container = &reader->tape[index];
    bool object = container->type == BL_JSON_OBJECT;

    *end = (struct bl_json){.type = BL_JSON_END, .flags = object ? JSON_CLOSES_OBJECT : 0};
    reader->open = container->span;
    container->span = reader->count - index;
    reader->depth--;
    if (object && __builtin_expect(reader->limits.refuse_duplicates, 0)) {
        const struct bl_json *duplicate = json_duplicate_find(container);
        if (duplicate != NULL)
            return reader_fail(reader, BL_EPARSE, duplicate->string - 1,
                               "a key that is not a duplicate");
    }
    return at + 1;
}

/* Opens the container whose bracket is at `at`, and closes it if it is empty. Returns the position
 * of its first value, or the position after it if it was empty: reader->open tells which. */
static inline char *open_container(struct reader *reader, char *at, struct bl_json *node)
{
    bool object = *at == '{';

    if (reader->depth == reader->limits.depth_max)
        return reader_fail(reader, BL_ELIMIT, at, "fewer nested containers");
    reader->depth++;
    *node = (struct bl_json){.type = object ? BL_JSON_OBJECT : BL_JSON_ARRAY, .span = reader->open};
    reader->open = reader->count - 1;
    at = reader_skip_space(at + 1);
    if (*at == (object ? '}' : ']'))
        return close_container(reader, at);
    return object ? read_key(reader, at, "a key or '}'") : at;
}

/* Closes the containers that end after a value, until the next value is due or none is open. */
static inline char *finish_value(struct reader *reader, char *at)
{
    while (reader->open != NO_PARENT) {
        struct bl_json *container = &reader->tape[reader->open];
        bool object = container->type == BL_JSON_OBJECT;
        container->size++;
        at = reader_skip_space(at);
        if (*at == ',') {
            at = reader_skip_space(at + 1);
            return object ? read_key(reader, at, "a key") : at;
        }
        if (*at != (object ? '}' : ']'))
            return reader_fail(reader, BL_EPARSE, at, object ? "',' or '}'" : "',' or ']'");
        at = close_container(reader, at);
        if (at == NULL)
            return NULL;
    }
    return at;
}

/* Reads the whole copy: one value and white space. */
static int read_document(struct reader *reader)
{
    char *at = reader_skip_space(reader->copy);

    do {
        size_t index = reader->count;
        struct bl_json *node = reader_push(reader);
        if (*at == '{' || *at == '[') {
            at = open_container(reader, at, node);
            if (at != NULL && reader->open == index)
                continue;
        } else {
            at = read_scalar(reader, at, node);
        }
        if (at != NULL)
            at = finish_value(reader, at);
    } while (at != NULL && reader->open != NO_PARENT);
    if (at == NULL)
        return reader->error;
    at = reader_skip_space(at);
    if (at != reader->end)
        reader_fail(reader, BL_EPARSE, at, "the end");
    return reader->error;
}

/* Writes one unit of an excerpt: a character unchanged, or a byte in visible form. `*ret_taken` is
 * the size of the input that it stands for. Returns the size of the unit. */
static size_t show_unit(struct bl_text input, size_t offset, char out[8], size_t *ret_taken)
{
    const char *at = input.data + offset;
    unsigned char byte = (unsigned char)*at;
    unsigned broken = 0;
    unsigned length = 1;

    if (byte >= 0x80)
        length = scan_sequence(at, input.size - offset, &broken);
    /* C1 controls, which can control a terminal, are C2 80..9F. */
    bool control =
        byte < 0x20 || byte == 0x7f || (length == 2 && byte == 0xc2 && (unsigned char)at[1] < 0xa0);
    *ret_taken = 1;
    if (length == 0 || control) {
        const char *name = byte == '\n'   ? "\\n"
                           : byte == '\t' ? "\\t"
                           : byte == '\r' ? "\\r"
                                          : NULL;
        return (size_t)(name != NULL ? snprintf(out, 8, "%s", name)
                                     : snprintf(out, 8, "\\x%02x", byte));
    }
    *ret_taken = length;
    memcpy(out, at, length);
    return length;
}

/* The size of [from, to) in an excerpt. */
static size_t shown_size(struct bl_text input, size_t from, size_t to)
{
    char unit[8];
    size_t size = 0, taken;

    for (; from < to; from += taken)
        size += show_unit(input, from, unit, &taken);
    return size;
}

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Writes the text around `offset`, with … where it is truncated. */
static void fill_excerpt(struct bl_text input, size_t offset, char out[64])
{
    static const char cut[] = "\u2026";
    const size_t cut_size = sizeof(cut) - 1, before_max = 24;
    size_t from = offset > before_max ? offset - before_max : 0;
    size_t size = 0;

    while (from > 0 && from < offset &&
           (is_continuation(input.data[from]) || shown_size(input, from, offset) > before_max))
        from++;
    if (from > 0) {
        memcpy(out, cut, cut_size);
        size = cut_size;
    }
    while (from < input.size) {
        char unit[8];
        size_t taken;
        size_t unit_size = show_unit(input, from, unit, &taken);
        /* The last unit may take the place of the mark. */
        size_t needed = unit_size + (from + taken < input.size ? cut_size : 0);
        if (size + needed > 63) {
            memcpy(out + size, cut, cut_size);
            size += cut_size;
            break;
        }
        memcpy(out + size, unit, unit_size);
        size += unit_size;
        from += taken;
    }
    out[size] = '\0';
}

static void fill_found(struct bl_text input, size_t offset, char out[16])
{
    if (offset >= input.size) {
        snprintf(out, 16, "the end");
        return;
    }
    char unit[8];
    size_t taken;
    size_t size = show_unit(input, offset, unit, &taken);
    unsigned char byte = (unsigned char)input.data[offset];
    if (size != taken)
        snprintf(out, 16, "0x%02X", byte);
    else
        snprintf(out, 16, "'%.*s'", (int)size, unit);
}

void json_fault_fill(struct bl_json_fault *fault, struct bl_text input, size_t offset,
                     const char *expected)
{
    size_t line_start = 0;

    *fault = (struct bl_json_fault){.offset = offset, .line = 1, .expected = expected};
    for (size_t i = 0; i < offset; i++) {
        if (input.data[i] == '\n') {
            fault->line++;
            line_start = i + 1;
        }
    }
    fault->column = (uint32_t)(offset - line_start + 1);
    fill_found(input, offset, fault->found);
    fill_excerpt(input, offset, fault->excerpt);
}

void bl_json_fault_text(const struct bl_json_fault *fault, char *out, size_t out_size)
{
    snprintf(out, out_size, "offset %zu (line %u, column %u): expected %s, found %s near `%s`",
             fault->offset, fault->line, fault->column, fault->expected, fault->found,
             fault->excerpt);
}

struct bl_json_limits json_limits_complete(const struct bl_json_limits *limits)
{
    struct bl_json_limits result = limits != NULL ? *limits : (struct bl_json_limits){0};

    if (result.size_max == 0)
        result.size_max = SIZE_MAX_DEFAULT;
    if (result.string_max == 0)
        result.string_max = STRING_MAX_DEFAULT;
    if (result.depth_max == 0)
        result.depth_max = DEPTH_MAX_DEFAULT;
    /* Sizes of strings and containers have 32 bits. */
    if (result.size_max > UINT32_MAX)
        result.size_max = UINT32_MAX;
    if (result.depth_max > DEPTH_MAX_LARGEST)
        result.depth_max = DEPTH_MAX_LARGEST;
    return result;
}

/* Makes the copy and the first nodes from one allocation. With two, an arena that is reset and used
 * again for documents of the same size would keep only one of two large chunks. */
static void reader_init(struct reader *reader, struct bl_arena *arena, struct bl_text input)
{
    size_t copy_size = (input.size + JSON_PADDING + 15) & ~(size_t)15;
    reader->arena = arena;
    reader->open = NO_PARENT;
    reader->capacity = input.size / 12 + 16;
    size_t tape_size = reader->capacity * sizeof(struct bl_json);
    reader->copy = bl_arena_alloc(arena, copy_size + tape_size);
    reader->copy = bl_arena_resize(arena, reader->copy, copy_size + tape_size, copy_size);
    reader->tape = bl_arena_alloc(arena, tape_size);
    reader->end = reader->copy + input.size;
    if (input.size > 0)
        memcpy(reader->copy, input.data, input.size);
    memset(reader->end, 0, JSON_PADDING);
}

int bl_json_read(struct bl_arena *arena, struct bl_text input, const struct bl_json_limits *limits,
                 const struct bl_json **ret_value, struct bl_json_fault *fault)
{
    struct reader reader = {.limits = json_limits_complete(limits)};

    if (input.size > reader.limits.size_max) {
        if (fault != NULL)
            json_fault_fill(fault, input, reader.limits.size_max,
                            "the end: the input exceeds the size limit");
        return BL_ELIMIT;
    }
    struct bl_arena_mark mark = bl_arena_mark(arena);
    reader_init(&reader, arena, input);
    int result = read_document(&reader);
    if (result != 0) {
        if (fault != NULL)
            json_fault_fill(fault, input, (size_t)(reader.fault_at - reader.copy), reader.expected);
        bl_arena_rewind(arena, mark);
        return result;
    }
    *ret_value = bl_arena_resize(arena, reader.tape, reader.capacity * sizeof(struct bl_json),
                                 reader.count * sizeof(struct bl_json));
    return 0;
}
