//! XA transaction branches in two phases.
//!
//! A source logs a branch when it is prepared, and its end later as a statement:
//!
//! ```text
//!  MySQL     GTID | QUERY XA START xid | rows | QUERY XA END xid | XA_PREPARE xid
//!            GTID | QUERY XA COMMIT xid, or XA ROLLBACK xid
//!  MariaDB   the same without XA START: the GTID event has the identifier
//! ```
//!
//! The replica prepares a branch of its own with the same identifier, which has the locks of its rows, survives restarts, and
//! can be ended here by a client if the source is lost.
//!
//! Neither preparing a branch nor ending one can store the position in the same commit. So each step is executed as a definition
//! is ([`crate::position::PendingDefinition`]): the end of its event is recorded durably before it, and the position is stored
//! afterwards. If the replica receives the recorded event again, the branch itself shows whether the step was done: a branch to
//! be prepared exists then, and one to be ended does not.

use super::error::{FollowError, Followed, place};
use super::{Follower, Group, StatementError};
use crate::event::{QueryEvent, XaPrepare};
use crate::position::PendingDefinition;
use porpoise_rows::prepared::Xid;

/// MySQL's number of XAER_DUPID: another branch has the identifier.
const DUPLICATE: u16 = 1440;

impl Follower {
    /// Begins a branch whose rows follow.
    pub(super) fn begin_branch(&mut self, xid: Xid) -> Followed<()> {
        let is_skipped = self.is_skipped();
        let is_prepared = !is_skipped && self.runner.is_prepared(&xid);
        if is_prepared {
            // Prepared before a crash: its locks are there, so its rows cannot be written again.
            if self.progress.applied.lock().pending.is_none() {
                return Err(self.duplicate(&xid));
            }
            if let Some(group) = &mut self.group {
                group.is_skipped = true;
            }
        }
        if let Some(group) = &mut self.group {
            group.prepared = is_prepared.then_some(xid);
        }
        self.begin()
    }

    /// Ends a transaction of the source with the preparation of its branch.
    pub(super) fn prepare(&mut self, event: &XaPrepare) -> Followed<()> {
        let prepared = self.group.as_mut().and_then(|group| group.prepared.take());
        if let Some(xid) = prepared {
            let noted = self.progress.applied.lock().pending.clone();
            let is_noted = noted.is_some_and(|noted| noted.event == self.read);
            if !is_noted || xid != event.xid {
                return Err(self.duplicate(&event.xid));
            }
        } else if !self.is_skipped() {
            self.leave_workers()?;
            self.note()?;
            let origin = self.group.as_ref().map(Group::origin);
            let transaction = &mut self.transaction;
            let mut prepare = || transaction.prepare(&event.xid.to_name(), origin);
            let done = self.runner.prepare(&event.xid, &mut prepare);
            done.map_err(|error| self.xa_error("XA_PREPARE", &event.xid, error))?;
        }
        self.transaction.roll_back();
        self.batch = None;
        self.commit()
    }

    /// XA COMMIT or XA ROLLBACK of a branch that was prepared before.
    pub(super) fn end_branch(&mut self, query: &QueryEvent, command: &str) -> Followed<()> {
        let Some((xid, is_one_phase)) = parse(query.text.trim_ascii()) else {
            return Err(self.refuse("QUERY", "it names an XA branch in an unknown form"));
        };
        if is_one_phase {
            return self.commit();
        }
        // MariaDB's GTID event has begun a transaction.
        self.transaction.roll_back();
        self.batch = None;
        if !self.is_skipped() {
            self.drain()?;
            let is_noted = self.note()?;
            if !is_noted || self.runner.is_prepared(&xid) {
                let statement = QueryEvent {
                    text: format!("XA {command} {xid}").into_bytes(),
                    database: Vec::new(),
                    ..query.clone()
                };
                let origin = self.group.as_ref().map(Group::origin);
                let done = self
                    .runner
                    .run(&statement, false, origin.unwrap_or_default());
                done.map_err(|error| self.xa_error("QUERY", &xid, error))?;
            }
        }
        self.commit()
    }

