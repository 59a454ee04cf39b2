/* Declarations shared by the worker's files. A process runs one cell, so all state is static. */
#ifndef BELAY_CELL_WORKER_PARTS_H
#define BELAY_CELL_WORKER_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <JavaScriptCore/JavaScript.h>

#include "lockdown.h"
#include "protocol.h"

#define WORKER_CALLS_MAX        64u /* unanswered at the same time */
#define WORKER_CALLS_TOTAL_MAX  4096u
#define WORKER_CALL_BYTES_MAX   ((size_t)8 * 1024 * 1024)
#define WORKER_TOOLS_MAX        512u
#define WORKER_TIMERS_MAX       1024u
#define WORKER_NOTIFIES_MAX     64u
#define WORKER_NOTIFY_MAX       ((size_t)16 * 1024)
#define WORKER_VALUES_MAX       1024u
#define WORKER_KEY_MAX          ((size_t)256)
#define WORKER_VALUE_MAX        ((size_t)1024 * 1024)
#define WORKER_VALUES_BYTES_MAX ((size_t)16 * 1024 * 1024)
#define WORKER_ERROR_TEXT_MAX   ((size_t)4 * 1024)
/* Depth of JSON for others: deep enough to fit into a frame of the host. */
#define WORKER_DEPTH_MAX 60u

/* ---- host.c: bytes, and frames of them ------------------------------------------------------- */

/* Grows as needed. If memory runs out, the cell has reached its limit, and the process exits. */
struct bytes {
    char *data;
    size_t size;
    size_t capacity;
};

void bytes_done(struct bytes *bytes);
void bytes_add(struct bytes *bytes, const void *data, size_t size);
void bytes_add_string(struct bytes *bytes, const char *string);
void bytes_add_number(struct bytes *bytes, uint64_t number);
/* Adds UTF-8, with lone surrogates as U+FFFD. No character starts after `size_max` bytes. */
void bytes_add_text(struct bytes *bytes, JSStringRef text, size_t size_max);
/* Adds the text as a JSON string, with quotes. If it is cut, it has slightly more than `size_max`
 * bytes. */
void bytes_add_quoted(struct bytes *bytes, JSStringRef text, size_t size_max);
/* Adds UTF-8 as a JSON string. */
void bytes_add_quoted_utf8(struct bytes *bytes, const char *data, size_t size);
/* Adds JSON that the engine made. Returns false if it is nested deeper than WORKER_DEPTH_MAX. */
bool bytes_add_json(struct bytes *bytes, JSStringRef json);
/* Cuts at a character boundary. */
void bytes_cut(struct bytes *bytes, size_t size_max);

/* Returns when everything is written; exits if that fails. */
void host_write(const void *data, size_t size);
void host_write_head(size_t size);
void host_send(const struct bytes *frame);
void host_send_string(const char *frame);
/* Waits for a frame, at most that long (negative: without limit). Returns its text, NUL-terminated
 * and valid until the next call, or NULL if none arrived in time. */
const char *host_receive(int timeout_ms);

/* ---- memory.c: the memory limit -------------------------------------------------------------- */

/* Call before the lockdown. Returns the descriptor that it needs later, or -1 with errno. */
int memory_prepare(void);
/* Limits the further growth of this process. */
void memory_limit(uint64_t size);
_Noreturn void memory_exhausted(void);
/* Returns whether memory is short, so that a failure just now is due to that. Safe in a signal
 * handler. */
bool memory_short(void);

/* ---- engine.c: the engine, and helpers for its API ------------------------------------------- */

/* A native function. */
#define NATIVE(name)                                                                               \
    JSValueRef name(JSContextRef context, JSObjectRef function, JSObjectRef this_object,           \
                    size_t count, const JSValueRef arguments[], JSValueRef *exception)

/* The functions that prelude.js provides. */
struct prelude {
    JSObjectRef compile, tool_error, freeze, string, type_error, range_error, plain_error,
        error_type, range_error_type, import_module;
};

extern JSGlobalContextRef engine;
extern struct prelude prelude;

/* Starts the engine. Returns false if that fails. */
bool engine_start(void);

JSStringRef engine_string(const char *utf8); /* the caller releases it */
/* Returns an own or inherited property, or NULL with an exception. */
JSValueRef engine_get(JSObjectRef object, const char *name, JSValueRef *exception);
void engine_define(JSObjectRef object, const char *name, JSValueRef value); /* read-only */
void engine_freeze(JSObjectRef object);
JSObjectRef engine_function(const char *name, JSObjectCallAsFunctionCallback callback);
/* Parses an object that the host has sent, and removes its prototype. NULL if it is not an
 * object. */
JSObjectRef engine_parse_object(const char *json);
/* Returns a text of such an object, which the caller releases, or NULL. */
JSStringRef engine_get_text(JSObjectRef object, const char *name);
bool engine_get_number(JSObjectRef object, const char *name, double *ret_number);

/* Sets `*exception` and returns the value that a native function must return then. */
JSValueRef engine_throw(JSValueRef *exception, JSObjectRef kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns the error without throwing it. */
JSValueRef engine_error(JSObjectRef kind, const char *message);

/* Returns String(value), or NULL with an exception. */
JSStringRef engine_to_string(JSValueRef value, JSValueRef *exception);
/* Converts a value as text() does. NULL with an exception. */
JSStringRef engine_to_text(JSValueRef value, JSValueRef *exception);

/* A thrown value described for people: UTF-8, cut. */
struct fault {
    const char *kind;
    struct bytes name, message, stack;
};

/* The place of the source in the text that runs. */
struct place {
    size_t indent; /* columns before the source in its first line */
    size_t lines;  /* of the source; lines after it belong to the wrapper */
    /* Some engines show two frames for an async function until its first await: its body, and
     * its call. */
    bool call_is_shown;
};

void engine_describe(JSValueRef thrown, const struct place *place, struct fault *ret_fault);
void fault_done(struct fault *fault);

/* ---- The cell -------------------------------------------------------------------------------- */

/* globals.c */
void globals_install(void);
void globals_begin(uint64_t output_max, bool notify); /* must precede calls of the functions */
void globals_notified(void);

/* values.c */
bool values_take(JSObjectRef values);
NATIVE(values_store);
NATIVE(values_load);
size_t values_written_size(void); /* of `"values":{…},"deleted":[…]` */
void values_write(void);          /* writes these bytes to the host; safe in a signal handler */

/* tools.c */
bool tools_install(JSObjectRef tools);
/* Handles a result. Returns false if no such call is unanswered. */
bool tools_result(JSObjectRef frame);
bool tools_pending(void);

/* timers.c */
NATIVE(timers_set);
NATIVE(timers_clear);
unsigned timers_count(void);
int timers_wait_ms(void); /* until the next timer; -1 if there is none */
/* Runs the timers that are due. Returns false with the thrown value. */
bool timers_run(JSValueRef *ret_thrown);

/* module.c */
void module_run(JSStringRef source);
bool module_settled(void);
/* Settles the cell with a thrown value, or successfully if NULL. Work in progress is abandoned. */
void module_settle(JSValueRef thrown);
void module_settle_fault(const struct fault *fault);
_Noreturn void module_exit(void); /* exit() */
/* Ends the process once it has settled. */
void module_end_if_settled(void);

#endif
