//! Copies a table's rows into new spaces, for changes that need new rows: other types, another
//! primary key, generated ids.
//!
//! Rows are copied in batches, one transaction each, into spaces that the catalog refers to only
//! after its commit; spaces left by a crash or failure are dropped at the next start. Every value
//! is converted as by an UPDATE, in the session's SQL mode, so that a strict mode refuses values
//! that do not fit.
//!
//! Invariants:
//! 1. A row keeps its version and its expiry: a copy is not a write by a client.
//! 2. All rows are written in one layout; no column has a backfill afterwards.
//! 3. One engine call per batch checks all unique keys of its rows.

use super::fill;
use crate::autoinc::{column_max, column_value};
use crate::db::Db;
use crate::ddl::text_build::TextBuild;
use crate::ddl::{DdlCx, errors};
use crate::definition::{ColumnDefault, ColumnId, IndexKind};
use crate::error::{Error, Result};
use crate::expressions::{RowContext, RowExpressions};
use crate::overflow;
use crate::row::{RowRef, RowStamp, encode_with};
use crate::table::Table;
use porpoise_kv::{Check, Key, Read, SpaceId, TxnOptions};
use porpoise_types::{
    CastCx, Collation, ColumnType, Kind, SqlMode, Value, ValueRef, store, write_text,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Approximate size of one transaction in bytes.
const BATCH_BYTES: usize = 16 << 20;

/// Options of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ddl) struct CopyOptions {
    /// The column that gets generated ids.
    pub(in crate::ddl) generated_column: Option<ColumnId>,
    /// The first of these ids, if given.
    pub(in crate::ddl) first_id: Option<u64>,
    /// Whether the copy converts values to other types.
    pub(in crate::ddl) converts: bool,
    /// Whether the copy changes the keys of rows.
    pub(in crate::ddl) rekeys_rows: bool,
}

/// Source of a column's value in the new rows.
enum Source {
    /// The column of the old rows at a position, unchanged.
    Unchanged(usize),
    /// The column of the old rows at a position, converted.
    Converted(usize),
    /// The value of an added column.
    Added(Value),
    /// Computed from the row.
    Generated,
    /// An added column whose default is an expression.
    Default,
}

/// An entry to be written.
pub(super) struct Entry {
    pub(super) space: SpaceId,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// Positions of the row in the batch and of the index, if the key must be unique.
    pub(super) unique_position: Option<(usize, usize)>,
}

/// Converts a value to the type of a column. For a JSON column, the text of a number, date or time is parsed as
/// a document.
fn convert_value(
    value: ValueRef<'_>,
    from: Option<&ColumnType>,
    column: &crate::definition::Column,
    row: u64,
    cast: &mut CastCx<'_>,
) -> Result<Value> {
    let (to, name) = (&column.ty, &column.name);
    let is_text = matches!(value, ValueRef::Bytes(_));
    match from.filter(|from| to.kind == Kind::Json && !is_text && from.kind != Kind::Set) {
        Some(from) => {
            let mut text = Vec::new();
            write_text(value, from, &mut text);
            let source = ColumnType::text(Kind::LongText, Collation::UTF8MB4_BIN);
            let text = ValueRef::Bytes(&text);
            Ok(store(text, Some(&source), to, name, row, cast)?)
        }
        None => Ok(store(value, from, to, name, row, cast)?),
    }
}

/// The state of a copy.
pub(super) struct Copy<'a> {
    pub(super) before: &'a Table,
    pub(super) after: &'a Table,
    sources: Vec<Source>,
    /// The column that gets generated ids, and the next one.
    generated_column: Option<usize>,
    next_id: u64,
    generated: bool,
    /// Whether NULL in a NOT NULL column is reported as "data truncated", not as "invalid use of
    /// NULL".
    reports_truncation: bool,
    rows: u64,
    /// The expressions of the new definition, if it has any, and their context.
    expressions: Option<(Arc<dyn RowExpressions>, RowContext)>,
    /// Builds of FULLTEXT indexes, by position of the index.
    text_builds: Vec<Option<TextBuild<'a>>>,
}

