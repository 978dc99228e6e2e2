//! OK and ERR packets, and which of them are deferred until a commit is durable.
//!
//! An [`Answer`] is one reply being written. It records where the reply began in the output, so
//! that all of it can be deferred until a commit position is durable, and the sequence number of
//! the next packet.
//!
//! Invariants:
//! 1. A deferral covers a reply from its first unsent byte.
//! 2. An ERR packet ends a reply, also after rows have been sent.

use super::local_file::FileTransfer;
use crate::net::{FLUSH_AT, Gone, Output};
use porpoise_kv::CommitPosition;
use porpoise_sql::{Outcome, SessionChange, SqlError, SqlSession};
use porpoise_wire::mysql::reply;
use porpoise_wire::mysql::{Capabilities, ProtocolError, Status};
use smallvec::SmallVec;

/// One reply being written to the output.
pub(super) struct Answer<'o> {
    pub(super) out: &'o mut Output,
    pub(super) caps: Capabilities,
    /// The sequence number of the next packet.
    pub(super) sequence: u8,
    /// Start of the reply, or of its unsent part, in the output.
    start: usize,
    /// Sequence number of the packet at `start`.
    start_sequence: u8,
    /// Whether a part of the reply has been sent already.
    pub(super) is_partly_sent: bool,
    /// Number of bytes of this reply that have left the output.
    drained: usize,
    /// Position in the output of the reply's first byte that is not included in `drained`.
    counted_from: usize,
    /// Received bytes after the command.
    pub(super) unread: &'o [u8],
    /// Number of bytes of `unread` that the reply has consumed (the client's file).
    pub(super) read_ahead: usize,
    /// The file that the client is sending.
    pub(super) file: Option<Box<FileTransfer>>,
}

