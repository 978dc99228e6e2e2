"""Stored procedures and LOAD DATA LOCAL through the drivers of Python, as the drivers' own suites use them."""

import pathlib
import tempfile
import unittest
import warnings

import mysql.connector
import pymysql

import where

DATABASE = "steps_programs"
LINES = "".join(f"{number}\tname {number}\n" for number in range(1, 1001))


class Programs(unittest.TestCase):
    """A database of its own, and files for the client to send."""

    def setUp(self):
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("ignore")
        folder = tempfile.TemporaryDirectory(prefix="porpoise-programs-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.administer(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
        with where.mysql() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@local_infile")
            self.addCleanup(self.administer, f"SET GLOBAL local_infile = {cursor.fetchone()[0]}")
        self.administer("SET GLOBAL local_infile = 1")

    def administer(self, *statements):
        with where.mysql() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def file(self, text=LINES):
        path = self.folder / "lines"
        path.write_text(text, newline="")
        return str(path)


class PyMySql(Programs):
    def setUp(self):
        super().setUp()
        self.connection = where.mysql(database=DATABASE, local_infile=True, autocommit=True)
        self.addCleanup(self.connection.close)
        self.cursor = self.connection.cursor()

    def run_all(self, *statements):
        for statement in statements:
            self.cursor.execute(statement)

    def rows(self, statement):
        self.cursor.execute(statement)
        return self.cursor.fetchall()

    def test_a_procedure_gives_its_rows_and_out_parameters(self):
        self.run_all("CREATE PROCEDURE p(IN a INT, INOUT b INT, OUT c VARCHAR(20)) "
                     "BEGIN SET b = a + b; SET c = CONCAT('got ', b); SELECT a, b, c; END")
        self.assertEqual(self.cursor.callproc("p", (1, 41, None)), (1, 41, None))
        self.assertEqual(self.cursor.fetchall(), ((1, 42, "got 42"),))
        self.assertTrue(self.cursor.nextset())
        self.assertIsNone(self.cursor.description)
        self.assertFalse(self.cursor.nextset())
        self.assertEqual(self.rows("SELECT @_p_0, @_p_1, @_p_2"), ((1, 42, "got 42"),))

    def test_several_results_come_in_their_order(self):
        self.run_all("CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1), (2), (3)",
                     "CREATE PROCEDURE p() BEGIN SELECT COUNT(*) FROM t; DELETE FROM t WHERE a = 1; "
                     "SELECT a FROM t ORDER BY a; UPDATE t SET a = a + 10; END")
        self.cursor.callproc("p")
        self.assertEqual(self.cursor.fetchall(), ((3,),))
        self.assertTrue(self.cursor.nextset())
        self.assertEqual(self.cursor.fetchall(), ((2,), (3,)))
        self.assertTrue(self.cursor.nextset())
        self.assertIsNone(self.cursor.description)
        self.assertIsNone(self.cursor.nextset())
        self.assertEqual(self.rows("SELECT SUM(a) FROM t"), ((25,),))

    def test_results_that_are_left_unread_are_passed_over(self):
        self.run_all("CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; SELECT 3; END")
        self.cursor.callproc("p")
        self.assertEqual(self.rows("SELECT 42"), ((42,),))
        with self.connection.cursor(pymysql.cursors.SSCursor) as cursor:
            cursor.execute("CALL p()")
            self.assertEqual(list(cursor.fetchall_unbuffered()), [(1,)])
            self.assertTrue(cursor.nextset())
            self.assertEqual(cursor.fetchone(), (2,))
        self.assertEqual(self.rows("SELECT 43"), ((43,),))

    def test_an_error_in_a_procedure_follows_the_results_before_it(self):
        self.run_all("CREATE PROCEDURE p() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' "
                     "SET MESSAGE_TEXT = 'no more', MYSQL_ERRNO = 5000; SELECT 2; END")
        self.cursor.callproc("p")
        self.assertEqual(self.cursor.fetchall(), ((1,),))
        with self.assertRaises(pymysql.MySQLError) as failure:
            self.cursor.nextset()
        self.assertEqual(failure.exception.args, (5000, "no more"))
        self.assertEqual(self.rows("SELECT 2"), ((2,),))
        with self.assertRaises(pymysql.MySQLError) as failure:
            self.cursor.callproc("missing")
        self.assertEqual(failure.exception.args[0], 1305)

    def test_warnings_of_several_statements_are_those_of_the_last(self):
        options = {"client_flag": pymysql.constants.CLIENT.MULTI_STATEMENTS, "database": DATABASE}
        with where.mysql(**options) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1; SELECT CAST('4 a' AS SIGNED); SELECT 3")
            self.assertEqual(cursor.warning_count, 0)
            self.assertTrue(cursor.nextset())
            self.assertEqual(cursor.warning_count, 1)
            self.assertTrue(cursor.nextset())
            self.assertEqual((cursor.fetchall(), cursor.nextset()), (((3,),), None))

    def test_a_file_is_loaded(self):
        self.run_all("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
        load = f"LOAD DATA LOCAL INFILE '{self.file()}' INTO TABLE t"
        self.assertEqual(self.cursor.execute(load), 1000)
        self.assertEqual(self.rows("SELECT COUNT(*), SUM(id), MAX(name) FROM t"), ((1000, 500500, "name 999"),))
        # All rows are there already: LOCAL passes over duplicates, and warns.
        self.assertEqual(self.cursor.execute(load), 0)
        self.assertEqual(self.cursor.warning_count, 1000)
        self.assertEqual(self.rows("SHOW COUNT(*) WARNINGS"), ((1000,),))

    def test_a_file_is_loaded_with_a_cursor_that_keeps_no_rows(self):
        self.run_all("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
        with self.connection.cursor(pymysql.cursors.SSCursor) as cursor:
            cursor.execute(f"LOAD DATA LOCAL INFILE '{self.file()}' INTO TABLE t (id, @n) SET name = UPPER(@n)")
            cursor.execute("SELECT COUNT(*), MIN(name) FROM t")
            self.assertEqual(cursor.fetchone(), (1000, "NAME 1"))

    def test_a_missing_file_leaves_the_connection_whole(self):
        self.run_all("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
        with self.assertRaises(pymysql.OperationalError) as failure:
            self.cursor.execute("LOAD DATA LOCAL INFILE '/no/such/file' INTO TABLE t")
        self.assertEqual(failure.exception.args[0], 1017)
        self.assertEqual(self.rows("SELECT COUNT(*) FROM t"), ((0,),))

    def test_a_client_that_does_not_offer_files_is_not_asked_for_one(self):
        self.run_all("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
        with where.mysql(database=DATABASE) as connection, connection.cursor() as cursor:
            with self.assertRaises(pymysql.MySQLError) as failure:
                cursor.execute(f"LOAD DATA LOCAL INFILE '{self.file()}' INTO TABLE t")
            self.assertIn(failure.exception.args[0], (1148, 3948, 4166))
            cursor.execute("SELECT 1")
            self.assertEqual(cursor.fetchone(), (1,))


class Connector(Programs):
    def setUp(self):
        super().setUp()
        host, port = where.mysql_address()
        options = {"host": host, "port": port, "user": "root", "password": "", "use_pure": True}
        options |= {"database": DATABASE, "autocommit": True, "allow_local_infile": True}
        options |= {"charset": "utf8mb4", "collation": "utf8mb4_general_ci"}
        self.connection = mysql.connector.connect(**options)
        self.addCleanup(self.connection.close)

    def run_all(self, *statements):
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def test_out_parameters_come_back(self):
        self.run_all(
            "CREATE PROCEDURE concat_two(IN a VARCHAR(20), IN b VARCHAR(20), OUT c VARCHAR(40)) SET c = CONCAT(a, b)",
            "CREATE PROCEDURE twice(INOUT a INT, INOUT d DECIMAL(10,2)) BEGIN SET a = a * 2; SET d = d * 2; END",
        )
        with self.connection.cursor() as cursor:
            self.assertEqual(cursor.callproc("concat_two", ("ham", "é", "")), ("ham", "é", "hamé"))
            self.assertEqual(cursor.callproc(f"{DATABASE}.concat_two", ("a", None, "x")), ("a", None, None))
            found = cursor.callproc("twice", ((21, "SIGNED"), ("1.25", "DECIMAL(10,2)")))
            self.assertEqual([str(value) for value in found], ["42", "2.50"])
        with self.connection.cursor(dictionary=True) as cursor:
            found = cursor.callproc("concat_two", ("x", "y", ""))
            self.assertEqual(found["concat_two_arg3"], "xy")

    def test_results_are_stored_in_their_order(self):
        self.run_all(
            "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))",
            "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')",
            "CREATE PROCEDURE p(IN least INT, OUT n INT) BEGIN SELECT id FROM t WHERE id >= least ORDER BY id; "
            "SELECT name, id FROM t WHERE id = 99; SELECT COUNT(*) INTO n FROM t; SELECT 'last' AS word; END",
        )
        with self.connection.cursor() as cursor:
            self.assertEqual(cursor.callproc("p", (2, 0)), (2, 3))
            results = list(cursor.stored_results())
        self.assertEqual([result.column_names for result in results], [("id",), ("name", "id"), ("word",)])
        self.assertEqual([result.fetchall() for result in results], [[(2,), (3,)], [], [("last",)]])

    def test_an_error_of_a_procedure_is_raised_and_the_connection_lives(self):
        self.run_all(
            "CREATE PROCEDURE p() BEGIN SELECT 1; SIGNAL SQLSTATE '42S02' SET MESSAGE_TEXT = 'gone'; END",
            "CREATE PROCEDURE warned() BEGIN SELECT 1; SELECT CAST('9x' AS SIGNED); END",
        )
        with self.connection.cursor() as cursor:
            with self.assertRaises(mysql.connector.Error) as failure:
                cursor.callproc("p")
            self.assertEqual((failure.exception.sqlstate, failure.exception.msg), ("42S02", "gone"))
            with self.assertRaises(mysql.connector.ProgrammingError) as failure:
                cursor.callproc("missing", (1,))
            self.assertEqual(failure.exception.errno, 1305)
        with self.connection.cursor() as cursor:
            cursor.callproc("warned")
            self.assertEqual([result.fetchall() for result in cursor.stored_results()], [[(1,)], [(9,)]])

    def test_a_call_can_be_prepared(self):
        self.run_all("CREATE PROCEDURE p(IN a INT, IN b DECIMAL(10,3)) SELECT a + 1 AS x, b * 2 AS y")
        with self.connection.cursor(prepared=True) as cursor:
            for number in range(3):
                cursor.execute("CALL p(%s, %s)", (number, "1.5"))
                rows = cursor.fetchall()
                self.assertEqual([(x, str(y)) for x, y in rows], [(number + 1, "3.000")])
                while cursor.nextset():
                    pass

    def test_a_file_is_loaded(self):
        self.run_all("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), day DATE)")
        text = "id;name;day\r\n" + "".join(f'{number};"a ""{number}""";2024-02-{number:02}\r\n' for number in range(1, 30))
        with self.connection.cursor() as cursor:
            cursor.execute(
                f"LOAD DATA LOCAL INFILE '{self.file(text)}' INTO TABLE t CHARACTER SET utf8mb4 "
                "FIELDS TERMINATED BY ';' OPTIONALLY ENCLOSED BY '\"' LINES TERMINATED BY '\\r\\n' IGNORE 1 LINES"
            )
            self.assertEqual((cursor.rowcount, cursor.warning_count), (29, 0))
            cursor.execute("SELECT name, CAST(day AS CHAR) FROM t WHERE id = 29")
            self.assertEqual(cursor.fetchall(), [('a "29"', "2024-02-29")])


if __name__ == "__main__":
    unittest.main()
