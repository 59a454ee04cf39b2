/* Breaches of the protocol by clients, and sockets in invalid places. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire_client.h"

#define TEN_S (10 * BL_NS_PER_S)

/* ---- Hello ---- */

static void bad_hello(struct wire_stage *stage)
{
    static const char *const cases[] = {
        "{'type':'cancel','id':1}",
        "{'type':'request','id':1,'op':'list','args':{'session_id':'s','after':null,'max':1}}",
        "[]",
        "{",
        "'hello'",
        "{'type':'hello'}",
        "{'type':'hello','client':'','versions':[1],'requires':[],'wants':[]}",
        "{'type':'hello','client':'a','versions':[],'requires':[],'wants':[]}",
        "{'type':'hello','client':'a','versions':[0],'requires':[],'wants':[]}",
        "{'type':'hello','client':'a','versions':[1,1],'requires':[],'wants':[]}",
        "{'type':'hello','client':'a','versions':['1'],'requires':[],'wants':[]}",
        "{'type':'hello','client':'a','versions':[1],'requires':[],'wants':[' ']}",
        "{'type':'hello','client':'a','versions':[1],'requires':[''],'wants':[]}",
        "{'type':'hello','client':'a','versions':[1],'requires':[],'wants':['x','x']}",
        "{'type':'hello','client':'a','versions':[1],'requires':['tools'],'wants':['tools']}",
    };
    struct wire_client client;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        wire_connect(&client, stage);
        wire_send(&client, "%s", cases[i]);
        const char *answer = wire_next(&client);
        if (!CHECK_HAS(answer, "{'type':'rejected','reason':{'type':'bad_hello','message':'"))
            fprintf(stderr, "%s\n", cases[i]);
        CHECK(wire_await_closed(&client, TEN_S));
        wire_leave(&client);
    }
}

WIRE_TEST(a_first_frame_that_is_not_a_valid_hello_is_rejected, bad_hello)

static void no_match(struct wire_stage *stage)
{
    struct wire_client client;
    wire_connect(&client, stage);
    wire_send(&client, "{'type':'hello','client':'a','versions':[2],'requires':[],'wants':[]}");
    CHECK_HAS(wire_next(&client),
              "{'type':'rejected','reason':{'type':'no_common_version','versions':[1]}}");
    CHECK(wire_await_closed(&client, TEN_S));
    wire_leave(&client);
    wire_connect(&client, stage);
    wire_send(&client, "{'type':'hello','client':'a','versions':[1],'requires':['tools','x'],"
                       "'wants':[]}");
    CHECK_HAS(wire_next(&client),
              "{'type':'rejected','reason':{'type':'missing_capability','capability':'x'}}");
    CHECK(wire_await_closed(&client, TEN_S));
    wire_leave(&client);
}

WIRE_TEST(an_unknown_version_or_required_capability_is_rejected, no_match)

static void no_hello(struct wire_stage *stage)
{
    struct wire_client silent, slow, good;
    uint64_t before = server_hello_ns;
    wire_join(&good, stage, "a", "");
    server_hello_ns = 50 * MS;
    wire_connect(&silent, stage);
    wire_connect(&slow, stage);
    wire_send_bytes(&slow, BL_TEXT("\0\0\1\0{\"type"));
    CHECK_HAS(wire_next(&silent), "{'type':'bye','reason':'protocol'");
    CHECK_HAS(wire_next(&slow), "{'type':'bye','reason':'protocol'");
    CHECK(wire_await_closed(&silent, TEN_S));
    CHECK(wire_await_closed(&slow, TEN_S));
    CHECK_HAS(wire_call(&good, "list", "{'session_id':'s','after':null,'max':1}"),
              "session_not_open");
    wire_leave(&silent);
    wire_leave(&slow);
    wire_leave(&good);
    server_hello_ns = before;
}

WIRE_TEST(a_client_without_a_hello_is_disconnected, no_hello)

