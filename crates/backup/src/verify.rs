//! Verification: reads every object that backups need.

use crate::chain::Chain;
use crate::repository::{Backup, BackupFile, PART_BYTES, Repository};
use crate::{Error, Result};
use std::collections::BTreeMap;

/// Result for one backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The backup's number.
    pub number: u64,
    /// The description, if it can be read.
    pub backup: Option<Backup>,
    /// Damaged and missing objects, one line each; empty if the backup can be restored.
    pub problems: Vec<String>,
}

/// Reads all objects of all backups. `progress` gets the bytes read, uncompressed.
///
/// # Errors
/// The repository cannot be read at all. Damage is in the verdicts.
pub fn verify(repository: &Repository, progress: &mut dyn FnMut(u64)) -> Result<Vec<Verdict>> {
    // Files that several backups share are read once.
    let mut known: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut verdicts = Vec::new();
    let numbers = repository.numbers()?;
    for number in numbers.iter().copied() {
        let backup = match repository.backup(number) {
            Ok(backup) => backup,
            Err(error @ Error::Damaged { .. }) => {
                verdicts.push(Verdict {
                    number,
                    backup: None,
                    problems: vec![error.to_string()],
                });
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut problems = Vec::new();
        for file in &backup.files {
            if !known.contains_key(&file.name) {
                let problem = damage(verify_file(repository, file, progress))?;
                known.insert(file.name.clone(), problem);
            }
            problems.extend(known.get(&file.name).cloned().flatten());
        }
        let is_last = numbers.last() == Some(&number);
        problems.extend(damage(verify_log(repository, &backup, is_last, progress))?);
        verdicts.push(Verdict {
            number,
            backup: Some(backup),
            problems,
        });
    }
    Ok(verdicts)
}

/// The text of a damage; other errors stay errors.
fn damage(outcome: Result<()>) -> Result<Option<String>> {
    match outcome {
        Ok(()) => Ok(None),
        Err(error @ Error::Damaged { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

fn verify_file(
    repository: &Repository,
    file: &BackupFile,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut rest = file.bytes;
    for number in 0..file.parts() {
        let name = file.part(number);
        let content = repository.get(&name)?.len() as u64;
        if content != rest.min(PART_BYTES as u64) {
            return Err(Error::Damaged {
                object: repository.describe(&name),
                problem: format!("the part has {content} bytes"),
            });
        }
        rest -= content;
        progress(content);
    }
    Ok(())
}

/// Reads the log of a backup; `to_end` reads what was archived after it, too.
fn verify_log(
    repository: &Repository,
    backup: &Backup,
    to_end: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut chain = Chain::new(repository, backup.log_from)?;
    while to_end || chain.position() < backup.position {
        let Some(group) = chain.next_group()? else {
            if chain.position() >= backup.position {
                break;
            }
            return Err(Error::Damaged {
                object: repository.describe(&Backup::name(backup.number)),
                problem: format!(
                    "the log is missing from position {} to {}",
                    chain.position(),
                    backup.position
                ),
            });
        };
        progress(group.records.len() as u64);
    }
    Ok(())
}
