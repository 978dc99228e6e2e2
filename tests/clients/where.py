"""Where the tests find the server, and what its tables are called: the one place to change."""

import os
import ssl

import pymysql
from pymemcache.client.base import Client

# The table that holds keys of no configured prefix.
TABLE = "ndbmemcache.kv"
KEY = "mkey"
VALUE = "value"
FLAGS = "flags"
EXPIRY = "expire_time"


def setting(name):
    """A setting that the runner made; a missing one is an error, never a reason to skip."""
    value = os.environ.get(name)
    if not value:
        raise RuntimeError(f"{name} is not set; run these tests through tests/clients/run.py")
    return value


def mysql_address():
    return setting("CLIENTS_MYSQL_HOST"), int(setting("CLIENTS_MYSQL_PORT"))


def memcached_address():
    return setting("CLIENTS_MEMCACHED_HOST"), int(setting("CLIENTS_MEMCACHED_PORT"))


def mysql(**options):
    """A PyMySQL connection as root."""
    host, port = mysql_address()
    options.setdefault("user", "root")
    options.setdefault("password", "")
    options.setdefault("charset", "utf8mb4")
    return pymysql.connect(host=host, port=port, connect_timeout=30, read_timeout=60, **options)


def any_certificate():
    """TLS that takes the certificate which the server made for itself."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def memcached(**options):
    """A pymemcache client that waits for every answer."""
    options.setdefault("default_noreply", False)
    return Client(memcached_address(), connect_timeout=30, timeout=60, **options)
