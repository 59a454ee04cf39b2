#include "ring.h"

void ring_init(struct ring *ring, void *bytes, size_t capacity)
{
    ring->bytes = bytes;
    ring->capacity = capacity;
    ring->start = 0;
    ring->used = 0;
}

size_t ring_write(struct ring *ring, const void *data, size_t size)
{
    const unsigned char *from = data;
    size_t written = 0;

    while (written < size && ring->used < ring->capacity - 1) {
        ring->bytes[(ring->start + ring->used) % ring->capacity] = from[written++];
        ring->used++;
    }
    return written;
}

size_t ring_read(struct ring *ring, void *out, size_t size)
{
    unsigned char *to = out;
    size_t done = 0;

    while (done < size && ring->used > 0) {
        to[done++] = ring->bytes[ring->start++];
        if (ring->start > ring->capacity)
            ring->start = 0;
        ring->used--;
    }
    return done;
}
