#include "stage.h"

static struct run run;

static void check_members(const struct bl_json *object, const char *const *members)
{
    for (; *members != NULL; members++) {
        if (bl_json_get(object, bl_text_from(*members)) == NULL)
            fail_msg("no member '%s'", *members);
    }
}

static void list_and_show_have_all_their_members(void **state)
{
    static const char *const listed[] = {"session_id", "cwd",        "title",   "parent",
                                         "agent_of",   "agent_turn", "persona", "created_at",
                                         "updated_at", "held_by",    "turns",   "attempts",
                                         "usage",      "spent",      NULL};

    (void)state;
    RUN(&run, "run", "first line\nsecond line", "--session", "s", "--sandbox", "off", "--json");
    stage_answer(&run, "run", 0);
    RUN(&run, "session", "list", "--json");
    const struct bl_json *answer = stage_answer(&run, "session-list", 0);
    check_members(bl_json_at(bl_json_get(answer, BL_TEXT("sessions")), 0), listed);
    assert_string_equal(stage_text_at(answer, "/sessions/0/title"), "first line");
    assert_string_equal(stage_text_at(answer, "/sessions/0/cwd"), stage_path("work"));
    assert_string_equal(stage_text_at(answer, "/store"), stage_path("data/belay/sessions.db"));
    assert_int_equal(stage_number_at(answer, "/sessions/0/turns"), 1);
    assert_true(stage_null_at(answer, "/sessions/0/parent"));
    assert_true(stage_null_at(answer, "/sessions/0/held_by"));
    RUN(&run, "session", "show", "s", "--json");
    answer = stage_answer(&run, "session-show", 0);
    check_members(answer, listed);
    assert_int_equal(stage_size_at(answer, "/turns"), 1);
    assert_string_equal(stage_text_at(answer, "/turns/0/prompt"), "first line\nsecond line");
}

static void rejected_attempts_are_listed_beside_the_turns(void **state)
{
    bool begun = false;

    (void)state;
    for (unsigned i = 0; !begun; i++) {
        RUN(&run, "session", "delete", "s");
        RUN(&run, "run", "hi", "--session", "s", "--sandbox", "off", "--timeout", stage_timeout(i),
            "--provider",
            stage_script("replies: [{wedge: after_first_token, say: begun, pieces: 1}]\n"),
            "--json");
        const char *output = stage_text_at(stage_answer(&run, "run", 124), "/turns/0/output");
        begun = strcmp(output, "begun") == 0;
    }
    RUN(&run, "session", "show", "s", "--json");
    const struct bl_json *answer = stage_answer(&run, "session-show", 0);
    assert_int_equal(stage_size_at(answer, "/turns"), 0);
    assert_string_equal(stage_text_at(answer, "/attempts/0/state"), "rejected");
    assert_string_equal(stage_text_at(answer, "/attempts/0/result/output"), "begun");
    assert_string_equal(stage_text_at(answer, "/attempts/0/receipt/reason"), "timeout");
    assert_int_equal(stage_number_at(answer, "/usage/input_tokens"), 0);
    assert_true(stage_number_at(answer, "/spent/input_tokens") > 0);
}

SUITE(session_json, STAGED(list_and_show_have_all_their_members),
      STAGED(rejected_attempts_are_listed_beside_the_turns));
