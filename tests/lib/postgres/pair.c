#include "pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define INPUT_MAX      ((size_t)1200 * 1024 * 1024)
#define READ_SIZE      ((size_t)64 * 1024)
#define PACKETS_AT_ONE 64
#define STARTUP_MAX    10000

/* The codes of packets before the first message. */
#define CODE_CANCEL 80877102
#define CODE_TLS    80877103
#define CODE_GSS    80877104

/* ---- Packets --------------------------------------------------------------------------------- */

static void packets_add(struct packets *packets, struct packet *packet)
{
    packet->next = NULL;
    if (packets->last != NULL)
        packets->last->next = packet;
    else
        packets->first = packet;
    packets->last = packet;
    packets->size += packet->size;
}

static struct packet *packets_take(struct packets *packets)
{
    struct packet *packet = packets->first;

    packets->first = packet->next;
    if (packets->first == NULL)
        packets->last = NULL;
    packets->size -= packet->size;
    return packet;
}

static void packets_clear(struct packets *packets)
{
    while (packets->first != NULL)
        bl_free(packets_take(packets));
}

static struct packet *packet_new(struct bl_text bytes)
{
    struct packet *packet = bl_alloc(sizeof *packet + bytes.size);

    *packet = (struct packet){.size = bytes.size};
    memcpy(packet->bytes, bytes.data, bytes.size);
    return packet;
}

static uint32_t packet_number(const char *data)
{
    uint32_t number;
    memcpy(&number, data, sizeof number);
    return ntohl(number);
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static void end_close(struct end *end)
{
    if (end->fd >= 0)
        close(end->fd);
    end->fd = -1;
    end->poll_index = 0;
    packets_clear(&end->output);
    bl_buffer_clear(&end->input);
}

struct pair *pg_pair_new(const struct pg_proxy *proxy, int client, int server)
{
    struct pair *pair = bl_zalloc(sizeof *pair);

    pair->ends[PG_CLIENT].fd = client;
    pair->ends[PG_SERVER].fd = server;
    bl_buffer_init(&pair->ends[PG_CLIENT].input, INPUT_MAX);
    bl_buffer_init(&pair->ends[PG_SERVER].input, INPUT_MAX);
    if (pg_pair_fault_is_immediate(&proxy->fault))
        pair->fault = proxy->fault.type;
    return pair;
}

void pg_pair_free(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        end_close(&pair->ends[i]);
        bl_buffer_done(&pair->ends[i].input);
    }
    packets_clear(&pair->unfinished);
    bl_free(pair);
}

void pg_pair_kill(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        if (pair->ends[i].fd >= 0)
            shutdown(pair->ends[i].fd, SHUT_RDWR);
    }
    pair->dead = true;
}

static void pair_cut_client(struct pair *pair)
{
    end_close(&pair->ends[PG_CLIENT]);
    packets_clear(&pair->unfinished);
    pair->cut = true;
}

static void pair_send(struct pg_proxy *proxy, struct pair *pair, enum pg_side to,
                      struct packet *packet)
{
    unsigned late_ms = proxy->delay_ms;

    if (to == PG_SERVER && pair->fault == PG_CUT_AND_DELIVER)
        late_ms += proxy->fault.late_ms;
    if (late_ms > 0)
        packet->release_ms = pg_now_ms() + late_ms;
    packets_add(&pair->ends[to].output, packet);
}

