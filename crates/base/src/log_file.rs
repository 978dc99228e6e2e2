//! Text files to which entries are appended: logs for operators.
//!
//! Invariants:
//! 1. Each entry is appended in one write, and begins on a new line, also after an entry that a full disk has cut short,
//!    in this process or in an earlier one.
//! 2. After a failure the file is opened again, so that a log continues when its directory is available again.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// A log file, open or closed.
#[derive(Debug, Default)]
pub struct LogFile {
    /// `None` after a failure or a request to reopen it.
    file: Option<File>,
    /// Whether its last line may be incomplete.
    is_cut: bool,
}

impl LogFile {
    /// Opens the file, and creates it with these permissions if there is none.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path, mode: u32) -> io::Result<LogFile> {
        let mut options = OpenOptions::new();
        let options = options.append(true).read(true).create(true).mode(mode);
        let file = match options.open(path) {
            // The file may be writable, for example for its group, but not readable.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                OpenOptions::new().append(true).open(path)?
            }
            opened => opened?,
        };
        let mut last = [b'\n'];
        if let Some(at) = file.metadata()?.len().checked_sub(1) {
            // A pipe or a terminal has no positions; its last byte does not matter.
            let _ = file.read_at(&mut last, at);
        }
        Ok(LogFile {
            file: Some(file),
            is_cut: last != [b'\n'],
        })
    }

    /// Appends an entry, whose last line ends with a line break; opens the file first if it is closed.
    ///
    /// # Errors
    /// An error of the system. The entry may then be incomplete, and the file is closed.
    pub fn append(&mut self, path: &Path, mode: u32, entry: &str) -> io::Result<()> {
        if self.file.is_none() {
            *self = LogFile::open(path, mode)?;
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let written = if self.is_cut {
            file.write_all(format!("\n{entry}").as_bytes())
        } else {
            file.write_all(entry.as_bytes())
        };
        if written.is_err() {
            self.file = None;
        } else {
            self.is_cut = false;
        }
        written
    }

    /// Closes the file, so that the next entry opens it again, for example after it was renamed.
    pub fn close(&mut self) {
        self.file = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_begins_behind_one_that_was_cut_off() {
        let name = format!("porpoise-log-file-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "whole\n# cut o").unwrap();
        let mut file = LogFile::open(&path, 0o600).unwrap();
        file.append(&path, 0o600, "a\n").unwrap();
        file.append(&path, 0o600, "b\nc\n").unwrap();
        file.close();
        file.append(&path, 0o600, "d\n").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "whole\n# cut o\na\nb\nc\nd\n");
    }
}
