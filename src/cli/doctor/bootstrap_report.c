#include "bootstrap.h"

#include <inttypes.h>

#include <belay/proc.h>

#include "cli/answers.h"

/* Returns the container of tools; for `auto`, the one that it selects. */
static const char *container_name(const struct run_work *work)
{
    enum bl_mechanism container = work->options->workspace.container;
    struct bl_container_check check;

    if (run_sandbox(work) != BL_SANDBOX_OFF)
        container = bl_sandbox_container(container);
    if (container != BL_MECHANISM_NONE)
        return bl_mechanism_name(container);
    bl_container_check(BL_MECHANISM_CGROUP2, &check);
    return bl_mechanism_name(check.available ? BL_MECHANISM_CGROUP2 : BL_MECHANISM_SUBREAPER);
}

static const struct bl_turn_result *bootstrap_first_turn(const struct run_work *work)
{
    const struct bl_list *turns = &work->result.run.turns;
    return bl_list_empty(turns) ? NULL : BL_CONTAINER(turns->next, struct bl_turn_result, link);
}

static void bootstrap_add_instructions(struct bootstrap *bootstrap, struct run_work *work)
{
    const struct bl_list *instructions = work->workspace->instructions;
    size_t count = 0;

    if (work->workspace->project == NULL)
        return;
    BL_LIST_EACH (link, instructions)
        count++;
    bootstrap->instructions = bl_arena_alloc(&work->arena, count * sizeof *bootstrap->instructions);
    BL_LIST_EACH (link, instructions) {
        const struct bl_instruction *instruction = BL_CONTAINER(link, struct bl_instruction, link);
        bootstrap->instructions[bootstrap->instruction_count++] =
            (struct bootstrap_instruction){instruction->path, instruction->text.size};
    }
}

