"""Dumps by mariadb-dump: out, in again, and out again; the second must equal the first byte by byte.

The long part, with MariaDB and mydumper, is in `test_dump_programs.py`.
"""

import subprocess
import unittest

from where import mysql_address

DATABASES = ("dump_shop", "dump_other")
CONNECT = ["--no-defaults", "--protocol=tcp", "--user=root"]

# Statements that MariaDB and Porpoise take alike.
SCHEMA = r"""
CREATE DATABASE dump_shop CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
USE dump_shop;
CREATE TABLE types (
  id INT NOT NULL AUTO_INCREMENT, b TINYINT UNSIGNED, s SMALLINT, m MEDIUMINT, g BIGINT UNSIGNED,
  d DECIMAL(20,6), f FLOAT, o DOUBLE, bits BIT(9), da DATE, ti TIME(3), dt DATETIME(6),
  ts TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, y YEAR, c CHAR(10),
  v VARCHAR(200) CHARACTER SET latin1, bin BINARY(4), vb VARBINARY(40), tx TEXT, lb LONGBLOB,
  en ENUM('a', 'b''c', 'ü'), se SET('x', 'y', 'z'),
  PRIMARY KEY (id), KEY kv (v(10), d), UNIQUE KEY ug (g)) COMMENT = 'all ''types''';
INSERT INTO types VALUES
  (1, 255, -32768, 8388607, 18446744073709551615, 12345678901234.567890, 1.5, 1e300, b'101010101',
   '2024-02-29', '-838:59:58.999', '2024-01-01 12:34:56.123456', '2024-01-01 00:00:00', 2024, 'abc',
   '\'quo"te\\ back\n', 0x00FF0A27, 0x27275C00, 'text ünï 😀', 0x001A0D0A, 'b''c', 'x,z'),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL, NULL, NULL, NULL),
  (3, 0, 0, 0, 0, 0, 0, 0, 0, '2000-01-01', 0, '2000-01-01 00:00:00', '2024-06-01 00:00:00', 1901, '',
   '', '', '', '', '', 'a', '');
CREATE TABLE parent (
  id INT PRIMARY KEY, name VARCHAR(50) NOT NULL DEFAULT 'x',
  whole VARCHAR(60) GENERATED ALWAYS AS (concat(name, '!')) STORED, twice INT AS (id * 2) VIRTUAL);
CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(50)) AUTO_INCREMENT = 1000;
CREATE TABLE child (
  id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE,
  CONSTRAINT chk CHECK (id > 0));
INSERT INTO parent (id, name) VALUES (1, 'a'), (2, 'b');
INSERT INTO child VALUES (1, 1), (2, NULL);
CREATE TABLE nopk (a INT, b VARCHAR(5));
INSERT INTO nopk VALUES (1, 'a'), (1, 'a'), (NULL, NULL);
CREATE TABLE parts (id INT, y INT, PRIMARY KEY (id, y)) PARTITION BY RANGE (y)
  (PARTITION p0 VALUES LESS THAN (2000), PARTITION p1 VALUES LESS THAN MAXVALUE);
INSERT INTO parts VALUES (1, 1999), (2, 2020);
CREATE TABLE `we``ird name` (`a b` INT, `select` INT, KEY `k``x` (`a b`));
INSERT INTO `we``ird name` VALUES (1, 2);
CREATE VIEW v AS SELECT p.id, c.id AS cid FROM parent p JOIN child c ON c.p = p.id;
CREATE VIEW w AS SELECT * FROM v WHERE id > 0;
CREATE DEFINER = root@localhost TRIGGER tr AFTER INSERT ON child FOR EACH ROW
  INSERT INTO log (what) VALUES (CONCAT('child ', NEW.id));
DELIMITER //
CREATE DEFINER = root@localhost PROCEDURE pr(IN a INT, OUT b INT)
BEGIN
  DECLARE i INT DEFAULT 0;
  WHILE i < a DO SET i = i + 1; END WHILE;
  SET b = i;
END//
CREATE DEFINER = root@localhost FUNCTION fu(a VARCHAR(10)) RETURNS VARCHAR(20) CHARSET utf8mb4
  DETERMINISTIC RETURN CONCAT(a, '!')//
CREATE DEFINER = root@localhost EVENT ev ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00'
  DISABLE DO BEGIN INSERT INTO log (what) VALUES ('event'); END//
DELIMITER ;
CREATE DATABASE dump_other;
USE dump_other;
CREATE TABLE t (a INT PRIMARY KEY);
INSERT INTO t VALUES (1), (2);
"""

