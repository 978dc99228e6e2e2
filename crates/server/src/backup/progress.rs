//! Progress: counters for status variables, and lines for people.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes done, of how many.
#[derive(Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Begins work on a number of bytes.
    pub fn begin(&self, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Adds to the bytes done.
    pub fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Nothing is being done.
    pub fn end(&self) {
        self.begin(0);
    }

    /// Bytes done and in total; zeroes if nothing is being done.
    pub fn get(&self) -> (u64, u64) {
        let total = self.total.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed).min(total), total)
    }
}

/// Prints progress on standard error: a bar on a terminal, else a line now and then.
pub struct Bar {
    label: &'static str,
    quiet: bool,
    is_terminal: bool,
    start: Instant,
    last: Instant,
}

impl Bar {
    /// Begins; quiet prints nothing.
    pub fn new(label: &'static str, quiet: bool) -> Bar {
        let now = Instant::now();
        Bar {
            label,
            quiet,
            is_terminal: std::io::stderr().is_terminal(),
            start: now,
            last: now,
        }
    }

    /// Shows the state, if it was not shown just before.
    pub fn show(&mut self, done: u64, total: u64) {
        let pause = if self.is_terminal {
            Duration::from_millis(200)
        } else {
            Duration::from_secs(5)
        };
        if self.quiet || self.last.elapsed() < pause {
            return;
        }
        self.last = Instant::now();
        let line = self.line(done, total);
        let mut out = std::io::stderr().lock();
        let _ = if self.is_terminal {
            write!(out, "\r{line}\x1b[K")
        } else {
            writeln!(out, "{line}")
        };
    }

    fn line(&self, done: u64, total: u64) -> String {
        let percent = done * 100 / total.max(1);
        let filled = usize::try_from(percent / 5).unwrap_or(20).min(20);
        let seconds = self.start.elapsed().as_secs_f64().max(0.001);
        let rate = done as f64 / seconds / 1e6;
        let (mb, all) = (done as f64 / 1e6, total as f64 / 1e6);
        format!(
            "{}: [{:20}] {percent} % {mb:.0} of {all:.0} MB, {rate:.0} MB/s",
            self.label,
            "#".repeat(filled)
        )
    }

    /// Removes the bar.
    pub fn end(&self) {
        if self.is_terminal && !self.quiet {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
