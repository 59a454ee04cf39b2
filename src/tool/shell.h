/* What the files about shell commands share: shell.c takes a command apart, guard.c says what a
 * star may stand for, command.c finds denied commands and makes patterns. */
#ifndef BELAY_TOOL_SHELL_H
#define BELAY_TOOL_SHELL_H

#include "parts.h"

bool shell_is_blank(char byte);
bool shell_is_name(char byte);
/* NAME=…, NAME+=…, NAME[…]=…. */
bool shell_is_assignment(struct bl_text word);
/* A word that begins, divides or ends a control structure, or changes the command after it. */
bool shell_is_reserved(struct bl_text word);
/* The list ends in NULL. */
bool shell_is_listed(struct bl_text word, const char *const *list);
/* Up to the first space. */
struct bl_text shell_first_word(struct bl_text text);
/* A command by its path is the same command. */
struct bl_text shell_without_path(struct bl_text text);
/* A program or builtin that runs its arguments, or what they lead to, as commands. */
bool shell_runs_others(struct bl_text program);

#endif
