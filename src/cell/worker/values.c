/* store and load. Values are kept as JSON, as the host or cell code supplied it, and parsed at each
 * load, so that changing a loaded value does not change the stored one. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

struct value {
    struct bytes key;    /* UTF-8 */
    struct bytes quoted; /* the same as JSON, with quotes */
    struct bytes json;
    bool given;   /* by the host */
    bool written; /* by this cell */
    bool deleted; /* by this cell; has no json then */
};

static struct value *values;
static size_t value_count, value_capacity, live_count;
static size_t bytes_total; /* JSON size of all live values */

static struct value *values_find(const struct bytes *key)
{
    for (size_t i = 0; i < value_count; i++)
        if (values[i].key.size == key->size &&
            (key->size == 0 || memcmp(values[i].key.data, key->data, key->size) == 0))
            return &values[i];
    return NULL;
}

/* Takes ownership of the key. */
static struct value *values_append(struct bytes *key)
{
    if (value_count == value_capacity) {
        value_capacity = 2 * value_capacity + 16;
        values = realloc(values, value_capacity * sizeof *values);
        if (values == NULL)
            memory_exhausted();
    }
    struct value *value = &values[value_count++];
    *value = (struct value){.key = *key};
    bytes_add_quoted_utf8(&value->quoted, key->data, key->size);
    *key = (struct bytes){0};
    return value;
}

/* Takes ownership of the JSON; an empty one deletes the value. */
static void values_put(struct value *value, struct bytes *json)
{
    live_count = live_count - (value->json.size > 0) + (json->size > 0);
    bytes_total = bytes_total - value->json.size + json->size;
    bytes_done(&value->json);
    value->json = *json;
    *json = (struct bytes){0};
}

bool values_take(JSObjectRef given)
{
    JSObjectSetPrototype(engine, given, JSValueMakeNull(engine));
    JSPropertyNameArrayRef names = JSObjectCopyPropertyNames(engine, given);
    for (size_t i = 0; i < JSPropertyNameArrayGetCount(names); i++) {
        struct bytes key = {0}, json = {0};
        JSStringRef name = JSPropertyNameArrayGetNameAtIndex(names, i);
        JSValueRef value = JSObjectGetProperty(engine, given, name, NULL);
        JSStringRef text = JSValueCreateJSONString(engine, value, 0, NULL);
        if (text == NULL)
            return false;
        bytes_add_text(&key, name, SIZE_MAX);
        bytes_add_json(&json, text);
        JSStringRelease(text);
        struct value *taken = values_append(&key);
        taken->given = true;
        values_put(taken, &json);
    }
    JSPropertyNameArrayRelease(names);
    return true;
}

/* Reads the key argument. Returns false with an exception. */
static bool values_take_key(size_t count, const JSValueRef arguments[], const char *name,
                            struct bytes *key, JSValueRef *exception)
{
    if (count < 1 || !JSValueIsString(engine, arguments[0])) {
        engine_throw(exception, prelude.type_error, "%s: the key must be a string", name);
        return false;
    }
    JSStringRef text = JSValueToStringCopy(engine, arguments[0], exception);
    if (text == NULL)
        return false;
    bytes_add_text(key, text, WORKER_KEY_MAX + 4);
    JSStringRelease(text);
    return true;
}

/* Converts the value to JSON; empty if it is undefined. Returns false with an exception. */
static bool take_json(JSValueRef value, struct bytes *json, JSValueRef *exception)
{
    JSValueRef thrown = NULL;
    if (JSValueIsUndefined(engine, value))
        return true;
    JSStringRef text = JSValueCreateJSONString(engine, value, 0, &thrown);
    if (thrown != NULL) {
        *exception = thrown;
    } else if (text == NULL) {
        engine_throw(exception, prelude.type_error, "store: JSON cannot represent the value");
    } else if (JSStringGetLength(text) > WORKER_VALUE_MAX) {
        engine_throw(exception, prelude.range_error,
                     "a stored value can have at most %zu bytes as JSON", WORKER_VALUE_MAX);
    } else if (!bytes_add_json(json, text)) {
        engine_throw(exception, prelude.range_error,
                     "a stored value can be nested at most %u levels deep", WORKER_DEPTH_MAX);
    } else if (json->size > WORKER_VALUE_MAX) {
        engine_throw(exception, prelude.range_error,
                     "a stored value can have at most %zu bytes as JSON", WORKER_VALUE_MAX);
    }
    if (text != NULL)
        JSStringRelease(text);
    return *exception == NULL;
}

