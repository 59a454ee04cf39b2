#include "plan.h"

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static void put_double(struct bl_json_writer *writer, const char *key, double value)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_double(writer, value);
}

/* 0: not said. */
static void plan_write_put_said(struct bl_json_writer *writer, const char *key, int64_t value)
{
    bl_json_write_key(writer, bl_text_from(key));
    if (value > 0)
        bl_json_write_int64(writer, value);
    else
        bl_json_write_null(writer);
}

static void plan_write_put_limit(struct bl_json_writer *writer, const char *key, uint64_t value)
{
    if (value != BL_UNLIMITED)
        bl_json_put_uint64(writer, key, value);
    else
        bl_json_put_string(writer, key, NULL);
}

static void put_texts(struct bl_json_writer *writer, const char *key, const char *const *texts)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_array(writer);
    for (size_t i = 0; texts[i] != NULL; i++)
        bl_json_write_string(writer, texts[i]);
    bl_json_write_end(writer);
}

static void plan_write_put_budget(struct bl_json_writer *writer,
                                  const struct bl_feature_limits *limits)
{
    plan_write_put_limit(writer, "max_budget_tokens", limits->max_budget_tokens);
    if (limits->max_budget_usd >= 0)
        put_double(writer, "max_budget_usd", limits->max_budget_usd);
    else
        bl_json_put_string(writer, "max_budget_usd", NULL);
}

static void plan_write_limits(struct bl_json_writer *writer, const struct bl_feature_limits *limits)
{
    bl_json_write_key(writer, BL_TEXT("limits"));
    bl_json_write_object(writer);
    put_double(writer, "task_timeout_s", seconds(limits->task_timeout_ns));
    put_double(writer, "timeout_multiplier", limits->timeout_multiplier);
    if (limits->feature_timeout_ns > 0)
        put_double(writer, "feature_timeout_s", seconds(limits->feature_timeout_ns));
    else
        bl_json_put_string(writer, "feature_timeout_s", NULL);
    bl_json_put_uint64(writer, "parallel", limits->parallel);
    bl_json_put_uint64(writer, "turns", limits->turns);
    put_double(writer, "min_turn_budget_s", seconds(limits->min_turn_budget_ns));
    put_double(writer, "coach_grace_s", seconds(limits->coach_grace_ns));
    put_double(writer, "drain_s", seconds(limits->drain_ns));
    bl_json_put_uint64(writer, "merge_turns", limits->merge_turns);
    put_double(writer, "merge_timeout_s", seconds(limits->merge_timeout_ns));
    bl_json_put_uint64(writer, "feedback_issues", limits->feedback_issues);
    plan_write_put_budget(writer, limits);
    bl_json_write_end(writer);
}

