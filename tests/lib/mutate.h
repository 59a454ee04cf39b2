/* Random damage, the same for the same seed: for tests of code that reads external bytes. */
#ifndef BELAY_TESTS_MUTATE_H
#define BELAY_TESTS_MUTATE_H

#include <belay/base.h>

/* Damages the text up to four times: replaces a byte by another one of `bytes`, flips one bit,
 * removes a run of bytes, repeats a run at the end, or truncates the text. */
void mutate(struct bl_random *random, struct bl_text bytes, struct bl_buffer *text);

#endif
