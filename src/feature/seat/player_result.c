#include <ctype.h>
#include <inttypes.h>

#include <belay/record.h>
#include <belay/value.h>

#include "feature/verdict/verdict.h"

#define LIST_MAX   10000u              /* entries of a list in a result */
#define CLAIMS_MAX 100u                /* issues for false claims */
#define AMOUNT_MAX ((uint64_t)1 << 53) /* limit of tokens, and of dollars */

/* ---- Finding the result ---------------------------------------------------------------------- */

/* A line of backticks or tildes, and the text after them. */
struct fence {
    char mark;
    size_t size; /* 0: not a fence */
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
    /* A fence has at least three marks. A backtick in the info string closes inline code
     * instead. */
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

/* Finds the last block fenced as json; an unclosed one extends to the end. An unclosed fence of
 * other text does not hide it; a longer fence contains it as text. */
static struct bl_text player_result_find_block(struct bl_text output)
{
    struct bl_text rest = output, line, block = {0};
    struct fence open = {0};
    const char *begin = NULL; /* start of the open block if it is JSON */
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

int result_read(struct bl_arena *arena, struct bl_text text, bool refuse_duplicates,
                const struct bl_json **ret_object, struct bl_text *ret_reason)
{
    const struct bl_json_limits limits = {.size_max = VERDICT_SIZE_MAX,
                                          .refuse_duplicates = refuse_duplicates};
    struct bl_text found = result_find(text);
    struct bl_json_fault fault;
    char where[320];
    found = bl_text_trim(found.size > 0 ? found : text);
    if (found.size > VERDICT_SIZE_MAX) {
        *ret_reason = bl_arena_printf(arena, "it has %zu bytes (at most %zu are allowed)",
                                      found.size, VERDICT_SIZE_MAX);
    } else if (bl_json_read(arena, found, &limits, ret_object, &fault) != 0) {
        bl_json_fault_text(&fault, where, sizeof where);
        *ret_reason = bl_arena_printf(arena, "it is not one JSON object: %s", where);
    } else if (!bl_json_is(*ret_object, BL_JSON_OBJECT)) {
        *ret_reason =
            bl_arena_printf(arena, "it is not one JSON object, but %s", bl_value_type(*ret_object));
    } else {
        return 0;
    }
    return BL_EPARSE;
}

/* ---- Reading the result ---------------------------------------------------------------------- */

struct player_said {
    struct bl_text summary;
    const char *const *done;
    const char *const *not_done;
    const char *const *files;
    const struct bl_json *tests; /* here and below, false means the same as null */
    const struct bl_json *blocked;
    const struct bl_json *usage;
};

#define BL_RECORD_STRUCT struct player_said
static const struct bl_member player_members[] = {
    BL_MEMBER_TEXT("summary", summary, .optional = true, .nullable = true),
    BL_MEMBER_STRINGS("done", done, .optional = true, .nullable = true, .most = LIST_MAX),
    BL_MEMBER_STRINGS("not_done", not_done, .optional = true, .nullable = true, .most = LIST_MAX),
    BL_MEMBER_STRINGS("files", files, .optional = true, .nullable = true, .most = LIST_MAX),
    BL_MEMBER_JSON("tests", tests, .optional = true, .nullable = true),
    BL_MEMBER_JSON("blocked", blocked, .optional = true, .nullable = true),
    BL_MEMBER_JSON("usage", usage, .optional = true, .nullable = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record player_record =
    BL_RECORD("result", struct player_said, player_members);

#define BL_RECORD_STRUCT struct player_result
static const struct bl_member blocked_members[] = {
    BL_MEMBER_TEXT("reason", blocked_reason, .optional = true, .nullable = true),
    BL_MEMBER_TEXT("needs", blocked_needs, .optional = true, .nullable = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record blocked_record = BL_RECORD_GROUP("blocked", blocked_members);

/* Each is true, false or a number of tests. */
struct player_tests {
    const struct bl_json *ran;
    const struct bl_json *passed;
};

#define BL_RECORD_STRUCT struct player_tests
static const struct bl_member tests_members[] = {
    BL_MEMBER_JSON("ran", ran, .optional = true, .nullable = true),
    BL_MEMBER_JSON("passed", passed, .optional = true, .nullable = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record tests_record = BL_RECORD("tests", struct player_tests, tests_members);

/* -1: not given. */
struct player_usage {
    int64_t input_tokens;
    int64_t output_tokens;
    double cost_usd;
};

#define BL_RECORD_STRUCT struct player_usage
static const struct bl_member usage_members[] = {
    BL_MEMBER_INTEGER("input_tokens", input_tokens, .optional = true, .nullable = true, .none = -1,
                      .most = AMOUNT_MAX),
    BL_MEMBER_INTEGER("output_tokens", output_tokens, .optional = true, .nullable = true,
                      .none = -1, .most = AMOUNT_MAX),
    BL_MEMBER_NUMBER("cost_usd", cost_usd, .optional = true, .nullable = true, .none = -1,
                     .most = AMOUNT_MAX),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record usage_record = BL_RECORD("usage", struct player_usage, usage_members);

/* State while a result is read. Only the first problem is kept. */
struct reader {
    struct bl_arena *arena;
    struct bl_text problem;
};

static bool is_said(const struct bl_json *value)
{
    return value != NULL && !(bl_json_is(value, BL_JSON_BOOLEAN) && !bl_json_boolean(value, true));
}

/* Reads a part of the result; `name` NULL: the whole result. */
static bool player_result_read_part(struct reader *reader, const struct bl_record *record,
                                    const char *name, const struct bl_json *value, void *into)
{
    struct bl_record_fault fault = {0};
    char text[512];
    if (bl_record_view(reader->arena, record, value, into, &fault) == 0)
        return true;
    bl_record_fault_text(&fault, text, sizeof text);
    const char *joint = name == NULL ? "" : fault.path[0] != '\0' ? "." : ": ";
    if (reader->problem.size == 0)
        reader->problem =
            bl_arena_printf(reader->arena, "%s%s%s", name != NULL ? name : "", joint, text);
    return false;
}

static double player_result_count(struct reader *reader, const char *name,
                                  const struct bl_json *value)
{
    double number = 0;
    if (!is_said(value))
        return 0;
    if (bl_json_is(value, BL_JSON_BOOLEAN))
        return 1;
    if ((!bl_json_double(value, &number) || number < 0) && reader->problem.size == 0)
        reader->problem =
            bl_arena_printf(reader->arena, "tests.%s: expected true, false or a number, found %s",
                            name, bl_value_type(value));
    return number;
}

/* Returns whether the tests ran and passed. `ran` may be a number while `passed` is just true. */
static bool player_result_read_tests(struct reader *reader, const struct bl_json *value)
{
    struct player_tests tests;
    if (!is_said(value) || !player_result_read_part(reader, &tests_record, "tests", value, &tests))
        return false;
    double ran = player_result_count(reader, "ran", tests.ran);
    double passed = player_result_count(reader, "passed", tests.passed);
    bool all = bl_json_is(tests.passed, BL_JSON_BOOLEAN) || passed >= ran;
    return ran > 0 && passed > 0 && all;
}

static void player_result_read_usage(struct reader *reader, const struct bl_json *value,
                                     struct player_result *result)
{
    struct player_usage usage = {-1, -1, -1};
    struct bl_spent *spent = &result->spent;
    if (is_said(value))
        player_result_read_part(reader, &usage_record, "usage", value, &usage);
    spent->usage.input_tokens = usage.input_tokens >= 0 ? (uint64_t)usage.input_tokens : 0;
    spent->usage.output_tokens = usage.output_tokens >= 0 ? (uint64_t)usage.output_tokens : 0;
    spent->cost_unknown = usage.cost_usd < 0;
    spent->cost_usd = spent->cost_unknown ? 0 : usage.cost_usd;
    spent->cost_usd_max = spent->cost_usd;
    result->usage_known =
        usage.input_tokens >= 0 || usage.output_tokens >= 0 || !spent->cost_unknown;
}

static const char *const no_texts[] = {NULL};

static void player_result_read_members(struct reader *reader, const struct bl_json *object,
                                       struct player_result *result)
{
    struct player_said said;
    if (!player_result_read_part(reader, &player_record, NULL, object, &said))
        return;
    result->summary = said.summary;
    result->done = said.done != NULL ? said.done : no_texts;
    result->not_done = said.not_done != NULL ? said.not_done : no_texts;
    result->files = said.files != NULL ? said.files : no_texts;
    result->tests_claimed = player_result_read_tests(reader, said.tests);
    result->blocked =
        is_said(said.blocked) &&
        player_result_read_part(reader, &blocked_record, "blocked", said.blocked, result);
    player_result_read_usage(reader, said.usage, result);
}

void player_result_parse(struct bl_arena *arena, struct bl_text text,
                         struct player_result *ret_result, struct bl_text *ret_problem)
{
    const struct player_result none = {.done = no_texts, .not_done = no_texts, .files = no_texts};
    struct reader reader = {.arena = arena};
    const struct bl_json *object;
    *ret_result = none;
    *ret_problem = (struct bl_text){0};
    if (bl_text_trim(text).size == 0)
        return;
    if (result_read(arena, text, false, &object, &reader.problem) == 0)
        player_result_read_members(&reader, object, ret_result);
    if (reader.problem.size == 0) {
        ret_result->given = true;
        ret_result->json = bl_json_value_text(arena, object); /* events are single lines */
        return;
    }
    *ret_result = none;
    *ret_problem = bl_arena_printf(arena, "The Player's result was ignored: " BL_TEXT_FORMAT,
                                   BL_TEXT_ARG(reader.problem));
}

/* ---- Claims ---------------------------------------------------------------------------------- */

/* Returns a path as git writes it: without "." parts and doubled slashes. */
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

/* Adds each path and every folder above it. */
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

/* Returns whether a claimed path has changed. The worktree's location is unknown here, so an
 * absolute path counts if it ends in a changed path. */
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
                  BL_TEXT("The result lists this file as changed, but it is identical to the "
                          "task's base commit."));
    }
    if (wrong_claims > CLAIMS_MAX)
        issue_add(arena, issues, ISSUE_MAJOR, ISSUE_OF_CLAIMS, NULL,
                  bl_arena_printf(arena, "The result lists %zu more unchanged file%s as changed.",
                                  wrong_claims - CLAIMS_MAX,
                                  wrong_claims - CLAIMS_MAX == 1 ? "" : "s"));
    bl_map_done(&map);
}
