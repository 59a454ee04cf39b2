/* tools.NAME(input): nested calls, which the host runs for the cell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

#define KIND_MAX 64

struct tool {
    struct bytes name;   /* the host's name, UTF-8 */
    struct bytes quoted; /* the same as JSON, with quotes */
    struct bytes called; /* the name in cell code */
    bool takes_text;
    JSObjectRef function;
};

struct call {
    enum {
        CALL_FREE,
        CALL_QUEUED,
        CALL_SENT,
        CALL_ANSWERED
    } state;
    unsigned tool;
    JSObjectRef resolve, reject;
    struct bytes frame; /* while it is queued */
};

static struct tool *tools;
static unsigned tool_count;
static struct call calls[WORKER_CALLS_TOTAL_MAX]; /* index: number - 1 */
static unsigned call_count, sent_count, next_queued;

/* ---- Calling --------------------------------------------------------------------------------- */

static void worker_tools_settle(JSObjectRef how, JSValueRef value)
{
    JSObjectCallAsFunction(engine, how, NULL, 1, &value, NULL);
}

static JSValueRef worker_tools_make_string(const char *data, size_t size)
{
    struct bytes copy = {0};
    bytes_add(&copy, data, size);
    bytes_add(&copy, "", 1);
    JSStringRef text = engine_string(copy.data);
    JSValueRef value = JSValueMakeString(engine, text);
    JSStringRelease(text);
    bytes_done(&copy);
    return value;
}

static JSValueRef tool_error(const struct tool *tool, JSValueRef message, JSValueRef kind)
{
    JSValueRef thrown = NULL;
    JSValueRef arguments[] = {message, kind,
                              worker_tools_make_string(tool->name.data, tool->name.size)};
    JSValueRef error =
        JSObjectCallAsFunction(engine, prelude.tool_error, NULL, 3, arguments, &thrown);
    return error != NULL ? error : thrown;
}

static JSValueRef own_tool_error(const struct tool *tool, const char *kind, const char *message)
{
    return tool_error(tool, worker_tools_make_string(message, strlen(message)),
                      worker_tools_make_string(kind, strlen(kind)));
}

/* Adds the input to the frame. Returns NULL, or the error if the input is not valid. */
static JSValueRef worker_tools_add_input(struct bytes *frame, const struct tool *tool,
                                         JSValueRef input)
{
    JSValueRef thrown = NULL;
    char message[320];
    size_t begin = frame->size;
    bool right = tool->takes_text
                     ? JSValueIsString(engine, input)
                     : JSValueIsObject(engine, input) && !JSValueIsArray(engine, input) &&
                           !JSObjectIsFunction(engine, JSValueToObject(engine, input, NULL));
    JSStringRef json = right ? JSValueCreateJSONString(engine, input, 0, &thrown) : NULL;
    if (thrown != NULL)
        return thrown;
    if (json != NULL && JSStringGetLength(json) > WORKER_CALL_BYTES_MAX) {
        JSStringRelease(json);
        return own_tool_error(tool, "too_large", "the input is larger than 8 MiB");
    }
    bool fits = json != NULL && bytes_add_json(frame, json);
    if (json != NULL)
        JSStringRelease(json);
    if (json != NULL && !fits)
        return engine_error(prelude.type_error, "the input is nested too deeply");
    /* toJSON may have turned it into something else. */
    if (!fits || frame->data[begin] != (tool->takes_text ? '"' : '{')) {
        snprintf(message, sizeof message, "tools.%.*s takes %s", (int)tool->called.size,
                 tool->called.data, tool->takes_text ? "a string" : "an object");
        return engine_error(prelude.type_error, message);
    }
    if (frame->size - begin > WORKER_CALL_BYTES_MAX)
        return own_tool_error(tool, "too_large", "the input is larger than 8 MiB");
    return NULL;
}

static void send_queued(void)
{
    while (sent_count < WORKER_CALLS_MAX && next_queued < call_count) {
        struct call *call = &calls[next_queued++];
        host_send(&call->frame);
        bytes_done(&call->frame);
        call->state = CALL_SENT;
        sent_count++;
    }
}

