//! History: each budget's figure over the dates of several files of results, with floor and goal as
//! lines, as one self-contained page.
//!
//! Figures are judged by the budgets of this program, not by those at the time of the measurement. Each
//! machine has lines of its own, because ratios depend on the machine, too.

use super::html::STYLE;
use super::svg::{Chart, Point, Series, colour, escape, render as draw, shape};
use crate::budgets::{Direction, Finding, Outcome, PHASES, Phase, plain};
use crate::machine::{date, day};
use crate::number::short;
use crate::report::{Experiment, Report};
use std::fmt::Write;

/// A figure with the machine and the time at which it was measured.
struct Dated {
    host: String,
    time: u64,
    finding: Finding,
}

/// The figures of one chart: one subject of one work.
struct Group {
    subject: String,
    /// By size and machine, in order of appearance.
    lines: Vec<(String, Vec<Dated>)>,
}

/// The page.
pub fn render(reports: &[Report]) -> String {
    let mut reports: Vec<&Report> = reports.iter().collect();
    reports.sort_by_key(|report| report.machine.time);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width\"/>\
         <title>porpoise bench: history</title><style>{STYLE}</style></head><body>\
         <h1>porpoise bench: history of the budgets</h1>"
    );
    files(&reports, &mut out);
    let hosts = reports.iter().map(|report| &report.machine.host);
    let several = hosts.clone().zip(hosts.skip(1)).any(|(a, b)| a != b);
    for phase in PHASES {
        let mut works: Vec<&str> = Vec::new();
        let found = findings(phase, &reports);
        for dated in &found {
            if !works.contains(&dated.finding.work) {
                works.push(dated.finding.work);
            }
        }
        let mut found = found;
        for work in works {
            let (these, others) = found.into_iter().partition(|d| d.finding.work == work);
            found = others;
            section(phase, work, these, several, &mut out);
        }
    }
    out.push_str("</body></html>\n");
    out
}

/// The files, with their machines.
fn files(reports: &[&Report], out: &mut String) {
    out.push_str(
        "<div class=\"scroll\"><table><tr><th>date</th><th class=\"t\">machine</th>\
         <th class=\"t\">version</th><th class=\"t\">disk</th><th>M steps/s</th>\
         <th class=\"t\">command</th><th class=\"t\">remarks</th></tr>",
    );
    for report in reports {
        let m = &report.machine;
        let unknown = report
            .experiments
            .iter()
            .filter(|e| e.setup.is_none())
            .count();
        let mut remarks = report.failure.clone().unwrap_or_default();
        if unknown > 0 {
            let _ = write!(
                remarks,
                " {unknown} experiments with unknown durability are left out"
            );
        }
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=\"t\">{}: {} cores, {}, Linux {}</td><td class=\"t\">{}</td>\
             <td class=\"t\">{}: {:.0} µs</td><td>{:.0}</td><td class=\"t\"><code>{}</code></td>\
             <td class=\"t\">{}</td></tr>",
            date(m.time),
            escape(&m.host),
            m.cores,
            escape(&m.cpu),
            escape(&m.kernel),
            escape(&m.version),
            escape(&m.disk()),
            m.fsync_micros,
            m.calibration,
            escape(&m.command),
            escape(remarks.trim()),
        );
    }
    out.push_str("</table></div>");
}

/// All figures that a phase's budgets judge, by growing date.
fn findings(phase: &'static Phase, reports: &[&Report]) -> Vec<Dated> {
    let mut found = Vec::new();
    for report in reports {
        let holds = |e: &&Experiment| e.setup.is_some_and(|setup| phase.holds_for(&setup));
        let results = report.experiments.iter().filter(holds);
        let of = |(_, finding)| Dated {
            host: report.machine.host.clone(),
            time: report.machine.time,
            finding,
        };
        found.extend(phase.findings(results).into_iter().map(of));
    }
    found
}

/// Name of a figure's line in its chart.
fn line_name(dated: &Dated, several_hosts: bool) -> String {
    let size = dated.finding.size.as_ref();
    let mut words: Vec<String> = size
        .map(|(n, axis)| format!("{n} {axis}"))
        .into_iter()
        .collect();
    if several_hosts {
        words.push(dated.host.clone());
    }
    words.join(", ")
}

