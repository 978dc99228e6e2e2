"""First steps with the `mariadb` program: batches, tables of output, error lines, exit status."""

import subprocess
import unittest

from where import mysql_address

DATABASE = "steps_cli"


class MariadbCli(unittest.TestCase):
    def cli(self, *arguments, script=None):
        host, port = mysql_address()
        command = ["mariadb", "--no-defaults", "--protocol=tcp", f"--host={host}", f"--port={port}"]
        command += ["--user=root", "--default-character-set=utf8mb4", *arguments]
        return subprocess.run(
            command, input=script, capture_output=True, text=True, timeout=60, check=False
        )

    def good(self, *arguments, script=None):
        done = self.cli(*arguments, script=script)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def setUp(self):
        self.good("-e", f"DROP DATABASE IF EXISTS {DATABASE}; CREATE DATABASE {DATABASE}")

    def test_a_script_runs_from_its_first_line_to_its_last(self):
        output = self.good(
            DATABASE,
            script="""
            -- a comment of the client
            CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40)); # another
            INSERT INTO t (name) VALUES ('one'), ('two'),
                ('it''s /* not a comment */ three');
            /* a comment
               over lines */ SELECT id, name FROM t ORDER BY id;
            """,
        )
        self.assertEqual(
            output, "id\tname\n1\tone\n2\ttwo\n3\tit's /* not a comment */ three\n"
        )

    def test_output_as_a_table_and_upright(self):
        output = self.good("--table", "-e", "SELECT 1 AS one, NULL AS none, 'é' AS letter")
        self.assertIn("| one | none | letter |", output)
        self.assertIn("|   1 | NULL | é      |", output)
        output = self.good("-e", "SELECT 1 AS one, 'x' AS two\\G")
        self.assertIn("one: 1\ntwo: x\n", output)

    def test_an_error_has_a_line_and_an_exit_status(self):
        done = self.cli(
            DATABASE,
            script="CREATE TABLE p (id INT PRIMARY KEY);\n"
            "CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT fk_cli FOREIGN KEY (p) REFERENCES p(id));\n"
            "INSERT INTO c VALUES (1, 1);\n"
            "SELECT 'never reached';\n",
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("ERROR 1452 (23000) at line 3", done.stderr)
        self.assertIn("fk_cli", done.stderr)
        self.assertNotIn("never reached", done.stdout)

    def test_force_goes_on_after_an_error(self):
        done = self.cli("--force", script=f"SELECT * FROM {DATABASE}.nowhere;\nSELECT 'went on';\n")
        self.assertIn("ERROR 1146 (42S02)", done.stderr)
        self.assertIn("went on", done.stdout)

    def test_status_and_schema_commands(self):
        self.good(DATABASE, "-e", "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
        self.assertIn("Connection id:", self.good("-e", "status"))
        self.assertIn(DATABASE, self.good("-e", "SHOW DATABASES"))
        self.assertEqual(self.good(DATABASE, "-N", "-e", "SHOW TABLES"), "t\n")
        described = self.good(DATABASE, "-N", "-e", "DESCRIBE t").splitlines()
        self.assertEqual([line.split("\t")[0] for line in described], ["id", "name"])

    def test_a_transaction_in_one_session(self):
        output = self.good(
            DATABASE,
            "-N",
            script="CREATE TABLE t (id INT PRIMARY KEY);\n"
            "BEGIN; INSERT INTO t VALUES (1); ROLLBACK; SELECT COUNT(*) FROM t;\n"
            "BEGIN; INSERT INTO t VALUES (1); COMMIT; SELECT COUNT(*) FROM t;\n",
        )
        self.assertEqual(output, "0\n1\n")

    def test_a_large_statement_and_a_large_row(self):
        word = "x" * 1_000_000
        script = (
            "CREATE TABLE t (id INT PRIMARY KEY, body LONGTEXT);\n"
            f"INSERT INTO t VALUES (1, '{word}');\n"
            "SELECT body FROM t WHERE id = 1;\n"
        )
        self.assertEqual(self.good(DATABASE, "-N", script=script), word + "\n")

    def test_completion_of_names_at_the_start(self):
        # The client asks for every table's columns when it completes names.
        self.good(DATABASE, "-e", "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
        self.assertEqual(self.good("--auto-rehash", DATABASE, "-N", "-e", "SELECT 1"), "1\n")


if __name__ == "__main__":
    unittest.main()
