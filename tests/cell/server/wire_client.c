#include "wire_client.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cell/host/host.h"

#define PATIENCE_NS (30 * BL_NS_PER_S)

/* A received frame; its text is NUL-terminated. */
struct wire_frame {
    struct bl_list link;
    struct bl_text text;
};

/* ---- The host ---- */

static void take_log(void *context, struct bl_text line)
{
    struct wire_stage *stage = context;
    size_t used = strlen(stage->log);
    if (used + line.size + 2 < sizeof stage->log)
        snprintf(stage->log + used, sizeof stage->log - used, BL_TEXT_FORMAT "\n",
                 BL_TEXT_ARG(line));
}

void wire_open(struct wire_stage *stage)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    char path[96];
    snprintf(path, sizeof path, "%s/store.db", stage->folder);
    bl_nursery_init(&stage->nursery, bl_scope_current());
    if (!CHECK_EQUAL(bl_store_open(path, &stage->store, error), 0))
        fprintf(stderr, "%s\n", error->message);
    struct bl_cell_host_options options = {.store = stage->store};
    if (!CHECK_EQUAL(bl_cell_host_start(&stage->nursery, &options, &stage->host, error), 0))
        fprintf(stderr, "%s\n", error->message);
    if (!CHECK_EQUAL(cell_faults_parse(&stage->host->faults, stage->faults, error), 0))
        fprintf(stderr, "%s\n", error->message);
    struct bl_cell_server_options serving = {.host = stage->host,
                                             .socket = stage->socket,
                                             .input = stage->input,
                                             .output = stage->output,
                                             .directory = "/",
                                             .log = take_log,
                                             .context = stage};
    if (!CHECK_EQUAL(bl_cell_server_start(&stage->nursery, &serving, &stage->server, error), 0))
        fprintf(stderr, "%s\n", error->message);
    bl_free(error);
}

void wire_close(struct wire_stage *stage)
{
    bl_cell_server_stop(stage->server, BL_STOP_SHUTDOWN, "test");
    bl_cell_host_stop(stage->host, BL_STOP_SHUTDOWN, "test");
    bl_nursery_done(&stage->nursery);
    bl_store_close(stage->store);
    stage->server = NULL;
    stage->host = NULL;
    stage->store = NULL;
}

unsigned wire_connections(const struct wire_stage *stage)
{
    return stage->server->connection_count;
}

