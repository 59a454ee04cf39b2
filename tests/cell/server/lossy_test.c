/* A proxy between client and host drops, delays, duplicates and cuts the host's frames, with a
 * seed, while a client repeats its requests until they are answered. Each item must arrive once and
 * in order, an end must always have the same bytes, and nothing may run twice. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire_client.h"

enum {
    ITEMS = 6,
    LANES = 10,
    TRIES = 200
};

#define SOURCE                                                                                     \
    "for (let i = 0; i < 6; i++) { text(`${i}`); if (i % 2) yield_control(); if (i == 3) { try { " \
    "await tools.count({}) } catch (e) { if (e.kind != `indeterminate`) throw e } } "              \
    "await new Promise((done) => setTimeout(done, 1)) }"

/* ---- The proxy ---- */

struct proxy {
    struct bl_random *random;
    int near, far; /* to the client, to the host */
    struct bl_descriptor *near_descriptor, *far_descriptor;
    struct bl_nursery nursery;
    bool broken;
};

static void proxy_break(struct proxy *proxy)
{
    proxy->broken = true;
    shutdown(proxy->near, SHUT_RDWR);
    shutdown(proxy->far, SHUT_RDWR);
}

static void pass_on(struct bl_descriptor *descriptor, int fd, struct bl_text bytes)
{
    while (bytes.size > 0) {
        ssize_t size = send(fd, bytes.data, bytes.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size < 0 && (errno != EAGAIN || bl_descriptor_wait(descriptor, BL_WRITABLE, NULL) != 0))
            return;
        bytes.data += size > 0 ? size : 0;
        bytes.size -= size > 0 ? (size_t)size : 0;
    }
}

/* From the host: whole frames, each with its own fate. */
static int take_frame(void *context, struct bl_text frame)
{
    struct proxy *proxy = context;
    bool reply = bl_text_starts_with(frame, BL_TEXT("{\"type\":\"reply\""));
    uint64_t chance = bl_random_below(proxy->random, 100);
    struct bl_buffer bytes;
    uint8_t head[BL_FRAME_HEAD_SIZE];
    if (proxy->broken)
        return BL_ECLOSED;
    bl_frame_head(head, (uint32_t)frame.size);
    bl_buffer_init(&bytes, SIZE_MAX);
    bl_buffer_append(&bytes, (struct bl_text){(const char *)head, sizeof head});
    bl_buffer_append(&bytes, frame);
    if (chance < 8)
        bl_sleep(bl_random_below(proxy->random, 4 * MS));
    if (chance >= 8 && chance < 13) { /* cut anywhere */
        bytes.size = bl_random_below(proxy->random, bytes.size);
        pass_on(proxy->near_descriptor, proxy->near, bl_buffer_text(&bytes));
        proxy_break(proxy);
    } else if (!reply || chance < 90) {
        pass_on(proxy->near_descriptor, proxy->near, bl_buffer_text(&bytes));
    }
    if (reply && chance >= 82 && chance < 90) /* duplicated */
        pass_on(proxy->near_descriptor, proxy->near, bl_buffer_text(&bytes));
    bl_buffer_done(&bytes);
    return proxy->broken ? BL_ECLOSED : 0;
}

static int down_main(void *argument)
{
    struct proxy *proxy = argument;
    struct bl_frames frames;
    char *buffer = bl_alloc(65536);
    size_t size = 1;
    int code = 0;
    bl_frames_init(&frames, BL_CELL_FRAME_MAX);
    while (code == 0 && size > 0) {
        code = bl_descriptor_read(proxy->far_descriptor, buffer, 65536, &size);
        if (code == 0 && size > 0)
            code = bl_frames_feed(&frames, (struct bl_text){buffer, size}, take_frame, proxy);
    }
    proxy_break(proxy);
    bl_frames_done(&frames);
    bl_free(buffer);
    return 0;
}

/* From the client: bytes that may be cut anywhere. */
static int up_main(void *argument)
{
    struct proxy *proxy = argument;
    char *buffer = bl_alloc(65536);
    size_t size = 1;
    int code = 0;
    while (code == 0 && size > 0) {
        code = bl_descriptor_read(proxy->near_descriptor, buffer, 65536, &size);
        if (code == 0 && size > 0 && bl_random_below(proxy->random, 100) < 5) {
            size = bl_random_below(proxy->random, size);
            code = BL_ECLOSED;
        }
        pass_on(proxy->far_descriptor, proxy->far, (struct bl_text){buffer, size});
    }
    proxy_break(proxy);
    bl_free(buffer);
    return 0;
}

/* Returns the client's end of the connection. */
static int proxy_start(struct proxy *proxy, const struct wire_stage *stage,
                       struct bl_random *random)
{
    int ends[2], code;
    *proxy = (struct proxy){.random = random, .far = -1};
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    proxy->near = ends[1];
    while ((code = bl_local_connect(stage->socket, &proxy->far, NULL)) == BL_EAGAIN)
        bl_sleep(MS);
    CHECK_EQUAL(code, 0);
    bl_descriptor_new(proxy->near, &proxy->near_descriptor);
    bl_descriptor_new(proxy->far, &proxy->far_descriptor);
    bl_nursery_init(&proxy->nursery, bl_scope_current());
    bl_nursery_spawn(&proxy->nursery, NULL, "down", down_main, proxy, NULL);
    bl_nursery_spawn(&proxy->nursery, NULL, "up", up_main, proxy, NULL);
    return ends[0];
}

