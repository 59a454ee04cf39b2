#include <inttypes.h>

#include <belay/value.h>

#include "verdict.h"

/* Faults that one reason names: a Coach mends them all in one try. */
#define FAULTS_MAX 8u
#define REASON_MAX ((size_t)8 * 1024)
#define LIST_MAX   ((size_t)400) /* of ids, in a reason */

/* ---- As JSON --------------------------------------------------------------------------------- */

static const char *const result_names[] = {"rejected", "verified"};
static const struct bl_names results = BL_NAMES(result_names);
enum {
    SAID_FEEDBACK,
    SAID_APPROVE
};
static const char *const decision_names[] = {
    [SAID_FEEDBACK] = "feedback", [SAID_APPROVE] = "approve"};
static const struct bl_names decisions = BL_NAMES(decision_names);

#define BL_RECORD_STRUCT struct criterion_result
static const struct bl_member criterion_members[] = {
    BL_MEMBER_STRING("id", id, .least = 1),
    BL_MEMBER_ENUM("result", verified, &results),
    BL_MEMBER_TEXT("notes", notes, .optional = true, .nullable = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record criterion_record =
    BL_RECORD("criterion", struct criterion_result, criterion_members, .closed = true);

#define BL_RECORD_STRUCT struct verdict_said
static const struct bl_member said_members[] = {
    BL_MEMBER_STRING("task", task),
    BL_MEMBER_INTEGER("turn", turn),
    BL_MEMBER_ENUM("decision", approve, &decisions),
    BL_MEMBER_TEXT("rationale", rationale, .optional = true, .nullable = true),
    BL_MEMBER_JSON("criteria", criteria, .optional = true, .nullable = true,
                   .element = &bl_element_object),
    BL_MEMBER_JSON("issues", issues, .optional = true, .nullable = true,
                   .element = &bl_element_object),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record verdict_said_record =
    BL_RECORD("verdict", struct verdict_said, said_members, .closed = true);

/* ---- Faults ---------------------------------------------------------------------------------- */

/* A verdict while it is held against the rules. */
struct checker {
    struct bl_arena *arena;
    const struct bl_plan_task *task;
    uint32_t turn;
    struct verdict *verdict;
    bool *seen;              /* by criterion */
    struct bl_buffer reason; /* what is wrong, "; " between */
    unsigned faults;
    unsigned rejected;
    unsigned critical;
};

static void complain(struct checker *checker, const char *format, ...) BL_PRINTF(2, 3);

static void complain(struct checker *checker, const char *format, ...)
{
    va_list arguments;
    if (checker->faults++ >= FAULTS_MAX)
        return;
    size_t size = checker->reason.size;
    bl_buffer_append(&checker->reason, size > 0 ? BL_TEXT("; ") : BL_TEXT(""));
    va_start(arguments, format);
    /* One that does not fit is counted, and named by the next try. */
    if (bl_buffer_vprintf(&checker->reason, format, arguments) != 0)
        checker->reason.size = size;
    va_end(arguments);
}

static bool is_absent(const struct bl_json *value)
{
    return value == NULL || bl_json_is(value, BL_JSON_NULL);
}

/* Complains of keys that are not among `names`, which end in NULL. */
static void check_keys(struct checker *checker, const struct bl_json *object, const char *place,
                       const char *const *names)
{
    BL_JSON_MEMBERS (key, object) {
        char shown[BL_VALUE_SHOWN_SIZE];
        bool known = false;
        for (const char *const *name = names; *name != NULL; name++)
            known = known || bl_text_equal(bl_json_text(key), bl_text_from(*name));
        if (!known)
            complain(checker, "%s has an unknown key '%s'", place,
                     bl_value_show(bl_json_text(key), shown));
    }
}

/* A text that may be missing, or null; empty then. It lives in the arena. */
static struct bl_text verdict_take_text(struct checker *checker, const struct bl_json *object,
                                        const char *place, const char *key)
{
    const struct bl_json *value = bl_json_get(object, bl_text_from(key));
    if (is_absent(value))
        return (struct bl_text){0};
    if (!bl_json_is(value, BL_JSON_STRING)) {
        complain(checker, "'%s' of %s must be text, is %s", key, place, bl_value_type(value));
        return (struct bl_text){0};
    }
    return bl_json_text(value);
}

/* The same for a name: one line, and none is NULL. */
static const char *take_name(struct checker *checker, const struct bl_json *object,
                             const char *place, const char *key)
{
    struct bl_text text = verdict_take_text(checker, object, place, key);
    if (memchr(text.data != NULL ? text.data : "", '\0', text.size) != NULL) {
        complain(checker, "'%s' of %s holds a NUL", key, place);
        return NULL;
    }
    return text.size > 0 ? text.data : NULL;
}

/* The index of a word among those that it can be; their count without one, and a fault. */
static size_t verdict_take_word(struct checker *checker, const struct bl_json *object,
                                const char *place, const char *key, const struct bl_names *words)
{
    char shown[BL_VALUE_SHOWN_SIZE], choice[64] = "";
    const struct bl_json *value = bl_json_get(object, bl_text_from(key));
    size_t used = 0;
    for (size_t i = 0; i < words->count; i++) {
        if (bl_json_is(value, BL_JSON_STRING) &&
            bl_text_equal(bl_json_text(value), bl_text_from(words->names[i])))
            return i;
        bl_text_into(choice + used, sizeof choice - used,
                     i == 0                 ? ""
                     : i + 1 < words->count ? ", "
                                            : " or ");
        used += strlen(choice + used);
        bl_text_into(choice + used, sizeof choice - used, words->names[i]);
        used += strlen(choice + used);
    }
    if (is_absent(value))
        complain(checker, "%s has no '%s': it must be %s", place, key, choice);
    else if (bl_json_is(value, BL_JSON_STRING))
        complain(checker, "'%s' of %s must be %s, is '%s'", key, place, choice,
                 bl_value_show(bl_json_text(value), shown));
    else
        complain(checker, "'%s' of %s must be %s, is %s", key, place, choice, bl_value_type(value));
    return words->count;
}

/* SIZE_MAX: the task has none of that id. */
static size_t find_criterion(const struct checker *checker, struct bl_text id)
{
    for (size_t i = 0; i < checker->task->criterion_count; i++)
        if (bl_text_equal(id, bl_text_from(checker->task->criteria[i].id)))
            return i;
    return SIZE_MAX;
}

/* "AC-001, AC-002, …". */
static const char *list_criteria(const struct checker *checker)
{
    BL_AUTO_BUFFER(list, LIST_MAX);
    for (size_t i = 0; i < checker->task->criterion_count; i++)
        if (bl_buffer_printf(&list, "%s%s", i > 0 ? ", " : "", checker->task->criteria[i].id) != 0)
            break;
    struct bl_text text = bl_arena_text(checker->arena, bl_buffer_text(&list));
    return text.size > 0 ? text.data : "none";
}

/* ---- Its parts ------------------------------------------------------------------------------- */

static void check_criterion(struct checker *checker, const struct bl_json *value, size_t number)
{
    static const char *const keys[] = {"id", "result", "notes", NULL};
    char shown[BL_VALUE_SHOWN_SIZE];
    const char *place = bl_arena_printf(checker->arena, "criteria[%zu]", number).data;
    if (!bl_json_is(value, BL_JSON_OBJECT)) {
        complain(checker, "%s must be an object, is %s", place, bl_value_type(value));
        return;
    }
    check_keys(checker, value, place, keys);
    const char *id = take_name(checker, value, place, "id");
    size_t index = id != NULL ? find_criterion(checker, bl_text_from(id)) : SIZE_MAX;
    size_t result = verdict_take_word(checker, value, place, "result", &results);
    struct bl_text notes = verdict_take_text(checker, value, place, "notes");
    if (id == NULL) {
        complain(checker, "%s has no 'id'", place);
    } else if (index == SIZE_MAX) {
        complain(checker, "%s: there is no criterion '%s'; the task has %s", place,
                 bl_value_show(bl_text_from(id), shown), list_criteria(checker));
    } else if (checker->seen[index]) {
        complain(checker, "criterion %s comes twice", checker->task->criteria[index].id);
    } else {
        checker->seen[index] = true;
        checker->rejected += result == 0;
        checker->verdict->criteria[index].verified = result == 1;
        checker->verdict->criteria[index].notes = notes;
    }
}

static void check_criteria(struct checker *checker, const struct bl_json *criteria)
{
    struct verdict *verdict = checker->verdict;
    size_t count = checker->task->criterion_count, number = 0;
    verdict->criterion_count = count;
    verdict->criteria = bl_arena_zalloc(checker->arena, count * sizeof *verdict->criteria);
    checker->seen = bl_arena_zalloc(checker->arena, count * sizeof *checker->seen);
    for (size_t i = 0; i < count; i++)
        verdict->criteria[i].id = checker->task->criteria[i].id;
    if (!is_absent(criteria) && !bl_json_is(criteria, BL_JSON_ARRAY)) {
        complain(checker, "'criteria' must be a list, is %s", bl_value_type(criteria));
        return;
    }
    BL_JSON_EACH (value, criteria)
        check_criterion(checker, value, number++);
    for (size_t i = 0; i < count; i++)
        if (!checker->seen[i])
            complain(checker, "criterion %s is missing in 'criteria'",
                     checker->task->criteria[i].id);
}

static int64_t verdict_take_line(struct checker *checker, const struct bl_json *value,
                                 const char *place)
{
    const struct bl_json *line = bl_json_get(value, BL_TEXT("line"));
    int64_t number = 0;
    if (is_absent(line))
        return 0;
    if (!bl_json_int64(line, &number) || number < 0) {
        complain(checker, "'line' of %s must be a number of a line, or null", place);
        return 0;
    }
    return number;
}

static void check_issue(struct checker *checker, const struct bl_json *value, size_t number)
{
    static const char *const keys[] = {"severity",    "criterion",  "file", "line",
                                       "description", "suggestion", NULL};
    char shown[BL_VALUE_SHOWN_SIZE];
    const char *place = bl_arena_printf(checker->arena, "issues[%zu]", number).data;
    if (!bl_json_is(value, BL_JSON_OBJECT)) {
        complain(checker, "%s must be an object, is %s", place, bl_value_type(value));
        return;
    }
    check_keys(checker, value, place, keys);
    size_t severity = verdict_take_word(checker, value, place, "severity", &issue_severities);
    struct bl_text description = verdict_take_text(checker, value, place, "description");
    if (bl_text_trim(description).size == 0)
        complain(checker, "%s has no 'description'", place);
    const char *criterion = take_name(checker, value, place, "criterion");
    if (criterion != NULL && find_criterion(checker, bl_text_from(criterion)) == SIZE_MAX)
        complain(checker, "%s: there is no criterion '%s'; the task has %s", place,
                 bl_value_show(bl_text_from(criterion), shown), list_criteria(checker));
    const char *file = take_name(checker, value, place, "file");
    checker->critical += severity == ISSUE_CRITICAL;
    struct issue *issue =
        issue_add(checker->arena, &checker->verdict->issues,
                  severity < issue_severities.count ? (enum issue_severity)severity : ISSUE_NOTE,
                  ISSUE_OF_COACH, file, description);
    issue->criterion = criterion;
    issue->line = verdict_take_line(checker, value, place);
    issue->suggestion = verdict_take_text(checker, value, place, "suggestion");
}

static void check_issues(struct checker *checker, const struct bl_json *issues)
{
    size_t number = 0;
    if (!is_absent(issues) && !bl_json_is(issues, BL_JSON_ARRAY))
        complain(checker, "'issues' must be a list, is %s", bl_value_type(issues));
    BL_JSON_EACH (value, issues)
        check_issue(checker, value, number++);
}

/* A verdict for another task, or of an earlier turn, is not for this one. */
static void check_subject(struct checker *checker, const struct bl_json *object)
{
    const struct bl_json *task = bl_json_get(object, BL_TEXT("task"));
    const struct bl_json *turn = bl_json_get(object, BL_TEXT("turn"));
    char shown[BL_VALUE_SHOWN_SIZE];
    int64_t number;
    if (is_absent(task) || !bl_json_is(task, BL_JSON_STRING))
        complain(checker, "'task' must be \"%s\", is %s", checker->task->id,
                 task != NULL ? bl_value_type(task) : "missing");
    else if (!bl_text_equal(bl_json_text(task), bl_text_from(checker->task->id)))
        complain(checker, "it is for task '%s', not for %s",
                 bl_value_show(bl_json_text(task), shown), checker->task->id);
    if (!bl_json_is(turn, BL_JSON_INTEGER) || !bl_json_int64(turn, &number))
        complain(checker, "'turn' must be %" PRIu32 ", is %s", checker->turn,
                 turn != NULL ? bl_value_type(turn) : "missing");
    else if (number != checker->turn)
        complain(checker, "it is for turn %" PRId64 ", not for turn %" PRIu32, number,
                 checker->turn);
}

/* Approval and what speaks against it; feedback and what it must say. */
static void check_decision(struct checker *checker, size_t decision)
{
    if (decision == SAID_APPROVE && checker->rejected > 0)
        complain(checker, "it approves and rejects a criterion: give feedback, or verify it");
    if (decision == SAID_APPROVE && checker->critical > 0)
        complain(checker,
                 "it approves with a critical issue: give feedback, or lower its severity");
    if (decision == SAID_FEEDBACK && bl_list_empty(&checker->verdict->issues))
        complain(checker, "it gives feedback without an issue: say in 'issues' what is to be done");
}

static void verdict_check_object(struct checker *checker, const struct bl_json *object)
{
    static const char *const keys[] = {"task",     "turn",   "decision", "rationale",
                                       "criteria", "issues", NULL};
    check_keys(checker, object, "the verdict", keys);
    check_subject(checker, object);
    size_t decision = verdict_take_word(checker, object, "the verdict", "decision", &decisions);
    checker->verdict->approve = decision == SAID_APPROVE;
    checker->verdict->rationale = verdict_take_text(checker, object, "the verdict", "rationale");
    check_criteria(checker, bl_json_get(object, BL_TEXT("criteria")));
    check_issues(checker, bl_json_get(object, BL_TEXT("issues")));
    check_decision(checker, decision);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int verdict_refuse(struct bl_arena *arena, struct bl_text *ret_reason, struct bl_text reason)
{
    *ret_reason = bl_arena_text(arena, reason);
    return BL_EPARSE;
}

/* Reads the one object that it must be. */
static int verdict_read_object(struct bl_arena *arena, struct bl_text text,
                               const struct bl_json **ret_object, struct bl_text *ret_reason)
{
    const struct bl_json_limits limits = {.size_max = VERDICT_SIZE_MAX, .refuse_duplicates = true};
    struct bl_json_fault fault;
    char where[320];
    if (text.size == 0)
        return verdict_refuse(
            arena, ret_reason,
            BL_TEXT("there is no verdict: answer with one JSON object, in a block fenced "
                    "as json"));
    if (bl_json_read(arena, text, &limits, ret_object, &fault) != 0) {
        bl_json_fault_text(&fault, where, sizeof where);
        *ret_reason = bl_arena_printf(arena, "it is not one JSON object: %s", where);
        return BL_EPARSE;
    }
    if (bl_json_is(*ret_object, BL_JSON_OBJECT))
        return 0;
    *ret_reason =
        bl_arena_printf(arena, "it is not one JSON object, but %s", bl_value_type(*ret_object));
    return BL_EPARSE;
}

int verdict_parse(struct bl_arena *arena, struct bl_text text, const struct bl_plan_task *task,
                  uint32_t turn, struct verdict *ret_verdict, struct bl_text *ret_reason)
{
    const struct bl_json *object;
    *ret_verdict = (struct verdict){.approve = false};
    *ret_reason = (struct bl_text){0};
    bl_list_init(&ret_verdict->issues);
    struct bl_text found = result_find(text);
    found = bl_text_trim(found.size > 0 ? found : text);
    if (found.size > VERDICT_SIZE_MAX) {
        *ret_reason = bl_arena_printf(arena, "it is %zu bytes long; at most %zu are taken",
                                      found.size, VERDICT_SIZE_MAX);
        return BL_EPARSE;
    }
    int code = verdict_read_object(arena, found, &object, ret_reason);
    if (code != 0)
        return code;
    struct checker checker = {.arena = arena, .task = task, .turn = turn, .verdict = ret_verdict};
    bl_buffer_init(&checker.reason, REASON_MAX);
    verdict_check_object(&checker, object);
    if (checker.faults > FAULTS_MAX)
        bl_buffer_printf(&checker.reason, "; and %u more", checker.faults - FAULTS_MAX);
    if (checker.faults > 0)
        code = verdict_refuse(arena, ret_reason, bl_buffer_text(&checker.reason));
    bl_buffer_done(&checker.reason);
    if (code != 0) {
        *ret_verdict = (struct verdict){.approve = false};
        bl_list_init(&ret_verdict->issues);
        return code;
    }
    ret_verdict->json = bl_json_value_text(arena, object); /* events are lines */
    return 0;
}
