#include "rig.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_NS    (20 * BL_NS_PER_S)
#define READ_BYTES ((size_t)2048)
#define TEXT_MAX   ((size_t)64 * 1024 * 1024)

extern char **environ;

/* ---- Frames ---- */

/* The worker has no tables: this checks its frames against the host's table. */
static void check_frame(const struct bl_json *json)
{
    struct cell_worker_frame frame;
    struct bl_record_fault fault;
    char text[320];
    BL_AUTO_ARENA(arena);
    if (!CHECK_EQUAL(bl_record_view(&arena, &cell_worker_frame_record, json, &frame, &fault), 0)) {
        bl_record_fault_text(&fault, text, sizeof text);
        fprintf(stderr, "%s\n", text);
        return;
    }
    struct bl_text found = bl_json_value_text(&arena, json);
    struct bl_text described = bl_record_text(&arena, &cell_worker_frame_record, &frame);
    if (!CHECK(bl_text_equal(found, described)))
        fprintf(stderr, "found %.300s, but the table writes %.300s\n", found.data, described.data);
}

static const struct bl_json_limits limits = {
    .size_max = WORKER_FRAME_MAX, .string_max = WORKER_FRAME_MAX, .refuse_duplicates = true};

static int take_frame(void *context, struct bl_text bytes)
{
    struct rig *rig = context;
    struct rig_frame *frame = bl_arena_zalloc(&rig->arena, sizeof *frame);
    struct bl_json_fault fault;
    char text[200];
    if (bl_json_read(&rig->arena, bytes, &limits, &frame->json, &fault) != 0) {
        frame->json = NULL;
        bl_json_fault_text(&fault, text, sizeof text);
        CHECK(!"a frame is JSON");
        fprintf(stderr, "%s\n", text);
    } else {
        check_frame(frame->json);
    }
    if (rig->last != NULL)
        rig->last->next = frame;
    else
        rig->first = frame;
    rig->last = frame;
    return 0;
}

static void read_more(struct rig *rig)
{
    char data[READ_BYTES];
    struct bl_scope scope, *outer;
    size_t size = 0;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_time_add(bl_now_ns(), WAIT_NS));
    outer = bl_scope_enter(&scope);
    int code = bl_descriptor_read(rig->descriptor, data, sizeof data, &size);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    rig->ended = code != 0 || size == 0;
    if (!rig->ended)
        CHECK_EQUAL(bl_frames_feed(&rig->frames, (struct bl_text){data, size}, take_frame, rig), 0);
}

const struct bl_json *rig_next(struct rig *rig)
{
    while (rig->first == NULL && !rig->ended)
        read_more(rig);
    struct rig_frame *frame = rig->first;
    if (frame == NULL)
        return NULL;
    rig->first = frame->next;
    if (rig->first == NULL)
        rig->last = NULL;
    return frame->json;
}

static bool is_type(const struct bl_json *frame, const char *type)
{
    return bl_text_equal(bl_json_text(bl_json_get(frame, BL_TEXT("type"))), bl_text_from(type));
}

const struct bl_json *rig_expect(struct rig *rig, const char *type)
{
    const struct bl_json *frame = rig_next(rig);
    struct bl_text found = bl_json_text(bl_json_get(frame, BL_TEXT("type")));
    if (!CHECK(frame != NULL && is_type(frame, type)))
        fprintf(stderr, "expected %s, found %.*s\n", type, (int)found.size, found.data);
    return frame;
}

void rig_send(struct rig *rig, const char *json)
{
    uint8_t head[BL_FRAME_HEAD_SIZE];
    bl_frame_head(head, (uint32_t)strlen(json));
    bl_descriptor_write(rig->descriptor, head, sizeof head, NULL);
    bl_descriptor_write(rig->descriptor, json, strlen(json), NULL);
}

/* ---- A worker ---- */

bool rig_start_with(struct rig *rig, const char *variable)
{
    const char *const arguments[] = {getenv("BELAY_CELL_WORKER"), NULL};
    const char *environment[256];
    struct bl_warden_options options = {
        .arguments = arguments, .output = -1, .error = -1, .container = BL_MECHANISM_SUBREAPER};
    struct bl_error error = {0};
    size_t count = 0;
    int ends[2];
    *rig = (struct rig){.fd = -1};
    bl_arena_init(&rig->arena);
    bl_frames_init(&rig->frames, WORKER_FRAME_MAX);
    for (; environ[count] != NULL && count < BL_COUNT(environment) - 2; count++)
        environment[count] = environ[count];
    if (variable != NULL)
        environment[count++] = variable;
    environment[count] = NULL;
    options.environment = environment;
    if (!CHECK(arguments[0] != NULL) ||
        !CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0))
        return false;
    options.input = ends[1];
    rig->fd = ends[0];
    int code = bl_warden_start(&options, &rig->warden, &error);
    close(ends[1]);
    if (!CHECK_EQUAL(code, 0) || !CHECK_EQUAL(bl_descriptor_new(rig->fd, &rig->descriptor), 0))
        return false;
    return rig_expect(rig, "ready") != NULL;
}

bool rig_start(struct rig *rig)
{
    return rig_start_with(rig, NULL);
}

void rig_done(struct rig *rig)
{
    bl_warden_free(rig->warden);
    bl_descriptor_free(rig->descriptor);
    if (rig->fd >= 0)
        close(rig->fd);
    bl_frames_done(&rig->frames);
    bl_arena_done(&rig->arena);
}

