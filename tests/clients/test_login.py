"""Passwords through PyMySQL: the server of these tests was started with one for root."""

import unittest

import pymysql

from where import any_certificate, mysql, setting


class Login(unittest.TestCase):
    def setUp(self):
        self.password = setting("CLIENTS_MYSQL_PASSWORD")

    def asks(self, **options):
        connection = mysql(**options)
        self.addCleanup(connection.close)
        with connection.cursor() as cursor:
            cursor.execute("SELECT CURRENT_USER()")
            return cursor.fetchone()[0].split("@")[0]

    def refused(self, **options):
        with self.assertRaises(pymysql.OperationalError) as failure:
            mysql(**options).close()
        self.assertEqual(failure.exception.args[0], 1045, failure.exception)

    def test_the_password_is_taken_over_tls_and_from_then_on_without(self):
        self.assertEqual(self.asks(password=self.password, ssl=any_certificate()), "root")
        # The server remembers now, so the quick exchange needs no safe channel.
        self.assertEqual(self.asks(password=self.password, ssl_disabled=True), "root")

    def test_wrong_passwords_and_users_are_refused(self):
        self.refused(password="wrong", ssl=any_certificate())
        self.refused(password="", ssl=any_certificate())
        self.refused(user="nobody", password=self.password, ssl=any_certificate())


if __name__ == "__main__":
    unittest.main()
