//! Removal of old backups ([`prune`]), and merging of small pieces of the log ([`merge`]).
//!
//! Invariants:
//! 1. Everything that a kept backup needs is kept: its parts, and the log from its `log_from` on,
//!    so that every point in time after the oldest kept backup can still be restored.
//! 2. The newest backup is always kept. A backup that is being made may use a part only if that belongs
//!    to a checkpoint newer than the newest backup's, or if the newest backup names it: checkpoint files
//!    are written once, and a manifest keeps files of the manifest before or names new ones.
//! 3. Descriptions are removed before objects. After an interruption no listed backup lacks an object, and
//!    the next run removes the rest.
//! 4. A merged piece is stored before the pieces in it are removed, and pieces may overlap.
//!
//! A restore or a verification that runs at the same time may miss an object that it has listed; it
//! fails, and can be repeated.

use crate::Result;
use crate::log::{Piece, PieceWriter, groups};
use crate::repository::{Backup, Repository};
use crate::{Error, Identity};
use std::collections::BTreeSet;

/// Rules for the backups to keep, beside the newest one. A backup is kept if any rule applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// This many of the newest.
    pub last: Option<usize>,
    /// Those that ended at or after this time, in microseconds since 1970 UTC.
    pub since: Option<i64>,
}

/// Result of [`prune`]: what was removed, or would be removed by a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Numbers of the backups that stay.
    pub kept: Vec<u64>,
    /// Numbers of the backups that were removed.
    pub removed: Vec<u64>,
    /// Objects of files that were removed.
    pub parts: usize,
    /// Pieces of the log that were removed.
    pub pieces: usize,
    /// Position from which the log is kept.
    pub log_from: u64,
}

/// Removes the backups that `keep` does not keep, and the files and log that only they need. With
/// `dry_run` nothing is removed. `archive` is the repository of the archived log, if it is another
/// one.
///
/// # Errors
/// [`Error::Refused`] if there is no backup or the archive is of another store; those of the
/// repositories. Backups with damaged descriptions end it before anything is removed.
pub fn prune(
    backups: &Repository,
    archive: Option<&Repository>,
    keep: Keep,
    dry_run: bool,
) -> Result<Pruned> {
    let numbers = backups.numbers()?;
    let all = numbers.iter().map(|number| backups.backup(*number));
    let all: Vec<Backup> = all.collect::<Result<_>>()?;
    let Some(newest) = all.last() else {
        let place = backups.location();
        return Err(Error::Refused(format!(
            "{place} contains no complete backup"
        )));
    };
    if let Some(archive) = archive {
        check_same_store(backups.identity()?, archive.identity()?)?;
    }
    let from_end = |at: usize| all.len() - at;
    let is_kept = |at: usize, backup: &Backup| {
        backup.number == newest.number
            || keep.last.is_some_and(|last| from_end(at) <= last)
            || keep.since.is_some_and(|since| backup.ended >= since)
    };
    let (mut kept, mut removed) = (Vec::new(), Vec::new());
    for (at, backup) in all.iter().enumerate() {
        if is_kept(at, backup) {
            kept.push(backup);
        } else {
            removed.push(backup);
        }
    }
    let log_from = kept.iter().map(|backup| backup.log_from).min();
    let mut done = Pruned {
        kept: kept.iter().map(|backup| backup.number).collect(),
        removed: removed.iter().map(|backup| backup.number).collect(),
        log_from: log_from.unwrap_or(0),
        ..Pruned::default()
    };
    let parts = unneeded_parts(backups.parts()?, &kept, newest);
    done.parts = parts.len();
    let remove = |repository: &Repository, name: &str| match dry_run {
        true => Ok(()),
        false => repository.remove(name),
    };
    for backup in &removed {
        remove(backups, &Backup::name(backup.number))?;
    }
    for part in &parts {
        remove(backups, part)?;
    }
    for repository in [Some(backups), archive].into_iter().flatten() {
        for piece in repository.pieces()? {
            if piece.to <= done.log_from {
                remove(repository, &piece.name())?;
                done.pieces += 1;
            }
        }
    }
    Ok(done)
}

fn check_same_store(backups: Option<Identity>, archive: Option<Identity>) -> Result<()> {
    match (backups, archive) {
        (Some(a), Some(b)) if a.store != b.store => {
            let text = "the archive is of another store than the backups";
            Err(Error::Refused(text.to_owned()))
        }
        _ => Ok(()),
    }
}

