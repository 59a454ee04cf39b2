#include "cli/feature/feature.h"
#include "commands.h"

#define FEATURE_RUNS    (CLI_VERB(FEATURE_RUN) | CLI_VERB(FEATURE_RESUME) | CLI_VERB(FEATURE_RETRY))
#define FEATURE_STREAMS (FEATURE_RUNS | CLI_VERB(FEATURE_LOGS))
#define FEATURE_WEEK    CLI_SECONDS(7 * 86400)

static const char *const feature_policies[] = {
    [BL_ON_FAILURE_WAVE_END] = "wave_end",
    [BL_ON_FAILURE_CANCEL_SIBLINGS] = "cancel_siblings",
    [BL_ON_FAILURE_CONTINUE] = "continue",
};

static const char *const feature_phases[] = {"player",   "verify",  "coach",      "merge",
                                             "loop_top", "between", "after_turn", "gate"};

static const struct cli_option feature_limits[] = {
    CLI_COUNT("parallel", 0, "N", struct feature_options, overrides.parallel, .least = 1,
              .most = 64, .sample = "2", .about = "Number of tasks that run at once."),
    CLI_COUNT("turns", 0, "N", struct feature_options, overrides.turns, .least = 1, .most = 50,
              .sample = "5", .about = "Turn limit for each task."),
    CLI_DURATION("task-timeout", 0, struct feature_options, overrides.task_timeout_ns, .least = 1,
                 .most = FEATURE_WEEK, .sample = "45m", .about = "Deadline for each task.",
                 .detail = "Counted from the moment the task gets a slot."),
    CLI_NUMBER("timeout-multiplier", 0, "N", struct feature_options, overrides.timeout_multiplier,
               .lowest = 0.1, .highest = 100, .sample = "1.5",
               .about = "Multiply the deadlines of tasks by this number."),
    CLI_DURATION("timeout", 0, struct feature_options, overrides.feature_timeout_ns, .least = 1,
                 .most = FEATURE_WEEK, .sample = "8h",
                 .set = CLI_SET(struct feature_options, overrides.feature_timeout_set),
                 .about = "Deadline for the whole feature."),
    CLI_DURATION("coach-grace", 0, struct feature_options, overrides.coach_grace_ns,
                 .most = FEATURE_WEEK, .sample = "120s",
                 .set = CLI_SET(struct feature_options, overrides.coach_grace_set),
                 .about = "Time that verification and Coach may take past a task's deadline.",
                 .detail = "Only if the Player completed."),
    CLI_DURATION("drain", 0, struct feature_options, overrides.drain_ns, .most = FEATURE_WEEK,
                 .sample = "10s", .set = CLI_SET(struct feature_options, overrides.drain_set),
                 .about = "Time that running phases have after the first signal."),
    CLI_CHOICE("on-failure", 0, "WHAT", struct feature_options, overrides.on_failure,
               feature_policies, .initial = "wave_end", .sample = "continue",
               .set = CLI_SET(struct feature_options, overrides.on_failure_set),
               .about = "When a task fails: `wave_end` finishes its wave and starts no other, "
                        "`cancel_siblings` stops the other tasks of the wave, `continue` runs "
                        "later waves, except for what depends on it."),
    CLI_COUNT("max-budget-tokens", 0, "N", struct feature_options, overrides.max_budget_tokens,
              .least = 1, .most = ((uint64_t)1 << 53) - 1, .sample = "2000000",
              .about = "Token limit for the whole feature."),
    CLI_NUMBER("max-budget-usd", 0, "USD", struct feature_options, overrides.max_budget_usd,
               .sample = "5.00",
               .set = CLI_SET(struct feature_options, overrides.max_budget_usd_set),
               .about = "Cost limit for the whole feature. Needs models with known prices."),
    {0},
};

