//! Files that a statement names: opened only inside of one directory (`secure_file_priv`).
//!
//! Invariant: symbolic links are resolved before the check, and not followed after it. A pipe or a
//! device is not opened: reading it could wait for ever.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

/// Opens a file for reading. A relative name is one in the directory; `None` if the file lies
/// outside of it.
///
/// # Errors
/// The file or the directory cannot be opened, or it is not a regular file.
pub fn open_within(directory: &Path, name: &Path) -> io::Result<Option<File>> {
    let directory = directory.canonicalize()?;
    let path = match directory.join(name).canonicalize() {
        Ok(path) => path,
        // Nothing outside of the directory is told about, not even that it does not exist.
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

fn may_lead_outside(name: &Path, directory: &Path) -> bool {
    let mut parts = name.components();
    parts.any(|part| part == Component::ParentDir)
        || name.is_absolute() && !name.starts_with(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

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
}
