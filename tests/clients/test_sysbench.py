"""sysbench's OLTP scripts, unchanged: each prepares its tables, runs a while with two threads, and
cleans up. Locks that two threads take in opposite order are part of such a load, so sysbench repeats
transactions that end in 1213 or 1205; any other error ends it, and the test."""

import re
import subprocess
import unittest

import where

TABLE_ROWS = 500
SECONDS = 1


def sysbench(script, step, **options):
    """Runs one step of a script; gives what it printed."""
    settings = {
        "mysql-host": where.mysql_address()[0],
        "mysql-port": where.mysql_address()[1],
        "mysql-user": "root",
        "mysql-db": "sbtest",
        "threads": 2,
        "tables": 2,
        "table-size": TABLE_ROWS,
        "time": SECONDS,
        "rand-seed": 7,
    }
    settings |= options
    command = ["sysbench", script, *(f"--{name.replace('_', '-')}={value}" for name, value in settings.items()), step]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def count(output, name):
    """A figure of sysbench's closing report."""
    found = re.search(rf"{name}:\s+(\d+)", output)
    if not found:
        raise AssertionError(f"no '{name}' in\n{output}")
    return int(found.group(1))


class Sysbench(unittest.TestCase):
    def setUp(self):
        self.connection = where.mysql(autocommit=True)
        self.sql("DROP DATABASE IF EXISTS sbtest")
        self.sql("CREATE DATABASE sbtest")

    def tearDown(self):
        self.sql("DROP DATABASE sbtest")
        self.connection.close()

    def sql(self, text):
        with self.connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchall()

    def script(self, name, rows=None, **options):
        """Prepares, runs and cleans up; `rows` are what each table has at the end."""
        sysbench(name, "prepare", **options)
        ran = sysbench(name, "run", **options)
        self.assertGreater(count(ran, "transactions"), 0, ran)
        if rows is not None:
            for table in (1, 2):
                found = self.sql(f"SELECT COUNT(*), COUNT(DISTINCT id), SUM(k > 0) FROM sbtest.sbtest{table}")
                self.assertEqual(found, ((rows, rows, rows),))
        sysbench(name, "cleanup", **options)
        self.assertEqual(self.sql("SHOW TABLES FROM sbtest"), ())

    def test_point_select(self):
        self.script("oltp_point_select", TABLE_ROWS)

    def test_point_select_as_text(self):
        self.script("oltp_point_select", TABLE_ROWS, db_ps_mode="disable")

    def test_read_only(self):
        self.script("oltp_read_only", TABLE_ROWS)

    def test_read_write(self):
        # Each transaction deletes a row and puts it back.
        self.script("oltp_read_write", TABLE_ROWS)

    def test_read_write_as_text(self):
        self.script("oltp_read_write", TABLE_ROWS, db_ps_mode="disable")

    def test_write_only(self):
        self.script("oltp_write_only", TABLE_ROWS)

    def test_insert(self):
        sysbench("oltp_insert", "prepare")
        ran = sysbench("oltp_insert", "run")
        inserted = sum(self.sql(f"SELECT COUNT(*) FROM sbtest.sbtest{table}")[0][0] for table in (1, 2))
        self.assertEqual(inserted, 2 * TABLE_ROWS + count(ran, "write"))

    def test_update_index(self):
        self.script("oltp_update_index", TABLE_ROWS)

    def test_update_non_index(self):
        self.script("oltp_update_non_index", TABLE_ROWS)

    def test_delete(self):
        self.script("oltp_delete")

    def test_random_points(self):
        self.script("select_random_points", tables=1)

    def test_random_ranges(self):
        self.script("select_random_ranges", tables=1)

    def test_bulk_insert(self):
        options = {"events": 5000, "time": 0}
        sysbench("bulk_insert", "prepare", **options)
        sysbench("bulk_insert", "run", **options)
        inserted = sum(self.sql(f"SELECT COUNT(*) FROM sbtest.sbtest{table}")[0][0] for table in (1, 2))
        # What a thread's buffer still holds at the end is not sent.
        self.assertGreater(inserted, 0)
        self.assertLessEqual(inserted, options["events"])
        sysbench("bulk_insert", "cleanup", **options)
