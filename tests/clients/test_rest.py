"""REST: rows beside PyMySQL and pymemcache, and schemathesis against the server's OpenAPI document."""

import base64
import datetime
import decimal
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
import uuid

import nanoarrow
from where import memcached, mysql, setting

BASE = f"http://{setting('CLIENTS_REST_HOST')}:{setting('CLIENTS_REST_PORT')}/v1"
DATABASE = "rest_clients"

# Not positive_data_acceptance: a statement that conforms to its schema may still be refused.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,negative_data_rejection,missing_required_header,unsupported_method,"
    "allow_header_conformance,ignored_auth"
)


# Names of a table that exists, so that requests reach its rows.
PARAMETERS = f"""
[parameters]
"path.database" = "{DATABASE}"
"path.table" = "fuzzed"
"path.key" = "1"
"""


def request(method, path, body=None, **headers):
    """Status, headers and decoded body of an answer to root."""
    headers["Authorization"] = "Basic " + base64.b64encode(b"root:").decode()
    data = None
    if body is not None:
        headers["Content-Type"] = "application/json"
        data = json.dumps(body).encode()
    asked = urllib.request.Request(BASE + path, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            text = answer.read()
            return answer.status, answer.headers, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.loads(error.read())


class Rest(unittest.TestCase):
    def setUp(self):
        self.connection = mysql(autocommit=True)
        self.addCleanup(self.connection.close)
        self.cursor = self.connection.cursor()
        self.cursor.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        self.cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {DATABASE}.t (id BIGINT PRIMARY KEY, n DECIMAL(30,10), b VARBINARY(20))"
        )

    def test_values_are_those_of_pymysql(self):
        self.cursor.execute(f"REPLACE INTO {DATABASE}.t VALUES (%s, %s, %s)", (2**60, "1.1", b"\x00\xff"))
        status, _, row = request("GET", f"/tables/{DATABASE}/t/rows/{2**60}")
        self.assertEqual(status, 200)
        self.assertEqual(row, {"id": str(2**60), "n": "1.1000000000", "b": "AP8="})
        status, _, answer = request(
            "POST", "/sql", {"statement": f"SELECT id, b FROM {DATABASE}.t WHERE id = ?", "parameters": [2**60]}
        )
        self.assertEqual((status, answer["rows"]), (200, [[str(2**60), "AP8="]]))

    def test_rows_in_arrow_are_those_of_pymysql(self):
        columns = {
            "a": "TINYINT", "b": "SMALLINT UNSIGNED", "c": "MEDIUMINT", "d": "BIGINT", "e": "BIGINT UNSIGNED",
            "f": "FLOAT", "g": "DOUBLE", "h": "DECIMAL(38,10)", "i": "DECIMAL(65,30)", "j": "DATE",
            "k": "DATETIME(6)", "l": "TIMESTAMP(6) NULL", "m": "TIME(3)", "n": "VARCHAR(20)", "o": "VARBINARY(20)",
            "p": "YEAR", "q": "BIT(9)", "r": "ENUM('x','y')", "s": "JSON", "t": "TEXT",
        }
        definitions = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self.cursor.execute(f"DROP TABLE IF EXISTS {DATABASE}.arrow")
        self.cursor.execute(f"CREATE TABLE {DATABASE}.arrow (id INT PRIMARY KEY, {definitions})")
        moment = datetime.datetime(2026, 11, 24, 23, 59, 58, 123456)
        # nanoarrow 0.9 reads a negative Decimal128 as a positive one.
        most = decimal.Decimal("9" * 28 + "." + "9" * 10)
        wide = decimal.Decimal("9" * 35 + "." + "1" * 30)
        row = (
            -128, 65535, -8388608, -(2**63), 2**64 - 1, 1.5, 0.1, most, wide, datetime.date(1969, 12, 31),
            moment, moment, datetime.timedelta(hours=-838, milliseconds=-5), "fin \U0001f42c", b"\x00\xff", 2026, 257,
            "y", '{"a": 1}', "",
        )
        marks = ", ".join(["%s"] * (len(columns) + 1))
        self.cursor.execute("SET time_zone = '+00:00'")
        insert = f"INSERT INTO {DATABASE}.arrow VALUES ({marks})"
        self.cursor.executemany(insert, [(n, *row) for n in range(3000)])
        self.cursor.execute(f"INSERT INTO {DATABASE}.arrow (id) VALUES (3000)")

        asked = urllib.request.Request(
            BASE + "/sql",
            data=json.dumps({"statement": f"SELECT * FROM {DATABASE}.arrow ORDER BY id"}).encode(),
            headers={
                "Authorization": "Basic " + base64.b64encode(b"root:").decode(),
                "Content-Type": "application/json",
                "Accept": "application/vnd.apache.arrow.stream",
            },
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            stream = nanoarrow.ArrayStream.from_readable(answer)
            self.assertEqual([field.name for field in stream.schema.fields], ["id", *columns])
            batches = list(stream)
        self.assertGreater(len(batches), 3)
        rows = [tuple(row) for batch in batches for row in nanoarrow.Array(batch).iter_tuples()]
        self.assertEqual(len(rows), 3001)
        zoned = moment.replace(tzinfo=datetime.timezone.utc)
        wanted = (*row[:8], str(wide), *row[9:11], zoned, *row[12:])
        for n in (0, 8, 1777, 2999):
            self.assertEqual(rows[n], (n, *wanted))
        self.assertEqual(rows[3000], (3000, *[None] * len(columns)))

    def test_the_entity_tag_is_the_cas_of_memcached(self):
        self.cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {DATABASE}.cached (id VARCHAR(60) PRIMARY KEY, value VARBINARY(100))"
        )
        self.cursor.execute(
            "REPLACE INTO ndbmemcache.containers (name, db_schema, db_table, key_columns, value_columns) "
            "VALUES ('rest_cached', %s, 'cached', 'id', 'value')",
            (DATABASE,),
        )
        self.cursor.execute(
            "REPLACE INTO ndbmemcache.key_prefixes (server_role_id, key_prefix, cluster_id, policy, container) "
            "VALUES (0, 'rest:', 0, 'ndb-only', 'rest_cached')"
        )
        self.addCleanup(self.cursor.execute, "DELETE FROM ndbmemcache.key_prefixes WHERE key_prefix = 'rest:'")
        cache = memcached()
        self.addCleanup(cache.close)
        name = uuid.uuid4().hex
        key, path = f"rest:{name}", f"/tables/{DATABASE}/cached/rows/{name}"
        cache.set(key, b"one")
        _, cas = cache.gets(key)
        status, headers, row = request("GET", path)
        self.assertEqual(status, 200, row)
        self.assertEqual(headers["ETag"], f'"{cas.decode()}"')
        self.assertEqual(base64.b64decode(row["value"]), b"one")
        new = {"value": base64.b64encode(b"two").decode()}
        status, _, _ = request("PATCH", path, new, **{"If-Match": headers["ETag"]})
        self.assertEqual(status, 200)
        status, _, problem = request("PATCH", path, new, **{"If-Match": headers["ETag"]})
        self.assertEqual((status, problem["status"]), (412, 412))
        self.assertEqual(cache.get(key), b"two")
        self.assertFalse(cache.cas(key, b"three", cas))

    def test_requests_generated_from_the_document_get_conforming_answers(self):
        command = [str(pathlib.Path(sys.prefix) / "bin" / "schemathesis"), "run", f"{BASE}/openapi.json"]
        command += ["--url", BASE.removesuffix("/v1"), "--auth", "root:", "--checks", CHECKS]
        command += ["--phases", "examples,coverage,fuzzing", "--max-examples", "25", "--seed", "21"]
        command += ["--suppress-health-check", "all", "--warnings", "off", "--request-timeout", "60"]
        # A change stream has no end.
        command += ["--generation-database", "none", "--exclude-path", "/v1/changes"]
        self.cursor.execute(f"CREATE TABLE IF NOT EXISTS {DATABASE}.fuzzed (id INT PRIMARY KEY, v JSON, s VARCHAR(9))")
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "schemathesis.toml").write_text(PARAMETERS)
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-20000:] + done.stderr[-4000:])
        # All other operations of the document were tested.
        self.assertRegex(done.stdout, r"Selected: 11/12")


if __name__ == "__main__":
    unittest.main()
