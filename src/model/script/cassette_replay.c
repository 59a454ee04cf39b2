/* Design notes.
 *
 * A request matches a recorded one if their bodies are equal as JSON, except for what differs from
 * run to run: ids (the first id of one body corresponds to the first of the other, and so on), keys
 * of caches and users, and text that the recorder removed, which matches anything. */
#include <stdio.h>
#include <strings.h>

#include "cassette.h"

#define EXCERPT_SIZE 64u
#define POINTER_MAX  4096u

struct cassette_play {
    const struct cassette_exchange *exchange;
    size_t next; /* piece */
};

/* Two bodies being compared. */
struct comparing {
    struct bl_buffer path;      /* the current position: a JSON pointer */
    struct bl_map recorded_ids; /* mapped to ids of the other body */
    struct bl_map asked_ids;
    struct bl_arena arena;
    uint64_t equal;                  /* scalars before the first difference */
    const struct bl_json *differing; /* on record; NULL if missing */
};

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Returns whether `asked` equals `recorded`, where each [removed] matches anything. */
static bool text_matches(struct bl_text recorded, struct bl_text asked)
{
    static const struct bl_text mark = {CASSETTE_REMOVED, sizeof CASSETTE_REMOVED - 1};
    ptrdiff_t found = bl_text_find(recorded, mark);

    if (found < 0)
        return bl_text_equal(recorded, asked);
    struct bl_text part = {recorded.data, (size_t)found};
    if (!bl_text_starts_with(asked, part))
        return false;
    asked = (struct bl_text){asked.data + part.size, asked.size - part.size};
    for (;;) {
        recorded = (struct bl_text){recorded.data + found + mark.size,
                                    recorded.size - (size_t)found - mark.size};
        found = bl_text_find(recorded, mark);
        if (found < 0)
            return bl_text_ends_with(asked, recorded);
        part = (struct bl_text){recorded.data, (size_t)found};
        ptrdiff_t at = bl_text_find(asked, part);
        if (at < 0)
            return false;
        asked = (struct bl_text){asked.data + at + part.size, asked.size - (size_t)at - part.size};
    }
}

/* Pairs ids in order of appearance; each matches only its partner. */
static bool ids_match(struct comparing *comparing, struct bl_text recorded, struct bl_text asked)
{
    const struct bl_text *pair = bl_map_get(&comparing->recorded_ids, recorded);

    if (pair != NULL)
        return bl_text_equal(*pair, asked);
    if (bl_map_has(&comparing->asked_ids, asked))
        return false;
    struct bl_text *copy = bl_arena_alloc(&comparing->arena, sizeof *copy);
    *copy = asked;
    bl_map_set(&comparing->recorded_ids, recorded, copy, NULL);
    bl_map_set(&comparing->asked_ids, asked, copy, NULL);
    return true;
}

static bool cassette_replay_is_one_of(struct bl_text key, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (bl_text_equal(key, bl_text_from(*names)))
            return true;
    }
    return false;
}

static bool cassette_replay_is_id(struct bl_text key)
{
    static const char *const names[] = {"id",          "call_id", "tool_call_id",
                                        "tool_use_id", "item_id", NULL};
    return cassette_replay_is_one_of(key, names);
}

/* Members of a request that do not influence the answer. */
static bool is_aside(struct bl_text key)
{
    static const char *const names[] = {"prompt_cache_key", "safety_identifier", "user", "metadata",
                                        NULL};
    return cassette_replay_is_one_of(key, names);
}

/* Arguments and parameter schemas of tools: ids in them are not ours. */
static bool is_literal(struct bl_text key, const struct bl_json *value)
{
    static const char *const names[] = {"input", "arguments", "input_schema", "parameters", NULL};
    return bl_json_is(value, BL_JSON_OBJECT) && cassette_replay_is_one_of(key, names);
}

/* ---- Trees ----------------------------------------------------------------------------------- */

static bool cassette_replay_compare(struct comparing *comparing, const struct bl_json *recorded,
                                    const struct bl_json *asked, struct bl_text key, bool literal);

static void cassette_replay_push(struct comparing *comparing, struct bl_text name)
{
    bl_buffer_append_byte(&comparing->path, '/');
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] == '~')
            bl_buffer_append(&comparing->path, BL_TEXT("~0"));
        else if (name.data[i] == '/')
            bl_buffer_append(&comparing->path, BL_TEXT("~1"));
        else
            bl_buffer_append_byte(&comparing->path, name.data[i]);
    }
}

static bool differ(struct comparing *comparing, const struct bl_json *recorded)
{
    comparing->differing = recorded;
    return false;
}

