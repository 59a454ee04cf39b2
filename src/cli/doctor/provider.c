#include "provider.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/answers.h"
#include "cli/cli.h"
#include "cli/signals.h"
#include "runtime/runtime.h"

#define PROBE_NS_MAX (30 * BL_NS_PER_S)
#define PROBE_TOKENS 16u /* the minimum that all formats accept */
#define PROBE_PROMPT "Say ok."
#define TEXT_MAX     ((size_t)64 * 1024)

/* The choice of the model, read on a thread because files may block. Owns its members. */
struct probe_choice {
    char *directory;
    struct bl_config *config;
    struct runtime_choice model;
    int code;
    struct bl_error error;
};

/* The state of the probe, with its report. */
struct probe {
    struct cli_call *call;
    struct probe_choice *choice;
    struct doctor_provider report;
    struct bl_sink sink;
    struct bl_scope scope;
    struct cli_signals signals;
    uint64_t started_ns;
    bool begun; /* a provider was found, so there is something to report */
};

/* ---- The call -------------------------------------------------------------------------------- */

static uint64_t elapsed_ms(const struct probe *probe)
{
    return (bl_now_ns() - probe->started_ns) / BL_NS_PER_MS;
}

static int provider_take(struct bl_sink *sink, const struct bl_piece *piece)
{
    struct probe *probe = BL_CONTAINER(sink, struct probe, sink);
    struct doctor_provider *report = &probe->report;

    if (piece->type == BL_PIECE_RETRY) {
        report->retries = piece->retry.attempt;
        return 0;
    }
    if (!report->first_known)
        report->first_ms = elapsed_ms(probe);
    report->first_known = true;
    if (piece->type == BL_PIECE_USAGE) {
        report->usage_known = true;
        report->estimated = piece->estimated;
        report->usage = piece->usage;
        report->cost_known = piece->cost_known;
        report->cost_usd = piece->cost_usd;
    }
    return 0;
}

static int provider_ask(struct probe *probe, const struct bl_model *model)
{
    struct doctor_provider *report = &probe->report;
    BL_AUTO_ARENA(arena);
    struct bl_session session;
    struct bl_list messages;

    bl_list_init(&messages);
    bl_session_init(&session, "doctor");
    struct bl_message *message = bl_message_add(&arena, &messages, BL_ROLE_USER);
    bl_block_add(&arena, message, BL_BLOCK_TEXT)->text = BL_TEXT(PROBE_PROMPT);
    struct bl_request request = {.session = &session, .messages = &messages};
    probe->sink = (struct bl_sink){.take = provider_take};
    probe->started_ns = bl_now_ns();
    int code = model->call(model->context, &request, &probe->sink, &report->error);
    report->latency_ms = elapsed_ms(probe);
    report->answered = code == 0;
    bl_session_done(&session);
    return code;
}

/* Calls the provider as a run does, with the smallest possible answer. */
static int ask_remote(struct probe *probe)
{
    const struct bl_config_found *found = &probe->choice->model.found;
    struct bl_profile profile = *found->profile;
    struct bl_remote_options options = {
        .provider = found->provider, .profile = &profile, .seed = 1};
    struct bl_remote *remote = NULL;
    struct bl_model model;

    profile.max_output_tokens = PROBE_TOKENS;
    /* Thinking would not fit into such a short answer. */
    profile.thinking = BL_EFFORT_DEFAULT;
    profile.thinking_tokens = 0;
    int code = bl_config_key(probe->choice->config, found->provider, &probe->report.error);
    probe->report.key_source = bl_config_key_source(probe->choice->config, found->provider);
    if (code == 0)
        code = bl_remote_new(&options, &remote, &model, &probe->report.error);
    if (code == 0)
        code = provider_ask(probe, &model);
    bl_remote_free(remote);
    return code;
}

static int ask_script(struct probe *probe)
{
    struct bl_model model;
    struct bl_script_player *player = bl_script_player_new(probe->choice->model.script, 1, &model);

    probe->report.model = model.name;
    int code = provider_ask(probe, &model);
    bl_script_player_free(player);
    return code;
}

static void note_choice(struct probe *probe)
{
    const struct bl_config_found *found = &probe->choice->model.found;
    struct doctor_provider *report = &probe->report;

    probe->begun = true;
    if (found->provider == NULL) {
        report->name = report->api = "script";
        return;
    }
    report->name = found->provider->name;
    report->api = bl_api_name(found->provider->api);
    report->address = found->provider->base_url;
    report->model = found->profile->model;
}

/* ---- Configuration --------------------------------------------------------------------------- */

static void probe_choice_free(void *payload)
{
    struct probe_choice *choice = payload;

    if (choice == NULL)
        return;
    runtime_choice_done(&choice->model);
    bl_config_free(choice->config);
    bl_free(choice->directory);
    bl_free(choice);
}

