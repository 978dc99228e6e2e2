//! Helpers shared by the tests of this crate: a builder of tables, a counting engine,
//! and a check of rows against index entries.

#![allow(dead_code, reason = "each test uses its part")]

pub mod counting;
pub mod naive;
pub mod naive_columns;
pub mod random_changes;
pub mod running;
pub mod verify;

use porpoise_base::clock;
use porpoise_base::disk::MemDisk;
use porpoise_kv::{Check, CounterId, Durability, Engine, Key, SpaceId, SpaceSpec};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::{
    Catalog, Column, ColumnDefault, ColumnId, Database, FkAction, FkParent, ForeignKey, Index,
    IndexKind, IndexPart, IndexState, LayoutDef, Table, TableDef, TableId, TableOptions,
};
use porpoise_rows::partition::{Method, Partition, PartitionBound, Partitioning};
use porpoise_rows::shared_map::SharedMap;
use porpoise_rows::triggers::{Trigger, Triggers};
use porpoise_rows::{BeginOptions, Db, DbOptions, Error, InsertMode, Lookup, Txn};
use porpoise_types::{Collation, ColumnType, Kind, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Definition of a foreign key: name, columns, parent, its columns, actions.
#[derive(Clone)]
pub struct FkDef {
    pub name: String,
    pub columns: Vec<String>,
    pub parent: String,
    pub parent_columns: Vec<String>,
    pub on_delete: FkAction,
    pub on_update: FkAction,
}

/// Definition of a table.
#[derive(Clone, Default)]
pub struct Def {
    pub name: String,
    columns: Vec<Column>,
    keys: Vec<(IndexKind, String, Vec<String>)>,
    fks: Vec<FkDef>,
    partitioning: Option<Partitioning>,
    triggers: Triggers,
}

/// A table of that name.
pub fn table(name: &str) -> Def {
    Def {
        name: name.into(),
        ..Def::default()
    }
}

/// A table whose first column is its primary key, `id INT`.
pub fn ids(name: &str) -> Def {
    table(name).int("id").primary(&["id"])
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_string()).collect()
}

impl Def {
    /// A NOT NULL column.
    pub fn column(mut self, name: &str, ty: ColumnType) -> Def {
        let id = ColumnId(u32::try_from(self.columns.len()).unwrap() + 1);
        self.columns.push(Column {
            nullable: false,
            default: ColumnDefault::None,
            ..Column::new(id, name, ty)
        });
        self
    }

    /// INT NOT NULL.
    pub fn int(self, name: &str) -> Def {
        self.column(name, ColumnType::int(Kind::Int))
    }

    /// VARCHAR(n) NOT NULL.
    pub fn text(self, name: &str, n: u32, collation: Collation) -> Def {
        self.column(name, ColumnType::varchar(n, collation))
    }

    /// The last column may be NULL.
    pub fn null(mut self) -> Def {
        self.columns.last_mut().unwrap().nullable = true;
        self
    }

    /// The last column is AUTO_INCREMENT.
    pub fn auto(mut self) -> Def {
        self.columns.last_mut().unwrap().auto_increment = true;
        self
    }

    /// With these triggers.
    pub fn triggers(mut self, triggers: &[Trigger]) -> Def {
        self.triggers = triggers.into();
        self
    }

    /// PARTITION BY.
    pub fn by(mut self, partitioning: Partitioning) -> Def {
        self.partitioning = Some(partitioning);
        self
    }

    pub fn primary(mut self, columns: &[&str]) -> Def {
        self.keys
            .insert(0, (IndexKind::Primary, "PRIMARY".into(), strings(columns)));
        self
    }

    pub fn unique(mut self, name: &str, columns: &[&str]) -> Def {
        self.keys
            .push((IndexKind::Unique, name.into(), strings(columns)));
        self
    }

    pub fn key(mut self, name: &str, columns: &[&str]) -> Def {
        self.keys
            .push((IndexKind::Plain, name.into(), strings(columns)));
        self
    }

    /// FOREIGN KEY (columns) REFERENCES parent (parent_columns).
    pub fn fk(self, name: &str, columns: &[&str], parent: &str, parent_columns: &[&str]) -> Def {
        self.fk_with(
            name,
            columns,
            parent,
            parent_columns,
            FkAction::NoAction,
            FkAction::NoAction,
        )
    }

    pub fn fk_with(
        mut self,
        name: &str,
        columns: &[&str],
        parent: &str,
        parent_columns: &[&str],
        on_delete: FkAction,
        on_update: FkAction,
    ) -> Def {
        self.fks.push(FkDef {
            name: name.into(),
            columns: strings(columns),
            parent: parent.into(),
            parent_columns: strings(parent_columns),
            on_delete,
            on_update,
        });
        self
    }
}

