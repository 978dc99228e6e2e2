"""Writes rows to whichever of two servers takes writes, until standard input ends: writer.py KIND TABLE."""

import itertools
import os
import sys
import threading
import time

import mysql.connector
import pymysql
from pymemcache.client.base import Client

# Longest wait for a connection and for a reply, in seconds.
PATIENCE = 3


def addresses(listener):
    parts = [address.rpartition(":") for address in os.environ[f"FAILOVER_{listener}"].split(",")]
    return [(host, int(port)) for host, _, port in parts]


class Connector:
    """mysql-connector-python: `failover` is tried in order, and the application looks whether the server takes writes."""

    def __init__(self, table):
        self.insert, self.servers = f"INSERT INTO {table} VALUES (%s)", addresses("MYSQL")

    def open(self):
        for order in (self.servers, self.servers[::-1]):
            hosts = [{"host": host, "port": port, "user": "root", "password": "", "database": "d"} for host, port in order]
            connection = mysql.connector.connect(failover=hosts, connection_timeout=PATIENCE, read_timeout=PATIENCE, autocommit=True, use_pure=True)
            with connection.cursor() as cursor:
                cursor.execute("SELECT @@read_only")
                if cursor.fetchall() == [(0,)]:
                    return connection
            connection.close()
        raise ConnectionError("no server takes writes")

    def write(self, connection, number):
        with connection.cursor() as cursor:
            cursor.execute(self.insert, (number,))
        return number


class PyMySql:
    """PyMySQL knows one host: the application goes through its list."""

    def __init__(self, table):
        self.insert, self.servers = f"INSERT INTO {table} VALUES (%s)", itertools.cycle(addresses("MYSQL"))

    def open(self):
        host, port = next(self.servers)
        limits = {"connect_timeout": PATIENCE, "read_timeout": PATIENCE}
        return pymysql.connect(host=host, port=port, user="root", database="d", autocommit=True, **limits)

    def write(self, connection, number):
        with connection.cursor() as cursor:
            cursor.execute(self.insert, (number,))
        return number


class Memcached:
    """pymemcache with one server at a time. HashClient would distribute the keys over both."""

    def __init__(self, _table):
        self.servers = itertools.cycle(addresses("MEMCACHED"))

    def open(self):
        return Client(next(self.servers), connect_timeout=PATIENCE, timeout=PATIENCE, default_noreply=False)

    def write(self, client, number):
        key = f"python-{number}"
        if not client.set(f"c:{key}", "v"):
            raise ConnectionError("not stored")
        return key


def main():
    kind, table = sys.argv[1:]
    driver = {"connector": Connector, "pymysql": PyMySql, "pymemcache": Memcached}[kind](table)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    connection = None
    for number in itertools.count():
        if ended.is_set():
            return
        try:
            connection = connection or driver.open()
            print("ack", driver.write(connection, number), flush=True)
        except Exception as error:  # A driver's own, and those of sockets.
            print("error", *error.args[:2], flush=True)
            connection = None
            time.sleep(0.05)


main()
