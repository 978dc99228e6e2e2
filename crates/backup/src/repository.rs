//! A repository: its identity, and access to its objects.

use crate::key::Key;
use crate::log::{Piece, covered};
use crate::object;
use crate::store::{Location, ObjectStore};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::SystemTime;

/// The version of the descriptions of repositories and backups that this build writes and reads.
pub const BACKUP_FORMAT_VERSION: u32 = 1;

/// Content of a part of a file in bytes; the last part of a file is shorter.
pub const PART_BYTES: usize = 8 << 20;

const IDENTITY: &str = "repository";

/// Identity of the store to which a repository belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Version of this format.
    pub format: u32,
    /// Id of the store whose backups these are. A restored store has another one: its history
    /// continues elsewhere.
    pub store: String,
    /// Time of creation in microseconds since 1970 UTC.
    pub created: i64,
}

/// A checkpoint file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFile {
    /// Name in the store's directory.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
}

impl BackupFile {
    /// Number of parts.
    pub fn parts(&self) -> u64 {
        self.bytes.div_ceil(PART_BYTES as u64)
    }

    /// Name of a part's object, from 0.
    pub fn part(&self, number: u64) -> String {
        format!("data/{}.{number:05}", self.name)
    }
}

/// A backup: which objects make up a store, and at which point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Version of this format.
    pub format: u32,
    /// Backups of a repository are numbered from 1.
    pub number: u64,
    /// Time of the begin in microseconds since 1970 UTC.
    pub began: i64,
    /// Time of the end.
    pub ended: i64,
    /// Version of the server.
    pub server: String,
    /// The store's manifest in base64; absent before its first checkpoint.
    pub manifest: Option<String>,
    /// The files that the manifest names.
    pub files: Vec<BackupFile>,
    /// Position from which the log is needed.
    pub log_from: u64,
    /// Position at which the backup's state is.
    pub position: u64,
    /// Time of the last commit in the backup, in microseconds since 1970 UTC.
    pub time: u64,
    /// Bytes of the objects that this backup added.
    pub stored: u64,
    /// Position in the binary log, if the server has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binlog: Option<BinlogPosition>,
}

/// Transactions that a server's binary log had when a copy of its data began. The copy also contains later transactions: the
/// commits in its log with higher numbers than `commit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BinlogPosition {
    /// Their identifiers, as in `gtid_executed`.
    pub executed: String,
    /// The newest commit among them.
    pub commit: u64,
    /// The `server_uuid`, under which commits without an identifier of another server are counted.
    pub server_uuid: String,
}

impl Backup {
    /// Bytes of the files and of the log that a restore reads, uncompressed.
    pub fn bytes(&self) -> u64 {
        let files: u64 = self.files.iter().map(|file| file.bytes).sum();
        files + self.position.saturating_sub(self.log_from)
    }

    /// Name of the object.
    pub fn name(number: u64) -> String {
        format!("backup/{number:08}")
    }
}

/// An open repository.
pub struct Repository {
    location: Location,
    store: Box<dyn ObjectStore>,
    key: Option<Key>,
    /// Number of removals that succeed.
    #[cfg(test)]
    removals_left: std::cell::Cell<usize>,
}

