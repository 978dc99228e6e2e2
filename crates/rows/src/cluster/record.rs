//! The record that a server of a cluster keeps in the store (docs/formats.md, "Records of servers").

use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};

/// Version of the record.
pub const SERVER_RECORD_FORMAT_VERSION: u8 = 1;

/// Record of a server of a cluster, which the other servers read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerState {
    /// Number, unique in the cluster, given at each start.
    pub id: u64,
    /// Address, for people.
    pub address: String,
    /// Version of the program.
    pub program: String,
    /// Time of the start, microseconds since 1970 UTC, by the server's own clock.
    pub started: i64,
    /// End of the lease on the store's clock, milliseconds.
    pub lease_end: u64,
    /// Whether the server has loaded the catalog since it got this lease. Otherwise it runs no
    /// statements, and `loaded` and `drained` mean nothing.
    pub is_active: bool,
    /// The catalog version that new statements use.
    pub loaded: u64,
    /// The newest catalog version of which everything is done: no session uses a table that a change
    /// of this version or an older one keeps sessions away from.
    pub drained: u64,
    /// The next space when the server was started. It has created no space before that.
    pub first_space: u64,
}

impl ServerState {
    /// Whether new statements use `version` or a newer one.
    pub(crate) fn has_loaded(&self, version: u64) -> bool {
        self.is_active && self.loaded >= version
    }

    /// Whether everything is done that `version` or an older one requires.
    pub(crate) fn has_drained(&self, version: u64) -> bool {
        self.is_active && self.drained >= version
    }

    /// The end of the lease in a record, and the server's address; `None` if the record has another version.
    pub fn lease_in(record: &[u8]) -> Option<(u64, String)> {
        let server = ServerState::decode(0, record).ok()?;
        Some((server.lease_end, server.address))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(SERVER_RECORD_FORMAT_VERSION);
        w.str(&self.address);
        w.str(&self.program);
        w.i64(self.started);
        w.bool(self.is_active);
        for number in [self.lease_end, self.loaded, self.drained, self.first_space] {
            w.u64(number);
        }
        w.as_slice().to_vec()
    }

    pub(super) fn decode(id: u64, record: &[u8]) -> Result<ServerState> {
        let mut r = Reader::new(record);
        match r.u8()? {
            SERVER_RECORD_FORMAT_VERSION => {}
            other => {
                return Err(Error::corrupt(&format!(
                    "the record of server {id} has format version {other}; this server reads version {SERVER_RECORD_FORMAT_VERSION}"
                )));
            }
        }
        Ok(ServerState {
            id,
            address: r.str()?,
            program: r.str()?,
            started: r.i64()?,
            is_active: r.bool()?,
            lease_end: r.u64()?,
            loaded: r.u64()?,
            drained: r.u64()?,
            first_space: r.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_another_version_is_refused() {
        let state = ServerState {
            id: 7,
            address: "10.0.0.1:3306".into(),
            program: "0.1.0".into(),
            started: -1,
            is_active: true,
            lease_end: 1 << 40,
            loaded: 12,
            drained: 11,
            first_space: 64,
        };
        let mut bytes = state.encode();
        let lease = (1 << 40, "10.0.0.1:3306".to_owned());
        assert_eq!(ServerState::lease_in(&bytes), Some(lease));
        assert_eq!(ServerState::decode(7, &bytes).unwrap(), state);
        bytes[0] = 2;
        assert_eq!(ServerState::lease_in(&bytes), None);
        let refused = ServerState::decode(7, &bytes).unwrap_err().to_string();
        assert!(refused.contains("format version 2"), "{refused}");
        assert!(ServerState::decode(7, &bytes[..5]).is_err());
    }
}
