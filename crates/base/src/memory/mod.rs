//! Memory budget of statements: a hierarchy of counters.
//!
//! ```text
//! MemoryBudget        one per server: limit, bytes in use by class, refusals
//!   ConnectionMemory  one per connection: limit
//!     MemoryTracker   one per purpose: statement, session state, input, output
//!       MemoryCharge  one per object: returns its bytes when dropped
//! ```
//!
//! A tracker reserves from its connection and the server in steps: 4 KiB up to 64 KiB, then
//! 64 KiB. Between two steps, counting is a load, an addition and a store to memory that one
//! thread uses. A statement that keeps nothing touches no shared counter.
//!
//! Invariants:
//! 1. Bytes are counted before, or right after, they are allocated. When a reservation is
//!    refused, the caller frees what it has allocated.
//! 2. A server's `used` is the sum of its trackers' reservations; each tracker returns its own
//!    when it is dropped, also after an error or a panic.
//! 3. A connection's first [`FLOOR`] bytes are granted when the server's budget is used up, so
//!    that one client with a large statement does not stop the small statements of others.
//!    The overshoot is at most `max_connections` times [`FLOOR`].
//! 4. The counters of one tracker are written by one thread at a time (a connection is driven by
//!    one thread at a time); those of connection and server are atomic.
//!
//! Rejected: counting in the global allocator (charges the engine's rows to whichever statement
//! happens to run, and costs every allocation); a reservation kept by idle connections (ten
//! thousand of them would hold 640 MB of budget and use none of it).

use crate::temp_files::TempDir;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Bytes that a connection may use even when the server's budget is used up.
pub const FLOOR: u64 = 16 * 1024;

const SMALL_STEP: u64 = 4 * 1024;
const LARGE_STEP: u64 = 64 * 1024;

/// Purpose of memory, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryClass {
    /// Rows, keys and strings that running statements keep.
    Statement,
    /// Prepared statements, plans, user variables, cursors, long data.
    Session,
    /// Requests that are being received.
    Input,
    /// Replies that clients have not received yet.
    Output,
}

impl MemoryClass {
    /// All classes.
    pub const ALL: [MemoryClass; 4] = [
        MemoryClass::Statement,
        MemoryClass::Session,
        MemoryClass::Input,
        MemoryClass::Output,
    ];
}

/// Limit that a reservation would have exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// The limit of one tracker (a statement).
    Statement,
    /// The limit of one connection.
    Connection,
    /// The limit of the server.
    Server,
}

/// A refused reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRefused {
    /// The limit that the reservation would have exceeded.
    pub limit: MemoryLimit,
    /// The limit in bytes.
    pub allowed: u64,
    /// Bytes that would have been in use.
    pub wanted: u64,
}

/// Memory budget of a server.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: AtomicU64,
    used: AtomicU64,
    peak: AtomicU64,
    classes: [AtomicU64; MemoryClass::ALL.len()],
    refusals: [AtomicU64; 3],
    /// The directory for what exceeds memory.
    temp_dir: OnceLock<Arc<TempDir>>,
}

impl Default for MemoryBudget {
    fn default() -> MemoryBudget {
        MemoryBudget::new(u64::MAX)
    }
}

impl MemoryBudget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: u64) -> MemoryBudget {
        MemoryBudget {
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            classes: Default::default(),
            refusals: Default::default(),
            temp_dir: OnceLock::new(),
        }
    }

    /// Sets the directory of temporary files, once, to which statements write what exceeds their
    /// memory.
    pub fn set_temp_dir(&self, dir: Arc<TempDir>) {
        let _ = self.temp_dir.set(dir);
    }

    /// The directory of temporary files.
    pub fn temp_dir(&self) -> Option<&Arc<TempDir>> {
        self.temp_dir.get()
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Sets the limit. Bytes in use stay reserved.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Maximum of the bytes in use so far.
    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// Bytes in use for one purpose.
    pub fn used_by(&self, class: MemoryClass) -> u64 {
        self.class(class).load(Relaxed)
    }

    /// Number of reservations refused because of one limit.
    pub fn refusals(&self, limit: MemoryLimit) -> u64 {
        self.refusal(limit).load(Relaxed)
    }

    fn class(&self, class: MemoryClass) -> &AtomicU64 {
        let [statement, session, input, output] = &self.classes;
        match class {
            MemoryClass::Statement => statement,
            MemoryClass::Session => session,
            MemoryClass::Input => input,
            MemoryClass::Output => output,
        }
    }

    fn refusal(&self, limit: MemoryLimit) -> &AtomicU64 {
        let [statement, connection, server] = &self.refusals;
        match limit {
            MemoryLimit::Statement => statement,
            MemoryLimit::Connection => connection,
            MemoryLimit::Server => server,
        }
    }

    fn add(&self, class: MemoryClass, bytes: u64) -> u64 {
        let used = self.used.fetch_add(bytes, Relaxed).saturating_add(bytes);
        self.class(class).fetch_add(bytes, Relaxed);
        if used > self.peak.load(Relaxed) {
            self.peak.fetch_max(used, Relaxed);
        }
        used
    }

    fn subtract(&self, class: MemoryClass, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
        self.class(class).fetch_sub(bytes, Relaxed);
    }
}

