"""Debezium's embedded engine follows a server that is killed, and is itself stopped in between.

The engine (debezium/) writes its change events to a file. The events, replayed one after the other, must be possible (no row
inserted twice, none changed that is not there, the image before equal to what is known) and end as the tables do.
"""

import contextlib
import json
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import pymysql
from pymemcache.client.base import Client

from run import free_port
from where import setting

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE / "debezium"
PATIENCE = 120
TABLES = ["items", "parents", "children", "kv", "later"]

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
    "CREATE USER debezium IDENTIFIED BY 'dbz pass'",
    "GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT, LOCK TABLES ON *.* TO debezium",
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


class Engine:
    """Debezium in a process of its own."""

    def __init__(self, folder, port):
        self.folder = folder
        self.events = pathlib.Path(folder) / "events"
        self.events.touch()
        settings = {
            "name": "porpoise",
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": f"{folder}/offsets",
            "offset.flush.interval.ms": "0",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": f"{folder}/history",
            "database.hostname": "127.0.0.1",
            "database.port": port,
            "database.user": "debezium",
            "database.password": "dbz pass",
            "database.server.id": "5400",
            "topic.prefix": "t",
            "database.include.list": "shop",
            "snapshot.mode": "initial",
            "decimal.handling.mode": "string",
            "bigint.unsigned.handling.mode": "long",
            "skipped.operations": "none",
            "tombstones.on.delete": "false",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "connect.keep.alive.interval.ms": "1000",
            "errors.max.retries": "-1",
            "errors.retry.delay.initial.ms": "300",
            "errors.retry.delay.max.ms": "1000",
        }
        (pathlib.Path(folder) / "properties").write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        self.process = None

    @staticmethod
    def classpath():
        """Compiles the engine's program, once; the list of its jars."""
        listing = PROJECT / "target" / "classpath"
        command = ["mvn", "-q", "-B", "compile", "dependency:build-classpath", f"-Dmdep.outputFile={listing}"]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        return f"{PROJECT}/target/classes:{listing.read_text().strip()}"

    def start(self, classpath):
        command = ["java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-cp", classpath, "porpoise.Follower"]
        command += [f"{self.folder}/properties", str(self.events)]
        with open(f"{self.folder}/engine.log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)

    def kill(self):
        self.process.kill()
        self.process.stdin.close()
        self.process.wait()

    def log(self):
        return (pathlib.Path(self.folder) / "engine.log").read_text(errors="replace")

    def wait_for(self, text):
        def is_there():
            if self.process.poll() is not None:
                raise AssertionError(f"the engine has ended:\n{self.log()[-6000:]}")
            return text in self.events.read_text(errors="replace")

        try:
            wait(f"the event {text}", is_there)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()[-6000:]}") from error


def replay(events):
    """The rows of each table after the events, by their key."""
    tables = {}
    for line in events.splitlines():
        event = json.loads(line)
        if "source" not in event or "op" not in event:
            continue
        table = event["source"]["table"]
        key_column = "k" if table == "kv" else "id"
        rows = tables.setdefault(table, {})
        kind = event["op"]
        before, after = (normal(row) if row else row for row in (event.get("before"), event.get("after")))
        if kind == "t":
            rows.clear()
        if kind in "ud":
            key = before[key_column]
            assert key in rows, f"{kind} of a row that is not there: {line}"
            # A column that was added since the row was inserted has its default.
            known = {name: rows[key].get(name, before[name]) for name in before}
            assert known == before, f"{known} is known, but: {line}"
            del rows[key]
        if kind in "ruc":
            key = after[key_column]
            assert key not in rows, f"{kind} of a row that is there: {line}"
            rows[key] = after
    return tables


class Load(threading.Thread):
    """Writes of all kinds until it is told to stop; a server that is away is waited for."""

    def __init__(self, server, seed):
        super().__init__()
        self.server, self.random, self.stops = server, random.Random(seed), threading.Event()
        self.done = 0

    def run(self):
        while not self.stops.is_set():
            try:
                self.session()
            except (OSError, pymysql.MySQLError):
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


