//! Partitioned tables behave like plain ones: random statements have the same results, errors and
//! order of every index on both.

use crate::common::verify::verify;
use crate::common::{NULL, all_in, begin, database, engines, get, ids, int, table, text};
use porpoise_kv::{LockMode, Read};
use porpoise_rows::catalog::{FkAction, Table};
use porpoise_rows::partition::expr::{PartitionExpr, PartitionOp};
use porpoise_rows::partition::{
    Method, Partition, PartitionBound, Partitioning, Subpartition, Subpartitioning, default_name,
};
use porpoise_rows::routing::prune::KnownCondition;
use porpoise_rows::{
    Db, Error, InsertMode, KeyRange, Lookup, RowBuf, RowChange, ScanPosition, ScanSpec, Txn,
    UpdateMode,
};
use porpoise_types::{Collation, Value, ValueRef};
use std::sync::Arc;

fn scheme(
    method: Method,
    columns: &[usize],
    expr: Option<PartitionExpr>,
    bounds: Vec<PartitionBound>,
) -> Partitioning {
    Partitioning {
        method,
        columns: columns.to_vec(),
        expr,
        algorithm: None,
        by_number: false,
        next_id: u32::try_from(bounds.len()).unwrap(),
        sub: None,
        partitions: bounds
            .into_iter()
            .enumerate()
            .map(|(n, bound)| Partition {
                id: u32::try_from(n).unwrap(),
                name: format!("p{n}"),
                bound,
                comment: String::new(),
                subpartitions: Vec::new(),
            })
            .collect(),
    }
}

fn less(v: Option<i64>) -> PartitionBound {
    PartitionBound::LessThan(vec![v.map(Value::Int)])
}

fn none(n: usize) -> Vec<PartitionBound> {
    vec![PartitionBound::None; n]
}

/// The scheme with each partition divided.
fn divided(by: Partitioning, method: Method, column: usize, count: usize) -> Partitioning {
    let is_hash = matches!(method, Method::Hash { .. });
    let mut by = Partitioning {
        sub: Some(Subpartitioning {
            method,
            columns: vec![column],
            expr: is_hash.then_some(PartitionExpr::Column(column)),
            algorithm: None,
            by_number: true,
            count,
        }),
        ..by
    };
    let mut partitions = std::mem::take(&mut by.partitions);
    for partition in &mut partitions {
        let sub = |n| Subpartition {
            id: 0,
            name: default_name(&partition.name, n),
            comment: String::new(),
        };
        partition.subpartitions = (0..count).map(sub).collect();
        by.number(partition);
    }
    Partitioning { partitions, ..by }
}

/// Schemes over column 1 (`p`, an INT) and column 3 (`s`, a text); with `Some`
/// the columns are in all unique keys.
fn schemes() -> Vec<Partitioning> {
    let p = || PartitionExpr::Column(1);
    let expr = PartitionExpr::Op(
        PartitionOp::Add,
        Box::new(p()),
        Box::new(PartitionExpr::Int(3)),
    );
    let list = (0..5).map(|n| {
        let values = (-40..40).filter(|v: &i64| v.rem_euclid(5) == n);
        PartitionBound::In(values.map(|v| vec![Value::Int(v)]).collect())
    });
    vec![
        scheme(Method::Key { linear: false }, &[1], None, none(7)),
        scheme(Method::Key { linear: true }, &[1, 3], None, none(5)),
        scheme(
            Method::Hash { linear: false },
            &[1],
            Some(expr.clone()),
            none(3),
        ),
        scheme(Method::Hash { linear: true }, &[1], Some(expr), none(6)),
        scheme(
            Method::Range,
            &[1],
            Some(p()),
            vec![less(Some(-3)), less(Some(2)), less(Some(9)), less(None)],
        ),
        scheme(
            Method::RangeColumns,
            &[3, 1],
            None,
            vec![
                PartitionBound::LessThan(vec![Some(text("b")), Some(Value::Int(3))]),
                PartitionBound::LessThan(vec![Some(text("b")), None]),
                PartitionBound::LessThan(vec![None, None]),
            ],
        ),
        scheme(Method::List, &[1], Some(p()), list.collect()),
        divided(
            scheme(
                Method::Range,
                &[1],
                Some(p()),
                vec![less(Some(0)), less(None)],
            ),
            Method::Hash { linear: true },
            1,
            3,
        ),
        divided(
            scheme(
                Method::RangeColumns,
                &[1],
                None,
                vec![less(Some(2)), less(None)],
            ),
            Method::Key { linear: false },
            3,
            2,
        ),
    ]
}