void bootstrap_fill(struct bootstrap *bootstrap, struct run_work *work)
{
    const struct bl_workspace_options *options = &work->options->workspace;
    const struct bl_tools tools = run_tools(work);
    const struct bl_turn_result *turn = bootstrap_first_turn(work);
    const char **names = bl_arena_zalloc(&work->arena, (tools.offer_count + 1) * sizeof *names);

    for (size_t i = 0; i < tools.offer_count; i++)
        names[i] = tools.offers[i].name;
    bootstrap->session_id = work->result.session_id[0] != '\0' ? work->result.session_id : NULL;
    bootstrap->prompt = work->prompt;
    bootstrap->directory = options->directory;
    bootstrap_add_instructions(bootstrap, work);
    bootstrap->tools = names;
    bootstrap->provider = work->workspace->model.provider;
    bootstrap->model = work->workspace->model.name;
    bootstrap->limits = options->limits;
    bootstrap->budgeted = options->budgeted;
    bootstrap->max_budget_usd = options->max_budget_usd;
    bootstrap->timed = options->timed;
    bootstrap->timeout_ns = (uint64_t)options->timeout_ns;
    bootstrap->mode = bl_permissions_mode(work->workspace->permissions);
    bootstrap->container = container_name(work);
    bootstrap->sandbox = run_sandbox(work);
    bootstrap->turn = turn != NULL ? turn->json : (struct bl_text){0};
    bootstrap->persisted = turn != NULL && (turn->end == BL_TURN_COMPLETED || turn->interrupted);
    bootstrap->first = turn;
    bootstrap->end = work->result.run.end;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *const exhausted_names[] = {"stop", "synthesize"};
static const struct bl_names exhausted = BL_NAMES(exhausted_names);
static const char *const cancel_names[] = {"discard", "keep"};
static const struct bl_names cancels = BL_NAMES(cancel_names);

#define BL_RECORD_STRUCT struct bootstrap_instruction
static const struct bl_member instruction_members[] = {
    BL_MEMBER_STRING("path", path, .least = 1),
    BL_MEMBER_INTEGER("bytes", bytes),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record instruction_record =
    BL_RECORD("instruction", struct bootstrap_instruction, instruction_members, .closed = true);
static const struct bl_member instruction_element =
    BL_ELEMENT(struct bootstrap_instruction, &instruction_record);

#define BL_RECORD_STRUCT struct bootstrap
static const struct bl_member workspace_members[] = {
    BL_MEMBER_STRING("cwd", directory, .form = &cli_path_form),
    BL_MEMBER_STRING("git_branch", git_branch, .nullable = true,
                     .about = "null: no repository, no branch, or git took too long."),
    BL_MEMBER_BOOLEAN("git_dirty", git_dirty, .nullable = true, .none = -1,
                      .about = "null: no repository, or git took too long."),
    BL_MEMBER_END,
};
static const struct bl_record workspace_record =
    BL_RECORD_GROUP("bootstrap_workspace", workspace_members, .closed = true);

static const struct bl_member limit_members[] = {
    BL_MEMBER_INTEGER("max_session_turns", limits.max_session_turns, .nullable = true, .none = -1,
                      .about = "Turns that the session may hold; null: no limit."),
    BL_MEMBER_INTEGER("max_steps", limits.max_steps, .nullable = true, .none = -1,
                      .about = "Tool calls of one turn; null: no limit."),
    BL_MEMBER_ENUM("on_exhausted", limits.synthesize, &exhausted),
    BL_MEMBER_INTEGER("max_budget_tokens", limits.max_budget_tokens, .nullable = true, .none = -1,
                      .about = "Tokens of the whole session; null: no limit."),
    BL_MEMBER_NUMBER("max_budget_usd", max_budget_usd, .nullable = true, BL_KNOWN(budgeted),
                     .about = "Cost of this run; null: no limit."),
    BL_MEMBER_DURATION("timeout_seconds", timeout_ns, .nullable = true, BL_KNOWN(timed),
                       .about = "Time limit of the run; null if none."),
    BL_MEMBER_INTEGER("compact_after_turns", limits.compact_after_turns, .nullable = true,
                      .none = -1,
                      .about = "Turns that stay in the model's context; null: all of them."),
    BL_MEMBER_INTEGER("structured_retry_limit", limits.structured_retry_limit),
    BL_MEMBER_ENUM("on_cancel", limits.keep, &cancels),
    BL_MEMBER_ENUM("permission_mode", mode, &bl_permission_mode_names),
    BL_MEMBER_END,
};
static const struct bl_record limits_record =
    BL_RECORD_GROUP("bootstrap_limits", limit_members, .closed = true);

static const struct bl_member containment_members[] = {
    BL_MEMBER_STRING("container", container, .names = &cli_containers,
                     .about = "What holds the processes of tools."),
    BL_MEMBER_ENUM("sandbox", sandbox, &bl_sandbox_names, .about = "Sandbox in effect."),
    BL_MEMBER_END,
};
static const struct bl_record containment_record =
    BL_RECORD_GROUP("bootstrap_containment", containment_members, .closed = true);

static const struct bl_member bootstrap_members[] = {
    BL_MEMBER_STRING("session_id", session_id, .nullable = true, .form = &bl_session_id_form,
                     .about = "null if the run was stopped before it had one."),
    BL_MEMBER_TEXT("prompt", prompt),
    BL_MEMBER_GROUP("workspace", &workspace_record),
    BL_MEMBER_ARRAY("instructions", instructions, instruction_count, &instruction_element,
                    .about = "Instruction files, nearest last."),
    BL_MEMBER_STRINGS("tools", tools, .about = "Names of the tools that the model is offered."),
    BL_MEMBER_STRING("provider", provider, .least = 1),
    BL_MEMBER_STRING("model", model, .least = 1),
    BL_MEMBER_GROUP("limits", &limits_record),
    BL_MEMBER_GROUP("containment", &containment_record),
    BL_MEMBER_LIST("routed_matches", matches, &run_match_record, struct bl_route_match, link,
                   .about = "Best first."),
    BL_MEMBER_RAW("turn", turn, .record = &bl_turn_result_record),
    BL_MEMBER_BOOLEAN("persisted", persisted, .about = "True if the turn is in the store."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer bootstrap_answer = {
    BL_RECORD("bootstrap", struct bootstrap, bootstrap_members,
              .about = "The setup of a session, and its first turn. If it could not start, it has "
                       "an error instead."),
    .of = "bootstrap", .exits = &cli_exits_running};

/* ---- Text ------------------------------------------------------------------------------------ */

static void append_git(struct bl_buffer *out, const struct bootstrap *bootstrap)
{
    if (bootstrap->git_dirty >= 0)
        bl_buffer_printf(out, "Git           %s, %s\n",
                         bootstrap->git_branch != NULL ? bootstrap->git_branch : "no branch",
                         bootstrap->git_dirty > 0 ? "with changes" : "clean");
}

static void append_limits(struct bl_buffer *out, const struct bootstrap *bootstrap)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"turns in the session", bootstrap->limits.max_session_turns},
        {"steps", bootstrap->limits.max_steps},
        {"tokens", bootstrap->limits.max_budget_tokens},
    };
    const char *separator = "Limits        ";
    char duration[32];

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        if (rows[i].value == BL_UNLIMITED)
            continue;
        bl_buffer_printf(out, "%s%" PRIu64 " %s", separator, rows[i].value, rows[i].name);
        separator = ", ";
    }
    if (bootstrap->budgeted) {
        bl_buffer_printf(out, "%s%.2f USD", separator, bootstrap->max_budget_usd);
        separator = ", ";
    }
    if (bootstrap->timed) {
        bl_duration_format((int64_t)bootstrap->timeout_ns, duration);
        bl_buffer_printf(out, "%s%s", separator, duration);
        separator = ", ";
    }
    bl_buffer_append(out, separator[0] == 'L' ? BL_TEXT("Limits        none\n") : BL_TEXT("\n"));
}

