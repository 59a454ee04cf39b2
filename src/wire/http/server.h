/* What the files of the server share: a connection's socket, and the call that it serves. */
#ifndef BELAY_WIRE_SERVER_H
#define BELAY_WIRE_SERVER_H

#include <sys/uio.h>
#include <uv.h>

#include <belay/wire.h>

/* A socket with one fiber that reads and writes it. Unlike bl_descriptor it stops a scope when the
 * peer hangs up, without a second fiber to wait for that. On the heap; freed when libuv lets go. */
struct server_socket {
    uv_poll_t poll;
    int fd;
    int watched;             /* events asked of libuv */
    int wanted;              /* what the fiber waits for; 0: it does not */
    struct bl_scope *served; /* stops when the peer hangs up; NULL: none */
    struct bl_semaphore ready;
};

/* Takes the descriptor, also when it fails. */
int server_socket_new(int fd, struct server_socket **ret_socket);
void server_socket_free(struct server_socket *socket, bool reset); /* closes it; NULL is fine */
/* From now on a hang-up stops `scope` (NULL: nothing). One that came before counts as well, at the
 * next turn of the loop. */
void server_socket_serve(struct server_socket *socket, struct bl_scope *scope);
/* Waits until there is something to read: bytes, the end or an error. */
int server_socket_wait(struct server_socket *socket);
/* As bl_descriptor_read. */
int server_socket_read(struct server_socket *socket, void *data, size_t size, size_t *ret_size);
/* All of it; changes the vector. BL_EPIPE: the peer is gone. `*ret_begun` (else left alone) is true
 * when a part of it went out. */
int server_socket_write(struct server_socket *socket, struct iovec *parts, int count,
                        bool *ret_begun);

/* How far the answer of a call is.
 *
 *   open  --answer-->                      ended
 *   open  --begin-->  streaming  --end-->  ended
 *   any   --cut, a write that failed-->    cut
 */
enum call_state {
    CALL_OPEN,
    CALL_STREAMING,
    CALL_ENDED,
    CALL_CUT, /* the connection is of no more use */
};

/* One request and its answer. Embedded in its connection. */
struct bl_http_call {
    struct server_socket *socket;
    enum call_state state;
    struct bl_arena arena;
    struct bl_text method;
    struct bl_text path;
    struct bl_http_header *headers;
    size_t header_count;
    unsigned minor; /* of its HTTP/1.x */
    struct bl_buffer body;
    /* What the headers say. */
    bool chunked;    /* the body of the request */
    bool continues;  /* it waits for 100 before it sends the body */
    uint64_t length; /* of the body, unless chunked */
    bool keeps;      /* the connection is used further */
    bool silent;     /* the answer has no body, whatever is written */
    bool refused; /* answered by the server itself: bytes may be on their way that nobody reads */
    struct bl_scope scope;
};

void call_init(struct bl_http_call *call, struct server_socket *socket);
void call_done(struct bl_http_call *call);
/* Reads the head of a request, with its blank line. 0, or the status that it is refused with. A
 * body that is too large is refused when it is to be read. */
int call_read_head(struct bl_http_call *call, struct bl_text head,
                   const struct bl_http_server_options *options);
/* The answer of the server itself, after which the connection is closed. */
void call_refuse(struct bl_http_call *call, int status);

#endif
