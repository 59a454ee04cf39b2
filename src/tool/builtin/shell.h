/* What the files about shell commands share: shell.c takes a command apart, guard.c says what a
 * star may stand for, command.c finds denied commands and makes patterns. */
#ifndef BELAY_TOOL_SHELL_H
#define BELAY_TOOL_SHELL_H

#include "tool/parts.h"

bool shell_is_blank(char byte);
bool shell_is_name(char byte);
/* NAME=…, NAME+=…, NAME[…. */
bool shell_is_assignment(struct bl_text word);
/* A word that begins, divides or ends a control structure, or changes the command after it. */
bool shell_is_reserved(struct bl_text word);
/* The list ends in NULL. */
bool shell_is_listed(struct bl_text word, const char *const *list);
/* Up to the first space. */
struct bl_text shell_first_word(struct bl_text text);
/* The bytes of $NAME, ${…}, $@ and the like at the beginning of `text`; 0: it begins otherwise. */
size_t shell_expansion_size(struct bl_text text);
/* A command by its path is the same command. */
struct bl_text shell_without_path(struct bl_text text);
/* A program or builtin that runs its arguments, or what they lead to, as commands. */
bool shell_runs_others(struct bl_text program);

/* A word of a command that is not complex, as bash would expand it. */
struct shell_word {
    struct bl_text value; /* without quotes and escapes; "$" for each expansion */
    bool varies;          /* it holds an expansion, glob or braces: its value is not known */
    bool splits;          /* it may become several words, or none */
};

/* The next word of `*rest`. `scratch` has room for it. False: there are no more. */
bool shell_word_next(struct bl_text *rest, char *scratch, struct shell_word *ret_word);

#endif
