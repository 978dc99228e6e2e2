"""python-mysql-replication follows by GTIDs through kills of the server and of the reader, beside SQL and memcached.

The changes, replayed one after the other, must be possible (no row inserted twice, none changed that is not there, the image
before equal to what is known) and end as the tables do.
"""

import logging
import shutil
import tempfile
import threading
import time
import unittest
import warnings

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import GtidEvent, QueryEvent, XidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from followed import DEFINITIONS, SCHEMA, Load, Server, wait

TABLES = ["items", "parents", "children", "kv", "later"]
KINDS = [GtidEvent, QueryEvent, XidEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent]


class Reader(threading.Thread):
    """Follows the server; a connection that is lost, or given up, is opened again behind the last complete transaction."""

    def __init__(self, server):
        super().__init__()
        self.server, self.stops, self.gives_up = server, threading.Event(), threading.Event()
        self.tables, self.executed, self.failure = {}, "", None
        self.connections = 0

    def run(self):
        while not self.stops.is_set():
            try:
                self.follow()
            except (OSError, pymysql.MySQLError):
                time.sleep(0.1)
            except (AssertionError, KeyError) as error:
                self.failure = error
                return

    def follow(self):
        settings = {"host": "127.0.0.1", "port": self.server.ports["mysql"], "user": "root", "password": "", "read_timeout": 5}
        # Without a set the stream begins with the first file.
        place = {"auto_position": self.executed} if self.executed else {"resume_stream": False}
        stream = BinLogStreamReader(
            connection_settings=settings, server_id=99, blocking=True, only_events=KINDS, slave_heartbeat=0.5, **place
        )
        self.connections += 1
        gtid, changes = None, []
        try:
            for event in stream:
                if self.stops.is_set() or self.gives_up.is_set():
                    self.gives_up.clear()
                    return
                if isinstance(event, GtidEvent):
                    gtid, changes = event.gtid, []
                elif isinstance(event, QueryEvent):
                    if event.query != "BEGIN":
                        self.define(event.query)
                        self.complete(gtid, changes)
                elif isinstance(event, XidEvent):
                    self.complete(gtid, changes)
                else:
                    changes.append(event)
        finally:
            stream.close()

    def complete(self, gtid, changes):
        """Applies a transaction, whole."""
        source, number = gtid.split(":")
        last = int(self.executed.rsplit("-", 1)[1]) if self.executed else 0
        if int(number) <= last:
            # The library has connected again by itself, at the place at which the stream began.
            return
        assert int(number) == last + 1, f"{gtid} after {self.executed}"
        for event in changes:
            # The mapping of memcached keys is in tables, too.
            for row in event.rows if event.schema == "shop" else []:
                self.change(event, row)
        self.executed = f"{source}:1-{number}"

    def define(self, query):
        if query.startswith("TRUNCATE"):
            self.tables["later"] = {}
        if query.startswith("ALTER TABLE shop.items ADD COLUMN extra"):
            for row in self.tables["items"].values():
                row["extra"] = "none"

    def change(self, event, row):
        rows = self.tables.setdefault(event.table, {})
        key = "k" if event.table == "kv" else "id"
        assert event.primary_key or event.table, row
        before = row.get("before_values") or (row["values"] if isinstance(event, DeleteRowsEvent) else None)
        after = row.get("after_values") or (row["values"] if isinstance(event, WriteRowsEvent) else None)
        if before:
            known = rows.pop(before[key], None)
            assert known == before, f"{known} is known, but {event.table} had {before}"
        if after:
            assert after[key] not in rows, f"{event.table} has {after[key]} already"
            rows[after[key]] = after


class ReplicationKills(unittest.TestCase):
    def setUp(self):
        # The reader reports each lost connection, which is expected here.
        logging.disable(logging.ERROR)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        self.folder = tempfile.mkdtemp(prefix="porpoise-replication-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.server = Server(self.folder)
        self.server.start()
        self.addCleanup(self.server.kill)
        self.server.run(*SCHEMA)

    def more(self, load):
        before = load.done
        wait("more of the load", lambda: load.done > before + 150)

    def test_changes_of_all_doors_through_kills_of_either_side(self):
        load, reader = Load(self.server, 2), Reader(self.server)
        for thread in (load, reader):
            thread.start()
            self.addCleanup(thread.join)
            self.addCleanup(thread.stops.set)
        for _ in range(3):
            self.more(load)
            self.server.kill()
            self.server.start()
            self.more(load)
            reader.gives_up.set()
        self.server.run(*DEFINITIONS)
        self.more(load)
        load.stops.set()
        load.join()
        self.server.run("INSERT INTO shop.parents VALUES (9999, 'the end')")
        wait("the last transaction", lambda: reader.failure or 9999 in reader.tables.get("parents", {}))
        reader.stops.set()
        self.server.run("INSERT INTO shop.parents VALUES (10000, 'to wake the reader')")
        reader.join()
        self.assertIsNone(reader.failure)
        # The library opens lost connections again by itself, too.
        self.assertGreater(reader.connections, 2)
        for table in TABLES:
            self.compare(table, reader.tables.get(table, {}))

    def compare(self, table, found):
        """Compares the keys of a table, and the columns that both sides have in one form."""
        columns = {"items": "id, tiny, big, name, note", "kv": "k, v", "later": "id, v"}.get(table, "*")
        connection = self.server.connect()
        with connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(f"SELECT {columns} FROM shop.{table} WHERE {'k' if table == 'kv' else 'id'} <> 10000")
            expected = {row["k" if table == "kv" else "id"]: row for row in cursor.fetchall()}
        self.assertEqual(found.keys(), expected.keys(), table)
        for key, row in expected.items():
            self.assertEqual({name: found[key][name] for name in row}, row, table)


if __name__ == "__main__":
    unittest.main()