fn def(name: &str, by: Option<Partitioning>, hidden: bool) -> crate::common::Def {
    let mut def =
        table(name)
            .int("id")
            .int("p")
            .int("u")
            .null()
            .text("s", 20, Collation::UTF8MB4_GENERAL_CI);
    if !hidden {
        def = def.primary(&["s", "id", "p"]).unique("u", &["u", "p", "s"]);
    }
    def = def.key("by_id", &["id"]).key("by_s", &["s", "u"]);
    match by {
        Some(by) => def.by(by),
        None => def,
    }
}

fn random_row(rng: &mut fastrand::Rng) -> Vec<Value> {
    vec![
        int(rng.i64(0..30)),
        int(rng.i64(-6..14)),
        if rng.u8(0..4) == 0 {
            NULL
        } else {
            int(rng.i64(0..10))
        },
        text(["a", "B", "b", "c ", "d", "\u{e4}"][rng.usize(0..6)]),
    ]
}

fn outcome<T>(result: Result<T, Error>, counts: impl Fn(&T) -> u64) -> Result<u64, (u16, String)> {
    match result {
        Ok(done) => Ok(counts(&done)),
        Err(e) => Err((e.code(), e.to_string().replace("plain", "parted"))),
    }
}

/// Rows of an index in order, as a scan in batches of some size shows them.
/// Rows of a table with hidden keys differ only in these.
fn scan(txn: &mut Txn, table: &Table, spec: &ScanSpec, batch: usize) -> Vec<(Vec<u8>, Vec<Value>)> {
    let mut position = ScanPosition::default();
    let mut rows = Vec::new();
    let mut guard = 0;
    while txn
        .scan(
            table,
            spec,
            Read::SNAPSHOT,
            &mut position,
            batch,
            &mut |key, row| {
                rows.push((key.to_vec(), row.values()));
            },
        )
        .unwrap()
    {
        guard += 1;
        assert!(guard < 10_000, "a scan that does not end");
    }
    rows
}

fn targets(txn: &mut Txn, table: &Table, id: i64, mode: LockMode) -> Vec<(Vec<u8>, RowBuf)> {
    let index = table.index("by_id").unwrap();
    let spec = ScanSpec {
        index,
        ranges: vec![KeyRange::prefix(
            table.key_prefix(index, &[ValueRef::Int(id)]),
        )],
        reverse: false,
        entries_only: false,
    };
    let keys: Vec<Vec<u8>> = scan(txn, table, &spec, 3)
        .into_iter()
        .map(|(k, _)| k)
        .collect();
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = vec![None; keys.len()];
    let wait = txn.wait();
    txn.lock(
        &Lookup::primary(table, &refs),
        mode,
        wait,
        &mut |n, locked| {
            found[n] = locked.row.map(|r| (keys[n].clone(), r.to_buf()));
        },
    )
    .unwrap();
    found.into_iter().flatten().collect()
}

fn statement(
    txn: &mut Txn,
    table: &Arc<Table>,
    rng: &mut fastrand::Rng,
) -> Result<u64, (u16, String)> {
    match rng.u8(0..10) {
        0..4 => {
            let rows = (0..rng.usize(1..4)).map(|_| random_row(rng)).collect();
            let mode =
                [InsertMode::Plain, InsertMode::Ignore, InsertMode::Replace][rng.usize(0..3)];
            outcome(txn.insert(table, rows, mode), |d| {
                d.inserted * 100 + d.replaced * 10 + d.skipped.len() as u64
            })
        }
        4..8 => {
            let id = rng.i64(0..30);
            let (new, which) = (random_row(rng), rng.usize(0..4));
            let rows = targets(txn, table, id, LockMode::Update);
            let changes = rows.into_iter().map(|(key, old)| {
                let mut values = old.row(table).unwrap().values();
                values[which] = new[which].clone();
                RowChange {
                    key,
                    old,
                    new: values,
                }
            });
            let mode = [UpdateMode::Plain, UpdateMode::Ignore][rng.usize(0..2)];
            outcome(txn.update(table, changes.collect(), mode), |d| {
                d.changed * 10 + d.skipped.len() as u64
            })
        }
        _ => {
            let rows = targets(txn, table, rng.i64(0..30), LockMode::Exclusive);
            outcome(txn.delete(table, rows), |d| d.deleted)
        }
    }
}