/* `provider` and `model` are words of the command line, which outlive the choice. */
static struct probe_choice *probe_choice_new(const char *provider, const char *model)
{
    struct probe_choice *choice = bl_zalloc(sizeof *choice);

    choice->model = (struct runtime_choice){.provider = provider, .model = model};
    choice->directory = bl_alloc(PATH_MAX);
    if (getcwd(choice->directory, PATH_MAX) == NULL)
        bl_text_into(choice->directory, PATH_MAX, "/");
    return choice;
}

static void probe_choice_read(void *payload)
{
    struct probe_choice *choice = payload;
    struct bl_config_options options = {.directory = choice->directory, .variable = bl_variable};

    choice->code = bl_config_read(&options, &choice->config, &choice->error);
    choice->model.config = choice->config;
    if (choice->code == 0)
        choice->code = runtime_choice_make(&choice->model, &choice->error);
}

/* Reads the configuration in the probe's scope. If a stop interrupts this, the thread takes over
 * the choice and frees it. */
static int provider_read_configuration(struct probe *probe)
{
    struct probe_choice *choice = probe->choice;
    struct bl_work job = {.run = probe_choice_read,
                          .drop = probe_choice_free,
                          .payload = choice,
                          .abandon_on_stop = true};
    bool abandoned = false;

    int code = bl_work_call(&job, &abandoned);
    if (abandoned)
        probe->choice = NULL;
    if (code != 0)
        return code;
    probe->report.error = choice->error;
    return choice->code;
}

/* ---- The probe ------------------------------------------------------------------------------- */

static int probe_in_scope(struct probe *probe)
{
    int code = provider_read_configuration(probe);

    if (code != 0)
        return code;
    note_choice(probe);
    return probe->choice->model.found.provider != NULL ? ask_remote(probe) : ask_script(probe);
}

/* Sets the message for a stop or a deadline, which have none of their own. */
static void name_failure(struct probe *probe, int code)
{
    struct bl_error *error = &probe->report.error;
    struct bl_stop stop;

    bl_scope_stop_read(&probe->scope, &stop);
    if (stop.reason == BL_STOP_TIMEOUT) {
        *error = (struct bl_error){0};
        bl_error_set(error, code, BL_KIND_PROVIDER_TIMEOUT, "call the model", probe->report.name,
                     "no answer within 30 s");
        error->retryable = true;
    }
    bl_error_set(error, code, BL_KIND_RUNTIME, "call the model", probe->report.name, "%s",
                 stop.reason == BL_STOP_SIGNAL ? "stopped" : bl_error_text(code));
}

static void no_hurry(void *context)
{
    (void)context;
}

static int provider_probe_main(void *argument)
{
    struct probe *probe = argument;

    bl_scope_init(&probe->scope, bl_scope_current());
    bl_scope_set_deadline(&probe->scope, bl_time_add(bl_now_ns(), PROBE_NS_MAX));
    int code = cli_signals_start(&probe->signals, &probe->scope, no_hurry, NULL);
    struct bl_scope *outer = bl_scope_enter(&probe->scope);
    if (code == 0)
        code = probe_in_scope(probe);
    bl_scope_enter(outer);
    if (code != 0)
        name_failure(probe, code);
    cli_signals_block(&probe->signals);
    cli_signals_end(&probe->signals);
    bl_scope_done(&probe->scope);
    return 0;
}

