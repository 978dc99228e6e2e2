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
        refused: Vec::new(),
        found: 0,
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
    /// The end of each key in `keys`.
    ends: SmallVec<[usize; 64]>,
    /// Keys of the chunk that do not fit their columns: the number of keys in `keys` before each, and its error.
    refused: Vec<(usize, Error)>,
    /// Number of rows found for the part in progress.
    found: u64,
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
                errors += self.refused.len() as u64;
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
                rows_read: std::mem::take(&mut self.found),
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
        self.refused.clear();
        for _ in 0..count {
            let start = self.keys.len();
            match encode::read_key(plan, reader, &mut self.keys)? {
                Ok(()) => self.ends.push(self.keys.len()),
                Err(error) => {
                    self.keys.truncate(start);
                    self.refused.push((self.ends.len(), error));
                }
            }
        }
        let mut keys: SmallVec<[&[u8]; 64]> = SmallVec::with_capacity(self.ends.len());
        let mut start = 0;
        for end in &self.ends {
            keys.push(self.keys.get(start..*end).unwrap_or_default());
            start = *end;
        }
        let mut rows = ChunkLookup {
            found: 0,
            plan,
            keys: &keys,
            read,
            expiry: txn.expiry_of(&plan.table),
            refused: &self.refused,
        };
        if plan.index == 0 {
            rows.put_in_place(txn, out)?;
        } else {
            rows.put_buffered(txn, out)?;
        }
        self.found += rows.found;
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
    found: u64,
    plan: &'a Plan,
    keys: &'a [&'a [u8]],
    read: Read,
    /// Expired rows count as absent.
    expiry: Option<Expiry>,
    /// Keys that are not looked up, as [`Answer::refused`]; those whose errors were not appended yet.
    refused: &'a [(usize, Error)],
}

impl ChunkLookup<'_> {
    #[inline]
    fn put(&mut self, out: &mut Vec<u8>, found: Option<FoundRow<'_>>) -> Result<(), Error> {
        let expiry = &self.expiry;
        let found = found.filter(|found| expiry.as_ref().is_none_or(|by| !by.is_over(&found.row)));
        let Some(found) = found else {
            out.push(Status::NotFound as u8);
            return Ok(());
        };
        self.found += 1;
        out.push(Status::Ok as u8);
        let with_version = self.plan.shape.flags & WITH_VERSION != 0;
        let (table, columns) = (&self.plan.table, &self.plan.columns);
        encode::put_row(out, table, columns, with_version, &found.row)
    }

    /// Appends the errors of the refused keys before the key at this position.
    fn put_refused(&mut self, before: usize, out: &mut Vec<u8>) {
        while let Some(((at, error), rest)) = self.refused.split_first()
            && *at <= before
        {
            out.push(Status::Failed as u8);
            put_error(out, error);
            self.refused = rest;
        }
    }

    /// Appends the results of primary keys, which are visited in their order.
    fn put_in_place(&mut self, txn: &mut Txn, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut failure = None;
        let (plan, keys, read) = (self.plan, self.keys, self.read);
        txn.look_up_in_order(&plan.table, keys, read, |n, found| {
            if !self.refused.is_empty() {
                self.put_refused(n, out);
            }
            if let Err(error) = self.put(out, found) {
                failure.get_or_insert(error);
            }
        })?;
        self.put_refused(keys.len(), out);
        failure.map_or(Ok(()), Err)
    }

    /// Appends the results of unique keys. They are buffered, because the engine visits keys
    /// without a row before the others.
    fn put_buffered(&mut self, txn: &mut Txn, out: &mut Vec<u8>) -> Result<(), Error> {
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
        for (n, result) in results.into_iter().enumerate() {
            self.put_refused(n, out);
            out.extend_from_slice(buffer.get(result).unwrap_or_default());
        }
        self.put_refused(self.keys.len(), out);
        failure.map_or(Ok(()), Err)
    }
}
