#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "asking.h"
#include "figure.h"

#define HEAD    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
#define CHUNKED HEAD "Transfer-Encoding: chunked\r\n\r\n"

/* ---- Stops ----------------------------------------------------------------------------------- */

/* A phase in which an exchange blocks. */
struct phase_case {
    const char *name;
    const char *place;
    const struct peer_act *acts;
    bool secure;
    bool through_proxy;
    bool names;   /* the name server does not answer */
    bool backlog; /* the listen queue is full */
    size_t body_size;
};

static const struct peer_act silent[] = {{.type = PEER_SILENCE}, {.type = PEER_END}};
static const struct peer_act reads_and_is_silent[] = {
    {.type = PEER_READ_REQUEST}, {.type = PEER_SILENCE}, {.type = PEER_END}};
static const struct peer_act silent_after_some[] = {
    {.type = PEER_READ_SOME, .number = 4096}, {.type = PEER_SILENCE}, {.type = PEER_END}};
static const struct peer_act silent_after_headers[] = {
    {.type = PEER_READ_REQUEST},
    {.type = PEER_SEND, .bytes = {CHUNKED, sizeof CHUNKED - 1}},
    {.type = PEER_SILENCE},
    {.type = PEER_END}};
static const struct peer_act silent_in_an_event[] = {
    {.type = PEER_READ_REQUEST},
    {.type = PEER_SEND, .bytes = {CHUNKED "7\r\ndata: {\r\n", sizeof CHUNKED - 1 + 12}},
    {.type = PEER_SILENCE},
    {.type = PEER_END}};
static const struct peer_act silent_in_a_character[] = {
    {.type = PEER_READ_REQUEST},
    {.type = PEER_SEND, .bytes = {CHUNKED "8\r\ndata: \xe2\x82\r\n", sizeof CHUNKED - 1 + 13}},
    {.type = PEER_SILENCE},
    {.type = PEER_END}};

static const struct phase_case phases[] = {
    {"dns", "in dns", silent, .names = true},
    {"connect", "in connect", silent, .backlog = true},
    {"proxy", "in proxy", silent_after_some, .secure = true, .through_proxy = true},
    {"tls", "in tls", silent_after_some, .secure = true},
    {"upload", "in upload", silent_after_some, .body_size = 8u << 20},
    {"before headers", "before headers", reads_and_is_silent, .secure = false},
    {"after headers", "stream cut after 0 bytes", silent_after_headers, .secure = false},
    {"mid-event", "stream cut after 7 bytes", silent_in_an_event, .secure = false},
    {"mid-UTF-8", "stream cut after 8 bytes", silent_in_a_character, .secure = false},
};

/* A socket that accepts no more connections: clients block in connect. */
struct full_port {
    int fd;
    int fillers[4];
    uint16_t port;
};

