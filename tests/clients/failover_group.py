"""A group of two servers and a witness with automatic failover, and drivers that write to it while its leaders are killed."""

import contextlib
import os
import pathlib
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import pymysql

import where

# Longest wait for an event.
WAIT_SECONDS = 90

# Acknowledged rows before and after each fault.
ROWS = 20


def free_ports(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def wait(event, found):
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if found():
            return
        time.sleep(0.05)
    raise AssertionError(f"{event} has not happened in {WAIT_SECONDS} s")


class Group:
    """Its processes; servers are numbered 0 and 1."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="porpoise-failover-"))
        self.ports = [dict(zip(("failover", "mysql", "memcached", "http"), free_ports(4))) for _ in range(2)]
        [self.witness_port] = free_ports(1)
        self.processes = {}
        self.write("secret", secrets.token_hex(32))
        self.write("password", "replication pw")
        self.start_witness()
        for server in range(2):
            self.start(server)
        wait("an election", lambda: self.leader() == 0)
        self.run(
            0,
            "CREATE USER repl IDENTIFIED BY 'replication pw'",
            "GRANT REPLICATION SLAVE, BACKUP_ADMIN ON *.* TO repl",
            "CREATE DATABASE d",
            "CREATE TABLE d.cached (k VARCHAR(64) PRIMARY KEY, v VARCHAR(64))",
            "ALTER TABLE d.cached MEMCACHED PREFIX 'c:'",
        )
        self.wait_in_sync()

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def members(self):
        servers = [f"{n + 1}=127.0.0.1:{ports['failover']}/{ports['mysql']}" for n, ports in enumerate(self.ports)]
        return ",".join([*servers, f"3=127.0.0.1:{self.witness_port}"])

    def spawn(self, name, *arguments):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PORPOISE_")}
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [where.setting("CLIENTS_BINARY"), *map(str, arguments)]
            self.processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
            )

    def start_witness(self):
        self.spawn(
            "witness", "witness", "--id", 3, "--listen", f"127.0.0.1:{self.witness_port}", "--data-dir", self.folder / "witness",
            "--secret-file", self.folder / "secret", "--members", self.members(),
        )

    def start(self, server):
        options = {f"--{name}-listen": f"127.0.0.1:{port}" for name, port in self.ports[server].items()}
        options |= {
            "--data-dir": self.folder / f"data{server}",
            "--server-id": server + 1,
            "--failover-members": self.members(),
            "--failover-secret-file": self.folder / "secret",
            "--failover-account": "repl",
            "--failover-password-file": self.folder / "password",
        }
        self.spawn(f"server{server}", "serve", "--log-bin", *[word for option in options.items() for word in option])

    def kill(self, server):
        process = self.processes[f"server{server}"]
        process.kill()
        process.wait()

    def address(self, server, listener="mysql"):
        return f"127.0.0.1:{self.ports[server][listener]}"

    def rows(self, server, statement):
        port = self.ports[server]["mysql"]
        with pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True, connect_timeout=5, read_timeout=30) as connection:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall()

    def run(self, server, *statements):
        for statement in statements:
            self.rows(server, statement)

    def leader(self):
        """The server that takes writes; None if there is none."""
        for server in range(2):
            with contextlib.suppress(pymysql.MySQLError, OSError):
                if self.rows(server, "SELECT @@super_read_only") == ((0,),):
                    return server
        return None

    def wait_leader(self):
        wait("an election", lambda: self.leader() is not None)
        return self.leader()

    def wait_in_sync(self):
        def both():
            leader = self.leader()
            if leader is None:
                return False
            [(_, members)] = self.rows(leader, "SHOW GLOBAL STATUS LIKE 'Failover_members_in_sync'")
            return members == "1,2"

        wait("both servers in sync", both)

    def log(self):
        logs = [f"{path.name}:\n{path.read_text(errors='replace')[-4000:]}" for path in self.folder.glob("*.log")]
        return "\n".join(logs)

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Writer:
    """A program that inserts rows until its input ends. It prints `ack ID` after each commit that was acknowledged, and
    `error TEXT` for each that was not."""

    def __init__(self, command, folder, settings):
        self.acknowledged, self.errors, self.other = set(), [], []
        self.process = subprocess.Popen(
            command, cwd=folder, env=os.environ | settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            kind, _, rest = line.rstrip("\n").partition(" ")
            if kind == "ack":
                self.acknowledged.add(rest)
            elif kind == "error":
                self.errors.append(rest)
            else:
                self.other.append(line)

    def wait(self, event, count):
        """Waits for this number of further acknowledged rows."""
        wanted = len(self.acknowledged) + count

        def found():
            if self.process.poll() is not None:
                raise AssertionError(f"the writer has ended:\n{''.join(self.other[-50:])}")
            return len(self.acknowledged) >= wanted

        try:
            wait(event, found)
        except AssertionError as failure:
            raise AssertionError(f"{failure}; errors: {self.errors[-5:]}; {''.join(self.other[-20:])}") from failure

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(WAIT_SECONDS)
        finally:
            self.process.kill()
        self.reader.join(WAIT_SECONDS)
        self.process.stdout.close()

    def numbers(self):
        """Error numbers that the program has reported."""
        found = [re.match(r"(\d+)\b", error) for error in self.errors]
        return {int(number[1]) for number in found if number}


class Failover:
    """Tests with a group of their own. Mixed into unittest.TestCase."""

    @classmethod
    def setUpClass(cls):
        cls.group, cls.notes = Group(), []
        # Between two tests the output would hide the result of the first.
        cls.addClassCleanup(lambda: print("\n".join(cls.notes), flush=True))
        cls.addClassCleanup(cls.group.close)

    def note(self, text):
        self.notes.append(f"{self.id()}: {text}")

    def writer(self, command, folder, **settings):
        """Starts a writer, which gets the addresses of both servers, the present leader's first."""
        leader = self.group.wait_leader()
        order = (leader, 1 - leader)
        for listener in ("mysql", "memcached"):
            settings[f"FAILOVER_{listener.upper()}"] = ",".join(self.group.address(server, listener) for server in order)
        writer = Writer(command, folder, settings)
        self.addCleanup(writer.process.kill)
        return writer

    def follows(self, writer, table, column="id"):
        """Kills the leader, lets it come back, and kills the other one: the writer goes on at each, and loses nothing."""
        group = self.group
        writer.wait("rows of the writer", ROWS)
        for fault in range(2):
            leader = group.wait_leader()
            group.wait_in_sync()
            begun = time.monotonic()
            group.kill(leader)
            writer.wait("the first row at the new leader", 1)
            self.note(f"fault {fault + 1}: writes after {time.monotonic() - begun:.1f} s")
            writer.wait("rows at the new leader", ROWS)
            group.start(leader)
            group.wait_in_sync()
            writer.wait("rows while the other server follows", ROWS)
        writer.stop()
        group.wait_in_sync()
        for server in range(2):
            def has_all(server=server):
                found = {str(value) for (value,) in group.rows(server, f"SELECT {column} FROM d.{table}")}
                return writer.acknowledged <= found

            wait(f"all acknowledged rows on server {server}", has_all)
        self.note(f"{len(writer.acknowledged)} rows acknowledged, errors {sorted(writer.numbers())}")