PROGRAMS = ["--routines", "--triggers", "--events"]
QUICK_SETS = [
    [*PROGRAMS, "--single-transaction", "--hex-blob"],
    ["--lock-all-tables", "--flush-logs", "--no-autocommit"],
]
def run(command, script=None):
    """Runs a program to its end; gives the bytes that it printed."""
    text = script.encode() if isinstance(script, str) else script
    done = subprocess.run(command, input=text, capture_output=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stderr.decode(errors='replace')}")
    return done.stdout


class Server:
    """A server to dump from and to load into."""

    def __init__(self, host, port):
        self.address = [f"--host={host}", f"--port={port}"]

    def sql(self, script):
        client = ["mariadb", *CONNECT, *self.address, "--default-character-set=utf8mb4"]
        return run([*client, "--comments", "-N"], script)

    def dump(self, *options):
        return run(["mariadb-dump", *CONNECT, *self.address, "--skip-dump-date", *options])

    def clear(self):
        self.sql("".join(f"DROP DATABASE IF EXISTS {name};" for name in DATABASES))


def porpoise():
    return Server(*mysql_address())


class DumpCase(unittest.TestCase):
    """A test with the databases of this module, which are gone afterwards."""

    maxDiff = 4000

    def setUp(self):
        self.server = porpoise()
        self.server.clear()
        self.addCleanup(self.server.clear)

    def check_round_trip(self, options):
        """Dumps, loads and dumps again; leaves the databases as loaded."""
        first = self.server.dump(*options, "--databases", *DATABASES)
        self.assertIn(b"-- Dump completed", first)
        self.server.clear()
        self.server.sql(first)
        second = self.server.dump(*options, "--databases", *DATABASES)
        readable = [dump.decode(errors="backslashreplace") for dump in (second, first)]
        self.assertEqual(*readable)


class Dumps(DumpCase):
    def test_a_dump_of_a_dump_is_the_same(self):
        for options in QUICK_SETS:
            with self.subTest(options=options):
                self.server.clear()
                self.server.sql(SCHEMA)
                self.check_round_trip(options)

    def test_parts_of_a_database(self):
        self.server.sql(SCHEMA)
        some = self.server.dump("--where=id > 1", "--no-create-info", "dump_shop", "types").decode()
        self.assertIn("(2,NULL", some)
        self.assertNotIn("(1,255", some)
        rest = self.server.dump("--ignore-table=dump_shop.types", "--no-data", "dump_shop").decode()
        self.assertNotIn("`types`", rest)
        self.assertIn("CREATE TABLE `parent`", rest)
        self.assertIn("<row>", self.server.dump("--xml", "dump_other").decode())

    def test_all_databases_come_back_and_accounts_stay(self):
        self.server.sql(SCHEMA + "CREATE USER IF NOT EXISTS dump_app IDENTIFIED BY 'secret';")
        self.addCleanup(self.server.sql, "DROP USER IF EXISTS dump_app;")
        options = ["--all-databases", *PROGRAMS, "--flush-privileges"]
        first = self.server.dump(*options)
        self.assertIn(b"CREATE TABLE IF NOT EXISTS `general_log`", first)
        # Neither accounts nor configuration are dropped where the dump is loaded.
        self.assertNotIn(b"`user`", first)
        self.server.clear()
        self.server.sql(first)
        readable = [dump.decode(errors="backslashreplace") for dump in (self.server.dump(*options), first)]
        self.assertEqual(*readable)
        self.assertIn(b"dump_app", self.server.sql("SELECT User FROM mysql.user"))

    def test_accounts_are_dumped_as_statements(self):
        account = "CREATE USER dump_app@'10.%' IDENTIFIED BY 'secret'; GRANT SELECT ON dump_other.* TO dump_app@'10.%';"
        self.server.sql(SCHEMA + "DROP USER IF EXISTS dump_app@'10.%';" + account)
        self.addCleanup(self.server.sql, "DROP USER IF EXISTS dump_app@'10.%';")
        dump = self.server.dump("--system=users", "--insert-ignore")
        shown = "SHOW CREATE USER dump_app@'10.%'; SHOW GRANTS FOR dump_app@'10.%';"
        before = self.server.sql(shown)
        self.server.sql("DROP USER dump_app@'10.%';")
        self.server.sql(dump)
        self.assertEqual(self.server.sql(shown), before)

    def test_the_binary_log_is_off(self):
        self.server.sql(SCHEMA)
        address = self.server.address
        command = ["mariadb-dump", *CONNECT, *address, "--master-data", "--single-transaction", "dump_other"]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        self.assertIn(b"Binlogging on server not active", done.stderr)
        forced = subprocess.run([*command, "--force"], capture_output=True, timeout=60, check=False)
        self.assertIn(b"INSERT INTO `t` VALUES", forced.stdout)
        # The read lock went with the session.
        self.server.sql("INSERT INTO dump_other.t VALUES (3)")


if __name__ == "__main__":
    unittest.main()
