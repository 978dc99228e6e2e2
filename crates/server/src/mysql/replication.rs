//! Replicas and other readers of the binary log: COM_REGISTER_SLAVE, COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID.
//!
//! A dump occupies its session until the reader disconnects. It sends events as they come and waits for a slow reader
//! as any long result does; while it waits, the event loop has another worker, and no lock is held.
//!
//! A reader announces in user variables what it understands: `@source_binlog_checksum` (checksums),
//! `@source_heartbeat_period` (nanoseconds after which a heartbeat is sent), `@replica_uuid`; each also under its
//! former name. With `@rpl_semi_sync_replica` it takes part in semi-synchronous replication: each event is preceded by two
//! bytes. If the second one is 1, the reader sends an acknowledgement once it has the event on its disk:
//!
//! ```text
//! 00 | EF | acknowledge? | event          EF | position (8) | file
//! ```
//!
//! The acknowledgement has the packet number 0, and the next event the number 1. While an acknowledgement is awaited, the
//! session polls for it and for new events in turn.

use super::Shared;
use super::answer::{Answer, client_gone, status_of};
use super::session::{Flow, LoggedIn};
use porpoise_binlog::log::Replica;
use porpoise_binlog::{BinaryLog, Dump, DumpStart, Step};
use porpoise_replication::epoch::{EPOCH_VARIABLE, INCARNATION_VARIABLE};
use porpoise_replication::gtid::GtidSet;
use porpoise_sql::SqlError;
use porpoise_wire::mysql::command::{BinlogDump, RegisterReplica};
use porpoise_wire::mysql::{frame, reply};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for events after which the session checks whether it was cancelled.
const WAIT: Duration = Duration::from_millis(200);

/// Shortest time between heartbeats, as on MySQL.
const MIN_PERIOD: Duration = Duration::from_millis(1);

/// Longest wait for an acknowledgement before the session checks for new events.
const ACK_WAIT: Duration = Duration::from_millis(10);

/// First byte of semi-synchronous headers and acknowledgements.
const SEMI_SYNC: u8 = 0xEF;

/// Longest acknowledgement, in bytes: MySQL's names of files have at most 512.
const MAX_ACK: usize = 1 + 8 + 512;

/// Entry of a replica in SHOW REPLICAS, which ends with its connection.
pub(super) struct Registration {
    log: Arc<BinaryLog>,
    connection: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.log.unregister(self.connection);
    }
}

/// Error 1236, which replicas expect.
fn refused(text: impl Into<String>) -> SqlError {
    SqlError::new(1236, "HY000", text.into())
}

impl LoggedIn {
    /// COM_REGISTER_SLAVE.
    pub(super) fn register_replica(
        &mut self,
        shared: &Shared,
        replica: &RegisterReplica<'_>,
        answer: &mut Answer<'_>,
    ) -> Flow {
        if let Err(error) = self.sql.check_may_replicate() {
            return self.reply_error(error, answer);
        }
        if let Some(log) = &shared.binlog {
            let connection = self.sql.connection_id();
            let entry = Replica {
                server_id: replica.server_id,
                host: String::from_utf8_lossy(replica.host).into_owned(),
                port: replica.port,
                uuid: self
                    .announced("replica_uuid", "slave_uuid")
                    .unwrap_or_default(),
            };
            log.register(connection, entry);
            self.registration = Some(Registration {
                log: log.clone(),
                connection,
            });
        }
        answer.plain_ok(status_of(&self.sql), &[]);
        Flow::Continue
    }

    /// The value that the reader has announced under one of two names.
    fn announced(&self, name: &str, former: &str) -> Option<String> {
        let value = self.sql.user_variable(name);
        value.or_else(|| self.sql.user_variable(former))
    }

    /// A number that a member of a group has announced.
    fn announced_number(&self, name: &str) -> Option<u64> {
        self.sql.user_variable(name)?.parse().ok()
    }

    /// The time after which the reader wants a heartbeat, if it wants any.
    fn heartbeat_period(&self) -> Option<Duration> {
        let nanos = self.announced("source_heartbeat_period", "master_heartbeat_period");
        let nanos = nanos.and_then(|text| text.parse().ok()).filter(|n| *n > 0);
        nanos.map(|nanos| Duration::from_nanos(nanos).max(MIN_PERIOD))
    }

    /// COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID: answers with events until the reader disconnects.
    pub(super) fn dump_binlog(
        &mut self,
        shared: &Shared,
        request: &BinlogDump<'_>,
        answer: &mut Answer<'_>,
    ) -> Flow {
        if let Err(error) = self.sql.check_may_replicate() {
            return self.reply_error(error, answer);
        }
        let Some(log) = &shared.binlog else {
            return self.reply_error(refused("Binary log is not open"), answer);
        };
        self.sql.begin_dump(request.gtids.is_some());
        let streamed = self.stream(log, request, answer);
        self.sql.end_dump();
        match streamed {
            Ok(()) => {
                let status = status_of(&self.sql);
                reply::write_eof(answer.out.buf(), &mut answer.sequence, 0, status);
                Flow::Continue
            }
            Err(error) => {
                self.reply_error(error, answer);
                Flow::Close
            }
        }
    }