static int loopback_socket(int type, uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void full_port_open(struct full_port *full)
{
    full->fd = loopback_socket(SOCK_STREAM, &full->port);
    listen(full->fd, 0);
    for (size_t i = 0; i < BL_COUNT(full->fillers); i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons(full->port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        full->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(full->fillers[i], (struct sockaddr *)&address, sizeof address);
    }
}

static void full_port_close(struct full_port *full)
{
    for (size_t i = 0; i < BL_COUNT(full->fillers); i++)
        close(full->fillers[i]);
    close(full->fd);
}

/* One trusted certificate that belongs to no server: reading all of the system's takes seconds
 * under a checker that tracks allocations. */
static const char nobody[] = "-----BEGIN CERTIFICATE-----\n"
                             "MIIBeDCCAR+gAwIBAgIUdls+f7EbNMc/3Bsgm4yjfJDeDK0wCgYIKoZIzj0EAwIw\n"
                             "ETEPMA0GA1UEAwwGbm9ib2R5MCAXDTI2MTExNjAzMDc0NloYDzIxMjYxMDIzMDMw\n"
                             "NzQ2WjARMQ8wDQYDVQQDDAZub2JvZHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n"
                             "AATBALgTA9WHMWp33lqOVFBVBmCYXqUvtBhmB03mBVTDN5tw/l9OxTIEPxqRbLfO\n"
                             "zGKXaiHxJ2dg73iNlSXaHw8fo1MwUTAdBgNVHQ4EFgQUonBdT69BOWDXOeuajGTp\n"
                             "TVdlxNwwHwYDVR0jBBgwFoAUonBdT69BOWDXOeuajGTpTVdlxNwwDwYDVR0TAQH/\n"
                             "BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiA2yMlJPDskHZyvtrHWjHYm2zMFw3Y1\n"
                             "6w2vv5UdKW1TQwIgUEoS6I5EK5gHANXFMuBRguYlQL0khlaPbmuPqgcRuJc=\n"
                             "-----END CERTIFICATE-----\n";

static void write_nobody(char *path)
{
    int fd = mkstemp(path);

    CHECK(fd >= 0 && write(fd, nobody, sizeof nobody - 1) == (ssize_t)sizeof nobody - 1);
    close(fd);
}

/* The environment of a case. */
struct scenery {
    struct bl_nursery nursery;
    struct peer *peer;
    struct peer_script script;
    struct full_port full;
    int name_server;
    char servers[64], proxy[64], url[128], trusted[48];
    char *body;
};

static void scenery_open(struct scenery *scenery, const struct phase_case *phase,
                         struct asking *asking)
{
    uint16_t name_port, port;

    bl_nursery_init(&scenery->nursery, bl_scope_current());
    scenery->script = (struct peer_script){phase->acts};
    scenery->peer = peer_start(&scenery->nursery, &scenery->script, 1);
    full_port_open(&scenery->full);
    scenery->name_server = loopback_socket(SOCK_DGRAM, &name_port);
    port = phase->backlog ? scenery->full.port : peer_port(scenery->peer);
    snprintf(scenery->servers, sizeof scenery->servers, "127.0.0.1:%u", name_port);
    snprintf(scenery->proxy, sizeof scenery->proxy, "http://127.0.0.1:%u", port);
    snprintf(scenery->url, sizeof scenery->url, "%s://%s:%u/v1", phase->secure ? "https" : "http",
             phase->names || phase->through_proxy ? "api.example.test" : "127.0.0.1",
             phase->through_proxy ? 443 : port);
    asking_init(asking);
    asking->options.name_servers = scenery->servers;
    bl_text_into(scenery->trusted, sizeof scenery->trusted, "/tmp/belay-wire-XXXXXX");
    write_nobody(scenery->trusted);
    asking->options.ca_file = scenery->trusted;
    if (phase->through_proxy)
        asking->options.proxies.https = scenery->proxy;
    scenery->body = bl_zalloc(phase->body_size + 1);
    memset(scenery->body, 'x', phase->body_size);
    if (phase->body_size > 0)
        asking->request.body = (struct bl_text){scenery->body, phase->body_size};
    asking->client = bl_client_new(&asking->options);
}

static void scenery_close(struct scenery *scenery, struct asking *asking)
{
    asking_done(asking);
    peer_stop(scenery->peer);
    bl_nursery_done(&scenery->nursery);
    full_port_close(&scenery->full);
    close(scenery->name_server);
    unlink(scenery->trusted);
    bl_free(scenery->body);
}

/* Waits until the exchange blocks in its phase. */
static void await_phase(const struct phase_case *phase, const struct scenery *scenery)
{
    char bytes[512];

    if (phase->names)
        while (recv(scenery->name_server, bytes, sizeof bytes, MSG_DONTWAIT) <= 0)
            bl_sleep(MS / 4);
    else if (phase->backlog)
        bl_sleep(2 * MS);
    else
        while (peer_connections(scenery->peer) == 0 || peer_open(scenery->peer) == 0)
            bl_sleep(MS / 4);
    /* What was sent arrives. */
    bl_sleep(phase->body_size > 0 ? 20 * MS : 2 * MS);
}

static int stop_in_each_phase(void *argument)
{
    static uint64_t times[200];
    unsigned rounds = figure_taking() ? 100 : (unsigned)suite_rounds(5, 200);
    char figure[64];

    (void)argument;
    for (size_t i = 0; i < BL_COUNT(phases); i++) {
        static struct scenery scenery;
        static struct asking asking;
        struct asker asker;
        scenery_open(&scenery, &phases[i], &asking);
        bl_yield();
        unsigned before = 0;
        for (unsigned round = 0; round < rounds; round++) {
            asker_start(&asker, &asking, scenery.url);
            await_phase(&phases[i], &scenery);
            times[round] = asker_stop(&asker);
            CHECK_EQUAL(asker.code, BL_ECANCELED);
            if (!CHECK(strcmp(asking.place, phases[i].place) == 0))
                fprintf(stderr, "%s: %s\n", phases[i].name, asking.place);
            CHECK_EQUAL(peer_await_closed(scenery.peer, 5 * BL_NS_PER_S), 0);
            bl_sleep(MS);
            if (round == 0)
                before = peer_descriptors();
            CHECK_EQUAL(peer_descriptors(), before);
        }
        snprintf(figure, sizeof figure, "P1 stop, %s", phases[i].name);
        CHECK(figure_at_most(figure, figure_p99_ms(times, rounds), 10));
        scenery_close(&scenery, &asking);
    }
    return 0;
}

static void P1_stop_in_each_phase_closes_the_socket_at_once(void **state BL_UNUSED)
{
    run_in_loop(stop_in_each_phase, NULL);
}

/* ---- Timers ---------------------------------------------------------------------------------- */

static int timers(void *argument)
{
    static const char *const codes[] = {"connect",    "connect", "connect", "connect", NULL,
                                        "first_byte", "stall",   "stall",   "stall"};
    char figure[64];

    (void)argument;
    for (size_t i = 0; i < BL_COUNT(phases); i++) {
        static struct scenery scenery;
        static struct asking asking;
        if (codes[i] == NULL)
            continue;
        scenery_open(&scenery, &phases[i], &asking);
        asking.request.connect_ns = strcmp(codes[i], "connect") == 0 ? 200 * MS : 0;
        asking.request.first_byte_ns = strcmp(codes[i], "first_byte") == 0 ? 200 * MS : 0;
        asking.request.stall_ns = strcmp(codes[i], "stall") == 0 ? 200 * MS : 0;
        CHECK_EQUAL(ask(&asking, scenery.url), BL_EIO);
        CHECK(asking.failure.timed_out);
        if (!CHECK(asking.failure.code != NULL && strcmp(asking.failure.code, codes[i]) == 0))
            fprintf(stderr, "%s: %s\n", phases[i].name, asking.failure.code);
        snprintf(figure, sizeof figure, "P4 timer %s, %s", codes[i], phases[i].name);
        CHECK(figure_between(figure, (double)asking.duration_ns / MS, 200, 260));
        scenery_close(&scenery, &asking);
    }
    return 0;
}

static void P4_each_timer_has_its_own_code(void **state BL_UNUSED)
{
    run_in_loop(timers, NULL);
}

static int slow_upload(void *argument)
{
    /* The peer reads slowly: each read is progress, but all of it takes longer than the timer. */
    struct peer_act acts[40] = {0};
    static struct asking asking;
    struct bl_nursery nursery;
    size_t size = (size_t)16 << 20;

    (void)argument;
    for (size_t i = 0; i < 8; i++) {
        acts[2 * i] = (struct peer_act){.type = PEER_PAUSE, .pause_ns = 300 * MS};
        acts[2 * i + 1] = (struct peer_act){.type = PEER_READ_SOME, .number = 2u << 20};
    }
    acts[16] = (struct peer_act){.type = PEER_READ_REQUEST};
    acts[17] =
        (struct peer_act){.type = PEER_SEND, .bytes = BL_TEXT(HEAD "Content-Length: 2\r\n\r\nok")};
    struct peer_script script = {acts};
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, &script, 1);
    asking_init(&asking);
    char *body = bl_alloc(size);
    memset(body, 'x', size);
    asking.request.body = (struct bl_text){body, size};
    asking.request.first_byte_ns = 2000 * MS;
    CHECK_EQUAL(ask(&asking, peer_url(peer, "/")), 0);
    CHECK_EQUAL(asking.body.size, 2);
    bl_free(body);
    asking_done(&asking);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void upload_that_makes_progress_is_not_late(void **state BL_UNUSED)
{
    run_in_loop(slow_upload, NULL);
}

/* ---- Connections ----------------------------------------------------------------------------- */

static const struct peer_act answers_always[] = {
    {.type = PEER_READ_REQUEST},
    {.type = PEER_SEND, .bytes = {HEAD "Content-Length: 2\r\n\r\nok", sizeof HEAD - 1 + 23}},
    {.type = PEER_AGAIN},
    {.type = PEER_END}};

static int reuse(void *argument)
{
    struct peer_script scripts[] = {{answers_always}, {silent_after_headers}, {answers_always}};
    static struct asking asking, other;
    struct bl_nursery nursery;
    struct asker asker;

    (void)argument;
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, scripts, 3);
    asking_init(&asking);
    for (int i = 0; i < 10; i++)
        CHECK_EQUAL(ask(&asking, peer_url(peer, "/")), 0);
    CHECK_EQUAL(peer_connections(peer), 1);
    CHECK_EQUAL(peer_requests(peer), 10);
    /* Another client, for example with another key, has its own connection; this one is stopped in
     * the middle. */
    asking_init(&other);
    asker_start(&asker, &other, peer_url(peer, "/"));
    while (peer_requests(peer) < 11)
        bl_sleep(MS);
    asker_stop(&asker);
    CHECK_EQUAL(ask(&other, peer_url(peer, "/")), 0);
    CHECK_EQUAL(peer_connections(peer), 3);
    asking_done(&other);
    asking_done(&asking);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void P8_calls_in_a_row_open_one_connection_and_a_stop_costs_one(void **state BL_UNUSED)
{
    run_in_loop(reuse, NULL);
}

static int closed_meanwhile(void *argument)
{
    static const struct peer_act once[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND, .bytes = {HEAD "Content-Length: 2\r\n\r\nok", sizeof HEAD - 1 + 23}},
        {.type = PEER_CLOSE},
        {.type = PEER_END}};
    struct peer_script scripts[] = {{once}};
    static struct asking asking;
    struct bl_nursery nursery;

    (void)argument;
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, scripts, 1);
    asking_init(&asking);
    for (int i = 0; i < 5; i++) {
        CHECK_EQUAL(ask(&asking, peer_url(peer, "/")), 0);
        CHECK_EQUAL(asking.body.size, 2);
        /* With and without time for the close to arrive. */
        if (i % 2 == 0)
            bl_sleep(5 * MS);
    }
    CHECK_EQUAL(peer_connections(peer), 5);
    CHECK_EQUAL(peer_requests(peer), 5);
    asking_done(&asking);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void P9_kept_connection_that_the_server_closed_is_replaced(void **state BL_UNUSED)
{
    run_in_loop(closed_meanwhile, NULL);
}

/* ---- Many ------------------------------------------------------------------------------------ */

#define MANY 100

/* The pieces of a response, distinguished by their time. */
static const struct peer_act counts[] = {
    {.type = PEER_READ_REQUEST},
    {.type = PEER_SEND, .bytes = {CHUNKED, sizeof CHUNKED - 1}},
    {.type = PEER_SEND_REPEAT,
     .bytes = {"10\r\ndata: 0123456\n\n.\r\n", 22},
     .number = 20,
     .pause_ns = 2 * MS},
    {.type = PEER_SEND, .bytes = {"0\r\n\r\n", 5}},
    {.type = PEER_AGAIN},
    {.type = PEER_END}};

static int one_of_many(void *argument)
{
    static struct asking askings[MANY];
    static struct asker askers[MANY];
    struct peer_script scripts[] = {{counts}};
    struct bl_nursery nursery;

    (void)argument;
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, scripts, 1);
    struct bl_client *client = bl_client_new(&(struct bl_client_options){0});
    for (size_t i = 0; i < MANY; i++) {
        asking_init(&askings[i]);
        askings[i].client = client;
        asker_start(&askers[i], &askings[i], peer_url(peer, "/"));
    }
    while (peer_requests(peer) < MANY)
        bl_sleep(MS);
    bl_sleep(10 * MS);
    asker_stop(&askers[42]);
    CHECK_EQUAL(askers[42].code, BL_ECANCELED);
    for (size_t i = 0; i < MANY; i++) {
        if (i == 42)
            continue;
        asker_join(&askers[i]);
        CHECK_EQUAL(askers[i].code, 0);
        CHECK_EQUAL(askings[i].body.size, 20 * 16);
        for (size_t at = 0; at < askings[i].body.size; at += 16)
            CHECK(memcmp(askings[i].body.data + at, counts[2].bytes.data + 4, 16) == 0);
    }
    for (size_t i = 0; i < MANY; i++)
        bl_buffer_done(&askings[i].body);
    bl_client_free(client);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void P3_stopping_one_of_a_hundred_does_not_affect_the_others(void **state BL_UNUSED)
{
    run_in_loop(one_of_many, NULL);
}

/* ---- A slow reader --------------------------------------------------------------------------- */

#define LONG_ANSWER ((size_t)50 * 1024 * 1024)

static int slow_reader(void *argument)
{
    static char piece[1 << 20];
    char head[160];
    struct peer_act acts[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND},
        {.type = PEER_SEND_REPEAT, .bytes = {piece, sizeof piece}, .number = LONG_ANSWER >> 20},
        {.type = PEER_SILENCE},
        {.type = PEER_END}};
    struct peer_script scripts[] = {{acts}};
    struct bl_http_request request = {
        .method = "POST", .body = BL_TEXT("{}"), .stall_ns = 100 * MS};
    struct bl_nursery nursery;
    struct bl_exchange *exchange;
    struct bl_text bytes;
    uint64_t sum = 0, total = 0;

    (void)argument;
    for (size_t i = 0; i < sizeof piece; i++)
        piece[i] = (char)(i * 7 + i / 251);
    snprintf(head, sizeof head, HEAD "Content-Length: %zu\r\n\r\n", LONG_ANSWER);
    acts[1].bytes = bl_text_from(head);
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, scripts, 1);
    struct bl_client *client = bl_client_new(&(struct bl_client_options){0});
    request.url = peer_url(peer, "/");
    CHECK_EQUAL(bl_exchange_new(client, &request, &exchange, NULL), 0);
    for (int i = 0; i < 2; i++) /* the second finds them there */
        CHECK_EQUAL(bl_exchange_headers(exchange), 0);
    double before_kib = figure_memory_kib();
    /* Longer than the stall timer, which does not run while no reader waits. */
    bl_sleep(suite_rounds(500, 5000) * MS);
    int code;
    while ((code = bl_exchange_read(exchange, &bytes)) == 0 && bytes.size > 0) {
        for (size_t i = 0; i < bytes.size; i++)
            sum += bytes.data[i] == piece[(total + i) % sizeof piece];
        total += bytes.size;
        bl_exchange_meaningful(exchange);
    }
    CHECK(figure_growth("P15 memory for a reader that blocks", before_kib, 8));
    CHECK_EQUAL(code, 0);
    CHECK_EQUAL(total, LONG_ANSWER);
    CHECK_EQUAL(sum, LONG_ANSWER);
    CHECK_EQUAL(peer_connections(peer), 1);
    bl_exchange_free(exchange);
    bl_client_free(client);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void P15_slow_reader_loses_nothing_and_costs_no_memory(void **state BL_UNUSED)
{
    run_in_loop(slow_reader, NULL);
}

