/* What the phases of a turn share. */
#ifndef BELAY_FEATURE_TASK_TURN_H
#define BELAY_FEATURE_TASK_TURN_H

#include "feature/parts.h"

#define PROMPT_TEXT_MAX ((size_t)64 * 1024) /* of a Player's words that others are shown */

/* Not 0: the scope was stopped, and nothing has begun. */
int task_phase_begin(struct feature_task *task, struct task_turn *turn, enum bl_task_phase phase);
/* On record when this returns. */
void task_phase_end(struct feature_task *task, struct task_turn *turn, enum bl_task_phase phase,
                    enum turn_phase_state state);
/* Runs a seat of the task with that prompt; `result_name` is the file of its result. */
void task_seat_run(struct feature_task *task, struct task_turn *turn, const struct bl_seat *seat,
                   struct bl_text prompt, const char *directory, const char *result_name,
                   struct seat_outcome *outcome);
int task_over_budget(struct bl_error *error);
/* Until what runs now is cut off; BL_NEVER: it has no deadline. */
uint64_t task_time_left(const struct feature_task *task);
enum turn_end task_coach_run(struct feature_task *task, struct task_turn *turn,
                             struct bl_error *error);

#endif
