//! Files that a statement names: opened and created only inside of one directory
//! (`secure_file_priv`).
//!
//! Invariants:
//! 1. Symbolic links are resolved before the check, and not followed after it.
//! 2. A pipe or a device is not opened: reading it could wait for ever.
//! 3. A file is created, never overwritten, and a file that is not complete is removed.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// Opens a file for reading. A relative name is one in the directory; `None` if the file lies
/// outside of it.
///
/// # Errors
/// The file or the directory cannot be opened, or it is not a regular file.
pub fn open_within(directory: &Path, name: &Path) -> io::Result<Option<File>> {
    let directory = directory.canonicalize()?;
    let path = match directory.join(name).canonicalize() {
        Ok(path) => path,
        // The error reveals nothing about files outside of the directory, not even their absence.
        Err(_) if may_lead_outside(name, &directory) => return Ok(None),
        Err(error) => return Err(error),
    };
    if !path.starts_with(&directory) {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.read(true).custom_flags(flags).open(&path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(Some(file))
}

/// A file that is being written; removed when it is dropped before [`NewFile::keep`].
#[derive(Debug)]
pub struct NewFile {
    file: File,
    path: PathBuf,
    is_kept: bool,
}

impl NewFile {
    /// Appends bytes.
    ///
    /// # Errors
    /// The file cannot be written, for instance because the disk is full.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Empties the file.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()
    }

    /// Ends writing; the file stays.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // A file that cannot be removed stays incomplete: the statement has failed already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Creates a file for writing, readable by the server's user and group. A relative name is one in
/// the directory; `None` if the file would lie outside of it.
///
/// # Errors
/// The file exists ([`io::ErrorKind::AlreadyExists`]), or cannot be created.
pub fn create_within(directory: &Path, name: &Path) -> io::Result<Option<NewFile>> {
    let directory = directory.canonicalize()?;
    let joined = directory.join(name);
    let (Some(parent), Some(file_name)) = (joined.parent(), joined.file_name()) else {
        return Ok(None);
    };
    let parent = match parent.canonicalize() {
        Ok(parent) => parent,
        Err(_) if may_lead_outside(name, &directory) => return Ok(None),
        Err(error) => return Err(error),
    };
    if !parent.starts_with(&directory) {
        return Ok(None);
    }
    let path = parent.join(file_name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o640);
    let file = options.open(&path)?;
    Ok(Some(NewFile {
        file,
        path,
        is_kept: false,
    }))
}

fn may_lead_outside(name: &Path, directory: &Path) -> bool {
    let mut parts = name.components();
    parts.any(|part| part == Component::ParentDir)
        || name.is_absolute() && !name.starts_with(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn only_files_inside_of_the_directory_are_opened() {
        let top = std::env::temp_dir().join(format!("porpoise-import-{}", std::process::id()));
        let inside = top.join("in");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("a"), "text").unwrap();
        std::fs::write(top.join("b"), "secret").unwrap();
        std::os::unix::fs::symlink(top.join("b"), inside.join("link")).unwrap();
        for name in [
            Path::new("a").to_owned(),
            inside.join("a"),
            inside.join("../in/a"),
        ] {
            let mut text = String::new();
            let mut file = open_within(&inside, &name).unwrap().unwrap();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
        }
        for name in [
            top.join("b"),
            Path::new("../b").to_owned(),
            inside.join("link"),
            top.join("missing"),
            inside.join("../missing"),
        ] {
            assert!(open_within(&inside, &name).unwrap().is_none(), "{name:?}");
        }
        assert!(open_within(&inside, Path::new("missing")).is_err());
        assert!(open_within(&inside, Path::new(".")).is_err());
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn files_are_created_inside_of_the_directory_and_never_overwritten() {
        let top = std::env::temp_dir().join(format!("porpoise-export-{}", std::process::id()));
        let inside = top.join("in");
        std::fs::create_dir_all(inside.join("sub")).unwrap();
        std::os::unix::fs::symlink(&top, inside.join("up")).unwrap();
        std::os::unix::fs::symlink(top.join("target"), inside.join("link")).unwrap();
        let mut file = create_within(&inside, Path::new("sub/a")).unwrap().unwrap();
        file.append(b"lost").unwrap();
        file.clear().unwrap();
        file.append(b"text").unwrap();
        file.keep();
        assert_eq!(std::fs::read(inside.join("sub/a")).unwrap(), b"text");
        let error = create_within(&inside, Path::new("sub/a")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        drop(create_within(&inside, Path::new("b")).unwrap().unwrap());
        assert!(!inside.join("b").exists(), "an incomplete file is removed");
        for name in [
            "../c",
            "up/c",
            "../missing/c",
            "/tmp/porpoise-export-outside",
            "/",
        ] {
            let created = create_within(&inside, Path::new(name)).unwrap();
            assert!(created.is_none(), "{name}");
        }
        // The link itself is the name of a file that exists.
        let error = create_within(&inside, Path::new("link")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(create_within(&inside, Path::new("missing/c")).is_err());
        std::fs::remove_dir_all(&top).unwrap();
    }
}
