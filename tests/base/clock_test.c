#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#define YEARS_100_NS 3155760000000000000

static void the_system_clock_does_not_go_back(void **state BL_UNUSED)
{
    uint64_t before = bl_clock_now_ns(&bl_clock_system);
    for (int i = 0; i < 1000; i++) {
        uint64_t now = bl_clock_now_ns(&bl_clock_system);
        assert_true(now >= before);
        before = now;
    }
    int64_t wall_s = bl_clock_wall_ns(&bl_clock_system) / (int64_t)BL_NS_PER_S;
    assert_in_range(wall_s, time(NULL) - 2, time(NULL) + 2);
}

static void times_add_up_to_never_instead_of_wrapping(void **state BL_UNUSED)
{
    assert_true(bl_time_add(1, 2) == 3);
    assert_true(bl_time_add(BL_NEVER, 0) == BL_NEVER);
    assert_true(bl_time_add(BL_NEVER, 1) == BL_NEVER);
    assert_true(bl_time_add(5, BL_NEVER) == BL_NEVER);
    assert_true(bl_time_add(BL_NEVER - 5, 5) == BL_NEVER);
    assert_true(bl_time_add(BL_NEVER - 5, 4) == BL_NEVER - 1);
}

static void times_are_written_in_utc_to_the_millisecond(void **state BL_UNUSED)
{
    static const struct {
        int64_t wall_ns;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {999999, "1970-01-01T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {-1000000, "1969-12-31T23:59:59.999Z"},
        {-1000001, "1969-12-31T23:59:59.998Z"},
        {951782400000000000, "2000-02-29T00:00:00.000Z"},
        {4107542399999999999, "2100-02-28T23:59:59.999Z"},
        {4107542400000000000, "2100-03-01T00:00:00.000Z"},
        {INT64_MAX, "2262-04-11T23:47:16.854Z"},
        {INT64_MIN, "1677-09-21T00:12:43.145Z"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char out[32];
        bl_time_format(cases[i].wall_ns, out);
        assert_string_equal(out, cases[i].text);
    }
}

static void times_are_read_as_they_were_written(void **state BL_UNUSED)
{
    static const struct {
        const char *text;
        int64_t wall_ns;
    } times[] = {
        {"1678-01-01T00:00:00Z", -9214560000000000000},
        {"1969-12-31T23:59:59.999Z", -1000000},
        {"1970-01-01T00:00:00Z", 0},
        {"2000-02-29T00:00:00.000Z", 951782400000000000},
        {"2100-02-28T23:59:59.999999999Z", 4107542399999999999},
        {"2100-03-01T00:00:00.0000000009Z", 4107542400000000000},
        {"2261-12-31T23:59:59Z", 9214646399000000000},
    };
    static const char *const others[] = {
        "",
        "2026",
        "2026-11-15",
        "2026-11-15T18:50:07",
        "2026-11-15T18:50:07.Z",
        "2026-11-15T18:50:07.1",
        "2026-11-15T18:50:07.1xZ",
        "2026-11-15T18:50:07Z ",
        "2026-11-15 18:50:07Z",
        "2026-11-15T18:50:07+00:00",
        "1677-12-31T23:59:59Z",
        "2262-01-01T00:00:00Z",
        "2026-00-15T18:50:07Z",
        "2026-13-15T18:50:07Z",
        "2026-11-00T18:50:07Z",
        "2026-11-31T18:50:07Z",
        "2025-02-29T18:50:07Z",
        "2026-11-15T24:00:00Z",
        "2026-11-15T18:60:07Z",
        "2026-11-15T18:50:60Z",
        "2026-11-15T18:5a:07Z",
        "+026-11-15T18:50:07Z",
    };
    int64_t wall_ns;

    for (size_t i = 0; i < BL_COUNT(times); i++) {
        assert_true(bl_time_parse(bl_text_from(times[i].text), &wall_ns));
        assert_int_equal(wall_ns, times[i].wall_ns);
    }
    for (size_t i = 0; i < BL_COUNT(others); i++)
        suite_fail_if(bl_time_parse(bl_text_from(others[i]), &wall_ns), "read: %s", others[i]);
}

static void every_time_survives_writing_and_reading(void **state BL_UNUSED)
{
    struct bl_random random;
    bl_random_seed(&random, 7);
    for (unsigned long i = 0; i < suite_rounds(20000, 1000000); i++) {
        int64_t wall_ns,
            wall_ms = (int64_t)bl_random_below(&random, 18429206400000u) - 9214560000000;
        char text[32];
        bl_time_format(wall_ms * (int64_t)BL_NS_PER_MS, text);
        assert_true(bl_time_parse(bl_text_from(text), &wall_ns));
        assert_int_equal(wall_ns, wall_ms * (int64_t)BL_NS_PER_MS);
    }
}

static void dates_agree_with_the_c_library(void **state BL_UNUSED)
{
    struct bl_random random;
    bl_random_seed(&random, 6);
    for (unsigned long i = 0; i < suite_rounds(50000, 1000000); i++) {
        int64_t wall_ns = (int64_t)bl_random_next(&random);
        int64_t wall_ms = wall_ns / 1000000 - (wall_ns % 1000000 < 0);
        time_t seconds = wall_ms / 1000 - (wall_ms % 1000 < 0);
        struct tm parts;
        char expected[64], date[32], out[32];
        gmtime_r(&seconds, &parts);
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
        snprintf(expected, sizeof expected, "%s.%03dZ", date,
                 (int)(wall_ms - (int64_t)seconds * 1000));
        bl_time_format(wall_ns, out);
        assert_string_equal(out, expected);
    }
}

static void durations_are_read_exactly(void **state BL_UNUSED)
{
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"0", 0},
        {"0s", 0},
        {"0.0h", 0},
        {"90", 90000000000},
        {"90s", 90000000000},
        {"500ms", 500000000},
        {"2.5m", 150000000000},
        {"1h", 3600000000000},
        {"-5", -5000000000},
        {"-1.5ms", -1500000},
        {"007", 7000000000},
        {"0.1", 100000000},
        {"0.3", 300000000},
        {"1.000000001", 1000000001},
        {"0.0000000004", 0},
        {"0.0000000005", 1},
        {"0.00000000049999999999999999999999999", 0},
        {"-0.0000000005", -1},
        {"-0.0000000001", 0},
        {"0.000001ms", 1},
        {"0.0000004ms", 0},
        {"3155760000", YEARS_100_NS},
        {"-3155760000s", -YEARS_100_NS},
        {"3155760000000ms", YEARS_100_NS},
        {"52596000m", YEARS_100_NS},
        {"876600h", YEARS_100_NS},
        {"3155759999.999999999", YEARS_100_NS - 1},
        {"0000000000000000000000000000000000001s", 1000000000},
        {"0.9999999999999999999999999999999999999999999999h", 3600000000000},
        {"1.0000000000000000000000000000000000000000000000000001s", 1000000000},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_error error = {0};
        int64_t ns = -1;
        int result = bl_duration_parse(bl_text_from(cases[i].text), &ns, &error);
        if (result != 0 || ns != cases[i].ns)
            fail_msg("%s: %d, %lld ns", cases[i].text, result, (long long)ns);
        assert_int_equal(error.code, 0);
    }
}