static bool compare_objects(struct comparing *comparing, const struct bl_json *recorded,
                            const struct bl_json *asked, bool literal)
{
    size_t above = comparing->path.size;

    BL_JSON_MEMBERS (key, recorded) {
        struct bl_text name = bl_json_text(key);
        const struct bl_json *other = bl_json_get(asked, name);
        if (above == 0 && is_aside(name))
            continue;
        cassette_replay_push(comparing, name);
        if (other == NULL)
            return differ(comparing, key + 1);
        if (!cassette_replay_compare(comparing, key + 1, other, name,
                                     literal || is_literal(name, key + 1)))
            return false;
        comparing->path.size = above;
    }
    BL_JSON_MEMBERS (key, asked) {
        struct bl_text name = bl_json_text(key);
        if ((above == 0 && is_aside(name)) || bl_json_get(recorded, name) != NULL)
            continue;
        cassette_replay_push(comparing, name);
        return differ(comparing, NULL);
    }
    return true;
}

static bool compare_arrays(struct comparing *comparing, const struct bl_json *recorded,
                           const struct bl_json *asked, bool literal)
{
    const struct bl_json *other = bl_json_first(asked, BL_JSON_ARRAY);
    size_t above = comparing->path.size, index = 0;

    BL_JSON_EACH (element, recorded) {
        bl_buffer_printf(&comparing->path, "/%zu", index++);
        if (other->type == BL_JSON_END)
            return differ(comparing, element);
        if (!cassette_replay_compare(comparing, element, other, BL_TEXT(""), literal))
            return false;
        other = bl_json_next(other);
        comparing->path.size = above;
    }
    if (other->type == BL_JSON_END)
        return true;
    bl_buffer_printf(&comparing->path, "/%zu", index);
    return differ(comparing, NULL);
}

static bool compare_strings(struct comparing *comparing, const struct bl_json *recorded,
                            const struct bl_json *asked, struct bl_text key, bool literal)
{
    struct bl_text text = bl_json_text(recorded);

    if (!bl_json_is(asked, BL_JSON_STRING))
        return bl_text_equal(text, BL_TEXT(CASSETTE_REMOVED)) && bl_json_size(asked) == 0;
    if (!literal && cassette_replay_is_id(key))
        return ids_match(comparing, text, bl_json_text(asked));
    return text_matches(text, bl_json_text(asked));
}

/* Returns whether both are equal, except for what may differ; otherwise `differing` and the path
 * have the position. Recurses to the depth of the JSON, which the reader limits. */
static bool cassette_replay_compare(struct comparing *comparing, const struct bl_json *recorded,
                                    const struct bl_json *asked, struct bl_text key, bool literal)
{
    bool same;

    if (bl_json_is(recorded, BL_JSON_OBJECT) && bl_json_is(asked, BL_JSON_OBJECT))
        return compare_objects(comparing, recorded, asked, literal);
    if (bl_json_is(recorded, BL_JSON_ARRAY) && bl_json_is(asked, BL_JSON_ARRAY))
        return compare_arrays(comparing, recorded, asked, literal);
    if (bl_json_is(recorded, BL_JSON_STRING))
        same = compare_strings(comparing, recorded, asked, key, literal);
    else
        same = bl_json_equal(recorded, asked);
    if (!same)
        return differ(comparing, recorded);
    comparing->equal++;
    return true;
}

/* ---- Finding --------------------------------------------------------------------------------- */

/* The nearest exchange that does not match. */
struct nearest {
    const struct cassette_exchange *exchange; /* NULL if no exchange matches the address */
    uint64_t equal;
    char path[200];
    char recorded[EXCERPT_SIZE + 8];
};

/* Writes an excerpt of the recorded value; unlike the request, it contains no secrets. */
static void cassette_replay_show(const struct bl_json *value, char out[EXCERPT_SIZE + 8])
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(text, CASSETTE_SIZE_MAX);

    out[0] = '\0';
    if (value == NULL)
        return;
    bl_json_writer_init(&writer, &text);
    bl_json_write_value(&writer, value);
    struct bl_text shown = bl_utf8_cut(bl_buffer_text(&text), EXCERPT_SIZE);
    snprintf(out, EXCERPT_SIZE + 8, BL_TEXT_FORMAT "%s", BL_TEXT_ARG(shown),
             shown.size < text.size ? "\u2026" : "");
}

static bool fits_body(const struct cassette_exchange *exchange, const struct bl_json *body,
                      struct bl_text text, struct nearest *nearest)
{
    struct comparing comparing = {0};
    bool fits;

    bl_buffer_init(&comparing.path, POINTER_MAX);
    bl_map_init(&comparing.recorded_ids);
    bl_map_init(&comparing.asked_ids);
    if (body != NULL && exchange->body != NULL)
        fits = cassette_replay_compare(&comparing, exchange->body, body, BL_TEXT(""), false);
    else
        fits = body == NULL && exchange->body == NULL && text_matches(exchange->body_text, text);
    if (!fits && (nearest->exchange == NULL || comparing.equal > nearest->equal)) {
        nearest->exchange = exchange;
        nearest->equal = comparing.equal;
        if (comparing.path.size == POINTER_MAX)
            comparing.path.size--;
        bl_buffer_append_byte(&comparing.path, '\0');
        bl_text_into(nearest->path, sizeof nearest->path, comparing.path.data);
        cassette_replay_show(comparing.differing, nearest->recorded);
    }
    bl_map_done(&comparing.recorded_ids);
    bl_map_done(&comparing.asked_ids);
    bl_buffer_done(&comparing.path);
    bl_arena_done(&comparing.arena);
    return fits;
}

