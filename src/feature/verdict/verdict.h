/* Checks the results of Coaches, Players and verification against the rules, and makes the feedback
 * for the Player. Nothing here waits or touches files. */
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
    const char *criterion; /* NULL: none, like `file` */
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
/* Moves all issues to the end of `to`. */
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
    struct bl_text json; /* as received, on one line */
};

/* A Coach's verdict before it is checked. */
struct verdict_said {
    const char *task;
    uint32_t turn;
    bool approve;
    struct bl_text rationale;
    const struct bl_json *criteria; /* items as in criterion_record; NULL: none, like `issues` */
    const struct bl_json *issues;
};

extern const struct bl_record verdict_said_record; /* a struct verdict_said */
extern const struct bl_record criterion_record;    /* a struct criterion_result */

/* Checks a text against the rules: one JSON object, the right task and turn, each criterion once,
 * and the rest. BL_EPARSE if it is invalid; `*ret_reason` then tells the Coach what to correct. */
int verdict_parse(struct bl_arena *arena, struct bl_text text, const struct bl_plan_task *task,
                  uint32_t turn, struct verdict *ret_verdict, struct bl_text *ret_reason);

/* Appends the shape of a verdict on this task, indented, with | between the words of closed
 * sets. */
void verdict_show_shape(struct bl_arena *arena, const struct bl_plan_task *task, uint32_t turn,
                        struct bl_buffer *out);

/* ---- The Player's result --------------------------------------------------------------------- */

struct player_result {
    bool given;          /* there is a result, and it is an object */
    struct bl_text json; /* the result on one line */
    struct bl_text summary;
    const char *const *done;
    const char *const *not_done;
    const char *const *files; /* the three lists are NULL-terminated; empty, not NULL */
    bool tests_claimed;       /* the Player claims that tests ran and passed */
    bool blocked;
    struct bl_text blocked_reason;
    struct bl_text blocked_needs;
    bool usage_known;
    struct bl_spent spent; /* as reported in `usage` */
};

/* Parses a Player's result. If it is malformed, `given` is false and `*ret_problem` is the text for
 * a `minor` issue. Empty text means no result and no problem. */
void player_result_parse(struct bl_arena *arena, struct bl_text text,
                         struct player_result *ret_result, struct bl_text *ret_problem);
/* Checks the claims against the diff from the task's base (paths, NULL-terminated): a file that is
 * claimed but not changed is a major issue. */
void player_claims_check(struct bl_arena *arena, const struct player_result *result,
                         const char *const *changed, struct bl_list *issues);

/* Returns the last fenced `json` block in the output of a program, or all of it if it is one JSON
 * object, or an empty text. */
struct bl_text result_find(struct bl_text output);
/* Parses the text that result_find returns, or else the whole text; either must be one JSON object.
 * BL_EPARSE if it is not; `*ret_reason` says why. */
int result_read(struct bl_arena *arena, struct bl_text text, bool refuse_duplicates,
                const struct bl_json **ret_object, struct bl_text *ret_reason);

/* ---- Feedback and stalls --------------------------------------------------------------------- */

/* Merges equal issues and sorts by severity, source and order. In place. */
void issues_sort(struct bl_list *issues);
/* Returns the text for the Player: the first `count_max` sorted issues that fit in
 * FEEDBACK_SIZE_MAX, and a last line with the number of omitted issues and the path of the full
 * list ("… and 3 more (1 minor, 2 note): PATH"). With `where` NULL, makes the full list itself: the
 * first `count_max` issues, with no size limit. */
struct bl_text feedback_make(struct bl_arena *arena, const struct bl_list *issues,
                             uint32_t count_max, const char *where);
/* Computes the SHA-256, in hexadecimal, of the issues after case, spaces, numbers, durations,
 * hashes and paths are normalized. */
void feedback_digest(const struct bl_list *issues, char out[65]);

/* The state of stall detection, part of the task's row. Initially all zero. */
struct stall {
    char digest[65];      /* of the last feedback */
    uint32_t same;        /* turns in a row with that digest and no newly verified criterion */
    uint32_t unchanged;   /* turns in a row without any change to the tree */
    uint64_t verified[4]; /* criteria verified in any turn so far, by number */
    uint32_t absent;      /* absent verifications in a row */
    uint32_t player_errors;
};

/* Updates the state after a turn that ended in feedback. Returns true if the task is stalled;
 * `*ret_why` says how. */
bool stall_after(struct stall *stall, const struct verdict *verdict, const struct bl_list *issues,
                 bool tree_changed, const char **ret_why);
extern const struct bl_record stall_record;

#endif
