#include "plans.h"

#include <stdio.h>

/* Checks that the text has no terminal control characters except line ends. */
static void check_plain(struct bl_text text)
{
    assert_true(bl_utf8_valid(text));
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if ((byte < 0x20 && byte != '\n') || byte == 0x7f)
            fail_msg("byte 0x%02x at %zu", byte, i);
    }
    assert_true(bl_text_find(text, BL_TEXT("\xc2\x9b")) < 0);
    assert_true(bl_text_find(text, BL_TEXT("\xe2\x80\xae")) < 0);
}

static const struct bl_json *write_plan(struct loaded *loaded)
{
    struct bl_text text = bl_plan_json(&loaded->arena, loaded->plan);
    const struct bl_json *json;

    assert_int_equal(bl_json_read(&loaded->arena, text, NULL, &json, NULL), 0);
    assert_int_equal(bl_record_check(&bl_plan_record, json, NULL), 0);
    return json;
}

static void expect_at(const struct bl_json *json, const char *pointer, const char *expected)
{
    struct bl_buffer out;
    struct bl_json_writer writer;

    bl_buffer_init(&out, 1 << 16);
    bl_json_writer_init(&writer, &out);
    bl_json_write_value(&writer, bl_json_pointer(json, bl_text_from(pointer)));
    assert_int_equal(bl_json_writer_done(&writer), 0);
    bl_buffer_append_byte(&out, '\0');
    if (strcmp(out.data, expected) != 0)
        fail_msg("%s: expected %s, found %s", pointer, expected, out.data);
    bl_buffer_done(&out);
}

#define FULL                                                                                       \
    "id: FEAT-A\nname: Login\ndescription: Tokens\ntasks:\n"                                       \
    "- {id: A, name: Store, file_path: tasks/A.md, complexity: 4, estimated_minutes: 30,\n"        \
    "   implementation_mode: direct}\n"                                                            \
    "- {id: B, file_path: tasks/B.md, dependencies: [A], status: completed}\n"                     \
    "orchestration: {parallel_groups: [[A], [B]], recommended_parallel: 2}\n"                      \
    "smoke_gates: {after_wave: 2, command: make smoke}\n"                                          \
    "belay:\n"                                                                                     \
    "  player: {provider: one, model: big}\n"                                                      \
    "  coach: {command: [sh, -c, 'exit 0']}\n"                                                     \
    "  limits: {coach_grace: 120s, feature_timeout: 2h, max_budget_usd: 2.5}\n"                    \
    "  verify: {setup: npm ci, commands: [make test]}\n"                                           \
    "  on_failure: continue\n"

static void validate_shows_waves_seats_and_deadlines(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    struct bl_buffer out;
    char expected[4096];

    plans_make(&place);
    plans_accept(&place, FULL, &loaded);
    bl_buffer_init(&out, 1 << 20);
    assert_int_equal(bl_plan_text(loaded.plan, &out), 0);
    bl_buffer_append_byte(&out, '\0');
    snprintf(
        expected, sizeof expected,
        "FEAT-A: Login\n"
        "  file: %s/" PLAN_FILE "\n"
        "  plan: %s\n"
        "  tasks: 2 in 2 waves, 2 at once (recommended_parallel 2)\n"
        "  on failure: continue\n"
        "  feature deadline: 2h\n"
        "  budget: 2.5 USD\n"
        "  budget: at least one seat is a command: usage that it does not report is not counted\n"
        "wave 1\n"
        "  A  Store\n"
        "    deadline: 40m + 2m coach grace (default); turns: 5; criteria: 1; "
        "complexity: 4; estimate: 30 minutes\n"
        "    player: agent one big, persona worker, auto, at most 200 steps\n"
        "    coach: command sh -c exit 0; grace 2 s, sandbox off\n"
        "    verify (10m each): make test\n"
        "wave 2\n"
        "  B  Task B\n"
        "    completed in the plan: does not run, unless the store has another state\n"
        "    deadline: 40m + 2m coach grace (default); turns: 5; criteria: 1\n"
        "    after: A\n"
        "    player: agent one big, persona worker, auto, at most 200 steps\n"
        "    coach: command sh -c exit 0; grace 2 s, sandbox off\n"
        "    verify (10m each): make test\n"
        "  gate: make smoke (exit 0 within 2m)\n",
        place.repository, loaded.plan->digest);
    assert_string_equal(out.data, expected);
    bl_buffer_done(&out);
    plans_done(&loaded);
    place_done(&place);
}

