#!/usr/bin/env python3
"""Writes data/uca_languages.bin: how languages differ from the weights of utf8mb4_unicode_ci.

    python3 scripts/uca_languages.py /path/to/mysqld.sock

A MariaDB server shows the weights through WEIGHT_STRING. Contractions are found by trying: two or three characters of the
scripts that languages tailor, whose weights together are not those of each.

The file is a sequence of big-endian 16-bit numbers. For each language, in the order of src/collation/known.rs: the number
of characters and the number of contractions; each character with its number of weights and these; for each contraction the
number of its characters, these, the number of its weights and these. Longer contractions come first.
"""
import pathlib
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent
LANGUAGES = [
    "icelandic", "latvian", "romanian", "slovenian", "polish", "estonian", "spanish", "swedish", "turkish", "czech", "danish",
    "lithuanian", "slovak", "spanish2", "roman", "persian", "esperanto", "hungarian", "sinhala", "german2",
    "croatian_mysql561", "vietnamese",
]
# Letters that can be parts of contractions: Latin, combining marks, Sinhala, Arabic.
PARTS = [
    *range(0x41, 0x5B), *range(0x61, 0x7B), *range(0xC0, 0x250), *range(0x300, 0x346), *range(0x621, 0x66F),
    *range(0xD80, 0xE00), 0x27, 0x2D, 0xB7,
]


def query(sql):
    reply = subprocess.run(
        ["mariadb", "-S", sys.argv[1], "-N", "-B", "-u", "root", "mysql", "--default-character-set=utf8mb4"],
        input=sql.encode(), stdout=subprocess.PIPE, check=True,
    ).stdout.decode()
    return [line.split("\t") for line in reply.splitlines()]


def weights(text):
    return tuple(int(text[i:i + 4], 16) for i in range(0, len(text), 4))


def of_characters(collation):
    rows = query(
        "SELECT seq, HEX(WEIGHT_STRING(CONVERT(CHAR(seq USING ucs2) USING utf8mb4)"
        f" COLLATE {collation})) FROM seq_0_to_65535 WHERE seq NOT BETWEEN 55296 AND 57343"
    )
    return {int(code): weights(text) for code, text in rows}


def contractions(collation, prefixes):
    """Prefixes (hexadecimal utf8) that together with a part weigh otherwise than alone."""
    ours = f"CONVERT(%s USING utf8mb4) COLLATE {collation}"
    both, first, second = (f"HEX(WEIGHT_STRING({ours % text}))" for text in ("CONCAT(p.c, q.c)", "p.c", "q.c"))
    values = ", ".join(f"(x'{p.encode().hex()}')" for p in prefixes)
    return [
        (bytes.fromhex(text).decode(), weights(found))
        for text, found in query(
            "CREATE TEMPORARY TABLE p (c VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin);"
            f"INSERT INTO p VALUES {values};"
            "CREATE TEMPORARY TABLE q (c VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin);"
            f"INSERT INTO q VALUES {', '.join(f'(x{chr(39)}{chr(c).encode().hex()}{chr(39)})' for c in PARTS)};"
            f"SELECT HEX(CONCAT(p.c, q.c)), {both} FROM p, q WHERE {both} <> CONCAT({first}, {second})"
        )
    ]


base = of_characters("utf8mb4_unicode_ci")
numbers = []
for language in LANGUAGES:
    collation = f"utf8mb4_{language}_ci"
    found = of_characters(collation)
    changed = {code: of for code, of in found.items() if of != base[code]}
    pairs = contractions(collation, [chr(c) for c in PARTS])
    triples = contractions(collation, [text for text, _ in pairs]) if pairs else []
    # A part behind a contraction that makes one with its last character is no contraction of three.
    triples = [t for t in triples if t[0][1:] not in dict(pairs) or t[1][:1] not in [found[ord(t[0][0])][:1]]]
    print(language, len(changed), "characters", [t for t, _ in pairs], [t for t, _ in triples])
    numbers += [len(changed), len(triples) + len(pairs)]
    for code, of in sorted(changed.items()):
        numbers += [code, len(of), *of]
    for text, of in triples + pairs:
        numbers += [len(text), *map(ord, text), len(of), *of]
    assert all(0 < w < 0xFFFE for of in [*changed.values(), *dict(pairs).values()] for w in of), language
(HERE / "data" / "uca_languages.bin").write_bytes(struct.pack(">%dH" % len(numbers), *numbers))
