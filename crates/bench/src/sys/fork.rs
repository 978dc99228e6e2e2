//! Forked processes: a child that works on a copy of this process and returns bytes.
//!
//! 1. Only a process with a single thread is forked: a lock that another thread holds at that
//!    moment would stay locked in the child for ever. [`Forked::start`] checks it.
//! 2. The child ends when its parent does, and never returns into the caller's code.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Time within which ended threads must disappear from the kernel's list.
const SETTLE: Duration = Duration::from_secs(2);

/// A child process.
#[derive(Debug)]
pub struct Forked {
    pid: libc::pid_t,
    output: File,
    is_waited_for: bool,
}

/// Number of this process's threads.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(usize::MAX, Iterator::count)
}

impl Forked {
    /// Starts a child that does the work and sends the bytes that it returns.
    ///
    /// # Errors
    /// This process has other threads, or the kernel refused.
    pub fn start(work: impl FnOnce() -> Vec<u8>) -> Result<Forked> {
        let until = Instant::now() + SETTLE;
        while threads() != 1 {
            if Instant::now() > until {
                let text = "a process with several threads cannot be forked";
                return Err(Error::new(ErrorKind::Unsupported, text));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (output, input) = pipe()?;
        // SAFETY: this is the only thread (checked above), so no lock is held by one that the child
        // lacks; the child ends in `_exit` below.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last_os_error()),
            0 => {
                drop(output);
                run_child(work, input)
            }
            pid => Ok(Forked {
                pid,
                output: File::from(output),
                is_waited_for: false,
            }),
        }
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// Whether the child has ended.
    pub fn has_ended(&mut self) -> bool {
        self.is_waited_for || self.wait(libc::WNOHANG)
    }

    /// Waits for the child; the bytes that it sent.
    ///
    /// # Errors
    /// The pipe's.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.output.read_to_end(&mut bytes)?;
        if !self.is_waited_for {
            self.wait(0);
        }
        Ok(bytes)
    }

    fn wait(&mut self, flags: libc::c_int) -> bool {
        // SAFETY: the child was not waited for yet, so the number is its own; no status is requested.
        let found = unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), flags) };
        self.is_waited_for = found == self.pid;
        self.is_waited_for
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if !self.is_waited_for {
            // SAFETY: plain numbers; the child was not waited for, so its number is still its own.
            unsafe {
                libc::kill(self.pid, libc::SIGKILL);
            }
            self.wait(0);
        }
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, for which there is space; both are new and ours.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(Error::last_os_error());
        }
        let [read, write] = ends;
        Ok((OwnedFd::from_raw_fd(read), OwnedFd::from_raw_fd(write)))
    }
}

/// Runs the child to its end.
fn run_child(work: impl FnOnce() -> Vec<u8>, input: OwnedFd) -> ! {
    // SAFETY: plain numbers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    let done = catch_unwind(AssertUnwindSafe(|| {
        let bytes = work();
        File::from(input).write_all(&bytes).is_ok()
    }));
    let status = libc::c_int::from(!matches!(done, Ok(true)));
    // SAFETY: ends this process without the parent's destructors and buffers.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_several_threads_is_not_forked() {
        // The test's own thread runs beside the harness's.
        let refused = Forked::start(Vec::new).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
    }
}
