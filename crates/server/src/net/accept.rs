//! Listeners and the thread that accepts.
//!
//! One thread accepts for all doors and gives each socket to the group with
//! the fewest connections. It never stops because of a failure: without
//! descriptors it accepts with one kept in reserve, tells the client, and
//! goes on; at most one line per second goes to the log.
//!
//! Invariants:
//! 1. `connections` counts every socket from here until its group has closed
//!    it; at most `max_connections`, plus one from this machine through a door
//!    that reserves a place.
//! 2. While `max_before_login` connections have not logged in, nothing is
//!    accepted: clients wait in the listen queue.

use super::door::{Door, Refusal};
use super::group::Newcomer;
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

/// Connections that wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 4096;

/// Accepted from one listener before the others have their turn.
const TURN: usize = 256;

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listening {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket; removed when the listener is dropped.
    Unix(PathBuf),
}

/// A bound listening socket that nobody accepts from yet.
pub struct Bound {
    socket: Socket,
    at: Listening,
}

impl Bound {
    /// Listens at a TCP address; port 0 picks a free one.
    pub fn tcp(address: SocketAddr) -> io::Result<Bound> {
        let socket = bind_tcp(address)?;
        let bound = socket.local_addr()?.as_socket().unwrap_or(address);
        Ok(Bound {
            socket,
            at: Listening::Tcp(bound),
        })
    }

    /// Listens at a Unix socket. A file left behind by a server that is gone
    /// is replaced; one that somebody listens at is an error.
    pub fn unix(path: &Path) -> io::Result<Bound> {
        let address = SockAddr::unix(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        if let Err(error) = socket.bind(&address) {
            if error.kind() != io::ErrorKind::AddrInUse || !is_stale(path, &address) {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            socket.bind(&address)?;
        }
        let bound = Bound {
            socket,
            at: Listening::Unix(path.to_owned()),
        };
        bound.socket.listen(BACKLOG)?;
        bound.socket.set_nonblocking(true)?;
        Ok(bound)
    }

    /// Where it listens; the port is the one that was picked.
    pub fn at(&self) -> &Listening {
        &self.at
    }

    /// Puts a door behind it.
    pub fn behind(self, door: Arc<dyn Door>) -> Listener {
        Listener { bound: self, door }
    }

    /// A handle of the socket for whoever accepts by other means.
    pub fn to_tcp(&self) -> io::Result<std::net::TcpListener> {
        Ok(self.socket.try_clone()?.into())
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Listening::Unix(path) = &self.at {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A bound socket and the door behind it.
pub struct Listener {
    bound: Bound,
    door: Arc<dyn Door>,
}

/// A bound, listening, non-blocking TCP socket.
pub fn bind_tcp(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // Only so that old connections in TIME_WAIT do not keep a restart out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Whether the file is a socket at which nobody listens.
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
        let mut run = Run {
            shared,
            listeners,
            epoll,
            stop: stop.clone(),
            reserve: File::open("/dev/null").ok(),
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

    /// Closes the listeners; returns when nothing is accepted any more.
    pub(super) fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.alarm.signal();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.halt();
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.shared.staff.close();
    }
}

struct Run {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    epoll: Epoll,
    stop: Arc<AtomicBool>,
    reserve: Option<File>,
    last_line: Option<Instant>,
    suppressed: u64,
}

impl Run {
    fn run(&mut self) {
        let mut buf = EventBuf::new(16);
        while !self.stop.load(Ordering::SeqCst) {
            let n = match self.epoll.wait(&mut buf, None) {
                Ok(n) => n,
                Err(error) => {
                    self.complain(&format!("waiting for connections: {error}"));
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
            self.wait_for_logins();
        }
        self.listeners.clear();
    }

    /// Leaves clients in the listen queue while too many have not logged in.
    fn wait_for_logins(&self) {
        let limit = self.shared.config.max_before_login;
        while self.shared.before_login.load(Ordering::Relaxed) >= limit
            && !self.stop.load(Ordering::SeqCst)
        {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn accept_from(&mut self, index: usize) {
        for _ in 0..TURN {
            let Some(listener) = self.listeners.get(index) else {
                return;
            };
            match listener.bound.socket.accept() {
                Ok((socket, from)) => {
                    let door = listener.door.clone();
                    if let Err(error) = self.welcome(socket, &from, door) {
                        self.complain(&format!("a connection could not be set up: {error}"));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_short_of_resources(&error) => {
                    self.complain(&format!("cannot accept: {error}"));
                    self.turn_away(index);
                    return;
                }
                // The client went away, or the network did, before we came.
                Err(_) => {}
            }
            if self.shared.before_login.load(Ordering::Relaxed)
                >= self.shared.config.max_before_login
            {
                return;
            }
        }
    }

    fn welcome(&mut self, socket: Socket, from: &SockAddr, door: Arc<dyn Door>) -> io::Result<()> {
        let peer = from.as_socket();
        let local = peer.is_none_or(|a| a.ip().to_canonical().is_loopback());
        let max = self.shared.config.max_connections;
        let open = self.shared.connections.load(Ordering::SeqCst);
        let reserved = open == max && local && door.reserves_a_place();
        socket.set_nonblocking(true)?;
        if open >= max && !reserved {
            metrics::add(Counter::RefusedMany, 1);
            refuse(&socket, &*door, Refusal::TooManyConnections);
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
        self.shared.connections.fetch_add(1, Ordering::SeqCst);
        group.connections.fetch_add(1, Ordering::Relaxed);
        metrics::add(Counter::Accepted, 1);
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let newcomer = Newcomer {
            socket,
            door,
            peer,
            id,
            reserved,
        };
        group.leave(|inbox| inbox.newcomers.push(newcomer));
        Ok(())
    }

    /// No descriptor is free: takes the client on the one in reserve, says
    /// so, and lets it go.
    fn turn_away(&mut self, index: usize) {
        metrics::add(Counter::RefusedResources, 1);
        let had_reserve = self.reserve.take().is_some();
        if let Some(listener) = self.listeners.get(index)
            && let Ok((socket, _)) = listener.bound.socket.accept()
        {
            let _ = socket.set_nonblocking(true);
            refuse(&socket, &*listener.door, Refusal::OutOfResources);
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.reserve = File::open("/dev/null").ok();
        if !had_reserve {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// One line per second at most.
    fn complain(&mut self, what: &str) {
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

/// Tells a client why it is turned away, if it listens, and closes.
fn refuse(socket: &Socket, door: &dyn Door, why: Refusal) {
    let _ = socket.send(&door.refusal(why));
    let _ = socket.shutdown(std::net::Shutdown::Write);
}

fn is_short_of_resources(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)
    )
}