/* Calls are numbered in their order, which is the order of the queue. */
static JSValueRef worker_tools_begin_call(unsigned index, JSValueRef input, JSObjectRef resolve,
                                          JSObjectRef reject)
{
    const struct tool *tool = &tools[index];
    struct bytes json = {0}, frame = {0};
    JSValueRef wrong = worker_tools_add_input(&json, tool, input);
    if (wrong == NULL && call_count == WORKER_CALLS_TOTAL_MAX)
        wrong = own_tool_error(tool, "step_limit", "a cell can make at most 4096 calls");
    if (wrong == NULL) {
        struct call *call = &calls[call_count++];
        bytes_add_string(&frame, "{\"type\":\"call\",\"call\":");
        bytes_add_number(&frame, call_count);
        bytes_add_string(&frame, ",\"tool\":");
        bytes_add(&frame, tool->quoted.data, tool->quoted.size);
        bytes_add_string(&frame, ",\"input\":");
        bytes_add(&frame, json.data, json.size);
        bytes_add_string(&frame, "}");
        *call = (struct call){CALL_QUEUED, index, resolve, reject, frame};
        JSValueProtect(engine, resolve);
        JSValueProtect(engine, reject);
        send_queued();
    }
    bytes_done(&json);
    return wrong;
}

static NATIVE(call_tool)
{
    (void)this_object;
    JSObjectRef resolve = NULL, reject = NULL;
    unsigned index = 0;
    while (index < tool_count && tools[index].function != function)
        index++;
    JSObjectRef promise = JSObjectMakeDeferredPromise(context, &resolve, &reject, exception);
    if (promise == NULL || index == tool_count || module_settled())
        return JSValueMakeUndefined(context);
    JSValueRef input = count > 0 ? arguments[0] : JSValueMakeUndefined(context);
    JSValueRef wrong = worker_tools_begin_call(index, input, resolve, reject);
    if (wrong != NULL)
        worker_tools_settle(reject, wrong);
    return promise;
}

bool tools_pending(void)
{
    return sent_count > 0 || next_queued < call_count;
}

/* ---- Results --------------------------------------------------------------------------------- */

static void reject_call(const struct call *call, JSObjectRef frame)
{
    JSValueRef err = engine_get(frame, "err", NULL), kind = NULL, message = NULL;
    if (err != NULL && JSValueIsObject(engine, err)) {
        JSObjectRef object = JSValueToObject(engine, err, NULL);
        JSObjectSetPrototype(engine, object, JSValueMakeNull(engine));
        kind = engine_get(object, "kind", NULL);
        message = engine_get(object, "message", NULL);
    }
    if (kind == NULL || !JSValueIsString(engine, kind))
        kind = worker_tools_make_string("failed", 6);
    if (message == NULL || !JSValueIsString(engine, message))
        message = worker_tools_make_string("", 0);
    worker_tools_settle(call->reject, tool_error(&tools[call->tool], message, kind));
}

