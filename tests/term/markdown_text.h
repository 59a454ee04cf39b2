/* Markdown by chance. */
#ifndef BELAY_TESTS_CLI_MARKDOWN_TEXT_H
#define BELAY_TESTS_CLI_MARKDOWN_TEXT_H

#include <belay/base.h>

/* Up to 14 lines of what makes up Markdown; replaces. `plain`: without fences in containers and
 * several empty lines in a row, of which the parser has its own idea. */
void markdown_text(struct bl_random *random, bool plain, struct bl_buffer *text);

#endif
