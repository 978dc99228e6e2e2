//! `bench scaling`: simulates the throughput on machines with more cores than this one.
//!
//! A workload is a transaction as a sequence of steps with measured times: work that any number of cores can do side by
//! side, and *serial sections*, which one core at a time executes. The simulation ([`simulate()`]) runs many
//! clients' transactions on N cores and reports the throughput, and the share of the time in which each serial
//! section was occupied. The section whose share reaches 1 first limits the throughput.
//!
//! 1. The model has one worker per core, as the server has one event loop, and its worker waits for a section
//!    without doing other work.
//! 2. Times are measured without contention. A core that enters a section after another core also pays for the
//!    transfer of the section's cache lines.
//! 3. A durable commit waits for the log, which one thread writes: all that wait go into one group. Waiting
//!    clients take no core.
//! 4. What is not modelled (memory bandwidth, NUMA, the kernel's locks, the network) makes real machines slower:
//!    the result is an upper limit, and an order of the sections.
//!
//! The times are in `model.json`; docs/internals/scaling.md says how they were measured, and has the results.

mod simulate;

use crate::error::{Error, Result};
use crate::number::short;
use serde::Deserialize;
use simulate::simulate;
use std::fmt::Write;

/// The measured times of this repository's workloads.
const MODEL: &str = include_str!("model.json");

/// Clients for each core: enough for every core to have work while commits wait for the log.
const CLIENTS_PER_CORE: usize = 64;

/// Share of the time from which a section counts as saturated.
const SATURATED: f64 = 0.9;

/// Times of all workloads.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Model {
    /// Nanoseconds to transfer a cache line from another core.
    pub transfer: f64,
    /// The workloads.
    pub workloads: Vec<Workload>,
}

/// One kind of transaction.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Workload {
    /// Name.
    pub name: String,
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// The log's part, if a reply waits for it.
    #[serde(default)]
    pub log: Option<LogTimes>,
}

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Work that other cores do not wait for, in nanoseconds.
    Parallel(f64),
    /// A serial section.
    Serial(Section),
}

/// A serial section as it is measured without contention.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Section {
    /// Name; sections of one name exclude each other.
    pub name: String,
    /// Nanoseconds in it.
    pub time: f64,
    /// Cache lines that move to the next core.
    pub lines: f64,
    /// Number of independent instances, of which a transaction uses one at random.
    #[serde(default = "one")]
    pub instances: usize,
}

fn one() -> usize {
    1
}

/// Times of the log thread in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct LogTimes {
    /// For a group, without the sync.
    pub group: f64,
    /// For each record of it.
    pub record: f64,
}

/// Result of one simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Transactions a second.
    pub throughput: f64,
    /// Share of the time in which each section was taken, most first.
    pub sections: Vec<(String, f64)>,
}

/// Name of the log thread among the sections.
pub const LOG: &str = "log thread";

/// Parses a model; without a text, the built-in one.
///
/// # Errors
/// A usage error.
pub fn model(text: Option<&str>) -> Result<Model> {
    serde_json::from_str(text.unwrap_or(MODEL))
        .map_err(|error| Error::usage(format!("not a model of workloads: {error}")))
}

/// Simulates each workload for each number of cores, with a sync of the log that takes `sync`
/// nanoseconds. Returns a table for each workload.
pub fn report(model: &Model, cores: &[usize], sync: f64) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "sync of the log {} us, transfer of a cache line {} ns, {CLIENTS_PER_CORE} clients for each core",
        short(sync / 1e3),
        short(model.transfer)
    );
    for workload in &model.workloads {
        let _ = writeln!(out, "\n{}", workload.name);
        let _ = writeln!(
            out,
            "{:>6}{:>16}{:>14}  share of the time in which sections are taken",
            "cores", "transactions/s", "for each core"
        );
        let mut first: Option<(usize, String)> = None;
        for &cores in cores {
            let found = simulate(
                workload,
                model.transfer,
                cores,
                CLIENTS_PER_CORE * cores,
                sync,
            );
            let sections = found.sections.iter().take(3);
            let words: Vec<String> = sections
                .map(|(name, share)| format!("{name} {:.0} %", share * 100.0))
                .collect();
            let _ = writeln!(
                out,
                "{cores:>6}{:>16}{:>14}  {}",
                short(found.throughput),
                short(found.throughput / cores as f64),
                words.join(", ")
            );
            let saturated = found
                .sections
                .first()
                .filter(|(_, share)| *share >= SATURATED);
            if let Some((name, _)) = saturated
                && first.is_none()
            {
                first = Some((cores, name.clone()));
            }
        }
        let _ = match first {
            Some((cores, name)) => writeln!(out, "first serial section: {name}, at {cores} cores"),
            None => writeln!(out, "no section is saturated"),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_model_is_read() {
        let model = model(None).unwrap();
        assert!(model.transfer > 0.0 && model.workloads.len() >= 4);
        let text = report(&model, &[1, 2], 45_000.0);
        for workload in &model.workloads {
            assert!(text.contains(&workload.name), "{text}");
        }
        assert_eq!(self::model(Some("[]")).unwrap_err().exit_status(), 2);
    }

    #[test]
    fn the_first_saturated_section_is_named() {
        let text = r#"{"transfer": 0, "workloads": [{"name": "w", "steps": [
            {"parallel": 9000}, {"serial": {"name": "s", "time": 1000, "lines": 0}}]}]}"#;
        let model = model(Some(text)).unwrap();
        let report = report(&model, &[1, 4, 16], 0.0);
        assert!(
            report.contains("first serial section: s, at 16 cores"),
            "{report}"
        );
    }
}
