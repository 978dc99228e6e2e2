//! Operations by primary key: each a transaction of its own, keys at random.

use super::store::{Store, put_key};
use crate::connect::Access;
use crate::error::{Error, Result};
use crate::load::{Worker, Workload};
use crate::proto::{Answer, Call, Verb};
use crate::value;
use std::sync::atomic::Ordering;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new row.
    Insert,
    /// Another value for a row.
    Update,
    /// A row's value, which is verified.
    Select,
    /// A deleted row.
    Delete,
    /// A sysbench-like mixture: of 18 operations 14 reads and 4 writes.
    Mix,
}

impl Operation {
    /// Parses a list like `select,update`.
    ///
    /// # Errors
    /// A usage error.
    pub fn parse_list(text: &str) -> Result<Vec<Operation>> {
        text.split(',').map(Operation::parse).collect()
    }

    fn parse(text: &str) -> Result<Operation> {
        match text.trim().to_ascii_lowercase().as_str() {
            "insert" | "add" => Ok(Operation::Insert),
            "update" | "set" => Ok(Operation::Update),
            "select" | "get" => Ok(Operation::Select),
            "delete" => Ok(Operation::Delete),
            "mix" => Ok(Operation::Mix),
            _ => Err(Error::usage(format!(
                "operation {text:?}: there are insert, update, select, delete and mix"
            ))),
        }
    }

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Insert => "INSERT",
            Operation::Update => "UPDATE",
            Operation::Select => "SELECT",
            Operation::Delete => "DELETE",
            Operation::Mix => "mix",
        }
    }
}

/// Numbers of the statements.
const SELECT: usize = 0;
const INSERT: usize = 1;
const UPDATE: usize = 2;
const DELETE: usize = 3;

/// One operation on a store.
#[derive(Debug)]
pub struct KvWorkload<'a> {
    store: &'a Store,
    access: Access,
    operation: Operation,
    seed: u64,
    /// Whether the listener replies without storing anything.
    is_noop: bool,
}

impl<'a> KvWorkload<'a> {
    /// An operation by a listener; `seed` and `stream` determine the keys.
    pub fn new(
        store: &'a Store,
        access: Access,
        operation: Operation,
        seed: u64,
        stream: u64,
    ) -> KvWorkload<'a> {
        KvWorkload {
            store,
            access,
            operation,
            seed: value::mix(seed ^ value::mix(stream)),
            is_noop: false,
        }
    }

    /// For the listener that stores nothing, whose values cannot be verified.
    pub fn of_noop_listener(mut self) -> KvWorkload<'a> {
        self.is_noop = true;
        self
    }
}

impl Workload for KvWorkload<'_> {
    fn statements(&self) -> Vec<String> {
        if self.access == Access::Memcached {
            return Vec::new();
        }
        vec![
            self.store.select(),
            self.store.insert(1),
            self.store.update(),
            self.store.delete(),
        ]
    }

    fn worker(&self, connection: usize) -> Box<dyn Worker + '_> {
        Box::new(KvWorker {
            of: self,
            random: fastrand::Rng::with_seed(self.seed ^ value::mix(connection as u64)),
            operation: self.operation,
            key: 0,
            step: connection,
            mine: None,
        })
    }
}

struct KvWorker<'a> {
    of: &'a KvWorkload<'a>,
    random: fastrand::Rng,
    /// Operation of the outstanding request.
    operation: Operation,
    key: u64,
    step: usize,
    /// The row inserted last within a mixture.
    mine: Option<u64>,
}

