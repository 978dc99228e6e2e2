//! `bench mget`: latency of one request over its number of keys, by
//! memcached's multi-get and by an IN list.

use super::kv_runs::{FilledStore, filled_stores};
use super::store::{Store, put_key};
use super::{Bench, usual_pairs};
use crate::connect::Access;
use crate::error::{Error, Result};
use crate::load::{Shape, Worker, Workload};
use crate::matrix::{Entry, Group};
use crate::proto::{Answer, Call, Verb};
use crate::report::Experiment;
use crate::url::System;
use crate::value;

/// Rows of the table unless chosen otherwise.
const ROWS: u64 = 160_000;

const USUAL: &[usize] = &[1, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 200];
const QUICK: &[usize] = &[1, 10, 25, 50];

/// Reads this number of keys in one request.
pub(super) struct Many<'a> {
    pub(super) store: &'a Store,
    pub(super) access: Access,
    pub(super) keys: usize,
    pub(super) seed: u64,
    /// Whether the listener replies without storing anything.
    pub(super) is_noop: bool,
}

impl Workload for Many<'_> {
    fn statements(&self) -> Vec<String> {
        match self.access {
            Access::Memcached => Vec::new(),
            _ => vec![self.store.select_in(self.keys)],
        }
    }

    fn worker(&self, connection: usize) -> Box<dyn Worker + '_> {
        Box::new(Reader {
            of: self,
            random: fastrand::Rng::with_seed(value::mix(self.seed ^ value::mix(connection as u64))),
            keys: Vec::with_capacity(self.keys),
            stride: 1,
            start: 0,
            is_seen: Vec::with_capacity(self.keys),
        })
    }
}

struct Reader<'a> {
    of: &'a Many<'a>,
    random: fastrand::Rng,
    /// Keys of the outstanding request, distinct.
    keys: Vec<u64>,
    /// The keys are `start`, `start + stride`, ...
    stride: u64,
    start: u64,
    /// Whether each of them was in the reply.
    is_seen: Vec<bool>,
}

impl Reader<'_> {
    /// Whether a key was requested and has not been answered yet.
    fn is_new(&mut self, key: u64) -> bool {
        let Some(beyond) = key.checked_sub(self.start) else {
            return false;
        };
        let index = usize::try_from(beyond / self.stride).unwrap_or(usize::MAX);
        match self.is_seen.get_mut(index) {
            Some(seen) if beyond.is_multiple_of(self.stride) => !std::mem::replace(seen, true),
            _ => false,
        }
    }
}

impl Worker for Reader<'_> {
    fn next(&mut self, call: &mut Call) -> bool {
        let rows = self.of.store.rows;
        self.keys.clear();
        // Distinct keys, spread evenly over the table.
        let stride = (rows / self.of.keys as u64).max(1);
        let start = self.random.u64(0..stride);
        (self.stride, self.start) = (stride, start);
        for n in 0..self.of.keys as u64 {
            self.keys.push(n * stride + start);
        }
        self.random.shuffle(&mut self.keys);
        if self.of.access == Access::Memcached {
            call.begin(Verb::Get);
            for key in &self.keys {
                put_key(call, &self.of.store.prefix, *key);
            }
        } else {
            call.begin(Verb::Statement(0));
            for key in &self.keys {
                call.int(i64::try_from(*key).unwrap_or(i64::MAX));
            }
        }
        true
    }

    fn verify(&mut self, answer: &Answer) -> Result<()> {
        if self.of.is_noop {
            return Ok(());
        }
        if answer.rows != self.keys.len() {
            return Err(Error::wrong(format!(
                "{} of {} keys were found",
                answer.rows,
                self.keys.len()
            )));
        }
        // Every row is the value of a requested key, none is duplicated, and there are as many as keys.
        self.is_seen.clear();
        self.is_seen.resize(self.keys.len(), false);
        let prefix = self.of.store.prefix.len();
        for row in 0..answer.rows {
            let named = answer.cell(row * 2).unwrap_or_default();
            let digits = match self.of.access {
                Access::Memcached => named.get(prefix..).unwrap_or_default(),
                _ => named,
            };
            let key = std::str::from_utf8(digits)
                .ok()
                .and_then(|d| d.parse().ok());
            let value = answer.cell(row * 2 + 1).unwrap_or_default();
            let is_right = key.is_some_and(|key| {
                value::read(value, key, self.of.store.length).is_some() && self.is_new(key)
            });
            if !is_right {
                return Err(Error::wrong(format!(
                    "row {row}: {:?} was not requested, was returned twice or has the value of another row",
                    String::from_utf8_lossy(named)
                )));
            }
        }
        Ok(())
    }
}

