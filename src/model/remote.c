/* Design notes.
 *
 * A call is a series of attempts. Before each attempt, its worst cost is reserved; after it, the
 * actual cost is booked. A failed attempt may be repeated, by the one table of failures (retry.c).
 * An attempt that was refused for an optional field is repeated once without it, silently. An
 * answer that paused is continued with the pieces received so far. No tool call is executed before
 * an answer has ended, so a failed attempt had no effect but its cost. */
#include <stdio.h>

#include <belay/version.h>

#include "remote.h"

#define BODY_MAX               ((size_t)72 * 1024 * 1024)
#define CONNECT_NS             (10 * BL_NS_PER_S)
#define FIRST_BYTE_NS          (120 * BL_NS_PER_S)
#define FIRST_BYTE_LOOPBACK_NS (600 * BL_NS_PER_S) /* a model may be loading */
#define STALL_NS               (300 * BL_NS_PER_S)
#define OUTPUT_TOKENS_MIN      512u
#define OUTPUT_TOKENS_DEFAULT  8192u  /* if one is needed, and none is configured */
#define IMAGE_TOKENS_MAX       50000u /* the highest count of any known vendor */
#define SECRET_MIN             4u     /* shorter strings are not secrets, and occur everywhere */
#define COUNT_PATH             "/v1/messages/count_tokens"

/* ---- Cost ------------------------------------------------------------------------------------ */

/* Lowers `*tokens` to the provider's own count of the input, with a margin. Without a count it
 * stays as it is. */
static int count_input(struct remote_call *call, uint64_t *tokens)
{
    const struct bl_remote *remote = call->remote;
    const struct bl_json *answer;
    int64_t counted;

    if (remote->count_url == NULL || remote->options.replay != NULL)
        return 0;
    int code = remote_build(call, true);
    if (code == 0)
        code = remote_question(call, remote->count_url, remote->count_path, &answer);
    call->assembly.failure = (struct bl_model_failure){.retry_after_ms = -1, .should_retry = -1};
    if (code != 0 || !bl_json_int64(bl_json_get(answer, BL_TEXT("input_tokens")), &counted) ||
        counted < 0)
        return code;
    uint64_t most =
        (uint64_t)counted + (uint64_t)counted / 20 + 1 + remote->options.profile->overhead_tokens;
    if (most < *tokens)
        *tokens = most;
    return 0;
}

static int refuse_cost(struct remote_call *call, double worst_usd)
{
    const struct bl_remote *remote = call->remote;

    bl_error_set(
        call->error, BL_EBUDGET, BL_KIND_POLICY, "call the model", remote->options.provider->name,
        "the next request may cost up to %.4f USD, but only %.4f USD of the limit are left",
        worst_usd, bl_ledger_left(remote->options.ledger));
    bl_error_name_set(call->error, "max_budget");
    bl_error_hint(call->error, "raise --max-budget-usd");
    return BL_EBUDGET;
}

/* Returns an upper bound of the input tokens of the body: a token is at least one byte, and an
 * image is counted by its content. */
static uint64_t input_bound(const struct remote_call *call)
{
    const struct bl_profile *profile = call->remote->options.profile;
    uint64_t each = profile->image_tokens_max > 0 ? profile->image_tokens_max : IMAGE_TOKENS_MAX;

    return call->body.size - call->sent.bytes + call->sent.count * each + profile->overhead_tokens;
}

static bool remote_reserve(struct remote_call *call, uint64_t input_tokens, uint64_t output_tokens)
{
    const struct bl_price *price = &call->remote->options.profile->price;
    double worst_usd = bl_price_worst(price, input_tokens, output_tokens);

    if (!bl_ledger_reserve(call->remote->options.ledger, worst_usd))
        return false;
    call->reserved_usd = call->sink->reserved_usd = worst_usd;
    return true;
}

/* Returns the most output that the rest of the limit pays for in addition to that input; 0 if it is
 * too little to be useful. */
static uint64_t affordable_output(const struct remote_call *call, uint64_t input_tokens)
{
    const struct bl_price *price = &call->remote->options.profile->price;
    double left_usd =
        bl_ledger_left(call->remote->options.ledger) - bl_price_worst(price, input_tokens, 0);
    double one_usd = bl_price_worst(price, 0, 1);

    if (left_usd <= 0 || one_usd <= 0)
        return 0;
    double tokens = left_usd / one_usd * (1 - 1e-9);
    return tokens >= OUTPUT_TOKENS_MIN ? (uint64_t)tokens : 0;
}

