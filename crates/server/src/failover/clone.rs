//! Replaces a member's data by a physical copy of the leader's: for a member that has transactions which the leader lacks, or that
//! needs transactions which the leader's log no longer has.
//!
//! ```text
//! running member                                         next start
//! incoming/store, incoming/binlog  <-- COM_CLONE         store  <- incoming/store
//! state: incomplete, on disk                             binlog <- incoming/binlog
//! incoming/COMPLETE                                      without auto.cnf and backup-id
//! ```
//!
//! The copy has the position in the binary log from which the member follows. The member gets a new `server_uuid`, so that it
//! assigns no identifier again that it has assigned to a discarded transaction. It also gets a new identity for backups, because
//! its log does not continue the archived one.
//!
//! Invariants:
//! 1. The member's data stay in use until the copy is complete and on disk.
//! 2. The group knows that the member has discarded its data before they are replaced.
//! 3. The installation of the copy can be interrupted at any step and repeated.
//!
//! A member that has transactions which the leader lacks needs no copy if its checkpoint has none of them ([`super::rewind`]).
//!
//! Rejected: undoing the member's transactions by the before-images of its log. Statements have none, row images that are not full
//! lack columns, and versions of rows (CAS values) would differ from the leader's.

use super::rewind::Rewind;
use crate::backup::log_position::GtidTracker;
use crate::backup::store_id;
use crate::binlog::{self, DIRECTORY};
use crate::config::StartError;
use crate::engine::STORE;
use crate::mysql::clone::{CLONE_FORMAT_VERSION, Description, kind};
use porpoise_base::base64;
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::disk;
use porpoise_base::sync::thread::JoinHandle;
use porpoise_base::threads::{self, Role};
use porpoise_client::mysql::{Connection, Target};
use porpoise_kv_mem::{LogGroup, StoreBuilder};
use porpoise_wire::mysql::client::result::parse_error;
use porpoise_wire::mysql::command::code;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Directory of a copy, within the data directory.
const INCOMING: &str = "incoming";

/// File in [`INCOMING`] that marks the copy as complete.
const COMPLETE: &str = "COMPLETE";

/// Longest silence of the leader while it sends.
const SILENCE: Duration = Duration::from_secs(30);

/// Interval at which a running copy checks for its cancellation.
const POLL: Duration = Duration::from_millis(200);

type Outcome = Result<(), String>;

/// Source of the data that replace a member's own.
pub struct CloneSource {
    /// The leader.
    pub target: Target,
    /// Maximum rate of the copy in bytes a second.
    pub rate: Option<u64>,
    /// The own data, if they may be rewound.
    pub rewind: Option<Rewind>,
}

/// A running copy.
pub struct CloneTask {
    cancel: Cancel,
    outcome: Arc<OnceLock<Outcome>>,
    thread: Option<JoinHandle<()>>,
}

impl CloneTask {
    /// Starts to build data in the data directory, beside those that are in use.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(source: CloneSource, data_dir: &Path) -> io::Result<CloneTask> {
        let (cancel, outcome) = (Cancel::new(), Arc::new(OnceLock::new()));
        let (own, done, dir) = (cancel.clone(), outcome.clone(), data_dir.join(INCOMING));
        let thread = threads::spawn(Role::FailoverClone, move || {
            let _first = done.set(build(source, &dir, &own));
        })?;
        Ok(CloneTask {
            cancel,
            outcome,
            thread: Some(thread),
        })
    }

    /// The outcome of the copy; `None` while it runs.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome.get().cloned()
    }
}

/// Ends the copy: two of them would use one directory.
impl Drop for CloneTask {
    fn drop(&mut self) {
        self.cancel.cancel(Reason::Shutdown);
        if let Some(thread) = self.thread.take() {
            // Its panic ends the process.
            let _ = thread.join();
        }
    }
}

/// Marks the copy as complete, so that the next start installs it.
///
/// # Errors
/// The file cannot be written.
pub fn complete(data_dir: &Path) -> io::Result<()> {
    let dir = data_dir.join(INCOMING);
    File::create(dir.join(COMPLETE))?.sync_all()?;
    File::open(&dir)?.sync_all()
}

