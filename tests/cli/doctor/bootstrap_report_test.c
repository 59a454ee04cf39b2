#include "stage.h"

#include <stdio.h>

static struct run run;

static void the_envelope_has_all_that_a_session_starts_with(void **state)
{
    (void)state;
    stage_file("AGENTS.md", "Be brief.\n");
    RUN(&run, "bootstrap", "run bash for me", "--session", "s", "--sandbox", "off", "--container",
        "subreaper", "--max-steps", "7", "--timeout", "90", "--json");
    const struct bl_json *answer = stage_answer(&run, "bootstrap", 0);
    assert_string_equal(stage_text_at(answer, "/session_id"), "s");
    assert_string_equal(stage_text_at(answer, "/prompt"), "run bash for me");
    assert_string_equal(stage_text_at(answer, "/instructions/0/path"),
                        stage_path("work/AGENTS.md"));
    assert_int_equal(stage_number_at(answer, "/instructions/0/bytes"), 10);
    assert_string_equal(stage_text_at(answer, "/tools/0"), "bash");
    assert_string_equal(stage_text_at(answer, "/provider"), "script");
    assert_string_equal(stage_text_at(answer, "/model"), "builtin");
    assert_int_equal(stage_number_at(answer, "/limits/max_steps"), 7);
    assert_true(stage_null_at(answer, "/limits/max_budget_tokens"));
    assert_int_equal(stage_number_at(answer, "/limits/timeout_seconds"), 90);
    assert_string_equal(stage_text_at(answer, "/containment/container"), "subreaper");
    assert_string_equal(stage_text_at(answer, "/containment/sandbox"), "off");
    assert_string_equal(stage_text_at(answer, "/routed_matches/0/name"), "bash");
    assert_string_equal(stage_text_at(answer, "/routed_matches/0/kind"), "tool");
    assert_true(stage_number_at(answer, "/routed_matches/0/score") > 0);
    assert_true(stage_true_at(answer, "/persisted"));
}

static void text_has_the_same_facts(void **state)
{
    static const char *const parts[] = {
        "Session       s\n",
        "Workspace     ",
        "Instructions  ",
        "Tools         bash, read, write, edit, glob, grep, ls, todo, fetch, task, exec, wait\n",
        "Model         script: demo\n",
        "Limits        7 steps, 5 tokens",
        "Containment   subreaper, sandbox off\n",
        "Turn          max_budget_reached, not kept\n",
    };

    (void)state;
    stage_file("AGENTS.md", "Be brief.\n");
    RUN(&run, "bootstrap", "one two three four five six", "--session", "s", "--sandbox", "off",
        "--container", "subreaper", "--max-steps", "7", "--max-budget-tokens", "5", "--provider",
        stage_script("name: demo\nreplies: [{say: hello}]\n"));
    assert_int_equal(run.exit_code, 3);
    for (size_t i = 0; i < BL_COUNT(parts); i++) {
        if (strstr(run.out, parts[i]) == NULL)
            fail_msg("no '%s' in '%s'", parts[i], run.out);
    }
    assert_memory_equal(run.err, "belay bootstrap: max_budget_reached: ", 37);
    RUN(&run, "bootstrap", "hi", "--sandbox", "off", "--provider",
        stage_script("replies: [{say: hello}]\n"));
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "Turn          completed, kept\n\nhello\n"));
    assert_string_equal(run.err, "");
}

SUITE(bootstrap_report, STAGED(the_envelope_has_all_that_a_session_starts_with),
      STAGED(text_has_the_same_facts));
