#include <stdio.h>

#include "../box.h"
#include "peer.h"

/* A box and a server that sends given bytes. */
struct web {
    struct box box;
    struct bl_nursery nursery;
    struct peer *peer;
    struct peer_script script;
};

static void web_begin(struct web *web, const struct peer_act *acts)
{
    web->script = (struct peer_script){acts};
    box_init(&web->box, BL_MECHANISM_NONE);
    box_open(&web->box);
    bl_nursery_init(&web->nursery, bl_scope_current());
    web->peer = peer_start(&web->nursery, &web->script, 1);
}

static void web_end(struct web *web)
{
    peer_stop(web->peer);
    bl_nursery_done(&web->nursery);
    box_done(&web->box);
}

static const char *web_text(struct web *web)
{
    return bl_arena_text(&web->box.arena, web->box.result.text).data;
}

/* Fetches that path of the server, by its address, and returns the result. */
static const char *web_fetch(struct web *web, const char *path, const char *more)
{
    char input[512];
    snprintf(input, sizeof input, "{\"url\":\"%s\"%s}", peer_url(web->peer, path), more);
    CHECK_EQUAL(box_use(&web->box, "fetch", input), 0);
    return web_text(web);
}

#define BYTES(text)                                                                                \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
#define ANSWER(headers, body)                                                                      \
    {.type = PEER_READ_REQUEST},                                                                   \
        {.type = PEER_SEND, .bytes = BYTES("HTTP/1.1 " headers "\r\n\r\n" body)},                  \
        {.type = PEER_CLOSE},                                                                      \
    {                                                                                              \
        .type = PEER_END                                                                           \
    }

/* One server, one call: checks whether the result is an error and contains a text. */
static void answered(const struct peer_act *acts, bool is_error, const char *text)
{
    static struct web web;
    web_begin(&web, acts);
    const char *result = web_fetch(&web, "/p", "");
    if (strstr(result, text) == NULL || web.box.result.is_error != is_error)
        fprintf(stderr, "the result was: %.2000s\n", result);
    CHECK(strstr(result, text) != NULL);
    CHECK_EQUAL(web.box.result.is_error, is_error);
    web_end(&web);
}

