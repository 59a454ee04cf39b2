/* The globals of cell code besides the language: output, values, timers, tools. */
#include <stdio.h>
#include <string.h>

#include "parts.h"

static uint64_t output_bytes;
static bool may_notify;
static uint64_t notify_seq;
static unsigned unacknowledged;

/* ---- Text ------------------------------------------------------------------------------------ */

/* Of a text over the limit, slightly more than the limit is sent, which tells the host that it was
 * exceeded. */
static void send_text(JSStringRef text)
{
    struct bytes frame = {0};
    bytes_add_string(&frame, "{\"type\":\"item\",\"item\":{\"type\":\"text\",\"text\":");
    bytes_add_quoted(&frame, text, output_bytes);
    bytes_add_string(&frame, "}}");
    host_send(&frame);
    bytes_done(&frame);
}

static NATIVE(write_text)
{
    (void)function;
    (void)this_object;
    JSValueRef undefined = JSValueMakeUndefined(context);
    if (module_settled())
        return undefined;
    JSStringRef text = engine_to_text(count > 0 ? arguments[0] : undefined, exception);
    if (text != NULL) {
        send_text(text);
        JSStringRelease(text);
    }
    return undefined;
}

static NATIVE(write_line)
{
    (void)function;
    (void)this_object;
    struct bytes line = {0};
    JSValueRef undefined = JSValueMakeUndefined(context);
    if (module_settled())
        return undefined;
    for (size_t i = 0; i < count; i++) {
        JSStringRef text = engine_to_text(arguments[i], exception);
        if (text == NULL) {
            bytes_done(&line);
            return undefined;
        }
        bytes_add_string(&line, i > 0 ? " " : "");
        bytes_add_text(&line, text, output_bytes + 1);
        JSStringRelease(text);
    }
    struct bytes frame = {0};
    bytes_cut(&line, output_bytes + 1);
    bytes_add_string(&frame, "{\"type\":\"item\",\"item\":{\"type\":\"text\",\"text\":");
    bytes_add_quoted_utf8(&frame, line.data, line.size);
    bytes_add_string(&frame, "}}");
    bytes_done(&line);
    host_send(&frame);
    bytes_done(&frame);
    return undefined;
}

/* ---- Images ---------------------------------------------------------------------------------- */

static const char *const image_types[] = {"png", "jpeg", "gif", "webp"};
static const char *const details[] = {"auto", "low", "high", "original"};

static bool globals_is_one_of(const char *const *names, size_t count, const char *data, size_t size)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == size && memcmp(names[i], data, size) == 0)
            return true;
    return false;
}

