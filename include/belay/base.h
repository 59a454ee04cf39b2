/* base: the foundation of every other room.
 *
 * Memory from arenas, text that carries its length, buffers that carry their maximum, lists, maps,
 * one table of errors with detail objects, replaceable clocks, random numbers, a structured log,
 * UTF-8, and patterns that match in linear time.
 *
 * Promises: functions do not wait and have no global mutable state. External input cannot make them
 * crash or grow without bound. Running out of memory ends the process with a message. Every other
 * function that can fail returns 0 or a negative BL_E code. */
#ifndef BELAY_BASE_H
#define BELAY_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Enclose the declarations of a public header. They get C linkage in C++, and they are the only
 * names that the library exports. */
#ifdef __cplusplus
#define BL_PUBLIC_BEGIN                                                                            \
    _Pragma("GCC visibility push(default)") extern "C"                                             \
    {
#define BL_PUBLIC_END                                                                              \
    }                                                                                              \
    _Pragma("GCC visibility pop")
#else
#define BL_PUBLIC_BEGIN _Pragma("GCC visibility push(default)")
#define BL_PUBLIC_END   _Pragma("GCC visibility pop")
#endif

/* Fields that several threads read and write. C++ has no type of the same name: C++ code reads them
 * through BL_ATOMIC_LOAD only and leaves writes to the library. */
#ifdef __cplusplus
#define BL_ATOMIC(type)         type
#define BL_ATOMIC_LOAD(pointer) __atomic_load_n(pointer, __ATOMIC_ACQUIRE)
#else
#include <stdatomic.h>
#define BL_ATOMIC(type)         _Atomic(type)
#define BL_ATOMIC_LOAD(pointer) atomic_load_explicit(pointer, memory_order_acquire)
#endif

#define BL_NORETURN             __attribute__((noreturn))
#define BL_PRINTF(index, first) __attribute__((format(printf, index, first)))
#define BL_UNUSED               __attribute__((unused))
#define BL_CONTAINER(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
#define BL_COUNT(array) (sizeof(array) / sizeof((array)[0]))
/* A state machine's transitions: for each state, a table holds the bits of its possible successors.
 */
#define BL_TO(state)                 (1u << (state))
#define BL_MAY_MOVE(moves, from, to) (((moves)[from] >> (to)&1u) != 0)

BL_PUBLIC_BEGIN

/* ---- Text ------------------------------------------------------------------------------------ */

/* A run of bytes with its length. It does not own the bytes, need not end in NUL, and may contain
 * NUL. An empty text has size 0, and its data may be NULL. */
struct bl_text {
    const char *data;
    size_t size;
};

#ifdef __cplusplus
#define BL_TEXT(literal) (bl_text{"" literal, sizeof(literal) - 1})
#else
#define BL_TEXT(literal) ((struct bl_text){"" literal, sizeof(literal) - 1})
#endif
#define BL_TEXT_FORMAT    "%.*s"
#define BL_TEXT_ARG(text) (int)(text).size, (text).data

struct bl_text bl_text_from(const char *string); /* NULL gives an empty text */
/* Copies a string into a field of `size` bytes (not 0), truncated at a character boundary. NULL
 * counts as an empty string. */
void bl_text_into(char *out, size_t size, const char *string);
bool bl_text_equal(struct bl_text a, struct bl_text b);
/* Compares with a string in a single pass. */
static inline bool bl_text_is(struct bl_text text, const char *string)
{
    size_t i = 0;

    while (i < text.size && string[i] == text.data[i] && string[i] != '\0')
        i++;
    return i == text.size && string[i] == '\0';
}
int bl_text_compare(struct bl_text a, struct bl_text b); /* by bytes; shorter first */
bool bl_text_starts_with(struct bl_text text, struct bl_text prefix);
bool bl_text_ends_with(struct bl_text text, struct bl_text suffix);
/* Offset of the first `needle` in `text`, or -1. An empty needle is found at 0. */
ptrdiff_t bl_text_find(struct bl_text text, struct bl_text needle);
/* Returns the text without leading and trailing white space (space, tab, CR, LF, VT, FF). */
struct bl_text bl_text_trim(struct bl_text text);
/* Removes the part before the first `separator` from the front of `*rest` and stores it in
 * `*ret_part`; without a separator, the part is all of `*rest`. Returns false and an empty part
 * when `*rest` is empty: a separator at the very end closes the last part and does not start
 * another. */
