//! The log as an application reads it: rows events with their tables, statements, and ends of transactions.
//!
//! A feed is a [`Dump`] whose events are decoded. It holds one event, or the events of one compressed transaction. Its
//! place is the GTID set of the transactions before it; another feed can continue there, also on another server that
//! has the same transactions.
//!
//! ```text
//!  GTID | QUERY BEGIN | TABLE_MAP, rows | TABLE_MAP, rows | XID        GTID | QUERY
//!                       Rows              Rows              Commit            Statement, Commit
//! ```
//!
//! Invariants:
//! 1. The place changes with [`FeedStep::Commit`] only. A feed that begins there gets every later transaction whole.
//! 2. A place that the log does not reach, or has lost, is refused: a feed never skips silently.
//!
//! Rejected: a queue of changes in memory that connected readers share. It needs a limit, and a reader beyond it must
//! read from the files anyway.

use crate::dump::{Dump, DumpStart, Step};
use crate::file::{
    EventReader, FIRST_POSITION, file_name, file_number, is_begin, without_checksums,
};
use crate::log::BinaryLog;
use crate::{Error, Result};
use porpoise_replication::event::{
    Event, FormatDescription, Header, RowsEvent, TableMap, TransactionPayload,
};
use porpoise_replication::gtid::{Gtid, GtidSet};
use std::sync::Arc;
use std::time::Duration;

/// Place at which a feed begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedStart {
    /// The first transaction of the log.
    First,
    /// The next transaction.
    Now,
    /// The first transaction that is not in the set.
    After(GtidSet),
    /// A position in a file, between transactions.
    Position {
        /// Name of the file.
        file: String,
        /// The position.
        position: u64,
    },
}

impl FeedStart {
    /// Reads a place as text: `now`, `first`, `-` or a set of GTIDs ([`Feed::position`]), or FILE:POSITION. `None` if it
    /// is none of these.
    pub fn parse(text: &str) -> Option<FeedStart> {
        match text {
            "now" => return Some(FeedStart::Now),
            "first" => return Some(FeedStart::First),
            NO_TRANSACTIONS => return Some(FeedStart::After(GtidSet::new())),
            _ => {}
        }
        if let Some((file, position)) = text.split_once(':')
            && file.contains('.')
        {
            return Some(FeedStart::Position {
                file: file.to_owned(),
                position: position.parse().ok()?,
            });
        }
        let set = GtidSet::parse(text).ok()?;
        (!set.is_empty()).then_some(FeedStart::After(set))
    }
}

/// The place of a log without transactions, as text.
const NO_TRANSACTIONS: &str = "-";

/// A step of a feed.
#[derive(Debug)]
pub enum FeedStep {
    /// Changes of rows of one table.
    Rows {
        /// The table.
        table: Arc<TableMap>,
        /// The changes.
        rows: RowsEvent,
    },
    /// A data definition statement.
    Statement {
        /// Default database; empty: none.
        database: Vec<u8>,
        /// Its text, in UTF-8.
        text: Vec<u8>,
        /// The bits of `sql_mode`.
        sql_mode: u64,
    },
    /// The end of a transaction.
    Commit {
        /// Its identifier.
        gtid: Option<Gtid>,
        /// Time of its commit on the server that ran it first, in microseconds since 1970 UTC.
        micros: u64,
    },
    /// No event within the time: the feed is at the end of the log.
    Idle,
}

/// A transaction that is being read.
#[derive(Clone, Copy, Debug)]
struct Open {
    gtid: Option<Gtid>,
    micros: u64,
}

/// A feed.
pub struct Feed {
    dump: Dump,
    format: FormatDescription,
    executed: GtidSet,
    open: Option<Open>,
    /// The table of the next rows event.
    table: Option<Arc<TableMap>>,
    /// A compressed transaction, and the bytes of it that were read.
    payload: Option<(TransactionPayload, usize)>,
    /// Whether the next step is the end of the transaction.
    ends: bool,
}

