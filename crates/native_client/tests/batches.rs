//! Batches: per row and atomic, conditions, unique keys, triggers, time limits.

use super::support::*;
use porpoise_native_client::{Batch, Connection, Outcome, ValueRef};
use std::time::Duration;

fn table_of_accounts() -> porpoise_testkit::Porpoise {
    let server = start();
    sql(
        &server,
        "create database d; use d; create table account (id int primary key, name varchar(20), balance int not null,
         changed timestamp null default null on update current_timestamp, unique key by_name (name));
         insert into account (id, name, balance) values (1, 'ann', 10), (2, 'bob', 20), (3, 'cid', 30)",
    );
    server
}

/// Executes insertions, and returns the generated id of each.
fn generated_ids(native: &mut Connection, insertions: &Batch) -> Vec<u64> {
    let reply = native.run(insertions).unwrap();
    reply
        .results()
        .map(|outcome| match outcome.unwrap() {
            Outcome::Written { generated_id, .. } => generated_id,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn operations_of_a_batch_fail_by_themselves() {
    let server = table_of_accounts();
    let mut native = connect(&server);
    let table = native.table("d", "account").unwrap();
    let insert = table
        .insert()
        .columns(&["id", "name", "balance"])
        .build()
        .unwrap();
    let mut rows = Vec::new();
    // Duplicates at both ends and in the middle, of rows before and of this batch.
    for id in [1, 4, 5, 2, 6, 4, 7] {
        rows.push([int(id), ValueRef::Null, int(id)]);
    }
    let rows: Vec<&[ValueRef<'_>]> = rows.iter().map(|row| row.as_slice()).collect();
    let reply = native.run(&batch(&insert, &rows)).unwrap();
    let expected = [
        "error 1062",
        "written",
        "written",
        "error 1062",
        "written",
        "error 1062",
        "written",
    ];
    assert_eq!(shown(&reply), expected);
    assert_eq!(
        sql(
            &server,
            "select group_concat(id order by id) from d.account"
        ),
        "1,2,3,4,5,6,7"
    );
}

#[test]
fn an_atomic_batch_takes_effect_whole_or_not_at_all() {
    let server = table_of_accounts();
    let mut native = connect(&server);
    let table = native.table("d", "account").unwrap();
    let insert = table
        .insert()
        .columns(&["id", "name", "balance"])
        .build()
        .unwrap();
    let add = table
        .update()
        .add_to("balance")
        .if_equals("name")
        .build()
        .unwrap();
    let mut transfer = Batch::atomic();
    transfer
        .push(&insert, &[int(9), text("new"), int(0)])
        .unwrap();
    transfer
        .push(&add, &[int(1), int(-5), text("ann")])
        .unwrap();
    transfer.push(&add, &[int(9), int(5), text("new")]).unwrap();
    let reply = native.run(&transfer).unwrap();
    assert_eq!(shown(&reply), ["written", "written", "written"]);
    assert_eq!(
        sql(
            &server,
            "select group_concat(balance order by id) from d.account"
        ),
        "5,20,30,5"
    );

    let mut transfer = Batch::atomic();
    transfer
        .push(&add, &[int(1), int(-5), text("ann")])
        .unwrap();
    transfer
        .push(&add, &[int(2), int(5), text("someone else")])
        .unwrap();
    transfer.push(&add, &[int(3), int(5), text("cid")]).unwrap();
    let reply = native.run(&transfer).unwrap();
    assert_eq!(shown(&reply), ["aborted", "condition", "aborted"]);
    let reply = native
        .run(&atomic(
            &insert,
            &[
                &[int(10), ValueRef::Null, int(0)],
                &[int(10), ValueRef::Null, int(0)],
            ],
        ))
        .unwrap();
    assert_eq!(shown(&reply), ["aborted", "error 1062"]);
    // A condition on a row that does not exist fails, too.
    let reply = native
        .run(&atomic(&add, &[&[int(77), int(1), text("x")]]))
        .unwrap();
    assert_eq!(shown(&reply), ["not found"]);
    assert_eq!(
        sql(
            &server,
            "select group_concat(balance order by id) from d.account"
        ),
        "5,20,30,5"
    );
}

#[test]
fn one_row_may_be_changed_several_times_in_a_batch() {
    let server = table_of_accounts();
    let mut native = connect(&server);
    let table = native.table("d", "account").unwrap();
    let add = table.update().add_to("balance").build().unwrap();
    let rows: Vec<[ValueRef<'_>; 2]> = (0..100).map(|n| [int(1 + n % 2), int(1)]).collect();
    let rows: Vec<&[ValueRef<'_>]> = rows.iter().map(|row| row.as_slice()).collect();
    let reply = native.run(&batch(&add, &rows)).unwrap();
    assert!(shown(&reply).iter().all(|result| result == "written"));
    assert_eq!(
        sql(
            &server,
            "select group_concat(balance order by id) from d.account"
        ),
        "60,70,30"
    );
    let too_much = native
        .run(&batch(&add, &[&[int(1), int(i64::from(i32::MAX))]]))
        .unwrap();
    assert_eq!(shown(&too_much), ["error 1264"]);
}

#[test]
fn an_operation_finds_the_key_that_an_earlier_one_has_written() {
    let server = table_of_accounts();
    sql(
        &server,
        "create table d.node (id int primary key, parent int, name varchar(10),
         foreign key (parent) references node (id) on delete cascade);
         insert into d.node values (1, null, 'a'), (2, 1, 'b'), (3, 2, 'c')",
    );
    let mut native = connect(&server);
    let table = native.table("d", "account").unwrap();
    let by_id = table.update().columns(&["id"]).build().unwrap();
    let moves: [&[ValueRef<'_>]; 4] = [
        &[int(1), int(10)],
        &[int(10), int(11)],
        &[int(2), int(1)],
        &[int(3), int(11)],
    ];
    let reply = native.run(&batch(&by_id, &moves)).unwrap();
    assert_eq!(
        shown(&reply),
        ["written", "written", "written", "error 1062"]
    );
    // A value that another row has given up.
    let names = table.update().columns(&["name"]).build().unwrap();
    let renames: [&[ValueRef<'_>]; 3] = [
        &[int(11), text("bob")],
        &[int(1), text("x")],
        &[int(11), text("bob")],
    ];
    let reply = native.run(&batch(&names, &renames)).unwrap();
    assert_eq!(shown(&reply), ["error 1062", "written", "written"]);
    assert_eq!(
        sql(&server, "select id, name from d.account order by id"),
        "1\tx\n3\tcid\n11\tbob"
    );
    // A row that an earlier operation has removed by cascade.
    let nodes = native.table("d", "node").unwrap();
    let delete = nodes.delete().build().unwrap();
    let reply = native.run(&batch(&delete, &[&[int(2)], &[int(3)], &[int(1)]]));
    assert_eq!(shown(&reply.unwrap()), ["written", "not found", "written"]);
}

#[test]
fn rows_are_found_by_unique_keys() {
    let server = table_of_accounts();
    let mut native = connect(&server);
    let table = native.table("d", "account").unwrap();
    let read = table
        .read()
        .by("by_name")
        .columns(&["id", "balance"])
        .build()
        .unwrap();
    let reply = native
        .run(&batch(
            &read,
            &[&[text("BOB")], &[text("none")], &[text("ann")]],
        ))
        .unwrap();
    assert_eq!(shown(&reply), ["row 2 20", "not found", "row 1 10"]);
    let update = table
        .update()
        .by("by_name")
        .columns(&["balance"])
        .build()
        .unwrap();
    let delete = table.delete().by("by_name").build().unwrap();
    let mut both = Batch::new();
    both.push(&update, &[text("cid"), int(31)]).unwrap();
    both.push(&delete, &[text("ann")]).unwrap();
    assert_eq!(shown(&native.run(&both).unwrap()), ["written", "written"]);
    assert_eq!(
        sql(&server, "select id, balance from d.account"),
        "2\t20\n3\t31"
    );
}

#[test]
fn an_upsert_inserts_or_changes() {
    let server = table_of_accounts();
    let mut native = connect(&server);
    let table = native.table("d", "account").unwrap();
    let upsert = table
        .upsert()
        .columns(&["id", "name", "balance"])
        .build()
        .unwrap();
    let rows: [&[ValueRef<'_>]; 5] = [
        &[int(2), text("bob"), int(21)],
        &[int(8), text("new"), int(80)],
        // The other unique key belongs to another row.
        &[int(9), text("ann"), int(90)],
        &[int(8), text("new"), int(81)],
        &[int(3), text("cid"), int(30)],
    ];
    let reply = native.run(&batch(&upsert, &rows)).unwrap();
    assert_eq!(
        shown(&reply),
        ["written", "written", "error 1062", "written", "written"]
    );
    let expected = "1\tann\t10\n2\tbob\t21\n3\tcid\t30\n8\tnew\t81";
    assert_eq!(
        sql(
            &server,
            "select id, name, balance from d.account order by id"
        ),
        expected
    );
}

#[test]
fn a_row_that_stays_the_same_keeps_its_version() {
    let server = table_of_accounts();
    let mut native = connect(&server);
    let table = native.table("d", "account").unwrap();
    let read = table
        .read()
        .columns(&["balance"])
        .with_version()
        .build()
        .unwrap();
    let update = table
        .update()
        .columns(&["balance"])
        .with_version()
        .build()
        .unwrap();
    let before = version(&native.run(&batch(&read, &[&[int(1)]])).unwrap());
    assert_eq!(
        version(&native.run(&batch(&update, &[&[int(1), int(10)]])).unwrap()),
        before
    );
    assert_eq!(
        sql(
            &server,
            "select changed is null from d.account where id = 1"
        ),
        "1"
    );
    let after = version(&native.run(&batch(&update, &[&[int(1), int(11)]])).unwrap());
    assert_ne!(after, before);
    assert_eq!(
        version(&native.run(&batch(&read, &[&[int(1)]])).unwrap()),
        after
    );
    assert_eq!(
        sql(
            &server,
            "select changed is null from d.account where id = 1"
        ),
        "0"
    );
}

#[test]
fn generated_ids_and_triggers_are_as_in_sql() {
    let server = start();
    sql(
        &server,
        "create database d; use d; create table log (n int auto_increment primary key, what varchar(20));
         create table t (id bigint auto_increment primary key, v int default 7);
         create trigger t_log after insert on t for each row insert into log (what) values (new.v)",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let insert = table
        .insert()
        .columns(&["v"])
        .with_generated_id()
        .build()
        .unwrap();
    let ids = generated_ids(&mut native, &batch(&insert, &[&[int(1)], &[int(2)]]));
    assert_eq!(ids, [1, 2]);
    assert_eq!(sql(&server, "select group_concat(what) from d.log"), "1,2");
}

#[test]
fn triggers_fire_for_rows_that_stay_the_same() {
    let server = start();
    sql(
        &server,
        "create database d; use d; create table log (n int auto_increment primary key, what varchar(20));
         create table t (id int primary key, v int, w int default 0); insert into t values (1, 1, 0), (2, 2, 0);
         create trigger t_before before update on t for each row set new.w = if(new.id = 2, 9, new.w);
         create trigger t_after after update on t for each row insert into log (what) values (concat(old.id, ':', new.w))",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let read = table.read().with_version().build().unwrap();
    let update = table.update().columns(&["v"]).with_version().build();
    let update = update.unwrap();
    let of =
        |native: &mut Connection, id| version(&native.run(&batch(&read, &[&[int(id)]])).unwrap());
    let before = [of(&mut native, 1), of(&mut native, 2)];
    let reply = native.run(&batch(&update, &[&[int(1), int(1)], &[int(2), int(2)]]));
    let reply = reply.unwrap();
    assert_eq!(
        sql(&server, "select group_concat(what) from d.log"),
        "1:0,2:9"
    );
    let told: Vec<u64> = reply
        .results()
        .map(|outcome| match outcome.unwrap() {
            Outcome::Written { version, .. } => version,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [of(&mut native, 1), of(&mut native, 2)]);
    assert_eq!(told[0], before[0]);
    assert_ne!(told[1], before[1]);
}

#[test]
fn a_shape_that_makes_no_sense_is_refused() {
    let server = table_of_accounts();
    let mut native = connect(&server);
    let table = native.table("d", "account").unwrap();
    let twice = table.read().columns(&["name", "NAME"]).build().unwrap();
    let error = native.run(&batch(&twice, &[&[int(1)]])).unwrap_err();
    assert_eq!(error.code(), Some(1110));
    let scan = table.scan().columns(&["id", "id"]);
    assert_eq!(native.scan(&scan, &[]).unwrap_err().code(), Some(1110));
    let condition = table.insert().columns(&["id"]).if_version();
    let condition = condition.build().unwrap();
    let mut rows = Batch::new();
    rows.push(&condition, &[ValueRef::UInt(1), int(9)]).unwrap();
    assert_eq!(native.run(&rows).unwrap_err().code(), Some(1235));
}

#[test]
fn a_batch_ends_at_its_time_limit() {
    let server = table_of_accounts();
    let mut holder = connect(&server);
    let mut native = connect(&server);
    let table = native.table("d", "account").unwrap();
    let update = table.update().columns(&["balance"]).build().unwrap();
    holder.begin(Default::default()).unwrap();
    holder.run(&batch(&update, &[&[int(1), int(0)]])).unwrap();
    let mut late = batch(&update, &[&[int(1), int(1)]]);
    late.set_time_limit(Duration::from_millis(100));
    let begin = std::time::Instant::now();
    assert_eq!(native.run(&late).unwrap_err().code(), Some(3024));
    assert!(begin.elapsed() < Duration::from_secs(10));
    holder.commit().unwrap();
    assert_eq!(shown(&native.run(&late).unwrap()), ["written"]);
}

#[test]
fn a_large_answer_is_sent_in_frames_and_long_values_arrive() {
    let server = start();
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v longtext);
         insert into d.t values (1, repeat('a', 3000000)), (2, repeat('b', 100)), (3, repeat('c', 2000000))",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let read = table.read().columns(&["v"]).build().unwrap();
    let rows: Vec<[ValueRef<'_>; 1]> = (0..40).map(|n| [int(n % 4)]).collect();
    let rows: Vec<&[ValueRef<'_>]> = rows.iter().map(|row| row.as_slice()).collect();
    let reply = native.run(&batch(&read, &rows)).unwrap();
    let lengths: Vec<usize> = reply
        .results()
        .map(|outcome| match outcome.unwrap() {
            Outcome::Row { values, .. } => match values.first().unwrap() {
                ValueRef::Bytes(text) => text.len(),
                _ => panic!(),
            },
            _ => 0,
        })
        .collect();
    assert_eq!(lengths[..4], [0, 3_000_000, 100, 2_000_000]);
    assert_eq!(lengths.len(), 40);
}

/// One server of a cluster stores rows with ids that the other has reserved.
#[test]
fn inserts_of_the_native_protocol_pass_over_ids_that_another_server_stored() {
    let store = porpoise_testkit::TikvCluster::start();
    let [one, two] = [(); 2].map(|()| builder().arg("--engine", store.engine()).start());
    sql(
        &one,
        "create database d; create table d.t (id bigint auto_increment primary key, v int); insert into d.t (v) values (1)",
    );
    sql(&two, "insert into d.t values (2, 0), (4, 0)");
    let mut native = connect(&one);
    let table = native.table("d", "t").unwrap();
    let insert = table.insert().columns(&["v"]).with_generated_id();
    let insert = insert.build().unwrap();
    let ids = generated_ids(
        &mut native,
        &batch(&insert, &[&[int(1)], &[int(2)], &[int(3)]]),
    );
    let stored = sql(
        &two,
        "select group_concat(id order by v, id) from d.t where v > 0",
    );
    let told: Vec<String> = ids.iter().map(u64::to_string).collect();
    assert_eq!(stored, format!("1,{}", told.join(",")));
}