class Debezium(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="porpoise-debezium-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.server = Server(self.folder)
        self.server.start()
        self.addCleanup(self.server.kill)
        self.server.run(*SCHEMA)

    def rows(self, table):
        """The rows of a table as Debezium writes values."""
        connection = self.server.connect()
        with connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
            select = "SELECT * FROM shop." + table
            if table == "later":
                select = "SELECT id, TO_BASE64(v) AS v FROM shop.later"
            if table == "items":
                select = (
                    "SELECT id, tiny, big, CAST(amount AS CHAR) AS amount, ratio, name, note, TO_BASE64(raw) AS raw,"
                    " DATEDIFF(day, '1970-01-01') AS day, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at) AS at,"
                    " DATE_FORMAT(CONVERT_TZ(stamp, @@session.time_zone, '+00:00'), '%Y-%m-%dT%H:%i:%s.125Z') AS stamp,"
                    " CAST(doc AS CHAR) AS doc, size, tags, flag = b'1' AS flag, extra FROM shop.items"
                )
            cursor.execute(select)
            rows = cursor.fetchall()
        return {row["k" if table == "kv" else "id"]: normal(row) for row in rows}

    def test_changes_of_all_protocols_arrive_once_through_kills_of_either_side(self):
        classpath = Engine.classpath()
        load = Load(self.server, 1)
        load.start()
        self.addCleanup(load.join)
        self.addCleanup(load.stops.set)
        wait("the first rows", lambda: load.done > 200)
        engine = Engine(self.folder, self.server.ports["mysql"])
        engine.start(classpath)
        self.addCleanup(engine.kill)
        # The snapshot is taken while the load goes on.
        engine.wait_for('"op":"r"')
        self.server.run("INSERT INTO shop.parents VALUES (1001, 'after the snapshot')")
        engine.wait_for("after the snapshot")
        for number in range(2):
            before = load.done
            wait("more of the load", lambda: load.done > before + 200)
            self.server.kill()
            self.server.start()
            self.server.run(f"INSERT INTO shop.parents VALUES ({2000 + number}, 'restart {number}')")
            engine.wait_for(f"restart {number}")
        # Definitions in between.
        self.server.run(
            "ALTER TABLE shop.items ADD COLUMN extra VARCHAR(20) DEFAULT 'none'",
            "CREATE TABLE shop.later (id INT PRIMARY KEY, v LONGBLOB)",
            "INSERT INTO shop.later VALUES (1, REPEAT('x', 300000)), (2, 'gone')",
            "TRUNCATE TABLE shop.later",
            "INSERT INTO shop.later VALUES (3, REPEAT('y', 300000))",
        )
        # The engine is stopped while the load goes on, and continues where it was.
        engine.stop()
        before = load.done
        wait("more of the load", lambda: load.done > before + 200)
        engine.start(classpath)
        before = load.done
        wait("more of the load", lambda: load.done > before + 200)
        load.stops.set()
        load.join()
        self.server.run("INSERT INTO shop.parents VALUES (9999, 'the end')")
        engine.wait_for("the end")
        engine.stop()
        found = replay(engine.events.read_text())
        for table in TABLES:
            rows = found.get(table, {})
            expected = self.rows(table)
            if table == "items":
                # A row that was not changed since has no value of the new column in its last event.
                for key, row in rows.items():
                    row.setdefault("extra", "none")
                self.assertGreater(len(expected), 20)
            self.assertEqual(rows.keys(), expected.keys(), table)
            for key, row in rows.items():
                self.assertEqual(row, expected[key], table)


def normal(row):
    """Values in a form in which both sides agree."""
    out = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            value = value.decode()
        if name in ("raw", "v") and value:
            # Base64, which one side breaks into lines.
            value = value.replace("\n", "")
        if name == "doc" and value:
            value = json.loads(value)
        if name == "ratio" and value is not None:
            value = round(value, 9)
        if name == "flag" and value is not None:
            value = bool(value)
        out[name] = value
    return out


if __name__ == "__main__":
    unittest.main()
