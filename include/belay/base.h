/* base: what every other room stands on.
 *
 * Memory from arenas, text that carries its length, buffers that carry their maximum, lists, maps,
 * one table of errors with detail objects, clock and chance behind a seam, a structured log, UTF-8,
 * and patterns that match in linear time.
 *
 * Promises: nothing here waits, nothing here has global mutable state, and nothing that comes from
 * outside can make it crash or grow without bound. Running out of memory ends the process with a
 * message; everything else that can fail returns 0 or a negative BL_E code. */
#ifndef BELAY_BASE_H
#define BELAY_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Around what a public header declares: names that C++ can link to, and the only ones that the
 * library exports. */
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

/* Words that several threads read and write. C++ has no such type of the same name; there they are
 * the library's own, and only BL_ATOMIC_LOAD looks at them. */
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
/* A state machine's moves: a table has for each state the bits of those that may follow it. */
#define BL_TO(state)                 (1u << (state))
#define BL_MAY_MOVE(moves, from, to) (((moves)[from] >> (to)&1u) != 0)

BL_PUBLIC_BEGIN

/* ---- Text ------------------------------------------------------------------------------------ */

/* A run of bytes with its length. Owns nothing; need not end in NUL; may hold NUL. An empty text
 * has size 0, and its data may be NULL. */
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
/* Copies a string into a field of `size` bytes (not 0), cut at a character; NULL as an empty one.
 */
void bl_text_into(char *out, size_t size, const char *string);
bool bl_text_equal(struct bl_text a, struct bl_text b);
int bl_text_compare(struct bl_text a, struct bl_text b); /* by bytes; shorter first */
bool bl_text_starts_with(struct bl_text text, struct bl_text prefix);
bool bl_text_ends_with(struct bl_text text, struct bl_text suffix);
/* Offset of the first `needle` in `text`, or -1. An empty needle is found at 0. */
ptrdiff_t bl_text_find(struct bl_text text, struct bl_text needle);
/* Without the white space (space, tab, CR, LF, VT, FF) at both ends. */
struct bl_text bl_text_trim(struct bl_text text);
/* Takes what stands before the first `separator` off the front of `*rest` into `*ret_part`; the
 * last part is what is left. False, and an empty part, when nothing is left to take: a separator at
 * the very end closes the last part, and opens no empty one. */
bool bl_text_split(struct bl_text *rest, char separator, struct bl_text *ret_part);
/* The whole text must be a decimal number. BL_EPARSE: it is not one; BL_ERANGE: it does not fit. */
int bl_text_to_int64(struct bl_text text, int64_t *ret_value);

/* The names of an enum's values, by value: one table for JSON, options, help and messages. A NULL
 * among them is a value without a name. */
struct bl_names {
    const char *const *names;
    size_t count;
};

#define BL_NAMES(array)                                                                            \
    {                                                                                              \
        .names = (array), .count = BL_COUNT(array)                                                 \
    }

/* NULL: the value has none. */
const char *bl_names_get(const struct bl_names *names, size_t value);
/* False: no value has that name; `*ret_value` is as it was. */
bool bl_names_find(const struct bl_names *names, struct bl_text name, size_t *ret_value);

/* Insertions, deletions, replacements and swaps of neighbours, by bytes, that make one word of the
 * other; 64 where one of them has more than 64 bytes. */
unsigned bl_text_distance(struct bl_text a, struct bl_text b);

/* Looks for what was meant among names that are offered one by one: one that begins with the word,
 * or the other way about, or that few edits make of it. Embedded by the caller. */