fn sources(before: &Table, after: &Table) -> Vec<Source> {
    let source = |column: &crate::definition::Column| {
        let old = before.columns.iter().position(|c| c.id == column.id);
        if column.generated.is_some() {
            return Source::Generated;
        }
        if old.is_none() && matches!(column.default, ColumnDefault::Expr(_)) {
            return Source::Default;
        }
        match old.and_then(|at| Some((at, before.columns.get(at)?))) {
            None => Source::Added(column.backfill.clone()),
            Some((at, old)) if super::columns::have_same_encoding(&old.ty, &column.ty) => {
                Source::Unchanged(at)
            }
            Some((at, _)) => Source::Converted(at),
        }
    };
    after.columns.iter().map(source).collect()
}

impl Copy<'_> {
    /// Whether the values of an old column, by position, are those of a new one, unchanged.
    pub(super) fn is_unchanged(&self, old: usize, new: usize) -> bool {
        matches!(self.sources.get(new), Some(Source::Unchanged(at)) if *at == old)
    }

    /// The values of a row in the new definition.
    pub(super) fn convert(
        &mut self,
        row: &RowRef<'_>,
        cast: &mut CastCx<'_>,
    ) -> Result<Vec<Value>> {
        self.rows += 1;
        let mut values = Vec::with_capacity(self.sources.len());
        for (position, source) in self.sources.iter().enumerate() {
            let column = self.after.columns.get(position);
            let Some(column) = column else { continue };
            let mut value = match source {
                Source::Unchanged(at) => row.get(*at).to_owned(),
                Source::Added(value) => value.clone(),
                Source::Generated | Source::Default => {
                    values.push(Value::Null);
                    continue;
                }
                Source::Converted(at) => {
                    let old = row.get(*at);
                    let from = self.before.columns.get(*at).map(|c| &c.ty);
                    if old.is_null() {
                        Value::Null
                    } else {
                        convert_value(old, from, column, self.rows, cast)?
                    }
                }
            };
            if self.generated_column == Some(position) {
                let zero = cast.mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO);
                let added = matches!(source, Source::Added(_));
                if added || fill::needs_generated_id(&value, zero) {
                    if self.next_id > column_max(column) {
                        return Err(Error::AutoIncrementExhausted);
                    }
                    value = column_value(column, self.next_id);
                    self.next_id += 1;
                    self.generated = true;
                } else {
                    let used = fill::id_of(value.as_ref()).saturating_add(1);
                    self.next_id = self.next_id.max(used);
                }
            } else if value.is_null() && !column.nullable {
                value = self.null_replacement(column, cast)?;
            }
            values.push(value);
        }
        self.compute(&mut values, cast)?;
        Ok(values)
    }

    /// Evaluates the new definition's expressions for a row.
    fn compute(&self, values: &mut [Value], cast: &mut CastCx<'_>) -> Result<()> {
        let Some((expressions, env)) = &self.expressions else {
            return Ok(());
        };
        for (position, source) in self.sources.iter().enumerate() {
            if let (Source::Default, Some(column)) = (source, self.after.columns.get(position)) {
                let mut value = expressions.default(position, values, env)?;
                if value.is_null() && !column.nullable {
                    value = self.null_replacement(column, cast)?;
                }
                if let Some(place) = values.get_mut(position) {
                    *place = value;
                }
            }
        }
        expressions.generate(values, self.rows, env)?;
        for (position, column) in self.after.columns.iter().enumerate() {
            if let (false, Some(place)) = (column.nullable, values.get_mut(position))
                && place.is_null()
            {
                *place = self.null_replacement(column, cast)?;
            }
        }
        expressions.check(values, env)
    }

    /// Handles a NULL in a column that is NOT NULL now.
    fn null_replacement(
        &self,
        column: &crate::definition::Column,
        cast: &mut CastCx<'_>,
    ) -> Result<Value> {
        if cast.strict {
            return Err(if self.reports_truncation {
                errors::null_truncated(&column.name, self.rows)
            } else {
                errors::invalid_null()
            });
        }
        let text = format!(
            "Data truncated for column '{}' at row {}",
            column.name, self.rows
        );
        cast.warn(1265, text);
        Ok(fill::implicit_default(&column.ty))
    }

    /// Adds the texts of a row to the builds of FULLTEXT indexes. Rows are added in the order of
    /// their keys.
    pub(super) fn add_texts(&mut self, values: &[Value], primary: &[u8]) -> Result<()> {
        let mut builds = self.text_builds.iter_mut().flatten();
        builds.try_for_each(|build| build.add_row(values, primary))
    }

    /// Writes what the builds of FULLTEXT indexes have collected.
    pub(super) fn finish_texts(&mut self) -> Result<()> {
        let mut builds = std::mem::take(&mut self.text_builds).into_iter().flatten();
        builds.try_for_each(TextBuild::finish)
    }

    /// The error for a duplicate key of a row with these values.
    pub(super) fn duplicate_error(&self, index: usize, values: &[Value], key: &[u8]) -> Error {
        let error = self.after.duplicate_of_key(index, values, key);
        match error {
            Error::Duplicate { entry, key } if self.generated => errors::resequencing(&entry, &key),
            other => other,
        }
    }
}

