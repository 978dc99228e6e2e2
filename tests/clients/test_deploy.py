"""The files of deploy/ by the tools of those who use them: promtool, a Prometheus that scrapes the server, hadolint."""

import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

from where import memcached, mysql, setting

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
TOOLS = pathlib.Path(sys.prefix).parent
PROMETHEUS = TOOLS / "prometheus" / "usr" / "bin"
HADOLINT = TOOLS / "deploy" / "bin" / "hadolint"
METRICS = f"{setting('CLIENTS_HTTP_HOST')}:{setting('CLIENTS_HTTP_PORT')}"
WAIT_SECONDS = 60


def run(program, *arguments, **options):
    """Runs a program to its end; gives its output and exit status."""
    done = subprocess.run(
        [program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
        **options,
    )
    return done.stdout, done.returncode


def read(address):
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read().decode()


def dashboard():
    return json.loads((DEPLOY / "grafana.json").read_text())


def expressions():
    """The dashboard's queries, with values in place of Grafana's variables."""
    queries = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])]
    return [query.replace("$__rate_interval", "5s").replace("$instance", ".*") for query in queries]


class Rules(unittest.TestCase):
    def test_the_alert_rules_are_valid(self):
        output, status = run(PROMETHEUS / "promtool", "check", "rules", "--lint=all", "--lint-fatal", DEPLOY / "alerts.yml")
        self.assertEqual(status, 0, output)

    def test_the_alerts_are_raised_when_they_must(self):
        output, status = run(PROMETHEUS / "promtool", "test", "rules", ROOT / "tests" / "deploy" / "alerts_test.yml")
        self.assertEqual(status, 0, output)

    def test_metrics_have_the_names_and_forms_that_prometheus_recommends(self):
        output, status = run(PROMETHEUS / "promtool", "check", "metrics", input=read(f"http://{METRICS}/metrics"))
        self.assertEqual((output, status), ("", 0))


class Scraped(unittest.TestCase):
    """A Prometheus with the alert rules scrapes the server."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="porpoise-prometheus-")
        self.addCleanup(folder.cleanup)
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{held.getsockname()[1]}"
        config = pathlib.Path(folder.name) / "prometheus.yml"
        # JSON is YAML, too.
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(DEPLOY / "alerts.yml")],
            "scrape_configs": [{"job_name": "porpoise", "static_configs": [{"targets": [METRICS]}]}],
        }))
        output, status = run(PROMETHEUS / "promtool", "check", "config", config)
        self.assertEqual(status, 0, output)
        self.log = open(pathlib.Path(folder.name) / "log", "w+")
        self.addCleanup(self.log.close)
        server = subprocess.Popen(
            [PROMETHEUS / "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder.name}/data",
             f"--web.listen-address={self.address}"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)

    def ask(self, path, **query):
        """The data of an answer of Prometheus; None while it starts."""
        try:
            answer = json.loads(read(f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"))
        except OSError:
            return None
        self.assertEqual(answer["status"], "success", answer)
        return answer["data"]

    def wait(self, what, ready):
        deadline = time.monotonic() + WAIT_SECONDS
        while not (found := ready()):
            if time.monotonic() > deadline:
                self.log.seek(0)
                self.fail(f"{what}: not within {WAIT_SECONDS} s\n{self.log.read()[-4000:]}")
            time.sleep(0.2)
        return found

    def load(self):
        """Some work of each kind that the dashboard shows."""
        with mysql(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS scraped")
            cursor.execute("CREATE TABLE IF NOT EXISTS scraped.t (id INT PRIMARY KEY, v INT)")
            for number in range(200):
                cursor.execute("REPLACE INTO scraped.t VALUES (%s, 1)", [number])
                cursor.execute("SELECT v FROM scraped.t WHERE id = %s", [number])
        cache = memcached()
        for number in range(400):
            cache.set(f"scraped{number}", "x")
        cache.close()

    def test_every_panel_has_values_and_every_rule_can_be_evaluated(self):
        def is_scraped():
            found = self.ask("query", query="count_over_time(porpoise_build_info[1m])")
            return found and found["result"] and int(found["result"][0]["value"][1]) >= 2

        self.wait("two scrapes", is_scraped)

        def without_values():
            self.load()
            results = {query: self.ask("query", query=query)["result"] for query in expressions()}
            return [query for query, result in results.items() if not result]

        self.assertGreater(len(expressions()), 25)
        self.wait("values for every panel", lambda: not without_values())

        def evaluated():
            rules = [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]
            return rules if all(rule["health"] != "unknown" for rule in rules) else None

        rules = self.wait("evaluation of all rules", evaluated)
        self.assertGreater(len(rules), 10)
        for rule in rules:
            self.assertEqual((rule["name"], rule["health"]), (rule["name"], "ok"), rule)
        alerts = [alert["labels"]["alertname"] for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"]
        self.assertNotIn("PorpoiseDown", alerts)


class Image(unittest.TestCase):
    def setUp(self):
        text = (DEPLOY / "Dockerfile").read_text()
        # Continued lines are joined.
        self.lines = re.sub(r"\\\n\s*", "", text).splitlines()

    def last(self, instruction):
        """The arguments of an instruction of the image that is used, which is the last stage."""
        stage = max(at for at, line in enumerate(self.lines) if line.startswith("FROM "))
        found = [line.split(" ", 1)[1] for line in self.lines[stage:] if line.startswith(instruction + " ")]
        self.assertEqual(len(found), 1, f"{instruction}: {found}")
        return found[0]

    def test_hadolint_has_nothing_to_say(self):
        output, status = run(HADOLINT, "--no-color", "--failure-threshold", "style", DEPLOY / "Dockerfile")
        self.assertEqual((output, status), ("", 0))

    def test_the_image_runs_without_root_and_tells_its_health(self):
        self.assertRegex(self.last("USER"), r"^[1-9]\d*:[1-9]\d*$")
        self.assertEqual(self.last("STOPSIGNAL"), "SIGTERM")
        self.assertIn("GET /health", self.last("HEALTHCHECK"))

    def test_the_health_check_succeeds_on_a_server_that_is_well(self):
        """Its command, executed by the shell that it names, at the port of this server."""
        check = self.last("HEALTHCHECK")
        command = json.loads(check[check.index("CMD ") + 4:])
        host, port = METRICS.split(":")
        moved = [part.replace("127.0.0.1/8380", f"{host}/{port}") for part in command]
        self.assertNotEqual(moved, command)
        self.assertEqual(run(moved[0], *moved[1:])[1], 0)
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            closed = [part.replace("127.0.0.1/8380", f"127.0.0.1/{held.getsockname()[1]}") for part in command]
            self.assertNotEqual(run(closed[0], *closed[1:])[1], 0)


if __name__ == "__main__":
    unittest.main()
