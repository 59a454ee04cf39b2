/* Shared by the phases of a turn. */
#ifndef BELAY_FEATURE_TASK_TURN_H
#define BELAY_FEATURE_TASK_TURN_H

#include "feature/parts.h"

#define PROMPT_TEXT_MAX ((size_t)64 * 1024) /* limit of a Player's text that other seats get */

/* Starts a phase. Returns an error code if the scope was stopped; then nothing has started. */
int task_phase_begin(struct feature_task *task, struct task_turn *turn, enum bl_task_phase phase);
/* Ends a phase. Its record is stored when this returns. */
void task_phase_end(struct feature_task *task, struct task_turn *turn, enum bl_task_phase phase,
                    enum turn_phase_state state);
/* Starts another try of the phase; its output is stored separately. */
void task_phase_again(struct feature_task *task, const struct task_turn *turn,
                      enum bl_task_phase phase);
/* Runs a seat of the task with that prompt; `result_name` is the name of its result file. */
void task_seat_run(struct feature_task *task, struct task_turn *turn, const struct bl_seat *seat,
                   struct bl_text prompt, const char *directory, const char *result_name,
                   struct seat_outcome *outcome);
int task_over_budget(struct bl_error *error);
/* Returns the time until the current work is stopped; BL_NEVER: no deadline. */
uint64_t task_time_left(const struct feature_task *task);
enum turn_end task_coach_run(struct feature_task *task, struct task_turn *turn,
                             struct bl_error *error);

#endif