/// Memory of one connection.
#[derive(Debug)]
pub struct ConnectionMemory {
    server: Arc<MemoryBudget>,
    used: AtomicU64,
    limit: AtomicU64,
}

impl Default for ConnectionMemory {
    fn default() -> ConnectionMemory {
        ConnectionMemory::new(Arc::default())
    }
}

impl ConnectionMemory {
    /// Creates the memory of a new connection, without a limit of its own.
    pub fn new(server: Arc<MemoryBudget>) -> ConnectionMemory {
        ConnectionMemory {
            server,
            used: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
        }
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Sets the limit. Bytes in use stay reserved.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// The server's budget.
    pub fn server(&self) -> &Arc<MemoryBudget> {
        &self.server
    }

    fn reserve(&self, class: MemoryClass, bytes: u64) -> Result<(), MemoryRefused> {
        let mine = self.used.fetch_add(bytes, Relaxed).saturating_add(bytes);
        let allowed = self.limit.load(Relaxed);
        let mut refused = (mine > allowed).then_some(MemoryRefused {
            limit: MemoryLimit::Connection,
            allowed,
            wanted: mine,
        });
        if refused.is_none() {
            let all = self.server.add(class, bytes);
            let allowed = self.server.limit();
            if all <= allowed || mine <= FLOOR {
                return Ok(());
            }
            self.server.subtract(class, bytes);
            refused = Some(MemoryRefused {
                limit: MemoryLimit::Server,
                allowed,
                wanted: all,
            });
        }
        self.used.fetch_sub(bytes, Relaxed);
        match refused {
            Some(refused) => Err(self.count(refused)),
            None => Ok(()),
        }
    }

    fn reserve_always(&self, class: MemoryClass, bytes: u64) {
        self.used.fetch_add(bytes, Relaxed);
        self.server.add(class, bytes);
    }

    fn give_back(&self, class: MemoryClass, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
        self.server.subtract(class, bytes);
    }

    fn count(&self, refused: MemoryRefused) -> MemoryRefused {
        self.server.refusal(refused.limit).fetch_add(1, Relaxed);
        refused
    }
}

/// Memory of one connection for one purpose; see the module.
#[derive(Debug)]
pub struct MemoryTracker {
    connection: Arc<ConnectionMemory>,
    class: MemoryClass,
    used: AtomicU64,
    reserved: AtomicU64,
    limit: AtomicU64,
}

/// Size of the reservation that covers `bytes`.
fn rounded(bytes: u64) -> u64 {
    let step = if bytes <= LARGE_STEP {
        SMALL_STEP
    } else {
        LARGE_STEP
    };
    bytes.checked_next_multiple_of(step).unwrap_or(u64::MAX)
}

impl MemoryTracker {
    /// Creates a tracker that holds nothing, without a limit of its own.
    pub fn new(connection: Arc<ConnectionMemory>, class: MemoryClass) -> MemoryTracker {
        MemoryTracker {
            connection,
            class,
            used: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
        }
    }

    /// Bytes held.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// The connection's memory.
    pub fn connection(&self) -> &Arc<ConnectionMemory> {
        &self.connection
    }

    /// Sets the tracker's own limit.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// Counts bytes that are held from now on.
    ///
    /// # Errors
    /// [`MemoryRefused`] when they would exceed a limit; nothing was counted.
    #[inline]
    pub fn hold(&self, bytes: u64) -> Result<(), MemoryRefused> {
        let used = self.used.load(Relaxed).saturating_add(bytes);
        if used > self.reserved.load(Relaxed) {
            self.reserve(used)?;
        }
        self.used.store(used, Relaxed);
        Ok(())
    }

