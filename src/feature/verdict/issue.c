#include <inttypes.h>
#include <stdio.h>

#include "verdict.h"

/* Limits of one issue in the feedback: the first one fits completely, with the last line. */
#define DESCRIPTION_MAX ((size_t)5 * 1024)
#define SUGGESTION_MAX  ((size_t)1024)
#define PLACE_MAX       ((size_t)200) /* of a file name or a criterion's id */
#define WHERE_MAX       ((size_t)900)
/* Size of the last line without its path. */
#define LAST_LINE_MAX ((size_t)160)

_Static_assert(DESCRIPTION_MAX + SUGGESTION_MAX + 2 * PLACE_MAX + WHERE_MAX + LAST_LINE_MAX + 200 <
                   FEEDBACK_SIZE_MAX,
               "the first issue fits");

static const char *const severity_names[] = {
    [ISSUE_CRITICAL] = "critical",
    [ISSUE_MAJOR] = "major",
    [ISSUE_MINOR] = "minor",
    [ISSUE_NOTE] = "note",
};

static const char *const source_names[] = {
    [ISSUE_OF_VERIFY] = "verify",
    [ISSUE_OF_CLAIMS] = "claims",
    [ISSUE_OF_COACH] = "coach",
};

#define SEVERITY_COUNT BL_COUNT(severity_names)
#define SOURCE_COUNT   BL_COUNT(source_names)

const char *issue_severity_name(enum issue_severity severity)
{
    return (size_t)severity < SEVERITY_COUNT ? severity_names[severity] : "note";
}

const char *issue_source_name(enum issue_source source)
{
    return source_names[source];
}

struct issue *issue_add(struct bl_arena *arena, struct bl_list *issues,
                        enum issue_severity severity, enum issue_source source, const char *file,
                        struct bl_text description)
{
    struct issue *issue = bl_arena_zalloc(arena, sizeof *issue);
    issue->severity = severity;
    issue->source = source;
    issue->file = file != NULL ? bl_arena_text(arena, bl_text_from(file)).data : NULL;
    issue->description = bl_arena_text(arena, description);
    bl_list_push_back(issues, &issue->link);
    return issue;
}

/* ---- Untrusted text -------------------------------------------------------------------------- */

void text_show(struct bl_text text, struct bl_buffer *out)
{
    bl_text_show(out, text, BL_SHOW_LINES);
}

/* ---- As JSON --------------------------------------------------------------------------------- */

const struct bl_names issue_severities = BL_NAMES(severity_names);
static const struct bl_names sources = BL_NAMES(source_names);

#define BL_RECORD_STRUCT struct issue
static const struct bl_member issue_members[] = {
    BL_MEMBER_ENUM("severity", severity, &issue_severities, .vital = true),
    BL_MEMBER_ENUM("source", source, &sources, .vital = true, .about = "Source of the finding."),
    BL_MEMBER_STRING("criterion", criterion, .optional = true, .about = "Criterion id."),
    BL_MEMBER_STRING("file", file, .optional = true),
    BL_MEMBER_INTEGER("line", line, .optional = true),
    BL_MEMBER_TEXT("description", description, .vital = true),
    BL_MEMBER_TEXT("suggestion", suggestion, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record issue_record = BL_RECORD("issue", struct issue, issue_members);

void issues_move(struct bl_list *from, struct bl_list *to)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(from)) != NULL)
        bl_list_push_back(to, link);
}

/* ---- Merging and sorting --------------------------------------------------------------------- */

/* Makes the key by which issues are equal. Suggestions do not count. */
static void make_key(const struct issue *issue, struct bl_buffer *out)
{
    bl_buffer_clear(out);
    bl_buffer_printf(out, "%s\n%s\n%" PRId64 "\n", issue->file != NULL ? issue->file : "",
                     issue->criterion != NULL ? issue->criterion : "", issue->line);
    bl_buffer_append(out, bl_text_trim(issue->description));
}