    /// Notes the end of the present event durably. Returns whether it was noted before a crash.
    fn note(&mut self) -> Followed<bool> {
        let applied = {
            let mut applied = self.progress.applied.lock();
            let noted = applied.pending.take();
            let is_noted = noted.is_some_and(|noted| noted.event == self.read);
            applied.pending = Some(PendingDefinition {
                event: self.read.clone(),
                catalog_version: self.db.catalog_version(),
            });
            if is_noted {
                return Ok(true);
            }
            applied.clone()
        };
        let saved = self.positions.save(&applied);
        saved.map_err(|error| self.failed("XA", error.into()))?;
        Ok(false)
    }

    fn duplicate(&self, xid: &Xid) -> FollowError {
        let error = StatementError {
            number: DUPLICATE,
            message: "a branch of this server has the identifier".to_owned(),
            is_transient: false,
        };
        self.xa_error("XA_PREPARE", xid, error)
    }

    fn xa_error(&self, what: &str, xid: &Xid, error: StatementError) -> FollowError {
        FollowError {
            number: error.number,
            message: format!(
                "Could not execute {what} event of the XA branch {xid}: {}{}",
                error.message,
                place(&self.read, self.gtid())
            ),
            is_transient: error.is_transient,
        }
    }
}

/// The identifier in an XA statement, as a log has it (`XA COMMIT X'6162',X'63',1`), and whether the statement ends with ONE
/// PHASE.
pub(super) fn parse(text: &[u8]) -> Option<(Xid, bool)> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, rest) = text.split_once(char::is_whitespace)?;
    let (_, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    let upper = rest.trim().to_ascii_uppercase();
    let (identifier, is_one_phase) = match upper.strip_suffix("ONE PHASE") {
        Some(identifier) => (identifier.trim_end(), true),
        None => (upper.as_str(), false),
    };
    let mut parts = identifier.split(',').map(str::trim);
    let global = hexadecimal(parts.next()?)?;
    let branch = parts.next().map_or(Some(Vec::new()), hexadecimal)?;
    // formatID has 32 bits in events, and its sign in statements.
    let format = parts.next().map_or(Some(1), |number| {
        let number: i128 = number.parse().ok()?;
        Some(number as u32)
    })?;
    let xid = Xid {
        global,
        branch,
        format: u64::from(format),
    };
    let is_valid = parts.next().is_none() && xid.global.len() <= 64 && xid.branch.len() <= 64;
    is_valid.then_some((xid, is_one_phase))
}

/// The bytes of a literal `X'6162'`.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("X'")?.strip_suffix('\'')?.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_read_from_statements() {
        let xid = |global: &[u8], branch: &[u8], format| Xid {
            global: global.to_vec(),
            branch: branch.to_vec(),
            format,
        };
        let both = parse(b"XA COMMIT X'6162',X'63',258");
        assert_eq!(both, Some((xid(b"ab", b"c", 258), false)));
        let short = parse(b"xa start x'61'");
        assert_eq!(short, Some((xid(b"a", b"", 1), false)));
        let one_phase = parse(b"XA COMMIT X'61',X'',1 ONE PHASE");
        assert_eq!(one_phase, Some((xid(b"a", b"", 1), true)));
        let negative = parse(b"XA END X'61',X'',18446744073709551615");
        assert_eq!(negative, Some((xid(b"a", b"", u64::from(u32::MAX)), false)));
        for text in [
            "XA COMMIT",
            "XA COMMIT 'a'",
            "XA COMMIT X'6'",
            "XA COMMIT X'61',X'',1,2",
            "XA END X'+1'",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(
            parse(format!("XA END X'{}'", "61".repeat(65)).as_bytes()),
            None
        );
    }
}