    #[cold]
    fn reserve(&self, used: u64) -> Result<(), MemoryRefused> {
        let allowed = self.limit.load(Relaxed);
        if used > allowed {
            return Err(self.connection.count(MemoryRefused {
                limit: MemoryLimit::Statement,
                allowed,
                wanted: used,
            }));
        }
        let reserved = self.reserved.load(Relaxed);
        let wanted = rounded(used);
        self.connection
            .reserve(self.class, wanted.saturating_sub(reserved))?;
        self.reserved.store(wanted, Relaxed);
        Ok(())
    }

    /// The smallest of the limits of the tracker, the connection and the server.
    pub fn limit(&self) -> u64 {
        let own = self.limit.load(Relaxed);
        let connection = self.connection.limit.load(Relaxed);
        own.min(connection).min(self.connection.server.limit())
    }

    /// Bytes until half of the tracker's or of the connection's limit is used, or three quarters
    /// of the server's. When none are left, an operator should write what it keeps to temporary
    /// files if it can.
    pub fn headroom(&self) -> u64 {
        let own = (self.limit.load(Relaxed) / 2).saturating_sub(self.used());
        let connection = &self.connection;
        let shared = (connection.limit.load(Relaxed) / 2).saturating_sub(connection.used());
        let limit = connection.server.limit();
        let server = (limit - limit / 4).saturating_sub(connection.server.used());
        own.min(shared).min(server)
    }

    /// Counts bytes that are already allocated and cannot be freed, beyond any limit if need be.
    /// Later reservations are refused then.
    pub fn hold_always(&self, bytes: u64) {
        let used = self.used.load(Relaxed).saturating_add(bytes);
        let reserved = self.reserved.load(Relaxed);
        let wanted = rounded(used);
        if used > reserved {
            self.connection
                .reserve_always(self.class, wanted - reserved);
            self.reserved.store(wanted, Relaxed);
        }
        self.used.store(used, Relaxed);
    }

    /// Stops counting bytes counted before. Unused reservations of two steps or more are returned.
    #[inline]
    pub fn release(&self, bytes: u64) {
        let used = self.used.load(Relaxed);
        debug_assert!(bytes <= used, "released {bytes} bytes of {used}");
        let used = used.saturating_sub(bytes);
        self.used.store(used, Relaxed);
        let reserved = self.reserved.load(Relaxed);
        if used == 0 || reserved - used >= 2 * LARGE_STEP {
            self.trim(used, reserved);
        }
    }

    fn trim(&self, used: u64, reserved: u64) {
        let wanted = rounded(used);
        if wanted < reserved {
            self.connection.give_back(self.class, reserved - wanted);
            self.reserved.store(wanted, Relaxed);
        }
    }

    /// Makes `bytes` the number of bytes held.
    ///
    /// # Errors
    /// [`MemoryRefused`] when they would exceed a limit; the count stays unchanged.
    #[inline]
    pub fn resize(&self, bytes: u64) -> Result<(), MemoryRefused> {
        let used = self.used();
        if bytes == used {
            return Ok(());
        }
        if bytes > used {
            return self.hold(bytes - used);
        }
        self.release(used - bytes);
        Ok(())
    }

    /// Makes `bytes` the number of bytes held, beyond any limit if need be.
    #[inline]
    pub fn resize_always(&self, bytes: u64) {
        let used = self.used();
        if bytes == used {
            return;
        }
        if bytes > used {
            self.hold_always(bytes - used);
        } else {
            self.release(used - bytes);
        }
    }

    /// Counts bytes until the returned charge is dropped.
    ///
    /// # Errors
    /// [`MemoryRefused`] when they would exceed a limit.
    pub fn charge(self: &Arc<Self>, bytes: u64) -> Result<MemoryCharge, MemoryRefused> {
        self.hold(bytes)?;
        Ok(MemoryCharge {
            tracker: self.clone(),
            bytes,
        })
    }
}

impl Drop for MemoryTracker {
    fn drop(&mut self) {
        let reserved = *self.reserved.get_mut();
        if reserved > 0 {
            self.connection.give_back(self.class, reserved);
        }
    }
}

/// Bytes that are counted until the charge is dropped.
#[derive(Debug)]
#[must_use = "the bytes are held as long as it lives"]
pub struct MemoryCharge {
    tracker: Arc<MemoryTracker>,
    bytes: u64,
}

impl MemoryCharge {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds `bytes` to the charge.
    ///
    /// # Errors
    /// [`MemoryRefused`] when they would exceed a limit; the charge stays unchanged.
    pub fn grow(&mut self, bytes: u64) -> Result<(), MemoryRefused> {
        self.tracker.hold(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.tracker.release(self.bytes);
    }
}

#[cfg(test)]
mod tests;
