"""Starts the server, or a peer in its place, and runs the driver tests against it.

Without --peer the server is the test build's binary on free ports, and every suite runs. With
--peer mariadb the SQL suites run against a MariaDB, with --peer memcached the memcached suite
against a memcached: what the tests expect is then what those answer.
"""

import argparse
import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS = 60
SUITE_SECONDS = 300
LOG_TAIL = 16_000
PASSWORD = "s3cret pass"


class Failed(Exception):
    """Ends the run with one line."""


def tie_to_parent():
    """In the child: die with this program (prctl PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextlib.contextmanager
def running(command, folder, ready, environment=None):
    """Runs a server in a process group of its own until the block ends; yields what `ready` gave."""
    log = pathlib.Path(folder) / f"{pathlib.Path(command[0]).name}.log"
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                preexec_fn=tie_to_parent,
            )
        except OSError as error:
            raise Failed(f"cannot run {command[0]}: {error}; run `make needs`") from error
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            ended = process.poll() is not None
            words = log.read_text(errors="replace")
            found = ready(words)
            if found is not None and not ended:
                break
            if ended or time.monotonic() > deadline:
                why = "ended before it was ready" if ended else "is not ready in time"
                raise Failed(f"{command[0]} {why}\n{words[-LOG_TAIL:]}")
            time.sleep(0.02)
        yield found
        if process.poll() is not None:
            raise Failed(f"{command[0]} ended during the tests ({process.returncode})")
    except Exception:
        sys.stderr.write(log.read_text(errors="replace")[-LOG_TAIL:])
        raise
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def accepts(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return True if probe.connect_ex(("127.0.0.1", port)) == 0 else None


def as_settings(mysql=None, memcached=None, http=None, native=None, rest=None):
    """Addresses as the tests read them."""
    settings = {}
    addresses = {"MYSQL": mysql, "MEMCACHED": memcached, "HTTP": http, "NATIVE": native, "REST": rest}
    for name, address in addresses.items():
        if address:
            host, _, port = address.rpartition(":")
            settings[f"CLIENTS_{name}_HOST"] = host
            settings[f"CLIENTS_{name}_PORT"] = port
    return settings


def porpoise(binary, folder, password=None, options=()):
    """The server on ports of its own choice."""
    files = pathlib.Path(folder) / "files"
    files.mkdir(exist_ok=True)
    command = [binary, "serve", "--data-dir", f"{folder}/data", "--secure-file-priv", str(files), *options]
    listeners = ("mysql", "memcached", "native", "rest", "http")
    for listener in listeners:
        command += [f"--{listener}-listen", "127.0.0.1:0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PORPOISE_")}
    if password:
        environment["PORPOISE_ROOT_PASSWORD"] = password

    def ready(words):
        if not re.search(r"^porpoise ready$", words, re.M):
            return None
        addresses = dict(re.findall(rf"^ready ({'|'.join(listeners)}) (\S+)$", words, re.M))
        if len(addresses) != len(listeners):
            raise Failed(f"the server did not announce its listeners:\n{words}")
        return as_settings(**addresses) | {"CLIENTS_FILES": str(files), "CLIENTS_BINARY": str(binary)}

    return running(command, folder, ready, environment)


def mariadb(folder):
    data = f"{folder}/data"
    as_root = ["--user=root"] if os.geteuid() == 0 else []
    install = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-name-resolve", "--force"]
    install += ["--auth-root-authentication-method=normal", "--skip-test-db", *as_root]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"mariadb-install-db failed\n{done.stdout}{done.stderr}")
    port = free_port()
    command = ["mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={folder}/mariadb.sock"]
    command += [f"--port={port}", "--bind-address=127.0.0.1", "--skip-name-resolve"]
    command += [f"--pid-file={folder}/mariadb.pid", "--character-set-server=utf8mb4", *as_root]

    def ready(words):
        return as_settings(mysql=f"127.0.0.1:{port}") if "ready for connections" in words else None

    return running(command, folder, ready)


def memcached(folder):
    port = free_port()
    command = ["memcached", "-l", "127.0.0.1", "-p", str(port), "-U", "0"]
    if os.geteuid() == 0:
        command += ["-u", "root"]

    def ready(_words):
        return as_settings(memcached=f"127.0.0.1:{port}") if accepts(port) else None

    return running(command, folder, ready)


def run_suite(name, command, folder, settings):
    """Runs one suite; gives how many tests passed and failed."""
    print(f"--- {name}", flush=True)
    start = time.monotonic()
    environment = os.environ | settings | {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SUITE_SECONDS,
            check=False,
        )
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        output, status = (error.stdout or b"").decode(errors="replace"), -1
        output += f"\n{name} did not end within {SUITE_SECONDS} s\n"
    passed = len(re.findall(r" \.\.\. ok$|^--- PASS:|^ok \d+ - ", output, re.M))
    # A skipped test counts as failed: nothing here may be left out unseen.
    failed = len(re.findall(r"^(?:FAIL|ERROR): |^--- (?:FAIL|SKIP):| \.\.\. skipped|^not ok ", output, re.M))
    if status != 0 or failed or not passed:
        failed = max(failed, 1)
        print(output)
    seconds = time.monotonic() - start
    print(f"{name}: {passed} passed, {failed} failed in {seconds:.1f} s", flush=True)
    return passed, failed


def python_suite(module):
    return module, [sys.executable, "-m", "unittest", "-v", module], HERE


def go_suite(name, package):
    return name, ["go", "test", "-v", "-count=1", package], HERE / "go"


def node_suite(name, file):
    return name, ["node", "--test", "--test-reporter=tap", file], HERE / "node"


def browser_suite(name, file):
    return name, ["node", "--test", "--test-reporter=tap", file], HERE / "browser"


def java_suite(name, tests):
    return name, ["mvn", "-q", "-B", "compile", "exec:java", f"-Dtests=porpoise.{tests}"], HERE / "java"


def applications_suite(module):
    """Applications of Python, in the environment beside the drivers' own."""
    python = pathlib.Path(sys.prefix).parent / "applications" / "bin" / "python"
    return module, [str(python), "-m", "unittest", "-v", module], HERE