/* Returns false with an exception if a limit would be exceeded. */
static bool values_has_room(const struct value *value, const struct bytes *key,
                            const struct bytes *json, JSValueRef *exception)
{
    size_t size = value != NULL ? value->json.size : 0;
    if (key->size > WORKER_KEY_MAX)
        engine_throw(exception, prelude.range_error, "a key can have at most %zu bytes",
                     WORKER_KEY_MAX);
    else if (json->size > 0 && size == 0 && live_count >= WORKER_VALUES_MAX)
        engine_throw(exception, prelude.range_error, "a session can store at most %u keys",
                     WORKER_VALUES_MAX);
    else if (bytes_total - size + json->size > WORKER_VALUES_BYTES_MAX)
        engine_throw(exception, prelude.range_error, "a session can store at most %zu bytes",
                     WORKER_VALUES_BYTES_MAX);
    return *exception == NULL;
}

static void write_value(struct value *value, struct bytes *json)
{
    value->written = json->size > 0;
    value->deleted = json->size == 0;
    values_put(value, json);
    if (value->deleted && !value->given) {
        /* The host does not know it, so it need not be reported. */
        bytes_done(&value->key);
        bytes_done(&value->quoted);
        *value = values[--value_count];
    }
}

NATIVE(values_store)
{
    (void)function;
    (void)this_object;
    struct bytes key = {0}, json = {0};
    JSValueRef undefined = JSValueMakeUndefined(context);
    if (module_settled() || !values_take_key(count, arguments, "store", &key, exception))
        return undefined;
    if (key.size == 0)
        engine_throw(exception, prelude.type_error, "store: the key must not be empty");
    else if (take_json(count > 1 ? arguments[1] : undefined, &json, exception)) {
        /* Looked up only now: making the JSON may have run cell code, which may store, too. */
        struct value *value = values_find(&key);
        if (values_has_room(value, &key, &json, exception) && (value != NULL || json.size > 0))
            write_value(value != NULL ? value : values_append(&key), &json);
    }
    bytes_done(&key);
    bytes_done(&json);
    return undefined;
}

NATIVE(values_load)
{
    (void)function;
    (void)this_object;
    struct bytes key = {0};
    JSValueRef result = JSValueMakeUndefined(context);
    if (!values_take_key(count, arguments, "load", &key, exception))
        return result;
    struct value *value = values_find(&key);
    bytes_done(&key);
    if (value == NULL || value->json.size == 0)
        return result;
    bytes_add(&value->json, "", 1);
    value->json.size--;
    JSStringRef text = engine_string(value->json.data);
    JSValueRef loaded = JSValueMakeFromJSONString(context, text);
    JSStringRelease(text);
    if (loaded == NULL)
        memory_exhausted();
    return loaded;
}

/* ---- At the end ------------------------------------------------------------------------------ */

/* Determines both the size and the bytes, so that they cannot differ. */
static size_t each_piece(void (*take)(const void *data, size_t size))
{
    static const char head[] = "\"values\":{", middle[] = "},\"deleted\":[", tail[] = "]";
    size_t size = sizeof head + sizeof middle + sizeof tail - 3, written = 0, deleted = 0;
    take(head, sizeof head - 1);
    for (size_t i = 0; i < value_count; i++) {
        const struct value *value = &values[i];
        if (!value->written)
            continue;
        size += value->quoted.size + 1 + value->json.size + (written > 0);
        take(",", written++ > 0);
        take(value->quoted.data, value->quoted.size);
        take(":", 1);
        take(value->json.data, value->json.size);
    }
    take(middle, sizeof middle - 1);
    for (size_t i = 0; i < value_count; i++) {
        const struct value *value = &values[i];
        if (!value->deleted)
            continue;
        size += value->quoted.size + (deleted > 0);
        take(",", deleted++ > 0);
        take(value->quoted.data, value->quoted.size);
    }
    take(tail, sizeof tail - 1);
    return size;
}

static void take_nothing(const void *data, size_t size)
{
    (void)data;
    (void)size;
}

size_t values_written_size(void)
{
    return each_piece(take_nothing);
}

void values_write(void)
{
    each_piece(host_write);
}
