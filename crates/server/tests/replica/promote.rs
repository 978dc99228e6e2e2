//! `porpoise promote`, planned and after the loss of the source; a former source that comes back.

use super::standby::{TABLES, WAIT, catch_up, create_account, follow, good, start};
use porpoise_testkit::{Porpoise, exchange};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

fn promote(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .arg("promote")
        .args(arguments)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    let text = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// A source, and a standby that acknowledges its commits.
fn pair() -> (Porpoise, Porpoise) {
    let (source, standby) = (start("1"), start("2"));
    for server in [&source, &standby] {
        create_account(server);
    }
    follow(&standby, &source);
    good(&source, TABLES);
    catch_up(&standby, &source);
    good(&source, "ALTER TABLE d.cached MEMCACHED PREFIX 'c:'");
    catch_up(&standby, &source);
    good(&standby, "SET PERSIST super_read_only = ON");
    good(&source, "SET GLOBAL rpl_semi_sync_source_enabled = ON");
    (source, standby)
}

#[test]
fn a_planned_promotion_loses_no_commit_and_the_former_source_follows() {
    let (mut source, mut standby) = pair();
    let (acknowledged, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let address = source.memcached_addr;
    let output = thread::scope(|scope| {
        for writer in 0..2 {
            let (acknowledged, stop) = (&acknowledged, &stop);
            scope.spawn(move || {
                for n in 0.. {
                    let request = format!("set c:{writer}-{n} 0 0 1\r\n1\r\n");
                    match &exchange(address, request.as_bytes())[..] {
                        b"STORED\r\n" => acknowledged.fetch_add(1, Ordering::SeqCst),
                        reply => {
                            let reply = String::from_utf8_lossy(reply).into_owned();
                            assert!(reply.starts_with("SERVER_ERROR"), "{reply}");
                            return;
                        }
                    };
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
        source.wait_for("commits", WAIT, || {
            (acknowledged.load(Ordering::SeqCst) >= 30).then_some(())
        });
        let standby = standby.mysql_addr.to_string();
        let primary = source.mysql_addr.to_string();
        let output = promote(&["--standby", &standby, "--primary", &primary]);
        stop.store(true, Ordering::SeqCst);
        output
    });
    assert!(output.status.success(), "{}", text(&output));
    let count = acknowledged.load(Ordering::SeqCst).to_string();
    assert_eq!(good(&standby, "SELECT COUNT(*) FROM d.cached"), [count]);
    good(&standby, "INSERT INTO d.t VALUES (1, 1)");
    assert_eq!(
        source.sql("INSERT INTO d.t VALUES (2, 2)").error_number(),
        Some(1290)
    );
    // The standby announces the epoch to it.
    source.wait_for("the epoch", WAIT, || {
        (good(&source, "SELECT @@replication_epoch") == ["1"]).then_some(())
    });
    // Both keep their roles across a restart.
    source.restart();
    standby.restart();
    assert_eq!(
        good(&standby, "SELECT @@super_read_only, @@replication_epoch"),
        ["0|1"]
    );
    assert_eq!(
        good(&source, "SELECT @@super_read_only, @@replication_epoch"),
        ["1|1"]
    );
    good(&standby, "INSERT INTO d.t VALUES (3, 3)");
    follow(&source, &standby);
    catch_up(&source, &standby);
    assert_eq!(good(&source, "SELECT * FROM d.t"), ["1|1", "3|3"]);
}

#[test]
fn a_source_that_was_lost_refuses_writes_once_it_meets_the_new_epoch() {
    let (mut source, standby) = pair();
    good(&source, "INSERT INTO d.t VALUES (1, 1)");
    source.kill9();
    let address = standby.mysql_addr.to_string();
    let output = promote(&["--standby", &address]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("epoch 1"), "{}", text(&output));
    assert_eq!(good(&standby, "SELECT * FROM d.t"), ["1|1"]);
    good(&standby, "INSERT INTO d.t VALUES (2, 2)");
    // The source is back at another address, does not know the epoch, and accepts a write that no replica acknowledges.
    source.restart();
    good(&source, "INSERT INTO d.t VALUES (9, 9)");
    create_account(&source);
    follow(&source, &standby);
    let status = source.wait_for("the refusal", WAIT, || {
        let status = good(&source, "SHOW REPLICA STATUS")[0].clone();
        status
            .contains("transactions that the source lacks")
            .then_some(status)
    });
    let uuid = good(&source, "SELECT @@server_uuid").concat();
    assert!(status.contains(&format!("lacks: {uuid}:")), "{status}");
    assert_eq!(
        good(&source, "SELECT @@super_read_only, @@replication_epoch"),
        ["1|1"]
    );
    assert_eq!(
        source.sql("INSERT INTO d.t VALUES (10, 10)").error_number(),
        Some(1290)
    );
    // The promoted server follows no source of an earlier epoch, and setting an old epoch is refused.
    let output = standby.sql("SET GLOBAL replication_epoch = 1");
    assert_eq!(output.error_number(), Some(1231), "{}", output.stderr);
    let output = promote(&["--standby", "127.0.0.1:1"]);
    assert!(!output.status.success());
}

#[test]
fn without_acknowledgements_a_lost_source_takes_what_no_replica_has_read_with_it() {
    let (mut source, standby) = pair();
    good(
        &source,
        "SET GLOBAL rpl_semi_sync_source_enabled = OFF; INSERT INTO d.t VALUES (1, 1)",
    );
    catch_up(&standby, &source);
    good(&standby, "STOP REPLICA");
    good(&source, "INSERT INTO d.t VALUES (2, 2)");
    source.kill9();
    let address = standby.mysql_addr.to_string();
    let output = promote(&["--standby", &address]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(good(&standby, "SELECT * FROM d.t"), ["1|1"]);
}
