/* Design notes.
 *
 * The cell's source runs as the body of an async function that calls one of two native functions at
 * its end (see prelude.js). From then on the cell has settled: its output and calls are ignored.
 *
 * The process does not exit at once: when no job is left, the engine reports rejections that were
 * not handled, and these are sent last. A job that never ends must not delay that, so a timer
 * interrupts it: the signal handler writes the last frames from data that no longer changes. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "parts.h"

#define LAST_JOBS_US   10000
#define REJECTIONS_MAX 16u

/* Exported, but not declared in any installed header. */
extern void JSGlobalContextSetUnhandledRejectionCallback(JSGlobalContextRef context,
                                                         JSObjectRef function,
                                                         JSValueRef *exception);

static volatile sig_atomic_t settled;
static struct bytes settled_error; /* JSON */
static bool with_values;
static struct place place;
static struct bytes rejections[REJECTIONS_MAX]; /* frames */
static volatile sig_atomic_t rejection_count;

/* ---- The end --------------------------------------------------------------------------------- */

/* Safe in a signal handler: its data no longer changes. */
static _Noreturn void module_end(void)
{
    static const char head[] = "{\"type\":\"settled\",\"error\":";
    static const char no_values[] = "\"values\":{},\"deleted\":[]";
    for (int i = 0; i < rejection_count; i++)
        host_send(&rejections[i]);
    host_write_head(sizeof head - 1 + settled_error.size + 1 +
                    (with_values ? values_written_size() : sizeof no_values - 1) + 1);
    host_write(head, sizeof head - 1);
    host_write(settled_error.data, settled_error.size);
    host_write(",", 1);
    if (with_values)
        values_write();
    else
        host_write(no_values, sizeof no_values - 1);
    host_write("}", 1);
    _exit(WORKER_EXIT_SETTLED);
}

static void end_late(int number)
{
    (void)number;
    module_end();
}

static void set_last_jobs_us(long limit_us)
{
    const struct itimerval once = {{0, 0}, {0, limit_us}};
    setitimer(ITIMER_REAL, &once, NULL);
}

bool module_settled(void)
{
    return settled != 0;
}

void module_settle_fault(const struct fault *fault)
{
    if (settled)
        return;
    if (fault == NULL) {
        bytes_add_string(&settled_error, "null");
    } else {
        bytes_add_string(&settled_error, "{\"kind\":\"");
        bytes_add_string(&settled_error, fault->kind);
        bytes_add_string(&settled_error, "\",\"name\":");
        bytes_add_quoted_utf8(&settled_error, fault->name.data, fault->name.size);
        bytes_add_string(&settled_error, ",\"message\":");
        bytes_add_quoted_utf8(&settled_error, fault->message.data, fault->message.size);
        bytes_add_string(&settled_error, ",\"stack\":");
        bytes_add_quoted_utf8(&settled_error, fault->stack.data, fault->stack.size);
        bytes_add_string(&settled_error, "}");
    }
    /* A cell that reached a limit stores nothing. */
    with_values = fault == NULL || strcmp(fault->kind, "exception") == 0;
    settled = 1;
    set_last_jobs_us(LAST_JOBS_US);
}

void module_settle(JSValueRef thrown)
{
    struct fault fault;
    if (settled)
        return;
    if (thrown == NULL) {
        module_settle_fault(NULL);
        return;
    }
    engine_describe(thrown, &place, &fault);
    module_settle_fault(&fault);
    fault_done(&fault);
}

void module_end_if_settled(void)
{
    if (!settled)
        return;
    set_last_jobs_us(0);
    module_end();
}

void module_exit(void)
{
    module_settle_fault(NULL);
    set_last_jobs_us(0);
    module_end();
}

/* ---- What the engine calls ------------------------------------------------------------------- */

static NATIVE(failed)
{
    (void)function;
    (void)this_object;
    (void)exception;
    module_settle(count > 0 ? arguments[0] : JSValueMakeUndefined(context));
    return JSValueMakeUndefined(context);
}

static NATIVE(ended)
{
    (void)function;
    (void)this_object;
    (void)count;
    (void)arguments;
    (void)exception;
    module_settle(NULL);
    return JSValueMakeUndefined(context);
}

