#include "plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define OPERATION              "load the plan"
#define VERIFY_TIMEOUT_DEFAULT (600 * BL_NS_PER_S)

static const char *const on_failure_words[] = {
    [BL_ON_FAILURE_WAVE_END] = "wave_end",
    [BL_ON_FAILURE_CANCEL_SIBLINGS] = "cancel_siblings",
    [BL_ON_FAILURE_CONTINUE] = "continue",
};
const struct bl_names bl_on_failure_names = BL_NAMES(on_failure_words);

const char *bl_on_failure_name(enum bl_on_failure policy)
{
    return bl_names_get(&bl_on_failure_names, policy);
}

/* ---- Resolving ------------------------------------------------------------------------------- */

static const char *const no_texts[] = {NULL};

/* Returns the commands with the oracle added at the end. */
static const char *const *add_command(struct bl_arena *arena, const char *const *commands,
                                      const char *more)
{
    size_t count = 0;

    if (more == NULL)
        return commands;
    while (commands[count] != NULL)
        count++;
    const char **all = bl_arena_zalloc(arena, (count + 2) * sizeof *all);
    memcpy(all, commands, count * sizeof *all);
    all[count] = more;
    return all;
}

static void decide_verify(struct plan_loader *loader, const struct plan_draft *draft,
                          struct bl_plan_task *task)
{
    struct bl_verify_plan *verify = &task->verify;
    const char *oracle = draft->oracle != NULL ? draft->oracle : loader->oracle;

    *verify = draft->said.verify;
    verify->commands =
        add_command(loader->arena, verify->commands != NULL ? verify->commands : no_texts, oracle);
    if (verify->carry == NULL)
        verify->carry = no_texts;
    if (verify->protect == NULL)
        verify->protect = no_texts;
    if (task->verify.required && task->verify.commands[0] == NULL && !task->manual)
        plan_fault(loader, &loader->file, draft->node, "E10",
                   "verification is required, but %s has no verify commands", task->id);
}

static void plan_decide(struct plan_loader *loader)
{
    struct bl_plan *plan = loader->plan;
    const struct bl_plan_overrides *overrides = loader->options->overrides;

    plan->on_failure = loader->said.on_failure;
    if (overrides != NULL && overrides->on_failure_set)
        plan->on_failure = overrides->on_failure;
    plan->required = loader->said.verify.required;
    plan_limits_decide(loader);
    for (size_t i = 0; i < plan->task_count; i++) {
        struct bl_plan_task *task = &plan->tasks[i];
        const struct plan_draft *draft = &loader->drafts[i];
        plan_seat_decide(PLAN_PLAYER, &loader->said.seats[PLAN_PLAYER],
                         &draft->said.seats[PLAN_PLAYER], &task->player);
        plan_seat_decide(PLAN_COACH, &loader->said.seats[PLAN_COACH],
                         &draft->said.seats[PLAN_COACH], &task->coach);
        if (!task->manual && strcmp(task->status, "completed") != 0 &&
            strcmp(task->status, "deferred") != 0) {
            plan_seat_check(loader, draft, &task->player, PLAN_PLAYER);
            plan_seat_check(loader, draft, &task->coach, PLAN_COACH);
        }
        decide_verify(loader, draft, task);
        plan_task_limits_decide(loader, i);
    }
}

/* Includes name and size of each file, so that text moved between files changes the digest. */
static void add_to_digest(struct bl_sha256 *hash, const struct plan_file *file)
{
    char head[32];

    if (file->name == NULL)
        return;
    snprintf(head, sizeof head, ":%zu:", file->text.size);
    bl_sha256_add(hash, bl_text_from(file->name));
    bl_sha256_add(hash, bl_text_from(head));
    bl_sha256_add(hash, file->text);
}

static void feature_plan_digest(const struct plan_loader *loader)
{
    struct bl_plan *plan = loader->plan;
    struct bl_sha256 hash;
    uint8_t sum[32];

    bl_sha256_init(&hash);
    add_to_digest(&hash, &loader->file);
    for (size_t i = 0; i < plan->task_count; i++)
        add_to_digest(&hash, &loader->drafts[i].file);
    bl_sha256_end(&hash, sum);
    snprintf(plan->digest, sizeof plan->digest, "sha256:");
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(plan->digest + 7 + 2 * i, 3, "%02x", sum[i]);
}

