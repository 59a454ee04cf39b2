/* Inside of schemas: what compiling (schema.c, schema_reference.c), checking (schema_check.c), the
 * assertions about one value (schema_assert.c) and the wording of problems (schema_problem.c)
 * share. */
#ifndef BELAY_JSON_SCHEMA_H
#define BELAY_JSON_SCHEMA_H

#include "json/parts.h"

#define SCHEMA_NODES_MAX   20000u
#define SCHEMA_ANCHORS_MAX 1000u

/* Work of one check: schemas visited, members and values looked at, pattern instructions. */
#define SCHEMA_STEPS_MAX 10000000u
/* Schemas open at the same time, one inside the other. */
#define SCHEMA_LEVELS_MAX 8192u
/* Bytes of paths and messages of one check, those of branches that are not shown included. */
#define SCHEMA_WORDS_MAX 4194304u

/* A JSON value can have more than one: 3 is an integer and a number. */
enum schema_type {
    SCHEMA_NULL = 1,
    SCHEMA_BOOLEAN = 2,
    SCHEMA_INTEGER = 4,
    SCHEMA_NUMBER = 8,
    SCHEMA_STRING = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_OBJECT = 64,
};

struct schema_list {
    struct schema_node **items;
    uint32_t count;
};

struct schema_property {
    struct bl_text name;
    struct bl_pattern *pattern; /* of patternProperties */
    struct schema_node *node;
};

struct schema_properties {
    struct schema_property *items; /* properties: sorted by name; patternProperties: as they came */
    uint32_t count;
};

/* One schema: `true`, `false` or an object. Keywords that are absent are NULL, 0 or the widest
 * limit, so that checking them always succeeds. */
struct schema_node {
    /* Where it stands: below `parent` by `keyword`, then by `name` (a member) or by `index`;
     * without a parent `keyword` is the whole pointer. */
    struct schema_node *parent;
    struct bl_text keyword;
    struct bl_text name;
    int64_t index; /* -1: none */
    bool has_name;

    bool refuses; /* `false` */
    bool unique;
    uint8_t mark;  /* while looking for circles */
    uint8_t types; /* 0: any */
    const struct bl_json *source;
    const struct bl_json *resource; /* the nearest schema around it with an $id, or the root */
    const struct bl_json *reference_source;

    const struct bl_json *enumeration;
    const struct bl_json *constant;
    const struct bl_json *required;
    const struct bl_json *minimum;
    const struct bl_json *maximum;
    const struct bl_json *exclusive_minimum;
    const struct bl_json *exclusive_maximum;
    const struct bl_json *multiple_of;
    uint64_t min_length, max_length;
    uint64_t min_items, max_items;
    uint64_t min_properties, max_properties;
    const struct bl_json *pattern_source;
    struct bl_pattern *pattern;

    struct schema_node *reference;
    struct schema_list all_of, any_of, one_of;
    struct schema_node *negated;
    struct schema_list prefix_items;
    struct schema_node *items;
    struct schema_properties properties, pattern_properties;
    struct schema_node *additional;
    struct schema_node *names;
};

struct schema_ignored {
    const struct bl_json *key; /* to sort by */
    struct bl_text pointer;
};

/* A schema that has a name: by $anchor within its resource, or by $id as a resource. */
struct schema_anchor {
    struct bl_text name;
    const struct schema_node *node;
    bool is_resource;
};

struct bl_json_schema {
    struct bl_arena arena;
    const struct bl_json *source;   /* our copy */
    size_t source_size;             /* in nodes */
    struct schema_node **by_source; /* for each node of the copy, the schema compiled from it */
    struct schema_node **nodes;     /* in the order of finding */
    uint32_t node_count, node_capacity;
    struct schema_anchor
        *anchors; /* `$anchor` and `$id`, the latter with a name that starts by $ */
    uint32_t anchor_count, anchor_capacity;
    struct schema_ignored *ignored;
    uint32_t ignored_count, ignored_capacity;
    struct bl_pattern **patterns; /* all, to be freed */
    uint32_t pattern_count, pattern_capacity;
};

/* ---- Compiling ------------------------------------------------------------------------------- */

