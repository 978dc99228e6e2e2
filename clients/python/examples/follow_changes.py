#!/usr/bin/env python3
"""Keeps a memcached server in step with a table of Porpoise: follows the change stream of its REST interface.

    follow_changes.py --url http://127.0.0.1:8381 --user root --table shop.items \\
        --memcached 127.0.0.1:11212 --position items.position

Each row is kept as JSON under TABLE:KEY (shop.items:17). The position in the stream is stored after each transaction,
so that the program continues where it was after an end of any of the three: it, Porpoise, memcached's connection.
It loads all rows when it has no position, when the log no longer has it, and after a change of the table's definition.
Only the standard library is used.
"""

import argparse
import base64
import http.client
import json
import os
import pathlib
import socket
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


class Lost(Exception):
    """The position is no longer in the log."""


class Cache:
    """A memcached server."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.place = (host, int(port))
        self.input = None

    def command(self, line, value=None):
        if self.input is None:
            connection = socket.create_connection(self.place, timeout=30)
            self.input = connection.makefile("rwb")
        self.input.write(line.encode() + b"\r\n")
        if value is not None:
            self.input.write(value + b"\r\n")
        self.input.flush()
        answer = self.input.readline()
        if not answer.startswith((b"STORED", b"DELETED", b"NOT_FOUND", b"OK")):
            self.input = None
            raise OSError(f"memcached answered {answer!r}")

    def put(self, key, row):
        value = json.dumps(row, sort_keys=True).encode()
        self.command(f"set {key} 0 0 {len(value)}", value)

    def remove(self, key):
        self.command(f"delete {key}")

    def clear(self):
        self.command("flush_all")


class Follower:
    def __init__(self, options):
        self.options = options
        self.database, self.table = options.table.split(".")
        self.cache = Cache(options.memcached)
        self.position = pathlib.Path(options.position)
        credentials = f"{options.user}:{os.environ.get('PORPOISE_PASSWORD', '')}"
        self.authorization = "Basic " + base64.b64encode(credentials.encode()).decode()

    def request(self, path, body=None, **headers):
        headers["Authorization"] = self.authorization
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        asked = urllib.request.Request(self.options.url + path, data=data, headers=headers)
        return urllib.request.urlopen(asked, timeout=60)

    def key(self, values):
        return f"{self.options.table}:" + ",".join(urllib.parse.quote(str(value), safe="") for value in values)

    def events(self, position):
        """The events of the stream behind a position, or from now on: kind, id, data."""
        query = urllib.parse.urlencode(
            {"database": self.database, "table": self.table, "heartbeat_ms": self.options.heartbeat_ms}
        )
        headers = {"Last-Event-ID": position} if position else {}
        try:
            stream = self.request(f"/v1/changes?{query}", **headers)
        except urllib.error.HTTPError as error:
            if error.code == 410:
                raise Lost(error.read().decode()) from error
            raise
        event, identifier, data = None, None, None
        for line in stream:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = value
            elif name == "id":
                identifier = value
            elif name == "data":
                data = json.loads(value)
            elif name == "":
                if event or identifier:
                    yield event, identifier, data
                event, identifier, data = None, None, None

    def load(self):
        """Puts all rows into the cache."""
        self.cache.clear()
        described = json.load(self.request(f"/v1/tables/{self.database}/{self.table}"))
        keys = {key["name"]: key["columns"] for key in described["keys"]}
        body = {"statement": f"SELECT * FROM `{self.table}`", "database": self.database}
        answer = json.load(self.request("/v1/sql", body))
        if "error" in answer:
            raise OSError(answer["error"])
        names = [column["name"] for column in answer["columns"]]
        for values in answer["rows"]:
            row = dict(zip(names, values))
            self.cache.put(self.key(row[name] for name in keys["PRIMARY"]), row)

    def apply(self, changes):
        for change in changes:
            if "old_key" in change:
                self.cache.remove(self.key(change["old_key"]))
            key = self.key(change["key"])
            if change["op"] == "delete":
                self.cache.remove(key)
            else:
                self.cache.put(key, change["row"])

    def store(self, position):
        new = self.position.with_suffix(".new")
        new.write_text(position)
        new.replace(self.position)

    def follow(self):
        """Follows until the stream ends."""
        position = self.position.read_text() if self.position.exists() else None
        changes, loads = [], position is None
        for event, identifier, data in self.events(position):
            if event == "change":
                changes.append(data)
            elif event == "definition":
                loads = True
            elif event == "error":
                raise OSError(data["detail"])
            elif identifier:
                # A start, a commit or a heartbeat: what came before is whole. Rows that are loaded may be newer than
                # the position; the changes that follow repeat what they have.
                if loads:
                    self.load()
                else:
                    self.apply(changes)
                changes, loads = [], False
                self.store(identifier)

    def run(self):
        while True:
            try:
                self.follow()
            except Lost as lost:
                print(f"loading all rows: {lost}", file=sys.stderr)
                self.position.unlink(missing_ok=True)
                continue
            except (OSError, http.client.HTTPException) as error:
                print(f"trying again: {error}", file=sys.stderr)
                if isinstance(error, urllib.error.HTTPError) and error.code in (400, 401, 403):
                    return 1
            time.sleep(0.5)


def main():
    parser = argparse.ArgumentParser(description="Keeps a memcached server in step with a table of Porpoise.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--user", default="root", help="the password is read from PORPOISE_PASSWORD")
    parser.add_argument("--table", required=True, help="DATABASE.TABLE")
    parser.add_argument("--memcached", required=True, help="HOST:PORT")
    parser.add_argument("--position", required=True, help="file of the position")
    parser.add_argument("--heartbeat-ms", type=int, default=5000)
    return Follower(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
