#include "suite.h"

extern const struct suite local_suite, frame_suite, line_suite;
extern const struct suite sse_suite, sse_pace_suite;
extern const struct suite url_suite;
extern const struct suite proxy_suite;
extern const struct suite client_suite;
extern const struct suite exchange_suite;
extern const struct suite resolver_suite;
extern const struct suite rpc_suite, rpc_call_suite, rpc_message_suite, rpc_queue_suite;
extern const struct suite server_suite;
extern const struct suite server_call_suite;
extern const struct suite transfer_suite;

/* The exchange suite measures memory: in the holes of a heap that others have used, a buffer that
 * grows touches several times its size. */
SUITE_MAIN(&exchange_suite, &local_suite, &frame_suite, &transfer_suite, &line_suite, &sse_suite,
           &sse_pace_suite, &url_suite, &proxy_suite, &client_suite, &resolver_suite,
           &rpc_message_suite, &rpc_queue_suite, &rpc_suite, &rpc_call_suite, &server_suite,
           &server_call_suite)
