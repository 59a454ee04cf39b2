#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "asking.h"
#include "figure.h"
#include "front.h"

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"

static const struct peer_act answers[] = {
    {.type = PEER_READ_REQUEST},
    {.type = PEER_SEND, .bytes = {OK_ANSWER, sizeof OK_ANSWER - 1}},
    {.type = PEER_AGAIN},
    {.type = PEER_END}};
static const struct peer_script answering = {answers};

/* ---- TLS ------------------------------------------------------------------------------------- */

static int certificates(void *argument)
{
    static const char *const bad[] = {"self.pem", "expired.pem", "other.pem"};
    static struct asking asking;
    struct front *front = argument;
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < BL_COUNT(bad); i++) {
        struct peer *peer = peer_start(&nursery, &answering, 1);
        front_start(front, bad[i], peer_port(peer));
        asking_init(&asking);
        asking.options.ca_file = front->bundle;
        CHECK_EQUAL(ask(&asking, front->url), BL_EIO);
        if (!CHECK(asking.failure.code != NULL && strcmp(asking.failure.code, "tls") == 0))
            fprintf(stderr, "%s: %s (%s)\n", bad[i], asking.failure.code, asking.failure.message);
        CHECK_EQUAL(peer_bytes(peer), 0);
        asking_done(&asking);
        front_stop(front);
        peer_stop(peer);
    }
    struct peer *peer = peer_start(&nursery, &answering, 1);
    front_start(front, "good.pem", peer_port(peer));
    setenv("SSL_CERT_FILE", front->bundle, 1);
    asking_init(&asking);
    CHECK_EQUAL(ask(&asking, front->url), 0);
    CHECK_EQUAL(asking.status, 200);
    CHECK_EQUAL(asking.body.size, 2);
    CHECK_EQUAL(peer_requests(peer), 1);
    asking_done(&asking);
    unsetenv("SSL_CERT_FILE");
    front_stop(front);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void P10_certificates_that_do_not_fit_are_refused_before_a_byte_is_sent(
    void **state BL_UNUSED)
{
    struct front front = {0};

    if (!front_available())
        suite_skip("missing program: nghttpx or openssl");
    front_certify(&front);
    run_in_loop(certificates, &front);
    front_forget(&front);
}

/* ---- HTTP/2 ---------------------------------------------------------------------------------- */

/* Stops a call whose response has begun. */
static void stop_seen_by_server(struct peer *peer, struct asking *asking, const char *url)
{
    unsigned requests = peer_requests(peer);
    struct asker asker;

    asker_start(&asker, asking, url);
    while (peer_requests(peer) == requests && !asker.ended)
        bl_sleep(MS);
    bl_sleep(5 * MS);
    uint64_t from_ns = bl_now_ns();
    asker_stop(&asker);
    CHECK_EQUAL(asker.code, BL_ECANCELED);
    CHECK_EQUAL(peer_await_closed(peer, 5 * BL_NS_PER_S), 0);
    CHECK(figure_at_most("P12 stop over HTTP/2 until the server sees it",
                         (double)(peer_closed_ns(peer) - from_ns) / MS, 10));
}

static int two_streams(void *argument)
{
    static const struct peer_act hold[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND,
         .bytes = {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 55}},
        {.type = PEER_SILENCE},
        {.type = PEER_END}};
    /* It announces the close; otherwise the front may send the next request on that connection. */
    static const char closing[] =
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    static const struct peer_act once[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND, .bytes = {closing, sizeof closing - 1}},
        {.type = PEER_CLOSE},
        {.type = PEER_END}};
    struct peer_script scripts[] = {{once}, {hold}};
    static struct asking asking, one, other;
    struct front *front = argument;
    struct asker first, second;
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, scripts, 2);
    front_start(front, "good.pem", peer_port(peer));
    asking_init(&asking);
    asking.options = (struct bl_client_options){.http2 = true, .ca_file = front->bundle};
    CHECK_EQUAL(ask(&asking, front->url), 0);
    CHECK_EQUAL(asking.body.size, 2);
    asking_init(&one);
    asking_init(&other);
    one.client = other.client = asking.client;
    CHECK_EQUAL(peer_await_closed(peer, 5 * BL_NS_PER_S), 0);
    unsigned before = peer_descriptors();
    asker_start(&first, &one, front->url);
    asker_start(&second, &other, front->url);
    while (peer_requests(peer) < 3 && !first.ended && !second.ended)
        bl_sleep(MS);
    CHECK(!first.ended && !second.ended);
    bl_sleep(20 * MS);
    /* We have two, of which one existed before; the peer has one for each. */
    CHECK_EQUAL(peer_descriptors() - before, 1 + 2);
    asker_stop(&first);
    while (peer_open(peer) > 1)
        bl_sleep(MS);
    CHECK(!second.ended);
    asker_stop(&second);
    CHECK_EQUAL(peer_await_closed(peer, 5 * BL_NS_PER_S), 0);
    for (unsigned i = 0; i < (figure_taking() ? 20 : 2); i++)
        stop_seen_by_server(peer, &one, front->url);
    one.client = other.client = NULL;
    asking_done(&one);
    asking_done(&other);
    asking_done(&asking);
    front_stop(front);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static int in_the_clear(void *argument)
{
    static struct asking asking;
    struct front *front = argument;
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, &answering, 1);
    front_start(front, NULL, peer_port(peer));
    asking_init(&asking);
    asking.options = (struct bl_client_options){.http2 = true};
    for (unsigned i = 1; i <= 3; i++) {
        CHECK_EQUAL(ask(&asking, front->url), 0);
        CHECK_EQUAL(asking.body.size, 2);
        CHECK_EQUAL(peer_requests(peer), i);
    }
    asking_done(&asking);
    front_stop(front);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void P12_cleartext_http2_serves_repeated_requests(void **state BL_UNUSED)
{
    struct front front = {0};

    if (!front_available())
        suite_skip("missing program: nghttpx or openssl");
    run_in_loop(in_the_clear, &front);
}

