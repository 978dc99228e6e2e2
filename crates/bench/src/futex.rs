//! Counts a server's futex calls, with `perf` if it is installed and permitted,
//! otherwise with `strace`, which slows the server more. Because the count is per request,
//! this matters little.

use crate::sys::{self, Signal};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time that a tool needs to attach to all threads of a server.
const ATTACH: Duration = Duration::from_millis(200);

/// A tool that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `perf stat`.
    Perf,
    /// `strace -c`.
    Strace,
}

impl Tool {
    /// The tool that can count the calls of a process on this machine.
    ///
    /// # Errors
    /// One line: the reason why no tool can.
    pub fn find(pid: u32) -> Result<Tool, String> {
        let mut reasons = Vec::new();
        for tool in [Tool::Perf, Tool::Strace] {
            match Count::begin(tool, pid).and_then(Count::end) {
                Ok(_) => return Ok(tool),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(format!("futex calls not counted: {}", reasons.join("; ")))
    }

    fn name(self) -> &'static str {
        match self {
            Tool::Perf => "perf",
            Tool::Strace => "strace",
        }
    }

    fn command(self, pid: u32) -> Command {
        let mut command = Command::new(self.name());
        match self {
            Tool::Perf => {
                command.args(["stat", "-x", ",", "-e", "syscalls:sys_enter_futex", "-p"]);
            }
            Tool::Strace => {
                command.args(["-f", "-c", "-qq", "-e", "trace=futex", "-p"]);
            }
        }
        command.arg(pid.to_string());
        command
    }

    /// The number of calls in a tool's output.
    fn calls(self, said: &str) -> Option<f64> {
        match self {
            Tool::Perf => {
                let line = said.lines().find(|l| l.contains("sys_enter_futex"))?;
                match line.split(',').next()?.trim() {
                    // The server made no call.
                    "<not counted>" => Some(0.0),
                    count => count.parse().ok(),
                }
            }
            Tool::Strace => {
                if said.contains("attach") {
                    return None;
                }
                let line = said.lines().find(|l| l.trim_end().ends_with(" futex"));
                line.map_or(Some(0.0), |l| l.split_whitespace().nth(3)?.parse().ok())
            }
        }
    }
}

/// A count in progress.
pub struct Count {
    tool: Tool,
    child: Child,
}

impl Count {
    /// Begins a count.
    ///
    /// # Errors
    /// One line: the reason why it cannot be counted.
    pub fn begin(tool: Tool, pid: u32) -> Result<Count, String> {
        let mut command = tool.command(pid);
        sys::end_with_us(&mut command);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", tool.name()))?;
        std::thread::sleep(ATTACH);
        Ok(Count { tool, child })
    }

    /// Ends the count. Returns the number of calls.
    ///
    /// # Errors
    /// One line: the reason why they were not counted.
    pub fn end(mut self) -> Result<f64, String> {
        let name = self.tool.name();
        let has_ended = !matches!(self.child.try_wait(), Ok(None));
        sys::signal(&self.child, Signal::Interrupt);
        let mut output = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_string(&mut output)
                .map_err(|e| format!("{name}: {e}"))?;
        }
        self.child.wait().map_err(|e| format!("{name}: {e}"))?;
        let calls = self.tool.calls(&output).filter(|_| !has_ended);
        calls.ok_or_else(|| {
            let line = output.lines().find(|l| !l.trim().is_empty());
            format!("{name}: {}", line.unwrap_or("it printed nothing").trim())
        })
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        // If the measured run did not start, the tool is still attached and slows the server down.
        if matches!(self.child.try_wait(), Ok(None)) {
            sys::signal(&self.child, Signal::Terminate);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let calls = |said| Tool::Perf.calls(said);
        assert_eq!(
            calls("1234,,syscalls:sys_enter_futex,8,100.00,,\n"),
            Some(1234.0)
        );
        assert_eq!(
            calls("<not counted>,,syscalls:sys_enter_futex,0"),
            Some(0.0)
        );
        assert_eq!(calls("<not supported>,,syscalls:sys_enter_futex"), None);
        assert_eq!(calls("No permission"), None);
        let calls = |said| Tool::Strace.calls(said);
        let output = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.000021          10       321        17 futex\n";
        assert_eq!(calls(output), Some(321.0));
        assert_eq!(calls(""), Some(0.0));
        assert_eq!(
            calls("strace: attach: ptrace(PTRACE_SEIZE, 1): not permitted"),
            None
        );
    }

    #[test]
    fn a_process_that_is_not_there_is_one_line() {
        let reason = Tool::find(u32::MAX >> 2).unwrap_err();
        assert!(
            reason.starts_with("futex calls not counted: perf: "),
            "{reason}"
        );
        assert!(!reason.contains('\n'), "{reason}");
    }
}
