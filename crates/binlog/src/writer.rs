//! The writer: turns annotations into files, in commit order.
//!
//! ```text
//! read annotations (on disk in the engine) -> events -> write -> publish the end -> dumps send
//!                                                          \-> at times: sync -> release annotations
//! ```
//!
//! A crash can lose what was not synced, and the engine has its annotations still. At the next start the torn end of
//! the last file is cut, and the commits after the last complete one are derived again, into the same file and from
//! the same bytes, so that a position that a replica has read is the same position afterwards. Then a new file
//! begins.
//!
//! An error of a file closes the log: dumps end with it, commits go on, and the engine keeps all annotations until
//! the next start finds the cause removed.

use crate::annotation::{Annotation, Kind};
use crate::file::{self, FIRST_POSITION, file_name, split_events};
use crate::log::{BinaryLog, LastFile, LogFile, State};
use crate::{Error, Result};
use porpoise_base::disk::File;
use porpoise_kv::AnnotationReader;
use porpoise_replication::dependencies::KeyHistory;
use porpoise_replication::event::gtid::{CommitTimes, ServerVersions};
use porpoise_replication::event::{
    CHECKSUM_LEN, Event, EventOptions, EventWriter, FormatDescription, GtidEvent, HEADER_LEN,
    Header, QueryEvent, Rotate, TransactionPayload, flags, set_next_position,
};
use porpoise_replication::gtid::Gtid;
use porpoise_rows::changes::ChangedKeys;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes of annotations read at once.
const READ_BYTES: usize = 4 << 20;

/// Unsynced bytes after which a file is synced.
const SYNC_BYTES: u64 = 16 << 20;

/// Time after which a file with unsynced bytes is synced.
const SYNC_DELAY: Duration = Duration::from_secs(1);

/// Interval at which the requests of sessions are checked.
const TICK: Duration = Duration::from_millis(50);

/// Pause after a small batch, so that several group commits share a write, while readers wait for them.
const BATCH_PAUSE: Duration = Duration::from_micros(500);

/// The same while no reader is connected. Sessions that ask for the state of the log wait for it.
const IDLE_BATCH_PAUSE: Duration = Duration::from_millis(5);

/// Time between two removals of files by age and size.
const PURGE_DELAY: Duration = Duration::from_secs(10);

/// Version in the GTID events.
const VERSION_NUMBER: u32 = 80_400;

/// Transactions smaller than this are not worth compressing, in bytes.
const MIN_COMPRESSED: usize = 256;

/// Bytes of an XID event.
const XID_LEN: usize = HEADER_LEN + 8 + CHECKSUM_LEN;

/// Transactions larger than this are not compressed, in bytes: a reader must hold all of a compressed one.
const MAX_COMPRESSED: usize = 32 << 20;

/// Extent of the engine's annotations that one pass of the writer has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// There were none.
    Nothing,
    /// All that were on disk.
    All,
    /// The first ones: there were more than are read at once.
    More,
}

/// A transaction that was written and that readers do not see yet.
struct Written {
    gtid: Gtid,
    /// Its end in the file.
    end: u64,
    commit: u64,
}

pub(crate) struct Writer {
    log: Arc<BinaryLog>,
    reader: Box<dyn AnnotationReader>,
    /// The last file, its number, and its end.
    file: Box<dyn File>,
    path: PathBuf,
    number: u64,
    end: u64,
    /// Transactions of the file.
    transactions: u64,
    /// The newest commit in the log.
    last_commit: u64,
    unsynced: u64,
    last_sync: Instant,
    last_purge: Instant,
    last_flow_control: Instant,
    /// See [`begin_event`].
    begin: Vec<u8>,
    /// The last transactions of the file that used each key.
    history: KeyHistory,
}

