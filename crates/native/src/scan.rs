//! Scans of ranges of an index.
//!
//! An answer ends at the limit, at the end of the range, or at about [`ANSWER_BYTES`]. Its
//! continuation is the index key of its last row, so that the server keeps no state between
//! answers. The next answer has a snapshot of its own, unless a transaction is open.

use crate::batch::encode;
use crate::context::Context;
use crate::convert;
use crate::counters::{self, Counter};
use crate::failure::Failure;
use crate::identity::Identity;
use crate::plan::{self, Check, PlanColumn};
use porpoise_access::Privileges;
use porpoise_kv::{CommitPosition, Read, prefix_end};
use porpoise_rows::catalog::Table;
use porpoise_rows::{Error, KeyRange, ScanPosition, ScanSpec, Txn};
use porpoise_types::ValueRef;
use porpoise_wire::native::batch::Action;
use porpoise_wire::native::frame::{self, Kind, LAST};
use porpoise_wire::native::scan::{BoundKind, REVERSE, Scan, WITH_VERSION};
use porpoise_wire::native::{Malformed, Reader, put_bytes, value};
use smallvec::SmallVec;
use std::sync::Arc;

/// Size in bytes at which an answer ends.
const ANSWER_BYTES: usize = 1 << 20;

/// Rows of the first engine call.
const FIRST_ROWS: usize = 64;

/// Rows of the first engine call on a table with overflow values.
const FIRST_ROWS_WITH_OVERFLOW: usize = 4;

/// Most rows of one engine call.
const MAX_ROWS: usize = 1024;

/// Most rows of one engine call on a table with overflow values: long rows may follow short ones.
const MAX_ROWS_WITH_OVERFLOW: usize = 16;

/// A scan, resolved.
pub(crate) struct PlannedScan<'a> {
    scan: Scan<'a>,
    table: Arc<Table>,
    columns: Vec<PlanColumn>,
    /// The range; `None` if no key is in it.
    range: Option<KeyRange>,
}

/// Resolves a scan, and checks privileges.
pub(crate) fn plan<'a>(
    context: &Context,
    identity: &mut Identity,
    scan: Scan<'a>,
) -> Result<PlannedScan<'a>, Failure> {
    let catalog = context.db.catalog();
    let table = plan::find_table(&catalog, identity, scan.table, scan.version)?;
    let key = plan::index_columns(&table, scan.index)?;
    let columns = scan.columns.iter().map(|c| (*c, Action::Set));
    let columns = plan::columns_at(&table, columns)?;
    let rights = identity.rights().0.clone();
    let check = Check {
        rights: &rights,
        identity,
        table: &table,
    };
    check.columns(Privileges::SELECT, &key)?;
    check.columns(Privileges::SELECT, &columns)?;
    // The continuation contains the primary key, too, even one that operations cannot use.
    let parts = table.indexes.first().map_or(&[][..], |key| &key.parts);
    let primary = parts
        .iter()
        .filter_map(|part| PlanColumn::new(&table, part.column, Action::Set));
    check.columns(Privileges::SELECT, &primary.collect::<Vec<_>>())?;
    let mut reader = Reader::new(scan.bounds);
    let index = usize::from(scan.index);
    let lower = read_bound(&table, index, &key, &mut reader)?;
    let upper = read_bound(&table, index, &key, &mut reader)?;
    if !reader.is_empty() {
        return Err(Malformed("bounds of a scan").into());
    }
    let range = range_of(lower, upper, &scan);
    Ok(PlannedScan {
        scan,
        table,
        columns,
        range,
    })
}

