//! Rewinding: a member discards its transactions that the leader lacks, without copying the leader's data.
//!
//! A new store is built beside the one in use, from the member's own checkpoint and its log up to the first of those
//! transactions, as a restore to a point in time does. The files of the checkpoint never change, so they are linked; only
//! the log since the checkpoint is written.
//!
//! ```text
//! store      | checkpoint | T1 T2 T3 | X1 T4 X2 |      the leader lacks X1 and X2
//! incoming   | (linked)   | T1 T2 T3 |                 T4 is received again from the leader
//! ```
//!
//! The new store replaces the data as a copy does ([`super::clone`]): same directory, same steps, same invariants.
//!
//! Condition: the newest checkpoint is older than the first of those transactions, and the binary log still has that
//! transaction. Otherwise the leader's data are copied.

use crate::backup::log_position::GtidTracker;
use crate::binlog::DIRECTORY;
use crate::engine::STORE;
use porpoise_backup::BinlogPosition;
use porpoise_base::cancel::Cancel;
use porpoise_base::disk;
use porpoise_binlog::BinaryLog;
use porpoise_kv::Error;
use porpoise_kv_mem::{CommitCut, CopiedFile, KvMem, StoreBuilder};
use porpoise_replication::gtid::GtidSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a file that are copied at once, if it cannot be linked.
const PART_BYTES: usize = 1 << 20;

/// The parts of a member that rewinding uses.
pub struct Rewind {
    /// The engine.
    pub engine: Arc<KvMem>,
    /// Its binary log.
    pub binlog: Arc<BinaryLog>,
    /// The transactions that the leader lacks.
    pub lost: GtidSet,
    /// The data directory.
    pub data_dir: PathBuf,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Rewind {
    /// Builds the store in a new directory. Returns false if the condition is not met.
    ///
    /// # Errors
    /// A description.
    pub fn build(&self, dir: &Path, cancel: &Cancel) -> Result<bool, String> {
        self.binlog.catch_up().map_err(text)?;
        let Some(branch) = self.binlog.branch(&self.lost).map_err(text)? else {
            return Ok(false);
        };
        let mut copy = self.engine.begin_copy().map_err(text)?;
        if copy.snapshot >= branch.commit {
            return Ok(false);
        }
        let store = dir.join(STORE);
        let builder = StoreBuilder::new(disk::real(), &store, copy.manifest.as_deref());
        let mut builder = builder.map_err(text)?;
        for file in &copy.files {
            self.put_file(&builder, &store, file)?;
        }
        let mut cut = CommitCut::before(branch.commit);
        while let Some(group) = copy.log.next_group().map_err(text)? {
            if cancel.reason().is_some() {
                return Err("the leader has changed".to_owned());
            }
            builder.put_group_before(&group, &mut cut).map_err(text)?;
        }
        builder.finish().map_err(text)?;
        let position = BinlogPosition {
            executed: branch.executed.to_string(),
            commit: branch.commit - 1,
            server_uuid: self.binlog.server_uuid().to_string(),
        };
        let tracker = GtidTracker::new(&position).map_err(text)?;
        let log = dir.join(DIRECTORY);
        tracker.write_log(&*disk::real(), &log).map_err(text)?;
        tracing::info!(executed = %branch.executed, "failover: the data are rewound");
        Ok(true)
    }

    /// Links a file of the checkpoint, or copies it if a later checkpoint has removed it meanwhile.
    fn put_file(
        &self,
        builder: &StoreBuilder,
        store: &Path,
        file: &CopiedFile,
    ) -> Result<(), String> {
        let own = self.data_dir.join(STORE).join(&file.name);
        if fs::hard_link(&own, store.join(&file.name)).is_ok() {
            return Ok(());
        }
        let mut at = 0;
        let parts = std::iter::from_fn(|| {
            let part = (at < file.bytes).then(|| file.read(at, PART_BYTES))?;
            at += part.as_ref().map_or(file.bytes, |part| part.len() as u64);
            Some(part)
        });
        let done = builder.put_file::<Error>(&file.name, parts);
        done.map(drop).map_err(text)
    }
}