fn build_table(engine: &dyn Engine, number: usize, def: &Def) -> TableDef {
    let position = |name: &String| def.columns.iter().position(|c| c.name == *name).unwrap();
    let hidden_key = def.keys.first().is_none_or(|k| k.0 != IndexKind::Primary);
    let mut keys = def.keys.clone();
    if hidden_key {
        keys.insert(0, (IndexKind::Primary, "PRIMARY".into(), Vec::new()));
    }
    let partitions = def
        .partitioning
        .as_ref()
        .map_or(1, Partitioning::leaf_count);
    let spaces = engine
        .create_spaces(&vec![SpaceSpec::default(); (keys.len() + 1) * partitions])
        .unwrap();
    let indexes = keys
        .iter()
        .zip(spaces.chunks(partitions))
        .enumerate()
        .map(|(n, ((kind, name, columns), spaces))| Index {
            id: u32::try_from(n).unwrap() + 1,
            name: name.clone(),
            kind: *kind,
            parts: columns
                .iter()
                .map(|c| IndexPart {
                    column: position(c),
                    prefix: None,
                    desc: false,
                })
                .collect(),
            spaces: spaces.to_vec(),
            state: IndexState::Public,
            using_hash: false,
            implicit: false,
            comment: String::new(),
            invisible: false,
            full_text: None,
        })
        .collect();
    TableDef {
        changing: Vec::new(),
        duplicates: None,
        unfinished: Default::default(),
        id: TableId(number as u64 + 1),
        database: "d".into(),
        name: def.name.clone(),
        version: 1,
        incompatible_since: 0,
        columns: def.columns.clone(),
        next_column: 100,
        indexes,
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        hidden_key,
        counter: CounterId(spaces[0].0),
        layouts: vec![LayoutDef {
            version: 1,
            columns: def.columns.iter().map(|c| (c.id, c.ty.clone())).collect(),
        }],
        options: TableOptions::new(Collation::UTF8MB4_GENERAL_CI),
        partitioning: def.partitioning.clone(),
        overflow_spaces: spaces[keys.len() * partitions..].to_vec(),
        colocate: None,
        triggers: def.triggers.clone(),
    }
}

/// Resolves foreign keys; returns the constraints that reference each table.
fn resolve(tables: &mut [TableDef], defs: &[Def]) -> Vec<Vec<(TableId, usize)>> {
    let mut referenced_by = vec![Vec::new(); tables.len()];
    for (n, def) in defs.iter().enumerate() {
        for fk in &def.fks {
            let p = defs.iter().position(|d| d.name == fk.parent).unwrap();
            let columns: Vec<usize> = fk
                .columns
                .iter()
                .map(|c| tables[n].column(c).unwrap())
                .collect();
            let parent_columns: Vec<usize> = fk
                .parent_columns
                .iter()
                .map(|c| tables[p].column(c).unwrap())
                .collect();
            let index = tables[p]
                .indexes
                .iter()
                .position(|i| {
                    i.kind != IndexKind::Plain
                        && i.parts.len() == parent_columns.len()
                        && i.parts.iter().all(|q| parent_columns.contains(&q.column))
                })
                .expect("a unique index over the referenced columns");
            let order = tables[p].indexes[index]
                .parts
                .iter()
                .map(|q| parent_columns.iter().position(|c| *c == q.column).unwrap())
                .collect();
            let child_index = tables[n]
                .indexes
                .iter()
                .position(|i| {
                    i.parts.len() >= columns.len()
                        && i.parts.iter().zip(&columns).all(|(q, c)| q.column == *c)
                })
                .expect("an index over the child's columns");
            tables[n].foreign_keys.push(ForeignKey {
                name: fk.name.clone(),
                columns,
                parent_database: "d".into(),
                parent_table: fk.parent.clone(),
                parent_columns: fk.parent_columns.clone(),
                on_delete: fk.on_delete,
                on_update: fk.on_update,
                child_index,
                parent: Some(FkParent {
                    table: TableId(p as u64 + 1),
                    index,
                    order,
                }),
            });
            let place = tables[n].foreign_keys.len() - 1;
            referenced_by[p].push((TableId(n as u64 + 1), place));
        }
    }
    referenced_by
}

