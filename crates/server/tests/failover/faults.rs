//! Leaders that are killed, paused and cut off while clients write.

use crate::group::{Group, GroupOptions};
use crate::load::Load;
use porpoise_testkit::Random;
use std::time::{Duration, Instant};

/// Commits over each protocol that must be acknowledged before and after a fault.
const COMMITS: u64 = 20;

/// A fault of the leader.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    Paused,
    CutOff,
}

/// Lets a fault happen to the leader while clients write: another server takes over, the former leader comes back and follows, and nothing
/// that was acknowledged is lost.
fn fault(group: &mut Group, fault: Fault, round: u64) {
    let leader = group.wait_leader();
    group.wait_in_sync();
    let load = Load::start(&group.servers, round);
    group.wait("commits", || {
        load.has_gone_on([0, 0], COMMITS).then_some(())
    });
    let begun = Instant::now();
    match fault {
        Fault::Killed => group.servers[leader].kill9(),
        Fault::Paused => group.servers[leader].pause(),
        Fault::CutOff => group.network.as_ref().unwrap().cut(leader as u32 + 1),
    }
    let before = load.counts();
    group.wait("commits at the new leader", || {
        load.has_gone_on(before, 1).then_some(())
    });
    let resumed = begun.elapsed();
    group.wait("more commits", || {
        load.has_gone_on(before, COMMITS).then_some(())
    });
    let other = group.wait_leader();
    assert_ne!(other, leader);
    println!(
        "{fault:?}: both protocols take writes after {:.1} s",
        resumed.as_secs_f64()
    );
    match fault {
        Fault::Killed => group.servers[leader].restart(),
        Fault::Paused => group.servers[leader].resume(),
        Fault::CutOff => group.network.as_ref().unwrap().heal(),
    }
    group.wait_in_sync();
    let acknowledged = load.stop();
    group.compare();
    assert!(group.leads(other), "the new leader stays");
    let refused = group.servers[leader].sql("INSERT INTO d.t VALUES (-1, 1)");
    assert_eq!(refused.error_number(), Some(1290), "{}", refused.stderr);
    for server in &group.servers {
        acknowledged.check(server);
    }
}

#[test]
fn a_leader_that_is_killed_is_replaced_and_follows_when_it_is_back() {
    let mut group = Group::start(&GroupOptions::default());
    fault(&mut group, Fault::Killed, 0);
    fault(&mut group, Fault::Killed, 1);
}

#[test]
fn a_leader_that_is_paused_acknowledges_nothing_when_it_goes_on() {
    let mut group = Group::start(&GroupOptions::default());
    fault(&mut group, Fault::Paused, 0);
}

#[test]
fn a_leader_that_is_cut_off_is_replaced() {
    let mut group = Group::start(&GroupOptions {
        has_network: true,
        ..GroupOptions::default()
    });
    fault(&mut group, Fault::CutOff, 0);
}

#[test]
fn three_servers_bear_kills_pauses_and_cuts_of_their_leaders() {
    let mut group = Group::start(&GroupOptions {
        has_network: true,
        has_three_servers: true,
        ..GroupOptions::default()
    });
    for (round, kind) in [Fault::Killed, Fault::Paused, Fault::CutOff]
        .into_iter()
        .enumerate()
    {
        fault(&mut group, kind, round as u64);
    }
}

#[test]
fn a_second_failure_of_three_servers_ends_writes_until_one_is_back() {
    let mut group = Group::start(&GroupOptions {
        has_three_servers: true,
        ..GroupOptions::default()
    });
    let load = Load::start(&group.servers, 0);
    let first = group.wait_leader();
    group.wait("commits", || {
        load.has_gone_on([0, 0], COMMITS).then_some(())
    });
    group.servers[first].kill9();
    let before = load.counts();
    group.wait("commits without the first", || {
        load.has_gone_on(before, COMMITS).then_some(())
    });
    // The other one may have had to give up a commit, and is then in sync again a moment later.
    let left: Vec<String> = (0..3)
        .filter(|server| *server != first)
        .map(|server| (server + 1).to_string())
        .collect();
    group.wait_until_in_sync(&left.join(","));
    let second = group.wait_leader();
    group.servers[second].kill9();
    // Statements that were in progress end.
    std::thread::sleep(Duration::from_secs(1));
    let alone = load.counts();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(load.counts(), alone, "one of three servers acknowledges");
    // The first server may lack commits that the two others acknowledged without it.
    group.servers[first].restart();
    group.wait("commits without the second", || {
        load.has_gone_on(alone, COMMITS).then_some(())
    });
    assert_eq!(
        group.wait_leader(),
        3 - first - second,
        "the one that has everything leads"
    );
    group.servers[second].restart();
    group.wait_in_sync();
    let acknowledged = load.stop();
    group.compare();
    for server in &group.servers {
        acknowledged.check(server);
    }
}

/// Runs with faults of all kinds, lost connections, delays, and kills of the other members.
#[test]
#[ignore = "50 runs take a quarter of an hour"]
fn no_acknowledged_commit_is_lost_in_many_runs() {
    many_runs(false);
}

/// The same with three servers.
#[test]
#[ignore = "50 runs take a quarter of an hour"]
fn no_acknowledged_commit_of_three_servers_is_lost_in_many_runs() {
    many_runs(true);
}

fn many_runs(has_three_servers: bool) {
    let runs = std::env::var("FAILOVER_RUNS")
        .ok()
        .and_then(|text| text.parse().ok());
    let mut random = Random(7);
    let mut group = Group::start(&GroupOptions {
        has_network: true,
        has_three_servers,
        ..GroupOptions::default()
    });
    for run in 0..runs.unwrap_or(50) {
        let network = group.network.as_ref().unwrap();
        network.delay(*random.pick(&[0, 0, 5, 30]));
        network.lose(*random.pick(&[0, 0, 1, 5]));
        match random.below(4) {
            0 if !has_three_servers => group.witness().restart(),
            0 | 1 => {
                // Another server fails and comes back before the leader does.
                let other = (group.wait_leader() + 1) % group.servers.len();
                group.servers[other].restart();
            }
            _ => {}
        }
        let kinds = [Fault::Killed, Fault::Paused, Fault::CutOff];
        let kind = *random.pick(&kinds);
        println!("run {run}: {kind:?}");
        fault(&mut group, kind, run);
    }
}