bool tools_result(JSObjectRef frame)
{
    double number;
    JSStringRef ok = engine_string("ok");
    bool succeeded = JSObjectHasProperty(engine, frame, ok);
    JSStringRelease(ok);
    if (!engine_get_number(frame, "call", &number) || !(number >= 1) || number > call_count)
        return false;
    struct call *call = &calls[(unsigned)number - 1];
    if (call->state != CALL_SENT)
        return false;
    struct call answered = *call;
    call->state = CALL_ANSWERED;
    sent_count--;
    send_queued();
    if (succeeded)
        worker_tools_settle(answered.resolve, engine_get(frame, "ok", NULL));
    else
        reject_call(&answered, frame);
    JSValueUnprotect(engine, answered.resolve);
    JSValueUnprotect(engine, answered.reject);
    return true;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static bool worker_tools_is_plain(unsigned char byte)
{
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') ||
           byte == '_' || byte == '$';
}

/* Replaces each character that is not allowed in a name by _. Returns whether nothing was
 * changed. */
static bool mangle(const struct bytes *name, struct bytes *out)
{
    bool same = true;
    for (size_t i = 0; i < name->size; i++) {
        unsigned char byte = (unsigned char)name->data[i];
        if (worker_tools_is_plain(byte))
            bytes_add(out, name->data + i, 1);
        else if ((byte & 0xC0) != 0x80)
            bytes_add(out, "_", 1);
        same = same && worker_tools_is_plain(byte);
    }
    return same;
}

static bool is_called(const struct bytes *name)
{
    for (unsigned i = 0; i < tool_count; i++)
        if (tools[i].called.size == name->size && name->size > 0 &&
            memcmp(tools[i].called.data, name->data, name->size) == 0)
            return true;
    return false;
}

/* Names that need no change take precedence; then the others, in order. */
static void name_tools(void)
{
    for (unsigned i = 0; i < tool_count; i++)
        if (!mangle(&tools[i].name, &tools[i].called))
            tools[i].called.size = 0;
    for (unsigned i = 0; i < tool_count; i++) {
        struct bytes name = {0};
        if (tools[i].called.size > 0)
            continue;
        mangle(&tools[i].name, &name);
        size_t size = name.size;
        for (unsigned number = 2; is_called(&name); number++) {
            name.size = size;
            bytes_add(&name, "_", 1);
            bytes_add_number(&name, number);
        }
        bytes_done(&tools[i].called);
        tools[i].called = name;
    }
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static bool worker_take_tool(JSObjectRef given, struct tool *tool)
{
    struct bytes input = {0};
    JSStringRef name = engine_get_text(given, "name"), kind = engine_get_text(given, "input");
    if (name == NULL || kind == NULL)
        return false;
    bytes_add_text(&tool->name, name, SIZE_MAX);
    bytes_add_quoted(&tool->quoted, name, SIZE_MAX - 1);
    bytes_add_text(&input, kind, 16);
    tool->takes_text = input.size == 4 && memcmp(input.data, "text", 4) == 0;
    bytes_done(&input);
    JSStringRelease(name);
    JSStringRelease(kind);
    return tool->name.size > 0;
}

/* Makes {name, description} and the function for it. */
static JSValueRef make_tool(JSObjectRef given, struct tool *tool, JSObjectRef functions)
{
    JSObjectRef entry = JSObjectMake(engine, NULL, NULL);
    JSValueRef description = engine_get(given, "description", NULL);
    JSStringRef name_key = engine_string("name"), description_key = engine_string("description");
    bytes_add(&tool->called, "", 1); /* a NUL */
    tool->called.size--;
    JSStringRef name = engine_string(tool->called.data);
    if (description == NULL || !JSValueIsString(engine, description))
        description = worker_tools_make_string("", 0);
    JSObjectSetProperty(engine, entry, name_key, JSValueMakeString(engine, name), 0, NULL);
    JSObjectSetProperty(engine, entry, description_key, description, 0, NULL);
    engine_freeze(entry);
    tool->function = engine_function(tool->called.data, call_tool);
    JSObjectSetProperty(engine, functions, name, tool->function, kJSPropertyAttributeReadOnly,
                        NULL);
    JSStringRelease(name_key);
    JSStringRelease(description_key);
    JSStringRelease(name);
    return entry;
}

/* Takes the tools in the given order; `objects` are the array's elements, without prototypes. */
static bool worker_take_tools(JSObjectRef given, JSObjectRef *objects)
{
    for (unsigned i = 0; i < tool_count; i++) {
        JSValueRef value = JSObjectGetPropertyAtIndex(engine, given, i, NULL);
        if (value == NULL || !JSValueIsObject(engine, value))
            return false;
        objects[i] = JSValueToObject(engine, value, NULL);
        JSObjectSetPrototype(engine, objects[i], JSValueMakeNull(engine));
        if (!worker_take_tool(objects[i], &tools[i]))
            return false;
    }
    return true;
}

bool tools_install(JSObjectRef given)
{
    double count;
    if (!engine_get_number(given, "length", &count) || count > WORKER_TOOLS_MAX)
        return false;
    tool_count = (unsigned)count;
    tools = calloc(tool_count + 1, sizeof *tools);
    JSObjectRef *objects = calloc(tool_count + 1, sizeof *objects);
    JSValueRef *entries = calloc(tool_count + 1, sizeof *entries);
    if (tools == NULL || objects == NULL || entries == NULL)
        memory_exhausted();
    bool taken = worker_take_tools(given, objects);
    if (taken) {
        JSObjectRef functions = JSObjectMake(engine, NULL, NULL);
        JSObjectRef list = JSObjectMakeArray(engine, 0, NULL, NULL);
        JSObjectRef global = JSContextGetGlobalObject(engine);
        /* The global object holds them from the start: the collector does not search our arrays. */
        engine_define(global, "tools", functions);
        engine_define(global, "ALL_TOOLS", list);
        JSObjectSetPrototype(engine, functions, JSValueMakeNull(engine));
        name_tools();
        for (unsigned i = 0; i < tool_count; i++) {
            entries[i] = make_tool(objects[i], &tools[i], functions);
            JSObjectSetPropertyAtIndex(engine, list, i, entries[i], NULL);
        }
        engine_freeze(functions);
        engine_freeze(list);
    }
    free(objects);
    free(entries);
    return taken;
}
