//! A group of two servers and a witness, or of three servers.

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

/// A group. Members are numbered from 1; the witness, if there is one, is the last.
pub struct Group {
    pub servers: Vec<Porpoise>,
    witness: Option<Witness>,
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
    /// Whether the group has a third server in the place of the witness.
    pub has_three_servers: bool,
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
        let servers = if options.has_three_servers { 3 } else { 2 };
        // Of each server: failover, MySQL, memcached, HTTP; of the witness: failover.
        let ports = free_ports(9.max(servers * 4));
        let network = options.has_network.then(|| {
            let failover = (0..3).map(|at| (at as u32 + 1, ports[at * 4]));
            let mysql = (0..servers).map(|at| (at as u32 + 1, ports[at * 4 + 1]));
            Network::start(&failover.collect::<Vec<_>>(), &mysql.collect::<Vec<_>>())
        });
        let front = |at: usize| {
            let network = network.as_ref();
            port(network.map_or(ports[at], |network| network.front(ports[at])))
        };
        let member = |at: usize| {
            let failover = front(at * 4);
            let id = at + 1;
            if at < servers {
                format!("{id}=127.0.0.1:{failover}/{}", front(at * 4 + 1))
            } else {
                format!("{id}=127.0.0.1:{failover}")
            }
        };
        let members = (0..3).map(member).collect::<Vec<_>>().join(",");
        let witness_address = ports[8].to_string();
        let witness = (servers == 2).then(|| {
            Witness::start(&[
                "--listen",
                &witness_address,
                "--members",
                &members,
                "--id",
                "3",
                "--secret-file",
                secret.to_str().unwrap(),
            ])
        });
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
            servers: (1..=servers).map(server).collect(),
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

    /// The witness.
    pub fn witness(&mut self) -> &mut Witness {
        self.witness.as_mut().expect("the group has a witness")
    }

    /// Numbers of the servers.
    fn numbers(&self) -> std::ops::Range<usize> {
        0..self.servers.len()
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
        let states: Vec<String> = self.numbers().map(state).collect();
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
        self.wait("an election", || self.numbers().find(|s| self.leads(*s)))
    }

    /// Waits until this server leads.
    pub fn wait_leads(&self, server: usize) {
        self.wait("the takeover", || self.leads(server).then_some(()));
    }

    /// Waits until all servers have everything that was acknowledged.
    pub fn wait_in_sync(&self) {
        let all: Vec<String> = self.numbers().map(|at| (at + 1).to_string()).collect();
        self.wait_until_in_sync(&all.join(","));
    }

    /// Waits until the leader reports these members as having everything that was acknowledged.
    pub fn wait_until_in_sync(&self, members: &str) {
        self.wait(&format!("members {members} in sync"), || {
            let leader = self.numbers().find(|s| self.leads(*s))?;
            (self.status(leader, "members_in_sync") == members).then_some(())
        });
    }

    /// Waits until all servers have the same transactions, and compares their tables, values of CAS included.
    pub fn compare(&self) {
        self.wait_in_sync();
        let executed = |server: usize| {
            self.servers[server]
                .sql("SELECT @@GLOBAL.gtid_executed")
                .stdout
        };
        self.wait("the same transactions", || {
            let first = executed(0);
            self.numbers().all(|s| executed(s) == first).then_some(())
        });
        for query in [
            "SELECT * FROM d.t ORDER BY id",
            "SELECT * FROM d.cached ORDER BY k",
            "SELECT User, Host FROM mysql.user ORDER BY User",
        ] {
            let first = good(&self.servers[0], query);
            for server in &self.servers[1..] {
                let rows = good(server, query);
                assert_eq!(rows.len(), first.len(), "{query}");
                assert_eq!(rows, first, "{query}");
            }
        }
        let keys = good(
            &self.servers[0],
            "SELECT k FROM d.cached ORDER BY k LIMIT 100",
        );
        let request: String = keys.iter().map(|key| format!("gets c:{key}\r\n")).collect();
        let first = self.servers[0].memcached(&request);
        assert_eq!(first.matches("VALUE").count(), keys.len());
        for server in &self.servers[1..] {
            assert_eq!(server.memcached(&request), first);
        }
    }
}