bool bl_text_split(struct bl_text *rest, char separator, struct bl_text *ret_part);
/* The whole text must be a decimal number. BL_EPARSE: not a number; BL_ERANGE: does not fit. */
int bl_text_to_int64(struct bl_text text, int64_t *ret_value);

/* The names of an enum's values, indexed by value: one table for JSON, options, help and messages.
 * NULL marks a value without a name. */
struct bl_names {
    const char *const *names;
    size_t count;
};

#define BL_NAMES(array)                                                                            \
    {                                                                                              \
        .names = (array), .count = BL_COUNT(array)                                                 \
    }

/* Returns NULL if the value has no name. */
const char *bl_names_get(const struct bl_names *names, size_t value);
/* Returns false and leaves `*ret_value` unchanged if no value has that name. */
bool bl_names_find(const struct bl_names *names, struct bl_text name, size_t *ret_value);

/* Returns the edit distance in bytes: insertions, deletions, replacements and swaps of neighbours.
 * 64 if either word is longer than 64 bytes. */
unsigned bl_text_distance(struct bl_text a, struct bl_text b);

/* Finds the closest of the names offered one by one: one that is a prefix of the word, or the other
 * way round, or one that is a few edits away. Embedded by the caller. */
struct bl_suggestion {
    const char *word;
    const char *best; /* one of the names offered, or NULL if none is close */
    unsigned distance;
};

void bl_suggestion_init(struct bl_suggestion *suggestion, const char *word);
void bl_suggestion_offer(struct bl_suggestion *suggestion, const char *name);

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

#define BL_UTF8_REPLACEMENT 0xFFFDu

/* True when every sequence is complete, shortest-form, and no surrogate. */
bool bl_utf8_valid(struct bl_text text);
/* Length of the valid prefix. `*ret_cut` (may be NULL) is true when what follows is the beginning
 * of a valid sequence that more bytes could complete. */
size_t bl_utf8_valid_prefix(struct bl_text text, bool *ret_cut);
/* Decodes the first code point. Returns its length, 1 to 4, or 0 if the text is empty or starts
 * with an invalid sequence. */
size_t bl_utf8_decode(struct bl_text text, uint32_t *ret_code_point);
/* Writes 1 to 4 bytes and returns how many; 0 for surrogates and values above U+10FFFF. */
size_t bl_utf8_encode(uint32_t code_point, char out[4]);
/* Longest prefix of at most `size` bytes that does not end inside a sequence. */
struct bl_text bl_utf8_cut(struct bl_text text, size_t size);

/* Returns the first line that is not blank, trimmed and limited to `count_max` code points, for use
 * as a title. The result points into the text. */
struct bl_text bl_utf8_title(struct bl_text text, size_t count_max);
/* Number of code points. In invalid text each stray byte counts as one. */
size_t bl_utf8_count(struct bl_text text);

/* True for code points that control a terminal or disguise a text: C0 and C1 controls, line and
 * paragraph separators, marks that change the writing direction, and the byte order mark. */
bool bl_utf8_unsafe(uint32_t code_point);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* The table of errors: code and description. Codes start at -1001, so that a stray -errno is never
 * mistaken for one. */
#define BL_ERROR_TABLE(X)                                                                          \
    X(BL_ECANCELED, -1001, "stopped")                                                              \
    X(BL_ETIMEDOUT, -1002, "the deadline was reached")                                             \
    X(BL_EINVAL, -1003, "invalid argument")                                                        \
    X(BL_EPARSE, -1004, "not well-formed")                                                         \
    X(BL_ERANGE, -1005, "out of range")                                                            \
    X(BL_ELIMIT, -1006, "limit exceeded")                                                          \
    X(BL_ENOENT, -1007, "not found")                                                               \
    X(BL_EEXIST, -1008, "already exists")                                                          \
    X(BL_EACCES, -1009, "permission denied")                                                       \
    X(BL_EBUSY, -1010, "in use")                                                                   \
    X(BL_EAGAIN, -1011, "not ready")                                                               \
    X(BL_ECLOSED, -1012, "closed")                                                                 \
    X(BL_EMFILE, -1013, "out of file descriptors")                                                 \
    X(BL_ESTACKS, -1014, "out of fiber stacks")                                                    \
    X(BL_ETHREADS, -1015, "out of threads")                                                        \
    X(BL_EIO, -1016, "input/output error")                                                         \
    X(BL_ENOSPC, -1017, "no space left")                                                           \
    X(BL_EPIPE, -1018, "closed by the other end")                                                  \
    X(BL_ENOTSUP, -1019, "not available here")                                                     \
    X(BL_ECHILD, -1020, "no such child process")                                                   \
    X(BL_ESYSTEM, -1021, "system call failed")                                                     \
    X(BL_EUNKNOWN, -1022, "outcome unknown")                                                       \
    X(BL_EBUDGET, -1023, "budget exceeded")                                                        \
    X(BL_EREFUSED, -1024, "refused")

