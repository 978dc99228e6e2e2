//! The position of a copy of data in the binary log: a server that starts from the copy follows its source from there.
//!
//! ```text
//! log of the source   | T1 T2 | T3 T4 |            executed: T1, T2 at commit 2, recorded before the copy began
//! copy                | checkpoint: T1 | log: T2 T3 |  its own log begins after T1 to T3
//! ```
//!
//! Invariant: every commit of the copy after the recorded one is in the copy's log, also if a checkpoint has it: its
//! identifier is found there.

use porpoise_backup::BinlogPosition;
use porpoise_base::disk::Disk;
use porpoise_binlog::BinaryLog;
use porpoise_binlog::seed::{ANNOTATION_HEAD, GtidScan};
use porpoise_kv::{Error, Result};
use porpoise_kv_mem::{AnnotationScanner, HotCopy, KvMem};
use porpoise_replication::gtid::{GtidSet, Uuid};
use porpoise_sql::VERSION;
use std::path::Path;

/// Maximum number of attempts; one fails if a checkpoint is written meanwhile.
const ATTEMPTS: usize = 5;

/// Begins a copy of a store, and records the position in its binary log.
///
/// # Errors
/// The engine's.
pub fn begin_copy(
    engine: &KvMem,
    binlog: Option<&BinaryLog>,
) -> Result<(HotCopy, Option<BinlogPosition>)> {
    let Some(binlog) = binlog else {
        return Ok((engine.begin_copy()?, None));
    };
    for _ in 0..ATTEMPTS {
        let checkpoint = engine.checkpoint_snapshot();
        // The commits of the checkpoint are on disk, and therefore in the log's files once its writer has caught up. A closed log
        // has no such position.
        if binlog.catch_up().is_err() {
            break;
        }
        let (executed, commit) = binlog.written();
        let copy = engine.begin_copy()?;
        if copy.snapshot == checkpoint {
            let position = BinlogPosition {
                executed: executed.to_string(),
                commit,
                server_uuid: binlog.server_uuid().to_string(),
            };
            return Ok((copy, Some(position)));
        }
    }
    Ok((engine.begin_copy()?, None))
}

/// Computes the identifiers of a copy's transactions while its log is written.
pub struct GtidTracker {
    scanner: AnnotationScanner,
    scan: GtidScan,
}

impl GtidTracker {
    /// A tracker of a copy with this position.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: a position that cannot be read.
    pub fn new(position: &BinlogPosition) -> Result<GtidTracker> {
        let executed = GtidSet::parse(&position.executed).ok();
        let uuid = Uuid::parse(&position.server_uuid);
        let (Some(executed), Some(uuid)) = (executed, uuid) else {
            let text = "the position in the binary log cannot be read";
            return Err(Error::Corrupt(text.to_owned()));
        };
        Ok(GtidTracker {
            scanner: AnnotationScanner::new(ANNOTATION_HEAD),
            scan: GtidScan::new(executed, position.commit, uuid),
        })
    }

    /// Adds the commits of a group of the log.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: records that cannot be read.
    pub fn group(&mut self, records: &[u8]) -> Result<()> {
        for found in self.scanner.group(records)? {
            let counted = self.scan.commit(found.commit, &found.bytes);
            counted.map_err(|error| Error::Corrupt(error.to_string()))?;
        }
        Ok(())
    }

    /// The identifiers of the transactions.
    #[must_use]
    pub fn executed(&self) -> &GtidSet {
        self.scan.executed()
    }

    /// Writes a binary log that begins after the transactions.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write_log(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let micros = porpoise_base::clock::system().unix_micros();
        let micros = u64::try_from(micros).unwrap_or(0);
        let written = self.scan.write(disk, dir, VERSION, micros);
        written.map_err(|error| Error::Io(error.to_string()))
    }
}
