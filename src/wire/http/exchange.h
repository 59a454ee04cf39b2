/* One exchange, as its two halves share it: what the fiber does (exchange.c), and what curl does on
 * the loop's stack (transfer.c). */
#ifndef BELAY_WIRE_EXCHANGE_H
#define BELAY_WIRE_EXCHANGE_H

#include "client.h"

/* Phases follow each other in this order, and some are left out: a connection that is used again
 * has no names to look up, and any may end. exchange_move alone moves it. */
enum exchange_phase {
    PHASE_NEW,
    PHASE_NAMES,
    PHASE_CONNECTING,
    PHASE_SENDING,
    PHASE_ANSWERING, /* the status line is here */
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
    CURL *easy;        /* NULL: not begun, or ended */
    int socket;        /* the newest that curl opened for it; negative: none yet */
    struct curl_slist *headers_sent;
    struct curl_slist *addresses;
    struct bl_scope *scope;  /* the caller's */
    struct bl_scope timing;  /* below it: its deadline is the timer that runs */
    struct bl_stop_hook cut; /* on `timing` */
    struct bl_semaphore changed;
    enum exchange_phase phase;
    bool was_cut;
    bool abandoned;
    bool over_limit;
    bool paused;
    bool headers_complete;
    char place[32]; /* where it was, once it is over */
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
/* Notes the first failure, and returns BL_EIO. */
int exchange_fail(struct bl_exchange *exchange, const char *code, bool timed_out,
                  const char *message);
/* Starts the timer that counts from now on; 0: none does. */
void exchange_set_timer(struct bl_exchange *exchange, uint64_t duration_ns);

/* On the loop's stack; the argument is the exchange. */
void transfer_begin(void *argument);
void transfer_cut(void *argument);
void transfer_resume(void *argument);
/* Where it is; empty: in the body. */
const char *transfer_place(const struct bl_exchange *exchange);

#endif
