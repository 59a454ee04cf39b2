/* Design notes.
 *
 * One player serves all clients: replies are used up in the order of the requests, as in a process.
 * Clients with concurrent requests race for them; a script for several clients tells them apart by
 * `when`.
 *
 * A reply that is a failure is shown as a client would see it: a status with the format's own
 * error, a cut connection, silence. One request is one attempt: retries are up to the client. */
#include <stdio.h>

#include "serve.h"

#define JOURNAL_TEXT_MAX 1024u
#define PROBLEM_MAX      ((size_t)64 * 1024)
/* More than any client reads of headers. */
#define HUGE_HEADER_SIZE ((size_t)70 * 1024)
#define HEADERS_MAX      6u
/* The text that a stream sends before it is cut or stalls. */
#define FIRST_TOKEN  "\u2026"
#define CUT_DELAY_NS (20 * BL_NS_PER_MS)

struct bl_script_server {
    struct bl_http_server *http;
    struct bl_script_player *player;
    struct bl_model model; /* the player's */
    struct bl_script_server_options options;
    const struct bl_clock *clock;
    uint64_t requests;
};

/* One request being served. */
struct serving {
    struct bl_script_server *server;
    struct bl_http_call *call;
    enum bl_api api;
    uint64_t number;
    struct script_request request;
    struct script_answer answer;
    const struct script_reply *reply; /* NULL: none yet */
    struct bl_usage usage;            /* of the answer */
    int status;                       /* 0: none was sent */
    bool cut;
};

/* ---- The journal ----------------------------------------------------------------------------- */