/* Merges `issue` into `first`: the higher severity and the first source are kept. Returns false,
 * without merging, if both have different suggestions. */
static bool merge(struct issue *first, const struct issue *issue)
{
    if (first->suggestion.size > 0 && issue->suggestion.size > 0 &&
        !bl_text_equal(first->suggestion, issue->suggestion))
        return false;
    if (first->suggestion.size == 0)
        first->suggestion = issue->suggestion;
    if (issue->severity < first->severity)
        first->severity = issue->severity;
    if (issue->source < first->source)
        first->source = issue->source;
    return true;
}

static void merge_equal(struct bl_list *issues)
{
    struct bl_map seen;
    BL_AUTO_BUFFER(key, SIZE_MAX);
    bl_map_init(&seen);
    BL_LIST_EACH_SAFE (link, issues) {
        struct issue *issue = BL_CONTAINER(link, struct issue, link);
        make_key(issue, &key);
        struct issue *first = bl_map_get(&seen, bl_buffer_text(&key));
        if (first == NULL)
            bl_map_set(&seen, bl_buffer_text(&key), issue, NULL);
        else if (merge(first, issue))
            bl_list_remove(link);
    }
    bl_map_done(&seen);
}

void issues_sort(struct bl_list *issues)
{
    struct bl_list sorted[SEVERITY_COUNT][SOURCE_COUNT];
    struct bl_list *link;
    merge_equal(issues);
    for (size_t i = 0; i < SEVERITY_COUNT * SOURCE_COUNT; i++)
        bl_list_init(&sorted[i / SOURCE_COUNT][i % SOURCE_COUNT]);
    while ((link = bl_list_pop_front(issues)) != NULL) {
        const struct issue *issue = BL_CONTAINER(link, struct issue, link);
        bl_list_push_back(&sorted[issue->severity][issue->source], link);
    }
    for (size_t i = 0; i < SEVERITY_COUNT * SOURCE_COUNT; i++)
        while ((link = bl_list_pop_front(&sorted[i / SOURCE_COUNT][i % SOURCE_COUNT])) != NULL)
            bl_list_push_back(issues, link);
}

/* ---- Feedback -------------------------------------------------------------------------------- */

/* State while feedback is made. */
struct feedback {
    struct bl_buffer text;
    struct bl_buffer entry;    /* one issue */
    struct bl_buffer shown;    /* one of its texts */
    struct bl_buffer indented; /* that text, indented */
    bool whole;                /* no size limits */
    bool cut;                  /* a text of the entry was cut */
};

/* Appends a text in printable form, cut to `size_max`. Its further lines are indented, so that none
 * looks like another issue. */
static void append_text(struct feedback *feedback, const char *before, struct bl_text text,
                        size_t size_max)
{
    struct bl_text rest, line;
    if (text.size == 0)
        return;
    bl_buffer_clear(&feedback->shown);
    bl_buffer_clear(&feedback->indented);
    text_show(bl_text_trim(text), &feedback->shown);
    rest = bl_buffer_text(&feedback->shown);
    for (bool first = true; bl_text_split(&rest, '\n', &line); first = false) {
        if (!first)
            bl_buffer_append(&feedback->indented, line.size > 0 ? BL_TEXT("\n   ") : BL_TEXT("\n"));
        bl_buffer_append(&feedback->indented, line);
    }
    struct bl_text kept = bl_buffer_text(&feedback->indented);
    if (!feedback->whole)
        kept = bl_utf8_cut(kept, size_max);
    bl_buffer_append(&feedback->entry, bl_text_from(before));
    bl_buffer_append(&feedback->entry, kept);
    if (kept.size < feedback->indented.size) {
        bl_buffer_append(&feedback->entry, BL_TEXT(" …"));
        feedback->cut = true;
    }
}

