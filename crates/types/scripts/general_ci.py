#!/usr/bin/env python3
"""Writes data/general_ci.bin: the weights of utf8mb4_general_ci.

Pairs of big-endian 16-bit numbers, code point and weight, for the code points
of the basic plane whose weight is not the code point itself, in ascending
order. They are observed from a MariaDB server:

    python3 scripts/general_ci.py /path/to/mysqld.sock
"""
import pathlib
import struct
import subprocess
import sys

sql = "set names utf8mb4;\n"
codes = [c for c in range(0x10000) if not 0xD800 <= c <= 0xDFFF]
for c in codes:
    sql += "select hex(weight_string(_utf8mb4 0x%s collate utf8mb4_general_ci));\n" % (
        chr(c).encode().hex()
    )
reply = subprocess.run(
    ["mariadb", "-S", sys.argv[1], "-N", "-B"],
    input=sql.encode(), stdout=subprocess.PIPE, check=True,
).stdout.decode().split()
weights = [int(w, 16) for w in reply]
assert len(weights) == len(codes)
out = b"".join(struct.pack(">HH", c, w) for c, w in zip(codes, weights) if c != w)
path = pathlib.Path(__file__).resolve().parent.parent / "data" / "general_ci.bin"
path.write_bytes(out)
