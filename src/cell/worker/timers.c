/* setTimeout. There are at most 1,024 timers, so they are in an array that is searched
 * linearly. */
#include <stdlib.h>
#include <time.h>

#include "parts.h"

#define DELAY_MS_MAX 2147483647.0

struct timer {
    uint32_t id; /* 0: free */
    int64_t due_us;
    JSObjectRef function;
    size_t count;
    JSValueRef *arguments;
};

static struct timer timers[WORKER_TIMERS_MAX];
static unsigned used;
static uint32_t last_id;

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void drop(struct timer *timer)
{
    JSValueUnprotect(engine, timer->function);
    for (size_t i = 0; i < timer->count; i++)
        JSValueUnprotect(engine, timer->arguments[i]);
    free(timer->arguments);
    *timer = (struct timer){0};
    used--;
}

NATIVE(timers_set)
{
    (void)function;
    (void)this_object;
    struct timer *timer = timers;
    if (module_settled())
        return JSValueMakeUndefined(context);
    if (count < 1 || !JSValueIsObject(context, arguments[0]) ||
        !JSObjectIsFunction(context, JSValueToObject(context, arguments[0], NULL)))
        return engine_throw(exception, prelude.type_error, "setTimeout takes a function");
    double delay = count > 1 ? JSValueToNumber(context, arguments[1], exception) : 0;
    if (*exception != NULL)
        return NULL;
    if (used == WORKER_TIMERS_MAX)
        return engine_throw(exception, prelude.range_error, "a cell can have at most %u timers",
                            WORKER_TIMERS_MAX);
    while (timer->id != 0)
        timer++;
    if (!(delay > 0))
        delay = 0;
    if (delay > DELAY_MS_MAX)
        delay = DELAY_MS_MAX;
    timer->count = count > 2 ? count - 2 : 0;
    timer->arguments = calloc(timer->count + 1, sizeof *timer->arguments);
    if (timer->arguments == NULL)
        memory_exhausted();
    for (size_t i = 0; i < timer->count; i++) {
        timer->arguments[i] = arguments[i + 2];
        JSValueProtect(context, arguments[i + 2]);
    }
    timer->function = JSValueToObject(context, arguments[0], NULL);
    JSValueProtect(context, timer->function);
    timer->due_us = now_us() + (int64_t)(delay * 1000);
    timer->id = ++last_id;
    used++;
    return JSValueMakeNumber(context, timer->id);
}

NATIVE(timers_clear)
{
    (void)function;
    (void)this_object;
    if (count < 1 || !JSValueIsNumber(context, arguments[0]) || module_settled())
        return JSValueMakeUndefined(context);
    double id = JSValueToNumber(context, arguments[0], exception);
    for (unsigned i = 0; i < WORKER_TIMERS_MAX; i++)
        if (timers[i].id != 0 && timers[i].id == id)
            drop(&timers[i]);
    return JSValueMakeUndefined(context);
}

unsigned timers_count(void)
{
    return used;
}

/* Returns the first timer that is due by `until_us`, the older one of equals, or NULL. */
static struct timer *first_due(int64_t until_us, uint32_t id_max)
{
    struct timer *first = NULL;
    for (unsigned i = 0; used > 0 && i < WORKER_TIMERS_MAX; i++) {
        struct timer *timer = &timers[i];
        if (timer->id == 0 || timer->id > id_max || timer->due_us > until_us)
            continue;
        if (first == NULL || timer->due_us < first->due_us ||
            (timer->due_us == first->due_us && timer->id < first->id))
            first = timer;
    }
    return first;
}

int timers_wait_ms(void)
{
    const struct timer *first = first_due(INT64_MAX, UINT32_MAX);
    if (first == NULL)
        return -1;
    int64_t left_us = first->due_us - now_us();
    int64_t left_ms = left_us <= 0 ? 0 : (left_us + 999) / 1000;
    return left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}

/* Runs only timers that were set before this call, so that one that sets itself again does not
 * starve the host's frames. */
bool timers_run(JSValueRef *ret_thrown)
{
    int64_t until_us = now_us();
    uint32_t id_max = last_id;
    struct timer *timer;
    while ((timer = first_due(until_us, id_max)) != NULL) {
        struct timer due = *timer;
        JSValueRef thrown = NULL;
        *timer = (struct timer){0};
        used--;
        JSObjectCallAsFunction(engine, due.function, NULL, due.count, due.arguments, &thrown);
        used++;
        drop(&due);
        if (thrown != NULL) {
            *ret_thrown = thrown;
            return false;
        }
        if (module_settled())
            return true;
    }
    return true;
}
