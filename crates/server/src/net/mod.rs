//! Connections, worker groups, deferred replies.
//!
//! There are as many *groups* as processor cores. Each has an epoll set and one
//! active worker, which reads a ready socket, lets the session run all complete
//! requests in the input, and answers with one write. No connection is tied to a
//! thread.
//!
//! * A reply that reveals a commit is *deferred*: it stays in its connection's
//!   output until the commit is durable, and the worker serves other connections
//!   meanwhile ([`output`], [`durability`]).
//! * When a round serves several connections, their replies leave with one system call
//!   ([`send_batch`]).
//! * When a session waits (inside `porpoise_base::blocking`), its worker first hands the
//!   event loop over to a spare worker. It keeps only the connection that it serves and
//!   returns it afterwards ([`worker`]).
//! * When a session computes for too long, the supervisor takes the event loop from its
//!   worker and assigns it to another one ([`supervisor`]).
//! * Each listener has a budget of connections ([`budget`]).
//!
//! Invariants:
//! 1. A group's state ([`event_loop`]) is owned by exactly one thread at any time;
//!    it is moved, not shared, so serving a request takes no lock.
//! 2. A connection is either in its group's table or with exactly one worker,
//!    which always returns it; only the group closes it.
//! 3. Sockets are watched edge-triggered: an edge is recorded in the table until
//!    the socket was read until it would block, also while a worker has the connection. So
//!    a connection costs one `epoll_ctl` in its life, plus two whenever its client does not
//!    read replies.
//! 4. No worker waits for a client: output that the socket does not accept stays
//!    in the buffer until the client reads or `net_write_timeout` has passed, and
//!    a connection with unsent output is not served further.
//! 5. A panic in a session, or in TLS, ends that connection only. Any other
//!    panic of a worker or of the acceptor ends the process.
//!
//! Rejected: a thread per connection (faster at 8 connections, much slower at 512); one epoll
//! set shared by all workers (contention on its lock is measurable with two workers already);
//! level-triggered epoll (the same cost per request with the no-op protocol, but an
//! `epoll_ctl` before and after every wait of a session).

pub mod accept;
mod admit;
mod budget;
mod conn;
mod defer;
pub mod durability;
pub(crate) mod event_loop;
mod group;
mod input;
mod output;
mod pool;
pub mod protocol;
mod send_batch;
mod serve;
mod supervisor;
mod transport;
pub(crate) mod worker;

pub use accept::{BoundSocket, Listener, Listening};
pub use durability::DurabilityWatermark;
pub use input::Input;
pub use output::{FLUSH_AT, Gone, Output};
pub(crate) use protocol::client_host;
pub use protocol::{End, Next, Peer, Protocol, Refusal, Session};
pub use transport::{StreamCodec, TlsSession};

use self::event_loop::EventLoop;
use self::group::Group;
use self::supervisor::Supervisor;
use self::worker::WorkerPool;
use porpoise_base::memory::MemoryBudget;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Configuration of the network.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Worker groups.
    pub groups: usize,
    /// Whether replies to several connections are sent through io_uring, where the kernel allows it.
    pub io_uring: bool,
    /// Maximum number of connections of all listeners; one more is reserved for an administrator.
    pub max_connections: usize,
    /// Maximum number of sessions that wait detached, each on a thread of its own; and of
    /// detached workers that compute.
    pub max_running_statements: usize,
    /// Maximum number of connections of one listener that have not logged in.
    pub max_before_login: usize,
    /// Maximum time from connecting to the login.
    pub connect_timeout: Duration,
    /// Time from a request's first byte to its last (plus a second per 64 KiB).
    pub net_read_timeout: Duration,
    /// Maximum time without progress in writing to a client.
    pub net_write_timeout: Duration,
    /// Memory budget of connections.
    pub memory: Arc<MemoryBudget>,
}

impl Default for NetConfig {
    fn default() -> NetConfig {
        NetConfig {
            groups: std::thread::available_parallelism().map_or(1, usize::from),
            io_uring: true,
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

/// Whether the kernel lets this process use io_uring.
pub fn has_io_uring() -> bool {
    send_batch::SendBatch::new().is_ok()
}

/// Time for which a shutdown waits after it has cancelled the waits of sessions.
const CANCEL_TIME: Duration = Duration::from_secs(5);

/// Time for which a shutdown waits after it has closed the remaining connections.
const DROP_TIME: Duration = Duration::from_secs(2);

/// Phase of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Serving.
    Serve,
    /// No new connections; idle sessions end, the others may finish their transactions.
    Drain,
    /// Waits are cancelled, transactions roll back.
    Cancel,
    /// Remaining connections are closed without a message.
    Drop,
}

/// State that all groups share.
pub(crate) struct Shared {
    pub(crate) config: NetConfig,
    /// Maximum number of connections; at first that of the configuration.
    pub(crate) max_connections: AtomicUsize,
    /// Maximum number of connections of one listener before login.
    pub(crate) max_before_login: AtomicUsize,
    pub(crate) durability: Arc<DurabilityWatermark>,
    pub(crate) groups: Vec<Arc<Group>>,
    pub(crate) workers: WorkerPool,
    pub(crate) supervisor: Supervisor,
    phase: AtomicU8,
    /// Open connections.
    pub(crate) connections: AtomicUsize,
    /// Open connections that have not logged in.
    pub(crate) before_login: AtomicUsize,
    /// Number of reserved connections in use: 0 or 1.
    pub(crate) reserved: AtomicUsize,
    pub(crate) next_id: AtomicU64,
    pub(crate) finished_groups: AtomicUsize,
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
            group.wake();
        }
    }
}

