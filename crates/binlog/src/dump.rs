//! The stream of events to a reader: a replica, or a program that follows changes.
//!
//! A dump reads from the files and waits for the writer's progress. It holds one buffer, also
//! for a reader that is far behind, and neither the writer nor a session waits for it.
//!
//! ```text
//! ROTATE (made up: file and position) | FORMAT_DESCRIPTION | events ... | at the end of a file ROTATE, made up again
//! ```
//!
//! By GTIDs it begins with the newest file before which the reader has everything, and leaves out the transactions
//! that the reader has.

use crate::file::{self, EventReader, FIRST_POSITION, file_name, file_number};
use crate::log::{BinaryLog, State};
use crate::waiting::AckConnection;
use crate::{Error, Result};
use porpoise_replication::election::following::Place;
use porpoise_replication::event::{
    CHECKSUM_LEN, Event, EventOptions, EventWriter, FormatDescription, Header, Heartbeat, Rotate,
    flags, kind,
};
use porpoise_replication::gtid::GtidSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Place at which a dump begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpStart {
    /// A position in a file; an empty name is the first file.
    Position {
        /// Name of the file.
        file: String,
        /// Position of an event.
        position: u64,
    },
    /// Behind the transactions that the reader has.
    Gtids(GtidSet),
}

/// The next step of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An event, as it is sent.
    Event(Vec<u8>),
    /// Nothing within the time; the reader is at the end.
    Idle,
}

/// A dump.
pub struct Dump {
    log: Arc<BinaryLog>,
    id: u64,
    generation: u64,
    reader: EventReader,
    number: u64,
    format: FormatDescription,
    /// Whether events are sent with checksums.
    checksums: bool,
    /// Transactions that the reader has; empty without GTIDs.
    has: GtidSet,
    /// Whether the present transaction is left out.
    is_skipping: bool,
    /// Events to be sent before the next of the file.
    queued: VecDeque<Vec<u8>>,
    /// Acknowledgements, if the reader sends any.
    acks: Option<ReaderAcks>,
}

/// Acknowledgements of a reader.
struct ReaderAcks {
    connection: AckConnection,
    /// Whether the last event was a GTID event.
    is_begun: bool,
    /// Whether an acknowledgement is requested with the last event.
    is_requested: bool,
    /// End of the last transaction sent, and of what the reader has acknowledged.
    sent: Place,
    acknowledged: Place,
    /// Transactions and bytes sent since the last request.
    transactions: usize,
    bytes: usize,
}

/// Transactions, and bytes, after which an acknowledgement is requested although more are ready to be sent.
const ACK_TRANSACTIONS: usize = 16;
const ACK_BYTES: usize = 64 << 10;

fn refused(text: impl Into<String>) -> Error {
    Error::Refused(text.into())
}

/// Error for a position at which no event begins.
fn no_event(number: u64, at: u64) -> Error {
    let file = file_name(number);
    refused(format!(
        "bogus data in log event; no event begins in '{file}' at {at}"
    ))
}

impl Dump {
    /// Begins a dump. Without `checksums` events are sent without them.
    ///
    /// # Errors
    /// [`Error::Refused`], for error 1236: no such file or position, or files with transactions that the reader
    /// lacks were purged.
    pub fn open(log: Arc<BinaryLog>, start: DumpStart, checksums: bool) -> Result<Dump> {
        let id = log.next_dump();
        let (number, position, has, generation) = {
            let mut state = log.state.lock();
            let (number, position, has) = place(&log, &state, start)?;
            // From now on its file is not removed.
            state.dumps.insert(id, number);
            (number, position, has, state.generation)
        };
        let begin = || -> Result<(EventReader, FormatDescription)> {
            let path = log.options.dir.join(file_name(number));
            let mut reader = EventReader::open(&*log.options.disk, &path, FIRST_POSITION)?;
            let head = reader.next(u64::MAX).map_err(Error::Corrupt)?;
            let format = head.map(FormatDescription::decode);
            let format = format.and_then(std::result::Result::ok);
            let format =
                format.ok_or_else(|| Error::Corrupt("a file without a head".to_owned()))?;
            let reader = EventReader::open(&*log.options.disk, &path, position)?;
            Ok((reader, format))
        };
        let (reader, format) = match begin() {
            Ok(opened) => opened,
            Err(error) => {
                log.state.lock().dumps.remove(&id);
                return Err(error);
            }
        };
        let mut dump = Dump {
            log,
            id,
            generation,
            reader,
            number,
            format,
            checksums,
            has,
            is_skipping: false,
            queued: VecDeque::new(),
            acks: None,
        };
        dump.announce(position);
        if position > FIRST_POSITION {
            let mut format = dump.format.clone();
            (format.created, format.has_checksums) = (0, checksums);
            let event = dump.made_up(&Event::FormatDescription(format), 0);
            dump.queued.push_back(event);
        }
        Ok(dump)
    }

