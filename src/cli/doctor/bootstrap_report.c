#include "bootstrap.h"

#include <inttypes.h>

#include <belay/proc.h>

/* The first turn: there is always one when there is a result. */
static const struct bl_turn_result *first_turn(const struct run_work *work)
{
    const struct bl_list *turns = &work->result.run.turns;
    return bl_list_empty(turns) ? NULL : BL_CONTAINER(turns->next, struct bl_turn_result, link);
}

bool bootstrap_persisted(const struct run_work *work)
{
    const struct bl_turn_result *turn = first_turn(work);
    return turn != NULL && (turn->end == BL_TURN_COMPLETED || turn->interrupted);
}

/* What holds the processes of tools here; `auto` is told by what it comes to. */
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

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_workspace(struct bl_json_writer *writer, const struct run_work *work)
{
    const struct bootstrap *bootstrap = work->context;

    bl_json_write_key(writer, BL_TEXT("workspace"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "cwd", work->options->workspace.directory);
    bl_json_put_string(writer, "git_branch", bootstrap->git_branch);
    bl_json_write_key(writer, BL_TEXT("git_dirty"));
    if (bootstrap->git_known)
        bl_json_write_boolean(writer, bootstrap->git_dirty);
    else
        bl_json_write_null(writer);
    bl_json_write_end(writer);
}

static void write_instruction(struct bl_json_writer *writer,
                              const struct bl_instruction *instruction)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "path", instruction->path);
    bl_json_put_uint64(writer, "bytes", instruction->text.size);
    bl_json_write_end(writer);
}

static void write_instructions(struct bl_json_writer *writer, const struct run_work *work)
{
    bl_json_write_key(writer, BL_TEXT("instructions"));
    bl_json_write_array(writer);
    if (work->workspace->project != NULL) {
        BL_LIST_EACH (link, work->workspace->instructions)
            write_instruction(writer, BL_CONTAINER(link, struct bl_instruction, link));
    }
    bl_json_write_end(writer);
}

static void bootstrap_report_write_limit(struct bl_json_writer *writer, const char *key,
                                         uint64_t limit)
{
    bl_json_write_key(writer, bl_text_from(key));
    if (limit == BL_UNLIMITED)
        bl_json_write_null(writer);
    else
        bl_json_write_uint64(writer, limit);
}

static void bootstrap_report_write_limits(struct bl_json_writer *writer,
                                          const struct run_work *work)
{
    const struct bl_turn_limits *limits = &work->options->workspace.limits;

    bl_json_write_key(writer, BL_TEXT("limits"));
    bl_json_write_object(writer);
    bootstrap_report_write_limit(writer, "max_session_turns", limits->max_session_turns);
    bootstrap_report_write_limit(writer, "max_steps", limits->max_steps);
    bl_json_put_string(writer, "on_exhausted", limits->synthesize ? "synthesize" : "stop");
    bootstrap_report_write_limit(writer, "max_budget_tokens", limits->max_budget_tokens);
    bl_json_write_key(writer, BL_TEXT("max_budget_usd"));
    if (work->options->workspace.budgeted)
        bl_json_write_double(writer, work->options->workspace.max_budget_usd);
    else
        bl_json_write_null(writer);
    run_write_timeout(writer, work->options);
    bootstrap_report_write_limit(writer, "compact_after_turns", limits->compact_after_turns);
    bootstrap_report_write_limit(writer, "structured_retry_limit", limits->structured_retry_limit);
    bl_json_put_string(writer, "on_cancel", limits->keep ? "keep" : "discard");
    bl_json_put_string(writer, "permission_mode",
                       bl_permission_mode_name(bl_permissions_mode(work->workspace->permissions)));
    bl_json_write_end(writer);
}

