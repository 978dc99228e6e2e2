"""Instructions of the main paths, counted by valgrind: what one request costs the worker thread.

    measure.py --binary target/debug/porpoise --out target/report/costs.tsv [--accept] [--share]

A server with one worker group runs under callgrind, which counts while one connection sends
requests of a path; the least of ROUNDS counts is taken, since timers and wake-ups add to
some. A path that costs more than TOLERANCE beyond its line in reference.tsv is reported as a
warning. It is no error: another compiler or another C library changes counts, too. Paths "with log" run on a
server with --log-bin, one thread of which writes the log. --accept
writes the reference. --share also measures a server with --performance-schema off, and prints the
share of statistics in each path; the budget is SHARE_LIMIT of an optimized build.
"""

import argparse
import glob
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pymysql

REQUESTS = 400
# Of paths that write many rows, or a definition.
FEW_REQUESTS = 20
TABLES = 300
ROUNDS = 3
TOLERANCE = 0.05
SHARE_LIMIT = 0.01
REFERENCE = pathlib.Path(__file__).with_name("reference.tsv")


class Server:
    """A server under callgrind, its counting off."""

    def __init__(self, binary, home, options):
        self.home = home
        self.dumps = set()
        # There is no log without a disk.
        durability = "interval" if "--log-bin" in options else "memory"
        command = [
            "valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes",
            f"--callgrind-out-file={home}/callgrind",
            binary, "serve", "--worker-groups", "1", "--durability", durability,
            "--data-dir", f"{home}/data", "--http-listen", "off",
            "--mysql-listen", "127.0.0.1:0", "--memcached-listen", "127.0.0.1:0", *options,
        ]  # fmt: skip
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PORPOISE_")}
        with open(f"{home}/log", "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                env=environment, text=True,
            )  # fmt: skip
        self.ports = {}
        for line in self.process.stdout:
            words = line.split()
            if words[:1] == ["ready"]:
                self.ports[words[1]] = int(words[2].rsplit(":", 1)[1])
            if line == "porpoise ready\n":
                return
        raise SystemExit("costs: the server did not start: " + open(f"{home}/log").read())

    def control(self, *words):
        command = ["callgrind_control", *words, str(self.process.pid)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"costs: {' '.join(command)}: {done.stdout}{done.stderr}")

    def counted(self, work):
        """Instructions of the threads that served `work`: a long statement moves its connection to another one."""
        self.control("-i", "on")
        work()
        self.control("-i", "off")
        self.control("-d")
        files = set(glob.glob(f"{self.home}/callgrind.*"))
        new, self.dumps = files - self.dumps, files
        totals = [re.search(r"^totals: (\d+)", open(f).read(), re.M) for f in new]
        counts = [int(found[1]) for found in totals if found]
        busiest = max(counts, default=0)
        # Others wake up by themselves now and then.
        return sum(count for count in counts if count * 10 >= busiest)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Sql:
    def __init__(self, port):
        self.connection = pymysql.connect(
            host="127.0.0.1", port=port, user="root", autocommit=True, ssl_disabled=True
        )
        self.cursor = self.connection.cursor()

    def run(self, text):
        self.cursor.execute(text)
        return self.cursor.fetchall()


class Memcached:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")

    def set(self, key, value):
        self.socket.sendall(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value))
        answer = self.file.readline()
        assert answer == b"STORED\r\n", answer

    def set_several(self, keys, value):
        """Sets of all keys in one write."""
        requests = [b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value) for key in keys]
        self.socket.sendall(b"".join(requests))
        for _ in keys:
            answer = self.file.readline()
            assert answer == b"STORED\r\n", answer

    def get(self, key, value):
        self.socket.sendall(b"get %s\r\n" % key)
        head = self.file.readline()
        assert head.startswith(b"VALUE "), head
        assert self.file.readline() == value + b"\r\n"
        assert self.file.readline() == b"END\r\n"


