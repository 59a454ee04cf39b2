#include "provider.h"

#include <stdio.h>

#define RETRY_AFTER_MS_LARGEST ((int64_t)1000 * 60 * 60 * 24 * 366)

/* ---- The table ------------------------------------------------------------------------------- */

/* Words that decide the code of a failure, whatever the status: found in its type, code or text, in
 * any case. The first match counts. */
struct failure_words {
    const char *words;
    const char *code;
};

static const struct failure_words decisive[] = {
    /* Waiting would not help. */
    {"insufficient_quota", "quota"},
    {"billing_error", "quota"},
    {"billing_not_active", "quota"},
    {"billing_hard_limit", "quota"},
    {"enforced_spend_limit_reached", "quota"},
    {"exceeded_current_quota_error", "quota"},
    {"credit balance is too low", "quota"},
    {"insufficient balance", "quota"},
    {"insufficient credits", "quota"},
    {"insufficient_credits", "quota"},
    {"requires more credits", "quota"},
    {"key limit exceeded", "quota"},
    {"you have reached your specified", "quota"},
    {"you have reached your api usage limits", "quota"},
    {"arrearage", "quota"},
    /* Before the texts of an overflow, some of which mention tokens, too. */
    {"too many tokens, please wait", "rate_limited"},
    {"tokens per min", "rate_limited"},
    {"tokens per day", "rate_limited"},
    {"requests per min", "rate_limited"},
    {"rate limit reached", "rate_limited"},
    {"per-minute rate limit", "rate_limited"},
    {"rate_limit_exceeded", "rate_limited"},
    {"overloaded_error", "overloaded"},
    {"server_overloaded", "overloaded"},
    {"slow_down", "overloaded"},
    {"slow down", "overloaded"},
    {"is overloaded", "overloaded"},
    {"currently overloaded", "overloaded"},
    {"context_length_exceeded", "context_overflow"},       /* OpenAI, Azure, Groq, Cerebras */
    {"exceed_context_size", "context_overflow"},           /* llama.cpp */
    {"model_context_window_exceeded", "context_overflow"}, /* Anthropic */
    {"request_too_large", "context_overflow"},             /* Anthropic */
    {"prompt is too long", "context_overflow"},            /* Anthropic, Fireworks */
    {"exceed context limit", "context_overflow"},       /* Anthropic: including the output limit */
    {"maximum context length", "context_overflow"},     /* OpenAI, vLLM, OpenRouter, Mistral */
    {"exceeds the context window", "context_overflow"}, /* OpenAI, responses */
    {"exceeds model context window", "context_overflow"},
    {"exceeds the available context size", "context_overflow"},     /* llama.cpp */
    {"context size has been exceeded", "context_overflow"},         /* llama.cpp, within an
                                                                       answer */
    {"context the overflows", "context_overflow"},                  /* LM Studio */
    {"greater than the context length", "context_overflow"},        /* LM Studio */
    {"maximum model length", "context_overflow"},                   /* vLLM */
    {"longer than the model's context length", "context_overflow"}, /* SGLang */
    {"exceeds the context length", "context_overflow"},             /* Ollama */
    {"longer than the context length", "context_overflow"},         /* Ollama */
    {"exceeds maximum context length", "context_overflow"},         /* Ollama */
    {"exceeded max context length", "context_overflow"},            /* Ollama */
    {"reduce the length of the messages", "context_overflow"},      /* Groq */
    {"exceeds the maximum number of tokens", "context_overflow"},   /* Gemini */
    {"input is too long for requested model", "context_overflow"},  /* Bedrock */
    {"maximum prompt length", "context_overflow"},                  /* xAI */
    {"`max_new_tokens` must be <=", "context_overflow"},            /* TGI */
    {"`inputs` must have less than", "context_overflow"},           /* TGI */
    {"exceeded model token limit", "context_overflow"},             /* Moonshot */
    {"context window exceeds limit", "context_overflow"},           /* MiniMax */
    {"prompt token count of", "context_overflow"},                  /* GitHub */
    {"too many tokens: ", "context_overflow"},                      /* Cohere */
    {"range of input length should be", "context_overflow"},        /* DashScope */
    {"prompt exceeds max length", "context_overflow"},              /* Zhipu */
    {"content_filter", "refusal"},
    {"content_policy_violation", "refusal"},
    {"content management policy", "refusal"},
    {"content filtering policy", "refusal"},
    {"content exists risk", "refusal"},
    {"data_inspection_failed", "refusal"},
    {"datainspectionfailed", "refusal"},
    {"violating our usage policy", "refusal"},
    {"invalid_api_key", "auth"},
    {"api_key_invalid", "auth"},
    {"incorrect api key", "auth"},
    {"api key not valid", "auth"},
    {"model_not_found", "not_found"},
    {"is not a valid model id", "not_found"},
    /* The model's template does not accept this conversation, and never will. */
    {"jinja", "bad_request"},
    {"chat template", "bad_request"},
    {"chat_template", "bad_request"},
    {"roles must alternate", "bad_request"},
    {"executing \"\" at <", "bad_request"},
};

