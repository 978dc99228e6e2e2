//! Simulation of an online schema change: the change stops before each of its transactions and at each of its
//! waits; there two sessions run statements, in an order that a seed determines. A session may use an
//! older version of the table, and keep its transaction open over several steps. A model of the rows says
//! what must be there at the end.

use crate::common::counting::{Counting, Gate};
use crate::common::running::{User, check};
use crate::common::verify::verify;
use crate::common::{database, delete, get, ids, insert, ints, update};
use porpoise_base::cancel::Cancel;
use porpoise_kv::model::Model;
use porpoise_rows::catalog::FkAction;
use porpoise_rows::ddl::{
    AlterOp, ColumnSpec, DdlCx, DdlOutcome, FkSpec, IndexSpec, LockLevel, Position,
};
use porpoise_rows::definition::IndexKind;
use porpoise_rows::progress::Stage;
use porpoise_rows::txn::{BeginOptions, Txn};
use porpoise_rows::{Db, Error};
use porpoise_types::{ColumnType, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Rows of `t` by id: parent and `u`; ids of `parent`.
#[derive(Clone, Default)]
struct Rows {
    t: BTreeMap<i64, (i64, i64)>,
    parents: BTreeSet<i64>,
}

/// Pseudo-random numbers (SplitMix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// A change of a row of `t` (gone without a value) or of a parent.
#[derive(Clone, Copy)]
enum Written {
    Row(i64, Option<(i64, i64)>),
    Parent(i64, bool),
}

impl Rows {
    fn apply(&mut self, written: &[Written]) {
        for change in written {
            match *change {
                Written::Row(id, Some(row)) => drop(self.t.insert(id, row)),
                Written::Row(id, None) => drop(self.t.remove(&id)),
                Written::Parent(id, true) => drop(self.parents.insert(id)),
                Written::Parent(id, false) => drop(self.parents.remove(&id)),
            }
        }
    }
}

/// A session with an open transaction.
struct Session {
    user: User,
    txn: Txn,
    written: Vec<Written>,
}

impl Session {
    /// `None` if a barrier of the change blocks sessions.
    fn begin(db: &Arc<Db>) -> Option<Session> {
        let soon = Instant::now() + Duration::from_millis(2);
        let user = User::until(db, soon)?;
        // A lock that is not free ends the transaction: waiting would be useless, because no other session runs meanwhile.
        let options = BeginOptions {
            lock_wait: Duration::ZERO,
            ..BeginOptions::default()
        };
        Some(Session {
            user,
            txn: db.begin(options).unwrap(),
            written: Vec::new(),
        })
    }

    /// A statement that the generator chooses, on a few keys. `rows` are committed.
    fn statement(&mut self, db: &Arc<Db>, rows: &Rows, rng: &mut Rng) -> Result<(), Error> {
        let mut rows = rows.clone();
        rows.apply(&self.written);
        let table = &self.user.table;
        let (id, other) = (rng.below(5) as i64, rng.below(5) as i64);
        let value = (rng.below(3) as i64, rng.below(8) as i64);
        let row = rows.t.get(&id).copied();
        match rng.below(6) {
            0 => {
                insert(&mut self.txn, table, &[&[id, value.0, value.1]])?;
                self.written.push(Written::Row(id, Some(value)));
            }
            1 => {
                update(&mut self.txn, table, &[id], |row| {
                    (row[1], row[2]) = (Value::Int(value.0), Value::Int(value.1));
                })?;
                self.written
                    .extend(row.map(|_| Written::Row(id, Some(value))));
            }
            2 => {
                update(&mut self.txn, table, &[id], |row| {
                    row[0] = Value::Int(other)
                })?;
                if row.is_some() {
                    self.written.push(Written::Row(id, None));
                    self.written.push(Written::Row(other, row));
                }
            }
            3 => {
                delete(&mut self.txn, table, &[id])?;
                self.written.extend(row.map(|_| Written::Row(id, None)));
            }
            4 => {
                insert(&mut self.txn, &get(db, "parent"), &[&[value.0]])?;
                self.written.push(Written::Parent(value.0, true));
            }
            _ => {
                delete(&mut self.txn, &get(db, "parent"), &[value.0])?;
                let exists = rows.parents.contains(&value.0);
                self.written
                    .extend(exists.then_some(Written::Parent(value.0, false)));
                let cascades = exists && !get(db, "parent").referenced_by.is_empty();
                let children = rows.t.iter().filter(|(_, row)| row.0 == value.0);
                let children = children.filter(|_| cascades);
                let gone = children.map(|(id, _)| Written::Row(*id, None));
                self.written.extend(gone);
            }
        }
        Ok(())
    }
}

/// A change on another thread.
struct Change {
    done: JoinHandle<Result<DdlOutcome, Error>>,
    gate: Arc<Gate>,
    progress: Arc<porpoise_rows::progress::Progress>,
}

impl Change {
    fn start(db: &Arc<Db>, gate: &Arc<Gate>, ops: Vec<AlterOp>) -> Change {
        let session = db.metadata_locks().session();
        let progress = session.progress().clone();
        let (db, own) = (db.clone(), gate.clone());
        let done = std::thread::spawn(move || {
            own.stop_this_thread();
            let cancel = Cancel::new();
            let cx = DdlCx {
                metadata_locks: &session,
                deadline: Instant::now() + Duration::from_secs(60),
                cancel: &cancel,
                foreign_key_checks: true,
                now: 0,
                statement: None,
                memory: None,
            };
            db.alter_table(&cx, "d", "t", &ops)
        });
        Change {
            done,
            gate: gate.clone(),
            progress,
        }
    }

    /// Waits until it stops before a transaction or waits for users. False at its end.
    fn settle(&self) -> bool {
        let late = Instant::now() + Duration::from_secs(60);
        let mut waits = 0;
        loop {
            assert!(Instant::now() < late, "the change neither stops nor ends");
            if self.done.is_finished() {
                return false;
            }
            if self.gate.is_there() {
                return true;
            }
            let is_waiting = self.progress.stage() == Stage::WaitingForTable;
            waits = if is_waiting { waits + 1 } else { 0 };
            if waits > 3 {
                return true;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn changes() -> Vec<Vec<AlterOp>> {
    let none = || AlterOp::Lock(LockLevel::None);
    let mut key = FkSpec::new(&["p"], "parent", &["id"]);
    key.on_delete = FkAction::Cascade;
    let null = ColumnSpec::new("u", ColumnType::bigint());
    let unique = IndexSpec::new(IndexKind::Unique, Some("u"), &["u"]);
    let plain = IndexSpec::new(IndexKind::Plain, Some("p"), &["p"]);
    vec![
        vec![AlterOp::AddForeignKey(key), none()],
        vec![
            AlterOp::ChangeColumn("u".to_owned(), null, Position::Default),
            none(),
        ],
        vec![AlterOp::AddIndex(unique), AlterOp::AddIndex(plain), none()],
        vec![
            AlterOp::DropPrimaryKey,
            AlterOp::AddIndex(IndexSpec::primary(&["u", "id"])),
            AlterOp::AddIndex(IndexSpec::new(IndexKind::Unique, Some("id"), &["id"])),
            none(),
        ],
    ]
}

/// One statement, or the end of a transaction, of one of the sessions.
fn act(db: &Arc<Db>, sessions: &mut [Option<Session>; 2], rows: &mut Rows, rng: &mut Rng) {
    let at = rng.below(2) as usize;
    let Some(session) = &mut sessions[at] else {
        sessions[at] = Session::begin(db);
        return;
    };
    if rng.below(3) > 0 {
        if session.statement(db, rows, rng).is_err() {
            // Refused, or a lock is not free: rolled back.
            sessions[at] = None;
        }
        return;
    }
    if let Some(session) = sessions[at].take()
        && session.txn.commit().is_ok()
    {
        rows.apply(&session.written);
    }
}

/// Prints the seed if the run panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

fn simulate(seed: u64) {
    let _named = Named(seed);
    let counting = Counting::new(Arc::new(Model::new()));
    let gate = counting.gate.clone();
    let t = ids("t").int("p").int("u");
    let db = database(Arc::new(counting), &[ids("parent"), t]);
    let mut rng = Rng(seed);
    let mut rows = Rows::default();
    let mut first = Session::begin(&db).unwrap();
    for id in 0..3 {
        insert(&mut first.txn, &get(&db, "parent"), &[&[id]]).unwrap();
        insert(&mut first.txn, &first.user.table, &[&[id, id, id]]).unwrap();
        first.written.push(Written::Parent(id, true));
        first.written.push(Written::Row(id, Some((id, id))));
    }
    first.txn.commit().unwrap();
    rows.apply(&first.written);
    drop(first.user);
    let mut all = changes();
    let ops = all.swap_remove(rng.below(all.len() as u64) as usize);
    let change = Change::start(&db, &gate, ops);
    let mut sessions = [None, None];
    while change.settle() {
        for _ in 0..rng.below(4) {
            act(&db, &mut sessions, &mut rows, &mut rng);
        }
        if gate.is_there() {
            gate.step();
        } else {
            // It waits for one of them.
            sessions = [None, None];
        }
    }
    gate.open();
    sessions.iter_mut().for_each(|session| *session = None);
    let outcome = change.done.join().unwrap();
    let table = get(&db, "t");
    assert!(table.changing.is_empty() && table.unfinished.is_empty());
    if let Err(error) = outcome {
        assert!(matches!(error.code(), 1062 | 1452), "seed {seed}: {error}");
        assert_eq!((table.indexes.len(), table.foreign_keys.len()), (1, 0));
    }
    let mut found = ints(&db, "t");
    found.sort();
    let expected = rows.t.iter().map(|(id, (p, u))| vec![*id, *p, *u]);
    assert_eq!(found, expected.collect::<Vec<_>>(), "seed {seed}");
    verify(&db);
    // The next change drops spaces to which a session might have written at the end of this one.
    let ops = [
        AlterOp::SetComment("done".to_owned()),
        AlterOp::Lock(LockLevel::None),
    ];
    db.define(|cx| db.alter_table(cx, "d", "t", &ops)).unwrap();
    check(&db);
}

#[test]
fn statements_between_all_steps_of_a_change_leave_rows_entries_and_parents_consistent() {
    for seed in 0..60 {
        simulate(seed);
    }
}

#[test]
#[ignore = "takes minutes"]
fn statements_between_all_steps_of_many_changes() {
    for seed in 1000..30_000 {
        simulate(seed);
    }
}
