//! Transactions of several batches.

use super::support::*;
use porpoise_native_client::{Batch, Isolation, ValueRef};

fn counters() -> porpoise_testkit::Porpoise {
    let server = start();
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v int not null); insert into d.t values (1, 0), (2, 0)",
    );
    server
}

#[test]
fn a_transaction_is_seen_by_others_after_its_commit() {
    let server = counters();
    let (mut one, mut two) = (connect(&server), connect(&server));
    let table = one.table("d", "t").unwrap();
    let read = table.read().columns(&["v"]).build().unwrap();
    let update = table.update().columns(&["v"]).build().unwrap();
    let insert = table.insert().columns(&["id", "v"]).build().unwrap();
    one.begin(Isolation::Snapshot).unwrap();
    one.run(&batch(&update, &[&[int(1), int(7)]])).unwrap();
    let failed = one
        .run(&batch(&insert, &[&[int(3), int(3)], &[int(2), int(2)]]))
        .unwrap();
    assert_eq!(shown(&failed), ["written", "error 1062"]);
    let undone = one
        .run(&atomic(&insert, &[&[int(4), int(4)], &[int(2), int(2)]]))
        .unwrap();
    assert_eq!(shown(&undone), ["aborted", "error 1062"]);
    assert_eq!(
        shown(
            &one.run(&batch(&read, &[&[int(1)], &[int(3)], &[int(4)]]))
                .unwrap()
        ),
        ["row 7", "row 3", "not found"]
    );
    assert_eq!(
        shown(&two.run(&batch(&read, &[&[int(1)]])).unwrap()),
        ["row 0"]
    );
    one.commit().unwrap();
    assert_eq!(
        shown(&two.run(&batch(&read, &[&[int(1)]])).unwrap()),
        ["row 7"]
    );
    two.begin(Isolation::Snapshot).unwrap();
    two.run(&batch(&update, &[&[int(1), int(8)]])).unwrap();
    two.rollback().unwrap();
    assert_eq!(
        shown(&one.run(&batch(&read, &[&[int(1)]])).unwrap()),
        ["row 7"]
    );
    assert!(one.commit().is_err());
}

#[test]
fn a_write_of_a_row_changed_since_the_snapshot_is_a_conflict() {
    let server = counters();
    let (mut one, mut two) = (connect(&server), connect(&server));
    let table = one.table("d", "t").unwrap();
    let read = table.read().columns(&["v"]).build().unwrap();
    let add = table.update().add_to("v").build().unwrap();
    one.begin(Isolation::Snapshot).unwrap();
    one.run(&batch(&read, &[&[int(1)]])).unwrap();
    two.run(&batch(&add, &[&[int(1), int(1)]])).unwrap();
    assert_eq!(
        shown(&one.run(&batch(&read, &[&[int(1)]])).unwrap()),
        ["row 0"]
    );
    let error = one.run(&batch(&add, &[&[int(1), int(1)]])).unwrap_err();
    assert!(error.is_conflict(), "{error}");
    // The transaction is over.
    assert_eq!(one.commit().unwrap_err().code(), Some(1399));
    assert_eq!(sql(&server, "select v from d.t where id = 1"), "1");
}

#[test]
fn requests_behind_a_rollback_do_not_take_effect_outside_of_the_transaction() {
    let server = counters();
    let (mut one, mut two) = (connect(&server), connect(&server));
    let table = one.table("d", "t").unwrap();
    let read = table.read().columns(&["v"]).build().unwrap();
    let add = table.update().add_to("v").build().unwrap();
    one.begin(Isolation::Snapshot).unwrap();
    one.run(&batch(&read, &[&[int(1)]])).unwrap();
    two.run(&batch(&add, &[&[int(1), int(1)]])).unwrap();
    // Sent before the answer to the first one says that the transaction is over.
    one.send(&batch(&add, &[&[int(1), int(1)]])).unwrap();
    one.send(&batch(&add, &[&[int(2), int(1)]])).unwrap();
    assert!(one.receive().unwrap_err().is_conflict());
    assert!(one.receive().unwrap_err().is_conflict());
    assert!(one.scan(&table.scan(), &[]).unwrap_err().is_conflict());
    assert_eq!(sql(&server, "select group_concat(v) from d.t"), "1,0");
    one.rollback().unwrap();
    one.run(&batch(&add, &[&[int(2), int(1)]])).unwrap();
    assert_eq!(sql(&server, "select group_concat(v) from d.t"), "1,1");
}

