//! Connections, worker groups, held replies.
//!
//! There are as many *groups* as cores. Each has an epoll set and one active
//! worker, which reads what a ready socket has, lets the session run all
//! complete requests in it to their end, and answers with one write. No
//! connection is tied to a thread.
//!
//! * A reply that tells of a commit is *held* in its connection's output until
//!   the log's durable mark has passed it; the worker serves others meanwhile
//!   ([`output`], [`marks`]).
//! * A session that is about to wait says so through
//!   `porpoise_base::blocking`; its worker hands the group to a spare and keeps
//!   only the connection it is serving, which it gives back afterwards
//!   ([`worker`]).
//! * A session that computes for long loses its group to another worker in the
//!   same way, by the supervisor ([`supervisor`]).
//! * Each listener has a budget of connections ([`budget`]).
//!
//! Invariants:
//! 1. A group's state ([`core`]) is owned by exactly one thread at any time;
//!    it is moved, not shared, so serving a request takes no lock.
//! 2. A connection is either at home in its group's table or with exactly one
//!    worker, which always gives it back; only the group closes it.
//! 3. Sockets are watched edge-triggered: an edge is remembered in the table
//!    until the socket was read to its end, whoever has the connection. So a
//!    connection costs one `epoll_ctl` in its life, plus two whenever its
//!    client does not take what is sent.
//! 4. Nothing waits for a client: what the socket does not take stays in the
//!    output until the client reads or `net_write_timeout` is over, and a
//!    connection that has unsent output is not served further.
//! 5. A panic in a session, or in TLS, ends that connection only. Any other
//!    panic of a worker or of the acceptor ends the process.
//!
//! Rejected: a thread per connection (ahead at 8 connections, far behind at
//! 512); one epoll set shared by all workers (its lock and the hand-over of
//! readiness between cores show from two workers on); level-triggered epoll
//! (costs the same per request, as measured on the no-op door, but needs an
//! `epoll_ctl` before and after every wait of a session).

pub mod accept;
mod admit;
mod budget;
mod conn;
pub(crate) mod core;
mod defer;
pub mod door;
mod group;
mod input;
pub mod marks;
mod output;
mod pool;
mod serve;
mod supervisor;
mod transport;
pub(crate) mod worker;

pub use accept::{Bound, Listener, Listening};
pub use door::{Door, End, Next, Peer, Refusal, Session};
pub use input::Input;
pub use marks::Marks;
pub use output::{FLUSH_AT, Gone, Output};
pub use transport::TlsSession;

use self::core::Core;
use self::group::Group;
use self::supervisor::Supervisor;
use self::worker::WorkerPool;
use porpoise_base::memory::MemoryBudget;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What can be set about the network.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Worker groups.
    pub groups: usize,
    /// Connections over all doors; one more is kept for an administrator.
    pub max_connections: usize,
    /// Sessions that may wait at once, each with a thread of its own.
    pub max_running_statements: usize,
    /// Connections of one listener that have not logged in.
    pub max_before_login: usize,
    /// From connecting to being logged in.
    pub connect_timeout: Duration,
    /// From a request's first byte to its last (plus a second per 64 KiB).
    pub net_read_timeout: Duration,
    /// Without any progress in writing to a client.
    pub net_write_timeout: Duration,
    /// Memory budget of connections.
    pub memory: Arc<MemoryBudget>,
}

impl Default for NetConfig {
    fn default() -> NetConfig {
        NetConfig {
            groups: std::thread::available_parallelism().map_or(1, usize::from),
            max_connections: 10_000,
            max_running_statements: 1_000,
            max_before_login: 1_000,
            connect_timeout: Duration::from_secs(10),
            net_read_timeout: Duration::from_secs(30),
            net_write_timeout: Duration::from_secs(60),
            memory: Arc::default(),
        }
    }
}

/// How far a shutdown has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Serving.
    Serve,
    /// No new connections; idle ones end, others finish what they began.
    Drain,
    /// Waits are cancelled, transactions roll back.
    Cancel,
    /// What is left is closed without a word.
    Drop,
}

/// What all groups share.
pub(crate) struct Shared {
    pub(crate) config: NetConfig,
    pub(crate) marks: Arc<Marks>,
    pub(crate) groups: Vec<Arc<Group>>,
    pub(crate) workers: WorkerPool,
    pub(crate) supervisor: Supervisor,
    phase: AtomicU8,
    /// Open connections, and how many of them have not logged in.
    pub(crate) connections: AtomicUsize,
    pub(crate) before_login: AtomicUsize,
    /// Whether the administrator's reserved connection is in use.
    pub(crate) reserved: AtomicUsize,
    pub(crate) next_id: AtomicU64,
    pub(crate) finished: AtomicUsize,
    started: Instant,
}

