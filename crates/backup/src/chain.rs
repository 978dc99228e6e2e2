//! A stretch of the log in a repository, read with as few pieces as possible.

use crate::log::{Group, Sweep, groups};
use crate::repository::Repository;
use crate::{Error, Result};

/// The groups of the log from a position on, read piece by piece.
pub struct Chain<'r> {
    repository: &'r Repository,
    pieces: Sweep,
    /// Position after the last group that was returned.
    at: u64,
    loaded: std::vec::IntoIter<Group>,
}

impl<'r> Chain<'r> {
    /// The log from the group on that contains `from`.
    ///
    /// # Errors
    /// The repository cannot be listed.
    pub fn new(repository: &'r Repository, from: u64) -> Result<Chain<'r>> {
        Ok(Chain {
            pieces: Sweep::new(repository.pieces()?),
            repository,
            at: from,
            loaded: Vec::new().into_iter(),
        })
    }

    /// Position after the last group that was returned.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Returns the next group; `None` where no piece continues.
    ///
    /// # Errors
    /// A piece is damaged.
    pub fn next_group(&mut self) -> Result<Option<Group>> {
        loop {
            for group in self.loaded.by_ref() {
                if group.end() > self.at {
                    self.at = group.end();
                    return Ok(Some(group));
                }
            }
            let Some(piece) = self.pieces.next(self.at) else {
                return Ok(None);
            };
            let name = piece.name();
            let content = self.repository.get(&name)?;
            let groups = groups(piece, &content);
            let groups = groups.map_err(|problem| Error::Damaged {
                object: self.repository.describe(&name),
                problem,
            })?;
            self.loaded = groups.into_iter();
        }
    }
}
