#include "recorder.h"

static void unknown_keys_are_refused_with_position_and_suggestion(void **state BL_UNUSED)
{
    refuse_script("replies:\n- sy: hello\n", "test.yaml:2:3: unknown member \"sy\" in a reply",
                  "did you mean \"say\"?");
    refuse_script("name: x\nreplys: []\n", "test.yaml:2:1: unknown member \"replys\" in a script",
                  "did you mean \"replies\"?");
    refuse_script("replies: [{tools: [{name: a, inputs: {}}]}]",
                  "test.yaml:1:30: unknown member \"inputs\" in a tool", "did you mean \"input\"?");
    refuse_script("replies: [{say: a, usage: {in: 1}}]",
                  "test.yaml:1:28: usage: unknown member \"in\" in usage",
                  "did you mean \"input\"?");
    refuse_script("replies: [{error: {status: 500, retry: 1}}]",
                  "test.yaml:1:33: error: unknown member \"retry\" in error",
                  "did you mean \"retry_after\"?");
    refuse_script("replies: [{delayed: 1}]",
                  "test.yaml:1:12: unknown member \"delayed\" in a reply",
                  "did you mean \"delay\"?");
    refuse_script(
        "replies: [{xyzzy: 1}]", "test.yaml:1:12: unknown member \"xyzzy\" in a reply",
        "expected one of when, delay, say, pieces, tools, usage, wedge, error, thinking, stop, "
        "piece_delay, images");
    refuse_script("replies: [{\"\\e[31mred\": 1}]",
                  "test.yaml:1:12: unknown member \"\\u001b[31mred\" in a reply",
                  "expected one of");
    refuse_script("{\"replies\": [\n  {\"says\": 1}]}",
                  "test.yaml:2:4: unknown member \"says\" in a reply", "did you mean \"say\"?");
}

static void values_of_the_wrong_kind_have_a_place(void **state BL_UNUSED)
{
    refuse_script("[]", "test.yaml:1:1: expected a mapping, found an empty list",
                  "a script is YAML or JSON: {");
    refuse_script("", "test.yaml:1:1: expected a mapping, found null",
                  "a script is YAML or JSON: {");
    refuse_script("name: x", "test.yaml:1:1: replies: missing; expected a list",
                  "a script is YAML or JSON: {");
    refuse_script("name: 1\nreplies: [{say: a}]", "test.yaml:1:7: name: expected a string, found 1",
                  "quotes");
    refuse_script("replies: {}",
                  "test.yaml:1:10: replies: expected a list, found a "
                  "mapping",
                  "");
    refuse_script("replies: []",
                  "test.yaml:1:10: replies: expected a list of 1 to 10000 replies, found 0", "");
    refuse_script("replies: [a]", "test.yaml:1:11: expected a mapping, found \"a\"", "");
    refuse_script("replies: [{}]",
                  "test.yaml:1:11: a reply needs say, thinking, tools, wedge or error",
                  "say: \"\"");
    refuse_script("replies: [{usage: {input: 1}}]",
                  "test.yaml:1:11: a reply needs say, thinking, tools, wedge or error",
                  "say: \"\"");
    refuse_script("replies: [{say: 42}]", "test.yaml:1:17: say: expected a string, found 42",
                  "quotes");
    refuse_script("replies: [{say: true}]", "test.yaml:1:17: say: expected a string, found true",
                  "quotes");
    refuse_script("replies: [{say: [a]}]", "test.yaml:1:17: say: expected a string, found a list",
                  "");
    refuse_script("replies: [{say: }]", "test.yaml:1:17: say: expected a string, found null",
                  "quotes");
    refuse_script("replies: [{say: a, pieces: 0}]",
                  "test.yaml:1:28: pieces: expected a whole number from 1 to 1000000, found 0", "");
    refuse_script("replies: [{say: a, pieces: 1.5}]",
                  "test.yaml:1:28: pieces: expected a whole number from 1 to 1000000, found 1.5",
                  "");
    refuse_script("repeat: 'yes'\nreplies: [{say: a}]",
                  "test.yaml:1:9: repeat: expected true or false, found \"yes\"", "");
    refuse_script("replies: [{say: a, usage: {input: -1}}]",
                  "test.yaml:1:35: usage.input: expected a whole number from 0 to "
                  "9223372036854775807, found -1",
                  "");
    refuse_script("replies: [{say: a, usage: 3}]",
                  "test.yaml:1:27: usage: expected a mapping, found "
                  "3",
                  "");
}

static void durations_patterns_and_choices_are_checked(void **state BL_UNUSED)
{
    refuse_script(
        "replies: [{say: a, delay: soon}]",
        "test.yaml:1:27: delay: expected a duration such as 20ms, 90s or 1.5h (a number alone is "
        "seconds), found \"soon\"",
        "");
    refuse_script("replies: [{say: a, delay: -1s}]",
                  "test.yaml:1:27: delay: expected a duration such as 20ms, 90s or 1.5h (a number "
                  "alone is seconds), found \"-1s\"",
                  "");
    refuse_script("replies: [{say: a, piece_delay: true}]",
                  "test.yaml:1:33: piece_delay: expected a duration such as 20ms, 90s or 1.5h (a "
                  "number alone is seconds), found true",
                  "");
    refuse_script("replies: [{say: a, wedge: after}]",
                  "test.yaml:1:27: wedge: expected one of before_first_token, after_first_token, "
                  "found \"after\"",
                  "did you mean \"after_first_token\"?");
    refuse_script("replies: [{say: a, stop: never}]",
                  "test.yaml:1:26: stop: expected one of end, max_tokens, refusal, found \"never\"",
                  "");
    struct bl_script *script;
    struct bl_error error = {0};
    assert_int_equal(bl_script_parse(BL_TEXT("replies:\n  - when: '(a'\n    say: b\n"), "test.yaml",
                                     &script, &error),
                     BL_EPARSE);
    assert_memory_equal(error.message, "test.yaml:2:11: when is not a valid pattern: ", 39);
    assert_true(strlen(error.message) > 39);
}

SUITE(value, cmocka_unit_test(unknown_keys_are_refused_with_position_and_suggestion),
      cmocka_unit_test(values_of_the_wrong_kind_have_a_place),
      cmocka_unit_test(durations_patterns_and_choices_are_checked));
