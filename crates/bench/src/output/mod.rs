//! Results for people and programs: lines, JSON, CSV, and a page with charts.

pub mod bars;
pub mod csv;
pub mod history;
pub mod html;
pub mod svg;
pub mod text;

use crate::error::{Error, Result};
use crate::number::short;
use crate::report::{Cell, OLDEST_FORMAT, OpenLoop, REPORT_FORMAT_VERSION, Report, Run};
use std::path::Path;

/// Writes a file atomically: to a temporary file in its directory, which is then renamed.
///
/// # Errors
/// The directory cannot be written.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let named = |e: std::io::Error| Error::failed(format!("{}: {e}", path.display()));
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text).map_err(named)?;
    std::fs::rename(&beside, path).map_err(named)
}

/// Writes to standard output; errors are ignored.
pub fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Results as JSON.
///
/// # Errors
/// A figure that JSON cannot hold.
pub fn to_json(report: &Report) -> Result<String> {
    serde_json::to_string_pretty(report).map_err(|e| Error::failed(e.to_string()))
}

/// Reads a file of results.
///
/// # Errors
/// The file does not exist, is not such a file, or is of another version.
pub fn read(path: &Path) -> Result<Report> {
    let bad = |what: String| Error::usage(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| bad(format!("not a results file: {e}")))?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format)
            if (u64::from(OLDEST_FORMAT)..=u64::from(REPORT_FORMAT_VERSION)).contains(&format) => {}
        Some(other) => {
            return Err(bad(format!(
                "results format {other}: this program reads formats {OLDEST_FORMAT} to \
                 {REPORT_FORMAT_VERSION}"
            )));
        }
        None => return Err(bad("not a results file".to_owned())),
    }
    let report: Result<Report> =
        serde_json::from_value(value).map_err(|e| bad(format!("not a results file: {e}")));
    let mut report = report?;
    if report.format < REPORT_FORMAT_VERSION {
        report.upgrade();
    }
    Ok(report)
}

/// Returns a label that is unique among the reports: the machine; if several reports are of one
/// machine, also the date; if dates are equal, the position in the list.
pub fn label(reports: &[Report], report: &Report) -> String {
    let machine = &report.machine;
    let same = || reports.iter().filter(|r| r.machine.host == machine.host);
    if same().count() < 2 {
        return machine.host.clone();
    }
    let dated = format!("{}, {}", machine.host, crate::machine::date(machine.time));
    if same().filter(|r| r.machine.time == machine.time).count() < 2 {
        return dated;
    }
    let place = reports.iter().position(|r| std::ptr::eq(r, report));
    format!("{dated}, file {}", place.unwrap_or(0) + 1)
}

