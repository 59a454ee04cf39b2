#include "figure.h"
#include "talk.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char key[] = "sk-the-key-of-this-test";

#define PROVIDER "providers: {near: {api: anthropic, base_url: 'ADDRESS', key_env: NEAR_PLACE}}\n"
#define CONFIG                                                                                     \
    PROVIDER                                                                                       \
    "models:\n"                                                                                    \
    "  free: {provider: near, model: m-free, free: true}\n"                                        \
    "  dear: {provider: near, model: m-dear, max_output_tokens: 1000,\n"                           \
    "         price: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}\n"

static const char *const keyed[] = {"NEAR_PLACE=sk-the-key-of-this-test", NULL};

static const char *const hello[] = {TALK_TEXT("hello"), NULL};

/* ---- The choice ------------------------------------------------------------------------------ */

static void the_envelope_names_provider_and_model(void **state)
{
    static struct talk call = {.answers = hello, .config = CONFIG, .environment = keyed};

    (void)state;
    call.arguments = TALK_WORDS("run", "--model", "free", "--json", "hi");
    talk(&call);
    const struct bl_json *answer = stage_answer(&call.run, "run", 0);
    assert_string_equal(stage_text_at(answer, "/provider"), "near");
    assert_string_equal(stage_text_at(answer, "/model"), "m-free");
    assert_string_equal(stage_text_at(answer, "/turns/0/output"), "hello");
    assert_int_equal(call.requests, 1);
    assert_non_null(strstr(call.heads[0], "POST /v1/messages "));
    assert_non_null(strstr(call.heads[0], key));
    assert_non_null(strstr(call.heads[0], "\"model\":\"m-free\""));
}

static void first_source_of_a_model_wins(void **state)
{
    static const char config[] = "model: near/users\n" CONFIG;
    static struct talk call = {.answers = hello, .config = config};
    static const char *const with_model[] = {"NEAR_PLACE=sk-the-key-of-this-test",
                                             "BELAY_MODEL=near/environments", NULL};

    (void)state;
    call.environment = keyed;
    call.arguments = TALK_WORDS("run", "hi");
    talk(&call);
    assert_non_null(strstr(call.heads[0], "\"model\":\"users\""));
    assert_int_equal(mkdir(stage_path("work/.belay"), 0700), 0);
    stage_file(".belay/config.yaml", "model: free\n");
    talk(&call);
    assert_non_null(strstr(call.heads[0], "\"model\":\"m-free\""));
    call.environment = with_model;
    talk(&call);
    assert_non_null(strstr(call.heads[0], "\"model\":\"environments\""));
    call.arguments = TALK_WORDS("run", "hi", "--model", "near/flags");
    talk(&call);
    assert_non_null(strstr(call.heads[0], "\"model\":\"flags\""));
    assert_string_equal(call.run.out, "hello\n");
    assert_string_equal(call.run.err, "");
}

static void a_key_alone_is_not_a_model(void **state)
{
    static struct run run;

    (void)state;
    runner_run_with(&run, TALK_WORDS("run", "--json", "hi"), TALK_WORDS("ANTHROPIC_API_KEY=sk-x"),
                    RUN_KEEP);
    const struct bl_json *answer = stage_answer(&run, "run", 2);
    assert_string_equal(stage_text_at(answer, "/error/message"),
                        "no model is chosen for the provider 'anthropic'");
    assert_false(stage_exists(stage_path("data/belay")));
}

static void nothing_is_sent_without_a_key(void **state)
{
    static struct talk call = {.config = CONFIG};

    (void)state;
    call.arguments = TALK_WORDS("run", "--model", "free", "--json", "hi");
    talk(&call);
    const struct bl_json *answer = stage_answer(&call.run, "run", 1);
    assert_string_equal(stage_text_at(answer, "/error/kind"), "auth");
    assert_string_equal(stage_text_at(answer, "/error/hint"),
                        "set NEAR_PLACE, or run belay login near");
    assert_int_equal(call.connections, 0);
}

/* ---- Money ----------------------------------------------------------------------------------- */

