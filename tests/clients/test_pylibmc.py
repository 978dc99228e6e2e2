"""First steps with pylibmc (libmemcached), in the binary and in the ASCII protocol."""

import time
import unittest
import uuid

import pylibmc

from where import memcached_address


class Steps:
    binary = False

    def setUp(self):
        host, port = memcached_address()
        behaviors = {"cas": True, "tcp_nodelay": True}
        self.client = pylibmc.Client([f"{host}:{port}"], binary=self.binary, behaviors=behaviors)
        self.addCleanup(self.client.disconnect_all)
        self.prefix = f"lib-{uuid.uuid4().hex[:12]}-"

    def key(self, name):
        return self.prefix + name

    def test_set_get_delete(self):
        key = self.key("a")
        self.assertIsNone(self.client.get(key))
        self.assertTrue(self.client.set(key, "one"))
        self.assertEqual(self.client.get(key), "one")
        self.assertTrue(self.client.delete(key))
        self.assertFalse(self.client.delete(key))

    def test_many_keys_at_once(self):
        pairs = {self.key(str(number)): number for number in range(100)}
        self.assertEqual(self.client.set_multi(pairs), [])
        asked = list(pairs) + [self.key("absent")]
        self.assertEqual(self.client.get_multi(asked), pairs)
        self.client.delete_multi(list(pairs))
        self.assertEqual(self.client.get_multi(asked), {})

    def test_conditions(self):
        key = self.key("a")
        if self.binary:
            with self.assertRaises(pylibmc.NotFound):
                self.client.replace(key, "x")
        else:
            self.assertFalse(self.client.replace(key, "x"))
        self.assertTrue(self.client.add(key, "x"))
        self.assertFalse(self.client.add(key, "y"))
        self.assertTrue(self.client.replace(key, "z"))
        self.assertTrue(self.client.set(key, b"b"))
        self.assertTrue(self.client.append(key, b"c"))
        self.assertTrue(self.client.prepend(key, b"a"))
        self.assertEqual(self.client.get(key), b"abc")

    def test_cas_lets_the_first_win(self):
        key = self.key("a")
        self.client.set(key, "0")
        value, version = self.client.gets(key)
        self.assertEqual(value, "0")
        self.assertTrue(self.client.cas(key, "1", version))
        self.assertFalse(self.client.cas(key, "2", version))

    def test_counting(self):
        key = self.key("n")
        with self.assertRaises(pylibmc.NotFound):
            self.client.incr(key)
        self.client.set(key, 10)
        self.assertEqual(self.client.incr(key, 5), 15)
        self.assertEqual(self.client.decr(key, 3), 12)

    def test_touch_and_expiry(self):
        key = self.key("a")
        self.client.set(key, "x", time=100)
        self.assertTrue(self.client.touch(key, 1))
        deadline = time.monotonic() + 10
        while self.client.get(key) is not None:
            self.assertLess(time.monotonic(), deadline, "the key did not expire")
            time.sleep(0.1)

    def test_stats(self):
        ((_, stats),) = self.client.get_stats()
        self.assertIn("curr_connections", {name.decode() if isinstance(name, bytes) else name for name in stats})


class Ascii(Steps, unittest.TestCase):
    pass


class Binary(Steps, unittest.TestCase):
    binary = True


if __name__ == "__main__":
    unittest.main()
