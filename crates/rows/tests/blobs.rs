//! Overflow values: they are written, read, changed, moved and deleted with their rows, and no
//! chunks are left over.

use crate::common::counting::Counting;
use crate::common::{Def, all, begin, by_key, database, engines, get, ids, int};
use porpoise_kv::model::Model;
use porpoise_kv::{LockMode, Read, ScanRange, TxnOptions};
use porpoise_rows::catalog::Table;
use porpoise_rows::row::overflow::{CHUNK_BYTES, IN_ROW, PREFIX};
use porpoise_rows::{
    Db, Fetch, InsertMode, Inserted, KeyRange, Lookup, OverflowFetch, RowChange, ScanPosition,
    ScanSpec, UpdateMode,
};
use porpoise_types::{ColumnType, Kind, Value, ValueRef};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

fn blob_type() -> ColumnType {
    ColumnType::blob(Kind::LongBlob)
}

fn papers() -> Def {
    ids("t")
        .int("n")
        .column("a", blob_type())
        .null()
        .column("b", blob_type())
        .null()
}

fn filled(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

fn row(id: i64, n: i64, a: Vec<u8>, b: Option<Vec<u8>>) -> Vec<Value> {
    vec![
        int(id),
        int(n),
        Value::Bytes(a),
        b.map_or(Value::Null, Value::Bytes),
    ]
}

/// Keys of all chunks.
fn chunks(db: &Db, table: &Table) -> Vec<Vec<u8>> {
    let mut txn = db.engine().begin(TxnOptions::default()).unwrap();
    let mut keys = Vec::new();
    for space in &table.overflow_spaces {
        let range = [ScanRange {
            space: *space,
            start: &[],
            end: None,
            reverse: false,
        }];
        txn.scan(Read::CURRENT, &range, usize::MAX, &mut |_, key, value| {
            assert!(value.len() <= CHUNK_BYTES && !value.is_empty());
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    }
    keys
}

/// Reading calls since the last one.
fn calls(counting: &Counting) -> usize {
    let taken = counting.calls.take();
    assert_eq!(taken.locks, 0);
    taken.gets + taken.scans
}

fn key(table: &Table, id: i64) -> Vec<u8> {
    table.key_prefix(0, &[ValueRef::Int(id)])
}

fn insert(db: &Arc<Db>, rows: Vec<Vec<Value>>) {
    let mut txn = begin(db);
    txn.insert(&get(db, "t"), rows, InsertMode::Plain).unwrap();
    txn.commit().unwrap();
}

fn change(db: &Arc<Db>, id: i64, set: impl Fn(&mut Vec<Value>), mode: UpdateMode) {
    let table = get(db, "t");
    let mut txn = begin(db);
    let key = key(&table, id);
    let mut changes = Vec::new();
    let wait = txn.wait();
    txn.lock(
        &Lookup::primary(&table, &[&key]),
        LockMode::Update,
        wait,
        &mut |_, found| {
            let row = found.row.unwrap();
            let mut new = row.values();
            set(&mut new);
            changes.push(RowChange {
                key: key.clone(),
                old: row.to_buf(),
                new,
            });
        },
    )
    .unwrap();
    txn.update(&table, changes, mode).unwrap();
    txn.commit().unwrap();
}

#[test]
fn values_of_any_size_round_trip_and_leave_no_chunks_when_deleted() {
    let sizes = [
        0,
        1,
        PREFIX,
        IN_ROW,
        IN_ROW + 1,
        PREFIX + CHUNK_BYTES,
        PREFIX + CHUNK_BYTES + 1,
        3 * CHUNK_BYTES,
        5_000_000,
    ];
    for engine in engines() {
        let db = database(engine, &[papers()]);
        let table = get(&db, "t");
        for (n, size) in sizes.into_iter().enumerate() {
            let id = i64::try_from(n).unwrap();
            insert(
                &db,
                vec![row(id, 0, filled(size, 1), Some(filled(size, 2)))],
            );
            let mut txn = begin(&db);
            let key = key(&table, id);
            let mut seen = 0;
            txn.look_up(
                &Lookup::primary(&table, &[&key]),
                Read::SNAPSHOT,
                &mut |_, found| {
                    let found = found.map(|found| found.row);
                    let found = found.unwrap();
                    assert!(found.get(2) == ValueRef::Bytes(&filled(size, 1)));
                    assert!(found.get(3) == ValueRef::Bytes(&filled(size, 2)));
                    assert_eq!(found.overflow_column(2).is_some(), size > IN_ROW);
                    seen += 1;
                },
            )
            .unwrap();
            assert_eq!(seen, 1);
        }
        let rows = all(&db, "t");
        for (size, row) in sizes.into_iter().zip(&rows) {
            assert!(row[2] == Value::Bytes(filled(size, 1)));
        }
        assert!(!chunks(&db, &table).is_empty());
        let ids: Vec<i64> = (0..sizes.len())
            .map(|n| i64::try_from(n).unwrap())
            .collect();
        let mut txn = begin(&db);
        crate::common::delete(&mut txn, &table, &ids).unwrap();
        txn.commit().unwrap();
        assert!(chunks(&db, &table).is_empty());
    }
}

#[test]
fn an_update_writes_only_the_chunks_of_changed_values() {
    let db = database(engines().swap_remove(1), &[papers()]);
    let table = get(&db, "t");
    let size = 600_000;
    insert(&db, vec![row(1, 0, filled(size, 1), Some(filled(size, 2)))]);
    let version = |db: &Arc<Db>| {
        let mut version = 0;
        begin(db)
            .look_up(
                &Lookup::primary(&table, &[&key(&table, 1)]),
                Read::SNAPSHOT,
                &mut |_, row| {
                    let row = row.map(|found| found.row);
                    version = row.unwrap().version();
                },
            )
            .unwrap();
        version
    };
    let (first, v1) = (chunks(&db, &table), version(&db));
    assert_eq!(first.len(), 6);
    // Another column: the chunks stay.
    change(&db, 1, |row| row[1] = int(5), UpdateMode::Plain);
    assert_eq!(chunks(&db, &table), first);
    let v2 = version(&db);
    assert!(v2 > v1);
    // One of two values: half of the chunks are new.
    let new = filled(size, 3);
    change(
        &db,
        1,
        |row| row[2] = Value::Bytes(new.clone()),
        UpdateMode::Plain,
    );
    let second = chunks(&db, &table);
    assert_eq!(second.iter().filter(|k| first.contains(k)).count(), 3);
    assert!(version(&db) > v2);
    assert!(all(&db, "t")[0][2] == Value::Bytes(new));
    // Short again, then NULL.
    change(
        &db,
        1,
        |row| row[2] = Value::Bytes(b"short".to_vec()),
        UpdateMode::Plain,
    );
    assert_eq!(chunks(&db, &table).len(), 3);
    change(&db, 1, |row| row[3] = Value::Null, UpdateMode::Plain);
    assert!(chunks(&db, &table).is_empty());
    assert_eq!(all(&db, "t")[0], row(1, 5, b"short".to_vec(), None));
}

#[test]
fn overflow_values_of_a_batch_cost_one_call_and_a_range_reads_its_chunks_only() {
    let counting = Arc::new(Counting::new(Arc::new(Model::new())));
    let db = database(counting.clone(), &[papers()]);
    let table = get(&db, "t");
    let size = 2 * CHUNK_BYTES + PREFIX;
    for id in 0..5 {
        insert(
            &db,
            vec![row(id, 0, filled(size, 1), Some(b"small".to_vec()))],
        );
    }
    let keys: Vec<Vec<u8>> = (0..5).map(|id| key(&table, id)).collect();
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut txn = begin(&db);
    txn.refresh().unwrap();
    counting.calls.take();
    let mut whole = 0;
    txn.look_up(
        &Lookup::primary(&table, &refs),
        Read::SNAPSHOT,
        &mut |_, row| {
            let row = row.map(|found| found.row);
            whole += usize::from(row.unwrap().get(2) == ValueRef::Bytes(&filled(size, 1)));
        },
    )
    .unwrap();
    assert_eq!((whole, calls(&counting)), (5, 2));
    counting.calls.take();
    let mut starts = 0;
    let mut one = None;
    txn.look_up(
        &Lookup::primary(&table, &refs).overflow(OverflowFetch::Of(&[3])),
        Read::SNAPSHOT,
        &mut |_, row| {
            let row = row.map(|found| found.row);
            let row = row.unwrap();
            assert!(row.get(2) == ValueRef::Bytes(&filled(size, 1)[..PREFIX]));
            assert_eq!(row.overflow_column(2).unwrap().head.len(), size);
            one = Some(row.to_buf());
            starts += 1;
        },
    )
    .unwrap();
    assert_eq!((starts, calls(&counting)), (5, 1));
    // The first chunk of two, then the other one.
    let upto = [(2, PREFIX + 5)];
    let mut more = Vec::new();
    txn.look_up(
        &Lookup::primary(&table, &refs[..1]).overflow(OverflowFetch::UpTo(&upto)),
        Read::SNAPSHOT,
        &mut |_, row| {
            let row = row.map(|found| found.row);
            let row = row.unwrap();
            assert!(row.get(2) == ValueRef::Bytes(&filled(size, 1)[..PREFIX + CHUNK_BYTES]));
            more.push((keys[0].clone(), row.to_buf()));
        },
    )
    .unwrap();
    txn.complete_rows(&table, &mut more, OverflowFetch::All, Read::SNAPSHOT)
        .unwrap();
    let row = more[0].1.row(&table).unwrap();
    assert!(row.get(2) == ValueRef::Bytes(&filled(size, 1)));
}

#[test]
fn a_snapshot_reads_old_overflow_values() {
    for engine in engines() {
        let db = database(engine, &[papers()]);
        let table = get(&db, "t");
        insert(&db, vec![row(1, 0, filled(900_000, 1), None)]);
        let mut old = begin(&db);
        old.pin().unwrap();
        change(
            &db,
            1,
            |r| r[2] = Value::Bytes(filled(800_000, 2)),
            UpdateMode::Plain,
        );
        let seen = |txn: &mut porpoise_rows::Txn, read| {
            let mut seen = Vec::new();
            txn.look_up(
                &Lookup::primary(&table, &[&key(&table, 1)]),
                read,
                &mut |_, row| {
                    let row = row.map(|found| found.row);
                    seen = row.unwrap().values();
                },
            )
            .unwrap();
            seen
        };
        assert!(seen(&mut old, Read::SNAPSHOT) == row(1, 0, filled(900_000, 1), None));
        assert!(seen(&mut old, Read::CURRENT) == row(1, 0, filled(800_000, 2), None));
    }
}

#[test]
fn a_duplicate_row_is_returned_whole_and_a_rollback_leaves_no_chunks() {
    let db = database(engines().swap_remove(1), &[papers()]);
    let table = get(&db, "t");
    insert(&db, vec![row(1, 0, filled(100_000, 1), None)]);
    let before = chunks(&db, &table);
    let mut txn = begin(&db);
    let found = txn
        .insert_or_find(&table, &row(1, 9, vec![], None))
        .unwrap();
    let Inserted::Duplicate { row: old, .. } = found else {
        panic!("{found:?}");
    };
    assert!(old.row(&table).unwrap().values() == row(1, 0, filled(100_000, 1), None));
    let bad = vec![
        row(2, 0, filled(100_000, 2), None),
        row(1, 0, filled(100_000, 3), None),
    ];
    assert!(txn.insert(&table, bad, InsertMode::Plain).is_err());
    let replaced = vec![row(1, 2, filled(50_000, 4), None)];
    txn.insert(&table, replaced, InsertMode::Replace).unwrap();
    txn.commit().unwrap();
    let after = chunks(&db, &table);
    assert_eq!(after.len(), 1);
    assert!(after.iter().all(|k| !before.contains(k)));
}

/// Compares random statements with a map, then checks the chunks by CHECK TABLE.
#[test]
fn random_changes_agree_with_a_model() {
    for partitions in [None, Some(by_key(3))] {
        let mut def = papers().key("a", &["n"]);
        if let Some(by) = partitions {
            def = def.by(by);
        }
        let db = database(engines().swap_remove(1), &[def]);
        let table = get(&db, "t");
        let mut model: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
        let mut rng = fastrand::Rng::with_seed(11);
        let value = |rng: &mut fastrand::Rng| {
            let sizes = [0, 100, 5_000, 9_000, 270_000, 700_000];
            filled(sizes[rng.usize(0..sizes.len())], rng.u64(..))
        };
        for _ in 0..250 {
            let id = rng.i64(0..12);
            let known = model.contains_key(&id);
            match rng.u8(0..6) {
                0 | 1 if !known => {
                    let new = row(id, rng.i64(0..5), value(&mut rng), Some(value(&mut rng)));
                    insert(&db, vec![new.clone()]);
                    model.insert(id, new);
                }
                0 if known => {
                    let mut txn = begin(&db);
                    crate::common::delete(&mut txn, &table, &[id]).unwrap();
                    txn.commit().unwrap();
                    model.remove(&id);
                }
                // Moves the row, to another partition too.
                1 if known && !model.contains_key(&(id + 100)) => {
                    change(&db, id, |r| r[0] = int(id + 100), UpdateMode::Plain);
                    change(&db, id + 100, |r| r[0] = int(id), UpdateMode::Rewrite);
                }
                _ if known => {
                    let which = rng.usize(2..4);
                    let new = match rng.u8(0..4) {
                        0 => Value::Null,
                        _ => Value::Bytes(value(&mut rng)),
                    };
                    change(&db, id, |r| r[which] = new.clone(), UpdateMode::Plain);
                    model.get_mut(&id).unwrap()[which] = new;
                }
                _ => {}
            }
        }
        let rows: Vec<Vec<Value>> = model.values().cloned().collect();
        assert!(all(&db, "t") == rows);
        crate::common::verify::verify(&db);
        let check = || db.define(|cx| db.check_table(cx, &table)).unwrap().1;
        assert_eq!(check(), vec![]);
        // A missing chunk and one that belongs to no row are found.
        let spare = chunks(&db, &table)[0].clone();
        let mut kv = db.engine().begin(TxnOptions::default()).unwrap();
        for space in &table.overflow_spaces {
            let key = porpoise_kv::Key::new(*space, &spare);
            kv.delete(key, porpoise_kv::Check::Blind).unwrap();
        }
        let stray = porpoise_kv::Key::new(table.overflow_spaces[0], b"stray");
        kv.put(stray, b"x", porpoise_kv::Check::Blind).unwrap();
        kv.commit().unwrap();
        let problems = check();
        assert!(
            problems
                .iter()
                .any(|p| p.description.contains("1 chunks of column")),
            "{problems:?}"
        );
        assert!(
            problems
                .iter()
                .any(|p| p.description.contains("belongs to no row")),
            "{problems:?}"
        );
    }
}

#[test]
fn a_scan_without_overflow_values_makes_no_second_call() {
    let counting = Arc::new(Counting::new(Arc::new(Model::new())));
    let db = database(counting.clone(), &[papers()]);
    let table = get(&db, "t");
    let rows = (0..20).map(|id| row(id, id, filled(20_000, 1), None));
    insert(&db, rows.collect());
    let spec = ScanSpec {
        index: 0,
        ranges: vec![KeyRange::ALL],
        reverse: false,
        entries_only: false,
    };
    let mut txn = begin(&db);
    txn.refresh().unwrap();
    for (blobs, wanted) in [(OverflowFetch::Prefixes, 1), (OverflowFetch::All, 2)] {
        counting.calls.take();
        let fetch = Fetch {
            overflow: blobs,
            partitions: None,
        };
        let mut order = Vec::new();
        let mut position = ScanPosition::default();
        txn.scan_with(
            &table,
            &spec,
            fetch,
            Read::SNAPSHOT,
            &mut position,
            100,
            &mut |_, row| {
                order.push(row.get(0).to_owned());
            },
        )
        .unwrap();
        assert_eq!(calls(&counting), wanted);
        assert_eq!(order, (0..20).map(int).collect::<Vec<_>>());
    }
}
