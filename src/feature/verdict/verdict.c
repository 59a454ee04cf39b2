#include <inttypes.h>

#include <belay/source.h>

#include "verdict.h"

/* Problems listed in one reason, so that a Coach can correct them in one try. */
#define FAULTS_MAX 8u
#define REASON_MAX ((size_t)8 * 1024)
#define LIST_MAX   ((size_t)400) /* of ids in a reason */

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

static bool verdict_says_something(struct bl_text text)
{
    return bl_text_trim(text).size > 0;
}

static const struct bl_form description_form = {
    .expected = "a description of what is wrong",
    .pattern = "\\S",
    .fits = verdict_says_something,
};

/* Without `source`, which a Coach may not set. */
#define BL_RECORD_STRUCT struct issue
static const struct bl_member said_issue_members[] = {
    BL_MEMBER_ENUM("severity", severity, &issue_severities),
    BL_MEMBER_STRING("criterion", criterion, .optional = true, .nullable = true),
    BL_MEMBER_STRING("file", file, .optional = true, .nullable = true),
    BL_MEMBER_INTEGER("line", line, .optional = true, .nullable = true),
    BL_MEMBER_TEXT("description", description, .form = &description_form),
    BL_MEMBER_TEXT("suggestion", suggestion, .optional = true, .nullable = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record said_issue_record =
    BL_RECORD("issue", struct issue, said_issue_members, .closed = true);

#define BL_RECORD_STRUCT struct verdict_said
static const struct bl_member said_members[] = {
    BL_MEMBER_STRING("task", task),
    BL_MEMBER_INTEGER("turn", turn, .least = 1),
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

/* ---- Shape ----------------------------------------------------------------------------------- */

/* Writes all members of the example. For an enum, lists its words; for a boolean, the positive one
 * first. */
static void shape_write(struct bl_json_writer *writer, const struct bl_record *record,
                        const void *example)
{
    bl_json_write_object(writer);
    for (const struct bl_member *member = record->members; member->type != BL_TYPE_END; member++) {
        struct bl_member shown[] = {*member, BL_MEMBER_END};
        BL_AUTO_BUFFER(words, 256);
        for (size_t i = 0; member->type == BL_TYPE_ENUM && i < member->names->count; i++)
            bl_buffer_printf(
                &words, "%s%s", i > 0 ? "|" : "",
                member->names
                    ->names[member->size == sizeof(bool) ? member->names->count - 1 - i : i]);
        shown[0].nullable = false;
        if (words.size > 0)
            bl_json_put_text(writer, member->name, bl_buffer_text(&words));
        else
            bl_record_write_members(writer, &(struct bl_record){.members = shown}, example);
    }
    bl_json_write_end(writer);
}

/* Returns a list of `count` such objects. */
static const struct bl_json *shape_list(struct bl_arena *arena, const struct bl_record *record,
                                        const void *examples, size_t count)
{
    const struct bl_json *list = NULL;
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(json, VERDICT_SIZE_MAX);

    bl_json_writer_init(&writer, &json);
    bl_json_write_array(&writer);
    for (size_t i = 0; i < count; i++)
        shape_write(&writer, record, (const char *)examples + i * record->size);
    bl_json_write_end(&writer);
    bl_json_read(arena, bl_buffer_text(&json), NULL, &list, NULL);
    return list;
}

void verdict_show_shape(struct bl_arena *arena, const struct bl_plan_task *task, uint32_t turn,
                        struct bl_buffer *out)
{
    const struct issue issue = {.criterion =
                                    task->criterion_count > 0 ? task->criteria[0].id : NULL,
                                .file = "src/a.c",
                                .line = 12,
                                .description = BL_TEXT("…"),
                                .suggestion = BL_TEXT("…")};
    struct criterion_result *criteria =
        bl_arena_zalloc(arena, task->criterion_count * sizeof *criteria);
    struct verdict_said said = {.task = task->id, .turn = turn, .rationale = BL_TEXT("…")};
    struct bl_json_writer writer;

    for (size_t i = 0; i < task->criterion_count; i++)
        criteria[i] = (struct criterion_result){.id = task->criteria[i].id, .notes = BL_TEXT("…")};
    said.criteria = shape_list(arena, &criterion_record, criteria, task->criterion_count);
    said.issues = shape_list(arena, &said_issue_record, &issue, 1);
    bl_json_writer_init(&writer, out);
    bl_json_writer_indent(&writer, 1);
    shape_write(&writer, &verdict_said_record, &said);
}

/* ---- Problems -------------------------------------------------------------------------------- */

/* State while a verdict is checked. */
struct checker {
    struct bl_source source; /* its problems are added to `reason` */
    struct bl_arena *arena;
    const struct bl_plan_task *task;
    uint32_t turn;
    struct verdict *verdict;
    const char *place;       /* JSON pointer to the record being read; "": the verdict */
    bool *seen;              /* by criterion */
    struct bl_buffer reason; /* the problems, separated by "; " */
    unsigned faults;
    unsigned rejected; /* criteria */
    unsigned critical; /* issues */
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
    /* A problem that does not fit is counted, and reported after the next try. */
    if (bl_buffer_vprintf(&checker->reason, format, arguments) != 0)
        checker->reason.size = size;
    va_end(arguments);
}

static void verdict_tell(struct bl_source *source, const struct bl_record_fault *fault)
{
    struct checker *checker = BL_CONTAINER(source, struct checker, source);
    struct bl_record_fault placed = *fault;
    char text[640];
    bl_text_into(placed.path, sizeof placed.path,
                 bl_arena_printf(checker->arena, "%s%s", checker->place, fault->path).data);
    bl_record_fault_text(&placed, text, sizeof text);
    complain(checker, "%s", text);
}

/* Returns NULL for an empty name. */
static const char *verdict_name(const char *name)
{
    return name != NULL && name[0] != '\0' ? name : NULL;
}

/* Returns SIZE_MAX if the task has no criterion with that id. */
static size_t find_criterion(const struct checker *checker, struct bl_text id)
{
    for (size_t i = 0; i < checker->task->criterion_count; i++)
        if (bl_text_equal(id, bl_text_from(checker->task->criteria[i].id)))
            return i;
    return SIZE_MAX;
}

/* Returns "AC-001, AC-002, …". */
static const char *list_criteria(const struct checker *checker)
{
    BL_AUTO_BUFFER(list, LIST_MAX);
    for (size_t i = 0; i < checker->task->criterion_count; i++)
        if (bl_buffer_printf(&list, "%s%s", i > 0 ? ", " : "", checker->task->criteria[i].id) != 0)
            break;
    struct bl_text text = bl_arena_text(checker->arena, bl_buffer_text(&list));
    return text.size > 0 ? text.data : "none";
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static void check_criterion(struct checker *checker, const struct bl_json *value, size_t number)
{
    char shown[BL_VALUE_SHOWN_SIZE];
    struct criterion_result said = {0};
    checker->place = bl_arena_printf(checker->arena, "/criteria/%zu", number).data;
    bool fits =
        bl_source_read(&checker->source, checker->arena, &criterion_record, value, &said) == 0;
    if (said.id == NULL)
        return;
    size_t index = find_criterion(checker, bl_text_from(said.id));
    if (index == SIZE_MAX) {
        complain(checker, "criteria[%zu]: unknown criterion '%s'; the task has %s", number,
                 bl_value_show(bl_text_from(said.id), shown), list_criteria(checker));
    } else if (checker->seen[index]) {
        complain(checker, "criterion %s is listed twice", checker->task->criteria[index].id);
    } else {
        checker->seen[index] = true;
        checker->rejected += fits && !said.verified;
        checker->verdict->criteria[index].verified = said.verified;
        checker->verdict->criteria[index].notes = said.notes;
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
    BL_JSON_EACH (value, criteria)
        check_criterion(checker, value, number++);
    for (size_t i = 0; i < count; i++)
        if (!checker->seen[i])
            complain(checker, "criterion %s is missing from 'criteria'",
                     checker->task->criteria[i].id);
}

static void check_issue(struct checker *checker, const struct bl_json *value, size_t number)
{
    char shown[BL_VALUE_SHOWN_SIZE];
    struct issue said = {.severity = ISSUE_NOTE};
    checker->place = bl_arena_printf(checker->arena, "/issues/%zu", number).data;
    bl_source_read(&checker->source, checker->arena, &said_issue_record, value, &said);
    const char *criterion = verdict_name(said.criterion);
    if (criterion != NULL && find_criterion(checker, bl_text_from(criterion)) == SIZE_MAX)
        complain(checker, "issues[%zu]: unknown criterion '%s'; the task has %s", number,
                 bl_value_show(bl_text_from(criterion), shown), list_criteria(checker));
    checker->critical += said.severity == ISSUE_CRITICAL;
    struct issue *issue = issue_add(checker->arena, &checker->verdict->issues, said.severity,
                                    ISSUE_OF_COACH, verdict_name(said.file), said.description);
    issue->criterion = criterion;
    issue->line = said.line;
    issue->suggestion = said.suggestion;
}

/* Refuses a verdict for another task or turn. */
static void check_subject(struct checker *checker, const struct verdict_said *said)
{
    char shown[BL_VALUE_SHOWN_SIZE];
    if (said->task != NULL && strcmp(said->task, checker->task->id) != 0)
        complain(checker, "it is for task '%s', not for %s",
                 bl_value_show(bl_text_from(said->task), shown), checker->task->id);
    if (said->turn > 0 && said->turn != checker->turn)
        complain(checker, "it is for turn %" PRIu32 ", not for turn %" PRIu32, said->turn,
                 checker->turn);
}

/* Checks that an approval has nothing against it, and that feedback has an issue. */
static void check_decision(struct checker *checker)
{
    if (checker->verdict->approve && checker->rejected > 0)
        complain(checker,
                 "it approves and rejects a criterion: return feedback, or verify the criterion");
    if (checker->verdict->approve && checker->critical > 0)
        complain(checker,
                 "it approves with a critical issue: return feedback, or lower the severity");
    if (!checker->verdict->approve && bl_list_empty(&checker->verdict->issues))
        complain(checker, "it is feedback without an issue: list in 'issues' what to fix");
}

static void verdict_check_object(struct checker *checker, const struct bl_json *object)
{
    struct verdict_said said = {0};
    size_t number = 0;
    bool fits =
        bl_source_read(&checker->source, checker->arena, &verdict_said_record, object, &said) == 0;
    checker->verdict->approve = said.approve;
    checker->verdict->rationale = said.rationale;
    check_subject(checker, &said);
    check_criteria(checker, said.criteria);
    BL_JSON_EACH (value, said.issues)
        check_issue(checker, value, number++);
    /* Without a valid decision there is nothing to check. */
    if (fits)
        check_decision(checker);
}

/* ---- The whole ------------------------------------------------------------------------------- */

int verdict_parse(struct bl_arena *arena, struct bl_text text, const struct bl_plan_task *task,
                  uint32_t turn, struct verdict *ret_verdict, struct bl_text *ret_reason)
{
    struct checker checker = {.source = {.tell = verdict_tell},
                              .arena = arena,
                              .task = task,
                              .turn = turn,
                              .verdict = ret_verdict,
                              .place = ""};
    const struct bl_json *object;
    *ret_verdict = (struct verdict){.approve = false};
    *ret_reason = (struct bl_text){0};
    bl_list_init(&ret_verdict->issues);
    if (bl_text_trim(text).size == 0) {
        *ret_reason = BL_TEXT("no verdict: answer with one JSON object in a fenced json "
                              "block");
        return BL_EPARSE;
    }
    if (result_read(arena, text, true, &object, ret_reason) != 0)
        return BL_EPARSE;
    bl_buffer_init(&checker.reason, REASON_MAX);
    verdict_check_object(&checker, object);
    if (checker.faults > FAULTS_MAX)
        bl_buffer_printf(&checker.reason, "; and %u more", checker.faults - FAULTS_MAX);
    *ret_reason = bl_arena_text(arena, bl_buffer_text(&checker.reason));
    bl_buffer_done(&checker.reason);
    if (checker.faults > 0) {
        *ret_verdict = (struct verdict){.approve = false};
        bl_list_init(&ret_verdict->issues);
        return BL_EPARSE;
    }
    ret_verdict->json = bl_json_value_text(arena, object); /* events are single lines */
    return 0;
}
