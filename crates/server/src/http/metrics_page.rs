//! The metrics page, in Prometheus' text form.

use crate::metrics;
use crate::net::NetMonitor;
use porpoise_base::counters::CounterDef;
use porpoise_kv::{Durations, Stat};
use porpoise_memcached::counters as memcached;
use porpoise_native::counters as native;
use porpoise_sql::{ClassLatency, TableSize};
use std::fmt::Write;

/// Adds one metric without labels.
fn write_metric(
    page: &mut String,
    name: &str,
    help: &str,
    kind: &str,
    value: impl std::fmt::Display,
) {
    let _ = write!(
        page,
        "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"
    );
}

/// Maximum number of tables on the page: the largest.
pub const MAX_TABLES: usize = 50;

/// Values on the page that come from other parts of the server.
pub struct Figures<'a> {
    /// Connections and workers.
    pub net: &'a NetMonitor,
    /// Statistics of the engine.
    pub engine: &'a [Stat],
    /// Durations of the engine's work.
    pub durations: &'a [Durations],
    /// Statistics of SQL and backups.
    pub sql: &'a [Stat],
    /// Times of statements by class.
    pub statements: &'a [ClassLatency],
    /// Sampled times of memcached commands by verb.
    pub commands: &'a [ClassLatency],
    /// Sampled times of the phases of statements, and of replies that waited for durability.
    pub phases: &'a [ClassLatency],
    /// The largest tables.
    pub tables: &'a [TableSize],
    /// Bytes of the memory cache of memcached.
    pub cache_bytes: u64,
}

/// Renders the page: counters, gauges of the network, statistics of engine and SQL, and process
/// metrics.
pub fn render(figures: &Figures<'_>) -> String {
    let Figures {
        net, engine, sql, ..
    } = figures;
    let mut page = String::with_capacity(8 * 1024);
    write_counters(&mut page);
    let gauges = net.gauges();
    for (name, help, value) in [
        (
            "porpoise_connections",
            "Open connections.",
            gauges.connections,
        ),
        (
            "porpoise_connections_before_login",
            "Open connections that have not logged in.",
            gauges.before_login,
        ),
        (
            "porpoise_sessions_waiting",
            "Sessions that wait on a thread of their own.",
            gauges.waiting,
        ),
        (
            "porpoise_sessions_computing",
            "Sessions that compute on a thread of their own.",
            gauges.computing,
        ),
        (
            "porpoise_worker_threads",
            "Worker threads, including spare ones.",
            gauges.threads,
        ),
    ] {
        write_metric(&mut page, name, help, "gauge", value);
    }
    let engine = engine.iter().map(|stat| ("porpoise_engine_", stat));
    let sql = sql.iter().map(|stat| ("porpoise_", stat));
    for (prefix, stat) in engine.chain(sql) {
        let kind = if stat.counter { "counter" } else { "gauge" };
        let name = format!("{prefix}{}", stat.name);
        write_metric(&mut page, &name, stat.help, kind, stat.value);
    }
    write_metric(
        &mut page,
        "porpoise_thread_restarts_total",
        "Background threads restarted after a panic.",
        "counter",
        porpoise_base::threads::restarts(),
    );
    write_histograms(&mut page, figures);
    write_tables(&mut page, figures.tables);
    write_memory(&mut page, figures);
    write_process(&mut page);
    page
}

/// Adds the times of statements and commands.
fn write_histograms(page: &mut String, figures: &Figures<'_>) {
    let histograms = [
        (
            "porpoise_sql_statement_duration_seconds",
            "Time from the receipt of a statement until its reply is ready.",
            "class",
            figures.statements,
        ),
        (
            "porpoise_memcached_command_duration_seconds",
            "Time of memcached commands, of one in 256.",
            "command",
            figures.commands,
        ),
        (
            "porpoise_phase_duration_seconds",
            "Time of the phases of statements, of one in 64; durability_wait: of replies of all protocols that waited for a sync of the log, of one in 64.",
            "phase",
            figures.phases,
        ),
    ];
    for (name, help, label, latencies) in histograms {
        write_latencies(page, name, help, label, latencies);
    }
    for durations in figures.durations {
        let mut latency = ClassLatency::of_phase("");
        latency.add_counts(&durations.counts, durations.nanos);
        let name = format!("porpoise_engine_{}_duration_seconds", durations.name);
        write_latencies(page, &name, durations.help, "", &[latency]);
    }
}

/// Adds the sizes of tables.
fn write_tables(page: &mut String, tables: &[TableSize]) {
    type Size = fn(&TableSize) -> Option<u64>;
    let families: [(&str, &str, Size); 3] = [
        (
            "porpoise_table_rows",
            "Estimated number of rows of the largest tables.",
            |table| table.rows,
        ),
        (
            "porpoise_table_data_bytes",
            "Bytes of rows and overflow values of the largest tables, older versions included.",
            |table| table.bytes.map(|bytes| bytes.data),
        ),
        (
            "porpoise_table_index_bytes",
            "Bytes of entries of secondary indexes of the largest tables.",
            |table| table.bytes.map(|bytes| bytes.indexes),
        ),
    ];
    for (name, help, size) in families {
        let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} gauge\n");
        for table in tables {
            let Some(size) = size(table) else {
                continue;
            };
            let (database, table) = (label_value(&table.database), label_value(&table.name));
            let _ = writeln!(
                page,
                "{name}{{database=\"{database}\",table=\"{table}\"}} {size}"
            );
        }
    }
}

