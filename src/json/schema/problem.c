/* The messages of problems: place, keyword, what was expected and what was found. Models read them
 * to correct a call, so they are short and say what to write instead. */
#include "schema.h"

#define KNOWN_MAX 12u  /* names that are listed */
#define GUESS_MAX 200u /* names that a suggestion is chosen from */

struct bl_buffer *schema_message(struct schema_check *check, const struct schema_frame *frame)
{
    if (frame->sink->quiet || check->words >= SCHEMA_WORDS_MAX)
        return NULL;
    bl_buffer_clear(&check->message);
    if (frame->is_name) {
        bl_buffer_append(&check->message, BL_TEXT("invalid property name "));
        json_value_show(&check->message, frame->value);
        bl_buffer_append(&check->message, BL_TEXT(": "));
    }
    return &check->message;
}

static void append_token(struct bl_buffer *out, struct bl_text token)
{
    bl_buffer_append_byte(out, '/');
    size_t start = 0;
    for (size_t i = 0; i < token.size; i++) {
        if (token.data[i] != '~' && token.data[i] != '/')
            continue;
        bl_buffer_append(out, (struct bl_text){token.data + start, i - start});
        bl_buffer_append(out, token.data[i] == '~' ? BL_TEXT("~0") : BL_TEXT("~1"));
        start = i + 1;
    }
    bl_buffer_append(out, (struct bl_text){token.data + start, token.size - start});
}

/* Returns the pointer into the value. Collects the frames of the enclosing values from the inside
 * out. */
static struct bl_text problem_path_of(struct schema_check *check, const struct schema_frame *frame,
                                      const struct bl_json *member)
{
    BL_AUTO_BUFFER(path, SIZE_MAX);
    uint32_t depth = 0;
    for (const struct schema_frame *at = frame; at->parent != 0;
         at = &check->frames[at->parent - 1])
        depth++;
    const struct schema_frame **chain = bl_alloc((depth + 1) * sizeof(struct schema_frame *));
    uint32_t i = depth;
    for (const struct schema_frame *at = frame; at->parent != 0;
         at = &check->frames[at->parent - 1])
        chain[--i] = at;
    for (i = 0; i < depth; i++) {
        if (chain[i]->key != NULL)
            append_token(&path, bl_json_text(chain[i]->key));
        else
            bl_buffer_printf(&path, "/%u", chain[i]->element);
    }
    if (member != NULL)
        append_token(&path, bl_json_text(member));
    struct bl_text text = bl_arena_text(check->arena, bl_buffer_text(&path));
    bl_free(chain);
    return text;
}

/* Returns how strongly a problem suggests that another branch was meant: a wrong type the most, a
 * wrong constant a little less. */
static uint32_t distance_of(const struct schema_frame *frame, const char *keyword)
{
    if (strcmp(keyword, "type") == 0 && frame->value == frame->sink->value)
        return 1000;
    if (strcmp(keyword, "const") == 0 || strcmp(keyword, "enum") == 0)
        return 100;
    return 1;
}

void schema_problem(struct schema_check *check, const struct schema_frame *frame,
                    const char *keyword, const struct bl_json *member)
{
    struct schema_sink *sink = frame->sink;
    sink->failed = true;
    sink->distance += distance_of(frame, keyword);
    if (sink->quiet || check->words >= SCHEMA_WORDS_MAX || sink->count >= BL_JSON_PROBLEMS_MAX)
        return;
    struct schema_problem *problem = bl_arena_zalloc(check->arena, sizeof *problem);
    problem->value = member != NULL ? member : frame->value;
    problem->shown.path = problem_path_of(check, frame, member);
    problem->shown.keyword = schema_pointer(check->arena, frame->node, bl_text_from(keyword));
    problem->shown.message = bl_arena_text(check->arena, bl_buffer_text(&check->message));
    bl_list_push_back(&sink->problems, &problem->shown.link);
    sink->count++;
    check->words += sizeof *problem + problem->shown.path.size + problem->shown.keyword.size +
                    problem->shown.message.size;
}

/* Returns the property that `name` is probably a misspelling of, or NULL: at most two edits away,
 * and not fully edited. */
static const struct schema_property *guess(const struct schema_properties *known,
                                           struct bl_text name)
{
    const struct schema_property *best = NULL;
    size_t best_distance = 3;
    for (uint32_t i = 0; i < known->count && i < GUESS_MAX; i++) {
        struct bl_text candidate = known->items[i].name;
        size_t longer = candidate.size > name.size ? candidate.size : name.size;
        size_t distance = bl_text_distance(name, candidate);
        if (distance < best_distance && distance < longer) {
            best = &known->items[i];
            best_distance = distance;
        }
    }
    return best;
}

void schema_unknown_append(struct bl_buffer *out, const struct schema_node *node,
                           struct bl_text name)
{
    const struct schema_properties *known = &node->properties;
    const struct schema_property *meant = guess(known, name);
    bl_buffer_append(out, BL_TEXT("unknown property "));
    json_text_show(out, name);
    if (meant != NULL) {
        bl_buffer_append(out, BL_TEXT("; did you mean "));
        json_text_show(out, meant->name);
        bl_buffer_append_byte(out, '?');
    }
    const char *separator = meant != NULL ? " known: " : "; known: ";
    if (known->count == 0)
        bl_buffer_append(out, node->pattern_properties.count > 0
                                  ? BL_TEXT("; it matches none of the patterns")
                                  : BL_TEXT("; no properties are defined"));
    for (uint32_t i = 0; i < known->count; i++) {
        bl_buffer_append(out, bl_text_from(separator));
        if (i == KNOWN_MAX || out->size > 500) {
            bl_buffer_append(out, BL_TEXT("…"));
            break;
        }
        json_text_show(out, known->items[i].name);
        separator = ", ";
    }
}
