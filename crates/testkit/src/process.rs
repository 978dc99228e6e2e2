//! A child process with its output in files, killed with its group when dropped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::fail;
use crate::sys::{self, Signal};

/// Maximum number of bytes of a log that are printed when a test panics.
const PRINTED_TAIL: usize = 16 * 1024;

/// Calls `ready` every few milliseconds until it returns `Some`; returns `None` after `time`.
pub fn wait_until<T>(time: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + time;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(value) = ready() {
            return Some(value);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// A running server process.
pub struct Process {
    name: String,
    child: Child,
    status: Option<ExitStatus>,
    stdout: PathBuf,
    stderr: PathBuf,
    /// Bytes in the file of standard error that earlier processes have written.
    earlier: usize,
}

impl Process {
    /// Starts `command`, named `name` in messages, with its output in `directory`.
    ///
    /// Its standard input stays open, and empty, as long as this handle exists. A missing program
    /// fails the test with `remedy`.
    pub fn start(name: &str, mut command: Command, directory: &Path, remedy: &str) -> Self {
        let stdout = directory.join(format!("{name}.stdout"));
        let stderr = directory.join(format!("{name}.stderr"));
        let earlier = std::fs::metadata(&stderr).map_or(0, |file| file.len() as usize);
        command
            .stdin(Stdio::piped())
            .stdout(create(name, &stdout))
            .stderr(create(name, &stderr));
        let program = command.get_program().to_string_lossy().into_owned();
        let child = match sys::spawn(command) {
            Ok(child) => child,
            Err(error) => fail(
                name,
                format_args!("cannot run `{program}`: {error}; {remedy}"),
            ),
        };
        Self {
            name: name.to_owned(),
            child,
            status: None,
            stdout,
            stderr,
            earlier,
        }
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Standard error of this process, without that of an earlier one with the same name and directory.
    pub fn own_stderr(&self) -> String {
        let bytes = std::fs::read(&self.stderr).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(self.earlier..).unwrap_or_default()).into_owned()
    }

    /// Both outputs, for messages.
    pub fn log(&self) -> String {
        format!("{}{}", self.stdout(), self.stderr())
    }

    /// Exit status, if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap_or(None);
        }
        self.status
    }

    /// Waits until `ready` returns `Some`. Fails the test if the process ends first, or after `time`.
    pub fn wait_ready<T>(
        &mut self,
        time: Duration,
        mut ready: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        let outcome = wait_until(time, || {
            // Checked before `ready`, so that output written just before the end is seen.
            let ended = self.ended();
            match (ready(self), ended) {
                (Some(value), _) => Some(Ok(value)),
                (None, Some(status)) => Some(Err(status)),
                (None, None) => None,
            }
        });
        match outcome {
            Some(Ok(value)) => value,
            Some(Err(status)) => fail(
                &self.name,
                format_args!("ended before it was ready ({status})\n{}", self.log()),
            ),
            None => fail(
                &self.name,
                format_args!("not ready after {time:?}\n{}", self.log()),
            ),
        }
    }

    /// Sends a signal to the process group, unless the process has ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            sys::signal_group(self.child.id(), signal);
        }
    }

    /// Kills the group and waits for its leader.
    pub fn kill(&mut self) {
        if self.status.is_none() {
            // The process has not been waited for, so its group id has not been reused, even if the
            // process has ended and only others of the group still run.
            sys::signal_group(self.child.id(), Signal::Kill);
            self.status = self.child.wait().ok();
        }
    }

    /// Waits for the end of the process. Fails the test after `time`.
    pub fn wait_end(&mut self, time: Duration) -> ExitStatus {
        match wait_until(time, || self.ended()) {
            Some(status) => status,
            None => fail(
                &self.name,
                format_args!("still running after {time:?}\n{}", self.log()),
            ),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- {}: its last output ---", self.name);
            eprintln!("{}", tail(&self.log()));
        }
    }
}

/// Returns the last [`PRINTED_TAIL`] bytes.
fn tail(text: &str) -> &str {
    let mut start = text.len().saturating_sub(PRINTED_TAIL);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}

/// Opens a log for appending, so that a restarted server continues it.
fn create(name: &str, path: &Path) -> File {
    match File::options().create(true).append(true).open(path) {
        Ok(file) => file,
        Err(error) => fail(
            name,
            format_args!("cannot write {}: {error}", path.display()),
        ),
    }
}

fn read(path: &Path) -> String {
    std::fs::read(path).map_or_else(
        |_| String::new(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

/// Creates a directory for a server's files, which is removed when the returned handle is dropped.
pub fn directory(name: &str) -> tempfile::TempDir {
    let created = tempfile::Builder::new()
        .prefix(&format!("porpoise-{name}-"))
        .tempdir();
    match created {
        Ok(directory) => directory,
        Err(error) => fail(
            name,
            format_args!("cannot make a temporary directory: {error}"),
        ),
    }
}

/// Runs a command and returns its standard output. If the command fails, the test fails with its
/// output.
pub fn run(name: &str, command: &mut Command, remedy: &str) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).output() {
        Err(error) => fail(
            name,
            format_args!("cannot run `{program}`: {error}; {remedy}"),
        ),
        Ok(done) if done.status.success() => String::from_utf8_lossy(&done.stdout).into_owned(),
        Ok(done) => fail(
            name,
            format_args!(
                "`{program}` failed ({})\n{}{}",
                done.status,
                String::from_utf8_lossy(&done.stdout),
                String::from_utf8_lossy(&done.stderr)
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_installed_ends_the_test_with_the_remedy() {
        let started = std::thread::spawn(|| {
            let home = directory("absent");
            let command = Command::new("no-such-program-anywhere");
            Process::start("absent", command, home.path(), "run `make needs`")
        });
        let panicked = started.join().map(drop).unwrap_err();
        let message = panicked.downcast_ref::<String>().unwrap();
        assert!(message.contains("no-such-program-anywhere"), "{message}");
        assert!(message.contains("run `make needs`"), "{message}");
    }

    #[test]
    fn a_server_that_is_never_ready_ends_the_test_in_time() {
        let started = std::thread::spawn(|| {
            let home = directory("sleeper");
            let mut command = Command::new("sleep");
            command.arg("1000");
            let mut process = Process::start("sleeper", command, home.path(), "");
            process.wait_ready(Duration::from_millis(50), |_| None::<()>);
        });
        let panicked = started.join().unwrap_err();
        let message = panicked.downcast_ref::<String>().unwrap();
        assert!(message.contains("not ready after"), "{message}");
    }
}
