#include "plan.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Plain text ------------------------------------------------------------------------------ */

void plan_escape(struct bl_buffer *out, struct bl_text text)
{
    bl_text_show(out, text, BL_SHOW_LINE);
}

static void plan_text_put(struct bl_buffer *out, const char *string)
{
    plan_escape(out, bl_text_from(string));
}

int bl_plan_problem_text(const struct bl_plan_problem *problem, struct bl_buffer *out)
{
    BL_AUTO_BUFFER(line, (size_t)512 * 1024);

    plan_text_put(&line, problem->file);
    if (problem->line > 0)
        bl_buffer_printf(&line, ":%" PRIu32, problem->line);
    bl_buffer_printf(&line, ": %s ", strcmp(problem->code, "W") == 0 ? "warning:" : problem->code);
    plan_text_put(&line, problem->message);
    return bl_buffer_append(out, bl_buffer_text(&line));
}

void bl_plan_deadline_text(const struct bl_plan_task *task, char out[96])
{
    char deadline[32], grace[32];

    bl_duration_format((int64_t)task->deadline_ns, deadline);
    bl_duration_format((int64_t)task->limits.coach_grace_ns, grace);
    if (task->limits.coach_grace_ns > 0)
        snprintf(out, 96, "%s + %s coach grace", deadline, grace);
    else
        snprintf(out, 96, "%s", deadline);
}

/* ---- Output of validate ---------------------------------------------------------------------- */

static void put_seat(struct bl_buffer *out, const char *name, const struct bl_seat *seat)
{
    char grace[32];

    bl_buffer_printf(out, "    %s: ", name);
    if (seat->kind == BL_SEAT_COMMAND) {
        bl_buffer_append(out, BL_TEXT("command"));
        for (size_t i = 0; seat->command[i] != NULL; i++) {
            bl_buffer_append_byte(out, ' ');
            plan_text_put(out, seat->command[i]);
        }
        bl_duration_format((int64_t)seat->grace_ns, grace);
        bl_buffer_printf(out, "; grace %s, sandbox %s\n", grace, bl_sandbox_name(seat->sandbox));
        return;
    }
    bl_buffer_append(out, BL_TEXT("agent "));
    plan_text_put(out, seat->provider != NULL ? seat->provider : "(provider as configured)");
    if (seat->model != NULL) {
        bl_buffer_append_byte(out, ' ');
        plan_text_put(out, seat->model);
    }
    bl_buffer_append(out, BL_TEXT(", persona "));
    plan_text_put(out, seat->persona);
    bl_buffer_printf(out, ", %s", bl_permission_mode_name(seat->permission));
    if (seat->max_steps != BL_UNLIMITED)
        bl_buffer_printf(out, ", at most %" PRIu64 " steps", seat->max_steps);
    if (seat->sandbox_chosen)
        bl_buffer_printf(out, ", sandbox %s", bl_sandbox_name(seat->sandbox));
    bl_buffer_append_byte(out, '\n');
}

static size_t plan_text_count_of(const char *const *texts)
{
    size_t count = 0;

    while (texts[count] != NULL)
        count++;
    return count;
}

static void plan_text_put_verify(struct bl_buffer *out, const struct bl_verify_plan *verify)
{
    char timeout[32];
    size_t count = plan_text_count_of(verify->commands);

    if (count == 0) {
        bl_buffer_append(out, BL_TEXT("    verify: no commands: the Coach decides alone, and the "
                                      "result is \"approved, not verified\"\n"));
        return;
    }
    bl_duration_format((int64_t)verify->timeout_ns, timeout);
    bl_buffer_printf(out, "    verify (%s each%s%s):", timeout,
                     verify->required ? ", required" : "",
                     verify->setup != NULL && verify->setup_network ? ", setup with network" : "");
    for (size_t i = 0; i < count; i++) {
        bl_buffer_append(out, i > 0 ? BL_TEXT("; ") : BL_TEXT(" "));
        plan_text_put(out, verify->commands[i]);
    }
    bl_buffer_append_byte(out, '\n');
}

static bool has_budget(const struct bl_feature_limits *limits)
{
    return limits->max_budget_tokens != BL_UNLIMITED || limits->max_budget_usd >= 0;
}

static void plan_text_put_budget(struct bl_buffer *out, const struct bl_feature_limits *limits)
{
    if (limits->max_budget_tokens != BL_UNLIMITED)
        bl_buffer_printf(out, " %" PRIu64 " tokens", limits->max_budget_tokens);
    if (limits->max_budget_usd >= 0)
        bl_buffer_printf(out, "%s %g USD", limits->max_budget_tokens != BL_UNLIMITED ? "," : "",
                         limits->max_budget_usd);
    if (!has_budget(limits))
        bl_buffer_append(out, BL_TEXT(" none"));
    bl_buffer_append_byte(out, '\n');
}

static void put_unreported(struct bl_buffer *out, const char *indent, const char *who)
{
    bl_buffer_printf(out,
                     "%sbudget: %s is a command: usage that it does not report is not "
                     "counted\n",
                     indent, who);
}