static const struct cli_option feature_runs[] = {
    CLI_FLAG("require-clean", 0, struct feature_options, require_clean,
             .about = "Refuse a checkout with uncommitted changes, which are not part of the base.",
             .detail = "Without it, they cause a warning."),
    CLI_FLAG("take-over", 0, struct feature_options, take_over,
             .about = "End the belay process that is running the feature, and continue here."),
    CLI_LIST(CLI_TYPE_TEXT, "task", "TASK", struct feature_options, tasks, task_count,
             .verbs = CLI_VERB(FEATURE_RUN) | CLI_VERB(FEATURE_RESUME), .sample = "TASK-AUTH-001",
             .about = "Run only this task."),
    CLI_REVISION("base", 0, "COMMIT", struct feature_options, base, .verbs = CLI_VERB(FEATURE_RUN),
                 .initial = "HEAD", .sample = "main", .complete = CLI_COMPLETE_REVISIONS,
                 .about = "The commit that the first wave starts from."),
    CLI_FLAG("fresh", 0, struct feature_options, fresh, .verbs = CLI_VERB(FEATURE_RUN),
             .about = "Start from the beginning; old branches and worktrees are kept aside.",
             .detail = "Old branches become refs below `refs/belay/rescue`, and their worktrees "
                       "are moved aside, including uncommitted files."),
    CLI_COUNT("more-turns", 0, "N", struct feature_options, more_turns, .least = 1, .most = 50,
              .verbs = CLI_VERB(FEATURE_RESUME), .sample = "3",
              .about = "Allow this many more turns."),
    {0},
};

static const struct cli_option feature_options[] = {
    CLI_FLAG("all", 0, struct feature_options, all, .verbs = CLI_VERB(FEATURE_LIST),
             .about = "List all of them, not only those of this folder.",
             .detail = "That is, the features of all repositories."),
    CLI_FLAG("follow", 'f', struct feature_options, follow, .verbs = CLI_VERB(FEATURE_LOGS),
             .about = "Follow the log until the feature ends."),
    CLI_COUNT("turn", 0, "N", struct feature_options, turn, .least = 1, .most = 1000000,
              .verbs = CLI_VERB(FEATURE_LOGS), .sample = "2", .about = "Show only this turn."),
    CLI_WORD("phase", 0, "PHASE", struct feature_options, phase, feature_phases,
             .verbs = CLI_VERB(FEATURE_LOGS), .sample = "coach",
             .about = "Show only this phase: `player`, `verify`, `coach`, `merge` or `gate`."),
    CLI_PATH("from", 0, "FILE", struct feature_options, from, .verbs = CLI_VERB(FEATURE_NEW),
             .complete = CLI_COMPLETE_FILES, .sample = "tasks.md",
             .about = "Read the tasks from this file; `-` is standard input.",
             .detail = "One task per line, a checklist, or Markdown with a heading for each task."),
    CLI_TEXT("prompt", 0, "TEXT", struct feature_options, prompt, .verbs = CLI_VERB(FEATURE_NEW),
             .sample = "add a login", .expected = "a description of the work",
             .about = "Let the configured model write the plan for this work.",
             .detail = "It may read the repository."),
    CLI_TEXT("name", 0, "NAME", struct feature_options, title, .verbs = CLI_VERB(FEATURE_NEW),
             .sample = "Login", .expected = "a name",
             .about = "Name of the feature; without it, the title of the text, or the id."),
    CLI_LIST(CLI_TYPE_TEXT, "verify", "COMMAND", struct feature_options, verify, verify_count,
             .verbs = CLI_VERB(FEATURE_NEW), .sample = "make test", .expected = "a command",
             .about = "Command that verifies each task."),
    CLI_FLAG("in-order", 0, struct feature_options, in_order, .verbs = CLI_VERB(FEATURE_NEW),
             .about = "Run each task after the one before it, unless it says otherwise."),
    CLI_FLAG("dry-run", 0, struct feature_options, dry_run,
             .verbs = CLI_VERB(FEATURE_NEW) | CLI_VERB(FEATURE_CLEAN),
             .about = "Only print what would be written or removed."),
    CLI_PATH("html", 0, "FILE", struct feature_options, html, .verbs = CLI_VERB(FEATURE_REPORT),
             .complete = CLI_COMPLETE_FILES, .sample = "report.html",
             .about = "Write one HTML file; `-` is standard output.",
             .detail = "The file is self-contained."),
    CLI_STORE_ROW(struct feature_options, store, .verbs = ~CLI_VERB(FEATURE_VALIDATE)),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_STREAM_FORMATS, .verbs = FEATURE_STREAMS,
                   .about = "`text`, `json`: one line, as in docs/schemas/feature.json, or "
                            "`stream-json`: every event as it happens, as in "
                            "docs/schemas/feature-event.json, and that line as the last."),
    CLI_FORMAT_ROW(CLI_FORMATS, .verbs = ~FEATURE_STREAMS,
                   .about = "`text`, or `json`: one line, as in docs/schemas/feature.json."),
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Limits that override the plan", FEATURE_RUNS | CLI_VERB(FEATURE_VALIDATE),
              feature_limits),
    CLI_GROUP("Running", FEATURE_RUNS, feature_runs),
    {0},
};

