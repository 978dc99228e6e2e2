//! A group of two servers and a witness.

use crate::proxy::Network;
use porpoise_testkit::{Porpoise, Witness, free_ports, wait_until};
use std::net::SocketAddr;
use std::time::Duration;

/// Time in which everything happens that a test waits for.
pub const WAIT: Duration = Duration::from_secs(120);

const SECRET: &str = "0123456789abcdef0123456789abcdef";

pub const TABLES: &str = "
    CREATE DATABASE d; USE d;
    CREATE TABLE t (id BIGINT PRIMARY KEY, n INT);
    CREATE TABLE cached (k VARCHAR(64) PRIMARY KEY, v VARCHAR(64));
    ALTER TABLE d.cached MEMCACHED PREFIX 'c:';";

/// A group. Members are numbered from 1; the last one is the witness.
pub struct Group {
    pub servers: Vec<Porpoise>,
    pub witness: Witness,
    pub network: Option<Network>,
    _files: tempfile::TempDir,
}

/// Options of a group.
#[derive(Default)]
pub struct GroupOptions<'a> {
    /// More options of the servers.
    pub arguments: &'a [(&'a str, &'a str)],
    /// Whether members reach each other through proxies.
    pub has_network: bool,
}

pub fn good(server: &Porpoise, statements: &str) -> Vec<String> {
    let output = server.sql(statements);
    let rows = output.rows();
    rows.iter().map(|row| row.join("|")).collect()
}

fn port(address: SocketAddr) -> String {
    address.port().to_string()
}

impl Group {
    /// Starts a group, and creates its replication account and tables once it has a leader.
    pub fn start(options: &GroupOptions<'_>) -> Group {
        let files = tempfile::tempdir().unwrap();
        let (secret, password) = (files.path().join("secret"), files.path().join("password"));
        std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
        std::fs::write(&password, "replication pw\n").unwrap();
        // Of each server: failover, MySQL, memcached, HTTP; of the witness: failover.
        let ports = free_ports(9);
        let network = options.has_network.then(|| {
            let members = [(1, ports[0]), (2, ports[4]), (3, ports[8])];
            Network::start(&members, &[(1, ports[1]), (2, ports[5])])
        });
        let front = |at: usize| {
            let network = network.as_ref();
            port(network.map_or(ports[at], |network| network.front(ports[at])))
        };
        let members = format!(
            "1=127.0.0.1:{}/{},2=127.0.0.1:{}/{},3=127.0.0.1:{}",
            front(0),
            front(1),
            front(4),
            front(5),
            front(8)
        );
        let witness_address = ports[8].to_string();
        let witness = Witness::start(&[
            "--listen",
            &witness_address,
            "--members",
            &members,
            "--id",
            "3",
            "--secret-file",
            secret.to_str().unwrap(),
        ]);
        let server = |id: usize| {
            let at = (id - 1) * 4;
            let builder = Porpoise::builder()
                .flag("--log-bin")
                .arg("--server-id", id.to_string())
                .arg("--failover-members", &members)
                .arg("--failover-listen", ports[at].to_string())
                .arg("--failover-secret-file", &secret)
                .arg("--failover-account", "repl")
                .arg("--failover-password-file", &password)
                .arg("--mysql-listen", ports[at + 1].to_string())
                .arg("--memcached-listen", ports[at + 2].to_string())
                .arg("--http-listen", ports[at + 3].to_string());
            let more = options.arguments.iter();
            more.fold(builder, |builder, (option, value)| {
                builder.arg(option, value)
            })
            .start()
        };
        let group = Group {
            servers: vec![server(1), server(2)],
            witness,
            network,
            _files: files,
        };
        assert_eq!(group.wait_leader(), 0, "the first member begins");
        // With --replication-ack the first commits would wait for the replica that needs this account.
        good(
            &group.servers[0],
            "SET GLOBAL rpl_semi_sync_source_enabled = OFF; CREATE USER repl IDENTIFIED BY 'replication pw'; GRANT REPLICATION SLAVE, BACKUP_ADMIN ON *.* TO repl",
        );
        good(&group.servers[0], TABLES);
        group.wait_in_sync();
        if options
            .arguments
            .iter()
            .any(|(name, _)| *name == "--replication-ack")
        {
            good(
                &group.servers[0],
                "SET GLOBAL rpl_semi_sync_source_enabled = ON",
            );
        }
        group
    }

