/* The internals of schemas, shared by compiling (schema.c, reference.c), checking (check.c), the
 * assertions about one value (assert.c) and the wording of problems (problem.c). */
#ifndef BELAY_JSON_SCHEMA_H
#define BELAY_JSON_SCHEMA_H

#include "json/parts.h"

#define SCHEMA_NODES_MAX   20000u
#define SCHEMA_ANCHORS_MAX 1000u

/* Limit for the work of one check: schemas visited, members and values read, pattern instructions.
 */
#define SCHEMA_STEPS_MAX 10000000u
/* Limit for nested open schemas. */
#define SCHEMA_LEVELS_MAX 8192u
/* Limit for the bytes of paths and messages of one check, including branches that are not shown. */
#define SCHEMA_WORDS_MAX 4194304u

/* A JSON value can have several types: 3 is an integer and a number. */
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
    struct schema_property *items; /* properties: sorted by name; patternProperties: in order */
    uint32_t count;
};

/* One schema: `true`, `false` or an object. Keywords that are absent are NULL, 0 or the widest
 * limit, so that checking them always succeeds. */
struct schema_node {
    /* Its place: below `parent` by `keyword`, then by `name` (a member) or by `index`; without a
     * parent, `keyword` is the whole pointer. */
    struct schema_node *parent;
    struct bl_text keyword;
    struct bl_text name;
    int64_t index; /* -1: none */
    bool has_name;

    bool refuses; /* `false` */
    bool unique;
    uint8_t mark;  /* for the search for cycles */
    uint8_t types; /* 0: any */
    const struct bl_json *source;
    const struct bl_json *resource; /* the nearest enclosing schema with an $id, or the root */
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

/* A named schema: by $anchor within its resource, or by $id as a resource. */
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
    struct schema_node **nodes;     /* in the order of discovery */
    uint32_t node_count, node_capacity;
    struct schema_anchor
        *anchors; /* `$anchor` and `$id`, the latter with a name that starts with $ */
    uint32_t anchor_count, anchor_capacity;
    struct schema_ignored *ignored;
    uint32_t ignored_count, ignored_capacity;
    struct bl_pattern **patterns; /* all, to be freed */
    uint32_t pattern_count, pattern_capacity;
};

/* ---- Compiling ------------------------------------------------------------------------------- */

/* Returns the node of a schema in our copy. Makes and queues it if it is new; only then is its
 * place set. */
int schema_node_find(struct bl_json_schema *schema, const struct bl_json *source,
                     const struct schema_node *place, struct schema_node **ret_node,
                     struct bl_error *error);
/* Sets the error BL_EINVAL, with the keyword's pointer as its target. */
int schema_refuse(struct bl_json_schema *schema, const struct schema_node *node,
                  const char *keyword, struct bl_error *error, const char *format, ...)
    BL_PRINTF(5, 6);
/* Sets node->reference from its $ref. */
int schema_reference_resolve(struct bl_json_schema *schema, struct schema_node *node,
                             struct bl_error *error);
/* BL_EINVAL if a schema applies itself to its own value. */
int schema_circle_refuse(struct bl_json_schema *schema, struct bl_error *error);
/* Returns the pointer of a keyword of `node` ("" for the schema itself). */
struct bl_text schema_pointer(struct bl_arena *arena, const struct schema_node *node,
                              struct bl_text keyword);
/* Grows an array in the schema's arena by one item. */
void *schema_grow(struct bl_arena *arena, void *items, uint32_t count, uint32_t *capacity,
                  size_t item_size);

/* ---- Checking -------------------------------------------------------------------------------- */

/* A problem and its sort key. */
struct schema_problem {
    struct bl_json_problem shown;
    const struct bl_json *value;
};

/* Collects the problems of a branch. */
struct schema_sink {
    struct bl_list problems;
    const struct bl_json *value; /* the value of the branch */
    uint32_t count;
    uint32_t distance; /* from the value to this branch */
    bool failed;
    bool quiet; /* only `failed` is needed */
};

/* A schema being checked against a value. */
struct schema_frame {
    const struct schema_node *node;
    const struct bl_json *value;
    struct schema_sink *sink;
    struct schema_sink *branch;   /* of the alternative that is being tried */
    struct schema_sink *closest;  /* of the best alternative that failed */
    const struct bl_json *cursor; /* element or key being visited */
    uint32_t phase;               /* enum phase in check.c */
    uint32_t index;               /* within that phase */
    uint32_t fits;                /* alternatives of oneOf that fit */
    uint32_t first_fit;           /* index of the first of them */
    uint32_t closest_index;
    uint32_t parent;           /* 1 + index of the frame of the enclosing value; 0: none */
    uint32_t element;          /* position in that value if it is an array */
    const struct bl_json *key; /* key in that value if it is an object */
    bool is_name;              /* value is the name of a member */
    bool known;                /* the member was named by properties or patternProperties */
};

struct schema_check {
    const struct bl_json_schema *schema;
    struct bl_arena *arena;
    struct schema_frame *frames; /* on the heap */
    uint32_t frame_count, frame_capacity;
    uint64_t steps;      /* left in the budget */
    size_t words;        /* bytes of problems so far */
    struct bl_list idle; /* sinks to reuse: a check may open millions */
    struct bl_buffer message;
    const char *exhausted; /* the limit that was reached, or NULL */
};

/* Takes `count` from the budget. Returns false if it is exhausted; the check then ends. */
bool schema_spend(struct schema_check *check, uint64_t count);
/* True if the pattern matches within the budget. */
bool schema_search(struct schema_check *check, const struct bl_pattern *pattern,
                   struct bl_text text);
/* Checks all assertions about the value alone. Problems go to the frame's sink. */
void schema_assert(struct schema_check *check, const struct schema_frame *frame);
uint8_t schema_types_of(const struct bl_json *value);

/* Begins a message in check->message, to which the caller appends. Returns NULL if the message is
 * not needed. */
struct bl_buffer *schema_message(struct schema_check *check, const struct schema_frame *frame);
/* Adds a problem with that keyword and the message appended since schema_message. `member` (may be
 * NULL) is the key of the member that the problem is about. */
void schema_problem(struct schema_check *check, const struct schema_frame *frame,
                    const char *keyword, const struct bl_json *member);
/* Appends "unknown property …; known: …", with a suggestion. */
void schema_unknown_append(struct bl_buffer *out, const struct schema_node *node,
                           struct bl_text name);

#endif