def paths(server):
    """Each path with a function that sends its n-th request, and the number of requests of a round."""
    sql, items = Sql(server.ports["mysql"]), Memcached(server.ports["memcached"])
    sql.run("CREATE DATABASE costs")
    sql.run("CREATE TABLE costs.t (id INT PRIMARY KEY, v VARCHAR(100) NOT NULL)")
    rows = ", ".join(f"({n}, '{'x' * 100}')" for n in range(1000))
    sql.run(f"INSERT INTO costs.t VALUES {rows}")
    value = b"y" * 100
    for parent in "pq":
        sql.run(f"CREATE TABLE costs.{parent} (id INT PRIMARY KEY)")
        sql.run(f"INSERT INTO costs.{parent} VALUES " + ", ".join(f"({n})" for n in range(1000)))
    sql.run(
        "CREATE TABLE costs.child (id INT PRIMARY KEY, p INT, q INT, v VARCHAR(20), FOREIGN KEY (p)"
        " REFERENCES costs.p (id), FOREIGN KEY (q) REFERENCES costs.q (id))"
    )
    for n in range(TABLES):
        sql.run(f"CREATE TABLE costs.other{n} (id INT PRIMARY KEY)")

    def at(n):
        return n * 7919 % 1000

    def select(n):
        assert len(sql.run(f"SELECT v FROM costs.t WHERE id = {at(n)}")) == 1

    def select_several(n):
        keys = ", ".join(str(at(n + i)) for i in range(50))
        assert len(sql.run(f"SELECT v FROM costs.t WHERE id IN ({keys})")) == 50

    def insert_children(n):
        rows = range(100 * n, 100 * (n + 1))
        rows = ", ".join(f"({id}, {at(id)}, {at(id + 7)}, 'text')" for id in rows)
        sql.run(f"INSERT INTO costs.child VALUES {rows}")

    insert = "INSERT INTO costs.t VALUES ({}, '" + "z" * 100 + "')"
    update = "UPDATE costs.t SET v = '{:0100}' WHERE id = {}"
    define = "CREATE TABLE costs.made{} (id INT PRIMARY KEY, v INT)"
    return [
        ("SELECT by key", select, REQUESTS),
        ("IN of 50", select_several, REQUESTS),
        ("INSERT", lambda n: sql.run(insert.format(1000 + n)), REQUESTS),
        ("INSERT of 100", insert_children, FEW_REQUESTS),
        ("UPDATE by key", lambda n: sql.run(update.format(n, at(n))), REQUESTS),
        ("CREATE TABLE", lambda n: sql.run(define.format(n)), FEW_REQUESTS),
        ("SET", lambda n: items.set(b"key%d" % at(n), value), REQUESTS),
        (
            "16 SETs",
            lambda n: items.set_several([b"key%d" % at(n + i) for i in range(16)], value),
            REQUESTS,
        ),
        ("GET", lambda n: items.get(b"key%d" % at(n), value), REQUESTS),
    ]


LOGGED = ["INSERT", "UPDATE by key", "SET"]


def measure_log(binary):
    """The costs of writes on a server with a log."""
    costs = measure(binary, "--log-bin", "--server-id", "2", names=LOGGED)
    return {f"{name} with log": cost for name, cost in costs.items()}


def measure(binary, *options, names=None):
    with tempfile.TemporaryDirectory(prefix="porpoise-costs-") as home:
        server = Server(binary, home, options)
        try:
            costs = {}
            for name, request, count in paths(server):
                if names and name not in names:
                    continue
                warm_up = count // 2
                for n in range(warm_up):
                    request(n)
                counts = []
                for number in range(ROUNDS):
                    first = warm_up + number * count
                    requests = range(first, first + count)
                    counts.append(server.counted(lambda: [request(n) for n in requests]))
                costs[name] = min(counts) / count
            return costs
        finally:
            server.stop()


def show_share(binary, costs):
    """The part of each path that statistics of statements, commands and hot keys take."""
    for name, without in measure(binary, "--performance-schema", "off").items():
        share = costs[name] / without - 1
        print(f"{name:<14} {without:>9,.0f} without statistics, which take {share:.2%}")
        if share > SHARE_LIMIT:
            print(f"WARNING: statistics take more than {SHARE_LIMIT:.0%} of {name}")


def read(path):
    if not path.exists():
        return {}
    lines = (line.split("\t") for line in path.read_text().splitlines() if line[:1] != "#")
    return {name: float(count) for name, count in lines}


def write(path, costs):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["# path\tinstructions of one request, development build\n"]
    lines += [f"{name}\t{count:.0f}\n" for name, count in costs.items()]
    path.write_text("".join(lines))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--share", action="store_true")
    given = parser.parse_args()
    began = time.monotonic()
    costs = measure(os.path.abspath(given.binary))
    costs.update(measure_log(os.path.abspath(given.binary)))
    write(given.out, costs)
    if given.accept:
        write(REFERENCE, costs)
    reference = read(REFERENCE)
    for name, count in costs.items():
        known = reference.get(name)
        change = f"{count / known - 1:+.1%}" if known else "no reference"
        print(f"{name:<14} {count:>9,.0f} instructions, {change}")
        if known and count > known * (1 + TOLERANCE):
            print(f"WARNING: {name} costs {change} against tests/costs/reference.tsv")
        if known and count < known * (1 - TOLERANCE):
            print(f"{name} costs less; keep it with scripts/costs.sh --accept")
    if given.share:
        show_share(os.path.abspath(given.binary), costs)
    print(f"kept in {given.out}, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
