//! Results as one self-contained page: the machine, a chart for each
//! operation (and each machine, where several files are merged), tables of
//! figures and of ratios.

use super::svg::{Chart, Point, Series, colour, escape, render as draw, shape};
use super::{label, open_loop_words, thread_words};
use crate::machine::date;
use crate::number::short;
use crate::report::{Cell, Experiment, Report, Run};
use crate::stats::Estimate;
use std::fmt::Write;

pub(super) const STYLE: &str = "\
:root{--bg:#fff;--fg:#1b1f24;--soft:#5b6570;--grid:#d9dee3;--box:#f5f7f9;--good:#00734f;--bad:#b34700}\
@media(prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#e6e9ec;--soft:#9aa5b1;--grid:#323a43;--box:#1d232a;--good:#2fc295;--bad:#ff8a3d}}\
body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em}\
h1{font-size:1.6em}h2{margin-top:2em;border-bottom:1px solid var(--grid)}\
.soft,dt{color:var(--soft)}dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1em;margin:.5em 0}dd{margin:0}\
.box{background:var(--box);padding:.5em 1em;border-radius:6px;margin:.8em 0}\
.facets{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(460px,100%),1fr));gap:14px}.facets figure{margin:0;max-width:580px}\
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}svg .head{font-size:13px;fill:var(--fg)}\
.grid{stroke:var(--grid);stroke-width:1}.legend{display:flex;flex-wrap:wrap;gap:.2em 1.2em;list-style:none;padding:0}\
.legend svg{width:16px;height:12px;margin-right:5px;vertical-align:-1px}\
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}th,td{padding:2px 9px;text-align:right;border-bottom:1px solid var(--grid)}\
th:first-child,td:first-child,.t{text-align:left}.scroll{overflow-x:auto}.bar{stroke:var(--fg);fill:none}.limit{stroke:var(--soft)}small{color:var(--soft)}.bad{color:var(--bad)}.good{color:var(--good)}";

/// A page of all reports; those of several machines are side by side.
pub fn render(reports: &[Report]) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width\"/>\
         <title>porpoise bench</title><style>{STYLE}</style></head><body>\
         <h1>porpoise bench</h1>"
    );
    for report in reports {
        machine(report, &mut out);
    }
    let mut names: Vec<&str> = Vec::new();
    for experiment in reports.iter().flat_map(|r| &r.experiments) {
        if !names.contains(&experiment.name.as_str()) {
            names.push(&experiment.name);
        }
    }
    for name in names {
        section(reports, name, &mut out);
    }
    out.push_str("</body></html>\n");
    out
}

fn machine(report: &Report, out: &mut String) {
    let m = &report.machine;
    let _ = write!(
        out,
        "<div class=\"box\"><dl><dt>machine</dt><dd>{}: {} cores, {}, {:.1} GiB, Linux {}</dd>\
         <dt>date</dt><dd>{}</dd><dt>command</dt><dd><code>{}</code></dd>\
         <dt>version</dt><dd>porpoise {}</dd><dt>disk</dt><dd>{}: median {:.0} µs{}</dd>\
         <dt>processor</dt><dd>{:.0} M steps/s of arithmetic; pressure before the runs {}{}</dd>",
        escape(&m.host),
        m.cores,
        escape(&m.cpu),
        m.memory as f64 / (1u64 << 30) as f64,
        escape(&m.kernel),
        date(m.time),
        escape(&m.command),
        escape(&m.version),
        escape(&m.disk()),
        m.fsync_micros,
        if m.fsync_delay_micros > 0 {
            format!(
                "; {} µs added to each of the servers'",
                m.fsync_delay_micros
            )
        } else {
            String::new()
        },
        m.calibration,
        m.pressure
            .map_or("unknown".to_owned(), |p| format!("{p:.1} %")),
        if m.pinning.is_empty() {
            String::new()
        } else {
            format!("; pinned: {}", escape(&m.pinning))
        },
    );
    for system in &report.systems {
        let _ = write!(
            out,
            "<dt>{}</dt><dd>{}</dd>",
            escape(&system.name),
            escape(&system.settings)
        );
    }
    out.push_str("</dl>");
    for note in &report.notes {
        let _ = write!(out, "<p class=\"soft\">{}</p>", escape(note));
    }
    if let Some(failure) = &report.failure {
        let _ = write!(
            out,
            "<p class=\"bad\">Not complete: {}</p>",
            escape(failure)
        );
    }
    out.push_str("</div>");
}