impl KvWorker<'_> {
    /// Chooses the next operation and its key. Returns false if none is left.
    fn choose(&mut self) -> bool {
        let store = self.of.store;
        self.operation = self.of.operation;
        if self.operation == Operation::Mix {
            self.step += 1;
            // 14 point reads, 2 updates, an insert and a delete, as sysbench has.
            self.operation = match self.step % 18 {
                4 | 10 => Operation::Update,
                15 => Operation::Insert,
                17 => Operation::Delete,
                _ => Operation::Select,
            };
            return self.choose_mixed();
        }
        match self.operation {
            Operation::Insert => {
                let n = store.inserted.fetch_add(1, Ordering::Relaxed);
                self.key = value::inserted_key(n);
            }
            Operation::Delete => {
                let n = store.deleted.fetch_add(1, Ordering::Relaxed);
                if n >= store.inserted.load(Ordering::Relaxed) {
                    return false;
                }
                self.key = value::inserted_key(n);
            }
            _ => self.key = self.random.u64(0..store.rows.max(1)),
        }
        true
    }

    /// Within a mixture a connection deletes the row that it inserted last, of
    /// keys that nothing else uses.
    fn choose_mixed(&mut self) -> bool {
        const FIRST: u64 = 1 << 29;
        match self.operation {
            Operation::Insert => {
                self.key = FIRST | (self.of.store.next_version() & (FIRST - 1));
            }
            Operation::Delete => match self.mine.take() {
                Some(key) => self.key = key,
                None => self.operation = Operation::Select,
            },
            _ => {}
        }
        if matches!(self.operation, Operation::Select | Operation::Update) {
            self.key = self.random.u64(0..self.of.store.rows.max(1));
        }
        true
    }

    /// Records that the row was inserted, so that it may be deleted.
    fn inserted(&mut self) {
        if self.of.operation == Operation::Mix {
            self.mine = Some(self.key);
        } else {
            self.of.store.confirmed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn item(&self, call: &mut Call) {
        let store = self.of.store;
        let verb = match self.operation {
            Operation::Insert => Verb::Add,
            Operation::Update => Verb::Set,
            Operation::Delete => Verb::Delete,
            Operation::Select | Operation::Mix => Verb::Get,
        };
        call.begin(verb);
        put_key(call, &store.prefix, self.key);
        if matches!(verb, Verb::Add | Verb::Set) {
            let version = store.next_version();
            call.bytes_by(|out| value::append(out, self.key, version, store.length));
        }
    }

    fn statement(&self, call: &mut Call) {
        let store = self.of.store;
        let key = i64::try_from(self.key).unwrap_or(i64::MAX);
        let append = |out: &mut Vec<u8>| {
            value::append(out, self.key, store.next_version(), store.length);
        };
        match self.operation {
            Operation::Select | Operation::Mix => call.begin(Verb::Statement(SELECT)).int(key),
            Operation::Insert => call
                .begin(Verb::Statement(INSERT))
                .int(key)
                .bytes_by(append),
            Operation::Update => call
                .begin(Verb::Statement(UPDATE))
                .bytes_by(append)
                .int(key),
            Operation::Delete => call.begin(Verb::Statement(DELETE)).int(key),
        };
    }
}

impl Worker for KvWorker<'_> {
    fn next(&mut self, call: &mut Call) -> bool {
        if !self.choose() {
            return false;
        }
        if self.of.access == Access::Memcached {
            self.item(call);
        } else {
            self.statement(call);
        }
        true
    }

    fn verify(&mut self, answer: &Answer) -> Result<()> {
        if self.of.is_noop {
            return Ok(());
        }
        if self.operation != Operation::Select {
            if answer.affected == 1 {
                if self.operation == Operation::Insert {
                    self.inserted();
                }
                return Ok(());
            }
            return Err(Error::wrong(format!(
                "{} of key {} changed {} rows",
                self.operation.name(),
                self.key,
                answer.affected
            )));
        }
        // memcached sends the key before the value.
        let place = usize::from(self.of.access == Access::Memcached);
        let found = answer.cell(place);
        let is_right = answer.rows == 1
            && found.is_some_and(|v| value::read(v, self.key, self.of.store.length).is_some());
        if is_right {
            return Ok(());
        }
        let shown = found.map(|v| String::from_utf8_lossy(v.get(..60).unwrap_or(v)).into_owned());
        Err(Error::wrong(format!(
            "key {}: {} rows, value {shown:?}",
            self.key, answer.rows
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::Layout;
    use super::*;
    use crate::sys::SharedCounter;
    use crate::url::Target;

    fn store() -> Store {
        Store {
            layout: Layout::Plain,
            rows: 10,
            length: 100,
            prefix: "kv:".to_owned(),
            inserted: SharedCounter::new(0),
            deleted: SharedCounter::new(0),
            confirmed: SharedCounter::new(0),
            version: SharedCounter::new(0),
        }
    }

    #[test]
    fn a_wrong_value_fails_the_run() {
        let store = store();
        let workload = KvWorkload::new(&store, Access::Memcached, Operation::Select, 1, 0);
        let mut worker = workload.worker(0);
        let mut call = Call::default();
        assert!(worker.next(&mut call));
        let Some(crate::proto::Argument::Bytes(key)) = call.args().next() else {
            panic!("no key");
        };
        let number: u64 = String::from_utf8_lossy(&key[3..]).parse().unwrap();
        let mut text = Vec::new();
        value::write(&mut text, number, 5, 100);
        let mut answer = Answer::default();
        answer.rows = 1;
        answer.push(Some(key));
        answer.push(Some(&text));
        worker.verify(&answer).unwrap();
        text[50] ^= 1;
        answer.clear();
        answer.rows = 1;
        answer.push(Some(key));
        answer.push(Some(&text));
        let error = worker.verify(&answer).unwrap_err();
        assert_eq!(error.kind, crate::error::Kind::Wrong);
        answer.clear();
        assert!(worker.verify(&answer).is_err(), "a row that is missing");
    }

    #[test]
    fn deletes_take_what_was_inserted_and_stop() {
        let store = store();
        let insert = KvWorkload::new(&store, Access::MysqlText, Operation::Insert, 1, 0);
        let delete = KvWorkload::new(&store, Access::MysqlText, Operation::Delete, 1, 0);
        let mut call = Call::default();
        let mut inserter = insert.worker(0);
        let mut keys = Vec::new();
        for _ in 0..3 {
            assert!(inserter.next(&mut call));
            keys.push(format!("{:?}", call.args().next()));
        }
        let mut deleter = delete.worker(0);
        for key in keys {
            assert!(deleter.next(&mut call));
            assert_eq!(format!("{:?}", call.args().next()), key);
        }
        assert!(!deleter.next(&mut call));
    }

    #[test]
    fn a_row_whose_insert_was_refused_is_not_deleted() {
        let (store, mut call) = (store(), Call::default());
        let mix = KvWorkload::new(&store, Access::MysqlText, Operation::Mix, 1, 0);
        for is_refused in [true, false] {
            let mut worker = mix.worker(0);
            let mut answer = Answer::default();
            answer.affected = 1;
            for step in 1..=17 {
                assert!(worker.next(&mut call));
                // The fifteenth inserts; a refusal is never verified.
                if step == 15 && !is_refused {
                    worker.verify(&answer).unwrap();
                }
            }
            let is_delete = call.verb() == Verb::Statement(DELETE);
            assert_eq!(is_delete, !is_refused);
        }
        let insert = KvWorkload::new(&store, Access::MysqlText, Operation::Insert, 1, 0);
        insert.worker(0).next(&mut call);
        let nowhere = Target::parse("memcached://127.0.0.1:1").unwrap();
        store.top_up(&nowhere, 0).unwrap();
        let delete = KvWorkload::new(&store, Access::MysqlText, Operation::Delete, 1, 0);
        assert!(!delete.worker(0).next(&mut call), "its row may be missing");
    }

    #[test]
    fn the_same_seed_draws_the_same_keys() {
        let store = store();
        let keys = |seed| {
            let workload = KvWorkload::new(&store, Access::MysqlText, Operation::Select, seed, 0);
            let mut worker = workload.worker(3);
            let mut call = Call::default();
            let mut drawn = Vec::new();
            for _ in 0..20 {
                worker.next(&mut call);
                drawn.push(format!("{:?}", call.args().next()));
            }
            drawn
        };
        assert_eq!(keys(1), keys(1));
        assert_ne!(keys(1), keys(2));
    }
}
