/* What the files of this room share. */
#ifndef BELAY_SERVE_PARTS_H
#define BELAY_SERVE_PARTS_H

#include <sys/un.h>

#include <belay/serve.h>

/* Bytes of one answer that an asker takes. */
#define SERVE_ANSWER_MAX ((size_t)16 << 20)

/* How long the other side of a connection may take: BL_CONTROL_NS_MAX, and less only in tests. */
extern uint64_t serve_patience_ns;

/* ---- The folder ------------------------------------------------------------------------------ */

/* Opens the folder of the sockets, made first if `create` says so. BL_ENOENT: it is not there;
 * BL_EACCES: others may look into it. The descriptor is the caller's to close. */
int serve_folder_open(bool create, int *ret_fd, struct bl_error *error);
/* The address of a socket in it: by its whole name, or where that is too long for an address, by
 * the descriptor, which must then stay open for as long as the address is used. */
void serve_address(int folder, const char *name, struct sockaddr_un *ret_address);
/* "4711.sock", "4711-2.sock": true, with the number; false: not the name of a control socket. */
bool serve_name_parse(const char *name, int64_t *ret_pid);
/* What a socket is called before it listens. `chance` makes it one of many. */
void serve_name_hidden(uint64_t chance, char out[32]);
bool serve_name_is_hidden(const char *name);
/* Connects without waiting. 0; BL_EAGAIN: too many wait to be let in; BL_ENOENT: nobody listens, or
 * there is no such socket; others as the system says. */
int serve_connect(int folder, const char *name, int *ret_fd);

/* ---- Lines over a socket --------------------------------------------------------------------- */

/* One end of a connection: lines in, lines out. Embedded by its owner. */
struct serve_line {
    int fd;
    struct bl_descriptor *descriptor;
    struct bl_buffer in; /* what has come and is not taken; at most a line and its LF */
    size_t taken;        /* bytes of the line that was answered last */
};

/* Takes over the descriptor, also when it fails. */
int serve_line_init(struct serve_line *line, int fd, size_t line_max);
void serve_line_done(struct serve_line *line);
/* The next line, without its LF; stays until the next call. The first byte may take `idle_ns`, the
 * rest of it `limit_ns` from there. BL_ECLOSED: the other side has no more; BL_ELIMIT: longer than
 * the maximum; BL_EAGAIN: it took too long; BL_ECANCELED, BL_ETIMEDOUT: the scope was stopped. */
int serve_line_read(struct serve_line *line, uint64_t idle_ns, uint64_t limit_ns,
                    struct bl_text *ret_line);
/* All of it, in `limit_ns`. BL_EPIPE: the other side is gone; else as above. */
int serve_line_write(struct serve_line *line, struct bl_text text, uint64_t limit_ns);

#endif
