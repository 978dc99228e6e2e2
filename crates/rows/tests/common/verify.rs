//! Check that rows and entries match and no row lacks its parent. It reads the engine's spaces, and
//! builds keys by the documented format.

use super::{all_in, begin};
use porpoise_kv::{Read, ScanRange, TxnOptions};
use porpoise_rows::Db;
use porpoise_rows::catalog::{IndexKind, Table};
use porpoise_types::{Value, ValueRef};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the entries of all spaces of an index; checks that each is in the right space.
fn entries(txn: &mut dyn porpoise_kv::Txn, table: &Table, index: usize) -> Entries {
    let mut found = Entries::new();
    for space in table.index_spaces(index) {
        let range = [ScanRange {
            space: *space,
            start: &[],
            end: None,
            reverse: false,
        }];
        txn.scan(Read::CURRENT, &range, usize::MAX, &mut |_, k, v| {
            assert_eq!(table.space(index, k), *space, "partition of {k:?}");
            assert!(
                found.insert(k.to_vec(), v.to_vec()).is_none(),
                "{k:?} twice"
            );
            ControlFlow::Continue(())
        })
        .unwrap();
    }
    found
}

/// The values of the parts of each entry of a row: the elements of an array one by one.
fn parts_of_entries<'r>(table: &Table, index: usize, row: &'r [Value]) -> Vec<Vec<ValueRef<'r>>> {
    let def = &table.indexes[index];
    let values: Vec<ValueRef<'_>> = def.parts.iter().map(|p| row[p.column].as_ref()).collect();
    let array = table.array_column(def);
    let Some(at) = def.parts.iter().position(|p| Some(p.column) == array) else {
        return vec![values];
    };
    let ValueRef::Bytes(stored) = values[at] else {
        return vec![values];
    };
    let each = porpoise_types::array::elements(stored).map(|element| {
        let mut values = values.clone();
        values[at] = ValueRef::Bytes(element);
        values
    });
    each.collect()
}

fn expected(table: &Table, index: usize, rows: &[(Vec<u8>, Vec<Value>)]) -> Entries {
    let def = &table.indexes[index];
    let mut entries = Entries::new();
    for (primary, values) in rows.iter().flat_map(|(primary, row)| {
        let parts = parts_of_entries(table, index, row);
        parts.into_iter().map(move |values| (primary, values))
    }) {
        let mut key = table.key_prefix(index, &values);
        let null = values.iter().any(|v| v.is_null());
        let value = match def.kind {
            IndexKind::Unique => primary.clone(),
            _ => vec![u8::try_from(primary.len()).unwrap()],
        };
        if def.kind == IndexKind::Plain || null {
            key.extend_from_slice(primary);
        }
        assert!(
            entries.insert(key, value).is_none(),
            "two rows with one key in {}",
            def.name
        );
    }
    entries
}

/// Panics when committed rows, entries and constraints do not agree.
pub fn verify(db: &Arc<Db>) {
    let catalog = db.catalog();
    let mut kv = db.engine().begin(TxnOptions::default()).unwrap();
    for table in catalog.tables.values() {
        let mut txn = begin(db);
        let values = all_in(&mut txn, table);
        let stored = entries(kv.as_mut(), table, 0);
        let rows: Vec<(Vec<u8>, Vec<Value>)> = stored.keys().cloned().zip(values).collect();
        for (primary, row) in &rows {
            if !table.hidden_key {
                assert_eq!(primary, &table.primary_key(row), "{}", table.name);
            }
        }
        // Those of FULLTEXT indexes are in `full_text.rs`.
        let ordered = |index: &usize| !table.indexes[*index].is_full_text();
        for index in (1..table.indexes.len()).filter(ordered) {
            assert_eq!(
                entries(kv.as_mut(), table, index),
                expected(table, index, &rows),
                "index {} of {}",
                table.indexes[index].name,
                table.name
            );
        }
        for fk in &table.foreign_keys {
            let parent = catalog.table("d", &fk.parent_table).unwrap();
            let mut txn = begin(db);
            let columns: Vec<usize> = fk
                .parent_columns
                .iter()
                .map(|c| parent.column(c).unwrap())
                .collect();
            let parents: BTreeSet<String> = all_in(&mut txn, parent)
                .iter()
                .map(|r| format!("{:?}", columns.iter().map(|c| &r[*c]).collect::<Vec<_>>()))
                .collect();
            for (_, row) in &rows {
                let named: Vec<&Value> = fk.columns.iter().map(|c| &row[*c]).collect();
                if named.iter().any(|v| v.is_null()) {
                    continue;
                }
                assert!(
                    parents.contains(&format!("{named:?}")),
                    "orphan {row:?} of {} by {}",
                    table.name,
                    fk.name
                );
            }
        }
    }
}