impl Writer {
    /// Opens the last file, after its last complete transaction, or creates the first one.
    pub(crate) fn open(
        log: Arc<BinaryLog>,
        reader: Box<dyn AnnotationReader>,
        last: LastFile,
        last_commit: u64,
    ) -> Result<Writer> {
        let (number, scanned) = {
            let state = log.state.lock();
            let last = state.files.last().map(|file| file.number).zip(last);
            last.map_or((0, None), |(number, scanned)| (number, Some(scanned)))
        };
        let now = Instant::now();
        let Some(scanned) = scanned else {
            let (file, path, end) = log.create_file(1, last_commit, true)?;
            return Ok(Writer {
                log,
                reader,
                file,
                path,
                number: 1,
                end,
                transactions: 0,
                last_commit,
                unsynced: 0,
                last_sync: now,
                last_purge: now,
                last_flow_control: now,
                begin: begin_event(),
                history: KeyHistory::default(),
            });
        };
        let path = log.options.dir.join(file_name(number));
        let failed = |e: std::io::Error| Error::io(&path, &e);
        if scanned.len > scanned.end {
            tracing::warn!(
                file = %path.display(),
                offset = scanned.end,
                bytes = scanned.len - scanned.end,
                "the end of the binary log was not written completely; it is cut and written again"
            );
            log.cut(&path, scanned.end)?;
        }
        let file = log.options.disk.open(&path).map_err(failed)?;
        {
            let mut state = log.state.lock();
            state.executed = scanned.executed;
            state.end = scanned.end;
        }
        let mut writer = Writer {
            log,
            reader,
            file,
            path,
            number,
            end: scanned.end,
            transactions: scanned.transactions,
            last_commit,
            unsynced: 1,
            last_sync: now,
            last_purge: now,
            last_flow_control: now,
            begin: begin_event(),
            history: KeyHistory::default(),
        };
        if scanned.is_ended {
            writer.begin_file(true)?;
        }
        Ok(writer)
    }

    /// Writes what is on disk in the engine, then begins a new file, unless the last one has no transaction.
    pub(crate) fn catch_up(&mut self) -> Result<()> {
        while self.write_next()? != Progress::Nothing {}
        if self.transactions > 0 {
            self.end_file()?;
            self.begin_file(true)?;
        }
        self.sync()
    }

    /// Begins a new file after a gap: changes that were never logged. They count as one transaction that no file
    /// has, so that readers that follow by GTIDs find that they lack it.
    pub(crate) fn begin_behind_gap(&mut self) -> Result<()> {
        let missing = self.next_gtid(&[]);
        tracing::warn!(
            gtid = %missing,
            "the server has run without --log-bin: readers at earlier positions are refused and need new copies of the data"
        );
        self.end_file()?;
        let number = self.number + 1;
        let options = &self.log.options;
        let text = format!("{number}\n");
        file::replace(&*options.disk, &options.dir, file::GAP, text.as_bytes())?;
        {
            let mut state = self.log.state.lock();
            state.gap = Some(number);
            state.executed.insert(missing);
        }
        self.begin_file(true)?;
        self.sync()
    }

    /// Runs until the log is stopped or an error closes it.
    pub(crate) fn run(mut self) {
        let done = self.write_until_stopped();
        let reason = match done {
            Ok(()) => "the server is being shut down".to_owned(),
            Err(error) => {
                tracing::error!(%error, "the binary log is closed: readers are disconnected, and commits are kept for it until the server is restarted");
                error.to_string()
            }
        };
        self.log.state.lock().closed = Some(reason);
        self.log.changed.notify_all();
    }

    fn write_until_stopped(&mut self) -> Result<()> {
        loop {
            let (stops, rotates, resets, catch_ups) = {
                let state = self.log.state.lock();
                let State {
                    stops,
                    rotations,
                    resets,
                    catch_ups,
                    ..
                } = &*state;
                (*stops, *rotations, *resets, *catch_ups)
            };
            let wrote = self.write_next()?;
            self.log.control_flow(&mut self.last_flow_control);
            if catch_ups.0 > catch_ups.1 && wrote != Progress::More {
                self.log.state.lock().catch_ups.1 = catch_ups.0;
                self.log.changed.notify_all();
            }
            if rotates.0 > rotates.1 {
                self.end_file()?;
                self.begin_file(false)?;
                self.log.state.lock().rotations.1 = rotates.0;
                self.log.changed.notify_all();
            }
            if resets.0 > resets.1 {
                self.reset()?;
                self.log.state.lock().resets.1 = resets.0;
                self.log.changed.notify_all();
            }
            if wrote != Progress::Nothing {
                continue;
            }
            if stops {
                return self.close();
            }
            if self.unsynced > 0 && self.last_sync.elapsed() >= SYNC_DELAY {
                self.sync()?;
            }
            if self.last_purge.elapsed() >= PURGE_DELAY {
                self.last_purge = Instant::now();
                self.log.purge_by_rules()?;
            }
            self.log.check_ack_timeout();
            self.reader.wait(TICK);
        }
    }

