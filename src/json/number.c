/* Design notes.
 *
 * Reading: integers of 64 bits are exact. A double whose digits fit 64 bits is scaled by a 128-bit
 * power of ten. That power is off by less than one unit, so the product is within one unit of the
 * exact value, and the result is correct unless a rounding boundary is that close. The C library
 * reads the rest (boundaries, subnormals, more than 19 digits).
 *
 * Printing: Schubfach (R. Giulietti, "The Schubfach way to render doubles") finds the shortest of
 * the decimals that round to the double, and the nearest of these, from three products with a power
 * of ten. Reading and printing use the same table, which powers.py generates. */
#include "parts.h"

#include <assert.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

struct power {
    uint64_t high;
    uint64_t low;
};

#include "powers.h"

typedef unsigned __int128 uint128;

static const char digit_pairs[] = "0001020304050607080910111213141516171819"
                                  "2021222324252627282930313233343536373839"
                                  "4041424344454647484950515253545556575859"
                                  "6061626364656667686970717273747576777879"
                                  "8081828384858687888990919293949596979899";

/* The embedding program may have set LC_NUMERIC to a locale with a decimal comma. */
static pthread_once_t locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        bl_out_of_memory(sizeof c_locale);
}

static inline bool number_is_digit(char byte)
{
    return (unsigned char)(byte - '0') < 10;
}

/* floor(log2(10^k)), for every k of the table. */
static inline int log2_of_power(int k)
{
    return (k * 1741647) >> 19;
}

/* Computes mantissa × 10^exponent, correctly rounded. Returns false if 128 bits do not decide the
 * rounding. */
static bool scale_decimal(uint64_t mantissa, int exponent, double *ret_value)
{
    if (exponent < POWER_FIRST || exponent > 308)
        return false;
    const struct power *power = &powers[exponent - POWER_FIRST];
    int zeros = __builtin_clzll(mantissa);
    mantissa <<= zeros;
    /* The exact value is within one unit of `product`. */
    uint128 product = (uint128)mantissa * power->high;
    product += ((uint128)mantissa * power->low) >> 64;
    int shift = (int)(product >> 127) + 74;
    uint64_t bits = (uint64_t)(product >> shift);
    uint128 rest = product & (((uint128)1 << shift) - 1);
    uint128 half = (uint128)1 << (shift - 1);
    if (rest + 1 >= half && rest <= half + 1)
        return false;
    bits += rest > half;

    int binary_exponent = shift + 64 - zeros + log2_of_power(exponent) - 127;
    if (binary_exponent < -1074 || binary_exponent > 970)
        return false;
    /* The hidden bit and a carry from the rounding add to the exponent. */
    bits += (uint64_t)(binary_exponent + 1074) << 52;
    memcpy(ret_value, &bits, sizeof bits);
    return true;
}

/* Returns the decimal at `start` as a double, or infinity if it is too large. If `exact`,
 * `mantissa` holds all digits. */
static double decimal_to_double(const char *start, uint64_t mantissa, int64_t exponent, bool exact)
{
    static const double small_powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                          1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    bool negative = *start == '-';
    double value;

    if (exact && mantissa == 0)
        return negative ? -0.0 : 0.0;
    if (exact && mantissa <= 1ull << 53 && exponent >= -22 && exponent <= 22) {
        /* Both are exact doubles, so that one operation rounds once. */
        value = (double)mantissa;
        value = exponent < 0 ? value / small_powers[-exponent] : value * small_powers[exponent];
        return negative ? -value : value;
    }
    if (exact && exponent >= POWER_FIRST && exponent <= POWER_LAST &&
        scale_decimal(mantissa, (int)exponent, &value))
        return negative ? -value : value;
    pthread_once(&locale_once, make_c_locale);
    return strtod_l(start, NULL, c_locale);
}

/* Sets an integer of `count` digits at `digits`, whose value modulo 2^64 is `value`. Returns false
 * if it does not fit 64 bits, or is "-0", which only a double can hold. */
