//! System calls that neither the standard library nor socket2 wraps: epoll, io_uring, eventfd,
//! signalfd, poll, socket options, resource limits, thread CPU time and scheduling, exec.
//!
//! The only module of the server with `unsafe` code. Every wrapper owns its
//! descriptor, passes only pointers to live locals, and turns -1 into an
//! [`io::Error`].

#![allow(unsafe_code, reason = "thin wrappers around libc, each call justified")]

use io_uring::{IoUring, opcode, types};
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Replaces the process by a program with these arguments, the first of which is its name. Returns only on failure, with the
/// error.
///
/// The standard library's function first resets SIGPIPE to its default: another thread that then writes to a connection that its
/// client has closed would end the process before it is replaced.
pub fn replace_process(program: &CStr, arguments: impl Iterator<Item = OsString>) -> io::Error {
    let arguments: Result<Vec<CString>, _> = arguments
        .map(|text| CString::new(text.into_vec()))
        .collect();
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let mut pointers: Vec<*const libc::c_char> =
        arguments.iter().map(|text| text.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: the program and each argument are strings that end with a zero and outlive the call; the list of pointers
    // ends with a null pointer.
    unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Event bits of epoll.
pub mod events {
    /// Readable.
    pub const IN: u32 = libc::EPOLLIN as u32;
    /// Writable.
    pub const OUT: u32 = libc::EPOLLOUT as u32;
    /// The peer has shut down its writing side.
    pub const RDHUP: u32 = libc::EPOLLRDHUP as u32;
    /// Both directions are closed.
    pub const HUP: u32 = libc::EPOLLHUP as u32;
    /// The socket has failed.
    pub const ERR: u32 = libc::EPOLLERR as u32;
    /// Edge-triggered reporting.
    pub const EDGE: u32 = libc::EPOLLET as u32;
}

/// An epoll set.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: `fd` was just returned by the kernel and has no other owner.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn control(&self, op: libc::c_int, fd: RawFd, events: u32, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: data };
        // SAFETY: `event` is a live local; the kernel copies it.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), op, fd, &raw mut event) }).map(drop)
    }

    /// Watches `fd` for `events` and reports them with `data`.
    pub fn add(&self, fd: RawFd, events: u32, data: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, data)
    }

    /// Changes the events for which a descriptor is watched.
    pub fn modify(&self, fd: RawFd, events: u32, data: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, data)
    }

    /// Waits for events, without limit if `timeout` is `None`. Returns the number of events
    /// stored in `into`; 0 after a timeout or a signal.
    pub fn wait(&self, into: &mut EventBuf, timeout: Option<Duration>) -> io::Result<usize> {
        let millis = timeout.map_or(-1, millis_up);
        let length = i32::try_from(into.0.len()).unwrap_or(i32::MAX);
        // SAFETY: `into.0` has at least `length` initialised entries, which the
        // kernel may overwrite; it outlives the call.
        let n =
            unsafe { libc::epoll_wait(self.0.as_raw_fd(), into.0.as_mut_ptr(), length, millis) };
        match check(n) {
            Ok(n) => Ok(usize::try_from(n).unwrap_or(0)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// Milliseconds for a system call, rounded up so that a wait never spins.
fn millis_up(timeout: Duration) -> libc::c_int {
    let millis = timeout.as_micros().div_ceil(1000);
    libc::c_int::try_from(millis).unwrap_or(libc::c_int::MAX)
}

/// Buffer for the events of one [`Epoll::wait`].
pub struct EventBuf(Vec<libc::epoll_event>);

impl EventBuf {
    /// A buffer for `n` events.
    pub fn new(n: usize) -> EventBuf {
        EventBuf(vec![libc::epoll_event { events: 0, u64: 0 }; n])
    }

    /// Bits and data of the event at `index`.
    pub fn get(&self, index: usize) -> Option<(u32, u64)> {
        self.0.get(index).map(|e| (e.events, e.u64))
    }
}

/// An eventfd, with which one thread wakes another that is in [`Epoll::wait`].
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A descriptor that has not been signalled.
    pub fn new() -> io::Result<EventFd> {
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: `fd` was just returned by the kernel and has no other owner.
        Ok(EventFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes the descriptor readable (once more).
    pub fn signal(&self) {
        let one: u64 = 1;
        // SAFETY: eight bytes of a live local are read. The result does not
        // matter: a full counter is readable already.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// An instance of io_uring that executes non-blocking sends; `None` after it has failed, because its
/// queue may still have operations whose bytes are gone.
pub struct Ring(Option<IoUring>);

impl Ring {
    /// An instance for up to `sends` sends at once.
    ///
    /// # Errors
    /// The kernel does not offer io_uring, or forbids it to this process.
    pub fn new(sends: u32) -> io::Result<Ring> {
        // The kernel goes on with the next operation after one that it refuses.
        let ring = IoUring::builder().setup_submit_all().build(sends)?;
        Ok(Ring(Some(ring)))
    }

    /// Sends the bytes to the sockets with one system call, without blocking. Stores in `results`,
    /// for each of them, the number of bytes accepted, or the error; `WouldBlock` if the socket is
    /// full or the send was not executed. All operations are complete when the call returns.
    ///
    /// # Errors
    /// io_uring failed, and all later calls fail. `results` is valid also then.
    pub fn send_all(
        &mut self,
        sends: &[(RawFd, &[u8])],
        results: &mut Vec<io::Result<usize>>,
    ) -> io::Result<()> {
        results.clear();
        results.resize_with(sends.len(), || Err(io::ErrorKind::WouldBlock.into()));
        let Some(ring) = &mut self.0 else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let mut queue = ring.submission();
        for (index, (fd, bytes)) in sends.iter().enumerate() {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let send = opcode::Send::new(types::Fd(*fd), bytes.as_ptr(), length)
                .flags(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
                .build()
                .user_data(index as u64);
            // SAFETY: the bytes are borrowed until this function returns, and until then the
            // operation has completed: `MSG_DONTWAIT` makes the kernel execute it, or fail it, while
            // it is submitted. An operation that was not submitted is dropped with the instance, below.
            if unsafe { queue.push(&send) }.is_err() {
                break;
            }
        }
        let queued = queue.len();
        drop(queue);
        let mut completed = 0;
        while completed < queued {
            let entered = ring.submit_and_wait(queued - completed);
            for completion in ring.completion() {
                completed += 1;
                let result = completion.result();
                let index = usize::try_from(completion.user_data()).unwrap_or(usize::MAX);
                if let Some(slot) = results.get_mut(index) {
                    *slot = usize::try_from(result)
                        .map_err(|_| io::Error::from_raw_os_error(result.saturating_neg()));
                }
            }
            match entered {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.0 = None;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// Waits until `fd` is writable or has failed; false at the timeout or after a signal.
pub fn wait_writable(fd: RawFd, timeout: Duration) -> io::Result<bool> {
    wait_for(fd, libc::POLLOUT, timeout)
}

/// Waits until `fd` is readable or has failed; false at the timeout or after a signal.
pub fn wait_readable(fd: RawFd, timeout: Duration) -> io::Result<bool> {
    wait_for(fd, libc::POLLIN, timeout)
}

fn wait_for(fd: RawFd, events: libc::c_short, timeout: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one live pollfd is passed, and its count is 1.
    match check(unsafe { libc::poll(&raw mut poll, 1, millis_up(timeout)) }) {
        Ok(n) => Ok(n > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

fn set_option(fd: RawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) {
    let size = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: a live local of the stated size is read. The result is ignored: a socket that
    // refuses the option is not probed.
    unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), size) };
}

/// Turns on TCP keep-alive, to learn whether a peer that has shut down its writing side still
/// exists. A peer that waits for replies acknowledges the probes. If the peer is gone, epoll reports
/// a hang-up: within seconds if its machine is down, otherwise when its kernel forgets the
/// connection (a minute on Linux; until then that kernel acknowledges the probes).
pub fn probe_peer(fd: RawFd) {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 1);
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 2);
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3);
    set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
}

/// Raises the soft limit of open files to the hard limit. Returns the limit in force.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a live local that the kernel fills.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    if limit.rlim_cur < limit.rlim_max {
        let before = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is a live local that the kernel reads.
        if check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).is_err() {
            return Ok(before);
        }
    }
    Ok(limit.rlim_cur)
}

/// A signalfd: signals like SIGTERM and SIGINT are read instead of interrupting a thread.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Takes SIGTERM, SIGINT and SIGHUP, see [`Signals::of`].
    pub fn take() -> io::Result<Signals> {
        Signals::of(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
    }

    /// Waits for SIGTERM or SIGINT, and calls a function at each SIGHUP.
    pub fn next_end(&self, reload: impl Fn()) -> io::Result<()> {
        while self.next_number()? == libc::SIGHUP {
            reload();
        }
        Ok(())
    }

    /// Blocks these signals for this thread and all threads that it starts from now on, and opens a
    /// signalfd for them.
    pub fn of(signals: &[libc::c_int]) -> io::Result<Signals> {
        // SAFETY: an all-zero sigset_t is valid memory for sigemptyset, which
        // initialises it; the calls only read and write this live local.
        let fd = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for &signal in signals {
                libc::sigaddset(&raw mut set, signal);
            }
            let error =
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC))?
        };
        // SAFETY: `fd` was just returned by the kernel and has no other owner.
        Ok(Signals(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Waits for the next signal.
    pub fn next(&self) -> io::Result<()> {
        self.next_number().map(drop)
    }

    /// Waits for the next signal, and returns its number.
    pub fn next_number(&self) -> io::Result<libc::c_int> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        loop {
            // SAFETY: the kernel writes at most `info.len()` bytes of a live
            // local byte array.
            let n = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), info.len()) };
            if n > 0 {
                // The structure begins with the number.
                let number = info.first_chunk().copied().unwrap_or_default();
                return Ok(u32::from_ne_bytes(number) as libc::c_int);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

/// Makes the process that `command` starts end when the thread that starts it ends.
pub fn end_with_parent(command: &mut Command) {
    // SAFETY: the closure runs between fork and exec and makes one system call, which is
    // async-signal-safe, passes no pointer and allocates nothing.
    unsafe {
        command.pre_exec(|| check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)).map(drop));
    }
}

/// Asks a child process that has not been waited for to end (SIGTERM).
pub fn terminate(process: u32) {
    if let Ok(process) = libc::pid_t::try_from(process) {
        // SAFETY: no pointers are passed. A process that has ended is not an error here.
        unsafe { libc::kill(process, libc::SIGTERM) };
    }
}

/// Kernel thread id (tid) of a thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(libc::pid_t);

/// Id of the current thread.
pub fn thread_id() -> ThreadId {
    // SAFETY: no pointers are passed.
    ThreadId(unsafe { libc::gettid() })
}

/// CPU time that a thread has used.
pub fn cpu_time(thread: ThreadId) -> io::Result<Duration> {
    // Clock id of a thread, as glibc's pthread_getcpuclockid builds it: the complement of the
    // thread id, shifted by 3, and the flags CPUCLOCK_PERTHREAD (4) and CPUCLOCK_SCHED (2).
    let clock = (!thread.0 << 3) | 6;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a live local that the kernel fills.
    check(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Ok(Duration::new(seconds, nanos))
}

/// The nice value of the current thread.
pub fn nice() -> i32 {
    // SAFETY: no pointers are passed. -1 is also a valid result.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// The kernel's `struct sched_attr`, version 0 (48 bytes).
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Sets the nice value and the time slice of a thread (`sched_setattr`).
fn set_scheduling(thread: libc::pid_t, nice: i32, slice: Duration) -> io::Result<()> {
    let attr = SchedAttr {
        size: 48,
        policy: libc::SCHED_OTHER.unsigned_abs(),
        flags: 0,
        nice,
        priority: 0,
        runtime: u64::try_from(slice.as_nanos()).unwrap_or(0),
        deadline: 0,
        period: 0,
    };
    // SAFETY: `attr` is a live local of the size that it states.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attr, 0) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Time slice requested for workers. From Linux 6.12 on (EEVDF), a woken thread whose slice is
/// shorter than the running thread's preempts it; older kernels ignore the slice.
const SLICE: Duration = Duration::from_micros(300);

/// Increment of the nice value for long-running calls, which leaves about a ninth of the CPU share.
const DEMOTION: i32 = 10;

/// Requests short time slices for the current thread, so that it runs soon after a wake-up.
pub fn shorten_slice() {
    // A kernel or sandbox may refuse the call; then scheduling does not change.
    let _ = set_scheduling(0, nice(), SLICE);
}

/// Time slice requested for calls that compute for long: a woken thread with a shorter slice
/// preempts them.
const LONG_SLICE: Duration = Duration::from_millis(10);

/// Requests long time slices for a thread.
pub fn lengthen_slice(thread: ThreadId) {
    // If the call is refused, scheduling does not change.
    let _ = set_scheduling(thread.0, nice(), LONG_SLICE);
}

/// Lowers the priority of a thread and requests long time slices.
pub fn demote(thread: ThreadId) {
    let nice = (nice() + DEMOTION).min(19);
    if set_scheduling(thread.0, nice, LONG_SLICE).is_err() {
        let id = libc::id_t::try_from(thread.0).unwrap_or(0);
        // SAFETY: no pointers are passed. If the call is refused, the priority stays.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, id, nice) };
    }
}

/// Restores the nice value `nice` and the short time slice after [`lengthen_slice`] or [`demote`].
/// Returns false if the system does not permit it.
pub fn restore(thread: ThreadId, nice: i32) -> bool {
    set_scheduling(thread.0, nice, SLICE).is_ok()
}
