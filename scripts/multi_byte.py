#!/usr/bin/env python3
"""Writes the tables of East Asian character sets and of latin1_german2_ci (crates/types/data).

    scripts/multi_byte.py SOCKET

Sources: a MariaDB server at SOCKET shows the characters and weights of its character sets. GB18030, which it lacks, has the
characters of Python's codec and the order of Pinyin of the Common Locale Data Repository, as Node.js sorts by it.

multi_byte.bin has 16-bit numbers, big-endian. For each set: the weights of the 128 ASCII characters; the number of
characters beyond, and each with its bytes; the number of characters whose weight is not their bytes, and each with its
weight; the number of further bytes that stand for a character, and these with it. GB18030 has positions in the order of
Pinyin as weights.
"""

import json
import pathlib
import struct
import subprocess
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "crates/types/data"
SETS = ["cp932", "euckr", "gbk", "sjis", "big5", "gb2312", "ujis", "eucjpms"]
EUC = ["ujis", "eucjpms"]


def query(text):
    command = ["mariadb", "--no-defaults", "-uroot", "-S", sys.argv[1], "-N", "-B", "--default-character-set=utf8mb4"]
    rows = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return [row.split("\t") for row in rows.splitlines()]


def candidates(name):
    codes = [bytes([a]) for a in range(0x80, 0x100)]
    codes += [bytes([a, b]) for a in range(0x80, 0x100) for b in range(1, 0x100)]
    if name in EUC:
        codes += [bytes([0x8F, a, b]) for a in range(0xA1, 0xFF) for b in range(0xA1, 0xFF)]
    return codes


def entry(code):
    """The bytes of a character as one number."""
    if len(code) == 3:
        return code[1] << 8 | code[2] & 0x7F
    return code[0] << 8 | (code[1] if len(code) == 2 else 0)


def observed(name):
    """Rows of bytes, the character they stand for, that character's bytes, and its weight."""
    table = "CREATE TEMPORARY TABLE c (b VARBINARY(3));\n"
    codes = candidates(name)
    for at in range(0, len(codes), 5000):
        values = ",".join(f"(0x{code.hex()})" for code in codes[at : at + 5000])
        table += f"INSERT INTO c VALUES {values};\n"
    text = f"CONVERT(b USING {name})"
    table += (
        f"SELECT HEX(b), HEX(CONVERT({text} USING utf32)), HEX(CONVERT(CONVERT({text} USING utf8mb4) USING {name})), "
        f"HEX(WEIGHT_STRING({text})) FROM c;\n"
    )
    return query("CREATE DATABASE IF NOT EXISTS porpoise_tables; USE porpoise_tables;\n" + table)


def characters(name):
    """Rows of a character beyond ASCII of the basic plane, and its bytes."""
    codes = [code for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000]
    table = "CREATE TEMPORARY TABLE u (c VARCHAR(1) CHARACTER SET utf32);\n"
    for at in range(0, len(codes), 5000):
        values = ",".join(f"(_utf32 0x{code:08x})" for code in codes[at : at + 5000])
        table += f"INSERT INTO u VALUES {values};\n"
    table += f"SELECT HEX(c), HEX(CONVERT(c USING {name})) FROM u;\n"
    return query("CREATE DATABASE IF NOT EXISTS porpoise_tables; USE porpoise_tables;\n" + table)


def ascii_weights(name):
    rows = query("".join(f"SELECT HEX(WEIGHT_STRING(CONVERT(0x{c:02x} USING {name})));" for c in range(0x80)))
    return [int(weight[0] or "0", 16) for weight in rows]


def tables(name):
    numbers = {int(char, 16): entry(bytes.fromhex(code)) for char, code in characters(name) if code != "3F"}
    weights, further = {}, []
    for code, char, back, weight in observed(name):
        if len(char) != 8 or char == "0000003F" or int(char, 16) > 0xFFFF:
            continue
        code, char, back = bytes.fromhex(code), int(char, 16), bytes.fromhex(back)
        if code != back or char < 0x80:
            further.append((entry(code), char))
        elif len(code) < 3 and int(weight, 16) != int(code.hex(), 16):
            weights[char] = int(weight, 16)
    return ascii_weights(name), sorted(numbers.items()), sorted(weights.items()), sorted(further)


PINYIN = """
const order = new Intl.Collator("zh-u-co-pinyin").compare;
const all = [];
for (let code = 0x3400; code < 0x10000; code++) {
    const char = String.fromCharCode(code);
    if (/\\p{Script=Han}/u.test(char) && /\\p{Lo}/u.test(char)) all.push(char);
}
console.log(JSON.stringify(all.sort(order).map((char) => char.charCodeAt(0))));
"""


def gb18030():
    numbers = {}
    for a in range(0x81, 0xFF):
        for b in list(range(0x40, 0x7F)) + list(range(0x80, 0xFF)):
            char = bytes([a, b]).decode("gb18030", errors="replace")
            if len(char) == 1 and char != "\ufffd":
                numbers[ord(char)] = a << 8 | b
    order = json.loads(subprocess.run(["node", "-e", PINYIN], capture_output=True, text=True, check=True).stdout)
    upper = [ord(chr(code).upper()) for code in range(0x80)]
    return upper, sorted(numbers.items()), [(char, at + 1) for at, char in enumerate(order)], []


def main():
    out = []
    for name in SETS + ["gb18030"]:
        weights, *lists = gb18030() if name == "gb18030" else tables(name)
        out += weights
        for pairs in lists:
            out.append(len(pairs))
            out += [number for pair in pairs for number in pair]
        print(name, [len(pairs) for pairs in lists])
    (DATA / "multi_byte.bin").write_bytes(struct.pack(f">{len(out)}H", *out))
    expansions = query(
        "".join(
            f"SELECT HEX(WEIGHT_STRING(CONVERT(0x{c:02x} USING latin1) COLLATE latin1_german2_ci));" for c in range(0x100)
        )
    )
    weights = [bytes.fromhex(row[0]) for row in expansions]
    german2 = bytes(w[0] for w in weights) + bytes(w[1] if len(w) > 1 else 0 for w in weights)
    (DATA / "german2.bin").write_bytes(german2)


main()
