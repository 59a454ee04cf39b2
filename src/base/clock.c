#include <belay/base.h>

#include <math.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

#define SECONDS_MAX 3155760000ull /* 100 years of 365.25 days */
#define NS_MAX      (SECONDS_MAX * BL_NS_PER_S)

static uint64_t system_monotonic_ns(void *context BL_UNUSED)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * BL_NS_PER_S + (uint64_t)now.tv_nsec;
}

static int64_t system_wall_ns(void *context BL_UNUSED)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * (int64_t)BL_NS_PER_S + now.tv_nsec;
}

const struct bl_clock bl_clock_system = {
    .monotonic_ns = system_monotonic_ns,
    .wall_ns = system_wall_ns,
};

/* a / b rounded towards minus infinity; b > 0. */
static int64_t divide_down(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

struct date {
    unsigned year;
    unsigned month;
    unsigned day;
};

/* The Gregorian date of a day counted from 1970-01-01. Years are taken to begin in March, which
 * puts the leap day last, and are counted from the 400-year era that began in the year 0. */
static struct date date_from_days(int64_t days)
{
    const int64_t era_days = 146097;
    days += 719468;
    int64_t era = divide_down(days, era_days);
    unsigned day_of_era = (unsigned)(days - era * era_days);
    unsigned year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned march_month = (5 * day_of_year + 2) / 153;
    unsigned month = march_month < 10 ? march_month + 3 : march_month - 9;

    return (struct date){
        .year = (unsigned)(era * 400) + year_of_era + (month <= 2),
        .month = month,
        .day = day_of_year - (153 * march_month + 2) / 5 + 1,
    };
}

/* Writes `value` in `width` digits, then `end`. Returns the end of the output. */
static char *put_digits(char *out, unsigned value, unsigned width, char end)
{
    for (unsigned i = width; i-- > 0; value /= 10)
        out[i] = (char)('0' + value % 10);
    out[width] = end;
    return out + width + 1;
}

/* Rounds down to milliseconds, also before 1970. Every int64_t is in the years 1677 to 2262. */
void bl_time_format(int64_t wall_ns, char out[32])
{
    int64_t wall_ms = divide_down(wall_ns, (int64_t)BL_NS_PER_MS);
    int64_t days = divide_down(wall_ms, 86400000);
    unsigned ms_of_day = (unsigned)(wall_ms - days * 86400000);
    struct date date = date_from_days(days);

    out = put_digits(out, date.year, 4, '-');
    out = put_digits(out, date.month, 2, '-');
    out = put_digits(out, date.day, 2, 'T');
    out = put_digits(out, ms_of_day / 3600000, 2, ':');
    out = put_digits(out, ms_of_day / 60000 % 60, 2, ':');
    out = put_digits(out, ms_of_day / 1000 % 60, 2, '.');
    out = put_digits(out, ms_of_day % 1000, 3, 'Z');
    *out = '\0';
}

/* The inverse of date_from_days. */
static int64_t days_from_date(struct date date)
{
    unsigned year = date.year - (date.month <= 2);
    unsigned year_of_era = year % 400;
    unsigned march_month = date.month > 2 ? date.month - 3 : date.month + 9;
    unsigned day_of_year = (153 * march_month + 2) / 5 + date.day - 1;
    unsigned day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;

    return (int64_t)(year / 400) * 146097 + day_of_era - 719468;
}

/* Takes exactly `width` digits and then `end` off the front. */
static bool clock_take_digits(struct bl_text *text, unsigned width, char end, unsigned *ret_value)
{
    *ret_value = 0;
    if (text->size <= width || text->data[width] != end)
        return false;
    for (unsigned i = 0; i < width; i++) {
        if (text->data[i] < '0' || text->data[i] > '9')
            return false;
        *ret_value = *ret_value * 10 + (unsigned)(text->data[i] - '0');
    }
    *text = (struct bl_text){text->data + width + 1, text->size - width - 1};
    return true;
}

bool bl_time_parse(struct bl_text text, int64_t *ret_wall_ns)
{
    struct date date;
    unsigned hour, minute, second;
    int64_t fraction_ns = 0;

    if (!clock_take_digits(&text, 4, '-', &date.year) ||
        !clock_take_digits(&text, 2, '-', &date.month) ||
        !clock_take_digits(&text, 2, 'T', &date.day) || !clock_take_digits(&text, 2, ':', &hour) ||
        !clock_take_digits(&text, 2, ':', &minute))
        return false;
    if (!clock_take_digits(&text, 2, 'Z', &second)) {
        if (!clock_take_digits(&text, 2, '.', &second) || text.size < 2)
            return false;
        int64_t unit_ns = (int64_t)BL_NS_PER_S;
        for (size_t i = 0; i + 1 < text.size; i++) {
            if (text.data[i] < '0' || text.data[i] > '9')
                return false;
            unit_ns /= 10;
            fraction_ns += (text.data[i] - '0') * unit_ns;
        }
        if (text.data[text.size - 1] != 'Z')
            return false;
        text.size = 0;
    }
    /* The years whose days all fit into nanoseconds since 1970. A day that its month does not have
     * converts back to a different date. */
    if (text.size > 0 || date.year < 1678 || date.year > 2261 || date.month < 1 ||
        date.month > 12 || hour > 23 || minute > 59 || second > 59)
        return false;
    int64_t days = days_from_date(date);
    if (date_from_days(days).day != date.day)
        return false;
    int64_t seconds = days * 86400 + hour * 3600 + minute * 60 + second;
    *ret_wall_ns = seconds * (int64_t)BL_NS_PER_S + fraction_ns;
    return true;
}

/* Fails with `code`. The message quotes the start of the text in printable form. */
static int clock_refuse(struct bl_text text, int code, const char *why, struct bl_error *error)
{
    if (error == NULL || error->code != 0)
        return code;

    char shown[64];
    struct bl_text start = bl_utf8_cut(text, sizeof shown - 1);
    for (size_t i = 0; i < start.size; i++) {
        unsigned char byte = (unsigned char)start.data[i];
        shown[i] = byte < 0x20 || byte == 0x7F ? '?' : start.data[i];
    }
    shown[start.size] = '\0';

    bl_error_set(error, code, BL_KIND_USAGE, "duration", NULL, "\"%s%s\" %s", shown,
                 start.size < text.size ? "…" : "", why);
    bl_error_hint(error, "write a duration like 90, 90s, 500ms, 2.5m, 1h");
    return code;
}

/* True for "nan", "inf" and "infinity", in any case, with or without a sign. They get a separate
 * message, because they come from a computation. */
static bool names_no_finite(struct bl_text text)
{
    static const char *const names[] = {"nan", "inf", "infinity"};
    if (text.size > 0 && (text.data[0] == '-' || text.data[0] == '+'))
        text = (struct bl_text){text.data + 1, text.size - 1};
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        if (text.size == strlen(names[i]) && strncasecmp(text.data, names[i], text.size) == 0)
            return true;
    }
    return false;
}

