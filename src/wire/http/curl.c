#include "curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define LIBRARY "libcurl.so.4"

struct curl_table curl_table;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char fault[256];

/* Converts an object pointer to a function pointer, which POSIX permits. */
static void curl_find(void *library, const char *name, void **ret_function)
{
    *ret_function = dlsym(library, name);
    if (*ret_function == NULL)
        snprintf(fault, sizeof fault, "%s has no %s", LIBRARY, name);
}

static void http_curl_load(void)
{
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);

    if (library == NULL) {
        bl_text_into(fault, sizeof fault, dlerror());
        return;
    }
#define CURL_FUNCTION(name) curl_find(library, "curl_" #name, (void **)(void *)&curl_table.name);
    CURL_FUNCTION_TABLE(CURL_FUNCTION)
#undef CURL_FUNCTION
    if (fault[0] == '\0')
        curl_table.global_init(CURL_GLOBAL_DEFAULT);
}

const char *curl_load(void)
{
    pthread_once(&once, http_curl_load);
    return fault;
}
