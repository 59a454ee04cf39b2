#include "suite.h"

#include <stdlib.h>

#include "cli/cli.h"

#define WORDS(...) ((char *[]){"belay", __VA_ARGS__, NULL})
#define ASKED(...) cli_format_asked((int)BL_COUNT(WORDS(__VA_ARGS__)) - 1, WORDS(__VA_ARGS__))

static void json_is_asked_for_anywhere_before_two_dashes(void **state)
{
    (void)state;
    assert_int_equal(ASKED("run"), CLI_FORMAT_TEXT);
    assert_int_equal(ASKED("--bogus", "run", "--json"), CLI_FORMAT_JSON);
    assert_int_equal(ASKED("run", "--output-format", "json", "-x"), CLI_FORMAT_JSON);
    assert_int_equal(ASKED("run", "--output-format=json"), CLI_FORMAT_JSON);
    assert_int_equal(ASKED("run", "--output-format", "stream-json"), CLI_FORMAT_STREAM_JSON);
    assert_int_equal(ASKED("run", "--output-format=stream-json"), CLI_FORMAT_STREAM_JSON);
    assert_int_equal(ASKED("run", "--output-format=text"), CLI_FORMAT_TEXT);
    assert_int_equal(ASKED("run", "--output-format"), CLI_FORMAT_TEXT);
    assert_int_equal(ASKED("hold", "--", "jq", "--json"), CLI_FORMAT_TEXT);
    assert_int_equal(cli_format_asked(0, NULL), CLI_FORMAT_TEXT);
}

SUITE(arguments, cmocka_unit_test(json_is_asked_for_anywhere_before_two_dashes));
