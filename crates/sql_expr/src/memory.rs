//! Memory of a session and of its running statement, within the server's budget
//! ([`porpoise_base::memory`]; transactions.md, rule 50).
//!
//! Operators charge the memory they keep through their execution state. Strings that expressions
//! compute are in arenas; an arena is charged when a string of [`CHARGE_CHECK_LEN`] bytes or more is added to
//! it. The charge is the size of the statement's largest arena so far and is kept until the
//! statement ends, because an arena that is reset keeps its largest chunk.
//!
//! Invariants:
//! 1. When a statement has ended, its tracker's count is zero ([`SessionMemory::end_statement`]
//!    asserts it).
//! 2. What outlives statements (prepared statements, plans, user variables) is charged to the
//!    session's tracker and is released when it is dropped.

use crate::error::{Result, SqlError};
use bumpalo::Bump;
use porpoise_base::memory::{
    ConnectionMemory, MemoryBudget, MemoryCharge, MemoryClass, MemoryLimit, MemoryRefused,
    MemoryTracker,
};
use porpoise_base::temp_files::TempDir;
use porpoise_kv::Stat;
use std::cell::Cell;
use std::sync::Arc;

/// Length above which a computed string causes a check of its arena's size.
pub const CHARGE_CHECK_LEN: usize = 256;

/// Arenas below this size are not charged.
const SMALL_ARENA: u64 = 64 * 1024;

#[derive(Clone, Debug)]
struct Trackers {
    statement: Arc<MemoryTracker>,
    session: Arc<MemoryTracker>,
}

/// Memory of a session; see the module. The default one counts nothing; it is for evaluation
/// outside of sessions.
#[derive(Debug, Default)]
pub struct SessionMemory {
    trackers: Option<Trackers>,
    /// Bytes charged for the statement's arenas.
    arena: Cell<u64>,
}

/// The error of a rejected reservation.
pub fn refused(refused: MemoryRefused) -> SqlError {
    let MemoryRefused {
        limit,
        allowed,
        wanted,
    } = refused;
    let (code, text) = match limit {
        MemoryLimit::Statement => (
            1038,
            format!(
                "Out of memory for this statement: it would hold {wanted} bytes, and \
                 statement_memory_limit is {allowed}"
            ),
        ),
        MemoryLimit::Connection => (
            4082,
            format!("Connection memory limit {allowed} bytes exceeded. Consumed {wanted} bytes."),
        ),
        MemoryLimit::Server => (
            4081,
            format!(
                "Global connection memory limit {allowed} bytes exceeded. Consumed {wanted} bytes."
            ),
        ),
    };
    let state = match code {
        1038 => "HY001",
        _ => "HY000",
    };
    SqlError::new(code, state, text)
}

/// Metrics of a memory budget.
pub fn stats(budget: &MemoryBudget) -> Vec<Stat> {
    let gauge = |name, help, value| Stat {
        name,
        help,
        counter: false,
        value,
    };
    let refused = |name, limit| Stat {
        name,
        help: "Memory reservations refused because of this limit.",
        counter: true,
        value: budget.refusals(limit),
    };
    let by_class = |class| {
        let (name, help) = match class {
            MemoryClass::Statement => (
                "client_memory_statement_bytes",
                "Memory reserved for rows, keys and strings of running statements.",
            ),
            MemoryClass::Session => (
                "client_memory_session_bytes",
                "Memory reserved for prepared statements, plans, variables and cursors.",
            ),
            MemoryClass::Input => (
                "client_memory_input_bytes",
                "Memory reserved for requests being received.",
            ),
            MemoryClass::Output => (
                "client_memory_output_bytes",
                "Memory reserved for replies that clients have not read.",
            ),
        };
        gauge(name, help, budget.used_by(class))
    };
    let all = "Memory reserved for statements, sessions, input and output.";
    let peak = "Peak of memory reserved for statements, sessions, input and output.";
    let limit = "Limit of memory for statements, sessions, input and output (statement-memory).";
    let mut stats = vec![
        gauge("client_memory_bytes", all, budget.used()),
        gauge("client_memory_peak_bytes", peak, budget.peak()),
        gauge("client_memory_limit_bytes", limit, budget.limit()),
    ];
    stats.extend(MemoryClass::ALL.map(by_class));
    stats.extend([
        refused(
            "client_memory_refused_statement_total",
            MemoryLimit::Statement,
        ),
        refused(
            "client_memory_refused_connection_total",
            MemoryLimit::Connection,
        ),
        refused("client_memory_refused_server_total", MemoryLimit::Server),
    ]);
    stats.extend(
        budget
            .temp_dir()
            .into_iter()
            .flat_map(|dir| temp_stats(dir)),
    );
    stats
}