/// One experiment, with a facet for each operation and machine.
fn section(reports: &[Report], name: &str, out: &mut String) {
    let found: Vec<(&Report, &Experiment)> = reports
        .iter()
        .flat_map(|r| r.experiments.iter().map(move |e| (r, e)))
        .filter(|(_, e)| e.name == name)
        .collect();
    let Some((_, first)) = found.first() else {
        return;
    };
    let _ = write!(
        out,
        "<h2>{}</h2><p>{}</p>",
        escape(&first.title),
        escape(&first.about)
    );
    // One colour for one name, on all machines.
    let mut systems: Vec<&str> = Vec::new();
    for (_, experiment) in &found {
        for system in experiment.systems() {
            if !systems.contains(&system) {
                systems.push(system);
            }
        }
    }
    legend(&systems, out);
    let several = reports.len() > 1;
    out.push_str("<div class=\"facets\">");
    for (report, experiment) in &found {
        for operation in experiment.operations() {
            let title = if several {
                format!("{operation}, {}", label(reports, report))
            } else {
                operation.to_owned()
            };
            let main = if experiment.is_about_latency {
                Figure::Latency
            } else {
                Figure::Throughput
            };
            for figure in [main, Figure::Server] {
                let chart = chart(experiment, operation, figure, title.clone(), &systems);
                if !chart.series.is_empty() {
                    let _ = write!(out, "<figure>{}</figure>", draw(&chart));
                }
            }
        }
    }
    out.push_str("</div>");
    for (report, experiment) in &found {
        if several {
            let _ = write!(out, "<h3>{}</h3>", escape(&label(reports, report)));
        }
        tables(experiment, out);
    }
}

fn legend(systems: &[&str], out: &mut String) {
    out.push_str("<ul class=\"legend\">");
    for (index, system) in systems.iter().enumerate() {
        let _ = write!(
            out,
            "<li><svg viewBox=\"0 0 16 12\"><path fill=\"{}\" d=\"{}\"/></svg>{}</li>",
            colour(index),
            shape(index, 8.0, 6.0),
            escape(system)
        );
    }
    out.push_str("</ul>");
}

/// Content of a chart.
#[derive(Clone, Copy)]
enum Figure {
    Latency,
    Throughput,
    Server,
}

impl Figure {
    fn of(self) -> fn(&Run) -> Option<f64> {
        match self {
            Figure::Latency => |run| Some(run.latency.p50),
            Figure::Throughput => |run| Some(run.throughput),
            Figure::Server => |run| run.server_micros,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Figure::Latency => "median latency, µs",
            Figure::Throughput => "requests a second",
            Figure::Server => "server's processor time for a request, µs",
        }
    }
}