/// Replaces the data by a complete copy, and removes an incomplete one. Called before any file of the data directory is
/// opened.
///
/// # Errors
/// A message for the operator in one line.
pub fn install(data_dir: &Path) -> Result<(), StartError> {
    let dir = data_dir.join(INCOMING);
    let done = install_files(data_dir, &dir);
    done.map_err(|e| StartError::failure(format!("the copy in {}: {e}", dir.display())))
}

fn install_files(data_dir: &Path, dir: &Path) -> io::Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    if dir.join(COMPLETE).exists() {
        tracing::info!("failover: the prepared data replace this server's data");
        for name in [binlog::UUID_FILE, store_id::NAME] {
            remove_file(&data_dir.join(name))?;
        }
        for name in [STORE, DIRECTORY] {
            let (new, old) = (dir.join(name), data_dir.join(name));
            if new.exists() {
                remove_dir(&old)?;
                fs::rename(&new, &old)?;
                File::open(data_dir)?.sync_all()?;
            }
        }
    }
    remove_dir(dir)?;
    File::open(data_dir)?.sync_all()
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn remove_dir(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Packets of the leader.
struct Packets<'a> {
    connection: Connection,
    packet: Vec<u8>,
    cancel: &'a Cancel,
    /// Most bytes a second.
    rate: Option<u64>,
    begun: Instant,
    received: u64,
}

