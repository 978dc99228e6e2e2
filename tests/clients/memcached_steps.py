"""What every memcached client's first steps have in common, however it names its methods."""

import time
import uuid

from where import memcached_address


def address():
    """Host and port as one word, as servers are listed."""
    host, port = memcached_address()
    return f"{host}:{port}"


class MemcachedSteps:
    """Steps of a client with get, set, gets, cas, get_multi, set_multi and delete_multi.

    A test case derives from this and from unittest.TestCase, and makes its client in connect().
    """

    def setUp(self):
        self.client = self.connect()
        self.addCleanup(self.client.disconnect_all)
        self.prefix = f"steps-{uuid.uuid4().hex[:12]}-"

    def key(self, name):
        return self.prefix + name

    def wait_until_expired(self, key):
        deadline = time.monotonic() + 10
        while self.client.get(key) is not None:
            self.assertLess(time.monotonic(), deadline, "the key did not expire")
            time.sleep(0.1)

    def test_set_get_delete(self):
        key = self.key("a")
        self.assertIsNone(self.client.get(key))
        self.assertTrue(self.client.set(key, "one"))
        self.assertEqual(self.client.get(key), "one")
        self.assertTrue(self.client.delete(key))
        self.assertIsNone(self.client.get(key))

    def test_many_keys_at_once(self):
        pairs = {self.key(str(number)): f"v{number}" for number in range(100)}
        self.assertFalse(self.client.set_multi(pairs))
        asked = list(pairs) + [self.key("absent")]
        self.assertEqual(self.client.get_multi(asked), pairs)
        self.assertTrue(self.client.delete_multi(list(pairs)))
        self.assertEqual(self.client.get_multi(asked), {})

    def test_cas_lets_the_first_win(self):
        key = self.key("a")
        self.client.set(key, "0")
        value, version = self.client.gets(key)
        self.assertEqual(value, "0")
        self.assertTrue(self.client.cas(key, "1", version))
        self.assertFalse(self.client.cas(key, "2", version))
        self.assertEqual(self.client.get(key), "1")
