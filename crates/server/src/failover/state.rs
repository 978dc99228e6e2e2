//! The file `failover-state` of a data directory: epoch, vote and view of a member (docs/formats.md).

use porpoise_replication::election::{Durable, MemberId};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the file.
const NAME: &str = "failover-state";

/// The file of a member.
pub struct StateFile {
    data_dir: PathBuf,
}

impl StateFile {
    /// The file in a data directory.
    #[must_use]
    pub fn new(data_dir: &Path) -> StateFile {
        StateFile {
            data_dir: data_dir.to_owned(),
        }
    }

    /// Reads the state. A member without a file is blank, and gets a file. The group begins with the data of `first`.
    ///
    /// # Errors
    /// The file cannot be read or written, or is damaged.
    pub fn load(&self, first: MemberId) -> io::Result<Durable> {
        let path = self.data_dir.join(NAME);
        match std::fs::read_to_string(&path) {
            Ok(text) => Durable::from_text(&text)
                .map_err(|what| io::Error::other(format!("{}: {what}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let blank = Durable::blank(first, random());
                self.store(&blank)?;
                Ok(blank)
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces the state on disk, and syncs it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn store(&self, state: &Durable) -> io::Result<()> {
        let new = self.data_dir.join(format!("{NAME}.tmp"));
        let mut file = File::create(&new)?;
        file.write_all(state.to_text().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, self.data_dir.join(NAME))?;
        File::open(&self.data_dir)?.sync_all()
    }
}

/// A random number for the data of a member.
#[must_use]
pub fn random() -> u64 {
    fastrand::u64(1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_kept_and_a_damaged_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::new(dir.path());
        let blank = file.load(1).unwrap();
        assert!(blank.is_blank() && blank.incarnation > 0);
        assert_eq!(file.load(1).unwrap(), blank);
        let state = Durable {
            epoch: 4,
            voted_for: Some(2),
            ..blank
        };
        file.store(&state).unwrap();
        assert_eq!(file.load(1).unwrap(), state);
        std::fs::write(dir.path().join(NAME), "version=1\n").unwrap();
        let error = file.load(1).unwrap_err().to_string();
        assert!(error.contains("failover-state"), "{error}");
    }
}
