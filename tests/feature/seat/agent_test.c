#include "peer.h"
#include "seat_rig.h"

#define RESULT "```json\\n{\\\"summary\\\":\\\"ok\\\"}\\n```"

/* Makes the seat an agent that plays this script. */
static void set_script(struct rig *rig, const char *script)
{
    rig_write(rig, "script.yaml", script);
    rig->seat = (struct bl_seat){
        .kind = BL_SEAT_AGENT,
        .provider = "script",
        .model = bl_arena_printf(&rig->arena, "%s/script.yaml", rig->place.root).data,
        .persona = "worker",
        .permission = BL_PERMISSION_YOLO,
        .max_steps = BL_UNLIMITED,
        .sandbox_chosen = true,
    };
}

static void play(struct rig *rig, const char *script)
{
    set_script(rig, script);
    rig_run(rig);
}

static uint64_t session_turns(struct rig *rig, const char *id)
{
    struct bl_store_session_view view = {0};
    struct bl_error *error = bl_zalloc(sizeof *error);

    CHECK_EQUAL(bl_store_show(rig->store, &rig->arena, id, &view, error), 0);
    bl_free(error);
    return view.turn_count;
}

/* ---- A whole run ----------------------------------------------------------------------------- */

PLAY_STORED(agent_works_in_its_directory_and_its_last_block_is_the_result)
{
    play(rig,
         "replies:\n"
         "  - {say: looking, tools: [{name: bash, input: {command: 'echo hi > made; echo out'}}],"
         " usage: {input: 10, output: 5}}\n"
         "  - {say: \"Done.\\n" RESULT "\", usage: {input: 20, output: 7}}\n");
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK_EQUAL(rig->outcome.exit_code, 0);
    CHECK(rig_has_file(rig, "made"));
    CHECK(bl_text_equal(bl_text_trim(rig->outcome.result), BL_TEXT("{\"summary\":\"ok\"}")));
    CHECK(bl_text_starts_with(rig->outcome.text, BL_TEXT("Done.\n")));
    CHECK(rig->outcome.usage_known);
    CHECK_EQUAL(bl_usage_total(&rig->outcome.spent.usage), 42);
    CHECK_EQUAL(rig->tokens, 42);
    CHECK(rig->outcome.session[0] != '\0');
    struct bl_text heard = bl_buffer_text(&rig->heard);
    CHECK(has(heard, "looking") && has(heard, "> bash {") && has(heard, "out\n"));
    CHECK(has(bl_text_from(rig->doing), "model,tool bash,model,"));
    CHECK(bl_list_empty(&rig->activities.list));
}