/// Every protocol to every filled store, at this number of keys.
fn group(filled_stores: &[FilledStore], clients: usize, keys: usize, seed: u64) -> Group<'_> {
    let mut entries = Vec::new();
    for filled in filled_stores {
        for route in &filled.routes {
            entries.push(Entry {
                system: &route.name,
                endpoint: &route.endpoint,
                workload: Box::new(Many {
                    store: &filled.store,
                    access: route.endpoint.access,
                    keys,
                    seed,
                    is_noop: filled.target.system == System::Noop,
                }),
                before: None,
            });
        }
    }
    Group {
        operation: match clients {
            1 => "one request".to_owned(),
            n => format!("one request, {n} clients"),
        },
        size: keys as u64,
        connections: clients,
        shape: Shape::ThreadEach,
        units: keys as u64,
        entries,
    }
}

/// `bench mget`.
///
/// # Errors
/// A wrong answer, or no system could be prepared.
pub fn mget(bench: &mut Bench) -> Result<()> {
    bench.progress.begin("mget: many keys in one request");
    let rows = bench.rows(ROWS);
    let mut notes = Vec::new();
    let filled_stores = filled_stores(bench, rows, false, &mut notes);
    if filled_stores.is_empty() {
        return Err(super::no_system(
            "mget: no system could be prepared",
            &notes,
        ));
    }
    let chosen = bench.options.keys.clone();
    let sizes = match (chosen.is_empty(), bench.options.is_quick) {
        (false, _) => &chosen,
        (true, true) => QUICK,
        (true, false) => USUAL,
    };
    let mut groups = Vec::new();
    for clients in bench.clients(&[1]) {
        // A smaller table does not have this number of different keys.
        for keys in sizes.iter().filter(|keys| **keys as u64 <= rows) {
            groups.push(group(&filled_stores, clients, *keys, bench.options.seed));
        }
    }
    let routes = super::kv_runs::all_routes(&filled_stores);
    let mut pairs = usual_pairs(&routes);
    // Our multi-get compared with our IN list.
    for route in &routes {
        let target = &route.endpoint.target;
        if target.system == System::Porpoise && route.endpoint.access == Access::Memcached {
            pairs.push((route.name.clone(), format!("{} prepared", target.name)));
        }
    }
    let experiment = Experiment {
        is_about_latency: true,
        pairs,
        notes,
        ..Experiment::new(
            "mget",
            "Many keys in one request",
            format!(
                "Latency of one request over its number of keys, spread evenly over {rows} rows from a random \
                 start and shuffled: get by memcached's protocol, SELECT id, value ... WHERE id IN (...) \
                 by SQL. Every value is \
                 verified."
            ),
            "keys",
        )
        .on_linear_axis()
    };
    bench.run(experiment, &groups, bench.options.effort)
}

#[cfg(test)]
mod tests {
    use super::super::store::Layout;
    use super::*;
    use crate::sys::SharedCounter;

    #[test]
    fn an_answer_must_hold_each_key_once() {
        let store = Store {
            layout: Layout::Items,
            rows: 100,
            length: 40,
            prefix: "kv:".to_owned(),
            inserted: SharedCounter::new(0),
            deleted: SharedCounter::new(0),
            confirmed: SharedCounter::new(0),
            version: SharedCounter::new(0),
        };
        let many = Many {
            store: &store,
            access: Access::Memcached,
            keys: 3,
            seed: 1,
            is_noop: false,
        };
        let mut worker = many.worker(0);
        let mut call = Call::default();
        assert!(worker.next(&mut call));
        let keys: Vec<u64> = call
            .args()
            .map(|arg| match arg {
                crate::proto::Argument::Bytes(key) => {
                    String::from_utf8_lossy(&key[3..]).parse().unwrap()
                }
                crate::proto::Argument::Int(_) => panic!("a key is text"),
            })
            .collect();
        let mut verify = |keys: &[u64]| {
            let (mut answer, mut text) = (Answer::default(), Vec::new());
            for key in keys {
                value::write(&mut text, *key, 7, 40);
                answer.rows += 1;
                answer.push(Some(format!("kv:{key}").as_bytes()));
                answer.push(Some(&text));
            }
            worker.verify(&answer)
        };
        verify(&[keys[2], keys[0], keys[1]]).unwrap();
        verify(&keys).unwrap();
        assert!(verify(&keys[..2]).is_err(), "one is missing");
        assert!(verify(&[keys[0], keys[1], keys[1]]).is_err(), "one twice");
        assert!(verify(&[keys[0], keys[1], keys[2] + 1]).is_err(), "another");
    }
}
