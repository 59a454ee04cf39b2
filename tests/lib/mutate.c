#include "mutate.h"

#include <string.h>

void mutate(struct bl_random *random, struct bl_text bytes, struct bl_buffer *text)
{
    for (uint64_t count = bl_random_below(random, 5); count > 0 && text->size > 0; count--) {
        size_t at = bl_random_below(random, text->size);
        size_t size = 1 + bl_random_below(random, 8);
        size = size < text->size - at ? size : text->size - at;
        switch (bl_random_below(random, 5)) {
        case 0: text->data[at] = bytes.data[bl_random_below(random, bytes.size)]; break;
        case 1: text->data[at] = (char)(text->data[at] ^ (1 << bl_random_below(random, 8))); break;
        case 2:
            memmove(text->data + at, text->data + at + size, text->size - at - size);
            text->size -= size;
            break;
        case 3: text->size = at; break;
        default: {
            char copy[8];
            memcpy(copy, text->data + at, size);
            bl_buffer_append(text, (struct bl_text){copy, size});
        }
        }
    }
}