enum bl_error_code {
#define BL_ERROR_CODE(name, value, text) name = value,
    BL_ERROR_TABLE(BL_ERROR_CODE)
#undef BL_ERROR_CODE
};

/* The category of an error as reported to users: the closed set of the JSON envelope. */
#define BL_ERROR_KIND_TABLE(X)                                                                     \
    X(BL_KIND_UNKNOWN, "unknown")                                                                  \
    X(BL_KIND_FILESYSTEM, "filesystem")                                                            \
    X(BL_KIND_AUTH, "auth")                                                                        \
    X(BL_KIND_SESSION, "session")                                                                  \
    X(BL_KIND_PARSE, "parse")                                                                      \
    X(BL_KIND_RUNTIME, "runtime")                                                                  \
    X(BL_KIND_MCP, "mcp")                                                                          \
    X(BL_KIND_DELIVERY, "delivery")                                                                \
    X(BL_KIND_USAGE, "usage")                                                                      \
    X(BL_KIND_POLICY, "policy")                                                                    \
    X(BL_KIND_PROVIDER, "provider")                                                                \
    X(BL_KIND_PROVIDER_TIMEOUT, "provider_timeout")                                                \
    X(BL_KIND_TOOL, "tool")                                                                        \
    X(BL_KIND_CELL, "cell")                                                                        \
    X(BL_KIND_FEATURE, "feature")

enum bl_error_kind {
#define BL_ERROR_KIND(name, text) name,
    BL_ERROR_KIND_TABLE(BL_ERROR_KIND)
#undef BL_ERROR_KIND
};

/* The details of one error, set once, at the point where they are known. Embedded by the caller; it
 * owns and allocates nothing. Longer texts are truncated at a character boundary. A code of 0 means
 * no error. */
struct bl_error {
    int code;
    enum bl_error_kind kind;
    bool retryable;
    char name[24]; /* "code" of the JSON object: more specific than the kind; may be empty */
    char operation[48];
    char target[256];
    char message[512];
    char hint[256];
};

const char *bl_error_name(int code); /* "BL_EINVAL"; 0: "no error"; unknown: "unknown error" */
const char *bl_error_text(int code); /* the description in the table */
extern const struct bl_names bl_error_kinds;
const char *bl_error_kind_name(enum bl_error_kind kind);
int bl_error_from_errno(int system_errno); /* also takes libuv's negative codes */
/* Fills `*error` (may be NULL) unless it already holds an error: the first details are kept.
 * Returns `code`, so that a failing function can end in `return bl_error_set(…)`. */
int bl_error_set(struct bl_error *error, int code, enum bl_error_kind kind, const char *operation,
                 const char *target, const char *message_format, ...) BL_PRINTF(6, 7);
/* Adds the hint, which says what to do next. */
void bl_error_hint(struct bl_error *error, const char *format, ...) BL_PRINTF(2, 3);
/* Adds the specific name: "commit_unknown", "overloaded". */
void bl_error_name_set(struct bl_error *error, const char *name);

/* ---- Arena ----------------------------------------------------------------------------------- */

/* Memory that is freed all at once. Embedded by its owner; used by one thread at a time. A zeroed
 * struct is a valid empty arena. */
struct bl_arena {
    struct bl_arena_chunk *chunk; /* newest first */
    char *next;                   /* free bytes of the newest chunk: [next, end) */
    char *end;
    size_t allocated; /* bytes taken from the system */
};

/* An arena that is freed whenever control leaves its block. */
#define BL_AUTO_ARENA(name) __attribute__((cleanup(bl_arena_done))) struct bl_arena name = {0}

/* A position in an arena, to rewind to. */
struct bl_arena_mark {
    struct bl_arena_chunk *chunk;
    char *next;
};

