#!/usr/bin/env python3
"""Writes the table of powers of ten that number.c reads and prints doubles with.

Entry k is 10^k scaled by a power of two to exactly 128 bits and rounded up, computed with exact
integers, so that no table of typed constants has to be trusted.
"""
import sys

FIRST = -342  # below, 19 digits vanish; number.c names the same bounds
LAST = 324    # what the smallest subnormal needs to be printed


def scaled(k):
    """ceil(10^k * 2^(127 - floor(log2(10^k))))"""
    numerator, denominator = (10**k, 1) if k >= 0 else (1, 10**-k)
    shift = 127 - (numerator.bit_length() - denominator.bit_length())
    while True:
        top = numerator << max(shift, 0)
        bottom = denominator << max(-shift, 0)
        value = -(-top // bottom)
        floor_bits = (top // bottom).bit_length()
        if floor_bits == 128:
            return value
        shift += 128 - floor_bits


def main():
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write(f"#define POWER_FIRST ({FIRST})\n#define POWER_LAST {LAST}\n\n")
        out.write("static const struct power powers[] = {\n")
        for k in range(FIRST, LAST + 1):
            value = scaled(k)
            assert value >> 128 == 0
            high, low = value >> 64, value & (2**64 - 1)
            out.write(f"    {{0x{high:016x}, 0x{low:016x}}}, /* 1e{k} */\n")
        out.write("};\n")


main()