/// The stored parts that neither a kept backup nor a running backup needs (invariant 2).
fn unneeded_parts(stored: BTreeSet<String>, kept: &[&Backup], newest: &Backup) -> Vec<String> {
    let files = kept.iter().flat_map(|backup| &backup.files);
    let needed: BTreeSet<String> = files
        .flat_map(|file| (0..file.parts()).map(|n| file.part(n)))
        .collect();
    let newest = newest
        .files
        .iter()
        .filter_map(|file| checkpoint_of(&file.name));
    let Some(newest) = newest.max() else {
        return Vec::new();
    };
    let is_old = |part: &String| {
        let file = part.strip_prefix("data/");
        let checkpoint = file.and_then(checkpoint_of);
        checkpoint.is_some_and(|checkpoint| checkpoint <= newest)
    };
    stored
        .into_iter()
        .filter(|part| !needed.contains(part) && is_old(part))
        .collect()
}

/// The number of the checkpoint in the name of its file.
fn checkpoint_of(file: &str) -> Option<u64> {
    let rest = file.strip_prefix("ckpt-")?;
    rest.split_once('-')?.0.parse().ok()
}

/// Merges neighbouring pieces of the log into pieces of at most about `piece_bytes`. Returns how many
/// pieces there were and are.
///
/// # Errors
/// Those of the repository; [`Error::Damaged`] for a damaged piece, which ends the merge.
pub fn merge(repository: &Repository, piece_bytes: usize) -> Result<(usize, usize)> {
    let pieces = repository.pieces()?;
    let before = pieces.len();
    // Pieces that continue each other exactly; an overlap ends a run.
    let mut run: Vec<Piece> = Vec::new();
    let mut writer = PieceWriter::default();
    let mut after = 0;
    for piece in &pieces {
        let name = piece.name();
        let follows = run.last().is_none_or(|last| last.to == piece.from);
        let content = repository.get(&name)?;
        if !follows || writer.len() + content.len() > piece_bytes {
            after += finish(repository, &mut writer, &mut run)?;
        }
        let groups = groups(*piece, &content);
        let groups = groups.map_err(|problem| Error::Damaged {
            object: repository.describe(&name),
            problem,
        })?;
        for group in &groups {
            writer.push(group);
        }
        run.push(*piece);
    }
    after += finish(repository, &mut writer, &mut run)?;
    Ok((before, after))
}

