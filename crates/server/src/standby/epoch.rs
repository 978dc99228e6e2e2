//! The greatest epoch that this server knows of, and whether its clients may write in that epoch: the file
//! `replication-epoch` of the data directory ([`porpoise_replication::epoch`] has the rules).
//!
//! ```text
//! version=1
//! epoch=2
//! read-only=1
//! ```
//!
//! Once the file exists, its `read-only` overrides `--super-read-only`: after a restart with the same options a promoted
//! standby accepts writes, and a fenced source refuses them.

use parking_lot::Mutex;
use porpoise_replication::epoch::{EpochKeeper, MAX_EPOCH};
use porpoise_sql::SqlServer;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

/// Version of the file's format.
pub const EPOCH_FORMAT_VERSION: u64 = 1;

/// Name of the file.
const NAME: &str = "replication-epoch";

/// Contents of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// The epoch; 0 before the first.
    pub number: u64,
    /// Whether clients may not write; `None` before the first epoch.
    pub is_read_only: Option<bool>,
}

/// Reads the file of a data directory.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub fn read(data_dir: &Path) -> io::Result<Epoch> {
    let path = data_dir.join(NAME);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Epoch::default()),
        Err(error) => return Err(error),
    };
    let value = |key: &str| {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        let mut values = lines.filter(|(name, _)| *name == key);
        values
            .next()
            .and_then(|(_, value)| value.parse::<u64>().ok())
    };
    match value("version") {
        Some(EPOCH_FORMAT_VERSION) => {}
        Some(other) => {
            return Err(io::Error::other(format!(
                "{} has format {other}; this server reads {EPOCH_FORMAT_VERSION}",
                path.display()
            )));
        }
        None => return Err(io::Error::other(format!("{} is damaged", path.display()))),
    }
    let found = value("epoch").zip(value("read-only"));
    let (number, read_only) =
        found.ok_or_else(|| io::Error::other(format!("{} is damaged", path.display())))?;
    Ok(Epoch {
        number,
        is_read_only: Some(read_only != 0),
    })
}

/// Keeper of the epoch of a running server.
pub struct Epochs {
    data_dir: PathBuf,
    state: Mutex<Epoch>,
    sql: OnceLock<Weak<SqlServer>>,
}

impl Epochs {
    /// Reads the epoch of a data directory.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn open(data_dir: &Path) -> io::Result<Arc<Epochs>> {
        Ok(Arc::new(Epochs {
            data_dir: data_dir.to_owned(),
            state: Mutex::new(read(data_dir)?),
            sql: OnceLock::new(),
        }))
    }

    /// Sets the server whose clients are refused. If another server has taken over, they are refused at once, whatever
    /// variables were persisted.
    pub fn provide(&self, sql: &Arc<SqlServer>) {
        let _first = self.sql.set(Arc::downgrade(sql));
        let state = *self.state.lock();
        if state.is_read_only == Some(true) {
            sql.record_epoch(state.number, true);
        }
    }

    /// Begins an epoch, in which this server is the source. Returns false if it is not greater than every known epoch.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn take_over(&self, epoch: u64) -> io::Result<bool> {
        self.record(epoch, false)
    }

    /// Records the epoch of a server that its group has elected. Clients may not write yet.
    pub fn begin_leadership(&self, epoch: u64) {
        let mut state = self.state.lock();
        state.number = state.number.max(epoch);
        state.is_read_only = Some(true);
        self.show(*state);
    }

    /// Permits or refuses writes of clients while this server leads its group in this epoch. Returns false if the server knows
    /// of a greater epoch.
    ///
    /// # Errors
    /// The epoch cannot be recorded.
    pub fn set_writable(&self, epoch: u64, is_writable: bool) -> io::Result<bool> {
        let mut state = self.state.lock();
        if state.number > epoch {
            return Ok(false);
        }
        let next = Epoch {
            number: epoch,
            is_read_only: Some(!is_writable),
        };
        if is_writable {
            write(&self.data_dir, next)?;
        }
        *state = next;
        self.show(next);
        Ok(true)
    }

    /// Whether clients may write in the present epoch.
    pub fn is_writable(&self) -> bool {
        self.state.lock().is_read_only == Some(false)
    }

    /// Refuses the writes of clients, until the end of the process or until they are permitted.
    pub fn refuse_writes(&self) {
        let mut state = self.state.lock();
        state.is_read_only = Some(true);
        self.show(*state);
    }

    fn show(&self, state: Epoch) {
        if let Some(sql) = self.sql.get().and_then(Weak::upgrade) {
            sql.record_epoch(state.number, state.is_read_only == Some(true));
        }
    }

    fn record(&self, number: u64, is_read_only: bool) -> io::Result<bool> {
        let mut state = self.state.lock();
        if number <= state.number || number > MAX_EPOCH {
            return Ok(false);
        }
        let sql = self.sql.get().and_then(Weak::upgrade);
        if let (Some(sql), true) = (&sql, is_read_only) {
            // Writes are refused even if the file cannot be written.
            sql.record_epoch(state.number, true);
        }
        let next = Epoch {
            number,
            is_read_only: Some(is_read_only),
        };
        write(&self.data_dir, next)?;
        *state = next;
        if let Some(sql) = &sql {
            sql.record_epoch(number, is_read_only);
        }
        Ok(true)
    }
}

impl EpochKeeper for Epochs {
    fn epoch(&self) -> u64 {
        self.state.lock().number
    }

    fn meet(&self, epoch: u64) -> io::Result<()> {
        if self.record(epoch, true)? {
            tracing::warn!(
                epoch,
                "another server has taken over: this one refuses the writes of clients (super_read_only)"
            );
        }
        Ok(())
    }
}

/// Replaces the file.
fn write(data_dir: &Path, epoch: Epoch) -> io::Result<()> {
    let (path, new) = (data_dir.join(NAME), data_dir.join(format!("{NAME}.tmp")));
    let read_only = u8::from(epoch.is_read_only == Some(true));
    let mut file = File::create(&new)?;
    write!(
        file,
        "version={EPOCH_FORMAT_VERSION}\nepoch={}\nread-only={read_only}\n",
        epoch.number
    )?;
    file.sync_all()?;
    std::fs::rename(&new, &path)?;
    File::open(data_dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_kept_and_only_grows() {
        let dir = tempfile::tempdir().unwrap();
        let epochs = Epochs::open(dir.path()).unwrap();
        assert_eq!(read(dir.path()).unwrap(), Epoch::default());
        assert!(epochs.take_over(3).unwrap());
        epochs.meet(2).unwrap();
        assert!(!epochs.take_over(3).unwrap());
        assert_eq!(
            read(dir.path()).unwrap(),
            Epoch {
                number: 3,
                is_read_only: Some(false)
            }
        );
        epochs.meet(4).unwrap();
        epochs.meet(u64::MAX).unwrap();
        let epochs = Epochs::open(dir.path()).unwrap();
        assert_eq!(epochs.epoch(), 4);
        assert_eq!(read(dir.path()).unwrap().is_read_only, Some(true));
        std::fs::write(dir.path().join(NAME), "epoch=").unwrap();
        assert!(read(dir.path()).is_err());
    }
}
