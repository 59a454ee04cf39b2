#include <belay/base.h>

#define BLOCK_SIZE  64u
#define LENGTH_SIZE 8u /* of the message, in bits, at the end of the last block */

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotate(uint32_t word, unsigned by)
{
    return word >> by | word << (32 - by);
}

static inline uint32_t sha256_load(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline void sha256_save(uint8_t *at, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(word >> (24 - 8 * i));
}

/* Expands a block into the 64 words of its schedule: its own 16, then 48 computed from them. */
static void sha256_expand(const uint8_t *block, uint32_t words[64])
{
    for (int i = 0; i < 16; i++)
        words[i] = sha256_load(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t near = words[i - 2], far = words[i - 15];
        near = rotate(near, 17) ^ rotate(near, 19) ^ near >> 10;
        far = rotate(far, 7) ^ rotate(far, 18) ^ far >> 3;
        words[i] = words[i - 16] + far + words[i - 7] + near;
    }
}

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t words[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

    sha256_expand(block, words);
    for (int i = 0; i < 64; i++) {
        uint32_t first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) +
                         round_constants[i] + words[i];
        uint32_t second =
            (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + second;
    }
    const uint32_t after[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += after[i];
}

void bl_sha256_init(struct bl_sha256 *hash)
{
    *hash = (struct bl_sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                  0x1f83d9ab, 0x5be0cd19},
    };
}

void bl_sha256_add(struct bl_sha256 *hash, struct bl_text bytes)
{
    const uint8_t *at = (const uint8_t *)bytes.data;
    size_t left = bytes.size;
    size_t filled = hash->size % BLOCK_SIZE;

    hash->size += left;
    if (filled > 0) {
        size_t part = left < BLOCK_SIZE - filled ? left : BLOCK_SIZE - filled;
        if (part > 0)
            memcpy(hash->block + filled, at, part);
        if (filled + part < BLOCK_SIZE)
            return;
        compress(hash->state, hash->block);
        at += part;
        left -= part;
    }
    for (; left >= BLOCK_SIZE; at += BLOCK_SIZE, left -= BLOCK_SIZE)
        compress(hash->state, at);
    if (left > 0)
        memcpy(hash->block, at, left);
}

void bl_sha256_end(struct bl_sha256 *hash, uint8_t out[32])
{
    uint64_t bits = hash->size * 8;
    size_t filled = hash->size % BLOCK_SIZE;

    hash->block[filled++] = 0x80;
    if (filled > BLOCK_SIZE - LENGTH_SIZE) {
        memset(hash->block + filled, 0, BLOCK_SIZE - filled);
        compress(hash->state, hash->block);
        filled = 0;
    }
    memset(hash->block + filled, 0, BLOCK_SIZE - LENGTH_SIZE - filled);
    sha256_save(hash->block + BLOCK_SIZE - LENGTH_SIZE, (uint32_t)(bits >> 32));
    sha256_save(hash->block + BLOCK_SIZE - LENGTH_SIZE / 2, (uint32_t)bits);
    compress(hash->state, hash->block);
    for (int i = 0; i < 8; i++)
        sha256_save(out + 4 * i, hash->state[i]);
}
