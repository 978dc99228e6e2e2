#!/usr/bin/env python3
"""Writes the locales of lc_time_names and FORMAT() to crates/sql_expr/data/locales.tsv.

    scripts/locales.py SOCKET

A MariaDB server at SOCKET, which has the locales of MySQL under the same numbers, shows the names of months and weekdays and
the format of a number. A line has: the name, months, short months, weekdays from Monday, short weekdays, decimal point,
separator of groups, and the sizes of the last and of the other groups.
"""

import pathlib
import subprocess
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "crates/sql_expr/data/locales.tsv"
# Numbers have no gaps; MariaDB's own locales come after MySQL's.
COUNT = 111


def query(text):
    command = ["mariadb", "--no-defaults", "-uroot", "-S", sys.argv[1], "-N", "-B", "-r", "--default-character-set=utf8mb4"]
    rows = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return rows.split("\n")[:-1]


def statements(number):
    months = [f"2024-{month:02}-01" for month in range(1, 13)]
    days = [f"2024-01-{day:02}" for day in range(1, 8)]
    lists = [("%M", months), ("%b", months), ("%W", days), ("%a", days)]
    text = f"SET lc_time_names = {number}; SELECT @@lc_time_names;"
    for form, dates in lists:
        parts = ", ".join(f"DATE_FORMAT('{date}', '{form}')" for date in dates)
        text += f"SELECT CONCAT_WS('|', {parts});"
    return text + "SELECT FORMAT(1234567890123.5, 1, @@lc_time_names);\n"


def form(number):
    """Point, separator and sizes of groups in a formatted number."""
    point = number[number.rindex("3") + 1 : number.rindex("5")]
    whole = number[: number.rindex("3") + 1]
    separator = next((char for char in whole if not char.isdigit()), "")
    if not separator:
        return [point, "", "0|0"]
    groups = [len(group) for group in whole.split(separator)]
    other = groups[-2] if len(groups) > 2 else 0
    return [point, separator, f"{groups[-1]}|{other}"]


def main():
    rows = query("".join(statements(number) for number in range(COUNT)))
    lines = []
    for at in range(0, len(rows), 6):
        name, *lists, number = rows[at : at + 6]
        lines.append("\t".join([name, *lists, *form(number)]))
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text("\n".join(lines) + "\n")


main()