/* Reserves the worst cost of the attempt, and lowers its output limit if that makes it fit. The
 * body is written for the reserved limit. */
static int build_within_limit(struct remote_call *call)
{
    const struct bl_remote *remote = call->remote;
    const struct bl_profile *profile = remote->options.profile;
    uint64_t output = call->max_output_tokens;

    int code = remote_build(call, false);
    if (code != 0)
        return code;
    uint64_t input = input_bound(call);
    double worst_usd = bl_price_worst(&profile->price, input, output);
    if (remote->options.ledger == NULL) {
        call->reserved_usd = call->sink->reserved_usd = profile->price.known ? worst_usd : 0;
        return 0;
    }
    if (remote_reserve(call, input, output))
        return 0;
    code = count_input(call, &input);
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return code;
    if (!remote_reserve(call, input, output)) {
        output = affordable_output(call, input);
        if (output == 0 || output >= call->max_output_tokens ||
            !remote_reserve(call, input, output))
            return refuse_cost(call, worst_usd);
        call->max_output_tokens = output;
    }
    return remote_build(call, false);
}

/* Books the cost of an attempt that completed. */
static int settle_finished(struct remote_call *call)
{
    const struct bl_remote *remote = call->remote;
    const struct model_assembly *assembly = &call->assembly;
    struct bl_ledger *ledger = remote->options.ledger;

    call->sink->reserved_usd = 0;
    if (ledger == NULL)
        return 0;
    /* Without a reported usage, the whole reservation counts as used. */
    double usd = assembly->usage_known ? bl_price_cost(&remote->options.profile->price,
                                                       &assembly->usage, &assembly->usage_detail)
                                       : call->reserved_usd;
    if (bl_ledger_settle(ledger, call->reserved_usd, usd))
        return 0;
    bl_error_set(call->error, BL_EIO, BL_KIND_PROVIDER, "call the model",
                 remote->options.provider->name,
                 "the provider bills %.4f USD for a request that could cost at most %.4f USD", usd,
                 call->reserved_usd);
    bl_error_name_set(call->error, "overrun");
    bl_error_hint(call->error, "check the configured prices of this model");
    return BL_EIO;
}

/* Settles an attempt that failed or was cut: releases the reservation if the provider bills
 * nothing, otherwise keeps it whole. */
static void settle_failed(struct remote_call *call, int code)
{
    struct bl_ledger *ledger = call->remote->options.ledger;
    bool refused =
        code == BL_EIO && ((call->status >= 300 && call->status < 500) || call->status == 529);

    if (refused) {
        call->sink->reserved_usd = 0;
        call->sink->unbilled = true;
    }
    if (ledger != NULL)
        bl_ledger_settle(ledger, call->reserved_usd, call->sink->reserved_usd);
    call->reserved_usd = 0;
}

/* ---- One call -------------------------------------------------------------------------------- */

static uint64_t remote_output_limit(const struct bl_remote *remote)
{
    const struct bl_profile *profile = remote->options.profile;

    if (profile->max_output_tokens > 0)
        return profile->max_output_tokens;
    if (remote->api->default_max_output_tokens > 0)
        return remote->api->default_max_output_tokens;
    return remote->options.ledger != NULL ? OUTPUT_TOKENS_DEFAULT : 0;
}

/* Returns the input limit that leaves room for the answer; 0 if unknown. Without an output limit
 * the server decides how long an answer gets; some room is kept nevertheless. */
static uint64_t input_limit(const struct bl_remote *remote)
{
    const struct bl_profile *profile = remote->options.profile;
    uint64_t window = profile->context_window;
    uint64_t output = remote_output_limit(remote);

    if (remote->api->api == BL_API_OLLAMA && profile->num_ctx > 0 &&
        (window == 0 || profile->num_ctx < window))
        window = profile->num_ctx;
    if (output == 0)
        output = OUTPUT_TOKENS_DEFAULT;
    return output > window / 2 ? window - window / 2 : window - output;
}

static void remote_begin_answer(struct remote_call *call)
{
    struct bl_remote *remote = call->remote;

    model_assembly_init(&call->assembly, &call->arena, call->request,
                        &remote->options.profile->price, call->sink);
    call->decoder = (struct model_decoder){
        .api = remote->api,
        .provider = remote->options.provider,
        .profile = remote->options.profile,
        .assembly = &call->assembly,
        .arena = &call->arena,
    };
}