static void P12_with_http2_a_stop_closes_the_connection(void **state BL_UNUSED)
{
    struct front front = {0};

    if (!front_available())
        suite_skip("missing program: nghttpx or openssl");
    front_certify(&front);
    run_in_loop(two_streams, &front);
    front_forget(&front);
}

/* ---- Proxies --------------------------------------------------------------------------------- */

static int refused_by_proxy(void *argument)
{
    static const struct peer_act refuses[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND,
         .bytes = {"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n",
                   65}},
        {.type = PEER_CLOSE},
        {.type = PEER_END}};
    static const struct bl_http_header secret = {{"x-api-key", 9}, {"sk-secret", 9}};
    struct peer_script scripts[] = {{refuses}, {answers}};
    static struct asking asking;
    struct bl_nursery nursery;
    char proxy[64];

    (void)argument;
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, scripts, 2);
    snprintf(proxy, sizeof proxy, "http://user:password@127.0.0.1:%u", peer_port(peer));
    asking_init(&asking);
    asking.options.proxies = (struct bl_proxies){.all = proxy, .no = "direct.test,.inner.test"};
    asking.options.name_servers = "127.0.0.1:9";
    asking.request.headers = &secret;
    asking.request.header_count = 1;
    CHECK_EQUAL(ask(&asking, "https://api.example.test/v1"), BL_EIO);
    CHECK(strcmp(asking.failure.code, "auth") == 0);
    CHECK(strstr(asking.failure.message, "407") != NULL);
    CHECK(bl_text_starts_with(peer_request(peer, 0), BL_TEXT("CONNECT api.example.test:443 ")));
    CHECK_EQUAL(bl_text_find(peer_request(peer, 0), BL_TEXT("sk-secret")), -1);
    CHECK(peer_request_header(peer, 0, "proxy-authorization").size > 0);
    /* Without TLS, the proxy gets the full URL. */
    CHECK_EQUAL(ask(&asking, "http://api.example.test/v1"), 0);
    CHECK(bl_text_starts_with(peer_request(peer, 1), BL_TEXT("POST http://api.example.test/v1 ")));
    /* Direct, by name and by suffix. */
    CHECK_EQUAL(ask(&asking, "http://direct.test/v1"), BL_EIO);
    CHECK(strcmp(asking.failure.code, "dns") == 0);
    CHECK_EQUAL(ask(&asking, "http://a.inner.test/v1"), BL_EIO);
    CHECK(strcmp(asking.failure.code, "dns") == 0);
    CHECK_EQUAL(peer_requests(peer), 2);
    asking_done(&asking);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void P11_proxies_are_used_as_configured_and_see_no_secret(void **state BL_UNUSED)
{
    run_in_loop(refused_by_proxy, NULL);
}

/* A proxy that lets one connection through, to `port`. */
struct tunnel {
    struct bl_nursery nursery;
    int listener;
    uint16_t port, to_port;
    struct bl_descriptor *ends[2];
    int fds[2];
    char request[512];
};

static int copy_bytes(struct bl_descriptor *from, struct bl_descriptor *to)
{
    char bytes[4096];
    size_t size = 1;
    int code = 0;

    while (code == 0 && size > 0) {
        code = bl_descriptor_read(from, bytes, sizeof bytes, &size);
        if (code == 0 && size > 0)
            code = bl_descriptor_write(to, bytes, size, NULL);
    }
    return code;
}

