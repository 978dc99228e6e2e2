//! Listeners and the thread that accepts.
//!
//! One thread accepts for all listeners and gives each socket to the group with
//! the fewest connections. No error stops it: without free file descriptors it
//! accepts on one kept in reserve, sends a refusal, closes, and continues. It logs
//! at most one line per second.
//!
//! Invariants:
//! 1. `connections` counts every socket from here until its group has closed it; at most
//!    `max_connections`, plus one from this machine at a listener with a reserved connection. A
//!    listener cannot use the guaranteed shares of others (see `budget`).
//! 2. Past `max_before_login` connections of one listener that have not logged
//!    in, each new one evicts an older one. At twice as many (its groups do not
//!    keep up) that listener pauses: its clients wait in the listen queue, and the
//!    other listeners continue.

use super::budget::Budget;
use super::group::NewConnection;
use super::protocol::{Protocol, Refusal};
use super::{Net, Shared};
use crate::metrics::{self, Counter};
use crate::sys::{Epoll, EventBuf, EventFd, events};
use porpoise_base::threads::{self, Role};
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Length of the listen queue; the system may limit it further.
const BACKLOG: i32 = 4096;

/// Time between two checks of a paused listener.
const PAUSE_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// Divisor of `max_connections`: the sum of all listeners' guaranteed shares.
const SHARE_DIVISOR: usize = 10;

/// Maximum number of connections accepted from one listener before the next one is polled.
const MAX_ACCEPTS_PER_TURN: usize = 256;

/// Address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listening {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket; removed when the listener is dropped.
    Unix(PathBuf),
}

/// A bound listening socket from which no connection is accepted yet.
pub struct BoundSocket {
    socket: Socket,
    at: Listening,
}

impl BoundSocket {
    /// Listens at a TCP address; port 0 selects a free port.
    ///
    /// # Errors
    /// The system's error, as when the address is in use.
    pub fn tcp(address: SocketAddr) -> io::Result<BoundSocket> {
        let socket = bind_tcp(address)?;
        let bound = socket.local_addr()?.as_socket().unwrap_or(address);
        Ok(BoundSocket {
            socket,
            at: Listening::Tcp(bound),
        })
    }