static void write_gate(struct bl_json_writer *writer, const struct bl_plan *plan)
{
    const struct bl_smoke_gate *gate = &plan->gate;

    bl_json_write_key(writer, BL_TEXT("gate"));
    if (gate->command == NULL) {
        bl_json_write_null(writer);
        return;
    }
    bl_json_write_object(writer);
    bl_json_put_string(writer, "command", gate->command);
    bl_json_put_uint64(writer, "expected_exit", (uint64_t)gate->expected_exit);
    put_double(writer, "timeout_s", seconds(gate->timeout_ns));
    bl_json_put_boolean(writer, "exit5_is_hard_fail", gate->exit5_is_hard_fail);
    bl_json_write_key(writer, BL_TEXT("after_waves"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < plan->wave_count; i++) {
        if (plan->waves[i].gated)
            bl_json_write_uint64(writer, i + 1);
    }
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

static void write_seat(struct bl_json_writer *writer, const char *key, const struct bl_seat *seat)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_object(writer);
    if (seat->kind == BL_SEAT_COMMAND) {
        bl_json_put_string(writer, "kind", "command");
        put_texts(writer, "command", seat->command);
        put_double(writer, "grace_s", seconds(seat->grace_ns));
        bl_json_put_string(writer, "sandbox", bl_sandbox_name(seat->sandbox));
    } else {
        bl_json_put_string(writer, "kind", "agent");
        bl_json_put_string(writer, "provider", seat->provider);
        bl_json_put_string(writer, "model", seat->model);
        bl_json_put_string(writer, "persona", seat->persona);
        bl_json_put_string(writer, "permission", bl_permission_mode_name(seat->permission));
        plan_write_put_limit(writer, "max_steps", seat->max_steps);
        bl_json_put_string(writer, "sandbox",
                           seat->sandbox_chosen ? bl_sandbox_name(seat->sandbox) : NULL);
    }
    bl_json_write_end(writer);
}

static void write_verify(struct bl_json_writer *writer, const struct bl_verify_plan *verify)
{
    bl_json_write_key(writer, BL_TEXT("verify"));
    bl_json_write_object(writer);
    put_texts(writer, "commands", verify->commands);
    bl_json_put_string(writer, "setup", verify->setup);
    bl_json_put_boolean(writer, "setup_network", verify->setup_network);
    bl_json_put_boolean(writer, "required", verify->required);
    put_double(writer, "timeout_s", seconds(verify->timeout_ns));
    put_texts(writer, "carry", verify->carry);
    put_texts(writer, "protect", verify->protect);
    bl_json_write_end(writer);
}

static void plan_write_task(struct bl_json_writer *writer, const struct bl_plan *plan,
                            const struct bl_plan_task *task)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "id", task->id);
    bl_json_put_string(writer, "name", task->name);
    bl_json_put_string(writer, "file", task->file);
    bl_json_put_uint64(writer, "wave", task->wave + 1);
    bl_json_write_key(writer, BL_TEXT("dependencies"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < task->dependency_count; i++)
        bl_json_write_string(writer, plan->tasks[task->dependencies[i]].id);
    bl_json_write_end(writer);
    bl_json_put_string(writer, "status", task->status);
    bl_json_put_boolean(writer, "manual", task->manual);
    bl_json_put_string(writer, "mode", task->mode);
    plan_write_put_said(writer, "complexity", task->complexity);
    plan_write_put_said(writer, "estimated_minutes", task->estimated_minutes);
    bl_json_put_uint64(writer, "turns", task->limits.turns);
    put_double(writer, "deadline_s", seconds(task->deadline_ns));
    bl_json_put_string(writer, "deadline_source", task->deadline_source);
    put_double(writer, "grace_s", seconds(task->limits.coach_grace_ns));
    plan_write_put_budget(writer, &task->limits);
    write_seat(writer, "player", &task->player);
    write_seat(writer, "coach", &task->coach);
    write_verify(writer, &task->verify);
    bl_json_write_key(writer, BL_TEXT("criteria"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < task->criterion_count; i++) {
        bl_json_write_object(writer);
        bl_json_put_string(writer, "id", task->criteria[i].id);
        bl_json_put_text(writer, "text", task->criteria[i].text);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

void bl_plan_write(const struct bl_plan *plan, struct bl_json_writer *writer)
{
    bl_json_put_string(writer, "id", plan->id);
    bl_json_put_string(writer, "name", plan->name);
    bl_json_put_string(writer, "description", plan->description);
    bl_json_put_string(writer, "digest", plan->digest);
    bl_json_put_string(writer, "path", plan->path);
    bl_json_put_string(writer, "repository", plan->repository);
    bl_json_put_string(writer, "on_failure", bl_on_failure_name(plan->on_failure));
    plan_write_put_said(writer, "recommended_parallel", plan->recommended_parallel);
    plan_write_limits(writer, &plan->limits);
    write_gate(writer, plan);
    bl_json_write_key(writer, BL_TEXT("waves"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < plan->wave_count; i++) {
        bl_json_write_array(writer);
        for (size_t j = 0; j < plan->waves[i].count; j++)
            bl_json_write_string(writer, plan->tasks[plan->waves[i].tasks[j]].id);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
    bl_json_write_key(writer, BL_TEXT("tasks"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < plan->task_count; i++)
        plan_write_task(writer, plan, &plan->tasks[i]);
    bl_json_write_end(writer);
}