/* ---- Frames ---- */

/* Sends the bytes on a connection of its own; another client is served throughout. */
static void expect_bye(struct wire_stage *stage, struct wire_client *witness, struct bl_text bytes)
{
    struct wire_client client;
    wire_join(&client, stage, "bad", "'tools'");
    wire_send_bytes(&client, bytes);
    if (!CHECK_HAS(wire_await(&client, "bye"), "{'type':'bye','reason':'protocol','message':'"))
        fprintf(stderr, BL_TEXT_FORMAT "\n", BL_TEXT_ARG(bytes));
    CHECK(wire_await_closed(&client, TEN_S));
    wire_leave(&client);
    CHECK_HAS(wire_call(witness, "list", "{'session_id':'s-1','after':null,'max':1}"), "listed");
}

static void expect_bye_of(struct wire_stage *stage, struct wire_client *witness,
                          struct bl_text json)
{
    struct bl_buffer bytes;
    uint8_t head[BL_FRAME_HEAD_SIZE];
    bl_frame_head(head, (uint32_t)json.size);
    bl_buffer_init(&bytes, SIZE_MAX);
    bl_buffer_append(&bytes, (struct bl_text){(const char *)head, sizeof head});
    bl_buffer_append(&bytes, json);
    expect_bye(stage, witness, bl_buffer_text(&bytes));
    bl_buffer_done(&bytes);
}

#define LIST(id)                                                                                   \
    "{\"type\":\"request\"," id "\"op\":\"list\",\"args\":{\"session_id\":\"s-1\",\"after\":null," \
    "\"max\":1}}"

static void bad_frames(struct wire_stage *stage)
{
    static const struct bl_text cases[] = {
        BL_TEXT("{\"type\":\"hello\",\"client\":\"a\",\"versions\":[1],\"requires\":[],"
                "\"wants\":[]}"),
        BL_TEXT("{\"type\":\"cancel\",\"id\":1,\"x\":\"\xff\xfe\"}"),
        BL_TEXT("{\"type\":\"cancel\",\"id\":1"),
        BL_TEXT("{\"type\":\"cancel\",\"id\":1}}"),
        BL_TEXT("{\"type\":\"cancel\",\"id\":1,\"id\":1}"),
        BL_TEXT("not json"),
        BL_TEXT("\0\0\0\0"),
        BL_TEXT("[1]"),
        BL_TEXT("{}"),
        BL_TEXT("{\"type\":\"reply\",\"id\":1,\"op\":\"list\",\"ok\":{}}"),
        BL_TEXT("{\"type\":\"other\"}"),
        BL_TEXT(LIST("")),
        BL_TEXT(LIST("\"id\":-1,")),
        BL_TEXT(LIST("\"id\":1.5,")),
        BL_TEXT(LIST("\"id\":9007199254740992,")),
        BL_TEXT(LIST("\"id\":\"1\",")),
    };
    struct wire_client witness;
    wire_join_session(&witness, stage, "good", "s-1", 1000);
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        expect_bye_of(stage, &witness, cases[i]);
    expect_bye(stage, &witness, BL_TEXT("\0\0\0\0"));
    expect_bye(stage, &witness, BL_TEXT("\2\0\0\1"));
    expect_bye(stage, &witness, BL_TEXT("\377\377\377\377xxx"));
    char deep[400] = "{\"type\":\"cancel\",\"id\":1,\"x\":";
    size_t used = strlen(deep);
    memset(deep + used, '[', 64);
    memset(deep + used + 64, ']', 64);
    deep[used + 128] = '}';
    expect_bye_of(stage, &witness, (struct bl_text){deep, used + 129});
    wire_leave(&witness);
}

WIRE_TEST(a_breach_of_the_protocol_ends_that_connection_only, bad_frames)

