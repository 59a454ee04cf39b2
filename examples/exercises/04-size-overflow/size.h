/* Sizes as people write them. */
#ifndef SIZE_H
#define SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* Digits, then K, M, G or T (powers of 1024) or nothing. False, and nothing is set: it is not a size,
 * or one of more than 64 bits. */
bool parse_size(const char *text, uint64_t *ret_size);

#endif
