//! Figures of processes and the machine from the kernel: processor time of a
//! server and of everything, pressure, waits.
//!
//! 1. A server's time is that of its process, of all that descend from it
//!    (PostgreSQL has one for each connection), and of those that have ended
//!    and were waited for.
//! 2. Processor time of other processes than this one and the observed servers is "outside"; a run
//!    with much of it is marked.
//! 3. A server's time is divided among its threads by their names, that of Porpoise by their roles
//!    ([`role`]). A thread that ends before the second reading is missed.

use crate::sys::ticks_per_second;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::time::Instant;

/// Fields of `/proc/PID/stat` after the name, from the third one on.
struct Stat {
    parent: u32,
    /// User and system time, in ticks.
    own: u64,
    /// The same of children that have ended and were waited for.
    children: u64,
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name is in parentheses and may contain anything.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |n: usize| fields.get(n)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(number(1)?).ok()?,
        own: number(11)? + number(12)?,
        children: number(13)? + number(14)?,
    })
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// A process's own time in seconds, all threads together: by its clock, which
/// counts nanoseconds, or if that is not available by `stat`, which counts ticks
/// of ten milliseconds.
fn own_time(pid: u32, stat: &Stat) -> f64 {
    match crate::sys::process_nanos(pid) {
        Some(nanos) => nanos as f64 / 1e9,
        None => stat.own as f64 / ticks_per_second(),
    }
}

/// Processor time of a process and its descendants since they began, in
/// seconds. `None` once the process has ended.
pub fn server_time(pid: u32) -> Option<f64> {
    const TRIES: usize = 20;
    let mut found = descent_time(pid)?;
    // A child that ends while the processes are listed is missed, or counted
    // twice; its parent's sum shows it.
    for _ in 0..TRIES {
        if stat(pid)?.children == found.1 {
            break;
        }
        found = descent_time(pid)?;
    }
    Some(found.0)
}

/// Seconds of a process with its descendants, and the ticks of its ended
/// children alone.
fn descent_time(pid: u32) -> Option<(f64, u64)> {
    let root = stat(pid)?;
    let of_children = |stat: &Stat| stat.children as f64 / ticks_per_second();
    let mut seconds = own_time(pid, &root) + of_children(&root);
    let mut parents = HashMap::new();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(other) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        if let Some(found) = stat(other) {
            parents.insert(other, found);
        }
    }
    let mut known = HashSet::from([pid]);
    loop {
        let next: Vec<u32> = parents
            .iter()
            .filter(|(p, s)| known.contains(&s.parent) && !known.contains(p))
            .map(|(p, _)| *p)
            .collect();
        if next.is_empty() {
            break;
        }
        for descendant in next {
            if let Some(found) = parents.get(&descendant) {
                seconds += own_time(descendant, found) + of_children(found);
            }
            known.insert(descendant);
        }
    }
    Some((seconds, root.children))
}

/// Processor time by a role of threads, or by their name.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadTime {
    /// Role or name.
    pub role: String,
    /// Seconds.
    pub seconds: f64,
}

/// The role of a thread, by the names of its process and its own.
fn role(process: &str, thread: &str) -> String {
    let role = match (process, thread) {
        ("porpoise", "worker") => "event loops",
        ("porpoise", "log") => "log writer",
        ("porpoise", "accept") => "connections",
        ("porpoise", "binlog-writer") => "binary log",
        ("porpoise", "http" | "rest") => "http",
        ("porpoise", _) => "background",
        (_, name) => name,
    };
    role.to_owned()
}

/// A thread's name and its processor time so far, in seconds.
fn thread_time(pid: u32, thread: &str) -> Option<(String, f64)> {
    let directory = format!("/proc/{pid}/task/{thread}");
    let name = std::fs::read_to_string(format!("{directory}/comm")).ok()?;
    // Nanoseconds on a processor, where the kernel counts them; otherwise ticks.
    let exact = std::fs::read_to_string(format!("{directory}/schedstat")).ok();
    let exact = exact.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    let seconds = match exact {
        Some(nanos) if nanos > 0.0 => nanos / 1e9,
        _ => {
            let stat = std::fs::read_to_string(format!("{directory}/stat")).ok()?;
            parse_stat(&stat)?.own as f64 / ticks_per_second()
        }
    };
    Some((name.trim().to_owned(), seconds))
}

