#include <ctype.h>
#include <inttypes.h>
#include <math.h>

#include <belay/value.h>

#include "feature/verdict/verdict.h"

#define LIST_MAX   10000u /* entries of a list in a result */
#define CLAIMS_MAX 100u   /* issues of claims that do not hold */
#define TOKENS_MAX ((int64_t)1 << 53)

/* ---- Finding it ------------------------------------------------------------------------------ */

/* A line of backticks or tildes, and what stands behind them. */
struct fence {
    char mark;
    size_t size; /* 0: the line is none */
    struct bl_text info;
};

static struct fence read_fence(struct bl_text line)
{
    struct fence fence = {0};
    line = bl_text_trim(line);
    if (line.size == 0 || (line.data[0] != '`' && line.data[0] != '~'))
        return fence;
    fence.mark = line.data[0];
    while (fence.size < line.size && line.data[fence.size] == fence.mark)
        fence.size++;
    fence.info = bl_text_trim((struct bl_text){line.data + fence.size, line.size - fence.size});
    /* Three are a fence; code within a line has its end there. */
    if (fence.size < 3 || memchr(fence.info.data, '`', fence.info.size) != NULL)
        fence.size = 0;
    return fence;
}

static bool is_json(struct bl_text info)
{
    size_t size = 0;
    while (size < info.size && !isspace((unsigned char)info.data[size]))
        size++;
    return size == 4 && tolower((unsigned char)info.data[0]) == 'j' &&
           tolower((unsigned char)info.data[1]) == 's' &&
           tolower((unsigned char)info.data[2]) == 'o' &&
           tolower((unsigned char)info.data[3]) == 'n';
}

/* The last block that is fenced as json; one that is not closed goes to the end. A fence of other
 * text that nobody closed does not hide it; one that is longer holds it as its text. */
static struct bl_text player_result_find_block(struct bl_text output)
{
    struct bl_text rest = output, line, block = {0};
    struct fence open = {0};
    const char *begin = NULL; /* of the block that is open, when it is one of JSON */
    while (bl_text_split(&rest, '\n', &line)) {
        struct fence fence = read_fence(line);
        if (fence.size == 0)
            continue;
        bool closes = open.size > 0 && fence.mark == open.mark && fence.size >= open.size &&
                      fence.info.size == 0;
        bool inside = open.size > fence.size || (open.size > 0 && !is_json(fence.info));
        if (closes) {
            if (begin != NULL)
                block = (struct bl_text){begin, (size_t)(line.data - begin)};
            open.size = 0;
            begin = NULL;
        } else if (!inside) {
            open = fence;
            begin = is_json(fence.info) ? line.data + line.size : NULL;
        }
    }
    if (begin != NULL)
        block = (struct bl_text){begin, (size_t)(output.data + output.size - begin)};
    return bl_text_trim(block);
}

static bool player_result_is_object(struct bl_text text)
{
    const struct bl_json *value;
    BL_AUTO_ARENA(arena);
    if (text.size < 2 || text.data[0] != '{' || text.data[text.size - 1] != '}')
        return false;
    return bl_json_read(&arena, text, NULL, &value, NULL) == 0;
}

struct bl_text result_find(struct bl_text output)
{
    struct bl_text block = player_result_find_block(output);
    if (block.size > 0)
        return block;
    output = bl_text_trim(output);
    return player_result_is_object(output) ? output : (struct bl_text){0};
}

/* ---- Reading it ------------------------------------------------------------------------------ */

/* A result while it is read: the first problem is told. */
struct reader {
    struct bl_arena *arena;
    struct bl_text problem;
};

static bool has_problem(const struct reader *reader)
{
    return reader->problem.size > 0;
}

static void wrong(struct reader *reader, const char *key, const char *wanted,
                  const struct bl_json *value)
{
    if (!has_problem(reader))
        reader->problem = bl_arena_printf(reader->arena, "'%s' must be %s, is %s", key, wanted,
                                          bl_value_type(value));
}

/* NULL: it is not there, null, or false. */
static const struct bl_json *given(const struct bl_json *object, const char *key)
{
    const struct bl_json *value = bl_json_get(object, bl_text_from(key));
    bool is = value != NULL && !bl_json_is(value, BL_JSON_NULL) &&
              !(bl_json_is(value, BL_JSON_BOOLEAN) && !bl_json_boolean(value, true));
    return is ? value : NULL;
}

static const struct bl_json *player_result_read_object(struct reader *reader,
                                                       const struct bl_json *object,
                                                       const char *key)
{
    const struct bl_json *value = given(object, key);
    if (value == NULL || bl_json_is(value, BL_JSON_OBJECT))
        return value;
    wrong(reader, key, "an object", value);
    return NULL;
}

