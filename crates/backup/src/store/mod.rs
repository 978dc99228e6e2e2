//! Object stores: a directory, or a bucket of an S3-compatible service.

mod directory;
mod s3;

use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use directory::Directory;
pub use s3::{Bucket, Service};

/// Named objects that are written whole.
pub trait ObjectStore: Send + Sync {
    /// Writes an object, replacing one with the same name. Afterwards it is durable; after a crash
    /// during the call there is the whole object or none.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn put(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Reads an object; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// Removes an object; it is not an error if it does not exist.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn remove(&self, name: &str) -> Result<()>;

    /// Names that begin with `prefix`, which ends with a slash; sorted.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Removes unfinished objects of interrupted writes that were last changed before a time. Returns their
    /// number. A bucket has no unfinished objects.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn remove_unfinished(&self, _before: SystemTime) -> Result<usize> {
        Ok(0)
    }
}

/// Location of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A directory.
    Directory(PathBuf),
    /// Objects of a bucket whose names begin with a prefix.
    S3 {
        /// The bucket.
        bucket: String,
        /// The prefix; empty, or without a slash at its end.
        prefix: String,
    },
}

impl Location {
    /// Parses the name of a directory or the URL of a bucket.
    ///
    /// # Errors
    /// [`Error::Refused`] for another URL.
    pub fn parse(text: &str) -> Result<Location> {
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                return Err(Error::Refused(format!("{text:?} names no bucket")));
            }
            return Ok(Location::S3 {
                bucket: bucket.to_owned(),
                prefix: prefix.trim_matches('/').to_owned(),
            });
        }
        let path = text.strip_prefix("file://").unwrap_or(text);
        if path.is_empty() || path.contains("://") {
            return Err(Error::Refused(format!(
                "{text:?} is neither a directory nor s3://BUCKET/PREFIX"
            )));
        }
        Ok(Location::Directory(PathBuf::from(path)))
    }

    /// Opens the store. Nothing is created before the first object is written.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn open(&self) -> Result<Box<dyn ObjectStore>> {
        match self {
            Location::Directory(path) => Ok(Box::new(Directory::new(path))),
            Location::S3 { bucket, prefix } => {
                let service = Service::of_environment(&|name| std::env::var(name).ok())?;
                Ok(Box::new(Bucket::new(service, bucket, prefix)))
            }
        }
    }

    /// The directory, if it is one.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Location::Directory(path) => Some(path),
            Location::S3 { .. } => None,
        }
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Location::Directory(path) => write!(f, "{}", path.display()),
            Location::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Location::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}
