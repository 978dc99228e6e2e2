//! Counting a server's calls of futex, by `perf` where it is installed and
//! allowed to look.

use crate::sys::{self, Signal};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A count in progress.
pub struct Count(Child);

impl Count {
    /// Begins; `None` where it cannot be counted.
    pub fn begin(pid: u32) -> Option<Count> {
        let mut child = Command::new("perf")
            .args(["stat", "-x", ",", "-e", "syscalls:sys_enter_futex", "-p"])
            .arg(pid.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        std::thread::sleep(Duration::from_millis(150));
        match child.try_wait() {
            Ok(None) => Some(Count(child)),
            _ => None,
        }
    }

    /// Ends; the number of calls.
    pub fn end(mut self) -> Option<f64> {
        sys::signal(&self.0, Signal::Interrupt);
        let mut said = String::new();
        self.0.stderr.take()?.read_to_string(&mut said).ok()?;
        self.0.wait().ok()?;
        calls_in(&said)
    }
}

fn calls_in(said: &str) -> Option<f64> {
    let line = said.lines().find(|l| l.contains("sys_enter_futex"))?;
    line.split(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read() {
        let said = "1234,,syscalls:sys_enter_futex,8,100.00,,\n";
        assert_eq!(calls_in(said), Some(1234.0));
        assert_eq!(calls_in("<not supported>,,syscalls:sys_enter_futex"), None);
    }
}
