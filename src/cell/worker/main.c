/* Runs one cell: starts the engine, gives up privileges, waits for the source, runs it, and exits.
 * protocol.h describes the frames that it receives and sends. */
#include <signal.h>
#include <unistd.h>

#include "parts.h"

/* The values last reported to the host. */
static unsigned idle_timers;
static bool idle_stalled;

static JSObjectRef worker_main_receive(int timeout_ms)
{
    const char *text = host_receive(timeout_ms);
    if (text == NULL)
        return NULL;
    JSObjectRef frame = engine_parse_object(text);
    if (frame == NULL)
        _exit(memory_short() ? WORKER_EXIT_MEMORY : WORKER_EXIT_PROTOCOL);
    return frame;
}

static bool has_type(JSObjectRef frame, const char *type)
{
    JSStringRef text = engine_get_text(frame, "type");
    bool same = text != NULL && JSStringIsEqualToUTF8CString(text, type);
    if (text != NULL)
        JSStringRelease(text);
    return same;
}

static JSObjectRef get_object(JSObjectRef frame, const char *name)
{
    JSValueRef value = engine_get(frame, name, NULL);
    return value != NULL && JSValueIsObject(engine, value) ? JSValueToObject(engine, value, NULL)
                                                           : NULL;
}

/* Starts the cell and runs it until it must wait. */
static void worker_main_start(JSObjectRef frame)
{
    double memory, output;
    JSStringRef source = engine_get_text(frame, "source");
    JSObjectRef tools = get_object(frame, "tools"), values = get_object(frame, "values");
    JSValueRef notify = engine_get(frame, "notify", NULL);
    JSValueProtect(engine, frame);
    if (!has_type(frame, "start") || source == NULL || tools == NULL || values == NULL ||
        !engine_get_number(frame, "memory_bytes", &memory) || !(memory > 0) ||
        !engine_get_number(frame, "output_bytes", &output) || !(output > 0) ||
        !values_take(values) || !tools_install(tools))
        _exit(WORKER_EXIT_PROTOCOL);
    globals_begin((uint64_t)output, notify != NULL && JSValueToBoolean(engine, notify));
    JSValueUnprotect(engine, frame);
    memory_limit((uint64_t)memory);
    module_run(source);
    JSStringRelease(source);
}

static void say_idle(void)
{
    unsigned timers = timers_count();
    bool stalled = timers == 0 && !tools_pending();
    struct bytes frame = {0};
    if (timers == idle_timers && stalled == idle_stalled)
        return;
    idle_timers = timers;
    idle_stalled = stalled;
    bytes_add_string(&frame, "{\"type\":\"idle\",\"timers\":");
    bytes_add_number(&frame, timers);
    bytes_add_string(&frame, stalled ? ",\"stalled\":true}" : ",\"stalled\":false}");
    host_send(&frame);
    bytes_done(&frame);
}

static void worker_main_take_frame(JSObjectRef frame)
{
    if (has_type(frame, "result")) {
        if (!tools_result(frame))
            _exit(WORKER_EXIT_PROTOCOL);
    } else if (has_type(frame, "notified")) {
        globals_notified();
    } else {
        _exit(WORKER_EXIT_PROTOCOL);
    }
}

static _Noreturn void live(void)
{
    for (;;) {
        JSValueRef thrown = NULL;
        module_end_if_settled();
        say_idle();
        JSObjectRef frame = worker_main_receive(timers_wait_ms());
        if (frame != NULL)
            worker_main_take_frame(frame);
        module_end_if_settled();
        if (!timers_run(&thrown))
            module_settle(thrown);
    }
}

int main(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, usual = {.sa_handler = SIG_DFL};
    sigset_t none;
    sigemptyset(&none);
    sigaction(SIGPIPE, &ignore, NULL);
    /* Override inherited settings: SIGTERM must end the worker at once. */
    sigaction(SIGTERM, &usual, NULL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!engine_start())
        return WORKER_EXIT_LOCKDOWN;
    globals_install();
    int kept = memory_prepare();
    if (kept < 0 || lockdown_apply(kept) < 0)
        return WORKER_EXIT_LOCKDOWN;
    host_send_string("{\"type\":\"ready\"}");
    worker_main_start(worker_main_receive(-1));
    live();
}