int64_t pg_pair_flush(struct pair *pair, enum pg_side to)
{
    struct end *end = &pair->ends[to];
    int64_t now = pg_now_ms();

    for (;;) {
        struct iovec parts[PACKETS_AT_ONE];
        struct msghdr message = {.msg_iov = parts};
        struct packet *packet = end->output.first;
        for (; packet != NULL && !packet->held && packet->release_ms <= now &&
               message.msg_iovlen < PACKETS_AT_ONE;
             packet = packet->next)
            parts[message.msg_iovlen++] =
                (struct iovec){packet->bytes + packet->sent, packet->size - packet->sent};
        if (message.msg_iovlen == 0 || end->fd < 0)
            return packet != NULL && !packet->held ? packet->release_ms : INT64_MAX;
        ssize_t count = sendmsg(end->fd, &message, MSG_NOSIGNAL);
        if (count < 0) {
            end->closed = end->closed || (errno != EAGAIN && errno != EINTR && errno != ENOTCONN);
            return INT64_MAX;
        }
        for (size_t left = (size_t)count; left > 0;) {
            packet = end->output.first;
            size_t part = packet->size - packet->sent < left ? packet->size - packet->sent : left;
            packet->sent += part;
            left -= part;
            if (packet->sent == packet->size)
                bl_free(packets_take(&end->output));
        }
    }
}

/* ---- Messages of the client ------------------------------------------------------------------ */

bool pg_pair_fault_is_immediate(const struct pg_fault *fault)
{
    return fault->times == 0 && fault->match == NULL && fault->type != PG_HOLD_SYNC &&
           fault->type != PG_CUT_AND_DELIVER;
}

static bool pair_ends_request(char type)
{
    return type == 'S' || type == 'Q' || type == 'F';
}

/* Passes a message of the client on, as the pair's fault says. */
static void pair_request(struct pg_proxy *proxy, struct pair *pair, struct packet *packet)
{
    static const char flush[] = {'H', 0, 0, 0, 4};

    pair->unanswered += pair_ends_request(packet->bytes[0]);
    if (pair->fault == PG_HOLD_SYNC && packet->bytes[0] == 'S') {
        pair_send(proxy, pair, PG_SERVER, packet_new((struct bl_text){flush, sizeof flush}));
        packet->held = true;
    }
    pair_send(proxy, pair, PG_SERVER, packet);
}

static bool pair_matches(const struct pg_proxy *proxy, const struct packets *request)
{
    struct bl_text match = bl_text_from(proxy->fault.match);

    for (const struct packet *each = request->first; each != NULL; each = each->next) {
        if (bl_text_find((struct bl_text){each->bytes, each->size}, match) >= 0)
            return true;
    }
    return false;
}

/* The unfinished messages are as many as a fault can look at. */
static void pair_finish_request(struct pg_proxy *proxy, struct pair *pair, bool may_match)
{
    bool hit = may_match && pair_matches(proxy, &pair->unfinished);

    if (hit) {
        proxy->hits++;
        pair->fault = proxy->fault.type;
    }
    while (pair->unfinished.first != NULL)
        pair_request(proxy, pair, packets_take(&pair->unfinished));
    if (hit && pair->fault == PG_CUT_AND_DELIVER)
        pair_cut_client(pair);
    if (hit && proxy->left > 0 && --proxy->left == 0)
        proxy->fault.type = PG_PASS; /* the affected pairs know theirs */
}

static void pair_client_message(struct pg_proxy *proxy, struct pair *pair, struct bl_text message)
{
    char type = message.data[0];
    bool waits = proxy->fault.type != PG_PASS && !pg_pair_fault_is_immediate(&proxy->fault) &&
                 pair->established && pair->fault == PG_PASS;

    proxy->messages[PG_CLIENT][(unsigned char)type]++;
    if (!waits) {
        pair_request(proxy, pair, packet_new(message));
        return;
    }
    packets_add(&pair->unfinished, packet_new(message));
    /* Parse, Bind, Describe, Execute and Close are the parts of a request. */
    if (strchr("PBDEC", type) == NULL)
        pair_finish_request(proxy, pair, pair_ends_request(type));
}

/* A packet before the first message. */
static void pair_startup(struct pg_proxy *proxy, struct pair *pair, struct bl_text packet)
{
    uint32_t code = packet_number(packet.data + 4);

    proxy->messages[PG_CLIENT][0]++;
    if (code == CODE_TLS || code == CODE_GSS) {
        pair_send(proxy, pair, PG_CLIENT, packet_new(BL_TEXT("N")));
        return;
    }
    pair->started = true;
    pair->unanswered = code != CODE_CANCEL;
    pair_send(proxy, pair, PG_SERVER, packet_new(packet));
}

