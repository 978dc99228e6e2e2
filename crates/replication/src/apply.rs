//! Rows events applied to tables, through `rows`.
//!
//! The rows of an event are grouped into calls of `rows` as large as possible: a group ends where a row's key occurs
//! a second time, because a call reads all its rows before it writes the first.
//!
//! A row to be changed or deleted is found by the primary key, else by a unique index whose columns the image before
//! has without NULL, else by one scan of the table for all rows of the group that compares all columns (of equal rows
//! each is taken once).
//!
//! Invariants:
//! 1. A row that is not there, or is there already, is an error with table and key (1032, 1062): the replica differs
//!    from its source.
//! 2. Triggers do not fire: their changes are events of their own. Foreign keys are checked, and their actions executed,
//!    unless the event says that the source has done so ([`flags::NO_FOREIGN_KEY_CHECKS`]).
//!
//! Rejected: statements made of the rows. They would be parsed and planned for each row, and depend on session settings.

use crate::convert::to_storage;
use crate::copied::CopiedRanges;
use crate::event::rows::flags;
use crate::event::{DecodeError, RowChangeKind, RowImage, RowsEvent, TableMap};
use porpoise_kv::{LockMode, Read};
use porpoise_rows::catalog::ColumnDefault;
use porpoise_rows::table::Table;
use porpoise_rows::{
    AutoIncOptions, Error as RowsError, InsertMode, KeyRange, Lookup, RowBuf, RowChange, RowRef,
    ScanPosition, ScanSpec, Txn, UpdateMode,
};
use porpoise_types::{TypeError, Value, ValueRef};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Most rows of a group.
const GROUP: usize = 1000;

/// Rows that a scan for rows without a key reads at a time.
const SCAN: usize = 1000;

/// Failure to apply an event.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// `rows` refuses a change.
    #[error("{0}")]
    Rows(#[from] RowsError),
    /// A value does not fit its column.
    #[error("{}", .0.message)]
    Value(TypeError),
    /// The event cannot be read.
    #[error("{0}")]
    Event(#[from] DecodeError),
    /// A row to be changed or deleted is not there.
    #[error("Can't find record in '{table}' with {key}")]
    NotFound {
        /// The table.
        table: String,
        /// Columns and values that were searched for.
        key: String,
    },
    /// The table differs from the source's.
    #[error("{0}")]
    Definition(String),
}

impl ApplyError {
    /// MySQL's error number.
    #[must_use]
    pub fn number(&self) -> u16 {
        match self {
            ApplyError::Rows(error) => error.code(),
            ApplyError::Value(error) => error.code,
            ApplyError::Event(_) => 1594,
            ApplyError::NotFound { .. } => 1032,
            ApplyError::Definition(_) => 1677,
        }
    }

    /// Whether the same transaction may succeed when it is repeated: another writer was in the way.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, ApplyError::Rows(error) if matches!(error.code(), 1205 | 1213 | 1412))
    }
}

/// Result of applying.
pub type Applied<T> = Result<T, ApplyError>;

/// A change of a row: its kind; the image before, or after if it is an insertion; for an update, the image after.
type ImageChange = (RowChangeKind, RowImage, Option<RowImage>);

/// The images of a row in an event, as storage values by position in the table; `None`: not in the image.
pub(crate) type RowImages = (RowImage, Option<RowImage>);

/// The rows of an event, for a table as it was when they were decoded.
#[derive(Debug)]
pub(crate) struct DecodedRows {
    pub(crate) table: Arc<Table>,
    pub(crate) map: Arc<TableMap>,
    pub(crate) rows: Vec<RowImages>,
}

impl DecodedRows {
    /// Approximate memory use in bytes, besides texts.
    pub(crate) fn bytes(&self) -> usize {
        let values =
            |(first, second): &RowImages| first.len() + second.as_ref().map_or(0, Vec::len);
        let values: usize = self.rows.iter().map(values).sum();
        values * size_of::<Option<Value>>()
    }
}

/// A table map matched with a table of this server.
#[derive(Debug)]
pub struct MappedTable {
    table: Arc<Table>,
    map: Arc<TableMap>,
    /// Position in the table of each column of the source.
    positions: Vec<usize>,
    /// Rows that are applied, by the position of a column and ranges of its values; `None`: all.
    restriction: Option<(usize, CopiedRanges)>,
}

