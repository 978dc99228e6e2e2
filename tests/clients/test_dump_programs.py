"""Dumps out of MariaDB, in every usual set of options, and by mydumper and as files of values."""

import pathlib
import tempfile
import unittest

from run import mariadb as run_mariadb
from test_dumps import CONNECT, DATABASES, PROGRAMS, QUICK_SETS, SCHEMA, DumpCase, Server, run
from where import mysql_address, setting

MORE_SETS = [
    ["--single-transaction", "--flush-logs", *PROGRAMS],
    ["--lock-tables", "--add-locks", *PROGRAMS],
    ["--skip-opt", "--complete-insert", "--hex-blob"],
    ["--skip-extended-insert", "--order-by-primary", "--skip-tz-utc"],
    ["--add-drop-database", "--insert-ignore", "--no-autocommit"],
    ["--replace", "--net-buffer-length=4096", "--skip-triggers"],
    ["--no-data", *PROGRAMS],
]


class DumpPrograms(DumpCase):
    def test_out_of_mariadb_in_every_set_of_options(self):
        checksum = "CHECKSUM TABLE dump_other.t, dump_shop.parts"
        with tempfile.TemporaryDirectory() as folder, run_mariadb(folder) as settings:
            mariadb = Server(settings["CLIENTS_MYSQL_HOST"], settings["CLIENTS_MYSQL_PORT"])
            mariadb.sql(SCHEMA)
            options = [*PROGRAMS, "--single-transaction", "--hex-blob", "--databases", *DATABASES]
            self.server.sql(mariadb.dump(*options))
            self.assertEqual(self.server.sql(checksum), mariadb.sql(checksum))
        self.check_round_trip(QUICK_SETS[0])
        for options in MORE_SETS:
            with self.subTest(options=options):
                self.server.clear()
                self.server.sql(SCHEMA)
                self.check_round_trip(options)

    def test_all_databases_into_mariadb(self):
        self.server.sql(SCHEMA)
        dump = self.server.dump("--all-databases", *PROGRAMS)
        rows = "CHECKSUM TABLE dump_other.t, dump_shop.parts; SELECT * FROM dump_shop.parent ORDER BY id"
        with tempfile.TemporaryDirectory() as folder, run_mariadb(folder) as settings:
            mariadb = Server(settings["CLIENTS_MYSQL_HOST"], settings["CLIENTS_MYSQL_PORT"])
            accounts = mariadb.sql("SELECT User, Host FROM mysql.user")
            # The collation that MariaDB 10.11 lacks is that of the schema mysql, and of what names none.
            mariadb.sql(dump.replace(b"utf8mb4_0900_ai_ci", b"utf8mb4_unicode_ci"))
            self.assertEqual(mariadb.sql("SELECT User, Host FROM mysql.user"), accounts)
            self.assertEqual(mariadb.sql(rows), self.server.sql(rows))

    def test_mydumper_and_myloader(self):
        # mydumper does not quote backquotes in names.
        self.server.sql(SCHEMA + "DROP TABLE dump_shop.`we``ird name`;")
        host, port = mysql_address()
        login = [f"--host={host}", f"--port={port}", "--user=root"]
        with tempfile.TemporaryDirectory() as folder:
            for name in ("first", "second"):
                path = pathlib.Path(folder) / name
                dump = ["mydumper", *login, *PROGRAMS, "--regex=^dump_", f"--outputdir={path}"]
                run([*dump, "--threads=3", "--trx-consistency-only"])
                if name == "first":
                    self.server.clear()
                    run(["myloader", *login, f"--directory={path}", "--threads=3"])
            self.check_same_files(pathlib.Path(folder))

    def check_same_files(self, folder):
        def names(path):
            return sorted(file.name for file in path.iterdir() if file.name != "metadata")

        self.assertEqual(names(folder / "second"), names(folder / "first"))
        self.assertIn("dump_shop.types.sql", names(folder / "first"))
        for name in names(folder / "first"):
            with self.subTest(file=name):
                first, second = ((folder / part / name).read_bytes() for part in ("first", "second"))
                self.assertEqual(second, first)

    def test_tab_separated_files(self):
        self.server.sql(SCHEMA)
        folder = pathlib.Path(setting("CLIENTS_FILES"))
        rows = "SELECT * FROM dump_shop.types"
        before = self.server.sql(rows)
        self.server.dump(f"--tab={folder}", "dump_shop", "types")
        self.server.clear()
        self.server.sql("CREATE DATABASE dump_shop;")
        self.server.sql("USE dump_shop; " + (folder / "types.sql").read_text())
        load = ["mariadb-import", *CONNECT, *self.server.address, "--default-character-set=utf8mb4"]
        run([*load, "dump_shop", str(folder / "types.txt")])
        self.assertEqual(self.server.sql(rows), before)


if __name__ == "__main__":
    unittest.main()
