/* An exchange, shared by its two halves: the functions of the fiber (exchange.c), and the curl
 * callbacks on the loop's stack (transfer.c). */
#ifndef BELAY_WIRE_EXCHANGE_H
#define BELAY_WIRE_EXCHANGE_H

#include "client.h"

/* Phases occur in this order. Some may be skipped: a reused connection needs no lookup, and any
 * phase may be followed by the end. Only exchange_move changes the phase. */
enum exchange_phase {
    PHASE_NEW,
    PHASE_NAMES,
    PHASE_CONNECTING,
    PHASE_SENDING,
    PHASE_ANSWERING, /* the status line was received */
    PHASE_ENDED,
};

struct received_header {
    struct bl_list link;
    struct bl_text name; /* in lower case */
    struct bl_text value;
};

struct bl_exchange {
    struct bl_client *client;
    struct bl_http_request request;
    struct bl_arena arena;
    struct bl_url url;
    const char *proxy; /* NULL: direct */
    CURL *easy;        /* NULL: not started, or ended */
    int socket;        /* the latest that curl opened for it; negative: none */
    struct curl_slist *headers_sent;
    struct curl_slist *addresses;
    struct bl_scope *scope;  /* scope of the caller */
    struct bl_scope timing;  /* its child; the deadline is the running timer */
    struct bl_stop_hook cut; /* on `timing` */
    struct bl_semaphore changed;
    enum exchange_phase phase;
    bool was_cut;
    bool abandoned;
    bool over_limit;
    bool address_refused; /* not public */
    bool paused;
    bool headers_complete;
    enum bl_exchange_where where; /* the phase in which it ended */
    int status;
    uint32_t header_count;
    size_t header_bytes;
    struct bl_list headers; /* struct received_header */
    struct bl_buffer received;
    struct bl_buffer taken;
    uint64_t body_bytes;
    uint64_t uploaded;
    uint64_t stall_left_ns;
    struct bl_wire_failure failure;
    char curl_text[CURL_ERROR_SIZE];
};

void exchange_move(struct bl_exchange *exchange, enum exchange_phase to);
/* Records the first failure, and returns BL_EIO. */
int exchange_fail(struct bl_exchange *exchange, const char *code, bool timed_out,
                  const char *message);
/* Starts a timer from now; 0 starts none. */
void exchange_set_timer(struct bl_exchange *exchange, uint64_t duration_ns);

/* Called on the loop's stack with the exchange as argument. */
void transfer_begin(void *argument);
void transfer_cut(void *argument);
void transfer_resume(void *argument);
/* Returns the current phase. */
enum bl_exchange_where transfer_where(const struct bl_exchange *exchange);

#endif
