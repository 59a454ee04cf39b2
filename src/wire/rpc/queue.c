/* Design notes.
 *
 * Queued bytes are stored in blocks of limited size (except for larger messages), so that memory is
 * freed as bytes are written, and many small messages need little more than their bytes. Text can
 * be added to the last message until it is being written. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <belay/wire.h>

#include "rpc.h"

#define PARTS_MAX 32
/* A block of this size takes no further message. */
#define BLOCK_SIZE ((size_t)64 * 1024)

struct block {
    struct bl_list link;
    struct bl_buffer bytes;
    /* State of its last message: */
    struct bl_buffer key; /* empty: nothing can be added */
    size_t begin;
    size_t tail_size;
};

static struct block *block_of(struct bl_list *link)
{
    return BL_CONTAINER(link, struct block, link);
}

/* True if SIGPIPE would end the process. */
static bool raises_signal(void)
{
    struct sigaction action;
    return sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL;
}

void rpc_queue_init(struct rpc_queue *queue, int fd)
{
    struct stat status;
    *queue = (struct rpc_queue){.fd = fd};
    bl_list_init(&queue->blocks);
    queue->socket = fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
    queue->quiet = !queue->socket && raises_signal();
}

static void block_free(struct block *block)
{
    bl_list_remove(&block->link);
    bl_buffer_done(&block->bytes);
    bl_buffer_done(&block->key);
    bl_free(block);
}

void rpc_queue_clear(struct rpc_queue *queue)
{
    while (!bl_list_empty(&queue->blocks))
        block_free(block_of(queue->blocks.next));
    queue->size = 0;
    queue->gone = 0;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static ssize_t write_parts(const struct rpc_queue *queue, struct iovec *parts, int count)
{
    if (queue->socket)
        return sendmsg(queue->fd, &(struct msghdr){.msg_iov = parts, .msg_iovlen = (size_t)count},
                       MSG_NOSIGNAL | MSG_DONTWAIT);
    return queue->quiet ? bl_write_quietly(queue->fd, parts, count)
                        : writev(queue->fd, parts, count);
}

/* Writes as many bytes as possible at once. Returns 0 with their number, or BL_EAGAIN if none can
 * be written. */
static int write_once(struct rpc_queue *queue, struct iovec *parts, int count, size_t *ret_size)
{
    for (;;) {
        ssize_t size = write_parts(queue, parts, count);
        if (size >= 0) {
            queue->accepted += (uint64_t)size;
            *ret_size = (size_t)size;
            return 0;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return BL_EAGAIN;
        if (errno != EINTR)
            return errno == EPIPE || errno == ECONNRESET ? BL_EPIPE : bl_error_from_errno(errno);
    }
}

static int rpc_queue_collect(const struct rpc_queue *queue, struct iovec parts[PARTS_MAX])
{
    int count = 0;
    BL_LIST_EACH (link, &queue->blocks) {
        struct bl_text bytes = bl_buffer_text(&block_of(link)->bytes);
        size_t gone = count == 0 ? queue->gone : 0;
        parts[count] = (struct iovec){(char *)(uintptr_t)bytes.data + gone, bytes.size - gone};
        if (++count == PARTS_MAX)
            break;
    }
    return count;
}

static void rpc_queue_forget(struct rpc_queue *queue, size_t size)
{
    queue->size -= size;
    queue->gone += size;
    while (!bl_list_empty(&queue->blocks)) {
        struct block *first = block_of(queue->blocks.next);
        if (queue->gone < first->bytes.size)
            break;
        queue->gone -= first->bytes.size;
        block_free(first);
    }
}

int rpc_queue_write(struct rpc_queue *queue)
{
    struct iovec parts[PARTS_MAX];
    int code = 0;
    while (code == 0 && queue->size > 0) {
        size_t size = 0;
        code = write_once(queue, parts, rpc_queue_collect(queue, parts), &size);
        if (size > 0) {
            rpc_queue_forget(queue, size);
            queue->waiting_ns = bl_now_ns();
        }
    }
    return code;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* Returns the block for the next message. */
static struct block *rpc_queue_open_block(struct rpc_queue *queue)
{
    if (!bl_list_empty(&queue->blocks)) {
        struct block *last = block_of(queue->blocks.previous);
        if (last->bytes.size < BLOCK_SIZE)
            return last;
    } else {
        queue->waiting_ns = bl_now_ns();
    }
    struct block *block = bl_zalloc(sizeof *block);
    bl_buffer_init(&block->bytes, SIZE_MAX / 2);
    bl_buffer_init(&block->key, SIZE_MAX / 2);
    bl_list_push_back(&queue->blocks, &block->link);
    return block;
}

static struct block *rpc_queue_push(struct rpc_queue *queue, struct bl_text bytes)
{
    struct block *block = rpc_queue_open_block(queue);
    bl_buffer_clear(&block->key);
    block->begin = block->bytes.size;
    bl_buffer_append(&block->bytes, bytes);
    queue->size += bytes.size;
    return block;
}

/* Queues what cannot be written at once. `*ret_block` is its block if none of the message was
 * written, otherwise NULL. */
static int rpc_queue_take(struct rpc_queue *queue, struct bl_text message, struct block **ret_block)
{
    size_t size = 0;
    *ret_block = NULL;
    while (bl_list_empty(&queue->blocks)) {
        size_t some = 0;
        if (size == message.size)
            return 0;
        struct iovec part = {(char *)(uintptr_t)message.data + size, message.size - size};
        int code = write_once(queue, &part, 1, &some);
        size += some;
        if (code == BL_EAGAIN)
            break;
        if (code != 0)
            return code;
    }
    struct block *block =
        rpc_queue_push(queue, (struct bl_text){message.data + size, message.size - size});
    if (size == 0)
        *ret_block = block;
    return BL_EAGAIN;
}

int rpc_queue_put(struct rpc_queue *queue, struct bl_text message)
{
    struct block *block;
    return rpc_queue_take(queue, message, &block);
}

int rpc_queue_put_open(struct rpc_queue *queue, struct bl_text message, struct bl_text key,
                       size_t tail_size)
{
    struct block *block;
    int code = rpc_queue_take(queue, message, &block);
    if (block != NULL) {
        bl_buffer_append(&block->key, key);
        block->tail_size = tail_size;
    }
    return code;
}

bool rpc_queue_join(struct rpc_queue *queue, struct bl_text key, struct bl_text text)
{
    if (bl_list_empty(&queue->blocks))
        return false;
    struct block *last = block_of(queue->blocks.previous);
    struct bl_buffer *bytes = &last->bytes;
    bool begun = queue->blocks.next == &last->link && queue->gone > last->begin;
    if (begun || key.size == 0 || !bl_text_equal(bl_buffer_text(&last->key), key))
        return false;
    bl_buffer_reserve(bytes, text.size);
    char *tail = bytes->data + bytes->size - last->tail_size;
    memmove(tail + text.size, tail, last->tail_size);
    if (text.size > 0)
        memcpy(tail, text.data, text.size);
    bytes->size += text.size;
    queue->size += text.size;
    return true;
}
