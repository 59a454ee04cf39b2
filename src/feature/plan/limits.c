/* Limits and deadlines.
 *
 * Design notes.
 *
 * A limit may be set in several places. The first of them wins:
 *
 *   command line > task's belay: > task's autobuild: > feature's belay: > default
 *
 * So each is read over the next: the feature's over the defaults, a task's over the feature's.
 *
 * Budgets are the exception: those of a feature file limit the feature, those of a task file the
 * task, and neither is inherited. */
#include "plan.h"

#define MULTIPLIER_LEAST 0.1
#define MULTIPLIER_MOST  100.0

#define DURATION(key, field, shortest, ...)                                                        \
    BL_MEMBER_DURATION(key, field, .optional = true, .least = (shortest),                          \
                       .most = PLAN_DURATION_MAX_NS, __VA_ARGS__)
#define COUNT(key, field, fewest, greatest)                                                        \
    BL_MEMBER_INTEGER(key, field, .optional = true, .least = (fewest), .most = (greatest))

#define BL_RECORD_STRUCT struct bl_feature_limits
static const struct bl_member limits_members[] = {
    DURATION("task_timeout", task_timeout_ns, 1),
    BL_MEMBER_NUMBER("timeout_multiplier", timeout_multiplier, .optional = true),
    DURATION("feature_timeout", feature_timeout_ns, 1, .nullable = true),
    COUNT("parallel", parallel, 1, 64),
    COUNT("turns", turns, 1, 50),
    DURATION("min_turn_budget", min_turn_budget_ns, 0),
    DURATION("coach_grace", coach_grace_ns, 0),
    DURATION("drain", drain_ns, 0),
    COUNT("merge_turns", merge_turns, 0, 50),
    DURATION("merge_timeout", merge_timeout_ns, 1),
    COUNT("feedback_issues", feedback_issues, 1, 1000),
    BL_MEMBER_INTEGER("max_budget_tokens", max_budget_tokens, .optional = true, .nullable = true,
                      .none = -1, .most = 1000000000000000),
    BL_MEMBER_NUMBER("max_budget_usd", max_budget_usd, .optional = true, .nullable = true,
                     .none = -1, .most = 1000000000),
    BL_MEMBER_END,
};
static const struct bl_record limits_record =
    BL_RECORD("limits", struct bl_feature_limits, limits_members, .closed = true);

static const struct bl_member autobuild_members[] = {
    DURATION("task_timeout", task_timeout_ns, 1),
    COUNT("max_turns", turns, 1, 50),
    BL_MEMBER_END,
};
static const struct bl_record autobuild_record =
    BL_RECORD("autobuild", struct bl_feature_limits, autobuild_members);
#undef BL_RECORD_STRUCT

/* ---- Reading --------------------------------------------------------------------------------- */

void plan_limits_init(struct plan_loader *loader)
{
    loader->timeout = (struct plan_timeout){.source = "default"};
    loader->limits = (struct bl_feature_limits){
        .task_timeout_ns = 2400 * BL_NS_PER_S,
        .timeout_multiplier = 1.0,
        .parallel = 4,
        .turns = 5,
        .min_turn_budget_ns = 120 * BL_NS_PER_S,
        .drain_ns = 10 * BL_NS_PER_S,
        .merge_turns = 2,
        .merge_timeout_ns = 600 * BL_NS_PER_S,
        .feedback_issues = 10,
        .max_budget_tokens = BL_UNLIMITED,
        .max_budget_usd = -1,
    };
}

static void note_timeout(const struct plan_file *file, const struct bl_json *mapping,
                         const char *source, bool own, struct plan_timeout *timeout)
{
    const struct bl_json *key = plan_member(mapping, "task_timeout");

    if (key != NULL)
        *timeout = (struct plan_timeout){source, own, plan_line(file, key)};
}

/* Refuses values that fit the type but not the limit. */
static void check_limit(struct plan_loader *loader, const struct plan_file *file,
                        const struct bl_json *key, bool task)
{
    static const char *const of_features[] = {"parallel", "feature_timeout", "drain"};
    static const char *const nullable[] = {"feature_timeout", "max_budget_tokens",
                                           "max_budget_usd"};
    bool may_lack = false;

    for (size_t i = 0; i < BL_COUNT(of_features); i++) {
        may_lack = may_lack || strcmp(key->string, nullable[i]) == 0;
        if (task && strcmp(key->string, of_features[i]) == 0)
            plan_fault(loader, file, key, "E08",
                       "%s is a limit of the feature: set it in the feature file", key->string);
    }
    if (key[1].type == BL_JSON_NULL && !may_lack)
        plan_fault(loader, file, key + 1, "E07", "%s: expected a value, found null", key->string);
}

void plan_limits_read(struct plan_loader *loader, const struct plan_file *file,
                      const struct bl_json *mapping, bool task, struct bl_feature_limits *limits,
                      struct plan_timeout *timeout)
{
    const struct bl_json *multiplier = plan_member(mapping, "timeout_multiplier");