/// The running network: groups, workers, listeners.
pub struct Net {
    shared: Arc<Shared>,
    acceptor: Option<accept::Acceptor>,
}

/// Gauges of connections and workers for the metrics page.
#[derive(Clone, Copy, Debug)]
pub struct NetGauges {
    /// Open connections.
    pub connections: usize,
    /// Open connections that have not logged in.
    pub before_login: usize,
    /// Detached workers whose session waits.
    pub waiting: usize,
    /// Detached workers whose session computes.
    pub computing: usize,
    /// Worker threads.
    pub threads: usize,
}

/// Reads [`NetGauges`]; cheap to clone.
#[derive(Clone)]
pub struct NetMonitor(Arc<Shared>);

impl NetMonitor {
    /// Sets the limits of connections, for those that are accepted from now on.
    pub fn set_limits(&self, max_connections: usize, max_before_login: usize) {
        let shared = &self.0;
        shared
            .max_connections
            .store(max_connections, Ordering::Relaxed);
        shared
            .max_before_login
            .store(max_before_login, Ordering::Relaxed);
    }

    /// Current gauges.
    pub fn gauges(&self) -> NetGauges {
        NetGauges {
            connections: self.0.connections.load(Ordering::Relaxed),
            before_login: self.0.before_login.load(Ordering::Relaxed),
            waiting: self.0.workers.waiting(),
            computing: self.0.workers.running(),
            threads: self.0.workers.threads(),
        }
    }

    /// Sends a liveness probe to every group. Returns the numbers of the probes, for
    /// [`NetMonitor::unanswered`].
    pub fn send_probes(&self) -> Vec<u64> {
        self.0
            .groups
            .iter()
            .map(|group| group.send_probe())
            .collect()
    }

    /// Indexes of the groups that have not answered these probes yet. Never waits.
    pub fn unanswered(&self, probes: &[u64]) -> Vec<usize> {
        let groups = self.0.groups.iter().zip(probes).enumerate();
        groups
            .filter(|(_, (group, probe))| !group.has_seen_probe(**probe))
            .map(|(index, _)| index)
            .collect()
    }
}

impl Net {
    /// Starts the worker groups. The caller has subscribed `durability` to the engine's log.
    pub fn start(config: NetConfig, durability: Arc<DurabilityWatermark>) -> io::Result<Net> {
        let count = config.groups.max(1);
        let mut sets = Vec::new();
        let mut groups = Vec::new();
        for index in 0..count {
            let (group, epoll) = Group::new(index)?;
            groups.push(Arc::new(group));
            sets.push(epoll);
        }
        durability.connect(groups.clone());
        let shared = Arc::new(Shared {
            workers: WorkerPool::new(count, config.max_running_statements),
            supervisor: Supervisor::default(),
            max_connections: AtomicUsize::new(config.max_connections),
            max_before_login: AtomicUsize::new(config.max_before_login),
            config,
            durability,
            groups,
            phase: AtomicU8::new(0),
            connections: AtomicUsize::new(0),
            before_login: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            next_id: AtomicU64::new(1),
            finished_groups: AtomicUsize::new(0),
            started: Instant::now(),
        });
        for (group, epoll) in shared.groups.iter().zip(sets) {
            let event_loop = Box::new(EventLoop::new(shared.clone(), group.clone(), epoll));
            worker::assign(&shared, event_loop).map_err(|(error, _)| error)?;
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

    /// A handle that reads gauges and sends liveness probes.
    pub fn monitor(&self) -> NetMonitor {
        NetMonitor(self.shared.clone())
    }

    /// Stops accepting connections, ends idle sessions, and gives the others `grace` to finish;
    /// then cancels their waits and rolls back their transactions (transactions.md, rule 40).
    /// Returns whether every session has ended in time.
    pub fn shutdown(mut self, grace: Duration) -> bool {
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.stop();
        }
        self.shared.enter_phase(Phase::Drain);
        let mut ended = self.wait_until_ended(grace);
        if !ended {
            self.shared.enter_phase(Phase::Cancel);
            ended = self.wait_until_ended(CANCEL_TIME);
        }
        if !ended {
            self.shared.enter_phase(Phase::Drop);
            ended = self.wait_until_ended(DROP_TIME);
        }
        self.shared.workers.close();
        self.shared.supervisor.close();
        ended
    }

    /// Waits until all groups and detached workers have ended. Returns false if they have not after
    /// `within`.
    fn wait_until_ended(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        loop {
            let groups = self.shared.finished_groups.load(Ordering::SeqCst);
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
