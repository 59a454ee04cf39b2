#include "plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- E02, E08, E10: the feature file --------------------------------------------------------- */

static void E02_feature_has_id_name_and_tasks(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_expect(&place, "description: x\n",
                 PLAN_FILE ":1: E02 the feature has no id\n" PLAN_FILE
                           ":1: E02 the feature has no name\n" PLAN_FILE
                           ":1: E02 the feature has no tasks\n");
    plans_expect(&place, "id: ../x\nname: ' '\ntasks: {a: b}\n",
                 PLAN_FILE ":1: E02 invalid id '../x' (expected 1 to 64 of A-Z, a-z, 0-9, _ and -, "
                           "starting with a letter or digit)\n" PLAN_FILE
                           ":2: E02 the feature's name is empty\n" PLAN_FILE
                           ":3: E02 the feature has no tasks: expected a list, found a mapping\n");
    plans_expect(&place, "id: [a]\nname: {}\ntasks: []\n",
                 PLAN_FILE ":1: E02 id: expected a string, found a list\n" PLAN_FILE
                           ":2: E02 name: expected a string, found a mapping\n" PLAN_FILE
                           ":3: E02 the feature has no tasks\n");
    place_done(&place);
}

static void E08_unknown_words_and_keys_suggest(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_expect(
        &place,
        "id: FEAT-A\nname: n\ntasks:\n"
        "- {id: A, file_path: tasks/A.md, status: complete, implementation_mode: dirct}\n"
        "belay:\n"
        "  on_failure: wave-end\n"
        "  plyer: {}\n"
        "  player: {sandbox: full, permission: yolo}\n"
        "  verify: {command: x}\n"
        "  something: 1\n"
        "smoke_gates: {after_wave: 2, command: x, comand: y}\n",
        PLAN_FILE
        ":4: E08 status: expected one of pending, in_progress, completed, failed, skipped, "
        "deferred, backlog, in_review, found \"complete\"; did you mean \"completed\"?\n" PLAN_FILE
        ":4: E08 implementation_mode: expected one of task-work, direct, manual, found \"dirct\"; "
        "did you mean \"direct\"?\n" PLAN_FILE
        ":6: E08 on_failure: expected one of wave_end, cancel_siblings, continue, found "
        "\"wave-end\"; did you mean \"wave_end\"?\n" PLAN_FILE
        ":7: E08 unknown member \"plyer\" in belay; did you mean \"player\"?\n" PLAN_FILE
        ":8: E08 sandbox: expected one of off, workspace, read-only, found \"full\"\n" PLAN_FILE
        ":8: E08 permission: expected one of auto, read-only, found \"yolo\"\n" PLAN_FILE
        ":9: E08 unknown member \"command\" in verify; did you mean \"commands\"?\n" PLAN_FILE
        ":10: E08 unknown member \"something\" in belay; expected one of on_failure, player, "
        "coach, limits, verify\n" PLAN_FILE
        ":11: E08 unknown member \"comand\" in smoke_gates; did you mean \"command\"?\n" PLAN_FILE
        ":11: E08 the gate is after wave 2, but the plan has 1 wave\n");
    place_done(&place);
}

static void E08_gate_follows_an_existing_wave(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    plans_expect(&place, PLAN_HEAD "smoke_gates: {after_wave: [1, 3, x], command: make}\n",
                 PLAN_FILE ":6: E08 the gate is after wave 3, but the plan has 2 waves\n" PLAN_FILE
                           ":6: E08 after_wave: expected the number of a wave, a list of numbers, "
                           "or all, found 'x'\n");
    plans_expect(&place, PLAN_HEAD "smoke_gates: {command: make}\n",
                 PLAN_FILE
                 ":6: E08 smoke_gates has no after_wave (the number of a wave, a list, or all)\n");
    plans_expect(&place, PLAN_HEAD "smoke_gates: {after_wave: 0, command: make}\n",
                 PLAN_FILE ":6: E08 after_wave: expected the number of a wave, a list of numbers, "
                           "or all, found '0'\n");
    plans_expect(&place, PLAN_HEAD "smoke_gates: make\n",
                 PLAN_FILE ":6: E08 smoke_gates: expected a mapping, found \"make\"\n");
    plans_accept(&place, PLAN_HEAD "smoke_gates: {after_wave: all, command: make}\n", &loaded);
    assert_true(loaded.plan->waves[0].gated && loaded.plan->waves[1].gated);
    assert_int_equal(loaded.plan->gate.timeout_ns, 120 * BL_NS_PER_S);
    plans_done(&loaded);
    plans_accept(&place,
                 PLAN_HEAD "smoke_gates: {after_wave: 2, command: \"set -e\\nmake\\n\", "
                           "expected_exit: 3, timeout: 600, exit5_is_hard_fail: true}\n",
                 &loaded);
    assert_false(loaded.plan->waves[0].gated);
    assert_true(loaded.plan->waves[1].gated);
    assert_string_equal(loaded.plan->gate.command, "set -e\nmake\n");
    assert_int_equal(loaded.plan->gate.expected_exit, 3);
    assert_true(loaded.plan->gate.exit5_is_hard_fail);
    plans_done(&loaded);
    place_done(&place);
}

