/* Small plans, and looking at what a run has left. */
#ifndef BELAY_TESTS_CLI_SCENES_H
#define BELAY_TESTS_CLI_SCENES_H

#include "field.h"

/* What is in a file below the stage. */
const char *scene_file(const char *path);
/* Fails unless the text holds the part; or when it does. */
void scene_expect(const char *text, const char *part);
void scene_expect_none(const char *text, const char *part);
/* By a shell; the status must be 0. What it wrote. */
const char *scene_shell(const char *command);
size_t scene_files(const char *pattern); /* how many fit it */

/* A Player that keeps each of its prompts as seats/TASK-TURN.prompt; after that `before`. */
const char *scene_player(const char *before);
/* A Coach with nothing but these lines; `verdict` is there, standard input is not read. */
const char *scene_coach(const char *name, const char *lines);
/* Task A alone; `more` are lines below `belay:`, indented by two. */
void scene_one(const char *player, const char *coach, const char *limits, const char *more);
/* Tasks whose files are there, in one wave; the Coaches are their own. */
void scene_many(const char *const *ids, const char *player, const char *limits);
/* Front matter of a task with a Coach of its own. */
const char *scene_own_coach(const char *coach);
/* A script for the script model, outside of the repository, as a seat; `more` are other keys. */
const char *scene_agent(const char *name, const char *yaml, const char *more);

/* `belay feature VERB FEAT` to its end; all that it writes fits the schemas. */
const struct bl_json *scene_run(struct held *held, const char *verb, int exit_code);
/* Every line of a run fits its schema. */
void scene_schemas(const struct held *held);
void scene_row(const struct bl_json *envelope, const char *task, const char *state,
               const char *decision);
void scene_turn(const struct held *held, const char *task, size_t turn, const char *decision);

#endif
