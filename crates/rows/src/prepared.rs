//! Prepared transactions on rows: the first phase of a two-phase commit done, the second to come.
//!
//! A statement checks its constraints, fires its triggers and takes its ids before it ends, so that a
//! transaction is complete when it is prepared: the engine's prepared transaction is all that has to
//! survive. Added here are the metadata locks of its tables, which keep definitions as they are until
//! its end, also after a restart, and the notification of caches.
//!
//! Note of the engine's prepared transaction (docs/formats.md, "Prepared transactions"): version, number
//! of tables, their ids and accesses.

use crate::db::Db;
use crate::definition::TableId;
use crate::metadata_lock::{Access, MetadataLockSession};
use crate::txn::{Lease, Txn};
use crate::{Error, Result};
use porpoise_kv::{self as kv, CommitPosition};

/// Version of the note.
const PREPARED_NOTE_FORMAT_VERSION: u8 = 1;

/// A prepared transaction. Dropping it releases its locks, but it is found again at the next start, so
/// it is kept until the engine is shut down.
pub struct PreparedTxn {
    kv: Box<dyn kv::PreparedTxn>,
    tables: Vec<TableId>,
    metadata_locks: MetadataLockSession,
    /// See [`Lease`].
    lease: Option<Lease>,
}

/// Bytes of a table in the note.
const TABLE_BYTES: usize = 9;

/// Identifier of an XA transaction branch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Xid {
    /// gtrid, at most 64 bytes.
    pub global: Vec<u8>,
    /// bqual, at most 64 bytes.
    pub branch: Vec<u8>,
    /// formatID.
    pub format: u64,
}

impl Xid {
    /// The name of its prepared transaction: lengths of gtrid and bqual, gtrid, bqual, format (big-endian).
    #[must_use]
    pub fn to_name(&self) -> Vec<u8> {
        let mut name = vec![self.global.len() as u8, self.branch.len() as u8];
        name.extend_from_slice(&self.global);
        name.extend_from_slice(&self.branch);
        name.extend_from_slice(&self.format.to_be_bytes());
        name
    }

    /// The identifier of a name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Xid> {
        let ([global, branch], rest) = name.split_first_chunk::<2>()?;
        let (global, rest) = rest.split_at_checked(usize::from(*global))?;
        let (branch, format) = rest.split_at_checked(usize::from(*branch))?;
        Some(Xid {
            global: global.to_vec(),
            branch: branch.to_vec(),
            format: u64::from_be_bytes(format.try_into().ok()?),
        })
    }
}

/// As a binary log has it: `X'6162',X'63',258`.
impl std::fmt::Display for Xid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for part in [&self.global, &self.branch] {
            f.write_str("X'")?;
            for byte in part {
                write!(f, "{byte:02x}")?;
            }
            f.write_str("',")?;
        }
        write!(f, "{}", self.format)
    }
}

fn encode_note(uses: &[(TableId, Access)]) -> Vec<u8> {
    let mut note = vec![PREPARED_NOTE_FORMAT_VERSION];
    note.extend_from_slice(&(uses.len() as u32).to_le_bytes());
    for (table, access) in uses {
        note.extend_from_slice(&table.0.to_le_bytes());
        note.push(u8::from(*access == Access::Write));
    }
    note
}

fn decode_note(note: &[u8]) -> Option<Vec<(TableId, Access)>> {
    let (version, rest) = note.split_first()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let (tables, end) = rest.as_chunks::<TABLE_BYTES>();
    let complete = u32::from_le_bytes(*count) as usize == tables.len() && end.is_empty();
    if *version != PREPARED_NOTE_FORMAT_VERSION || !complete {
        return None;
    }
    let tables = tables.iter().map(|table| {
        let (id, access) = table.split_first_chunk::<8>()?;
        let access = match access {
            [0] => Access::Read,
            [1] => Access::Write,
            _ => return None,
        };
        Some((TableId(u64::from_le_bytes(*id)), access))
    });
    tables.collect()
}

impl Txn {
    /// Prepares the transaction under a name (at most [`kv::MAX_PREPARED_NAME`] bytes) that no other
    /// prepared transaction has. Metadata locks on the tables that `locks` publishes pass to it.
    ///
    /// # Errors
    /// The engine's: those of a commit, and [`kv::Error::Unsupported`]. The transaction is rolled back
    /// then.
    pub fn prepare(mut self, name: &[u8], locks: &MetadataLockSession) -> Result<PreparedTxn> {
        let uses = locks.uses();
        let lease = self.take_lease();
        self.annotate()?;
        let metadata_locks = self.db.metadata_locks().session_with(&uses);
        let kv = self.kv.prepare(name, &encode_note(&uses))?;
        locks.release();
        Ok(PreparedTxn {
            kv,
            tables: uses.iter().map(|(table, _)| *table).collect(),
            metadata_locks,
            lease,
        })
    }
}