static void id_in_use(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 1000);
    wire_create(&client, "s-1", "c-1", "setTimeout(() => 0, 60000); await new Promise(() => 0)");
    for (unsigned i = 0; i < 2; i++)
        wire_send(&client, "{'type':'request','id':77,'op':'observe','args':{'session_id':'s-1',"
                           "'cell_id':'c-1','generation':1,'yield_time_ms':60000}}");
    CHECK_HAS(wire_await(&client, "bye"), "'reason':'protocol'");
    CHECK(wire_await_closed(&client, TEN_S));
    wire_leave(&client);
    /* An id can be used again after its answer. */
    wire_join_session(&client, stage, "a", "s-1", 1000);
    for (unsigned i = 0; i < 2; i++) {
        client.next_id = 5;
        CHECK_HAS(wire_call(&client, "list", "{'session_id':'s-1','after':null,'max':1}"), "c-1");
    }
    wire_leave(&client);
}

WIRE_TEST(an_id_that_is_in_use_is_a_breach, id_in_use)

static void first_length(struct wire_stage *stage)
{
    static const struct bl_text cases[] = {BL_TEXT("\0\0\0\0"), BL_TEXT("\0\1\0\1"),
                                           BL_TEXT("GET / HTTP/1.1\r\n\r\n")};
    struct wire_client client;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        wire_connect(&client, stage);
        wire_send_bytes(&client, cases[i]);
        CHECK_HAS(wire_next(&client), "{'type':'bye','reason':'protocol'");
        CHECK(wire_await_closed(&client, TEN_S));
        wire_leave(&client);
    }
    /* A frame of the largest size. */
    struct bl_buffer hello;
    bl_buffer_init(&hello, SIZE_MAX);
    bl_buffer_printf(&hello, "{\"type\":\"hello\",\"client\":\"a\",\"versions\":[1],"
                             "\"requires\":[],\"wants\":[]");
    while (hello.size < BL_CELL_FRAME_FIRST_MAX - 1)
        bl_buffer_append_byte(&hello, ' ');
    bl_buffer_append_byte(&hello, '}');
    wire_connect(&client, stage);
    wire_send_text(&client, bl_buffer_text(&hello));
    CHECK_HAS(wire_next(&client), "{'type':'ready'");
    wire_leave(&client);
    bl_buffer_done(&hello);
}

WIRE_TEST(a_first_frame_has_64_KiB, first_length)

/* Within a frame a client may be slow, as long as bytes arrive; checked only if the machine is not
 * busy. */
static bool is_taken_in_pieces(struct wire_stage *stage)
{
    struct bl_text frame = BL_TEXT("\0\0\0\x18{\"type\":\"cancel\",\"id\":1}");
    struct wire_client client;
    wire_join(&client, stage, "a", "");
    for (size_t i = 0; i < frame.size; i += 4) {
        wire_send_bytes(&client, (struct bl_text){frame.data + i, 4});
        bl_sleep(50 * MS);
    }
    const char *reply = wire_call(&client, "list", "{'session_id':'s-1','after':null,'max':1}");
    bool taken = wire_has(reply, "session_not_open");
    wire_leave(&client);
    return taken;
}

static void liars(struct wire_stage *stage)
{
    struct wire_client client;
    uint64_t before = server_silence_ns;
    server_silence_ns = 50 * MS;
    wire_join(&client, stage, "a", "");
    wire_send_bytes(&client, BL_TEXT("\2\0\0\0ten bytes."));
    const struct server_connection *connection =
        BL_CONTAINER(stage->server->connections.next, struct server_connection, link);
    while (!bl_frames_partial(&connection->frames) && bl_yield() == 0)
        continue;
    CHECK(connection->frames.pending.capacity <= 64 * 1024);
    CHECK_HAS(wire_await(&client, "bye"), "'reason':'protocol'");
    CHECK(wire_await_closed(&client, TEN_S));
    wire_leave(&client);
    server_silence_ns = 300 * MS;
    unsigned tries = 0;
    while (!is_taken_in_pieces(stage) && tries < 20)
        tries++;
    CHECK(tries < 20);
    server_silence_ns = before;
}

