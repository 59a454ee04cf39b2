/* Design notes.
 *
 * A limit may be said in four places. Each is a struct plan_limits, and what counts is the first
 * that says it:
 *
 *   command line > task's belay: > task's autobuild: > feature's belay: > default
 *
 * Budgets are the exception: those of a feature file bind the feature, those of a task file the
 * task, and neither is handed down. */
#include "plan.h"

enum kind {
    DURATION, /* above zero */
    DURATION_OR_ZERO,
    COUNT,
    NUMBER,
};

/* What a limit may be. `least` and `most` are of counts and numbers. */
static const struct rule {
    const char *name;
    enum kind kind;
    double least;
    double most;
    bool nullable;
    bool of_tasks; /* a task file may say it, too */
} rules[PLAN_LIMIT_COUNT] = {
    [PLAN_TASK_TIMEOUT] = {"task_timeout", DURATION, .of_tasks = true},
    [PLAN_TIMEOUT_MULTIPLIER] = {"timeout_multiplier", NUMBER, 0.1, 100, .of_tasks = true},
    [PLAN_FEATURE_TIMEOUT] = {"feature_timeout", DURATION, .nullable = true},
    [PLAN_PARALLEL] = {"parallel", COUNT, 1, 64, .of_tasks = false},
    [PLAN_TURNS] = {"turns", COUNT, 1, 50, .of_tasks = true},
    [PLAN_MIN_TURN_BUDGET] = {"min_turn_budget", DURATION_OR_ZERO, .of_tasks = true},
    [PLAN_COACH_GRACE] = {"coach_grace", DURATION_OR_ZERO, .of_tasks = true},
    [PLAN_DRAIN] = {"drain", DURATION_OR_ZERO, .of_tasks = false},
    [PLAN_MERGE_TURNS] = {"merge_turns", COUNT, 0, 50, .of_tasks = true},
    [PLAN_MERGE_TIMEOUT] = {"merge_timeout", DURATION, .of_tasks = true},
    [PLAN_FEEDBACK_ISSUES] = {"feedback_issues", COUNT, 1, 1000, .of_tasks = true},
    [PLAN_MAX_BUDGET_TOKENS] = {"max_budget_tokens", COUNT, 0, 1e15, true, true},
    [PLAN_MAX_BUDGET_USD] = {"max_budget_usd", NUMBER, 0, 1e9, true, true},
};

static const struct plan_limits defaults = {{
    [PLAN_TASK_TIMEOUT] = {.said = true, .amount = 2400 * BL_NS_PER_S},
    [PLAN_TIMEOUT_MULTIPLIER] = {.said = true, .number = 1.0},
    [PLAN_FEATURE_TIMEOUT] = {.said = true, .none = true},
    [PLAN_PARALLEL] = {.said = true, .amount = 4},
    [PLAN_TURNS] = {.said = true, .amount = 5},
    [PLAN_MIN_TURN_BUDGET] = {.said = true, .amount = 120 * BL_NS_PER_S},
    [PLAN_COACH_GRACE] = {.said = true, .amount = 0},
    [PLAN_DRAIN] = {.said = true, .amount = 10 * BL_NS_PER_S},
    [PLAN_MERGE_TURNS] = {.said = true, .amount = 2},
    [PLAN_MERGE_TIMEOUT] = {.said = true, .amount = 600 * BL_NS_PER_S},
    [PLAN_FEEDBACK_ISSUES] = {.said = true, .amount = 10},
    [PLAN_MAX_BUDGET_TOKENS] = {.said = true, .none = true},
    [PLAN_MAX_BUDGET_USD] = {.said = true, .none = true},
}};

/* ---- Reading --------------------------------------------------------------------------------- */

/* `key` names the limit as it is said there: autobuild calls turns max_turns. */
static void read_value(struct plan_loader *loader, const struct plan_file *file,
                       const struct rule *rule, const struct bl_json *key,
                       struct plan_limit_value *value)
{
    struct plan_limit_value read = {.said = true, .line = plan_line(file, key)};
    bool duration = rule->kind == DURATION || rule->kind == DURATION_OR_ZERO;
    int64_t count = 0;

    if (key[1].type == BL_JSON_NULL && rule->nullable) {
        read.none = true;
        *value = read;
        return;
    }
    if (duration) {
        if (plan_duration(loader, file, key, rule->kind == DURATION_OR_ZERO, &read.amount))
            *value = read;
        return;
    }
    bool fits = rule->kind == COUNT ? plan_integer(loader, key + 1, &count)
                                    : plan_number(loader, key + 1, &read.number);
    double number = rule->kind == COUNT ? (double)count : read.number;
    if (fits && number >= rule->least && number <= rule->most) {
        read.amount = (uint64_t)count;
        *value = read;
        return;
    }
    const char *what = rule->kind == COUNT ? "a whole number" : "a number";
    const char *shown = plan_show_value(loader, key + 1);
    if (rule->nullable)
        plan_fault(loader, file, key + 1, "E07", "%s must be %s of %g or more (or null), is %s",
                   key->string, what, rule->least, shown);
    else
        plan_fault(loader, file, key + 1, "E07", "%s must be %s from %g to %g, is %s", key->string,
                   what, rule->least, rule->most, shown);
}

