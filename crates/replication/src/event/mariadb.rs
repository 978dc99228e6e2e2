//! Events that only MariaDB writes: its GTID, and the list of GTIDs at the start of a file.

pub use crate::gtid::mariadb::MariadbGtid;

use super::bytes::put_uint;
use super::{Decoded, Header, Reader};

/// The event is a single statement that commits itself; no XID follows.
const STANDALONE: u8 = 1;
const GROUP_COMMIT_ID: u8 = 2;
const TRANSACTIONAL: u8 = 4;
const DDL: u8 = 32;
const PREPARED_XA: u8 = 64;
const COMPLETED_XA: u8 = 128;

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
    /// Whether the transaction is a branch that becomes prepared, or completes one.
    pub is_xa: bool,
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
            is_xa: flags & (PREPARED_XA | COMPLETED_XA) != 0,
        })
    }

    /// Appends the body. The server is that of the header. Branches of XA transactions are not written.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        put_uint(out, self.gtid.number, 8);
        put_uint(out, u64::from(self.gtid.domain), 4);
        out.push(
            flag(self.is_standalone, STANDALONE)
                | flag(self.is_transactional, TRANSACTIONAL)
                | flag(self.is_ddl, DDL)
                | flag(self.commit_id.is_some(), GROUP_COMMIT_ID),
        );
        match self.commit_id {
            Some(id) => put_uint(out, id, 8),
            None => out.extend_from_slice(&[0; 6]),
        }
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
