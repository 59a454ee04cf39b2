/* A plan while it is loaded: what the files of plans share.
 *
 * Each part is read and checked on its own, and what is wrong is only noted: so one fault hides no
 * other. What is said (plan_said) is kept apart from what it comes to, since the same key may be
 * said in several places; plan.c decides at the end. */
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

/* One file that is read. In the plan's arena. */
struct plan_file {
    const char *name;    /* what errors call it: relative to the repository */
    struct bl_text text; /* all of it */
    struct bl_document document;
};

/* ---- What is said ---------------------------------------------------------------------------- */

/* Which of the places that may say it has decided the timeout of a task. */
struct plan_timeout {
    const char *source; /* "default", "feature", "autobuild", "task" or "command line" */
    bool own;           /* the task's own file says it */
    uint32_t line;      /* 0: no file says it */
};

/* A seat as one place has it; NULL, or said false: not said. */
struct plan_seat_said {
    const char *provider;
    const char *model;
    const char *persona;
    bool permission_said;
    enum bl_permission_mode permission;
    uint64_t max_steps; /* 0: not said */
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
    struct bl_verify_plan verify; /* of a task: read over the feature's */
    enum bl_on_failure on_failure;
};

/* ---- The loading ----------------------------------------------------------------------------- */

/* A task beside its struct bl_plan_task. */
struct plan_draft {
    const struct bl_json *node;          /* its entry in the feature file */
    const struct bl_json *id;            /* node of its id; NULL: it has none that can be used */
    const struct bl_json **dependencies; /* nodes, each text */
    size_t dependency_count;
    struct plan_file file; /* the task's own; name NULL: it could not be read */
    struct plan_said said;
    struct bl_feature_limits limits; /* the feature's, and what the task's file says over them */
    struct plan_timeout timeout;
    const char *oracle; /* NULL: none */
    size_t wave;        /* as it is declared, from 1; 0: in none */
};

struct plan_loader {
    const struct bl_plan_options *options;
    struct bl_plan *plan;
    struct bl_arena *arena; /* the plan's */
    struct bl_arena *told;  /* the caller's, where errors go */
    struct bl_list errors;  /* struct bl_plan_problem, as they come */
    size_t problem_count;   /* warnings too */
    size_t suggestion_count;
    struct bl_map seen; /* problems by their text: an alias shows the same place twice */
    struct plan_file file;
    struct bl_feature_limits limits; /* of the feature; the command line is above them */
    struct plan_timeout timeout;
    struct plan_said said; /* of the feature */
    struct plan_draft *drafts;
    struct bl_map ids;  /* in lower case; value: number + 1 of the task */
    const char *oracle; /* of all tasks that have none of their own */
    bool tasks_cut;     /* there are more tasks than are read: a name may be one of those */
    bool waves_cut;
    size_t *kept_waves; /* by declared wave: how many waves were kept up to it */
    size_t declared_waves;
};

/* ---- plan_read.c: files, values, and what is wrong with them ---- */

void plan_loader_init(struct plan_loader *loader, const struct bl_plan_options *options,
                      struct bl_arena *told);
void plan_loader_done(struct plan_loader *loader);

/* Notes an error; `line` 0: of the file as a whole. What terminals obey is escaped. */
void plan_fault_line(struct plan_loader *loader, const char *file, uint32_t line, const char *code,
                     const char *format, ...) BL_PRINTF(5, 6);
/* The same where a node stands; NULL: at the first line. */
void plan_fault(struct plan_loader *loader, const struct plan_file *file,
                const struct bl_json *node, const char *code, const char *format, ...)
    BL_PRINTF(5, 6);
void plan_warn(struct plan_loader *loader, const struct plan_file *file, const struct bl_json *node,
               const char *format, ...) BL_PRINTF(4, 5);
void plan_warn_line(struct plan_loader *loader, const char *file, uint32_t line, const char *format,
                    ...) BL_PRINTF(4, 5);
uint32_t plan_line(const struct plan_file *file, const struct bl_json *node);
/* " Did you mean 'a', 'b' or 'c'?", or nothing; in the arena. */
const char *plan_suggest(struct plan_loader *loader, const char *word, const char *const *names,
                         size_t count);
/* The beginning of a text, for messages. */
const char *plan_show(struct plan_loader *loader, struct bl_text text);
/* The text of a value for messages: "'abc'", "a list", "empty". */
const char *plan_show_value(struct plan_loader *loader, const struct bl_json *value);