/* ---- Messages of the server ------------------------------------------------------------------ */

static void pair_server_message(struct pg_proxy *proxy, struct pair *pair, struct bl_text message)
{
    char type = message.data[0];

    proxy->messages[PG_SERVER][(unsigned char)type]++;
    if (type == 'Z') {
        pair->established = true;
        pair->unanswered -= pair->unanswered > 0;
    }
    if (pair->cut)
        return;
    if (pair->fault == PG_DROP) {
        pair->lost = true;
        return;
    }
    if (pair->fault == PG_DROP_AND_CUT) {
        pair_cut_client(pair);
        return;
    }
    struct packet *packet = packet_new(message);
    packet->held = type == 'Z' && pair->fault == PG_HOLD_READY;
    pair_send(proxy, pair, PG_CLIENT, packet);
}

/* ---- Input ----------------------------------------------------------------------------------- */

/* Returns the size of the first message, with its head; 0: it is not whole; or sets `*ret_broken`. */
static size_t pair_message_size(struct bl_text input, bool started, bool *ret_broken)
{
    size_t head = started ? 1 : 0;

    if (input.size < head + 4)
        return 0;
    size_t size = packet_number(input.data + head);
    *ret_broken = size < (started ? 4 : 8) || size > (started ? INPUT_MAX / 2 : STARTUP_MAX);
    return !*ret_broken && input.size >= head + size ? head + size : 0;
}

static void pair_take_messages(struct pg_proxy *proxy, struct pair *pair, enum pg_side from)
{
    struct end *end = &pair->ends[from];
    size_t taken = 0;

    /* A message of the client can close it: then its input is empty. */
    while (end->fd >= 0 && taken < end->input.size) {
        struct bl_text rest = {end->input.data + taken, end->input.size - taken};
        bool started = from == PG_SERVER || pair->started, broken = false;
        size_t size = pair_message_size(rest, started, &broken);
        if (broken)
            pair->dead = true;
        if (size == 0)
            break;
        struct bl_text message = {rest.data, size};
        taken += size;
        if (!started)
            pair_startup(proxy, pair, message);
        else if (from == PG_CLIENT)
            pair_client_message(proxy, pair, message);
        else
            pair_server_message(proxy, pair, message);
    }
    if (end->fd >= 0)
        bl_buffer_consume(&end->input, taken);
}

void pg_pair_read(struct pg_proxy *proxy, struct pair *pair, enum pg_side from)
{
    struct end *end = &pair->ends[from];

    if (bl_buffer_reserve(&end->input, READ_SIZE) != 0) {
        pair->dead = true;
        return;
    }
    ssize_t count = recv(end->fd, end->input.data + end->input.size, READ_SIZE, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0) {
        end->closed = true;
        return;
    }
    if (pair->fault == PG_HALF_OPEN) {
        pair->lost = true;
        return;
    }
    end->input.size += (size_t)count;
    pair_take_messages(proxy, pair, from);
}

bool pg_pair_is_over(const struct pair *pair)
{
    const struct end *client = &pair->ends[PG_CLIENT], *server = &pair->ends[PG_SERVER];

    if (pair->dead || pair->fault == PG_HALF_OPEN)
        return pair->dead;
    if (pair->cut)
        return server->closed || (pair->unanswered == 0 && server->output.first == NULL);
    if (server->closed)
        return client->closed || client->output.first == NULL || client->output.first->held;
    return client->closed && (server->output.first == NULL || server->output.first->held);
}

/* ---- The end of a fault ---------------------------------------------------------------------- */

void pg_pair_recover(struct pg_proxy *proxy, struct pair *pair)
{
    if (pair->lost)
        pg_pair_kill(pair);
    if (pair->cut)
        return;
    pair_finish_request(proxy, pair, false);
    for (int i = 0; i < 2; i++) {
        for (struct packet *each = pair->ends[i].output.first; each != NULL; each = each->next)
            each->held = false;
    }
    pair->fault = PG_PASS;
}
