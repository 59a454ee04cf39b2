/* Checking a value.
 *
 * Design notes. A frame is one schema applied to one value. Frames are on a separate stack, because
 * the stack of a fiber is too small for the depth of external values. Each frame goes through its
 * phases in order. A phase opens the frames below it one by one; when it runs again, it takes the
 * result of the previous one:
 *
 *     ENTER      the assertions about the value alone
 *     REFERENCE  $ref, for the same value
 *     ALL_OF     each, into the same sink of problems
 *     ANY_OF     each, into a separate sink, until one fits
 *     ONE_OF     each, into a separate sink, until two fit
 *     NOT        into a sink that records only failure or success
 *     CHILDREN   the elements or members of the value
 *     DONE
 *
 * A frame also ends early when its sink needs no more problems. Cycles that do not descend into the
 * value were refused when the schema was compiled, so the depth is bounded by the depths of value
 * and schema. The work is bounded by a budget, since the same value may be reached in exponentially
 * many ways. */
#include "schema.h"

enum phase {
    ENTER,
    REFERENCE,
    ALL_OF,
    ANY_OF,
    ONE_OF,
    NOT,
    CHILDREN,
    DONE,
};

/* A step of a pattern is this many times cheaper than other steps. */
#define PATTERN_STEPS 8u

bool schema_spend(struct schema_check *check, uint64_t count)
{
    if (check->steps < count) {
        check->steps = 0;
        check->exhausted = "too much work to check";
        return false;
    }
    check->steps -= count;
    return true;
}

bool schema_search(struct schema_check *check, const struct bl_pattern *pattern,
                   struct bl_text text)
{
    uint64_t budget = check->steps * PATTERN_STEPS, left = budget;
    int result = bl_pattern_search_within(pattern, text, &left);
    schema_spend(check, result < 0 ? check->steps + 1 : (budget - left) / PATTERN_STEPS);
    return result == 1;
}

static struct schema_sink *open_sink(struct schema_check *check, const struct bl_json *value,
                                     bool quiet)
{
    struct bl_list *idle = bl_list_pop_front(&check->idle);
    struct schema_sink *sink = idle != NULL ? BL_CONTAINER(idle, struct schema_sink, problems)
                                            : bl_arena_alloc(check->arena, sizeof *sink);
    *sink = (struct schema_sink){.value = value, .quiet = quiet};
    bl_list_init(&sink->problems);
    return sink;
}

/* Discards a sink and its problems. NULL is fine. */
static void close_sink(struct schema_check *check, struct schema_sink *sink)
{
    if (sink != NULL)
        bl_list_push_front(&check->idle, &sink->problems);
}

static bool sink_full(const struct schema_check *check, const struct schema_sink *sink)
{
    return sink->failed &&
           (sink->quiet || sink->count >= BL_JSON_PROBLEMS_MAX || check->words >= SCHEMA_WORDS_MAX);
}

/* Opens a frame. The caller's frame may have moved after this. */
static struct schema_frame *schema_check_push(struct schema_check *check,
                                              const struct schema_node *node,
                                              const struct bl_json *value, struct schema_sink *sink)
{
    if (check->frame_count == SCHEMA_LEVELS_MAX) {
        check->exhausted = "nested too deeply to check";
        check->frame_count--; /* the check ends, so the top frame can be reused */
    }
    if (check->frame_count == check->frame_capacity) {
        check->frame_capacity = check->frame_capacity > 0 ? check->frame_capacity * 2 : 16;
        check->frames = bl_realloc(check->frames, check->frame_capacity * sizeof *check->frames);
    }
    struct schema_frame *frame = &check->frames[check->frame_count++];
    *frame = (struct schema_frame){.node = node, .value = value, .sink = sink};
    return frame;
}

/* Applies another schema to the value of the top frame. */
static void push_same(struct schema_check *check, const struct schema_node *node,
                      struct schema_sink *sink)
{
    struct schema_frame above = check->frames[check->frame_count - 1];
    struct schema_frame *frame = schema_check_push(check, node, above.value, sink);
    frame->parent = above.parent;
    frame->key = above.key;
    frame->element = above.element;
    frame->is_name = above.is_name;
}

/* Applies a schema to a child of the top frame's value: element number `element`, the member with
 * key `key`, or the key itself. */
static void push_child(struct schema_check *check, const struct schema_node *node,
                       const struct bl_json *value, const struct bl_json *key, uint32_t element)
{
    uint32_t parent = check->frame_count;
    struct schema_frame *frame =
        schema_check_push(check, node, value, check->frames[parent - 1].sink);
    frame->parent = parent;
    frame->key = key;
    frame->element = element;
    frame->is_name = key != NULL && value == key;
}

static void next_phase(struct schema_frame *frame)
{
    frame->phase++;
    frame->index = 0;
    if (frame->phase == CHILDREN) {
        enum bl_json_type type = bl_json_type(frame->value);
        frame->cursor = bl_json_first(frame->value, type == BL_JSON_ARRAY ? type : BL_JSON_OBJECT);
    }
}