    /// Listens at a Unix socket. A stale socket file is replaced.
    ///
    /// # Errors
    /// The system's error, as when another process listens at the socket.
    pub fn unix(path: &Path) -> io::Result<BoundSocket> {
        let address = SockAddr::unix(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        if let Err(error) = socket.bind(&address) {
            if error.kind() != io::ErrorKind::AddrInUse || !is_stale(path, &address) {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            socket.bind(&address)?;
        }
        let bound = BoundSocket {
            socket,
            at: Listening::Unix(path.to_owned()),
        };
        bound.socket.listen(BACKLOG)?;
        bound.socket.set_nonblocking(true)?;
        Ok(bound)
    }

    /// The address, with the actual port.
    pub fn at(&self) -> &Listening {
        &self.at
    }

    /// Adds the protocol that the listener serves.
    pub fn serving(self, protocol: Arc<dyn Protocol>) -> Listener {
        Listener {
            bound: self,
            protocol,
            budget: Arc::default(),
            paused: false,
        }
    }

    /// Duplicates the socket, for a server with an acceptor of its own.
    ///
    /// # Errors
    /// The system's error when no descriptor is free.
    pub fn to_tcp(&self) -> io::Result<std::net::TcpListener> {
        Ok(self.socket.try_clone()?.into())
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        if let Listening::Unix(path) = &self.at {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A bound socket and its protocol.
pub struct Listener {
    bound: BoundSocket,
    protocol: Arc<dyn Protocol>,
    budget: Arc<Budget>,
    /// Whether the listener is not polled, because too many of its connections have not logged in.
    paused: bool,
}

/// Creates a bound, listening, non-blocking TCP socket.
///
/// # Errors
/// The system's error, as when the address is in use.
pub fn bind_tcp(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // Otherwise connections in TIME_WAIT make a restart fail.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Whether the file is a socket without a listening process.
fn is_stale(path: &Path, address: &SockAddr) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    let refused = Socket::new(Domain::UNIX, Type::STREAM, None)
        .and_then(|probe| probe.connect(address))
        .is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
    is_socket && refused
}

/// The accepting thread.
pub(super) struct Acceptor {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    alarm: Arc<EventFd>,
}

impl Acceptor {
    pub(super) fn start(shared: Arc<Shared>, listeners: Vec<Listener>) -> io::Result<Acceptor> {
        let epoll = Epoll::new()?;
        let alarm = Arc::new(EventFd::new()?);
        epoll.add(alarm.as_raw_fd(), events::IN, u64::MAX)?;
        for (index, listener) in listeners.iter().enumerate() {
            epoll.add(listener.bound.socket.as_raw_fd(), events::IN, index as u64)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut run = AcceptLoop {
            shared,
            listeners,
            epoll,
            stop: stop.clone(),
            reserve_fd: File::open("/dev/null").ok(),
            last_line: None,
            suppressed: 0,
        };
        let thread = threads::spawn(Role::Acceptor, move || run.run())?;
        Ok(Acceptor {
            thread: Some(thread),
            stop,
            alarm,
        })
    }

    /// Closes the listeners and waits for the thread's end.
    pub(super) fn stop(mut self) {
        self.stop_thread();
    }

    fn stop_thread(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.alarm.signal();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop_thread();
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.shared.workers.close();
        self.shared.supervisor.close();
    }
}

/// State of the accepting thread.
struct AcceptLoop {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    epoll: Epoll,
    stop: Arc<AtomicBool>,
    /// An open file, closed to free a descriptor when none is left.
    reserve_fd: Option<File>,
    /// Time of the last logged warning.
    last_line: Option<Instant>,
    /// Number of warnings not logged since then.
    suppressed: u64,
}

impl AcceptLoop {
    fn run(&mut self) {
        let mut buf = EventBuf::new(16);
        while !self.stop.load(Ordering::SeqCst) {
            let timeout = self
                .listeners
                .iter()
                .any(|l| l.paused)
                .then_some(PAUSE_CHECK_INTERVAL);
            let n = match self.epoll.wait(&mut buf, timeout) {
                Ok(n) => n,
                Err(error) => {
                    self.warn_limited(&format!("waiting for connections failed: {error}"));
                    std::thread::sleep(Duration::from_millis(50));
                    0
                }
            };
            for i in 0..n {
                if let Some((_, data)) = buf.get(i)
                    && data != u64::MAX
                {
                    self.accept_from(data as usize);
                }
            }
            self.resume_listeners();
        }
        self.listeners.clear();
    }

    /// Whether a listener has twice its limit of connections before login.
    fn is_overfull(&self, listener: &Listener) -> bool {
        let limit = self.shared.max_before_login.load(Ordering::Relaxed);
        listener.budget.before_login() >= limit.saturating_mul(2)
    }

    /// Watches paused listeners again that are no longer overfull.
    fn resume_listeners(&mut self) {
        for index in 0..self.listeners.len() {
            let paused = |l: &&Listener| l.paused && !self.is_overfull(l);
            if self.listeners.get(index).filter(paused).is_some() {
                self.set_paused(index, false);
            }
        }
    }

    /// Stops or resumes polling a listener.
    fn set_paused(&mut self, index: usize, paused: bool) {
        let Some(listener) = self.listeners.get_mut(index) else {
            return;
        };
        let fd = listener.bound.socket.as_raw_fd();
        let interest = if paused { 0 } else { events::IN };
        match self.epoll.modify(fd, interest, index as u64) {
            Ok(()) => listener.paused = paused,
            Err(error) => {
                self.warn_limited(&format!("a listener cannot be added to epoll: {error}"))
            }
        }
    }

    fn accept_from(&mut self, index: usize) {
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            let Some(listener) = self.listeners.get(index) else {
                return;
            };
            if self.is_overfull(listener) {
                self.set_paused(index, true);
                return;
            }
            match listener.bound.socket.accept() {
                Ok((socket, from)) => {
                    let (protocol, budget) = (listener.protocol.clone(), listener.budget.clone());
                    if let Err(error) = self.admit_or_refuse(socket, &from, protocol, budget) {
                        self.warn_limited(&format!("a connection could not be set up: {error}"));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_short_of_resources(&error) => {
                    self.warn_limited(&format!("cannot accept: {error}"));
                    self.refuse_on_reserve(index);
                    return;
                }
                Err(error) if is_ended_by_client(&error) => {}
                Err(error) => {
                    self.warn_limited(&format!("cannot accept: {error}"));
                    self.set_paused(index, true);
                    return;
                }
            }
        }
    }

    /// Whether the listener with this budget may accept no more, because all remaining connections
    /// are the guaranteed shares of other listeners.
    fn is_full(&self, budget: &Arc<Budget>) -> bool {
        let max = self.shared.max_connections.load(Ordering::Relaxed);
        let share = max / (SHARE_DIVISOR * self.listeners.len().max(1));
        let others = self
            .listeners
            .iter()
            .filter(|l| !Arc::ptr_eq(&l.budget, budget));
        let guaranteed: usize = others
            .map(|l| share.saturating_sub(l.budget.connections()))
            .sum();
        let open = self.shared.connections.load(Ordering::SeqCst);
        let reserved = self.shared.reserved.load(Ordering::SeqCst);
        open.saturating_sub(reserved) + guaranteed >= max
    }

    /// Checks the limits and gives the socket to a group, or refuses it.
    fn admit_or_refuse(
        &mut self,
        socket: Socket,
        from: &SockAddr,
        protocol: Arc<dyn Protocol>,
        budget: Arc<Budget>,
    ) -> io::Result<()> {
        let peer = from.as_socket();
        let local = peer.is_none_or(|a| a.ip().to_canonical().is_loopback());
        let full = self.is_full(&budget);
        let reserve_is_free = self.shared.reserved.load(Ordering::SeqCst) == 0;
        let reserved = full && reserve_is_free && local && protocol.reserves_connection();
        socket.set_nonblocking(true)?;
        if full && !reserved {
            metrics::add(Counter::RefusedMany, 1);
            refuse(&socket, &*protocol, Refusal::TooManyConnections);
            return Ok(());
        }
        if peer.is_some() {
            socket.set_tcp_nodelay(true)?;
        }
        let Some(group) = self
            .shared
            .groups
            .iter()
            .min_by_key(|g| g.connections.load(Ordering::Relaxed))
        else {
            return Ok(());
        };
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let limit = self.shared.max_before_login.load(Ordering::Relaxed);
        budget.make_room(id, peer.map(|a| a.ip()), limit);
        budget.accept();
        self.shared.before_login.fetch_add(1, Ordering::Relaxed);
        self.shared
            .reserved
            .fetch_add(usize::from(reserved), Ordering::SeqCst);
        self.shared.connections.fetch_add(1, Ordering::SeqCst);
        group.connections.fetch_add(1, Ordering::Relaxed);
        metrics::add(Counter::Accepted, 1);
        let connection = NewConnection {
            socket,
            protocol,
            peer,
            id,
            reserved,
            budget,
        };
        group.send(|inbox| inbox.new_connections.push(connection));
        Ok(())
    }

    /// Accepts one connection on the reserve descriptor, refuses and closes it.
    fn refuse_on_reserve(&mut self, index: usize) {
        metrics::add(Counter::RefusedResources, 1);
        let had_reserve = self.reserve_fd.take().is_some();
        if let Some(listener) = self.listeners.get(index)
            && let Ok((socket, _)) = listener.bound.socket.accept()
        {
            let _ = socket.set_nonblocking(true);
            refuse(&socket, &*listener.protocol, Refusal::OutOfResources);
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.reserve_fd = File::open("/dev/null").ok();
        if !had_reserve {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Logs a warning, at most one per second.
    fn warn_limited(&mut self, what: &str) {
        let now = Instant::now();
        if self
            .last_line
            .is_some_and(|t| now - t < Duration::from_secs(1))
        {
            self.suppressed += 1;
            return;
        }
        self.last_line = Some(now);
        let suppressed = std::mem::take(&mut self.suppressed);
        tracing::warn!(suppressed, "{what}");
    }
}

/// Sends the protocol's refusal without blocking, and shuts the socket down.
fn refuse(socket: &Socket, protocol: &dyn Protocol, why: Refusal) {
    let _ = socket.send(&protocol.refusal(why));
    let _ = socket.shutdown(std::net::Shutdown::Write);
}

/// Whether the connection ended before it was accepted (accept(2), "Error handling").
fn is_ended_by_client(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNABORTED
                | libc::EINTR
                | libc::EPROTO
                | libc::ENETDOWN
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
        )
    )
}

fn is_short_of_resources(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)
    )
}
