/* What a report says of a feature: computed once, from its view, so that text and HTML cannot give
 * different numbers. Numbers are texts here, and what is not known is "–". */
#ifndef BELAY_FEATURE_REPORT_H
#define BELAY_FEATURE_REPORT_H

#include "feature/parts.h"

#define REPORT_UNKNOWN "–"

/* What bl_time_format wrote, in milliseconds since 1970; false: it is not that, or NULL. */
bool view_time_read(const char *text, int64_t *ret_wall_ms);
/* The same of a time; false: it is 0. */
bool view_time_ms(int64_t wall_ns, int64_t *ret_wall_ms);
/* Fills a task from its row in the store; what that does not say is as the task has it from the
 * plan. Times that go on are those of `now_ns`. */
void view_task_read(struct bl_arena *arena, const struct bl_json *json, int64_t now_ns,
                    struct bl_task_view *task);
/* The tree of a record, in the arena; NULL: it is none. */
const struct bl_json *view_record_read(struct bl_arena *arena, struct bl_text json);

/* ---- Texts ----------------------------------------------------------------------------------- */

enum clean_form {
    CLEAN_LINE,       /* LF and tab are escaped too */
    CLEAN_LINES,      /* they stand */
    CLEAN_HTML_LINE,  /* and what HTML reads is written as a reference */
    CLEAN_HTML_LINES, /* the same */
};

/* Appends a text of unknown origin so that it is seen, and does nothing: control characters and
 * those that turn the direction of writing are shown escaped (\x1b, \u202e), and what is not UTF-8
 * is U+FFFD. */
int clean_append(struct bl_buffer *out, struct bl_text text, enum clean_form form);

/* Where a report goes. The first error stays. */
struct page {
    struct bl_buffer *out;
    int code;
};

void page_put(struct page *page, const char *format, ...) BL_PRINTF(2, 3);
void page_clean(struct page *page, const char *text, enum clean_form form); /* NULL: "–" */

/* ---- The axis of time ------------------------------------------------------------------------ */

/* Nothing ran for long between two stretches: that is drawn short, and said. */
struct report_stretch {
    int64_t from_ms; /* wall clock */
    int64_t to_ms;
    double from; /* 0 to 1: where they stand */
    double to;
    bool idle; /* between two others */
};

struct report_tick {
    double at;
    bool first;        /* of a stretch: `label` is the time of day; else how long after that */
    const char *label; /* "10:00:07", "+30 s" */
};

struct report_axis {
    struct report_stretch *stretches; /* empty: nothing has a time */
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
    const char *outcome; /* running, ended, stopped, failed, carried; "" : not known */
    int64_t from_ms;
    int64_t to_ms;
    double from;
    double to;
    const char *time;
};

struct report_turn {
    const struct task_turn *row;
    const char *summary;   /* what the Player said of it; NULL: nothing */
    const char *rationale; /* of the Coach; NULL: none */
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
    double from; /* of all its bars; negative: it has none */
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
    bool beyond;      /* later than all that is drawn: stands at its end */
    const char *what; /* a sentence */
};

/* An end that was asked for, and what proves it. */
struct report_stop {
    const char *what; /* the task, the feature, or a scope */
    uint32_t attempt; /* 0: not of a task */
    const char *reason;
    const char *triggered_by;
    const char *cause;                    /* both in one: "timeout, by timer"; "user" */
    const char *at;                       /* a time; "–" */
    const char *sentence;                 /* "Stopped in 206 ms: …", or why there is no receipt */
    const char *receipt_id;               /* NULL: none */
    const struct bl_receipt_row *receipt; /* NULL: none, or it is not on record */
    const struct bl_checkpoint *checkpoint; /* NULL: none */
};

struct report_task {
    const struct bl_task_view *view;
    const char *id;   /* cleaned, for lines */
    const char *said; /* bl_task_view_text */
    const char *attempts;
    const char *turns;
    const char *verified;
    const char *time;     /* of all attempts */
    const char *deadline; /* "2400 s + 120 s coach grace" */
    const char *tokens;
    const char *cost;
    struct report_turn *all_turns; /* by attempt and number */
    size_t turn_count;
    struct report_mark *marks;
    size_t mark_count;
    struct bl_task_view *attempt_views; /* oldest first; the newest is the task's */
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
    const char *time; /* of the feature, by the clock */
    const char *work; /* of all tasks together */
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
    struct report_task *tasks; /* as the view's */
    struct report_wave *waves; /* as the view's */
    struct report_stop *stops; /* in the order of time */
    size_t stop_count;
    struct report_totals totals;
    const char *state; /* "failed, exit code 1" */
    const char *date;  /* of the first tick: "2026-11-16 UTC" */
    int64_t end_ms;    /* of all that is known; for what still runs */
};

void report_make(const struct bl_feature_view *view, struct report *report);
void report_done(struct report *report);
void report_stops_make(struct report *report);
/* The axis over all bars, and where they stand on it. */
void report_place(struct report *report);
/* "4 m 10 s"; negative: not known. */
const char *report_seconds(struct bl_arena *arena, double seconds);
/* As bl_time_format has it; NULL: 0. */
const char *report_time(struct bl_arena *arena, int64_t wall_ns);
/* A number with thousands set apart, or as it is; negative: "–". */
const char *report_number(struct bl_arena *arena, double number);
/* The same of survivors; BL_SURVIVORS_UNKNOWN: "–". */
const char *report_survivors(struct bl_arena *arena, uint32_t survivors);

/* Of the HTML form: how it looks, and the turns of a task. */
extern const char report_style[];
void report_html_turns(struct page *page, struct report *report);
void report_html_badge(struct page *page, const char *word, const char *shown);
const char *report_html_phase(enum report_phase phase); /* the class of its bars */
/* The list, or an empty one where a view that was made by hand has none. */
const struct bl_list *report_list(const struct bl_list *list);

#endif