    /// Writes the next transactions.
    fn write_next(&mut self) -> Result<Progress> {
        let found = self.reader.read(READ_BYTES)?;
        if found.is_empty() {
            return Ok(Progress::Nothing);
        }
        let has_more = found.iter().map(|a| a.bytes.len()).sum::<usize>() >= READ_BYTES;
        let mut out = Vec::new();
        let mut written = Vec::new();
        for annotation in &found {
            // A restart finds again what is in the files.
            if annotation.commit <= self.last_commit {
                continue;
            }
            let at = self.end + out.len() as u64;
            let gtid = self.append(&mut out, at, annotation.commit, &annotation.bytes, &written)?;
            written.push(Written {
                gtid,
                end: self.end + out.len() as u64,
                commit: annotation.commit,
            });
            self.last_commit = annotation.commit;
            self.transactions += 1;
            if self.end + out.len() as u64 >= self.log.options.max_file_bytes {
                self.publish(&mut out, &mut written)?;
                self.end_file()?;
                self.begin_file(false)?;
            }
        }
        let is_small = out.len() < READ_BYTES / 16;
        self.publish(&mut out, &mut written)?;
        if self.unsynced >= SYNC_BYTES {
            self.sync()?;
        }
        if has_more {
            return Ok(Progress::More);
        }
        if is_small {
            let has_readers = !self.log.state.lock().dumps.is_empty();
            std::thread::sleep(if has_readers {
                BATCH_PAUSE
            } else {
                IDLE_BATCH_PAUSE
            });
        }
        Ok(Progress::All)
    }

