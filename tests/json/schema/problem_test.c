#include "schemas.h"

#include <stdio.h>

static void unknown_properties_come_with_a_suggestion(void **state)
{
    (void)state;
    const char *schema =
        "{\"properties\":{\"path\":{},\"mode\":{}},\"additionalProperties\":false}";
    expect_problems(schema, "{\"pth\":1}",
                    "/pth|/additionalProperties|unknown property \"pth\"; did you mean \"path\"? "
                    "known: \"mode\", \"path\"\n");
    expect_problems(schema, "{\"mdoe\":1}",
                    "/mdoe|/additionalProperties|unknown property \"mdoe\"; did you mean "
                    "\"mode\"? known: \"mode\", \"path\"\n");
    /* A swap of two neighbours is one edit, and closer than two replaced letters. */
    expect_problems("{\"properties\":{\"made\":{},\"mode\":{}},\"additionalProperties\":false}",
                    "{\"mdoe\":1}",
                    "/mdoe|/additionalProperties|unknown property \"mdoe\"; did you mean "
                    "\"mode\"? known: \"made\", \"mode\"\n");
    expect_problems("{\"properties\":{\"a\":{}},\"additionalProperties\":false}", "{\"b\":1}",
                    "/b|/additionalProperties|unknown property \"b\"; known: \"a\"\n");
    expect_problems("{\"properties\":{\"abcd\":{}},\"additionalProperties\":false}", "{\"xyzd\":1}",
                    "/xyzd|/additionalProperties|unknown property \"xyzd\"; known: \"abcd\"\n");
    expect_problems(schema, "{\"recursive\":1}",
                    "/recursive|/additionalProperties|unknown property \"recursive\"; known: "
                    "\"mode\", \"path\"\n");
    expect_problems("{\"additionalProperties\":false}", "{\"a\":1}",
                    "/a|/additionalProperties|unknown property \"a\"; no properties are defined\n");
    expect_problems("{\"patternProperties\":{\"^x\":{}},\"additionalProperties\":false}",
                    "{\"xa\":1,\"a\":1}",
                    "/a|/additionalProperties|unknown property \"a\"; it matches none of the "
                    "patterns\n");
}

static void a_suggestion_is_at_most_two_edits_away(void **state)
{
    (void)state;
    static const struct {
        const char *known, *name;
        bool guessed;
    } cases[] = {
        {"abcdef", "abcd", true},       {"abcdef", "abc", false},    {"abcdef", "abcdefxy", true},
        {"abcdef", "abcdefxyz", false}, {"abcdef", "xbcdey", true},  {"abcdef", "xycdez", false},
        {"abcdef", "badcef", true},     {"abcdef", "badcfe", false}, {"abcdef", "cdef", true},
        {"abcdef", "xyabcdef", true},   {"ab", "ba", true},          {"ab", "cd", false},
        {"aab", "aba", true},           {"aabb", "aaxybb", true},    {"axyxf", "axzf", true},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char schema[128], value[64], expected[256];
        snprintf(schema, sizeof schema,
                 "{\"properties\":{\"%s\":{}},\"additionalProperties\":false}", cases[i].known);
        snprintf(value, sizeof value, "{\"%s\":1}", cases[i].name);
        snprintf(expected, sizeof expected,
                 "/%s|/additionalProperties|unknown property \"%s\";%s%s%s known: \"%s\"\n",
                 cases[i].name, cases[i].name, cases[i].guessed ? " did you mean \"" : "",
                 cases[i].guessed ? cases[i].known : "", cases[i].guessed ? "\"?" : "",
                 cases[i].known);
        expect_problems(schema, value, expected);
    }
}

/* Sixty characters of each name are shown, and an escape takes six bytes. */
static void a_message_of_escapes_is_complete(void **state)
{
    (void)state;
    char name[61] = "", ones[361] = "", twos[361] = "", schema[512], value[512], expected[2048];
    memset(name, 2, 60);
    for (size_t i = 0; i < 60; i++) {
        memcpy(ones + 6 * i, "\\u0001", 6);
        memcpy(twos + 6 * i, "\\u0002", 6);
    }
    snprintf(schema, sizeof schema, "{\"propertyNames\":{\"const\":\"%s\"}}", ones);
    snprintf(value, sizeof value, "{\"%s\":1}", twos);
    snprintf(expected, sizeof expected,
             "/%s|/propertyNames/const|invalid property name \"%s\": must be \"%s\"; is "
             "\"%s\"\n",
             name, twos, ones, twos);
    expect_problems(schema, value, expected);
}

SUITE(schema_problem, cmocka_unit_test(a_message_of_escapes_is_complete),
      cmocka_unit_test(unknown_properties_come_with_a_suggestion),
      cmocka_unit_test(a_suggestion_is_at_most_two_edits_away));
