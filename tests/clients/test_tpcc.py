"""A mix of TPC-C's five transactions from several connections, and its consistency conditions 1 to 4
(TPC-C standard, clause 3.3.2) afterwards. Scaled down: 2 warehouses, 3 districts each, 30 customers
a district, 100 items. Transactions that end in 1213 or 1205 are repeated, as the standard asks."""

import random
import threading
import unittest

import pymysql

import where

WAREHOUSES, DISTRICTS, CUSTOMERS, ITEMS = 2, 3, 30, 100
THREADS, TRANSACTIONS = 4, 60

SCHEMA = """
CREATE TABLE warehouse (w_id INT PRIMARY KEY, w_name VARCHAR(10), w_tax DECIMAL(4,4), w_ytd DECIMAL(12,2));
CREATE TABLE district (d_w_id INT, d_id INT, d_name VARCHAR(10), d_tax DECIMAL(4,4), d_ytd DECIMAL(12,2),
  d_next_o_id INT, PRIMARY KEY (d_w_id, d_id), FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id));
CREATE TABLE customer (c_w_id INT, c_d_id INT, c_id INT, c_last VARCHAR(16), c_discount DECIMAL(4,4),
  c_balance DECIMAL(12,2), c_ytd_payment DECIMAL(12,2), c_payment_cnt INT, c_delivery_cnt INT, c_data TEXT,
  PRIMARY KEY (c_w_id, c_d_id, c_id), KEY by_name (c_w_id, c_d_id, c_last),
  FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id));
CREATE TABLE history (h_id BIGINT AUTO_INCREMENT PRIMARY KEY, h_c_id INT, h_c_d_id INT, h_c_w_id INT, h_d_id INT,
  h_w_id INT, h_date DATETIME, h_amount DECIMAL(6,2),
  FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer (c_w_id, c_d_id, c_id));
CREATE TABLE item (i_id INT PRIMARY KEY, i_name VARCHAR(24), i_price DECIMAL(5,2));
CREATE TABLE stock (s_w_id INT, s_i_id INT, s_quantity INT, s_ytd INT, s_order_cnt INT, s_remote_cnt INT,
  PRIMARY KEY (s_w_id, s_i_id), FOREIGN KEY (s_i_id) REFERENCES item (i_id));
CREATE TABLE orders (o_w_id INT, o_d_id INT, o_id INT, o_c_id INT, o_entry_d DATETIME, o_carrier_id INT,
  o_ol_cnt INT, o_all_local INT, PRIMARY KEY (o_w_id, o_d_id, o_id), KEY by_customer (o_w_id, o_d_id, o_c_id, o_id),
  FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id));
CREATE TABLE new_order (no_w_id INT, no_d_id INT, no_o_id INT, PRIMARY KEY (no_w_id, no_d_id, no_o_id),
  FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id));
CREATE TABLE order_line (ol_w_id INT, ol_d_id INT, ol_o_id INT, ol_number INT, ol_i_id INT, ol_supply_w_id INT,
  ol_delivery_d DATETIME, ol_quantity INT, ol_amount DECIMAL(6,2), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number),
  FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders (o_w_id, o_d_id, o_id),
  FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES stock (s_w_id, s_i_id))
"""


class Rollback(Exception):
    """The one new order in a hundred that names an item which there is not."""


