"""The same rows through PyMySQL and pymemcache: a write through one is read through the other."""

import unittest
import uuid

from where import EXPIRY, FLAGS, KEY, TABLE, VALUE, memcached, mysql


class BothDoors(unittest.TestCase):
    def setUp(self):
        self.cache = memcached()
        self.addCleanup(self.cache.close)
        self.connection = mysql(autocommit=True)
        self.addCleanup(self.connection.close)
        self.cursor = self.connection.cursor()
        self.key = f"both-{uuid.uuid4().hex}"

    def select(self, columns=VALUE):
        self.cursor.execute(f"SELECT {columns} FROM {TABLE} WHERE {KEY} = %s", (self.key,))
        return self.cursor.fetchall()

    def change(self, statement, *values):
        return self.cursor.execute(statement, values)

    def test_a_set_is_seen_by_the_next_select(self):
        self.assertEqual(self.select(), ())
        self.cache.set(self.key, b"\x00\xffone", flags=7)
        self.assertEqual(self.select(f"{VALUE}, {FLAGS}"), ((b"\x00\xffone", 7),))
        self.cache.append(self.key, b"!")
        self.assertEqual(self.select(), ((b"\x00\xffone!",),))
        self.cache.delete(self.key)
        self.assertEqual(self.select(), ())

    def test_an_insert_an_update_and_a_delete_are_seen_by_the_next_get(self):
        self.change(f"INSERT INTO {TABLE} ({KEY}, {VALUE}) VALUES (%s, %s)", self.key, b"one")
        self.assertEqual(self.cache.get(self.key), b"one")
        self.change(f"UPDATE {TABLE} SET {VALUE} = %s WHERE {KEY} = %s", b"two", self.key)
        self.assertEqual(self.cache.get(self.key), b"two")
        self.change(f"DELETE FROM {TABLE} WHERE {KEY} = %s", self.key)
        self.assertIsNone(self.cache.get(self.key))

    def test_an_update_changes_what_gets_shows_as_cas(self):
        self.cache.set(self.key, b"one")
        _, before = self.cache.gets(self.key)
        self.change(f"UPDATE {TABLE} SET {VALUE} = %s WHERE {KEY} = %s", b"two", self.key)
        value, after = self.cache.gets(self.key)
        self.assertEqual(value, b"two")
        self.assertNotEqual(after, before)
        self.assertFalse(self.cache.cas(self.key, b"three", before))
        self.assertTrue(self.cache.cas(self.key, b"three", after))
        self.assertEqual(self.select(), ((b"three",),))

    def test_counting_and_selecting_agree(self):
        self.cache.set(self.key, b"41")
        self.assertEqual(self.cache.incr(self.key, 1), 42)
        self.assertEqual(self.select(), ((b"42",),))

    def test_what_is_rolled_back_is_never_seen(self):
        self.cache.set(self.key, b"one")
        self.connection.begin()
        self.change(f"UPDATE {TABLE} SET {VALUE} = %s WHERE {KEY} = %s", b"two", self.key)
        self.assertEqual(self.cache.get(self.key), b"one")
        self.connection.rollback()
        self.assertEqual(self.cache.get(self.key), b"one")

    def test_the_table_has_its_columns(self):
        self.cursor.execute(f"DESCRIBE {TABLE}")
        names = [row[0] for row in self.cursor.fetchall()]
        self.assertEqual(names, [KEY, VALUE, FLAGS, EXPIRY])

    def test_a_multi_get_and_an_in_list_agree(self):
        pairs = {f"{self.key}-{number}": str(number).encode() for number in range(1, 51)}
        self.cache.set_many(pairs)
        marks = ", ".join(["%s"] * len(pairs))
        self.cursor.execute(f"SELECT {KEY}, {VALUE} FROM {TABLE} WHERE {KEY} IN ({marks})", list(pairs))
        selected = {bytes(key).decode(): bytes(value) for key, value in self.cursor.fetchall()}
        self.assertEqual(selected, pairs)
        self.assertEqual(self.cache.get_many(list(pairs)), pairs)


if __name__ == "__main__":
    unittest.main()
