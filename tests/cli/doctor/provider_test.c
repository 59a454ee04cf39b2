#include "talk.h"

#include <signal.h>
#include <stdio.h>

#include "cli/doctor/provider.h"

static const char config[] =
    "providers: {near: {api: anthropic, base_url: 'ADDRESS', key_env: NEAR_PLACE}}\n"
    "models:\n"
    "  dear: {provider: near, model: m, thinking: 4000, max_output_tokens: 9000,\n"
    "         price: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}\n";
static const char *const keyed[] = {"NEAR_PLACE=sk-the-key-of-this-test", NULL};
static const char *const ok[] = {TALK_TEXT("ok"), NULL};

static void an_answer_is_reported_with_what_it_cost(void **state)
{
    static struct talk call = {.answers = ok, .config = config, .environment = keyed};
    double cost;

    (void)state;
    call.arguments = TALK_WORDS("doctor", "--model", "dear", "--json");
    talk(&call);
    assert_int_equal(call.run.exit_code, 0);
    assert_string_equal(call.run.err, "");
    runner_check_schema("doctor-provider", call.run.out);
    runner_check_schema("envelope", call.run.out);
    const struct bl_json *answer = stage_json(call.run.out);
    assert_string_equal(stage_text_at(answer, "/provider/name"), "near");
    assert_string_equal(stage_text_at(answer, "/provider/model"), "m");
    assert_string_equal(stage_text_at(answer, "/provider/key_source"), "NEAR_PLACE");
    assert_non_null(strstr(stage_text_at(answer, "/provider/address"), "http://127.0.0.1:"));
    assert_int_equal(stage_number_at(answer, "/provider/input_tokens"), 12);
    assert_true(bl_json_double(bl_json_pointer(answer, BL_TEXT("/provider/cost_usd")), &cost));
    assert_true(cost > 0.0000959 && cost < 0.0000961);
    /* The smallest possible answer, without tools and thinking. */
    assert_int_equal(call.requests, 1);
    assert_non_null(strstr(call.heads[0], "\"max_tokens\":16"));
    assert_null(strstr(call.heads[0], "\"tools\""));
    assert_null(strstr(call.heads[0], "\"thinking\""));
    assert_null(strstr(call.run.out, "sk-the-key"));
}

static void an_answer_in_text(void **state)
{
    static struct talk call = {.answers = ok, .config = config, .environment = keyed};

    (void)state;
    call.arguments = TALK_WORDS("doctor", "--provider", "near", "--model", "m");
    talk(&call);
    assert_int_equal(call.run.exit_code, 0);
    assert_non_null(strstr(call.run.out, "Provider  near (anthropic)\n"));
    assert_non_null(strstr(call.run.out, "Key       from NEAR_PLACE\n"));
    assert_non_null(strstr(call.run.out, "Tokens    12 in, 4 out\n"));
    assert_non_null(strstr(call.run.out, "Cost      unknown\n"));
    assert_null(strstr(call.run.out, "sk-the-key"));
}

static const struct bl_json *ask_near(struct talk *call, int exit_code)
{
    static const char *const words[] = {"doctor", "--provider", "near", "--model",
                                        "m",      "--json",     NULL};

    call->arguments = words;
    talk(call);
    assert_int_equal(call->run.exit_code, exit_code);
    runner_check_schema("doctor-provider", call->run.out);
    return stage_json(call->run.out);
}

static void a_refusal_is_reported_with_what_to_do(void **state)
{
    static const char *const answers[] = {
        "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"invalid "
        "x-api-key\"}}",
        NULL};
    static struct talk call = {.answers = answers,
                               .status = "401 Unauthorized",
                               .type = "application/json",
                               .config = config,
                               .environment = keyed};

    (void)state;
    const struct bl_json *answer = ask_near(&call, 1);
    assert_false(stage_true_at(answer, "/provider/answered"));
    assert_string_equal(stage_text_at(answer, "/provider/error/kind"), "auth");
    assert_false(stage_true_at(answer, "/provider/error/retryable"));
    assert_int_equal(call.requests, 1);
    call.arguments = TALK_WORDS("doctor", "--provider", "near", "--model", "m");
    talk(&call);
    assert_int_equal(call.run.exit_code, 1);
    assert_non_null(strstr(call.run.out, "Error     auth"));
    assert_non_null(strstr(call.run.out, "Retry     does not help\n"));
    assert_string_equal(call.run.err, "");
}

static void a_key_that_is_missing_is_reported(void **state)
{
    static struct talk call = {.config = config};

    (void)state;
    const struct bl_json *answer = ask_near(&call, 1);
    assert_string_equal(stage_text_at(answer, "/provider/error/kind"), "auth");
    assert_true(stage_null_at(answer, "/provider/key_source"));
    assert_int_equal(call.connections, 0);
}

static void a_signal_stops_it(void **state)
{
    static struct talk call = {.config = config, .environment = keyed, .signal = SIGINT};

    (void)state;
    ask_near(&call, 130);
    assert_int_equal(call.requests, 1);
    call.signal = SIGTERM;
    talk(&call);
    assert_int_equal(call.run.exit_code, 143);
}

static void the_script_model_answers_too(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "doctor", "--provider", "script", "--json");
    assert_int_equal(run.exit_code, 0);
    runner_check_schema("doctor-provider", run.out);
    assert_true(stage_null_at(stage_json(run.out), "/provider/address"));
}

static void a_wrong_choice_is_a_usage_error(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "doctor", "--provider", "antropic");
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(
        run.err, "belay doctor: unknown provider 'antropic'\nhint: did you mean 'anthropic'?\n");
    RUN(&run, "doctor", "--provider", "replay", "--model", "ollama/m");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "doctor", "--provider", "openai", "--json");
    assert_int_equal(run.exit_code, 2);
    runner_check_schema("envelope", run.out);
    RUN(&run, "doctor", "extra");
    assert_int_equal(run.exit_code, 2);
}

SUITE(doctor_provider, STAGED(an_answer_is_reported_with_what_it_cost), STAGED(an_answer_in_text),
      STAGED(a_refusal_is_reported_with_what_to_do), STAGED(a_key_that_is_missing_is_reported),
      STAGED(a_signal_stops_it), STAGED(the_script_model_answers_too),
      STAGED(a_wrong_choice_is_a_usage_error));
