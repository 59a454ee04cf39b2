#include <assert.h>

#include "parts.h"

/* A ring of `capacity` items. Items go from hand to hand where somebody waits: a receiver waits
 * only when the ring is empty, a sender only when it is full, and a fiber that was woken with 0 has
 * received or sent, so that a stop can neither lose nor double an item. */
struct bl_channel {
    size_t item_size;
    size_t capacity;
    size_t count;
    size_t first;
    bool closed;
    struct bl_list senders;
    struct bl_list receivers;
    char ring[];
};

struct bl_channel *bl_channel_new(size_t item_size, size_t capacity)
{
    assert(item_size > 0 && capacity > 0 && capacity <= SIZE_MAX / 2 / item_size);
    struct bl_channel *channel = bl_alloc(sizeof *channel + item_size * capacity);
    *channel = (struct bl_channel){.item_size = item_size, .capacity = capacity};
    bl_list_init(&channel->senders);
    bl_list_init(&channel->receivers);
    return channel;
}

void bl_channel_free(struct bl_channel *channel)
{
    if (channel == NULL)
        return;
    assert(bl_list_empty(&channel->senders) && bl_list_empty(&channel->receivers));
    bl_free(channel);
}

static char *ring_slot(struct bl_channel *channel, size_t offset)
{
    return channel->ring + (channel->first + offset) % channel->capacity * channel->item_size;
}

static void ring_push(struct bl_channel *channel, const void *item)
{
    memcpy(ring_slot(channel, channel->count), item, channel->item_size);
    channel->count++;
}

static void ring_pop(struct bl_channel *channel, void *ret_item)
{
    memcpy(ret_item, ring_slot(channel, 0), channel->item_size);
    channel->first = (channel->first + 1) % channel->capacity;
    channel->count--;
}

int bl_channel_try_send(struct bl_channel *channel, const void *item)
{
    if (channel->closed)
        return BL_ECLOSED;
    struct bl_fiber *receiver = fiber_first(&channel->receivers);
    if (receiver != NULL) {
        memcpy(receiver->wait_data, item, channel->item_size);
        fiber_wake(receiver, 0);
        return 0;
    }
    if (channel->count == channel->capacity)
        return BL_EAGAIN;
    ring_push(channel, item);
    return 0;
}

int bl_channel_send(struct bl_channel *channel, const void *item)
{
    int code = scope_code(bl_scope_current());
    if (code == 0)
        code = bl_channel_try_send(channel, item);
    if (code != BL_EAGAIN)
        return code;
    union {
        const void *in;
        void *out;
    } data = {.in = item};
    bl_fiber_current()->wait_data = data.out;
    return fiber_wait(&channel->senders, "room in a channel", WAIT_STOPPABLE);
}

int bl_channel_try_receive(struct bl_channel *channel, void *ret_item)
{
    if (channel->count == 0)
        return channel->closed ? BL_ECLOSED : BL_EAGAIN;
    ring_pop(channel, ret_item);
    struct bl_fiber *sender = fiber_first(&channel->senders);
    if (sender != NULL) {
        ring_push(channel, sender->wait_data);
        fiber_wake(sender, 0);
    }
    return 0;
}

int bl_channel_receive(struct bl_channel *channel, void *ret_item)
{
    int code = scope_code(bl_scope_current());
    if (code == 0)
        code = bl_channel_try_receive(channel, ret_item);
    if (code != BL_EAGAIN)
        return code;
    bl_fiber_current()->wait_data = ret_item;
    return fiber_wait(&channel->receivers, "an item of a channel", WAIT_STOPPABLE);
}

void bl_channel_close(struct bl_channel *channel)
{
    channel->closed = true;
    struct bl_fiber *fiber;
    while ((fiber = fiber_first(&channel->senders)) != NULL)
        fiber_wake(fiber, BL_ECLOSED);
    while ((fiber = fiber_first(&channel->receivers)) != NULL)
        fiber_wake(fiber, BL_ECLOSED);
}