/* Takes the result of the last alternative. Returns true if it fitted. */
static bool take_branch(struct schema_check *check, struct schema_frame *frame)
{
    struct schema_sink *branch = frame->branch;
    if (branch == NULL)
        return false;
    frame->branch = NULL;
    bool fits = !branch->failed;
    if (!fits && (frame->closest == NULL || branch->distance < frame->closest->distance)) {
        close_sink(check, frame->closest);
        frame->closest = branch;
        frame->closest_index = frame->index - 1;
    } else {
        close_sink(check, branch);
    }
    return fits;
}

/* Reports that no alternative fits, with the problems of the closest one. */
static void refuse_alternatives(struct schema_check *check, struct schema_frame *frame,
                                const char *keyword, uint32_t count)
{
    struct schema_sink *closest = frame->closest, *sink = frame->sink;
    struct bl_buffer *out = schema_message(check, frame);
    if (out != NULL && count > 1)
        bl_buffer_printf(out, "matches none of %u alternatives; the closest is number %u", count,
                         frame->closest_index + 1);
    else if (out != NULL)
        bl_buffer_append(out, BL_TEXT("does not match the only alternative"));
    schema_problem(check, frame, keyword, NULL);
    sink->distance += closest->distance;
    struct bl_list *link;
    while (sink->count < BL_JSON_PROBLEMS_MAX &&
           (link = bl_list_pop_front(&closest->problems)) != NULL) {
        bl_list_push_back(&sink->problems, link);
        sink->count++;
    }
}

static void leave_alternatives(struct schema_check *check, struct schema_frame *frame)
{
    close_sink(check, frame->closest);
    frame->closest = NULL;
    next_phase(frame);
}

static void try_alternative(struct schema_check *check, struct schema_frame *frame,
                            const struct schema_list *list)
{
    const struct schema_node *node = list->items[frame->index++];
    frame->branch = open_sink(check, frame->value, frame->sink->quiet);
    push_same(check, node, frame->branch);
}

static void run_any_of(struct schema_check *check, struct schema_frame *frame)
{
    const struct schema_list *list = &frame->node->any_of;
    bool fits = take_branch(check, frame);
    if (!fits && frame->index < list->count) {
        try_alternative(check, frame, list);
        return;
    }
    if (!fits && list->count > 0)
        refuse_alternatives(check, frame, "anyOf", list->count);
    leave_alternatives(check, frame);
}

static void run_one_of(struct schema_check *check, struct schema_frame *frame)
{
    const struct schema_list *list = &frame->node->one_of;
    if (take_branch(check, frame) && frame->fits++ == 0)
        frame->first_fit = frame->index;
    if (frame->fits < 2 && frame->index < list->count) {
        try_alternative(check, frame, list);
        return;
    }
    if (frame->fits > 1) {
        struct bl_buffer *out = schema_message(check, frame);
        if (out != NULL)
            bl_buffer_printf(out, "matches alternatives %u and %u, must match exactly one",
                             frame->first_fit, frame->index);
        schema_problem(check, frame, "oneOf", NULL);
    } else if (frame->fits == 0 && list->count > 0) {
        refuse_alternatives(check, frame, "oneOf", list->count);
    }
    leave_alternatives(check, frame);
}

static void run_not(struct schema_check *check, struct schema_frame *frame)
{
    if (frame->node->negated != NULL && frame->branch == NULL) {
        frame->branch = open_sink(check, frame->value, true);
        push_same(check, frame->node->negated, frame->branch);
        return;
    }
    if (frame->branch != NULL && !frame->branch->failed) {
        struct bl_buffer *out = schema_message(check, frame);
        if (out != NULL) {
            bl_buffer_append(out, BL_TEXT("must not match the schema under \"not\", is "));
            json_value_show(out, frame->value);
        }
        schema_problem(check, frame, "not", NULL);
    }
    close_sink(check, frame->branch);
    frame->branch = NULL;
    next_phase(frame);
}