#define BL_RECORD_STRUCT struct bl_script_served
static const struct bl_member served_members[] = {
    BL_MEMBER_INTEGER("n", number, .least = 1,
                      .about = "Numbered in order of arrival; lines are in the order in which "
                               "requests are answered."),
    BL_MEMBER_ENUM("format", api, &bl_api_names),
    BL_MEMBER_TEXT("path", path, .about = "With its query."),
    BL_MEMBER_TEXT("model", model, .nullable = true, BL_KNOWN(has_model),
                   .about = "null if the request names none."),
    BL_MEMBER_BOOLEAN("stream", stream),
    BL_MEMBER_INTEGER("max_tokens", max_tokens, .nullable = true, .least = 1,
                      .about = "The requested output limit; null if none."),
    BL_MEMBER_INTEGER("body_bytes", body_size),
    BL_MEMBER_INTEGER("input_tokens", usage.input_tokens),
    BL_MEMBER_INTEGER("output_tokens", usage.output_tokens),
    BL_MEMBER_INTEGER("status", status, .most = 599, .about = "0 if no answer was sent."),
    BL_MEMBER_BOOLEAN("cut", cut, .about = "The connection closed before the end of the answer."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_script_served_record =
    BL_RECORD("served_request", struct bl_script_served, served_members, .closed = true);

static void write_journal(const struct serving *serving)
{
    const struct bl_script_server_options *options = &serving->server->options;
    const struct script_request *request = &serving->request;

    if (options->journal == NULL)
        return;
    options->journal(
        options->context,
        &(struct bl_script_served){
            .number = serving->number,
            .api = serving->api,
            .path = bl_utf8_cut(bl_http_call_path(serving->call), JOURNAL_TEXT_MAX),
            .has_model = request->model.data != NULL,
            .model = bl_utf8_cut(request->model, JOURNAL_TEXT_MAX),
            .stream = request->stream,
            .max_tokens = request->max_tokens != BL_UNLIMITED ? request->max_tokens : 0,
            .body_size = bl_http_call_body(serving->call).size,
            .usage = serving->usage,
            .status = serving->status,
            .cut = serving->cut});
}

/* ---- Answers --------------------------------------------------------------------------------- */

static struct bl_http_header header(const char *name, struct bl_text value)
{
    return (struct bl_http_header){bl_text_from(name), value};
}

static struct bl_text request_id(const struct serving *serving)
{
    return bl_arena_printf(bl_http_call_arena(serving->call), "req_script_%llu",
                           (unsigned long long)serving->number);
}

/* Writes the headers of any answer of the format, and returns their number. */
static size_t common_headers(const struct serving *serving, const char *type,
                             struct bl_http_header out[HEADERS_MAX])
{
    size_t count = 0;

    out[count++] = header("content-type", bl_text_from(type));
    if (serving->api == BL_API_ANTHROPIC)
        out[count++] = header("request-id", request_id(serving));
    else if (serving->api != BL_API_OLLAMA)
        out[count++] = header("x-request-id", request_id(serving));
    return count;
}

static void script_serve_answer_whole(struct serving *serving, int status,
                                      const struct bl_http_header *headers, size_t header_count,
                                      struct bl_text body)
{
    serving->status = status;
    if (bl_http_call_answer(serving->call, status, headers, header_count, body) != 0)
        serving->cut = true;
}

static void answer_json(struct serving *serving, struct bl_text body)
{
    struct bl_http_header headers[HEADERS_MAX];
    size_t count = common_headers(serving, "application/json", headers);

    script_serve_answer_whole(serving, 200, headers, count, body);
}

static void cut(struct serving *serving)
{
    serving->cut = true;
    bl_http_call_cut(serving->call);
}

/* Answers with the headers that a failure of the script has; `failure` may be NULL. */
static void answer_problem(struct serving *serving, const struct script_problem *problem,
                           const struct bl_model_failure *failure)
{
    struct bl_arena *arena = bl_http_call_arena(serving->call);
    struct bl_http_header headers[HEADERS_MAX];
    size_t count = common_headers(serving, "application/json", headers);
    int status = script_problem_status(problem, serving->api);
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(body, PROBLEM_MAX);

    if (failure != NULL && failure->retry_after_ms >= 0) {
        unsigned long long ms = (unsigned long long)failure->retry_after_ms;
        headers[count++] =
            header("retry-after", bl_arena_printf(arena, "%llu", ms / 1000 + (ms % 1000 != 0)));
        headers[count++] = header("retry-after-ms", bl_arena_printf(arena, "%llu", ms));
    }
    if (failure != NULL && failure->should_retry >= 0)
        headers[count++] = header("x-should-retry",
                                  failure->should_retry > 0 ? BL_TEXT("true") : BL_TEXT("false"));
    if (status >= 300 && status < 400)
        headers[count++] = header("location", BL_TEXT("http://elsewhere.invalid/"));
    bl_json_writer_init(&writer, &body);
    script_problem_write(&writer, problem, serving->api, request_id(serving));
    script_serve_answer_whole(serving, status, headers, count, bl_buffer_text(&body));
}

/* The stream begins with the first piece: a script that is silent before it is silent on the wire,
 * too. */
static int start_stream(void *context)
{
    struct serving *serving = context;
    struct bl_http_header headers[HEADERS_MAX];
    size_t count = common_headers(
        serving,
        serving->api == BL_API_OLLAMA ? "application/x-ndjson" : "text/event-stream; charset=utf-8",
        headers);

    headers[count++] = header("cache-control", BL_TEXT("no-cache"));
    serving->status = 200;
    if (serving->reply != NULL)
        serving->answer.usage = script_usage(serving->reply, serving->request.newest, 0);
    return bl_http_call_begin(serving->call, 200, headers, count);
}

static int script_serve_write_stream(void *context, struct bl_text bytes)
{
    struct serving *serving = context;
    return bl_http_call_write(serving->call, bytes);
}

static void script_serve_end_answer(struct serving *serving)
{
    serving->usage = serving->answer.usage;
    if (!serving->request.stream)
        answer_json(serving, bl_buffer_text(&serving->answer.out));
    else if (bl_http_call_end(serving->call) != 0)
        serving->cut = true;
}

/* ---- Failures of the script ------------------------------------------------------------------ */

/* Begins an answer that never ends. */
static int script_serve_begin_answer(struct serving *serving,
                                     const struct bl_model_failure *failure)
{
    struct bl_http_header headers[HEADERS_MAX];
    struct bl_text said = bl_text_from(failure->message);
    struct bl_piece piece = {.type = BL_PIECE_TEXT,
                             .text = said.size > 0 ? said : BL_TEXT(FIRST_TOKEN)};

    if (serving->request.stream)
        return serving->answer.sink.take(&serving->answer.sink, &piece);
    serving->status = 200;
    size_t count = common_headers(serving, "application/json", headers);
    int result = bl_http_call_begin(serving->call, 200, headers, count);
    return result == 0 ? bl_http_call_write(serving->call, BL_TEXT("{\"id\":")) : result;
}

/* Stays silent until the client disconnects. */
static void stay_silent(struct serving *serving)
{
    (void)bl_sleep(BL_NEVER);
    cut(serving);
}

static void answer_html(struct serving *serving)
{
    struct bl_http_header headers[HEADERS_MAX];
    size_t count = common_headers(serving, "text/html", headers);

    script_serve_answer_whole(
        serving, 200, headers, count,
        BL_TEXT("<!doctype html><title>script</title><p>This is not a model's answer.\n"));
}

static void answer_huge_header(struct serving *serving)
{
    char *value = bl_arena_alloc(bl_http_call_arena(serving->call), HUGE_HEADER_SIZE);
    struct bl_http_header headers[HEADERS_MAX];
    size_t count = common_headers(serving, "application/json", headers);

    memset(value, 'x', HUGE_HEADER_SIZE);
    headers[count++] = header("x-huge", (struct bl_text){value, HUGE_HEADER_SIZE});
    script_serve_answer_whole(serving, 200, headers, count, BL_TEXT("{}"));
}

/* Sends an answer that contains only a refusal. */
static void refuse_answer(struct serving *serving)
{
    struct bl_usage usage = {.input_tokens = script_count_words(serving->request.newest)};

    if (script_answer_finish(&serving->answer, &usage, BL_ANSWER_REFUSAL) == 0)
        script_serve_end_answer(serving);
    else
        cut(serving);
}

static void play_failure(struct serving *serving, const struct bl_model_failure *failure)
{
    struct script_problem problem = {.status = failure->status, .code = failure->code};
    const char *code =
        failure->code != NULL ? failure->code : bl_model_status_code(failure->status);

    bl_text_into(problem.message, sizeof problem.message, failure->message);
    if (failure->status >= 200) {
        answer_problem(serving, &problem, failure);
    } else if (strcmp(code, "connect") == 0 || strcmp(code, "dns") == 0 ||
               strcmp(code, "tls") == 0) {
        /* The closest that a server can do after it has the request. */
        cut(serving);
    } else if (strcmp(code, "stream_cut") == 0) {
        /* A reset would overtake sent data: the client must see the beginning first. */
        if (script_serve_begin_answer(serving, failure) == 0)
            (void)bl_sleep(CUT_DELAY_NS);
        cut(serving);
    } else if (strcmp(code, "stall") == 0) {
        if (script_serve_begin_answer(serving, failure) != 0)
            cut(serving);
        else
            stay_silent(serving);
    } else if (strcmp(code, "first_byte") == 0) {
        stay_silent(serving);
    } else if (strcmp(code, "bad_response") == 0) {
        answer_html(serving);
    } else if (strcmp(code, "limit") == 0) {
        answer_huge_header(serving);
    } else if (strcmp(code, "refusal") == 0 && serving->api != BL_API_OLLAMA) {
        refuse_answer(serving);
    } else {
        problem.status = 0;
        answer_problem(serving, &problem, failure);
    }
}

/* ---- One request of a model ------------------------------------------------------------------ */

static void script_serve_play(struct serving *serving)
{
    struct script_answer *answer = &serving->answer;
    struct bl_text newest = serving->request.newest;
    struct bl_error error = {0};

    int result = script_attempt(serving->server->player, newest, serving->request.images,
                                &answer->sink, &serving->reply, &error);
    const struct script_reply *reply = serving->reply;
    if (reply == NULL && error.code != 0) {
        /* The script has no reply left: a retry would not help. */
        struct script_problem problem = {.code = "bad_request"};
        bl_text_into(problem.message, sizeof problem.message, error.message);
        answer_problem(serving, &problem, NULL);
        return;
    }
    if (reply != NULL && reply->failures > 0 && result == BL_EIO) {
        play_failure(serving, &reply->failure);
        return;
    }
    if (reply != NULL && reply->failures == 0)
        serving->usage = script_usage(reply, newest, answer->words);
    if (answer->truncated)
        result = script_answer_finish(answer, &serving->usage, BL_ANSWER_MAX_TOKENS);
    if (result == 0)
        script_serve_end_answer(serving);
    else
        cut(serving);
}

static void serve_model(struct serving *serving)
{
    struct bl_arena *arena = bl_http_call_arena(serving->call);
    struct script_problem problem;

    if (script_request_read(arena, serving->api, false, bl_http_call_body(serving->call),
                            &serving->request, &problem) != 0) {
        answer_problem(serving, &problem, NULL);
        return;
    }
    script_answer_init(&serving->answer, &serving->request, arena, serving->server->clock,
                       serving->number);
    serving->answer.start = start_stream;
    serving->answer.write = script_serve_write_stream;
    serving->answer.context = serving;
    script_serve_play(serving);
    script_answer_done(&serving->answer);
}

/* ---- The other requests ---------------------------------------------------------------------- */

static void serve_count(struct serving *serving)
{
    struct bl_arena *arena = bl_http_call_arena(serving->call);
    struct script_problem problem;

    if (script_request_read(arena, serving->api, true, bl_http_call_body(serving->call),
                            &serving->request, &problem) != 0) {
        answer_problem(serving, &problem, NULL);
        return;
    }
    unsigned long long words = script_count_words(serving->request.newest);
    answer_json(serving, bl_arena_printf(arena, "{\"input_tokens\":%llu}", words));
}

static void write_models(struct bl_json_writer *writer, const struct serving *serving)
{
    const char *name = bl_script_name(serving->server->options.script);
    int64_t wall_ns = bl_clock_wall_ns(serving->server->clock);
    char now[32];

    bl_time_format(wall_ns, now);
    bl_json_write_object(writer);
    if (serving->api == BL_API_OPENAI)
        bl_json_put_string(writer, "object", "list");
    bl_json_write_key(writer, serving->api == BL_API_OLLAMA ? BL_TEXT("models") : BL_TEXT("data"));
    bl_json_write_array(writer);
    bl_json_write_object(writer);
    if (serving->api == BL_API_OLLAMA) {
        bl_json_put_string(writer, "name", name);
        bl_json_put_string(writer, "model", name);
        bl_json_put_string(writer, "modified_at", now);
        bl_json_put_uint64(writer, "size", 0);
        bl_json_put_string(writer, "digest", "");
        bl_json_put_json(writer, "details",
                         BL_TEXT("{\"parent_model\":\"\",\"format\":\"script\",\"family\":"
                                 "\"script\",\"families\":[\"script\"],\"parameter_size\":\"0\","
                                 "\"quantization_level\":\"\"}"));
    } else if (serving->api == BL_API_ANTHROPIC) {
        bl_json_put_string(writer, "type", "model");
        bl_json_put_string(writer, "id", name);
        bl_json_put_string(writer, "display_name", name);
        bl_json_put_string(writer, "created_at", now);
    } else {
        bl_json_put_string(writer, "id", name);
        bl_json_put_string(writer, "object", "model");
        bl_json_put_uint64(writer, "created", (uint64_t)wall_ns / BL_NS_PER_S);
        bl_json_put_string(writer, "owned_by", "script");
    }
    bl_json_write_end(writer);
    bl_json_write_end(writer);
    if (serving->api == BL_API_ANTHROPIC) {
        bl_json_put_boolean(writer, "has_more", false);
        bl_json_put_string(writer, "first_id", name);
        bl_json_put_string(writer, "last_id", name);
    }
    bl_json_write_end(writer);
}

static void serve_models(struct serving *serving)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(body, PROBLEM_MAX);

    bl_json_writer_init(&writer, &body);
    write_models(&writer, serving);
    answer_json(serving, bl_buffer_text(&body));
}

/* ---- Routes ---------------------------------------------------------------------------------- */

static const struct route {
    const char *method;
    const char *path;
    enum bl_api api;
    void (*serve)(struct serving *serving);
} routes[] = {
    {"POST", "/v1/messages", BL_API_ANTHROPIC, serve_model},
    {"POST", "/v1/messages/count_tokens", BL_API_ANTHROPIC, serve_count},
    {"POST", "/v1/chat/completions", BL_API_OPENAI, serve_model},
    {"POST", "/chat/completions", BL_API_OPENAI, serve_model},
    {"POST", "/v1/responses", BL_API_OPENAI_RESPONSES, serve_model},
    {"POST", "/responses", BL_API_OPENAI_RESPONSES, serve_model},
    {"POST", "/api/chat", BL_API_OLLAMA, serve_model},
    {"GET", "/v1/models", BL_API_OPENAI, serve_models},
    {"GET", "/models", BL_API_OPENAI, serve_models},
    {"GET", "/api/tags", BL_API_OLLAMA, serve_models},
};

/* Returns the format for a path that belongs to two formats, or to none: guessed from the path's
 * prefix and the headers. */
static enum bl_api guess_api(const struct bl_http_call *call, struct bl_text path)
{
    if (bl_text_starts_with(path, BL_TEXT("/api/")))
        return BL_API_OLLAMA;
    bool anthropic = bl_http_call_header(call, "anthropic-version").size > 0 ||
                     bl_text_starts_with(path, BL_TEXT("/v1/messages"));
    return anthropic ? BL_API_ANTHROPIC : BL_API_OPENAI;
}

static void script_serve_route(struct serving *serving)
{
    struct bl_text rest = bl_http_call_path(serving->call), path = rest;
    struct script_problem problem = {.status = 404, .code = "not_found"};

    bl_text_split(&rest, '?', &path);
    serving->api = guess_api(serving->call, path);
    for (size_t i = 0; i < BL_COUNT(routes); i++) {
        if (!bl_text_equal(path, bl_text_from(routes[i].path)))
            continue;
        if (!bl_text_equal(bl_http_call_method(serving->call), bl_text_from(routes[i].method))) {
            problem.status = 405;
            problem.code = "bad_request";
            continue;
        }
        if (routes[i].serve != serve_models)
            serving->api = routes[i].api;
        routes[i].serve(serving);
        return;
    }
    if (problem.status == 405)
        bl_text_into(problem.message, sizeof problem.message, "method not allowed for this path");
    else
        snprintf(problem.message, sizeof problem.message, "there is no resource at " BL_TEXT_FORMAT,
                 BL_TEXT_ARG(bl_utf8_cut(path, 200)));
    answer_problem(serving, &problem, NULL);
}

static void script_serve(void *context, struct bl_http_call *call)
{
    struct bl_script_server *server = context;
    /* On the heap: too large for a fiber's stack, with the calls below. */
    struct serving *serving = bl_arena_zalloc(bl_http_call_arena(call), sizeof *serving);

    serving->server = server;
    serving->call = call;
    serving->number = ++server->requests;
    script_serve_route(serving);
    write_journal(serving);
}

/* ---- The server ------------------------------------------------------------------------------ */

int bl_script_server_start(struct bl_nursery *nursery,
                           const struct bl_script_server_options *options,
                           struct bl_script_server **ret_server, struct bl_error *error)
{
    struct bl_script_server *server = bl_zalloc(sizeof *server);
    struct bl_http_server_options http = {
        .address = "127.0.0.1",
        .port = options->port,
        .serve = script_serve,
        .context = server,
    };

    server->options = *options;
    server->clock = bl_loop_clock(bl_loop_current());
    server->player = bl_script_player_new(options->script, options->seed, &server->model);
    int result = bl_http_server_start(nursery, &http, &server->http, error);
    if (result != 0) {
        bl_script_player_free(server->player);
        bl_free(server);
        return result;
    }
    *ret_server = server;
    return 0;
}

uint16_t bl_script_server_port(const struct bl_script_server *server)
{
    return bl_http_server_port(server->http);
}

void bl_script_server_stop(struct bl_script_server *server)
{
    if (server == NULL)
        return;
    bl_http_server_stop(server->http);
    bl_script_player_free(server->player);
    bl_free(server);
}
