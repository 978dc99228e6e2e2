"""MediaWiki, from Debian's packages unpacked beside the drivers (scripts/need.sh mediawiki): its installer creates
the tables, among them one with FULLTEXT indexes; then pages are written, linked, searched and deleted."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import where

STEP_SECONDS = 120
DATABASE = "mediawiki"
PAGES = {
    "Dolphin": "Dolphins are [[toothed whale]]s that live in the sea. [[Category:Animals]]",
    "Porpoise": "Porpoises are smaller than dolphins. See [[Dolphin]]. [[Category:Animals]]",
    "Leuchtturm Zoë": "Ein Turm mit einer Lampe am Meer.",
}


def folder():
    """MediaWiki's files."""
    tools = pathlib.Path(sys.prefix).parent
    return tools / "mediawiki" / "usr" / "share" / "mediawiki"


def rows(query):
    with where.mysql(database=DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


class MediaWiki(unittest.TestCase):
    def setUp(self):
        settings = tempfile.TemporaryDirectory(prefix="porpoise-mediawiki-")
        self.addCleanup(settings.cleanup)
        self.settings = pathlib.Path(settings.name)
        with where.mysql() as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")

    def maintain(self, script, *arguments, text=""):
        """Runs a script of MediaWiki's maintenance; gives what it printed."""
        command = ["php", str(folder() / "maintenance" / f"{script}.php"), *arguments]
        environment = dict(os.environ, MW_CONFIG_FILE=str(self.settings / "LocalSettings.php"))
        if script == "install":
            del environment["MW_CONFIG_FILE"]
        done = subprocess.run(
            command, cwd=folder(), env=environment, input=text, capture_output=True, text=True, timeout=STEP_SECONDS, check=False
        )
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        return done.stdout

    def install(self):
        host, port = where.mysql_address()
        options = {"dbtype": "mysql", "dbserver": f"{host}:{port}", "dbname": DATABASE, "dbuser": "root", "dbpass": ""}
        options |= {"installdbuser": "root", "installdbpass": "", "server": "http://localhost", "scriptpath": "/w"}
        options |= {"pass": "a long password 42", "confpath": str(self.settings), "lang": "en"}
        flags = [word for name, value in options.items() for word in (f"--{name}", value)]
        self.assertIn("successfully installed", self.maintain("install", *flags, "Wiki", "Admin"))

    def serve(self):
        """PHP's own web server; gives the address of MediaWiki's API."""
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        environment = dict(os.environ, MW_CONFIG_FILE=str(self.settings / "LocalSettings.php"))
        server = subprocess.Popen(
            ["php", "-S", f"127.0.0.1:{port}"],
            cwd=folder(),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        deadline = time.monotonic() + STEP_SECONDS
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return f"http://127.0.0.1:{port}/api.php"
            self.assertLess(time.monotonic(), deadline, "PHP's server does not listen")
            time.sleep(0.05)

    def test_it_is_installed_and_pages_are_found_by_their_words(self):
        self.install()
        for title, text in PAGES.items():
            self.maintain("edit", "--user", "Admin", "--summary", "first", title, text=text)
        self.maintain("edit", "--user", "Admin", "--summary", "second", "Dolphin", text=PAGES["Dolphin"] + " They jump.")
        self.maintain("runJobs")
        self.assertEqual(self.maintain("getText", "Leuchtturm_Zoë").strip(), PAGES["Leuchtturm Zoë"])
        api = self.serve()

        def query(**parameters):
            parameters |= {"action": "query", "format": "json", "formatversion": 2}
            with urllib.request.urlopen(f"{api}?{urllib.parse.urlencode(parameters)}", timeout=STEP_SECONDS) as reply:
                return json.load(reply)["query"]

        def found(words):
            return sorted(page["title"] for page in query(list="search", srsearch=words, srwhat="text")["search"])

        self.assertEqual(found("dolphins"), ["Dolphin", "Porpoise"])
        self.assertEqual(found("smaller dolphins"), ["Porpoise"])
        self.assertEqual(found('"live in the sea"'), ["Dolphin"])
        self.assertEqual(found("lampe"), ["Leuchtturm Zoë"])
        members = query(list="categorymembers", cmtitle="Category:Animals")["categorymembers"]
        self.assertEqual([page["title"] for page in members], ["Dolphin", "Porpoise"])
        links = query(list="backlinks", bltitle="Dolphin")["backlinks"]
        self.assertEqual([page["title"] for page in links], ["Porpoise"])
        (page,) = query(prop="revisions", titles="Dolphin", rvprop="comment", rvlimit=10)["pages"]
        self.assertEqual([revision["comment"] for revision in page["revisions"]], ["second", "first"])

        self.maintain("deleteBatch", "-u", "Admin", "-r", "gone", text="Porpoise\n")
        self.maintain("rebuildtextindex")
        self.maintain("refreshLinks")
        self.assertEqual(found("dolphins"), ["Dolphin"])
        self.assertEqual(rows("SELECT COUNT(*) FROM page WHERE page_title = 'Porpoise'"), [(0,)])


if __name__ == "__main__":
    unittest.main()
