/* What a worker sends, as the host takes it: any bytes at all end in output, in calls, or in the
 * loss of that worker, and in nothing else. They stand right before an unmapped page. */
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cell/host/host.h"
#include "cell/worker/protocol.h"
#include "guard_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t size;
    size_t step; /* bytes that come at once */
};

static void take_notify(void *context, const char *cell_id, uint64_t seq, struct bl_text text)
{
    (void)context, (void)cell_id, (void)seq, (void)text;
}

static void feed(struct cell *cell, const struct input *input)
{
    struct bl_frames frames;
    int code = 0;

    bl_frames_init(&frames, WORKER_FRAME_MAX);
    for (size_t at = 0; code == 0 && at < input->size; at += input->step) {
        size_t size = input->size - at < input->step ? input->size - at : input->step;
        code = bl_frames_feed(&frames, (struct bl_text){(const char *)input->data + at, size},
                              cell_take_frame, cell);
        bl_yield();
    }
    if (code == BL_ECLOSED && cell->ending == CELL_NOT_ENDED)
        __builtin_trap();
    if (cell->output_total > cell->output_bytes)
        __builtin_trap();
    bl_frames_done(&frames);
}

/* A host and a session with nothing behind them but one cell that runs. */
static int input_main(void *argument)
{
    static const struct bl_cell_tool tools[] = {{.name = {"echo", 4}},
                                                {.name = {"say", 3}, .takes_text = true}};
    struct bl_cell_host *host = bl_zalloc(sizeof *host);
    struct bl_cell_session *session = bl_zalloc(sizeof *session);
    struct cell_worker *worker = bl_zalloc(sizeof *worker);
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 ||
        bl_descriptor_new(ends[0], &worker->descriptor) != 0)
        __builtin_trap();
    bl_lock_init(&worker->writing);
    session->host = host;
    session->port.notify = take_notify;
    bl_map_init(&session->cells);
    bl_list_init(&session->list);
    struct cell *cell = cell_new(session, "c-1");
    cell->state = CELL_RUNNING;
    cell->worker = worker;
    cell->tools = tools;
    cell->tool_count = BL_COUNT(tools);
    cell->output_bytes = 4096;
    bl_scope_init(&cell->scope, bl_scope_current());
    bl_nursery_init(&cell->calls, &cell->scope);
    feed(cell, argument);
    bl_nursery_done(&cell->calls);
    bl_scope_done(&cell->scope);
    cell_free(cell);
    bl_map_done(&session->cells);
    bl_descriptor_free(worker->descriptor);
    close(ends[0]);
    close(ends[1]);
    bl_free(worker);
    bl_free(session);
    bl_free(host);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct guard_page guard;
    static struct bl_loop *loop;

    if (size < 2)
        return 0;
    struct bl_text bytes =
        guard_page_before(&guard, (struct bl_text){(const char *)data + 1, size - 1});
    struct input input = {(const uint8_t *)bytes.data, bytes.size, (size_t)data[0] * 16 + 1};
    if (loop == NULL && bl_loop_new(NULL, &loop, NULL) != 0)
        __builtin_trap();
    bl_loop_run(loop, "fuzz", input_main, &input);
    return 0;
}