struct bl_suggestion {
    const char *word;
    const char *best; /* one of those offered; NULL: nothing is near */
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
/* Decodes the first code point; returns its length 1..4, or 0 when there is none or it is broken.
 */
size_t bl_utf8_decode(struct bl_text text, uint32_t *ret_code_point);
/* Writes 1..4 bytes; 0 for surrogates and values above U+10FFFF. */
size_t bl_utf8_encode(uint32_t code_point, char out[4]);
/* Longest prefix of at most `size` bytes that does not end inside a sequence. */
struct bl_text bl_utf8_cut(struct bl_text text, size_t size);

/* Code points in a valid text (each stray byte of a broken one counts as one). */
size_t bl_utf8_count(struct bl_text text);

/* Code points that terminals obey or that make a text look like another one: controls of both sets,
 * line and paragraph separators, marks that change the direction of writing, the byte order mark.
 */
bool bl_utf8_unsafe(uint32_t code_point);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* The one table: code, what it means in a sentence. Codes start at -1001, so that a stray -errno is
 * never taken for one. */
#define BL_ERROR_TABLE(X)                                                                          \
    X(BL_ECANCELED, -1001, "stopped")                                                              \
    X(BL_ETIMEDOUT, -1002, "the deadline was reached")                                             \
    X(BL_EINVAL, -1003, "invalid argument")                                                        \
    X(BL_EPARSE, -1004, "not well-formed")                                                         \
    X(BL_ERANGE, -1005, "out of range")                                                            \
    X(BL_ELIMIT, -1006, "over its limit")                                                          \
    X(BL_ENOENT, -1007, "not found")                                                               \
    X(BL_EEXIST, -1008, "exists already")                                                          \
    X(BL_EACCES, -1009, "not permitted")                                                           \
    X(BL_EBUSY, -1010, "in use")                                                                   \
    X(BL_EAGAIN, -1011, "not ready")                                                               \
    X(BL_ECLOSED, -1012, "closed")                                                                 \
    X(BL_EMFILE, -1013, "out of file descriptors")                                                 \
    X(BL_ESTACKS, -1014, "out of fiber stacks")                                                    \
    X(BL_ETHREADS, -1015, "out of threads")                                                        \
    X(BL_EIO, -1016, "input or output failed")                                                     \
    X(BL_ENOSPC, -1017, "no space left")                                                           \
    X(BL_EPIPE, -1018, "the other end is gone")                                                    \
    X(BL_ENOTSUP, -1019, "not available here")                                                     \
    X(BL_ECHILD, -1020, "no such child")                                                           \
    X(BL_ESYSTEM, -1021, "the system refused")                                                     \
    X(BL_EUNKNOWN, -1022, "the outcome is not known")                                              \
    X(BL_EBUDGET, -1023, "over the budget")                                                        \
    X(BL_EREFUSED, -1024, "refused")

enum bl_error_code {
#define BL_ERROR_CODE(name, value, text) name = value,
    BL_ERROR_TABLE(BL_ERROR_CODE)
#undef BL_ERROR_CODE
};

/* What a user is told went wrong: the closed set of the JSON envelope. */
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

/* The detail of one error, attached once, where it is known. Embedded by the caller, owns nothing,
 * allocates nothing; longer texts are cut at a character. code 0: no error. */
struct bl_error {
    int code;
    enum bl_error_kind kind;
    bool retryable;
    char name[24]; /* "code" of the JSON object: finer than the kind; may be empty */
    char operation[48];
    char target[256];
    char message[512];
    char hint[256];
};

const char *bl_error_name(int code); /* "BL_EINVAL"; 0: "no error"; unknown: "unknown error" */
const char *bl_error_text(int code); /* the table's sentence */
extern const struct bl_names bl_error_kinds;
const char *bl_error_kind_name(enum bl_error_kind kind);
int bl_error_from_errno(int system_errno); /* also takes libuv's negative codes */
/* Fills `*error` (NULL: only returns) unless it holds an error already: the first detail stays.
 * Returns `code`, so that a failing function can end in `return bl_error_set(…)`. */
int bl_error_set(struct bl_error *error, int code, enum bl_error_kind kind, const char *operation,
                 const char *target, const char *message_format, ...) BL_PRINTF(6, 7);
/* Adds the hint (what to do). */
void bl_error_hint(struct bl_error *error, const char *format, ...) BL_PRINTF(2, 3);
/* Adds the finer name: "commit_unknown", "overloaded". */
void bl_error_name_set(struct bl_error *error, const char *name);

/* ---- Arena ----------------------------------------------------------------------------------- */

/* Memory that is given back all at once. Embedded by its owner; one thread at a time. A zeroed
 * struct is a valid empty arena. */
struct bl_arena {
    struct bl_arena_chunk *chunk; /* newest first */
    char *next;                   /* free bytes of the newest chunk: [next, end) */
    char *end;
    size_t allocated; /* bytes taken from the system */
};

/* One that ends with its block, on every way out. */
#define BL_AUTO_ARENA(name) __attribute__((cleanup(bl_arena_done))) struct bl_arena name = {0}

/* Where an arena stood, to go back to. */
struct bl_arena_mark {
    struct bl_arena_chunk *chunk;
    char *next;
};

void bl_arena_init(struct bl_arena *arena);
void bl_arena_done(struct bl_arena *arena); /* frees all; the arena is empty and usable again */
/* Keeps the largest chunk, and gives back the rest. */
void bl_arena_reset(struct bl_arena *arena);
struct bl_arena_mark bl_arena_mark(const struct bl_arena *arena);
void bl_arena_rewind(struct bl_arena *arena, struct bl_arena_mark mark);
/* Aligned to 16; never NULL; size 0 gives a unique pointer. Not zeroed. */
void *bl_arena_alloc(struct bl_arena *arena, size_t size);
void *bl_arena_zalloc(struct bl_arena *arena, size_t size); /* zeroed */
/* Makes an allocation of `old_size` hold `new_size` bytes: in place when it is the newest and there
 * is room (also to shrink), else by copying. Returns where it is now. */
void *bl_arena_resize(struct bl_arena *arena, void *memory, size_t old_size, size_t new_size);
/* Copies; a NUL follows the last byte. */
struct bl_text bl_arena_text(struct bl_arena *arena, struct bl_text text);
struct bl_text bl_arena_printf(struct bl_arena *arena, const char *format, ...) BL_PRINTF(2, 3);
struct bl_text bl_arena_vprintf(struct bl_arena *arena, const char *format, va_list arguments)
    BL_PRINTF(2, 0);

/* The heap, for what outlives arenas. Out of memory ends the process with a message. */
void *bl_alloc(size_t size);
void *bl_zalloc(size_t size);
void *bl_realloc(void *memory, size_t size);
void bl_free(void *memory);
BL_NORETURN void bl_out_of_memory(size_t size);

/* ---- Buffer ---------------------------------------------------------------------------------- */

/* A growing run of bytes that carries its maximum. Embedded by its owner. An append that would go
 * over the maximum adds nothing and returns BL_ELIMIT. */
struct bl_buffer {
    char *data;
    size_t size;
    size_t capacity;
    size_t maximum;
};

/* One that ends with its block, on every way out. */
#define BL_AUTO_BUFFER(name, most)                                                                 \
    __attribute__((cleanup(bl_buffer_done))) struct bl_buffer name = {.maximum = (most)}

void bl_buffer_init(struct bl_buffer *buffer, size_t maximum);
void bl_buffer_done(struct bl_buffer *buffer);
void bl_buffer_clear(struct bl_buffer *buffer); /* size 0, memory kept */
/* Room for `size` more bytes at data + size. */
int bl_buffer_reserve(struct bl_buffer *buffer, size_t size);
int bl_buffer_append(struct bl_buffer *buffer, struct bl_text text);
int bl_buffer_append_byte(struct bl_buffer *buffer, char byte);
int bl_buffer_printf(struct bl_buffer *buffer, const char *format, ...) BL_PRINTF(2, 3);
int bl_buffer_vprintf(struct bl_buffer *buffer, const char *format, va_list arguments)
    BL_PRINTF(2, 0);
/* Drops `size` bytes from the front (all of them when there are fewer). */
void bl_buffer_consume(struct bl_buffer *buffer, size_t size);
struct bl_text bl_buffer_text(const struct bl_buffer *buffer);

/* Base64: groups of four, the last of them filled up with '='. */
bool bl_base64_valid(struct bl_text text); /* and not empty */
int bl_base64_encode(struct bl_buffer *out, struct bl_text bytes);
/* False: it is none. */
bool bl_base64_decode(struct bl_arena *arena, struct bl_text text, struct bl_text *ret_bytes);

enum bl_show {
    BL_SHOW_LINE,  /* LF and tab are escaped */
    BL_SHOW_LINES, /* LF and tab stand, and CR LF becomes LF */
};

/* Appends a text of unknown origin so that it can be seen and does nothing: what bl_utf8_unsafe
 * names is escaped (\n, \x1b, \u202e), and a byte that is not UTF-8 becomes U+FFFD. */
int bl_text_show(struct bl_buffer *out, struct bl_text text, enum bl_show form);

/* ---- List ------------------------------------------------------------------------------------ */

/* Doubly linked, circular, embedded: the head is a link too. A link outside any list points to
 * itself, so that removing twice does no harm. */
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

/* First link, taken out; NULL when empty. */
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
/* The visited link may be removed on the way. */
#define BL_LIST_EACH_SAFE(link, head)                                                              \
    for (struct bl_list *link = (head)->next, *link##_next = link->next; link != (head);           \
         link = link##_next, link##_next = link->next)

/* ---- Map ------------------------------------------------------------------------------------- */

/* Text to pointer. Keys are copied; values are the caller's. Walks in the order of insertion, so
 * that what is printed from a map is the same each time. The hash is keyed per map, so that keys
 * from outside cannot be chosen to collide. */
struct bl_map {
    struct bl_map_entry *entries; /* in insertion order, removed ones with key.data NULL */
    uint32_t *slots;              /* index + 1 into entries; 0 free */
    uint32_t slot_count;          /* a power of two, or 0 */
    uint32_t used;                /* entries in use or removed */
    uint32_t count;               /* live ones */
    uint32_t capacity;            /* of entries */
    uint64_t key[2];
};

struct bl_map_entry {
    struct bl_text key; /* ends in NUL besides */
    void *value;
    uint64_t hash;
};

void bl_map_init(struct bl_map *map);
void bl_map_done(struct bl_map *map);
void *bl_map_get(const struct bl_map *map, struct bl_text key); /* NULL: not there */
bool bl_map_has(const struct bl_map *map, struct bl_text key);
/* Sets or replaces; `*ret_old` (may be NULL) is what was there, or NULL. */
void bl_map_set(struct bl_map *map, struct bl_text key, void *value, void **ret_old);
void *bl_map_remove(struct bl_map *map, struct bl_text key); /* what was there, or NULL */
/* Next live entry at or after `*position`; NULL at the end. Removing the visited entry is allowed.
 */
struct bl_map_entry *bl_map_next(const struct bl_map *map, uint32_t *position);
#define BL_MAP_EACH(entry, map)                                                                    \
    for (uint32_t entry##_position = 0, entry##_go = 1; entry##_go; entry##_go = 0)                \
        for (struct bl_map_entry * entry; (entry = bl_map_next(map, &entry##_position)) != NULL;)

/* Keyed hash of bytes (SipHash-1-3). */
uint64_t bl_hash(const uint64_t key[2], struct bl_text text);

/* ---- Clock, durations, chance ---------------------------------------------------------------- */

#define BL_NS_PER_US 1000ull
#define BL_NS_PER_MS 1000000ull
#define BL_NS_PER_S  1000000000ull
/* "No deadline", and the end of all clocks. */
#define BL_NEVER UINT64_MAX

/* The seam: everything that asks for the time asks one of these. `monotonic_ns` must be safe to
 * call from any thread and from a signal handler. */
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

/* "2026-11-15T18:50:07.123Z"; `out` needs 25 bytes. */
void bl_time_format(int64_t wall_ns, char out[32]);
/* Such a time, with any number of decimals or none. False: it is not one, or not in 1678 to
 * 2261. */
bool bl_time_parse(struct bl_text text, int64_t *ret_wall_ns);
/* `90`, `90s`, `500ms`, `2.5m`, `1h`; no sign but a leading minus, no space inside. The result may
 * be zero or negative (callers decide what that means). BL_EPARSE: not a duration; BL_ERANGE: not
 * finite, negative zero, or beyond 100 years. `error` (may be NULL) says what and what to do. */
int bl_duration_parse(struct bl_text text, int64_t *ret_ns, struct bl_error *error);
/* The same limits for a number of seconds. */
int bl_duration_from_seconds(double seconds, int64_t *ret_ns, struct bl_error *error);
/* Short form for people: "206 ms", "1.5 s", "4 m 10 s"; `out` needs 32 bytes. */
void bl_duration_format(int64_t ns, char out[32]);

/* Chance from a seed (xoshiro256**): the same seed gives the same run. Not for secrets. */
struct bl_random {
    uint64_t state[4];
};

void bl_random_seed(struct bl_random *random, uint64_t seed);
uint64_t bl_random_next(struct bl_random *random);
uint64_t bl_random_below(struct bl_random *random, uint64_t limit); /* unbiased; limit > 0 */
/* Bytes for secrets and ids, from the system. */
void bl_random_bytes(void *out, size_t size);
/* An id that nobody has: the prefix (at most 11 bytes: "turn_") and 20 of [a-z2-7]. */
#define BL_ID_SIZE 32
void bl_id_make(char out[BL_ID_SIZE], const char *prefix);

/* ---- Log ------------------------------------------------------------------------------------- */

/* A process has one log: one line for each decision, off until the program switches it on. Lines
 * hold ids, names, numbers and codes; never a key, a header, the text of a prompt or an answer, an
 * argument of a command, or the value of a variable of the environment. */

#define BL_LOG_LEVEL_TABLE(X)                                                                      \
    X(BL_LOG_OFF, "off")                                                                           \
    X(BL_LOG_ERROR, "error")     /* a bug, or a loss */                                            \
    X(BL_LOG_WARNING, "warning") /* something failed, and the work goes on */                      \
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
    int64_t integer; /* booleans too */
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
    const char *place; /* "run_…/turn_…"; empty: not known */
    const struct bl_log_field *fields;
    size_t field_count;
};

/* Where lines go. `write` may be called from any thread. */
struct bl_log_sink {
    void (*write)(void *context, const struct bl_log_record *record);
    void *context;
    const struct bl_clock *clock; /* NULL: the system's */
};

/* Sends the lines to a copy of `sink` (NULL: nowhere). Before the threads that log are started. */
void bl_log_open(const struct bl_log_sink *sink);
/* Sets the level of all rooms ("debug"), of one ("wire=trace"), or several with commas between
 * them, where the last one counts ("info,proc=trace"); all others are off. NULL and empty: all off.
 * BL_EINVAL: unknown level or room; `error` says what is expected, and nothing has changed. */
int bl_log_set_levels(const char *text, struct bl_error *error);
/* How a line knows where it was written: appends ids to `out`, outermost first. Set by fiber. */
void bl_log_set_place(void (*place)(char *out, size_t out_size));

extern unsigned char bl_log_levels[BL_LOG_ROOM_COUNT];
/* A load and a branch. */
static inline bool bl_log_on(enum bl_log_room room, enum bl_log_level level)
{
    return __builtin_expect(
        __atomic_load_n(&bl_log_levels[room], __ATOMIC_RELAXED) >= (unsigned char)level, 0);
}

void bl_log_write(enum bl_log_room room, enum bl_log_level level, const char *message,
                  const struct bl_log_field *fields, size_t field_count);
/* BL_LOG(BL_ROOM_STORE, BL_LOG_WARNING, "slow sync", BL_LOG_INTEGER("ms", ms), …); at least one
 * field. Fields are evaluated only where the room's level asks for the line. */
#define BL_LOG(room, level, message, ...)                                                          \
    do {                                                                                           \
        if (bl_log_on(room, level))                                                                \
            bl_log_write(room, level, message, (const struct bl_log_field[]){__VA_ARGS__},         \
                         BL_COUNT(((const struct bl_log_field[]){__VA_ARGS__})));                  \
    } while (0)
/* One line of `time level room message in=place name=value …`, values quoted where they need it,
 * ends in LF. */
int bl_log_format(const struct bl_log_record *record, struct bl_buffer *out);
/* A `write` for a file descriptor: context is (void *)(intptr_t)fd. One write(2) a line. */
void bl_log_write_fd(void *context, const struct bl_log_record *record);
extern const struct bl_names bl_log_level_names, bl_log_room_names;

/* ---- Files ----------------------------------------------------------------------------------- */

/* As much of a small file (of /proc, say) as fits; nothing when it cannot be read. `path` is
 * relative to the open `directory`, or to ours with AT_FDCWD. */
struct bl_text bl_file_read(int directory, const char *path, char *out, size_t out_size);
/* All of a regular file into `out`, which is made here, and done with by the caller, also after an
 * error. BL_ENOENT: it is not there; BL_EINVAL: it is no regular file; BL_ELIMIT: it is larger than
 * that; else what the system said. `*ret_why` then says it in words. */
int bl_file_load(const char *path, size_t size_max, struct bl_buffer *out, const char **ret_why);
/* All that an open descriptor gives, which may be a pipe; `out` and the errors as above. Blocks. */
int bl_descriptor_load(int fd, size_t size_max, struct bl_buffer *out, const char **ret_why);
/* bl_file_load of a file that, after all symbolic links, lies below the folder `root`. BL_EREFUSED: it
 * lies elsewhere, and nothing was read. */
int bl_file_load_below(const char *root, const char *path, size_t size_max, struct bl_buffer *out,
                       const char **ret_why);
/* Makes a folder, and those above it that are not there. 0, or -errno. */
int bl_folder_make(const char *path, unsigned mode);
/* The same, of the folder that a file is to be in. */
int bl_folder_make_above(const char *path, unsigned mode);

/* The value of an environment variable; NULL: not set, or empty. */
const char *bl_variable(const char *name);

/* Folders of the user's own. */
enum bl_user_folder {
    BL_USER_CONFIG,
    BL_USER_DATA,
    BL_USER_STATE,
};

/* The one of belay's things: by its XDG variable if that is absolute, else below HOME; in the
 * arena. NULL: neither says where. `variable` NULL: those of the environment. */
const char *bl_user_folder(struct bl_arena *arena, enum bl_user_folder which,
                           const char *(*variable)(const char *name));
/* Size of the part of `directory` that is the root of its repository; all of it without one. */
size_t bl_repository_size(struct bl_arena *arena, const char *directory);

/* "0.1.0": of the library, which may be newer than the headers (BELAY_VERSION in version.h). */
const char *bl_version(void);

/* ---- The runtime folder ---------------------------------------------------------------------- */

/* $XDG_RUNTIME_DIR/belay, else /tmp/belay-UID: where sockets and records of running work are.
 * BL_ELIMIT: the name is longer than a socket's may be. */
int bl_runtime_folder(char *out, size_t out_size, struct bl_error *error);
/* Opens it; `create`: made if it is not there (0700). BL_ENOENT: it is not; BL_EACCES: it is not
 * ours, or others may look into it. */
int bl_runtime_folder_open(bool create, int *ret_fd, struct bl_error *error);

/* ---- Pattern --------------------------------------------------------------------------------- */

/* A regular expression of the ECMAScript kind (Unicode mode), compiled to a program that runs in
 * time linear in the text, whatever the pattern. Not supported, and said so by BL_ENOTSUP:
 * back-references and look-around. Immutable after compiling; may be used from several threads. */
struct bl_pattern;

/* `error` (may be NULL) names the offset and what is wrong. */
int bl_pattern_new(struct bl_text source, struct bl_pattern **ret_pattern, struct bl_error *error);
/* The same for a pattern to which the two cases of a letter are alike (ECMAScript's flag i). */
int bl_pattern_new_caseless(struct bl_text source, struct bl_pattern **ret_pattern,
                            struct bl_error *error);
void bl_pattern_free(struct bl_pattern *pattern); /* NULL is fine */
/* True when it matches anywhere in the (valid UTF-8) text. */
bool bl_pattern_search(const struct bl_pattern *pattern, struct bl_text text);
/* The same with a budget, for patterns and texts that are both from outside: each instruction
 * looked at takes one from `*steps`. 1: it matches; 0: it does not; BL_ELIMIT: the budget did not
 * suffice. */
int bl_pattern_search_within(const struct bl_pattern *pattern, struct bl_text text,
                             uint64_t *steps);

/* Finds those lines of long texts that a pattern matches, each line as a text of its own, without
 * the LF or CR LF at its end. Remembers what it has met, in a few MiB at most, so that most bytes
 * cost one look into a table. One thread at a time; the pattern outlives it. */
struct bl_line_finder;

/* `stopped` (may be NULL): once it is true nothing more is found. */
struct bl_line_finder *bl_line_finder_new(const struct bl_pattern *pattern,
                                          const BL_ATOMIC(bool) *stopped);
void bl_line_finder_free(struct bl_line_finder *finder); /* NULL is fine */
/* The first line at or after `*offset`, where a line begins, that matches. `*offset` is then where
 * the next line begins. False: there is none. */
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
