/* The plan as JSON: printed by `validate`, and kept in the store. */
#include "plan.h"

static const struct bl_form code_form = {"a code", "^(E[0-9]{2}|W)$", NULL};

#define BL_RECORD_STRUCT struct bl_plan_problem
static const struct bl_member problem_members[] = {
    BL_MEMBER_STRING("file", file),
    BL_MEMBER_INTEGER("line", line, .nullable = true, .least = 1,
                      .about = "null: concerns the whole file."),
    BL_MEMBER_STRING("code", code, .form = &code_form, .about = "E01 to E10; W: a warning."),
    BL_MEMBER_STRING("message", message, .least = 1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_plan_problem_record =
    BL_RECORD("plan_problem", struct bl_plan_problem, problem_members, .closed = true);

static const char *const kind_names[] = {[BL_SEAT_AGENT] = "agent", [BL_SEAT_COMMAND] = "command"};
static const struct bl_names seat_kinds = BL_NAMES(kind_names);

#define BL_RECORD_STRUCT struct bl_seat
static const struct bl_member agent_members[] = {
    BL_MEMBER_STRING("provider", provider, .nullable = true, .about = "null: as configured."),
    BL_MEMBER_STRING("model", model, .nullable = true, .about = "null: as configured."),
    BL_MEMBER_STRING("persona", persona, .nullable = true),
    BL_MEMBER_ENUM("permission", permission, &bl_permission_mode_names),
    BL_MEMBER_INTEGER("max_steps", max_steps, .nullable = true, .none = -1,
                      .about = "null: no limit."),
    BL_MEMBER_ENUM("sandbox", sandbox, &bl_sandbox_names, .nullable = true,
                   BL_KNOWN(sandbox_chosen), .about = "null: as configured."),
    BL_MEMBER_END,
};
static const struct bl_record agent_record =
    BL_RECORD("plan_agent", struct bl_seat, agent_members, .about = "An agent of Belay.");

static const struct bl_member command_members[] = {
    BL_MEMBER_STRINGS("command", command, .least = 1, .about = "Program and arguments."),
    BL_MEMBER_DURATION("grace_s", grace_ns, .about = "Grace period after a stop."),
    BL_MEMBER_ENUM("sandbox", sandbox, &bl_sandbox_names),
    BL_MEMBER_END,
};
static const struct bl_record command_record =
    BL_RECORD("plan_command", struct bl_seat, command_members, .about = "Any command.");

static const struct bl_record *const seat_records[] = {
    [BL_SEAT_AGENT] = &agent_record, [BL_SEAT_COMMAND] = &command_record};
static const struct bl_member seat_members[] = {
    BL_MEMBER_ENUM("kind", kind, &seat_kinds),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record seat_record =
    BL_RECORD("plan_seat", struct bl_seat, seat_members, .closed = true, .kinds = seat_records);

#define BL_RECORD_STRUCT struct bl_feature_limits
static const struct bl_member budget_members[] = {
    BL_MEMBER_INTEGER("max_budget_tokens", max_budget_tokens, .nullable = true, .none = -1,
                      .about = "null: no limit."),
    BL_MEMBER_NUMBER("max_budget_usd", max_budget_usd, .nullable = true, .none = -1,
                     .about = "null: no limit."),
    BL_MEMBER_END,
};
static const struct bl_record budget_record =
    BL_RECORD("plan_budget", struct bl_feature_limits, budget_members);

static const struct bl_member limits_members[] = {
    BL_MEMBER_DURATION("task_timeout_s", task_timeout_ns),
    BL_MEMBER_NUMBER("timeout_multiplier", timeout_multiplier),
    BL_MEMBER_DURATION("feature_timeout_s", feature_timeout_ns, .nullable = true,
                       .about = "null: none."),
    BL_MEMBER_INTEGER("parallel", parallel, .least = 1),
    BL_MEMBER_INTEGER("turns", turns, .least = 1),
    BL_MEMBER_DURATION("min_turn_budget_s", min_turn_budget_ns),
    BL_MEMBER_DURATION("coach_grace_s", coach_grace_ns),
    BL_MEMBER_DURATION("drain_s", drain_ns),
    BL_MEMBER_INTEGER("merge_turns", merge_turns),
    BL_MEMBER_DURATION("merge_timeout_s", merge_timeout_ns),
    BL_MEMBER_INTEGER("feedback_issues", feedback_issues),
    BL_MEMBER_INCLUDE(&budget_record),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record limits_record =
    BL_RECORD("plan_limits", struct bl_feature_limits, limits_members, .closed = true);

#define BL_RECORD_STRUCT struct bl_verify_plan
static const struct bl_member verify_members[] = {
    BL_MEMBER_STRINGS("commands", commands, .about = "Shell commands."),
    BL_MEMBER_STRING("setup", setup, .nullable = true, .about = "Shell command; null: none."),
    BL_MEMBER_BOOLEAN("setup_network", setup_network, .about = "setup may use the network."),
    BL_MEMBER_BOOLEAN("required", required),
    BL_MEMBER_DURATION("timeout_s", timeout_ns, .about = "Time limit of each command."),
    BL_MEMBER_STRINGS("carry", carry, .about = "Paths."),
    BL_MEMBER_STRINGS("protect", protect, .about = "Patterns of paths."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record verify_record =
    BL_RECORD("plan_verify", struct bl_verify_plan, verify_members, .closed = true);

#define BL_RECORD_STRUCT struct bl_criterion
static const struct bl_member criterion_members[] = {
    BL_MEMBER_STRING("id", id),
    BL_MEMBER_TEXT("text", text),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record criterion_record =
    BL_RECORD("plan_criterion", struct bl_criterion, criterion_members, .closed = true);
static const struct bl_member criterion_element =
    BL_ELEMENT(struct bl_criterion, &criterion_record);

/* A task with ids instead of numbers. */
struct written_task {
    struct bl_plan_task task;
    uint64_t wave; /* from 1 */
    const char *const *dependencies;
};

#define BL_RECORD_STRUCT struct written_task
static const struct bl_member task_members[] = {
    BL_MEMBER_STRING("id", task.id),
    BL_MEMBER_STRING("name", task.name),
    BL_MEMBER_STRING("file", task.file, .nullable = true),
    BL_MEMBER_INTEGER("wave", wave, .least = 1),
    BL_MEMBER_STRINGS("dependencies", dependencies, .about = "Ids of tasks."),
    BL_MEMBER_STRING("status", task.status, .about = "Status in the plan."),
    BL_MEMBER_BOOLEAN("manual", task.manual),
    BL_MEMBER_STRING("mode", task.mode, .nullable = true),
    BL_MEMBER_INTEGER("complexity", task.complexity, .nullable = true, .least = 1),
    BL_MEMBER_INTEGER("estimated_minutes", task.estimated_minutes, .nullable = true, .least = 1),
    BL_MEMBER_INTEGER("turns", task.limits.turns, .least = 1),
    BL_MEMBER_DURATION("deadline_s", task.deadline_ns, .about = "Deadline in effect."),
    BL_MEMBER_STRING("deadline_source", task.deadline_source,
                     .about = "command line, task, autobuild, feature, default."),
    BL_MEMBER_DURATION("grace_s", task.limits.coach_grace_ns,
                       .about = "Extra time for the Coach after the deadline; 0: none."),
    BL_MEMBER_EMBED(task.limits, &budget_record),
    BL_MEMBER_OBJECT("player", task.player, &seat_record),
    BL_MEMBER_OBJECT("coach", task.coach, &seat_record),
    BL_MEMBER_OBJECT("verify", task.verify, &verify_record),
    BL_MEMBER_ARRAY("criteria", task.criteria, task.criterion_count, &criterion_element),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record task_record =
    BL_RECORD("plan_task", struct written_task, task_members, .closed = true);
static const struct bl_member task_element = BL_ELEMENT(struct written_task, &task_record);

struct written_plan {
    struct bl_plan plan;
    bool has_gate;
    uint64_t *gated; /* waves, from 1 */
    size_t gated_count;
    const char *const **waves; /* ids of tasks */
    struct written_task *tasks;
};

static const struct bl_member wave_element = {.type = BL_TYPE_STRINGS,
                                              .size = sizeof(const char *const *)};
static const struct bl_member gated_element = {
    .type = BL_TYPE_INTEGER, .size = sizeof(uint64_t), .least = 1};
static const struct bl_form digest_form = {"a digest", "^sha256:[0-9a-f]{64}$", NULL};

#define BL_RECORD_STRUCT struct written_plan
static const struct bl_member gate_members[] = {
    BL_MEMBER_STRING("command", plan.gate.command, .about = "Shell command."),
    BL_MEMBER_INTEGER("expected_exit", plan.gate.expected_exit),
    BL_MEMBER_DURATION("timeout_s", plan.gate.timeout_ns),
    BL_MEMBER_BOOLEAN("exit5_is_hard_fail", plan.gate.exit5_is_hard_fail),
    BL_MEMBER_ARRAY("after_waves", gated, gated_count, &gated_element),
    BL_MEMBER_END,
};
static const struct bl_record gate_record =
    BL_RECORD_GROUP("plan_gate", gate_members, .closed = true);

static const struct bl_member plan_members[] = {
    BL_MEMBER_STRING("id", plan.id),
    BL_MEMBER_STRING("name", plan.name),
    BL_MEMBER_STRING("description", plan.description, .nullable = true),
    BL_MEMBER_WORD("digest", plan.digest, .form = &digest_form,
                   .about = "Digest of the plan and its task files."),
    BL_MEMBER_STRING("path", plan.path),
    BL_MEMBER_STRING("repository", plan.repository, .about = "Top folder of its work tree."),
    BL_MEMBER_ENUM("on_failure", plan.on_failure, &bl_on_failure_names),
    BL_MEMBER_INTEGER("recommended_parallel", plan.recommended_parallel, .nullable = true,
                      .least = 1),
    BL_MEMBER_OBJECT("limits", plan.limits, &limits_record),
    BL_MEMBER_GROUP("gate", &gate_record, .nullable = true, BL_KNOWN(has_gate),
                    .about = "null: none."),
    BL_MEMBER_ARRAY("waves", waves, plan.wave_count, &wave_element, .about = "Ids of tasks."),
    BL_MEMBER_ARRAY("tasks", tasks, plan.task_count, &task_element),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_plan_record =
    BL_RECORD("plan", struct written_plan, plan_members, .closed = true,
              .about = "The plan with all limits in effect.");

static const char *const *plan_write_ids(struct bl_arena *arena, const struct bl_plan *plan,
                                         const size_t *numbers, size_t count)
{
    const char **ids = bl_arena_zalloc(arena, (count + 1) * sizeof *ids);

    for (size_t i = 0; i < count; i++)
        ids[i] = plan->tasks[numbers[i]].id;
    return ids;
}

struct bl_text bl_plan_json(struct bl_arena *arena, const struct bl_plan *plan)
{
    struct written_plan written = {.plan = *plan, .has_gate = plan->gate.command != NULL};

    written.gated = bl_arena_alloc(arena, plan->wave_count * sizeof *written.gated);
    written.waves = bl_arena_alloc(arena, plan->wave_count * sizeof *written.waves);
    written.tasks = bl_arena_alloc(arena, plan->task_count * sizeof *written.tasks);
    for (size_t i = 0; i < plan->wave_count; i++) {
        const struct bl_plan_wave *wave = &plan->waves[i];
        written.waves[i] = plan_write_ids(arena, plan, wave->tasks, wave->count);
        if (wave->gated)
            written.gated[written.gated_count++] = i + 1;
    }
    for (size_t i = 0; i < plan->task_count; i++) {
        const struct bl_plan_task *task = &plan->tasks[i];
        written.tasks[i] = (struct written_task){
            *task, task->wave + 1,
            plan_write_ids(arena, plan, task->dependencies, task->dependency_count)};
    }
    return bl_record_text(arena, &bl_plan_record, &written);
}
