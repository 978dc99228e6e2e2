//! Batches in a transaction: reads and writes, in their order.
//!
//! Operations of one part with different keys are executed together: one call locks and reads their
//! rows, one call of `rows` checks and writes them. Operations that may affect the rows, or the
//! keys, of later ones are executed one by one ([`is_one_by_one`]). If operations fail together, they are executed
//! again in halves, down to the one that fails alone, so that each has the result that it would have
//! had by itself.
//!
//! Invariants:
//! 1. Operations take effect in their order. Two operations on one key are never executed together.
//! 2. A failed operation has no effect; if it is part of an atomic batch, no operation of the batch has an effect.
//! 3. Conditions are compared with the newest version of a row, under its lock.

use super::{PlannedPart, count, encode};
use crate::context::Context;
use crate::convert;
use crate::failure::{Failure, is_retryable, put_error};
use crate::operation_statistics::Effects;
use crate::plan::{Plan, PlanColumn};
use porpoise_kv::{self as kv, LockMode, Read};
use porpoise_rows::{
    AutoIncOptions, Error, GeneratedIds, InsertMode, Lookup, OverflowFetch, RowBuf, RowChange,
    RowRef, Txn, UpdateMode,
};
use porpoise_types::{Value, ValueRef};
use porpoise_wire::native::batch::{
    Action, Condition, FOR_UPDATE, Operation, Status, WITH_CREATED, WITH_GENERATED_ID, WITH_VERSION,
};
use porpoise_wire::native::value;
use porpoise_wire::native::{Malformed, Reader};
use smallvec::SmallVec;
use std::collections::HashSet;
use std::ops::Range;

/// Maximum number of operations executed together. KILL and time limits are checked between runs.
const MAX_RUN: usize = 1024;

/// Maximum number of operations executed together on a table with overflow values, which are read
/// with their rows.
const MAX_RUN_WITH_OVERFLOW: usize = 64;

/// Maximum size of the rows that a batch in a transaction reads. They are buffered until the batch
/// ends.
const MAX_READ_BYTES: usize = 64 << 20;

/// Outcome of one operation.
#[derive(Debug)]
enum Outcome {
    Aborted,
    Read(Range<usize>),
    Written { version: u64, id: u64, is_new: bool },
    NotFound,
    ConditionFailed,
    Failed(Box<Error>),
}

/// Results of a batch, in the order of its operations.
pub(super) struct Results {
    is_atomic: bool,
    outcomes: Vec<Outcome>,
    /// Rows that were read, encoded.
    rows: Vec<u8>,
}