static void P43_a_limit_without_a_known_price_sends_nothing(void **state)
{
    static struct talk call = {.answers = hello, .config = CONFIG, .environment = keyed};

    (void)state;
    call.arguments =
        TALK_WORDS("run", "--model", "near/unknown", "--max-budget-usd", "5", "--json", "hi");
    talk(&call);
    const struct bl_json *answer = stage_answer(&call.run, "run", 2);
    assert_string_equal(stage_text_at(answer, "/error/kind"), "usage");
    assert_string_equal(stage_text_at(answer, "/error/target"), "--max-budget-usd");
    assert_int_equal(call.connections, 0);
    assert_false(stage_exists(stage_path("data/belay")));
    call.arguments = TALK_WORDS("run", "--model", "free", "--max-budget-usd", "0", "--json", "hi");
    talk(&call);
    answer = stage_answer(&call.run, "run", 0);
    assert_int_equal(stage_number_at(answer, "/spent/cost_usd"), 0);
    assert_int_equal(call.requests, 1);
}

static void request_that_could_exceed_the_cost_limit_is_not_sent(void **state)
{
    static struct talk call = {.answers = hello, .config = CONFIG, .environment = keyed};

    (void)state;
    call.arguments =
        TALK_WORDS("run", "--model", "dear", "--max-budget-usd", "0.000001", "--json", "hi");
    talk(&call);
    const struct bl_json *answer = stage_answer(&call.run, "run", 3);
    assert_string_equal(stage_text_at(answer, "/final_stop_reason"), "max_budget_reached");
    for (unsigned i = 0; i < call.requests; i++)
        assert_null(strstr(call.heads[i], "POST /v1/messages HTTP"));
    call.arguments = TALK_WORDS("run", "--model", "dear", "--max-budget-usd", "1", "--json", "hi");
    talk(&call);
    answer = stage_answer(&call.run, "run", 0);
    double cost;
    assert_true(bl_json_double(bl_json_pointer(answer, BL_TEXT("/spent/cost_usd")), &cost));
    assert_true(cost > 0.0000959 && cost < 0.0000961); /* 12 in at 3, 4 out at 15 */
}

static void the_limit_is_in_what_bootstrap_reports(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "bootstrap", "hi", "--max-budget-usd", "0.25", "--json");
    double limit;
    assert_true(bl_json_double(
        bl_json_pointer(stage_answer(&run, "bootstrap", 0), BL_TEXT("/limits/max_budget_usd")),
        &limit));
    assert_true(limit > 0.24 && limit < 0.26);
    RUN(&run, "bootstrap", "hi", "--max-budget-usd", "0.25");
    assert_non_null(strstr(run.out, "Limits        0.25 USD\n"));
    RUN(&run, "bootstrap", "hi", "--json");
    assert_true(stage_null_at(stage_answer(&run, "bootstrap", 0), "/limits/max_budget_usd"));
}

/* ---- Secrets --------------------------------------------------------------------------------- */

/* Returns the number of files below the folder that contain the text. */
static unsigned files_with(const char *folder, const char *text)
{
    DIR *directory = opendir(folder);
    unsigned count = 0;

    if (directory == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *path = stage_printf("%s/%s", folder, entry->d_name);
        struct stat status;
        if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
            continue;
        struct bl_text data = suite_read_file(path);
        count += memmem(data.data, data.size, text, strlen(text)) != NULL;
        bl_free((void *)data.data);
    }
    closedir(directory);
    return count;
}

static void P45_the_key_is_in_no_output_event_store_or_tool(void **state)
{
    static const char *const answers[] = {
        TALK_BASH("env; tr '\\\\\\\\0' '\\\\\\\\n' </proc/self/environ"), TALK_TEXT("done"), NULL};
    static struct talk call = {.answers = answers, .config = CONFIG, .environment = keyed};

    (void)state;
    call.arguments = TALK_WORDS("run", "--model", "free", "--yolo", "--sandbox", "off",
                                "--output-format", "stream-json", "show the environment");
    talk(&call);
    assert_int_equal(call.run.exit_code, 0);
    assert_int_equal(call.requests, 2);
    assert_non_null(strstr(call.heads[0], key));
    /* The tool has printed its environment, without the key. */
    assert_non_null(strstr(call.run.out, "XDG_DATA_HOME="));
    assert_null(strstr(call.run.out, "NEAR_PLACE"));
    assert_null(strstr(call.run.out, key));
    assert_null(strstr(call.run.err, key));
    const char *body = strstr(call.heads[1], "\r\n\r\n");
    assert_non_null(body);
    assert_non_null(strstr(body, "XDG_DATA_HOME="));
    assert_null(strstr(body, key));
    assert_true(files_with(stage_path("data/belay"), "show the environment") > 0);
    assert_int_equal(files_with(stage_path("data/belay"), key), 0);
}