PLAY_STORED(answer_that_is_one_object_is_the_result_and_prose_is_not)
{
    play(rig, "replies: [{say: '{\"task\":\"T\"}'}]\n");
    CHECK(bl_text_equal(rig->outcome.result, BL_TEXT("{\"task\":\"T\"}")));
    play(rig, "replies: [{say: I think it is fine.}]\n");
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK_EQUAL(rig->outcome.result.size, 0);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

PLAY_STORED(agent_keeps_its_session_over_turns)
{
    char session[72];

    play(rig, "replies: [{say: one}]\n");
    bl_text_into(session, sizeof session, rig->outcome.session);
    rig->order.session = session;
    play(rig, "replies: [{say: two}]\n");
    CHECK(strcmp(rig->outcome.session, session) == 0);
    CHECK_EQUAL(session_turns(rig, session), 2);
    rig->order.session = NULL;
    play(rig, "replies: [{say: three}]\n");
    CHECK(strcmp(rig->outcome.session, session) != 0);
    CHECK_EQUAL(session_turns(rig, session), 2);
}

PLAY_STORED(missing_session_is_replaced_by_a_new_one)
{
    rig->order.session = "gone-with-the-wind";
    play(rig, "replies: [{say: one}]\n");
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK(strcmp(rig->outcome.session, "gone-with-the-wind") != 0);
    CHECK_EQUAL(session_turns(rig, rig->outcome.session), 1);
}

PLAY_STORED(stopped_turn_leaves_the_session_unchanged)
{
    char session[72];

    play(rig, "replies: [{say: one}]\n");
    bl_text_into(session, sizeof session, rig->outcome.session);
    rig->order.session = session;
    rig_stop_on(rig, "half");
    play(rig, "replies: [{say: half of it, pieces: 1, wedge: after_first_token}]\n");
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    CHECK(strcmp(rig->outcome.session, session) == 0);
    CHECK_EQUAL(session_turns(rig, session), 1);
}

/* ---- Permissions ----------------------------------------------------------------------------- */

#define WRITING                                                                                    \
    "replies:\n"                                                                                   \
    "  - {tools: [{name: write, input: {path: evil, content: x}}]}\n"                              \
    "  - {tools: [{name: bash, input: {command: 'echo x > worse'}}]}\n"                            \
    "  - {tools: [{name: read, input: {path: README.md}}]}\n"                                      \
    "  - say: \"" RESULT "\"\n"

PLAY_STORED(read_only_coach_cannot_write)
{
    set_script(rig, WRITING);
    rig->order.coach = true;
    rig->seat.permission = BL_PERMISSION_READ_ONLY;
    rig->seat.sandbox_chosen = false;
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK(rig->outcome.result.size > 0);
    CHECK(!rig_has_file(rig, "evil") && !rig_has_file(rig, "worse"));
    /* The other persona does not have the tool. */
    rig->seat.persona = "explore";
    rig->seat.permission = BL_PERMISSION_YOLO;
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK(!rig_has_file(rig, "evil") && !rig_has_file(rig, "worse"));
}

PLAY_STORED(rules_of_the_settings_apply)
{
    static const char *const deny[] = {"write", NULL};

    rig->project.settings.deny = deny;
    play(rig, WRITING);
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK(!rig_has_file(rig, "evil"));
    CHECK(rig_has_file(rig, "worse"));
}

PLAY_STORED(git_folder_is_read_only_in_a_sandbox)
{
    struct bl_container_check *check = bl_zalloc(sizeof *check);

    bl_sandbox_check(check);
    bool available = check->available;
    bl_free(check);
    if (!available) {
        print_message("no sandbox here\n");
        return;
    }
    set_script(rig, bl_arena_printf(&rig->arena,
                                    "replies:\n  - {tools: [{name: bash, input: {command: 'test -e "
                                    "%s/HEAD && touch inside; touch %s/x'}}]}\n  - say: done\n",
                                    rig->git_folder, rig->git_folder)
                        .data);
    rig->order.directory = rig->results;
    rig->seat.permission = BL_PERMISSION_AUTO;
    rig->seat.sandbox_chosen = false;
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK(rig_has_file(rig, "../results/inside"));
    CHECK(!rig_has_file(rig, ".git/x"));
}

/* ---- Ends ------------------------------------------------------------------------------------ */

PLAY_STORED(turn_continues_after_the_last_step)
{
    set_script(rig, "replies:\n  - {tools: [{name: ls}]}\n  - {tools: [{name: ls}]}\n"
                    "  - say: done\n");
    rig->seat.max_steps = 1;
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK_EQUAL(rig->outcome.exit_code, 1);
}

PLAY_STORED(used_up_budget_is_reported)
{
    struct bl_budget budget = {.limit = 50};

    rig->order.budget = &budget;
    play(rig, "replies:\n  - {tools: [{name: ls}], usage: {input: 40, output: 9}}\n"
              "  - {say: done, usage: {input: 40, output: 9}}\n");
    CHECK_EQUAL(rig->outcome.end, SEAT_FAILED);
    CHECK(rig->outcome.over_budget);
    CHECK(rig->outcome.error.message[0] != '\0');
    CHECK(budget.used >= 49);
    CHECK_EQUAL(budget.reserved, 0);
    CHECK_EQUAL(bl_usage_total(&rig->outcome.spent.usage), budget.used);
}

PLAY_STORED(model_failure_is_reported_with_its_error)
{
    play(rig, "replies: [{error: {status: 400, message: bad idea}}]\n");
    CHECK_EQUAL(rig->outcome.end, SEAT_FAILED);
    CHECK(!rig->outcome.over_budget);
    CHECK_EQUAL(rig->outcome.error.kind, BL_KIND_PROVIDER);
    CHECK(has(bl_text_from(rig->outcome.error.message), "bad idea"));
}

PLAY_STORED(agent_that_cannot_start_reports_why)
{
    set_script(rig, "replies: [{say: one}]\n");
    rig->seat.model = "/nonexistent/script.yaml";
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_UNSTARTED);
    CHECK(has(bl_text_from(rig->outcome.error.message), "/nonexistent/script.yaml"));
    set_script(rig, "replies: {}\n");
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_UNSTARTED);
    CHECK_EQUAL(rig->outcome.error.code, BL_EPARSE);
    set_script(rig, "replies: [{say: one}]\n");
    rig->seat.persona = "nobody";
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_UNSTARTED);
    CHECK(has(bl_text_from(rig->outcome.error.message), "nobody"));
    rig->seat.persona = "worker";
    rig->seat.provider = rig->seat.model = NULL;
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_UNSTARTED);
    CHECK(has(bl_text_from(rig->outcome.error.message), "no model is configured for the player"));
    rig->seat.provider = "elsewhere";
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_UNSTARTED);
    CHECK_EQUAL(rig->outcome.error.kind, BL_KIND_USAGE);
}