void bl_arena_init(struct bl_arena *arena);
void bl_arena_done(struct bl_arena *arena); /* frees all; the arena is empty and usable again */
/* Empties the arena. Keeps the largest chunk and frees the rest. */
void bl_arena_reset(struct bl_arena *arena);
struct bl_arena_mark bl_arena_mark(const struct bl_arena *arena);
void bl_arena_rewind(struct bl_arena *arena, struct bl_arena_mark mark);
/* Aligned to 16; never NULL; size 0 gives a unique pointer. Not zeroed. */
void *bl_arena_alloc(struct bl_arena *arena, size_t size);
void *bl_arena_zalloc(struct bl_arena *arena, size_t size); /* zeroed */
/* Resizes an allocation from `old_size` to `new_size` bytes: in place if it is the newest and there
 * is room (also to shrink), else by copying. Returns its new address. */
void *bl_arena_resize(struct bl_arena *arena, void *memory, size_t old_size, size_t new_size);
/* Copies a text and puts a NUL after its last byte. */
struct bl_text bl_arena_text(struct bl_arena *arena, struct bl_text text);
struct bl_text bl_arena_printf(struct bl_arena *arena, const char *format, ...) BL_PRINTF(2, 3);
struct bl_text bl_arena_vprintf(struct bl_arena *arena, const char *format, va_list arguments)
    BL_PRINTF(2, 0);

/* The heap, for objects that outlive arenas. Out of memory ends the process with a message. */
void *bl_alloc(size_t size);
void *bl_zalloc(size_t size);
void *bl_realloc(void *memory, size_t size);
void bl_free(void *memory);
BL_NORETURN void bl_out_of_memory(size_t size);

/* ---- Buffer ---------------------------------------------------------------------------------- */

/* A growing run of bytes with a maximum size. Embedded by its owner. An append that would exceed
 * the maximum adds nothing and returns BL_ELIMIT. */
struct bl_buffer {
    char *data;
    size_t size;
    size_t capacity;
    size_t maximum;
};

/* A buffer that is freed whenever control leaves its block. */
#define BL_AUTO_BUFFER(name, most)                                                                 \
    __attribute__((cleanup(bl_buffer_done))) struct bl_buffer name = {.maximum = (most)}

void bl_buffer_init(struct bl_buffer *buffer, size_t maximum);
void bl_buffer_done(struct bl_buffer *buffer);
void bl_buffer_clear(struct bl_buffer *buffer); /* size 0, memory kept */
/* Ensures room for `size` more bytes at data + size. */
int bl_buffer_reserve(struct bl_buffer *buffer, size_t size);
int bl_buffer_append(struct bl_buffer *buffer, struct bl_text text);
int bl_buffer_append_byte(struct bl_buffer *buffer, char byte);
int bl_buffer_printf(struct bl_buffer *buffer, const char *format, ...) BL_PRINTF(2, 3);
int bl_buffer_vprintf(struct bl_buffer *buffer, const char *format, va_list arguments)
    BL_PRINTF(2, 0);
/* Drops `size` bytes from the front, or all of them if there are fewer. */
void bl_buffer_consume(struct bl_buffer *buffer, size_t size);
struct bl_text bl_buffer_text(const struct bl_buffer *buffer);

/* Base64: groups of four characters, the last one padded with '='. */
bool bl_base64_valid(struct bl_text text); /* and not empty */
int bl_base64_encode(struct bl_buffer *out, struct bl_text bytes);
/* Returns false if the text is not valid Base64. */
bool bl_base64_decode(struct bl_arena *arena, struct bl_text text, struct bl_text *ret_bytes);

enum bl_show {
    BL_SHOW_LINE,  /* LF and tab are escaped */
    BL_SHOW_LINES, /* LF and tab are kept, and CR LF becomes LF */
};

/* Appends a text of unknown origin in a form that is safe to display: code points for which
 * bl_utf8_unsafe is true are escaped (\n, \x1b, \u202e), and an invalid byte becomes U+FFFD. */
int bl_text_show(struct bl_buffer *out, struct bl_text text, enum bl_show form);

/* ---- List ------------------------------------------------------------------------------------ */

/* A doubly linked, circular list of embedded links; the head is a link too. A link outside any list
 * points to itself, so that removing it twice is harmless. */
struct bl_list {
    struct bl_list *next;
    struct bl_list *previous;
};

static inline void bl_list_init(struct bl_list *link)
{
    link->next = link;
    link->previous = link;
}

static inline bool bl_list_empty(const struct bl_list *head)
{
    return head->next == head;
}