    BL_JSON_MEMBERS (key, mapping)
        check_limit(loader, file, key, task);
    if (!plan_record_read(loader, file, &limits_record, mapping, "E08", limits))
        return;
    note_timeout(file, mapping, task ? "task" : "feature", task, timeout);
    if (multiplier != NULL && !(limits->timeout_multiplier >= MULTIPLIER_LEAST &&
                                limits->timeout_multiplier <= MULTIPLIER_MOST))
        plan_fault(loader, file, multiplier + 1, "E07",
                   "timeout_multiplier: expected a number from %g to %g, found %s",
                   MULTIPLIER_LEAST, MULTIPLIER_MOST, plan_show_value(loader, multiplier + 1));
}

void plan_autobuild_read(struct plan_loader *loader, struct plan_draft *draft,
                         const struct bl_json *mapping)
{
    if (bl_json_is(mapping, BL_JSON_OBJECT) &&
        plan_record_read(loader, &draft->file, &autobuild_record, mapping, "E07", &draft->limits))
        note_timeout(&draft->file, mapping, "autobuild", true, &draft->timeout);
}

/* ---- Deciding -------------------------------------------------------------------------------- */

/* Applies the command line, which overrides all files. */
static void apply_overrides(const struct plan_loader *loader, struct bl_feature_limits *limits)
{
    const struct bl_plan_overrides *overrides = loader->options->overrides;

    if (overrides == NULL)
        return;
    if (overrides->parallel > 0)
        limits->parallel = overrides->parallel;
    if (overrides->turns > 0)
        limits->turns = overrides->turns;
    if (overrides->feature_timeout_set)
        limits->feature_timeout_ns = overrides->feature_timeout_ns;
    if (overrides->task_timeout_ns > 0)
        limits->task_timeout_ns = overrides->task_timeout_ns;
    if (overrides->timeout_multiplier > 0)
        limits->timeout_multiplier = overrides->timeout_multiplier;
    if (overrides->coach_grace_set)
        limits->coach_grace_ns = overrides->coach_grace_ns;
    if (overrides->drain_set)
        limits->drain_ns = overrides->drain_ns;
}

void plan_limits_decide(struct plan_loader *loader)
{
    struct bl_plan *plan = loader->plan;
    const struct bl_plan_overrides *overrides = loader->options->overrides;

    plan->limits = loader->limits;
    apply_overrides(loader, &plan->limits);
    if (overrides != NULL && overrides->max_budget_tokens > 0)
        plan->limits.max_budget_tokens = overrides->max_budget_tokens;
    if (overrides != NULL && overrides->max_budget_usd_set)
        plan->limits.max_budget_usd = overrides->max_budget_usd;
    /* A recommendation only lowers the limit, and the command line overrides it. */
    bool said = overrides != NULL && overrides->parallel > 0;
    if (!said && plan->recommended_parallel > 0 &&
        plan->recommended_parallel < plan->limits.parallel)
        plan->limits.parallel = (uint32_t)plan->recommended_parallel;
}

/* The only place where a deadline is computed. */
static uint64_t deadline_of(const struct bl_feature_limits *limits)
{
    double ns = (double)limits->task_timeout_ns * limits->timeout_multiplier;

    return ns < 1 ? 1 : (uint64_t)(ns + 0.5);
}

static void warn_of_deadline(struct plan_loader *loader, size_t number)
{
    const struct bl_plan_task *task = &loader->plan->tasks[number];
    const struct plan_draft *draft = &loader->drafts[number];
    const struct plan_timeout *timeout = &draft->timeout;
    double estimate_s = (double)task->estimated_minutes * 60;
    char deadline[32], budget[32];

    bl_duration_format((int64_t)task->deadline_ns, deadline);
    bl_duration_format((int64_t)task->limits.min_turn_budget_ns, budget);
    if (task->deadline_ns < task->limits.min_turn_budget_ns)
        plan_warn_line(loader, timeout->own ? draft->file.name : loader->file.name,
                       timeout->line > 0 ? timeout->line : 1,
                       "task_timeout (%s) is below min_turn_budget (%s): there is no "
                       "second turn",
                       deadline, budget);
    bool runs = !task->manual && strcmp(task->status, "completed") != 0 &&
                strcmp(task->status, "deferred") != 0;
    if (runs && estimate_s * 1e9 > (double)task->deadline_ns)
        plan_warn(loader, &loader->file, draft->node,
                  "%s is estimated at %lld minutes, but its deadline of %s applies", task->id,
                  (long long)task->estimated_minutes, deadline);
}

void plan_task_limits_decide(struct plan_loader *loader, size_t number)
{
    struct bl_plan_task *task = &loader->plan->tasks[number];
    struct plan_draft *draft = &loader->drafts[number];
    const struct bl_plan_overrides *overrides = loader->options->overrides;

    task->limits = draft->limits;
    apply_overrides(loader, &task->limits);
    task->limits.parallel = loader->plan->limits.parallel;
    if (overrides != NULL && overrides->task_timeout_ns > 0)
        draft->timeout = (struct plan_timeout){.source = "command line"};
    task->deadline_ns = deadline_of(&task->limits);
    task->deadline_source = draft->timeout.source;
    warn_of_deadline(loader, number);
}