fn groups(found: Vec<Dated>, several_hosts: bool) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for dated in found {
        let name = line_name(&dated, several_hosts);
        let subject = &dated.finding.subject;
        let at = groups.iter().position(|g| g.subject == *subject);
        let at = at.unwrap_or_else(|| {
            groups.push(Group {
                subject: subject.clone(),
                lines: Vec::new(),
            });
            groups.len() - 1
        });
        let Some(group) = groups.get_mut(at) else {
            continue;
        };
        match group.lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, line)) => line.push(dated),
            None => group.lines.push((name, vec![dated])),
        }
    }
    groups
}

/// One budget: a chart for each subject, and a table of the last figures.
fn section(phase: &Phase, work: &str, found: Vec<Dated>, several_hosts: bool, out: &mut String) {
    let groups = groups(found, several_hosts);
    let delay = match phase.fsync_delay.as_millis() {
        0 => String::new(),
        millis => format!(", fsync {millis} ms slower"),
    };
    let _ = write!(
        out,
        "<h2>{}</h2><p class=\"soft\">durability {}{delay}</p><div class=\"facets\">",
        escape(work),
        phase.durability.word()
    );
    for group in &groups {
        let _ = write!(out, "<figure>{}", draw(&chart(group)));
        legend(group, out);
        out.push_str("</figure>");
    }
    out.push_str(
        "</div><div class=\"scroll\"><table><tr><th>figure</th><th class=\"t\">size</th><th>last</th>\
         <th class=\"t\">date</th><th>before</th><th class=\"t\">verdict</th><th>floor</th><th>goal</th></tr>",
    );
    for group in &groups {
        for (name, line) in &group.lines {
            row(&group.subject, name, line, out);
        }
    }
    out.push_str("</table></div>");
}

fn chart(group: &Group) -> Chart {
    let first = group.lines.first().and_then(|(_, line)| line.first());
    let unit = first.map_or("", |d| d.finding.unit.as_str());
    let mut limits = Vec::new();
    if let Some(dated) = first {
        limits.extend(dated.finding.floor.map(|floor| ("floor", floor)));
        if dated.finding.floor != Some(dated.finding.goal) {
            limits.push(("goal", dated.finding.goal));
        }
    }
    let point = |dated: &Dated| Point {
        x: dated.time as f64,
        y: dated.finding.value,
        interval: dated.finding.interval,
        is_doubtful: dated.finding.is_disturbed,
    };
    let series = group
        .lines
        .iter()
        .enumerate()
        .map(|(index, (name, line))| Series {
            index,
            name: name.clone(),
            points: line.iter().map(point).collect(),
        });
    Chart {
        title: group.subject.clone(),
        x_title: "date".to_owned(),
        y_title: if unit.is_empty() { "ratio" } else { unit }.to_owned(),
        is_logarithmic: false,
        is_dated: true,
        limits,
        series: series.collect(),
    }
}

fn legend(group: &Group, out: &mut String) {
    out.push_str("<ul class=\"legend\">");
    let names = group.lines.iter().map(|(name, _)| name).enumerate();
    for (index, name) in names.filter(|(_, name)| !name.is_empty()) {
        let _ = write!(
            out,
            "<li><svg viewBox=\"0 0 16 12\"><path fill=\"{}\" d=\"{}\"/></svg>{}</li>",
            colour(index),
            shape(index, 8.0, 6.0),
            escape(name)
        );
    }
    out.push_str("</ul>");
}

