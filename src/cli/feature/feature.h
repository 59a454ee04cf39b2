/* `belay feature …`: what the files of this command share. */
#ifndef BELAY_CLI_FEATURE_H
#define BELAY_CLI_FEATURE_H

#include <belay/feature.h>
#include <belay/serve.h>

#include "cli/cli.h"

enum feature_verb {
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

/* What the command line says. Texts are its own, or the arena's. */
struct feature_options {
    struct bl_arena arena;
    struct cli_call *call;
    enum feature_verb verb;
    const char *name;      /* FEAT, FEAT/TASK, TASK or a path, as it was given; NULL: none */
    const char *task;      /* the part after the slash; NULL: none */
    const char *store;     /* NULL: the default */
    const char *directory; /* absolute: where one stands */
    struct bl_plan_overrides overrides;
    const char *base;
    const char **tasks; /* --task, end in NULL; NULL: none */
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
    const char *longer; /* extend: how much */
    uint64_t extend_ns; /* the same */
};

/* 0; CLI_OPTION_HELP: help is asked for; else what is wrong. In every case feature_options_done is
 * called. */
int feature_options_read(struct cli_call *call, struct feature_options *options,
                         struct bl_error *error);
void feature_options_done(struct feature_options *options);
const char *feature_verb_name(enum feature_verb verb);

/* Each is a whole command: prints its answer, and returns the exit code. */
int feature_run_command(const struct feature_options *options); /* run, resume, retry */
int feature_validate_command(const struct feature_options *options);
int feature_status_command(const struct feature_options *options);
int feature_list_command(const struct feature_options *options);
int feature_logs_command(const struct feature_options *options);
int feature_clean_command(const struct feature_options *options);
int feature_report_command(const struct feature_options *options);
/* cancel, pause, extend; of resume the part that reaches a live runner: `*ret_live` false: there is
 * none, and nothing was printed. NULL for the others. */
int feature_ask_command(const struct feature_options *options, bool *ret_live);

/* ---- What those who look share (feature_find.c), in fibers ----------------------------------- */

/* The store, opened as the options say (reading alone, if so asked); errors as bl_store_open. */
int feature_store_open(const struct feature_options *options, bool reading,
                       struct bl_store **ret_store, struct bl_error *error);
/* What NAME means: FEAT, FEAT/TASK, TASK alone where it is unique in the store, or the path of a
 * plan; in the arena. `*ret_task` NULL: none was named. BL_ENOENT with a suggestion. */
int feature_name_resolve(const struct feature_options *options, struct bl_store *store,
                         struct bl_arena *arena, const char **ret_repository, const char **ret_id,
                         const char **ret_task, struct bl_error *error);
/* One that is there, for who looks or asks: none is made. BL_ENOENT, kind feature: there is none.
 */
int feature_store_find(const struct feature_options *options, struct bl_store **ret_store,
                       struct bl_error *error);

/* A command that is about one feature, while it works. Embedded by it. */
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
/* In a fiber: finds the store, and what is named there. Closed in every case. */
int feature_work_open(struct feature_work *work);
void feature_work_close(struct feature_work *work);
/* The view, as it is now. */
int feature_work_look(struct feature_work *work);

/* ---- What a plan is read with (feature_validate.c) ------------------------------------------- */

/* All that comes from files, read on a thread of its own, because files may block. Owns all it
 * holds. */
struct feature_preparation {
    struct bl_arena arena;
    const char *name; /* of the plan: an id or a path */
    const char *directory;
    struct bl_plan_overrides overrides;
    struct bl_project project; /* the results */
    struct bl_list problems;   /* struct bl_plan_problem */
    struct bl_plan *plan;      /* NULL: it is not valid, and `problems` or `error` say why */
    int code;
    struct bl_error error;
};

/* In a fiber: reads the plan of that name. BL_ECANCELED, BL_ETIMEDOUT: stopped, and whoever still
 * reads is left to it; else 0, and the preparation says what came of it. */
int feature_prepare(const struct feature_options *options, const char *name,
                    struct feature_preparation **ret_preparation);
void feature_preparation_free(void *preparation); /* NULL is fine */
/* "FILE:LINE: CODE message" for each problem, and a line that sums up. */
void feature_problems_text(const struct feature_preparation *preparation, struct bl_buffer *out);
/* The same for JSON: errors and warnings of a plan. */
struct feature_problems {
    struct bl_list errors;
    struct bl_list warnings;
};
#define FEATURE_MEMBER_PROBLEMS(key, field, ...)                                                   \
    BL_MEMBER_LIST(key, field, &bl_plan_problem_record, struct bl_plan_problem, link, __VA_ARGS__)
/* Moves them; they stay in the preparation's memory. NULL: there are none. */
void feature_problems_take(struct feature_preparation *preparation,
                           struct feature_problems *ret_problems);

/* What run, resume and retry answer, and status of one feature (feature_run.c). */
struct feature_outcome {
    struct bl_feature_view view;  /* a copy: its lists are not for walking */
    const struct bl_error *error; /* without a view */
    struct feature_problems problems;
    bool of_run;
    bool of_task;
    const struct bl_task_row *task; /* NULL: none is on record */
    const struct bl_json *checkpoint;
};

/* ---- The runner's methods (feature_methods.c) ------------------------------------------------ */

/* What a runner is asked, and what it answers. */
struct feature_request {
    const char *feature;
    const char *repository;
    const char *task;   /* NULL: all of it */
    const char *origin; /* of a cancel; NULL: not said */
    uint64_t by_ms;     /* of extend, else 0 */
};
struct feature_reply {
    const struct bl_json *receipt; /* of a cancel; NULL: none */
    struct bl_text written;        /* the same, to be sent */
    bool already;                  /* it had ended before */
    bool changed;                  /* by a pause or a resume */
    double deadline_s;             /* of extend */
};
extern const struct bl_record feature_request_record, feature_cancelled_record,
    feature_changed_record, feature_extended_record;

/* feature.cancel, feature.pause, feature.resume, feature.extend for whoever asks over the control
 * socket. `feature` outlives the control. */
void feature_methods_offer(struct bl_control *control, struct bl_feature *feature);

/* ---- What a run shows (feature_display.c, feature_lines.c) ----------------------------------- */

struct feature_display;

/* On a terminal (standard error when standard output is none, else standard output): a live table,
 * at most 4 times a second, in a fiber of the nursery. */
struct feature_display *feature_display_new(struct bl_nursery *nursery, struct bl_feature *feature,
                                            int fd);
void feature_display_free(struct feature_display *display); /* takes the table off; NULL is fine */
/* The table for a view, as text. */
struct feature_table_look {
    size_t columns; /* at least 40 */
    size_t rows;    /* at most so many lines: what has ended, and what waits, is summed up first */
    bool colours;
    int64_t wall_ns; /* now: how long somebody has been quiet */
};
int feature_table_draw(const struct bl_feature_view *view, const struct feature_table_look *look,
                       struct bl_buffer *out);
/* "4m", "12s", "2h05m": a span of time in a few columns; "–": it is not known (negative). */
const char *feature_span_text(double seconds, char out[16]);
/* Seconds from a time as bl_time_format writes it to `wall_ns`; negative: there is none. */
double feature_time_since(int64_t then_ns, int64_t wall_ns);
/* Text of others on one line: controls escaped, what is no UTF-8 replaced, cut when it is long. */
void feature_put_safe(struct bl_buffer *out, struct bl_text text);
/* What is said at the beginning; `view` (NULL: not known) is how things stand then. */
int feature_banner_text(const struct bl_plan *plan, const struct bl_plan_overrides *overrides,
                        const struct bl_feature_view *view, struct bl_buffer *out);
bool feature_event_has_line(struct bl_text type);
/* One event as a line for people; nothing: it has none. */
int feature_event_line(struct bl_text type, const struct bl_json *event, struct bl_buffer *out);
/* What is said at the end: a line a task, what is unverified, receipts, `git merge …`. */
int feature_end_text(const struct bl_feature_view *view, struct bl_buffer *out);

#endif