void plan_limits_read(struct plan_loader *loader, const struct plan_file *file,
                      const struct bl_json *mapping, bool task, struct plan_limits *limits)
{
    const char *names[PLAN_LIMIT_COUNT + 1] = {0};

    for (size_t i = 0; i < PLAN_LIMIT_COUNT; i++)
        names[i] = rules[i].name;
    if (!plan_keys_check(loader, file, mapping, "E08", "limits", names))
        return;
    BL_JSON_MEMBERS (key, mapping) {
        for (size_t i = 0; i < PLAN_LIMIT_COUNT; i++) {
            if (!bl_text_equal(bl_json_text(key), bl_text_from(rules[i].name)))
                continue;
            if (task && !rules[i].of_tasks)
                plan_fault(loader, file, key, "E08",
                           "%s is a limit of the feature: it belongs into the feature file",
                           key->string);
            else
                read_value(loader, file, &rules[i], key, &limits->values[i]);
        }
    }
}

void plan_autobuild_read(struct plan_loader *loader, const struct plan_file *file,
                         const struct bl_json *mapping, struct plan_limits *limits)
{
    const struct bl_json *timeout = plan_member(mapping, "task_timeout");
    const struct bl_json *turns = plan_member(mapping, "max_turns");

    if (timeout != NULL)
        read_value(loader, file, &rules[PLAN_TASK_TIMEOUT], timeout,
                   &limits->values[PLAN_TASK_TIMEOUT]);
    if (turns != NULL)
        read_value(loader, file, &rules[PLAN_TURNS], turns, &limits->values[PLAN_TURNS]);
}

void plan_limits_overrides(const struct bl_plan_overrides *overrides, struct plan_limits *limits)
{
    struct plan_limit_value *values = limits->values;

    if (overrides->parallel > 0)
        values[PLAN_PARALLEL] =
            (struct plan_limit_value){.said = true, .amount = overrides->parallel};
    if (overrides->turns > 0)
        values[PLAN_TURNS] = (struct plan_limit_value){.said = true, .amount = overrides->turns};
    if (overrides->feature_timeout_set)
        values[PLAN_FEATURE_TIMEOUT] =
            (struct plan_limit_value){.said = true,
                                      .none = overrides->feature_timeout_ns == 0,
                                      .amount = overrides->feature_timeout_ns};
    if (overrides->task_timeout_ns > 0)
        values[PLAN_TASK_TIMEOUT] =
            (struct plan_limit_value){.said = true, .amount = overrides->task_timeout_ns};
    if (overrides->timeout_multiplier > 0)
        values[PLAN_TIMEOUT_MULTIPLIER] =
            (struct plan_limit_value){.said = true, .number = overrides->timeout_multiplier};
    if (overrides->coach_grace_set)
        values[PLAN_COACH_GRACE] =
            (struct plan_limit_value){.said = true, .amount = overrides->coach_grace_ns};
    if (overrides->drain_set)
        values[PLAN_DRAIN] = (struct plan_limit_value){.said = true, .amount = overrides->drain_ns};
    if (overrides->max_budget_tokens > 0)
        values[PLAN_MAX_BUDGET_TOKENS] =
            (struct plan_limit_value){.said = true, .amount = overrides->max_budget_tokens};
    if (overrides->max_budget_usd_set)
        values[PLAN_MAX_BUDGET_USD] =
            (struct plan_limit_value){.said = true, .number = overrides->max_budget_usd};
}

/* ---- Deciding -------------------------------------------------------------------------------- */

enum layer {
    COMMAND_LINE,
    TASK,
    AUTOBUILD,
    FEATURE,
    DEFAULT,
    LAYER_COUNT,
};

static const char *const layer_names[LAYER_COUNT] = {"command line", "task", "autobuild", "feature",
                                                     "default"};

struct layers {
    const struct plan_limits *at[LAYER_COUNT]; /* NULL: nothing is said there */
};

static struct layers layers_of(const struct plan_loader *loader, const struct plan_draft *draft)
{
    return (struct layers){{
        [COMMAND_LINE] = &loader->command_line,
        [TASK] = draft != NULL ? &draft->said.limits : NULL,
        [AUTOBUILD] = draft != NULL ? &draft->autobuild : NULL,
        [FEATURE] = &loader->said.limits,
        [DEFAULT] = &defaults,
    }};
}

static const struct plan_limit_value *limits_decide(const struct layers *layers,
                                                    enum plan_limit limit, enum layer *ret_layer)
{
    size_t layer = 0;

    while (layer < DEFAULT && (layers->at[layer] == NULL || !layers->at[layer]->values[limit].said))
        layer++;
    if (ret_layer != NULL)
        *ret_layer = (enum layer)layer;
    return &layers->at[layer]->values[limit];
}

