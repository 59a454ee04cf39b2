/* Random Markdown. */
#ifndef BELAY_TESTS_CLI_MARKDOWN_TEXT_H
#define BELAY_TESTS_CLI_MARKDOWN_TEXT_H

#include <belay/base.h>

/* Replaces `text` with up to 14 lines of Markdown constructs. `plain`: without fences in containers
 * and without several empty lines in a row, which the parser treats differently. */
void markdown_text(struct bl_random *random, bool plain, struct bl_buffer *text);

#endif
