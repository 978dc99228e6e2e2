//! Simulated runs of a store on faulty disks: each result, and each start after a crash, is compared
//! with the reference model.
//!
//! `SEED` selects one run, `SEEDS` sets the number of runs, `SECONDS` their duration.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use porpoise_sim::engine::{Faults, Plan, Report, simulate};
use std::time::{Duration, Instant};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Simulates runs from a seed on, until there are enough.
fn simulate_runs(first: u64, enough: impl Fn(u64, Duration) -> bool) -> (u64, Report) {
    let began = Instant::now();
    let mut all = Report::default();
    let mut runs = 0;
    while !enough(runs, began.elapsed()) {
        let seed = first + runs;
        match simulate(&Plan::of(seed)) {
            Ok(report) => all.add(report),
            Err(what) => panic!("seed {seed}: {what}\nSEED={seed} replays this run"),
        }
        runs += 1;
    }
    println!("{runs} runs from seed {first}: {all:?}");
    (runs, all)
}

#[test]
fn simulated_runs_pass_all_checks() {
    if let Some(seed) = number("SEED") {
        simulate_runs(seed, |runs, _| runs > 0);
        return;
    }
    let (_, all) = simulate_runs(0, |runs, _| runs >= 250);
    // The runs must have covered every kind of fault.
    assert!(all.commits > 2_500 && all.answers > 30_000, "{all:?}");
    assert!(all.crashes > 300 && all.copies > 5_000, "{all:?}");
    assert!(all.prepared > 500 && all.ended_after_crash > 50, "{all:?}");
    assert!(all.refused > 5 && all.checkpoints > 300, "{all:?}");
}

#[test]
fn a_seed_always_leads_to_the_same_run() {
    for seed in 0..10 {
        assert_eq!(simulate(&Plan::of(seed)), simulate(&Plan::of(seed)));
    }
    let kinds = |faults| (0..60).filter(|n| Plan::of(*n).faults == faults).count();
    for faults in [
        Faults::None,
        Faults::Errors,
        Faults::Full,
        Faults::LyingSyncs,
        Faults::BitFlips,
    ] {
        assert!(kinds(faults) > 0, "{faults:?}");
    }
}

#[test]
#[ignore = "runs for two minutes, unless SEEDS or SECONDS is set"]
fn simulated_runs_pass_all_checks_for_minutes() {
    let (seeds, seconds) = (number("SEEDS"), number("SECONDS"));
    let time = Duration::from_secs(seconds.unwrap_or(120));
    let first = number("FIRST_SEED").unwrap_or(1_000_000);
    simulate_runs(first, |runs, elapsed| match (seeds, seconds) {
        (Some(seeds), None) => runs >= seeds,
        (Some(seeds), Some(_)) => runs >= seeds || elapsed >= time,
        _ => elapsed >= time,
    });
}