impl<'o> Answer<'o> {
    /// Starts a reply whose first packet has this sequence number.
    pub(super) fn new(out: &'o mut Output, caps: Capabilities, sequence: u8) -> Answer<'o> {
        let start = out.position();
        Answer {
            out,
            caps,
            sequence,
            start,
            start_sequence: sequence,
            is_partly_sent: false,
            drained: 0,
            counted_from: start,
            unread: &[],
            read_ahead: 0,
            file: None,
        }
    }

    /// Number of bytes of the reply so far.
    pub(super) fn bytes(&self) -> u64 {
        let left = self.out.position().saturating_sub(self.counted_from);
        (self.drained + left) as u64
    }

    /// Starts the next result of a multi-result reply.
    pub(super) fn next_part(&mut self) {
        self.start = self.out.position();
        self.start_sequence = self.sequence;
        self.is_partly_sent = false;
    }

    /// Discards the unsent part of the current result; `sequence` becomes the next packet's number.
    /// Returns false if some of the result has been sent.
    pub(super) fn discard_unsent(&mut self, sequence: u8) -> bool {
        if self.is_partly_sent {
            return false;
        }
        self.out.buf().truncate(self.start);
        self.sequence = sequence;
        true
    }

    /// Defers the reply until `position` is durable.
    pub(super) fn defer_until_durable(&mut self, position: CommitPosition) {
        if position != CommitPosition::NONE {
            self.out.defer_from(self.start, position);
        }
    }

    /// Sends everything appended so far; waits for a slow client.
    pub(super) fn drain(&mut self) -> Result<(), Gone> {
        self.drained += self.out.position().saturating_sub(self.counted_from);
        self.out.drain()?;
        self.counted_from = self.out.position();
        self.start = self.out.position();
        self.start_sequence = self.sequence;
        self.is_partly_sent = true;
        Ok(())
    }

    /// Charges the connection for what has been appended.
    ///
    /// # Errors
    /// A memory limit is exceeded. Unsent bytes are discarded, so that the error follows the bytes
    /// that the client has received.
    pub(super) fn charge(&mut self) -> Result<(), SqlError> {
        self.out.charge().map_err(|refused| {
            self.out.buf().truncate(self.start);
            self.out.buf().shrink_to(FLUSH_AT);
            self.sequence = self.start_sequence;
            // Succeeds: the buffer is small again.
            let _ = self.out.charge();
            porpoise_sql::memory::refused(refused)
        })
    }

    /// Ends the reply with OK, without affected rows or insert id.
    pub(super) fn plain_ok(&mut self, status: Status, changes: &[SessionChange]) {
        let changes: SmallVec<[_; 4]> = changes.iter().map(wire_change).collect();
        let ok = reply::Ok {
            status,
            changes: &changes,
            ..reply::Ok::default()
        };
        reply::write_ok(self.out.buf(), &mut self.sequence, self.caps, &ok);
    }

    /// Whether the end of a result can carry session changes: an EOF packet cannot.
    pub(super) fn can_carry_changes(&self, had_rows: bool) -> bool {
        !had_rows || self.caps.has(Capabilities::DEPRECATE_EOF)
    }

    /// Appends EOF, or the OK packet that replaces it.
    pub(super) fn eof(&mut self, status: Status, warnings: u16) {
        let ok = reply::Ok {
            status,
            warnings,
            ..reply::Ok::default()
        };
        reply::write_end_of_rows(self.out.buf(), &mut self.sequence, self.caps, &ok);
    }

    /// Ends the reply of a statement that succeeded.
    pub(super) fn outcome(&mut self, outcome: &Outcome, status: Status, changes: &[SessionChange]) {
        let changes: SmallVec<[_; 4]> = changes.iter().map(wire_change).collect();
        let ok = reply::Ok {
            affected_rows: outcome.affected_rows,
            last_insert_id: outcome.last_insert_id,
            status,
            warnings: outcome.warnings,
            info: outcome.info.as_bytes(),
            changes: &changes,
        };
        if outcome.had_rows {
            reply::write_end_of_rows(self.out.buf(), &mut self.sequence, self.caps, &ok);
        } else {
            reply::write_ok(self.out.buf(), &mut self.sequence, self.caps, &ok);
        }
        self.defer_until_durable(outcome.position);
    }

    /// Ends the reply with a statement's error.
    pub(super) fn error(&mut self, error: &SqlError) {
        self.raw_error(error.code, error.sqlstate, &error.message);
        self.defer_until_durable(error.position);
    }

    /// Ends the reply with an error of the protocol.
    pub(super) fn protocol_error(&mut self, error: ProtocolError) {
        self.raw_error(error.code(), error.sqlstate(), &error.to_string());
    }

    /// Ends the reply with an error.
    pub(super) fn raw_error(&mut self, code: u16, sqlstate: [u8; 5], message: &str) {
        reply::write_error(self.out.buf(), &mut self.sequence, code, sqlstate, message);
    }
}

/// Converts a change of the session's state into the protocol's form.
fn wire_change(change: &SessionChange) -> reply::SessionChange<'_> {
    match change {
        SessionChange::Variable(name, value) => {
            reply::SessionChange::Variable(name.as_bytes(), value.as_bytes())
        }
        SessionChange::Schema(name) => reply::SessionChange::Schema(name.as_bytes()),
        SessionChange::State => reply::SessionChange::State,
        SessionChange::Transaction(letters) => reply::SessionChange::TransactionState(letters),
        SessionChange::Characteristics(text) => {
            reply::SessionChange::TransactionCharacteristics(text.as_bytes())
        }
    }
}

/// Returns the status flags of the session.
pub(super) fn status_of(session: &SqlSession) -> Status {
    Status(session.status_flags())
}

/// Returns the error that ends a statement whose client has disconnected.
pub(super) fn client_gone() -> SqlError {
    let text = "Got an error writing communication packets";
    let mut error = SqlError::new(1160, "08S01", text);
    error.fatal = true;
    error
}
