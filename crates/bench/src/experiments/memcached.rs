//! Item sets and operations of `bench memcached`: items in a cache, in Porpoise's default
//! table, in a mapped table with one value column and in one with four.
//!
//! 1. Items 0 to `rows` - 1 exist from the start and are never deleted; reads and sets
//!    choose from them. There are as many further items for counters.
//! 2. Deletes use other items in order, each once; they are stored
//!    before each run.
//! 3. Every value read is verified ([`crate::value`]). Four columns share the
//!    value's bytes; this module inserts and removes the TABs between them, so
//!    that all systems store the same bytes except these.

use crate::connect::{Access, Admin, Endpoint};
use crate::error::{Error, Result};
use crate::load::{Worker, Workload};
use crate::proto::dialects::Dialect;
use crate::proto::{Answer, Call, Verb};
use crate::sys::SharedCounter;
use crate::url::{System, Target};
use crate::value;
use std::sync::atomic::Ordering;

/// Items in a call while filling.
const BATCH: u64 = 100;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An item read.
    Get,
    /// An item overwritten.
    Set,
    /// A number counted up.
    Incr,
    /// An item deleted.
    Delete,
    /// This number of items read by one request.
    Many(usize),
}

impl Operation {
    /// Name in reports.
    pub fn name(self) -> String {
        match self {
            Operation::Get => "get".to_owned(),
            Operation::Set => "set".to_owned(),
            Operation::Incr => "incr".to_owned(),
            Operation::Delete => "delete".to_owned(),
            Operation::Many(keys) => format!("get of {keys} keys"),
        }
    }

    /// Parses a list like `get,mget`; `mget` stands for several numbers of
    /// keys.
    ///
    /// # Errors
    /// A usage error.
    pub fn parse_list(text: &str) -> Result<Vec<Operation>> {
        let mut found = Vec::new();
        for word in text.split(',') {
            match word.trim().to_ascii_lowercase().as_str() {
                "get" | "select" => found.push(Operation::Get),
                "set" | "update" => found.push(Operation::Set),
                "incr" => found.push(Operation::Incr),
                "delete" => found.push(Operation::Delete),
                "mget" => found.extend(MANY),
                _ => {
                    return Err(Error::usage(format!(
                        "operation {word:?}: there are get, set, incr, delete and mget"
                    )));
                }
            }
        }
        Ok(found)
    }
}

/// Numbers of keys of a multi-get.
pub const MANY: [Operation; 4] = [
    Operation::Many(2),
    Operation::Many(10),
    Operation::Many(50),
    Operation::Many(200),
];

/// Storage of the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A cache without tables.
    Items,
    /// Porpoise's table of keys of no prefix.
    Default,
    /// A table with this number of value columns.
    Mapped(usize),
}

/// Filled items in one system.
#[derive(Debug)]
pub struct ItemSet {
    /// Name in reports.
    pub name: String,
    /// The system.
    pub target: Target,
    /// Layout of the items.
    pub layout: Layout,
    /// Items that are always there, and as many counters.
    pub rows: u64,
    prefix: String,
    counters: String,
    /// Items put there to be deleted, and how many were taken for that.
    added: SharedCounter,
    deleted: SharedCounter,
    version: SharedCounter,
    /// By dialect, then apart or not.
    endpoints: Vec<Endpoint>,
}

impl ItemSet {
    /// Creates tables, maps them in Porpoise, and stores the items.
    ///
    /// # Errors
    /// The system failed or refused.
    pub fn fill(target: &Target, layout: Layout, rows: u64) -> Result<ItemSet> {
        let (suffix, word) = match layout {
            Layout::Items => ("", "i".to_owned()),
            Layout::Default => (" default table", "i".to_owned()),
            Layout::Mapped(1) => (" one column", "m1".to_owned()),
            Layout::Mapped(n) => (" four columns", format!("m{n}")),
        };
        let mut endpoints = Vec::new();
        for dialect in Dialect::ALL {
            for apart in [false, true] {
                endpoints.push(Endpoint {
                    target: target.clone(),
                    access: Access::Dialect(*dialect, apart),
                });
            }
        }
        let item_set = ItemSet {
            name: format!("{}{suffix}", target.name),
            target: target.clone(),
            layout,
            rows,
            prefix: format!("{}{word}:", target.prefix),
            counters: format!("{}{word}n:", target.prefix),
            added: SharedCounter::new(0),
            deleted: SharedCounter::new(0),
            version: SharedCounter::new(1),
            endpoints,
        };
        if let Layout::Mapped(columns) = layout {
            item_set.make_tables(columns)?;
        }
        item_set.store(0..rows, Some)?;
        if item_set.counts() {
            item_set.store(0..rows, |_| None)?;
        }
        Ok(item_set)
    }