static void E07_numbers_of_the_gate_are_in_range(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_expect(
        &place,
        PLAN_HEAD "smoke_gates:\n  after_wave: 1\n  command: make\n  timeout: 601\n"
                  "  expected_exit: 256\n  exit5_is_hard_fail: maybe\n",
        PLAN_FILE
        ":9: E07 timeout: expected a duration of at least 1 s and at most 10m such as 20ms, 90s "
        "or 1.5h (a number alone is seconds), found 601\n" PLAN_FILE
        ":10: E07 expected_exit: expected a whole number from 0 to 255, found 256\n" PLAN_FILE
        ":11: E08 exit5_is_hard_fail: expected true or false, found \"maybe\"\n");
    plans_expect(&place, PLAN_HEAD "smoke_gates: {after_wave: 1, command: make, timeout: 0.5}\n",
                 PLAN_FILE ":6: E07 timeout: expected a duration of at least 1 s and at most 10m "
                           "such as 20ms, 90s or 1.5h (a number alone is seconds), found 0.5\n");
    place_done(&place);
}

static void E10_commands_are_not_empty(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_task(&place, "A", "behavioural_oracle: {command: ''}\n");
    plans_expect(
        &place,
        PLAN_HEAD "smoke_gates: {after_wave: 1, command: ' '}\n"
                  "belay:\n  verify:\n    setup: ''\n    commands:\n    - make\n    - ' '\n"
                  "    carry: [/etc, ok]\n    protect: ['../x/**']\n",
        PLAN_FILE
        ":6: E10 the gate's command is empty\n" PLAN_FILE
        ":9: E10 setup: expected a non-empty command or null, found \"\"\n" PLAN_FILE
        ":12: E10 commands[1]: expected a non-empty command, found \" \"\n" PLAN_FILE
        ":13: E10 carry[0]: expected a path inside the repository, found \"/etc\"\n" PLAN_FILE
        ":14: E10 protect[0]: expected a path inside the repository, found "
        "\"../x/**\"\ntasks/A.md:4: E10 behavioural_oracle is an empty command\n");
    plans_task(&place, "A", "");
    plans_expect(&place, PLAN_HEAD "smoke_gates: {after_wave: 1}\n",
                 PLAN_FILE ":6: E10 the gate has no command\n");
    plans_expect(&place, PLAN_HEAD "belay: {verify: [make]}\n",
                 PLAN_FILE ":6: E10 verify: expected a mapping, found a list\n");
    plans_expect(&place, PLAN_HEAD "belay: {verify: {commands: {a: b}}}\n",
                 PLAN_FILE
                 ":6: E10 commands: expected a list of strings or one string, found a mapping\n");
    plans_expect(&place, PLAN_HEAD "belay: {verify: {commands: [[make]]}}\n",
                 PLAN_FILE ":6: E10 commands[0]: expected a non-empty command, found a list\n");
    place_done(&place);
}

static void E10_required_verification_has_commands(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_task(&place, "A", "belay: {verify: {commands: [make]}}\n");
    plans_expect(&place, PLAN_HEAD "belay: {verify: {required: true}}\n",
                 PLAN_FILE ":5: E10 verification is required, but B has no verify commands\n");
    plans_task(&place, "B", "task_type: operator_handoff\n");
    plans_expect(&place, PLAN_HEAD "belay: {verify: {required: true}}\n", "");
    plans_task(&place, "B", "behavioural_oracle: ./check\n");
    plans_expect(&place, PLAN_HEAD "belay: {verify: {required: true}}\n", "");
    plans_task(&place, "B", "belay: {verify: {required: false}}\n");
    plans_expect(&place, PLAN_HEAD "belay: {verify: {required: true}}\n", "");
    place_done(&place);
}