static void plan_is_written_as_JSON(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    plans_accept(&place, FULL, &loaded);
    const struct bl_json *json = write_plan(&loaded);
    expect_at(json, "/id", "\"FEAT-A\"");
    expect_at(json, "/description", "\"Tokens\"");
    expect_at(json, "/on_failure", "\"continue\"");
    expect_at(json, "/waves", "[[\"A\"],[\"B\"]]");
    expect_at(json, "/gate",
              "{\"command\":\"make smoke\",\"expected_exit\":0,\"timeout_s\":120.0,"
              "\"exit5_is_hard_fail\":false,\"after_waves\":[2]}");
    expect_at(json, "/limits/feature_timeout_s", "7200.0");
    expect_at(json, "/limits/max_budget_tokens", "null");
    expect_at(json, "/limits/max_budget_usd", "2.5");
    expect_at(json, "/tasks/0/mode", "\"direct\"");
    expect_at(json, "/tasks/0/deadline_s", "2400.0");
    expect_at(json, "/tasks/0/deadline_source", "\"default\"");
    expect_at(json, "/tasks/0/grace_s", "120.0");
    expect_at(json, "/tasks/1/wave", "2");
    expect_at(json, "/tasks/1/dependencies", "[\"A\"]");
    expect_at(json, "/tasks/1/status", "\"completed\"");
    expect_at(json, "/tasks/1/complexity", "null");
    expect_at(json, "/tasks/1/manual", "false");
    expect_at(json, "/tasks/0/player/kind", "\"agent\"");
    expect_at(json, "/tasks/0/player/max_steps", "200");
    expect_at(json, "/tasks/0/coach",
              "{\"kind\":\"command\",\"command\":[\"sh\",\"-c\",\"exit 0\"],\"grace_s\":2.0,"
              "\"sandbox\":\"off\"}");
    expect_at(json, "/tasks/0/verify/commands", "[\"make test\"]");
    expect_at(json, "/tasks/0/verify/setup", "\"npm ci\"");
    expect_at(json, "/tasks/0/verify/setup_network", "false");
    expect_at(json, "/tasks/0/criteria", "[{\"id\":\"AC-001\",\"text\":\"done\"}]");
    plans_done(&loaded);
    place_done(&place);
}

static void budget_of_a_task_is_shown(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    struct bl_buffer out;

    plans_make(&place);
    plans_task(&place, "A", "belay: {limits: {max_budget_tokens: 900}, player: {command: [sh]}}\n");
    plans_accept(&place, PLAN_HEAD, &loaded);
    bl_buffer_init(&out, 1 << 20);
    assert_int_equal(bl_plan_text(loaded.plan, &out), 0);
    expect_in(bl_buffer_text(&out), "    budget: 900 tokens\n    budget: its player is a command: "
                                    "usage that it does not report is not counted\n");
    expect_in(bl_buffer_text(&out), "  budget: none\n");
    expect_in(bl_buffer_text(&out), "the Coach decides alone");
    bl_buffer_done(&out);
    plans_done(&loaded);
    place_done(&place);
}

static void hostile_text_is_shown_escaped(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    struct bl_buffer out;

    plans_make(&place);
    plans_accept(&place,
                 "id: FEAT-A\nname: \"a\\e[2Jb\\nc\\x9b\\u202e<script>\"\ntasks:\n"
                 "- {id: A, file_path: tasks/A.md, name: \"x\\ry\\x7f\"}\n"
                 "belay: {verify: {commands: [\"a\\n\\e]0;x\\a\"]}}\n",
                 &loaded);
    bl_buffer_init(&out, 1 << 20);
    assert_int_equal(bl_plan_text(loaded.plan, &out), 0);
    check_plain(bl_buffer_text(&out));
    expect_in(bl_buffer_text(&out), "FEAT-A: a\\x1b[2Jb\\nc\\u009b\\u202e<script>\n");
    /* JSON has the original text, with JSON's own escapes. */
    const struct bl_json *json = write_plan(&loaded);
    expect_at(json, "/tasks/0/name", "\"x\\ry\x7f\"");
    plans_done(&loaded);
    bl_buffer_clear(&out);
    place_write(&place, PLAN_FILE,
                "id: \"a\\e[2J\"\nname: n\ntasks:\n"
                "- {id: \"\\e[31m\", file_path: \"\\e.md\", dependencies: [\"\\x07\"],\n"
                "   status: \"\\e\"}\nbelay: {\"\\e\": 1, player: {command: [\"\\e\"]}}\n");
    plans_load(&place, NULL, &loaded);
    assert_int_equal(loaded.code, BL_EINVAL);
    check_plain(bl_buffer_text(&loaded.text));
    check_plain(bl_text_from(loaded.error.message));
    BL_LIST_EACH (link, &loaded.problems) {
        const struct bl_plan_problem *problem = BL_CONTAINER(link, struct bl_plan_problem, link);
        check_plain(bl_text_from(problem->message));
        check_plain(bl_text_from(problem->file));
    }
    plans_done(&loaded);
    bl_buffer_done(&out);
    place_done(&place);
}

static void full_buffer_is_an_error(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    struct bl_buffer out;

    plans_make(&place);
    plans_accept(&place, PLAN_HEAD, &loaded);
    bl_buffer_init(&out, 10);
    assert_int_equal(bl_plan_text(loaded.plan, &out), BL_ELIMIT);
    assert_int_equal(out.size, 0);
    bl_buffer_done(&out);
    plans_done(&loaded);
    place_done(&place);
}

SUITE(plan_text, cmocka_unit_test(validate_shows_waves_seats_and_deadlines),
      cmocka_unit_test(plan_is_written_as_JSON), cmocka_unit_test(budget_of_a_task_is_shown),
      cmocka_unit_test(hostile_text_is_shown_escaped), cmocka_unit_test(full_buffer_is_an_error));