    /// The endpoint for a dialect.
    pub fn endpoint(&self, dialect: Dialect, apart: bool) -> Option<&Endpoint> {
        let wanted = Access::Dialect(dialect, apart);
        self.endpoints.iter().find(|e| e.access == wanted)
    }

    /// Whether it has counters: `incr` is not defined on several columns.
    pub fn counts(&self) -> bool {
        !matches!(self.layout, Layout::Mapped(2..))
    }

    fn make_tables(&self, columns: usize) -> Result<()> {
        let mut admin = Admin::connect(&self.target)?;
        let names: Vec<String> = (0..columns).map(|n| format!("v{n}")).collect();
        let defined: Vec<String> = names.iter().map(|n| format!("{n} varchar(255)")).collect();
        let items = format!("cache_{columns}");
        let mut tables = vec![(items, &self.prefix, defined.join(", "), names.join(","))];
        if self.counts() {
            let counters = format!("cache_counters_{columns}");
            let defined = "n bigint unsigned".to_owned();
            tables.push((counters, &self.counters, defined, "n".to_owned()));
        }
        let database = self.target.database.replace('\'', "''");
        for (table, prefix, defined, names) in tables {
            for statement in [
                format!("drop table if exists {table}"),
                format!("create table {table} (id int not null primary key, {defined})"),
                format!("delete from ndbmemcache.key_prefixes where key_prefix = '{prefix}'"),
                format!("delete from ndbmemcache.containers where name = 'bench_{table}'"),
                format!(
                    "insert into ndbmemcache.containers (name, db_schema, db_table, key_columns, \
                     value_columns) values ('bench_{table}', '{database}', '{table}', 'id', \
                     '{names}')"
                ),
                format!(
                    "insert into ndbmemcache.key_prefixes (server_role_id, key_prefix, cluster_id, \
                     policy, container) values (0, '{prefix}', 0, 'ndb-only', 'bench_{table}')"
                ),
            ] {
                admin.run(&statement)?;
            }
        }
        Ok(())
    }

    /// Stores numbered items with the keys that `key` returns, or counters
    /// if it returns none.
    fn store(&self, numbers: std::ops::Range<u64>, key: fn(u64) -> Option<u64>) -> Result<()> {
        let Some(endpoint) = self.endpoint(Dialect::Ascii, true) else {
            return Ok(());
        };
        let mut connection = endpoint.connect(&[])?;
        let (mut call, mut answer) = (Call::default(), Answer::default());
        let mut next = numbers.start;
        while next < numbers.end {
            if crate::sys::is_interrupted() {
                return Err(Error::failed(crate::load::INTERRUPTED));
            }
            let end = numbers.end.min(next + BATCH);
            call.begin(Verb::Set);
            for n in next..end {
                match key(n) {
                    Some(key) => {
                        put_key(&mut call, &self.prefix, key);
                        self.put_value(&mut call, key);
                    }
                    None => {
                        put_key(&mut call, &self.counters, n);
                        call.bytes(b"0");
                    }
                }
            }
            connection.must(&call, &mut answer)?;
            if answer.affected != end - next {
                return Err(Error::failed(format!(
                    "{} of {} items were stored",
                    answer.affected,
                    end - next
                )));
            }
            next = end;
        }
        Ok(())
    }

    fn put_value(&self, call: &mut Call, key: u64) {
        let version = self.version.fetch_add(1, Ordering::Relaxed);
        let columns = self.columns();
        call.bytes_by(|out| {
            let start = out.len();
            value::append(out, key, version, value::USUAL);
            // From the last one on, so that earlier positions stay valid.
            for n in (1..columns).rev() {
                out.insert(start + n * value::USUAL / columns, b'\t');
            }
        });
    }