/// A database `d` with these tables over an engine.
pub fn database(engine: Arc<dyn Engine>, defs: &[Def]) -> Arc<Db> {
    let mut tables: Vec<TableDef> = defs
        .iter()
        .enumerate()
        .map(|(n, def)| build_table(engine.as_ref(), n, def))
        .collect();
    let referenced_by = resolve(&mut tables, defs);
    let names = tables.iter().map(|t| (t.name.clone(), t.id)).collect();
    let catalog = Catalog {
        routines: Default::default(),
        events: Default::default(),
        views: Default::default(),
        histograms: Default::default(),
        changes: Default::default(),
        version: 1,
        waiting: Default::default(),
        databases: SharedMap::from_iter([(
            "d".to_string(),
            Arc::new(Database {
                name: "d".into(),
                collation: Collation::UTF8MB4_GENERAL_CI,
                tables: names,
            }),
        )]),
        tables: tables
            .into_iter()
            .zip(referenced_by)
            .map(|(def, referenced_by)| {
                let mut table = Table::new(def);
                table.referenced_by = referenced_by;
                (table.id, Arc::new(table))
            })
            .collect(),
    };
    Db::with_catalog(engine, clock::system(), DbOptions::default(), catalog)
}

/// The database that an engine holds.
pub fn open(engine: Arc<dyn Engine>) -> Arc<Db> {
    Db::open(engine, clock::system(), DbOptions::default()).unwrap()
}

/// PARTITION BY KEY of the first column.
pub fn by_key(n: u32) -> Partitioning {
    let partition = |id| Partition {
        id,
        name: format!("p{id}"),
        bound: PartitionBound::None,
        comment: String::new(),
        subpartitions: Vec::new(),
    };
    Partitioning {
        method: Method::Key { linear: false },
        columns: vec![0],
        expr: None,
        algorithm: None,
        by_number: true,
        next_id: n,
        sub: None,
        partitions: (0..n).map(partition).collect(),
    }
}

/// New engines to run a test on: the reference model and the embedded one.
pub fn engines() -> Vec<Arc<dyn Engine>> {
    use porpoise_kv_mem::{KvMem, KvMemOptions};
    vec![
        Arc::new(porpoise_kv::model::Model::new()),
        KvMem::open(KvMemOptions::default()).unwrap(),
    ]
}

/// The same over a new reference model.
pub fn model_database(defs: &[Def]) -> Arc<Db> {
    database(Arc::new(porpoise_kv::model::Model::new()), defs)
}

pub fn get(db: &Db, name: &str) -> Arc<Table> {
    db.catalog().table("d", name).unwrap().clone()
}

pub fn begin(db: &Arc<Db>) -> Txn {
    db.begin(BeginOptions::default()).unwrap()
}

pub fn int(v: i64) -> Value {
    Value::Int(v)
}

pub fn text(v: &str) -> Value {
    Value::Bytes(v.as_bytes().to_vec())
}

pub const NULL: Value = Value::Null;

/// A row of integers; `i64::MIN` is NULL.
pub fn row(values: &[i64]) -> Vec<Value> {
    values
        .iter()
        .map(|v| if *v == i64::MIN { NULL } else { int(*v) })
        .collect()
}

/// NULL in [`row`].
pub const N: i64 = i64::MIN;

pub fn insert(txn: &mut Txn, table: &Arc<Table>, rows: &[&[i64]]) -> Result<u64, Error> {
    let rows = rows.iter().map(|r| row(r)).collect();
    txn.insert(table, rows, InsertMode::Plain)
        .map(|d| d.inserted)
}

/// The primary keys of rows by integer.
fn primary_keys(table: &Table, ids: &[i64]) -> Vec<Vec<u8>> {
    let key = |id: &i64| table.key_prefix(0, &[porpoise_types::ValueRef::Int(*id)]);
    ids.iter().map(key).collect()
}

/// Locks and deletes rows by integer primary key, in the order given.
pub fn delete(txn: &mut Txn, table: &Arc<Table>, ids: &[i64]) -> Result<u64, Error> {
    let rows = txn.lock_present(table, &primary_keys(table, ids), |_| true)?;
    txn.delete(table, rows).map(|d| d.deleted)
}

/// The same, with rows locked in another mode.
pub fn delete_locked(
    txn: &mut Txn,
    table: &Arc<Table>,
    ids: &[i64],
    mode: porpoise_kv::LockMode,
) -> Result<u64, Error> {
    let keys = primary_keys(table, ids);
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut rows: Vec<Option<(Vec<u8>, porpoise_rows::RowBuf)>> = vec![None; ids.len()];
    let wait = txn.wait();
    txn.lock(
        &Lookup::primary(table, &refs),
        mode,
        wait,
        &mut |n, found| {
            rows[n] = found.row.map(|r| (keys[n].clone(), r.to_buf()));
        },
    )?;
    txn.delete(table, rows.into_iter().flatten().collect())
        .map(|d| d.deleted)
}