fn chart(
    experiment: &Experiment,
    operation: &str,
    what: Figure,
    title: String,
    systems: &[&str],
) -> Chart {
    let figure = what.of();
    let of_system = |(index, system): (usize, &&str)| {
        let mut points: Vec<Point> = experiment
            .cells
            .iter()
            .filter(|c| c.operation == operation && c.system == **system)
            .filter_map(|cell| {
                let found = cell.figure(figure)?;
                Some(Point {
                    x: cell.size as f64,
                    y: found.mean,
                    interval: found.interval,
                    is_doubtful: cell.is_disturbed() || cell.failure().is_some(),
                })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        (!points.is_empty()).then(|| Series {
            index,
            name: (*system).to_owned(),
            points,
        })
    };
    Chart {
        title,
        x_title: experiment.axis.title.clone(),
        y_title: what.words().to_owned(),
        is_logarithmic: experiment.axis.is_logarithmic,
        is_dated: false,
        limits: Vec::new(),
        series: systems.iter().enumerate().filter_map(of_system).collect(),
    }
}

fn tables(experiment: &Experiment, out: &mut String) {
    ratios(experiment, out);
    if experiment.is_about_latency {
        lines(experiment, out);
    }
    out.push_str(
        "<details><summary>All figures</summary><div class=\"scroll\"><table><tr>\
         <th>operation</th><th>size</th><th class=\"t\">system</th><th class=\"t\">client</th>\
         <th>requests/s</th><th>± %</th><th>p50 µs</th><th>p95 µs</th><th>p99 µs</th>\
         <th>p99.9 µs</th><th>p99.99 µs</th><th>greatest µs</th>\
         <th>server µs</th><th class=\"t\">by threads, µs</th><th>futex/1000</th><th>others %</th><th class=\"t\">remarks</th></tr>",
    );
    for cell in &experiment.cells {
        row(cell, out);
    }
    out.push_str("</table></div></details>");
    for note in &experiment.notes {
        let _ = write!(out, "<p class=\"soft\">{}</p>", escape(note));
    }
    if experiment.cells.iter().any(Cell::is_disturbed) {
        out.push_str(
            "<p class=\"soft\">Hollow points and bars: other programs used more than 5 % of the \
             processors during a run, or a run failed.</p>",
        );
    }
    for cell in &experiment.cells {
        if let Some(failure) = cell.failure() {
            let _ = write!(
                out,
                "<p class=\"bad\">{}, {}, {}: {}</p>",
                escape(&cell.operation),
                cell.size,
                escape(&cell.system),
                escape(failure)
            );
        }
    }
}

/// Latency over size as straight lines.
fn lines(experiment: &Experiment, out: &mut String) {
    let _ = write!(
        out,
        "<h3>Latency as a straight line</h3><table><tr><th>operation</th><th class=\"t\">system</th>\
         <th>at 0 {0}, µs</th><th>for each of {0}, µs</th></tr>",
        escape(&experiment.axis.title)
    );
    for operation in experiment.operations() {
        for system in experiment.systems() {
            if let Some(line) = experiment.line(operation, system) {
                let _ = write!(
                    out,
                    "<tr><td>{}</td><td class=\"t\">{}</td><td>{:.1}</td><td>{:.3}</td></tr>",
                    escape(operation),
                    escape(system),
                    line.intercept,
                    line.slope
                );
            }
        }
    }
    out.push_str("</table>");
}

fn row(cell: &Cell, out: &mut String) {
    let show = |found: Option<Estimate>| found.map_or("-".to_owned(), |e| short(e.mean));
    let throughput = cell.throughput();
    let half = throughput
        .and_then(|e| {
            let (low, high) = e.interval?;
            (e.mean > 0.0).then(|| format!("{:.1}", (high - low) / 2.0 / e.mean * 100.0))
        })
        .unwrap_or_default();
    let mut remarks = match (cell.failure(), cell.is_disturbed()) {
        (Some(_), _) => "failed".to_owned(),
        (None, true) => "disturbed".to_owned(),
        (None, false) => String::new(),
    };
    let refused: u64 = cell.runs.iter().map(|run| run.refused).sum();
    if refused > 0 {
        let _ = write!(remarks, " {refused} refused");
    }
    if let Some(words) = open_loop_words(cell) {
        let _ = write!(remarks, " {words}");
    }
    let _ = write!(
        out,
        "<tr><td>{}</td><td>{}</td><td class=\"t\">{}</td><td class=\"t\">{}</td><td>{}</td>\
         <td>{half}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
         <td>{}</td><td class=\"t\">{}</td><td>{}</td><td>{}</td>\
         <td class=\"t\">{}</td></tr>",
        escape(&cell.operation),
        cell.size,
        escape(&cell.system),
        escape(&cell.client),
        show(throughput),
        show(cell.figure(|r| Some(r.latency.p50))),
        show(cell.figure(|r| Some(r.latency.p95))),
        show(cell.figure(|r| Some(r.latency.p99))),
        show(cell.figure(|r| r.latency.p999)),
        show(cell.figure(|r| r.latency.p9999)),
        show(cell.figure(|r| Some(r.latency.max))),
        show(cell.figure(|r| r.server_micros)),
        escape(&thread_words(cell).unwrap_or_default()),
        show(cell.figure(|r| r.futex_per_thousand)),
        show(cell.figure(|r| r.outside.map(|o| o * 100.0))),
        escape(&remarks),
    );
}

fn ratios(experiment: &Experiment, out: &mut String) {
    let found = experiment.ratios();
    if found.is_empty() {
        return;
    }
    let what = if experiment.is_about_latency {
        "how many times shorter"
    } else {
        "how many times as many requests"
    };
    let mut sizes: Vec<u64> = found.iter().map(|r| r.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut rows: Vec<(&str, &str, &str)> = Vec::new();
    for ratio in &found {
        let row = (ratio.operation, ratio.ours, ratio.theirs);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let _ = write!(
        out,
        "<h3>Ratios</h3><p class=\"soft\">{what}, by {}; in brackets the 95 % interval of pairs \
         of runs; coloured where it leaves out 1</p><div class=\"scroll\"><table><tr>\
         <th>operation</th><th class=\"t\">ours</th><th class=\"t\">theirs</th>",
        escape(&experiment.axis.title)
    );
    for size in &sizes {
        let _ = write!(out, "<th>{size}</th>");
    }
    out.push_str("</tr>");
    for row in rows {
        let (operation, ours, theirs) = row;
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=\"t\">{}</td><td class=\"t\">{}</td>",
            escape(operation),
            escape(ours),
            escape(theirs)
        );
        for size in &sizes {
            let here = found
                .iter()
                .find(|r| r.size == *size && (r.operation, r.ours, r.theirs) == row);
            ratio_cell(here.map(|r| r.ratio), out);
        }
        out.push_str("</tr>");
    }
    out.push_str("</table></div>");
}

/// One ratio with its interval; an empty field where there is none.
fn ratio_cell(ratio: Option<Estimate>, out: &mut String) {
    let Some(ratio) = ratio else {
        out.push_str("<td></td>");
        return;
    };
    let class = match (ratio.excludes(1.0), ratio.mean > 1.0) {
        (true, true) => " class=\"good\"",
        (true, false) => " class=\"bad\"",
        _ => "",
    };
    let interval = ratio.interval.map_or(String::new(), |(low, high)| {
        format!(" <small>({low:.2} to {high:.2})</small>")
    });
    let _ = write!(out, "<td{class}>{:.2}{interval}</td>", ratio.mean);
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::sample;
    use super::*;

    /// Checks that tags are balanced and every special character is quoted.
    pub(in crate::output) fn check_well_formed(page: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap();
        while let Some(start) = rest.find('<') {
            let text = &rest[..start];
            assert!(!text.contains('>'), "a bare > in {text:?}");
            for piece in text.split('&').skip(1) {
                let entity = piece.split(';').next().unwrap();
                assert!(
                    ["lt", "gt", "amp", "quot", "#39"].contains(&entity),
                    "a bare & before {piece:?}"
                );
            }
            let end = start + rest[start..].find('>').unwrap();
            let tag = &rest[start + 1..end];
            rest = &rest[end + 1..];
            let quotes = tag.matches('"').count();
            assert!(quotes.is_multiple_of(2), "quotes in <{tag}>");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "closing");
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap());
            }
            if open.last() == Some(&"style") {
                rest = &rest[rest.find("</style>").unwrap()..];
            }
        }
        assert!(open.is_empty(), "left open: {open:?}");
    }

    #[test]
    fn the_page_is_well_formed() {
        let mut report = sample("one & <only>");
        report.failure = Some("x < y".to_owned());
        report.experiments[0].is_about_latency = true;
        let page = render(&[report]);
        check_well_formed(&page);
        assert!(page.contains("Latency as a straight line"));
        check_well_formed(&render(&[]));
    }

    #[test]
    fn a_plain_report_is_well_formed() {
        check_well_formed(&render(&[sample("one")]));
    }

    #[test]
    fn several_machines_have_facets_of_their_own() {
        let page = render(&[sample("first"), sample("second")]);
        check_well_formed(&page);
        for part in ["SELECT, first", "SELECT, second", "<h3>second</h3>"] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<figure>").count(), 4, "throughput and server");
        assert_eq!(page.matches("<h2>").count(), 1);
    }

    #[test]
    fn files_of_one_machine_are_told_apart() {
        let mut later = sample("first");
        later.machine.time += 86_400;
        let page = render(&[sample("first"), later]);
        check_well_formed(&page);
        for day in ["04", "05"] {
            let facet = format!("SELECT, first, 2026-05-{day} 13:02:59 UTC");
            assert!(page.contains(&facet), "{facet}");
        }
        let page = render(&[sample("first"), sample("first")]);
        assert!(page.contains("UTC, file 1") && page.contains("UTC, file 2"));
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = render(&[sample("one")]);
        for outside in ["<script", "<link", "src=", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