impl Results {
    pub(super) fn new(is_atomic: bool) -> Results {
        Results {
            is_atomic,
            outcomes: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Replaces the outcomes of operations that were rolled back with `Aborted`.
    pub(super) fn undo(&mut self) {
        for outcome in &mut self.outcomes {
            if matches!(outcome, Outcome::Read(_) | Outcome::Written { .. }) {
                *outcome = Outcome::Aborted;
            }
        }
    }

    /// The effects of the operations of each part. Operations that were undone have none.
    pub(super) fn effects(&self, parts: &[PlannedPart<'_>]) -> SmallVec<[Effects; 2]> {
        let mut outcomes = self.outcomes.iter();
        let of_part = |planned: &PlannedPart<'_>| {
            let mut effects = Effects {
                operations: u64::from(planned.part.rows),
                ..Effects::default()
            };
            for outcome in outcomes.by_ref().take(planned.part.rows as usize) {
                match outcome {
                    Outcome::Read(_) => effects.rows_read += 1,
                    Outcome::Written { .. } => effects.rows_changed += 1,
                    Outcome::Failed(_) => effects.errors += 1,
                    Outcome::Aborted | Outcome::NotFound | Outcome::ConditionFailed => {}
                }
            }
            effects
        };
        parts.iter().map(of_part).collect()
    }

    /// Appends the results.
    pub(super) fn put(&self, parts: &[PlannedPart<'_>], out: &mut Vec<u8>) {
        let flags = parts
            .iter()
            .flat_map(|p| std::iter::repeat_n(p.plan.shape.flags, p.part.rows as usize));
        // Operations after the failed one have no outcome.
        let rest = std::iter::repeat(&Outcome::Aborted);
        for (flags, outcome) in flags.zip(self.outcomes.iter().chain(rest)) {
            match outcome {
                Outcome::Aborted => out.push(Status::Aborted as u8),
                Outcome::NotFound => out.push(Status::NotFound as u8),
                Outcome::ConditionFailed => out.push(Status::ConditionFailed as u8),
                Outcome::Read(range) => {
                    out.push(Status::Ok as u8);
                    out.extend_from_slice(self.rows.get(range.clone()).unwrap_or_default());
                }
                Outcome::Written {
                    version,
                    id,
                    is_new,
                } => {
                    out.push(Status::Ok as u8);
                    if flags & WITH_VERSION != 0 {
                        out.extend_from_slice(&version.to_le_bytes());
                    }
                    if flags & WITH_GENERATED_ID != 0 {
                        out.extend_from_slice(&id.to_le_bytes());
                    }
                    if flags & WITH_CREATED != 0 {
                        out.push(u8::from(*is_new));
                    }
                }
                Outcome::Failed(error) => {
                    out.push(Status::Failed as u8);
                    put_error(out, error);
                }
            }
        }
    }
}

/// Executes the parts of a batch.
///
/// # Errors
/// [`Failure::Operation`] in an atomic batch; errors that end the whole request.
pub(super) fn run(
    context: &Context,
    txn: &mut Txn,
    parts: &[PlannedPart<'_>],
    results: &mut Results,
) -> Result<(), Failure> {
    for planned in parts {
        let first = results.outcomes.len();
        let rows = Rows::parse(&planned.plan, planned.part.data, planned.part.rows)?;
        let added = rows.starts.len();
        results
            .outcomes
            .resize_with(first + added, || Outcome::Aborted);
        let mut run = PartRun {
            context,
            txn: &mut *txn,
            plan: &planned.plan,
            rows: &rows,
            first,
            now: context.db.clock().unix_micros(),
            is_one_by_one: is_one_by_one(&planned.plan),
            results: &mut *results,
        };
        run.run_all()?;
        count(planned.plan.shape.operation, added);
    }
    Ok(())
}

/// The rows of a part: the start and the key of each.
struct Rows<'a> {
    data: &'a [u8],
    /// Start of each row's values, after its key.
    starts: Vec<usize>,
    /// The encoded keys, concatenated.
    arena: Vec<u8>,
    /// The range of each row's key in `arena`, or the error of a key that does not fit its columns.
    keys: Vec<Result<Range<usize>, Box<Error>>>,
}

impl<'a> Rows<'a> {
    /// Finds the rows in the data, and encodes their keys.
    fn parse(plan: &Plan, data: &'a [u8], count: u32) -> Result<Rows<'a>, Malformed> {
        const MALFORMED: Malformed = Malformed("rows of a batch");
        let mut rows = Rows {
            data,
            starts: Vec::new(),
            arena: Vec::new(),
            keys: Vec::new(),
        };
        let operation = plan.shape.operation;
        let mut reader = Reader::new(data);
        for _ in 0..count {
            // Rows of zero bytes are refused: a short message could claim any number of them.
            if reader.is_empty() {
                return Err(MALFORMED);
            }
            let start = rows.arena.len();
            let mut key = Ok(());
            if operation.has_key() {
                key = encode::read_key(plan, &mut reader, &mut rows.arena)?;
            }
            rows.starts.push(data.len() - reader.rest().len());
            if plan.shape.compares_version() {
                reader.u64().ok_or(MALFORMED)?;
            }
            if operation == Operation::Upsert {
                let mut values: SmallVec<[ValueRef<'_>; 8]> = SmallVec::new();
                let encodings = plan.encodings.iter().copied();
                value::get_row(&mut reader, encodings, |_, v| values.push(v)).ok_or(MALFORMED)?;
                let places = plan.key_places.iter();
                let parts: SmallVec<[ValueRef<'_>; 4]> = places
                    .map(|place| values.get(*place).copied().unwrap_or(ValueRef::Null))
                    .collect();
                let columns = plan.key.iter().map(|c| (c.position, c.converter));
                let (table, index) = (&plan.table, plan.index);
                key = convert::append_key(table, index, columns, &parts, &mut rows.arena);
            } else if !plan.encodings.is_empty() && operation != Operation::Read {
                let encodings = plan.encodings.iter().copied();
                value::get_row(&mut reader, encodings, |_, _| {}).ok_or(MALFORMED)?;
            }
            let key = match key {
                Ok(()) => Ok(start..rows.arena.len()),
                Err(error) => {
                    rows.arena.truncate(start);
                    Err(Box::new(error))
                }
            };
            rows.keys.push(key);
        }
        if !reader.is_empty() {
            return Err(MALFORMED);
        }
        Ok(rows)
    }

    fn key(&self, row: usize) -> &[u8] {
        match self.keys.get(row) {
            Some(Ok(range)) => self.arena.get(range.clone()).unwrap_or_default(),
            _ => &[],
        }
    }

    /// The values of a row, after its key.
    fn values(&self, row: usize) -> Reader<'a> {
        let start = self.starts.get(row).copied().unwrap_or(self.data.len());
        Reader::new(self.data.get(start..).unwrap_or_default())
    }
}

/// A row that was locked.
struct LockedRow {
    primary: Vec<u8>,
    row: RowBuf,
}

/// Values of an operation that does not read.
struct Given<'a> {
    /// The version to compare with.
    version: u64,
    columns: SmallVec<[ValueRef<'a>; 8]>,
    compared: SmallVec<[ValueRef<'a>; 4]>,
}

/// Execution of one part.
struct PartRun<'r> {
    context: &'r Context,
    txn: &'r mut Txn,
    plan: &'r Plan,
    rows: &'r Rows<'r>,
    /// Position of the part's first outcome.
    first: usize,
    /// Time of the request.
    now: i64,
    is_one_by_one: bool,
    results: &'r mut Results,
}

/// Whether operations may fire triggers of UPDATE, which may change a row that would stay the same:
/// a changed row has a new version.
fn fires_on_change(plan: &Plan) -> bool {
    let changes = matches!(plan.shape.operation, Operation::Update | Operation::Upsert);
    changes && !plan.table.triggers.is_empty()
}

/// Whether the operations of a part are executed one by one, because one may affect the next:
/// - those that fire triggers;
/// - UPDATEs and UPSERTs that write a column of a unique index, apart from the key by which an UPSERT
///   finds its row: a later operation may name the row by its new key, or need a key that becomes
///   free by the change;
/// - changes of a table whose rows reference each other: ON UPDATE and ON DELETE may change or remove
///   the row of a later operation.
fn is_one_by_one(plan: &Plan) -> bool {
    let table = &plan.table;
    let references_itself = || {
        table
            .referenced_by
            .iter()
            .any(|(child, _)| *child == table.id)
    };
    match plan.shape.operation {
        Operation::Update | Operation::Upsert => {
            fires_on_change(plan) || references_itself() || writes_unique_key(plan)
        }
        Operation::Delete => references_itself(),
        Operation::Read | Operation::Insert => false,
    }
}

/// Whether operations write a column of a unique index, apart from the key of an UPSERT. A
/// generated column counts as written.
fn writes_unique_key(plan: &Plan) -> bool {
    let is_upsert = plan.shape.operation == Operation::Upsert;
    let indexes = plan.table.indexes.iter().enumerate();
    let mut unique = indexes.filter(|(position, index)| {
        index.kind.is_unique() && !(is_upsert && *position == plan.index)
    });
    unique.any(|(_, index)| {
        index.parts.iter().any(|part| {
            let column = plan.table.columns.get(part.column);
            plan.writes(part.column) || column.is_some_and(|c| c.generated.is_some())
        })
    })
}

impl<'r> PartRun<'r> {
    fn set(&mut self, row: usize, outcome: Outcome) {
        if let Some(place) = self.results.outcomes.get_mut(self.first + row) {
            *place = outcome;
        }
    }

    fn set_inserted(&mut self, row: usize, version: u64, id: u64) {
        let is_new = true;
        self.set(
            row,
            Outcome::Written {
                version,
                id,
                is_new,
            },
        );
    }

    fn set_changed(&mut self, row: usize, version: u64) {
        let (id, is_new) = (0, false);
        self.set(
            row,
            Outcome::Written {
                version,
                id,
                is_new,
            },
        );
    }

    fn run_all(&mut self) -> Result<(), Failure> {
        let mut next = 0;
        while next < self.rows.starts.len() {
            self.context.check()?;
            if let Some(Err(error)) = self.rows.keys.get(next) {
                self.set(next, Outcome::Failed(error.clone()));
                self.check_atomic(next..next + 1)?;
                next += 1;
                continue;
            }
            let end = self.end_of_run(next);
            self.run_range(next..end)?;
            next = end;
        }
        Ok(())
    }

    /// The end of the run of operations from `start` whose keys all differ.
    fn end_of_run(&self, start: usize) -> usize {
        let has_overflow = !self.plan.table.overflow_spaces.is_empty();
        let run = if self.is_one_by_one {
            1
        } else if has_overflow {
            MAX_RUN_WITH_OVERFLOW
        } else {
            MAX_RUN
        };
        let most = self.rows.starts.len().min(start + run);
        if self.plan.shape.operation == Operation::Insert {
            return most;
        }
        let mut seen: HashSet<&[u8], foldhash::fast::RandomState> = HashSet::default();
        for row in start..most {
            let is_valid = matches!(self.rows.keys.get(row), Some(Ok(_)));
            if !is_valid || !seen.insert(self.rows.key(row)) {
                return row;
            }
        }
        most
    }

    /// Executes operations with different keys, in halves if they fail together.
    fn run_range(&mut self, range: Range<usize>) -> Result<(), Failure> {
        let mark = self.txn.mark();
        let done = match self.plan.shape.operation {
            Operation::Read => self.read(range.clone()),
            Operation::Insert => self.insert(range.clone()),
            Operation::Update => self.update(range.clone()),
            Operation::Upsert => self.upsert(range.clone()),
            Operation::Delete => self.delete(range.clone()),
        };
        match done {
            Ok(()) if self.results.rows.len() > MAX_READ_BYTES => {
                let text = format!("The rows read by a batch exceed {MAX_READ_BYTES} bytes");
                Err(Error::refused(1153, "08S01", text).into())
            }
            Ok(()) => {
                self.context.charge_results(self.results.rows.capacity())?;
                self.check_atomic(range)
            }
            Err(error) if ends_request(&error) => Err(error.into()),
            Err(error) => {
                self.txn.rollback_to(mark);
                if range.len() <= 1 {
                    self.set(range.start, Outcome::Failed(Box::new(error)));
                    return self.check_atomic(range);
                }
                let middle = range.start + range.len() / 2;
                self.context.check()?;
                self.run_range(range.start..middle)?;
                self.run_range(middle..range.end)
            }
        }
    }

    /// In an atomic batch, fails if one of these operations has failed.
    fn check_atomic(&self, range: Range<usize>) -> Result<(), Failure> {
        if !self.results.is_atomic {
            return Ok(());
        }
        let is_conditional = !self.plan.shape.conditions.is_empty();
        let range = self.first + range.start..self.first + range.end;
        let outcomes = self.results.outcomes.get(range).unwrap_or_default();
        let has_failed = outcomes.iter().any(|outcome| match outcome {
            Outcome::ConditionFailed | Outcome::Failed(_) => true,
            // An absent row does not have the version or the value.
            Outcome::NotFound => is_conditional,
            _ => false,
        });
        if has_failed {
            return Err(Failure::Operation);
        }
        Ok(())
    }

    fn keys(&self, range: &Range<usize>) -> SmallVec<[&'r [u8]; 64]> {
        let rows = self.rows;
        range.clone().map(|row| rows.key(row)).collect()
    }

    /// Locks the rows of operations in one call. Returns the row of each; `None` if it does not
    /// exist or has expired.
    fn lock(
        &mut self,
        range: &Range<usize>,
        mode: LockMode,
        overflow: OverflowFetch<'static>,
    ) -> Result<Vec<Option<LockedRow>>, Error> {
        let keys = self.keys(range);
        let mut found: Vec<Option<LockedRow>> = Vec::new();
        found.resize_with(keys.len(), || None);
        let mut newer = false;
        let lookup = Lookup::unique(&self.plan.table, self.plan.index, &keys).overflow(overflow);
        let wait = self.txn.wait();
        let is_primary = self.plan.index == 0;
        let expiry = self.txn.expiry_of(&self.plan.table);
        self.txn.lock(&lookup, mode, wait, &mut |n, locked| {
            newer |= locked.newer;
            if let (Some(row), Some(by)) = (&locked.row, &expiry)
                && by.is_over(row)
            {
                return;
            }
            let key = if is_primary {
                keys.get(n).copied()
            } else {
                locked.primary
            };
            if let (Some(place), Some(row), Some(key)) = (found.get_mut(n), locked.row, key) {
                *place = Some(LockedRow {
                    primary: key.to_vec(),
                    row: row.to_buf(),
                });
            }
        })?;
        self.txn.check_newer(newer)?;
        Ok(found)
    }

    /// The values of an operation that does not read.
    fn given(&self, row: usize) -> Result<Given<'r>, Error> {
        let mut reader = self.rows.values(row);
        let mut given = Given {
            version: 0,
            columns: SmallVec::new(),
            compared: SmallVec::new(),
        };
        if self.plan.shape.compares_version() {
            given.version = reader.u64().unwrap_or(0);
        }
        let columns = self.plan.columns.len();
        let encodings = self.plan.encodings.iter().copied();
        // `Rows::parse` has already parsed these values.
        value::get_row(&mut reader, encodings, |n, value| {
            if n < columns {
                given.columns.push(value);
            } else {
                given.compared.push(value);
            }
        })
        .ok_or(Error::DefinitionChanged)?;
        Ok(given)
    }

    /// Whether a row meets the conditions of an operation.
    fn meets(&self, given: &Given<'_>, row: &RowRef<'_>) -> Result<bool, Error> {
        let conditions = &self.plan.shape.conditions;
        if conditions.contains(&Condition::Version) && row.version() != given.version {
            return Ok(false);
        }
        for (used, wanted) in self.plan.compared.iter().zip(&given.compared) {
            let wanted = self.stored(used, *wanted)?;
            let column = self.plan.column(used.position)?;
            let stored = row.get(used.position);
            let is_equal = match (stored, wanted.as_ref()) {
                (ValueRef::Null, ValueRef::Null) => true,
                (ValueRef::Null, _) | (_, ValueRef::Null) => false,
                (stored, wanted) if stored == wanted => true,
                (ValueRef::Bytes(a), ValueRef::Bytes(b)) => {
                    column.ty.collation.compare(a, b).is_eq()
                }
                _ => false,
            };
            if !is_equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn stored(&self, used: &PlanColumn, value: ValueRef<'_>) -> Result<Value, Error> {
        let column = self.plan.column(used.position)?;
        used.converter.store(column, value, self.now)
    }

    fn read(&mut self, range: Range<usize>) -> Result<(), Error> {
        let with_version = self.plan.shape.flags & WITH_VERSION != 0;
        let plan = self.plan;
        if plan.shape.flags & FOR_UPDATE != 0 {
            let found = self.lock(&range, LockMode::Exclusive, OverflowFetch::All)?;
            for (row, locked) in range.zip(found) {
                let Some(locked) = locked else {
                    self.set(row, Outcome::NotFound);
                    continue;
                };
                let start = self.results.rows.len();
                let out = &mut self.results.rows;
                let found = locked.row.row(&plan.table)?;
                encode::put_row(out, &plan.table, &plan.columns, with_version, &found)?;
                let end = self.results.rows.len();
                self.set(row, Outcome::Read(start..end));
            }
            return Ok(());
        }
        let keys = self.keys(&range);
        let first = self.first + range.start;
        let results = &mut *self.results;
        let mut failure = None;
        let lookup = Lookup::unique(&plan.table, plan.index, &keys);
        let expiry = self.txn.expiry_of(&plan.table);
        self.txn.look_up(&lookup, Read::SNAPSHOT, &mut |n, found| {
            let Some(place) = results.outcomes.get_mut(first + n) else {
                return;
            };
            let found = found.filter(|found| expiry.is_none_or(|by| !by.is_over(&found.row)));
            let Some(found) = found else {
                *place = Outcome::NotFound;
                return;
            };
            let start = results.rows.len();
            let out = &mut results.rows;
            let put = encode::put_row(out, &plan.table, &plan.columns, with_version, &found.row);
            *place = Outcome::Read(start..results.rows.len());
            failure = failure.take().or(put.err());
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// The new row of an operation.
    fn new_row(&self, row: usize) -> Result<Vec<Value>, Error> {
        let given = self.given(row)?;
        let mut new = self.plan.new_row(self.now)?;
        for (used, value) in self.plan.columns.iter().zip(&given.columns) {
            let stored = self.stored(used, *value)?;
            if let Some(place) = new.get_mut(used.position) {
                *place = stored;
            }
        }
        let table = &self.plan.table;
        if table.has_default_expressions() {
            let is_given = |at: usize| self.plan.writes(at);
            self.txn
                .fill_default_expressions(table, &mut new, &is_given)?;
        }
        Ok(new)
    }

    /// Inserts rows, and returns the value of the AUTO_INCREMENT column of each.
    fn insert_rows(&mut self, mut rows: Vec<Vec<Value>>) -> Result<Vec<u64>, Error> {
        let table = &self.plan.table;
        if table.auto_increment().is_none() {
            let ids = vec![0; rows.len()];
            self.txn.insert(table, rows, InsertMode::Plain)?;
            return Ok(ids);
        }
        let ids = GeneratedIds::from_input(table, &rows);
        let options = AutoIncOptions::default();
        self.txn.assign_auto_increment(table, &mut rows, options)?;
        let mut ids = ids.with_assigned(&rows).recording();
        self.txn
            .insert_with_ids(table, rows, InsertMode::Plain, &mut ids)?;
        Ok(ids.into_recorded())
    }

    fn insert(&mut self, range: Range<usize>) -> Result<(), Error> {
        let rows = range.clone().map(|row| self.new_row(row));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let ids = self.insert_rows(rows)?;
        let version = self.txn.row_version()?;
        for (row, id) in range.zip(ids) {
            self.set_inserted(row, version, id);
        }
        Ok(())
    }

    /// The values of a row after an UPDATE, and whether they differ.
    fn changed(&self, given: &Given<'_>, old: &RowRef<'_>) -> Result<(Vec<Value>, bool), Error> {
        let mut new = old.values();
        let mut differs = false;
        for (used, value) in self.plan.columns.iter().zip(&given.columns) {
            let Some(place) = new.get_mut(used.position) else {
                continue;
            };
            let stored = match used.action {
                Action::Set => self.stored(used, *value)?,
                Action::Add => {
                    let column = self.plan.column(used.position)?;
                    convert::add(used.converter, column, place.as_ref(), *value, self.now)?
                }
            };
            differs |= *place != stored;
            *place = stored;
        }
        if differs {
            let table = &self.plan.table;
            for (position, column) in table.columns.iter().enumerate() {
                if column.on_update_now
                    && !self.plan.writes(position)
                    && let Some(place) = new.get_mut(position)
                {
                    *place = convert::now_of(column, self.now);
                }
            }
        }
        Ok((new, differs))
    }

    /// Changes the locked rows. An operation whose row does not exist gets the outcome `NotFound`.
    fn change(&mut self, range: Range<usize>, found: Vec<Option<LockedRow>>) -> Result<(), Error> {
        let table = &self.plan.table;
        let fires = fires_on_change(self.plan);
        let mut changes = Vec::with_capacity(found.len());
        let version = self.txn.row_version()?;
        for (row, locked) in range.zip(found) {
            let Some(locked) = locked else {
                self.set(row, Outcome::NotFound);
                continue;
            };
            let given = self.given(row)?;
            let old = locked.row.row(table)?;
            if !self.meets(&given, &old)? {
                self.set(row, Outcome::ConditionFailed);
                continue;
            }
            let (new, differs) = self.changed(&given, &old)?;
            // A row whose values stay the same keeps its version.
            let old_version = old.version();
            let change = RowChange {
                key: locked.primary,
                old: locked.row,
                new,
            };
            let is_written = if fires {
                // Triggers fire for such a row, too, and may change it.
                self.txn
                    .update(table, vec![change], UpdateMode::Plain)?
                    .changed
                    > 0
            } else {
                if differs {
                    changes.push(change);
                }
                differs
            };
            self.set_changed(row, if is_written { version } else { old_version });
        }
        if !changes.is_empty() {
            self.txn.update(table, changes, UpdateMode::Plain)?;
        }
        Ok(())
    }

    fn update(&mut self, range: Range<usize>) -> Result<(), Error> {
        let found = self.lock(&range, LockMode::Update, OverflowFetch::All)?;
        self.change(range, found)
    }

    fn upsert(&mut self, range: Range<usize>) -> Result<(), Error> {
        let found = self.lock(&range, LockMode::Exclusive, OverflowFetch::All)?;
        let absent: Vec<usize> = range
            .clone()
            .zip(&found)
            .filter_map(|(row, locked)| locked.is_none().then_some(row))
            .collect();
        self.change(range, found)?;
        if absent.is_empty() {
            return Ok(());
        }
        let rows = absent.iter().map(|row| self.new_row(*row));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let ids = self.insert_rows(rows)?;
        let version = self.txn.row_version()?;
        for (row, id) in absent.into_iter().zip(ids) {
            self.set_inserted(row, version, id);
        }
        Ok(())
    }

    fn delete(&mut self, range: Range<usize>) -> Result<(), Error> {
        let table = &self.plan.table;
        let overflow = if self.plan.compared.is_empty() {
            OverflowFetch::Prefixes
        } else {
            OverflowFetch::All
        };
        let found = self.lock(&range, LockMode::Exclusive, overflow)?;
        let mut rows = Vec::with_capacity(found.len());
        for (row, locked) in range.zip(found) {
            let Some(locked) = locked else {
                self.set(row, Outcome::NotFound);
                continue;
            };
            let old = locked.row.row(table)?;
            if !self.plan.shape.conditions.is_empty() {
                let given = self.given(row)?;
                if !self.meets(&given, &old)? {
                    self.set(row, Outcome::ConditionFailed);
                    continue;
                }
            }
            self.set_changed(row, old.version());
            rows.push((locked.primary, locked.row));
        }
        if !rows.is_empty() {
            self.txn.delete(table, rows)?;
        }
        Ok(())
    }
}

/// Whether an error concerns the whole request, and not one operation.
fn ends_request(error: &Error) -> bool {
    error.ends_transaction()
        || error.ends_session()
        || is_retryable(error)
        || matches!(
            error,
            Error::Kv(
                kv::Error::LockTimeout
                    | kv::Error::LockBusy
                    | kv::Error::Cancelled(_)
                    | kv::Error::Full(_)
                    | kv::Error::ReadOnly(_)
                    | kv::Error::Unavailable(_)
                    | kv::Error::Io(_)
            ) | Error::Full { .. }
        )
}
