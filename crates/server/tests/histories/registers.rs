//! Registers: rows of one number that all four interfaces read, write and swap, one call at a time.
//! memcached, native and REST clients swap by the row's version, which is the same number for all of them.
//! Every call happened at some moment between its sending and its answer.

use crate::rows::{Native, Rest, Updated};
use crate::support::{Cache, Random, Sql, map_prefix, server};
use porpoise_native_client::{Value, ValueRef};
use porpoise_sim::history::register::{Access, Call, linearizable};
use porpoise_testkit::Porpoise;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

const REGISTERS: u64 = 3;
const CALLS: usize = 300;

struct Run {
    server: Porpoise,
    time: AtomicU64,
    values: AtomicU64,
}

impl Run {
    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::SeqCst)
    }

    fn client(&self, seed: u64, mut call: impl FnMut(u64, u64) -> Access) -> Vec<(u64, Call)> {
        let mut rng = Random::new(seed);
        let one = |_| {
            let (register, what) = (rng.below(REGISTERS), rng.below(4));
            let began = self.now();
            let access = call(register, what);
            let ended = self.now();
            let call = Call {
                began,
                ended,
                access,
            };
            (register, call)
        };
        (0..CALLS).map(one).collect()
    }

    fn by_sql(&self, seed: u64) -> Vec<(u64, Call)> {
        let mut sql = Sql::connect(self.server.mysql_addr);
        let mut known = BTreeMap::new();
        self.client(seed, |register, what| {
            let at = format!("WHERE id = {register}");
            match what {
                0 => {
                    let value = self.value();
                    sql.run(&format!("UPDATE h.r SET v = {value} {at}"));
                    Access::Write(value)
                }
                1 if known.contains_key(&register) => {
                    let (from, to) = (known[&register], self.value());
                    let swap = format!("UPDATE h.r SET v = {to} {at} AND v = {from}");
                    match sql.run(&swap).affected {
                        0 => Access::SwapFailed(from),
                        _ => Access::Swapped(from, to),
                    }
                }
                what => {
                    let locks = if what == 3 { "FOR SHARE" } else { "" };
                    let value = sql.number(&format!("SELECT v FROM h.r {at} {locks}"));
                    let value = u64::try_from(value).unwrap();
                    known.insert(register, value);
                    Access::Read(value)
                }
            }
        })
    }

    fn by_memcached(&self, seed: u64) -> Vec<(u64, Call)> {
        let mut cache = Cache::connect(self.server.memcached_addr);
        let mut known = BTreeMap::new();
        self.client(seed, |register, what| match what {
            0 => {
                let value = self.value();
                let reply = cache.set(&format!("r:{register}"), &value.to_string());
                assert_eq!(reply, "STORED");
                Access::Write(value)
            }
            1 if known.contains_key(&register) => {
                let ((from, version), to) = (known[&register], self.value().to_string());
                let length = to.len();
                let request = format!("cas r:{register} 0 0 {length} {version}\r\n{to}\r\n");
                match cache.run(&request).as_str() {
                    "STORED" => Access::Swapped(from, to.parse().unwrap()),
                    "EXISTS" => Access::SwapFailed(from),
                    other => panic!("{other}"),
                }
            }
            _ => {
                let item = cache.gets(&[format!("r:{register}")]).remove(0);
                let value = std::str::from_utf8(&item.data).unwrap().parse().unwrap();
                known.insert(register, (value, item.cas.unwrap()));
                Access::Read(value)
            }
        })
    }
}

/// The access of a swap. The server retries conflicts.
fn swap(from: u64, to: u64, updated: Updated) -> Access {
    match updated {
        Updated::Yes => Access::Swapped(from, to),
        Updated::No => Access::SwapFailed(from),
        Updated::Conflict => panic!("a conflict of one statement"),
    }
}