/* ---- Stops ----------------------------------------------------------------------------------- */

PLAY_STORED(stop_cuts_the_model_and_keeps_its_output)
{
    rig_stop_on(rig, "half");
    play(rig,
         "replies: [{say: half of what it had to say, pieces: 1, wedge: after_first_token}]\n");
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    CHECK(has(rig->outcome.text, "half"));
    CHECK_EQUAL(rig->outcome.result.size, 0);
    struct bl_text receipt = rig_receipt(rig);
    CHECK(has(receipt, "\"kind\":\"agent\""));
    CHECK(has(receipt, "\"name\":\"player\""));
    CHECK(has(receipt, rig->task));
    CHECK(has(receipt, "\"kind\":\"model\""));
    CHECK(has(receipt, "\"survivors\":0"));
}

PLAY_STORED(stop_kills_processes_of_a_tool)
{
    rig_stop_on(rig, "below");
    play(rig, "replies: [{tools: [{name: bash, input: {command: \"trap '' TERM; setsid sh -c 'trap "
              "\\\"\\\" TERM; printf be%s low; sleep 61.7' & sleep 61.7\"}}]}]\n");
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    struct bl_text receipt = rig_receipt(rig);
    CHECK(has(receipt, "\"kind\":\"tool\""));
    CHECK(has(receipt, "\"fate\":\"killed\""));
    CHECK(has(receipt, "\"survivors\":0"));
    CHECK(bl_list_empty(&rig->activities.list));
}

PLAY_STORED(deadline_stops_an_agent_and_a_stopped_scope_starts_none)
{
    bl_scope_set_deadline(&rig->scope, bl_now_ns() + 200 * MS);
    play(rig, "replies: [{wedge: before_first_token}]\n");
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    CHECK(has(rig_receipt(rig), "\"reason\":\"timeout\""));
    play(rig, "replies: [{tools: [{name: bash, input: {command: touch late}}]}]\n");
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    CHECK(!rig_has_file(rig, "late"));
}

