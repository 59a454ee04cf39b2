/* Starts the engine, and wraps its API. */
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "parts.h"
#include "prelude.h"

#define MESSAGE_MAX       512
#define PRELUDE_URL       "belay:prelude"
#define CELL_URL          "cell.mjs"
#define THREAD_STACK_SIZE ((size_t)256 * 1024)
/* More than the engine uses (maxPerThreadStackUsage and its reserve). */
#define MAIN_STACK_SIZE ((size_t)3 * 1024 * 1024)
/* Messages of the engine. */
#define OUT_OF_MEMORY  "Out of memory"
#define IMPORT_FAILED  "Could not import the module '"
#define IMPORT_REFUSED "Unsupported import in exec: "

JSGlobalContextRef engine;
struct prelude prelude;

/* ---- Helpers --------------------------------------------------------------------------------- */

JSStringRef engine_string(const char *utf8)
{
    return JSStringCreateWithUTF8CString(utf8);
}

JSValueRef engine_get(JSObjectRef object, const char *name, JSValueRef *exception)
{
    JSValueRef thrown = NULL;
    JSStringRef key = engine_string(name);
    JSValueRef value = JSObjectGetProperty(engine, object, key, &thrown);
    JSStringRelease(key);
    if (thrown == NULL)
        return value;
    if (exception != NULL)
        *exception = thrown;
    return NULL;
}

void engine_define(JSObjectRef object, const char *name, JSValueRef value)
{
    JSStringRef key = engine_string(name);
    JSObjectSetProperty(engine, object, key, value,
                        kJSPropertyAttributeReadOnly | kJSPropertyAttributeDontDelete |
                            kJSPropertyAttributeDontEnum,
                        NULL);
    JSStringRelease(key);
}

void engine_freeze(JSObjectRef object)
{
    JSValueRef argument = object;
    JSObjectCallAsFunction(engine, prelude.freeze, NULL, 1, &argument, NULL);
}

JSObjectRef engine_function(const char *name, JSObjectCallAsFunctionCallback callback)
{
    JSStringRef key = engine_string(name);
    JSObjectRef function = JSObjectMakeFunctionWithCallback(engine, key, callback);
    JSStringRelease(key);
    engine_freeze(function);
    return function;
}

JSObjectRef engine_parse_object(const char *json)
{
    JSStringRef text = engine_string(json);
    JSValueRef value = JSValueMakeFromJSONString(engine, text);
    JSStringRelease(text);
    if (value == NULL || !JSValueIsObject(engine, value))
        return NULL;
    JSObjectRef object = JSValueToObject(engine, value, NULL);
    /* Without a prototype, properties that cell code adds to Object.prototype are not found in
     * it. */
    JSObjectSetPrototype(engine, object, JSValueMakeNull(engine));
    return object;
}

JSStringRef engine_get_text(JSObjectRef object, const char *name)
{
    JSValueRef value = engine_get(object, name, NULL);
    if (value == NULL || !JSValueIsString(engine, value))
        return NULL;
    return JSValueToStringCopy(engine, value, NULL);
}

bool engine_get_number(JSObjectRef object, const char *name, double *ret_number)
{
    JSValueRef value = engine_get(object, name, NULL);
    if (value == NULL || !JSValueIsNumber(engine, value))
        return false;
    *ret_number = JSValueToNumber(engine, value, NULL);
    return true;
}

JSValueRef engine_error(JSObjectRef kind, const char *message)
{
    JSValueRef thrown = NULL;
    JSStringRef text = engine_string(message);
    JSValueRef argument = JSValueMakeString(engine, text);
    JSStringRelease(text);
    JSValueRef error = JSObjectCallAsFunction(engine, kind, NULL, 1, &argument, &thrown);
    return error != NULL ? error : thrown;
}

