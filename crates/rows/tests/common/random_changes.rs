//! Random changes of a table `d.t` beside a model of its rows, and power cuts between changes.

use porpoise_base::disk::MemDisk;
use porpoise_kv::contract::Rng;
use porpoise_kv::{CommitPosition, Engine, LockMode};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::Table;
use porpoise_rows::{BeginOptions, Db, Lookup, OverflowFetch, RowBuf, Txn};
use porpoise_types::ValueRef;
use std::sync::Arc;

/// The table.
pub fn table(db: &Db) -> Option<Arc<Table>> {
    db.catalog().table("d", "t").cloned()
}

/// Locks the row with an id, and returns its key and bytes.
pub fn lock(
    txn: &mut Txn,
    table: &Table,
    id: i64,
    fetch: OverflowFetch<'_>,
) -> Option<(Vec<u8>, RowBuf)> {
    let key = table.key_prefix(0, &[ValueRef::Int(id)]);
    let mut old = None;
    let wait = txn.wait();
    let keys = [key.as_slice()];
    let lookup = Lookup::primary(table, &keys).overflow(fetch);
    txn.lock(&lookup, LockMode::Exclusive, wait, &mut |_, found| {
        old = found.row.map(|row| row.to_buf());
    })
    .unwrap();
    Some((key, old?))
}

/// Changes of one kind of table.
pub trait Changes {
    /// The model.
    type Rows: Clone + Default;

    /// Makes one random change, of the table and of the model.
    fn change(&mut self, txn: &mut Txn, rng: &mut Rng, rows: &mut Self::Rows);

    /// Looks at a transaction before its end: its rows, and those that are committed.
    fn look(&mut self, _round: u64, _txn: &mut Txn, _own: &Self::Rows, _committed: &Self::Rows) {}

    /// Compares the committed rows with the model.
    fn verify(&mut self, rows: &Self::Rows);
}

/// Runs transactions of up to four changes each, of which a fifth is rolled back. Every tenth time the
/// rows are compared.
pub fn run_changes<C: Changes>(db: &Arc<Db>, rng: &mut Rng, rounds: u64, changes: &mut C) {
    let mut rows = C::Rows::default();
    for round in 0..rounds {
        let mut txn = db.begin(BeginOptions::default()).unwrap();
        let mut after = rows.clone();
        for _ in 0..=rng.below(4) {
            changes.change(&mut txn, rng, &mut after);
        }
        changes.look(round, &mut txn, &after, &rows);
        if rng.below(5) == 0 {
            txn.rollback();
        } else {
            txn.commit().unwrap();
            rows = after;
        }
        if round % 10 == 9 {
            changes.verify(&rows);
        }
    }
}

/// Commits the change of a number.
pub type CommitStep = dyn Fn(&Arc<Db>, &Arc<Table>, u64) -> Option<CommitPosition>;

/// Checks a table; the text names the moment of the failure.
pub type CheckTable = dyn Fn(&Arc<Db>, &Arc<Table>, &str);

/// Steps that a power failure interrupts. Functions return `None` when the disk has failed.
pub struct Steps<'s> {
    pub count: u64,
    pub open: &'s dyn Fn(Arc<dyn Engine>) -> Option<Arc<Db>>,
    pub create: &'s dyn Fn(&Arc<Db>) -> Option<()>,
    /// Commits a change.
    pub step: &'s CommitStep,
}

impl Steps<'_> {
    fn engine(disk: MemDisk) -> Option<Arc<KvMem>> {
        KvMem::open(KvMemOptions {
            dir: Some("/data".into()),
            disk: Arc::new(disk),
            segment_bytes: 1 << 16,
            ..KvMemOptions::default()
        })
        .ok()
    }

    /// Whether the table was created, and the number of acknowledged steps.
    fn run(&self, disk: &MemDisk) -> (bool, u64) {
        let made = Self::engine(disk.clone()).and_then(|engine| {
            let db = (self.open)(engine.clone())?;
            (self.create)(&db)?;
            Some((engine, db))
        });
        let Some((engine, db)) = made else {
            return (false, 0);
        };
        for n in 0..self.count {
            let position = table(&db).and_then(|table| (self.step)(&db, &table, n));
            if position.is_none_or(|position| engine.wait_durable(position).is_err()) {
                return (true, n);
            }
        }
        (true, self.count)
    }

    /// Checks the table after a power failure at every fifth operation of the disk.
    pub fn cut(&self, check: &CheckTable) {
        let whole = MemDisk::new();
        assert_eq!(self.run(&whole), (true, self.count));
        for stop in (1..whole.operations()).step_by(5) {
            let disk = MemDisk::new();
            disk.stop_after(Some(stop));
            let (made, _) = self.run(&disk);
            let engine = Self::engine(disk.after_power_cut(stop)).unwrap();
            let db = (self.open)(engine).unwrap();
            let what = format!("operation {stop}");
            match table(&db) {
                Some(table) => check(&db, &table, &what),
                None => assert!(!made, "{what}: the table is gone"),
            }
        }
    }
}