impl Db {
    pub(super) fn begin_copy<'a>(
        &'a self,
        cx: &DdlCx<'_>,
        before: &'a Table,
        after: &'a Table,
        options: CopyOptions,
        cast: &CastCx<'_>,
    ) -> Result<Copy<'a>> {
        let position = |id: ColumnId| after.columns.iter().position(|c| c.id == id);
        Ok(Copy {
            before,
            after,
            sources: sources(before, after),
            generated_column: options.generated_column.and_then(position),
            next_id: options.first_id.unwrap_or(1).max(1),
            generated: false,
            reports_truncation: options.converts,
            rows: 0,
            expressions: if after.has_expressions() {
                Some((self.expressions(after)?, fill::row_context(cx, cast)))
            } else {
                None
            },
            text_builds: {
                let build = |(position, index)| {
                    let text_index = after.text_index(position)?;
                    TextBuild::new(self.engine().as_ref(), text_index, index)
                };
                after.indexes.iter().enumerate().map(build).collect()
            },
        })
    }

    /// Copies all rows of `before` to `after`, with all index entries, and raises the counter above
    /// generated ids. Columns are the same if they have the same id. Returns the number of rows.
    pub(in crate::ddl) fn copy_rows(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
        options: CopyOptions,
        cast: &mut CastCx<'_>,
    ) -> Result<u64> {
        let mut copy = self.begin_copy(cx, before, after, options, cast)?;
        let keeps_hidden = before.hidden_key && after.hidden_key && !options.rekeys_rows;
        self.for_each_batch(cx, before, |batch| {
            let mut hidden = 0;
            if after.hidden_key && !keeps_hidden {
                let engine = self.engine().as_ref();
                hidden = self
                    .counters
                    .take_hidden_ids(engine, after, batch.len() as u64)?;
            }
            let mut entries = Vec::with_capacity(batch.len() * after.indexes.len());
            let mut rows = Vec::with_capacity(batch.len());
            let mut held = 0;
            for (n, (pk, bytes)) in batch.iter().enumerate() {
                let whole = overflow::read_complete_row(self, before, pk, bytes)?;
                let row = RowRef::new(before, whole.as_deref().unwrap_or(bytes))?;
                let values = copy.convert(&row, cast)?;
                let mut primary = Vec::new();
                if keeps_hidden {
                    primary.extend_from_slice(pk.get(..8).unwrap_or(pk));
                    after.append_hidden_partition(&values, &mut primary);
                } else if after.hidden_key {
                    primary.extend_from_slice(&(hidden + n as u64).to_be_bytes());
                    after.append_hidden_partition(&values, &mut primary);
                } else {
                    after.append_primary_key(values.as_slice(), &mut primary);
                }
                let stamp = RowStamp {
                    version: row.version(),
                    expiry: row.expiry(),
                };
                after.partition_of_row(&values)?;
                held += self.add_entries(after, n, &primary, &values, stamp, &mut entries)?;
                copy.add_texts(&values, &primary)?;
                rows.push(values);
                if held > BATCH_BYTES {
                    self.write_batch(&copy, &rows, &entries)?;
                    entries.clear();
                    held = 0;
                }
            }
            self.write_batch(&copy, &rows, &entries)
        })?;
        copy.finish_texts()?;
        if copy.generated_column.is_some() {
            self.set_auto_increment(after, copy.next_id)?;
        }
        Ok(copy.rows)
    }

    /// Adds the writes for the row at a position of a batch, except those of FULLTEXT indexes.
    /// Returns the number of bytes.
    pub(super) fn add_entries(
        &self,
        table: &Table,
        n: usize,
        primary: &[u8],
        values: &[Value],
        stamp: RowStamp,
        out: &mut Vec<Entry>,
    ) -> Result<usize> {
        let before = out.len();
        let (heads, chunks) = overflow::new_chunks(self, table, primary, values)?;
        out.extend(chunks.into_iter().map(|(space, key, value)| Entry {
            space,
            key,
            value,
            unique_position: None,
        }));
        for (position, index) in table.indexes.iter().enumerate() {
            if index.kind == IndexKind::Primary {
                let mut value = Vec::new();
                encode_with(table, values, &heads, stamp, &mut value)?;
                if value.len() > self.row_limit {
                    return Err(Error::RowTooBig {
                        size: value.len(),
                        limit: self.row_limit,
                    });
                }
                out.push(Entry {
                    space: table.space(position, primary),
                    key: primary.to_vec(),
                    value,
                    unique_position: (!table.hidden_key).then_some((n, position)),
                });
                continue;
            }
            if index.is_full_text() {
                continue;
            }
            let entries = table.whole_entries(position, values, primary);
            out.extend(entries.into_iter().map(|entry| Entry {
                space: table.space(position, &entry.key),
                key: entry.key,
                value: entry.value,
                unique_position: entry.exclusive.then_some((n, position)),
            }));
        }
        let added = out.get(before..).unwrap_or(&[]);
        Ok(added.iter().map(|e| e.key.len() + e.value.len()).sum())
    }

    /// Checks a batch's unique keys in the order of its rows, and writes the batch.
    fn write_batch(&self, copy: &Copy<'_>, rows: &[Vec<Value>], entries: &[Entry]) -> Result<()> {
        let mut txn = self.engine().begin(TxnOptions::default())?;
        let exclusive: Vec<(&Entry, (usize, usize))> = entries
            .iter()
            .filter_map(|e| Some((e, e.unique_position?)))
            .collect();
        let keys: Vec<Key<'_>> = exclusive
            .iter()
            .map(|(e, _)| Key::new(e.space, &e.key))
            .collect();
        let mut taken = vec![false; keys.len()];
        txn.get(Read::CURRENT, &keys, &mut |at, value| {
            if let Some(place) = taken.get_mut(at) {
                *place = value.is_some();
            }
        })?;
        let mut seen: HashSet<(SpaceId, &[u8])> = HashSet::with_capacity(keys.len());
        for ((entry, (row, index)), taken) in exclusive.iter().zip(taken) {
            if taken || !seen.insert((entry.space, &entry.key)) {
                let values = rows.get(*row).map_or(&[][..], |v| v);
                return Err(copy.duplicate_error(*index, values, &entry.key));
            }
        }
        for entry in entries {
            txn.put(
                Key::new(entry.space, &entry.key),
                &entry.value,
                Check::Blind,
            )?;
        }
        let commit = txn.commit()?;
        self.engine().wait_durable(commit.position)?;
        Ok(())
    }
}
