/* Shared by the files about shell commands: shell.c splits a command, guard.c decides what a star
 * may stand for, command.c finds denied commands and creates patterns. */
#ifndef BELAY_TOOL_SHELL_H
#define BELAY_TOOL_SHELL_H

#include "tool/parts.h"

bool shell_is_blank(char byte);
bool shell_is_name(char byte);
/* NAME=…, NAME+=…, NAME[…. */
bool shell_is_assignment(struct bl_text word);
/* Returns whether the word begins, divides or ends a control structure, or changes the command
 * after it. */
bool shell_is_reserved(struct bl_text word);
/* `list` ends in NULL. */
bool shell_is_listed(struct bl_text word, const char *const *list);
/* Returns the text up to the first space. */
struct bl_text shell_first_word(struct bl_text text);
/* Returns the size of $NAME, ${…}, $@ and the like at the start of `text`, or 0. */
size_t shell_expansion_size(struct bl_text text);
/* Removes the path of a command: with and without it, it is the same command. */
struct bl_text shell_without_path(struct bl_text text);
/* Returns whether the program or builtin runs its arguments, or commands named by them. */
bool shell_runs_others(struct bl_text program);

/* A word of a command that is not complex, as bash would expand it. */
struct shell_word {
    struct bl_text value; /* without quotes and escapes; "$" for each expansion */
    bool varies;          /* holds an expansion, glob or braces: its value is unknown */
    bool splits;          /* may become several words, or none */
};

/* Takes the next word of `*rest`. `scratch` must have room for it. Returns false if there are no
 * more. */
bool shell_word_next(struct bl_text *rest, char *scratch, struct shell_word *ret_word);

#endif