/* A reader that does not notice the stop before the server has. */
struct deaf_reader {
    struct bl_client *client;
    struct bl_http_request request;
    bool reads, released;
};

static int deaf_reader_main(void *argument)
{
    struct deaf_reader *reader = argument;
    struct bl_exchange *exchange;
    struct bl_scope shield;
    struct bl_text bytes;

    CHECK_EQUAL(bl_exchange_new(reader->client, &reader->request, &exchange, NULL), 0);
    CHECK_EQUAL(bl_exchange_headers(exchange), 0);
    reader->reads = true;
    bl_shield_begin(&shield, bl_now_ns() + 10 * BL_NS_PER_S);
    while (!reader->released && bl_sleep(MS) == 0)
        continue;
    bl_shield_end(&shield);
    CHECK_EQUAL(bl_exchange_read(exchange, &bytes), BL_ECANCELED);
    bl_exchange_free(exchange);
    return 0;
}

static int stop_deaf_reader(void *argument BL_UNUSED)
{
    static char piece[1 << 20];
    struct peer_act acts[] = {{.type = PEER_READ_REQUEST},
                              {.type = PEER_SEND, .bytes = BL_TEXT(HEAD "\r\n")},
                              {.type = PEER_SEND_ENDLESS, .bytes = {piece, sizeof piece}},
                              {.type = PEER_END}};
    struct peer_script scripts[] = {{acts}};
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, scripts, 1);
    struct deaf_reader reader = {
        .client = bl_client_new(&(struct bl_client_options){0}),
        .request = {.method = "POST", .body = BL_TEXT("{}"), .url = peer_url(peer, "/")}};
    for (unsigned i = 0; i < (figure_taking() ? 10 : 2); i++) {
        struct bl_nursery readers;
        reader.reads = reader.released = false;
        bl_nursery_init(&readers, bl_scope_current());
        CHECK_EQUAL(bl_nursery_spawn(&readers, NULL, "reader", deaf_reader_main, &reader, NULL), 0);
        while (!reader.reads)
            bl_sleep(MS);
        /* Until reading is paused. */
        bl_sleep(50 * MS);
        uint64_t from_ns = bl_now_ns();
        bl_scope_stop(&readers.scope, BL_STOP_USER, "test");
        CHECK_EQUAL(peer_await_closed(peer, 5 * BL_NS_PER_S), 0);
        CHECK(figure_at_most("P15 stop while the reader blocks",
                             (double)(peer_closed_ns(peer) - from_ns) / MS, 10));
        reader.released = true;
        bl_nursery_join(&readers);
        bl_nursery_done(&readers);
    }
    bl_client_free(reader.client);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void P15_stop_closes_the_socket_of_a_reader_that_blocks(void **state BL_UNUSED)
{
    run_in_loop(stop_deaf_reader, NULL);
}

SUITE(exchange, cmocka_unit_test(P15_slow_reader_loses_nothing_and_costs_no_memory),
      cmocka_unit_test(P1_stop_in_each_phase_closes_the_socket_at_once),
      cmocka_unit_test(P3_stopping_one_of_a_hundred_does_not_affect_the_others),
      cmocka_unit_test(P4_each_timer_has_its_own_code),
      cmocka_unit_test(upload_that_makes_progress_is_not_late),
      cmocka_unit_test(P8_calls_in_a_row_open_one_connection_and_a_stop_costs_one),
      cmocka_unit_test(P9_kept_connection_that_the_server_closed_is_replaced),
      cmocka_unit_test(P15_stop_closes_the_socket_of_a_reader_that_blocks));