static struct bl_text player_result_read_text(struct reader *reader, const struct bl_json *object,
                                              const char *key)
{
    const struct bl_json *value = given(object, key);
    if (value != NULL && !bl_json_is(value, BL_JSON_STRING))
        wrong(reader, key, "text", value);
    return bl_json_text(value);
}

static const char *const *player_result_read_list(struct reader *reader,
                                                  const struct bl_json *object, const char *key)
{
    const struct bl_json *list = given(object, key);
    size_t count = 0, size = bl_json_is(list, BL_JSON_ARRAY) ? bl_json_size(list) : 0;
    if (list != NULL && !bl_json_is(list, BL_JSON_ARRAY))
        wrong(reader, key, "a list of texts", list);
    if (size > LIST_MAX && !has_problem(reader))
        reader->problem =
            bl_arena_printf(reader->arena, "'%s' has more than %u entries", key, LIST_MAX);
    size = has_problem(reader) ? 0 : size;
    const char **texts = bl_arena_zalloc(reader->arena, (size + 1) * sizeof *texts);
    if (size == 0)
        return texts;
    BL_JSON_EACH (value, list) {
        struct bl_text text = bl_json_text(value);
        if (!bl_json_is(value, BL_JSON_STRING) || strlen(text.data) != text.size) {
            wrong(reader, key, "a list of texts without NUL", value);
            return texts;
        }
        texts[count++] = text.data;
    }
    return texts;
}

/* True or false, or a number of them. */
static double read_amount(struct reader *reader, const struct bl_json *object, const char *key)
{
    const struct bl_json *value = given(object, key);
    double number = 0;
    if (value == NULL)
        return 0;
    if (bl_json_is(value, BL_JSON_BOOLEAN))
        return 1;
    if (!bl_json_double(value, &number) || number < 0)
        wrong(reader, key, "true, false or a number", value);
    return number;
}

/* False: it is missing. */
static bool read_tokens(struct reader *reader, const struct bl_json *usage, const char *key,
                        uint64_t *ret_tokens)
{
    const struct bl_json *value = given(usage, key);
    int64_t number;
    if (value == NULL)
        return false;
    if (!bl_json_int64(value, &number) || number < 0 || number > TOKENS_MAX) {
        wrong(reader, key, "a number of tokens", value);
        return false;
    }
    *ret_tokens = (uint64_t)number;
    return true;
}

static void player_result_read_usage(struct reader *reader, const struct bl_json *object,
                                     struct player_result *result)
{
    const struct bl_json *usage = player_result_read_object(reader, object, "usage");
    const struct bl_json *cost = given(usage, "cost_usd");
    struct bl_spent *spent = &result->spent;
    bool input = read_tokens(reader, usage, "input_tokens", &spent->usage.input_tokens);
    bool output = read_tokens(reader, usage, "output_tokens", &spent->usage.output_tokens);
    if (cost != NULL && (!bl_json_double(cost, &spent->cost_usd) || !isfinite(spent->cost_usd) ||
                         spent->cost_usd < 0)) {
        wrong(reader, "cost_usd", "an amount, not below 0", cost);
        spent->cost_usd = 0;
    }
    spent->cost_usd_max = spent->cost_usd;
    spent->cost_unknown = cost == NULL;
    result->usage_known = input || output || cost != NULL;
}

static void player_result_read_members(struct reader *reader, const struct bl_json *object,
                                       struct player_result *result)
{
    const struct bl_json *tests = player_result_read_object(reader, object, "tests");
    const struct bl_json *blocked = player_result_read_object(reader, object, "blocked");
    result->summary = player_result_read_text(reader, object, "summary");
    result->done = player_result_read_list(reader, object, "done");
    result->not_done = player_result_read_list(reader, object, "not_done");
    result->files = player_result_read_list(reader, object, "files");
    double ran = read_amount(reader, tests, "ran"), passed = read_amount(reader, tests, "passed");
    /* `ran` may be a number where `passed` is only said to be true. */
    bool all = bl_json_is(given(tests, "passed"), BL_JSON_BOOLEAN) || passed >= ran;
    result->tests_claimed = ran > 0 && passed > 0 && all;
    result->blocked = blocked != NULL;
    result->blocked_reason = player_result_read_text(reader, blocked, "reason");
    result->blocked_needs = player_result_read_text(reader, blocked, "needs");
    player_result_read_usage(reader, object, result);
}

static const char *const no_texts[] = {NULL};