/// The server's processor time for a request by threads, over the runs that did not fail: `event
/// loops 3.21, log writer 0.42`; `None` where it was not measured.
pub fn thread_words(cell: &Cell) -> Option<String> {
    let mut roles: Vec<&str> = Vec::new();
    for thread in cell.runs.iter().flat_map(|run| &run.threads) {
        if !roles.contains(&thread.role.as_str()) {
            roles.push(&thread.role);
        }
    }
    let micros = |role: &str| {
        let of = |run: &Run| {
            run.threads
                .iter()
                .find(|t| t.role == role)
                .map(|t| t.micros)
        };
        let found = cell.figure(|run| (!run.threads.is_empty()).then(|| of(run).unwrap_or(0.0)))?;
        Some(format!("{role} {:.2}", found.mean))
    };
    let words: Vec<String> = roles.into_iter().filter_map(micros).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// A description of the rate of an open loop over all runs; `None` for a closed loop.
pub fn open_loop_words(cell: &Cell) -> Option<String> {
    let loops: Vec<&OpenLoop> = cell
        .runs
        .iter()
        .filter_map(|run| run.open_loop.as_ref())
        .collect();
    let rate = loops.first()?.rate;
    let held = loops.iter().filter(|found| found.is_held).count();
    let words = if held == loops.len() {
        "held".to_owned()
    } else {
        format!("NOT HELD in {} of {} runs", loops.len() - held, loops.len())
    };
    let late: u64 = loops.iter().map(|found| found.late).sum();
    let unanswered: u64 = loops.iter().map(|found| found.unanswered).sum();
    let worst = loops
        .iter()
        .map(|found| found.worst_late)
        .fold(0.0, f64::max);
    Some(format!(
        "rate {}: {words}; {late} sent late (at most {} us), {unanswered} unanswered at the end",
        short(rate),
        short(worst)
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::report::{Experiment, Latency, Setup, SystemInfo, ThreadMicros};

    /// A report with names that a page has to quote.
    pub fn sample(host: &str) -> Report {
        Report {
            format: REPORT_FORMAT_VERSION,
            machine: machine(host),
            systems: vec![SystemInfo {
                name: "A".to_owned(),
                url: "mysql://127.0.0.1:1".to_owned(),
                settings: "flush=1, a < b".to_owned(),
            }],
            experiments: vec![experiment()],
            notes: vec!["mariadb left out: it is not installed".to_owned()],
            failure: None,
        }
    }

    fn experiment() -> Experiment {
        let run = |throughput: f64| Run {
            requests: 1000,
            seconds: 1.0,
            throughput,
            latency: Latency {
                mean: (1e6 / throughput).round(),
                p50: (1e6 / throughput).round(),
                p95: (2e6 / throughput).round(),
                p99: (3e6 / throughput).round(),
                p999: Some((4e6 / throughput).round()),
                p9999: None,
                max: (9e6 / throughput).round(),
            },
            server_micros: Some(4.0),
            outside: Some(0.01),
            threads: vec![
                ThreadMicros {
                    role: "event <loops>".to_owned(),
                    micros: 3.0,
                },
                ThreadMicros {
                    role: "log writer".to_owned(),
                    micros: 1.0,
                },
            ],
            open_loop: Some(OpenLoop {
                rate: 2000.0,
                is_held: throughput > 2000.0,
                unanswered: 3,
                late: 2,
                worst_late: 5.0,
            }),
            ..Run::default()
        };
        let cell = |system: &str, size: u64, factor: f64| Cell {
            operation: "SELECT".to_owned(),
            size,
            system: system.to_owned(),
            client: format!("{size} connections"),
            units: 1,
            runs: vec![
                run(1000.0 * factor),
                run(1100.0 * factor),
                run(1050.0 * factor),
            ],
        };
        let mut failed = cell("B <&> \"quoted\"", 16, 1.0);
        failed.runs = vec![Run {
            failure: Some("refused <here>".to_owned()),
            ..Run::default()
        }];
        Experiment {
            cells: vec![
                cell("A", 1, 2.0),
                cell("B <&> \"quoted\"", 1, 1.0),
                cell("A", 16, 30.0),
                failed,
            ],
            pairs: vec![("A".to_owned(), "B <&> \"quoted\"".to_owned())],
            notes: vec!["PostgreSQL left out".to_owned()],
            ..Experiment::new("kv", "Operations <by> key", "What & why.", "clients")
        }
    }

    fn machine(host: &str) -> Machine {
        Machine {
            host: host.to_owned(),
            cpu: "a processor".to_owned(),
            cores: 2,
            memory: 8 << 30,
            kernel: "6.1".to_owned(),
            version: "0.1.0".to_owned(),
            time: 1_777_899_779,
            command: "porpoise bench kv".to_owned(),
            calibration: 900.0,
            fsync_micros: 80.0,
            file_system: "ext4".to_owned(),
            fsync_delay_micros: 0,
            pinning: String::new(),
            pressure: Some(0.5),
        }
    }

    #[test]
    fn a_file_is_read_back_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.json");
        let report = sample("one");
        write(&path, &to_json(&report).unwrap()).unwrap();
        assert_eq!(read(&path).unwrap(), report);
    }

    #[test]
    fn a_file_of_version_1_is_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.json");
        let fixture = include_str!("../../tests/fixtures/report-1.json");
        std::fs::write(&path, fixture).unwrap();
        let report = read(&path).unwrap();
        assert_eq!(report.format, REPORT_FORMAT_VERSION);
        let run = &report.experiments[0].cells[0].runs[0];
        assert_eq!((run.latency.p999, run.open_loop), (None, None));
        assert!(run.threads.is_empty());
        let setups: Vec<_> = report
            .experiments
            .iter()
            .map(|e| e.setup.unwrap())
            .collect();
        let words = |s: &Setup| (s.durability.word(), s.fsync_delay_micros);
        let setups: Vec<_> = setups.iter().map(words).collect();
        assert_eq!(setups, [("interval", 0), ("sync", 0), ("sync", 1000)]);
    }

    #[test]
    fn other_files_are_refused_in_one_line() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.json");
        for (text, word) in [
            ("nonsense", "not a results file"),
            ("{}", "not a results file"),
            ("{\"format\":99}", "99"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err();
            assert!(error.message.contains(word), "{error}");
        }
        assert!(read(&home.path().join("none")).is_err());
    }
}
