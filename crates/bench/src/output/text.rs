//! Results as lines: the machine, then for each operation a table of systems
//! over sizes, then the ratios.

use super::{open_loop_words, thread_words};
use crate::number::short;
use crate::report::{Cell, Experiment, Report, Run};
use crate::stats::Estimate;
use std::fmt::Write;

/// A figure of a run, if the run has it.
type Figure = fn(&Run) -> Option<f64>;

/// Tables of `bench contention` in addition to throughput.
const CONTENTION: &[(&str, Figure)] = &[
    ("attempts for a commit", |run| {
        let attempts = run.contention?.attempts as f64;
        (run.requests > 0).then(|| attempts / run.requests as f64)
    }),
    ("attempts a second", |run| {
        let attempts = run.contention?.attempts as f64;
        (run.seconds > 0.0).then(|| attempts / run.seconds)
    }),
    ("deadlocks (1213)", |run| {
        Some(run.contention?.deadlocks as f64)
    }),
    ("lock wait timeouts (1205)", |run| {
        Some(run.contention?.timeouts as f64)
    }),
    ("99th percentile of a transaction in ms", |run| {
        run.contention.map(|_| run.latency.p99 / 1e3)
    }),
    ("fewest commits of a client", |run| {
        Some(run.contention?.fewest as f64)
    }),
    ("most commits of a client", |run| {
        Some(run.contention?.most as f64)
    }),
];

/// The whole report.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    for line in report.machine.lines() {
        push(&mut out, &line);
    }
    for system in &report.systems {
        let line = format!(
            "system     {}: {} ({})",
            system.name, system.settings, system.url
        );
        push(&mut out, &line);
    }
    for note in &report.notes {
        push(&mut out, &format!("note       {note}"));
    }
    for experiment in &report.experiments {
        out.push('\n');
        render_experiment(experiment, &mut out);
    }
    if let Some(failure) = &report.failure {
        out.push('\n');
        push(&mut out, &format!("NOT COMPLETE: {failure}"));
    }
    out
}

fn push(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
}

/// One experiment.
fn render_experiment(experiment: &Experiment, out: &mut String) {
    push(out, &format!("{}: {}", experiment.name, experiment.title));
    push(out, &experiment.about);
    for note in &experiment.notes {
        push(out, &format!("note: {note}"));
    }
    for operation in experiment.operations() {
        out.push('\n');
        let (figure, words): (fn(&Run) -> Option<f64>, &str) = if experiment.is_about_latency {
            (|run| Some(run.latency.p50), "median latency in us")
        } else {
            (|run| Some(run.throughput), "requests a second")
        };
        table(experiment, operation, words, figure, out);
        let server: fn(&Run) -> Option<f64> = |run| run.server_micros;
        if experiment.cells.iter().any(|c| c.figure(server).is_some()) {
            table(
                experiment,
                operation,
                "server's processor time for a request in us",
                server,
                out,
            );
        }
        // One client process: its own cost limits what a protocol reaches.
        if experiment.name == "async" {
            let words = "client's processor time for a request in us";
            table(
                experiment,
                operation,
                words,
                |run| run.generator_micros,
                out,
            );
        }
        let futexes: fn(&Run) -> Option<f64> = |run| run.futex_per_thousand;
        if experiment.cells.iter().any(|c| c.figure(futexes).is_some()) {
            let words = "server's calls of futex for 1000 requests";
            table(experiment, operation, words, futexes, out);
        }
        let instructions: fn(&Run) -> Option<f64> = |run| run.instructions;
        let mut cells = experiment.cells.iter();
        if cells.any(|c| c.figure(instructions).is_some()) {
            let words = "instructions of the calling threads for a request";
            table(experiment, operation, words, instructions, out);
        }
        for (words, figure) in CONTENTION {
            let mut cells = experiment.cells.iter();
            if cells.any(|c| c.figure(figure).is_some()) {
                table(experiment, operation, words, *figure, out);
            }
        }
        percentiles(experiment, operation, out);
        by_threads(experiment, operation, out);
        rates(experiment, operation, out);
        if experiment.is_about_latency {
            lines(experiment, operation, out);
        }
    }
    if experiment.name == "fk" {
        push(out, "");
        out.push_str(&crate::experiments::fk::published_lines(&experiment.cells));
    }
    ratios(experiment, out);
    marks(experiment, out);
}

