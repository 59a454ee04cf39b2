/* The wire: events parsed from memory, with and without their JSON; an answer over loopback,
 * compared with a plain libcurl program that counts newlines; the time from the start of `belay
 * run` to its request; memory and stop times of thousands of streams. Argument: "quick" leaves the
 * thousands out. */
#include <curl/curl.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <belay/model.h>

#include "report.h"
#include "wire_server.h"

#define EVENT_SIZE    300u
#define MEMORY_EVENTS 200000u
#define FLOOD_EVENTS  200000u
#define FLOOD_ROUNDS  7
#define START_ROUNDS  41
#define STREAMS_MANY  10000u
#define STREAMS_SOME  1000u
#define STOPPED_ALONE 200u

static char event[EVENT_SIZE + 1]; /* a chunk like OpenAI's, of the same length */

static void make_event(void)
{
    static const char start[] =
        "data: {\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":"
        "1763250000,\"model\":\"bench-1\",\"system_fingerprint\":\"fp_0123456789\",\"choices\":[{"
        "\"index\":0,\"delta\":{\"content\":\" word";
    static const char end[] = "\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";

    memset(event, 'x', EVENT_SIZE);
    memcpy(event, start, sizeof start - 1);
    memcpy(event + EVENT_SIZE - (sizeof end - 1), end, sizeof end - 1);
}

/* ---- From memory ----------------------------------------------------------------------------- */

static struct bl_arena scratch;
static uint64_t counted;

static int count_event(void *context, const struct bl_sse_event *one)
{
    (void)context;
    counted += one->data.size > 0;
    return 0;
}

static int read_event(void *context, const struct bl_sse_event *one)
{
    const struct bl_json *json;

    (void)context;
    bl_arena_reset(&scratch);
    if (bl_json_read(&scratch, one->data, NULL, &json, NULL) != 0)
        report_die("an event is not JSON");
    struct bl_text text = bl_json_text(bl_json_pointer(json, BL_TEXT("/choices/0/delta/content")));
    counted += text.size > 0;
    return 0;
}

static double parse_ns(struct bl_text all, bl_sse_take *take)
{
    struct bl_sse sse;
    double from_ns = report_processor_ns();

    counted = 0;
    bl_sse_init(&sse, 1 << 20, 1 << 20);
    for (size_t at = 0; at < all.size; at += 16384) {
        size_t left = all.size - at;
        bl_sse_feed(&sse, (struct bl_text){all.data + at, left < 16384 ? left : 16384}, take, NULL);
    }
    bl_sse_done(&sse);
    if (counted != MEMORY_EVENTS)
        report_die("events were lost");
    return (report_processor_ns() - from_ns) / MEMORY_EVENTS;
}

static double newlines_ns(struct bl_text all)
{
    double from_ns = report_processor_ns();
    size_t lines = 0;

    for (const char *at = all.data;
         (at = memchr(at, '\n', (size_t)(all.data + all.size - at))) != NULL; at++)
        lines++;
    if (lines != 2 * MEMORY_EVENTS)
        report_die("lines were lost");
    return (report_processor_ns() - from_ns) / MEMORY_EVENTS;
}

static void from_memory(void)
{
    double plain[REPORT_ROUNDS], json[REPORT_ROUNDS], lines[REPORT_ROUNDS];
    char *all = malloc((size_t)MEMORY_EVENTS * EVENT_SIZE);

    for (size_t i = 0; i < MEMORY_EVENTS; i++)
        memcpy(all + i * EVENT_SIZE, event, EVENT_SIZE);
    struct bl_text text = {all, (size_t)MEMORY_EVENTS * EVENT_SIZE};
    for (size_t i = 0; i < REPORT_ROUNDS; i++) {
        lines[i] = newlines_ns(text);
        plain[i] = parse_ns(text, count_event);
        json[i] = parse_ns(text, read_event);
    }
    double baseline = report_median(lines, REPORT_ROUNDS);
    report_line("an event of 300 bytes, from memory", report_median(plain, REPORT_ROUNDS), "ns",
                "newlines counted", baseline);
    report_line("the same, its JSON read", report_median(json, REPORT_ROUNDS), "ns",
                "newlines counted", baseline);
    free(all);
    bl_arena_done(&scratch);
}

