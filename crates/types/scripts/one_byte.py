#!/usr/bin/env python3
"""Writes data/one_byte.bin and data/one_byte_weights.bin: the character sets of one byte.

    python3 scripts/one_byte.py /path/to/mysqld.sock

A MariaDB server shows them: the code points of all bytes by CONVERT, the case mappings by UPPER and LOWER, the weights by
WEIGHT_STRING. The order of sets and of collations is that of src/collation/one_byte.rs.

one_byte.bin has for each set 256 code points in two bytes, big-endian (0 for a byte without a character), 256 bytes in
upper case and 256 in lower case. one_byte_weights.bin has 256 weights for each collation that is not `_bin`.
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent
SOURCE = (HERE / "src" / "collation" / "one_byte.rs").read_text()


def row(expression, charset):
    """The hexadecimal results for all bytes."""
    sql = (
        "SET group_concat_max_len = 100000;"
        f"SELECT GROUP_CONCAT({expression} ORDER BY seq SEPARATOR ' ') FROM"
        f" (SELECT seq, CHAR(seq USING {charset}) AS c FROM seq_0_to_255) AS bytes"
    )
    reply = subprocess.run(
        ["mariadb", "-S", sys.argv[1], "-N", "-B", "-u", "root", "mysql", "-e", sql],
        stdout=subprocess.PIPE, check=True,
    ).stdout.decode()
    out = [int(n, 16) for n in reply.rstrip("\n").split(" ")]
    assert len(out) == 256, (expression, charset, len(out))
    return out


tables, weights = b"", b""
for charset in re.findall(r'^    set\("(\w+)"', SOURCE, re.M):
    codes = row("HEX(CONVERT(c USING ucs2))", charset)
    codes = [0 if code == 0x3F and byte != 0x3F else code for byte, code in enumerate(codes)]
    assert codes[:128] == list(range(128)), charset
    tables += b"".join(code.to_bytes(2, "big") for code in codes)
    tables += bytes(row("HEX(UPPER(c))", charset)) + bytes(row("HEX(LOWER(c))", charset))
    for collation in re.findall(r'\(\d+, "(%s_\w+)"\)' % charset, SOURCE):
        if not collation.endswith("_bin"):
            found = row(f"HEX(WEIGHT_STRING(c COLLATE {collation}))", charset)
            print(collation, "weigh as a space:", [hex(b) for b in range(256) if found[b] == 0x20])
            weights += bytes(found)
(HERE / "data" / "one_byte.bin").write_bytes(tables)
(HERE / "data" / "one_byte_weights.bin").write_bytes(weights)