static int provider_exit_code_of(const struct probe *probe)
{
    if (probe->signals.first == SIGTERM)
        return CLI_EXIT_TERMINATED;
    if (probe->signals.first != 0)
        return CLI_EXIT_CLIENT_GONE;
    return probe->report.answered ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

static int provider_print_text(const struct cli_call *call, const struct doctor_provider *report,
                               int exit_code)
{
    BL_AUTO_BUFFER(out, TEXT_MAX);

    doctor_provider_text(&out, report);
    exit_code = cli_print(call, bl_buffer_text(&out), exit_code);
    return exit_code;
}

int doctor_provider_run(struct cli_call *call, const char *provider, const char *model)
{
    struct probe probe = {.call = call, .choice = probe_choice_new(provider, model)};
    struct bl_error error = {0};
    int exit_code;

    cli_signals_block(&probe.signals);
    cli_processes_begin();
    if (cli_loop_run("doctor", provider_probe_main, &probe, &error) != 0)
        exit_code = cli_fail(call, &error, CLI_EXIT_FAILED);
    else if (!probe.begun && probe.signals.first == 0)
        exit_code = cli_fail(call, &probe.report.error, cli_error_exit_code(&probe.report.error));
    else if (call->format == CLI_FORMAT_JSON)
        exit_code = cli_answer_print(call, provider_exit_code_of(&probe),
                                     &doctor_provider_answer.record, &probe.report);
    else
        exit_code = provider_print_text(call, &probe.report, provider_exit_code_of(&probe));
    probe_choice_free(probe.choice);
    return exit_code;
}

/* ---- The report ------------------------------------------------------------------------------ */

#define BL_RECORD_STRUCT struct doctor_provider
static const struct bl_member provider_members[] = {
    BL_MEMBER_STRING("name", name, .nullable = true,
                     .about = "Name in the configuration; null: stopped before it was known."),
    BL_MEMBER_STRING("api", api, .nullable = true, .about = "Format that it speaks."),
    BL_MEMBER_STRING("address", address, .nullable = true, .about = "null: none, or not known."),
    BL_MEMBER_STRING("model", model, .nullable = true, .about = "The provider's name for it."),
    BL_MEMBER_STRING("key_source", key_source, .nullable = true,
                     .about = "A variable, a path or key_command; never the key. null: no key."),
    BL_MEMBER_BOOLEAN("answered", answered),
    BL_MEMBER_INTEGER("latency_ms", latency_ms,
                      .about = "To the end of the answer or the failure."),
    BL_MEMBER_INTEGER("first_event_ms", first_ms, .nullable = true, BL_KNOWN(first_known),
                      .about = "To the first event of the answer; null: there was none."),
    BL_MEMBER_INTEGER("retries", retries),
    BL_MEMBER_INTEGER("input_tokens", usage.input_tokens, .nullable = true, BL_KNOWN(usage_known),
                      .about = "null: the provider did not say."),
    BL_MEMBER_INTEGER("output_tokens", usage.output_tokens, .nullable = true, BL_KNOWN(usage_known),
                      .about = "null: the provider did not say."),
    BL_MEMBER_BOOLEAN("estimated", estimated,
                      .about = "True: belay estimated the tokens, as the provider did not say."),
    BL_MEMBER_NUMBER("cost_usd", cost_usd, .nullable = true, BL_KNOWN(cost_known),
                     .about = "null: not known."),
    BL_MEMBER_OBJECT("error", error, &bl_error_record, .nullable = true, BL_UNLESS(answered),
                     .about = "null: it answered."),
    BL_MEMBER_END,
};
static const struct bl_record provider_record =
    BL_RECORD_GROUP("provider", provider_members, .closed = true);

static const struct bl_member report_members[] = {
    BL_MEMBER_GROUP("provider", &provider_record),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const int64_t exits[] = {CLI_EXIT_OK, CLI_EXIT_FAILED, CLI_EXIT_CLIENT_GONE,
                                CLI_EXIT_TERMINATED};
static const struct bl_numbers provider_exits = BL_NUMBERS(exits);
const struct cli_answer doctor_provider_answer = {
    BL_RECORD("doctor-provider", struct doctor_provider, report_members), .of = "doctor --provider",
    .exits = &provider_exits};

static void text_failure(struct bl_buffer *out, const struct doctor_provider *report)
{
    const struct bl_error *error = &report->error;

    bl_buffer_printf(out, "Answer    none after %" PRIu64 " ms, %" PRIu32 " retr%s\n",
                     report->latency_ms, report->retries, report->retries == 1 ? "y" : "ies");
    bl_buffer_printf(out, "Error     %s%s%s: %s\n", bl_error_kind_name(error->kind),
                     error->name[0] != '\0' ? ", " : "", error->name, error->message);
    if (error->hint[0] != '\0')
        bl_buffer_printf(out, "Hint      %s\n", error->hint);
    bl_buffer_printf(out, "Retry     %s\n", error->retryable ? "may help" : "does not help");
}

void doctor_provider_text(struct bl_buffer *out, const struct doctor_provider *report)
{
    bl_buffer_printf(
        out, "Provider  %s (%s)\nAddress   %s\nModel     %s\nKey       %s%s\n",
        report->name != NULL ? report->name : "none", report->api != NULL ? report->api : "none",
        report->address != NULL ? report->address : "none",
        report->model != NULL ? report->model : "none", report->key_source != NULL ? "from " : "",
        report->key_source != NULL ? report->key_source : "none");
    if (!report->answered) {
        text_failure(out, report);
        return;
    }
    bl_buffer_printf(out, "Answer    after %" PRIu64 " ms", report->latency_ms);
    if (report->first_known)
        bl_buffer_printf(out, ", first event after %" PRIu64 " ms", report->first_ms);
    if (report->retries > 0)
        bl_buffer_printf(out, ", %" PRIu32 " retr%s", report->retries,
                         report->retries == 1 ? "y" : "ies");
    bl_buffer_append_byte(out, '\n');
    if (report->usage_known)
        bl_buffer_printf(out, "Tokens    %" PRIu64 " in, %" PRIu64 " out%s\n",
                         report->usage.input_tokens, report->usage.output_tokens,
                         report->estimated ? " (estimated)" : "");
    if (report->cost_known)
        bl_buffer_printf(out, "Cost      %.6f USD\n", report->cost_usd);
    else
        bl_buffer_append(out, BL_TEXT("Cost      unknown\n"));
}