static struct cassette_exchange *cassette_replay_find(struct bl_cassette *cassette,
                                                      const char *method, const char *path,
                                                      const struct bl_json *body,
                                                      struct bl_text text, struct nearest *nearest,
                                                      size_t *ret_left)
{
    for (size_t i = 0; i < cassette->exchange_count; i++) {
        struct cassette_exchange *exchange = &cassette->exchanges[i];
        if (exchange->used)
            continue;
        ++*ret_left;
        if (!bl_text_equal(exchange->method, bl_text_from(method)) ||
            !text_matches(exchange->path, bl_text_from(path)))
            continue;
        if (fits_body(exchange, body, text, nearest))
            return exchange;
    }
    return NULL;
}

static int fail_no_match(const struct bl_cassette *cassette, const char *method, const char *path,
                         const struct nearest *nearest, size_t left, struct bl_error *error)
{
    const char *torn = cassette->torn ? "; the last line of the cassette is torn, and its exchange "
                                        "is lost"
                                      : "";
    int result;

    if (nearest->exchange != NULL && nearest->recorded[0] != '\0')
        result =
            bl_error_set(error, BL_ENOENT, BL_KIND_PROVIDER, "replay the cassette", cassette->path,
                         "no recorded exchange matches: the nearest (line %zu) differs at %s, "
                         "where it has %s%s",
                         nearest->exchange->line, nearest->path, nearest->recorded, torn);
    else if (nearest->exchange != NULL)
        result = bl_error_set(
            error, BL_ENOENT, BL_KIND_PROVIDER, "replay the cassette", cassette->path,
            "no recorded exchange matches: the nearest (line %zu) differs at %s, where it has "
            "nothing%s",
            nearest->exchange->line, nearest->path[0] != '\0' ? nearest->path : "its body", torn);
    else if (left == 0)
        result =
            bl_error_set(error, BL_ENOENT, BL_KIND_PROVIDER, "replay the cassette", cassette->path,
                         "all %zu recorded exchanges are used%s", cassette->exchange_count, torn);
    else
        result =
            bl_error_set(error, BL_ENOENT, BL_KIND_PROVIDER, "replay the cassette", cassette->path,
                         "no recorded exchange is for %s %s%s", method, path, torn);
    bl_error_name_set(error, "no_match");
    bl_error_hint(error, "repeat the recorded run (prompt, model, tools, instructions), or "
                         "record it again with --record");
    return result;
}

int cassette_play_find(struct bl_cassette *cassette, const char *method, const char *path,
                       struct bl_text body, struct cassette_play **ret_play, struct bl_error *error)
{
    const struct bl_json *value = NULL;
    struct nearest nearest = {0};
    struct bl_arena arena;
    size_t left = 0;

    bl_arena_init(&arena);
    if (bl_json_read(&arena, body, NULL, &value, NULL) != 0)
        value = NULL;
    struct cassette_exchange *exchange =
        cassette_replay_find(cassette, method, path, value, body, &nearest, &left);
    bl_arena_done(&arena);
    if (exchange == NULL)
        return fail_no_match(cassette, method, path, &nearest, left, error);
    exchange->used = true;
    struct cassette_play *play = bl_zalloc(sizeof *play);
    play->exchange = exchange;
    *ret_play = play;
    return 0;
}

/* ---- Playing --------------------------------------------------------------------------------- */

int cassette_play_status(const struct cassette_play *play)
{
    return play->exchange->status;
}

struct bl_text cassette_play_header(const struct cassette_play *play, const char *name)
{
    BL_JSON_MEMBERS (key, play->exchange->headers) {
        if (strcasecmp(key->string, name) == 0)
            return bl_json_text(key + 1);
    }
    return (struct bl_text){0};
}

/* Returns a constant, so that the failure outlives the cassette. */
static const char *cassette_replay_code_of(struct bl_text end)
{
    size_t index;

    return bl_names_find(&model_failure_codes, end, &index)
               ? bl_names_get(&model_failure_codes, index)
               : "stream_cut";
}

bool cassette_play_next(struct cassette_play *play, struct bl_text *ret_bytes,
                        struct bl_wire_failure *ret_failure)
{
    const struct cassette_exchange *exchange = play->exchange;

    if (play->next < exchange->piece_count) {
        *ret_bytes = exchange->pieces[play->next++].text;
        return true;
    }
    *ret_bytes = (struct bl_text){0};
    *ret_failure = (struct bl_wire_failure){0};
    if (bl_text_equal(exchange->end, BL_TEXT("end")))
        return false;
    ret_failure->code = cassette_replay_code_of(exchange->end);
    ret_failure->timed_out = exchange->timed_out;
    bl_text_into(ret_failure->message, sizeof ret_failure->message,
                 bl_text_equal(exchange->end, BL_TEXT("cut")) ? "the recording was cut off here"
                                                              : exchange->message.data);
    return false;
}

void cassette_play_free(struct cassette_play *play)
{
    bl_free(play);
}
