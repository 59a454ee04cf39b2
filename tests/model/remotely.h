/* A model behind a peer: requests go over a real socket, and the test sets the answers, byte by
 * byte. */
#ifndef BELAY_TESTS_REMOTELY_H
#define BELAY_TESTS_REMOTELY_H

#include "front.h"
#include "peer.h"
#include "recorder.h"

#define MS                   BL_NS_PER_MS
#define REMOTELY_ANSWERS_MAX 16u

struct remotely {
    struct bl_nursery nursery;
    struct bl_arena arena;
    struct peer *peer;
    struct front *front; /* proxy for HTTP/2; NULL: the peer itself, over HTTP/1.1 */
    struct peer_act acts[REMOTELY_ANSWERS_MAX][8];
    struct peer_script scripts[REMOTELY_ANSWERS_MAX];
    size_t count;
    struct bl_provider provider;
    struct bl_profile profile;
    struct bl_ledger *ledger;
    struct bl_remote *remote;
    struct bl_model model;
    struct recorder recorder;
};

/* In a fiber. First the answers, then open. Each answer has its own connection; the last one
 * repeats. */
void remotely_init(struct remotely *remotely, enum bl_api api);
void remotely_open(struct remotely *remotely);
void remotely_done(struct remotely *remotely);
/* Adds an answer: status, more headers ("Retry-After: 1\r\n" or ""), body; then the connection
 * closes. */
void remotely_answer(struct remotely *remotely, int status, const char *headers, const char *type,
                     struct bl_text body);
/* The same, cut off after `size` bytes of the body, which have arrived by then. */
void remotely_cut(struct remotely *remotely, struct bl_text body, size_t size);
/* Adds an answer with its own acts. */
void remotely_acts(struct remotely *remotely, const struct peer_act *acts, size_t count);
/* Returns a stream of the format with the text "Hi." and an end. */
struct bl_text remotely_hello(enum bl_api api);
const char *remotely_type(enum bl_api api); /* of its streams */
/* Adds that stream as the next answer. */
void remotely_answer_hello(struct remotely *remotely);

int remotely_ask(struct remotely *remotely, const char *text);

#endif