static void append_matches(struct bl_buffer *out, const struct bl_list *matches)
{
    BL_LIST_EACH (link, matches) {
        const struct bl_route_match *match = BL_CONTAINER(link, struct bl_route_match, link);
        bl_buffer_printf(out, "%s%s %s (%u)", link != matches->next ? ", " : "", match->kind,
                         match->name, match->score);
    }
    if (bl_list_empty(matches))
        bl_buffer_append(out, BL_TEXT("none"));
}

void bootstrap_text(struct bl_buffer *out, const struct bootstrap *bootstrap)
{
    const struct bl_turn_result *turn = bootstrap->first;

    bl_buffer_printf(out, "Session       %s\nWorkspace     %s\n",
                     bootstrap->session_id != NULL ? bootstrap->session_id : "none",
                     bootstrap->directory);
    append_git(out, bootstrap);
    for (size_t i = 0; i < bootstrap->instruction_count; i++)
        bl_buffer_printf(out, "Instructions  %s (%" PRIu64 " bytes)\n",
                         bootstrap->instructions[i].path, bootstrap->instructions[i].bytes);
    bl_buffer_append(out, BL_TEXT("Tools         "));
    for (const char *const *tool = bootstrap->tools; *tool != NULL; tool++)
        bl_buffer_printf(out, "%s%s", tool != bootstrap->tools ? ", " : "", *tool);
    bl_buffer_printf(out, "\nModel         %s: %s\n", bootstrap->provider, bootstrap->model);
    append_limits(out, bootstrap);
    bl_buffer_printf(out, "Containment   %s, sandbox %s\nMatches       ", bootstrap->container,
                     bl_sandbox_name(bootstrap->sandbox));
    append_matches(out, &bootstrap->matches);
    bl_buffer_printf(out, "\nTurn          %s, %s\n\n", bl_turn_end_name(bootstrap->end),
                     bootstrap->persisted ? "kept" : "not kept");
    if (turn != NULL && turn->end == BL_TURN_COMPLETED) {
        bl_buffer_append(out, turn->output);
        if (!bl_text_ends_with(turn->output, BL_TEXT("\n")))
            bl_buffer_append_byte(out, '\n');
    }
}