static void player_read_result(struct reader *reader, struct bl_text text,
                               struct player_result *result)
{
    const struct bl_json_limits limits = {.size_max = VERDICT_SIZE_MAX};
    const struct bl_json *object;
    struct bl_json_fault fault;
    char where[320];
    if (text.size > VERDICT_SIZE_MAX) {
        reader->problem =
            bl_arena_printf(reader->arena, "it is %zu bytes long; at most %zu are taken", text.size,
                            VERDICT_SIZE_MAX);
    } else if (bl_json_read(reader->arena, text, &limits, &object, &fault) != 0) {
        bl_json_fault_text(&fault, where, sizeof where);
        reader->problem = bl_arena_printf(reader->arena, "it is not one JSON object: %s", where);
    } else if (!bl_json_is(object, BL_JSON_OBJECT)) {
        reader->problem = bl_arena_printf(reader->arena, "it is not one JSON object, but %s",
                                          bl_value_type(object));
    } else {
        player_result_read_members(reader, object, result);
        result->given = true;
        result->json = bl_json_value_text(reader->arena, object); /* events are lines */
    }
}

void player_result_parse(struct bl_arena *arena, struct bl_text text,
                         struct player_result *ret_result, struct bl_text *ret_problem)
{
    const struct player_result none = {.done = no_texts, .not_done = no_texts, .files = no_texts};
    struct reader reader = {.arena = arena};
    struct bl_text found = result_find(text);
    *ret_result = none;
    *ret_problem = (struct bl_text){0};
    found = bl_text_trim(found.size > 0 ? found : text);
    if (found.size == 0)
        return;
    player_read_result(&reader, found, ret_result);
    if (!has_problem(&reader))
        return;
    *ret_result = none;
    *ret_problem = bl_arena_printf(arena, "The Player's result was not taken: " BL_TEXT_FORMAT,
                                   BL_TEXT_ARG(reader.problem));
}

/* ---- Claims ---------------------------------------------------------------------------------- */

/* A path as git names it: without what says "here", and without doubled slashes. */
static struct bl_text plain_path(struct bl_arena *arena, const char *path)
{
    struct bl_text rest = bl_text_from(path), part;
    char *out = bl_arena_alloc(arena, rest.size + 1);
    size_t size = 0;
    bool absolute = path[0] == '/';
    while (bl_text_split(&rest, '/', &part)) {
        if (part.size == 0 || (part.size == 1 && part.data[0] == '.'))
            continue;
        if (size > 0 || absolute)
            out[size++] = '/';
        memcpy(out + size, part.data, part.size);
        size += part.size;
    }
    return (struct bl_text){out, size};
}

/* Each path and every folder above it. */
static void map_changed(struct bl_map *map, const char *const *changed)
{
    for (; changed != NULL && *changed != NULL; changed++) {
        struct bl_text path = bl_text_from(*changed);
        while (path.size > 0 && !bl_map_has(map, path)) {
            bl_map_set(map, path, map, NULL);
            while (path.size > 0 && path.data[path.size - 1] != '/')
                path.size--;
            path.size -= path.size > 0;
        }
    }
}

/* One that is absolute holds where its end is a path that changed: where the worktree is, is not
 * known here. */
static bool holds(const struct bl_map *map, struct bl_text path)
{
    if (bl_map_has(map, path))
        return true;
    for (size_t i = 0; path.size > 0 && path.data[0] == '/' && i < path.size; i++)
        if (path.data[i] == '/' &&
            bl_map_has(map, (struct bl_text){path.data + i + 1, path.size - i - 1}))
            return true;
    return false;
}

void player_claims_check(struct bl_arena *arena, const struct player_result *result,
                         const char *const *changed, struct bl_list *issues)
{
    struct bl_map map;
    size_t wrong_claims = 0;
    if (!result->given || result->files == NULL || result->files[0] == NULL)
        return;
    bl_map_init(&map);
    map_changed(&map, changed);
    for (const char *const *file = result->files; *file != NULL; file++) {
        struct bl_text path = plain_path(arena, *file);
        if (path.size == 0 || holds(&map, path) || wrong_claims++ >= CLAIMS_MAX)
            continue;
        issue_add(arena, issues, ISSUE_MAJOR, ISSUE_OF_CLAIMS, *file,
                  BL_TEXT("The result names this file as changed, but it is as it was at the "
                          "task's base commit."));
    }
    if (wrong_claims > CLAIMS_MAX)
        issue_add(arena, issues, ISSUE_MAJOR, ISSUE_OF_CLAIMS, NULL,
                  bl_arena_printf(arena, "The result names %zu more files as changed that are not.",
                                  wrong_claims - CLAIMS_MAX));
    bl_map_done(&map);
}
