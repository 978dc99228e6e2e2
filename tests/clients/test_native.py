"""The Python package of the native protocol (clients/python) beside PyMySQL."""

import datetime
import decimal
import threading
import unittest

import nanoarrow
import numpy
import porpoise
from where import mysql, setting

HOST, PORT = setting("CLIENTS_NATIVE_HOST"), int(setting("CLIENTS_NATIVE_PORT"))
DATABASE = "native_clients"


class Native(unittest.TestCase):
    def setUp(self):
        self.sql = mysql(autocommit=True)
        self.addCleanup(self.sql.close)
        self.cursor = self.sql.cursor()
        self.cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        self.cursor.execute(f"CREATE DATABASE {DATABASE}")
        self.native = porpoise.connect(HOST, PORT, "root")
        self.addCleanup(self.native.close)

    def make(self, columns):
        self.cursor.execute(f"CREATE TABLE {DATABASE}.t ({columns})")
        return self.native.table(DATABASE, "t")

    def rows(self, query="SELECT * FROM {}.t ORDER BY 1"):
        self.cursor.execute(query.format(DATABASE))
        return list(self.cursor.fetchall())

    def test_a_thousand_rows_are_written_and_read_in_one_batch_each(self):
        table = self.make("id INT PRIMARY KEY, name VARCHAR(20)")
        self.native.insert(table, [{"id": n, "name": f"name{n}"} for n in range(1000)])
        self.assertEqual(len(self.rows()), 1000)
        read = self.native.read(table, range(999, -2, -1))
        self.assertEqual([row and row["name"] for row in read], [f"name{n}" for n in range(999, -1, -1)] + [None])

    def test_columns_are_numpy_arrays(self):
        table = self.make(
            "id INT PRIMARY KEY, a BIGINT, b FLOAT, c DOUBLE, d DATE, e DATETIME(6), f TIME, g SMALLINT UNSIGNED, "
            "h VARCHAR(9), i DECIMAL(9,2)"
        )
        ids = numpy.arange(1000)
        written = {
            "id": ids,
            "a": ids * -(2**40),
            "b": ids.astype("f4") / 2,
            "c": ids / 3,
            "f": ids.astype("m8[s]"),
            "g": (ids % 65536).astype("u2"),
        }
        self.native.insert_columns(table, written)
        self.cursor.execute(f"UPDATE {DATABASE}.t SET d = '1969-12-31', e = '2026-11-24 23:59:58.123456'")
        read = self.native.read_columns(table, ids[::-1], ["a", "b", "c", "d", "e", "f", "g"])
        self.assertTrue(read.found.all() and (read.versions > 0).all())
        for name in ("a", "b", "c", "g"):
            self.assertFalse(numpy.ma.is_masked(read[name]))
            numpy.testing.assert_array_equal(read[name], written[name][::-1])
        self.assertEqual(read["f"][0], numpy.timedelta64(999, "s"))
        self.assertTrue((read["d"] == numpy.datetime64("1969-12-31")).all())
        self.assertTrue((read["e"] == numpy.datetime64("2026-11-24T23:59:58.123456")).all())
        # Rows that do not exist, NULLs and values without a fixed size.
        strings = {
            "id": numpy.array([2000, 2001]),
            "h": numpy.array(["fin", "tail"], dtype=object),
            "i": numpy.ma.masked_array([decimal.Decimal("1.50"), None], mask=[False, True], dtype=object),
        }
        self.native.insert_columns(table, strings)
        read = self.native.read_columns(table, [2001, 7, 3000, 2000], ["a", "d", "h", "i"])
        self.assertEqual(read.found.tolist(), [True, True, False, True])
        self.assertEqual(read["h"].tolist(), ["tail", None, None, "fin"])
        self.assertEqual(read["i"].tolist(), [None, None, None, decimal.Decimal("1.50")])
        self.assertEqual(read["a"].tolist(), [None, -7 * 2**40, None, None])
        self.assertEqual(read["d"].tolist(), [None, datetime.date(1969, 12, 31), None, None])
        with self.assertRaises(ValueError):
            self.native.insert_columns(table, {"id": numpy.array([2**40])})
        with self.assertRaises(porpoise.OperationError):
            self.native.insert_columns(table, {"id": ids})
        self.assertEqual(len(self.native.read_columns(table, numpy.array([], dtype="i4"))["a"]), 0)

    def test_values_of_all_types_are_those_of_pymysql(self):
        table = self.make(
            "id BIGINT UNSIGNED PRIMARY KEY, a TINYINT, b DECIMAL(20,5), c DOUBLE, d DATE, e DATETIME(6), f TIME(3), "
            "g VARBINARY(9), h VARCHAR(9), i YEAR, j BLOB, k TIMESTAMP(6) NULL, l INT"
        )
        moment = datetime.datetime(2026, 11, 24, 23, 59, 58, 123456)
        row = {
            "id": 2**64 - 1,
            "a": -128,
            "b": decimal.Decimal("-12345.67890"),
            "c": 0.1,
            "d": datetime.date(2026, 2, 28),
            "e": moment,
            "f": -datetime.timedelta(hours=100, milliseconds=5),
            "g": b"\x00\xff",
            "h": "caf\u00e9",
            "i": 2026,
            "j": b"x" * 300,
            "k": moment,
            "l": None,
        }
        self.native.insert(table, [row])
        self.assertEqual(self.native.read(table, [row["id"]]), [row])
        self.cursor.execute("SET time_zone = '+00:00'")
        self.assertEqual(self.rows(), [tuple(row.values())])

    def test_versions_conditions_and_errors_are_per_operation(self):
        table = self.make("id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(9), UNIQUE KEY by_name (name)")
        (first,) = self.native.insert(table, [{"name": "a"}])
        self.assertEqual((first.generated_id, first.created), (1, True))
        batch = porpoise.Batch()
        batch.insert(table, {"name": "a"})
        batch.update(table, 1, {"name": "b"}, version=first.version)
        batch.update(table, 1, {"name": "c"}, version=first.version)
        batch.read(table, "b", columns=["id"], by="by_name")
        batch.upsert(table, {"id": 2, "name": "d"})
        batch.upsert(table, {"id": 2, "name": "e"})
        batch.delete(table, 3)
        results = self.native.run(batch)
        self.assertEqual(results[0].code, 1062)
        self.assertIsInstance(results[2], porpoise.ConditionFailed)
        self.assertEqual((results[3], results[3].version), ({"id": 1}, results[1].version))
        self.assertEqual([results[4].created, results[5].created, results[6]], [True, False, None])
        with self.assertRaises(porpoise.OperationError) as refused:
            self.native.insert(table, [{"name": "x"}, {"name": "b"}])
        self.assertEqual(refused.exception.code, 1062)
        self.assertEqual(self.rows(), [(1, "b"), (2, "e")])

    def test_transactions_and_stale_definitions(self):
        table = self.make("a INT, b INT, v INT, PRIMARY KEY (a, b)")
        self.native.begin()
        self.native.insert(table, [{"a": 1, "b": 2, "v": 3}])
        self.assertEqual(self.rows(), [])
        self.native.rollback()
        self.native.begin()
        self.native.insert(table, [{"a": 1, "b": 2, "v": 4}])
        self.native.commit()
        self.assertEqual(self.native.read(table, [(1, 2)], ["v"]), [{"v": 4}])
        self.cursor.execute(f"ALTER TABLE {DATABASE}.t ADD COLUMN w INT")
        with self.assertRaises(porpoise.ServerError) as stale:
            self.native.read(table, [(1, 2)])
        self.assertEqual(stale.exception.code, 1412)
        self.assertIn("w", self.native.read(self.native.table(DATABASE, "t"), [(1, 2)])[0])

    def test_logins_with_and_without_tls(self):
        for plugin in ("caching_sha2_password", "mysql_native_password"):
            user = f"py_{plugin[:5]}"
            self.cursor.execute(f"DROP USER IF EXISTS {user}@localhost")
            self.cursor.execute(f"CREATE USER {user}@localhost IDENTIFIED WITH {plugin} BY 's3cret'")
            # First with the server's key, then by the cached hash, then through TLS.
            for tls in (None, None, "required"):
                with porpoise.connect(HOST, PORT, user, "s3cret", tls=tls) as connection:
                    with self.assertRaises(porpoise.ServerError) as refused:
                        connection.table(DATABASE, "t")
                    self.assertEqual(refused.exception.code, 1142)
            with self.assertRaises(porpoise.ServerError) as refused:
                porpoise.connect(HOST, PORT, user, "wrong")
            self.assertEqual(refused.exception.code, 1045)
        # The server's certificate is signed by nobody.
        with self.assertRaises(porpoise.Disconnected):
            porpoise.connect(HOST, PORT, "root", tls="verify-identity", ca="/nonexistent")
        with self.assertRaises(ValueError):
            porpoise.connect(HOST, PORT, "root", tls="yes")
        with self.assertRaises(ConnectionError):
            porpoise.connect(HOST, 1, "root")

    def test_columns_of_adds_and_comparisons_and_single_rows(self):
        table = self.make("id INT PRIMARY KEY, n INT, v VARCHAR(9)")
        self.native.insert(table, [{"id": 1, "n": 5, "v": "a"}])
        batch = porpoise.Batch()
        batch.update(table, 1, {"v": "b"}, add={"n": 2}, where={"v": "a"})
        batch.update(table, 1, add={"n": 2}, where={"v": "a"})
        batch.delete(table, 1, where={"n": 5})
        written, *failed = self.native.run(batch)
        self.assertIsInstance(written, porpoise.Written)
        self.assertEqual([type(failure) for failure in failed], [porpoise.ConditionFailed] * 2)
        row = self.native.get(table, 1)
        self.assertEqual((row, row.version), ({"id": 1, "n": 7, "v": "b"}, written.version))
        self.assertIsNone(self.native.get(table, 2))
        for wrong in ({"nothing": 1}, {"id": "x"}, {"id": 2**70}, {"id": 1.5}):
            with self.assertRaises((LookupError, TypeError, ValueError), msg=wrong):
                self.native.insert(table, [wrong])
        with self.assertRaises(LookupError):
            self.native.read(table, [1], by="nothing")
        with self.assertRaises(ValueError):
            self.native.read(table, [(1, 2)])

    def test_batches_in_flight_and_threads_share_a_connection(self):
        table = self.make("id INT PRIMARY KEY, v INT")
        self.native.insert(table, [{"id": n, "v": n} for n in range(100)])
        for first in (0, 50):
            batch = porpoise.Batch()
            for n in range(first, first + 50):
                batch.read(table, n, ["v"])
            self.native.send(batch)
        received = [row["v"] for _ in range(2) for row in self.native.receive()]
        self.assertEqual(received, list(range(100)))
        with self.assertRaises(ValueError):
            self.native.receive()
        wrong = []

        def read(start):
            for n in range(start, start + 50):
                row = self.native.get(table, n % 100, ["v"])
                if row != {"v": n % 100}:
                    wrong.append((n, row))

        threads = [threading.Thread(target=read, args=(start,)) for start in range(0, 80, 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.native.close()
        with self.assertRaises(porpoise.Disconnected):
            self.native.ping()

    def test_scans_of_ranges(self):
        table = self.make("a INT, b INT, v VARCHAR(9), PRIMARY KEY (a, b), KEY by_v (v)")
        self.native.insert(table, [{"a": n // 10, "b": n % 10, "v": f"v{n % 7}"} for n in range(100)])

        def scanned(**options):
            return [row["a"] * 10 + row["b"] for row in self.native.scan(table, columns=["a", "b"], **options)]

        self.assertEqual(scanned(), list(range(100)))
        self.assertEqual(scanned(lower=(3, 5), upper=4, page_rows=2), list(range(35, 40)))
        self.assertEqual(scanned(lower=8, reverse=True), list(range(99, 79, -1)))
        self.assertEqual(scanned(lower=1, upper=2, exclude_lower=True, include_upper=True), list(range(20, 30)))
        self.assertEqual(scanned(lower="v3", upper="v4", index="by_v"), list(range(3, 100, 7)))
        self.assertTrue(all(row.version > 0 for row in self.native.scan(table)))
        with self.assertRaises(ValueError):
            scanned(lower=(1, 2, 3))

    def test_columns_are_those_of_arrow(self):
        columns = {
            "a": "TINYINT", "b": "SMALLINT UNSIGNED", "c": "MEDIUMINT", "d": "BIGINT", "e": "BIGINT UNSIGNED",
            "f": "FLOAT", "g": "DOUBLE", "h": "DECIMAL(38,10)", "i": "DECIMAL(65,30)", "j": "DATE",
            "k": "DATETIME(6)", "l": "TIMESTAMP(6) NULL", "m": "TIME(3)", "n": "VARCHAR(20)", "o": "VARBINARY(20)",
        }
        table = self.make("id INT PRIMARY KEY, " + ", ".join(f"{name} {kind}" for name, kind in columns.items()))
        moment = datetime.datetime(2026, 11, 24, 23, 59, 58, 123456)
        zoned = moment.replace(tzinfo=datetime.timezone.utc)
        row = {
            "id": 1, "a": -128, "b": 65535, "c": -8388608, "d": -(2**63), "e": 2**64 - 1, "f": 1.5, "g": 0.1,
            "h": decimal.Decimal("9" * 28 + "." + "9" * 10), "i": decimal.Decimal("9" * 35 + "." + "1" * 30),
            "j": datetime.date(1969, 12, 31), "k": moment, "l": moment,
            "m": datetime.timedelta(hours=-838, milliseconds=-5), "n": "fin \U0001f42c", "o": b"\x00\xff",
        }
        self.native.insert(table, [row, {"id": 2}])
        batch = self.native.read_arrow(table, [1, 2, 3])
        self.assertEqual((len(batch), batch.found), (3, [True, True, False]))
        self.assertTrue(batch.versions[0] > 0 and batch.versions[2] == 0)
        rows = list(nanoarrow.Array(batch).iter_py())
        self.assertEqual(rows[0], row | {"i": str(row["i"]), "l": zoned})
        self.assertEqual(rows[1], {"id": 2} | dict.fromkeys(columns))
        self.assertEqual(rows[2], dict.fromkeys(["id", *columns]))
        # What was read is inserted again, from one batch and from a stream.
        self.cursor.execute(f"DELETE FROM {DATABASE}.t")
        two = nanoarrow.c_array(batch)[0:2]
        self.native.insert_arrow(table, two)
        self.assertEqual(self.native.read(table, [1, 2]), [row, {"id": 2} | dict.fromkeys(columns)])
        with self.assertRaises(porpoise.OperationError) as duplicate:
            self.native.insert_arrow(table, nanoarrow.c_array_stream(two))
        self.assertEqual(duplicate.exception.code, 1062)
        with self.assertRaises(TypeError):
            self.native.insert_arrow(table, [1, 2])


if __name__ == "__main__":
    unittest.main()