static void invalid_durations_are_refused_with_a_hint(void **state BL_UNUSED)
{
    static const struct {
        const char *text;
        int code;
    } cases[] = {
        {"nan", BL_ERANGE},
        {"NaN", BL_ERANGE},
        {"-nan", BL_ERANGE},
        {"inf", BL_ERANGE},
        {"-inf", BL_ERANGE},
        {"+Infinity", BL_ERANGE},
        {"-0", BL_ERANGE},
        {"-0s", BL_ERANGE},
        {"-0.000h", BL_ERANGE},
        {"3155760001", BL_ERANGE},
        {"876601h", BL_ERANGE},
        {"31557600000001ms", BL_ERANGE},
        {"3155760000.1", BL_ERANGE},
        {"-3155760001", BL_ERANGE},
        {"99999999999999999999999999999999999999999999h", BL_ERANGE},
        {"1e300", BL_EPARSE},
        {"1e3", BL_EPARSE},
        {"", BL_EPARSE},
        {"5 s", BL_EPARSE},
        {" 5", BL_EPARSE},
        {"5 ", BL_EPARSE},
        {"5x", BL_EPARSE},
        {"--5", BL_EPARSE},
        {"+5", BL_EPARSE},
        {"-", BL_EPARSE},
        {"s", BL_EPARSE},
        {".5", BL_EPARSE},
        {"5.", BL_EPARSE},
        {"5.s", BL_EPARSE},
        {"1.2.3", BL_EPARSE},
        {"1,5", BL_EPARSE},
        {"5S", BL_EPARSE},
        {"5sec", BL_EPARSE},
        {"5ms ", BL_EPARSE},
        {"1h30m", BL_EPARSE},
        {"0x10", BL_EPARSE},
        {"5us", BL_EPARSE},
        {"infinite", BL_EPARSE},
        {"nans", BL_EPARSE},
        {"٣", BL_EPARSE},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_error error = {0};
        int64_t ns = 77;
        char quoted[128];
        assert_int_equal(bl_duration_parse(bl_text_from(cases[i].text), &ns, NULL), cases[i].code);
        assert_int_equal(bl_duration_parse(bl_text_from(cases[i].text), &ns, &error),
                         cases[i].code);
        assert_int_equal(ns, 77);
        assert_int_equal(error.code, cases[i].code);
        snprintf(quoted, sizeof quoted, "\"%s\"", cases[i].text);
        assert_non_null(strstr(error.message, quoted));
        assert_non_null(strstr(error.hint, "90, 90s, 500ms, 2.5m, 1h"));
    }
}