impl MappedTable {
    /// Matches columns by their names, if the source logs them, otherwise by their order.
    ///
    /// # Errors
    /// The source has a column that the table lacks.
    pub fn new(table: Arc<Table>, map: Arc<TableMap>) -> Applied<MappedTable> {
        let shown: Vec<usize> = table
            .named_columns()
            .map(|(position, _)| position)
            .collect();
        let lacks = |what: String| {
            ApplyError::Definition(format!(
                "table {} lacks {what} of the source's table",
                table.quoted_name()
            ))
        };
        let positions = match &map.metadata.names {
            Some(names) if names.len() == map.columns.len() => names
                .iter()
                .map(|name| {
                    let name = String::from_utf8_lossy(name);
                    table
                        .column(&name)
                        .ok_or_else(|| lacks(format!("column '{name}'")))
                })
                .collect::<Applied<Vec<_>>>()?,
            _ if map.columns.len() <= shown.len() => shown,
            _ => {
                return Err(lacks(format!(
                    "columns: it has {}, and {} are in the rows",
                    shown.len(),
                    map.columns.len()
                )));
            }
        };
        Ok(MappedTable {
            table,
            map,
            positions,
            restriction: None,
        })
    }

    /// Restricts the changes that are applied to rows in these ranges.
    ///
    /// # Errors
    /// The table lacks the column.
    pub fn restricted(mut self, ranges: &CopiedRanges) -> Applied<MappedTable> {
        let column = self.table.column(ranges.column()).ok_or_else(|| {
            ApplyError::Definition(format!(
                "table {} lacks column '{}', by which an import copies it",
                self.table.quoted_name(),
                ranges.column()
            ))
        })?;
        self.restriction = Some((column, ranges.clone()));
        Ok(self)
    }

