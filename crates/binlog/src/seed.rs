//! The log of data that were copied: its first file has no transactions, and names those that the data contain as earlier ones, so
//! that the server follows the source of the copy from there.

use crate::annotation::Annotation;
use crate::file::{self, file_name};
use crate::{Error, Result};
use porpoise_base::disk::Disk;
use porpoise_replication::gtid::{Gtid, GtidSet, Uuid};
use std::path::Path;

/// Bytes of an annotation that a [`GtidScan`] needs.
pub const ANNOTATION_HEAD: usize = 64;

/// Counts the identifiers of commits as the log's writer does.
#[derive(Clone, Debug)]
pub struct GtidScan {
    executed: GtidSet,
    last_commit: u64,
    server_uuid: Uuid,
}

impl GtidScan {
    /// A scan of the commits behind `last_commit`, up to which `executed` has all identifiers.
    #[must_use]
    pub fn new(executed: GtidSet, last_commit: u64, server_uuid: Uuid) -> GtidScan {
        GtidScan {
            executed,
            last_commit,
            server_uuid,
        }
    }

    /// Counts a commit; the first [`ANNOTATION_HEAD`] bytes of its annotation suffice.
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

    /// Writes a log without transactions into a new directory, which begins behind these identifiers.
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