JSValueRef engine_throw(JSValueRef *exception, JSObjectRef kind, const char *format, ...)
{
    char message[MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    *exception = engine_error(kind, message);
    return JSValueMakeUndefined(engine);
}

JSStringRef engine_to_string(JSValueRef value, JSValueRef *exception)
{
    JSValueRef thrown = NULL;
    JSValueRef text = JSObjectCallAsFunction(engine, prelude.string, NULL, 1, &value, &thrown);
    if (text != NULL)
        return JSValueToStringCopy(engine, text, exception);
    if (exception != NULL)
        *exception = thrown;
    return NULL;
}

JSStringRef engine_to_text(JSValueRef value, JSValueRef *exception)
{
    JSValueRef thrown = NULL;
    if (!JSValueIsObject(engine, value))
        return engine_to_string(value, exception);
    JSStringRef json = JSValueCreateJSONString(engine, value, 0, &thrown);
    if (thrown != NULL) {
        *exception = thrown;
        if (json != NULL)
            JSStringRelease(json);
        return NULL;
    }
    return json != NULL ? json : engine_string("undefined");
}

/* ---- Errors ---------------------------------------------------------------------------------- */

void fault_done(struct fault *fault)
{
    bytes_done(&fault->name);
    bytes_done(&fault->message);
    bytes_done(&fault->stack);
}

static bool equals(const struct bytes *bytes, const char *text)
{
    return bytes->size == strlen(text) && memcmp(bytes->data, text, bytes->size) == 0;
}

/* Adds a property as text. Adds nothing if it is undefined or reading it throws. */
static void worker_engine_read_text(JSObjectRef object, const char *name, size_t size_max,
                                    struct bytes *out)
{
    JSValueRef value = engine_get(object, name, NULL);
    if (value == NULL || JSValueIsUndefined(engine, value))
        return;
    JSStringRef text = engine_to_string(value, NULL);
    if (text == NULL)
        return;
    bytes_add_text(out, text, size_max + 4);
    bytes_cut(out, size_max);
    JSStringRelease(text);
}

/* One line of the engine's stack, such as "f@cell.mjs:3:7". */
struct frame {
    const char *name;
    size_t name_size;
    size_t row, column;
};

static size_t worker_engine_read_number(const char **text, const char *end)
{
    size_t number = 0;
    for (; *text < end && **text >= '0' && **text <= '9'; (*text)++)
        number = number * 10 + (size_t)(**text - '0');
    return number;
}

/* Returns false for a native function, the prelude, or code without a position. */
static bool worker_engine_read_frame(const char *line, size_t size, struct frame *ret_frame)
{
    static const char url[] = CELL_URL ":";
    const char *end = line + size, *at = end;
    /* A name may contain an @; the position follows the last one. */
    while (at > line && at[-1] != '@')
        at--;
    if (at == line || (size_t)(end - at) < sizeof url || memcmp(at, url, sizeof url - 1) != 0)
        return false;
    ret_frame->name = line;
    ret_frame->name_size = (size_t)(at - 1 - line);
    at += sizeof url - 1;
    ret_frame->row = worker_engine_read_number(&at, end);
    at++;
    ret_frame->column = worker_engine_read_number(&at, end);
    return true;
}

static void add_frame(struct bytes *out, const struct frame *frame)
{
    char place[64];
    snprintf(place, sizeof place, CELL_URL ":%zu:%zu", frame->row, frame->column);
    bytes_add_string(out, out->size > 0 ? "\nat " : "at ");
    bytes_add(out, frame->name, frame->name_size);
    bytes_add_string(out, frame->name_size > 0 ? " (" : "");
    bytes_add_string(out, place);
    bytes_add_string(out, frame->name_size > 0 ? ")" : "");
}

/* Writes each frame of the source as "at f (cell.mjs:3:7)". The outermost frames belong to the
 * wrapper and are left out: the call of the async function around the source, positioned after the
 * source's last line, and that function's own frame if the engine shows it. */
static void convert_stack(const struct bytes *raw, const struct place *place, struct bytes *out)
{
    size_t before_last = 0;
    for (size_t begin = 0; begin < raw->size && out->size < WORKER_ERROR_TEXT_MAX;) {
        struct frame frame;
        const char *line = raw->data + begin;
        const char *end = memchr(line, '\n', raw->size - begin);
        size_t size = end != NULL ? (size_t)(end - line) : raw->size - begin;
        begin += size + 1;
        if (!worker_engine_read_frame(line, size, &frame))
            continue;
        if (frame.row > place->lines) {
            out->size = place->call_is_shown ? before_last : out->size;
            break;
        }
        frame.column -= frame.row == 1 && frame.column > place->indent ? place->indent : 0;
        before_last = out->size;
        add_frame(out, &frame);
    }
    bytes_cut(out, WORKER_ERROR_TEXT_MAX);
}

/* In code that cell code makes at run time, import() fails with the engine's message; this replaces
 * it with ours. */
static void translate_import(struct bytes *message)
{
    struct bytes ours = {0};
    size_t prefix = strlen(IMPORT_FAILED);
    if (message->size < prefix + 2 || memcmp(message->data, IMPORT_FAILED, prefix) != 0)
        return;
    bytes_add_string(&ours, IMPORT_REFUSED);
    bytes_add(&ours, message->data + prefix, message->size - prefix - 2);
    bytes_done(message);
    *message = ours;
}

void engine_describe(JSValueRef thrown, const struct place *place, struct fault *ret_fault)
{
    struct bytes raw = {0};
    *ret_fault = (struct fault){.kind = "exception"};
    if (!JSValueIsInstanceOfConstructor(engine, thrown, prelude.error_type, NULL)) {
        JSStringRef text = engine_to_string(thrown, NULL);
        bytes_add_string(&ret_fault->name, "Error");
        if (text == NULL) {
            bytes_add_string(&ret_fault->message, "[unprintable value]");
            return;
        }
        bytes_add_text(&ret_fault->message, text, WORKER_ERROR_TEXT_MAX + 4);
        bytes_cut(&ret_fault->message, WORKER_ERROR_TEXT_MAX);
        JSStringRelease(text);
        return;
    }
    JSObjectRef error = JSValueToObject(engine, thrown, NULL);
    worker_engine_read_text(error, "name", 256, &ret_fault->name);
    if (ret_fault->name.size == 0)
        bytes_add_string(&ret_fault->name, "Error");
    worker_engine_read_text(error, "message", WORKER_ERROR_TEXT_MAX, &ret_fault->message);
    if (equals(&ret_fault->message, OUT_OF_MEMORY) &&
        JSValueIsInstanceOfConstructor(engine, thrown, prelude.range_error_type, NULL))
        ret_fault->kind = "memory_limit";
    translate_import(&ret_fault->message);
    worker_engine_read_text(error, "stack", 4 * WORKER_ERROR_TEXT_MAX, &raw);
    convert_stack(&raw, place, &ret_fault->stack);
    bytes_done(&raw);
}

/* ---- Start ----------------------------------------------------------------------------------- */

/* With the C library's malloc, the address space grows with the memory in use, and the engine's
 * allocator needs no thread. There are no threads for collection or compilation either: a worker is
 * one of many, on few processors. A small heap is collected early, so that garbage does not reach
 * the limit. Cells have no shared memory and no WebAssembly. Tail calls are ordinary calls, as in
 * other engines: they appear in stacks, and endless recursion throws an exception. */
static void set_options(void)
{
    static const char *const options[][2] = {
        {"Malloc", "1"},
        {"JSC_useConcurrentGC", "0"},
        {"JSC_numberOfGCMarkers", "1"},
        {"JSC_useConcurrentJIT", "0"},
        {"JSC_usePollingTraps", "1"},
        {"JSC_useFTLJIT", "0"},
        {"JSC_useWasm", "0"},
        {"JSC_useSharedArrayBuffer", "0"},
        {"JSC_useTailCalls", "0"},
        {"JSC_jitMemoryReservationSize", "33554432"},
        {"JSC_largeHeapSize", "4194304"},
        {"JSC_forceRAMSize", "12582912"},
        {"JSC_maxPerThreadStackUsage", "2097152"},
    };
    /* No options but these: removes all others from the environment. */
    for (char **variable = environ; *variable != NULL;) {
        char name[128];
        size_t size = strcspn(*variable, "=");
        if (strncmp(*variable, "JSC_", 4) != 0 || size >= sizeof name) {
            variable++;
            continue;
        }
        memcpy(name, *variable, size);
        name[size] = '\0';
        unsetenv(name); /* the next variable moves to this place */
    }
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        setenv(options[i][0], options[i][1], 1);
}

/* If a file defines the machine's time zone, the engine would read it at first use, when files can
 * no longer be opened. The environment names the zone instead. */
static void name_time_zone(void)
{
    char target[PATH_MAX];
    ssize_t size = readlink("/etc/localtime", target, sizeof target - 1);
    if (getenv("TZ") != NULL || size < 0)
        return;
    target[size] = '\0';
    const char *zone = strstr(target, "/zoneinfo/");
    if (zone != NULL)
        setenv("TZ", zone + strlen("/zoneinfo/"), 1);
}

/* The same for a file that is not a link: the engine can tell its zone. */
static void ask_time_zone(void)
{
    struct bytes zone = {0};
    if (getenv("TZ") != NULL || access("/etc/localtime", R_OK) < 0)
        return;
    JSStringRef script = engine_string("new Intl.DateTimeFormat().resolvedOptions().timeZone");
    JSValueRef value = JSEvaluateScript(engine, script, NULL, NULL, 1, NULL);
    JSStringRef name = value != NULL ? JSValueToStringCopy(engine, value, NULL) : NULL;
    JSStringRelease(script);
    if (name == NULL)
        return;
    bytes_add_text(&zone, name, 256);
    bytes_add(&zone, "", 1);
    setenv("TZ", zone.data, 1);
    bytes_done(&zone);
    JSStringRelease(name);
}

/* Newer engines follow changes of the time zone, with threads that watch a file and a connection to
 * the system's message bus that may open at any moment, even during the lockdown. A cell keeps the
 * time zone of its start, so this function replaces the engine's. */
void engine_ignore_time_zone_changes(void) __asm__(
    "_ZN3WTF36listenForTimeZoneChangeNotificationsEv");

void engine_ignore_time_zone_changes(void) {}

/* Grows the stack to its full size before the memory limit applies, so that deep recursion is an
 * exception and not a lack of memory. One byte far down makes the kernel extend it; a large
 * variable would make the compiler touch every page. */
static void grow_stack(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    *(volatile char *)(here - MAIN_STACK_SIZE) = 0;
}

/* Called by prelude.js: returns null, or the SyntaxError. */
static NATIVE(check_syntax)
{
    (void)function;
    (void)this_object;
    JSValueRef failure = NULL;
    JSStringRef script = count > 0 ? JSValueToStringCopy(context, arguments[0], exception) : NULL;
    if (script == NULL)
        return JSValueMakeNull(context);
    JSStringRef url = engine_string(CELL_URL);
    if (JSCheckScriptSyntax(context, script, url, 1, &failure) || failure == NULL)
        failure = JSValueMakeNull(context);
    JSStringRelease(script);
    JSStringRelease(url);
    return failure;
}

static bool take_function(JSObjectRef from, const char *name, JSObjectRef *ret_function)
{
    JSValueRef value = engine_get(from, name, NULL);
    if (value == NULL || !JSValueIsObject(engine, value))
        return false;
    JSValueProtect(engine, value);
    *ret_function = JSValueToObject(engine, value, NULL);
    return true;
}

static bool run_prelude(void)
{
    JSStringRef script = engine_string(prelude_source), url = engine_string(PRELUDE_URL);
    JSStringRef name = engine_string("checkSyntax");
    JSValueRef check = JSObjectMakeFunctionWithCallback(engine, name, check_syntax);
    JSValueRef made = JSEvaluateScript(engine, script, NULL, url, 1, NULL), result = NULL;
    if (made != NULL && JSValueIsObject(engine, made))
        result = JSObjectCallAsFunction(engine, JSValueToObject(engine, made, NULL), NULL, 1,
                                        &check, NULL);
    JSStringRelease(script);
    JSStringRelease(url);
    JSStringRelease(name);
    if (result == NULL || !JSValueIsObject(engine, result))
        return false;
    JSObjectRef given = JSValueToObject(engine, result, NULL);
    return take_function(given, "compile", &prelude.compile) &&
           take_function(given, "toolError", &prelude.tool_error) &&
           take_function(given, "freeze", &prelude.freeze) &&
           take_function(given, "string", &prelude.string) &&
           take_function(given, "typeError", &prelude.type_error) &&
           take_function(given, "rangeError", &prelude.range_error) &&
           take_function(given, "plainError", &prelude.plain_error) &&
           take_function(given, "Error", &prelude.error_type) &&
           take_function(given, "RangeError", &prelude.range_error_type) &&
           take_function(given, "importModule", &prelude.import_module);
}

bool engine_start(void)
{
    pthread_attr_t attributes;
    struct rlimit stack;
    set_options();
    name_time_zone();
    mallopt(M_ARENA_MAX, 1);
    /* Stack size of threads that the engine may start when little memory is left. */
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstacksize(&attributes, THREAD_STACK_SIZE) != 0 ||
        pthread_setattr_default_np(&attributes) != 0)
        return false;
    pthread_attr_destroy(&attributes);
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur >= 2 * MAIN_STACK_SIZE)
        grow_stack();
    engine = JSGlobalContextCreate(NULL);
    if (engine == NULL || !run_prelude())
        return false;
    ask_time_zone();
    return true;
}
