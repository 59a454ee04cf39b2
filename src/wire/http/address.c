#include "address.h"

#include <arpa/inet.h>

struct wire_address wire_address_read(struct bl_text text)
{
    struct wire_address address = {.size = 0};
    char string[INET6_ADDRSTRLEN];

    if (text.size == 0 || text.size >= sizeof string)
        return address;
    memcpy(string, text.data, text.size);
    string[text.size] = '\0';
    if (inet_pton(AF_INET, string, address.bytes) == 1)
        address.size = 4;
    else if (inet_pton(AF_INET6, string, address.bytes) == 1)
        address.size = 16;
    return address;
}

bool wire_address_in(const struct wire_address *network, const struct wire_address *address,
                     size_t bits)
{
    size_t whole = bits / 8;
    unsigned rest = bits % 8;

    if (network->size != address->size || bits > network->size * 8 ||
        memcmp(network->bytes, address->bytes, whole) != 0)
        return false;
    if (rest == 0)
        return true;
    unsigned mask = 0xFFu << (8 - rest) & 0xFFu;
    return ((network->bytes[whole] ^ address->bytes[whole]) & mask) == 0;
}

/* ---- Public addresses ------------------------------------------------------------------------ */

/* IANA's special-purpose registries, and 168.63.129.16, which a cloud uses for services to its own
 * machines. */
static const struct reserved_network {
    const char *network;
    size_t bits;
} reserved_four[] = {{"0.0.0.0", 8},       {"10.0.0.0", 8},       {"100.64.0.0", 10},
                     {"127.0.0.0", 8},     {"168.63.129.16", 32}, {"169.254.0.0", 16},
                     {"172.16.0.0", 12},   {"192.0.0.0", 24},     {"192.0.2.0", 24},
                     {"192.88.99.0", 24},  {"192.168.0.0", 16},   {"198.18.0.0", 15},
                     {"198.51.100.0", 24}, {"203.0.113.0", 24},   {"224.0.0.0", 3}},
  /* Addresses outside 2000::/3 are not allocated. Inside: Teredo and others, documentation, 6to4.
   */
    reserved_six[] = {{"2001::", 23}, {"2001:db8::", 32}, {"2002::", 16}, {"3fff::", 20}};
/* IPv6 addresses that embed an IPv4 address in the last four bytes: IPv4-mapped and NAT64. */
static const struct reserved_network carrying[] = {{"::ffff:0:0", 96}, {"64:ff9b::", 96}};

static bool address_is_listed(const struct wire_address *address,
                              const struct reserved_network *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct wire_address network = wire_address_read(bl_text_from(list[i].network));
        if (wire_address_in(&network, address, list[i].bits))
            return true;
    }
    return false;
}

static bool address_is_public(const struct wire_address *address)
{
    static const struct wire_address given_out = {.bytes = {0x20}, .size = 16};
    struct wire_address inside = {.size = 4};

    if (address->size == 4)
        return !address_is_listed(address, reserved_four, BL_COUNT(reserved_four));
    if (address_is_listed(address, carrying, BL_COUNT(carrying))) {
        memcpy(inside.bytes, address->bytes + 12, 4);
        return address_is_public(&inside);
    }
    return wire_address_in(&given_out, address, 3) &&
           !address_is_listed(address, reserved_six, BL_COUNT(reserved_six));
}

bool bl_address_public(const struct sockaddr *address)
{
    struct wire_address bytes = {.size = address->sa_family == AF_INET    ? 4
                                         : address->sa_family == AF_INET6 ? 16
                                                                          : 0};

    if (bytes.size == 4)
        memcpy(bytes.bytes, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    else if (bytes.size == 16)
        memcpy(bytes.bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    return bytes.size > 0 && address_is_public(&bytes);
}

bool bl_url_private(const struct bl_url *url)
{
    static const char *const inner[] = {".local", ".localhost", ".internal", ".home.arpa"};
    struct bl_text host = url->host;
    struct wire_address address = wire_address_read(host);

    if (address.size > 0)
        return !address_is_public(&address);
    if (bl_text_ends_with(host, BL_TEXT(".")))
        host.size--;
    for (size_t i = 0; i < BL_COUNT(inner); i++)
        if (bl_text_ends_with(host, bl_text_from(inner[i])))
            return true;
    return memchr(host.data, '.', host.size) == NULL;
}
