//! Replicas and other readers of the binary log: COM_REGISTER_SLAVE, COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID.
//!
//! A dump occupies its session until the reader disconnects. It sends events as they come and waits for a slow reader
//! as any long result does; while it waits, the event loop has another worker, and no lock is held.
//!
//! A reader announces in user variables what it understands: `@source_binlog_checksum` (checksums),
//! `@source_heartbeat_period` (nanoseconds after which a heartbeat is sent), `@replica_uuid`; each also under its
//! former name.

use super::Shared;
use super::answer::{Answer, client_gone, status_of};
use super::session::{Flow, LoggedIn};
use porpoise_binlog::log::Replica;
use porpoise_binlog::{BinaryLog, Dump, DumpStart, Step};
use porpoise_replication::gtid::GtidSet;
use porpoise_sql::SqlError;
use porpoise_wire::mysql::command::{BinlogDump, RegisterReplica};
use porpoise_wire::mysql::{frame, reply};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for events after which the session looks whether it was cancelled.
const WAIT: Duration = Duration::from_millis(200);

/// Shortest time between heartbeats, as on MySQL.
const MIN_PERIOD: Duration = Duration::from_millis(1);

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

    /// What the reader has announced under one of two names.
    fn announced(&self, name: &str, former: &str) -> Option<String> {
        let value = self.sql.user_variable(name);
        value.or_else(|| self.sql.user_variable(former))
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
        match self.stream(log, request, answer) {
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

    /// Sends events; returns at the end of the log, if the reader has asked for an end.
    fn stream(
        &self,
        log: &Arc<BinaryLog>,
        request: &BinlogDump<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<(), SqlError> {
        let failed = |error: porpoise_binlog::Error| refused(error.to_string());
        let start = match request.gtids {
            Some(gtids) => {
                let set = GtidSet::from_bytes(gtids);
                DumpStart::Gtids(set.map_err(|error| refused(error.to_string()))?)
            }
            None => DumpStart::Position {
                file: String::from_utf8_lossy(request.file).into_owned(),
                position: request.position,
            },
        };
        let checksum = self.announced("source_binlog_checksum", "master_binlog_checksum");
        let Some(checksum) = checksum else {
            return Err(refused(
                "Replica can not handle replication events with the checksum that source is configured to log",
            ));
        };
        let has_checksums = checksum.eq_ignore_ascii_case("CRC32");
        let period = self.announced("source_heartbeat_period", "master_heartbeat_period");
        let period = period.and_then(|text| text.parse().ok()).filter(|n| *n > 0);
        let period = period.map(|nanos| Duration::from_nanos(nanos).max(MIN_PERIOD));
        let mut dump = Dump::open(log.clone(), start, has_checksums).map_err(failed)?;
        let mut last_sent = Instant::now();
        let mut wait = Duration::ZERO;
        while !self.sql.is_cancelled() {
            match dump.next(wait).map_err(failed)? {
                Step::Event(event) => {
                    send(answer, &event)?;
                    (wait, last_sent) = (Duration::ZERO, Instant::now());
                }
                Step::Idle if wait.is_zero() => {
                    answer.drain().map_err(|_| client_gone())?;
                    if request.ends() {
                        return Ok(());
                    }
                    wait = WAIT.min(period.unwrap_or(WAIT));
                }
                Step::Idle => {
                    if period.is_some_and(|period| last_sent.elapsed() >= period) {
                        send(answer, &dump.heartbeat())?;
                        answer.drain().map_err(|_| client_gone())?;
                        last_sent = Instant::now();
                    }
                }
            }
        }
        Err(client_gone())
    }
}

/// Appends an event as a packet; sends if much is waiting.
fn send(answer: &mut Answer<'_>, event: &[u8]) -> Result<(), SqlError> {
    let start = frame::begin(answer.out.buf());
    let out = answer.out.buf();
    // OK, in front of each event.
    out.push(0);
    out.extend_from_slice(event);
    frame::finish(answer.out.buf(), start, &mut answer.sequence);
    if answer.out.is_full() {
        answer.drain().map_err(|_| client_gone())?;
    }
    Ok(())
}