static void verify_is_inherited_key_by_key(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    plans_task(&place, "A",
               "behavioural_oracle: {command: ./oracle}\n"
               "belay: {verify: {commands: [own], timeout: 7s, setup: null}}\n");
    plans_accept(&place,
                 PLAN_HEAD "belay: {verify: {setup: npm ci, setup_network: true, "
                           "commands: [make test, make lint], "
                           "timeout: 9, carry: [node_modules], protect: ['tests/**'], "
                           "required: true}}\n",
                 &loaded);
    const struct bl_verify_plan *a = &loaded.plan->tasks[0].verify;
    const struct bl_verify_plan *b = &loaded.plan->tasks[1].verify;
    assert_null(a->setup);
    assert_string_equal(a->commands[0], "own");
    assert_string_equal(a->commands[1], "./oracle");
    assert_null(a->commands[2]);
    assert_int_equal(a->timeout_ns, 7 * BL_NS_PER_S);
    assert_string_equal(a->carry[0], "node_modules");
    assert_true(a->required);
    assert_string_equal(b->setup, "npm ci");
    assert_true(b->setup_network);
    assert_string_equal(b->commands[1], "make lint");
    assert_null(b->commands[2]);
    assert_int_equal(b->timeout_ns, 9 * BL_NS_PER_S);
    assert_string_equal(b->protect[0], "tests/**");
    assert_true(loaded.plan->required);
    plans_done(&loaded);
    place_done(&place);
}

static void W_similar_keys_and_names_are_warnings(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_task(&place, "A", "titel: x\nbehaviour: y\n");
    plans_expect(
        &place,
        "id: FEAT-B\nname: Feature\ntask: []\nid_extra: 1\ntasks:\n"
        "- {id: A, file_path: tasks/A.md, dependancies: [], file_paths: x, belay: {}}\n"
        "orchestration: {parallel_group: [], estimated_duration_minutes: 3}\n"
        "created: x\nstatus: planned\nexecution: {}\nsmoke_gate: {}\n",
        PLAN_FILE
        ":1: warning: the id is FEAT-B, but the file is named FEAT-A\n" PLAN_FILE
        ":3: warning: unknown member \"task\" in the feature is ignored; did you mean "
        "\"tasks\"?\n" PLAN_FILE ":6: warning: unknown member \"dependancies\" in the task is "
        "ignored; did you mean \"dependencies\"?\n" PLAN_FILE
        ":6: warning: unknown member \"file_paths\" in the task is ignored; did you mean "
        "\"file_path\"?\n" PLAN_FILE
        ":6: warning: belay: of a task is ignored here; move it to its own file\n" PLAN_FILE
        ":7: warning: unknown member \"parallel_group\" in orchestration is ignored; did you mean "
        "\"parallel_groups\"?\n" PLAN_FILE
        ":11: warning: unknown member \"smoke_gate\" in the feature is ignored; did you mean "
        "\"smoke_gates\"?\ntasks/A.md:4: warning: unknown member \"titel\" in the task file is "
        "ignored; did you mean \"title\"?\n");
    place_done(&place);
}

/* ---- E09: seats ------------------------------------------------------------------------------ */

