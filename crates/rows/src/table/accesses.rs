//! Numbers of row accesses of a table, for `performance_schema` and `sys`.
//!
//! Each core counts in a block of its own ([`mod@porpoise_base::counters`]); the blocks are allocated at
//! the first access. A batch of rows is counted by one addition.

use porpoise_base::counters::Cells;
use std::fmt;
use std::sync::OnceLock;

/// A kind of row access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum AccessKind {
    /// Rows and index entries that were looked up or scanned.
    Fetch,
    /// Rows to be inserted, those found to be duplicates included.
    Insert,
    /// Rows changed.
    Update,
    /// Rows deleted.
    Delete,
}

/// Number of kinds.
const KINDS: usize = 4;

/// The numbers of a table. Those of statements that were rolled back count, as in MySQL.
#[derive(Default)]
pub struct TableAccesses(OnceLock<Box<Cells<KINDS>>>);

impl TableAccesses {
    /// Counts accesses.
    #[inline]
    pub(crate) fn add(&self, kind: AccessKind, rows: u64) {
        if rows > 0 {
            let cells = self.0.get_or_init(|| Box::new(Cells::new()));
            cells.add(kind as usize, rows);
        }
    }

    /// Number of accesses of a kind.
    pub fn get(&self, kind: AccessKind) -> u64 {
        self.0.get().map_or(0, |cells| cells.sum(kind as usize))
    }
}

impl fmt::Debug for TableAccesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            AccessKind::Fetch,
            AccessKind::Insert,
            AccessKind::Update,
            AccessKind::Delete,
        ];
        let counts = kinds.map(|kind| self.get(kind));
        f.debug_tuple("TableAccesses").field(&counts).finish()
    }
}
