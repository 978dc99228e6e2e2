//! READs outside of a transaction: rows are encoded in the engine's callback, without a copy.
//!
//! All rows of a request are of one snapshot. A chunk of keys is one engine call; the answer is sent
//! in frames of about [`FRAME_BYTES`].

use super::{PlannedPart, count, encode};
use crate::context::Context;
use crate::failure::{Failure, put_error};
use crate::operation_statistics::Effects;
use crate::plan::Plan;
use crate::sink::Sink;
use porpoise_kv::{CommitPosition, Read};
use porpoise_rows::{Error, Expiry, FoundRow, Lookup, Txn};
use porpoise_wire::native::batch::{Operation, Status, WITH_VERSION};
use porpoise_wire::native::frame::{self, Kind, LAST};
use porpoise_wire::native::{Malformed, Reader};
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::Range;

/// Keys of one engine call.
const CHUNK_KEYS: usize = 1024;

/// Keys of one engine call on a table with overflow values, which are buffered.
const CHUNK_KEYS_WITH_OVERFLOW: usize = 4;

/// Size in bytes at which a frame ends.
const FRAME_BYTES: usize = 256 * 1024;

/// Appends the answer to a batch of READs. Returns the commit that it waits for. `sent` is set once
/// part of the answer was sent.
pub(super) fn answer(
    context: &mut Context,
    parts: &[PlannedPart<'_>],
    request: u32,
    sink: &mut dyn Sink,
    sent: &mut bool,
) -> Result<(CommitPosition, SmallVec<[Effects; 2]>), Failure> {
    let rows: usize = parts.iter().map(|planned| planned.part.rows as usize).sum();
    let (mut txn, read) = context.reader(rows)?;
    let mut answer = Answer {
        request,
        frame: frame::begin(sink.buf(), Kind::Results, request),
        keys: Vec::new(),
        ends: SmallVec::new(),
        found: Cell::new(0),
        effects: SmallVec::new(),
    };
    let done = answer.put_parts(context, &mut txn, read, parts, sink, sent);
    if let Err(failure) = done {
        // Only whole frames stay.
        sink.buf().truncate(answer.frame);
        return Err(failure);
    }
    frame::finish(sink.buf(), answer.frame, LAST);
    Ok((txn.seen(), answer.effects))
}

/// The answer in progress.
struct Answer {
    request: u32,
    /// Start of the frame.
    frame: usize,
    /// The chunk's encoded keys, concatenated.
    keys: Vec<u8>,
    /// The end of each key in `keys`, or the error of a key that does not fit its columns.
    ends: SmallVec<[Result<usize, Box<Error>>; 64]>,
    /// Number of rows found for the part in progress.
    found: Cell<u64>,
    /// Effects of the parts, as far as they have been answered.
    effects: SmallVec<[Effects; 2]>,
}

impl Answer {
    /// Appends the results of all parts.
    fn put_parts(
        &mut self,
        context: &Context,
        txn: &mut Txn,
        read: Read,
        parts: &[PlannedPart<'_>],
        sink: &mut dyn Sink,
        sent: &mut bool,
    ) -> Result<(), Failure> {
        for planned in parts {
            let (mut errors, operations) = (0, u64::from(planned.part.rows));
            let mut reader = Reader::new(planned.part.data);
            let mut left = planned.part.rows as usize;
            let chunk = if planned.plan.table.overflow_spaces.is_empty() {
                CHUNK_KEYS
            } else {
                CHUNK_KEYS_WITH_OVERFLOW
            };
            while left > 0 {
                context.check()?;
                let wanted = left.min(chunk);
                self.read_chunk(txn, read, planned, &mut reader, wanted, sink.buf())?;
                left -= wanted;
                errors += self.ends.iter().filter(|end| end.is_err()).count() as u64;
                if sink.buf().len() - self.frame >= FRAME_BYTES {
                    self.next_frame(txn.seen(), sink, sent)?;
                }
            }
            if !reader.is_empty() {
                return Err(Malformed("rows of a batch").into());
            }
            count(Operation::Read, planned.part.rows as usize);
            self.effects.push(Effects {
                operations,
                rows_read: self.found.take(),
                errors,
                ..Effects::default()
            });
        }
        Ok(())
    }

    /// Reads the rows of the next `count` keys and appends their results.
    fn read_chunk(
        &mut self,
        txn: &mut Txn,
        read: Read,
        planned: &PlannedPart<'_>,
        reader: &mut Reader<'_>,
        count: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let plan = &planned.plan;
        self.keys.clear();
        self.ends.clear();
        for _ in 0..count {
            let start = self.keys.len();
            let end = match encode::read_key(plan, reader, &mut self.keys)? {
                Ok(()) => Ok(self.keys.len()),
                Err(error) => {
                    self.keys.truncate(start);
                    Err(Box::new(error))
                }
            };
            self.ends.push(end);
        }
        let mut keys: SmallVec<[&[u8]; 64]> = SmallVec::new();
        let mut start = 0;
        for end in self.ends.iter().flatten() {
            keys.push(self.keys.get(start..*end).unwrap_or_default());
            start = *end;
        }
        let rows = ChunkLookup {
            found: &self.found,
            plan,
            keys: &keys,
            read,
            expiry: txn.expiry_of(&plan.table),
        };
        let mut ends = self.ends.iter();
        // Appends the errors of the keys before the next valid key.
        let put_errors = |out: &mut Vec<u8>| {
            while let Some(Err(error)) = ends.next() {
                out.push(Status::Failed as u8);
                put_error(out, error);
            }
        };
        if plan.index == 0 {
            rows.put_in_place(txn, out, put_errors)?;
        } else {
            rows.put_buffered(txn, out, put_errors)?;
        }
        Ok(())
    }

    /// Ends the frame, and begins the next one.
    fn next_frame(
        &mut self,
        seen: CommitPosition,
        sink: &mut dyn Sink,
        sent: &mut bool,
    ) -> Result<(), Failure> {
        frame::finish(sink.buf(), self.frame, 0);
        *sent |= sink.drain_if_full(seen).map_err(|_| Failure::Gone)?;
        self.frame = frame::begin(sink.buf(), Kind::Results, self.request);
        Ok(())
    }
}

/// Keys of a chunk, to be looked up.
struct ChunkLookup<'a> {
    /// Number of rows found.
    found: &'a Cell<u64>,
    plan: &'a Plan,
    keys: &'a [&'a [u8]],
    read: Read,
    /// Expired rows count as absent.
    expiry: Option<Expiry>,
}