static void E09_seat_has_exactly_one_kind(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_expect(&place,
                 PLAN_HEAD "belay:\n  player: {command: [sh], provider: anthropic}\n"
                           "  coach: {acp: x}\n",
                 PLAN_FILE ":7: E09 the player is both a command and an agent (provider, model, "
                           "persona, permission, max_steps): choose one\n" PLAN_FILE
                           ":8: E09 the coach uses acp: not supported yet\n");
    plans_expect(&place, PLAN_HEAD "belay:\n  player: {persona: worker, grace: 1s}\n  coach: me\n",
                 PLAN_FILE
                 ":7: E09 the player is an agent, but grace applies only to commands\n" PLAN_FILE
                 ":8: E09 the coach: expected a mapping, found \"me\"\n");
    plans_expect(&place,
                 PLAN_HEAD "belay:\n  player: {command: claude -p}\n  coach: {command: []}\n",
                 PLAN_FILE ":7: E09 command: expected a list of strings that is not empty, found "
                           "\"claude -p\"; like [program, --flag]: there is no shell\n" PLAN_FILE
                           ":8: E09 command: expected a list of strings that is not empty, found "
                           "an empty list; like [program, --flag]: there is no shell\n");
    plans_expect(&place,
                 PLAN_HEAD "belay:\n  player: {command: [\"s\\0h\"]}\n  coach: {command: ['']}\n",
                 PLAN_FILE ":7: E09 command[0]: expected a string, found \"s\\u0000h\"\n" PLAN_FILE
                           ":8: E09 the coach's command has no program\n");
    place_done(&place);
}

static void E09_programs_are_found(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    char expected[1024], path[400];

    plans_make(&place);
    place_write(&place, "bin/play", "#!/bin/sh\n");
    snprintf(expected, sizeof expected,
             PLAN_FILE ":7: E09 the player's program %s/bin/play is not executable\n" PLAN_FILE
                       ":8: E09 the coach's program %s/bin/none does not exist\n",
             place.repository, place.repository);
    plans_expect(&place,
                 PLAN_HEAD "belay:\n  player: {command: [bin/play]}\n"
                           "  coach: {command: [bin/none]}\n",
                 expected);
    plans_expect(&place,
                 PLAN_HEAD "belay:\n  player: {command: [no-such-program-here]}\n"
                           "  coach: {command: [/no/such/program]}\n",
                 PLAN_FILE ":7: E09 the player's program 'no-such-program-here' is not in PATH, or "
                           "not executable\n" PLAN_FILE
                           ":8: E09 the coach's program /no/such/program does not exist\n");
    snprintf(path, sizeof path, "%s/bin/play", place.repository);
    assert_int_equal(chmod(path, 0755), 0);
    plans_accept(&place,
                 PLAN_HEAD "belay:\n  player: {command: [bin/play, -x]}\n"
                           "  coach: {command: [/bin/sh]}\n",
                 &loaded);
    assert_string_equal(loaded.plan->tasks[0].player.command[0], path);
    assert_string_equal(loaded.plan->tasks[0].player.command[1], "-x");
    assert_int_equal(loaded.plan->tasks[0].player.grace_ns, 2 * BL_NS_PER_S);
    assert_int_equal(loaded.plan->tasks[0].player.sandbox, BL_SANDBOX_OFF);
    assert_int_equal(loaded.plan->tasks[0].coach.kind, BL_SEAT_COMMAND);
    plans_done(&loaded);
    place_done(&place);
}

static const char *one_key(const char *name)
{
    return strcmp(name, "ANTHROPIC_API_KEY") == 0 ? "not-a-real-key" : NULL;
}

static void E09_providers_personas_and_scripts_are_known(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    struct bl_arena arena;
    struct bl_list personas, notices;
    struct bl_config *config = NULL;
    char yaml[1024];

    plans_make(&place);
    bl_arena_init(&arena);
    bl_list_init(&notices);
    bl_personas_find(&arena, place.repository, &personas, &notices);
    struct bl_config_options reading = {.directory = place.repository, .variable = one_key};
    assert_int_equal(bl_config_read(&reading, &config, NULL), 0);
    struct bl_plan_options options = {
        .name = "FEAT-A", .directory = place.repository, .config = config, .personas = &personas};
    snprintf(yaml, sizeof yaml,
             PLAN_HEAD "belay:\n  player: {provider: antropic, model: x, persona: workr}\n"
                       "  coach: {provider: script, model: none.yaml}\n");
    place_write(&place, PLAN_FILE, yaml);
    plans_task(&place, "A", "belay: {player: {provider: script}, coach: {provider: replay}}\n");
    plans_load(&place, &options, &loaded);
    assert_int_equal(loaded.code, BL_EINVAL);
    struct bl_text text = bl_buffer_text(&loaded.text);
    expect_in(text, PLAN_FILE ":7: E09 the player's persona 'workr' is unknown. Did you mean "
                              "'worker'?\n");
    expect_in(text, PLAN_FILE ":7: E09 the player: ");
    expect_in(text, "antropic");
    expect_in(text, PLAN_FILE ":8: E09 the coach's script ");
    expect_in(text, "/repo/none.yaml does not exist\n");
    expect_in(text,
              "tasks/A.md:4: E09 the player's provider is script, but model: FILE is missing\n");
    expect_in(text, "tasks/A.md:4: E09 the coach cannot use provider 'replay'");
    plans_done(&loaded);
    plans_task(&place, "A", "");
    place_write(&place, "play.yaml", "steps: []\n");
    place_write(&place, PLAN_FILE,
                PLAN_HEAD "belay:\n  player: {provider: script, model: play.yaml}\n"
                          "  coach: {provider: anthropic, model: some-model, persona: explore}\n");
    plans_load(&place, &options, &loaded);
    assert_int_equal(loaded.code, 0);
    snprintf(yaml, sizeof yaml, "%s/play.yaml", place.repository);
    assert_string_equal(loaded.plan->tasks[0].player.model, yaml);
    plans_done(&loaded);
    bl_config_free(config);
    bl_arena_done(&arena);
    place_done(&place);
}