/* Types that say no more than a status: they count if there is no status. */
static const struct failure_words general[] = {
    {"invalid_request", "bad_request"},
    {"invalid_prompt", "bad_request"},
    {"badrequest", "bad_request"},
    {"bad_request", "bad_request"},
    {"invalid_argument", "bad_request"},
    {"validation", "bad_request"},
    {"authentication", "auth"},
    {"permission", "auth"},
    {"unauthenticated", "auth"},
    {"unauthorized", "auth"},
    {"forbidden", "auth"},
    {"not_found", "not_found"},
    {"notfound", "not_found"},
    {"rate_limit", "rate_limited"},
    {"ratelimit", "rate_limited"},
    {"too_many_requests", "rate_limited"},
    {"resource_exhausted", "rate_limited"},
    {"throttling", "rate_limited"},
    {"overloaded", "overloaded"},
    {"timeout", "server"},
    {"unavailable", "server"},
    {"api_error", "server"},
    {"server_error", "server"},
    {"internal", "server"},
};

static char failure_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Returns the offset of `words` (lower case) in any case, or -1. */
static ptrdiff_t find_words(struct bl_text text, const char *words)
{
    size_t size = strlen(words);

    for (size_t at = 0; at + size <= text.size; at++) {
        size_t same = 0;
        while (same < size && failure_lower(text.data[at + same]) == words[same])
            same++;
        if (same == size)
            return (ptrdiff_t)at;
    }
    return -1;
}

static const char *failure_look_up(const struct failure_words *table, size_t count,
                                   struct bl_text text)
{
    for (size_t i = 0; i < count; i++) {
        if (find_words(text, table[i].words) >= 0)
            return table[i].code;
    }
    return NULL;
}

static const char *decisive_code(struct bl_text text)
{
    return failure_look_up(decisive, BL_COUNT(decisive), text);
}

/* ---- Reading an error ------------------------------------------------------------------------ */

void model_failure_message(struct bl_model_failure *failure, struct bl_text text)
{
    size_t size = 0;

    text = bl_text_trim(text);
    while (text.size > 0) {
        uint32_t code_point;
        char encoded[4];
        size_t length = bl_utf8_decode(text, &code_point);
        if (length == 0)
            code_point = BL_UTF8_REPLACEMENT;
        else if (code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0))
            code_point = ' ';
        size_t count = bl_utf8_encode(code_point, encoded);
        if (size + count >= sizeof failure->message)
            break;
        memcpy(failure->message + size, encoded, count);
        size += count;
        length = length > 0 ? length : 1;
        text = (struct bl_text){text.data + length, text.size - length};
    }
    failure->message[size] = '\0';
}

/* The informative parts of an error object. */
struct error_parts {
    struct bl_text message;
    struct bl_text names[6]; /* its type, code, status, …, as texts */
    size_t name_count;
    int64_t number; /* its code, if numeric; else 0 */
};

static struct bl_text first_text(const struct bl_json *object, const char *const *keys)
{
    struct bl_text text = {0};

    for (; *keys != NULL && text.size == 0; keys++)
        text = bl_json_text(bl_json_get(object, bl_text_from(*keys)));
    return text;
}

