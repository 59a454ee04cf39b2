/* Small plans, and checks of what a run has left. */
#ifndef BELAY_TESTS_CLI_SCENES_H
#define BELAY_TESTS_CLI_SCENES_H

#include "field.h"

/* Returns the contents of a file below the stage. */
const char *scene_file(const char *path);
/* Fails unless the text contains the part; or if it does. */
void scene_expect(const char *text, const char *part);
void scene_expect_none(const char *text, const char *part);
/* Runs a shell command whose status must be 0. Returns its output. */
const char *scene_shell(const char *command);
size_t scene_files(const char *pattern); /* number of matching files */

/* Makes a Player that keeps each of its prompts as seats/TASK-TURN.prompt, then runs `before`. */
const char *scene_player(const char *before);
/* Makes a Coach of just these lines; `verdict` is defined, standard input is not read. */
const char *scene_coach(const char *name, const char *lines);
/* Plans task A alone; `more` are lines below `belay:`, indented by two. */
void scene_one(const char *player, const char *coach, const char *limits, const char *more);
/* Plans tasks whose files exist, in one wave; they have their own Coaches. */
void scene_many(const char *const *ids, const char *player, const char *limits);
/* Returns front matter for a task with its own Coach. */
const char *scene_own_coach(const char *coach);
/* Writes a script for the script model, outside the repository, and returns it as a seat; `more`
 * are other keys. */
const char *scene_agent(const char *name, const char *yaml, const char *more);

/* Runs `belay feature VERB FEAT` to its end; all its output must match the schemas. */
const struct bl_json *scene_run(struct held *held, const char *verb, int exit_code);
/* Checks that every line of a run matches its schema. */
void scene_schemas(const struct held *held);
void scene_row(const struct bl_json *envelope, const char *task, const char *state,
               const char *decision);
void scene_turn(const struct held *held, const char *task, size_t turn, const char *decision);

#endif
