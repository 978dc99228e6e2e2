//! The position of a copy of data in the binary log: a server that starts from the copy follows its source from there.
//!
//! ```text
//! log of the source   | T1 T2 | T3 T4 |            executed: T1, T2 at commit 2, noted before the copy began
//! copy                | checkpoint: T1 | log: T2 T3 |  its own log begins behind T1 to T3
//! ```
//!
//! Invariant: no commit behind the one that is noted is in the checkpoint only: the identifiers of those commits are
//! found in the copy's log.

use porpoise_backup::BinlogPosition;
use porpoise_base::disk::Disk;
use porpoise_binlog::BinaryLog;
use porpoise_binlog::seed::{ANNOTATION_HEAD, GtidScan};
use porpoise_kv::{Error, Result};
use porpoise_kv_mem::{AnnotationScanner, HotCopy, KvMem};
use porpoise_replication::gtid::{GtidSet, Uuid};
use porpoise_sql::VERSION;
use std::path::Path;

/// Attempts to begin a copy without a checkpoint at the same moment.
const ATTEMPTS: usize = 5;

/// Begins a copy of a store, and notes the position in its binary log.
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
        // What a checkpoint contains is on disk, and therefore in the log's files then. A log that is closed has no position that
        // is worth noting.
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

/// Finds the transactions of a copy while its log is written.
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

    /// Counts the commits of a group of the log.
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

    /// Writes a binary log that begins behind the transactions.
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
