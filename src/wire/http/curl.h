/* libcurl, loaded when it is first needed. It depends on some thirty libraries, and loading them
 * would dominate the start time of every command, including those that use no network. Calls of
 * curl_… functions in this room go through this table. */
#ifndef BELAY_WIRE_CURL_H
#define BELAY_WIRE_CURL_H

/* The type checks are macros with the same names. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include <belay/base.h>

#define CURL_FUNCTION_TABLE(X)                                                                     \
    X(global_init)                                                                                 \
    X(multi_init)                                                                                  \
    X(multi_cleanup)                                                                               \
    X(multi_setopt)                                                                                \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_socket_action)                                                                         \
    X(multi_info_read)                                                                             \
    X(multi_assign)                                                                                \
    X(multi_strerror)                                                                              \
    X(easy_init)                                                                                   \
    X(easy_cleanup)                                                                                \
    X(easy_setopt)                                                                                 \
    X(easy_getinfo)                                                                                \
    X(easy_pause)                                                                                  \
    X(easy_strerror)                                                                               \
    X(slist_append)                                                                                \
    X(slist_free_all)

struct curl_table {
#define CURL_FUNCTION(name) __typeof__(curl_##name) *name;
    CURL_FUNCTION_TABLE(CURL_FUNCTION)
#undef CURL_FUNCTION
};

/* Filled in once, by the first curl_load. */
extern struct curl_table curl_table;

/* Loads libcurl once per process; called on the loop's stack. Returns an empty text, or why it
 * cannot be loaded. */
const char *curl_load(void);

/* These three are macros that count their arguments. */
#undef curl_multi_setopt
#undef curl_easy_setopt
#undef curl_easy_getinfo

#define curl_global_init         curl_table.global_init
#define curl_multi_init          curl_table.multi_init
#define curl_multi_cleanup       curl_table.multi_cleanup
#define curl_multi_setopt        curl_table.multi_setopt
#define curl_multi_add_handle    curl_table.multi_add_handle
#define curl_multi_remove_handle curl_table.multi_remove_handle
#define curl_multi_socket_action curl_table.multi_socket_action
#define curl_multi_info_read     curl_table.multi_info_read
#define curl_multi_assign        curl_table.multi_assign
#define curl_multi_strerror      curl_table.multi_strerror
#define curl_easy_init           curl_table.easy_init
#define curl_easy_cleanup        curl_table.easy_cleanup
#define curl_easy_setopt         curl_table.easy_setopt
#define curl_easy_getinfo        curl_table.easy_getinfo
#define curl_easy_pause          curl_table.easy_pause
#define curl_easy_strerror       curl_table.easy_strerror
#define curl_slist_append        curl_table.slist_append
#define curl_slist_free_all      curl_table.slist_free_all

#endif
