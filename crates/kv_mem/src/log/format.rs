//! Encoding of the log: segment headers, groups, records.
//!
//! docs/formats.md has the tables. A segment is a header and groups. A group is one write of the
//! log thread: a header with a checksum, the group's number and the number of the last group known
//! to be durable, then records. A record is a length, a kind, and a body.

use crate::codec::{Malformed, Reader, put_bytes, put_varint};
use crate::record::{LONGEST_KEY, LONGEST_VALUE};
use porpoise_kv::{SpaceDurability, SpaceId, SpaceSpec};

/// The version of the log's format that this build writes.
pub(crate) const LOG_FORMAT_VERSION: u32 = 5;

/// First version whose groups have the time at which they were written.
const TIMED: u32 = 4;

/// Oldest version of the log's format that this build reads.
const OLDEST: u32 = 2;

pub(crate) const SEGMENT_MAGIC: [u8; 8] = *b"PORPLOG\0";
pub(crate) const SEGMENT_HEADER: usize = 64;
/// Length of a group's header before version 4.
const UNTIMED_GROUP_HEADER: usize = 48;
pub(crate) const GROUP_MAGIC: u32 = 0x5052_4750;
pub(crate) const GROUP_HEADER: usize = 56;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Version of the format that the segment was written in.
    pub(crate) version: u32,
    /// Segments are numbered from 1.
    pub(crate) number: u64,
    /// Random number that each group of the segment repeats.
    pub(crate) salt: u64,
    /// Position of the first record: bytes of records in all segments before.
    pub(crate) start: u64,
    /// Number of the first group. All groups before it are on disk.
    pub(crate) first_group: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut rest = Vec::with_capacity(SEGMENT_HEADER);
        rest.extend_from_slice(&self.version.to_le_bytes());
        for n in [self.number, self.salt, self.start, self.first_group] {
            rest.extend_from_slice(&n.to_le_bytes());
        }
        rest.resize(SEGMENT_HEADER - 12, 0);
        let mut out = SEGMENT_MAGIC.to_vec();
        out.extend_from_slice(&crc32c::crc32c(&rest).to_le_bytes());
        out.extend_from_slice(&rest);
        out
    }

    /// Decodes a header. The error is a description of the damage.
    pub(crate) fn decode(bytes: &[u8]) -> Result<SegmentHeader, String> {
        let head = bytes
            .get(..SEGMENT_HEADER)
            .ok_or("the file ends within its header")?;
        let mut reader = Reader(head);
        let short = |Malformed| "the file ends within its header".to_owned();
        if reader.take(8).map_err(short)? != SEGMENT_MAGIC {
            return Err("the file is not a log segment (wrong magic number)".to_owned());
        }
        let sum = reader.u32().map_err(short)?;
        if sum != crc32c::crc32c(reader.0) {
            return Err("the header's checksum is wrong".to_owned());
        }
        let version = reader.u32().map_err(short)?;
        if !(OLDEST..=LOG_FORMAT_VERSION).contains(&version) {
            return Err(format!(
                "log format {version}; this server reads {OLDEST} to {LOG_FORMAT_VERSION}"
            ));
        }
        Ok(SegmentHeader {
            version,
            number: reader.u64().map_err(short)?,
            salt: reader.u64().map_err(short)?,
            start: reader.u64().map_err(short)?,
            first_group: reader.u64().map_err(short)?,
        })
    }
}

/// A group's header and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group<'a> {
    /// Groups are numbered from 1, through all segments.
    pub(crate) number: u64,
    /// Number of the last group that was durable when this one was written.
    pub(crate) durable: u64,
    /// Position of the group's first record.
    pub(crate) start: u64,
    /// Time of the write in microseconds since 1970 UTC; 0 before version 4.
    pub(crate) time: u64,
    /// The encoded records.
    pub(crate) body: &'a [u8],
}

/// Length of a group with `body` bytes of records, header and padding included.
pub(crate) fn group_len(body: usize) -> usize {
    (GROUP_HEADER + body).next_multiple_of(8)
}

