//! Events that only MariaDB writes: its GTID, and the list of GTIDs at the start of a file.

pub use crate::gtid::mariadb::MariadbGtid;

use super::bytes::put_uint;
use super::{Decoded, Header, Reader};
use porpoise_rows::prepared::Xid;

/// The event is a single statement that commits itself; no XID follows.
const STANDALONE: u8 = 1;
const GROUP_COMMIT_ID: u8 = 2;
const TRANSACTIONAL: u8 = 4;
const DDL: u8 = 32;
const PREPARED_XA: u8 = 64;
const COMPLETED_XA: u8 = 128;

/// Shortest body of a GTID event; the rest is zero.
const MIN_GTID_LEN: usize = 19;

/// MariaDB's GTID: start of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MariadbGtidEvent {
    /// Identifier.
    pub gtid: MariadbGtid,
    /// Whether a single statement follows that commits itself; otherwise the event takes the place of `BEGIN`.
    pub is_standalone: bool,
    /// Whether all changes can be rolled back.
    pub is_transactional: bool,
    /// Whether the statement defines something.
    pub is_ddl: bool,
    /// Number of the group commit.
    pub commit_id: Option<u64>,
    /// The branch of an XA transaction that is prepared or ended.
    pub xa: Option<XaStep>,
}

/// A step of an XA transaction branch in two phases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XaStep {
    /// The rows of the branch follow; then it is prepared.
    Prepare(Xid),
    /// The branch was prepared before; XA COMMIT or XA ROLLBACK follows as a statement.
    End(Xid),
}

/// Reads the identifier of a branch.
fn decode_xid(body: &mut Reader<'_>) -> Decoded<Xid> {
    let format = body.u32("format")?;
    let global = body.u8("length of the global part")?;
    let branch = body.u8("length of the branch")?;
    Ok(Xid {
        format: u64::from(format),
        global: body.take(global.into(), "global part")?.to_vec(),
        branch: body.take(branch.into(), "branch")?.to_vec(),
    })
}

fn encode_xid(xid: &Xid, out: &mut Vec<u8>) {
    put_uint(out, xid.format, 4);
    out.extend_from_slice(&[xid.global.len() as u8, xid.branch.len() as u8]);
    out.extend_from_slice(&xid.global);
    out.extend_from_slice(&xid.branch);
}

impl MariadbGtidEvent {
    pub(super) fn decode(mut body: Reader<'_>, header: &Header) -> Decoded<MariadbGtidEvent> {
        let number = body.u64("number")?;
        let domain = body.u32("domain")?;
        let flags = body.u8("flags")?;
        let commit_id = match flags & GROUP_COMMIT_ID {
            0 => None,
            _ => Some(body.u64("number of the group commit")?),
        };
        let xa = match flags & (PREPARED_XA | COMPLETED_XA) {
            0 => None,
            PREPARED_XA => Some(XaStep::Prepare(decode_xid(&mut body)?)),
            _ => Some(XaStep::End(decode_xid(&mut body)?)),
        };
        Ok(MariadbGtidEvent {
            gtid: MariadbGtid {
                domain,
                server: header.server_id,
                number,
            },
            is_standalone: flags & STANDALONE != 0,
            is_transactional: flags & TRANSACTIONAL != 0,
            is_ddl: flags & DDL != 0,
            commit_id,
            xa,
        })
    }

    /// Appends the body. The server is that of the header.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let start = out.len();
        put_uint(out, self.gtid.number, 8);
        put_uint(out, u64::from(self.gtid.domain), 4);
        let (step, xid) = match &self.xa {
            None => (0, None),
            Some(XaStep::Prepare(xid)) => (PREPARED_XA, Some(xid)),
            Some(XaStep::End(xid)) => (COMPLETED_XA, Some(xid)),
        };
        out.push(
            flag(self.is_standalone, STANDALONE)
                | flag(self.is_transactional, TRANSACTIONAL)
                | flag(self.is_ddl, DDL)
                | flag(self.commit_id.is_some(), GROUP_COMMIT_ID)
                | step,
        );
        if let Some(id) = self.commit_id {
            put_uint(out, id, 8);
        }
        if let Some(xid) = xid {
            encode_xid(xid, out);
        }
        out.resize(out.len().max(start + MIN_GTID_LEN), 0);
    }
}

/// The upper four bits of the count are flags.
const COUNT: u32 = (1 << 28) - 1;

pub(super) fn decode_gtid_list(mut body: Reader<'_>) -> Decoded<Vec<MariadbGtid>> {
    let count = body.u32("number of GTIDs")? & COUNT;
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(MariadbGtid {
            domain: body.u32("domain")?,
            server: body.u32("server")?,
            number: body.u64("number")?,
        });
    }
    Ok(list)
}

pub(super) fn encode_gtid_list(list: &[MariadbGtid], out: &mut Vec<u8>) {
    put_uint(out, list.len() as u64, 4);
    for gtid in list {
        put_uint(out, u64::from(gtid.domain), 4);
        put_uint(out, u64::from(gtid.server), 4);
        put_uint(out, gtid.number, 8);
    }
}
