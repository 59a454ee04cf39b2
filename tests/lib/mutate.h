/* Damage by chance, the same for the same seed: for tests of what reads outside bytes. */
#ifndef BELAY_TESTS_MUTATE_H
#define BELAY_TESTS_MUTATE_H

#include <belay/base.h>

/* Up to four times: a byte is another one of `bytes` or has one bit flipped, some bytes in a row
 * are gone or are at the end once more, or all from there on is gone. */
void mutate(struct bl_random *random, struct bl_text bytes, struct bl_buffer *text);

#endif
