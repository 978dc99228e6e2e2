//! A server's process: its output in a file, stopped when dropped.

use super::Settings;
use crate::error::{Error, Result};
use crate::sys::{self, Signal};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time within which a server must start.
const START: Duration = Duration::from_secs(60);

/// Time within which it must stop before it is killed.
const STOP: Duration = Duration::from_secs(20);

/// A running server with its directory.
#[derive(Debug)]
pub struct Server {
    name: &'static str,
    child: Child,
    stop: Signal,
    output: PathBuf,
    // Last, so that the process is gone before its files are removed.
    directory: tempfile::TempDir,
}

/// A directory for a server's files.
pub fn directory(settings: &Settings, name: &str) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix(&format!("porpoise-bench-{name}-"))
        .tempdir_in(&settings.directory)
        .map_err(|e| Error::failed(format!("{}: {e}", settings.directory.display())))
}

impl Server {
    /// Starts a command, with its output in the directory.
    pub fn start(
        name: &'static str,
        mut command: Command,
        directory: tempfile::TempDir,
        stop: Signal,
    ) -> Result<Server> {
        let output = directory.path().join("output");
        let file = File::create(&output)?;
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        sys::end_with_us(&mut command);
        let child = command
            .spawn()
            .map_err(|e| Error::failed(format!("{name}: cannot be started: {e}")))?;
        Ok(Server {
            name,
            child,
            stop,
            output,
            directory,
        })
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Output so far.
    pub fn output(&self) -> String {
        let bytes = std::fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until `ready` returns a value.
    ///
    /// # Errors
    /// The process ended, or the time was over; the error has its last line.
    pub fn wait<T>(&mut self, mut ready: impl FnMut(&Server) -> Option<T>) -> Result<T> {
        let end = Instant::now() + START;
        loop {
            let ended = self.has_ended();
            if let Some(found) = ready(self) {
                return Ok(found);
            }
            let what = match (ended, Instant::now() > end) {
                (true, _) => "ended before it was ready",
                (false, true) => "was not ready in time",
                (false, false) => {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
            };
            let output = self.output();
            let last = output.lines().rev().find(|line| !line.trim().is_empty());
            let last = last.unwrap_or("it printed nothing");
            return Err(Error::failed(format!("{} {what}: {last}", self.name)));
        }
    }

    /// Returns the directory after the end of the process, for another attempt.
    pub fn into_directory(mut self) -> Result<tempfile::TempDir> {
        self.end();
        let fresh = tempfile::Builder::new()
            .prefix("porpoise-bench-")
            .tempdir_in(self.directory.path().parent().unwrap_or("/tmp".as_ref()))?;
        Ok(std::mem::replace(&mut self.directory, fresh))
    }

    fn end(&mut self) {
        if self.has_ended() {
            return;
        }
        sys::signal(&self.child, self.stop);
        let end = Instant::now() + STOP;
        while Instant::now() < end {
            if self.has_ended() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        sys::signal(&self.child, Signal::Kill);
        // Killed: its exit status is irrelevant.
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Durability;
    use super::*;

    fn settings(home: &tempfile::TempDir) -> Settings {
        Settings {
            durability: Durability::Sync,
            directory: home.path().to_owned(),
            porpoise: PathBuf::new(),
            preload: None,
            binary_log: false,
            processors: None,
        }
    }

    #[test]
    fn a_server_that_ends_tells_its_last_line() {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo starting; echo cannot bind; exit 1"]);
        let directory = directory(&settings(&home), "x").unwrap();
        let mut server = Server::start("x", command, directory, Signal::Terminate).unwrap();
        let error = server.wait(|_| None::<()>).unwrap_err();
        assert_eq!(error.message, "x ended before it was ready: cannot bind");
    }

    #[test]
    fn dropping_ends_the_process_and_removes_its_files() {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new("sleep");
        command.arg("100");
        let directory = directory(&settings(&home), "x").unwrap();
        let server = Server::start("x", command, directory, Signal::Terminate).unwrap();
        let pid = server.id();
        assert!(crate::procfs::server_time(pid).is_some());
        drop(server);
        assert!(crate::procfs::server_time(pid).is_none());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