/* The node of a schema in our copy, made and queued when it is new. Its place is set only then. */
int schema_node_find(struct bl_json_schema *schema, const struct bl_json *source,
                     const struct schema_node *place, struct schema_node **ret_node,
                     struct bl_error *error);
/* BL_EINVAL with the keyword's pointer as the target. */
int schema_refuse(struct bl_json_schema *schema, const struct schema_node *node,
                  const char *keyword, struct bl_error *error, const char *format, ...)
    BL_PRINTF(5, 6);
/* Sets node->reference from its $ref. */
int schema_reference_resolve(struct bl_json_schema *schema, struct schema_node *node,
                             struct bl_error *error);
/* BL_EINVAL when a schema applies itself to the value that it is applied to. */
int schema_circle_refuse(struct bl_json_schema *schema, struct bl_error *error);
/* Pointer of a keyword ("" for the schema itself) of `node`. */
struct bl_text schema_pointer(struct bl_arena *arena, const struct schema_node *node,
                              struct bl_text keyword);
/* Makes an array in the schema's arena hold one more. */
void *schema_grow(struct bl_arena *arena, void *items, uint32_t count, uint32_t *capacity,
                  size_t item_size);

/* ---- Checking -------------------------------------------------------------------------------- */

/* A problem and what it is sorted by. */
struct schema_problem {
    struct bl_json_problem shown;
    const struct bl_json *value;
};

/* Where the problems of a branch go. */
struct schema_sink {
    struct bl_list problems;
    const struct bl_json *value; /* what the branch is about */
    uint32_t count;
    uint32_t distance; /* how far the value is from this branch */
    bool failed;
    bool quiet; /* only yes or no is asked for */
};

/* A schema being checked against a value. */
struct schema_frame {
    const struct schema_node *node;
    const struct bl_json *value;
    struct schema_sink *sink;
    struct schema_sink *branch;   /* of the alternative that is being tried */
    struct schema_sink *closest;  /* of the best alternative that failed */
    const struct bl_json *cursor; /* element or key being visited */
    uint32_t phase;               /* of the walk: enum phase in schema_check.c */
    uint32_t index;               /* within that phase */
    uint32_t fits;                /* alternatives of oneOf that did */
    uint32_t first_fit;           /* index of the first of them */
    uint32_t closest_index;
    uint32_t parent;           /* 1 + index of the frame of the value around, 0: none */
    uint32_t element;          /* place in that value when it is an array */
    const struct bl_json *key; /* and when it is an object */
    bool is_name;              /* value is the name of a member */
    bool known;                /* the member was named by properties or patternProperties */
};

struct schema_check {
    const struct bl_json_schema *schema;
    struct bl_arena *arena;
    struct schema_frame *frames; /* on the heap */
    uint32_t frame_count, frame_capacity;
    uint64_t steps;      /* that are left */
    size_t words;        /* bytes of problems so far */
    struct bl_list idle; /* sinks to use again: a check may open millions */
    struct bl_buffer message;
    const char *exhausted; /* set: what limit was reached */
};

/* Takes `count` from the budget. False: it is used up, and the check ends. */
bool schema_spend(struct schema_check *check, uint64_t count);
/* True when the pattern matches, within the budget. */
bool schema_search(struct schema_check *check, const struct bl_pattern *pattern,
                   struct bl_text text);
/* Everything about the value alone; problems go to the frame's sink. */
void schema_assert(struct schema_check *check, const struct schema_frame *frame);
uint8_t schema_types_of(const struct bl_json *value);

/* Begins a message; what follows is appended to check->message. NULL: nobody will read it. */
struct bl_buffer *schema_message(struct schema_check *check, const struct schema_frame *frame);
/* The value is wrong by that keyword: the message is what was appended since schema_message.
 * `member` (may be NULL) is the key of a member that the problem is about. */
void schema_problem(struct schema_check *check, const struct schema_frame *frame,
                    const char *keyword, const struct bl_json *member);
/* "unknown property …; known: …", with a guess at what was meant. */
void schema_unknown_append(struct bl_buffer *out, const struct schema_node *node,
                           struct bl_text name);

#endif
