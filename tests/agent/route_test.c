#include "suite.h"

#include <belay/agent.h>

static const struct bl_tool_offer offers[] = {
    {.name = "bash", .description = "run a shell command in the workspace", .schema = {"{}", 2}},
    {.name = "read", .description = "read a file or a zip", .schema = {"{}", 2}},
};
static const struct bl_tools tools = {.offers = offers, .offer_count = 2};

static struct bl_arena arena;
static struct bl_list matches;

static const struct bl_route_match *match_at(const char *prompt, size_t index)
{
    bl_route(&arena, bl_text_from(prompt), &tools, &matches);
    BL_LIST_EACH (link, &matches) {
        if (index-- == 0)
            return BL_CONTAINER(link, struct bl_route_match, link);
    }
    return NULL;
}

static void names_count_more_than_descriptions(void **state)
{
    (void)state;
    assert_string_equal(match_at("please READ the file", 0)->name, "read");
    assert_int_equal(match_at("please READ the file", 0)->score, 5);
    assert_string_equal(match_at("run a command in BASH, bash, bash", 0)->name, "bash");
    assert_int_equal(match_at("bash bash", 0)->score, 4);
    assert_string_equal(match_at("which sessions are there?", 0)->kind, "command");
    bl_arena_done(&arena);
}

static void equal_matches_keep_the_order_of_offers(void **state BL_UNUSED)
{
    static const char *const prompts[] = {"bash read", "read bash"};

    for (size_t i = 0; i < BL_COUNT(prompts); i++) {
        assert_string_equal(match_at(prompts[i], 0)->name, "bash");
        assert_string_equal(match_at(prompts[i], 1)->name, "read");
        assert_int_equal(match_at(prompts[i], 0)->score, match_at(prompts[i], 1)->score);
        assert_null(match_at(prompts[i], 2));
    }
    bl_arena_done(&arena);
}

/* Of a description, only words of three bytes or more; of a prompt, only the first 256 words. */
static void short_words_and_those_far_behind_do_not_count(void **state BL_UNUSED)
{
    enum {
        WORDS = 256
    };
    char prompt[2 * WORDS + 8];

    assert_null(match_at("or a", 0));
    assert_string_equal(match_at("zip", 0)->name, "read");
    for (size_t i = 0; i < WORDS; i++)
        memcpy(prompt + 2 * i, "x ", 2);
    memcpy(prompt + sizeof prompt - 8, "bash", 5);
    assert_null(match_at(prompt, 0));
    assert_string_equal(match_at(prompt + 2, 0)->name, "bash");
    bl_arena_done(&arena);
}

static void prompt_that_matches_nothing_has_no_match(void **state)
{
    static const char *const prompts[] = {"", "xyzzy", "\xf0\x9f\x98\x80 \xff\xfe", "a b c"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(prompts); i++)
        assert_null(match_at(prompts[i], 0));
    bl_route(&arena, BL_TEXT("bash"), NULL, &matches);
    assert_true(bl_list_empty(&matches));
    bl_arena_done(&arena);
}

SUITE(route, cmocka_unit_test(names_count_more_than_descriptions),
      cmocka_unit_test(equal_matches_keep_the_order_of_offers),
      cmocka_unit_test(short_words_and_those_far_behind_do_not_count),
      cmocka_unit_test(prompt_that_matches_nothing_has_no_match));
