//! The id of a store: 128 random bits as hexadecimal digits in the file `backup-id` of the data
//! directory. It says which repositories are this store's.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::Path;

/// Name of the file.
pub(crate) const NAME: &str = "backup-id";

/// Number of digits.
const DIGITS: usize = 32;

/// Returns the id of the store in a data directory; the first call creates it.
///
/// # Errors
/// The file cannot be read or written, or holds something else.
pub fn of(data_dir: &Path) -> Result<String, String> {
    let path = data_dir.join(NAME);
    let error = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    match fs::read_to_string(&path) {
        Ok(text) => {
            let id = text.trim();
            let is_id = id.len() == DIGITS && id.bytes().all(|b| b.is_ascii_hexdigit());
            is_id
                .then(|| id.to_owned())
                .ok_or_else(|| error(&"not the id of a store"))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            create(data_dir, &path).map_err(|e| error(&e))
        }
        Err(e) => Err(error(&e)),
    }
}

fn create(data_dir: &Path, path: &Path) -> io::Result<String> {
    let half = || RandomState::new().hash_one(std::process::id());
    let id = format!("{:016x}{:016x}", half(), half());
    let new = path.with_extension("tmp");
    let mut file = File::create(&new)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(data_dir)?.sync_all()?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_created_once_and_another_text_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let id = of(dir.path()).unwrap();
        assert_eq!(id.len(), DIGITS);
        assert_eq!(of(dir.path()).unwrap(), id);
        fs::write(dir.path().join(NAME), "x").unwrap();
        assert!(of(dir.path()).unwrap_err().contains("not the id"));
    }
}