WIRE_TEST(a_frame_announced_and_not_sent_allocates_nothing_and_times_out, liars)

/* A create without its last byte, and then end of input. */
static void mid_frame(struct wire_stage *stage)
{
    struct bl_text create = BL_TEXT(
        "{\"type\":\"request\",\"id\":9,\"op\":\"create_cell\",\"args\":{\"session_id\":\"s-1\","
        "\"cell_id\":\"c-1\",\"source\":\"text(1)\",\"tools\":[],\"limits\":{}}}");
    struct wire_client client;
    uint8_t head[4];
    wire_join_session(&client, stage, "a", "s-1", 60000);
    bl_frame_head(head, (uint32_t)create.size);
    wire_send_bytes(&client, (struct bl_text){(const char *)head, 4});
    create.size--;
    wire_send_bytes(&client, create);
    wire_leave(&client);
    wire_join_session(&client, stage, "b", "s-1", 1000);
    CHECK_HAS(wire_call(&client, "list", "{'session_id':'s-1','after':null,'max':1}"),
              "'cells':[]");
    wire_leave(&client);
}

WIRE_TEST(an_end_in_mid_frame_has_no_effect, mid_frame)

/* ---- Requests ---- */

static void bad_requests(struct wire_stage *stage)
{
    static const struct {
        const char *op, *args, *path;
    } cases[] = {
        {"list", "{'session_id':'','after':null,'max':1}", "/session_id"},
        {"list", "{'session_id':'../x','after':null,'max':1}", "/session_id"},
        {"list", "{'session_id':'S-1','after':null,'max':1}", "/session_id"},
        {"list", "{'session_id':'s\\u0000','after':null,'max':1}", "/session_id"},
        {"list", "{'session_id':'s-1','after':null,'max':'1'}", "/max"},
        {"list", "{'session_id':'s-1','after':null,'max':1.5}", "/max"},
        {"list", "{'session_id':'s-1','after':null,'max':-1}", "/max"},
        {"list", "{'session_id':'s-1','after':null,'max':1e300}", "/max"},
        {"list", "{'session_id':'s-1','after':null,'max':null}", "/max"},
        {"observe",
         "{'session_id':'s-1','cell_id':"
         "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',"
         "'generation':1,'yield_time_ms':0}",
         "/cell_id"},
        {"observe", "{'session_id':'s-1','cell_id':'c','generation':0,'yield_time_ms':0}",
         "/generation"},
        {"observe", "{'session_id':'s-1','cell_id':'c','generation':1,'yield_time_ms':300001}",
         "/yield_time_ms"},
        {"open_session", "{'session_id':'s-1','serves_tools':true,'linger_ms':3600001}",
         "/linger_ms"},
        {"create_cell", "{'session_id':'s-1','cell_id':'c','source':'','tools':[],'limits':{}}",
         "/source"},
        {"create_cell", "{'session_id':'s-1','cell_id':'c','source':' ','tools':[],'limits':{}}",
         "/source"},
        {"create_cell",
         "{'session_id':'s-1','cell_id':'c','source':'1','tools':[],'limits':{'deadline_ms':0}}",
         "/limits/deadline_ms"},
        {"create_cell",
         "{'session_id':'s-1','cell_id':'c','source':'1','tools':[{'name':'','description':'',"
         "'input':'object','input_schema':null}],'limits':{}}",
         "/tools/0/name"},
    };
    struct wire_client client;
    char path[64];
    wire_join_session(&client, stage, "a", "s-1", 1000);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        const char *reply = wire_call(&client, cases[i].op, "%s", cases[i].args);
        CHECK_HAS(reply, "'err':{'code':'bad_request','message':'");
        snprintf(path, sizeof path, "'retryable':false,'path':'%s'}}", cases[i].path);
        CHECK_HAS(reply, path);
    }
    const char *reply = wire_call(&client, "restart", "{}");
    CHECK_HAS(reply, "'op':'restart','err':{'code':'unsupported'");
    CHECK_HAS(reply, "'retryable':false,'op':'restart'}}");
    CHECK_HAS(wire_call(&client, "list", "{'session_id':'s-1','after':null,'max':9}"),
              "'cells':[]");
    wire_leave(&client);
}