impl Packets<'_> {
    fn check_cancelled(&self) -> Outcome {
        match self.cancel.reason() {
            Some(_) => Err("the leader has changed".to_owned()),
            None => Ok(()),
        }
    }

    /// Waits until the rate permits more.
    fn keep_rate(&mut self) -> Outcome {
        self.received += self.packet.len() as u64;
        let Some(rate) = self.rate else {
            return Ok(());
        };
        let due = Duration::from_secs_f64(self.received as f64 / rate as f64);
        while let Some(wait) = due.checked_sub(self.begun.elapsed()) {
            self.check_cancelled()?;
            std::thread::sleep(wait.min(POLL));
        }
        Ok(())
    }

    /// The next packet: its kind and contents.
    fn next(&mut self) -> Result<(u8, &[u8]), String> {
        let begun = Instant::now();
        loop {
            self.check_cancelled()?;
            match self.connection.receive(&mut self.packet) {
                Ok(()) => break,
                Err(error) if error.is_timeout() && begun.elapsed() < SILENCE => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        self.keep_rate()?;
        if let Some(error) = parse_error(&self.packet) {
            return Err(error.message);
        }
        match self.packet.as_slice() {
            [0, kind, rest @ ..] => Ok((*kind, rest)),
            _ => Err("a packet cannot be read".to_owned()),
        }
    }

    fn expect(&mut self, wanted: u8) -> Result<&[u8], String> {
        match self.next()? {
            (kind, rest) if kind == wanted => Ok(rest),
            (kind, _) => Err(format!("a packet of kind {kind} instead of {wanted}")),
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Builds new data in a directory: the own data without the transactions that the leader lacks, or a copy of the leader's.
fn build(source: CloneSource, dir: &Path, cancel: &Cancel) -> Outcome {
    begin(dir)?;
    let rewound = source.rewind.map(|rewind| rewind.build(dir, cancel));
    match rewound {
        Some(Ok(true)) => return sync_all(dir),
        Some(Ok(false)) => {
            tracing::info!(
                "failover: a checkpoint has transactions that the leader lacks: its data are copied"
            );
        }
        Some(Err(error)) => {
            tracing::warn!(%error, "failover: the data cannot be rewound: the leader's are copied");
        }
        None => {}
    }
    begin(dir)?;
    copy(source.target, source.rate, dir, cancel)
}

/// Creates the directory, empty.
fn begin(dir: &Path) -> Outcome {
    remove_dir(dir).map_err(text)?;
    fs::create_dir_all(dir.join(STORE)).map_err(text)
}

/// Copies the data of a server.
fn copy(mut target: Target, rate: Option<u64>, dir: &Path, cancel: &Cancel) -> Outcome {
    let store = dir.join(STORE);
    target.read_timeout = Some(POLL);
    let mut connection = Connection::connect(&target).map_err(text)?;
    let sent = connection.send_command(code::CLONE, &[CLONE_FORMAT_VERSION]);
    sent.map_err(text)?;
    let mut packets = Packets {
        connection,
        packet: Vec::new(),
        cancel,
        rate,
        begun: Instant::now(),
        received: 0,
    };
    let description: Description =
        serde_json::from_slice(packets.expect(kind::DESCRIPTION)?).map_err(text)?;
    let manifest = match &description.manifest {
        Some(encoded) => {
            let decoded = base64::decode(encoded.as_bytes());
            Some(decoded.ok_or("the manifest cannot be read")?)
        }
        None => None,
    };
    let builder = StoreBuilder::new(disk::real(), &store, manifest.as_deref());
    let mut builder = builder.map_err(text)?;
    let named = builder.files();
    let listed = description.files.iter().map(|f| (f.name.clone(), f.bytes));
    if !listed.eq(named.iter().cloned()) {
        return Err("the files differ from those that the manifest names".to_owned());
    }
    for (name, bytes) in &named {
        copy_file(&mut packets, &builder, name, *bytes)?;
    }
    let mut tracker = GtidTracker::new(&description.binlog).map_err(text)?;
    let end = copy_log(&mut packets, &mut builder, &mut tracker)?;
    let position = builder.finish().map_err(text)?;
    if position < end {
        return Err(format!("the log ends at {position} instead of {end}"));
    }
    let log = dir.join(DIRECTORY);
    tracker.write_log(&*disk::real(), &log).map_err(text)?;
    tracing::info!(executed = %tracker.executed(), "failover: the leader's data are copied");
    sync_all(dir)
}

/// Syncs the directories; the files are synced.
fn sync_all(dir: &Path) -> Outcome {
    for synced in [dir.join(STORE), dir.join(DIRECTORY), dir.to_owned()] {
        let synced = File::open(synced).and_then(|dir| dir.sync_all());
        synced.map_err(text)?;
    }
    Ok(())
}

/// Error of a file's part.
struct PartError(String);

impl From<porpoise_kv::Error> for PartError {
    fn from(error: porpoise_kv::Error) -> PartError {
        PartError(error.to_string())
    }
}

fn copy_file(
    packets: &mut Packets<'_>,
    builder: &StoreBuilder,
    name: &str,
    bytes: u64,
) -> Result<(), String> {
    let mut left = bytes;
    let parts = std::iter::from_fn(|| {
        if left == 0 {
            return None;
        }
        let part = packets.expect(kind::FILE).map(<[u8]>::to_vec);
        let part = part.and_then(|part| match left.checked_sub(part.len() as u64) {
            Some(rest) if !part.is_empty() => {
                left = rest;
                Ok(part)
            }
            _ => Err("the length of a file differs from the description".to_owned()),
        });
        Some(part.map_err(PartError))
    });
    let done = builder.put_file(name, parts);
    done.map(drop)
        .map_err(|PartError(what)| format!("{name}: {what}"))
}

/// The numbers at the beginning of a packet.
fn numbers<const N: usize>(bytes: &[u8]) -> Result<[u64; N], String> {
    let mut numbers = [0; N];
    let (chunks, _) = bytes.as_chunks::<8>();
    for (number, chunk) in numbers.iter_mut().zip(chunks) {
        *number = u64::from_le_bytes(*chunk);
    }
    if bytes.len() == N * 8 {
        Ok(numbers)
    } else {
        Err("a packet has a wrong length".to_owned())
    }
}

fn copy_log(
    packets: &mut Packets<'_>,
    builder: &mut StoreBuilder,
    tracker: &mut GtidTracker,
) -> Result<u64, String> {
    loop {
        match packets.next()? {
            (kind::GROUP, head) => {
                let [start, time, length] = numbers(head)?;
                let mut records = Vec::new();
                while (records.len() as u64) < length {
                    let part = packets.expect(kind::RECORDS)?;
                    if part.is_empty() || (records.len() + part.len()) as u64 > length {
                        return Err("the length of a log group differs from its head".to_owned());
                    }
                    records.extend_from_slice(part);
                }
                tracker.group(&records).map_err(text)?;
                let group = LogGroup {
                    start,
                    time,
                    records,
                };
                builder.put_group(&group).map_err(text)?;
            }
            (kind::END, end) => {
                let [end] = numbers(end)?;
                return Ok(end);
            }
            (kind, _) => return Err(format!("a packet of kind {kind} in the log")),
        }
    }
}