/* ---- Over loopback --------------------------------------------------------------------------- */

static size_t count_newlines(char *data, size_t size, size_t count, void *context)
{
    size_t *lines = context;

    for (const char *at = data; (at = memchr(at, '\n', size * count - (size_t)(at - data))) != NULL;
         at++)
        (*lines)++;
    return size * count;
}

static double bare_curl_ns(const char *url)
{
    CURL *easy = curl_easy_init();
    size_t lines = 0;
    double from_ns = report_wall_ns();

    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "{}");
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_newlines);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &lines);
    if (curl_easy_perform(easy) != CURLE_OK || lines != 2 * (FLOOD_EVENTS + 2))
        report_die("curl got something else");
    curl_easy_cleanup(easy);
    return (report_wall_ns() - from_ns) / FLOOD_EVENTS;
}

/* A sink that counts, for calls without an engine. */
struct counter {
    struct bl_sink sink;
    uint64_t texts;
};

static int count_piece(struct bl_sink *sink, const struct bl_piece *piece)
{
    BL_CONTAINER(sink, struct counter, sink)->texts += piece->type == BL_PIECE_TEXT;
    return 0;
}

static struct bl_provider provider = {.name = "bench", .api = BL_API_OPENAI};
static const struct bl_profile profile = {.model = "bench-1"};

static struct bl_remote *open_remote(const char *url, struct bl_model *ret_model)
{
    struct bl_remote *remote;
    struct bl_error error = {0};
    struct bl_remote_options options = {.provider = &provider, .profile = &profile, .seed = 1};

    provider.base_url = url;
    if (bl_remote_new(&options, &remote, ret_model, &error) != 0)
        report_die(error.message);
    return remote;
}

/* Measures an exchange and its events, without their interpretation by a model. */
static double events_ns(struct bl_client *client, const char *url)
{
    struct bl_http_request request = {.method = "POST", .url = url, .body = BL_TEXT("{}")};
    struct bl_exchange *exchange;
    struct bl_error error = {0};
    struct bl_text bytes;
    struct bl_sse sse;
    double from_ns = report_wall_ns();

    counted = 0;
    bl_sse_init(&sse, 1 << 20, 1 << 20);
    if (bl_exchange_new(client, &request, &exchange, &error) != 0)
        report_die(error.message);
    int code = bl_exchange_headers(exchange);
    while (code == 0 && (code = bl_exchange_read(exchange, &bytes)) == 0 && bytes.size > 0)
        code = bl_sse_feed(&sse, bytes, count_event, NULL);
    if (code != 0 || counted != FLOOD_EVENTS + 2)
        report_die("events were lost");
    bl_exchange_free(exchange);
    bl_sse_done(&sse);
    return (report_wall_ns() - from_ns) / FLOOD_EVENTS;
}

