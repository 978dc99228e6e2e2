//! Indexes with a multi-valued part: after random changes, and after power cuts, entries are those
//! of the rows' elements, and a unique index has no element twice. The elements of a row are the
//! bytes of one of its columns.

use crate::common::random_changes::{Changes, Steps, lock, run_changes, table};
use crate::common::verify::verify;
use porpoise_base::clock;
use porpoise_kv::Engine;
use porpoise_kv::contract::Rng;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::{Expression, IndexKind, Table, TableDef, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, TableSpec};
use porpoise_rows::expressions::{CompileExpressions, KeyPartType, RowContext, RowExpressions};
use porpoise_rows::{
    BeginOptions, Db, DbOptions, Error, InsertMode, Inserted, OverflowFetch, RowChange, Txn,
    UpdateMode,
};
use porpoise_types::array::ArrayBuilder;
use porpoise_types::{Collation, ColumnType, Kind, Value, ValueRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Computes the arrays of the hidden columns from the column at position 1.
#[derive(Debug)]
struct Arrays(Vec<usize>);

impl RowExpressions for Arrays {
    fn generate(&self, row: &mut [Value], _: u64, _: &RowContext) -> porpoise_rows::Result<()> {
        for position in &self.0 {
            row[*position] = match &row[1] {
                Value::Bytes(bytes) => {
                    let mut array = ArrayBuilder::default();
                    for byte in bytes {
                        array.push(ValueRef::Int(i64::from(*byte)), &ColumnType::bigint());
                    }
                    Value::Bytes(array.encode().unwrap())
                }
                _ => Value::Null,
            };
        }
        Ok(())
    }

    fn check(&self, _: &[Value], _: &RowContext) -> porpoise_rows::Result<()> {
        Ok(())
    }

    fn default(&self, _: usize, _: &[Value], _: &RowContext) -> porpoise_rows::Result<Value> {
        Ok(Value::Null)
    }
}

struct Compiler;

impl CompileExpressions for Compiler {
    fn compile(&self, table: &TableDef) -> porpoise_rows::Result<Arc<dyn RowExpressions>> {
        let columns = table.columns.iter().enumerate();
        let arrays = columns.filter(|(_, c)| c.is_array()).map(|(at, _)| at);
        Ok(Arc::new(Arrays(arrays.collect())))
    }

    fn key_part_type(
        &self,
        _: &TableDef,
        _: &str,
        _: &Expression,
    ) -> porpoise_rows::Result<KeyPartType> {
        Ok(KeyPartType {
            ty: ColumnType::bigint(),
            array: true,
        })
    }
}

fn spec() -> TableSpec {
    let columns = vec![
        ColumnSpec::new("id", ColumnType::int(Kind::Int)).not_null(),
        ColumnSpec::new("b", ColumnType::varbinary(20)),
    ];
    let array = |kind, name| {
        let mut spec = IndexSpec::new(kind, Some(name), &[""]);
        let expression = Expression {
            text: "elements".to_owned(),
            columns: vec!["b".to_owned()],
        };
        spec.expressions.push((0, expression));
        spec
    };
    let mut plain = array(IndexKind::Plain, "p");
    plain.parts.push(("id".to_owned(), None, false));
    let keys = vec![
        IndexSpec::primary(&["id"]),
        array(IndexKind::Unique, "u"),
        plain,
    ];
    let options = TableOptions::new(Collation::UTF8MB4_GENERAL_CI);
    TableSpec::new("d", "t", columns, keys, options)
}

fn open(engine: Arc<dyn Engine>) -> Option<Arc<Db>> {
    let db = Db::open(engine, clock::system(), DbOptions::default()).ok()?;
    db.set_compiler(Arc::new(Compiler));
    Some(db)
}

fn create(db: &Arc<Db>) -> Option<()> {
    let collation = Collation::UTF8MB4_GENERAL_CI;
    db.define(|cx| {
        db.create_database(cx, "d", collation, false).ok()?;
        db.create_table(cx, &spec()).ok()
    })?;
    Some(())
}

/// The elements of each row; none of an array that is NULL.
type Rows = BTreeMap<i64, Option<Vec<u8>>>;

fn row(id: i64, elements: &Option<Vec<u8>>) -> Vec<Value> {
    let array = elements.clone().map_or(Value::Null, Value::Bytes);
    vec![Value::Int(id), array, Value::Null, Value::Null]
}

/// The rows other than `id` that share an element.
fn sharing(rows: &Rows, id: i64, elements: &Option<Vec<u8>>) -> BTreeSet<i64> {
    let shares = |other: &Option<Vec<u8>>| match (elements, other) {
        (Some(a), Some(b)) => a.iter().any(|element| b.contains(element)),
        _ => false,
    };
    let others = rows
        .iter()
        .filter(|(other, has)| **other != id && shares(has));
    others.map(|(other, _)| *other).collect()
}

/// Makes one random change. Returns whether it was refused as a duplicate.
fn change(txn: &mut Txn, table: &Arc<Table>, rng: &mut Rng, rows: &mut Rows) -> bool {
    let id = rng.below(12) as i64;
    let count = rng.below(4);
    let elements = (rng.below(5) > 0).then(|| {
        let bytes = (0..count).map(|_| rng.below(25) as u8);
        bytes.collect::<Vec<u8>>()
    });
    let taken = sharing(rows, id, &elements);
    let new = row(id, &elements);
    let refused = |result: Result<u64, Error>, expected: bool, what: &str| {
        match (&result, expected) {
            (Ok(_), false) | (Err(Error::Duplicate { .. }), true) => {}
            _ => panic!("{what}: {result:?}, expected a duplicate: {expected}"),
        }
        expected
    };
    match rng.below(6) {
        0 => {
            let expected = rows.contains_key(&id) || !taken.is_empty();
            let done = txn.insert(table, vec![new], InsertMode::Plain);
            let refused = refused(done.map(|done| done.inserted), expected, "insert");
            if !refused {
                rows.insert(id, elements);
            }
            refused
        }
        1 => {
            let done = txn.insert(table, vec![new], InsertMode::Replace).unwrap();
            let mut gone = taken;
            let is_equal = gone.is_empty() && rows.get(&id) == Some(&elements);
            gone.extend(rows.contains_key(&id).then_some(id));
            // An equal row stays as it is.
            let replaced = if is_equal { 0 } else { gone.len() as u64 };
            assert_eq!(done.replaced, replaced);
            gone.iter().for_each(|id| drop(rows.remove(id)));
            rows.insert(id, elements);
            false
        }
        2 => {
            // Two rows, of which the second may share elements with the first.
            let second = (id + 20, Some(vec![rng.below(25) as u8]));
            let both = vec![new, row(second.0, &second.1)];
            let done = txn.insert(table, both, InsertMode::Ignore).unwrap();
            let mut inserted = 0;
            for (id, elements) in [(id, elements), second] {
                if !rows.contains_key(&id) && sharing(rows, id, &elements).is_empty() {
                    rows.insert(id, elements);
                    inserted += 1;
                }
            }
            assert_eq!(done.inserted, inserted);
            false
        }
        3 => match txn.insert_or_find(table, &new).unwrap() {
            Inserted::New => {
                assert!(taken.is_empty() && rows.insert(id, elements).is_none());
                false
            }
            Inserted::Duplicate { primary, .. } => {
                let found = |id: &i64| table.key_prefix(0, &[ValueRef::Int(*id)]) == primary;
                assert!(taken.iter().chain([&id]).any(found));
                assert!(rows.contains_key(&id) || !taken.is_empty());
                true
            }
        },
        4 => {
            let Some((key, old)) = lock(txn, table, id, OverflowFetch::All) else {
                assert!(!rows.contains_key(&id));
                return false;
            };
            // The row's id may change.
            let to = if rng.below(3) == 0 { id + 40 } else { id };
            let mut others = rows.clone();
            others.remove(&id);
            let expected = others.contains_key(&to) || !sharing(&others, to, &elements).is_empty();
            let new = row(to, &elements);
            let done = txn.update(table, vec![RowChange { key, old, new }], UpdateMode::Plain);
            let refused = refused(done.map(|done| done.changed), expected, "update");
            if !refused {
                others.insert(to, elements);
                *rows = others;
            }
            refused
        }
        _ => {
            let found = lock(txn, table, id, OverflowFetch::All);
            assert_eq!(found.is_some(), rows.remove(&id).is_some());
            txn.delete(table, found.into_iter().collect()).unwrap();
            false
        }
    }
}

struct ArrayChanges {
    db: Arc<Db>,
    table: Arc<Table>,
    refused: u32,
}

impl Changes for ArrayChanges {
    type Rows = Rows;

    fn change(&mut self, txn: &mut Txn, rng: &mut Rng, rows: &mut Rows) {
        self.refused += u32::from(change(txn, &self.table, rng, rows));
    }

    fn verify(&mut self, rows: &Rows) {
        verify(&self.db);
        let checked = self.db.define(|cx| self.db.check_table(cx, &self.table));
        assert_eq!(checked.unwrap(), (rows.len() as u64, Vec::new()));
    }
}

#[test]
fn entries_follow_random_changes() {
    for seed in 0..12 {
        let db = open(KvMem::open(KvMemOptions::default()).unwrap()).unwrap();
        create(&db).unwrap();
        let mut changes = ArrayChanges {
            db: db.clone(),
            table: table(&db).unwrap(),
            refused: 0,
        };
        run_changes(&db, &mut Rng::new(seed), 120, &mut changes);
        assert!(changes.refused > 10, "refused: {}", changes.refused);
    }
}

#[test]
fn entries_match_their_rows_after_a_power_failure() {
    // Replaces a row, whose elements move to it from others.
    let step = |db: &Arc<Db>, table: &Arc<Table>, n: u64| {
        let mut txn = db.begin(BeginOptions::default()).ok()?;
        let (a, b) = ((n % 7) as u8, (n % 5) as u8);
        let new = row((n % 6) as i64, &Some(vec![a, 10 + b, a]));
        txn.insert(table, vec![new], InsertMode::Replace).ok()?;
        Some(txn.commit().ok()?.position)
    };
    let steps = Steps {
        count: 30,
        open: &open,
        create: &create,
        step: &step,
    };
    steps.cut(&|db, table, what| {
        verify(db);
        let (_, problems) = db.define(|cx| db.check_table(cx, table)).unwrap();
        assert!(problems.is_empty(), "{what}: {problems:?}");
    });
}