static bool runs_commands(const struct bl_plan_task *task)
{
    return !task->manual &&
           (task->player.kind == BL_SEAT_COMMAND || task->coach.kind == BL_SEAT_COMMAND);
}

/* Returns why the task starts no agent, or NULL. */
static const char *idle_of(const struct bl_plan_task *task)
{
    if (task->manual)
        return "manual: deferred, starts no agent";
    if (strcmp(task->status, "completed") == 0)
        return "completed in the plan: does not run, unless the store has another state";
    if (strcmp(task->status, "deferred") == 0)
        return "deferred in the plan: does not run, unless the store has another state";
    return NULL;
}

static void plan_text_put_task(struct bl_buffer *out, const struct bl_plan *plan,
                               const struct bl_plan_task *task)
{
    char deadline[96];
    const char *idle = idle_of(task);

    bl_buffer_append(out, BL_TEXT("  "));
    plan_text_put(out, task->id);
    bl_buffer_append(out, BL_TEXT("  "));
    plan_text_put(out, task->name);
    bl_buffer_append_byte(out, '\n');
    if (idle != NULL)
        bl_buffer_printf(out, "    %s\n", idle);
    bl_plan_deadline_text(task, deadline);
    bl_buffer_printf(out, "    deadline: %s (%s); turns: %" PRIu32 "; criteria: %zu", deadline,
                     task->deadline_source, task->limits.turns, task->criterion_count);
    if (task->complexity > 0)
        bl_buffer_printf(out, "; complexity: %" PRId64, task->complexity);
    if (task->estimated_minutes > 0)
        bl_buffer_printf(out, "; estimate: %" PRId64 " minutes", task->estimated_minutes);
    bl_buffer_append_byte(out, '\n');
    if (task->dependency_count > 0)
        bl_buffer_append(out, BL_TEXT("    after:"));
    for (size_t i = 0; i < task->dependency_count; i++) {
        bl_buffer_append_byte(out, ' ');
        plan_text_put(out, plan->tasks[task->dependencies[i]].id);
    }
    if (task->dependency_count > 0)
        bl_buffer_append_byte(out, '\n');
    put_seat(out, "player", &task->player);
    put_seat(out, "coach", &task->coach);
    plan_text_put_verify(out, &task->verify);
    if (!has_budget(&task->limits))
        return;
    bl_buffer_append(out, BL_TEXT("    budget:"));
    plan_text_put_budget(out, &task->limits);
    if (runs_commands(task))
        put_unreported(out, "    ",
                       task->player.kind == BL_SEAT_COMMAND ? "its player" : "its coach");
}

static void plan_text_put_head(struct bl_buffer *out, const struct bl_plan *plan)
{
    char deadline[32] = "none";
    size_t unreported = 0;

    plan_text_put(out, plan->id);
    bl_buffer_append(out, BL_TEXT(": "));
    plan_text_put(out, plan->name);
    bl_buffer_append(out, BL_TEXT("\n  file: "));
    plan_text_put(out, plan->path);
    bl_buffer_printf(out, "\n  plan: %s\n  tasks: %zu in %zu wave%s, %" PRIu32 " at once",
                     plan->digest, plan->task_count, plan->wave_count,
                     plan->wave_count == 1 ? "" : "s", plan->limits.parallel);
    if (plan->recommended_parallel > 0)
        bl_buffer_printf(out, " (recommended_parallel %" PRId64 ")", plan->recommended_parallel);
    if (plan->limits.feature_timeout_ns > 0)
        bl_duration_format((int64_t)plan->limits.feature_timeout_ns, deadline);
    bl_buffer_printf(out, "\n  on failure: %s\n  feature deadline: %s\n  budget:",
                     bl_on_failure_name(plan->on_failure), deadline);
    plan_text_put_budget(out, &plan->limits);
    for (size_t i = 0; i < plan->task_count; i++)
        unreported += runs_commands(&plan->tasks[i]);
    if (has_budget(&plan->limits) && unreported > 0)
        put_unreported(out, "  ", "at least one seat");
}

static void put_gate(struct bl_buffer *out, const struct bl_smoke_gate *gate)
{
    char timeout[32];

    bl_buffer_append(out, BL_TEXT("  gate: "));
    plan_text_put(out, gate->command);
    bl_duration_format((int64_t)gate->timeout_ns, timeout);
    bl_buffer_printf(out, " (exit %d within %s)\n", gate->expected_exit, timeout);
}

int bl_plan_text(const struct bl_plan *plan, struct bl_buffer *out)
{
    BL_AUTO_BUFFER(text, (size_t)64 << 20);

    plan_text_put_head(&text, plan);
    for (size_t i = 0; i < plan->wave_count; i++) {
        const struct bl_plan_wave *wave = &plan->waves[i];
        bl_buffer_printf(&text, "wave %zu\n", i + 1);
        for (size_t j = 0; j < wave->count; j++)
            plan_text_put_task(&text, plan, &plan->tasks[wave->tasks[j]]);
        if (wave->gated && plan->gate.command != NULL)
            put_gate(&text, &plan->gate);
    }
    return bl_buffer_append(out, bl_buffer_text(&text));
}