    /// The reader will acknowledge what it has on its disk; it has everything before the start of the dump.
    /// `incarnation` is the number of its data, if it is a member of a group.
    pub fn expect_acknowledgements(&mut self, server_id: u32, incarnation: u64) {
        let place = (self.number, self.reader.position());
        self.acks = Some(ReaderAcks {
            connection: self.log.connect_acknowledger(server_id, incarnation, place),
            is_begun: false,
            is_requested: false,
            sent: place,
            acknowledged: place,
            transactions: 0,
            bytes: 0,
        });
    }

    /// Whether the reader is to acknowledge the last event: it ends a transaction, and nothing more is ready, or much
    /// was sent since the last request.
    pub fn is_ack_requested(&self) -> bool {
        self.acks.as_ref().is_some_and(|acks| acks.is_requested)
    }

    /// Whether an acknowledgement that was requested has not arrived.
    pub fn awaits_ack(&self) -> bool {
        let acks = self.acks.as_ref();
        acks.is_some_and(|acks| acks.acknowledged < acks.sent)
    }

    /// Records that the reader has everything up to this place on its disk.
    ///
    /// # Errors
    /// [`Error::Refused`]: there is no such file.
    pub fn acknowledge(&mut self, file: &str, position: u64) -> Result<()> {
        if let Some(acks) = &mut self.acks {
            acks.connection.acknowledge(file, position)?;
            let place = (file_number(file).unwrap_or(0), position);
            acks.acknowledged = acks.acknowledged.max(place);
        }
        Ok(())
    }

    /// Decides whether an event requests an acknowledgement when it is sent. `is_ready`: further events are ready.
    fn note_sent(&mut self, event: &[u8], kind: u8, is_ready: bool) {
        let place = (self.number, self.reader.position());
        let Some(acks) = &mut self.acks else {
            return;
        };
        let is_statement = || match Event::decode(event, &self.format) {
            Ok((_, Event::Query(query))) => !file::is_begin(&query.text),
            _ => false,
        };
        let ends = match kind {
            kind::XID | kind::TRANSACTION_PAYLOAD => true,
            kind::QUERY => acks.is_begun && is_statement(),
            _ => false,
        };
        acks.is_begun = matches!(kind, kind::GTID | kind::ANONYMOUS_GTID);
        acks.bytes += event.len();
        // At the end of a file, for the transactions before it: no event may follow for a long time.
        acks.is_requested = matches!(kind, kind::ROTATE | kind::STOP) && acks.transactions > 0;
        if ends {
            acks.sent = place;
            acks.transactions += 1;
            let is_much = acks.transactions >= ACK_TRANSACTIONS || acks.bytes >= ACK_BYTES;
            acks.is_requested = !is_ready || is_much;
        }
        if acks.is_requested {
            (acks.transactions, acks.bytes) = (0, 0);
        }
    }

    /// Counts skipped transactions, which the reader already has, and events between transactions, which contain no data, as
    /// acknowledged, if everything before them is.
    fn note_passed(&mut self) {
        let place = (self.number, self.reader.position());
        if let Some(acks) = &mut self.acks
            && acks.acknowledged >= acks.sent
            && place > acks.acknowledged
        {
            acks.connection.acknowledge_place(place);
            (acks.sent, acks.acknowledged) = (place, place);
        }
    }

    /// An event that is in no file.
    fn made_up(&self, event: &Event, flags: u16) -> Vec<u8> {
        let writer = EventWriter {
            server_id: self.log.options.server_id,
            has_checksums: self.checksums,
        };
        let options = EventOptions {
            timestamp: 0,
            flags,
        };
        let mut out = Vec::new();
        writer.write(&mut out, None, options, event);
        out
    }

    /// Announces the file and position that follow.
    fn announce(&mut self, position: u64) {
        let rotate = Event::Rotate(Rotate {
            position,
            file: file_name(self.number).into_bytes(),
        });
        let event = self.made_up(&rotate, flags::ARTIFICIAL);
        self.queued.push_back(event);
    }

    /// File and position after the last event that was read.
    pub fn place(&self) -> (String, u64) {
        (file_name(self.number), self.reader.position())
    }

    /// A heartbeat: the log ends at this position.
    pub fn heartbeat(&self) -> Vec<u8> {
        let heartbeat = Event::Heartbeat(Heartbeat {
            file: file_name(self.number).into_bytes(),
            position: self.reader.position(),
            is_version_2: false,
        });
        self.made_up(&heartbeat, 0)
    }

