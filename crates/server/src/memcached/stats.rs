//! What `stats` tells: the figures of memcached that mean something here.
//!
//! Counters are those of the metrics page; `stats reset` remembers where they
//! stood and tells the difference from then on.

use super::Shared;
use crate::metrics::{self, Counter};
use parking_lot::Mutex;
use porpoise_base::clock::Clock;
use porpoise_wire::memcached::reply;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Names of the counters as `stats` has them.
const NAMES: &[(&str, Counter)] = &[
    ("get_hits", Counter::MemcachedGetHit),
    ("get_misses", Counter::MemcachedGetMiss),
    ("cmd_set", Counter::MemcachedSet),
    ("cmd_flush", Counter::MemcachedFlush),
    ("delete_misses", Counter::MemcachedDeleteMiss),
    ("delete_hits", Counter::MemcachedDeleteHit),
    ("incr_misses", Counter::MemcachedIncrMiss),
    ("incr_hits", Counter::MemcachedIncrHit),
    ("decr_misses", Counter::MemcachedDecrMiss),
    ("decr_hits", Counter::MemcachedDecrHit),
    ("cas_misses", Counter::MemcachedCasMiss),
    ("cas_hits", Counter::MemcachedCasHit),
    ("cas_badval", Counter::MemcachedCasBadval),
    ("touch_hits", Counter::MemcachedTouchHit),
    ("touch_misses", Counter::MemcachedTouchMiss),
    ("bytes_read", Counter::BytesReceived),
    ("bytes_written", Counter::BytesSent),
];

/// Figures of the door.
pub struct Figures {
    started: Instant,
    /// Open connections of this door.
    pub(super) connections: AtomicU64,
    /// Connections so far.
    pub(super) total: AtomicU64,
    /// Where the counters stood at the last reset, in the order of `NAMES`.
    base: Mutex<Vec<u64>>,
}

impl Figures {
    /// All at zero.
    pub fn new(clock: &dyn Clock) -> Figures {
        Figures {
            started: clock.now(),
            connections: AtomicU64::new(0),
            total: AtomicU64::new(0),
            base: Mutex::new(vec![0; NAMES.len()]),
        }
    }

    /// `stats reset`.
    pub fn reset(&self) {
        let now = NAMES.iter().map(|(_, c)| metrics::sum(*c)).collect();
        *self.base.lock() = now;
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let base = self.base.lock();
        NAMES
            .iter()
            .zip(base.iter())
            .map(|((name, counter), base)| (*name, metrics::sum(*counter).saturating_sub(*base)))
            .collect()
    }
}

/// Answers `stats` with its arguments.
pub(super) fn answer<'a>(
    shared: &Shared,
    mut args: impl Iterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) {
    match args.next() {
        None => general(shared, out),
        Some(b"reset") => {
            shared.figures.reset();
            out.extend_from_slice(reply::RESET);
            return;
        }
        Some(b"settings") => settings(shared, out),
        Some(_) => {}
    }
    out.extend_from_slice(reply::END);
}

fn general(shared: &Shared, out: &mut Vec<u8>) {
    let figures = &shared.figures;
    let clock = shared.db.clock();
    let uptime = clock.now().saturating_duration_since(figures.started);
    let time = clock.unix_micros().div_euclid(1_000_000);
    reply::stat_number(out, "pid", u64::from(std::process::id()));
    reply::stat_number(out, "uptime", uptime.as_secs());
    reply::stat_number(out, "time", u64::try_from(time).unwrap_or(0));
    reply::stat(out, "version", env!("CARGO_PKG_VERSION").as_bytes());
    reply::stat_number(out, "pointer_size", u64::from(usize::BITS));
    let open = figures.connections.load(Ordering::Relaxed);
    reply::stat_number(out, "curr_connections", open);
    let total = figures.total.load(Ordering::Relaxed);
    reply::stat_number(out, "total_connections", total);
    let counters = figures.counters();
    let sum = |names: &[&str]| {
        let of = counters.iter().filter(|(name, _)| names.contains(name));
        of.map(|(_, n)| n).sum::<u64>()
    };
    reply::stat_number(out, "cmd_get", sum(&["get_hits", "get_misses"]));
    reply::stat_number(out, "cmd_touch", sum(&["touch_hits", "touch_misses"]));
    for (name, value) in &counters {
        reply::stat_number(out, name, *value);
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    reply::stat_number(out, "threads", threads);
}

fn settings(shared: &Shared, out: &mut Vec<u8>) {
    let limits = &shared.limits;
    reply::stat_number(out, "item_size_max", limits.max_value as u64);
    reply::stat(out, "evictions", b"off");
    reply::stat(out, "cas_enabled", b"yes");
    reply::stat(out, "flush_enabled", b"yes");
    reply::stat(out, "binding_protocol", b"ascii");
    let key = porpoise_wire::memcached::MAX_KEY;
    reply::stat_number(out, "key_size_max", key as u64);
}