#[test]
fn a_snapshot_does_not_show_rows_by_a_later_definition() {
    let server = counters();
    let mut one = connect(&server);
    let table = one.table("d", "t").unwrap();
    let other = "create table d.other (id int primary key, v int) as select id, v from d.t";
    sql(&server, other);
    let read = table.read().columns(&["v"]).build().unwrap();
    let before = one.table("d", "other").unwrap();
    one.begin(Isolation::Snapshot).unwrap();
    one.run(&batch(&read, &[&[int(1)]])).unwrap();
    sql(&server, "alter table d.other modify id bigint");
    let after = one.table("d", "other").unwrap();
    assert_ne!(before.version, after.version);
    let read = after.read().columns(&["v"]).build().unwrap();
    let error = one.run(&batch(&read, &[&[int(1)]])).unwrap_err();
    assert!(error.is_stale(), "{error}");
    assert!(one.scan(&after.scan(), &[]).unwrap_err().is_stale());
    one.rollback().unwrap();
    assert_eq!(
        shown(&one.run(&batch(&read, &[&[int(1)]])).unwrap()),
        ["row 0"]
    );
}

#[test]
fn the_global_read_lock_waits_for_requests_and_holds_off_commits() {
    let server = counters();
    let mut one = connect(&server);
    let table = one.table("d", "t").unwrap();
    let add = table.update().add_to("v").build().unwrap();
    one.begin(Isolation::Snapshot).unwrap();
    one.run(&batch(&add, &[&[int(1), int(1)]])).unwrap();
    std::thread::scope(|scope| {
        // An open transaction between two requests does not hold the lock off.
        let locked = scope.spawn(|| {
            sql(
                &server,
                "set lock_wait_timeout = 10; flush tables with read lock; select sleep(2); select v from d.t where id = 1; select sleep(1); select v from d.t where id = 1",
            )
        });
        let list = "select count(*) from information_schema.processlist where info like '%sleep(2)%' and info not like '%processlist%'";
        server.wait_for("the lock", std::time::Duration::from_secs(10), || {
            (sql(&server, list) == "1").then_some(())
        });
        one.commit().unwrap();
        assert_eq!(locked.join().unwrap(), "0\n0\n0\n0");
    });
    assert_eq!(sql(&server, "select v from d.t where id = 1"), "1");
}

#[test]
fn rows_read_for_update_are_locked() {
    let server = counters();
    let mut one = connect(&server);
    let table = one.table("d", "t").unwrap();
    let lock = table.read().columns(&["v"]).for_update().build().unwrap();
    one.begin(Isolation::Snapshot).unwrap();
    assert_eq!(
        shown(&one.run(&batch(&lock, &[&[int(1)]])).unwrap()),
        ["row 0"]
    );
    let refused = server.sql("set innodb_lock_wait_timeout = 1; update d.t set v = 5 where id = 1");
    assert_eq!(refused.error_number(), Some(1205));
    // The connection's end releases the locks.
    drop(one);
    sql(&server, "update d.t set v = 5 where id = 1");
}

#[test]
fn concurrent_increments_are_not_lost() {
    let server = counters();
    let target = target(&server, "root", "");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut native = porpoise_native_client::Connection::connect(&target).unwrap();
                let table = native.table("d", "t").unwrap();
                let add = table.update().add_to("v").build().unwrap();
                for n in 0..100 {
                    // In both orders, so that deadlocks arise, which the server retries.
                    let (a, b) = if n % 2 == 0 { (1, 2) } else { (2, 1) };
                    let mut both = Batch::atomic();
                    both.push(&add, &[int(a), int(1)]).unwrap();
                    both.push(&add, &[int(b), ValueRef::Int(1)]).unwrap();
                    let reply = native.run(&both).unwrap();
                    assert_eq!(shown(&reply), ["written", "written"]);
                }
            });
        }
    });
    assert_eq!(sql(&server, "select group_concat(v) from d.t"), "400,400");
}