    /// Writes events to the file, and shows them to readers.
    fn publish(&mut self, out: &mut Vec<u8>, transactions: &mut Vec<Written>) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let done = self.file.write_at(self.end, out);
        done.map_err(|e| Error::io(&self.path, &e))?;
        self.end += out.len() as u64;
        self.unsynced += out.len() as u64;
        self.log
            .bytes
            .fetch_add(out.len() as u64, Ordering::Relaxed);
        let count = transactions.len() as u64;
        self.log.transactions.fetch_add(count, Ordering::Relaxed);
        let now = Instant::now();
        let mut state = self.log.state.lock();
        state.end = self.end;
        for transaction in transactions.drain(..) {
            state.executed.insert(transaction.gtid);
            state.last_commit = transaction.commit;
            let end = (self.number, transaction.end);
            state.acks.written(end, transaction.commit, now);
        }
        // A group may require no other member at present.
        if let (Some(commit), Some(engine)) =
            (state.acks.take_unneeded(now), self.log.ack_engine.get())
        {
            engine.acknowledge(commit);
        }
        drop(state);
        self.log.changed.notify_all();
        out.clear();
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file
            .sync_data()
            .map_err(|e| Error::io(&self.path, &e))?;
        self.log.syncs.fetch_add(1, Ordering::Relaxed);
        self.unsynced = 0;
        self.last_sync = Instant::now();
        let position = self.reader.position();
        self.reader.release(position);
        Ok(())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.log.options.clock.unix_micros()).unwrap_or(0)
    }

    /// Appends an event of the log itself, and syncs.
    fn write_control(&mut self, event: &Event) -> Result<()> {
        let writer = EventWriter {
            server_id: self.log.options.server_id,
            has_checksums: true,
        };
        let options = EventOptions {
            timestamp: u32::try_from(self.now() / 1_000_000).unwrap_or(u32::MAX),
            flags: 0,
        };
        let mut out = Vec::new();
        writer.write(&mut out, Some(self.end), options, event);
        self.publish(&mut out, &mut Vec::new())?;
        self.sync()
    }

    /// Ends the file with a ROTATE event. It is complete on disk then.
    fn end_file(&mut self) -> Result<()> {
        self.write_control(&Event::Rotate(Rotate {
            position: FIRST_POSITION,
            file: file_name(self.number + 1).into_bytes(),
        }))
    }

    fn close(&mut self) -> Result<()> {
        if self.transactions > 0 {
            self.write_control(&Event::Stop)?;
        }
        self.sync()
    }

    /// Begins the next file. The present one is synced.
    fn begin_file(&mut self, is_first: bool) -> Result<()> {
        let number = self.number + 1;
        let (file, path, end) = self.log.create_file(number, self.last_commit, is_first)?;
        (self.file, self.path, self.number, self.end) = (file, path, number, end);
        (self.transactions, self.unsynced) = (0, 0);
        self.history.clear();
        self.log.purge_by_rules()
    }

    /// RESET BINARY LOGS AND GTIDS.
    fn reset(&mut self) -> Result<()> {
        self.sync()?;
        let gone = {
            let mut state = self.log.state.lock();
            state.executed = Default::default();
            state.gap = None;
            state.generation += 1;
            state.acks.restart();
            std::mem::take(&mut state.files)
        };
        // The index without files first: an interrupted reset leaves strays.
        self.log.write_index(&self.log.state.lock())?;
        for file in gone {
            let path = self.log.options.dir.join(file_name(file.number));
            let removed = file::remove_if_there(&*self.log.options.disk, &path);
            removed.map_err(|e| Error::io(&path, &e))?;
        }
        let gap = self.log.options.dir.join(file::GAP);
        let removed = file::remove_if_there(&*self.log.options.disk, &gap);
        removed.map_err(|e| Error::io(&gap, &e))?;
        self.number = 0;
        self.begin_file(false)
    }

    /// Appends the events of a transaction, which begins at `at`. Returns its identifier.
    fn append(
        &mut self,
        out: &mut Vec<u8>,
        at: u64,
        commit: u64,
        annotation: &[u8],
        unpublished: &[Written],
    ) -> Result<Gtid> {
        let damaged = |what: String| Error::Corrupt(format!("commit {commit}: {what}"));
        let annotation = Annotation::decode(annotation).map_err(damaged)?;
        let gtid = annotation
            .gtid
            .unwrap_or_else(|| self.next_gtid(unpublished));
        let plain_len = self.begin.len() + annotation.events.len() + XID_LEN;
        let is_worth = (MIN_COMPRESSED..=MAX_COMPRESSED).contains(&plain_len);
        let other = match annotation.kind {
            Kind::Rows if !(self.log.options.compress && is_worth) => None,
            Kind::Rows => Some(self.compressed(commit, &annotation)),
            Kind::Statement => Some(self.statement(commit, &annotation).map_err(damaged)?),
        };
        let body_len = other.as_ref().map_or(plain_len, Vec::len);
        let last_committed = self.last_committed(commit);
        let event = self.gtid_event(gtid, &annotation, last_committed, body_len as u64);
        out.reserve(body_len + 128);
        let begin = out.len();
        let options = event_options(&annotation, 0);
        event_writer(&annotation).write(out, Some(at), options, &Event::Gtid(event));
        let mut next = at + (out.len() - begin) as u64;
        let start = out.len();
        match other {
            Some(body) => out.extend_from_slice(&body),
            None => self.put_rows(out, commit, &annotation),
        }
        let mut rest = out.get_mut(start..).unwrap_or_default();
        while !rest.is_empty() {
            let size = Header::parse(rest).map_or(0, |header| header.size as usize);
            let Some((event, after)) = rest.split_at_mut_checked(size).filter(|_| size > 0) else {
                return Err(damaged("its events are damaged".to_owned()));
            };
            next += size as u64;
            set_next_position(event, next as u32, true);
            rest = after;
        }
        Ok(gtid)
    }

    /// The number in the file of the transaction that replicas must commit before they begin this one; 0: none.
    fn last_committed(&mut self, commit: u64) -> u64 {
        let number = self.transactions + 1;
        let keys = self.log.pending_keys.take(commit);
        match keys.as_ref().and_then(ChangedKeys::iter) {
            Some(keys) => {
                let keys: Vec<(u64, bool)> = keys.collect();
                self.history.enter(number, &keys)
            }
            None => self.history.add_alone(number),
        }
    }

    /// The first event of a transaction; `body_len` is the length of the others.
    fn gtid_event(
        &self,
        gtid: Gtid,
        annotation: &Annotation<'_>,
        last_committed: u64,
        body_len: u64,
    ) -> GtidEvent {
        let sequence = i64::try_from(self.transactions + 1).unwrap_or(i64::MAX);
        let mut event = GtidEvent {
            gtid: Some(gtid),
            may_have_statements: annotation.kind == Kind::Statement,
            last_committed: i64::try_from(last_committed).unwrap_or(sequence - 1),
            sequence_number: sequence,
            commit_times: Some(CommitTimes {
                immediate: annotation.micros,
                original: annotation.micros,
            }),
            transaction_length: 0,
            server_version: Some(ServerVersions {
                immediate: VERSION_NUMBER,
                original: VERSION_NUMBER,
            }),
        };
        event.set_transaction_length(body_len, true);
        event
    }

    /// Appends the events of changes of rows, which follow the GTID event, without positions and checksums.
    fn put_rows(&self, out: &mut Vec<u8>, commit: u64, annotation: &Annotation<'_>) {
        let (writer, options) = (event_writer(annotation), event_options(annotation, 0));
        writer.write_again(out, &self.begin, options.timestamp);
        out.extend_from_slice(annotation.events);
        writer.write_unsealed(out, None, options, &Event::Xid(commit));
    }

    /// The same events as one that has them compressed.
    fn compressed(&self, commit: u64, annotation: &Annotation<'_>) -> Vec<u8> {
        let mut body = Vec::with_capacity(annotation.events.len() + 128);
        self.put_rows(&mut body, commit, annotation);
        let payload = Event::TransactionPayload(compressible(&body));
        body.clear();
        let options = event_options(annotation, 0);
        event_writer(annotation).write_unsealed(&mut body, None, options, &payload);
        body
    }

    /// The event of a statement, which follows the GTID event. The error is a description.
    fn statement(
        &self,
        commit: u64,
        annotation: &Annotation<'_>,
    ) -> std::result::Result<Vec<u8>, String> {
        let format = FormatDescription::new(&self.log.options.version, 0, true);
        let decoded = Event::decode(annotation.events, &format);
        let (header, event) = decoded.map_err(|e| e.to_string())?;
        let Event::Query(mut query) = event else {
            return Err("its statement is not a QUERY event".to_owned());
        };
        query.variables.ddl_xid = Some(commit);
        let mut body = Vec::with_capacity(annotation.events.len() + 16);
        let options = event_options(annotation, header.flags);
        event_writer(annotation).write_unsealed(&mut body, None, options, &Event::Query(query));
        Ok(body)
    }

    /// The next identifier of this server.
    fn next_gtid(&self, unpublished: &[Written]) -> Gtid {
        let source = self.log.options.server_uuid;
        let mut own = unpublished
            .iter()
            .rev()
            .map(|written| written.gtid)
            .filter(|gtid| gtid.source == source);
        let number = match own.next() {
            Some(last) => last.number + 1,
            None => self.log.state.lock().executed.next_number(source),
        };
        Gtid::new(source, number)
    }
}

