//! The XA transaction branches of a server: those of sessions, and the prepared ones.
//!
//! Invariants:
//! 1. The directory has one entry for each branch, from XA START to its end; two branches never have the
//!    same gtrid and bqual, whatever their formatIDs (MySQL does not compare these).
//! 2. A prepared branch is ended by one session at a time: a session locks it, ends it, and leaves `None` in
//!    its place for the session that gets the lock next.
//! 3. The name of a branch in the engine is [`Xid::to_name`] (docs/formats.md, "Prepared transactions").

use parking_lot::Mutex;
use porpoise_rows::Db;
use porpoise_rows::prepared::PreparedTxn;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A branch identifier.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Xid {
    /// gtrid
    pub(crate) global: Vec<u8>,
    /// bqual
    pub(crate) branch: Vec<u8>,
    /// formatID
    pub(crate) format: u64,
}

/// gtrid and bqual: what identifies a branch.
type BranchKey = (Vec<u8>, Vec<u8>);

impl Xid {
    pub(crate) fn new(xid: &ast::Xid<'_>) -> Xid {
        Xid {
            global: xid.global.to_vec(),
            branch: xid.branch.to_vec(),
            format: xid.format,
        }
    }

    fn key(&self) -> BranchKey {
        (self.global.clone(), self.branch.clone())
    }

    /// Its bytes in the engine: lengths of gtrid and bqual, gtrid, bqual, format (big-endian).
    pub(crate) fn to_name(&self) -> Vec<u8> {
        // Each is at most 64 bytes long.
        let mut name = vec![self.global.len() as u8, self.branch.len() as u8];
        name.extend_from_slice(&self.global);
        name.extend_from_slice(&self.branch);
        name.extend_from_slice(&self.format.to_be_bytes());
        name
    }

    fn from_name(name: &[u8]) -> Option<Xid> {
        let ([global, branch], rest) = name.split_first_chunk::<2>()?;
        let (global, rest) = rest.split_at_checked(usize::from(*global))?;
        let (branch, format) = rest.split_at_checked(usize::from(*branch))?;
        Some(Xid {
            global: global.to_vec(),
            branch: branch.to_vec(),
            format: u64::from_be_bytes(format.try_into().ok()?),
        })
    }
}

/// A prepared branch; `None` after its end.
pub(crate) type PreparedBranch = Arc<Mutex<Option<PreparedTxn>>>;

enum Stage {
    /// Its session works in it.
    Active,
    Prepared {
        txn: PreparedBranch,
        /// Whether it still belongs to the session that prepared it.
        attached: bool,
    },
}

struct Entry {
    format: u64,
    stage: Stage,
}

/// All branches of a server.
#[derive(Default)]
pub(crate) struct Branches {
    all: Mutex<BTreeMap<BranchKey, Entry>>,
}

impl Branches {
    /// The branches that were prepared before the last restart.
    pub(crate) fn restore(db: &Db) -> Result<Branches> {
        let branches = Branches::default();
        for txn in PreparedTxn::restore(db)? {
            let xid = Xid::from_name(txn.name());
            let text = "a prepared transaction whose name is not an XID";
            let xid = xid.ok_or_else(|| SqlError::internal(text))?;
            branches.add_prepared(&xid, txn, false);
        }
        Ok(branches)
    }

    /// Adds a branch that a session begins. Returns false if there is one with its identifier.
    pub(crate) fn begin(&self, xid: &Xid) -> bool {
        let mut all = self.all.lock();
        if all.contains_key(&xid.key()) {
            return false;
        }
        let entry = Entry {
            format: xid.format,
            stage: Stage::Active,
        };
        all.insert(xid.key(), entry);
        true
    }

    /// Records that a branch is prepared.
    pub(crate) fn add_prepared(&self, xid: &Xid, txn: PreparedTxn, attached: bool) {
        let txn = Arc::new(Mutex::new(Some(txn)));
        let entry = Entry {
            format: xid.format,
            stage: Stage::Prepared { txn, attached },
        };
        self.all.lock().insert(xid.key(), entry);
    }

    /// Leaves a prepared branch to other sessions.
    pub(crate) fn detach(&self, xid: &Xid) {
        if let Some(entry) = self.all.lock().get_mut(&xid.key())
            && let Stage::Prepared { attached, .. } = &mut entry.stage
        {
            *attached = false;
        }
    }

    /// Removes a branch that has ended.
    pub(crate) fn remove(&self, xid: &Xid) {
        self.all.lock().remove(&xid.key());
    }

    /// A prepared branch that belongs to no session, or to the caller's (`own`).
    pub(crate) fn prepared(&self, xid: &Xid, own: bool) -> Option<PreparedBranch> {
        let all = self.all.lock();
        let entry = all.get(&xid.key()).filter(|e| e.format == xid.format)?;
        match &entry.stage {
            Stage::Prepared { txn, attached } if *attached == own => Some(txn.clone()),
            _ => None,
        }
    }

    /// All prepared branches, in order of their identifiers.
    pub(crate) fn all_prepared(&self) -> Vec<(Xid, PreparedBranch)> {
        let all = self.all.lock();
        let prepared = all.iter().filter_map(|((global, branch), entry)| {
            let Stage::Prepared { txn, .. } = &entry.stage else {
                return None;
            };
            let xid = Xid {
                global: global.clone(),
                branch: branch.clone(),
                format: entry.format,
            };
            Some((xid, txn.clone()))
        });
        prepared.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xa_names_round_trip() {
        let xid = Xid {
            global: b"ab".to_vec(),
            branch: b"c".to_vec(),
            format: 258,
        };
        let name = xid.to_name();
        assert_eq!(name, b"\x02\x01abc\0\0\0\0\0\0\x01\x02");
        assert_eq!(Xid::from_name(&name), Some(xid));
        for cut in 0..name.len() {
            assert_eq!(Xid::from_name(&name[..cut]), None);
        }
    }
}
