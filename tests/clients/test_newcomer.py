"""docs/guide/native.md as a newcomer follows it: a Rust program and a Python one from empty directories, with the packages from
the repository's path."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import pymysql
from where import setting

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "native.md").read_text()
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def block(after, begins):
    """The indented block of the guide behind a text, whose first line begins so, without its indentation."""
    lines = GUIDE[GUIDE.index(after) :].splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("    " + begins))
    end = next((n for n in range(start, len(lines)) if lines[n] and not lines[n].startswith("    ")), len(lines))
    return "\n".join(line[4:] for line in lines[start:end]).rstrip() + "\n"


class Newcomer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "porpoise").symlink_to(ROOT)
        host, port = setting("CLIENTS_MYSQL_HOST"), int(setting("CLIENTS_MYSQL_PORT"))
        with pymysql.connect(host=host, port=port, user="root", autocommit=True) as connection:
            with connection.cursor() as cursor:
                for statement in block("## Five minutes", "CREATE DATABASE").split(";"):
                    if statement.strip():
                        cursor.execute(statement)

    def run_command(self, *command, folder=None, **environment):
        environment = os.environ | {"CARGO_TARGET_DIR": str(TARGET / "newcomer")} | environment
        done = subprocess.run(
            command, cwd=folder or self.folder, env=environment, capture_output=True, text=True, timeout=280, check=False
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def program(self, text):
        """A program of the guide, with the address of this server."""
        return re.sub(r"3310", setting("CLIENTS_NATIVE_PORT"), text)

    def test_a_thousand_rows_from_rust(self):
        commands = block("### Rust", "cargo init").splitlines()
        self.assertEqual(len(commands), 3)
        for command in commands[:2]:
            self.run_command(*command.split(), folder=None if "init" in command else self.folder / "reader")
        # The versions that this repository is tested with.
        (self.folder / "reader" / "Cargo.lock").write_text((ROOT / "Cargo.lock").read_text())
        source = self.program(block("### Rust", "use porpoise_native_client"))
        (self.folder / "reader" / "src" / "main.rs").write_text(source)
        read = self.run_command(*commands[2].split(), folder=self.folder / "reader")
        self.assertEqual(read.splitlines()[-1], "read 1000 rows")

    def test_a_thousand_rows_from_python(self):
        (self.folder / "reader.py").write_text(self.program(block("### Python", "import porpoise")))
        self.assertEqual(self.run_command(sys.executable, "reader.py"), "read 1000 rows\n")


if __name__ == "__main__":
    unittest.main()
