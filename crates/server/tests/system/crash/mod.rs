//! Crashes: the server is killed while eight connections write through both protocols, by SIGKILL or
//! by a simulated power failure (unsynced data are dropped, all or part), repeatedly on the same data.
//! After each start every acknowledged write exists, no transaction is partial, indexes, foreign keys
//! and protocols agree with the rows, and no id or version is used twice.

mod keys;
mod orders;
mod transfers;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use porpoise_testkit::Porpoise;

use self::keys::Keys;
use self::orders::Orders;
use self::transfers::Transfers;
use crate::support::{Cache, Failure, Random, Sql, map_prefix, server};

/// All ids and versions in replies of the server, over all rounds.
#[derive(Default)]
pub struct Given {
    ids: Mutex<HashSet<(&'static str, i64)>>,
    versions: Mutex<HashMap<u64, (String, String)>>,
}

impl Given {
    /// Notes an id that a new row got.
    pub fn take(&self, table: &'static str, id: i64) {
        let is_new = self.ids.lock().unwrap().insert((table, id));
        assert!(is_new, "id {id} of {table} was given twice");
    }

    /// Notes the version of a value that was just written.
    pub fn version(&self, version: u64, key: &str, value: &str) {
        let what = (key.to_owned(), value.to_owned());
        let earlier = self.versions.lock().unwrap().insert(version, what.clone());
        assert!(
            earlier.is_none_or(|earlier| earlier == what),
            "version {version} was given twice"
        );
    }
}

/// A client that writes over SQL, and remembers the write that was not answered yet.
trait Writer {
    type Pending: std::fmt::Debug;

    /// Executes one transaction, whose write is pending until it is answered.
    fn step(&mut self, sql: &mut Sql, given: &Given) -> Result<(), Failure>;

    fn pending(&mut self) -> &mut Option<Self::Pending>;

    /// Writes until the connection breaks.
    fn write(&mut self, sql: &mut Sql, given: &Given) {
        loop {
            match self.step(sql, given) {
                Ok(()) => {}
                // The victim of a deadlock was rolled back.
                Err(Failure::Refused(error)) if error.code == 1213 => *self.pending() = None,
                Err(Failure::Refused(error)) => panic!("{:?}: {error:?}", self.pending()),
                Err(Failure::Gone(_)) => return,
            }
        }
    }
}

/// The eight writers, and the replies to them.
struct Writers {
    transfers: Vec<Transfers>,
    orders: Vec<Orders>,
    keys: Vec<Keys>,
    given: Given,
}

impl Writers {
    fn new() -> Writers {
        Writers {
            transfers: (0..2).map(Transfers::new).collect(),
            orders: (0..3).map(Orders::new).collect(),
            keys: vec![
                Keys::of_default_table(1),
                Keys::of_words(2),
                Keys::of_words(3),
            ],
            given: Given::default(),
        }
    }

    /// Runs all writers until the server has ended; `crash` ends it.
    fn write(&mut self, server: &mut Porpoise, crash: impl FnOnce(&mut Porpoise)) {
        let (mysql, memcached) = (server.mysql_addr, server.memcached_addr);
        let given = &self.given;
        std::thread::scope(|scope| {
            for writer in &mut self.transfers {
                let mut sql = connect(mysql);
                scope.spawn(move || writer.write(&mut sql, given));
            }
            for writer in &mut self.orders {
                let mut sql = connect(mysql);
                scope.spawn(move || writer.write(&mut sql, given));
            }
            for writer in &mut self.keys {
                let mut cache = Cache::connect(memcached);
                scope.spawn(move || writer.write(&mut cache, given));
            }
            crash(server);
        });
    }

    fn check(&mut self, server: &Porpoise) {
        let mut sql = connect(server.mysql_addr);
        let mut cache = Cache::connect(server.memcached_addr);
        let given = &self.given;
        let mut all: Vec<_> = self.transfers.iter_mut().collect();
        transfers::check(&mut sql, &mut all, given);
        let mut all: Vec<_> = self.orders.iter_mut().collect();
        orders::check(&mut sql, &mut all, given);
        let mut all: Vec<_> = self.keys.iter_mut().collect();
        keys::check(&mut cache, &mut sql, &mut all);
        for table in ["accounts", "transfers", "orders", "items", "words"] {
            let rows = sql.rows(&format!("check table {table}"));
            assert_eq!(rows.last().unwrap().last().unwrap(), "OK", "{rows:?}");
        }
    }

    fn acknowledged(&self) -> u64 {
        let counts = self.transfers.iter().map(|w| w.acknowledged);
        let counts = counts.chain(self.orders.iter().map(|w| w.acknowledged));
        counts.chain(self.keys.iter().map(|w| w.acknowledged)).sum()
    }
}

fn connect(address: std::net::SocketAddr) -> Sql {
    let mut sql = Sql::connect(address);
    sql.run("use crash");
    sql
}

fn prepare(server: &Porpoise) {
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("create database crash");
    sql.run("use crash");
    for text in transfers::tables() {
        sql.run(&text);
    }
    sql.run(
        "create table orders (id int auto_increment primary key, tag varchar(40) not null, \
         items int not null, unique key by_tag (tag))",
    );
    sql.run(
        "create table items (oid int not null, n int not null, note varchar(100) not null, \
         primary key (oid, n), key by_note (note), constraint fk_order foreign key (oid) \
         references orders (id) on delete cascade)",
    );
    sql.run("create table words (id int primary key, value varchar(60), key by_value (value))");
    map_prefix(&mut sql, "w:", ("crash", "words"), ("id", "value"));
}

fn start(data: &Path, fault: Option<String>) -> Porpoise {
    let builder = server().data_dir(data).arg("--http-listen", "off");
    match fault {
        None => builder.start(),
        Some(fault) => builder.disk_faults(fault).start(),
    }
}

/// Kills the server a number of times, alternating with as many simulated power failures.
fn rounds(count: u64, seed: u64) {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let mut random = Random::new(seed);
    let mut writers = Writers::new();
    let mut server = start(&data, None);
    prepare(&server);
    assert!(server.terminate().success());
    drop(server);
    for round in 0..count {
        let mut server = start(&data, None);
        writers.check(&server);
        let time = Duration::from_millis(150 + random.below(500));
        writers.write(&mut server, |server| {
            std::thread::sleep(time);
            server.kill9();
        });
        drop(server);
        // Seed 0 keeps nothing that was not synced; others keep part of it.
        let disk_seed = if round == 0 {
            0
        } else {
            1 + random.below(1 << 30)
        };
        let cut_at = 300 + random.below(1500);
        let mut server = start(&data, Some(format!("seed={disk_seed},cut_at={cut_at}")));
        writers.check(&server);
        let before = writers.acknowledged();
        writers.write(&mut server, |server| {
            let status = server.wait_end(Duration::from_secs(60));
            assert!(!status.success(), "the power went off");
        });
        assert!(
            writers.acknowledged() > before,
            "round {round}: nothing was written"
        );
    }
    let mut server = start(&data, None);
    writers.check(&server);
    assert!(server.terminate().success());
    drop(server);
    let server = start(&data, None);
    writers.check(&server);
    println!(
        "{count} kills and {count} power cuts, {} writes acknowledged",
        writers.acknowledged()
    );
}

#[test]
fn nothing_acknowledged_is_lost_in_crashes() {
    rounds(5, 1);
}

#[test]
#[ignore = "20 kills and 20 power cuts"]
fn nothing_acknowledged_is_lost_in_many_crashes() {
    let seed = std::process::id();
    println!("seed {seed}");
    rounds(20, seed.into());
}