int64_t wire_worker_pid(const struct wire_stage *stage, const char *session, const char *cell)
{
    const struct server_session *open = bl_map_get(&stage->server->sessions, bl_text_from(session));
    const struct cell *found =
        open != NULL && open->session != NULL ? cell_find(open->session, cell) : NULL;
    return found != NULL && found->worker != NULL ? found->worker->pid : 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

static int run(wire_body *body, bool open)
{
    struct wire_stage *stage = bl_zalloc(sizeof *stage);
    const char *base = getenv("TMPDIR");
    if (base == NULL || strlen(base) > 30)
        base = "/tmp";
    stage->input = stage->output = -1;
    snprintf(stage->folder, sizeof stage->folder, "%s/belay-wire-XXXXXX", base);
    CHECK(mkdtemp(stage->folder) != NULL);
    snprintf(stage->socket, sizeof stage->socket, "%s/cell.sock", stage->folder);
    if (open)
        wire_open(stage);
    body(stage);
    if (stage->server != NULL)
        wire_close(stage);
    nftw(stage->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    bl_free(stage);
    return 0;
}

int wire_run(void *argument)
{
    return run(*(wire_body *const *)argument, true);
}

int wire_run_unopened(void *argument)
{
    return run(*(wire_body *const *)argument, false);
}

/* ---- Clients ---- */

void wire_adopt(struct wire_client *client, int fd)
{
    *client = (struct wire_client){.fd = fd, .next_id = 1};
    CHECK_EQUAL(bl_descriptor_new(fd, &client->descriptor), 0);
    bl_frames_init(&client->frames, BL_CELL_FRAME_MAX);
    bl_list_init(&client->incoming);
    bl_arena_init(&client->arena);
}

void wire_connect(struct wire_client *client, const struct wire_stage *stage)
{
    int fd = -1, code;
    while ((code = bl_local_connect(stage->socket, &fd, NULL)) == BL_EAGAIN && bl_sleep(MS) == 0)
        continue;
    CHECK_EQUAL(code, 0);
    wire_adopt(client, fd);
}

void wire_join(struct wire_client *client, const struct wire_stage *stage, const char *name,
               const char *capabilities)
{
    wire_connect(client, stage);
    wire_send(client, "{'type':'hello','client':'%s','versions':[1],'requires':[],'wants':[%s]}",
              name, capabilities);
    CHECK_HAS(wire_await(client, "ready"), "'version':1");
}

void wire_join_session(struct wire_client *client, const struct wire_stage *stage, const char *name,
                       const char *session, unsigned linger_ms)
{
    wire_join(client, stage, name, "'tools','notify'");
    CHECK_HAS(wire_call(client, "open_session",
                        "{'session_id':'%s','serves_tools':true,'linger_ms':%u}", session,
                        linger_ms),
              "'type':'opened'");
}

void wire_leave(struct wire_client *client)
{
    bl_descriptor_free(client->descriptor);
    close(client->fd);
    bl_frames_done(&client->frames);
    bl_arena_done(&client->arena);
    client->descriptor = NULL;
    client->fd = -1;
}

void wire_send_bytes(struct wire_client *client, struct bl_text bytes)
{
    while (bytes.size > 0) {
        ssize_t size = send(client->fd, bytes.data, bytes.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size < 0 && errno == EAGAIN) {
            if (bl_descriptor_wait(client->descriptor, BL_WRITABLE, NULL) != 0)
                return;
            continue;
        }
        if (size < 0)
            return; /* the other side has closed, which the next read reports */
        bytes.data += size;
        bytes.size -= (size_t)size;
    }
}

void wire_send_text(struct wire_client *client, struct bl_text json)
{
    char *bytes = bl_alloc(BL_FRAME_HEAD_SIZE + json.size);
    bl_frame_head((uint8_t *)bytes, (uint32_t)json.size);
    memcpy(bytes + BL_FRAME_HEAD_SIZE, json.data, json.size);
    wire_send_bytes(client, (struct bl_text){bytes, BL_FRAME_HEAD_SIZE + json.size});
    bl_free(bytes);
}

static void straighten(struct bl_buffer *text)
{
    for (size_t i = 0; i < text->size; i++)
        if (text->data[i] == '\'')
            text->data[i] = '"';
}

void wire_send(struct wire_client *client, const char *format, ...)
{
    struct bl_buffer text;
    va_list arguments;
    bl_buffer_init(&text, SIZE_MAX);
    va_start(arguments, format);
    bl_buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    straighten(&text);
    wire_send_text(client, bl_buffer_text(&text));
    bl_buffer_done(&text);
}

static BL_PRINTF(3, 0) uint64_t
    ask(struct wire_client *client, const char *op, const char *format, va_list arguments)
{
    struct bl_buffer text;
    uint64_t id = client->next_id++;
    bl_buffer_init(&text, SIZE_MAX);
    bl_buffer_printf(&text, "{'type':'request','id':%llu,'op':'%s','args':", (unsigned long long)id,
                     op);
    bl_buffer_vprintf(&text, format, arguments);
    bl_buffer_append_byte(&text, '}');
    straighten(&text);
    wire_send_text(client, bl_buffer_text(&text));
    bl_buffer_done(&text);
    return id;
}

uint64_t wire_ask(struct wire_client *client, const char *op, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    uint64_t id = ask(client, op, format, arguments);
    va_end(arguments);
    return id;
}

const char *wire_call(struct wire_client *client, const char *op, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    uint64_t id = ask(client, op, format, arguments);
    va_end(arguments);
    return wire_reply(client, id);
}

/* ---- Receiving ---- */

static int take(void *context, struct bl_text text)
{
    struct wire_client *client = context;
    struct wire_frame *frame = bl_arena_zalloc(&client->arena, sizeof *frame);
    frame->text = bl_arena_text(&client->arena, text);
    bl_list_push_back(&client->incoming, &frame->link);
    return 0;
}

/* Reads more bytes. Returns false at the end of input or after the deadline. */
static bool read_more(struct wire_client *client, uint64_t deadline_ns)
{
    struct bl_scope limit, *outer = bl_scope_current();
    char *buffer = bl_alloc(65536);
    size_t size = 0;
    bl_scope_init(&limit, outer);
    bl_scope_set_deadline(&limit, deadline_ns);
    bl_scope_enter(&limit);
    int code = bl_descriptor_read(client->descriptor, buffer, 65536, &size);
    bl_scope_enter(outer);
    bl_scope_done(&limit);
    if (code == 0 && size > 0)
        CHECK_EQUAL(bl_frames_feed(&client->frames, (struct bl_text){buffer, size}, take, client),
                    0);
    else
        client->closed = code == 0 || (code != BL_ETIMEDOUT && code != BL_ECANCELED);
    bl_free(buffer);
    return code == 0 && size > 0;
}

static bool is_type(struct bl_text frame, const char *type, const char *id)
{
    char start[64];
    snprintf(start, sizeof start, "{\"type\":\"%s\",%s", type, id);
    return bl_text_starts_with(frame, bl_text_from(start));
}

static const char *find(struct wire_client *client, const char *type, const char *id,
                        uint64_t limit_ns)
{
    uint64_t deadline_ns = bl_now_ns() + limit_ns;
    do {
        BL_LIST_EACH_SAFE (link, &client->incoming) {
            struct wire_frame *frame = BL_CONTAINER(link, struct wire_frame, link);
            if (type != NULL && !is_type(frame->text, type, id))
                continue;
            bl_list_remove(link);
            return frame->text.data;
        }
    } while (!client->closed && read_more(client, deadline_ns));
    return "";
}

const char *wire_reply(struct wire_client *client, uint64_t id)
{
    char text[40];
    snprintf(text, sizeof text, "\"id\":%llu,", (unsigned long long)id);
    return find(client, "reply", text, PATIENCE_NS);
}

const char *wire_await(struct wire_client *client, const char *type)
{
    return find(client, type, "", PATIENCE_NS);
}

const char *wire_await_within(struct wire_client *client, const char *type, uint64_t limit_ns)
{
    return find(client, type, "", limit_ns);
}

const char *wire_next(struct wire_client *client)
{
    return find(client, NULL, "", PATIENCE_NS);
}

bool wire_await_closed(struct wire_client *client, uint64_t limit_ns)
{
    uint64_t deadline_ns = bl_now_ns() + limit_ns;
    while (!client->closed && read_more(client, deadline_ns))
        continue;
    return client->closed;
}

uint64_t wire_ask_create(struct wire_client *client, const char *session, const char *cell,
                         const char *source)
{
    return wire_ask(client, "create_cell",
                    "{'session_id':'%s','cell_id':'%s','source':'%s','tools':["
                    "{'name':'count','description':'','input':'object','input_schema':null},"
                    "{'name':'say','description':'','input':'text','input_schema':null}],"
                    "'limits':{}}",
                    session, cell, source);
}

const char *wire_create(struct wire_client *client, const char *session, const char *cell,
                        const char *source)
{
    return wire_reply(client, wire_ask_create(client, session, cell, source));
}

const char *wire_ok(struct wire_client *client, const char *reply)
{
    const char *ok = strstr(reply, ",\"ok\":");
    if (ok == NULL)
        return "";
    ok += strlen(",\"ok\":");
    return bl_arena_text(&client->arena, (struct bl_text){ok, strlen(ok) - 1}).data;
}

const char *wire_field(const char *json, const char *name)
{
    static char value[256];
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *from = strstr(json, key);
    value[0] = '\0';
    if (from == NULL)
        return value;
    from += strlen(key);
    bool text = from[0] == '"';
    from += text;
    size_t size = strcspn(from, text ? "\"" : ",}");
    snprintf(value, sizeof value, "%.*s", (int)size, from);
    return value;
}

bool wire_has(const char *text, const char *part)
{
    char wanted[512];
    bl_text_into(wanted, sizeof wanted, part);
    for (char *at = wanted; (at = strchr(at, '\'')) != NULL;)
        *at = '"';
    return strstr(text, wanted) != NULL;
}

bool wire_check_has(const char *text, const char *part, const char *file, int line)
{
    bool has = wire_has(text, part);
    if (!has)
        fprintf(stderr, "%s:%d: %.400s\n    has not: %s\n", file, line, text, part);
    return check_that(has, part, file, line);
}
