#include "parts.h"

#include <assert.h>
#include <stdio.h>

#define WAIT_MS_MIN        100u
#define WAIT_MS_MAX        30000u
#define WAIT_MS_FIRST      500u
#define RETRY_AFTER_MS_MAX 60000

/* The properties of a failure, by its code. */
struct failure_class {
    enum bl_error_kind kind;
    bool retryable;
    bool obstinate; /* not retried even if the server asks for it */
    const char *what;
    const char *hint;
};

static const char hint_later[] = "try again later";
static const char hint_network[] = "check the network and the provider's address, and try again";
static const char hint_server[] = "the answer is not in this provider's format: check its address";

static const char *const failure_codes[] = {
    "connect",     "dns",        "stream_cut", "tls",    "redirect",         "bad_response",
    "limit",       "first_byte", "stall",      "server", "rate_limited",     "overloaded",
    "bad_request", "not_found",  "auth",       "quota",  "context_overflow", "refusal"};

const struct bl_names model_failure_codes = BL_NAMES(failure_codes);

/* In the order of the codes. */
static const struct failure_class classes[] = {
    {BL_KIND_PROVIDER, true, false, "the provider cannot be reached", hint_network},
    {BL_KIND_PROVIDER, true, false, "the provider's host name was not found", hint_network},
    {BL_KIND_PROVIDER, true, false, "the answer was cut off", hint_later},
    {BL_KIND_PROVIDER, false, false, "the provider's certificate is not trusted",
     "check the address and SSL_CERT_FILE"},
    {BL_KIND_PROVIDER, false, false, "the provider redirects, and redirects are not followed",
     "configure the address that it redirects to"},
    {BL_KIND_PROVIDER, false, false, "the response is not a model's answer", hint_server},
    {BL_KIND_PROVIDER, false, false, "the answer exceeds a limit", hint_server},
    {BL_KIND_PROVIDER_TIMEOUT, true, false, "timed out waiting for the first byte of the answer",
     hint_later},
    {BL_KIND_PROVIDER_TIMEOUT, true, false, "the answer stalled", hint_later},
    {BL_KIND_PROVIDER, true, false, "the provider failed", hint_later},
    {BL_KIND_PROVIDER, true, false, "the provider's rate limit was reached",
     "wait, or ask the provider for a higher limit"},
    {BL_KIND_PROVIDER, true, false, "the provider is overloaded", hint_later},
    {BL_KIND_PROVIDER, false, false, "the provider refused the request",
     "check the model's name and the options"},
    {BL_KIND_PROVIDER, false, false, "the provider has no such model or address",
     "check the model's name and the provider's address"},
    {BL_KIND_AUTH, false, true, "the provider refused the key",
     "check the key and its permissions"},
    {BL_KIND_PROVIDER, false, true, "the account has no credit or quota left",
     "add credit, or choose another provider"},
    {BL_KIND_PROVIDER, false, true, "the conversation is longer than the model's context",
     "start a new session, or keep fewer turns in the context"},
    {BL_KIND_PROVIDER, false, false, "the provider refused to answer", "rephrase the prompt"},
};

_Static_assert(BL_COUNT(classes) == BL_COUNT(failure_codes), "each code has a class");

const char *bl_model_status_code(int status)
{
    switch (status) {
    case 400:
    case 422: return "bad_request";
    case 401:
    case 403: return "auth";
    case 402: return "quota";
    case 404: return "not_found";
    case 408:
    case 409: return "server";
    case 413: return "context_overflow";
    case 429: return "rate_limited";
    case 529: return "overloaded";
    default: break;
    }
    if (status >= 300 && status < 400)
        return "redirect";
    if (status >= 400 && status < 500)
        return "bad_request";
    return status >= 500 && status < 600 ? "server" : "bad_response";
}

static const char *retry_code_of(const struct bl_model_failure *failure)
{
    return failure->code != NULL ? failure->code : bl_model_status_code(failure->status);
}

/* A code that is not in the table is not retried. */
static const struct failure_class *retry_class_of(const struct bl_model_failure *failure)
{
    static const struct failure_class other = {BL_KIND_PROVIDER, false, false,
                                               "the model call failed", hint_later};
    size_t index;

    return bl_names_find(&model_failure_codes, bl_text_from(retry_code_of(failure)), &index)
               ? &classes[index]
               : &other;
}

enum bl_error_kind bl_model_failure_kind(const struct bl_model_failure *failure)
{
    return failure->timed_out ? BL_KIND_PROVIDER_TIMEOUT : retry_class_of(failure)->kind;
}

bool bl_model_failure_retryable(const struct bl_model_failure *failure)
{
    const struct failure_class *class = retry_class_of(failure);

    if (failure->should_retry == 0 || class->obstinate)
        return false;
    return failure->should_retry > 0 || class->retryable;
}

/* Without a status, a proxy refused, not the provider. */
static bool is_of_proxy(const struct bl_model_failure *failure)
{
    return failure->status == 0 && strcmp(retry_code_of(failure), "auth") == 0;
}