/// Metrics of temporary files.
fn temp_stats(dir: &TempDir) -> [Stat; 2] {
    [
        Stat {
            name: "temporary_file_bytes",
            help: "Bytes of temporary files of running statements.",
            counter: false,
            value: dir.used(),
        },
        Stat {
            name: "temporary_files_total",
            help: "Temporary files created for statements.",
            counter: true,
            value: dir.created(),
        },
    ]
}

impl SessionMemory {
    /// Creates the memory of a session on this connection.
    pub fn new(connection: &Arc<ConnectionMemory>) -> SessionMemory {
        let tracker = |class| Arc::new(MemoryTracker::new(connection.clone(), class));
        SessionMemory {
            trackers: Some(Trackers {
                statement: tracker(MemoryClass::Statement),
                session: tracker(MemoryClass::Session),
            }),
            arena: Cell::new(0),
        }
    }

    /// The connection's memory.
    pub fn connection(&self) -> Option<&Arc<ConnectionMemory>> {
        self.trackers.as_ref().map(|t| t.statement.connection())
    }

    /// The tracker of running statements.
    pub fn statement(&self) -> Option<Arc<MemoryTracker>> {
        self.trackers.as_ref().map(|t| t.statement.clone())
    }

    /// Sets the memory limits of a statement and of the connection.
    pub fn set_limits(&self, statement: u64, connection: u64) {
        if let Some(trackers) = &self.trackers {
            trackers.statement.set_limit(statement);
            trackers.statement.connection().set_limit(connection);
        }
    }

    /// Charges the statement for an arena that has grown.
    ///
    /// # Errors
    /// If a limit is exceeded.
    pub fn note_arena(&self, arena: &Bump) -> Result<()> {
        let bytes = arena.allocated_bytes() as u64;
        let charged = self.arena.get();
        if bytes <= charged.max(SMALL_ARENA) {
            return Ok(());
        }
        if let Some(trackers) = &self.trackers {
            trackers.statement.hold(bytes - charged).map_err(refused)?;
            self.arena.set(bytes);
        }
        Ok(())
    }

    /// Releases the charge for the arenas of this, which are no longer used.
    pub fn release_arenas(&self) {
        let charged = self.arena.replace(0);
        if let (Some(trackers), true) = (&self.trackers, charged > 0) {
            trackers.statement.release(charged);
        }
    }

    /// Releases the charge for arenas; nothing else may be charged to the statement now.
    pub fn end_statement(&self) {
        self.release_arenas();
        if let Some(trackers) = &self.trackers {
            let left = trackers.statement.used();
            debug_assert_eq!(left, 0, "bytes still charged to a statement that has ended");
            if left > 0 {
                trackers.statement.release(left);
            }
        }
    }

    /// The same trackers, for what outlives a borrow of this.
    pub fn share(&self) -> SessionMemory {
        SessionMemory {
            trackers: self.trackers.clone(),
            arena: Cell::new(0),
        }
    }

    /// Charges the session until the returned charge is dropped.
    ///
    /// # Errors
    /// If a limit is exceeded.
    pub fn charge(&self, bytes: usize) -> Result<Option<MemoryCharge>> {
        let Some(trackers) = &self.trackers else {
            return Ok(None);
        };
        let charge = trackers.session.charge(bytes as u64).map_err(refused)?;
        Ok(Some(charge))
    }

    /// Changes the session's charge for an object whose size has changed.
    ///
    /// # Errors
    /// If a limit is exceeded.
    pub fn replace(&self, before: usize, now: usize) -> Result<()> {
        let Some(trackers) = &self.trackers else {
            return Ok(());
        };
        match now.checked_sub(before) {
            Some(more) => trackers.session.hold(more as u64).map_err(refused)?,
            None => trackers.session.release((before - now) as u64),
        }
        Ok(())
    }
}