static bool set_integer(struct bl_json *node, bool negative, const char *digits, size_t count,
                        uint64_t value)
{
    if (count > 20)
        return false;
    if (count == 20) {
        /* The first 19 digits cannot overflow. */
        uint64_t first = 0;
        for (size_t i = 0; i < 19; i++)
            first = first * 10 + (uint64_t)(digits[i] - '0');
        if (__builtin_mul_overflow(first, 10u, &first) ||
            __builtin_add_overflow(first, (uint64_t)(digits[19] - '0'), &first))
            return false;
    }
    if (negative) {
        if (value == 0 || value > 1ull << 63)
            return false;
        node->type = BL_JSON_INTEGER;
        node->unsigned_integer = -value;
        return true;
    }
    node->type = value > INT64_MAX ? BL_JSON_UNSIGNED : BL_JSON_INTEGER;
    node->unsigned_integer = value;
    return true;
}

/* Reads 'e', sign and digits at `at` and adds them to `*exponent`, which stays within about ±2^32
 * for any number of digits. Returns the position after them, or NULL if the byte at `*ret_fault` is
 * not a digit. */
static char *read_exponent(char *at, int64_t *exponent, char **ret_fault)
{
    bool negative = *++at == '-';
    int64_t value = 0;

    if (*at == '-' || *at == '+')
        at++;
    if (!number_is_digit(*at)) {
        *ret_fault = at;
        return NULL;
    }
    for (; number_is_digit(*at); at++) {
        if (value < 100000000)
            value = value * 10 + (*at - '0');
    }
    *exponent += negative ? -value : value;
    return at;
}

/* Reads one or more digits at `at`. Returns the position after them, or NULL if there are none. */
static inline char *number_read_digits(char *at, uint64_t *mantissa)
{
    uint64_t value = *mantissa;

    if (!number_is_digit(*at))
        return NULL;
    do
        value = value * 10 + (uint64_t)(*at++ - '0');
    while (number_is_digit(*at));
    *mantissa = value;
    return at;
}

char *json_number_read(char *at, struct bl_json *node, char **ret_fault, const char **ret_expected)
{
    char *start = at;
    bool negative = *at == '-';
    char *digits = at += negative;
    uint64_t mantissa = 0;
    int64_t exponent = 0;

    *ret_expected = "a digit";
    *ret_fault = at;
    /* A leading zero ends the integer part: a digit after it is refused by what comes next. */
    at = *at == '0' ? at + 1 : number_read_digits(at, &mantissa);
    if (at == NULL)
        return NULL;
    size_t count = (size_t)(at - digits);
    bool integer = *at != '.' && (*at | 0x20) != 'e';
    if (integer && set_integer(node, negative, digits, count, mantissa))
        return at;
    if (*at == '.') {
        char *fraction = at + 1;
        *ret_fault = fraction;
        at = number_read_digits(fraction, &mantissa);
        if (at == NULL)
            return NULL;
        count += (size_t)(at - fraction);
        exponent = fraction - at;
        /* Leading zeros do not count: 0.00001234567890123456 has 16 digits. */
        if (count > 19 && *digits == '0') {
            count--;
            for (; count > 19 && *fraction == '0'; fraction++)
                count--;
        }
    }
    if ((*at | 0x20) == 'e') {
        at = read_exponent(at, &exponent, ret_fault);
        if (at == NULL)
            return NULL;
    }
    node->type = BL_JSON_DOUBLE;
    node->number = decimal_to_double(start, mantissa, exponent, count <= 19);
    if (isfinite(node->number))
        return at;
    *ret_fault = start;
    *ret_expected = "a number that fits a double";
    return NULL;
}

size_t json_unsigned_format(uint64_t value, char *out)
{
    char digits[20];
    char *at = digits + sizeof digits;

    while (value >= 100) {
        at -= 2;
        memcpy(at, &digit_pairs[value % 100 * 2], 2);
        value /= 100;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(at, &digit_pairs[value * 2], 2);
    } else {
        *--at = (char)('0' + value);
    }
    size_t size = (size_t)(digits + sizeof digits - at);
    memcpy(out, at, size);
    return size;
}

size_t json_integer_format(int64_t value, char *out)
{
    if (value >= 0)
        return json_unsigned_format((uint64_t)value, out);
    *out = '-';
    return 1 + json_unsigned_format(-(uint64_t)value, out + 1);
}

/* digits × 10^exponent */
struct decimal {
    uint64_t digits;
    int exponent;
};

/* Returns the upper 64 bits of factor × power. The lowest bit is set if the discarded part is
 * larger than the error of `power` explains: enough to compare with boundaries exactly. */
static inline uint64_t multiply_to_odd(const struct power *power, uint64_t factor)
{
    uint128 product =
        (uint128)power->high * factor + (uint64_t)(((uint128)power->low * factor) >> 64);

    return (uint64_t)(product >> 64) | ((uint64_t)product > 1);
}

