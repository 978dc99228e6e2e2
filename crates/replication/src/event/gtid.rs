//! GTID, ANONYMOUS_GTID, GTID_TAGGED and PREVIOUS_GTIDS.
//!
//! GTID_TAGGED (since MySQL 8.3, for transactions with a tag) is in the format of MySQL's serialization library: version of the
//! format, size, the last field that a reader must know, then the fields in ascending order, each after its number. The number of
//! one bits at the end of an integer's first byte is the number of bytes that follow it; numbers of fields are integers, too:
//!
//! ```text
//!   xxxxxxx0            7 bits
//!   xxxxxxxx xxxxxx01   14 bits, the low ones in the first byte        ...   11111111, then 64 bits
//! ```
//!
//! The lowest bit of a signed number's value is its sign.

use super::bytes::{lenenc_len, put_lenenc, put_uint};
use super::{Decoded, Reader};
use crate::gtid::{Gtid, GtidSet, Tag, Uuid};

/// GTID or ANONYMOUS_GTID: the start of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GtidEvent {
    /// Identifier; `None` of an anonymous transaction.
    pub gtid: Option<Gtid>,
    /// Whether the transaction may contain statements as text that change rows.
    pub may_have_statements: bool,
    /// Number of the last transaction that must be committed before this one may begin.
    pub last_committed: i64,
    /// Number of the transaction in its file, from 1 on.
    pub sequence_number: i64,
    /// Commit times in microseconds since 1970, since MySQL 8.0.1.
    pub commit_times: Option<CommitTimes>,
    /// Bytes of the transaction, this event included; 0: unknown.
    pub transaction_length: u64,
    /// Version of the server, as 80400 for 8.4.0; `None` before MySQL 8.0.14.
    pub server_version: Option<ServerVersions>,
}

/// Commit times of a transaction, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitTimes {
    /// At the server that sends.
    pub immediate: u64,
    /// At the server that ran it first.
    pub original: u64,
}

/// Versions of the servers of a transaction, as 80400 for 8.4.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerVersions {
    /// Of the server that sends.
    pub immediate: u32,
    /// Of the server that ran it first.
    pub original: u32,
}

/// The type of the numbers that follow: the logical clock.
const LOGICAL_CLOCK: u8 = 2;
const MAY_HAVE_STATEMENTS: u8 = 1;
/// Set in the immediate time if the original time follows.
const HAS_ORIGINAL_TIME: u64 = 1 << 55;
/// Set in the immediate version if the original version follows.
const HAS_ORIGINAL_VERSION: u32 = 1 << 31;

impl GtidEvent {
    pub(super) fn decode(mut body: Reader<'_>, is_anonymous: bool) -> Decoded<GtidEvent> {
        let flags = body.u8("flags")?;
        let source = Uuid(body.array("UUID")?);
        let number = body.u64("number")?;
        let gtid = match (is_anonymous, i64::try_from(number)) {
            (true, _) => None,
            (false, Ok(number)) if number > 0 => Some(Gtid::new(source, number)),
            _ => return Err(body.error(format!("the number of a transaction is {number}"))),
        };
        let mut event = GtidEvent {
            gtid,
            may_have_statements: flags & MAY_HAVE_STATEMENTS != 0,
            last_committed: 0,
            sequence_number: 0,
            commit_times: None,
            transaction_length: 0,
            server_version: None,
        };
        if body.is_empty() || body.u8("type of the clock")? != LOGICAL_CLOCK {
            return Ok(event);
        }
        event.last_committed = body.u64("last_committed")? as i64;
        event.sequence_number = body.u64("sequence_number")? as i64;
        if body.len() < 7 {
            return Ok(event);
        }
        let immediate = body.uint(7, "commit time")?;
        let original = match immediate & HAS_ORIGINAL_TIME {
            0 => immediate,
            _ => body.uint(7, "original commit time")?,
        };
        let immediate = immediate & !HAS_ORIGINAL_TIME;
        event.commit_times = Some(CommitTimes {
            immediate,
            original,
        });
        if !body.is_empty() {
            event.transaction_length = body.lenenc("length of the transaction")?;
        }
        if body.len() >= 4 {
            let immediate = body.u32("version of the server")?;
            let original = match immediate & HAS_ORIGINAL_VERSION {
                0 => immediate,
                _ => body.u32("version of the first server")?,
            };
            let immediate = immediate & !HAS_ORIGINAL_VERSION;
            event.server_version = Some(ServerVersions {
                immediate,
                original,
            });
        }
        Ok(event)
    }