    /// A status variable of a server that runs; empty if it does not answer.
    pub fn status(&self, server: usize, name: &str) -> String {
        let output =
            self.servers[server].sql(&format!("SHOW GLOBAL STATUS LIKE 'Failover_{name}'"));
        let value = output.stdout.trim().split('\t').nth(1);
        value.unwrap_or_default().to_owned()
    }

    /// Whether a server leads, and takes writes.
    pub fn leads(&self, server: usize) -> bool {
        let output = self.servers[server]
            .sql("SELECT @@super_read_only; SHOW GLOBAL STATUS LIKE 'Failover_role'");
        output.stdout == "0\nFailover_role\tLEADER\n"
    }

    fn states(&self) -> String {
        let state = |server: usize| {
            let output = self.servers[server].sql(
                "SHOW GLOBAL STATUS LIKE 'Failover%'; SHOW REPLICA STATUS; SHOW STATUS LIKE 'Rpl_semi_sync_source%'; SELECT @@super_read_only, @@gtid_executed",
            );
            format!(
                "server {}:\n{}{}\n",
                server + 1,
                output.stdout,
                output.stderr
            )
        };
        let states: Vec<String> = (0..self.servers.len()).map(state).collect();
        states.concat()
    }

    /// Waits for `found`; shows the state of all servers if that does not happen.
    pub fn wait<T>(&self, event: &str, found: impl FnMut() -> Option<T>) -> T {
        match wait_until(WAIT, found) {
            Some(found) => found,
            None => panic!("{event} has not happened:\n{}", self.states()),
        }
    }

    /// Waits for a leader that takes writes; returns its place.
    pub fn wait_leader(&self) -> usize {
        self.wait("an election", || {
            (0..self.servers.len()).find(|s| self.leads(*s))
        })
    }

    /// Waits until this server leads.
    pub fn wait_leads(&self, server: usize) {
        self.wait("the takeover", || self.leads(server).then_some(()));
    }

    /// Waits until both servers have everything that was acknowledged.
    pub fn wait_in_sync(&self) {
        let is_in_sync = |server: usize| self.status(server, "members_in_sync") == "1,2";
        self.wait("both servers in sync", || {
            let leader = (0..self.servers.len()).find(|s| self.leads(*s))?;
            is_in_sync(leader).then_some(())
        });
    }

    /// Waits until both servers have the same transactions, and compares their tables, values of CAS included.
    pub fn compare(&self) {
        self.wait_in_sync();
        let executed = |server: usize| {
            self.servers[server]
                .sql("SELECT @@GLOBAL.gtid_executed")
                .stdout
        };
        self.wait("the same transactions", || {
            (executed(0) == executed(1)).then_some(())
        });
        for query in [
            "SELECT * FROM d.t ORDER BY id",
            "SELECT * FROM d.cached ORDER BY k",
            "SELECT User, Host FROM mysql.user ORDER BY User",
        ] {
            let rows = [0, 1].map(|server| good(&self.servers[server], query));
            assert_eq!(rows[0].len(), rows[1].len(), "{query}");
            assert_eq!(rows[0], rows[1], "{query}");
        }
        let keys = good(
            &self.servers[0],
            "SELECT k FROM d.cached ORDER BY k LIMIT 100",
        );
        let request: String = keys.iter().map(|key| format!("gets c:{key}\r\n")).collect();
        let items = [0, 1].map(|server| self.servers[server].memcached(&request));
        assert_eq!(items[0].matches("VALUE").count(), keys.len());
        assert_eq!(items[0], items[1]);
    }
}
