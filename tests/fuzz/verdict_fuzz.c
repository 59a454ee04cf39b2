/* What Coaches and Players print: it must not crash, leak or hang; what is refused says why in a
 * way that can be shown, and what is taken keeps the rules. */
#include "feature/verdict/verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct bl_criterion criteria[] = {{.id = "AC-001"}, {.id = "AC-002"}};
static const struct bl_plan_task task = {
    .id = "TASK-A", .criteria = criteria, .criterion_count = BL_COUNT(criteria)};

static void check(bool condition)
{
    if (!condition)
        __builtin_trap();
}

static void check_found(struct bl_text text)
{
    struct bl_text found = result_find(text);
    check(found.size <= text.size);
    if (found.size > 0)
        check(found.data >= text.data && found.data + found.size <= text.data + text.size);
}

/* Feedback of any issues is bounded, and can be shown. */
static void check_feedback(struct bl_arena *arena, struct bl_list *issues)
{
    struct stall stall = {0};
    const char *why;
    issues_sort(issues);
    struct bl_text text = feedback_make(arena, issues, 10, "/somewhere/feedback.md");
    check(text.size <= FEEDBACK_SIZE_MAX && bl_utf8_valid(text));
    check(bl_list_empty(issues) == (text.size == 0));
    if (!bl_list_empty(issues))
        check(bl_text_starts_with(text, BL_TEXT("1. ")));
    for (size_t i = 0; i < text.size; i++)
        check((unsigned char)text.data[i] >= 0x20 || text.data[i] == '\n' || text.data[i] == '\t');
    check(!stall_after(&stall, NULL, issues, true, &why));
    check(!stall_after(&stall, NULL, issues, true, &why));
    check(stall_after(&stall, NULL, issues, true, &why));
}

static void check_verdict(struct bl_arena *arena, struct bl_text text)
{
    struct verdict verdict;
    struct bl_text reason;
    bool rejected = false, critical = false;
    int code = verdict_parse(arena, text, &task, 3, &verdict, &reason);
    check(code == 0 || code == BL_EPARSE);
    check((code == 0) == (reason.size == 0) && bl_utf8_valid(reason));
    if (code != 0) {
        check(!verdict.approve && bl_list_empty(&verdict.issues));
        return;
    }
    check(verdict.criterion_count == BL_COUNT(criteria) && verdict.json.size > 0);
    for (size_t i = 0; i < verdict.criterion_count; i++)
        rejected = rejected || !verdict.criteria[i].verified;
    BL_LIST_EACH (link, &verdict.issues)
        critical = critical || BL_CONTAINER(link, struct issue, link)->severity == ISSUE_CRITICAL;
    check(verdict.approve ? !rejected && !critical : !bl_list_empty(&verdict.issues));
    check_feedback(arena, &verdict.issues);
}

static void check_result(struct bl_arena *arena, struct bl_text text)
{
    static const char *const changed[] = {"src/a.c", NULL};
    struct player_result result;
    struct bl_text problem;
    struct bl_list issues;
    bl_list_init(&issues);
    player_result_parse(arena, text, &result, &problem);
    check(bl_utf8_valid(problem) && !(result.given && problem.size > 0));
    check(result.done != NULL && result.not_done != NULL && result.files != NULL);
    check(result.given || (!result.blocked && !result.usage_known && result.files[0] == NULL));
    player_claims_check(arena, &result, changed, &issues);
    check_feedback(arena, &issues);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bl_text text = {(const char *)data, size};
    struct bl_arena arena = {0};
    struct bl_list issues;
    check_found(text);
    check_verdict(&arena, text);
    check_result(&arena, text);
    /* Any bytes at all as the end of an output. */
    bl_list_init(&issues);
    issue_add(&arena, &issues, ISSUE_CRITICAL, ISSUE_OF_VERIFY, NULL, text);
    check_feedback(&arena, &issues);
    bl_arena_done(&arena);
    return 0;
}