static void failure_add_name(struct error_parts *parts, const struct bl_json *value)
{
    struct bl_text text = bl_json_text(value);
    int64_t number;

    if (bl_json_int64(value, &number) || bl_text_to_int64(text, &number) == 0)
        parts->number = number;
    else if (text.size > 0 && parts->name_count < BL_COUNT(parts->names))
        parts->names[parts->name_count++] = text;
}

static void failure_read_names(struct error_parts *parts, const struct bl_json *object)
{
    failure_add_name(parts, bl_json_get(object, BL_TEXT("code")));
    failure_add_name(parts, bl_json_get(object, BL_TEXT("type")));
    failure_add_name(parts, bl_json_get(object, BL_TEXT("status")));
    failure_add_name(parts, bl_json_pointer(object, BL_TEXT("/details/error_code")));
    /* Of a router, which wraps the error of the server behind it. */
    failure_add_name(parts, bl_json_pointer(object, BL_TEXT("/metadata/raw")));
    failure_add_name(parts, bl_json_get(object, BL_TEXT("__type")));
}

static void failure_read_parts(const struct bl_json *body, struct error_parts *parts)
{
    static const char *const message_keys[] = {"message", "msg", "detail", "error_msg", NULL};
    static const char *const wrapper_keys[] = {"error", "detail", "errors", NULL};
    const struct bl_json *object = body;

    *parts = (struct error_parts){0};
    /* [{"error":{…}}], {"error":{…}}, {"detail":[{"msg":…}]}: enough levels for all of them. */
    for (int level = 0; level < 4; level++) {
        const struct bl_json *inner = NULL;
        if (bl_json_is(object, BL_JSON_ARRAY))
            inner = bl_json_at(object, 0);
        for (const char *const *key = wrapper_keys; *key != NULL && inner == NULL; key++) {
            const struct bl_json *value = bl_json_get(object, bl_text_from(*key));
            if (bl_json_is(value, BL_JSON_OBJECT) || bl_json_is(value, BL_JSON_ARRAY) ||
                bl_json_is(value, BL_JSON_STRING))
                inner = value;
        }
        if (inner == NULL)
            break;
        object = inner;
    }
    parts->message = bl_json_text(object);
    if (parts->message.size == 0)
        parts->message = first_text(object, message_keys);
    if (parts->message.size == 0)
        parts->message = first_text(body, message_keys);
    failure_read_names(parts, object);
    if (object != body)
        failure_read_names(parts, body);
}

void model_failure_read(const struct bl_json *body, struct bl_model_failure *failure)
{
    struct error_parts parts;
    const char *code = NULL;

    failure_read_parts(body, &parts);
    for (size_t i = 0; i < parts.name_count && code == NULL; i++)
        code = decisive_code(parts.names[i]);
    if (code == NULL)
        code = decisive_code(parts.message);
    if (code != NULL)
        failure->code = code;
    struct bl_text message = parts.message;
    if (message.size == 0 && parts.name_count > 0)
        message = parts.names[0];
    if (message.size > 0)
        model_failure_message(failure, message);
}

/* Returns the code for a general type or a number, if there is no status. */
static const char *general_code(const struct bl_json *body)
{
    struct error_parts parts;
    const char *code = NULL;

    failure_read_parts(body, &parts);
    for (size_t i = 0; i < parts.name_count && code == NULL; i++)
        code = failure_look_up(general, BL_COUNT(general), parts.names[i]);
    if (code == NULL && parts.number >= 400 && parts.number < 600)
        code = bl_model_status_code((int)parts.number);
    return code != NULL ? code : "server";
}

int model_fail_body(struct model_assembly *assembly, const struct bl_json *body)
{
    struct bl_model_failure failure = {.code = NULL};

    model_failure_read(body, &failure);
    return model_fail(assembly, failure.code != NULL ? failure.code : general_code(body), 0,
                      bl_text_from(failure.message));
}

/* ---- When to try again ----------------------------------------------------------------------- */