static void P45_a_project_file_with_an_address_is_refused(void **state)
{
    static struct talk call = {.answers = hello, .config = CONFIG, .environment = keyed};

    (void)state;
    assert_int_equal(mkdir(stage_path("work/.belay"), 0700), 0);
    stage_file(".belay/config.yaml",
               "model: free\nproviders: {near: {base_url: 'http://127.0.0.1:9'}}\n");
    call.arguments = TALK_WORDS("run", "--model", "free", "--json", "hi");
    talk(&call);
    const struct bl_json *answer = stage_answer(&call.run, "run", 1);
    assert_string_equal(stage_text_at(answer, "/error/kind"), "policy");
    assert_non_null(strstr(stage_text_at(answer, "/error/message"), ".belay/config.yaml:2:1: "));
    assert_int_equal(call.connections, 0);
}

/* ---- Stops ----------------------------------------------------------------------------------- */

static void P7_a_deadline_against_a_silent_server(void **state)
{
    static struct talk call = {.config = CONFIG, .environment = keyed};

    (void)state;
    call.arguments = TALK_WORDS("run", "--model", "free", "--timeout", "300ms", "--json", "hi");
    talk(&call);
    const struct bl_json *answer = stage_answer(&call.run, "run", 124);
    assert_string_equal(stage_text_at(answer, "/final_stop_reason"), "timeout");
    assert_string_equal(stage_text_at(answer, "/receipt/reason"), "timeout");
    assert_string_equal(stage_text_at(answer, "/provider"), "near");
    assert_null(strstr(call.run.out, key));
    if (call.requests > 0)
        assert_non_null(strstr(call.run.out, "before headers"));
    assert_true(figure_between("P7 end at a deadline of 300 ms",
                               (double)(call.run.to_ns - call.run.from_ns) / BL_NS_PER_MS, 300,
                               350));
}

static void P8_the_first_request_is_sent_right_after_the_start(void **state)
{
    static struct talk call = {.answers = hello, .config = CONFIG, .environment = keyed};

    (void)state;
    call.arguments = TALK_WORDS("run", "--model", "free", "hi");
    /* The first run creates the store. */
    for (unsigned i = 0; i < (figure_taking() ? 20 : 2); i++) {
        talk(&call);
        assert_int_equal(call.run.exit_code, 0);
        assert_int_equal(call.requests, 1);
        assert_true(call.first_byte_ns > call.run.from_ns && call.first_byte_ns < call.run.to_ns);
        if (i > 0)
            assert_true(
                figure_at_most("P8 start of belay run to its first request byte",
                               (double)(call.first_byte_ns - call.run.from_ns) / BL_NS_PER_MS, 15));
    }
}

static void a_stop_while_the_key_is_fetched_names_the_model(void **state)
{
    static const char config[] =
        "providers: {near: {api: anthropic, base_url: 'ADDRESS', key_command: 'sleep 100'}}\n";
    static struct talk call = {.config = config};

    (void)state;
    /* If the time is too short, the run ends before the model is chosen. */
    for (unsigned attempt = 0; strstr(call.run.out, "\"provider\":\"near\"") == NULL; attempt++) {
        call.arguments = TALK_WORDS("run", "--model", "near/m", "--timeout", stage_timeout(attempt),
                                    "--json", "hi");
        talk(&call);
    }
    const struct bl_json *answer = stage_answer(&call.run, "run", 124);
    assert_string_equal(stage_text_at(answer, "/provider"), "near");
    assert_string_equal(stage_text_at(answer, "/model"), "m");
    assert_int_equal(call.connections, 0);
}

