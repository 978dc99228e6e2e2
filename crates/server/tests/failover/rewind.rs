//! Members whose data the leader's log does not continue take a copy of the leader's.

use crate::group::{Group, GroupOptions, good};
use porpoise_testkit::sql;

fn uuid(group: &Group, server: usize) -> String {
    good(&group.servers[server], "SELECT @@server_uuid").concat()
}

#[test]
fn a_former_leader_gives_up_what_nobody_has_acknowledged() {
    let mut group = Group::start(&GroupOptions {
        has_network: true,
        ..GroupOptions::default()
    });
    good(&group.servers[0], "INSERT INTO d.t VALUES (1, 1)");
    let before = uuid(&group, 0);
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
    group.network.as_ref().unwrap().heal();
    for writer in writers {
        assert!(
            !writer.join().unwrap(),
            "a commit without an acknowledgement"
        );
    }
    group.compare();
    assert_eq!(
        good(&group.servers[0], "SELECT id FROM d.t ORDER BY id"),
        ["1", "4"]
    );
    assert_ne!(uuid(&group, 0), before, "identifiers are not given twice");
    let log = group.servers[0].log();
    assert!(log.contains("copies the leader's data"), "{log}");
    // It can lead again.
    group.servers[1].kill9();
    group.wait_leads(0);
    good(&group.servers[0], "INSERT INTO d.t VALUES (5, 1)");
    group.servers[1].restart();
    group.compare();
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