/* Takes at most `most` digits off the front of `*rest`, and returns their number. */
static size_t failure_take_digits(struct bl_text *rest, size_t most, int64_t *ret_value)
{
    size_t count = 0;

    *ret_value = 0;
    while (count < most && count < rest->size && rest->data[count] >= '0' &&
           rest->data[count] <= '9')
        *ret_value = *ret_value * 10 + (rest->data[count++] - '0');
    rest->data += count;
    rest->size -= count;
    return count;
}

static bool failure_take_byte(struct bl_text *rest, const char *set)
{
    if (rest->size == 0 || strchr(set, rest->data[0]) == NULL || rest->data[0] == '\0')
        return false;
    rest->data++;
    rest->size--;
    return true;
}

/* Returns a decimal number of `unit_ms` each, in milliseconds, rounded up; negative if it is not a
 * number. */
static int64_t failure_read_decimal(struct bl_text text, int64_t unit_ms)
{
    int64_t whole, fraction = 0, scale = 1;

    if (failure_take_digits(&text, 18, &whole) == 0)
        return -1;
    if (failure_take_byte(&text, ".")) {
        size_t digits = failure_take_digits(&text, 6, &fraction);
        while (digits-- > 0)
            scale *= 10;
        while (failure_take_byte(&text, "0123456789"))
            ;
    }
    if (text.size > 0)
        return -1;
    if (whole > RETRY_AFTER_MS_LARGEST / unit_ms)
        return RETRY_AFTER_MS_LARGEST;
    return whole * unit_ms + (fraction * unit_ms + scale - 1) / scale;
}

/* Returns the days since 1970 of a date of the Gregorian calendar. */
static int64_t failure_days_of(int64_t year, int64_t month, int64_t day)
{
    /* Years that begin in March have their leap day last. */
    int64_t from_march = (month + 9) % 12;
    year -= month <= 2;
    return 365 * year + year / 4 - year / 100 + year / 400 + (153 * from_march + 2) / 5 + day - 1 -
           719468;
}

static bool take_month(struct bl_text *rest, int64_t *ret_month)
{
    static const char names[] = "janfebmaraprmayjunjulaugsepoctnovdec";

    for (int64_t month = 0; month < 12 && rest->size >= 3; month++) {
        const char *name = names + 3 * month;
        if (failure_lower(rest->data[0]) == name[0] && failure_lower(rest->data[1]) == name[1] &&
            failure_lower(rest->data[2]) == name[2]) {
            *ret_month = month + 1;
            rest->data += 3;
            rest->size -= 3;
            return true;
        }
    }
    return false;
}

static bool take_time(struct bl_text *rest, int64_t *ret_seconds)
{
    int64_t hour, minute, second;

    if (failure_take_digits(rest, 2, &hour) != 2 || !failure_take_byte(rest, ":") ||
        failure_take_digits(rest, 2, &minute) != 2 || !failure_take_byte(rest, ":") ||
        failure_take_digits(rest, 2, &second) != 2 || hour > 23 || minute > 59 || second > 60)
        return false;
    *ret_seconds = hour * 3600 + minute * 60 + second;
    return true;
}

/* Parses the three date formats of HTTP: "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94
 * 08:49:37 GMT", "Sun Nov 6 08:49:37 1994". Returns false if it is none of them. */
static bool read_date(struct bl_text text, int64_t *ret_seconds)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    int64_t year = 0, month, day, seconds;
    size_t year_digits;

    while (failure_take_byte(&text, letters))
        ;
    if (failure_take_byte(&text, ",")) {
        if (!failure_take_byte(&text, " ") || failure_take_digits(&text, 2, &day) == 0 ||
            !failure_take_byte(&text, " -") || !take_month(&text, &month) ||
            !failure_take_byte(&text, " -"))
            return false;
        year_digits = failure_take_digits(&text, 4, &year);
        if (!failure_take_byte(&text, " ") || !take_time(&text, &seconds))
            return false;
    } else {
        if (!failure_take_byte(&text, " ") || !take_month(&text, &month) ||
            !failure_take_byte(&text, " "))
            return false;
        failure_take_byte(&text, " ");
        if (failure_take_digits(&text, 2, &day) == 0 || !failure_take_byte(&text, " ") ||
            !take_time(&text, &seconds) || !failure_take_byte(&text, " "))
            return false;
        year_digits = failure_take_digits(&text, 4, &year);
    }
    if (year_digits == 2)
        year += year < 70 ? 2000 : 1900;
    else if (year_digits != 4)
        return false;
    if (day < 1 || day > 31)
        return false;
    *ret_seconds = failure_days_of(year, month, day) * 86400 + seconds;
    return true;
}