/* Nanoseconds in a unit; an empty unit means seconds. 0 if there is no such unit. */
static uint64_t unit_ns(struct bl_text unit)
{
    if (unit.size == 0 || bl_text_equal(unit, BL_TEXT("s")))
        return BL_NS_PER_S;
    if (bl_text_equal(unit, BL_TEXT("ms")))
        return BL_NS_PER_MS;
    if (bl_text_equal(unit, BL_TEXT("m")))
        return 60 * BL_NS_PER_S;
    if (bl_text_equal(unit, BL_TEXT("h")))
        return 3600 * BL_NS_PER_S;
    return 0;
}

/* A decimal number without sign. */
struct decimal {
    uint64_t whole;             /* stops growing once it is out of range in every unit */
    unsigned __int128 fraction; /* over `divisor` */
    unsigned __int128 divisor;
    bool zero;
};

/* Takes digits, and a point between digits, from the front of `*rest`. Returns false if there are
 * none. Ignores decimals after the 24th: the product with the largest unit still fits 128 bits, and
 * they are below a millionth of a nanosecond. */
static bool decimal_take(struct bl_text *rest, struct decimal *ret_decimal)
{
    struct decimal decimal = {.divisor = 1, .zero = true};
    size_t i = 0, places = 0;
    for (; i < rest->size && rest->data[i] >= '0' && rest->data[i] <= '9'; i++) {
        if (decimal.whole <= SECONDS_MAX * 1000)
            decimal.whole = decimal.whole * 10 + (uint64_t)(rest->data[i] - '0');
    }
    if (i == 0)
        return false;
    decimal.zero = decimal.whole == 0;

    if (i < rest->size && rest->data[i] == '.') {
        size_t at = i + 1;
        for (; at < rest->size && rest->data[at] >= '0' && rest->data[at] <= '9'; at++, places++) {
            decimal.zero = decimal.zero && rest->data[at] == '0';
            if (places >= 24)
                continue;
            decimal.fraction = decimal.fraction * 10 + (unsigned)(rest->data[at] - '0');
            decimal.divisor *= 10;
        }
        if (places > 0)
            i = at;
    }
    *rest = (struct bl_text){rest->data + i, rest->size - i};
    *ret_decimal = decimal;
    return true;
}

