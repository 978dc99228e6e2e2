//! Operations of the threads of `bench native`, and their selection on the command
//! line.

use crate::error::{Error, Result};
use crate::peers::Durability;

/// Keys of one read of many.
pub(super) const BATCH: usize = 50;

/// Rows of one scan.
pub(super) const SCANNED: usize = 100;

/// One kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Reads [`BATCH`] rows by key, in one batch.
    ReadMany,
    /// Reads a row by key.
    ReadOne,
    /// Reads the same row as all other threads.
    ReadHot,
    /// Reads [`SCANNED`] rows in the order of their keys.
    Scan,
    /// Replaces the value of a row.
    Update,
    /// Reads the row that all threads change, and changes it.
    Modify,
    /// Inserts a row.
    Insert,
}

impl Work {
    /// All operations, in the order of reports.
    pub const ALL: [Work; 7] = [
        Work::ReadMany,
        Work::ReadOne,
        Work::ReadHot,
        Work::Scan,
        Work::Update,
        Work::Modify,
        Work::Insert,
    ];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Work::ReadMany => "reads of 50 rows",
            Work::ReadOne => "reads of a row",
            Work::ReadHot => "reads of the same row",
            Work::Scan => "scans of 100 rows",
            Work::Update => "updates of a row",
            Work::Modify => "read-modify-writes of the same row",
            Work::Insert => "inserts of a row",
        }
    }

    /// Name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Work::ReadMany => "mget",
            Work::ReadOne => "get",
            Work::ReadHot => "hot",
            Work::Scan => "scan",
            Work::Update => "update",
            Work::Modify => "modify",
            Work::Insert => "insert",
        }
    }

    /// Rows of one call.
    pub(super) fn rows(self) -> usize {
        match self {
            Work::ReadMany => BATCH,
            Work::Scan => SCANNED,
            _ => 1,
        }
    }

    fn parse(word: &str) -> Result<Work> {
        let found = Work::ALL
            .into_iter()
            .find(|work| work.word() == word.trim());
        found.ok_or_else(|| {
            let words = Work::ALL.map(Work::word).join(", ");
            Error::usage(format!("operation {word:?}: there are {words}"))
        })
    }
}

/// Options of this experiment only; empty: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeOptions {
    /// Operations.
    pub works: Vec<Work>,
    /// Names of stores.
    pub stores: Vec<String>,
    /// Durabilities, one after the other.
    pub durabilities: Vec<Durability>,
    /// This number of calls of each thread instead of a time, without a warm-up.
    pub calls: Option<u64>,
    /// Whether starts of the stores are measured, too.
    pub times_starts: bool,
}

impl NativeOptions {
    /// Reads a list of operations.
    ///
    /// # Errors
    /// A usage error that names the word.
    pub fn parse_works(list: &str) -> Result<Vec<Work>> {
        list.split(',').map(Work::parse).collect()
    }

    /// Whether an operation is wanted.
    pub fn has(&self, work: Work) -> bool {
        self.works.is_empty() || self.works.contains(&work)
    }

    /// Whether a store is wanted, by its word.
    pub fn has_store(&self, word: &str) -> bool {
        self.stores.is_empty() || self.stores.iter().any(|store| store == word)
    }
}
