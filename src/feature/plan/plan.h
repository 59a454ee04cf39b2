/* Loading a plan: shared by the files of this folder.
 *
 * Each part is read and checked on its own, and errors are only collected, so that one error does
 * not hide another. Declared values (plan_said) are kept apart from resolved ones, because the same
 * key may be set in several places; plan.c resolves them at the end. */
#ifndef BELAY_FEATURE_PLAN_H
#define BELAY_FEATURE_PLAN_H

#include <belay/feature.h>
#include <belay/source.h>

#define PLAN_SIZE_MAX         ((size_t)1 << 20)
#define PLAN_TASK_SIZE_MAX    ((size_t)256 * 1024)
#define PLAN_DEPTH_MAX        32u
#define PLAN_ALIASES_MAX      100u
#define PLAN_TASKS_MAX        500u
#define PLAN_WAVES_MAX        100u
#define PLAN_DEPENDENCIES_MAX 64u
#define PLAN_CRITERIA_MAX     200u
#define PLAN_DURATION_MAX_NS  (7ull * 24 * 3600 * BL_NS_PER_S)

/* A file of the plan. In the plan's arena. */
struct plan_file {
    const char *name;    /* name in errors: relative to the repository */
    struct bl_text text; /* the whole file */
    struct bl_document document;
};

/* ---- Declared values ------------------------------------------------------------------------- */

/* The place that determined the timeout of a task. */
struct plan_timeout {
    const char *source; /* "default", "feature", "autobuild", "task" or "command line" */
    bool own;           /* the task's own file sets it */
    uint32_t line;      /* 0: set in no file */
};

/* A seat as declared in one place. NULL or a false `…_said`: not set. */
struct plan_seat_said {
    const struct plan_file *file; /* the file with the mapping; NULL: not declared */
    const struct bl_json *mapping;
    const char *provider;
    const char *model;
    const char *persona;
    bool permission_said;
    enum bl_permission_mode permission;
    uint64_t max_steps; /* 0: not set */
    const char *const *command;
    const struct bl_json *acp;
    bool grace_said;
    uint64_t grace_ns;
    bool sandbox_said;
    enum bl_sandbox sandbox;
};

enum plan_seat {
    PLAN_PLAYER,
    PLAN_COACH,
};

/* A `belay:` mapping. */
struct plan_said {
    struct plan_seat_said seats[2];
    struct bl_verify_plan verify; /* in a task: read over the feature's */
    enum bl_on_failure on_failure;
};

/* ---- Loading --------------------------------------------------------------------------------- */

/* Loading state of a struct bl_plan_task. */
struct plan_draft {
    const struct bl_json *node;          /* its entry in the feature file */
    const struct bl_json *id;            /* node of its id; NULL: no usable id */
    const struct bl_json **dependencies; /* nodes, all texts */
    size_t dependency_count;
    struct plan_file file; /* the task's own; name NULL: not readable */
    struct plan_said said;
    struct bl_feature_limits limits; /* the feature's, overridden by the task's file */
    struct plan_timeout timeout;
    const char *oracle; /* NULL: none */
    size_t wave;        /* the declared wave, from 1; 0: none */
};

struct plan_loader {
    const struct bl_plan_options *options;
    struct bl_plan *plan;
    struct bl_arena *arena; /* the plan's */
    struct bl_arena *told;  /* the caller's, for errors */
    struct bl_list errors;  /* struct bl_plan_problem, in the order found */
    size_t problem_count;   /* including warnings */
    size_t suggestion_count;
    struct bl_map seen; /* problems by text: an alias can produce the same problem twice */
    struct plan_file file;
    struct bl_feature_limits limits; /* of the feature; the command line overrides them */
    struct plan_timeout timeout;
    struct plan_said said; /* of the feature */
    struct plan_draft *drafts;
    struct bl_map ids;  /* ids in lower case; value: number of the task + 1 */
    const char *oracle; /* default for tasks without their own */
    bool tasks_cut;     /* not all tasks were read: an unknown name may be one of the rest */
    bool waves_cut;
    size_t *kept_waves; /* by declared wave: the number of waves kept up to it */
    size_t declared_waves;
};

/* ---- read.c: files, values and problems ------------------------------------------------------ */

void plan_loader_init(struct plan_loader *loader, const struct bl_plan_options *options,
                      struct bl_arena *told);
void plan_loader_done(struct plan_loader *loader);

/* Adds an error; `line` 0: the file as a whole. Terminal control characters are escaped. */
void plan_fault_line(struct plan_loader *loader, const char *file, uint32_t line, const char *code,
                     const char *format, ...) BL_PRINTF(5, 6);
/* Adds an error at a node; NULL: at the first line. */
void plan_fault(struct plan_loader *loader, const struct plan_file *file,
                const struct bl_json *node, const char *code, const char *format, ...)
    BL_PRINTF(5, 6);
void plan_warn(struct plan_loader *loader, const struct plan_file *file, const struct bl_json *node,
               const char *format, ...) BL_PRINTF(4, 5);
void plan_warn_line(struct plan_loader *loader, const char *file, uint32_t line, const char *format,
                    ...) BL_PRINTF(4, 5);
uint32_t plan_line(const struct plan_file *file, const struct bl_json *node);
/* Returns " Did you mean 'a', 'b' or 'c'?", or an empty string; in the arena. */
const char *plan_suggest(struct plan_loader *loader, const char *word, const char *const *names,
                         size_t count);
