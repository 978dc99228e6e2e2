"""First steps with pylibmc (libmemcached), in the binary and in the ASCII protocol."""

import unittest

import pylibmc

from memcached_steps import MemcachedSteps, address


class Steps(MemcachedSteps):
    binary = False

    def connect(self):
        behaviors = {"cas": True, "tcp_nodelay": True}
        return pylibmc.Client([address()], binary=self.binary, behaviors=behaviors)

    def test_delete_tells_what_was_there(self):
        key = self.key("a")
        self.client.set(key, "one")
        self.assertTrue(self.client.delete(key))
        self.assertFalse(self.client.delete(key))

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
        self.wait_until_expired(key)

    def test_stats(self):
        ((_, stats),) = self.client.get_stats()
        self.assertIn("curr_connections", {name.decode() if isinstance(name, bytes) else name for name in stats})


class Ascii(Steps, unittest.TestCase):
    pass


class Binary(Steps, unittest.TestCase):
    binary = True


if __name__ == "__main__":
    unittest.main()
