#include <belay/base.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

static uint64_t random_rotate_left(uint64_t value, unsigned count)
{
    return value << count | value >> (64 - count);
}

/* One step of splitmix64: spreads a seed, even 0, over all bits of the state. */
static uint64_t spread(uint64_t *seed)
{
    uint64_t value = *seed += 0x9E3779B97F4A7C15ull;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ value >> 27) * 0x94D049BB133111EBull;
    return value ^ value >> 31;
}

void bl_random_seed(struct bl_random *random, uint64_t seed)
{
    for (size_t i = 0; i < BL_COUNT(random->state); i++)
        random->state[i] = spread(&seed);
}

/* xoshiro256**. */
uint64_t bl_random_next(struct bl_random *random)
{
    uint64_t *state = random->state;
    uint64_t result = random_rotate_left(state[1] * 5, 7) * 9;
    uint64_t shifted = state[1] << 17;

    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = random_rotate_left(state[3], 45);
    return result;
}

/* Returns the high half of a 64 × 64 bit product. Draws again if the low half is in the remainder
 * that would make some results more likely. */
uint64_t bl_random_below(struct bl_random *random, uint64_t limit)
{
    assert(limit > 0);
    uint64_t remainder = (0 - limit) % limit;
    for (;;) {
        unsigned __int128 product = (unsigned __int128)bl_random_next(random) * limit;
        if ((uint64_t)product >= remainder)
            return (uint64_t)(product >> 64);
    }
}

/* Without randomness no secret is safe, so a failure ends the process with a message. */
void bl_random_bytes(void *out, size_t size)
{
    char *next = out;
    while (size > 0) {
        ssize_t count = getrandom(next, size, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            dprintf(STDERR_FILENO, "belay: cannot get random bytes from the system: %s\n",
                    strerror(errno));
            abort();
        }
        next += count;
        size -= (size_t)count;
    }
}

void bl_id_make(char out[BL_ID_SIZE], const char *prefix)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char random[20];

    bl_random_bytes(random, sizeof random);
    bl_text_into(out, BL_ID_SIZE - sizeof random, prefix);
    size_t size = strlen(out);
    for (size_t i = 0; i < sizeof random; i++)
        out[size++] = digits[random[i] % 32];
    out[size] = '\0';
}
