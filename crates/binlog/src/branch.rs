//! The point at which a log branches off from that of another server, to which the data can be rewound.

use crate::Result;
use crate::file::{file_name, scan_until};
use crate::log::BinaryLog;
use porpoise_replication::gtid::GtidSet;

/// A point in the order of commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The first commit after it.
    pub commit: u64,
    /// Identifiers of the transactions before it.
    pub executed: GtidSet,
}

impl BinaryLog {
    /// The point before the first of these transactions; `None` if it is no longer in the files. The caller ensures that none of
    /// them is being written.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn branch(&self, lost: &GtidSet) -> Result<Option<Branch>> {
        let number = {
            let state = self.state.lock();
            let begins_before = |previous: &GtidSet| previous.intersect(lost).is_empty();
            let mut files = state.files.iter().rev();
            files
                .find(|file| begins_before(&file.previous))
                .map(|file| file.number)
        };
        let Some(number) = number else {
            return Ok(None);
        };
        let mut first = None;
        let path = self.options.dir.join(file_name(number));
        let before = scan_until(&*self.options.disk, &path, |gtid, commit| {
            let is_lost = gtid.is_some_and(|gtid| lost.contains(gtid));
            if is_lost {
                first = Some(commit);
            }
            is_lost
        })?;
        Ok(first.map(|commit| Branch {
            commit,
            executed: before.executed,
        }))
    }
}
