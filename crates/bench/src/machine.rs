//! The head of every result: the machine, and its state while the
//! experiment ran.
//!
//! The calibration loop is pure arithmetic and measures the speed of the processor
//! at that time; the median of a write and fsync is the least cost of a durable
//! commit.

use crate::error::Result;
use crate::procfs::cpu_pressure;
use crate::stats::median;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The version, with a warning if this build is not meant for measurements.
const VERSION: &str = if cfg!(debug_assertions) {
    concat!(
        env!("CARGO_PKG_VERSION"),
        " (built with debug assertions: not for figures)"
    )
} else {
    env!("CARGO_PKG_VERSION")
};

/// The machine and the time of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the machine.
    pub host: String,
    /// Model of the processor.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// Kernel.
    pub kernel: String,
    /// Version of this program.
    pub version: String,
    /// Time, in seconds since 1970.
    pub time: u64,
    /// The command.
    pub command: String,
    /// Steps of the calibration loop in a second, one core, in millions.
    pub calibration: f64,
    /// Median of 200 writes of 4 KiB with fdatasync, in microseconds, on the file system of
    /// the servers' files.
    pub fsync_micros: f64,
    /// File system there; empty where it is not known.
    #[serde(default)]
    pub file_system: String,
    /// Delay added to each fsync of every server, in microseconds.
    pub fsync_delay_micros: u64,
    /// Processors that servers and generator were restricted to; empty: none.
    #[serde(default)]
    pub pinning: String,
    /// Share of ten seconds in which something waited for a processor, before
    /// the first run, in per cent.
    pub pressure: Option<f64>,
}

impl Machine {
    /// Reads the machine's description; `directory` contains the servers' files.
    ///
    /// # Errors
    /// A file could not be written there.
    pub fn describe(directory: &Path, command: &str, fsync_delay_micros: u64) -> Result<Machine> {
        let pressure = cpu_pressure();
        Ok(Machine {
            host: one_line("/proc/sys/kernel/hostname"),
            cpu: value_of("/proc/cpuinfo", "model name"),
            cores: crate::sys::cores(),
            memory: memory(),
            kernel: one_line("/proc/sys/kernel/osrelease"),
            version: VERSION.to_owned(),
            time: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |d| d.as_secs()),
            command: command.to_owned(),
            calibration: calibrate(),
            fsync_micros: fsync_median(directory)?,
            file_system: file_system(directory),
            fsync_delay_micros,
            pinning: String::new(),
            pressure,
        })
    }

    /// Describes how and where the fsync median was measured. Says so if the file system is in
    /// memory, where an fsync costs nothing and makes nothing durable.
    pub fn disk(&self) -> String {
        let system = match self.file_system.as_str() {
            "" => String::new(),
            memory @ ("tmpfs" | "ramfs") => format!(" on {memory} (not a disk)"),
            disk => format!(" on {disk}"),
        };
        format!("write and fdatasync of 4 KiB{system}")
    }

    /// Lines for people.
    pub fn lines(&self) -> Vec<String> {
        let pressure = self
            .pressure
            .map_or("unknown".to_owned(), |p| format!("{p:.1} %"));
        let delay = match self.fsync_delay_micros {
            0 => String::new(),
            micros => format!(" (and {micros} us added to each of the servers')"),
        };
        let mut lines = vec![
            format!("date       {}", date(self.time)),
            format!("command    {}", self.command),
            format!("version    porpoise {}", self.version),
            format!(
                "machine    {}: {} cores, {}, {:.1} GiB, Linux {}",
                self.host,
                self.cores,
                self.cpu,
                self.memory as f64 / (1u64 << 30) as f64,
                self.kernel
            ),
            format!(
                "disk       {}: median {:.0} us{delay}",
                self.disk(),
                self.fsync_micros
            ),
            format!(
                "processor  {:.0} M steps/s of arithmetic; pressure before the runs {pressure}",
                self.calibration
            ),
        ];
        if !self.pinning.is_empty() {
            lines.push(format!("pinned     {}", self.pinning));
        }
        lines
    }
}

