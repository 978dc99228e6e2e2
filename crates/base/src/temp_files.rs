//! Temporary files: a directory with a limit for the bytes of all its files.
//!
//! Invariants:
//! 1. A file has no name: it is opened without one (`O_TMPFILE`), or, where the file system
//!    cannot do that, loses its name right after it was created. Its space is free when its last
//!    descriptor is closed, also after `kill -9`.
//! 2. A name that is found at startup was left by a process that was killed between creating
//!    and removing it. Removing it is safe beside other servers, which keep their open files.
//! 3. The bytes of a file count against the limit until the file is dropped.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Start of the names of temporary files.
const PREFIX: &str = "porpoise-temp-";

/// Names tried for one file.
const ATTEMPTS: u32 = 100;

/// A directory of temporary files.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
    /// Bytes of all files together.
    limit: u64,
    used: AtomicU64,
    created: AtomicU64,
    /// Intermediate results written to files, for `Created_tmp_disk_tables`.
    pub disk_tables: AtomicU64,
    /// Merges of sorted runs, for `Sort_merge_passes`.
    pub merge_passes: AtomicU64,
    /// Number in the next name.
    next: AtomicU64,
}

/// The error of a write beyond the directory's limit; its kind is `QuotaExceeded`.
#[derive(Debug)]
pub struct LimitExceeded {
    /// The limit in bytes.
    pub limit: u64,
}

impl std::fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the limit is {} bytes", self.limit)
    }
}

impl std::error::Error for LimitExceeded {}

impl TempDir {
    /// A directory of this path; nothing is created yet.
    pub fn new(path: &Path, limit: Option<u64>) -> Arc<TempDir> {
        Arc::new(TempDir {
            path: path.to_owned(),
            limit: limit.unwrap_or(u64::MAX),
            used: AtomicU64::new(0),
            created: AtomicU64::new(0),
            disk_tables: AtomicU64::new(0),
            merge_passes: AtomicU64::new(0),
            next: AtomicU64::new(0),
        })
    }

    /// As [`TempDir::new`]; creates the directory if it is missing, and removes what killed
    /// processes left in it.
    ///
    /// # Errors
    /// As [`TempDir::prepare`].
    pub fn open(path: &Path, limit: Option<u64>) -> io::Result<Arc<TempDir>> {
        let dir = TempDir::new(path, limit);
        dir.prepare()?;
        Ok(dir)
    }