fn read_bound(
    table: &Table,
    index: usize,
    key: &[PlanColumn],
    reader: &mut Reader<'_>,
) -> Result<(BoundKind, Vec<u8>), Failure> {
    const MALFORMED: Malformed = Malformed("bound of a scan");
    let kind = BoundKind::read(reader).ok_or(MALFORMED)?;
    let parts = usize::from(reader.u8().ok_or(MALFORMED)?);
    let key = key.get(..parts).ok_or(MALFORMED)?;
    let mut values: SmallVec<[ValueRef<'_>; 4]> = SmallVec::new();
    let encodings = key.iter().map(|c| c.encoding);
    value::get_row(reader, encodings, |_, value| values.push(value)).ok_or(MALFORMED)?;
    let mut encoded = Vec::new();
    let columns = key.iter().map(|c| (c.position, c.converter));
    convert::append_key(table, index, columns, &values, &mut encoded)?;
    Ok((kind, encoded))
}

/// Reads a range of the primary key, whose columns are `key`; `None` if it is empty.
pub(crate) fn read_range(
    table: &Table,
    key: &[PlanColumn],
    reader: &mut Reader<'_>,
) -> Result<Option<KeyRange>, Failure> {
    let lower = read_bound(table, 0, key, reader)?;
    let upper = read_bound(table, 0, key, reader)?;
    Ok(range_between(lower, upper).filter(|range| !is_empty(range)))
}

fn is_empty(range: &KeyRange) -> bool {
    range.end.as_ref().is_some_and(|end| range.start >= *end)
}

/// The range between two bounds, which may be empty; `None` if it is empty for sure.
fn range_between(
    (lower, first): (BoundKind, Vec<u8>),
    (upper, last): (BoundKind, Vec<u8>),
) -> Option<KeyRange> {
    let start = match lower {
        BoundKind::None => Vec::new(),
        BoundKind::Inclusive => first,
        BoundKind::Exclusive => prefix_end(&first)?,
    };
    let end = match upper {
        BoundKind::None => None,
        BoundKind::Inclusive => prefix_end(&last),
        BoundKind::Exclusive => Some(last),
    };
    Some(KeyRange { start, end })
}

/// The range between two bounds, after the continuation (in reverse: before it); `None` if it is
/// empty.
fn range_of(
    lower: (BoundKind, Vec<u8>),
    upper: (BoundKind, Vec<u8>),
    scan: &Scan<'_>,
) -> Option<KeyRange> {
    let KeyRange { mut start, mut end } = range_between(lower, upper)?;
    if !scan.continuation.is_empty() {
        let at = scan.continuation.to_vec();
        if scan.flags & REVERSE != 0 {
            end = Some(end.map_or(at.clone(), |end| end.min(at)));
        } else {
            let behind = at.into_iter().chain([0]).collect();
            start = start.max(behind);
        }
    }
    let range = KeyRange { start, end };
    (!is_empty(&range)).then_some(range)
}

impl PlannedScan<'_> {
    /// The table that is scanned.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Appends the answer. Returns the commit that it waits for.
    pub(crate) fn answer(
        &self,
        context: &Context,
        txn: &mut Txn,
        request: u32,
        out: &mut Vec<u8>,
    ) -> Result<CommitPosition, Failure> {
        let at = frame::begin(out, Kind::Rows, request);
        let continuation = match &self.range {
            Some(range) => self.put_rows(context, txn, range.clone(), out)?,
            None => Vec::new(),
        };
        out.push(0);
        put_bytes(out, &continuation);
        frame::finish(out, at, LAST);
        Ok(txn.seen())
    }

    /// Appends rows. Returns the continuation, which is empty at the end of the range.
    fn put_rows(
        &self,
        context: &Context,
        txn: &mut Txn,
        range: KeyRange,
        out: &mut Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let index = usize::from(self.scan.index);
        let spec = ScanSpec {
            index,
            ranges: vec![range],
            reverse: self.scan.flags & REVERSE != 0,
            entries_only: false,
        };
        let with_version = self.scan.flags & WITH_VERSION != 0;
        let mut left = match self.scan.limit {
            0 => usize::MAX,
            limit => usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let mut position = ScanPosition::default();
        let (mut chunk, most) = if self.table.overflow_spaces.is_empty() {
            (FIRST_ROWS, MAX_ROWS)
        } else {
            (FIRST_ROWS_WITH_OVERFLOW, MAX_ROWS_WITH_OVERFLOW)
        };
        let start = out.len();
        let expiry = txn.expiry_of(&self.table);
        loop {
            context.check()?;
            let (mut last, mut rows, mut shown, mut failure) = (None, 0, 0, None::<Error>);
            let before = out.len();
            let wanted = chunk.min(left);
            let has_more = txn.scan(
                &self.table,
                &spec,
                Read::SNAPSHOT,
                &mut position,
                wanted,
                &mut |primary, row| {
                    rows += 1;
                    if expiry.is_none_or(|by| !by.is_over(&row)) {
                        shown += 1;
                        out.push(1);
                        let columns = &self.columns;
                        let put = encode::put_row(out, &self.table, columns, with_version, &row);
                        failure = failure.take().or(put.err());
                    }
                    // The answer may end at this row; a call may return fewer rows than requested.
                    if rows == wanted || out.len() - start >= ANSWER_BYTES {
                        last = Some(self.table.entry_key(index, &row, primary));
                    }
                },
            )?;
            if let Some(error) = failure {
                return Err(error.into());
            }
            counters::add(Counter::Scanned, rows as u64);
            left -= shown;
            if !has_more {
                return Ok(Vec::new());
            }
            if (left == 0 || out.len() - start >= ANSWER_BYTES)
                && let Some(last) = last
            {
                return Ok(last);
            }
            let row_bytes = ((out.len() - before) / rows.max(1)).max(1);
            chunk = (ANSWER_BYTES / 4 / row_bytes).clamp(1, most);
        }
    }
}
