/* One line of JSON-RPC in, one out. */
#ifndef BELAY_SERVE_REQUEST_H
#define BELAY_SERVE_REQUEST_H

#include <belay/serve.h>

/* What requests are about. */
struct serve_requests {
    struct bl_activities *activities;
    int64_t started_wall_ns;
};

/* Does what the line says and makes the answer, with its LF; of a notification, an empty one. Waits
 * as long as that takes. BL_ECANCELED, BL_ETIMEDOUT: the running fiber's scope was stopped. */
int serve_request(const struct serve_requests *requests, struct bl_text line,
                  struct bl_buffer *ret_answer);
/* An answer that says what went wrong. `id` NULL: it is not known. */
void serve_failure(struct bl_buffer *answer, const struct bl_json *id, int code,
                   const char *message);

#endif