static const struct schema_node *find_property(const struct schema_properties *properties,
                                               struct bl_text name)
{
    uint32_t low = 0, high = properties->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = bl_text_compare(name, properties->items[middle].name);
        if (order == 0)
            return properties->items[middle].node;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* Applies additionalProperties to a member that no other keyword covers. */
static void run_additional(struct schema_check *check, struct schema_frame *frame,
                           const struct bl_json *key)
{
    const struct schema_node *additional = frame->node->additional;
    if (frame->known || additional == NULL)
        return;
    if (!additional->refuses) {
        push_child(check, additional, key + 1, key, 0);
        return;
    }
    struct bl_buffer *out = schema_message(check, frame);
    if (out != NULL)
        schema_unknown_append(out, frame->node, bl_json_text(key));
    schema_problem(check, frame, "additionalProperties", key);
}

/* Takes one step for the member at the cursor: its name, `properties`, each of `patternProperties`,
 * and finally `additionalProperties`. */
static void run_member(struct schema_check *check, struct schema_frame *frame)
{
    const struct schema_node *node = frame->node;
    const struct bl_json *key = frame->cursor;
    uint32_t index = frame->index++;
    if (index == 0) {
        frame->known = false;
        if (node->names != NULL)
            push_child(check, node->names, key, key, 0);
    } else if (index == 1) {
        const struct schema_node *named = find_property(&node->properties, bl_json_text(key));
        frame->known = named != NULL;
        if (named != NULL)
            push_child(check, named, key + 1, key, 0);
    } else if (index - 2 < node->pattern_properties.count) {
        const struct schema_property *property = &node->pattern_properties.items[index - 2];
        if (!schema_search(check, property->pattern, bl_json_text(key)))
            return;
        frame->known = true;
        push_child(check, property->node, key + 1, key, 0);
    } else {
        frame->index = 0;
        frame->cursor = bl_json_next(key + 1);
        run_additional(check, frame, key);
    }
}

static void run_children(struct schema_check *check, struct schema_frame *frame)
{
    const struct schema_node *node = frame->node;
    const struct bl_json *child = frame->cursor;
    if (child->type == BL_JSON_END) {
        next_phase(frame);
        return;
    }
    if (bl_json_is(frame->value, BL_JSON_OBJECT)) {
        if (node->properties.count == 0 && node->pattern_properties.count == 0 &&
            node->additional == NULL && node->names == NULL)
            next_phase(frame);
        else
            run_member(check, frame);
        return;
    }
    uint32_t index = frame->index++;
    const struct schema_node *element =
        index < node->prefix_items.count ? node->prefix_items.items[index] : node->items;
    frame->cursor = bl_json_next(child);
    if (element != NULL)
        push_child(check, element, child, NULL, index);
    else
        next_phase(frame);
}

static void run_phase(struct schema_check *check, struct schema_frame *frame)
{
    const struct schema_node *node = frame->node;
    switch ((enum phase)frame->phase) {
    case ENTER:
        schema_assert(check, frame);
        next_phase(frame);
        break;
    case REFERENCE:
        next_phase(frame);
        if (node->reference != NULL)
            push_same(check, node->reference, frame->sink);
        break;
    case ALL_OF:
        if (frame->index < node->all_of.count)
            push_same(check, node->all_of.items[frame->index++], frame->sink);
        else
            next_phase(frame);
        break;
    case ANY_OF: run_any_of(check, frame); break;
    case ONE_OF: run_one_of(check, frame); break;
    case NOT: run_not(check, frame); break;
    case CHILDREN: run_children(check, frame); break;
    case DONE: break;
    }
}

/* Runs until the bottom frame is done or a limit is reached. */
static void schema_check_run(struct schema_check *check)
{
    while (check->frame_count > 0 && check->exhausted == NULL) {
        struct schema_frame *frame = &check->frames[check->frame_count - 1];
        if (frame->phase == DONE || sink_full(check, frame->sink)) {
            close_sink(check, frame->branch);
            close_sink(check, frame->closest);
            check->frame_count--;
        } else if (schema_spend(check, 1)) {
            run_phase(check, frame);
        }
    }
}

/* Moves the problems to the caller's list, in the order of their values. */
static void hand_over(struct schema_sink *sink, struct bl_list *problems)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(&sink->problems)) != NULL) {
        const struct bl_json *value = BL_CONTAINER(link, struct schema_problem, shown.link)->value;
        struct bl_list *after = problems->previous;
        while (after != problems &&
               BL_CONTAINER(after, struct schema_problem, shown.link)->value > value)
            after = after->previous;
        bl_list_insert_before(after->next, link);
    }
}

/* Adds a problem about the value as a whole. */
static void add_general(struct bl_arena *arena, struct bl_list *problems, const char *message)
{
    struct schema_problem *problem = bl_arena_zalloc(arena, sizeof *problem);
    problem->shown.path = BL_TEXT("");
    problem->shown.keyword = BL_TEXT("");
    problem->shown.message = bl_arena_text(arena, bl_text_from(message));
    bl_list_push_back(problems, &problem->shown.link);
}

int bl_json_schema_check(const struct bl_json_schema *schema, const struct bl_json *value,
                         struct bl_arena *arena, struct bl_list *problems)
{
    struct schema_check check = {.schema = schema, .arena = arena, .steps = SCHEMA_STEPS_MAX};
    bl_list_init(problems);
    bl_list_init(&check.idle);
    bl_buffer_init(&check.message, 2000); /* larger than any message */
    struct schema_sink *sink = open_sink(&check, value, false);
    schema_check_push(&check, schema->nodes[0], value, sink);
    schema_check_run(&check);
    hand_over(sink, problems);
    int result = sink->failed ? BL_EINVAL : 0;
    if (check.exhausted != NULL) {
        add_general(arena, problems, check.exhausted);
        result = BL_ELIMIT;
    } else if (sink->failed && bl_list_empty(problems)) {
        add_general(arena, problems, "has more problems than can be listed");
    }
    bl_free(check.frames);
    bl_buffer_done(&check.message);
    return result;
}