class Terminal:
    """One connection that carries out transactions."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.connection = where.mysql(database="tpcc")
        self.done = {}

    def all(self, text, *values):
        with self.connection.cursor() as cursor:
            cursor.execute(text, values)
            return cursor.fetchall()

    def one(self, text, *values):
        (row,) = self.all(text, *values)
        return row

    def place(self):
        return self.random.randint(1, WAREHOUSES), self.random.randint(1, DISTRICTS)

    def new_order(self):
        w, d = self.place()
        c = self.random.randint(1, CUSTOMERS)
        lines = [(self.random.randint(1, ITEMS), self.random.randint(1, 10)) for _ in range(self.random.randint(5, 15))]
        if self.random.random() < 0.01:
            lines[-1] = (ITEMS + 1, 1)
        # Sorted, so that two orders lock the stock in one order.
        lines.sort()
        self.one("SELECT w_tax FROM warehouse WHERE w_id = %s", w)
        (o,) = self.one("SELECT d_next_o_id FROM district WHERE d_w_id = %s AND d_id = %s FOR UPDATE", w, d)
        self.all("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = %s AND d_id = %s", w, d)
        self.one("SELECT c_discount FROM customer WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s", w, d, c)
        self.all("INSERT INTO orders VALUES (%s, %s, %s, %s, NOW(), NULL, %s, 1)", w, d, o, c, len(lines))
        self.all("INSERT INTO new_order VALUES (%s, %s, %s)", w, d, o)
        for number, (item, quantity) in enumerate(lines, 1):
            prices = self.all("SELECT i_price FROM item WHERE i_id = %s", item)
            if not prices:
                raise Rollback
            stock = "WHERE s_w_id = %s AND s_i_id = %s"
            (left,) = self.one(f"SELECT s_quantity FROM stock {stock} FOR UPDATE", w, item)
            left = left - quantity if left - quantity >= 10 else left - quantity + 91
            change = "s_quantity = %s, s_ytd = s_ytd + %s, s_order_cnt = s_order_cnt + 1"
            self.all(f"UPDATE stock SET {change} {stock}", left, quantity, w, item)
            values = (w, d, o, number, item, w, quantity, prices[0][0] * quantity)
            self.all("INSERT INTO order_line VALUES (%s, %s, %s, %s, %s, %s, NULL, %s, %s)", *values)

    def payment(self):
        w, d = self.place()
        amount = self.random.randint(100, 500000) / 100
        self.all("UPDATE warehouse SET w_ytd = w_ytd + %s WHERE w_id = %s", amount, w)
        self.all("UPDATE district SET d_ytd = d_ytd + %s WHERE d_w_id = %s AND d_id = %s", amount, w, d)
        named = self.all(
            "SELECT c_id FROM customer WHERE c_w_id = %s AND c_d_id = %s AND c_last = %s ORDER BY c_id",
            w,
            d,
            f"NAME{self.random.randint(0, 9)}",
        )
        c = named[len(named) // 2][0]
        change = "c_balance = c_balance - %s, c_ytd_payment = c_ytd_payment + %s, c_payment_cnt = c_payment_cnt + 1"
        place = "c_w_id = %s AND c_d_id = %s AND c_id = %s"
        self.all(f"UPDATE customer SET {change} WHERE {place}", amount, amount, w, d, c)
        columns = "(h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount)"
        self.all(f"INSERT INTO history {columns} VALUES (%s, %s, %s, %s, %s, NOW(), %s)", c, d, w, d, w, amount)

    def order_status(self):
        w, d = self.place()
        c = self.random.randint(1, CUSTOMERS)
        latest = self.all(
            "SELECT o_id, o_carrier_id FROM orders WHERE o_w_id = %s AND o_d_id = %s AND o_c_id = %s"
            " ORDER BY o_id DESC LIMIT 1",
            w,
            d,
            c,
        )
        for o, _ in latest:
            self.all("SELECT * FROM order_line WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id = %s", w, d, o)

    def delivery(self):
        w = self.random.randint(1, WAREHOUSES)
        for d in range(1, DISTRICTS + 1):
            oldest = self.all(
                "SELECT no_o_id FROM new_order WHERE no_w_id = %s AND no_d_id = %s ORDER BY no_o_id LIMIT 1 FOR UPDATE",
                w,
                d,
            )
            if not oldest:
                continue
            o = oldest[0][0]
            self.all("DELETE FROM new_order WHERE no_w_id = %s AND no_d_id = %s AND no_o_id = %s", w, d, o)
            order = "o_w_id = %s AND o_d_id = %s AND o_id = %s"
            (c,) = self.one(f"SELECT o_c_id FROM orders WHERE {order}", w, d, o)
            self.all(f"UPDATE orders SET o_carrier_id = 5 WHERE {order}", w, d, o)
            lines = "ol_w_id = %s AND ol_d_id = %s AND ol_o_id = %s"
            self.all(f"UPDATE order_line SET ol_delivery_d = NOW() WHERE {lines}", w, d, o)
            (total,) = self.one(f"SELECT SUM(ol_amount) FROM order_line WHERE {lines}", w, d, o)
            change = "c_balance = c_balance + %s, c_delivery_cnt = c_delivery_cnt + 1"
            place = "c_w_id = %s AND c_d_id = %s AND c_id = %s"
            self.all(f"UPDATE customer SET {change} WHERE {place}", total, w, d, c)

    def stock_level(self):
        w, d = self.place()
        (o,) = self.one("SELECT d_next_o_id FROM district WHERE d_w_id = %s AND d_id = %s", w, d)
        self.one(
            "SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id"
            " WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id < %s AND ol_o_id >= %s AND s_quantity < 15",
            w,
            d,
            o,
            o - 20,
        )

    def run(self, count):
        mix = ["new_order"] * 45 + ["payment"] * 43 + ["order_status"] * 4 + ["delivery"] * 4 + ["stock_level"] * 4
        for _ in range(count):
            self.transaction(self.random.choice(mix))

    def transaction(self, name):
        for _ in range(100):
            try:
                self.connection.begin()
                getattr(self, name)()
                self.connection.commit()
                self.done[name] = self.done.get(name, 0) + 1
                return
            except Rollback:
                self.connection.rollback()
                return
            except pymysql.err.OperationalError as error:
                self.connection.rollback()
                if error.args[0] not in (1205, 1213):
                    raise
        raise AssertionError(f"{name} ended in conflicts a hundred times")


class Tpcc(unittest.TestCase):
    def setUp(self):
        self.connection = where.mysql(autocommit=True)
        self.sql("DROP DATABASE IF EXISTS tpcc")
        self.sql("CREATE DATABASE tpcc")
        self.sql("USE tpcc")
        for statement in SCHEMA.split(";"):
            self.sql(statement)
        self.fill()

    def tearDown(self):
        self.sql("DROP DATABASE tpcc")
        self.connection.close()

    def sql(self, text):
        with self.connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchall()

    def insert(self, table, rows):
        with self.connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(rows[0]))})", rows)

    def fill(self):
        places = [(w, d) for w in range(1, WAREHOUSES + 1) for d in range(1, DISTRICTS + 1)]
        self.insert("warehouse", [(w, f"W{w}", 0.1, 0) for w in range(1, WAREHOUSES + 1)])
        self.insert("district", [(w, d, f"D{d}", 0.1, 0, 1) for w, d in places])
        people = [(w, d, c) for w, d in places for c in range(1, CUSTOMERS + 1)]
        self.insert("customer", [(w, d, c, f"NAME{c % 10}", 0.1, -10, 10, 1, 0, "data") for w, d, c in people])
        self.insert("item", [(i, f"item{i}", 1 + i / 100) for i in range(1, ITEMS + 1)])
        self.insert("stock", [(w, i, 50, 0, 0, 0) for w in range(1, WAREHOUSES + 1) for i in range(1, ITEMS + 1)])

    def test_mix_stays_consistent(self):
        terminals = [Terminal(seed) for seed in range(THREADS)]
        failures = []

        def work(terminal):
            try:
                terminal.run(TRANSACTIONS)
            except Exception as error:  # noqa: BLE001 - told by the test below
                failures.append(repr(error))

        threads = [threading.Thread(target=work, args=(terminal,)) for terminal in terminals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        total = {name: sum(t.done.get(name, 0) for t in terminals) for name in ("new_order", "payment", "delivery")}
        self.assertTrue(all(total.values()), total)
        self.conditions(total)
        for terminal in terminals:
            terminal.connection.close()

    def conditions(self, total):
        none = lambda text: self.assertEqual(self.sql(text), (), text)  # noqa: E731
        # 1: a warehouse's income is that of its districts, and all payments are in the history.
        none("SELECT w_id FROM warehouse WHERE w_ytd <> (SELECT SUM(d_ytd) FROM district WHERE d_w_id = w_id)")
        self.assertEqual(self.sql("SELECT COUNT(*) FROM history"), ((total["payment"],),))
        none(
            "SELECT w_id FROM warehouse LEFT JOIN history ON h_w_id = w_id"
            " GROUP BY w_id, w_ytd HAVING w_ytd <> COALESCE(SUM(h_amount), 0)"
        )
        # 2: a district's next order is one past its last, in orders and among the new ones.
        none(
            "SELECT d_w_id, d_id FROM district WHERE d_next_o_id - 1 <> "
            "(SELECT COALESCE(MAX(o_id), 0) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)"
        )
        none(
            "SELECT d_w_id, d_id FROM district JOIN new_order ON no_w_id = d_w_id AND no_d_id = d_id"
            " GROUP BY d_w_id, d_id, d_next_o_id HAVING MAX(no_o_id) <> d_next_o_id - 1"
        )
        # 3: no gaps among the new orders of a district.
        none(
            "SELECT no_w_id, no_d_id FROM new_order GROUP BY no_w_id, no_d_id"
            " HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)"
        )
        # 4: the orders of a district say how many lines there are.
        none(
            "SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS told FROM orders GROUP BY o_w_id, o_d_id HAVING told <> "
            "(SELECT COUNT(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id)"
        )
        self.assertEqual(self.sql("SELECT COUNT(*) FROM orders"), ((total["new_order"],),))
