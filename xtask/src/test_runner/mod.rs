//! `cargo xtask test`: runs the tests of the workspace, several test binaries at a time.
//!
//! `cargo test` runs one test binary after the other. Most tests of the server wait: for processes,
//! syncs and timeouts. Running several binaries at a time uses the cores meanwhile. Cargo builds them
//! and prints their paths ([`plan`]); a few threads take jobs from a queue, longest
//! first. The documentation's tests are one of the jobs.
//!
//! Invariants:
//! 1. The same tests run as by `cargo test` with the same arguments: cargo names the binaries, and each
//!    runs in the directory of its package.
//! 2. After a failure no further job begins, unless `--no-fail-fast` is given; running jobs go on to their end and are
//!    reported.
//! 3. The whole output of a failed job is printed, and one line for every other job.
//! 4. A binary that `xtask/tests.toml` names as `alone` runs while no other does.
//!
//! Rejected: a process per test, as cargo-nextest runs them. Tests of one binary share a server that is expensive
//! to start (MariaDB in `porpoise-sql`'s `differential`), or must not run at the same time.

mod plan;

use std::collections::VecDeque;
use std::fs::File;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::tree::root;
use plan::{LIST, Order, TestBinary};

/// Interval of the lines that list the running jobs.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(120);

/// Arguments of `cargo test` that choose targets; with one of them it runs no tests of documentation.
const TARGETS: [&str; 10] = [
    "--lib",
    "--bin",
    "--bins",
    "--test",
    "--tests",
    "--example",
    "--examples",
    "--bench",
    "--benches",
    "--all-targets",
];

/// Builds and runs the tests that the arguments of `cargo test` select; without arguments, all. Arguments
/// after `--` go to each test binary; `--jobs N` sets the number of binaries that run at a time, and
/// `--threads N` the number of tests that run at a time in each.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let root = root()?;
    let options = Options::parse(arguments)?;
    let binaries = build(&root, &options)?;
    let text = std::fs::read_to_string(root.join(LIST)).map_err(|e| format!("{LIST}: {e}"))?;
    let order = Order::parse(&text)?;
    let unknown = order.unknown(&binaries);
    let is_whole = options.cargo.iter().all(|word| word == "--no-fail-fast");
    if is_whole && !unknown.is_empty() {
        return Err(format!(
            "{LIST}: there is no test binary named: {}",
            unknown.join(", ")
        ));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let output = target.join("report/tests");
    std::fs::create_dir_all(&output).map_err(|e| format!("{}: {e}", output.display()))?;
    let plan = order.plan(binaries);
    let job = |binary: TestBinary| Job::of_binary(binary, &options, &output);
    let documentation = options.documentation_job(&root, &output);
    let together = documentation
        .into_iter()
        .chain(plan.together.into_iter().map(job));
    let run = Run {
        goes_on: options.cargo.iter().any(|word| word == "--no-fail-fast"),
        ..Run::default()
    };
    run.all(together.collect(), options.jobs);
    run.all(plan.alone.into_iter().map(job).collect(), 1);
    run.result()
}

/// Arguments of the command.
struct Options {
    /// Arguments of `cargo test` that select tests.
    cargo: Vec<String>,
    /// Arguments of each test binary.
    binary: Vec<String>,
    /// Number of binaries that run at a time.
    jobs: usize,
    /// Number of tests that run at a time in each.
    threads: usize,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self, String> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let mut options = Self {
            cargo: Vec::new(),
            binary: Vec::new(),
            jobs: cores,
            threads: cores,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match *word {
                "--" => {
                    options.binary = words.by_ref().map(|word| (*word).to_owned()).collect();
                }
                "--jobs" => options.jobs = number(word, words.next())?,
                "--threads" => options.threads = number(word, words.next())?,
                other => options.cargo.push(other.to_owned()),
            }
        }
        Ok(options)
    }

    /// `cargo test` with the selected tests.
    fn cargo_test(&self, root: &Path) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        command
            .current_dir(root)
            .args(["test", "--locked"])
            .args(&self.cargo);
        command
    }

    /// The tests in documentation, unless the arguments choose targets.
    fn documentation_job(&self, root: &Path, output: &Path) -> Option<Job> {
        let chooses_target = |word: &String| {
            let name = word.split('=').next().unwrap_or(word);
            TARGETS.contains(&name)
        };
        if self.cargo.iter().any(chooses_target) {
            return None;
        }
        let mut command = self.cargo_test(root);
        command.arg("--doc");
        if !self.binary.is_empty() {
            command.arg("--").args(&self.binary);
        }
        Some(Job {
            name: "documentation".to_owned(),
            again: "cargo test --doc".to_owned(),
            command,
            output: output.join("documentation.log"),
        })
    }
}