/* Learns from a refusal that names an optional field: once per call, and remembered for this
 * server. */
static bool learn(struct remote_call *call)
{
    struct bl_remote *remote = call->remote;
    const struct bl_model_failure *failure = &call->assembly.failure;

    if (call->learned || (failure->status != 400 && failure->status != 422))
        return false;
    struct bl_text message = bl_text_from(failure->message);
    switch (remote->api->api) {
    case BL_API_ANTHROPIC: call->learned = model_anthropic_learn(message, &remote->compat); break;
    case BL_API_OPENAI:
    case BL_API_OPENAI_RESPONSES:
        call->learned = model_openai_learn(message, &remote->compat);
        break;
    case BL_API_OLLAMA: break;
    }
    return call->learned;
}

/* Continues an answer that paused: its blocks so far are sent back as they are. */
static int remote_continue(struct remote_call *call)
{
    struct model_assembly *assembly = &call->assembly;

    if (++call->pauses > MODEL_PAUSES_MAX) {
        model_fail(assembly, "bad_response", call->status,
                   BL_TEXT("the answer paused more than 8 times"));
        return BL_EIO;
    }
    call->resumed = model_anthropic_resumed(&call->decoder);
    model_assembly_resume(assembly);
    return 0;
}

/* Makes one attempt with its reservation. As remote_attempt; 0 with assembly.pause: again. */
static int attempt(struct remote_call *call)
{
    call->max_output_tokens = remote_output_limit(call->remote);
    bl_text_into(call->sink->detail, sizeof call->sink->detail, "never sent");
    call->sink->wait = BL_MODEL_PREPARING;
    call->sink->reserved_usd = 0;
    call->sink->unbilled = true;
    int code = bl_check();
    if (code == 0)
        code = build_within_limit(call);
    if (code != 0)
        return code;
    code = remote_attempt(call);
    if (code == 0)
        return settle_finished(call);
    settle_failed(call, code);
    return code;
}

/* Removes a key that the server quotes from its message. */
static void hide(char *message, const char *secret)
{
    static const char mark[] = "[removed]";
    size_t size = secret != NULL ? strlen(secret) : 0;
    char *at;

    while (size >= SECRET_MIN && (at = strstr(message, secret)) != NULL) {
        size_t kept = size < sizeof mark - 1 ? size : sizeof mark - 1;
        memcpy(at, mark, kept);
        memmove(at + kept, at + size, strlen(at + size) + 1);
    }
}

static void hide_secrets(struct remote_call *call)
{
    const struct bl_provider *provider = call->remote->options.provider;
    char *message = call->assembly.failure.message;

    hide(message, provider->key);
    for (size_t i = 0; i < provider->header_count; i++)
        hide(message, provider->headers[i].value.data);
}

/* After a failed attempt. Returns 0 to try again. */
static int remote_try_again(struct remote_call *call, struct bl_model_retries *retries)
{
    struct bl_remote *remote = call->remote;

    hide_secrets(call);
    if (!learn(call)) {
        int code = bl_model_retry(retries, &call->assembly.failure, &remote->random, call->sink,
                                  remote->options.provider->name, call->error);
        if (code != 0)
            return code;
    }
    model_assembly_done(&call->assembly);
    call->resumed = (struct bl_text){0};
    call->pauses = 0;
    remote_begin_answer(call);
    return 0;
}

static int run_call(struct remote_call *call)
{
    struct bl_model_retries retries = {0};
    int code;

    remote_begin_answer(call);
    do {
        code = attempt(call);
        if (code == 0 && call->assembly.pause)
            code = remote_continue(call);
        else if (code == 0)
            break;
        if (code == BL_EIO && call->error->code == 0)
            code = remote_try_again(call, &retries);
    } while (code == 0);
    model_assembly_done(&call->assembly);
    if (code == 0)
        call->sink->detail[0] = '\0';
    return code;
}

static int remote_call(void *context, const struct bl_request *request, struct bl_sink *sink,
                       struct bl_error *error)
{
    struct remote_call *call = bl_zalloc(sizeof *call);

    call->remote = context;
    call->request = request;
    call->sink = sink;
    call->error = error;
    bl_arena_init(&call->arena);
    bl_buffer_init(&call->body, BODY_MAX);
    int code = run_call(call);
    bl_buffer_done(&call->body);
    bl_arena_done(&call->arena);
    bl_free(call);
    return code;
}