impl Repository {
    /// Opens the repository at a location, without looking at it.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn new(location: Location, key: Option<Key>) -> Result<Repository> {
        let store = location.open()?;
        Ok(Repository {
            location,
            store,
            key,
            #[cfg(test)]
            removals_left: std::cell::Cell::new(usize::MAX),
        })
    }

    /// Opens an existing repository.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is none, [`Error::Damaged`] if it needs another key.
    pub fn open(location: Location, key: Option<Key>) -> Result<Repository> {
        let repository = Repository::new(location, key)?;
        if repository.identity()?.is_none() {
            let at = &repository.location;
            return Err(Error::Refused(format!("{at} contains no backups")));
        }
        Ok(repository)
    }

    /// Creates the repository of a store, or checks that it is this store's.
    ///
    /// # Errors
    /// [`Error::Refused`] for a repository of another store.
    pub fn claim(&self, store: &str, now: i64) -> Result<()> {
        let Some(identity) = self.identity()? else {
            let identity = Identity {
                format: BACKUP_FORMAT_VERSION,
                store: store.to_owned(),
                created: now,
            };
            return self.put_json(IDENTITY, &identity).map(|_| ());
        };
        if identity.store == store {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "{} has the backups of another store: a restored server needs a new place, because its history is another one",
            self.location
        )))
    }

    /// The identity; `None` if there is no repository.
    ///
    /// # Errors
    /// It cannot be read, for instance because of a wrong key.
    pub fn identity(&self) -> Result<Option<Identity>> {
        if self.store.get(IDENTITY)?.is_none() {
            return Ok(None);
        }
        let identity: Identity = self.get_json(IDENTITY)?;
        self.check_format(IDENTITY, identity.format)?;
        Ok(Some(identity))
    }

    fn check_format(&self, name: &str, format: u32) -> Result<()> {
        if format == BACKUP_FORMAT_VERSION {
            return Ok(());
        }
        let problem = format!("backup format {format}; this program reads {BACKUP_FORMAT_VERSION}");
        Err(self.damaged(name, problem))
    }

    /// Location of the repository.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The name of an object with the repository's location, for messages.
    pub fn describe(&self, name: &str) -> String {
        format!("{}/{name}", self.location)
    }

    fn damaged(&self, name: &str, problem: String) -> Error {
        Error::Damaged {
            object: self.describe(name),
            problem,
        }
    }

    /// Writes an object. Returns the bytes stored.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn put(&self, name: &str, content: &[u8]) -> Result<u64> {
        let bytes = object::encode(name, content, self.key.as_ref())?;
        self.store.put(name, &bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Reads an object.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is missing or damaged.
    pub fn get(&self, name: &str) -> Result<Vec<u8>> {
        let Some(bytes) = self.store.get(name)? else {
            return Err(self.damaged(name, "it is missing".to_owned()));
        };
        let content = object::decode(name, &bytes, self.key.as_ref());
        content.map_err(|problem| self.damaged(name, problem))
    }

    /// Removes an object; one that does not exist is no error.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(&self, name: &str) -> Result<()> {
        #[cfg(test)]
        if self.removals_left.get() == 0 {
            return Err(Error::Io("interrupted".to_owned()));
        } else {
            self.removals_left.set(self.removals_left.get() - 1);
        }
        self.store.remove(name)
    }

    /// Removes unfinished objects of interrupted writes that were last changed before a time. Returns their
    /// number.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_unfinished(&self, before: SystemTime) -> Result<usize> {
        self.store.remove_unfinished(before)
    }

    /// Makes removals fail after this number of them.
    #[cfg(test)]
    pub(crate) fn fail_after(&self, removals: usize) {
        self.removals_left.set(removals);
    }

    fn put_json<T: Serialize>(&self, name: &str, value: &T) -> Result<u64> {
        let text = serde_json::to_vec_pretty(value);
        let text = text.map_err(|e| Error::Io(format!("{}: {e}", self.describe(name))))?;
        self.put(name, &text)
    }

    fn get_json<T: for<'d> Deserialize<'d>>(&self, name: &str) -> Result<T> {
        let text = self.get(name)?;
        serde_json::from_slice(&text).map_err(|e| self.damaged(name, e.to_string()))
    }

    /// Names of the stored parts of files.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn parts(&self) -> Result<BTreeSet<String>> {
        Ok(self.store.list("data/")?.into_iter().collect())
    }

    /// The stored pieces of the log, in order.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn pieces(&self) -> Result<Vec<Piece>> {
        let names = self.store.list("log/")?;
        let mut pieces: Vec<Piece> = names.iter().filter_map(|n| Piece::of_name(n)).collect();
        pieces.sort_unstable();
        Ok(pieces)
    }

    /// The position up to which the stored log has no gap, from `from` on.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn covered(&self, from: u64) -> Result<u64> {
        Ok(covered(&self.pieces()?, from))
    }

    /// Numbers of the backups, in order.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn numbers(&self) -> Result<Vec<u64>> {
        let names = self.store.list("backup/")?;
        let number = |name: &String| name.strip_prefix("backup/")?.parse().ok();
        Ok(names.iter().filter_map(number).collect())
    }

    /// Reads a backup's description.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn backup(&self, number: u64) -> Result<Backup> {
        let name = Backup::name(number);
        let backup: Backup = self.get_json(&name)?;
        self.check_format(&name, backup.format)?;
        if backup.number == number {
            Ok(backup)
        } else {
            Err(self.damaged(&name, format!("it is backup {}", backup.number)))
        }
    }

    /// Writes a backup's description, which makes the backup exist.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn put_backup(&self, backup: &Backup) -> Result<u64> {
        self.put_json(&Backup::name(backup.number), backup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Chain;
    use crate::log::{Group, PieceWriter};
    use crate::verify::verify;

    fn repository(dir: &tempfile::TempDir) -> Repository {
        Repository::new(Location::Directory(dir.path().join("r")), None).unwrap()
    }

    fn group(start: u64, len: usize) -> Group {
        Group {
            start,
            time: start,
            records: vec![7; len],
        }
    }

    fn put(repository: &Repository, groups: &[Group]) {
        let mut writer = PieceWriter::default();
        for group in groups {
            writer.push(group);
        }
        let (piece, content) = writer.take().unwrap();
        repository.put(&piece.name(), &content).unwrap();
    }

    fn backup(number: u64) -> Backup {
        Backup {
            format: BACKUP_FORMAT_VERSION,
            number,
            began: 1,
            ended: 2,
            server: "0.1.0".to_owned(),
            manifest: None,
            files: vec![BackupFile {
                name: "ckpt".to_owned(),
                bytes: 10,
            }],
            log_from: 5,
            position: 60,
            time: 50,
            stored: 0,
            binlog: None,
        }
    }

    #[test]
    fn a_repository_is_of_one_store() {
        let dir = tempfile::tempdir().unwrap();
        let repository = repository(&dir);
        assert_eq!(repository.identity().unwrap(), None);
        let place = repository.location().clone();
        assert!(matches!(
            Repository::open(place.clone(), None),
            Err(Error::Refused(_))
        ));
        repository.claim("a", 1).unwrap();
        repository.claim("a", 2).unwrap();
        assert_eq!(repository.identity().unwrap().unwrap().created, 1);
        let refused = repository.claim("b", 3).unwrap_err().to_string();
        assert!(refused.contains("of another store"), "{refused}");
        Repository::open(place, None).unwrap();
    }

    #[test]
    fn a_chain_passes_over_overlaps_and_ends_at_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        let repository = repository(&dir);
        put(&repository, &[group(0, 10), group(10, 20)]);
        put(&repository, &[group(10, 20), group(30, 5)]);
        put(&repository, &[group(40, 5)]);
        let read = |from: u64| {
            let mut chain = Chain::new(&repository, from).unwrap();
            let starts = std::iter::from_fn(|| Some(chain.next_group().unwrap()?.start));
            (starts.collect::<Vec<_>>(), chain.position())
        };
        assert_eq!(read(0), (vec![0, 10, 30], 35));
        assert_eq!(read(12), (vec![10, 30], 35));
        assert_eq!(read(35), (vec![], 35));
        assert_eq!(read(40), (vec![40], 45));
        assert_eq!(repository.covered(0).unwrap(), 35);
    }

    #[test]
    fn verification_names_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let repository = repository(&dir);
        repository.put_backup(&backup(1)).unwrap();
        let problems = || {
            let verdicts = verify(&repository, &mut |_| {}).unwrap();
            assert_eq!(verdicts.len(), 1);
            verdicts[0].problems.join("\n")
        };
        let found = problems();
        assert!(found.contains("data/ckpt.00000: it is missing"), "{found}");
        assert!(
            found.contains("the log is missing from position 5 to 60"),
            "{found}"
        );
        repository.put("data/ckpt.00000", &[1; 9]).unwrap();
        put(&repository, &[group(0, 30)]);
        let found = problems();
        assert!(found.contains("the part has 9 bytes"), "{found}");
        assert!(
            found.contains("the log is missing from position 30 to 60"),
            "{found}"
        );
        repository.put("data/ckpt.00000", &[1; 10]).unwrap();
        put(&repository, &[group(30, 40)]);
        assert_eq!(problems(), "");
        // A file that was not completed is none.
        std::fs::write(dir.path().join("r/backup/00000002.tmp"), "x").unwrap();
        assert_eq!(repository.numbers().unwrap(), [1]);
    }
}
