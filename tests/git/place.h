/* A place for tests: a scratch folder, and a real repository in it. */
#ifndef BELAY_TESTS_GIT_PLACE_H
#define BELAY_TESTS_GIT_PLACE_H

#include <belay/base.h>

#include "suite.h"

/* Embedded by a test. */
struct place {
    char root[256];       /* a scratch folder, links resolved */
    char repository[300]; /* root/repo: a git repository with one commit (README.md), branch main */
};

/* Makes the repository, or fails the test. */
void place_make(struct place *place);
void place_done(struct place *place); /* removes all of it */
/* Writes a file below the repository, and makes its folders. */
void place_write(const struct place *place, const char *path, const char *text);
/* Reads a file below the repository; empty if it does not exist. Free it with bl_free. */
struct bl_text place_read(const struct place *place, const char *path);
/* Runs `git -C repository …` with a shell line ("commit -qm x"); fails the test if git fails. */
void place_git(const struct place *place, const char *arguments);
/* The same, and returns its output without the last LF. Free it with bl_free. */
char *place_git_output(const struct place *place, const char *arguments);

#endif
