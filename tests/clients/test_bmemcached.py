"""First steps with python-binary-memcached, which speaks the binary protocol only."""

import unittest

import bmemcached

from memcached_steps import MemcachedSteps, address


class BinaryMemcached(MemcachedSteps, unittest.TestCase):
    def connect(self):
        return bmemcached.Client([address()])

    def test_values_of_all_kinds(self):
        for number, value in enumerate([b"bytes", "text", 17, 2**40, 1.5, [1, {"a": None}], True]):
            key = self.key(str(number))
            self.assertTrue(self.client.set(key, value))
            self.assertEqual(self.client.get(key), value)

    def test_a_large_value(self):
        key, value = self.key("large"), bytes(range(256)) * 4000
        self.assertTrue(self.client.set(key, value, compress_level=0))
        self.assertEqual(self.client.get(key), value)

    def test_add_and_replace(self):
        key = self.key("a")
        self.assertFalse(self.client.replace(key, "x"))
        self.assertTrue(self.client.add(key, "x"))
        self.assertFalse(self.client.add(key, "y"))
        self.assertTrue(self.client.replace(key, "z"))
        self.assertEqual(self.client.get(key), "z")

    def test_counting(self):
        key = self.key("n")
        self.assertEqual(self.client.incr(key, 5, default=10), 10)
        self.assertEqual(self.client.incr(key, 5), 15)
        self.assertEqual(self.client.decr(key, 20), 0)

    def test_expiry(self):
        key = self.key("a")
        self.client.set(key, "x", time=1)
        self.wait_until_expired(key)

    def test_stats(self):
        (stats,) = self.client.stats().values()
        self.assertIn("get_hits", stats)


if __name__ == "__main__":
    unittest.main()