# A binary log whose table maps name the columns.
LOG_OPTIONS = ["--log-bin", "--binlog-row-metadata", "full"]

SQL_SUITES = [python_suite(name) for name in ("test_pymysql", "test_programs", "test_mariadb_cli")]
SQL_SUITES += [go_suite("go-sql-driver", ".")]
MEMCACHED_SUITES = [python_suite(name) for name in ("test_pymemcache", "test_bmemcached", "test_pylibmc")]
MEMCACHED_SUITES += [go_suite("gomemcache", "./gomemcache"), node_suite("memjs", "memjs.test.js")]
OWN_SUITES = [
    python_suite(name)
    for name in ("test_both_doors", "test_rest", "test_native", "test_mysql_connector", "test_sqlalchemy", "test_sysbench", "test_tpcc", "test_dumps")
]
# Applications that need FULLTEXT indexes: with --all they run against the peer, too.
TEXT_SEARCH_SUITES = [applications_suite("test_wagtail"), python_suite("test_mediawiki")]


def plan(arguments):
    """What is started, and which suites run against it."""
    if arguments.peer == "mariadb":
        return [(mariadb, SQL_SUITES + (TEXT_SEARCH_SUITES if arguments.all else []))]
    if arguments.peer == "memcached":
        return [(memcached, MEMCACHED_SUITES)]
    binary = arguments.binary
    if not binary or not os.access(binary, os.X_OK):
        raise Failed(f"no server binary at {binary}; build it with `cargo build -p porpoise`")
    more = [node_suite("mysql2", "first_steps.test.js"), node_suite("mysql2-programs", "programs.test.js")]
    more += [java_suite("connector-j", "FirstSteps"), java_suite("connector-j-programs", "Programs")]
    more += [browser_suite("console", "console.test.js")]
    more += [python_suite("test_deploy"), python_suite("test_newcomer"), python_suite("test_dump_programs"), applications_suite("test_applications")]
    more += [python_suite(f"test_failover.{language}") for language in ("Python", "Go", "Node", "Java")]
    more += [java_suite("process-engines", "ProcessEngines"), python_suite("test_debezium")] + TEXT_SEARCH_SUITES
    own = OWN_SUITES + (more if arguments.all else [])
    return [
        (lambda folder: porpoise(binary, folder), SQL_SUITES + MEMCACHED_SUITES + own),
        (lambda folder: porpoise(binary, folder, PASSWORD), [python_suite("test_login")]),
        (lambda folder: porpoise(binary, folder, options=LOG_OPTIONS), [python_suite("test_replication"), python_suite("test_subscriptions"), python_suite("test_replication_kills"), go_suite("go-mysql", "./replication")]),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", help="the server's binary")
    parser.add_argument("--peer", choices=["mariadb", "memcached"])
    parser.add_argument("--all", action="store_true", help="drivers of further languages and applications, too")
    parser.add_argument("--only", help="run only suites whose name contains this")
    arguments = parser.parse_args()
    passed = failed = 0
    for server, suites in plan(arguments):
        suites = [suite for suite in suites if not arguments.only or arguments.only in suite[0]]
        if not suites:
            continue
        folder = tempfile.mkdtemp(prefix="porpoise-clients-")
        try:
            with server(folder) as settings:
                settings = settings | {"CLIENTS_MYSQL_PASSWORD": PASSWORD}
                for suite in suites:
                    counts = run_suite(*suite, settings)
                    passed, failed = passed + counts[0], failed + counts[1]
                if failed:
                    raise Failed("driver tests failed; the server's last output is above")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if passed == 0:
        raise Failed("no driver test ran")
    print(f"{passed} passed, {failed} failed")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"clients: {failure}")