impl Feed {
    /// Begins a feed.
    ///
    /// # Errors
    /// [`Error::Refused`]: transactions after the place were removed, the log has never reached it, or it is
    /// within a transaction.
    pub fn open(log: Arc<BinaryLog>, start: FeedStart) -> Result<Feed> {
        let (start, executed) = match start {
            FeedStart::First => {
                let first = DumpStart::Position {
                    file: String::new(),
                    position: FIRST_POSITION,
                };
                (first, None)
            }
            FeedStart::Now => {
                let executed = log.status().executed;
                (DumpStart::Gtids(executed.clone()), Some(executed))
            }
            FeedStart::After(set) => {
                let unknown = set.subtract(&log.status().executed);
                if !unknown.is_empty() {
                    return Err(Error::Refused(format!(
                        "the binary log has never contained the transactions '{unknown}': it was reset, or the position \
                         belongs to another server"
                    )));
                }
                (DumpStart::Gtids(set.clone()), Some(set))
            }
            FeedStart::Position { file, position } => {
                let executed = log.executed_at(&file, position)?;
                (DumpStart::Position { file, position }, Some(executed))
            }
        };
        let format = FormatDescription::new(&log.options.version, 0, true);
        Ok(Feed {
            dump: Dump::open(log, start, true)?,
            format,
            executed: executed.unwrap_or_default(),
            open: None,
            table: None,
            payload: None,
            ends: false,
        })
    }

    /// The transactions before the feed's place.
    pub fn executed(&self) -> &GtidSet {
        &self.executed
    }

    /// The transactions before the feed's place, as text that [`FeedStart::parse`] reads; never empty.
    pub fn position(&self) -> String {
        if self.executed.is_empty() {
            NO_TRANSACTIONS.to_owned()
        } else {
            self.executed.to_string()
        }
    }

    /// Whether the feed is between two transactions.
    pub fn is_between_transactions(&self) -> bool {
        self.open.is_none()
    }

    /// File and position after the last event that was read.
    pub fn place(&self) -> (String, u64) {
        self.dump.place()
    }

    /// The next step. Waits for one at most for `wait`.
    ///
    /// # Errors
    /// The log is closed or was reset; a file was removed or is damaged.
    pub fn next(&mut self, wait: Duration) -> Result<FeedStep> {
        loop {
            if self.ends {
                return Ok(self.end());
            }
            let event = match self.next_inner()? {
                Some(event) => event,
                None => match self.dump.next(wait)? {
                    Step::Idle => return Ok(FeedStep::Idle),
                    Step::Event(bytes) => decode(&bytes, &self.format)?,
                },
            };
            if let Some(step) = self.take(event) {
                return Ok(step);
            }
        }
    }

    /// The next event of a compressed transaction.
    fn next_inner(&mut self) -> Result<Option<Event>> {
        let Some((payload, at)) = &mut self.payload else {
            return Ok(None);
        };
        let rest = payload.events.get(*at..).unwrap_or_default();
        if rest.is_empty() {
            self.payload = None;
            return Ok(None);
        }
        let size = Header::parse(rest).map_or(usize::MAX, |header| header.size as usize);
        let event = rest.get(..size);
        let event =
            event.ok_or_else(|| Error::Corrupt("a compressed event is cut off".to_owned()))?;
        let event = decode(event, &without_checksums(&self.format))?;
        *at += size;
        Ok(Some(event))
    }