/* Makes "1. critical (verify) AC-001 src/a.c:12: what", with the suggestion on the next line. */
static void make_entry(struct feedback *feedback, const struct issue *issue, uint32_t number)
{
    feedback->cut = false;
    bl_buffer_clear(&feedback->entry);
    bl_buffer_printf(&feedback->entry, "%" PRIu32 ". %s (%s)", number,
                     issue_severity_name(issue->severity), source_names[issue->source]);
    append_text(feedback, " ", bl_text_from(issue->criterion), PLACE_MAX);
    append_text(feedback, " ", bl_text_from(issue->file), PLACE_MAX);
    if (issue->line > 0)
        bl_buffer_printf(&feedback->entry, ":%" PRId64, issue->line);
    append_text(feedback, ": ", issue->description, DESCRIPTION_MAX);
    append_text(feedback, "\n   Suggestion: ", issue->suggestion, SUGGESTION_MAX);
    bl_buffer_append_byte(&feedback->entry, '\n');
}

/* Appends "… and 3 more (1 minor, 2 note): PATH"; nothing if nothing was cut. */
static void append_last_line(struct bl_buffer *out, const size_t left[SEVERITY_COUNT],
                             bool shortened, const char *where)
{
    size_t total = 0, named = 0;
    for (size_t i = 0; i < SEVERITY_COUNT; i++)
        total += left[i];
    if (total == 0 && !shortened)
        return;
    if (total > 0) {
        bl_buffer_printf(out, "… and %zu more (", total);
        for (size_t i = 0; i < SEVERITY_COUNT; i++)
            if (left[i] > 0)
                bl_buffer_printf(out, "%s%zu %s", named++ > 0 ? ", " : "", left[i],
                                 severity_names[i]);
        bl_buffer_append_byte(out, ')');
    } else {
        bl_buffer_append(out, BL_TEXT("… shortened; full texts"));
    }
    if (where != NULL) {
        bl_buffer_append(out, BL_TEXT(": "));
        bl_buffer_append(out, bl_utf8_cut(bl_text_from(where), WHERE_MAX));
    }
    bl_buffer_append_byte(out, '\n');
}

static void make_text(struct feedback *feedback, const struct bl_list *issues, uint32_t count_max,
                      const char *where)
{
    size_t left[SEVERITY_COUNT] = {0}, where_size = bl_text_from(where).size;
    size_t last_line = LAST_LINE_MAX + (where_size < WHERE_MAX ? where_size : WHERE_MAX);
    uint32_t told = 0;
    bool full = false, shortened = false;
    BL_LIST_EACH (link, issues) {
        const struct issue *issue = BL_CONTAINER(link, struct issue, link);
        if (!full && told < count_max) {
            make_entry(feedback, issue, told + 1);
            full = !feedback->whole &&
                   feedback->text.size + feedback->entry.size + last_line > FEEDBACK_SIZE_MAX;
        }
        /* Only the first issues are listed: a short one does not overtake a long one. */
        if (full || told == count_max) {
            left[issue->severity]++;
            continue;
        }
        bl_buffer_append(&feedback->text, bl_buffer_text(&feedback->entry));
        shortened = shortened || feedback->cut;
        told++;
    }
    append_last_line(&feedback->text, left, shortened, where);
}

struct bl_text feedback_make(struct bl_arena *arena, const struct bl_list *issues,
                             uint32_t count_max, const char *where)
{
    struct feedback feedback = {.whole = where == NULL};
    bl_buffer_init(&feedback.text, feedback.whole ? SIZE_MAX : FEEDBACK_SIZE_MAX);
    bl_buffer_init(&feedback.entry, SIZE_MAX);
    bl_buffer_init(&feedback.shown, SIZE_MAX);
    bl_buffer_init(&feedback.indented, SIZE_MAX);
    make_text(&feedback, issues, count_max, where);
    struct bl_text text = bl_arena_text(arena, bl_buffer_text(&feedback.text));
    bl_buffer_done(&feedback.text);
    bl_buffer_done(&feedback.entry);
    bl_buffer_done(&feedback.shown);
    bl_buffer_done(&feedback.indented);
    return text;
}