int bl_duration_parse(struct bl_text text, int64_t *ret_ns, struct bl_error *error)
{
    if (names_no_finite(text))
        return clock_refuse(text, BL_ERANGE, "is not a finite duration", error);

    struct bl_text rest = text;
    bool negative = rest.size > 0 && rest.data[0] == '-';
    if (negative)
        rest = (struct bl_text){rest.data + 1, rest.size - 1};
    struct decimal decimal;
    if (!decimal_take(&rest, &decimal))
        return clock_refuse(text, BL_EPARSE, "is not a duration", error);
    uint64_t unit = unit_ns(rest);
    if (unit == 0)
        return clock_refuse(text, BL_EPARSE, "is not a duration", error);
    if (negative && decimal.zero)
        return clock_refuse(text, BL_ERANGE, "is a negative zero, which is not a duration", error);

    unsigned __int128 ns = (unsigned __int128)decimal.whole * unit;
    ns += (decimal.fraction * unit + decimal.divisor / 2) / decimal.divisor;
    if (ns > NS_MAX)
        return clock_refuse(text, BL_ERANGE, "is longer than 100 years", error);
    *ret_ns = negative ? -(int64_t)ns : (int64_t)ns;
    return 0;
}

int bl_duration_from_seconds(double seconds, int64_t *ret_ns, struct bl_error *error)
{
    const char *why = NULL;
    if (!isfinite(seconds))
        why = "is not a finite duration";
    else if (seconds == 0 && signbit(seconds))
        why = "is a negative zero, which is not a duration";
    else if (seconds > (double)SECONDS_MAX || seconds < -(double)SECONDS_MAX)
        why = "is longer than 100 years";
    if (why != NULL) {
        char shown[32];
        snprintf(shown, sizeof shown, "%.17g", seconds);
        return clock_refuse(bl_text_from(shown), BL_ERANGE, why, error);
    }

    /* Whole seconds and the rest are exact separately; together they would lose nanoseconds. */
    int64_t whole = (int64_t)seconds;
    double rest = (seconds - (double)whole) * (double)BL_NS_PER_S;
    *ret_ns = whole * (int64_t)BL_NS_PER_S + (int64_t)(rest < 0 ? rest - 0.5 : rest + 0.5);
    return 0;
}

/* Writes "4m 10s", or "4m" if the small part is zero. Any int64_t of nanoseconds is less than
 * 2^32 of the small unit here. */
static void format_pair(char out[32], const char *sign, uint64_t total, unsigned small_per_large,
                        const char names[2])
{
    unsigned large = (unsigned)total / small_per_large;
    unsigned small = (unsigned)total % small_per_large;
    if (small == 0)
        snprintf(out, 32, "%s%u%c", sign, large, names[0]);
    else
        snprintf(out, 32, "%s%u%c %u%c", sign, large, names[0], small, names[1]);
}

static uint64_t divide_near(uint64_t a, uint64_t b)
{
    return (a + b / 2) / b;
}

/* Rounds to a unit before it checks whether the unit fits, so that 999.9 ms is "1 s" and not
 * "1000 ms". */
void bl_duration_format(int64_t ns, char out[32])
{
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    const char *sign = ns < 0 ? "-" : "";
    unsigned tenths = (unsigned)divide_near(size % (60 * BL_NS_PER_S), BL_NS_PER_S / 10);

    if (size == 0)
        snprintf(out, 32, "0 s");
    else if (size < 1000)
        snprintf(out, 32, "%s%u ns", sign, (unsigned)size);
    else if (divide_near(size, BL_NS_PER_US) < 1000)
        snprintf(out, 32, "%s%u us", sign, (unsigned)divide_near(size, BL_NS_PER_US));
    else if (divide_near(size, BL_NS_PER_MS) < 1000)
        snprintf(out, 32, "%s%u ms", sign, (unsigned)divide_near(size, BL_NS_PER_MS));
    else if (size < 60 * BL_NS_PER_S && tenths < 600 && tenths % 10 != 0)
        snprintf(out, 32, "%s%u.%u s", sign, tenths / 10, tenths % 10);
    else if (size < 60 * BL_NS_PER_S && tenths < 600)
        snprintf(out, 32, "%s%u s", sign, tenths / 10);
    else if (divide_near(size, BL_NS_PER_S) < 3600)
        format_pair(out, sign, divide_near(size, BL_NS_PER_S), 60, "ms");
    else if (divide_near(size, 60 * BL_NS_PER_S) < 24 * 60)
        format_pair(out, sign, divide_near(size, 60 * BL_NS_PER_S), 60, "hm");
    else
        format_pair(out, sign, divide_near(size, 3600 * BL_NS_PER_S), 24, "dh");
}
