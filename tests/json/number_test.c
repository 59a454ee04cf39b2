#include "suite.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <belay/json.h>

static double from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static struct bl_json read_number(const char *text)
{
    struct bl_arena arena;
    const struct bl_json *value;

    bl_arena_init(&arena);
    int result = bl_json_read(&arena, bl_text_from(text), NULL, &value, NULL);
    if (result != 0)
        fail_msg("refused: %s", text);
    struct bl_json number = *value;
    bl_arena_done(&arena);
    return number;
}

static void format(double value, char out[33])
{
    size_t size = bl_json_format_double(value, out);
    assert_true(size <= 25);
    out[size] = '\0';
}

static void assert_formats(uint64_t bits, const char *text)
{
    char out[33];
    format(from_bits(bits), out);
    assert_string_equal(out, text);
}

static void assert_double(const char *text, double value)
{
    struct bl_json number = read_number(text);
    assert_int_equal(number.type, BL_JSON_DOUBLE);
    if (to_bits(number.number) != to_bits(value))
        fail_msg("%s: %.17g, not %.17g", text, number.number, value);
}

static void prints_the_samples_of_rfc_8785(void **state BL_UNUSED)
{
    static const struct {
        uint64_t bits;
        const char *text;
    } samples[] = {
        {0x0000000000000000, "0"},
        {0x8000000000000000, "0"},
        {0x0000000000000001, "5e-324"},
        {0x8000000000000001, "-5e-324"},
        {0x7fefffffffffffff, "1.7976931348623157e+308"},
        {0xffefffffffffffff, "-1.7976931348623157e+308"},
        {0x4340000000000000, "9007199254740992"},
        {0xc340000000000000, "-9007199254740992"},
        {0x4430000000000000, "295147905179352830000"},
        {0x44b52d02c7e14af5, "9.999999999999997e+22"},
        {0x44b52d02c7e14af6, "1e+23"},
        {0x44b52d02c7e14af7, "1.0000000000000001e+23"},
        {0x444b1ae4d6e2ef4e, "999999999999999700000"},
        {0x444b1ae4d6e2ef4f, "999999999999999900000"},
        {0x444b1ae4d6e2ef50, "1e+21"},
        {0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
        {0x3eb0c6f7a0b5ed8d, "0.000001"},
        {0x41b3de4355555553, "333333333.3333332"},
        {0x41b3de4355555554, "333333333.33333325"},
        {0x41b3de4355555555, "333333333.3333333"},
        {0x41b3de4355555556, "333333333.3333334"},
        {0x41b3de4355555557, "333333333.33333343"},
        {0xbecbf647612f3696, "-0.0000033333333333333333"},
        {0x43143ff3c1cb0959, "1424953923781206.2"},
    };

    for (size_t i = 0; i < BL_COUNT(samples); i++)
        assert_formats(samples[i].bits, samples[i].text);
}

static void prints_as_ecmascript_does(void **state BL_UNUSED)
{
    static const struct {
        double value;
        const char *text;
    } samples[] = {
        {1, "1"},
        {-1.5, "-1.5"},
        {100, "100"},
        {1e20, "100000000000000000000"},
        {123456789012345680000.0, "123456789012345680000"},
        {1.5e21, "1.5e+21"},
        {0.1, "0.1"},
        {0.00001, "0.00001"},
        {1e-7, "1e-7"},
        {1.25e-9, "1.25e-9"},
        {4.5, "4.5"},
        {2e-3, "0.002"},
        {1e-27, "1e-27"},
        {4.50, "4.5"},
        {333333333.33333329, "333333333.3333333"},
        {1e30, "1e+30"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {2.225073858507201e-308, "2.225073858507201e-308"},
        {9.5367431640625e-7, "9.5367431640625e-7"},
        {5e-324, "5e-324"},
        {2e-323, "2e-323"},
    };

    for (size_t i = 0; i < BL_COUNT(samples); i++)
        assert_formats(to_bits(samples[i].value), samples[i].text);
}

/* Counts the significant digits of a printed number. */
static int count_digits(const char *text)
{
    int count = 0, zeros = 0;

    for (; *text != '\0' && *text != 'e'; text++) {
        if (*text < '0' || *text > '9' || (count == 0 && *text == '0'))
            continue;
        count++;
        zeros = *text == '0' ? zeros + 1 : 0;
    }
    return count - zeros;
}

static void check_double(double value)
{
    char out[33], other[40];

    format(value, out);
    if (to_bits(strtod(out, NULL)) != to_bits(value) && value != 0)
        fail_msg("%.17g is printed as %s", value, out);
    int digits = count_digits(out);
    for (int precision = 1; precision < 18; precision += precision < 14 ? 13 : 1) {
        if (precision < digits) {
            snprintf(other, sizeof other, "%.*e", precision - 1, value);
            if (strtod(other, NULL) == value)
                fail_msg("%s is shorter than %s", other, out);
        } else if (precision == digits) {
            /* The nearest of the shortest: printf rounds the exact value to that many digits. */
            snprintf(other, sizeof other, "%.*e", precision - 1, value);
            if (strtod(other, NULL) == value && strtod(other, NULL) != strtod(out, NULL))
                fail_msg("%s is nearer than %s", other, out);
        }
    }
    if (strpbrk(out, ".e") != NULL)
        assert_double(out, value);
}

static void random_doubles_print_shortest_and_read_back(void **state BL_UNUSED)
{
    struct bl_random random;
    unsigned long rounds = suite_rounds(200000, 10000000) / (SUITE_SANITIZED ? 4 : 1);

    bl_random_seed(&random, 8785);
    for (unsigned long i = 0; i < rounds; i++) {
        uint64_t bits = bl_random_next(&random);
        /* Half of them have sizes that people use. */
        if (i % 2 == 0)
            bits = (bits & ~(0x7ffull << 52)) | (uint64_t)(1023 - 60 + bits % 120) << 52;
        if (isfinite(from_bits(bits)))
            check_double(from_bits(bits));
    }
}

static void powers_of_two_and_their_neighbours_print_shortest(void **state BL_UNUSED)
{
    for (uint64_t exponent = 0; exponent < 2047; exponent++) {
        check_double(from_bits(exponent << 52));
        check_double(from_bits((exponent << 52) + 1));
        check_double(from_bits((exponent << 52) + (1ull << 52) - 1));
    }
    for (int i = 0; i < 52; i++)
        check_double(from_bits(1ull << i));
}

static void decimals_of_any_length_read_as_the_c_library_does(void **state BL_UNUSED)
{
    struct bl_random random;
    unsigned long rounds = suite_rounds(200000, 10000000) / (SUITE_SANITIZED ? 4 : 1);

    bl_random_seed(&random, 53);
    for (unsigned long i = 0; i < rounds; i++) {
        char text[80];
        int size = 0, before = 1 + (int)bl_random_below(&random, 20);
        int after = 1 + (int)bl_random_below(&random, 22);
        bool zero = bl_random_below(&random, 4) == 0;
        if (zero)
            before = 1;
        for (int j = 0; j < before; j++)
            text[size++] = zero ? '0' : (char)('1' + bl_random_below(&random, 9));
        text[size++] = '.';
        for (int j = 0; j < after; j++)
            text[size++] = zero && j < 6 ? '0' : (char)('0' + bl_random_below(&random, 10));
        snprintf(text + size, sizeof text - (size_t)size, "e%d",
                 (int)bl_random_below(&random, 640) - 345);
        double expected = strtod(text, NULL);
        if (isfinite(expected))
            assert_double(text, expected);
    }
}

static void halfway_cases_round_to_even(void **state BL_UNUSED)
{
    assert_double("9007199254740993.0", 9007199254740992.0);
    assert_double("9007199254740993.00000000000000000000000000000000000001", 9007199254740994.0);
    assert_double("9007199254740995e0", 9007199254740996.0);
    assert_double("2.2250738585072011e-308", 2.2250738585072011e-308);
    assert_double("2.4703282292062327e-324", 0.0);
    assert_double("2.4703282292062328e-324", 5e-324);
    assert_double("1e23", 1e23);
    assert_double("8.5e22", 8.5e22);
    assert_double("1.7976931348623158e308", 1.7976931348623157e308);
}

static void integers_of_64_bits_are_exact(void **state BL_UNUSED)
{
    struct bl_json number = read_number("9223372036854775807");
    assert_int_equal(number.type, BL_JSON_INTEGER);
    assert_true(number.integer == INT64_MAX);
    number = read_number("-9223372036854775808");
    assert_int_equal(number.type, BL_JSON_INTEGER);
    assert_true(number.integer == INT64_MIN);
    number = read_number("9223372036854775808");
    assert_int_equal(number.type, BL_JSON_UNSIGNED);
    assert_true(number.unsigned_integer == 1ull << 63);
    number = read_number("18446744073709551615");
    assert_int_equal(number.type, BL_JSON_UNSIGNED);
    assert_true(number.unsigned_integer == UINT64_MAX);
    number = read_number("10000000000000000000");
    assert_int_equal(number.type, BL_JSON_UNSIGNED);
    assert_true(number.unsigned_integer == 10000000000000000000ull);
    number = read_number("0");
    assert_int_equal(number.type, BL_JSON_INTEGER);
    assert_true(number.integer == 0);
    assert_double("18446744073709551616", 18446744073709551616.0);
    assert_double("-9223372036854775809", -9223372036854775808.0);
    assert_double("99999999999999999999", 1e20);
    assert_double("100000000000000000000", 1e20);
    assert_double("-0", -0.0);
    assert_double("-0.0", -0.0);
    assert_double("0e5", 0.0);
    assert_double("1E2", 100.0);
    assert_double("1e+2", 100.0);
}

static void refuses_invalid_json_numbers(void **state BL_UNUSED)
{
    static const struct {
        const char *text;
        size_t offset;
        const char *expected;
    } samples[] = {
        {"+1", 0, "a value"},
        {"-", 1, "a digit"},
        {"-x", 1, "a digit"},
        {"01", 1, "the end"},
        {"-01", 2, "the end"},
        {"1.", 2, "a digit"},
        {"1.e3", 2, "a digit"},
        {".5", 0, "a value"},
        {"1e", 2, "a digit"},
        {"1e+", 3, "a digit"},
        {"1.5E-x", 5, "a digit"},
        {"0x10", 1, "the end"},
        {"NaN", 0, "a value"},
        {"-Infinity", 1, "a digit"},
        {"1e309", 0, "a number that fits a double"},
        {"-1e99999999999999999999", 0, "a number that fits a double"},
        {"1.7976931348623159e308", 0, "a number that fits a double"},
    };
    struct bl_arena arena;
    const struct bl_json *value;
    struct bl_json_fault fault;

    bl_arena_init(&arena);
    for (size_t i = 0; i < BL_COUNT(samples); i++) {
        assert_int_equal(bl_json_read(&arena, bl_text_from(samples[i].text), NULL, &value, &fault),
                         BL_EPARSE);
        assert_int_equal(fault.offset, samples[i].offset);
        assert_string_equal(fault.expected, samples[i].expected);
    }
    bl_arena_done(&arena);
}

static void numbers_with_thousands_of_digits_work(void **state BL_UNUSED)
{
    enum {
        COUNT = 20000
    };
    char *text = bl_alloc(COUNT + 32);

    memset(text, '3', COUNT);
    text[1] = '.';
    memcpy(text + COUNT, "e10", 4);
    assert_double(text, 33333333333.333333333333);
    memset(text, '0', COUNT);
    text[0] = '1';
    memcpy(text + COUNT, "e-19999", 8);
    assert_double(text, 1.0);
    memset(text, '0', COUNT);
    memcpy(text, "0.", 2);
    memcpy(text + COUNT, "125e19998", 10);
    assert_double(text, 0.125);
    memcpy(text, "1e", 2);
    text[COUNT] = '\0';
    assert_double(text, 1.0);
    bl_free(text);
}

static void the_locale_of_the_program_does_not_matter(void **state BL_UNUSED)
{
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    const char *set = NULL;

    for (size_t i = 0; i < BL_COUNT(commas) && set == NULL; i++)
        set = setlocale(LC_NUMERIC, commas[i]);
    if (set == NULL)
        print_message("no locale with a decimal comma is installed\n");
    assert_double("0.3333333333333333333333333333333", 1.0 / 3);
    char out[33];
    format(1.5, out);
    assert_string_equal(out, "1.5");
    setlocale(LC_NUMERIC, "C");
}

SUITE(number, cmocka_unit_test(prints_the_samples_of_rfc_8785),
      cmocka_unit_test(prints_as_ecmascript_does),
      cmocka_unit_test(random_doubles_print_shortest_and_read_back),
      cmocka_unit_test(powers_of_two_and_their_neighbours_print_shortest),
      cmocka_unit_test(decimals_of_any_length_read_as_the_c_library_does),
      cmocka_unit_test(halfway_cases_round_to_even),
      cmocka_unit_test(integers_of_64_bits_are_exact),
      cmocka_unit_test(refuses_invalid_json_numbers),
      cmocka_unit_test(numbers_with_thousands_of_digits_work),
      cmocka_unit_test(the_locale_of_the_program_does_not_matter));
