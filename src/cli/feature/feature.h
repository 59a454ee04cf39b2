/* Shared by the files of `belay feature …`. */
#ifndef BELAY_CLI_FEATURE_H
#define BELAY_CLI_FEATURE_H

#include <belay/feature.h>
#include <belay/serve.h>

#include "cli/cli.h"

enum feature_verb {
    FEATURE_NEW,
    FEATURE_VALIDATE,
    FEATURE_RUN,
    FEATURE_STATUS,
    FEATURE_LIST,
    FEATURE_LOGS,
    FEATURE_CANCEL,
    FEATURE_PAUSE,
    FEATURE_RESUME,
    FEATURE_EXTEND,
    FEATURE_RETRY,
    FEATURE_CLEAN,
    FEATURE_REPORT,
};

/* The command line. Strings belong to it or to the arena. */
struct feature_options {
    struct bl_arena arena;
    struct cli_call *call;
    enum feature_verb verb;
    const char *name;      /* FEAT, FEAT/TASK, TASK or a path, as given; NULL: none */
    const char *task;      /* the part after the slash; NULL: none */
    const char *store;     /* NULL: the default */
    const char *directory; /* absolute: the working directory */
    struct bl_plan_overrides overrides;
    const char *base;
    const char **tasks; /* --task, NULL-terminated; NULL: none */
    size_t task_count;
    uint32_t more_turns;
    bool require_clean;
    bool take_over;
    bool fresh;
    bool dry_run;
    bool all;    /* list */
    bool follow; /* logs */
    uint32_t turn;
    const char *phase;
    const char *html;
    const char **texts; /* new: the tasks, NULL-terminated; NULL: none */
    size_t text_count;
    const char *from;    /* new: a file with the tasks */
    const char *prompt;  /* new: the prompt for a model that plans */
    const char *title;   /* new: name of the feature */
    const char **verify; /* new: commands, NULL-terminated; NULL: none */
    size_t verify_count;
    bool in_order;
    const char *longer; /* extend: the amount, as given */
    uint64_t extend_ns; /* extend: the amount */
};

/* Reads the command line. Returns 0, CLI_OPTION_HELP, or an error code. Call feature_options_done
 * in every case. */
int feature_options_read(struct cli_call *call, struct feature_options *options,
                         struct bl_error *error);
void feature_options_done(struct feature_options *options);
const char *feature_verb_name(enum feature_verb verb);

/* Each runs a command, prints its output, and returns the exit code. */
int feature_run_command(const struct feature_options *options); /* run, resume, retry */
int feature_new_command(const struct feature_options *options);
int feature_validate_command(const struct feature_options *options);
int feature_status_command(const struct feature_options *options);
int feature_list_command(const struct feature_options *options);
int feature_logs_command(const struct feature_options *options);
int feature_clean_command(const struct feature_options *options);
int feature_report_command(const struct feature_options *options);
/* cancel, pause and extend; and the part of resume that reaches a live runner. `ret_live` is for
 * resume, else NULL: `*ret_live` is false if there is no live runner, and then nothing was
 * printed. */
int feature_ask_command(const struct feature_options *options, bool *ret_live);

/* ---- Shared by commands that read the store (find.c), in fibers ------------------------------ */

/* Opens the store that the options name (`reading`: read-only). Errors as in bl_store_open. */
int feature_store_open(const struct feature_options *options, bool reading,
                       struct bl_store **ret_store, struct bl_error *error);
/* Resolves NAME: FEAT, FEAT/TASK, TASK alone if it is unique in the store, or the path of a plan;
 * in the arena. `*ret_task` is NULL if no task was named. BL_ENOENT with a suggestion. */
int feature_name_resolve(const struct feature_options *options, struct bl_store *store,
                         struct bl_arena *arena, const char **ret_repository, const char **ret_id,
                         const char **ret_task, struct bl_error *error);
/* Opens an existing store, for commands that must not create one. BL_ENOENT, kind feature, if there
 * is none. */
int feature_store_find(const struct feature_options *options, struct bl_store **ret_store,
                       struct bl_error *error);

/* The state of a command about one feature. Embedded by it. */
struct feature_work {
    const struct feature_options *options;
    struct bl_arena arena;
    struct bl_store *store;
    const char *repository;
    const char *id;
    const char *task; /* NULL: the whole feature */
    struct bl_feature_view *view;
    struct bl_error error;
};

void feature_work_init(struct feature_work *work, const struct feature_options *options);
void feature_work_done(struct feature_work *work);
/* In a fiber: opens the store and resolves the name. Call feature_work_close in every case. */
int feature_work_open(struct feature_work *work);
void feature_work_close(struct feature_work *work);
/* Reads the current view. */
int feature_work_look(struct feature_work *work);

/* ---- Loading a plan (validate.c) ------------------------------------------------------------- */

/* The inputs that come from files, read on a thread because files may block. Owns all its
 * members. */