static inline void bl_list_insert_before(struct bl_list *position, struct bl_list *link)
{
    link->next = position;
    link->previous = position->previous;
    position->previous->next = link;
    position->previous = link;
}

static inline void bl_list_push_back(struct bl_list *head, struct bl_list *link)
{
    bl_list_insert_before(head, link);
}

static inline void bl_list_push_front(struct bl_list *head, struct bl_list *link)
{
    bl_list_insert_before(head->next, link);
}

static inline void bl_list_remove(struct bl_list *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    bl_list_init(link);
}

/* Removes and returns the first link, or NULL if the list is empty. */
static inline struct bl_list *bl_list_pop_front(struct bl_list *head)
{
    struct bl_list *link = head->next;
    if (link == head)
        return NULL;
    bl_list_remove(link);
    return link;
}

#define BL_LIST_EACH(link, head)                                                                   \
    for (struct bl_list *link = (head)->next; link != (head); link = link->next)
/* The current link may be removed during the loop. */
#define BL_LIST_EACH_SAFE(link, head)                                                              \
    for (struct bl_list *link = (head)->next, *link##_next = link->next; link != (head);           \
         link = link##_next, link##_next = link->next)

/* ---- Map ------------------------------------------------------------------------------------- */

/* Maps text to pointers. Keys are copied; the caller owns the values. Iteration follows the order
 * of insertion, so that output made from a map is reproducible. Each map has its own hash key, so
 * that external input cannot choose keys that collide. */
struct bl_map {
    struct bl_map_entry *entries; /* in insertion order; removed ones have key.data NULL */
    uint32_t *slots;              /* index + 1 into entries; 0 if free */
    uint32_t slot_count;          /* a power of two, or 0 */
    uint32_t used;                /* entries in use or removed */
    uint32_t count;               /* live ones */
    uint32_t capacity;            /* of entries */
    uint64_t key[2];
};

struct bl_map_entry {
    struct bl_text key; /* followed by a NUL */
    void *value;
    uint64_t hash;
};

void bl_map_init(struct bl_map *map);
void bl_map_done(struct bl_map *map);
void *bl_map_get(const struct bl_map *map, struct bl_text key); /* NULL if not found */
bool bl_map_has(const struct bl_map *map, struct bl_text key);
/* Inserts or replaces. `*ret_old` (may be NULL) gets the previous value, or NULL. */
void bl_map_set(struct bl_map *map, struct bl_text key, void *value, void **ret_old);
/* Returns the removed value, or NULL if there was none. */
void *bl_map_remove(struct bl_map *map, struct bl_text key);
/* Next live entry at or after `*position`; NULL at the end. Removing the current entry is allowed.
 */
struct bl_map_entry *bl_map_next(const struct bl_map *map, uint32_t *position);
#define BL_MAP_EACH(entry, map)                                                                    \
    for (uint32_t entry##_position = 0, entry##_go = 1; entry##_go; entry##_go = 0)                \
        for (struct bl_map_entry * entry; (entry = bl_map_next(map, &entry##_position)) != NULL;)

/* Keyed hash of bytes (SipHash-1-3). */
uint64_t bl_hash(const uint64_t key[2], struct bl_text text);

/* ---- Clock, durations, random numbers -------------------------------------------------------- */

#define BL_NS_PER_US 1000ull
#define BL_NS_PER_MS 1000000ull
#define BL_NS_PER_S  1000000000ull
/* "No deadline": the largest possible time. */
#define BL_NEVER UINT64_MAX

/* The source of time, which tests can replace: all code reads the time from one of these.
 * `monotonic_ns` must be safe to call from any thread and from a signal handler. */
struct bl_clock {
    uint64_t (*monotonic_ns)(
        void *context);                /* since some fixed moment; suspended time not counted */
    int64_t (*wall_ns)(void *context); /* since 1970, UTC */
    void *context;
};

extern const struct bl_clock bl_clock_system;

static inline uint64_t bl_clock_now_ns(const struct bl_clock *clock)
{
    return clock->monotonic_ns(clock->context);
}

static inline int64_t bl_clock_wall_ns(const struct bl_clock *clock)
{
    return clock->wall_ns(clock->context);
}

/* a + b, or BL_NEVER instead of wrapping. */
static inline uint64_t bl_time_add(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > BL_NEVER - b_ns ? BL_NEVER : a_ns + b_ns;
}

/* Writes "2026-11-15T18:50:07.123Z"; `out` needs 25 bytes. */
void bl_time_format(int64_t wall_ns, char out[32]);
/* Parses such a time, with any number of decimals. Returns false if the text is not a time or the
 * year is not from 1678 to 2261. */
bool bl_time_parse(struct bl_text text, int64_t *ret_wall_ns);
/* Parses `90`, `90s`, `500ms`, `2.5m`, `1h`; a leading minus is the only sign, and spaces are not
 * allowed. The result may be zero or negative (callers decide what that means). BL_EPARSE: not a
 * duration; BL_ERANGE: not finite, negative zero, or longer than 100 years. `error` may be NULL. */
int bl_duration_parse(struct bl_text text, int64_t *ret_ns, struct bl_error *error);
/* Converts a number of seconds, with the same limits. */
int bl_duration_from_seconds(double seconds, int64_t *ret_ns, struct bl_error *error);
/* Short form for people: "206 ms", "1.5 s", "4m 10s"; `out` needs 32 bytes. */
void bl_duration_format(int64_t ns, char out[32]);

/* A seeded generator (xoshiro256**): the same seed gives the same sequence. Not for secrets. */
struct bl_random {
    uint64_t state[4];
};

void bl_random_seed(struct bl_random *random, uint64_t seed);
uint64_t bl_random_next(struct bl_random *random);
uint64_t bl_random_below(struct bl_random *random, uint64_t limit); /* unbiased; limit > 0 */
/* Gets bytes for secrets and ids from the system. */
void bl_random_bytes(void *out, size_t size);
/* Makes a unique id: the prefix (at most 11 bytes, such as "turn_") and 20 characters of [a-z2-7].
 */
#define BL_ID_SIZE 32
void bl_id_make(char out[BL_ID_SIZE], const char *prefix);

/* ---- Log ------------------------------------------------------------------------------------- */

/* A process has one log, with one line for each decision. It is off until the program enables it.
 * Lines hold ids, names, numbers and codes; never a key, a header, the text of a prompt or an
 * answer, an argument of a command, or the value of an environment variable. */

#define BL_LOG_LEVEL_TABLE(X)                                                                      \
    X(BL_LOG_OFF, "off")                                                                           \
    X(BL_LOG_ERROR, "error")     /* a bug, or a loss */                                            \
    X(BL_LOG_WARNING, "warning") /* something failed, and the work continues */                    \
    X(BL_LOG_INFO, "info")       /* work began or ended */                                         \
    X(BL_LOG_DEBUG, "debug")     /* a decision */                                                  \
    X(BL_LOG_TRACE, "trace")     /* each message, each step of a state machine */

enum bl_log_level {
#define BL_LOG_LEVEL(name, text) name,
    BL_LOG_LEVEL_TABLE(BL_LOG_LEVEL)
#undef BL_LOG_LEVEL
};

#define BL_LOG_ROOM_TABLE(X)                                                                       \
    X(BL_ROOM_PROC, "proc")                                                                        \
    X(BL_ROOM_WIRE, "wire")                                                                        \
    X(BL_ROOM_TURN, "turn")                                                                        \
    X(BL_ROOM_STORE, "store")                                                                      \
    X(BL_ROOM_MODEL, "model")                                                                      \
    X(BL_ROOM_TOOL, "tool")                                                                        \
    X(BL_ROOM_CELL, "cell")                                                                        \
    X(BL_ROOM_AGENT, "agent")                                                                      \
    X(BL_ROOM_FEATURE, "feature")                                                                  \
    X(BL_ROOM_FLEET, "fleet")                                                                      \
    X(BL_ROOM_SERVE, "serve")

enum bl_log_room {
#define BL_LOG_ROOM(name, text) name,
    BL_LOG_ROOM_TABLE(BL_LOG_ROOM)
#undef BL_LOG_ROOM
    BL_LOG_ROOM_COUNT,
};

/* One named value of a log line. */
struct bl_log_field {
    const char *name;
    enum {
        BL_FIELD_TEXT,
        BL_FIELD_INTEGER,
        BL_FIELD_NUMBER,
        BL_FIELD_BOOLEAN,
    } type;
    struct bl_text text;
    int64_t integer; /* also for booleans */
    double number;
};

#define BL_LOG_TEXT(name, value)    ((struct bl_log_field){name, BL_FIELD_TEXT, value, 0, 0})
#define BL_LOG_STRING(name, value)  BL_LOG_TEXT(name, bl_text_from(value))
#define BL_LOG_INTEGER(name, value) ((struct bl_log_field){name, BL_FIELD_INTEGER, {0}, value, 0})
#define BL_LOG_NUMBER(name, value)  ((struct bl_log_field){name, BL_FIELD_NUMBER, {0}, 0, value})
#define BL_LOG_BOOLEAN(name, value) ((struct bl_log_field){name, BL_FIELD_BOOLEAN, {0}, value, 0})

struct bl_log_record {
    int64_t wall_ns;
    enum bl_log_room room;
    enum bl_log_level level;
    const char *message;
    const char *place; /* "run_…/turn_…"; empty if unknown */
    const struct bl_log_field *fields;
    size_t field_count;
};

/* The destination of log lines. `write` may be called from any thread. */
struct bl_log_sink {
    void (*write)(void *context, const struct bl_log_record *record);
    void *context;
    const struct bl_clock *clock; /* NULL: the system's clock */
};

/* Sends log lines to a copy of `sink` (NULL discards them). Call it before any thread that logs is
 * started. */
void bl_log_open(const struct bl_log_sink *sink);
/* Sets the level of all rooms ("debug"), of one ("wire=trace"), or a comma-separated list of these,
 * in which later items override earlier ones ("info,proc=trace"). Rooms that are not named are off;
 * NULL and the empty text turn all off. BL_EINVAL: unknown level or room; nothing is changed. */
int bl_log_set_levels(const char *text, struct bl_error *error);
/* Sets the function that fills in the place of a line: it appends the ids of the current work to
 * `out`, outermost first. Set by the fiber room. */
void bl_log_set_place(void (*place)(char *out, size_t out_size));

extern unsigned char bl_log_levels[BL_LOG_ROOM_COUNT];
/* True if a line of this level is to be written. Costs a load and a branch. */
static inline bool bl_log_on(enum bl_log_room room, enum bl_log_level level)
{
    return __builtin_expect(
        __atomic_load_n(&bl_log_levels[room], __ATOMIC_RELAXED) >= (unsigned char)level, 0);
}

void bl_log_write(enum bl_log_room room, enum bl_log_level level, const char *message,
                  const struct bl_log_field *fields, size_t field_count);
/* BL_LOG(BL_ROOM_STORE, BL_LOG_WARNING, "slow sync", BL_LOG_INTEGER("ms", ms), …); at least one
 * field. Fields are evaluated only if the room's level enables the line. */
#define BL_LOG(room, level, message, ...)                                                          \
    do {                                                                                           \
        if (bl_log_on(room, level))                                                                \
            bl_log_write(room, level, message, (const struct bl_log_field[]){__VA_ARGS__},         \
                         BL_COUNT(((const struct bl_log_field[]){__VA_ARGS__})));                  \
    } while (0)
/* Appends the line `time level room message in=place name=value …` and an LF. Values are quoted
 * where necessary. */
int bl_log_format(const struct bl_log_record *record, struct bl_buffer *out);
/* A `write` for a file descriptor: context is (void *)(intptr_t)fd. One write(2) per line. */
void bl_log_write_fd(void *context, const struct bl_log_record *record);
extern const struct bl_names bl_log_level_names, bl_log_room_names;

/* ---- Files ----------------------------------------------------------------------------------- */

/* Reads as much of a small file (in /proc, for example) as fits; returns an empty text if it cannot
 * be read. `path` is relative to the open `directory`, or to the working directory if that is
 * AT_FDCWD. */
struct bl_text bl_file_read(int directory, const char *path, char *out, size_t out_size);
/* Reads a whole regular file into `out`, which this function initialises and the caller frees, also
 * after an error. BL_ENOENT: no such file; BL_EINVAL: not a regular file; BL_ELIMIT: larger than
 * `size_max`; else the system's error. `*ret_why` is then the reason in words. */
int bl_file_load(const char *path, size_t size_max, struct bl_buffer *out, const char **ret_why);
/* Reads an open descriptor, which may be a pipe, to its end; `out` and errors as above. Blocks. */
int bl_descriptor_load(int fd, size_t size_max, struct bl_buffer *out, const char **ret_why);
/* Like bl_file_load, for a file that must be below the folder `root` once all symbolic links are
 * resolved. BL_EREFUSED: it is elsewhere, and nothing was read. */
int bl_file_load_below(const char *root, const char *path, size_t size_max, struct bl_buffer *out,
                       const char **ret_why);
/* Creates a folder and its missing parents. Returns 0 or -errno. */
int bl_folder_make(const char *path, unsigned mode);
/* Creates the parent folder of the file `path` in the same way. */
int bl_folder_make_above(const char *path, unsigned mode);

/* The value of an environment variable; NULL if it is not set or empty. */
const char *bl_variable(const char *name);

/* The user's folders. */
enum bl_user_folder {
    BL_USER_CONFIG,
    BL_USER_DATA,
    BL_USER_STATE,
};

/* Belay's own folder of that kind, in the arena: from its XDG variable if that is absolute, else
 * below HOME. NULL if neither gives a path. `variable` reads a variable; NULL: the environment. */
const char *bl_user_folder(struct bl_arena *arena, enum bl_user_folder which,
                           const char *(*variable)(const char *name));
/* Length of the prefix of `directory` that is the root of its repository; the full length if there
 * is no repository. */
size_t bl_repository_size(struct bl_arena *arena, const char *directory);

/* The version of the library ("0.1.0"). It may be newer than the headers' (BELAY_VERSION in
 * version.h). */
const char *bl_version(void);

/* ---- The runtime folder ---------------------------------------------------------------------- */

/* The folder of sockets and records of running work: $XDG_RUNTIME_DIR/belay, else /tmp/belay-UID.
 * BL_ELIMIT: the path is too long for a socket. */
int bl_runtime_folder(char *out, size_t out_size, struct bl_error *error);
/* Opens the runtime folder; with `create`, makes it if it does not exist (mode 0700). BL_ENOENT: it
 * does not exist; BL_EACCES: it belongs to another user, or other users have access to it. */
int bl_runtime_folder_open(bool create, int *ret_fd, struct bl_error *error);

/* ---- Pattern --------------------------------------------------------------------------------- */

/* A regular expression of the ECMAScript kind (Unicode mode), compiled to a program that runs in
 * time linear in the text, whatever the pattern. Back-references and look-around are not supported
 * and fail with BL_ENOTSUP. Immutable after compiling; may be used from several threads. */
struct bl_pattern;

/* `error` (may be NULL) names the offset and what is wrong. */
int bl_pattern_new(struct bl_text source, struct bl_pattern **ret_pattern, struct bl_error *error);
/* Compiles a pattern that ignores case (ECMAScript's flag i). */
int bl_pattern_new_caseless(struct bl_text source, struct bl_pattern **ret_pattern,
                            struct bl_error *error);
void bl_pattern_free(struct bl_pattern *pattern); /* NULL is fine */
/* True if the pattern matches anywhere in the text, which must be valid UTF-8. */
bool bl_pattern_search(const struct bl_pattern *pattern, struct bl_text text);
/* The same with a budget, for untrusted patterns and texts: each instruction visited takes one from
 * `*steps`. 1: match; 0: no match; BL_ELIMIT: the budget is exhausted. */
int bl_pattern_search_within(const struct bl_pattern *pattern, struct bl_text text,
                             uint64_t *steps);

/* Finds the lines of long texts that a pattern matches. Each line is matched as a separate text,
 * without the LF or CR LF at its end. The finder caches its steps in a few MiB at most, so that
 * most bytes cost one table lookup. One thread at a time; the pattern must outlive the finder. */
struct bl_line_finder;

/* `stopped` (may be NULL): once it is true, the search ends. */
struct bl_line_finder *bl_line_finder_new(const struct bl_pattern *pattern,
                                          const BL_ATOMIC(bool) *stopped);
void bl_line_finder_free(struct bl_line_finder *finder); /* NULL is fine */
/* Finds the first matching line at or after `*offset`, which must be the start of a line, and
 * advances `*offset` to the start of the line after it. Returns false if there is none. */
bool bl_line_finder_next(struct bl_line_finder *finder, struct bl_text text, size_t *offset,
                         struct bl_text *ret_line);

/* ---- A digest -------------------------------------------------------------------------------- */

/* SHA-256 (FIPS 180-4). Embedded by its owner. */
struct bl_sha256 {
    uint32_t state[8];
    uint64_t size;
    uint8_t block[64];
};

void bl_sha256_init(struct bl_sha256 *hash);
void bl_sha256_add(struct bl_sha256 *hash, struct bl_text bytes);
void bl_sha256_end(struct bl_sha256 *hash, uint8_t out[32]);

BL_PUBLIC_END

#endif