/* The scope's deadline falls at some moment of its start, its work or its end. */
PLAY_STORED(stop_of_an_agent_at_any_moment_leaves_nothing)
{
    unsigned long rounds = suite_rounds(15, 1000), ended = 0;
    struct bl_random random;

    bl_random_seed(&random, 11);
    set_script(rig,
               "replies:\n  - {tools: [{name: bash, input: {command: sleep 61.9 & sleep 0.005}}]}"
               "\n  - say: '{}'\n");
    uint64_t usual_ns = rig_usual_ns(rig);
    for (unsigned long i = 0; i < rounds; i++) {
        rig_fresh_scope(rig);
        bl_scope_set_deadline(&rig->scope, bl_now_ns() + bl_random_below(&random, 2 * usual_ns));
        rig_run(rig);
        CHECK(rig->outcome.end == SEAT_STOPPED || rig->outcome.end == SEAT_ENDED);
        ended += rig->outcome.end == SEAT_ENDED;
        if (bl_scope_stopped(&rig->scope))
            CHECK(has(rig_receipt(rig), "\"survivors\":0"));
        else
            CHECK(bl_text_equal(rig->outcome.result, BL_TEXT("{}")));
        CHECK(bl_list_empty(&rig->activities.list));
    }
    print_message("%lu of %lu finished\n", ended, rounds);
}

static void stop_and_hurry(struct rig *rig)
{
    rig_stop(rig);
    seat_house_hurry(&rig->house);
}

/* A hook has no grace period to skip; a command of the model has a long one. */
PLAY_STORED(hurry_reaches_the_tools_of_an_agent)
{
    rig->trigger = "ready";
    rig->on_trigger = stop_and_hurry;
    play(rig, "replies: [{tools: [{name: bash, input: {command: \"trap '' TERM; printf rea%s dy; "
              "sleep 61.8\"}}]}]\n");
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    CHECK(has(rig_receipt(rig), "\"survivors\":0"));
    rig_fresh_scope(rig);
    rig_stop_on(rig, "ready");
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
}

static int cancel_main(void *argument)
{
    struct rig *rig = argument;
    struct bl_buffer receipt;

    bl_buffer_init(&receipt, SIZE_MAX);
    while (bl_buffer_text(&rig->heard).size == 0)
        bl_sleep(MS);
    const struct bl_activity *activity =
        BL_CONTAINER(rig->activities.list.next, struct bl_activity, link);
    char id[72];
    bl_text_into(id, sizeof id, activity->id);
    CHECK_EQUAL(bl_activities_cancel(&rig->activities, id, "test", &receipt), 0);
    CHECK(has(bl_buffer_text(&receipt), "\"survivors\":0"));
    bl_buffer_done(&receipt);
    return 0;
}

PLAY_STORED(agent_cancelled_by_its_id_fails_and_its_task_continues)
{
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "cancel", cancel_main, rig, NULL);
    play(rig, "replies: [{say: half of it, pieces: 1, wedge: after_first_token}]\n");
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(rig->outcome.end, SEAT_FAILED);
    CHECK(!bl_scope_stopped(&rig->scope));
    CHECK(has(bl_text_from(rig->outcome.error.message), "by its id"));
}

/* ---- The request ----------------------------------------------------------------------------- */

#define ANSWER                                                                                     \
    "{\"message\":{\"role\":\"assistant\",\"content\":\"{}\"},\"done\":false}\n"                   \
    "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":"        \
    "\"stop\",\"prompt_eval_count\":12,\"eval_count\":3}\n"

static char config_home[340];

static const char *home_variable(const char *name)
{
    return strcmp(name, "XDG_CONFIG_HOME") == 0 ? config_home : NULL;
}

/* Configures a provider at that address. */
static void configure(struct rig *rig, const struct peer *peer)
{
    struct bl_config_options options = {.directory = rig->place.repository,
                                        .variable = home_variable};
    struct bl_error *error = bl_zalloc(sizeof *error);

    snprintf(config_home, sizeof config_home, "%s", rig->place.root);
    CHECK_EQUAL(mkdir(bl_arena_printf(&rig->arena, "%s/belay", rig->place.root).data, 0700), 0);
    rig_write(rig, "belay/config.yaml",
              bl_arena_printf(&rig->arena, "providers: {near: {api: ollama, base_url: '%s'}}\n",
                              peer_url(peer, ""))
                  .data);
    bl_config_free(rig->project.config);
    if (!CHECK_EQUAL(bl_config_read(&options, &rig->project.config, error), 0))
        print_error("%s\n", error->message);
    bl_free(error);
}