/// Steps a second of a loop of dependent arithmetic, in millions: the best of
/// five short spells, so that being interrupted does not count.
pub fn calibrate() -> f64 {
    const STEPS: u32 = 4_000_000;
    let spell = || {
        let begun = Instant::now();
        let mut n = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..STEPS {
            n ^= n << 13;
            n ^= n >> 7;
            n ^= n << 17;
        }
        std::hint::black_box(n);
        f64::from(STEPS) / 1e6 / begun.elapsed().as_secs_f64()
    };
    (0..5).map(|_| spell()).fold(0.0, f64::max)
}

/// Type of a directory's file system; empty if the kernel does not
/// report it, as in some chroots.
fn file_system(directory: &Path) -> String {
    let Ok(directory) = directory.canonicalize() else {
        return String::new();
    };
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    file_system_of(&directory, &mounts)
}

/// Type of the file system by the lines of `/proc/self/mounts`.
fn file_system_of(directory: &Path, mounts: &str) -> String {
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (point, kind) = (words.next()?, words.next()?);
            directory.starts_with(point).then_some((point.len(), kind))
        })
        // Of several mounts at one place, the last one is visible.
        .max_by_key(|(len, _)| *len)
        .map_or(String::new(), |(_, kind)| kind.to_owned())
}

/// Median time of a write of 4 KiB and fdatasync in a directory, in
/// microseconds.
///
/// # Errors
/// The file could not be written.
pub fn fsync_median(directory: &Path) -> Result<f64> {
    const TIMES: usize = 200;
    let path = directory.join(format!("fsync-{}", std::process::id()));
    let measure = || -> std::io::Result<Vec<f64>> {
        let mut file = File::create(&path)?;
        let block = [0x5a; 4096];
        for _ in 0..64 {
            file.write_all(&block)?;
        }
        file.sync_all()?;
        let mut times = Vec::with_capacity(TIMES);
        for n in 0..TIMES as u64 {
            file.seek(std::io::SeekFrom::Start(n % 64 * 4096))?;
            let begun = Instant::now();
            file.write_all(&block)?;
            file.sync_data()?;
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        Ok(times)
    };
    let times = measure();
    // The file may not have been created.
    let _ = std::fs::remove_file(&path);
    Ok(median(&times?))
}

/// `2026-05-04 13:02:59 UTC` of seconds since 1970.
pub fn date(seconds: u64) -> String {
    let days = seconds / 86_400;
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// `2026-05-04` of seconds since 1970.
pub fn day(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of days since 1970, month by month.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |y: u64| (y.is_multiple_of(4) && !y.is_multiple_of(100)) || y.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

fn one_line(path: &str) -> String {
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

fn value_of(path: &str, name: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map_or("unknown processor".to_owned(), |(_, v)| v.trim().to_owned())
}

fn memory() -> u64 {
    let kilobytes = value_of("/proc/meminfo", "MemTotal");
    let number = kilobytes
        .split(' ')
        .next()
        .and_then(|n| n.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_777_899_779), "2026-05-04 13:02:59 UTC");
    }

    #[test]
    fn the_machine_is_described() {
        let home = tempfile::tempdir().unwrap();
        let machine = Machine::describe(home.path(), "porpoise bench kv", 1000).unwrap();
        assert!(machine.calibration > 1.0 && machine.fsync_micros > 0.0);
        assert!(machine.memory > 0 && machine.cores > 0 && !machine.kernel.is_empty());
        assert!(machine.lines().iter().any(|l| l.contains("1000 us added")));
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_longest_and_last_mount_point_determines_the_file_system() {
        let mounts = "/dev/a / ext4 rw 0 0\nproc /proc proc rw 0 0\n\
                      tmpfs /data tmpfs rw 0 0\n/dev/b /data xfs rw 0 0\n";
        for (directory, expected) in [
            ("/home", "ext4"),
            ("/proc/1", "proc"),
            ("/data/here", "xfs"),
            ("/database", "ext4"),
        ] {
            let found = file_system_of(Path::new(directory), mounts);
            assert_eq!(found, expected, "{directory}");
        }
        assert_eq!(file_system_of(Path::new("/home"), ""), "");
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error() {
        assert!(fsync_median(Path::new("/no/such/directory")).is_err());
    }
}
