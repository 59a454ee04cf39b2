/* One turn: the Player works, Belay commits and verifies, the Coach judges. The start and the end
 * of each phase are recorded. The scope is checked between phases. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "task_turn.h"

/* ---- Phases ---------------------------------------------------------------------------------- */

static void show_phase(struct feature_task *task, const char *phase)
{
    if (task->feature->options.activities != NULL && task->ready)
        bl_text_into(task->activity.phase, sizeof task->activity.phase, phase);
}

int task_phase_begin(struct feature_task *task, struct task_turn *turn, enum bl_task_phase phase)
{
    int code = task_gate(task);
    if (code != 0)
        return code;
    struct turn_phase *record = task_turn_phase(turn, phase);
    const char *name = bl_task_phase_name(phase);
    BL_LOG(BL_ROOM_FEATURE, BL_LOG_DEBUG, "phase begins", BL_LOG_STRING("task", task->row.id),
           BL_LOG_STRING("phase", name), BL_LOG_INTEGER("turn", task->row.turn));
    task->row.phase = phase;
    record->state = TURN_PHASE_RUNNING;
    record->started_wall_ns = bl_clock_wall_ns(task->feature->clock);
    task->feature->phases_running++;
    show_phase(task, name);
    task->capture = bl_zalloc(sizeof *task->capture);
    bl_capture_init(task->capture, FEATURE_OUTPUT_KEPT);
    task->tries = 1;
    ledger_put_task(task);
    ledger_put_turn(task, turn);
    EVENT_TELL(task->feature, PHASE_STARTED, task, .phase = phase);
    return 0;
}

