//! The place of a backup that a statement names: inside of the place that the operator allows.
//!
//! Invariants:
//! 1. Symbolic links are resolved before the check; names with `..` are refused.
//! 2. Nothing is written into the data directory.

use porpoise_backup::Location;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Resolves the name that a statement gives; a relative name lies in the allowed place. `None` if it
/// lies outside.
pub fn resolve(allowed: Option<&str>, text: &str, data_dir: &Path) -> Option<Location> {
    let allowed = allowed?;
    if allowed.contains("://") {
        return resolve_url(allowed, text);
    }
    let path = Path::new(text.strip_prefix("file://").unwrap_or(text));
    if text.is_empty() || !text.starts_with("file://") && text.contains("://") {
        return None;
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let root = Path::new(allowed).canonicalize().ok()?;
    let path = canonical(&root.join(path))?;
    let data_dir = data_dir.canonicalize().ok()?;
    let is_outside = !path.starts_with(&root);
    let is_in_data = path.starts_with(&data_dir) || data_dir.starts_with(&path);
    (!is_outside && !is_in_data).then_some(Location::Directory(path))
}

/// The canonical form of a path whose last parts need not exist.
fn canonical(path: &Path) -> Option<PathBuf> {
    let mut missing: Vec<OsString> = Vec::new();
    let mut existing = path.to_owned();
    loop {
        if let Ok(found) = existing.canonicalize() {
            return Some(
                missing
                    .iter()
                    .rev()
                    .fold(found, |path, part| path.join(part)),
            );
        }
        // A link to nothing would be followed when it exists.
        if existing.is_symlink() {
            return None;
        }
        missing.push(existing.file_name()?.to_owned());
        existing.pop();
    }
}

/// A URL below the allowed one.
fn resolve_url(allowed: &str, text: &str) -> Option<Location> {
    let allowed = allowed.trim_end_matches('/');
    let url = if text.contains("://") {
        text.to_owned()
    } else {
        format!("{allowed}/{text}")
    };
    let below = url.strip_prefix(allowed)?;
    let is_below = below.is_empty() || below.starts_with('/');
    let is_plain = !below.split('/').any(|part| part == "..");
    Location::parse(&url).ok().filter(|_| is_below && is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_below_the_allowed_one_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (allowed, data) = (root.join("backups"), root.join("data"));
        for path in [&allowed, &data, &root.join("other")] {
            std::fs::create_dir(path).unwrap();
        }
        std::os::unix::fs::symlink(root.join("other"), allowed.join("out")).unwrap();
        std::os::unix::fs::symlink(root.join("nothing"), allowed.join("dangling")).unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let found = |name: &str| {
            let place = resolve(allowed.to_str(), name, &data)?;
            Some(place.directory()?.to_owned())
        };
        assert_eq!(found("daily"), Some(allowed.join("daily")));
        assert_eq!(found("a/b"), Some(allowed.join("a/b")));
        assert_eq!(found(&text(allowed.join("x"))), Some(allowed.join("x")));
        assert_eq!(found(&text(allowed.clone())), Some(allowed.clone()));
        for bad in [
            "",
            "../data",
            "a/../../other",
            "out/x",
            "dangling/x",
            "/tmp",
            "s3://b/p",
            "http://x/",
        ] {
            assert_eq!(found(bad), None, "{bad}");
        }
        assert_eq!(resolve(None, "daily", &data), None);
        assert_eq!(resolve(root.to_str(), "data/x", &data), None);
        assert_eq!(resolve(root.to_str(), &text(root.clone()), &data), None);
    }
}