    /// Restricts a change to the copied ranges: a row that an update moves into them is inserted, one that it moves out
    /// of them is deleted.
    fn restrict(&self, change: ImageChange) -> Applied<Option<ImageChange>> {
        let Some((column, ranges)) = &self.restriction else {
            return Ok(Some(change));
        };
        let is_inside = |image: &RowImage| {
            let value = image.get(*column).and_then(Option::as_ref);
            let value = value.and_then(|value| match value {
                Value::Int(value) => Some(i128::from(*value)),
                Value::UInt(value) => Some(i128::from(*value)),
                _ => None,
            });
            value.map(|value| ranges.contains(value)).ok_or_else(|| {
                ApplyError::Definition(format!(
                    "an event of table {} lacks column '{}', by which an import copies it: set \
                     binlog_row_image = FULL at the source",
                    self.table.quoted_name(),
                    ranges.column()
                ))
            })
        };
        let (kind, first, second) = change;
        let Some(after) = second else {
            return Ok(is_inside(&first)?.then_some((kind, first, None)));
        };
        Ok(match (is_inside(&first)?, is_inside(&after)?) {
            (true, true) => Some((kind, first, Some(after))),
            (true, false) => Some((RowChangeKind::Delete, first, None)),
            (false, true) => Some((RowChangeKind::Insert, after, None)),
            (false, false) => None,
        })
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The images of an event's rows as storage values by position in the table; `None`: not in the image.
    pub(crate) fn decode<'e>(
        &'e self,
        event: &'e RowsEvent,
    ) -> Applied<impl Iterator<Item = Applied<(RowImage, Option<RowImage>)>> + 'e> {
        let is_unsigned = |column: usize| {
            let position = self.positions.get(column);
            let column = position.and_then(|position| self.table.columns.get(*position));
            column.is_some_and(|column| column.ty.unsigned)
        };
        let images = event.images(&self.map, is_unsigned)?;
        Ok(images.map(|images| {
            let (first, second) = images?;
            let second = second.map(|image| self.image(image)).transpose()?;
            Ok((self.image(first)?, second))
        }))
    }

    fn image(&self, image: RowImage) -> Applied<RowImage> {
        let mut row: RowImage = vec![None; self.table.columns.len()];
        for (at, (value, position)) in image.into_iter().zip(&self.positions).enumerate() {
            let (Some(value), Some(wire), Some(column)) = (
                value,
                self.map.columns.get(at),
                self.table.columns.get(*position),
            ) else {
                continue;
            };
            let collation = self.map.collation(at);
            let value = to_storage(value, wire, collation, &column.ty, &column.name)
                .map_err(ApplyError::Value)?;
            if let Some(place) = row.get_mut(*position) {
                *place = Some(value);
            }
        }
        Ok(row)
    }

    /// Applies an event in a transaction. Returns the number of rows.
    ///
    /// # Errors
    /// See [`ApplyError`]. The transaction must be rolled back.
    pub fn apply(&self, txn: &mut Txn, event: &RowsEvent) -> Applied<u64> {
        self.apply_rows(txn, event, self.decode(event)?)
    }

    /// Applies an event whose rows are already decoded, unless the table has changed since.
    ///
    /// # Errors
    /// As [`MappedTable::apply`].
    pub(crate) fn apply_decoded(
        &self,
        txn: &mut Txn,
        event: &RowsEvent,
        decoded: DecodedRows,
    ) -> Applied<u64> {
        if Arc::ptr_eq(&decoded.table, &self.table) && *decoded.map == *self.map {
            self.apply_rows(txn, event, decoded.rows.into_iter().map(Ok))
        } else {
            self.apply(txn, event)
        }
    }

    fn apply_rows(
        &self,
        txn: &mut Txn,
        event: &RowsEvent,
        decoded: impl Iterator<Item = Applied<RowImages>>,
    ) -> Applied<u64> {
        txn.set_foreign_key_checks(event.flags & flags::NO_FOREIGN_KEY_CHECKS == 0);
        let mut group = Group::default();
        let mut group_kind = event.kind;
        let mut rows = 0;
        for images in decoded {
            let (first, second) = images?;
            rows += 1;
            let Some((kind, first, second)) = self.restrict((event.kind, first, second))? else {
                continue;
            };
            if kind != group_kind || !group.admits(self, kind, &first, second.as_ref()) {
                group.flush(self, txn, group_kind)?;
                group_kind = kind;
                group.admits(self, kind, &first, second.as_ref());
            }
            group.rows.push((first, second));
        }
        group.flush(self, txn, group_kind)?;
        Ok(rows)
    }

    /// A new row: columns that the image lacks get their default.
    fn new_row(&self, txn: &Txn, image: RowImage) -> Applied<Vec<Value>> {
        let given: Vec<bool> = image.iter().map(Option::is_some).collect();
        let mut row: Vec<Value> = image
            .into_iter()
            .zip(&self.table.columns)
            .map(|(value, column)| match (value, &column.default) {
                (Some(value), _) => value,
                (None, ColumnDefault::Literal(value)) => value.clone(),
                (None, _) => Value::Null,
            })
            .collect();
        if self.table.has_default_expressions() {
            let is_given = |position: usize| given.get(position).copied().unwrap_or(false);
            txn.fill_default_expressions(&self.table, &mut row, &is_given)?;
        }
        Ok(row)
    }

    /// The index by which rows with these columns are found, with the key of the image; `None`: by a scan.
    fn access(&self, image: &RowImage) -> Option<(usize, Vec<u8>)> {
        let mut indexes = self.table.indexes.iter().enumerate();
        indexes.find_map(|(at, index)| {
            if !index.kind.is_unique() || (at == 0 && self.table.hidden_key) {
                return None;
            }
            // None if a part is NULL or missing.
            let key = self.table.index_key_of_image(at, image)?;
            Some((at, key))
        })
    }

    /// Columns and values of an image's key, for messages; values are cut.
    fn describe(&self, image: &RowImage) -> String {
        let index = self
            .access(image)
            .and_then(|(at, _)| self.table.indexes.get(at));
        let mut out = Vec::new();
        for (position, column) in self.table.columns.iter().enumerate() {
            let is_part =
                index.is_none_or(|index| index.parts.iter().any(|part| part.column == position));
            let Some(Some(value)) = image.get(position).filter(|_| is_part) else {
                continue;
            };
            let mut text = Vec::new();
            match value {
                Value::Null => text.extend_from_slice(b"NULL"),
                value => {
                    let shown = porpoise_types::storage_to_sql(value.as_ref(), &column.ty);
                    porpoise_types::write_text(shown, &column.ty, &mut text);
                }
            }
            let text = String::from_utf8_lossy(&text);
            let text: String = text.chars().take(64).collect();
            out.push(format!("{} = '{text}'", column.name));
            if out.len() == 8 {
                break;
            }
        }
        out.join(", ")
    }

    fn not_found(&self, image: &RowImage) -> ApplyError {
        ApplyError::NotFound {
            table: format!("{}.{}", self.table.database, self.table.name),
            key: self.describe(image),
        }
    }

    /// Locks the rows of these images, in order.
    fn find(&self, txn: &mut Txn, images: &[&RowImage]) -> Applied<Vec<(Vec<u8>, RowBuf)>> {
        let first = images.first().and_then(|image| self.access(image));
        let Some((index, _)) = first else {
            return self.find_by_scan(txn, images);
        };
        let mut keys = Vec::with_capacity(images.len());
        for image in images {
            match self.access(image) {
                Some((at, key)) if at == index => keys.push(key),
                // Another row has NULL in the index.
                _ => return self.find_by_scan(txn, images),
            }
        }
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut found: Vec<Option<(Vec<u8>, RowBuf)>> = vec![None; keys.len()];
        let lookup = Lookup::unique(&self.table, index, &keys);
        let wait = txn.wait();
        txn.lock(&lookup, LockMode::Exclusive, wait, &mut |at, locked| {
            let row = locked.primary.zip(locked.row);
            if let (Some(place), Some((key, row))) = (found.get_mut(at), row) {
                *place = Some((key.to_vec(), row.to_buf()));
            }
        })?;
        found
            .into_iter()
            .zip(images)
            .map(|(found, image)| found.ok_or_else(|| self.not_found(image)))
            .collect()
    }

    /// Finds rows by all columns of their images, with one scan.
    fn find_by_scan(&self, txn: &mut Txn, images: &[&RowImage]) -> Applied<Vec<(Vec<u8>, RowBuf)>> {
        let compared: Vec<usize> = (0..self.table.columns.len())
            .filter(|position| {
                images
                    .iter()
                    .all(|image| image.get(*position).is_some_and(Option::is_some))
            })
            .collect();
        let mut wanted: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
        for (at, image) in images.iter().enumerate().rev() {
            let value = |position: usize| match image.get(position) {
                Some(Some(value)) => value.as_ref(),
                _ => ValueRef::Null,
            };
            wanted
                .entry(fingerprint(&compared, value))
                .or_default()
                .push(at);
        }
        let spec = ScanSpec {
            index: 0,
            ranges: vec![KeyRange::ALL],
            reverse: false,
            entries_only: false,
        };
        let mut found: Vec<Option<Vec<u8>>> = vec![None; images.len()];
        let mut position = ScanPosition::default();
        let mut visit = |key: &[u8], row: RowRef<'_>| {
            let print = fingerprint(&compared, |position| row.get(position));
            if let Some(at) = wanted.get_mut(&print).and_then(Vec::pop)
                && let Some(place) = found.get_mut(at)
            {
                *place = Some(key.to_vec());
            }
        };
        while txn.scan(
            &self.table,
            &spec,
            Read::CURRENT,
            &mut position,
            SCAN,
            &mut visit,
        )? {}
        let mut rows = Vec::with_capacity(images.len());
        for (key, image) in found.into_iter().zip(images) {
            let key = key.ok_or_else(|| self.not_found(image))?;
            let mut locked = None;
            let keys = [key.as_slice()];
            let lookup = Lookup::primary(&self.table, &keys);
            let wait = txn.wait();
            txn.lock(&lookup, LockMode::Exclusive, wait, &mut |_, found| {
                locked = found.row.map(|row| row.to_buf());
            })?;
            rows.push((key, locked.ok_or_else(|| self.not_found(image))?));
        }
        Ok(rows)
    }
}