int64_t model_retry_after_ms(struct bl_text value, int64_t now_wall_ns)
{
    int64_t seconds;

    value = bl_text_trim(value);
    int64_t ms = failure_read_decimal(value, 1000);
    if (ms >= 0 || !read_date(value, &seconds))
        return ms;
    ms = seconds * 1000 - now_wall_ns / (int64_t)BL_NS_PER_MS;
    if (ms < 0)
        return 0;
    return ms < RETRY_AFTER_MS_LARGEST ? ms : RETRY_AFTER_MS_LARGEST;
}

/* ---- A failed answer ------------------------------------------------------------------------- */

/* An HTML page of a proxy or of a wrong address: only its title is worth showing. */
static void read_page(struct bl_text body, struct bl_model_failure *failure)
{
    ptrdiff_t open = find_words(body, "<title"), close = find_words(body, "</title");
    struct bl_text title = {0};
    char text[256];

    if (open >= 0 && close > open) {
        title = (struct bl_text){body.data + open, (size_t)(close - open)};
        ptrdiff_t end = bl_text_find(title, BL_TEXT(">"));
        title = end < 0 ? (struct bl_text){0}
                        : bl_text_trim(
                              (struct bl_text){title.data + end + 1, title.size - (size_t)end - 1});
    }
    title = bl_utf8_cut(title, 200);
    snprintf(text, sizeof text, "the answer is HTML%s" BL_TEXT_FORMAT, title.size > 0 ? ": " : "",
             BL_TEXT_ARG(title));
    model_failure_message(failure, bl_text_from(text));
}

static void failure_read_body(const struct model_api *api, struct bl_text body,
                              struct bl_model_failure *failure)
{
    struct bl_json_limits limits = {.replace_surrogates = true};
    BL_AUTO_ARENA(scratch);
    const struct bl_json *value;

    body = bl_text_trim(body);
    if (body.size == 0) {
        failure->message[0] = '\0';
    } else if (body.data[0] == '<') {
        read_page(body, failure);
    } else if (bl_json_read(&scratch, body, &limits, &value, NULL) == 0) {
        if (api != NULL && api->classify != NULL)
            api->classify(value, failure);
        else
            model_failure_read(value, failure);
        if (failure->code == NULL && (failure->status == 0 || failure->status / 100 == 2))
            failure->code = general_code(value);
    } else {
        /* Plain text, or JSON cut at our limit. */
        failure->code = decisive_code(body);
        model_failure_message(failure, body);
    }
}

void model_failure_classify(const struct model_api *api, int status, struct bl_text retry_after,
                            struct bl_text retry_after_ms, struct bl_text should_retry,
                            struct bl_text body, int64_t now_wall_ns,
                            struct bl_model_failure *failure)
{
    *failure = (struct bl_model_failure){.status = status, .should_retry = -1};
    failure->retry_after_ms = failure_read_decimal(bl_text_trim(retry_after_ms), 1);
    if (failure->retry_after_ms < 0)
        failure->retry_after_ms = model_retry_after_ms(retry_after, now_wall_ns);
    should_retry = bl_text_trim(should_retry);
    if (bl_text_equal(should_retry, BL_TEXT("true")))
        failure->should_retry = 1;
    else if (bl_text_equal(should_retry, BL_TEXT("false")))
        failure->should_retry = 0;
    failure_read_body(api, body, failure);
    const char *by_status = bl_model_status_code(status);
    /* Servers that limit the rate mention tokens and slowing down, too: for a 429, only a lack of
     * credit, and an overload named so, say more than the status. For status 2xx, the status says
     * nothing. */
    if (failure->code == NULL ||
        (status == 429 && strcmp(failure->code, "quota") != 0 &&
         find_words(body, "overload") < 0) ||
        status == 402 || status == 413 || (status >= 300 && status < 400))
        failure->code = by_status;
}
