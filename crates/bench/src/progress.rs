//! Progress output: a line for each run, and on a terminal a
//! bar below them.

use crate::report::{Cell, Run};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Writes to standard error, so that standard output holds results alone.
#[derive(Debug)]
pub struct Progress {
    is_terminal: bool,
    is_quiet: bool,
    title: String,
    total: usize,
    done: usize,
    began: Instant,
}

impl Progress {
    /// A bar where standard error is a terminal.
    pub fn new() -> Progress {
        Progress {
            is_terminal: std::io::stderr().is_terminal(),
            is_quiet: false,
            title: String::new(),
            total: 0,
            done: 0,
            began: Instant::now(),
        }
    }

    /// Prints nothing, for tests.
    pub fn quiet() -> Progress {
        Progress {
            is_terminal: false,
            is_quiet: true,
            ..Progress::new()
        }
    }

    /// Begins an experiment.
    pub fn begin(&mut self, title: &str) {
        title.clone_into(&mut self.title);
        self.total = 0;
        self.done = 0;
        self.began = Instant::now();
        self.say(&format!("== {title}"));
    }

    /// Announces a number of runs of a duration.
    pub fn expect(&mut self, runs: usize, each: Duration) {
        self.total += runs;
        let seconds = each.as_secs_f64() * runs as f64;
        self.say(&format!("   {runs} runs, about {seconds:.0} s"));
    }

    /// A line.
    pub fn say(&mut self, line: &str) {
        if self.is_quiet {
            return;
        }
        let mut out = std::io::stderr().lock();
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        // Errors of standard error are ignored.
        let _ = writeln!(out, "{clear}{line}");
        if self.is_terminal && self.total > 0 {
            let _ = write!(out, "{}", self.bar());
            let _ = out.flush();
        }
    }

    /// Reports a run of a cell in one of `rounds` rounds.
    pub fn one(&mut self, cell: &Cell, round: usize, rounds: usize, run: &Run) {
        self.done += 1;
        let Cell {
            operation,
            size,
            system,
            ..
        } = cell;
        let head = format!(
            "   {operation:<16} {size:>5}  {system:<26} {}/{rounds}",
            round + 1
        );
        let line = match &run.failure {
            Some(failure) if run.requests == 0 => format!("{head}  FAILED: {failure}"),
            failure => {
                let server = run
                    .server_micros
                    .map_or(String::new(), |m| format!("  server {m:.2} us"));
                let outside = match run.outside {
                    Some(share) if run.is_disturbed() => {
                        format!("  DISTURBED ({:.0} % others)", share * 100.0)
                    }
                    _ => String::new(),
                };
                let held = match &run.open_loop {
                    Some(found) if !found.is_held => "  RATE NOT HELD",
                    _ => "",
                };
                let refused = match run.refused {
                    0 => String::new(),
                    n => format!("  {n} refused"),
                };
                let failed = failure
                    .as_ref()
                    .map_or(String::new(), |f| format!("  ENDED EARLY: {f}"));
                format!(
                    "{head} {:>9.0}/s  p50 {:.0} p99 {:.0} us{server}{held}{refused}{outside}{failed}",
                    run.throughput, run.latency.p50, run.latency.p99
                )
            }
        };
        self.say(&line);
    }

    fn bar(&self) -> String {
        const WIDTH: usize = 30;
        let filled = (self.done * WIDTH).checked_div(self.total).unwrap_or(0);
        let spent = self.began.elapsed().as_secs_f64();
        let left = match self.done {
            0 => String::new(),
            done => {
                let each = spent / done as f64;
                format!(
                    ", {:.0} s left",
                    each * self.total.saturating_sub(done) as f64
                )
            }
        };
        format!(
            "{} [{}{}] {}/{}{left}",
            self.title,
            "#".repeat(filled.min(WIDTH)),
            ".".repeat(WIDTH.saturating_sub(filled)),
            self.done,
            self.total
        )
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}