/// Stores the merged piece of a run, and removes the run. Returns the number of pieces that are left.
fn finish(
    repository: &Repository,
    writer: &mut PieceWriter,
    run: &mut Vec<Piece>,
) -> Result<usize> {
    let run = std::mem::take(run);
    let Some((merged, content)) = writer.take() else {
        return Ok(run.len());
    };
    if run.len() < 2 {
        return Ok(run.len());
    }
    repository.put(&merged.name(), &content)?;
    for piece in run.iter().filter(|piece| **piece != merged) {
        repository.remove(&piece.name())?;
    }
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Group;
    use crate::repository::{BACKUP_FORMAT_VERSION, BackupFile};
    use crate::verify::verify;
    use crate::{Chain, Location};

    fn put_piece(repository: &Repository, from: u64, to: u64) {
        let mut writer = PieceWriter::default();
        for start in from..to {
            writer.push(&Group {
                start,
                time: start,
                records: vec![start as u8],
            });
        }
        let (piece, content) = writer.take().unwrap();
        repository.put(&piece.name(), &content).unwrap();
    }

    /// Backup `n` has the files of checkpoints `n` and, from backup 2 on, of the first; its log begins at
    /// `10 n` and it is at `10 n + 5`.
    fn fill(repository: &Repository, count: u64) {
        repository.claim("s", 1).unwrap();
        for n in 1..=count {
            let mut files = vec![format!("ckpt-{n:016}-00000.dat")];
            if n > 1 {
                files.push(format!("ckpt-{:016}-00001.dat", 1));
            }
            for file in &files {
                repository
                    .put(&format!("data/{file}.00000"), b"abc")
                    .unwrap();
            }
            let files = files.into_iter().map(|name| BackupFile { name, bytes: 3 });
            let backup = Backup {
                format: BACKUP_FORMAT_VERSION,
                number: n,
                began: 0,
                ended: n as i64 * 100,
                server: String::new(),
                manifest: None,
                files: files.collect(),
                log_from: n * 10,
                position: n * 10 + 5,
                time: 0,
                stored: 0,
                binlog: None,
            };
            repository.put_backup(&backup).unwrap();
        }
        for from in 0..count * 2 {
            put_piece(repository, 10 + from * 5, 15 + from * 5);
        }
    }

    fn open(dir: &tempfile::TempDir) -> Repository {
        Repository::new(Location::Directory(dir.path().join("r")), None).unwrap()
    }

    fn is_whole(repository: &Repository) {
        for verdict in verify(repository, &mut |_| {}).unwrap() {
            assert_eq!(verdict.problems, Vec::<String>::new(), "{}", verdict.number);
        }
    }

    #[test]
    fn old_backups_go_and_what_the_kept_ones_need_stays() {
        let dir = tempfile::tempdir().unwrap();
        let repository = open(&dir);
        fill(&repository, 5);
        // Of a backup that is being made.
        repository
            .put("data/ckpt-0000000000000006-00000.dat.00000", b"x")
            .unwrap();
        let keep = Keep {
            last: Some(2),
            since: Some(300),
        };
        let planned = prune(&repository, None, keep, true).unwrap();
        assert_eq!(repository.numbers().unwrap(), [1, 2, 3, 4, 5]);
        let done = prune(&repository, None, keep, false).unwrap();
        assert_eq!(planned, done);
        assert_eq!(
            (done.kept.as_slice(), done.removed.as_slice()),
            (&[3, 4, 5][..], &[1, 2][..])
        );
        // The first file of the first checkpoint, and that of the second one.
        assert_eq!((done.parts, done.pieces, done.log_from), (2, 4, 30));
        is_whole(&repository);
        assert!(
            repository
                .parts()
                .unwrap()
                .iter()
                .any(|part| part.contains("0006"))
        );
        assert_eq!(repository.covered(30).unwrap(), 60);
        let again = prune(&repository, None, keep, false).unwrap();
        assert_eq!((again.removed.len(), again.parts, again.pieces), (0, 0, 0));
        let done = prune(&repository, None, Keep::default(), false).unwrap();
        assert_eq!(done.kept, [5], "the newest stays");
        is_whole(&repository);
    }

    #[test]
    fn an_interrupted_removal_leaves_whole_backups_and_is_finished_later() {
        let keep = Keep {
            last: Some(1),
            since: None,
        };
        let everything = {
            let dir = tempfile::tempdir().unwrap();
            let repository = open(&dir);
            fill(&repository, 3);
            let done = prune(&repository, None, keep, true).unwrap();
            done.removed.len() + done.parts + done.pieces
        };
        for cut in 0..everything {
            let dir = tempfile::tempdir().unwrap();
            let repository = open(&dir);
            fill(&repository, 3);
            repository.fail_after(cut);
            assert!(prune(&repository, None, keep, false).is_err());
            let repository = open(&dir);
            is_whole(&repository);
            prune(&repository, None, keep, false).unwrap();
            is_whole(&repository);
            assert_eq!(repository.numbers().unwrap(), [3]);
            assert_eq!(repository.parts().unwrap().len(), 2);
            assert_eq!(repository.pieces().unwrap().first().unwrap().from, 30);
        }
    }

    #[test]
    fn a_log_of_its_own_place_is_cut_and_another_store_is_refused() {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [backups, archive] = [open(&dirs[0]), open(&dirs[1])];
        fill(&backups, 2);
        archive.claim("s", 1).unwrap();
        put_piece(&archive, 0, 20);
        put_piece(&archive, 20, 40);
        let keep = Keep::default();
        prune(&backups, Some(&archive), keep, false).unwrap();
        assert_eq!(archive.pieces().unwrap(), [Piece { from: 20, to: 40 }]);
        let other = tempfile::tempdir().unwrap();
        let other = open(&other);
        other.claim("t", 1).unwrap();
        assert!(matches!(
            prune(&backups, Some(&other), keep, false),
            Err(Error::Refused(_))
        ));
    }

    #[test]
    fn small_pieces_become_few_and_read_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let repository = open(&dir);
        for n in 0..100 {
            put_piece(&repository, n * 3, n * 3 + 3);
        }
        put_piece(&repository, 1000, 1010);
        let read = |repository: &Repository| {
            let mut chain = Chain::new(repository, 0).unwrap();
            std::iter::from_fn(|| chain.next_group().unwrap()).collect::<Vec<_>>()
        };
        let before = read(&repository);
        assert_eq!(before.len(), 300);
        let (from, to) = merge(&repository, 2000).unwrap();
        assert_eq!((from, to), (101, repository.pieces().unwrap().len()));
        assert!(to < 10, "{to}");
        assert_eq!(read(&repository), before);
        assert_eq!(repository.covered(1000).unwrap(), 1010);
        assert_eq!(merge(&repository, 2000).unwrap().1, to);
    }
}