#define FEATURE_NAME(form, kind, ...)                                                              \
    {                                                                                              \
        CLI_TEXT(form, 0, NULL, struct feature_options, name, .most = 4096, .complete = (kind),    \
                 .expected = "the id of a feature or the path of its plan", __VA_ARGS__),          \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
#define FEATURE_HINT      .hint = "give its id, or the path of its plan"
#define FEATURE_TASK_HINT .hint = "give a task such as FEAT-AUTH/TASK-AUTH-001"

static const struct cli_option feature_made[] = {
    CLI_TEXT("FEAT", 0, NULL, struct feature_options, name, .most = 4096,
             .expected = "the id of the new feature", .hint = "give an id such as FEAT-LOGIN",
             .about = "The id of the new feature."),
    CLI_LIST(CLI_TYPE_ANY, "TASK", NULL, struct feature_options, texts, text_count,
             .optional = true, .about = "A task: \"TITLE\", \"ID: TITLE (after 1, ID)\"."),
    {0},
};
static const struct cli_option feature_plan[] =
    FEATURE_NAME("FEAT", CLI_COMPLETE_PLANS, FEATURE_HINT, .about = "A feature or its plan.");
static const struct cli_option feature_whole[] =
    FEATURE_NAME("FEAT", CLI_COMPLETE_FEATURES, FEATURE_HINT, .about = "A feature.");
static const struct cli_option feature_part[] = FEATURE_NAME(
    "FEAT[/TASK]", CLI_COMPLETE_FEATURES, FEATURE_HINT, .about = "A feature, or one of its tasks.");
static const struct cli_option feature_any[] =
    FEATURE_NAME("FEAT[/TASK]", CLI_COMPLETE_FEATURES, .optional = true,
                 .about = "A feature, or one of its tasks.");
static const struct cli_option feature_task[] =
    FEATURE_NAME("FEAT/TASK", CLI_COMPLETE_FEATURES, FEATURE_TASK_HINT, .about = "A task.");
static const struct cli_option feature_extend[] = {
    CLI_TEXT("FEAT/TASK", 0, NULL, struct feature_options, name, .most = 4096,
             .complete = CLI_COMPLETE_FEATURES, .expected = "a task such as FEAT-A/TASK-A",
             FEATURE_TASK_HINT, .about = "A task."),
    CLI_ANY("+DURATION", 0, NULL, struct feature_options, longer,
            .hint = "give the additional time, such as +10m", .sample = "+10m",
            .about = "The additional time."),
    {0},
};

static const struct cli_verb feature_verbs[] = {
    [FEATURE_NEW] =
        {"new", "Write a plan from a list of tasks or from a prompt.",
         "Tasks come from arguments, a file, standard input or the model. The plan is validated "
         "before any file is written, and existing files are not overwritten.",
         feature_made},
    [FEATURE_VALIDATE] = {"validate",
                          "Check the plan and print waves, seats and deadlines as they will be "
                          "enforced.",
                          "All errors are reported at once, each as FILE:LINE: CODE message.",
                          feature_plan},
    [FEATURE_RUN] = {"run", "Run the feature, or continue where it stopped.",
                     "On a terminal a table shows the state; otherwise each event is a line.",
                     feature_plan},
    [FEATURE_STATUS] = {"status", "Show the state of the feature, whether it is running or not.",
                        "For a task, its row and its checkpoint. Without a name, all features of "
                        "this repository.",
                        feature_any},
    [FEATURE_LIST] = {"list", "List the features of this repository.",
                      "Each has its id, name, state, the number of tasks that are done, its age "
                      "and its cost.",
                      NULL},
    [FEATURE_LOGS] = {"logs", "Show the events, and the output of Player, verification and Coach.",
                      NULL, feature_part},
    [FEATURE_CANCEL] = {"cancel", "Stop the feature or one task now and print the receipt.",
                        "It returns when none of the work is left running. Work that has already "
                        "ended is not changed.",
                        feature_part},
    [FEATURE_PAUSE] = {"pause", "Start nothing new; deadlines of waiting tasks are postponed.",
                       "Running phases finish. The deadline of the feature does not move.",
                       feature_whole},
    [FEATURE_RESUME] =
        {"resume", "Continue, in the paused belay process or in a new one.",
         "A stopped task starts its next turn with the last feedback, in the same worktree, with a "
         "full new deadline. Approved and completed tasks are not run again.",
         feature_part},
    [FEATURE_EXTEND] = {"extend", "Move the deadline of a running task.",
                        "Never past the deadline of the feature.", feature_extend},
    [FEATURE_RETRY] = {"retry", "Start a fresh attempt at a task; the old branch is kept as a ref.",
                       "It starts at turn 1, on a new branch from the current base, without "
                       "memory. The old branch is kept as `refs/belay/rescue/FEAT/TASK/N`.",
                       feature_task},
    [FEATURE_CLEAN] = {"clean",
                       "Remove worktrees and branches that are merged and hold nothing else.",
                       "They must be clean, without untracked files and without a live owner; for "
                       "the others the reason is printed.",
                       feature_whole},
    [FEATURE_REPORT] = {"report", "Print a report of the whole feature, as text or HTML.", NULL,
                        feature_whole},
    {0},
};

static const struct cli_other_name feature_other_names[] = {
    {"--max-turns", "--turns"},
    {"--max-parallel", "--parallel"},
    {0},
};

const struct cli_command cli_feature_command = {
    .name = "feature",
    .summary = "run a plan of tasks and merge the results",
    .about = "Runs a plan of tasks and merges the results. Waves run in order; the tasks of a wave "
             "run side by side, each a loop of Player, verification and Coach in a git worktree of "
             "its own; approved work is merged into belay/FEAT/_result. Any part can be stopped at "
             "any time and resumed later. Your checkout, index, branch and stash are not touched, "
             "a run writes no plan files, and unmerged work is not deleted.\n\n"
             "FEAT is an id, whose plan is .belay/features/ID.yaml (or .guardkit/features), or the "
             "path of a plan. TASK alone is enough if it is unique.\n\n"
             "The first SIGINT or SIGTERM lets running phases end (see --drain) and then stops "
             "them; the second stops at once. SIGHUP and SIGQUIT, unless ignored at the start, and "
             "a reader that closes standard output count as the first.",
    .verbs = feature_verbs,
    .verb_at = offsetof(struct feature_options, verb),
    .other_names = feature_other_names,
    .options = feature_options,
    .exits = "0\tall tasks are completed or deferred; the others: the request was answered\n"
             "1\ta task did not complete (for example because of its own deadline), a gate failed, "
             "an error occurred, the name is unknown, or it is too late to extend\n"
             "2\tusage error, or the plan is not valid\n"
             "3\tthe budget of the feature was used up\n"
             "124\tthe deadline of the feature was reached\n"
             "130\tstopped, or output closed by the reader\n"
             "143\tstopped by SIGTERM\n",
    .environment = "BELAY_PROVIDER, BELAY_MODEL\tDefault provider and model of Player and Coach.\n"
                   "BELAY_HOST\tName of this machine, if several share one store.\n",
    .files = ".belay/features/ID.yaml\tthe plan of a feature\n"
             ".belay/worktrees/FEAT/TASK\tthe worktree of a task, on the branch belay/FEAT/TASK\n",
    .examples = "    belay feature new FEAT-AUTH --from tasks.md --verify 'make test'\n"
                "    belay feature validate FEAT-AUTH\n"
                "    belay feature run FEAT-AUTH --parallel 2 --task-timeout 45m\n"
                "    belay feature logs FEAT-AUTH/TASK-AUTH-001 -f\n"
                "    belay feature cancel TASK-AUTH-001\n"
                "    belay feature resume FEAT-AUTH --more-turns 3\n"
                "    belay feature report FEAT-AUTH --html report.html",
    .see = "cancel ps run git-merge(1) git-worktree(1)",
};
