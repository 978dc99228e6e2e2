#!/usr/bin/env python3
"""Writes data/uca_0900_languages.bin: how languages differ from the weights of utf8mb4_0900_as_cs.

    python3 scripts/uca_0900_languages.py /usr/share/perl/5.36.0/Unicode/Collate/Locale

Input are the tailorings of the Unicode Common Locale Data Repository (Unicode licence), as Perl's Unicode::Collate has
them: entries of the Default Unicode Collation Element Table 13 that a language replaces or adds.

The file is laid out as uca_languages.bin, with three parts for each language, in the order of LANGUAGES: its primary,
secondary and tertiary weights. Secondary and tertiary weights are 0x100 more than in the input. Contractions are in the
order of their first characters, longer ones first.
"""
import pathlib
import re
import struct
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
# In the order of `known::LANGUAGES_900`.
LANGUAGES = [
    "de_phone", "is", "lv", "ro", "sl", "pl", "et", "es", "sv", "tr", "cs", "da", "lt", "sk", "es_trad", "eo", "hu", "hr", "vi",
    "nb", "nn",
]
LINE = re.compile(r"((?:[0-9A-F]{4,6} ?)+)\s*;\s*((?:\[[^\]]*\])+)")

numbers = []
for language in LANGUAGES:
    text = (pathlib.Path(sys.argv[1]) / f"{language}.pl").read_text(encoding="utf-8")
    entries = {}
    for codes, elements in LINE.findall(text):
        codes = tuple(int(code, 16) for code in codes.split())
        found = re.findall(r"\[[.*]([0-9A-F]+)\.([0-9A-F]+)\.([0-9A-F]+)", elements)
        assert max(codes) < 0x10000 and found, (language, codes)
        entries[codes] = [[int(weight, 16) for weight in element] for element in found]
    characters = sorted(codes for codes in entries if len(codes) == 1)
    contractions = sorted((c for c in entries if len(c) > 1), key=lambda c: (c[0], -len(c), c))
    print(language, len(characters), "characters", len(contractions), "contractions")
    for level in range(3):
        more = 0x100 if level else 0
        numbers += [len(characters), len(contractions)]
        for codes in characters + contractions:
            weights = [e[level] + more for e in entries[codes] if e[level]]
            numbers += [*([len(codes)] if len(codes) > 1 else []), *codes, len(weights), *weights]
(DATA / "uca_0900_languages.bin").write_bytes(struct.pack(">%dH" % len(numbers), *numbers))
