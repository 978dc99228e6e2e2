//! Results as comma-separated values: a line for each run.

use crate::report::{Report, Run, ThreadMicros};
use std::fmt::Write;

const HEAD: &str = "host,date,experiment,operation,size,system,client,round,requests,refused,\
                    seconds,throughput,mean_us,p50_us,p95_us,p99_us,p999_us,p9999_us,max_us,\
                    server_us,generator_us,outside,futex_per_thousand,instructions,rate,rate_held,\
                    unanswered,late,threads,disturbed,failure";

/// The whole report.
pub fn render(report: &Report) -> String {
    let mut out = String::from(HEAD);
    out.push('\n');
    let host = quote(&report.machine.host);
    let date = quote(&crate::machine::date(report.machine.time));
    for experiment in &report.experiments {
        for cell in &experiment.cells {
            for (round, run) in cell.runs.iter().enumerate() {
                // Writing to a String cannot fail.
                let _ = writeln!(
                    out,
                    "{host},{date},{},{},{},{},{},{},{},{},{:.3},{:.1},{:.2},{:.2},{:.2},{:.2},{},{},{:.2},\
                     {},{},{},{},{},{},{},{},{},{},{},{}",
                    quote(&experiment.name),
                    quote(&cell.operation),
                    cell.size,
                    quote(&cell.system),
                    quote(&cell.client),
                    round + 1,
                    run.requests,
                    run.refused,
                    run.seconds,
                    run.throughput,
                    run.latency.mean,
                    run.latency.p50,
                    run.latency.p95,
                    run.latency.p99,
                    optional(run.latency.p999),
                    optional(run.latency.p9999),
                    run.latency.max,
                    optional(run.server_micros),
                    optional(run.generator_micros),
                    optional(run.outside),
                    optional(run.futex_per_thousand),
                    optional(run.instructions),
                    optional(run.open_loop.map(|o| o.rate)),
                    run.open_loop
                        .map_or(String::new(), |o| o.is_held.to_string()),
                    run.open_loop
                        .map_or(String::new(), |o| o.unanswered.to_string()),
                    run.open_loop.map_or(String::new(), |o| o.late.to_string()),
                    quote(&threads(run)),
                    run.is_disturbed(),
                    quote(run.failure.as_deref().unwrap_or_default()),
                );
            }
        }
    }
    out
}

/// The processor time by threads, as `event loops=3.2100;log writer=0.4200`.
fn threads(run: &Run) -> String {
    let of = |thread: &ThreadMicros| format!("{}={:.4}", thread.role, thread.micros);
    run.threads.iter().map(of).collect::<Vec<_>>().join(";")
}

fn optional(n: Option<f64>) -> String {
    n.map_or(String::new(), |n| format!("{n:.4}"))
}

fn quote(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn each_run_is_a_line_of_as_many_fields_as_the_head() {
        let text = render(&sample("a,b"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 3 + 3 + 3 + 1);
        let fields = HEAD.split(',').count();
        // Host and one system's name are quoted; neither quoted text adds a field but the host's
        // comma.
        for line in &lines[1..] {
            assert_eq!(line.split(',').count(), fields + 1, "{line}");
        }
        assert!(lines[1].starts_with("\"a,b\",2026-05-04"));
        assert!(text.contains("\"B <&> \"\"quoted\"\"\""));
    }
}