#define IN_LOOP(name)                                                                              \
    static int name##_body(void *argument);                                                        \
    static void name(void **state BL_UNUSED)                                                       \
    {                                                                                              \
        run_in_loop(name##_body, NULL);                                                            \
    }                                                                                              \
    static int name##_body(void *argument BL_UNUSED)

IN_LOOP(pages_are_shown_by_their_type)
{
    static const struct peer_act html[] = {
        ANSWER("200 OK\r\nContent-Type: Text/HTML; charset=latin1", "<h1>caf\xE9</h1>")};
    static const struct peer_act json[] = {
        ANSWER("200 OK\r\nContent-Type: application/problem+json", "{\"a\":\n1}")};
    static const struct peer_act unsaid[] = {ANSWER("200 OK\r\nX: y", "  <p>hello")};
    static const struct peer_act binary[] = {ANSWER("200 OK\r\nX: y", "a\0b")};
    static const struct peer_act picture[] = {
        ANSWER("200 OK\r\nContent-Type: image/png\r\nContent-Length: 2048", "x")};
    static const struct peer_act missing[] = {
        ANSWER("404 Not Found\r\nContent-Type: text/plain", "no such page")};
    static const struct peer_act empty[] = {ANSWER("200 OK\r\nContent-Type: text/plain", "")};
    answered(html, false, "     1\t# caf\xC3\xA9");
    answered(json, false, "     1\t{\"a\":\n     2\t1}");
    answered(unsaid, false, "     1\thello");
    answered(binary, true, "binary data without a content type");
    answered(picture, true, "is image/png (2,048 bytes), and is not shown");
    answered(missing, true, ": 404, text/plain, 12 bytes\n     1\tno such page");
    answered(empty, false, "It is empty.");
    return 0;
}

IN_LOOP(packed_and_chunked_answers_are_read)
{
    static const struct peer_act packed[] = {ANSWER(
        "200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip",
        "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x2b\x48\x4c\xce\x4e\x4d\x51\x28\x49\xad\x28"
        "\xe1\x02\x00\x4c\x40\xb3\x3b\x0c\x00\x00\x00")};
    static const struct peer_act chunked[] = {
        ANSWER("200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked",
               "3\r\nab\xC3\r\n2\r\n\xA9"
               "c\r\n0\r\n\r\n")};
    static const struct peer_act broken[] = {
        ANSWER("200 OK\r\nContent-Type: text/plain; charset=martian", "a\xFFz")};
    static const struct peer_act cut[] = {
        ANSWER("200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100", "half")};
    answered(packed, false, "     1\tpacked text");
    answered(chunked, false,
             "     1\tab\xC3\xA9"
             "c");
    answered(broken, false, "[unknown character set 'martian': read as UTF-8]");
    answered(broken, false, "a\xEF\xBF\xBDz");
    answered(cut, true, "(stream_cut)");
    return 0;
}

IN_LOOP(long_texts_are_shown_in_pages)
{
    static const struct peer_act lines[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND, .bytes = BYTES("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")},
        {.type = PEER_SEND_REPEAT, .bytes = BYTES("a line of text\n"), .number = 3000},
        {.type = PEER_CLOSE},
        {.type = PEER_END}};
    static const struct peer_act wide[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND,
         .bytes = BYTES("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")},
        {.type = PEER_SEND_REPEAT, .bytes = BYTES("[12345678],"), .number = 200},
        {.type = PEER_CLOSE},
        {.type = PEER_END}};
    static struct web web;
    web_begin(&web, lines);
    const char *result = web_fetch(&web, "/p", "");
    CHECK(strstr(result, "[lines 2001-3000 left out: fetch again with offset 2001]") != NULL);
    result = web_fetch(&web, "/p", ",\"offset\":2999,\"limit\":1");
    CHECK(strstr(result, "  2999\ta line of text\n[lines 1-2998 left out]") != NULL);
    result = web_fetch(&web, "/p", ",\"offset\":4000");
    CHECK(strstr(result, "It has 3000 lines: offset 4000 is past its end.") != NULL);
    CHECK(web.box.result.is_error);
    web_end(&web);
    answered(wide, false, "     3\t");
    return 0;
}

IN_LOOP(an_endless_answer_is_cut_at_its_limit)
{
    static const struct peer_act endless[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND, .bytes = BYTES("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")},
        {.type = PEER_SEND_ENDLESS,
         .bytes = BYTES("0123456789012345678901234567890123456789012345678901234567890123\n")},
        {.type = PEER_END}};
    answered(endless, false, "[the response is longer: only its first 8 MiB were read]");
    return 0;
}

IN_LOOP(redirects_are_followed_to_a_limit)
{
    static const struct peer_act once[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND,
         .bytes = BYTES("HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n")},
        {.type = PEER_CLOSE},
        {.type = PEER_END}};
    static const struct peer_act page[] = {ANSWER("200 OK\r\nContent-Type: text/plain", "arrived")};
    static const struct peer_script scripts[] = {{once}, {page}};
    static struct web web;
    answered(once, true, "after 10 redirects");
    box_init(&web.box, BL_MECHANISM_NONE);
    box_open(&web.box);
    bl_nursery_init(&web.nursery, bl_scope_current());
    web.peer = peer_start(&web.nursery, scripts, 2);
    const char *result = web_fetch(&web, "/here", "");
    CHECK(strstr(result, "/there: 200, text/plain, 7 bytes\n     1\tarrived") != NULL);
    CHECK_EQUAL(peer_requests(web.peer), 2);
    web_end(&web);
    return 0;
}