struct feature_preparation {
    struct bl_arena arena;
    const char *name; /* the plan: an id or a path */
    const char *directory;
    struct bl_plan_overrides overrides;
    struct bl_project project; /* the results */
    struct bl_list problems;   /* struct bl_plan_problem */
    struct bl_plan *plan;      /* NULL: invalid; see `problems` or `error` */
    int code;
    struct bl_error error;
};

/* In a fiber: loads the plan of that name. BL_ECANCELED, BL_ETIMEDOUT: stopped, and the preparation
 * is left to the thread that still reads. Otherwise returns 0, and the preparation has the
 * result. */
int feature_prepare(const struct feature_options *options, const char *name,
                    struct feature_preparation **ret_preparation);
void feature_preparation_free(void *preparation); /* NULL is fine */
/* Appends "FILE:LINE: CODE message" for each problem, and a summary line. */
void feature_problems_text(const struct feature_preparation *preparation, struct bl_buffer *out);
/* Errors and warnings of a plan, for JSON. */
struct feature_problems {
    struct bl_list errors;
    struct bl_list warnings;
};
#define FEATURE_MEMBER_PROBLEMS(key, field, ...)                                                   \
    BL_MEMBER_LIST(key, field, &bl_plan_problem_record, struct bl_plan_problem, link, __VA_ARGS__)
/* Moves the problems; they stay in the preparation's memory. NULL: no problems. */
void feature_problems_take(struct feature_preparation *preparation,
                           struct feature_problems *ret_problems);

/* The answer of run, resume, retry, and of status for one feature (run.c). */
struct feature_outcome {
    struct bl_feature_view view;  /* a copy: do not iterate over its lists */
    const struct bl_error *error; /* if there is no view */
    struct feature_problems problems;
    bool of_run;
    bool of_task;
    const struct bl_task_row *task; /* NULL: not in the store */
    const struct bl_json *checkpoint;
};

/* Writes a new file, completely and durably or not at all. Returns 0 or errno (report.c). */
int feature_write_new(const char *path, struct bl_text text);

/* ---- The runner's methods (methods.c) -------------------------------------------------------- */

/* A request to a runner, and its reply. */
struct feature_request {
    const char *feature;
    const char *repository;
    const char *task;   /* NULL: the whole feature */
    const char *origin; /* of a cancel; NULL: unknown */
    uint64_t by_ms;     /* of extend, else 0 */
};
struct feature_reply {
    const struct bl_json *receipt; /* of a cancel; NULL: none */
    struct bl_text written;        /* the same receipt, to be sent */
    bool already;                  /* the work had already ended */
    bool changed;                  /* changed by a pause or a resume */
    double deadline_s;             /* of extend */
};
extern const struct bl_record feature_request_record, feature_cancelled_record,
    feature_changed_record, feature_extended_record;

/* Offers feature.cancel, feature.pause, feature.resume and feature.extend on the control socket.
 * `feature` must outlive the control. */
void feature_methods_offer(struct bl_control *control, struct bl_feature *feature);

/* ---- Display of a run (display.c, lines.c) --------------------------------------------------- */

struct feature_display;

/* Shows a live table on a terminal (standard error when standard output is not one, else standard
 * output), at most 4 times a second, in a fiber of the nursery. */
struct feature_display *feature_display_new(struct bl_nursery *nursery, struct bl_feature *feature,
                                            int fd);
void feature_display_free(struct feature_display *display); /* removes the table; accepts NULL */
/* Appends the table for a view, as text. */
struct feature_table_look {
    size_t columns; /* at least 40 */
    size_t rows;    /* maximum of lines: ended and waiting tasks are summarized first */
    bool colours;
    int64_t wall_ns; /* now, for the time since the last activity */
};
int feature_table_draw(const struct bl_feature_view *view, const struct feature_table_look *look,
                       struct bl_buffer *out);
/* Formats a duration in a few columns: "4m", "12s", "2h05m"; negative: "–". */
const char *feature_span_text(double seconds, char out[16]);
/* Formats with bl_duration_format; negative: "–". */
const char *feature_duration_text(double seconds, char out[32]);
/* Returns the seconds from `then_ns` to `wall_ns`, or a negative value if `then_ns` is not set. */
double feature_time_since(int64_t then_ns, int64_t wall_ns);
/* Appends untrusted text on one line: control characters escaped, invalid UTF-8 replaced, long
 * texts cut. */
void feature_put_safe(struct bl_buffer *out, struct bl_text text);
/* Appends the banner; `view` (NULL: unknown) is the state at the start. Adds the warnings it shows
 * to `warned` (here and below NULL: not recorded). */
int feature_banner_text(const struct bl_plan *plan, const struct bl_plan_overrides *overrides,
                        const struct bl_feature_view *view, struct bl_map *warned,
                        struct bl_buffer *out);
bool feature_event_has_line(struct bl_text type);
/* Appends an event as a line of text, or nothing if it has none. */
int feature_event_line(struct bl_text type, const struct bl_json *event, struct bl_buffer *out);
/* Appends the end of the output: a line for each task, unverified work, warnings not shown before
 * (`warned` has those that were), receipts, `git merge …`. */
int feature_end_text(const struct bl_feature_view *view, const struct bl_map *warned,
                     struct bl_buffer *out);

#endif
