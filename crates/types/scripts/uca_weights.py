#!/usr/bin/env python3
"""Writes data/uca_primary.bin: primary weights for utf8mb4_0900_ai_ci.

    python3 scripts/uca_weights.py /usr/share/perl/5.36.0/Unicode/Collate/allkeys.txt

Input is the Default Unicode Collation Element Table (Unicode licence). Kept
are the primary weights other than 0 of single characters; contractions are
left out, and variable elements weigh like others (MySQL's 0900 collations are
non-ignorable).

Output, in big-endian 16-bit numbers: the page number plus one (0: none) of
each of the 0x1100 pages of 256 code points; the pages; the expansions. An entry
of a page is a weight below 0x8000 (0: ignorable), 0xFFFF for a character without
an entry, or 0x8000 plus the position of an expansion: a count and so many weights.
"""
import pathlib
import re
import struct
import sys

entries = {}
for line in open(sys.argv[1], encoding="utf-8"):
    match = re.match(r"([0-9A-F]+)\s*;\s*((?:\[[^\]]*\])+)", line)
    if not match:
        continue
    primaries = [int(p, 16) for p in re.findall(r"\[[.*]([0-9A-F]+)\.", match.group(2))]
    entries[int(match.group(1), 16)] = [p for p in primaries if p]

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
    pages.append([number(entries[c]) if c in entries else 0xFFFF for c in codes])
    index.append(len(pages))
assert len(expansions) < 0x7FFF, len(expansions)
numbers = index + [n for page in pages for n in page] + expansions
path = pathlib.Path(__file__).resolve().parent.parent / "data" / "uca_primary.bin"
path.write_bytes(struct.pack(">%dH" % len(numbers), *numbers))
print(len(pages), "pages", len(expansions), "numbers of expansions")