/* From one host to another: each is checked against the rules. */
IN_LOOP(redirects_to_private_addresses_are_refused)
{
    static char location[256];
    static struct peer_act acts[] = {
        {.type = PEER_READ_REQUEST}, {.type = PEER_SEND}, {.type = PEER_CLOSE}, {.type = PEER_END}};
    static const char *const targets[] = {"localhost", "[::1]", "[::ffff:127.0.0.1]", "127.0.0.2",
                                          "169.254.169.254"};
    for (size_t i = 0; i < BL_COUNT(targets); i++) {
        static struct web web;
        char target[100];
        web_begin(&web, acts);
        snprintf(target, sizeof target, "http://%s:%u/", targets[i], peer_port(web.peer));
        snprintf(location, sizeof location,
                 "HTTP/1.1 301 Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", target);
        acts[1].bytes = bl_text_from(location);
        const char *result = web_fetch(&web, "/", "");
        CHECK(
            strstr(result, "not followed: it is an address of this machine or a private network") !=
            NULL);
        CHECK(web.box.result.is_error);
        CHECK_EQUAL(peer_requests(web.peer), 1);
        web_end(&web);
    }
    return 0;
}

IN_LOOP(hosts_are_asked_for_and_named_by_rules)
{
    static const struct {
        enum bl_permission_mode mode;
        const char *allow, *deny, *url;
        enum bl_permit permit;
    } cases[] = {
        {BL_PERMISSION_ASK, NULL, NULL, "https://a.test/x", BL_PERMIT_ASK},
        {BL_PERMISSION_ASK, "fetch(a.test)", NULL, "https://A.test./x", BL_PERMIT_ALLOWED},
        {BL_PERMISSION_ASK, "fetch(A.Test)", NULL, "https://a.test/x", BL_PERMIT_ALLOWED},
        {BL_PERMISSION_ASK, "fetch(a.test)", NULL, "https://b.a.test/x", BL_PERMIT_ASK},
        {BL_PERMISSION_ASK, "fetch(*.a.test)", NULL, "https://b.a.test/x", BL_PERMIT_ALLOWED},
        {BL_PERMISSION_ASK, "fetch(*.a.test)", NULL, "https://a.test/x", BL_PERMIT_ASK},
        {BL_PERMISSION_ASK, "fetch(a.test:8080)", NULL, "http://a.test:8080", BL_PERMIT_ALLOWED},
        {BL_PERMISSION_ASK, "fetch(a.test:8080)", NULL, "http://a.test:8081", BL_PERMIT_ASK},
        {BL_PERMISSION_ASK, "fetch", "fetch(a.test)", "https://a.test", BL_PERMIT_DENIED},
        {BL_PERMISSION_YOLO, NULL, "network", "https://a.test", BL_PERMIT_DENIED},
        {BL_PERMISSION_AUTO, NULL, NULL, "https://a.test", BL_PERMIT_DENIED},
        {BL_PERMISSION_AUTO, "network", NULL, "https://a.test", BL_PERMIT_ALLOWED},
        {BL_PERMISSION_AUTO, "network", NULL, "http://10.1.2.3", BL_PERMIT_DENIED},
        {BL_PERMISSION_AUTO, "fetch", NULL, "http://localhost", BL_PERMIT_DENIED},
        {BL_PERMISSION_AUTO, "fetch(*)", NULL, "http://localhost", BL_PERMIT_DENIED},
        {BL_PERMISSION_AUTO, "fetch(localhost)", NULL, "http://localhost:3000", BL_PERMIT_ALLOWED},
        {BL_PERMISSION_AUTO, "fetch([::1])", NULL, "http://[0:0::0:1]/", BL_PERMIT_ALLOWED},
        {BL_PERMISSION_AUTO, "fetch(*)", NULL, "http://printer/", BL_PERMIT_DENIED},
        {BL_PERMISSION_AUTO, "fetch(*)", NULL, "http://x.internal/", BL_PERMIT_DENIED},
        {BL_PERMISSION_READ_ONLY, NULL, NULL, "https://a.test", BL_PERMIT_DENIED},
        {BL_PERMISSION_READ_ONLY, "fetch(a.test)", NULL, "https://a.test", BL_PERMIT_ALLOWED},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        static struct box box;
        char input[128], reason[256];
        box_init(&box, BL_MECHANISM_NONE);
        bl_permissions_set_mode(box.permissions, cases[i].mode);
        box.options.sandbox_chosen = true;
        if (cases[i].allow != NULL)
            CHECK_EQUAL(bl_permissions_add(box.permissions, true, cases[i].allow, NULL), 0);
        if (cases[i].deny != NULL)
            CHECK_EQUAL(bl_permissions_add(box.permissions, false, cases[i].deny, NULL), 0);
        box_open(&box);
        snprintf(input, sizeof input, "{\"url\":\"%s\"}", cases[i].url);
        enum bl_permit permit = box_decide(&box, "fetch", input, reason, sizeof reason);
        if (permit != cases[i].permit)
            fprintf(stderr, "case %zu: %d, %s\n", i, (int)permit, reason);
        CHECK_EQUAL(permit, cases[i].permit);
        if (i == 0)
            CHECK(strcmp(box_rule(&box, "fetch", input), "fetch(a.test)") == 0);
        box_done(&box);
    }
    return 0;
}

