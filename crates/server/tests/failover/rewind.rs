//! Members whose data the leader's log does not continue: they rewind, or take a copy of the leader's data.

use crate::group::{Group, GroupOptions, good};
use porpoise_testkit::{Random, sql};
use std::time::Duration;

fn uuid(group: &Group, server: usize) -> String {
    good(&group.servers[server], "SELECT @@server_uuid").concat()
}

/// A group whose first server is cut off, and has commits of rows 2 and 3 that no server has acknowledged. The second one leads, and has row 4.
fn diverged() -> Group {
    let group = Group::start(&GroupOptions {
        has_network: true,
        ..GroupOptions::default()
    });
    good(&group.servers[0], "INSERT INTO d.t VALUES (1, 1)");
    let log = || good(&group.servers[0], "SHOW VARIABLES LIKE 'gtid_executed'").concat();
    let known = log();
    group.network.as_ref().unwrap().cut(1);
    let address = group.servers[0].mysql_addr;
    let writers = [2, 3].map(|id| {
        std::thread::spawn(move || sql(address, &format!("INSERT INTO d.t VALUES ({id}, 1)")).is_ok)
    });
    group.wait("a commit on disk", || (log() != known).then_some(()));
    group.wait_leads(1);
    good(&group.servers[1], "INSERT INTO d.t VALUES (4, 1)");
    for writer in writers {
        assert!(
            !writer.join().unwrap(),
            "a commit without an acknowledgement"
        );
    }
    group
}

/// The first server follows, without the commits that it has discarded, and can lead again.
fn check_rejoined(group: &mut Group) {
    group.compare();
    let rows = good(&group.servers[0], "SELECT id FROM d.t ORDER BY id");
    assert_eq!(rows, ["1", "4"]);
    group.servers[1].kill9();
    group.wait_leads(0);
    good(&group.servers[0], "INSERT INTO d.t VALUES (5, 1)");
    group.servers[1].restart();
    group.compare();
}

#[test]
fn a_former_leader_gives_up_unacknowledged_commits() {
    let mut group = diverged();
    group.network.as_ref().unwrap().heal();
    group.compare();
    // The first identifiers are those of the account and the tables.
    let executed = good(&group.servers[0], "SELECT @@GLOBAL.gtid_executed").concat();
    let own = uuid(&group, 0);
    assert!(
        !executed.contains(&own),
        "identifiers are not given twice: {own} in {executed}"
    );
    let log = group.servers[0].log();
    assert!(log.contains("the data are rewound"), "{log}");
    assert!(!log.contains("data are copied"), "{log}");
    check_rejoined(&mut group);
}

#[test]
fn a_former_leader_copies_the_data_if_its_checkpoint_has_lost_commits() {
    let mut group = diverged();
    // A regular end writes a checkpoint.
    assert!(group.servers[0].terminate().success());
    group.network.as_ref().unwrap().heal();
    group.servers[0].restart();
    check_rejoined(&mut group);
    let log = group.servers[0].log();
    assert!(log.contains("the leader's data are copied"), "{log}");
}

#[test]
fn rewinding_can_be_interrupted_at_any_time() {
    let mut group = diverged();
    let mut random = Random(19);
    group.network.as_ref().unwrap().heal();
    for _ in 0..10 {
        group.servers[0].restart();
        // It rewinds once it follows, restarts, and puts the data in place.
        let pause = random.below(900) as u64;
        std::thread::sleep(Duration::from_millis(pause));
    }
    group.servers[0].restart();
    check_rejoined(&mut group);
}

#[test]
fn a_member_without_data_copies_them_if_the_log_was_purged() {
    let mut group = Group::start(&GroupOptions::default());
    good(&group.servers[0], "INSERT INTO d.t VALUES (1, 1), (2, 2)");
    group.servers[1].kill9();
    std::fs::remove_dir_all(&group.servers[1].data_dir).unwrap();
    let leader = &group.servers[0];
    good(leader, "FLUSH BINARY LOGS");
    let newest = good(leader, "SHOW BINARY LOG STATUS").concat();
    let newest = newest.split('|').next().unwrap();
    good(leader, &format!("PURGE BINARY LOGS TO '{newest}'"));
    good(leader, "INSERT INTO d.t VALUES (3, 3)");
    group.servers[1].restart();
    group.compare();
    assert_eq!(good(&group.servers[1], "SELECT COUNT(*) FROM d.t"), ["3"]);
    group.servers[0].kill9();
    group.wait_leads(1);
    good(&group.servers[1], "INSERT INTO d.t VALUES (4, 4)");
}
