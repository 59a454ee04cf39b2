/* What the files of the worker share. One process, one cell: what there is of state is static. */
#ifndef BELAY_CELL_WORKER_PARTS_H
#define BELAY_CELL_WORKER_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <JavaScriptCore/JavaScript.h>

#include "lockdown.h"
#include "protocol.h"

#define WORKER_CALLS_MAX        64u /* unanswered */
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
/* JSON that goes to others: what a host may pass on in a frame of its own. */
#define WORKER_DEPTH_MAX 60u

/* ---- host.c: bytes, and frames of them ------------------------------------------------------- */

/* Grows as needed; out of memory is the cell's limit of it, and ends the process. */
struct bytes {
    char *data;
    size_t size;
    size_t capacity;
};

void bytes_done(struct bytes *bytes);
void bytes_add(struct bytes *bytes, const void *data, size_t size);
void bytes_add_string(struct bytes *bytes, const char *string);
void bytes_add_number(struct bytes *bytes, uint64_t number);
/* As UTF-8, lone surrogates as U+FFFD; no character that begins after `size_max` bytes. */
void bytes_add_text(struct bytes *bytes, JSStringRef text, size_t size_max);
/* The same as a JSON string, in quotes. Cut: a little more than size_max is there. */
void bytes_add_quoted(struct bytes *bytes, JSStringRef text, size_t size_max);
/* A JSON string of UTF-8. */
void bytes_add_quoted_utf8(struct bytes *bytes, const char *data, size_t size);
/* JSON that the engine made. False: nested deeper than WORKER_DEPTH_MAX. */
bool bytes_add_json(struct bytes *bytes, JSStringRef json);
/* Cuts at a character. */
void bytes_cut(struct bytes *bytes, size_t size_max);

/* Returns when all is written, or not at all. */
void host_write(const void *data, size_t size);
void host_write_head(size_t size);
void host_send(const struct bytes *frame);
void host_send_string(const char *frame);
/* Waits for a frame, at most so long (negative: for ever). Its text, with a NUL after it, until the
 * next call; NULL: none came in time. */
const char *host_receive(int timeout_ms);

/* ---- memory.c: the limit of it --------------------------------------------------------------- */

/* Before the lockdown. Returns the descriptor that it needs later, or -1 with errno. */
int memory_prepare(void);
/* This process may grow by so much from now on. */
void memory_limit(uint64_t size);
_Noreturn void memory_exhausted(void);
/* What has just failed did so for lack of memory. Safe in a signal handler. */
bool memory_short(void);

/* ---- engine.c: the engine, and what one says to it ------------------------------------------- */

/* A native function. */
#define NATIVE(name)                                                                               \
    JSValueRef name(JSContextRef context, JSObjectRef function, JSObjectRef this_object,           \
                    size_t count, const JSValueRef arguments[], JSValueRef *exception)

/* What prelude.js gives. */
struct prelude {
    JSObjectRef compile, tool_error, freeze, string, type_error, range_error, plain_error,
        error_type, range_error_type, import_module;
};

extern JSGlobalContextRef engine;
extern struct prelude prelude;

/* Brings it up. False: it cannot be had. */
bool engine_start(void);

JSStringRef engine_string(const char *utf8); /* the caller's to release */
/* Own property or inherited; NULL with an exception. */
JSValueRef engine_get(JSObjectRef object, const char *name, JSValueRef *exception);
void engine_define(JSObjectRef object, const char *name, JSValueRef value); /* read-only */
void engine_freeze(JSObjectRef object);
JSObjectRef engine_function(const char *name, JSObjectCallAsFunctionCallback callback);
/* An object that the host has sent, without a prototype; NULL: it is none. */
JSObjectRef engine_parse_object(const char *json);
/* A text of such an object; NULL: not there. The caller's to release. */
JSStringRef engine_get_text(JSObjectRef object, const char *name);
bool engine_get_number(JSObjectRef object, const char *name, double *ret_number);

/* Sets `*exception`, and returns what a native function returns then. */
JSValueRef engine_throw(JSValueRef *exception, JSObjectRef kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The error alone. */
JSValueRef engine_error(JSObjectRef kind, const char *message);

/* String(value); NULL with an exception. */
JSStringRef engine_to_string(JSValueRef value, JSValueRef *exception);
/* What text() makes of it; NULL with an exception. */
JSStringRef engine_to_text(JSValueRef value, JSValueRef *exception);

/* What was thrown, for people: UTF-8, cut. */
struct fault {
    const char *kind;
    struct bytes name, message, stack;
};

/* Where the source stands in what runs. */
struct place {
    size_t indent; /* columns before it, in its first line */
    size_t lines;  /* of it; what comes after is ours */
    /* Some engines show two frames for an async function until its first await: its body, and
     * its call. */
    bool call_is_shown;
};

void engine_describe(JSValueRef thrown, const struct place *place, struct fault *ret_fault);
void fault_done(struct fault *fault);

/* ---- The cell -------------------------------------------------------------------------------- */

/* globals.c */
void globals_install(void);
void globals_begin(uint64_t output_max, bool notify); /* before any of them is called */
void globals_notified(void);

/* values.c */
bool values_take(JSObjectRef values);
NATIVE(values_store);
NATIVE(values_load);
size_t values_written_size(void); /* of `"values":{…},"deleted":[…]` */
void values_write(void);          /* these bytes, to the host; safe in a signal handler */

/* tools.c */
bool tools_install(JSObjectRef tools);
/* One came in. False: there is no such call. */
bool tools_result(JSObjectRef frame);
bool tools_pending(void);

/* timers.c */
NATIVE(timers_set);
NATIVE(timers_clear);
unsigned timers_count(void);
int timers_wait_ms(void); /* until the next; -1: none */
/* Runs those that are due. False with what was thrown. */
bool timers_run(JSValueRef *ret_thrown);

/* module.c */
void module_run(JSStringRef source);
bool module_settled(void);
/* The cell is over: with a thrown value, or (NULL) well. What it had still under way is let go. */
void module_settle(JSValueRef thrown);
void module_settle_fault(const struct fault *fault);
_Noreturn void module_exit(void); /* exit() */
/* Ends the process once it has settled. */
void module_end_if_settled(void);

#endif