/* ---- Sorting problems ------------------------------------------------------------------------ */

/* Order: the feature file, then the task files in plan order; within a file by line. */
struct ranked {
    struct bl_plan_problem *problem;
    size_t file;
    size_t order;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->problem->line != y->problem->line)
        return x->problem->line < y->problem->line ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static size_t rank_of(const struct plan_loader *loader, const char *file)
{
    if (loader->file.name == NULL || strcmp(file, loader->file.name) == 0)
        return 0;
    for (size_t i = 0; i < loader->plan->task_count; i++) {
        const char *name = loader->drafts[i].file.name;
        if (name != NULL && strcmp(file, name) == 0)
            return i + 1;
    }
    return SIZE_MAX;
}

static void sort_problems(const struct plan_loader *loader, struct bl_list *from,
                          struct bl_list *to)
{
    size_t count = 0, used = 0;

    BL_LIST_EACH (link, from)
        count++;
    struct ranked *all = bl_alloc((count + 1) * sizeof *all);
    for (struct bl_list *link; (link = bl_list_pop_front(from)) != NULL; used++) {
        struct bl_plan_problem *problem = BL_CONTAINER(link, struct bl_plan_problem, link);
        all[used] = (struct ranked){problem, rank_of(loader, problem->file), used};
    }
    qsort(all, count, sizeof *all, compare_ranked);
    for (size_t i = 0; i < count; i++)
        bl_list_push_back(to, &all[i].problem->link);
    bl_free(all);
}

static int plan_fail(struct plan_loader *loader, struct bl_list *problems, struct bl_error *error)
{
    struct bl_list *before = problems->previous;
    BL_AUTO_BUFFER(text, (size_t)256 * 1024);
    size_t count = 0;

    BL_LIST_EACH (link, &loader->errors)
        count++;
    sort_problems(loader, &loader->errors, problems);
    bl_plan_problem_text(BL_CONTAINER(before->next, struct bl_plan_problem, link), &text);
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, loader->options->name, BL_TEXT_FORMAT,
                 BL_TEXT_ARG(bl_buffer_text(&text)));
    if (count > 1)
        bl_error_hint(error, "%zu more; 'belay feature validate' lists all errors", count - 1);
    return BL_EINVAL;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static void plan_read_all(struct plan_loader *loader)
{
    if (bl_text_ends_with(bl_text_from(loader->plan->path), BL_TEXT(".md"))) {
        plan_fault_line(
            loader, loader->file.name, 0, "E01",
            "this is a Markdown file, but a plan is a YAML file whose tasks refer to Markdown "
            "files.%s",
            plan_known(loader, loader->plan->repository));
        return;
    }
    if (!plan_file_load(loader, loader->plan->path, PLAN_SIZE_MAX, &loader->file) ||
        !plan_file_parse(loader, &loader->file, loader->file.text))
        return;
    plan_feature_read(loader);
    plan_tasks_read(loader);
    plan_graph_read(loader);
    plan_gate_read(loader);
    plan_decide(loader);
    feature_plan_digest(loader);
}

int bl_plan_load(struct bl_arena *arena, const struct bl_plan_options *options,
                 struct bl_plan **ret_plan, struct bl_list *problems, struct bl_error *error)
{
    struct plan_loader *loader = bl_alloc(sizeof *loader);
    struct bl_list warnings;

    plan_loader_init(loader, options, arena);
    plan_limits_init(loader);
    loader->said.verify.timeout_ns = VERIFY_TIMEOUT_DEFAULT;
    int code = plan_find(loader, error);
    if (code == 0)
        plan_read_all(loader);
    if (!bl_list_empty(&loader->errors))
        code = plan_fail(loader, problems, error);
    if (code == 0) {
        bl_list_init(&warnings);
        sort_problems(loader, &loader->plan->warnings, &warnings);
        for (struct bl_list *link; (link = bl_list_pop_front(&warnings)) != NULL;)
            bl_list_push_back(&loader->plan->warnings, link);
        *ret_plan = loader->plan;
    } else {
        bl_plan_free(loader->plan);
    }
    plan_loader_done(loader);
    bl_free(loader);
    return code;
}

void bl_plan_free(struct bl_plan *plan)
{
    if (plan == NULL)
        return;
    bl_arena_done(&plan->arena);
    bl_free(plan);
}
