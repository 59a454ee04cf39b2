/* The contents of a report: computed once from the view of a feature, so that text and HTML cannot
 * show different numbers. Numbers are texts here; an unknown value is "–". */
#ifndef BELAY_FEATURE_REPORT_H
#define BELAY_FEATURE_REPORT_H

#include "feature/parts.h"

#define REPORT_UNKNOWN "–"

/* Parses the output of bl_time_format, in milliseconds since 1970. Returns false for NULL and other
 * texts. */
bool view_time_read(const char *text, int64_t *ret_wall_ms);
/* Converts a time in nanoseconds. Returns false for 0. */
bool view_time_ms(int64_t wall_ns, int64_t *ret_wall_ms);
/* Fills a task from its row in the store. Values that the row lacks stay as the plan set them.
 * Running times are measured at `now_ns`. */
void view_task_read(struct bl_arena *arena, const struct bl_json *json, int64_t now_ns,
                    struct bl_task_view *task);
/* Parses a record into the arena. Returns NULL if it is invalid. */
const struct bl_json *view_record_read(struct bl_arena *arena, struct bl_text json);

/* ---- Texts ----------------------------------------------------------------------------------- */

enum clean_form {
    CLEAN_LINE,       /* LF and tab are escaped too */
    CLEAN_LINES,      /* LF and tab are kept */
    CLEAN_HTML_LINE,  /* CLEAN_LINE with HTML's special characters as references */
    CLEAN_HTML_LINES, /* CLEAN_LINES with HTML's special characters as references */
};

/* Appends untrusted text so that it is visible and has no effect: control characters and
 * bidirectional controls are shown escaped (\x1b, \u202e), invalid UTF-8 becomes U+FFFD. */
int clean_append(struct bl_buffer *out, struct bl_text text, enum clean_form form);

/* The output of a report. Keeps the first error. */
struct page {
    struct bl_buffer *out;
    int code;
};

void page_put(struct page *page, const char *format, ...) BL_PRINTF(2, 3);
void page_clean(struct page *page, const char *text, enum clean_form form); /* NULL: "–" */

/* ---- Time axis ------------------------------------------------------------------------------- */

/* A part of the axis. A long idle time between two stretches is drawn short and labelled. */
struct report_stretch {
    int64_t from_ms; /* wall clock */
    int64_t to_ms;
    double from; /* 0 to 1: position on the axis */
    double to;
    bool idle; /* an idle time between two stretches */
};

struct report_tick {
    double at;
    bool first;        /* first of a stretch: `label` is the time of day, else the time since
                          then */
    const char *label; /* "10:00:07", "+30 s" */
};

struct report_axis {
    struct report_stretch *stretches; /* empty: no times are known */
    size_t count;
    struct report_tick *ticks;
    size_t tick_count;
};

double report_axis_at(const struct report_axis *axis, int64_t wall_ms);

/* ---- Parts ----------------------------------------------------------------------------------- */

enum report_phase {
    REPORT_PLAYER,
    REPORT_VERIFY,
    REPORT_COACH,
    REPORT_OTHER,
};

const char *report_phase_name(enum report_phase phase);

struct report_bar {
    enum report_phase phase;
    const char *outcome; /* running, ended, stopped, failed, carried; "": unknown */
    int64_t from_ms;
    int64_t to_ms;
    double from;
    double to;
    const char *time;
};

struct report_turn {
    const struct task_turn *row;
    const char *summary;   /* summary in the Player's result; NULL: none */
    const char *rationale; /* the Coach's; NULL: none */
    struct criterion_result *criteria;
    size_t criterion_count;
    uint32_t attempt;
    uint32_t turn;
    bool merge;
    bool counted;
    const char *decision;
    const char *verified;
    const char *time;
    const char *tokens;
    const char *cost;
    struct report_bar *bars;
    size_t bar_count;
    double from; /* extent of all its bars; negative: no bars */
    double to;
};

enum report_mark_kind {
    REPORT_DEADLINE,
    REPORT_MERGED,
    REPORT_STOPPED,
};

struct report_mark {
    enum report_mark_kind kind;
    double at;
    bool beyond;      /* after the end of the axis, and drawn there */
    const char *what; /* a sentence */
};

/* A stop and its proof. */
struct report_stop {
    const char *what; /* the task, the feature, or a scope */
    uint32_t attempt; /* 0: not a task */
    const char *reason;
    const char *triggered_by;
    const char *cause;                    /* reason and origin: "timeout, by timer"; "user" */
    const char *at;                       /* a time, or "–" */
    const char *sentence;                 /* "Stopped in 206 ms: …", or why there is no receipt */
    const char *receipt_id;               /* NULL: none */
    const struct bl_receipt_row *receipt; /* NULL: none, or not in the store */
    const struct bl_checkpoint *checkpoint; /* NULL: none */
};

struct report_task {
    const struct bl_task_view *view;
    const char *id;   /* escaped, for one line */
    const char *said; /* bl_task_view_text */
    const char *attempts;
    const char *turns;
    const char *verified;
    const char *time;     /* sum of all attempts */
    const char *deadline; /* "2400 s + 120 s coach grace" */
    const char *tokens;
    const char *cost;
    struct report_turn *all_turns; /* sorted by attempt and number */
    size_t turn_count;
    struct report_mark *marks;
    size_t mark_count;
    struct bl_task_view *attempt_views; /* oldest first; the newest is the task's own */
    size_t attempt_count;
};

struct report_wave {
    const struct bl_wave_view *view;
    const char *time;
    const char *gate; /* in words */
};

struct report_totals {
    const char *done; /* "3/4" */
    const char *states;
    const char *attempts;
    const char *turns;
    const char *time; /* wall-clock time of the feature */
    const char *work; /* working time of all tasks */
    const char *input_tokens;
    const char *output_tokens;
    const char *tokens;
    const char *cost;
    const char *stops;
};

struct report {
    struct bl_arena arena;
    const struct bl_feature_view *view;
    struct report_axis axis;
    struct report_task *tasks; /* same order as the view's */
    struct report_wave *waves; /* same order as the view's */
    struct report_stop *stops; /* in chronological order */
    size_t stop_count;
    struct report_totals totals;
    const char *state; /* "failed, exit code 1" */
    const char *date;  /* of the first tick: "2026-11-16 UTC" */
    int64_t end_ms;    /* the newest known time; the end of running bars */
};

void report_make(const struct bl_feature_view *view, struct report *report);
void report_done(struct report *report);
void report_stops_make(struct report *report);
/* Computes the axis over all bars, and the position of each bar. */
void report_place(struct report *report);
/* Formats "4m 10s"; negative: "–". */
const char *report_seconds(struct bl_arena *arena, double seconds);
/* Formats like bl_time_format; returns NULL for 0. */
const char *report_time(struct bl_arena *arena, int64_t wall_ns);
/* Formats with thousands separators if it is a whole number; negative: "–". */
const char *report_number(struct bl_arena *arena, double number);
/* Formats a number of survivors; BL_SURVIVORS_UNKNOWN: "–". */
const char *report_survivors(struct bl_arena *arena, uint32_t survivors);

/* For HTML: the style sheet, and the turns of a task. */
extern const char report_style[];
void report_html_turns(struct page *page, struct report *report);
void report_html_badge(struct page *page, const char *word, const char *shown);
const char *report_html_phase(enum report_phase phase); /* CSS class of its bars */
/* Returns the list, or an empty one if the view was built by hand without it. */
const struct bl_list *report_list(const struct bl_list *list);

#endif
