#!/usr/bin/env python3
"""Writes the tables of character widths for width.c, from Unicode's own data.

Rules, as in terminals: marks that do not advance and invisible format characters take no column,
East Asian wide and fullwidth characters (including emoji) take two, all others one. Unassigned
code points in the blocks of ideographs and pictures are wide, like those blocks.
"""
import sys
import unicodedata

WIDE_BLOCKS = [(0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FFFD),
               (0x30000, 0x3FFFD)]
SOFT_HYPHEN = 0xAD
JAMO_JOINING = [(0x1160, 0x11FF), (0xD7B0, 0xD7FF)]  # join the syllable before them


UNASSIGNED = range(0x40000, 0xE0000)  # empty planes


def within(code, ranges):
    return any(first <= code <= last for first, last in ranges)


def kind(code):
    """Returns the name of the table for a character, or None if it takes one column."""
    character = chr(code)
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Cf", "Zl", "Zp") and code != SOFT_HYPHEN:
        return "zero_width"
    if category == "Mc":
        return "spacing_marks"
    if category == "Cn" and within(code, WIDE_BLOCKS):
        return "wide"
    if within(code, JAMO_JOINING):
        return "zero_width"
    return "wide" if unicodedata.east_asian_width(character) in "WF" else None


def tables():
    found = {"zero_width": [], "wide": [], "spacing_marks": []}
    for code in range(0x80, 0xF0000):
        if code in UNASSIGNED or 0xD800 <= code <= 0xDFFF:
            continue
        name = kind(code)
        if name is None:
            continue
        ranges = found[name]
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return found


def main():
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write(f"/* Unicode {unicodedata.unidata_version}. */\n")
        for name, ranges in tables().items():
            out.write(f"static const struct range {name}[] = {{\n")
            for first, last in ranges:
                out.write(f"    {{0x{first:05X}, 0x{last:05X}}},\n")
            out.write("};\n")


main()