static void proxy_end(struct proxy *proxy)
{
    bl_nursery_done(&proxy->nursery);
    bl_descriptor_free(proxy->near_descriptor);
    bl_descriptor_free(proxy->far_descriptor);
    close(proxy->near);
    close(proxy->far);
}

/* ---- The client ---- */

struct lane {
    struct wire_stage *stage;
    struct bl_random random;
    struct proxy proxy;
    struct wire_client client;
    bool connected;
    char name[16], session[16], cell[32];
    struct bl_arena arena; /* of the run */
    unsigned executions;
    unsigned items;       /* seen so far */
    const char *terminal; /* its bytes, once it was received */
    unsigned long connections, losses;
};

static void lane_disconnect(struct lane *lane)
{
    if (!lane->connected)
        return;
    wire_leave(&lane->client);
    proxy_end(&lane->proxy);
    lane->connected = false;
}

static void serve_tool(struct lane *lane, const char *call)
{
    bool again = wire_has(call, "'redelivered':true");
    bool known = lane->executions > 0;
    CHECK_HAS(call, "'call_id':'call-1'");
    if (!again)
        lane->executions++;
    /* The call has run, and its result is never sent. */
    if (bl_random_below(&lane->random, 4) == 0) {
        proxy_break(&lane->proxy);
        return;
    }
    wire_send(&lane->client,
              "{'type':'tool_result','session_id':'%s','cell_id':'%s','call_id':'call-1',%s}",
              lane->session, wire_field(call, "cell_id"),
              !again || known ? "'ok':1" : "'err':{'kind':'indeterminate','message':''}");
}

/* Returns the reply, or "" if it does not arrive. */
static const char *await_reply(struct lane *lane, uint64_t id, uint64_t limit_ns)
{
    uint64_t deadline_ns = bl_now_ns() + limit_ns;
    char start[64];
    snprintf(start, sizeof start, "{\"type\":\"reply\",\"id\":%llu,", (unsigned long long)id);
    for (;;) {
        uint64_t now_ns = bl_now_ns();
        const char *frame = now_ns >= deadline_ns
                                ? ""
                                : wire_await_within(&lane->client, NULL, deadline_ns - now_ns);
        if (frame[0] == '\0')
            return "";
        if (wire_has(frame, "{'type':'tool_call'"))
            serve_tool(lane, frame);
        if (strncmp(frame, start, strlen(start)) == 0)
            return frame;
    }
}

static bool lane_connect(struct lane *lane, uint64_t limit_ns)
{
    lane_disconnect(lane);
    wire_adopt(&lane->client, proxy_start(&lane->proxy, lane->stage, &lane->random));
    lane->connected = true;
    lane->connections++;
    wire_send(&lane->client,
              "{'type':'hello','client':'%s','versions':[1],'requires':[],'wants':['tools']}",
              lane->name);
    if (wire_await_within(&lane->client, "ready", limit_ns)[0] == '\0')
        return false;
    uint64_t id =
        wire_ask(&lane->client, "open_session",
                 "{'session_id':'%s','serves_tools':true,'linger_ms':60000}", lane->session);
    return wire_has(await_reply(lane, id, limit_ns), "'type':'opened'");
}

/* Repeats a request until it is answered; the reply is in the run's arena. */
static const char *ask(struct lane *lane, const char *op, const char *args, unsigned wait_ms)
{
    for (unsigned try = 0; try < TRIES; try++) {
        uint64_t limit_ns = (30ull << (try < 8 ? try : 8)) * MS;
        if (!lane->connected || lane->client.closed || try > 0)
            if (!lane_connect(lane, limit_ns))
                continue;
        uint64_t id = wire_ask(&lane->client, op, "%s", args);
        const char *reply = await_reply(lane, id, limit_ns + wait_ms * MS);
        if (reply[0] != '\0')
            return bl_arena_text(&lane->arena, bl_text_from(wire_has(reply, ",'ok':")
                                                                ? wire_ok(&lane->client, reply)
                                                                : reply))
                .data;
        lane->losses++;
    }
    CHECK(!"no answer, however often it was asked");
    return "";
}

/* ---- Invariants ---- */

static void take_items(struct lane *lane, const char *outcome)
{
    for (const char *at = outcome; (at = strstr(at, "\"text\":\"")) != NULL; at++) {
        CHECK_EQUAL(strtoul(at + strlen("\"text\":\""), NULL, 10), lane->items);
        lane->items++;
    }
}

static void take_terminal(struct lane *lane, const char *outcome)
{
    CHECK(wire_has(outcome, "{'type':'completed'") || wire_has(outcome, "{'type':'terminated'"));
    if (lane->terminal == NULL)
        lane->terminal = outcome;
    else if (!CHECK(strcmp(lane->terminal, outcome) == 0))
        fprintf(stderr, "first: %s\nthen: %s\n", lane->terminal, outcome);
}