WIRE_TEST(a_bad_request_is_refused_with_its_path_and_changes_nothing, bad_requests)

static void not_even_source(struct wire_stage *stage)
{
    static const struct {
        const char *source, *kind;
    } cases[] = {{"let let = ;", "'kind':'syntax'"},
                 {"text(1)\\u0000", "'kind':'syntax'"},
                 {"import fs from `fs`", "'kind':'syntax'"},
                 {"import \\u0022fs\\u0022", "'kind':'import'"}};
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 1000);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char cell[16];
        snprintf(cell, sizeof cell, "c-%zu", i);
        CHECK_HAS(wire_create(&client, "s-1", cell, cases[i].source), "'type':'created'");
        const char *end = wire_call(&client, "observe",
                                    "{'session_id':'s-1','cell_id':'%s','generation':1,"
                                    "'yield_time_ms':20000}",
                                    cell);
        CHECK_HAS(end, "'type':'completed'");
        CHECK_HAS(end, cases[i].kind);
    }
    wire_leave(&client);
}

WIRE_TEST(a_source_that_does_not_run_is_created_and_then_completed_with_an_error, not_even_source)

static const char *const client_frames[] = {
    "{\"type\":\"request\",\"id\":1,\"op\":\"create_cell\",\"args\":{\"session_id\":\"s-9\","
    "\"cell_id\":\"c\",\"source\":\"1\",\"tools\":[],\"limits\":{\"deadline_ms\":9}}}",
    "{\"type\":\"request\",\"id\":2,\"op\":\"observe\",\"args\":{\"session_id\":\"s-9\","
    "\"cell_id\":\"c\",\"generation\":1,\"yield_time_ms\":1}}",
    "{\"type\":\"request\",\"id\":3,\"op\":\"list\",\"args\":{\"session_id\":\"s-9\",\"after\":"
    "null,"
    "\"max\":9}}",
    "{\"type\":\"cancel\",\"id\":2}",
    "{\"type\":\"notify_ack\",\"session_id\":\"s-9\",\"cell_id\":\"c\",\"seq\":1}",
    "{\"type\":\"tool_result\",\"session_id\":\"s-9\",\"cell_id\":\"c\",\"call_id\":\"call-1\","
    "\"ok\":[{},null,1.5]}",
};

/* Sends a few frames in one write, with some bytes changed and perhaps without the end. */
static void send_garbage(struct wire_client *client, struct bl_random *random)
{
    struct bl_buffer bytes;
    bl_buffer_init(&bytes, SIZE_MAX);
    for (uint64_t i = bl_random_below(random, 6) + 1; i > 0; i--) {
        struct bl_text frame =
            bl_text_from(client_frames[bl_random_below(random, BL_COUNT(client_frames))]);
        uint8_t head[BL_FRAME_HEAD_SIZE];
        bl_frame_head(head, (uint32_t)frame.size);
        bl_buffer_append(&bytes, (struct bl_text){(const char *)head, sizeof head});
        bl_buffer_append(&bytes, frame);
    }
    for (uint64_t i = bl_random_below(random, 6); i > 0; i--)
        bytes.data[bl_random_below(random, bytes.size)] = (char)bl_random_next(random);
    if (bl_random_below(random, 2) == 0)
        bytes.size = bl_random_below(random, bytes.size + 1);
    wire_send_bytes(client, bl_buffer_text(&bytes));
    bl_buffer_done(&bytes);
}

