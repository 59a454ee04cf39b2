/* A model of a provider, and one call of it. */
#ifndef BELAY_MODEL_REMOTE_H
#define BELAY_MODEL_REMOTE_H

#include "provider.h"

#define REMOTE_HEADERS_MAX 64u

struct bl_remote {
    struct bl_remote_options options;
    const struct model_api *api;
    struct bl_client *client; /* NULL: nothing was sent yet */
    struct bl_compat compat;  /* configured and learned */
    struct bl_random random;
    struct bl_arena arena;
    const char *url;
    const char *path;      /* of the URL */
    const char *count_url; /* of the provider's token counter; NULL if it has none */
    const char *count_path;
    struct bl_http_header headers[REMOTE_HEADERS_MAX];
    size_t header_count;
    uint64_t connect_ns;
    uint64_t first_byte_ns;
    uint64_t stall_ns;
};

/* One call: as many attempts and continuations as needed. On the heap: fibers have small stacks. */
struct remote_call {
    struct bl_remote *remote;
    const struct bl_request *request;
    struct bl_sink *sink;
    struct bl_arena arena;
    struct model_assembly assembly;
    struct model_decoder decoder;
    struct bl_text resumed; /* of an answer that paused; empty if none */
    uint32_t pauses;
    bool learned; /* from a refusal: once per call */
    uint64_t max_output_tokens;
    double reserved_usd;
    struct bl_buffer body;
    struct model_images sent; /* in the body */
    int status;
    struct bl_error *error;
};

/* Sends one request and reads its answer to the end. Returns 0 if it finished (or paused:
 * assembly.pause); BL_EIO with assembly.failure; BL_ECANCELED, BL_ETIMEDOUT, or the sink's code;
 * other codes with the error filled. */
int remote_attempt(struct remote_call *call);
/* Sends the body to `path` and returns the whole JSON answer, in the call's arena; for small
 * questions besides the call. BL_EIO: no usable answer. */
int remote_question(struct remote_call *call, const char *url, const char *path,
                    const struct bl_json **ret_answer);
/* Writes the body of the request into call->body. */
int remote_build(struct remote_call *call, bool count_only);

#endif