impl ChunkLookup<'_> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>, found: Option<FoundRow<'_>>) -> Result<(), Error> {
        let found = found.filter(|found| self.expiry.is_none_or(|by| !by.is_over(&found.row)));
        let Some(found) = found else {
            out.push(Status::NotFound as u8);
            return Ok(());
        };
        self.found.set(self.found.get() + 1);
        out.push(Status::Ok as u8);
        let with_version = self.plan.shape.flags & WITH_VERSION != 0;
        let (table, columns) = (&self.plan.table, &self.plan.columns);
        encode::put_row(out, table, columns, with_version, &found.row)
    }

    /// Appends the results of primary keys, which are visited in their order.
    fn put_in_place(
        &self,
        txn: &mut Txn,
        out: &mut Vec<u8>,
        mut put_errors: impl FnMut(&mut Vec<u8>),
    ) -> Result<(), Error> {
        let mut failure = None;
        let lookup = Lookup::primary(&self.plan.table, self.keys).in_order();
        txn.look_up(&lookup, self.read, &mut |_, found| {
            put_errors(out);
            failure = failure.take().or(self.put(out, found).err());
        })?;
        put_errors(out);
        failure.map_or(Ok(()), Err)
    }

    /// Appends the results of unique keys. They are buffered, because the engine visits keys
    /// without a row before the others.
    fn put_buffered(
        &self,
        txn: &mut Txn,
        out: &mut Vec<u8>,
        mut put_errors: impl FnMut(&mut Vec<u8>),
    ) -> Result<(), Error> {
        let mut failure = None;
        let mut buffer = Vec::new();
        let mut results: Vec<Range<usize>> = vec![0..0; self.keys.len()];
        let lookup = Lookup::unique(&self.plan.table, self.plan.index, self.keys);
        txn.look_up(&lookup, self.read, &mut |n, found| {
            let start = buffer.len();
            failure = failure.take().or(self.put(&mut buffer, found).err());
            if let Some(place) = results.get_mut(n) {
                *place = start..buffer.len();
            }
        })?;
        for result in results {
            put_errors(out);
            out.extend_from_slice(buffer.get(result).unwrap_or_default());
        }
        put_errors(out);
        failure.map_or(Ok(()), Err)
    }
}