/* Random bytes, inside and outside of frames: the other clients are served, and their cells
 * complete. */
static void garbage(struct wire_stage *stage)
{
    uint64_t until_ns = bl_now_ns() + suite_rounds(1, 600) * BL_NS_PER_S, seed = 0;
    struct wire_client witness, client;
    struct bl_random random;
    unsigned long sent = 0;
    bl_random_bytes(&seed, sizeof seed);
    bl_random_seed(&random, seed);
    wire_join_session(&witness, stage, "good", "s-1", 1000);
    wire_create(&witness, "s-1", "c-1", "text(await tools.count({}))");
    CHECK_HAS(wire_await(&witness, "tool_call"), "'call_id':'call-1'");
    while (bl_now_ns() < until_ns) {
        if (bl_random_below(&random, 3) == 0)
            wire_connect(&client, stage);
        else
            wire_join_session(&client, stage, "bad", "s-9", 0);
        send_garbage(&client, &random);
        if (bl_random_below(&random, 2) == 0)
            bl_yield();
        wire_leave(&client);
        if (sent++ % 16 == 0)
            CHECK_HAS(wire_call(&witness, "list", "{'session_id':'s-1','after':null,'max':1}"),
                      "'cell_id':'c-1','state':'running'");
    }
    printf("%lu connections sent garbage, from seed %llu\n", sent, (unsigned long long)seed);
    while (wire_connections(stage) > 1 && bl_yield() == 0)
        continue;
    wire_send(&witness, "{'type':'tool_result','session_id':'s-1','cell_id':'c-1',"
                        "'call_id':'call-1','ok':5}");
    CHECK_HAS(wire_call(&witness, "observe",
                        "{'session_id':'s-1','cell_id':'c-1','generation':1,"
                        "'yield_time_ms':20000}"),
              "'text':'5'}],'error':null");
    wire_leave(&witness);
}

WIRE_TEST(C50_garbage_does_not_affect_other_clients, garbage)

/* ---- The socket ---- */

static int start_second(struct wire_stage *stage, const char *path, struct bl_error *error)
{
    struct bl_cell_server *second = NULL;
    struct bl_cell_server_options options = {
        .host = stage->host, .socket = path, .input = -1, .output = -1, .directory = "/"};
    int code = bl_cell_server_start(&stage->nursery, &options, &second, error);
    if (code == 0)
        bl_cell_server_stop(second, BL_STOP_SHUTDOWN, "test");
    return code;
}

static void sockets(struct wire_stage *stage)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct wire_client client;
    struct stat status;
    char path[128];
    /* A live host. */
    CHECK_EQUAL(start_second(stage, stage->socket, error), BL_EBUSY);
    CHECK_HAS(error->message, stage->socket);
    CHECK(error->hint[0] != '\0');
    wire_join(&client, stage, "a", "");
    wire_leave(&client);
    CHECK_EQUAL(stat(stage->socket, &status), 0);
    CHECK_EQUAL(status.st_mode & 07777, 0600);
    /* Not a socket. */
    snprintf(path, sizeof path, "%s/file", stage->folder);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    *error = (struct bl_error){0};
    CHECK_EQUAL(start_second(stage, path, error), BL_EEXIST);
    CHECK_EQUAL(stat(path, &status), 0);
    CHECK(S_ISREG(status.st_mode));
    /* A stale socket is replaced; afterwards none is left. */
    struct bl_local_file file;
    int fd = -1;
    snprintf(path, sizeof path, "%s/stale.sock", stage->folder);
    CHECK_EQUAL(bl_local_listen(path, 1, &fd, &file, NULL), 0);
    close(fd);
    CHECK_EQUAL(start_second(stage, path, error), 0);
    CHECK(stat(path, &status) != 0 && errno == ENOENT);
    /* An impossible path. */
    *error = (struct bl_error){0};
    CHECK_EQUAL(start_second(stage, "/no-such-folder/x.sock", error), BL_ENOENT);
    CHECK(error->message[0] != '\0');
    wire_close(stage);
    CHECK(stat(stage->socket, &status) != 0 && errno == ENOENT);
    bl_free(error);
}