static bool is_base64(const char *data, size_t size)
{
    size_t padding = 0;
    if (size == 0 || size % 4 != 0)
        return false;
    while (padding < 2 && data[size - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < size - padding; i++) {
        char byte = data[i], lower = (char)(byte | 0x20);
        if (!((byte >= '0' && byte <= '9') || (lower >= 'a' && lower <= 'z') || byte == '+' ||
              byte == '/'))
            return false;
    }
    return true;
}

/* data:image/TYPE;base64,… */
static bool globals_is_image_url(const struct bytes *url)
{
    static const char head[] = "data:image/", middle[] = ";base64,";
    size_t head_size = sizeof head - 1, middle_size = sizeof middle - 1;
    if (url->size < head_size || memcmp(url->data, head, head_size) != 0)
        return false;
    const char *type = url->data + head_size;
    const char *end = memchr(type, ';', url->size - head_size);
    if (end == NULL || !globals_is_one_of(image_types, 4, type, (size_t)(end - type)))
        return false;
    size_t left = url->size - (size_t)(end - url->data);
    return left > middle_size && memcmp(end, middle, middle_size) == 0 &&
           is_base64(end + middle_size, left - middle_size);
}

/* Adds a string property to `out`. Returns false if it is not a string, possibly with an
 * exception. */
static bool globals_add_property(JSObjectRef object, const char *name, struct bytes *out,
                                 JSValueRef *exception)
{
    JSValueRef value = engine_get(object, name, exception);
    if (value == NULL || !JSValueIsString(engine, value))
        return false;
    JSStringRef text = JSValueToStringCopy(engine, value, exception);
    if (text == NULL)
        return false;
    bytes_add_text(out, text, SIZE_MAX);
    JSStringRelease(text);
    return true;
}

/* Reads the URL and, if present, the detail of an image. Returns false with an exception. */
static bool globals_read_image(JSValueRef value, struct bytes *url, struct bytes *detail,
                               JSValueRef *exception)
{
    struct bytes type = {0};
    if (JSValueIsString(engine, value)) {
        JSStringRef text = JSValueToStringCopy(engine, value, exception);
        bytes_add_text(url, text, SIZE_MAX);
        JSStringRelease(text);
    } else if (JSValueIsObject(engine, value)) {
        JSObjectRef object = JSValueToObject(engine, value, NULL);
        if (globals_add_property(object, "image_url", url, exception)) {
            JSValueRef own = engine_get(object, "detail", exception);
            if (own != NULL && !JSValueIsUndefined(engine, own)) {
                bytes_done(detail);
                globals_add_property(object, "detail", detail, exception);
            }
        } else if (*exception == NULL && globals_add_property(object, "type", &type, exception) &&
                   type.size == 5 && memcmp(type.data, "image", 5) == 0) {
            bytes_add_string(url, "data:");
            if (globals_add_property(object, "mimeType", url, exception)) {
                bytes_add_string(url, ";base64,");
                globals_add_property(object, "data", url, exception);
            }
        }
    }
    bytes_done(&type);
    if (*exception != NULL)
        return false;
    if (!globals_is_image_url(url))
        engine_throw(exception, prelude.type_error,
                     "image takes a base64 data: URL of png, jpeg, gif or webp, {image_url, "
                     "detail}, or an image block {type: \"image\", data, mimeType}");
    else if (!globals_is_one_of(details, 4, detail->data, detail->size))
        engine_throw(exception, prelude.type_error,
                     "detail must be one of \"auto\", \"low\", \"high\", \"original\"");
    return *exception == NULL;
}

static void send_image(const struct bytes *url, const struct bytes *detail)
{
    struct bytes frame = {0};
    if (url->size > WORKER_FRAME_MAX - 256) {
        struct fault fault = {.kind = "output_limit"};
        bytes_add_string(&fault.name, "RangeError");
        bytes_add_string(&fault.message, "the image is larger than any output limit");
        module_settle_fault(&fault);
        module_end_if_settled();
    }
    bytes_add_string(&frame, "{\"type\":\"item\",\"item\":{\"type\":\"image\",\"image_url\":\"");
    bytes_add(&frame, url->data, url->size);
    bytes_add_string(&frame, "\",\"detail\":\"");
    bytes_add(&frame, detail->data, detail->size);
    bytes_add_string(&frame, "\"}}");
    host_send(&frame);
    bytes_done(&frame);
}

static NATIVE(write_image)
{
    (void)function;
    (void)this_object;
    struct bytes url = {0}, detail = {0};
    JSValueRef undefined = JSValueMakeUndefined(context);
    if (module_settled())
        return undefined;
    if (count > 1 && !JSValueIsUndefined(context, arguments[1])) {
        JSStringRef text = JSValueIsString(context, arguments[1])
                               ? JSValueToStringCopy(context, arguments[1], exception)
                               : engine_string("?");
        bytes_add_text(&detail, text, 16);
        JSStringRelease(text);
    } else {
        bytes_add_string(&detail, "high");
    }
    if (globals_read_image(count > 0 ? arguments[0] : undefined, &url, &detail, exception))
        send_image(&url, &detail);
    bytes_done(&url);
    bytes_done(&detail);
    return undefined;
}

/* ---- Notifications and control --------------------------------------------------------------- */

static NATIVE(notify)
{
    (void)function;
    (void)this_object;
    struct bytes frame = {0}, utf8 = {0};
    JSValueRef undefined = JSValueMakeUndefined(context);
    if (module_settled())
        return undefined;
    if (!may_notify)
        return engine_throw(exception, prelude.plain_error, "no client takes notifications");
    JSStringRef text = engine_to_text(count > 0 ? arguments[0] : undefined, exception);
    if (text == NULL)
        return undefined;
    bytes_add_text(&utf8, text, WORKER_NOTIFY_MAX + 4);
    JSStringRelease(text);
    if (utf8.size > WORKER_NOTIFY_MAX) {
        engine_throw(exception, prelude.range_error, "a notification can have at most %zu bytes",
                     WORKER_NOTIFY_MAX);
    } else if (unacknowledged == WORKER_NOTIFIES_MAX) {
        engine_throw(exception, prelude.range_error, "%u notifications are not acknowledged yet",
                     WORKER_NOTIFIES_MAX);
    } else {
        unacknowledged++;
        bytes_add_string(&frame, "{\"type\":\"notify\",\"seq\":");
        bytes_add_number(&frame, ++notify_seq);
        bytes_add_string(&frame, ",\"text\":");
        bytes_add_quoted_utf8(&frame, utf8.data, utf8.size);
        bytes_add_string(&frame, "}");
        host_send(&frame);
    }
    bytes_done(&frame);
    bytes_done(&utf8);
    return undefined;
}

void globals_notified(void)
{
    if (unacknowledged > 0)
        unacknowledged--;
}

static NATIVE(yield_control)
{
    (void)function;
    (void)this_object;
    (void)count;
    (void)arguments;
    (void)exception;
    if (!module_settled())
        host_send_string("{\"type\":\"yield\"}");
    return JSValueMakeUndefined(context);
}

static NATIVE(exit_cell)
{
    (void)context;
    (void)function;
    (void)this_object;
    (void)count;
    (void)arguments;
    (void)exception;
    module_exit();
}

/* ---- All of them ----------------------------------------------------------------------------- */

void globals_install(void)
{
    static const struct {
        const char *name;
        JSObjectCallAsFunctionCallback callback;
    } functions[] = {
        {"text", write_text},  {"image", write_image},     {"store", values_store},
        {"load", values_load}, {"notify", notify},         {"yield_control", yield_control},
        {"exit", exit_cell},   {"setTimeout", timers_set}, {"clearTimeout", timers_clear},
    };
    static const char *const levels[] = {"log", "info", "warn", "error", "debug"};
    JSObjectRef global = JSContextGetGlobalObject(engine);
    JSObjectRef console = JSObjectMake(engine, NULL, NULL);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        engine_define(global, functions[i].name,
                      engine_function(functions[i].name, functions[i].callback));
    engine_define(global, "console", console);
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        engine_define(console, levels[i], engine_function(levels[i], write_line));
    engine_freeze(console);
}

void globals_begin(uint64_t output_max, bool notify_allowed)
{
    output_bytes = output_max;
    may_notify = notify_allowed;
}