/// The number after an option, which is at least 1.
fn number(option: &str, word: Option<&&str>) -> Result<usize, String> {
    word.and_then(|word| word.parse().ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("xtask: {option} needs a number"))
}

/// Builds the selected test binaries.
fn build(root: &Path, options: &Options) -> Result<Vec<TestBinary>, String> {
    let built = options
        .cargo_test(root)
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("xtask: cannot run cargo: {error}"))?;
    if !built.status.success() {
        return Err("xtask: the tests cannot be built".to_owned());
    }
    plan::test_binaries(&String::from_utf8_lossy(&built.stdout))
}

/// A process that runs tests.
struct Job {
    name: String,
    /// The command that runs the same tests by hand.
    again: String,
    command: Command,
    /// File of its output.
    output: PathBuf,
}

impl Job {
    fn of_binary(binary: TestBinary, options: &Options, output: &Path) -> Self {
        let mut command = Command::new(&binary.executable);
        command
            .current_dir(&binary.directory)
            .env("CARGO_MANIFEST_DIR", &binary.directory)
            .arg(format!("--test-threads={}", options.threads))
            .args(&options.binary);
        Self {
            output: output.join(format!("{}.log", binary.name.replace(' ', "_"))),
            again: format!("cargo test {}", binary.selection),
            name: binary.name,
            command,
        }
    }

    /// Runs the process to its end, with all its output in one file.
    fn run(&mut self) -> Result<ExitStatus, String> {
        let problem = |error| format!("{}: {error}", self.output.display());
        let file = File::create(&self.output).map_err(problem)?;
        let errors = file.try_clone().map_err(problem)?;
        self.command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .status()
            .map_err(|error| format!("cannot run {}: {error}", self.name))
    }
}

/// State of a run that its threads share.
#[derive(Default)]
struct Run {
    /// Whether jobs begin after a failure.
    goes_on: bool,
    state: Mutex<State>,
    /// Notified when a job has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    running: Vec<String>,
    /// Commands that repeat the failed jobs.
    failed: Vec<String>,
}

impl Run {
    /// Runs jobs to their end, `count` at a time; none begins after a failure.
    fn all(&self, jobs: Vec<Job>, count: usize) {
        let mut state = self.lock();
        if !state.failed.is_empty() && !self.goes_on {
            return;
        }
        state.waiting = jobs.into();
        drop(state);
        std::thread::scope(|scope| {
            for _ in 0..count {
                scope.spawn(|| {
                    while let Some(job) = self.next() {
                        self.run_one(job);
                    }
                });
            }
            self.report_progress();
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next job.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        let job = state.waiting.pop_front()?;
        state.running.push(job.name.clone());
        Some(job)
    }

    fn run_one(&self, mut job: Job) {
        let begin = Instant::now();
        let outcome = job.run();
        let seconds = begin.elapsed().as_secs_f64();
        let bytes = std::fs::read(&job.output).unwrap_or_default();
        let output = String::from_utf8_lossy(&bytes);
        let mut state = self.lock();
        state.running.retain(|name| *name != job.name);
        match outcome {
            Ok(status) if status.success() => {
                println!("{seconds:6.1} s  {}: {}", job.name, Counts::of(&output));
            }
            failure => {
                let why = failure.map_or_else(|error| error, |status| status.to_string());
                println!(
                    "{output}\n{seconds:6.1} s  {} FAILED ({why}): {}",
                    job.name, job.again
                );
                state.failed.push(job.again);
                if !self.goes_on {
                    state.waiting.clear();
                }
            }
        }
        self.ended.notify_all();
    }

    /// Prints the running jobs at intervals, until all have ended.
    fn report_progress(&self) {
        let mut state = self.lock();
        while !(state.waiting.is_empty() && state.running.is_empty()) {
            let (guard, timeout) = self
                .ended
                .wait_timeout(state, PROGRESS_INTERVAL)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if timeout.timed_out() {
                println!("          running: {}", state.running.join(", "));
            }
        }
    }

    fn result(self) -> Result<(), String> {
        let failed = &self.lock().failed;
        if failed.is_empty() {
            return Ok(());
        }
        Err(format!("tests failed: {}", failed.join("; ")))
    }
}

/// Sums of a test binary's results; `cargo test --doc` prints one result for each crate.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u32,
    ignored: u32,
}

impl Counts {
    /// Reads lines like `test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; ...`.
    fn of(output: &str) -> Self {
        let mut counts = Self::default();
        for line in output.lines() {
            let Some(result) = line.strip_prefix("test result: ok. ") else {
                continue;
            };
            for part in result.split("; ") {
                match part.split_once(' ') {
                    Some((number, "passed")) => counts.passed += number.parse().unwrap_or(0),
                    Some((number, "ignored")) => counts.ignored += number.parse().unwrap_or(0),
                    _ => {}
                }
            }
        }
        counts
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed", self.passed)?;
        if self.ignored > 0 {
            write!(f, ", {} ignored", self.ignored)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, script: &str, folder: &Path) -> Job {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).current_dir(folder);
        Job {
            name: name.to_owned(),
            again: format!("run {name}"),
            command,
            output: folder.join(format!("{name}.log")),
        }
    }

