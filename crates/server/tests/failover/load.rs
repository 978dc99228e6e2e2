//! Clients that write over SQL and memcached to the server that takes writes, and remember the acknowledged writes.

use porpoise_client::mysql::{Connection, Target};
use porpoise_client::{Address, TlsMode, TlsOptions};
use porpoise_testkit::Porpoise;
use porpoise_wire::mysql::client::login::Credentials;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest wait for a connection or a reply.
const PATIENCE: Duration = Duration::from_secs(3);

/// Pause between two commits of a writer: a server that has come back must be able to catch up.
const PAUSE: Duration = Duration::from_millis(5);

/// Writers of each protocol.
const WRITERS: u64 = 2;

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    sql: Mutex<BTreeSet<u64>>,
    memcached: Mutex<BTreeSet<String>>,
    counts: [AtomicU64; 2],
}

/// A running load.
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts writers to these servers. `round` makes their keys different from those of other loads.
    pub fn start(servers: &[Porpoise], round: u64) -> Load {
        let shared = Arc::<Shared>::default();
        let mysql: Vec<SocketAddr> = servers.iter().map(|server| server.mysql_addr).collect();
        let memcached: Vec<SocketAddr> = servers.iter().map(|s| s.memcached_addr).collect();
        let mut threads = Vec::new();
        for writer in 0..WRITERS {
            let first = (round * WRITERS + writer) * 1_000_000;
            let (own, addresses) = (shared.clone(), mysql.clone());
            threads.push(std::thread::spawn(move || {
                write_sql(&own, &addresses, first)
            }));
            let (own, addresses) = (shared.clone(), memcached.clone());
            threads.push(std::thread::spawn(move || {
                write_memcached(&own, &addresses, &format!("{round}-{writer}"));
            }));
        }
        Load { shared, threads }
    }

    /// Numbers of commits acknowledged over SQL and memcached.
    pub fn counts(&self) -> [u64; 2] {
        [0, 1].map(|n| self.shared.counts[n].load(Ordering::SeqCst))
    }

    /// Whether this many more commits were acknowledged over both protocols.
    pub fn has_gone_on(&self, before: [u64; 2], commits: u64) -> bool {
        let now = self.counts();
        now.iter()
            .zip(before)
            .all(|(now, before)| *now >= before + commits)
    }

    /// Ends the writers. Returns what was acknowledged: ids of `d.t`, and keys.
    pub fn stop(self) -> Acknowledged {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
        Acknowledged {
            ids: std::mem::take(&mut self.shared.sql.lock().unwrap()),
            keys: std::mem::take(&mut self.shared.memcached.lock().unwrap()),
        }
    }
}

/// The acknowledged writes.
pub struct Acknowledged {
    ids: BTreeSet<u64>,
    keys: BTreeSet<String>,
}

impl Acknowledged {
    /// Fails if a server lacks something of it.
    pub fn check(&self, server: &Porpoise) {
        let found: BTreeSet<u64> = crate::group::good(server, "SELECT id FROM d.t")
            .iter()
            .map(|id| id.parse().unwrap())
            .collect();
        let lost: Vec<&u64> = self.ids.difference(&found).collect();
        assert!(lost.is_empty(), "acknowledged over SQL and lost: {lost:?}");
        let found: BTreeSet<String> = crate::group::good(server, "SELECT k FROM d.cached")
            .into_iter()
            .collect();
        let lost: Vec<&String> = self.keys.difference(&found).collect();
        assert!(
            lost.is_empty(),
            "acknowledged over memcached and lost: {lost:?}"
        );
        println!(
            "{} and {} acknowledged commits are there",
            self.ids.len(),
            self.keys.len()
        );
    }
}

/// Connects to a database as a user without a password.
pub fn connect(address: SocketAddr, user: &str, database: &str) -> Option<Connection> {
    let credentials = Credentials {
        user: user.as_bytes().to_vec(),
        password: Vec::new(),
        database: database.as_bytes().to_vec(),
        attributes: Vec::new(),
    };
    let target = Address::Tcp(address.ip().to_string(), address.port());
    let target = Target {
        connect_timeout: PATIENCE,
        read_timeout: Some(PATIENCE),
        tls: TlsOptions {
            mode: TlsMode::Disabled,
            ..TlsOptions::default()
        },
        ..Target::new(target, credentials)
    };
    Connection::connect(&target).ok()
}

/// Inserts rows; goes to the next server after each failure, of which the outcome is unknown.
fn write_sql(shared: &Shared, servers: &[SocketAddr], first: u64) {
    let (mut at, mut connection) = (0, None);
    for id in first.. {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        if connection.is_none() {
            at = (at + 1) % servers.len();
            connection = connect(servers[at], "root", "d");
        }
        let Some(open) = &mut connection else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        if open
            .execute(&format!("INSERT INTO d.t VALUES ({id}, 1)"))
            .is_ok()
        {
            shared.sql.lock().unwrap().insert(id);
            shared.counts[0].fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(PAUSE);
        } else {
            connection = None;
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn open_memcached(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_nodelay(true).ok()?;
    Some(stream)
}

fn store(stream: &mut TcpStream, key: &str) -> Option<()> {
    let request = format!("set c:{key} 0 0 1\r\n1\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut reply = [0; 8];
    stream.read_exact(&mut reply).ok()?;
    (reply == *b"STORED\r\n").then_some(())
}

/// As [`write_sql`], over memcached.
fn write_memcached(shared: &Shared, servers: &[SocketAddr], prefix: &str) {
    let (mut at, mut connection) = (0, None);
    for n in 0u64.. {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        if connection.is_none() {
            at = (at + 1) % servers.len();
            connection = open_memcached(servers[at]);
        }
        let key = format!("{prefix}-{n}");
        if connection
            .as_mut()
            .and_then(|open| store(open, &key))
            .is_some()
        {
            shared.memcached.lock().unwrap().insert(key);
            shared.counts[1].fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(PAUSE);
        } else {
            connection = None;
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