static int flood_main(void *argument)
{
    const char *url = argument;
    double ours[FLOOD_ROUNDS], bare[FLOOD_ROUNDS], events[FLOOD_ROUNDS];
    struct bl_client *client = bl_client_new(&(struct bl_client_options){0});
    struct bl_session session;
    struct bl_list messages;
    struct bl_model model;
    struct bl_remote *remote = open_remote(url, &model);
    struct bl_request request = {.session = &session, .messages = &messages};

    bl_session_init(&session, "bench");
    bl_list_init(&messages);
    for (size_t i = 0; i < FLOOD_ROUNDS; i++) {
        struct counter counter = {.sink = {.take = count_piece}};
        struct bl_error error = {0};
        char full[96];
        snprintf(full, sizeof full, "%s/chat/completions", url);
        bare[i] = bare_curl_ns(full);
        events[i] = events_ns(client, full);
        double from_ns = report_wall_ns();
        if (model.call(model.context, &request, &counter.sink, &error) != 0)
            report_die(error.message);
        ours[i] = (report_wall_ns() - from_ns) / FLOOD_EVENTS;
        if (counter.texts < FLOOD_EVENTS)
            report_die("pieces were lost");
    }
    double baseline = report_median(bare, FLOOD_ROUNDS);
    report_line("an event over loopback", report_median(events, FLOOD_ROUNDS), "ns",
                "bare libcurl, newlines counted", baseline);
    report_line("the same, to a piece of text", report_median(ours, FLOOD_ROUNDS), "ns",
                "bare libcurl, newlines counted", baseline);
    bl_client_free(client);
    bl_session_done(&session);
    bl_remote_free(remote);
    return 0;
}

/* ---- The start ------------------------------------------------------------------------------- */

