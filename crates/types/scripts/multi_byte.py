#!/usr/bin/env python3
"""Writes data/multi_byte.bin: East Asian character sets of one or two bytes a character.

    python3 scripts/multi_byte.py /path/to/mysqld.sock

A MariaDB server shows them: characters by CONVERT, the weights of the default collations by WEIGHT_STRING. The order of
sets is that of src/collation/multi_byte.rs.

The file is a sequence of big-endian 16-bit numbers. For each set: the weights of ASCII characters, whose bytes are
themselves; the number of other characters, and each as its code point and its bytes, a single byte as the high one; the
number of characters whose weight is not their bytes, and each with its weight; the number of further bytes that mean a
character, and each with its code point.
"""
import pathlib
import struct
import subprocess
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
SETS = [("cp932", "cp932_japanese_ci"), ("euckr", "euckr_korean_ci"), ("gbk", "gbk_chinese_ci"),
        ("sjis", "sjis_japanese_ci")]


def query(sql):
    reply = subprocess.run(
        ["mariadb", "-S", sys.argv[1], "-N", "-B", "-u", "root", "mysql", "-e", "SET sql_mode='';" + sql],
        stdout=subprocess.PIPE, check=True,
    ).stdout.decode()
    return [line.split("\t") for line in reply.splitlines()]


def left(text):
    """A number of one or two bytes; one byte is the high one."""
    return int((text + "00")[:4], 16)


numbers = []
for charset, collation in SETS:
    rows = query(
        f"SELECT seq, HEX(c), HEX(WEIGHT_STRING(c COLLATE {collation})) FROM (SELECT seq,"
        f" CONVERT(CHAR(seq USING ucs2) USING {charset}) AS c FROM seq_0_to_65535 WHERE seq NOT BETWEEN 55296 AND 57343) AS t"
    )
    found = {int(code): (text, weight) for code, text, weight in rows if text != "3F" or code == "63"}
    ascii = [int(w, 16) for w, in query(
        f"SELECT HEX(WEIGHT_STRING(CHAR(seq USING {charset}) COLLATE {collation})) FROM seq_0_to_127 ORDER BY seq"
    )]
    assert all(w < 0x80 for w in ascii) and [c for c in range(128) if ascii[c] == 0x20] == [0x20], charset
    wide = {c: (left(t), left(w)) for c, (t, w) in found.items() if c >= 128}
    assert all(len(t) <= 4 and len(w) <= 4 for t, w in found.values()), charset
    assert all(t >= 0x8000 and w >= 0x8000 for t, w in wide.values()), charset
    rows = query(
        f"SELECT hi.seq * 256 + lo.seq, HEX(CONVERT(CONVERT(CONCAT(CHAR(hi.seq), CHAR(lo.seq)) USING {charset}) USING ucs2))"
        " FROM seq_128_to_255 AS hi, seq_0_to_255 AS lo"
        " UNION ALL "
        f"SELECT seq * 256, HEX(CONVERT(CONVERT(CHAR(seq) USING {charset}) USING ucs2)) FROM seq_128_to_255"
    )
    others = {}
    for text, code in rows:
        text = int(text)
        if len(code) == 4 and code not in ("003F", "FFFD"):
            code = int(code, 16)
            if wide.get(code, (0,))[0] != text:
                others[text] = code
    weights = {c: w for c, (t, w) in wide.items() if t != w}
    print(charset, len(wide), "characters", len(weights), "weights", len(others), "other bytes", list(others.items())[:5])
    numbers += [*ascii, len(wide)]
    for code, (text, _) in sorted(wide.items()):
        numbers += [code, text]
    for pairs in (weights, others):
        numbers.append(len(pairs))
        for pair in sorted(pairs.items()):
            numbers += pair
(DATA / "multi_byte.bin").write_bytes(struct.pack(">%dH" % len(numbers), *numbers))