fn same_scans(txn: &mut Txn, plain: &Table, parted: &Table, rng: &mut fastrand::Rng) {
    for index in 0..plain.indexes.len() {
        for reverse in [false, true] {
            let mut spec = ScanSpec {
                index,
                ranges: vec![KeyRange::ALL],
                reverse,
                entries_only: false,
            };
            let a = scan(txn, plain, &spec, rng.usize(1..40));
            let b = scan(txn, parted, &spec, rng.usize(1..40));
            let values = |rows: Vec<(Vec<u8>, Vec<Value>)>| -> Vec<Vec<Value>> {
                rows.into_iter().map(|(_, row)| row).collect()
            };
            assert_eq!(values(a), values(b), "index {index}");
            if plain.indexes[index].parts.is_empty() {
                continue;
            }
            // Several ranges, in the order given.
            let first = plain.indexes[index].parts[0].column;
            let range = |rng: &mut fastrand::Rng, t: &Table, row: &[Value]| {
                let _ = rng;
                KeyRange::prefix(t.key_prefix(index, &[row[first].as_ref()]))
            };
            let rows: Vec<Vec<Value>> = (0..2).map(|_| random_row(rng)).collect();
            spec.ranges = rows.iter().map(|r| range(rng, plain, r)).collect();
            let a = scan(txn, plain, &spec, 5);
            let b = scan(txn, parted, &spec, 5);
            assert_eq!(values(a), values(b), "ranges of index {index}");
        }
    }
}

fn run(db: &Arc<Db>, seed: u64, statements: usize) {
    let (plain, parted) = (get(db, "plain"), get(db, "parted"));
    let mut rng = fastrand::Rng::with_seed(seed);
    for n in 0..statements {
        let again = rng.fork();
        let mut results = Vec::new();
        let commit = rng.u8(0..5) > 0;
        for table in [&plain, &parted] {
            let mut txn = begin(db);
            let result = statement(&mut txn, table, &mut again.clone());
            results.push(result);
            if commit {
                txn.commit().unwrap();
            }
        }
        assert_eq!(results[0], results[1], "statement {n} of seed {seed}");
        if n % 40 == 39 {
            same_scans(&mut begin(db), &plain, &parted, &mut rng);
        }
    }
    let mut txn = begin(db);
    assert_eq!(all_in(&mut txn, &plain), all_in(&mut txn, &parted));
    verify(db);
}

#[test]
fn random_statements_have_equal_results_on_partitioned_and_plain_tables() {
    for engine in 0..2 {
        for (n, by) in schemes().into_iter().enumerate() {
            for hidden in [false, true] {
                let defs = [
                    def("plain", None, hidden),
                    def("parted", Some(by.clone()), hidden),
                ];
                let engine = engines().swap_remove(engine);
                run(&database(engine, &defs), 40 + n as u64, 200);
            }
        }
    }
}

#[test]
fn a_row_without_a_partition_is_refused_and_skipped_by_ignore() {
    let by = scheme(
        Method::Range,
        &[1],
        Some(PartitionExpr::Column(1)),
        vec![less(Some(0)), less(Some(10))],
    );
    let db = crate::common::model_database(&[def("t", Some(by), false)]);
    let t = get(&db, "t");
    let mut txn = begin(&db);
    let row = |p: i64| vec![int(1), int(p), NULL, text("a")];
    let error = txn
        .insert(&t, vec![row(3), row(10)], InsertMode::Plain)
        .unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (1526, "Table has no partition for value 10")
    );
    assert!(all_in(&mut txn, &t).is_empty());
    let done = txn
        .insert(&t, vec![row(3), row(10)], InsertMode::Ignore)
        .unwrap();
    assert_eq!((done.inserted, done.skipped.len()), (1, 1));
    let target = targets(&mut txn, &t, 1, LockMode::Update);
    let change = |p: i64| {
        let (key, old) = target[0].clone();
        vec![RowChange {
            key,
            old,
            new: row(p),
        }]
    };
    assert_eq!(
        txn.update(&t, change(77), UpdateMode::Plain)
            .unwrap_err()
            .code(),
        1526
    );
    assert_eq!(
        txn.update(&t, change(-5), UpdateMode::Plain)
            .unwrap()
            .changed,
        1
    );
    txn.commit().unwrap();
    assert_eq!(t.partition_of_row(&row(-5)).unwrap(), 0);
    verify(&db);
}