/// The last figure of a line, beside the one before it.
fn row(subject: &str, name: &str, line: &[Dated], out: &mut String) {
    let Some(last) = line.last() else {
        return;
    };
    let finding = &last.finding;
    let show = |value: f64| match finding.unit.as_str() {
        "" => format!("{value:.2}"),
        unit => format!("{} {unit}", short(value)),
    };
    let before = line.iter().rev().nth(1);
    let before = before.map_or("-".to_owned(), |dated| show(dated.finding.value));
    let outcome = finding.outcome();
    let class = match outcome {
        Outcome::Goal | Outcome::Floor => "good",
        Outcome::Short => "bad",
        Outcome::NoGoal | Outcome::Unmeasured => "soft",
    };
    let sign = match finding.direction {
        Direction::AtLeast => "≥",
        Direction::AtMost => "≤",
    };
    let limit = |limit: f64| format!("{sign} {}", plain(limit));
    let _ = write!(
        out,
        "<tr><td>{}</td><td class=\"t\">{}</td><td>{}</td><td class=\"t\">{}</td><td>{before}</td>\
         <td class=\"t {class}\">{}</td><td>{}</td><td>{}</td></tr>",
        escape(subject),
        escape(name),
        show(finding.value),
        day(last.time),
        outcome.word(),
        finding.floor.map_or("-".to_owned(), limit),
        limit(finding.goal),
    );
}

#[cfg(test)]
mod tests {
    use super::super::html::tests::check_well_formed;
    use super::super::tests::sample;
    use super::*;
    use crate::peers::Durability;
    use crate::report::{Measure, Setup};

    const DAY: u64 = 86_400;

    /// Results of `bench first` and of a figure without a peer, `days` after the sample's date.
    fn report(days: u64, ratio: f64, setup: Option<Setup>) -> Report {
        let mut report = sample("here");
        report.machine.time += days * DAY;
        let experiment = &mut report.experiments[0];
        experiment.name = "first".to_owned();
        experiment.setup = setup;
        experiment.pairs = vec![("Porpoise <text>".to_owned(), "MariaDB text".to_owned())];
        experiment.cells.truncate(2);
        for (cell, (system, factor)) in experiment
            .cells
            .iter_mut()
            .zip([("Porpoise <text>", ratio), ("MariaDB text", 1.0)])
        {
            cell.size = 8;
            system.clone_into(&mut cell.system);
            for run in &mut cell.runs {
                run.throughput = 1000.0 * factor;
            }
        }
        let mut changes = experiment.clone();
        changes.name = "schema-change".to_owned();
        changes.cells.clear();
        changes.measures = vec![Measure {
            name: "Porpoise: longest statement, add index".to_owned(),
            value: 100.0 / ratio,
            unit: "ms".to_owned(),
        }];
        report.experiments.push(changes);
        report
    }

    const SYNC: Setup = Setup {
        durability: Durability::Sync,
        fsync_delay_micros: 0,
    };

    #[test]
    fn each_budget_has_its_figures_by_date() {
        // Files in any order.
        let page = render(&[report(3, 2.75, Some(SYNC)), report(0, 2.0, Some(SYNC))]);
        check_well_formed(&page);
        for part in [
            "SELECT by key",
            "SELECT, Porpoise &lt;text&gt; beside MariaDB text",
            "<td>2.75</td><td class=\"t\">2026-05-07</td><td>2.00</td><td class=\"t good\">floor met</td>",
            "floor 2.50",
            "goal 3.50",
            "<td>36.4 ms</td>",
            "≤ 100",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        assert_eq!(page.matches("<figure>").count(), 2);
        let first = page.find("2026-05-04 13:02:59").unwrap();
        assert!(first < page.find("2026-05-07 13:02:59").unwrap());
    }

    #[test]
    fn other_settings_are_other_budgets() {
        let slow = Setup {
            fsync_delay_micros: 1000,
            ..SYNC
        };
        let page = render(&[report(0, 2.0, Some(slow)), report(1, 2.0, None)]);
        check_well_formed(&page);
        assert!(!page.contains("<h2>SELECT by key"), "{page}");
        assert!(page.contains("2 experiments with unknown durability"));
        check_well_formed(&render(&[]));
    }

    #[test]
    fn machines_have_lines_of_their_own() {
        let mut other = report(1, 2.0, Some(SYNC));
        other.machine.host = "there".to_owned();
        let page = render(&[report(0, 3.0, Some(SYNC)), other]);
        check_well_formed(&page);
        assert!(page.contains("8 clients, here") && page.contains("8 clients, there"));
    }
}