IN_LOOP(addresses_in_odd_forms_are_refused)
{
    static const char *const odd[] = {
        "http://2130706433/",   "http://0x7f000001/", "http://0177.0.0.1/", "http://127.1/",
        "http://a:b@host.test", "file:///etc/passwd", "ftp://host.test",    "//host.test/x"};
    static struct box box;
    box_init(&box, BL_MECHANISM_NONE);
    box_open(&box);
    for (size_t i = 0; i < BL_COUNT(odd); i++) {
        char input[128];
        snprintf(input, sizeof input, "{\"url\":\"%s\"}", odd[i]);
        CHECK_EQUAL(box_use(&box, "fetch", input), 0);
        CHECK(box.result.is_error && strstr(box_text(&box), "invalid 'url'") != NULL);
    }
    box_done(&box);
    return 0;
}

/* ---- Stops ---- */

static int stop_soon(void *argument)
{
    struct web *web = argument;
    while (peer_requests(web->peer) == 0)
        bl_sleep(BL_NS_PER_MS);
    bl_sleep(50 * BL_NS_PER_MS);
    bl_scope_stop(&web->box.scope, BL_STOP_USER, "test");
    return 0;
}

static void stopped(const struct peer_act *acts, const char *place)
{
    static struct web web;
    char input[128];
    web_begin(&web, acts);
    BL_AUTO_BUFFER(text, SIZE_MAX);
    struct bl_json_writer writer;
    bl_nursery_spawn(&web.nursery, NULL, "stop", stop_soon, &web, NULL);
    snprintf(input, sizeof input, "{\"url\":\"%s\"}", peer_url(web.peer, "/"));
    CHECK_EQUAL(box_use(&web.box, "fetch", input), BL_ECANCELED);
    CHECK(strstr(web_text(&web), place) != NULL);
    CHECK_EQUAL(peer_await_closed(web.peer, 10 * BL_NS_PER_S), 0);
    bl_json_writer_init(&writer, &text);
    bl_receipt_write(&web.box.receipt, &writer);
    bl_buffer_append_byte(&text, '\0');
    CHECK(strstr(text.data, place) != NULL);
    CHECK(strstr(text.data, "\"survivors\":0") != NULL);
    web_end(&web);
}

IN_LOOP(a_stop_closes_the_socket_and_the_receipt_says_where)
{
    static const struct peer_act silent[] = {
        {.type = PEER_READ_REQUEST}, {.type = PEER_SILENCE}, {.type = PEER_END}};
    static const struct peer_act slow[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND,
         .bytes = BYTES("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n12345")},
        {.type = PEER_SILENCE},
        {.type = PEER_END}};
    stopped(silent, "before headers");
    stopped(slow, "stream cut after 5 bytes");
    return 0;
}

SUITE(fetch, cmocka_unit_test(pages_are_shown_by_their_type),
      cmocka_unit_test(packed_and_chunked_answers_are_read),
      cmocka_unit_test(long_texts_are_shown_in_pages),
      cmocka_unit_test(an_endless_answer_is_cut_at_its_limit),
      cmocka_unit_test(redirects_are_followed_to_a_limit),
      cmocka_unit_test(redirects_to_private_addresses_are_refused),
      cmocka_unit_test(hosts_are_asked_for_and_named_by_rules),
      cmocka_unit_test(addresses_in_odd_forms_are_refused),
      cmocka_unit_test(a_stop_closes_the_socket_and_the_receipt_says_where));
