"""Writes texts, one after another, as a C array that ends in NUL: embed.py NAME OUTPUT INPUT..."""
import pathlib
import sys

name, output, *inputs = sys.argv[1:]
data = b"".join(pathlib.Path(path).read_bytes() for path in inputs)
lines = [", ".join(str(byte) for byte in data[i:i + 24]) for i in range(0, len(data), 24)]
pathlib.Path(output).write_text(
    f"static const char {name}[] = {{\n    " + ",\n    ".join(lines) + ", 0};\n")
