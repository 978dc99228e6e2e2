"""A server that is killed while it is written to, for tests of programs that follow its log."""

import contextlib
import random
import signal
import socket
import subprocess
import threading
import time

import pymysql
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

from run import free_port
from where import setting

PATIENCE = 120

SCHEMA = [
    "CREATE DATABASE shop",
    "CREATE TABLE shop.items (id INT PRIMARY KEY AUTO_INCREMENT, tiny TINYINT, big BIGINT UNSIGNED, amount DECIMAL(20,4),"
    " ratio DOUBLE, name VARCHAR(100), note TEXT, raw BLOB, day DATE, at DATETIME(6), stamp TIMESTAMP(3) NULL, doc JSON,"
    " size ENUM('s','m','l'), tags SET('a','b','c'), flag BIT(1))",
    "CREATE TABLE shop.parents (id INT PRIMARY KEY, name VARCHAR(40))",
    "CREATE TABLE shop.children (id INT PRIMARY KEY, parent INT,"
    " FOREIGN KEY (parent) REFERENCES shop.parents (id) ON DELETE CASCADE ON UPDATE SET NULL)",
    "CREATE TABLE shop.kv (k VARCHAR(60) PRIMARY KEY, v VARCHAR(200))",
    "ALTER TABLE shop.kv MEMCACHED PREFIX 'kv:'",
]

# Definitions that change between rows.
DEFINITIONS = [
    "ALTER TABLE shop.items ADD COLUMN extra VARCHAR(20) DEFAULT 'none'",
    "CREATE TABLE shop.later (id INT PRIMARY KEY, v LONGBLOB)",
    "INSERT INTO shop.later VALUES (1, REPEAT('x', 300000)), (2, 'gone')",
    "TRUNCATE TABLE shop.later",
    "INSERT INTO shop.later VALUES (3, REPEAT('y', 300000))",
]


class Server:
    """A server on fixed ports, which can be killed and started again."""

    def __init__(self, folder):
        self.folder = folder
        self.ports = {name: free_port() for name in ("mysql", "memcached")}
        self.process = None

    def start(self):
        command = [setting("CLIENTS_BINARY"), "serve", "--data-dir", f"{self.folder}/data", "--log-bin", "--server-id", "77"]
        for name, port in self.ports.items():
            command += [f"--{name}-listen", f"127.0.0.1:{port}"]
        command += ["--http-listen", "127.0.0.1:0"]
        with open(f"{self.folder}/server.log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        wait("the server", self.accepts)

    def accepts(self):
        """Whether it listens."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.ports["mysql"])) == 0

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def connect(self):
        options = {"user": "root", "password": "", "charset": "utf8mb4", "autocommit": True, "read_timeout": 60}
        return pymysql.connect(host="127.0.0.1", port=self.ports["mysql"], **options)

    def run(self, *statements):
        connection = self.connect()
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()


def wait(what, is_done):
    deadline = time.monotonic() + PATIENCE
    while not is_done():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come in time")
        time.sleep(0.05)


class Load(threading.Thread):
    """Writes of all kinds until `stops` is set. While the server is down, it tries again."""

    def __init__(self, server, seed):
        super().__init__()
        self.server, self.random, self.stops = server, random.Random(seed), threading.Event()
        self.done = 0

    def run(self):
        while not self.stops.is_set():
            try:
                self.session()
            except (OSError, pymysql.MySQLError, MemcacheError):
                time.sleep(0.1)

    def session(self):
        connection = self.server.connect()
        client = Client(("127.0.0.1", self.server.ports["memcached"]), timeout=10, default_noreply=False)
        with contextlib.closing(client), connection, connection.cursor() as cursor:
            while not self.stops.is_set():
                self.step(cursor, client)
                self.done += 1

    def step(self, cursor, client):
        pick, a, b = self.random.randrange(12), self.random.randrange(1, 40), self.random.randrange(1, 40)
        if pick < 3:
            values = (a - 20, 2**62 + a, f"{a}.{b:04}", a / 7, f"näme {b}", "note " * b, bytes(range(a)))
            cursor.execute(
                "INSERT INTO shop.items (tiny, big, amount, ratio, name, note, raw, day, at, stamp, doc, size, tags, flag)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, '2024-02-29', '2024-01-01 00:00:00.000001', '2024-06-01 12:00:00.125',"
                """ '{"a": [1, null, "x"]}', 'm', 'a,c', b'1')""",
                values,
            )
        elif pick == 3:
            cursor.execute("UPDATE shop.items SET tiny = NULL, name = CONCAT(name, '!'), at = NULL WHERE id %% 40 = %s", (a,))
        elif pick == 4:
            cursor.execute("DELETE FROM shop.items WHERE id %% 60 = %s", (a,))
        elif pick == 5:
            cursor.execute("REPLACE INTO shop.parents VALUES (%s, %s)", (a, f"p{b}"))
        elif pick == 6:
            cursor.execute("INSERT IGNORE INTO shop.children SELECT %s, MIN(id) FROM shop.parents WHERE id >= %s", (a * 40 + b, b))
        elif pick == 7:
            cursor.execute("DELETE FROM shop.parents WHERE id = %s", (a,))
        elif pick == 8:
            cursor.execute("UPDATE IGNORE shop.parents SET id = %s WHERE id = %s", (a, b))
        elif pick == 9:
            client.set(f"kv:{a}", f"value {b} {self.done}")
        elif pick == 10:
            client.delete(f"kv:{b}")
        else:
            cursor.execute("BEGIN")
            cursor.execute("UPDATE shop.items SET tiny = %s ORDER BY id LIMIT 3", (a,))
            cursor.execute("INSERT IGNORE INTO shop.parents VALUES (%s, 'in a transaction')", (b,))
            cursor.execute("COMMIT" if a % 5 else "ROLLBACK")
