"""First steps with python-binary-memcached, which speaks the binary protocol only."""

import time
import unittest
import uuid

import bmemcached

from where import memcached_address


class BinaryMemcached(unittest.TestCase):
    def setUp(self):
        host, port = memcached_address()
        self.client = bmemcached.Client([f"{host}:{port}"])
        self.addCleanup(self.client.disconnect_all)
        self.prefix = f"bin-{uuid.uuid4().hex[:12]}-"

    def key(self, name):
        return self.prefix + name

    def test_set_get_delete(self):
        key = self.key("a")
        self.assertIsNone(self.client.get(key))
        self.assertTrue(self.client.set(key, "one"))
        self.assertEqual(self.client.get(key), "one")
        self.assertTrue(self.client.delete(key))
        self.assertIsNone(self.client.get(key))

    def test_values_of_all_kinds(self):
        for number, value in enumerate([b"bytes", "text", 17, 2**40, 1.5, [1, {"a": None}], True]):
            key = self.key(str(number))
            self.assertTrue(self.client.set(key, value))
            self.assertEqual(self.client.get(key), value)

    def test_a_large_value(self):
        key, value = self.key("large"), bytes(range(256)) * 4000
        self.assertTrue(self.client.set(key, value, compress_level=0))
        self.assertEqual(self.client.get(key), value)

    def test_many_keys_at_once(self):
        pairs = {self.key(str(number)): f"v{number}" for number in range(60)}
        self.assertFalse(self.client.set_multi(pairs))
        asked = list(pairs) + [self.key("absent")]
        self.assertEqual(self.client.get_multi(asked), pairs)
        self.assertTrue(self.client.delete_multi(list(pairs)))
        self.assertEqual(self.client.get_multi(asked), {})

    def test_add_and_replace(self):
        key = self.key("a")
        self.assertFalse(self.client.replace(key, "x"))
        self.assertTrue(self.client.add(key, "x"))
        self.assertFalse(self.client.add(key, "y"))
        self.assertTrue(self.client.replace(key, "z"))
        self.assertEqual(self.client.get(key), "z")

    def test_cas_lets_the_first_win(self):
        key = self.key("a")
        self.client.set(key, "0")
        value, version = self.client.gets(key)
        self.assertEqual(value, "0")
        self.assertTrue(self.client.cas(key, "1", version))
        self.assertFalse(self.client.cas(key, "2", version))
        self.assertEqual(self.client.get(key), "1")

    def test_counting(self):
        key = self.key("n")
        self.assertEqual(self.client.incr(key, 5, default=10), 10)
        self.assertEqual(self.client.incr(key, 5), 15)
        self.assertEqual(self.client.decr(key, 20), 0)

    def test_expiry(self):
        key = self.key("a")
        self.client.set(key, "x", time=1)
        deadline = time.monotonic() + 10
        while self.client.get(key) is not None:
            self.assertLess(time.monotonic(), deadline, "the key did not expire")
            time.sleep(0.1)

    def test_stats(self):
        (stats,) = self.client.stats().values()
        self.assertIn("get_hits", stats)


if __name__ == "__main__":
    unittest.main()
