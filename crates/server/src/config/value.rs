//! Parsers of setting values. Errors describe the accepted values.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// Result of a parser: the value, or a description of valid values.
pub type Parsed<T> = Result<T, String>;

/// Parses `HOST:PORT`, where `*` stands for all addresses; `off` is `None`.
pub fn address(text: &str) -> Parsed<Option<SocketAddr>> {
    if text == "off" {
        return Ok(None);
    }
    let expected = || "an address like 127.0.0.1:3306, or off".to_owned();
    if let Ok(address) = text.parse() {
        return Ok(Some(address));
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
    let port: u16 = port.parse().map_err(|_| expected())?;
    let host = if host == "*" { "0.0.0.0" } else { host };
    if host.is_empty() {
        return Err(expected());
    }
    let found = (host, port).to_socket_addrs().map_err(|_| expected())?;
    let mut found: Vec<_> = found.collect();
    // "localhost" may resolve to both address families; clients try IPv4 first.
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().map(Some).ok_or_else(expected)
}

/// Parses a path; `off` is `None`.
pub fn path(text: &str) -> Parsed<Option<PathBuf>> {
    match text {
        "" => Err("a path, or off".into()),
        "off" => Ok(None),
        path => Ok(Some(PathBuf::from(path))),
    }
}

/// Parses a whole number from `low` to `high`.
pub fn number(text: &str, low: usize, high: usize) -> Parsed<usize> {
    text.parse()
        .ok()
        .filter(|n| (low..=high).contains(n))
        .ok_or_else(|| format!("a number from {low} to {high}"))
}

/// Parses `true` or `false`.
pub fn switch(text: &str) -> Parsed<bool> {
    match text {
        "true" | "on" | "1" | "yes" => Ok(true),
        "false" | "off" | "0" | "no" => Ok(false),
        _ => Err("true or false".into()),
    }
}

/// Parses a duration: `500ms`, `30s`, `2m`, `8h`, or plain seconds.
pub fn duration(text: &str) -> Parsed<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let millis = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    digits
        .parse::<u64>()
        .ok()
        .filter(|n| millis != 0 && *n > 0 && *n < 1_000_000)
        .map(|n| Duration::from_millis(n * millis))
        .ok_or_else(|| "a time like 500ms, 30s, 2m or 8h".into())
}

/// Parses a size: `512M`, `4G`, plain bytes, a percentage of this machine's memory like `75%`;
/// `off` is `None`.
pub fn size(text: &str) -> Parsed<Option<u64>> {
    let expected = || "a size like 512M, 4G or 75%, or off".to_owned();
    if text == "off" {
        return Ok(None);
    }
    if let Some(percent) = text.strip_suffix('%') {
        let percent: u64 = percent.parse().map_err(|_| expected())?;
        if !(1..=100).contains(&percent) {
            return Err(expected());
        }
        // No limit if the machine's memory is unknown.
        return Ok(machine_memory().map(|all| all / 100 * percent));
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..).unwrap_or_default() {
        "" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        "T" | "t" | "TiB" => 40,
        _ => return Err(expected()),
    };
    let n: u64 = digits.parse().map_err(|_| expected())?;
    n.checked_mul(1 << shift)
        .filter(|n| *n > 0)
        .map(Some)
        .ok_or_else(expected)
}

/// Returns this machine's memory in bytes, or the limit of its control group if that is lower.
fn machine_memory() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find(|l| l.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    let all = kib * 1024;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|t| t.trim().parse().ok())
        .unwrap_or(u64::MAX);
    Some(all.min(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("512M"), Ok(Some(512 << 20)));
        assert_eq!(size("off"), Ok(None));
        assert!(size("75%").unwrap().unwrap() > 1 << 20);
        for bad in ["", "0", "5X", "-1", "101%", "99999999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("8h"), Ok(Duration::from_secs(28_800)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        for bad in ["", "s", "0", "1d", "-1s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(address("off"), Ok(None));
        assert_eq!(address("*:0").unwrap().unwrap().to_string(), "0.0.0.0:0");
        assert!(address("localhost:1").unwrap().unwrap().ip().is_loopback());
        for bad in ["", "3306", ":3306", "127.0.0.1", "127.0.0.1:70000", "a b:1"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
