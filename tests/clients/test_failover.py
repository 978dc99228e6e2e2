"""Stock drivers that are given both servers of a group, while its leaders are killed one after the other.

Which form works is in docs/guide/replication.md, "Drivers". Each writer is a program (tests/clients/failover/)
that does what an application has to do: after an error it connects again, by the driver's own means.
"""

import pathlib
import subprocess
import sys
import unittest

from failover_group import Failover, ROWS, wait

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "failover"


class Python(Failover, unittest.TestCase):
    def drive(self, kind, table):
        self.group.run(self.group.wait_leader(), f"CREATE TABLE d.{table} (id BIGINT PRIMARY KEY)")
        return self.writer([sys.executable, str(PROGRAMS / "writer.py"), kind, table], HERE)

    def test_connector_python_with_a_failover_list_that_looks_at_read_only(self):
        self.follows(self.drive("connector", "python_connector"), "python_connector")

    def test_pymysql_with_a_list_of_the_application(self):
        self.follows(self.drive("pymysql", "python_pymysql"), "python_pymysql")

    def test_pymemcache_with_a_list_of_the_application(self):
        writer = self.writer([sys.executable, str(PROGRAMS / "writer.py"), "pymemcache", ""], HERE)
        self.follows(writer, "cached", "k")


class Go(Failover, unittest.TestCase):
    def test_go_sql_driver_with_reject_read_only(self):
        self.group.run(self.group.wait_leader(), "CREATE TABLE d.go (id BIGINT PRIMARY KEY)")
        program = self.group.folder / "writer"
        subprocess.run(["go", "build", "-o", str(program), "./failover"], cwd=HERE / "go", check=True)
        self.follows(self.writer([str(program)], HERE), "go")


class Node(Failover, unittest.TestCase):
    def test_mysql2_with_a_pool_cluster(self):
        self.group.run(self.group.wait_leader(), "CREATE TABLE d.node (id BIGINT PRIMARY KEY)")
        self.follows(self.writer(["node", "failover.js"], HERE / "node"), "node")


class Java(Failover, unittest.TestCase):
    """`{hosts}` of the URLs: both servers, the leader of the beginning first."""

    def drive(self, table, url):
        self.group.run(self.group.wait_leader(), f"CREATE TABLE d.{table} (id BIGINT PRIMARY KEY)")
        command = ["mvn", "-q", "-B", "compile", "exec:java", "-Dtests=porpoise.Failover"]
        return self.writer(command, HERE / "java", FAILOVER_URL=url, FAILOVER_TABLE=table)

    def test_connector_j_balances_over_both_and_leaves_a_read_only_server(self):
        url = "jdbc:mysql:loadbalance://{hosts}/d?loadBalanceSQLStateFailover=HY000&loadBalanceBlocklistTimeout=2000"
        self.follows(self.drive("connector_j", url), "connector_j")

    def test_mariadb_connector_j_balances_over_both(self):
        url = "jdbc:mariadb:load-balance://{hosts}/d?"
        self.follows(self.drive("mariadb_j", url), "mariadb_j")

    def test_a_list_in_order_stays_at_a_server_that_came_back_as_a_standby(self):
        """The first server of the list follows now: drivers that take the first one that answers report 1290."""
        for table, url in [
            ("connector_j_list", "jdbc:mysql://{hosts}/d?failOverReadOnly=false"),
            ("mariadb_j_list", "jdbc:mariadb:sequential://{hosts}/d?"),
            ("mariadb_j_replication", "jdbc:mariadb:replication://{hosts}/d?"),
        ]:
            with self.subTest(url=url):
                writer = self.drive(table, url)
                writer.wait("rows of the writer", ROWS)
                first = self.group.wait_leader()
                self.group.wait_in_sync()
                self.group.kill(first)
                if "replication" not in url:
                    writer.wait("rows at the new leader", ROWS)
                self.group.start(first)
                self.group.wait_in_sync()
                wait("error 1290", lambda: 1290 in writer.numbers() or "replication" not in url)
                writer.stop()
                other = self.drive_again(table, url)
                wait("error 1290 of new connections", lambda: 1290 in other.numbers())
                other.stop()

    def drive_again(self, table, url):
        """A writer whose list begins with the server that follows."""
        hosts = ",".join(self.group.address(server) for server in (1 - self.group.wait_leader(), self.group.wait_leader()))
        command = ["mvn", "-q", "-B", "compile", "exec:java", "-Dtests=porpoise.Failover"]
        return self.writer(command, HERE / "java", FAILOVER_URL=url.replace("{hosts}", hosts), FAILOVER_TABLE=table)


if __name__ == "__main__":
    unittest.main()
