//! GTID, ANONYMOUS_GTID and PREVIOUS_GTIDS.

use super::bytes::{lenenc_len, put_lenenc, put_uint};
use super::{Decoded, Reader};
use crate::gtid::{Gtid, GtidSet, Uuid};

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
            (false, Ok(number)) if number > 0 => Some(Gtid { source, number }),
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

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
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