/* ---- Cassettes ------------------------------------------------------------------------------- */

static size_t check_tape(struct bl_text tape)
{
    struct bl_text line;
    size_t count = 0;

    while (bl_text_split(&tape, '\n', &line)) {
        if (line.size == 0)
            continue;
        runner_check_schema("cassette-line", stage_printf(BL_TEXT_FORMAT, BL_TEXT_ARG(line)));
        count++;
    }
    return count;
}

static void recording_is_replayed_without_a_network(void **state)
{
    static struct talk call = {.answers = hello, .config = CONFIG, .environment = keyed};
    static struct run run;
    struct stat status;

    (void)state;
    call.arguments =
        TALK_WORDS("run", "--model", "near/some-model", "--record", "tape.jsonl", "say hello");
    talk(&call);
    assert_string_equal(call.run.out, "hello\n");
    assert_string_equal(call.run.err, "");
    assert_int_equal(stat("tape.jsonl", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    struct bl_text tape = suite_read_file("tape.jsonl");
    assert_null(memmem(tape.data, tape.size, key, strlen(key)));
    assert_int_equal(check_tape(tape), 2);
    bl_free((void *)tape.data);
    /* The server has exited, and no option names the model. */
    RUN(&run, "run", "--provider", "replay", "--cassette", "tape.jsonl", "--json", "say hello");
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    assert_string_equal(stage_text_at(answer, "/turns/0/output"), "hello");
    assert_string_equal(stage_text_at(answer, "/model"), "some-model");
    RUN(&run, "run", "--provider", "replay", "--cassette", "tape.jsonl", "--model",
        "near/some-model", "say hello");
    assert_string_equal(run.out, "hello\n");
    RUN(&run, "run", "--provider", "replay", "--cassette", "tape.jsonl", "--json", "say bye");
    answer = stage_answer(&run, "run", 1);
    assert_non_null(strstr(run.out, "no_match"));
}

static void cassettes_are_used_as_they_are_meant(void **state)
{
    static struct run run;
    const struct {
        const char *const *words;
        const char *part;
    } cases[] = {
        {TALK_WORDS("run", "hi", "--provider", "replay", "--model", "ollama/m"),
         "--provider replay needs a cassette"},
        {TALK_WORDS("run", "hi", "--provider", "script", "--cassette", "x"),
         "--cassette works only with --provider replay"},
        {TALK_WORDS("run", "hi", "--provider", "script", "--record", "x"),
         "the script model sends no requests to record"},
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        runner_run_with(&run, cases[i].words, NULL, RUN_KEEP);
        assert_int_equal(run.exit_code, 2);
        if (strstr(run.err, cases[i].part) == NULL)
            fail_msg("%s", run.err);
    }
    assert_false(stage_exists("x"));
    stage_file("taken", "");
    runner_run_with(&run, TALK_WORDS("run", "hi", "--model", "ollama/m", "--record", "taken"), NULL,
                    RUN_KEEP);
    assert_int_not_equal(run.exit_code, 0);
    RUN(&run, "run", "hi", "--provider", "replay", "--cassette", "taken");
    assert_int_not_equal(run.exit_code, 0);
    assert_string_equal(run.out, "");
}

SUITE(run_model, STAGED(the_envelope_names_provider_and_model),
      STAGED(first_source_of_a_model_wins), STAGED(a_key_alone_is_not_a_model),
      STAGED(nothing_is_sent_without_a_key),
      STAGED(P43_a_limit_without_a_known_price_sends_nothing),
      STAGED(request_that_could_exceed_the_cost_limit_is_not_sent),
      STAGED(the_limit_is_in_what_bootstrap_reports),
      STAGED(P45_the_key_is_in_no_output_event_store_or_tool),
      STAGED(P45_a_project_file_with_an_address_is_refused),
      STAGED(P7_a_deadline_against_a_silent_server),
      STAGED(P8_the_first_request_is_sent_right_after_the_start),
      STAGED(a_stop_while_the_key_is_fetched_names_the_model),
      STAGED(recording_is_replayed_without_a_network),
      STAGED(cassettes_are_used_as_they_are_meant));
