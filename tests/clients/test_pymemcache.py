"""First steps with pymemcache: every command of the ASCII protocol that it sends."""

import time
import unittest
import uuid

from pymemcache.exceptions import MemcacheClientError

from where import memcached


class PyMemcache(unittest.TestCase):
    def setUp(self):
        self.client = memcached()
        self.addCleanup(self.client.close)
        # Keys of this test alone, so that tests do not depend on each other's order.
        self.prefix = f"steps-{uuid.uuid4().hex[:12]}-"

    def key(self, name):
        return self.prefix + name

    def test_set_and_get(self):
        key = self.key("a")
        self.assertIsNone(self.client.get(key))
        self.assertTrue(self.client.set(key, b"one"))
        self.assertEqual(self.client.get(key), b"one")
        self.assertTrue(self.client.set(key, b""))
        self.assertEqual(self.client.get(key), b"")
        raw = bytes(range(256)) * 400
        self.assertTrue(self.client.set(key, raw))
        self.assertEqual(self.client.get(key), raw)

    def test_flags_come_back(self):
        key = self.key("flags")
        self.assertTrue(self.client.set(key, b"x", flags=0xDEADBEEF))
        told = self.client.raw_command(f"get {key}", end_tokens=b"END\r\n")
        self.assertIn(f"VALUE {key} {0xDEADBEEF} 1".encode(), told)

    def test_get_of_many_keys(self):
        pairs = {self.key(str(number)): str(number).encode() for number in range(50)}
        self.assertEqual(self.client.set_many(pairs), [])
        asked = [*pairs, self.key("absent")]
        self.assertEqual(self.client.get_many(asked), pairs)
        self.assertEqual(set(self.client.gets_many(asked)), set(pairs))

    def test_add_and_replace(self):
        key = self.key("a")
        self.assertFalse(self.client.replace(key, b"0"))
        self.assertTrue(self.client.add(key, b"1"))
        self.assertFalse(self.client.add(key, b"2"))
        self.assertTrue(self.client.replace(key, b"3"))
        self.assertEqual(self.client.get(key), b"3")

    def test_append_and_prepend(self):
        key = self.key("a")
        self.assertFalse(self.client.append(key, b"x"))
        self.client.set(key, b"b")
        self.assertTrue(self.client.append(key, b"c"))
        self.assertTrue(self.client.prepend(key, b"a"))
        self.assertEqual(self.client.get(key), b"abc")

    def test_cas_lets_the_first_win(self):
        key = self.key("a")
        self.assertIsNone(self.client.cas(key, b"x", b"1"))
        self.client.set(key, b"0")
        value, version = self.client.gets(key)
        self.assertEqual(value, b"0")
        self.assertTrue(self.client.cas(key, b"1", version))
        self.assertFalse(self.client.cas(key, b"2", version))
        value, newer = self.client.gets(key)
        self.assertEqual(value, b"1")
        self.assertNotEqual(newer, version)

    def test_counting(self):
        key = self.key("n")
        self.assertIsNone(self.client.incr(key, 1))
        self.client.set(key, b"10")
        self.assertEqual(self.client.incr(key, 5), 15)
        self.assertEqual(self.client.decr(key, 20), 0)
        self.client.set(key, str(2**64 - 1).encode())
        self.assertEqual(self.client.incr(key, 2), 1)
        self.client.set(key, b"word")
        with self.assertRaises(MemcacheClientError):
            self.client.incr(key, 1)

    def test_delete(self):
        key = self.key("a")
        self.assertFalse(self.client.delete(key))
        self.client.set(key, b"x")
        self.assertTrue(self.client.delete(key))
        self.assertIsNone(self.client.get(key))

    def test_touch_and_expiry(self):
        key, kept = self.key("a"), self.key("kept")
        self.assertFalse(self.client.touch(key, 100))
        self.client.set(key, b"x", expire=100)
        self.client.set(kept, b"y", expire=1)
        self.assertTrue(self.client.touch(kept, 100))
        self.assertTrue(self.client.touch(key, 1))
        self.assertEqual(self.client.get(kept), b"y")
        deadline = time.monotonic() + 10
        while self.client.get(key) is not None:
            self.assertLess(time.monotonic(), deadline, "the key did not expire")
            time.sleep(0.1)
        self.assertEqual(self.client.get(kept), b"y")
        told = self.client.raw_command(f"gat 100 {kept}", end_tokens=b"END\r\n")
        self.assertIn(b"\r\ny\r\n", told)

    def test_commands_without_a_reply(self):
        self.client.set(self.key("a"), b"1", noreply=True)
        self.client.incr(self.key("a"), 1, noreply=True)
        self.client.set(self.key("b"), b"1", noreply=True)
        self.client.delete(self.key("b"), noreply=True)
        self.assertEqual(self.client.get(self.key("a")), b"2")
        self.assertIsNone(self.client.get(self.key("b")))

    def test_a_key_that_is_too_long_is_refused_and_the_connection_goes_on(self):
        with self.assertRaises(MemcacheClientError):
            self.client.raw_command("get " + "k" * 251)
        longest = self.key("k" * (250 - len(self.prefix)))
        self.client.set(longest, b"x")
        self.assertEqual(self.client.get(longest), b"x")

    def test_version_and_stats(self):
        self.assertTrue(self.client.version())
        stats = self.client.stats()
        for name in (b"pid", b"uptime", b"version", b"curr_connections", b"cmd_get", b"get_hits"):
            self.assertIn(name, stats)


if __name__ == "__main__":
    unittest.main()