    /// Reads GTID_TAGGED.
    pub(super) fn decode_tagged(mut body: Reader<'_>) -> Decoded<GtidEvent> {
        let version = take_number(&mut body, "version of the form")?;
        if version != 1 {
            return Err(body.error(format!("version {version} of its form is not known")));
        }
        take_number(&mut body, "size")?;
        let last_required = take_number(&mut body, "last field")?;
        let (mut flags, mut gtid) = (0, Gtid::default());
        let (mut last_committed, mut sequence_number) = (0, 0);
        let (mut immediate, mut original, mut transaction_length) = (0, None, 0);
        let (mut version, mut original_version) = (0, None);
        while !body.is_empty() {
            match take_number(&mut body, "number of a field")? {
                0 => flags = take_number(&mut body, "flags")?,
                1 => {
                    for byte in &mut gtid.source.0 {
                        let value = take_number(&mut body, "UUID")?;
                        *byte = u8::try_from(value).map_err(|_| body.error("a malformed UUID"))?;
                    }
                }
                2 => gtid.number = take_signed(&mut body, "number")?,
                3 => {
                    let mut rest = body.rest();
                    let tag = Tag::take(&mut rest);
                    body = Reader::new("GTID_TAGGED", rest);
                    gtid.tag = tag.ok_or_else(|| body.error("a malformed tag"))?;
                }
                4 => last_committed = take_signed(&mut body, "last_committed")?,
                5 => sequence_number = take_signed(&mut body, "sequence_number")?,
                6 => immediate = take_number(&mut body, "commit time")?,
                7 => original = Some(take_number(&mut body, "original commit time")?),
                8 => transaction_length = take_number(&mut body, "length of the transaction")?,
                9 => version = take_version(&mut body)?,
                10 => original_version = Some(take_version(&mut body)?),
                11 => drop(take_number(&mut body, "ticket of the group")?),
                // Unknown fields come last, so that they can be skipped.
                field if field > last_required => drop(body.rest()),
                field => return Err(body.error(format!("the field {field} is not known"))),
            }
        }
        if gtid.number < 1 {
            return Err(body.error(format!("the number of a transaction is {}", gtid.number)));
        }
        Ok(GtidEvent {
            gtid: Some(gtid),
            may_have_statements: flags as u8 & MAY_HAVE_STATEMENTS != 0,
            last_committed,
            sequence_number,
            commit_times: Some(CommitTimes {
                immediate,
                original: original.unwrap_or(immediate),
            }),
            transaction_length,
            server_version: Some(ServerVersions {
                immediate: version,
                original: original_version.unwrap_or(version),
            }),
        })
    }

    /// Whether the identifier has a tag.
    pub(super) fn has_tag(&self) -> bool {
        self.gtid.is_some_and(|gtid| !gtid.tag.is_none())
    }

    /// Appends the event in the format of GTID_TAGGED.
    fn encode_tagged(&self, out: &mut Vec<u8>) {
        let gtid = self.gtid.unwrap_or_default();
        let mut fields = Vec::new();
        let mut number = |field: u64, value: u64| {
            put_number(&mut fields, field);
            put_number(&mut fields, value);
        };
        number(0, u64::from(self.may_have_statements));
        put_number(&mut fields, 1);
        for byte in gtid.source.0 {
            put_number(&mut fields, u64::from(byte));
        }
        put_number(&mut fields, 2);
        put_signed(&mut fields, gtid.number);
        put_number(&mut fields, 3);
        gtid.tag.append_bytes(&mut fields);
        for (field, value) in [(4, self.last_committed), (5, self.sequence_number)] {
            put_number(&mut fields, field);
            put_signed(&mut fields, value);
        }
        let times = self.commit_times.unwrap_or(CommitTimes {
            immediate: 0,
            original: 0,
        });
        let versions = self.server_version.unwrap_or(ServerVersions {
            immediate: 0,
            original: 0,
        });
        let mut number = |field: u64, value: u64| {
            put_number(&mut fields, field);
            put_number(&mut fields, value);
        };
        number(6, times.immediate);
        if times.original != times.immediate {
            number(7, times.original);
        }
        number(8, self.transaction_length);
        number(9, u64::from(versions.immediate));
        if versions.original != versions.immediate {
            number(10, u64::from(versions.original));
        }
        // Version of the form; the size with both; no field must be known.
        let size = (1..=9).map(|width| fields.len() as u64 + 2 + width);
        let size = size
            .zip(1..)
            .find(|(size, width)| number_len(*size) == *width);
        put_number(out, 1);
        put_number(out, size.map_or(0, |(size, _)| size));
        put_number(out, 0);
        out.extend_from_slice(&fields);
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        if self.has_tag() {
            self.encode_tagged(out);
            return;
        }
        out.push(u8::from(self.may_have_statements) * MAY_HAVE_STATEMENTS);
        let gtid = self.gtid.unwrap_or_default();
        out.extend_from_slice(&gtid.source.0);
        out.extend_from_slice(&gtid.number.to_le_bytes());
        out.push(LOGICAL_CLOCK);
        out.extend_from_slice(&self.last_committed.to_le_bytes());
        out.extend_from_slice(&self.sequence_number.to_le_bytes());
        let Some(times) = self.commit_times else {
            return;
        };
        if times.immediate == times.original {
            put_uint(out, times.immediate, 7);
        } else {
            put_uint(out, times.immediate | HAS_ORIGINAL_TIME, 7);
            put_uint(out, times.original, 7);
        }
        put_lenenc(out, self.transaction_length);
        let Some(versions) = self.server_version else {
            return;
        };
        if versions.immediate == versions.original {
            put_uint(out, u64::from(versions.immediate), 4);
        } else {
            put_uint(out, u64::from(versions.immediate | HAS_ORIGINAL_VERSION), 4);
            put_uint(out, u64::from(versions.original), 4);
        }
    }