/// Adds the memory by its use. What the parts do not explain of the resident memory is overhead of the
/// allocator, code, stacks and buffers.
fn write_memory(page: &mut String, figures: &Figures<'_>) {
    const NAME: &str = "porpoise_memory_bytes";
    let of = |stats: &[Stat], name: &str| {
        let mut stats = stats.iter();
        let found = stats.find(|stat| stat.name == name);
        found.map(|stat| stat.value)
    };
    let parts = [
        ("rows", of(figures.engine, "live_bytes")),
        ("indexes", of(figures.engine, "index_bytes")),
        ("log_buffers", of(figures.engine, "log_buffer_bytes")),
        ("connections", of(figures.sql, "client_memory_bytes")),
        ("hot_keys", of(figures.sql, "hot_keys_bytes")),
        ("memcached_cache", Some(figures.cache_bytes)),
    ];
    let help = "Memory by use: keys and versions of rows, index structures, buffers of the log, \
                statements and connections, sampled keys, items of the memory cache.";
    let _ = write!(page, "# HELP {NAME} {help}\n# TYPE {NAME} gauge\n");
    for (part, bytes) in parts {
        if let Some(bytes) = bytes {
            let _ = writeln!(page, "{NAME}{{part=\"{part}\"}} {bytes}");
        }
    }
}

/// Escapes the value of a label.
fn label_value(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

/// Adds times as one histogram for each value of a label; of a metric without labels, if it is empty.
fn write_latencies(
    page: &mut String,
    name: &str,
    help: &str,
    label: &str,
    latencies: &[ClassLatency],
) {
    let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} histogram\n");
    for latency in latencies {
        let (first, all) = match label {
            "" => (String::new(), String::new()),
            _ => {
                let own = format!("{label}=\"{}\"", latency.class);
                (format!("{own},"), format!("{{{own}}}"))
            }
        };
        for (limit, count) in &latency.counts {
            let _ = writeln!(page, "{name}_bucket{{{first}le=\"{limit}\"}} {count}");
        }
        let (total, seconds) = (latency.total, latency.seconds);
        let _ = write!(
            page,
            "{name}_bucket{{{first}le=\"+Inf\"}} {total}\n\
             {name}_sum{all} {seconds}\n\
             {name}_count{all} {total}\n"
        );
    }
}

fn write_counters(page: &mut String) {
    let server = metrics::Counter::ALL.iter().map(|c| metrics::sum(*c));
    write_families(page, metrics::COUNTERS.iter().zip(server));
    let memcached = memcached::Counter::ALL.iter().map(|c| memcached::sum(*c));
    write_families(page, memcached::COUNTERS.iter().zip(memcached));
    let native = native::Counter::ALL.iter().map(|c| native::sum(*c));
    write_families(page, native::COUNTERS.iter().zip(native));
}

/// Adds counters with their values, grouped by metric family.
fn write_families<'a>(page: &mut String, counters: impl Iterator<Item = (&'a CounterDef, u64)>) {
    let mut family = "";
    for (entry, value) in counters {
        if entry.name != family {
            family = entry.name;
            let _ = write!(
                page,
                "# HELP {family} {}\n# TYPE {family} counter\n",
                entry.help
            );
        }
        if entry.labels.is_empty() {
            let _ = writeln!(page, "{family} {value}");
        } else {
            let _ = writeln!(page, "{family}{{{}}} {value}", entry.labels);
        }
    }
}

/// Bytes of a page in `/proc/self/statm`.
const PAGE_BYTES: u64 = 4096;

/// Clock ticks per second in `/proc/self/stat` (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

/// Adds the process's memory, CPU time and version.
fn write_process(page: &mut String) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = statm.split(' ').nth(1).and_then(|n| n.parse().ok());
    if let Some(pages) = pages {
        let help = "Resident memory in bytes.";
        write_metric(
            page,
            "process_resident_memory_bytes",
            help,
            "gauge",
            pages * PAGE_BYTES,
        );
    }
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Splits after the last parenthesis: the process name before it may contain anything. Then utime
    // and stime are the 12th and 13th fields.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut ticks = rest.split_whitespace().skip(11).map(str::parse::<u64>);
    if let (Some(Ok(user)), Some(Ok(system))) = (ticks.next(), ticks.next()) {
        let seconds = (user + system) as f64 / TICKS_PER_SECOND;
        let help = "CPU time used, in seconds.";
        write_metric(page, "process_cpu_seconds_total", help, "counter", seconds);
    }
    let version = env!("CARGO_PKG_VERSION");
    let _ = write!(
        page,
        "# HELP porpoise_build_info The version, as a label.\n# TYPE porpoise_build_info gauge\n\
         porpoise_build_info{{version=\"{version}\"}} 1\n"
    );
}
