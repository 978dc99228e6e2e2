//! Refusal of clients' writes: `read_only` and `super_read_only`, for standbys.
//!
//! The rule is checked where a row is written ([`crate::Txn`]) and once more at the commit, so that it holds for SQL,
//! memcached, the native protocol and the removal of expired rows alike. Exempt are system tables, which the server itself
//! writes, temporary tables, and replication ([`crate::BeginOptions::replicates`]).

use crate::{Error, Result};
use std::sync::atomic::{AtomicU8, Ordering};

/// The clients whose writes are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnly {
    /// None.
    Off,
    /// Clients without the privilege SUPER or CONNECTION_ADMIN (`read_only`).
    Clients,
    /// All clients (`super_read_only`).
    Super,
}

/// The present state of a database.
#[derive(Default)]
pub(crate) struct ReadOnlyState(AtomicU8);

impl ReadOnlyState {
    pub(crate) fn set(&self, to: ReadOnly) {
        self.0.store(to as u8, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ReadOnly::Off as u8
    }

    /// Fails if writes are refused.
    pub(crate) fn check(&self, is_privileged: bool) -> Result<()> {
        let present = self.0.load(Ordering::SeqCst);
        let option = if present == ReadOnly::Super as u8 {
            "--super-read-only"
        } else if present == ReadOnly::Off as u8 || is_privileged {
            return Ok(());
        } else {
            "--read-only"
        };
        Err(Error::refused(
            1290,
            "HY000",
            format!(
                "The MySQL server is running with the {option} option so it cannot execute this statement"
            ),
        ))
    }
}