#[test]
fn foreign_keys_hold_from_and_to_partitioned_tables() {
    for engine in engines() {
        let parent = ids("parent").by(scheme(Method::Key { linear: false }, &[0], None, none(4)));
        // The partitioning column is not the referring one: children of one
        // parent lie in several partitions.
        let child = ids("child")
            .int("parent_id")
            .null()
            .key("parent_id", &["parent_id"])
            .fk_with(
                "fk",
                &["parent_id"],
                "parent",
                &["id"],
                FkAction::Cascade,
                FkAction::Cascade,
            )
            .by(scheme(Method::Key { linear: false }, &[0], None, none(3)));
        let db = database(engine, &[parent, child]);
        let (parent, child) = (get(&db, "parent"), get(&db, "child"));
        let mut txn = begin(&db);
        crate::common::insert(&mut txn, &parent, &[&[1], &[2]]).unwrap();
        let children: Vec<Vec<i64>> = (0..20).map(|n| vec![n, n % 2 + 1]).collect();
        let rows: Vec<&[i64]> = children.iter().map(Vec::as_slice).collect();
        crate::common::insert(&mut txn, &child, &rows).unwrap();
        let orphan = crate::common::insert(&mut txn, &child, &[&[50, 9]]).unwrap_err();
        assert_eq!(orphan.code(), 1452);
        txn.commit().unwrap();
        let mut txn = begin(&db);
        crate::common::update(&mut txn, &parent, &[2], |row| row[0] = int(7)).unwrap();
        crate::common::delete(&mut txn, &parent, &[1]).unwrap();
        txn.commit().unwrap();
        let left = crate::common::ints(&db, "child");
        assert_eq!(left.len(), 10);
        assert!(left.iter().all(|row| row[1] == 7));
        verify(&db);
    }
}

#[test]
fn pruning_excludes_no_partition_with_a_match() {
    let mut rng = fastrand::Rng::with_seed(5);
    for by in schemes() {
        let db = crate::common::model_database(&[def("t", Some(by), false)]);
        let t = get(&db, "t");
        for _ in 0..300 {
            let row = random_row(&mut rng);
            let at = t.partition_of_row(&row).unwrap();
            let Value::Int(p) = row[1] else {
                unreachable!()
            };
            let (a, b) = (rng.i64(0..9), rng.i64(0..400));
            let equal = |v: &Value| KnownCondition {
                equal: Some(vec![
                    random_row(&mut fastrand::Rng::new())[1].clone(),
                    v.clone(),
                ]),
                ..KnownCondition::default()
            };
            let text_equal = KnownCondition {
                equal: Some(vec![row[3].clone()]),
                ..KnownCondition::default()
            };
            let cases = [
                vec![(1, equal(&row[1]))],
                vec![(1, equal(&row[1])), (3, text_equal.clone())],
                vec![(3, text_equal)],
                vec![(
                    1,
                    KnownCondition {
                        low: Some(Value::Int(p - a)),
                        high: Some(Value::Int(p + b)),
                        ..KnownCondition::default()
                    },
                )],
                vec![(
                    1,
                    KnownCondition {
                        high: Some(Value::Int(p)),
                        ..KnownCondition::default()
                    },
                )],
            ];
            for known in cases {
                if let Some(found) = t.prune(&known) {
                    assert!(
                        found.contains(&at),
                        "{:?} {known:?} {found:?}",
                        t.partitioning
                    );
                }
            }
        }
    }
    // It does exclude some.
    let by = schemes().swap_remove(4);
    let db = crate::common::model_database(&[def("t", Some(by), false)]);
    let known = KnownCondition {
        low: Some(Value::Int(3)),
        high: Some(Value::Int(400)),
        ..KnownCondition::default()
    };
    assert_eq!(get(&db, "t").prune(&[(1, known)]), Some(vec![2, 3]));
}
