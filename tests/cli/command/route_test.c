#include "stage.h"

static struct run run;

static void matches_come_best_first_and_nothing_runs(void **state)
{
    (void)state;
    RUN(&run, "route", "run the tests with bash", "--json");
    const struct bl_json *answer = stage_answer(&run, "route", 0);
    assert_string_equal(stage_text_at(answer, "/prompt"), "run the tests with bash");
    assert_string_equal(stage_text_at(answer, "/routed_matches/0/name"), "bash");
    int64_t before = INT64_MAX;
    BL_JSON_EACH (match, bl_json_get(answer, BL_TEXT("routed_matches"))) {
        assert_true(stage_number_at(match, "/score") <= before);
        before = stage_number_at(match, "/score");
    }
    RUN(&run, "route", "run the tests with bash");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "tool     bash\n"));
    assert_false(stage_exists(stage_path("data/belay")));
}

static void no_match_is_not_an_error(void **state)
{
    (void)state;
    RUN(&run, "route", "qqqq zzzz", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "route", 0), "/routed_matches"), 0);
    RUN(&run, "route", "qqqq zzzz");
    assert_string_equal(run.out, "No command and no tool matches.\n");
}

static void common_words_do_not_count(void **state)
{
    (void)state;
    RUN(&run, "route", "The what is it, to all of you and WITH this?", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "route", 0), "/routed_matches"), 0);
    RUN(&run, "route", "the bash", "--json");
    const char *name = stage_text_at(stage_answer(&run, "route", 0), "/routed_matches/0/name");
    assert_string_equal(name, "bash");
}

static void the_number_of_matches_can_be_limited(void **state)
{
    (void)state;
    RUN(&run, "route", "read files and run a command", "--json");
    size_t all = stage_size_at(stage_answer(&run, "route", 0), "/routed_matches");
    assert_in_range(all, 3, 100);
    RUN(&run, "route", "--limit", "2", "read files and run a command", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "route", 0), "/routed_matches"), 2);
    RUN(&run, "route", "--limit", "0", "read", "--json");
    stage_answer(&run, "route", 2);
}

static void a_prompt_is_needed(void **state)
{
    (void)state;
    RUN(&run, "route", "--json");
    stage_answer(&run, "route", 2);
    RUN(&run, "route", "", "--json");
    stage_answer(&run, "route", 2);
    RUN(&run, "route", "a", "b", "--json");
    stage_answer(&run, "route", 2);
    RUN(&run, "route", "\xff", "--json");
    stage_answer(&run, "route", 2);
}

SUITE(route, STAGED(matches_come_best_first_and_nothing_runs), STAGED(no_match_is_not_an_error),
      STAGED(common_words_do_not_count), STAGED(the_number_of_matches_can_be_limited),
      STAGED(a_prompt_is_needed));
