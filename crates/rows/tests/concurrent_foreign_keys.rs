//! Concurrent changes of tables under random graphs of foreign keys (cycles, self references,
//! diamonds, mixed actions, NULLs) until the power fails: afterwards no row lacks its parent, every
//! index entry has its row, and every acknowledged transaction is complete.

use crate::common::verify::verify;
use crate::common::{Def, N, all, database, delete, get, ids, insert, table, update};
use porpoise_base::clock;
use porpoise_base::disk::MemDisk;
use porpoise_kv::Engine;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::FkAction;
use porpoise_rows::{BeginOptions, Db, DbOptions, Error};
use porpoise_types::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const THREADS: i64 = 3;
/// Transactions of a thread, if the power does not fail.
const STEPS: i64 = 60;
/// Number of different ids.
const IDS: i64 = 12;
/// Errors that a statement may fail with: a violated foreign key, a
/// duplicate key (also from a cascade), a conflict, a lock wait timeout.
const REFUSALS: [u16; 6] = [1451, 1452, 1062, 1761, 1213, 1205];

fn open(disk: &MemDisk) -> Option<Arc<dyn Engine>> {
    let engine = KvMem::open(KvMemOptions {
        dir: Some("/data".into()),
        disk: Arc::new(disk.clone()),
        segment_bytes: 1 << 20,
        checkpoint_bytes: 1 << 21,
        ..KvMemOptions::default()
    });
    Some(engine.ok()?)
}

/// Two to four tables `t0`, ..., and one of acknowledged transactions.
fn graph(rng: &mut fastrand::Rng) -> Vec<Def> {
    let tables = rng.usize(2..5);
    let mut defs = vec![ids("done")];
    for child in 0..tables {
        let mut def = table(&format!("t{child}"))
            .int("id")
            .primary(&["id"])
            .int("a")
            .null()
            .int("b")
            .null()
            .key("a", &["a"])
            .key("b", &["b"]);
        for column in ["a", "b"] {
            let parent = format!("t{}", rng.usize(0..tables));
            let mut action = || {
                let actions = [FkAction::Restrict, FkAction::Cascade, FkAction::SetNull];
                actions[rng.usize(0..3)]
            };
            let (on_delete, on_update) = (action(), action());
            let name = format!("fk_{child}_{column}");
            def = def.fk_with(&name, &[column], &parent, &["id"], on_delete, on_update);
        }
        defs.push(def);
    }
    defs
}

/// One transaction of some statements, and a row that records it.
fn transaction(
    db: &Arc<Db>,
    rng: &mut fastrand::Rng,
    tables: usize,
    mark: i64,
) -> Result<(), Error> {
    let mut txn = db.begin(BeginOptions {
        lock_wait: Duration::from_secs(20),
        ..BeginOptions::default()
    })?;
    for _ in 0..rng.usize(1..4) {
        let table = get(db, &format!("t{}", rng.usize(0..tables)));
        let id = rng.i64(0..IDS);
        let mut parent = || if rng.bool() { N } else { rng.i64(0..IDS) };
        let (a, b) = (parent(), parent());
        match rng.u8(0..8) {
            0..4 => {
                insert(&mut txn, &table, &[&[id, a, b]])?;
            }
            4 | 5 => {
                update(&mut txn, &table, &[id], |row| {
                    row[1] = if a == N { Value::Null } else { Value::Int(a) };
                })?;
            }
            6 => {
                let to = rng.i64(0..IDS);
                update(&mut txn, &table, &[id], |row| row[0] = Value::Int(to))?;
            }
            _ => {
                delete(&mut txn, &table, &[id])?;
            }
        }
    }
    insert(&mut txn, &get(db, "done"), &[&[mark]])?;
    let position = txn.commit()?.position;
    db.engine().wait_durable(position)?;
    Ok(())
}

/// Returns the steps that were acknowledged to the threads; counts refused statements.
fn run(db: &Arc<Db>, seed: u64, tables: usize, refused: &AtomicU64) -> BTreeSet<i64> {
    let work = |thread: i64| {
        let mut rng = fastrand::Rng::with_seed(seed * 100 + thread.unsigned_abs());
        let mut acknowledged = BTreeSet::new();
        for step in 0..STEPS {
            let mark = thread * STEPS + step;
            match transaction(db, &mut rng, tables, mark) {
                Ok(()) => {
                    acknowledged.insert(mark);
                }
                Err(e) if REFUSALS.contains(&e.code()) => {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
                // The power has failed.
                Err(_) => break,
            }
        }
        acknowledged
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let acknowledged = threads.into_iter().flat_map(|t| t.join().unwrap());
        acknowledged.collect()
    })
}

#[test]
fn a_power_failure_during_concurrent_writes_leaves_no_orphan() {
    let (refused, mut done, mut cut) = (AtomicU64::new(0), 0, 0);
    for seed in 0..200u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let defs = graph(&mut rng);
        let disk = MemDisk::new();
        let db = database(open(&disk).unwrap(), &defs);
        let catalog = (*db.catalog()).clone();
        // Every fourth disk does not fail.
        if seed % 4 != 0 {
            let stop = disk.operations() + rng.u64(1..150);
            disk.stop_after(Some(stop));
            cut += 1;
        }
        let acknowledged = run(&db, seed, defs.len() - 1, &refused);
        if seed % 4 == 0 {
            verify(&db);
        }
        done += acknowledged.len();
        let after = disk.after_power_cut(seed);
        drop(db);
        let engine = open(&after).unwrap_or_else(|| panic!("seed {seed}: does not open"));
        let db = Db::with_catalog(engine, clock::system(), DbOptions::default(), catalog);
        verify(&db);
        let there: BTreeSet<i64> = all(&db, "done")
            .iter()
            .map(|row| match row[0] {
                Value::Int(mark) => mark,
                ref other => panic!("{other:?}"),
            })
            .collect();
        let lost: Vec<_> = acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "seed {seed}: {lost:?} were acknowledged");
    }
    // Some statements succeed and some are refused.
    let refused = refused.into_inner();
    assert!(
        done > 500 && refused > 500 && cut > 20,
        "{done}, {refused}, {cut}"
    );
}
