#!/usr/bin/env python3
"""Records searches of InnoDB in tests/data/full_text.tsv: full_text.py SOCKET [SEED].

SOCKET is that of a MariaDB server without data of value: the database `g` is dropped and created. Searches
have the shapes in which InnoDB follows the manual; src/full_text/mod.rs names the others.
"""

import random
import subprocess
import sys
from pathlib import Path

TEXTS = (
    "quick brown fox foo foobar food database data base lazy dog the for it x naïve APFEL äpfel "
    "run_time 2024 20 web-site rock'n'roll"
).split()
INDEXED = "quick brown fox foo food database data lazy dog naive apfel 2024 zzz QUICK".split()
WORDS = INDEXED + ["the", "it", "x"]
PREFIXES = "qui* bro* foo_* foob* databas* laz* napf* nai* apf* dat* 202* zz* th*".split()
BY_HAND = [
    "+", "quick @", "(quick", "quick)", '"quick', 'quick"', "++quick", "+-quick", "quick+",
    "quick-", "quick**", "quick@3", "@quick", '"quick fox"@', '"quick fox"@x', '"quick fox"*',
    "(quick @", '("quick fox" @', "+(", "()", "+()", "((quick)", '""', "%", "*", "+*", "*+*",
    ">+quick", "(*)", '"a" "b', "quick%fox", "**quick", "12345abc", "2024", "2024*", "+2024 -20",
    "quick $", "+| fox", "| fox", "quick -|",
]  # fmt: skip


def word(words=WORDS):
    return random.choice(PREFIXES if random.random() < 0.15 else words)


def phrase():
    size = random.randint(2, 3)
    if random.random() < 0.3:
        near = " ".join(random.sample(INDEXED[:10], size))
        return f'"{near}" @{random.randint(size, 7)}'
    words = [random.choice(WORDS) for _ in range(size - 1)]
    return f'"{" ".join([*words, random.choice(INDEXED)])}"'


def flat():
    operators = ["", "", "+", "+", "-", ">", "<", "~"]
    operand = lambda: phrase() if random.random() < 0.2 else word()
    return " ".join(random.choice(operators) + operand() for _ in range(random.randint(1, 4)))


def nested():
    words = lambda: " ".join(word(INDEXED) for _ in range(random.randint(2, 3)))
    groups = [f"{random.choice('+-')}({words()})" for _ in range(random.randint(1, 2))]
    return " ".join(["+" + random.choice(INDEXED), *groups])


def boolean():
    while True:
        search = flat() if random.random() < 0.6 else nested()
        if not ('"' in search and "*" in search):
            return search


def literal(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def run(socket, sql):
    command = ["mariadb", "--no-defaults", "-S", socket, "-N", "--raw", "--default-character-set=utf8mb4"]
    done = subprocess.run(command, input=sql, capture_output=True, text=True)
    return done.stdout.strip(), done.stderr.strip()


def record(socket, kind, search):
    mode = "boolean mode" if kind == "B" else "natural language mode"
    rank = f"match(a) against({literal(search)} in {mode})"
    rows = f"select id, {rank} r from g.t"
    found = "group_concat(concat(id, '=', r) order by id separator ' ')"
    out, error = run(socket, f"select {found} from ({rows}) x where r <> 0")
    if "ERROR" in error:
        return f"E\t{search}\t{error.splitlines()[-1].split(': ', 1)[1]}"
    return f"{kind}\t{search}\t{'' if out == 'NULL' else out}"


def main():
    socket, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    random.seed(seed)
    texts = [" ".join(random.choice(TEXTS) for _ in range(random.randint(0, 9))) for _ in range(60)]
    rows = ", ".join(f"({n}, {literal(text)})" for n, text in enumerate(texts))
    table = "create table g.t (id int primary key, a text, fulltext (a)) engine=innodb"
    charset = "charset utf8mb4 collate utf8mb4_general_ci"
    _, error = run(
        socket,
        f"drop database if exists g; create database g; {table} {charset}; insert into g.t values {rows}",
    )
    assert not error, error
    natural = [" ".join(random.choice(WORDS) for _ in range(random.randint(1, 4))) for _ in range(60)]
    lines = [
        "# Searches of InnoDB (MariaDB 10.11), by scripts/full_text.py: collation utf8mb4_general_ci.",
        "# D number text; B or N, a boolean or natural language search, number=rank...; E search, error.",
        *(f"D\t{n}\t{text}" for n, text in enumerate(texts)),
        *(record(socket, "B", search) for search in [*(boolean() for _ in range(500)), *BY_HAND]),
        *(record(socket, "N", search) for search in natural),
    ]
    path = Path(__file__).parent.parent / "tests/data/full_text.tsv"
    path.write_text("\n".join(lines) + "\n")


main()
