#!/usr/bin/env python3
"""Writes tests/data/*.tsv: expected results, read once from a MariaDB server.

    python3 scripts/corpus.py /path/to/mysqld.sock

Only what MySQL and MariaDB agree on belongs here. Texts are in hexadecimal
where they may hold tabs or bytes that are no text. `NULL` stands for NULL.
Fractions of the second are rounded (MySQL's default), so the server runs
with TIME_ROUND_FRACTIONAL.
"""
import pathlib
import random
import subprocess
import sys

SOCKET = sys.argv[1]
DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"
random.seed(20201)


def run(statements, mode="TIME_ROUND_FRACTIONAL"):
    """One line of reply per statement."""
    head = f"set names utf8mb4; set sql_mode='{mode}'; set time_zone='+00:00';"
    head += "set timestamp=unix_timestamp('2024-02-29 12:00:00');\n"
    out = subprocess.run(
        ["mariadb", "-S", SOCKET, "-N", "-B", "-f", "--default-character-set=utf8mb4"],
        input=(head + "".join("select '@@';" + s + ";\n" for s in statements)).encode(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    lines = out.stdout.decode().split("@@\n")[1:]
    assert len(lines) == len(statements), (len(lines), len(statements), out.stderr.decode()[:500])
    return [line.rstrip("\n") if line else "ERROR" for line in lines]


def write(name, header, rows):
    path = DATA / name
    with path.open("w", encoding="utf-8") as f:
        f.write("# " + header + "\n")
        for row in rows:
            f.write("\t".join(row) + "\n")
    print(name, len(rows))


def decimals():
    def point(text):
        """With a point, so that it is a decimal and no integer."""
        return text if "." in text else text + "."

    def number():
        digits = random.choice([1, 2, 5, 9, 10, 18, 19, 25])
        scale = random.choice([0, 0, 1, 2, 4, 9, 10, 15])
        text = str(random.randrange(10 ** digits))
        if scale:
            text += "." + "".join(random.choice("0123456789") for _ in range(scale))
        return random.choice(["", "", "-"]) + text

    pairs = [(number(), number()) for _ in range(150)]
    pairs += [("1", "3"), ("2", "3"), ("-1", "8"), ("1.5", "0"), ("0.0001", "3"), ("5", "-2"),
              ("-7.5", "2"), ("7.5", "-2"), ("10", "0.1"), ("99999999999999999999", "9999999999"),
              ("0.5", "0.25"), ("123.456", "0.001"), ("0.000000001", "7"), ("1", "0.000000003")]
    rows, sql = [], []
    for a, b in pairs:
        for op in ["+", "-", "*", "/", "%", "DIV"]:
            rows.append([op, a, b])
            sql.append(f"select ({point(a)}) {op} ({point(b)})")
    for row, reply in zip(rows, run(sql)):
        row.append(reply)
    # A DIV result beyond 64 bits is an integer overflow, not decimal's business.
    # Products of more than 65 digits are beyond what is defined.
    rows = [r for r in rows if r[3] != "ERROR" and len(r[3]) < 67]
    write("decimal.tsv", "operator, a, b, result", rows)
    rows = []
    for a, _ in pairs[:60]:
        for places in [0, 1, 3, 7]:
            rows.append(["round", a, str(places)])
        for places in [0, 2]:
            rows.append(["truncate", a, str(places)])
        rows.append(["floor", a, ""])
        rows.append(["ceiling", a, ""])
    sql = [f"select {f}({point(a)}{',' + p if p else ''})" for f, a, p in rows]
    for row, reply in zip(rows, run(sql)):
        row.append(reply)
    write("decimal_round.tsv", "function, argument, places, result", rows)


def floats():
    texts = ["0", "1", "-1", "0.1", "1.5", "100", "1e14", "1e15", "999999999999999", "1e16",
             "123456789012345", "1234567890123456", "12345678901234567", "1.1e15", "1e-4", "1e-5",
             "1.5e-5", "1e-10", "1e-14", "1e-15", "1e-16", "1.2345678901234567e-10", "1e-20",
             "1e100", "1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "0.3333333333333333",
             "3.141592653589793", "1e21", "1.5e300", "123456.789", "-0.000001", "4.9e-5", "1e22"]
    texts += [repr(random.uniform(-1, 1) * 10 ** random.randint(-25, 25)) for _ in range(60)]
    texts = [t if "e" in t else t + "e0" for t in texts]
    rows = [["double", t, r] for t, r in zip(texts, run([f"select {t}" for t in texts]))]
    small = [t for t in texts if 1e-37 < abs(float(t)) < 3e38 or float(t) == 0]
    replies = run([f"select cast({t} as float)" for t in small])
    rows += [["float", t, r] for t, r in zip(small, replies)]
    write("double_text.tsv", "type, number, text", rows)


NUMBER_TEXTS = ["0", "1", "-1", "+5", "12abc", "abc", "1.5", "-1.5", "1e3", "1e3x", "  42", "42  ", "9223372036854775807",
                "-9223372036854775808", "-9223372036854775809", "1.", ".5", "-.5", "1e", "e5", "0x10", "1 2",
                "127", "128", "-128", "-129", "255", "256", "65535", "99999999999", "1e400", "-", "--1", "1-1", "0.0000001",
                "123456789.987654321", "1.23e-2", "2147483647", "2147483648", "3.4e38", "4e38"]


def casts():
    rows, sql = [], []
    for text in NUMBER_TEXTS:
        for target in ["signed", "unsigned", "double", "decimal(65,10)"]:
            if target == "unsigned" and text.strip().startswith("-9"):
                continue
            rows.append([target, text])
            expression = f"'{text}'+0e0" if target == "double" else f"cast('{text}' as {target})"
            sql.append(f"select concat_ws('\\t',{expression},(select 0))")
    for row, reply in zip(rows, run(sql)):
        row.append(reply.split("\\t")[0])
    numbers = ["1.5e0", "2.5e0", "-1.5e0", "-2.5e0", "0.49999e0", "1.5", "2.5", "-1.5", "-0.5", "0.4", "1e10",
               "9.3e18", "-9.3e18", "12345678901234567890.5"]
    for number in numbers:
        rows.append(["signed", "#" + number, run([f"select cast({number} as signed)"])[0]])
    write("cast_number.tsv", "target, text (or # number), result", rows)


DATE_TEXTS = ["2020-01-02", "2020-1-2", "20-1-2", "70-01-01", "69-12-31", "20200102", "200102", "2020-01-02 03:04:05",
              "2020-1-2 3:4:5", "2020-01-02T03:04:05", "20200102030405", "200102030405", "20200102T030405",
              "2020-01-02 03:04", "2020-01-02 03", "2020.01.02", "2020/01/02", "2020-01-02 03.04.05", "2020@01@02",
              "2020-02-30", "2020-02-29", "2019-02-29", "2020-13-01", "2020-01-32", "0000-00-00", "2020-00-01",
              "2020-01-00", "2020-01-02 24:00:00", "2020-01-02 23:60:00", "2020-01-02 23:59:60", "abc", "", "2020", "2020-01",
              "2020-01-02 03:04:05.1", "2020-01-02 03:04:05.123456", "2020-01-02 03:04:05.1234564",
              "9999-12-31 23:59:59", "10000-01-01",
              "2020-01-02abc", "2020-01-02 03:04:05abc", "  2020-01-02", "2020-01-02  ", "2020-01-02   03:04:05",
              "20200102030405.5", "1000-01-01", "0001-01-01", "2020-01-02 3:4",
              "20-02-29", "19000229", "20000229"]
TIME_TEXTS = ["12:34:56", "12:34", "1234", "123456", "12", "1 12:34:56", "2 3", "-12:34:56", "838:59:59", "839:00:00",
              "-839:00:00", "12:34:56.789", "12:34:56.9999995", "00:00:00", "12:60:00", "12:00:60", "abc",
              "12:34:56abc", "1:2:3", "100:00:00", "34 22:59:59", "  12:34:56", "12:34:56  ", "-1 01:00:00", "1 2:3",
              "235959.5", "2020-01-02 03:04:05", "8385959", "8390000", "0", "-0:00:01", "1:1", "-00:00:01.5"]


def dates():
    rows, sql = [], []
    for text in DATE_TEXTS:
        rows += [["datetime", text], ["date", text]]
        sql += [f"select cast('{text}' as datetime(6))", f"select cast('{text}' as date)"]
    for text in TIME_TEXTS:
        rows.append(["time", text])
        sql.append(f"select cast('{text}' as time(6))")
    for number in ["20200102", "200102", "20200102030405", "200102030405", "101", "100", "0", "691231", "700101", "991232",
                   "10000101", "99991231", "20201301", "20200230", "20200102030405.25", "1231"]:
        rows.append(["datetime", "#" + number])
        sql.append(f"select cast({number} as datetime(6))")
    for number in ["123456", "1234", "12", "-123456", "8385959", "9000000", "126000", "100.5", "-1.5", "20200102030405"]:
        rows.append(["time", "#" + number])
        sql.append(f"select cast({number} as time(6))")
    for row, reply in zip(rows, run(sql)):
        # MariaDB clips to the last microsecond, MySQL to the last second.
        row.append(reply.replace("838:59:59.999999", "838:59:59.000000"))
    write("temporal.tsv", "type, text (or # number), result", rows)


def calendar():
    dates = ["2024-02-29", "2000-01-01", "1999-12-31", "2023-01-01", "2021-01-03", "2021-01-04", "1970-01-01",
             "0001-01-01", "9999-12-31", "2020-12-31", "2016-01-01", "1900-03-01", "2026-11-21", "2005-01-02"]
    dates += ["%04d-%02d-%02d" % (random.randint(1, 9999), random.randint(1, 12), random.randint(1, 28)) for _ in range(30)]
    rows, sql = [], []
    for d in dates:
        for f in ["to_days('{}')", "weekday('{}')", "dayofyear('{}')", "last_day('{}')"]:
            rows.append([f.split("(")[0], d, ""])
            sql.append("select " + f.format(d))
        if d > "0002":
            for mode in range(8):
                rows += [["week", d, str(mode)], ["yearweek", d, str(mode)]]
                sql += [f"select week('{d}',{mode})", f"select yearweek('{d}',{mode})"]
        for unit, n in [("month", 1), ("month", -13), ("month", 25), ("day", 1), ("day", -400), ("day", 99999),
                        ("second", 86399), ("second", -1), ("second", 10 ** 9)]:
            rows.append(["add_" + unit, d, str(n)])
            sql.append(f"select cast('{d}' as datetime) + interval {n} {unit}")
    for row, reply in zip(rows, run(sql)):
        row.append(reply)
    # The two servers may differ about results in the year 0.
    rows = [r for r in rows if not r[3].startswith("0000-")]
    write("calendar.tsv", "function, date, argument, result", rows)


def strings():
    words = ["", "a", "A", "b", "B", "ab", "aB", "a ", "a  ", " a", "a\t", "a\tb", "a b", "a  b", "a \t", "ä", "Ä", "å", "e",
             "é", "É", "ss", "ß", "s", "o", "ö", "ø", "z", "Z", "æ", "ae", "ÿ", "y", "ñ", "n", "!", "_", "0", "9", "á", "~",
             "þ", "ð", "×", "÷", "µ"]
    wide = ["日本", "日", "語", "я", "Я", "й", "Й", "Ω", "ω", "😀", "😁", "ﬀ", "Σ", "ς", "ỳ", "İ", "ı", "ſ", "Ǆ", "가", "각", "€"]
    rows, sql = [], []
    for collation, charset, pool in [
        ("utf8mb4_general_ci", "utf8mb4", words + wide), ("utf8mb4_bin", "utf8mb4", words + wide),
        ("utf8mb3_general_ci", "utf8mb3", [w for w in words + wide if all(ord(c) < 65536 for c in w)]),
        ("latin1_swedish_ci", "latin1", words), ("latin1_general_ci", "latin1", words), ("latin1_bin", "latin1", words),
        ("ascii_general_ci", "ascii", [w for w in words if w.isascii()]), ("binary", "binary", words),
    ]:
        codec = "latin-1" if charset == "latin1" else "utf-8"
        for _ in range(130):
            a, b = random.choice(pool), random.choice(pool)
            if random.random() < 0.3:
                a, b = a + random.choice(pool), b + random.choice(pool)
            a, b = a.encode(codec).hex(), b.encode(codec).hex()
            rows.append([collation, a, b])
            cast = "" if charset == "binary" else f" collate {collation}"
            sql.append(f"select strcmp(_{charset} x'{a}'{cast}, _{charset} x'{b}'{cast})")
    for row, reply in zip(rows, run(sql)):
        row.append(reply)
    write("collate.tsv", "collation, a, b, strcmp", rows)
    rows, sql = [], []
    patterns = ["%", "_", "a%", "%a", "%a%", "_b", "a_", "a\\%", "\\_", "%b%", "é", "É", "%é%", "_é", "ss", "ß", "a %", "a", "%%a", "__"]
    for _ in range(200):
        text, pattern = random.choice(words + wide), random.choice(patterns)
        text += random.choice(["", "a", "B", "%", " "])
        collation = random.choice(["utf8mb4_general_ci", "utf8mb4_bin"])
        a, b = text.encode().hex(), pattern.encode().hex()
        rows.append([collation, a, b])
        sql.append(f"select _utf8mb4 x'{a}' collate {collation} like _utf8mb4 x'{b}' collate {collation}")
    for row, reply in zip(rows, run(sql)):
        row.append(reply)
    write("like.tsv", "collation, text, pattern, result", rows)


def unicode_order():
    """MariaDB has DUCET 14 without padding; common letters agree with 0900."""
    pool = ["a", "A", "b", "ä", "å", "é", "e", "ß", "ss", "z", "æ", "ae", "ñ", "я", "Я", "й", "и", "Ω", "ω", "日", "本", "語",
            "1", "2", " ", "-", "_", "!", "😀", "ａ", "①", "ﬁ", "fi", "İ", "ı", "i", "I", "Ⅳ", "iv", "㌔", "ה", "א", "ض", "a ", "\u0301"]
    rows, sql = [], []
    for _ in range(300):
        a = "".join(random.choice(pool) for _ in range(random.randint(1, 3)))
        b = "".join(random.choice(pool) for _ in range(random.randint(1, 3)))
        a, b = a.encode().hex(), b.encode().hex()
        rows.append(["utf8mb4_0900_ai_ci", a, b])
        c = "collate utf8mb4_uca1400_nopad_ai_ci"
        sql.append(f"select strcmp(_utf8mb4 x'{a}' {c}, _utf8mb4 x'{b}' {c})")
    for row, reply in zip(rows, run(sql)):
        row.append(reply)
    write("collate_0900.tsv", "collation, a, b, strcmp", rows)


def unicode_old():
    """utf8mb4_unicode_ci and utf8mb4_unicode_520_ci: order, and LIKE of single characters."""
    source = random.Random(4000520)
    pool = ["a", "A", "á", "e\u0301", "é", "ß", "ss", "æ", "ae", "z", "я", "Я", "й", "Ω", "ω", "日", "⽇", "㌔", "キロ", "\ufdfb",
            " ", "  ", "\u00a0", "\u3000", "\t", "\n", "\0", "\x7f", "\u0301", "\u2028", "\u200b", "-", "_", "!", "0", "①", "1",
            "😀", "😁", "𝐀", "\ufffd", "각", "가", "\u1100\u1161", "ﬁ", "fi", "ı", "İ", "ſ", "s", "Ⅳ", "iv"]

    def char():
        if source.random() < 0.75:
            return source.choice(pool)
        while True:
            code = source.randrange(0x20000 if source.random() < 0.2 else 0x10000)
            if not 0xD800 <= code <= 0xDFFF:
                return chr(code)

    def text(longest):
        return "".join(char() for _ in range(source.randint(0, longest)))

    rows, sql, likes, like_sql = [], [], [], []
    for collation in ["utf8mb4_unicode_ci", "utf8mb4_unicode_520_ci"]:
        for _ in range(600):
            a = text(4)
            b = text(4) if source.random() < 0.5 else a + text(2)
            a, b = a.encode().hex(), b.encode().hex()
            rows.append([collation, a, b])
            sql.append(f"select strcmp(_utf8mb4 x'{a}' collate {collation}, _utf8mb4 x'{b}')")
        for _ in range(200):
            a = text(3)
            b = "".join(source.choice([c.upper(), c.lower(), c, "_", "%", char()]) for c in a)
            a, b = a.encode().hex(), b.encode().hex()
            likes.append([collation, a, b])
            like_sql.append(f"select _utf8mb4 x'{a}' like _utf8mb4 x'{b}' collate {collation}")
    for row, reply in zip(rows + likes, run(sql + like_sql)):
        row.append(reply)
    write("collate_unicode.tsv", "collation, a, b, strcmp", rows)
    write("like_unicode.tsv", "collation, text, pattern, result", likes)


def languages():
    """Variants of utf8mb4_unicode_ci for languages, which have contractions: order."""
    source = random.Random(22)
    letters = [chr(c) for c in [*range(0x41, 0x5B), *range(0x61, 0x7B), *range(0xC0, 0x180), 0x218, 0x219, 0x21A, 0x21B]]
    pairs = ["ch", "Ch", "cH", "CH", "ll", "Ll", "lL", "LL", "aa", "Aa", "aA", "AA", "lj", "Lj", "lJ", "LJ", "nj", "NJ", "dž", "DŽ",
             "c", "h", "l", "a", "z", "Z", "d", "ae", "oe", "ue", "ss", " ", "\u0301", "\u0308", "\u030c", "ơ", "ư", "ẩ", "\u0d9a", "\u0653"]
    rows, sql = [], []
    for language in ["icelandic", "latvian", "romanian", "slovenian", "polish", "estonian", "spanish", "swedish", "turkish", "czech",
                     "danish", "lithuanian", "slovak", "spanish2", "roman", "persian", "esperanto", "hungarian", "sinhala",
                     "german2", "croatian", "vietnamese"]:
        theirs = "utf8mb4_croatian_mysql561_ci" if language == "croatian" else f"utf8mb4_{language}_ci"
        for _ in range(250):
            a, b = ("".join(source.choice(pairs if source.random() < 0.5 else letters) for _ in range(source.randint(1, 4)))
                    for _ in range(2))
            if source.random() < 0.5:
                b = a[:source.randint(0, len(a))] + b
            a, b = a.encode().hex(), b.encode().hex()
            rows.append([f"utf8mb4_{language}_ci", a, b])
            sql.append(f"select strcmp(_utf8mb4 x'{a}' collate {theirs}, _utf8mb4 x'{b}')")
    for row, reply in zip(rows, run(sql)):
        row.append(reply)
    write("collate_languages.tsv", "collation, a, b, strcmp", rows)


def differs(column, value, code, stored):
    """Assignments in which MySQL 8 is documented or known to differ from MariaDB."""
    number = "int" in column or column in ["decimal(10,0) unsigned"]
    return (
        # MySQL says 1265 of text that is no floating-point number.
        (column in ["float", "double"] and code == "1366")
        # MySQL rounds fractions of the second in numbers, MariaDB cuts them.
        or (number and value.startswith(("time'", "timestamp'")))
        # MySQL takes the year of dates.
        or (column == "year" and value.startswith(("date'", "time'", "timestamp'")))
        # MySQL takes numbers up to 10^10 as HHMMSS.
        or (column.startswith("time") and value == "20200102")
        or (column == "bit(4)" and value == "-1.5")
    )


def stores():
    columns = ["tinyint", "tinyint unsigned", "smallint", "mediumint", "int", "int unsigned", "bigint", "bigint unsigned",
               "decimal(5,2)", "decimal(10,0) unsigned", "float", "double", "year",
               "char(3)", "varchar(3)", "text", "binary(4)", "varbinary(3)", "date", "datetime", "datetime(3)", "time", "time(2)",
               "enum('a','b','10')", "set('x','y','z')", "bit(4)"]
    values = ["'1'", "'abc'", "'12abc'", "''", "'-1'", "'300'", "1", "-1", "300", "70000", "1.5", "-1.5", "2.5e0", "1e30",
              "99999999999999999999", "'1.005'", "'99999.999'", "1.005", "123.456", "'2020-01-02'", "'2020-02-30'", "'2020-01-02 03:04:05.6789'",
              "20200102", "'12:34:56.789'", "'900:00:00'", "'abc   '", "'abcdef'", "'a'", "'B'", "'x,z'", "'x,q'", "'10'", "'2'", "3", "0", "'0000-00-00'",
              "'2020-01-02xyz'", "date'2020-05-06'", "timestamp'2020-05-06 07:08:09.5'", "time'10:11:12.75'"]
    sql = []
    rows = []
    for column in columns:
        for value in values:
            rows.append([column, value])
    # The strict outcome, as an error number; then what non-strict mode stores.
    script = ["create database if not exists corpus", "use corpus", "set time_zone='+00:00'",
              "set timestamp=unix_timestamp('2024-02-29 12:00:00')"]
    strict = "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,TIME_ROUND_FRACTIONAL"
    for column in columns:
        script.append(f"create or replace table t (c {column})")
        for value in values:
            script.append(f"set sql_mode='{strict}'")
            script.append("select 'row'")
            script.append(f"insert into t values ({value})")
            script.append("get diagnostics @n = number")
            script.append("delete from t")
            script.append("set sql_mode='NO_ZERO_DATE,NO_ZERO_IN_DATE,TIME_ROUND_FRACTIONAL'")
            script.append(f"insert into t values ({value})")
            script.append("select concat('=', ifnull(hex(c+0), '') , '|', ifnull(hex(cast(c as binary)),'NULL')) from t")
            script.append("delete from t")
    out = subprocess.run(
        ["mariadb", "-S", SOCKET, "-N", "-B", "-f", "--default-character-set=utf8mb4"],
        input="".join(s + ";\n" for s in script).encode(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ).stdout.decode().split("\n")
    at = -1
    for line in out:
        if line == "row":
            at += 1
            rows[at].append("0")
        elif line.startswith("ERROR "):
            rows[at][2] = line.split()[1]
        elif line.startswith("="):
            rows[at].append(line.split("|")[1].replace("3833383A35393A35392E3939", "3833383A35393A35392E3030"))
    rows = [r for r in rows if len(r) == 4 and not differs(*r)]
    write("store.tsv", "column, value, error number in strict mode (0: none), stored otherwise as hexadecimal text", rows)


decimals()
floats()
casts()
dates()
calendar()
strings()
unicode_order()
stores()
unicode_old()
languages()
