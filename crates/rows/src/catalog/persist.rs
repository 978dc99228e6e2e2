//! The catalog on disk: rows of one catalog space (docs/formats.md, "Catalog").
//!
//! A database is one row, a table with all its columns, indexes and foreign
//! keys is one row, and so is a histogram of a column. A DDL statement writes the rows it changes and the
//! catalog version in one transaction; recovery therefore finds either the
//! definition before or the one after.
//!
//! Invariants:
//! 1. Every row starts with [`CATALOG_FORMAT_VERSION`], that of a histogram with
//!    [`HISTOGRAM_FORMAT_VERSION`]. A newer version is refused at the start, with a message.
//! 2. Derived fields are not stored.

pub(crate) mod cluster;
mod table;

use super::event::{self, EventKey};
use super::routine::{self, RoutineKey};
use super::triggers::{read_triggers, write_triggers};
use super::{Catalog, CheckOption, ColumnId, Database, Table, TableId};
use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};
use crate::histogram::{HISTOGRAM_FORMAT_VERSION, Histogram};
use porpoise_kv::{Check, CounterId, Key, Read, ScanRange, SpaceId, Txn};
use porpoise_types::Collation;
use std::ops::ControlFlow;
use std::sync::Arc;
use table::{read_table, write_table};

/// Version of the rows of the catalog space.
pub const CATALOG_FORMAT_VERSION: u8 = 11;
/// The oldest version that is still read.
const OLDEST_READABLE_VERSION: u8 = 1;

/// The space that holds the catalog.
pub const CATALOG_SPACE: SpaceId = SpaceId(1);

/// Counter of table ids. Counter 1 is that of row versions.
pub const TABLE_IDS: CounterId = CounterId(2);

const KEY_META: u8 = 0;
const KEY_DATABASE: u8 = 1;
const KEY_TABLE: u8 = 2;
const KEY_VIEW: u8 = 3;
const KEY_HISTOGRAM: u8 = 4;
const KEY_ROUTINE: u8 = 5;
const KEY_EVENT: u8 = 7;
const KEY_TRIGGERS: u8 = 6;
const KEY_CHANGE: u8 = 8;
const KEY_TOKEN: u8 = 9;

fn database_key(name: &str) -> Vec<u8> {
    let mut key = vec![KEY_DATABASE];
    key.extend_from_slice(name.as_bytes());
    key
}

/// Key of a view. Names are separated by NUL, which they cannot contain.
fn view_key(database: &str, name: &str) -> Vec<u8> {
    let mut key = vec![KEY_VIEW];
    key.extend_from_slice(database.as_bytes());
    key.push(0);
    key.extend_from_slice(name.as_bytes());
    key
}

fn routine_key(key: &RoutineKey) -> Vec<u8> {
    let mut bytes = vec![KEY_ROUTINE];
    bytes.extend(routine::key_bytes(key));
    bytes
}

