"""Readers of the binary log: python-mysql-replication by position and by GTIDs, beside SQL and memcached."""

import struct
import unittest

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import GtidEvent, QueryEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from where import memcached, mysql, mysql_address

DATABASE = "steps_replication"
ROWS = [WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent]


class Replication(unittest.TestCase):
    def setUp(self):
        self.connection = mysql(autocommit=True)
        self.addCleanup(self.connection.close)
        self.cursor = self.connection.cursor()
        self.run_sql(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
        self.connection.select_db(DATABASE)
        self.run_sql("CREATE TABLE parents (id INT PRIMARY KEY, doc JSON, text VARCHAR(40))")
        self.run_sql(
            "CREATE TABLE children (id INT PRIMARY KEY, parent INT,"
            " FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE)"
        )

    def run_sql(self, *statements):
        for statement in statements:
            self.cursor.execute(statement)

    def value(self, statement):
        self.cursor.execute(statement)
        return self.cursor.fetchone()[0]

    def stream(self, events, **options):
        """All events of these kinds until the present end of the log."""
        host, port = mysql_address()
        settings = {"host": host, "port": port, "user": "root", "passwd": ""}
        # A new file begins when everything before it is written.
        self.run_sql("FLUSH BINARY LOGS")
        reader = BinLogStreamReader(
            connection_settings=settings, server_id=99, resume_stream=True, blocking=False, only_events=events, **options
        )
        self.addCleanup(reader.close)
        return list(reader)

    def place(self):
        self.run_sql("FLUSH BINARY LOGS", "SHOW MASTER STATUS")
        row = self.cursor.fetchone()
        return {"log_file": row[0], "log_pos": row[1]}

    def test_changes_of_all_doors_come_in_order(self):
        place = self.place()
        self.run_sql(
            """INSERT INTO parents VALUES (1, '{"a": [1, 2.5, null]}', 'one'), (2, NULL, NULL)""",
            "INSERT INTO children VALUES (10, 1), (11, 1)",
            "UPDATE parents SET text = 'eins' WHERE id = 1",
            "DELETE FROM parents WHERE id = 1",
            "CREATE TABLE kv (k VARCHAR(20) PRIMARY KEY, v VARCHAR(20))",
            "ALTER TABLE kv MEMCACHED PREFIX 'repl:'",
        )
        client = memcached()
        client.set("repl:x", "y", noreply=False)
        client.delete("repl:x", noreply=False)
        found, mapping = [], []
        for event in self.stream(ROWS + [QueryEvent], **place):
            if isinstance(event, QueryEvent):
                if event.query != "BEGIN":
                    found.append(event.query.split(" (")[0])
                continue
            if event.schema == "ndbmemcache":
                mapping.append(event.table)
                continue
            for row in event.rows:
                values = row.get("values") or (row["before_values"], row["after_values"])
                found.append((type(event).__name__, event.table, values))
        document = {b"a": [1, 2.5, None]}
        one = {"id": 1, "doc": document, "text": "one"}
        self.assertEqual(
            found,
            [
                ("WriteRowsEvent", "parents", one),
                ("WriteRowsEvent", "parents", {"id": 2, "doc": None, "text": None}),
                ("WriteRowsEvent", "children", {"id": 10, "parent": 1}),
                ("WriteRowsEvent", "children", {"id": 11, "parent": 1}),
                ("UpdateRowsEvent", "parents", (one, one | {"text": "eins"})),
                ("DeleteRowsEvent", "parents", one | {"text": "eins"}),
                ("DeleteRowsEvent", "children", {"id": 10, "parent": 1}),
                ("DeleteRowsEvent", "children", {"id": 11, "parent": 1}),
                "CREATE TABLE kv",
                ("WriteRowsEvent", "kv", {"k": "x", "v": "y"}),
                ("DeleteRowsEvent", "kv", {"k": "x", "v": "y"}),
            ],
        )
        # ALTER TABLE ... MEMCACHED is logged as the rows of the mapping.
        self.assertLessEqual({"containers", "key_prefixes"}, set(mapping))

    def test_a_reader_with_gtids_gets_what_it_lacks(self):
        has = self.value("SELECT @@gtid_executed")
        self.run_sql("INSERT INTO parents (id) VALUES (1)", "DELETE FROM parents")
        found = [event.gtid for event in self.stream([GtidEvent], auto_position=has)]
        last = int(self.value("SELECT @@gtid_executed").split("-")[-1])
        uuid = self.value("SELECT @@server_uuid")
        # Those that the writer had not shown yet come, too.
        self.assertEqual(found[-2:], [f"{uuid}:{last - 1}", f"{uuid}:{last}"])
        self.assertEqual(len(found), len(set(found)))
        self.assertFalse(set(found) & {f"{uuid}:{n}" for n in range(1, int(has.split("-")[-1]) + 1)})

    def test_a_dump_needs_the_privilege(self):
        self.run_sql("DROP USER IF EXISTS reader", "CREATE USER reader IDENTIFIED BY 'x'")
        reader = mysql(user="reader", password="x")
        self.addCleanup(reader.close)
        with self.assertRaises(pymysql.MySQLError) as failure:
            reader._execute_command(0x12, struct.pack("<IHI", 4, 1, 9) + b"binlog.000001")
            reader._read_packet()
        self.assertEqual(failure.exception.args[0], 1227)

    def test_wrong_places_are_refused(self):
        self.run_sql("SET @source_binlog_checksum = 'NONE'")
        for position, name in [(4, b"binlog.999999"), (3, b""), (1 << 30, b"")]:
            connection = mysql()
            connection.cursor().execute("SET @master_binlog_checksum = 'NONE'")
            with self.assertRaises(pymysql.MySQLError) as failure:
                connection._execute_command(0x12, struct.pack("<IHI", position, 1, 9) + name)
                connection._read_packet()
            self.assertEqual(failure.exception.args[0], 1236, name)
            connection.close()


if __name__ == "__main__":
    unittest.main()
