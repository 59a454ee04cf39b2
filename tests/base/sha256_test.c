#include "suite.h"

#include <stdio.h>

static void hex_of(struct bl_sha256 *hash, char out[65])
{
    uint8_t digest[32];

    bl_sha256_end(hash, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

static void assert_digest(struct bl_text bytes, const char *expected)
{
    struct bl_sha256 hash;
    char hex[65];

    bl_sha256_init(&hash);
    bl_sha256_add(&hash, bytes);
    hex_of(&hash, hex);
    assert_string_equal(hex, expected);
}

/* The examples that NIST published for FIPS 180-4. */
static void digests_the_samples_of_the_standard(void **state BL_UNUSED)
{
    assert_digest(BL_TEXT("abc"),
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_digest((struct bl_text){0},
                  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest(BL_TEXT("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_digest(BL_TEXT("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
                          "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
                  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    assert_digest(BL_TEXT("\xbd"),
                  "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
    assert_digest(BL_TEXT("\xc9\x8c\x8e\x55"),
                  "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504");
}

/* Numbers of zeros around the point at which the length no longer fits the last block. */
static void digests_zeros_around_the_end_of_a_block(void **state BL_UNUSED)
{
    static const char zeros[1000];

    assert_digest((struct bl_text){zeros, 55},
                  "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
    assert_digest((struct bl_text){zeros, 56},
                  "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
    assert_digest((struct bl_text){zeros, 57},
                  "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785");
    assert_digest((struct bl_text){zeros, 64},
                  "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
    assert_digest((struct bl_text){zeros, 1000},
                  "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53");
}

static void digests_one_million_times_the_letter_a(void **state BL_UNUSED)
{
    static char letters[1000];
    struct bl_sha256 hash;
    char hex[65];

    memset(letters, 'a', sizeof letters);
    bl_sha256_init(&hash);
    for (int i = 0; i < 1000; i++)
        bl_sha256_add(&hash, (struct bl_text){letters, sizeof letters});
    hex_of(&hash, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void the_digest_does_not_depend_on_the_pieces(void **state BL_UNUSED)
{
    struct bl_random random;
    char bytes[300], whole[65], pieces[65];
    struct bl_sha256 hash;

    bl_random_seed(&random, 180);
    for (unsigned long round = 0; round < suite_rounds(500, 50000); round++) {
        size_t size = bl_random_below(&random, sizeof bytes + 1);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)bl_random_next(&random);
        bl_sha256_init(&hash);
        bl_sha256_add(&hash, (struct bl_text){bytes, size});
        hex_of(&hash, whole);
        bl_sha256_init(&hash);
        for (size_t at = 0; at < size;) {
            size_t piece = bl_random_below(&random, size - at + 1);
            bl_sha256_add(&hash, (struct bl_text){bytes + at, piece});
            at += piece;
        }
        hex_of(&hash, pieces);
        assert_string_equal(pieces, whole);
    }
}

SUITE(sha256, cmocka_unit_test(digests_the_samples_of_the_standard),
      cmocka_unit_test(digests_zeros_around_the_end_of_a_block),
      cmocka_unit_test(digests_one_million_times_the_letter_a),
      cmocka_unit_test(the_digest_does_not_depend_on_the_pieces));