PLAY_STORED(provider_gets_persona_instructions_and_tools)
{
    struct peer_act acts[] = {{.type = PEER_READ_REQUEST}, {.type = PEER_SEND}, {.type = PEER_END}};
    struct peer_script script = {acts};
    struct bl_nursery nursery;

    acts[1].bytes = peer_answer(&rig->arena, 200, "application/x-ndjson", NULL, BL_TEXT(ANSWER));
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, &script, 1);
    configure(rig, peer);
    rig_write(rig, "repo/AGENTS.md", "Words of the user.\n");
    CHECK_EQUAL(mkdir(bl_arena_printf(&rig->arena, "%s/copy", rig->place.root).data, 0700), 0);
    rig_write(rig, "copy/AGENTS.md", "Words of a Player.\n");
    rig->order.directory = bl_arena_printf(&rig->arena, "%s/copy", rig->place.root).data;
    rig->seat = (struct bl_seat){.kind = BL_SEAT_AGENT,
                                 .provider = "near",
                                 .model = "m-1",
                                 .persona = "review",
                                 .permission = BL_PERMISSION_READ_ONLY,
                                 .max_steps = BL_UNLIMITED};
    rig->order.coach = true;
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK(bl_text_equal(rig->outcome.result, BL_TEXT("{}")));
    CHECK_EQUAL(bl_usage_total(&rig->outcome.spent.usage), 15);
    struct bl_text body = peer_request_body(peer, 0);
    CHECK(has(body, "the prompt") && has(body, "m-1") && has(body, "You review code"));
    CHECK(has(body, "Words of the user."));
    CHECK(bl_text_find(body, BL_TEXT("Words of a Player.")) < 0);
    CHECK(has(body, "\"grep\""));
    CHECK(bl_text_find(body, BL_TEXT("\"write\"")) < 0);
    rig->order.coach = false;
    rig->seat.persona = "worker";
    rig_run(rig);
    body = peer_request_body(peer, 1);
    CHECK(has(body, "Words of a Player.") && has(body, "\"write\"") && has(body, "\"task\""));
    peer_stop(peer);
    bl_nursery_done(&nursery);
}

SUITE(seat_agent, cmocka_unit_test(agent_works_in_its_directory_and_its_last_block_is_the_result),
      cmocka_unit_test(answer_that_is_one_object_is_the_result_and_prose_is_not),
      cmocka_unit_test(agent_keeps_its_session_over_turns),
      cmocka_unit_test(missing_session_is_replaced_by_a_new_one),
      cmocka_unit_test(stopped_turn_leaves_the_session_unchanged),
      cmocka_unit_test(read_only_coach_cannot_write), cmocka_unit_test(rules_of_the_settings_apply),
      cmocka_unit_test(git_folder_is_read_only_in_a_sandbox),
      cmocka_unit_test(turn_continues_after_the_last_step),
      cmocka_unit_test(used_up_budget_is_reported),
      cmocka_unit_test(model_failure_is_reported_with_its_error),
      cmocka_unit_test(agent_that_cannot_start_reports_why),
      cmocka_unit_test(stop_cuts_the_model_and_keeps_its_output),
      cmocka_unit_test(stop_kills_processes_of_a_tool),
      cmocka_unit_test(deadline_stops_an_agent_and_a_stopped_scope_starts_none),
      cmocka_unit_test(stop_of_an_agent_at_any_moment_leaves_nothing),
      cmocka_unit_test(hurry_reaches_the_tools_of_an_agent),
      cmocka_unit_test(agent_cancelled_by_its_id_fails_and_its_task_continues),
      cmocka_unit_test(provider_gets_persona_instructions_and_tools));
