//! The binary log of copied data. Its first file has no transactions, and lists those that the data contain as previous GTIDs, so
//! that the server follows the source of the copy from there.

use crate::annotation::Annotation;
use crate::file::{self, file_name};
use crate::{Error, Result};
use porpoise_base::disk::Disk;
use porpoise_replication::gtid::{Gtid, GtidSet, Uuid};
use std::path::Path;

/// Bytes of an annotation that a [`GtidScan`] needs.
pub const ANNOTATION_HEAD: usize = 64;

/// Computes the identifiers of commits as the log's writer does.
#[derive(Clone, Debug)]
pub struct GtidScan {
    executed: GtidSet,
    last_commit: u64,
    server_uuid: Uuid,
}

impl GtidScan {
    /// A scan of the commits after `last_commit`; `executed` has the identifiers of all up to it.
    #[must_use]
    pub fn new(executed: GtidSet, last_commit: u64, server_uuid: Uuid) -> GtidScan {
        GtidScan {
            executed,
            last_commit,
            server_uuid,
        }
    }

    /// Adds a commit; the first [`ANNOTATION_HEAD`] bytes of its annotation suffice.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: an annotation of another version.
    pub fn commit(&mut self, commit: u64, annotation: &[u8]) -> Result<()> {
        if commit <= self.last_commit {
            return Ok(());
        }
        let decoded = Annotation::decode(annotation)
            .map_err(|what| Error::Corrupt(format!("commit {commit}: {what}")))?;
        let own = self.server_uuid;
        let gtid = decoded.gtid;
        let gtid = gtid.unwrap_or_else(|| Gtid::new(own, self.executed.next_number(own)));
        self.executed.insert(gtid);
        self.last_commit = commit;
        Ok(())
    }

    /// The identifiers.
    #[must_use]
    pub fn executed(&self) -> &GtidSet {
        &self.executed
    }

    /// Writes a log into a new directory, without transactions, which continues after these identifiers.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub fn write(&self, disk: &dyn Disk, dir: &Path, version: &str, micros: u64) -> Result<()> {
        disk.create_dir(dir).map_err(|e| Error::io(dir, &e))?;
        file::replace(
            disk,
            dir,
            file::STATE,
            format!("{}\n", self.last_commit).as_bytes(),
        )?;
        let head = file::head(0, version, micros, true, &self.executed);
        let name = file_name(1);
        file::replace(disk, dir, &name, &head)?;
        file::replace(disk, dir, file::INDEX, format!("./{name}\n").as_bytes())
    }
}