/* Returns the shortest decimal between the boundaries of significand × 2^exponent, and the nearest
 * of these. `narrow`: the lower boundary is only half as far, as it is below a power of two. */
static struct decimal shortest(uint64_t significand, int exponent, bool narrow)
{
    uint64_t odd = significand & 1;
    /* floor(log10(2^exponent)), or of 3/4 of it. */
    int k = (exponent * 1262611 - (narrow ? 524031 : 0)) >> 22;
    int h = exponent + log2_of_power(-k) + 1;
    const struct power *power = &powers[-k - POWER_FIRST];

    /* Four times the value and its boundaries, all at scale 10^k. A boundary itself rounds to even.
     */
    uint64_t middle = significand << 2;
    uint64_t lower = multiply_to_odd(power, (middle - 2 + narrow) << h) + odd;
    uint64_t value = multiply_to_odd(power, middle << h);
    uint64_t upper = multiply_to_odd(power, (middle + 2) << h) - odd;
    uint64_t s = value / 4;

    if (s >= 10) {
        uint64_t tens = s / 10;
        bool down_fits = lower <= 40 * tens;
        bool up_fits = 40 * tens + 40 <= upper;
        if (down_fits != up_fits)
            return (struct decimal){tens + up_fits, k + 1};
    }
    bool down_fits = lower <= 4 * s;
    bool up_fits = 4 * s + 4 <= upper;
    if (down_fits != up_fits)
        return (struct decimal){s + up_fits, k};
    uint64_t tie = 4 * s + 2;
    bool up = value > tie || (value == tie && (s & 1) != 0);
    return (struct decimal){s + up, k};
}

/* Returns the shortest decimal of a positive finite double, without trailing zeros. */
static struct decimal double_to_decimal(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t fraction = bits & ((1ull << 52) - 1);
    int biased = (int)(bits >> 52 & 0x7ff);
    struct decimal result;

    if (value < 9007199254740992.0 && value == (double)(uint64_t)value)
        result = (struct decimal){(uint64_t)value, 0};
    else if (biased == 0)
        result = shortest(fraction, -1074, false);
    else
        result = shortest(fraction | 1ull << 52, biased - 1075, fraction == 0 && biased > 1);
    while (result.digits % 10 == 0) {
        result.digits /= 10;
        result.exponent++;
    }
    return result;
}

/* Writes "e+21" after the digits. */
static char *format_exponent(char *at, int exponent)
{
    *at++ = 'e';
    *at++ = exponent < 0 ? '-' : '+';
    return at + json_unsigned_format((uint64_t)(exponent < 0 ? -exponent : exponent), at);
}

size_t bl_json_format_double(double value, char out[32])
{
    char digits[32];
    char *at = out;

    assert(isfinite(value));
    if (value == 0) {
        *out = '0';
        return 1;
    }
    if (value < 0)
        *at++ = '-';
    struct decimal decimal = double_to_decimal(fabs(value));
    int count = (int)json_unsigned_format(decimal.digits, digits);
    int point = count + decimal.exponent; /* digits before the decimal point */
    if (point > 21 || point <= -6) {
        *at++ = digits[0];
        if (count > 1) {
            *at++ = '.';
            memcpy(at, digits + 1, (size_t)count - 1);
            at += count - 1;
        }
        at = format_exponent(at, point - 1);
    } else if (point <= 0) {
        memcpy(at, "0.00000", 7);
        at += 2 - point;
        memcpy(at, digits, (size_t)count);
        at += count;
    } else if (point >= count) {
        memcpy(at, digits, (size_t)count);
        memset(at + count, '0', (size_t)(point - count));
        at += point;
    } else {
        memcpy(at, digits, (size_t)point);
        at[point] = '.';
        memcpy(at + point + 1, digits + point, (size_t)(count - point));
        at += count + 1;
    }
    return (size_t)(at - out);
}

size_t json_double_format(double value, char out[32])
{
    if (value == 0 && signbit(value)) {
        memcpy(out, "-0.0", 4);
        return 4;
    }
    size_t size = bl_json_format_double(value, out);
    for (size_t i = 0; i < size; i++) {
        if (out[i] == '.' || out[i] == 'e')
            return size;
    }
    out[size] = '.';
    out[size + 1] = '0';
    return size + 2;
}