static void a_refusal_quotes_hostile_text_safely(void **state BL_UNUSED)
{
    struct bl_error error = {0};
    int64_t ns;
    char text[1000];
    memset(text, '7', sizeof text);
    memcpy(text, "\x1B[2J\n\0\x7F", 7);
    assert_int_equal(bl_duration_parse((struct bl_text){text, sizeof text}, &ns, &error),
                     BL_EPARSE);
    assert_non_null(strstr(error.message, "\"?[2J???777"));
    assert_non_null(strstr(error.message, "7…\" is not a duration"));
    error = (struct bl_error){.code = BL_EIO};
    assert_int_equal(bl_duration_parse(BL_TEXT("x"), &ns, &error), BL_EPARSE);
    assert_int_equal(error.code, BL_EIO);
    assert_string_equal(error.hint, "");
}

static void seconds_become_durations_within_the_same_limits(void **state BL_UNUSED)
{
    static const struct {
        double seconds;
        int64_t ns;
    } good[] = {
        {0, 0},
        {1.5, 1500000000},
        {-2.25, -2250000000},
        {0.1, 100000000},
        {1e-9, 1},
        {4e-10, 0},
        {6e-10, 1},
        {-6e-10, -1},
        {1e9 + 0.5, 1000000000500000000},
        {3155760000, YEARS_100_NS},
        {-3155760000, -YEARS_100_NS},
    };
    static const struct {
        double seconds;
        const char *message;
    } bad[] = {
        {NAN, "\"nan\" is not a finite duration"},
        {-NAN, "\"-nan\" is not a finite duration"},
        {INFINITY, "\"inf\" is not a finite duration"},
        {-INFINITY, "\"-inf\" is not a finite duration"},
        {-0.0, "\"-0\" is a negative zero, which is not a duration"},
        {3155760001, "\"3155760001\" is longer than 100 years"},
        {-3155760001.5, "\"-3155760001.5\" is longer than 100 years"},
        {1e300, "\"1.0000000000000001e+300\" is longer than 100 years"},
    };
    for (size_t i = 0; i < BL_COUNT(good); i++) {
        int64_t ns = -1;
        assert_int_equal(bl_duration_from_seconds(good[i].seconds, &ns, NULL), 0);
        assert_true(ns == good[i].ns);
    }
    for (size_t i = 0; i < BL_COUNT(bad); i++) {
        struct bl_error error = {0};
        int64_t ns = 77;
        assert_int_equal(bl_duration_from_seconds(bad[i].seconds, &ns, &error), BL_ERANGE);
        assert_int_equal(ns, 77);
        assert_int_equal(error.code, BL_ERANGE);
        assert_string_equal(error.message, bad[i].message);
        assert_true(error.hint[0] != '\0');
    }
}

static void durations_are_formatted_in_short_form(void **state BL_UNUSED)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "0 s"},
        {1, "1 ns"},
        {999, "999 ns"},
        {1000, "1 us"},
        {999499, "999 us"},
        {999500, "1 ms"},
        {206000000, "206 ms"},
        {206400000, "206 ms"},
        {999499999, "999 ms"},
        {999500000, "1 s"},
        {1500000000, "1.5 s"},
        {1960000000, "2 s"},
        {59900000000, "59.9 s"},
        {59960000000, "1m"},
        {60000000000, "1m"},
        {250000000000, "4m 10s"},
        {3599400000000, "59m 59s"},
        {3599600000000, "1h"},
        {7500000000000, "2h 5m"},
        {86390000000000, "1d"},
        {100000000000000, "1d 4h"},
        {-1, "-1 ns"},
        {-999, "-999 ns"},
        {-1500000000, "-1.5 s"},
        {-206000000, "-206 ms"},
        {INT64_MAX, "106752d"},
        {INT64_MIN, "-106752d"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char out[32];
        bl_duration_format(cases[i].ns, out);
        assert_string_equal(out, cases[i].text);
    }
}

SUITE(clock, cmocka_unit_test(the_system_clock_does_not_go_back),
      cmocka_unit_test(times_add_up_to_never_instead_of_wrapping),
      cmocka_unit_test(times_are_written_in_utc_to_the_millisecond),
      cmocka_unit_test(times_are_read_as_they_were_written),
      cmocka_unit_test(every_time_survives_writing_and_reading),
      cmocka_unit_test(dates_agree_with_the_c_library),
      cmocka_unit_test(durations_are_read_exactly),
      cmocka_unit_test(invalid_durations_are_refused_with_a_hint),
      cmocka_unit_test(a_refusal_quotes_hostile_text_safely),
      cmocka_unit_test(seconds_become_durations_within_the_same_limits),
      cmocka_unit_test(durations_are_formatted_in_short_form));
