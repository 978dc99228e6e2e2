"""Debezium's embedded engine follows a server that is killed, and is itself stopped in between.

The engine (debezium/) writes its change events to a file. The events, replayed one after the other, must be possible (no row
inserted twice, none changed that is not there, the image before equal to what is known) and end as the tables do.
"""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import pymysql

from followed import DEFINITIONS, PATIENCE, SCHEMA, Load, Server, wait

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE / "debezium"
TABLES = ["items", "parents", "children", "kv", "later"]

ACCOUNT = [
    "CREATE USER debezium IDENTIFIED BY 'dbz pass'",
    "GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT, LOCK TABLES ON *.* TO debezium",
]


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


class Debezium(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="porpoise-debezium-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.server = Server(self.folder)
        self.server.start()
        self.addCleanup(self.server.kill)
        self.server.run(*SCHEMA, *ACCOUNT)

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
        self.server.run(*DEFINITIONS)
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