/// The tables that a prepared transaction uses.
fn uses_of(txn: &dyn kv::PreparedTxn) -> Result<Vec<(TableId, Access)>> {
    let note = || Error::Corrupt("note of a prepared transaction".to_owned());
    decode_note(txn.note()).ok_or_else(note)
}

impl Db {
    /// Refuses to rebuild indexes of these tables while a prepared transaction has written to one
    /// of them: its entries are in the old index, and its commit would add none to the new one.
    pub(crate) fn check_not_prepared(&self, tables: &[TableId]) -> Result<()> {
        let mut restored = self.restored.lock();
        restored.extend(self.engine().take_restored()?);
        for txn in restored.iter() {
            let uses = uses_of(txn.as_ref())?;
            let writes = |use_: &&(TableId, Access)| use_.1 == Access::Write;
            let mut written = uses.iter().filter(writes).map(|(table, _)| table);
            let catalog = self.catalog();
            if let Some(table) = written.find(|id| tables.contains(id))
                && let Some(table) = catalog.tables.get(table)
            {
                return Err(Error::refused(
                    1105,
                    "HY000",
                    format!(
                        "a FULLTEXT index of {} is of an older format, and a prepared XA transaction has \
                         written to the table: start the server's older version, end the transaction \
                         (XA RECOVER, then XA COMMIT or XA ROLLBACK), and start this version again",
                        table.quoted_name()
                    ),
                ));
            }
        }
        Ok(())
    }
}

impl Db {
    /// The tables that transactions use which were prepared before the start.
    pub(crate) fn prepared_tables(&self) -> Result<Vec<TableId>> {
        let mut restored = self.restored.lock();
        restored.extend(self.engine().take_restored()?);
        let mut tables = Vec::new();
        for txn in restored.iter() {
            tables.extend(uses_of(txn.as_ref())?.into_iter().map(|(table, _)| table));
        }
        Ok(tables)
    }
}

impl PreparedTxn {
    /// The transactions that the engine found when it was opened. Called once, before tables are
    /// used.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a note that cannot be read.
    pub fn restore(db: &Db) -> Result<Vec<PreparedTxn>> {
        let taken = std::mem::take(&mut *db.restored.lock());
        let restored = taken.into_iter().chain(db.engine().take_restored()?);
        let restored = restored.map(|kv| {
            let uses = uses_of(kv.as_ref())?;
            Ok(PreparedTxn {
                metadata_locks: db.metadata_locks().session_with(&uses),
                kv,
                tables: uses.iter().map(|(table, _)| *table).collect(),
                lease: None,
            })
        });
        restored.collect()
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        self.kv.name()
    }

    /// A reply that reveals that it is prepared waits until this position is durable.
    pub fn position(&self) -> CommitPosition {
        self.kv.position()
    }

    /// Commits it.
    ///
    /// # Errors
    /// The engine's. It is still prepared then, except after [`kv::Error::UnknownOutcome`].
    pub fn commit(&mut self, db: &Db) -> Result<CommitPosition> {
        let done = self.kv.commit();
        let notified = match &done {
            Ok(commit) => Some(commit.position),
            Err(kv::Error::UnknownOutcome(_)) => Some(CommitPosition::NONE),
            Err(_) => None,
        };
        if let Some(position) = notified {
            // Not only those with a subscriber when the rows were written.
            db.change_notifier.notify(&self.tables, position);
        }
        let position = self.ended(done)?;
        db.commit_pacing.pause();
        Ok(position)
    }

    /// Rolls it back.
    ///
    /// # Errors
    /// As [`PreparedTxn::commit`].
    pub fn rollback(&mut self) -> Result<CommitPosition> {
        let done = self.kv.rollback();
        self.ended(done)
    }

    fn ended(&mut self, done: kv::Result<kv::Commit>) -> Result<CommitPosition> {
        let commit = done?;
        self.metadata_locks.release();
        self.lease = None;
        Ok(commit.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xa_names_round_trip() {
        let xid = Xid {
            global: b"ab".to_vec(),
            branch: b"c".to_vec(),
            format: 258,
        };
        let name = xid.to_name();
        assert_eq!(name, b"\x02\x01abc\0\0\0\0\0\0\x01\x02");
        assert_eq!(xid.to_string(), "X'6162',X'63',258");
        assert_eq!(Xid::from_name(&name), Some(xid));
        for cut in 0..name.len() {
            assert_eq!(Xid::from_name(&name[..cut]), None);
        }
    }

    #[test]
    fn notes_come_back_and_damaged_ones_are_refused() {
        let uses = [
            (TableId(7), Access::Write),
            (TableId(u64::MAX), Access::Read),
        ];
        let note = encode_note(&uses);
        assert_eq!(note[..14], [1, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(decode_note(&note).as_deref(), Some(&uses[..]));
        assert_eq!(decode_note(&encode_note(&[])), Some(Vec::new()));
        for cut in 0..note.len() {
            assert_eq!(decode_note(&note[..cut]), None);
        }
        for (at, value) in [(0, 2), (13, 2)] {
            let mut other = note.clone();
            other[at] = value;
            assert_eq!(decode_note(&other), None);
        }
    }
}