    fn columns(&self) -> usize {
        match self.layout {
            Layout::Mapped(columns) => columns,
            Layout::Items | Layout::Default => 1,
        }
    }

    /// Whether a value is a whole one of this key.
    fn is_value(&self, value: &[u8], key: u64, scratch: &mut Vec<u8>) -> bool {
        if self.columns() == 1 {
            return value::read(value, key, value::USUAL).is_some();
        }
        scratch.clear();
        scratch.extend(value.iter().filter(|b| **b != b'\t'));
        value.len() + 1 == scratch.len() + self.columns()
            && value::read(scratch, key, value::USUAL).is_some()
    }

    /// Ensures that this many items can be deleted.
    ///
    /// # Errors
    /// The system failed or refused.
    pub fn top_up(&self, wanted: u64) -> Result<()> {
        let added = self.added.load(Ordering::Relaxed);
        let deleted = self.deleted.load(Ordering::Relaxed).min(added);
        self.deleted.store(deleted, Ordering::Relaxed);
        let to = deleted + wanted;
        if added < to {
            self.store(added..to, |n| Some(value::inserted_key(n)))?;
            self.added.store(to, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn put_key(call: &mut Call, prefix: &str, key: u64) {
    super::store::put_key(call, prefix, key);
}

/// The ways to keep items in a system; none where it does not speak the protocol.
pub fn layouts(system: System) -> &'static [Layout] {
    match system {
        System::Porpoise => &[Layout::Default, Layout::Mapped(1), Layout::Mapped(4)],
        System::Memcached => &[Layout::Items],
        System::Mysql | System::Postgres | System::Noop => &[],
    }
}

/// One operation on a set of items, with a number of them in each write.
pub struct Commands<'a> {
    item_set: &'a ItemSet,
    operation: Operation,
    depth: usize,
    seed: u64,
}

impl<'a> Commands<'a> {
    /// `seed` and the operation determine the keys.
    pub fn new(
        item_set: &'a ItemSet,
        operation: Operation,
        depth: usize,
        seed: u64,
    ) -> Commands<'a> {
        Commands {
            item_set,
            operation,
            depth,
            seed,
        }
    }
}

impl Workload for Commands<'_> {
    fn statements(&self) -> Vec<String> {
        Vec::new()
    }

    fn worker(&self, connection: usize) -> Box<dyn Worker + '_> {
        Box::new(Commander {
            of: self,
            random: fastrand::Rng::with_seed(value::mix(self.seed ^ value::mix(connection as u64))),
            keys: Vec::new(),
            scratch: Vec::new(),
        })
    }
}

struct Commander<'a> {
    of: &'a Commands<'a>,
    random: fastrand::Rng,
    /// Keys of the outstanding call, in order.
    keys: Vec<u64>,
    scratch: Vec<u8>,
}