    /// The next event. Waits for one at most for `wait`.
    ///
    /// # Errors
    /// The log is closed; a file was removed or is damaged.
    pub fn next(&mut self, wait: Duration) -> Result<Step> {
        loop {
            if let Some(event) = self.queued.pop_front() {
                if let Some(acks) = &mut self.acks {
                    acks.is_requested = false;
                }
                return Ok(Step::Event(event));
            }
            let at = self.reader.position();
            let (end, is_last) = self
                .log
                .wait_behind((self.generation, self.number), at, wait)?;
            let found = self.reader.next(end).map_err(|what| {
                Error::Corrupt(format!("{} at {at}: {what}", file_name(self.number)))
            })?;
            let Some(event) = found else {
                // Files end with a whole event.
                if at < end {
                    return Err(no_event(self.number, at));
                }
                if is_last {
                    self.note_passed();
                    return Ok(Step::Idle);
                }
                self.next_file()?;
                continue;
            };
            let header = Header::parse(event).map_err(|e| Error::Corrupt(e.to_string()))?;
            if header.next_position != (at + u64::from(header.size)) as u32 {
                return Err(no_event(self.number, at));
            }
            match header.kind {
                kind::GTID | kind::ANONYMOUS_GTID if !self.has.is_empty() => {
                    let decoded = Event::decode(event, &self.format);
                    let (_, decoded) = decoded.map_err(|e| Error::Corrupt(e.to_string()))?;
                    self.is_skipping = matches!(decoded, Event::Gtid(gtid)
                        if gtid.gtid.is_some_and(|gtid| self.has.contains(gtid)));
                }
                kind::ROTATE | kind::STOP | kind::FORMAT_DESCRIPTION | kind::PREVIOUS_GTIDS => {
                    self.is_skipping = false;
                }
                _ => {}
            }
            if self.is_skipping {
                self.note_passed();
                continue;
            }
            let event = event.to_vec();
            let is_ready = !is_last || self.reader.position() < end;
            self.note_sent(&event, header.kind, is_ready);
            let event = if self.checksums {
                event
            } else {
                without_checksum(&event, &header, &self.format)
            };
            return Ok(Step::Event(event));
        }
    }

    fn next_file(&mut self) -> Result<()> {
        let next = {
            let mut state = self.log.state.lock();
            let next = state.files.iter().find(|file| file.number > self.number);
            let next = next.map(|file| file.number);
            let next = next.ok_or_else(|| refused("could not find next log"))?;
            state.dumps.insert(self.id, next);
            next
        };
        self.number = next;
        let path = self.log.options.dir.join(file_name(next));
        self.reader = EventReader::open(&*self.log.options.disk, &path, FIRST_POSITION)?;
        self.announce(FIRST_POSITION);
        Ok(())
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        self.log.state.lock().dumps.remove(&self.id);
    }
}

/// File and position of a start, and the transactions to be left out.
fn place(log: &BinaryLog, state: &State, start: DumpStart) -> Result<(u64, u64, GtidSet)> {
    log.check_open(state)?;
    let first = state.readable().first();
    let first = first.ok_or_else(|| refused("the binary log has no files"))?;
    match start {
        DumpStart::Position { file, position } => {
            let number = if file.is_empty() {
                Some(first.number)
            } else {
                file_number(&file)
            };
            let found = state.files.iter().find(|f| Some(f.number) == number);
            let missing = "Could not find first log file name in binary log index file";
            let found = found.ok_or_else(|| refused(missing))?;
            if found.number < first.number {
                return Err(refused(
                    "The source has run without its binary log since this position: changes are missing. Make a new \
                     copy of its data, and continue from the position of the copy",
                ));
            }
            let is_last = state.files.last().is_some_and(|f| f.number == found.number);
            let end = if is_last { state.end } else { found.bytes };
            if position < FIRST_POSITION {
                let text = "Client requested source to start replication from position < 4";
                return Err(refused(text));
            }
            if position > end {
                let text = "Client requested source to start replication from position > file size";
                return Err(refused(text));
            }
            Ok((found.number, position, GtidSet::new()))
        }
        DumpStart::Gtids(has) => {
            if !has.contains_set(&first.previous) {
                let missing = first.previous.subtract(&has);
                return Err(refused(format!(
                    "Cannot replicate because the source purged required binary logs. Replicate the missing \
                     transactions from elsewhere, or provision a new replica from backup. The missing \
                     transactions are '{missing}'"
                )));
            }
            let own = log.options.server_uuid;
            let unknown = has.subtract(&state.executed).of_source(own);
            if !unknown.is_empty() {
                return Err(refused(format!(
                    "Replica has more GTIDs than the source has, using the source's SERVER_UUID: '{unknown}'. The \
                     binary log was reset, or the data are an older copy"
                )));
            }
            let mut files = state.readable().iter().rev();
            let start = files.find(|file| has.contains_set(&file.previous));
            let number = start.map_or(first.number, |file| file.number);
            Ok((number, FIRST_POSITION, has))
        }
    }
}

/// An event of a file without its checksum.
fn without_checksum(event: &[u8], header: &Header, format: &FormatDescription) -> Vec<u8> {
    if header.kind == kind::FORMAT_DESCRIPTION {
        let mut out = Vec::new();
        let plain = file::without_checksums(format);
        let writer = EventWriter {
            server_id: header.server_id,
            has_checksums: false,
        };
        let options = EventOptions {
            timestamp: header.timestamp,
            flags: header.flags,
        };
        let at = u64::from(header.next_position).saturating_sub(u64::from(header.size));
        writer.write(
            &mut out,
            Some(at),
            options,
            &Event::FormatDescription(plain),
        );
        return out;
    }
    let size = event.len().saturating_sub(CHECKSUM_LEN);
    let mut out = event.get(..size).unwrap_or(event).to_vec();
    if let Some(place) = out.get_mut(9..13) {
        place.copy_from_slice(&(size as u32).to_le_bytes());
    }
    out
}