    /// Creates the directory if it is missing, removes what killed processes left in it, and
    /// tries to create a file.
    ///
    /// # Errors
    /// The directory cannot be created, read, or written to.
    pub fn prepare(&self) -> io::Result<()> {
        self.make()?;
        for entry in self.path.read_dir()? {
            let name = entry?.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(PREFIX)) {
                // A file of another user stays.
                let _ = std::fs::remove_file(self.path.join(name));
            }
        }
        self.open_file().map(drop)
    }

    /// Creates the directory if it is missing.
    fn make(&self) -> io::Result<()> {
        if self.path.is_dir() {
            return Ok(());
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the open files.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Number of files created so far.
    pub fn created(&self) -> u64 {
        self.created.load(Relaxed)
    }

    /// Creates an empty file, and the directory if it was removed.
    ///
    /// # Errors
    /// As the system reports.
    pub fn create(self: &Arc<Self>) -> io::Result<TempFile> {
        self.make()?;
        let file = self.open_file()?;
        self.created.fetch_add(1, Relaxed);
        Ok(TempFile {
            file,
            dir: self.clone(),
            length: 0,
        })
    }

    fn open_file(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        match options.custom_flags(libc::O_TMPFILE).open(&self.path) {
            Ok(file) => Ok(file),
            // The kernel or the file system does not know the flag.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL | libc::ENOENT)
                ) =>
            {
                self.open_named()
            }
            Err(error) => Err(error),
        }
    }

    fn open_named(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        for _ in 0..ATTEMPTS {
            let number = self.next.fetch_add(1, Relaxed);
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            let path = self.path.join(name);
            match options.open(&path) {
                Ok(file) => {
                    return match std::fs::remove_file(&path) {
                        // Another server that starts has removed it.
                        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                        _ => Ok(file),
                    };
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let used = self.used.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if used <= self.limit {
            return Ok(());
        }
        self.used.fetch_sub(bytes, Relaxed);
        let error = LimitExceeded { limit: self.limit };
        Err(io::Error::new(ErrorKind::QuotaExceeded, error))
    }
}

/// A temporary file. Dropping it frees its space.
#[derive(Debug)]
pub struct TempFile {
    file: File,
    dir: Arc<TempDir>,
    length: u64,
}

impl TempFile {
    /// Bytes written so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The directory.
    pub fn dir(&self) -> &TempDir {
        &self.dir
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// `QuotaExceeded` when the directory's limit is reached; as the system reports.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.dir.reserve(bytes.len() as u64)?;
        let at = self.length;
        self.length += bytes.len() as u64;
        self.file.write_all_at(bytes, at)
    }

    /// Fills the buffer with the bytes at an offset.
    ///
    /// # Errors
    /// `UnexpectedEof` after the end; as the system reports.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        self.dir.used.fetch_sub(self.length, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test's directory, removed at the end of the test.
    struct TestDir(PathBuf);

    impl TestDir {
        fn new(name: &str) -> TestDir {
            let name = format!("porpoise-temp-files-{name}-{}", std::process::id());
            TestDir(std::env::temp_dir().join(name))
        }

        fn names(&self) -> usize {
            self.0.read_dir().unwrap().count()
        }
    }

    impl Drop for TestDir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_have_no_name_and_count_until_they_are_dropped() {
        let test_dir = TestDir::new("names");
        let dir = TempDir::open(&test_dir.0, None).unwrap();
        let mut file = dir.create().unwrap();
        file.append(b"one").unwrap();
        file.append(b"two").unwrap();
        let mut bytes = [0; 4];
        file.read_at(2, &mut bytes).unwrap();
        assert_eq!(&bytes, b"etwo");
        assert!(file.read_at(3, &mut bytes).is_err());
        assert_eq!((dir.used(), dir.created(), test_dir.names()), (6, 1, 0));
        drop(file);
        assert_eq!(dir.used(), 0);
    }

    #[test]
    fn named_files_are_unlinked_where_unnamed_ones_are_not_supported() {
        let test_dir = TestDir::new("named");
        let dir = TempDir::open(&test_dir.0, None).unwrap();
        let file = dir.open_named().unwrap();
        assert_eq!(test_dir.names(), 0);
        file.write_all_at(b"x", 0).unwrap();
    }

    #[test]
    fn the_limit_is_for_all_files_together() {
        let test_dir = TestDir::new("limit");
        let dir = TempDir::open(&test_dir.0, Some(10)).unwrap();
        let (mut a, mut b) = (dir.create().unwrap(), dir.create().unwrap());
        a.append(&[0; 6]).unwrap();
        let error = b.append(&[0; 5]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
        b.append(&[0; 4]).unwrap();
        drop(a);
        b.append(&[0; 6]).unwrap();
        drop(b);
        assert_eq!(dir.used(), 0);
    }

    #[test]
    fn a_start_removes_leftovers_and_nothing_else() {
        let test_dir = TestDir::new("leftovers");
        std::fs::create_dir_all(&test_dir.0).unwrap();
        std::fs::write(test_dir.0.join(format!("{PREFIX}1-0")), b"x").unwrap();
        std::fs::write(test_dir.0.join("other"), b"x").unwrap();
        TempDir::open(&test_dir.0, None).unwrap();
        assert_eq!(test_dir.names(), 1);
        assert!(test_dir.0.join("other").exists());
    }

    #[test]
    fn a_directory_that_is_missing_is_created_with_the_first_file() {
        let test_dir = TestDir::new("missing");
        let dir = TempDir::new(&test_dir.0, None);
        assert!(!test_dir.0.exists());
        dir.create().unwrap().append(b"x").unwrap();
        assert!(test_dir.0.is_dir());
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_an_error() {
        let test_dir = TestDir::new("unusable");
        std::fs::create_dir_all(&test_dir.0).unwrap();
        let file = test_dir.0.join("file");
        std::fs::write(&file, b"x").unwrap();
        assert!(TempDir::open(&file.join("below"), None).is_err());
    }
}
