#include "suite.h"

/* The state is the published first outputs of splitmix64 for seed 0. */
static void a_seed_is_spread_over_the_state(void **state BL_UNUSED)
{
    struct bl_random random;
    bl_random_seed(&random, 0);
    assert_true(random.state[0] == 0xE220A8397B1DCDAF);
    assert_true(random.state[1] == 0x6E789E6AA1B965F4);
    assert_true(random.state[2] == 0x06C45D188009454F);
    assert_true(random.state[3] == 0xF88BB8A8724C81EC);
    assert_true(bl_random_next(&random) == 0x99EC5F36CB75F2B4);
}

static void the_first_numbers_are_those_of_xoshiro256(void **state BL_UNUSED)
{
    static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240};
    struct bl_random random = {{1, 2, 3, 4}};
    for (size_t i = 0; i < BL_COUNT(expected); i++)
        assert_true(bl_random_next(&random) == expected[i]);
}

static void the_same_seed_gives_the_same_sequence(void **state BL_UNUSED)
{
    struct bl_random a, b, c;
    bl_random_seed(&a, 42);
    bl_random_seed(&b, 42);
    bl_random_seed(&c, 43);
    int same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t value = bl_random_next(&a);
        assert_true(value == bl_random_next(&b));
        same += value == bl_random_next(&c);
    }
    assert_int_equal(same, 0);
}

static void below_stays_below_and_reaches_everything(void **state BL_UNUSED)
{
    struct bl_random random;
    unsigned counts[7] = {0};
    bl_random_seed(&random, 1);
    for (int i = 0; i < 70000; i++)
        counts[bl_random_below(&random, 7)]++;
    for (size_t i = 0; i < 7; i++)
        assert_in_range(counts[i], 9500, 10500);
    for (int i = 0; i < 100; i++)
        assert_int_equal(bl_random_below(&random, 1), 0);
}

/* With a limit of three quarters of the range, a plain remainder would favour the lowest third, and
 * a plain product every third number. */
static void below_is_not_biased_for_large_limits(void **state BL_UNUSED)
{
    struct bl_random random;
    const uint64_t limit = 3ull << 62;
    unsigned thirds[3] = {0}, remainders[3] = {0};
    bl_random_seed(&random, 2);
    for (int i = 0; i < 30000; i++) {
        uint64_t value = bl_random_below(&random, limit);
        assert_true(value < limit);
        thirds[value >> 62]++;
        remainders[value % 3]++;
    }
    for (size_t i = 0; i < 3; i++) {
        assert_in_range(thirds[i], 9500, 10500);
        assert_in_range(remainders[i], 9500, 10500);
    }
    assert_true(bl_random_below(&random, UINT64_MAX) < UINT64_MAX);
}

static void system_bytes_fill_exactly_the_requested_range(void **state BL_UNUSED)
{
    unsigned char bytes[1026] = {0};
    unsigned seen[256] = {0};
    size_t different = 0;
    bl_random_bytes(bytes + 1, 1024);
    assert_int_equal(bytes[0], 0);
    assert_int_equal(bytes[1025], 0);
    for (size_t i = 1; i < 1025; i++)
        different += seen[bytes[i]]++ == 0;
    assert_true(different > 200);
    bl_random_bytes(bytes, 0);
    assert_int_equal(bytes[0], 0);
}

static void ids_have_their_prefix_and_are_unique(void **state BL_UNUSED)
{
    char a[BL_ID_SIZE], b[BL_ID_SIZE];
    bl_id_make(a, "turn_");
    bl_id_make(b, "turn_");
    assert_int_equal(strlen(a), 25);
    assert_memory_equal(a, "turn_", 5);
    assert_int_equal(strspn(a + 5, "abcdefghijklmnopqrstuvwxyz234567"), 20);
    assert_string_not_equal(a, b);
    bl_id_make(a, "a prefix that is too long");
    assert_int_equal(strlen(a), BL_ID_SIZE - 1);
}

SUITE(random, cmocka_unit_test(a_seed_is_spread_over_the_state),
      cmocka_unit_test(the_first_numbers_are_those_of_xoshiro256),
      cmocka_unit_test(the_same_seed_gives_the_same_sequence),
      cmocka_unit_test(below_stays_below_and_reaches_everything),
      cmocka_unit_test(below_is_not_biased_for_large_limits),
      cmocka_unit_test(system_bytes_fill_exactly_the_requested_range),
      cmocka_unit_test(ids_have_their_prefix_and_are_unique));
