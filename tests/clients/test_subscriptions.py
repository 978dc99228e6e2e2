"""Subscriptions of the Python package (clients/python): through kill -9 and restart, KILL, Ctrl-C."""

import contextlib
import datetime
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import porpoise
import pymysql
from where import setting

SECONDS = 60


class Server:
    """A server with a change log, that stays at its addresses when it is started again."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.ports = {"mysql": 0, "native": 0}
        self.start()

    def start(self):
        command = [setting("CLIENTS_BINARY"), "serve", "--data-dir", str(self.folder / "data"), "--log-bin"]
        for listener, port in self.ports.items():
            command += [f"--{listener}-listen", f"127.0.0.1:{port}"]
        log = self.folder / "log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + SECONDS
        while "porpoise ready" not in (words := log.read_text(errors="replace")):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(words)
            time.sleep(0.02)
        for line in words.splitlines():
            if line.startswith("ready ") and line.split()[1] in self.ports:
                self.ports[line.split()[1]] = int(line.rsplit(":", 1)[1])

    def kill9(self):
        self.process.kill()
        self.process.wait()

    def sql(self, *statements):
        with contextlib.closing(pymysql.connect(host="127.0.0.1", port=self.ports["mysql"], user="root")) as connection:
            connection.autocommit(True)
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return cursor.fetchall()

    def native(self, **options):
        return porpoise.connect("127.0.0.1", self.ports["native"], "root", **options)


class Subscriptions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.server = Server(folder.name)
        cls.addClassCleanup(lambda: cls.server.kill9())

    def setUp(self):
        self.server.sql("DROP DATABASE IF EXISTS d", "CREATE DATABASE d")

    def make(self, columns):
        self.server.sql(f"CREATE TABLE d.t ({columns})")
        native = self.server.native()
        self.addCleanup(native.close)
        return native, native.table("d", "t")

    @staticmethod
    def shown(transaction):
        return [(change.kind, change.before, change.after) for change in transaction.changes]

    def test_changes_come_once_and_whole_through_kill_9_and_restart(self):
        native, table = self.make("id INT PRIMARY KEY, v VARCHAR(9), at DATETIME(3), price DECIMAL(5,2), raw VARBINARY(3)")
        subscription = native.subscribe(table)
        self.addCleanup(subscription.close)
        one = {"id": 1, "v": "a", "at": datetime.datetime(2026, 11, 24, 1, 2, 3, 5000), "price": None, "raw": b"\x01"}
        native.insert(table, [one])
        first = subscription.next(SECONDS)
        self.assertEqual(self.shown(first), [("insert", None, one)])
        self.assertTrue(first.gtid and first.micros > 0)
        self.server.kill9()
        self.server.start()
        self.server.sql("UPDATE d.t SET v = 'b' WHERE id = 1", "DELETE FROM d.t", "TRUNCATE d.t")
        two = one | {"v": "b"}
        rest = [("update", one, two)], [("delete", two, None)], [("truncate", None, None)]
        self.assertEqual([self.shown(subscription.next(SECONDS)) for _ in rest], list(rest))
        self.assertIsNone(subscription.next(0))
        # Another process continues behind a transaction; the iterator waits.
        with self.server.native() as native, native.subscribe(table, position=first.position) as again:
            self.assertEqual([self.shown(transaction) for _, transaction in zip(rest, again)], list(rest))
            self.assertEqual(again.position, subscription.position)

    def test_ranges_of_the_key(self):
        native, table = self.make("a INT, b INT, PRIMARY KEY (a, b)")
        with native.subscribe(table, ranges=[(1, 2), ((5, 5), None)]) as subscription:
            native.insert(table, [{"a": a, "b": b} for a in range(7) for b in (4, 5)])
            keys = [(change.after["a"], change.after["b"]) for change in subscription.next(SECONDS).changes]
            self.assertEqual(keys, [(1, 4), (1, 5), (5, 5), (6, 4), (6, 5)])
        with self.assertRaises(porpoise.ServerError) as refused:
            native.subscribe(table, position="yesterday")
        self.assertEqual(refused.exception.code, 1236)

    def test_kill_ends_a_subscription_with_an_error(self):
        native, table = self.make("id INT PRIMARY KEY")
        subscription = native.subscribe(table)
        killer = threading.Timer(0.2, self.server.sql, [f"KILL {subscription.id}"])
        killer.start()
        # Other threads run while one waits.
        for _ in range(2):
            with self.assertRaises(porpoise.ServerError) as ended:
                next(subscription)
            self.assertIn(ended.exception.code, (1317, 3169))
        killer.join()
        subscription.close()
        with self.assertRaises(porpoise.Disconnected):
            subscription.next(1)

    def test_ctrl_c_ends_a_wait_and_the_subscription_goes_on(self):
        native, table = self.make("id INT PRIMARY KEY")
        subscription = native.subscribe(table)
        self.addCleanup(subscription.close)
        for _ in range(2):
            threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
            with self.assertRaises(KeyboardInterrupt):
                subscription.next(SECONDS)
        # A handler that does not raise ends no wait.
        seen = []
        before = signal.signal(signal.SIGALRM, lambda *_: seen.append(native.insert(table, [{"id": 1}])))
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        self.assertEqual(self.shown(subscription.next(SECONDS)), [("insert", None, {"id": 1})])
        self.assertEqual(len(seen), 1)

    def test_ctrl_c_in_a_batch_closes_the_connection(self):
        native, table = self.make("id INT PRIMARY KEY, v INT")
        native.insert(table, [{"id": 1, "v": 1}])
        locker = self.server.native()
        self.addCleanup(locker.close)
        locker.begin()
        batch = porpoise.Batch()
        batch.update(table, 1, {"v": 2})
        locker.run(batch)
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
        with self.assertRaises(KeyboardInterrupt):
            native.run(batch)
        with self.assertRaises(porpoise.Disconnected):
            native.ping()


if __name__ == "__main__":
    sys.exit(unittest.main())