fn event_writer(annotation: &Annotation<'_>) -> EventWriter {
    EventWriter {
        server_id: annotation.server_id,
        has_checksums: true,
    }
}

/// Options of the events of a transaction.
fn event_options(annotation: &Annotation<'_>, flags: u16) -> EventOptions {
    EventOptions {
        timestamp: u32::try_from(annotation.micros / 1_000_000).unwrap_or(u32::MAX),
        flags,
    }
}

/// The event that begins changes of rows, without time, server, position and checksum.
fn begin_event() -> Vec<u8> {
    let writer = EventWriter {
        server_id: 0,
        has_checksums: true,
    };
    let options = EventOptions {
        timestamp: 0,
        flags: flags::SUPPRESS_USE,
    };
    let begin = Event::Query(QueryEvent {
        text: b"BEGIN".to_vec(),
        ..QueryEvent::default()
    });
    let mut out = Vec::new();
    writer.write_unsealed(&mut out, None, options, &begin);
    out
}

/// The events without checksums, for compression.
fn compressible(body: &[u8]) -> TransactionPayload {
    let mut events = Vec::with_capacity(body.len());
    for event in split_events(body) {
        let (start, size) = (events.len(), event.len() - CHECKSUM_LEN.min(event.len()));
        events.extend_from_slice(event.get(..size).unwrap_or(event));
        if let Some(place) = events.get_mut(start + 9..start + 13) {
            place.copy_from_slice(&(size as u32).to_le_bytes());
        }
    }
    debug_assert!(events.len() >= HEADER_LEN);
    TransactionPayload { events }
}

