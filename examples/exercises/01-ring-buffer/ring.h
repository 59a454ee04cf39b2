/* A queue of bytes in memory of a fixed size, which the caller owns. */
#ifndef RING_H
#define RING_H

#include <stddef.h>

struct ring {
    unsigned char *bytes;
    size_t capacity;
    size_t start; /* the oldest byte */
    size_t used;
};

void ring_init(struct ring *ring, void *bytes, size_t capacity);
/* Takes what fits, and says how much that was. */
size_t ring_write(struct ring *ring, const void *data, size_t size);
/* Gives the oldest bytes, and says how many there were. */
size_t ring_read(struct ring *ring, void *out, size_t size);

#endif