    /// Processes an event. Returns the step that it completes, if any.
    fn take(&mut self, event: Event) -> Option<FeedStep> {
        match event {
            Event::FormatDescription(format) => self.format = format,
            Event::PreviousGtids(previous) => self.executed.union_with(&previous.set),
            Event::Gtid(gtid) => {
                let micros = gtid.commit_times.map_or(0, |times| times.original);
                self.open = Some(Open {
                    gtid: gtid.gtid,
                    micros,
                });
            }
            Event::TransactionPayload(payload) => self.payload = Some((payload, 0)),
            Event::TableMap(map) => self.table = Some(Arc::from(map)),
            Event::Rows(rows) => {
                // Each rows event of this log has its TABLE_MAP before it.
                let table = self.table.clone()?;
                return Some(FeedStep::Rows { table, rows });
            }
            Event::Query(query) if is_begin(&query.text) => {}
            Event::Query(query) => {
                self.ends = true;
                return Some(FeedStep::Statement {
                    database: query.database,
                    text: query.text,
                    sql_mode: query.variables.sql_mode.unwrap_or(0),
                });
            }
            Event::Xid(_) => return Some(self.end()),
            _ => {}
        }
        None
    }

    fn end(&mut self) -> FeedStep {
        self.ends = false;
        self.table = None;
        let open = self.open.take();
        let gtid = open.and_then(|open| open.gtid);
        if let Some(gtid) = gtid {
            self.executed.insert(gtid);
        }
        FeedStep::Commit {
            gtid,
            micros: open.map_or(0, |open| open.micros),
        }
    }
}

fn decode(bytes: &[u8], format: &FormatDescription) -> Result<Event> {
    let decoded = Event::decode(bytes, format);
    let (_, event) = decoded.map_err(|error| Error::Corrupt(error.to_string()))?;
    Ok(event)
}

impl BinaryLog {
    /// The transactions before a position, which is between two of them.
    fn executed_at(&self, name: &str, position: u64) -> Result<GtidSet> {
        let refused = |text: &str| Error::Refused(text.to_owned());
        let (number, end) = {
            let state = self.state.lock();
            let number = file_number(name);
            let found = state.files.iter().find(|file| Some(file.number) == number);
            let missing = "Could not find first log file name in binary log index file";
            let found = found.ok_or_else(|| refused(missing))?;
            let is_last = state.files.last().is_some_and(|f| f.number == found.number);
            (found.number, if is_last { state.end } else { found.bytes })
        };
        let path = self.options.dir.join(file_name(number));
        let mut reader = EventReader::open(&*self.options.disk, &path, FIRST_POSITION)?;
        let mut format: Option<FormatDescription> = None;
        let mut executed = GtidSet::new();
        let mut open: Option<Option<Gtid>> = None;
        while reader.position() < position.min(end) {
            let event = reader.next(end).map_err(Error::Corrupt)?;
            let Some(event) = event else { break };
            let Some(known) = &format else {
                format = FormatDescription::decode(event).ok();
                if format.is_none() {
                    return Err(Error::Corrupt(
                        "a file does not begin with a format description event".to_owned(),
                    ));
                }
                continue;
            };
            match decode(event, known)? {
                Event::PreviousGtids(previous) => executed.union_with(&previous.set),
                Event::Gtid(gtid) => open = Some(gtid.gtid),
                Event::Query(query) if is_begin(&query.text) => {}
                Event::Xid(_) | Event::TransactionPayload(_) | Event::Query(_) => {
                    if let Some(gtid) = open.take().flatten() {
                        executed.insert(gtid);
                    }
                }
                _ => {}
            }
        }
        if reader.position() != position || open.is_some() {
            return Err(refused("the position is not between two transactions"));
        }
        Ok(executed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_are_parsed() {
        let set = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5";
        let parsed = GtidSet::parse(set).unwrap();
        let place = FeedStart::Position {
            file: "binlog.000003".to_owned(),
            position: 157,
        };
        for (text, wanted) in [
            ("now", FeedStart::Now),
            ("first", FeedStart::First),
            ("-", FeedStart::After(GtidSet::new())),
            (set, FeedStart::After(parsed)),
            ("binlog.000003:157", place),
        ] {
            assert_eq!(FeedStart::parse(text), Some(wanted), "{text}");
        }
        for text in ["", "later", "binlog.000003:", "binlog.000003:x", "3e11:1"] {
            assert_eq!(FeedStart::parse(text), None, "{text}");
        }
    }
}