/// A table of systems over sizes.
fn table(
    experiment: &Experiment,
    operation: &str,
    words: &str,
    figure: fn(&Run) -> Option<f64>,
    out: &mut String,
) {
    let cells = experiment.cells.iter().filter(|c| c.operation == operation);
    let mut sizes: Vec<u64> = cells.map(|c| c.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut line = format!("{:<34}", format!("{operation} ({})", experiment.axis.title));
    for size in &sizes {
        let _ = write!(line, "{size:>18}");
    }
    push(out, &format!("{line}   {words}"));
    for system in experiment.systems() {
        let mut line = format!("  {system:<32}");
        let mut is_there = false;
        for size in &sizes {
            let text = match experiment.cell(operation, *size, system) {
                None => String::new(),
                Some(cell) => {
                    is_there = true;
                    shown(cell, figure)
                }
            };
            let _ = write!(line, "{text:>18}");
        }
        if is_there {
            push(out, &line);
        }
    }
}

/// The cells of an operation, by size.
fn cells_of<'e>(experiment: &'e Experiment, operation: &str) -> Vec<&'e Cell> {
    let cells = experiment.cells.iter();
    let mut cells: Vec<&Cell> = cells.filter(|c| c.operation == operation).collect();
    cells.sort_by_key(|cell| cell.size);
    cells
}

/// Percentiles of latency, where there are enough requests for one beyond the 99th.
fn percentiles(experiment: &Experiment, operation: &str, out: &mut String) {
    const COLUMNS: &[(&str, Figure)] = &[
        ("p50", |run| Some(run.latency.p50)),
        ("p95", |run| Some(run.latency.p95)),
        ("p99", |run| Some(run.latency.p99)),
        ("p99.9", |run| run.latency.p999),
        ("p99.99", |run| run.latency.p9999),
        ("greatest", |run| Some(run.latency.max)),
    ];
    let mut cells = cells_of(experiment, operation);
    cells.retain(|cell| cell.figure(|run| run.latency.p999).is_some());
    if cells.is_empty() {
        return;
    }
    let mut line = format!("{:<40}", "  latency in us");
    for (name, _) in COLUMNS {
        let _ = write!(line, "{name:>10}");
    }
    push(out, &line);
    for cell in cells {
        let mut line = format!("  {:<32}{:>6}", cell.system, cell.size);
        for (_, figure) in COLUMNS {
            let found = cell.figure(figure);
            let _ = write!(
                line,
                "{:>10}",
                found.map_or("-".to_owned(), |e| short(e.mean))
            );
        }
        push(out, &line);
    }
}

/// The server's processor time by its threads.
fn by_threads(experiment: &Experiment, operation: &str, out: &mut String) {
    let cells = cells_of(experiment, operation);
    let found: Vec<_> = cells
        .iter()
        .filter_map(|c| Some((c, thread_words(c)?)))
        .collect();
    if found.is_empty() {
        return;
    }
    push(
        out,
        "  server's processor time for a request in us, by threads",
    );
    for (cell, words) in found {
        push(
            out,
            &format!("  {:<32}{:>6}  {words}", cell.system, cell.size),
        );
    }
}

/// Writes whether the rate of an open loop was held.
fn rates(experiment: &Experiment, operation: &str, out: &mut String) {
    for cell in cells_of(experiment, operation) {
        if let Some(words) = open_loop_words(cell) {
            push(
                out,
                &format!("  {:<32}{:>6}  {words}", cell.system, cell.size),
            );
        }
    }
}

