//! The server under fuzzing, an ordinary client beside it, and the assertions about both.

use crate::client::Client;
use porpoise_testkit::{Porpoise, Random, wait_until};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Memory of the process, in KiB, that no input may make it exceed.
const MOST_MEMORY: u64 = 1_500_000;

/// Cases at a time.
const AT_ONCE: usize = 2;

/// The server and the ordinary client.
pub struct Watched {
    pub server: Porpoise,
    calm: Option<JoinHandle<u64>>,
    over: &'static AtomicBool,
}

/// Creates the user `fuzz`, who needs no password and has all privileges on the database `fuzz`
/// only.
const SETUP: &[&str] = &[
    "CREATE DATABASE calm",
    "CREATE TABLE calm.t (id INT PRIMARY KEY, n BIGINT NOT NULL)",
    "INSERT INTO calm.t VALUES (1, 500), (2, 500)",
    "CREATE DATABASE fuzz",
    "CREATE USER fuzz@localhost",
    "GRANT ALL ON `fuzz`.* TO fuzz@localhost",
    "SET GLOBAL max_execution_time = 2000",
    "SET GLOBAL innodb_lock_wait_timeout = 1",
    "SET GLOBAL lock_wait_timeout = 1",
];

impl Watched {
    /// A server with the user and the database that cases are about.
    pub fn start() -> Watched {
        let server = Porpoise::builder()
            .arg("--durability", "interval")
            .arg("--memory-limit", "256M")
            .start();
        let mut root = Client::root(server.mysql_addr);
        for statement in SETUP {
            root.good(statement);
        }
        let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let calm = std::thread::spawn(move || behave(root, over));
        Watched {
            server,
            calm: Some(calm),
            over,
        }
    }

    /// Runs cases from consecutive seeds until the time is over, or a number of them is done.
    pub fn run(self, time: Duration, most: u64, case: impl Fn(&mut Random, &Porpoise) + Sync) {
        self.run_and_ask(time, most, case, |_| {});
    }

    /// As [`Watched::run`], and runs own checks of the server at the end.
    pub fn run_and_ask(
        mut self,
        time: Duration,
        most: u64,
        case: impl Fn(&mut Random, &Porpoise) + Sync,
        ask: impl Fn(&Porpoise),
    ) {
        let time = number("FUZZ_SECONDS").map_or(time, Duration::from_secs);
        let most = number("FUZZ_SECONDS").map_or(most, |_| u64::MAX);
        let first = number("FUZZ_SEED").unwrap_or(1);
        let end = Instant::now() + time;
        let next = AtomicU64::new(first);
        let server = &self.server;
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    while Instant::now() < end {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed - first >= most {
                            break;
                        }
                        let run = AssertUnwindSafe(|| case(&mut Random(seed), server));
                        assert!(catch_unwind(run).is_ok(), "the case of seed {seed} failed");
                        // After a panic further cases are not run: their panics could not be attributed.
                        if seed.is_multiple_of(32) {
                            assert_eq!(panics(server), 0, "before seed {seed}");
                        }
                    }
                });
            }
        });
        ask(&self.server);
        self.finish(next.into_inner() - first);
    }

    fn finish(&mut self, cases: u64) {
        let server = &self.server;
        let log = server.log();
        let bad = log.lines().find(|line| line.contains("panicked"));
        assert_eq!(bad, None);
        assert_eq!(panics(server), 0);
        let mut root = Client::root(server.mysql_addr);
        let others = "SELECT GROUP_CONCAT(ID, ' ', COMMAND, ' ', STATE, ' ', LEFT(INFO, 200)) \
                      FROM information_schema.PROCESSLIST WHERE USER <> 'root'";
        let gone = wait_until(Duration::from_secs(20), || {
            (root.good(others).one() == "NULL").then_some(())
        });
        assert!(gone.is_some(), "outlived: {}", root.good(others).one());
        self.over.store(true, Ordering::Relaxed);
        let transfers = self.calm.take().unwrap().join().expect("the neighbour");
        assert!(transfers > 0, "the neighbour came to nothing");
        let memory = peak_memory(server.id());
        assert!(memory < MOST_MEMORY, "{memory} KiB");
        println!("{cases} cases, {transfers} transfers beside them, {memory} KiB at most");
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Moves amounts between two rows, and finds their sum the same each time.
fn behave(mut root: Client, over: &AtomicBool) -> u64 {
    let mut done = 0;
    while !over.load(Ordering::Relaxed) {
        root.good("BEGIN");
        root.good("UPDATE calm.t SET n = n - 7 WHERE id = 1");
        root.good("UPDATE calm.t SET n = n + 7 WHERE id = 2");
        let sum = "SELECT SUM(n) FROM calm.t";
        assert_eq!(root.good(sum).one(), "1000");
        root.good("COMMIT");
        assert_eq!(root.good(sum).one(), "1000");
        done += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    done
}

fn panics(server: &Porpoise) -> u64 {
    let (_, page) = server.http("/metrics");
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("porpoise_session_panics_total "));
    line.expect("metric").trim().parse().expect("number")
}

/// The most memory that the process ever had, in KiB.
fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.expect("VmHWM").parse().expect("number")
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