/// An injective encoding of some columns of a row.
fn fingerprint<'v>(columns: &[usize], value: impl Fn(usize) -> ValueRef<'v>) -> Vec<u8> {
    let mut out = Vec::new();
    for column in columns {
        let mut put = |tag: u8, bytes: &[u8]| {
            out.push(tag);
            out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        match value(*column) {
            ValueRef::Null => put(0, &[]),
            ValueRef::Int(v) => put(1, &v.to_le_bytes()),
            ValueRef::UInt(v) => put(2, &v.to_le_bytes()),
            // -0.0 and 0.0 are equal values.
            ValueRef::Double(v) => put(3, &(v + 0.0).to_bits().to_le_bytes()),
            ValueRef::Decimal(v) => {
                let mut ordered = Vec::new();
                v.append_ordered(&mut ordered);
                put(4, &ordered);
            }
            ValueRef::Bytes(v) => put(5, v),
            ValueRef::Date(v) => put(6, &v.packed().to_le_bytes()),
            ValueRef::DateTime(v) => put(7, &v.packed().to_le_bytes()),
            ValueRef::Time(v) => put(8, &v.as_micros().to_le_bytes()),
        }
    }
    out
}

/// Rows that are written in one call.
#[derive(Default)]
struct Group {
    rows: Vec<(RowImage, Option<RowImage>)>,
    /// Keys of the rows before and after.
    keys: HashSet<Vec<u8>>,
}

impl Group {
    /// Whether a row may be written in the same call as those before. If so, its keys are kept.
    fn admits(
        &mut self,
        mapped: &MappedTable,
        kind: RowChangeKind,
        first: &RowImage,
        second: Option<&RowImage>,
    ) -> bool {
        if self.rows.len() >= GROUP {
            return false;
        }
        if kind == RowChangeKind::Insert {
            return true;
        }
        let key = |image: &RowImage| mapped.access(image).map(|(_, key)| key);
        let before = key(first);
        let after = second.and_then(key);
        let is_known = |key: &Option<Vec<u8>>| key.as_ref().is_some_and(|k| self.keys.contains(k));
        if is_known(&before) || (after != before && is_known(&after)) {
            return false;
        }
        // Without a key a later row may be the result of an earlier one.
        if before.is_none() && second.is_some() && !self.rows.is_empty() {
            return false;
        }
        self.keys.extend(before.into_iter().chain(after));
        true
    }

    fn flush(&mut self, mapped: &MappedTable, txn: &mut Txn, kind: RowChangeKind) -> Applied<()> {
        let rows = std::mem::take(&mut self.rows);
        self.keys.clear();
        if rows.is_empty() {
            return Ok(());
        }
        match kind {
            RowChangeKind::Insert => insert(mapped, txn, rows),
            RowChangeKind::Update => update(mapped, txn, rows),
            RowChangeKind::Delete => delete(mapped, txn, rows),
        }
    }
}

type Images = Vec<(RowImage, Option<RowImage>)>;

fn insert(mapped: &MappedTable, txn: &mut Txn, rows: Images) -> Applied<()> {
    let mut new = Vec::with_capacity(rows.len());
    for (image, _) in rows {
        new.push(mapped.new_row(txn, image)?);
    }
    // Generates nothing, for every row has its id; raises the counter above them.
    let options = AutoIncOptions {
        no_auto_value_on_zero: true,
        ..AutoIncOptions::default()
    };
    txn.assign_auto_increment(&mapped.table, &mut new, options)?;
    txn.insert(&mapped.table, new, InsertMode::Plain)?;
    Ok(())
}

fn update(mapped: &MappedTable, txn: &mut Txn, rows: Images) -> Applied<()> {
    let before: Vec<&RowImage> = rows.iter().map(|(before, _)| before).collect();
    let found = mapped.find(txn, &before)?;
    let mut changes = Vec::with_capacity(rows.len());
    for ((_, after), (key, old)) in rows.into_iter().zip(found) {
        let mut new = old.row(&mapped.table)?.values();
        for (place, value) in new.iter_mut().zip(after.unwrap_or_default()) {
            if let Some(value) = value {
                *place = value;
            }
        }
        changes.push(RowChange { key, old, new });
    }
    txn.update(&mapped.table, changes, UpdateMode::Plain)?;
    Ok(())
}

fn delete(mapped: &MappedTable, txn: &mut Txn, rows: Images) -> Applied<()> {
    let before: Vec<&RowImage> = rows.iter().map(|(before, _)| before).collect();
    let found = mapped.find(txn, &before)?;
    txn.delete(&mapped.table, found)?;
    Ok(())
}
