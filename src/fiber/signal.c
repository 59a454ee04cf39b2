#include <assert.h>
#include <time.h>

#include "parts.h"

struct bl_signal {
    uv_signal_t handle;
    uint64_t count; /* since the last wait */
    struct bl_list waiting;
};

static void signal_came(uv_signal_t *handle, int number)
{
    struct bl_signal *signal = handle->data;
    (void)number;
    signal->count++;
    struct bl_fiber *fiber;
    while ((fiber = fiber_first(&signal->waiting)) != NULL)
        fiber_wake(fiber, 0);
}

static void signal_free_closed(uv_handle_t *handle)
{
    bl_free(handle->data);
}

#if defined(__SANITIZE_THREAD__)
/* The thread sanitizer sets up its queue of signals in the first call of a thread that may block,
 * and loses a signal that arrives meanwhile. */
static void signal_prepare(void)
{
    nanosleep(&(struct timespec){0}, NULL);
}
#else
static void signal_prepare(void) {}
#endif

int bl_signal_new(int number, struct bl_signal **ret_signal)
{
    struct bl_signal *signal = bl_zalloc(sizeof *signal);
    signal->handle.data = signal;
    bl_list_init(&signal->waiting);
    int status = uv_signal_init(&loop_current->uv, &signal->handle);
    if (status < 0) {
        bl_free(signal);
        return bl_error_from_errno(status);
    }
    signal_prepare();
    status = uv_signal_start(&signal->handle, signal_came, number);
    if (status < 0) {
        uv_close((uv_handle_t *)&signal->handle, signal_free_closed);
        return bl_error_from_errno(status);
    }
    *ret_signal = signal;
    return 0;
}

void bl_signal_free(struct bl_signal *signal)
{
    if (signal == NULL)
        return;
    assert(bl_list_empty(&signal->waiting));
    uv_close((uv_handle_t *)&signal->handle, signal_free_closed);
}

int bl_signal_wait(struct bl_signal *signal, uint64_t *ret_count)
{
    int code = scope_code(bl_scope_current());
    while (code == 0 && signal->count == 0)
        code = fiber_wait_external(&signal->waiting, "a signal", WAIT_STOPPABLE);
    if (code != 0)
        return code;
    if (ret_count != NULL)
        *ret_count = signal->count;
    signal->count = 0;
    return 0;
}