impl Shared {
    /// Milliseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::Serve,
            1 => Phase::Drain,
            2 => Phase::Cancel,
            _ => Phase::Drop,
        }
    }

    fn enter_phase(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::SeqCst);
        for group in &self.groups {
            group.rouse();
        }
    }
}

/// The running network: groups, workers, listeners.
pub struct Net {
    shared: Arc<Shared>,
    acceptor: Option<accept::Acceptor>,
}

/// Figures of the network for the metrics page.
#[derive(Clone, Copy, Debug)]
pub struct NetGauges {
    /// Open connections.
    pub connections: usize,
    /// Of them, not logged in.
    pub before_login: usize,
    /// Workers that have left their group because their session waits.
    pub waiting: usize,
    /// Workers that compute without their group: their call takes long.
    pub computing: usize,
    /// Worker threads.
    pub threads: usize,
}

/// Reads [`NetGauges`]; cheap to copy around.
#[derive(Clone)]
pub struct NetProbe(Arc<Shared>);

impl NetProbe {
    /// The figures now.
    pub fn gauges(&self) -> NetGauges {
        NetGauges {
            connections: self.0.connections.load(Ordering::Relaxed),
            before_login: self.0.before_login.load(Ordering::Relaxed),
            waiting: self.0.workers.waiting(),
            computing: self.0.workers.running(),
            threads: self.0.workers.threads(),
        }
    }

    /// Asks every group's worker for a sign of life; the numbers of the
    /// questions, for [`NetProbe::unanswered`].
    pub fn ask(&self) -> Vec<u64> {
        self.0.groups.iter().map(|group| group.ask()).collect()
    }

    /// Groups whose workers have not seen these questions yet. Never waits.
    pub fn unanswered(&self, asked: &[u64]) -> Vec<usize> {
        let groups = self.0.groups.iter().zip(asked).enumerate();
        groups
            .filter(|(_, (group, question))| !group.has_answered(**question))
            .map(|(index, _)| index)
            .collect()
    }
}

impl Net {
    /// Starts the worker groups. `marks` is subscribed to the engine's log by
    /// the caller.
    pub fn start(config: NetConfig, marks: Arc<Marks>) -> io::Result<Net> {
        let count = config.groups.max(1);
        let mut sets = Vec::new();
        let mut groups = Vec::new();
        for index in 0..count {
            let (group, epoll) = Group::new(index)?;
            groups.push(Arc::new(group));
            sets.push(epoll);
        }
        marks.connect(groups.clone());
        let shared = Arc::new(Shared {
            workers: WorkerPool::new(count, config.max_running_statements),
            supervisor: Supervisor::default(),
            config,
            marks,
            groups,
            phase: AtomicU8::new(0),
            connections: AtomicUsize::new(0),
            before_login: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            next_id: AtomicU64::new(1),
            finished: AtomicUsize::new(0),
            started: Instant::now(),
        });
        for (group, epoll) in shared.groups.iter().zip(sets) {
            let core = Box::new(Core::new(shared.clone(), group.clone(), epoll));
            worker::assign(&shared, core).map_err(|(error, _)| error)?;
        }
        supervisor::start(&shared)?;
        Ok(Net {
            shared,
            acceptor: None,
        })
    }

    /// Accepts connections on `listeners` from now on.
    pub fn serve(&mut self, listeners: Vec<Listener>) -> io::Result<()> {
        self.acceptor = Some(accept::Acceptor::start(self.shared.clone(), listeners)?);
        Ok(())
    }

    /// A handle for the metrics page.
    pub fn probe(&self) -> NetProbe {
        NetProbe(self.shared.clone())
    }

    /// Stops accepting, ends idle sessions, lets the others finish for
    /// `grace`, then cancels their waits and rolls their transactions back
    /// (transactions.md, rule 40). Returns when every session is gone, or
    /// false when some would not end.
    pub fn shutdown(mut self, grace: Duration) -> bool {
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.stop();
        }
        self.shared.enter_phase(Phase::Drain);
        let mut over = self.settled(grace);
        if !over {
            self.shared.enter_phase(Phase::Cancel);
            over = self.settled(Duration::from_secs(5));
        }
        if !over {
            self.shared.enter_phase(Phase::Drop);
            over = self.settled(Duration::from_secs(2));
        }
        self.shared.workers.close();
        self.shared.supervisor.close();
        over
    }

    fn settled(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        loop {
            let groups = self.shared.finished.load(Ordering::SeqCst);
            let detached = self.shared.workers.waiting() + self.shared.workers.running();
            if groups == self.shared.groups.len() && detached == 0 {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