/// Role and seconds of each thread of a process, by the thread's number.
fn threads_of(pid: u32) -> HashMap<u32, (String, f64)> {
    let process = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return HashMap::new();
    };
    let of = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        let number = name.to_str()?;
        let (thread, seconds) = thread_time(pid, number)?;
        Some((
            number.parse().ok()?,
            (role(process.trim(), &thread), seconds),
        ))
    };
    threads.flatten().filter_map(of).collect()
}

/// Time by role between two readings of the same process, largest first.
fn by_role(
    before: &HashMap<u32, (String, f64)>,
    after: &HashMap<u32, (String, f64)>,
) -> Vec<ThreadTime> {
    let mut found: Vec<ThreadTime> = Vec::new();
    for (thread, (role, seconds)) in after {
        let seconds = (seconds - before.get(thread).map_or(0.0, |(_, then)| *then)).max(0.0);
        match found.iter_mut().find(|f| f.role == *role) {
            Some(known) => known.seconds += seconds,
            None => found.push(ThreadTime {
                role: role.clone(),
                seconds,
            }),
        }
    }
    found.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.role.cmp(&b.role)));
    found.retain(|f| f.seconds > 0.0);
    found
}

/// Resident bytes of a process; `None` once it has ended.
pub fn resident(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmRSS"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Processor time of this process in seconds.
pub fn own_seconds() -> Option<f64> {
    let pid = std::process::id();
    Some(own_time(pid, &stat(pid)?))
}

/// Processor time of this process's children that have ended and were waited
/// for, in seconds.
pub fn ended_children() -> Option<f64> {
    let stat = stat(std::process::id())?;
    Some(stat.children as f64 / ticks_per_second())
}

/// Processor time that the whole machine has spent busy, in seconds over all
/// cores.
pub fn machine_time() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .filter_map(|n| n.parse().ok())
        .collect();
    // user, nice, system, (idle, iowait), irq, softirq, steal
    let busy: u64 = [0, 1, 2, 5, 6, 7]
        .iter()
        .filter_map(|i| fields.get(*i))
        .sum();
    Some(busy as f64 / ticks_per_second())
}

/// Share of the last ten seconds in which a runnable thread waited for a
/// processor, in per cent; `None` if the kernel does not report it.
pub fn cpu_pressure() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
    pressure_in(&text)
}

fn pressure_in(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("some"))?;
    let value = line
        .split_whitespace()
        .find_map(|w| w.strip_prefix("avg10="))?;
    value.parse().ok()
}

/// A reading before or after a run.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    at: Option<Instant>,
    server: Option<f64>,
    /// The server's threads.
    threads: HashMap<u32, (String, f64)>,
    ours: Option<f64>,
    machine: Option<f64>,
}

/// Cost of a run, from two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Processor seconds of the server.
    pub server: Option<f64>,
    /// Processor seconds of the generator.
    pub generator: Option<f64>,
    /// Processor seconds of anything else on the machine; known where the
    /// server's are.
    pub outside: Option<f64>,
}

impl Spent {
    fn times(self, factor: f64) -> Spent {
        let scaled = |seconds: Option<f64>| seconds.map(|s| s * factor);
        Spent {
            server: scaled(self.server),
            generator: scaled(self.generator),
            outside: scaled(self.outside),
        }
    }
}

impl Reading {
    /// Reads now; `server` is its process, if it is on this machine.
    pub fn now(server: Option<u32>) -> Reading {
        Reading::with_generators(server, &[])
    }

    /// As [`Reading::now`], where other processes generate load, too.
    pub fn with_generators(server: Option<u32>, generators: &[u32]) -> Reading {
        let others = generators
            .iter()
            .filter_map(|pid| crate::sys::process_nanos(*pid));
        let others = others.map(|nanos| nanos as f64 / 1e9).sum::<f64>();
        Reading {
            at: Some(Instant::now()),
            server: server.and_then(server_time),
            ours: own_seconds().map(|own| own + others),
            machine: machine_time(),
            threads: server.map(threads_of).unwrap_or_default(),
        }
    }

    /// The server's time by role between this reading and the later one, as [`Reading::within`].
    pub fn threads_within(&self, later: &Reading, seconds: f64) -> Vec<ThreadTime> {
        let factor = self.scale(later, seconds);
        let mut found = by_role(&self.threads, &later.threads);
        for thread in &mut found {
            thread.seconds *= factor;
        }
        found
    }

    /// Factor from the time between two readings to the measured time.
    fn scale(&self, later: &Reading, seconds: f64) -> f64 {
        let between = self.at.zip(later.at);
        let between = between.map_or(0.0, |(a, b)| b.saturating_duration_since(a).as_secs_f64());
        if between > seconds {
            seconds / between
        } else {
            1.0
        }
    }

