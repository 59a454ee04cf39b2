#include "recorder.h"

static void unknown_keys_have_a_place_and_a_suggestion(void **state BL_UNUSED)
{
    refuse_script("replies:\n- sy: hello\n", "line 2, column 3: a reply has no key 'sy'",
                  "did you mean 'say'?");
    refuse_script("name: x\nreplys: []\n", "line 2, column 1: a script has no key 'replys'",
                  "did you mean 'replies'?");
    refuse_script("replies: [{tools: [{name: a, inputs: {}}]}]",
                  "line 1, column 30: a tool has no key 'inputs'", "did you mean 'input'?");
    refuse_script("replies: [{say: a, usage: {in: 1}}]", "line 1, column 28: usage has no key 'in'",
                  "did you mean 'input'?");
    refuse_script("replies: [{error: {status: 500, retry: 1}}]",
                  "line 1, column 33: error has no key 'retry'", "did you mean 'retry_after'?");
    refuse_script("replies: [{delayed: 1}]", "line 1, column 12: a reply has no key 'delayed'",
                  "did you mean 'delay'?");
    refuse_script(
        "replies: [{xyzzy: 1}]", "line 1, column 12: a reply has no key 'xyzzy'",
        "what it may be: when, delay, say, pieces, tools, usage, wedge, error, thinking, stop, "
        "piece_delay");
    refuse_script("replies: [{\"\\e[31mred\": 1}]",
                  "line 1, column 12: a reply has no key '?[31mred'", "what it may be");
    refuse_script("{\"replies\": [\n  {\"says\": 1}]}",
                  "line 2, column 4: a reply has no key 'says'", "did you mean 'say'?");
}

static void values_of_the_wrong_kind_have_a_place(void **state BL_UNUSED)
{
    refuse_script("[]", "line 1, column 1: a script must be a mapping, is a list",
                  "a script is YAML or JSON: {");
    refuse_script("", "line 1, column 1: a script must be a mapping, is empty",
                  "a script is YAML or JSON: {");
    refuse_script("name: x", "line 1, column 1: a script needs replies",
                  "a script is YAML or JSON: {");
    refuse_script("name: 1\nreplies: [{say: a}]",
                  "line 1, column 7: name must be text, is an integer", "quotes");
    refuse_script("replies: {}",
                  "line 1, column 10: replies must be a list of one reply or more, is a "
                  "mapping",
                  "");
    refuse_script("replies: []",
                  "line 1, column 10: replies must be a list of one reply or more, is empty", "");
    refuse_script("replies: [a]", "line 1, column 11: a reply must be a mapping, is text", "");
    refuse_script("replies: [{}]",
                  "line 1, column 11: a reply needs say, thinking, tools, wedge or error",
                  "say: \"\"");
    refuse_script("replies: [{usage: {input: 1}}]",
                  "line 1, column 11: a reply needs say, thinking, tools, wedge or error",
                  "say: \"\"");
    refuse_script("replies: [{say: 42}]", "line 1, column 17: say must be text, is an integer",
                  "quotes");
    refuse_script("replies: [{say: true}]", "line 1, column 17: say must be text, is a boolean",
                  "quotes");
    refuse_script("replies: [{say: [a]}]", "line 1, column 17: say must be text, is a list", "");
    refuse_script("replies: [{say: }]", "line 1, column 17: say must be text, is empty", "quotes");
    refuse_script("replies: [{say: a, pieces: 0}]",
                  "line 1, column 28: pieces must be an integer from 1 to 1000000", "");
    refuse_script("replies: [{say: a, pieces: 1.5}]",
                  "line 1, column 28: pieces must be an integer from 1 to 1000000", "");
    refuse_script("repeat: 'yes'\nreplies: [{say: a}]",
                  "line 1, column 9: repeat must be true or false, is text", "");
    refuse_script("replies: [{say: a, usage: {input: -1}}]",
                  "line 1, column 35: input must be an integer from 0 to 9223372036854775807", "");
    refuse_script("replies: [{say: a, usage: 3}]",
                  "line 1, column 27: usage must be a mapping, is an "
                  "integer",
                  "");
}

static void durations_patterns_and_choices_are_checked(void **state BL_UNUSED)
{
    refuse_script(
        "replies: [{say: a, delay: soon}]",
        "line 1, column 27: delay must be a duration, zero or more: \"soon\" is not a duration",
        "20ms");
    refuse_script("replies: [{say: a, delay: -1s}]",
                  "line 1, column 27: delay must be a duration, zero or more", "20ms");
    refuse_script("replies: [{say: a, piece_delay: true}]",
                  "line 1, column 33: piece_delay must be a duration, zero or more", "20ms");
    refuse_script("replies: [{say: a, wedge: after}]",
                  "line 1, column 27: wedge is not known: 'after'",
                  "did you mean 'after_first_token'?");
    refuse_script("replies: [{say: a, stop: never}]",
                  "line 1, column 26: stop is not known: 'never'",
                  "what it may be: end, max_tokens, refusal");
    struct bl_script *script;
    struct bl_error error = {0};
    assert_int_equal(bl_script_parse(BL_TEXT("replies:\n  - when: '(a'\n    say: b\n"), "test.yaml",
                                     &script, &error),
                     BL_EPARSE);
    assert_memory_equal(error.message, "line 2, column 11: when is not a pattern: ", 42);
    assert_true(strlen(error.message) > 42);
}

SUITE(value, cmocka_unit_test(unknown_keys_have_a_place_and_a_suggestion),
      cmocka_unit_test(values_of_the_wrong_kind_have_a_place),
      cmocka_unit_test(durations_patterns_and_choices_are_checked));