void rig_give(struct rig *rig, const struct rig_cell *cell)
{
    struct bl_buffer text;
    struct bl_json_writer writer;
    const struct bl_json *start;
    bl_buffer_init(&text, TEXT_MAX);
    bl_json_writer_init(&writer, &text);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "type", "start");
    bl_json_put_text(&writer, "source",
                     cell->source != NULL ? bl_text_from(cell->source) : cell->bytes);
    bl_json_put_json(&writer, "tools", bl_text_from(cell->tools != NULL ? cell->tools : "[]"));
    bl_json_put_json(&writer, "values", bl_text_from(cell->values != NULL ? cell->values : "{}"));
    bl_json_put_uint64(&writer, "memory_bytes",
                       cell->memory_bytes != 0 ? cell->memory_bytes : RIG_MEMORY);
    bl_json_put_uint64(&writer, "output_bytes",
                       cell->output_bytes != 0 ? cell->output_bytes : RIG_OUTPUT);
    bl_json_put_boolean(&writer, "notify", !cell->no_notify);
    bl_json_write_end(&writer);
    CHECK_EQUAL(bl_json_writer_done(&writer), 0);
    CHECK_EQUAL(bl_json_read(&rig->arena, bl_buffer_text(&text), &limits, &start, NULL), 0);
    check_frame(start);
    bl_buffer_append_byte(&text, '\0');
    rig_send(rig, text.data);
    bl_buffer_done(&text);
}

void rig_end(struct rig *rig, struct bl_warden_end *ret_end)
{
    *ret_end = (struct bl_warden_end){0};
    if (rig->warden != NULL)
        CHECK_EQUAL(bl_warden_wait(rig->warden, ret_end), 0);
}

uint64_t rig_status(const struct rig *rig, const char *name)
{
    char path[64], data[4096], key[32];
    snprintf(path, sizeof path, "/proc/%d/status", (int)bl_warden_pid(rig->warden));
    snprintf(key, sizeof key, "\n%s:", name);
    struct bl_text status = bl_file_read(AT_FDCWD, path, data, sizeof data - 1);
    data[status.size] = '\0';
    const char *found = strstr(data, key);
    return found != NULL ? strtoull(found + strlen(key), NULL, 10) : 0;
}

/* ---- A whole cell ---- */

static void take_item(struct rig_run *run, const struct bl_json *item)
{
    run->items++;
    if (is_type(item, "text")) {
        bl_buffer_append(&run->text, bl_json_text(bl_json_get(item, BL_TEXT("text"))));
    } else {
        struct bl_text url = bl_json_text(bl_json_get(item, BL_TEXT("image_url")));
        struct bl_text detail = bl_json_text(bl_json_get(item, BL_TEXT("detail")));
        bl_buffer_printf(&run->text, "[%.*s %.*s]", (int)url.size, url.data, (int)detail.size,
                         detail.data);
    }
    bl_buffer_append_byte(&run->text, '\n');
}

void rig_run(struct rig_run *run, const struct rig_cell *cell)
{
    struct rig rig;
    const struct bl_json *frame;
    *run = (struct rig_run){0};
    bl_arena_init(&run->arena);
    bl_buffer_init(&run->text, TEXT_MAX);
    if (rig_start(&rig)) {
        rig_give(&rig, cell);
        while ((frame = rig_next(&rig)) != NULL) {
            if (is_type(frame, "item"))
                take_item(run, bl_json_get(frame, BL_TEXT("item")));
            else if (is_type(frame, "settled"))
                run->settled = frame;
            run->yields += is_type(frame, "yield");
            run->calls += is_type(frame, "call");
            if (is_type(frame, "idle") &&
                bl_json_boolean(bl_json_get(frame, BL_TEXT("stalled")), false))
                break;
        }
        if (rig.ended)
            rig_end(&rig, &run->end);
    }
    /* The frames stay valid. */
    run->arena = rig.arena;
    bl_arena_init(&rig.arena);
    rig_done(&rig);
    bl_buffer_append_byte(&run->text, '\0');
}

void rig_run_done(struct rig_run *run)
{
    bl_buffer_done(&run->text);
    bl_arena_done(&run->arena);
}

struct bl_text rig_error(const struct rig_run *run, const char *member)
{
    return bl_json_text(
        bl_json_get(bl_json_get(run->settled, BL_TEXT("error")), bl_text_from(member)));
}

static void show(const struct rig_run *run, const char *source)
{
    struct bl_text name = rig_error(run, "name"), message = rig_error(run, "message");
    fprintf(stderr, "source: %.300s\nwrote: %.300s\n%s, exit %d, error %.*s: %.*s\n", source,
            run->text.data, run->settled != NULL ? "settled" : "not settled", run->end.status,
            (int)name.size, name.data, (int)message.size, message.data);
}

bool rig_cell_says(const struct rig_cell *cell, const char *expected)
{
    struct rig_run run;
    rig_run(&run, cell);
    bool same = run.settled != NULL && strcmp(run.text.data, expected) == 0 &&
                bl_json_is(bl_json_get(run.settled, BL_TEXT("error")), BL_JSON_NULL);
    if (!same)
        show(&run, cell->source);
    rig_run_done(&run);
    return same;
}

bool rig_says(const char *source, const char *expected)
{
    struct rig_cell cell = {.source = source};
    return rig_cell_says(&cell, expected);
}

bool rig_fails(const char *source, const char *kind, const char *name, const char *message)
{
    struct rig_cell cell = {.source = source};
    struct rig_run run;
    rig_run(&run, &cell);
    bool same =
        run.settled != NULL &&
        (kind == NULL || bl_text_equal(rig_error(&run, "kind"), bl_text_from(kind))) &&
        (name == NULL || bl_text_equal(rig_error(&run, "name"), bl_text_from(name))) &&
        (message == NULL || bl_text_equal(rig_error(&run, "message"), bl_text_from(message)));
    if (!same)
        show(&run, source);
    rig_run_done(&run);
    return same;
}
