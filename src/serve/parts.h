/* What the files of this room share. */
#ifndef BELAY_SERVE_PARTS_H
#define BELAY_SERVE_PARTS_H

#include <belay/serve.h>
#include <belay/wire.h>

/* Bytes of one answer that an asker takes. */
#define SERVE_ANSWER_MAX ((size_t)16 << 20)
#define SERVE_PATH_SIZE  1024

/* How long the other side of a connection may take: BL_CONTROL_NS_MAX, and less only in tests. */
extern uint64_t serve_patience_ns;

/* ---- The folder ------------------------------------------------------------------------------ */

/* The path of a socket in the folder of sockets. BL_ELIMIT: longer than that. */
int serve_path(const char *name, char *out, size_t out_size);
/* "4711.sock", "4711-2.sock": true, with the number; false: not the name of a control socket. */
bool serve_name_parse(const char *name, int64_t *ret_pid);

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
