//! Session state tracking (manual, "Server Tracking of Client Session State"): variables, default
//! database, whether anything changed at all, and the transaction.
//!
//! A change is recorded when it happens and reported with the next OK packet of any statement: if a
//! statement fails after a change, the next successful one reports it.
//!
//! Invariants:
//! 1. Nothing is recorded for a client without the capability, or while the variable that enables
//!    it is off.
//! 2. There is at most one entry for each variable, so the registry bounds the memory.
//! 3. The transaction state is reported when it differs from the one reported last.

use super::SqlSession;
use super::transaction::{ExplicitStart, OpenTxn};
use crate::vars::settings::{IsolationLevel, TransactionInfo};
use crate::vars::{self, VARIABLES, VarValue};
use porpoise_types::{Level, Warning};

/// Capability bit of the handshake: OK packets may report session state changes.
const CLIENT_SESSION_TRACK: u64 = 1 << 23;

/// A change that the client tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// New value of a system variable.
    Variable(&'static str, String),
    /// New default database; empty for none.
    Schema(String),
    /// Any state that a new connection would not have.
    State,
    /// New transaction state: one letter or `_` for each property.
    Transaction([u8; 8]),
    /// Statements that begin a transaction with the characteristics of the open or next one; empty
    /// for the defaults.
    Characteristics(String),
}

/// The state outside of a transaction.
const NO_TRANSACTION: [u8; 8] = *b"________";

/// Changes to report with the next OK packet.
#[derive(Debug)]
pub(crate) struct Tracker {
    /// Whether the client has the capability.
    enabled: bool,
    /// Positions of the session variables that were set.
    variables: Vec<usize>,
    /// Whether a default database was chosen.
    schema: bool,
    /// Whether any state changed.
    state: bool,
    /// The transaction state reported last.
    reported_state: [u8; 8],
    /// The characteristics reported last.
    reported_text: String,
}

/// Activity of the current transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TxnActivity {
    /// Whether tables were read.
    pub(crate) read: bool,
    /// Whether tables were written.
    pub(crate) written: bool,
    /// Whether rows were sent.
    pub(crate) sent: bool,
}

impl Tracker {
    /// Creates the tracker for a client with these capabilities.
    pub(crate) fn new(capabilities: u64) -> Tracker {
        Tracker {
            enabled: capabilities & CLIENT_SESSION_TRACK != 0,
            variables: Vec::new(),
            schema: false,
            state: false,
            reported_state: NO_TRANSACTION,
            reported_text: String::new(),
        }
    }

    /// Records that a session variable was set.
    pub(crate) fn variable(&mut self, at: usize) {
        if self.enabled {
            self.state = true;
            if !self.variables.contains(&at) {
                self.variables.push(at);
            }
        }
    }

    /// Records that a default database was chosen.
    pub(crate) fn schema(&mut self) {
        self.schema = self.enabled;
        self.state |= self.enabled;
    }

    /// Records a change to a user variable, prepared statement or temporary table.
    pub(crate) fn state(&mut self) {
        self.state |= self.enabled;
    }
}

