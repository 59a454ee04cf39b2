"""Writes a file's bytes as a C array: embed.py INPUT OUTPUT."""
import pathlib
import sys

data = pathlib.Path(sys.argv[1]).read_bytes()
lines = [", ".join(str(byte) for byte in data[i:i + 24]) for i in range(0, len(data), 24)]
pathlib.Path(sys.argv[2]).write_text(
    "static const char prelude_source[] = {\n    " + ",\n    ".join(lines) + ", 0};\n")