static int tunnel_back(void *argument)
{
    struct tunnel *tunnel = argument;

    return copy_bytes(tunnel->ends[1], tunnel->ends[0]);
}

static int tunnel_main(void *argument)
{
    static const char established[] = "HTTP/1.1 200 Connected\r\n\r\n";
    struct tunnel *tunnel = argument;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(tunnel->to_port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct bl_descriptor *listener;
    size_t size = 0;

    bl_descriptor_new(tunnel->listener, &listener);
    int code = bl_descriptor_wait(listener, BL_READABLE, NULL);
    bl_descriptor_free(listener);
    if (code != 0)
        return code;
    tunnel->fds[0] = accept4(tunnel->listener, NULL, NULL, SOCK_CLOEXEC);
    tunnel->fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(tunnel->fds[1], (struct sockaddr *)&address, sizeof address) == 0);
    for (int i = 0; i < 2; i++)
        bl_descriptor_new(tunnel->fds[i], &tunnel->ends[i]);
    bl_descriptor_read(tunnel->ends[0], tunnel->request, sizeof tunnel->request - 1, &size);
    bl_descriptor_write(tunnel->ends[0], established, sizeof established - 1, NULL);
    bl_nursery_spawn(&tunnel->nursery, NULL, "back", tunnel_back, tunnel, NULL);
    return copy_bytes(tunnel->ends[0], tunnel->ends[1]);
}

static int through_a_tunnel(void *argument)
{
    static struct asking asking;
    static struct tunnel tunnel;
    struct front *front = argument;
    struct bl_nursery nursery;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    char proxy[64];

    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, &answering, 1);
    front_start(front, "good.pem", peer_port(peer));
    tunnel = (struct tunnel){.to_port = front->port};
    tunnel.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(tunnel.listener, (struct sockaddr *)&address, sizeof address) == 0);
    getsockname(tunnel.listener, (struct sockaddr *)&address, &size);
    listen(tunnel.listener, 4);
    bl_nursery_init(&tunnel.nursery, bl_scope_current());
    bl_nursery_spawn(&tunnel.nursery, NULL, "tunnel", tunnel_main, &tunnel, NULL);
    snprintf(proxy, sizeof proxy, "127.0.0.1:%u", ntohs(address.sin_port));
    asking_init(&asking);
    asking.options =
        (struct bl_client_options){.ca_file = front->bundle, .proxies = {.https = proxy}};
    CHECK_EQUAL(ask(&asking, "https://api.example.test/v1"), 0);
    CHECK_EQUAL(asking.body.size, 2);
    CHECK(strncmp(tunnel.request, "CONNECT api.example.test:443 ", 29) == 0);
    CHECK_EQUAL(peer_requests(peer), 1);
    asking_done(&asking);
    bl_nursery_done(&tunnel.nursery);
    for (int i = 0; i < 2; i++) {
        bl_descriptor_free(tunnel.ends[i]);
        close(tunnel.fds[i]);
    }
    close(tunnel.listener);
    front_stop(front);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void P11_https_goes_through_a_proxy_in_a_tunnel(void **state BL_UNUSED)
{
    struct front front = {0};

    if (!front_available())
        suite_skip("missing program: nghttpx or openssl");
    front_certify(&front);
    run_in_loop(through_a_tunnel, &front);
    front_forget(&front);
}

/* ---- Limits and unusual responses ---- */

#define LONG_LINE (70u * 1024)

/* Writes a response without a body, with that many headers of that size each; 40 bytes and two
 * lines more besides the status. */
static void write_answer(char *out, unsigned count, int size)
{
    out += sprintf(out, "HTTP/1.1 200 Okay\r\nContent-Length: 0\r\n");
    for (unsigned i = 0; i < count; i++)
        out += sprintf(out, "X: %0*u\r\n", size - 5, i);
    sprintf(out, "\r\n");
}

