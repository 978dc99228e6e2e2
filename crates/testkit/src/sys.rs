//! System calls for processes: signals to a process group, and children that end with this program.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A signal that a test sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ends the process at once.
    Kill,
    /// SIGTERM: a request to shut down.
    Terminate,
    /// SIGSTOP: the process does nothing until [`Signal::Continue`].
    Stop,
    /// SIGCONT.
    Continue,
}

/// Sends a signal to the process group of `leader`. A group that no longer exists is not an error.
pub fn signal_group(leader: u32, signal: Signal) {
    let Ok(leader) = libc::pid_t::try_from(leader) else {
        return;
    };
    let number = match signal {
        Signal::Kill => libc::SIGKILL,
        Signal::Terminate => libc::SIGTERM,
        Signal::Stop => libc::SIGSTOP,
        Signal::Continue => libc::SIGCONT,
    };
    // SAFETY: `kill` takes plain numbers and touches no memory of ours. The leader is a child that
    // this program started and has not yet waited for to its end, so its group's number cannot
    // have been given to another.
    unsafe {
        libc::kill(-leader, number);
    }
}

/// Whether this program runs as root.
pub fn is_root() -> bool {
    // SAFETY: `geteuid` has no arguments and always succeeds.
    unsafe { libc::geteuid() == 0 }
}

/// A command to start, and the channel for the result.
type Job = (Command, Sender<std::io::Result<Child>>);

/// Starts a command in a process group of its own that dies with this program.
///
/// The kernel kills such a child when the thread that started it ends. The test runner's threads end
/// with their tests, so a thread that never ends starts all children.
pub fn spawn(command: Command) -> std::io::Result<Child> {
    static STARTER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (jobs, incoming) = channel();
        std::thread::spawn(move || start_all(&incoming));
        Mutex::new(jobs)
    });
    let (reply, answer) = channel();
    let gone = || std::io::Error::other("the thread that starts processes is gone");
    starter
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send((command, reply))
        .map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

/// Starts a command. Its program may have just been written: a child that another thread has started meanwhile keeps it open for
/// writing until it executes its own program.
fn start_when_written(command: &mut Command) -> std::io::Result<Child> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match command.spawn() {
            Err(e) if e.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            outcome => return outcome,
        }
    }
}

/// Starts the commands that arrive; runs in the thread.
fn start_all(incoming: &Receiver<Job>) {
    while let Ok((mut command, reply)) = incoming.recv() {
        command.process_group(0);
        // SAFETY: the closure runs in the forked child before exec and makes a single system call,
        // which is safe there; it allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(|| {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0 {
                    Ok(())
                } else {
                    Err(std::io::Error::last_os_error())
                }
            });
        }
        // The receiver waits for this answer; if its thread has ended, the answer is not needed.
        let _ = reply.send(start_when_written(&mut command));
    }
}
