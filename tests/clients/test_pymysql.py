"""First steps with PyMySQL: statements as text, types, transactions, constraints, errors."""

import datetime
import decimal
import random
import unittest

import pymysql

from where import mysql

DATABASE = "steps_pymysql"


class PyMySql(unittest.TestCase):
    def setUp(self):
        self.connection = mysql()
        self.addCleanup(self.connection.close)
        self.cursor = self.connection.cursor()
        self.run_sql(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
        self.connection.select_db(DATABASE)

    def run_sql(self, *statements):
        for statement in statements:
            self.cursor.execute(statement)

    def rows(self, statement, *values):
        self.cursor.execute(statement, values or None)
        return self.cursor.fetchall()

    def fails_with(self, number, statement, *values):
        with self.assertRaises(pymysql.MySQLError) as failure:
            self.cursor.execute(statement, values or None)
        self.assertEqual(failure.exception.args[0], number, failure.exception)
        return failure.exception

    def test_connects_and_answers(self):
        self.connection.ping(reconnect=False)
        self.assertEqual(self.rows("SELECT 1, 'one'"), ((1, "one"),))
        self.assertEqual(self.rows("SELECT DATABASE()"), ((DATABASE,),))
        self.assertTrue(self.connection.get_server_info())

    def test_auto_increment_tells_its_ids(self):
        self.run_sql("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50))")
        self.assertEqual(self.cursor.execute("INSERT INTO t (name) VALUES (%s)", ("a",)), 1)
        first = self.cursor.lastrowid
        self.assertEqual(first, 1)
        self.cursor.executemany("INSERT INTO t (name) VALUES (%s)", [("b",), ("c",), ("d",)])
        self.assertEqual(self.cursor.rowcount, 3)
        expected = ((1, "a"), (2, "b"), (3, "c"), (4, "d"))
        self.assertEqual(self.rows("SELECT id, name FROM t ORDER BY id"), expected)
        self.run_sql("INSERT INTO t VALUES (100, 'e')", "INSERT INTO t (name) VALUES ('f')")
        self.assertGreater(self.cursor.lastrowid, 100)

    def test_select_filters_orders_and_limits(self):
        self.run_sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        values = [(number, number * number) for number in range(1, 1001)]
        self.cursor.executemany("INSERT INTO t VALUES (%s, %s)", values)
        self.assertEqual(self.rows("SELECT COUNT(*), MIN(n), MAX(n) FROM t"), ((1000, 1, 1_000_000),))
        self.assertEqual(self.rows("SELECT n FROM t WHERE id = %s", 7), ((49,),))
        self.assertEqual(
            self.rows("SELECT id FROM t WHERE id IN (5, 3, 2000) ORDER BY id DESC"), ((5,), (3,))
        )
        self.assertEqual(
            self.rows("SELECT id FROM t WHERE n BETWEEN 100 AND 200 ORDER BY n LIMIT 2"),
            ((10,), (11,)),
        )
        self.assertEqual(self.rows("SELECT id FROM t WHERE id > 5000"), ())

    def test_update_and_delete_tell_their_rows(self):
        self.run_sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        self.run_sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        self.assertEqual(self.cursor.execute("UPDATE t SET n = n + 10 WHERE id >= 2"), 2)
        self.assertEqual(self.cursor.execute("DELETE FROM t WHERE id = 1"), 1)
        self.assertEqual(self.cursor.execute("DELETE FROM t WHERE id = 1"), 0)
        self.assertEqual(self.rows("SELECT id, n FROM t ORDER BY id"), ((2, 12), (3, 13)))

    def test_rollback_undoes_and_commit_shows(self):
        self.run_sql("CREATE TABLE t (id INT PRIMARY KEY)")
        other = mysql(database=DATABASE, autocommit=True)
        self.addCleanup(other.close)

        def seen():
            with other.cursor() as cursor:
                cursor.execute("SELECT COUNT(*) FROM t")
                return cursor.fetchone()[0]

        self.connection.begin()
        self.run_sql("INSERT INTO t VALUES (1)")
        self.assertEqual(self.rows("SELECT COUNT(*) FROM t"), ((1,),))
        self.assertEqual(seen(), 0)
        self.connection.rollback()
        self.assertEqual(self.rows("SELECT COUNT(*) FROM t"), ((0,),))
        self.connection.begin()
        self.run_sql("INSERT INTO t VALUES (2)", "SAVEPOINT here", "INSERT INTO t VALUES (3)")
        self.run_sql("ROLLBACK TO SAVEPOINT here")
        self.connection.commit()
        self.assertEqual(seen(), 1)

    def test_a_result_is_read_as_it_comes(self):
        numbers = "WITH RECURSIVE n AS (SELECT 1 a UNION ALL SELECT a + 1 FROM n WHERE a < 900) SELECT a, REPEAT('x', 5000) FROM n"
        with self.connection.cursor(pymysql.cursors.SSCursor) as cursor:
            cursor.execute(numbers)
            for number, (found, _) in enumerate(cursor.fetchall_unbuffered(), 1):
                self.assertEqual(found, number)
            self.assertEqual(number, 900)
            cursor.execute("SELECT 1")
            self.assertEqual(cursor.fetchone(), (1,))
        self.assertEqual(self.rows("SELECT 2"), ((2,),))

    def test_foreign_keys_hold(self):
        self.run_sql(
            "CREATE TABLE parent (id INT PRIMARY KEY, name VARCHAR(20))",
            "CREATE TABLE child (id INT PRIMARY KEY, parent_id INT, "
            "CONSTRAINT fk_steps FOREIGN KEY (parent_id) REFERENCES parent(id) ON DELETE CASCADE)",
            "INSERT INTO parent VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO child VALUES (10, 1), (11, 1), (12, 2), (13, NULL)",
        )
        failure = self.fails_with(1452, "INSERT INTO child VALUES (14, 99)")
        self.assertIsInstance(failure, pymysql.IntegrityError)
        self.assertIn("fk_steps", failure.args[1])
        self.fails_with(1452, "UPDATE child SET parent_id = 99 WHERE id = 10")
        self.assertEqual(self.cursor.execute("DELETE FROM parent WHERE id = 1"), 1)
        self.assertEqual(self.rows("SELECT id FROM child ORDER BY id"), ((12,), (13,)))

    def test_restricted_parents_stay(self):
        self.run_sql(
            "CREATE TABLE parent (id INT PRIMARY KEY)",
            "CREATE TABLE child (id INT PRIMARY KEY, parent_id INT NOT NULL, "
            "FOREIGN KEY (parent_id) REFERENCES parent(id))",
            "INSERT INTO parent VALUES (1)",
            "INSERT INTO child VALUES (10, 1)",
        )
        self.fails_with(1451, "DELETE FROM parent WHERE id = 1")
        self.assertEqual(self.rows("SELECT COUNT(*) FROM parent"), ((1,),))

    def test_keys_and_nulls_are_checked(self):
        self.run_sql(
            "CREATE TABLE t (id INT PRIMARY KEY, mail VARCHAR(50) UNIQUE, name VARCHAR(5) NOT NULL)",
            "INSERT INTO t VALUES (1, 'a@x', 'a'), (2, NULL, 'b'), (3, NULL, 'c')",
        )
        self.assertIn("PRIMARY", self.fails_with(1062, "INSERT INTO t VALUES (1, 'z', 'd')").args[1])
        self.assertIn("mail", self.fails_with(1062, "INSERT INTO t VALUES (4, 'a@x', 'd')").args[1])
        self.fails_with(1048, "INSERT INTO t VALUES (4, 'd@x', NULL)")
        self.fails_with(1406, "INSERT INTO t VALUES (4, 'd@x', 'longer')")
        nulls = self.rows("SELECT id FROM t WHERE mail IS NULL ORDER BY id")
        self.assertEqual(nulls, ((2,), (3,)))
        self.assertEqual(self.rows("SELECT mail FROM t WHERE id = 2"), ((None,),))

    def test_text_of_any_script_and_bytes_come_back(self):
        self.run_sql(
            "CREATE TABLE t (id INT PRIMARY KEY, words VARCHAR(100), story TEXT, raw BLOB) "
            "DEFAULT CHARSET = utf8mb4"
        )
        words = "naïve “quotes” O'Neil \\ 汉字 🐬"
        story = words * 500
        raw = bytes(range(256)) * 100
        self.cursor.execute("INSERT INTO t VALUES (1, %s, %s, %s)", (words, story, raw))
        self.cursor.execute("INSERT INTO t VALUES (2, %s, %s, %s)", ("", "", b""))
        found = self.rows("SELECT words, story, raw FROM t ORDER BY id")
        self.assertEqual(found, ((words, story, raw), ("", "", b"")))
        self.assertEqual(self.rows("SELECT id FROM t WHERE words = %s", words), ((1,),))

    def test_numbers_and_dates_come_back(self):
        self.run_sql(
            "CREATE TABLE t (id INT PRIMARY KEY, big BIGINT UNSIGNED, tiny TINYINT, price DECIMAL(12,3), "
            "ratio DOUBLE, day DATE, moment DATETIME, span TIME, sort ENUM('red','green'))"
        )
        values = (
            2**64 - 1,
            -128,
            decimal.Decimal("-123456789.125"),
            0.1,
            datetime.date(2024, 2, 29),
            datetime.datetime(1999, 12, 31, 23, 59, 58),
            datetime.timedelta(hours=-3, minutes=-4, seconds=-5),
            "green",
        )
        self.cursor.execute("INSERT INTO t VALUES (1, %s, %s, %s, %s, %s, %s, %s, %s)", values)
        self.cursor.execute("INSERT INTO t (id) VALUES (2)")
        found = self.rows("SELECT big, tiny, price, ratio, day, moment, span, sort FROM t ORDER BY id")
        self.assertEqual(found, (values, (None,) * 8))
        self.fails_with(1264, "INSERT INTO t (id, tiny) VALUES (3, 128)")

    def test_errors_have_numbers_and_leave_the_connection_whole(self):
        self.fails_with(1064, "SELEC 1")
        self.fails_with(1146, "SELECT * FROM nothing")
        self.fails_with(1049, "USE no_such_database")
        self.run_sql("CREATE TABLE t (id INT PRIMARY KEY)")
        self.fails_with(1054, "SELECT missing FROM t")
        self.fails_with(1050, "CREATE TABLE t (id INT PRIMARY KEY)")
        self.assertEqual(self.rows("SELECT 2"), ((2,),))

    def test_the_schema_can_be_looked_at(self):
        self.run_sql("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, name VARCHAR(20) DEFAULT 'x')")
        self.assertEqual(self.rows("SHOW TABLES"), (("t",),))
        columns = [(row[0], row[2], row[3], row[4]) for row in self.rows("DESCRIBE t")]
        self.assertEqual(columns, [("id", "NO", "PRI", None), ("name", "YES", "", "x")])
        self.assertIn("CREATE TABLE `t`", self.rows("SHOW CREATE TABLE t")[0][1])
        self.assertIn((DATABASE,), self.rows("SHOW DATABASES"))

    def test_a_value_as_large_as_a_packet_goes_in_and_comes_out(self):
        self.run_sql("CREATE TABLE t (id INT PRIMARY KEY, n INT, v LONGBLOB)")
        ((limit,),) = self.rows("SELECT @@max_allowed_packet")
        text = random.Random(7).randbytes(1 << 16).hex().encode()
        # The driver writes bytes as X'...': two digits for each.
        value = (text * (64_000_000 // len(text) + 1))[: min(64_000_000, int(limit) // 2 - 4096)]
        self.cursor.execute("INSERT INTO t VALUES (1, 0, %s)", (value,))
        self.run_sql("UPDATE t SET n = n + 1")
        self.assertEqual(self.rows("SELECT n, LENGTH(v) FROM t"), ((1, len(value)),))
        ((back,),) = self.rows("SELECT v FROM t WHERE id = 1")
        self.assertTrue(back == value, "another value came back")
        self.run_sql("DELETE FROM t")

    def test_a_dropped_connection_rolls_back(self):
        self.run_sql("CREATE TABLE t (id INT PRIMARY KEY)")
        other = mysql(database=DATABASE)
        with other.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (1)")
        other.close()
        # FOR UPDATE waits for the row's lock if the server is still undoing.
        self.assertEqual(self.rows("SELECT * FROM t WHERE id = 1 FOR UPDATE"), ())


if __name__ == "__main__":
    unittest.main()
