#!/usr/bin/env python3
"""Writes data/uca_primary.bin, uca_secondary.bin and uca_tertiary.bin: weights for the 0900 collations.

    python3 scripts/uca_weights.py /usr/share/perl/5.36.0/Unicode/Collate/allkeys.txt

Input is the Default Unicode Collation Element Table (Unicode licence). Kept
are the weights other than 0 of single characters on each level; contractions are
left out, and variable elements weigh like others (MySQL's 0900 collations are
non-ignorable). Secondary and tertiary weights are 0x100 more than in the input, so
that the first byte of none is 0.

Output, in big-endian 16-bit numbers: the page number plus one (0: none) of
each of the 0x1100 pages of 256 code points; the pages; the expansions. An entry
of a page is a weight below 0x8000 (0: ignorable), 0xFFFF for a character without
an entry, or 0x8000 plus the position of an expansion: a count and so many weights.
"""
import pathlib
import re
import struct
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
elements = {}
for line in open(sys.argv[1], encoding="utf-8"):
    match = re.match(r"([0-9A-F]+)\s*;\s*((?:\[[^\]]*\])+)", line)
    if match:
        found = re.findall(r"\[[.*]([0-9A-F]+)\.([0-9A-F]+)\.([0-9A-F]+)", match.group(2))
        elements[int(match.group(1), 16)] = [[int(weight, 16) for weight in element] for element in found]


def write(level, name):
    more = 0x100 if level else 0
    entries = {code: [e[level] + more for e in found if e[level]] for code, found in elements.items()}
    expansions, places = [], {}

    def number(weights):
        if not weights:
            return 0
        if len(weights) == 1 and weights[0] < 0x8000:
            return weights[0]
        key = tuple(weights)
        if key not in places:
            places[key] = len(expansions)
            expansions.extend([len(weights), *weights])
        return 0x8000 + places[key]

    index, pages = [], []
    for page in range(0x1100):
        codes = range(page * 256, page * 256 + 256)
        if not any(c in entries for c in codes):
            index.append(0)
            continue
        numbers = [number(entries[c]) if c in entries else 0xFFFF for c in codes]
        if numbers not in pages:
            pages.append(numbers)
        index.append(pages.index(numbers) + 1)
    assert len(expansions) < 0x7000, len(expansions)
    numbers = index + [n for page in pages for n in page] + expansions
    (DATA / name).write_bytes(struct.pack(">%dH" % len(numbers), *numbers))
    print(name, len(pages), "pages", len(expansions), "numbers of expansions")


for level, name in enumerate(["uca_primary.bin", "uca_secondary.bin", "uca_tertiary.bin"]):
    write(level, name)