    /// An empty directory of this test under the build directory.
    fn folder(test: &str) -> PathBuf {
        let program = std::env::current_exe().unwrap();
        let folder = program
            .parent()
            .unwrap()
            .join("xtask-test-runner")
            .join(test);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn all_jobs_run_and_their_output_is_kept() {
        let folder = folder("all");
        let jobs: Vec<_> = (0..5)
            .map(|n| job(&format!("j{n}"), &format!("echo {n}; echo e >&2"), &folder))
            .collect();
        let run = Run::default();
        run.all(jobs, 3);
        run.result().unwrap();
        for n in 0..5 {
            let text = std::fs::read_to_string(folder.join(format!("j{n}.log"))).unwrap();
            assert_eq!(text, format!("{n}\ne\n"));
        }
    }

    #[test]
    fn nothing_begins_after_a_failure() {
        let folder = folder("failure");
        let run = Run::default();
        let jobs = vec![
            job("bad", "exit 3", &folder),
            job("late", "echo > late", &folder),
        ];
        run.all(jobs, 1);
        run.all(vec![job("alone", "echo > late", &folder)], 1);
        assert_eq!(run.result().unwrap_err(), "tests failed: run bad");
        assert!(!folder.join("late").exists());
    }

    #[test]
    fn a_run_goes_on_after_a_failure_if_asked_to() {
        let folder = folder("no_fail_fast");
        let run = Run {
            goes_on: true,
            ..Run::default()
        };
        let jobs = vec![
            job("bad", "exit 3", &folder),
            job("late", "echo > late", &folder),
        ];
        run.all(jobs, 1);
        run.all(vec![job("alone", "echo > alone", &folder)], 1);
        assert_eq!(run.result().unwrap_err(), "tests failed: run bad");
        assert!(folder.join("late").exists() && folder.join("alone").exists());
    }

    #[test]
    fn what_runs_during_a_failure_goes_on() {
        let folder = folder("goes_on");
        let wait = "until [ -e failed ]; do sleep 0.01; done; sleep 0.1; echo > done; exit 4";
        let jobs = vec![
            job("bad", "echo > failed; exit 3", &folder),
            job("long", wait, &folder),
        ];
        let run = Run::default();
        run.all(jobs, 2);
        assert_eq!(run.result().unwrap_err(), "tests failed: run bad; run long");
        assert!(folder.join("done").exists());
    }

    #[test]
    fn jobs_run_at_the_same_time() {
        let folder = folder("same_time");
        let meet = |own: &str, other: &str| {
            format!("echo > {own}; until [ -e {other} ]; do sleep 0.01; done")
        };
        let jobs = vec![
            job("a", &meet("a", "b"), &folder),
            job("b", &meet("b", "a"), &folder),
        ];
        let run = Run::default();
        run.all(jobs, 2);
        run.result().unwrap();
    }

    #[test]
    fn results_are_summed() {
        let output = "running 2 tests\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; \
                      0 filtered out; finished in 0.00s\n\ntest result: ok. 3 passed; 0 failed; 0 \
                      ignored; 0 measured; 0 filtered out\n";
        let counts = Counts::of(output);
        assert_eq!((counts.passed, counts.ignored), (5, 1));
        assert_eq!(counts.to_string(), "5 passed, 1 ignored");
    }

    #[test]
    fn options_are_taken_from_those_of_cargo() {
        let options = Options::parse(&["--jobs", "3", "-p", "a", "--", "name", "--exact"]).unwrap();
        assert_eq!(options.jobs, 3);
        assert_eq!(options.cargo, ["-p", "a"]);
        assert_eq!(options.binary, ["name", "--exact"]);
        assert!(Options::parse(&["--jobs", "0"]).is_err());
        let documentation = |words: &[&str]| {
            let options = Options::parse(words).unwrap();
            let folder = Path::new("/");
            options.documentation_job(folder, folder).is_some()
        };
        assert!(documentation(&["-p", "a"]));
        assert!(!documentation(&["-p", "a", "--test=slt"]));
        assert!(!documentation(&["--lib"]));
    }
}
