"""mysql-connector-python in pure Python: text and prepared cursors, types, resets."""

import datetime
import decimal
import unittest

import mysql.connector

import where

TABLE = """CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(20), d DECIMAL(10,3),
    t DATETIME(6), ti TIME, b BIT(8), bl BLOB, j JSON, f FLOAT, db DOUBLE, da DATE,
    e ENUM('x','y'), u BIGINT UNSIGNED)"""
ROW = (
    "héé",
    decimal.Decimal("1.250"),
    datetime.datetime(2020, 1, 2, 3, 4, 5, 678),
    datetime.timedelta(hours=30),
    b"\x05",
    b"\0\1",
    '{"a": 1}',
    1.5,
    2.25,
    datetime.date(2020, 1, 1),
    "x",
    2**64 - 1,
)


class Connector(unittest.TestCase):
    def setUp(self):
        host, port = where.mysql_address()
        self.connection = mysql.connector.connect(host=host, port=port, user="root", password="", use_pure=True)
        self.addCleanup(self.connection.close)
        self.run_all("DROP DATABASE IF EXISTS steps_connector", "CREATE DATABASE steps_connector")
        self.run_all("USE steps_connector", TABLE)

    def run_all(self, *statements):
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def insert(self, prepared):
        marks = ", ".join(["%s"] * len(ROW))
        with self.connection.cursor(prepared=prepared) as cursor:
            cursor.execute(f"INSERT INTO t (a, d, t, ti, b, bl, j, f, db, da, e, u) VALUES ({marks})", ROW)
            self.assertEqual((cursor.lastrowid, cursor.rowcount), (1, 1))
            self.connection.commit()
            cursor.execute("SELECT * FROM t WHERE id = %s", (1,))
            return cursor.fetchall()

    def test_types_in_text(self):
        (row,) = self.insert(prepared=False)
        self.assertEqual(row[1:5], ROW[:4])
        self.assertEqual(row[5], 5)
        self.assertEqual(row[6:], ROW[5:])

    def test_types_in_binary(self):
        (row,) = self.insert(prepared=True)
        self.assertEqual(row[1:7], ROW[:6])
        self.assertEqual(row[8:], ROW[7:])

    def test_many_rows_at_once(self):
        with self.connection.cursor() as cursor:
            cursor.executemany("INSERT INTO t (a) VALUES (%s)", [(f"q{i}",) for i in range(100)])
            self.assertEqual(cursor.rowcount, 100)
            cursor.execute("SELECT COUNT(*), MAX(id) FROM t")
            self.assertEqual(cursor.fetchone(), (100, 100))

    def test_attributes_of_a_query_are_read(self):
        for prepared in (False, True):
            with self.connection.cursor(prepared=prepared) as cursor:
                cursor.add_attribute("trace", "a b")
                cursor.add_attribute("number", 7)
                cursor.execute(
                    "SELECT %s + 1, mysql_query_attribute_string('trace'), mysql_query_attribute_string('number'), "
                    "mysql_query_attribute_string('other')",
                    (41,),
                )
                self.assertEqual(cursor.fetchone(), (42, "a b", "7", None))

    def test_a_prepared_statement_outlives_a_change_of_its_table(self):
        with self.connection.cursor(prepared=True) as cursor:
            cursor.execute("INSERT INTO t (a) VALUES (%s)", ("x",))
            select = "SELECT * FROM t WHERE a = %s"
            cursor.execute(select, ("x",))
            width = len(cursor.fetchall()[0])
            self.run_all("ALTER TABLE t ADD COLUMN more INT DEFAULT 7 FIRST")
            cursor.execute(select, ("x",))
            (row,) = cursor.fetchall()
            self.assertEqual((len(row), row[0]), (width + 1, 7))

    def test_the_connection_is_reset(self):
        self.run_all("SET @x = 1")
        self.connection.cmd_reset_connection()
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT @x")
            self.assertEqual(cursor.fetchone(), (None,))
        self.connection.cmd_change_user("root", "", "steps_connector")
        self.assertTrue(self.connection.is_connected())


if __name__ == "__main__":
    unittest.main()
