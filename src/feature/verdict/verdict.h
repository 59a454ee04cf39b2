/* What Coaches and verification say, held against rules, and what the Player is told of it. Nothing
 * here waits, or touches files. */
#ifndef BELAY_FEATURE_VERDICT_H
#define BELAY_FEATURE_VERDICT_H

#include <belay/feature.h>

#define VERDICT_SIZE_MAX  ((size_t)256 * 1024)
#define FEEDBACK_SIZE_MAX ((size_t)8 * 1024)

enum issue_severity {
    ISSUE_CRITICAL,
    ISSUE_MAJOR,
    ISSUE_MINOR,
    ISSUE_NOTE,
};

enum issue_source {
    ISSUE_OF_VERIFY,
    ISSUE_OF_CLAIMS,
    ISSUE_OF_COACH,
};

/* In an arena. */
struct issue {
    struct bl_list link;
    enum issue_severity severity;
    enum issue_source source;
    const char *criterion; /* NULL: none, as the next */
    const char *file;
    int64_t line; /* 0: none */
    struct bl_text description;
    struct bl_text suggestion; /* may be empty */
};

extern const struct bl_names issue_severities;
const char *issue_severity_name(enum issue_severity severity);
const char *issue_source_name(enum issue_source source);
struct issue *issue_add(struct bl_arena *arena, struct bl_list *issues,
                        enum issue_severity severity, enum issue_source source, const char *file,
                        struct bl_text description);
/* Appends a text from outside as it can be shown anywhere: broken UTF-8 replaced, control
 * characters but LF and tab escaped. */
void text_show(struct bl_text text, struct bl_buffer *out);
/* To the end of `to`. */
void issues_move(struct bl_list *from, struct bl_list *to);
extern const struct bl_record issue_record;

/* ---- Verdicts -------------------------------------------------------------------------------- */

struct criterion_result {
    const char *id;
    bool verified;
    struct bl_text notes;
};

struct verdict {
    bool approve;
    struct bl_text rationale;
    struct criterion_result *criteria; /* in the plan's order */
    size_t criterion_count;
    struct bl_list issues;
    struct bl_text json; /* as it came, on one line */
};

/* What a Coach says, before it is held against them. */
struct verdict_said {
    const char *task;
    uint32_t turn;
    bool approve;
    struct bl_text rationale;
    const struct bl_json *criteria; /* each as criterion_record has it; NULL: none, as the next */
    const struct bl_json *issues;
};

extern const struct bl_record verdict_said_record; /* a struct verdict_said */
extern const struct bl_record criterion_record;    /* a struct criterion_result */

/* Holds a text against the rules: one JSON object, this task and turn, each criterion once, and so
 * on. BL_EPARSE: `*ret_reason` says what is wrong with it, for the Coach to mend. */
int verdict_parse(struct bl_arena *arena, struct bl_text text, const struct bl_plan_task *task,
                  uint32_t turn, struct verdict *ret_verdict, struct bl_text *ret_reason);

/* ---- The Player's result --------------------------------------------------------------------- */

struct player_result {
    bool given;          /* there was one, and it is an object */
    struct bl_text json; /* of it, on one line */
    struct bl_text summary;
    const char *const *done;
    const char *const *not_done;
    const char *const *files; /* end in NULL; empty, not NULL */
    bool tests_claimed;       /* ran and passed */
    bool blocked;
    struct bl_text blocked_reason;
    struct bl_text blocked_needs;
    bool usage_known;
    struct bl_spent spent; /* of its usage */
};

/* Malformed: `given` is false and `*ret_problem` says what, as a `minor` issue does. Empty text:
 * not given, no problem. */
void player_result_parse(struct bl_arena *arena, struct bl_text text,
                         struct player_result *ret_result, struct bl_text *ret_problem);
/* Held against the diff from the task's base (paths, end in NULL): a file claimed and not changed
 * is a major issue. */
void player_claims_check(struct bl_arena *arena, const struct player_result *result,
                         const char *const *changed, struct bl_list *issues);

/* The last fenced `json` block of what a program printed, else all of it if it is one JSON object;
 * empty: neither. */
struct bl_text result_find(struct bl_text output);
/* Reads it as one JSON object, and as such the whole text where nothing was found. BL_EPARSE:
 * `*ret_reason` says why it is none. */
int result_read(struct bl_arena *arena, struct bl_text text, bool refuse_duplicates,
                const struct bl_json **ret_object, struct bl_text *ret_reason);

/* ---- Feedback and stalls --------------------------------------------------------------------- */

/* Equal issues merged; by severity, source, order. In place. */
void issues_sort(struct bl_list *issues);
/* The text for the Player: the first `count_max` of sorted issues within FEEDBACK_SIZE_MAX, and a
 * last line that says what was cut and where all of it is ("… and 3 more (1 minor, 2 note): PATH").
 * `where` NULL: this is the text that is there: the first `count_max`, without any other bound. */
struct bl_text feedback_make(struct bl_arena *arena, const struct bl_list *issues,
                             uint32_t count_max, const char *where);
/* Case, spaces, numbers, durations, hashes and paths are made alike: SHA-256 of what is left, in
 * hexadecimal. */
void feedback_digest(const struct bl_list *issues, char out[65]);

/* What a stall is told by; a part of the task's row. All zero at first. */
struct stall {
    char digest[65];      /* of the last feedback */
    uint32_t same;        /* turns in a row with it and no newly verified criterion */
    uint32_t unchanged;   /* turns in a row without any change to the tree */
    uint64_t verified[4]; /* criteria that were verified at any time, by number */
    uint32_t absent;      /* verifications in a row that were absent */
    uint32_t player_errors;
};

/* After a turn that ended in feedback. True: it is stalled, and `*ret_why` says how. */
bool stall_after(struct stall *stall, const struct verdict *verdict, const struct bl_list *issues,
                 bool tree_changed, const char **ret_why);
extern const struct bl_record stall_record;

#endif
