#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "asking.h"

/* A name server on loopback: "there.test" is 127.0.0.1, and no other name exists. */
struct name_server {
    struct bl_nursery nursery;
    int fd;
    struct bl_descriptor *descriptor;
    char address[32];
    unsigned queries;
};

static bool asks_for(const unsigned char *query, size_t size, const char *labels)
{
    size_t length = strlen(labels) + 1;

    return size > 12 + length && memcmp(query + 12, labels, length) == 0;
}

static size_t make_answer(unsigned char *bytes, size_t size)
{
    static const unsigned char record[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1};
    bool known = asks_for(bytes, size, "\5there\4test");
    size_t question = 12 + strlen((const char *)bytes + 12) + 1 + 4;
    bool wants_four = bytes[question - 3] == 1;

    bytes[2] = 0x81;
    bytes[3] = known ? 0x80 : 0x83;
    bytes[7] = known && wants_four;
    /* Without the additional records of the query. */
    memset(bytes + 8, 0, 4);
    if (!known || !wants_four)
        return question;
    memcpy(bytes + question, record, sizeof record);
    return question + sizeof record;
}

static int serve_names(void *argument)
{
    struct name_server *server = argument;
    unsigned char bytes[1024];

    for (;;) {
        struct sockaddr_in from;
        socklen_t from_size = sizeof from;
        int code = bl_descriptor_wait(server->descriptor, BL_READABLE, NULL);
        if (code != 0)
            return code;
        ssize_t size = recvfrom(server->fd, bytes, sizeof bytes - 64, MSG_DONTWAIT,
                                (struct sockaddr *)&from, &from_size);
        if (size < 17)
            continue;
        server->queries++;
        sendto(server->fd, bytes, make_answer(bytes, (size_t)size), 0, (struct sockaddr *)&from,
               from_size);
    }
}

static void name_server_start(struct name_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;

    *server = (struct name_server){.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    CHECK(bind(server->fd, (struct sockaddr *)&address, sizeof address) == 0);
    getsockname(server->fd, (struct sockaddr *)&address, &size);
    snprintf(server->address, sizeof server->address, "127.0.0.1:%u", ntohs(address.sin_port));
    CHECK_EQUAL(bl_descriptor_new(server->fd, &server->descriptor), 0);
    bl_nursery_init(&server->nursery, bl_scope_current());
    bl_nursery_spawn(&server->nursery, NULL, "names", serve_names, server, NULL);
}

static void name_server_stop(struct name_server *server)
{
    bl_nursery_done(&server->nursery);
    bl_descriptor_free(server->descriptor);
    close(server->fd);
}

static const struct peer_act answers[] = {
    {.type = PEER_READ_REQUEST},
    {.type = PEER_SEND, .bytes = {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 40}},
    {.type = PEER_CLOSE},
    {.type = PEER_END}};
static const struct peer_script answering = {answers};

static int names(void *argument)
{
    static struct asking asking;
    struct name_server server;
    struct bl_nursery nursery;
    char url[64];

    (void)argument;
    name_server_start(&server);
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, &answering, 1);
    asking_init(&asking);
    asking.options.name_servers = server.address;
    snprintf(url, sizeof url, "http://there.test:%u/", peer_port(peer));
    CHECK_EQUAL(ask(&asking, url), 0);
    CHECK_EQUAL(asking.body.size, 2);
    struct bl_text host = peer_request_header(peer, 0, "host");
    CHECK(bl_text_starts_with(host, BL_TEXT("there.test:")));
    unsigned queries = server.queries;
    CHECK(queries > 0);
    /* A stored name is not looked up again, even for a new connection. */
    CHECK_EQUAL(ask(&asking, url), 0);
    CHECK_EQUAL(peer_connections(peer), 2);
    CHECK_EQUAL(server.queries, queries);
    CHECK_EQUAL(ask(&asking, "http://missing.test/"), BL_EIO);
    CHECK(strcmp(asking.failure.code, "dns") == 0);
    CHECK(strstr(asking.failure.message, "missing.test") != NULL);
    /* A name that needs no lookup. */
    snprintf(url, sizeof url, "http://localhost:%u/", peer_port(peer));
    queries = server.queries;
    CHECK_EQUAL(ask(&asking, url), 0);
    CHECK_EQUAL(server.queries, queries);
    asking_done(&asking);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    name_server_stop(&server);
    return 0;
}

static void names_are_asked_for_once_and_kept(void **state BL_UNUSED)
{
    run_in_loop(names, NULL);
}

static int system_names(void *argument)
{
    static struct asking asking;
    struct bl_nursery nursery;
    char url[64];

    (void)argument;
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, &answering, 1);
    asking_init(&asking);
    asking.options.system_resolver = true;
    /* A name that must be looked up, but without the network. */
    snprintf(url, sizeof url, "http://localhost.:%u/", peer_port(peer));
    int code = ask(&asking, url);
    if (code == 0)
        CHECK_EQUAL(asking.body.size, 2);
    else
        CHECK(asking.failure.code != NULL);
    CHECK(!asking.abandoned);
    asking_done(&asking);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void the_system_can_be_asked_instead(void **state BL_UNUSED)
{
    run_in_loop(system_names, NULL);
}

/* Any name may resolve to an address here: what counts is the address of the connection. */
static int inner_names(void *argument)
{
    static struct asking asking;
    struct name_server server;
    struct bl_nursery nursery;
    char url[64];

    (void)argument;
    name_server_start(&server);
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, &answering, 1);
    asking_init(&asking);
    asking.options.name_servers = server.address;
    asking.options.public_only = true;
    snprintf(url, sizeof url, "http://there.test:%u/", peer_port(peer));
    CHECK_EQUAL(ask(&asking, url), BL_EIO);
    CHECK(strcmp(asking.failure.code, "address") == 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", peer_port(peer));
    CHECK_EQUAL(ask(&asking, url), BL_EIO);
    CHECK(strcmp(asking.failure.code, "address") == 0);
    CHECK_EQUAL(peer_connections(peer), 0);
    asking_done(&asking);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    name_server_stop(&server);
    return 0;
}

static void a_name_that_leads_to_a_private_address_is_refused(void **state BL_UNUSED)
{
    run_in_loop(inner_names, NULL);
}

SUITE(resolver, cmocka_unit_test(a_name_that_leads_to_a_private_address_is_refused),
      cmocka_unit_test(names_are_asked_for_once_and_kept),
      cmocka_unit_test(the_system_can_be_asked_instead));