    /// Cost of `seconds` of measured work between this reading and the later one. Taking the
    /// readings takes time, during which the work continues uncounted; the cost is scaled down
    /// accordingly.
    pub fn within(&self, later: &Reading, seconds: f64) -> Spent {
        self.until(later).times(self.scale(later, seconds))
    }

    /// Cost from this reading to the later one.
    pub fn until(&self, later: &Reading) -> Spent {
        let between = |a: Option<f64>, b: Option<f64>| Some((b? - a?).max(0.0));
        let server = between(self.server, later.server);
        let generator = between(self.ours, later.ours);
        let outside =
            || Some((between(self.machine, later.machine)? - server? - generator?).max(0.0));
        Spent {
            server,
            generator,
            outside: outside(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_disturb() {
        let text = "12 (a) b (c)) S 7 1 1 0 -1 0 1 2 3 4 50 60 70 80 20 0 9 0";
        let found = parse_stat(text).unwrap();
        assert_eq!((found.parent, found.own, found.children), (7, 110, 150));
        assert!(parse_stat("12 (cut").is_none());
    }

    #[test]
    fn processor_time_is_scaled_to_the_measured_duration() {
        let at = Instant::now();
        let reading = |seconds: u64, server: f64| Reading {
            at: Some(at + std::time::Duration::from_secs(seconds)),
            server: Some(server),
            ours: Some(0.0),
            machine: Some(server),
            threads: HashMap::from([(7, ("worker".to_owned(), server))]),
        };
        let spent = reading(0, 1.0).within(&reading(4, 3.0), 3.0);
        assert_eq!(spent.server, Some(1.5));
        let threads = reading(0, 1.0).threads_within(&reading(4, 3.0), 3.0);
        assert_eq!(threads[0].seconds, 1.5);
        let all = reading(0, 1.0).within(&reading(4, 3.0), 4.0);
        assert_eq!(all.server, Some(2.0));
    }

    #[test]
    fn time_is_divided_among_roles() {
        let threads = |list: &[(u32, &str, f64)]| -> HashMap<u32, (String, f64)> {
            let of = |(n, name, s): &(u32, &str, f64)| (*n, (role("porpoise", name), *s));
            list.iter().map(of).collect()
        };
        let before = threads(&[
            (1, "porpoise", 1.0),
            (2, "worker", 5.0),
            (9, "reclaimer", 1.0),
        ]);
        let after = threads(&[
            (1, "porpoise", 1.0),
            (2, "worker", 7.0),
            (3, "worker", 0.5),
            (4, "log", 1.0),
            (9, "reclaimer", 1.25),
        ]);
        let found = by_role(&before, &after);
        let found: Vec<(&str, f64)> = found.iter().map(|f| (f.role.as_str(), f.seconds)).collect();
        assert_eq!(
            found,
            [
                ("event loops", 2.5),
                ("log writer", 1.0),
                ("background", 0.25)
            ]
        );
        assert_eq!(role("mariadbd", "one_connection"), "one_connection");
    }

    #[test]
    fn own_threads_are_found_by_their_names() {
        let (stop, running) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            let busy = std::thread::Builder::new().name("busy-thread".to_owned());
            let work = || {
                let begun = Instant::now();
                while begun.elapsed().as_millis() < 30 {}
                running.wait();
                stop.wait();
            };
            busy.spawn_scoped(scope, work).unwrap();
            running.wait();
            let threads = threads_of(std::process::id());
            let found = threads.values().find(|(role, _)| role == "busy-thread");
            assert!(found.unwrap().1 > 0.0, "{threads:?}");
            stop.wait();
        });
    }

    #[test]
    fn pressure_is_read() {
        let text = "some avg10=21.26 avg60=11.43 avg300=17.51 total=1\nfull avg10=0.00";
        assert_eq!(pressure_in(text), Some(21.26));
        assert_eq!(pressure_in("full avg10=1"), None);
    }

    #[test]
    fn a_process_counts_with_its_children() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sh -c 'while :; do :; done' & wait"])
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        let mut seen = 0.0;
        while seen < 0.05 && begun.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            seen = server_time(child.id()).unwrap();
        }
        let grandchildren =
            std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        for pid in grandchildren.split_whitespace() {
            let _ = std::process::Command::new("kill").arg(pid).status();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen >= 0.05, "{seen}");
        assert_eq!(server_time(child.id()), None);
    }
}