impl<'a> Group<'a> {
    pub(crate) fn encode(&self, salt: u64, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(&GROUP_MAGIC.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for n in [salt, self.number, self.durable, self.start] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(&(self.body.len() as u64).to_le_bytes());
        out.extend_from_slice(&self.time.to_le_bytes());
        out.extend_from_slice(self.body);
        out.resize(from + group_len(self.body.len()), 0);
        let sum = crc32c::crc32c(out.get(from + 8..).unwrap_or_default());
        if let Some(place) = out.get_mut(from + 4..from + 8) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// Decodes the group at the beginning of `bytes`. Returns it with its length, or `None` if
    /// there is no complete group of the segment.
    pub(crate) fn decode(bytes: &'a [u8], segment: &SegmentHeader) -> Option<(Group<'a>, usize)> {
        let (len, _) = Group::declared_len(bytes, segment)?;
        let bytes = bytes.get(..len)?;
        let mut reader = Reader(bytes);
        if reader.u32().ok()? != GROUP_MAGIC {
            return None;
        }
        let sum = reader.u32().ok()?;
        reader.u64().ok()?;
        let number = reader.u64().ok()?;
        let durable = reader.u64().ok()?;
        let start = reader.u64().ok()?;
        let body = usize::try_from(reader.u64().ok()?).ok()?;
        let time = if segment.version >= TIMED {
            reader.u64().ok()?
        } else {
            0
        };
        let body = reader.0.get(..body)?;
        if crc32c::crc32c(bytes.get(8..)?) != sum {
            return None;
        }
        let group = Group {
            number,
            durable,
            start,
            time,
            body,
        };
        Some((group, len))
    }

    /// Length of the group that a header at the beginning of `bytes` declares, with padding, and its
    /// number. The header may be damaged; `None` if it is none of this segment.
    pub(crate) fn declared_len(bytes: &[u8], segment: &SegmentHeader) -> Option<(usize, u64)> {
        let mut reader = Reader(bytes);
        if reader.u32().ok()? != GROUP_MAGIC {
            return None;
        }
        reader.u32().ok()?;
        if reader.u64().ok()? != segment.salt {
            return None;
        }
        let number = reader.u64().ok()?;
        reader.take(16).ok()?;
        let body = usize::try_from(reader.u64().ok()?).ok()?;
        let head = if segment.version >= TIMED {
            GROUP_HEADER
        } else {
            UNTIMED_GROUP_HEADER
        };
        let len = head.checked_add(body)?.checked_next_multiple_of(8)?;
        Some((len, number))
    }
}

const COMMIT: u8 = 1;
const CHUNK: u8 = 2;
const CHUNKED_COMMIT: u8 = 3;
const CREATE_SPACE: u8 = 4;
const DROP_SPACE: u8 = 5;
const COUNTER: u8 = 6;
const TIMESTAMP_LIMIT: u8 = 7;

/// Location of the timestamp in a commit record, which is filled in last.
const TIMESTAMP_RANGE: std::ops::Range<usize> = 5..13;

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A transaction's writes.
    Commit {
        ts: u64,
        writes: &'a [u8],
    },
    /// Part of the writes of a transaction whose commit comes later. The tag is the position of the
    /// transaction's first chunk.
    Chunk {
        tag: u64,
        writes: &'a [u8],
    },
    /// The commit of a transaction whose first writes came in chunks.
    ChunkedCommit {
        ts: u64,
        tag: u64,
        /// Number of chunks.
        chunks: u64,
        writes: &'a [u8],
    },
    CreateSpace {
        id: SpaceId,
        spec: SpaceSpec,
    },
    DropSpace {
        id: SpaceId,
    },
    /// Upper limit of a counter: no id at or above it was given out.
    Counter {
        id: u64,
        limit: u64,
    },
    /// Upper limit of commit timestamps: none at or above it was given out.
    TimestampLimit {
        limit: u64,
    },
}

/// Appends the head of a record to `out`; `finish` completes it.
fn begin_record(out: &mut Vec<u8>, kind: u8) -> usize {
    let from = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    from
}

fn finish(out: &mut [u8], from: usize) {
    let len = out.len().saturating_sub(from + 4) as u32;
    if let Some(place) = out.get_mut(from..from + 4) {
        place.copy_from_slice(&len.to_le_bytes());
    }
}

/// Length of a commit record before its writes.
pub(crate) const COMMIT_HEAD: usize = 13;

/// Begins a commit record in an empty buffer. Writes are appended next.
pub(crate) fn begin_commit(out: &mut Vec<u8>) {
    begin_record(out, COMMIT);
    out.extend_from_slice(&[0; 8]);
}

/// Completes the record begun by `begin_commit`. The timestamp is set later by [`write_timestamp`].
pub(crate) fn end_commit(out: &mut [u8]) {
    finish(out, 0);
}

/// Writes a commit's timestamp into its encoded record.
pub(crate) fn write_timestamp(record: &mut [u8], ts: u64) {
    if let Some(place) = record.get_mut(TIMESTAMP_RANGE) {
        place.copy_from_slice(&ts.to_le_bytes());
    }
}

/// Appends a space's specification.
pub(crate) fn put_spec(out: &mut Vec<u8>, spec: &SpaceSpec) {
    put_varint(out, spec.group);
    put_varint(out, u64::from(spec.partition));
    out.push(
        u8::from(spec.durability == SpaceDurability::Memory) | u8::from(spec.point_lookups) << 1,
    );
}

/// Reads a space's specification.
pub(crate) fn get_spec(reader: &mut Reader<'_>) -> Result<SpaceSpec, Malformed> {
    let group = reader.varint()?;
    let partition = u32::try_from(reader.varint()?).map_err(|_| Malformed)?;
    let flags = reader.u8()?;
    if flags > 3 {
        return Err(Malformed);
    }
    Ok(SpaceSpec {
        group,
        partition,
        durability: match flags & 1 {
            0 => SpaceDurability::Server,
            _ => SpaceDurability::Memory,
        },
        point_lookups: flags & 2 != 0,
    })
}

/// Maximum number of bytes that [`put_write`] appends for a write: three variable-length numbers of
/// up to ten bytes, the key and the value.
pub(crate) fn write_size(key: &[u8], value: Option<&[u8]>) -> usize {
    30 + key.len() + value.map_or(0, <[u8]>::len)
}

/// Appends one write.
pub(crate) fn put_write(out: &mut Vec<u8>, space: SpaceId, key: &[u8], value: Option<&[u8]>) {
    put_varint(out, space.0 << 1 | u64::from(value.is_some()));
    put_bytes(out, key);
    if let Some(value) = value {
        put_bytes(out, value);
    }
}

/// One write of a record.
pub(crate) struct LoggedWrite<'a> {
    pub(crate) space: SpaceId,
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
}