    /// Bytes of the body without the length of the transaction.
    fn len_without_length(&self) -> usize {
        let double = |is_double: bool, width: usize| width << u8::from(is_double);
        let times = self.commit_times;
        let times = times.map_or(0, |times| double(times.immediate != times.original, 7));
        let versions = self.server_version.filter(|_| self.commit_times.is_some());
        let versions = versions.map_or(0, |v| double(v.immediate != v.original, 4));
        // Flags, UUID, number, type of the clock and its two numbers.
        1 + 16 + 8 + 1 + 16 + times + versions
    }

    /// Sets the length of the transaction from the bytes of all its other events, header and checksum of this one
    /// included: the length of this event depends on the number that it contains.
    pub fn set_transaction_length(&mut self, other_events: u64, has_checksum: bool) {
        let checksum = if has_checksum { super::CHECKSUM_LEN } else { 0 };
        let own = super::HEADER_LEN + self.len_without_length() + checksum;
        let fixed = own as u64 + other_events;
        // The number's own width is 1 to 9 bytes: the first that is consistent.
        self.transaction_length = [1, 3, 4, 9]
            .into_iter()
            .map(|width| (width, fixed + width as u64))
            .find(|(width, total)| lenenc_len(*total) == *width)
            .map_or(fixed + 9, |(_, total)| total);
    }
}

/// Takes an integer of MySQL's serialization library.
fn take_number(body: &mut Reader<'_>, field: &'static str) -> Decoded<u64> {
    let first = body.u8(field)?;
    let more = first.trailing_ones();
    let rest = body.uint(more as usize, field)?;
    Ok(match more {
        8 => rest,
        7 => rest,
        _ => (u64::from(first) | rest << 8) >> (more + 1),
    })
}

/// Takes a signed integer of MySQL's serialization library.
fn take_signed(body: &mut Reader<'_>, field: &'static str) -> Decoded<i64> {
    let number = take_number(body, field)?;
    let magnitude = (number >> 1) as i64;
    Ok(if number & 1 == 0 {
        magnitude
    } else {
        !magnitude
    })
}

/// Bytes of an integer of MySQL's serialization library.
fn number_len(number: u64) -> usize {
    match 64 - number.leading_zeros() as usize {
        bits @ 0..=56 => bits.div_ceil(7).max(1),
        _ => 9,
    }
}

/// Appends an integer of MySQL's serialization library.
fn put_number(out: &mut Vec<u8>, number: u64) {
    let len = number_len(number);
    if len < 9 {
        let ones = (1 << (len - 1)) - 1;
        put_uint(out, number << len | ones, len);
    } else {
        out.push(0xFF);
        put_uint(out, number, 8);
    }
}

/// Appends a signed integer of MySQL's serialization library.
fn put_signed(out: &mut Vec<u8>, number: i64) {
    let is_negative = u64::from(number < 0);
    let magnitude = if number < 0 { !number } else { number };
    put_number(out, (magnitude as u64) << 1 | is_negative);
}

/// Takes the version of a server.
fn take_version(body: &mut Reader<'_>) -> Decoded<u32> {
    let version = take_number(body, "version of a server")?;
    u32::try_from(version).map_err(|_| body.error(format!("the version {version}")))
}

/// PREVIOUS_GTIDS: all transactions of the files before.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PreviousGtids {
    /// The set.
    pub set: GtidSet,
}

impl PreviousGtids {
    pub(super) fn decode(mut body: Reader<'_>) -> Decoded<PreviousGtids> {
        let set =
            GtidSet::from_bytes(body.rest()).map_err(|error| body.error(error.to_string()))?;
        Ok(PreviousGtids { set })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.set.append_bytes(out);
    }
}
