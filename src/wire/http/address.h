/* IPv4 and IPv6 addresses as bytes, and the networks that contain them. */
#ifndef BELAY_WIRE_ADDRESS_H
#define BELAY_WIRE_ADDRESS_H

#include <belay/wire.h>

struct wire_address {
    uint8_t bytes[16];
    size_t size; /* 4 or 16; 0: not an address */
};

struct wire_address wire_address_read(struct bl_text text);
/* True if both are of the same kind and their first `bits` bits are equal. */
bool wire_address_in(const struct wire_address *network, const struct wire_address *address,
                     size_t bits);

#endif