static void run_belay(const char *base_url, const char *store)
{
    pid_t pid = fork();

    if (pid == 0) {
        setenv("OPENAI_BASE_URL", base_url, 1);
        setenv("OPENAI_API_KEY", "sk-bench", 1);
        setenv("BELAY_STORE", store, 1);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execl(BELAY_BUILD_ROOT "/belay", "belay", "run", "--provider", "openai", "--model",
              "bench-1", "Say hi.", NULL);
        _exit(127);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        report_die("belay did not finish");
}

static void start_to_request(void)
{
    struct wire_server server = wire_server_tell(event);
    double values[START_ROUNDS];
    char url[64], store[64] = "/tmp/belay-bench-XXXXXX", command[128];

    if (mkdtemp(store) == NULL)
        report_die("no folder");
    snprintf(command, sizeof command, "rm -rf %s", store);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/v1", server.port);
    strcat(store, "/store.db");
    for (size_t i = 0; i < START_ROUNDS; i++) {
        double arrived_ns, from_ns = report_wall_ns();
        run_belay(url, store);
        if (read(server.arrivals, &arrived_ns, sizeof arrived_ns) != sizeof arrived_ns)
            report_die("no request came");
        values[i] = (arrived_ns - from_ns) / 1e6;
    }
    report_line("start of belay run to its request at the server",
                report_median(values, START_ROUNDS), "ms", "15 ms", 15);
    wire_server_end(&server);
    if (system(command) != 0)
        report_die("the folder stays");
}

/* ---- Thousands ------------------------------------------------------------------------------- */

static double resident_kib(void)
{
    char text[128];
    struct bl_text rest = bl_file_read(-100, "/proc/self/statm", text, sizeof text), word;
    int64_t pages = 0;

    bl_text_split(&rest, ' ', &word);
    if (bl_text_split(&rest, ' ', &word))
        bl_text_to_int64(word, &pages);
    return (double)pages * 4;
}

static unsigned descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    while (folder != NULL && readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* A streaming turn, in its own fiber and scope. */
struct stream {
    struct bl_model *model;
    struct bl_scope scope;
    struct bl_fiber *fiber;
    struct bl_session session;
    uint64_t ended_ns;
    enum bl_turn_end end;
};

static struct {
    struct bl_model model;
    struct stream streams[STREAMS_MANY];
    unsigned begun; /* streams with output */
    unsigned ended;
} house;

static void hear(void *context, const struct bl_event *told)
{
    (void)context;
    house.begun += told->type == BL_EVENT_TEXT_DELTA;
}

static int stream_main(void *argument)
{
    static const struct bl_listener listener = {.event = hear};
    struct stream *stream = argument;
    struct bl_engine engine = {
        .model = &house.model, .listener = &listener, .clock = bl_loop_clock(bl_loop_current())};
    struct bl_turn_result result;
    struct bl_receipt receipt;
    struct bl_journal journal;
    struct bl_arena arena;

    bl_turn_limits_init(&engine.limits);
    bl_arena_init(&arena);
    bl_session_init(&stream->session, "bench");
    bl_receipt_open(&receipt, &stream->scope, "run_bench");
    bl_journal_init(&journal, &engine, "run_bench", "bench");
    bl_turn_run(&engine, &stream->session,
                &(struct bl_turn_options){.scope = &stream->scope,
                                          .receipt = &receipt,
                                          .journal = &journal,
                                          .prompt = BL_TEXT("Say something.")},
                &arena, &result);
    stream->end = result.end;
    bl_journal_done(&journal);
    bl_receipt_close(&receipt);
    bl_session_done(&stream->session);
    bl_arena_done(&arena);
    stream->ended_ns = bl_now_ns();
    house.ended++;
    return 0;
}

static void open_streams(struct bl_nursery *nursery, unsigned count)
{
    house.begun = house.ended = 0;
    for (unsigned i = 0; i < count; i++) {
        struct stream *stream = &house.streams[i];
        bl_scope_init(&stream->scope, &nursery->scope);
        if (bl_nursery_spawn(nursery, &stream->scope, "stream", stream_main, stream, NULL) != 0)
            report_die("no fiber");
        /* The system's queue of connections is limited. */
        while (i + 1 - house.begun > 256)
            bl_sleep(BL_NS_PER_MS / 4);
    }
    while (house.begun < count)
        bl_sleep(BL_NS_PER_MS);
}

static void close_streams(struct bl_nursery *nursery, unsigned count)
{
    while (house.ended < count)
        bl_yield();
    for (unsigned i = 0; i < count; i++) {
        if (house.streams[i].end != BL_TURN_CANCELLED)
            report_die("a stream ended in another way");
        bl_scope_done(&house.streams[i].scope);
    }
    bl_nursery_done(nursery);
}

static int many_main(void *argument)
{
    double *results = argument;
    char url[64];
    struct bl_nursery nursery;

    snprintf(url, sizeof url, "http://127.0.0.1:%u", (unsigned)results[3]);
    struct bl_remote *remote = open_remote(url, &house.model);
    unsigned before_descriptors = descriptors();
    memset(house.streams, 1, sizeof house.streams);
    double before_kib = resident_kib();
    bl_nursery_init(&nursery, bl_scope_current());
    open_streams(&nursery, STREAMS_MANY);
    results[0] = (resident_kib() - before_kib) / STREAMS_MANY;
    uint64_t from_ns = bl_now_ns();
    bl_scope_stop(&nursery.scope, BL_STOP_USER, "bench");
    while (house.ended < STREAMS_MANY)
        bl_yield();
    results[1] = (double)(bl_now_ns() - from_ns) / 1e6;
    close_streams(&nursery, STREAMS_MANY);
    bl_remote_free(remote);
    results[2] = (double)descriptors() - before_descriptors;
    return 0;
}

static int some_main(void *argument)
{
    double *results = argument, times[STOPPED_ALONE];
    char url[64];
    struct bl_nursery nursery;

    snprintf(url, sizeof url, "http://127.0.0.1:%u", (unsigned)results[3]);
    struct bl_remote *remote = open_remote(url, &house.model);
    bl_nursery_init(&nursery, bl_scope_current());
    open_streams(&nursery, STREAMS_SOME);
    for (unsigned i = 0; i < STOPPED_ALONE; i++) {
        struct stream *stream = &house.streams[i * 5];
        uint64_t from_ns = bl_now_ns();
        stream->ended_ns = 0;
        bl_scope_stop(&stream->scope, BL_STOP_USER, "bench");
        while (stream->ended_ns == 0)
            bl_yield();
        times[i] = (double)(stream->ended_ns - from_ns) / 1e6;
    }
    bl_scope_stop(&nursery.scope, BL_STOP_USER, "bench");
    close_streams(&nursery, STREAMS_SOME);
    bl_remote_free(remote);
    report_median(times, STOPPED_ALONE);
    results[0] = times[STOPPED_ALONE / 2];
    results[1] = times[STOPPED_ALONE * 99 / 100];
    return 0;
}

/* The memory of curl alone per stream: the same connections, a multi handle, no fibers and nothing
 * else of belay. */
static double bare_streams_kib(uint16_t port)
{
    CURLM *multi = curl_multi_init();
    char url[64];
    size_t lines = 0;
    int running;

    snprintf(url, sizeof url, "http://127.0.0.1:%u/chat/completions", port);
    double before_kib = resident_kib();
    for (unsigned i = 0; i < STREAMS_MANY; i++) {
        CURL *easy = curl_easy_init();
        curl_easy_setopt(easy, CURLOPT_URL, url);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "{}");
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_newlines);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, &lines);
        curl_multi_add_handle(multi, easy);
        while (2 * (i + 1) > lines + 512) {
            curl_multi_perform(multi, &running);
            curl_multi_poll(multi, NULL, 0, 1, NULL);
        }
    }
    while (lines < 2 * STREAMS_MANY)
        curl_multi_perform(multi, &running);
    return (resident_kib() - before_kib) / STREAMS_MANY;
}

