#!/usr/bin/env python3
"""Writes data/uca_400.bin and data/uca_520.bin: weights of utf8mb4_unicode_ci and
utf8mb4_unicode_520_ci.

They are the primary weights of the Default Unicode Collation Element Tables 4.0.0
and 5.2.0 (Unicode licence), as a MariaDB server shows them through WEIGHT_STRING:

    python3 scripts/uca_observed.py /path/to/mysqld.sock

The layout is that of uca_primary.bin (see uca_weights.py). Characters whose weights are
those computed by the rule for characters without an entry have no entry. 4.0.0 knows
the basic plane only: the server gives 0xFFFD for all others.
"""
import pathlib
import struct
import subprocess
import sys

HAN = [(0x4E00, 0x9FA5), (0xFA0E, 0xFA0F), (0xFA11, 0xFA11), (0xFA13, 0xFA14), (0xFA1F, 0xFA1F),
       (0xFA21, 0xFA21), (0xFA23, 0xFA24), (0xFA27, 0xFA29)]


def implicit(code):
    base = 0xFBC0
    if 0x3400 <= code <= 0x4DB5:
        base = 0xFB80
    elif any(low <= code <= high for low, high in HAN):
        base = 0xFB40
    return base + (code >> 15), code & 0x7FFF | 0x8000


def observe(collation, limit):
    sql = (
        "SELECT seq, HEX(WEIGHT_STRING(CONVERT(CHAR(seq USING utf32) USING utf8mb4)"
        f" COLLATE {collation})) FROM seq_0_to_{limit - 1} WHERE seq NOT BETWEEN 55296 AND 57343"
    )
    reply = subprocess.run(
        ["mariadb", "-S", sys.argv[1], "-N", "-B", "-u", "root", "mysql",
         "--default-character-set=utf8mb4", "-e", sql],
        stdout=subprocess.PIPE, check=True,
    ).stdout.decode()
    out = {}
    for line in reply.splitlines():
        code, text = line.split("\t")
        out[int(code)] = tuple(int(text[i:i + 4], 16) for i in range(0, len(text), 4))
    assert len(out) == limit - 2048, len(out)
    return out


def table(collation, limit, name):
    entries = {c: w for c, w in observe(collation, limit).items() if w != implicit(c)}
    assert all(0 not in w for w in entries.values())
    expansions, places = [], {}

    def number(weights):
        if not weights:
            return 0
        if len(weights) == 1 and weights[0] < 0x8000:
            return weights[0]
        if weights not in places:
            places[weights] = len(expansions)
            expansions.extend([len(weights), *weights])
        return 0x8000 + places[weights]

    index, pages = [], []
    for page in range(0x1100):
        codes = range(page * 256, page * 256 + 256)
        if not any(c in entries for c in codes):
            index.append(0)
            continue
        pages.append([number(entries[c]) if c in entries else 0xFFFF for c in codes])
        index.append(len(pages))
    assert len(expansions) < 0x7FFF, len(expansions)
    numbers = index + [n for page in pages for n in page] + expansions
    path = pathlib.Path(__file__).resolve().parent.parent / "data" / name
    path.write_bytes(struct.pack(">%dH" % len(numbers), *numbers))
    print(name, len(pages), "pages", len(expansions), "numbers of expansions")


table("utf8mb4_unicode_ci", 0x10000, "uca_400.bin")
table("utf8mb4_unicode_520_ci", 0x110000, "uca_520.bin")
