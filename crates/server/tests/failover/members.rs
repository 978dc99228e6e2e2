//! Statements that members of a group permit and refuse, and takeovers by an operator.

use crate::group::{Group, GroupOptions, good};
use porpoise_testkit::{Porpoise, sql};
use std::process::{Command, Output};
use std::time::Duration;

fn promote(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .arg("promote")
        .args(arguments)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

#[test]
fn the_group_decides_which_server_takes_writes() {
    let mut group = Group::start(&GroupOptions::default());
    let follower = &group.servers[1];
    for (statement, error) in [
        ("INSERT INTO d.t VALUES (1, 1)", 1290),
        ("SET GLOBAL super_read_only = OFF", 1290),
        ("SET PERSIST read_only = OFF", 1290),
        ("STOP REPLICA", 3139),
        ("RESET REPLICA ALL", 3139),
        ("CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h'", 3139),
        ("SET GLOBAL replication_epoch = 0", 1231),
    ] {
        let output = follower.sql(statement);
        assert_eq!(
            output.error_number(),
            Some(error),
            "{statement}: {}",
            output.stderr
        );
    }
    let reply = follower.memcached("set c:a 0 0 1\r\n1\r\n");
    assert!(reply.starts_with("SERVER_ERROR"), "{reply}");
    assert_eq!(group.status(1, "role"), "FOLLOWER");
    assert_eq!(group.status(1, "leader"), "1");
    assert_eq!(group.status(0, "has_majority"), "ON");
    assert_eq!(group.status(0, "members_heard"), "1,2,3");
    let (_, metrics) = group.servers[0].http("/metrics");
    for metric in [
        "porpoise_failover_is_leader 1",
        "porpoise_failover_members_in_sync 2",
    ] {
        assert!(metrics.contains(metric), "{metric}: {metrics}");
    }
    // Planned: everything is there, and the former leader follows.
    good(&group.servers[0], "INSERT INTO d.t VALUES (1, 1)");
    let addresses: Vec<String> = group
        .servers
        .iter()
        .map(|s| s.mysql_addr.to_string())
        .collect();
    let output = promote(&["--standby", &addresses[1], "--primary", &addresses[0]]);
    assert!(output.status.success(), "{}", text(&output));
    group.wait_leads(1);
    good(&group.servers[1], "INSERT INTO d.t VALUES (2, 2)");
    group.compare();
    assert_eq!(
        good(&group.servers[0], "SELECT id FROM d.t ORDER BY id"),
        ["1", "2"]
    );
    // Without a majority no server takes writes.
    group.witness().kill9();
    group.servers[0].kill9();
    group.wait("the end of writes", || {
        let output = group.servers[1].sql("INSERT INTO d.t VALUES (3, 3)");
        (!output.is_ok).then_some(())
    });
    group.witness().restart();
    group.wait_leads(1);
    group.servers[0].restart();
    group.compare();
}

#[test]
fn a_server_that_missed_commits_leads_only_if_an_operator_wants_it() {
    let mut group = Group::start(&GroupOptions::default());
    group.servers[1].kill9();
    group.wait_until_in_sync("1");
    good(&group.servers[0], "INSERT INTO d.t VALUES (1, 1)");
    group.servers[0].kill9();
    group.servers[1].restart();
    // Several candidatures would fit into this time.
    std::thread::sleep(Duration::from_secs(6));
    assert!(!group.leads(1));
    assert_eq!(group.status(1, "role"), "CANDIDATE");
    let address = group.servers[1].mysql_addr.to_string();
    let output = promote(&["--standby", &address]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(good(&group.servers[1], "SELECT COUNT(*) FROM d.t"), ["0"]);
    good(&group.servers[1], "INSERT INTO d.t VALUES (2, 2)");
    group.servers[0].restart();
    group.compare();
    assert_eq!(good(&group.servers[0], "SELECT id FROM d.t"), ["2"]);
}

#[test]
fn with_replication_ack_no_commit_is_on_one_machine_only() {
    let mut group = Group::start(&GroupOptions {
        arguments: &[("--replication-ack", "1")],
        ..GroupOptions::default()
    });
    group.servers[1].kill9();
    group.wait_until_in_sync("1");
    let address = group.servers[0].mysql_addr;
    let writer = std::thread::spawn(move || sql(address, "INSERT INTO d.t VALUES (1, 1)").is_ok);
    group.wait("a commit that waits", || {
        let waiting = good(
            &group.servers[0],
            "SHOW STATUS LIKE 'Rpl_semi_sync_source_wait_sessions'",
        );
        (waiting.concat().ends_with("|1")).then_some(())
    });
    assert!(!writer.is_finished());
    group.servers[1].restart();
    assert!(writer.join().unwrap());
    group.compare();
}

#[test]
fn without_the_witness_commits_go_on_and_no_server_is_elected_alone() {
    let mut group = Group::start(&GroupOptions::default());
    group.witness().kill9();
    // Both servers are a majority of the three members.
    group.wait("the loss of the witness to be seen", || {
        (group.status(0, "members_heard") == "1,2").then_some(())
    });
    good(&group.servers[0], "INSERT INTO d.t VALUES (1, 1)");
    group.wait_in_sync();
    group.servers[0].kill9();
    // Several candidatures would fit into this time.
    std::thread::sleep(Duration::from_secs(5));
    assert!(!group.leads(1));
    let refused = group.servers[1].sql("INSERT INTO d.t VALUES (2, 2)");
    assert_eq!(refused.error_number(), Some(1290), "{}", refused.stderr);
    assert_eq!(good(&group.servers[1], "SELECT id FROM d.t"), ["1"]);
    group.witness().restart();
    group.wait_leads(1);
    good(&group.servers[1], "INSERT INTO d.t VALUES (3, 3)");
    group.servers[0].restart();
    group.compare();
}

#[test]
fn options_that_do_not_fit_together_are_refused() {
    let members = "1=127.0.0.1:3310/3306,2=127.0.0.1:3311/3307,3=127.0.0.1:3312";
    let cases: [(&[(&str, &str)], &str); 4] = [
        (
            &[("--failover-members", "1=a")],
            "a list of at most 9 members",
        ),
        (&[("--failover-members", members)], "--log-bin"),
        (
            &[("--failover-listen", "127.0.0.1:0")],
            "needs --failover-members",
        ),
        (&[("--failover-timeout", "1ms")], "at least 200ms"),
    ];
    for (options, message) in cases {
        let builder = options
            .iter()
            .fold(Porpoise::builder(), |builder, (option, value)| {
                builder.arg(option, value)
            });
        let finished = builder.run_to_end(Duration::from_secs(60));
        assert_eq!(finished.status.code(), Some(2), "{options:?}");
        assert!(finished.stderr.contains(message), "{}", finished.stderr);
    }
}