impl SqlSession {
    /// Takes the changes since the last call, for the next OK packet.
    pub fn take_changes(&mut self) -> Vec<SessionChange> {
        if !self.tracker.enabled {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for at in std::mem::take(&mut self.tracker.variables) {
            if let Some(variable) = VARIABLES.get(at)
                && self.tracks(variable.name)
            {
                let value = self.cx.values.value_at(at).text();
                changes.push(SessionChange::Variable(variable.name, value));
            }
        }
        if std::mem::take(&mut self.tracker.schema) && self.is_on("session_track_schema") {
            let name = self.cx.env.database.clone();
            changes.push(SessionChange::Schema(name.unwrap_or_default()));
        }
        if std::mem::take(&mut self.tracker.state) && self.is_on("session_track_state_change") {
            changes.push(SessionChange::State);
        }
        self.transaction_changes(&mut changes);
        changes
    }

    fn transaction_changes(&mut self, changes: &mut Vec<SessionChange>) {
        let text = match self.cx.settings.transaction_info {
            TransactionInfo::Off => return,
            TransactionInfo::State => String::new(),
            TransactionInfo::Characteristics => self.characteristics(),
        };
        let state_letters = self.state_letters();
        if text != self.tracker.reported_text {
            changes.push(SessionChange::Characteristics(text.clone()));
            self.tracker.reported_text = text;
        }
        if state_letters != self.tracker.reported_state {
            changes.push(SessionChange::Transaction(state_letters));
            self.tracker.reported_state = state_letters;
        }
    }

    /// Whether `session_track_system_variables` contains this name.
    fn tracks(&self, name: &str) -> bool {
        let list = self.cx.values.text("session_track_system_variables");
        let mut names = list.split(',').map(str::trim);
        names.any(|n| n == "*" || n.eq_ignore_ascii_case(name))
    }

    fn is_on(&self, name: &str) -> bool {
        let value = vars::find(name).map(|at| self.cx.values.value_at(at));
        value == Some(&VarValue::Bool(true))
    }

    /// The transaction state (manual, "session_track_transaction_info"): explicit or implicit
    /// transaction, unsafe and transactional reads, unsafe and transactional writes, unsafe
    /// statements, result sets sent, LOCK TABLES.
    fn state_letters(&self) -> [u8; 8] {
        let mut state_letters = NO_TRANSACTION;
        let mut set = |place: usize, letter: u8, on: bool| {
            if let (true, Some(l)) = (on, state_letters.get_mut(place)) {
                *l = letter;
            }
        };
        if let Some(open) = &self.open {
            let explicit = open.started.is_some();
            set(0, if explicit { b'T' } else { b'I' }, true);
            set(2, b'R', open.activity.read);
            set(4, b'W', open.activity.written);
            set(6, b'S', open.activity.sent);
        }
        set(7, b'L', self.table_locks.is_some());
        state_letters
    }

    /// The statements that begin a transaction with the characteristics of the open or next one.
    fn characteristics(&self) -> String {
        let (isolation, read_only, started) = match self.open.as_deref() {
            Some(OpenTxn {
                started, requested, ..
            }) => (requested.isolation, requested.read_only, *started),
            None => (self.next.isolation, self.next.read_only, None),
        };
        let mut text = String::new();
        if let Some(level) = isolation {
            text.push_str("SET TRANSACTION ISOLATION LEVEL ");
            text.push_str(level_words(level));
            text.push_str("; ");
        }
        let access = read_only.map(|only| if only { "READ ONLY" } else { "READ WRITE" });
        if let Some(start) = self.branch_start() {
            if let Some(access) = access {
                text.push_str(&format!("SET TRANSACTION {access}; "));
            }
            text.push_str(&start);
            return text;
        }
        match (started, access) {
            (Some(ExplicitStart { snapshot }), access) => {
                text.push_str("START TRANSACTION");
                if snapshot {
                    text.push_str(" WITH CONSISTENT SNAPSHOT");
                }
                if let Some(access) = access {
                    text.push_str(if snapshot { ", " } else { " " });
                    text.push_str(access);
                }
                text.push(';');
            }
            (None, Some(access)) => {
                text.push_str("SET TRANSACTION ");
                text.push_str(access);
                text.push(';');
            }
            (None, None) => {}
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// Warns about names in `session_track_system_variables` that are not variables.
    pub(super) fn warn_of_untracked(&self, list: &str) {
        let names = list.split(',').map(str::trim);
        for name in names.filter(|n| !n.is_empty() && *n != "*" && vars::find(n).is_none()) {
            self.cx.env.warn(Warning {
                level: Level::Warning,
                code: 1231,
                message: format!("{name} is not a valid system variable and will be ignored."),
            });
        }
    }
}

fn level_words(level: IsolationLevel) -> &'static str {
    match level {
        IsolationLevel::ReadCommitted => "READ COMMITTED",
        IsolationLevel::RepeatableRead => "REPEATABLE READ",
        IsolationLevel::Serializable => "SERIALIZABLE",
    }
}