#define BL_RECORD_STRUCT struct bl_phase_output
static const struct bl_member output_members[] = {
    BL_MEMBER_STRING("task", task, .least = 1),
    BL_MEMBER_INTEGER("attempt", attempt),
    BL_MEMBER_INTEGER("turn", turn),
    BL_MEMBER_STRING("phase", phase, .least = 1),
    BL_MEMBER_TEXT("text", text, .about = "The middle of a long text is omitted."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_phase_output_record =
    BL_RECORD("output", struct bl_phase_output, output_members);

static void keep_output(struct feature_task *task, const struct task_turn *turn, const char *phase)
{
    BL_AUTO_BUFFER(text, 2 * FEATURE_OUTPUT_KEPT + 4096);
    char name[160], again[48];
    if (task->capture->total == 0)
        return;
    if (task->tries > 1) {
        snprintf(again, sizeof again, "%s-%u", phase, task->tries);
        phase = again;
    }
    bl_capture_text(task->capture, &text);
    const struct bl_phase_output output = {.task = turn->task,
                                           .attempt = turn->attempt,
                                           .turn = turn->number,
                                           .phase = phase,
                                           .text = bl_buffer_text(&text)};
    snprintf(name, sizeof name, "output/%s/%03u/%04u/%s", turn->task, turn->attempt, turn->number,
             phase);
    ledger_put_record(task->feature, name, &bl_phase_output_record, &output);
}

void task_phase_again(struct feature_task *task, const struct task_turn *turn,
                      enum bl_task_phase phase)
{
    keep_output(task, turn, bl_task_phase_name(phase));
    bl_capture_done(task->capture);
    bl_capture_init(task->capture, FEATURE_OUTPUT_KEPT);
    task->tries++;
}

void task_phase_end(struct feature_task *task, struct task_turn *turn, enum bl_task_phase phase,
                    enum turn_phase_state state)
{
    struct turn_phase *record = task_turn_phase(turn, phase);
    const char *name = bl_task_phase_name(phase);
    assert(record->state == TURN_PHASE_RUNNING && task->feature->phases_running > 0);
    BL_LOG(BL_ROOM_FEATURE, BL_LOG_DEBUG, "phase ended", BL_LOG_STRING("task", task->row.id),
           BL_LOG_STRING("phase", name), BL_LOG_BOOLEAN("stopped", state == TURN_PHASE_STOPPED));
    record->state = state;
    if (state == TURN_PHASE_ENDED)
        task->row.phase = phase == BL_PHASE_COACH ? BL_PHASE_AFTER_TURN : BL_PHASE_BETWEEN;
    record->ended_wall_ns = bl_clock_wall_ns(task->feature->clock);
    if (record->ended_wall_ns < record->started_wall_ns) /* the clock was set back */
        record->ended_wall_ns = record->started_wall_ns;
    record->ms = (record->ended_wall_ns - record->started_wall_ns) / (int64_t)BL_NS_PER_MS;
    turn->played = task_turn_has(turn, BL_PHASE_PLAYER);
    turn->verified = task_turn_has(turn, BL_PHASE_VERIFY);
    keep_output(task, turn, name);
    bl_capture_done(task->capture);
    bl_free(task->capture);
    task->capture = NULL;
    task->feature->phases_running--;
    EVENT_TELL(task->feature, PHASE_ENDED, task, .phase = phase, .outcome = state,
               .ms = (uint64_t)record->ms);
    ledger_put_task(task);
    ledger_put_turn(task, turn);
    ledger_write(task->feature, false);
    feature_bell_ring(&task->feature->changed);
}

static void active(void *context, const char *what, uint64_t tokens)
{
    struct feature_task *task = context;
    struct bl_task_row *row = &task->row;
    row->active_wall_ns = bl_clock_wall_ns(task->feature->clock);
    bl_text_into(row->activity, sizeof row->activity, what);
    task->active_changed = true;
    task->activity.active_ns = bl_now_ns();
    if (tokens > 0)
        task->activity.tokens = bl_usage_total(&row->spent.usage) + tokens;
}

static void task_turn_keep(void *context, struct bl_text bytes)
{
    struct feature_task *task = context;
    if (task->capture != NULL)
        bl_capture_add(task->capture, bytes);
}

/* ---- Cost ------------------------------------------------------------------------------------ */

/* Returns the cost ledger that an agent draws from, or NULL without a cost limit. */
static struct bl_ledger *agent_ledger(struct feature_task *task)
{
    if (task->budgeted_usd)
        return &task->ledger;
    return task->feature->ledger.limit_usd >= 0 ? &task->feature->ledger : NULL;
}

/* Books the usage of a seat. Agents draw from budget and ledger while they work; commands report
 * their usage at the end. */
static void book(struct feature_task *task, struct task_turn *turn, const struct bl_seat *seat,
                 const struct bl_spent *spent)
{
    struct bl_task_row *row = &task->row;
    struct bl_ledger *drawn = seat->kind == BL_SEAT_AGENT ? agent_ledger(task) : NULL;
    struct bl_ledger *const ledgers[] = {&task->ledger, &task->feature->ledger};
    bl_spent_add(&row->spent, spent);
    bl_spent_add(&turn->spent, spent);
    row->spent_known = true;
    if (seat->kind == BL_SEAT_COMMAND)
        bl_budget_settle(&task->budget, 0, bl_usage_total(&spent->usage));
    for (size_t i = 0; i < BL_COUNT(ledgers); i++)
        if (ledgers[i] != drawn)
            ledgers[i]->booked_usd += spent->cost_usd;
    if (task->budgeted_usd && task->ledger.booked_usd > task->ledger.limit_usd)
        task->ledger.overrun = true;
    feature_budget_check(task->feature);
}

int task_over_budget(struct bl_error *error)
{
    return bl_error_set(error, BL_EBUDGET, BL_KIND_POLICY, "run a task", NULL,
                        "the token or cost budget is used up");
}

/* ---- The Player ------------------------------------------------------------------------------ */

/* Returns when the current work is stopped. With a grace, that is after the timer fires. */
static uint64_t cut_off_ns(const struct feature_task *task)
{
    uint64_t deadline = bl_scope_deadline_ns(bl_scope_current());
    if (!task->grace.open || task->in_grace || task->main.deadline_ns == BL_NEVER)
        return deadline;
    uint64_t graced = bl_time_add(task->main.deadline_ns, task->plan->limits.coach_grace_ns);
    return graced < deadline ? graced : deadline;
}

uint64_t task_time_left(const struct feature_task *task)
{
    uint64_t deadline = cut_off_ns(task);
    uint64_t now = bl_now_ns();
    if (deadline == BL_NEVER)
        return BL_NEVER;
    return deadline > now ? deadline - now : 0;
}

static struct bl_text make_player_prompt(struct feature_task *task, struct task_turn *turn,
                                         struct bl_text merge)
{
    const struct bl_task_row *row = &task->row;
    struct git_state state = {0};
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct player_brief brief = {
        .plan = task->feature->plan,
        .task = task->plan,
        .turn = turn->number,
        .turns_max = row->turns_max,
        .left_ns = task_time_left(task),
        .feedback = row->memory->feedback,
        .feedback_turn = row->memory->feedback_turn,
        .cut_off = row->memory->cut_off,
        .merge = merge,
        .verified_by_us = task->plan->verify.commands[0] != NULL,
        .command = task->plan->player.kind == BL_SEAT_COMMAND,
    };
    if ((row->memory->cut_off.size > 0 || turn->merge) &&
        task->feature->means->state(task, &turn->arena, &state, error) == 0) {
        brief.dirty_files = state.files;
        brief.dirty_count = state.file_count;
    }
    bl_free(error);
    return player_prompt(&turn->arena, &brief);
}

void task_seat_run(struct feature_task *task, struct task_turn *turn, const struct bl_seat *seat,
                   struct bl_text prompt, const char *directory, const char *result_name,
                   struct seat_outcome *outcome)
{
    bool coach = seat == &task->plan->coach;
    char result_path[640];
    snprintf(result_path, sizeof result_path, "%s/%s", task->scratch, result_name);
    if (unlink(result_path) != 0)
        errno = 0;
    struct seat_order order = {
        .seat = seat,
        .coach = coach,
        .feature = task->feature->plan->id,
        .task = task->row.id,
        .attempt = task->row.attempt,
        .turn = turn->number,
        .prompt = prompt,
        .directory = directory,
        .result_path = result_path,
        .deadline_ns = cut_off_ns(task),
        .session =
            !coach && task->row.memory->session[0] != '\0' ? task->row.memory->session : NULL,
        .budget = &task->budget,
        .ledger = agent_ledger(task),
        .active = active,
        .output = task_turn_keep,
        .context = task,
    };
    active(task, coach ? "coach" : "player", 0);
    task->feature->means->play(task, &order, &turn->arena, outcome);
    if (unlink(result_path) != 0)
        errno = 0;
    if (outcome->usage_known)
        book(task, turn, seat, &outcome->spent);
    if (outcome->end != SEAT_STOPPED) { /* no receipt counts them */
        task->survivors = bl_survivors_add(task->survivors, outcome->survivors);
        task->unit.survivors = bl_survivors_add(task->unit.survivors, outcome->survivors);
    }
}

static void task_turn_take_result(struct feature_task *task, struct task_turn *turn,
                                  const struct seat_outcome *outcome)
{
    struct bl_arena *arena = &turn->arena;
    struct bl_text problem = {0};
    turn->player_text = outcome->text;
    turn->player_exit = outcome->exit_code;
    player_result_parse(arena, outcome->result, &turn->result, &problem);
    if (problem.size > 0)
        issue_add(arena, &turn->issues, ISSUE_MINOR, ISSUE_OF_CLAIMS, NULL, problem);
    if (turn->result.usage_known && !outcome->usage_known)
        book(task, turn, &task->plan->player, &turn->result.spent);
    if (outcome->session[0] != '\0')
        bl_text_into(task->row.memory->session, sizeof task->row.memory->session, outcome->session);
}

static void task_turn_write_message(const struct feature_task *task, const struct task_turn *turn,
                                    char *out, size_t size)
{
    snprintf(out, size,
             "belay: %s/%s turn %u\n\nBelay-Task: %s\nBelay-Attempt: %u\nBelay-Turn: %u\n",
             task->feature->plan->id, task->row.id, turn->number, task->row.id, turn->attempt,
             turn->number);
}

/* Commits the Player's work. Returns TURN_APPROVED to continue, or TURN_FEEDBACK if the work could
 * not be committed; an issue then says why. */
static enum turn_end task_turn_commit(struct feature_task *task, struct task_turn *turn,
                                      struct bl_error *error)
{
    struct bl_task_row *row = &task->row;
    struct git_commit_result result = {0};
    char message[512];
    task_turn_write_message(task, turn, message, sizeof message);
    int code = task->feature->means->commit(task, &turn->arena, message, &result, error);
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return TURN_STOPPED;
    if (code != 0)
        return TURN_ERROR;
    if (result.end != GIT_COMMIT_NONE && result.end != GIT_COMMIT_MADE) {
        issue_add(&turn->arena, &turn->issues, ISSUE_CRITICAL, ISSUE_OF_CLAIMS, NULL, result.why);
        return TURN_FEEDBACK;
    }
    turn->changed = strcmp(result.head, row->head_commit) != 0;
    bl_text_into(row->head_commit, sizeof row->head_commit, result.head);
    bl_text_into(turn->head, sizeof turn->head, result.head);
    row->dirty = 0;
    if (result.end == GIT_COMMIT_MADE)
        EVENT_TELL(task->feature, COMMIT_MADE, task, .phase = BL_PHASE_PLAYER,
                   .commit = result.head);
    return TURN_APPROVED;
}

/* Checks protected paths if there are no verify commands; otherwise verification does it. */
static void task_turn_check_protected(struct feature_task *task, struct task_turn *turn,
                                      const char *const *paths)
{
    const struct bl_verify_plan *verify = &task->plan->verify;
    for (size_t i = 0; verify->commands[0] == NULL && paths[i] != NULL; i++)
        if (git_path_fits(verify->protect, paths[i]))
            issue_add(&turn->arena, &turn->issues, ISSUE_CRITICAL, ISSUE_OF_CLAIMS, paths[i],
                      BL_TEXT("This path is protected but was changed. Restore it."));
}

static enum turn_end check_claims(struct feature_task *task, struct task_turn *turn,
                                  struct bl_error *error)
{
    const struct bl_verify_plan *verify = &task->plan->verify;
    bool claimed = turn->result.files != NULL && turn->result.files[0] != NULL;
    const char *const *paths;
    if (!claimed && (verify->commands[0] != NULL || verify->protect[0] == NULL))
        return TURN_APPROVED;
    int code = task->feature->means->changed(task, &turn->arena, &paths, error);
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return TURN_STOPPED;
    if (code != 0)
        return TURN_ERROR;
    player_claims_check(&turn->arena, &turn->result, paths, &turn->issues);
    task_turn_check_protected(task, turn, paths);
    return TURN_APPROVED;
}

/* Takes the result and commits the work of a Player that ended normally. */
static enum turn_end task_turn_take_work(struct feature_task *task, struct task_turn *turn,
                                         const struct seat_outcome *outcome, struct bl_error *error)
{
    task_turn_take_result(task, turn, outcome);
    enum turn_end end = task_turn_commit(task, turn, error);
    if (end != TURN_APPROVED)
        return end;
    row_text_set(&task->row.memory->cut_off, (struct bl_text){0});
    if (turn->result.blocked)
        return TURN_BLOCKED;
    if ((!turn->result.given || turn->player_exit != 0) && !turn->changed)
        return TURN_PLAYER_ERROR;
    task->row.memory->stall.player_errors = 0;
    return check_claims(task, turn, error);
}

static void keep_partial(struct feature_task *task, const struct seat_outcome *outcome)
{
    struct player_result result;
    struct bl_text problem;
    BL_AUTO_ARENA(arena);
    player_result_parse(&arena, outcome->result, &result, &problem);
    row_text_set(&task->partial_text, bl_utf8_cut(outcome->text, PROMPT_TEXT_MAX));
    row_text_set(&task->partial_result, result.given ? result.json : (struct bl_text){0});
}

static enum turn_end run_player(struct feature_task *task, struct task_turn *turn,
                                struct bl_text merge, struct bl_error *error)
{
    struct seat_outcome *outcome = bl_arena_zalloc(&turn->arena, sizeof *outcome);
    enum turn_end end;
    if (task_phase_begin(task, turn, BL_PHASE_PLAYER) != 0)
        return TURN_STOPPED;
    struct bl_text prompt = make_player_prompt(task, turn, merge);
    task_seat_run(task, turn, &task->plan->player, prompt, task->row.worktree.data, "player.json",
                  outcome);
    if (outcome->end == SEAT_STOPPED) {
        keep_partial(task, outcome);
        end = TURN_STOPPED;
    } else if (outcome->end == SEAT_UNSTARTED) {
        *error = outcome->error;
        end = TURN_ERROR;
    } else if (outcome->end == SEAT_FAILED && outcome->over_budget) {
        task_over_budget(error);
        end = TURN_BUDGET;
    } else {
        end = task_turn_take_work(task, turn, outcome, error);
    }
    task_phase_end(task, turn, BL_PHASE_PLAYER,
                   end == TURN_STOPPED                       ? TURN_PHASE_STOPPED
                   : end == TURN_ERROR || end == TURN_BUDGET ? TURN_PHASE_FAILED
                                                             : TURN_PHASE_ENDED);
    return end;
}

/* ---- Verification ---------------------------------------------------------------------------- */

static void take_verification(struct feature_task *task, struct task_turn *turn)
{
    issues_move(&turn->verify.issues, &turn->issues);
    if (turn->verify.value == BL_VERIFIED_FAILED && turn->result.tests_claimed)
        issue_add(&turn->arena, &turn->issues, ISSUE_CRITICAL, ISSUE_OF_CLAIMS, NULL,
                  BL_TEXT("The result claims that the tests pass, but verification failed."));
    EVENT_TELL(task->feature, VERIFY_ENDED, task, .phase = BL_PHASE_VERIFY,
               .verify = &turn->verify);
}

static enum turn_end run_verify(struct feature_task *task, struct task_turn *turn)
{
    char folder[640];
    if (task->plan->verify.commands[0] == NULL) {
        turn->verify.value = BL_VERIFIED_NONE;
        return TURN_APPROVED;
    }
    if (task_phase_begin(task, turn, BL_PHASE_VERIFY) != 0)
        return TURN_STOPPED;
    snprintf(folder, sizeof folder, "%s/verify-%u-%u", task->scratch, turn->attempt, turn->number);
    struct verify_order order = {
        .plan = &task->plan->verify,
        .feature = task->feature->plan->id,
        .task = task->row.id,
        .attempt = turn->attempt,
        .turn = turn->number,
        .commit = task->row.head_commit,
        .base_commit = task->compare_base,
        .carry_from = task->row.worktree.data,
        .folder = folder,
        .active = active,
        .output = task_turn_keep,
        .context = task,
    };
    int code = task->feature->means->verify(task, &order, &turn->arena, &turn->verify);
    if (code == 0)
        take_verification(task, turn);
    task_phase_end(task, turn, BL_PHASE_VERIFY, code == 0 ? TURN_PHASE_ENDED : TURN_PHASE_STOPPED);
    return code == 0 ? TURN_APPROVED : TURN_STOPPED;
}

/* ---- Judging --------------------------------------------------------------------------------- */

/* Belay's own findings turn an approval into feedback, never the reverse. */
static enum turn_end task_turn_judge(struct feature_task *task, struct task_turn *turn)
{
    bool approve = turn->verdict.approve;
    struct bl_task_row *row = &task->row;
    if (turn->verify.value == BL_VERIFIED_FAILED || turn->verify.value == BL_VERIFIED_ABSENT)
        approve = false;
    BL_LIST_EACH (link, &turn->issues)
        if (BL_CONTAINER(link, struct issue, link)->severity == ISSUE_CRITICAL)
            approve = false;
    issues_move(&turn->verdict.issues, &turn->issues);
    row_text_set(&row->memory->last_verdict, turn->verdict.json);
    row->memory->stall.absent =
        turn->verify.value == BL_VERIFIED_ABSENT ? row->memory->stall.absent + 1 : 0;
    return approve ? TURN_APPROVED : TURN_FEEDBACK;
}

static void open_grace(struct feature_task *task)
{
    char id[160];
    if (task->plan->limits.coach_grace_ns == 0 || task->merge.open)
        return;
    snprintf(id, sizeof id, "%s/%s grace", task->feature->plan->id, task->row.id);
    task_stage_open(&task->grace, &task->feature->scope, id);
    task_grace_follow(task);
}

static enum turn_end verify_and_judge(struct feature_task *task, struct task_turn *turn,
                                      struct bl_error *error)
{
    enum turn_end end = TURN_APPROVED;
    task->row.phase = BL_PHASE_BETWEEN;
    if (bl_check() != 0)
        return TURN_STOPPED;
    if (!task_turn_has(turn, BL_PHASE_VERIFY))
        end = run_verify(task, turn);
    if (end != TURN_APPROVED)
        return end;
    task->row.verified = turn->verify.value;
    if (bl_check() != 0)
        return TURN_STOPPED;
    end = task_coach_run(task, turn, error);
    if (end != TURN_APPROVED)
        return end;
    task->row.phase = BL_PHASE_AFTER_TURN;
    return task_turn_judge(task, turn);
}

enum turn_end task_turn_run(struct feature_task *task, struct task_turn *turn, struct bl_text merge,
                            struct bl_error *error)
{
    turn->merge = merge.size > 0;
    if (!task_turn_has(turn, BL_PHASE_PLAYER)) {
        enum turn_end end = run_player(task, turn, merge, error);
        if (end != TURN_APPROVED)
            return end;
    }
    open_grace(task);
    struct bl_scope *outer = bl_scope_current();
    if (task->grace.open)
        bl_scope_enter(&task->grace.scope);
    enum turn_end end = verify_and_judge(task, turn, error);
    bl_scope_enter(outer);
    return end;
}

/* ---- Feedback -------------------------------------------------------------------------------- */

/* Writes the full feedback to a file that the Player may read. Returns its path, in the arena. */
static const char *write_feedback(struct feature_task *task, struct task_turn *turn)
{
    struct bl_arena *arena = &turn->arena;
    struct bl_text whole = feedback_make(arena, &turn->issues, UINT32_MAX, NULL);
    const char *path =
        bl_arena_printf(arena, "%s/feedback-%u-%u.md", task->scratch, turn->attempt, turn->number)
            .data;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return path;
    size_t done = 0;
    ssize_t count = 1;
    while (count > 0 && done < whole.size) {
        count = write(fd, whole.data + done, whole.size - done);
        done += count > 0 ? (size_t)count : 0;
    }
    close(fd);
    return path;
}

void task_turn_ended(struct feature_task *task, const struct task_turn *turn)
{
    ledger_put_turn(task, turn);
    ledger_put_task(task);
    EVENT_TELL(task->feature, TASK_TURN_ENDED, task, .decision = turn->decision,
               .counted = turn->counted);
}

bool task_turn_feedback(struct feature_task *task, struct task_turn *turn)
{
    struct bl_task_row *row = &task->row;
    const char *why = NULL;
    bool absent = turn->verify.value == BL_VERIFIED_ABSENT;
    bool stalled = false;
    issues_sort(&turn->issues);
    turn->feedback = feedback_make(&turn->arena, &turn->issues, task->plan->limits.feedback_issues,
                                   write_feedback(task, turn));
    turn->decision = "feedback";
    turn->counted = !turn->merge;
    turn->ended_wall_ns = bl_clock_wall_ns(task->feature->clock);
    row_text_set(&row->memory->feedback, turn->feedback);
    row->memory->feedback_turn = turn->number;
    row->turns_counted += turn->counted;
    if (!absent)
        stalled = stall_after(&row->memory->stall, turn->verdict_valid ? &turn->verdict : NULL,
                              &turn->issues, turn->changed, &why);
    if (stalled)
        row_text_set(&row->message, bl_text_from(why));
    task_turn_ended(task, turn);
    ledger_write(task->feature, false);
    return stalled;
}