/* All of a file, UTF-8. False: an E01 was noted. */
bool plan_file_load(struct plan_loader *loader, const char *path, size_t size_max,
                    struct plan_file *file);
/* Reads `yaml`, part of the file's text that begins on its first line, as a mapping. */
bool plan_file_parse(struct plan_loader *loader, struct plan_file *file, struct bl_text yaml);

/* The key of a member; NULL: there is none, or its value is null. Its value is key + 1. */
const struct bl_json *plan_member(const struct bl_json *mapping, const char *name);
/* A scalar's text, whatever YAML makes of it; in the arena. False: it is none. */
bool plan_scalar(struct plan_loader *loader, const struct bl_json *value, struct bl_text *ret_text);
/* The same without NUL bytes; else a fault of that code. `name` is what it is. */
bool plan_text(struct plan_loader *loader, const struct plan_file *file,
               const struct bl_json *value, const char *code, const char *name,
               const char **ret_text);
bool plan_integer(struct plan_loader *loader, const struct bl_json *value, int64_t *ret_integer);
/* Reads a mapping over what `*into` holds; every fault is noted: E07 of numbers and durations, E08
 * of words and unknown keys, else `code`. False: there was one. Keys that are only near to others
 * are warned of in records that are not closed. */
bool plan_record_read(struct plan_loader *loader, const struct plan_file *file,
                      const struct bl_record *record, const struct bl_json *mapping,
                      const char *code, void *into);
extern const struct bl_form plan_form_command; /* for a shell: not empty */

/* ---- plan_find.c ---- */

bool plan_id_valid(struct bl_text id);
/* Sets the plan's path and repository. False: an error was noted. Other than 0 and BL_EINVAL: there
 * is no repository. */
int plan_find(struct plan_loader *loader, struct bl_error *error);

/* ---- plan_check.c: the parts of a feature file ---- */

/* A `belay:` mapping, of the feature or of a task (`draft` not NULL). */
void plan_said_read(struct plan_loader *loader, struct plan_draft *draft,
                    const struct bl_json *mapping);
void plan_feature_read(struct plan_loader *loader);
/* After the waves are known. */
void plan_gate_read(struct plan_loader *loader);
/* behavioural_oracle of a mapping; NULL: none. */
const char *plan_oracle_read(struct plan_loader *loader, const struct plan_file *file,
                             const struct bl_json *mapping);

/* ---- plan_limits.c ---- */

/* What is said where nothing is. */
void plan_limits_init(struct plan_loader *loader);
/* Reads a limits: mapping over the limits of the feature, or (`task`) of a task. */
void plan_limits_read(struct plan_loader *loader, const struct plan_file *file,
                      const struct bl_json *mapping, bool task, struct bl_feature_limits *limits,
                      struct plan_timeout *timeout);
void plan_autobuild_read(struct plan_loader *loader, struct plan_draft *draft,
                         const struct bl_json *mapping);
/* Decides the limits of the feature; then those of a task, with its deadline. */
void plan_limits_decide(struct plan_loader *loader);
void plan_task_limits_decide(struct plan_loader *loader, size_t number);

/* ---- plan_seat.c ---- */

void plan_seat_read(struct plan_loader *loader, const struct plan_file *file,
                    const struct bl_json *mapping, enum plan_seat which,
                    const struct plan_seat_said *below, struct plan_seat_said *said);
/* What is said comes to; `task` may be NULL. */
void plan_seat_decide(enum plan_seat which, const struct plan_seat_said *feature,
                      const struct plan_seat_said *task, struct bl_seat *seat);

/* ---- plan_task.c ---- */

/* All entries, and their files. */
void plan_tasks_read(struct plan_loader *loader);

/* ---- plan_criteria.c ---- */

/* Those of the body, else of the front matter (a document without root: there is none). */
void plan_criteria_read(struct plan_loader *loader, const struct plan_file *file,
                        struct bl_plan_task *task);

/* ---- plan_graph.c ---- */

/* The number of the task of that id; SIZE_MAX: none. */
size_t plan_task_find(const struct plan_loader *loader, struct bl_text id);
const char *const *plan_task_ids(struct plan_loader *loader, size_t *ret_count);
/* Dependencies, waves, and how they go together. */
void plan_graph_read(struct plan_loader *loader);

/* ---- plan_text.c ---- */

/* A text with what terminals obey escaped, and what is no UTF-8 replaced. */
void plan_escape(struct bl_buffer *out, struct bl_text text);
/* "2400", "1.5"; returns `out`. */
const char *plan_seconds(uint64_t ns, char out[32]);

#endif