static void limits_fill(const struct layers *layers, struct bl_feature_limits *limits)
{
    const struct plan_limit_value *feature_timeout =
        limits_decide(layers, PLAN_FEATURE_TIMEOUT, NULL);
    const struct plan_limit_value *tokens = limits_decide(layers, PLAN_MAX_BUDGET_TOKENS, NULL);
    const struct plan_limit_value *usd = limits_decide(layers, PLAN_MAX_BUDGET_USD, NULL);

    *limits = (struct bl_feature_limits){
        .task_timeout_ns = limits_decide(layers, PLAN_TASK_TIMEOUT, NULL)->amount,
        .timeout_multiplier = limits_decide(layers, PLAN_TIMEOUT_MULTIPLIER, NULL)->number,
        .feature_timeout_ns = feature_timeout->none ? 0 : feature_timeout->amount,
        .parallel = (uint32_t)limits_decide(layers, PLAN_PARALLEL, NULL)->amount,
        .turns = (uint32_t)limits_decide(layers, PLAN_TURNS, NULL)->amount,
        .min_turn_budget_ns = limits_decide(layers, PLAN_MIN_TURN_BUDGET, NULL)->amount,
        .coach_grace_ns = limits_decide(layers, PLAN_COACH_GRACE, NULL)->amount,
        .drain_ns = limits_decide(layers, PLAN_DRAIN, NULL)->amount,
        .merge_turns = (uint32_t)limits_decide(layers, PLAN_MERGE_TURNS, NULL)->amount,
        .merge_timeout_ns = limits_decide(layers, PLAN_MERGE_TIMEOUT, NULL)->amount,
        .feedback_issues = (uint32_t)limits_decide(layers, PLAN_FEEDBACK_ISSUES, NULL)->amount,
        .max_budget_tokens = tokens->none ? BL_UNLIMITED : tokens->amount,
        .max_budget_usd = usd->none ? -1 : usd->number,
    };
}

void plan_limits_decide(struct plan_loader *loader)
{
    struct bl_plan *plan = loader->plan;
    struct layers layers = layers_of(loader, NULL);

    limits_fill(&layers, &plan->limits);
    /* A recommendation only lowers, and a person's word is above it. */
    if (!loader->command_line.values[PLAN_PARALLEL].said && plan->recommended_parallel > 0 &&
        plan->recommended_parallel < plan->limits.parallel)
        plan->limits.parallel = (uint32_t)plan->recommended_parallel;
}

/* The one place where a deadline is made. */
static uint64_t deadline_of(const struct bl_feature_limits *limits)
{
    double ns = (double)limits->task_timeout_ns * limits->timeout_multiplier;

    return ns < 1 ? 1 : (uint64_t)(ns + 0.5);
}

static void warn_of_deadline(struct plan_loader *loader, size_t number, enum layer layer,
                             uint32_t line)
{
    const struct bl_plan_task *task = &loader->plan->tasks[number];
    const struct plan_draft *draft = &loader->drafts[number];
    bool own = layer == TASK || layer == AUTOBUILD;
    double estimate_s = (double)task->estimated_minutes * 60;
    char deadline[32], budget[32];

    plan_seconds(task->deadline_ns, deadline);
    if (task->deadline_ns < task->limits.min_turn_budget_ns)
        plan_warn_line(loader, own ? draft->file.name : loader->file.name, line > 0 ? line : 1,
                       "task_timeout (%s s) is below min_turn_budget (%s s): there is never a "
                       "second turn",
                       deadline, plan_seconds(task->limits.min_turn_budget_ns, budget));
    bool runs = !task->manual && strcmp(task->status, "completed") != 0 &&
                strcmp(task->status, "deferred") != 0;
    if (runs && estimate_s * 1e9 > (double)task->deadline_ns)
        plan_warn(loader, &loader->file, draft->node,
                  "%s is estimated at %lld minutes, its deadline is %s s: the deadline counts",
                  task->id, (long long)task->estimated_minutes, deadline);
}

void plan_task_limits_decide(struct plan_loader *loader, size_t number)
{
    struct bl_plan_task *task = &loader->plan->tasks[number];
    const struct plan_draft *draft = &loader->drafts[number];
    struct layers layers = layers_of(loader, draft);
    const struct plan_limit_value *own = draft->said.limits.values;
    enum layer layer;

    limits_fill(&layers, &task->limits);
    task->limits.parallel = loader->plan->limits.parallel;
    bool tokens = own[PLAN_MAX_BUDGET_TOKENS].said && !own[PLAN_MAX_BUDGET_TOKENS].none;
    bool usd = own[PLAN_MAX_BUDGET_USD].said && !own[PLAN_MAX_BUDGET_USD].none;
    task->limits.max_budget_tokens = tokens ? own[PLAN_MAX_BUDGET_TOKENS].amount : BL_UNLIMITED;
    task->limits.max_budget_usd = usd ? own[PLAN_MAX_BUDGET_USD].number : -1;
    const struct plan_limit_value *timeout = limits_decide(&layers, PLAN_TASK_TIMEOUT, &layer);
    task->deadline_ns = deadline_of(&task->limits);
    task->deadline_source = layer_names[layer];
    warn_of_deadline(loader, number, layer, timeout->line);
}