impl Run {
    fn by_native(&self, seed: u64) -> Vec<(u64, Call)> {
        let mut native = Native::connect(&self.server, "r");
        let mut known = BTreeMap::new();
        let stored = |value: u64| ValueRef::Int(value.try_into().unwrap());
        self.client(seed, |register, what| match what {
            0 => {
                let value = self.value();
                assert_eq!(native.update(register, stored(value)), Updated::Yes);
                Access::Write(value)
            }
            1 if known.contains_key(&register) => {
                let ((version, from), to) = (known[&register], self.value());
                let updated = native.swap(&[(register, version, stored(to))]);
                swap(from, to, updated)
            }
            _ => {
                let (version, value) = native.read(&[register]).unwrap().remove(0);
                let Value::Int(value) = value else {
                    panic!("{value:?}");
                };
                let value = u64::try_from(value).unwrap();
                known.insert(register, (version, value));
                Access::Read(value)
            }
        })
    }

    fn by_rest(&self, seed: u64) -> Vec<(u64, Call)> {
        let rest = Rest::new(&self.server, "r");
        let mut known = BTreeMap::new();
        self.client(seed, |register, what| match what {
            0 => {
                let value = self.value();
                let updated = rest.patch(register, None, &value.to_string());
                assert_eq!(updated, Updated::Yes);
                Access::Write(value)
            }
            1 if known.contains_key(&register) => {
                let ((version, from), to) = (known[&register], self.value());
                let updated = rest.patch(register, Some(version), &to.to_string());
                swap(from, to, updated)
            }
            _ => {
                let (version, value) = rest.read(register);
                let value = value.parse().unwrap();
                known.insert(register, (version, value));
                Access::Read(value)
            }
        })
    }
}

#[test]
fn calls_on_a_row_by_all_interfaces_have_one_order() {
    let server = server()
        .arg("--native-listen", "127.0.0.1:0")
        .arg("--rest-listen", "127.0.0.1:0")
        .start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("CREATE DATABASE h; USE h; CREATE TABLE r (id INT PRIMARY KEY, v BIGINT NOT NULL)");
    map_prefix(&mut sql, "r:", ("h", "r"), ("id", "v"));
    for register in 0..REGISTERS {
        sql.run(&format!("INSERT INTO r VALUES ({register}, 0)"));
    }
    let run = Run {
        server,
        time: AtomicU64::new(1),
        values: AtomicU64::new(1),
    };
    let run = &run;
    let all: Vec<(u64, Call)> = std::thread::scope(|scope| {
        let by_sql = (0..2).map(|n| scope.spawn(move || run.by_sql(n)));
        let by_memcached = (3..5).map(|n| scope.spawn(move || run.by_memcached(n)));
        let by_native = (6..8).map(|n| scope.spawn(move || run.by_native(n)));
        let by_rest = scope.spawn(move || run.by_rest(9));
        let clients = by_sql.chain(by_memcached).chain(by_native);
        let clients: Vec<_> = clients.chain([by_rest]).collect();
        let calls = clients
            .into_iter()
            .flat_map(|client| client.join().unwrap());
        calls.collect()
    });
    let swapped = |(_, call): &&(u64, Call)| matches!(call.access, Access::Swapped(..));
    let swaps = all.iter().filter(swapped).count();
    let missed = |(_, call): &&(u64, Call)| matches!(call.access, Access::SwapFailed(_));
    let misses = all.iter().filter(missed).count();
    assert!(swaps > 10 && misses > 10, "{swaps} swaps, {misses} misses");
    for register in 0..REGISTERS {
        let here = all.iter().filter(|(r, _)| *r == register);
        let mut calls: Vec<Call> = here.map(|(_, call)| *call).collect();
        linearizable(&calls, 0).unwrap_or_else(|why| panic!("register {register}: {why}"));
        // A value from before the last write that was over by then.
        let last = calls.iter().map(|call| call.ended).max().unwrap();
        let stale = Call {
            began: last + 1,
            ended: last + 2,
            access: Access::Read(0),
        };
        calls.push(stale);
        assert!(linearizable(&calls, 0).is_err(), "a planted stale read");
    }
}
