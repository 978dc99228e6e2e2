//! The system calls that the standard library lacks: readiness of many
//! sockets, signals, children that end with us, and processor time.

mod affinity;
mod fork;
mod shared;

pub use affinity::{Processors, cores};
pub use fork::Forked;
pub use shared::SharedCounter;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Readiness of a socket that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Readable.
    Read,
    /// Readable or writable.
    ReadWrite,
}

impl Interest {
    fn bits(self) -> u32 {
        let bits = match self {
            Interest::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
            Interest::ReadWrite => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLOUT,
        };
        bits.cast_unsigned()
    }
}

/// A set of sockets whose readiness is waited for together.
#[derive(Debug)]
pub struct Poll {
    set: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poll {
    /// Creates an empty set that reports at most `at_once` sockets at once.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(at_once: usize) -> std::io::Result<Poll> {
        // SAFETY: no memory of ours is passed; the descriptor it returns is new and ours alone.
        let set = unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 {
                return Err(std::io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let empty = libc::epoll_event { events: 0, u64: 0 };
        Ok(Poll {
            set,
            events: vec![empty; at_once.max(1)],
        })
    }

    /// Adds a socket, identified by `token`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add(&self, fd: RawFd, token: usize, interest: Interest) -> std::io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes the readiness for which a socket is waited for.
    ///
    /// # Errors
    /// The kernel's.
    pub fn change(&self, fd: RawFd, token: usize, interest: Interest) -> std::io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    fn control(
        &self,
        what: libc::c_int,
        fd: RawFd,
        token: usize,
        interest: Interest,
    ) -> std::io::Result<()> {
        let mut event = libc::epoll_event {
            events: interest.bits(),
            u64: token as u64,
        };
        // SAFETY: the event lives across the call, which only reads it.
        let done = unsafe { libc::epoll_ctl(self.set.as_raw_fd(), what, fd, &raw mut event) };
        if done < 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    }

    /// Waits until a socket is ready or the time is over, and calls `ready`
    /// with the token of each that is.
    ///
    /// # Errors
    /// The kernel's; an interruption is not an error.
    pub fn wait(&mut self, time: Duration, mut ready: impl FnMut(usize)) -> std::io::Result<()> {
        let room = libc::c_int::try_from(self.events.len()).unwrap_or(libc::c_int::MAX);
        let mut time = time;
        if !time.subsec_nanos().is_multiple_of(1_000_000) {
            // epoll counts milliseconds.
            self.sleep_until_ready(time)?;
            time = Duration::ZERO;
        }
        let time = libc::c_int::try_from(time.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: the kernel writes at most `room` events, which is how many there is space for.
        let count =
            unsafe { libc::epoll_wait(self.set.as_raw_fd(), self.events.as_mut_ptr(), room, time) };
        let Ok(count) = usize::try_from(count) else {
            let error = std::io::Error::last_os_error();
            return match error.kind() {
                std::io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            };
        };
        for event in self.events.iter().take(count) {
            ready(usize::try_from(event.u64).unwrap_or(usize::MAX));
        }
        Ok(())
    }

    /// Sleeps until a socket is ready or the time is over, to the nanosecond.
    fn sleep_until_ready(&self, time: Duration) -> std::io::Result<()> {
        let mut set = libc::pollfd {
            fd: self.set.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let time = libc::timespec {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(time.subsec_nanos().cast_signed()),
        };
        // SAFETY: the kernel reads and writes one pollfd and reads one timespec, which live across
        // the call; no signal mask is given.
        let done = unsafe { libc::ppoll(&raw mut set, 1, &raw const time, std::ptr::null()) };
        if done >= 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        match error.kind() {
            std::io::ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        }
    }
}

/// Makes the calling thread wake up from sleeps on time: the kernel's usual timer slack of 50 us would be
/// part of each latency that is measured from the time at which a request is due.
pub fn wake_on_time() {
    // SAFETY: plain numbers.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}

/// A signal to a server that we started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Shut down.
    Terminate,
    /// Shut down at once (PostgreSQL's fast shutdown).
    Interrupt,
    /// End.
    Kill,
}

/// Sends a signal to a child that was not yet waited for.
pub fn signal(child: &std::process::Child, signal: Signal) {
    let Ok(pid) = libc::pid_t::try_from(child.id()) else {
        return;
    };
    let number = match signal {
        Signal::Terminate => libc::SIGTERM,
        Signal::Interrupt => libc::SIGINT,
        Signal::Kill => libc::SIGKILL,
    };
    // SAFETY: plain numbers; the child was not waited for, so its number is still its own.
    unsafe {
        libc::kill(pid, number);
    }
}

/// Makes the command's process end when the thread that starts it ends, so
/// that no server outlives an experiment that was killed.
///
/// It gets a process group of its own: Ctrl-C at a terminal is for the
/// experiment, which stops its servers itself. The session, by which the kernel
/// shares out the processors, stays the same.
pub fn end_with_us(command: &mut Command) {
    command.process_group(0);
    // SAFETY: between fork and exec one system call is made, which is safe there; nothing is
    // allocated and no lock is taken.
    unsafe {
        command.pre_exec(|| {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
}

/// Whether this process is root's.
pub fn is_root() -> bool {
    // SAFETY: no arguments, always succeeds.
    unsafe { libc::geteuid() == 0 }
}

/// The user and group of a name of the system's.
pub fn user(name: &str) -> Option<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        let user = fields.nth(1)?.parse().ok()?;
        Some((user, fields.next()?.parse().ok()?))
    })
}

/// Clock ticks a second in which the kernel counts processor time.
pub fn ticks_per_second() -> f64 {
    // SAFETY: a plain number in, a plain number out.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

/// Processor time of the calling thread.
#[cfg(test)]
fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec, which is there.
    unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
    }
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Processor time in nanoseconds of a process, all its threads together, those
/// that have ended too; `None` if there is no such process.
pub fn process_nanos(pid: u32) -> Option<u64> {
    // Linux has no greater ones, and a clock's number has no room for them.
    const GREATEST: libc::pid_t = 1 << 22;
    let pid = libc::pid_t::try_from(pid).ok();
    let pid = pid.filter(|pid| (1..=GREATEST).contains(pid))?;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the library writes one clock's number, the kernel one timespec; both are there.
    let is_told = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanos = u64::try_from(time.tv_nsec).ok()?;
    is_told.then(|| seconds * 1_000_000_000 + nanos)
}

/// The beginning of the kernel's `perf_event_attr`, as its first version had it.
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_kind: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    address: u64,
}

/// Counts of the kernel's events in one thread, outside of the kernel.
struct Counter(OwnedFd);

impl Counter {
    /// A count of an event from now on, in the calling thread.
    fn of_this_thread(kind: u32, config: u64) -> std::io::Result<Counter> {
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
        let attributes = EventAttributes {
            kind,
            size: size_of::<EventAttributes>() as u32,
            config,
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
            ..EventAttributes::default()
        };
        let (this_thread, any_core, no_group, no_flags) = (0, -1, -1, 0u64);
        // SAFETY: the kernel reads as many bytes of the attributes as their
        // size says, which are there; the rest are plain numbers.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                this_thread,
                any_core,
                no_group,
                no_flags,
            )
        };
        match RawFd::try_from(fd) {
            // SAFETY: the descriptor was created just now and has no other owner.
            Ok(fd) if fd >= 0 => Ok(Counter(unsafe { OwnedFd::from_raw_fd(fd) })),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    fn read(&self) -> Option<u64> {
        let mut bytes = [0; 8];
        // SAFETY: the kernel writes at most eight bytes, which are there.
        let read =
            unsafe { libc::read(self.0.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        (read == 8).then(|| u64::from_ne_bytes(bytes))
    }
}

/// Counts the instructions of one thread, outside of the kernel.
pub struct Instructions(Counter);

impl Instructions {
    /// A count for the calling thread, from now on; `None` if the machine does not
    /// count instructions (many virtual ones do not), or does not permit it.
    pub fn of_this_thread() -> Option<Instructions> {
        const HARDWARE: u32 = 0;
        const INSTRUCTIONS: u64 = 1;
        let counter = Counter::of_this_thread(HARDWARE, INSTRUCTIONS);
        counter.ok().map(Instructions)
    }

    /// Number of instructions.
    pub fn read(&self) -> Option<u64> {
        self.0.read()
    }
}

/// Raises the limit of open files to what is allowed.
pub fn allow_many_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes and reads one rlimit, which is there.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Hard limit of open files of this process.
pub fn open_files() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one rlimit, which is there.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if done == 0 { limit.rlim_max } else { 1024 }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_interrupt(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// From now on Ctrl-C, SIGTERM and a closed terminal are only recorded, once each: a second one ends
/// the process as usual.
pub fn catch_interrupts() {
    // SAFETY: the handler stores one atomic flag, which is safe in a handler; the struct is
    // zeroed, which is a valid value, and lives across the calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_interrupt as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaction(number, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Whether one of these signals has arrived.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_ready_socket_is_told_by_its_token() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let mut poll = Poll::new(4).unwrap();
        poll.add(far.as_raw_fd(), 17, Interest::Read).unwrap();
        let mut ready = Vec::new();
        poll.wait(Duration::from_millis(1), |t| ready.push(t))
            .unwrap();
        assert!(ready.is_empty());
        near.write_all(b"x").unwrap();
        poll.wait(Duration::from_secs(5), |t| ready.push(t))
            .unwrap();
        assert_eq!(ready, [17]);
        poll.change(far.as_raw_fd(), 18, Interest::ReadWrite)
            .unwrap();
        poll.wait(Duration::from_secs(5), |t| ready.push(t))
            .unwrap();
        assert_eq!(ready, [17, 18]);
    }

    #[test]
    fn processor_time_grows_with_work() {
        let before = thread_time();
        let mut n = 1u64;
        while thread_time() == before {
            n = std::hint::black_box(n.wrapping_mul(3));
        }
        assert!(thread_time() > before);
        assert!(ticks_per_second() >= 1.0);
    }

    #[test]
    fn a_process_is_timed_finer_than_the_kernels_ticks() {
        let me = std::process::id();
        let before = process_nanos(me).unwrap();
        let worker = std::thread::spawn(|| {
            let begun = thread_time();
            while thread_time() - begun < Duration::from_millis(3) {}
        });
        worker.join().unwrap();
        // The thread has ended, and counts.
        assert!(process_nanos(me).unwrap() - before >= 3_000_000);
        assert_eq!(process_nanos(u32::MAX >> 2), None);
    }

    #[test]
    fn events_of_a_thread_are_counted() {
        const SOFTWARE: u32 = 1;
        const TASK_CLOCK: u64 = 1;
        let Ok(counter) = Counter::of_this_thread(SOFTWARE, TASK_CLOCK) else {
            // Not allowed here; then instructions are not counted either.
            assert!(Instructions::of_this_thread().is_none());
            return;
        };
        let before = counter.read().unwrap();
        let begun = thread_time();
        while thread_time() - begun < Duration::from_millis(2) {}
        assert!(counter.read().unwrap() - before >= 1_000_000);
    }

    #[test]
    fn users_are_found_by_name() {
        assert_eq!(user("root"), Some((0, 0)));
        assert_eq!(user("no such user"), None);
    }
}
