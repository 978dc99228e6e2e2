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
use porpoise_rows::prepared::{PreparedTxn, Xid};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast;
use std::collections::BTreeMap;
use std::sync::Arc;

/// gtrid and bqual: what identifies a branch.
type BranchKey = (Vec<u8>, Vec<u8>);

/// The identifier in a statement.
pub(crate) fn xid_of(xid: &ast::Xid<'_>) -> Xid {
    Xid {
        global: xid.global.to_vec(),
        branch: xid.branch.to_vec(),
        format: xid.format,
    }
}

/// Error for an identifier that another branch has.
pub(crate) fn duplicate_xid() -> SqlError {
    SqlError::new(1440, "XAE08", "XAER_DUPID: The XID already exists")
}

fn key_of(xid: &Xid) -> BranchKey {
    (xid.global.clone(), xid.branch.clone())
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
        if all.contains_key(&key_of(xid)) {
            return false;
        }
        let entry = Entry {
            format: xid.format,
            stage: Stage::Active,
        };
        all.insert(key_of(xid), entry);
        true
    }

    /// Records that a branch is prepared.
    pub(crate) fn add_prepared(&self, xid: &Xid, txn: PreparedTxn, attached: bool) {
        let txn = Arc::new(Mutex::new(Some(txn)));
        let entry = Entry {
            format: xid.format,
            stage: Stage::Prepared { txn, attached },
        };
        self.all.lock().insert(key_of(xid), entry);
    }

    /// Leaves a prepared branch to other sessions.
    pub(crate) fn detach(&self, xid: &Xid) {
        if let Some(entry) = self.all.lock().get_mut(&key_of(xid))
            && let Stage::Prepared { attached, .. } = &mut entry.stage
        {
            *attached = false;
        }
    }

    /// Removes a branch that has ended.
    pub(crate) fn remove(&self, xid: &Xid) {
        self.all.lock().remove(&key_of(xid));
    }

    /// A prepared branch that belongs to no session, or to the caller's (`own`).
    pub(crate) fn prepared(&self, xid: &Xid, own: bool) -> Option<PreparedBranch> {
        let all = self.all.lock();
        let entry = all.get(&key_of(xid)).filter(|e| e.format == xid.format)?;
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

    /// Whether a branch is prepared.
    pub(crate) fn is_prepared(&self, xid: &Xid) -> bool {
        let all = self.all.lock();
        let entry = all.get(&key_of(xid)).filter(|e| e.format == xid.format);
        entry.is_some_and(|entry| matches!(entry.stage, Stage::Prepared { .. }))
    }

    /// Adds a branch that `prepare` prepares and that belongs to no session.
    pub(crate) fn prepare(
        &self,
        xid: &Xid,
        prepare: &mut dyn FnMut() -> porpoise_rows::Result<PreparedTxn>,
    ) -> Result<()> {
        if !self.begin(xid) {
            return Err(duplicate_xid());
        }
        match prepare() {
            Ok(txn) => {
                self.add_prepared(xid, txn, false);
                Ok(())
            }
            Err(error) => {
                self.remove(xid);
                Err(error.into())
            }
        }
    }
}