static int strange_answers(void *argument)
{
    static char big[LONG_LINE + 64], line[20u * 1024], line_fits[20u * 1024];
    static char sum[80u * 1024], sum_fits[80u * 1024];
    static char lines[4096], lines_fit[4096];
    static const char many[] = "X-A: 0123456789012345678901234567890123456789\r\n";
    static const struct {
        const char *what;
        const char *bytes;
        bool endless;
        const char *code; /* NULL: a response */
        int status;
    } cases[] = {
        {"one long header", big, false, "limit", 200},
        {"a line over 16 KiB", line, false, "limit", 200},
        {"a line of 16 KiB", line_fits, false, NULL, 200},
        {"lines over 64 KiB in sum", sum, false, "limit", 200},
        {"lines of 64 KiB in sum", sum_fits, false, NULL, 200},
        {"more than 256 lines", lines, false, "limit", 200},
        {"256 lines", lines_fit, false, NULL, 200},
        {"endless headers", many, true, "limit", 200},
        {"an endless header", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true, "limit",
         200},
        {"not HTTP", "hello there, this is something else\r\n\r\n", false, "bad_response", 0},
        {"nothing", "", false, "stream_cut", 0},
        {"half a status", "HTTP/1.1 20", false, "stream_cut", 0},
        {"a redirect",
         "HTTP/1.1 307 Go\r\nLocation: http://127.0.0.2:1/\r\nContent-Length: "
         "0\r\n\r\n",
         false, NULL, 307},
        {"informational first", "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" OK_ANSWER, false, NULL,
         200},
        {"short of its length", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", false,
         "stream_cut", 200},
        {"cut in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok", false,
         "stream_cut", 200},
    };
    static struct asking asking;

    (void)argument;
    int head = snprintf(big, sizeof big, "HTTP/1.1 200 OK\r\nX-Long: ");
    memset(big + head, 'a', LONG_LINE);
    memcpy(big + head + LONG_LINE - 16, "\r\n\r\n", 5);
    write_answer(line, 1, 16u * 1024 + 1);
    write_answer(line_fits, 1, 16u * 1024);
    write_answer(sum, 4, 16u * 1024 - 9);
    write_answer(sum_fits, 4, 16u * 1024 - 10);
    write_answer(lines, 255, 8);
    write_answer(lines_fit, 254, 8);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        bool status_first = cases[i].endless;
        struct peer_act acts[] = {{.type = PEER_READ_REQUEST},
                                  {.type = PEER_SEND, .bytes = BL_TEXT("HTTP/1.1 200 OK\r\n")},
                                  {.type = cases[i].endless ? PEER_SEND_ENDLESS : PEER_SEND,
                                   .bytes = bl_text_from(cases[i].bytes)},
                                  {.type = PEER_END}};
        if (!status_first)
            acts[1] = (struct peer_act){.type = PEER_PAUSE, .pause_ns = 1};
        struct peer_script script = {acts};
        struct bl_nursery nursery;
        bl_nursery_init(&nursery, bl_scope_current());
        struct peer *peer = peer_start(&nursery, &script, 1);
        asking_init(&asking);
        double before_kib = figure_memory_kib();
        int code = ask(&asking, peer_url(peer, "/"));
        CHECK(figure_growth("P14 memory for headers over the limit", before_kib, 40));
        bool same = cases[i].code == NULL ? code == 0 && asking.status == cases[i].status
                                          : code == BL_EIO && asking.failure.code != NULL &&
                                                strcmp(asking.failure.code, cases[i].code) == 0;
        if (!CHECK(same))
            fprintf(stderr, "%s: %d %d %s %s\n", cases[i].what, code, asking.status,
                    asking.failure.code, asking.failure.message);
        asking_done(&asking);
        peer_stop(peer);
        bl_nursery_done(&nursery);
    }
    return 0;
}

static void P14_headers_are_limited_and_invalid_responses_have_codes(void **state BL_UNUSED)
{
    run_in_loop(strange_answers, NULL);
}

static int refused_requests(void *argument)
{
    static const struct bl_http_header broken = {{"x-a", 3}, {"a\r\nb: c", 7}};
    static struct asking asking;

    (void)argument;
    asking_init(&asking);
    CHECK_EQUAL(ask(&asking, "ftp://127.0.0.1/"), BL_EINVAL);
    CHECK_EQUAL(asking.error.kind, BL_KIND_USAGE);
    asking.request.headers = &broken;
    asking.request.header_count = 1;
    CHECK_EQUAL(ask(&asking, "http://127.0.0.1:1/"), BL_EINVAL);
    CHECK(strstr(asking.error.message, "x-a") != NULL);
    asking.request.header_count = 0;
    CHECK_EQUAL(ask(&asking, "http://127.0.0.1:1/"), BL_EIO);
    CHECK(strcmp(asking.failure.code, "connect") == 0);
    asking_done(&asking);
    return 0;
}

static void invalid_request_is_refused_before_it_is_sent(void **state BL_UNUSED)
{
    run_in_loop(refused_requests, NULL);
}

SUITE(transfer,
      cmocka_unit_test(P10_certificates_that_do_not_fit_are_refused_before_a_byte_is_sent),
      cmocka_unit_test(P11_proxies_are_used_as_configured_and_see_no_secret),
      cmocka_unit_test(P11_https_goes_through_a_proxy_in_a_tunnel),
      cmocka_unit_test(P12_cleartext_http2_serves_repeated_requests),
      cmocka_unit_test(P12_with_http2_a_stop_closes_the_connection),
      cmocka_unit_test(P14_headers_are_limited_and_invalid_responses_have_codes),
      cmocka_unit_test(invalid_request_is_refused_before_it_is_sent));