impl Worker for Commander<'_> {
    fn next(&mut self, call: &mut Call) -> bool {
        let item_set = self.of.item_set;
        let (verb, count) = match self.of.operation {
            Operation::Get => (Verb::Get, self.of.depth),
            Operation::Many(keys) => (Verb::Get, keys),
            Operation::Set => (Verb::Set, self.of.depth),
            Operation::Incr => (Verb::Incr, self.of.depth),
            Operation::Delete => (Verb::Delete, self.of.depth),
        };
        call.begin(verb);
        self.keys.clear();
        let taken = match verb {
            Verb::Delete => item_set.deleted.fetch_add(count as u64, Ordering::Relaxed),
            _ => 0,
        };
        if verb == Verb::Delete && taken + count as u64 > item_set.added.load(Ordering::Relaxed) {
            return false;
        }
        for n in 0..count as u64 {
            let key = match verb {
                Verb::Delete => value::inserted_key(taken + n),
                _ => self.random.u64(0..item_set.rows.max(1)),
            };
            self.keys.push(key);
            match verb {
                Verb::Incr => put_key(call, &item_set.counters, key),
                _ => put_key(call, &item_set.prefix, key),
            }
            if verb == Verb::Set {
                item_set.put_value(call, key);
            }
        }
        true
    }

    fn verify(&mut self, answer: &Answer) -> Result<()> {
        let item_set = self.of.item_set;
        let is_read = matches!(self.of.operation, Operation::Get | Operation::Many(_));
        let came = if is_read {
            answer.rows as u64
        } else {
            answer.affected
        };
        if came != self.keys.len() as u64 {
            return Err(Error::wrong(format!(
                "{}: {came} of {} succeeded",
                self.of.operation.name(),
                self.keys.len()
            )));
        }
        if !is_read {
            return Ok(());
        }
        for (n, key) in self.keys.iter().enumerate() {
            let named = answer.cell(n * 2).unwrap_or_default();
            let named = named.strip_prefix(item_set.prefix.as_bytes());
            let is_key = named.is_some_and(|d| itoa::Buffer::new().format(*key).as_bytes() == d);
            let value = answer.cell(n * 2 + 1).unwrap_or_default();
            if !is_key || !item_set.is_value(value, *key, &mut self.scratch) {
                return Err(Error::wrong(format!(
                    "key {key}: {:?}",
                    String::from_utf8_lossy(value)
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item_set(layout: Layout) -> ItemSet {
        ItemSet {
            name: "x".to_owned(),
            target: Target::parse("memcached://127.0.0.1:1").unwrap(),
            layout,
            rows: 10,
            prefix: "i:".to_owned(),
            counters: "n:".to_owned(),
            added: SharedCounter::new(2),
            deleted: SharedCounter::new(0),
            version: SharedCounter::new(1),
            endpoints: Vec::new(),
        }
    }

    #[test]
    fn values_of_four_columns_are_distinguished_from_damaged_ones() {
        let item_set = item_set(Layout::Mapped(4));
        let mut call = Call::default();
        call.begin(Verb::Set);
        item_set.put_value(&mut call, 7);
        let Some(crate::proto::Argument::Bytes(whole)) = call.args().next() else {
            panic!("no value");
        };
        let lengths: Vec<usize> = whole.split(|b| *b == b'\t').map(<[u8]>::len).collect();
        assert_eq!(lengths, [25, 25, 25, 25]);
        let mut scratch = Vec::new();
        assert!(item_set.is_value(whole, 7, &mut scratch));
        assert!(!item_set.is_value(whole, 8, &mut scratch), "another key's");
        let joined: Vec<u8> = whole.iter().copied().filter(|b| *b != b'\t').collect();
        assert!(!item_set.is_value(&joined, 7, &mut scratch), "one column");
    }

    #[test]
    fn a_value_out_of_place_fails_the_run() {
        let item_set = item_set(Layout::Items);
        let commands = Commands::new(&item_set, Operation::Many(2), 1, 3);
        let mut worker = commands.worker(0);
        let mut call = Call::default();
        assert!(worker.next(&mut call));
        let mut pairs = Vec::new();
        for arg in call.args() {
            let crate::proto::Argument::Bytes(key) = arg else {
                panic!("keys are text");
            };
            let number = String::from_utf8_lossy(&key[2..]).parse().unwrap();
            let mut text = Vec::new();
            value::write(&mut text, number, 1, value::USUAL);
            pairs.push((key.to_vec(), text));
        }
        let mut verify = |pairs: &[(Vec<u8>, Vec<u8>)]| {
            let mut answer = Answer::default();
            for (key, text) in pairs {
                answer.rows += 1;
                answer.push(Some(key));
                answer.push(Some(text));
            }
            worker.verify(&answer)
        };
        verify(&pairs).unwrap();
        assert!(verify(&pairs[..1]).is_err(), "one is missing");
        pairs[0].1[40] ^= 1;
        assert!(verify(&pairs).is_err(), "one is broken");
    }

    #[test]
    fn deletes_end_with_what_is_there() {
        let item_set = item_set(Layout::Items);
        let commands = Commands::new(&item_set, Operation::Delete, 1, 3);
        let (mut worker, mut call) = (commands.worker(0), Call::default());
        assert!(worker.next(&mut call) && worker.next(&mut call));
        assert!(!worker.next(&mut call));
    }
}