/* "the provider is overloaded (status 529), after 4 retries: message". */
static void retry_describe(const struct bl_model_failure *failure, uint32_t retries, char *out,
                           size_t size)
{
    const char *code = retry_code_of(failure);
    const char *what = retry_class_of(failure)->what;
    char status[32] = "", count[32] = "";

    if (failure->timed_out && strcmp(code, "connect") == 0)
        what = "timed out connecting to the provider";
    if (is_of_proxy(failure))
        what = "proxy authentication required";
    if (failure->status > 0)
        snprintf(status, sizeof status, " (status %d)", failure->status);
    if (retries > 0)
        snprintf(count, sizeof count, ", after %u %s", retries, retries == 1 ? "retry" : "retries");
    snprintf(out, size, "%s%s%s%s%s", what, status, count, failure->message[0] != '\0' ? ": " : "",
             failure->message);
}

static int retry_fail(const struct bl_model_failure *failure, uint32_t retries,
                      const char *provider, struct bl_error *error)
{
    enum bl_error_kind kind = bl_model_failure_kind(failure);
    char text[400];

    retry_describe(failure, retries, text, sizeof text);
    int result = bl_error_set(error, kind == BL_KIND_AUTH ? BL_EACCES : BL_EIO, kind,
                              "call the model", provider, "%s", text);
    bl_error_name_set(error, retry_code_of(failure));
    bl_error_hint(error, "%s",
                  is_of_proxy(failure)
                      ? "set user and password in HTTPS_PROXY, or add the provider's "
                        "host to NO_PROXY"
                      : retry_class_of(failure)->hint);
    if (error != NULL)
        error->retryable = bl_model_failure_retryable(failure);
    return result;
}

static int fail_for_time(const struct bl_model_failure *failure, uint32_t retries,
                         const char *provider, uint64_t wait_ms, bool beyond_hint,
                         struct bl_error *error)
{
    char text[400], wait[32];

    retry_describe(failure, retries, text, sizeof text);
    bl_duration_format((int64_t)(wait_ms * BL_NS_PER_MS), wait);
    int result = bl_error_set(
        error, BL_EIO, bl_model_failure_kind(failure), "call the model", provider,
        beyond_hint ? "the provider asks to wait %s, which is longer than the limit of 60 s: %s"
                    : "the next attempt would be in %s, at or after the deadline: %s",
        wait, text);
    bl_error_name_set(error, "no_time_to_retry");
    bl_error_hint(error,
                  beyond_hint ? "try again after that time" : "set a longer timeout, or try again");
    if (error != NULL)
        error->retryable = true;
    return result;
}

/* The server's hint is a minimum, with up to a quarter on top; without a hint the range doubles. */
static uint64_t choose_wait_ms(const struct bl_model_failure *failure, uint32_t attempt,
                               struct bl_random *random)
{
    if (failure->retry_after_ms >= 0) {
        uint64_t hint_ms = (uint64_t)failure->retry_after_ms;
        return hint_ms + bl_random_below(random, hint_ms / 4 + 1);
    }
    uint64_t high_ms = (uint64_t)WAIT_MS_FIRST << attempt;
    if (high_ms > WAIT_MS_MAX)
        high_ms = WAIT_MS_MAX;
    return WAIT_MS_MIN + bl_random_below(random, high_ms - WAIT_MS_MIN + 1);
}

int bl_model_retry(struct bl_model_retries *retries, const struct bl_model_failure *failure,
                   struct bl_random *random, struct bl_sink *sink, const char *provider,
                   struct bl_error *error)
{
    int result = bl_check();
    if (result != 0)
        return result;
    if (!bl_model_failure_retryable(failure) || retries->attempt >= BL_MODEL_RETRIES_MAX)
        return retry_fail(failure, retries->attempt, provider, error);
    if (failure->retry_after_ms > RETRY_AFTER_MS_MAX)
        return fail_for_time(failure, retries->attempt, provider, (uint64_t)failure->retry_after_ms,
                             true, error);
    uint64_t wait_ms = choose_wait_ms(failure, retries->attempt, random);
    uint64_t until_ns = bl_time_add(bl_now_ns(), wait_ms * BL_NS_PER_MS);
    if (until_ns >= bl_scope_deadline_ns(bl_scope_current()))
        return fail_for_time(failure, retries->attempt, provider, wait_ms, false, error);

    retries->attempt++;
    assert(retries->attempt <= BL_MODEL_RETRIES_MAX);
    BL_LOG(BL_ROOM_MODEL, BL_LOG_DEBUG, "retry", BL_LOG_INTEGER("attempt", retries->attempt),
           BL_LOG_INTEGER("wait_ms", (int64_t)wait_ms), BL_LOG_INTEGER("status", failure->status),
           BL_LOG_STRING("code", retry_code_of(failure)));
    struct bl_piece piece = {
        .type = BL_PIECE_RETRY,
        .retry = {.attempt = retries->attempt,
                  .of = BL_MODEL_RETRIES_MAX,
                  .wait_ms = wait_ms,
                  .status = failure->status},
    };
    bl_text_into(piece.retry.code, sizeof piece.retry.code, retry_code_of(failure));
    sink->wait = BL_MODEL_BACKOFF;
    snprintf(sink->detail, sizeof sink->detail, "in backoff %u of %u", retries->attempt,
             BL_MODEL_RETRIES_MAX);
    /* The previous attempt has been counted, and the next one has not started. */
    sink->unbilled = true;
    result = sink->take(sink, &piece);
    /* A slow listener may have used up some of the wait. */
    if (result == 0)
        result = bl_sleep_until(until_ns);
    if (result == 0) {
        sink->detail[0] = '\0';
        sink->wait = BL_MODEL_PREPARING;
        sink->unbilled = false;
    }
    return result;
}
