#include "documents.h"

/* YAML scalars and their JSON. */
static const char *const scalars[][2] = {
    {"", "null"},
    {"# only a comment", "null"},
    {"---", "null"},
    {"~", "null"},
    {"null", "null"},
    {"Null", "null"},
    {"NULL", "null"},
    {"nULL", "\"nULL\""},
    {"true", "true"},
    {"True", "true"},
    {"TRUE", "true"},
    {"tRUE", "\"tRUE\""},
    {"false", "false"},
    {"False", "false"},
    {"FALSE", "false"},
    {"yes", "\"yes\""},
    {"no", "\"no\""},
    {"on", "\"on\""},
    {"off", "\"off\""},
    {"y", "\"y\""},
    {"0", "0"},
    {"-1", "-1"},
    {"+1", "1"},
    {"007", "7"},
    {"-007", "-7"},
    {"-0", "-0"},
    {"00", "0"},
    {"9223372036854775807", "9223372036854775807"},
    {"-9223372036854775808", "-9223372036854775808"},
    {"18446744073709551615", "18446744073709551615"},
    {"18446744073709551616", "18446744073709551616"},
    {"+00018446744073709551615", "18446744073709551615"},
    {"0x1F", "31"},
    {"0xffffffffffffffff", "18446744073709551615"},
    {"0x7fffffffffffffff", "9223372036854775807"},
    {"0o17", "15"},
    {"0o1777777777777777777777", "18446744073709551615"},
    {"-0x1F", "\"-0x1F\""},
    {"0x", "\"0x\""},
    {"0o8", "\"0o8\""},
    {"0xfg", "\"0xfg\""},
    {"1.5", "1.5"},
    {"1.", "1.0"},
    {".5", "0.5"},
    {"-.5", "-0.5"},
    {"+.5e1", "5.0"},
    {"1e3", "1e3"},
    {"1.e3", "1e3"},
    {"1E-2", "0.01"},
    {"+1e-2", "0.01"},
    {"1.e+3", "1e3"},
    {".5E-1", "0.05"},
    {"00.50", "0.5"},
    {"1e", "\"1e\""},
    {"1e+", "\"1e+\""},
    {".", "\".\""},
    {"-.", "\"-.\""},
    {"+", "\"+\""},
    {".e1", "\".e1\""},
    {"1.2.3", "\"1.2.3\""},
    {"1_000", "\"1_000\""},
    {"12:30", "\"12:30\""},
    {"2026-11-15", "\"2026-11-15\""},
    {"1 2", "\"1 2\""},
    {".infinity", "\".infinity\""},
    {"'.inf'", "\".inf\""},
    {"'12'", "\"12\""},
    {"\"true\"", "\"true\""},
    {"''", "\"\""},
    {"\"a\\tb\\x41\\u00e4\\U0001F600\"", "\"a\\tbA\u00e4\U0001F600\""},
    {"\"a\\0b\"", "\"a\\u0000b\""},
    {"\"\\ud83d\\ude00\"", "\"\U0001F600\""},
    {"|\n  12\n", "\"12\\n\""},
    {"|-\n  a\n  b\n", "\"a\\nb\""},
    {">\n  a\n  b\n", "\"a b\\n\""},
    {"plain\n  over lines", "\"plain over lines\""},
    {"http://x.y/z#w", "\"http://x.y/z#w\""},
    {"a # comment", "\"a\""},
};

static void scalars_are_of_the_core_schema(void **state BL_UNUSED)
{
    for (size_t i = 0; i < BL_COUNT(scalars); i++)
        same(scalars[i][0], scalars[i][1]);
}

static void core_tags_are_honoured(void **state BL_UNUSED)
{
    static const char *const table[][2] = {
        {"!!str 12", "\"12\""},
        {"!!str", "\"\""},
        {"!!str true", "\"true\""},
        {"! 12", "\"12\""},
        {"!!int \"3\"", "3"},
        {"!!int 0x10", "16"},
        {"!!float 3", "3.0"},
        {"!!float '.5'", "0.5"},
        {"!!bool 'true'", "true"},
        {"!!null ''", "null"},
        {"!!seq [1]", "[1]"},
        {"!!map {a: 1}", "{\"a\": 1}"},
        {"! {a: ! [1]}", "{\"a\": [1]}"},
        {"!<tag:yaml.org,2002:str> 1", "\"1\""},
        {"%TAG !y! tag:yaml.org,2002:\n---\n!y!str 1", "\"1\""},
        {"{!!str 1: a}", "{\"1\": \"a\"}"},
    };
    for (size_t i = 0; i < BL_COUNT(table); i++)
        same(table[i][0], table[i][1]);
    static const char core[] = "a core tag: !!str, !!int, !!float, !!bool, !!null";
    refuse("a: !mine x", 1, 4, core);
    refuse("a: !!binary x", 1, 4, core);
    refuse("a: !x!y z", 1, 4, core);
    refuse("!!set {a}", 1, 1, core);
    refuse("!!int a", 1, 1, "an integer, as required by its tag");
    refuse("!!int 1.5", 1, 1, "an integer, as required by its tag");
    refuse("!!float a", 1, 1, "a number, as required by its tag");
    refuse("!!bool yes", 1, 1, "true or false, as required by its tag");
    refuse("!!null a", 1, 1, "null, as required by its tag");
    refuse("!!seq a", 1, 1, "a sequence, as required by its tag");
    refuse("!!map a", 1, 1, "a mapping, as required by its tag");
    refuse("!!str [a]", 1, 1, "a tag for sequences");
    refuse("!!seq {a: 1}", 1, 1, "a tag for mappings");
}

static void numbers_that_do_not_fit_are_refused(void **state BL_UNUSED)
{
    static const char finite[] = "a finite number (quote it to make it text)";
    static const char fits[] = "a number that fits a double (quote it to make it text)";
    static const char bits[] = "an integer of at most 64 bits (quote it to make it text)";
    refuse("a: .inf", 1, 4, finite);
    refuse("a: -.Inf", 1, 4, finite);
    refuse("a: +.INF", 1, 4, finite);
    refuse("a:\n- .nan", 2, 3, finite);
    refuse("!!float .NaN", 1, 1, finite);
    refuse("1e999", 1, 1, fits);
    refuse("0x10000000000000000", 1, 1, bits);
    refuse("0o2000000000000000000000", 1, 1, bits);
}

SUITE(document_scalar, cmocka_unit_test(scalars_are_of_the_core_schema),
      cmocka_unit_test(core_tags_are_honoured),
      cmocka_unit_test(numbers_that_do_not_fit_are_refused));
