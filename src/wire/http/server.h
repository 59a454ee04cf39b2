/* Declarations shared by the files of the server: the socket of a connection, and the call that it
 * serves. */
#ifndef BELAY_WIRE_SERVER_H
#define BELAY_WIRE_SERVER_H

#include <sys/uio.h>
#include <uv.h>

#include <belay/wire.h>

/* A socket that one fiber reads and writes. Unlike bl_descriptor it stops a scope when the peer
 * hangs up, without a second fiber. Allocated on the heap, and freed when libuv has closed it. */
struct server_socket {
    uv_poll_t poll;
    int fd;
    int watched;             /* events requested from libuv */
    int wanted;              /* events the fiber waits for; 0: none */
    struct bl_scope *served; /* stopped when the peer hangs up; may be NULL */
    struct bl_semaphore ready;
};

/* Takes over the descriptor, even if it fails. */
int server_socket_new(int fd, struct server_socket **ret_socket);
void server_socket_free(struct server_socket *socket, bool reset); /* closes it; NULL is allowed */
/* From now on a hang-up stops `scope` (NULL: nothing). An earlier hang-up counts as well, at the
 * next turn of the loop. */
void server_socket_serve(struct server_socket *socket, struct bl_scope *scope);
/* Waits for bytes, end of file or an error. */
int server_socket_wait(struct server_socket *socket);
/* Like bl_descriptor_read. */
int server_socket_read(struct server_socket *socket, void *data, size_t size, size_t *ret_size);
/* Writes all parts, and changes the vector. BL_EPIPE: the peer has disconnected. Sets `*ret_begun`
 * to true if some bytes were written; otherwise leaves it unchanged. */
int server_socket_write(struct server_socket *socket, struct iovec *parts, int count,
                        bool *ret_begun);

/* The state of the response:
 *
 *   open  --answer-->                      ended
 *   open  --begin-->  streaming  --end-->  ended
 *   any   --cut, a failed write-->         cut */
enum call_state {
    CALL_OPEN,
    CALL_STREAMING,
    CALL_ENDED,
    CALL_CUT, /* the connection cannot be used any more */
};

/* A request and its response. Embedded in its connection. */
struct bl_http_call {
    struct server_socket *socket;
    enum call_state state;
    struct bl_arena arena;
    struct bl_text method;
    struct bl_text path;
    struct bl_http_header *headers;
    size_t header_count;
    unsigned minor; /* minor version, 1 of HTTP/1.1 */
    struct bl_buffer body;
    /* Values from the headers. */
    bool chunked;    /* request body is chunked */
    bool continues;  /* client waits for 100 Continue before the body */
    uint64_t length; /* of the body, unless it is chunked */
    bool keeps;      /* the connection is kept open */
    bool silent;     /* the response has no body, even if one is written */
    bool refused;    /* answered by the server itself; unread bytes may arrive */
    struct bl_scope scope;
};

void call_init(struct bl_http_call *call, struct server_socket *socket);
void call_done(struct bl_http_call *call);
/* Reads the header of a request, including its blank line. Returns 0, or the status to refuse it
 * with. A body that is too large is refused when it is read. */
int call_read_head(struct bl_http_call *call, struct bl_text head,
                   const struct bl_http_server_options *options);
/* Sends a response of the server itself; the connection is closed afterwards. */
void call_refuse(struct bl_http_call *call, int status);

#endif