/* Returns the beginning of a text, for messages. */
const char *plan_show(struct plan_loader *loader, struct bl_text text);
/* Describes a value for messages: "'abc'", "a list", "empty". */
const char *plan_show_value(struct plan_loader *loader, const struct bl_json *value);

/* Returns a source that replaces the file, or NULL if the file is on disk. */
const struct bl_plan_source *plan_source(const struct plan_loader *loader, const char *path);
/* Loads a whole file, UTF-8. Returns false after adding an E01. */
bool plan_file_load(struct plan_loader *loader, const char *path, size_t size_max,
                    struct plan_file *file);
/* Parses `yaml`, a part of the file's text that starts at its first line, as a mapping. */
bool plan_file_parse(struct plan_loader *loader, struct plan_file *file, struct bl_text yaml);

/* Returns the key node of a member, or NULL if it is missing or null. The value is at key + 1. */
const struct bl_json *plan_member(const struct bl_json *mapping, const char *name);
/* Returns a scalar's text, whatever type YAML gives it; in the arena. Returns false if the value is
 * not a scalar. */
bool plan_scalar(struct plan_loader *loader, const struct bl_json *value, struct bl_text *ret_text);
/* Like plan_scalar, but NUL bytes are an error with that code. `name` describes the value. */
bool plan_text(struct plan_loader *loader, const struct plan_file *file,
               const struct bl_json *value, const char *code, const char *name,
               const char **ret_text);
bool plan_integer(struct plan_loader *loader, const struct bl_json *value, int64_t *ret_integer);
/* Reads a mapping over the contents of `*into`, and adds an error for every problem: E07 for
 * numbers and durations, E08 for words and unknown keys, else `code`. Returns false if there was an
 * error. In open records, a key close to a known one is a warning. */
bool plan_record_read(struct plan_loader *loader, const struct plan_file *file,
                      const struct bl_record *record, const struct bl_json *mapping,
                      const char *code, void *into);
extern const struct bl_form plan_form_command; /* a shell command: not empty */

/* ---- find.c ---------------------------------------------------------------------------------- */

bool plan_id_valid(struct bl_text id);
/* Returns " The plans here are A, B and 3 more.", or a sentence that there are none; in the
 * arena. */
const char *plan_known(struct plan_loader *loader, const char *repository);
/* Sets the plan's path and repository. BL_EINVAL if an error was added; any other error means that
 * there is no repository. */
int plan_find(struct plan_loader *loader, struct bl_error *error);

/* ---- check.c: the parts of a feature file ---------------------------------------------------- */

/* Reads a `belay:` mapping, of the feature or of a task (`draft` not NULL). */
void plan_said_read(struct plan_loader *loader, struct plan_draft *draft,
                    const struct bl_json *mapping);
void plan_feature_read(struct plan_loader *loader);
/* Call after the waves are known. */
void plan_gate_read(struct plan_loader *loader);
/* Returns behavioural_oracle of a mapping, or NULL. */
const char *plan_oracle_read(struct plan_loader *loader, const struct plan_file *file,
                             const struct bl_json *mapping);

/* ---- limits.c -------------------------------------------------------------------------------- */

/* Sets the defaults. */
void plan_limits_init(struct plan_loader *loader);
/* Reads a `limits:` mapping over the limits of the feature or (`task`) of a task. */
void plan_limits_read(struct plan_loader *loader, const struct plan_file *file,
                      const struct bl_json *mapping, bool task, struct bl_feature_limits *limits,
                      struct plan_timeout *timeout);
void plan_autobuild_read(struct plan_loader *loader, struct plan_draft *draft,
                         const struct bl_json *mapping);
/* Resolve the limits of the feature, then those of each task, with its deadline. */
void plan_limits_decide(struct plan_loader *loader);
void plan_task_limits_decide(struct plan_loader *loader, size_t number);

/* ---- seat.c ---------------------------------------------------------------------------------- */

void plan_seat_read(struct plan_loader *loader, const struct plan_file *file,
                    const struct bl_json *mapping, enum plan_seat which,
                    const struct plan_seat_said *below, struct plan_seat_said *said);
/* Adds an E09 for an agent that has no configured model or no key. */
void plan_seat_check(struct plan_loader *loader, const struct plan_draft *draft,
                     const struct bl_seat *seat, enum plan_seat which);
/* Resolves the declared values; `task` may be NULL. */
void plan_seat_decide(enum plan_seat which, const struct plan_seat_said *feature,
                      const struct plan_seat_said *task, struct bl_seat *seat);

/* ---- task.c ---------------------------------------------------------------------------------- */

/* Reads all task entries and their files. */
void plan_tasks_read(struct plan_loader *loader);

/* ---- criteria.c ------------------------------------------------------------------------------ */

/* Reads the criteria of the body, or else those of the front matter (if the document has a
 * root). */
void plan_criteria_read(struct plan_loader *loader, const struct plan_file *file,
                        struct bl_plan_task *task);

/* ---- graph.c --------------------------------------------------------------------------------- */

/* Returns the number of the task with that id, or SIZE_MAX. */
size_t plan_task_find(const struct plan_loader *loader, struct bl_text id);
const char *const *plan_task_ids(struct plan_loader *loader, size_t *ret_count);
/* Reads dependencies and waves, and checks them against each other. */
void plan_graph_read(struct plan_loader *loader);

/* ---- text.c ---------------------------------------------------------------------------------- */

/* Appends a text with terminal control characters escaped and invalid UTF-8 replaced. */
void plan_escape(struct bl_buffer *out, struct bl_text text);

#endif
