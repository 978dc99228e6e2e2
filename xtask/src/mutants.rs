//! `cargo xtask mutants`: planted faults, each of which a test must catch.
//!
//! `xtask/mutants.toml` lists the faults. Each is planted in a copy of the committed tree under the
//! target directory, and the narrowest test that should catch it is run there. All faults share a
//! build directory, so that only code changed by a fault is compiled again. A fault counts as
//! caught only if the test program passes without the fault, and runs and fails with it; so a fault
//! that does not compile is not caught. Faults with `schedules = true` are built as by
//! `scripts/schedules.sh`.
//!
//! A rule of `cargo xtask check` ensures that the text to replace occurs exactly once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Deserialize;

use crate::tree::root;

/// Path of the list from the repository's root.
pub const LIST: &str = "xtask/mutants.toml";

/// One planted fault.
#[derive(Clone, Debug, Deserialize)]
pub struct Mutant {
    /// Description of the planted fault.
    pub name: String,
    /// Path of the file that it changes, from the repository's root.
    pub file: String,
    /// The text to replace, which occurs exactly once in the file.
    pub find: String,
    /// The replacement.
    pub with: String,
    /// Arguments of `cargo test`.
    pub test: String,
    /// Whether the test runs under chosen schedules (`--cfg shuttle`).
    #[serde(default)]
    pub schedules: bool,
}

#[derive(Deserialize)]
struct List {
    mutant: Vec<Mutant>,
}

/// Reads the list.
pub fn parse(text: &str) -> Result<Vec<Mutant>, String> {
    let list: List = toml::from_str(text).map_err(|error| format!("{LIST}: {error}"))?;
    Ok(list.mutant)
}

/// Outcome of the tests with a planted fault.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// A test failed: its name.
    Caught(String),
    /// All tests passed.
    Survived,
    /// The fault cannot be tested: the reason.
    Broken(String),
}

/// Plants the faults whose names or tests contain one of `only`, one after the other; all faults if
/// `only` is empty.
pub fn run(only: &[&str]) -> Result<(), String> {
    let root = root()?;
    let text = std::fs::read_to_string(root.join(LIST)).map_err(|e| format!("{LIST}: {e}"))?;
    let mutants = parse(&text)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let directory = target.join("mutants");
    let copy = directory.join("tree");
    make_copy(&root, &copy)?;
    let (mut caught, mut missed) = (0, Vec::new());
    // Whether a test passes without faults.
    let mut passing_tests = BTreeMap::new();
    for mutant in &mutants {
        let is_selected = |part: &&str| mutant.name.contains(*part) || mutant.test.contains(*part);
        if !only.is_empty() && !only.iter().any(is_selected) {
            continue;
        }
        let start = Instant::now();
        let target = directory.join("target");
        let passes = match passing_tests.get(&mutant.test) {
            Some(passes) => *passes,
            None => {
                let outcome = run_test(&copy, &target, mutant)?;
                let passes = outcome == Outcome::Survived;
                passing_tests.insert(mutant.test.clone(), passes);
                passes
            }
        };
        let outcome = if passes {
            plant(&copy, &target, mutant)?
        } else {
            Outcome::Broken(format!("`{}` fails without it", mutant.test))
        };
        let seconds = start.elapsed().as_secs();
        match outcome {
            Outcome::Caught(test) => {
                println!("caught    {}: by {test} ({seconds} s)", mutant.name);
                caught += 1;
            }
            Outcome::Survived => {
                println!("SURVIVED  {} ({seconds} s)", mutant.name);
                missed.push(mutant.name.clone());
            }
            Outcome::Broken(why) => {
                println!("BROKEN    {}: {why}", mutant.name);
                missed.push(mutant.name.clone());
            }
        }
    }
    println!("{caught} planted faults caught, {} not", missed.len());
    if missed.is_empty() {
        Ok(())
    } else {
        Err(format!("not caught: {}", missed.join("; ")))
    }
}

/// Copies the committed tree to `copy`.
fn make_copy(root: &Path, copy: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("xtask: {}: {e}", copy.display());
    if copy.exists() {
        std::fs::remove_dir_all(copy).map_err(failed)?;
    }
    std::fs::create_dir_all(copy).map_err(failed)?;
    let mut archive = Command::new("git")
        .args(["archive", "HEAD"])
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let Some(output) = archive.stdout.take() else {
        return Err("xtask: git archive has no output".to_owned());
    };
    // `-m` sets modification times to now. With its older time a file would not be compiled again,
    // although the build directory may have been built from it with a fault.
    let unpacked = Command::new("tar")
        .args(["-x", "-m"])
        .current_dir(copy)
        .stdin(output)
        .status()
        .map_err(failed)?;
    let archived = archive.wait().map_err(failed)?;
    if archived.success() && unpacked.success() {
        return Ok(());
    }
    Err("xtask: the tree could not be copied".to_owned())
}

/// Plants a fault, runs its test, and restores the file.
fn plant(copy: &Path, target: &Path, mutant: &Mutant) -> Result<Outcome, String> {
    let path = copy.join(&mutant.file);
    let failed = |e: std::io::Error| format!("xtask: {}: {e}", path.display());
    let original = std::fs::read_to_string(&path).map_err(failed)?;
    if original.matches(&mutant.find).count() != 1 {
        let why = "the text to replace does not occur exactly once";
        return Ok(Outcome::Broken(why.to_owned()));
    }
    let planted = original.replacen(&mutant.find, &mutant.with, 1);
    std::fs::write(&path, planted).map_err(failed)?;
    let outcome = run_test(copy, target, mutant);
    std::fs::write(&path, original).map_err(failed)?;
    outcome
}

/// Runs the mutant's test in the copy.
fn run_test(copy: &Path, target: &Path, mutant: &Mutant) -> Result<Outcome, String> {
    let test = &mutant.test;
    let mut cargo = Command::new("cargo");
    if mutant.schedules {
        let compiler = copy.join("scripts/rustc-shuttle.sh");
        cargo.env("RUSTC_WORKSPACE_WRAPPER", compiler);
    }
    let done = cargo
        .args(["test", "--locked"])
        .args(test.split_whitespace())
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", target)
        .env("RUST_BACKTRACE", "0")
        .output()
        .map_err(|e| format!("xtask: cargo test {test}: {e}"))?;
    let stdout = String::from_utf8_lossy(&done.stdout);
    Ok(outcome_of(done.status.success(), &stdout))
}

/// Classifies the output of `cargo test`.
fn outcome_of(success: bool, stdout: &str) -> Outcome {
    let failed = stdout.lines().find_map(|line| {
        let rest = line.strip_prefix("test ")?;
        rest.strip_suffix(" ... FAILED")
    });
    match failed {
        Some(test) => Outcome::Caught(test.to_owned()),
        None if success && stdout.contains("test result: ok") => Outcome::Survived,
        None if stdout.contains("running ") && !success => {
            Outcome::Caught("the end of the test program".to_owned())
        }
        None => Outcome::Broken("no test ran; does it compile?".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_counts_as_caught_only_when_a_test_failed() {
        let caught = "running 2 tests\ntest a ... ok\ntest b::c ... FAILED\n";
        assert_eq!(
            outcome_of(false, caught),
            Outcome::Caught("b::c".to_owned())
        );
        let passed = "running 1 test\ntest a ... ok\ntest result: ok. 1 passed\n";
        assert_eq!(outcome_of(true, passed), Outcome::Survived);
        assert!(matches!(outcome_of(false, ""), Outcome::Broken(_)));
    }
}
