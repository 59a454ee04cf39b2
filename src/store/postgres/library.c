#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define LIBRARY "libpq.so.5"

struct pg_table pg_table;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char fault[256];

/* Converts an object pointer to a function pointer, which POSIX permits. */
static void pg_find(void *library, const char *name, void **ret_function)
{
    *ret_function = dlsym(library, name);
    if (*ret_function == NULL && fault[0] == '\0')
        snprintf(fault, sizeof fault, "%s has no %s", LIBRARY, name);
}

static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);

    if (library == NULL) {
        bl_text_into(fault, sizeof fault, dlerror());
        return;
    }
    /* First: an older library lacks some of the others. */
    pg_find(library, "PQlibVersion", (void **)(void *)&pg_table.libVersion);
    if (fault[0] == '\0' && pg_table.libVersion() < PG_LIBRARY_VERSION_MIN) {
        snprintf(fault, sizeof fault, "%s has version %d (expected %d or newer)", LIBRARY,
                 pg_table.libVersion() / 10000, PG_LIBRARY_VERSION_MIN / 10000);
        return;
    }
#define PG_FUNCTION(name) pg_find(library, "PQ" #name, (void **)(void *)&pg_table.name);
    PG_FUNCTION_TABLE(PG_FUNCTION)
#undef PG_FUNCTION
}

const char *pg_load(void)
{
    pthread_once(&once, load);
    return fault;
}