impl BinaryLog {
    /// Creates a file with its head, synced, and enters it in the index. `last_commit` is the newest commit before it.
    pub(crate) fn create_file(
        &self,
        number: u64,
        last_commit: u64,
        is_first: bool,
    ) -> Result<(Box<dyn File>, PathBuf, u64)> {
        let (disk, dir) = (&*self.options.disk, &self.options.dir);
        file::replace(
            disk,
            dir,
            file::STATE,
            format!("{last_commit}\n").as_bytes(),
        )?;
        let executed = self.state.lock().executed.clone();
        let now = u64::try_from(self.options.clock.unix_micros()).unwrap_or(0);
        let (id, version) = (self.options.server_id, &self.options.version);
        let head = file::head(id, version, now, is_first, &executed);
        let path = dir.join(file_name(number));
        let create = || -> std::io::Result<Box<dyn File>> {
            file::remove_if_there(disk, &path)?;
            let file = disk.create(&path)?;
            file.write_at(0, &head)?;
            file.sync_data()?;
            disk.sync_dir(dir)?;
            Ok(file)
        };
        let file = create().map_err(|e| Error::io(&path, &e))?;
        let mut state = self.state.lock();
        let end = state.end;
        if let Some(before) = state.files.last_mut() {
            (before.bytes, before.changed) = (end, now);
        }
        state.files.push(LogFile {
            number,
            bytes: head.len() as u64,
            previous: executed,
            changed: 0,
        });
        self.write_index(&state)?;
        state.end = head.len() as u64;
        drop(state);
        self.changed.notify_all();
        Ok((file, path, head.len() as u64))
    }

    /// Cuts a file: writes what it has before `end` to a new one, and renames that.
    fn cut(&self, path: &std::path::Path, end: u64) -> Result<()> {
        let disk = &*self.options.disk;
        let new = path.with_extension("tmp");
        let copy = || -> std::io::Result<()> {
            file::remove_if_there(disk, &new)?;
            let (from, to) = (disk.open(path)?, disk.create(&new)?);
            let mut buffer = vec![0; 1 << 20];
            let mut at = 0;
            while at < end {
                let rest = usize::try_from(end - at).unwrap_or(usize::MAX);
                let part = rest.min(buffer.len());
                let part = buffer.get_mut(..part).unwrap_or_default();
                let read = from.read_at(at, part)?;
                if read == 0 {
                    break;
                }
                to.write_at(at, part.get(..read).unwrap_or_default())?;
                at += read as u64;
            }
            to.sync_data()?;
            disk.rename(&new, path)?;
            disk.sync_dir(&self.options.dir)
        };
        copy().map_err(|e| Error::io(path, &e))
    }
}