static void seats_have_defaults_and_are_inherited(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    plans_accept(&place, PLAN_HEAD, &loaded);
    const struct bl_seat *player = &loaded.plan->tasks[0].player;
    const struct bl_seat *coach = &loaded.plan->tasks[0].coach;
    assert_int_equal(player->kind, BL_SEAT_AGENT);
    assert_null(player->provider);
    assert_string_equal(player->persona, "worker");
    assert_int_equal(player->permission, BL_PERMISSION_AUTO);
    assert_int_equal(player->max_steps, 200);
    assert_false(player->sandbox_chosen);
    assert_string_equal(coach->persona, "review");
    assert_int_equal(coach->permission, BL_PERMISSION_READ_ONLY);
    plans_done(&loaded);
    plans_task(&place, "A",
               "belay: {player: {max_steps: 9}, coach: {persona: worker, permission: auto}}\n");
    plans_task(&place, "B", "belay: {player: {provider: other}, coach: {grace: 5s}}\n");
    plans_accept(&place,
                 PLAN_HEAD "belay: {player: {provider: one, model: m, max_steps: 5},\n"
                           "  coach: {command: [sh, -c], sandbox: read-only}}\n",
                 &loaded);
    player = &loaded.plan->tasks[0].player;
    coach = &loaded.plan->tasks[0].coach;
    assert_string_equal(player->provider, "one");
    assert_string_equal(player->model, "m");
    assert_int_equal(player->max_steps, 9);
    /* The other kind of seat inherits nothing from the command. */
    assert_int_equal(coach->kind, BL_SEAT_AGENT);
    assert_null(coach->command);
    assert_false(coach->sandbox_chosen);
    assert_int_equal(coach->permission, BL_PERMISSION_AUTO);
    /* A model belongs to the provider declared with it. */
    player = &loaded.plan->tasks[1].player;
    coach = &loaded.plan->tasks[1].coach;
    assert_string_equal(player->provider, "other");
    assert_null(player->model);
    assert_int_equal(player->max_steps, 5);
    assert_int_equal(coach->kind, BL_SEAT_COMMAND);
    assert_int_equal(coach->grace_ns, 5 * BL_NS_PER_S);
    assert_int_equal(coach->sandbox, BL_SANDBOX_READ_ONLY);
    plans_done(&loaded);
    place_done(&place);
}

SUITE(plan_check, cmocka_unit_test(E02_feature_has_id_name_and_tasks),
      cmocka_unit_test(E08_unknown_words_and_keys_suggest),
      cmocka_unit_test(E08_gate_follows_an_existing_wave),
      cmocka_unit_test(E07_numbers_of_the_gate_are_in_range),
      cmocka_unit_test(E10_commands_are_not_empty),
      cmocka_unit_test(E10_required_verification_has_commands),
      cmocka_unit_test(verify_is_inherited_key_by_key),
      cmocka_unit_test(W_similar_keys_and_names_are_warnings),
      cmocka_unit_test(E09_seat_has_exactly_one_kind), cmocka_unit_test(E09_programs_are_found),
      cmocka_unit_test(E09_providers_personas_and_scripts_are_known),
      cmocka_unit_test(seats_have_defaults_and_are_inherited));
