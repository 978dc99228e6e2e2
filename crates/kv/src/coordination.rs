//! Coordination of several servers over one store: their records, and the lease of each.
//!
//! A *lease* is the right of a server to read and write until a time. Its holder renews it before that
//! time; the other servers see its end in the server's record, and count on the holder doing nothing
//! after it. So a change of a definition need not wait for a server that has crashed, was cut off or
//! was stopped, longer than for the end of its lease.
//!
//! The end is a time of the store's clock ([`Coordination::now`]), which all servers read, so that
//! differences between the clocks of servers do not matter. A server with a lease also measures its
//! length with its own monotonic clock from before the renewal was sent: a statement that begins after
//! that is refused without asking the store.
//!
//! Invariants:
//! 1. While a lease is granted, the engine refuses every call of a transaction that comes after its end,
//!    with [`Error::Unavailable`], and never takes a snapshot or commits at a later time of the store's
//!    clock.
//! 2. A transaction that began under a lease that has ended is refused, also under a later lease
//!    ([`Error::Conflict`]): definitions may have changed in between.
//! 3. An engine to which no lease was ever granted is not restricted.
//!
//! Rejected: the wall clocks of servers (a clock that is behind would let a server write after the
//! others took its lease for ended); locks of the store with a time to live (one more request in every
//! transaction).

use crate::{Error, Result, SpaceId};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

/// A lease, as granted by [`Coordination::grant_lease`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// End on this machine's monotonic clock.
    pub until: Instant,
    /// End on the store's clock, in milliseconds.
    pub until_store: u64,
}

/// A record of a server: its number and an encoded description.
pub type ServerRecord = (u64, Vec<u8>);

/// Operations by which several servers that use one store coordinate: their clock, records and leases.
pub trait Coordination: Send + Sync {
    /// Time of the store's clock in milliseconds. Never less than the result of an earlier call,
    /// of whichever server.
    ///
    /// # Errors
    /// The store cannot be reached.
    fn now(&self) -> Result<u64>;

    /// The id that the next new space will have: all existing spaces have smaller ones.
    ///
    /// # Errors
    /// The store cannot be reached.
    fn next_space(&self) -> Result<SpaceId>;

    /// All records of servers, with a time of the store's clock that is not later than the reading.
    ///
    /// # Errors
    /// The store cannot be reached.
    fn records(&self) -> Result<(u64, Vec<ServerRecord>)>;

    /// Writes or removes (`None`) the record of a server, if it is still `expected`; `None` stands
    /// for no record. Returns whether it was.
    ///
    /// # Errors
    /// The store cannot be reached; after [`Error::UnknownOutcome`] the record may have been written.
    fn replace_record(
        &self,
        server: u64,
        expected: Option<&[u8]>,
        record: Option<&[u8]>,
    ) -> Result<bool>;

    /// Grants the first lease, or extends the present one.
    fn grant_lease(&self, lease: Lease);

    /// Ends the lease: transactions that began under it are refused from now on.
    fn end_lease(&self, reason: &str);
}

/// The lease of an engine, and the check of each call against it.
#[derive(Debug, Default)]
pub struct Fence(RwLock<FenceState>);

#[derive(Debug, Default)]
struct FenceState {
    lease: Option<Lease>,
    /// Number of leases that have ended. Transactions keep the number at their begin.
    epoch: u64,
    /// The reason why there is no lease; empty before the first one.
    reason: String,
}

impl Fence {
    fn read(&self) -> RwLockReadGuard<'_, FenceState> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, FenceState> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Coordination::grant_lease`].
    pub fn grant(&self, lease: Lease) {
        self.write().lease = Some(lease);
    }

    /// See [`Coordination::end_lease`].
    pub fn end(&self, reason: &str) {
        let mut state = self.write();
        state.lease = None;
        state.epoch += 1;
        reason.clone_into(&mut state.reason);
    }

    /// The present epoch, for a transaction that begins.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without a lease, or after its end.
    pub fn begin(&self) -> Result<u64> {
        let state = self.read();
        state.check_lease()?;
        Ok(state.epoch)
    }

    /// Checks a call of a transaction that began in `epoch`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without a lease, or after its end; [`Error::Conflict`] if a lease has
    /// ended since the transaction began.
    pub fn check(&self, epoch: u64) -> Result<()> {
        let state = self.read();
        state.check_lease()?;
        if state.epoch == epoch {
            Ok(())
        } else {
            Err(Error::Conflict)
        }
    }

    /// Checks that a time of the store's clock, in milliseconds, lies within the lease: that of a
    /// snapshot, or of a commit before it is sent.
    ///
    /// # Errors
    /// As [`Fence::check`].
    pub fn check_time(&self, epoch: u64, time: u64) -> Result<()> {
        self.check(epoch)?;
        match self.last_time() {
            Some(last) if time > last => Err(expired()),
            _ => Ok(()),
        }
    }

    /// The last time of the store's clock at which a transaction may read or commit; `None` without
    /// a restriction.
    pub fn last_time(&self) -> Option<u64> {
        self.read().lease.map(|lease| lease.until_store)
    }
}

impl FenceState {
    fn check_lease(&self) -> Result<()> {
        match &self.lease {
            Some(lease) if Instant::now() >= lease.until => Err(expired()),
            Some(_) => Ok(()),
            None if self.epoch == 0 => Ok(()),
            None => Err(Error::Unavailable(format!(
                "this server has no lease on the cluster, and neither reads nor writes: {}",
                self.reason
            ))),
        }
    }
}

fn expired() -> Error {
    Error::Unavailable(
        "this server's lease on the cluster has run out, because it could not be renewed in time; \
         the server neither reads nor writes until it has a new one"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn lease(millis: u64, until_store: u64) -> Lease {
        Lease {
            until: Instant::now() + Duration::from_millis(millis),
            until_store,
        }
    }

    #[test]
    fn an_engine_without_leases_is_not_restricted() {
        let fence = Fence::default();
        let epoch = fence.begin().unwrap();
        fence.check_time(epoch, u64::MAX).unwrap();
        assert_eq!(fence.last_time(), None);
    }

    #[test]
    fn calls_after_the_end_of_the_lease_are_refused_on_either_clock() {
        let fence = Fence::default();
        fence.grant(lease(60_000, 500));
        let epoch = fence.begin().unwrap();
        fence.check_time(epoch, 500).unwrap();
        let refused = fence.check_time(epoch, 501);
        assert!(matches!(refused, Err(Error::Unavailable(_))));
        fence.grant(lease(0, 900));
        assert!(matches!(fence.begin(), Err(Error::Unavailable(_))));
        assert!(matches!(fence.check(epoch), Err(Error::Unavailable(_))));
        // An extension that comes late, but before the lease was ended, lets it continue.
        fence.grant(lease(60_000, 900));
        fence.check_time(epoch, 900).unwrap();
    }

    #[test]
    fn a_transaction_of_an_ended_lease_is_refused_under_the_next() {
        let fence = Fence::default();
        fence.grant(lease(60_000, 500));
        let epoch = fence.begin().unwrap();
        fence.end("a test");
        let Err(Error::Unavailable(text)) = fence.check(epoch) else {
            panic!("not refused");
        };
        assert!(text.ends_with("a test"), "{text}");
        fence.grant(lease(60_000, 900));
        assert!(matches!(fence.check(epoch), Err(Error::Conflict)));
        fence.check(fence.begin().unwrap()).unwrap();
    }
}