/// Reads one write.
pub(crate) fn get_write<'a>(reader: &mut Reader<'a>) -> Result<LoggedWrite<'a>, Malformed> {
    let head = reader.varint()?;
    let key = reader.bytes()?;
    if key.len() > LONGEST_KEY {
        return Err(Malformed);
    }
    let value = match head & 1 {
        0 => None,
        _ => Some(reader.bytes()?),
    };
    if value.is_some_and(|value| value.len() > LONGEST_VALUE) {
        return Err(Malformed);
    }
    Ok(LoggedWrite {
        space: SpaceId(head >> 1),
        key,
        value,
    })
}

impl<'a> Record<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self {
            Record::Commit { .. } => COMMIT,
            Record::Chunk { .. } => CHUNK,
            Record::ChunkedCommit { .. } => CHUNKED_COMMIT,
            Record::CreateSpace { .. } => CREATE_SPACE,
            Record::DropSpace { .. } => DROP_SPACE,
            Record::Counter { .. } => COUNTER,
            Record::TimestampLimit { .. } => TIMESTAMP_LIMIT,
        };
        let from = begin_record(out, kind);
        match self {
            Record::Commit { ts: n, writes } | Record::Chunk { tag: n, writes } => {
                out.extend_from_slice(&n.to_le_bytes());
                out.extend_from_slice(writes);
            }
            Record::ChunkedCommit {
                ts,
                tag,
                chunks,
                writes,
            } => {
                for n in [ts, tag, chunks] {
                    out.extend_from_slice(&n.to_le_bytes());
                }
                out.extend_from_slice(writes);
            }
            Record::CreateSpace { id, spec } => {
                put_varint(out, id.0);
                put_spec(out, spec);
            }
            Record::DropSpace { id } => put_varint(out, id.0),
            Record::Counter { id, limit } => {
                put_varint(out, *id);
                put_varint(out, *limit);
            }
            Record::TimestampLimit { limit } => put_varint(out, *limit),
        }
        finish(out, from);
    }

    /// Reads the next record of a group's body, with its length.
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Record<'a>, Malformed> {
        let len = usize::try_from(reader.u32()?).map_err(|_| Malformed)?;
        let mut body = Reader(reader.take(len)?);
        let kind = body.u8()?;
        Ok(match kind {
            COMMIT => Record::Commit {
                ts: body.u64()?,
                writes: body.0,
            },
            CHUNK => Record::Chunk {
                tag: body.u64()?,
                writes: body.0,
            },
            CHUNKED_COMMIT => Record::ChunkedCommit {
                ts: body.u64()?,
                tag: body.u64()?,
                chunks: body.u64()?,
                writes: body.0,
            },
            CREATE_SPACE => Record::CreateSpace {
                id: SpaceId(body.varint()?),
                spec: get_spec(&mut body)?,
            },
            DROP_SPACE => Record::DropSpace {
                id: SpaceId(body.varint()?),
            },
            COUNTER => Record::Counter {
                id: body.varint()?,
                limit: body.varint()?,
            },
            TIMESTAMP_LIMIT => Record::TimestampLimit {
                limit: body.varint()?,
            },
            _ => return Err(Malformed),
        })
    }
}