static void write_surroundings(struct bl_json_writer *writer, const struct run_work *work)
{
    const struct bl_tools offered = run_tools(work), *tools = &offered;

    write_workspace(writer, work);
    write_instructions(writer, work);
    bl_json_write_key(writer, BL_TEXT("tools"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < tools->offer_count; i++)
        bl_json_write_string(writer, tools->offers[i].name);
    bl_json_write_end(writer);
    run_write_model(writer, work);
    bootstrap_report_write_limits(writer, work);
    bl_json_write_key(writer, BL_TEXT("containment"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "container", container_name(work));
    bl_json_put_string(writer, "sandbox", bl_sandbox_name(run_sandbox(work)));
    bl_json_write_end(writer);
}

void bootstrap_payload(struct bl_json_writer *writer, const void *context)
{
    const struct run_work *work = context;
    const struct bootstrap *bootstrap = work->context;
    const struct bl_turn_result *turn = first_turn(work);

    run_write_session(writer, work);
    bl_json_put_text(writer, "prompt", work->prompt);
    write_surroundings(writer, work);
    bl_json_write_key(writer, BL_TEXT("routed_matches"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &bootstrap->matches)
        bl_record_write(writer, &run_match_record, BL_CONTAINER(link, struct bl_route_match, link));
    bl_json_write_end(writer);
    bl_json_write_key(writer, BL_TEXT("turn"));
    bl_json_write_raw(writer, turn != NULL ? turn->json : BL_TEXT("null"));
    bl_json_put_boolean(writer, "persisted", bootstrap_persisted(work));
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void append_git(struct bl_buffer *out, const struct bootstrap *bootstrap)
{
    if (bootstrap->git_known)
        bl_buffer_printf(out, "Git           %s, %s\n",
                         bootstrap->git_branch != NULL ? bootstrap->git_branch : "no branch",
                         bootstrap->git_dirty ? "with changes" : "clean");
}

static void append_limits(struct bl_buffer *out, const struct run_work *work)
{
    const struct run_options *options = work->options;
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"turns of the session", options->workspace.limits.max_session_turns},
        {"steps", options->workspace.limits.max_steps},
        {"tokens", options->workspace.limits.max_budget_tokens},
    };
    const char *separator = "Limits        ";
    char duration[32];

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        if (rows[i].value == BL_UNLIMITED)
            continue;
        bl_buffer_printf(out, "%s%" PRIu64 " %s", separator, rows[i].value, rows[i].name);
        separator = ", ";
    }
    if (options->workspace.budgeted) {
        bl_buffer_printf(out, "%s%.2f USD", separator, options->workspace.max_budget_usd);
        separator = ", ";
    }
    if (options->workspace.timed) {
        bl_duration_format(options->workspace.timeout_ns, duration);
        bl_buffer_printf(out, "%s%s", separator, duration);
        separator = ", ";
    }
    bl_buffer_append(out, separator[0] == 'L' ? BL_TEXT("Limits        none\n") : BL_TEXT("\n"));
}

void bootstrap_text(struct bl_buffer *out, const struct run_work *work)
{
    const struct bootstrap *bootstrap = work->context;
    const struct bl_tools offered = run_tools(work), *tools = &offered;
    const struct bl_turn_result *turn = first_turn(work);
    const char *id = work->result.session_id;

    bl_buffer_printf(out, "Session       %s\nWorkspace     %s\n", id[0] != '\0' ? id : "none",
                     work->options->workspace.directory);
    append_git(out, bootstrap);
    if (work->workspace->project != NULL) {
        BL_LIST_EACH (link, work->workspace->instructions) {
            const struct bl_instruction *instruction =
                BL_CONTAINER(link, struct bl_instruction, link);
            bl_buffer_printf(out, "Instructions  %s (%zu bytes)\n", instruction->path,
                             instruction->text.size);
        }
    }
    bl_buffer_append(out, BL_TEXT("Tools         "));
    for (size_t i = 0; i < tools->offer_count; i++)
        bl_buffer_printf(out, "%s%s", i > 0 ? ", " : "", tools->offers[i].name);
    bl_buffer_printf(out, "\nModel         %s: %s\n", work->workspace->model.provider,
                     work->workspace->model.name);
    append_limits(out, work);
    bl_buffer_printf(out, "Containment   %s, sandbox %s\nMatches       ", container_name(work),
                     bl_sandbox_name(run_sandbox(work)));
    BL_LIST_EACH (link, &bootstrap->matches) {
        const struct bl_route_match *match = BL_CONTAINER(link, struct bl_route_match, link);
        bl_buffer_printf(out, "%s%s %s (%u)", link != bootstrap->matches.next ? ", " : "",
                         match->kind, match->name, match->score);
    }
    if (bl_list_empty(&bootstrap->matches))
        bl_buffer_append(out, BL_TEXT("none"));
    bl_buffer_printf(out, "\nTurn          %s, %s\n\n", bl_turn_end_name(work->result.run.end),
                     bootstrap_persisted(work) ? "kept" : "not kept");
    if (turn != NULL && turn->end == BL_TURN_COMPLETED) {
        bl_buffer_append(out, turn->output);
        if (!bl_text_ends_with(turn->output, BL_TEXT("\n")))
            bl_buffer_append_byte(out, '\n');
    }
}