static const char *observe(struct lane *lane, unsigned long generation, unsigned yield_ms)
{
    char args[256];
    snprintf(args, sizeof args,
             "{'session_id':'%s','cell_id':'%s','generation':%lu,'yield_time_ms':%u}",
             lane->session, lane->cell, generation, yield_ms);
    return ask(lane, "observe", args, yield_ms);
}

static const char *terminate(struct lane *lane, unsigned id)
{
    char args[256];
    snprintf(args, sizeof args,
             "{'session_id':'%s','cell_id':'%s','terminate_id':'t-%u','reason':'user'}",
             lane->session, lane->cell, id);
    return ask(lane, "terminate", args, 600);
}

/* Reads generation after generation, and sometimes terminates the cell. */
static void follow(struct lane *lane)
{
    unsigned long generation = 1, last = 0;
    for (unsigned step = 0; step < 100 && (last == 0 || generation <= last); step++) {
        if (last == 0 && (bl_random_below(&lane->random, 12) == 0 || step == 60)) {
            const char *end = terminate(lane, 1);
            take_terminal(lane, end);
            last = strtoul(wire_field(end, "generation"), NULL, 10);
            continue;
        }
        const char *outcome =
            observe(lane, generation, (unsigned)bl_random_below(&lane->random, 20));
        CHECK_EQUAL(strtoul(wire_field(outcome, "generation"), NULL, 10), generation);
        take_items(lane, outcome);
        if (!wire_has(outcome, "{'type':'yielded'")) {
            take_terminal(lane, outcome);
            last = generation;
        }
        generation++;
    }
    CHECK(lane->terminal != NULL && generation == last + 1);
    CHECK(lane->items <= ITEMS);
    if (lane->terminal != NULL && wire_has(lane->terminal, "{'type':'completed'")) {
        CHECK_EQUAL(lane->items, ITEMS);
        CHECK_HAS(lane->terminal, "'error':null");
    }
    /* Any repeated request gets the same answer. */
    take_terminal(lane, terminate(lane, 2));
    take_terminal(lane, observe(lane, last, 0));
    take_terminal(lane, observe(lane, last + 1, 0));
    char args[256];
    snprintf(args, sizeof args, "{'session_id':'%s','cell_id':'%s','generation':%lu}",
             lane->session, lane->cell, last);
    CHECK_HAS(ask(lane, "release", args, 0), "{'type':'released'");
    CHECK_HAS(ask(lane, "release", args, 0), "{'type':'released'");
    CHECK_HAS(observe(lane, last, 0), "{'type':'missing'");
}

static void run_one(struct lane *lane, unsigned long number)
{
    char args[600];
    lane->executions = lane->items = 0;
    lane->terminal = NULL;
    bl_arena_init(&lane->arena);
    snprintf(lane->cell, sizeof lane->cell, "c-%lu", number);
    snprintf(args, sizeof args,
             "{'session_id':'%s','cell_id':'%s','source':'%s','tools':[{'name':'count',"
             "'description':'','input':'object','input_schema':null}],'limits':{}}",
             lane->session, lane->cell, SOURCE);
    CHECK_HAS(ask(lane, "create_cell", args, 0), "{'type':'created'");
    follow(lane);
    CHECK_HAS(ask(lane, "create_cell", args, 0), "'code':'gone'");
    CHECK(lane->executions <= 1);
    bl_arena_done(&lane->arena);
}

struct lanes {
    struct wire_stage *stage;
    unsigned long next, rounds;
    unsigned long connections, losses;
    uint64_t seed;
};

static int lane_main(void *argument)
{
    struct lanes *lanes = argument;
    struct lane *lane = bl_zalloc(sizeof *lane);
    unsigned long number = lanes->next++;
    lane->stage = lanes->stage;
    snprintf(lane->name, sizeof lane->name, "n-%lu", number);
    snprintf(lane->session, sizeof lane->session, "s-%lu", number);
    do {
        bl_random_seed(&lane->random, lanes->seed + number);
        run_one(lane, number);
        number = lanes->next++;
    } while (number < lanes->rounds);
    lane_disconnect(lane);
    lanes->connections += lane->connections;
    lanes->losses += lane->losses;
    bl_free(lane);
    return 0;
}

static void lossy(struct wire_stage *stage)
{
    const char *seed = getenv("BELAY_SEED");
    struct lanes lanes = {.stage = stage,
                          .rounds = suite_rounds(SUITE_SANITIZED ? 30 : 60, 10000),
                          .seed = seed != NULL ? strtoull(seed, NULL, 10) : 1};
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    for (unsigned i = 0; i < LANES; i++)
        bl_nursery_spawn(&nursery, NULL, "lane", lane_main, &lanes, NULL);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    printf("%lu runs, %lu connections, %lu replies lost\n", lanes.rounds, lanes.connections,
           lanes.losses);
    CHECK(lanes.losses > 0);
}

WIRE_TEST(no_reply_that_gets_lost_loses_a_result, lossy)

SUITE(lossy, cmocka_unit_test(no_reply_that_gets_lost_loses_a_result));
