//! Statistics of `stats`: those of memcached that are meaningful here.
//!
//! Counters are those of the metrics page; `stats reset` records their values, and later replies
//! report the differences.

use crate::context::ListenerState;
use crate::counters::{self, STATS};
use parking_lot::Mutex;
use porpoise_base::clock::Clock;
use porpoise_wire::memcached::reply;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Returns the bytes that the server has received and sent.
pub type Traffic = fn() -> (u64, u64);

/// The open connections: number and peer.
#[derive(Default)]
pub(crate) struct OpenConnections {
    peers: Mutex<BTreeMap<u64, String>>,
}

impl OpenConnections {
    /// Adds a connection that was opened.
    pub(crate) fn add(&self, number: u64, peer: String) {
        self.peers.lock().insert(number, peer);
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&self, number: u64) {
        self.peers.lock().remove(&number);
    }

    fn show(&self, show: &mut Show<'_>) {
        for (number, peer) in self.peers.lock().iter() {
            show(&format!("{number}:addr"), peer.as_bytes());
        }
    }
}

/// Statistics of a listener.
pub struct ListenerStatistics {
    started: Instant,
    /// Number of open connections.
    pub(crate) connections: AtomicU64,
    /// The open connections.
    pub(crate) open: OpenConnections,
    /// Number of connections since the start.
    pub(crate) total: AtomicU64,
    traffic: Traffic,
    /// Values of the counters at the last reset, in the order of [`ListenerStatistics::totals`].
    counters_at_reset: Mutex<Vec<u64>>,
}

impl ListenerStatistics {
    /// Creates the statistics, all zero.
    pub fn new(clock: &dyn Clock, traffic: Traffic) -> ListenerStatistics {
        ListenerStatistics {
            started: clock.now(),
            connections: AtomicU64::new(0),
            open: OpenConnections::default(),
            total: AtomicU64::new(0),
            traffic,
            counters_at_reset: Mutex::new(Vec::new()),
        }
    }

    /// Executes `stats reset`.
    pub fn reset(&self) {
        let now = self.totals().map(|(_, total)| total).collect();
        *self.counters_at_reset.lock() = now;
    }

    /// All counters since the start.
    fn totals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let (received, sent) = (self.traffic)();
        let counters = STATS.iter().map(|(name, c)| (*name, counters::sum(*c)));
        counters.chain([("bytes_read", received), ("bytes_written", sent)])
    }

    /// All counters since the last reset.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let base = self.counters_at_reset.lock();
        let base = base.iter().copied().chain(std::iter::repeat(0));
        let since = self.totals().zip(base);
        since
            .map(|((name, total), base)| (name, total.saturating_sub(base)))
            .collect()
    }
}

/// Reply to `stats`.
pub(crate) enum StatsReply {
    /// The statistics have been passed to `show`; the end of the list follows.
    ListenerStatistics,
    /// A line of the ASCII dialect in place of statistics.
    Text(&'static [u8]),
    /// There are no statistics of this name.
    Unknown,
}

/// Appends a statistic, given by name and value, to the reply.
type Show<'a> = dyn FnMut(&str, &[u8]) + 'a;

fn number(show: &mut Show<'_>, name: &str, value: u64) {
    show(name, value.to_string().as_bytes());
}

/// Answers `stats` with its arguments; `show` is called for every statistic.
pub(crate) fn answer<'a>(
    shared: &ListenerState,
    mut args: impl Iterator<Item = &'a [u8]>,
    show: &mut Show<'_>,
) -> StatsReply {
    match args.next() {
        None => general(shared, show),
        Some(b"reset") => {
            shared.statistics.reset();
            return StatsReply::Text(reply::RESET);
        }
        Some(b"settings") => settings(shared, show),
        Some(b"items") => items(shared, show),
        // There are no slab classes here.
        Some(b"slabs") => number(show, "active_slabs", 0),
        Some(b"sizes") => show("sizes_status", b"disabled"),
        Some(b"conns") => shared.statistics.open.show(show),
        Some(b"cachedump") => return StatsReply::Text(cachedump(args.next(), args.next())),
        Some(b"detail") => return StatsReply::Text(detail(args.next())),
        Some(_) => return StatsReply::Unknown,
    }
    StatsReply::ListenerStatistics
}

/// Number of slab classes of memcached.
const SLAB_CLASSES: u64 = 63;