/* Called with (promise, reason). */
static NATIVE(rejected)
{
    (void)function;
    (void)this_object;
    (void)exception;
    struct fault fault;
    struct bytes text = {0}, frame = {0};
    if (count < 2 || rejection_count == REJECTIONS_MAX)
        return JSValueMakeUndefined(context);
    engine_describe(arguments[1], &place, &fault);
    bytes_add_string(&text, "Unhandled rejection: ");
    bytes_add(&text, fault.name.data, fault.name.size);
    bytes_add_string(&text, ": ");
    bytes_add(&text, fault.message.data, fault.message.size);
    bytes_add_string(&text, fault.stack.size > 0 ? "\n" : "");
    bytes_add(&text, fault.stack.data, fault.stack.size);
    bytes_add_string(&frame, "{\"type\":\"item\",\"item\":{\"type\":\"text\",\"text\":");
    bytes_add_quoted_utf8(&frame, text.data, text.size);
    bytes_add_string(&frame, "}}");
    rejections[rejection_count] = frame;
    rejection_count++;
    bytes_done(&text);
    fault_done(&fault);
    return JSValueMakeUndefined(context);
}

/* ---- The beginning --------------------------------------------------------------------------- */

/* Settles with the error that prelude.js found in the source. */
static void settle_refused(JSObjectRef error)
{
    struct fault fault = {.kind = "syntax"};
    struct bytes *const parts[] = {&fault.name, &fault.message, &fault.stack};
    static const char *const names[] = {"name", "message", "stack"};
    JSStringRef kind = engine_get_text(error, "kind");
    if (kind != NULL && JSStringIsEqualToUTF8CString(kind, "import"))
        fault.kind = "import";
    if (kind != NULL)
        JSStringRelease(kind);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        JSStringRef text = engine_get_text(error, names[i]);
        if (text == NULL)
            continue;
        bytes_add_text(parts[i], text, WORKER_ERROR_TEXT_MAX + 4);
        bytes_cut(parts[i], WORKER_ERROR_TEXT_MAX);
        JSStringRelease(text);
    }
    module_settle_fault(&fault);
    fault_done(&fault);
}

/* Returns the text to run, or NULL if the cell has settled instead. */
static JSStringRef module_compile(JSStringRef source)
{
    JSValueRef thrown = NULL, argument = JSValueMakeString(engine, source);
    JSValueRef result =
        JSObjectCallAsFunction(engine, prelude.compile, NULL, 1, &argument, &thrown);
    double columns = 0, lines = 0;
    if (result == NULL) {
        module_settle(thrown);
        return NULL;
    }
    JSObjectRef made = JSValueToObject(engine, result, NULL);
    JSValueRef error = engine_get(made, "error", NULL);
    if (error != NULL && JSValueIsObject(engine, error)) {
        settle_refused(JSValueToObject(engine, error, NULL));
        return NULL;
    }
    engine_get_number(made, "indent", &columns);
    engine_get_number(made, "lines", &lines);
    JSValueRef shown = engine_get(made, "callIsShown", NULL);
    place = (struct place){(size_t)columns, (size_t)lines,
                           shown != NULL && JSValueToBoolean(engine, shown)};
    return engine_get_text(made, "text");
}

void module_run(JSStringRef source)
{
    struct sigaction late = {.sa_handler = end_late};
    JSValueRef thrown = NULL;
    sigaction(SIGALRM, &late, NULL);
    JSStringRef name = engine_string("rejected"), url = engine_string("cell.mjs");
    JSGlobalContextSetUnhandledRejectionCallback(
        engine, JSObjectMakeFunctionWithCallback(engine, name, rejected), NULL);
    JSStringRef text = module_compile(source);
    if (text != NULL) {
        JSValueRef body = JSEvaluateScript(engine, text, NULL, url, 1, &thrown);
        JSValueRef arguments[] = {JSObjectMakeFunctionWithCallback(engine, name, failed),
                                  JSObjectMakeFunctionWithCallback(engine, name, ended),
                                  prelude.import_module};
        if (body != NULL)
            JSObjectCallAsFunction(engine, JSValueToObject(engine, body, NULL), NULL, 3, arguments,
                                   &thrown);
        if (thrown != NULL)
            module_settle(thrown);
        JSStringRelease(text);
    }
    JSStringRelease(name);
    JSStringRelease(url);
}