fn shown(cell: &Cell, figure: fn(&Run) -> Option<f64>) -> String {
    let mark = if cell.is_disturbed() { "*" } else { "" };
    match (cell.figure(figure), cell.failure()) {
        (None, Some(_)) => "failed".to_owned(),
        (None, None) => "-".to_owned(),
        (Some(found), failure) => {
            let failed = if failure.is_some() { "!" } else { "" };
            format!("{}{mark}{failed}", with_half(&found))
        }
    }
}

/// `151 k ±2.1`, the second in per cent of the first.
fn with_half(found: &Estimate) -> String {
    match found.interval {
        Some((low, high)) if found.mean > 0.0 => {
            let half = (high - low) / 2.0 / found.mean * 100.0;
            format!("{} ±{half:.0}%", short(found.mean))
        }
        _ => short(found.mean),
    }
}

/// Latency over size as straight lines.
fn lines(experiment: &Experiment, operation: &str, out: &mut String) {
    for system in experiment.systems() {
        if let Some(line) = experiment.line(operation, system) {
            push(
                out,
                &format!(
                    "  {system:<32} {:.1} us + {:.3} us x {}",
                    line.intercept, line.slope, experiment.axis.title
                ),
            );
        }
    }
}

fn ratios(experiment: &Experiment, out: &mut String) {
    let ratios = experiment.ratios();
    if ratios.is_empty() {
        return;
    }
    let what = if experiment.is_about_latency {
        "how many times shorter"
    } else {
        "how many times as many"
    };
    push(out, "");
    push(
        out,
        &format!(
            "ratios ({what}; 95 % interval of pairs of runs; then of processor time for a request, theirs to ours)"
        ),
    );
    for found in ratios {
        let mut line = format!(
            "  {:<24} {:>5}  {} / {}  {}",
            found.operation,
            found.size,
            found.ours,
            found.theirs,
            ratio_words(&found.ratio)
        );
        for (who, ratio) in ["server", "client"].iter().zip(&found.processor) {
            if let Some(ratio) = ratio {
                let _ = write!(line, "  {who}'s processor {}", ratio_words(ratio));
            }
        }
        push(out, &line);
    }
}

fn ratio_words(ratio: &Estimate) -> String {
    let interval = ratio
        .interval
        .map_or(String::new(), |(a, b)| format!("  ({a:.2} to {b:.2})"));
    format!("{:.2}{interval}", ratio.mean)
}

/// Explains the marks, if there are any, and lists failures.
fn marks(experiment: &Experiment, out: &mut String) {
    if experiment.cells.iter().any(Cell::is_disturbed) {
        push(
            out,
            "* other programs used more than 5 % of the processors during a run",
        );
    }
    for cell in &experiment.cells {
        if let Some(failure) = cell.failure() {
            push(
                out,
                &format!(
                    "! {} {} {}: {failure}",
                    cell.operation, cell.size, cell.system
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn everything_has_its_line() {
        let mut report = sample("here");
        report.failure = Some("interrupted".to_owned());
        let text = render(&report);
        for part in [
            "command    porpoise bench kv",
            "note: PostgreSQL left out",
            "note       mariadb left out",
            "2100 ±",
            "event <loops> 3.00, log writer 1.00",
            "rate 2000: NOT HELD in 1 of 3 runs; 6 sent late (at most 5.00 us), 9 unanswered",
            "p99.99",
            "failed",
            "refused <here>",
            "SELECT                       1  A / B",
            "2.00",
            "server's processor 1.00",
            "NOT COMPLETE: interrupted",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(!text.contains("* other programs"));
    }

    #[test]
    fn a_disturbed_run_is_marked() {
        let mut report = sample("here");
        report.experiments[0].cells[0].runs[0].outside = Some(0.5);
        let text = render(&report);
        assert!(text.contains("* other programs"), "{text}");
    }
}