/// Replies to `stats cachedump`. Rows are in no slab class, so every class is empty.
fn cachedump(class: Option<&[u8]>, limit: Option<&[u8]>) -> &'static [u8] {
    let (Some(class), Some(limit)) = (class, limit) else {
        return b"CLIENT_ERROR bad command line\r\n";
    };
    let parse = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
    match (parse(class), parse(limit)) {
        (Some(class), Some(_)) if class > SLAB_CLASSES => b"CLIENT_ERROR Illegal slab id\r\n",
        (Some(_), Some(_)) => reply::END,
        _ => b"CLIENT_ERROR bad command line format\r\n",
    }
}

/// Replies to `stats detail`. There are no statistics by prefix; `ndbmemcache.status` lists the
/// prefixes.
fn detail(action: Option<&[u8]>) -> &'static [u8] {
    match action {
        Some(b"on" | b"off") => reply::OK,
        Some(b"dump") => reply::END,
        _ => b"CLIENT_ERROR usage: stats detail on|off|dump\r\n",
    }
}

/// Shows the statistics of `stats` without arguments.
fn general(shared: &ListenerState, show: &mut Show<'_>) {
    let figures = &shared.statistics;
    let clock = shared.db.clock();
    let uptime = clock.now().saturating_duration_since(figures.started);
    let time = clock.unix_micros().div_euclid(1_000_000);
    number(show, "pid", u64::from(std::process::id()));
    number(show, "uptime", uptime.as_secs());
    number(show, "time", u64::try_from(time).unwrap_or(0));
    show("version", crate::VERSION.as_bytes());
    number(show, "pointer_size", u64::from(usize::BITS));
    let open = figures.connections.load(Ordering::Relaxed);
    number(show, "curr_connections", open);
    let total = figures.total.load(Ordering::Relaxed);
    number(show, "total_connections", total);
    let counters = figures.counters();
    let sum = |names: &[&str]| {
        let named = counters.iter().filter(|(name, _)| names.contains(name));
        named.map(|(_, n)| n).sum::<u64>()
    };
    number(show, "cmd_get", sum(&["get_hits", "get_misses"]));
    number(show, "cmd_touch", sum(&["touch_hits", "touch_misses"]));
    for (name, value) in &counters {
        number(show, name, *value);
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    number(show, "threads", threads);
    // A running server never stops accepting.
    number(show, "accepting_conns", 1);
    // `flush_all` deletes rows, so no get finds an item that was flushed.
    number(show, "get_flushed", 0);
    let (items, bytes) = shared.cache.size();
    number(
        show,
        "curr_items",
        items.saturating_add(estimated_rows(shared)),
    );
    number(show, "bytes", bytes);
}

/// Estimated number of rows of all containers' tables together.
fn estimated_rows(shared: &ListenerState) -> u64 {
    let current = shared.mapping.load();
    let mut tables: Vec<_> = current
        .mapping
        .containers
        .iter()
        .map(|c| &c.table)
        .collect();
    tables.sort_unstable_by_key(|table| table.id);
    tables.dedup_by_key(|table| table.id);
    let counts = tables.into_iter();
    counts
        .filter_map(|table| shared.db.approximate_rows(table))
        .sum()
}

fn settings(shared: &ListenerState, show: &mut Show<'_>) {
    let limits = &shared.limits;
    number(show, "item_size_max", limits.max_value as u64);
    // `verbosity` is accepted and has no effect.
    number(show, "verbosity", 0);
    show("evictions", b"off");
    show("cas_enabled", b"yes");
    show("flush_enabled", b"yes");
    show("binding_protocol", b"auto-negotiate");
    show("auth_enabled_sasl", b"no");
    show("detail_enabled", b"no");
    show("dump_enabled", b"no");
    let key = porpoise_wire::memcached::MAX_KEY;
    number(show, "key_size_max", key as u64);
}

/// Shows the containers, numbered, in place of slab classes.
fn items(shared: &ListenerState, show: &mut Show<'_>) {
    let current = shared.mapping.load();
    for (n, container) in current.mapping.containers.iter().enumerate() {
        let n = n + 1;
        let table = &container.table;
        show(&format!("items:{n}:container"), container.name.as_bytes());
        let name = format!("{}.{}", table.database, table.name);
        show(&format!("items:{n}:table"), name.as_bytes());
    }
}
