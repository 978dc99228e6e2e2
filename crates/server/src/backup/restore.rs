//! `porpoise restore`: builds a data directory from a backup and the archived log.
//!
//! The directory is built beside its final place ([`NewDataDir`]). So an interrupted restore
//! leaves nothing that a server would start from, and the next one begins again.
//!
//! Point in time: the log is cut after a record. A commit is one record, so every commit is in the
//! result completely or not at all.

use super::log_position::GtidTracker;
use super::progress::Bar;
use crate::binlog;
use crate::config::StartError;
use crate::engine::STORE;
use crate::new_data_dir::{NewDataDir, check_vacant, create_dir};
use porpoise_backup::{Backup, BackupFile, Chain, Error, Group, Repository};
use porpoise_base::base64;
use porpoise_base::disk;
use porpoise_kv_mem::{LogGroup, StoreBuilder, records_until};
use std::path::Path;

/// The point to which a store is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The end of the archived log.
    End,
    /// The state of the chosen backup.
    Backup,
    /// All commits up to a time, in microseconds since 1970 UTC.
    Time(u64),
    /// All commits whose records end at or before a position.
    Position(u64),
}

/// Parameters of a restore.
pub struct Restoring<'a> {
    /// Repository of the backup.
    pub backups: &'a Repository,
    /// Repository of the archived log, if it is another one.
    pub archive: Option<&'a Repository>,
    /// The backup; `None` for the newest one that is not after the point.
    pub number: Option<u64>,
    /// The point.
    pub until: Until,
    /// The new data directory.
    pub data_dir: &'a Path,
    /// Whether progress is not reported.
    pub quiet: bool,
}

/// Result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Number of the backup.
    pub number: u64,
    /// Position at which the log ends.
    pub position: u64,
    /// Time of the last group of the log; 0 if there is none.
    pub time: u64,
    /// Whether a gap before the point makes later archived log unusable.
    pub has_gap: bool,
    /// GTIDs of the transactions in the restored data, if the server had a binary log: a replica begins after them.
    pub executed: Option<String>,
}

/// Result of writing the log of a restore.
#[derive(Clone, Copy)]
struct Replayed {
    /// Time of its last group; 0 if there is none.
    time: u64,
    /// Whether it ends at the point, rather than at a gap or the end of the archive.
    is_cut: bool,
}

impl From<Error> for StartError {
    fn from(error: Error) -> StartError {
        match error {
            Error::Refused(text) => StartError::usage(text),
            error => StartError::failure(error.to_string()),
        }
    }
}

impl From<porpoise_kv::Error> for StartError {
    fn from(error: porpoise_kv::Error) -> StartError {
        StartError::failure(error.to_string())
    }
}