/// Locks rows by integer primary key, in the order given, and changes them.
pub fn update(
    txn: &mut Txn,
    table: &Arc<Table>,
    ids: &[i64],
    set: impl Fn(&mut Vec<Value>),
) -> Result<porpoise_rows::UpdateOutcome, Error> {
    use porpoise_kv::LockMode;
    use porpoise_rows::{RowChange, UpdateMode};
    let keys = primary_keys(table, ids);
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut changes: Vec<Option<RowChange>> = vec![None; ids.len()];
    let wait = txn.wait();
    txn.lock(
        &Lookup::primary(table, &refs),
        LockMode::Update,
        wait,
        &mut |n, found| {
            changes[n] = found.row.map(|r| {
                let mut new = r.values();
                set(&mut new);
                RowChange {
                    key: keys[n].clone(),
                    old: r.to_buf(),
                    new,
                }
            });
        },
    )?;
    txn.update(
        table,
        changes.into_iter().flatten().collect(),
        UpdateMode::Plain,
    )
}

/// All rows of a table, newest state, in key order.
pub fn all(db: &Arc<Db>, name: &str) -> Vec<Vec<Value>> {
    let mut txn = begin(db);
    all_in(&mut txn, &get(db, name))
}

/// All rows as a transaction sees them now.
pub fn all_in(txn: &mut Txn, table: &Table) -> Vec<Vec<Value>> {
    use porpoise_rows::{KeyRange, ScanPosition, ScanSpec};
    let spec = ScanSpec {
        index: 0,
        ranges: vec![KeyRange::ALL],
        reverse: false,
        entries_only: false,
    };
    let mut position = ScanPosition::default();
    let mut rows = Vec::new();
    while txn
        .scan(
            table,
            &spec,
            porpoise_kv::Read::CURRENT,
            &mut position,
            7,
            &mut |_, row| rows.push(row.values()),
        )
        .unwrap()
    {}
    rows
}

/// All rows as integers, NULL as [`N`].
pub fn ints(db: &Arc<Db>, name: &str) -> Vec<Vec<i64>> {
    let number = |v: &Value| match v {
        Value::Int(v) => *v,
        Value::UInt(v) => i64::try_from(*v).unwrap(),
        Value::Null => N,
        other => panic!("{other:?} is not an integer"),
    };
    all(db, name)
        .iter()
        .map(|r| r.iter().map(number).collect())
        .collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|p| digit(p[0]) << 4 | digit(p[1])).collect()
}

/// The space, key and value of each row of a store.
pub type StoredRows = Vec<(SpaceId, Vec<u8>, Vec<u8>)>;

/// The rows of a store that is kept as a fixture. A line is a row, in hexadecimal; `-` is an empty key
/// or value.
pub fn stored_rows(name: &str) -> StoredRows {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let parts: Vec<&str> = line.split(' ').collect();
            let bytes = |at: usize| bytes_of(parts[at].trim_start_matches('-'));
            (SpaceId(parts[0].parse().unwrap()), bytes(1), bytes(2))
        })
        .collect()
}

/// The embedded engine on a disk, in `/store`.
pub fn store_on(disk: &MemDisk) -> Option<Arc<KvMem>> {
    KvMem::open(KvMemOptions {
        dir: Some(PathBuf::from("/store")),
        disk: Arc::new(disk.clone()),
        durability: Durability::Sync,
        segment_bytes: 1 << 16,
        ..KvMemOptions::default()
    })
    .ok()
}

/// A store with these rows, synced.
pub fn store_of(disk: &MemDisk, rows: &[(SpaceId, Vec<u8>, Vec<u8>)]) -> Arc<KvMem> {
    let engine = store_on(disk).unwrap();
    let last = rows.iter().map(|(space, _, _)| *space).max().unwrap();
    let count = (last.0 + 1 - SpaceId::FIRST_FREE.0) as usize;
    let made = engine.create_spaces(&vec![SpaceSpec::default(); count]);
    assert_eq!(made.unwrap().last(), Some(&last));
    // Row versions and table numbers: those in the rows were given out.
    for counter in [CounterId(1), CounterId(2)] {
        engine.set_next_id(counter, 10_000).unwrap();
    }
    let mut txn = engine.begin(Default::default()).unwrap();
    for (space, key, value) in rows {
        txn.put(Key::new(*space, key), value, Check::Blind).unwrap();
    }
    let done = txn.commit().unwrap();
    engine.wait_durable(done.position).unwrap();
    engine
}
