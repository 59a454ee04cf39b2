/* A byte-level client for tests of the server: it sends exactly what the test gives it. */
#ifndef BELAY_TESTS_GUEST_H
#define BELAY_TESTS_GUEST_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <belay/wire.h>

#include "peer.h"

struct guest {
    int fd;
    struct bl_descriptor *descriptor;
    struct bl_buffer got;
};

BL_UNUSED static bool guest_connect(struct guest *guest, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bl_buffer_init(&guest->got, (size_t)256 << 20);
    guest->descriptor = NULL;
    guest->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!CHECK(guest->fd >= 0))
        return false;
    return CHECK_EQUAL(connect(guest->fd, (struct sockaddr *)&address, sizeof address), 0) &&
           CHECK_EQUAL(bl_descriptor_new(guest->fd, &guest->descriptor), 0);
}

BL_UNUSED static void guest_close(struct guest *guest)
{
    bl_descriptor_free(guest->descriptor);
    if (guest->fd >= 0)
        close(guest->fd);
    bl_buffer_done(&guest->got);
}

BL_UNUSED static int guest_send(struct guest *guest, struct bl_text bytes)
{
    size_t sent = 0;

    while (sent < bytes.size) {
        ssize_t count = send(guest->fd, bytes.data + sent, bytes.size - sent, MSG_NOSIGNAL);
        if (count >= 0)
            sent += (size_t)count;
        else if (errno != EAGAIN)
            return BL_EPIPE;
        else if (bl_descriptor_wait(guest->descriptor, BL_WRITABLE, NULL) != 0)
            return BL_ECANCELED;
    }
    return 0;
}

BL_UNUSED static int guest_say(struct guest *guest, const char *text)
{
    return guest_send(guest, bl_text_from(text));
}

/* Reads once into `got`. BL_ECLOSED: end of file; BL_EPIPE: a reset. */
BL_UNUSED static int guest_read(struct guest *guest)
{
    size_t count = 0;

    if (bl_buffer_reserve(&guest->got, 65536) != 0)
        return BL_ELIMIT;
    int code =
        bl_descriptor_read(guest->descriptor, guest->got.data + guest->got.size, 65536, &count);
    if (code != 0)
        return code == BL_ECANCELED || code == BL_ETIMEDOUT ? code : BL_EPIPE;
    guest->got.size += count;
    return count > 0 ? 0 : BL_ECLOSED;
}

/* Reads until the server closes: BL_ECLOSED or BL_EPIPE. */
BL_UNUSED static int guest_read_all(struct guest *guest)
{
    int code = 0;

    while (code == 0)
        code = guest_read(guest);
    return code;
}

/* Reads until the received bytes contain that text. */
BL_UNUSED static int guest_await(struct guest *guest, const char *text)
{
    int code = 0;

    while (code == 0 && bl_text_find(bl_buffer_text(&guest->got), bl_text_from(text)) < 0)
        code = guest_read(guest);
    return code;
}

BL_UNUSED static bool guest_has(const struct guest *guest, const char *text)
{
    return bl_text_find(bl_buffer_text(&guest->got), bl_text_from(text)) >= 0;
}

/* Returns the status of the first response received; 0: none. */
BL_UNUSED static int guest_status(const struct guest *guest)
{
    struct bl_text got = bl_buffer_text(&guest->got);

    if (got.size < 12 || !bl_text_starts_with(got, BL_TEXT("HTTP/1.1 ")))
        return 0;
    return (got.data[9] - '0') * 100 + (got.data[10] - '0') * 10 + (got.data[11] - '0');
}

/* Sends the bytes and reads until the server closes. Returns the status of the first response, or
 * 0. */
BL_UNUSED static int guest_ask(struct guest *guest, uint16_t port, struct bl_text bytes)
{
    int status = 0;

    if (guest_connect(guest, port) && guest_send(guest, bytes) == 0) {
        guest_read_all(guest);
        status = guest_status(guest);
    }
    return status;
}

#endif
