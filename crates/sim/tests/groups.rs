//! Simulated runs of groups with automatic failover.
//!
//! `SEED` selects one run.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use porpoise_sim::group::{PLANTED, Report, simulate};

fn run_all(seeds: std::ops::Range<u64>) {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seeds = seed.map_or(seeds, |seed: u64| seed..seed + 1);
    let count = usize::try_from(seeds.end - seeds.start).unwrap();
    let mut all = Report::default();
    for seed in seeds {
        match simulate(seed, None) {
            Ok(report) => all.add(&report),
            Err(what) => panic!("seed {seed}: {what}\nSEED={seed} replays this run"),
        }
    }
    println!("{count} runs: {all:?}");
    if count > 1 {
        // The runs must have covered the cases that they are made for.
        assert!(all.epochs > 2 * count && all.kills > count, "{all:?}");
        assert!(all.unsynced > 0 && all.copies > count / 2, "{all:?}");
    }
}

#[test]
fn no_acknowledged_commit_is_lost_and_no_two_servers_acknowledge_in_one_epoch() {
    run_all(0..48);
}

#[test]
#[ignore = "1,000 seeds take a minute"]
fn no_acknowledged_commit_is_lost_in_a_thousand_simulations() {
    run_all(1_000..2_000);
}

/// Maximum number of runs until a planted fault is found.
const MAX_RUNS: u64 = 400;

#[test]
fn each_planted_fault_is_found() {
    let missed: Vec<_> = PLANTED
        .into_iter()
        .filter(|planted| {
            let found =
                (0..MAX_RUNS).find_map(|seed| Some((seed, simulate(seed, Some(*planted)).err()?)));
            if let Some((seed, what)) = &found {
                println!("{planted:?}: seed {seed}: {what}");
            }
            found.is_none()
        })
        .collect();
    assert!(
        missed.is_empty(),
        "not found in {MAX_RUNS} runs: {missed:?}"
    );
}
