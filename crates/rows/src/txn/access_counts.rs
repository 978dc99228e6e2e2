//! Numbers of row accesses of a transaction, for the status variables `Handler_...`.

use super::ScanSpec;

/// Row accesses since the last [`super::Txn::take_accesses`] (manual, "Server Status Variables",
/// `Handler_...`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    /// Scans of a whole index or table, from the beginning.
    pub first: u64,
    /// Keys looked up, and ranges begun.
    pub key: u64,
    /// Scans of a whole index or table, from the end.
    pub last: u64,
    /// Entries read of indexes, forwards.
    pub next: u64,
    /// Entries read of indexes, backwards.
    pub prev: u64,
    /// Rows read by table scans, and the ends found by them.
    pub scanned: u64,
    /// Rows inserted, or found to be duplicates.
    pub inserted: u64,
    /// Rows updated.
    pub updated: u64,
    /// Rows deleted.
    pub deleted: u64,
    /// Rows and entries looked up or scanned.
    pub examined: u64,
}

impl AccessCounts {
    /// Counts rows looked up by their keys.
    pub(super) fn add_lookups(&mut self, rows: u64) {
        self.key += rows;
        self.examined += rows;
    }

    /// Counts the beginning of a scan.
    pub(super) fn begin_scan(&mut self, spec: &ScanSpec) {
        match (spec.is_whole(), spec.reverse) {
            (true, false) => {
                self.first += 1;
                self.key += 1;
            }
            (true, true) => {
                self.last += 1;
                self.key += 1;
            }
            (false, _) => self.key += spec.ranges.len() as u64,
        }
    }

    /// Counts what one call of a scan visited.
    pub(super) fn add_scanned(&mut self, spec: &ScanSpec, visited: u64, ended: bool) {
        self.examined += visited;
        if spec.index == 0 && spec.is_whole() && !spec.reverse {
            self.scanned += visited + u64::from(ended);
        } else if spec.reverse {
            self.prev += visited;
        } else {
            self.next += visited;
        }
    }
}