static uint64_t remote_estimate(void *context BL_UNUSED, const struct bl_request *request)
{
    return (model_request_bytes(request) + 3) / 4;
}

static double remote_cost_usd(void *context, const struct bl_usage *usage)
{
    const struct bl_remote *remote = context;
    const struct bl_price *price = &remote->options.profile->price;

    return price->known ? bl_price_cost(price, usage, &(struct bl_usage_detail){0}) : -1;
}

/* ---- From beginning to end ------------------------------------------------------------------- */

static void remote_add_header(struct bl_remote *remote, struct bl_text name, struct bl_text value)
{
    if (remote->header_count < REMOTE_HEADERS_MAX)
        remote->headers[remote->header_count++] = (struct bl_http_header){name, value};
}

static void make_headers(struct bl_remote *remote)
{
    const struct bl_provider *provider = remote->options.provider;
    struct bl_http_header own[16];

    remote_add_header(remote, BL_TEXT("Content-Type"), BL_TEXT("application/json"));
    remote_add_header(remote, BL_TEXT("Accept"),
                      remote->api->lines ? BL_TEXT("application/x-ndjson, application/json")
                                         : BL_TEXT("text/event-stream, application/json"));
    remote_add_header(remote, BL_TEXT("User-Agent"), BL_TEXT("belay/" BELAY_VERSION));
    size_t count = remote->api->headers(provider, &remote->arena, own);
    for (size_t i = 0; i < count; i++)
        remote_add_header(remote, own[i].name, own[i].value);
    for (size_t i = 0; i < provider->header_count; i++)
        remote_add_header(remote, provider->headers[i].name, provider->headers[i].value);
}

static uint64_t timer_or(uint64_t configured_ns, uint64_t default_ns)
{
    return configured_ns > 0 ? configured_ns : default_ns;
}

static int check_price(const struct bl_remote_options *options, struct bl_error *error)
{
    if (options->ledger == NULL || options->profile->price.known)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "find the price", options->profile->model,
                 "a cost limit is set, but the price of '%s' is unknown", options->profile->model);
    bl_error_hint(error, "set its price in prices.yaml, or `free: true` for the model");
    return BL_EINVAL;
}

int bl_remote_new(const struct bl_remote_options *options, struct bl_remote **ret_remote,
                  struct bl_model *ret_model, struct bl_error *error)
{
    const struct bl_provider *provider = options->provider;
    struct bl_remote *remote = bl_zalloc(sizeof *remote);
    struct bl_url url;

    bl_arena_init(&remote->arena);
    remote->options = *options;
    remote->api = model_api_find(provider->api);
    remote->compat = provider->compat;
    bl_random_seed(&remote->random, options->seed);
    remote->url =
        bl_arena_printf(&remote->arena, "%s%s", provider->base_url, remote->api->path).data;
    int code = bl_url_parse(&remote->arena, remote->url, &url, error);
    if (code == 0)
        code = check_price(options, error);
    if (code != 0) {
        bl_arena_done(&remote->arena);
        bl_free(remote);
        return code;
    }
    remote->path = url.path.data;
    if (provider->api == BL_API_ANTHROPIC) {
        remote->count_url =
            bl_arena_printf(&remote->arena, "%s" COUNT_PATH, provider->base_url).data;
        remote->count_path = COUNT_PATH;
    }
    make_headers(remote);
    remote->connect_ns = timer_or(provider->connect_ns, CONNECT_NS);
    remote->first_byte_ns = timer_or(
        provider->first_byte_ns, bl_url_loopback(&url) ? FIRST_BYTE_LOOPBACK_NS : FIRST_BYTE_NS);
    remote->stall_ns = timer_or(provider->stall_ns, STALL_NS);
    *ret_model = (struct bl_model){
        .provider = provider->name,
        .name = options->profile->model,
        .context = remote,
        .input_tokens_max = input_limit(remote),
        .takes_images = model_takes_images(provider->api, options->profile),
        .estimate = remote_estimate,
        .call = remote_call,
        .cost_usd = remote_cost_usd,
    };
    *ret_remote = remote;
    return 0;
}

void bl_remote_free(struct bl_remote *remote)
{
    if (remote == NULL)
        return;
    bl_client_free(remote->client);
    bl_arena_done(&remote->arena);
    bl_free(remote);
}
