/* One line of JSON-RPC in, one out. */
#ifndef BELAY_SERVE_REQUEST_H
#define BELAY_SERVE_REQUEST_H

#include "parts.h"

#define SERVE_OFFERS_MAX 16

/* Methods of whoever does the work. */
struct serve_offers {
    struct bl_control_offer items[SERVE_OFFERS_MAX];
    size_t count;
};

/* What requests are about. */
struct serve_requests {
    struct bl_activities *activities;
    int64_t started_wall_ns;
    const struct serve_offers *offers; /* NULL: none */
    struct serve_line *client;         /* who asks: watched while an offer works; NULL: nobody */
};

/* Does what the line says and makes the answer, with its LF; of a notification, an empty one. Waits
 * as long as that takes. BL_ECANCELED, BL_ETIMEDOUT: the running fiber's scope was stopped;
 * BL_EPIPE: the client has gone. */
int serve_request(const struct serve_requests *requests, struct bl_text line,
                  struct bl_buffer *ret_answer);
/* An answer that says what went wrong. `id` NULL: it is not known. */
void serve_failure(struct bl_buffer *answer, const struct bl_json *id, int code,
                   const char *message);

#endif
