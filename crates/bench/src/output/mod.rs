//! Results for people and programs: lines, JSON, CSV, and a page with charts.

pub mod bars;
pub mod csv;
pub mod html;
pub mod svg;
pub mod text;

use crate::error::{Error, Result};
use crate::report::{FORMAT, Report};
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
        Some(format) if format == u64::from(FORMAT) => {}
        Some(other) => {
            return Err(bad(format!(
                "results format {other}: this program reads format {FORMAT}"
            )));
        }
        None => return Err(bad("not a results file".to_owned())),
    }
    serde_json::from_value(value).map_err(|e| bad(format!("not a results file: {e}")))
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

/// A number with a unit's prefix, three digits: `151 k`, `2.53 M`, `38.1`.
pub fn short(n: f64) -> String {
    let size = n.abs();
    let (scaled, suffix) = if size >= 1e6 {
        (n / 1e6, " M")
    } else if size >= 1e4 {
        (n / 1e3, " k")
    } else {
        (n, "")
    };
    let digits = match scaled.abs() {
        s if s >= 100.0 || s == 0.0 => 0,
        s if s >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{suffix}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::report::{Axis, Cell, Experiment, Latency, Run, SystemInfo};

    /// A report with names that a page has to quote.
    pub fn sample(host: &str) -> Report {
        Report {
            format: FORMAT,
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
                max: (9e6 / throughput).round(),
            },
            server_micros: Some(4.0),
            outside: Some(0.01),
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
            name: "kv".to_owned(),
            title: "Operations <by> key".to_owned(),
            about: "What & why.".to_owned(),
            axis: Axis {
                title: "clients".to_owned(),
                is_logarithmic: true,
            },
            is_about_latency: false,
            cells: vec![
                cell("A", 1, 2.0),
                cell("B <&> \"quoted\"", 1, 1.0),
                cell("A", 16, 30.0),
                failed,
            ],
            pairs: vec![("A".to_owned(), "B <&> \"quoted\"".to_owned())],
            notes: vec!["PostgreSQL left out".to_owned()],
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

    #[test]
    fn numbers_are_short() {
        for (n, text) in [
            (0.0, "0"),
            (3.456, "3.46"),
            (38.12, "38.1"),
            (4567.8, "4568"),
            (151_234.0, "151 k"),
            (2_534_000.0, "2.53 M"),
        ] {
            assert_eq!(short(n), text);
        }
    }
}