WIRE_TEST(a_path_with_a_live_host_a_stale_socket_or_no_socket, sockets)

static void usual_place(struct wire_stage *stage)
{
    struct bl_cell_client_options options = {.name = "a"};
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_cell_client *client = NULL;
    struct bl_cell_server *second = NULL;
    struct bl_cell_server_options serving = {
        .host = stage->host, .input = -1, .output = -1, .directory = "/"};
    struct stat status;
    char path[128];
    setenv("XDG_RUNTIME_DIR", stage->folder, 1);
    CHECK_EQUAL(bl_cell_server_start(&stage->nursery, &serving, &second, error), 0);
    snprintf(path, sizeof path, "%s/belay/cell.sock", stage->folder);
    CHECK(strcmp(bl_cell_server_path(second), path) == 0);
    snprintf(path, sizeof path, "%s/belay", stage->folder);
    CHECK_EQUAL(stat(path, &status), 0);
    CHECK_EQUAL(status.st_mode & 07777, 0700);
    CHECK_EQUAL(bl_cell_client_open(&options, &client, error), 0);
    bl_cell_client_close(client);
    bl_cell_server_stop(second, BL_STOP_SHUTDOWN, "test");
    CHECK_EQUAL(chmod(path, 0755), 0);
    CHECK_EQUAL(bl_cell_server_start(&stage->nursery, &serving, &second, error), BL_EACCES);
    CHECK(error->hint[0] != '\0');
    unsetenv("XDG_RUNTIME_DIR");
    bl_free(error);
}

WIRE_TEST(the_default_socket_is_in_a_private_folder, usual_place)

static void stranger(struct wire_stage *stage)
{
    int status = -1;
    if (geteuid() != 0)
        return;
    CHECK_EQUAL(chmod(stage->folder, 0755), 0);
    CHECK_EQUAL(chmod(stage->socket, 0666), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        int fd;
        if (setresuid(65534, 65534, 65534) != 0 || bl_local_connect(stage->socket, &fd, NULL) != 0)
            _exit(2);
        fcntl(fd, F_SETFL, 0);
        _exit(recv(fd, &byte, 1, 0) <= 0 ? 0 : 1);
    }
    while (waitpid(child, &status, WNOHANG) == 0)
        bl_sleep(2 * MS);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
    CHECK_HAS(stage->log, "rejected a client of another user");
}

WIRE_TEST(a_peer_of_another_user_is_closed_without_a_byte, stranger)

SUITE(server_bad, cmocka_unit_test(a_first_frame_that_is_not_a_valid_hello_is_rejected),
      cmocka_unit_test(an_unknown_version_or_required_capability_is_rejected),
      cmocka_unit_test(a_client_without_a_hello_is_disconnected),
      cmocka_unit_test(a_breach_of_the_protocol_ends_that_connection_only),
      cmocka_unit_test(an_id_that_is_in_use_is_a_breach),
      cmocka_unit_test(a_first_frame_has_64_KiB),
      cmocka_unit_test(a_frame_announced_and_not_sent_allocates_nothing_and_times_out),
      cmocka_unit_test(an_end_in_mid_frame_has_no_effect),
      cmocka_unit_test(a_bad_request_is_refused_with_its_path_and_changes_nothing),
      cmocka_unit_test(a_source_that_does_not_run_is_created_and_then_completed_with_an_error),
      cmocka_unit_test(C50_garbage_does_not_affect_other_clients),
      cmocka_unit_test(a_path_with_a_live_host_a_stale_socket_or_no_socket),
      cmocka_unit_test(the_default_socket_is_in_a_private_folder),
      cmocka_unit_test(a_peer_of_another_user_is_closed_without_a_byte));