/// The length of the first record in encoded bytes.
pub(crate) fn record_len(bytes: &[u8]) -> Option<usize> {
    let len = Reader(bytes).u32().ok()?;
    Some(usize::try_from(len).ok()? + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_records_round_trip() {
        let mut writes = Vec::new();
        put_write(&mut writes, SpaceId(70), b"k", Some(b"v"));
        put_write(&mut writes, SpaceId(3), b"", None);
        let spec = SpaceSpec {
            group: 300,
            partition: 2,
            durability: SpaceDurability::Memory,
            point_lookups: true,
        };
        let id = SpaceId(1000);
        let all = [
            Record::Commit {
                ts: 5,
                writes: &writes,
            },
            Record::Chunk {
                tag: 9,
                writes: &writes,
            },
            Record::ChunkedCommit {
                ts: 6,
                tag: 9,
                chunks: 3,
                writes: b"",
            },
            Record::CreateSpace { id, spec },
            Record::DropSpace { id },
            Record::Counter {
                id: 64,
                limit: u64::MAX,
            },
            Record::TimestampLimit { limit: 1 << 40 },
        ];
        let mut out = Vec::new();
        for record in &all {
            record.encode(&mut out);
        }
        let mut reader = Reader(&out);
        for record in &all {
            assert_eq!(Record::decode(&mut reader).as_ref(), Ok(record));
        }
        assert!(reader.is_empty());
    }

    #[test]
    fn a_key_that_no_record_can_have_is_malformed() {
        for (len, is_fine) in [(LONGEST_KEY, true), (LONGEST_KEY + 1, false)] {
            let mut bytes = Vec::new();
            put_write(&mut bytes, SpaceId(70), &vec![b'k'; len], None);
            let read = get_write(&mut Reader(&bytes));
            assert_eq!(read.is_ok(), is_fine, "{len}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_group_is_detected() {
        let group = Group {
            number: 3,
            durable: 2,
            start: 10,
            time: 1_000_000_000_000_000,
            body: b"some records",
        };
        let header = SegmentHeader {
            version: LOG_FORMAT_VERSION,
            number: 1,
            salt: 77,
            start: 3,
            first_group: 4,
        };
        let other = SegmentHeader { salt: 78, ..header };
        let mut bytes = Vec::new();
        group.encode(77, &mut bytes);
        assert_eq!(Group::decode(&bytes, &header), Some((group, bytes.len())));
        assert_eq!(Group::decode(&bytes, &other), None);
        for n in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[n / 8] ^= 1 << (n % 8);
            assert_eq!(Group::decode(&bad, &header), None, "bit {n}");
        }
        let bytes = header.encode();
        assert_eq!(
            (bytes.len(), SegmentHeader::decode(&bytes)),
            (SEGMENT_HEADER, Ok(header))
        );
    }
}