fn event_key((database, name): &EventKey) -> Vec<u8> {
    let mut bytes = vec![KEY_EVENT];
    bytes.extend_from_slice(database.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(name.as_bytes());
    bytes
}

fn triggers_key(id: TableId) -> Vec<u8> {
    let mut key = vec![KEY_TRIGGERS];
    key.extend_from_slice(&id.0.to_be_bytes());
    key
}

fn table_key(id: TableId) -> Vec<u8> {
    let mut key = vec![KEY_TABLE];
    key.extend_from_slice(&id.0.to_be_bytes());
    key
}

fn histogram_key(table: TableId, column: ColumnId) -> Vec<u8> {
    let mut key = vec![KEY_HISTOGRAM];
    key.extend_from_slice(&table.0.to_be_bytes());
    key.extend_from_slice(&column.0.to_be_bytes());
    key
}

/// Reads the whole catalog as of now. An empty space is an empty catalog.
pub fn load(txn: &mut dyn Txn) -> Result<Catalog> {
    let mut catalog = read_rows(txn)?;
    catalog.derive();
    Ok(catalog)
}

/// As [`load`]; what did not change since `old` was read is shared with it.
pub(crate) fn reload(txn: &mut dyn Txn, old: &Catalog) -> Result<Catalog> {
    let mut catalog = read_rows(txn)?;
    cluster::reuse(old, &mut catalog);
    catalog.derive();
    Ok(catalog)
}

/// Reads the rows of the catalog. Derived fields are missing.
fn read_rows(txn: &mut dyn Txn) -> Result<Catalog> {
    let mut catalog = Catalog::default();
    let mut failed = None;
    let range = ScanRange {
        space: CATALOG_SPACE,
        start: &[],
        end: None,
        reverse: false,
    };
    txn.scan(
        Read::CURRENT,
        &[range],
        usize::MAX,
        &mut |_, key, value| match add_row(&mut catalog, key, value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        },
    )?;
    if let Some(error) = failed {
        return Err(error);
    }
    link_names(&mut catalog)?;
    Ok(catalog)
}

/// Reads the readable definitions of a damaged catalog. Also returns its problems, one line each.
///
/// # Errors
/// The engine's.
pub fn load_readable(txn: &mut dyn Txn) -> Result<(Catalog, Vec<String>)> {
    let mut catalog = Catalog::default();
    let mut problems = Vec::new();
    let range = ScanRange {
        space: CATALOG_SPACE,
        start: &[],
        end: None,
        reverse: false,
    };
    txn.scan(Read::CURRENT, &[range], usize::MAX, &mut |_, key, value| {
        if let Err(error) = add_row(&mut catalog, key, value) {
            problems.push(format!("a definition cannot be read: {error}"));
        }
        ControlFlow::Continue(())
    })?;
    let tables: Vec<_> = catalog.tables.values().cloned().collect();
    for table in tables {
        if !catalog.databases.contains_key(&table.database) {
            problems.push(format!(
                "the definition of database {} is lost",
                table.database
            ));
            let database = Database {
                name: table.database.clone(),
                collation: table.options.collation,
                tables: Default::default(),
            };
            catalog
                .databases
                .insert(table.database.clone(), Arc::new(database));
        }
    }
    link_names(&mut catalog)?;
    catalog.derive();
    Ok((catalog, problems))
}

fn add_row(catalog: &mut Catalog, key: &[u8], value: &[u8]) -> Result<()> {
    let Some((kind, rest)) = key.split_first() else {
        return Err(Error::corrupt("an empty key in the catalog"));
    };
    match *kind {
        KEY_HISTOGRAM => return add_histogram(catalog, rest, value),
        KEY_TRIGGERS => return add_triggers(catalog, rest, value),
        KEY_TOKEN => return Ok(()),
        _ => {}
    }
    let mut r = Reader::new(value);
    let version = read_version(&mut r)?;
    match *kind {
        KEY_META => catalog.version = r.u64()?,
        KEY_DATABASE => {
            let name = String::from_utf8_lossy(rest).into_owned();
            let database = Database {
                name: name.clone(),
                collation: Collation(r.u16()?),
                tables: Default::default(),
            };
            catalog.databases.insert(name, Arc::new(database));
        }
        KEY_TABLE => {
            let table = read_table(&mut r, version)?;
            catalog.tables.insert(table.id, Arc::new(Table::new(table)));
        }
        KEY_VIEW => {
            let view = read_view(&mut r)?;
            let key = (view.database.clone(), view.name.clone());
            catalog.views.insert(key, Arc::new(view));
        }
        KEY_ROUTINE => {
            let routine = routine::read_routine(&mut r)?;
            catalog.routines.insert(routine.key(), Arc::new(routine));
        }
        KEY_EVENT => {
            let event = event::read_event(&mut r)?;
            catalog.events.insert(event.key(), Arc::new(event));
        }
        KEY_CHANGE => cluster::add_change(catalog, rest, &mut r)?,
        other => {
            return Err(Error::corrupt(&format!("catalog row of kind {other}")));
        }
    }
    Ok(())
}

/// Reads and checks the format version of a row.
fn read_version(r: &mut Reader<'_>) -> Result<u8> {
    let version = r.u8()?;
    if (OLDEST_READABLE_VERSION..=CATALOG_FORMAT_VERSION).contains(&version) {
        return Ok(version);
    }
    Err(Error::corrupt(&format!(
        "catalog format version {version}; this server reads versions {OLDEST_READABLE_VERSION} to {CATALOG_FORMAT_VERSION}"
    )))
}

/// Adds the triggers of a table, which was read before, because rows come in the order of their
/// keys.
fn add_triggers(catalog: &mut Catalog, key: &[u8], value: &[u8]) -> Result<()> {
    let corrupt = || Error::corrupt("triggers of an unknown table");
    let id = <[u8; 8]>::try_from(key).map_err(|_| corrupt())?;
    let table = catalog.tables.get_mut(&TableId(u64::from_be_bytes(id)));
    let table = table.ok_or_else(corrupt)?;
    let mut r = Reader::new(value);
    read_version(&mut r)?;
    let mut def = table.definition().clone();
    def.triggers = read_triggers(&mut r)?.into();
    *table = Arc::new(table.with_definition(def));
    Ok(())
}

/// Writes the triggers of tables where they differ.
fn write_all_triggers(txn: &mut dyn Txn, old: &Catalog, new: &Catalog) -> Result<()> {
    for difference in new.tables.differences(&old.tables, Arc::ptr_eq) {
        let triggers = |table: Option<&Arc<Table>>| table.map(|table| table.triggers.clone());
        let before = triggers(difference.before).unwrap_or_default();
        let after = triggers(difference.after).unwrap_or_default();
        if before == after {
            continue;
        }
        let key = triggers_key(*difference.key);
        if after.is_empty() {
            put_or_delete(txn, &key, None)?;
            continue;
        }
        let mut w = Writer::new();
        w.u8(CATALOG_FORMAT_VERSION);
        write_triggers(&mut w, &after);
        put_or_delete(txn, &key, Some(w.as_slice()))?;
    }
    Ok(())
}

/// Adds a histogram. Its table was read before, because rows come in the order of their keys.
fn add_histogram(catalog: &mut Catalog, key: &[u8], value: &[u8]) -> Result<()> {
    let corrupt = || Error::corrupt("a histogram of an unknown column");
    let (table, column) = key.split_first_chunk::<8>().ok_or_else(corrupt)?;
    let column = <[u8; 4]>::try_from(column).map_err(|_| corrupt())?;
    let id = TableId(u64::from_be_bytes(*table));
    let column_id = ColumnId(u32::from_be_bytes(column));
    let table = catalog.tables.get(&id).ok_or_else(corrupt)?;
    let column = table.columns.iter().find(|c| c.id == column_id);
    let ty = &column.ok_or_else(corrupt)?.ty;
    let (version, document) = value.split_first().ok_or_else(corrupt)?;
    if *version != HISTOGRAM_FORMAT_VERSION {
        return Err(Error::corrupt(&format!(
            "histogram format version {version}; this server reads version {HISTOGRAM_FORMAT_VERSION}"
        )));
    }
    match Histogram::from_document(document, ty, 0) {
        Ok(histogram) => {
            let histograms = &mut catalog.histograms;
            histograms.insert((id, column_id), Arc::new(histogram));
        }
        // Only speed depends on it: no reason to refuse the tables.
        Err(error) => {
            let (name, column) = (table.quoted_name(), column_id.0);
            tracing::warn!(
                ?error,
                "the histogram of column {column} of table {name} cannot be read: make it again by ANALYZE TABLE"
            );
        }
    }
    Ok(())
}

/// Writes the routines that differ.
fn write_routines(txn: &mut dyn Txn, old: &Catalog, new: &Catalog) -> Result<()> {
    for (key, routine) in &new.routines {
        if old.routines.get(key) != Some(routine) {
            let mut w = Writer::new();
            w.u8(CATALOG_FORMAT_VERSION);
            routine::write_routine(&mut w, routine);
            put_or_delete(txn, &routine_key(key), Some(w.as_slice()))?;
        }
    }
    for key in old.routines.keys() {
        if !new.routines.contains_key(key) {
            put_or_delete(txn, &routine_key(key), None)?;
        }
    }
    Ok(())
}

/// Writes the events that differ.
fn write_events(txn: &mut dyn Txn, old: &Catalog, new: &Catalog) -> Result<()> {
    for (key, event) in &new.events {
        if old.events.get(key) != Some(event) {
            let mut w = Writer::new();
            w.u8(CATALOG_FORMAT_VERSION);
            event::write_event(&mut w, event);
            put_or_delete(txn, &event_key(key), Some(w.as_slice()))?;
        }
    }
    for key in old.events.keys() {
        if !new.events.contains_key(key) {
            put_or_delete(txn, &event_key(key), None)?;
        }
    }
    Ok(())
}

/// Writes the histograms that differ.
fn write_histograms(txn: &mut dyn Txn, old: &Catalog, new: &Catalog) -> Result<()> {
    for ((table, column), histogram) in &new.histograms {
        let before = old.histograms.get(&(*table, *column));
        if before.is_none_or(|b| !Arc::ptr_eq(b, histogram)) {
            let mut value = vec![HISTOGRAM_FORMAT_VERSION];
            value.extend_from_slice(&histogram.to_stored_document().to_text());
            put_or_delete(txn, &histogram_key(*table, *column), Some(&value))?;
        }
    }
    for (table, column) in old.histograms.keys() {
        if !new.histograms.contains_key(&(*table, *column)) {
            put_or_delete(txn, &histogram_key(*table, *column), None)?;
        }
    }
    Ok(())
}

fn link_names(catalog: &mut Catalog) -> Result<()> {
    let names: Vec<(String, String, TableId)> = catalog
        .tables
        .values()
        .map(|t| (t.database.clone(), t.name.clone(), t.id))
        .collect();
    for (database, name, id) in names {
        let Some(database) = catalog.databases.get_mut(&database) else {
            return Err(Error::corrupt(&format!(
                "table `{name}` of unknown database `{database}`"
            )));
        };
        Arc::make_mut(database).tables.insert(name, id);
    }
    Ok(())
}

/// Writes the rows that differ between `old` and `new`, and the new version number.
pub(crate) fn write_changes(txn: &mut dyn Txn, old: &Catalog, new: &Catalog) -> Result<()> {
    let mut w = Writer::new();
    w.u8(CATALOG_FORMAT_VERSION);
    w.u64(new.version);
    put_or_delete(txn, &[KEY_META], Some(w.as_slice()))?;
    let has_same_row = |a: &Arc<Database>, b: &Arc<Database>| a.collation == b.collation;
    for difference in new.databases.differences(&old.databases, has_same_row) {
        let key = database_key(difference.key);
        let Some(database) = difference.after else {
            put_or_delete(txn, &key, None)?;
            continue;
        };
        let mut w = Writer::new();
        w.u8(CATALOG_FORMAT_VERSION);
        w.u16(database.collation.0);
        put_or_delete(txn, &key, Some(w.as_slice()))?;
    }
    for difference in new.tables.differences(&old.tables, Arc::ptr_eq) {
        let key = table_key(*difference.key);
        let Some(table) = difference.after else {
            put_or_delete(txn, &key, None)?;
            continue;
        };
        let mut w = Writer::new();
        w.u8(CATALOG_FORMAT_VERSION);
        write_table(&mut w, table);
        put_or_delete(txn, &key, Some(w.as_slice()))?;
    }
    for ((database, name), view) in &new.views {
        let before = old.views.get(&(database.clone(), name.clone()));
        if before != Some(view) {
            let mut w = Writer::new();
            w.u8(CATALOG_FORMAT_VERSION);
            write_view(&mut w, view);
            put_or_delete(txn, &view_key(database, name), Some(w.as_slice()))?;
        }
    }
    for (database, name) in old.views.keys() {
        let key = (database.clone(), name.clone());
        if !new.views.contains_key(&key) {
            put_or_delete(txn, &view_key(database, name), None)?;
        }
    }
    write_routines(txn, old, new)?;
    write_events(txn, old, new)?;
    cluster::write_definition_changes(txn, old, new)?;
    write_all_triggers(txn, old, new)?;
    write_histograms(txn, old, new)
}

/// Writes or deletes a row without a lock of its own: the caller's lock on the version row
/// serializes changes of the catalog.
fn put_or_delete(txn: &mut dyn Txn, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    let key = Key::new(CATALOG_SPACE, key);
    match value {
        Some(value) => txn.put(key, value, Check::Blind)?,
        None => txn.delete(key, Check::Blind)?,
    }
    Ok(())
}

/// The key of the row that serializes changes of the catalog.
pub(crate) fn version_key() -> Key<'static> {
    Key::new(CATALOG_SPACE, &[KEY_META])
}

fn write_view(w: &mut Writer, v: &super::View) {
    w.str(&v.database);
    w.str(&v.name);
    w.str(&v.query);
    w.list(&v.columns, |w, c| w.str(c));
    w.str(&v.algorithm);
    w.u8(match v.check {
        CheckOption::None => 0,
        CheckOption::Local => 1,
        CheckOption::Cascaded => 2,
    });
    w.str(&v.definer);
    w.bool(v.invoker);
    w.str(&v.charset);
    w.str(&v.collation);
}

fn read_view(r: &mut Reader<'_>) -> Result<super::View> {
    Ok(super::View {
        database: r.str()?,
        name: r.str()?,
        query: r.str()?,
        columns: r.list(|r| r.str())?,
        algorithm: r.str()?,
        check: match r.u8()? {
            0 => CheckOption::None,
            1 => CheckOption::Local,
            2 => CheckOption::Cascaded,
            other => return Err(Error::corrupt(&format!("check option {other}"))),
        },
        definer: r.str()?,
        invoker: r.bool()?,
        charset: r.str()?,
        collation: r.str()?,
    })
}