/* Runs `main` in a separate process, so that memory left by one does not help the next. */
static void apart(bl_fiber_main *main, double results[4])
{
    int ends[2];

    if (pipe(ends) != 0)
        report_die("no pipe");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct bl_loop *loop;
        if (main == NULL)
            results[0] = bare_streams_kib((uint16_t)results[3]);
        else if (bl_loop_new(NULL, &loop, NULL) != 0 ||
                 bl_loop_run(loop, "bench", main, results) != 0)
            report_die("no loop");
        if (write(ends[1], results, 4 * sizeof *results) < 0)
            report_die("no pipe");
        _exit(0);
    }
    close(ends[1]);
    if (read(ends[0], results, 4 * sizeof *results) != (ssize_t)(4 * sizeof *results))
        report_die("it did not finish");
    close(ends[0]);
    waitpid(pid, NULL, 0);
}

static void thousands(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < STREAMS_MANY + 64) {
        fprintf(stderr, "wire: %u streams need as many descriptors: left out\n", STREAMS_MANY);
        return;
    }
    struct wire_server server = wire_server_hold(event);
    double bare[4] = {[3] = server.port}, many[4] = {[3] = server.port},
           some[4] = {[3] = server.port};
    apart(NULL, bare);
    apart(many_main, many);
    apart(some_main, some);
    report_line("10,000 streaming turns: memory of one, curl's handle included", many[0], "KiB",
                "curl's handle alone", bare[0]);
    report_line("10,000 streaming turns: all cut", many[1], "ms", "500 ms", 500);
    if (many[2] != 0)
        report_die("descriptors are left");
    report_line("one of 1,000 streaming turns stopped, median", some[0], "ms", "10 ms", 10);
    report_line("one of 1,000 streaming turns stopped, 99 of 100", some[1], "ms", "10 ms", 10);
    wire_server_end(&server);
}

int main(int count, char **arguments)
{
    struct bl_loop *loop;
    char url[64];

    make_event();
    curl_global_init(CURL_GLOBAL_DEFAULT);
    from_memory();
    struct wire_server server = wire_server_flood(event, FLOOD_EVENTS);
    snprintf(url, sizeof url, "http://127.0.0.1:%u", server.port);
    if (bl_loop_new(NULL, &loop, NULL) != 0 || bl_loop_run(loop, "bench", flood_main, url) != 0)
        report_die("no loop");
    bl_loop_free(loop);
    wire_server_end(&server);
    start_to_request();
    if (count < 2 || strcmp(arguments[1], "quick") != 0)
        thousands();
    return 0;
}