    /// Sends events; returns at the end of the log, if the reader has requested that.
    fn stream(
        &self,
        log: &Arc<BinaryLog>,
        request: &BinlogDump<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<(), SqlError> {
        let failed = |error: porpoise_binlog::Error| refused(error.to_string());
        if let Some(epoch) = self.announced_number(EPOCH_VARIABLE) {
            log.meet_epoch(epoch).map_err(failed)?;
        }
        let checksum = self.announced("source_binlog_checksum", "master_binlog_checksum");
        let Some(checksum) = checksum else {
            return Err(refused(
                "Replica can not handle replication events with the checksum that source is configured to log",
            ));
        };
        let has_checksums = checksum.eq_ignore_ascii_case("CRC32");
        let period = self.heartbeat_period();
        let start = start_of(request)?;
        let mut dump = Dump::open(log.clone(), start, has_checksums).map_err(failed)?;
        let semi_sync = self.announced("rpl_semi_sync_replica", "rpl_semi_sync_slave");
        let mut acks = semi_sync.filter(|value| value == "1").map(|_| {
            let incarnation = self.announced_number(INCARNATION_VARIABLE);
            dump.expect_acknowledgements(request.server_id, incarnation.unwrap_or(0));
            AckReader::default()
        });
        let mut last_sent = Instant::now();
        let mut wait = Duration::ZERO;
        while !self.sql.is_cancelled() {
            match dump.next(wait).map_err(failed)? {
                Step::Event(event) => {
                    let flag = acks.as_ref().map(|_| dump.is_ack_requested());
                    send(answer, &event, flag)?;
                    (wait, last_sent) = (Duration::ZERO, Instant::now());
                    if let (Some(acks), Some(true)) = (&mut acks, flag) {
                        answer.drain().map_err(|_| client_gone())?;
                        answer.sequence = 1;
                        acks.read(answer, &mut dump, Duration::ZERO)?;
                    }
                }
                Step::Idle if wait.is_zero() => {
                    answer.drain().map_err(|_| client_gone())?;
                    if request.ends() {
                        return Ok(());
                    }
                    wait = WAIT.min(period.unwrap_or(WAIT));
                    if let Some(acks) = acks.as_mut().filter(|_| dump.awaits_ack()) {
                        acks.read(answer, &mut dump, ACK_WAIT)?;
                        wait = Duration::ZERO;
                        if period.is_some_and(|period| last_sent.elapsed() >= period) {
                            send(answer, &dump.heartbeat(), Some(false))?;
                            last_sent = Instant::now();
                        }
                    }
                }
                Step::Idle => {
                    if let Some(acks) = &mut acks {
                        acks.read(answer, &mut dump, Duration::ZERO)?;
                    }
                    if period.is_some_and(|period| last_sent.elapsed() >= period) {
                        send(answer, &dump.heartbeat(), acks.as_ref().map(|_| false))?;
                        answer.drain().map_err(|_| client_gone())?;
                        last_sent = Instant::now();
                    }
                }
            }
        }
        Err(client_gone())
    }
}

/// The place at which a reader begins.
fn start_of(request: &BinlogDump<'_>) -> Result<DumpStart, SqlError> {
    Ok(match request.gtids {
        Some(gtids) => {
            let set = GtidSet::from_bytes(gtids);
            DumpStart::Gtids(set.map_err(|error| refused(error.to_string()))?)
        }
        None => DumpStart::Position {
            file: String::from_utf8_lossy(request.file).into_owned(),
            position: request.position,
        },
    })
}

/// Reads acknowledgements.
#[derive(Default)]
struct AckReader {
    /// Bytes of a packet that has not arrived completely.
    received: Vec<u8>,
}

impl AckReader {
    /// Reads the bytes that have arrived; waits if there are none.
    fn read(
        &mut self,
        answer: &mut Answer<'_>,
        dump: &mut Dump,
        mut wait: Duration,
    ) -> Result<(), SqlError> {
        let failed = |error: porpoise_binlog::Error| refused(error.to_string());
        let mut buffer = [0; 1024];
        loop {
            let received = answer.receive_within(&mut buffer, wait)?;
            if received == 0 {
                return Ok(());
            }
            wait = Duration::ZERO;
            let bytes = buffer.get(..received).unwrap_or_default();
            self.received.extend_from_slice(bytes);
            while let Some(ack) = self.take_packet()? {
                let acknowledged = parse_ack(&ack);
                let (file, position) = acknowledged
                    .ok_or_else(|| refused("Read semi-sync reply magic number error"))?;
                dump.acknowledge(&file, position).map_err(failed)?;
            }
        }
    }

    /// The payload of the next complete packet.
    fn take_packet(&mut self) -> Result<Option<Vec<u8>>, SqlError> {
        let Some((&[a, b, c, _], _)) = self.received.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        if length > MAX_ACK {
            return Err(refused("Read semi-sync reply length error"));
        }
        if self.received.len() < 4 + length {
            return Ok(None);
        }
        let rest = self.received.split_off(4 + length);
        let mut packet = std::mem::replace(&mut self.received, rest);
        packet.drain(..4);
        Ok(Some(packet))
    }
}

/// File and position of an acknowledgement.
fn parse_ack(packet: &[u8]) -> Option<(String, u64)> {
    let rest = packet.strip_prefix(&[SEMI_SYNC])?;
    let (position, file) = rest.split_first_chunk::<8>()?;
    let file = file.split(|byte| *byte == 0).next().unwrap_or_default();
    let file = String::from_utf8_lossy(file).into_owned();
    Some((file, u64::from_le_bytes(*position)))
}

/// Appends an event as a packet, and sends the output if it is large. For readers that acknowledge, `request` says whether
/// this event requests an acknowledgement.
fn send(answer: &mut Answer<'_>, event: &[u8], request: Option<bool>) -> Result<(), SqlError> {
    let start = frame::begin(answer.out.buf());
    let out = answer.out.buf();
    // OK, in front of each event.
    out.push(0);
    if let Some(request) = request {
        out.extend_from_slice(&[SEMI_SYNC, u8::from(request)]);
    }
    out.extend_from_slice(event);
    frame::finish(answer.out.buf(), start, &mut answer.sequence);
    if answer.out.is_full() {
        answer.drain().map_err(|_| client_gone())?;
    }
    Ok(())
}