impl Restoring<'_> {
    /// Restores.
    ///
    /// # Errors
    /// With exit status 2 if nothing was done: the directory exists, there is no such backup or
    /// point; with 1 for damage and errors of files.
    pub fn run(&self) -> Result<Restored, StartError> {
        check_vacant(self.data_dir)?;
        self.check_archive()?;
        let backup = self.choose()?;
        self.check_position(&backup)?;
        let mut building = NewDataDir::begin(self.data_dir, "restoring")?;
        let store = building.path().join(STORE);
        create_dir(&store)?;
        let manifest = match &backup.manifest {
            Some(text) => Some(base64::decode(text.as_bytes()).ok_or_else(|| {
                StartError::failure(format!("backup {}: its manifest is damaged", backup.number))
            })?),
            None => None,
        };
        let mut builder = StoreBuilder::new(disk::real(), &store, manifest.as_deref())?;
        let mut bar = Bar::new("restore", self.quiet);
        let total = backup.bytes();
        let mut done = 0;
        for file in self.files(&backup, &builder)? {
            let parts = (0..file.parts()).map(|number| {
                let part = self.backups.get(&file.part(number))?;
                done += part.len() as u64;
                bar.show(done, total);
                Ok::<_, StartError>(part)
            });
            let bytes = builder.put_file(&file.name, parts)?;
            if bytes != file.bytes {
                let text = format!("{}: it has {bytes} of {} bytes", file.name, file.bytes);
                return Err(StartError::failure(text));
            }
        }
        let mut tracker = backup.binlog.as_ref().map(GtidTracker::new).transpose()?;
        let log = self.put_log(&backup, &mut builder, tracker.as_mut(), &mut |bytes| {
            done += bytes;
            bar.show(done, total.max(done));
        })?;
        let position = builder.finish()?;
        bar.end();
        if position < backup.position {
            return Err(StartError::failure(format!(
                "the log of backup {} ends at position {position}; {} is needed: pieces are missing",
                backup.number, backup.position
            )));
        }
        if let Some(tracker) = &tracker {
            tracker.write_log(&*disk::real(), &building.path().join(binlog::DIRECTORY))?;
        }
        building.finish(self.data_dir)?;
        Ok(Restored {
            number: backup.number,
            position,
            time: log.time,
            executed: tracker.map(|tracker| tracker.executed().to_string()),
            has_gap: !log.is_cut
                && matches!(self.until, Until::End | Until::Time(_))
                && self.last_archived()? > position,
        })
    }

    /// Position after the last archived record, including records after a gap.
    fn last_archived(&self) -> Result<u64, StartError> {
        let mut last = 0;
        for repository in [Some(self.backups), self.archive].into_iter().flatten() {
            let ends = repository.pieces()?.into_iter().map(|piece| piece.to);
            last = ends.max().unwrap_or(0).max(last);
        }
        Ok(last)
    }

    /// The files of a backup, which must be those of its manifest.
    fn files<'b>(
        &self,
        backup: &'b Backup,
        builder: &StoreBuilder,
    ) -> Result<&'b [BackupFile], StartError> {
        let named = builder.files();
        let listed = backup.files.iter().map(|f| (f.name.clone(), f.bytes));
        if listed.eq(named) {
            return Ok(&backup.files);
        }
        let text = format!(
            "backup {}: its files are not those of its manifest",
            backup.number
        );
        Err(StartError::failure(text))
    }

    /// Checks that both repositories belong to one store.
    fn check_archive(&self) -> Result<(), StartError> {
        let Some(archive) = self.archive else {
            return Ok(());
        };
        let id = |repository: &Repository| -> Result<Option<String>, StartError> {
            Ok(repository.identity()?.map(|identity| identity.store))
        };
        if id(archive)? == id(self.backups)? {
            return Ok(());
        }
        Err(StartError::usage(format!(
            "{} has the log of a different store than {}",
            archive.location(),
            self.backups.location()
        )))
    }

    /// The backup to begin with.
    fn choose(&self) -> Result<Backup, StartError> {
        let at = self.backups.location();
        let is_before = |backup: &Backup| match self.until {
            Until::Time(time) => backup.time <= time,
            Until::Position(position) => backup.position <= position,
            Until::End | Until::Backup => true,
        };
        let numbers = self.backups.numbers()?;
        if let Some(number) = self.number {
            if !numbers.contains(&number) {
                return Err(StartError::usage(format!("{at} has no backup {number}")));
            }
            let backup = self.backups.backup(number)?;
            if !is_before(&backup) {
                let text = format!("backup {number} is newer than the requested point");
                return Err(StartError::usage(text));
            }
            return Ok(backup);
        }
        for number in numbers.iter().rev() {
            let backup = self.backups.backup(*number)?;
            if is_before(&backup) {
                return Ok(backup);
            }
        }
        Err(StartError::usage(if numbers.is_empty() {
            format!("{at} contains no complete backup")
        } else {
            format!("all backups of {at} are newer than the requested point")
        }))
    }

    /// Writes the log from the backup's begin up to the point.
    fn put_log(
        &self,
        backup: &Backup,
        builder: &mut StoreBuilder,
        mut tracker: Option<&mut GtidTracker>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Replayed, StartError> {
        let mut from = backup.log_from;
        let mut time = 0;
        for repository in [Some(self.backups), self.archive].into_iter().flatten() {
            let mut chain = Chain::new(repository, from)?;
            while let Some(group) = chain.next_group()? {
                let Some(kept) = self.until_point(backup, group)? else {
                    return Ok(Replayed { time, is_cut: true });
                };
                progress(kept.records.len() as u64);
                time = kept.time;
                builder.put_group(&kept)?;
                if let Some(tracker) = &mut tracker {
                    tracker.group(&kept.records)?;
                }
            }
            from = chain.position();
        }
        Ok(Replayed {
            time,
            is_cut: false,
        })
    }

    /// The part of a group that lies before the point; `None` if the whole group is after it.
    fn until_point(&self, backup: &Backup, group: Group) -> Result<Option<LogGroup>, StartError> {
        let last = match self.until {
            Until::End => u64::MAX,
            Until::Backup => backup.position,
            Until::Position(position) => position,
            // Groups up to the end of the backup are needed, even if the clock was set back meanwhile.
            Until::Time(time) if group.time > time && group.end() > backup.position => {
                return Ok(None);
            }
            Until::Time(_) => u64::MAX,
        };
        let mut kept = LogGroup {
            start: group.start,
            time: group.time,
            records: group.records,
        };
        if kept.end() > last {
            let len = records_until(&kept.records, kept.start, last)?;
            kept.records.truncate(len);
        }
        Ok((!kept.records.is_empty()).then_some(kept))
    }

    /// Checks that the log reaches a requested position.
    fn check_position(&self, backup: &Backup) -> Result<(), StartError> {
        let Until::Position(wanted) = self.until else {
            return Ok(());
        };
        let mut end = backup.log_from;
        for repository in [Some(self.backups), self.archive].into_iter().flatten() {
            end = repository.covered(end)?;
        }
        if wanted <= end {
            return Ok(());
        }
        Err(StartError::usage(format!(
            "the archived log ends at position {end}, before the requested position"
        )))
    }
}
